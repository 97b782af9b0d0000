//! Appending to a log. An [`Appender`] holds the buffer's lock: what one appends lies together,
//! and its cost is a copy and a few additions per record.
//!
//! Invariant: nothing here allocates per record or calls the system; a sleeping writer is woken
//! once, when the appender is dropped. A caller with more to append puts that off with an
//! [`Unwoken`], which makes up for it. Whenever a record lies in the buffer, the writer is awake,
//! or an appender or an `Unwoken` will wake it.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::engine::{Engine, State, Target};
use crate::group::Group;
use crate::log::LogId;
use crate::record::{Draft, LIST};
use crate::wal::batch::BatchKind;
use crate::{Address, Owner, Ticket};

/// The right to append, until it is dropped. Dropping it wakes the writer if that sleeps.
///
/// After the journal has failed or was closed everything appended is swallowed, and its ticket
/// never becomes durable.
pub struct Appender<'a> {
    engine: &'a Engine,
    state: MutexGuard<'a, State>,
    log: LogId,
    /// Where the buffer has that.
    place: usize,
    kind: BatchKind,
    /// The caller appends more at once: the writer may sleep on.
    more_follows: bool,
    bytes: u64,
}

impl<'a> Appender<'a> {
    pub(crate) fn new(engine: &'a Engine, log: LogId, kind: BatchKind) -> Self {
        let mut state = engine.state.lock();
        let place = match &mut state.target {
            Target::Log(buffer) => buffer.place_of(log),
            Target::Memory(_) => 0,
        };
        Self { engine, state, log, place, kind, more_follows: false, bytes: 0 }
    }

