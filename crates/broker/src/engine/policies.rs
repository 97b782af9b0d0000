//! The one way to change policies while the broker runs, and to take them from the log at a start:
//! their effect on queues and exchanges is the same.

use std::sync::Arc;

use auth::{Identity, Resource, Right};
use journal::Ticket;

use crate::arguments::{ExchangeArguments, QueueArguments, bound_stored};
use crate::catalog::Vhost;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::policies::{
    ALTERNATE, ApplyTo, Changed, DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, Policies, Policy, PolicyKind,
    PolicySpec, argument,
};
use crate::engine::Engine;
use crate::engine::definitions::refuse_control;
use crate::error::Error;
use crate::message::NAME_MAX;
use crate::queue::{Queue, Visit};
use crate::settings::UnknownArguments;
use crate::value::{Table, Value};

const PATTERN: &str = "pattern";
const APPLY_TO: &str = "apply-to";
const PRIORITY: &str = "priority";
const DEFINITION: &str = "definition";
/// Names that are matched against patterns while a vhost is locked: two milliseconds or so.
const MATCHES_AT_ONCE: usize = 10_000;
/// The tag of users whose policies need no other rights.
const ADMINISTRATOR: &str = "administrator";

impl Sort {
    fn of_policy(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::User => Self::Policy,
            PolicyKind::Operator => Self::OperatorPolicy,
        }
    }
}

impl Engine {
    /// Logs a policy, in place of the one of its kind with this name, and applies it to all its
    /// queues and exchanges.
    pub(crate) fn put_policy(&self, vhost: &Vhost, kind: PolicyKind, policy: Policy) -> Result<Ticket, Error> {
        let key = DefinitionKey::new(Sort::of_policy(kind), vhost.id, &policy.name);
        let ticket = self.define(key, fields_of(&policy.spec))?;
        self.change_policies(vhost, |policies| policies.put(kind, policy));
        Ok(ticket)
    }

    /// Ends a policy. `None` if there is none of this name.
    pub(crate) fn end_policy(&self, vhost: &Vhost, kind: PolicyKind, name: &str) -> Option<Ticket> {
        let ticket = self.undefine(&DefinitionKey::new(Sort::of_policy(kind), vhost.id, name))?;
        self.change_policies(vhost, |policies| policies.remove(kind, name));
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
        self.check_definition(&DefinitionKey::new(Sort::of_policy(kind), 0, name), &fields_of(&policy.spec))?;
        Ok(policy)
    }

