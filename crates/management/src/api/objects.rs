//! Queues, exchanges and bindings, declared and deleted with the permissions of the user that asks.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{delete, get, put};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::answer::{Answer, Failure, created, done, shown};
use super::asker::Asker;
use super::document::{self, Document, Parameters};
use super::page::{self, Wanted};
use super::read::exchange_name;
use super::{look, make, sum_up};
use crate::change::Change;
use crate::json;
use crate::listing::{self, Listed, canonical_key, percent_encoded, properties_key};
use crate::objects::{BindingChange, DestinationType, ObjectChange};
use crate::source::Source;

type Shared = State<Arc<Source>>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/queues/{vhost}/{name}", put(put_queue).delete(delete_queue))
        .route("/api/queues/{vhost}/{name}/contents", delete(purge))
        .route("/api/exchanges/{vhost}/{name}", put(put_exchange).delete(delete_exchange))
        .route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}", get(bindings).post(bind))
        .route("/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", get(binding).delete(unbind))
}

/// Makes the change in a vhost that the user may enter.
async fn change(asker: &Asker, source: &Arc<Source>, vhost: String, change: ObjectChange) -> Result<u64, Failure> {
    asker.enters(source, &vhost)?;
    make(source, asker, Change::Objects { vhost, change }).await
}

async fn has_queue(source: &Arc<Source>, asker: &Asker, vhost: &str, name: &str) -> Result<bool, Failure> {
    let (vhost, name) = (vhost.to_owned(), name.to_owned());
    look(source, asker, move |source| source.broker.has_queue(&vhost, &name)).await
}

async fn has_exchange(source: &Arc<Source>, asker: &Asker, vhost: &str, name: &str) -> Result<bool, Failure> {
    let (vhost, name) = (vhost.to_owned(), name.to_owned());
    look(source, asker, move |source| source.broker.has_exchange(&vhost, &name)).await
}

#[derive(Deserialize)]
struct QueueBody {
    #[serde(default, deserialize_with = "document::truth")]
    durable: bool,
    #[serde(default, deserialize_with = "document::truth")]
    auto_delete: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

async fn put_queue(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<QueueBody>,
) -> Answer {
    let was_there = has_queue(&source, &asker, &vhost, &name).await?;
    let QueueBody { durable, auto_delete, arguments } = body;
    change(&asker, &source, vhost, ObjectChange::DeclareQueue { name, durable, auto_delete, arguments }).await?;
    if was_there { done() } else { created() }
}

/// Conditions of a deletion.
#[derive(Deserialize)]
struct Only {
    #[serde(default, rename = "if-unused")]
    if_unused: bool,
    #[serde(default, rename = "if-empty")]
    if_empty: bool,
}

async fn delete_queue(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Parameters(Only { if_unused, if_empty }): Parameters<Only>,
) -> Answer {
    change(&asker, &source, vhost, ObjectChange::DeleteQueue { name, if_unused, if_empty }).await?;
    done()
}

async fn purge(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    change(&asker, &source, vhost, ObjectChange::PurgeQueue { name }).await?;
    done()
}

#[derive(Deserialize)]
struct ExchangeBody {
    #[serde(default = "direct", rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "document::truth")]
    durable: bool,
    #[serde(default, deserialize_with = "document::truth")]
    auto_delete: bool,
    #[serde(default, deserialize_with = "document::truth")]
    internal: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

fn direct() -> String {
    "direct".to_owned()
}

async fn put_exchange(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<ExchangeBody>,
) -> Answer {
    let was_there = has_exchange(&source, &asker, &vhost, &name).await?;
    let ExchangeBody { kind, durable, auto_delete, internal, arguments } = body;
    let declaration = ObjectChange::DeclareExchange { name, kind, durable, auto_delete, internal, arguments };
    change(&asker, &source, vhost, declaration).await?;
    if was_there { done() } else { created() }
}

async fn delete_exchange(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Parameters(Only { if_unused, .. }): Parameters<Only>,
) -> Answer {
    change(&asker, &source, vhost, ObjectChange::DeleteExchange { name, if_unused }).await?;
    done()
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
        exchange_name(Listed::Exchanges, &self.source)
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
            DestinationType::Queue => listing::bindings_to_queue(source, vhost, &self.destination),
            DestinationType::Exchange => listing::bindings_to_exchange(source, vhost, &self.destination),
        };
        rows.retain(|row| row["source"] == self.source());
        Ok(rows)
    }

    /// The binding that the path names.
    fn row(&self, asker: &Asker, source: &Source) -> Result<Json, Failure> {
        let (rows, key) = (self.rows(asker, source)?, canonical_key(&self.key));
        rows.into_iter().find(|row| row["properties_key"] == key).ok_or_else(Failure::not_found)
    }

    fn change(&self, routing_key: String, arguments: Map<String, Json>) -> Result<BindingChange, Failure> {
        Ok(BindingChange {
            source: self.source().to_owned(),
            destination: self.destination.clone(),
            destination_type: self.destination_type()?,
            routing_key,
            arguments,
        })
    }
}

async fn bindings(asker: Asker, State(source): Shared, Path(path): Path<Between>, wanted: Wanted) -> Answer {
    let rows = sum_up(&source, &asker.clone(), move |source| path.rows(&asker, source)).await?;
    page::rows(rows?, &wanted)
}

async fn binding(asker: Asker, State(source): Shared, Path(path): Path<Between>) -> Answer {
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
    let binding = path.change(body.routing_key, body.arguments)?;
    change(&asker, &source, path.vhost, ObjectChange::Bind(binding)).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)]).into_response())
}

async fn unbind(asker: Asker, State(source): Shared, Path(path): Path<Between>) -> Answer {
    let finder = asker.clone();
    let (row, path) = sum_up(&source, &asker, move |source| (path.row(&finder, source), path)).await?;
    let row = row?;
    let routing_key = row["routing_key"].as_str().unwrap_or_default().to_owned();
    let binding = path.change(routing_key, row["arguments"].as_object().cloned().unwrap_or_default())?;
    change(&asker, &source, path.vhost, ObjectChange::Unbind(binding)).await?;
    done()
}
