//! Publishing: route and gather, then log and enqueue a whole turn at once.
//!
//! A body is logged before any queue is locked, and each queue's references under its lock. A
//! confirm waits for the last reference. Each touched queue is visited once, with its messages in
//! the order of publishing.

use std::sync::Arc;
use std::time::Instant;

use auth::{Resource, Right};
use journal::{Ticket, Unwoken};

use crate::alarms::Allowance;
use crate::catalog::versions::Basis;
use crate::engine::Engine;
use crate::engine::bounds::{STEPS_PER_ENTRY, STORED_BESIDES};
use crate::engine::sealed::release_holds;
use crate::error::{Error, ErrorKind};
use crate::message::body::Body;
use crate::message::cc::Copies;
use crate::message::dialect::{Content, DialectId};
use crate::message::publisher::PublisherId;
use crate::message::scheduling::retains;
use crate::message::{Head, KEY_MAX, Message, NAME_MAX};
use crate::queue::arrival::{Arrival, Confirm, Refusal, Unroutable};
use crate::queue::{MessageIdentity, Visit};
use crate::routing::{Envelope, STEPS};
use crate::session::confirms::Answer;
use crate::session::retain::check_retained;
use crate::session::routes::Route;
use crate::session::slots::QueueSlot;
use crate::session::{Client, SessionId};
use crate::stats::Sizes;

/// A message from a protocol. The broker copies its borrowed parts once.
#[derive(Debug)]
pub struct Publish<'a> {
    /// The exchange; empty for the default one.
    pub exchange: &'a str,
    /// The routing key.
    pub routing_key: &'a str,
    /// The encoding of `properties`.
    pub dialect: DialectId,
    /// Properties in that encoding, validated by it.
    pub properties: &'a [u8],
    /// It must survive a restart.
    pub persistent: bool,
    /// Its priority, if it was given one.
    pub priority: Option<u8>,
    /// Its time to live in milliseconds.
    pub expiration: Option<u64>,
    /// Its body.
    pub body: Body<'a>,
    /// Whether it is answered.
    pub confirm: Confirm,
    /// What is answered if it reaches no queue.
    pub unroutable: Unroutable,
    /// Its headers name more routing keys, in lists called `CC` and `BCC`.
    pub copies: bool,
    /// It has headers that [`is_instruction`](crate::is_instruction) is true of.
    pub instructed: bool,
}

impl<'a> Publish<'a> {
    /// Exchange and key, by which its route is remembered. That of a message with more keys or
    /// instructions in its headers, or with a key longer than a name, is not.
    #[inline]
    fn route_name(&self) -> Option<(&'a str, &'a str)> {
        let is_alone = self.copies || self.instructed || self.routing_key.len() > NAME_MAX;
        (!is_alone).then_some((self.exchange, self.routing_key))
    }
}

/// The cost of a message that is refused without a route. The steps of its routing are unknown.
const REFUSED: usize = STEPS as usize / STEPS_PER_ENTRY;

/// The parts of a message that routing reads.
pub(super) struct Wanted<'a> {
    exchange: &'a str,
    key: &'a str,
    copies: Copies,
    instructed: bool,
    /// Milliseconds since 1970.
    published_at: u64,
    dialect: DialectId,
    content: Content<'a>,
}

impl<'a> Wanted<'a> {
    fn of(publish: &'a Publish<'_>, now: u64) -> Self {
        Self {
            exchange: publish.exchange,
            key: publish.routing_key,
            copies: copies_of(publish),
            instructed: publish.instructed,
            published_at: now,
            dialect: publish.dialect,
            content: Content { properties: publish.properties, body: publish.body.as_slice() },
        }
    }
}

/// The route of a message, and its identity for deduplication.
pub(super) struct Routed {
    pub(super) route: Route,
    /// What the route depends on, if the message becomes a retained one.
    pub(super) retain: Option<Box<Basis>>,
    pub(super) identity: Option<Box<MessageIdentity>>,
    /// The routing steps that it took.
    pub(super) steps: u32,
}

