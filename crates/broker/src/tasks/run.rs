//! A run over the ready messages of a queue, which moves, copies or deletes those that are wanted.
//!
//! Each piece is a group: entries leave the queue and arrive in others together, and the progress
//! of the task is in it. So a crash neither loses nor doubles a message. A run ends at the last
//! entry that was there when it began, so a message that comes back meanwhile is not taken again.

use std::collections::HashMap;
use std::sync::Arc;

use journal::{Admission, Owner, PAGE, Ticket};
use selector::Selector;

use crate::catalog::Vhost;
use crate::catalog::tasks::{Task, TaskCounts, TaskKind, TaskProgress, TaskSpec, TaskState};
use crate::engine::bounds::TURN_ENTRIES;
use crate::engine::{Engine, Move};
use crate::error::Error;
use crate::message::selected::Selected;
use crate::message::{Arena, Message};
use crate::queue::arrival::Arrival;
use crate::queue::{Coming, Glimpse, Queue, Seized, Step, Visit, Walk, settle};
use crate::tasks::way::{Way, Ways};

/// Bytes of messages that are moved in one group at most, but at least one message. A step of a
/// walk bounds their number.
const PIECE_BYTES: usize = 1 << 20;

/// Whether messages move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// They are counted, and stay.
    Plan,
    /// They move.
    Go,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// There is more to look at.
    On,
    /// All was looked at, or the limit is reached.
    End,
    /// The disk has no room now.
    NoRoom,
}

/// See the module.
pub(crate) struct Run {
    vhost: Arc<Vhost>,
    queue: Arc<Queue>,
    kind: TaskKind,
    ways: Ways,
    selector: Option<Selector>,
    limit: u64,
    mode: RunMode,
    walk: Walk,
    pub(crate) counts: TaskCounts,
    /// The messages on their way to each queue; of a plan all of them.
    coming: HashMap<Owner, Coming>,
    /// All that moved is in its queues once this is durable.
    pub(crate) moved: Ticket,
}

/// A message that will leave its place.
struct Leaving {
    seq: u64,
    durable: bool,
    message: Message,
    targets: Vec<Arc<Queue>>,
}

/// The messages of one group.
struct Piece {
    list: Vec<Leaving>,
    bytes: usize,
    entries: usize,
    arena: Arena,
}

impl Piece {
    fn new() -> Self {
        Self { list: Vec::new(), bytes: 0, entries: 0, arena: Arena::of_few(PIECE_BYTES) }
    }

    fn is_full(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.entries >= TURN_ENTRIES
    }
}

impl Run {
    /// A run over what is in the queue now.
    ///
    /// # Errors
    /// As [`Engine::find`], and where the target is not there.
    pub(crate) fn begin(engine: &Engine, vhost: &str, spec: &TaskSpec, mode: RunMode) -> Result<Self, Error> {
        let (queue, selector) = engine.find(vhost, &spec.queue, &spec.selector)?;
        let vhost = engine.existing_vhost(vhost)?;
        Ok(Self {
            ways: Ways::of(&vhost, &queue, spec)?,
            walk: queue.walk(engine),
            vhost,
            queue,
            kind: spec.kind,
            selector,
            limit: spec.limit.unwrap_or(u64::MAX),
            mode,
            counts: TaskCounts::default(),
            coming: HashMap::new(),
            moved: Ticket::NONE,
        })
    }

    /// The run of a task, from where it is.
    ///
    /// # Errors
    /// As [`Run::begin`].
    pub(crate) fn resume(engine: &Engine, vhost: &str, task: &Task) -> Result<Self, Error> {
        let run = Self::begin(engine, vhost, &task.spec, RunMode::Go)?;
        let progress = task.progress.lock();
        Ok(Self { walk: Walk::between(&progress.at, &progress.until), counts: progress.counts, ..run })
    }

    /// Begins again, for what came while it ran. `task` notes where.
    pub(crate) fn begin_again(&mut self, engine: &Engine, task: &Task) {
        self.walk = self.queue.walk(engine);
        let mut progress = task.progress.lock();
        (progress.at, progress.until) = (self.walk.at(), self.walk.until());
    }

