//! Explanations for operators: where a message would go, which policies apply to a queue, and what
//! another policy would change. Each comes from the function that decides, which notes its steps.

use hashbrown::HashMap;

use crate::broker::Broker;
use crate::catalog::Hop;
use crate::catalog::policies::{Fit, Matched, Policies, Policy, PolicyKind, PolicySpec};
use crate::error::Error;
use crate::message::cc::{BCC, CC, Copies};
use crate::message::properties::Properties;
use crate::queue::Queue;
use crate::report::BindingReport;
use crate::report::objects::binding_report;
use crate::routing::{Destination, Envelope};
use crate::value::{Table, Value};

/// Where a message would go.
#[derive(Debug, Clone, Default)]
pub struct RouteExplained {
    /// The exchanges that it comes through, in order.
    pub hops: Vec<RouteHop>,
    /// The queues that it reaches, by name. None for a message that is unroutable.
    pub queues: Vec<String>,
    /// Why it would be refused, if it would.
    pub refused: Option<String>,
}

/// One exchange on the way.
#[derive(Debug, Clone)]
pub struct RouteHop {
    /// The exchange; empty for the default exchange.
    pub exchange: String,
    /// Its type.
    pub kind: &'static str,
    /// The bindings that the message follows.
    pub bindings: Vec<BindingReport>,
    /// Where it goes because no binding matches.
    pub alternate: Option<String>,
}

/// One policy, as it meets a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyVerdict {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i64,
    /// Whether it applies, and if not, why.
    pub fit: PolicyFit,
}

/// Whether a policy applies to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFit {
    /// It does.
    Applies,
    /// It would, and this one comes before it.
    Behind(String),
    /// It is for things of other types.
    OtherType,
    /// Queues of this type do not have this setting of it.
    ForeignSetting(String),
    /// Its pattern is not found in the name.
    OtherName,
}

/// The policies of a queue.
#[derive(Debug, Clone)]
pub struct PoliciesExplained {
    /// All policies of the vhost, in the order in which they are asked.
    pub verdicts: Vec<PolicyVerdict>,
    /// What the queue was declared with.
    pub declared: Table,
    /// What its policies say together.
    pub definition: Table,
    /// The arguments in force.
    pub arguments: Table,
}

/// What a change of a policy would do.
#[derive(Debug, Clone, Default)]
pub struct PolicyPreview {
    /// Queues whose arguments would change, by name; at most [`PREVIEWED`].
    pub queues: Vec<QueuePreview>,
    /// How many there are in all.
    pub total: u64,
    /// Ready messages that would be dropped at once for a smaller maximal length, in all of them.
    pub dropped: u64,
}

/// What a change of a policy would do to a queue.
#[derive(Debug, Clone)]
pub struct QueuePreview {
    /// Its name.
    pub queue: String,
    /// The policy that would apply to it.
    pub policy: Option<String>,
    /// Arguments that would change: name, value before, value after.
    pub changes: Vec<(String, Option<Value>, Option<Value>)>,
    /// Ready messages that would be dropped at once.
    pub dropped: u64,
    /// Its oldest message would expire at once, if memory has it.
    pub expires: bool,
}

/// Queues that a preview names.
pub const PREVIEWED: usize = 100;

impl Broker {
    /// Where a message with this key and these headers would go. `None` without the vhost.
    pub fn explain_route(&self, vhost: &str, exchange: &str, key: &str, headers: &Table) -> Option<RouteExplained> {
        let vhost = self.engine.catalog.vhost(vhost)?;
        let copies =
            if [CC, BCC].iter().any(|name| headers.get(name).is_some()) { Copies::Named } else { Copies::None };
        let read = || Some(Properties { headers: headers.clone(), ..Properties::default() });
        let envelope = Envelope::new(key, copies, &read);
        let mut hops = Vec::new();
        let routed = vhost.route_noting(exchange, &envelope, Some(&mut hops));
        let tables = vhost.tables.read();
        let mut explained = RouteExplained::default();
        if exchange.is_empty() {
            explained.hops.push(RouteHop {
                exchange: String::new(),
                kind: "direct",
                bindings: Vec::new(),
                alternate: None,
            });
        }
        for Hop { exchange, destinations, alternate } in hops {
            let Some(exchange) = tables.exchange(&exchange) else { continue };
            let followed = |to: &Destination| exchange.bindings.that_lead(&envelope, *to);
            let bindings = destinations.iter().flat_map(followed);
            let reports = bindings.filter_map(|one| binding_report(&vhost.name, &tables, exchange, one)).collect();
            let (name, kind) = (exchange.name.to_string(), exchange.kind.name());
            explained.hops.push(RouteHop { exchange: name, kind, bindings: reports, alternate });
        }
        match routed {
            Ok(routing) => explained.queues = routing.queues.iter().map(|queue| queue.name.to_string()).collect(),
            Err(error) => explained.refused = Some(error.text),
        }
        explained.queues.sort_unstable();
        Some(explained)
    }

