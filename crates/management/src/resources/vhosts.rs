//! Vhosts: their rows and their changes.

use std::collections::VecDeque;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use broker::{Broker, Error, Switch, Ticket, VhostReport, VhostSpec};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value as Json, json};

use super::permissions::PermissionChange;
use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, Words, created, done, make, truth};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::counters::{self, OF_QUEUES};
use crate::facts::Facts;
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// See the module.
pub(crate) struct Vhosts;

impl Collection for Vhosts {
    fn rights(&self) -> Rights {
        Rights::VhostItself
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.vhosts().iter().map(|vhost| with_figures(source, vhost)))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("vhosts", &Vhosts))
        .route("/api/vhosts/{name}", get(one).put(put).delete(remove))
        .route("/api/vhosts/{name}/start/{node}", post(start))
        .route("/api/vhosts/{name}/deletion/protection", post(refuse_protection).delete(no_protection))
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let find = move |source: &Source| {
        let vhosts = source.broker.vhosts();
        vhosts.iter().find(|vhost| vhost.name == name).map(|vhost| with_figures(source, vhost))
    };
    api::one(asker, source, Rights::VhostItself, find).await
}

#[derive(Deserialize)]
pub(crate) struct VhostBody {
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Words,
    #[serde(default, alias = "defaultqueuetype")]
    default_queue_type: Option<String>,
    #[serde(default, deserialize_with = "perhaps")]
    tracing: Option<bool>,
    #[serde(default, deserialize_with = "truth")]
    protected_from_deletion: bool,
}

/// True or false; what is not said stays as it is.
fn perhaps<'de, D: Deserializer<'de>>(field: D) -> Result<Option<bool>, D::Error> {
    truth(field).map(Some)
}

/// As in RabbitMQ, the user that creates a vhost gets all permissions in it.
pub(crate) async fn put(
    asker: Asker,
    State(source): Shared,
    Path(name): Path<String>,
    Document(vhost): Document<VhostBody>,
) -> Answer {
    asker.administers()?;
    if vhost.protected_from_deletion {
        let text = format!("vhost '{name}': protected_from_deletion is not built; leave it out, or false");
        return Err(Failure::bad_request(text));
    }
    let was_there = source.broker.has_vhost(&name);
    let change = VhostChange::Put {
        name: name.clone(),
        description: Some(vhost.description),
        tags: Some(vhost.tags.list()),
        // RabbitMQ writes `undefined` if no type was chosen.
        default_queue_type: Some(vhost.default_queue_type.filter(|kind| kind != "undefined").unwrap_or_default()),
    };
    make(&source, &asker, change).await?;
    if let Some(on) = vhost.tracing {
        make(&source, &asker, VhostChange::Trace { vhost: name.clone(), on }).await?;
    }
    if !was_there {
        let [configure, write, read] = [".*"; 3].map(str::to_owned);
        let user = asker.user().to_owned();
        make(&source, &asker, PermissionChange::Set { user, vhost: name, configure, write, read }).await?;
    }
    if was_there { done() } else { created() }
}

pub(crate) async fn remove(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, VhostChange::Delete { name }).await?;
    done()
}

/// A vhost that exists is always running.
async fn start(asker: Asker, State(source): Shared, Path((vhost, node)): Path<(String, String)>) -> Answer {
    asker.administers()?;
    let is_here = source.facts.is_called(&node) && source.broker.has_vhost(&vhost);
    if is_here { done() } else { Err(Failure::not_found()) }
}

async fn refuse_protection(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    no_protection(asker, State(source), Path(vhost)).await?;
    Err(Failure::bad_request("protection of a vhost from deletion is not implemented yet"))
}

/// Vhosts can't be protected from deletion, so removing the protection succeeds.
async fn no_protection(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.administers()?;
    if source.broker.has_vhost(&vhost) { done() } else { Err(Failure::not_found()) }
}

/// A vhost with the sums over its queues, and how they move.
fn with_figures(source: &Source, vhost: &VhostReport) -> Json {
    let mut row = row(vhost, &source.facts);
    let share = source.broker.share("", |name| name == vhost.name);
    let mut lengths = Map::from_iter([
        ("messages".to_owned(), json!(share.ready + share.unacked)),
        ("messages_ready".to_owned(), json!(share.ready)),
        ("messages_unacknowledged".to_owned(), json!(share.unacked)),
    ]);
    let mut stats = counters::fields(&OF_QUEUES, &share.totals);
    source.rates.add_both(&format!("vhost {}", vhost.name), (&mut stats, &mut lengths), Instant::now());
    if let Json::Object(row) = &mut row {
        row.extend(lengths);
        row.insert("message_stats".to_owned(), stats.into());
    }
    row
}

fn row(vhost: &VhostReport, facts: &Facts) -> Json {
    let kind = vhost.spec.default_queue_type.as_deref().unwrap_or("classic");
    json!({
        "name": vhost.name,
        "description": vhost.spec.description,
        "tags": vhost.spec.tags,
        "default_queue_type": kind,
        "metadata": {
            "description": vhost.spec.description, "tags": vhost.spec.tags, "default_queue_type": kind,
        },
        "protected_from_deletion": false,
        "tracing": vhost.traced,
        "cluster_state": { (facts.node.as_str()): "running" },
    })
}

/// A change of vhosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VhostChange {
    /// Adds a vhost, or changes the given fields of one.
    Put {
        /// Its name.
        name: String,
        /// Its description.
        description: Option<String>,
        /// Its tags.
        tags: Option<Vec<String>>,
        /// The type of queues that are declared without one; empty for the broker's default.
        default_queue_type: Option<String>,
    },
    /// Deletes a vhost with everything in it.
    Delete {
        /// Its name.
        name: String,
    },
    /// Starts or stops the tracing of a vhost: copies of published and delivered messages go to
    /// `amq.rabbitmq.trace`, until the next start.
    Trace {
        /// The vhost.
        vhost: String,
        /// Whether tracing is on from now on.
        on: bool,
    },
}

impl Changes for VhostChange {
    fn told(&self) -> Told {
        match self {
            Self::Put { name, description, tags, default_queue_type } => {
                let (kind, tags, description) = (Said(default_queue_type), Said(tags), Said(description));
                let about = format_args!("default_queue_type={kind} tags={tags} description={description}");
                Told::of("put_vhost", [name, ""], about)
            }
            Self::Delete { name } => Told::plain("delete_vhost", [name, ""]),
            Self::Trace { vhost, on } => Told::of("trace", [vhost, ""], format_args!("on={on}")),
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::Put { name, description, tags, default_queue_type } => {
                let known = broker.vhosts().into_iter().find(|vhost| vhost.name == name);
                let mut spec = known.map_or_else(VhostSpec::default, |vhost| vhost.spec);
                spec.description = description.unwrap_or(spec.description);
                spec.tags = tags.unwrap_or(spec.tags);
                if let Some(kind) = default_queue_type {
                    spec.default_queue_type = Some(kind).filter(|kind| !kind.is_empty());
                }
                broker.put_vhost(&name, &spec)
            }
            Self::Delete { name } => broker.delete_vhost(&name),
            Self::Trace { vhost, on } => broker.trace(&vhost, if on { Switch::On } else { Switch::Off }),
        }?;
        Ok((0, ticket))
    }
}
