//! An open session: its state, what its packets ask for, and the packets of the broker's events.
//!
//! A connection is one session of the broker. The order within a turn is the broker's: publishes
//! are gathered, and any other operation runs the gathered ones first.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use broker::{
    Broker, Client, Consume, ConsumerArguments, Credit, Delivery, Dialects, Event, ExactlyOnce, Handover, Outcome,
    RetainedWanted, SessionId, Source, Tags, Ticket,
};
use wire::Output;

use super::claims::{Claim, Standing};
use super::connect::Asked;
use super::failure::Failure;
use super::fences::Fences;
use super::filters::{Filters, Matched, Publisher, Subscription};
use super::incoming::Incoming;
use super::outgoing::{Figure, Follows, Outgoing, topic_of};
use super::seldom::{Seldom, empty};
use super::store::{DirectTag, EXCHANGE, Life, OWN, Store, filter_of_binding};
use super::sys::{News, SysReader, is_sys};
use super::will::delay_within;
use crate::address::topic_of_key;
use crate::codec::{
    Ack, Filter, Notice, Packet, PacketId, PacketKind, Properties, PropertyBlock, PropertyId, QoS, Reason, Version,
    encode,
};
use crate::dialect::{self, Mark};

/// The parts of a session.
pub(super) struct Parts {
    pub(super) asked: Asked,
    pub(super) client: Client,
    /// The delay of its will, if it has left one.
    pub(super) will: Option<Duration>,
    pub(super) mark: Mark,
    pub(super) claim: Claim,
    pub(super) store: Store,
    pub(super) sys: SysReader,
    /// The highest quality that is served.
    pub(super) max_qos: QoS,
}

/// What the session delivers, apart from the client that reports it.
pub(super) struct Delivering {
    pub(super) version: Version,
    mark: Mark,
    pub(super) filters: Filters,
    /// Shared subscriptions, by their filters as written.
    pub(super) shares: Seldom<Shares>,
    pub(super) incoming: Seldom<Incoming>,
    outgoing: Outgoing,
    /// What it reads of the figures of the broker.
    pub(super) sys: SysReader,
    dialects: Dialects,
}

/// Subscriptions by filters as written.
pub(super) type Shares = HashMap<String, Subscription>;

empty!(Shares);

/// A client that has its session.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) id: SessionId,
    pub(super) delivering: Delivering,
    pub(super) store: Store,
    claim: Claim,
    /// The delay of the will that the broker has.
    will: Option<Duration>,
    pub(super) mark: Mark,
    receive_maximum: u16,
    pub(super) max_qos: QoS,
    wants_reasons: bool,
    pub(super) fences: Seldom<Fences>,
    /// Whether its queue has a consumer.
    consumes: bool,
    /// DISCONNECT has come.
    has_left: bool,
    /// Whether a packet waits until no publish is parked behind an alarm.
    waits: bool,
    /// Reused for each message.
    pub(super) scratch: Scratch,
}

/// Memory that each message uses again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) key: String,
    pub(super) properties: Vec<u8>,
}

impl Session {
    pub(super) fn new(parts: Parts, dialects: Dialects, now: Instant) -> Self {
        let Parts { asked, mut client, will, mark, claim, store, sys, max_qos } = parts;
        let id = client.open_lone_session();
        client.share_window(id, NonZeroU32::new(asked.receive_maximum.into()), now);
        let delivering = Delivering {
            version: asked.accepts.version,
            mark,
            filters: Filters::default(),
            shares: Seldom::default(),
            incoming: Seldom::default(),
            outgoing: Outgoing::new(asked.accepts),
            sys,
            dialects,
        };
        Self {
            client,
            id,
            delivering,
            store,
            claim,
            will,
            mark,
            receive_maximum: asked.receive_maximum,
            max_qos,
            wants_reasons: asked.wants_reasons,
            fences: Seldom::default(),
            consumes: false,
            has_left: false,
            waits: false,
            scratch: Scratch::default(),
        }
    }

