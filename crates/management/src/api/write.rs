//! What administrators change: users and their permissions, vhosts, limits, policies, definitions;
//! and closing connections.

use std::sync::Arc;

use auth::PasswordHash;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::routing::{delete, get, post, put};
use broker::PolicyKind;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::answer::{Answer, Failure, created, done, shown, shown_text};
use super::asker::Asker;
use super::document::{self, Document, Parameters};
use super::{blocking, look, make, sum_up};
use crate::change::{Change, Secret};
use crate::control::LONGEST_DEFINITIONS;
use crate::definitions::{Extent, Import, Words};
use crate::json;
use crate::listing::{self, Listed};
use crate::policies::{self, PolicyChange};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    let mut router = Router::new()
        .route("/api/definitions", get(export).post(import))
        .route("/api/all-configuration", get(export).post(import))
        .route("/api/definitions/{vhost}", get(export_vhost).post(import_vhost))
        .route("/api/users/{name}", put(put_user).delete(delete_user))
        .route("/api/users/bulk-delete", post(delete_users))
        .route("/api/vhosts/{name}", put(put_vhost).delete(delete_vhost))
        .route("/api/vhosts/{name}/deletion/protection", post(refuse_protection).delete(no_protection))
        .route("/api/permissions/{vhost}/{user}", put(put_permission).delete(delete_permission))
        .route("/api/topic-permissions/{vhost}/{user}", put(put_topic_permission).delete(delete_topic_permissions))
        .route("/api/topic-permissions/{vhost}/{user}/{exchange}", delete(delete_topic_permission))
        .route("/api/vhost-limits/{vhost}/{limit}", put(put_vhost_limit).delete(delete_vhost_limit))
        .route("/api/user-limits/{user}/{limit}", put(put_user_limit).delete(delete_user_limit))
        .route("/api/connections/{name}", delete(close_connection))
        .route("/api/connections/username/{user}", delete(close_connections_of_user))
        .route(
            "/api/parameters/{component}/{vhost}/{name}",
            get(no_parameter).put(refuse_parameter).delete(no_parameter),
        )
        .route("/api/global-parameters/{name}", get(no_parameter).put(refuse_global_parameter).delete(no_parameter));
    for (path, kind) in [("policies", PolicyKind::User), ("operator-policies", PolicyKind::Operator)] {
        let set = move |asker, source, path, policy| put_policy(asker, source, path, policy, kind);
        let clear = move |asker, source, path| delete_policy(asker, source, path, kind);
        router = router.route(&format!("/api/{path}/{{vhost}}/{{name}}"), put(set).delete(clear));
    }
    router
}

async fn export(asker: Asker, State(source): Shared) -> Answer {
    asker.administers()?;
    shown_text(sum_up(&source, &asker, |source| source.export().to_string()).await?)
}

async fn export_vhost(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.administers()?;
    if !source.broker.has_vhost(&vhost) {
        return Err(Failure::not_found());
    }
    shown_text(sum_up(&source, &asker, move |source| source.export_vhost(&vhost).to_string()).await?)
}

async fn refuse_protection(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    no_protection(asker, State(source), Path(vhost)).await?;
    Err(Failure::bad_request("protection of a vhost from deletion is not implemented yet"))
}

/// Vhosts can't be protected from deletion, so removing the protection succeeds.
async fn no_protection(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.administers()?;
    if source.broker.has_vhost(&vhost) { done() } else { Err(Failure::not_found()) }
}

/// The parameters of an import.
#[derive(Deserialize)]
struct Importing {
    #[serde(default, rename = "skip-unsupported")]
    skip_unsupported: bool,
    #[serde(default, rename = "dry-run")]
    dry_run: bool,
}

async fn import(
    asker: Asker,
    State(source): Shared,
    Parameters(how): Parameters<Importing>,
    request: Request,
) -> Answer {
    take_over(asker, source, None, how, request).await
}

