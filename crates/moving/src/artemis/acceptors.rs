//! Acceptors: a URI each, with protocols and TLS among its parameters.

use std::collections::BTreeMap;

use roxmltree::Node;

use crate::doors::{self, Door};
use crate::outcome::{Outcome, Verdict};
use crate::stores::{self, Stores};
use crate::xml::{Xml, elements, filled, text};

/// Protocols of an acceptor that names none.
const ALL: &str = "CORE,AMQP,STOMP,HORNETQ,MQTT,OPENWIRE";
/// Parameters that need nothing.
const SHIPPED: &[&str] = &[
    "tcpSendBufferSize",
    "tcpReceiveBufferSize",
    "useEpoll",
    "useKQueue",
    "batchDelay",
    "directDeliver",
    "minLargeMessageSize",
    "remotingThreads",
    "nioRemotingThreads",
    "tcpNoDelay",
    "tcpKeepAlive",
    "supportAdvisory",
    "suppressInternalManagementObjects",
    "stompEnableMessageId",
    "anycastPrefix",
    "multicastPrefix",
    "protocols",
    "virtualTopicConsumerWildcards",
];

/// Reads all of them.
pub(super) fn convert(xml: &Xml<'_>, acceptors: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let mut doors = Vec::new();
    let mut stores: Option<Stores> = None;
    for acceptor in elements(acceptors) {
        let line = xml.line(acceptor);
        let name = acceptor.attribute("name").unwrap_or("acceptor").to_owned();
        let (address, parameters) = split(&text(acceptor));
        let Some(address) = filled(&address).filter(|address| !address.is_empty()) else {
            outcome.left_out(line, &name, "its address has a placeholder without a default, or is missing");
            continue;
        };
        if address.starts_with("vm://") || address.starts_with("invm://") {
            outcome.note(line, &name, Verdict::Needless, "of programs in the same process");
            continue;
        }
        let Some((host, port)) = host_and_port(&address) else {
            outcome.left_out(line, &name, "its address is no tcp://HOST:PORT");
            continue;
        };
        let tls = parameters.get("sslEnabled").is_some_and(|value| value == "true");
        if tls {
            one_certificate(line, &name, &parameters, &mut stores, outcome);
        }
        others(line, &name, &parameters, outcome);
        let protocols = protocols(line, &name, &parameters, outcome);
        let most = parameters.get("connectionsAllowed").and_then(|most| most.parse().ok());
        doors.push(Door { line, name, host, port, protocols, tls, most });
    }
    if let Some(stores) = &stores {
        stores::convert(stores, outcome);
        if outcome.setting("tls.certificate").is_none() {
            for door in doors.iter().filter(|door| door.tls) {
                outcome.left_out(
                    door.line,
                    &door.name,
                    "without a certificate it can't be opened; set tls.certificate",
                );
            }
            doors.retain(|door| !door.tls);
        }
    }
    doors::open(&doors, outcome);
}

/// The address, and the parameters behind the question mark.
fn split(uri: &str) -> (String, BTreeMap<String, String>) {
    let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
    let pairs = query.split([';', '&']).filter_map(|pair| pair.split_once('='));
    let filled = |value: &str| filled(value).unwrap_or_else(|| value.to_owned());
    (address.trim().to_owned(), pairs.map(|(name, value)| (name.trim().to_owned(), filled(value.trim()))).collect())
}

fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (scheme, rest) = address.split_once("://")?;
    let rest = rest.split(['/', ',']).next()?;
    let (host, port) = rest.rsplit_once(':')?;
    (scheme == "tcp" || scheme == "netty").then_some(())?;
    Some((host.to_owned(), port.trim().parse().ok()?))
}

