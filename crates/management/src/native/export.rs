//! All messages of a queue as lines of JSON, which are made while they are sent. None is taken, and
//! the queue goes on meanwhile: what comes after the beginning is not among them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Browse, Browsed, Browsing, Error};
use serde_json::{Value as Json, json};

use super::field::{Field, Kind, declared, time, whole};
use crate::api::{Answer, Asker, Failure, Shared, blocking};
use crate::change::Caller;
use crate::messages::{as_published, tell_of_browsing};
use crate::pieces::{self, PIECE, Pieces, UNDER_WAY};

/// The type of lines of JSON.
pub(super) const LINES: &str = "application/x-ndjson";
/// The largest body that is shown, and what the text of its line may take.
const LARGEST: usize = 4 << 20;
const ROOM: usize = 4 * LARGEST;

/// The parameters of a request.
pub(super) const OF_LINES: [(&str, Kind, &str); 2] = [
    ("selector", Kind::Text, "Only messages that this selector is true of"),
    ("limit", Kind::Number, "No more messages than so many"),
];

/// A line: what is published again with these fields is the same message.
pub(super) const MESSAGES: &[Field<Browsed>] = &[
    declared("number", Kind::Number, "Its number in the queue, which rises within each priority", |one| {
        json!(one.number)
    }),
    declared("exchange", Kind::Text, "The exchange that it was published to", |one| json!(one.message.exchange())),
    declared("routing_key", Kind::Text, "Its routing key", |one| json!(one.message.routing_key())),
    declared("redelivered", Kind::Truth, "It may have been delivered before", |one| json!(one.redelivered)),
    declared("published", Kind::Time, "When the broker received it", |one| time(one.message.published_at())),
    declared("properties", Kind::Object, "Its properties and headers, as publish takes them", |one| {
        Json::Object(as_published(one.properties.clone()))
    }),
    declared("payload", Kind::Text, "Its body; null for one of more than 4 MiB", |one: &Browsed| payload(one).0)
        .or_null(),
    declared("payload_encoding", Kind::Text, "string, or base64 for one that is no text", |one| json!(payload(one).1)),
    declared("payload_bytes", Kind::Number, "The length of its body", |one| json!(one.message.body().len())),
];

/// A body and how it is written.
fn payload(one: &Browsed) -> (Json, &'static str) {
    let body = one.message.body();
    // An escape takes six bytes.
    let is_plain = |byte: &u8| *byte >= 0x20 || matches!(byte, b'\t' | b'\n' | b'\r');
    match str::from_utf8(body) {
        _ if body.len() > LARGEST => (Json::Null, "string"),
        Ok(text) if body.iter().all(is_plain) => (json!(text), "string"),
        _ => (json!(STANDARD.encode(body)), "base64"),
    }
}

/// Shows the messages of a queue to a user that may read from it.
pub(super) async fn messages(
    asker: Asker,
    State(source): Shared,
    Path((vhost, queue)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    if let Some(other) = query.keys().find(|name| !OF_LINES.iter().any(|(known, ..)| known == name)) {
        return Err(Failure::bad_request(format!("there is no parameter '{other}' here, but selector and limit")));
    }
    let left = query.get("limit").map_or(Ok(u64::MAX), |limit| limit.parse());
    let left = left.map_err(|_| Failure::bad_request("limit is a whole number"))?;
    asker.charge(UNDER_WAY + ROOM)?;
    let (caller, selector) = (asker.caller(), query.get("selector").cloned().unwrap_or_default());
    let begun = blocking(&source, &asker, move |source| {
        let browse = Browse { vhost: &vhost, queue: &queue, selector: &selector, limit: left };
        let browsing = source.begin_browsing(&browse, &caller)?;
        let mut lines = Lines { browsing, caller, place: [vhost, queue], left, count: 0 };
        let (first, more) = pieces::next(&mut lines);
        Ok((first, more.then_some(lines)))
    });
    let body = match begun.await? {
        (all, None) => Body::from(all),
        (first, Some(rest)) => pieces::body(first, rest, (Arc::clone(&source.pool), asker.user().to_owned())),
    };
    Ok(([(header::CONTENT_TYPE, LINES)], body).into_response())
}

/// The lines that are still to be written.
struct Lines {
    browsing: Browsing,
    caller: Caller,
    /// Vhost and queue.
    place: [String; 2],
    left: u64,
    count: u64,
}

impl Lines {
    /// Writes some of them. False after the last.
    fn write_some(&mut self, text: &mut String) -> Result<bool, Error> {
        let Self { browsing, left, count, .. } = self;
        let more = browsing.next(PIECE, &mut |browsed| {
            if *left > 0 {
                (*left, *count) = (*left - 1, *count + 1);
                text.push_str(&whole(MESSAGES, &browsed).to_string());
                text.push('\n');
            }
        })?;
        Ok(more && self.left > 0)
    }
}

impl Pieces for Lines {
    fn write(&mut self, text: &mut String) -> bool {
        while text.len() < PIECE {
            match self.write_some(text) {
                Ok(true) => {}
                Ok(false) => return false,
                // The status has been sent, so the last line says it.
                Err(error) => {
                    text.push_str(&format!("{}\n", json!({ "error": error.to_string() })));
                    return false;
                }
            }
        }
        true
    }
}

/// However it ends: a reader that goes away has seen what was sent.
impl Drop for Lines {
    fn drop(&mut self) {
        let [vhost, queue] = &self.place;
        tell_of_browsing(&self.caller, [vhost, queue], self.count);
    }
}
