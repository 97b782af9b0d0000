//! The one way to change policies while the broker runs, and their effect on the queues and
//! exchanges that are there. Those to come are built with it (`catalog/change.rs`).

use auth::{Identity, Resource, Right};
use journal::Ticket;

use crate::arguments::{ExchangeArguments, dead_letters};
use crate::catalog::change::Change;
use crate::catalog::definitions::Sort;
use crate::catalog::facts::policy_bytes;
use crate::catalog::policies::{ALTERNATE, COPY_TO, MOVES, Policy, PolicyKind, PolicySpec, RULES, argument};
use crate::catalog::{Tables, Vhost};
use crate::engine::Engine;
use crate::engine::admission::Asker;
use crate::engine::system::refuse_control;
use crate::error::Error;
use crate::message::NAME_MAX;
use crate::queue::{Queue, Visit};
use crate::routing::Load;
use crate::settings::UnknownArguments;
use crate::value::Value;

/// Names that are matched against patterns while a vhost is locked: two milliseconds or so.
const MATCHES_AT_ONCE: usize = 10_000;
/// The tag of users whose policies need no other rights.
const ADMINISTRATOR: &str = "administrator";

impl Engine {
    /// Sets a policy, in place of the one of its kind with this name, and gives all its queues and
    /// exchanges what follows.
    ///
    /// # Errors
    /// `Precondition` for a new one without room.
    pub(crate) fn put_policy(&self, vhost: &Vhost, kind: PolicyKind, policy: Policy) -> Result<Ticket, Error> {
        let mut tables = vhost.tables.write();
        let (before, policy) = self.place_policy(vhost, &tables, kind, policy)?;
        let changed: Vec<_> = before.into_iter().chain([policy.clone()]).collect();
        let ticket = self.change(vhost, &mut tables, Change::Policy(kind, Box::new(policy)));
        drop(tables);
        self.give_policies(vhost, &changed);
        Ok(ticket)
    }

    /// A policy with the owner that it has in the log, and the one that it takes the place of.
    ///
    /// # Errors
    /// `Precondition` for a new one without room.
    pub(crate) fn place_policy(
        &self,
        vhost: &Vhost,
        tables: &Tables,
        kind: PolicyKind,
        policy: Policy,
    ) -> Result<(Option<Policy>, Policy), Error> {
        if let Some(before) = tables.policies.get(kind, &policy.name) {
            return Ok((Some(before.clone()), policy.with_id(before.id)));
        }
        let load = Load { logged: policy_bytes(vhost.id, kind, &policy)?.len() as u64, memory: 0 };
        let what = format!("{} '{}'", Sort::of_policy(kind).name(), policy.name);
        self.admit_load(&what, load, Asker::Operator)?;
        Ok((None, policy.with_id(self.owner(vhost.log()))))
    }

    /// Ends a policy. `None` if there is none of this name.
    pub(crate) fn end_policy(&self, vhost: &Vhost, kind: PolicyKind, name: &str) -> Option<Ticket> {
        let mut tables = vhost.tables.write();
        let policy = tables.policies.get(kind, name)?.clone();
        let ticket = self.change(vhost, &mut tables, Change::EndPolicy(kind, Box::new(policy.clone())));
        drop(tables);
        self.give_policies(vhost, &[policy]);
        Some(ticket)
    }

    /// A valid policy.
    pub(crate) fn checked_policy(&self, kind: PolicyKind, name: &str, spec: PolicySpec) -> Result<Policy, Error> {
        if name.is_empty() || name.len() > NAME_MAX {
            let length = name.len();
            return Err(Error::precondition(format!("the name of a policy has 1 to {NAME_MAX} bytes, not {length}")));
        }
        refuse_control("policy", name)?;
        let policy = Policy::new(kind, name, spec)?;
        self.check_storable(policy_bytes(0, kind, &policy)?.len())?;
        Ok(policy)
    }