async fn import_vhost(
    asker: Asker,
    State(source): Shared,
    Path(vhost): Path<String>,
    Parameters(how): Parameters<Importing>,
    request: Request,
) -> Answer {
    asker.administers()?;
    if !source.broker.has_vhost(&vhost) {
        return Err(Failure::not_found());
    }
    take_over(asker, source, Some(vhost), how, request).await
}

/// Only an administrator's document is read.
async fn take_over(
    asker: Asker,
    source: Arc<Source>,
    vhost: Option<String>,
    how: Importing,
    request: Request,
) -> Answer {
    asker.administers()?;
    let longest = usize::try_from(LONGEST_DEFINITIONS).unwrap_or(usize::MAX);
    let bytes = document::read(request, longest).await?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::bad_request("the document is not UTF-8"))?;
    let caller = asker.caller();
    let extent = if how.dry_run { Extent::DryRun } else { Extent::Whole };
    let work = move |source: &Source| {
        let import = Import { vhost: vhost.as_deref(), skip_unsupported: how.skip_unsupported, extent, caller };
        source.import(&text, &import)
    };
    let imported = blocking(&source, &asker, work).await?;
    match extent {
        Extent::Whole => done(),
        Extent::DryRun => shown(imported),
    }
}

/// The fields of a user that RabbitMQ knows. Others are ignored.
#[derive(Deserialize)]
struct UserBody {
    password: Option<String>,
    password_hash: Option<String>,
    #[serde(default)]
    hashing_algorithm: String,
    tags: Option<Words>,
}

impl UserBody {
    /// An empty hash means that there is no password.
    fn secret(&self) -> Result<Secret, Failure> {
        match (&self.password, self.password_hash.as_deref()) {
            (Some(_), Some(_)) => Err(Failure::bad_request("both_password_and_password_hash_are_provided")),
            (Some(password), None) if password.is_empty() => {
                Err(Failure::bad_request("a password may not be empty; give none for a user without one"))
            }
            (Some(password), None) => Ok(Secret::Password(password.clone())),
            (None, None | Some("")) => Ok(Secret::None),
            (None, Some(hash)) => {
                let imported = PasswordHash::import(&self.hashing_algorithm, hash);
                let hash = imported.map_err(|error| Failure::bad_request(error.to_string()))?;
                Ok(Secret::Hash(hash.as_str().to_owned()))
            }
        }
    }
}

async fn put_user(
    asker: Asker,
    State(source): Shared,
    Path(name): Path<String>,
    Document(user): Document<UserBody>,
) -> Answer {
    asker.administers()?;
    let secret = user.secret()?;
    let tags =
        user.tags.ok_or_else(|| Failure::bad_request("tags_not_present: give the user tags, or an empty list"))?;
    let was_there = source.broker.authority().user(&name).is_some();
    make(&source, &asker, Change::PutUser { name, secret, tags: tags.list() }).await?;
    if was_there { done() } else { created() }
}

async fn delete_user(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::DeleteUser { name }).await?;
    done()
}

#[derive(Deserialize)]
struct UserNames {
    users: Vec<String>,
}

/// As in RabbitMQ, a user that does not exist counts as deleted.
async fn delete_users(asker: Asker, State(source): Shared, Document(wanted): Document<UserNames>) -> Answer {
    asker.administers()?;
    for name in wanted.users {
        if source.broker.authority().user(&name).is_some() {
            make(&source, &asker, Change::DeleteUser { name }).await?;
        }
    }
    done()
}

#[derive(Deserialize)]
struct VhostBody {
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Words,
    #[serde(default, alias = "defaultqueuetype")]
    default_queue_type: Option<String>,
    #[serde(default, deserialize_with = "document::truth")]
    tracing: bool,
    #[serde(default, deserialize_with = "document::truth")]
    protected_from_deletion: bool,
}

