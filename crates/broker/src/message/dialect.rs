//! Which protocol's encoding a message's properties are in, and how to read each.
//!
//! Ids stand in the journal and are never reused or renumbered.

use std::sync::Arc;

use crate::error::Error;
use crate::message::properties::Properties;

/// A protocol's encoding of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DialectId(pub u8);

impl DialectId {
    /// AMQP 0-9-1: property flags and values of the content header, as on the wire.
    pub const AMQP_091: Self = Self(1);
    /// STOMP: the frame's header lines `name:value\n`, escaped as STOMP 1.2 writes them.
    pub const STOMP: Self = Self(2);
}

/// Reads one protocol's encoding.
pub trait Dialect: Send + Sync {
    /// Its id.
    fn id(&self) -> DialectId;
    /// The neutral view of properties that this dialect validated when they were published.
    fn read(&self, raw: &[u8]) -> Result<Properties, Error>;
}

/// The dialects that this broker knows.
#[derive(Clone, Default)]
pub struct Dialects {
    known: Vec<Arc<dyn Dialect>>,
}

impl Dialects {
    /// Knows these.
    pub fn new(known: Vec<Arc<dyn Dialect>>) -> Self {
        Self { known }
    }

    /// The neutral view of `raw`, written in `dialect`.
    pub fn read(&self, dialect: DialectId, raw: &[u8]) -> Result<Properties, Error> {
        match self.known.iter().find(|known| known.id() == dialect) {
            Some(known) => known.read(raw),
            None => {
                Err(Error::internal(format!("a message is in encoding {}, which this build does not know", dialect.0)))
            }
        }
    }
}
