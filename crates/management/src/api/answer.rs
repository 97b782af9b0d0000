//! How `/api` answers: RabbitMQ's status codes, and for refusals its object of `error` and
//! `reason`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::budget::NoRoom;
use crate::change::{Refused, Why};

/// The result of a handler.
pub(crate) type Answer = Result<Response, Failure>;

/// Why a request did not get what it asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    error: &'static str,
    reason: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, error: &'static str, reason: impl Into<String>) -> Self {
        Self { status, error, reason: reason.into() }
    }

    /// The status, and the reason in words.
    pub(crate) fn parts(self) -> (StatusCode, String) {
        (self.status, self.reason)
    }

    /// The request is valid, and can't be served at the moment.
    pub(crate) fn busy() -> Self {
        let reason =
            "as many bytes of answers and documents are under way as may be: read what was asked for, and come again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
    }

    /// Something is wrong with the server.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_server_error", what)
    }

    /// In the exact words that clients compare with.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Object Not Found", "Not Found")
    }

    pub(crate) fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    pub(crate) fn not_authorized(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "not_authorized", reason)
    }

    /// The user has logged in, and has no permission.
    pub(crate) fn forbidden() -> Self {
        Self::not_authorized("User not authorised to access object")
    }

    /// The request has no valid log-in; the answer asks for one.
    pub(crate) fn challenge() -> Response {
        // Plug-ins of monitoring systems send their password for exactly this realm.
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"RabbitMQ Management\""))];
        (challenge, Self::not_authorized("Login failed")).into_response()
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused.why {
            Why::NotFound => Self::not_found(),
            Why::Denied => Self::not_authorized(refused.whole()),
            Why::Invalid => Self::bad_request(refused.whole()),
            Why::Failed => Self::failed(refused.text),
        }
    }
}

impl From<NoRoom> for Failure {
    fn from(_: NoRoom) -> Self {
        Self::busy()
    }
}

/// What a refusal says, beside the answer that has it in RabbitMQ's shape.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) error: &'static str,
    pub(crate) reason: String,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, axum::Json(json!({ "error": self.error, "reason": self.reason }))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(Refusal { error: self.error, reason: self.reason });
        response
    }
}

/// 200 with a document.
pub(crate) fn shown(document: impl Serialize) -> Answer {
    Ok(axum::Json(document).into_response())
}

/// 200 with a document that is text already.
pub(crate) fn shown_text(document: String) -> Answer {
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], document).into_response())
}

/// 201: the answer to a PUT of a new object.
pub(crate) fn created() -> Answer {
    Ok(StatusCode::CREATED.into_response())
}

/// 204: the answer to a change of an object that existed.
pub(crate) fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}
