//! The headers with more routing keys: `CC`, which consumers see, and `BCC`, which they don't
//! (RabbitMQ's sender-selected distribution). Each is a list of texts.
//!
//! A message says once, in its block, whether it has them. So they are not looked for in a message
//! without them.

use crate::value::{Table, Value};

/// The header with more routing keys that consumers see.
pub(crate) const CC: &str = "CC";
/// The header with more routing keys that consumers don't see.
pub(crate) const BCC: &str = "BCC";

/// Whether the headers of a message have more routing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Copies {
    /// They don't, or the protocol has no such headers.
    #[default]
    None,
    /// They do.
    Named,
    /// They did, and the message died and got one key instead of all.
    Spent,
}

impl Copies {
    /// The headers that are not shown to consumers.
    pub(crate) fn hidden(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Named => &[BCC],
            Self::Spent => &[CC, BCC],
        }
    }
}

/// The routing keys in the header `name`. A value that is no text is no key, as in RabbitMQ.
pub(crate) fn named_keys<'h>(headers: &'h Table, name: &str) -> impl Iterator<Item = &'h str> {
    let list = match headers.get(name) {
        Some(Value::Array(list)) => list.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(Value::as_text)
}
