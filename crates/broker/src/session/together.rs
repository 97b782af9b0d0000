//! Declarations that come together or not at all: those of an import in one vhost.
//!
//! Invariant: all of them are built and counted before the first is in a table or in the log. Then
//! they are one group of the log, and visible at once. So neither a refusal nor a kill leaves a
//! part.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use journal::{Owner, Ticket};
use parking_lot::RwLockUpgradableReadGuard;

use crate::arguments::idle::{self, Told};
use crate::catalog::change::Change;
use crate::catalog::declaration::{
    BindingSpec, Checked, DestinationName, ExchangeSpec, QueueSpec, check_binding_names, check_exchange_name,
};
use crate::catalog::policies::{Policy, PolicyKind, PolicySpec};
use crate::catalog::subscriptions::SubscriptionName;
use crate::catalog::{Exchange, Tables, Vhost};
use crate::engine::bounds::CHANGE_ENTRIES;
use crate::error::Error;
use crate::queue::Queue;
use crate::routing::{BindingCursor, Destination};
use crate::session::Client;
use crate::session::consume::no_queue;
use crate::session::subscribe::SubscriptionSpec;

/// One of the declarations of [`Client::declare_all`].
#[derive(Debug, Clone, PartialEq)]
pub enum Declaration {
    /// A policy, in place of the one of its kind with this name.
    Policy {
        /// Who may set it.
        kind: PolicyKind,
        /// Its name.
        name: String,
        /// The policy itself.
        spec: PolicySpec,
    },
    /// An exchange.
    Exchange(ExchangeSpec),
    /// A queue.
    Queue(QueueSpec),
    /// A subscription with its queue. Its filters are given as bindings.
    Subscription(SubscriptionSpec),
    /// A binding, behind its ends.
    Binding(BindingSpec),
}

/// What is built, and in no table yet.
#[derive(Debug, Default)]
struct Staged {
    changes: Vec<Change>,
    /// The places of new exchanges among the changes.
    exchanges: HashMap<String, usize>,
    queues: HashMap<String, Arc<Queue>>,
    /// New bindings, each with its source.
    bindings: BTreeSet<(Owner, BindingCursor)>,
    subscriptions: HashSet<SubscriptionName>,
    /// The places of policies among the changes.
    policies: HashMap<(PolicyKind, String), usize>,
    /// The policies that these take the place of.
    replaced: Vec<Policy>,
}

impl Staged {
    fn exchange<'a>(&'a self, tables: &'a Tables, name: &str) -> Option<&'a Exchange> {
        match self.exchanges.get(name).map(|place| &self.changes[*place]) {
            Some(Change::Exchange(exchange)) => Some(exchange),
            _ => tables.exchange(name),
        }
    }

    /// The policies that come or go, whose queues and exchanges change.
    fn changed_policies(&mut self) -> Vec<Policy> {
        let mut changed = std::mem::take(&mut self.replaced);
        for place in self.policies.values() {
            if let Change::Policy(_, policy) = &self.changes[*place] {
                changed.push((**policy).clone());
            }
        }
        changed
    }

    fn queue<'a>(&'a self, tables: &'a Tables, name: &str) -> Option<&'a Arc<Queue>> {
        self.queues.get(name).or_else(|| tables.queue(name))
    }
}

impl Client {
    /// Makes all declarations, in their order, or none. What is there already must be the same.
    /// Returns the ticket for the answer. Only an operator's client may: it is asked for no other
    /// rights.
    ///
    /// # Errors
    /// `AccessRefused` for another client; those of [`Client::declare_exchange`],
    /// [`Client::declare_queue`], [`Client::subscribe`], [`Client::bind`] and
    /// [`Broker::set_policy`](crate::Broker::set_policy). Nothing is changed then.
    pub fn declare_all(&mut self, declarations: &[Declaration], now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        if !self.shared.identity.is_operator() {
            return Err(Error::refused("only an operator declares several things as one"));
        }
        let (engine, vhost) = (Arc::clone(&self.engine), Arc::clone(&self.vhost));
        let _alone = engine.administration.lock();
        for declaration in declarations {
            if let Declaration::Binding(binding) = declaration {
                self.make_if_traced(&binding.source);
            }
        }
        let groups = engine.groups.of(vhost.log()).read();
        // Routing goes on while they are built.
        let tables = vhost.tables.upgradable_read();
        let mut staged = Staged::default();
        for declaration in declarations {
            let built = self.stage(&tables, declaration, &mut staged);
            built.inspect_err(|_| self.forgo(&staged.changes))?;
        }
        let policies = staged.changed_policies();
        let Staged { changes, queues, .. } = staged;
        if changes.is_empty() {
            return Ok(self.settled_and(&tables));
        }
        self.publisher.add_cost(CHANGE_ENTRIES * changes.len());
        let mut tables = RwLockUpgradableReadGuard::upgrade(tables);
        let idle = new_idle_of(&changes, &mut tables.told);
        let ticket = engine.change_together(&vhost, &mut tables, changes);
        drop(tables);
        drop(groups);
        for (what, name, idle) in idle {
            self.tell_idle(what, &name, &idle.iter().map(String::as_str).collect::<Vec<_>>());
        }
        engine.give_policies(&vhost, &policies);
        queues.values().for_each(|queue| self.count_new_queue(queue));
        Ok(ticket.max(self.settled.ticket()))
    }

