//! Subscriptions and their MESSAGE frames.
//!
//! A delivery is named `SESSION-SUBSCRIPTION-TAG`, in `message-id` and in `ack`. So a delivery of
//! another connection is recognised. So is the subscription of a cumulative ACK, even after its
//! end.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use broker::{Delivery, Dialects, Overlay};
use memchr::memchr;
use wire::Output;

use super::destination;
use super::error::Failure;
use crate::client::AckMode;
use crate::codec::{Command, FrameWriter, Spoken, Version};
use crate::{dialect, limits};

/// The name of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// Its `id`.
    Id(Cow<'a, str>),
    /// Its destination, if a client of STOMP 1.0 gives no id.
    Destination(Cow<'a, str>),
}

impl Tag<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Id(text) | Self::Destination(text) => text,
        }
    }

    /// The broker's consumer tag. The prefixes, which are RabbitMQ's, keep ids and destinations
    /// apart.
    pub(super) fn consumer(&self) -> String {
        match self {
            Self::Id(id) => format!("T_{id}"),
            Self::Destination(destination) => format!("Q_{destination}"),
        }
    }
}

/// The name of a delivery of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    subscription: u32,
    tag: u64,
}

#[derive(Debug)]
struct Subscription {
    number: u32,
    mode: AckMode,
    /// The destination of a browser.
    browsed: Option<String>,
    /// The destination of a durable subscription, as SUBSCRIBE wrote it.
    written: Option<String>,
    /// The first lines of each of its MESSAGE frames.
    lines: Vec<u8>,
}

/// Deliveries that a cumulative ACK may settle.
#[derive(Debug, Default)]
struct Cumulative {
    /// Unsettled ones, in order of delivery.
    tags: VecDeque<u64>,
    /// Whether the subscription has ended; its deliveries can still be settled.
    ended: bool,
}

/// The subscriptions of one session.
#[derive(Debug)]
pub(super) struct Deliveries {
    session: String,
    spoken: Spoken,
    by_consumer: HashMap<String, Subscription>,
    /// The subscriptions of mode `client`, by number.
    cumulative: HashMap<u32, Cumulative>,
    next: u32,
    /// Reused for each delivery.
    destination: String,
}

impl Deliveries {
    pub(super) fn new(session: &str, spoken: Spoken) -> Self {
        Self {
            session: session.to_owned(),
            spoken,
            by_consumer: HashMap::new(),
            cumulative: HashMap::new(),
            next: 0,
            destination: String::new(),
        }
    }

    pub(super) fn contains(&self, tag: &Tag<'_>) -> bool {
        self.by_consumer.contains_key(&tag.consumer())
    }

    /// Adds a subscription and returns its consumer tag.
    pub(super) fn add(&mut self, tag: &Tag<'_>, mode: AckMode, browsed: Option<String>) -> String {
        let number = self.next;
        self.next += 1;
        let mut lines = Vec::new();
        let mut frame = FrameWriter::new(&mut lines, Command::Message, self.spoken.version);
        if let Tag::Id(id) = tag {
            frame.header("subscription", id);
        }
        let consumer = tag.consumer();
        self.by_consumer.insert(consumer.clone(), Subscription { number, mode, browsed, written: None, lines });
        if mode == AckMode::Client {
            self.cumulative.insert(number, Cumulative::default());
        }
        consumer
    }

    /// Keeps the destination of a durable subscription, for its UNSUBSCRIBE.
    pub(super) fn note_destination(&mut self, tag: &Tag<'_>, destination: &str) {
        if let Some(subscription) = self.by_consumer.get_mut(&tag.consumer()) {
            subscription.written = Some(destination.to_owned());
        }
    }

    /// The destination of a durable subscription.
    pub(super) fn destination_of(&self, tag: &Tag<'_>) -> Option<&str> {
        self.by_consumer.get(&tag.consumer())?.written.as_deref()
    }

