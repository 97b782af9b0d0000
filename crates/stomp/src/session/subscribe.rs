//! SUBSCRIBE and UNSUBSCRIBE: consumers of the broker.
//!
//! A header that is not implemented, and would change which messages arrive or how, is refused by
//! name.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Instant;

use broker::{Consume, ConsumerArguments, Credit, Mode, Source, Ticket};

use wire::Output;

use super::declare;
use super::deliver::Tag;
use super::destination::{self, Destination, Routing};
use super::durable::{Durable, Subscriber, is_durable};
use super::error::Failure;
use super::open::Session;
use crate::client::AckMode;
use crate::codec::{Command, Frame, Headers};

/// Headers of other brokers whose features are not implemented.
const NOT_BUILT: [&str; 6] = [
    "transformation",
    "consumer-window-size",
    "x-stream-offset",
    "x-stream-filter",
    "x-stream-match-unfiltered",
    "activemq.retroactive",
];

/// Headers by which a subscription leaves out what its own connection sends.
const NO_LOCAL: [&str; 2] = ["no-local", "activemq.noLocal"];

/// Headers of a subscription that begin like arguments of queues and are none.
const OWN: [&str; 3] = ["x-queue-name", "x-priority", declare::RETAINED];

fn refuse_not_built(headers: &Headers<'_>) -> Result<(), Failure> {
    let asked = NOT_BUILT.into_iter().find(|name| headers.get(name).is_some_and(|value| value != "false"));
    asked.map_or(Ok(()), |name| Err(Failure::not_built(Command::Subscribe, name)))
}

/// A misspelt header would declare another queue, or take other messages, than was meant. A
/// SUBSCRIBE has no message that could have headers of its own.
fn refuse_unknown(headers: &Headers<'_>) -> Result<(), Failure> {
    let known =
        |name: &str| OWN.contains(&name) || NOT_BUILT.contains(&name) || declare::argument(headers, name).is_some();
    match headers.raw().find(|(name, _)| name.starts_with("x-") && !known(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::new(
            "Unknown header",
            format!(
                "header '{name}' of SUBSCRIBE means nothing here; headers of the application must not begin with x-"
            ),
        )),
    }
}

/// Only a topic or another exchange has retained messages.
fn refuse_retained_of_queue(headers: &Headers<'_>, destination: &Destination<'_>) -> Result<(), Failure> {
    let has_topics = matches!(destination, Destination::Topic(_) | Destination::Exchange(..));
    if has_topics || headers.get(declare::RETAINED).is_none() {
        return Ok(());
    }
    let detail =
        format!("header '{}' is for a topic or an exchange, whose messages can be retained", declare::RETAINED);
    Err(Failure::new("Invalid destination", detail))
}

/// The largest number of unsettled deliveries; 0 is without limit.
fn window(headers: &Headers<'_>) -> Result<Option<NonZeroU32>, Failure> {
    for name in ["prefetch-count", "activemq.prefetchSize"] {
        if let Some(value) = headers.get(name) {
            let count = value.trim().parse().map_err(|_| Failure::invalid(name, "a number of messages", &value))?;
            return Ok(NonZeroU32::new(count));
        }
    }
    Ok(None)
}

fn ack_mode(headers: &Headers<'_>) -> Result<AckMode, Failure> {
    match headers.get("ack") {
        None => Ok(AckMode::Auto),
        Some(mode) => {
            AckMode::parse(&mode).ok_or_else(|| Failure::invalid("ack", "auto, client or client-individual", &mode))
        }
    }
}

/// Whether a subscription leaves out what its own connection sends. A durable one outlives the
/// connection, so it leaves out what its client sends, which CONNECT has to name.
fn no_local(headers: &Headers<'_>, durable: Option<&Durable>, client: Option<&str>) -> Result<bool, Failure> {
    for name in NO_LOCAL {
        match headers.get(name).as_deref() {
            None | Some("false") => {}
            Some("true") if durable.is_some() && client.is_none() => {
                return Err(Failure::missing(Command::Connect, "client-id"));
            }
            Some("true") => return Ok(true),
            Some(other) => return Err(Failure::invalid(name, "true or false", other)),
        }
    }
    Ok(false)
}

/// A prefix of a selector. With it, headers, which are text, count as numbers if they are compared
/// with a number. ActiveMQ reads the selectors of STOMP like this.
const CONVERTS: &str = "convert_string_expressions:";

fn consumer_arguments(headers: &Headers<'_>) -> Result<ConsumerArguments, Failure> {
    let mut arguments = ConsumerArguments::default();
    if let Some(selector) = headers.get("selector") {
        let selector = selector.strip_prefix(CONVERTS).unwrap_or(&selector);
        arguments.selector = format!("{CONVERTS}{selector}");
    }
    for name in ["x-priority", "activemq.priority"] {
        if let Some(value) = headers.get(name) {
            arguments.priority = value.trim().parse().map_err(|_| Failure::invalid(name, "a number", &value))?;
        }
    }
    Ok(arguments)
}

