//! The one node that Hermod is in RabbitMQ's words.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use broker::{Broker, Error, Switch, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{Answer, Asker, Failure, Routes, Shared, shown, sum_up};
use crate::audit::Told;
use crate::change::{Caller, Changes};
use crate::counters::{self, CHURN};
use crate::facts::Setting;
use crate::memory::Memory;
use crate::process::Process;
use crate::source::Source;

pub(super) fn routes() -> Routes {
    Router::new()
        .route("/api/nodes", get(async |asker, source| shown([node(asker, source).await?])))
        .route("/api/nodes/{name}", get(one_node))
        .route("/api/nodes/{name}/memory", get(memory))
        .route("/api/nodes/{name}/memory/relative", get(memory_shares))
        .route("/api/config/effective", get(settings))
        .route("/api/auth/attempts/{node}", get(attempts))
        .route("/api/auth/attempts/{node}/source", get(attempts_by_source))
}

async fn one_node(asker: Asker, Path(name): Path<String>, source: Shared) -> Answer {
    let is_known = source.facts.is_called(&name);
    let node = node(asker, source).await?;
    if is_known { shown(node) } else { Err(Failure::not_found()) }
}

/// What takes the memory of this node.
async fn memory(asker: Asker, Path(name): Path<String>, State(source): Shared) -> Answer {
    this_node(&asker, &source, &name)?;
    let memory = sum_up(&source, &asker, |source| Memory::of(&source.broker.overview(), Process::look())).await?;
    shown(memory.document())
}

async fn memory_shares(asker: Asker, Path(name): Path<String>, State(source): Shared) -> Answer {
    this_node(&asker, &source, &name)?;
    let memory = sum_up(&source, &asker, |source| Memory::of(&source.broker.overview(), Process::look())).await?;
    shown(memory.shares())
}

/// The settings in force, by name, as `hermod config --json` shows them.
async fn settings(asker: Asker, State(source): Shared) -> Answer {
    asker.administers()?;
    let entry =
        |setting: Setting| (setting.name.to_owned(), json!({ "value": setting.value, "origin": setting.origin }));
    shown(Json::Object(source.settings().into_iter().map(entry).collect()))
}

/// Fails if the user may not see the node, or if the name is another node's.
fn this_node(asker: &Asker, source: &Source, name: &str) -> Result<(), Failure> {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    source.facts.is_called(name).then_some(()).ok_or_else(Failure::not_found)
}

/// Log-ins since the start; they are not counted by protocol.
async fn attempts(asker: Asker, Path(name): Path<String>, State(source): Shared) -> Answer {
    this_node(&asker, &source, &name)?;
    let counts = source.broker.authority().login_counts();
    let failed = counts.refused + counts.throttled;
    shown([json!({
        "protocol": "all",
        "auth_attempts": counts.succeeded + failed,
        "auth_attempts_succeeded": counts.succeeded,
        "auth_attempts_failed": failed,
    })])
}

async fn node(asker: Asker, State(source): Shared) -> Result<Json, Failure> {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    let (overview, process) = sum_up(&source, &asker, |source| (source.broker.overview(), Process::look())).await?;
    let facts = &source.facts;
    let (sockets, sockets_total) = (source.count_sockets(), source.broker.limits().connections);
    let mut node = json!({
        "name": facts.node,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": std::process::id().to_string(),
        "uptime": u64::try_from(facts.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "rates_mode": "basic",
        "partitions": [],
        "cluster_links": [],
        "applications": [],
        "enabled_plugins": [],
        "exchange_types": exchange_types(),
        "db_dir": facts.data_dir,
        "mem_limit": overview.memory.limit,
        "mem_alarm": overview.alarms.memory,
        "disk_free": overview.journal.free_bytes,
        "disk_free_alarm": overview.alarms.disk,
        "sockets_used": sockets,
        "sockets_total": sockets_total,
        "proc_used": 0,
        // rabbitmqadmin can't read a node without these fields. Hermod has no Erlang processes.
        "run_queue": 0,
        "proc_total": 0,
        "disk_free_limit": overview.disk.least_free,
    });
    let known =
        [("mem_used", process.resident_bytes), ("fd_used", process.open_files), ("fd_total", process.max_files)];
    let known = known.into_iter().filter_map(|(name, figure)| Some((name, figure?)));
    for (name, figure) in known {
        node[name] = json!(figure);
    }
    if let Json::Object(node) = &mut node {
        node.extend(counters::fields(&CHURN, &overview));
    }
    Ok(node)
}

/// Log-ins are not counted by their addresses, as in RabbitMQ by default.
async fn attempts_by_source(asker: Asker, State(source): Shared, Path(name): Path<String>) -> Answer {
    this_node(&asker, &source, &name)?;
    shown(json!([]))
}

pub(super) fn exchange_types() -> Vec<Json> {
    Broker::exchange_types().map(|name| json!({ "name": name, "enabled": true })).collect()
}

/// A change of the node itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeChange {
    /// Raises an alarm by hand, until it is cleared, or clears it.
    Alarm {
        /// `memory` or `disk`.
        resource: String,
        /// Whether the alarm is active from now on.
        up: bool,
    },
    /// Sets the limit of queued messages in memory until the next start. At the limit the memory
    /// alarm rises.
    MemoryLimit {
        /// The limit in bytes; at 0 the alarm is always active.
        bytes: u64,
    },
    /// Sets what must stay free on the disk, until the next start. Below it the disk alarm rises.
    DiskFreeLimit {
        /// The limit in bytes; at 0 there is none but the room that the journal needs.
        bytes: u64,
    },
}

impl Changes for NodeChange {
    fn told(&self) -> Told {
        match self {
            Self::Alarm { resource, up } => Told::of("alarm", ["", resource], format_args!("up={up}")),
            Self::MemoryLimit { bytes } => Told::of("memory_limit", ["", ""], format_args!("bytes={bytes}")),
            Self::DiskFreeLimit { bytes } => Told::of("disk_free_limit", ["", ""], format_args!("bytes={bytes}")),
        }
    }

    fn apply(self, broker: &Broker, _: Caller) -> Result<(u64, Ticket), Error> {
        match self {
            Self::Alarm { resource, up } => {
                broker.force_alarm(&resource, if up { Switch::On } else { Switch::Off })?;
            }
            Self::MemoryLimit { bytes } => {
                broker.set_memory_limit(bytes);
            }
            Self::DiskFreeLimit { bytes } => {
                broker.set_least_free(bytes);
            }
        }
        Ok((0, Ticket::NONE))
    }
}
