//! Subscriptions on behalf of a client: begun, changed and ended.
//!
//! Invariant: a subscription, its queue and its bindings come together or not at all, in the log
//! and for everybody who looks.

use std::sync::Arc;
use std::time::Instant;

use auth::{Resource, Right, waiting};
use journal::Ticket;
use parking_lot::MutexGuard;
use selector::Selector;

use crate::alarms::Allowance;
use crate::arguments::consumer::{InvalidArgument, SELECTOR};
use crate::catalog::change::Change;
use crate::catalog::declaration::{BindingSpec, Checked, DestinationName, QueueSpec, check_name};
use crate::catalog::retained::{RetainedSearch, RetainedTable};
use crate::catalog::subscriptions::{Sharing, Subscription, SubscriptionFact, SubscriptionName};
use crate::catalog::{Tables, binding_of};
use crate::engine::bounds::CHANGE_ENTRIES;
use crate::engine::retained::{Feed, FeedTarget, Piece};
use crate::error::{Error, ErrorKind};
use crate::queue::Queue;
use crate::routing::{Destination, ExchangeKind, Sought};
use crate::session::{Client, DeleteIf};
use crate::value::Table;

/// A subscription to begin, or one that is there and changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubscriptionSpec {
    /// Its identity; with an empty name it is called like its queue.
    pub name: SubscriptionName,
    /// How many consumers it may have at a time.
    pub sharing: Sharing,
    /// It keeps the messages that this selector is true of; all, if it is empty.
    pub selector: String,
    /// How many milliseconds it outlives its last consumer; `None` for as long as its queue, whose
    /// own expiry counts, too. It replaces what was asked for before.
    pub expires: Option<u64>,
    /// What it asks for, beside what it has asked for before.
    pub filters: Vec<SubscriptionFilter>,
    /// Which retained messages of its topics it gets first.
    pub retained: RetainedWanted,
    /// The queue behind it. It says whether the subscription survives a restart or belongs to a
    /// connection, when it expires, and how much it keeps.
    pub queue: QueueSpec,
}

/// The retained messages that a subscription gets before all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RetainedWanted {
    /// None.
    #[default]
    None,
    /// Those of filters that it did not have before.
    OfNew,
    /// Those of all filters that are asked for, also if it had them before.
    OfAll,
}

/// Messages that a subscription asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubscriptionFilter {
    /// The exchange that they come from.
    pub exchange: String,
    /// The routing key or pattern.
    pub key: String,
    /// Arguments, for headers exchanges.
    pub arguments: Table,
}

/// What becomes of a subscription that has other filters or another selector than it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfOther {
    /// It gets these filters besides, and the selector instead.
    Adapt,
    /// It ends before the new one begins.
    End,
}

/// A subscription that is there.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// Its identity.
    pub name: SubscriptionName,
    /// The name of its queue.
    pub queue: String,
    /// The ticket for the reply.
    pub ticket: Ticket,
}

impl SubscriptionSpec {
    /// The bindings that its filters are, each once.
    fn bindings(&self, queue: &str) -> Vec<BindingSpec> {
        let mut filters = self.filters.clone();
        filters.iter_mut().for_each(|filter| filter.arguments.0.sort_by(|(one, _), (other, _)| one.cmp(other)));
        let is_first = |at: &usize| !filters[..*at].contains(&filters[*at]);
        let first = (0..filters.len()).filter(is_first).map(|at| &filters[at]);
        let binding = |filter: &SubscriptionFilter| BindingSpec {
            source: filter.exchange.clone(),
            destination: DestinationName::Queue(queue.to_owned()),
            key: filter.key.clone(),
            arguments: filter.arguments.clone(),
        };
        first.map(binding).collect()
    }
}

impl Client {
    /// Begins a subscription, or adds filters to the one with its name and gives it its selector
    /// and its expiry. A queue that has no subscription yet and is as asked for becomes its queue.
    ///
    /// # Errors
    /// Those of [`Client::declare_queue`] and [`Client::bind`]. `Precondition` also where the queue
    /// belongs to another subscription, where it is shared in another way, and for a selector that
    /// is invalid or changes while there are consumers.
    pub fn subscribe(&mut self, spec: &SubscriptionSpec, now: Instant) -> Result<Subscribed, Error> {
        self.begin_subscription(spec, IfOther::Adapt, now)
    }

    /// Begins a subscription, or finds the one with its name. If that has other filters or another
    /// selector, it ends first, with all that it keeps; so Jakarta Messaging wants it (§4.11.3).
    ///
    /// # Errors
    /// Those of [`Client::subscribe`]. `Precondition` where it has others and is in use.
    pub fn subscribe_exactly(&mut self, spec: &SubscriptionSpec, now: Instant) -> Result<Subscribed, Error> {
        self.begin_subscription(spec, IfOther::End, now)
    }

