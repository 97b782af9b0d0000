//! Entries that came back and wait before they are delivered again: each keeps its place, its count
//! and its number.
//!
//! The due time of such an entry is logged with its return, so a restart makes none earlier. Other
//! entries do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::queue::{Inner, Queue, Show, State, Visit};

/// The entries of a queue that wait, with their due times in milliseconds since 1970. `in_order`
/// has the same in the order of these.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    due: BTreeMap<u64, u64>,
    in_order: BTreeSet<(u64, u64)>,
}

impl Waiters {
    /// The number and the due time of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.in_order.iter().map(|(due, seq)| (*seq, *due))
    }

    fn add(&mut self, seq: u64, due: u64) {
        self.due.insert(seq, due);
        self.in_order.insert((due, seq));
    }

    /// An entry has gone that may have waited.
    #[inline]
    pub(super) fn left(&mut self, seq: u64) {
        if let Some(due) = self.due.remove(&seq) {
            self.in_order.remove(&(due, seq));
        }
    }

    /// When the first of them is due.
    fn first_due(&self) -> Option<u64> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// Takes the first of them if it is due by `now`.
    fn take_due(&mut self, now: u64) -> Option<u64> {
        let (due, seq) = *self.in_order.first().filter(|(due, _)| *due <= now)?;
        self.in_order.remove(&(due, seq));
        self.due.remove(&seq);
        Some(seq)
    }
}

impl Queue {
    /// Takes the waiting entries of an earlier run, with their due times. All of them lie in pages
    /// that are placed.
    pub(crate) fn resume_waiting(self: &Arc<Self>, waiting: &[(u64, u64)], visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        for (seq, due) in waiting.iter().filter(|(_, due)| *due > visit.now) {
            if inner.lanes.get_mut(*seq).is_some_and(|entry| entry.state == State::Ready) {
                inner.wait_until(*seq, *due);
            }
        }
        self.conclude(inner, Show::Nothing, visit);
    }
}

impl Inner {
    /// Lets a ready entry wait until it is due.
    pub(super) fn wait_until(&mut self, seq: u64, due: u64) {
        self.leave_ready(seq, State::Waiting);
        self.features.waiting.get_or_insert_default().add(seq, due);
    }

    /// Makes the entries that are due by `now` ready again. True if there was one.
    pub(super) fn wake(&mut self, now: u64) -> bool {
        let mut woken = false;
        while let Some(seq) = self.features.waiting.as_mut().and_then(|waiting| waiting.take_due(now)) {
            if self.lanes.get_mut(seq).is_some_and(|entry| entry.state == State::Waiting) {
                self.make_ready(seq);
                woken = true;
            }
        }
        woken
    }

    /// When the first of them is due.
    pub(super) fn next_waking(&self) -> Option<u64> {
        self.features.waiting.as_ref()?.first_due()
    }

    /// Number of entries that wait before they are delivered again.
    pub(crate) fn waiting(&self) -> usize {
        self.features.waiting.as_ref().map_or(0, |waiting| waiting.due.len())
    }
}
