//! Parameters that Hermod does not have, such as those of federation; shovels have a file of their
//! own. Lists of connections that speak the stream protocol are empty too.

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use serde_json::json;

use crate::api::{Answer, Asker, Failure, Routes, shown};

/// Lists that are empty.
const EMPTY: [&str; 12] = [
    "parameters/{component}",
    "parameters/{component}/{vhost}",
    "federation-links",
    "federation-links/{vhost}",
    "federation-links/state/down",
    "federation-links/{vhost}/state/down",
    "stream/connections",
    "stream/connections/{vhost}",
    "stream/publishers",
    "stream/publishers/{vhost}",
    "stream/consumers",
    "stream/consumers/{vhost}",
];

pub(super) fn routes() -> Routes {
    let one = get(no_parameter).put(refuse_parameter).delete(no_parameter);
    let mut routes = Router::new().route("/api/parameters/{component}/{vhost}/{name}", one);
    for path in EMPTY {
        routes = routes.route(&format!("/api/{path}"), get(async |_: Asker| shown(json!([]))));
    }
    routes
}

async fn no_parameter(_: Asker) -> Answer {
    Err(Failure::not_found())
}

async fn refuse_parameter(_: Asker, Path((component, _, name)): Path<(String, String, String)>) -> Answer {
    let reason = format!("Validation failed: component '{component}' of parameter '{name}' is not built");
    Err(Failure::bad_request(reason))
}
