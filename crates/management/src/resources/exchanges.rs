//! Exchanges: their rows, their changes, and a publish by hand.

use std::collections::VecDeque;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, DeleteIf, Error, ExchangeReport, ExchangeSpec, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::api::{
    self, Answer, Asker, Document, Failure, Parameters, Routes, Shared, blocking, created, done, look, make, shown,
    truth,
};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes, client, without_line_ends};
use crate::courier::Outgoing;
use crate::json::{self, object};
use crate::listing::{self, Collection, Entry, Part, SortKey};
use crate::messages;
use crate::source::Source;

/// See the module.
pub(crate) struct Exchanges;

impl Collection for Exchanges {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        listing::named(source, vhost, |vhost| source.broker.exchange_names(vhost))
    }

    fn entries(&self, source: &Source, part: &Part, sort: Option<&str>) -> Option<Vec<Entry>> {
        listing::entries_of_named(part, sort, |vhost, names, path| {
            let reports = source.broker.some_exchanges(vhost, names);
            let key = |report| SortKey::of(listing::at(&row(report), path));
            reports.iter().map(|report| (report.name.as_str().into(), key(report))).collect()
        })
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, names) = part else { return Vec::new() };
        source.broker.some_exchanges(&vhost, &names).iter().map(row).collect()
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("exchanges", &Exchanges))
        .merge(api::in_vhost("exchanges/{vhost}", &Exchanges))
        .route("/api/exchanges/{vhost}/{name}", get(one).put(put).delete(remove))
        .route("/api/exchanges/{vhost}/{name}/publish", post(publish))
}

/// The default exchange has an empty name; in paths it is `amq.default`.
pub(super) fn exchange_name(name: &str) -> &str {
    if name == "amq.default" { "" } else { name }
}

/// The exchange that a path calls by this name.
pub(super) fn find(source: &Source, vhost: &str, name: &str) -> Option<Json> {
    source.broker.some_exchanges(vhost, &[exchange_name(name).into()]).first().map(row)
}

async fn one(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    api::one_in_vhost(asker, source, vhost, move |source, vhost| find(source, vhost, &name)).await
}

#[derive(Deserialize)]
pub(crate) struct ExchangeBody {
    #[serde(default = "direct", rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "truth")]
    durable: bool,
    #[serde(default, deserialize_with = "truth")]
    auto_delete: bool,
    #[serde(default, deserialize_with = "truth")]
    internal: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

fn direct() -> String {
    "direct".to_owned()
}

pub(crate) async fn put(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<ExchangeBody>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    let was_there = {
        let (vhost, name) = (vhost.clone(), name.clone());
        look(&source, &asker, move |source| source.broker.has_exchange(&vhost, &name)).await?
    };
    let ExchangeBody { kind, durable, auto_delete, internal, arguments } = body;
    let declaration = ExchangeChange::Declare { vhost, name, kind, durable, auto_delete, internal, arguments };
    make(&source, &asker, declaration).await?;
    if was_there { done() } else { created() }
}

/// The condition of a deletion.
#[derive(Deserialize)]
pub(crate) struct Only {
    #[serde(default, rename = "if-unused")]
    if_unused: bool,
}

pub(crate) async fn remove(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Parameters(Only { if_unused }): Parameters<Only>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, ExchangeChange::Delete { vhost, name, if_unused }).await?;
    done()
}

/// A message to be published. Names are RabbitMQ's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishFields {
    /// The routing key.
    pub routing_key: String,
    /// The properties, with the headers among them.
    #[serde(default)]
    pub properties: Map<String, Json>,
    /// The body.
    pub payload: String,
    /// `string` or `base64`.
    pub payload_encoding: String,
}

impl PublishFields {
    /// The message for an exchange.
    ///
    /// # Errors
    /// Which field is not valid, as a text.
    pub(crate) fn message(self, exchange: &str) -> Result<Outgoing, String> {
        let body = match self.payload_encoding.as_str() {
            "string" => self.payload.into_bytes(),
            "base64" => STANDARD.decode(&self.payload).map_err(|error| format!("payload is not base64: {error}"))?,
            other => return Err(format!("payload_encoding is string or base64, not '{other}'")),
        };
        let properties = messages::properties(&self.properties)?;
        Ok(Outgoing { exchange: exchange_name(exchange).to_owned(), routing_key: self.routing_key, properties, body })
    }
}

async fn publish(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(fields): Document<PublishFields>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    let message = fields.message(&name).map_err(Failure::bad_request)?;
    let caller = asker.caller();
    let routed = blocking(&source, &asker, move |source| source.publish(&vhost, &message, caller)).await?;
    shown(json!({ "routed": routed }))
}

pub(super) fn row(exchange: &ExchangeReport) -> Json {
    json!({
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": object(&exchange.arguments),
        "arguments_without_effect": exchange.idle_arguments,
    })
}

/// A change of exchanges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExchangeChange {
    /// Declares an exchange.
    Declare {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Its type.
        #[serde(rename = "type")]
        kind: String,
        /// Whether it survives a restart.
        durable: bool,
        /// Whether it is deleted with its last binding.
        auto_delete: bool,
        /// Whether clients can't publish to it.
        internal: bool,
        /// Its arguments.
        arguments: Map<String, Json>,
    },
    /// Deletes an exchange.
    Delete {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Only if nothing is bound to it.
        if_unused: bool,
    },
}

impl Changes for ExchangeChange {
    fn told(&self) -> Told {
        match self {
            Self::Declare { vhost, name, kind, durable, auto_delete, internal, arguments } => {
                let (kind, arguments) = (Said(kind), Said(arguments));
                let flags = format_args!(
                    "type={kind} durable={durable} auto_delete={auto_delete} internal={internal} arguments={arguments}"
                );
                Told::of("declare_exchange", [vhost, name], flags)
            }
            Self::Delete { vhost, name, .. } => Told::plain("delete_exchange", [vhost, name]),
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let now = Instant::now();
        match self {
            Self::Declare { vhost, name, kind, durable, auto_delete, internal, arguments } => {
                let name = without_line_ends(name);
                let mut client = client(broker, &vhost, caller)?;
                let arguments = json::table(&arguments).map_err(Error::precondition)?;
                let spec = ExchangeSpec { name, kind, durable, auto_delete, internal, arguments };
                client.declare_exchange(&spec, now).map(|ticket| (0, ticket))
            }
            Self::Delete { vhost, name, if_unused } => {
                let name = without_line_ends(name);
                let mut client = client(broker, &vhost, caller)?;
                client.check_exchange(&name, now)?;
                client
                    .delete_exchange(&name, DeleteIf { unused: if_unused, empty: false }, now)
                    .map(|ticket| (0, ticket))
            }
        }
    }
}
