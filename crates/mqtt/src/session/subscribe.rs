//! SUBSCRIBE and UNSUBSCRIBE: bindings of the session's queue, members of shared subscriptions, and
//! consumers without a queue for filters of quality 0.
//!
//! A session has such a consumer for each of these filters. A message that several of them match
//! comes through each, and is sent by that with the lowest number.
//! Each filter has an answer of its own, in order. The answers are written when all that was asked
//! for is durable.

use std::time::Instant;

use broker::{DirectSource, RetainedWanted, Source, Ticket};
use wire::Output;

use super::failure::Failure;
use super::filters::Subscription;
use super::open::Session;
use super::store::{self, DirectTag, Life};
use super::sys::is_sys;
use crate::codec::{
    Asked, Filter, Granted, Options, Packet, PacketId, PacketKind, Properties, PropertyBlock, PropertyId, QoS, Reason,
    ReasonList, RetainHandling, Subscribe, Unsubscribe,
};
use crate::limits;

impl Session {
    pub(super) fn subscribe(
        &mut self,
        subscribe: &Subscribe<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let id = subscribe.properties.number(PropertyId::SubscriptionId);
        let mut answers = Answers::default();
        for asked in subscribe.filters.iter() {
            let done = self.subscribe_to(&asked, id, output, now);
            answers.add(done, PacketKind::SubAck, self);
        }
        answers.fence(subscribe.id, PacketKind::SubAck, self, output);
        Ok(())
    }

