//! Dialects: the encodings of a message's properties, one for each protocol, and their readers.
//!
//! Ids are in the journal and are never reused or renumbered.

use std::sync::Arc;

use selector::Value as Selected;

use crate::encoding::Reader;
use crate::error::Error;
use crate::message::Message;
use crate::message::cc::{BCC, CC, Copies, named_keys};
use crate::message::id::Id;
use crate::message::properties::Properties;
use crate::value::{Value, seconds_of_ms};

/// The number of a protocol's encoding of properties. Each protocol declares its own and registers
/// it with [`Dialects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DialectId(pub u8);

impl DialectId {
    /// The broker itself, of its own messages: their headers, as declarations are stored.
    pub const BROKER: Self = Self(3);
}

/// A property that can be looked up alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// The application's header of this name.
    Header(&'a str),
    /// See [`Properties::content_type`].
    ContentType,
    /// See [`Properties::content_encoding`].
    ContentEncoding,
    /// See [`Properties::correlation_id`].
    CorrelationId(IdForm),
    /// See [`Properties::reply_to`].
    ReplyTo,
    /// See [`Properties::message_id`].
    MessageId(IdForm),
    /// See [`Properties::timestamp`]; in milliseconds.
    Timestamp,
    /// See [`Properties::kind`].
    Kind,
    /// See [`Properties::user_id`].
    UserId,
    /// See [`Properties::app_id`].
    AppId,
}

/// The text of an id that is no text. A text is the same in all forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdForm {
    /// As protocols show it whose ids are texts; null without such a text.
    Plain,
    /// As JMS shows it.
    Jms,
}

/// What a publisher wrote: properties in its protocol's encoding, and a body. In some protocols the
/// kind of the body is a property that only the body shows.
#[derive(Debug, Clone, Copy)]
pub struct Content<'m> {
    /// Exactly as published.
    pub properties: &'m [u8],
    /// All of it.
    pub body: &'m [u8],
}

/// Reads one protocol's encoding.
pub trait Dialect: Send + Sync {
    /// Its id.
    fn id(&self) -> DialectId;
    /// The neutral view of properties that this dialect validated at publish.
    fn read(&self, content: Content<'_>) -> Result<Properties, Error>;
    /// One property for selectors; null if it is missing. A dialect that finds it without reading
    /// all others makes selectors fast.
    fn look_up<'m>(&self, content: Content<'m>, field: Field<'_>) -> Selected<'m> {
        self.read(content).map_or(Selected::Null, |properties| properties.look_up(field))
    }
}

/// The dialects that this broker knows.
#[derive(Clone, Default)]
pub struct Dialects {
    known: Arc<[Arc<dyn Dialect>]>,
}

impl Dialects {
    /// Knows these. No two may have the same id, and none may have that of the broker itself.
    pub fn new(known: Vec<Arc<dyn Dialect>>) -> Self {
        let taken = |id, at: usize| id == DialectId::BROKER || known[..at].iter().any(|other| other.id() == id);
        debug_assert!(known.iter().enumerate().all(|(at, dialect)| !taken(dialect.id(), at)), "an id is taken");
        Self { known: known.into() }
    }

    /// The neutral view of what was written in `dialect`.
    pub fn read(&self, dialect: DialectId, content: Content<'_>) -> Result<Properties, Error> {
        match self.known.iter().find(|known| known.id() == dialect) {
            Some(known) => known.read(content),
            None if dialect == DialectId::BROKER => read_own(content.properties),
            None => {
                Err(Error::internal(format!("a message is in encoding {}, which this build does not know", dialect.0)))
            }
        }
    }

    /// The neutral view of a message as it was published.
    ///
    /// # Errors
    /// If it is in an encoding that this build does not know.
    pub(crate) fn read_message(&self, message: &Message) -> Result<Properties, Error> {
        self.read(message.dialect(), message.content())
    }

    /// The routing keys that a message has besides its own, in its headers `CC` and `BCC`.
    pub fn copied_keys(&self, message: &Message) -> Vec<String> {
        if message.copies() != Copies::Named {
            return Vec::new();
        }
        let headers = self.read_message(message).map(|properties| properties.headers).unwrap_or_default();
        [CC, BCC].into_iter().flat_map(|name| named_keys(&headers, name).map(str::to_owned)).collect()
    }

    /// One property of a message; null if it is missing.
    pub(crate) fn look_up<'m>(&self, message: &'m Message, field: Field<'_>) -> Selected<'m> {
        match self.known.iter().find(|known| known.id() == message.dialect()) {
            Some(known) => known.look_up(message.content(), field),
            None => self.read_message(message).map_or(Selected::Null, |properties| properties.look_up(field)),
        }
    }
}

fn read_own(raw: &[u8]) -> Result<Properties, Error> {
    let headers = Reader::new(raw).table();
    let headers = headers.map_err(|error| Error::internal(format!("headers of the broker's own: {}", error.what)))?;
    Ok(Properties { headers, ..Properties::default() })
}

impl Properties {
    /// One of them; null if it is missing.
    pub(crate) fn look_up(&self, field: Field<'_>) -> Selected<'static> {
        let text = match field {
            Field::Header(name) => {
                return self.headers.get(name).map_or(Selected::Null, |value| value.clone().into_selected());
            }
            Field::Timestamp => return self.timestamp.map_or(Selected::Null, Selected::Int),
            Field::CorrelationId(form) => return selected_id(self.correlation_id.as_ref(), form),
            Field::MessageId(form) => return selected_id(self.message_id.as_ref(), form),
            Field::ContentType => &self.content_type,
            Field::ContentEncoding => &self.content_encoding,
            Field::ReplyTo => &self.reply_to,
            Field::Kind => &self.kind,
            Field::UserId => &self.user_id,
            Field::AppId => &self.app_id,
        };
        text.clone().map_or(Selected::Null, |text| Selected::Text(text.into()))
    }
}

fn selected_id(id: Option<&Id>, form: IdForm) -> Selected<'static> {
    let text = match (id, form) {
        (Some(id), IdForm::Plain) => id.as_text(),
        (Some(id), IdForm::Jms) => Some(id.jms_text()),
        (None, _) => None,
    };
    text.map_or(Selected::Null, |text| Selected::Text(text.into_owned().into()))
}

impl Value {
    /// The value for selectors: numbers, truth values and text; anything else is null.
    pub(crate) fn into_selected(self) -> Selected<'static> {
        match self {
            Self::Bool(truth) => Selected::Bool(truth),
            Self::F32(number) => Selected::Float(number.into()),
            Self::F64(number) => Selected::Float(number),
            Self::Decimal { scale, value } => Selected::Float(f64::from(value) / 10f64.powi(scale.into())),
            Self::Text(text) => Selected::Text(text.into()),
            Self::Timestamp(time) => Selected::Int(seconds_of_ms(time) as i64),
            Self::Decimal32(_) | Self::Decimal64(_) | Self::Decimal128(_) => match self.nearest() {
                Some(Self::Text(text)) => finite(&text),
                nearest => nearest.map_or(Selected::Null, Self::into_selected),
            },
            Self::Null | Self::Bytes(_) | Self::Array(_) | Self::Table(_) => Selected::Null,
            other => match other.nearest() {
                Some(nearest) => nearest.into_selected(),
                None => other.as_integer().map_or(Selected::Null, Selected::Int),
            },
        }
    }
}

/// The number of a text, if it is one.
fn finite(text: &str) -> Selected<'static> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map_or(Selected::Null, Selected::Float)
}
