//! The answers to paths that lead nowhere: they say what the server offers, and where.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

/// Where rabbitmqadmin can be downloaded.
const RABBITMQADMIN: &str = "https://github.com/rabbitmq/rabbitmqadmin-ng/releases";

/// The answer at `/api` itself.
pub(crate) fn about_api() -> impl IntoResponse {
    "Here is RabbitMQ's HTTP API. Every request needs a user with one of the tags management, policymaker,\n\
     monitoring, administrator, and its password.\n\n\
     curl -u guest:guest http://localhost:15672/api/overview\n\n\
     /docs/manual/http-api.html has every path.\n"
}

/// 404, and a list of the paths that exist.
pub(crate) fn nothing(path: &str, headers: &HeaderMap) -> impl IntoResponse {
    let text = if path == "/cli" || path.starts_with("/cli/") {
        format!("rabbitmqadmin is RabbitMQ's and not handed out here: get it from {RABBITMQADMIN}.\n")
    } else {
        "Nothing is here. There are / (the console), /docs/ (the manual), /api/overview, /metrics, /health/live,\n\
         /health/ready and /health/writable.\n"
            .to_owned()
    };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.starts_with("application/json") {
        let document = serde_json::json!({ "error": "Object Not Found", "reason": text.trim_end() });
        return (StatusCode::NOT_FOUND, axum::Json(document)).into_response();
    }
    (StatusCode::NOT_FOUND, text).into_response()
}
