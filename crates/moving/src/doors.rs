//! Acceptors of Artemis and connectors of ActiveMQ as listeners. A port that neither had is closed.

use crate::outcome::{Listener, Outcome};

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) line: usize,
    /// What the source calls it.
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Those that Hermod speaks.
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) tls: bool,
    pub(crate) most: Option<u64>,
}

/// Protocols by their settings of ports, plain and over TLS.
const PORTS: [(&str, &str, &str); 4] = [
    ("amqp10", "ports.amqp", "ports.amqps"),
    ("stomp", "ports.stomp", "ports.stomps"),
    ("mqtt", "ports.mqtt", "ports.mqtts"),
    ("web_stomp", "ports.web_stomp", "ports.web_stomps"),
];

/// Who speaks all of these on one port speaks them over WebSockets as well, there and here.
const EVERYTHING: [&str; 3] = ["amqp10", "stomp", "mqtt"];

/// The address that a host means: `*` for all.
fn address(host: &str) -> Option<String> {
    match host {
        "0.0.0.0" | "::" | "[::]" | "*" => Some("*".to_owned()),
        "localhost" => Some("127.0.0.1".to_owned()),
        host => {
            let host = host.trim_matches(['[', ']']);
            host.parse::<std::net::IpAddr>().ok().map(|address| address.to_string())
        }
    }
}

/// Opens all of them.
pub(crate) fn open(doors: &[Door], outcome: &mut Outcome<'_>) {
    let mut kept: Vec<(&Door, String)> = Vec::new();
    for door in doors {
        match address(&door.host) {
            _ if door.protocols.is_empty() => {}
            _ if door.port == 0 => {
                outcome.left_out(door.line, &door.name, "a port of 0 is any free one; name the port")
            }
            Some(address) => kept.push((door, address)),
            None => {
                outcome.left_out(
                    door.line,
                    &door.name,
                    "listeners are at IP addresses: write that of its host as bind",
                );
            }
        }
    }
    // A door that is taken twice is none: Hermod would not start.
    let mut taken: Vec<(u16, String)> = Vec::new();
    kept.retain(|(door, address)| {
        let clash = taken
            .iter()
            .any(|(port, other)| *port == door.port && (other == address || other == "*" || address == "*"));
        if clash {
            outcome.left_out(door.line, &door.name, "another one here has its port");
        } else {
            taken.push((door.port, address.clone()));
        }
        !clash
    });
    if let Some((_, bind)) = kept.first() {
        outcome.put("bind", bind.clone());
        if bind == "*" && taken.iter().all(|(port, _)| *port != 15672) {
            outcome.warn("HTTP listens where the others do, at port 15672, with log-in: ports.http = 0 closes it");
        }
    }
    for (protocol, plain, secure) in PORTS {
        short_form(&mut kept, protocol, plain, secure, outcome);
    }
    for (door, address) in &kept {
        outcome.moved(door.line, &door.name, format!("the listener {}", door.name));
        let everything = EVERYTHING.iter().all(|protocol| door.protocols.contains(protocol));
        // A port for everything has TLS wherever there is a certificate, unless it is told.
        let is_told = door.tls || (everything && outcome.setting("tls.certificate").is_some());
        let tls = is_told.then_some(("tls", toml::Value::Boolean(door.tls)));
        let most = door.most.and_then(|most| i64::try_from(most).ok());
        let most = most.map(|most| ("max_connections", toml::Value::Integer(most)));
        outcome.listen(Listener {
            name: door.name.clone(),
            protocols: if everything { vec!["any"] } else { door.protocols.clone() },
            bind: Some(address.clone()),
            port: door.port,
            fields: tls.into_iter().chain(most).collect(),
        });
    }
    outcome.put("ports.https", "0");
}

/// The first listener of this protocol alone is the setting of its port; without one it is closed.
fn short_form(
    kept: &mut Vec<(&Door, String)>,
    protocol: &'static str,
    plain: &'static str,
    secure: &'static str,
    outcome: &mut Outcome<'_>,
) {
    for (setting, tls) in [(plain, false), (secure, true)] {
        let bind = outcome.setting("bind").map(str::to_owned);
        let found = kept.iter().position(|(door, address)| {
            door.protocols == [protocol] && door.tls == tls && door.most.is_none() && Some(address) == bind.as_ref()
        });
        match found {
            Some(index) => {
                let (door, _) = kept.remove(index);
                outcome.set(door.line, &door.name, setting, door.port.to_string());
            }
            None => outcome.put(setting, "0"),
        }
    }
}

/// Whether a protocol of the other broker is spoken here.
pub(crate) fn protocol(name: &str) -> Option<&'static str> {
    match name.to_ascii_uppercase().as_str() {
        "AMQP" => Some("amqp10"),
        "STOMP" => Some("stomp"),
        "MQTT" => Some("mqtt"),
        _ => None,
    }
}
