//! The broker as a whole: the user that asks, sums over everything, and what RabbitMQ's tools ask
//! of a cluster.

use std::collections::HashMap;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::{delete, get, post, put};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Overview, Share};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::nodes::exchange_types;
use crate::api::{Answer, Asker, Failure, Routes, Shared, Wanted, done, shown, sum_up};
use crate::change::{Refused, Why};
use crate::counters::{self, ALL_LENGTHS, CHURN, OF_QUEUES, TRAFFIC};
use crate::facts::endpoint;
use crate::history::Ranges;
use crate::source::Source;

pub(super) fn routes() -> Routes {
    Router::new()
        .route("/api/whoami", get(whoami))
        .route("/api/version", get(async |State(source): Shared| source.facts.compat_version.clone()))
        .route("/api/overview", get(overview))
        .route("/api/auth/hash_password/{password}", get(hash_password))
        .route("/api/auth", get(async || shown(json!({ "oauth_enabled": false }))))
        .route("/api/extensions", get(async |_: Asker| shown(json!([]))))
        .route("/api/feature-flags", get(feature_flags))
        .route("/api/feature-flags/{name}/enable", put(enable))
        .route("/api/deprecated-features", get(async |_: Asker| shown(json!([]))))
        .route("/api/deprecated-features/used", get(async |_: Asker| shown(json!([]))))
        .route("/api/rebalance/queues", post(rebalance))
        .route("/api/reset", delete(async |asker, source| forget(asker, source, None).await))
        .route(
            "/api/reset/{node}",
            delete(async |asker, Path(node): Path<String>, source| forget(asker, source, Some(node)).await),
        )
}

async fn whoami(asker: Asker) -> Answer {
    let tags: Vec<&str> = asker.identity().tags().iter().collect();
    shown(json!({ "name": asker.user(), "tags": tags, "is_internal_user": true }))
}

async fn feature_flags(_: Asker, State(source): Shared) -> Answer {
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

async fn enable(asker: Asker, Path(name): Path<String>, State(source): Shared) -> Answer {
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

/// Forgets the samples that rates and histories are made from. Counts go on.
async fn forget(asker: Asker, State(source): Shared, node: Option<String>) -> Answer {
    asker.administers()?;
    if node.is_some_and(|node| !source.facts.is_called(&node)) {
        return Err(Failure::not_found());
    }
    source.rates.forget();
    source.histories.forget();
    done()
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

async fn overview(asker: Asker, State(source): Shared, Query(wanted): Wanted) -> Answer {
    let facts = &source.facts;
    let mut document = json!({
        "product_name": facts.product,
        "product_version": facts.compat_version,
        "management_version": facts.compat_version,
        "rabbitmq_version": facts.compat_version,
        "hermod_version": facts.version,
        "cluster_name": source.broker.cluster_name(),
        "node": facts.node,
        "rates_mode": "basic",
        "disable_stats": false,
        "enable_queue_totals": true,
        "is_op_policy_updating_enabled": true,
        "statistics_db_event_queue": 0,
        "sample_retention_policies": { "global": [600, 3600, 86_400], "basic": [600, 3600], "detailed": [600, 3600] },
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
    if asker.monitors() {
        add_history(&source, &wanted, &mut document);
    } else if let [Json::Object(mut stats), Json::Object(mut lengths)] =
        ["message_stats", "queue_totals"].map(|name| document[name].take())
    {
        source.rates.add_both(&format!("overview of {}", asker.user()), (&mut stats, &mut lengths), Instant::now());
        (document["message_stats"], document["queue_totals"]) = (stats.into(), lengths.into());
    }
    shown(document)
}

/// How the sums move, and their samples in the ranges that are asked for.
fn add_history(source: &Source, wanted: &HashMap<String, String>, document: &mut Json) {
    let history = source.histories.of_broker();
    let Ranges { traffic, lengths } = Ranges::of(wanted);
    if let Json::Object(stats) = &mut document["message_stats"] {
        history.traffic.add(&TRAFFIC, traffic, stats);
    }
    if let Json::Object(churn) = &mut document["churn_rates"] {
        history.churn.add(&CHURN, None, churn);
    }
    if let Json::Object(totals) = &mut document["queue_totals"] {
        history.lengths.add(&ALL_LENGTHS, lengths, totals);
    }
}

/// Sums over everything, for users that may see everything.
fn sums_of_all(source: &Source, overview: &Overview) -> Json {
    let facts = &source.facts;
    let listeners = facts.listeners.iter().map(|listener| {
        let (address, port) = endpoint(&listener.address);
        let hermod = json!({ "name": listener.name, "terms": listener.terms });
        json!({ "node": facts.node, "protocol": listener.protocol, "ip_address": address, "port": port, "hermod": hermod })
    });
    json!({
        "object_totals": {
            "connections": overview.objects.connections,
            "channels": overview.objects.sessions,
            "consumers": overview.objects.consumers,
            "queues": overview.objects.queues,
            "exchanges": overview.objects.exchanges,
        },
        "queue_totals": counters::fields(&ALL_LENGTHS, overview),
        "message_stats": counters::fields(&TRAFFIC, overview),
        "churn_rates": counters::fields(&CHURN, overview),
        "hermod": {
            "memory_used": overview.memory.used,
            "memory_limit": overview.memory.limit,
            "memory_kept": source.kept(&overview.memory).all(),
        },
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
        "message_stats": counters::fields(&OF_QUEUES, &share.totals),
    })
}
