//! Recovery: opens the directory, finds what is whole, tells a torn tail from damage, replays, and flushes what it
//! keeps.
//!
//! Invariant: nothing on disk is changed before the whole log has been read and found good; a batch that a later batch
//! proves to have been flushed is either replayed or stops the start.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::disk::{Disk, LOCK};
use crate::error::OpenError;
use crate::group::{Group, Groups};
use crate::options::{BLOCK, Options, Sizes};
use crate::record::{self, Kind, Record};
use crate::replay::Replay;
use crate::wal::batch::{HEADER, Header, Link};
use crate::wal::file::{Ring, Shelf, Slot, slot_name, write_header};
use crate::wal::table::{LogFile, Table};
use crate::{Address, FORMAT};

mod directory;
mod scan;

use directory::Marker;
use scan::{End, Scan, ScanFile};

/// What recovery hands to the running journal.
pub(crate) struct Recovered {
    pub(crate) sizes: Sizes,
    pub(crate) incarnation: u64,
    pub(crate) table: Table,
    pub(crate) ring: Ring,
    /// Where in the head the next batch goes.
    pub(crate) offset: u32,
    pub(crate) next_sequence: u64,
    /// The header checksum of the last batch.
    pub(crate) previous: Link,
    pub(crate) groups: Groups,
}

/// What the first pass over the log learns: which groups are whole.
#[derive(Default)]
struct GroupEnds {
    ended: HashSet<Group>,
    highest: u64,
}

/// What the second pass gathers besides replaying.
#[derive(Default)]
struct Gathered {
    files: Vec<LogFile>,
    /// The batches at the end that no later one proves flushed.
    tail: VecDeque<Unproven>,
}

/// A batch that no later one proves flushed.
struct Unproven {
    /// The index of its file.
    at: usize,
    header: Header,
}

/// Opens or makes the journal on `disk`, whose lock is held.
pub(crate) fn recover(disk: Arc<dyn Disk>, options: &Options, replay: &mut dyn Replay) -> Result<Recovered, OpenError> {
    let names = disk.list().map_err(OpenError::io("listing the data directory"))?;
    let marker = directory::read_marker(&*disk, &names)?;
    let (files, broken, used) = directory::open_files(&*disk, &names, marker)?;
    let free = disk.free().map_err(OpenError::io("asking for the free space of the data directory"))?;
    let sizes = Sizes::new(options, free.saturating_add(used));
    let incarnation = match marker {
        Marker::Found(incarnation) => incarnation,
        Marker::Missing => options.incarnation,
    };
    let scan = Scan::new(incarnation, files, broken)?;
    let mut groups = GroupEnds::default();
    let (start, end) = scan.find_log(&mut |at, header, records| {
        each_record(&scan.files[at], header, records, &mut |record| groups.note(&record))
    })?;
    let Gathered { files: log_files, tail } = replay_all(&scan, start, &groups.ended, replay)?;
    // The log is good; from here on the disk is changed.
    if marker == Marker::Missing {
        directory::write_marker(&*disk, incarnation)?;
    }
    rewrite_tail(&scan, start, &tail)?;
    let numbers = scan.files.iter().map(|file| file.number).chain(scan.broken.iter().map(|file| file.number)).collect();
    let shelf = Shelf { numbers, ..Shelf::default() };
    let (shelf, ready) = shelve(&*disk, scan, start, end.index, sizes, shelf)?;
    let ring = Ring::new(disk, incarnation, sizes.file, shelf, ready);
    let mut table = match make_table(log_files) {
        Some(table) => table,
        None => first_file(&ring, incarnation, sizes)?,
    };
    let offset = leave_large_head(&mut table, &end, sizes);
    let next_group = NonZeroU64::MIN.saturating_add(groups.highest);
    Ok(Recovered {
        sizes,
        incarnation,
        table,
        ring,
        offset,
        next_sequence: end.sequence.unwrap_or(1),
        previous: end.previous,
        groups: Groups::new(next_group),
    })
}

