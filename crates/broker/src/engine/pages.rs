//! The entries of one queue while the log is replayed, by page: eight bytes for each reference, a
//! bit for each settlement.
//!
//! No body is read. A page may have a part in segments. It is known exactly when references in the
//! log and the counts of chunks account for every number. Otherwise the chunks' lists are read.
//! Invariant: a number that should be in an index, and is in no readable one, stays as an
//! unreadable entry. None goes silently.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use journal::{Address, Bits, Chunk, LOST, PAGE, Reference};

use crate::queue::{Bitmap, BodyPlace, Indexed, Listed, Page, first_of, lane_of};

mod following;
mod known;

use known::Known;

const WORDS: usize = (PAGE / 64) as usize;

/// Reads the list of a chunk of a page.
pub(crate) type ReadChunk<'a> = dyn Fn(Chunk, u64, &mut Vec<Reference>) -> io::Result<()> + 'a;

/// The log's records of one page.
#[derive(Debug, Default)]
struct Replayed {
    /// The references in the log, from `base` on. Those in gaps mean nothing.
    addresses: Vec<Address>,
    base: usize,
    /// The numbers that the log references.
    told: Bitmap,
    settled: Bitmap,
    chunks: Vec<Chunk>,
    /// A restatement says that each number below this is in the log, settled, or listed by an
    /// index.
    stated: u64,
    /// What the chunks list, once that was found out; they are empty then.
    known: Option<Box<Known>>,
}

/// The pages of one queue.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// In boxes, since a node of the map has room for many and most queues have one.
    pages: BTreeMap<u64, Box<Replayed>>,
    indexed: Indexed,
}

/// The remaining entries of a queue.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) pages: VecDeque<Box<Page>>,
    pub(crate) indexed: Indexed,
    pub(crate) lost: UnreadableEntries,
}

/// Unreadable entries of a queue: their index is damaged or missing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct UnreadableEntries {
    /// Their number. A few of them may be numbers that no entry ever had.
    pub(crate) count: u64,
    /// The first and the last of them.
    pub(crate) numbers: (u64, u64),
    /// How many are at most in damaged segments. Some of them may be whole, or settled.
    pub(crate) doubtful: u64,
}

impl std::fmt::Display for UnreadableEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = self.numbers;
        if self.count > 0 {
            write!(f, "{} messages are lost, numbers {first} to {last}: what listed them is damaged", self.count)?;
        }
        match (self.count, self.doubtful) {
            (_, 0) => Ok(()),
            (0, doubtful) => write!(f, "up to {doubtful} messages lie in damaged segments"),
            (_, doubtful) => write!(f, "; up to {doubtful} more lie in damaged segments"),
        }
    }
}

impl UnreadableEntries {
    /// True when nothing is known to be lost.
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0 && self.doubtful == 0
    }

    fn add(&mut self, seq: u64) {
        let first = if self.count == 0 { seq } else { self.numbers.0.min(seq) };
        *self = Self { count: self.count + 1, numbers: (first, self.numbers.1.max(seq)), ..*self };
    }
}

impl Pages {
    pub(super) fn cold(&mut self, page: u64, chunk: Chunk) {
        self.indexed = Indexed::Partly;
        self.pages.entry(page).or_default().chunks.push(chunk);
    }

    /// Notes that each number below `next` of these pages is in the log, settled, or listed by an
    /// index.
    pub(super) fn state(&mut self, next: u64, pages: &[(u64, u64)]) {
        self.indexed = Indexed::Partly;
        for (first, count) in pages {
            for number in *first..first.saturating_add(*count).min(next.div_ceil(PAGE)) {
                self.pages.entry(number).or_default().stated = next;
            }
        }
    }

    pub(super) fn reference(&mut self, first_seq: u64, addresses: &[Address]) {
        let mut rest = addresses;
        let mut seq = first_seq;
        while !rest.is_empty() {
            let room = (PAGE - seq % PAGE) as usize;
            let (here, later) = rest.split_at(room.min(rest.len()));
            self.pages.entry(seq / PAGE).or_default().reference((seq % PAGE) as usize, here);
            seq += here.len() as u64;
            rest = later;
        }
    }

    /// Settles the numbers from `first` on. A page without entries is forgotten.
    pub(super) fn settle(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        let mut over = Vec::new();
        for (number, page) in self.pages.range_mut(first / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let from = first.saturating_sub(start) as usize;
            let to = (end - start).min(PAGE) as usize;
            page.settled.put_range(from, to);
            if page.is_over() {
                over.push(*number);
            }
        }
        over.into_iter().for_each(|number| drop(self.pages.remove(&number)));
    }

