//! What another journal is sent whose entries have left this one's log: what is alive, and then the
//! entries from a file of the log on.
//!
//! The log is sent as if all its files before a certain one had left it now. Bodies in those files,
//! and in segments, go to segments of the receiver, as they would go to segments here. All owners
//! are restated, and what they say is sent at its place among the entries. So no lock is held from
//! one piece to the next, nothing waits, and what the receiver has in the end is what a start here
//! would find.
//!
//! Invariant: no file leaves the log, and no segment goes, from the choice of the file to the last
//! piece. The receiver has it all when it has the last batch that any piece rests on, and the ends
//! of all groups that had begun by then.
//!
//! Lock order: recycler, writer, state; none is held across two pieces.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::Owner;
use crate::admission::Admission;
use crate::cold::merge::Sieve;
use crate::cold::plan::Plan;
use crate::engine::feed::{Feed, FeedError};
use crate::engine::journal::Journal;
use crate::engine::owners::Restatement;
use crate::engine::recycle::Wait;
use crate::engine::{Engine, Log};
use crate::entry::{Entry, Restated};
use crate::log::{LogEnd, LogId};
use crate::wal::batch::BatchKind;
use crate::wal::buffer::Buffer;

/// How many owners are restated at once.
const OWNERS_AT_ONCE: usize = 256;
/// Bytes of bodies that one piece has, unless a single one is larger.
const PIECE: usize = 256 << 10;

/// A piece of a snapshot. They have an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// The first one.
    Begin(Begin),
    /// Bodies that one owner references, with their sequence numbers, which ascend.
    Bodies {
        /// The owner.
        owner: Owner,
        /// What it references.
        bodies: Vec<(u64, Bytes)>,
    },
    /// An entry.
    Entry(Entry),
    /// What owners said again between two entries.
    Restated(Restated),
}

/// Where the entries of a snapshot begin.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The index before the first entry of each log that has one.
    pub before: Vec<(LogId, u64)>,
    /// The ends of the logs that had none.
    pub ends: Vec<LogEnd>,
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// A piece.
    Piece(Piece),
    /// Nothing yet: ask again when more is flushed.
    Nothing,
    /// Nothing more: the receiver has all. A feed goes on where it ends.
    Done,
}

/// Why there is no snapshot, or no more of it.
#[derive(Debug)]
pub enum SnapshotError {
    /// A backup or another snapshot is being made.
    Running,
    /// The log needs the room of the files that are kept for the snapshot.
    NoRoom,
    /// The log could not be read.
    Feed(FeedError),
    /// A segment or a body could not be read.
    Io(io::Error),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("a backup or another snapshot is being made; wait for its end"),
            Self::NoRoom => f.write_str(
                "the log was full before the snapshot was sent, so it was given up; begin again with less load, a faster \
                 link or a larger log",
            ),
            Self::Feed(error) => error.fmt(f),
            Self::Io(error) => write!(f, "reading what is sent: {error}; check the disk"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Feed(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::Running | Self::NoRoom => None,
        }
    }
}