impl Routed {
    /// By a route that was found before.
    pub(super) fn known(route: Route) -> Self {
        Self { route, retain: None, identity: None, steps: 0 }
    }

    /// Its part of the cost of a turn, in entries.
    pub(super) fn cost(&self) -> usize {
        self.route.len() + self.steps as usize / STEPS_PER_ENTRY
    }
}

impl Client {
    /// Checks, routes and gathers a message.
    ///
    /// # Errors
    /// `NotFound` for an unknown exchange, `AccessRefused`, `Precondition` for a message that is
    /// too large. Nothing is taken then, and the publish has no answer but by [`Client::refuse`].
    pub fn publish(&mut self, session: SessionId, publish: Publish<'_>) -> Result<(), Error> {
        self.check_publish(&publish)?;
        let Some(route) = self.known_route(publish.route_name()) else {
            return self.publish_anew(session, publish);
        };
        if let Some(index) = self.take(session, publish, route.len())? {
            self.pick(index, &route);
        }
        Ok(())
    }

    /// The same for a message whose route must be found.
    fn publish_anew(&mut self, session: SessionId, publish: Publish<'_>) -> Result<(), Error> {
        let now = self.publisher.time(&*self.engine.clock);
        let routed = self.find_route(Wanted::of(&publish, now))?;
        if routed.retain.is_some() {
            self.admit_retained(&publish)?;
        }
        match self.take(session, publish, routed.cost())? {
            Some(index) => self.send_by(routed, index),
            None => self.note_steps(&routed),
        }
        Ok(())
    }

    /// Takes a message that costs the turn so many entries, and gives its place among the arrivals.
    /// It has none if it waits behind others.
    #[inline]
    fn take(&mut self, session: SessionId, publish: Publish<'_>, cost: usize) -> Result<Option<u32>, Error> {
        let claim = self.uploads.arrived(session);
        let entry = self.sessions.require(session)?;
        entry.answers.expect(publish.confirm);
        if entry.begins_to_publish() {
            self.shared.figures.add_publisher();
        }
        let waits = !entry.parked.is_empty();
        let (confirm, unroutable) = (publish.confirm, publish.unroutable);
        let length = publish.body.as_slice().len() as u64;
        let mut arrival = Arrival::new(Message::moved(), length, session.0, confirm, unroutable);
        arrival.claim = claim;
        let own = self.publisher.own();
        let head = head_of(&publish, self.publisher.time(&*self.engine.clock), own.as_ref());
        if waits {
            arrival.bring(self.publisher.write(&head, publish.body));
            self.park(session, arrival);
            return Ok(None);
        }
        Ok(Some(self.publisher.write_arrival(arrival, &head, publish.body, cost)))
    }

    /// Refuses the publish of this number, which an error kept from being taken, once those before
    /// it have their answers. For a protocol whose session goes on after such an error.
    ///
    /// # Errors
    /// `Internal` for a session that is not open.
    pub fn refuse(&mut self, session: SessionId, number: u64, why: ErrorKind) -> Result<(), Error> {
        self.uploads.forget(session);
        let message = self.publisher.write(&Head::EMPTY, Body::Borrowed(&[]));
        let entry = self.sessions.require(session)?;
        let mut arrival = Arrival::new(message, 0, session.0, Confirm::Numbered(number), Unroutable::Drop);
        arrival.refused = Some(Refusal::Error(why));
        entry.answers.expect(arrival.confirm);
        if entry.parked.is_empty() {
            self.publisher.gather(arrival, REFUSED);
        } else {
            self.park(session, arrival);
        }
        Ok(())
    }

    /// Does the checks of [`Client::publish`] on an exchange. For a protocol with a later reason to
    /// refuse the message.
    ///
    /// # Errors
    /// `AccessRefused` without the right to write or for an internal exchange, `NotFound`.
    pub fn check_target(&self, exchange: &str) -> Result<(), Error> {
        self.authorize(Resource::exchange(exchange), Right::Write)?;
        self.vhost.check_target(exchange)
    }

