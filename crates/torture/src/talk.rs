//! A conversation with the broker in words that both protocols have, so that every part of the load
//! can be played over either: publish, subscribe, settle, fence, commit, abort.
//!
//! Nothing is written before [`Talk::exchange`], so the caller can tell the history first what it
//! is about to do.

mod amqp;
mod control;
mod link;
mod shown;
mod stomp;

use std::time::Duration;

use ::stomp::client::AckId;

use crate::fence::Fence;
use crate::history::Outcome;
use crate::properties::{self, Field, Shown};
use crate::server::Ports;
use crate::stamp::{DeliveryMode, Stamp};
use crate::topology::Route;

pub(crate) use control::Control;
pub(crate) use link::Link;

/// The protocol of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp,
    Stomp,
}

/// What a conversation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To publish, each message with a confirm.
    Publish,
    /// To consume and settle.
    Consume,
    /// Everything in transactions.
    Transact,
}

/// Why a conversation is over.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection is gone, as it is when the broker dies.
    Lost(String),
    /// The broker refused something, or said what it must not say.
    Refused(String),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(what) => write!(f, "a connection to a live broker was lost: {what}"),
            Self::Refused(what) => f.write_str(what),
        }
    }
}

/// A message to publish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publish<'a> {
    pub(crate) route: Route,
    pub(crate) body: &'a [u8],
    pub(crate) mode: DeliveryMode,
    pub(crate) transaction: Option<u64>,
    /// It is not to come before this, in milliseconds since 1970.
    pub(crate) due: Option<u64>,
    /// What makes it a duplicate of another.
    pub(crate) id: Option<&'a str>,
    pub(crate) priority: Option<u8>,
}

impl<'a> Publish<'a> {
    /// A persistent message, due at once.
    pub(crate) fn persistent(route: Route, body: &'a [u8]) -> Self {
        Self { route, body, mode: DeliveryMode::Persistent, transaction: None, due: None, id: None, priority: None }
    }

    /// The properties that belong to the name in its body, if it has one.
    fn properties(&self) -> Vec<Field> {
        Stamp::id_of(self.body).map_or_else(Vec::new, |id| properties::of(id, self.mode))
    }
}

/// What a delivery is settled by.
#[derive(Debug, Clone)]
pub(crate) enum Handle {
    Amqp(u64),
    Stomp(AckId<'static>),
}

/// A settlement to send.
#[derive(Debug)]
pub(crate) struct Settlement<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) outcome: Outcome,
    pub(crate) transaction: Option<u64>,
    /// A question with this number goes with it, whose answer comes when this and all earlier
    /// settlements are on disk.
    pub(crate) fence: Option<(u64, Fence)>,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

/// Which publishes of a connection an answer names. Their numbers begin with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    One(u64),
    UpTo(u64),
}

/// Something the broker said.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// Publishes were confirmed.
    Confirmed(Numbers),
    /// Publishes were refused: nothing is known of them.
    Refused(Numbers),
    /// A message came.
    Delivered { queue: usize, redelivered: bool, body: &'a [u8], shown: Shown, handle: Handle },
    /// A fence was answered.
    Fenced(u64),
    /// A transaction is committed.
    Committed(u64),
    /// The broker reads no publishes of this connection for now.
    Blocked,
    /// It reads them again.
    Unblocked,
}

/// One connection to the broker.
pub(crate) trait Talk: Send {
    /// Publishes a message. Confirms count the publishes from 1.
    fn publish(&mut self, publish: &Publish<'_>);
    /// Consumes from a queue, with at most `prefetch` unsettled deliveries at a time.
    fn subscribe(&mut self, queue: usize, prefetch: u16);
    /// Settles a delivery.
    fn settle(&mut self, settlement: &Settlement<'_>);
    /// The kinds of fences that it can ask for while it goes on, and those of a consumer that
    /// leaves.
    fn fences(&self) -> (&'static [Fence], &'static [Fence]);
    /// Asks for a fence of a consumer that leaves: what it holds goes back to its queues.
    fn leave(&mut self, number: u64, kind: Fence);
    /// Ends a transaction, which its first publish or settlement began. One can be open at a time.
    fn end(&mut self, transaction: u64, end: End);
    /// Writes what is waiting and hears what there is, waiting for it at most `wait`.
    fn exchange(&mut self, wait: Duration, hear: &mut dyn FnMut(Heard<'_>)) -> Result<(), Broken>;
}

/// Opens a conversation.
pub(crate) fn open(ports: Ports, protocol: Protocol, purpose: Purpose) -> Result<Box<dyn Talk>, Broken> {
    Ok(match protocol {
        Protocol::Amqp => Box::new(amqp::AmqpTalk::open(ports.amqp, purpose)?),
        Protocol::Stomp => Box::new(stomp::StompTalk::open(ports.stomp, purpose)?),
    })
}
