//! The headers that name more routing keys: `CC`, which consumers see, and `BCC`, which they don't
//! (RabbitMQ's sender-selected distribution). Each is a list of texts.
//!
//! A message says once, in its block, whether it has them: whoever routes or delivers one without
//! need not look for them.

use crate::value::{Table, Value};

/// The header with more routing keys that consumers see.
pub(crate) const CC: &str = "CC";
/// The header with more routing keys that consumers don't see.
pub(crate) const BCC: &str = "BCC";

/// Whether the headers of a message name more routing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// They don't, or the protocol knows of no such thing.
    #[default]
    None,
    /// They do.
    Named,
    /// They did, but the message died and was given one key instead of all.
    Spent,
}

impl Copies {
    /// The headers that a consumer must not be shown.
    pub fn hidden(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Named => &[BCC],
            Self::Spent => &[CC, BCC],
        }
    }
}

/// The routing keys that the header `name` holds. What is no text there is no key, as in RabbitMQ.
pub(crate) fn named_keys<'h>(headers: &'h Table, name: &str) -> impl Iterator<Item = &'h str> {
    let list = match headers.get(name) {
        Some(Value::Array(list)) => list.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(Value::as_text)
}
