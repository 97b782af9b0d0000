//! The buffer that records are appended to: one open batch, and closed ones on their way to the
//! disk.
//!
//! Invariant: a batch has its file and offset from the moment its first record is in it, so an
//! address is known at once. Batches are closed, written and made durable in the order of their
//! sequence.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::{Batch, BatchKind, HEADER, footprint};
use super::table::Table;
use crate::cold::count::Counts;
use crate::group::{Group, Groups};
use crate::options::{BLOCK, Sizes};
use crate::record::{self, Draft};
use crate::{Address, Owner, Ticket};

/// How many buffers are kept for reuse, so that a busy writer does not take memory from the system
/// batch by batch.
const KEPT_BUFFERS: usize = 8;

/// How far a flush has come.
#[derive(Copy, Clone, Debug)]
pub(crate) struct DurableEnd {
    pub(crate) ticket: Ticket,
    /// The last batch is an empty one. It says that all batches before it are flushed.
    pub(crate) proof: bool,
}

/// What the recycler is at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Recycling {
    /// Nothing.
    Free,
    Busy,
    /// It waits until nothing keeps the oldest file.
    Leaving,
    /// What it was at has failed; it tries again when it looks next.
    Failed,
}

pub(crate) struct Buffer {
    pub(crate) sizes: Sizes,
    pub(crate) table: Table,
    /// What keeps the segments outside the log.
    pub(crate) segments: Counts,
    pub(crate) groups: Groups,
    open: Batch,
    /// Closed batches, oldest first; they stay here, readable, until they are durable.
    closed: VecDeque<Arc<Batch>>,
    spare: Vec<Vec<u8>>,
    /// Whether the last batch is an empty one on disk which proves all before it durable.
    pub(crate) proven: bool,
    /// Bytes appended that were not housekeeping, since the recycler last looked.
    pub(crate) fresh: u64,
    /// Bytes of housekeeping appended in all.
    pub(crate) restated: u64,
    /// The oldest file is to go, however much room there is.
    pub(crate) relieve: bool,
    /// Older files than this one are of an older format, and are to go in any case.
    pub(crate) current_from: u32,
    pub(crate) recycling: Recycling,
    /// The recycler waits until no group up to this one is open.
    pub(crate) awaited_group: Option<u64>,
}

impl Buffer {
    /// A buffer whose next batch is `sequence` at `offset` of the table's head.
    pub(crate) fn new(
        sizes: Sizes,
        table: Table,
        segments: Counts,
        groups: Groups,
        offset: u32,
        sequence: u64,
    ) -> Self {
        let open = Batch::new(table.head_generation(), offset, sequence, Vec::new());
        // An empty log has nothing to prove.
        let proven = sequence == 1;
        Self {
            sizes,
            table,
            segments,
            groups,
            open,
            closed: VecDeque::new(),
            spare: Vec::new(),
            proven,
            fresh: 0,
            restated: 0,
            relieve: false,
            current_from: 0,
            recycling: Recycling::Free,
            awaited_group: None,
        }
    }

    /// Appends a record and says where it lies and how many bytes it took.
    pub(crate) fn append(&mut self, group: Option<Group>, draft: &Draft<'_>, kind: BatchKind) -> (Address, u64) {
        let need = draft.len(group);
        let open_len = self.open.len();
        let full = self.open.kind != kind || open_len + need > self.sizes.batch as usize || !self.fits(open_len + need);
        if full && !self.open.is_empty() {
            self.close();
        }
        if self.open.is_empty() && !self.fits(HEADER + need) {
            self.advance();
        }
        self.open.kind = kind;
        let counter = match kind {
            BatchKind::Housekeeping => &mut self.restated,
            BatchKind::News => &mut self.fresh,
        };
        *counter += need as u64;
        let bytes = self.open.bytes.get_mut();
        if need > self.sizes.batch as usize {
            // It has the batch to itself: the memory that it takes, padding included, and no more.
            bytes.reserve_exact(need + BLOCK as usize);
        }
        let address = Address { file: self.open.file, offset: self.open.offset + bytes.len() as u32 };
        draft.write(group, bytes);
        self.open.records += 1;
        (address, need as u64)
    }

    /// Adds `count` references by `owner` to the bodies in a file.
    pub(crate) fn hold(&mut self, file: u32, count: u64, owner: Owner) {
        if let Some(file) = self.table.file(file) {
            file.live += count;
            // For the file to ask it when it leaves; the record itself may be in a later one.
            file.touch(owner);
        }
    }

    /// Takes `count` off what keeps a file or segment.
    pub(crate) fn free(&mut self, file: u32, count: u64) {
        if !self.table.free(file, count) {
            self.segments.free(file, count);
        }
    }

    /// Makes sure that the open batch is written even if nothing is appended to it.
    pub(crate) fn force(&mut self) {
        if self.open.is_empty() && !self.fits(HEADER) {
            self.advance();
        }
        self.open.forced = true;
    }

    /// Whether there is anything to write.
    pub(crate) fn is_idle(&self) -> bool {
        self.closed.is_empty() && self.open.is_empty() && !self.open.forced
    }

