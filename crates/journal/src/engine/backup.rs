//! A copy of a journal that runs, made a bounded piece at a time into another directory.
//!
//! While a [`Backup`] lives, nothing leaves the log and no segment goes. So what was listed at its
//! beginning stays as it was: closed files and segments do not change. Of the head only what was
//! flushed by then is copied, with zeros behind it. Invariant: the marker is written when all else
//! of the copy is durable and the journal still had its directory to itself. So a copy that was cut
//! short is no data directory.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, DiskFile, Lock};
use crate::engine::journal::{Journal, Stepper};
use crate::engine::{Engine, Log, Target};
use crate::file_header::{FILE_HEADER, FileHeader};
use crate::layout::{HARMLESS, MARKER, is_spilled_name, slot_name, slot_number};
use crate::ticket::Address;

/// How much is copied with one step.
const PIECE: usize = 1 << 20;
/// How much is written between two flushes: a large one would hold up the writer's.
const FLUSHED_AT_ONCE: u64 = 8 << 20;

/// How far a backup is.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Whole files.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes that there are to write.
    pub total: u64,
    /// What the copy reaches to: the sequence of the last batch in it.
    pub until: u64,
}

/// Why there is no backup.
#[derive(Debug)]
pub enum BackupError {
    /// The journal is in memory alone.
    InMemory,
    /// Another backup runs.
    Running,
    /// Another process, or the journal itself, has the directory open.
    InUse,
    /// The directory holds these files.
    NotEmpty(Vec<String>),
    /// The copy does not fit.
    NoRoom {
        /// The bytes that it takes.
        needed: u64,
        /// The bytes that are free there.
        free: u64,
    },
    /// The journal was closed, or has failed.
    Stopped,
    /// A disk failed.
    Io {
        /// What was being done.
        doing: String,
        /// What the disk said.
        error: io::Error,
    },
}

impl BackupError {
    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InMemory => f.write_str("there is nothing to copy: with durability memory nothing is written"),
            Self::Running => f.write_str("another backup runs; wait for its end"),
            Self::InUse => f.write_str("another process uses that directory; name another one"),
            Self::NotEmpty(names) => {
                let shown: Vec<_> = names.iter().take(5).map(String::as_str).collect();
                write!(f, "it is not empty ({}); name a new or an empty directory", shown.join(", "))
            }
            Self::NoRoom { needed, free } => {
                write!(f, "the copy takes {needed} bytes and {free} are free there; name a directory on another disk")
            }
            Self::Stopped => f.write_str("the broker stops, so the copy was given up"),
            Self::Io { doing, error } => write!(f, "{doing}: {error}; the copy was given up"),
        }
    }
}

impl std::error::Error for BackupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A backup under way. It is done when [`Backup::step`] says so; dropped before, it removes what it
/// has written. Nothing leaves the log while it lives.
pub struct Backup {
    pin: Pin,
    /// Of the directory of the copy.
    _lock: Lock,
    to: Arc<dyn Disk>,
    /// What is still to be copied, last first; the marker is the very last.
    items: Vec<Item>,
    current: Option<Copying>,
    /// The names of the files made so far.
    made: Vec<String>,
    copied: Copied,
    done: bool,
}

/// A file to copy.
struct Item {
    name: String,
    /// How many bytes of it.
    bytes: u64,
    /// The length of the copy, with zeros behind them.
    length: u64,
}

/// The file that is being copied.
struct Copying {
    item: Item,
    from: Arc<dyn DiskFile>,
    to: Arc<dyn DiskFile>,
    at: u64,
}

/// Keeps the files of the log and the segments where and as they are.
struct Pin(Journal);

impl Pin {
    fn set(journal: &Journal, log: &Log) -> Result<Self, BackupError> {
        // Under this lock, so that the background is between two steps.
        let _between_steps = log.recycler.lock();
        match log.pinned.swap(true, Ordering::Relaxed) {
            true => Err(BackupError::Running),
            false => Ok(Self(journal.clone())),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let engine = self.0.engine();
        if let Some(log) = &engine.log {
            log.pinned.store(false, Ordering::Relaxed);
            engine.wake_background();
        }
    }
}

impl Journal {
    /// Begins to copy the journal into the directory `to`, which must be empty: everything appended
    /// before this call will be there. Waits until the writer has flushed that.
    ///
    /// # Errors
    /// Why there can't be a copy; nothing of it was written then.
    pub fn backup(&self, to: Arc<dyn Disk>) -> Result<Backup, BackupError> {
        self.begin_backup(to, &mut |log| {
            let wanted = self.engine().ask_for_flush();
            let wanted = wanted.ok_or_else(|| io::Error::other("the journal ends"))?;
            self.engine().wait_for_flush(log, wanted)
        })
    }

