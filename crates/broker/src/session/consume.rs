//! Consuming and fetching.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{Resource, Right};
use journal::Ticket;
use selector::Selector;

use crate::arguments::consumer::{BROWSE, ConsumerArguments, InvalidArgument, Mode, SELECTOR};
use crate::arguments::{MESSAGE_GROUPS, QueueArguments, QueueType};
use crate::catalog::declaration::locked;
use crate::catalog::subscriptions::{Sharing, SubscriptionFact, SubscriptionName};
use crate::engine::bounds::FETCH_ENTRIES;
use crate::error::{Error, Fact};
use crate::memory::ledger::Kept;
use crate::queue::mailbox::{Called, Outgoing};
use crate::queue::{Consumer, Credit, Fetched, Filter, Queue, Resume, Settling, Unattached, Visit};
use crate::session::drain::{Delivery, Event};
use crate::session::receiver::ConsumerRecord;
use crate::session::settle::{FETCHED, Unacked};
use crate::session::{Awaited, Client, RetainedWanted, SessionId, SubscriptionFilter};

/// How often a selector is in memory: as its consumer's argument, as a view's text, and parsed,
/// which takes about as much as both.
const SELECTOR_COPIES: usize = 4;

/// What a consumer gets messages from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The queue of this name.
    Queue(String),
    /// A subscription. It has the selector of its consumers, who may give none, and keeps nothing
    /// that they do not get.
    Subscription(SubscriptionName),
    /// What these filters match, without a queue. It gets each message at most once, and none twice
    /// where several filters match. Messages that its client leaves unread beyond
    /// [`Settings::mailbox_bytes`](crate::Settings::mailbox_bytes) are dropped, and counted in
    /// [`ClientReport::dropped`](crate::ClientReport::dropped) and in
    /// [`Deliveries::unread_dropped`](crate::Deliveries::unread_dropped).
    ///
    /// It consumes without settling (`no_ack`) and with an open window. Rights are those of a
    /// consumer: to read each exchange, and each topic of a topic exchange. It ends with
    /// [`Client::cancel`], with its session, and with a right that it needs.
    ///
    /// What the broker itself moves goes to queues alone: dead letters, delayed messages and
    /// redriven ones.
    Direct(DirectSource),
}

/// The filters of a [`Source::Direct`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectSource {
    /// The messages that it asks for: those that any of these matches.
    pub filters: Vec<SubscriptionFilter>,
    /// Which retained messages of these it gets first. They come in pieces, as its client reads.
    /// None of them comes behind the live message that replaced it.
    pub retained: RetainedWanted,
}

impl From<&str> for Source {
    fn from(queue: &str) -> Self {
        Self::Queue(queue.to_owned())
    }
}

impl From<String> for Source {
    fn from(queue: String) -> Self {
        Self::Queue(queue)
    }
}

/// A new consumer to start.
#[derive(Debug, Clone)]
pub struct Consume {
    /// What it gets messages from.
    pub source: Source,
    /// Its tag; empty for a generated one.
    pub tag: String,
    /// Deliveries are settled as they are sent.
    pub no_ack: bool,
    /// No other consumer may be on the queue.
    pub exclusive: bool,
    /// It does not get what this connection publishes from here on. If the connection has named
    /// its client ([`Client::name_client`]), it does not get what that client publishes.
    pub no_local: bool,
    /// What lets deliveries go to it.
    pub credit: Credit,
    /// What it asks of the queue; or why that cannot be served, which its client is told after the
    /// queue was found and may be read.
    pub arguments: Result<ConsumerArguments, InvalidArgument>,
}

impl Default for Consume {
    fn default() -> Self {
        Self {
            source: "".into(),
            tag: String::new(),
            no_ack: false,
            exclusive: false,
            no_local: false,
            credit: Credit::OPEN,
            arguments: Ok(ConsumerArguments::default()),
        }
    }
}

impl Consume {
    fn settling(&self) -> Settling {
        if self.no_ack { Settling::Auto } else { Settling::Manual }
    }

