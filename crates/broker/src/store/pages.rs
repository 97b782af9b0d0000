//! The entries of one queue while the log is replayed, by page: eight bytes for each reference, a bit for each settlement.
//!
//! Nothing of a body is read. A page of which segments hold a part is known exactly when every number of it is accounted
//! for, by references in the log and by what chunks count; otherwise the chunks' lists are read.

use std::collections::BTreeMap;
use std::io;

use journal::{Address, Bits, Chunk, Opened, PAGE, Reference};

use crate::queue::{Listed, Page, Place};

const WORDS: usize = (PAGE / 64) as usize;

/// What the log says of one page.
#[derive(Debug)]
struct Replayed {
    /// The references in the log, from `base` on; those in gaps mean nothing.
    addresses: Vec<Address>,
    base: usize,
    /// Which numbers the log references.
    told: Bits,
    settled: Bits,
    chunks: Vec<Chunk>,
}

/// The pages of one queue.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: BTreeMap<u64, Replayed>,
    /// Some index lists numbers of this queue.
    chunked: bool,
}

/// What is left of a queue's entries.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) pages: Vec<Page>,
    pub(crate) chunked: bool,
}

impl Default for Replayed {
    fn default() -> Self {
        Self { addresses: Vec::new(), base: 0, told: [0; WORDS], settled: [0; WORDS], chunks: Vec::new() }
    }
}

