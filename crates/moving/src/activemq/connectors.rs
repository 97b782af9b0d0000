//! Connectors: a URI each, whose scheme says what is spoken.

use roxmltree::Node;

use crate::doors::{self, Door};
use crate::limits::largest_message;
use crate::outcome::{Outcome, Verdict};
use crate::stores::{self, Stores};
use crate::xml::{Xml, elements, filled};

/// Reads all of them, with the certificate of those over TLS.
pub(super) fn convert(xml: &Xml<'_>, connectors: Node<'_, '_>, ssl: Option<Node<'_, '_>>, outcome: &mut Outcome<'_>) {
    let mut reading =
        Reading { doors: Vec::new(), opened: Asked::None, closed: Asked::None, largest: None, most: Vec::new() };
    for connector in elements(connectors) {
        let line = xml.line(connector);
        let name = connector.attribute("name").unwrap_or("connector").to_owned();
        match connector.attribute("uri").map(filled) {
            Some(Some(uri)) => reading.connector(line, &name, &uri, outcome),
            _ => outcome.left_out(line, &name, "its URI has a placeholder without a default, or is missing"),
        }
        for attribute in connector.attributes().filter(|attribute| !matches!(attribute.name(), "name" | "uri")) {
            outcome.needless(line, &format!("{name} {}", attribute.name()), "of a cluster; Hermod has one node so far");
        }
    }
    reading.finish(xml, ssl, outcome);
}

/// Whether clients are asked for certificates. The stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    None,
    Peer,
    Required,
}

impl Asked {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Peer => "peer",
            Self::Required => "required",
        }
    }
}

/// Options of a connector that ask for certificates of clients.
const CLIENT_AUTH: [(&str, Asked); 4] = [
    ("needClientAuth", Asked::Required),
    ("transport.needClientAuth", Asked::Required),
    ("wantClientAuth", Asked::Peer),
    ("transport.wantClientAuth", Asked::Peer),
];

/// What a connector with these options asks for.
fn asked(query: &str) -> Asked {
    let set = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(_, value)| *value == "true");
    let asked = set.filter_map(|(key, _)| CLIENT_AUTH.iter().find(|(name, _)| *name == key));
    asked.map(|(_, asked)| *asked).max().unwrap_or(Asked::None)
}

/// What all connectors come to.
struct Reading {
    doors: Vec<Door>,
    /// What clients of connectors that are opened are asked for, and of those over TLS that are
    /// not.
    opened: Asked,
    closed: Asked,
    /// The largest frame, and where it stands.
    largest: Option<(usize, String, u64)>,
    /// The most connections of each that is opened.
    most: Vec<(usize, String, u64)>,
}

impl Reading {
    fn connector(&mut self, line: usize, name: &str, uri: &str, outcome: &mut Outcome<'_>) {
        let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
        let Some((scheme, rest)) = address.split_once("://") else {
            return outcome.left_out(line, name, "its URI is no SCHEME://HOST:PORT");
        };
        let words: Vec<_> = scheme.split('+').collect();
        let tls = words.contains(&"ssl") || words.contains(&"wss");
        let protocols = match words.iter().find(|word| !matches!(**word, "nio" | "ssl")).copied() {
            Some("stomp") => vec!["stomp"],
            Some("amqp") => vec!["amqp10"],
            Some("mqtt") => vec!["mqtt"],
            Some("ws" | "wss") => vec!["web_stomp"],
            Some("auto") => vec!["amqp10", "stomp", "mqtt"],
            Some("vm") => return outcome.note(line, name, Verdict::Needless, "of programs in the same process"),
            Some("tcp") | None => {
                outcome.warn("clients of OpenWire can't connect; move them to AMQP 1.0 (Qpid JMS), STOMP or MQTT");
                if tls {
                    self.closed = self.closed.max(asked(query));
                }
                return outcome.not_built(line, name, "Hermod does not speak OpenWire");
            }
            Some(other) => return outcome.left_out(line, name, format!("Hermod has no transport {other}")),
        };
        if protocols.contains(&"web_stomp") {
            outcome.warn(format!("{name}: STOMP is spoken over this WebSocket; set ports.web_mqtt for MQTT"));
        }
        let place = rest.split('/').next().and_then(|place| place.rsplit_once(':'));
        let Some((host, port)) = place.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?))) else {
            return outcome.left_out(line, name, "its URI has no port that is a number");
        };
        let most = self.options(line, name, query, outcome);
        self.opened = self.opened.max(asked(query));
        self.most.extend(most.map(|most| (line, name.to_owned(), most)));
        self.doors.push(Door { line, name: name.to_owned(), host, port, protocols, tls, most: None });
    }

    /// Reads the options of one, and returns its most connections.
    fn options(&mut self, line: usize, name: &str, query: &str, outcome: &mut Outcome<'_>) -> Option<u64> {
        let mut most = None;
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let label = format!("{name}?{key}");
            match (key, value.parse::<u64>()) {
                ("maximumConnections", Ok(number)) => {
                    most = Some(number);
                    outcome.moved(line, &label, "limits.connections, the sum of all");
                }
                ("wireFormat.maxFrameSize", Ok(size)) => {
                    if self.largest.as_ref().is_none_or(|(_, _, largest)| *largest < size) {
                        self.largest = Some((line, label, size));
                    } else {
                        outcome.note(line, &label, Verdict::Shipped, "the largest one of all counts");
                    }
                }
                (key, _) if CLIENT_AUTH.iter().any(|(name, _)| *name == key) && value == "true" => {
                    outcome.moved(line, &label, "tls.verify");
                }
                ("transport.enabledProtocols", _) => {
                    let least = if value.contains("1.2") { "1.2" } else { "1.3" };
                    outcome.set(line, &label, "tls.least_version", least);
                }
                _ => outcome.note(line, &label, Verdict::Shipped, "Hermod tunes this by itself"),
            }
        }
        most
    }

    fn finish(mut self, xml: &Xml<'_>, ssl: Option<Node<'_, '_>>, outcome: &mut Outcome<'_>) {
        if let Some(ssl) = ssl {
            let context =
                ssl.descendants().find(|node| node.is_element() && node.attribute("keyStore").is_some()).unwrap_or(ssl);
            let get = |key: &str| context.attribute(key).map(str::to_owned);
            // Who opens a port by hand later asks for no less than what the file did.
            let is_open = self.doors.iter().any(|door| door.tls);
            let verify = if is_open { self.opened } else { self.opened.max(self.closed) };
            let pkcs12 = get("keyStoreType").is_some_and(|kind| kind.eq_ignore_ascii_case("PKCS12"));
            let stores = Stores {
                line: xml.line(context),
                key: get("keyStore"),
                key_password: get("keyStorePassword"),
                trust: get("trustStore"),
                trust_password: get("trustStorePassword"),
                pkcs12,
                verify: Some(verify.word()),
            };
            stores::convert(&stores, outcome);
        }
        if outcome.setting("tls.certificate").is_none() {
            for door in self.doors.iter().filter(|door| door.tls) {
                outcome.left_out(
                    door.line,
                    &door.name,
                    "without a certificate it can't be opened; set tls.certificate",
                );
            }
            self.doors.retain(|door| !door.tls);
        }
        doors::open(&self.doors, outcome);
        if let Some((line, label, size)) = self.largest {
            largest_message(line, &label, size, outcome);
        }
        let sum: u64 = self.most.iter().fold(0, |sum, (_, _, most)| sum.saturating_add(*most));
        if let Some((line, name, _)) = self.most.first() {
            outcome.set(*line, &format!("{name}?maximumConnections"), "limits.connections", sum.to_string());
        }
    }
}
