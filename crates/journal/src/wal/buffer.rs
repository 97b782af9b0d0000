//! The buffer that records are appended to: an open batch for each log that is active, one for what
//! is restated of all logs, and closed ones on their way to the disk.
//!
//! Invariant: a batch has its file and offset from the moment its first record is in it, so an
//! address is known at once. Only the last batch grows beyond its blocks; what follows it lies
//! behind them. All open batches lie in the head, and what was appended before a file is taken out
//! of the table lies before what is appended afterwards. Batches are written and made durable in
//! the order of their sequence.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::RwLock;

use super::batch::{Batch, BatchKind, HEADER, footprint};
use super::entries::Entries;
use super::keeps::Keeps;
use super::received::Received;
use super::recent::{Recent, Surplus};
use super::table::{LogFile, Table};
use super::tails::{Missing, Tails};
use crate::cold::count::Counts;
use crate::entry::{Entry, Restated};
use crate::group::{Group, Groups};
use crate::log::{LogEnd, LogId};
use crate::options::{BLOCK, Sizes};
use crate::record::{self, Draft};
use crate::{Address, Owner};

/// How many buffers are kept for reuse, so that a busy writer does not take memory from the system
/// batch by batch.
const KEPT_BUFFERS: usize = 8;

/// How far a flush has come.
#[derive(Copy, Clone, Debug)]
pub(crate) struct DurableEnd {
    /// The last batch that is durable.
    pub(crate) sequence: u64,
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
    tails: Tails,
    /// The sequence of the open batch of housekeeping.
    housekeeping: Option<u64>,
    /// The batches from the first that is not durable on, readable until they are.
    pending: VecDeque<Pending>,
    /// How many of them are open.
    open: usize,
    next_sequence: u64,
    /// Where in the head the next batch goes, unless the last one is open still.
    offset: u32,
    spare: Vec<Vec<u8>>,
    /// What was written last, for those who follow.
    pub(crate) recent: Recent,
    /// Whether the last batch is an empty one on disk which proves all before it durable.
    pub(crate) proven: bool,
    pub(crate) volumes: Volumes,
    pub(crate) recycle: Recycle,
}

/// Bytes of records that were appended.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// Those that were not housekeeping, since the recycler last looked.
    pub(crate) fresh: u64,
    /// Those of housekeeping, in all.
    pub(crate) restated: u64,
    /// Those that are not durable.
    pub(crate) pending: u64,
}

/// What the recycler and those who append tell each other.
pub(crate) struct Recycle {
    pub(crate) stage: Recycling,
    /// The oldest file is to go, however much room there is.
    pub(crate) relieve: bool,
    /// Older files than this one are of an older format, and are to go in any case.
    pub(crate) current_from: u32,
    /// It waits until no group up to this one is open.
    pub(crate) awaited_group: Option<u64>,
    /// What may still be needed of the entries that came from elsewhere, in a journal that follows.
    pub(crate) received: Option<Received>,
    /// What is kept for those that follow.
    pub(crate) keeps: Keeps,
}

/// A batch that is not durable.
enum Pending {
    Open {
        batch: Batch,
        /// Where the next batch begins, or the file ends.
        limit: u32,
    },
    Closed(Arc<Batch>),
}

impl Buffer {
    /// A buffer whose next batch is `sequence` at `offset` of the table's head, with logs that end
    /// so.
    pub(crate) fn new(
        sizes: Sizes,
        table: Table,
        segments: Counts,
        (ends, entries): (&BTreeMap<LogId, LogEnd>, BTreeMap<LogId, Entries>),
        (offset, sequence): (u32, u64),
    ) -> Self {
        Self {
            sizes,
            table,
            segments,
            groups: Groups::new(),
            tails: Tails::new(ends, entries),
            housekeeping: None,
            pending: VecDeque::new(),
            open: 0,
            next_sequence: sequence,
            offset,
            spare: Vec::new(),
            recent: Recent::new(sizes.file),
            // An empty log has nothing to prove.
            proven: sequence == 1,
            volumes: Volumes::default(),
            recycle: Recycle {
                stage: Recycling::Free,
                relieve: false,
                current_from: 0,
                awaited_group: None,
                received: None,
                keeps: Keeps::default(),
            },
        }
    }

