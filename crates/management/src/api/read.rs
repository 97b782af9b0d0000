//! What can be looked at: lists, what of them is in a vhost or of a user, and single objects.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{MethodRouter, get};
use serde_json::{Value as Json, json};

use super::answer::{Answer, Failure, shown};
use super::asker::Asker;
use super::page::{self, Wanted};
use crate::listing::Listed;
use crate::source::Source;

/// Lists under their names.
const LISTS: [(&str, Listed); 14] = [
    ("connections", Listed::Connections),
    ("channels", Listed::Channels),
    ("users", Listed::Users),
    ("vhosts", Listed::Vhosts),
    ("permissions", Listed::Permissions),
    ("topic-permissions", Listed::TopicPermissions),
    ("vhost-limits", Listed::VhostLimits),
    ("user-limits", Listed::UserLimits),
    ("queues", Listed::Queues),
    ("exchanges", Listed::Exchanges),
    ("bindings", Listed::Bindings),
    ("consumers", Listed::Consumers),
    ("policies", Listed::Policies),
    ("operator-policies", Listed::OperatorPolicies),
];

/// What of a list is in the vhost that a path names.
const IN_VHOST: [(&str, Listed); 11] = [
    ("queues/{vhost}", Listed::Queues),
    ("exchanges/{vhost}", Listed::Exchanges),
    ("bindings/{vhost}", Listed::Bindings),
    ("consumers/{vhost}", Listed::Consumers),
    ("policies/{vhost}", Listed::Policies),
    ("operator-policies/{vhost}", Listed::OperatorPolicies),
    ("vhost-limits/{vhost}", Listed::VhostLimits),
    ("vhosts/{vhost}/connections", Listed::Connections),
    ("vhosts/{vhost}/channels", Listed::Channels),
    ("vhosts/{vhost}/permissions", Listed::Permissions),
    ("vhosts/{vhost}/topic-permissions", Listed::TopicPermissions),
];

/// What of a list is of the user that a path names.
const OF_USER: [(&str, Listed); 4] = [
    ("user-limits/{user}", Listed::UserLimits),
    ("users/{user}/permissions", Listed::Permissions),
    ("users/{user}/topic-permissions", Listed::TopicPermissions),
    ("connections/username/{user}", Listed::Connections),
];

/// Single objects by their names, and by their vhosts where they have one.
const NAMED: [(&str, Listed); 4] = [
    ("vhosts/{name}", Listed::Vhosts),
    ("users/{name}", Listed::Users),
    ("connections/{name}", Listed::Connections),
    ("channels/{name}", Listed::Channels),
];
const NAMED_IN_VHOST: [(&str, Listed); 4] = [
    ("queues/{vhost}/{name}", Listed::Queues),
    ("exchanges/{vhost}/{name}", Listed::Exchanges),
    ("policies/{vhost}/{name}", Listed::Policies),
    ("operator-policies/{vhost}/{name}", Listed::OperatorPolicies),
];

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    let mut router = Router::new();
    for (path, what) in LISTS {
        router = both(router, path, get(move |asker, source, wanted| all(asker, source, wanted, what)));
    }
    for (path, what) in IN_VHOST {
        router =
            both(router, path, get(move |asker, source, path, wanted| in_vhost(asker, source, path, wanted, what)));
    }
    for (path, what) in OF_USER {
        router = both(router, path, get(move |asker, source, path, wanted| of_user(asker, source, path, wanted, what)));
    }
    for (path, what) in NAMED {
        router = router.route(&format!("/api/{path}"), get(move |asker, source, path| one(asker, source, path, what)));
    }
    for (path, what) in NAMED_IN_VHOST {
        let one = move |asker, source, path| one_in_vhost(asker, source, path, what);
        router = router.route(&format!("/api/{path}"), get(one));
    }
    router
        .route("/api/permissions/{vhost}/{user}", get(permission))
        .route("/api/topic-permissions/{vhost}/{user}", get(topic_permission))
        .route("/api/users/without-permissions", get(without_permissions))
        .route("/api/connections/{name}/channels", get(channels_of_connection))
        .route("/api/queues/{vhost}/{name}/bindings", get(bindings_of_queue))
        .route("/api/exchanges/{vhost}/{name}/bindings/{end}", get(bindings_of_exchange))
        .route("/api/parameters", get(none))
        .route("/api/parameters/{component}", get(none))
        .route("/api/parameters/{component}/{vhost}", get(none))
        .route("/api/global-parameters", get(none))
        .route("/api/shovels", get(none))
        .route("/api/shovels/{vhost}", get(none))
        .route("/api/federation-links", get(none))
        .route("/api/federation-links/{vhost}", get(none))
}

