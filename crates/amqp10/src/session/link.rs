//! The ends of links that this side has.

use broker::PublisherRoom;

use crate::session::names::{Named, Node};
use crate::session::receiver::Receiver;
use crate::session::sender::Sender;
use crate::session::subscription::Lasting;
use crate::session::termini::Attached;

/// One link, by its handle.
pub(super) enum Link {
    /// This side sends: the peer consumes.
    Sender(Box<Sender>),
    /// This side receives: the peer publishes.
    Receiver(Box<Receiver>),
    /// The peer has found a subscription by its name, to end it. Nothing is sent on the link.
    Found(Box<Found>),
    /// This side has detached it, and ignores what the peer sends before its own detach.
    Detached,
}

/// See [`Link::Found`].
pub(super) struct Found {
    subscription: Lasting,
    _room: PublisherRoom,
}

impl Found {
    pub(super) fn new(subscription: Lasting, room: PublisherRoom) -> Self {
        Self { subscription, _room: room }
    }
}

impl Link {
    /// The queue that goes with the link, which then outlives it.
    pub(super) fn take_node(&mut self) -> Option<Node> {
        match self {
            Self::Sender(sender) => sender.dynamic.take(),
            Self::Receiver(receiver) => receiver.dynamic.take(),
            Self::Found(_) | Self::Detached => None,
        }
    }

    /// The terminus that may outlive the link.
    pub(super) fn take_terminus(&mut self) -> Option<Attached> {
        if let Self::Receiver(receiver) = self { receiver.terminus.take() } else { None }
    }

    /// The number of its name.
    pub(super) fn number(&self) -> Option<u64> {
        let named = match self {
            Self::Sender(sender) => &sender.named,
            Self::Receiver(receiver) => &receiver.named,
            Self::Found(_) | Self::Detached => return None,
        };
        named.as_ref().map(|named: &Named| named.number)
    }

    /// The subscription that outlives the link, unless the link is closed.
    pub(super) fn take_subscription(&mut self) -> Option<Lasting> {
        match self {
            Self::Sender(sender) => sender.subscription.take(),
            Self::Found(found) => Some(found.subscription.clone()),
            Self::Receiver(_) | Self::Detached => None,
        }
    }
}