/// As in RabbitMQ, the user that creates a vhost gets all permissions in it.
async fn put_vhost(
    asker: Asker,
    State(source): Shared,
    Path(name): Path<String>,
    Document(vhost): Document<VhostBody>,
) -> Answer {
    asker.administers()?;
    for (asked, what) in [(vhost.tracing, "tracing"), (vhost.protected_from_deletion, "protected_from_deletion")] {
        if asked {
            return Err(Failure::bad_request(format!("vhost '{name}': {what} is not built; leave it out, or false")));
        }
    }
    let was_there = source.broker.has_vhost(&name);
    let change = Change::PutVhost {
        name: name.clone(),
        description: Some(vhost.description),
        tags: Some(vhost.tags.list()),
        // RabbitMQ writes `undefined` if no type was chosen.
        default_queue_type: Some(vhost.default_queue_type.filter(|kind| kind != "undefined").unwrap_or_default()),
    };
    make(&source, &asker, change).await?;
    if !was_there {
        let [configure, write, read] = [".*"; 3].map(str::to_owned);
        let user = asker.user().to_owned();
        make(&source, &asker, Change::SetPermission { user, vhost: name, configure, write, read }).await?;
    }
    if was_there { done() } else { created() }
}

async fn delete_vhost(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::DeleteVhost { name }).await?;
    done()
}

#[derive(Deserialize)]
struct PermissionBody {
    configure: String,
    write: String,
    read: String,
}

async fn put_permission(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user)): Path<(String, String)>,
    Document(rights): Document<PermissionBody>,
) -> Answer {
    asker.administers()?;
    let was_there = rights_of(&source, &user, &vhost, |user| user.permissions.contains_key(vhost.as_str()))?;
    let PermissionBody { configure, write, read } = rights;
    make(&source, &asker, Change::SetPermission { user, vhost, configure, write, read }).await?;
    if was_there { done() } else { created() }
}

/// Whether `has` is true of a user's permissions in a vhost. A missing user or vhost is a fault of
/// the document, not of the path.
fn rights_of(source: &Source, name: &str, vhost: &str, has: impl Fn(&auth::User) -> bool) -> Result<bool, Failure> {
    let user = source.broker.authority().user(name).filter(|_| source.broker.has_vhost(vhost));
    let missing = || Failure::bad_request(format!("vhost_or_user_not_found: vhost '{vhost}', user '{name}'"));
    user.map(|user| has(&user)).ok_or_else(missing)
}

async fn delete_permission(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    if !rights_of(&source, &user, &vhost, |user| user.permissions.contains_key(vhost.as_str())).unwrap_or(false) {
        return Err(Failure::not_found());
    }
    make(&source, &asker, Change::ClearPermission { user, vhost }).await?;
    done()
}

#[derive(Deserialize)]
struct TopicPermissionBody {
    exchange: String,
    write: String,
    read: String,
}

async fn put_topic_permission(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user)): Path<(String, String)>,
    Document(rights): Document<TopicPermissionBody>,
) -> Answer {
    asker.administers()?;
    let TopicPermissionBody { exchange, write, read } = rights;
    let key = (vhost.as_str().into(), exchange.as_str().into());
    let was_there = rights_of(&source, &user, &vhost, |user| user.topic_permissions.contains_key(&key))?;
    make(&source, &asker, Change::SetTopicPermission { user, vhost, exchange, write, read }).await?;
    if was_there { done() } else { created() }
}

async fn delete_topic_permissions(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user)): Path<(String, String)>,
) -> Answer {
    clear_topics(asker, source, vhost, user, None).await
}

async fn delete_topic_permission(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user, exchange)): Path<(String, String, String)>,
) -> Answer {
    clear_topics(asker, source, vhost, user, Some(exchange)).await
}

