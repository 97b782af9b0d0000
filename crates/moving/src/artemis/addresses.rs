//! Addresses and their queues. A queue of an anycast address is a queue; one of a multicast address
//! is bound to the topic of its name.

use roxmltree::Node;
use serde_json::Value;

use crate::outcome::Outcome;
use crate::xml::{Xml, child, elements, name, text};

/// Reads `<addresses>`.
pub(super) fn convert(xml: &Xml<'_>, addresses: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for address in elements(addresses) {
        let line = xml.line(address);
        let Some(called) = address.attribute("name").filter(|_| name(address) == "address") else {
            outcome.left_out(line, name(address), "expected an address with a name");
            continue;
        };
        for kind in elements(address) {
            match name(kind) {
                "anycast" => anycast(xml, called, kind, outcome),
                "multicast" => multicast(xml, called, kind, outcome),
                other => outcome.left_out(xml.line(kind), other, "addresses have anycast and multicast"),
            }
        }
        if elements(address).next().is_none() {
            outcome.needless(line, called, "queues and topics need no address of their own");
        }
    }
}

fn anycast(xml: &Xml<'_>, address: &str, kind: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    let queues: Vec<_> = elements(kind).collect();
    for queue in &queues {
        let called = queue.attribute("name").unwrap_or(address);
        declare(xml.line(*queue), called, *queue, outcome);
        if called != address {
            outcome.warn(format!("queue {called}: it had the address {address}; clients send to the queue's own name"));
        }
    }
    if queues.len() > 1 {
        outcome
            .warn(format!("address {address}: a message went to one of its queues; here each is a queue of its own"));
    }
    if queues.is_empty() {
        outcome.definitions.queue(address);
        outcome.moved(xml.line(kind), address, "a queue in the definitions");
    }
}

fn multicast(xml: &Xml<'_>, address: &str, kind: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for queue in elements(kind) {
        let called = queue.attribute("name").unwrap_or(address);
        let line = xml.line(queue);
        declare(line, called, queue, outcome);
        if has_filter(queue) {
            let text = format!("its queue {called} is not bound: a binding has no filter; use a consumer's selector");
            outcome.left_out(line, address, text);
        } else {
            outcome.definitions.bind(address, called);
        }
    }
    if elements(kind).next().is_none() {
        outcome.needless(xml.line(kind), address, "a topic needs no declaration");
    }
}

fn has_filter(queue: Node<'_, '_>) -> bool {
    child(queue, "filter").is_some_and(|filter| filter.attribute("string").is_some_and(|text| !text.trim().is_empty()))
}

/// A queue with its arguments.
fn declare(line: usize, called: &str, queue: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    outcome.definitions.queue(called);
    let arguments = outcome.definitions.queues.entry(called.to_owned()).or_default();
    let mut left_out = Vec::new();
    for attribute in queue.attributes() {
        match (attribute.name(), attribute.value()) {
            ("name", _) | (_, "false" | "-1" | "0") => {}
            ("exclusive", "true") => {
                arguments.insert("x-single-active-consumer".to_owned(), Value::Bool(true));
            }
            ("last-value", "true") => {
                arguments.entry("x-last-value-key").or_insert_with(|| "_AMQ_LVQ_NAME".into());
            }
            ("last-value-key", key) => {
                arguments.insert("x-last-value-key".to_owned(), key.into());
            }
            ("enabled" | "user" | "auto-delete-delay" | "auto-delete-message-count", _) => {}
            (other, _) => left_out.push(other.to_owned()),
        }
    }
    outcome.moved(line, called, "a queue in the definitions");
    for attribute in left_out {
        outcome.left_out(line, &format!("{called} {attribute}"), "queues have no such argument");
    }
}

/// Queues and topics of the old part `<jms>`.
pub(super) fn of_jms(xml: &Xml<'_>, jms: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for item in elements(jms) {
        let line = xml.line(item);
        match (name(item), item.attribute("name")) {
            ("queue", Some(called)) => {
                outcome.definitions.queue(called);
                outcome.moved(line, called, "a queue in the definitions");
            }
            ("topic", Some(called)) => outcome.needless(line, called, "a topic needs no declaration"),
            (other, _) => outcome.left_out(line, other, "only queues and topics are read here"),
        }
    }
}

/// Queues of the old part `<queues>`.
pub(super) fn of_core(xml: &Xml<'_>, queues: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for queue in elements(queues) {
        let line = xml.line(queue);
        let called = queue.attribute("name").unwrap_or_default();
        if called.is_empty() {
            outcome.left_out(line, "queue", "it has no name");
            continue;
        }
        declare(line, called, queue, outcome);
        match child(queue, "address").map(text) {
            Some(address) if address != called && !has_filter(queue) => outcome.definitions.bind(&address, called),
            _ => {}
        }
    }
}
