//! A conversation with the broker in words that both protocols have, so that every part of the load can be played over
//! either: publish, subscribe, settle, fence, commit, abort.
//!
//! Nothing is written before [`Talk::exchange`], so the caller can tell the history first what it is about to do.

mod amqp;
mod control;
mod link;
mod stomp;

use std::time::Duration;

use ::stomp::client::AckId;

use super::history::Outcome;
use super::topology::Route;

pub(super) use control::Control;

/// Where the broker listens on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) stomp: u16,
}

/// The protocol of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Amqp,
    Stomp,
}

/// What a conversation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To publish, each message with a confirm.
    Publish,
    /// To consume and settle.
    Consume,
    /// Everything in transactions.
    Transact,
}

/// Why a conversation is over.
#[derive(Debug)]
pub(super) enum Broken {
    /// The connection is gone, as it is when the broker dies.
    Lost(String),
    /// The broker refused something, or said what it must not say.
    Refused(String),
}

/// A message to publish.
#[derive(Debug)]
pub(super) struct Publish<'a> {
    pub(super) route: Route,
    pub(super) body: &'a [u8],
    pub(super) persistent: bool,
    pub(super) transaction: Option<u64>,
}

/// What a delivery is settled by.
#[derive(Debug, Clone)]
pub(super) enum Handle {
    Amqp(u64),
    Stomp(AckId<'static>),
}

/// A settlement to send.
#[derive(Debug)]
pub(super) struct Settlement<'a> {
    pub(super) handle: &'a Handle,
    pub(super) outcome: Outcome,
    pub(super) transaction: Option<u64>,
    /// A question with this number goes with it, whose answer comes when this and all earlier settlements are on disk.
    pub(super) fence: Option<u64>,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Abort,
}

/// Something the broker said.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    /// A publish was confirmed, by its number from 1; with `multiple` all up to it.
    Confirmed { number: u64, multiple: bool },
    /// A publish was refused: nothing is known of it.
    Refused { number: u64, multiple: bool },
    /// A message came.
    Delivered { queue: usize, redelivered: bool, body: &'a [u8], handle: Handle },
    /// A fence was answered.
    Fenced(u64),
    /// A transaction is committed.
    Committed(u64),
}

/// One connection to the broker.
pub(super) trait Talk {
    /// Publishes a message. Confirms count the publishes from 1.
    fn publish(&mut self, publish: &Publish<'_>);
    /// Consumes from a queue, with at most `prefetch` unsettled deliveries at a time.
    fn subscribe(&mut self, queue: usize, prefetch: u16);
    /// Settles a delivery.
    fn settle(&mut self, settlement: &Settlement<'_>);
    /// Ends a transaction, which its first publish or settlement began. One can be open at a time.
    fn end(&mut self, transaction: u64, end: End);
    /// Writes what is waiting and hears what there is, waiting for it at most `wait`.
    fn exchange(&mut self, wait: Duration, hear: &mut dyn FnMut(Heard<'_>)) -> Result<(), Broken>;
}

/// Opens a conversation.
pub(super) fn open(ports: Ports, protocol: Protocol, purpose: Purpose) -> Result<Box<dyn Talk>, Broken> {
    Ok(match protocol {
        Protocol::Amqp => Box::new(amqp::AmqpTalk::open(ports.amqp, purpose)?),
        Protocol::Stomp => Box::new(stomp::StompTalk::open(ports.stomp, purpose)?),
    })
}
