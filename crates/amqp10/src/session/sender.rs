//! The sending end of a link: a consumer of the broker, whose messages go to the peer.

use broker::{Outcome, Settling};

use crate::codec::performative::Attach;

use crate::session::names::{Named, Node};
use crate::session::responses::Responses;
use crate::session::subscription::Lasting;

/// How a link ends, alone or with its session or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer ends it in the ordinary way.
    Orderly,
    /// By an error, or because the peer has gone.
    Broken,
}

/// What the receiver of a link is told of each message besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    /// Exchange and routing key.
    Origin,
}

/// See the module.
pub(super) struct Sender {
    /// The broker's consumer.
    pub(super) tag: String,
    /// How many deliveries were made on the link; it wraps.
    pub(super) delivery_count: u32,
    /// How many more the peer takes.
    pub(super) credit: u32,
    /// Those that wait for the session's window. They are in `delivery_count`.
    pub(super) held: u32,
    /// Whether deliveries are settled as they are sent.
    pub(super) settling: Settling,
    /// What becomes of deliveries that the peer does not settle.
    pub(super) default_outcome: Outcome,
    /// It is a browser that has seen all, or its consumer is otherwise at its end.
    pub(super) ended: bool,
    /// The peer waits for the end of a drain.
    pub(super) drains: bool,
    pub(super) browses: bool,
    /// The link is being taken down: what still comes is released.
    pub(super) leaves: bool,
    /// The queue that goes with the link.
    pub(super) dynamic: Option<Node>,
    /// Its name, until another link takes that.
    pub(super) named: Option<Named>,
    /// The subscription that outlives the link.
    pub(super) subscription: Option<Lasting>,
    /// RabbitMQ's clients are told where a message was published.
    pub(super) origin: Told,
    /// It has the responses of `/management`, and no consumer.
    pub(super) responses: Option<Box<Responses>>,
}

impl Sender {
    /// The end of a link whose peer has not named all that it has not settled: nothing new may be
    /// sent on it (part 2, §2.7.3), so it has no consumer.
    pub(super) fn waiting(attach: &Attach<'_>, dynamic: Option<Node>) -> Self {
        Self {
            tag: attach.name.to_owned(),
            delivery_count: 0,
            credit: 0,
            held: 0,
            settling: Settling::Manual,
            default_outcome: Outcome::Released,
            ended: true,
            drains: false,
            browses: false,
            leaves: false,
            dynamic,
            named: None,
            subscription: None,
            origin: Told::Nothing,
            responses: None,
        }
    }

    /// A delivery was made.
    #[inline]
    pub(super) fn count(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
    }

    /// Takes the credit of a flow, which is absolute (part 2, §2.6.7).
    pub(super) fn grant(&mut self, delivery_count: Option<u32>, link_credit: u32) {
        // A peer that has not seen our attach does not know the initial count, which is 0.
        let end = delivery_count.unwrap_or(0).wrapping_add(link_credit);
        let credit = end.wrapping_sub(self.delivery_count);
        // The peer lowers its credit below what is on its way.
        self.credit = if credit > link_credit { 0 } else { credit };
    }

    /// The credit that is left is used up by a drain.
    pub(super) fn end_drain(&mut self, unused: u32) {
        self.delivery_count = self.delivery_count.wrapping_add(unused);
        self.credit = self.credit.saturating_sub(unused);
        self.drains = false;
    }

    /// What becomes of the deliveries that the peer has not settled.
    ///
    /// Qpid JMS has `modified` with `delivery-failed` as the default outcome, for the case that it
    /// dies. Before it ends a link, it settles what its program has seen. The rest it had only
    /// fetched ahead, and that is no failure: messages that were never seen would die of it.
    pub(super) fn outcome_of_rest(&self, ending: Ending) -> Outcome {
        let mut outcome = self.default_outcome.clone();
        if ending == Ending::Orderly
            && let Outcome::Modified { failed, .. } = &mut outcome
        {
            *failed = false;
        }
        outcome
    }

    /// The deliveries that the peer was sent.
    pub(super) fn sent(&self) -> u32 {
        self.delivery_count.wrapping_sub(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_counts_from_what_the_peer_has_seen() {
        for (sent, seen, granted, credit) in
            [(0, None, 5, 5), (3, Some(3), 5, 5), (3, Some(1), 5, 3), (9, Some(1), 5, 0), (1, Some(u32::MAX), 10, 8)]
        {
            let mut sender = Sender {
                tag: String::new(),
                delivery_count: sent,
                credit: 0,
                held: 0,
                settling: Settling::Manual,
                default_outcome: Outcome::Released,
                ended: false,
                drains: false,
                browses: false,
                leaves: false,
                dynamic: None,
                named: None,
                subscription: None,
                origin: Told::Nothing,
                responses: None,
            };
            sender.grant(seen, granted);
            assert_eq!(sender.credit, credit, "{sent} {seen:?} {granted}");
        }
    }
}
