//! A client of the broker: one authenticated connection with its sessions, its mailbox and the turn
//! that it gathers.
//!
//! A protocol calls publish and settle as it parses, then `flush` at the end of the turn, and
//! `drain` to write the events that wait. Everything else flushes first, so the effects of a
//! session happen in the order of its requests.

mod ack_timeout;
mod blocked;
mod confirms;
pub(crate) mod consume;
pub(crate) mod declare;
mod direct;
mod drain;
pub(crate) mod ending;
mod exactly_once;
mod numbered;
pub(crate) mod publish;
mod publisher;
mod purge;
mod receiver;
mod replies;
mod retain;
mod routes;
mod sessions;
mod settle;
mod settled;
mod slots;
mod subscribe;
mod subscribed;
mod together;
mod trace;
pub(crate) mod transaction;
mod upload;
pub(crate) mod wills;

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use auth::{Identity, NotRenewed};
use journal::Ticket;

use crate::alarms::{Allowance, Flow};
use crate::catalog::Vhost;
use crate::engine::Engine;
use crate::engine::clients::{ClientShared, Login};
use crate::engine::connections::no_vhost;
use crate::error::{Error, ErrorKind};
use crate::memory::ledger::{Kept, PublisherRoom};
use crate::queue::arrival::Work;
use crate::queue::{ConsumerKey, Queue, Visit};
use blocked::Parking;
use exactly_once::GroupedWith;
use publisher::Publisher;
use receiver::Receiver;
use sessions::{Session, Sessions};
use settled::Settled;
use slots::Slots;
use transaction::Transactions;
use upload::Uploads;

pub use crate::queue::arrival::{Confirm, Refusal, Unroutable};
pub use crate::queue::mailbox::TransactionId;
pub use consume::{Consume, DirectSource, Fetch, Source};
pub use declare::{Declared, DeleteIf};
pub use drain::{Delivery, Event};
pub use exactly_once::Handover;
pub use publish::Publish;
pub use settle::{Outcome, Tags};
pub use subscribe::{RetainedWanted, Subscribed, SubscriptionFilter, SubscriptionSpec};
pub use subscribed::SubscriptionThere;
pub use together::Declaration;
pub use wills::Returned;

/// A session of a client; never reused within the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub u32);

/// What an answer waits for; [`Client::durable`] says when it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The flush of this ticket.
    Flush(Ticket),
    /// The message of a fetch, which is read from the disk.
    Arrival,
    /// The ends of the client's sessions that are under way, and their flush.
    Ends,
}

impl Awaited {
    /// It has always come.
    pub const NOTHING: Self = Self::Flush(Ticket::NONE);

    /// What waits for this and for the flush of `ticket`. The ends of sessions and a fetch come
    /// after every earlier request of their client.
    #[must_use]
    pub fn and(self, ticket: Ticket) -> Self {
        match self {
            Self::Flush(own) => Self::Flush(own.max(ticket)),
            Self::Arrival | Self::Ends => self,
        }
    }
}

impl From<Ticket> for Awaited {
    fn from(ticket: Ticket) -> Self {
        Self::Flush(ticket)
    }
}

/// See the module. Dropping it closes it.
pub struct Client {
    engine: Arc<Engine>,
    shared: Arc<ClientShared>,
    vhost: Arc<Vhost>,
    sessions: Sessions,
    publisher: Publisher,
    uploads: Uploads,
    parking: Parking,
    receiver: Receiver,
    transactions: Transactions,
    slots: Slots,
    /// Its exclusive queues.
    exclusive: Vec<Arc<Queue>>,
    work: Vec<Work>,
    settled: Settled,
    /// What stands in one group with its publishes.
    grouped: Option<GroupedWith>,
    closed: bool,
}

impl Client {
    /// A client for one request of management, which is in no list and counts against no limit.
    pub(crate) fn attach_unlisted(engine: &Arc<Engine>, login: Login, waker: Waker) -> Result<Self, Error> {
        let vhost = engine.enter(&login.identity, &login.vhost)?;
        let shared = ClientShared::new(engine, login, waker);
        Ok(Self::new(Arc::clone(engine), Arc::new(shared), vhost))
    }

    pub(crate) fn attach(engine: &Arc<Engine>, login: Login, waker: Waker) -> Result<Self, Error> {
        let vhost = engine.enter(&login.identity, &login.vhost)?;
        let shared = Arc::new(ClientShared::new(engine, login, waker));
        engine.admit_client(&shared, &vhost)?;
        // The vhost may have been deleted, or the user changed, before this client was listed. Then
        // it was not told.
        let entered = engine.enter(&shared.identity, &shared.vhost);
        let outdated = match entered {
            Err(refused) => Some(refused),
            Ok(again) if again.id != vhost.id => Some(no_vhost(&shared.vhost)),
            Ok(_) if shared.identity.expires().is_some_and(|at| at <= engine.clock.unix_ms()) => {
                Some(Error::not_allowed(format!("the credentials of user '{}' have expired", shared.user)))
            }
            Ok(_) if engine.authority.is_current(&shared.identity) => None,
            Ok(_) => Some(Error::not_allowed(format!("the password of user '{}' has changed", shared.user))),
        };
        if let Some(error) = outdated {
            engine.clients.lock().remove(shared.number);
            return Err(error);
        }
        engine.totals.churn.connections_opened.add(1);
        engine.watch_expiry(&shared);
        Ok(Self::new(Arc::clone(engine), shared, vhost))
    }

