//! The engine behind a journal: everything its handles, its appenders and its threads share.
//!
//! Lock order: scrub, recycler → writer → readying a file → state → a batch's bytes → shelf,
//! progress, gate. No waker is woken with one of them held, and owners restate with only the
//! recycler's.

pub(crate) mod appender;
mod awaited;
pub(crate) mod backup;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod journal;
pub(crate) mod kept;
pub(crate) mod owners;
pub(crate) mod receiving;
pub(crate) mod recycle;
mod scrub;
pub(crate) mod snapshot;
mod threads;
pub(crate) mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::admission::{AdmissionGate, Thresholds};
use crate::cold::Cold;
use crate::disk::{DiskFile, Lock};
use crate::durations::Durations;
use crate::engine::owners::Owners;
use crate::engine::recycle::Recycler;
use crate::engine::scrub::Scrub;
use crate::engine::writer::Writer;
use crate::layout::{is_copied, is_spilled};
use crate::memory::Memory;
use crate::options::{Durability, Sizes};
use crate::spill::Spill;
use crate::ticket::{Progress, Ticket};
use crate::wal::buffer::Buffer;
use crate::wal::file::Ring;

/// Called once, when the log has failed.
pub(crate) type OnFailure = Box<dyn Fn(&io::Error) + Send + Sync>;

/// What appends go to.
pub(crate) enum Target {
    Log(Box<Buffer>),
    Memory(Memory),
}

/// What appenders lock.
pub(crate) struct State {
    pub(crate) target: Target,
    /// The log has failed or is closed: nothing is taken any more.
    pub(crate) failed: bool,
    pub(crate) stopping: bool,
    pub(crate) writer_sleeps: bool,
    pub(crate) background_due: bool,
    /// The next flush must reach the disk whatever the durability class.
    pub(crate) sync_wanted: bool,
}

impl State {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, failed: false, stopping: false, writer_sleeps: false, background_due: false, sync_wanted: false }
    }

    /// The end of everything appended so far to the log at this place of the buffer.
    pub(crate) fn ticket(&self, place: usize) -> Ticket {
        match &self.target {
            Target::Log(buffer) => {
                let (log, index) = buffer.index_at(place);
                // What is swallowed is never durable.
                if self.failed { Ticket::lost(log) } else { Ticket::at(log, index) }
            }
            Target::Memory(_) => Ticket::NONE,
        }
    }

    /// When this batch is flushed, so is everything appended so far. None once the log has failed:
    /// what is swallowed is never flushed.
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        match &self.target {
            Target::Log(buffer) if !self.failed => Some(buffer.last_sequence()),
            Target::Log(_) | Target::Memory(_) => None,
        }
    }
}

/// The parts only a journal on disk has.
pub(crate) struct Log {
    pub(crate) durability: Durability,
    pub(crate) incarnation: u64,
    pub(crate) ring: Ring,
    pub(crate) cold: Cold,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) recycler: Mutex<Recycler>,
    /// The last batch known to be flushed, also where durability asks for less.
    pub(crate) synced: AtomicU64,
    /// The batch the recycler waits for; zero if it waits for none.
    pub(crate) awaited: AtomicU64,
    pub(crate) figures: Figures,
    pub(crate) needs: RoomNeeds,
    /// A backup runs: no file that the log or a segment has may leave or change. Set under the
    /// recycler's lock.
    pub(crate) pinned: AtomicBool,
    pub(crate) scrub: Scrub,
    pub(crate) spill: Spill,
    pub(crate) owners: Arc<dyn Owners>,
    pub(crate) on_failure: OnFailure,
}

/// What has been done since the journal was opened.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) written: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// Of the writer's thread.
    pub(crate) flush_times: Durations,
    /// Bytes of bodies copied to segments.
    pub(crate) evacuated: AtomicU64,
    /// Log files that became segments.
    pub(crate) adopted: AtomicU64,
    pub(crate) merges: AtomicU64,
    /// Evacuations and merges that were given up.
    pub(crate) failures: AtomicU64,
}

