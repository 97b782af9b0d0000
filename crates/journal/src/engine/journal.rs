//! The handles of a journal: [`Journal`] to use it, [`Opened`] between recovery and start, and
//! [`Stepper`] to drive the engine without threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};

use crate::admission::{Admission, AdmissionGate};
use crate::disk::{Disk, Lock};
use crate::durations::Durations;
use crate::engine::owners::{Owners, Restatement};
use crate::engine::recycle::{Activity, Recycler};
use crate::engine::scrub::Scrub;
use crate::engine::writer::{Flushed, Writer, WrittenEnds};
use crate::engine::{Engine, Figures, Log, OnFailure, RoomNeeds, State, Target};
use crate::held::HeldGroups;
use crate::layout::is_copied;
use crate::log::{LogEnd, LogId};
use crate::memory::Memory;
use crate::options::{Durability, Options, Sizes};
use crate::read::{self, no_body};
use crate::recovery::scan::Cut;
use crate::recovery::{self, Recovered, RecoveredLogs};
use crate::reference::{Chunk, Reference};
use crate::replay::Replay;
use crate::spill::Spill;
use crate::stats::{DiskUse, Held, SegmentStats, SpillStats, Stats};
use crate::ticket::{Address, Progress, Standing, Ticket};
use crate::verify::Damage;
use crate::wal::batch::BatchKind;
use crate::wal::buffer::Buffer;
use crate::{Appender, OpenError};

/// A running journal. Clones are handles to the same one; [`Journal::close`] ends it.
#[derive(Clone)]
pub struct Journal(Arc<Engine>);

/// A journal whose records were replayed and whose writer has not started.
pub struct Opened {
    options: Options,
    sizes: Sizes,
    /// None for a journal in memory.
    recovered: Option<(Recovered, Lock)>,
}

/// Drives the engine of a journal that has no threads, one step at a time.
pub struct Stepper(Journal);

impl Journal {
    /// Opens the journal on `disk`, or makes one there, and replays every durable record into
    /// `replay` in log order.
    ///
    /// # Errors
    /// If the directory is in use, is not a journal's, or can't be read; and if something that had
    /// been acknowledged does not read back. Nothing is changed on disk then.
    pub fn open(disk: Arc<dyn Disk>, options: Options, replay: &mut dyn Replay) -> Result<Opened, OpenError> {
        if options.durability == Durability::Memory {
            let sizes = Sizes::new(&options, u64::MAX);
            return Ok(Opened { options, sizes, recovered: None });
        }
        let lock = disk.lock().map_err(OpenError::io("locking the data directory"))?.ok_or(OpenError::Locked)?;
        let recovered = recovery::recover(disk, &options, replay)?;
        Ok(Opened { options, sizes: recovered.sizes, recovered: Some((recovered, lock)) })
    }

