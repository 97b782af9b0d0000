//! Deliberate faults, in builds for the crash harness only. `ack-before-message`: references are
//! logged some visits late, so that settlements and confirms precede them in the log. `forget-ids`:
//! the log does not hear of ids. `early`: what is delayed comes before its time, and what has a
//! time to live dies before it. `flat`: messages have no priorities. `copy`: what is redriven stays
//! in its queue as well. A harness that does not find them is worth nothing.
//!
//! Invariant: a body lives as long as the log says that it does, whatever the order; the fault is
//! found by what clients see, and not by a broker that stumbles over it.

use journal::{Address, Owner, Ticket};

use super::settle::ACKNOWLEDGED;
use super::{Inner, Queue, Visit};

/// Visits by which references are late.
const LATE: u32 = 3;
/// An owner that is never declared: replay drops its references, which do nothing but keep bodies.
const NOBODY: Owner = 0;

/// What one queue has not logged yet.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    entries: Vec<(u64, Address)>,
    visits: u32,
}

impl HeldBack {
    /// Whether the body of this entry stays when the entry is settled: its reference, still to
    /// come, revives it.
    pub(super) fn keeps(&self, seq: u64) -> bool {
        self.entries.iter().any(|(held, _)| *held == seq)
    }
}

/// How early what is delayed comes, and what has a time to live dies, in milliseconds.
pub(super) const EARLY: u64 = 300;

/// Whether this process is to have this fault.
pub(super) fn armed(fault: &str) -> bool {
    std::env::var_os("HERMOD_SABOTAGE").is_some_and(|armed| armed == fault)
}

impl Queue {
    /// Logs the references of all durable entries that this visit added, but some visits late. The
    /// ticket is for what is logged now.
    pub(super) fn log_references_late(&self, inner: &mut Inner, visit: &Visit<'_>) -> Ticket {
        let mut appender = visit.engine.journal.appender();
        inner.lanes.all_mut().for_each(|lane| drop(lane.mark_of_added()));
        let added: Vec<_> = inner.lanes.added().collect();
        for seq in added.into_iter().flat_map(|(first, end)| first..end) {
            if let Some(address) = inner.lanes.get_mut(seq).and_then(|entry| entry.address) {
                appender.reference(None, NOBODY, seq, 0, &[address]);
                inner.held_back.entries.push((seq, address));
            }
        }
        inner.held_back.visits += 1;
        if inner.held_back.visits == LATE {
            for (seq, address) in std::mem::take(&mut inner.held_back).entries {
                let mark = inner.lanes.of_mut(seq).map_or(0, |lane| lane.position().1);
                appender.reference(None, self.id, seq, mark, &[address]);
                appender.settle(None, NOBODY, ACKNOWLEDGED, &[(seq, 1)], &[address]);
            }
        }
        appender.ticket()
    }
}
