//! Policies of users and of the operator.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{MethodRouter, get};
use broker::{ApplyTo, Broker, Error, PolicyKind, PolicyReport, PolicySpec, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, created, done, look, make};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::json::{self, object, table};
use crate::listing::{Collection, Part};
use crate::source::Source;

/// Policies of one kind.
pub(crate) struct Policies(pub(super) PolicyKind);

impl Collection for Policies {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.policies(self.0).iter().map(row))
    }
}

pub(super) fn routes() -> Routes {
    let of = |path: &str, kind: PolicyKind, policies: &'static Policies| {
        let one = move |asker, source, path| one(asker, source, path, kind);
        let set = move |asker, source, path, policy| put(asker, source, path, policy, kind);
        let clear = move |asker, source, path| clear(asker, source, path, kind);
        Router::new()
            .merge(api::all(path, policies))
            .merge(api::in_vhost(&format!("{path}/{{vhost}}"), policies))
            .route(&format!("/api/{path}/{{vhost}}/{{name}}"), get(one).put(set).delete(clear))
    };
    of("policies", PolicyKind::User, &Policies(PolicyKind::User)).merge(of(
        "operator-policies",
        PolicyKind::Operator,
        &Policies(PolicyKind::Operator),
    ))
}

/// The route that sets a policy of users.
pub(crate) fn native_put() -> MethodRouter<Arc<Source>> {
    axum::routing::put(move |asker, source, path, policy| put(asker, source, path, policy, PolicyKind::User))
}

/// The route that clears one.
pub(crate) fn native_clear() -> MethodRouter<Arc<Source>> {
    axum::routing::delete(move |asker, source, path| clear(asker, source, path, PolicyKind::User))
}

async fn one(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    kind: PolicyKind,
) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let policies = source.broker.policies(kind);
        policies.iter().find(|policy| policy.vhost == vhost && policy.name == name).map(row)
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

#[derive(Deserialize)]
struct PolicyBody {
    pattern: String,
    #[serde(deserialize_with = "json::unique")]
    definition: Map<String, Json>,
    #[serde(default)]
    priority: i64,
    #[serde(default = "to_all", rename = "apply-to", alias = "apply_to")]
    apply_to: String,
}

/// Fails unless the user may set such a policy. Operator policies need an administrator; other
/// policies need a policymaker that may enter the vhost.
fn sets(asker: &Asker, source: &Source, vhost: &str, kind: PolicyKind) -> Result<(), Failure> {
    if kind == PolicyKind::Operator {
        asker.administers()?;
        return source.broker.has_vhost(vhost).then_some(()).ok_or_else(Failure::not_found);
    }
    asker.sets_policies(source, vhost)
}

async fn put(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<PolicyBody>,
    kind: PolicyKind,
) -> Answer {
    sets(&asker, &source, &vhost, kind)?;
    let (of, named) = (vhost.clone(), name.clone());
    let was_there = look(&source, &asker, move |source| {
        let listed = source.broker.policies(kind);
        listed.iter().any(|policy| policy.vhost == of && policy.name == named)
    })
    .await?;
    let PolicyBody { pattern, definition, priority, apply_to } = body;
    let policy = PolicyFields { vhost, name, pattern, apply_to, priority, definition };
    make(&source, &asker, PolicyChange::Set { kind, policy }).await?;
    if was_there { done() } else { created() }
}

async fn clear(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    kind: PolicyKind,
) -> Answer {
    sets(&asker, &source, &vhost, kind)?;
    make(&source, &asker, PolicyChange::Clear { kind, vhost, name }).await?;
    done()
}

/// A policy to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFields {
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

/// The author of a policy, as the control socket writes it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "PolicyKind", rename_all = "snake_case")]
enum Author {
    User,
    Operator,
}

/// A change of policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyChange {
    /// Sets a policy. It replaces the policy of the same name.
    Set {
        /// Its author.
        #[serde(with = "Author")]
        kind: PolicyKind,
        /// The policy.
        policy: PolicyFields,
    },
    /// Clears a policy.
    Clear {
        /// Its author.
        #[serde(with = "Author")]
        kind: PolicyKind,
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
}

impl Changes for PolicyChange {
    fn told(&self) -> Told {
        match self {
            Self::Set { kind, policy } => {
                let about = format_args!(
                    "pattern={} apply_to={} priority={} definition={}",
                    Said(&policy.pattern),
                    Said(&policy.apply_to),
                    policy.priority,
                    Said(&policy.definition)
                );
                let action = if *kind == PolicyKind::Operator { "set_operator_policy" } else { "set_policy" };
                Told::of(action, [&policy.vhost, &policy.name], about)
            }
            Self::Clear { kind, vhost, name } => {
                let action = if *kind == PolicyKind::Operator { "clear_operator_policy" } else { "clear_policy" };
                Told::plain(action, [vhost, name])
            }
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::Set { kind, policy } => {
                let (vhost, name) = (policy.vhost.clone(), policy.name.clone());
                broker.set_policy(&vhost, kind, &name, spec(policy)?, &caller.identity)
            }
            Self::Clear { kind, vhost, name } => broker.clear_policy(&vhost, kind, &name),
        }?;
        Ok((0, ticket))
    }
}

pub(super) fn spec(policy: PolicyFields) -> Result<PolicySpec, Error> {
    let PolicyFields { pattern, apply_to, priority, definition, .. } = policy;
    let Some(apply_to) = ApplyTo::parse(&apply_to) else {
        return Err(Error::precondition(format!(
            "a policy can't apply to '{apply_to}', but to all, queues, classic_queues, quorum_queues or exchanges"
        )));
    };
    let definition = table(&definition).map_err(Error::precondition)?;
    Ok(PolicySpec { pattern, apply_to, priority, definition })
}

/// A policy as JSON.
fn row(report: &PolicyReport) -> Json {
    json!({
        "vhost": report.vhost,
        "name": report.name,
        "pattern": report.spec.pattern,
        "apply-to": report.spec.apply_to.name(),
        "definition": object(&report.spec.definition),
        "priority": report.spec.priority,
    })
}
