//! The directory around the log: the marker that says it is a journal's, and the files with their headers.
//!
//! Invariant: a directory without a marker is used only if it is empty; the marker is durable before the first log
//! file is made.

use super::scan::{BrokenFile, ScanFile, Spare};
use super::{BLOCK, FORMAT, HARMLESS};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::wal::file::{FILE_HEADER, FileHeader, slot_number};

/// The file that marks a directory as a journal's.
const MARKER: &str = "FORMAT";
/// More than the longest marker.
const MARKER_LIMIT: usize = 256;

/// What the marker says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Marker {
    /// The directory is new, or its making was cut short before it had a log file.
    Missing,
    /// The directory holds a journal of this incarnation.
    Found(u64),
}

/// Reads the marker; `names` is everything in the directory.
pub(super) fn read_marker(disk: &dyn Disk, names: &[String]) -> Result<Marker, OpenError> {
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
        Some((FORMAT, incarnation)) => Ok(Marker::Found(incarnation)),
        Some((found, _)) => Err(OpenError::Format { file: MARKER.into(), found }),
        None if has_log => Err(OpenError::damaged(MARKER, 0, "it does not say which journal this is")),
        // Its writing was cut short: nothing was ever logged here.
        None => Ok(Marker::Missing),
    }
}

/// Writes the marker and makes it durable.
pub(super) fn write_marker(disk: &dyn Disk, incarnation: u64) -> Result<(), OpenError> {
    let write = || {
        let file = disk.create(MARKER)?;
        file.write_all_at(encode(FORMAT, incarnation).as_bytes(), 0)?;
        file.sync_data()?;
        disk.sync_directory()
    };
    write().map_err(OpenError::io("writing FORMAT"))
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
pub(super) struct Slots {
    /// Those with a good header.
    pub(super) files: Vec<ScanFile>,
    /// Those that are older than the log, and closed.
    pub(super) spare: Vec<Spare>,
    pub(super) broken: Vec<BrokenFile>,
    /// The bytes they all take.
    pub(super) used: u64,
}

/// Opens every log file and reads its header. The log is known not to begin before generation `newest_source`.
pub(super) fn open_files(
    disk: &dyn Disk,
    names: &[String],
    marker: Marker,
    newest_source: u32,
) -> Result<Slots, OpenError> {
    let mut slots = Slots::default();
    for name in names {
        let Some(number) = slot_number(name) else { continue };
        let handle = disk.open(name).map_err(OpenError::io(format!("opening {name}")))?;
        let mut block = [0; FILE_HEADER];
        let length = handle.length().map_err(OpenError::io(format!("opening {name}")))?;
        slots.used += length;
        if length >= u64::from(BLOCK) {
            handle.read_exact_at(&mut block, 0).map_err(OpenError::io(format!("reading {name}")))?;
        }
        match FileHeader::decode(&block) {
            None => slots.broken.push(BrokenFile { number, length, handle }),
            Some(header) if header.format != FORMAT => {
                return Err(OpenError::Format { file: name.clone(), found: header.format });
            }
            Some(header) if marker != Marker::Found(header.incarnation) => {
                return Err(OpenError::damaged(name, 0, "the file belongs to another journal"));
            }
            // It had its full length, durably, before it had a header.
            Some(header) if u64::from(header.length) > length => {
                let what = format!("the file ends here, and its header says {} bytes", header.length);
                return Err(OpenError::damaged(name, length, what));
            }
            // Not kept open: a backlog may have thousands.
            Some(FileHeader { generation, length, .. }) if generation < newest_source => {
                slots.spare.push(Spare { number, generation, length });
            }
            Some(FileHeader { generation, length, .. }) => {
                slots.files.push(ScanFile { number, generation, length, handle });
            }
        }
    }
    Ok(slots)
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