    /// Takes up what a stored session has begun, its filters, and what waits in its queue.
    pub(super) fn resume(&mut self, begun: &ExactlyOnce, broker: &Broker, now: Instant) -> Result<(), Failure> {
        let ids = begun.received.iter().filter_map(|id| PacketId::new(u16::try_from(*id).ok()?));
        self.delivering.incoming.resume(ids);
        for id in self.delivering.outgoing.resume(&begun.taken) {
            self.fences.answer(PacketKind::PubRel, id, Reason::Success);
        }
        let bindings = broker.bindings_to_queue(self.client.vhost(), &self.store.queue);
        for (filter, subscription) in bindings.iter().filter_map(filter_of_binding) {
            let resumed = match Filter::parse(&filter) {
                Ok(Filter { share: Some(_), .. }) => self.join(&filter, subscription, now).map(|_| ()),
                _ if is_sys(&filter) => self.resume_sys(&filter, subscription),
                _ if subscription.options.qos == QoS::AtMostOnce => self.resume_direct(&filter, subscription, now),
                _ => {
                    self.delivering.filters.put(&filter, subscription);
                    Ok(())
                }
            };
            // A right that was withdrawn at this moment costs the client the filter alone.
            resumed.or_else(|failure| if failure.reason == Reason::NotAuthorized { Ok(()) } else { Err(failure) })?;
        }
        self.consume_own(now)
    }

    /// Begins to consume from the session's queue.
    pub(super) fn consume_own(&mut self, now: Instant) -> Result<(), Failure> {
        if !self.consumes {
            self.consume(Source::Subscription(self.store.name.clone()), OWN, now)?;
            self.consumes = true;
        }
        Ok(())
    }

    /// Begins to consume under this tag.
    pub(super) fn consume(&mut self, source: Source, tag: &str, now: Instant) -> Result<(), Failure> {
        // A client may take any time to answer: nothing in the protocol bounds it.
        let arguments = ConsumerArguments { timeout: Some(Duration::ZERO), ..ConsumerArguments::default() };
        // What has no queue cannot wait, and needs no answer.
        let no_ack = matches!(source, Source::Direct(_));
        let most = NonZeroU32::new(self.receive_maximum.into());
        let credit = if no_ack { Credit::OPEN } else { Credit::Window { most } };
        let arguments = Ok(if no_ack { ConsumerArguments::default() } else { arguments });
        let consume = Consume { source, tag: tag.to_owned(), no_ack, credit, arguments, ..Consume::default() };
        self.client.consume(self.id, consume, now)?;
        Ok(())
    }

    pub(super) fn client_id(&self) -> &str {
        &self.claim.key.client_id
    }

    /// Whether another connection has asked for the client's identifier.
    pub(super) fn is_taken_over(&self) -> bool {
        self.claim.standing() == Standing::Lost
    }

    /// Whether a packet must wait for something before it can be taken.
    pub(super) fn waits(&self) -> bool {
        self.has_left || self.waits
    }

    /// Whether a packet of this kind must wait because publishes before it are parked behind an
    /// alarm. Publishes and answers may overtake them.
    pub(super) fn must_wait(&mut self, kind: PacketKind) -> bool {
        self.waits = matches!(kind, PacketKind::Subscribe | PacketKind::Unsubscribe) && self.client.parked(self.id);
        self.waits
    }

    /// Whether the client has left, and the last answers are written.
    pub(super) fn is_over(&self) -> bool {
        self.has_left && self.fences.is_empty() && self.delivering.incoming.is_empty()
    }

    /// Handles a packet.
    pub(super) fn handle(&mut self, packet: &Packet<'_>, output: &mut Output, now: Instant) -> Result<(), Failure> {
        match packet {
            Packet::Publish(publish) => self.publish(publish),
            Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubComp(ack) => self.answered(packet.kind(), ack),
            Packet::PubRel(ack) => {
                self.released(ack.id);
                Ok(())
            }
            Packet::Subscribe(subscribe) => self.subscribe(subscribe, output, now),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(unsubscribe, output, now),
            Packet::PingReq => {
                encode(&Packet::PingResp, self.delivering.version, output.tail());
                output.count_answer(2);
                Ok(())
            }
            Packet::Disconnect(notice) => self.disconnect(notice, now),
            Packet::Connect(_) => Err(Failure::protocol("this connection is open already [MQTT-3.1.0-2]")),
            Packet::Auth(_) => Err(Failure::protocol("no enhanced log-in has begun [MQTT-4.12.0-7]")),
            _ => Err(Failure::protocol(format!("only a server sends {}", packet.kind().as_str()))),
        }
    }

