//! The catalog: the declarations. Vhosts, each with its exchanges, bindings and queues.
//!
//! A vhost's tables are behind one lock. Declarations take it for writing, and routes that no
//! client remembers for reading. A change raises the versions of the names behind which it is
//! ([`versions`]), so that clients look again for the routes that depend on these. A change is
//! logged before it is visible.

pub(crate) mod change;
pub(crate) mod declaration;
pub(crate) mod definitions;
pub(crate) mod direct;
mod exchanges;
pub(crate) mod facts;
pub(crate) mod listed;
pub(crate) mod policies;
mod published;
pub(crate) mod retained;
mod search;
pub(crate) mod shovels;
pub(crate) mod subscriptions;
pub(crate) mod system;
pub(crate) mod tasks;
pub(crate) mod versions;
pub(crate) mod vhost_settings;
pub(crate) mod wills;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use journal::{LogId, Owner, Ticket};
use parking_lot::{Mutex, RwLock};

use crate::arguments::idle::Told;
use crate::arguments::{ExchangeArguments, QueueArguments, QueueType, Remember};
use crate::error::Error;
use crate::queue::{Bounds, DeduplicatingExchange, Queue};
use crate::routing::{Binding, Bindings, Destination, Envelope, ExchangeKind, STEPS, Tally, Weight};
use crate::store::facts::ExchangeFact;
use crate::value::Table;
use change::NewExchange;
use direct::{DirectSubscriber, DirectSubscribers};
use exchanges::Exchanges;
use listed::ListedQueues;
use policies::Policies;
use retained::Retained;
pub(crate) use search::Hop;
use search::Search;
use shovels::ShovelList;
use subscriptions::{SubscriptionName, Subscriptions};
use tasks::TaskList;
use versions::{Basis, Names, Versions};
use wills::WillTable;

/// An exchange and its bindings.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: Owner,
    pub(crate) name: Arc<str>,
    pub(crate) kind: ExchangeKind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    pub(crate) arguments: Table,
    /// The name of its alternate exchange, which need not be there.
    pub(crate) alternate: Option<String>,
    /// How long it remembers ids, if it drops duplicates.
    pub(crate) remember: Option<Remember>,
    pub(crate) bindings: Bindings,
    /// Durable bindings of which it is the destination.
    pub(crate) bound: Bounds,
    /// The bytes of its declaration.
    pub(crate) weight: Weight,
    /// Every vhost has it; it can't be deleted and is not journaled.
    pub(crate) predeclared: bool,
}

impl Exchange {
    /// Removes its bindings to `destination`. Returns its name if it is to go, since it is
    /// auto-delete and has no binding left.
    fn unbind(&mut self, destination: Destination, versions: &Versions) -> Option<Arc<str>> {
        let removed = self.bindings.remove_destination(destination);
        if removed.is_empty() {
            return None;
        }
        removed.iter().for_each(|binding| self.raise(&binding.key, versions));
        (self.auto_delete && self.bindings.is_empty()).then(|| Arc::clone(&self.name))
    }

    /// A binding with this key comes or goes.
    fn raise(&self, key: &str, versions: &Versions) {
        match self.bindings.part_of(key) {
            Some(part) => versions.raise_part(self.id, part),
            None => versions.raise(&self.name),
        }
    }
}

/// The declarations of a vhost.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    queues: HashMap<Arc<str>, Arc<Queue>>,
    /// How often one of them came or went.
    queue_changes: u64,
    queues_by_id: HashMap<Owner, Arc<Queue>>,
    exchanges: Exchanges,
    /// The vhost is deleted, and no declaration may be added any more.
    ended: bool,
    /// The end of the log records about queues, exchanges and bindings.
    logged: Ticket,
    pub(crate) policies: Policies,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) direct: DirectSubscribers,
    pub(crate) tasks: TaskList,
    pub(crate) shovels: ShovelList,
    pub(crate) told: Told,
    versions: Arc<Versions>,
    /// That of the vhost, to say which exchanges end.
    retained: Arc<Retained>,
}

/// The queues of a message.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// Each queue once.
    pub(crate) queues: Vec<Arc<Queue>>,
    /// Each subscriber without a queue once.
    pub(crate) direct: Vec<Arc<DirectSubscriber>>,
    /// The same exchange and key always give this result, as long as its basis holds.
    pub(crate) cacheable: bool,
    pub(crate) basis: Basis,
    /// The names that the search came by.
    names: Names,
    /// The exchanges that drop duplicates, by the queue to which they led.
    pub(crate) gates: HashMap<Owner, DeduplicatingExchange>,
    /// The destinations to which a delayed exchange led.
    pub(crate) delayed: HashSet<Owner>,
    /// The steps of the search, out of [`STEPS`].
    pub(crate) steps: u32,
}

