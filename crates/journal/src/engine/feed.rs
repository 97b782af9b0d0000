//! What another journal is sent that follows this one: the entries of all logs, in the order in
//! which they were written, read back from the disk; what was written last, from memory.
//!
//! Invariant: nothing is sent that is not flushed, so no copy has what a power cut here would undo.
//! Without a feed nothing is done for it: a feed asks, and appending tells it nothing.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;

use crate::Address;
use crate::checksum::Checksums;
use crate::engine::journal::Journal;
use crate::engine::{Engine, Log};
use crate::entry::Entry;
use crate::log::LogId;
use crate::options::BLOCK;
use crate::record;
use crate::wal::batch::{Batch, BatchHeader, HEADER};
use crate::wal::identity::Advance;
use crate::wal::tails::Missing;

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fed {
    /// An entry.
    Entry(Entry),
    /// No entry from here on references a body in an older file of the sender than this one.
    Horizon(u32),
    /// Nothing, until more is flushed.
    Nothing,
}

/// How much is flushed and was not read for the other journal yet.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Behind {
    /// Batches, of which entries are most: at least as many as entries.
    pub entries: u64,
    /// Bytes of the log from there on, at most.
    pub bytes: u64,
}

/// How far a feed has been read. It is asked while the feed is used elsewhere.
#[derive(Clone)]
pub struct Passed {
    journal: Journal,
    at: Option<Place>,
    passed: u64,
}

impl Passed {
    /// How much is left of what is flushed now.
    pub fn behind(&self) -> Behind {
        let engine = self.journal.engine();
        let entries = flushed(&self.journal).saturating_sub(self.passed);
        let end = engine.with_buffer(|buffer| buffer.first_pending()).filter(|_| entries > 0);
        let (Some(place), Some(end)) = (self.at, end) else { return Behind { entries, bytes: 0 } };
        let files = u64::from(end.file.saturating_sub(place.file)) * u64::from(engine.sizes.file);
        let bytes = (files + u64::from(end.offset)).saturating_sub(u64::from(place.offset));
        Behind { entries, bytes }
    }
}

/// The last batch that is flushed.
fn flushed(journal: &Journal) -> u64 {
    let log = journal.engine().log.as_ref();
    log.map_or(0, |log| log.synced.load(std::sync::atomic::Ordering::Acquire))
}

/// Why a journal can't be followed from where another one is.
#[derive(Debug)]
pub enum FeedError {
    /// What comes next has left the log.
    Gone {
        /// The log.
        log: LogId,
        /// The index of the entry that comes next.
        wanted: u64,
        /// That of the oldest one in the log.
        oldest: u64,
    },
    /// The other journal has entries that this one does not have.
    Ahead {
        /// The log.
        log: LogId,
        /// The index of its last entry there.
        known: u64,
        /// And here.
        last: u64,
    },
    /// The other journal has other records of a log than this one.
    Forked {
        /// The log.
        log: LogId,
        /// The index of the last entry of both.
        index: u64,
    },
    /// The disk failed, or has other bytes than were written.
    Io(io::Error),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { log, wanted, oldest } => write!(
                f,
                "entry {wanted} of log {} has left the log, which begins with entry {oldest}; the copy has to be made again",
                log.number()
            ),
            Self::Ahead { log, known, last } => write!(
                f,
                "the copy has {known} entries of log {}, and here are {last}; it is of another log, or this one went back",
                log.number()
            ),
            Self::Forked { log, index } => write!(
                f,
                "entry {index} of log {} is another one in the copy than here; one of both went back, or has served",
                log.number()
            ),
            Self::Io(error) => write!(f, "reading the log for a copy: {error}; check the disk"),
        }
    }
}

impl std::error::Error for FeedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Gone { .. } | Self::Ahead { .. } | Self::Forked { .. } => None,
        }
    }
}

impl From<io::Error> for FeedError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Missing> for FeedError {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Ahead { log, known, last } => Self::Ahead { log, known, last },
            Missing::Gone { log, wanted, oldest } => Self::Gone { log, wanted, oldest },
        }
    }
}

/// The place of the next batch, and its sequence if that is known.
#[derive(Copy, Clone, Debug)]
struct Place {
    file: u32,
    offset: u32,
    sequence: Option<u64>,
}

/// What is sent to one journal.
pub struct Feed {
    journal: Journal,
    /// The last entry of each log that the other journal has.
    known: HashMap<LogId, u64>,
    /// None before the first entry that it misses is known.
    at: Option<Place>,
    /// The last batch that was read.
    passed: u64,
    /// Where what came next would have lain when nothing was missing.
    next_file: Option<u32>,
    /// From which file on bodies were held, as of the time when so many batches had been begun.
    held: Option<(u64, u32)>,
    /// The horizon that was told last.
    told: u32,
    /// Once so many batches are flushed, the one that it begins with must lie in its place.
    due: Option<u64>,
    /// Has the last batches held in memory.
    _reading: Reading,
}

