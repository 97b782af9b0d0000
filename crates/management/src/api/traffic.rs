//! Publishes one message, or fetches some, with the permissions of the user that asks. This is for
//! looking and trying: each request makes a client of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::answer::{Answer, Failure, shown};
use super::asker::Asker;
use super::blocking;
use super::document::{self, Document};
use super::read::exchange_name;
use crate::courier::{AckMode, Fetched, Fetching, Outgoing};
use crate::listing::Listed;
use crate::messages;
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/exchanges/{vhost}/{name}/publish", post(publish))
        .route("/api/queues/{vhost}/{name}/get", post(fetch))
}

#[derive(Deserialize)]
struct PublishBody {
    routing_key: String,
    #[serde(default)]
    properties: Map<String, Json>,
    payload: String,
    payload_encoding: String,
}

async fn publish(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<PublishBody>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    let bytes = match body.payload_encoding.as_str() {
        "string" => body.payload.into_bytes(),
        "base64" => STANDARD
            .decode(&body.payload)
            .map_err(|error| Failure::bad_request(format!("payload is not base64: {error}")))?,
        other => return Err(Failure::bad_request(format!("payload_encoding is string or base64, not '{other}'"))),
    };
    let message = Outgoing {
        exchange: exchange_name(Listed::Exchanges, &name).to_owned(),
        routing_key: body.routing_key,
        properties: messages::properties(&body.properties).map_err(Failure::bad_request)?,
        body: bytes,
    };
    let caller = asker.caller();
    let routed = blocking(&source, &asker, move |source| source.publish(&vhost, &message, caller)).await?;
    shown(json!({ "routed": routed }))
}

#[derive(Deserialize)]
struct GetBody {
    #[serde(deserialize_with = "document::number")]
    count: u64,
    ackmode: AckMode,
    encoding: Encoding,
    #[serde(default = "whole", deserialize_with = "document::number")]
    truncate: u64,
}

fn whole() -> u64 {
    u64::MAX
}

/// How bodies are shown: as text if they are text, else in base 64; or always in base 64.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    Auto,
    Base64,
}

async fn fetch(
    asker: Asker,
    State(source): Shared,
    Path((vhost, queue)): Path<(String, String)>,
    Document(body): Document<GetBody>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    let (caller, fetching) = (asker.caller(), Fetching { queue, count: body.count, ackmode: body.ackmode });
    let fetched = blocking(&source, &asker, move |source| source.fetch(&vhost, &fetching, caller)).await?;
    shown(fetched.into_iter().map(|message| row(message, body.encoding, body.truncate)).collect::<Vec<_>>())
}

fn row(message: Fetched, encoding: Encoding, truncate: u64) -> Json {
    let length = usize::try_from(truncate).unwrap_or(usize::MAX).min(message.body.len());
    let bytes = &message.body[..length];
    let text = str::from_utf8(bytes).ok().filter(|_| matches!(encoding, Encoding::Auto));
    let (payload, name) = text.map_or_else(|| (STANDARD.encode(bytes), "base64"), |text| (text.to_owned(), "string"));
    json!({
        "payload_bytes": message.body.len(),
        "redelivered": message.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_count": message.remaining,
        "properties": messages::as_published(message.properties),
        "payload": payload,
        "payload_encoding": name,
    })
}
