//! The log: where it begins and ends, every batch of it, and what is left behind a damage.

use super::Verification;
use super::VerifiedFile;
use super::tally::Tally;
use crate::checksum::Checksums;
use crate::error::OpenError;
use crate::record::Kind;
use crate::recovery::scan::{End, FoundLog, Scan, Visit};
use crate::recovery::{EntryMap, GroupEnds, deliver, each_record};
use crate::wal::batch::BatchHeader;

/// The log among the files.
pub(super) struct Found {
    /// The index of its oldest file.
    pub(super) start: usize,
    groups: GroupEnds,
    /// Something of it is missing: what follows is read all the same.
    damaged: bool,
}

/// Finds the log as recovery does; what recovery would refuse is noted.
pub(super) fn find(scan: &Scan, found: &mut Verification) -> Result<Found, OpenError> {
    let mut groups = GroupEnds::default();
    let outcome = scan.find_log(&mut |at, header, records| {
        each_record(&scan.files[at], header, records, &mut |_, record| groups.note(at, header, &record))
    });
    match outcome {
        Ok(FoundLog { start, end, cut }) => {
            groups.ended.retain(|_, at| *at >= start);
            found.last_sequence = end.sequence.map_or(0, |next| next - 1);
            found.logs = end.logs.into_values().collect();
            found.torn_tail = cut;
            Ok(Found { start, groups, damaged: false })
        }
        Err(error @ OpenError::Damaged { .. }) => {
            found.note_error("wal", &error);
            let from = scan.last_used()?.map_or(0, |(_, needed)| needed);
            let (mut groups, mut oldest) = (GroupEnds::default(), 0);
            read_on(
                scan,
                from,
                &mut |at, header, records| {
                    oldest = header.oldest;
                    // What is malformed is noted when the records are read.
                    let _ = each_record(&scan.files[at], header, records, &mut |_, record| {
                        groups.note(at, header, &record);
                    });
                    Ok(())
                },
                &mut |_, _| {},
            )?;
            let start = scan.files.iter().position(|file| file.generation >= oldest).unwrap_or(from);
            Ok(Found { start, groups, damaged: true })
        }
        Err(error) => Err(error),
    }
}

/// Reads every batch of the log, checks the bodies in it, and replays it.
pub(super) fn read(scan: &Scan, log: &Found, tally: &mut Tally<'_>, found: &mut Verification) -> Result<(), OpenError> {
    let Some(first) = scan.files.get(log.start) else { return Ok(()) };
    let oldest = first.generation;
    let mut files: Vec<VerifiedFile> = Vec::new();
    let mut damages: Vec<(String, u64, String)> = Vec::new();
    let mut gaps = Vec::new();
    let mut last = 0;
    let mut entries = EntryMap::default();
    let mut visit = |at: usize, header: &BatchHeader, records: &[u8]| {
        let file = &scan.files[at];
        entries.note(header);
        if files.last().is_none_or(|last| last.generation != file.generation) {
            let (name, generation) = (file.name(), file.generation);
            files.push(VerifiedFile { name, generation, batches: 0, bytes: 0 });
        }
        if let Some(entered) = files.last_mut() {
            entered.batches += 1;
            entered.bytes += u64::from(header.footprint());
        }
        last = header.sequence;
        let sums = Checksums::new(scan.incarnation, file.generation);
        let read = each_record(file, header, records, &mut |offset, record| {
            if let Kind::Body { checksum, bytes } = record.kind
                && sums.body(offset, bytes) != checksum
            {
                damages.push((file.name(), offset.into(), "a body in the log does not check".to_owned()));
            }
            let bodies = entries.bodies(&record, header, oldest);
            deliver(&record, (header, &log.groups), &bodies, tally);
        });
        if let Err(OpenError::Damaged { file, offset, what }) = read {
            damages.push((file, offset, what));
        }
        Ok(())
    };
    if log.damaged {
        read_on(scan, log.start, &mut visit, &mut |end, next| {
            let missing = end.sequence.unwrap_or(1);
            let what =
                format!("the batches from {missing} to {} do not read back: what they said is lost", next.sequence - 1);
            gaps.push((scan.files[end.index].name(), u64::from(end.offset), what));
        })?;
    } else {
        scan.walk(End::before(log.start), &mut visit)?;
    }
    found.last_sequence = found.last_sequence.max(last);
    found.log = files;
    for (file, offset, what) in damages.into_iter().chain(gaps) {
        // The first of them is what the log was refused for.
        if found.damages.iter().all(|known| (&known.file, known.offset) != (&file, offset)) {
            found.note(&file, offset, what, None);
        }
    }
    Ok(())
}

/// Walks the log from file `start`, and after each gap from the next whole batch on; `gap` is told
/// of each.
fn read_on(
    scan: &Scan,
    start: usize,
    visit: &mut Visit<'_>,
    gap: &mut dyn FnMut(&End, &BatchHeader),
) -> Result<(), OpenError> {
    if scan.files.is_empty() {
        return Ok(());
    }
    let mut from = End::before(start);
    loop {
        let end = scan.walk(from, visit)?;
        let missing = end.sequence.unwrap_or(1);
        let whole = |at, header: &BatchHeader| matches!(scan.batch(at, header.offset, &mut Vec::new()), Ok(Some(_)));
        let next = scan.next_header(&end, &mut |at, header| header.sequence >= missing && whole(at, header))?;
        let Some((index, header)) = next else { return Ok(()) };
        gap(&end, &header);
        from = End { offset: header.offset, ..End::before(index) };
    }
}
