//! Tasks, which move, copy, redrive or delete the messages of a queue while their author does
//! something else. What a purge or a deletion takes can be kept, and brought back ([`kept`]).

pub(crate) mod kept;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use broker::{Broker, Error, TaskCounts, TaskId, TaskKind, TaskReport, TaskSpec, TaskState, TaskTarget, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{self, Answer, Asker, Document, Routes, Shared, done, make, shown, sum_up};
use crate::audit::Told;
use crate::change::{Caller, Changes, Refused};
use crate::listing::{Collection, Part};
use crate::resources::percent_encoded;
use crate::source::Source;

/// How long a plan counts at most.
const LONGEST_PLAN: Duration = Duration::from_secs(10);

/// Tasks that run or are remembered.
pub(crate) struct Tasks;

impl Collection for Tasks {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let vhosts = source.broker.vhosts();
        let tasks = vhosts.iter().flat_map(|vhost| source.broker.tasks(&vhost.name).unwrap_or_default());
        part.of_whole(tasks.map(|task| row(&task)))
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("tasks", &Tasks))
        .route("/api/tasks/{vhost}", get(in_vhost).post(start))
        .route("/api/tasks/{vhost}/{name}", get(one).delete(cancel))
        .route("/api/tasks/{vhost}/{name}/undo", post(undo))
}

async fn in_vhost(asker: Asker, State(source): Shared, Path(vhost): Path<String>) -> Answer {
    asker.looks_into(&source, &vhost)?;
    let rows = sum_up(&source, &asker, move |source| source.broker.tasks(&vhost)).await?.map_err(Refused::from)?;
    shown(rows.iter().map(row).collect::<Vec<_>>())
}

async fn one(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    let find = move |source: &Source, vhost: &str| {
        let tasks = source.broker.tasks(vhost).ok()?;
        tasks.iter().find(|task| task.name.to_string() == name).map(row)
    };
    api::one_in_vhost(asker, source, vhost, find).await
}

async fn start(
    asker: Asker,
    State(source): Shared,
    Path(vhost): Path<String>,
    Document(body): Document<TaskFields>,
) -> Answer {
    asker.looks_into(&source, &vhost)?;
    if body.dry_run {
        let caller = asker.caller();
        let planned = sum_up(&source, &asker, move |source| plan(&source.broker, &vhost, body, &caller)).await?;
        return shown(planned?);
    }
    let task = TaskChange::Start { vhost: vhost.clone(), task: body };
    let id = TaskId(make(&source, &asker, task).await?);
    Ok(begun(&vhost, id))
}

async fn undo(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    asker.looks_into(&source, &vhost)?;
    let id = TaskId(make(&source, &asker, TaskChange::Undo { vhost: vhost.clone(), name }).await?);
    Ok(begun(&vhost, id))
}

/// The answer for a task that has begun.
fn begun(vhost: &str, id: TaskId) -> Response {
    let location = format!("/api/tasks/{}/{id}", percent_encoded(vhost));
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], axum::Json(json!({ "name": id.to_string() })))
        .into_response()
}

async fn cancel(asker: Asker, State(source): Shared, Path((vhost, name)): Path<(String, String)>) -> Answer {
    asker.looks_into(&source, &vhost)?;
    make(&source, &asker, TaskChange::Cancel { vhost, name }).await?;
    done()
}

/// What a task would do.
///
/// # Errors
/// As for its start.
pub(crate) fn plan(broker: &Broker, vhost: &str, task: TaskFields, caller: &Caller) -> Result<PlannedRow, Refused> {
    let task = kept::as_planned(task);
    let begun = Instant::now();
    let wanted = || begun.elapsed() < LONGEST_PLAN;
    let counts = broker.plan_task(vhost, &task.spec(&caller.identity)?, &caller.identity, &wanted)?;
    let TaskCounts { taken, alive, homeless, refused } = counts;
    Ok(PlannedRow { taken, alive, homeless, refused, complete: wanted() })
}

/// What a task would do now, by the fate of the messages that it looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRow {
    /// Messages that would be moved, copied or deleted.
    pub taken: u64,
    /// Messages that never died, so that a redrive leaves them.
    pub alive: u64,
    /// Messages that have nowhere to go.
    pub homeless: u64,
    /// Messages for which a target is too full.
    pub refused: u64,
    /// Whether all messages were counted: counting ends after some seconds.
    pub complete: bool,
}

/// Where a task sends messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TaskTo {
    /// To a queue.
    Queue {
        /// Its name.
        queue: String,
    },
    /// Through an exchange.
    Exchange {
        /// Its name.
        exchange: String,
        /// The routing key; `None` for the one of each message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        routing_key: Option<String>,
    },
}

/// A task to start or to plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFields {
    /// `move`, `copy`, `redrive` or `delete`; `purge` or `delete-queue`, which can be undone.
    pub kind: String,
    /// The queue whose ready messages it takes.
    pub queue: String,
    /// Where they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TaskTo>,
    /// Only messages that this selector is true of.
    #[serde(default)]
    pub selector: String,
    /// No more messages than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// No more messages a second than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// How long messages are kept for an undo, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Only count them.
    #[serde(default)]
    pub dry_run: bool,
}

