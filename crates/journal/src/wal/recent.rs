//! The last batches that were written, in memory, for journals that follow: what goes past the page
//! cache would otherwise be read back from the disk a moment later.
//!
//! Invariant: without a reader nothing is held, and with readers no more than [`MOST`] bytes, a
//! file of the log, or [`MOST_BATCHES`]. What is held is what lies on the disk, so a reader that
//! finds nothing here finds it there.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, HEADER, footprint};

/// Most bytes that are held: what a follower lets be on its way, twice.
const MOST: usize = 8 << 20;
/// Most batches: the memory of each has room for the largest one.
const MOST_BATCHES: usize = 16;

/// See the module.
pub(crate) struct Recent {
    most: usize,
    /// In the order of their sequence, without a gap.
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    readers: usize,
}

impl Recent {
    /// Of a log with files of this size.
    pub(crate) fn new(file: u32) -> Self {
        Self { most: MOST.min(file as usize), batches: VecDeque::new(), bytes: 0, readers: 0 }
    }

    /// Holds from now on what is written.
    pub(crate) fn begin(&mut self) {
        self.readers += 1;
    }

    /// A reader is gone. Gives what is not needed any more.
    pub(crate) fn end(&mut self) -> Vec<Arc<Batch>> {
        self.readers = self.readers.saturating_sub(1);
        self.surplus()
    }

    /// Takes batches that are written. Gives those that there is no room for any more.
    pub(crate) fn take(&mut self, written: Vec<Arc<Batch>>) -> Vec<Arc<Batch>> {
        if self.readers == 0 {
            return written;
        }
        for batch in written {
            self.bytes += memory(&batch);
            self.batches.push_back(batch);
        }
        self.surplus()
    }

    fn surplus(&mut self) -> Vec<Arc<Batch>> {
        let most = if self.readers == 0 { 0 } else { self.most };
        let mut surplus = Vec::new();
        while (self.bytes > most || self.batches.len() > MOST_BATCHES)
            && let Some(batch) = self.batches.pop_front()
        {
            self.bytes -= memory(&batch);
            surplus.push(batch);
        }
        surplus
    }

    /// The batch with this sequence, if it is held.
    pub(crate) fn find(&self, sequence: u64) -> Option<Arc<Batch>> {
        let first = self.batches.front()?.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.batches.get(at).filter(|batch| batch.sequence == sequence).map(Arc::clone)
    }
}

/// What is written of a batch.
fn memory(batch: &Batch) -> usize {
    footprint(HEADER + batch.length as usize) as usize
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;

    use super::*;
    use crate::log::LogId;
    use crate::wal::batch::BatchKind;

    fn batch(sequence: u64, bytes: usize) -> Arc<Batch> {
        Arc::new(Batch {
            log: LogId::SYSTEM,
            index: sequence,
            sent: None,
            file: 1,
            offset: 0,
            sequence,
            oldest: 1,
            records: 1,
            length: bytes as u32,
            kind: BatchKind::News,
            bytes: RwLock::new(Vec::new()),
        })
    }

    #[test]
    fn the_last_batches_are_held_for_readers_and_within_a_bound() {
        let mut recent = Recent::new(u32::MAX);
        assert_eq!(recent.take(vec![batch(1, 10)]).len(), 1, "there is no reader");
        recent.begin();
        recent.begin();
        assert!(recent.take(vec![batch(2, 10), batch(3, MOST / 2)]).is_empty());
        assert!(recent.find(1).is_none() && recent.find(4).is_none());
        assert_eq!(recent.find(3).map(|batch| batch.sequence), Some(3));
        let gone = recent.take(vec![batch(4, MOST / 2 + 1)]);
        assert_eq!(gone.iter().map(|batch| batch.sequence).collect::<Vec<_>>(), [2, 3]);
        assert!(recent.end().is_empty(), "the other reader is there");
        assert_eq!(recent.end().len(), 1);
        assert_eq!((recent.bytes, recent.take(vec![batch(5, 10)]).len()), (0, 1));
        recent.begin();
        let small = (9..=9 + MOST_BATCHES as u64).map(|sequence| batch(sequence, 10)).collect();
        assert_eq!(recent.take(small).len(), 1, "each has room for a large one");
        assert!(recent.find(5).is_none() && recent.find(9).is_none() && recent.find(10).is_some());
    }
}
