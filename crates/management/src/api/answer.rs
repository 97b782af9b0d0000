//! How `/api` answers: RabbitMQ's status codes, and its object of `error` and `reason` where something is refused.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::change::{Refused, Why};

/// What a handler comes to.
pub(super) type Answer = Result<Response, Failure>;

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    error: &'static str,
    reason: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, error: &'static str, reason: impl Into<String>) -> Self {
        Self { status, error, reason: reason.into() }
    }

    /// In the words that clients compare with.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Object Not Found", "Not Found")
    }

    pub(super) fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    pub(super) fn not_authorized(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_authorized", reason)
    }

    /// The user is known, and may not.
    pub(super) fn forbidden() -> Self {
        Self::not_authorized("User not authorised to access object")
    }

    /// Nobody has logged in, and is told how.
    pub(super) fn challenge() -> Response {
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"Hermod\""))];
        (challenge, Self::not_authorized("Login failed")).into_response()
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused.why {
            Why::NotFound => Self::not_found(),
            Why::Denied => Self::not_authorized(refused.whole()),
            Why::Invalid => Self::bad_request(refused.whole()),
            Why::Failed => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_server_error", refused.text),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, axum::Json(json!({ "error": self.error, "reason": self.reason }))).into_response()
    }
}

/// 200 and a document.
pub(super) fn shown(document: impl Serialize) -> Answer {
    Ok(axum::Json(document).into_response())
}

/// To a PUT: 201 for what is new, 204 for what was there.
pub(super) fn put(was_there: bool) -> Answer {
    let status = if was_there { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    Ok(status.into_response())
}

/// 204.
pub(super) fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}
