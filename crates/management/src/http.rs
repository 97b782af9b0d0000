//! Every HTTP path outside `/api`, in one table. All of them only read, and tell no names of users, so they ask for no password.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::api;
use crate::metrics;
use crate::process::Process;
use crate::source::{Source, alarms};

/// Content type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is served.
pub(crate) fn router(source: Arc<Source>) -> Router {
    Router::new()
        .route("/metrics", get(aggregated))
        .route("/metrics/per-object", get(per_queue))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/health/writable", get(writable))
        .merge(api::router())
        .with_state(source)
}

async fn aggregated(State(source): State<Arc<Source>>) -> Response {
    let counts = source.broker.authority().login_counts();
    let logins = [("succeeded", counts.succeeded), ("refused", counts.refused), ("throttled", counts.throttled)];
    let overview = source.broker.overview();
    let refused = source.refused_connections(&overview);
    let text = metrics::aggregated(&source.facts, &overview, logins, &refused, &source.sockets(), Process::look());
    ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response()
}

async fn per_queue(State(source): State<Arc<Source>>) -> Response {
    let text = metrics::per_queue(&source.broker.queues());
    ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response()
}

/// The process runs and its management thread turns.
async fn live() -> &'static str {
    "live\n"
}

/// Clients can connect. An alarm does not unset this: consumers must reach a broker that stops publishers.
async fn ready(State(source): State<Arc<Source>>) -> Response {
    if source.is_ready() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    }
}

/// Publishers are not stopped by an alarm.
async fn writable(State(source): State<Arc<Source>>) -> Response {
    let alarms = alarms(&source.broker.overview());
    if !source.is_ready() {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    } else if alarms.is_empty() {
        "writable\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("low on {}\n", alarms.join(" and "))).into_response()
    }
}