/// What is free on the disk, and what room is spoken for.
#[derive(Default)]
pub(crate) struct RoomNeeds {
    /// What was free on the disk at the last look.
    pub(crate) free: AtomicU64,
    /// What is alive in closed files and will be copied out of the log, at the last look. Room on
    /// the disk is spoken for by it, so that whatever was admitted can leave the log again.
    pub(crate) to_copy: AtomicU64,
    /// The largest restatement so far, in bytes.
    pub(crate) restatement: AtomicU64,
    /// Bytes of facts that are always alive, as the user of the log says.
    pub(crate) declared: AtomicU64,
}

/// A journal without its handles.
pub(crate) struct Engine {
    pub(crate) sizes: Sizes,
    pub(crate) state: Mutex<State>,
    pub(crate) progress: Progress,
    pub(crate) gate: AdmissionGate,
    pub(crate) writer_wakes: Condvar,
    /// The writer sleeps over records whose appender has put off waking it. Changed under the
    /// state's lock.
    pub(crate) unwoken: AtomicBool,
    pub(crate) background_wakes: Condvar,
    pub(crate) log: Option<Log>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// A publish was turned away, and the recycler has been told that the room of what was
    /// recovered is wanted.
    pub(crate) recovered_wanted: AtomicBool,
    pub(crate) directory: Mutex<Option<Lock>>,
}

impl Engine {
    /// Wakes the writer if it sleeps.
    pub(crate) fn wake_writer(&self, state: &mut State) {
        self.unwoken.store(false, Ordering::Relaxed);
        if std::mem::take(&mut state.writer_sleeps) {
            self.writer_wakes.notify_one();
        }
    }

    pub(crate) fn wake_background(&self) {
        self.state.lock().background_due = true;
        self.background_wakes.notify_one();
    }

    /// A publish is turned away. If what was recovered is dead and fills the ring, nothing new
    /// comes in before it is gone. So once in each run all of it counts as new to the recycler,
    /// which else waits for something new.
    pub(crate) fn want_recovered_room(&self) {
        if self.recovered_wanted.load(Ordering::Relaxed) {
            return;
        }
        // The caller may have the lock, as an appender. A publish that is turned away asks again.
        let Some(mut state) = self.state.try_lock() else { return };
        if let Target::Log(buffer) = &mut state.target {
            buffer.volumes.fresh += buffer.used();
        }
        state.background_due = true;
        self.recovered_wanted.store(true, Ordering::Relaxed);
        self.background_wakes.notify_one();
    }

    /// Moves the admission gate to what there is room for, and gives the wakers to wake once no
    /// lock is held.
    pub(crate) fn look_at_room(&self, state: &mut State) -> Vec<Waker> {
        self.room(state).map_or_else(Vec::new, |(room, thresholds)| self.gate.update(room, thresholds))
    }

    /// How much there is room for, and where the gate changes.
    pub(crate) fn room(&self, state: &mut State) -> Option<(u64, Thresholds)> {
        match (&mut state.target, &self.log) {
            (Target::Log(buffer), Some(log)) => Some((log.room(buffer), log.thresholds(self.sizes))),
            (Target::Memory(memory), _) => {
                Some((self.sizes.ring.saturating_sub(memory.used()), Thresholds::of_memory(self.sizes)))
            }
            (Target::Log(_), None) => None,
        }
    }

    /// Does something with the buffer of a journal on disk, under its lock.
    pub(crate) fn with_buffer<T>(&self, work: impl FnOnce(&mut Buffer) -> T) -> Option<T> {
        match &mut self.state.lock().target {
            Target::Log(buffer) => Some(work(buffer)),
            Target::Memory(_) => None,
        }
    }

    /// The log has failed: nothing is taken or called durable any more.
    pub(crate) fn fail(&self, log: &Log, error: &io::Error) {
        let first = !std::mem::replace(&mut self.state.lock().failed, true);
        if first {
            (log.on_failure)(error);
        }
    }
}

impl Log {
    /// The file or segment of this number, if it is there.
    pub(crate) fn open(&self, file: u32) -> Option<Arc<dyn DiskFile>> {
        match file {
            file if is_spilled(file) => self.spill.open(file),
            file if is_copied(file) => self.cold.open(file),
            file => self.ring.handle(file).or_else(|| self.cold.open(file)),
        }
    }

