//! Vhosts: their rows and their changes.

use std::collections::VecDeque;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use broker::VhostReport;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Failure, Routes, Shared, Words, created, done, make, truth};
use crate::change::Change;
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
        part.of_whole(source.broker.vhosts().iter().map(|vhost| row(vhost, &source.facts)))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("vhosts", &Vhosts))
        .route("/api/vhosts/{name}", get(one).put(put).delete(remove))
        .route("/api/vhosts/{name}/deletion/protection", post(refuse_protection).delete(no_protection))
}

async fn one(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    let find = move |source: &Source| {
        let vhosts = source.broker.vhosts();
        vhosts.iter().find(|vhost| vhost.name == name).map(|vhost| row(vhost, &source.facts))
    };
    api::one(asker, source, Rights::VhostItself, find).await
}

#[derive(Deserialize)]
struct VhostBody {
    #[serde(default)]
    description: String,
    #[serde(default)]
    tags: Words,
    #[serde(default, alias = "defaultqueuetype")]
    default_queue_type: Option<String>,
    #[serde(default, deserialize_with = "truth")]
    tracing: bool,
    #[serde(default, deserialize_with = "truth")]
    protected_from_deletion: bool,
}

/// As in RabbitMQ, the user that creates a vhost gets all permissions in it.
async fn put(
    asker: Asker,
    State(source): Shared,
    Path(name): Path<String>,
    Document(vhost): Document<VhostBody>,
) -> Answer {
    asker.administers()?;
    for (asked, what) in [(vhost.tracing, "tracing"), (vhost.protected_from_deletion, "protected_from_deletion")] {
        if asked {
            return Err(Failure::bad_request(format!("vhost '{name}': {what} is not built; leave it out, or false")));
        }
    }
    let was_there = source.broker.has_vhost(&name);
    let change = Change::PutVhost {
        name: name.clone(),
        description: Some(vhost.description),
        tags: Some(vhost.tags.list()),
        // RabbitMQ writes `undefined` if no type was chosen.
        default_queue_type: Some(vhost.default_queue_type.filter(|kind| kind != "undefined").unwrap_or_default()),
    };
    make(&source, &asker, change).await?;
    if !was_there {
        let [configure, write, read] = [".*"; 3].map(str::to_owned);
        let user = asker.user().to_owned();
        make(&source, &asker, Change::SetPermission { user, vhost: name, configure, write, read }).await?;
    }
    if was_there { done() } else { created() }
}

async fn remove(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    asker.administers()?;
    make(&source, &asker, Change::DeleteVhost { name }).await?;
    done()
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

pub(super) fn row(vhost: &VhostReport, facts: &Facts) -> Json {
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
