//! The engine behind a journal: everything its handles, its appenders and its threads share.
//!
//! Lock order: recycler → writer → readying a file → state → a batch's bytes → shelf, progress, gate. No waker is woken
//! with one of them held, and owners restate with only the recycler's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::admission::{Gate, Thresholds};
use crate::disk::Lock;
use crate::memory::Memory;
use crate::options::{Durability, Sizes};
use crate::recycle::Recycler;
use crate::replay::Owners;
use crate::ticket::{Progress, Ticket};
use crate::wal::buffer::Buffer;
use crate::wal::file::Ring;
use crate::wal::writer::Writer;

/// What is told of the failure of the log, once.
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

    pub(crate) fn ticket(&self) -> Ticket {
        match &self.target {
            // What is swallowed is never durable.
            Target::Log(_) if self.failed => Ticket(u64::MAX),
            Target::Log(buffer) => buffer.ticket(),
            Target::Memory(_) => Ticket::NONE,
        }
    }
}

/// The parts only a journal on disk has.
pub(crate) struct Log {
    pub(crate) durability: Durability,
    pub(crate) incarnation: u64,
    pub(crate) ring: Ring,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) recycler: Mutex<Recycler>,
    /// The last batch known to be flushed, also where durability asks for less.
    pub(crate) synced: AtomicU64,
    /// The batch the recycler waits for; zero if it waits for none.
    pub(crate) awaited: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// What was free on the disk at the last look.
    pub(crate) free: AtomicU64,
    /// The largest restatement so far, in bytes.
    pub(crate) restatement: AtomicU64,
    pub(crate) owners: Arc<dyn Owners>,
    pub(crate) on_failure: OnFailure,
}

/// A journal without its handles.
pub(crate) struct Core {
    pub(crate) sizes: Sizes,
    pub(crate) state: Mutex<State>,
    pub(crate) progress: Progress,
    pub(crate) gate: Gate,
    pub(crate) writer_wakes: Condvar,
    pub(crate) background_wakes: Condvar,
    pub(crate) log: Option<Log>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Somebody was turned away, and the recycler has been told that the room of what was recovered is wanted.
    pub(crate) recovered_wanted: AtomicBool,
    pub(crate) directory: Mutex<Option<Lock>>,
}

impl Core {
    /// Wakes the writer if it sleeps.
    pub(crate) fn wake_writer(&self, state: &mut State) {
        if std::mem::take(&mut state.writer_sleeps) {
            self.writer_wakes.notify_one();
        }
    }

    pub(crate) fn wake_background(&self) {
        self.state.lock().background_due = true;
        self.background_wakes.notify_one();
    }

    /// Somebody is turned away. If what was recovered is dead and fills the ring, nothing new comes in before it is gone:
    /// once in each run, all of it counts as new to the recycler, which else waits for something new.
    pub(crate) fn want_recovered_room(&self) {
        if self.recovered_wanted.load(Ordering::Relaxed) {
            return;
        }
        // Who asks may have the lock, as an appender. Whoever is turned away asks again.
        let Some(mut state) = self.state.try_lock() else { return };
        if let Target::Log(buffer) = &mut state.target {
            buffer.fresh += buffer.used();
        }
        state.background_due = true;
        self.recovered_wanted.store(true, Ordering::Relaxed);
        self.background_wakes.notify_one();
    }

    /// Moves the admission gate to what there is room for, and gives the wakers to wake once no lock is held.
    pub(crate) fn look_at_room(&self, state: &mut State) -> Vec<Waker> {
        let (room, thresholds) = match (&mut state.target, &self.log) {
            (Target::Log(buffer), Some(log)) => (log.room(buffer), log.thresholds(self.sizes)),
            (Target::Memory(memory), _) => {
                (self.sizes.ring.saturating_sub(memory.used()), Thresholds::of_memory(self.sizes))
            }
            (Target::Log(_), None) => return Vec::new(),
        };
        self.gate.update(room, thresholds)
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
    /// Bytes that can still be appended: in the ring, and on the disk.
    pub(crate) fn room(&self, buffer: &mut Buffer) -> u64 {
        let used = buffer.used();
        let in_ring = buffer.sizes.ring.saturating_sub(used);
        let on_disk = if self.ring.failing() { 0 } else { self.free.load(Ordering::Relaxed) };
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

    pub(crate) fn thresholds(&self, sizes: Sizes) -> Thresholds {
        let file = u64::from(sizes.file);
        let restatement = self.restatement.load(Ordering::Relaxed).clamp(file / 4, sizes.ring / 4);
        Thresholds { reserve: file + restatement, headroom: (4 * file).min(sizes.ring / 8), hysteresis: file / 2 }
    }
}

impl Thresholds {
    /// In memory nothing needs a reserve: settlements take no room.
    fn of_memory(sizes: Sizes) -> Self {
        Self { reserve: 0, headroom: sizes.ring / 8, hysteresis: sizes.ring / 16 }
    }
}