    /// Ends a subscription.
    pub(super) fn remove(&mut self, tag: &Tag<'_>) {
        let Some(subscription) = self.by_consumer.remove(&tag.consumer()) else {
            return;
        };
        if let Some(cumulative) = self.cumulative.get_mut(&subscription.number) {
            cumulative.ended = true;
            if cumulative.tags.is_empty() {
                self.cumulative.remove(&subscription.number);
            }
        }
    }

    /// The consumer tags of all subscriptions.
    pub(super) fn consumers(&self) -> Vec<String> {
        self.by_consumer.keys().cloned().collect()
    }

    /// The broker has ended a subscription. Either a browser has seen all messages, which
    /// ActiveMQ's clients know by a last frame, or the queue was deleted.
    pub(super) fn cancelled(&mut self, consumer: &str, output: &mut Output) -> Result<(), Failure> {
        let subscription = self.by_consumer.get(consumer);
        if let Some((subscription, browsed)) = subscription.and_then(|one| Some((one, one.browsed.as_deref()?))) {
            let mut frame = FrameWriter::resume(output.tail(), &subscription.lines, self.spoken);
            frame.header("message-id", "0").header("destination", browsed).header("browser", "end");
            frame.finish_with(b"");
            return Ok(());
        }
        let name = consumer.get(2..).unwrap_or_default();
        let failure = Failure::new(
            "Server cancelled subscription",
            format!(
                "Subscription '{name}' has ended: its queue was deleted, or its user may not read there any more. No more \
                 messages will be delivered for it."
            ),
        );
        Err(failure.with_subscription(Some(name)))
    }

    /// Parses the name of a delivery of this connection.
    pub(super) fn parse_id(&self, id: &str) -> Option<Named> {
        let (subscription, tag) = id.strip_prefix(&*self.session)?.strip_prefix('-')?.split_once('-')?;
        Some(Named { subscription: subscription.parse().ok()?, tag: tag.parse().ok()? })
    }

    /// The delivery tags that an ACK or NACK of `named` settles; they are forgotten here. `None` if
    /// it is known to be settled already.
    pub(super) fn settled_by(&mut self, named: Named) -> Option<Vec<u64>> {
        let Some(cumulative) = self.cumulative.get_mut(&named.subscription) else {
            return Some(vec![named.tag]);
        };
        let last = cumulative.tags.binary_search(&named.tag).ok()?;
        let tags = cumulative.tags.drain(..=last).collect();
        if cumulative.ended && cumulative.tags.is_empty() {
            self.cumulative.remove(&named.subscription);
        }
        Some(tags)
    }

    /// Appends the MESSAGE frame of a delivery.
    pub(super) fn write(
        &mut self,
        delivery: &Delivery<'_>,
        dialects: &Dialects,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let Some(subscription) = self.by_consumer.get(delivery.consumer_tag) else {
            // The broker reports nothing for a consumer after its end.
            return Ok(());
        };
        let message = delivery.message;
        let mut frame = FrameWriter::resume(output.tail(), &subscription.lines, self.spoken);
        let id = |frame: &mut FrameWriter<'_>, name: &[u8]| {
            frame.lines(name).lines(self.session.as_bytes());
            frame.lines(b"-").decimal(subscription.number.into());
            frame.lines(b"-").decimal(delivery.tag).lines(b"\n");
        };
        id(&mut frame, b"message-id:");
        if subscription.mode != AckMode::Auto && self.spoken.version == Version::V1_2 {
            id(&mut frame, b"ack:");
        }
        self.destination.clear();
        destination::show(message.exchange(), message.routing_key(), &mut self.destination);
        frame.header("destination", &self.destination);
        frame.lines(if delivery.redelivered { b"redelivered:true\n" } else { b"redelivered:false\n" });
        let body = message.body();
        // This comes before the publisher's headers: a length among them must not end the frame
        // elsewhere.
        frame.announce(body.len());
        write_properties(&mut frame, delivery, dialects, self.spoken.version)?;
        if body.len() < limits::SHARED_BODY {
            frame.finish_announced(body);
        } else {
            frame.finish_head();
            output.put_shared(&message.body_shared());
            output.put(self.spoken.trailer.end());
        }
        if subscription.mode == AckMode::Client
            && let Some(cumulative) = self.cumulative.get_mut(&subscription.number)
        {
            cumulative.tags.push_back(delivery.tag);
        }
        Ok(())
    }
}