    pub(super) fn check_publish(&self, publish: &Publish<'_>) -> Result<(), Error> {
        let (size, limit) = (publish.body.as_slice().len() as u64, self.engine.settings.limits.max_message_bytes);
        if size > limit {
            return Err(Error::precondition(format!("message size {size} is larger than configured max size {limit}")));
        }
        // A long key stands in the history of its deaths, too.
        let key = 2 * publish.routing_key.len().saturating_sub(NAME_MAX) as u64;
        let stored = size + publish.properties.len() as u64 + key + STORED_BESIDES;
        let largest = u64::from(self.engine.journal.max_body());
        if publish.persistent && stored > largest {
            let remedy = if self.engine.journal.is_short_of_disk() {
                "its disk was short when the broker started: make room there, and start it again"
            } else {
                "raise journal.file_bytes, and journal.max_bytes to eight times that"
            };
            return Err(Error::precondition(format!(
                "message of {stored} bytes with its properties is larger than the log can hold ({largest}); {remedy}"
            )));
        }
        if publish.exchange.len() > NAME_MAX || publish.routing_key.len() > KEY_MAX {
            return Err(Error::precondition(format!(
                "the name of the exchange is longer than {NAME_MAX} bytes, or the routing key than {KEY_MAX}"
            )));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn write_message(&mut self, publish: Publish<'_>) -> Message {
        let own = self.publisher.own();
        let head = head_of(&publish, self.publisher.time(&*self.engine.clock), own.as_ref());
        self.publisher.write(&head, publish.body)
    }

    /// The route of an exchange and a key, if it was found before and holds.
    #[inline]
    fn known_route(&mut self, name: Option<(&str, &str)>) -> Option<Route> {
        self.slots.renew_routes(self.engine.catalog.generation(), &self.vhost.versions);
        let (exchange, key) = name?;
        self.slots.known_route(exchange, key, &self.vhost.versions)
    }

    /// Finds the route of a message that is not known, in the client's queue slots. Checks the
    /// right to write to the exchange.
    fn find_route(&mut self, wanted: Wanted<'_>) -> Result<Routed, Error> {
        let Wanted { exchange, key, copies, .. } = wanted;
        let single = copies == Copies::Named || wanted.instructed || key.len() > NAME_MAX;
        self.slots.make_room_for_route();
        self.authorize(Resource::exchange(exchange), Right::Write)?;
        let vhost = Arc::clone(&self.vhost);
        let dialects = self.engine.dialects.clone();
        let read = || dialects.read(wanted.dialect, wanted.content).ok();
        let envelope = Envelope::new(key, copies, &read);
        self.check_copies(&envelope)?;
        self.authorize_topics(exchange, envelope.keys(), Right::Write)?;
        // A search without a result has its cost, too.
        let mut routing = vhost.route(exchange, &envelope).inspect_err(|_| self.publisher.add_cost(REFUSED))?;
        let steps = routing.steps;
        let (cacheable, basis) = (routing.cacheable && !single, routing.basis);
        let retain = wanted.instructed && retains(envelope.headers())?;
        let (queues, identity) = if wanted.instructed {
            let now = self.publisher.time(&*self.engine.clock);
            self.engine.apply_scheduling(&mut routing, envelope.headers(), Some(wanted.published_at), now)?
        } else {
            (std::mem::take(&mut routing.queues), None)
        };
        if retain {
            check_retained(exchange, &queues)?;
        }
        let retain = retain.then(|| Box::new(basis));
        let route = self.slots.route(&queues, &routing.direct);
        if cacheable {
            let decisions_last = self.shared.identity.decisions_last();
            self.slots.remember_route(&route, basis, decisions_last.map(|span| Instant::now() + span));
        }
        Ok(Routed { route, retain, identity, steps })
    }

    fn check_copies(&self, envelope: &Envelope<'_>) -> Result<(), Error> {
        let limit = self.engine.settings.limits.cc_keys as usize;
        if envelope.named().nth(limit).is_none() {
            return Ok(());
        }
        let text =
            format!("CC and BCC name more than {limit} keys (limits.cc_keys), the most that one message may have");
        Err(Error::precondition(text))
    }

    /// The route of a parked message.
    pub(super) fn route_again(&mut self, message: &Message) -> Result<Routed, Error> {
        let (exchange, key, copies) = (message.exchange(), message.routing_key(), message.copies());
        let is_alone = copies == Copies::Named || message.instructed() || key.len() > NAME_MAX;
        if let Some(route) = self.known_route((!is_alone).then_some((exchange, key))) {
            return Ok(Routed::known(route));
        }
        self.find_route(Wanted {
            exchange,
            key,
            copies,
            instructed: message.instructed(),
            published_at: message.published_at(),
            dialect: message.dialect(),
            content: message.content(),
        })
    }

    /// Counts the routing of a message that does not go out with this turn.
    pub(super) fn note_steps(&mut self, routed: &Routed) {
        self.publisher.add_cost(routed.steps as usize / STEPS_PER_ENTRY);
    }

    /// Adds an arrival, and puts it on the lists of its queues.
    pub(super) fn gather(&mut self, arrival: Arrival, routed: Routed) {
        let index = self.publisher.gather(arrival, routed.cost());
        self.send_by(routed, index);
    }

    /// Puts the arrival at `index` on the lists of its queues.
    fn send_by(&mut self, routed: Routed, index: u32) {
        if let Some(identity) = routed.identity {
            self.publisher.arrival_mut(index).identity = Some(identity);
        }
        if let Some(basis) = routed.retain {
            self.publisher.note_retained(index, *basis);
        }
        self.pick(index, &routed.route);
    }

    /// Puts the arrival at `index` on the lists of the queues in these slots.
    #[inline]
    fn pick(&mut self, index: u32, route: &Route) {
        self.publisher.arrival_mut(index).shares = route.len() as u32;
        for slot in &**route {
            self.slots.gather_pick(*slot, index);
        }
        if self.vhost.is_traced() {
            self.trace_arrival(index, route);
        }
    }

    /// True when the turn has gathered as much as it may. The protocol then ends the turn, so that
    /// alarms are looked at and other connections get theirs.
    #[inline]
    pub fn is_turn_full(&self) -> bool {
        self.publisher.is_full()
    }

    /// Ends the turn: [`Client::flush`], and the next one begins with nothing.
    pub fn end_turn(&mut self, now: Instant) {
        self.flush(now);
        self.slots.forget_old_routes(now);
        self.publisher.forget_cost();
    }

    /// Settles, logs and enqueues all that was gathered.
    pub fn flush(&mut self, now: Instant) {
        if self.slots.is_idle() && !self.publisher.has_arrivals() {
            // A transaction may have read it.
            self.publisher.forget_time();
            return;
        }
        self.publisher.begin_flush();
        self.settle_touched();
        if self.publisher.has_arrivals() {
            self.flush_arrivals(now);
        }
        self.slots.end_turn();
        self.publisher.forget_time();
        self.run_work();
    }

    fn flush_arrivals(&mut self, now: Instant) {
        let allowance = self.engine.allowance();
        if allowance != Allowance::All {
            self.meet_alarm();
            if allowance == Allowance::None {
                self.publisher.forget_retained();
                self.park_arrivals();
                return;
            }
        }
        let mut arrivals = self.publisher.take_arrivals();
        self.count_received(&arrivals);
        let ticket = match self.publisher.take_retained() {
            None => self.enqueue(&mut arrivals),
            Some(retained) => self.enqueue_retained(&mut arrivals, &retained),
        };
        self.answer_all(&mut arrivals, ticket, now);
        self.publisher.keep_room(arrivals);
        if !ticket.is_none() {
            self.watch(ticket);
        }
    }

    /// Logs bodies, then visits each queue with picks, then hands over what goes to subscribers
    /// without a queue. The ticket covers everything logged.
    pub(super) fn enqueue(&mut self, arrivals: &mut [Arrival]) -> Ticket {
        if let Some(with) = self.grouped.as_ref().filter(|with| with.concerns(arrivals)) {
            let with = with.clone();
            return self.enqueue_grouped(arrivals, &with);
        }
        let now = self.publisher.time(&*self.engine.clock);
        let engine = &*self.engine;
        // Held until the end, so that logged bodies are flushed even if no queue takes them.
        let logged = self.log_bodies(arrivals, engine);
        let mut ticket = Ticket::NONE;
        let (many, mut behind) = (engine.postponed.are_many(), false);
        for QueueSlot { queue, picks, .. } in self.slots.touched() {
            if picks.is_empty() {
                continue;
            }
            behind |= many && engine.postponed.lock().has(queue);
            let mut visit = Visit { context: engine, now, work: &mut self.work };
            match queue.publish_or_pass_to_successor(arrivals, picks, &mut visit) {
                Ok(reached) => ticket = ticket.max(reached),
                Err(_) => picks.iter().for_each(|pick| arrivals[*pick as usize].miss()),
            }
        }
        self.slots.deliver_direct(arrivals, &engine.totals.deliveries);
        if logged.is_some() {
            release_holds(arrivals, self.vhost.log(), engine);
        }
        drop(logged);
        if behind {
            self.wait_for_dead_letters();
        }
        ticket
    }

    /// It has published to queues whose dead letters wait: it is not read while these are many.
    pub(super) fn wait_for_dead_letters(&mut self) {
        self.publisher.wait_for_dead_letters();
        self.engine.when_alarms_change(self.shared.mailbox.waker());
    }

    /// Logs the body of each message with a durable target. `None` if there is none.
    fn log_bodies<'c>(&self, arrivals: &mut [Arrival], engine: &'c Engine) -> Option<Unwoken<'c>> {
        let mut durable = vec![];
        for entry in self.slots.touched() {
            if entry.queue.logged() && !entry.picks.is_empty() {
                durable.push(&entry.picks);
            }
        }
        if durable.is_empty() || !arrivals.iter().any(|arrival| arrival.message().persistent()) {
            return None;
        }
        let mut appender = engine.journal.appender(self.vhost.log());
        for picks in durable {
            for pick in picks {
                let arrival = &mut arrivals[*pick as usize];
                if arrival.address.is_none() && arrival.message().persistent() {
                    arrival.address = Some(appender.body(&[arrival.message().block()]));
                }
            }
        }
        // The references follow, unless all are duplicates or their queues are gone: one flush for
        // both, even for a lone message.
        Some(appender.and_more())
    }

