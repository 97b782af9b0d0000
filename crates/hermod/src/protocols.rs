//! The table of protocols. A protocol is one row of it: its names, its ports, its own settings, and
//! how to make it.
//!
//! Settings of ports, checks of ports, listeners, RabbitMQ's plugins, health checks and listings
//! derive from the rows. Nothing else in this program or in management names a protocol.

mod amqp091;
mod amqp10;
mod mqtt;
mod stomp;

use std::io;
use std::sync::Arc;

use broker::{Broker, Dialect, Dialects};
use management::{Facts, ProtocolNames};
use net::Registry;
use wire::Protocol;

pub(crate) use self::amqp091::encode;
use crate::config::{ConfigError, Port, Reader, Settings};
use crate::worker::Worker;

/// A protocol that can be served.
pub(crate) struct Served {
    /// How it is called.
    pub(crate) names: ProtocolNames,
    /// RabbitMQ's plugin for it; `None` if RabbitMQ has it without a plugin.
    pub(crate) plugin: Option<&'static str>,
    /// Where clients reach it.
    pub(crate) place: Place,
    /// How pages in browsers can use it; `None` if they can't.
    pub(crate) web: Option<ServedWeb>,
    /// Its names in ALPN (RFC 7301), on ports that serve everything.
    pub(crate) alpn: &'static [&'static str],
    /// The encoding of its messages' properties.
    pub(crate) dialect: fn() -> Arc<dyn Dialect>,
    /// Reads the settings that only this protocol has.
    pub(crate) read: fn(&mut Reader) -> Result<Arc<dyn OwnSettings>, ConfigError>,
}

/// Where clients reach a protocol.
pub(crate) enum Place {
    /// At ports of its own.
    Own {
        /// Its port.
        port: Port,
        /// Its port over TLS.
        secure_port: Port,
    },
    /// At the ports of the protocol of this name. Its first bytes tell it apart.
    Of(&'static str),
}

impl Served {
    /// Its own ports: the plain one, and the one over TLS.
    pub(crate) fn own_ports(&self) -> Option<(&Port, &Port)> {
        match &self.place {
            Place::Own { port, secure_port } => Some((port, secure_port)),
            Place::Of(_) => None,
        }
    }

    /// The place in [`SERVED`] of the protocol whose ports it uses: often its own.
    pub(crate) fn host(&self) -> usize {
        let name = match self.place {
            Place::Own { .. } => self.names.name,
            Place::Of(host) => host,
        };
        // A test checks that each host is there.
        SERVED.iter().position(|served| served.names.name == name).unwrap_or_default()
    }

    /// The place in [`SERVED`] of the protocol whose WebSockets it shares: its own, or that of one
    /// at the same ports.
    pub(crate) fn web_host(&self) -> Option<usize> {
        let shares = |other: &Served| other.web.is_some() && other.host() == self.host();
        SERVED
            .iter()
            .position(|other| other.names.name == self.names.name && other.web.is_some())
            .or_else(|| SERVED.iter().position(shares))
    }
}

/// A protocol over WebSockets.
pub(crate) struct ServedWeb {
    /// The name of its listeners.
    pub(crate) name: &'static str,
    /// The subprotocols of its handshake, the best first.
    pub(crate) subprotocols: &'static [&'static str],
    /// How the server's messages are sent.
    pub(crate) messages: net::WebMessages,
    /// RabbitMQ's plugin for it.
    pub(crate) plugin: &'static str,
    /// The port that RabbitMQ uses.
    pub(crate) usual_port: u16,
    /// Its port.
    pub(crate) port: Port,
    /// Its port over TLS.
    pub(crate) secure_port: Port,
}

/// What the own thread of a protocol uses of the server.
pub(crate) struct Around<'s> {
    pub(crate) broker: &'s Broker,
    pub(crate) registry: &'s Arc<Registry>,
    pub(crate) facts: &'s Facts,
}

/// The settings that only one protocol has.
pub(crate) trait OwnSettings: std::fmt::Debug + Send + Sync {
    /// Makes the server side of the protocol.
    fn make(&self, broker: &Broker, settings: &Settings) -> Arc<dyn Protocol>;
    /// Starts its own thread, if it needs one.
    fn start(&self, _of: &Around<'_>) -> io::Result<Option<Worker>> {
        Ok(None)
    }
    /// Origins of pages that may connect by WebSocket, besides those of the broker's own host.
    fn web_origins(&self) -> &[String] {
        &[]
    }
}

/// All protocols.
pub(crate) static SERVED: &[Served] = &[amqp091::ROW, amqp10::ROW, stomp::ROW, mqtt::ROW];

/// The encodings of all protocols, including those that are turned off: stored messages may have
/// any.
pub(crate) fn dialects() -> Dialects {
    Dialects::new(SERVED.iter().map(|served| (served.dialect)()).collect())
}

/// The protocols' own settings, in the order of [`SERVED`].
pub(crate) fn read_settings(reader: &mut Reader) -> Result<Vec<Arc<dyn OwnSettings>>, ConfigError> {
    SERVED.iter().map(|served| (served.read)(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_port_is_that_of_a_protocol_with_ports() {
        for served in SERVED {
            let host = &SERVED[served.host()];
            assert!(host.own_ports().is_some(), "{}", served.names.name);
            match served.place {
                Place::Own { .. } => assert_eq!(host.names.name, served.names.name),
                Place::Of(name) => assert_eq!(host.names.name, name),
            }
        }
    }
}