impl Pages {
    pub(super) fn cold(&mut self, page: u64, chunk: Chunk) {
        self.chunked = true;
        self.pages.entry(page).or_default().chunks.push(chunk);
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

    /// The numbers from `first` on are settled. A page of which nothing is left is forgotten.
    pub(super) fn settle(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        let mut over = Vec::new();
        for (number, page) in self.pages.range_mut(first / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let from = first.saturating_sub(start) as usize;
            let to = (end - start).min(PAGE) as usize;
            set_range(&mut page.settled, from, to);
            if page.is_over() {
                over.push(*number);
            }
        }
        over.into_iter().for_each(|number| drop(self.pages.remove(&number)));
    }

    /// What is left, when all numbers below `next` may have been given out.
    pub(super) fn finish(self, next: u64, opened: &Opened) -> io::Result<Found> {
        let mut found = Found { pages: Vec::new(), chunked: self.chunked };
        for (number, page) in self.pages {
            let chunked = !page.chunks.is_empty();
            if let Some(mut page) = page.finish(number, next, opened)? {
                if chunked {
                    page.note_chunks();
                }
                found.pages.push(page);
            }
        }
        Ok(found)
    }
}

impl Replayed {
    fn reference(&mut self, bit: usize, addresses: &[Address]) {
        if self.addresses.is_empty() {
            self.base = bit;
        }
        let missing = bit.saturating_sub(self.base + self.addresses.len());
        self.addresses.extend(std::iter::repeat_n(Address { file: 0, offset: 0 }, missing));
        for (bit, address) in (bit..).zip(addresses) {
            // A number that is told again is told the same; one below all others can't come, numbers rise.
            match self.addresses.get_mut(bit.wrapping_sub(self.base)) {
                Some(known) => *known = *address,
                None => self.addresses.push(*address),
            }
            self.told[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// True when nothing of the page can be live.
    fn is_over(&self) -> bool {
        if self.chunks.is_empty() {
            self.told.iter().zip(&self.settled).all(|(told, settled)| told & !settled == 0)
        } else {
            self.settled.iter().all(|word| *word == u64::MAX)
        }
    }

    fn finish(self, number: u64, next: u64, opened: &Opened) -> io::Result<Option<Page>> {
        let in_log = minus(&self.told, &self.settled);
        if self.chunks.is_empty() {
            return Ok(self.lean(number, in_log, Vec::new(), &[]));
        }
        let start = number * PAGE;
        let mut given = [0; WORDS];
        // Number 0 is never given out.
        let from = usize::from(number == 0);
        set_range(&mut given, from, next.saturating_sub(start).min(PAGE) as usize);
        let listed: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.count)).sum();
        let accounted = listed + count(&self.told) == count(&given);
        let members = minus(&given, &self.told);
        let whole = count(&minus(&members, &self.settled)) == count(&members);
        if accounted && count(&in_log) == 0 && (whole || self.chunks.len() == 1) {
            let members = minus(&members, &self.settled);
            let left = count(&members);
            let each = |chunk: &Chunk| if whole { u64::from(chunk.count) } else { left };
            let lists = self.chunks.iter().map(|chunk| Listed { chunk: *chunk, live: each(chunk) }).collect();
            return Ok((left > 0).then(|| Page::absent(number, members, lists)));
        }
        self.finish_by_lists(number, in_log, opened)
    }

    /// Reads what the chunks list.
    fn finish_by_lists(self, number: u64, in_log: Bits, opened: &Opened) -> io::Result<Option<Page>> {
        let (mut all, mut lists, mut members) = (Vec::new(), Vec::new(), [0; WORDS]);
        for chunk in &self.chunks {
            let before = all.len();
            opened.read_chunk(*chunk, number, &mut all)?;
            let mut live = 0;
            for one in &all[before..] {
                let bit = (one.seq % PAGE) as usize;
                let here = one.seq / PAGE == number && !has(&self.settled, bit) && !has(&self.told, bit);
                if here && !has(&members, bit) {
                    members[bit / 64] |= 1 << (bit % 64);
                    live += 1;
                }
            }
            if live > 0 {
                lists.push(Listed { chunk: *chunk, live });
            }
        }
        if count(&in_log) == 0 {
            return Ok((count(&members) > 0).then(|| Page::absent(number, members, lists)));
        }
        all.retain(|one| has(&members, (one.seq % PAGE) as usize));
        Ok(self.lean(number, in_log, lists, &all))
    }

    fn lean(self, number: u64, in_log: Bits, lists: Vec<Listed>, listed: &[Reference]) -> Option<Page> {
        let mut members = in_log;
        let mut elsewhere = BTreeMap::new();
        for one in listed {
            let bit = (one.seq % PAGE) as usize;
            members[bit / 64] |= 1 << (bit % 64);
            elsewhere.insert(bit, Place { address: one.address, length: one.length });
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
                    places.push(Place { address, length: 0 });
                }
            }
        }
        Some(Page::lean(number, members, places, lists))
    }
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

/// Sets the bits from `from` up to `to`.
fn set_range(bits: &mut Bits, from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let end = ((at / 64 + 1) * 64).min(to);
        let width = end - at;
        let mask = if width == 64 { u64::MAX } else { ((1 << width) - 1) << (at % 64) };
        bits[at / 64] |= mask;
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_set_whole() {
        for (from, to) in [(0, 0), (0, 1), (0, 64), (3, 64), (63, 65), (0, 4096), (100, 1000), (4095, 4096)] {
            let mut bits = [0; WORDS];
            set_range(&mut bits, from, to);
            assert_eq!(count(&bits), (to - from) as u64);
            assert!((from..to).all(|bit| has(&bits, bit)));
        }
    }

    #[test]
    fn references_with_gaps_keep_their_places() {
        let mut pages = Pages::default();
        let address = |number| Address { file: 1, offset: number };
        pages.reference(4090, &(4090..4100).map(address).collect::<Vec<_>>());
        pages.reference(4105, &[address(4105)]);
        pages.settle(4091, 2);
        pages.settle(0, 4090);
        pages.settle(4096, 1);
        let left: Vec<_> =
            pages.pages.iter().map(|(number, page)| (*number, count(&minus(&page.told, &page.settled)))).collect();
        assert_eq!(left, [(0, 4), (1, 4)]);
        assert_eq!(pages.pages[&1].addresses[9], address(4105));
        pages.settle(1, u64::MAX);
        assert!(pages.pages.is_empty());
    }
}