    /// PUBREL: the client has forgotten a message.
    fn released(&mut self, id: PacketId) {
        let reason = self.delivering.incoming.release(id);
        if reason == Reason::Success {
            self.fences.release_id(id);
        }
        self.fences.answer(PacketKind::PubComp, id, reason);
    }

    /// PUBACK, PUBREC or PUBCOMP.
    fn answered(&mut self, kind: PacketKind, ack: &Ack<'_>) -> Result<(), Failure> {
        let settled = match self.delivering.outgoing.answered(kind, ack)? {
            // A refused message is not sent again [MQTT-4.4.0-2].
            Follows::Settle(tag) => {
                Some((tag, if ack.reason.is_error() { Outcome::REJECTED } else { Outcome::Accepted }))
            }
            Follows::Take(tag) => {
                self.fences.step(Handover::Taken(tag));
                self.fences.answer(PacketKind::PubRel, ack.id, Reason::Success);
                None
            }
            Follows::Complete { place, tag } => {
                self.fences.step(Handover::Completed(place));
                tag.map(|tag| (tag, Outcome::Accepted))
            }
            Follows::Release(reason) => {
                self.fences.answer(PacketKind::PubRel, ack.id, reason);
                None
            }
            Follows::Nothing => None,
        };
        if let Some((tag, outcome)) = settled {
            self.client.settle(self.id, Tags::One(tag), &outcome)?;
        }
        Ok(())
    }

    fn disconnect(&mut self, notice: &Notice<'_>, now: Instant) -> Result<(), Failure> {
        if let Some(expiry) = notice.properties.number(PropertyId::SessionExpiry) {
            self.change_expiry(expiry, now)?;
        }
        if notice.reason != Reason::DisconnectWithWill {
            self.withdraw_will();
        }
        self.has_left = true;
        Ok(())
    }

    /// The client has said goodbye. The connection ends once the will is gone for good.
    fn withdraw_will(&mut self) {
        if self.will.take().is_some() {
            let ticket = self.client.withdraw_will(&self.claim.key.client_id);
            self.fences.wait(ticket);
        }
    }

    fn change_expiry(&mut self, expiry: u32, now: Instant) -> Result<(), Failure> {
        let was = self.store.expiry;
        if was == 0 && expiry != 0 {
            let text = "the session expiry interval was 0 in CONNECT and cannot be raised [3.14.2.2.2]";
            return Err(Failure::protocol(text));
        }
        self.store.expiry = expiry;
        if expiry != 0 && expiry != was {
            let spec = self.store.spec(Vec::new(), RetainedWanted::None);
            self.client.subscribe(&spec, now)?;
        }
        Ok(())
    }

    /// Writes an answer when `ticket` is durable and all that waits already has been written. Most
    /// answers have nothing to wait for, and take no memory.
    pub(super) fn fence(&mut self, ticket: Ticket, packet: &Packet<'_>, output: &mut Output) {
        let version = self.delivering.version;
        if self.fences.has_nothing() && self.client.durable(ticket.into()) {
            let before = output.len();
            encode(packet, version, output.tail());
            output.count_answer(output.len() - before);
            return;
        }
        self.fences.fence(ticket, packet, version);
    }

