//! Policies, set for a user, and shown as JSON. Names of fields are those of RabbitMQ's
//! definitions.

use auth::Identity;
use broker::{ApplyTo, Broker, Error, PolicyKind, PolicyReport, PolicySpec, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::json;

/// A policy to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Its vhost. A document of one vhost leaves it out.
    #[serde(default)]
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// A regular expression that is searched for in names.
    pub pattern: String,
    /// `all`, `queues`, `classic_queues`, `quorum_queues` or `exchanges`.
    #[serde(rename = "apply-to")]
    pub apply_to: String,
    /// If several policies match, the one with the highest priority applies.
    pub priority: i64,
    /// The arguments that it sets.
    #[serde(deserialize_with = "json::unique")]
    pub definition: Map<String, Json>,
}

/// What a policy applies to if it does not say.
pub(crate) fn to_all() -> String {
    ApplyTo::All.name().to_owned()
}

/// The kind of a policy.
pub(crate) fn kind(operator: bool) -> PolicyKind {
    if operator { PolicyKind::Operator } else { PolicyKind::User }
}

/// Sets a policy for its author. Returns the ticket of the change.
pub(crate) fn set(broker: &Broker, operator: bool, policy: PolicyChange, author: &Identity) -> Result<Ticket, Error> {
    let (vhost, name) = (policy.vhost.clone(), policy.name.clone());
    broker.set_policy(&vhost, kind(operator), &name, spec(policy)?, author)
}

/// Fails as [`set`] would. The vhost and the permissions of the author are not checked.
pub(crate) fn check(broker: &Broker, operator: bool, policy: PolicyChange) -> Result<(), Error> {
    let name = policy.name.clone();
    broker.check_policy(kind(operator), &name, spec(policy)?)
}

fn spec(policy: PolicyChange) -> Result<PolicySpec, Error> {
    let PolicyChange { pattern, apply_to, priority, definition, .. } = policy;
    let Some(apply_to) = ApplyTo::parse(&apply_to) else {
        return Err(Error::precondition(format!(
            "a policy can't apply to '{apply_to}', but to all, queues, classic_queues, quorum_queues or exchanges"
        )));
    };
    let definition = json::table(&definition).map_err(Error::precondition)?;
    Ok(PolicySpec { pattern, apply_to, priority, definition })
}

/// A policy as JSON.
pub(crate) fn row(report: &PolicyReport) -> Json {
    json!({
        "vhost": report.vhost,
        "name": report.name,
        "pattern": report.spec.pattern,
        "apply-to": report.spec.apply_to.name(),
        "definition": json::object(&report.spec.definition),
        "priority": report.spec.priority,
    })
}
