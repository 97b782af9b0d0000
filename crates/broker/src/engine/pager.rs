//! Messages that come back from the disk, and messages that leave memory.
//!
//! One thread, the pager, runs [`Engine::page`]: it reads and spills without any lock and hands the
//! result to the queue. The housekeeping sweeps the queues while memory is short. An unreadable
//! message stops its queue and no other.

pub(crate) mod spill;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Chunk, PAGE, Reference};

use crate::engine::Engine;
use crate::error::Error;
use crate::message::{Arena, Message};
use crate::queue::errands::Errand;
use crate::queue::{Damage, Dying, Placed, Purpose, Queue, Task, Visit};

/// Steps of one errand at most: an index or two, and the messages, some of them again if they were
/// moved meanwhile.
const STEPS: usize = 64;
/// Messages up to this length are copied out of the block that they were read with. It would
/// otherwise stay in memory as long as the last of them.
const COPIED: usize = 4 << 10;
/// Queues that one step of the sweep looks at.
const SWEPT_AT_ONCE: usize = 64;
/// The sweep goes on when the pager has fewer errands than these. A list of picked messages takes
/// as much memory as short messages do, and no figure counts it.
const ERRANDS: usize = 16;
/// While the pager is behind, the sweep looks this often whether it is still.
const ERRANDS_PERIOD: Duration = Duration::from_millis(50);
/// While memory is short and no more can leave it, the sweep runs this often.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// The position of the sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The queues that are left in this round.
    queues: Vec<Weak<Queue>>,
    /// The memory in use when the round began, in bytes.
    used: usize,
    /// No message is spilled before this time.
    retry_at: Option<Instant>,
}

/// The messages that were read, and the one that could not be.
struct Read {
    messages: Vec<(Reference, Message)>,
    failed: Option<(Reference, String)>,
}

/// The result of an errand for a queue.
enum Came {
    /// The data was read, or `damage` keeps the queue from going on.
    Load { damage: Option<Damage> },
    /// Views can look further.
    Selection,
}

/// The numbers of a page's entries.
fn numbers_of(page: u64) -> Range<u64> {
    page * PAGE..(page + 1) * PAGE
}

fn unlisted(queue: &Queue) -> String {
    queue.damage_text(None, &"an index does not list what it should")
}

impl Engine {
    /// Runs the oldest errand, or tidies up if there is none. True when there may be more to do;
    /// otherwise `waker` is woken when there is.
    pub(crate) fn page(&self, waker: &Waker) -> bool {
        *self.pager.waker.lock() = Some(waker.clone());
        let errand = self.pager.errands.lock().pop_front();
        let mut work = Vec::new();
        match errand {
            None => return self.tidy_spilled(),
            Some(Errand::Load(queue)) => {
                let came = self.fetch_for(&queue);
                let now = self.clock.unix_ms();
                let mut visit = Visit { context: self, now, work: &mut work };
                match came {
                    Came::Selection => queue.looked_at(&mut visit),
                    Came::Load { damage } => {
                        self.pager.damages.lock().extend(damage.as_ref().map(|damage| damage.text.clone()));
                        queue.loaded(damage, &mut visit);
                    }
                }
            }
            Some(Errand::ReadDying { queue, dying }) => {
                let moved = self.move_unread(&queue, dying, &mut work);
                // Not earlier: later dead letters wait behind these.
                queue.awaiting_read.fetch_sub(1, Ordering::AcqRel);
                if moved && self.postponed.lock().has(&queue) {
                    self.housekeeper.wake();
                }
            }
            Some(Errand::Release(queue)) => self.release_due(&queue, &mut work),
            Some(Errand::Spill { queue, picked }) => {
                let goes_on = self.spill(&queue, picked);
                if !goes_on {
                    self.housekeeper.wake();
                }
            }
        }
        self.run_work(&mut work);
        true
    }

    /// The reports of failed reads since the last call, a line for each queue.
    pub(crate) fn take_damages(&self) -> Vec<String> {
        std::mem::take(&mut self.pager.damages.lock())
    }

    /// Reads the data that a queue needs.
    fn fetch_for(&self, queue: &Arc<Queue>) -> Came {
        for _ in 0..STEPS {
            let done = match queue.task(self) {
                Task::Nothing => return Came::Load { damage: None },
                Task::Place { page, purpose } => match self.place(queue, page) {
                    Err(text) if purpose == Purpose::Select => {
                        self.pager.tell(text);
                        queue.pass_over(&numbers_of(page), self);
                        return Came::Selection;
                    }
                    placed => placed.map_err(|text| Damage { numbers: numbers_of(page), text }),
                },
                Task::Peek { seq, place } => {
                    self.peek(queue, seq, place).map_err(|text| Damage { numbers: seq..seq + 1, text })
                }
                Task::GoOn => return Came::Selection,
                Task::Messages { wanted, purpose: Purpose::Select } => {
                    self.read_selection(queue, &wanted);
                    return Came::Selection;
                }
                Task::Messages { wanted, purpose } => {
                    let Read { messages, failed } = self.read_messages(&wanted);
                    queue.install(messages, purpose, self);
                    match failed {
                        None => return Came::Load { damage: None },
                        Some((one, error)) => self
                            .blame(queue, &one, &error)
                            .map_err(|text| Damage { numbers: one.seq..one.seq + 1, text }),
                    }
                }
            };
            if let Err(damage) = done {
                return Came::Load { damage: Some(damage) };
            }
        }
        Came::Load { damage: None }
    }

