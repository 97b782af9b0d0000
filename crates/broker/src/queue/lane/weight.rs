//! What the entries of a lane come to that count where its queue is bounded: those that are ready,
//! and those that nobody sees yet.

use crate::message::Message;
use crate::queue::State;
use crate::queue::lane::Lane;

/// Messages that a queue will have which nobody sees there yet.
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
    /// Bytes of the bodies of its ready entries, and how many there are of which nobody knows.
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