    /// Takes the buffer's lock, to append to a log, which begins with its first record. All others
    /// wait until the appender is dropped.
    pub fn appender(&self, log: LogId) -> Appender<'_> {
        Appender::new(&self.0, log, BatchKind::News)
    }

    /// Has segments read from time to time, at most so many bytes of them each second; zero for
    /// never, which is how a journal begins.
    pub fn scrub(&self, bytes_per_second: u64) {
        self.0.set_scrub_rate(bytes_per_second);
    }

    /// What was found damaged since the last call, once for each segment.
    pub fn take_damages(&self) -> Vec<Damage> {
        self.0.log.as_ref().map_or_else(Vec::new, |log| log.scrub.take_damages())
    }

    /// What [`Owners::restate`] is given, for owners that say something again unasked.
    pub fn restatement(&self) -> Restatement<'_> {
        Restatement::new(&self.0)
    }

    /// The logs that have records, or have had some since the start.
    pub fn logs(&self) -> Vec<LogId> {
        match &self.0.state.lock().target {
            Target::Log(buffer) => buffer.logs().collect(),
            Target::Memory(_) => Vec::new(),
        }
    }

    /// Nothing will be appended to the log any more, so its end need not be kept.
    pub fn end_log(&self, log: LogId) {
        self.0.with_buffer(|buffer| buffer.end_log(log));
        self.0.progress.end_log(log);
    }

    /// The ticket up to which everything in a log is durable. A look into a small table.
    pub fn durable(&self, log: LogId) -> Ticket {
        self.0.progress.durable(log)
    }

    /// Whether everything up to `ticket` is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.0.progress.is_durable(ticket)
    }

    /// What is known of a ticket.
    pub fn standing(&self, ticket: Ticket) -> Standing {
        match self.is_durable(ticket) {
            true => Standing::Durable,
            false if self.0.state.lock().failed => Standing::Unknown,
            false => Standing::Pending,
        }
    }

    /// Wakes `waker` once, when `ticket` is durable; at once if it is.
    pub fn when_durable(&self, ticket: Ticket, waker: &Waker) {
        self.0.progress.when_durable(ticket, waker);
    }

    /// Bytes appended and not yet durable. Two atomic loads.
    pub fn lag(&self) -> u64 {
        self.0.progress.lag()
    }

    /// The longest body or fact that may be appended, in bytes.
    pub fn max_body(&self) -> u32 {
        self.0.sizes.max_body()
    }

    /// True when that is as little because the disk was short when the journal was opened, whatever
    /// the settings say.
    pub fn is_short_of_disk(&self) -> bool {
        self.0.sizes.short_of_disk
    }

    /// Reads a body that is referenced or held, and checks it.
    ///
    /// # Errors
    /// `InvalidData` if there is no such body or it is damaged; else what the disk said.
    pub fn read(&self, address: Address) -> io::Result<Bytes> {
        let pending = match &mut self.0.state.lock().target {
            Target::Memory(memory) => return memory.read(address).ok_or_else(|| no_body(address)),
            Target::Log(buffer) => buffer.find(address),
        };
        if let Some(pending) = pending {
            return pending.read(address).ok_or_else(|| no_body(address));
        }
        let log = self.0.log.as_ref().ok_or_else(|| no_body(address))?;
        let file = log.open(address.file).ok_or_else(|| no_body(address))?;
        read::body(&*file, log.incarnation, address)
    }

    /// Reads many bodies, in the order asked for. Neighbours are read with one operation and share
    /// its memory, up to a mebibyte of it.
    ///
    /// # Errors
    /// As [`Journal::read`], for the first that can't be read.
    pub fn read_all(&self, wanted: &[Reference]) -> io::Result<Vec<Bytes>> {
        let engine = &self.0;
        let pending = match &engine.state.lock().target {
            Target::Memory(_) => None,
            Target::Log(buffer) => Some(buffer.first_pending()),
        };
        let Some(log) = &engine.log else { return wanted.iter().map(|one| self.read(one.address)).collect() };
        let mut bodies = vec![Bytes::new(); wanted.len()];
        let mut order = Vec::with_capacity(wanted.len());
        for (at, one) in wanted.iter().enumerate() {
            let pending = pending.is_some_and(|pending| !is_copied(one.address.file) && one.address >= pending);
            // How far to read is not known without the length.
            if pending || one.length == 0 {
                bodies[at] = self.read(one.address)?;
            } else {
                order.push(at);
            }
        }
        let open = |file| log.open(file);
        read::many(wanted, order, &open, log.incarnation, &mut |at, body| bodies[at] = body)?;
        Ok(bodies)
    }

    /// Adds to `into` the references that `chunk`, of `page`, lists, in ascending order; also those
    /// settled since.
    ///
    /// # Errors
    /// `NotFound` if there is no such chunk; `InvalidData` if it is damaged; else what the disk
    /// said.
    pub fn read_chunk(&self, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> io::Result<()> {
        let log = self.0.log.as_ref().ok_or_else(|| no_chunk(chunk))?;
        log.cold.read_chunk(chunk, page, into)
    }

    /// Whether there is a disk to [`Journal::spill`] to.
    pub fn spills(&self) -> bool {
        self.0.log.is_some()
    }

    /// Writes bodies outside the log, because memory is short. Nothing is flushed, and nothing of
    /// it outlives the process. Each is held once, until [`Journal::free_spilled`]; meanwhile it is
    /// read as any other. Waits for the disk.
    ///
    /// # Errors
    /// If there is no disk, or no room on it that the log can't come to need; else what the disk
    /// said. No body is held then, and the journal goes on.
    pub fn spill(&self, bodies: &[&[u8]]) -> io::Result<Vec<Address>> {
        let log = self.0.log.as_ref().ok_or_else(|| io::Error::other("this journal lies in memory"))?;
        let room = |length: u64| {
            let free = log.cold.disk.free()?;
            let spoken_for = match &self.0.state.lock().target {
                Target::Log(buffer) => log.spoken_for(buffer),
                Target::Memory(_) => 0,
            };
            if free < spoken_for.saturating_add(length) {
                let what = "what is free on the disk is kept for the log";
                return Err(io::Error::new(io::ErrorKind::StorageFull, what));
            }
            Ok(())
        };
        log.spill.write(bodies, &room)
    }

    /// Looks at the disk. `None` for a journal in memory.
    ///
    /// # Errors
    /// What the disk said.
    pub fn disk_use(&self) -> Option<io::Result<DiskUse>> {
        let log = self.0.log.as_ref()?;
        let look = || {
            let (free, size) = (log.cold.disk.free()?, log.cold.disk.size()?);
            let in_log = self.0.with_buffer(|buffer| log.made(buffer) + buffer.segments.bytes()).unwrap_or(0);
            Ok(DiskUse { free, size, stored: in_log + log.spill.stats().bytes })
        };
        Some(look())
    }

    /// Lets go of `count` bodies that were spilled to `file`. True when [`Journal::tidy_spilled`]
    /// has something to do. Never waits for the disk.
    pub fn free_spilled(&self, file: u32, count: u64) -> bool {
        self.0.log.as_ref().is_some_and(|log| log.spill.free(file, count))
    }

    /// Removes a file of which no body is held, or that an earlier process left. True when there
    /// are more.
    pub fn tidy_spilled(&self) -> bool {
        self.0.log.as_ref().is_some_and(|log| log.spill.tidy())
    }

    /// A file of spilled bodies that takes far more room than the bodies that are still held. They
    /// should be spilled again, to another file. Each file is named once.
    pub fn sparse_spilled(&self) -> Option<u32> {
        self.0.log.as_ref().and_then(|log| log.spill.sparse())
    }

    /// What the log's files list costs its user too much memory: the oldest closed file should
    /// leave the log soon, however much room there is. Cheap; call it again while the need lasts.
    pub fn relieve(&self) {
        let mut state = self.0.state.lock();
        let Target::Log(buffer) = &mut state.target else { return };
        if !std::mem::replace(&mut buffer.recycle.relieve, true) {
            state.background_due = true;
            self.0.background_wakes.notify_one();
        }
    }

    /// What there is room for. One atomic load while there is room for everything.
    pub fn admission(&self) -> Admission {
        let admission = self.0.gate.get();
        if admission != Admission::Open {
            self.0.want_recovered_room();
        }
        admission
    }

    /// Bytes that facts which are always alive may take: half a file. Whatever a file is about when
    /// it leaves, all of them may have to be said again for it. With more the log could grow by
    /// what should make room. Without an end in memory.
    pub fn lasting_max(&self) -> u64 {
        if self.0.log.is_some() { u64::from(self.0.sizes.file) / 2 } else { u64::MAX }
    }

    /// Bytes that such facts take now: room for them is kept as for a restatement.
    pub fn note_lasting(&self, bytes: u64) {
        if let Some(log) = &self.0.log {
            log.needs.declared.store(bytes, Ordering::Relaxed);
        }
    }

    /// Wakes `waker` once, at the next change of [`Journal::admission`].
    pub fn on_admission_change(&self, waker: Waker) {
        self.0.gate.on_change(waker);
    }

    /// Bytes that it keeps in memory in place of a disk.
    pub fn bytes_in_memory(&self) -> u64 {
        match &self.0.state.lock().target {
            Target::Memory(memory) => memory.used(),
            Target::Log(_) => 0,
        }
    }

    /// The journal's figures.
    pub fn stats(&self) -> Stats {
        let damaged = self.0.log.as_ref().map_or_else(Vec::new, |log| log.scrub.damaged());
        let mut state = self.0.state.lock();
        let room = self.0.room(&mut state);
        let mut stats = Stats {
            files: 0,
            used_bytes: 0,
            max_bytes: self.0.sizes.ring,
            free_bytes: 0,
            written_bytes: 0,
            flushes: 0,
            flush_times: Durations::default(),
            room_bytes: room.map_or(0, |(room, marks)| room.saturating_sub(marks.reserve + marks.headroom)),
            live_bytes: 0,
            oldest_file: 0,
            oldest_held: Held::Nothing,
            ready_failures: 0,
            segments: SegmentStats::default(),
            spill: SpillStats::default(),
        };
        match &mut state.target {
            Target::Memory(memory) => {
                let (oldest, live) = memory.oldest();
                stats.files = memory.segments() as u32;
                stats.used_bytes = memory.used();
                stats.live_bytes = memory.used();
                stats.oldest_file = oldest;
                stats.oldest_held = if live > 0 { Held::Live(live) } else { Held::Head };
            }
            Target::Log(buffer) => {
                let oldest = buffer.table.oldest();
                stats.oldest_file = oldest.generation;
                stats.oldest_held = match oldest.live {
                    _ if buffer.table.len() == 1 => Held::Head,
                    0 if buffer.groups.hold(oldest.generation) => Held::Group,
                    0 => Held::Nothing,
                    live => Held::Live(live),
                };
                stats.files = buffer.table.len() as u32;
                stats.used_bytes = buffer.table.closed_bytes() + u64::from(buffer.table.head_length());
                stats.live_bytes = buffer.table.live_bytes();
                stats.segments.files = buffer.segments.segments.len() as u32;
                stats.segments.bytes = buffer.segments.bytes();
                stats.segments.live_bytes = buffer.segments.live_bytes();
                let there = |number: &&u32| buffer.segments.segments.contains_key(*number);
                stats.segments.damaged = damaged.iter().filter(there).count() as u32;
            }
        }
        if let Some(log) = &self.0.log {
            stats.free_bytes = log.needs.free.load(Ordering::Relaxed);
            stats.written_bytes = log.figures.written.load(Ordering::Relaxed);
            stats.flushes = log.figures.flushes.load(Ordering::Relaxed);
            stats.flush_times = log.figures.flush_times.clone();
            stats.ready_failures = log.ring.failures();
            stats.segments.evacuated_bytes = log.figures.evacuated.load(Ordering::Relaxed);
            stats.segments.adopted_files = log.figures.adopted.load(Ordering::Relaxed);
            stats.segments.merges = log.figures.merges.load(Ordering::Relaxed);
            stats.segments.failures = log.figures.failures.load(Ordering::Relaxed);
            (stats.segments.scrubbed_bytes, stats.segments.scrub_rounds) = log.scrub.figures();
            stats.spill = log.spill.stats();
        }
        stats
    }

    /// Flushes everything, seals the log with an empty batch, ends the threads and lets go of the
    /// directory. What is appended afterwards is swallowed. A second call does nothing.
    ///
    /// # Errors
    /// If the log has failed, or could not take the last records.
    pub fn close(&self) -> io::Result<()> {
        self.0.stop_threads();
        let Some(log) = &self.0.log else { return Ok(()) };
        let Some(directory) = self.0.directory.lock().take() else { return Ok(()) };
        log.spill.close();
        let sealed = self.0.seal(log).and_then(|flushed| match flushed {
            Flushed::Stalled => Err(io::Error::new(io::ErrorKind::StorageFull, "no room for the last records")),
            Flushed::Idle | Flushed::Done => Ok(()),
        });
        self.0.state.lock().failed = true;
        drop(directory);
        sealed
    }
}