    pub(super) fn count_received(&self, arrivals: &[Arrival]) {
        let totals = &self.engine.totals.publishes;
        let (mut bytes, mut confirming, mut sizes) = (0, 0, [0; Sizes::BOUNDS.len() + 1]);
        for arrival in arrivals.iter().filter(|arrival| arrival.refused.is_none()) {
            bytes += arrival.length;
            confirming += u64::from(arrival.confirm != Confirm::None);
            sizes[Sizes::class(arrival.length)] += 1;
        }
        totals.received.add(sizes.iter().sum());
        totals.received_bytes.add(bytes);
        totals.received_confirm.add(confirming);
        totals.sizes.add(sizes);
    }

    /// Queues the answer to each publisher.
    fn answer_all(&mut self, arrivals: &mut Vec<Arrival>, ticket: Ticket, now: Instant) {
        let (mut routed, mut refused) = (0, 0);
        let turn = (self.publisher.turn(), now);
        for mut arrival in arrivals.drain(..) {
            let (session, confirm) = (SessionId(arrival.session), arrival.confirm);
            // A duplicate is as safe as the first one.
            let durable = arrival.address.is_some() || arrival.repeated || arrival.retained;
            if let Some(claim) = arrival.claim.take_if(|_| durable) {
                self.engine.journal.when_durable(ticket, &claim.into_waker());
            }
            if arrival.taken > 0 || arrival.retained {
                routed += 1;
            }
            if let Some(why) = arrival.refused {
                refused += 1;
                if let Some(number) = confirm.number() {
                    self.sessions.answer(session, Answer::Refused { number, why });
                }
                continue;
            }
            if arrival.repeated {
                self.engine.totals.publishes.duplicates.add(1);
            }
            if arrival.is_lost() {
                if self.reply(&arrival) {
                    routed += 1;
                } else if let Some(answer) = self.lose(arrival) {
                    self.sessions.answer(session, answer);
                    continue;
                }
            }
            if confirm != Confirm::None || durable {
                let ticket = if durable { ticket } else { Ticket::NONE };
                self.sessions.answer_taken(session, confirm, ticket, turn);
            }
        }
        let totals = &self.engine.totals.publishes;
        totals.routed.add(routed);
        totals.refused.add(refused);
        if self.sessions.is_answering() {
            self.shared.mailbox.waker().wake_by_ref();
        }
    }