    fn begin_subscription(
        &mut self,
        spec: &SubscriptionSpec,
        if_other: IfOther,
        now: Instant,
    ) -> Result<Subscribed, Error> {
        self.flush(now);
        for filter in &spec.filters {
            self.check_exchange(&filter.exchange, now)?;
        }
        spec.name.client.iter().chain([&spec.name.name]).try_for_each(|name| check_name(name))?;
        let (engine, vhost) = (Arc::clone(&self.engine), Arc::clone(&self.vhost));
        let queue_name = self.name_subscribed(spec)?;
        let bindings = spec.bindings(&queue_name);
        bindings.iter().try_for_each(|binding| self.authorize_binding(binding))?;
        // From before the bindings until the first of them are in the queue: no value is missed,
        // and none comes twice.
        let retained = (spec.retained != RetainedWanted::None).then(|| vhost.retained.lock());
        let groups = engine.groups.of(vhost.log()).read();
        let mut tables = vhost.tables.write();
        let ended = match if_other {
            IfOther::Adapt => Ticket::NONE,
            IfOther::End => self.end_other(&mut tables, spec, &bindings)?,
        };
        let (queue, mut changes) = match self.find_or_build(&tables, &queue_name, &spec.queue, 0)? {
            Checked::There(queue) => (queue, Vec::new()),
            Checked::New(queue) => (Arc::clone(&queue), vec![Change::Queue(queue)]),
        };
        let is_new = !changes.is_empty();
        let searches = match &retained {
            Some(table) => searches(&tables, table, spec.retained, (Destination::Queue(queue.id), &bindings))
                .inspect_err(|_| self.forgo(&changes))?,
            None => Vec::new(),
        };
        let fact = self.subscription_changes(&tables, spec, (&queue, &bindings), &mut changes);
        let fact = fact.inspect_err(|_| self.forgo(&changes))?;
        self.publisher.add_cost(CHANGE_ENTRIES * changes.len());
        let ticket = if queue.logged() && changes.len() > 1 {
            engine.change_together(&vhost, &mut tables, changes)
        } else {
            let made = changes.into_iter().map(|change| engine.change(&vhost, &mut tables, change));
            made.fold(Ticket::NONE, Ticket::max)
        };
        let ticket = if is_new { ticket.max(self.settled.ticket()) } else { self.settled_and(&tables) };
        if is_new {
            self.note_new_queue(tables, &queue);
        } else {
            drop(tables);
            engine.watch(&queue);
        }
        drop(groups);
        let fed = self.feed(searches, &FeedTarget::Queue(Arc::clone(&queue)), retained);
        bindings.iter().try_for_each(|binding| self.authorize_bound(binding, &queue))?;
        Ok(Subscribed { name: fact.name, queue: queue_name, ticket: ticket.max(fed).max(ended) })
    }

    /// Puts the first retained messages into the queue, and leaves the others to the housekeeping.
    pub(super) fn feed(
        &mut self,
        searches: Vec<RetainedSearch>,
        target: &FeedTarget,
        table: Option<MutexGuard<'_, RetainedTable>>,
    ) -> Ticket {
        let Some(table) = table else { return Ticket::NONE };
        let (mut ticket, mut rest) = (Ticket::NONE, Vec::new());
        for search in searches {
            let mut feed = Feed { vhost: Arc::clone(&self.vhost), target: target.clone(), search };
            // While an alarm is up, all of them wait.
            let (searched, reached) = match self.engine.allowance() {
                Allowance::None => (Piece::Wait, Ticket::NONE),
                _ => self.engine.feed(&mut feed, &table, &mut self.work),
            };
            self.publisher.add_cost(CHANGE_ENTRIES);
            ticket = ticket.max(reached);
            if searched != Piece::Last {
                rest.push(feed);
            }
        }
        drop(table);
        rest.into_iter().for_each(|feed| self.engine.feed_later(feed));
        self.run_work();
        ticket
    }

    /// The name of the queue that a subscription has or gets, which the user may configure.
    fn name_subscribed(&self, spec: &SubscriptionSpec) -> Result<String, Error> {
        let there = self.vhost.tables.read().subscribed_queue(&spec.name).map(|queue| queue.name.to_string());
        let Some(name) = there else { return self.name_queue(&spec.queue) };
        self.authorize(Resource::queue(&name), Right::Configure)?;
        Ok(name)
    }

