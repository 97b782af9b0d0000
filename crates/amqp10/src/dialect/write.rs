//! Messages as they are delivered: those of this protocol with their bare message as it came, those
//! of others made from the neutral view.

use broker::{Error, Id, Overlay, Properties};

use super::address::of_queue;
use super::neutral::{APP_ID, GROUP_ID, GROUP_SEQUENCE, KIND, is_annotation};
use super::stored::{Rest, Stored, unreadable};
use super::values::from_neutral;
use crate::codec::message::{self, Header};
use crate::codec::{Encode, Map, MessageId, Section, Symbol, Timestamp, Value};

/// What a delivery says of its message besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acquired<'a> {
    /// How many deliveries of it failed.
    pub failed: u32,
    /// Whether it was never acquired before.
    pub first: bool,
    /// What is left of its time to live, in milliseconds (part 3, §3.2.1). `None` leaves it as its
    /// publisher said.
    pub ttl: Option<u32>,
    /// Where it was published, for receivers that want to know.
    pub origin: Option<Origin<'a>>,
}

/// Where a message was published. RabbitMQ says so to each receiver, and its client of Python fails
/// for a message without annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The exchange; empty for the default one.
    pub exchange: &'a str,
    /// The routing key.
    pub routing_key: &'a str,
}

/// The annotations of an origin.
const ORIGIN: [&str; 2] = ["x-exchange", "x-routing-key"];

impl Origin<'_> {
    fn pairs(self) -> [(Value, Value); 2] {
        let [exchange, routing_key] = ORIGIN.map(symbol);
        let text = |text: &str| Value::Str(text.to_owned());
        [(exchange, text(self.exchange)), (routing_key, text(self.routing_key))]
    }
}

impl Acquired<'_> {
    fn mark(self, header: Header) -> Header {
        let ttl = header.ttl.map(|ttl| self.ttl.unwrap_or(ttl));
        Header { first_acquirer: self.first, delivery_count: self.failed, ttl, ..header }
    }
}

/// Appends a message of this protocol: its stored form and its body, with what the broker adds.
///
/// # Errors
/// If the stored form is damaged.
pub fn write_stored(
    properties: &[u8],
    body: &[u8],
    overlay: Option<&Overlay>,
    acquired: Acquired<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    begin_stored(properties, body, overlay, acquired, out).map(|rest| rest.write(out))
}

/// The same up to the last bytes of the body, which are returned.
#[inline]
pub(crate) fn begin_stored<'a>(
    properties: &'a [u8],
    body: &'a [u8],
    overlay: Option<&Overlay>,
    acquired: Acquired<'_>,
    out: &mut Vec<u8>,
) -> Result<Rest<'a>, Error> {
    let stored = Stored::read(properties)?;
    let sections = stored.sections()?;
    let mut header = acquired.mark(sections.header().map_err(unreadable)?);
    if overlay.is_some_and(Overlay::takes_expiration) {
        header.ttl = None;
    }
    header.put(out);
    if acquired.origin.is_some() || overlay.is_some_and(|overlay| !overlay.headers().is_empty()) {
        write_annotations(sections.message_annotations(), overlay, acquired.origin, out);
    } else {
        out.extend_from_slice(sections.annotations_section);
    }
    out.extend_from_slice(sections.bare);
    stored.write_pieces(body, out)
}

/// Appends the annotations with what the broker adds, which replaces what its publisher said.
fn write_annotations(kept: Map<'_>, overlay: Option<&Overlay>, origin: Option<Origin<'_>>, out: &mut Vec<u8>) {
    let added = overlay.map_or(&[][..], Overlay::headers);
    let covers = |name: &str| {
        let is_added = overlay.is_some_and(|overlay| !added.is_empty() && overlay.covers(name));
        is_added || origin.is_some() && ORIGIN.contains(&name)
    };
    let kept = kept.iter().filter(|(key, _)| !key.as_text().is_some_and(covers));
    let mut pairs: Vec<(Value, Value)> = kept.map(|(key, value)| (key.into(), value.into())).collect();
    pairs.extend(added.iter().map(|(name, value)| (symbol(name), from_neutral(value))));
    pairs.extend(origin.into_iter().flat_map(Origin::pairs));
    Section::MessageAnnotations.encode(&Value::Map(pairs), out);
}

