//! Parameters of the whole broker: the cluster's name, and what operators note for their own tools.
//!
//! A parameter that a part of RabbitMQ acts on is refused by name, because here nothing would.

use std::collections::VecDeque;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use broker::{Broker, Error, GlobalParameter, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, created, done, look, make, shown};
use crate::audit::{Said, Told};
use crate::change::{Caller, Changes};
use crate::listing::{Collection, Part, Rights};
use crate::source::Source;

/// The parameter that has the cluster's name.
pub(super) const CLUSTER_NAME: &str = "cluster_name";
/// Parameters that say what RabbitMQ's cluster is.
pub(super) const OF_A_CLUSTER: [&str; 4] =
    [CLUSTER_NAME, "internal_cluster_id", "cluster_tags", "imported_definition_hash_value"];
/// Parameters that parts of RabbitMQ act on, and what does the same here.
const ACTED_ON: [(&str, &str); 2] = [
    ("mqtt_default_vhosts", "a vhost for certificates is not built: devices name it as VHOST:USER"),
    ("mqtt_port_to_vhost_mapping", "a vhost for a port is not built: devices name it as VHOST:USER"),
];

/// All of them.
pub(crate) struct GlobalParameters;

impl Collection for GlobalParameters {
    fn rights(&self) -> Rights {
        Rights::Administrators
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(all(&source.broker))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("global-parameters", &GlobalParameters))
        .route("/api/global-parameters/{name}", get(one).put(put).delete(clear))
        .route("/api/cluster-name", get(cluster_name).put(name_cluster))
        .route("/api/cluster-name/", get(cluster_name).put(name_cluster))
}

fn row(parameter: &GlobalParameter) -> Json {
    let value: Json = serde_json::from_str(&parameter.value).unwrap_or_default();
    json!({ "name": parameter.name, "value": value })
}

fn row_of_cluster(broker: &Broker) -> Json {
    json!({ "name": CLUSTER_NAME, "value": broker.cluster_name() })
}

/// All of them, as they are listed and exported.
pub(super) fn all(broker: &Broker) -> Vec<Json> {
    std::iter::once(row_of_cluster(broker)).chain(broker.global_parameters().iter().map(row)).collect()
}

fn find(broker: &Broker, name: &str) -> Option<Json> {
    if name == CLUSTER_NAME { Some(row_of_cluster(broker)) } else { broker.global_parameter(name).as_ref().map(row) }
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    let found = look(&source, &asker, move |source| find(&source.broker, &name)).await?;
    found.map_or_else(|| Err(Failure::not_found()), shown)
}

#[derive(Deserialize)]
struct Body {
    value: Json,
}

async fn put(asker: Asker, State(source): Shared, Path(name): Path<String>, Document(body): Document<Body>) -> Answer {
    asker.administers()?;
    let sought = name.clone();
    let was_there = look(&source, &asker, move |source| find(&source.broker, &sought).is_some()).await?;
    make(&source, &asker, GlobalParameterChange::Set { name, value: body.value }).await?;
    if was_there { done() } else { created() }
}

async fn clear(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, GlobalParameterChange::Clear { name }).await?;
    done()
}

async fn cluster_name(_: Asker, State(source): Shared) -> Answer {
    shown(json!({ "name": source.broker.cluster_name() }))
}

#[derive(Deserialize)]
struct ClusterName {
    name: String,
}

async fn name_cluster(asker: Asker, State(source): Shared, Document(wanted): Document<ClusterName>) -> Answer {
    asker.administers()?;
    make(&source, &asker, GlobalParameterChange::NameCluster { name: wanted.name }).await?;
    done()
}

/// A change of global parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GlobalParameterChange {
    /// Sets a parameter, in place of the one with its name.
    Set {
        /// Its name.
        name: String,
        /// Its value, any JSON.
        value: Json,
    },
    /// Clears a parameter.
    Clear {
        /// Its name.
        name: String,
    },
    /// Gives the cluster another name.
    NameCluster {
        /// The name.
        name: String,
    },
}

impl Changes for GlobalParameterChange {
    fn told(&self) -> Told {
        match self {
            Self::Set { name, value } => {
                Told::of("set_global_parameter", ["", name], format_args!("value={}", Said(value)))
            }
            Self::Clear { name } => Told::plain("clear_global_parameter", ["", name]),
            Self::NameCluster { name } => Told::plain("set_cluster_name", ["", name]),
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        let ticket = match self {
            Self::Set { name, value } if name == CLUSTER_NAME => match value {
                Json::String(value) => broker.name_cluster(&value)?,
                _ => return Err(Error::precondition("Validation failed: the name of the cluster is a text")),
            },
            Self::Set { name, value } => {
                check(broker, &name, &value)?;
                broker.set_global_parameter(&name, &value.to_string())?
            }
            Self::Clear { name } if name == CLUSTER_NAME => {
                return Err(Error::precondition("a cluster always has a name: set another one"));
            }
            Self::Clear { name } => broker.clear_global_parameter(&name)?,
            Self::NameCluster { name } => broker.name_cluster(&name)?,
        };
        Ok((0, ticket))
    }
}

/// Checks a parameter of an operator.
///
/// # Errors
/// `Precondition` for one that can't be stored, or that something of RabbitMQ would act on.
pub(super) fn check(broker: &Broker, name: &str, value: &Json) -> Result<(), Error> {
    if let Some((_, instead)) = ACTED_ON.iter().find(|(known, _)| *known == name) {
        return Err(Error::precondition(format!("Validation failed: nothing here reads '{name}': {instead}")));
    }
    if OF_A_CLUSTER.contains(&name) {
        return Err(Error::precondition(format!("Validation failed: '{name}' is for RabbitMQ's own use")));
    }
    broker.check_global_parameter(name, &value.to_string())
}
