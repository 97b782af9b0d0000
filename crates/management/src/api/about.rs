//! The broker as a whole: the user that asks, sums over everything, and the one node that Hermod is
//! in RabbitMQ's words.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post, put};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, Overview, Share};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::answer::{Answer, Failure, done, shown};
use super::asker::Asker;
use super::document::Document;
use super::sum_up;
use crate::change::{Refused, Why};
use crate::listing::{endpoint, queue_traffic};
use crate::memory::Memory;
use crate::process::Process;
use crate::source::{Source, delivered};

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/whoami", get(whoami))
        .route("/api/version", get(async |State(source): State<Arc<Source>>| source.facts.compat_version.clone()))
        .route("/api/overview", get(overview))
        .route("/api/cluster-name", get(cluster_name).put(refuse_cluster_name))
        .route("/api/cluster-name/", get(cluster_name).put(refuse_cluster_name))
        .route("/api/nodes", get(async |asker, source| shown([node(asker, source).await?])))
        .route("/api/nodes/{name}", get(one_node))
        .route("/api/nodes/{name}/memory", get(memory))
        .route("/api/nodes/{name}/memory/relative", get(memory_shares))
        .route("/api/auth/hash_password/{password}", get(hash_password))
        .route("/api/auth/attempts/{node}", get(attempts))
        .route("/api/extensions", get(async |_: Asker| shown(json!([]))))
        .route("/api/feature-flags", get(feature_flags))
        .route("/api/feature-flags/{name}/enable", put(enable))
        .route("/api/deprecated-features", get(async |_: Asker| shown(json!([]))))
        .route("/api/deprecated-features/used", get(async |_: Asker| shown(json!([]))))
        .route("/api/rebalance/queues", post(rebalance))
}

async fn whoami(asker: Asker) -> Answer {
    let tags: Vec<&str> = asker.identity().tags().iter().collect();
    shown(json!({ "name": asker.user(), "tags": tags, "is_internal_user": true }))
}

async fn cluster_name(_: Asker, State(source): State<Arc<Source>>) -> Answer {
    shown(json!({ "name": source.facts.cluster }))
}

#[derive(Deserialize)]
struct ClusterName {
    name: String,
}

/// Setting the name that the cluster already has succeeds without a change.
async fn refuse_cluster_name(
    asker: Asker,
    State(source): State<Arc<Source>>,
    Document(wanted): Document<ClusterName>,
) -> Answer {
    asker.administers()?;
    let name = &source.facts.cluster;
    if wanted.name == *name {
        return done();
    }
    let text = format!("the cluster is called '{name}'; for '{}' set cluster_name and start again", wanted.name);
    Err(Failure::bad_request(text))
}

async fn feature_flags(_: Asker, State(source): State<Arc<Source>>) -> Answer {
    let flag = |(name, about)| {
        json!({
            "name": name,
            "desc": about,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "hermod",
        })
    };
    shown(crate::features::feature_flags(&source.facts.product).map(flag).collect::<Vec<_>>())
}

async fn enable(asker: Asker, Path(name): Path<String>, State(source): State<Arc<Source>>) -> Answer {
    asker.administers()?;
    let known = crate::features::feature_flags(&source.facts.product).any(|(known, _)| known == name);
    known.then_some(()).ok_or_else(|| Failure::bad_request(format!("there is no feature flag '{name}'")))?;
    done()
}

/// A single node needs no rebalancing.
async fn rebalance(asker: Asker) -> Answer {
    asker.administers()?;
    done()
}

async fn one_node(asker: Asker, Path(name): Path<String>, source: State<Arc<Source>>) -> Answer {
    let is_known = source.facts.is_called(&name);
    let node = node(asker, source).await?;
    if is_known { shown(node) } else { Err(Failure::not_found()) }
}

/// What takes the memory of this node.
async fn memory(asker: Asker, Path(name): Path<String>, State(source): State<Arc<Source>>) -> Answer {
    this_node(&asker, &source, &name)?;
    let memory = sum_up(&source, &asker, |source| Memory::of(&source.broker.overview(), Process::look())).await?;
    shown(memory.document())
}

async fn memory_shares(asker: Asker, Path(name): Path<String>, State(source): State<Arc<Source>>) -> Answer {
    this_node(&asker, &source, &name)?;
    let memory = sum_up(&source, &asker, |source| Memory::of(&source.broker.overview(), Process::look())).await?;
    shown(memory.shares())
}

/// Fails if the user may not see the node, or if the name is another node's.
fn this_node(asker: &Asker, source: &Source, name: &str) -> Result<(), Failure> {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    source.facts.is_called(name).then_some(()).ok_or_else(Failure::not_found)
}

/// The hash that RabbitMQ would store for a password, for definitions and `PUT users/NAME`.
async fn hash_password(_: Asker, Path(password): Path<String>) -> Answer {
    let mut salt = [0; 4];
    getrandom::fill(&mut salt).map_err(|error| {
        Failure::from(Refused::new(Why::Failed, format!("the system gives no random bytes: {error}")))
    })?;
    let digest = Sha256::new().chain_update(salt).chain_update(password.as_bytes()).finalize();
    shown(json!({ "ok": STANDARD.encode([&salt[..], &digest[..]].concat()) }))
}

/// Log-ins since the start; they are not counted by protocol.
async fn attempts(asker: Asker, Path(name): Path<String>, State(source): State<Arc<Source>>) -> Answer {
    this_node(&asker, &source, &name)?;
    let counts = source.broker.authority().login_counts();
    let failed = counts.refused + counts.throttled;
    shown([json!({
        "protocol": "all",
        "auth_attempts": counts.succeeded + failed,
        "auth_attempts_succeeded": counts.succeeded,
        "auth_attempts_failed": failed,
    })])
}