impl Opened {
    /// Starts the journal and its two threads. `live` gives the references that survived replay as
    /// counts by the file or segment that their bodies lie in. `owners` restates owners before a
    /// file goes. It is not asked before something is appended or [`Journal::admission`] is looked
    /// at. Until then the caller may still build what it answers from. `on_failure` is told, once,
    /// that the log has failed: the process must end, since nothing will be durable any more.
    pub fn start(
        self,
        live: &mut dyn Iterator<Item = (u32, u64)>,
        owners: Arc<dyn Owners>,
        on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    ) -> Journal {
        let journal = self.assemble(live, owners, on_failure);
        if let (Some(log), Err(error)) = (&journal.0.log, journal.0.start_threads()) {
            journal.0.fail(log, &error);
        }
        journal
    }

    /// As [`Opened::start`], without threads: the [`Stepper`] does their work when it is told to.
    pub fn start_stepped(
        self,
        live: &mut dyn Iterator<Item = (u32, u64)>,
        owners: Arc<dyn Owners>,
        on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    ) -> (Journal, Stepper) {
        let journal = self.assemble(live, owners, on_failure);
        (journal.clone(), Stepper(journal))
    }

    /// Up to where the logs go, and the groups that had not ended, for a journal that follows. None
    /// for one in memory.
    pub(crate) fn take_unfinished(&mut self) -> Option<(HashMap<LogId, LogEnd>, HeldGroups)> {
        let (recovered, _) = self.recovered.as_mut()?;
        let ends = recovered.logs.ends.iter().map(|(log, end)| (*log, *end)).collect();
        Some((ends, std::mem::take(&mut recovered.logs.unfinished)))
    }