    /// The place of a log, for [`Buffer::append`], as long as the buffer stays locked.
    #[inline]
    pub(crate) fn place_of(&mut self, log: LogId) -> usize {
        self.tails.place(log)
    }

    /// Appends a record to the log at `place`, and says where it lies and how many bytes it took.
    pub(crate) fn append(
        &mut self,
        place: usize,
        group: Option<Group>,
        draft: &Draft<'_>,
        kind: BatchKind,
    ) -> (Address, u64) {
        let need = draft.len(group);
        self.volumes.pending += need as u64;
        let counter = match kind {
            BatchKind::Housekeeping => &mut self.volumes.restated,
            BatchKind::News => &mut self.volumes.fresh,
        };
        *counter += need as u64;
        let most = self.sizes.batch as usize;
        let at = self.batch_for(place, kind, need);
        let Pending::Open { batch, .. } = &mut self.pending[at] else { unreachable!("it takes records") };
        let (file, offset, index) = (batch.file, batch.offset, batch.index);
        batch.records += 1;
        let bytes = batch.bytes.get_mut();
        if need > most {
            // It has the batch to itself: the memory that it takes, padding included, and no more.
            bytes.reserve_exact(need + BLOCK as usize);
        }
        let address = Address { file, offset: offset + bytes.len() as u32 };
        let entries = &self.tails.get(place).entries;
        draft.write(need, group, bytes, |body| entries.name(index, body));
        (address, need as u64)
    }

    /// Appends an entry that came from elsewhere as the next of the log at `place`, in a batch of
    /// its own. Gives the file that it lies in.
    pub(crate) fn append_entry(&mut self, place: usize, entry: &Entry) -> u32 {
        self.volumes.fresh += entry.records().len() as u64;
        self.close_open(self.tails.get(place).open);
        let at = self.place(place, BatchKind::News, entry.records().len());
        self.fill(at, entry.records(), (entry.count(), Some(entry.end())))
    }

    /// Appends what was restated elsewhere, in a batch of its own.
    pub(crate) fn append_restated(&mut self, restated: &Restated) {
        let place = self.tails.place(LogId::SYSTEM);
        let at = self.place(place, BatchKind::Housekeeping, restated.records().len());
        self.fill(at, restated.records(), (restated.count(), None));
    }

    /// Fills the batch that was just placed, and closes it. Gives the file that it lies in.
    fn fill(&mut self, at: usize, records: &[u8], (count, sent): (u32, Option<LogEnd>)) -> u32 {
        let Pending::Open { batch, .. } = &mut self.pending[at] else { unreachable!("it was just placed") };
        self.volumes.pending += records.len() as u64;
        batch.sent = sent;
        batch.records = count;
        let bytes = batch.bytes.get_mut();
        bytes.reserve_exact(records.len() + BLOCK as usize);
        bytes.extend_from_slice(records);
        let file = batch.file;
        self.close(at);
        file
    }

    /// The body that entry `index` of the log at `place` names so.
    pub(crate) fn find_body(&self, place: usize, index: u64, name: (u32, u32)) -> Option<Address> {
        self.tails.get(place).entries.find(index, name)
    }

