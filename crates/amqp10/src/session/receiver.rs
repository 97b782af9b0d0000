//! The receiving end of a link: what a peer publishes, and the credit that it has for that.

use broker::{Charge, PublisherRoom};

use crate::codec::performative::{ReceiverSettleMode, Transfer};
use crate::codec::{Source, Symbols};
use crate::delivery::{Assembly, Step};
use crate::session::error::Failure;
use crate::session::names::{Named, Node};
use crate::session::target::Destination;
use crate::session::termini::Attached;

/// Messages that a peer may send before it has answers to half of them. Enough that a flush of a
/// slow disk does not stop a publisher, and that a publisher of small messages does not wait for
/// credit while a turn of its input is taken: a turn of 256 KiB has some 2500 of 64 bytes.
pub(super) const CREDIT: u32 = 8000;

/// The outcome of a message that is refused (part 3, §3.4.3).
const REJECTED: &str = "amqp:rejected:list";

/// How the peer is told that one message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refuses {
    /// By an outcome of that message.
    Alone,
    /// The link's source does not know this outcome, so the link ends (Anonymous Terminus, §2.2.2).
    WithLink,
}

impl Refuses {
    /// What a source with these outcomes can be told. One that lists none knows all.
    pub(super) fn of(source: Option<&Source<'_>>) -> Self {
        let outcomes = source.map_or(Symbols::NONE, |source| source.outcomes);
        match outcomes.is_empty() || outcomes.has(REJECTED) || outcomes.has("amqp:rejected") {
            true => Self::Alone,
            false => Self::WithLink,
        }
    }
}

/// See the module.
pub(super) struct Receiver {
    pub(super) destination: Destination,
    pub(super) assembly: Assembly,
    /// The bytes of a message that is not whole.
    pub(super) unfinished: usize,
    pub(super) charge: Option<Charge>,
    /// How many deliveries the peer has made on the link; it wraps.
    pub(super) delivery_count: u32,
    /// How many more it may make.
    pub(super) credit: u32,
    /// Messages without an answer.
    pub(super) unanswered: u32,
    /// Whether the peer settles, after it has our answer.
    pub(super) settles_second: bool,
    /// The queue that goes with the link.
    pub(super) dynamic: Option<Node>,
    /// Its name, until another link takes that.
    pub(super) named: Option<Named>,
    /// What outlives the link of its deliveries.
    pub(super) terminus: Option<Attached>,
    /// How the peer is told of a message that is refused.
    pub(super) refuses: Refuses,
    /// What it takes of the peer's memory.
    pub(super) room: Option<PublisherRoom>,
}

impl Receiver {
    pub(super) fn new(destination: Destination, max_message_size: usize, delivery_count: u32) -> Self {
        Self {
            destination,
            assembly: Assembly::new(max_message_size),
            unfinished: 0,
            charge: None,
            delivery_count,
            credit: 0,
            unanswered: 0,
            settles_second: false,
            dynamic: None,
            named: None,
            terminus: None,
            refuses: Refuses::Alone,
            room: None,
        }
    }

    /// Takes a transfer with the bytes behind it.
    #[inline]
    pub(super) fn take<'a>(&mut self, transfer: &Transfer<'_>, payload: &'a [u8]) -> Result<Step<'a>, Failure> {
        if !self.settles_second && transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
            return Err(Failure::invalid("rcv-settle-mode of a transfer is second on a link of which it is first"));
        }
        Ok(self.assembly.transfer(transfer, payload)?)
    }

    /// A whole message has come, or one that was given up. False if there was no credit for it.
    #[inline]
    pub(super) fn count(&mut self) -> bool {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        let Some(credit) = self.credit.checked_sub(1) else { return false };
        self.credit = credit;
        true
    }

    /// Gives credit if much is used up. True if a flow has to say so.
    #[inline]
    pub(super) fn top_up(&mut self) -> bool {
        if matches!(self.destination, Destination::Management(_)) {
            // Its credit follows the responses.
            return false;
        }
        let most = CREDIT.saturating_sub(self.unanswered);
        let is_low = self.credit <= CREDIT / 2 && most >= self.credit + CREDIT / 4;
        if is_low {
            self.credit = most;
        }
        is_low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_comes_back_with_the_answers() {
        let mut receiver = Receiver::new(Destination::Anonymous, 10, 0);
        assert!(!receiver.count());
        assert!(receiver.top_up());
        assert_eq!(receiver.credit, CREDIT);
        for sent in 1..=CREDIT {
            assert!(receiver.count());
            receiver.unanswered = sent;
            assert!(!receiver.top_up());
        }
        assert!(!receiver.count());
        receiver.unanswered = CREDIT - CREDIT / 4;
        assert!(receiver.top_up());
        assert_eq!(receiver.credit, CREDIT / 4);
    }
}
