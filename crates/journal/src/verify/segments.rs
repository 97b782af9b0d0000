//! One segment: every block of its index, and every body that they list.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hashbrown::HashSet;

use super::tally::Tally;
use super::{DamagedEntries, Verification, VerifiedSegment};
use crate::Owner;
use crate::cold::index::{self, Row, SegmentFile};
use crate::disk::{Disk, DiskFile};
use crate::layout::{index_name, segment_name, slot_name};
use crate::read;
use crate::recovery::cold::Found;
use crate::reference::{Chunk, PAGE, Reference};

/// Bodies that can't be read, by owner: with the offset of the first of them.
type Bad = BTreeMap<Owner, (u64, DamagedEntries)>;

/// Bodies that were read already, since several entries may share one.
#[derive(Default)]
struct Seen {
    whole: HashSet<u32>,
    bad: HashSet<u32>,
}

/// Reads a segment.
pub(super) fn read(disk: &dyn Disk, found: &Found, tally: &Tally<'_>, into: &mut Verification) {
    let (header, incarnation) = (found.header, into.incarnation);
    let (name, adopted) = match header.place {
        SegmentFile::Slot(slot) => (slot_name(slot), true),
        SegmentFile::Own => (segment_name(header.number), false),
    };
    let mut segment = VerifiedSegment {
        number: header.number,
        name: name.clone(),
        adopted,
        listed: header.references,
        live: 0,
        bytes: header.length.into(),
    };
    // Without the file every body is missing, which is told already.
    let bodies = disk.open(&name).ok();
    let (mut seen, mut bad) = (Seen::default(), Bad::new());
    for row in &found.directory.rows {
        let listed = match block(disk, header.number, row, incarnation) {
            Ok(listed) => listed,
            Err(error) => {
                let entries = unlisted(row, tally);
                segment.live += entries.live;
                let what = format!("a list of entries can't be read: {error}");
                into.note(&index_name(header.number), row.block.into(), what, Some(entries));
                continue;
            }
        };
        segment.live += listed.iter().filter(|one| tally.is_live(row.owner, one.seq)).count() as u64;
        if let Some(file) = &bodies {
            read_bodies(file, &listed, incarnation, &mut seen);
        }
        for one in listed.iter().filter(|one| bodies.is_none() || seen.bad.contains(&one.address.offset)) {
            add(&mut bad, row.owner, one, tally);
        }
    }
    into.segments.push(segment);
    for (offset, entries) in bad.into_values() {
        let what = format!("{} bodies do not read back, {} of them of messages that wait", entries.count, entries.live);
        into.note(&name, offset, what, Some(entries));
    }
}

/// What a chunk lists.
fn block(disk: &dyn Disk, number: u32, row: &Row, incarnation: u64) -> io::Result<Vec<Reference>> {
    let chunk = Chunk { segment: number, block: row.block, count: row.count };
    let mut listed = Vec::new();
    index::read_block(&*disk.open(&index_name(number))?, incarnation, chunk, row.page, &mut listed)?;
    Ok(listed)
}

/// The entries of a chunk whose list is gone: which they are is not known, only of which page and
/// how many at most.
fn unlisted(row: &Row, tally: &Tally<'_>) -> DamagedEntries {
    let first = row.page.saturating_mul(PAGE);
    let last = first.saturating_add(PAGE - 1);
    let unsettled = (first..=last).filter(|seq| tally.is_live(row.owner, *seq)).count() as u64;
    let count = u64::from(row.count);
    DamagedEntries { owner: row.owner, numbers: (first, last), count, live: count.min(unsettled) }
}

/// Reads the bodies of a chunk that were not read before.
fn read_bodies(file: &Arc<dyn DiskFile>, listed: &[Reference], incarnation: u64, seen: &mut Seen) {
    let new = |one: &&Reference| !seen.whole.contains(&one.address.offset) && !seen.bad.contains(&one.address.offset);
    let wanted: Vec<Reference> = listed.iter().filter(new).copied().collect();
    let all =
        read::many(&wanted, (0..wanted.len()).collect(), &|_| Some(Arc::clone(file)), incarnation, &mut |_, _| {});
    for one in &wanted {
        // One by one, to know which of them it is.
        let whole = all.is_ok()
            || read::body(&**file, incarnation, one.address).is_ok_and(|body| body.len() == one.length as usize);
        let offsets = if whole { &mut seen.whole } else { &mut seen.bad };
        offsets.insert(one.address.offset);
    }
}

fn add(bad: &mut Bad, owner: Owner, one: &Reference, tally: &Tally<'_>) {
    let offset = u64::from(one.address.offset);
    let fresh = DamagedEntries { owner, numbers: (one.seq, one.seq), count: 0, live: 0 };
    let (first, entries) = bad.entry(owner).or_insert((offset, fresh));
    *first = (*first).min(offset);
    entries.numbers = (entries.numbers.0.min(one.seq), entries.numbers.1.max(one.seq));
    entries.count += 1;
    entries.live += u64::from(tally.is_live(owner, one.seq));
}