    /// What recovery cut off at the end of the log.
    pub fn cut(&self) -> Option<&Cut> {
        self.recovered.as_ref().and_then(|(recovered, _)| recovered.cut.as_ref())
    }

    /// Reads a body. See [`Journal::read`].
    ///
    /// # Errors
    /// `InvalidData` if there is no such body or it is damaged; else what the disk said.
    pub fn read(&self, address: Address) -> io::Result<Bytes> {
        let (recovered, _) = self.recovered.as_ref().ok_or_else(|| no_body(address))?;
        let file = recovered.ring.handle(address.file).or_else(|| recovered.cold.open(address.file));
        let file = file.ok_or_else(|| no_body(address))?;
        read::body(&*file, recovered.incarnation, address)
    }

    /// Reads what a chunk lists. See [`Journal::read_chunk`].
    ///
    /// # Errors
    /// As there.
    pub fn read_chunk(&self, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> io::Result<()> {
        let (recovered, _) = self.recovered.as_ref().ok_or_else(|| no_chunk(chunk))?;
        recovered.cold.read_chunk(chunk, page, into)
    }

    fn assemble(
        self,
        live: &mut dyn Iterator<Item = (u32, u64)>,
        owners: Arc<dyn Owners>,
        on_failure: OnFailure,
    ) -> Journal {
        let mut progress = Progress::default();
        let (target, log, directory) = match self.recovered {
            None => (Target::Memory(Memory::new(self.sizes.ring)), None, None),
            Some((mut recovered, lock)) => {
                live.for_each(|(file, count)| {
                    if !recovered.table.hold(file, count) {
                        recovered.segments.hold(file, count);
                    }
                });
                recovered.segments.find_dead();
                progress = Progress::resumed(recovered.logs.ends.values().map(|end| (end.log, end.index)));
                let (buffer, log) = running(recovered, self.options.durability, owners, on_failure);
                (Target::Log(Box::new(buffer)), Some(log), Some(lock))
            }
        };
        let engine = Engine {
            sizes: self.sizes,
            state: Mutex::new(State::new(target)),
            progress,
            gate: AdmissionGate::new(),
            writer_wakes: Condvar::new(),
            unwoken: AtomicBool::new(false),
            background_wakes: Condvar::new(),
            log,
            threads: Mutex::new(Vec::new()),
            recovered_wanted: AtomicBool::new(false),
            directory: Mutex::new(directory),
        };
        engine.look_at_room(&mut engine.state.lock());
        Journal(Arc::new(engine))
    }
}

/// The running parts of what was recovered.
fn running(
    recovered: Recovered,
    durability: Durability,
    owners: Arc<dyn Owners>,
    on_failure: OnFailure,
) -> (Buffer, Log) {
    let Recovered {
        sizes,
        incarnation,
        table,
        segments,
        cold,
        ring,
        offset,
        next_sequence,
        previous,
        term,
        logs: RecoveredLogs { ends, entries, unfinished: _ },
        current_from,
        cut: _,
        leftover,
    } = recovered;
    let spill = Spill::new(Arc::clone(&cold.disk), incarnation, sizes.file, leftover);
    let free = ring.free_on_disk().unwrap_or(0);
    let mut buffer = Buffer::new(sizes, table, segments, (&ends, entries), (offset, next_sequence));
    buffer.recycle.current_from = current_from;
    let last = next_sequence - 1;
    let log = Log {
        durability,
        incarnation,
        ring,
        cold,
        // Recovery has flushed what it kept.
        writer: Mutex::new(Writer {
            previous,
            last,
            synced: last,
            ends: WrittenEnds::new(term, &ends),
            proof: false,
            joined: Vec::new(),
            dirty: Vec::new(),
            end: None,
            synced_end: None,
        }),
        recycler: Mutex::new(Recycler::new()),
        synced: AtomicU64::new(last),
        awaited: AtomicU64::new(0),
        figures: Figures::default(),
        needs: RoomNeeds { free: AtomicU64::new(free), ..RoomNeeds::default() },
        pinned: AtomicBool::new(false),
        scrub: Scrub::default(),
        spill,
        owners,
        on_failure,
    };
    (buffer, log)
}

impl Stepper {
    pub(crate) fn journal(&self) -> &Journal {
        &self.0
    }

