//! What is known of the messages of one producer in one queue: eight bytes each.

use std::collections::HashMap;

use crate::fence::Fence;
use crate::topology;

/// The state of one message in one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    /// How often it was put there; 0: never. A dead letter can be put there again after a crash.
    pub(crate) attempts: u8,
    /// Deliveries with `redelivered=false`.
    pub(crate) first: u8,
    pub(crate) marks: Marks,
    /// The kind of reply that promised the settlement, if it is fenced.
    pub(crate) fence: Fence,
    /// The consumer that holds it or has accepted it; 0: none.
    pub(crate) holder: u32,
}

/// What has happened to a message in one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    /// The broker has promised to keep it.
    pub(crate) const CONFIRMED: Self = Self(1);
    /// It has been delivered.
    pub(crate) const DELIVERED: Self = Self(2);
    /// The last delivery was accepted.
    pub(crate) const ACCEPTED: Self = Self(4);
    /// The last delivery was rejected.
    pub(crate) const REJECTED: Self = Self(8);
    /// That settlement is on disk.
    pub(crate) const FENCED: Self = Self(16);
    /// What is promised ends with the broker's life: it is not persistent, or its queue is not.
    pub(crate) const TRANSIENT: Self = Self(32);
    /// Its queue had no room for it.
    pub(crate) const REFUSED: Self = Self(64);
    /// All that a new delivery makes void.
    pub(crate) const SETTLEMENT: Self = Self(4 | 8 | 16);

    pub(crate) fn has(self, marks: Self) -> bool {
        self.0 & marks.0 == marks.0
    }

    pub(crate) fn set(&mut self, marks: Self) {
        self.0 |= marks.0;
    }

    pub(crate) fn clear(&mut self, marks: Self) {
        self.0 &= !marks.0;
    }
}

impl std::fmt::Display for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (Self::CONFIRMED, "confirmed"),
            (Self::DELIVERED, "delivered"),
            (Self::ACCEPTED, "accepted"),
            (Self::REJECTED, "rejected"),
            (Self::FENCED, "fenced"),
            (Self::TRANSIENT, "transient"),
            (Self::REFUSED, "refused"),
        ];
        let set: Vec<&str> = names.iter().filter(|(mark, _)| self.has(*mark)).map(|(_, name)| *name).collect();
        write!(f, "{}", if set.is_empty() { "published".to_owned() } else { set.join(", ") })
    }
}

/// The messages of one producer in one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane {
    /// By sequence number. A producer numbers its messages for all queues together, so there are
    /// gaps.
    entries: Vec<Entry>,
    /// The newest first delivery of each consumer and part of the queue.
    newest: HashMap<(u32, u8), u64>,
}

impl Lane {
    /// Whether a later message with the same key was put here, which may have taken its place.
    pub(crate) fn is_followed(&self, seq: u64) -> bool {
        let later = self.entries.iter().enumerate().skip(seq as usize + 1);
        later.filter(|(at, _)| topology::key(*at as u64) == topology::key(seq)).any(|(_, entry)| entry.attempts > 0)
    }

    /// The message with this number, if it was ever put here.
    pub(crate) fn get(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(seq as usize).filter(|entry| entry.attempts > 0)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.entries.get_mut(seq as usize).filter(|entry| entry.attempts > 0)
    }

    /// Notes that the message with this number is put here, maybe again.
    pub(crate) fn attempt(&mut self, seq: u64) -> &mut Entry {
        let at = seq as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, Entry::default());
        }
        let entry = &mut self.entries[at];
        entry.attempts = entry.attempts.saturating_add(1);
        entry
    }

    /// Every message that was ever put here.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.attempts > 0).map(|(at, entry)| (at as u64, entry))
    }

    /// Every message that was ever put here, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().filter(|entry| entry.attempts > 0)
    }

    /// Notes a first delivery. What should have come after it, if it comes too late.
    pub(crate) fn first_delivery(&mut self, consumer: u32, part: u8, seq: u64) -> Option<u64> {
        let newest = self.newest.insert((consumer, part), seq)?;
        if newest < seq {
            return None;
        }
        self.newest.insert((consumer, part), newest);
        Some(newest)
    }
}
