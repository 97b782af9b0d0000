//! How the broker stores messages of this protocol, and how others and this one see each other's.
//!
//! A message keeps its bytes. What is stored as its properties is all but the bytes of its body, so
//! that a body of bytes or text is the body that every other protocol sees, and is not copied. The
//! page `docs/mapping/amqp10.md` has the properties one by one.

pub(crate) mod address;
mod neutral;
mod publish;
mod stored;
#[cfg(test)]
mod tests;
mod values;
mod write;

use broker::{Content, Dialect, DialectId, Error, Field, Properties, Selected};

pub(crate) use values::{from_neutral, to_table};

pub use publish::{Published, publish, published};
pub(crate) use stored::Rest;
pub use write::{Acquired, Origin, write_neutral, write_stored};
pub(crate) use write::{begin_neutral, begin_stored};

use stored::Stored;

/// The layout is in `docs/formats/message.md`. The number stands in the journal.
pub const ENCODING: DialectId = DialectId(4);

/// Reads the properties of messages published by AMQP 1.0.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amqp10Dialect;

impl Dialect for Amqp10Dialect {
    fn id(&self) -> DialectId {
        ENCODING
    }

    fn read(&self, content: Content<'_>) -> Result<Properties, Error> {
        let stored = Stored::read(content.properties)?;
        neutral::properties(&stored.sections()?, stored.kind).map_err(stored::unreadable)
    }

    fn look_up<'m>(&self, content: Content<'m>, field: Field<'_>) -> Selected<'m> {
        let Ok(stored) = Stored::read(content.properties) else { return Selected::Null };
        stored.sections().map_or(Selected::Null, |sections| neutral::look_up(&sections, stored.kind, field))
    }
}