    /// Ends the appender without waking the writer: the caller goes on appending at once, and what
    /// belongs together shares a flush. If nothing has woken the writer when what this returns is
    /// dropped, that does.
    #[must_use = "dropped at once it wakes the writer, before more is appended"]
    pub fn and_more(mut self) -> Unwoken<'a> {
        self.more_follows = true;
        Unwoken(self.engine)
    }

    /// Appends a body, the parts one after the other, and takes a hold on it. It stays readable
    /// until the hold is released and every reference to it is settled.
    ///
    /// # Panics
    /// If the body is longer than [`Journal::max_body`](crate::Journal::max_body): callers bound
    /// what they take.
    pub fn body(&mut self, parts: &[&[u8]]) -> Address {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.check(length);
        if self.state.failed {
            return Address { file: 0, offset: 0 };
        }
        if let Target::Memory(memory) = &mut self.state.target {
            return memory.body(parts);
        }
        let address = self.append(None, None, &Draft::Body { parts });
        if let Target::Log(buffer) = &mut self.state.target {
            let head = buffer.table.head();
            head.live += 1;
            head.holds += 1;
            head.note_body(length as u64);
        }
        address
    }

    /// Releases the hold that [`Appender::body`] took, at once: all references to the body have
    /// been made.
    pub fn release_hold(&mut self, address: Address) {
        match &mut self.state.target {
            Target::Log(buffer) => buffer.table.release(address.file),
            Target::Memory(memory) => memory.free(address.file, 1),
        }
    }

    /// `owner` references `bodies` with consecutive sequence numbers from `first_seq`; each stays
    /// readable until it is settled. `mark` is the caller's and comes back at replay. A hold on
    /// each body must last until here: a body without one may be on its way out of the log.
    pub fn reference(&mut self, group: Option<Group>, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        let mut first_seq = first_seq;
        for bodies in bodies.chunks(LIST) {
            self.append(group, Some(owner), &Draft::Reference { owner, first_seq, mark, bodies });
            first_seq += bodies.len() as u64;
        }
        for run in bodies.chunk_by(|a, b| a.file == b.file) {
            let count = run.len() as u64;
            match &mut self.state.target {
                Target::Log(buffer) => buffer.hold(run[0].file, count, owner),
                Target::Memory(memory) => memory.hold(run[0].file, count),
            }
        }
    }

    /// `owner` settles the references in `runs`, each (first sequence number, count); `freed` are
    /// their bodies, one per reference. In a group they are freed when it ends. Runs outside of one
    /// may span what an open group settles: that is left out of them, and stands or falls with its
    /// group.
    pub fn settle(&mut self, group: Option<Group>, owner: Owner, reason: u8, runs: &[(u64, u64)], freed: &[Address]) {
        self.append_runs(group, owner, reason, runs);
        for run in freed.chunk_by(|a, b| a.file == b.file) {
            self.free(group, run[0].file, run.len() as u64);
        }
    }

    /// As [`Appender::settle`], for many at once: `freed` are counts of bodies by file.
    pub fn settle_counted(
        &mut self,
        group: Option<Group>,
        owner: Owner,
        reason: u8,
        runs: &[(u64, u64)],
        freed: &mut dyn Iterator<Item = (u32, u64)>,
    ) {
        self.append_runs(group, owner, reason, runs);
        freed.for_each(|(file, count)| self.free(group, file, count));
    }

    /// Appends a fact of `owner`, the parts one after the other. Kind and bytes are the caller's.
    ///
    /// # Panics
    /// If the bytes are longer than [`Journal::max_body`](crate::Journal::max_body).
    pub fn fact(&mut self, group: Option<Group>, owner: Owner, kind: u8, parts: &[&[u8]]) {
        self.check(parts.iter().map(|part| part.len()).sum());
        self.append(group, Some(owner), &Draft::Fact { owner, kind, parts });
    }

    /// All that the log says of `owner` is said again by what follows, or need not be. The owner is
    /// not asked to restate that when the files leave. For an owner of facts alone; one that
    /// references bodies must be asked where these lie.
    pub fn supersede(&mut self, owner: Owner) {
        if let Target::Log(buffer) = &mut self.state.target {
            buffer.table.forget(owner);
        }
    }

    /// `owner` is gone with everything it had; `freed` are counts of its bodies by file.
    pub fn drop_owner(&mut self, group: Option<Group>, owner: Owner, freed: &mut dyn Iterator<Item = (u32, u64)>) {
        self.append(group, Some(owner), &Draft::Dropped { owner });
        freed.for_each(|(file, count)| self.free(group, file, count));
    }

    /// Begins a group of this log. It must be ended, soon: until then no file that holds its
    /// records is recycled. A record of it in another log panics; [`LogId::check_group`] says
    /// before whether there would be one.
    pub fn begin_group(&mut self) -> Group {
        match &mut self.state.target {
            Target::Log(buffer) => {
                let head = buffer.table.head_generation();
                buffer.groups.begin(self.log, head)
            }
            Target::Memory(memory) => memory.groups.begin(self.log, 0),
        }
    }

    /// Ends a group: from here on its records stand, once this is durable.
    pub fn end_group(&mut self, group: Group) {
        self.check_group(group);
        self.append(None, None, &Draft::GroupEnd { group });
        match &mut self.state.target {
            Target::Log(buffer) => {
                buffer.groups.end(group).into_iter().for_each(|(file, count)| buffer.free(file, count));
            }
            Target::Memory(memory) => memory.end(group),
        }
    }

    /// The end of everything appended so far to this log, by every appender.
    pub fn ticket(&self) -> Ticket {
        self.state.ticket(self.place)
    }

    fn append_runs(&mut self, group: Option<Group>, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        let kept = match (&mut self.state.target, group) {
            // What is said again is settled, whatever becomes of the group that it is said in.
            (Target::Log(buffer), Some(group)) if self.kind == BatchKind::News => {
                buffer.groups.note_settled(group, owner, runs);
                None
            }
            // What an open group settles is not settled yet, though its owner is done with it.
            (Target::Log(buffer), _) => buffer.groups.without_settled(owner, runs),
            (Target::Memory(_), _) => None,
        };
        for runs in kept.as_deref().unwrap_or(runs).chunks(LIST) {
            self.append(group, Some(owner), &Draft::Settled { owner, reason, runs });
        }
    }

    #[inline]
    fn append(&mut self, group: Option<Group>, owner: Option<Owner>, draft: &Draft<'_>) -> Address {
        group.into_iter().for_each(|group| self.check_group(group));
        let state = &mut *self.state;
        let Target::Log(buffer) = &mut state.target else { return Address { file: 0, offset: 0 } };
        if state.failed {
            return Address { file: 0, offset: 0 };
        }
        let (address, bytes) = buffer.append(self.place, group, draft, self.kind);
        self.bytes += bytes;
        if let Some(owner) = owner {
            debug_assert_eq!(LogId::of(owner), self.log, "owner {owner:x} has its records in another log");
            buffer.table.head().touch(owner);
        }
        address
    }

    /// Takes `count` off the live count of a file: at once, or when the group ends. It does no harm
    /// that this is not yet durable. The file is overwritten only after a later batch is durable
    /// that says that the file is out of the log.
    fn free(&mut self, group: Option<Group>, file: u32, count: u64) {
        let groups = match &mut self.state.target {
            Target::Log(buffer) => &mut buffer.groups,
            Target::Memory(memory) => &mut memory.groups,
        };
        if let Some(group) = group {
            match groups.freed(group) {
                Some(freed) => freed.add(file, count),
                None => debug_assert!(false, "{group:?} is not open"),
            }
            return;
        }
        match &mut self.state.target {
            Target::Log(buffer) => buffer.free(file, count),
            Target::Memory(memory) => memory.free(file, count),
        }
    }

    /// A group that spans logs could stand in one and fall in the other.
    fn check_group(&self, group: Group) {
        let groups = match &self.state.target {
            Target::Log(buffer) => &buffer.groups,
            Target::Memory(memory) => &memory.groups,
        };
        let log = groups.log_of(group).unwrap_or(self.log);
        assert_eq!(log.check_group([self.log]), Ok(()), "the caller should have refused it");
    }

    fn check(&self, length: usize) {
        let limit = self.engine.sizes.max_body();
        assert!(length <= limit as usize, "a record of {length} bytes is over the journal's limit of {limit}");
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            if let Target::Log(buffer) = &self.state.target {
                self.engine.progress.lags_by(buffer.volumes.pending);
            }
            if !self.more_follows {
                self.engine.wake_writer(&mut self.state);
            } else if self.state.writer_sleeps {
                self.engine.unwoken.store(true, Ordering::Relaxed);
            }
        }
        let woken = self.engine.look_at_room(&mut self.state);
        if !woken.is_empty() {
            MutexGuard::unlocked(&mut self.state, || woken.into_iter().for_each(std::task::Waker::wake));
        }
    }
}

/// Records were appended that a sleeping writer was not woken for, because more was to follow.
/// Dropping it wakes the writer if nothing else has done so. What was to follow may have stayed
/// out, and an answer may wait for these records.
pub struct Unwoken<'a>(&'a Engine);

impl Drop for Unwoken<'_> {
    fn drop(&mut self) {
        // Set by this thread, under the lock; taken back under it by what has woken the writer
        // since. So this sees either its own store or one that makes it needless.
        if self.0.unwoken.load(Ordering::Relaxed) {
            let mut state = self.0.state.lock();
            self.0.wake_writer(&mut state);
        }
    }
}
