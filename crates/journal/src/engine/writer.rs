//! The writer: takes what was appended, writes it in one run, flushes once, and only then calls it
//! durable.
//!
//! Invariant: `durable` moves forward after the flush that covers it has returned without error,
//! never before; after the first error it never moves again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use parking_lot::RwLockWriteGuard;

use crate::checksum::Checksums;
use crate::copies::FlushedBatch;
use crate::disk::is_out_of_handles;
use crate::engine::{Engine, Log, Target};
use crate::log::{LogEnd, LogId};
use crate::options::{BLOCK, Durability};
use crate::record;
use crate::ticket::Address;
use crate::wal::batch::{Batch, BatchHeader, HEADER, Link};
use crate::wal::buffer::DurableEnd;
use crate::wal::file::Ring;
use crate::wal::identity::{Advance, Identity};

/// How much goes out in one write at most, unless a single batch is larger.
const JOINED: u32 = 1 << 20;

/// What a step of the writer did.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// There was nothing to write.
    Idle,
    /// What had been appended is durable.
    Done,
    /// The next log file could not be readied, because the disk is full, say. Nothing is lost: try
    /// again.
    Stalled,
}

/// What the writer remembers from batch to batch.
pub(crate) struct Writer {
    /// The header checksum of the last batch written.
    pub(crate) previous: Link,
    /// The last batch written.
    pub(crate) last: u64,
    /// The last batch known to be flushed.
    pub(crate) synced: u64,
    pub(crate) ends: WrittenEnds,
    /// Whether that was an empty one which says that all before it is flushed.
    pub(crate) proof: bool,
    /// Room for batches that go out in one write. Each log that is written to has one, of a block
    /// or a few, and a call for each would take longer than the flush.
    pub(crate) joined: Vec<u8>,
    /// The generations written to since the last flush.
    pub(crate) dirty: Vec<u32>,
    /// Where the last batch written in this run ends.
    pub(crate) end: Option<Address>,
    /// Where the last one ends that is known to be flushed.
    pub(crate) synced_end: Option<Address>,
}

/// Up to where each log is written and flushed.
pub(crate) struct WrittenEnds {
    /// The term of this run.
    term: u64,
    /// The end of each log, and the index up to which it is known to be flushed.
    ends: HashMap<LogId, (LogEnd, u64)>,
    /// The logs written to since the last flush.
    unsynced: Vec<LogId>,
}

impl WrittenEnds {
    /// What recovery found, all of it flushed.
    pub(crate) fn new(term: u64, ends: &BTreeMap<LogId, LogEnd>) -> Self {
        let ends = ends.values().map(|end| (end.log, (*end, end.index))).collect();
        Self { term, ends, unsynced: Vec::new() }
    }

    /// Begins a term that is later than its own, and than all that were appended before.
    pub(crate) fn begin_term(&mut self, last_appended: u64) {
        self.term = last_appended.max(self.term).saturating_add(1);
    }

    /// A log goes on behind this end.
    pub(crate) fn begin_behind(&mut self, end: LogEnd) {
        self.ends.insert(end.log, (end, end.index));
    }

    /// The link that the records of a batch continue: none if they do not move their log, or were
    /// sent here with the link behind them.
    fn link_before(&self, batch: &Batch) -> Option<u32> {
        let moves = batch.advance() == Advance::Yes && batch.sent.is_none();
        moves.then(|| self.ends.get(&batch.log).map_or(0, |(end, _)| end.link))
    }

    /// Moves the log of a batch forward, and gives what its header says of it. `link` continues
    /// [`Self::link_before`].
    fn take(&mut self, batch: &Batch, link: Option<u32>) -> Identity {
        let (term, log) = (batch.sent.map_or(self.term, |end| end.term), batch.log);
        let (end, commit) = self.ends.entry(log).or_insert_with(|| (LogEnd::before(log, term), 0));
        // What was sent has been checked, or begins the log here.
        let next = batch.sent.or(link.map(|link| LogEnd { log, term, index: end.index + 1, link }));
        if let Some(next) = next {
            *end = next;
            debug_assert_eq!(end.index, batch.index, "the buffer and the writer count alike");
            if self.unsynced.last() != Some(&log) {
                self.unsynced.push(log);
            }
        }
        Identity { end: LogEnd { term, ..*end }, commit: *commit }
    }

