//! Changes of a vhost's tables, and the only place where exchanges and queues that were declared
//! are built.
//!
//! A change that has passed its checks is logged ([`Change::log`]), then applied
//! ([`Tables::apply`]), both under the vhost's write lock. A start applies what the log says.

use std::sync::Arc;

use journal::{Group, Journal, LogId, Owner, Ticket};

use super::facts as catalog_facts;
use super::policies::{Policy, PolicyKind};
use super::shovels::Shovel;
use super::subscriptions::Subscription;
use super::tasks::Task;
use super::{Exchange, Tables, Vhost, binding_of};
use crate::arguments::{ExchangeArguments, QueueType};
use crate::error::Error;
use crate::memory::ledger::Declared;
use crate::queue::facts as queue_facts;
use crate::queue::{Bound, Bounds, Queue, QueueParts};
use crate::routing::{AdmittedBinding, Bindings, Destination, Load, Tally, Weight};
use crate::store::facts::{self, ExchangeFact, QueueFact};

/// A change that has passed its checks.
#[derive(Debug)]
pub(crate) enum Change {
    /// An exchange is declared.
    Exchange(Box<Exchange>),
    /// A queue is declared.
    Queue(Arc<Queue>),
    /// A queue becomes that of a subscription, or its subscription changes.
    Subscription(Subscription),
    /// A binding is made.
    Bind(Bound, AdmittedBinding),
    /// A binding to this destination is removed.
    Unbind(Bound, Destination),
    /// A policy is set, in place of the one of its kind with its name.
    Policy(PolicyKind, Box<Policy>),
    /// A policy is cleared.
    EndPolicy(PolicyKind, Box<Policy>),
    /// A task begins.
    Task(Arc<Task>),
    /// A task is forgotten.
    EndTask(Arc<Task>),
    /// A shovel is set, in place of the one with its name.
    Shovel(Arc<Shovel>),
    /// A shovel is cleared.
    EndShovel(Arc<Shovel>),
}

/// An exchange to build.
pub(crate) struct NewExchange {
    pub(crate) id: Owner,
    pub(crate) fact: ExchangeFact,
    pub(crate) durable: bool,
    /// The meaning of its arguments.
    pub(crate) parsed: ExchangeArguments,
}

