//! Health checks under RabbitMQ's paths: `{"status":"ok"}`, or 503 and what is wrong.
//!
//! Checks of the members of a cluster succeed, because this broker is the only member.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value as Json, json};

use crate::api::{Answer, Asker, Failure, Routes, Shared, blocking, shown};
use crate::facts::endpoint;
use crate::source::alarms;

/// Checks of faults that only a cluster can have.
const OF_A_CLUSTER: [&str; 8] = [
    "node-is-quorum-critical",
    "node-is-mirror-sync-critical",
    "metadata-store/initialized",
    "metadata-store/initialized/with-data",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
    "quorum-queues-without-elected-leaders/vhost/{vhost}",
    "quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
];
/// What tools for RabbitMQ call the listener of this API.
const MANAGEMENT: &str = "management";

/// The longest time ahead that is accepted, in units of a check.
const LONGEST_AHEAD: u64 = 10_000;

pub(super) fn routes() -> Routes {
    let mut router = Router::new();
    for check in OF_A_CLUSTER {
        router = router.route(&format!("/api/health/checks/{check}"), get(async |_: Asker| well()));
    }
    router
        .route("/api/health/checks/is-in-service", get(ready))
        .route("/api/health/checks/ready-to-serve-clients", get(ready))
        .route("/api/health/checks/below-node-connection-limit", get(has_room))
        .route("/api/health/checks/reached-target-cluster-size", get(async || well()))
        .route("/api/health/checks/alarms", get(no_alarms))
        .route("/api/health/checks/local-alarms", get(no_alarms))
        .route("/api/health/checks/virtual-hosts", get(async |_: Asker| well()))
        .route("/api/health/checks/port-listener/{port}", get(port_listener))
        .route("/api/health/checks/protocol-listener/{protocols}", get(protocol_listener))
        .route("/api/health/checks/certificate-expiration/{within}/{unit}", get(certificate))
        .route("/api/healthchecks/node", get(async |_: Asker| well()))
        .route("/api/healthchecks/node/{node}", get(async |_: Asker| well()))
        .route("/api/aliveness-test/{vhost}", get(aliveness))
}

fn well() -> Answer {
    shown(json!({ "status": "ok" }))
}

fn failed(what: Json) -> Answer {
    let mut document = json!({ "status": "failed" });
    if let (Json::Object(document), Json::Object(what)) = (&mut document, what) {
        document.extend(what);
    }
    Ok((StatusCode::SERVICE_UNAVAILABLE, axum::Json(document)).into_response())
}

async fn ready(State(source): Shared) -> Answer {
    if source.is_ready() { well() } else { failed(json!({ "reason": "starting or stopping" })) }
}

async fn has_room(State(source): Shared) -> Answer {
    let (open, limit) = (source.count_sockets() as u64, source.broker.limits().connections);
    if open < limit {
        return shown(json!({ "status": "ok", "limit": limit, "connections": open }));
    }
    failed(json!({ "reason": "node connection limit is reached", "limit": limit, "connections": open }))
}

async fn no_alarms(_: Asker, State(source): Shared) -> Answer {
    let up = alarms(source.broker.alarms());
    if up.is_empty() {
        return well();
    }
    let node = &source.facts.node;
    let alarms: Vec<Json> = up.iter().map(|resource| json!({ "node": node, "resource": resource })).collect();
    failed(json!({ "reason": "There are alarms in effect in the cluster", "alarms": alarms }))
}

async fn port_listener(_: Asker, State(source): Shared, Path(port): Path<String>) -> Answer {
    let Ok(port) = port.parse::<u16>() else { return Err(Failure::bad_request(format!("'{port}' is no port"))) };
    let open: Vec<u16> = source.facts.listeners.iter().map(|listener| endpoint(&listener.address).1).collect();
    if open.contains(&port) {
        return shown(json!({ "status": "ok", "port": port }));
    }
    failed(json!({ "reason": "No active listener", "missing": port, "ports": open }))
}

/// Units of time, and their days.
const UNITS: [(&str, u64); 4] = [("days", 1), ("weeks", 7), ("months", 30), ("years", 365)];

/// Succeeds without TLS, because then there is no certificate that could expire.
async fn certificate(_: Asker, State(source): Shared, Path((within, unit)): Path<(String, String)>) -> Answer {
    let Some((_, days)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let text = "Time unit not recognised. Supported units: days, weeks, months, years.";
        return Err(Failure::bad_request(text));
    };
    let within: u64 = within
        .parse()
        .ok()
        .filter(|within| *within > 0 && *within < LONGEST_AHEAD)
        .ok_or_else(|| Failure::bad_request("Invalid expiration period: give a whole number above 0"))?;
    let until = SystemTime::now() + Duration::from_secs(within * days * 24 * 3600);
    match source.certificate_ends() {
        Some(end) if end < until => {
            let ends = end.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let ended = json!({ "node": source.facts.node, "certificates_expired_at": ends });
            failed(json!({ "reason": "Certificates expiring", "expired": [ended] }))
        }
        _ => well(),
    }
}

async fn protocol_listener(_: Asker, State(source): Shared, Path(protocols): Path<String>) -> Answer {
    let mut served: Vec<&str> = source.facts.listeners.iter().flat_map(|row| row.protocol.split('/')).collect();
    served.sort_unstable();
    served.dedup();
    let missing: Vec<&str> = protocols
        .split(',')
        .filter(|wanted| {
            let name = wanted.to_lowercase();
            let listener = match name.as_str() {
                MANAGEMENT => Some("http".to_owned()),
                name => source.facts.protocols.iter().find_map(|protocol| protocol.listener(name)),
            };
            !served.contains(&listener.unwrap_or(name).as_str())
        })
        .collect();
    if missing.is_empty() {
        return shown(json!({ "status": "ok", "protocols": served }));
    }
    failed(json!({ "reason": "No active listener", "missing": missing, "protocols": served }))
}

/// Sends a message through a queue of its own in this vhost, with the permissions of this user.
async fn aliveness(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.enters(&source, &vhost)?;
    let caller = asker.caller();
    blocking(&source, &asker, move |source| source.try_vhost(&vhost, caller)).await?;
    well()
}
