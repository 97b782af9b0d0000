//! What is to go into a segment: references by owner and page, and where their bodies lie now.
//!
//! Invariant: pages ascend by owner and number, and the items of a page by sequence number. A body
//! that is referenced more than once counts once.

use std::io;

use hashbrown::{HashMap, HashSet};

use crate::disk::DiskFile;
use crate::read::{self, Unread};
use crate::record::BODY_HEAD;
use crate::reference::{PAGE, Reference};
use crate::{Address, Owner};

/// How many segments are merged into one.
pub(crate) const MERGED_AT_ONCE: usize = 16;
/// How many pages are measured in one step.
const MEASURED_AT_ONCE: usize = 16;

/// The lengths of bodies by their offsets.
pub(crate) type Lengths = HashMap<u32, u32>;

/// One reference.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    /// Its place in its page.
    pub(crate) seq: u16,
    /// Which of the plan's sources the body lies in.
    pub(crate) source: u16,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// The references of one owner's page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PagePlan {
    pub(crate) owner: Owner,
    pub(crate) page: u64,
    pub(crate) items: Vec<Item>,
    /// Where its block is in the index, once that is laid out.
    pub(crate) block: u32,
}

/// All that goes into one segment.
pub(crate) struct Plan {
    /// The files and segments that the bodies lie in.
    pub(crate) sources: Vec<u32>,
    pub(crate) pages: Vec<PagePlan>,
    /// The bytes of the records of all bodies, each once.
    pub(crate) bytes: u64,
    seen: Seen,
    /// Some lengths are not known.
    pub(crate) unmeasured: bool,
}

/// Which bodies were met. The record of a body is longer than eight bytes. So one bit for eight
/// bytes of a file tells any two apart. Those met more than once are few, and listed.
struct Seen {
    bits: Vec<Vec<u64>>,
    shared: HashSet<(u16, u32)>,
}

impl Seen {
    /// Notes a body; true if it is new.
    fn note(&mut self, source: u16, offset: u32) -> bool {
        let Some(bits) = self.bits.get_mut(usize::from(source)) else { return true };
        let (word, bit) = ((offset / 512) as usize, 1 << (offset / 8 % 64));
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        let new = bits[word] & bit == 0;
        bits[word] |= bit;
        if !new {
            self.shared.insert((source, offset));
        }
        new
    }
}

impl Plan {
    /// An empty plan for what lies in `sources`.
    pub(crate) fn new(sources: Vec<u32>) -> Self {
        let seen = Seen { bits: vec![Vec::new(); sources.len()], shared: HashSet::new() };
        Self { sources, pages: Vec::new(), bytes: 0, seen, unmeasured: false }
    }

    /// Adds references of `owner`, which comes after all owners before, or goes on with the last
    /// one at a higher page. What lies in none of the sources is left out.
    pub(crate) fn add(&mut self, owner: Owner, found: &mut [Reference]) {
        found.sort_unstable_by_key(|one| one.seq);
        for page in found.chunk_by(|a, b| a.seq / PAGE == b.seq / PAGE) {
            let items: Vec<Item> = page.iter().filter_map(|one| self.item(one)).collect();
            if !items.is_empty() {
                self.pages.push(PagePlan { owner, page: page[0].seq / PAGE, items, block: 0 });
            }
        }
    }

    fn item(&mut self, one: &Reference) -> Option<Item> {
        let source = self.sources.iter().position(|source| *source == one.address.file)? as u16;
        if self.seen.note(source, one.address.offset) {
            self.bytes += BODY_HEAD as u64 + u64::from(one.length);
        }
        self.unmeasured |= one.length == 0;
        let seq = (one.seq % PAGE) as u16;
        Some(Item { seq, source, offset: one.address.offset, length: one.length })
    }

    /// Finds out the lengths that are not known of some more pages of a plan with one source, from
    /// page `from` on. Gives the next page; none if there is no more.
    pub(crate) fn measure(
        &mut self,
        from: usize,
        file: &dyn DiskFile,
        known: &mut Lengths,
        unread: Unread,
    ) -> io::Result<Option<usize>> {
        let until = self.pages.len().min(from + MEASURED_AT_ONCE);
        let items = || self.pages[from..until].iter().flat_map(|page| &page.items);
        let mut offsets: Vec<u32> = items().filter(|item| item.length == 0).map(|item| item.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.retain(|offset| !known.contains_key(offset));
        let lengths: Lengths = offsets.iter().copied().zip(read::lengths(file, &offsets, unread)?).collect();
        self.bytes += lengths.values().map(|length| u64::from(*length)).sum::<u64>();
        for item in self.pages[from..until].iter_mut().flat_map(|page| &mut page.items).filter(|item| item.length == 0)
        {
            item.length = lengths.get(&item.offset).or_else(|| known.get(&item.offset)).copied().unwrap_or(0);
        }
        // Those that come again on another page must not count twice.
        known.extend(lengths.into_iter().filter(|(offset, _)| self.seen.shared.contains(&(0, *offset))));
        Ok((until < self.pages.len()).then_some(until))
    }

    pub(crate) fn references(&self) -> u64 {
        self.pages.iter().map(|page| page.items.len() as u64).sum()
    }

    /// Whether several references share the body of `item`.
    pub(crate) fn is_shared(&self, item: &Item) -> bool {
        self.seen.shared.contains(&(item.source, item.offset))
    }

    /// Where the body of `item` lies now.
    pub(crate) fn at(&self, page: &PagePlan, item: &Item) -> Reference {
        let file = self.sources.get(usize::from(item.source)).copied().unwrap_or(0);
        page.reference(file, item)
    }
}

impl PagePlan {
    /// `item` as a reference to a body in `file`.
    pub(crate) fn reference(&self, file: u32, item: &Item) -> Reference {
        let seq = self.page * PAGE + u64::from(item.seq);
        Reference { seq, address: Address { file, offset: item.offset }, length: item.length }
    }
}
