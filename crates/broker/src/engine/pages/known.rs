//! What segments list of a page, once it is known which entries that are.
//!
//! Invariant: an entry that a list has is in that one alone. `live` of a list is the number of its
//! entries that are not settled.

use journal::{Bits, Chunk, Reference};

use super::{ReadChunk, count, has, minus};
use crate::queue::{Bitmap, Listed};

/// One list, and its entries if they were looked at.
#[derive(Debug)]
struct List {
    listed: Listed,
    entries: Option<Bitmap>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The entries of all lists, settled ones included.
    pub(super) members: Bitmap,
    lists: Vec<List>,
}

impl Known {
    /// Adds a list with entries that are not settled.
    pub(super) fn add(&mut self, chunk: Chunk, entries: Bitmap) {
        entries.iter().for_each(|bit| self.members.put(bit));
        let live = entries.count() as u64;
        if live > 0 {
            self.lists.push(List { listed: Listed { chunk, live }, entries: Some(entries) });
        }
    }

    /// Adds lists that have these entries, none of them settled, between them.
    pub(super) fn add_all(&mut self, chunks: &[Chunk], members: &Bits) {
        self.members = Bitmap::of(members);
        match chunks {
            [chunk] => self.add(*chunk, Bitmap::of(members)),
            chunks => {
                let list = |chunk: &Chunk| Listed { chunk: *chunk, live: u64::from(chunk.count) };
                self.lists.extend(chunks.iter().map(|chunk| List { listed: list(chunk), entries: None }));
            }
        }
    }

    /// The lists that have entries which are not settled.
    pub(super) fn lists(&self) -> Vec<Listed> {
        self.lists.iter().map(|list| list.listed).collect()
    }

    /// Counts what is listed by segment.
    pub(super) fn count(&self, into: &mut dyn FnMut(u32, u64)) {
        self.lists.iter().for_each(|list| into(list.listed.chunk.segment, list.listed.live));
    }

    /// These entries of page `number`, which were not settled, are from now on: counts them by
    /// segment. `live` is how many were not settled before.
    pub(super) fn settle(
        &mut self,
        number: u64,
        (gone, live): (&Bits, u64),
        read: &ReadChunk<'_>,
        into: &mut dyn FnMut(u32, u64),
    ) {
        let left = count(gone);
        if left == live {
            self.count(into);
            self.lists.clear();
            return;
        }
        let [only] = &mut self.lists[..] else { return self.settle_by_lists(number, gone, read, into) };
        only.listed.live = only.listed.live.saturating_sub(left);
        into(only.listed.chunk.segment, left);
    }

    /// The same where several lists may have them. What can't be read keeps its segment.
    fn settle_by_lists(&mut self, number: u64, gone: &Bits, read: &ReadChunk<'_>, into: &mut dyn FnMut(u32, u64)) {
        for List { listed, entries } in &mut self.lists {
            let entries = entries.get_or_insert_with(|| {
                let mut found = Vec::new();
                // Of a list that can't be read nothing is known, now and later.
                let _ = read(listed.chunk, number, &mut found);
                let mut entries = Bitmap::default();
                found.iter().for_each(|one| entries.put((one.seq % journal::PAGE) as usize));
                entries
            });
            let here = entries.iter().filter(|bit| has(gone, *bit)).count() as u64;
            if here > 0 {
                listed.live = listed.live.saturating_sub(here);
                into(listed.chunk.segment, here);
            }
        }
        self.lists.retain(|list| list.listed.live > 0);
    }

    /// The entries of `from` are in a list of another segment now.
    pub(super) fn moved(&mut self, from: &[u32], chunk: Chunk, entries: Bitmap) {
        self.lists.retain(|list| !from.contains(&list.listed.chunk.segment));
        self.add(chunk, entries);
    }

    /// The places of these entries.
    pub(super) fn places(&self, number: u64, members: &Bits, read: &ReadChunk<'_>) -> Vec<Reference> {
        let mut all = Vec::new();
        for list in &self.lists {
            let before = all.len();
            if read(list.listed.chunk, number, &mut all).is_err() {
                all.truncate(before);
            }
        }
        let mut wanted = *members;
        all.retain(|one: &Reference| {
            let bit = (one.seq % journal::PAGE) as usize;
            let is_new = has(&wanted, bit);
            wanted[bit / 64] &= !(1 << (bit % 64));
            is_new
        });
        all
    }

    /// The entries that are not settled.
    pub(super) fn live(&self, settled: &Bits) -> Bits {
        minus(&self.members.bits(), settled)
    }
}
