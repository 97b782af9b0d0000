//! Shovels: RabbitMQ's parameters of component `shovel`, and how each is doing.
//!
//! Who sets one lets this broker log in elsewhere, and read and write here as that user. So it
//! takes the tag `policymaker` or `administrator`. Passwords in URIs are never shown, except in an
//! export of definitions, which only administrators get.

use std::collections::VecDeque;
use std::time::UNIX_EPOCH;

use auth::Identity;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get};
use broker::{Broker, Error, ShovelReport, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use shovel::{About, Figures, GiveTo, Spec, State as Doing, TakeFrom};

use crate::api::{self, Answer, Asker, Document, Routes, Shared, created, done, look, make};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::facts::ShovelStatus;
use crate::json;
use crate::listing::{Collection, Part};
use crate::source::Source;

/// The component of these parameters.
pub(super) const SHOVEL: &str = "shovel";
/// The tag of users whose shovels may read files of this machine.
const ADMINISTRATOR: &str = "administrator";

/// The definitions of shovels.
pub(crate) struct Shovels;

impl Collection for Shovels {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.shovels().iter().map(row))
    }
}

/// How shovels are doing.
pub(crate) struct ShovelStates;

impl Collection for ShovelStates {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let states = source.shovel_states();
        let of = |report: &ShovelReport| {
            let fits = |state: &&ShovelStatus| state.vhost == report.vhost && state.name == report.name;
            state_row(source, report, states.iter().find(fits).map(|state| &state.figures))
        };
        part.of_whole(source.broker.shovels().iter().map(of))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("parameters", &Shovels))
        .merge(api::all("parameters/shovel", &Shovels))
        .merge(api::in_vhost("parameters/shovel/{vhost}", &Shovels))
        .route("/api/parameters/shovel/{vhost}/{name}", get(one).put(put).delete(clear))
        .merge(api::all("shovels", &ShovelStates))
        .merge(api::in_vhost("shovels/{vhost}", &ShovelStates))
        .route("/api/shovels/vhost/{vhost}/{name}", delete(clear).get(state))
}

