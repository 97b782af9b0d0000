//! The directory around the log: the marker that says it is a journal's, and the files with their
//! headers.
//!
//! Invariant: a directory without a marker is used only if it is empty; the marker is durable
//! before the first log file is made.

use super::cold::Segments;
use super::scan::{BrokenFile, ScanFile, Spare};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::file_header::{FILE_HEADER, FileHeader};
use crate::layout::{FORMAT, HARMLESS, MARKER, is_read, slot_name, slot_number};
use crate::options::BLOCK;

/// More than the longest marker.
const MARKER_LIMIT: usize = 256;

/// What the marker says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    /// The directory is new, or its making was cut short before it had a log file.
    Missing,
    /// The directory holds a journal of this incarnation, last written in this format.
    Found {
        /// The journal's.
        incarnation: u64,
        /// An older one is raised once the log has been found good.
        format: u16,
    },
}

impl Marker {
    /// The incarnation of the journal that is there.
    pub(crate) fn incarnation(self) -> Option<u64> {
        match self {
            Self::Missing => None,
            Self::Found { incarnation, .. } => Some(incarnation),
        }
    }
}

/// Reads the marker; `names` is everything in the directory.
pub(crate) fn read_marker(disk: &dyn Disk, names: &[String]) -> Result<Marker, OpenError> {
    let has_log = names.iter().any(|name| slot_number(name).is_some());
    if !names.iter().any(|name| name == MARKER) {
        let foreign: Vec<_> = names.iter().filter(|name| !HARMLESS.contains(&name.as_str())).cloned().collect();
        return if foreign.is_empty() { Ok(Marker::Missing) } else { Err(OpenError::Foreign(foreign)) };
    }
    let file = disk.open(MARKER).map_err(OpenError::io("opening FORMAT"))?;
    let mut bytes = [0; MARKER_LIMIT];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64).map_err(OpenError::io("reading FORMAT"))? {
            0 => break,
            count => length += count,
        }
    }
    match decode(&bytes[..length]) {
        Some((format, incarnation)) if is_read(format) => Ok(Marker::Found { incarnation, format }),
        Some((found, _)) => Err(OpenError::Format { file: MARKER.into(), found }),
        None if has_log => Err(OpenError::damaged(MARKER, 0, "it does not say which journal this is")),
        // Its writing was cut short: nothing was ever logged here.
        None => Ok(Marker::Missing),
    }
}

/// Writes the marker and makes it durable.
pub(crate) fn write_marker(disk: &dyn Disk, incarnation: u64) -> Result<(), OpenError> {
    let write = || {
        let file = disk.create(MARKER)?;
        file.write_all_at(encode(FORMAT, incarnation).as_bytes(), 0)?;
        file.sync_data()?;
        disk.sync_directory()
    };
    write().map_err(OpenError::io("writing FORMAT"))
}

/// Says that from now on the journal is written in this version's format: an older version must not
/// open it any more. The text keeps its length and lies in one sector, which is written whole.
pub(crate) fn raise_marker(disk: &dyn Disk, incarnation: u64) -> Result<(), OpenError> {
    let file = disk.open(MARKER).map_err(OpenError::io("opening FORMAT"))?;
    let write = file.write_all_at(encode(FORMAT, incarnation).as_bytes(), 0).and_then(|()| file.sync_data());
    write.map_err(OpenError::io("writing FORMAT"))
}

fn encode(format: u16, incarnation: u64) -> String {
    let text = format!("hermod journal\nformat {format}\nincarnation {incarnation:016x}\n");
    let sum = crc_fast::crc32_iscsi(text.as_bytes());
    format!("{text}checksum {sum:08x}\n")
}

fn decode(bytes: &[u8]) -> Option<(u16, u64)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_prefix("hermod journal\nformat ")?.lines();
    let format = lines.next()?.parse().ok()?;
    let incarnation = u64::from_str_radix(lines.next()?.strip_prefix("incarnation ")?, 16).ok()?;
    (encode(format, incarnation) == text).then_some((format, incarnation))
}