impl From<FeedError> for SnapshotError {
    fn from(error: FeedError) -> Self {
        Self::Feed(error)
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is done next.
enum Stage {
    /// The job of the background comes to its end.
    Pin,
    /// The owners still to be restated, last first.
    Restate(Vec<Owner>),
    /// The bodies of one source, from that item of that page on.
    Bodies(Box<Plan>, (usize, usize)),
    /// The next source.
    Next,
    /// All that the choice of bodies rests on is flushed, and its groups end.
    Settle(Wait),
    /// The entries, up to that batch.
    Entries(u64),
    Done,
}

/// A snapshot of all logs, piece by piece. Files and segments that it needs are kept as long as it
/// lives: who stops pulling drops it.
pub struct Snapshot {
    journal: Journal,
    pinned: bool,
    stage: Stage,
    /// The files and segments whose bodies are sent, last first.
    sources: Vec<Source>,
    /// What was restated before this batch is said again behind it.
    looked: u64,
    feed: Feed,
}

/// What bodies lie in.
enum Source {
    /// A file of the log, with the owners that have something in it.
    File(u32, Vec<Owner>),
    Segment(u32),
}

impl Journal {
    /// Begins a snapshot of all logs.
    ///
    /// # Errors
    /// For a journal in memory, and while another snapshot is being made.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        let log = log_of(self.engine())?;
        if self.engine().with_buffer(|buffer| buffer.table.oldest().generation < buffer.recycle.current_from)
            == Some(true)
        {
            let what = "the log has files of an older format, which leave it soon; begin again later";
            return Err(io::Error::other(what).into());
        }
        let mut recycler = log.recycler.lock();
        if std::mem::replace(&mut recycler.closed, true) {
            return Err(SnapshotError::Running);
        }
        drop(recycler);
        let feed = self.feed([]);
        Ok(Snapshot { journal: self.clone(), pinned: false, stage: Stage::Pin, sources: Vec::new(), looked: 0, feed })
    }
}

fn log_of(engine: &Engine) -> io::Result<&Log> {
    engine.log.as_ref().ok_or_else(|| io::Error::other("a journal in memory has nothing to send"))
}

impl Snapshot {
    /// The next piece. Waits for the disk, and for owners to say again what they are.
    ///
    /// # Errors
    /// Why there is none. The snapshot is over then.
    pub fn pull(&mut self) -> Result<Pulled, SnapshotError> {
        let engine = self.journal.engine().clone();
        let log = log_of(&engine)?;
        loop {
            if self.pinned && self.journal.admission() == Admission::Closed {
                return Err(SnapshotError::NoRoom);
            }
            let pulled = match &mut self.stage {
                Stage::Pin => Some(self.pin(&engine, log)?),
                Stage::Restate(_) => self.restate(&engine, log),
                Stage::Next => self.open_source(log)?,
                Stage::Bodies(..) => self.bodies()?.map(Pulled::Piece),
                Stage::Settle(wait) => {
                    if !engine.is_over(log.synced.load(Ordering::Acquire), wait) {
                        return Ok(Pulled::Nothing);
                    }
                    self.stage = Stage::Entries(wait.sequence().unwrap_or(0));
                    None
                }
                Stage::Entries(until) => {
                    let until = *until;
                    self.entries(until, &engine, log)?
                }
                Stage::Done => Some(Pulled::Done),
            };
            if let Some(pulled) = pulled {
                return Ok(pulled);
            }
        }
    }

    /// Chooses the file from which on entries are sent, once no file is on its way out of the log.
    fn pin(&mut self, engine: &Engine, log: &Log) -> Result<Pulled, SnapshotError> {
        let recycler = log.recycler.lock();
        if recycler.is_working() {
            return Ok(Pulled::Nothing);
        }
        if log.pinned.swap(true, Ordering::Relaxed) {
            return Err(SnapshotError::Running);
        }
        self.pinned = true;
        drop(recycler);
        // With the writer between two runs, so that it has all that lies in older files.
        let writer = log.writer.lock();
        let looked = engine.with_buffer(|buffer| {
            let from = buffer.needed_from();
            buffer.end_housekeeping();
            self.looked = buffer.last_sequence();
            self.sources = sources(buffer, from);
            (from, buffer.before(from), buffer.table.all_owners())
        });
        let (from, (before, over), mut owners) = looked.unwrap_or_default();
        let ends = writer.ends_of(&over);
        drop(writer);
        let known = before.iter().copied().chain(ends.iter().map(|end| (end.log, end.index)));
        self.feed = self.journal.feed_from(from, known);
        owners.reverse();
        self.stage = Stage::Restate(owners);
        Ok(Pulled::Piece(Piece::Begin(Begin { before, ends })))
    }