/// A reader of the last batches.
struct Reading(Journal);

impl Reading {
    fn begin(journal: &Journal) -> Self {
        let _ = journal.engine().with_buffer(|buffer| buffer.recent.begin());
        Self(journal.clone())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Dropped without the lock.
        drop(self.0.engine().with_buffer(|buffer| buffer.recent.end()));
    }
}

impl Journal {
    /// What a journal is sent that has so many entries of each log, and none of the others.
    pub fn feed(&self, known: impl IntoIterator<Item = (LogId, u64)>) -> Feed {
        let known = known.into_iter().collect();
        let (journal, _reading) = (self.clone(), Reading::begin(self));
        Feed { journal, known, at: None, passed: 0, next_file: None, held: None, told: 0, due: None, _reading }
    }

    /// All batches from the first of a file on.
    pub(super) fn feed_from(&self, file: u32, known: impl IntoIterator<Item = (LogId, u64)>) -> Feed {
        Feed { at: Some(Place { file, offset: BLOCK, sequence: None }), ..self.feed(known) }
    }
}

impl Feed {
    /// The next piece. Waits for the disk.
    ///
    /// # Errors
    /// Why there is none. The feed is over then.
    pub fn pull(&mut self) -> Result<Fed, FeedError> {
        let engine = self.journal.engine().clone();
        let log = engine.log.as_ref().ok_or_else(|| io::Error::other("a journal in memory has nothing to follow"))?;
        loop {
            self.look_at_holds(&engine);
            if let Some(horizon) = self.horizon() {
                return Ok(Fed::Horizon(horizon));
            }
            if self.at.is_none() && !self.begin(&engine)? {
                let ahead = self.horizon();
                return Ok(ahead.map_or(Fed::Nothing, Fed::Horizon));
            }
            let Some((header, records)) = self.next_batch(&engine, log)? else { return Ok(Fed::Nothing) };
            if let Some(entry) = self.take(&engine, &header, records)? {
                return Ok(Fed::Entry(entry));
            }
        }
    }

    /// The last batch that is flushed.
    pub fn flushed(&self) -> u64 {
        flushed(&self.journal)
    }

    /// The last batch that was read for the other journal.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The oldest file that has something which was not read for the other journal yet. None before
    /// the first [`Feed::pull`].
    pub fn needs(&self) -> Option<u32> {
        self.at.map(|place| place.file).or(self.next_file)
    }

    /// Whether all was read that has been appended.
    pub fn has_all(&self) -> bool {
        self.journal.engine().with_buffer(|buffer| buffer.last_sequence()).is_none_or(|last| last <= self.passed)
    }

    /// How much is left of what is flushed.
    pub fn behind(&self) -> Behind {
        self.read().behind()
    }

    /// How far it has been read.
    pub fn read(&self) -> Passed {
        Passed { journal: self.journal.clone(), at: self.at, passed: self.passed }
    }

    /// Notes from which file on bodies are held now. All that is appended later can only reference
    /// these, or newer ones.
    fn look_at_holds(&mut self, engine: &Engine) {
        if self.held.is_none() {
            self.held = engine.with_buffer(|buffer| (buffer.last_sequence(), buffer.table.held_from()));
        }
    }

    /// The horizon, once all has been sent that was there when it was looked at.
    fn horizon(&mut self) -> Option<u32> {
        let (_, file) = self.held.take_if(|(sequence, _)| *sequence <= self.passed)?;
        let newer = file > self.told;
        self.told = self.told.max(file);
        newer.then_some(file)
    }

    /// Finds the first entry to send; false if there is none.
    fn begin(&mut self, engine: &Engine) -> Result<bool, FeedError> {
        let looked = engine.with_buffer(|buffer| {
            (buffer.first_missing(&self.known), buffer.last_sequence(), buffer.first_pending().file)
        });
        let Some((found, last, file)) = looked else { return Ok(false) };
        match found? {
            Some((file, offset)) => self.at = Some(Place { file, offset, sequence: None }),
            None => (self.passed, self.next_file) = (last, Some(file)),
        }
        Ok(self.at.is_some())
    }

