//! The messages and bytes of a lane that count towards the limits of its queue: those of ready
//! entries, and those of hidden ones.

use crate::message::Message;
use crate::queue::State;
use crate::queue::lane::Lane;

/// Messages on their way into a queue that are still hidden there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coming {
    pub(crate) messages: u64,
    /// Of their bodies.
    pub(crate) bytes: u64,
}

impl Coming {
    /// One more.
    pub(crate) fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.body().len() as u64;
    }
}

impl Lane {
    /// Bytes of the bodies of its ready entries, and the number of entries of unknown length.
    pub(in crate::queue) fn weight(&self) -> (u64, usize) {
        let pages = self.pages.iter().map(|page| page.weight());
        pages.fold((0, 0), |(bytes, unread), (more, others)| (bytes + more, unread + others))
    }

    /// Adds its hidden entries, which are among the last.
    pub(in crate::queue) fn add_hidden(&self, coming: &mut Coming) {
        let entries = self.pages.iter().rev().flat_map(|page| page.entries.iter().rev());
        let hidden = entries.filter(|entry| entry.state == State::Hidden).take(self.hidden);
        hidden.filter_map(|entry| entry.message.as_ref()).for_each(|message| coming.add(message));
    }
}
