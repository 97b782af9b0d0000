//! The table of all operations: method, path, meaning, document and answer of each, and its route.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::{Map, Value as Json, json};

use super::field::{Kind, Member};
use super::rows::{
    AUDIT, BINDINGS, CONNECTIONS, CONSUMERS, ENDINGS, EXCHANGES, LOG, OPERATOR_POLICIES, OVERVIEW, POLICIES, QUEUES,
    RETAINED, SUBSCRIPTIONS, USERS, VHOSTS, WILLS,
};
use super::{cluster, export, list};
use crate::api::{Answer, Asker, Failure, Shared, done, look, make, shown, sum_up};
use crate::resources::{ConnectionChange, native as changes};
use crate::source::{Source, alarms};

/// See the module.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Below the prefix of this API.
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// The members of the request's document.
    pub(super) takes: &'static [Member],
    pub(super) answers: Answers,
    pub(super) route: fn() -> MethodRouter<Arc<Source>>,
}

/// What an operation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// A page of things of this resource.
    Page(&'static str),
    /// One of them.
    One(&'static str),
    /// A line of JSON for each thing with this schema.
    Lines(&'static str),
    /// Nothing: the status says all.
    Nothing,
    /// This document.
    Document,
}

const fn read(
    path: &'static str,
    about: &'static str,
    answers: Answers,
    route: fn() -> MethodRouter<Arc<Source>>,
) -> Operation {
    Operation { method: "get", path, about, takes: &[], answers, route }
}

const fn set(
    path: &'static str,
    about: &'static str,
    takes: &'static [Member],
    route: fn() -> MethodRouter<Arc<Source>>,
) -> Operation {
    Operation { method: "put", path, about, takes, answers: Answers::Nothing, route }
}

const fn remove(path: &'static str, about: &'static str, route: fn() -> MethodRouter<Arc<Source>>) -> Operation {
    Operation { method: "delete", path, about, takes: &[], answers: Answers::Nothing, route }
}

const fn member(name: &'static str, kind: Kind, about: &'static str) -> Member {
    Member { name, kind, about }
}

const POLICY: &[Member] = &[
    member("pattern", Kind::Text, "What names must match"),
    member("definition", Kind::Object, "What it sets"),
    member("priority", Kind::Number, "The highest applies; 0 by default"),
    member("apply_to", Kind::Text, "The kinds of things that it applies to; all by default"),
];

/// All operations.
pub(super) static OPERATIONS: &[Operation] = &[
    read("/health", "Whether clients are served, and publishers not stopped", Answers::Document, || get(health)),
    read("/overview", "Sums over everything", Answers::Document, || get(overview)),
    read("/cluster", "What this node is to others: it leads, or follows one", Answers::One("cluster"), || {
        get(cluster::show)
    }),
    Operation {
        method: "post",
        path: "/cluster/promote",
        about: "Has a standby serve from now on, for administrators",
        takes: &[
            member("planned", Kind::Truth, "The leader stops first and sends everything, so that nothing is lost"),
            member("accept_loss", Kind::Truth, "Promote at once, although what the leader has taken since is lost"),
        ],
        answers: Answers::One("promotion"),
        route: || post(cluster::refuse),
    },
    read("/queues", "Queues", Answers::Page("queues"), || list::route(&QUEUES)),
    read("/queues/{vhost}/{name}", "A queue", Answers::One("queues"), || QUEUES.one()),
    set(
        "/queues/{vhost}/{name}",
        "Declares a queue",
        &[
            member("durable", Kind::Truth, "It survives a restart"),
            member("auto_delete", Kind::Truth, "It goes with its last consumer"),
            member("arguments", Kind::Object, "Its arguments"),
        ],
        || put(changes::put_queue),
    ),
    remove("/queues/{vhost}/{name}", "Deletes a queue with its messages", || delete(changes::delete_queue)),
    read(
        "/queues/{vhost}/{name}/messages",
        "The messages that wait in a queue, none of which is taken",
        Answers::Lines("messages"),
        || get(export::messages),
    ),
    remove("/queues/{vhost}/{name}/messages", "Drops the messages that wait in a queue", || {
        delete(changes::purge_queue)
    }),
    read("/exchanges", "Exchanges", Answers::Page("exchanges"), || list::route(&EXCHANGES)),
    read("/exchanges/{vhost}/{name}", "An exchange", Answers::One("exchanges"), || EXCHANGES.one()),
    set(
        "/exchanges/{vhost}/{name}",
        "Declares an exchange",
        &[
            member("type", Kind::Text, "How it routes; direct by default"),
            member("durable", Kind::Truth, "It survives a restart"),
            member("auto_delete", Kind::Truth, "It goes with its last binding"),
            member("internal", Kind::Truth, "Clients can't publish to it"),
            member("arguments", Kind::Object, "Its arguments"),
        ],
        || put(changes::put_exchange),
    ),
    remove("/exchanges/{vhost}/{name}", "Deletes an exchange", || delete(changes::delete_exchange)),
    read("/bindings", "Bindings", Answers::Page("bindings"), || list::route(&BINDINGS)),
    read("/connections", "Connections", Answers::Page("connections"), || list::route(&CONNECTIONS)),
    read("/connections/{number}", "A connection", Answers::One("connections"), || CONNECTIONS.one()),
    remove("/connections/{number}", "Closes a connection", || delete(close)),
    read("/endings", "The last connections that ended, and why", Answers::Page("endings"), || list::route(&ENDINGS)),
    read("/consumers", "Consumers", Answers::Page("consumers"), || list::route(&CONSUMERS)),
    read("/subscriptions", "Subscriptions", Answers::Page("subscriptions"), || list::route(&SUBSCRIPTIONS)),
    read("/subscriptions/{vhost}/{queue}", "A subscription", Answers::One("subscriptions"), || SUBSCRIPTIONS.one()),
    remove(
        "/subscriptions/{vhost}/{queue}",
        "Ends a subscription with its queue and all that this keeps",
        changes::remove_subscription,
    ),
    read("/retained", "Retained messages", Answers::Page("retained"), || list::route(&RETAINED)),
    read("/retained/{vhost}/{exchange}/{topic}", "A retained message", Answers::One("retained"), || RETAINED.one()),
    remove(
        "/retained/{vhost}/{exchange}/{topic}",
        "Removes a retained message; its subscribers are not told",
        changes::remove_retained,
    ),
    read("/wills", "Wills", Answers::Page("wills"), || list::route(&WILLS)),
    read("/wills/{vhost}/{user}/{client}", "A will", Answers::One("wills"), || WILLS.one()),
    remove("/wills/{vhost}/{user}/{client}", "Removes a will; it is not published", changes::remove_will),
    read("/vhosts", "Vhosts", Answers::Page("vhosts"), || list::route(&VHOSTS)),
    read("/vhosts/{name}", "A vhost", Answers::One("vhosts"), || VHOSTS.one()),
    set(
        "/vhosts/{name}",
        "Adds a vhost or changes it",
        &[
            member("description", Kind::Text, "Its purpose"),
            member("tags", Kind::Words, "Words to find it by"),
            member("default_queue_type", Kind::Text, "The type of queues that are declared without one"),
            member("tracing", Kind::Truth, "Copies of its messages go to amq.rabbitmq.trace"),
        ],
        || put(changes::put_vhost),
    ),
    remove("/vhosts/{name}", "Deletes a vhost with everything in it", || delete(changes::delete_vhost)),
    read("/users", "Users", Answers::Page("users"), || list::route(&USERS)),
    read("/users/{name}", "A user", Answers::One("users"), || USERS.one()),
    set(
        "/users/{name}",
        "Adds a user or changes it",
        &[
            member("password", Kind::Text, "Its password"),
            member("password_hash", Kind::Text, "Its hash, in place of the password"),
            member("hashing_algorithm", Kind::Text, "How that was made"),
            member("tags", Kind::Words, "What it may see and do"),
            member("roles", Kind::Words, "Users whose permissions it has, too"),
        ],
        || put(changes::put_user),
    ),
    remove("/users/{name}", "Deletes a user and closes its connections", || delete(changes::delete_user)),
    read("/policies", "Policies", Answers::Page("policies"), || list::route(&POLICIES)),
    read("/policies/{vhost}/{name}", "A policy", Answers::One("policies"), || POLICIES.one()),
    set("/policies/{vhost}/{name}", "Sets a policy", POLICY, changes::put_policy),
    remove("/policies/{vhost}/{name}", "Clears a policy", changes::clear_policy),
    read("/operator-policies", "Operator policies", Answers::Page("operator-policies"), || {
        list::route(&OPERATOR_POLICIES)
    }),
    read("/operator-policies/{vhost}/{name}", "An operator policy", Answers::One("operator-policies"), || {
        OPERATOR_POLICIES.one()
    }),
    read("/log", "The last lines of the log, for administrators", Answers::Page("log"), || list::route(&LOG)),
    read("/audit", "The last entries of the audit log, for administrators", Answers::Page("audit"), || {
        list::route(&AUDIT)
    }),
];

/// The ETag of the thing with these names below this path, if the user sees it.
pub(super) fn tag_at(path: &str, source: &Source, asker: &Asker, names: &[String]) -> Option<String> {
    match path.split('/').nth(1)? {
        "queues" => QUEUES.tag(source, asker, names),
        "exchanges" => EXCHANGES.tag(source, asker, names),
        "connections" => CONNECTIONS.tag(source, asker, names),
        "vhosts" => VHOSTS.tag(source, asker, names),
        "subscriptions" => SUBSCRIPTIONS.tag(source, asker, names),
        "retained" => RETAINED.tag(source, asker, names),
        "wills" => WILLS.tag(source, asker, names),
        "users" => USERS.tag(source, asker, names),
        "policies" => POLICIES.tag(source, asker, names),
        _ => None,
    }
}

/// It is told to everybody, as the other health checks are.
async fn health(State(source): Shared) -> Answer {
    let alarms = alarms(source.broker.alarms());
    let ready = source.is_ready();
    shown(json!({ "ready": ready, "writable": ready && alarms.is_empty(), "alarms": alarms }))
}

async fn overview(asker: Asker, State(source): Shared) -> Answer {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    let overview = sum_up(&source, &asker, |source| source.broker.overview()).await?;
    let facts = &source.facts;
    let named = [
        ("version", json!(facts.version)),
        ("node", json!(facts.node)),
        ("cluster", json!(source.broker.cluster_name())),
        ("durability", json!(facts.durability)),
        ("uptime_seconds", json!(facts.started.elapsed().as_secs())),
    ];
    let figures = OVERVIEW.iter().map(|field| (field.name, (field.read)(&overview)));
    let fields = named.into_iter().chain(figures).map(|(name, value)| (name.to_owned(), value));
    shown(Json::Object(fields.collect::<Map<_, _>>()))
}

async fn close(asker: Asker, State(source): Shared, Path(number): Path<String>) -> Answer {
    let number: u64 = number.parse().map_err(|_| Failure::not_found())?;
    let client = look(&source, &asker, move |source| source.broker.attached_at(number)).await?;
    let is_seen = |user: &str| asker.monitors() || asker.user() == user;
    let client = client.filter(|client| is_seen(client.user())).ok_or_else(Failure::not_found)?;
    if !asker.is_administrator() && client.user() != asker.user() {
        return Err(Failure::forbidden());
    }
    let reason = "closed by an operator".to_owned();
    make(&source, &asker, ConnectionChange::Close { id: Some(number), name: None, vhost: None, user: None, reason })
        .await?;
    done()
}