/// The files in the slots.
#[derive(Default)]
pub(crate) struct Slots {
    /// Those with a good header.
    pub(crate) files: Vec<ScanFile>,
    /// Those that are older than the log, and closed.
    pub(crate) spare: Vec<Spare>,
    pub(crate) broken: Vec<BrokenFile>,
    /// Those that are older than the log, and cut short.
    pub(crate) short: Vec<Spare>,
    /// The bytes they all take.
    pub(crate) used: u64,
}

/// A log file, as its header has it.
pub(crate) enum Opening {
    File(ScanFile),
    Broken(BrokenFile),
    /// It ends before its length. A file has its full length, durably, before it has a header.
    Short(Spare, u64),
}

/// Opens every log file and reads its header.
pub(crate) fn open_files(
    disk: &dyn Disk,
    names: &[String],
    marker: Marker,
    segments: &Segments,
) -> Result<Slots, OpenError> {
    let mut slots = Slots::default();
    for (name, number) in names.iter().filter_map(|name| slot_number(name).map(|number| (name, number))) {
        let opening = open_file(disk, name, number, marker)?;
        slots.take(opening, segments)?;
    }
    Ok(slots)
}

impl Slots {
    /// Sorts in a file. The log is known not to begin before the newest file that an index names.
    pub(crate) fn take(&mut self, opening: Opening, segments: &Segments) -> Result<(), OpenError> {
        let newest_source = segments.newest_source();
        match opening {
            Opening::Short(file, _) if file.generation < newest_source || segments.is_of(file.generation) => {
                self.used += u64::from(file.length);
                self.short.push(file);
            }
            Opening::Short(file, length) => {
                let what = format!("the file ends here, and its header says {} bytes", file.length);
                return Err(OpenError::damaged(&slot_name(file.number), length, what));
            }
            Opening::Broken(file) => {
                self.used += file.length;
                self.broken.push(file);
            }
            Opening::File(file) => {
                let name = file.name();
                self.used += file.handle.length().map_err(OpenError::io(format!("opening {name}")))?;
                if file.generation < newest_source {
                    // Not kept open: a backlog may have thousands.
                    self.spare.push(file.spare());
                } else {
                    self.files.push(file);
                }
            }
        }
        Ok(())
    }
}

/// Opens the log file in slot `number` and reads its header.
pub(crate) fn open_file(disk: &dyn Disk, name: &str, number: u32, marker: Marker) -> Result<Opening, OpenError> {
    let handle = disk.open(name).map_err(OpenError::io(format!("opening {name}")))?;
    let mut block = [0; FILE_HEADER];
    let length = handle.length().map_err(OpenError::io(format!("opening {name}")))?;
    if length >= u64::from(BLOCK) {
        handle.read_exact_at(&mut block, 0).map_err(OpenError::io(format!("reading {name}")))?;
    }
    match FileHeader::decode(&block) {
        None => Ok(Opening::Broken(BrokenFile { number, length, handle })),
        Some(header) if !is_read(header.format) => {
            Err(OpenError::Format { file: name.to_owned(), found: header.format })
        }
        Some(header) if marker.incarnation() != Some(header.incarnation) => {
            Err(OpenError::damaged(name, 0, "the file belongs to another journal"))
        }
        Some(header) if u64::from(header.length) > length => {
            Ok(Opening::Short(Spare { number, generation: header.generation, length: header.length }, length))
        }
        Some(FileHeader { format, generation, length, .. }) => {
            Ok(Opening::File(ScanFile { number, format, generation, length, handle }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_comes_back_whole_or_not_at_all() {
        let text = encode(1, 0xabc);
        assert_eq!(decode(text.as_bytes()), Some((1, 0xabc)));
        assert_eq!(decode(encode(2, 7).as_bytes()), Some((2, 7)));
        for cut in 0..text.len() {
            assert_eq!(decode(&text.as_bytes()[..cut]), None, "cut at {cut}");
        }
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone().into_bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
    }
}
