//! What followers have of the logs, for tickets that wait for one.
//!
//! Invariant: while a follower is awaited, no log counts further than one has flushed it. What is
//! kept of what waits is bounded: [`PIECES`] for each log.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::log::LogId;

/// Most pieces of a log that are told apart. With more, the last ones count as one.
const PIECES: usize = 64;

/// Whether what is flushed here counts only once a follower has flushed it, too.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// It does.
    Yes,
    /// It counts at once.
    No,
}

/// What waits for a follower.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// The oldest batch that waits; none if all is at a follower, or none is awaited.
    pub oldest: Option<u64>,
    /// The last batch that is flushed here.
    pub last: u64,
}

/// A batch that is flushed here.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FlushedBatch {
    pub(crate) log: LogId,
    /// The index of its log with it.
    pub(crate) index: u64,
    pub(crate) sequence: u64,
    /// The bytes of its records.
    pub(crate) bytes: u64,
}

/// See the module.
pub(crate) struct Copies {
    awaited: Awaited,
    logs: HashMap<LogId, LogCopy>,
    /// Bytes of what waits.
    bytes: u64,
    /// The last batch that is flushed here.
    last: u64,
}

/// One log.
#[derive(Default)]
struct LogCopy {
    /// Its index here, and at the follower that is furthest.
    flushed: u64,
    confirmed: u64,
    waits: VecDeque<Piece>,
}

/// Batches of a log that wait, one behind the other.
struct Piece {
    /// The index of the last.
    index: u64,
    /// The sequence of the first.
    first: u64,
    bytes: u64,
}

impl LogCopy {
    /// How far the log counts.
    fn counts(&self, awaited: Awaited) -> u64 {
        match awaited {
            Awaited::Yes => self.flushed.min(self.confirmed),
            Awaited::No => self.flushed,
        }
    }

    fn wait(&mut self, piece: Piece) {
        let is_full = self.waits.len() >= PIECES;
        match self.waits.back_mut() {
            Some(last) if is_full => (last.index, last.bytes) = (piece.index, last.bytes + piece.bytes),
            _ => self.waits.push_back(piece),
        }
    }

    /// A follower has it up to this index. Gives the bytes that no longer wait.
    fn confirm(&mut self, index: u64) -> u64 {
        self.confirmed = self.confirmed.max(index);
        let mut bytes = 0;
        while let Some(piece) = self.waits.pop_front_if(|piece| piece.index <= index) {
            bytes += piece.bytes;
        }
        bytes
    }
}

impl Copies {
    /// Begins to await a follower. Of logs that are as long as `ends` says, nothing is known to be
    /// anywhere else.
    pub(crate) fn begin(ends: impl Iterator<Item = (LogId, u64)>) -> Self {
        let logs = ends.map(|(log, flushed)| (log, LogCopy { flushed, ..LogCopy::default() })).collect();
        let mut copies = Self { awaited: Awaited::No, logs, bytes: 0, last: 0 };
        copies.wait_for(Awaited::Yes);
        copies
    }

    /// From now on a follower is awaited, or none is. Gives how far logs count then.
    pub(crate) fn wait_for(&mut self, awaited: Awaited) -> Vec<(LogId, u64)> {
        (self.awaited, self.bytes) = (awaited, 0);
        for copy in self.logs.values_mut() {
            copy.waits.clear();
            if awaited == Awaited::Yes && copy.confirmed < copy.flushed {
                // What counts already is not charged to publishers.
                copy.wait(Piece { index: copy.flushed, first: self.last, bytes: 0 });
            }
        }
        self.logs.iter().map(|(log, copy)| (*log, copy.counts(awaited))).collect()
    }

    /// Batches are flushed here. Gives how far their logs count then.
    pub(crate) fn flushed(&mut self, batches: &[FlushedBatch]) -> Vec<(LogId, u64)> {
        let mut counts = Vec::with_capacity(batches.len());
        for batch in batches {
            self.last = self.last.max(batch.sequence);
            let copy = self.logs.entry(batch.log).or_default();
            let is_new = batch.index > copy.flushed;
            copy.flushed = copy.flushed.max(batch.index);
            // A follower may have said so before the writer came here.
            if is_new && self.awaited == Awaited::Yes && copy.confirmed < batch.index {
                copy.wait(Piece { index: batch.index, first: batch.sequence, bytes: batch.bytes });
                self.bytes += batch.bytes;
            }
            counts.push((batch.log, copy.counts(self.awaited)));
        }
        counts
    }

    /// A follower has flushed logs up to these indexes. Gives how far they count then.
    pub(crate) fn confirm(&mut self, ends: &[(LogId, u64)]) -> Vec<(LogId, u64)> {
        let mut counts = Vec::with_capacity(ends.len());
        for (log, index) in ends {
            let copy = self.logs.entry(*log).or_default();
            self.bytes -= copy.confirm(*index);
            counts.push((*log, copy.counts(self.awaited)));
        }
        counts
    }

    /// Nothing is appended to this log any more, so no follower need have the rest of it.
    pub(crate) fn end(&mut self, log: LogId) -> Vec<(LogId, u64)> {
        self.confirm(&[(log, u64::MAX)])
    }

    /// Bytes of what waits.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn waiting(&self) -> Waiting {
        let oldest = self.logs.values().filter_map(|copy| copy.waits.front()).map(|piece| piece.first).min();
        Waiting { oldest, last: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_for_each_log_and_counted_in_bytes() {
        let log = LogId::SYSTEM;
        let mut copies = Copies::begin([(log, 5)].into_iter());
        assert_eq!(copies.waiting(), Waiting { oldest: Some(0), last: 0 });
        let batch = |at: u64| FlushedBatch { log, index: 5 + at, sequence: 100 + at, bytes: 10 };
        for at in 1..=200 {
            assert_eq!(copies.flushed(&[batch(at)]), [(log, 0)]);
        }
        assert_eq!((copies.bytes(), copies.logs[&log].waits.len()), (2000, PIECES));
        assert_eq!(copies.confirm(&[(log, 15)]), [(log, 15)]);
        assert_eq!((copies.bytes(), copies.waiting()), (1900, Waiting { oldest: Some(111), last: 300 }));
        // What is between pieces that count as one goes with the last of them.
        assert_eq!(copies.confirm(&[(log, 204)]), [(log, 204)]);
        assert_eq!(copies.waiting().oldest, Some(163));
        assert_eq!(copies.confirm(&[(log, 205)]), [(log, 205)]);
        assert_eq!((copies.bytes(), copies.waiting().oldest), (0, None));
    }

    #[test]
    fn housekeeping_and_logs_that_end_wait_for_none() {
        let [one, two] = [1, 2].map(|log| LogId::new(log).unwrap());
        let mut copies = Copies::begin([(one, 5), (two, 7)].into_iter());
        copies.confirm(&[(one, 5)]);
        assert_eq!(copies.end(two), [(two, 7)]);
        let housekeeping = FlushedBatch { log: one, index: 5, sequence: 9, bytes: 10 };
        assert_eq!(copies.flushed(&[housekeeping]), [(one, 5)]);
        let late = FlushedBatch { log: two, index: 8, sequence: 10, bytes: 10 };
        assert_eq!(copies.flushed(&[late]), [(two, 8)]);
        assert_eq!((copies.bytes(), copies.waiting()), (0, Waiting { oldest: None, last: 10 }));
    }
}
