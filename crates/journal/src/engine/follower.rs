//! A journal that follows another: it takes the entries of that one's logs, seals their bodies for
//! its own disk, and recycles its own files.
//!
//! Invariants: the entries of each log are those of the sender, from the first on, without a gap.
//! They have its terms and its links. Records of a group reach the state when its end has come, not
//! before. Nothing but entries and housekeeping is written until a term of its own begins. Each
//! start flushes an empty batch of a term that no earlier batch has, before it takes anything. An
//! entry that is sent again has the same bytes as before. Without that batch, what a start has cut
//! off could fit behind it once more.
//!
//! Lock order: a follower's, then those of the engine.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::engine::Target;
use crate::engine::journal::{Journal, Opened, Stepper};
use crate::engine::owners::Owners;
use crate::engine::writer::Flushed;
use crate::entry::{Entry, Refused};
use crate::held::{self, Held, HeldGroups};
use crate::log::{LogEnd, LogId};
use crate::record::{Kind, Naming, pairs};
use crate::reference::{Chunk, Reference};
use crate::replay::Replay;
use crate::stats::Stats;
use crate::ticket::Ticket;
use crate::verify::Damage;
use crate::wal::batch::most_records;
use crate::wal::buffer::Buffer;
use crate::wal::identity::Advance;
use crate::{Address, Owner};

/// What is built from the entries, one after the other.
pub trait FollowedState: Replay {
    /// Moves what has come to be referenced, and what no longer is, since this was asked last.
    fn counted(&mut self, into: &mut Counted);
}

/// References that came and went, by the file or segment of their bodies.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The file, how many came, and whose they are.
    pub held: Vec<(u32, u64, Owner)>,
    /// The file or segment, and how many went.
    pub freed: Vec<(u32, u64)>,
}

/// A running journal that follows another. Nothing is appended to it but entries.
pub struct Follower {
    journal: Journal,
    following: Mutex<Following>,
}

/// How far the logs have come.
struct Following {
    ends: HashMap<LogId, LogEnd>,
    /// The groups that have not ended.
    open: HeldGroups,
    counted: Counted,
}

impl Opened {
    /// Starts the journal and its threads to follow another. `live`, `owners` and `on_failure` are
    /// as in [`Opened::start`]; until [`Follower::promote`] the owners answer from what was
    /// followed.
    ///
    /// # Errors
    /// For a journal in memory, and when there is no room; else what the disk said.
    pub fn follow(
        self,
        live: &mut dyn Iterator<Item = (u32, u64)>,
        owners: Arc<dyn Owners>,
        on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    ) -> io::Result<Follower> {
        let (follower, _) = self.follow_stepped(live, owners, on_failure)?;
        follower.journal.engine().start_threads()?;
        Ok(follower)
    }

