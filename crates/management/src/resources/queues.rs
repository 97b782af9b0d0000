//! Queues: their rows, their changes, and a look at their messages.

use std::collections::VecDeque;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::{delete, get, post};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, DeleteIf, Error, QueueReport, QueueSpec, Ticket};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::consumers;
use crate::api::{
    self, Answer, Asker, Document, Parameters, Routes, Shared, Wanted, blocking, created, done, look, make, number,
    shown, truth,
};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes, Refused, client, without_line_ends};
use crate::counters::{self, LENGTHS, OF_QUEUES};
use crate::courier::{AckMode, Fetched, Fetching};
use crate::diagnosis::DiagnosisRow;
use crate::facts::Facts;
use crate::history::{Place, Ranges};
use crate::json::{self, object};
use crate::listing::{self, Collection, Entry, Part, SortKey};
use crate::messages;
use crate::pace::Movement;
use crate::report::SubscriptionRow;
use crate::sampling::now;
use crate::source::Source;

/// See the module.
pub(crate) struct Queues;

impl Collection for Queues {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        listing::named(source, vhost, |vhost| source.broker.queue_names(vhost))
    }

    fn entries(&self, source: &Source, part: &Part, sort: Option<&str>) -> Option<Vec<Entry>> {
        listing::entries_of_named(part, sort, |vhost, names, path| {
            if let Some(movement) = Movement::at(path) {
                let look = source.histories.paces.look(&source.broker);
                let rates = look.rates(vhost, names, movement);
                return names.iter().cloned().zip(rates.map(|rate| SortKey::of(Some(&json!(rate))))).collect();
            }
            let reports = source.broker.some_queues(vhost, names);
            reports.iter().map(|report| (report.name.as_str().into(), sort_key(source, report, path))).collect()
        })
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, names) = part else { return Vec::new() };
        source.broker.some_queues(&vhost, &names).iter().map(|report| with_rates(source, report)).collect()
    }

    fn add_samples(&self, source: &Source, ranges: Ranges, rows: &mut [Json]) {
        for row in rows {
            let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
            let place = (text("vhost"), text("name"));
            add_history(source, place, ranges, row);
        }
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("queues", &Queues))
        .merge(api::all("queues/detailed", &Queues))
        .merge(api::in_vhost("queues/{vhost}", &Queues))
        .route("/api/queues/{vhost}/{name}", get(one).put(put).delete(remove))
        .route("/api/queues/{vhost}/{name}/diagnosis", get(diagnose))
        .route("/api/queues/{vhost}/{name}/contents", delete(purge))
        .route("/api/queues/{vhost}/{name}/get", post(fetch))
}

/// The queue of this name, with its consumers.
pub(super) fn find(source: &Source, vhost: &str, name: &str) -> Option<Json> {
    let mut row = with_rates(source, source.broker.some_queues(vhost, &[name.into()]).first()?);
    let consumers = source.broker.consumers_of_queues(vhost, &[name.into()]);
    row["consumer_details"] = consumers.iter().map(consumers::row).collect();
    Some(row)
}

async fn one(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Query(wanted): Wanted,
) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let mut row = find(source, vhost, &name)?;
        add_history(source, (vhost.to_owned(), name), Ranges::of(&wanted), &mut row);
        Some(row)
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

/// Why the queue does not move. RabbitMQ has no such path.
async fn diagnose(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let found = source.broker.diagnose(vhost, &name)?;
        serde_json::to_value(DiagnosisRow::of(&found)).ok()
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

#[derive(Deserialize)]
pub(crate) struct QueueBody {
    #[serde(default, deserialize_with = "truth")]
    durable: bool,
    #[serde(default, deserialize_with = "truth")]
    auto_delete: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

pub(crate) async fn put(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<QueueBody>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    let was_there = {
        let (vhost, name) = (vhost.clone(), name.clone());
        look(&source, &asker, move |source| source.broker.has_queue(&vhost, &name)).await?
    };
    let QueueBody { durable, auto_delete, arguments } = body;
    make(&source, &asker, QueueChange::Declare { vhost, name, durable, auto_delete, arguments }).await?;
    if was_there { done() } else { created() }
}

/// Conditions of a deletion.
#[derive(Deserialize)]
pub(crate) struct Only {
    #[serde(default, rename = "if-unused")]
    if_unused: bool,
    #[serde(default, rename = "if-empty")]
    if_empty: bool,
}

pub(crate) async fn remove(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Parameters(Only { if_unused, if_empty }): Parameters<Only>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, QueueChange::Delete { vhost, name, if_unused, if_empty }).await?;
    done()
}

pub(crate) async fn purge(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, QueueChange::Purge { vhost, name }).await?;
    done()
}

