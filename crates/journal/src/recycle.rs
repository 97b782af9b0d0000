//! Recycling: what the background does. It readies the next file, has the owners touched in the oldest file restated,
//! and takes that file out of the log.
//!
//! Invariant: a file leaves the table only when no body in it is referenced or held, no open group has a record in it,
//! and every owner with a record in it has been restated. Its bytes are overwritten only after a batch is flushed that
//! says the log begins behind it. That batch comes after everything the decision rested on, so whenever recovery
//! believes it, recovery has all of that too; before, recovery still has the file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::engine::{Core, Log, Target};
use crate::wal::buffer::Buffer;
use crate::{Journal, Owner, Ticket};

/// How many owners are restated with one call.
const RESTATED_AT_ONCE: usize = 256;
/// An idle log keeps this many files, the head included.
const IDLE_FILES: usize = 2;
/// An idle log keeps this many recycled slots.
const IDLE_SLOTS: usize = 1;

/// The owners of the oldest file that are still to be restated; `from` is how much had been restated before.
struct Restating {
    owners: Vec<Owner>,
    from: u64,
}

/// The state of recycling between steps.
pub(crate) struct Recycler {
    restating: Option<Restating>,
    /// Files that are out of the log once their ticket is durable, oldest first: (ticket, generation).
    retired: VecDeque<(Ticket, u32)>,
    /// How many files may still be recycled before something new has to be appended: where restating takes as much
    /// room as it frees, an idle log must not turn for ever.
    budget: usize,
}

impl Recycler {
    pub(crate) fn new() -> Self {
        Self { restating: None, retired: VecDeque::new(), budget: 0 }
    }
}

impl Log {
    /// Whether the background has something to do. Called after each flush.
    pub(crate) fn background_due(&self, buffer: &mut Buffer) -> bool {
        let awaited = self.awaited.load(Ordering::Relaxed);
        let arrived = awaited != 0 && awaited <= self.synced.load(Ordering::Relaxed);
        let unready = self.ring.ready() <= buffer.table.head_generation();
        arrived || unready || (is_dead(buffer) && self.wanted(buffer))
    }

    /// Whether the oldest file's room is wanted: a log that stays small is left alone.
    fn wanted(&self, buffer: &mut Buffer) -> bool {
        let sizes = buffer.sizes;
        let large = buffer.used() > sizes.ring / 4 && buffer.fresh >= u64::from(sizes.file / 8);
        large || self.pressed(buffer)
    }

    fn pressed(&self, buffer: &mut Buffer) -> bool {
        let thresholds = self.thresholds(buffer.sizes);
        self.room(buffer) <= thresholds.reserve + thresholds.headroom + 2 * thresholds.hysteresis
    }
}

/// Whether nothing in the oldest file keeps it, but for its owners' facts.
fn is_dead(buffer: &Buffer) -> bool {
    let oldest = buffer.table.oldest();
    buffer.table.len() > 1 && oldest.live == 0 && !buffer.groups.hold(oldest.generation)
}

impl Core {
    /// One step of the background; true if there may be more to do at once. `idle` says that nothing has been appended
    /// for a while: time to give back room.
    pub(crate) fn background(&self, log: &Log, journal: &Journal, idle: bool) -> bool {
        let mut recycler = log.recycler.lock();
        if let Ok(free) = log.ring.free_on_disk() {
            log.free.store(free, Ordering::Relaxed);
        }
        let progress = self.advance_recycling(log, journal, &mut recycler, idle);
        let head = match &self.state.lock().target {
            Target::Log(buffer) => buffer.table.head_generation(),
            Target::Memory(_) => return false,
        };
        // After recycling, so that a slot that just became free is taken. A failure shows in the ring's figures and in
        // the admission; the next step tries again.
        let readied = log.ring.ready() <= head && log.ring.ensure(head + 1).is_ok();
        if idle && !progress {
            log.ring.trim(IDLE_SLOTS);
        }
        drop(recycler);
        let woken = self.look_at_room(&mut self.state.lock());
        woken.into_iter().for_each(std::task::Waker::wake);
        progress || readied
    }

    fn advance_recycling(&self, log: &Log, journal: &Journal, recycler: &mut Recycler, idle: bool) -> bool {
        let recycled = recycle_flushed(log, recycler);
        let Some(restating) = &mut recycler.restating else {
            return self.choose(log, recycler, idle) || recycled;
        };
        let rest = restating.owners.len().saturating_sub(RESTATED_AT_ONCE);
        let chunk = restating.owners.split_off(rest);
        if chunk.is_empty() {
            let size = self.restated().saturating_sub(restating.from);
            log.restatement.fetch_max(size, Ordering::Relaxed);
            recycler.restating = None;
            self.retire(log, recycler);
        } else {
            log.owners.restate(&chunk, journal);
        }
        true
    }

    /// Begins with the oldest file if it is dead and its room is wanted.
    fn choose(&self, log: &Log, recycler: &mut Recycler, idle: bool) -> bool {
        let mut state = self.state.lock();
        let Target::Log(buffer) = &mut state.target else { return false };
        let wanted = log.wanted(buffer) || (idle && buffer.table.len() > IDLE_FILES);
        if !is_dead(buffer) || !wanted {
            return false;
        }
        if std::mem::take(&mut buffer.fresh) > 0 {
            recycler.budget = buffer.table.len();
        }
        if recycler.budget == 0 {
            return false;
        }
        let owners = buffer.table.oldest().owners();
        recycler.restating = Some(Restating { owners, from: buffer.restated });
        true
    }

    fn restated(&self) -> u64 {
        match &self.state.lock().target {
            Target::Log(buffer) => buffer.restated,
            Target::Memory(_) => 0,
        }
    }

    /// Takes the oldest file out of the table, and has a batch flushed that says so.
    fn retire(&self, log: &Log, recycler: &mut Recycler) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Target::Log(buffer) = &mut state.target else { return };
        if !is_dead(buffer) {
            return;
        }
        let Some(file) = buffer.table.retire() else { return };
        buffer.force();
        state.sync_wanted = true;
        recycler.retired.push_back((state.ticket(), file.generation));
        recycler.budget = recycler.budget.saturating_sub(1);
        log.await_front(recycler);
        self.wake_writer(state);
    }
}

impl Log {
    /// Notes for the writer which flush the recycler waits for.
    fn await_front(&self, recycler: &Recycler) {
        let awaited = recycler.retired.front().map_or(0, |(ticket, _)| ticket.0);
        self.awaited.store(awaited, Ordering::Relaxed);
    }
}

/// Gives back the slots of the files that are out of the log, durably.
fn recycle_flushed(log: &Log, recycler: &mut Recycler) -> bool {
    let synced = Ticket(log.synced.load(Ordering::Acquire));
    let mut any = false;
    while let Some((_, generation)) = recycler.retired.pop_front_if(|(ticket, _)| *ticket <= synced) {
        log.ring.recycle(generation);
        any = true;
    }
    log.await_front(recycler);
    any
}