async fn clear_topics(
    asker: Asker,
    source: Arc<Source>,
    vhost: String,
    user: String,
    exchange: Option<String>,
) -> Answer {
    asker.administers()?;
    let is_meant = |place: &str, name: &str| place == vhost && exchange.as_ref().is_none_or(|only| name == only);
    let has = |user: &auth::User| user.topic_permissions.keys().any(|(place, name)| is_meant(place, name));
    if !rights_of(&source, &user, &vhost, has).unwrap_or(false) {
        return Err(Failure::not_found());
    }
    make(&source, &asker, Change::ClearTopicPermission { user, vhost, exchange }).await?;
    done()
}

#[derive(Deserialize)]
struct LimitBody {
    value: i64,
}

impl LimitBody {
    /// A number below 0 means no limit.
    fn value<N: TryFrom<i64>>(&self) -> Result<Option<N>, Failure> {
        if self.value < 0 {
            return Ok(None);
        }
        let value = N::try_from(self.value);
        value
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("a limit of {} is beyond what can be had", self.value)))
    }
}

async fn put_vhost_limit(
    asker: Asker,
    State(source): Shared,
    Path((vhost, limit)): Path<(String, String)>,
    Document(body): Document<LimitBody>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetVhostLimit { vhost, limit, value: body.value()? }).await?;
    done()
}

async fn delete_vhost_limit(
    asker: Asker,
    State(source): Shared,
    Path((vhost, limit)): Path<(String, String)>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetVhostLimit { vhost, limit, value: None }).await?;
    done()
}

async fn put_user_limit(
    asker: Asker,
    State(source): Shared,
    Path((user, limit)): Path<(String, String)>,
    Document(body): Document<LimitBody>,
) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetUserLimit { user, limit, value: body.value()? }).await?;
    done()
}

async fn delete_user_limit(asker: Asker, State(source): Shared, Path((user, limit)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::SetUserLimit { user, limit, value: None }).await?;
    done()
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

async fn put_policy(
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

async fn delete_policy(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    kind: PolicyKind,
) -> Answer {
    sets(&asker, &source, &vhost, kind)?;
    make(&source, &asker, Change::ClearPolicy { operator: kind == PolicyKind::Operator, vhost, name }).await?;
    done()
}

async fn close_connection(asker: Asker, State(source): Shared, headers: HeaderMap, Path(name): Path<String>) -> Answer {
    let named = name.clone();
    let row = look(&source, &asker, move |source| listing::one(source, Listed::Connections, None, &named)).await?;
    let row = row.ok_or_else(Failure::not_found)?;
    if !asker.is_administrator() && row["user"] != asker.user() {
        return Err(Failure::forbidden());
    }
    let reason = reason(&headers);
    make(&source, &asker, Change::CloseConnections { id: None, name: Some(name), vhost: None, user: None, reason })
        .await?;
    done()
}

async fn close_connections_of_user(
    asker: Asker,
    State(source): Shared,
    headers: HeaderMap,
    Path(user): Path<String>,
) -> Answer {
    if !asker.is_administrator() && user != asker.user() {
        return Err(Failure::forbidden());
    }
    let reason = reason(&headers);
    make(&source, &asker, Change::CloseConnections { id: None, name: None, vhost: None, user: Some(user), reason })
        .await?;
    done()
}

fn reason(headers: &HeaderMap) -> String {
    let given = headers.get("x-reason").and_then(|reason| reason.to_str().ok());
    given.unwrap_or("Closed via management plugin").to_owned()
}

async fn no_parameter(_: Asker) -> Answer {
    Err(Failure::not_found())
}

async fn refuse_parameter(_: Asker, Path((component, _, name)): Path<(String, String, String)>) -> Answer {
    let reason = format!("Validation failed: component '{component}' of parameter '{name}' is not built");
    Err(Failure::bad_request(reason))
}

async fn refuse_global_parameter(_: Asker, Path(name): Path<String>) -> Answer {
    Err(Failure::bad_request(format!("Validation failed: nothing here reads the global parameter '{name}'")))
}
