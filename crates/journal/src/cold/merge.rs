//! Merging: which segments are worth writing again as one, and what is still referenced in them.
//!
//! Invariant: a merge takes at most about one log file's worth of live bytes, from a bounded number
//! of segments. So what it needs in memory and on disk is bounded too. It never takes more bodies
//! than the offsets of a segment reach, however many of them are alive.

use super::Cold;
use super::count::Counts;
use super::index::Row;
use super::plan::{MERGED_AT_ONCE, Plan};
use crate::Owner;
use crate::options::Sizes;
use crate::reference::{Bits, Chunk, PAGE};

/// How many segments that are small or mostly dead are borne with.
const BORNE: usize = 8;
/// How many bytes of bodies these have, alive or not: half of what an offset can say. How many are
/// alive is only guessed.
const BYTES_AT_ONCE: u64 = 1 << 31;
/// How many listed references are looked through in one step, about.
const SIFTED_AT_ONCE: u64 = 64 << 10;

/// The segments to merge, if there are enough that are small or mostly dead, and what is alive in
/// them fits into `room` bytes of disk.
pub(crate) fn choose(counts: &Counts, sizes: Sizes, room: u64) -> Option<Vec<u32>> {
    let mut worth: Vec<(u64, u32)> = Vec::new();
    let mut dead = 0;
    for (number, count) in &counts.segments {
        let (live, length) = (count.live_bytes(), u64::from(count.length));
        let wasteful = live * 2 < length || count.length < sizes.file / 4;
        if count.live > 0 && !count.unreadable && wasteful {
            worth.push((live, *number));
            dead += length.saturating_sub(live);
        }
    }
    if worth.len() < BORNE && dead <= sizes.ring / 2 {
        return None;
    }
    worth.sort_unstable();
    let (mut total, mut bytes) = (0, 0);
    let fits = worth.iter().take(MERGED_AT_ONCE).take_while(|(live, number)| {
        total += live;
        bytes += counts.segments.get(number).map_or(0, |count| count.bytes);
        total <= u64::from(sizes.file).min(room) && bytes <= BYTES_AT_ONCE
    });
    let count = fits.count().max(1);
    let chosen: Vec<u32> = worth.iter().take(count).map(|(_, number)| *number).collect();
    // One alone is worth it only for what is dead in it.
    let alone = counts.segments.get(chosen.first()?).filter(|_| count == 1);
    let pays = alone.is_none_or(|one| one.live_bytes() < room.min(u64::from(one.length / 2)));
    pays.then_some(chosen)
}

/// A segment that was to be merged and whose index can't be read.
pub(crate) struct Unreadable(pub(crate) u32);

/// Sets in the bits, which are zero, those of an owner's page that are not settled.
pub(crate) type Unsettled<'a> = &'a dyn Fn(Owner, u64, &mut Bits);

/// Goes through the chunks of the segments, by owner and page, for what is still referenced.
pub(crate) struct Sieve {
    /// The segments whose directory was not read yet.
    unread: Vec<u32>,
    /// Chunks with their segment; sorted, last first, once all directories are read.
    rows: Vec<(Row, u32)>,
}

impl Sieve {
    pub(crate) fn new(segments: &[u32]) -> Self {
        Self { unread: segments.to_vec(), rows: Vec::new() }
    }

    /// Reads one more directory, or looks through some more pages and adds what is referenced to
    /// `plan`. True if that was all.
    pub(crate) fn step(&mut self, cold: &Cold, unsettled: Unsettled<'_>, plan: &mut Plan) -> Result<bool, Unreadable> {
        if let Some(segment) = self.unread.pop() {
            let directory = cold.read_directory(segment).map_err(|_| Unreadable(segment))?;
            self.rows.extend(directory.rows.into_iter().map(|row| (row, segment)));
            if self.unread.is_empty() {
                self.rows.sort_unstable_by_key(|(row, _)| std::cmp::Reverse((row.owner, row.page)));
            }
            return Ok(false);
        }
        let mut sifted = 0;
        while let Some((next, _)) = self.rows.last().filter(|_| sifted < SIFTED_AT_ONCE) {
            let place = (next.owner, next.page);
            let first = self.rows.iter().rposition(|(row, _)| (row.owner, row.page) != place).map_or(0, |at| at + 1);
            let rows = self.rows.split_off(first);
            sifted += rows.iter().map(|(row, _)| u64::from(row.count)).sum::<u64>();
            sift(cold, unsettled, place, &rows, plan)?;
        }
        Ok(self.rows.is_empty())
    }
}