    /// The remaining entries. Numbers of a lane may have been given out if they are below its
    /// `next`.
    ///
    /// Segments in `damaged` may have unreadable bodies.
    pub(super) fn finish(
        self,
        next: &dyn Fn(u64) -> u64,
        read: &ReadChunk<'_>,
        damaged: &dyn Fn(u32) -> bool,
    ) -> Found {
        let mut found = Found { indexed: self.indexed, ..Found::default() };
        for (number, page) in self.pages {
            let chunked = page.may_be_listed();
            let doubtful = page.chunks.iter().filter(|chunk| damaged(chunk.segment));
            let doubtful: u64 = doubtful.map(|chunk| u64::from(chunk.count)).sum();
            if let Some(mut page) = page.finish(number, next(number), read, &mut found.lost) {
                found.lost.doubtful += doubtful;
                if chunked {
                    page.note_chunks();
                }
                found.pages.push_back(Box::new(page));
            }
        }
        found
    }
}

impl Replayed {
    fn reference(&mut self, bit: usize, addresses: &[Address]) {
        if self.addresses.is_empty() {
            self.base = bit;
        }
        // Numbers rise, but an unreadable entry is found late, and so is one of a group.
        let before = self.base.saturating_sub(bit);
        self.addresses.splice(..0, std::iter::repeat_n(Address { file: 0, offset: 0 }, before));
        self.base -= before;
        let missing = bit.saturating_sub(self.base + self.addresses.len());
        self.addresses.extend(std::iter::repeat_n(Address { file: 0, offset: 0 }, missing));
        for (bit, address) in (bit..).zip(addresses) {
            // A repeated reference is the same.
            match self.addresses.get_mut(bit.wrapping_sub(self.base)) {
                Some(known) => *known = *address,
                None => self.addresses.push(*address),
            }
            self.told.put(bit);
        }
    }

    /// True when no number of the page can be live.
    fn is_over(&self) -> bool {
        let unknown = !self.chunks.is_empty() || self.stated > 0;
        let listed = self.known.as_ref().is_none_or(|known| known.members.is_within(&self.settled));
        if unknown { self.settled.is_full() } else { listed && self.told.is_within(&self.settled) }
    }

    /// Whether some index lists numbers of the page, or should.
    fn may_be_listed(&self) -> bool {
        !self.chunks.is_empty() || self.stated > 0 || self.known.is_some()
    }

    /// Finds out which entries the chunks list. What should be listed and is in no readable list is
    /// from here on an entry that can't be read.
    fn resolve(&mut self, number: u64, next: u64, read: &ReadChunk<'_>, lost: &mut UnreadableEntries) {
        if self.chunks.is_empty() && self.stated == 0 {
            return;
        }
        let (told, settled) = (self.told.bits(), self.settled.bits());
        let given = given_out(number, next);
        let listed: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.count)).sum();
        let accounted = listed + count(&told) == count(&given);
        let members = minus(&given, &told);
        let whole = count(&minus(&members, &settled)) == count(&members);
        let mut known = Box::<Known>::default();
        if accounted && (whole || self.chunks.len() == 1) {
            known.add_all(&self.chunks, &minus(&members, &settled));
        } else {
            self.resolve_by_lists(&mut known, (number, next), read, lost);
        }
        (self.chunks, self.stated, self.known) = (Vec::new(), 0, Some(known));
    }

    /// Reads the lists of the chunks.
    fn resolve_by_lists(
        &mut self,
        known: &mut Known,
        (number, next): (u64, u64),
        read: &ReadChunk<'_>,
        lost: &mut UnreadableEntries,
    ) {
        let mut unreadable = None;
        for chunk in &self.chunks {
            let mut all = Vec::new();
            if read(*chunk, number, &mut all).is_err() {
                unreadable = Some(chunk.segment);
                continue;
            }
            let mut entries = Bitmap::default();
            for one in &all {
                let bit = (one.seq % PAGE) as usize;
                let here = one.seq / PAGE == number && !self.settled.has(bit) && !self.told.has(bit);
                if here && !known.members.has(bit) {
                    entries.put(bit);
                }
            }
            known.add(*chunk, entries);
        }
        let all = match self.stated {
            0 if unreadable.is_some() => next,
            stated => stated,
        };
        let missed = self.missed(&given_out(number, all), &known.members.bits());
        let address = Address { file: unreadable.unwrap_or(LOST), offset: 0 };
        for bit in (0..PAGE as usize).filter(|bit| has(&missed, *bit)) {
            self.reference(bit, &[address]);
            lost.add(number * PAGE + bit as u64);
        }
    }

    fn finish(mut self, number: u64, next: u64, read: &ReadChunk<'_>, lost: &mut UnreadableEntries) -> Option<Page> {
        self.resolve(number, next, read, lost);
        let settled = self.settled.bits();
        let in_log = minus(&self.told.bits(), &settled);
        let Some(known) = self.known.take() else { return self.lean(number, in_log, Vec::new(), &[]) };
        let members = known.live(&settled);
        if count(&in_log) == 0 {
            return (count(&members) > 0).then(|| Page::absent(number, members, known.lists()));
        }
        let mut all = if count(&members) > 0 { known.places(number, &members, read) } else { Vec::new() };
        let mut missed = members;
        all.iter().for_each(|one| missed[(one.seq % PAGE) as usize / 64] &= !(1 << (one.seq % 64)));
        for bit in (0..PAGE).filter(|bit| has(&missed, *bit as usize)) {
            let (seq, file) = (number * PAGE + bit, known.lists().first().map_or(LOST, |list| list.chunk.segment));
            all.push(Reference { seq, address: Address { file, offset: 0 }, length: 0 });
            lost.add(seq);
        }
        self.lean(number, in_log, known.lists(), &all)
    }

    /// The numbers that were given out and should be listed, and are in no readable list.
    fn missed(&self, given: &Bits, members: &Bits) -> Bits {
        minus(&minus(&minus(given, &self.told.bits()), &self.settled.bits()), members)
    }

    fn lean(self, number: u64, in_log: Bits, lists: Vec<Listed>, listed: &[Reference]) -> Option<Page> {
        let mut members = in_log;
        let mut elsewhere = BTreeMap::new();
        for one in listed {
            let bit = (one.seq % PAGE) as usize;
            members[bit / 64] |= 1 << (bit % 64);
            elsewhere.insert(bit, BodyPlace { address: one.address, length: one.length });
        }
        let left = count(&members) as usize;
        if left == 0 {
            return None;
        }
        let mut places = Vec::with_capacity(left);
        for bit in (0..PAGE as usize).filter(|bit| has(&members, *bit)) {
            match elsewhere.get(&bit) {
                Some(place) => places.push(*place),
                None => {
                    let address = *self.addresses.get(bit - self.base)?;
                    places.push(BodyPlace { address, length: 0 });
                }
            }
        }
        Some(Page::lean(number, members, places, lists))
    }
}

