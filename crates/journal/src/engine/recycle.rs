//! Recycling: what the background does. It readies the next file. It takes the oldest file out of
//! the log and moves aside what is alive in it. It gives back segments that nothing keeps.
//!
//! Invariant: a file leaves the table only when three things hold. No body in it is held, or
//! referenced except through a durable index. No open group has a record in it. Every owner with a
//! record in it, or a reference into it, has been restated. Its bytes are overwritten only after a
//! batch is flushed that says the log begins behind it. That batch comes after everything that the
//! decision rested on. So when recovery believes it, recovery has all of that too; before, recovery
//! still has the file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::cold::index::SegmentFile;
use crate::cold::merge;
use crate::engine::{Engine, Log, Target};
use crate::layout::{index_name, segment_name};
use crate::wal::buffer::{Buffer, Recycling};
use crate::wal::file::Slot;

mod job;
mod wait;

use job::{Failure, Job, Leaving, Step};
pub(crate) use wait::Wait;

/// An idle log keeps this many files, the head included.
const IDLE_FILES: usize = 2;
/// An idle log keeps this many recycled slots.
const IDLE_SLOTS: usize = 1;

/// Whether the log is in use: what the background goes by.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Records come in.
    Busy,
    /// Nothing has been appended for a while: time to give back room.
    Idle,
}

/// A file that is out of the table.
struct Retired {
    /// The batch that says so.
    sequence: u64,
    generation: u32,
    /// It is a segment now, and its slot stays.
    adopted: bool,
}

/// A segment that nothing keeps.
struct Dying {
    number: u32,
    /// Until that is sure.
    wait: Wait,
}

/// The state of recycling between steps.
pub(crate) struct Recycler {
    job: Option<Job>,
    /// Oldest first.
    retired: VecDeque<Retired>,
    dying: VecDeque<Dying>,
    /// Files of a job that was given up. They must be gone, durably, before the next begins: it may
    /// list the same.
    leftovers: Vec<String>,
    /// The log file in which a body could not be read.
    unreadable: Option<u32>,
    /// How many files may still be recycled before something new has to be appended. Where
    /// restating takes as much room as it frees, an idle log must not turn for ever.
    budget: usize,
    /// What was flushed when the step began.
    synced: u64,
    /// A snapshot is to be made: the job comes to its end, and no other begins.
    pub(super) closed: bool,
}

impl Recycler {
    pub(crate) fn new() -> Self {
        Self {
            job: None,
            retired: VecDeque::new(),
            dying: VecDeque::new(),
            leftovers: Vec::new(),
            unreadable: None,
            budget: 0,
            synced: 0,
            closed: false,
        }
    }

    /// Whether something is on its way out of the log, or into another segment.
    pub(super) fn is_working(&self) -> bool {
        self.job.is_some() || !self.leftovers.is_empty()
    }

    fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.job.iter().filter_map(Job::wait).chain(self.dying.iter().map(|dying| &dying.wait))
    }
}

impl Log {
    /// Whether the background has something to do. Called after each flush.
    pub(crate) fn background_due(&self, buffer: &mut Buffer) -> bool {
        self.give_up_kept(buffer);
        let unready = self.ring.ready() <= buffer.table.head_generation();
        if self.pinned.load(Ordering::Relaxed) {
            return unready;
        }
        let awaited = self.awaited.load(Ordering::Relaxed);
        let arrived = awaited != 0 && awaited <= self.synced.load(Ordering::Relaxed);
        let ended = buffer.recycle.awaited_group.is_some_and(|group| !buffer.groups.open_up_to(group));
        let work = match buffer.recycle.stage {
            Recycling::Free => can_leave(buffer) && self.wanted(buffer) && self.affords(buffer),
            Recycling::Leaving => is_dead(buffer),
            Recycling::Busy | Recycling::Failed => false,
        };
        arrived || ended || unready || work || !buffer.segments.dead.is_empty()
    }

    /// Whether the oldest file's room is wanted: a log that stays small is left alone.
    fn wanted(&self, buffer: &mut Buffer) -> bool {
        let sizes = buffer.sizes;
        let large = buffer.used() > sizes.ring / 4 && buffer.volumes.fresh >= u64::from(sizes.file / 8);
        large || buffer.recycle.relieve || buffer.is_outdated() || self.pressed(buffer)
    }

