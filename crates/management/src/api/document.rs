//! What a request brings along: parameters, and a JSON document of bounded size, read only once its sender has logged in.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use super::answer::Failure;
use crate::json;
use crate::source::Source;

/// Most bytes of a document, but for definitions.
const LONGEST: usize = 4 << 20;
/// How long its sender may take to send it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A document; a request without one stands for the empty object. An [`Asker`](super::asker::Asker) comes before it in a
/// handler's parameters.
pub(super) struct Document<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Source>> for Document<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<Source>) -> Result<Self, Failure> {
        let bytes = read(request, LONGEST).await?;
        let text = if bytes.is_empty() { b"{}" } else { bytes.as_ref() };
        if !json::is_object(text) {
            return Err(Failure::bad_request("the document is not understood: it must be an object"));
        }
        let document = serde_json::from_slice(text);
        document.map(Self).map_err(|error| Failure::bad_request(format!("the document is not understood: {error}")))
    }
}

/// The parameters behind a path.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Source>> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Source>) -> Result<Self, Failure> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(parameters)| Self(parameters)).map_err(|refused| Failure::bad_request(refused.body_text()))
    }
}

/// The document of a request as it was sent, without a byte order mark. As with RabbitMQ, what it is called does not matter:
/// many a script sends JSON as curl does, which calls everything a form.
pub(super) async fn read(request: Request, longest: usize) -> Result<Bytes, Failure> {
    may_write(request.headers())?;
    let body = tokio::time::timeout(PATIENCE, to_bytes(request.into_body(), longest)).await;
    let late = || Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the document did not arrive within 30 s");
    let bytes = body.map_err(|_| late())?.map_err(|_| {
        let reason = format!("the document is cut off, or longer than {longest} bytes");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", reason)
    })?;
    Ok(bytes.slice_ref(json::unmarked(&bytes)))
}

/// Refuses a request that a page of somebody else's, open in an operator's browser, has sent in its name. Browsers say where
/// a request is from; programs that are none say nothing.
fn may_write(headers: &HeaderMap) -> Result<(), Failure> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own = |origin: &str| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && host == value(header::HOST.as_str())
    };
    let from_elsewhere = match (value("sec-fetch-site"), value(header::ORIGIN.as_str())) {
        (Some(site), _) => !["same-origin", "none"].contains(&site),
        (None, Some(origin)) => !is_own(origin),
        (None, None) => false,
    };
    match from_elsewhere {
        true => {
            Err(Failure::new(StatusCode::FORBIDDEN, "forbidden", "a page of another origin may change nothing here"))
        }
        false => Ok(()),
    }
}

/// True or false, also as a text: tools that take arguments of a command line send them as they come.
///
/// # Errors
/// For anything else.
pub(super) fn truth<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    match Json::deserialize(field)? {
        Json::Bool(truth) => Ok(truth),
        Json::String(text) if text == "true" => Ok(true),
        Json::String(text) if text == "false" => Ok(false),
        _ => Err(D::Error::custom("expected true or false")),
    }
}

/// A number from 0 on, also as a text.
///
/// # Errors
/// For anything else.
pub(super) fn number<'de, D: Deserializer<'de>>(field: D) -> Result<u64, D::Error> {
    let number = match Json::deserialize(field)? {
        Json::Number(number) => number.as_u64(),
        Json::String(digits) => digits.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| D::Error::custom("expected a whole number from 0 on"))
}
