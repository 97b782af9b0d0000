//! The server side: from received packets to the broker, and from the broker's events to packets.
//!
//! A connection is one session of the broker. The session of MQTT is a subscription of its client,
//! whose queue holds what has not been delivered. Each group of packets has one file.

mod claims;
mod connect;
mod connection;
mod enhanced;
mod failure;
mod fences;
mod filters;
mod incoming;
mod open;
mod opening;
mod outgoing;
mod publish;
mod seldom;
mod store;
mod subscribe;
mod sys;
mod will;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use auth::sasl::Mechanism;
use broker::Broker;
use front::{Turns, Words};
use wire::{Peer, Protocol, Recognition};

use crate::codec::{QoS, VARIABLE_MAX};
use crate::limits;
use claims::Claims;
use connection::MqttConnection;

pub use sys::{Host, Sys, SysPublisher};

/// Why quality 2 is refused.
const QOS_2: &str = "the quality of service 2 is turned off (mqtt.max_qos); use 1";

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a peer may take to open its session.
    pub handshake: Duration,
    /// The ways to log in that are allowed. With EXTERNAL, a CONNECT without a user is from the
    /// user of the client's certificate.
    pub mechanisms: Vec<Mechanism>,
    /// User and password of any other CONNECT without a user, checked like all others. If they are
    /// not set, it is refused.
    pub default_login: Option<(String, String)>,
    /// The virtual host of a user name that does not begin with one.
    pub default_vhost: String,
    /// The most seconds that a session outlives its connection; `u32::MAX` is without end.
    pub session_expiry: u32,
    /// The most messages that a client gets before it answers, if it does not say how many.
    pub max_inflight: u16,
    /// The highest quality of service.
    pub max_qos: QoS,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            mechanisms: vec![Mechanism::Plain],
            default_login: None,
            default_vhost: "/".to_owned(),
            session_expiry: 7 * 24 * 3600,
            max_inflight: 256,
            max_qos: QoS::ExactlyOnce,
        }
    }
}

/// How the audit log tells of this protocol.
const WORDS: Words = Words {
    protocol: "mqtt",
    login_refused: "MQTT login refused",
    names_mechanism: false,
    refused: "MQTT connection refused",
    opened: "MQTT connection opened",
};

/// What all connections share.
struct Shared {
    broker: Broker,
    settings: Settings,
    claims: Claims,
    sys: Arc<Sys>,
}

impl Shared {
    /// The most bytes of a packet of a client.
    fn largest(&self) -> u32 {
        let payload = u32::try_from(self.broker.limits().max_message_bytes).unwrap_or(u32::MAX);
        // A fixed header has five bytes at most.
        payload.saturating_add(limits::PACKET_BESIDES).min(VARIABLE_MAX + 5)
    }
}

/// MQTT 3.1, 3.1.1 and 5.0.
#[derive(Clone)]
pub struct Mqtt {
    shared: Arc<Shared>,
}

impl Mqtt {
    /// Serves `broker`. What a [`SysPublisher`] publishes through `sys`, its sessions read.
    pub fn new(broker: Broker, settings: Settings, sys: Arc<Sys>) -> Self {
        Self { shared: Arc::new(Shared { broker, settings, claims: Claims::default(), sys }) }
    }
}

impl Protocol for Mqtt {
    fn name(&self) -> &'static str {
        WORDS.protocol
    }

    fn recognise(&self, first: &[u8]) -> Recognition {
        recognise(first)
    }

    fn accept(&self, peer: Peer, waker: Waker, now: Instant) -> Box<dyn wire::Connection> {
        Box::new(Turns(MqttConnection::new(self.shared.clone(), peer, waker, now)))
    }
}

/// A connection opens with the packet CONNECT, and in it the name of the protocol.
fn recognise(first: &[u8]) -> Recognition {
    let Some((&0x10, rest)) = first.split_first() else {
        return if first.is_empty() { Recognition::Incomplete } else { Recognition::No };
    };
    let length = rest.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    if length > 4 {
        return Recognition::No;
    }
    let Some(name) = rest.get(length..) else { return Recognition::Incomplete };
    for known in [&b"\0\x04MQTT"[..], b"\0\x06MQIsdp"] {
        if name.starts_with(known) {
            return Recognition::Yes;
        }
        if known.starts_with(name) {
            return Recognition::Incomplete;
        }
    }
    Recognition::No
}

#[cfg(test)]
mod tests;
