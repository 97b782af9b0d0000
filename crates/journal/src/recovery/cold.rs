//! The segments as recovery finds them: which count, which were superseded or are premature, and
//! which were never finished.
//!
//! Invariant: nothing is removed here; what is to go is listed, and goes when the whole log has
//! been read and found good. Of the log only the newest file that an index replaces may still be
//! needed. Each index was written after the batch that took the file before out of the log had been
//! flushed.

use hashbrown::HashSet;

use super::directory::Marker;
use super::scan::Spare;
use crate::cold::count::{Count, Counts};
use crate::cold::index::{self, Directory, Front, HEADER, IndexHeader, SegmentFile};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::file_header::{FILE_HEADER, FileHeader};
use crate::layout::{COPIED, index_name, index_number, is_copied, segment_name, segment_number, slot_name};
use crate::reference::Chunk;
use crate::replay::Replay;

/// An index that is whole.
pub(crate) struct Found {
    pub(crate) header: IndexHeader,
    pub(crate) directory: Directory,
}

/// An index that was never finished, or one that lost its header.
struct Headless {
    number: u32,
    /// What it replaces, if all else of it is there.
    sources: Option<Vec<u32>>,
    header: LostHeader,
}

/// What is in place of a header.
#[derive(Copy, Clone, PartialEq, Eq)]
enum LostHeader {
    /// Nothing.
    Missing,
    /// Something that does not check.
    Damaged,
}

/// An index or a segment that is damaged, cut short or missing, and whose bodies nothing else has.
#[derive(Clone, Debug)]
pub(crate) struct LostSegment {
    /// The number of the segment.
    pub(crate) number: u32,
    /// The file that is damaged.
    pub(crate) name: String,
    /// Where in it.
    pub(crate) offset: u64,
    pub(crate) what: String,
}

impl LostSegment {
    fn new(number: u32, name: String, offset: u64, what: impl Into<String>) -> Self {
        Self { number, name, offset, what: what.into() }
    }
}

/// All that lies in the folder of the segments.
#[derive(Default)]
pub(crate) struct Segments {
    pub(crate) indexes: Vec<Found>,
    headless: Vec<Headless>,
    /// Indexes that can't be read; once it is settled which ones count, only those that are missed.
    pub(crate) lost: Vec<LostSegment>,
    /// Segments of which nothing can be read.
    unreadable: HashSet<u32>,
    /// Files that no longer count, or never did: indexes before segments.
    leftover: Vec<String>,
    /// The indexes for whose sake others no longer count.
    replacing: Vec<IndexHeader>,
    /// The numbers of the copied segments that have a file.
    files: HashSet<u32>,
    /// The number of the next copied segment, less the bit.
    pub(crate) next: u32,
    /// The bytes that the copied segments take.
    pub(crate) used: u64,
}

/// What is in the file of an index.
enum Reading {
    Whole(Found),
    Headless(Headless),
    Damaged(LostSegment),
}

/// Reads the indexes; `names` is everything in the directory.
pub(crate) fn read_indexes(disk: &dyn Disk, names: &[String], marker: Marker) -> Result<Segments, OpenError> {
    let Some(incarnation) = marker.incarnation() else { return Ok(Segments { next: 1, ..Segments::default() }) };
    let files: HashSet<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    let numbers = files.iter().copied().chain(names.iter().filter_map(|name| index_number(name)));
    let next = numbers.filter(|number| is_copied(*number)).max().map_or(1, |last| (last & !COPIED) + 1);
    let mut found = Segments { files, next, ..Segments::default() };
    for (name, number) in names.iter().filter_map(|name| index_number(name).map(|number| (name, number))) {
        match read_index(disk, name, number, incarnation)? {
            Reading::Whole(index) => found.indexes.push(index),
            Reading::Headless(index) => found.headless.push(index),
            Reading::Damaged(lost) => found.lost.push(lost),
        }
    }
    Ok(found)
}

/// Reads one index.
fn read_index(disk: &dyn Disk, name: &str, number: u32, incarnation: u64) -> Result<Reading, OpenError> {
    let reading = || OpenError::io(format!("reading {name}"));
    let damaged = |offset, what: &str| Ok(Reading::Damaged(LostSegment::new(number, name.to_owned(), offset, what)));
    let file = disk.open(name).map_err(reading())?;
    let mut sector = [0; HEADER];
    let length = file.length().map_err(reading())?.min(HEADER as u64) as usize;
    file.read_exact_at(&mut sector[..length], 0).map_err(reading())?;
    let headless = |header| {
        let sources = index::sources_of_headless(&*file, incarnation, number).map_err(reading())?;
        Ok(Reading::Headless(Headless { number, sources, header }))
    };
    let header = match IndexHeader::decode(&sector[..length], incarnation, number) {
        Front::Unfinished => return headless(LostHeader::Missing),
        // A write that took a part of it, before the rest was written, leaves that as well.
        Front::Damaged => return headless(LostHeader::Damaged),
        Front::Whole(header) => header,
        Front::Foreign(found) => return Err(OpenError::Format { file: name.to_owned(), found }),
        Front::Stranger => return damaged(0, "the index belongs to another journal"),
    };
    match header.read_directory(&*file, incarnation) {
        Ok(directory) => Ok(Reading::Whole(Found { header, directory })),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            damaged(header.directory_at().into(), &error.to_string())
        }
        Err(error) => Err(reading()(error)),
    }
}

