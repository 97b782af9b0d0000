//! The last batches that were written, in memory, for journals that follow: what goes past the page
//! cache would otherwise be read back from the disk a moment later.
//!
//! Invariant: without a reader nothing is held. With readers it is memory of [`MOST`] bytes or of a
//! file of the log at most, whether records fill it or not. What is held is what lies on the disk,
//! so a reader that finds nothing here finds it there.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::Batch;

/// Most bytes of memory that are held: what a follower lets be on its way, twice.
const MOST: usize = 8 << 20;
/// Bytes up to which a batch is copied to memory of its size, so that it does not hold the room of
/// the largest one. It is done while nothing can be appended, so it must be quick.
const SMALL: usize = 64 << 10;

/// See the module.
pub(crate) struct Recent {
    most: usize,
    /// In the order of their sequence, without a gap.
    batches: VecDeque<Held>,
    bytes: usize,
    readers: usize,
}

struct Held {
    batch: Arc<Batch>,
    /// The bytes of memory that it takes.
    bytes: usize,
}

/// What is not needed here any more.
#[derive(Default)]
pub(crate) struct Surplus {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// The memory that small batches had.
    pub(crate) buffers: Vec<Vec<u8>>,
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

    /// Takes batches that are written. Gives what there is no room for any more.
    pub(crate) fn take(&mut self, written: Vec<Arc<Batch>>) -> Surplus {
        if self.readers == 0 {
            return Surplus { batches: written, buffers: Vec::new() };
        }
        let mut buffers = Vec::new();
        for batch in written {
            buffers.extend(fitted(&batch));
            let bytes = size_of::<Batch>() + batch.bytes.read().capacity();
            self.bytes += bytes;
            self.batches.push_back(Held { batch, bytes });
        }
        Surplus { batches: self.surplus(), buffers }
    }

    fn surplus(&mut self) -> Vec<Arc<Batch>> {
        let most = if self.readers == 0 { 0 } else { self.most };
        let mut surplus = Vec::new();
        while self.bytes > most
            && let Some(Held { batch, bytes }) = self.batches.pop_front()
        {
            self.bytes -= bytes;
            surplus.push(batch);
        }
        surplus
    }

    /// The batch with this sequence, if it is held.
    pub(crate) fn find(&self, sequence: u64) -> Option<Arc<Batch>> {
        let first = self.batches.front()?.batch.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.batches.get(at).map(|held| &held.batch).filter(|batch| batch.sequence == sequence).map(Arc::clone)
    }
}

/// Moves a small batch to memory of its size, unless it is being read. Gives what it had.
fn fitted(batch: &Batch) -> Option<Vec<u8>> {
    let mut bytes = batch.bytes.try_write()?;
    let is_wasteful = bytes.len() <= SMALL && bytes.capacity() > 2 * bytes.len();
    is_wasteful.then(|| {
        let fitting = bytes.as_slice().to_vec();
        std::mem::replace(&mut *bytes, fitting)
    })
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;

    use super::*;
    use crate::log::LogId;
    use crate::wal::batch::BatchKind;

    /// What a buffer has room for at first.
    const ROOM: usize = 1 << 20;

    fn batch(sequence: u64, length: usize, capacity: usize) -> Arc<Batch> {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.resize(length, sequence as u8);
        Arc::new(Batch {
            log: LogId::SYSTEM,
            index: sequence,
            sent: None,
            file: 1,
            offset: 0,
            sequence,
            oldest: 1,
            records: 1,
            length: length as u32,
            kind: BatchKind::News,
            bytes: RwLock::new(bytes),
        })
    }

    /// The memory of what is held, and how many batches that are.
    fn held(recent: &Recent) -> (usize, usize) {
        let memory = |held: &Held| size_of::<Batch>() + held.batch.bytes.read().capacity();
        (recent.batches.iter().map(memory).sum(), recent.batches.len())
    }

    #[test]
    fn the_last_batches_are_held_for_readers_and_within_a_bound() {
        let mut recent = Recent::new(u32::MAX);
        let full = |sequence, length| batch(sequence, length, length);
        assert_eq!(recent.take(vec![full(1, 10)]).batches.len(), 1, "there is no reader");
        recent.begin();
        recent.begin();
        assert!(recent.take(vec![full(2, 10), full(3, MOST / 2)]).batches.is_empty());
        assert!(recent.find(1).is_none() && recent.find(4).is_none());
        assert_eq!(recent.find(3).map(|batch| batch.sequence), Some(3));
        let gone = recent.take(vec![full(4, MOST / 2 + 1)]).batches;
        assert_eq!(gone.iter().map(|batch| batch.sequence).collect::<Vec<_>>(), [2, 3]);
        assert!(recent.end().is_empty(), "the other reader is there");
        assert_eq!(recent.end().len(), 1);
        assert_eq!((recent.bytes, recent.take(vec![full(5, 10)]).batches.len()), (0, 1));
    }

    #[test]
    fn the_bound_is_one_of_memory_and_not_of_records() {
        let mut recent = Recent::new(u32::MAX);
        recent.begin();
        // Small ones give their memory back, and the bytes are the same.
        let small = (1..=40).map(|sequence| batch(sequence, 4096, ROOM)).collect();
        let Surplus { batches, buffers } = recent.take(small);
        assert!(batches.is_empty() && buffers.len() == 40 && buffers.iter().all(|buffer| buffer.capacity() == ROOM));
        assert_eq!(held(&recent), (40 * (4096 + size_of::<Batch>()), 40));
        let found = recent.find(7).unwrap();
        assert!(found.bytes.read().iter().all(|byte| *byte == 7));
        // Larger ones keep it, and it counts.
        let large = (41..=60).map(|sequence| batch(sequence, SMALL + 1, ROOM)).collect();
        let Surplus { batches, buffers } = recent.take(large);
        assert_eq!((batches.len(), buffers.len()), (53, 0));
        assert_eq!(held(&recent), (7 * (ROOM + size_of::<Batch>()), 7));
        assert!(recent.bytes == held(&recent).0 && recent.bytes <= MOST);
        // One that is being read keeps it, too.
        let read = batch(61, 4096, ROOM);
        let reading = read.bytes.read();
        assert!(recent.take(vec![Arc::clone(&read)]).buffers.is_empty());
        assert_eq!((reading.capacity(), recent.bytes), (ROOM, held(&recent).0));
        drop(reading);
        assert_eq!((recent.end().len(), recent.bytes), (7, 0));
    }
}
