//! Entries that came back and wait before they are delivered again: each keeps its place, its count
//! and its number.
//!
//! The due time of such an entry is logged with its return, so a restart makes none earlier. Other
//! entries do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::arguments::ReturnCause;
use crate::queue::facts as queue_facts;
use crate::queue::{Inner, Past, Queue, Reason, Show, State, Visit};
use crate::settings::CountedReturns;
use crate::store::facts;

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
    /// Returns a delivery: the entry is ready again at its place, at once or after a while. Past
    /// the delivery limit it dies.
    pub(super) fn come_back(&self, inner: &mut Inner, seq: u64, how: ReturnCause, visit: &Visit<'_>) {
        let arguments = Arc::clone(&inner.arguments);
        let Some(entry) = inner.lanes.get_mut(seq) else { return };
        let before = entry.past;
        entry.past = before.max(match how {
            ReturnCause::Failed => Past::Failed,
            ReturnCause::Returned => Past::Returned,
        });
        if arguments.counts_returns() {
            // The failure of an earlier run that its consumer was told of stays counted.
            if before.failures(entry.returns) > entry.returns.counted() {
                entry.returns.add_counted();
            }
            let all = visit.context.settings.counted_returns == CountedReturns::All;
            match how {
                ReturnCause::Failed => entry.returns.add_counted(),
                ReturnCause::Returned if all => entry.returns.add_counted(),
                ReturnCause::Returned => entry.returns.add(),
            }
            let (returns, durable) = (entry.returns, entry.is_durable());
            if arguments.delivery_limit.is_some_and(|limit| u64::from(returns.counted()) > limit) {
                self.die(inner, seq, Reason::DeliveryLimit);
                return;
            }
            let delay = arguments.retry.and_then(|retry| retry.delay(how, returns.counted()));
            let due = delay.map(|delay| visit.now.saturating_add(delay));
            if durable {
                let mut appender = visit.context.journal.appender(self.log());
                queue_facts::log_returns(&mut appender, self.id, seq, returns);
                if let Some(due) = due {
                    facts::log_retry(&mut appender, self.id, seq, due);
                }
            }
            if let Some(due) = due {
                inner.make_ready(seq);
                if durable && visit.context.memory.is_tight() {
                    inner.let_go_of(seq);
                }
                inner.leave_ready(seq, State::Waiting);
                inner.features.waiting.get_or_insert_default().add(seq, due);
                return;
            }
        }
        inner.make_ready(seq);
    }

    /// Takes the waiting entries of an earlier run, with their due times. All of them lie in pages
    /// that are placed.
    pub(crate) fn resume_waiting(self: &Arc<Self>, waiting: &[(u64, u64)], visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        for (seq, due) in waiting.iter().filter(|(_, due)| *due > visit.now) {
            if inner.lanes.get_mut(*seq).is_some_and(|entry| entry.state == State::Ready) {
                inner.leave_ready(*seq, State::Waiting);
                inner.features.waiting.get_or_insert_default().add(*seq, *due);
            }
        }
        self.conclude(inner, Show::Nothing, visit);
    }
}

impl Inner {
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
