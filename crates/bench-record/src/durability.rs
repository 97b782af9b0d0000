//! What a confirm promises. Figures of two targets may be ranked only within one class.

use serde::{Deserialize, Serialize};

/// A durability class: what survives which failure once the broker has confirmed a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing is promised: there is no confirm.
    D0,
    /// The message is in the broker's memory.
    D1,
    /// The message is in the system's page cache: it survives `kill -9` of the broker, not a power
    /// cut.
    D2,
    /// The message was forced to the disk before the confirm: it survives a power cut.
    D3,
}

impl Durability {
    /// The promise in words.
    pub fn promise(self) -> &'static str {
        match self {
            Self::D0 => "nothing is confirmed",
            Self::D1 => "in the broker's memory",
            Self::D2 => "with the operating system",
            Self::D3 => "forced to the disk",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
