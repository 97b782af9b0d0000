//! Reads a whole data directory that no process has open, and says what is in it and what of it is
//! damaged.
//!
//! Invariants: nothing is changed. Every byte that a start or a later read would rely on is read
//! and checked, by the decoders that recovery uses. What recovery would call damage is damage here.
//! Reading goes on behind it, as far as what follows can be told from what an earlier use of the
//! disk has left.

use std::io;
use std::sync::Arc;

use crate::Owner;
use crate::cold::index;
use crate::disk::{Disk, Lock};
use crate::error::OpenError;
use crate::layout::{index_name, slot_number};
use crate::log::LogEnd;
use crate::recovery::cold::{Segments, read_indexes};
use crate::recovery::directory::{self, Marker, Slots};
use crate::recovery::scan::{Cut, Scan, ScanFile};
use crate::reference::{Chunk, Reference};
use crate::replay::Replay;

mod log;
mod segments;
mod tally;

use tally::Tally;

/// How many damages are told one by one.
const TOLD: usize = 1000;

/// What is in a data directory.
pub struct Verification {
    /// The files of the log, oldest first.
    pub log: Vec<VerifiedFile>,
    /// The sequence of the last batch; zero for a log without one.
    pub last_sequence: u64,
    /// How far each log goes; nothing if what a start needs is damaged.
    pub logs: Vec<LogEnd>,
    /// What a start would cut off at the end of the log.
    pub torn_tail: Option<Cut>,
    /// The segments that count, by number.
    pub segments: Vec<VerifiedSegment>,
    /// What is damaged, in the order it was found.
    pub damages: Vec<Damage>,
    /// How many damages there are beyond those.
    pub more_damages: u64,
    disk: Arc<dyn Disk>,
    incarnation: u64,
    _lock: Lock,
}

/// A file of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedFile {
    /// Its name in the data directory.
    pub name: String,
    /// Its generation.
    pub generation: u32,
    /// Whole batches in it.
    pub batches: u64,
    /// The bytes they take.
    pub bytes: u64,
}

/// A segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedSegment {
    /// Its number.
    pub number: u32,
    /// The file with its bodies.
    pub name: String,
    /// Whether it is a log file that stayed where it lay; else it was copied.
    pub adopted: bool,
    /// References that its index lists.
    pub listed: u64,
    /// Those of them that the log does not take back.
    pub live: u64,
    /// The length of its file.
    pub bytes: u64,
}

/// Something that does not read back as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file, relative to the data directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong, and what it means.
    pub what: String,
    /// The entries that it concerns, where they are known.
    pub entries: Option<DamagedEntries>,
}

/// Entries of one owner whose bodies, or the lists of them, can't be read.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DamagedEntries {
    /// Whose they are.
    pub owner: Owner,
    /// The lowest and the highest of their sequence numbers.
    pub numbers: (u64, u64),
    /// How many there are.
    pub count: u64,
    /// Those that are not settled. The others are not missed.
    pub live: u64,
}

impl Verification {
    /// True when everything is whole. A torn tail is no damage.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty()
    }

    /// Reads what a chunk lists, as [`crate::Opened::read_chunk`] does.
    ///
    /// # Errors
    /// `InvalidData` if it is damaged; else what the disk said.
    pub fn read_chunk(&self, chunk: Chunk, page: u64, into: &mut Vec<Reference>) -> io::Result<()> {
        let file = self.disk.open(&index_name(chunk.segment))?;
        index::read_block(&*file, self.incarnation, chunk, page, into)
    }

    fn note(&mut self, file: &str, offset: u64, what: impl Into<String>, entries: Option<DamagedEntries>) {
        if self.damages.len() < TOLD {
            self.damages.push(Damage { file: file.to_owned(), offset, what: what.into(), entries });
        } else {
            self.more_damages += 1;
        }
    }

    /// Notes why something can't be opened.
    fn note_error(&mut self, name: &str, error: &OpenError) {
        match error {
            OpenError::Damaged { file, offset, what } => self.note(file, *offset, what.as_str(), None),
            other => self.note(name, 0, other.to_string(), None),
        }
    }
}

/// Reads everything in the data directory on `disk`, which stays locked as long as the result
/// lives. The records that a start would replay go to `replay`; if the log is damaged, those that
/// are left.
///
/// # Errors
/// If the directory is in use, holds no journal or one of another version, or its marker is
/// damaged; and if the disk can't even be listed.
pub fn verify(disk: Arc<dyn Disk>, replay: &mut dyn Replay) -> Result<Verification, OpenError> {
    let lock = disk.lock().map_err(OpenError::io("locking the data directory"))?.ok_or(OpenError::Locked)?;
    let names = disk.list().map_err(OpenError::io("listing the data directory"))?;
    let marker = directory::read_marker(&*disk, &names)?;
    let Some(incarnation) = marker.incarnation() else { return Err(OpenError::NoJournal) };
    let mut found = Verification {
        log: Vec::new(),
        last_sequence: 0,
        logs: Vec::new(),
        torn_tail: None,
        segments: Vec::new(),
        damages: Vec::new(),
        more_damages: 0,
        disk: Arc::clone(&disk),
        incarnation,
        _lock: lock,
    };
    let mut segments = read_indexes(&*disk, &names, marker)?;
    let slots = open_slots(&*disk, &names, marker, &segments, &mut found);
    let scan = Scan::new(incarnation, slots.files, slots.broken)?;
    let (mut tally, mut spare) = (Tally::new(replay), slots.spare);
    let log = log::find(&scan, &mut found)?;
    spare.extend(scan.files[..log.start].iter().map(ScanFile::spare));
    match scan.files.get(log.start) {
        Some(first) => {
            segments.settle(first.generation);
            segments.check(&*disk, incarnation, &spare)?;
        }
        None if segments.is_empty() => {}
        None => found.note("wal", 0, "there are segments, but the files of the log are missing", None),
    }
    for lost in &segments.lost {
        found.note(&lost.name, lost.offset, lost.what.as_str(), None);
    }
    segments.deliver(&mut tally);
    log::read(&scan, &log, &mut tally, &mut found)?;
    for index in &segments.indexes {
        segments::read(&*disk, index, &tally, &mut found);
    }
    found.segments.sort_unstable_by_key(|segment| segment.number);
    Ok(found)
}

/// Opens every log file; what is wrong with one is noted.
fn open_slots(
    disk: &dyn Disk,
    names: &[String],
    marker: Marker,
    segments: &Segments,
    found: &mut Verification,
) -> Slots {
    let mut slots = Slots::default();
    for (name, number) in names.iter().filter_map(|name| slot_number(name).map(|number| (name, number))) {
        let opening = directory::open_file(disk, name, number, marker);
        if let Err(error) = opening.and_then(|opening| slots.take(opening, segments)) {
            found.note_error(name, &error);
        }
    }
    slots
}