    /// The end of its walk in each lane of the queue.
    pub(crate) fn until(&self) -> Vec<u64> {
        self.walk.until()
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Looks at some messages and takes at most so many of them. `task` notes the progress, and
    /// `each` hears of the queues in which messages arrive.
    ///
    /// # Errors
    /// `Internal` for a message that can't be read. What was moved before stays moved.
    pub(crate) fn step(
        &mut self,
        engine: &Engine,
        most: u64,
        task: Option<&Task>,
        each: &mut dyn FnMut(&Arc<Queue>),
    ) -> Result<Stepped, Error> {
        if self.counts.taken >= self.limit {
            return Ok(Stepped::End);
        }
        if self.mode == RunMode::Go && engine.journal.admission() == Admission::Closed {
            return Ok(Stepped::NoRoom);
        }
        let begun = self.walk.clone();
        let entries = match self.queue.step(&mut self.walk, engine) {
            Step::End => return Ok(Stepped::End),
            Step::Place(page) => {
                engine.place(&self.queue, page).map_err(Error::internal)?;
                return Ok(Stepped::On);
            }
            Step::Entries(entries) => entries,
        };
        let (count, most) = (entries.len(), most.min(self.limit - self.counts.taken));
        let mut piece = Piece::new();
        let mut looked = Vec::with_capacity(count);
        for (glimpse, message) in engine.with_messages(&self.queue, entries)? {
            if piece.list.len() as u64 >= most || piece.is_full() {
                break;
            }
            looked.push(glimpse.seq);
            self.look(engine, &glimpse, message, &mut piece);
        }
        if looked.len() < count {
            self.walk = begun;
            looked.iter().for_each(|seq| self.walk.pass(*seq));
        }
        match self.mode {
            RunMode::Plan => self.counts.taken += piece.list.len() as u64,
            RunMode::Go => {
                piece.list.iter().flat_map(|leaving| &leaving.targets).for_each(&mut *each);
                self.take(engine, piece, task)?;
                self.coming.clear();
            }
        }
        Ok(Stepped::On)
    }

    /// Decides about a message.
    fn look(&mut self, engine: &Engine, glimpse: &Glimpse, message: Message, piece: &mut Piece) {
        let (dialects, redelivered) = (&engine.dialects, glimpse.redelivered);
        let selected = Selected { message: &message, dialects, redelivered };
        if self.selector.as_ref().is_some_and(|selector| !selector.matches(&selected)) {
            return;
        }
        let (message, targets) = match self.ways.way(engine, &self.vhost, message, &mut piece.arena) {
            Way::Alive => {
                self.counts.alive += 1;
                return;
            }
            Way::Nowhere => {
                self.counts.homeless += 1;
                return;
            }
            Way::To(message, targets) => (message, targets),
        };
        let coming = |target: &Queue| self.coming.get(&target.id).copied().unwrap_or_default();
        let is_full = targets.iter().any(|target| target.would_refuse(coming(target), engine));
        if is_full || engine.is_too_large(&message, &targets) {
            self.counts.refused += 1;
            return;
        }
        targets.iter().for_each(|target| self.coming.entry(target.id).or_default().add(&message));
        piece.bytes += message.cost();
        piece.entries += targets.len();
        piece.list.push(Leaving { seq: glimpse.seq, durable: glimpse.durable, message, targets });
    }

    /// Takes the messages of a piece, those that are still there.
    fn take(&mut self, engine: &Engine, piece: Piece, task: Option<&Task>) -> Result<(), Error> {
        let (mut seized, mut arrivals, mut targets, mut durable) = (Vec::new(), Vec::new(), Vec::new(), false);
        if self.kind != TaskKind::Copy {
            // The walk may have left a page since, and made it small again.
            for page in piece.list.chunk_by(|one, next| one.seq / PAGE == next.seq / PAGE) {
                engine.place(&self.queue, page[0].seq / PAGE).map_err(Error::internal)?;
            }
        }
        for one in piece.list {
            if self.kind != TaskKind::Copy {
                if !seize(engine, &self.queue, one.seq) {
                    continue;
                }
                seized.push(one.seq);
                durable |= one.durable;
            }
            self.counts.taken += 1;
            if !one.targets.is_empty() {
                arrivals.push(Arrival::of_broker(one.message));
                targets.push(one.targets);
            }
        }
        let (counts, at) = (self.counts, self.walk.at());
        let note = |change: &dyn Fn(&TaskProgress, &Task)| {
            let Some(task) = task else { return };
            let mut progress = task.progress.lock();
            progress.counts = counts;
            progress.at.clone_from(&at);
            change(&progress, task);
        };
        if seized.is_empty() && arrivals.is_empty() {
            note(&|_, _| {});
            return Ok(());
        }
        let mut work = Vec::new();
        let mut visit = Visit { context: engine, now: engine.clock.unix_ms(), work: &mut work };
        let (log, reason) =
            (self.queue.log(), if self.kind == TaskKind::Delete { settle::PURGED } else { settle::MOVED });
        let leave = |group| {
            if !seized.is_empty() {
                self.queue.let_go_of_moved(&seized, reason, group, engine);
            }
            note(&|progress, task| {
                // One that its vhost has stopped may log nothing more.
                let is_stopped = matches!(progress.state, TaskState::Stopped(_));
                if group.is_some() && !is_stopped {
                    task.log(progress, group, &mut engine.journal.appender(log));
                }
            });
        };
        let moved = Move { log, arrivals, targets: &targets, are_logged: durable };
        let ticket = engine.move_together(moved, &leave, &mut visit);
        engine.run_work(&mut work);
        if !ticket.is_none() {
            self.moved = ticket;
        }
        Ok(())
    }
}

/// Takes an entry out; the sweep may have made its page absent again since. False if it is gone, or
/// its place is unknown, which is reported.
fn seize(engine: &Engine, queue: &Arc<Queue>, seq: u64) -> bool {
    loop {
        match queue.seize(seq, engine) {
            Seized::Taken => return true,
            Seized::Gone => return false,
            Seized::Absent => {
                if let Err(damage) = engine.place(queue, seq / PAGE) {
                    engine.pager.tell(damage);
                    return false;
                }
            }
        }
    }
}