/// The numbers of a page that may have been given out, those below `next`.
fn given_out(page: u64, next: u64) -> Bits {
    let mut given = Bitmap::default();
    // The number before the first of a lane is never given out.
    given.put_range(
        usize::from(page * PAGE + 1 == first_of(lane_of(page * PAGE))),
        next.saturating_sub(page * PAGE).min(PAGE) as usize,
    );
    given.bits()
}

/// The pages of a lane with an account of each number below `next`: in `settled`, which are runs in
/// order, or live as `live` tells. Pages without a live number are left out.
pub(super) fn accounted(next: u64, settled: &[(u64, u64)], live: &mut dyn FnMut(u64, &mut Bits)) -> Vec<(u64, u64)> {
    let mut pages: Vec<(u64, u64)> = Vec::new();
    let origin = first_of(lane_of(next));
    let (mut rest, mut number) = (settled, origin / PAGE);
    while number * PAGE < next {
        let (start, end) = (number * PAGE, ((number + 1) * PAGE).min(next));
        while let Some((_, later)) = rest.split_first().filter(|((first, count), _)| first + count <= start) {
            rest = later;
        }
        if let Some((first, count)) =
            rest.first().filter(|(first, count)| *first <= start.max(origin) && first + count >= end)
        {
            // Many whole pages at once: a queue may have had a great many.
            number = ((first + count) / PAGE).max(number + 1);
            continue;
        }
        let mut known = [0; WORDS];
        live(number, &mut known);
        let mut gone = Bitmap::default();
        for (first, count) in rest.iter().take_while(|(first, _)| *first < end) {
            gone.put_range(first.saturating_sub(start) as usize, ((first + count).min(end) - start) as usize);
        }
        let covered = count(&minus(&minus(&given_out(number, next), &known), &gone.bits())) == 0;
        if !covered && settled.is_empty() {
            // A page that is settled as a whole needs no record.
            return pages;
        }
        match pages.last_mut() {
            Some((first, count)) if covered && *first + *count == number => *count += 1,
            _ if covered => pages.push((number, 1)),
            _ => {}
        }
        number += 1;
    }
    pages
}

fn has(bits: &Bits, bit: usize) -> bool {
    bits[bit / 64] & (1 << (bit % 64)) != 0
}

fn count(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn minus(these: &Bits, those: &Bits) -> Bits {
    let mut left = *these;
    left.iter_mut().zip(those).for_each(|(word, other)| *word &= !other);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_with_gaps_keep_their_places() {
        let mut pages = Pages::default();
        let address = |number| Address { file: 1, offset: number };
        pages.reference(4090, &(4090..4100).map(address).collect::<Vec<_>>());
        pages.reference(4105, &[address(4105)]);
        pages.settle(4091, 2);
        pages.settle(0, 4090);
        pages.settle(4096, 1);
        let left: Vec<_> = pages
            .pages
            .iter()
            .map(|(number, page)| (*number, count(&minus(&page.told.bits(), &page.settled.bits()))))
            .collect();
        assert_eq!(left, [(0, 4), (1, 4)]);
        assert_eq!(pages.pages[&1].addresses[9], address(4105));
        pages.settle(1, u64::MAX);
        assert!(pages.pages.is_empty());
    }
}
