//! A directory that receives a snapshot of another journal: its bodies into segments, its entries
//! and what was restated into the log.
//!
//! Invariant: the directory is none of a journal before all of it is durable, since it has no
//! marker. Killed at any moment, this leaves nothing, or the whole. What was there before lies in
//! another directory, and goes when this one is whole.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::Owner;
use crate::checksum::Checksums;
use crate::cold::index::{IndexWriter, SegmentFile};
use crate::cold::plan::{Item, PagePlan, Plan};
use crate::disk::{Disk, DiskFile, Lock};
use crate::engine::journal::{Journal, Stepper};
use crate::engine::snapshot::{Begin, Piece};
use crate::engine::writer::Flushed;
use crate::engine::{Engine, Log, Target};
use crate::entry::Entry;
use crate::error::OpenError;
use crate::file_header::write_header;
use crate::layout::{HARMLESS, MARKER, index_name, segment_name};
use crate::log::LogEnd;
use crate::options::{BLOCK, Options};
use crate::record::{BODY_HEAD, body_head};
use crate::recovery::directory::{self, Marker};
use crate::reference::PAGE;
use crate::wal::batch::most_records;

/// What the marker is called as long as the directory is not whole.
const UNFINISHED: &str = "FORMAT.part";
/// How much is appended between two flushes.
const FLUSHED_AT_ONCE: u64 = 4 << 20;
/// How many bodies a segment takes at most, so that the list of them stays small.
const LISTED: u64 = 256 << 10;

/// Why a directory does not receive a snapshot, or a piece of it.
#[derive(Debug)]
pub enum ReceivingError {
    /// The directory has a journal.
    Taken,
    /// The directory can't be used.
    Open(OpenError),
    /// A piece came out of its order, or the first one twice.
    Order,
    /// No file of the log has room for it.
    TooLong {
        /// Bytes of its records.
        bytes: u64,
        /// The most that fit.
        most: u64,
    },
    /// The disk failed, or is full.
    Io(io::Error),
}

impl fmt::Display for ReceivingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("the directory has a journal; a snapshot is received into an empty one"),
            Self::Open(error) => error.fmt(f),
            Self::Order => f.write_str("a piece of the snapshot is missing or came twice; begin again"),
            Self::TooLong { bytes, most } => write!(
                f,
                "an entry of {bytes} bytes does not fit in a file of the log, which takes {most}; use files as large as the \
                 sender's"
            ),
            Self::Io(error) => write!(f, "writing the snapshot: {error}; begin again"),
        }
    }
}

impl std::error::Error for ReceivingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::Taken | Self::Order | Self::TooLong { .. } => None,
        }
    }
}

impl From<io::Error> for ReceivingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A snapshot that is being received. What is dropped before [`Receiving::finish`] is nothing.
pub struct Receiving {
    disk: Arc<dyn Disk>,
    journal: Journal,
    stepper: Stepper,
    /// The ends of logs that had no entry, once the first piece has come.
    ends: Option<Vec<LogEnd>>,
    segment: Option<Segment>,
    /// Bytes that were appended since the last flush.
    unflushed: u64,
}