    /// Builds what one declaration asks for, and counts it.
    fn stage(&self, tables: &Tables, declaration: &Declaration, staged: &mut Staged) -> Result<(), Error> {
        match declaration {
            Declaration::Policy { kind, name, spec } => self.stage_policy(tables, (*kind, name, spec), staged),
            Declaration::Exchange(spec) => {
                check_exchange_name(&spec.name)?;
                if staged.exchanges.contains_key(&spec.name) {
                    return Err(is_second("exchange", &spec.name, &self.vhost));
                }
                if let Checked::New(exchange) = self.find_or_build_exchange(tables, spec, staged.exchanges.len())? {
                    staged.exchanges.insert(spec.name.clone(), staged.changes.len());
                    staged.changes.push(Change::Exchange(Box::new(exchange)));
                }
                Ok(())
            }
            Declaration::Queue(spec) => self.stage_queue(tables, spec, staged).map(drop),
            Declaration::Subscription(spec) => {
                let queue = self.stage_queue(tables, &spec.queue, staged)?;
                let fact = self.subscription_changes(tables, spec, (&queue, &[]), &mut staged.changes)?;
                let called = fact.name.name.clone();
                match staged.subscriptions.insert(fact.name) {
                    true => Ok(()),
                    false => Err(is_second("subscription", &called, &self.vhost)),
                }
            }
            Declaration::Binding(spec) => self.stage_binding(tables, spec, staged),
        }
    }

    fn stage_policy(
        &self,
        tables: &Tables,
        (kind, name, spec): (PolicyKind, &str, &PolicySpec),
        staged: &mut Staged,
    ) -> Result<(), Error> {
        let policy = self.engine.checked_policy(kind, name, spec.clone())?;
        let next = staged.changes.len();
        let place = *staged.policies.entry((kind, name.to_owned())).or_insert(next);
        match staged.changes.get_mut(place) {
            // The last of several is the one.
            Some(Change::Policy(_, earlier)) => **earlier = policy.with_id(earlier.id),
            _ => {
                let (before, policy) = self.engine.place_policy(&self.vhost, tables, kind, policy)?;
                staged.replaced.extend(before);
                staged.changes.push(Change::Policy(kind, Box::new(policy)));
            }
        }
        Ok(())
    }

    fn stage_queue(&self, tables: &Tables, spec: &QueueSpec, staged: &mut Staged) -> Result<Arc<Queue>, Error> {
        let name = self.name_queue(spec)?;
        if staged.queues.contains_key(&name) {
            return Err(is_second("queue", &name, &self.vhost));
        }
        match self.find_or_build(tables, &name, spec, staged.queues.len())? {
            Checked::There(queue) => Ok(queue),
            Checked::New(queue) => {
                staged.changes.push(Change::Queue(Arc::clone(&queue)));
                staged.queues.insert(name, Arc::clone(&queue));
                Ok(queue)
            }
        }
    }

    fn stage_binding(&self, tables: &Tables, spec: &BindingSpec, staged: &mut Staged) -> Result<(), Error> {
        check_binding_names(spec)?;
        let exchange = |name: &str| staged.exchange(tables, name).ok_or_else(|| self.no_exchange(name));
        let source = exchange(&spec.source)?;
        let (destination, queue) = match &spec.destination {
            DestinationName::Queue(name) => {
                let queue = staged.queue(tables, name).ok_or_else(|| no_queue(name, &self.shared.vhost))?;
                self.check_owner(queue)?;
                (Destination::Queue(queue.id), Some(queue))
            }
            DestinationName::Exchange(name) => (Destination::Exchange(exchange(name)?.id), None),
        };
        let change = self.new_binding(source, spec, destination, queue.map(|queue| &**queue))?;
        if let Some(Change::Bind(bound, admitted)) = change {
            // The same binding twice is one.
            match staged.bindings.insert((source.id, admitted.place())) {
                true => staged.changes.push(Change::Bind(bound, admitted)),
                false => self.vhost.bindings.left(1),
            }
        }
        Ok(())
    }
}

/// The arguments without effect that operators were not told of yet, with what has them and its
/// name.
fn new_idle_of(changes: &[Change], told: &mut Told) -> Vec<(&'static str, String, Vec<String>)> {
    let mut all = Vec::new();
    for change in changes {
        let (what, name, mut idle) = match change {
            Change::Exchange(exchange) => {
                ("exchange", &exchange.name, idle::of_exchange(exchange.kind, &exchange.arguments))
            }
            Change::Queue(queue) => ("queue", &queue.name, idle::of_queue(&queue.declared)),
            _ => continue,
        };
        told.retain_new(&mut idle);
        all.push((what, name.to_string(), idle.into_iter().map(str::to_owned).collect()));
    }
    all
}

fn is_second(what: &str, name: &str, vhost: &Vhost) -> Error {
    Error::precondition(format!("{what} '{name}' in vhost '{}' is declared twice", vhost.name))
}