    /// Begins a copy with what flushes everything that was appended.
    fn begin_backup(
        &self,
        to: Arc<dyn Disk>,
        flush: &mut dyn FnMut(&Log) -> io::Result<()>,
    ) -> Result<Backup, BackupError> {
        let log = self.engine().log.as_ref().ok_or(BackupError::InMemory)?;
        let looking = || BackupError::io("looking at the directory of the copy");
        // A lock is a file: it is not put into a directory that has others.
        is_empty(&*to)?;
        let lock = to.lock().map_err(looking())?.ok_or(BackupError::InUse)?;
        is_empty(&*to)?;
        let pin = Pin::set(self, log)?;
        let (end, until) = self.flush_for(log, flush)?;
        let mut items = list(log, end)?;
        let total = items.iter().map(|item| item.length).sum();
        let free = to.free().map_err(looking())?;
        if free < total {
            return Err(BackupError::NoRoom { needed: total, free });
        }
        items.reverse();
        let copied = Copied { total, until, ..Copied::default() };
        Ok(Backup { pin, _lock: lock, to, items, current: None, made: Vec::new(), copied, done: false })
    }

    /// Has everything flushed that was appended so far. Gives the end of what is flushed, and the
    /// last batch.
    fn flush_for(
        &self,
        log: &Log,
        flush: &mut dyn FnMut(&Log) -> io::Result<()>,
    ) -> Result<(Address, u64), BackupError> {
        let wanted = self.engine().state.lock().last_sequence().ok_or(BackupError::Stopped)?;
        // With the second a batch is there, empty or not, that proves the first to be flushed. If
        // what is copied of the first does not read back, it is damage, never a torn tail.
        for _ in 0..2 {
            self.look()?;
            flush(log).or_else(|error| self.look().and(Err(BackupError::io("flushing the log")(error))))?;
        }
        match flushed(log) {
            (Some(end), until) if until >= wanted => Ok((end, until)),
            _ => Err(BackupError::io("flushing the log")(io::ErrorKind::StorageFull.into())),
        }
    }

    /// The journal's lock on its directory ends with the journal: what was read before this still
    /// was its own.
    fn look(&self) -> Result<(), BackupError> {
        let state = self.engine().state.lock();
        if state.failed || state.stopping { Err(BackupError::Stopped) } else { Ok(()) }
    }
}

impl Stepper {
    /// As [`Journal::backup`], for a journal whose writer is this.
    ///
    /// # Errors
    /// As there.
    pub fn backup(&self, to: Arc<dyn Disk>) -> Result<Backup, BackupError> {
        self.journal().begin_backup(to, &mut |_| {
            self.journal().engine().ask_for_flush();
            self.flush().map(drop)
        })
    }
}

impl Engine {
    /// Has the writer write a batch, be it empty, and flush. Gives its sequence; none
    /// once the log has failed.
    fn ask_for_flush(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if let Target::Log(buffer) = &mut state.target {
            buffer.force();
        }
        state.sync_wanted = true;
        self.wake_writer(&mut state);
        state.last_sequence()
    }
}

/// Refuses a directory that holds anything.
fn is_empty(to: &dyn Disk) -> Result<(), BackupError> {
    let mut names = to.list().map_err(BackupError::io("looking at the directory of the copy"))?;
    names.retain(|name| !HARMLESS.contains(&name.as_str()));
    if names.is_empty() { Ok(()) } else { Err(BackupError::NotEmpty(names)) }
}

/// The end of what is flushed, and its last batch.
fn flushed(log: &Log) -> (Option<Address>, u64) {
    let writer = log.writer.lock();
    (writer.synced_end, writer.synced)
}

/// Everything that a copy of the log up to `end` needs, the marker last. What lies in the directory
/// rules: an index that can't be read and the file it speaks of go along too.
fn list(log: &Log, end: Address) -> Result<Vec<Item>, BackupError> {
    let disk = &log.cold.disk;
    let length = |name: &str| {
        let opened = disk.open(name).and_then(|file| file.length());
        opened.map_err(BackupError::io(format!("opening {name}")))
    };
    // Slots that are free, or that are ready for what comes after the end, may change at any time.
    let listed = log.ring.standing(|shelf| {
        let mut names = disk.list()?;
        let later = shelf.used.iter().filter(|(generation, _)| **generation > end.file).map(|(_, slot)| slot);
        let unsteady: Vec<u32> = later.chain(&shelf.free).map(|slot| slot.number).collect();
        names.retain(|name| slot_number(name).is_none_or(|slot| !unsteady.contains(&slot)) && !is_spilled_name(name));
        let log_files: Vec<(String, u32, u32)> =
            shelf.used.iter().map(|(generation, slot)| (slot_name(slot.number), *generation, slot.length)).collect();
        Ok((names, log_files))
    });
    let (names, log_files) = listed.map_err(BackupError::io("listing the data directory"))?;
    let mut items = Vec::new();
    for name in names {
        let known = log_files.iter().find(|(known, ..)| *known == name);
        let (bytes, whole) = match known {
            Some((_, generation, length)) if *generation == end.file => (u64::from(end.offset), u64::from(*length)),
            Some((_, _, length)) => (u64::from(*length), u64::from(*length)),
            None if slot_number(&name).is_some() && !is_older(&**disk, &name, end.file) => continue,
            None if name.contains('/') => length(&name).map(|length| (length, length))?,
            None => continue,
        };
        items.push(Item { name, bytes, length: whole });
    }
    let marker = length(MARKER)?;
    items.push(Item { name: MARKER.to_owned(), bytes: marker, length: marker });
    Ok(items)
}

/// Whether a file that the log does not use was a file of it before generation `last` at the
/// latest: an adopted segment. Any other is one that could not be readied.
fn is_older(disk: &dyn Disk, name: &str, last: u32) -> bool {
    let mut front = [0; FILE_HEADER];
    let read = disk.open(name).and_then(|file| file.read_exact_at(&mut front, 0));
    read.is_ok() && FileHeader::decode(&front).is_none_or(|header| header.generation <= last)
}

impl Backup {
    /// How far it is.
    pub fn copied(&self) -> Copied {
        self.copied
    }