    /// Which policies apply to a queue, and why the others do not. `None` without the queue.
    pub fn explain_policies(&self, vhost: &str, queue: &str) -> Option<PoliciesExplained> {
        let vhost = self.engine.catalog.vhost(vhost)?;
        let tables = vhost.tables.read();
        let queue = tables.queue(queue)?;
        let matched = tables.policies.of_queue(&queue.name, queue.queue_type);
        let kinds = [PolicyKind::User, PolicyKind::Operator];
        let verdicts = kinds.into_iter().flat_map(|kind| verdicts(&tables.policies, kind, matched, queue));
        Some(PoliciesExplained {
            verdicts: verdicts.collect(),
            declared: queue.declared.clone(),
            definition: matched.definition(),
            arguments: matched.arguments(&queue.declared),
        })
    }

    /// What setting a policy would change, or clearing it where `spec` is `None`. Nothing is
    /// changed.
    ///
    /// # Errors
    /// `NotFound` without the vhost, `Precondition` for an invalid policy.
    pub fn preview_policy(
        &self,
        vhost: &str,
        kind: PolicyKind,
        name: &str,
        spec: Option<PolicySpec>,
    ) -> Result<PolicyPreview, Error> {
        let policy = spec.map(|spec| self.engine.checked_policy(kind, name, spec)).transpose()?;
        let vhost = self.engine.existing_vhost(vhost)?;
        let (queues, before) = {
            let tables = vhost.tables.read();
            (tables.queues().cloned().collect::<Vec<_>>(), tables.policies.clone())
        };
        let mut after = before.clone();
        after.remove(kind, name);
        policy.into_iter().for_each(|policy| after.put(kind, policy));
        let mut preview = PolicyPreview::default();
        for queue in &queues {
            let of = |policies: &Policies| policies.of_queue(&queue.name, queue.queue_type).arguments(&queue.declared);
            let changes = differences(&of(&before), &of(&after));
            if changes.is_empty() {
                continue;
            }
            let dropped = self.dropped_by(queue, &of(&after));
            let expires = self.expires_by(queue, &of(&after));
            preview.total += 1;
            preview.dropped += dropped;
            let policy = after.of_queue(&queue.name, queue.queue_type).user.map(|policy| policy.name.clone());
            preview.queues.push(QueuePreview { queue: queue.name.to_string(), policy, changes, dropped, expires });
        }
        preview.queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        preview.queues.truncate(PREVIEWED);
        Ok(preview)
    }

    /// Whether the next message of a queue has waited longer than these arguments let it.
    fn expires_by(&self, queue: &Queue, arguments: &Table) -> bool {
        let ttl = arguments.get("x-message-ttl").and_then(Value::as_integer).and_then(|ttl| u64::try_from(ttl).ok());
        let oldest = queue.ages(&self.engine).oldest_ready;
        let now = self.engine.clock.unix_ms();
        ttl.zip(oldest).is_some_and(|(ttl, published)| published.saturating_add(ttl) <= now)
    }

    /// Ready messages that a smaller maximal length would drop at once.
    fn dropped_by(&self, queue: &Queue, arguments: &Table) -> u64 {
        let refuses = arguments.get("x-overflow").and_then(Value::as_text).is_some_and(|mode| mode != "drop-head");
        let most = arguments.get("x-max-length").and_then(Value::as_integer).and_then(|most| u64::try_from(most).ok());
        let Some(most) = most.filter(|_| !refuses) else { return 0 };
        (queue.lock(&self.engine).ready() as u64).saturating_sub(most)
    }
}

/// How each policy of a kind meets a queue.
fn verdicts<'a>(
    policies: &'a Policies,
    kind: PolicyKind,
    matched: Matched<'a>,
    queue: &'a Queue,
) -> impl Iterator<Item = PolicyVerdict> + 'a {
    let first = match kind {
        PolicyKind::User => matched.user,
        PolicyKind::Operator => matched.operator,
    };
    let fit = move |policy: &Policy| match policy.fit(&queue.name, queue.queue_type) {
        Fit::Fits => match first.filter(|first| first.name != policy.name) {
            Some(first) => PolicyFit::Behind(first.name.clone()),
            None => PolicyFit::Applies,
        },
        Fit::OtherType => PolicyFit::OtherType,
        Fit::ForeignSetting(setting) => PolicyFit::ForeignSetting(setting.to_owned()),
        Fit::OtherName => PolicyFit::OtherName,
    };
    policies.list(kind).iter().map(move |policy| PolicyVerdict {
        kind,
        name: policy.name.clone(),
        priority: policy.spec.priority,
        fit: fit(policy),
    })
}

/// The values that two tables have differently, by name.
fn differences(before: &Table, after: &Table) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut all: HashMap<&str, (Option<&Value>, Option<&Value>)> = HashMap::new();
    before.0.iter().for_each(|(name, value)| all.entry(name).or_default().0 = Some(value));
    after.0.iter().for_each(|(name, value)| all.entry(name).or_default().1 = Some(value));
    let differ = all.into_iter().filter(|(_, (before, after))| before != after);
    let mut changes: Vec<_> =
        differ.map(|(name, (before, after))| (name.to_owned(), before.cloned(), after.cloned())).collect();
    changes.sort_by(|one, other| one.0.cmp(&other.0));
    changes
}