/// Adds what is still referenced of one page.
fn sift(
    cold: &Cold,
    unsettled: Unsettled<'_>,
    (owner, page): (u64, u64),
    rows: &[(Row, u32)],
    plan: &mut Plan,
) -> Result<(), Unreadable> {
    let mut bits: Bits = [0; (PAGE / 64) as usize];
    unsettled(owner, page, &mut bits);
    if bits == [0; (PAGE / 64) as usize] {
        return Ok(());
    }
    let mut found = Vec::new();
    for (row, segment) in rows {
        let chunk = Chunk { segment: *segment, block: row.block, count: row.count };
        cold.read_chunk(chunk, page, &mut found).map_err(|_| Unreadable(*segment))?;
    }
    found.retain(|one| {
        let at = one.seq % PAGE;
        bits[(at / 64) as usize] & (1 << (at % 64)) != 0
    });
    plan.add(owner, &mut found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cold::count::Count;
    use crate::options::BLOCK;

    const FILE: u32 = 1 << 20;

    fn chosen(segments: &[(u64, u32)]) -> Option<usize> {
        let sizes = Sizes { file: FILE, first_file: FILE, ring: 8 << 20, batch: 4096, short_of_disk: false };
        let mut counts = Counts::default();
        for (number, (live, length)) in (0..).zip(segments) {
            let count =
                Count { live: *live, references: 100, bytes: u64::from(*length), length: *length, unreadable: false };
            counts.insert(number, count);
        }
        choose(&counts, sizes, 16 << 20).map(|chosen| chosen.len())
    }

    #[test]
    fn segments_are_merged_when_enough_are_small_or_mostly_dead() {
        type Segments = Vec<(u64, u32)>;
        let table: [(&str, Segments, Option<usize>); 8] = [
            ("nothing", vec![], None),
            ("few small ones", vec![(100, FILE / 8); 7], None),
            ("eight small ones", vec![(100, FILE / 8); 8], Some(8)),
            ("many small ones go by and by", vec![(100, FILE / 64); 40], Some(16)),
            ("many that are alive and large", vec![(60, FILE); 100], None),
            ("eight of which a third is alive", vec![(33, FILE); 8], Some(3)),
            ("few with much that is dead", vec![(10, FILE); 5], Some(5)),
            ("one large one of which little is alive", vec![(1, 16 * FILE)], Some(1)),
        ];
        for (what, segments, expected) in table {
            assert_eq!(chosen(&segments), expected, "{what}");
        }
    }

    /// Sixteen of these, in each of which a few large bodies are left of many small ones, were
    /// taken for 38 MiB, and had up to 9 GiB. Offsets began from zero again, over the bodies that
    /// were written first.
    #[test]
    fn bodies_of_a_merge_fit_into_one_segment_whatever_the_guess() {
        let (file, bytes) = (1 << 30, 600 << 20);
        let sizes = Sizes { file, first_file: file, ring: 8 << 30, batch: 4096, short_of_disk: false };
        let mut counts = Counts::default();
        for number in 0..16 {
            let count = Count { live: 40, references: 10_000, bytes, length: file, unreadable: false };
            counts.insert(number, count);
        }
        let chosen = choose(&counts, sizes, 1 << 40).map(|chosen| chosen.len() as u64);
        assert_eq!(chosen, Some(3));
        assert!(chosen.is_some_and(|count| count * bytes + u64::from(BLOCK) <= u64::from(u32::MAX)));
    }
}