    /// Copies the next piece, of a mebibyte at most; true when the copy is whole, and durable.
    ///
    /// # Errors
    /// Why the copy can't go on. Drop it then.
    pub fn step(&mut self) -> Result<bool, BackupError> {
        self.pin.0.look()?;
        let mut copying = match self.current.take() {
            Some(copying) => copying,
            None => match self.items.pop() {
                Some(item) => self.begin(item)?,
                None => return Ok(self.done),
            },
        };
        if copying.at < copying.item.length {
            self.copied.bytes += copying.piece()?;
            self.current = Some(copying);
            return Ok(false);
        }
        copying.to.sync_data().map_err(BackupError::io(format!("flushing the copy of {}", copying.item.name)))?;
        self.copied.files += 1;
        if self.items.is_empty() {
            self.sync_directory()?;
            self.done = true;
        }
        Ok(self.done)
    }

    fn begin(&mut self, item: Item) -> Result<Copying, BackupError> {
        if item.name == MARKER {
            self.sync_directory()?;
        }
        let name = &item.name;
        let from = self.pin.0.engine().log.as_ref().ok_or(BackupError::InMemory)?.cold.disk.open(name);
        let from = from.map_err(BackupError::io(format!("opening {name}")))?;
        let to = self.to.create(name).map_err(BackupError::io(format!("making the copy of {name}")))?;
        self.made.push(name.clone());
        Ok(Copying { item, from, to, at: 0 })
    }

    fn sync_directory(&self) -> Result<(), BackupError> {
        self.to.sync_directory().map_err(BackupError::io("flushing the directory of the copy"))
    }
}

impl Copying {
    /// Copies the next piece and says how long it was.
    fn piece(&mut self) -> Result<u64, BackupError> {
        let Item { name, bytes, length } = &self.item;
        let left = length - self.at;
        let mut piece = vec![0; left.min(PIECE as u64) as usize];
        let kept = bytes.saturating_sub(self.at).min(piece.len() as u64) as usize;
        self.from.read_exact_at(&mut piece[..kept], self.at).map_err(BackupError::io(format!("reading {name}")))?;
        let mut write = || {
            self.to.write_all_at(&piece, self.at)?;
            self.at += piece.len() as u64;
            if self.at.is_multiple_of(FLUSHED_AT_ONCE) { self.to.sync_data() } else { Ok(()) }
        };
        write().map_err(BackupError::io(format!("writing the copy of {name}")))?;
        Ok(piece.len() as u64)
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // Closed first: Windows removes no open file. What stays is no data directory. It is in
        // the way of a backup only.
        self.current = None;
        for name in self.made.iter().rev() {
            let _ = self.to.remove(name);
        }
        let _ = self.to.sync_directory();
    }
}