async fn one(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let shovels = source.broker.shovels();
        shovels.iter().find(|shovel| shovel.vhost == vhost && shovel.name == name).map(row)
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

async fn state(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let rows = crate::listing::all(source, &ShovelStates, Some(vhost));
        rows.into_iter().find(|row| row["name"] == name)
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

#[derive(Deserialize)]
struct Body {
    #[serde(deserialize_with = "json::unique")]
    value: Map<String, Json>,
}

async fn put(
    asker: Asker,
    State(source): Shared,
    Path((vhost, name)): Path<(String, String)>,
    Document(body): Document<Body>,
) -> Answer {
    asker.sets_policies(&source, &vhost)?;
    let (of, named) = (vhost.clone(), name.clone());
    let was_there = look(&source, &asker, move |source| {
        source.broker.shovels().iter().any(|shovel| shovel.vhost == of && shovel.name == named)
    })
    .await?;
    make(&source, &asker, ShovelChange::Set { vhost, name, definition: body.value }).await?;
    if was_there { done() } else { created() }
}

async fn clear(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    asker.sets_policies(&source, &vhost)?;
    make(&source, &asker, ShovelChange::Clear { vhost, name }).await?;
    done()
}

/// A change of shovels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ShovelChange {
    /// Sets a shovel, in place of the one with its name.
    Set {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Its definition, in RabbitMQ's fields.
        definition: Map<String, Json>,
    },
    /// Clears a shovel. What it has on its way arrives, or stays where it was.
    Clear {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
}

impl Changes for ShovelChange {
    fn told(&self) -> Told {
        match self {
            Self::Set { vhost, name, definition } => {
                let shown = Json::Object(shovel::without_secrets(definition));
                Told::of("set_shovel", [vhost, name], format_args!("definition={}", Said(&shown)))
            }
            Self::Clear { vhost, name } => Told::plain("clear_shovel", [vhost, name]),
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::Set { vhost, name, definition } => {
                check(broker, (&vhost, &name), &definition, &caller.identity)
                    .map_err(|faults| Error::precondition(format!("Validation failed: {}", faults.join("; "))))?;
                broker.set_shovel(&vhost, &name, Json::Object(definition).to_string(), &caller.identity)?
            }
            Self::Clear { vhost, name } => broker.clear_shovel(&vhost, &name)?,
        };
        Ok((0, ticket))
    }
}

/// Checks the definition of a shovel that this user sets.
///
/// # Errors
/// All that is wrong with it, one line each.
pub(super) fn check(
    broker: &Broker,
    (vhost, name): (&str, &str),
    definition: &Map<String, Json>,
    author: &Identity,
) -> Result<(), Vec<String>> {
    broker.check_shovel_name(name).map_err(|error| vec![error.text])?;
    let spec = shovel::parse(definition, About { vhost, name, cluster: "" })?;
    let reads_files = uris(&spec).any(|uri| uri.authorities().is_some());
    if reads_files && !broker.authority().is_tagged(author, ADMINISTRATOR) {
        return Err(vec![format!(
            "cacertfile names a file of this machine: only users with the tag '{ADMINISTRATOR}' may"
        )]);
    }
    Ok(())
}

fn uris(spec: &Spec) -> impl Iterator<Item = &shovel::Uri> {
    spec.source.uris.iter().chain(&spec.destination.uris)
}

/// The definition of a stored shovel. What can't be read shows no field, and so no secret.
fn fields(report: &ShovelReport) -> Map<String, Json> {
    serde_json::from_str(&report.spec.definition).unwrap_or_default()
}

/// A shovel with its passwords, as definitions are exported.
pub(super) fn exported(report: &ShovelReport) -> Json {
    json!({ "component": SHOVEL, "vhost": report.vhost, "name": report.name, "value": fields(report) })
}

fn row(report: &ShovelReport) -> Json {
    let value = shovel::without_secrets(&fields(report));
    json!({ "component": SHOVEL, "vhost": report.vhost, "name": report.name, "value": value })
}

/// How a shovel is doing, in RabbitMQ's fields and some of our own.
fn state_row(source: &Source, report: &ShovelReport, figures: Option<&Figures>) -> Json {
    let mut row = json!({
        "node": source.facts.node,
        "vhost": report.vhost,
        "name": report.name,
        "type": "dynamic",
        "author": report.spec.author,
        "state": "starting",
        "phase": "starting",
    });
    let about = About { vhost: &report.vhost, name: &report.name, cluster: "" };
    if let Ok(spec) = shovel::parse(&fields(report), about) {
        row["src_protocol"] = json!(spec.source.from.protocol().name());
        row["dest_protocol"] = json!(spec.destination.to.protocol().name());
        for (field, text) in ends(&spec) {
            row[field] = json!(text);
        }
    }
    if let Some(figures) = figures {
        let Figures { state, since, ends: [from, to], last_error, moved, moved_bytes, on_their_way, left } = figures;
        let seconds = since.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        row["state"] = json!(in_rabbitmq(*state));
        row["phase"] = json!(state.name());
        row["since"] = json!(seconds);
        row["blocked_status"] = json!(if *state == Doing::Blocked { "blocked" } else { "running" });
        (row["src_uri"], row["dest_uri"]) = (json!(from), json!(to));
        row["reason"] = json!(last_error);
        (row["forwarded"], row["forwarded_bytes"]) = (json!(moved), json!(moved_bytes));
        (row["pending"], row["left"]) = (json!(on_their_way), json!(left));
    }
    row
}

/// What RabbitMQ calls it.
fn in_rabbitmq(state: Doing) -> &'static str {
    match state {
        Doing::Starting => "starting",
        Doing::Running | Doing::Blocked => "running",
        Doing::Waiting | Doing::Terminated => "terminated",
    }
}

/// The places between which a shovel moves.
fn ends(spec: &Spec) -> Vec<(&'static str, String)> {
    let mut places = match spec.source.from.clone() {
        TakeFrom::Queue { queue, .. } => vec![("src_queue", queue.name)],
        TakeFrom::Exchange { name, key } => vec![("src_exchange", name), ("src_exchange_key", key)],
        TakeFrom::Address(address) => vec![("src_address", address)],
    };
    match spec.destination.to.clone() {
        GiveTo::Queue(queue) => places.push(("dest_queue", queue.name)),
        GiveTo::Exchange { name, key } => {
            places.extend(name.map(|name| ("dest_exchange", name)));
            places.extend(key.map(|key| ("dest_exchange_key", key)));
        }
        GiveTo::Address(address) => places.push(("dest_address", address)),
    }
    places
}
