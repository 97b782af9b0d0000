//! The parameters of a request, and its JSON document. A document has a size limit and is read only
//! after its sender has logged in.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use super::answer::Failure;
use crate::budget::NoRoom;
use crate::json;
use crate::source::Source;
use crate::visit::Visit;

/// Most bytes of a document, except for definitions.
const LONGEST: usize = 4 << 20;
/// How long its sender may take to send it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of memory that a parsed document may take for each of its bytes.
const WEIGHT: usize = 4;
/// A document longer than this is read off the loop.
const LONG: usize = 64 << 10;

/// A document; a request without one counts as the empty object. In a handler's parameters it must
/// come after an [`Asker`](super::asker::Asker).
pub(crate) struct Document<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<Source>> for Document<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<Source>) -> Result<Self, Failure> {
        let bytes = read_weighing(request, LONGEST, WEIGHT).await?;
        if bytes.len() < LONG {
            return understood(&bytes).map(Self);
        }
        let read = tokio::task::spawn_blocking(move || understood(&bytes));
        read.await.map_err(|error| Failure::failed(error.to_string()))?.map(Self)
    }
}

fn understood<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let text = if bytes.is_empty() { b"{}" } else { bytes };
    if !json::is_object(text) {
        return Err(Failure::bad_request("the document is not understood: it must be an object"));
    }
    serde_json::from_slice(text)
        .map_err(|error| Failure::bad_request(format!("the document is not understood: {error}")))
}

/// The parameters in the query of a path.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Source>> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Source>) -> Result<Self, Failure> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(parameters)| Self(parameters)).map_err(|refused| Failure::bad_request(refused.body_text()))
    }
}

/// The document of a request as it was sent, without a byte order mark. The content type is
/// ignored, as in RabbitMQ: many scripts send JSON with curl, which calls everything a form.
pub(crate) async fn read(request: Request, longest: usize) -> Result<Vec<u8>, Failure> {
    read_weighing(request, longest, 1).await
}

/// Charges each byte `weight` times before it is kept.
async fn read_weighing(request: Request, longest: usize, weight: usize) -> Result<Vec<u8>, Failure> {
    let visit = request.extensions().get::<Visit>().cloned();
    let charge = |bytes: usize| visit.as_ref().map_or(Ok(()), |visit| visit.charge(bytes * weight));
    let gathered = tokio::time::timeout(PATIENCE, gather(request.into_body(), longest, &charge)).await;
    let late = || Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the document did not arrive within 30 s");
    let mut bytes = gathered.map_err(|_| late())??;
    let mark = bytes.len() - json::unmarked(&bytes).len();
    Ok(if mark > 0 { bytes.split_off(mark) } else { bytes })
}

async fn gather(body: Body, longest: usize, charge: &impl Fn(usize) -> Result<(), NoRoom>) -> Result<Vec<u8>, Failure> {
    let refused = || {
        let reason = format!("the document is cut off, or longer than {longest} bytes");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", reason)
    };
    let mut body = pin!(body);
    if body.size_hint().lower() > longest as u64 {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let Ok(data) = frame.map_err(|_| refused())?.into_data() else { continue };
        if bytes.len() + data.len() > longest {
            return Err(refused());
        }
        charge(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// True or false, also as a text: tools that take arguments of a command line send them as texts.
///
/// # Errors
/// For any other value.
pub(crate) fn truth<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
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
/// For any other value.
pub(crate) fn number<'de, D: Deserializer<'de>>(field: D) -> Result<u64, D::Error> {
    let number = match Json::deserialize(field)? {
        Json::Number(number) => number.as_u64(),
        Json::String(digits) => digits.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| D::Error::custom("expected a whole number from 0 on"))
}

/// A list of words, which older documents write as one text with commas.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Words {
    List(Vec<String>),
    Text(String),
}

impl Default for Words {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Words {
    pub(crate) fn list(&self) -> Vec<String> {
        match self {
            Self::List(words) => words.clone(),
            Self::Text(text) => words_of(text),
        }
    }
}

/// The words of a text that is separated by commas.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}
