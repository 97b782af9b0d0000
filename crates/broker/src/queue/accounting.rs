//! The bytes that a queue holds: of all messages in memory, of the ready ones among them, and of
//! the ready bodies. And how many bodies were spilled.
//!
//! The bodies are weighed only where a limit asks for their sum.

use crate::message::Message;
use crate::queue::lane::{Dropped, PLACE_COST, Purged};
use crate::queue::{Coming, Entry};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    /// The cost of the messages in memory, in bytes.
    bytes: usize,
    /// Bytes of the messages in memory that are ready.
    resident: usize,
    weights: Weights,
    /// Entries that are not done and whose body was spilled.
    spilled: usize,
    /// Messages are on their way to be spilled.
    spilling: bool,
}

/// The sum of the ready bodies.
#[derive(Debug, Default)]
struct Weights {
    are_kept: bool,
    bytes: u64,
    /// Entries whose length is unknown since the start. They count as nothing.
    unknown: usize,
}

impl Accounting {
    /// Of a new queue, which may have a limit for the sum of its bodies.
    pub(super) fn new(limit: Option<u64>) -> Self {
        let weights = Weights { are_kept: limit.is_some(), ..Weights::default() };
        Self { weights, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn resident(&self) -> usize {
        self.resident
    }

    /// True where the ready bodies are weighed.
    pub(super) fn weighs(&self) -> bool {
        self.weights.are_kept
    }

    /// Bytes of the ready bodies, where they are weighed and all their lengths are known.
    pub(super) fn known_ready_bytes(&self) -> Option<u64> {
        (self.weights.are_kept && self.weights.unknown == 0).then_some(self.weights.bytes)
    }

    /// True while the lengths of some bodies are unknown.
    pub(super) fn lacks_weights(&self) -> bool {
        self.weights.unknown > 0
    }

    /// True when so many more bytes reach `limit`.
    pub(super) fn reaches(&self, limit: Option<u64>, coming: Coming) -> bool {
        limit.is_some_and(|limit| self.weights.bytes + coming.bytes >= limit)
    }

    /// True when the ready bodies exceed `limit`.
    pub(super) fn exceeds(&self, limit: Option<u64>) -> bool {
        limit.is_some_and(|limit| self.weights.bytes > limit)
    }

    /// Begins or stops to weigh the bodies. `weight` counts them, and those of unknown length. True
    /// if that is a change.
    pub(super) fn weigh(&mut self, limit: Option<u64>, weight: impl FnOnce() -> (u64, usize)) -> bool {
        let are_kept = limit.is_some();
        if self.weights.are_kept == are_kept {
            return false;
        }
        let (bytes, unknown) = if are_kept { weight() } else { (0, 0) };
        self.weights = Weights { are_kept, bytes, unknown };
        true
    }

    /// Recovery found so many entries, none of them in memory.
    pub(super) fn recovered(&mut self, live: usize) {
        self.weights.unknown = if self.weights.are_kept { live } else { 0 };
    }

    /// The unknown lengths belong to entries that are gone.
    pub(super) fn give_up_weights(&mut self) {
        self.weights.unknown = 0;
    }

    /// A new entry with its message.
    #[inline]
    pub(super) fn entered(&mut self, entry: &Entry) {
        if let Some(message) = &entry.message {
            self.bytes += message.cost();
        }
    }

    /// A message with this cost has left memory for good.
    #[inline]
    pub(super) fn left(&mut self, cost: usize) {
        self.bytes -= cost;
    }

    /// This entry is ready from now on.
    #[inline]
    pub(super) fn entered_ready(&mut self, entry: &Entry) {
        self.resident += resident_of(entry);
        if self.weights.are_kept {
            self.weights.bytes += entry.weight();
            self.weights.unknown += usize::from(entry.is_unweighed());
        }
    }

    /// This entry was ready until now.
    #[inline]
    pub(super) fn left_ready(&mut self, entry: &Entry) {
        self.resident -= resident_of(entry);
        if self.weights.are_kept {
            self.weights.bytes = self.weights.bytes.saturating_sub(entry.weight());
            self.weights.unknown = self.weights.unknown.saturating_sub(usize::from(entry.is_unweighed()));
        }
    }

    /// The length of a ready entry's body is known now.
    pub(super) fn weighed(&mut self, entry: &Entry) {
        if self.weights.are_kept {
            self.weights.bytes += entry.weight();
            self.weights.unknown = self.weights.unknown.saturating_sub(1);
        }
    }

    /// The message of a ready entry is in memory again.
    pub(super) fn returned(&mut self, message: &Message) {
        self.bytes += message.cost();
        self.resident += message.block().len();
    }

    /// Messages of ready entries are only on disk from now on.
    pub(super) fn dropped(&mut self, dropped: Dropped) {
        self.bytes -= dropped.bytes;
        self.resident -= dropped.length;
    }

    /// Ready entries are gone.
    pub(super) fn purged(&mut self, purged: &Purged) {
        self.bytes -= purged.bytes;
        self.resident -= purged.length;
        if self.weights.are_kept {
            let (bytes, unknown) = purged.weight;
            self.weights.bytes = self.weights.bytes.saturating_sub(bytes);
            self.weights.unknown = self.weights.unknown.saturating_sub(unknown);
        }
    }

    /// All entries are gone.
    pub(super) fn ended(&mut self) {
        (self.bytes, self.resident) = (0, 0);
        (self.weights.bytes, self.weights.unknown) = (0, 0);
    }

    /// True when the queue may have spilled bodies.
    #[inline]
    pub(super) fn has_spilled(&self) -> bool {
        self.spilled > 0
    }

    /// The cost of the places of spilled bodies.
    pub(super) fn spilled_places(&self) -> usize {
        self.spilled * PLACE_COST
    }

    /// The body of one more entry was spilled.
    pub(super) fn spilled_one(&mut self) {
        self.spilled += 1;
    }

    /// The spilled bodies of so many entries are needed no more.
    pub(super) fn freed(&mut self, count: u64) {
        self.spilled = self.spilled.saturating_sub(count as usize);
    }

    pub(super) fn is_spilling(&self) -> bool {
        self.spilling
    }

    /// Messages were picked to be spilled.
    pub(super) fn begin_spilling(&mut self) {
        self.spilling = true;
    }

    /// The messages that were picked are spilled, or can't be.
    pub(super) fn end_spilling(&mut self) {
        self.spilling = false;
    }
}

/// Bytes of a ready entry's message in memory.
#[inline]
fn resident_of(entry: &Entry) -> usize {
    entry.message.as_ref().map_or(0, |message| message.block().len())
}
