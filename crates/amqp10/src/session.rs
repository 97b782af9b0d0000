//! The server side: one [`wire::Connection`] per socket, over one client of the broker.
//!
//! A session of the protocol is a session of the broker. A link that receives from the peer
//! publishes, a link that sends to it is a consumer. Bytes become performatives in the codec,
//! performatives become the broker's operations, and the broker's events become transfers and
//! dispositions. Nothing here does I/O.

mod address;
mod attach;
mod begun;
mod close;
mod connection;
mod containers;
mod coordinator;
mod deliver;
mod error;
mod events;
mod flow;
mod frames;
mod link;
mod management;
mod names;
mod numbered;
mod open;
mod outcome;
mod promised;
mod receiver;
mod relay;
mod responses;
mod retire;
mod running;
mod sasl;
mod sender;
mod sessions;
mod settle;
mod source;
mod subscription;
mod target;
mod termini;
mod transactions;
mod transfer;
mod unsubscribe;
mod window;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::sasl::Mechanism;
use broker::Broker;
use front::{Mechanisms, Turns, Words};
use wire::{Connection, Peer, Protocol, Recognition};

use crate::codec::ProtocolId;
use crate::codec::frame::PROTOCOL_HEADER;
use connection::Amqp10Connection;
use containers::Containers;
use names::Names;
use termini::Termini;

/// What an operator can set about the protocol.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest frame in bytes that is taken; at least 512. 0 is without limit.
    pub frame_max: u32,
    /// The `idle-time-out` that is announced; zero for none. A peer that is silent for twice as
    /// long is given up.
    pub idle: Duration,
    /// Time from the first byte to an open connection.
    pub handshake_timeout: Duration,
    /// The product that the server announces.
    pub product: String,
    /// The version that the server announces; some clients insist on one of RabbitMQ.
    pub version: String,
    /// The mechanisms of log-in, in the order in which they are offered. EXTERNAL is offered only
    /// to clients whose certificate belongs to a user, ANONYMOUS only with `anonymous_user`.
    pub mechanisms: Vec<Mechanism>,
    /// The user of clients that log in by ANONYMOUS, or without the SASL layer; `None` refuses such
    /// clients.
    pub anonymous_user: Option<String>,
    /// The name of the node that the server announces; it is its container id, too.
    pub node: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frame_max: 128 << 10,
            idle: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            product: "Hermod".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::ScramSha256, Mechanism::Anonymous],
            anonymous_user: None,
            node: "hermod".to_owned(),
        }
    }
}

impl Settings {
    /// AMQPLAIN is a mechanism of AMQP 0-9-1 alone.
    fn is_known(mechanism: Mechanism) -> bool {
        mechanism != Mechanism::AmqPlain
    }

    fn mechanisms(&self) -> Mechanisms<'_> {
        Mechanisms { allowed: &self.mechanisms, anonymous: self.anonymous_user.as_deref() }
    }

    /// Largest frame in bytes that is taken from a client.
    fn frame_max(&self) -> u32 {
        if self.frame_max == 0 { u32::MAX } else { self.frame_max.max(crate::limits::MIN_MAX_FRAME_SIZE) }
    }
}

/// How the audit log tells of this protocol.
const WORDS: Words = Words {
    protocol: "amqp10",
    login_refused: "login refused",
    names_mechanism: true,
    refused: "connection refused",
    opened: "connection open",
};

/// What all connections share.
struct Shared {
    broker: Broker,
    settings: Settings,
    containers: Containers,
    names: Names,
    termini: Termini,
}

/// The protocol as a listener serves it. Cloning shares it.
#[derive(Clone)]
pub struct Amqp10 {
    shared: Arc<Shared>,
}

impl Amqp10 {
    /// Serves `broker`.
    pub fn new(broker: Broker, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                broker,
                settings,
                containers: Containers::default(),
                names: Names::default(),
                termini: Termini::default(),
            }),
        }
    }
}

impl Protocol for Amqp10 {
    fn name(&self) -> &'static str {
        WORDS.protocol
    }

    /// A connection opens with a header of version 1.0.0: of AMQP itself, of SASL, or of TLS, which
    /// is refused in this protocol's words.
    fn recognise(&self, first: &[u8]) -> Recognition {
        match ProtocolId::decode(first) {
            Ok(Some(_)) => Recognition::Yes,
            Ok(None) if first.len() < PROTOCOL_HEADER => Recognition::Incomplete,
            Ok(None) | Err(_) => Recognition::No,
        }
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn Connection> {
        Box::new(Turns(Amqp10Connection::new(self.shared.clone(), peer, waker, now)))
    }
}

#[cfg(test)]
mod tests;