/// Clients write a list's path with a slash at its end and without.
fn both(router: Router<Arc<Source>>, path: &str, what: MethodRouter<Arc<Source>>) -> Router<Arc<Source>> {
    router.route(&format!("/api/{path}"), what.clone()).route(&format!("/api/{path}/"), what)
}

/// The rows that this user sees, and that have these fields.
pub(super) fn select(
    asker: &Asker,
    source: &Source,
    what: Listed,
    vhost: Option<&str>,
    fields: &[(&str, &str)],
) -> Result<Vec<Json>, Failure> {
    asker.may_list(what)?;
    let mut rows = source.list(what, vhost);
    rows.retain(|row| fields.iter().all(|(name, value)| row[*name] == *value) && asker.sees(source, what, row));
    Ok(rows)
}

/// The only row of several fields.
fn only(rows: Vec<Json>) -> Answer {
    rows.into_iter().next().map_or_else(|| Err(Failure::not_found()), shown)
}

async fn all(asker: Asker, State(source): Shared, wanted: Wanted, what: Listed) -> Answer {
    page::rows(select(&asker, &source, what, None, &[])?, &wanted)
}

async fn in_vhost(
    asker: Asker,
    State(source): Shared,
    Path(vhost): Path<String>,
    wanted: Wanted,
    what: Listed,
) -> Answer {
    if !source.broker.has_vhost(&vhost) {
        return Err(Failure::not_found());
    }
    page::rows(select(&asker, &source, what, Some(&vhost), &[])?, &wanted)
}

async fn of_user(
    asker: Asker,
    State(source): Shared,
    Path(user): Path<String>,
    wanted: Wanted,
    what: Listed,
) -> Answer {
    let rows = select(&asker, &source, what, None, &[("user", &user)])?;
    if !asker.monitors() && asker.user() != user {
        return Err(Failure::forbidden());
    }
    if source.broker.authority().user(&user).is_none() {
        return Err(Failure::not_found());
    }
    page::rows(rows, &wanted)
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>, what: Listed) -> Answer {
    named(&asker, &source, what, None, &name)
}

async fn one_in_vhost(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    what: Listed,
) -> Answer {
    named(&asker, &source, what, Some(&vhost), &name)
}

/// Tells what is not there from what this user does not see.
fn named(asker: &Asker, source: &Source, what: Listed, vhost: Option<&str>, name: &str) -> Answer {
    asker.may_list(what)?;
    let name = exchange_name(what, name);
    match source.list(what, vhost).into_iter().find(|row| row["name"] == name) {
        None => Err(Failure::not_found()),
        Some(row) if asker.sees(source, what, &row) => shown(row),
        Some(_) => Err(Failure::forbidden()),
    }
}

/// The default exchange has no name of its own, and one in paths.
pub(super) fn exchange_name(what: Listed, name: &str) -> &str {
    if what == Listed::Exchanges && name == "amq.default" { "" } else { name }
}

async fn permission(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    only(select(&asker, &source, Listed::Permissions, Some(&vhost), &[("user", &user)])?)
}

/// One for each exchange.
async fn topic_permission(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    let rows = select(&asker, &source, Listed::TopicPermissions, Some(&vhost), &[("user", &user)])?;
    if rows.is_empty() { Err(Failure::not_found()) } else { shown(rows) }
}

async fn without_permissions(asker: Asker, State(source): Shared) -> Answer {
    let mut users = select(&asker, &source, Listed::Users, None, &[])?;
    let permissions = source.list(Listed::Permissions, None);
    users.retain(|user| !permissions.iter().any(|row| row["user"] == user["name"]));
    shown(users)
}

async fn channels_of_connection(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let mut rows = select(&asker, &source, Listed::Channels, None, &[])?;
    rows.retain(|row| row["connection_details"]["name"] == name);
    shown(rows)
}

async fn bindings_of_queue(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    wanted: Wanted,
) -> Answer {
    named(&asker, &source, Listed::Queues, Some(&vhost), &name)?;
    let fields = [("destination_type", "queue"), ("destination", name.as_str())];
    page::rows(select(&asker, &source, Listed::Bindings, Some(&vhost), &fields)?, &wanted)
}

async fn bindings_of_exchange(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name, end)): Path<(String, String, String)>,
    wanted: Wanted,
) -> Answer {
    named(&asker, &source, Listed::Exchanges, Some(&vhost), &name)?;
    let name = exchange_name(Listed::Exchanges, &name);
    let fields = match end.as_str() {
        "source" => vec![("source", name)],
        "destination" => vec![("destination_type", "exchange"), ("destination", name)],
        _ => return Err(Failure::not_found()),
    };
    page::rows(select(&asker, &source, Listed::Bindings, Some(&vhost), &fields)?, &wanted)
}

/// There are no shovels, no federation, and so no parameters of them.
async fn none(_: Asker) -> Answer {
    shown(json!([]))
}