    /// Reads the next batch, if it is flushed.
    pub(super) fn next_batch(
        &mut self,
        engine: &Engine,
        log: &Log,
    ) -> Result<Option<(BatchHeader, Vec<u8>)>, FeedError> {
        let Some(place) = self.at else { return Ok(None) };
        let synced = log.synced.load(std::sync::atomic::Ordering::Acquire);
        if place.sequence.is_some_and(|sequence| sequence > synced) {
            return Ok(None);
        }
        if let Some(batch) = place.sequence.and_then(|sequence| recent(engine, sequence))
            && let Some((header, records)) = of_memory(log, &batch)
        {
            let end = batch.end();
            self.at = Some(Place { file: end.file, offset: end.offset, sequence: Some(header.sequence + 1) });
            self.passed = header.sequence;
            return Ok(Some((header, records)));
        }
        let next_file = Place { file: place.file + 1, offset: BLOCK, ..place };
        for place in [Some(place), place.sequence.is_some().then_some(next_file)].into_iter().flatten() {
            let Some((header, records)) = read_batch(log, place)? else { continue };
            if header.sequence > synced {
                return Ok(None);
            }
            let offset = place.offset + header.footprint();
            self.at = Some(Place { file: place.file, offset, sequence: Some(header.sequence + 1) });
            self.passed = header.sequence;
            return Ok(Some((header, records)));
        }
        self.look_for_damage(engine, place, synced)?;
        Ok(None)
    }

    /// There is no batch at a place, although so many were flushed before it was looked for: it has
    /// left, or the disk has other bytes than were written, or the writer has it still.
    fn look_for_damage(&mut self, engine: &Engine, place: Place, synced: u64) -> Result<(), FeedError> {
        let looked = engine
            .with_buffer(|buffer| (buffer.table.oldest().generation, buffer.first_pending(), buffer.last_sequence()));
        let Some((oldest, pending, last)) = looked else { return Ok(()) };
        if place.file < oldest {
            // It was being sent, and has left meanwhile.
            (self.at, self.due) = (None, None);
            self.begin(engine)?;
            return Ok(());
        }
        if (Address { file: place.file, offset: place.offset }) >= pending {
            return Ok(());
        }
        // Of the first one the sequence is not known, but it is none of those that come later.
        let due = place.sequence.unwrap_or_else(|| *self.due.get_or_insert(last));
        if due > synced {
            return Ok(());
        }
        let what = format!("the batch at byte {} of file {} does not read back", place.offset, place.file);
        Err(io::Error::new(io::ErrorKind::InvalidData, what).into())
    }

    /// The entry that a batch is, if the other journal misses it.
    pub(super) fn take(
        &mut self,
        engine: &Engine,
        header: &BatchHeader,
        records: Vec<u8>,
    ) -> Result<Option<Entry>, FeedError> {
        let Some(identity) = header.identity.filter(|_| header.advance() == Advance::Yes) else { return Ok(None) };
        let end = identity.end;
        let known = self.known.entry(end.log).or_default();
        if end.index <= *known {
            return Ok(None);
        }
        if end.index > *known + 1 {
            if engine.with_buffer(|buffer| buffer.has_ended(end.log)).unwrap_or(false) {
                return Ok(None);
            }
            return Err(FeedError::Gone { log: end.log, wanted: *known + 1, oldest: end.index });
        }
        *known = end.index;
        let mut records = records;
        record::unseal_bodies(&mut records);
        let entry = Entry::new(end, header.generation, Bytes::from(records));
        Ok(Some(entry.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?))
    }
}

/// A batch that was written lately.
fn recent(engine: &Engine, sequence: u64) -> Option<Arc<Batch>> {
    engine.with_buffer(|buffer| buffer.recent.find(sequence)).flatten()
}

/// Header and records of a batch in memory. It has not gone over a disk, so its records need no
/// look at their checksum.
fn of_memory(log: &Log, batch: &Batch) -> Option<(BatchHeader, Vec<u8>)> {
    let bytes = batch.bytes.read();
    let (header, _) = BatchHeader::decode(&bytes, log.incarnation, batch.file, batch.offset)?;
    Some((header, bytes.get(HEADER..HEADER + header.length as usize)?.to_vec()))
}

/// The batch at a place, if there is one and it is the one that is looked for.
fn read_batch(log: &Log, place: Place) -> io::Result<Option<(BatchHeader, Vec<u8>)>> {
    let Some(file) = log.ring.handle(place.file) else { return Ok(None) };
    let mut bytes = [0; HEADER];
    match file.read_exact_at(&mut bytes, u64::from(place.offset)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let found = BatchHeader::decode(&bytes, log.incarnation, place.file, place.offset);
    let Some((header, _)) = found.filter(|(header, _)| place.sequence.is_none_or(|next| header.sequence == next))
    else {
        return Ok(None);
    };
    let mut records = vec![0; header.length as usize];
    match file.read_exact_at(&mut records, u64::from(place.offset) + HEADER as u64) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let whole = Checksums::new(log.incarnation, header.generation).of(&records) == header.payload;
    Ok(whole.then_some((header, records)))
}
