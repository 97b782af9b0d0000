//! Purges and deletions of queues that can be undone: their messages move to a queue that keeps
//! them for a time.
//!
//! That queue is an ordinary one of the same vhost, which the broker declares and which expires. So
//! what is kept is seen, counted, and survives a restart like anything else. What an undo of a
//! deletion needs besides, the queue's declaration and its bindings, is in the record of the task.

use std::time::{Duration, Instant};

use auth::Identity;
use broker::{
    BindingSpec, Broker, DeleteIf, DestinationName, Error, QueueReport, QueueSpec, TaskId, TaskKind, TaskReport,
    TaskSpec, TaskState, TaskTarget, Ticket,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::TaskFields;
use crate::change::{Caller, client};
use crate::json::{object, table};

/// How long messages are kept unless something else is asked for.
pub(crate) const KEEP: Duration = Duration::from_mins(15);
/// Bounds of that time.
const BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_hours(24 * 7)];
/// What the names of the queues begin with.
const PREFIX: &str = "undo.";

/// A queue as it was declared, with what is bound to it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Declaration {
    durable: bool,
    auto_delete: bool,
    arguments: Map<String, Json>,
    bindings: Vec<Bound>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Bound {
    source: String,
    routing_key: String,
    arguments: Map<String, Json>,
}

/// The task that counts what this one would take.
pub(super) fn as_planned(task: TaskFields) -> TaskFields {
    match TaskKind::parse(&task.kind) {
        Some(kind) if kind.is_kept() && check(kind, &task).is_ok() => {
            TaskFields { kind: TaskKind::Delete.name().to_owned(), keep_ms: None, ..task }
        }
        _ => task,
    }
}

/// Checks what goes together.
pub(super) fn check(kind: TaskKind, task: &TaskFields) -> Result<(), Error> {
    let (name, has_part) = (kind.name(), !task.selector.is_empty() || task.limit.is_some());
    match task.keep_ms.map(Duration::from_millis) {
        Some(_) if !kind.is_kept() => {
            Err(Error::precondition(format!("{name} keeps nothing for an undo: leave out keep_ms, or use purge")))
        }
        Some(keep) if keep < BOUNDS[0] || keep > BOUNDS[1] => {
            Err(Error::precondition("messages are kept for an undo for at least a second and at most 7 days"))
        }
        _ if kind.is_kept() && task.target.is_some() => Err(Error::precondition(format!(
            "{name} keeps messages in a queue of its own: leave out the target, or use move"
        ))),
        _ if kind == TaskKind::DeleteQueue && has_part => Err(Error::precondition(
            "a queue is deleted with all its messages: leave out selector and limit, or use purge",
        )),
        _ => Ok(()),
    }
}

/// Begins a purge or a deletion that keeps messages for that long.
///
/// # Errors
/// As [`Broker::start_task`], and `Precondition` for a queue of one connection.
pub(super) fn start(
    broker: &Broker,
    vhost: &str,
    (mut spec, keep): (TaskSpec, Duration),
    caller: &Caller,
) -> Result<(TaskId, Ticket), Error> {
    let known = broker.some_queues(vhost, &[spec.queue.as_str().into()]);
    let queue =
        known.first().ok_or_else(|| Error::not_found(format!("no queue '{}' in vhost '{vhost}'", spec.queue)))?;
    if queue.declared.exclusive {
        return Err(Error::precondition(format!(
            "queue '{}' belongs to one connection and goes with it, so nothing of it can be kept",
            spec.queue
        )));
    }
    if spec.kind == TaskKind::DeleteQueue && queue.declared.subscription.is_some() {
        return Err(Error::precondition(format!(
            "queue '{}' belongs to a subscription, which can't be brought back: delete it at once",
            spec.queue
        )));
    }
    if spec.queue.starts_with(PREFIX) {
        return Err(Error::precondition(format!(
            "queue '{}' keeps messages for an undo: purge or delete it at once",
            spec.queue
        )));
    }
    if spec.kind == TaskKind::DeleteQueue {
        let declaration = Declaration {
            durable: queue.declared.durable,
            auto_delete: queue.declared.auto_delete,
            arguments: object(&queue.declared.arguments),
            bindings: bindings(broker, vhost, &spec.queue),
        };
        spec.undo = Some(json!(declaration).to_string());
    }
    let name = keeping(broker, vhost, queue, keep)?;
    spec.target = Some(TaskTarget::Queue(name.clone()));
    broker.start_task(vhost, spec, &caller.identity).inspect_err(|_| {
        // It is empty, and would expire by itself.
        if let Ok(mut client) = client(broker, vhost, operator()) {
            let _ = client.delete_queue(&name, DeleteIf { unused: true, empty: true }, Instant::now());
        }
    })
}

