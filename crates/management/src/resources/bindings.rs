//! Bindings: their rows, the keys that identify them in paths, and their changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{BindingReport, BindingSpec, Broker, DestinationName, Error, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use super::{exchanges, queues};
use crate::api::{
    self, Answer, Asker, Document, Failure, Routes, Shape, Shared, Wanted, done, look, make, rows, seen, shown, sum_up,
};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes, client, without_line_ends};
use crate::json::{self, object};
use crate::listing::{self, Collection, PART, Part, Rights};
use crate::source::Source;

/// Bytes of the digest that identifies a binding's arguments.
const KEY_BYTES: usize = 16;
/// The longest routing key that a path shows whole, in bytes. AMQP 0-9-1 has no longer ones.
const LONGEST_KEY: usize = 255;

/// Bindings, including those of every queue to the default exchange.
pub(crate) struct Bindings;

impl Collection for Bindings {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        let broker = &source.broker;
        let vhosts = vhost.map_or_else(|| broker.vhost_names(), |vhost| vec![vhost.into()]);
        let within = |vhost: &Arc<str>| {
            let mut parts = listing::named(source, Some(vhost), |vhost| broker.queue_names(vhost));
            let sources = broker.exchange_names(vhost).into_iter().filter(|name| !name.is_empty());
            let bindings = |exchange| Part::Bindings { vhost: Arc::clone(vhost), exchange, after: None };
            parts.extend(sources.map(bindings));
            parts
        };
        vhosts.iter().flat_map(within).collect()
    }

    fn rows(&self, source: &Source, part: Part, left: &mut VecDeque<Part>) -> Vec<Json> {
        match part {
            Part::Named(vhost, names) => source.broker.default_bindings(&vhost, &names).iter().map(row).collect(),
            Part::Bindings { vhost, exchange, after } => {
                let (reports, last) = source.broker.bindings_of(&vhost, &exchange, after.as_ref(), PART);
                if last.is_some() {
                    left.push_front(Part::Bindings { vhost, exchange, after: last });
                }
                reports.iter().map(row).collect()
            }
            Part::Clients(..) | Part::Direct(..) | Part::Whole(_) => Vec::new(),
        }
    }
}

/// Visits the bindings of a vhost a part at a time, those to the default exchange first.
pub(crate) fn each_binding(source: &Source, vhost: &str, visit: &mut dyn FnMut(Vec<BindingReport>)) {
    let broker = &source.broker;
    for queues in broker.queue_names(vhost).chunks(PART) {
        visit(broker.default_bindings(vhost, queues));
    }
    for exchange in broker.exchange_names(vhost).iter().filter(|name| !name.is_empty()) {
        let mut after = None;
        loop {
            let (part, last) = broker.bindings_of(vhost, exchange, after.as_ref(), PART);
            visit(part);
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("bindings", &Bindings))
        .merge(api::in_vhost("bindings/{vhost}", &Bindings))
        .route("/api/queues/{vhost}/{name}/bindings", get(of_queue))
        .route("/api/exchanges/{vhost}/{name}/bindings/{end}", get(of_exchange))
        .route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}", get(between).post(bind))
        .route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", get(one).delete(unbind))
}

/// The bindings that lead to a queue.
async fn of_queue(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Query(wanted): Wanted,
) -> Answer {
    let found = sum_up(&source, &asker.clone(), move |source| {
        seen(&asker, source, Rights::Vhost, Some(&vhost), |source| queues::find(source, &vhost, &name))?;
        Ok::<_, Failure>(to_queue(source, &vhost, &name))
    })
    .await?;
    rows(found?, &wanted)
}

/// The bindings that lead from an exchange, or to it.
async fn of_exchange(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name, end)): Path<(String, String, String)>,
    Query(wanted): Wanted,
) -> Answer {
    let shape = Shape::parse(&wanted)?;
    let (seer, at, named_so) = (asker.clone(), vhost.clone(), name.clone());
    let find = move |source: &Source| exchanges::find(source, &at, &named_so);
    look(&source, &asker, {
        let vhost = vhost.clone();
        move |source| seen(&seer, source, Rights::Vhost, Some(&vhost), find)
    })
    .await??;
    let name = exchanges::exchange_name(&name).to_owned();
    match end.as_str() {
        "source" => api::with_fields(asker, source, &Bindings, (vhost, vec![("source", name)]), shape).await,
        "destination" => {
            let found = sum_up(&source, &asker, move |source| to_exchange(source, &vhost, &name)).await?;
            rows(found, &wanted)
        }
        _ => Err(Failure::not_found()),
    }
}

