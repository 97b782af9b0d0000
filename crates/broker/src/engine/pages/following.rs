//! The pages of a queue while entries come one after the other: what a settlement frees, and the
//! answers to a journal that recycles its files.
//!
//! Invariant: all pages were resolved before ([`Pages::resolve`]), so each entry that is not
//! settled is in the log or in exactly one list.

use std::collections::BTreeMap;

use journal::{Bits, Chunk, PAGE, Reference};

use super::{Pages, ReadChunk, Replayed, UnreadableEntries, accounted, count, minus};
use crate::queue::facts::LaneFacts;
use crate::queue::{Bitmap, Indexed, LaneNumber, Position, Runs, first_of};

impl Pages {
    /// Finds out which entries segments list. Segments in `damaged` may have unreadable bodies.
    pub(crate) fn resolve(
        &mut self,
        next: &dyn Fn(u64) -> u64,
        read: &ReadChunk<'_>,
        damaged: &dyn Fn(u32) -> bool,
    ) -> UnreadableEntries {
        let mut lost = UnreadableEntries::default();
        self.pages.retain(|number, page| {
            let doubtful = page.chunks.iter().filter(|chunk| damaged(chunk.segment));
            lost.doubtful += doubtful.map(|chunk| u64::from(chunk.count)).sum::<u64>();
            page.resolve(*number, next(*number), read, &mut lost);
            !page.is_over()
        });
        lost
    }

    /// Counts what is alive by the file or segment of its body.
    pub(crate) fn count_files(&self, into: &mut dyn FnMut(u32, u64)) {
        for page in self.pages.values() {
            let in_log = minus(&page.told.bits(), &page.settled.bits());
            page.count_in_log(&in_log, into);
            page.known.iter().for_each(|known| known.count(into));
        }
    }

    /// Counts what the numbers from `first` on free, if they are settled now.
    pub(crate) fn freed(&mut self, first: u64, count: u64, read: &ReadChunk<'_>, into: &mut dyn FnMut(u32, u64)) {
        let end = first.saturating_add(count);
        for (number, page) in self.pages.range_mut(first / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let range = (first.saturating_sub(start) as usize, (end - start).min(PAGE) as usize);
            page.freed(*number, range, read, into);
        }
    }

    /// Adds the entries whose bodies lie in a file of the log.
    pub(crate) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        for (number, page) in &self.pages {
            let in_log = Bitmap::of(&minus(&page.told.bits(), &page.settled.bits()));
            for bit in in_log.iter() {
                let address = page.addresses[bit - page.base];
                if address.file == file {
                    found.push(Reference { seq: number * PAGE + bit as u64, address, length: 0 });
                }
            }
        }
    }

    /// Sets the bits of the entries of a page that are not settled.
    pub(crate) fn unsettled(&self, number: u64, bits: &mut Bits) {
        if let Some(page) = self.pages.get(&number) {
            page.unsettled(bits);
        }
    }

    /// Bodies that lay in one of the files `from` lie in `chunk` now. Returns how many of their
    /// entries are not settled.
    pub(crate) fn moved(&mut self, number: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.indexed = Indexed::Partly;
        let Some(page) = self.pages.get_mut(&number) else { return 0 };
        let known = page.known.get_or_insert_default();
        let mut here = Bitmap::default();
        for one in entries {
            let bit = (one.seq % PAGE) as usize;
            let in_log = page.told.has(bit) && from.contains(&page.addresses[bit - page.base].file);
            if page.settled.has(bit) || !(in_log || known.members.has(bit)) {
                continue;
            }
            page.told.clear(bit);
            here.put(bit);
        }
        let left = here.count() as u64;
        known.moved(from, chunk, here);
        if page.told.next(0).is_none() {
            page.addresses = Vec::new();
        }
        left
    }

    /// What a restatement says of a lane.
    pub(crate) fn lane_facts(&self, lane: LaneNumber, position: Position) -> LaneFacts {
        let next = position.next.max(first_of(lane));
        let settled = self.settled_runs(lane, next);
        let accounted = accounted(next, &settled, &mut |page, bits| self.unsettled(page, bits));
        LaneFacts { position: (next, position.mark), accounted, settled }
    }

    /// The settled numbers of a lane that an index may still list, in runs.
    fn settled_runs(&self, lane: LaneNumber, next: u64) -> Vec<(u64, u64)> {
        let mut runs = Runs::default();
        if self.indexed == Indexed::Nowhere {
            return runs.0;
        }
        let first = first_of(lane);
        let mut from = first;
        for (number, page) in self.pages.range(first / PAGE..next.div_ceil(PAGE)) {
            let start = number * PAGE;
            runs.add(from, start);
            from = start.max(first);
            let end = (start + PAGE).min(next);
            if page.known.is_some() {
                let mut live = [0; super::WORDS];
                page.unsettled(&mut live);
                from = runs.add_gaps(from, start, &live);
                runs.add(from, end);
            }
            from = end;
        }
        runs.add(from, next);
        runs.0
    }
}

impl Replayed {
    fn count_in_log(&self, which: &Bits, into: &mut dyn FnMut(u32, u64)) {
        let mut files: BTreeMap<u32, u64> = BTreeMap::new();
        for bit in Bitmap::of(which).iter() {
            *files.entry(self.addresses[bit - self.base].file).or_default() += 1;
        }
        files.into_iter().for_each(|(file, count)| into(file, count));
    }

    fn freed(&mut self, number: u64, (from, to): (usize, usize), read: &ReadChunk<'_>, into: &mut dyn FnMut(u32, u64)) {
        let mut range = Bitmap::default();
        range.put_range(from, to);
        let settled = self.settled.bits();
        let gone = minus(&range.bits(), &settled);
        self.count_in_log(&both(&self.told.bits(), &gone), into);
        let Some(known) = &mut self.known else { return };
        let live = known.live(&settled);
        let over = both(&live, &gone);
        if count(&over) > 0 {
            known.settle(number, (&over, count(&live)), read, into);
        }
    }

    fn unsettled(&self, bits: &mut Bits) {
        let listed = self.known.as_ref().map_or([0; super::WORDS], |known| known.members.bits());
        let all = self.told.bits();
        let settled = self.settled.bits();
        for (at, word) in bits.iter_mut().enumerate() {
            *word |= (all[at] | listed[at]) & !settled[at];
        }
    }
}

fn both(these: &Bits, those: &Bits) -> Bits {
    let mut left = *these;
    left.iter_mut().zip(those).for_each(|(word, other)| *word &= other);
    left
}