/// Declares the queue that keeps messages. What finds no room in it stays where it is.
fn keeping(broker: &Broker, vhost: &str, source: &QueueReport, keep: Duration) -> Result<String, Error> {
    let mut number = jiff::Timestamp::now().as_millisecond();
    while broker.has_queue(vhost, &format!("{PREFIX}{number:x}")) {
        number += 1;
    }
    let name = format!("{PREFIX}{number:x}");
    let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    let Json::Object(arguments) = json!({ "x-expires": keep, "x-overflow": "reject-publish" }) else {
        return Err(Error::precondition("the arguments are no object"));
    };
    let arguments = table(&arguments).map_err(Error::precondition)?;
    let spec = QueueSpec {
        name: name.clone(),
        durable: source.declared.durable,
        exclusive: false,
        auto_delete: false,
        arguments,
    };
    client(broker, vhost, operator())?.declare_queue(&spec, Instant::now())?;
    Ok(name)
}

/// Begins to bring back what a task has kept.
///
/// # Errors
/// `NotFound` without the task, its queue or what it has kept; `Precondition` for a task that keeps
/// nothing or has not ended; `AccessRefused` for another user's.
pub(super) fn undo(broker: &Broker, vhost: &str, name: &str, caller: &Caller) -> Result<(TaskId, Ticket), Error> {
    let tasks = broker.tasks(vhost)?;
    let missing = || Error::not_found(format!("no task '{name}' in vhost '{vhost}'"));
    let task = tasks.into_iter().find(|task| task.name.to_string() == name).ok_or_else(missing)?;
    let kept = kept_in(&task).ok_or_else(|| {
        Error::precondition(format!(
            "task '{name}' ({}) keeps nothing that could be brought back",
            task.spec.kind.name()
        ))
    })?;
    let spec = &task.spec;
    if spec.author != caller.identity.user() && !broker.authority().is_tagged(&caller.identity, "administrator") {
        let text = format!("task '{name}' is of user '{}': only that user and administrators undo it", spec.author);
        return Err(Error::refused(text));
    }
    if task.state == TaskState::Running {
        return Err(Error::precondition(format!("task '{name}' runs: wait for its end, or cancel it")));
    }
    if !broker.has_queue(vhost, kept) {
        return Err(Error::not_found(format!("what task '{name}' took is not kept any more (queue '{kept}')")));
    }
    if !broker.has_queue(vhost, &spec.queue) {
        let undo = spec.undo.as_deref().ok_or_else(|| {
            Error::not_found(format!(
                "queue '{}' was deleted since: declare it, or move the messages of queue '{kept}' to another one",
                spec.queue
            ))
        })?;
        declare_again(broker, vhost, (&spec.queue, undo), caller)?;
    }
    let back = TaskSpec {
        kind: TaskKind::Restore,
        queue: kept.to_owned(),
        target: Some(TaskTarget::Queue(spec.queue.clone())),
        selector: String::new(),
        limit: None,
        rate: spec.rate,
        author: caller.identity.user().to_owned(),
        undo: None,
    };
    broker.start_task(vhost, back, &Identity::operator(caller.identity.user()))
}

/// The queue with what a task has taken, if it can be undone.
pub(crate) fn kept_in(task: &TaskReport) -> Option<&str> {
    match &task.spec.target {
        Some(TaskTarget::Queue(queue)) if task.spec.kind.is_kept() => Some(queue),
        _ => None,
    }
}

/// Declares and binds a queue as it was, with the rights of the caller.
fn declare_again(broker: &Broker, vhost: &str, (name, undo): (&str, &str), caller: &Caller) -> Result<(), Error> {
    let declared: Declaration = serde_json::from_str(undo).map_err(|error| Error::precondition(error.to_string()))?;
    let now = Instant::now();
    let mut client = client(broker, vhost, caller.clone())?;
    let Declaration { durable, auto_delete, arguments, bindings } = declared;
    let arguments = table(&arguments).map_err(Error::precondition)?;
    client
        .declare_queue(&QueueSpec { name: name.to_owned(), durable, exclusive: false, auto_delete, arguments }, now)?;
    for Bound { source, routing_key, arguments } in bindings {
        if broker.has_exchange(vhost, &source) {
            let arguments = table(&arguments).map_err(Error::precondition)?;
            client.bind(
                &BindingSpec {
                    source,
                    destination: DestinationName::Queue(name.to_owned()),
                    key: routing_key,
                    arguments,
                },
                now,
            )?;
        }
    }
    Ok(())
}

fn bindings(broker: &Broker, vhost: &str, queue: &str) -> Vec<Bound> {
    let bindings = broker.bindings_to_queue(vhost, queue).into_iter().filter(|binding| !binding.source.is_empty());
    bindings
        .map(|binding| Bound {
            source: binding.source,
            routing_key: binding.key,
            arguments: object(&binding.arguments),
        })
        .collect()
}

fn operator() -> Caller {
    Caller { identity: Identity::operator("undo"), from: "undo".to_owned() }
}
