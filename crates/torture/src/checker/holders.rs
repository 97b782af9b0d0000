//! Which consumers' connections live: what they hold or have accepted must not come to any other,
//! nor to them again.
//!
//! Consumers are numbered in the order in which they connect, so that all of an earlier life are
//! told by one number.

use std::collections::HashSet;

/// The consumers of this life of the broker.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders {
    /// All below this number are gone.
    first: u32,
    /// The highest number that was seen.
    last: u32,
    /// Those from `first` on that are gone.
    left: HashSet<u32>,
}

impl Holders {
    /// Whether no consumer has got anything yet, in this life of the broker or since all were gone.
    pub(super) fn is_quiet(&self) -> bool {
        self.last < self.first
    }

    /// A consumer with this number has got something.
    pub(super) fn note(&mut self, consumer: u32) {
        self.last = self.last.max(consumer);
    }

    pub(super) fn is_live(&self, consumer: u32) -> bool {
        consumer >= self.first && !self.left.contains(&consumer)
    }

    pub(super) fn leave(&mut self, consumer: u32) {
        self.left.insert(consumer);
    }

    pub(super) fn leave_all_before(&mut self, consumer: u32) {
        self.first = self.first.max(consumer);
        self.left.retain(|left| *left >= consumer);
    }

    /// Every connection is gone: the broker died, or all have left.
    pub(super) fn leave_all(&mut self) {
        self.leave_all_before(self.last + 1);
    }
}