/// The destination of a browser, which is a queue; `None` for a subscription that takes messages.
fn browsed(headers: &Headers<'_>, destination: &Destination<'_>, mode: AckMode) -> Result<Option<String>, Failure> {
    match headers.get("browser").as_deref() {
        None | Some("false") => return Ok(None),
        Some("true") => {}
        Some(other) => return Err(Failure::invalid("browser", "true or false", other)),
    }
    if mode != AckMode::Auto {
        return Err(Failure::invalid("ack", "auto for a browser, which settles nothing", mode.as_str()));
    }
    if !destination.lasts() {
        let detail = "a browser sees what waits in a queue; subscribe to /queue/NAME or /amq/queue/NAME";
        return Err(Failure::new("Invalid destination", detail));
    }
    let (exchange, key) = destination.address();
    let mut shown = String::new();
    destination::show(exchange, key, &mut shown);
    Ok(Some(shown))
}

/// The name of a frame's subscription: its id, or its destination if a client of STOMP 1.0 gives
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
        let routing = headers.get("subscription-type").map(|value| Routing::parse("subscription-type", &value));
        let written = destination;
        let destination = Destination::parse(&written, routing.transpose()?)?;
        refuse_not_built(headers)?;
        refuse_unknown(headers)?;
        let tag = tag(frame)?;
        if self.deliveries.contains(&tag) {
            return Err(Failure::new(
                "Duplicated subscription identifier",
                format!("A subscription identified by '{}' already exists.", tag.as_str()),
            ));
        }
        let mode = ack_mode(headers)?;
        let window = window(headers)?;
        let mut arguments = consumer_arguments(headers)?;
        let browsed = browsed(headers, &destination, mode)?;
        refuse_retained_of_queue(headers, &destination)?;
        if browsed.is_some() {
            arguments.mode = Mode::Browse;
        }
        let durable = Durable::find(headers, &destination, self.subscriber())?;
        let no_local = no_local(headers, durable.as_ref(), self.client_id.as_deref())?;
        let is_durable = durable.is_some();
        let (source, ticket) = self.source(&destination, durable, headers, &arguments.selector, now)?;
        if matches!(source, Source::Subscription(_)) {
            arguments.selector.clear();
        }
        self.client.show_window(self.id, window);
        let consumer = self.deliveries.add(&tag, mode, browsed);
        if is_durable {
            self.deliveries.note_destination(&tag, &written);
        }
        let consume = Consume {
            source,
            tag: consumer,
            no_ack: mode == AckMode::Auto,
            exclusive: headers.get("activemq.exclusive").as_deref() == Some("true"),
            no_local,
            credit: Credit::Window { most: window },
            arguments: Ok(arguments),
        };
        self.client.consume(self.id, consume, now)?;
        self.fence(frame, ticket);
        Ok(())
    }

    fn subscriber(&self) -> Subscriber<'_> {
        Subscriber { client: self.client_id.as_deref(), version: self.version }
    }

    pub(super) fn unsubscribe(&mut self, frame: &Frame<'_>, output: &mut Output, now: Instant) -> Result<(), Failure> {
        // A durable subscription ends by its name, whether or not it is in use here.
        let named = Durable::named(&frame.headers, self.subscriber())?;
        let tag = tag(frame);
        let known = tag.as_ref().is_ok_and(|tag| self.deliveries.contains(tag));
        let ends = match (&named, known) {
            (Some(_), _) => named,
            (None, true) if is_durable(&frame.headers) => self.ends(&frame.headers, tag.as_ref().ok())?,
            _ => None,
        };
        if !known && ends.is_none() {
            let tag = tag?;
            return Err(Failure::new(
                "No subscription found",
                format!(
                    "UNSUBSCRIBE must refer to an existing subscription. Subscription to '{}' not found.",
                    tag.as_str()
                ),
            ));
        }
        let mut ticket = Ticket::NONE;
        if let Some(tag) = tag.ok().filter(|_| known) {
            ticket = self.cancel(&tag.consumer(), output, now)?;
            self.deliveries.remove(&tag);
        }
        if let Some(durable) = ends {
            ticket = ticket.max(self.client.unsubscribe(&durable.name, &durable.queue, now)?);
        }
        self.fence(frame, ticket);
        Ok(())
    }

    /// The durable subscription that an UNSUBSCRIBE with RabbitMQ's headers ends.
    fn ends(&self, headers: &Headers<'_>, tag: Option<&Tag<'_>>) -> Result<Option<Durable>, Failure> {
        let written = headers.get("destination");
        let subscribed = tag.and_then(|tag| self.deliveries.destination_of(tag)).map(Cow::Borrowed);
        let Some(written) = written.or(subscribed) else { return Ok(None) };
        Durable::find(headers, &Destination::parse(&written, None)?, self.subscriber())
    }
}