impl Receiving {
    /// Begins to receive into a directory that is empty, or in which this was begun before: what is
    /// left of that goes.
    ///
    /// # Errors
    /// Why the directory can't be used.
    pub fn begin(disk: Arc<dyn Disk>, options: Options) -> Result<Self, ReceivingError> {
        clear(&*disk)?;
        let hidden = Arc::new(Hidden(Arc::clone(&disk)));
        let opened = Journal::open(hidden, options, &mut ()).map_err(ReceivingError::Open)?;
        let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), Arc::new(()), Box::new(|_| {}));
        Ok(Self { disk, journal, stepper, ends: None, segment: None, unflushed: 0 })
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// Why it is not taken. The snapshot has to begin again then.
    pub fn take(&mut self, piece: &Piece) -> Result<(), ReceivingError> {
        match piece {
            Piece::Begin(begin) if self.ends.is_none() => self.begin_logs(begin),
            Piece::Begin(_) => return Err(ReceivingError::Order),
            _ if self.ends.is_none() => return Err(ReceivingError::Order),
            Piece::Bodies { owner, bodies } => self.take_bodies(*owner, bodies)?,
            Piece::Entry(entry) => self.take_entry(entry)?,
            Piece::Restated(restated) => {
                self.fits(restated.records().len())?;
                self.journal.engine().with_buffer(|buffer| buffer.append_restated(restated));
            }
        }
        if self.unflushed >= FLUSHED_AT_ONCE {
            self.flush()?;
        }
        Ok(())
    }

    /// All has come: makes it durable, and the directory one of a journal. What followed before may
    /// go when this returns.
    ///
    /// # Errors
    /// As for [`Receiving::take`].
    pub fn finish(mut self) -> Result<(), ReceivingError> {
        let ends = self.ends.take().ok_or(ReceivingError::Order)?;
        self.finish_segment()?;
        self.journal.engine().with_buffer(|buffer| ends.into_iter().for_each(|end| buffer.restate_end(end)));
        self.flush()?;
        self.journal.close()?;
        let Self { disk, journal, stepper, .. } = self;
        drop((journal, stepper));
        let mut marker = vec![0; disk.open(UNFINISHED)?.length()? as usize];
        disk.open(UNFINISHED)?.read_exact_at(&mut marker, 0)?;
        disk.sync_directory()?;
        let file = disk.create(MARKER)?;
        file.write_all_at(&marker, 0)?;
        file.sync_data()?;
        disk.sync_directory()?;
        disk.remove(UNFINISHED)?;
        Ok(())
    }

    fn log(&self) -> io::Result<(&Engine, &Log)> {
        let engine = self.journal.engine();
        let log = engine.log.as_ref().ok_or_else(|| io::Error::other("a journal in memory receives nothing"))?;
        Ok((engine, log))
    }

    fn begin_logs(&mut self, begin: &Begin) {
        let engine = self.journal.engine();
        let ends = begin.ends.iter().map(|end| (end.log, end.index));
        engine.with_buffer(|buffer| {
            for (log, index) in begin.before.iter().copied().chain(ends) {
                let place = buffer.place_of(log);
                buffer.begin_behind(place, index);
            }
        });
        if let Some(log) = &engine.log {
            let mut writer = log.writer.lock();
            begin.ends.iter().for_each(|end| writer.ends.begin_behind(*end));
        }
        self.ends = Some(begin.ends.clone());
    }

    fn fits(&mut self, bytes: usize) -> Result<(), ReceivingError> {
        let most = most_records(self.journal.engine().sizes.file);
        if bytes as u64 > most {
            return Err(ReceivingError::TooLong { bytes: bytes as u64, most });
        }
        self.unflushed += bytes as u64;
        Ok(())
    }

    fn take_entry(&mut self, entry: &Entry) -> Result<(), ReceivingError> {
        self.fits(entry.records().len())?;
        let end = entry.end();
        let mut state = self.journal.engine().state.lock();
        let Target::Log(buffer) = &mut state.target else { return Err(ReceivingError::Order) };
        let place = buffer.place_of(end.log);
        if buffer.index_at(place).1 + 1 != end.index {
            return Err(ReceivingError::Order);
        }
        buffer.append_entry(place, entry);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ReceivingError> {
        self.unflushed = 0;
        match self.stepper.flush()? {
            Flushed::Done | Flushed::Idle => Ok(()),
            Flushed::Stalled => Err(io::Error::from(io::ErrorKind::StorageFull).into()),
        }
    }

    fn take_bodies(&mut self, owner: Owner, bodies: &[(u64, Bytes)]) -> Result<(), ReceivingError> {
        let most = u64::from(self.journal.engine().sizes.file);
        if self.segment.as_ref().is_some_and(|segment| segment.references >= LISTED || u64::from(segment.at) >= most) {
            self.finish_segment()?;
        }
        let segment = match self.segment.take() {
            Some(segment) => segment,
            None => Segment::begin(self.log()?.1)?,
        };
        self.segment.insert(segment).add(owner, bodies)?;
        Ok(())
    }

    fn finish_segment(&mut self) -> Result<(), ReceivingError> {
        let Some(segment) = self.segment.take() else { return Ok(()) };
        segment.finish(self.log()?.1)?;
        Ok(())
    }
}

/// The segment that is being written.
struct Segment {
    number: u32,
    incarnation: u64,
    file: Arc<dyn DiskFile>,
    /// Where the next body goes.
    at: u32,
    pages: BTreeMap<(Owner, u64), Vec<Item>>,
    references: u64,
}

