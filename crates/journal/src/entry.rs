//! An entry of a log as it goes from one journal to another: a batch with something new, without
//! anything that depends on the disk it lay on; and why a journal that follows refuses one.
//!
//! Invariant: the records of an entry are whole, of its own log alone, and of kinds that are sent.
//! That is checked where one is made, so what takes it need not.

use std::fmt;

use bytes::Bytes;

use crate::log::{LogEnd, LogId};
use crate::record::{self, Kind, Naming, Record};

/// One entry of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    end: LogEnd,
    file: u32,
    count: u32,
    records: Bytes,
}

impl Entry {
    /// The entry with which its log ends so. It lies in `file` of the journal that it comes from.
    ///
    /// # Errors
    /// What is wrong with the records.
    pub fn new(end: LogEnd, file: u32, records: Bytes) -> Result<Self, &'static str> {
        let (mut rest, mut count) = (&records[..], 0);
        while !rest.is_empty() {
            let (record, next) = record::decode(rest)?;
            check(&record, end.log)?;
            (rest, count) = (next, count + 1);
        }
        if count == 0 {
            return Err("an entry without records");
        }
        Ok(Self { end, file, count, records })
    }

    /// The end of its log with it.
    pub const fn end(&self) -> LogEnd {
        self.end
    }

    /// The file of the sender that it lies in: see [`crate::Fed::Horizon`].
    pub const fn file(&self) -> u32 {
        self.file
    }

    /// Its records, as `docs/formats/journal.md` draws them, the checksums of bodies zero.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// How many records there are.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Each record in turn.
    pub(crate) fn each(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &self.records[..];
        std::iter::from_fn(move || {
            let (record, next) = record::decode(rest).ok()?;
            rest = next;
            Some(record)
        })
    }
}

fn check(record: &Record<'_>, log: LogId) -> Result<(), &'static str> {
    match record.kind {
        Kind::LogEnd { .. } => Err("an entry says again how far a log goes"),
        Kind::Reference { naming: Naming::Place, .. } => Err("an entry names bodies by their place on a disk"),
        kind if kind.owner().is_some_and(|owner| LogId::of(owner) != log) => {
            Err("an entry has a record about an owner of another log")
        }
        _ => Ok(()),
    }
}

/// What owners said again, as it goes to a journal that receives a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restated {
    count: u32,
    records: Bytes,
}

impl Restated {
    /// A batch of what was restated.
    ///
    /// # Errors
    /// What is wrong with the records.
    pub fn new(records: Bytes) -> Result<Self, &'static str> {
        let (mut rest, mut count) = (&records[..], 0);
        while !rest.is_empty() {
            let (record, next) = record::decode(rest)?;
            if matches!(record.kind, Kind::Body { .. } | Kind::Reference { .. } | Kind::GroupEnd { .. }) {
                return Err("what is restated has a record that is none of facts");
            }
            (rest, count) = (next, count + 1);
        }
        if count == 0 {
            return Err("nothing is restated");
        }
        Ok(Self { count, records })
    }

    /// Its records, as `docs/formats/journal.md` draws them.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// How many records there are.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

/// Why an entry was not taken. Nothing has come of it, and the journal goes on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is not the next of its log: another one, or several, come first.
    Gap {
        /// The log.
        log: LogId,
        /// The index that comes next.
        next: u64,
        /// The index of the entry.
        index: u64,
    },
    /// The log is as far as that, or further.
    Known {
        /// The log.
        log: LogId,
        /// The index that comes next.
        next: u64,
        /// The index of the entry.
        index: u64,
    },
    /// It follows other records than those that are here: the two logs went apart before.
    Forked {
        /// The log.
        log: LogId,
        /// The index of the entry.
        index: u64,
    },
    /// It is of an earlier term than the entry before it: its sender was replaced.
    OldTerm {
        /// The log.
        log: LogId,
        /// The term of the last entry here.
        term: u64,
        /// That of the entry.
        of_entry: u64,
    },
    /// It has a reference to a body that has left the log here.
    NoBody {
        /// The log.
        log: LogId,
        /// The index of the entry.
        index: u64,
    },
    /// No file of the log has room for it.
    TooLong {
        /// Bytes of its records.
        bytes: u64,
        /// The most that fit.
        most: u64,
    },
    /// The journal has failed, was closed, or lies in memory.
    Ended,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { log, next, index } => {
                write!(f, "entry {index} of log {} came before entry {next}; send from there on", log.number())
            }
            Self::Known { log, next, index } => {
                write!(f, "entry {index} of log {} is here; send from {next} on", log.number())
            }
            Self::Forked { log, index } => write!(
                f,
                "entry {index} of log {} does not follow what is here; this copy has to be made again",
                log.number()
            ),
            Self::OldTerm { log, term, of_entry } => write!(
                f,
                "an entry of log {} is of term {of_entry}, and the last one here of term {term}; its sender was replaced",
                log.number()
            ),
            Self::NoBody { log, index } => write!(
                f,
                "entry {index} of log {} references a body that is not in the log here; this copy has to be made again",
                log.number()
            ),
            Self::TooLong { bytes, most } => write!(
                f,
                "an entry of {bytes} bytes does not fit in a file of the log, which takes {most}; use files as large as the \
                 sender's"
            ),
            Self::Ended => f.write_str("the journal does not take anything any more"),
        }
    }
}

impl std::error::Error for Refused {}
