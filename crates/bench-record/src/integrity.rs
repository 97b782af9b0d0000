//! What came of the messages of a run: how much of each could be checked, and what was found wrong.

use serde::{Deserialize, Serialize};

use crate::check::Check;

/// What was checked, and what was found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrity {
    /// How much of each message could be checked.
    pub check: Check,
    /// Messages confirmed (sent, where there are no confirms) and never received.
    pub lost: u64,
    /// Messages received more than once.
    pub duplicated: u64,
    /// Messages received that their consumers' selector leaves out.
    #[serde(default)]
    pub unselected: u64,
    /// Messages received after a later one of the same producer, by the same consumer.
    pub reordered: u64,
    /// Messages received with another body than was sent.
    pub corrupted: u64,
    /// How those were changed.
    pub damages: Damages,
    /// Messages that the broker refused (negative confirms).
    pub refused: u64,
    /// Messages sent that the broker neither confirmed nor refused, where confirms are asked for.
    #[serde(default)]
    pub unsettled: u64,
    /// Messages that the broker gave back as unroutable.
    pub returned: u64,
    /// Confirms of messages never sent or confirmed already.
    pub unknown_confirms: u64,
    /// Messages that the broker called redelivered, though none was given back.
    pub redelivered: u64,
}

/// Bodies that came back changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damages {
    /// Of another length.
    pub length: u64,
    /// With a stamp that this run did not write.
    pub stamp: u64,
    /// With another byte anywhere else.
    pub filling: u64,
}

impl Damages {
    /// All bodies that came back changed.
    pub fn total(&self) -> u64 {
        self.length + self.stamp + self.filling
    }
}