    /// The place of an open batch among the pending ones that takes `need` more bytes of this kind.
    #[inline]
    fn batch_for(&mut self, place: usize, kind: BatchKind, need: usize) -> usize {
        let tail = self.tails.at(place);
        let (own, last) = (tail.open, tail.last.0);
        let open = match kind {
            BatchKind::News => own,
            // What the log says next comes behind it, and what it said before lies before it.
            BatchKind::Housekeeping => {
                self.close_open(own);
                self.housekeeping.filter(|sequence| *sequence > last)
            }
        };
        match open.map(|sequence| (sequence - self.first_sequence()) as usize) {
            Some(at) if self.takes(at, need) => at,
            Some(_) | None => {
                self.close_open(if kind == BatchKind::News { own } else { self.housekeeping });
                self.place(place, kind, need)
            }
        }
    }

    #[inline]
    fn takes(&mut self, at: usize, need: usize) -> bool {
        let Pending::Open { batch, limit } = &mut self.pending[at] else { return false };
        let length = batch.len() + need;
        length <= self.sizes.batch as usize && batch.offset + footprint(length) <= *limit
    }

    /// Places a batch behind the last one, in the next file if it does not fit, for `need` bytes of
    /// records. Gives where it is among the pending ones.
    fn place(&mut self, place: usize, kind: BatchKind, need: usize) -> usize {
        self.cap_last();
        if u64::from(self.offset) + u64::from(footprint(HEADER + need)) > u64::from(self.table.head_length()) {
            // What lies in a file must be there when the next one is the head.
            self.close_all();
            self.table.advance(self.sizes.file);
            self.offset = BLOCK;
        }
        let small = self.open >= KEPT_BUFFERS;
        let bytes = match self.spare.pop() {
            Some(bytes) => bytes,
            None if small => Vec::with_capacity(BLOCK as usize),
            None => Vec::with_capacity(self.buffer_bytes()),
        };
        let (sequence, file) = (self.next_sequence, self.table.head_generation());
        let log = match kind {
            BatchKind::News => {
                let tail = self.tails.at(place);
                if need > 0 {
                    tail.index += 1;
                    tail.entries.note(tail.index, (file, self.offset));
                    tail.last = (sequence, file);
                }
                tail.open = Some(sequence);
                tail.log
            }
            BatchKind::Housekeeping => {
                self.housekeeping = Some(sequence);
                LogId::SYSTEM
            }
        };
        let own = self.tails.place(log);
        let index = self.tails.at(own).index;
        let batch = new_batch((log, index), (file, self.offset), sequence, kind, bytes);
        self.pending.push_back(Pending::Open { batch, limit: self.table.head_length() });
        self.next_sequence += 1;
        self.open += 1;
        self.pending.len() - 1
    }

    /// The last batch grows no further than its blocks: another follows.
    fn cap_last(&mut self) {
        if let Some(Pending::Open { batch, limit }) = self.pending.back_mut() {
            self.offset = batch.offset + footprint(batch.len());
            *limit = self.offset;
        }
    }

