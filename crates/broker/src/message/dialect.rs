//! Dialects: the encodings of a message's properties, one for each protocol, and their readers.
//!
//! Ids are in the journal and are never reused or renumbered.

use std::sync::Arc;

use selector::Value as Selected;

use crate::encoding::Reader;
use crate::error::Error;
use crate::message::properties::Properties;
use crate::value::Value;

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
    CorrelationId,
    /// See [`Properties::reply_to`].
    ReplyTo,
    /// See [`Properties::message_id`].
    MessageId,
    /// See [`Properties::timestamp`].
    Timestamp,
    /// See [`Properties::kind`].
    Kind,
    /// See [`Properties::user_id`].
    UserId,
    /// See [`Properties::app_id`].
    AppId,
}

/// Reads one protocol's encoding.
pub trait Dialect: Send + Sync {
    /// Its id.
    fn id(&self) -> DialectId;
    /// The neutral view of properties that this dialect validated at publish.
    fn read(&self, raw: &[u8]) -> Result<Properties, Error>;
    /// One property for selectors; null if it is missing. A dialect that finds it without reading
    /// all others makes selectors fast.
    fn look_up<'m>(&self, raw: &'m [u8], field: Field<'_>) -> Selected<'m> {
        self.read(raw).map_or(Selected::Null, |properties| properties.look_up(field))
    }
}

/// The dialects that this broker knows.
#[derive(Clone, Default)]
pub struct Dialects {
    known: Vec<Arc<dyn Dialect>>,
}

impl Dialects {
    /// Knows these. No two may have the same id, and none may have that of the broker itself.
    pub fn new(known: Vec<Arc<dyn Dialect>>) -> Self {
        let taken = |id, at: usize| id == DialectId::BROKER || known[..at].iter().any(|other| other.id() == id);
        debug_assert!(known.iter().enumerate().all(|(at, dialect)| !taken(dialect.id(), at)), "an id is taken");
        Self { known }
    }

    /// The neutral view of `raw`, written in `dialect`.
    pub fn read(&self, dialect: DialectId, raw: &[u8]) -> Result<Properties, Error> {
        match self.known.iter().find(|known| known.id() == dialect) {
            Some(known) => known.read(raw),
            None if dialect == DialectId::BROKER => read_own(raw),
            None => {
                Err(Error::internal(format!("a message is in encoding {}, which this build does not know", dialect.0)))
            }
        }
    }

    /// One property of `raw`, written in `dialect`; null if it is missing.
    pub(crate) fn look_up<'m>(&self, dialect: DialectId, raw: &'m [u8], field: Field<'_>) -> Selected<'m> {
        match self.known.iter().find(|known| known.id() == dialect) {
            Some(known) => known.look_up(raw, field),
            None => self.read(dialect, raw).map_or(Selected::Null, |properties| properties.look_up(field)),
        }
    }
}

fn read_own(raw: &[u8]) -> Result<Properties, Error> {
    let headers = Reader::new(raw).table();
    let headers = headers.map_err(|error| Error::internal(format!("headers of the broker's own: {}", error.what)))?;
    Ok(Properties { headers, ..Properties::default() })
}

impl Properties {
    fn look_up(mut self, field: Field<'_>) -> Selected<'static> {
        let text = match field {
            Field::Header(name) => {
                let at = self.headers.0.iter().position(|(known, _)| known == name);
                return at.map_or(Selected::Null, |at| self.headers.0.swap_remove(at).1.into_selected());
            }
            Field::Timestamp => {
                return self.timestamp.map_or(Selected::Null, |time| Value::Timestamp(time).into_selected());
            }
            Field::ContentType => self.content_type,
            Field::ContentEncoding => self.content_encoding,
            Field::CorrelationId => self.correlation_id,
            Field::ReplyTo => self.reply_to,
            Field::MessageId => self.message_id,
            Field::Kind => self.kind,
            Field::UserId => self.user_id,
            Field::AppId => self.app_id,
        };
        text.map_or(Selected::Null, |text| Selected::Text(text.into()))
    }
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
            Self::Timestamp(seconds) => i64::try_from(seconds).map_or(Selected::Null, Selected::Int),
            Self::Null | Self::Bytes(_) | Self::Array(_) | Self::Table(_) => Selected::Null,
            other => match other.nearest() {
                Some(nearest) => nearest.into_selected(),
                None => other.as_integer().map_or(Selected::Null, Selected::Int),
            },
        }
    }
}
