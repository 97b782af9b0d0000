//! What the log takes back of that which indexes list.
//!
//! Invariant: only pages that some index lists are kept, a bit for each number, so this takes no
//! more memory than recovery.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use crate::reference::{Bits, Chunk, PAGE};
use crate::replay::Replay;
use crate::{Address, Owner};

/// Passes everything on, and notes which numbers of listed pages are settled.
pub(super) struct Tally<'a> {
    inner: &'a mut dyn Replay,
    settled: BTreeMap<(Owner, u64), Box<Bits>>,
    dropped: HashSet<Owner>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(inner: &'a mut dyn Replay) -> Self {
        Self { inner, settled: BTreeMap::new(), dropped: HashSet::new() }
    }

    /// Whether a number that an index lists is not taken back.
    pub(super) fn is_live(&self, owner: Owner, seq: u64) -> bool {
        let bit = seq % PAGE;
        let settled = self.settled.get(&(owner, seq / PAGE));
        !self.dropped.contains(&owner) && settled.is_none_or(|bits| bits[(bit / 64) as usize] & (1 << (bit % 64)) == 0)
    }
}

impl Replay for Tally<'_> {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        self.settled.entry((owner, page)).or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
        self.inner.cold(owner, page, bytes, chunk);
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.inner.fact(owner, kind, bytes);
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        self.inner.reference(owner, first_seq, mark, bodies);
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        for (first, count) in runs {
            let end = first.saturating_add(*count);
            let pages = (owner, first / PAGE)..(owner, end.div_ceil(PAGE));
            for ((_, page), bits) in self.settled.range_mut(pages) {
                let start = page * PAGE;
                for bit in first.saturating_sub(start)..(end - start).min(PAGE) {
                    bits[(bit / 64) as usize] |= 1 << (bit % 64);
                }
            }
        }
        self.inner.settled(owner, reason, runs);
    }

    fn dropped(&mut self, owner: Owner) {
        self.dropped.insert(owner);
        self.inner.dropped(owner);
    }

    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        self.inner.lost(segment, file, what);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.inner.burnt(owner, first_seq, count);
    }
}