/// Why a message has no route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrouted {
    /// There is no such exchange.
    NoExchange,
    /// Keys, headers and bindings take more than [`STEPS`]. The exchange had the last of them.
    TooMuch { exchange: Box<str> },
}

impl Tables {
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Marks the vhost as deleted. Its tasks log nothing from now on, since no record of it may
    /// follow its end.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.tasks.iter().for_each(|task| task.stop_with_vhost());
    }

    /// Notes a change that is logged up to here.
    pub(crate) fn note_logged(&mut self, ticket: Ticket) {
        self.logged = self.logged.max(ticket);
    }

    /// When this is durable, a restart finds the present state and no other. A reply about it waits
    /// for the ticket, since another connection may have made the last change a moment ago.
    pub(crate) fn logged(&self) -> Ticket {
        self.logged
    }

    /// It is another number after each queue that comes or goes.
    pub(crate) fn queue_changes(&self) -> u64 {
        self.queue_changes
    }

    pub(crate) fn count_queues(&self) -> usize {
        self.queues.len()
    }

    /// The number of declared exchanges.
    pub(crate) fn count_exchanges(&self) -> usize {
        self.exchanges.len().saturating_sub(PREDECLARED.len())
    }

    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter()
    }

    pub(crate) fn exchange_names(&self) -> Vec<Arc<str>> {
        self.exchanges().map(|exchange| Arc::clone(&exchange.name)).collect()
    }

    pub(crate) fn queue(&self, name: &str) -> Option<&Arc<Queue>> {
        self.queues.get(name)
    }

    pub(crate) fn queue_by_id(&self, id: Owner) -> Option<&Arc<Queue>> {
        self.queues_by_id.get(&id)
    }

    /// The queue of a subscription.
    pub(crate) fn subscribed_queue(&self, name: &SubscriptionName) -> Option<&Arc<Queue>> {
        self.queue_by_id(self.subscriptions.queue_of(name)?)
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.values()
    }

    pub(crate) fn queues_with_policies(&self) -> impl Iterator<Item = &Arc<Queue>> {
        let policies = &self.policies;
        self.queues().filter(|queue| policies.of_queue(&queue.name, queue.queue_type).is_any())
    }

    /// All queues, with their buckets, which have no names.
    pub(crate) fn all_queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues_by_id.values()
    }

    pub(crate) fn insert_bucket(&mut self, bucket: Arc<Queue>) {
        self.queues_by_id.insert(bucket.id, bucket);
    }

    pub(crate) fn remove_bucket(&mut self, bucket: &Queue) {
        self.queues_by_id.remove(&bucket.id);
    }

    fn insert_queue(&mut self, queue: Arc<Queue>) {
        self.versions.raise(&queue.name);
        self.queues_by_id.insert(queue.id, Arc::clone(&queue));
        self.queues.insert(Arc::clone(&queue.name), queue);
        self.queue_changes += 1;
    }

    pub(crate) fn remove_queue(&mut self, queue: &Queue) {
        self.queues_by_id.remove(&queue.id);
        self.queues.remove(&queue.name);
        self.queue_changes += 1;
        self.subscriptions.end(queue.id);
        self.versions.raise(&queue.name);
        self.versions.note_deleted();
    }

    /// Takes a subscriber without a queue out, with its bindings, if it is there. Returns the names
    /// of auto-delete exchanges that have no binding left.
    pub(crate) fn remove_direct(&mut self, id: Owner) -> Vec<Arc<str>> {
        let Some(subscriber) = self.direct.remove(id) else { return Vec::new() };
        // Routes that lead to it are let go of like those to queues.
        self.versions.note_deleted();
        let mut orphans = Vec::new();
        for filter in &subscriber.filters {
            let Some(exchange) = self.exchanges.named_mut(&filter.exchange) else { continue };
            orphans.extend(exchange.unbind(Destination::Subscriber(id), &self.versions));
        }
        orphans
    }

    /// The result of a queue's arguments and its policies. Each value was checked alone. If they
    /// contradict each other, those of the declaration count alone.
    pub(crate) fn arguments_of(
        &self,
        name: &str,
        vhost: &str,
        queue_type: QueueType,
        declared: &Table,
    ) -> Result<QueueArguments, Error> {
        let table = self.policies.of_queue(name, queue_type).arguments(declared);
        QueueArguments::parse_stored(name, vhost, &table)
            .or_else(|_| QueueArguments::parse_stored(name, vhost, declared))
    }

    pub(crate) fn exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.named(name)
    }

    pub(crate) fn exchange_mut(&mut self, name: &str) -> Option<&mut Exchange> {
        self.exchanges.named_mut(name)
    }

    pub(crate) fn exchange_by_id(&self, id: Owner) -> Option<&Exchange> {
        self.exchanges.get(id)
    }

    pub(crate) fn exchange_by_id_mut(&mut self, id: Owner) -> Option<&mut Exchange> {
        self.exchanges.get_mut(id)
    }

    fn insert_exchange(&mut self, exchange: Exchange) {
        self.versions.raise(&exchange.name);
        self.exchanges.insert(exchange);
    }

    pub(crate) fn remove_exchange(&mut self, name: &str) -> Option<Exchange> {
        let exchange = self.exchanges.remove(name)?;
        self.retained.exchange_ended(exchange.id);
        self.versions.raise(name);
        Some(exchange)
    }

    /// Removes every binding to `destination` from the exchanges that have one. Returns the names
    /// of auto-delete exchanges that have no binding left.
    pub(crate) fn unbind_all(&mut self, destination: Destination) -> Vec<Arc<str>> {
        let mut orphans = Vec::new();
        let sources: Vec<Owner> = self.sources_of(destination).map(|source| source.id).collect();
        for source in sources {
            let exchange = self.exchanges.get_mut(source);
            orphans.extend(exchange.and_then(|exchange| exchange.unbind(destination, &self.versions)));
            self.exchanges.note(destination, source);
        }
        orphans
    }

    /// The exchanges with bindings to this queue or exchange.
    pub(crate) fn sources_of(&self, destination: Destination) -> impl Iterator<Item = &Exchange> {
        self.exchanges.sources_of(destination)
    }

    /// Follows exchanges, their bindings and alternate exchanges to queues.
    pub(crate) fn route(&self, exchange: &str, envelope: &Envelope<'_>) -> Result<Routing, Unrouted> {
        self.route_noting(exchange, envelope, None)
    }

    /// The same, and notes what the search came through.
    fn route_noting(
        &self,
        exchange: &str,
        envelope: &Envelope<'_>,
        notes: Option<&mut Vec<Hop>>,
    ) -> Result<Routing, Unrouted> {
        let routing = Search::new(self, envelope, notes).run(exchange)?;
        Ok(Routing { basis: self.versions.basis(routing.names), ..routing })
    }
}