    /// Reads messages for views. Unreadable ones are reported and left out.
    fn read_selection(&self, queue: &Arc<Queue>, wanted: &[Reference]) {
        let Read { messages, failed } = self.read_messages(wanted);
        queue.install(messages, Purpose::Select, self);
        let Some((one, error)) = failed else { return };
        if let Err(damage) = self.blame(queue, &one, &error) {
            self.pager.damages.lock().push(damage);
            queue.pass_over(&(one.seq..one.seq + 1), self);
        }
    }

    /// Judges a body that could not be read. If it still lies there it is damaged, and the error
    /// says so; if it was moved meanwhile all is well. Queues know of a move before the old place
    /// goes, so there is no third case.
    fn blame(&self, queue: &Queue, one: &Reference, error: &str) -> Result<(), String> {
        if queue.lies_at(one, self) { Err(queue.damage_text(Some(one.address), &error)) } else { Ok(()) }
    }

    /// Makes an absent page of a queue hot. Merges go on meanwhile. Lists of the other chunks stay
    /// good, so that even a page with hundreds of chunks is placed in the end. The error is in
    /// words.
    pub(crate) fn place(&self, queue: &Arc<Queue>, page: u64) -> Result<(), String> {
        let mut lists: BTreeMap<u32, Vec<Reference>> = BTreeMap::new();
        while let Some(chunks) = queue.absent_chunks_of(page, self) {
            lists.retain(|segment, _| chunks.iter().any(|chunk| chunk.segment == *segment));
            for chunk in &chunks {
                if !lists.contains_key(&chunk.segment) {
                    lists.extend(self.list_of(queue, page, *chunk)?.map(|list| (chunk.segment, list)));
                }
            }
            if lists.len() < chunks.len() {
                continue;
            }
            match queue.place(page, &chunks, lists.values().flatten().copied().collect(), self) {
                Placed::Whole => break,
                Placed::Moved => {}
                Placed::Wrong => return Err(unlisted(queue)),
            }
        }
        Ok(())
    }

    /// The list of a chunk; `None` if it was merged meanwhile. The error is in words.
    fn list_of(&self, queue: &Queue, page: u64, chunk: Chunk) -> Result<Option<Vec<Reference>>, String> {
        let mut listed = Vec::new();
        match self.journal.read_chunk(chunk, page, &mut listed) {
            Ok(()) => Ok(Some(listed)),
            Err(error) => match queue.absent_chunks_of(page, self) {
                Some(chunks) if chunks.contains(&chunk) => Err(queue.damage_text(None, &error)),
                _ => Ok(None),
            },
        }
    }

    /// Finds out when the first ready entry expires. Notes nothing if its body was moved meanwhile.
    fn peek(&self, queue: &Arc<Queue>, seq: u64, place: Option<Reference>) -> Result<(), String> {
        let place = match place {
            Some(place) => Some(place),
            None => self.look_up(queue, seq)?,
        };
        let Some(place) = place else { return Ok(()) };
        let Read { mut messages, failed } = self.read_messages(&[place]);
        if let Some((_, message)) = messages.pop() {
            queue.peeked(seq, &message, self);
        }
        failed.map_or(Ok(()), |(one, error)| self.blame(queue, &one, &error))
    }

    /// The place of an entry of an absent page; `None` if that has changed meanwhile.
    fn look_up(&self, queue: &Queue, seq: u64) -> Result<Option<Reference>, String> {
        let page = seq / PAGE;
        let Some(chunks) = queue.absent_chunks_of(page, self) else { return Ok(None) };
        for chunk in &chunks {
            let Some(listed) = self.list_of(queue, page, *chunk)? else { return Ok(None) };
            if let Some(one) = listed.into_iter().find(|one| one.seq == seq) {
                return Ok(Some(one));
            }
        }
        if queue.absent_chunks_of(page, self).is_some_and(|now| now == chunks) {
            Err(unlisted(queue))
        } else {
            Ok(None)
        }
    }

