//! What came of the messages of a run: how much of each could be checked, and what was found wrong.

use serde::{Deserialize, Serialize};

use crate::record::check::Check;

/// What was checked, and what was found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Integrity {
    /// How much of each message could be checked.
    pub(crate) check: Check,
    /// Messages confirmed (sent, where there are no confirms) and never received.
    pub(crate) lost: u64,
    /// Messages received more than once.
    pub(crate) duplicated: u64,
    /// Messages received that their consumers' selector leaves out.
    #[serde(default)]
    pub(crate) unselected: u64,
    /// Messages received after a later one of the same producer, by the same consumer.
    pub(crate) reordered: u64,
    /// Messages received with another body than was sent.
    pub(crate) corrupted: u64,
    pub(crate) damages: Damages,
    /// Messages that the broker refused (negative confirms).
    pub(crate) refused: u64,
    /// Messages sent that the broker neither confirmed nor refused, where confirms are asked for.
    #[serde(default)]
    pub(crate) unsettled: u64,
    /// Messages that the broker gave back as unroutable.
    pub(crate) returned: u64,
    /// Confirms of messages never sent or confirmed already.
    pub(crate) unknown_confirms: u64,
    /// Messages that the broker called redelivered, though nobody gave any back.
    pub(crate) redelivered: u64,
}

/// Bodies that came back changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Damages {
    /// Of another length.
    pub(crate) length: u64,
    /// With a stamp that this run did not write.
    pub(crate) stamp: u64,
    /// With another byte anywhere else.
    pub(crate) filling: u64,
}

impl Damages {
    pub(crate) fn total(&self) -> u64 {
        self.length + self.stamp + self.filling
    }
}
