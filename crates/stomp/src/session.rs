//! The server side: from received frames to the broker, and from the broker's events to frames.
//!
//! Each group of commands has one file. Any failure ends the connection with one ERROR frame, as
//! the specification demands. A RECEIPT is written only when its change is durable.

mod ack;
mod connect;
mod connection;
mod declare;
mod deliver;
mod destination;
mod durable;
mod error;
mod heart_beat;
mod open;
mod receipt;
mod send;
mod subscribe;
mod temporary;
mod transaction;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use broker::Broker;
use front::{Turns, Words};
use wire::{Peer, Protocol, Recognition};

use crate::codec::Trailer;
use crate::limits::{self, Limits};
use connection::StompConnection;

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Header lines in one frame.
    pub headers: usize,
    /// Bytes in one header line.
    pub header_line: usize,
    /// How long a peer may take to open its session.
    pub handshake: Duration,
    /// Whether a CONNECT without a user is from the user of the client's certificate.
    pub certificate_login: bool,
    /// User and password of any other CONNECT without a user, checked like all others. If they are
    /// not set, it is refused.
    pub default_login: Option<(String, String)>,
    /// The virtual host of a CONNECT whose `host` is not a virtual host.
    pub default_vhost: String,
    /// Whether a `host` that is not a virtual host is refused. Off by default, because many clients
    /// send the name of the machine.
    pub strict_host: bool,
    /// The `server` header of CONNECTED, such as `Hermod/0.1.0`.
    pub server: String,
    /// The bytes after each frame that the server sends.
    pub trailer: Trailer,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            headers: limits::HEADERS,
            header_line: limits::HEADER_LINE,
            handshake: Duration::from_secs(10),
            certificate_login: false,
            default_login: None,
            default_vhost: "/".to_owned(),
            strict_host: false,
            server: concat!("Hermod/", env!("CARGO_PKG_VERSION")).to_owned(),
            trailer: Trailer::LineFeed,
        }
    }
}

/// How the audit log tells of this protocol.
const WORDS: Words = Words {
    protocol: "stomp",
    login_refused: "STOMP login refused",
    names_mechanism: false,
    refused: "STOMP session refused",
    opened: "STOMP session opened",
};

/// What all connections share.
struct Shared {
    broker: Broker,
    settings: Settings,
}

impl Shared {
    /// How much a client may send.
    fn limits(&self) -> Limits {
        let body = usize::try_from(self.broker.limits().max_message_bytes).unwrap_or(usize::MAX / 2);
        Limits { head: limits::HEAD, body, ..self.strangers_limits() }
    }

    /// How much a peer may send before its log-in: only short heads.
    fn strangers_limits(&self) -> Limits {
        let Settings { headers, header_line, .. } = self.settings;
        Limits { headers, header_line, head: limits::STRANGERS_HEAD, body: 0 }
    }
}

/// STOMP 1.0, 1.1 and 1.2.
#[derive(Clone)]
pub struct Stomp {
    shared: Arc<Shared>,
}

impl Stomp {
    /// Serves `broker`.
    pub fn new(broker: Broker, settings: Settings) -> Self {
        Self { shared: Arc::new(Shared { broker, settings }) }
    }
}

impl Protocol for Stomp {
    fn name(&self) -> &'static str {
        WORDS.protocol
    }

    fn recognise(&self, first: &[u8]) -> Recognition {
        recognise(first)
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn wire::Connection> {
        Box::new(Turns(StompConnection::new(self.shared.clone(), peer, waker, now)))
    }
}

/// A connection opens with CONNECT or STOMP on a line of its own, perhaps after end-of-lines.
/// HTTP's CONNECT has more text on that line.
fn recognise(first: &[u8]) -> Recognition {
    let blank = first.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    let first = &first[blank..];
    for word in ["CONNECT", "STOMP"] {
        let word = word.as_bytes();
        if first.len() <= word.len() {
            if word.starts_with(first) {
                return Recognition::Incomplete;
            }
        } else if first.starts_with(word) && matches!(first[word.len()], b'\n' | b'\r') {
            return Recognition::Yes;
        }
    }
    Recognition::No
}

#[cfg(test)]
mod tests;
