//! A message as it is handed to the broker: checked, and in its stored form.

use std::borrow::Cow;

use broker::{Error, LONGEST_SPAN_MS, TIME_WANTED, is_instruction};
use wire::Reader;

use super::stored::{self, BodyKind};
use crate::codec::value::shallow;
use crate::codec::{Body, Message, ValueRef};

/// The priority of a message that says none (part 3, §3.2.1).
const DEFAULT_PRIORITY: u8 = 4;

/// What a publish needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published<'a> {
    /// The stored form of all but the body.
    pub properties: Vec<u8>,
    /// The body that other protocols see. It is copied only if it came in several sections.
    pub body: Cow<'a, [u8]>,
    /// Whether it has to survive a restart.
    pub persistent: bool,
    /// Its rank in a queue with priorities.
    pub priority: u8,
    /// Its time to live in milliseconds.
    pub expiration: Option<u64>,
    /// Whether it has headers with instructions for the broker.
    pub instructed: bool,
    /// Where its publisher wants it to go, if the link says nothing of that.
    pub to: Option<&'a str>,
    /// The routing key, where an address leaves it to the message.
    pub subject: Option<&'a str>,
    /// The user that its publisher says it is.
    pub user_id: Option<&'a [u8]>,
    /// Whether `to` is a topic, as a JMS client says.
    pub to_topic: bool,
}

/// The annotation by which a JMS client says what `to` is: 0 a queue, 1 a topic, 2 and 3 temporary
/// ones.
const KIND_OF_TO: &str = "x-opt-jms-dest";

/// Checks a message that arrives at `now`, in milliseconds since 1970.
///
/// # Errors
/// If a section is malformed, or it expires too late.
pub fn publish(bytes: &[u8], now: u64) -> Result<Published<'_>, Error> {
    let message =
        Message::decode(bytes).map_err(|error| Error::precondition(format!("the message cannot be read: {error}")))?;
    published(&message, || now, Vec::new())
}

/// The same of a message whose sections are found. The clock is asked only where the message says
/// when it expires. The stored form is written over what is in `room`.
///
/// # Errors
/// If it expires too late.
#[inline]
pub fn published<'a>(message: &Message<'a>, now: impl FnOnce() -> u64, room: Vec<u8>) -> Result<Published<'a>, Error> {
    let header = message.header.unwrap_or_default();
    let mut properties = room;
    let body = store(message, &mut properties);
    let given = message.properties.as_ref();
    let to = given.and_then(|given| given.to);
    Ok(Published {
        properties,
        body,
        persistent: header.durable,
        priority: header.priority.unwrap_or(DEFAULT_PRIORITY),
        expiration: expiration(message, now)?,
        instructed: instructed(message),
        to,
        subject: given.and_then(|given| given.subject),
        user_id: given.and_then(|given| given.user_id),
        to_topic: to.is_some() && goes_to_topic(message),
    })
}

/// Whether a JMS client says that `to` is a topic.
fn goes_to_topic(message: &Message<'_>) -> bool {
    let kind = message.message_annotations.into_iter().flat_map(|map| map.iter());
    let kind = kind.filter(|(key, _)| key.as_text() == Some(KIND_OF_TO)).find_map(|(_, kind)| kind.as_integer());
    matches!(kind, Some(1 | 3))
}

/// The time to live. If there is a time of death too, the earlier end counts.
fn expiration(message: &Message<'_>, now: impl FnOnce() -> u64) -> Result<Option<u64>, Error> {
    let ttl = message.header.and_then(|header| header.ttl).map(u64::from);
    let Some(at) = message.properties.as_ref().and_then(|properties| properties.absolute_expiry_time) else {
        return Ok(ttl);
    };
    let left = u64::try_from(at.0).unwrap_or(0).saturating_sub(now());
    if left > LONGEST_SPAN_MS {
        let wanted = format!("absolute-expiry-time must be {TIME_WANTED}, not {}", at.0);
        return Err(Error::precondition(wanted));
    }
    Ok(Some(ttl.map_or(left, |ttl| ttl.min(left))))
}

/// Whether an annotation or a property of the application tells the broker what to do.
fn instructed(message: &Message<'_>) -> bool {
    let maps = [message.message_annotations, message.application_properties];
    let mut names = maps.into_iter().flatten().flat_map(|map| map.iter()).filter_map(|(key, _)| key.as_text());
    names.any(is_instruction)
}

/// Writes the stored form, and returns the body. Annotations for this peer alone end here.
fn store<'a>(message: &Message<'a>, out: &mut Vec<u8>) -> Cow<'a, [u8]> {
    out.clear();
    let sections = message.body_sections;
    let bare_head = &message.bare[..message.bare.len() - sections.len()];
    let head = [message.header_section, message.annotations_section, bare_head];
    let tail = message.footer_section;
    let (kind, bytes) = match message.body {
        Body::Missing => {
            stored::write(BodyKind::Bytes, &head, std::iter::empty(), tail, out);
            return Cow::Borrowed(&[]);
        }
        Body::Data(data) => {
            let Some(bytes) = data.single() else {
                let pieces = data.parts().map(|(before, bytes)| (before, bytes.len()));
                stored::write(BodyKind::Bytes, &head, pieces, tail, out);
                return Cow::Owned(data.iter().collect::<Vec<_>>().concat());
            };
            (BodyKind::Bytes, bytes)
        }
        Body::Value(value) => match plain(value) {
            Some(bytes) => (BodyKind::Bytes, bytes),
            None => (BodyKind::Encoded, sections),
        },
        Body::Sequences(_) => (BodyKind::Encoded, sections),
    };
    // The bytes end the last section of the body.
    let before = &sections[..sections.len() - bytes.len()];
    stored::write(kind, &head, std::iter::once((before, bytes.len())), tail, out);
    Cow::Borrowed(bytes)
}

/// The bytes of a value that is a binary or a string: the end of its encoding.
fn plain(value: &[u8]) -> Option<&[u8]> {
    match shallow(&mut Reader::new(value)) {
        Ok(ValueRef::Binary(bytes)) => Some(bytes),
        Ok(ValueRef::Str(text)) => Some(text.as_bytes()),
        _ => None,
    }
}