/// The protocols that are spoken here too; the others are named.
fn protocols(
    line: usize,
    name: &str,
    parameters: &BTreeMap<String, String>,
    outcome: &mut Outcome<'_>,
) -> Vec<&'static str> {
    let listed = parameters.get("protocols").map_or(ALL, String::as_str);
    let mut spoken = Vec::new();
    let mut unknown = Vec::new();
    for protocol in listed.split(',').map(str::trim).filter(|protocol| !protocol.is_empty()) {
        match doors::protocol(protocol) {
            Some(here) => spoken.push(here),
            None => unknown.push(protocol.to_ascii_uppercase()),
        }
    }
    if spoken.is_empty() {
        let text = format!("Hermod does not speak {}; move its clients to AMQP 1.0", unknown.join(", "));
        outcome.not_built(line, name, text);
    } else if !unknown.is_empty() {
        outcome.warn(format!("clients of {} can't connect; move them to AMQP 1.0, STOMP or MQTT", unknown.join(", ")));
    }
    spoken
}

/// Hermod's listeners share one certificate unless they name files; the first acceptor's counts.
fn one_certificate(
    line: usize,
    name: &str,
    parameters: &BTreeMap<String, String>,
    stores: &mut Option<Stores>,
    outcome: &mut Outcome<'_>,
) {
    let get = |key: &str| parameters.get(key).cloned();
    let is = |key: &str| parameters.get(key).is_some_and(|value| value == "true");
    let verify = if is("needClientAuth") {
        "required"
    } else if is("wantClientAuth") {
        "peer"
    } else {
        "none"
    };
    let kind = get("keyStoreType").or_else(|| get("keyStoreProvider"));
    let found = Stores {
        line,
        key: get("keyStorePath"),
        key_password: get("keyStorePassword"),
        trust: get("trustStorePath"),
        trust_password: get("trustStorePassword"),
        pkcs12: kind.is_some_and(|kind| kind.eq_ignore_ascii_case("PKCS12")),
        verify: Some(verify),
    };
    match stores {
        None => *stores = Some(found),
        Some(first) if Stores { line: first.line, ..found.clone() } == *first => {}
        Some(first) => {
            outcome.left_out(line, name, "its certificate differs from the first one's; write it into its listener");
            // The stricter of both is asked for.
            if verify == "required" {
                first.verify = Some("required");
            }
        }
    }
}

/// Parameters besides protocols and stores.
fn others(line: usize, name: &str, parameters: &BTreeMap<String, String>, outcome: &mut Outcome<'_>) {
    for (key, value) in parameters {
        let label = format!("{name}?{key}");
        match key.as_str() {
            known if SHIPPED.contains(&known) || known.starts_with("amqp") => {
                outcome.note(line, &label, Verdict::Shipped, "Hermod tunes this by itself")
            }
            "sslEnabled" | "connectionsAllowed" => outcome.moved(line, &label, "a part of its listener"),
            "saslMechanisms" => outcome.set(line, &label, "auth_mechanisms", value.as_str()),
            "enabledProtocols" => {
                let least = if value.contains("1.2") { "1.2" } else { "1.3" };
                outcome.set(line, &label, "tls.least_version", least);
            }
            "enabledCipherSuites" | "sslProvider" | "verifyHost" | "sniHost" => {
                outcome.needless(line, &label, "weak ciphers are not offered");
            }
            "trustStoreType" | "trustStoreProvider" => outcome.needless(line, &label, "the kind is seen in the file"),
            store if store.starts_with("keyStore") || store.starts_with("trustStore") => {}
            "needClientAuth" | "wantClientAuth" => {}
            of_openwire if of_openwire.starts_with("wireFormat.") => {
                outcome.needless(line, &label, "of OpenWire, which is not spoken");
            }
            "defaultMqttSessionExpiryInterval" => {
                outcome.set(line, &label, "mqtt.session_expiry", format!("{value} s"));
            }
            other
                if other.starts_with("autoCreate")
                    || other.starts_with("heartBeat")
                    || other.starts_with("connection") =>
            {
                outcome.needless(line, &label, "heartbeats are those of limits.heartbeat and of the client");
            }
            _ => outcome.left_out(line, &label, "a listener has no such setting"),
        }
    }
}