    /// Everything written is flushed.
    fn sync(&mut self) {
        for log in self.unsynced.drain(..) {
            self.ends.entry(log).and_modify(|(end, commit)| *commit = end.index);
        }
    }
}

impl Engine {
    /// Writes and flushes everything appended before the call. An error is final: the log has
    /// failed. Only the writer may call it: until what it wrote is off the buffer, another call
    /// would write that again, with another header.
    pub(crate) fn flush(&self, log: &Log) -> io::Result<Flushed> {
        let mut writer = log.writer.lock();
        let (mut run, sync) = {
            let mut state = self.state.lock();
            if state.failed {
                return Err(io::Error::other("the journal has failed before"));
            }
            // Taken in any case: a wish that stays would keep the writer from ever waiting.
            let wanted = std::mem::take(&mut state.sync_wanted);
            let sync = wanted || log.durability == Durability::Fsync;
            let Target::Log(buffer) = &mut state.target else { return Ok(Flushed::Idle) };
            (buffer.run(), sync)
        };
        let all = run.len();
        let (count, refused) = writable(&log.ring, &run);
        run.truncate(count);
        if all > 0 && run.is_empty() {
            if let Some(error) = refused.filter(|error| !is_out_of_room(error)) {
                drop(writer);
                self.fail(log, &error);
                return Err(error);
            }
            if sync {
                // The flush that was asked for could not be done yet.
                self.state.lock().sync_wanted = true;
            }
            return Ok(Flushed::Stalled);
        }
        if run.is_empty() && (!sync || writer.dirty.is_empty()) {
            return Ok(Flushed::Idle);
        }
        let last = run.last().map_or(writer.last, |batch| batch.sequence);
        #[cfg(feature = "sabotage")]
        if std::env::var_os("HERMOD_SABOTAGE").is_some_and(|fault| fault == "confirm-before-write") {
            self.progress.reach(&flushed_batches(&run));
            // As long as a slow disk would take: a kill must be able to come in between.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let written = writer.write(log, &run).and_then(|()| if sync { writer.sync(log, last) } else { Ok(()) });
        if let Err(error) = written {
            drop(writer);
            self.fail(log, &error);
            return Err(error);
        }
        writer.last = last;
        let end = DurableEnd { sequence: last, proof: writer.proof };
        drop(run);
        drop(writer);
        self.settle(log, end);
        Ok(if all > 0 { Flushed::Done } else { Flushed::Idle })
    }

    /// Everything up to `end` is durable: wakes what waited for it.
    fn settle(&self, log: &Log, end: DurableEnd) {
        let (flushed, background, surplus) = {
            let mut state = self.state.lock();
            let Target::Log(buffer) = &mut state.target else { return };
            let written = buffer.durable(end);
            let flushed = flushed_batches(&written);
            self.progress.lags_by(buffer.volumes.pending);
            let surplus = buffer.reuse(written);
            (flushed, log.background_due(buffer), surplus)
        };
        self.progress.reach(&flushed);
        drop(surplus);
        if background {
            self.wake_background();
        }
    }

    /// Writes an empty batch if the last one has records: the proof that what came before is
    /// flushed.
    pub(crate) fn seal(&self, log: &Log) -> io::Result<Flushed> {
        self.state.lock().sync_wanted = true;
        if self.flush(log)? == Flushed::Stalled {
            return Ok(Flushed::Stalled);
        }
        let surplus = {
            let mut state = self.state.lock();
            let Target::Log(buffer) = &mut state.target else { return Ok(Flushed::Idle) };
            if buffer.proven || !buffer.is_idle() {
                return Ok(Flushed::Idle);
            }
            buffer.force();
            let surplus = buffer.shrink();
            state.sync_wanted = true;
            surplus
        };
        drop(surplus);
        log.writer.lock().joined = Vec::new();
        self.flush(log)
    }
}

fn flushed_batches(run: &[Arc<Batch>]) -> Vec<FlushedBatch> {
    let flushed = |batch: &Arc<Batch>| FlushedBatch {
        log: batch.log,
        index: batch.index,
        sequence: batch.sequence,
        bytes: u64::from(batch.length),
    };
    run.iter().map(flushed).collect()
}

/// How many batches at the front of `run` have their file ready, and why the next one has none.
fn writable(ring: &Ring, run: &[Arc<Batch>]) -> (usize, Option<io::Error>) {
    for (at, batch) in run.iter().enumerate() {
        if let Err(error) = ring.ensure(batch.file) {
            return (at, Some(error));
        }
    }
    (run.len(), None)
}

/// How many batches at the front of `run` go out in one write: those that lie side by side, as many
/// as a piece has room for.
fn adjoining(run: &[Arc<Batch>]) -> usize {
    let start = run.first().map_or(0, |first| first.offset);
    let side_by_side =
        run.windows(2).take_while(|two| two[0].end() == two[1].start() && two[1].end().offset - start <= JOINED);
    1 + side_by_side.count()
}

/// Whether a file could not be readied because something is missing that may come back: room, or
/// file handles. With any other error the disk is no disk any more, and waiting would be for ever.
fn is_out_of_room(error: &io::Error) -> bool {
    is_out_of_handles(error) || matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Writer {
    /// Up to where these logs are written.
    pub(crate) fn ends_of(&self, logs: &[LogId]) -> Vec<LogEnd> {
        logs.iter().filter_map(|log| self.ends.ends.get(log).map(|(end, _)| *end)).collect()
    }

    fn write(&mut self, log: &Log, run: &[Arc<Batch>]) -> io::Result<()> {
        let mut rest = run;
        while let Some(first) = rest.first() {
            let (piece, later) = rest.split_at(adjoining(rest));
            let file = log.ring.handle(first.file).ok_or_else(|| io::Error::other("a log file in use is not open"))?;
            let written = match piece {
                [batch] => {
                    let mut bytes = batch.bytes.write();
                    self.finish(log, batch, &mut bytes)?;
                    // Readers of the batch need not wait for the disk.
                    let bytes = RwLockWriteGuard::downgrade(bytes);
                    file.write_all_at(&bytes, u64::from(first.offset))?;
                    bytes.len()
                }
                batches => {
                    let mut joined = std::mem::take(&mut self.joined);
                    joined.clear();
                    for batch in batches {
                        let mut bytes = batch.bytes.write();
                        self.finish(log, batch, &mut bytes)?;
                        joined.extend_from_slice(&bytes);
                    }
                    file.write_all_at(&joined, u64::from(first.offset))?;
                    self.joined = joined;
                    self.joined.len()
                }
            };
            log.figures.written.fetch_add(written as u64, Ordering::Relaxed);
            self.end = Some(Address { file: first.file, offset: first.offset + written as u32 });
            if self.dirty.last() != Some(&first.file) {
                self.dirty.push(first.file);
            }
            rest = later;
        }
        Ok(())
    }

    /// Fills in checksums, header and padding.
    fn finish(&mut self, log: &Log, batch: &Batch, bytes: &mut Vec<u8>) -> io::Result<()> {
        let sums = Checksums::new(log.incarnation, batch.file);
        let (header, records) = bytes
            .split_first_chunk_mut::<HEADER>()
            .ok_or_else(|| io::Error::other("a batch without room for its header"))?;
        let mut fields = BatchHeader {
            incarnation: log.incarnation,
            generation: batch.file,
            offset: batch.offset,
            oldest: batch.oldest,
            sequence: batch.sequence,
            durable: self.synced,
            length: batch.length,
            records: batch.records,
            previous: self.previous,
            payload: 0,
            kind: batch.kind,
            identity: None,
        };
        // None of these can be taken from another: that of the payload is seeded by the file.
        let before = self.ends.link_before(batch);
        let sealed = record::seal(records, batch.offset + HEADER as u32, sums, before);
        fields.payload = sealed.payload;
        fields.identity = Some(self.ends.take(batch, sealed.link));
        self.proof = batch.is_empty() && self.synced + 1 == batch.sequence;
        self.previous = fields.encode(sums, header);
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        Ok(())
    }

    /// Flushes every file written to; `last` is the last batch written.
    fn sync(&mut self, log: &Log, last: u64) -> io::Result<()> {
        for generation in &self.dirty {
            // A file that is no longer open was recycled, and what was in it is dead.
            if let Some(file) = log.ring.handle(*generation) {
                file.sync_data()?;
            }
        }
        log.figures.flushes.fetch_add(1, Ordering::Relaxed);
        self.dirty.clear();
        self.synced = last;
        self.ends.sync();
        self.synced_end = self.end;
        log.synced.store(last, Ordering::Release);
        Ok(())
    }
}