    /// Whether the room for publishes comes to its end.
    pub(super) fn pressed(&self, buffer: &mut Buffer) -> bool {
        let thresholds = self.thresholds(buffer.sizes);
        self.room(buffer) <= thresholds.reserve + thresholds.headroom + 2 * thresholds.hysteresis
    }
}

impl Log {
    /// Whether the disk has room, at a guess, for what is alive in the oldest file.
    fn affords(&self, buffer: &mut Buffer) -> bool {
        let oldest = buffer.table.oldest();
        let (live, copied, length) = (oldest.live, oldest.live_bytes(), oldest.length);
        live == 0 || copied.min(self.slot_cost(buffer, length)) < self.to_spare(buffer)
    }
}

/// Whether the oldest file can be taken out of the log. All of it is written, no reference to it
/// can be added any more, no group is open in it, and it is kept for none that follows.
fn can_leave(buffer: &Buffer) -> bool {
    let oldest = buffer.table.oldest();
    let written = buffer.first_pending().file > oldest.generation;
    let sent = buffer.recycle.received.as_ref().is_none_or(|received| received.lets_go(oldest.generation));
    let free = oldest.holds == 0 && !buffer.groups.hold(oldest.generation) && !buffer.recycle.keeps.hold(&buffer.table);
    buffer.table.len() > 1 && written && sent && free
}

/// Whether only the facts of its owners keep the oldest file.
fn is_dead(buffer: &Buffer) -> bool {
    can_leave(buffer) && buffer.table.oldest().live == 0
}

impl Engine {
    /// One step of the background; true if there may be more to do at once.
    pub(crate) fn background(&self, log: &Log, activity: Activity) -> bool {
        let mut recycler = log.recycler.lock();
        if let Ok(free) = log.ring.free_on_disk() {
            log.needs.free.store(free, Ordering::Relaxed);
        }
        if let Err(error) = log.ring.look() {
            self.fail(log, &error);
            return false;
        }
        let looked = self.with_buffer(|buffer| {
            log.give_up_kept(buffer);
            buffer.table.to_copy()
        });
        let to_copy = looked.unwrap_or(0);
        log.needs.to_copy.store(to_copy, Ordering::Relaxed);
        let pinned = log.pinned.load(Ordering::Relaxed);
        let progress = !pinned && self.advance_recycling(log, &mut recycler, activity);
        let head = match &self.state.lock().target {
            Target::Log(buffer) => buffer.table.head_generation(),
            Target::Memory(_) => return false,
        };
        // After recycling, so that a slot that just became free is taken. A failure shows in the
        // ring's figures and in the admission; the next step tries again.
        let readied = log.ring.ready() <= head && log.ring.ensure(head + 1).is_ok();
        if activity == Activity::Idle && !progress {
            log.ring.trim(IDLE_SLOTS);
        }
        drop(recycler);
        let woken = self.look_at_room(&mut self.state.lock());
        woken.into_iter().for_each(std::task::Waker::wake);
        progress || readied
    }

    fn advance_recycling(&self, log: &Log, recycler: &mut Recycler, activity: Activity) -> bool {
        recycler.synced = log.synced.load(Ordering::Acquire);
        let recycled = recycle_flushed(log, recycler);
        let removed = self.remove_dead(log, recycler);
        let worked = match recycler.job.take() {
            Some(job) => self.work(log, recycler, job),
            None => self.choose(log, recycler, activity),
        };
        let arrived = self.note_waits(log, recycler);
        recycled || removed || worked || arrived
    }

    /// Does the next piece of a job.
    fn work(&self, log: &Log, recycler: &mut Recycler, mut job: Job) -> bool {
        match job.step(self, log, recycler.synced) {
            Ok(Step::More) => {
                recycler.job = Some(job);
                true
            }
            Ok(Step::Wait) => {
                recycler.job = Some(job);
                false
            }
            Ok(Step::Finished) if job.leaving().is_some() => self.retire(log, recycler, job),
            Ok(Step::Finished) => {
                self.drop_replaced(recycler, &job);
                self.set_recycling(Recycling::Free);
                true
            }
            Err(failure) => {
                log.figures.failures.fetch_add(1, Ordering::Relaxed);
                self.give_up(recycler, &job, failure);
                false
            }
        }
    }