/// A queue to build.
pub(crate) struct NewQueue {
    pub(crate) id: Owner,
    pub(crate) fact: QueueFact,
    pub(crate) durable: bool,
    pub(crate) exclusive_to: Option<u64>,
    pub(crate) queue_type: QueueType,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

impl Exchange {
    /// An exchange without bindings. `tally` counts its bytes and its bindings.
    pub(crate) fn new(new: NewExchange, tally: &Tally) -> Self {
        let NewExchange { id, fact, durable, parsed } = new;
        let load = Load::of_exchange(&fact.name, &fact.arguments);
        let load = if durable { load } else { load.unlogged() };
        Self {
            id,
            name: fact.name.into(),
            kind: fact.kind,
            durable,
            auto_delete: fact.auto_delete,
            internal: fact.internal,
            arguments: fact.arguments,
            alternate: parsed.alternate,
            remember: parsed.remember,
            bindings: Bindings::new(parsed.routes_as, parsed.hash_on, tally),
            bound: Bounds::new(tally),
            weight: Weight::new(tally, load),
            predeclared: false,
        }
    }
}

impl Vhost {
    /// A queue without entries, with the arguments that its declaration and the policies give it.
    /// `tally` counts its bytes.
    pub(crate) fn new_queue(&self, tables: &Tables, new: NewQueue, tally: &Tally) -> Result<Arc<Queue>, Error> {
        let NewQueue { id, fact, durable, exclusive_to, queue_type, now } = new;
        Ok(Queue::new(QueueParts {
            id,
            vhost: Arc::clone(&self.name),
            durable,
            exclusive_to,
            auto_delete: fact.auto_delete,
            arguments: tables.arguments_of(&fact.name, &self.name, queue_type, &fact.arguments)?,
            name: fact.name.into(),
            declared: fact.arguments,
            tally: tally.clone(),
            bucket: None,
            now,
        }))
    }
}

impl Change {
    /// Logs it, in a group if there is one. `None` for a change that a restart forgets.
    pub(crate) fn log(&self, group: Option<Group>, vhost: Owner, tables: &Tables, journal: &Journal) -> Option<Ticket> {
        let mut appender;
        match self {
            Self::Exchange(exchange) if exchange.durable => {
                appender = journal.appender(LogId::of(vhost));
                exchange.fact(vhost).log(&mut appender, group, exchange.id);
            }
            Self::Queue(queue) if queue.logged() => {
                appender = journal.appender(LogId::of(vhost));
                let payer = queue.payer();
                queue.fact(vhost, payer.as_ref().map(Declared::user)).log(&mut appender, group, queue.id);
            }
            Self::Subscription(Subscription { queue, fact, .. }) if tables.is_logged(*queue) => {
                appender = journal.appender(LogId::of(vhost));
                fact.log(&mut appender, group, *queue);
            }
            Self::Bind(bound, admitted) if tables.lasts(bound, admitted.destination()) => {
                appender = journal.appender(LogId::of(vhost));
                queue_facts::log_binding(&mut appender, group, admitted.destination().id(), facts::BIND, bound);
            }
            Self::Unbind(bound, destination) if tables.lasts(bound, *destination) => {
                appender = journal.appender(LogId::of(vhost));
                queue_facts::log_binding(&mut appender, group, destination.id(), facts::UNBIND, bound);
            }
            Self::Policy(kind, policy) => {
                appender = journal.appender(LogId::of(policy.id));
                catalog_facts::log_policy(&mut appender, group, vhost, *kind, policy);
            }
            Self::EndPolicy(_, policy) => {
                appender = journal.appender(LogId::of(policy.id));
                appender.drop_owner(group, policy.id, &mut std::iter::empty());
            }
            Self::Task(task) => {
                appender = journal.appender(LogId::of(task.id));
                task.log(&task.progress.lock(), group, &mut appender);
            }
            Self::EndTask(task) => {
                appender = journal.appender(LogId::of(task.id));
                appender.drop_owner(group, task.id, &mut std::iter::empty());
            }
            Self::Shovel(shovel) => {
                appender = journal.appender(LogId::of(shovel.id));
                shovel.log(group, &mut appender);
            }
            Self::EndShovel(shovel) => {
                appender = journal.appender(LogId::of(shovel.id));
                appender.drop_owner(group, shovel.id, &mut std::iter::empty());
            }
            _ => return None,
        }
        Some(appender.ticket())
    }
}

impl Tables {
    /// Makes a change visible to all that read these tables from now on.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Exchange(mut exchange) => {
                if exchange.alternate.is_none() {
                    exchange.alternate = self.policies.alternate_of(&exchange.name);
                }
                self.insert_exchange(*exchange);
            }
            Change::Queue(queue) => self.insert_queue(queue),
            Change::Subscription(subscription) => {
                if let Some(queue) = self.queue_by_id(subscription.queue) {
                    queue.expire_after(subscription.fact.expires);
                }
                self.subscriptions.put(subscription);
            }
            Change::Bind(bound, admitted) => {
                let (lasts, destination) = (self.lasts(&bound, admitted.destination()), admitted.destination());
                let Some(source) = self.raise_source(&bound) else { return };
                source.bindings.add(admitted);
                self.exchanges.note(destination, bound.exchange);
                if lasts {
                    self.change_bounds(destination, |bounds| bounds.keep(bound));
                }
            }
            Change::Unbind(bound, destination) => {
                let lasts = self.lasts(&bound, destination);
                let Some(source) = self.raise_source(&bound) else { return };
                source.bindings.remove(&binding_of(destination, Arc::clone(&bound.key), &bound.arguments));
                self.exchanges.note(destination, bound.exchange);
                if lasts {
                    self.change_bounds(destination, |bounds| bounds.forget(&bound));
                }
            }
            Change::Policy(kind, policy) => self.policies.put(kind, *policy),
            Change::EndPolicy(kind, policy) => self.policies.remove(kind, &policy.name),
            Change::Task(task) => self.tasks.put(task),
            Change::EndTask(task) => self.tasks.remove(task.id),
            Change::Shovel(shovel) => self.shovels.put(shovel),
            Change::EndShovel(shovel) => self.shovels.remove(&shovel.name),
        }
    }

    /// The exchange whose bindings change.
    fn raise_source(&mut self, bound: &Bound) -> Option<&mut Exchange> {
        let source = self.exchanges.get_mut(bound.exchange)?;
        source.raise(&bound.key, &self.versions);
        Some(source)
    }

    /// Whether a binding outlives a restart: both of its ends must.
    fn lasts(&self, bound: &Bound, destination: Destination) -> bool {
        let source = self.exchange_by_id(bound.exchange).is_some_and(|source| source.durable);
        source
            && match destination {
                Destination::Queue(id) => self.is_logged(id),
                Destination::Exchange(id) => self.exchange_by_id(id).is_some_and(|exchange| exchange.durable),
                Destination::Subscriber(_) => false,
            }
    }

    /// Whether a queue outlives a restart.
    fn is_logged(&self, queue: Owner) -> bool {
        self.queue_by_id(queue).is_some_and(|queue| queue.logged())
    }

    fn change_bounds(&mut self, destination: Destination, change: impl FnOnce(&mut Bounds)) {
        match destination {
            Destination::Queue(id) => {
                if let Some(queue) = self.queue_by_id(id) {
                    change(&mut queue.bounds());
                }
            }
            Destination::Exchange(id) => {
                if let Some(exchange) = self.exchange_by_id_mut(id) {
                    change(&mut exchange.bound);
                }
            }
            // Nothing of it lasts.
            Destination::Subscriber(_) => {}
        }
    }
}
