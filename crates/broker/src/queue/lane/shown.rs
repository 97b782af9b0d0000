//! The figures of a lane in reports: no page is read or opened for them.

use crate::queue::lane::{Entry, Lane, State};

impl Lane {
    /// Number of entries that are not done.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Number of unsettled entries that are in the log.
    pub(crate) fn durable(&self) -> usize {
        self.durable
    }

    /// An entry, if memory has it at hand.
    pub(in crate::queue) fn entry_of(&self, seq: u64) -> Option<&Entry> {
        let page = &self.pages[self.last_starting_by(seq)?];
        page.entries.get(usize::try_from(seq.checked_sub(page.first)?).ok()?)
    }

    /// The first entry that is out. All of these are in memory.
    pub(in crate::queue) fn first_out(&self) -> Option<&Entry> {
        let mut pages = self.pages.iter().filter(|page| page.live > page.ready_count);
        pages.find_map(|page| page.entries.iter().find(|entry| entry.state == State::Out))
    }
}
