//! Recovery: opens the directory, finds what is whole, tells a torn tail from damage, replays, and
//! flushes what it keeps.
//!
//! Invariant: nothing on disk is changed before the whole log has been read and found good. A batch
//! that a later batch proves to have been flushed is either replayed or stops the start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::Address;
use crate::cold::Cold;
use crate::cold::count::Counts;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::file_header::write_header;
use crate::group::Group;
use crate::held::{Held, HeldGroups};
use crate::layout::{FORMAT, is_spilled_name, slot_name};
use crate::log::{LogEnd, LogId};
use crate::options::{BLOCK, Options, Sizes};
use crate::progress::Progress;
use crate::record::{self, Kind, Naming, Record};
use crate::replay::Replay;
use crate::wal::batch::{BatchHeader, BatchKind, HEADER, Link};
use crate::wal::entries::Entries;
use crate::wal::file::{FREE_SLOTS, Ring, Shelf, Slot};
use crate::wal::identity::{Advance, Identity};
use crate::wal::table::{LogFile, Table};

pub(crate) mod accept;
pub(crate) mod cold;
pub(crate) mod directory;
pub(crate) mod scan;

use cold::Segments;
use directory::Marker;
use scan::{Cut, End, FoundLog, Scan, ScanFile, Spare};

/// What recovery hands to the running journal.
pub(crate) struct Recovered {
    pub(crate) sizes: Sizes,
    pub(crate) incarnation: u64,
    pub(crate) table: Table,
    /// The segments, with nothing counted yet.
    pub(crate) segments: Counts,
    pub(crate) cold: Cold,
    pub(crate) ring: Ring,
    /// Where in the head the next batch goes.
    pub(crate) offset: u32,
    pub(crate) next_sequence: u64,
    /// The header checksum of the last batch.
    pub(crate) previous: Link,
    /// The term that begins.
    pub(crate) term: u64,
    pub(crate) logs: RecoveredLogs,
    /// The first generation in this version's format, if the log has older ones.
    pub(crate) current_from: u32,
    /// What was cut off behind the end.
    pub(crate) cut: Option<Cut>,
    /// Files of what ended with an earlier process.
    pub(crate) leftover: Vec<String>,
}

/// What recovery knows of the logs.
pub(crate) struct RecoveredLogs {
    /// Where each ends.
    pub(crate) ends: BTreeMap<LogId, LogEnd>,
    /// Where the entries of each lie.
    pub(crate) entries: BTreeMap<LogId, Entries>,
    /// Groups of the last term of each that have not ended. A journal that follows may still be
    /// sent their ends.
    pub(crate) unfinished: HeldGroups,
}

/// What the first pass over the log learns: which groups are whole.
#[derive(Default)]
pub(crate) struct GroupEnds {
    /// With the last file that has an end of them.
    pub(crate) ended: HashMap<GroupName, usize>,
}

/// What a group is called: the log of its batches, none where they restate; their term; its number.
/// Two terms of one log, and two logs that came from two journals, may use a number each. In format
/// 1 all are of term 0, and a number is used again once nothing in the log has it.
pub(crate) type GroupName = (Option<LogId>, u64, Group);

/// What a group is called that a batch has records of.
pub(crate) fn name_of(header: &BatchHeader, group: Group) -> GroupName {
    let log = header.identity.map_or(LogId::SYSTEM, |identity| identity.end.log);
    ((header.kind == BatchKind::News).then_some(log), header.term(), group)
}

/// What the second pass gathers besides replaying.
#[derive(Default)]
struct Gathered {
    files: Vec<LogFile>,
    entries: EntryMap,
    /// The groups that have not ended.
    unfinished: HeldGroups,
    /// The batches at the end that no later one proves flushed.
    tail: VecDeque<Unproven>,
}

/// A batch that no later one proves flushed.
struct Unproven {
    /// The index of its file.
    at: usize,
    header: BatchHeader,
}