fn to_queue(source: &Source, vhost: &str, name: &str) -> Vec<Json> {
    source.broker.bindings_to_queue(vhost, name).iter().map(row).collect()
}

fn to_exchange(source: &Source, vhost: &str, name: &str) -> Vec<Json> {
    source.broker.bindings_to_exchange(vhost, name).iter().map(row).collect()
}

/// The path of the bindings between an exchange and a queue or another exchange.
#[derive(Deserialize)]
struct Between {
    vhost: String,
    source: String,
    kind: String,
    destination: String,
    #[serde(default)]
    key: String,
}

impl Between {
    fn destination_type(&self) -> Result<DestinationType, Failure> {
        match self.kind.as_str() {
            "q" => Ok(DestinationType::Queue),
            "e" => Ok(DestinationType::Exchange),
            _ => Err(Failure::not_found()),
        }
    }

    fn source(&self) -> &str {
        exchanges::exchange_name(&self.source)
    }

    /// The bindings between the two; both must exist.
    fn rows(&self, asker: &Asker, source: &Source) -> Result<Vec<Json>, Failure> {
        let kind = self.destination_type()?;
        asker.enters(source, &self.vhost)?;
        let (vhost, broker) = (&self.vhost, &source.broker);
        let is_there = match kind {
            DestinationType::Queue => broker.has_queue(vhost, &self.destination),
            DestinationType::Exchange => broker.has_exchange(vhost, &self.destination),
        };
        if !is_there || !broker.has_exchange(vhost, self.source()) {
            return Err(Failure::not_found());
        }
        let mut rows = match kind {
            DestinationType::Queue => to_queue(source, vhost, &self.destination),
            DestinationType::Exchange => to_exchange(source, vhost, &self.destination),
        };
        rows.retain(|row| row["source"] == self.source());
        Ok(rows)
    }

    /// The binding that the path names.
    fn row(&self, asker: &Asker, source: &Source) -> Result<Json, Failure> {
        let (rows, key) = (self.rows(asker, source)?, canonical_key(&self.key));
        rows.into_iter().find(|row| row["properties_key"] == key).ok_or_else(Failure::not_found)
    }

    fn change(&self, routing_key: String, arguments: Map<String, Json>) -> Result<BindingFields, Failure> {
        Ok(BindingFields {
            source: self.source().to_owned(),
            destination: self.destination.clone(),
            destination_type: self.destination_type()?,
            routing_key,
            arguments,
        })
    }
}

async fn between(asker: Asker, State(source): Shared, Path(path): Path<Between>, Query(wanted): Wanted) -> Answer {
    let found = sum_up(&source, &asker.clone(), move |source| path.rows(&asker, source)).await?;
    rows(found?, &wanted)
}

async fn one(asker: Asker, State(source): Shared, Path(path): Path<Between>) -> Answer {
    let row = sum_up(&source, &asker.clone(), move |source| path.row(&asker, source)).await?;
    shown(row?)
}

#[derive(Deserialize)]
struct BindingBody {
    #[serde(default)]
    routing_key: String,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

/// Answers with the path of the binding, relative to this one.
async fn bind(
    asker: Asker,
    State(source): Shared,
    Path(path): Path<Between>,
    Document(body): Document<BindingBody>,
) -> Answer {
    let key = properties_key(&body.routing_key, &body.arguments);
    let location = format!("{}/{}", percent_encoded(&path.destination), percent_encoded(&key));
    asker.enters(&source, &path.vhost)?;
    let binding = path.change(body.routing_key, body.arguments)?;
    make(&source, &asker, BindingChange::Bind { vhost: path.vhost, binding }).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)]).into_response())
}

async fn unbind(asker: Asker, State(source): Shared, Path(path): Path<Between>) -> Answer {
    let finder = asker.clone();
    let (row, path) = sum_up(&source, &asker, move |source| (path.row(&finder, source), path)).await?;
    let row = row?;
    let routing_key = row["routing_key"].as_str().unwrap_or_default().to_owned();
    let binding = path.change(routing_key, row["arguments"].as_object().cloned().unwrap_or_default())?;
    make(&source, &asker, BindingChange::Unbind { vhost: path.vhost, binding }).await?;
    done()
}