    /// The end of everything appended so far.
    pub(crate) fn ticket(&self) -> Ticket {
        let open = !self.open.is_empty() || self.open.forced;
        Ticket(if open { self.open.sequence } else { self.open.sequence - 1 })
    }

    /// The bytes from the oldest file's start to the end of what was appended.
    pub(crate) fn used(&mut self) -> u64 {
        self.table.closed_bytes() + u64::from(self.open.offset) + self.open.len() as u64
    }

    /// Closes the open batch and gives everything that has to be written, oldest first.
    pub(crate) fn run(&mut self) -> Vec<Arc<Batch>> {
        if !self.open.is_empty() || self.open.forced {
            self.close();
        }
        self.closed.iter().cloned().collect()
    }

    /// The batches up to `end` are durable: takes them off the queue.
    pub(crate) fn durable(&mut self, end: DurableEnd) -> Vec<Arc<Batch>> {
        let count = self.closed.iter().take_while(|batch| batch.sequence <= end.ticket.0).count();
        let durable = self.closed.drain(..count).collect();
        self.proven = end.proof && self.closed.is_empty();
        durable
    }

    /// Keeps the memory of written batches for later ones, and gives back what is too much. Drop
    /// that without the lock: the system takes its time with large pieces.
    pub(crate) fn reuse(&mut self, written: Vec<Arc<Batch>>) -> Vec<Vec<u8>> {
        // A batch that is still being read goes when that is done.
        let mut buffers: Vec<_> =
            written.into_iter().filter_map(Arc::into_inner).map(|batch| batch.bytes.into_inner()).collect();
        let room = KEPT_BUFFERS - self.spare.len();
        let limit = self.buffer_bytes();
        let kept = buffers.extract_if(.., |bytes| bytes.capacity() <= limit).take(room);
        self.spare.extend(kept);
        buffers
    }

    /// Gives memory back that an idle log does not need; to be dropped without the lock.
    pub(crate) fn shrink(&mut self) -> Vec<Vec<u8>> {
        self.spare.split_off(self.spare.len().min(1))
    }

    /// The memory of an ordinary batch with its padding.
    fn buffer_bytes(&self) -> usize {
        self.sizes.batch as usize + BLOCK as usize
    }

    /// Where a body lies that may not be on disk yet.
    pub(crate) fn find(&mut self, address: Address) -> Option<Pending> {
        if self.open.file == address.file && self.open.offset < address.offset {
            let at = (address.offset - self.open.offset) as usize;
            return body_at(self.open.bytes.get_mut(), at).map(Pending::Open);
        }
        let inside = |batch: &&Arc<Batch>| batch.file == address.file && batch.offset < address.offset;
        self.closed.iter().rev().find(inside).map(|batch| Pending::Closed(Arc::clone(batch)))
    }

    /// Where what may not be on disk yet begins.
    pub(crate) fn first_pending(&self) -> Address {
        let first = self.closed.front().map_or(&self.open, |batch| batch);
        Address { file: first.file, offset: first.offset }
    }

    /// Whether the oldest file is of an older format, and something has been appended since the
    /// start: before, the owners are not ready to be asked.
    pub(crate) fn is_outdated(&self) -> bool {
        self.fresh > 0 && self.table.oldest().generation < self.current_from
    }

    fn fits(&self, length: usize) -> bool {
        u64::from(self.open.offset) + length.next_multiple_of(BLOCK as usize) as u64
            <= u64::from(self.table.head_length())
    }

    /// The open batch, still empty, moves to the start of the next file.
    fn advance(&mut self) {
        self.table.advance(self.sizes.file);
        self.open.file = self.table.head_generation();
        self.open.offset = BLOCK;
    }

    fn close(&mut self) {
        let length = self.open.len();
        let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.buffer_bytes()));
        let next = Batch::new(self.open.file, self.open.offset + footprint(length), self.open.sequence + 1, bytes);
        let mut batch = std::mem::replace(&mut self.open, next);
        batch.oldest = self.table.oldest().generation;
        batch.length = (length - HEADER) as u32;
        self.proven = false;
        self.closed.push_back(Arc::new(batch));
    }
}

/// A body that is in the buffer.
pub(crate) enum Pending {
    /// It was in the open batch; copied.
    Open(Bytes),
    /// It is in this batch, to be copied without the buffer's lock: the writer may have the
    /// batch's.
    Closed(Arc<Batch>),
}

impl Pending {
    pub(crate) fn read(self, address: Address) -> Option<Bytes> {
        match self {
            Self::Open(body) => Some(body),
            Self::Closed(batch) => body_at(&batch.bytes.read(), address.offset.checked_sub(batch.offset)? as usize),
        }
    }
}

/// The body whose record is at `at` of a batch.
fn body_at(batch: &[u8], at: usize) -> Option<Bytes> {
    match record::decode(batch.get(at..)?) {
        Ok((record::Record { kind: record::Kind::Body { bytes, .. }, .. }, _)) => Some(Bytes::copy_from_slice(bytes)),
        _ => None,
    }
}
