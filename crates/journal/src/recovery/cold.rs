//! The segments as recovery finds them: which count, which were superseded or are premature, and which were never finished.
//!
//! Invariant: nothing is removed here; what is to go is listed, and goes when the whole log has been read and found good.
//! Of the log only the newest file that an index replaces may still be needed: each index was written after the batch that
//! took the file before out of the log had been flushed.

use hashbrown::HashSet;

use super::directory::Marker;
use super::scan::Spare;
use crate::cold::count::{Count, Counts};
use crate::cold::index::{Directory, Front, HEADER, Header, Place};
use crate::cold::{COPIED, Chunk, index_name, index_number, is_copied, segment_name, segment_number};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::replay::Replay;
use crate::wal::file::{FILE_HEADER, FileHeader, slot_name};

/// An index that is whole.
struct Found {
    header: Header,
    directory: Directory,
}

/// All that lies in the folder of the segments.
pub(super) struct Segments {
    indexes: Vec<Found>,
    /// Files that no longer count, or never did: indexes before segments.
    leftover: Vec<String>,
    /// The indexes for whose sake others no longer count.
    replacing: Vec<Header>,
    /// The numbers of the copied segments that have a file.
    files: HashSet<u32>,
    /// The number of the next copied segment, less the bit.
    pub(super) next: u32,
    /// The bytes that the copied segments take.
    pub(super) used: u64,
}

/// Reads the indexes; `names` is everything in the directory.
pub(super) fn read_indexes(disk: &dyn Disk, names: &[String], marker: Marker) -> Result<Segments, OpenError> {
    let Marker::Found(incarnation) = marker else {
        return Ok(Segments {
            indexes: Vec::new(),
            leftover: Vec::new(),
            replacing: Vec::new(),
            files: HashSet::new(),
            next: 1,
            used: 0,
        });
    };
    let files: HashSet<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    let numbers = files.iter().copied().chain(names.iter().filter_map(|name| index_number(name)));
    let next = numbers.filter(|number| is_copied(*number)).max().map_or(1, |last| (last & !COPIED) + 1);
    let mut found = Segments { indexes: Vec::new(), leftover: Vec::new(), replacing: Vec::new(), files, next, used: 0 };
    for (name, number) in names.iter().filter_map(|name| index_number(name).map(|number| (name, number))) {
        match read_index(disk, name, number, incarnation)? {
            Some(index) => found.indexes.push(index),
            None => found.leftover.push(name.clone()),
        }
    }
    Ok(found)
}

/// Reads one index; `None` if it was never finished.
fn read_index(disk: &dyn Disk, name: &str, number: u32, incarnation: u64) -> Result<Option<Found>, OpenError> {
    let reading = || OpenError::io(format!("reading {name}"));
    let file = disk.open(name).map_err(reading())?;
    let mut sector = [0; HEADER];
    let length = file.length().map_err(reading())?.min(HEADER as u64) as usize;
    file.read_exact_at(&mut sector[..length], 0).map_err(reading())?;
    let header = match Header::decode(&sector[..length], incarnation, number) {
        Front::Unfinished => return Ok(None),
        Front::Whole(header) => header,
        Front::Foreign(found) => return Err(OpenError::Format { file: name.to_owned(), found }),
        Front::Stranger => return Err(OpenError::damaged(name, 0, "the index belongs to another journal")),
        Front::Damaged => return Err(OpenError::damaged(name, 0, "the header of the index does not check")),
    };
    match header.read_directory(&*file, incarnation) {
        Ok(directory) => Ok(Some(Found { header, directory })),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(OpenError::damaged(name, u64::from(header.directory_at()), error.to_string()))
        }
        Err(error) => Err(reading()(error)),
    }
}

impl Segments {
    /// The newest log file that an index replaces; the log does not begin before it. Zero if there is none.
    pub(super) fn newest_source(&self) -> u32 {
        let sources = self.indexes.iter().flat_map(|index| &index.directory.sources);
        sources.copied().filter(|source| !is_copied(*source)).max().unwrap_or(0)
    }

    /// Whether an index says that `generation` is a segment in this slot.
    pub(super) fn adopts(&self, generation: u32, slot: u32) -> bool {
        self.indexes.iter().any(|index| index.header.number == generation && index.header.place == Place::Slot(slot))
    }

    /// With the log beginning at `oldest`, lists what does not count: indexes of files still in the log, and segments that
    /// others replace.
    pub(super) fn settle(&mut self, oldest: u32) {
        let in_log = |source: &u32| !is_copied(*source) && *source >= oldest;
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
        let gone: HashSet<u32> = superseded.iter().map(|index| index.header.number).collect();
        let replacing =
            self.indexes.iter().filter(|index| index.directory.sources.iter().any(|source| gone.contains(source)));
        self.replacing = replacing.map(|index| index.header).collect();
        let gone = premature.iter().chain::<&Vec<Found>>(&superseded).map(|index| index_name(index.header.number));
        self.leftover.extend(gone);
        let kept: HashSet<u32> = self.indexes.iter().map(|index| index.header.number).collect();
        let loose = self.files.iter().filter(|number| !kept.contains(*number)).map(|number| segment_name(*number));
        self.leftover.extend(loose);
    }

    /// Checks that every segment has its file. `slots` are the log files that no longer belong to the log.
    pub(super) fn check(&mut self, disk: &dyn Disk, incarnation: u64, slots: &[Spare]) -> Result<(), OpenError> {
        for Found { header, .. } in &self.indexes {
            let (name, there) = match header.place {
                Place::Slot(slot) => {
                    let there = slots.iter().any(|spare| {
                        (spare.generation, spare.number, spare.length) == (header.number, slot, header.length)
                    });
                    (slot_name(slot), there)
                }
                Place::Own => {
                    self.used += u64::from(header.length);
                    let name = segment_name(header.number);
                    let there = self.files.contains(&header.number) && has_header(disk, &name, incarnation, header)?;
                    (name, there)
                }
            };
            if !there {
                let what = format!("the file of segment {:08x} is missing or its header is damaged", header.number);
                return Err(OpenError::damaged(&name, 0, what));
            }
        }
        Ok(())
    }

    /// Gives the chunks to `replay`.
    pub(super) fn deliver(&self, replay: &mut dyn Replay) {
        for Found { header, directory } in &self.indexes {
            for row in &directory.rows {
                let chunk = Chunk { segment: header.number, block: row.block, count: row.count };
                replay.cold(row.owner, row.page, row.bytes, chunk);
            }
        }
    }

    /// Removes what does not count, durably: the log is good, and the disk may be changed. The headers of indexes that replace
    /// segments are written and flushed again before: the system may show a header that the disk does not have, and what
    /// it replaces must not go then.
    pub(super) fn tidy(&self, disk: &dyn Disk, incarnation: u64) -> Result<(), OpenError> {
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
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.segments.extend(self.indexes.iter().map(|Found { header, .. }| {
            let Header { number, length, bytes, references, .. } = *header;
            (number, Count { live: 0, references, bytes, length, unreadable: false })
        }));
        counts
    }

    /// The headers of the segments.
    pub(super) fn headers(&self) -> Vec<Header> {
        self.indexes.iter().map(|index| index.header).collect()
    }
}

/// Whether a file begins with the header of the segment.
fn has_header(disk: &dyn Disk, name: &str, incarnation: u64, segment: &Header) -> Result<bool, OpenError> {
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
