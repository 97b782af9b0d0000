//! Where things lie in the log and how far each log is durable: [`Address`], [`Ticket`] and the
//! wakers that wait for a ticket.
//!
//! Invariant: a ticket never becomes durable before every record of its log appended up to it is,
//! and never stops being so. Tickets of two logs have no order. While a follower is awaited, a
//! ticket is durable once it is so there, too: [`Progress::reach`] is the one place where that is
//! decided.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::copies::{Awaited, Copies, FlushedBatch, Waiting};
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
    ends: RwLock<Ends>,
    lag: AtomicU64,
    /// Bytes that are flushed here and wait for a follower.
    unconfirmed: AtomicU64,
    waiting: Mutex<Vec<(Ticket, Waker)>>,
}

/// How far the logs are.
#[derive(Default)]
struct Ends {
    /// The last durable index of each log.
    durable: HashMap<LogId, AtomicU64>,
    /// What followers have; none before one was ever awaited.
    copies: Option<Box<Mutex<Copies>>>,
}

impl Ends {
    fn of(&self, log: LogId) -> Ticket {
        self.durable.get(&log).map_or(Ticket::NONE, |index| Ticket::at(log, index.load(Ordering::Acquire)))
    }

    fn advance(&self, log: LogId, index: u64) {
        if let Some(known) = self.durable.get(&log) {
            known.fetch_max(index, Ordering::AcqRel);
        }
    }
}

impl Progress {
    /// Starts from what recovery found durable.
    pub(crate) fn resumed(ends: impl Iterator<Item = (LogId, u64)>) -> Self {
        let durable = ends.map(|(log, index)| (log, AtomicU64::new(index))).collect();
        Self { ends: RwLock::new(Ends { durable, copies: None }), ..Self::default() }
    }

    /// The end of what is durable of a log.
    pub(crate) fn durable(&self, log: LogId) -> Ticket {
        self.ends.read().of(log)
    }

    pub(crate) fn is_durable(&self, ticket: Ticket) -> bool {
        ticket.log().is_none_or(|log| ticket.is_within(self.durable(log)))
    }