    /// Adds a subscription, or gives it new options. Returns the quality that it gets.
    fn subscribe_to(
        &mut self,
        asked: &Asked<'_>,
        id: Option<u32>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(Reason, Ticket), Failure> {
        let Asked { written, filter, options } = *asked;
        let levels = filter.filter.split('/').count();
        if levels > limits::LEVELS {
            let text = format!("filter has {levels} levels; the most is {}", limits::LEVELS);
            return Err(Failure::new(Reason::QuotaExceeded, text));
        }
        if self.delivering.filters.count() + self.delivering.shares.len() >= limits::SUBSCRIPTIONS {
            let text = format!("the session has {} subscriptions, the most that it may", limits::SUBSCRIPTIONS);
            return Err(Failure::new(Reason::QuotaExceeded, text));
        }
        let most = match (filter.share, is_sys(filter.filter)) {
            (Some(_), true) => {
                let text = "topics of $SYS are no messages that members could share; subscribe without a group";
                return Err(Failure::new(Reason::TopicFilterInvalid, text));
            }
            // A message of quality 2 must not go from one member to another [MQTT-4.8.2-5].
            (Some(_), false) => QoS::AtLeastOnce,
            (None, true) => QoS::AtMostOnce,
            (None, false) => self.max_qos,
        };
        let qos = options.qos.min(most);
        let subscription = Subscription { options: Options { qos, ..options }, id, direct: 0 };
        let ticket = match filter.share {
            Some(_) => self.share(written, subscription, now)?,
            None => self.bind(filter.filter, subscription, output, now)?,
        };
        let granted = match qos {
            QoS::AtMostOnce => Reason::Success,
            QoS::AtLeastOnce => Reason::GrantedQos1,
            QoS::ExactlyOnce => Reason::GrantedQos2,
        };
        Ok((granted, ticket))
    }

    /// A subscription of the session's own. No message is lost while its options change
    /// [MQTT-3.8.4-3].
    fn bind(
        &mut self,
        filter: &str,
        subscription: Subscription,
        output: &mut Output,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        let before = self.delivering.filters.get(filter).copied();
        let retained = match subscription.options.retain_handling {
            RetainHandling::Never => RetainedWanted::None,
            RetainHandling::SendIfNew if before.is_some() => RetainedWanted::None,
            RetainHandling::Send | RetainHandling::SendIfNew => RetainedWanted::OfAll,
        };
        // The handling is of this request alone.
        let options = Options { retain_handling: RetainHandling::Send, ..subscription.options };
        let is_direct = options.qos == QoS::AtMostOnce;
        let direct = if is_direct && !is_sys(filter) { self.delivering.filters.next_direct() } else { 0 };
        let subscription = Subscription { options, direct, ..subscription };
        // Before the retained messages come, which are found by it.
        self.delivering.filters.put(filter, subscription);
        let made = match is_direct {
            true => self.bind_direct(filter, subscription, retained, now),
            false => self.bind_queue(filter, subscription, retained, now),
        };
        let ticket = made.inspect_err(|_| {
            match before {
                Some(before) => self.delivering.filters.put(filter, before),
                None => {
                    self.delivering.sys.remove(filter);
                    self.delivering.filters.remove(filter)
                }
            };
        })?;
        let Some(before) = before else { return Ok(ticket) };
        let ended = self.end_direct(filter, before, output, now)?;
        let is_other = !before.is_same(&subscription);
        let unbound = if is_other { self.client.unbind(&self.store.binding(filter, before), now)? } else { ended };
        Ok(ticket.max(ended).max(unbound))
    }

    /// The session's queue gets the messages.
    fn bind_queue(
        &mut self,
        filter: &str,
        subscription: Subscription,
        retained: RetainedWanted,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        let spec = self.store.spec(vec![store::binding_filter(filter, subscription)], retained);
        let ticket = self.client.subscribe(&spec, now)?.ticket;
        self.consume_own(now)?;
        Ok(ticket)
    }

    /// The connection gets the messages. A stored session keeps that it has the filter.
    fn bind_direct(
        &mut self,
        filter: &str,
        subscription: Subscription,
        retained: RetainedWanted,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        if is_sys(filter) {
            let fresh = (retained != RetainedWanted::None).then_some(subscription);
            self.delivering.sys.add(filter, fresh, &self.client)?;
        } else {
            self.consume_direct(filter, subscription, retained, now)?;
        }
        if self.store.life == Life::Connection {
            return Ok(Ticket::NONE);
        }
        let spec = self.store.spec(vec![store::binding_filter(filter, subscription)], RetainedWanted::None);
        Ok(self.client.subscribe(&spec, now)?.ticket)
    }

    fn consume_direct(
        &mut self,
        filter: &str,
        subscription: Subscription,
        retained: RetainedWanted,
        now: Instant,
    ) -> Result<(), Failure> {
        let source = DirectSource { filters: vec![store::topic_filter(filter)], retained };
        self.consume(Source::Direct(source), &DirectTag(subscription.direct, filter).to_string(), now)
    }

    /// Takes up a filter of `$SYS` that a stored session has.
    pub(super) fn resume_sys(&mut self, filter: &str, subscription: Subscription) -> Result<(), Failure> {
        let options = Options { qos: QoS::AtMostOnce, ..subscription.options };
        let subscription = Subscription { options, ..subscription };
        self.delivering.filters.put(filter, subscription);
        self.delivering.sys.add(filter, Some(subscription), &self.client)
    }

    /// Takes up a filter of quality 0 that a stored session has.
    pub(super) fn resume_direct(
        &mut self,
        filter: &str,
        subscription: Subscription,
        now: Instant,
    ) -> Result<(), Failure> {
        let subscription = Subscription { direct: self.delivering.filters.next_direct(), ..subscription };
        self.delivering.filters.put(filter, subscription);
        self.consume_direct(filter, subscription, RetainedWanted::None, now)
    }

    /// Ends the consumer without a queue of a filter, if it has one.
    fn end_direct(
        &mut self,
        filter: &str,
        before: Subscription,
        output: &mut Output,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        if before.direct == 0 {
            return Ok(Ticket::NONE);
        }
        self.cancel(&DirectTag(before.direct, filter).to_string(), output, now)
    }

    /// A shared subscription, as its client has written it.
    fn share(&mut self, written: &str, subscription: Subscription, now: Instant) -> Result<Ticket, Failure> {
        let before = self.delivering.shares.get(written).copied();
        let mut ticket = self.join(written, subscription, now)?;
        if self.store.life == Life::Stored && !before.is_some_and(|before| before.is_same(&subscription)) {
            // The session's queue keeps that it is a member. Nothing is published under that key.
            let spec = self.store.spec(vec![store::binding_filter(written, subscription)], RetainedWanted::None);
            ticket = ticket.max(self.client.subscribe(&spec, now)?.ticket);
            if let Some(before) = before {
                ticket = ticket.max(self.client.unbind(&self.store.binding(written, before), now)?);
            }
        }
        Ok(ticket)
    }

    /// Becomes a member of a shared subscription, if it is none.
    pub(super) fn join(&mut self, written: &str, subscription: Subscription, now: Instant) -> Result<Ticket, Failure> {
        let Ok(Filter { share: Some(group), filter }) = Filter::parse(written) else { return Ok(Ticket::NONE) };
        if self.delivering.shares.insert(written.to_owned(), subscription).is_some() {
            return Ok(Ticket::NONE);
        }
        let joined = store::shared(written, group, filter, self.store.expiry).map_err(Failure::from).and_then(|spec| {
            let subscribed = self.client.subscribe(&spec, now)?;
            self.consume(Source::Subscription(subscribed.name), written, now)?;
            Ok(subscribed.ticket)
        });
        joined.inspect_err(|_| _ = self.delivering.shares.remove(written))
    }

    pub(super) fn unsubscribe(
        &mut self,
        unsubscribe: &Unsubscribe<'_>,
        output: &mut Output,
        now: Instant,
    ) -> Result<(), Failure> {
        let mut answers = Answers::default();
        for written in unsubscribe.filters.iter() {
            let done = self.unsubscribe_from(written, output, now);
            answers.add(done, PacketKind::UnsubAck, self);
        }
        answers.fence(unsubscribe.id, PacketKind::UnsubAck, self, output);
        Ok(())
    }

    fn unsubscribe_from(
        &mut self,
        written: &str,
        output: &mut Output,
        now: Instant,
    ) -> Result<(Reason, Ticket), Failure> {
        let share = self.delivering.shares.get(written).copied();
        let mut ticket = Ticket::NONE;
        let before = match share {
            Some(_) => {
                ticket = self.cancel(written, output, now)?;
                self.delivering.shares.remove(written).filter(|_| self.store.life == Life::Stored)
            }
            None => self.delivering.filters.get(written).copied(),
        };
        if let Some(before) = before {
            ticket = ticket.max(self.end_direct(written, before, output, now)?);
            ticket = ticket.max(self.client.unbind(&self.store.binding(written, before), now)?);
            self.delivering.filters.remove(written);
            self.delivering.sys.remove(written);
        }
        let existed = share.is_some() || before.is_some();
        Ok((if existed { Reason::Success } else { Reason::NoSubscriptionExisted }, ticket))
    }
}

/// The answers to the filters of one packet.
#[derive(Default)]
struct Answers {
    reasons: ReasonList,
    ticket: Option<Ticket>,
    /// Why the first of them that was refused was.
    text: Option<String>,
}

impl Answers {
    fn add(&mut self, done: Result<(Reason, Ticket), Failure>, kind: PacketKind, session: &Session) {
        let reason = match done {
            Ok((reason, ticket)) => {
                self.ticket = Some(self.ticket.unwrap_or(Ticket::NONE).max(ticket));
                reason
            }
            Err(Failure { reason, text }) => {
                self.text.get_or_insert(text);
                if reason.is_in(kind) { reason } else { Reason::Unspecified }
            }
        };
        self.reasons.push(reason, kind, session.delivering.version);
    }

    fn fence(self, id: PacketId, kind: PacketKind, session: &mut Session, output: &mut Output) {
        let mut block = PropertyBlock::default();
        let properties = self.text.map_or(Properties::NONE, |text| session.reason(&text, &mut block));
        let reasons = self.reasons.as_reasons(kind, session.delivering.version);
        let granted = Granted { id, properties, reasons };
        let packet = if kind == PacketKind::SubAck { Packet::SubAck(granted) } else { Packet::UnsubAck(granted) };
        session.fence(self.ticket.unwrap_or(Ticket::NONE), &packet, output);
    }
}
