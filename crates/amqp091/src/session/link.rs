//! The output of a connection, and what the connection waits for.
//!
//! While something is [`Waiting`], no further input is taken. So a connection holds back at most
//! one reply.

use broker::{Awaited, Client, SessionId};
use front::PendingRenewal;
use wire::Output;

use crate::codec::{Method, Table};
use crate::session::error::Failure;

/// The properties and capabilities that a client sent in the handshake.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Traits {
    /// Whether the client wants `basic.cancel` if the queue of a consumer is deleted.
    pub(super) cancel_notify: bool,
    /// Whether the client wants to hear when publishers are stopped.
    pub(super) blocked: bool,
    /// Whether the client understands a close in answer to a refused log-in.
    pub(super) authentication_failure_close: bool,
    /// Whether the client reads `basic.qos` as the specification does: it also applies to existing
    /// consumers.
    pub(super) strict_qos: bool,
    pub(super) connection_name: Option<String>,
    /// The mechanism that it logs in by.
    pub(super) mechanism: &'static str,
    /// The properties as they arrived, until the broker gets them. Before the log-in nothing else
    /// of them is decoded.
    pub(super) properties: Vec<u8>,
}

impl Traits {
    pub(super) fn from_properties(properties: Table<'_>) -> Self {
        let capabilities = match properties.get("capabilities") {
            Some(crate::codec::table::ValueRef::Table(table)) => table,
            _ => Table::default(),
        };
        let able = |name| capabilities.get(name).and_then(|value| value.as_bool()) == Some(true);
        let text = |name| properties.get(name).and_then(|value| value.as_str());
        Self {
            cancel_notify: able("consumer_cancel_notify"),
            blocked: able("connection.blocked"),
            authentication_failure_close: able("authentication_failure_close"),
            // py-amqp, and Celery above it, expect the specification's meaning from any server
            // other than RabbitMQ.
            strict_qos: text("product") == Some("py-amqp"),
            connection_name: text("connection_name").map(str::to_owned),
            mechanism: "",
            properties: properties.as_bytes().to_vec(),
        }
    }
}

/// What must happen before the next frame is taken.
#[derive(Debug)]
pub(super) enum Waiting {
    /// This reply is sent when its change is durable.
    Reply {
        awaited: Awaited,
        /// Its frame, and the frames that must follow it.
        frame: Vec<u8>,
        /// Whether it is the last reply, after which the connection closes.
        closes: bool,
    },
    /// The frame that could not be handled is taken again when this has come.
    Durable(Awaited),
    /// The frame is taken again when the session has no parked publishes any more.
    Unparked(SessionId),
    /// The new secret of `connection.update-secret` is being checked.
    Renewal(PendingRenewal),
    /// A transaction of this channel is being committed; an event reports the end.
    Commit { channel: u16 },
}

/// Work that an event requires beyond a frame.
#[derive(Debug)]
pub(super) enum After {
    CloseChannel(u16, Failure),
    CloseConnection(Failure),
}

/// The way to the peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) out: Output,
    pub(super) frame_max: u32,
    pub(super) traits: Traits,
    pub(super) waiting: Option<Waiting>,
    pub(super) after: Vec<After>,
}

impl Link {
    pub(super) fn new(frame_max: u32) -> Self {
        Self { out: Output::default(), frame_max, traits: Traits::default(), waiting: None, after: Vec::new() }
    }

    pub(super) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let tail = self.out.tail();
        let before = tail.len();
        method.into().encode(channel, tail);
        let length = tail.len() - before;
        self.out.count_answer(length);
    }

    /// Sends a failure, after a reply that is held back: when a client hears of the end of a
    /// channel, it expects nothing more from it.
    pub(super) fn send_failure(&mut self, channel: u16, failure: &Failure) {
        match self.held_back() {
            Some(reply) => failure.encode(channel, reply),
            None => failure.encode(channel, self.out.tail()),
        }
    }

    /// Sends `method` when `awaited` has come, which may be now.
    pub(super) fn send_when_durable<'m>(
        &mut self,
        client: &mut Client,
        awaited: impl Into<Awaited>,
        channel: u16,
        method: impl Into<Method<'m>>,
    ) {
        let awaited = awaited.into();
        if client.durable(awaited) {
            self.send(channel, method);
        } else {
            let mut frame = Vec::new();
            method.into().encode(channel, &mut frame);
            self.waiting = Some(Waiting::Reply { awaited, frame, closes: false });
        }
    }

    /// Sends `method`, after a reply that is held back. A client that deletes the queue of its own
    /// consumer first hears that the queue is deleted, as from RabbitMQ. Some clients stop when
    /// they hear of the consumer first.
    pub(super) fn send_after_reply<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        match self.held_back() {
            Some(reply) => method.into().encode(channel, reply),
            None => self.send(channel, method),
        }
    }

    /// The bytes of the reply that waits for the disk, to which more can be appended. Nothing can
    /// follow a reply that closes.
    fn held_back(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.waiting {
            Some(Waiting::Reply { frame, closes: false, .. }) => Some(frame),
            _ => None,
        }
    }
}
