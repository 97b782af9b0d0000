//! Policies of users and of the operator.

use std::collections::VecDeque;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use broker::PolicyKind;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, created, done, look, make};
use crate::change::Change;
use crate::json;
use crate::listing::{Collection, Part};
use crate::policies::{self, PolicyChange};
use crate::source::Source;

/// Policies of one kind.
pub(crate) struct Policies(pub(super) PolicyKind);

impl Collection for Policies {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.policies(self.0).iter().map(policies::row))
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

async fn one(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    kind: PolicyKind,
) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let policies = source.broker.policies(kind);
        policies.iter().find(|policy| policy.vhost == vhost && policy.name == name).map(policies::row)
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
    #[serde(default = "policies::to_all", rename = "apply-to")]
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
    let policy = PolicyChange { vhost, name, pattern, apply_to, priority, definition };
    make(&source, &asker, Change::SetPolicy { operator: kind == PolicyKind::Operator, policy }).await?;
    if was_there { done() } else { created() }
}

async fn clear(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    kind: PolicyKind,
) -> Answer {
    sets(&asker, &source, &vhost, kind)?;
    make(&source, &asker, Change::ClearPolicy { operator: kind == PolicyKind::Operator, vhost, name }).await?;
    done()
}