/// Appends a message of another protocol, from the neutral view of its properties.
pub fn write_neutral(properties: &Properties, body: &[u8], acquired: Acquired<'_>, out: &mut Vec<u8>) {
    begin_neutral(properties, body.len(), acquired, out);
    out.extend_from_slice(body);
}

/// The same up to the body, which has so many bytes.
pub(crate) fn begin_neutral(properties: &Properties, body: usize, acquired: Acquired<'_>, out: &mut Vec<u8>) {
    let header = Header {
        durable: properties.persistent,
        priority: properties.priority,
        ttl: properties.expiration.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
        ..Header::default()
    };
    acquired.mark(header).encode(out);
    let (mut annotations, application) = headers(properties);
    if let Some(origin) = acquired.origin {
        annotations.retain(|(name, _)| !matches!(name, Value::Symbol(name) if ORIGIN.contains(&&**name)));
        annotations.extend(origin.pairs());
    }
    if !annotations.is_empty() {
        Section::MessageAnnotations.encode(&Value::Map(annotations), out);
    }
    write_properties(properties, out);
    if !application.is_empty() {
        Section::ApplicationProperties.encode(&Value::Map(application), out);
    }
    Section::encode_data_head(body, out);
}

fn symbol(name: &str) -> Value {
    Value::Symbol(name.to_owned())
}

type Pairs = Vec<(Value, Value)>;

/// The headers as annotations and as properties of the application, which may be of simple types
/// only (part 3, §3.2.5). The group has properties of its own.
fn headers(properties: &Properties) -> (Pairs, Pairs) {
    let (mut annotations, mut application) = (Vec::new(), Vec::new());
    for (name, value) in &properties.headers.0 {
        let compound = matches!(value, broker::Value::Array(_) | broker::Value::Table(_));
        match name.as_str() {
            GROUP_ID if group_id(properties).is_some() => {}
            GROUP_SEQUENCE if group_sequence(properties).is_some() => {}
            // An annotation's key is a symbol.
            name if (compound || is_annotation(name)) && name.is_ascii() => {
                annotations.push((symbol(name), from_neutral(value)));
            }
            _ if compound => {}
            name => application.push((Value::Str(name.to_owned()), from_neutral(value))),
        }
    }
    for (name, text) in [(KIND, &properties.kind), (APP_ID, &properties.app_id)] {
        annotations.extend(text.as_ref().map(|text| (symbol(name), Value::Str(text.clone()))));
    }
    (annotations, application)
}

fn group_id(properties: &Properties) -> Option<&str> {
    properties.headers.0.iter().find(|(name, _)| name == GROUP_ID)?.1.as_text()
}

fn group_sequence(properties: &Properties) -> Option<u32> {
    let (_, value) = properties.headers.0.iter().find(|(name, _)| name == GROUP_SEQUENCE)?;
    u32::try_from(value.as_integer()?).ok()
}

fn write_properties(properties: &Properties, out: &mut Vec<u8>) {
    // A symbol can't hold another text.
    let ascii = |text: &'_ Option<String>| text.as_ref().filter(|text| text.is_ascii()).cloned();
    let (content_type, content_encoding) = (ascii(&properties.content_type), ascii(&properties.content_encoding));
    let reply_to = properties.reply_to.as_deref().map(address);
    let section = message::Properties {
        message_id: properties.message_id.as_ref().map(id),
        user_id: properties.user_id.as_deref().map(str::as_bytes),
        to: None,
        subject: properties.kind.as_deref(),
        reply_to: reply_to.as_deref(),
        correlation_id: properties.correlation_id.as_ref().map(id),
        content_type: content_type.as_deref().map(Symbol),
        content_encoding: content_encoding.as_deref().map(Symbol),
        absolute_expiry_time: None,
        creation_time: properties.timestamp.map(Timestamp),
        group_id: group_id(properties),
        group_sequence: group_sequence(properties),
        reply_to_group_id: None,
    };
    if section != message::Properties::default() {
        section.encode(out);
    }
}

/// The address for replies. What begins with a slash is an address already.
fn address(reply_to: &str) -> String {
    if reply_to.starts_with('/') { reply_to.to_owned() } else { of_queue(reply_to) }
}

fn id(id: &Id) -> MessageId<'_> {
    match id {
        Id::Text(text) => MessageId::Text(text),
        Id::Number(number) => MessageId::Number(*number),
        Id::Uuid(bits) => MessageId::Uuid(*bits),
        Id::Bytes(bytes) => MessageId::Binary(bytes),
    }
}
