//! What a peer said, borrowed from the bytes that it sent.

use std::ops::RangeInclusive;

use crate::codec::performative::{Attach, Open};
use crate::codec::{DeliveryState, Error};
use crate::delivery::Delivery;

/// A link: the channel of its session, and its handle there, both ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId {
    /// The session's channel.
    pub channel: u16,
    /// The link's handle in it.
    pub handle: u32,
}

/// Something that the peer sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'i> {
    /// The connection is open: log-in and `open` are done.
    Opened(Open<'i>),
    /// A session has begun.
    Begun {
        /// Its channel.
        channel: u16,
    },
    /// The peer's end of a link: the terminus that is in force, the address of a dynamic one.
    /// Without the peer's terminus it is a refusal, and [`Event::Detached`] says why.
    Attached {
        /// The link.
        link: LinkId,
        /// The peer's attach.
        attach: Box<Attach<'i>>,
    },
    /// We may send `credit` more messages on a link.
    Credit {
        /// The link, of which we are the sender.
        link: LinkId,
        /// What is left after what had waited.
        credit: u32,
    },
    /// A message came.
    Delivery {
        /// The link, of which we are the receiver.
        link: LinkId,
        /// The message, with the id to settle it by.
        delivery: Delivery<'i>,
    },
    /// The peer gave up the delivery with this id before it was whole.
    Aborted {
        /// The link.
        link: LinkId,
        /// The delivery's id.
        id: u32,
    },
    /// The peer has sent what it had, and has no credit any more.
    Drained {
        /// The link, of which we are the receiver.
        link: LinkId,
    },
    /// Messages that we sent have an outcome, or a state on the way to one. What is final is
    /// settled.
    Answered {
        /// The link that they were sent on.
        link: LinkId,
        /// Their numbers on it.
        numbers: RangeInclusive<u64>,
        /// The state; a peer may settle without one.
        state: Option<DeliveryState<'i>>,
    },
    /// The peer has settled deliveries that it sent to us.
    Settled {
        /// The session's channel.
        channel: u16,
        /// Their ids.
        ids: RangeInclusive<u32>,
        /// Their state, if it says one.
        state: Option<DeliveryState<'i>>,
    },
    /// A link is detached, and its handle free; the answer is in the output already.
    Detached {
        /// The link.
        link: LinkId,
        /// Whether it is closed for good.
        closed: bool,
        /// Why, if the peer did it by itself.
        error: Option<Error<'i>>,
    },
    /// A session has ended with its links; the answer is in the output already.
    Ended {
        /// Its channel, now free.
        channel: u16,
        /// Why, if the peer did it by itself.
        error: Option<Error<'i>>,
    },
    /// The connection is closed; the answer is in the output already, and nothing follows.
    Closed {
        /// Why, if the peer did it by itself.
        error: Option<Error<'i>>,
    },
}
