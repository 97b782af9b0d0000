//! Messages that come back from the disk, and those that leave memory.
//!
//! One thread, the pager, runs [`Core::page`]: it reads without any lock and hands what it read to the queue that asked.
//! The housekeeping sweeps the queues while memory is short. A message that can't be read stops its queue and no other.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Chunk, Reference};
use parking_lot::Mutex;

use crate::core::Core;
use crate::error::Error;
use crate::message::{Arena, Message};
use crate::queue::{Dying, Queue, Task, Visit};

/// A body that can't be read where it should lie may have been moved in between; so often it is looked for anew.
const ATTEMPTS: usize = 4;
/// Steps of one errand at most: an index or two, and the messages.
const STEPS: usize = 64;
/// Messages up to this length are copied out of the piece that they were read with, which would otherwise stay as long as
/// the last of them.
const COPIED: usize = 4 << 10;
/// Queues that one step of the sweep looks at.
const SWEPT_AT_ONCE: usize = 64;
/// While memory is short and nothing more can leave it, the sweep comes again so often.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// What the pager is asked for.
enum Errand {
    /// What this queue can't go on without.
    Load(Arc<Queue>),
    /// The messages of these, which then move on to the dead-letter exchange.
    Mourn { queue: Arc<Queue>, dying: Vec<Dying> },
}

/// What waits for the pager.
#[derive(Default)]
pub(crate) struct Pager {
    errands: Mutex<VecDeque<Errand>>,
    waker: Mutex<Option<Waker>>,
    /// What could not be read, in words, until somebody takes it.
    damages: Mutex<Vec<String>>,
}

impl Pager {
    /// Reads what `queue` can't go on without.
    pub(crate) fn load(&self, queue: Arc<Queue>) {
        self.send(Errand::Load(queue));
    }

    /// Reads the messages of dead letters and moves them on.
    pub(crate) fn mourn(&self, queue: Arc<Queue>, dying: Vec<Dying>) {
        queue.mourned.fetch_add(1, Ordering::AcqRel);
        self.send(Errand::Mourn { queue, dying });
    }

    fn send(&self, errand: Errand) {
        self.errands.lock().push_back(errand);
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }
}

/// Where the sweep is.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The queues it has still to look at in this round.
    queues: Vec<Weak<Queue>>,
    /// What was in use when the round began.
    used: usize,
}

/// What was read, and what could not be.
struct Read {
    messages: Vec<(Reference, Message)>,
    failed: Option<(Reference, String)>,
}

