//! The figures of a lane in reports: no page is read or opened for them.

use crate::message::Message;
use crate::queue::lane::Lane;

impl Lane {
    /// Number of entries that are not done.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Number of unsettled entries that are in the log.
    pub(crate) fn durable(&self) -> usize {
        self.durable
    }

    /// The message of an entry, if memory has it at hand.
    pub(in crate::queue) fn message_of(&self, seq: u64) -> Option<&Message> {
        let page = &self.pages[self.last_starting_by(seq)?];
        page.entries.get(usize::try_from(seq.checked_sub(page.first)?).ok()?)?.message.as_ref()
    }
}
