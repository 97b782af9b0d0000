//! Where things lie in the log and how far each log is durable: [`Address`], [`Ticket`] and the
//! wakers that wait for a ticket.
//!
//! Invariant: a ticket never becomes durable before every record of its log appended up to it is,
//! and never stops being so. Tickets of two logs have no order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use crate::layout::is_spilled;
use crate::log::LogId;

/// Where a body lies: the generation of its file and the byte offset of its record in that file.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The generation of the log file; generations are never reused.
    pub file: u32,
    /// The byte offset of the record within the file.
    pub offset: u32,
}

impl Address {
    /// Whether the body lies outside the log, where nothing survives the process: see
    /// [`crate::Journal::spill`].
    #[inline]
    pub fn is_spilled(self) -> bool {
        is_spilled(self.file)
    }
}

/// The end of some records in a log. They are durable once [`Journal::durable`] has reached it.
///
/// [`Journal::durable`]: crate::Journal::durable
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Ticket(Place);

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
enum Place {
    /// Before the first record of any log.
    #[default]
    Start,
    At {
        log: LogId,
        /// The index of a batch.
        index: u64,
    },
    /// Behind the end of a log that has failed.
    Lost(LogId),
}

/// What is known of a ticket.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Everything up to it is durable.
    Durable,
    /// It is still to be flushed.
    Pending,
    /// The journal has failed or was closed before: nothing may be confirmed by it.
    Unknown,
}

impl Ticket {
    /// The ticket that is always durable.
    pub const NONE: Self = Self(Place::Start);

    /// The end of batch `index` of a log. Batches count from 1, so index 0 is the start of the log,
    /// where there is nothing to wait for.
    pub const fn at(log: LogId, index: u64) -> Self {
        if index == 0 { Self::NONE } else { Self(Place::At { log, index }) }
    }

    /// The ticket of what was swallowed by a log that has failed.
    pub(crate) const fn lost(log: LogId) -> Self {
        Self(Place::Lost(log))
    }

    /// Its log, if it has to wait for one.
    pub const fn log(self) -> Option<LogId> {
        match self.0 {
            Place::Start => None,
            Place::At { log, .. } | Place::Lost(log) => Some(log),
        }
    }

    /// Whether there is nothing to wait for.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The later of two tickets of one log.
    #[inline]
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        debug_assert!(
            self.log().is_none() || other.log().is_none() || self.log() == other.log(),
            "{self:?} and {other:?} are of two logs"
        );
        if other.is_within(self) { self } else { other }
    }

    /// Whether everything up to it lies before `end`, a ticket of the same log.
    #[inline]
    pub fn is_within(self, end: Self) -> bool {
        match (self.0, end.0) {
            (Place::Start, _) => true,
            (Place::At { log, .. }, Place::Lost(other)) => log == other,
            (Place::At { log, index }, Place::At { log: other, index: end }) => log == other && index <= end,
            (Place::At { .. } | Place::Lost(_), _) => false,
        }
    }
}

/// How far each log is durable, and what waits for one to get further.
#[derive(Default)]
pub(crate) struct Progress {
    /// The last durable index of each log.
    durable: RwLock<HashMap<LogId, AtomicU64>>,
    lag: AtomicU64,
    waiting: Mutex<Vec<(Ticket, Waker)>>,
}

impl Progress {
    /// Starts from what recovery found durable.
    pub(crate) fn resumed(ends: impl Iterator<Item = (LogId, u64)>) -> Self {
        let durable = ends.map(|(log, index)| (log, AtomicU64::new(index))).collect();
        Self { durable: RwLock::new(durable), ..Self::default() }
    }

    /// The end of what is durable of a log.
    pub(crate) fn durable(&self, log: LogId) -> Ticket {
        end_of(&self.durable.read(), log)
    }

    pub(crate) fn is_durable(&self, ticket: Ticket) -> bool {
        ticket.log().is_none_or(|log| ticket.is_within(self.durable(log)))
    }