async fn node(asker: Asker, State(source): State<Arc<Source>>) -> Result<Json, Failure> {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    let (overview, process) = sum_up(&source, &asker, |source| (source.broker.overview(), Process::look())).await?;
    let facts = &source.facts;
    let (sockets, sockets_total) = (source.count_sockets(), source.broker.limits().connections);
    let mut node = json!({
        "name": facts.node,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": std::process::id().to_string(),
        "uptime": u64::try_from(facts.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "rates_mode": "basic",
        "partitions": [],
        "cluster_links": [],
        "applications": [],
        "enabled_plugins": [],
        "exchange_types": exchange_types(),
        "db_dir": facts.data_dir,
        "mem_limit": overview.memory_limit,
        "mem_alarm": overview.memory_alarm,
        "disk_free": overview.journal.free_bytes,
        "disk_free_alarm": overview.disk_alarm,
        "sockets_used": sockets,
        "sockets_total": sockets_total,
        "proc_used": 0,
        // rabbitmqadmin can't read a node without these fields. Hermod has no Erlang processes, and
        // no threshold of free disk space that raises an alarm.
        "run_queue": 0,
        "proc_total": 0,
        "disk_free_limit": 0,
    });
    let known =
        [("mem_used", process.resident_bytes), ("fd_used", process.open_files), ("fd_total", process.max_files)];
    let known = known.into_iter().filter_map(|(name, figure)| Some((name, figure?)));
    for (name, figure) in known.chain(churn(&overview)) {
        node[name] = json!(figure);
    }
    Ok(node)
}

/// How many objects were created and removed since the start.
fn churn(overview: &Overview) -> [(&'static str, u64); 7] {
    [
        ("connection_created", overview.connections_opened),
        ("connection_closed", overview.connections_closed),
        ("channel_created", overview.sessions_opened),
        ("channel_closed", overview.sessions_closed),
        ("queue_declared", overview.queues_declared),
        ("queue_created", overview.queues_created),
        ("queue_deleted", overview.queues_deleted),
    ]
}

fn exchange_types() -> Vec<Json> {
    Broker::exchange_types().map(|name| json!({ "name": name, "enabled": true })).collect()
}

async fn overview(asker: Asker, State(source): State<Arc<Source>>) -> Answer {
    let facts = &source.facts;
    let mut document = json!({
        "product_name": facts.product,
        "product_version": facts.compat_version,
        "management_version": facts.compat_version,
        "rabbitmq_version": facts.compat_version,
        "hermod_version": facts.version,
        "cluster_name": facts.cluster,
        "node": facts.node,
        "rates_mode": "basic",
        "disable_stats": false,
        "enable_queue_totals": true,
        "default_queue_type": "classic",
        "exchange_types": exchange_types(),
    });
    let sums = if asker.monitors() {
        sums_of_all(&source, &sum_up(&source, &asker, |source| source.broker.overview()).await?)
    } else {
        let (identity, user) = (asker.identity().clone(), asker.user().to_owned());
        let share = move |source: &Source| {
            let authority = source.broker.authority();
            source.broker.share(&user, |vhost| authority.enter(&identity, vhost).is_ok())
        };
        sums_of(&sum_up(&source, &asker, share).await?)
    };
    if let (Json::Object(document), Json::Object(sums)) = (&mut document, sums) {
        document.extend(sums);
    }
    if let Some(Json::Object(stats)) = document.get_mut("message_stats") {
        let of = if asker.monitors() { String::new() } else { format!(" of {}", asker.user()) };
        source.rates.add(&format!("overview{of}"), stats, Instant::now());
    }
    shown(document)
}

/// Sums over everything, for users that may see everything.
fn sums_of_all(source: &Source, overview: &Overview) -> Json {
    let facts = &source.facts;
    let listeners = facts.listeners.iter().map(|listener| {
        let (address, port) = endpoint(&listener.address);
        json!({ "node": facts.node, "protocol": listener.protocol, "ip_address": address, "port": port })
    });
    json!({
        "object_totals": {
            "connections": overview.connections,
            "channels": overview.sessions,
            "consumers": overview.consumers,
            "queues": overview.queues,
            "exchanges": overview.exchanges,
        },
        "queue_totals": {
            "messages": overview.ready + overview.unacked,
            "messages_ready": overview.ready,
            "messages_unacknowledged": overview.unacked,
        },
        "message_stats": {
            "publish": overview.received,
            "confirm": overview.confirmed,
            "deliver_get": delivered(overview),
            "deliver": overview.delivered_manual,
            "deliver_no_ack": overview.delivered_auto,
            "get": overview.fetched_manual,
            "get_no_ack": overview.fetched_auto,
            "get_empty": overview.fetched_empty,
            "redeliver": overview.redelivered,
            "ack": overview.acknowledged,
            "return_unroutable": overview.unroutable_returned,
            "drop_unroutable": overview.unroutable_dropped,
        },
        "churn_rates": Json::from_iter(churn(overview)),
        "listeners": listeners.collect::<Vec<_>>(),
        "contexts": [],
    })
}

/// Sums over the vhosts that this user may enter, and over its own connections. Figures that belong
/// to no vhost are left out.
fn sums_of(share: &Share) -> Json {
    json!({
        "object_totals": {
            "connections": share.connections,
            "channels": share.sessions,
            "consumers": share.consumers,
            "queues": share.queues,
            "exchanges": share.exchanges,
        },
        "queue_totals": {
            "messages": share.ready + share.unacked,
            "messages_ready": share.ready,
            "messages_unacknowledged": share.unacked,
        },
        "message_stats": queue_traffic(&share.totals),
    })
}
