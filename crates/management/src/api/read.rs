//! What can be read: whole lists, the part of a list in a vhost or of a user, and single objects.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::{MethodRouter, get};
use serde_json::{Value as Json, json};

use super::answer::{Answer, Failure, shown};
use super::asker::Asker;
use super::page::{self, Shape, Wanted};
use super::{list, look, sum_up};
use crate::listing::{self, Listed};
use crate::source::Source;

/// Lists by their names.
const LISTS: [(&str, Listed); 15] = [
    ("connections", Listed::Connections),
    ("channels", Listed::Channels),
    ("users", Listed::Users),
    ("vhosts", Listed::Vhosts),
    ("permissions", Listed::Permissions),
    ("topic-permissions", Listed::TopicPermissions),
    ("vhost-limits", Listed::VhostLimits),
    ("user-limits", Listed::UserLimits),
    ("queues", Listed::Queues),
    ("queues/detailed", Listed::Queues),
    ("exchanges", Listed::Exchanges),
    ("bindings", Listed::Bindings),
    ("consumers", Listed::Consumers),
    ("policies", Listed::Policies),
    ("operator-policies", Listed::OperatorPolicies),
];

/// The part of a list that is in the vhost of a path.
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

/// The part of a list that belongs to the user of a path.
const OF_USER: [(&str, Listed); 4] = [
    ("user-limits/{user}", Listed::UserLimits),
    ("users/{user}/permissions", Listed::Permissions),
    ("users/{user}/topic-permissions", Listed::TopicPermissions),
    ("connections/username/{user}", Listed::Connections),
];

/// Single objects by name, and by vhost if they are in one.
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

/// Registers a path with and without a slash at its end, because clients write both.
fn both(router: Router<Arc<Source>>, path: &str, what: MethodRouter<Arc<Source>>) -> Router<Arc<Source>> {
    router.route(&format!("/api/{path}"), what.clone()).route(&format!("/api/{path}/"), what)
}

/// The rows of a short list that this user sees and that have these fields.
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

/// The first of these rows, which is the only one; 404 if there is none.
fn only(rows: Vec<Json>) -> Answer {
    rows.into_iter().next().map_or_else(|| Err(Failure::not_found()), shown)
}

async fn all(asker: Asker, State(source): Shared, Query(wanted): Wanted, what: Listed) -> Answer {
    list::answer(asker, source, what, None, Vec::new(), Shape::parse(&wanted)?).await
}

async fn in_vhost(
    asker: Asker,
    State(source): Shared,
    Path(vhost): Path<String>,
    Query(wanted): Wanted,
    what: Listed,
) -> Answer {
    asker.may_list(what)?;
    asker.looks_into(&source, &vhost)?;
    list::answer(asker, source, what, Some(vhost), Vec::new(), Shape::parse(&wanted)?).await
}

async fn of_user(
    asker: Asker,
    State(source): Shared,
    Path(user): Path<String>,
    Query(wanted): Wanted,
    what: Listed,
) -> Answer {
    asker.may_list(what)?;
    if !asker.monitors() && asker.user() != user {
        return Err(Failure::forbidden());
    }
    if source.broker.authority().user(&user).is_none() {
        return Err(Failure::not_found());
    }
    list::answer(asker, source, what, None, vec![("user", user)], Shape::parse(&wanted)?).await
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>, what: Listed) -> Answer {
    let row = look(&source, &asker.clone(), move |source| named(&asker, source, what, None, &name)).await?;
    shown(row?)
}

async fn one_in_vhost(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    what: Listed,
) -> Answer {
    let row = look(&source, &asker.clone(), move |source| named(&asker, source, what, Some(&vhost), &name)).await?;
    shown(row?)
}

/// The object of this name, if this user sees it. A user that may not enter a vhost is told nothing
/// of its contents.
fn named(asker: &Asker, source: &Source, what: Listed, vhost: Option<&str>, name: &str) -> Result<Json, Failure> {
    asker.may_list(what)?;
    if let Some(vhost) = vhost {
        asker.looks_into(source, vhost)?;
    }
    match listing::one(source, what, vhost, exchange_name(what, name)) {
        Some(row) if asker.sees(source, what, &row) => Ok(row),
        None if asker.monitors() || vhost.is_some() => Err(Failure::not_found()),
        // A missing object and another user's object get the same answer.
        Some(_) | None => Err(Failure::forbidden()),
    }
}

/// The default exchange has an empty name; in paths it is `amq.default`.
pub(super) fn exchange_name(what: Listed, name: &str) -> &str {
    if what == Listed::Exchanges && name == "amq.default" { "" } else { name }
}

async fn permission(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        select(&asker, source, Listed::Permissions, Some(&vhost), &[("user", &user)])
    })
    .await?;
    only(rows?)
}

/// One row for each exchange.
async fn topic_permission(asker: Asker, State(source): Shared, Path((vhost, user)): Path<(String, String)>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        select(&asker, source, Listed::TopicPermissions, Some(&vhost), &[("user", &user)])
    })
    .await??;
    if rows.is_empty() { Err(Failure::not_found()) } else { shown(rows) }
}

async fn without_permissions(asker: Asker, State(source): Shared) -> Answer {
    let users = sum_up(&source, &asker.clone(), move |source| {
        let mut users = select(&asker, source, Listed::Users, None, &[])?;
        let permissions = source.list(Listed::Permissions, None);
        let known: HashSet<&str> = permissions.iter().filter_map(|row| row["user"].as_str()).collect();
        users.retain(|user| user["name"].as_str().is_some_and(|name| !known.contains(name)));
        Ok::<_, Failure>(users)
    })
    .await?;
    shown(users?)
}

async fn channels_of_connection(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let rows = look(&source, &asker.clone(), move |source| {
        let mut rows = listing::channels_of(source, &name);
        rows.retain(|row| asker.sees(source, Listed::Channels, row));
        rows
    })
    .await?;
    shown(rows)
}

async fn bindings_of_queue(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Query(wanted): Wanted,
) -> Answer {
    let rows = sum_up(&source, &asker.clone(), move |source| {
        named(&asker, source, Listed::Queues, Some(&vhost), &name)?;
        Ok::<_, Failure>(listing::bindings_to_queue(source, &vhost, &name))
    })
    .await?;
    page::rows(rows?, &wanted)
}

async fn bindings_of_exchange(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name, end)): Path<(String, String, String)>,
    Query(wanted): Wanted,
) -> Answer {
    let shape = Shape::parse(&wanted)?;
    let (seer, at, named_so) = (asker.clone(), vhost.clone(), name.clone());
    look(&source, &asker, move |source| named(&seer, source, Listed::Exchanges, Some(&at), &named_so)).await??;
    let name = exchange_name(Listed::Exchanges, &name).to_owned();
    match end.as_str() {
        "source" => list::answer(asker, source, Listed::Bindings, Some(vhost), vec![("source", name)], shape).await,
        "destination" => {
            let rows =
                sum_up(&source, &asker, move |source| listing::bindings_to_exchange(source, &vhost, &name)).await?;
            page::rows(rows, &wanted)
        }
        _ => Err(Failure::not_found()),
    }
}

/// Hermod has no shovels and no federation, and so no parameters of them.
async fn none(_: Asker) -> Answer {
    shown(json!([]))
}
