//! What every part of a connection writes through, and what it may be waiting for.
//!
//! While something is [`Waiting`], no further input is taken, so a connection has at most one reply
//! that is held back.

use broker::{Client, SessionId, Ticket};
use wire::Output;

use crate::codec::{Method, Table};
use crate::session::error::Failure;

/// Deliveries are taken from the broker only while fewer bytes than this wait in the output.
pub(super) const OUTPUT_ENOUGH: usize = 256 * 1024;
/// Input is not taken while so many bytes of replies, returns and confirms wait to be read by the
/// peer.
const UNREAD_REPLIES: usize = 1024 * 1024;

/// What a client said of itself in the handshake.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Traits {
    /// It wants to hear when its consumer's queue goes away.
    pub(super) cancel_notify: bool,
    /// It wants to hear when publishers are stopped.
    pub(super) blocked: bool,
    /// It understands a close in answer to a refused login.
    pub(super) authentication_failure_close: bool,
    /// It reads `basic.qos` as the specification does: present consumers are meant too.
    pub(super) strict_qos: bool,
    pub(super) connection_name: Option<String>,
    /// How it logs in.
    pub(super) mechanism: &'static str,
    /// All of it as it came, until the broker has it: before the log-in nothing else of it is
    /// decoded.
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
            // From any server but RabbitMQ, py-amqp and Celery above it expect the specification's
            // meaning.
            strict_qos: text("product") == Some("py-amqp"),
            connection_name: text("connection_name").map(str::to_owned),
            mechanism: "",
            properties: properties.as_bytes().to_vec(),
        }
    }
}

/// What must happen before the next frame is looked at.
#[derive(Debug)]
pub(super) enum Waiting {
    /// This reply goes out when its change is durable.
    Reply {
        ticket: Ticket,
        /// Its frame, and those that must come after it.
        frame: Vec<u8>,
        /// It is the last: the connection is closed then.
        closes: bool,
    },
    /// The frame that could not be dealt with is looked at again when the ticket is durable.
    Durable(Ticket),
    /// The same, when the session has no parked publishes any more.
    Unparked(SessionId),
    /// A transaction of this channel is being committed; an event tells the end.
    Commit { channel: u16 },
}

/// What an event asks for that needs more than a frame.
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
    /// Bytes of anything but deliveries written since the output was last empty.
    replies: usize,
}

impl Link {
    pub(super) fn new(frame_max: u32) -> Self {
        Self {
            out: Output::default(),
            frame_max,
            traits: Traits::default(),
            waiting: None,
            after: Vec::new(),
            replies: 0,
        }
    }

    pub(super) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let tail = self.out.tail();
        let before = tail.len();
        method.into().encode(channel, tail);
        self.replies += tail.len() - before;
    }

    /// Tells of a failure, but behind a reply that is held back: who hears of the end of a channel
    /// takes nothing more from it.
    pub(super) fn send_failure(&mut self, channel: u16, failure: &Failure) {
        match self.held_back() {
            Some(reply) => failure.encode(channel, reply),
            None => failure.encode(channel, self.out.tail()),
        }
    }

    /// Sends `method` when `ticket` is durable, which may be now.
    pub(super) fn send_when_durable<'m>(
        &mut self,
        client: &mut Client,
        ticket: Ticket,
        channel: u16,
        method: impl Into<Method<'m>>,
    ) {
        if client.durable(ticket) {
            self.send(channel, method);
        } else {
            let mut frame = Vec::new();
            method.into().encode(channel, &mut frame);
            self.waiting = Some(Waiting::Reply { ticket, frame, closes: false });
        }
    }

    /// Sends `method`, but behind a reply that is held back: who deletes the queue of its own
    /// consumer hears first that it is deleted, as from RabbitMQ. Some clients end what they do at
    /// the other word.
    pub(super) fn send_after_reply<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        match self.held_back() {
            Some(reply) => method.into().encode(channel, reply),
            None => self.send(channel, method),
        }
    }

    /// The bytes of the reply that waits for the disk, behind which more can be put: nothing
    /// follows the one that closes.
    fn held_back(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.waiting {
            Some(Waiting::Reply { frame, closes: false, .. }) => Some(frame),
            _ => None,
        }
    }

    /// Counts bytes that were written past [`Link::send`] and that are no delivery.
    pub(super) fn count_replies(&mut self, bytes: usize) {
        self.replies += bytes;
    }

    /// True while the peer leaves too much unread.
    pub(super) fn is_stuffed(&self) -> bool {
        self.replies > UNREAD_REPLIES && !self.out.is_empty()
    }

    /// Starts counting anew once the peer has read everything.
    pub(super) fn note_progress(&mut self) {
        if self.out.is_empty() {
            self.replies = 0;
        }
    }
}