    /// A job can't go on: what it has written goes. A new one begins when the background looks
    /// again.
    fn give_up(&self, recycler: &mut Recycler, job: &Job, failure: Failure) {
        recycler.leftovers = job.leftovers();
        let unreadable = match (failure, job.leaving()) {
            (Failure::Disk, _) => None,
            (Failure::Read(file), Some(_)) => {
                recycler.unreadable = Some(file);
                None
            }
            (Failure::Read(segment), None) => Some(segment),
        };
        self.with_buffer(|buffer| {
            buffer.recycle.stage = Recycling::Failed;
            // Its room is wanted still.
            buffer.recycle.relieve |= job.leaving().is_some();
            let segment = unreadable.and_then(|segment| buffer.segments.segments.get_mut(&segment));
            segment.into_iter().for_each(|segment| segment.unreadable = true);
            buffer.segments.find_dead();
        });
    }

    fn set_recycling(&self, recycling: Recycling) {
        self.with_buffer(|buffer| buffer.recycle.stage = recycling);
    }

    /// Begins with the oldest file if its room is wanted, else with a merge if one is due.
    fn choose(&self, log: &Log, recycler: &mut Recycler, activity: Activity) -> bool {
        if !recycler.leftovers.is_empty() {
            return clear_leftovers(log, recycler);
        }
        if recycler.closed {
            return false;
        }
        let mut state = self.state.lock();
        let Target::Log(buffer) = &mut state.target else { return false };
        // A merge gives back more than it takes, so it may take all but the reserve.
        let room = log.to_spare(buffer).saturating_sub(log.thresholds(buffer.sizes).reserve);
        let job = choose_file(log, recycler, buffer, activity)
            .or_else(|| merge::choose(&buffer.segments, buffer.sizes, room).map(Job::merge));
        buffer.recycle.stage = if job.is_some() { Recycling::Busy } else { Recycling::Free };
        recycler.job = job;
        recycler.job.is_some()
    }

    /// Takes the oldest file out of the table, and has a batch flushed that says so; not yet if
    /// something keeps it.
    fn retire(&self, log: &Log, recycler: &mut Recycler, job: Job) -> bool {
        let behind = self.with_buffer(|buffer| buffer.behind()).unwrap_or_default();
        let ends = if behind.is_empty() { Vec::new() } else { log.writer.lock().ends_of(&behind) };
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.failed {
            return false;
        }
        let Target::Log(buffer) = &mut state.target else { return false };
        let adopted = job.adopted();
        if !(if adopted { can_leave(buffer) } else { is_dead(buffer) }) {
            debug_assert!(job.only_leaves());
            buffer.recycle.stage = Recycling::Leaving;
            recycler.job = Some(job);
            return false;
        }
        ends.into_iter().for_each(|end| buffer.restate_end(end));
        let Some(file) = buffer.retire() else { return false };
        if adopted {
            buffer.segments.insert(file.generation, job.count(file.live));
            log.figures.adopted.fetch_add(1, Ordering::Relaxed);
        }
        buffer.recycle.stage = Recycling::Free;
        let sequence = buffer.last_sequence();
        state.sync_wanted = true;
        recycler.retired.push_back(Retired { sequence, generation: file.generation, adopted });
        recycler.budget = recycler.budget.saturating_sub(1);
        self.wake_writer(state);
        true
    }

    /// The segments that a merge has replaced go: its index supersedes them from the moment it is
    /// durable.
    fn drop_replaced(&self, recycler: &mut Recycler, job: &Job) {
        self.with_buffer(|buffer| buffer.segments.segments.retain(|number, _| !job.replaced().contains(number)));
        let wait = self.wait_from_now();
        recycler.dying.extend(job.replaced().iter().map(|number| Dying { number: *number, wait }));
    }

    /// Notes which segments nothing keeps any more, and removes one of which that is sure.
    fn remove_dead(&self, log: &Log, recycler: &mut Recycler) -> bool {
        let dead = self.with_buffer(|buffer| {
            let dead = std::mem::take(&mut buffer.segments.dead);
            let spared = |number: &u32| !recycler.job.as_ref().is_some_and(|job| job.merges(*number));
            let segments = &mut buffer.segments.segments;
            let dead = dead.into_iter().filter(spared).filter(|number| segments.remove(number).is_some());
            dead.collect::<Vec<_>>()
        });
        let dead = dead.unwrap_or_default();
        if !dead.is_empty() {
            let wait = self.wait_from_now();
            recycler.dying.extend(dead.into_iter().map(|number| Dying { number, wait }));
        }
        // The waits of those behind begin only when their turn comes, which is soon enough.
        let Some(dying) = recycler.dying.front_mut() else { return false };
        let number = dying.number;
        if !self.is_over(recycler.synced, &mut dying.wait) || remove_segment(log, number).is_err() {
            return false;
        }
        recycler.dying.pop_front();
        true
    }