/// A namespace of exchanges and queues.
#[derive(Debug)]
pub(crate) struct Vhost {
    /// The owner of its record, which lies in the system's log.
    pub(crate) record: Owner,
    /// The first of its owners in its home, the log that this is of.
    pub(crate) id: Owner,
    pub(crate) name: Arc<str>,
    pub(crate) tables: RwLock<Tables>,
    /// The names of its queues, for lists.
    pub(crate) listed: ListedQueues,
    /// Those of its tables.
    pub(crate) versions: Arc<Versions>,
    /// Counts its bindings.
    pub(crate) bindings: Tally,
    /// Messages that are published and delivered in it are copied.
    pub(crate) traced: AtomicBool,
    /// The last values of its topics.
    pub(crate) retained: Arc<Retained>,
    /// What its clients leave for the ends of their connections. Locked after its tables, never
    /// with a queue.
    pub(crate) wills: Mutex<WillTable>,
}

/// The exchanges of every vhost from the start. The default exchange is not a table entry: it leads
/// to the queue with the name of the routing key.
const PREDECLARED: [(&str, ExchangeKind); 5] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
];

/// The kind of an exchange that every vhost has.
pub(crate) fn predeclared(name: &str) -> Option<ExchangeKind> {
    PREDECLARED.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
}

/// Owners that a vhost takes: itself, and its predeclared exchanges behind it.
pub(crate) const OWNERS_PER_VHOST: u64 = 1 + PREDECLARED.len() as u64;

impl Vhost {
    /// A vhost with the predeclared exchanges. Its bindings are counted by `tally`.
    fn new(record: Owner, id: Owner, name: &str, tally: &Tally) -> Self {
        let bindings = tally.part();
        let retained = Arc::new(Retained::new(&bindings));
        let mut tables = Tables { retained: Arc::clone(&retained), ..Tables::default() };
        for (index, (name, kind)) in PREDECLARED.into_iter().enumerate() {
            let fact = ExchangeFact::plain(id, name, kind);
            let new =
                NewExchange { id: id + 1 + index as u64, fact, durable: true, parsed: ExchangeArguments::none(kind) };
            let exchange = Exchange::new(new, &bindings);
            tables.insert_exchange(Exchange { predeclared: true, weight: Weight::default(), ..exchange });
        }
        let (name, versions) = (name.into(), Arc::clone(&tables.versions));
        let (tables, traced) = (RwLock::new(tables), AtomicBool::new(false));
        let listed = ListedQueues::default();
        Self { record, id, name, tables, listed, versions, bindings, traced, retained, wills: Mutex::default() }
    }

    /// Its home: the log of its exchanges, bindings and policies, and of its queues.
    #[inline]
    pub(crate) fn log(&self) -> LogId {
        LogId::of(self.id)
    }