    /// The messages that it sees, or the argument that its queue cannot serve.
    fn filter(&self, asked: &ConsumerArguments, queue: &QueueArguments) -> Result<Filter, InvalidArgument> {
        let drops_others = matches!(self.source, Source::Subscription(_)) && asked.mode == Mode::Take;
        let browses = asked.mode == Mode::Browse;
        if browses && !self.no_ack {
            return Err(InvalidArgument::new(BROWSE, "a browser settles nothing: it consumes without settling"));
        }
        let selector =
            Selector::parse(&asked.selector).map_err(|error| InvalidArgument::new(SELECTOR, error.to_string()))?;
        if queue.single_active_consumer {
            let argument = match (&selector, queue.grouping) {
                (Some(_), _) => Some(SELECTOR),
                (None, _) if self.no_local => Some("no-local"),
                (None, Some(_)) if !browses => Some(MESSAGE_GROUPS),
                (None, _) => None,
            };
            if let Some(argument) = argument {
                let why = "the queue has a single active consumer, which takes whatever comes";
                return Err(InvalidArgument::new(argument, why));
            }
        }
        Ok(Filter { selector, not_from: None, browses, drops_others })
    }
}

/// At most so many passed-by consumers try again before others get their turn.
const RESUMED_AT_ONCE: usize = 1024;

/// The result of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// A message was reported.
    Message,
    /// The queue has none that is ready.
    Empty,
    /// Ask again when [`Client::durable`] is true for this.
    Wait(Awaited),
}

impl Client {
    /// Bounds the unsettled deliveries of all consumers of a session together, beside the credit
    /// that each has; `None` lifts the bound. AMQP 0-9-1 has such a window, global prefetch.
    pub fn share_window(&mut self, session: SessionId, most: Option<NonZeroU32>, now: Instant) {
        self.flush(now);
        let Ok(entry) = self.sessions.require(session) else { return };
        entry.shared.set_limit(most.map_or(0, NonZeroU32::get));
        if most.is_some() {
            self.receiver.note_shared_limit();
        }
        self.resume_starved(session);
    }

    /// The window that the protocol will give to later consumers of a session, for reports.
    pub fn show_window(&self, session: SessionId, most: Option<NonZeroU32>) {
        if let Some(entry) = self.sessions.get(session) {
            entry.shown.set_prefetch(most.map_or(0, NonZeroU32::get));
        }
    }

    /// Sets what lets deliveries go to a consumer. An unknown tag is no error.
    pub fn set_credit(&mut self, session: SessionId, tag: &str, credit: Credit, now: Instant) {
        self.flush(now);
        if let Some(number) = self.find_consumer(session, tag) {
            self.bound_consumer(number, credit);
        }
    }

    /// The same for each consumer of a session.
    pub fn set_credit_of_all(&mut self, session: SessionId, credit: Credit, now: Instant) {
        self.flush(now);
        let consumers: Vec<u32> = self.consumers_of(session).collect();
        consumers.into_iter().for_each(|consumer| self.bound_consumer(consumer, credit));
    }

    fn bound_consumer(&mut self, number: u32, credit: Credit) {
        let reported = self.receiver.consumer(number).map_or(0, |record| record.reported);
        let bounds = credit.bounds(reported, self.engine.settings.limits.unsettled);
        self.resume_consumer(number, Resume::Bounds(bounds));
    }

    fn consumers_of(&self, session: SessionId) -> impl Iterator<Item = u32> {
        self.sessions.get(session).into_iter().flat_map(|session| session.consumers().iter().copied())
    }

    /// Lets passed-by consumers try again while the mailbox has room, and at most so many. The rest
    /// is first the next time.
    pub(super) fn resume_passed(&mut self) {
        for _ in 0..RESUMED_AT_ONCE {
            if self.shared.mailbox.room() == 0 {
                self.shared.mailbox.leave_passed();
                return;
            }
            let Some(consumer) = self.shared.mailbox.next_passed() else { return };
            self.resume_consumer(consumer, Resume::Room);
        }
        self.shared.mailbox.leave_passed();
        self.shared.mailbox.waker().wake_by_ref();
    }

    pub(super) fn resume_consumer(&mut self, consumer: u32, why: Resume) {
        let Some(queue) = self.consumed_by(consumer) else { return };
        let key = self.key(consumer);
        self.visit(|visit| queue.resume(key, why, visit));
    }

