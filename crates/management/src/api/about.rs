//! The broker as a whole: who asks, sums over everything, and the one node that Hermod is in RabbitMQ's words.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post, put};
use broker::{Broker, Overview};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::answer::{Answer, Failure, done, shown};
use super::asker::Asker;
use super::document::Document;
use super::sum_up;
use crate::listing::endpoint;
use crate::process::Process;
use crate::source::{Source, delivered};

/// What clients of RabbitMQ look for among its feature flags, and Hermod has.
const FEATURES: [(&str, &str); 2] = [
    ("quorum_queue", "Queues of the type quorum"),
    ("user_limits", "Limits on the connections and channels of a user"),
];

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/whoami", get(whoami))
        .route("/api/version", get(async |State(source): State<Arc<Source>>| source.facts.compat_version.clone()))
        .route("/api/overview", get(overview))
        .route("/api/cluster-name", get(cluster_name).put(refuse_cluster_name))
        .route("/api/cluster-name/", get(cluster_name).put(refuse_cluster_name))
        .route("/api/nodes", get(async |asker, source| shown([node(asker, source).await?])))
        .route("/api/nodes/{name}", get(one_node))
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
    shown(json!({ "name": source.facts.node }))
}

#[derive(Deserialize)]
struct ClusterName {
    name: String,
}

/// A name that it has already is no change.
async fn refuse_cluster_name(
    asker: Asker,
    State(source): State<Arc<Source>>,
    Document(wanted): Document<ClusterName>,
) -> Answer {
    asker.administers()?;
    if wanted.name == source.facts.node {
        return done();
    }
    let name = &source.facts.node;
    Err(Failure::bad_request(format!("there is no cluster to be called '{}': this is {name} alone", wanted.name)))
}

async fn feature_flags(_: Asker) -> Answer {
    shown(FEATURES.map(|(name, about)| {
        json!({
            "name": name,
            "desc": about,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "hermod",
        })
    }))
}

async fn enable(asker: Asker, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    let known = FEATURES.iter().any(|(known, _)| *known == name);
    known.then_some(()).ok_or_else(|| Failure::bad_request(format!("there is no feature flag '{name}'")))?;
    done()
}

/// One node is balanced.
async fn rebalance(asker: Asker) -> Answer {
    asker.administers()?;
    done()
}

async fn one_node(asker: Asker, Path(name): Path<String>, source: State<Arc<Source>>) -> Answer {
    let is_known = name == source.facts.node;
    let node = node(asker, source).await?;
    if is_known { shown(node) } else { Err(Failure::not_found()) }
}

async fn node(asker: Asker, State(source): State<Arc<Source>>) -> Result<Json, Failure> {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    let (overview, process) = sum_up(&source, &asker, |source| (source.broker.overview(), Process::look())).await?;
    let (facts, sockets) = (&source.facts, source.count_sockets());
    let mut node = json!({
        "name": facts.node,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": std::process::id().to_string(),
        "uptime": u64::try_from(facts.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "rates_mode": "none",
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
        // rabbitmqadmin reads no node without these. Nothing is Erlang's, and no figure of free bytes raises an alarm.
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

/// What came and went since the start.
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
    let overview = sum_up(&source, &asker, |source| source.broker.overview()).await?;
    let facts = &source.facts;
    let listeners = facts.listeners.iter().map(|listener| {
        let (address, port) = endpoint(&listener.address);
        json!({ "node": facts.node, "protocol": listener.protocol, "ip_address": address, "port": port })
    });
    shown(json!({
        "product_name": "Hermod",
        "product_version": facts.version,
        "management_version": facts.version,
        "rabbitmq_version": facts.compat_version,
        "cluster_name": facts.node,
        "node": facts.node,
        "rates_mode": "none",
        "disable_stats": false,
        "enable_queue_totals": true,
        "default_queue_type": "classic",
        "exchange_types": exchange_types(),
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
            "deliver_get": delivered(&overview),
            "redeliver": overview.redelivered,
            "ack": overview.acknowledged,
            "return_unroutable": overview.unroutable_returned,
            "drop_unroutable": overview.unroutable_dropped,
        },
        "churn_rates": Json::from_iter(churn(&overview)),
        "listeners": listeners.collect::<Vec<_>>(),
        "contexts": [],
    }))
}