impl Segments {
    /// Whether there is no index at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.headless.is_empty() && self.lost.is_empty()
    }

    /// The newest log file that an index replaces; the log does not begin before it. Zero if there
    /// is none.
    pub(crate) fn newest_source(&self) -> u32 {
        let sources = self.indexes.iter().flat_map(|index| &index.directory.sources);
        sources.copied().filter(|source| !is_copied(*source)).max().unwrap_or(0)
    }

    /// Whether there is an index of this number.
    pub(crate) fn is_of(&self, number: u32) -> bool {
        self.indexes.iter().any(|index| index.header.number == number)
            || self.headless.iter().any(|index| index.number == number)
            || self.lost.iter().any(|lost| lost.number == number)
    }

    /// Whether an index says that `generation` is a segment in this slot, or may have said so
    /// before it was damaged.
    pub(crate) fn adopts(&self, generation: u32, slot: u32) -> bool {
        self.lost.iter().any(|lost| lost.number == generation)
            || self
                .indexes
                .iter()
                .any(|index| index.header.number == generation && index.header.place == SegmentFile::Slot(slot))
    }

    /// With the log beginning at `oldest`, lists what does not count: indexes of files still in the
    /// log, those that were never finished, and segments that others replace.
    pub(crate) fn settle(&mut self, oldest: u32) {
        let in_log = |source: &u32| !is_copied(*source) && *source >= oldest;
        self.judge_headless(oldest);
        let (premature, kept): (Vec<Found>, Vec<Found>) =
            self.indexes.drain(..).partition(|index| index.directory.sources.iter().any(in_log));
        // An adopted segment names itself as what it replaces.
        let replaced: HashSet<u32> = kept
            .iter()
            .flat_map(|index| index.directory.sources.iter().filter(|source| **source != index.header.number))
            .copied()
            .collect();
        let (superseded, kept): (Vec<Found>, Vec<Found>) =
            kept.into_iter().partition(|index| replaced.contains(&index.header.number));
        self.indexes = kept;
        // What is damaged may be premature or superseded all the same.
        let (unmissed, lost): (Vec<LostSegment>, Vec<LostSegment>) =
            self.lost.drain(..).partition(|lost| in_log(&lost.number) || replaced.contains(&lost.number));
        self.lost = lost;
        let superseded = superseded.iter().map(|index| index.header.number);
        let unmissed = unmissed.iter().map(|lost| lost.number);
        let gone: HashSet<u32> = superseded.chain(unmissed).collect();
        let replacing =
            self.indexes.iter().filter(|index| index.directory.sources.iter().any(|source| gone.contains(source)));
        self.replacing = replacing.map(|index| index.header).collect();
        let gone = premature.iter().map(|index| index.header.number).chain(gone);
        self.leftover.extend(gone.map(index_name));
        let kept: HashSet<u32> = self.indexes.iter().map(|index| index.header.number).collect();
        let kept = |number: &u32| kept.contains(number) || self.lost.iter().any(|lost| lost.number == *number);
        let loose = self.files.iter().filter(|number| !kept(number)).map(|number| segment_name(*number));
        self.leftover.extend(loose);
    }

    /// An index without a whole header was never finished, unless what it replaces is gone already,
    /// or more was written after it. What a writing that was cut short has left is removed,
    /// durably, before the next one begins.
    fn judge_headless(&mut self, oldest: u32) {
        let headless = std::mem::take(&mut self.headless);
        let others: HashSet<u32> = headless.iter().map(|index| index.number).collect();
        for Headless { number, sources, header } in headless {
            let there = |source: &u32| {
                let has_index = self.indexes.iter().any(|index| index.header.number == *source)
                    || self.lost.iter().any(|lost| lost.number == *source)
                    || *source != number && others.contains(source);
                if is_copied(*source) { has_index } else { *source >= oldest || has_index }
            };
            // A header is written when all else of the index is on the disk.
            let whole = header == LostHeader::Missing || sources.is_some();
            let unfinished = match is_copied(number) {
                true => whole && (number & !COPIED) + 1 == self.next && sources.iter().flatten().all(there),
                false => number >= oldest,
            };
            if unfinished {
                self.leftover.push(index_name(number));
            } else {
                let what = match header {
                    LostHeader::Missing => "the index had been finished, and its header is gone",
                    LostHeader::Damaged => "the header of the index does not check",
                };
                self.lost.push(LostSegment::new(number, index_name(number), 0, what));
            }
        }
    }

    /// Checks that every segment has its file; lists those that have none as lost. `slots` are the
    /// log files that no longer belong to the log.
    pub(crate) fn check(&mut self, disk: &dyn Disk, incarnation: u64, slots: &[Spare]) -> Result<(), OpenError> {
        self.unreadable = self.lost.iter().map(|lost| lost.number).collect();
        for Found { header, .. } in &self.indexes {
            let (name, there) = match header.place {
                SegmentFile::Slot(slot) => {
                    let there = slots.iter().any(|spare| {
                        (spare.generation, spare.number, spare.length) == (header.number, slot, header.length)
                    });
                    (slot_name(slot), there)
                }
                SegmentFile::Own => {
                    self.used += u64::from(header.length);
                    let name = segment_name(header.number);
                    let there = self.files.contains(&header.number) && has_header(disk, &name, incarnation, header)?;
                    (name, there)
                }
            };
            if !there {
                let what = format!("the file of segment {:08x} is missing or its header is damaged", header.number);
                let foreign = slots.iter().any(|spare| header.place == SegmentFile::Slot(spare.number));
                if header.place != SegmentFile::Own && (foreign || disk.open(&name).is_err()) {
                    // Whatever takes the slot is not the segment.
                    self.unreadable.insert(header.number);
                }
                self.lost.push(LostSegment::new(header.number, name, 0, what));
            }
        }
        Ok(())
    }

    /// The slots of adopted segments, of those too whose file is damaged or missing: nothing else
    /// may take them.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.indexes.iter().filter_map(|index| match index.header.place {
            SegmentFile::Slot(slot) => Some(slot),
            SegmentFile::Own => None,
        })
    }

    /// Whether an index is lost of whose segment nothing is known but its generation.
    pub(crate) fn misses_slots(&self) -> bool {
        self.lost
            .iter()
            .any(|lost| !is_copied(lost.number) && !self.indexes.iter().any(|index| index.header.number == lost.number))
    }

    /// Gives the chunks to `replay`.
    pub(crate) fn deliver(&self, replay: &mut dyn Replay) {
        for lost in &self.lost {
            replay.lost(lost.number, &lost.name, &lost.what);
        }
        for Found { header, directory } in &self.indexes {
            for row in &directory.rows {
                let chunk = Chunk { segment: header.number, block: row.block, count: row.count };
                replay.cold(row.owner, row.page, row.bytes, chunk);
            }
        }
    }

    /// Removes what does not count, durably: the log is good, and the disk may be changed. Before
    /// that, the headers of indexes that replace segments are written and flushed again. The system
    /// may show a header that the disk does not have, and what it replaces must not go then.
    pub(crate) fn tidy(&self, disk: &dyn Disk, incarnation: u64) -> Result<(), OpenError> {
        for header in &self.replacing {
            let name = index_name(header.number);
            let again = || header.write(&*disk.open(&name)?, incarnation);
            again().map_err(OpenError::io(format!("writing the header of {name} again")))?;
        }
        for name in &self.leftover {
            disk.remove(name).map_err(OpenError::io(format!("removing {name}, which is not needed")))?;
        }
        if self.leftover.is_empty() {
            return Ok(());
        }
        disk.sync_directory().map_err(OpenError::io("flushing the data directory"))
    }

    /// The counts of the segments, none of which is referenced yet.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.segments.extend(self.indexes.iter().map(|Found { header, .. }| {
            let IndexHeader { number, length, bytes, references, .. } = *header;
            let unreadable = self.lost.iter().any(|lost| lost.number == number);
            (number, Count { live: 0, references, bytes, length, unreadable })
        }));
        counts
    }

    /// The headers of the segments that have a file of their own, whole or not.
    pub(crate) fn headers(&self) -> Vec<IndexHeader> {
        let headers = self.indexes.iter().map(|index| index.header);
        headers.filter(|header| !self.unreadable.contains(&header.number)).collect()
    }
}

/// Whether a file begins with the header of the segment.
fn has_header(disk: &dyn Disk, name: &str, incarnation: u64, segment: &IndexHeader) -> Result<bool, OpenError> {
    let reading = || OpenError::io(format!("reading {name}"));
    let file = disk.open(name).map_err(reading())?;
    let length = file.length().map_err(reading())?;
    let mut front = [0; FILE_HEADER];
    if length < u64::from(segment.length) || length < FILE_HEADER as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut front, 0).map_err(reading())?;
    let header = FileHeader::decode(&front);
    Ok(header.is_some_and(|header| header.generation == segment.number && header.incarnation == incarnation))
}