#[derive(Deserialize)]
struct GetBody {
    #[serde(deserialize_with = "number")]
    count: u64,
    ackmode: AckMode,
    encoding: Encoding,
    #[serde(default = "whole", deserialize_with = "number")]
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
    shown(fetched.into_iter().map(|message| message_row(message, body.encoding, body.truncate)).collect::<Vec<_>>())
}

/// Takes messages from a queue, as `get` does with `ack_requeue_false`.
pub(crate) fn fetched(
    source: &Source,
    vhost: &str,
    queue: &str,
    count: u64,
    caller: Caller,
) -> Result<Vec<Json>, Refused> {
    let fetching = Fetching { queue: queue.to_owned(), count, ackmode: AckMode::AckRequeueFalse };
    let messages = source.fetch(vhost, &fetching, caller)?;
    Ok(messages.into_iter().map(|message| message_row(message, Encoding::Auto, whole())).collect())
}

fn message_row(message: Fetched, encoding: Encoding, truncate: u64) -> Json {
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

/// What the field at `path` is. The figures that lists are sorted by most are read without making
/// the row.
fn sort_key(source: &Source, queue: &QueueReport, path: &str) -> SortKey {
    let counted = LENGTHS.iter().find(|counter| counter.field == path).map(|counter| (counter.read)(queue));
    let figure = counted.or(match path {
        "consumers" => Some(queue.consumers),
        "memory" => Some(queue.bytes),
        _ => None,
    });
    match figure {
        Some(figure) => SortKey::of(Some(&json!(figure))),
        None => SortKey::of(listing::at(&with_rates(source, queue), path)),
    }
}

/// A queue with the rates of its counters and lengths.
fn with_rates(source: &Source, report: &QueueReport) -> Json {
    let mut row = row(report, &source.facts);
    let (stats, lengths) = movement(source, report);
    row["message_stats"] = Json::Object(stats);
    if let Json::Object(row) = &mut row {
        row.extend(lengths);
    }
    row
}

/// What moved through a queue and what is in it, each with its rate. API and console read it here:
/// each reading is compared with the one before, which the other may have made.
pub(crate) fn movement(source: &Source, report: &QueueReport) -> (Map<String, Json>, Map<String, Json>) {
    let mut stats = counters::fields(&OF_QUEUES, &report.figures.totals);
    let mut lengths = counters::fields(&LENGTHS, report);
    let of = format!("queue {} {}", report.vhost, report.name);
    source.rates.add_both(&of, (&mut stats, &mut lengths), Instant::now());
    (stats, lengths)
}

/// Adds the samples of the ranges that a request asks for, and keeps a history of the queue.
fn add_history(source: &Source, place: Place, ranges: Ranges, row: &mut Json) {
    let Json::Object(row) = row else { return };
    let at = now();
    source.histories.look_at_queue(at, place, |history| {
        if let Some(Json::Object(stats)) = row.get_mut("message_stats") {
            history.traffic.begin(at, &OF_QUEUES, stats);
            if history.traffic.has_rates() || ranges.traffic.is_some() {
                history.traffic.add(&OF_QUEUES, ranges.traffic, stats);
            }
        }
        history.lengths.begin(at, &LENGTHS, row);
        if history.lengths.has_rates() || ranges.lengths.is_some() {
            history.lengths.add(&LENGTHS, ranges.lengths, row);
        }
    });
}

pub(super) fn row(queue: &QueueReport, facts: &Facts) -> Json {
    let figures = &queue.figures;
    let mut row = json!({
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.declared.kind,
        "durable": queue.declared.durable,
        "exclusive": queue.declared.exclusive,
        "auto_delete": queue.declared.auto_delete,
        "internal": false,
        "arguments": object(&queue.declared.arguments),
        "arguments_without_effect": queue.declared.idle_arguments,
        "subscription": queue.declared.subscription.as_deref().map(SubscriptionRow::from),
        "policy": queue.policies.user,
        "operator_policy": queue.policies.operator,
        "effective_policy_definition": object(&queue.policies.definition),
        "messages_persistent": figures.persistent,
        "messages_ram": figures.ready_in_memory + queue.unacked,
        "messages_ready_ram": figures.ready_in_memory,
        // Messages with consumers stay in memory.
        "messages_unacknowledged_ram": queue.unacked,
        "consumers": queue.consumers,
        "consumer_capacity": u8::from(figures.can_deliver),
        "consumer_utilisation": u8::from(figures.can_deliver),
        "exclusive_consumer_tag": figures.exclusive_consumer,
        "single_active_consumer_tag": figures.single_active_consumer,
        "head_message_timestamp": figures.head_timestamp,
        "memory": queue.bytes,
        "messages_delayed": queue.delayed,
        "selectors": selectors(queue),
        "dropped": dropped(queue),
        "message_ids_known": figures.remembered,
        "damage": queue.damaged,
        "state": if queue.damaged.is_some() { "crashed" } else { "running" },
        "node": facts.node,
        "message_stats": counters::fields(&OF_QUEUES, &figures.totals),
    });
    if let Json::Object(row) = &mut row {
        row.extend(counters::fields(&LENGTHS, queue));
    }
    if let Some(since) = figures.idle_since {
        row["idle_since"] = json!(date(since));
    }
    put_weights(&mut row, queue);
    if queue.declared.kind == "quorum" {
        // The only copy is here.
        (row["leader"], row["members"], row["online"]) = (json!(facts.node), json!([facts.node]), json!([facts.node]));
        row["delivery_limit"] = json!("unlimited");
    }
    if let Some(limit) = figures.delivery_limit {
        row["delivery_limit"] = json!(limit);
    }
    row
}

/// The selectors of its consumers: how many have each, and how many messages it matched.
fn selectors(queue: &QueueReport) -> Vec<Json> {
    let selector = |one: &broker::SelectorReport| {
        json!({
            "selector": one.selector, "consumers": one.consumers, "tested": one.looked_at, "matched": one.selected,
        })
    };
    queue.selectors.iter().map(selector).collect()
}

/// Messages that it dropped or moved to its dead-letter exchange since the start, by their reasons.
fn dropped(queue: &QueueReport) -> Json {
    let [rejected, expired, maxlen, delivery_limit] = queue.died;
    json!({
        "rejected": rejected,
        "expired": expired,
        "maxlen": maxlen,
        "delivery_limit": delivery_limit,
        "duplicate": queue.duplicates,
        "superseded": queue.superseded,
        "dead_letter_unroutable": queue.figures.totals.targetless,
    })
}

/// A time in milliseconds since 1970, as RabbitMQ writes it.
fn date(milliseconds: u64) -> Option<String> {
    let time = Timestamp::from_millisecond(i64::try_from(milliseconds).ok()?).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string())
}

