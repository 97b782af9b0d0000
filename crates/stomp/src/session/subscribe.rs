//! SUBSCRIBE and UNSUBSCRIBE: consumers of the broker.
//!
//! A header that would change which messages arrive, or how, is refused by name as long as it is not built.

use std::borrow::Cow;
use std::time::Instant;

use broker::{Consume, Prefetch, Table, Value};

use wire::Output;

use super::deliver::Tag;
use super::destination::Destination;
use super::error::Failure;
use super::open::Session;
use crate::client::AckMode;
use crate::codec::{Command, Frame, Headers};

/// Headers of this and other brokers that mean something and are not built.
const NOT_BUILT: [&str; 18] = [
    "selector",
    "no-local",
    "browser",
    "transformation",
    "durable-subscription-name",
    "durable-subscriber-name",
    "subscription-type",
    "destination-type",
    "consumer-window-size",
    "x-stream-offset",
    "x-stream-filter",
    "x-stream-match-unfiltered",
    "activemq.subscriptionName",
    "activemq.subcriptionName",
    "activemq.exclusive",
    "activemq.noLocal",
    "activemq.priority",
    "activemq.retroactive",
];

fn refuse_not_built(headers: &Headers<'_>, destination: &Destination<'_>) -> Result<(), Failure> {
    for name in NOT_BUILT {
        if headers.get(name).is_some() {
            return Err(Failure::not_built(Command::Subscribe, name));
        }
    }
    let lasts = matches!(destination, Destination::Queue(_) | Destination::ExistingQueue(_));
    for name in ["durable", "persistent"] {
        if !lasts && headers.get(name).as_deref() == Some("true") {
            return Err(Failure::new(
                "not_implemented",
                format!(
                    "header '{name}' asks for a durable subscription, which is not supported yet; bind a durable queue \
                     to the exchange and subscribe to /amq/queue/NAME"
                ),
            ));
        }
    }
    Ok(())
}

/// How many deliveries may be unsettled at a time; 0 is without limit.
fn prefetch(headers: &Headers<'_>) -> Result<u32, Failure> {
    for name in ["prefetch-count", "activemq.prefetchSize"] {
        if let Some(value) = headers.get(name) {
            return value.trim().parse().map_err(|_| Failure::invalid(name, "a number of messages", &value));
        }
    }
    Ok(0)
}

fn ack_mode(headers: &Headers<'_>) -> Result<AckMode, Failure> {
    match headers.get("ack") {
        None => Ok(AckMode::Auto),
        Some(mode) => {
            AckMode::parse(&mode).ok_or_else(|| Failure::invalid("ack", "auto, client or client-individual", &mode))
        }
    }
}

fn consumer_arguments(headers: &Headers<'_>) -> Result<Table, Failure> {
    let mut arguments = Table::default();
    if let Some(value) = headers.get("x-priority") {
        let priority = value.trim().parse().map_err(|_| Failure::invalid("x-priority", "a number", &value))?;
        arguments.set("x-priority", Value::I32(priority));
    }
    Ok(arguments)
}

/// The name of the subscription that a frame is about: its id, or its destination where a client of STOMP 1.0 gives
/// none.
fn tag<'a>(frame: &Frame<'a>) -> Result<Tag<'a>, Failure> {
    if let Some(id) = frame.headers.get("id") {
        return Ok(Tag::Id(id));
    }
    match frame.headers.get("destination") {
        Some(destination) => Ok(Tag::Destination(destination)),
        None => Err(Failure::new(
            "Missing destination or id",
            format!("{} must include a 'destination' or 'id' header", frame.command.as_str()),
        )),
    }
}

impl Session {
    pub(super) fn subscribe(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), Failure> {
        let headers = &frame.headers;
        let destination: Cow<'_, str> =
            headers.get("destination").ok_or_else(|| Failure::missing(Command::Subscribe, "destination"))?;
        let destination = Destination::parse(&destination)?;
        refuse_not_built(headers, &destination)?;
        let tag = tag(frame)?;
        if self.deliveries.contains(&tag) {
            return Err(Failure::new(
                "Duplicated subscription identifier",
                format!("A subscription identified by '{}' already exists.", tag.as_str()),
            ));
        }
        let mode = ack_mode(headers)?;
        let prefetch = prefetch(headers)?;
        let arguments = consumer_arguments(headers)?;
        let (queue, ticket) = self.source(&destination, headers, now)?;
        self.client.set_prefetch(self.id, prefetch, Prefetch::NewConsumers, now);
        let consumer = self.deliveries.add(&tag, mode);
        let consume = Consume { queue, tag: consumer, no_ack: mode == AckMode::Auto, exclusive: false, arguments };
        self.client.consume(self.id, consume, now)?;
        self.fence(frame, ticket);
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, frame: &Frame<'_>, output: &mut Output, now: Instant) -> Result<(), Failure> {
        let tag = tag(frame)?;
        if !self.deliveries.contains(&tag) {
            return Err(Failure::new(
                "No subscription found",
                format!(
                    "UNSUBSCRIBE must refer to an existing subscription. Subscription to '{}' not found.",
                    tag.as_str()
                ),
            ));
        }
        let ticket = self.cancel(&tag.consumer(), output, now)?;
        self.deliveries.remove(&tag);
        self.fence(frame, ticket);
        Ok(())
    }
}
