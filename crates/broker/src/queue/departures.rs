//! The entries that one visit takes out of a queue: those whose settlement it has still to log,
//! those that move to the dead-letter exchange, and those that are lost.

use std::sync::Arc;

use journal::Address;

use crate::queue::dropped::{DroppedEntries, MissingTarget};
#[cfg(feature = "sabotage")]
use crate::queue::sabotage::HeldBack;
use crate::queue::{Dying, Entry, Reason, Said, settle::Settled};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// Entries that this visit settled by itself or for a client, to be logged at its end.
    settled: Vec<Settled>,
    dying: Vec<Dying>,
    /// The messages that this visit dropped for good.
    lost: Option<Box<DroppedEntries>>,
    /// Why the queue for its dead letters can't be made, so that they wait.
    pub(super) unmade: Option<Box<Unmade>>,
    /// What was missing for its last dead letter that found nothing.
    pub(super) missing: Option<Box<MissingTarget>>,
    #[cfg(feature = "sabotage")]
    pub(super) held_back: HeldBack,
}

/// A dead-letter queue could not be made.
#[derive(Debug)]
pub(super) struct Unmade {
    pub(super) name: Arc<str>,
    /// The reason.
    pub(super) why: String,
    /// When it is tried again, in milliseconds since 1970.
    pub(super) again: u64,
}

impl Departures {
    /// Notes that the settlement of an entry must be logged.
    #[inline]
    pub(super) fn settle(&mut self, seq: u64, address: Address, reason: u8) {
        self.settled.push(Settled { seq, address, reason });
    }

    /// True when there is no settlement to log.
    #[inline]
    pub(super) fn are_logged(&self) -> bool {
        self.settled.is_empty()
    }

    /// Takes the settlements to log. Their memory comes back with [`Departures::keep`].
    pub(super) fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// Keeps this empty list for the next visit.
    pub(super) fn keep(&mut self, empty: Vec<Settled>) {
        self.settled = empty;
    }

    /// An entry moves to the dead-letter exchange.
    pub(super) fn send_on(&mut self, dying: Dying) {
        self.dying.push(dying);
    }

    /// The consumer that rejected the entry that was sent on last said why.
    #[inline]
    pub(super) fn say(&mut self, seq: u64, said: Option<&Said>) {
        if let Some(said) = said
            && let Some(dying) = self.dying.last_mut().filter(|dying| dying.seq == seq)
        {
            dying.said = Some(Said::clone(said));
        }
    }

    /// Takes the entries that move to the dead-letter exchange.
    #[inline]
    pub(super) fn take_dying(&mut self) -> Option<Vec<Dying>> {
        (!self.dying.is_empty()).then(|| std::mem::take(&mut self.dying))
    }

    /// The message of this entry is dropped for good.
    pub(super) fn lose(&mut self, reason: Reason, entry: &Entry) {
        DroppedEntries::add(&mut self.lost, reason, entry.message.as_ref(), entry.weight());
    }

    /// Takes the messages that were dropped for good.
    #[inline]
    pub(super) fn take_lost(&mut self) -> Option<Box<DroppedEntries>> {
        self.lost.take()
    }
}
