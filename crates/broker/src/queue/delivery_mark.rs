//! The delivery mark of a lane: after a crash every entry below it counts as delivered before.

use journal::{Journal, Ticket};

/// See the module. All numbers are sequence numbers of one lane.
#[derive(Debug)]
pub(crate) struct Mark {
    /// In the log: every durable entry below it may have been delivered.
    at: u64,
    /// The number behind the last entry that was delivered.
    delivered_to: u64,
    /// A higher mark is on its way to the disk: it counts once the ticket is durable.
    rising: Option<(u64, Ticket)>,
}

impl Mark {
    /// The mark of an earlier run, whose deliveries stay delivered.
    pub(super) fn starting_at(at: u64) -> Self {
        Self { at, delivered_to: at, rising: None }
    }

    /// The mark that deliveries may rely on.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The number behind the last entry that was delivered, as a clean stop logs it.
    pub(super) fn delivered_to(&self) -> u64 {
        self.delivered_to
    }

    /// The highest mark that is in the log. Recovery takes the last mark that it reads, so no
    /// record may carry a lower one.
    pub(super) fn said(&self) -> u64 {
        self.rising.map_or(self.at, |(mark, _)| mark.max(self.at))
    }

    /// The ticket that deliveries wait for, if a higher mark is on its way.
    pub(super) fn awaited(&self) -> Option<Ticket> {
        self.rising.map(|(_, ticket)| ticket)
    }

    /// A mark that is on disk by now counts.
    pub(super) fn settle(&mut self, journal: &Journal) {
        if let Some((mark, _)) = self.rising.take_if(|(_, ticket)| journal.is_durable(*ticket)) {
            self.raise(mark);
        }
    }

    /// The mark is at least `to`.
    pub(super) fn raise(&mut self, to: u64) {
        self.at = self.at.max(to);
    }

    /// The mark is `to` once the ticket is durable.
    pub(super) fn rise(&mut self, to: u64, ticket: Ticket) {
        self.rising = Some((to, ticket));
    }

    /// An entry was delivered.
    #[inline]
    pub(super) fn delivered(&mut self, seq: u64) {
        self.delivered_to = self.delivered_to.max(seq + 1);
    }
}