    /// Bytes that can still be appended: in the ring, and on the disk.
    pub(crate) fn room(&self, buffer: &mut Buffer) -> u64 {
        let used = buffer.used();
        let in_ring = buffer.sizes.ring.saturating_sub(used);
        // Only whole files count: the log can't go on in a part of one.
        let file = u64::from(buffer.sizes.file);
        let unspoken =
            self.needs.free.load(Ordering::Relaxed).saturating_sub(self.needs.to_copy.load(Ordering::Relaxed));
        let on_disk = if self.ring.failing() { 0 } else { unspoken / file * file };
        let on_disk = on_disk.saturating_add(self.ring.spare_bytes());
        // The head may be ahead of what has a file.
        let claimed = match self.ring.ready().checked_sub(buffer.table.head_generation()) {
            Some(ahead) => {
                let end_of_head = buffer.table.closed_bytes() + u64::from(buffer.table.head_length());
                end_of_head.saturating_sub(used) + u64::from(ahead) * u64::from(buffer.sizes.file)
            }
            None => 0,
        };
        in_ring.min(claimed.saturating_add(on_disk))
    }

    /// Bytes on the disk that the oldest file may take when it becomes a segment. What the ring may
    /// still grow by, and what of other files will be copied, is not free for it. A backlog that
    /// finds no more room then fills the ring, and closes the gate while consuming clients still
    /// have their headroom.
    pub(crate) fn to_spare(&self, buffer: &mut Buffer) -> u64 {
        let Thresholds { reserve, .. } = self.thresholds(buffer.sizes);
        let full = buffer.sizes.ring.saturating_sub(buffer.used()) <= reserve;
        let growth = buffer.sizes.ring.saturating_sub(self.made(buffer));
        let free = self.needs.free.load(Ordering::Relaxed).saturating_sub(growth);
        if full {
            // It is the turn of what was spoken for.
            return free;
        }
        let others = self.needs.to_copy.load(Ordering::Relaxed).saturating_sub(buffer.table.oldest().to_copy());
        free.saturating_sub(others + reserve)
    }

    /// Bytes on the disk that the ring takes again after it has parted with a file of `length`
    /// bytes. It takes none while it is larger than it should be.
    pub(crate) fn slot_cost(&self, buffer: &Buffer, length: u32) -> u64 {
        let (ring, made) = (buffer.sizes.ring, self.made(buffer));
        ring.saturating_sub(made.saturating_sub(u64::from(length))) - ring.saturating_sub(made)
    }

    /// Bytes on the disk that the log may still come to take.
    pub(crate) fn spoken_for(&self, buffer: &Buffer) -> u64 {
        let growth = buffer.sizes.ring.saturating_sub(self.made(buffer));
        growth + self.needs.to_copy.load(Ordering::Relaxed) + self.thresholds(buffer.sizes).reserve
    }

    /// The bytes of the files that the ring has.
    pub(crate) fn made(&self, buffer: &Buffer) -> u64 {
        let ahead = self.ring.ready().saturating_sub(buffer.table.head_generation());
        let files = buffer.table.closed_bytes() + u64::from(buffer.table.head_length());
        files + u64::from(ahead) * u64::from(buffer.sizes.file) + self.ring.spare_bytes()
    }

    pub(crate) fn thresholds(&self, sizes: Sizes) -> Thresholds {
        let file = u64::from(sizes.file);
        let largest = self.needs.restatement.load(Ordering::Relaxed).max(self.needs.declared.load(Ordering::Relaxed));
        let restatement = largest.clamp(file / 4, sizes.ring / 4);
        Thresholds { reserve: file + restatement, headroom: (4 * file).min(sizes.ring / 8), hysteresis: file / 2 }
    }
}

impl Thresholds {
    /// In memory nothing needs a reserve: settlements take no room.
    fn of_memory(sizes: Sizes) -> Self {
        Self { reserve: 0, headroom: sizes.ring / 8, hysteresis: sizes.ring / 16 }
    }
}