    fn first_sequence(&self) -> u64 {
        self.next_sequence - self.pending.len() as u64
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

    /// Makes sure that a batch is written behind all others, be it empty. It says where the log
    /// begins and what is flushed.
    pub(crate) fn force(&mut self) {
        if matches!(self.pending.back(), Some(Pending::Open { .. })) {
            return;
        }
        let place = self.tails.place(LogId::SYSTEM);
        let at = self.place(place, BatchKind::News, 0);
        self.close(at);
    }

    /// The logs whose last batch lies in the oldest file: their ends must be said again.
    pub(crate) fn behind(&self) -> Vec<LogId> {
        self.tails.behind(self.table.oldest().generation)
    }

    /// Says again how far a log goes, unless it goes further by now. An end that stands behind
    /// later entries would be believed once these have left.
    pub(crate) fn restate_end(&mut self, end: LogEnd) {
        let place = self.tails.place(end.log);
        if self.tails.get(place).index == end.index {
            self.append(place, None, &Draft::LogEnd { end }, BatchKind::Housekeeping);
        }
    }

    /// Takes the oldest file out of the table. The last batch says so, or another behind it, and
    /// none before.
    pub(crate) fn retire(&mut self) -> Option<LogFile> {
        (0..self.pending.len().saturating_sub(1)).for_each(|at| self.close(at));
        let file = self.table.retire()?;
        self.tails.forget(file.generation);
        self.force();
        Some(file)
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The index that everything appended so far to the log at `place` has.
    #[inline]
    pub(crate) fn index_at(&self, place: usize) -> (LogId, u64) {
        let tail = self.tails.get(place);
        (tail.log, tail.index)
    }

    /// Where the first entry lies of those that another journal misses.
    pub(crate) fn first_missing(&self, known: &HashMap<LogId, u64>) -> Result<Option<(u32, u32)>, Missing> {
        self.tails.first_missing(known)
    }

    /// The oldest file that what is not over may name: with a body that is held, a group that is
    /// open, or something that is not written.
    pub(crate) fn needed_from(&self) -> u32 {
        let held = self.table.held_from().min(self.first_pending().file);
        self.groups.oldest_file().map_or(held, |file| file.min(held))
    }

    /// What is restated from here on shares no batch with what was restated before.
    pub(crate) fn end_housekeeping(&mut self) {
        self.close_open(self.housekeeping);
    }

    /// See [`Tails::before`].
    pub(crate) fn before(&self, file: u32) -> (Vec<(LogId, u64)>, Vec<LogId>) {
        self.tails.before(file)
    }

    /// The next entry of the log at `place` is the one after `index`.
    pub(crate) fn begin_behind(&mut self, place: usize, index: u64) {
        self.tails.at(place).index = index;
    }

    /// Whether nothing is appended to a log any more.
    pub(crate) fn has_ended(&self, log: LogId) -> bool {
        self.tails.has_ended(log)
    }

    /// The logs to which nothing is appended any more.
    pub(crate) fn ended_logs(&self) -> Vec<LogId> {
        self.tails.logs().filter(|log| self.tails.has_ended(*log)).collect()
    }

    /// The logs that there are or have been.
    pub(crate) fn logs(&self) -> impl Iterator<Item = LogId> + '_ {
        self.tails.logs()
    }

    /// Nothing is appended to the log any more.
    pub(crate) fn end_log(&mut self, log: LogId) {
        let place = self.tails.place(log);
        self.tails.at(place).ended = true;
    }

    /// The last batch that something was appended to, of all logs: when it is flushed, so is
    /// everything appended so far.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    /// The bytes from the oldest file's start to the end of what was appended.
    pub(crate) fn used(&mut self) -> u64 {
        let end = match self.pending.back_mut() {
            Some(Pending::Open { batch, .. }) => u64::from(batch.offset) + batch.len() as u64,
            Some(Pending::Closed(_)) | None => u64::from(self.offset),
        };
        self.table.closed_bytes() + end
    }

    /// Closes the open batches and gives everything that has to be written, oldest first.
    pub(crate) fn run(&mut self) -> Vec<Arc<Batch>> {
        self.close_all();
        let closed = |pending: &Pending| match pending {
            Pending::Closed(batch) => Some(Arc::clone(batch)),
            Pending::Open { .. } => None,
        };
        self.pending.iter().filter_map(closed).collect()
    }

    /// The batches up to `end` are durable: takes them off the queue.
    pub(crate) fn durable(&mut self, end: DurableEnd) -> Vec<Arc<Batch>> {
        let is_durable = |pending: &mut Pending| match pending {
            Pending::Closed(batch) => batch.sequence <= end.sequence,
            Pending::Open { .. } => false,
        };
        let mut durable = Vec::new();
        while let Some(Pending::Closed(batch)) = self.pending.pop_front_if(is_durable) {
            self.volumes.pending -= u64::from(batch.length);
            durable.push(batch);
        }
        self.proven = end.proof && self.pending.is_empty();
        durable
    }

    /// Keeps written batches for those who follow, and the memory of others for later ones. Gives
    /// back what is too much. Drop that without the lock: the system takes its time with large
    /// pieces.
    pub(crate) fn reuse(&mut self, written: Vec<Arc<Batch>>) -> Vec<Vec<u8>> {
        let Surplus { batches, mut buffers } = self.recent.take(written);
        // A batch that is still being read goes when that is done.
        buffers.extend(batches.into_iter().filter_map(Arc::into_inner).map(|batch| batch.bytes.into_inner()));
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

    /// A body that may not be on disk yet.
    pub(crate) fn find(&mut self, address: Address) -> Option<Unwritten> {
        let before = |pending: &Pending| pending.start() < (address.file, address.offset);
        let at = self.pending.partition_point(before).checked_sub(1)?;
        match &mut self.pending[at] {
            Pending::Open { batch, .. } if batch.file == address.file => {
                let at = (address.offset - batch.offset) as usize;
                body_at(batch.bytes.get_mut(), at).map(Unwritten::Open)
            }
            Pending::Closed(batch) if batch.file == address.file => Some(Unwritten::Closed(Arc::clone(batch))),
            Pending::Open { .. } | Pending::Closed(_) => None,
        }
    }

    /// Where what may not be on disk yet begins.
    pub(crate) fn first_pending(&self) -> Address {
        let next = (self.table.head_generation(), self.offset);
        let (file, offset) = self.pending.front().map_or(next, Pending::start);
        Address { file, offset }
    }

    /// Whether the oldest file is of an older format, and something has been appended since the
    /// start: before, the owners are not ready to be asked.
    pub(crate) fn is_outdated(&self) -> bool {
        self.volumes.fresh > 0 && self.table.oldest().generation < self.recycle.current_from
    }

    fn close_all(&mut self) {
        for at in 0..self.pending.len() {
            self.close(at);
        }
    }

    fn close_open(&mut self, sequence: Option<u64>) {
        if let Some(sequence) = sequence {
            self.close((sequence - self.first_sequence()) as usize);
        }
    }

    /// Closes the pending batch at this place, if it is open.
    fn close(&mut self, at: usize) {
        let last = at + 1 == self.pending.len();
        let Pending::Open { batch, .. } = &mut self.pending[at] else { return };
        let length = batch.len();
        batch.oldest = self.table.oldest().generation;
        batch.length = (length - HEADER) as u32;
        if last {
            self.offset = batch.offset + footprint(length);
        }
        match batch.kind {
            BatchKind::News => {
                let place = self.tails.place(batch.log);
                self.tails.at(place).open = None;
            }
            BatchKind::Housekeeping => self.housekeeping = None,
        }
        let batch = std::mem::replace(batch, new_batch((batch.log, 0), (0, 0), 0, batch.kind, Vec::new()));
        self.pending[at] = Pending::Closed(Arc::new(batch));
        self.open -= 1;
        self.proven = false;
    }
}

impl Pending {
    fn start(&self) -> (u32, u32) {
        match self {
            Self::Open { batch, .. } => (batch.file, batch.offset),
            Self::Closed(batch) => (batch.file, batch.offset),
        }
    }
}

/// An empty batch in `bytes`, which are reused.
fn new_batch(
    (log, index): (LogId, u64),
    (file, offset): (u32, u32),
    sequence: u64,
    kind: BatchKind,
    mut bytes: Vec<u8>,
) -> Batch {
    bytes.clear();
    bytes.resize(HEADER, 0);
    let (sent, bytes) = (None, RwLock::new(bytes));
    Batch { log, index, sent, file, offset, sequence, oldest: 0, records: 0, length: 0, kind, bytes }
}

/// A body that is in the buffer.
pub(crate) enum Unwritten {
    /// It was in an open batch; copied.
    Open(Bytes),
    /// It is in this batch, to be copied without the buffer's lock: the writer may have the
    /// batch's.
    Closed(Arc<Batch>),
}

impl Unwritten {
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
