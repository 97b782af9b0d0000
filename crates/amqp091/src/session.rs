//! The server side: one [`wire::Connection`] per socket, over one client of the broker.
//!
//! An AMQP channel is a session of the broker. Bytes become methods in the codec, methods become
//! the broker's operations in the file of their class, and the broker's events become frames in
//! `events`. Nothing here does I/O.

mod basic;
mod channel;
mod close;
mod confirm;
mod connection;
mod content;
mod context;
mod error;
mod events;
mod exchange;
mod handshake;
mod incoming;
mod last;
mod link;
mod publish;
mod queue;
mod running;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::sasl::Mechanism;
use broker::Broker;
use front::{Mechanisms, Turns, Words};
use wire::{Connection, Peer, Protocol, Recognition};

use crate::limits::{DEFAULT_FRAME_MAX, DEFAULT_HEARTBEAT};
use connection::AmqpConnection;

pub use publish::encode;

/// What an operator can set about the protocol.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest frame in bytes that is offered; at least 4096.
    pub frame_max: u32,
    /// Heartbeat interval that is offered, in seconds; the client decides.
    pub heartbeat: u16,
    /// Time from the first byte to an open connection.
    pub handshake_timeout: Duration,
    /// The product that the server announces; some clients require RabbitMQ.
    pub product: String,
    /// The version that the server announces, as `major.minor.patch`.
    pub version: String,
    /// The mechanisms of log-in, in the order in which they are offered. EXTERNAL is offered only
    /// to clients whose certificate belongs to a user, ANONYMOUS only with `anonymous_user`.
    pub mechanisms: Vec<Mechanism>,
    /// The user of clients that log in by ANONYMOUS; `None` refuses such clients.
    pub anonymous_user: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frame_max: DEFAULT_FRAME_MAX,
            heartbeat: DEFAULT_HEARTBEAT,
            handshake_timeout: Duration::from_secs(10),
            product: "Hermod".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain, Mechanism::Anonymous],
            anonymous_user: None,
        }
    }
}

/// How the audit log tells of this protocol.
const WORDS: Words = Words {
    protocol: "amqp",
    login_refused: "login refused",
    names_mechanism: true,
    refused: "connection refused",
    opened: "connection open",
};

impl Settings {
    fn mechanisms(&self) -> Mechanisms<'_> {
        Mechanisms { allowed: &self.mechanisms, anonymous: self.anonymous_user.as_deref() }
    }
}

/// The protocol as a listener serves it. Cloning shares it.
#[derive(Clone)]
pub struct Amqp091 {
    broker: Broker,
    settings: Arc<Settings>,
}

impl Amqp091 {
    /// Serves `broker`.
    pub fn new(broker: Broker, settings: Settings) -> Self {
        Self { broker, settings: Arc::new(settings) }
    }
}

impl Protocol for Amqp091 {
    fn name(&self) -> &'static str {
        WORDS.protocol
    }

    /// Any version of AMQP but 1.0, which is another protocol. A wrong version is answered with the
    /// header of the right one.
    fn recognise(&self, first: &[u8]) -> Recognition {
        recognise(first)
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn Connection> {
        Box::new(Turns(AmqpConnection::new(self.clone(), peer, waker, now)))
    }
}

/// Whether these bytes open a version of AMQP other than 1.0. The headers of 1.0 have the id of a
/// layer behind the name (0, 2 or 3), then the version.
fn recognise(first: &[u8]) -> Recognition {
    const NAME: &[u8] = b"AMQP";
    const LAYERS: [u8; 3] = [0, 2, 3];
    const VERSION_1_0: [u8; 3] = [1, 0, 0];
    let (name, rest) = first.split_at(first.len().min(NAME.len()));
    if !NAME.starts_with(name) {
        return Recognition::No;
    }
    let Some((layer, version)) = rest.split_first() else { return Recognition::Incomplete };
    let version = &version[..version.len().min(VERSION_1_0.len())];
    match LAYERS.contains(layer) && VERSION_1_0.starts_with(version) {
        false => Recognition::Yes,
        true if version.len() < VERSION_1_0.len() => Recognition::Incomplete,
        true => Recognition::No,
    }
}

#[cfg(test)]
mod tests;