/// Replays the log from file `start`, and gathers what its files hold.
fn replay_all(
    scan: &Scan,
    start: usize,
    ended: &HashSet<Group>,
    replay: &mut dyn Replay,
) -> Result<Gathered, OpenError> {
    let mut gathered = Gathered::default();
    let end = scan.walk(start, &mut |at, header, records| {
        let log_file = gathered.enter(&scan.files[at]);
        each_record(&scan.files[at], header, records, &mut |record| {
            note(log_file, &record);
            deliver(&record, ended, replay);
        })?;
        gathered.note_tail(at, header);
        Ok(())
    })?;
    if let Some(head) = scan.files.get(end.index) {
        // A head that is still empty is part of the log too.
        gathered.enter(head);
    }
    Ok(gathered)
}

impl GroupEnds {
    fn note(&mut self, record: &Record<'_>) {
        let ends = match record.kind {
            Kind::GroupEnd { group } => Some(group),
            _ => None,
        };
        self.ended.extend(ends);
        let named = record.group.or(ends).map_or(0, Group::raw);
        self.highest = self.highest.max(named);
    }
}

impl Gathered {
    /// The table's entry for `file`, which is the last entered or the next.
    fn enter(&mut self, file: &ScanFile) -> &mut LogFile {
        if self.files.last().is_none_or(|last| last.generation != file.generation) {
            self.files.push(LogFile::new(file.generation, file.length));
        }
        let last = self.files.len() - 1;
        &mut self.files[last]
    }

    fn note_tail(&mut self, at: usize, header: &Header) {
        while self.tail.front().is_some_and(|batch| batch.header.sequence <= header.durable) {
            self.tail.pop_front();
        }
        self.tail.push_back(Unproven { at, header: *header });
    }
}