    /// Bytes appended and not yet durable, of all logs.
    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed) + self.unconfirmed.load(Ordering::Relaxed)
    }

    /// So many bytes are appended and not yet flushed. Who says so holds the lock of what counts
    /// them, so that it is never an older figure.
    pub(crate) fn lags_by(&self, bytes: u64) {
        self.lag.store(bytes, Ordering::Relaxed);
    }

    /// Batches are flushed here. Moves the durable ends of their logs forward: at once, or as far
    /// as a follower has them, if one is awaited. Wakes what waited for that.
    pub(crate) fn reach(&self, batches: &[FlushedBatch]) {
        let ends = self.knowing(batches.iter().map(|batch| batch.log));
        match &ends.copies {
            None => batches.iter().for_each(|batch| ends.advance(batch.log, batch.index)),
            Some(copies) => self.change(&ends, copies, |copies| copies.flushed(batches)),
        }
        drop(ends);
        self.wake();
    }

    /// From now on a follower is awaited, or none is: then all counts that is flushed here. Asked
    /// the first time before anything waits for a ticket: what a start has found counts as known
    /// here alone, except for logs that have ended.
    pub(crate) fn await_follower(&self, awaited: Awaited, ended: &[LogId]) {
        let mut ends = self.ends.write();
        if ends.copies.is_none() {
            let known = ends.durable.iter_mut().map(|(log, index)| (*log, std::mem::take(index.get_mut())));
            let mut copies = Copies::begin(known);
            let ended: Vec<_> = ended.iter().flat_map(|log| copies.end(*log)).collect();
            ends.copies = Some(Box::new(Mutex::new(copies)));
            ended.into_iter().for_each(|(log, index)| ends.advance(log, index));
        }
        let ends = RwLockWriteGuard::downgrade(ends);
        if let Some(copies) = &ends.copies {
            self.change(&ends, copies, |copies| copies.wait_for(awaited));
        }
        drop(ends);
        self.wake();
    }

    /// A follower has flushed logs up to these indexes. It was sent what is flushed here.
    pub(crate) fn confirm(&self, confirmed: &[(LogId, u64)]) {
        let ends = self.knowing(confirmed.iter().map(|(log, _)| *log));
        let Some(copies) = &ends.copies else { return };
        self.change(&ends, copies, |copies| copies.confirm(confirmed));
        drop(ends);
        self.wake();
    }

    /// Nothing is appended to a log any more, so no follower is awaited for it.
    pub(crate) fn end_log(&self, log: LogId) {
        self.confirm(&[(log, u64::MAX)]);
    }

    /// What waits for a follower.
    pub(crate) fn waiting(&self) -> Waiting {
        self.ends.read().copies.as_ref().map_or_else(Waiting::default, |copies| copies.lock().waiting())
    }

    /// Moves ends to where the logs count after a change.
    fn change(&self, ends: &Ends, copies: &Mutex<Copies>, change: impl FnOnce(&mut Copies) -> Vec<(LogId, u64)>) {
        let mut copies = copies.lock();
        let counts = change(&mut copies);
        self.unconfirmed.store(copies.bytes(), Ordering::Relaxed);
        drop(copies);
        counts.into_iter().for_each(|(log, index)| ends.advance(log, index));
    }

    /// The ends, with a place for each of these logs.
    fn knowing(&self, logs: impl Iterator<Item = LogId> + Clone) -> RwLockReadGuard<'_, Ends> {
        let ends = self.ends.read();
        if logs.clone().all(|log| ends.durable.contains_key(&log)) {
            return ends;
        }
        drop(ends);
        let mut ends = self.ends.write();
        for log in logs {
            ends.durable.entry(log).or_default();
        }
        RwLockWriteGuard::downgrade(ends)
    }

    /// Wakes what waited for something that is durable now.
    fn wake(&self) {
        let mut reached = Vec::new();
        let mut waiting = self.waiting.lock();
        // Once for all who wait.
        let ends = self.ends.read();
        waiting.retain(|(wanted, waker)| {
            let is_reached = wanted.log().is_none_or(|log| wanted.is_within(ends.of(log)));
            if is_reached {
                reached.push(waker.clone());
            }
            !is_reached
        });
        drop((waiting, ends));
        // Woken without the lock: a waker may run arbitrary code, including this type's.
        for waker in reached {
            waker.wake();
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

    fn flushed(log: LogId, index: u64) -> FlushedBatch {
        FlushedBatch { log, index, sequence: 10 * index, bytes: 100 }
    }

    #[test]
    fn what_is_flushed_here_counts_once_the_follower_that_is_awaited_has_it() {
        let [one, two, three] = [1, 2, 3].map(|log| LogId::new(log).unwrap());
        let (progress, durable) = (Progress::resumed([(one, 3), (three, 9)].into_iter()), Ticket::at);
        let ends = |progress: &Progress| [one, two].map(|log| progress.durable(log));
        progress.confirm(&[(one, 4)]);
        assert_eq!(ends(&progress), [durable(one, 3), Ticket::NONE]);
        progress.await_follower(Awaited::Yes, &[three]);
        // Of what was here before it is not known who has it; of a log that has ended none need.
        assert_eq!((ends(&progress), progress.durable(three)), ([Ticket::NONE; 2], durable(three, 9)));
        assert_eq!(progress.waiting().oldest, Some(0));
        progress.confirm(&[(one, 3)]);
        assert_eq!((progress.durable(one), progress.waiting().oldest), (durable(one, 3), None));
        progress.reach(&[flushed(one, 4), flushed(one, 5), flushed(two, 1)]);
        assert_eq!((ends(&progress), progress.lag()), ([durable(one, 3), Ticket::NONE], 300));
        // It says again what it had before.
        progress.confirm(&[(one, 2)]);
        progress.confirm(&[(one, 4)]);
        assert_eq!((progress.durable(one), progress.lag()), (durable(one, 4), 200));
        progress.confirm(&[(one, 5)]);
        assert_eq!(progress.waiting(), Waiting { oldest: Some(10), last: 50 }, "the other log waits");
        progress.await_follower(Awaited::No, &[]);
        assert_eq!((ends(&progress), progress.lag()), ([durable(one, 5), durable(two, 1)], 0));
        progress.reach(&[flushed(one, 6)]);
        assert_eq!((progress.durable(one), progress.waiting().oldest), (durable(one, 6), None));
        // What was confirmed alone is awaited, and stays durable.
        progress.await_follower(Awaited::Yes, &[]);
        assert_eq!(ends(&progress), [durable(one, 6), durable(two, 1)]);
        assert_eq!((progress.waiting().oldest, progress.lag()), (Some(60), 0));
        // A follower may be faster than the one that writes this down.
        progress.confirm(&[(one, 7), (two, 1)]);
        progress.reach(&[flushed(one, 7)]);
        assert_eq!((progress.durable(one), progress.waiting().oldest), (durable(one, 7), None));
    }

    #[test]
    fn a_log_that_gets_further_is_no_other_log() {
        let [one, two] = [1, 2].map(|log| LogId::new(log).unwrap());
        let progress = Progress::resumed([(one, 3)].into_iter());
        assert!(progress.is_durable(Ticket::at(one, 3)) && !progress.is_durable(Ticket::at(two, 1)));
        progress.reach(&[flushed(two, 1), flushed(two, 2)]);
        assert!(progress.is_durable(Ticket::at(two, 2)) && !progress.is_durable(Ticket::at(one, 4)));
        assert_eq!((progress.durable(two), progress.durable(one)), (Ticket::at(two, 2), Ticket::at(one, 3)));
    }
}
