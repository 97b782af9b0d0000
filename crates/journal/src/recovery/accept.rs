//! Ends a damaged log at its last sound point, because an operator who named the damage asked for
//! it.
//!
//! Invariants: nothing happens unless the damage that stops the start is in the file that was
//! named, and the log is whole before it. What is left out is gone for good when this returns:
//! later batches would prove the damage again.

use super::cold;
use super::directory;
use super::scan::{End, Scan};
use super::{each_record, remove_slots};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::wal::batch::BatchHeader;
use crate::wal::file::Shelf;

/// How much is zeroed with one write.
const ZEROS: usize = 1 << 20;

/// What was left out of a damaged log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The file in which the log ends now, and the offset in it.
    pub end: (String, u64),
    /// The sequence of the last batch that is kept.
    pub last_sequence: u64,
    /// Whole batches behind the damage that are gone with it.
    pub batches: u64,
    /// The sequence of the last of them; that of the last batch kept if there is none.
    pub last_left_out: u64,
}

/// Ends the log on `disk` before its first damage, if that is in the file called `named`. `None` if
/// the log is not damaged. Everything after that point is removed, also what is whole.
///
/// # Errors
/// The damage itself, if it is in another file, or if the log can't end before it, since files that
/// it needed then have been used again; else as opening.
pub fn accept_damage(disk: &dyn Disk, named: &str) -> Result<Option<LeftOut>, OpenError> {
    let _lock = disk.lock().map_err(OpenError::io("locking the data directory"))?.ok_or(OpenError::Locked)?;
    let names = disk.list().map_err(OpenError::io("listing the data directory"))?;
    let marker = directory::read_marker(disk, &names)?;
    let Some(incarnation) = marker.incarnation() else { return Ok(None) };
    let mut segments = cold::read_indexes(disk, &names, marker)?;
    let slots = directory::open_files(disk, &names, marker, &segments)?;
    let scan = Scan::new(incarnation, slots.files, slots.broken)?;
    let mut sound =
        |at: usize, header: &BatchHeader, records: &[u8]| each_record(&scan.files[at], header, records, &mut |_, _| {});
    let error = match scan.find_log(&mut sound) {
        Ok(_) => return Ok(None),
        Err(error) => error,
    };
    if !matches!(&error, OpenError::Damaged { file, .. } if file == named) {
        return Err(error);
    }
    let Some((_, needed)) = scan.last_used()? else { return Err(error) };
    // A batch whose checksums are right and whose records make no sense was written so: cutting
    // would not help.
    let Ok(end) = scan.walk(End::before(needed), &mut sound) else { return Err(error) };
    let begins = scan.files[..=end.index].iter().any(|file| file.generation == end.oldest);
    let Some(next) = end.sequence.filter(|_| begins) else { return Err(too_early(error)) };
    segments.settle(end.oldest);
    let (batches, last_left_out) = count_behind(&scan, &end)?;
    let left_out = LeftOut {
        end: (scan.files[end.index].name(), u64::from(end.offset)),
        last_sequence: next - 1,
        batches,
        last_left_out: last_left_out.max(next - 1),
    };
    cut(disk, scan, &end, &segments)?;
    Ok(Some(left_out))
}

/// Why the log can't end before its damage.
fn too_early(error: OpenError) -> OpenError {
    match error {
        OpenError::Damaged { file, offset, what } => {
            let what =
                format!("{what}; the log can't be ended before that, since it needs files which have been used again");
            OpenError::Damaged { file, offset, what }
        }
        other => other,
    }
}

/// How many whole batches lie behind the end, and the sequence of the last.
fn count_behind(scan: &Scan, end: &End) -> Result<(u64, u64), OpenError> {
    let (mut batches, mut last) = (0, 0);
    scan.next_header(end, &mut |_, header| {
        if Some(header.sequence) >= end.sequence {
            batches += 1;
            last = last.max(header.sequence);
        }
        false
    })?;
    Ok((batches, last))
}

/// Overwrites what follows the end in its file, and removes all files behind it, the last one
/// first.
fn cut(disk: &dyn Disk, scan: Scan, end: &End, segments: &cold::Segments) -> Result<(), OpenError> {
    let file = &scan.files[end.index];
    let zero = || {
        let zeros = vec![0; ZEROS];
        let mut at = end.offset;
        while at < file.length {
            let count = ZEROS.min((file.length - at) as usize);
            file.handle.write_all_at(&zeros[..count], u64::from(at))?;
            at += count as u32;
        }
        file.handle.sync_data()
    };
    zero().map_err(OpenError::io(format!("ending the log in {}", file.name())))?;
    let behind: Vec<u32> = scan.files[end.index + 1..].iter().map(|file| file.number).collect();
    let broken = scan.broken.iter().map(|file| file.number);
    let broken: Vec<u32> = broken.filter(|number| !segments.slots().any(|slot| slot == *number)).collect();
    // Closed first: Windows removes no open file.
    drop(scan);
    let mut shelf = Shelf::default();
    for number in behind.iter().rev() {
        remove_slots(disk, &[*number], &mut shelf)?;
    }
    remove_slots(disk, &broken, &mut shelf)
}
