//! Setting and clearing policies while the broker runs, with effect on existing queues and
//! exchanges at once.

use std::sync::Arc;

use auth::{Identity, Resource, Right};
use journal::{Owner, Ticket};

use crate::admin::checks::refuse_control;
use crate::arguments::{ExchangeArguments, QueueArguments, bound_stored};
use crate::broker::Broker;
use crate::catalog::Vhost;
use crate::catalog::definitions::{DefinitionKey, Sort};
use crate::catalog::policies::{
    ALTERNATE, ApplyTo, Changed, DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, Policies, Policy, PolicyKind,
    PolicySpec, argument,
};
use crate::engine::Engine;
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

/// One policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// The policy itself.
    pub spec: PolicySpec,
}

impl Sort {
    fn of_policy(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::User => Self::Policy,
            PolicyKind::Operator => Self::OperatorPolicy,
        }
    }
}

impl Broker {
    /// Sets a policy, in place of the one of its kind with this name, and applies it to all its
    /// queues and exchanges. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost, `Precondition` for an invalid policy, `AccessRefused` for one
    /// that would move messages where its author may not.
    pub fn set_policy(
        &self,
        vhost: &str,
        kind: PolicyKind,
        name: &str,
        spec: PolicySpec,
        author: &Identity,
    ) -> Result<Ticket, Error> {
        let policy = self.engine.checked_policy(kind, name, spec)?;
        let _alone = self.engine.administration.lock();
        let vhost = self.engine.existing_vhost(vhost)?;
        self.engine.authorize_policy(&vhost, &policy, author)?;
        let ticket =
            self.engine.define(DefinitionKey::new(Sort::of_policy(kind), vhost.id, name), fields_of(&policy.spec))?;
        self.engine.change_policies(vhost.id, |policies| policies.put(kind, policy));
        Ok(ticket)
    }

    /// Fails where [`Broker::set_policy`] would, except for the vhost.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_policy(&self, kind: PolicyKind, name: &str, spec: PolicySpec) -> Result<(), Error> {
        self.engine.checked_policy(kind, name, spec).map(drop)
    }

    /// Fails where a policy of this kind could not have these settings.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_policy_settings(&self, kind: PolicyKind, name: &str, settings: &Table) -> Result<(), Error> {
        Policy::check_settings(kind, name, settings)
    }

    /// Clears a policy. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost or the policy.
    pub fn clear_policy(&self, vhost: &str, kind: PolicyKind, name: &str) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let id = self.engine.existing_vhost(vhost)?.id;
        let Some(ticket) = self.engine.undefine(&DefinitionKey::new(Sort::of_policy(kind), id, name)) else {
            return Err(Error::not_found(format!("{} '{name}' does not exist in vhost '{vhost}'", kind.name())));
        };
        self.engine.change_policies(id, |policies| policies.remove(kind, name));
        Ok(ticket)
    }

    /// The policies of a kind, by vhost; in each, in the order in which they count.
    pub fn policies(&self, kind: PolicyKind) -> Vec<PolicyReport> {
        let mut vhosts = self.engine.catalog.vhosts();
        vhosts.sort_by(|one, other| one.name.cmp(&other.name));
        let mut reports = Vec::new();
        for vhost in vhosts {
            let tables = vhost.tables.read();
            let report = |policy: &Policy| PolicyReport {
                vhost: vhost.name.to_string(),
                name: policy.name.clone(),
                spec: policy.spec.clone(),
            };
            reports.extend(tables.policies.list(kind).iter().map(report));
        }
        reports
    }
}

impl Engine {
    /// A valid policy.
    fn checked_policy(&self, kind: PolicyKind, name: &str, spec: PolicySpec) -> Result<Policy, Error> {
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
    fn authorize_policy(&self, vhost: &Vhost, policy: &Policy, author: &Identity) -> Result<(), Error> {
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
    fn change_policies(&self, vhost: Owner, change: impl FnOnce(&mut Policies) -> Changed) {
        let Some(vhost) = self.catalog.vhosts().into_iter().find(|other| other.id == vhost) else { return };
        let changed = change(&mut vhost.tables.write().policies);
        let mut work = Vec::new();
        let mut visit = Visit { context: self, now: self.clock.unix_ms(), work: &mut work };
        self.apply_policies(&vhost, &changed, &mut |queue, arguments| queue.apply_arguments(arguments, &mut visit));
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
