//! Deliberate faults, in builds for the crash harness only; a harness that does not find them is
//! worth nothing.
//!
//! - `ack-before-message`: references are logged some visits late, behind settlements and confirms.
//! - `forget-ids`: ids are not logged.
//! - `early`: delayed messages come before their time, and messages expire early.
//! - `flat`: messages have no priorities.
//! - `copy`: redriven messages stay in their queue as well.
//! - `pile`: a new value leaves the one before it in its queue.
//! - `ungrouped`: the messages of a group go to any consumer.
//!
//! Invariant: a body lives as long as the log says, whatever the order. So clients see the fault,
//! and the broker does not stumble over it.

use journal::{Address, Owner, Ticket};

use super::settle::ACKNOWLEDGED;
use super::{Inner, Queue, Visit};

/// Visits by which references are late.
const LATE: u32 = 3;
/// The number of an owner that is never declared. Replay drops its references, which only keep
/// bodies.
const UNDECLARED: u64 = 0;

/// The references that one queue has not logged yet.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    entries: Vec<(u64, Address)>,
    visits: u32,
}

impl HeldBack {
    /// Whether the body of this entry stays when the entry is settled: its late reference revives
    /// it.
    pub(super) fn keeps(&self, seq: u64) -> bool {
        self.entries.iter().any(|(held, _)| *held == seq)
    }
}

/// How early delayed messages come, and messages expire, in milliseconds.
pub(super) const EARLY: u64 = 300;

/// Whether this process has this fault.
pub(super) fn armed(fault: &str) -> bool {
    std::env::var_os("HERMOD_SABOTAGE").is_some_and(|armed| armed == fault)
}

impl Queue {
    /// Logs the references of all durable entries that this visit added some visits late. The
    /// ticket covers those that are logged now.
    pub(super) fn log_references_late(&self, inner: &mut Inner, visit: &Visit<'_>) -> Ticket {
        let mut appender = visit.context.journal.appender(self.log());
        inner.lanes.all_mut().for_each(|lane| drop(lane.mark_of_added()));
        let added: Vec<_> = inner.lanes.added().collect();
        for seq in added.into_iter().flat_map(|(first, end)| first..end) {
            if let Some(address) = inner.lanes.get_mut(seq).and_then(|entry| entry.address) {
                appender.reference(None, self.log().owner(UNDECLARED), seq, 0, &[address]);
                inner.departures.held_back.entries.push((seq, address));
            }
        }
        inner.departures.held_back.visits += 1;
        if inner.departures.held_back.visits == LATE {
            for (seq, address) in std::mem::take(&mut inner.departures.held_back).entries {
                let mark = inner.lanes.of_mut(seq).map_or(0, |lane| lane.position().1);
                appender.reference(None, self.id, seq, mark, &[address]);
                appender.settle(None, self.log().owner(UNDECLARED), ACKNOWLEDGED, &[(seq, 1)], &[address]);
            }
        }
        appender.ticket()
    }
}