impl Segment {
    fn begin(log: &Log) -> io::Result<Self> {
        let number = log.cold.next_number();
        let file = log.cold.disk.create(&segment_name(number))?;
        Ok(Self { number, incarnation: log.incarnation, file, at: BLOCK, pages: BTreeMap::new(), references: 0 })
    }

    fn add(&mut self, owner: Owner, bodies: &[(u64, Bytes)]) -> io::Result<()> {
        let full = || io::Error::from(io::ErrorKind::FileTooLarge);
        let (start, mut out) = (self.at, Vec::new());
        let sums = Checksums::new(self.incarnation, self.number);
        for (seq, body) in bodies {
            let length = u32::try_from(body.len()).map_err(|_| full())?;
            let offset = self.at;
            self.at =
                (BODY_HEAD as u32).checked_add(length).and_then(|all| offset.checked_add(all)).ok_or_else(full)?;
            out.extend_from_slice(&body_head(length, sums.body(offset, body)));
            out.extend_from_slice(body);
            let item = Item { seq: (seq % PAGE) as u16, source: 0, offset, length };
            self.pages.entry((owner, seq / PAGE)).or_default().push(item);
            self.references += 1;
        }
        self.file.write_all_at(&out, start.into())
    }

    /// Writes header and index. The index names the segment itself as what it replaces: nothing
    /// else has these bodies.
    fn finish(self, log: &Log) -> io::Result<()> {
        let Self { number, incarnation, file, at, pages, .. } = self;
        write_header(&*file, incarnation, number, at)?;
        let mut plan = Plan::new(vec![number]);
        plan.bytes = u64::from(at - BLOCK);
        plan.pages = pages
            .into_iter()
            .map(|((owner, page), mut items)| {
                items.sort_unstable_by_key(|item| item.seq);
                PagePlan { owner, page, items, block: 0 }
            })
            .collect();
        let index = log.cold.disk.create(&index_name(number))?;
        let mut writer = IndexWriter::new(index, incarnation, &mut plan, number, SegmentFile::Own, at)?;
        while !writer.step(&plan)? {}
        writer.write_directory(&plan)?;
        log.cold.disk.sync_directory()?;
        writer.commit().map(drop)
    }
}

/// Removes what an earlier attempt has left.
fn clear(disk: &dyn Disk) -> Result<(), ReceivingError> {
    let _lock = disk.lock()?.ok_or(ReceivingError::Open(OpenError::Locked))?;
    let names = disk.list()?;
    if names.iter().any(|name| name == MARKER) {
        match directory::read_marker(disk, &names) {
            // The last thing that was written was this, and it was cut short.
            Err(OpenError::Damaged { .. }) if names.iter().any(|name| name == UNFINISHED) => {}
            Ok(Marker::Missing) => {}
            Ok(Marker::Found { .. }) | Err(_) => return Err(ReceivingError::Taken),
        }
    } else if let Some(foreign) = names.iter().find(|name| !is_ours(name)) {
        return Err(ReceivingError::Open(OpenError::Foreign(vec![foreign.clone()])));
    }
    let left = names.iter().filter(|name| !HARMLESS.contains(&name.as_str()) && *name != UNFINISHED);
    left.into_iter().try_for_each(|name| disk.remove(name))?;
    disk.sync_directory()?;
    if names.iter().any(|name| name == UNFINISHED) {
        disk.remove(UNFINISHED)?;
        disk.sync_directory()?;
    }
    Ok(())
}

/// Whether a file may be of an earlier attempt.
fn is_ours(name: &str) -> bool {
    name.contains('/') || name == UNFINISHED || HARMLESS.contains(&name)
}

/// A directory whose marker has another name, so that nothing takes it for one of a journal.
struct Hidden(Arc<dyn Disk>);

/// The name on the disk.
fn hidden(name: &str) -> &str {
    if name == MARKER { UNFINISHED } else { name }
}

impl Disk for Hidden {
    fn lock(&self) -> io::Result<Option<Lock>> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let shown = |name: String| if name == UNFINISHED { MARKER.to_owned() } else { name };
        Ok(self.0.list()?.into_iter().map(shown).collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open(hidden(name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.create(hidden(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(hidden(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn free(&self) -> io::Result<u64> {
        self.0.free()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}