impl TaskFields {
    fn spec(self, author: &auth::Identity) -> Result<TaskSpec, Error> {
        let kind = TaskKind::parse(&self.kind).filter(|kind| *kind != TaskKind::Restore).ok_or_else(|| {
            Error::precondition(format!(
                "there is no task '{}', but move, copy, redrive, delete, purge and delete-queue",
                self.kind
            ))
        })?;
        kept::check(kind, &self)?;
        if self.rate == Some(0) {
            return Err(Error::precondition("a task needs a rate of at least 1 message a second, or none"));
        }
        let target = self.target.map(|target| match target {
            TaskTo::Queue { queue } => TaskTarget::Queue(queue),
            TaskTo::Exchange { exchange, routing_key } => TaskTarget::Exchange { name: exchange, routing_key },
        });
        let Self { queue, selector, limit, rate, .. } = self;
        Ok(TaskSpec { kind, queue, target, selector, limit, rate, author: author.user().to_owned(), undo: None })
    }
}

/// A change of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TaskChange {
    /// Starts a task.
    Start {
        /// Its vhost.
        vhost: String,
        /// The task.
        task: TaskFields,
    },
    /// Ends a task; what it has moved stays moved.
    Cancel {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
    /// Brings back what a purge or a deletion of a queue has kept.
    Undo {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
    },
}

impl Changes for TaskChange {
    fn told(&self) -> Told {
        match self {
            Self::Start { vhost, task } => {
                let TaskFields { kind, target, selector, limit, rate, keep_ms, .. } = task;
                let about = format_args!(
                    "kind={kind} target={target:?} selector={selector:?} limit={limit:?} rate={rate:?} keep_ms={keep_ms:?}"
                );
                Told::of("start_task", [vhost, &task.queue], about)
            }
            Self::Cancel { vhost, name } => Told::plain("cancel_task", [vhost, name]),
            Self::Undo { vhost, name } => Told::plain("undo_task", [vhost, name]),
        }
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        match self {
            Self::Start { vhost, task } => {
                let keep = task.keep_ms.map_or(kept::KEEP, Duration::from_millis);
                let spec = task.spec(&caller.identity)?;
                let (id, ticket) = match spec.kind.is_kept() {
                    true => kept::start(broker, &vhost, (spec, keep), &caller)?,
                    false => broker.start_task(&vhost, spec, &caller.identity)?,
                };
                Ok((id.0, ticket))
            }
            Self::Undo { vhost, name } => {
                let (id, ticket) = kept::undo(broker, &vhost, &name, &caller)?;
                Ok((id.0, ticket))
            }
            Self::Cancel { vhost, name } => Ok((0, broker.cancel_task(&vhost, &name, &caller.identity)?)),
        }
    }
}

fn row(task: &TaskReport) -> Json {
    let TaskReport { name, vhost, spec, state, counts, began_at, ended_at } = task;
    let target = spec.target.as_ref().map(|target| match target {
        TaskTarget::Queue(queue) => json!({ "queue": queue }),
        TaskTarget::Exchange { name, routing_key } => json!({ "exchange": name, "routing_key": routing_key }),
    });
    let reason = match state {
        TaskState::Stopped(reason) => Some(reason),
        _ => None,
    };
    json!({
        "name": name.to_string(),
        "vhost": vhost,
        "kind": spec.kind.name(),
        "queue": spec.queue,
        "target": target,
        "selector": spec.selector,
        "limit": spec.limit,
        "rate": spec.rate,
        "author": spec.author,
        "state": state.name(),
        "reason": reason,
        "taken": counts.taken,
        "alive": counts.alive,
        "homeless": counts.homeless,
        "refused": counts.refused,
        "began_at": began_at,
        "ended_at": ended_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_from_json_or_refused_by_name() {
        let read = |text: &str| serde_json::from_str::<TaskFields>(text).map_err(|error| error.to_string());
        let task = read(r#"{"kind": "move", "queue": "q", "target": {"exchange": "e", "routing_key": "k"}}"#).unwrap();
        let target = TaskTo::Exchange { exchange: "e".into(), routing_key: Some("k".into()) };
        assert_eq!((task.target, task.dry_run, task.rate), (Some(target), false, None));
        assert!(read(r#"{"kind": "move", "queue": "q", "speed": 1}"#).unwrap_err().contains("unknown field `speed`"));
        let spec =
            |text: &str| read(text).unwrap().spec(&auth::Identity::operator("test")).map_err(|error| error.to_string());
        assert!(spec(r#"{"kind": "drop", "queue": "q"}"#).unwrap_err().contains("no task 'drop', but move, copy"));
        assert!(
            spec(r#"{"kind": "delete", "queue": "q", "rate": 0}"#).unwrap_err().contains("at least 1 message a second")
        );
    }
}