    fn new(engine: Arc<Engine>, shared: Arc<ClientShared>, vhost: Arc<Vhost>) -> Self {
        let parking = Parking::new(&shared.account);
        Self {
            engine,
            shared,
            vhost,
            sessions: Sessions::default(),
            publisher: Publisher::default(),
            uploads: Uploads::default(),
            parking,
            receiver: Receiver::default(),
            transactions: Transactions::default(),
            slots: Slots::default(),
            exclusive: Vec::new(),
            work: Vec::new(),
            settled: Settled::default(),
            grouped: None,
            closed: false,
        }
    }

    /// The vhost it is attached to.
    pub fn vhost(&self) -> &str {
        &self.shared.vhost
    }

    /// The user, as it has logged in.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// Whether the user may see figures of all vhosts now.
    pub fn monitors(&self) -> bool {
        self.engine.monitors(&self.shared.identity)
    }

    /// Takes over the rights of a newer log-in of the same user. What they do not cover ends:
    /// consumers, bindings of exclusive queues, or the client itself.
    ///
    /// # Errors
    /// If it is another user, or this client's rights can't be renewed.
    pub fn renew(&mut self, newer: &Identity) -> Result<(), NotRenewed> {
        self.engine.renew(&self.shared, newer)?;
        // The old rights have allowed them.
        self.slots.forget_routes();
        Ok(())
    }

