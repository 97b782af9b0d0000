//! What management is told of the server around it: facts that do not change while it runs, and the
//! sockets.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::recent::RecentLog;
use crate::report::ListenerRow;

/// One open socket, as reported by its owner.
#[derive(Debug, Clone)]
pub struct Socket {
    /// Peer and local address, in the form that protocols report to the broker: `1.2.3.4:5 ->
    /// 127.0.0.1:5672`.
    pub peer: String,
    /// Its protocol; empty while it is not known yet.
    pub protocol: &'static str,
    /// When it was accepted.
    pub since: SystemTime,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// The outcome of its TLS handshake, if it uses TLS.
    pub encryption: Option<Encryption>,
}

/// The outcome of a TLS handshake.
#[derive(Debug, Clone, Default)]
pub struct Encryption {
    /// The version, as `TLSv1_3`.
    pub version: String,
    /// The suite of algorithms, as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// Subject, issuer and validity of the peer's certificate, if it has one.
    pub certificate: Option<[String; 3]>,
}

/// How a shovel is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct ShovelStatus {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// How it is doing.
    pub figures: shovel::Figures,
}

/// Gives the open sockets of these peers.
pub(crate) type SomeSockets = dyn Fn(&[&str]) -> Vec<Socket> + Send + Sync;

/// Figures of the sockets, as reported by their owner.
pub struct Network {
    /// The open sockets.
    pub open: Box<dyn Fn() -> Vec<Socket> + Send + Sync>,
    /// Those of these peers, which are named as in [`Socket::peer`].
    pub some: Box<SomeSockets>,
    /// The number of open sockets.
    pub count: Box<dyn Fn() -> usize + Send + Sync>,
    /// How many connections were refused when they were accepted, by reason.
    pub refused: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
    /// How often one connection held up all others of its thread for 100 ms or longer, and likewise
    /// for other watched work, by kind.
    pub long_turns: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
    /// Bytes in the buffers of sockets whose peers have not authenticated.
    pub strangers_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// When the TLS certificate expires.
    pub certificate_ends: Box<dyn Fn() -> Option<SystemTime> + Send + Sync>,
}

/// Facts that do not change while the server runs.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The product that it announces.
    pub product: String,
    /// Version of the server.
    pub version: String,
    /// The version that it announces.
    pub compat_version: String,
    /// Name of the node in RabbitMQ's form: a name, `@`, and the machine.
    pub node: String,
    /// The data directory.
    pub data_dir: String,
    /// The durability class.
    pub durability: String,
    /// The listeners.
    pub listeners: Vec<ListenerRow>,
    /// The names of the protocols that can be served.
    pub protocols: Vec<ProtocolNames>,
    /// When the server started.
    pub started: Instant,
    /// The last lines of its log.
    pub recent: Arc<RecentLog>,
    /// The files of the manual, in the order of their paths.
    pub manual: &'static [Document],
}

/// A file of the manual.
#[derive(Debug, Clone, Copy)]
pub struct Document {
    /// Its path below `/docs/`.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// Its bytes, as gzip packs them.
    pub packed: &'static [u8],
}

/// An effective setting. A secret has no value here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, with dots between the parts.
    pub name: &'static str,
    /// Its value, in the form of the configuration file.
    pub value: String,
    /// Where the value comes from.
    pub origin: String,
}

/// How a protocol is called.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolNames {
    /// Its short name in listeners and logs. Over TLS, an `s` follows it.
    pub name: &'static str,
    /// Its name in RabbitMQ's listings of connections.
    pub listed: &'static str,
    /// Other names by which health checks may ask for it.
    pub also: &'static [&'static str],
}

impl ProtocolNames {
    /// The short name of the listeners that a health check means by `asked`, if it is a name of
    /// this protocol.
    pub(crate) fn listener(&self, asked: &str) -> Option<String> {
        let over_tls = asked.strip_suffix("/ssl").is_some_and(|bare| bare == self.name);
        match over_tls {
            true => Some(format!("{}s", self.name)),
            false => self.also.contains(&asked).then(|| self.name.to_owned()),
        }
    }
}

impl Facts {
    /// Whether a node of this name is this one. Scripts build the name that RabbitMQ would have
    /// from the machine's name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let host = |name: &'_ str| name.split_once('@').map(|(_, host)| host.to_owned());
        name == self.node || (name.starts_with("rabbit@") && host(name) == host(&self.node))
    }
}

/// Host and port of an address.
pub(crate) fn endpoint(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or_default())
}