    /// A reason in words, if the client wants it.
    pub(super) fn reason<'b>(&self, text: &str, block: &'b mut PropertyBlock) -> Properties<'b> {
        if !self.wants_reasons || !self.delivering.version.has_properties() {
            return Properties::NONE;
        }
        block.clear();
        block.text(PropertyId::ReasonString, auth::shown::extract(text, crate::limits::TOLD).as_ref());
        block.as_properties()
    }

    /// The broker has run what was gathered. Writes its events, about `room` bytes, and the answers
    /// that can be written now. True if it has more events.
    pub(super) fn report(&mut self, output: &mut Output, room: usize, now: Instant) -> Result<bool, Failure> {
        if !self.fences.has_nothing() {
            self.fences.hand_over(&mut self.client, self.id)?;
        }
        self.release(output);
        let Self { client, delivering, .. } = self;
        let mut result = Ok(());
        let time = client.unix_ms();
        let more = client.drain(now, room, &mut |event| {
            if result.is_ok() {
                result = report(event, delivering, time, output);
            }
        });
        result?;
        self.delivering.deliver_waiting(self.id, time, output);
        self.answer(output)?;
        if let Some(news) = self.delivering.sys_news(&self.client, room)? {
            self.delivering.tell_sys(&news, output);
        }
        self.settle_sent(now)?;
        self.release(output);
        self.waits = self.waits && self.client.parked(self.id);
        Ok(more)
    }

    /// Writes the answers that have nothing more to wait for.
    fn release(&mut self, output: &mut Output) {
        if !self.fences.is_empty() {
            self.fences.release(&mut self.client, self.delivering.version, output);
        }
    }

    /// Settles what was sent and needs no answer of the client.
    pub(super) fn settle_sent(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(settled) = self.delivering.outgoing.take_settled() else { return Ok(()) };
        let runs = settled.chunk_by(|(tag, outcome), (next, other)| tag + 1 == *next && outcome == other);
        for run in runs {
            let [(first, outcome), ..] = run else { continue };
            let tags = Tags::Range { first: *first, last: first + run.len() as u64 - 1 };
            self.client.settle(self.id, tags, outcome)?;
        }
        self.delivering.outgoing.settled_again(settled);
        self.client.flush(now);
        Ok(())
    }

    /// Gives back what is kept for the next messages.
    pub(super) fn rest(&mut self) {
        self.scratch = Scratch::default();
        self.fences.rest();
        self.delivering.incoming.rest();
        self.delivering.outgoing.rest();
    }

    /// Stops a consumer and writes the deliveries that are on their way.
    pub(super) fn cancel(&mut self, tag: &str, output: &mut Output, now: Instant) -> Result<Ticket, Failure> {
        let Self { client, id, delivering, .. } = self;
        let mut result = Ok(());
        let time = client.unix_ms();
        let ticket = client.cancel(*id, tag, now, &mut |event| {
            if result.is_ok() {
                result = report(event, delivering, time, output);
            }
        });
        result?;
        self.settle_sent(now)?;
        Ok(ticket)
    }

    /// Ends the session's connection, and the session, if it is to end with it. Returns the client.
    pub(super) fn leave(self, now: Instant) -> Client {
        let Self { mut client, id, store, claim, will, .. } = self;
        let client_id = &claim.key.client_id;
        if let Some(delay) = will {
            client.will_is_due(client_id, delay_within(delay, store.outlives()), now);
        }
        client.close_session(id, now);
        if store.life == Life::Stored && store.expiry == 0 {
            let ended = client.unsubscribe(&store.name, &store.queue, now);
            if let Err(error) = ended {
                tracing::warn!(client_id, %error, "MQTT session not ended");
            }
        }
        // The claim goes with the rest of the session, once the client has none any more.
        client
    }
}

/// Turns one event into packets.
fn report(event: Event<'_>, to: &mut Delivering, now: u64, output: &mut Output) -> Result<(), Failure> {
    match event {
        Event::Deliver(delivery) => to.deliver(&delivery, now, output),
        Event::Confirmed { up_to, .. } => to.incoming.confirmed(up_to),
        Event::Refused { number, why, .. } => to.incoming.refused(number, why),
        Event::Unroutable { number, .. } => number.into_iter().for_each(|number| to.incoming.unroutable(number)),
        Event::Cancelled { consumer_tag, .. } => {
            let direct = DirectTag::read(consumer_tag).map(|DirectTag(_, filter)| filter);
            let what = if consumer_tag == OWN { "the session" } else { direct.unwrap_or(consumer_tag) };
            let text = format!("{what} has ended: its queue was deleted, or its user may not read there any more");
            return Err(Failure::new(Reason::AdministrativeAction, text));
        }
        Event::SessionFailed { error, .. } => return Err(error.into()),
        Event::Overdue { timeout, .. } => {
            let text = format!("a message was not acknowledged within {} ms", timeout.as_millis());
            return Err(Failure::new(Reason::AdministrativeAction, text));
        }
        Event::Kicked { reason } => return Err(Failure::new(Reason::AdministrativeAction, reason)),
        // There are no transactions and no drains, and MQTT has no packet for an alarm.
        Event::Committed { .. }
        | Event::RolledBack { .. }
        | Event::Drained { .. }
        | Event::Blocked { .. }
        | Event::Unblocked => {}
    }
    Ok(())
}