/// Adds the bytes of bodies. They are exact where a length limit counts them, else estimated by the
/// mean size. Without a mean size they are left out.
fn put_weights(row: &mut Json, queue: &QueueReport) {
    let figures = &queue.figures;
    let mean = |messages: u64| figures.bytes_of(messages);
    let ready = figures.ready_bytes.or_else(|| mean(queue.ready));
    let sum = ready.zip(mean(queue.unacked)).map(|(ready, unacked)| ready + unacked);
    for (name, bytes) in [
        ("message_bytes", sum),
        ("message_bytes_ready", ready),
        ("message_bytes_unacknowledged", mean(queue.unacked)),
        ("message_bytes_persistent", mean(figures.persistent)),
        ("message_bytes_ram", mean(figures.ready_in_memory + queue.unacked)),
    ] {
        if let Some(bytes) = bytes {
            row[name] = json!(bytes);
        }
    }
}

/// A change of queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueChange {
    /// Declares a queue.
    Declare {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Whether it survives a restart.
        durable: bool,
        /// Whether it is deleted with its last consumer.
        auto_delete: bool,
        /// Its arguments.
        arguments: Map<String, Json>,
    },
    /// Deletes a queue.
    Delete {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Only if it has no consumers.
        if_unused: bool,
        /// Only if no message waits in it.
        if_empty: bool,
    },
    /// Drops the messages that wait in a queue.
    Purge {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
}

impl Changes for QueueChange {
    fn told(&self) -> Told {
        match self {
            Self::Declare { vhost, name, durable, auto_delete, arguments } => {
                let arguments = Said(arguments);
                let about = format_args!("durable={durable} auto_delete={auto_delete} arguments={arguments}");
                Told::of("declare_queue", [vhost, name], about)
            }
            Self::Delete { vhost, name, .. } => Told::plain("delete_queue", [vhost, name]),
            Self::Purge { vhost, name } => Told::plain("purge_queue", [vhost, name]),
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let now = Instant::now();
        match self {
            Self::Declare { vhost, name, durable, auto_delete, arguments } => {
                let name = without_line_ends(name);
                let mut client = client(broker, &vhost, caller)?;
                let arguments = json::table(&arguments).map_err(Error::precondition)?;
                let spec = QueueSpec { name, durable, exclusive: false, auto_delete, arguments };
                client.declare_queue(&spec, now).map(|declared| (0, declared.ticket))
            }
            Self::Delete { vhost, name, if_unused, if_empty } => {
                let name = without_line_ends(name);
                let mut client = client(broker, &vhost, caller)?;
                client.check_queue(&name, now)?;
                client.delete_queue(&name, DeleteIf { unused: if_unused, empty: if_empty }, now)
            }
            Self::Purge { vhost, name } => {
                let name = without_line_ends(name);
                let mut client = client(broker, &vhost, caller)?;
                client.purge_queue(&name, now)
            }
        }
    }
}