    /// Has some more owners say again what they are.
    fn restate(&mut self, engine: &Engine, log: &Log) -> Option<Pulled> {
        let Stage::Restate(owners) = &mut self.stage else { return None };
        let some = owners.split_off(owners.len().saturating_sub(OWNERS_AT_ONCE));
        if some.is_empty() {
            self.stage = Stage::Next;
            return None;
        }
        // As the background asks: one at a time.
        let recycler = log.recycler.lock();
        let later = log.owners.restate(&some, &Restatement::new(engine));
        drop(recycler);
        let none = later.len() == some.len();
        owners.splice(..0, later);
        none.then_some(Pulled::Nothing)
    }

    /// Lists what is alive in the next source.
    fn open_source(&mut self, log: &Log) -> Result<Option<Pulled>, SnapshotError> {
        let Some(source) = self.sources.pop() else {
            self.stage = Stage::Settle(self.journal.engine().wait_from_now());
            return Ok(None);
        };
        let plan = match source {
            Source::File(file, owners) => {
                let (mut plan, mut found) = (Plan::new(vec![file]), Vec::new());
                for owner in owners {
                    found.clear();
                    log.owners.referenced(owner, file, &mut found);
                    plan.add(owner, &mut found);
                }
                plan
            }
            Source::Segment(segment) => {
                let (mut plan, mut sieve) = (Plan::new(vec![segment]), Sieve::new(&[segment]));
                let unsettled = |owner, page, bits: &mut _| log.owners.unsettled(owner, page, bits);
                loop {
                    match sieve.step(&log.cold, &unsettled, &mut plan) {
                        Ok(false) => {}
                        Ok(true) => break plan,
                        Err(_) => {
                            let what = format!("the index of segment {segment:08x} does not read back");
                            return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
                        }
                    }
                }
            }
        };
        self.stage = Stage::Bodies(Box::new(plan), (0, 0));
        Ok(None)
    }

    /// Reads some more bodies of one page.
    fn bodies(&mut self) -> Result<Option<Piece>, SnapshotError> {
        let Stage::Bodies(plan, (page, at)) = &mut self.stage else { return Ok(None) };
        let Some(listed) = plan.pages.get(*page) else {
            self.stage = Stage::Next;
            return Ok(None);
        };
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        for item in &listed.items[*at..] {
            if bytes >= PIECE {
                break;
            }
            let one = plan.at(listed, item);
            let body = self.journal.read(one.address)?;
            bytes += body.len();
            bodies.push((one.seq, body));
        }
        let owner = listed.owner;
        *at += bodies.len();
        if *at == listed.items.len() {
            (*page, *at) = (*page + 1, 0);
        }
        Ok(Some(Piece::Bodies { owner, bodies }))
    }

    /// The next entry, or what was restated.
    fn entries(&mut self, until: u64, engine: &Engine, log: &Log) -> Result<Option<Pulled>, SnapshotError> {
        if self.feed.passed() >= until {
            self.stage = Stage::Done;
            return Ok(None);
        }
        let Some((header, records)) = self.feed.next_batch(engine, log)? else { return Ok(Some(Pulled::Nothing)) };
        if header.kind == BatchKind::Housekeeping {
            if header.sequence <= self.looked {
                return Ok(None);
            }
            let restated = Restated::new(Bytes::from(records));
            let restated = restated.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
            return Ok(Some(Pulled::Piece(Piece::Restated(restated))));
        }
        let entry = self.feed.take(engine, &header, records)?;
        Ok(entry.map(|entry| Pulled::Piece(Piece::Entry(entry))))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let engine = self.journal.engine();
        if let Some(log) = &engine.log {
            log.recycler.lock().closed = false;
            if self.pinned {
                log.pinned.store(false, Ordering::Relaxed);
            }
            engine.wake_background();
        }
    }
}

/// The files before this one, oldest first, and the segments; as a list that is taken from its end.
fn sources(buffer: &Buffer, from: u32) -> Vec<Source> {
    let alive = buffer.segments.segments.iter().filter(|(_, count)| count.live > 0);
    let segments = alive.map(|(number, _)| Source::Segment(*number));
    let files = buffer.table.before(from).map(|file| Source::File(file.generation, file.owners()));
    let mut all: Vec<Source> = segments.chain(files).collect();
    all.reverse();
    all
}