    /// Adds the changes by which `queue` is that of the subscription and has these bindings.
    pub(super) fn subscription_changes(
        &self,
        tables: &Tables,
        spec: &SubscriptionSpec,
        (queue, bindings): (&Arc<Queue>, &[BindingSpec]),
        changes: &mut Vec<Change>,
    ) -> Result<SubscriptionFact, Error> {
        let (name, vhost) = (&queue.name, &queue.vhost);
        Selector::parse(&spec.selector)
            .map_err(|error| InvalidArgument::new(SELECTOR, error.to_string()).at(name, vhost))?;
        let mut fact = SubscriptionFact {
            name: spec.name.clone(),
            sharing: spec.sharing,
            selector: spec.selector.clone(),
            expires: spec.expires,
        };
        if fact.name.name.is_empty() {
            fact.name.name = name.to_string();
        }
        if tables.subscribed_queue(&fact.name).is_some_and(|of_it| of_it.id != queue.id) {
            let text = format!("subscription {} in vhost '{vhost}' has just got another queue; ask again", fact.name);
            return Err(Error::precondition(text));
        }
        let there = tables.subscriptions.of_queue(queue.id);
        if let Some(there) = there {
            check_same(there, &fact, queue)?;
            if there.selector != fact.selector && queue.lock(&self.engine).consumer_count() > 0 {
                let text = format!("subscription {} in vhost '{vhost}' is in use with another selector", fact.name);
                return Err(Error::precondition(text));
            }
        }
        if there.is_none_or(|there| **there != fact) {
            let load = if queue.logged() { fact.load() } else { fact.load().unlogged() };
            self.admit_declaration(&format!("subscription {}", fact.name), &Table::default(), load)?;
            changes.push(Change::Subscription(Subscription::new(queue.id, fact.clone(), load, &self.vhost.bindings)));
        }
        for binding in bindings {
            let destination = Destination::Queue(queue.id);
            let source = tables.exchange(&binding.source).ok_or_else(|| self.no_exchange(&binding.source))?;
            changes.extend(self.new_binding(source, binding, destination, Some(queue))?);
        }
        Ok(fact)
    }

    /// Takes back what was counted for changes that are not made.
    pub(super) fn forgo(&self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Queue(_) => self.engine.catalog.queue_left(),
                Change::Exchange(_) => self.engine.catalog.exchange_left(),
                Change::Bind(..) => self.vhost.bindings.left(1),
                _ => {}
            }
        }
    }

    /// Ends a subscription with its queue. If there is none of this name, it ends the queue that
    /// would become its own. It is no error if that is not there either.
    ///
    /// # Errors
    /// `Precondition` while it has consumers, `AccessRefused`.
    pub fn unsubscribe(&mut self, name: &SubscriptionName, queue: &str, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        self.authorize(Resource::queue(queue), Right::Configure)?;
        let there = vhost.tables.read().subscribed_queue(name).map(|queue| Arc::clone(&queue.name));
        there.map_or(Ok(()), |there| self.authorize(Resource::queue(&there), Right::Configure))?;
        let mut tables = vhost.tables.write();
        let is_free = |queue: &&Arc<Queue>| tables.subscriptions.of_queue(queue.id).is_none();
        let queue = tables.subscribed_queue(name).or_else(|| tables.queue(queue).filter(is_free)).cloned();
        let Some(queue) = queue else { return Ok(self.settled_and(&tables)) };
        waiting::forbidden(|| self.authorize(Resource::queue(&queue.name), Right::Configure))?;
        Ok(self.end_queue(&mut tables, &queue, DeleteIf::UNUSED)?.1)
    }
}

/// Fails unless the subscription of a queue is the one that is asked for, whatever its selector.
fn check_same(there: &SubscriptionFact, asked: &SubscriptionFact, queue: &Queue) -> Result<(), Error> {
    if there.name != asked.name {
        let (name, vhost) = (&queue.name, &queue.vhost);
        return Err(Error::precondition(format!(
            "queue '{name}' in vhost '{vhost}' belongs to subscription {}",
            there.name
        )));
    }
    let is = match (there.sharing, asked.sharing) {
        (Sharing::Exclusive, Sharing::Shared) => "for one consumer at a time",
        (Sharing::Shared, Sharing::Exclusive) => "shared",
        _ => return Ok(()),
    };
    Err(Error::precondition(format!("subscription {} in vhost '{}' is {is}", there.name, queue.vhost)))
}

/// The searches for the retained messages that a subscription with this queue gets first.
pub(super) fn searches(
    tables: &Tables,
    table: &RetainedTable,
    wanted: RetainedWanted,
    (destination, bindings): (Destination, &[BindingSpec]),
) -> Result<Vec<RetainedSearch>, Error> {
    let mut searches = Vec::new();
    for binding in bindings {
        let Some(source) = tables.exchange(&binding.source) else { continue };
        let of_queue = binding_of(destination, binding.key.as_str(), &binding.arguments);
        if wanted == RetainedWanted::OfNew && source.bindings.contains(&of_queue) {
            continue;
        }
        let sought = match source.kind {
            ExchangeKind::Topic => Sought::Pattern(binding.key.clone()),
            ExchangeKind::Direct => Sought::Key(binding.key.clone()),
            ExchangeKind::Fanout => Sought::All,
            kind => {
                let text = format!(
                    "exchange '{}' is of type {}: retained messages are found by topic, direct and fanout alone",
                    binding.source,
                    kind.name()
                );
                return Err(Error::new(ErrorKind::NotImplemented, text));
            }
        };
        searches.push(table.search(source.id, sought));
    }
    Ok(searches)
}