    /// A policy that moves messages needs the rights of a declaration with the same effect. Its
    /// author may read each queue and exchange that it applies to now, write to the exchange that
    /// they move to, and configure the dead-letter queues that are made for them. For later ones
    /// the user that declares them needs the rights.
    pub(crate) fn authorize_policy(&self, vhost: &Vhost, policy: &Policy, author: &Identity) -> Result<(), Error> {
        if self.authority.is_tagged(author, ADMINISTRATOR) {
            return Ok(());
        }
        let ask = |resource: Resource<'_>, right| {
            let asked = self.authority.authorize(author, &vhost.name, resource, right);
            asked.map_err(|denied| Error::refused(format!("policy '{}': {denied}", policy.name)))
        };
        let text = |setting: &str| policy.spec.definition.get(setting).and_then(Value::as_text);
        let alternate = text(ALTERNATE);
        for exchange in MOVES.iter().filter_map(|(exchange, _)| text(exchange)).chain(alternate) {
            ask(Resource::exchange(exchange), Right::Write)?;
        }
        // An empty rule names no queue: what expires is dropped.
        let rules = RULES.map(|rule| text(rule).filter(|rule| !rule.is_empty()));
        // All of them go through the default exchange.
        let through_default = rules.into_iter().chain([text(COPY_TO)]).flatten().next().is_some();
        if through_default {
            ask(Resource::exchange(""), Right::Write)?;
        }
        // Checked without the lock: matching many names takes longer than a declaration may wait.
        if through_default || MOVES.iter().any(|(exchange, key)| text(exchange).or(text(key)).is_some()) {
            let queues: Vec<_> = vhost.tables.read().queues().cloned().collect();
            for queue in queues.iter().filter(|queue| policy.is_for_queue(&queue.name, queue.queue_type)) {
                ask(Resource::queue(&queue.name), Right::Read)?;
                for rule in rules.into_iter().flatten() {
                    ask(Resource::queue(&dead_letters::named(rule, &queue.name)), Right::Configure)?;
                }
                // A key alone changes the way through the queue's own exchange.
                for (exchange, _) in MOVES {
                    if let Some(own) = queue.declared.get(&argument(exchange)).and_then(Value::as_text) {
                        ask(Resource::exchange(own), Right::Write)?;
                    }
                }
            }
        }
        if alternate.is_some() {
            let exchanges = vhost.tables.read().exchange_names();
            for exchange in exchanges.iter().filter(|exchange| policy.is_for_exchange(exchange)) {
                ask(Resource::exchange(exchange), Right::Read)?;
            }
        }
        Ok(())
    }

    /// Gives every queue and exchange of these policies, which were added or removed, the effect of
    /// all policies; others stay as they are. It works in pieces and releases the vhost between
    /// them: all queues at once would take longer than a declaration may wait.
    pub(crate) fn give_policies(&self, vhost: &Vhost, changed: &[Policy]) {
        let mut work = Vec::new();
        let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        let (queues, exchanges, matches) = {
            let tables = vhost.tables.read();
            let queues: Vec<_> = tables.queues().cloned().collect();
            (queues, tables.exchange_names(), tables.policies.count() + 1)
        };
        let piece = (MATCHES_AT_ONCE / matches).max(1);
        for queues in queues.chunks(piece) {
            let tables = vhost.tables.read();
            let is_changed =
                |queue: &Queue| changed.iter().any(|policy| policy.is_for_queue(&queue.name, queue.queue_type));
            for queue in queues.iter().filter(|queue| is_changed(queue)) {
                // Declared arguments were parsed before.
                let arguments = tables.arguments_of(&queue.name, &queue.vhost, queue.queue_type, &queue.declared);
                arguments.into_iter().for_each(|arguments| queue.apply_arguments(arguments, &mut visit));
            }
        }
        for names in exchanges.chunks(piece) {
            let mut tables = vhost.tables.write();
            for name in names.iter().filter(|name| changed.iter().any(|policy| policy.is_for_exchange(name))) {
                let alternate = tables.policies.alternate_of(name);
                if let Some(exchange) = tables.exchange_mut(name) {
                    let own = ExchangeArguments::parse(
                        exchange.kind,
                        name,
                        "",
                        &exchange.arguments,
                        UnknownArguments::Accept,
                    );
                    exchange.alternate = own.ok().and_then(|own| own.alternate).or(alternate);
                }
            }
        }
        self.catalog.changed();
        self.run_work(&mut work);
    }
}