    /// Notes what the recycler waits for, for the writer and for the appender that ends a group.
    /// True if it came meanwhile.
    fn note_waits(&self, log: &Log, recycler: &Recycler) -> bool {
        let retired = recycler.retired.front().map(|retired| retired.sequence);
        let flushes = recycler.waits().filter_map(Wait::sequence).chain(retired);
        // What had come when the step began is not waited for: the next step tries the rest again.
        let awaited = flushes.filter(|sequence| *sequence > recycler.synced).min().unwrap_or(0);
        let group = recycler.waits().filter_map(Wait::group).min();
        // Under the lock that the writer takes after each flush, so that it sees this or what it
        // did is seen here.
        self.with_buffer(|buffer| {
            buffer.recycle.awaited_group = group;
            log.awaited.store(awaited, Ordering::Relaxed);
            awaited != 0 && awaited <= log.synced.load(Ordering::Acquire)
        })
        .unwrap_or(false)
    }
}

/// A job for the oldest file, if it can leave the log and its room is wanted.
fn choose_file(log: &Log, recycler: &mut Recycler, buffer: &mut Buffer, activity: Activity) -> Option<Job> {
    let wanted = log.wanted(buffer) || (activity == Activity::Idle && buffer.table.len() > IDLE_FILES);
    if !can_leave(buffer) || !wanted || !log.affords(buffer) {
        return None;
    }
    let outdated = buffer.is_outdated();
    if std::mem::take(&mut buffer.volumes.fresh) > 0 {
        recycler.budget = buffer.table.len();
    }
    // What is alive leaves the log for good, so that comes to an end by itself.
    if recycler.budget == 0 && !buffer.recycle.relieve && !outdated && buffer.table.oldest().live == 0 {
        return None;
    }
    buffer.recycle.keeps.leave(buffer.table.oldest().generation);
    let oldest = buffer.table.oldest();
    // Once it has begun, the whole log is put into this version's format.
    buffer.recycle.relieve = oldest.generation + 1 < buffer.recycle.current_from;
    let mut owners = oldest.owners();
    owners.reverse();
    let leaving = Leaving {
        generation: oldest.generation,
        length: oldest.length,
        slot: log.ring.slot(oldest.generation)?,
        owners,
        alive: oldest.live > 0,
        restated: buffer.volumes.restated,
        unreadable: recycler.unreadable == Some(oldest.generation),
    };
    Some(Job::leave(leaving))
}

/// Removes what a job that was given up has left.
fn clear_leftovers(log: &Log, recycler: &mut Recycler) -> bool {
    let removed = recycler.leftovers.iter().try_for_each(|name| log.cold.remove(name));
    let cleared = removed.and_then(|()| log.cold.disk.sync_directory()).is_ok();
    if cleared {
        recycler.leftovers.clear();
    }
    cleared
}

/// Removes a segment: its index first, durably, so that nothing is left that speaks of what is
/// gone.
fn remove_segment(log: &Log, number: u32) -> std::io::Result<()> {
    log.cold.remove(&index_name(number))?;
    log.cold.disk.sync_directory()?;
    let Some(header) = log.cold.header(number) else { return Ok(()) };
    match header.place {
        SegmentFile::Own => {
            log.cold.close(number);
            log.cold.remove(&segment_name(number))?;
            log.cold.forget(number);
        }
        SegmentFile::Slot(slot) => {
            let handle = log.cold.open(number);
            log.cold.forget(number);
            // A slot that can't be opened is left; the next start removes it.
            handle.into_iter().for_each(|handle| {
                log.ring.take_back(Slot { number: slot, length: header.length, handle });
            });
        }
    }
    Ok(())
}

/// Gives back the slots of the files that are out of the log, durably.
fn recycle_flushed(log: &Log, recycler: &mut Recycler) -> bool {
    let synced = recycler.synced;
    let mut any = false;
    while let Some(retired) = recycler.retired.pop_front_if(|retired| retired.sequence <= synced) {
        if retired.adopted {
            log.ring.part_with(retired.generation);
        } else {
            log.ring.recycle(retired.generation);
        }
        any = true;
    }
    any
}