/// Appends the headers of a message. Those of a STOMP publisher are copied. They are written again
/// where the broker adds or hides something, for a message of another protocol, and for escapes
/// that this version lacks.
fn write_properties(
    frame: &mut FrameWriter<'_>,
    delivery: &Delivery<'_>,
    dialects: &Dialects,
    version: Version,
) -> Result<(), Failure> {
    let message = delivery.message;
    if message.dialect() != dialect::ENCODING {
        let properties = dialects.read_shown(message, delivery.counts)?;
        dialect::write(&properties, &mut |name, value| {
            frame.header(name, value);
        });
        return Ok(());
    }
    let raw = message.properties();
    let overlay = message.overlay(delivery.counts, dialects);
    if overlay.is_none() && (version == Version::V1_2 || memchr(b'\\', raw).is_none()) {
        frame.lines(raw);
        return Ok(());
    }
    let added = overlay.as_ref().map(Overlay::headers).unwrap_or_default();
    dialect::write_fields(added.iter().map(|(name, value)| (&**name, value)), &mut |name, value| {
        frame.header(name, value);
    });
    let covers = |name: &str| {
        overlay
            .as_ref()
            .is_some_and(|overlay| overlay.covers(name) || (name == "expiration" && overlay.takes_expiration()))
    };
    for (name, value) in dialect::lines(raw) {
        let name = dialect::text(name);
        if !covers(&name) {
            frame.header(&name, &dialect::text(value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Trailer;

    fn deliveries(mode: AckMode) -> (Deliveries, Tag<'static>) {
        let mut deliveries = Deliveries::new("s", Spoken { version: Version::V1_2, trailer: Trailer::None });
        let tag = Tag::Id("a".into());
        assert_eq!(deliveries.add(&tag, mode, None), "T_a");
        (deliveries, tag)
    }

    fn deliver(deliveries: &mut Deliveries, tags: impl IntoIterator<Item = u64>) {
        deliveries.cumulative.get_mut(&0).unwrap().tags.extend(tags);
    }

    #[test]
    fn only_names_that_this_connection_gave_are_read() {
        let (deliveries, _) = deliveries(AckMode::Auto);
        assert_eq!(deliveries.parse_id("s-0-7"), Some(Named { subscription: 0, tag: 7 }));
        for other in ["", "s", "s-0", "t-0-7", "s-0-", "s--7", "s-0-7x", "s0-7", "s-0--7"] {
            assert_eq!(deliveries.parse_id(other), None, "{other}");
        }
    }

    #[test]
    fn a_cumulative_settlement_takes_all_before_it_once() {
        let (mut deliveries, tag) = deliveries(AckMode::Client);
        deliver(&mut deliveries, [2, 3, 5, 8]);
        let named = |tag| Named { subscription: 0, tag };
        assert_eq!(deliveries.settled_by(named(5)), Some(vec![2, 3, 5]));
        assert_eq!(deliveries.settled_by(named(3)), None);
        assert_eq!(deliveries.settled_by(named(4)), None);
        deliveries.remove(&tag);
        assert_eq!(deliveries.settled_by(named(8)), Some(vec![8]));
        assert!(deliveries.cumulative.is_empty());
    }

    #[test]
    fn individual_settlements_are_left_to_the_broker() {
        let (mut deliveries, _) = deliveries(AckMode::ClientIndividual);
        assert_eq!(deliveries.settled_by(Named { subscription: 0, tag: 9 }), Some(vec![9]));
    }
}