    /// Bytes appended and not yet durable, of all logs.
    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    /// So many bytes are appended and not yet durable. Who says so holds the lock of what counts
    /// them, so that it is never an older figure.
    pub(crate) fn lags_by(&self, bytes: u64) {
        self.lag.store(bytes, Ordering::Relaxed);
    }

    /// Moves the durable ends of logs forward, each to an index, and wakes what waited for that.
    pub(crate) fn reach(&self, ends: &[(LogId, u64)]) {
        self.store(ends);
        let mut reached = Vec::new();
        let mut waiting = self.waiting.lock();
        // Once for all who wait.
        let durable = self.durable.read();
        waiting.retain(|(wanted, waker)| {
            let is_reached = wanted.log().is_none_or(|log| wanted.is_within(end_of(&durable, log)));
            if is_reached {
                reached.push(waker.clone());
            }
            !is_reached
        });
        drop((waiting, durable));
        // Woken without the lock: a waker may run arbitrary code, including this type's.
        for waker in reached {
            waker.wake();
        }
    }

    fn store(&self, ends: &[(LogId, u64)]) {
        let durable = self.durable.read();
        let new = |(log, index): &&(LogId, u64)| match durable.get(log) {
            Some(known) => {
                known.store(*index, Ordering::Release);
                false
            }
            None => true,
        };
        let new: Vec<_> = ends.iter().filter(new).copied().collect();
        drop(durable);
        if !new.is_empty() {
            self.durable.write().extend(new.into_iter().map(|(log, index)| (log, AtomicU64::new(index))));
        }
    }

    /// Wakes `waker` once `ticket` is durable, at once if it is.
    pub(crate) fn when_durable(&self, ticket: Ticket, waker: &Waker) {
        if !self.is_durable(ticket) {
            let mut waiting = self.waiting.lock();
            // `reach` stores before it takes this lock, so what it stored is seen here or `reach`
            // sees the waiter.
            if !self.is_durable(ticket) {
                waiting.push((ticket, waker.clone()));
                return;
            }
        }
        waker.wake_by_ref();
    }
}

fn end_of(durable: &HashMap<LogId, AtomicU64>, log: LogId) -> Ticket {
    durable.get(&log).map_or(Ticket::NONE, |index| Ticket::at(log, index.load(Ordering::Acquire)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_compared_within_one_log() {
        let [one, two] = [1, 2].map(|log| LogId::new(log).unwrap());
        let (early, late, lost) = (Ticket::at(one, 3), Ticket::at(one, 4), Ticket::lost(one));
        // The end of a log that nothing was written to was once a place that no flush reaches.
        assert_eq!(Ticket::at(one, 0), Ticket::NONE);
        let table = [
            (Ticket::NONE, Ticket::NONE, true),
            (Ticket::NONE, early, true),
            (early, Ticket::NONE, false),
            (early, early, true),
            (early, late, true),
            (late, early, false),
            (late, lost, true),
            (lost, late, false),
            (lost, lost, false),
            (early, Ticket::at(two, 9), false),
            (early, Ticket::lost(two), false),
        ];
        for (ticket, end, within) in table {
            assert_eq!(ticket.is_within(end), within, "{ticket:?} in {end:?}");
        }
        assert_eq!((early.max(late), late.max(early), late.max(Ticket::NONE)), (late, late, late));
        assert_eq!((late.max(lost), lost.max(late), lost.max(lost)), (lost, lost, lost));
    }

    #[test]
    fn a_log_that_gets_further_is_no_other_log() {
        let [one, two] = [1, 2].map(|log| LogId::new(log).unwrap());
        let progress = Progress::resumed([(one, 3)].into_iter());
        assert!(progress.is_durable(Ticket::at(one, 3)) && !progress.is_durable(Ticket::at(two, 1)));
        progress.reach(&[(two, 1), (two, 2)]);
        assert!(progress.is_durable(Ticket::at(two, 2)) && !progress.is_durable(Ticket::at(one, 4)));
        assert_eq!((progress.durable(two), progress.durable(one)), (Ticket::at(two, 2), Ticket::at(one, 3)));
    }
}