    /// Writes and flushes what was appended: the writer's work.
    ///
    /// # Errors
    /// What the disk said. The journal has failed then.
    pub fn flush(&self) -> io::Result<Flushed> {
        self.0.0.log.as_ref().map_or(Ok(Flushed::Idle), |log| self.0.0.flush(log))
    }

    /// What the writer's thread would do by itself: writes and flushes until nothing is left, then
    /// sleeps; once it sleeps, nothing before it is woken.
    ///
    /// # Errors
    /// What the disk said. The journal has failed then.
    pub fn run_writer(&self) -> io::Result<Flushed> {
        if self.0.0.state.lock().writer_sleeps {
            return Ok(Flushed::Idle);
        }
        let flushed = self.flush()?;
        self.0.0.let_writer_sleep();
        Ok(flushed)
    }

    /// Seals the log with an empty batch, as the writer does when it has been idle for a moment.
    ///
    /// # Errors
    /// What the disk said. The journal has failed then.
    pub fn seal(&self) -> io::Result<Flushed> {
        self.0.0.log.as_ref().map_or(Ok(Flushed::Idle), |log| self.0.0.seal(log))
    }

    /// One step of the scrub, `now` after the start: see [`Journal::scrub`]. Gives when there is
    /// more to do.
    pub fn scrub(&self, now: Duration) -> Option<Duration> {
        self.0.0.log.as_ref().and_then(|log| self.0.0.scrub(log, now))
    }

    /// One step of the background; true if there may be more to do at once.
    pub fn background(&self, activity: Activity) -> bool {
        self.0.0.log.as_ref().is_some_and(|log| self.0.0.background(log, activity))
    }
}

impl Engine {
    /// A handle for the background thread, which gives it to the owners.
    pub(crate) fn handle(self: &Arc<Self>) -> Journal {
        Journal(Arc::clone(self))
    }
}

impl Journal {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }
}

fn no_chunk(chunk: Chunk) -> io::Error {
    let what = format!("no chunk at byte {} of the index of segment {:08x}", chunk.block, chunk.segment);
    io::Error::new(io::ErrorKind::NotFound, what)
}