    /// Starts a consumer and returns its tag. Its deliveries are reported by `drain`.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `AccessRefused` (also for a queue in exclusive use), `NotAllowed` for
    /// a tag in use.
    pub fn consume(&mut self, session: SessionId, consume: Consume, now: Instant) -> Result<String, Error> {
        self.flush(now);
        if let Source::Direct(source) = &consume.source {
            return self.consume_direct(session, source, &consume);
        }
        let (queue, subscription) = self.source(&consume.source)?;
        let of_queue = queue.arguments(&self.engine);
        let asked = consume.arguments.clone().and_then(|asked| of_subscription(asked, subscription.as_deref()));
        let found = asked.and_then(|asked| Ok((asked.clone(), consume.filter(&asked, &of_queue)?)));
        let (asked, mut filter) = found.map_err(|invalid| invalid.at(&queue.name, &queue.vhost))?;
        if consume.no_local {
            filter.not_from = Some(self.publisher.show_own(self.shared.number, self.engine.clock.unix_ms()));
        }
        let tag = self.consumer_tag(session, &consume.tag)?;
        let slot = self.slots.slot(&queue);
        let number = self.add_consumer(session, (&tag, asked.selector.len()), Some(slot), consume.settling())?;
        let own = asked.timeout.or(of_queue.consumer_timeout.map(Duration::from_millis));
        let timeout = own.unwrap_or(self.engine.settings.consumer_timeout);
        let timeout = Some(timeout).filter(|timeout| !timeout.is_zero() && !consume.no_ack);
        self.receiver.set_timeout(number, timeout);
        timeout.into_iter().for_each(|timeout| self.watch_consumer(timeout, now));
        let entry = self.sessions.require(session)?;
        let (called, shared) = (entry.shown.number(), Arc::clone(&entry.shared));
        let mut consumer = Consumer::new(self.key(number), Arc::clone(&self.shared.mailbox), shared);
        consumer.tag = tag.as_str().into();
        consumer.no_ack = consume.no_ack;
        let alone = subscription.is_some_and(|subscription| subscription.sharing == Sharing::Exclusive);
        consumer.exclusive = consume.exclusive || alone;
        consumer.bounds = consume.credit.bounds(0, self.engine.settings.limits.unsettled);
        consumer.timeout = timeout;
        consumer.session = called;
        consumer.arguments = asked;
        self.receiver.note_consuming();
        if let Err(why) = self.visit(|visit| queue.attach(consumer, filter, visit)) {
            self.forget_consumer(number);
            return Err(match why {
                Unattached::Gone => no_queue(&queue.name, &self.shared.vhost),
                Unattached::InUse => in_use(&queue),
                Unattached::TooMany => too_many(&queue, self.engine.settings.limits.consumers.per_queue),
            });
        }
        // The right may have been taken away before the consumer was attached, and was not checked
        // then. It may have deliveries by now, so it is cancelled behind them. The same happens
        // when the right goes a moment later.
        if self.authorize(Resource::queue(&queue.name), Right::Read).is_err() {
            let own = self.shared.number;
            self.visit(|visit| queue.expel(&|client| client == own, visit));
        }
        Ok(tag)
    }

    /// Notes a consumer of a session, with its tag and the length of its selector, and gives it its
    /// number.
    pub(super) fn add_consumer(
        &mut self,
        session: SessionId,
        (tag, selector): (&str, usize),
        slot: Option<u32>,
        settling: Settling,
    ) -> Result<u32, Error> {
        let limits = &self.engine.settings.limits;
        let (of_session, of_client) = (limits.consumers.per_session, limits.consumers.per_connection);
        let there = self.receiver.consumer_count();
        let entry = self.sessions.require(session)?;
        if entry.consumers().len() as u64 >= u64::from(of_session) {
            return Err(Error::of(Fact::Consumers { limit: of_session }));
        }
        if there as u64 >= u64::from(of_client) {
            return Err(Error::not_allowed(format!("reached maximum ({of_client}) of consumers per connection")));
        }
        let text = tag.len() + SELECTOR_COPIES * selector;
        let admitted = self.engine.admit_kept("consumer refused", (Kept::Consumer.cost() + text) as u64);
        admitted.map_err(Error::precondition)?;
        self.shared.account.keep(Kept::Consumer, text);
        let (tag, no_ack): (Arc<str>, bool) = (tag.into(), settling == Settling::Auto);
        let (own, direct, timeout) = (Arc::clone(&tag), None, None);
        let record = ConsumerRecord { session, tag: own, text, slot, direct, no_ack, timeout, reported: 0 };
        let number = self.receiver.add_consumer(record);
        entry.add_consumer(number, tag);
        if let Some(slot) = slot {
            self.slots.hold(slot);
        }
        self.shared.figures.add_consumer();
        Ok(number)
    }