impl Delivering {
    /// Sends the messages that waited for their identifiers, in order, as far as these are free.
    fn deliver_waiting(&mut self, session: SessionId, now: u64, output: &mut Output) {
        while let Some(waiting) = self.outgoing.take_waiting() {
            self.deliver(&waiting.as_delivery(session, OWN), now, output);
        }
    }

    /// Figures of the broker that the client has not got yet. With a full output they wait, and
    /// newer ones take their place.
    fn sys_news(&mut self, client: &Client, room: usize) -> Result<Option<News>, Failure> {
        if room > 0 { self.sys.news(client) } else { Ok(None) }
    }

    /// Sends figures of the broker: to a new subscription all, and to others what has changed.
    fn tell_sys(&mut self, news: &News, output: &mut Output) {
        for (topic, value, is_changed) in news.iter() {
            let fresh = news.fresh.matching(topic, Publisher::Other);
            if fresh.qos.is_some() {
                self.outgoing.write_figure(&Figure { topic, value, retain: true }, &fresh, output);
            } else if is_changed {
                let matched = self.filters.matching(topic, Publisher::Other);
                let retain = matched.retain_as_published;
                self.outgoing.write_figure(&Figure { topic, value, retain }, &matched, output);
            }
        }
    }

    fn deliver(&mut self, delivery: &Delivery<'_>, now: u64, output: &mut Output) {
        let (topic, matched) = if delivery.consumer_tag == OWN {
            let (topic, matched) = self.matching(delivery);
            // What came from elsewhere matches no filter, and is in the queue on purpose.
            let is_from_elsewhere = matched.qos.is_none() && delivery.message.exchange() != EXCHANGE;
            (topic, if is_from_elsewhere { Matched::on_purpose() } else { matched })
        } else if let Some(tag) = DirectTag::read(delivery.consumer_tag) {
            self.matching_direct(tag, delivery)
        } else {
            let topic = topic_of(delivery);
            let written = delivery.consumer_tag;
            let share = self.shares.get(written).copied().unwrap_or_default();
            let filter = Filter::parse(written).map_or(written, |filter| filter.filter);
            let matched = Matched::of_share(filter, &share, &topic);
            (topic, matched)
        };
        self.outgoing.write(delivery, &topic, &matched, (&self.dialects, now), output);
    }

    /// The topic under which a message comes to the session's own filters, and those that it
    /// matches. A copy comes under the first of its keys that one of them matches: its own, those
    /// of `CC`, those of `BCC`.
    fn matching<'m>(&self, delivery: &Delivery<'m>) -> (Cow<'m, str>, Matched) {
        let (topic, by) = (topic_of(delivery), self.publisher(delivery));
        let matched = self.filters.matching(&topic, by);
        if matched.qos.is_some() {
            return (topic, matched);
        }
        for key in self.dialects.copied_keys(delivery.message) {
            let copied = topic_of_key(&key).into_owned();
            let matched = self.filters.matching(&copied, by);
            if matched.qos.is_some() {
                return (copied.into(), matched);
            }
        }
        (topic, matched)
    }

    /// What a message that comes through this consumer without a queue matches; nothing, if it
    /// comes through another consumer, too, and is sent by that.
    fn matching_direct<'m>(
        &self,
        DirectTag(number, filter): DirectTag<'_>,
        delivery: &Delivery<'m>,
    ) -> (Cow<'m, str>, Matched) {
        let own = self.filters.get(filter).filter(|own| own.direct == number);
        if delivery.message.is_retained() {
            // It is for this filter alone, which has asked for it.
            return (topic_of(delivery), own.map(Matched::of).unwrap_or_default());
        }
        let (topic, matched) = self.matching(delivery);
        let is_sent = matched.direct == Some(number) && matched.qos == Some(QoS::AtMostOnce);
        (topic, if is_sent { matched } else { Matched::default() })
    }

    /// Whether this client has published the message.
    fn publisher(&self, delivery: &Delivery<'_>) -> Publisher {
        let message = delivery.message;
        let is_own =
            message.dialect() == dialect::ENCODING && dialect::mark_of(message.properties()) == Some(self.mark);
        if is_own { Publisher::Own } else { Publisher::Other }
    }
}