    /// The broker's time, in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.engine.clock.unix_ms()
    }

    /// A name that nothing else has and that can't be guessed: `prefix`, and 22 characters.
    pub fn fresh_name(&self, prefix: &str) -> String {
        self.engine.names.name(prefix)
    }

    /// The user it acts for.
    pub fn user(&self) -> &str {
        &self.shared.user
    }

    /// Its number in this run of the broker, as reports show it.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The most sessions of its user on all connections, if it has so many already. Lone ones do
    /// not count.
    pub fn session_limit_reached(&self) -> Option<u32> {
        let limit = self.engine.authority.limits(&self.shared.user).sessions?;
        (self.shared.account.sessions_of_user() >= limit as usize).then_some(limit)
    }

    /// Fails where its user has as many sessions as it may.
    ///
    /// # Errors
    /// `NotAllowed`.
    pub fn admit_session(&self) -> Result<(), Error> {
        let Some(limit) = self.session_limit_reached() else { return Ok(()) };
        Err(Error::not_allowed(format!("user '{}' has as many sessions as it may ({limit})", self.user())))
    }

    /// Fails where memory has no room for one more session, which its protocol calls `what`.
    ///
    /// # Errors
    /// `NotAllowed`.
    pub fn check_session(&self, what: &str) -> Result<(), Error> {
        self.engine.admit_kept(&format!("{what} refused"), Kept::Session.cost() as u64).map_err(Error::not_allowed)
    }

    /// Room for a link of a publisher with texts of so many bytes, in a protocol whose sessions
    /// have several publishers.
    ///
    /// # Errors
    /// `ResourceLimit` where memory has no room for one more.
    pub fn admit_publisher(&self, texts: usize) -> Result<PublisherRoom, Error> {
        let admitted = self.engine.admit_kept("publisher refused", (Kept::Publisher.cost() + texts) as u64);
        admitted.map_err(|refused| Error::new(ErrorKind::ResourceLimit, refused))?;
        Ok(PublisherRoom::new(&self.shared.account, texts))
    }

    /// Starts the session of a client whose protocol has none beside the connection. It does not
    /// count against the limit of sessions of its user.
    pub fn open_lone_session(&mut self) -> SessionId {
        self.shared.account.leave_out_sessions();
        self.open_session(1)
    }

    /// Starts a session. Its protocol calls it by the number `called`.
    pub fn open_session(&mut self, called: u32) -> SessionId {
        self.shared.account.add_session();
        let (number, shown) = self.sessions.start(called);
        self.shared.figures.add_session(&shown);
        self.engine.totals.churn.sessions_opened.add(1);
        number
    }

    /// Ends a session: its consumers go, its unsettled deliveries return to their places, its
    /// parked publishes are refused. Returns what the reply waits for. A large end is still under
    /// way then.
    pub fn close_session(&mut self, session: SessionId, now: Instant) -> Awaited {
        self.flush(now);
        self.uploads.forget(session);
        let Some(ended) = self.take_session(session) else { return Awaited::NOTHING };
        self.end_session(ended)
    }

    /// Takes a session out: no event reaches it any more.
    fn take_session(&mut self, session: SessionId) -> Option<Session> {
        let mut ended = self.sessions.remove(session)?;
        self.refuse_parked_of_closed(&mut ended);
        ended.abandoned = self.abandon_transactions(session);
        if let Some(replies) = ended.replies.take() {
            self.end_replies(&replies);
        }
        self.shared.figures.remove_session(&ended.shown);
        if ended.publishes() {
            self.shared.figures.remove_publisher();
        }
        self.shared.account.remove_session();
        self.engine.totals.churn.sessions_closed.add(1);
        Some(ended)
    }

    /// Ends everything: sessions, exclusive queues, the connection's place in the reports.
    pub fn close(&mut self, now: Instant) -> Awaited {
        if self.closed {
            return self.settled.ticket().into();
        }
        self.closed = true;
        self.flush(now);
        self.uploads.clear();
        // Deliveries that some sessions give back must not go to a consumer of another.
        self.shared.mailbox.shut();
        let mut sessions: Vec<_> = self.sessions.iter().map(|(session, _)| session).collect();
        sessions.sort_unstable_by_key(|session| session.0);
        let ended = sessions.into_iter().filter_map(|session| self.take_session(session)).collect();
        let ends = self.end_all(ended);
        self.engine.forget_expiry(&self.shared);
        if self.engine.clients.lock().remove(self.shared.number).is_some() {
            self.engine.totals.churn.connections_closed.add(1);
        }
        ends
    }

    /// Nothing has moved for a while. Gives back what is kept for the next messages: buffers, and
    /// routes and decisions that are found again.
    pub fn rest(&mut self) {
        self.sessions.rest();
        self.publisher.rest();
        self.receiver.rest();
        self.slots.rest();
        if self.work.is_empty() {
            self.work = Vec::new();
        }
        self.shared.mailbox.rest();
        self.shared.identity.forget_decisions();
    }

    /// True when `awaited` has come, and what it stands for is durable. If not, the waker is woken
    /// when it has.
    pub fn durable(&mut self, awaited: Awaited) -> bool {
        let ticket = match awaited {
            Awaited::Flush(ticket) => ticket,
            Awaited::Ends => match self.settled.ended() {
                Some(ticket) => ticket,
                None => return false,
            },
            // The pager has been given the waker.
            Awaited::Arrival => {
                return self.receiver.has_fetched(|queue| queue.will_wake(self.shared.mailbox.waker(), &self.engine));
            }
        };
        if self.engine.journal.is_durable(ticket) {
            return true;
        }
        self.engine.journal.when_durable(ticket, self.shared.mailbox.waker());
        false
    }

    /// The ticket of everything that was settled so far.
    pub fn settled_ticket(&self) -> Ticket {
        self.settled.ticket()
    }

    /// The ticket of everything that this session has published so far.
    pub fn published_ticket(&self, session: SessionId) -> Ticket {
        self.sessions.get(session).map_or(Ticket::NONE, |session| session.answers.ticket())
    }

    /// Whether to read on.
    pub fn flow(&self) -> Flow {
        let alarmed = self.parking.is_blocked() && !self.receiver.consumes() && !self.uploads.has_place();
        let lagging = !self.engine.journal.is_durable(self.publisher.lag_ticket());
        let waits = self.uploads.waits_for_place() || self.waits_for_dead_letters();
        if alarmed || lagging || waits || self.transactions.is_committing() { Flow::Pause } else { Flow::Run }
    }

    /// True while the dead letters of queues that it publishes to come faster than they go: they
    /// would fill the memory, and stop everybody else. An alarm lets in those that make room.
    fn waits_for_dead_letters(&self) -> bool {
        self.publisher.is_behind_dead_letters()
            && self.engine.postponed.are_many()
            && self.engine.allowance() == Allowance::All
    }

    fn key(&self, consumer: u32) -> ConsumerKey {
        ConsumerKey { client: self.shared.number, consumer }
    }

    /// Does the work that visits left. A rejection is settled only once its dead letter is logged.
    /// Replies wait for the end of queues that went with their last consumer.
    fn run_work(&mut self) {
        if !self.work.is_empty() {
            let mut work = std::mem::take(&mut self.work);
            let rejected = work.iter().any(|item| matches!(item, Work::DeadLetter { .. }));
            let settled = &mut self.settled;
            self.engine.run_work_with(&mut work, &mut |gone| {
                settled.reach(gone);
            });
            self.work = work;
            if rejected {
                self.settled.reach(self.engine.journal.appender(self.vhost.log()).ticket());
            }
        }
    }

    fn visit<R>(&mut self, act: impl FnOnce(&mut Visit<'_>) -> R) -> R {
        let now = self.engine.clock.unix_ms();
        let mut visit = Visit { context: &self.engine, now, work: &mut self.work };
        let result = act(&mut visit);
        self.run_work();
        result
    }

    /// Names the client that this is a connection of. A consumer with
    /// [`Consume::no_local`](Consume) leaves out what any connection of that client publishes from
    /// then on, over restarts too: a subscription that outlives its connection needs this.
    pub fn name_client(&mut self, client: &str) {
        self.publisher.show_client(client);
    }

    fn over_limit(what: &str, limit: u64) -> Error {
        Error::new(ErrorKind::Precondition, format!("limit of {limit} {what} is reached"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close(Instant::now());
    }
}