    /// What reports call a consumer of this client.
    pub(super) fn called(&self, consumer: u32) -> Result<Called, Error> {
        let record = self.receiver.consumer(consumer);
        let of = record.and_then(|record| Some((record, self.sessions.get(record.session)?.shown.number())));
        let (record, session) = of.ok_or_else(|| Error::internal("a consumer is not among those of its client"))?;
        Ok(Called { client: self.shared.number, session, tag: Arc::clone(&record.tag) })
    }

    pub(super) fn consumer_tag(&self, session: SessionId, wanted: &str) -> Result<String, Error> {
        if wanted.is_empty() {
            return Ok(self.fresh_name(""));
        }
        if self.find_consumer(session, wanted).is_some() {
            return Err(Error::not_allowed(format!("attempt to reuse consumer tag '{wanted}'")));
        }
        Ok(wanted.to_owned())
    }

    fn find_consumer(&self, session: SessionId, tag: &str) -> Option<u32> {
        self.sessions.get(session)?.consumer_tagged(tag)
    }

    /// Stops a consumer. Its deliveries that are on their way are reported first, and none comes
    /// after. Its unsettled deliveries stay with the session. Returns the ticket for the reply. An
    /// unknown tag is no error.
    pub fn cancel(&mut self, session: SessionId, tag: &str, now: Instant, report: &mut dyn FnMut(Event<'_>)) -> Ticket {
        self.flush(now);
        let Some(number) = self.find_consumer(session, tag) else { return self.settled.ticket() };
        self.stop_replies(session, number);
        self.detach_consumer(number);
        while self.drain(now, usize::MAX, report) {}
        self.forget_consumer(number);
        self.settled.ticket()
    }

    /// Takes a consumer away from its queue.
    fn detach_consumer(&mut self, number: u32) {
        let key = self.key(number);
        let direct = self.receiver.take_direct(number);
        self.end_direct(direct);
        if let Some(queue) = self.consumed_by(number) {
            self.visit(|visit| queue.detach(key, visit));
        }
    }

    pub(super) fn consumed_by(&self, number: u32) -> Option<Arc<Queue>> {
        self.slots.queue(self.receiver.consumer(number)?.slot?).cloned()
    }

    pub(super) fn forget_consumer(&mut self, number: u32) -> Option<ConsumerRecord> {
        let record = self.receiver.remove_consumer(number)?;
        self.end_direct(record.direct);
        if let Some(session) = self.sessions.get_mut(record.session) {
            session.remove_consumer(number, &record.tag);
        }
        if let Some(slot) = record.slot {
            self.slots.let_go(slot);
        }
        self.shared.figures.remove_consumer();
        self.shared.account.end(Kept::Consumer, record.text);
        let there = |consumer: u32| self.receiver.consumer(consumer).is_some();
        self.shared.mailbox.forget_passed(self.receiver.consumer_count(), &there);
        Some(record)
    }

    /// Fetches one message and reports it with how many stay ready.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `AccessRefused`; `Precondition` for a session that holds as many
    /// unsettled deliveries as it may.
    pub fn get(
        &mut self,
        session: SessionId,
        queue: &str,
        settling: Settling,
        now: Instant,
        report: &mut dyn FnMut(&Delivery<'_>, u64),
    ) -> Result<Fetch, Error> {
        self.flush(now);
        self.publisher.add_cost(FETCH_ENTRIES);
        let queue = self.queue_to(queue, Right::Read)?;
        // As in RabbitMQ: any client fetches from any other queue, past a single consumer.
        if queue.queue_type == QueueType::Quorum && queue.arguments(&self.engine).single_active_consumer {
            let (queue, vhost) = (queue.name.to_string(), queue.vhost.to_string());
            return Err(Error::of(Fact::FetchPastActive { queue, vhost }));
        }
        let (held, most) =
            (self.sessions.require(session)?.unsettled.len(), self.engine.settings.limits.unsettled as usize);
        if settling == Settling::Manual && held >= most {
            return Err(Error::of(Fact::Unsettled { held }));
        }
        self.receiver.note_consuming();
        let slot = self.slots.slot(&queue);
        let waker = self.shared.mailbox.waker().clone();
        let fetched = self
            .visit(|visit: &mut Visit<'_>| queue.fetch(settling, &waker, visit))
            .map_err(|_| no_queue(&queue.name, &queue.vhost))?;
        let (outgoing, remaining) = match fetched {
            Fetched::Empty => {
                self.engine.totals.deliveries.fetched_empty.add(1);
                return Ok(Fetch::Empty);
            }
            Fetched::Wait(ticket) => return Ok(Fetch::Wait(ticket.into())),
            Fetched::Away => {
                self.receiver.wait_for(queue);
                return Ok(Fetch::Wait(Awaited::Arrival));
            }
            Fetched::Damaged(damage) => return Err(Error::precondition(damage)),
            Fetched::Entry { seq, message, past, returns, remaining } => {
                (Outgoing { consumer: FETCHED, past, returns, seq, message }, remaining)
            }
        };
        let totals = &self.engine.totals.deliveries;
        totals.redelivered.add(u64::from(outgoing.past.is_redelivered()));
        let entry = self.sessions.require(session)?;
        let tag = match settling {
            Settling::Manual => {
                self.slots.hold(slot);
                totals.fetched_manual.add(1);
                entry.shared.add_fetched();
                entry.unsettled.add(Some(Unacked { slot, consumer: FETCHED, seq: outgoing.seq }))
            }
            Settling::Auto => {
                totals.fetched_auto.add(1);
                entry.unsettled.add(None)
            }
        };
        self.watch_deliveries(now);
        let Outgoing { past, returns, message, .. } = &outgoing;
        let counts = returns.shown(self.engine.settings.counted_returns);
        let (redelivered, failures) = (past.is_redelivered(), past.failures(*returns));
        let place = outgoing.seq;
        let delivery = Delivery { session, consumer_tag: "", tag, redelivered, place, failures, counts, message };
        report(&delivery, remaining);
        if self.traces(message) {
            self.trace_delivery(session, Some(slot), &outgoing);
        }
        Ok(Fetch::Message)
    }

    /// The queue of a source, which this client may read, and the subscription that the source is.
    fn source(&self, source: &Source) -> Result<(Arc<Queue>, Option<Arc<SubscriptionFact>>), Error> {
        let name = match source {
            Source::Queue(name) => return Ok((self.queue_to(name, Right::Read)?, None)),
            Source::Subscription(name) => name,
            Source::Direct(_) => return Err(Error::internal("a subscriber without a queue has none")),
        };
        let tables = self.vhost.tables.read();
        let found = tables.subscribed_queue(name).and_then(|queue| {
            let fact = tables.subscriptions.of_queue(queue.id)?;
            Some((Arc::clone(queue), Arc::clone(fact)))
        });
        drop(tables);
        let (queue, fact) = found
            .ok_or_else(|| Error::not_found(format!("no subscription {name} in vhost '{}'", self.shared.vhost)))?;
        self.authorize(Resource::queue(&queue.name), Right::Read)?;
        self.check_owner(&queue)?;
        Ok((queue, Some(fact)))
    }

    /// A queue that this client may use with `right`.
    pub(super) fn queue_to(&self, name: &str, right: Right) -> Result<Arc<Queue>, Error> {
        self.engine
            .authority
            .authorize(&self.shared.identity, &self.shared.vhost, Resource::queue(name), right)
            .map_err(|denied| Error::refused(denied.to_string()))?;
        let queue = self.vhost.queue(name).ok_or_else(|| no_queue(name, &self.shared.vhost))?;
        self.check_owner(&queue)?;
        Ok(queue)
    }

    /// Exclusive queues are for the client that declared them.
    pub(super) fn check_owner(&self, queue: &Queue) -> Result<(), Error> {
        match queue.exclusive_to {
            Some(owner) if owner != self.shared.number => Err(locked(&queue.name, &queue.vhost)),
            _ => Ok(()),
        }
    }
}

/// What a consumer of a subscription asks for.
fn of_subscription(
    mut asked: ConsumerArguments,
    subscription: Option<&SubscriptionFact>,
) -> Result<ConsumerArguments, InvalidArgument> {
    let Some(subscription) = subscription else { return Ok(asked) };
    if !asked.selector.is_empty() {
        return Err(InvalidArgument::new(SELECTOR, "the subscription has the selector of all its consumers"));
    }
    asked.selector.clone_from(&subscription.selector);
    Ok(asked)
}

pub(super) fn no_queue(name: &str, vhost: &str) -> Error {
    Error::not_found(format!("no queue '{name}' in vhost '{vhost}'"))
}

fn in_use(queue: &Queue) -> Error {
    Error::of(Fact::InUse { queue: queue.name.to_string(), vhost: queue.vhost.to_string() })
}

fn too_many(queue: &Queue, limit: u32) -> Error {
    let (name, vhost) = (&queue.name, &queue.vhost);
    Error::not_allowed(format!("reached maximum ({limit}) of consumers of queue '{name}' in vhost '{vhost}'"))
}