/// Opens or makes the journal on `disk`, whose lock is held.
pub(crate) fn recover(disk: Arc<dyn Disk>, options: &Options, replay: &mut dyn Replay) -> Result<Recovered, OpenError> {
    let names = disk.list().map_err(OpenError::io("listing the data directory"))?;
    let marker = directory::read_marker(&*disk, &names)?;
    let mut segments = cold::read_indexes(&*disk, &names, marker)?;
    let slots = directory::open_files(&*disk, &names, marker, &segments)?;
    let incarnation = marker.incarnation().unwrap_or(options.incarnation);
    let scan = Scan::new(incarnation, slots.files, slots.broken)?;
    options.progress.begin(scan.files.len());
    let mut groups = GroupEnds::default();
    let FoundLog { start, end, cut } = scan.find_log(&mut |at, header, records| {
        options.progress.reached(at);
        each_record(&scan.files[at], header, records, &mut |_, record| groups.note(at, header, &record))
    })?;
    // The walk may have begun in files that are older than the log.
    groups.ended.retain(|_, at| *at >= start);
    let mut older = slots.spare;
    older.extend(scan.files[..start].iter().map(ScanFile::spare));
    choose_segments(&mut segments, &*disk, &scan, start, &older)?;
    segments.deliver(replay);
    let Gathered { files: log_files, entries, mut unfinished, tail } =
        replay_all(&scan, start, &groups, (&options.progress, replay))?;
    options.progress.end();
    let logs = logs_of(&end);
    unfinished.retain_last(|log| logs.get(&log).map(|end| end.term));
    // The log is good; from here on the disk is changed.
    match marker {
        Marker::Missing => directory::write_marker(&*disk, incarnation)?,
        Marker::Found { format, .. } if format < FORMAT => directory::raise_marker(&*disk, incarnation)?,
        Marker::Found { .. } => {}
    }
    segments.tidy(&*disk, incarnation)?;
    rewrite_tail(&scan, start, &tail)?;
    let old_head = raise_head(&scan, &end)?;
    let free = disk.free().map_err(OpenError::io("asking for the free space of the data directory"))?;
    let leftover: Vec<String> = names.into_iter().filter(|name| is_spilled_name(name)).collect();
    let ours = slots.used + segments.used + length_of(&*disk, &leftover);
    let sizes = Sizes::new(options, free.saturating_add(ours));
    let (shelf, ready) = shelve(&*disk, scan, start, end.index, sizes, (&older, &slots.short), &segments)?;
    let ring = Ring::new(Arc::clone(&disk), incarnation, sizes, shelf, ready);
    let mut table = match make_table(log_files) {
        Some(table) => table,
        None => first_file(&ring, incarnation, sizes)?,
    };
    let offset = begin_in_head(&mut table, &end, sizes, old_head);
    let current_from = if old_head == Head::Kept { 0 } else { table.head_generation() };
    Ok(Recovered {
        sizes,
        incarnation,
        table,
        segments: segments.counts(),
        cold: Cold::new(disk, incarnation, segments.headers(), segments.next),
        ring,
        offset,
        next_sequence: end.sequence.unwrap_or(1),
        previous: end.previous,
        term: end.term.saturating_add(1),
        logs: RecoveredLogs { ends: logs, entries: entries.0, unfinished },
        current_from,
        cut,
        leftover,
    })
}

/// Up to where each log goes. What a log of format 1 has is as one entry of the system's log. That
/// can't be sent, and so no journal can follow from the start on, where it would lack it.
fn logs_of(end: &End) -> BTreeMap<LogId, LogEnd> {
    let mut logs = end.logs.clone();
    if logs.is_empty() && end.sequence.is_some() {
        logs.insert(LogId::SYSTEM, LogEnd { index: 1, ..LogEnd::before(LogId::SYSTEM, 0) });
    }
    logs
}

/// The bytes that these files take, which will be free again soon.
fn length_of(disk: &dyn Disk, names: &[String]) -> u64 {
    let length = |name: &String| disk.open(name).and_then(|file| file.length()).unwrap_or(0);
    names.iter().map(length).sum()
}