    /// Counts a message that has reached no queue. Returns what its publisher is told, if that is
    /// more than that it was taken.
    fn lose(&self, arrival: Arrival) -> Option<Answer> {
        let totals = &self.engine.totals.publishes;
        let number = arrival.confirm.number();
        let is_told = match arrival.unroutable {
            Unroutable::Drop => false,
            Unroutable::Tell => number.is_some(),
            Unroutable::Return => true,
        };
        if !is_told {
            totals.unroutable_dropped.add(1);
            self.engine.note_unroutable(&self.shared.vhost, None, arrival.message(), self.engine.clock.unix_ms());
            return None;
        }
        totals.unroutable_returned.add(1);
        let returns = arrival.unroutable == Unroutable::Return;
        Some(Answer::Unroutable { number, message: returns.then(|| arrival.into_message()) })
    }

    /// Passes on a message that is a reply and has no queue.
    fn reply(&self, arrival: &Arrival) -> bool {
        let requester = self.engine.requester(&self.vhost.name, arrival.message());
        requester.is_some_and(|requester| requester.deliver(arrival.message().clone()))
    }

    /// Asks to be woken when `ticket` is durable, if a client waits for it. Paces a connection
    /// whose records pile up.
    fn watch(&mut self, ticket: Ticket) {
        if self.engine.journal.lag() > self.engine.settings.lag_bytes {
            self.publisher.pace(ticket);
        }
        if self.sessions.is_answering() || self.publisher.lag_ticket() == ticket {
            self.engine.journal.when_durable(ticket, self.shared.mailbox.waker());
        }
    }

    /// Reports show from here on that publishes of this session are confirmed.
    pub fn show_confirming(&self, session: SessionId) {
        if let Some(entry) = self.sessions.get(session) {
            entry.shown.set_confirming();
        }
    }
}

/// The front of the message of a publish at this time.
#[inline(always)]
fn head_of<'a>(publish: &Publish<'a>, published_at: u64, own: Option<&'a PublisherId>) -> Head<'a> {
    Head {
        dialect: publish.dialect,
        persistent: publish.persistent,
        priority: publish.priority,
        published_at,
        expiration: publish.expiration,
        copies: copies_of(publish),
        instructed: publish.instructed,
        delayed: false,
        exchange: publish.exchange,
        routing_key: publish.routing_key,
        properties: publish.properties,
        annotations: &[],
        publisher: own.map_or(&[], PublisherId::bytes),
    }
}

#[inline]
pub(super) fn copies_of(publish: &Publish<'_>) -> Copies {
    if publish.copies { Copies::Named } else { Copies::None }
}