impl Core {
    /// Runs the oldest errand. True when more wait; else `waker` is woken when one comes.
    pub(crate) fn page(&self, waker: &Waker) -> bool {
        *self.pager.waker.lock() = Some(waker.clone());
        let errand = self.pager.errands.lock().pop_front();
        let mut work = Vec::new();
        match errand {
            None => return false,
            Some(Errand::Load(queue)) => {
                let (damage, useful) = self.fetch_for(&queue);
                if let Some(damage) = &damage {
                    self.pager.damages.lock().push(damage.clone());
                }
                let now = self.clock.unix_ms();
                queue.loaded(damage, useful, &mut Visit { core: self, now, work: &mut work });
            }
            Some(Errand::Mourn { queue, dying }) => {
                let dying = self.read_dying(&queue, dying);
                self.move_chunk(&queue, &dying, &mut work);
                // Only now: what died later comes behind it.
                queue.mourned.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.run_work(&mut work);
        !self.pager.errands.lock().is_empty()
    }

    /// What could not be read since the last call, a line for each queue.
    pub(crate) fn take_damages(&self) -> Vec<String> {
        std::mem::take(&mut self.pager.damages.lock())
    }

    /// Reads what a queue needs. Returns what keeps it from going on, and whether anything was read.
    fn fetch_for(&self, queue: &Arc<Queue>) -> (Option<String>, bool) {
        let (mut failures, mut useful) = (0, false);
        for _ in 0..STEPS {
            let failed = match queue.task(self) {
                Task::Nothing => return (None, useful),
                Task::Place { page, chunks } => self.place(queue, page, &chunks).err(),
                Task::Peek { seq, page, chunks, place } => self.peek(queue, seq, page, &chunks, place).err(),
                Task::Messages { wanted, keep } => {
                    let read = self.read_messages(&wanted);
                    let (any, failed) = (!read.messages.is_empty(), read.failed);
                    queue.install(read.messages, keep, self);
                    if failed.is_none() {
                        return (None, true);
                    }
                    useful |= any;
                    failed.map(|(one, error)| queue.damage_text(Some(one.address), &error))
                }
            };
            match failed {
                None => useful = true,
                Some(damage) => {
                    failures += 1;
                    if failures == ATTEMPTS {
                        return (Some(damage), useful);
                    }
                }
            }
        }
        (None, useful)
    }

    /// Makes an absent page of a queue hot. The error is in words.
    pub(crate) fn place(&self, queue: &Arc<Queue>, page: u64, chunks: &[Chunk]) -> Result<(), String> {
        let mut listed = self.listed(queue, page, chunks)?;
        if queue.place(page, &mut listed, self) {
            return Ok(());
        }
        Err(queue.damage_text(None, &"an index does not list what it should"))
    }

    fn listed(&self, queue: &Queue, page: u64, chunks: &[Chunk]) -> Result<Vec<Reference>, String> {
        let mut listed = Vec::new();
        for chunk in chunks {
            self.journal.read_chunk(*chunk, page, &mut listed).map_err(|error| queue.damage_text(None, &error))?;
        }
        Ok(listed)
    }

    fn peek(
        &self,
        queue: &Arc<Queue>,
        seq: u64,
        page: u64,
        chunks: &[Chunk],
        place: Option<Reference>,
    ) -> Result<(), String> {
        let place = match place {
            Some(place) => Some(place),
            None => self.listed(queue, page, chunks)?.into_iter().find(|one| one.seq == seq),
        };
        let Some(place) = place else {
            return Err(queue.damage_text(None, &"an index does not list what it should"));
        };
        let mut read = self.read_messages(&[place]);
        match read.messages.pop() {
            Some((_, message)) => queue.peeked(seq, &message, self),
            None => {
                let error = read.failed.map_or_else(String::new, |(_, error)| error);
                return Err(queue.damage_text(Some(place.address), &error));
            }
        }
        Ok(())
    }

    /// Reads messages, up to the first that can't be read.
    fn read_messages(&self, wanted: &[Reference]) -> Read {
        let blocks = match self.journal.read_all(wanted) {
            Ok(blocks) => blocks.into_iter().map(Ok).collect(),
            // One by one, so that all before a bad one are there.
            Err(_) => self.read_singly(wanted),
        };
        let mut arena = Arena::default();
        let mut messages = Vec::with_capacity(wanted.len());
        for (one, block) in wanted.iter().zip(blocks) {
            let message = block.map_err(|error| error.to_string()).and_then(|block| {
                let block = if block.len() <= COPIED { arena.copy(&block) } else { block };
                Message::from_stored(block).map_err(|error: Error| error.text)
            });
            match message {
                Ok(message) => messages.push((*one, message)),
                Err(error) => return Read { messages, failed: Some((*one, error)) },
            }
        }
        Read { messages, failed: None }
    }

    fn read_singly(&self, wanted: &[Reference]) -> Vec<io::Result<Bytes>> {
        let mut blocks = Vec::with_capacity(wanted.len());
        for one in wanted {
            let block = self.journal.read(one.address);
            let ends = block.is_err();
            blocks.push(block);
            if ends {
                break;
            }
        }
        blocks
    }

    /// Gives dead letters their messages. One that can't be read stays where it is, dying, and is told of.
    fn read_dying(&self, queue: &Arc<Queue>, mut dying: Vec<Dying>) -> Vec<Dying> {
        for attempt in 1..=ATTEMPTS {
            let wanted = queue.whereabouts(&dying, self);
            if wanted.is_empty() {
                break;
            }
            let read = self.read_messages(&wanted);
            for (one, message) in read.messages {
                if let Some(dead) = dying.iter_mut().find(|dead| dead.seq == one.seq) {
                    dead.message = Some(message);
                }
            }
            if let Some((one, error)) = read.failed.filter(|_| attempt == ATTEMPTS) {
                self.pager.damages.lock().push(queue.damage_text(Some(one.address), &error));
            }
        }
        dying.retain(|dead| dead.message.is_some());
        dying
    }

    /// While memory is short, lets queues let go of what they can do without, some queues in each step. Returns when to
    /// come again.
    pub(crate) fn sweep(&self, now: Instant) -> Option<Instant> {
        if self.memory.index_is_large() {
            self.journal.relieve();
        }
        if !self.memory.is_short() {
            return None;
        }
        let mut sweep = self.sweep.lock();
        if sweep.queues.is_empty() {
            sweep.used = self.memory.used();
            for vhost in self.catalog.vhosts() {
                let tables = vhost.tables.read();
                sweep.queues.extend(tables.queues().filter(|queue| queue.logged()).map(Arc::downgrade));
            }
        }
        for _ in 0..SWEPT_AT_ONCE {
            let Some(queue) = sweep.queues.last().and_then(Weak::upgrade) else {
                if sweep.queues.pop().is_none() {
                    break;
                }
                continue;
            };
            if queue.sweep(self) {
                sweep.queues.pop();
            }
        }
        // A round that brought nothing is not begun again at once.
        let barren = sweep.queues.is_empty() && self.memory.used() >= sweep.used;
        Some(if barren { now + SWEEP_PERIOD } else { now })
    }
}