    /// See [`crate::tracing`].
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.traced.load(Ordering::Relaxed)
    }

    pub(crate) fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.tables.read().queue(name).cloned()
    }

    /// The queues of a message. Fails for a missing exchange or one that clients may not publish
    /// to, and where the search takes more than [`STEPS`].
    pub(crate) fn route(&self, exchange: &str, envelope: &Envelope<'_>) -> Result<Routing, Error> {
        self.route_noting(exchange, envelope, None)
    }

    /// The same, and notes what the search came through.
    pub(crate) fn route_noting(
        &self,
        exchange: &str,
        envelope: &Envelope<'_>,
        notes: Option<&mut Vec<Hop>>,
    ) -> Result<Routing, Error> {
        let tables = self.tables.read();
        self.check_takes(&tables, exchange)?;
        tables.route_noting(exchange, envelope, notes).map_err(|unrouted| match unrouted {
            Unrouted::NoExchange => self.no_exchange(exchange),
            Unrouted::TooMuch { exchange } => Error::precondition(format!(
                "routing this message takes more than {STEPS} steps, the last of them at exchange '{exchange}' in vhost \
                 '{}': give it fewer keys (CC, BCC) or headers, or bind there with fewer patterns and arguments",
                self.name
            )),
        })
    }

    /// Fails for a missing exchange, and for one that clients may not publish to.
    pub(crate) fn check_target(&self, exchange: &str) -> Result<(), Error> {
        let tables = self.tables.read();
        self.check_takes(&tables, exchange)?;
        if exchange.is_empty() || tables.exchange(exchange).is_some() {
            return Ok(());
        }
        Err(self.no_exchange(exchange))
    }

    fn check_takes(&self, tables: &Tables, exchange: &str) -> Result<(), Error> {
        if tables.exchange(exchange).is_some_and(|exchange| exchange.internal) {
            let text = format!("cannot publish to internal exchange '{exchange}' in vhost '{}'", self.name);
            return Err(Error::refused(text));
        }
        Ok(())
    }

    fn no_exchange(&self, exchange: &str) -> Error {
        Error::not_found(format!("no exchange '{exchange}' in vhost '{}'", self.name))
    }
}

/// The numbers of declarations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Census {
    pub(crate) queues: u64,
    pub(crate) exchanges: u64,
    pub(crate) bindings: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    vhosts: RwLock<HashMap<Arc<str>, Arc<Vhost>>>,
    generation: AtomicU64,
    queues: AtomicU64,
    exchanges: AtomicU64,
    /// The bindings of all exchanges.
    pub(crate) bindings: Tally,
}

impl Catalog {
    /// Changes whenever any route may have changed: with users, policies and vhosts. All other
    /// changes raise the versions of names.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn vhost(&self, name: &str) -> Option<Arc<Vhost>> {
        self.vhosts.read().get(name).cloned()
    }

    pub(crate) fn vhosts(&self) -> Vec<Arc<Vhost>> {
        self.vhosts.read().values().cloned().collect()
    }

    /// True where no other vhost needs its share.
    pub(crate) fn has_one_vhost(&self) -> bool {
        self.vhosts.read().len() < 2
    }

    /// Adds a vhost whose `record` is in the log. It has [`OWNERS_PER_VHOST`] owners from `id` on.
    pub(crate) fn add_vhost(&self, record: Owner, id: Owner, name: &str) {
        let vhost = Arc::new(Vhost::new(record, id, name, &self.bindings));
        self.vhosts.write().insert(Arc::clone(&vhost.name), vhost);
        self.changed();
    }

    pub(crate) fn remove_vhost(&self, name: &str) {
        self.vhosts.write().remove(name);
        self.changed();
    }

    /// Counts one queue, unless the limit is reached.
    pub(crate) fn admit_queue(&self, limit: u64) -> bool {
        admit(&self.queues, limit)
    }

    pub(crate) fn admit_exchange(&self, limit: u64) -> bool {
        admit(&self.exchanges, limit)
    }

    pub(crate) fn queue_left(&self) {
        self.queues.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn exchange_left(&self) {
        self.exchanges.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn census(&self) -> Census {
        let mut census = Census { bindings: self.bindings.count(), ..Census::default() };
        for vhost in self.vhosts() {
            let tables = vhost.tables.read();
            census.queues += tables.queues.len() as u64;
            census.exchanges += tables.exchanges.len() as u64;
        }
        census
    }
}

fn admit(count: &AtomicU64, limit: u64) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1)).is_ok()
}

/// The binding as the exchange keeps it.
pub(crate) fn binding_of(destination: Destination, key: impl Into<Arc<str>>, arguments: &Table) -> Binding {
    Binding { destination, key: key.into(), arguments: arguments.clone() }
}