/// With the log beginning at file `start`, sees which segments count, and which of them are damaged
/// or missing.
fn choose_segments(
    segments: &mut Segments,
    disk: &dyn Disk,
    scan: &Scan,
    start: usize,
    older: &[Spare],
) -> Result<(), OpenError> {
    let Some(first) = scan.files.get(start) else {
        return if segments.is_empty() {
            Ok(())
        } else {
            Err(OpenError::damaged("wal", 0, "there are segments, but the files of the log are missing"))
        };
    };
    segments.settle(first.generation);
    segments.check(disk, scan.incarnation, older)
}

/// Replays the log from file `start`, and gathers what its files hold.
fn replay_all(
    scan: &Scan,
    start: usize,
    groups: &GroupEnds,
    (progress, replay): (&Progress, &mut dyn Replay),
) -> Result<Gathered, OpenError> {
    let mut gathered = Gathered::default();
    let end = scan.walk(End::before(start), &mut |at, header, records| {
        progress.reached(scan.files.len() + at);
        let oldest = gathered.enter(&scan.files[at]);
        gathered.entries.note(header);
        each_record(&scan.files[at], header, records, &mut |_, record| {
            let bodies = gathered.entries.bodies(&record, header, oldest);
            gathered.note(&record, &bodies);
            gathered.keep_unfinished(header, groups, &record, &bodies);
            deliver(&record, (header, groups), &bodies, replay);
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

/// Where the entries of the logs lie, as far as they were read.
#[derive(Default)]
pub(crate) struct EntryMap(BTreeMap<LogId, Entries>);

impl EntryMap {
    /// Notes where a batch lies.
    pub(crate) fn note(&mut self, header: &BatchHeader) {
        if let Some(Identity { end, .. }) = header.identity.filter(|_| header.advance() == Advance::Yes) {
            self.0.entry(end.log).or_default().note(end.index, (header.generation, header.offset));
        }
    }

    /// The bodies that a record of a batch references; none in place of each that is not in the log
    /// any more, which begins with file `oldest`.
    pub(crate) fn bodies(&self, record: &Record<'_>, header: &BatchHeader, oldest: u32) -> Vec<Option<Address>> {
        let Kind::Reference { bodies, naming, .. } = record.kind else { return Vec::new() };
        let pairs = record::pairs(bodies);
        match (naming, header.identity) {
            (Naming::Place, _) => {
                pairs.map(|(file, offset)| (file >= oldest).then_some(Address { file, offset })).collect()
            }
            (Naming::Back, Some(Identity { end, .. })) => {
                let entries = self.0.get(&end.log);
                pairs.map(|name| entries.and_then(|entries| entries.find(end.index, name))).collect()
            }
            (Naming::Back, None) => vec![None; pairs.len()],
        }
    }
}

impl GroupEnds {
    /// Notes a record of a batch in file `at`.
    pub(crate) fn note(&mut self, at: usize, header: &BatchHeader, record: &Record<'_>) {
        if let Kind::GroupEnd { group } = record.kind {
            self.ended.insert(name_of(header, group), at);
        }
    }

    /// Whether a record of a batch counts: it is in no group, or in one that ended.
    pub(crate) fn stands(&self, header: &BatchHeader, record: &Record<'_>) -> bool {
        record.group.is_none_or(|group| self.ended.contains_key(&name_of(header, group)))
    }
}

impl Gathered {
    /// Enters `file`, which is the last entered or the next. Gives the oldest generation.
    fn enter(&mut self, file: &ScanFile) -> u32 {
        if self.files.last().is_none_or(|last| last.generation != file.generation) {
            self.files.push(LogFile::new(file.generation, file.length));
        }
        self.files.first().map_or(file.generation, |first| first.generation)
    }

    /// Notes what a record means for the last file entered, and for those that its bodies lie in.
    fn note(&mut self, record: &Record<'_>, bodies: &[Option<Address>]) {
        let Some(last) = self.files.last_mut() else { return };
        if let Kind::Body { bytes, .. } = record.kind {
            last.note_body(bytes.len() as u64);
        }
        let Some(owner) = record.kind.owner() else { return };
        last.touch(owner);
        if !bodies.is_empty() {
            let first = self.files.first().map_or(0, |first| first.generation);
            let files = bodies.iter().flatten().filter_map(|body| body.file.checked_sub(first));
            files.for_each(|at| self.files.get_mut(at as usize).into_iter().for_each(|file| file.touch(owner)));
        }
    }

    /// Keeps a record of a group that has not ended.
    fn keep_unfinished(
        &mut self,
        header: &BatchHeader,
        groups: &GroupEnds,
        record: &Record<'_>,
        bodies: &[Option<Address>],
    ) {
        let Some(group) = record.group.filter(|_| !groups.stands(header, record)) else { return };
        if let (Some(log), term, group) = name_of(header, group) {
            let held = Held::new(record, bodies.iter().copied().flatten().collect());
            self.unfinished.add((log, term, group), held, header.generation);
        }
    }

    fn note_tail(&mut self, at: usize, header: &BatchHeader) {
        while self.tail.front().is_some_and(|batch| batch.header.sequence <= header.durable) {
            self.tail.pop_front();
        }
        self.tail.push_back(Unproven { at, header: *header });
    }
}

/// Gives each record of a batch to `visit`, with its offset in the file.
pub(crate) fn each_record(
    file: &ScanFile,
    header: &BatchHeader,
    records: &[u8],
    visit: &mut dyn FnMut(u32, Record<'_>),
) -> Result<(), OpenError> {
    let mut rest = records;
    for _ in 0..header.records {
        let at = HEADER + records.len() - rest.len();
        let offset = u64::from(header.offset) + at as u64;
        let (record, next) = record::decode(rest).map_err(|what| OpenError::damaged(&file.name(), offset, what))?;
        visit(header.offset + at as u32, record);
        rest = next;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(OpenError::damaged(&file.name(), u64::from(header.offset), "a batch has more bytes than its records"))
}

/// Gives one record of a batch to `replay`, unless its group never ended. `bodies` are those that
/// it references.
pub(crate) fn deliver(
    record: &Record<'_>,
    (header, groups): (&BatchHeader, &GroupEnds),
    bodies: &[Option<Address>],
    replay: &mut dyn Replay,
) {
    let stands = groups.stands(header, record);
    match record.kind {
        Kind::Reference { owner, first_seq, .. } if !stands => replay.burnt(owner, first_seq, bodies.len() as u64),
        _ if !stands => {}
        Kind::Reference { owner, first_seq, mark, .. } => {
            let mut first_seq = first_seq;
            for run in bodies.chunk_by(|a, b| a.is_some() == b.is_some()) {
                let there: Vec<Address> = run.iter().copied().flatten().collect();
                replay.reference(owner, first_seq, mark, &there);
                // What was alive of the bodies that have left the log is listed in a chunk.
                if there.is_empty() {
                    replay.burnt(owner, first_seq, run.len() as u64);
                }
                first_seq += run.len() as u64;
            }
        }
        Kind::Settled { owner, reason, runs } => {
            let runs: Vec<(u64, u64)> = record::runs(runs).collect();
            replay.settled(owner, reason, &runs);
        }
        Kind::Fact { owner, kind, bytes } => replay.fact(owner, kind, bytes),
        Kind::Dropped { owner } => replay.dropped(owner),
        Kind::Body { .. } | Kind::GroupEnd { .. } | Kind::LogEnd { .. } => {}
    }
}

/// Writes the batches that are not proven flushed again, byte for byte, and flushes every file of
/// the log. After a failed flush the system may show bytes that never reached the disk.
fn rewrite_tail(scan: &Scan, start: usize, tail: &VecDeque<Unproven>) -> Result<(), OpenError> {
    for Unproven { at, header } in tail {
        let file = &scan.files[*at];
        // The padding is made again: the tail may have been torn in it.
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

/// Sorts the files on disk: those of the log, those readied for it, adopted ones, free ones; what
/// fits nowhere is removed. Gives the highest readied generation too.
fn shelve(
    disk: &dyn Disk,
    scan: Scan,
    start: usize,
    head: usize,
    sizes: Sizes,
    (older, short): (&[Spare], &[Spare]),
    segments: &Segments,
) -> Result<(Shelf, u32), OpenError> {
    let mut shelf = Shelf::default();
    let mut ready = scan.files.get(head).map_or(0, |file| file.generation);
    // Into numbers, so that all are closed before they are removed: Windows removes no open file.
    let mut unfit: Vec<u32> = scan.broken.into_iter().map(|file| file.number).collect();
    unfit.extend(short.iter().filter(|file| !segments.adopts(file.generation, file.number)).map(|file| file.number));
    let mut ahead = Vec::new();
    // What is left of a damaged segment stays, and where its file is missing nothing else may take
    // its place.
    shelf.numbers.extend(segments.slots().chain(short.iter().map(|file| file.number)));
    if segments.misses_slots() {
        shelf.numbers.extend(unfit.drain(..));
    }
    unfit.retain(|number| !segments.slots().any(|slot| slot == *number));
    for (at, file) in scan.files.into_iter().enumerate().skip(start) {
        shelf.numbers.insert(file.number);
        let slot = Slot { number: file.number, length: file.length, handle: file.handle };
        if at <= head {
            shelf.used.insert(file.generation, slot);
        } else if slot.length == sizes.file && file.generation == ready + 1 {
            // The system may show a header that the disk does not have, and the next file would
            // then stand behind a gap.
            let (generation, length) = (file.generation, slot.length);
            write_header(&*slot.handle, scan.incarnation, generation, length)
                .map_err(OpenError::io(format!("writing the header of {} again", slot_name(slot.number))))?;
            ready += 1;
            shelf.used.insert(file.generation, slot);
        } else {
            ahead.push(slot.number);
        }
    }
    for Spare { number, generation, length } in older.iter().copied() {
        shelf.numbers.insert(number);
        if segments.adopts(generation, number) {
            continue;
        }
        if length == sizes.file && shelf.free.len() < FREE_SLOTS {
            let name = slot_name(number);
            let handle = disk.open(&name).map_err(OpenError::io(format!("opening {name}")))?;
            shelf.free.push_back(Slot { number, length, handle });
        } else {
            unfit.push(number);
        }
    }
    // The last one first and each durably: a file may never be missing before one that was readied
    // after it.
    for number in ahead.iter().rev() {
        remove_slots(disk, &[*number], &mut shelf)?;
    }
    remove_slots(disk, &unfit, &mut shelf)?;
    Ok((shelf, ready))
}

/// Removes the files in these slots, durably.
pub(crate) fn remove_slots(disk: &dyn Disk, numbers: &[u32], shelf: &mut Shelf) -> Result<(), OpenError> {
    for number in numbers {
        let name = slot_name(*number);
        disk.remove(&name).map_err(OpenError::io(format!("removing {name}, which is not part of the log")))?;
        shelf.numbers.remove(number);
    }
    if numbers.is_empty() {
        return Ok(());
    }
    disk.sync_directory().map_err(OpenError::io("flushing the data directory"))
}

/// The table of the files found, the last of which is the head; `None` for none.
fn make_table(mut files: Vec<LogFile>) -> Option<Table> {
    let head = files.pop()?;
    Some(Table::new(files, head))
}

/// Whether the log goes on in the file in which it ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Head {
    Kept,
    /// It is of an older format, and only the next may have batches of this one.
    Left,
}

/// Sees to it that the file that is written to next is of this version's format. An empty one is
/// made so.
fn raise_head(scan: &Scan, end: &End) -> Result<Head, OpenError> {
    let Some(file) = scan.files.get(end.index).filter(|file| file.format < FORMAT) else { return Ok(Head::Kept) };
    if end.sequence.is_some() {
        return Ok(Head::Left);
    }
    let raised = write_header(&*file.handle, scan.incarnation, file.generation, file.length);
    raised.map_err(OpenError::io(format!("writing the header of {} again", file.name())))?;
    Ok(Head::Kept)
}

/// Where in the head the next batch goes. After the ring has been made smaller, the head may be
/// longer than the files that are made now. It could fill the ring alone, and the head is never
/// recycled. So the log goes on in the next file, which the writer readies.
fn begin_in_head(table: &mut Table, end: &End, sizes: Sizes, head: Head) -> u32 {
    if head == Head::Kept && table.head_length() <= sizes.file {
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