    /// As [`Opened::follow`], without threads.
    ///
    /// # Errors
    /// As there.
    pub fn follow_stepped(
        mut self,
        live: &mut dyn Iterator<Item = (u32, u64)>,
        owners: Arc<dyn Owners>,
        on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    ) -> io::Result<(Follower, Stepper)> {
        let (ends, open) =
            self.take_unfinished().ok_or_else(|| io::Error::other("a journal in memory can't follow another"))?;
        let (journal, stepper) = self.start_stepped(live, owners, on_failure);
        journal.engine().with_buffer(Buffer::force);
        journal.engine().state.lock().sync_wanted = true;
        match stepper.flush()? {
            Flushed::Done => Ok((Follower::new(journal, ends, open), stepper)),
            Flushed::Idle | Flushed::Stalled => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

impl Follower {
    fn new(journal: Journal, ends: HashMap<LogId, LogEnd>, open: HeldGroups) -> Self {
        journal.engine().with_buffer(|buffer| {
            let received = buffer.recycle.received.get_or_insert_default();
            open.each(&mut |log, group, oldest| received.needs(log, group, oldest));
        });
        Self { journal, following: Mutex::new(Following { ends, open, counted: Counted::default() }) }
    }

    /// How far each log is here: what a sender must go on from.
    pub fn ends(&self) -> Vec<LogEnd> {
        let mut ends: Vec<_> = self.following.lock().ends.values().copied().collect();
        ends.sort_by_key(|end| end.log);
        ends
    }

    /// Appends the next entry of a log, and gives its records to `state`, with the places of their
    /// bodies on this disk. It is durable with the ticket. The caller waits while
    /// [`Follower::lag`] is large.
    ///
    /// # Errors
    /// Why it is not taken. Nothing has come of it then.
    pub fn append(&self, entry: &Entry, state: &mut dyn FollowedState) -> Result<Ticket, Refused> {
        let mut following = self.following.lock();
        let following = &mut *following;
        let (end, before) = (entry.end(), following.end_of(entry)?);
        let Appended { file, bodies, ticket } = self.take(entry)?;
        following.ends.insert(end.log, end);
        if before.term < end.term {
            self.void(&mut following.open, end.log);
        }
        let mut bodies = bodies.into_iter();
        let mut over = Vec::new();
        for record in entry.each() {
            let here: Vec<Address> = match record.kind {
                Kind::Reference { bodies: names, .. } => bodies.by_ref().take(pairs(names).len()).collect(),
                _ => Vec::new(),
            };
            match (record.kind, record.group) {
                (Kind::GroupEnd { group }, _) => {
                    over.push(group);
                    following.open.end(end.log, group, state);
                }
                (_, Some(group)) => {
                    if let Kind::Reference { owner, first_seq, .. } = record.kind {
                        // Whatever becomes of the group, these numbers are taken.
                        state.burnt(owner, first_seq, here.len() as u64);
                    }
                    let held = Held::new(&record, here);
                    let oldest = held.oldest().map_or(file, |oldest| oldest.min(file));
                    following.open.add((end.log, end.term, group), held, file);
                    self.journal.engine().with_buffer(|buffer| {
                        buffer.recycle.received.get_or_insert_default().needs(end.log, group, oldest);
                    });
                }
                (_, None) => held::deliver(Held::new(&record, here), state),
            }
        }
        state.counted(&mut following.counted);
        self.count(&mut following.counted, end.log, &over);
        Ok(ticket)
    }

    /// No entry from here on references a body that its sender has in an older file: these may go.
    pub fn horizon(&self, file: u32) {
        let engine = self.journal.engine();
        engine.with_buffer(|buffer| buffer.recycle.received.get_or_insert_default().forget_before(file));
        engine.wake_background();
    }

    /// See [`Journal::durable`].
    pub fn durable(&self, log: LogId) -> Ticket {
        self.journal.durable(log)
    }

    /// See [`Journal::is_durable`].
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.journal.is_durable(ticket)
    }

    /// See [`Journal::when_durable`].
    pub fn when_durable(&self, ticket: Ticket, waker: &Waker) {
        self.journal.when_durable(ticket, waker);
    }

    /// See [`Journal::lag`].
    pub fn lag(&self) -> u64 {
        self.journal.lag()
    }

    /// See [`Journal::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, address: Address) -> io::Result<Bytes> {
        self.journal.read(address)
    }

    /// See [`Journal::read_chunk`].
    ///
    /// # Errors
    /// As there.
    pub fn read_chunk(&self, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> io::Result<()> {
        self.journal.read_chunk(chunk, page, into)
    }

    /// See [`Journal::scrub`].
    pub fn scrub(&self, bytes_per_second: u64) {
        self.journal.scrub(bytes_per_second);
    }

    /// See [`Journal::take_damages`].
    pub fn take_damages(&self) -> Vec<Damage> {
        self.journal.take_damages()
    }

    /// See [`Journal::stats`].
    pub fn stats(&self) -> Stats {
        self.journal.stats()
    }

    /// See [`Journal::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(&self) -> io::Result<()> {
        self.journal.close()
    }

    /// Follows no longer: a new term begins, and everything may be appended. Groups that have not
    /// ended never will.
    pub fn promote(self) -> Journal {
        let engine = self.journal.engine();
        if let Some(log) = &engine.log {
            // The writer may not have seen all of them.
            let last = self.following.lock().ends.values().map(|end| end.term).max();
            log.writer.lock().ends.begin_term(last.unwrap_or(0));
        }
        engine.with_buffer(|buffer| buffer.recycle.received = None);
        engine.wake_background();
        self.journal
    }

    /// Appends an entry that is the next, and finds the bodies that it references.
    fn take(&self, entry: &Entry) -> Result<Appended, Refused> {
        let engine = self.journal.engine();
        let (log, bytes) = (entry.end().log, entry.records().len() as u64);
        let most = most_records(engine.sizes.file);
        if bytes > most {
            return Err(Refused::TooLong { bytes, most });
        }
        let mut state = engine.state.lock();
        let state = &mut *state;
        let Target::Log(buffer) = &mut state.target else { return Err(Refused::Ended) };
        if state.failed {
            return Err(Refused::Ended);
        }
        let place = buffer.place_of(log);
        check_names(buffer, place, entry)?;
        let file = buffer.append_entry(place, entry);
        let bodies = note_records(buffer, place, entry);
        buffer.recycle.received.get_or_insert_default().note(entry.file(), file);
        engine.progress.lags_by(buffer.volumes.pending);
        let ticket = state.ticket(place);
        engine.wake_writer(state);
        Ok(Appended { file, bodies, ticket })
    }

    /// Counts what came and went. Only then are the groups over that ended: until here they kept
    /// their files.
    fn count(&self, counted: &mut Counted, log: LogId, over: &[crate::Group]) {
        let engine = self.journal.engine();
        engine.with_buffer(|buffer| {
            counted.held.drain(..).for_each(|(file, count, owner)| buffer.hold(file, count, owner));
            counted.freed.drain(..).for_each(|(file, count)| buffer.free(file, count));
            let received = buffer.recycle.received.get_or_insert_default();
            over.iter().for_each(|group| received.end(log, *group));
        });
        if !over.is_empty() {
            engine.wake_background();
        }
    }

    /// Forgets the groups of a log that its new term has ended.
    fn void(&self, open: &mut HeldGroups, log: LogId) {
        let void = open.take_of(log);
        self.journal.engine().with_buffer(|buffer| {
            let received = buffer.recycle.received.get_or_insert_default();
            void.iter().for_each(|group| received.end(log, *group));
        });
    }
}

impl Following {
    /// The end of the log that an entry is the next of.
    fn end_of(&self, entry: &Entry) -> Result<LogEnd, Refused> {
        let of_entry = entry.end();
        let (log, index) = (of_entry.log, of_entry.index);
        let end = self.ends.get(&log).copied().unwrap_or_else(|| LogEnd::before(log, 0));
        let next = end.index + 1;
        if index != next {
            return Err(if index < next {
                Refused::Known { log, next, index }
            } else {
                Refused::Gap { log, next, index }
            });
        }
        if of_entry.term < end.term {
            return Err(Refused::OldTerm { log, term: end.term, of_entry: of_entry.term });
        }
        if end.with(Advance::Yes, entry.records()).link != of_entry.link {
            return Err(Refused::Forked { log, index });
        }
        Ok(end)
    }
}

/// What became of an entry.
struct Appended {
    /// The file that it lies in.
    file: u32,
    /// Those that it references, in order.
    bodies: Vec<Address>,
    ticket: Ticket,
}

/// Whether all bodies can be found that an entry references.
fn check_names(buffer: &Buffer, place: usize, entry: &Entry) -> Result<(), Refused> {
    let (log, index) = (entry.end().log, entry.end().index);
    let is_there = |name: (u32, u32)| match name {
        (0, offset) => (offset as usize) < entry.records().len(),
        name => buffer.find_body(place, index, name).is_some(),
    };
    let all = entry.each().all(|record| match record.kind {
        Kind::Reference { bodies, naming: Naming::Back, .. } => pairs(bodies).all(is_there),
        _ => true,
    });
    if all { Ok(()) } else { Err(Refused::NoBody { log, index }) }
}

/// Notes the records of an entry that was just appended, and gives the bodies that it references.
fn note_records(buffer: &mut Buffer, place: usize, entry: &Entry) -> Vec<Address> {
    let (index, mut found) = (entry.end().index, Vec::new());
    for record in entry.each() {
        if let Some(owner) = record.kind.owner() {
            buffer.table.head().touch(owner);
        }
        match record.kind {
            Kind::Body { bytes, .. } => buffer.table.head().note_body(bytes.len() as u64),
            Kind::Reference { bodies, .. } => {
                found.extend(pairs(bodies).filter_map(|name| buffer.find_body(place, index, name)));
            }
            _ => {}
        }
    }
    found
}