    /// A policy that moves messages needs the rights of a declaration with the same effect. Its
    /// author may read each queue and exchange that it applies to now, and write to the exchange
    /// that they move to. For later ones the user that declares them needs the rights.
    pub(crate) fn authorize_policy(&self, vhost: &Vhost, policy: &Policy, author: &Identity) -> Result<(), Error> {
        if author.is_operator() || self.authority.has_tag(author.user(), ADMINISTRATOR) {
            return Ok(());
        }
        let ask = |resource: Resource<'_>, right| {
            let asked = self.authority.authorize(author, &vhost.name, resource, right);
            asked.map_err(|denied| Error::refused(format!("policy '{}': {denied}", policy.name)))
        };
        let [dead_letters, key, alternate] = [DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, ALTERNATE]
            .map(|setting| policy.spec.definition.get(setting).and_then(Value::as_text));
        for exchange in [dead_letters, alternate].into_iter().flatten() {
            ask(Resource::exchange(exchange), Right::Write)?;
        }
        // Checked without the lock: matching many names takes longer than a declaration may wait.
        if dead_letters.is_some() || key.is_some() {
            let queues: Vec<_> = vhost.tables.read().queues().cloned().collect();
            for queue in queues.iter().filter(|queue| policy.is_for_queue(&queue.name, queue.queue_type)) {
                ask(Resource::queue(&queue.name), Right::Read)?;
                // A key alone changes the way through the queue's own exchange.
                if let Some(own) = queue.declared.get(&argument(DEAD_LETTER_EXCHANGE)).and_then(Value::as_text) {
                    ask(Resource::exchange(own), Right::Write)?;
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

    /// Changes policies. Queues and exchanges that the changed policies do not apply to stay as
    /// they are.
    fn change_policies(&self, vhost: &Vhost, change: impl FnOnce(&mut Policies) -> Changed) {
        let changed = change(&mut vhost.tables.write().policies);
        let mut work = Vec::new();
        let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        self.apply_policies(vhost, &changed, &mut |queue, arguments| queue.apply_arguments(arguments, &mut visit));
        self.run_work(&mut work);
    }

    /// Updates every queue, by way of `give`, and every exchange that these changes affect. It
    /// works in pieces and releases the vhost between them: all queues at once would take longer
    /// than a declaration may wait.
    fn apply_policies(&self, vhost: &Vhost, changed: &Changed, give: &mut dyn FnMut(&Arc<Queue>, QueueArguments)) {
        let (queues, exchanges, matches) = {
            let tables = vhost.tables.read();
            let queues: Vec<_> = tables.queues().cloned().collect();
            (queues, tables.exchange_names(), tables.policies.count() + 1)
        };
        let piece = (MATCHES_AT_ONCE / matches).max(1);
        for queues in queues.chunks(piece) {
            let tables = vhost.tables.read();
            for queue in queues.iter().filter(|queue| changed.is_for_queue(&queue.name, queue.queue_type)) {
                // Declared arguments were parsed before.
                let arguments = tables.arguments_of(&queue.name, &queue.vhost, queue.queue_type, &queue.declared);
                arguments.into_iter().for_each(|arguments| give(queue, arguments));
            }
        }
        for names in exchanges.chunks(piece) {
            let mut tables = vhost.tables.write();
            for name in names.iter().filter(|name| changed.is_for_exchange(name)) {
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
    }

    /// Takes the policies from the log. Returns the queues that they apply to; the caller still has
    /// to enforce their arguments.
    pub(crate) fn resume_policies(&self) -> Result<Vec<Arc<Queue>>, Error> {
        let (mut work, mut bound) = (Vec::new(), Vec::new());
        let visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        for vhost in self.catalog.vhosts() {
            for kind in [PolicyKind::User, PolicyKind::Operator] {
                for (name, fields) in self.definitions.all(Sort::of_policy(kind), vhost.id) {
                    let policy = spec_of(&fields).and_then(|spec| Policy::new(kind, &name, spec).ok());
                    let policy = policy.ok_or_else(|| {
                        Error::internal(format!("the {} '{name}' of vhost '{}' can't be read", kind.name(), vhost.name))
                    })?;
                    vhost.tables.write().policies.put(kind, policy);
                }
            }
            if vhost.tables.read().policies.count() == 0 {
                continue;
            }
            self.apply_policies(&vhost, &Changed::Everything, &mut |queue, arguments| {
                if queue.set_arguments(arguments, &visit) {
                    bound.push(Arc::clone(queue));
                }
            });
        }
        Ok(bound)
    }
}

fn fields_of(spec: &PolicySpec) -> Table {
    let mut fields = Table::default();
    fields.set(PATTERN, Value::Text(spec.pattern.clone()));
    fields.set(APPLY_TO, Value::Text(spec.apply_to.name().to_owned()));
    fields.set(PRIORITY, Value::I64(spec.priority));
    fields.set(DEFINITION, Value::Table(spec.definition.clone()));
    fields
}

fn spec_of(fields: &Arc<Table>) -> Option<PolicySpec> {
    let Some(Value::Table(definition)) = fields.get(DEFINITION) else { return None };
    let mut definition = definition.clone();
    definition.0.iter_mut().for_each(|(setting, value)| bound_stored(&argument(setting), value));
    Some(PolicySpec {
        pattern: fields.get(PATTERN)?.as_text()?.to_owned(),
        apply_to: ApplyTo::parse(fields.get(APPLY_TO)?.as_text()?)?,
        priority: fields.get(PRIORITY)?.as_integer()?,
        definition,
    })
}