pub(super) fn row(binding: &BindingReport) -> Json {
    let arguments = object(&binding.arguments);
    json!({
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": if binding.to_queue { "queue" } else { "exchange" },
        "routing_key": binding.key,
        "properties_key": properties_key(&binding.key, &arguments),
        "arguments": arguments,
    })
}

/// Identifies a binding among those between the same two objects, as a segment of a path: its
/// routing key, percent-encoded, and after a tilde a digest of its arguments. Of a key that is too
/// long for a path it has the beginning, and the digest is over the key, too. Tools store it, so it
/// must stay the same in every version.
pub(crate) fn properties_key(routing_key: &str, arguments: &Map<String, Json>) -> String {
    if routing_key.len() > LONGEST_KEY {
        let beginning = &routing_key[..routing_key.floor_char_boundary(LONGEST_KEY)];
        let digest = Sha256::digest(json!([routing_key, arguments]).to_string());
        return format!("{}~{}", percent_encoded(beginning), URL_SAFE_NO_PAD.encode(&digest[..KEY_BYTES]));
    }
    if arguments.is_empty() {
        return if routing_key.is_empty() { "~".to_owned() } else { percent_encoded(routing_key) };
    }
    // A map writes its names in order, so the digest does not depend on their order.
    let digest = Sha256::digest(Json::from(arguments.clone()).to_string());
    format!("{}~{}", percent_encoded(routing_key), URL_SAFE_NO_PAD.encode(&digest[..KEY_BYTES]))
}

/// The `properties_key` of a segment of a path. Clients encode a routing key once, for the path, or
/// twice, as part of `properties_key`; both give the same result.
pub(crate) fn canonical_key(segment: &str) -> String {
    match segment.rsplit_once('~') {
        Some((routing_key, digest)) => format!("{}~{digest}", percent_encoded(&percent_decoded(routing_key))),
        None => percent_encoded(&percent_decoded(segment)),
    }
}

/// Undoes [`percent_encoded`]. A percent sign without two digits after it stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<2>().filter(|two| byte == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let escaped = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Percent-encodes everything but letters, digits, and `-._`.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The kind of a binding's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationType {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
}

/// A binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingFields {
    /// The exchange that messages come from.
    pub source: String,
    /// The queue or exchange that messages go to.
    pub destination: String,
    /// The kind of the destination.
    pub destination_type: DestinationType,
    /// The routing key or pattern.
    pub routing_key: String,
    /// Arguments.
    pub arguments: Map<String, Json>,
}

/// A change of bindings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BindingChange {
    /// Makes a binding.
    Bind {
        /// Its vhost.
        vhost: String,
        /// The binding.
        binding: BindingFields,
    },
    /// Deletes a binding.
    Unbind {
        /// Its vhost.
        vhost: String,
        /// The binding.
        binding: BindingFields,
    },
}

impl Changes for BindingChange {
    fn told(&self) -> Told {
        let (action, vhost, binding) = match self {
            Self::Bind { vhost, binding } => ("bind", vhost, binding),
            Self::Unbind { vhost, binding } => ("unbind", vhost, binding),
        };
        let about = format_args!(
            "destination={} routing_key={} arguments={}",
            Said(&binding.destination),
            Said(&binding.routing_key),
            Said(&binding.arguments)
        );
        Told::of(action, [vhost, &binding.source], about)
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let now = Instant::now();
        let ticket = match self {
            Self::Bind { vhost, binding } => client(broker, &vhost, caller)?.bind(&spec(binding)?, now),
            Self::Unbind { vhost, binding } => client(broker, &vhost, caller)?.unbind(&spec(binding)?, now),
        }?;
        Ok((0, ticket))
    }
}

/// A binding as the broker declares it.
///
/// # Errors
/// If a table can't hold its arguments.
pub(super) fn spec(binding: BindingFields) -> Result<BindingSpec, Error> {
    let destination = match binding.destination_type {
        DestinationType::Queue => DestinationName::Queue(without_line_ends(binding.destination)),
        DestinationType::Exchange => DestinationName::Exchange(without_line_ends(binding.destination)),
    };
    let arguments = json::table(&binding.arguments).map_err(Error::precondition)?;
    Ok(BindingSpec { source: without_line_ends(binding.source), destination, key: binding.routing_key, arguments })
}
