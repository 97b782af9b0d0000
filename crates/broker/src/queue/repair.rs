//! Looks through a queue for messages that can't be read, page by page, and gives them up.
//!
//! Invariant: an entry is given up only if it is still ready, not in memory, and lies where it
//! could not be read.

use std::sync::Arc;

use journal::{Address, Bits, Chunk, LOST, PAGE, Reference};

use crate::queue::QueueContext;
use crate::queue::lane::Placed;
use crate::queue::{Queue, Show, State, Visit, settle};

/// The numbers of a page that are in `bits`.
fn numbers(page: u64, bits: &Bits) -> impl Iterator<Item = u64> + '_ {
    let is_set = |bit: &u64| bits[(bit / 64) as usize] & (1 << (bit % 64)) != 0;
    (0..PAGE).filter(is_set).map(move |bit| page * PAGE + bit)
}

impl Queue {
    /// The first page from `number` on that has entries on disk.
    pub(crate) fn page_from(&self, number: u64, context: &QueueContext) -> Option<u64> {
        self.lock(context).lanes.first_stored_page(number)
    }

    /// Makes an absent page hot from the lists of `chunks` that could be read. Entries in none of
    /// them have no place. False if the page has other chunks by now.
    pub(crate) fn place_what_is_listed(
        &self,
        page: u64,
        chunks: &[Chunk],
        listed: Vec<Reference>,
        context: &QueueContext,
    ) -> bool {
        let mut bits: Bits = [0; (PAGE / 64) as usize];
        self.lock(context).lanes.unsettled(page, &mut bits);
        let mut all = listed;
        for bit in all.iter().filter(|one| one.seq / PAGE == page).map(|one| one.seq % PAGE) {
            bits[(bit / 64) as usize] &= !(1 << (bit % 64));
        }
        let missing: Vec<u64> = numbers(page, &bits).collect();
        let nowhere = Address { file: LOST, offset: 0 };
        all.extend(missing.into_iter().map(|seq| Reference { seq, address: nowhere, length: 0 }));
        self.place(page, chunks, all, context) != Placed::Moved
    }

    /// The ready entries of a page that only the disk has; `None` while the page is absent, since
    /// their places are unknown.
    pub(crate) fn on_disk(&self, page: u64, context: &QueueContext) -> Option<Vec<Reference>> {
        let mut inner = self.lock(context);
        if inner.lanes.absent_chunks_of(page).is_some() {
            return None;
        }
        let mut bits: Bits = [0; (PAGE / 64) as usize];
        inner.lanes.stored(page, &mut bits);
        let mut found = Vec::new();
        for seq in numbers(page, &bits) {
            let entry = inner.lanes.get_mut(seq).filter(|entry| entry.state == State::Ready && entry.message.is_none());
            let place = entry.and_then(|entry| Some(Reference { seq, address: entry.address?, length: entry.length }));
            found.extend(place);
        }
        Some(found)
    }

    /// Makes a page small again after the look.
    pub(crate) fn leave_page(&self, page: u64, context: &QueueContext) {
        self.lock(context).lanes.lean_down(page * PAGE);
    }

    /// Settles these unreadable entries. Returns how many.
    pub(crate) fn give_up(self: &Arc<Self>, lost: &[Reference], visit: &mut Visit<'_>) -> u64 {
        let mut inner = self.lock(visit.context);
        let mut count = 0;
        for one in lost {
            let same = inner.lanes.get_mut(one.seq).is_some_and(|entry| {
                entry.state == State::Ready && entry.message.is_none() && entry.address == Some(one.address)
            });
            if same {
                let (seq, address, reason) = (one.seq, one.address, settle::UNREADABLE);
                inner.departures.settle(seq, address, reason);
                inner.leave_ready(seq, State::Done);
                count += 1;
            }
        }
        self.conclude(inner, Show::Nothing, visit);
        count
    }
}