/// Gives each record of a batch to `visit`.
fn each_record(
    file: &ScanFile,
    header: &Header,
    records: &[u8],
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<(), OpenError> {
    let mut rest = records;
    for _ in 0..header.records {
        let at = HEADER + records.len() - rest.len();
        let offset = u64::from(header.offset) + at as u64;
        let (record, next) = record::decode(rest).map_err(|what| OpenError::damaged(&file.name(), offset, what))?;
        visit(record);
        rest = next;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(OpenError::damaged(&file.name(), u64::from(header.offset), "a batch has more bytes than its records"))
}

/// Notes in the table what a record means for its file.
fn note(file: &mut LogFile, record: &Record<'_>) {
    match record.kind.owner() {
        Some(owner) => file.touch(owner),
        None => {
            if let Kind::Body { bytes, .. } = record.kind {
                file.note_body(bytes.len() as u64);
            }
        }
    }
}

/// Gives one record to `replay`, unless its group never ended.
fn deliver(record: &Record<'_>, ended: &HashSet<Group>, replay: &mut dyn Replay) {
    let stands = record.group.is_none_or(|group| ended.contains(&group));
    match record.kind {
        Kind::Reference { owner, first_seq, bodies, .. } if !stands => {
            replay.burnt(owner, first_seq, record::addresses(bodies).len() as u64);
        }
        _ if !stands => {}
        Kind::Reference { owner, first_seq, mark, bodies } => {
            let bodies: Vec<Address> = record::addresses(bodies).collect();
            replay.reference(owner, first_seq, mark, &bodies);
        }
        Kind::Settled { owner, reason, runs } => {
            let runs: Vec<(u64, u64)> = record::runs(runs).collect();
            replay.settled(owner, reason, &runs);
        }
        Kind::Fact { owner, kind, bytes } => replay.fact(owner, kind, bytes),
        Kind::Dropped { owner } => replay.dropped(owner),
        Kind::Body { .. } | Kind::GroupEnd { .. } => {}
    }
}

/// Writes the batches again that are not proven flushed, byte for byte, and flushes every file of the log: after a
/// failed flush the system may show bytes that never reached the disk.
fn rewrite_tail(scan: &Scan, start: usize, tail: &VecDeque<Unproven>) -> Result<(), OpenError> {
    for Unproven { at, header } in tail {
        let file = &scan.files[*at];
        // The padding is made anew; it may be what the tail was torn in.
        let mut bytes = vec![0; header.footprint() as usize];
        let offset = u64::from(header.offset);
        file.handle
            .read_exact_at(&mut bytes[..HEADER + header.length as usize], offset)
            .and_then(|()| file.handle.write_all_at(&bytes, offset))
            .map_err(OpenError::io(format!("writing the end of {} again", file.name())))?;
    }
    for file in scan.files.iter().skip(start) {
        file.handle.sync_data().map_err(OpenError::io(format!("flushing {}", file.name())))?;
    }
    Ok(())
}

/// Sorts the files on disk: those of the log, those readied for it, free ones; what fits nowhere is removed. Gives the
/// highest readied generation too.
fn shelve(
    disk: &dyn Disk,
    scan: Scan,
    start: usize,
    head: usize,
    sizes: Sizes,
    mut shelf: Shelf,
) -> Result<(Shelf, u32), OpenError> {
    let head_generation = scan.files.get(head).map_or(0, |file| file.generation);
    let mut ready = head_generation;
    // Into numbers, so that all are closed before they are removed: Windows removes no open file.
    let mut unfit: Vec<u32> = scan.broken.into_iter().map(|file| file.number).collect();
    for (at, file) in scan.files.into_iter().enumerate() {
        let slot = Slot { number: file.number, length: file.length, handle: file.handle };
        let fits = slot.length == sizes.file;
        if at < start && fits {
            shelf.free.push_back(slot);
        } else if (start..=head).contains(&at) {
            shelf.used.insert(file.generation, slot);
        } else if at > head && fits && file.generation == ready + 1 {
            ready += 1;
            shelf.used.insert(file.generation, slot);
        } else {
            unfit.push(slot.number);
        }
    }
    for number in &unfit {
        let name = slot_name(*number);
        disk.remove(&name).map_err(OpenError::io(format!("removing {name}, which is not part of the log")))?;
        shelf.numbers.remove(number);
    }
    if !unfit.is_empty() {
        disk.sync_directory().map_err(OpenError::io("flushing the data directory"))?;
    }
    Ok((shelf, ready))
}

/// The table of the files found, the last of which is the head; `None` for none.
fn make_table(mut files: Vec<LogFile>) -> Option<Table> {
    let head = files.pop()?;
    Some(Table::new(files, head))
}

/// Where in the head the next batch goes. A head longer than the files that are made now, because the ring has been made
/// smaller, could fill the ring alone, and as the head it is never recycled: the log goes on in the next file, which the
/// writer readies.
fn leave_large_head(table: &mut Table, end: &End, sizes: Sizes) -> u32 {
    if table.head_length() <= sizes.file {
        return end.offset;
    }
    if end.sequence.is_none() {
        // The chain can't begin behind an empty file, so of this one only the start is used.
        table.head().length = sizes.file;
        return end.offset;
    }
    table.advance(sizes.file);
    BLOCK
}

/// Makes the very first file.
fn first_file(ring: &Ring, incarnation: u64, sizes: Sizes) -> Result<Table, OpenError> {
    let doing = "making the first log file";
    let slot = ring.create(sizes.first_file).map_err(OpenError::io(doing))?;
    write_header(&*slot.handle, incarnation, 1, slot.length).map_err(OpenError::io(doing))?;
    ring.adopt(1, slot);
    Ok(Table::new(Vec::new(), LogFile::new(1, sizes.first_file)))
}

/// Names that may lie in a data directory that has no journal yet.
const HARMLESS: [&str; 2] = [LOCK, "lost+found"];