    /// Reads messages, up to the first unreadable one.
    fn read_messages(&self, wanted: &[Reference]) -> Read {
        let blocks = match self.journal.read_all(wanted) {
            Ok(blocks) => blocks.into_iter().map(Ok).collect(),
            // One by one, so that all before the unreadable one are there.
            Err(_) => self.read_singly(wanted),
        };
        let short = blocks.iter().flatten().map(Bytes::len).filter(|length| *length <= COPIED);
        let mut arena = Arena::of_few(short.sum());
        let mut messages = Vec::with_capacity(wanted.len());
        for (one, block) in wanted.iter().zip(blocks) {
            let message = block.map_err(|error| error.to_string()).and_then(|block| {
                let block = if block.len() <= COPIED { arena.copy(&[&block]) } else { block };
                Message::from_stored(block).map_err(|error: Error| error.text)
            });
            match message {
                Ok(message) => messages.push((*one, message)),
                Err(error) => return Read { messages, failed: Some((*one, error)) },
            }
        }
        Read { messages, failed: None }
    }

    /// Reads messages for a caller that can try again: those that were moved meanwhile are left
    /// out.
    pub(crate) fn read_all_messages(
        &self,
        queue: &Queue,
        wanted: &[Reference],
    ) -> Result<Vec<(Reference, Message)>, Error> {
        let mut all = Vec::with_capacity(wanted.len());
        let mut rest = wanted;
        while !rest.is_empty() {
            let Read { messages, failed } = self.read_messages(rest);
            rest = &rest[(messages.len() + usize::from(failed.is_some())).min(rest.len())..];
            all.extend(messages);
            if let Some((one, error)) = failed {
                self.blame(queue, &one, &error).map_err(Error::internal)?;
            }
        }
        Ok(all)
    }

    /// The same, with a description of the first one that is damaged.
    pub(crate) fn read_up_to_damage(
        &self,
        queue: &Queue,
        wanted: &[Reference],
    ) -> (Vec<(Reference, Message)>, Option<String>) {
        let Read { messages, failed } = self.read_messages(wanted);
        let damage = failed.and_then(|(one, error)| self.blame(queue, &one, &error).err());
        (messages, damage)
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

    /// Reads the messages of dead letters. An unreadable one is reported and stays where it is,
    /// dying.
    pub(crate) fn read_dying(&self, queue: &Arc<Queue>, mut dying: Vec<Dying>) -> Vec<Dying> {
        let mut unreadable: Vec<u64> = Vec::new();
        loop {
            let mut wanted = queue.whereabouts(&dying, self);
            wanted.retain(|one| !unreadable.contains(&one.seq));
            if wanted.is_empty() {
                break;
            }
            let Read { messages, failed } = self.read_messages(&wanted);
            for (one, message) in messages {
                if let Some(dead) = dying.iter_mut().find(|dead| dead.seq == one.seq) {
                    dead.message = Some(message);
                }
            }
            if let Some((one, error)) = failed
                && let Err(damage) = self.blame(queue, &one, &error)
            {
                self.pager.damages.lock().push(damage);
                unreadable.push(one.seq);
            }
        }
        dying.retain(|dead| dead.message.is_some());
        dying
    }

    /// While memory is short, sweeps some queues in each step. Returns when to run again.
    pub(crate) fn sweep(&self, now: Instant) -> Option<Instant> {
        if self.memory.index_is_large() {
            self.journal.relieve();
        }
        let mut sweep = self.eviction.sweep.lock();
        // A round goes to its end. Messages that came together share memory, so one queue that was
        // left out could keep the memory of all others.
        if sweep.queues.is_empty() && !self.memory.is_short() {
            return None;
        }
        let may_spill = self.may_spill(now, &mut sweep.retry_at);
        let room = if may_spill { self.memory.spill_piece() } else { 0 };
        if sweep.queues.is_empty() {
            sweep.used = self.memory.used();
            for vhost in self.catalog.vhosts() {
                let tables = vhost.tables.read();
                sweep
                    .queues
                    .extend(tables.all_queues().filter(|queue| may_spill || queue.logged()).map(Arc::downgrade));
            }
        }
        for _ in 0..SWEPT_AT_ONCE {
            if self.pager.errands.lock().len() >= ERRANDS {
                // The pager wakes the housekeeping when it has spilled what was picked.
                return Some(now + ERRANDS_PERIOD);
            }
            let Some(queue) = sweep.queues.last().and_then(Weak::upgrade) else {
                if sweep.queues.pop().is_none() {
                    break;
                }
                continue;
            };
            if queue.sweep(room, self) {
                sweep.queues.pop();
            }
        }
        if sweep.queues.is_empty() {
            self.memory.swept();
        }
        // A round that freed nothing is not repeated at once.
        let barren = sweep.queues.is_empty() && self.memory.used() >= sweep.used;
        Some(if barren { now + SWEEP_PERIOD } else { now })
    }
}
