//! Tasks of operators, which move, copy or delete the messages of a queue.
//!
//! A task is a definition of its vhost. Its progress is logged in the group that moves messages, so
//! after a crash its counts are those of what has moved, and it goes on behind the last of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Appender, Group, Owner};
use parking_lot::Mutex;

use super::definitions::{DefinitionKey, Sort, definition_bytes};
use crate::store::facts::DEFINITION;
use crate::value::{Table, Value};

/// The name of a task, unique in a broker: a number in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub u64);

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What a task does with each message that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// It moves to the target.
    Move,
    /// It stays, and the target gets another one.
    Copy,
    /// It goes back to the queue in which it died first.
    Redrive,
    /// It is dropped.
    Delete,
    /// It moves to a queue that keeps it, so that this can be undone.
    Purge,
    /// The same; then its queue is deleted.
    DeleteQueue,
    /// It moves back from such a queue, which is deleted then.
    Restore,
}

impl TaskKind {
    const ALL: [Self; 7] =
        [Self::Move, Self::Copy, Self::Redrive, Self::Delete, Self::Purge, Self::DeleteQueue, Self::Restore];

    /// Its name in requests, reports and the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Redrive => "redrive",
            Self::Delete => "delete",
            Self::Purge => "purge",
            Self::DeleteQueue => "delete-queue",
            Self::Restore => "restore",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it needs a target.
    pub fn has_target(self) -> bool {
        !matches!(self, Self::Redrive | Self::Delete)
    }

    /// Whether its target is a queue that keeps messages, so that it can be undone.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Purge | Self::DeleteQueue)
    }

    /// Whether its queue is deleted once it has moved all.
    pub(crate) fn ends_queue(self) -> bool {
        matches!(self, Self::DeleteQueue | Self::Restore)
    }
}

/// Where a task sends messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskTarget {
    /// To a queue of the same vhost.
    Queue(String),
    /// Through an exchange of the same vhost.
    Exchange {
        /// Its name.
        name: String,
        /// The routing key; `None` for the one of each message.
        routing_key: Option<String>,
    },
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSpec {
    /// What it does.
    pub kind: TaskKind,
    /// The queue whose ready messages it takes.
    pub queue: String,
    /// Where they go; only of a kind that has a target.
    pub target: Option<TaskTarget>,
    /// Only messages that this selector is true of; blank for all.
    pub selector: String,
    /// No more messages than these.
    pub limit: Option<u64>,
    /// No more messages a second than these.
    pub rate: Option<u32>,
    /// The user that asked for it.
    pub author: String,
    /// What an undo needs besides the messages, in the words of the program that asked for it.
    pub undo: Option<String>,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// It has messages left to look at.
    Running,
    /// It has looked at all that there were when it began.
    Done,
    /// Someone ended it.
    Cancelled,
    /// It ended itself for this reason.
    Stopped(String),
}

impl TaskState {
    /// Its name in reports and the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Stopped(_) => "stopped",
        }
    }

    fn read(name: &str, reason: Option<&str>) -> Option<Self> {
        let reason = reason.unwrap_or_default().to_owned();
        [Self::Running, Self::Done, Self::Cancelled, Self::Stopped(reason)].into_iter().find(|one| one.name() == name)
    }
}

/// How many messages a task has looked at, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskCounts {
    /// Those that were moved, copied or deleted.
    pub taken: u64,
    /// Those that never died, so that a redrive leaves them.
    pub alive: u64,
    /// Those that have nowhere to go.
    pub homeless: u64,
    /// Those for which a target is too full, or the log too small.
    pub refused: u64,
}

/// What changes while a task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskProgress {
    pub(crate) state: TaskState,
    pub(crate) counts: TaskCounts,
    /// Milliseconds since 1970, like the next.
    pub(crate) began_at: u64,
    pub(crate) ended_at: Option<u64>,
    /// For each lane of the queue, the first entry that it has not looked at.
    pub(crate) at: Vec<u64>,
    /// For each lane, the first entry that came after the task.
    pub(crate) until: Vec<u64>,
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: Owner,
    pub(crate) vhost: Owner,
    pub(crate) spec: TaskSpec,
    pub(crate) progress: Mutex<TaskProgress>,
}

const KIND: &str = "kind";
const QUEUE: &str = "queue";
const TARGET_QUEUE: &str = "target-queue";
const TARGET_EXCHANGE: &str = "target-exchange";
const TARGET_KEY: &str = "target-key";
const SELECTOR: &str = "selector";
const LIMIT: &str = "limit";
const RATE: &str = "rate";
const AUTHOR: &str = "author";
const UNDO: &str = "undo";
const STATE: &str = "state";
const REASON: &str = "reason";
const TAKEN: &str = "taken";
const ALIVE: &str = "alive";
const HOMELESS: &str = "homeless";
const REFUSED: &str = "refused";
const BEGAN: &str = "began";
const ENDED: &str = "ended";
const AT: &str = "at";
const UNTIL: &str = "until";

impl TaskSpec {
    fn write(&self, table: &mut Table) {
        table.set(KIND, Value::Text(self.kind.name().to_owned()));
        table.set(QUEUE, Value::Text(self.queue.clone()));
        match &self.target {
            None => {}
            Some(TaskTarget::Queue(queue)) => table.set(TARGET_QUEUE, Value::Text(queue.clone())),
            Some(TaskTarget::Exchange { name, routing_key }) => {
                table.set(TARGET_EXCHANGE, Value::Text(name.clone()));
                routing_key.iter().for_each(|key| table.set(TARGET_KEY, Value::Text(key.clone())));
            }
        }
        table.set(SELECTOR, Value::Text(self.selector.clone()));
        self.limit.into_iter().for_each(|limit| table.set(LIMIT, whole(limit)));
        self.rate.into_iter().for_each(|rate| table.set(RATE, whole(rate.into())));
        table.set(AUTHOR, Value::Text(self.author.clone()));
        self.undo.iter().for_each(|undo| table.set(UNDO, Value::Text(undo.clone())));
    }

    fn read(table: &Table) -> Option<Self> {
        let text = |name| table.get(name).and_then(Value::as_text).map(str::to_owned);
        let exchange = |name| TaskTarget::Exchange { name, routing_key: text(TARGET_KEY) };
        Some(Self {
            kind: TaskKind::parse(&text(KIND)?)?,
            queue: text(QUEUE)?,
            target: text(TARGET_QUEUE).map(TaskTarget::Queue).or_else(|| text(TARGET_EXCHANGE).map(exchange)),
            selector: text(SELECTOR)?,
            limit: count(table, LIMIT),
            rate: count(table, RATE).and_then(|rate| u32::try_from(rate).ok()),
            author: text(AUTHOR)?,
            undo: text(UNDO),
        })
    }
}

impl TaskProgress {
    fn write(&self, table: &mut Table) {
        table.set(STATE, Value::Text(self.state.name().to_owned()));
        if let TaskState::Stopped(reason) = &self.state {
            table.set(REASON, Value::Text(reason.clone()));
        }
        let TaskCounts { taken, alive, homeless, refused } = self.counts;
        for (name, count) in [(TAKEN, taken), (ALIVE, alive), (HOMELESS, homeless), (REFUSED, refused)] {
            table.set(name, whole(count));
        }
        table.set(BEGAN, whole(self.began_at));
        self.ended_at.into_iter().for_each(|at| table.set(ENDED, whole(at)));
        for (name, places) in [(AT, &self.at), (UNTIL, &self.until)] {
            table.set(name, Value::Array(places.iter().map(|place| Value::I64(place.cast_signed())).collect()));
        }
    }

    fn read(table: &Table) -> Option<Self> {
        let text = |name| table.get(name).and_then(Value::as_text);
        let places = |name| match table.get(name) {
            Some(Value::Array(places)) => {
                places.iter().map(|place| Some(place.as_integer()?.cast_unsigned())).collect()
            }
            _ => None,
        };
        Some(Self {
            state: TaskState::read(text(STATE)?, text(REASON))?,
            counts: TaskCounts {
                taken: count(table, TAKEN)?,
                alive: count(table, ALIVE)?,
                homeless: count(table, HOMELESS)?,
                refused: count(table, REFUSED)?,
            },
            began_at: count(table, BEGAN)?,
            ended_at: count(table, ENDED),
            at: places(AT)?,
            until: places(UNTIL)?,
        })
    }
}

impl Task {
    /// The task with these fields.
    pub(crate) fn read(id: Owner, vhost: Owner, fields: &Table) -> Option<Self> {
        let progress = Mutex::new(TaskProgress::read(fields)?);
        Some(Self { id, vhost, spec: TaskSpec::read(fields)?, progress })
    }

    /// Its name in requests and reports.
    pub(crate) fn name(&self) -> TaskId {
        TaskId(self.id)
    }

    /// Ends it without a record.
    pub(crate) fn stop_with_vhost(&self) {
        self.progress.lock().state = TaskState::Stopped("its vhost was deleted".to_owned());
    }

    pub(crate) fn is_running(&self) -> bool {
        self.progress.lock().state == TaskState::Running
    }

    /// The bytes of its fact.
    pub(crate) fn bytes(&self, progress: &TaskProgress) -> Vec<u8> {
        let mut fields = Table::default();
        self.spec.write(&mut fields);
        progress.write(&mut fields);
        let bytes = definition_bytes(&DefinitionKey::new(Sort::Task, self.vhost, &self.name().to_string()), &fields);
        debug_assert!(bytes.is_ok(), "a task has no nested fields");
        bytes.unwrap_or_default()
    }

    /// Logs what there is to say about it.
    pub(crate) fn log(&self, progress: &TaskProgress, group: Option<Group>, appender: &mut Appender<'_>) {
        appender.fact(group, self.id, DEFINITION, &[&self.bytes(progress)]);
    }
}

/// The tasks of a vhost, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct TaskList(BTreeMap<Owner, Arc<Task>>);

impl TaskList {
    pub(crate) fn put(&mut self, task: Arc<Task>) {
        self.0.insert(task.id, task);
    }

    pub(crate) fn remove(&mut self, id: Owner) {
        self.0.remove(&id);
    }

    pub(crate) fn by_id(&self, id: Owner) -> Option<&Arc<Task>> {
        self.0.get(&id)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Task>> {
        self.0.values()
    }
}

/// A count, in a table.
fn whole(count: u64) -> Value {
    Value::I64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn count(table: &Table, name: &str) -> Option<u64> {
    table.get(name)?.as_integer().and_then(|count| u64::try_from(count).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::definitions::read_definition;

    fn task(target: Option<TaskTarget>, state: TaskState) -> Task {
        let kind = if target.is_some() { TaskKind::Move } else { TaskKind::Delete };
        let (queue, selector, author) = ("q".to_owned(), "n = 1".to_owned(), "ada".to_owned());
        let spec =
            TaskSpec { kind, queue, target, selector, limit: Some(7), rate: None, author, undo: Some("{}".to_owned()) };
        let counts = TaskCounts { taken: 1, alive: 2, homeless: 3, refused: 4 };
        let (at, until) = (vec![1, 4 << 48 | 2], vec![9, (-4_i64 << 48).cast_unsigned()]);
        let progress = TaskProgress { state, counts, began_at: 5, ended_at: Some(6), at, until };
        Task { id: 300, vhost: 3, spec, progress: Mutex::new(progress) }
    }

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let exchange = |key: Option<&str>| TaskTarget::Exchange { name: "e".into(), routing_key: key.map(Into::into) };
        let targets = [None, Some(TaskTarget::Queue("other".into())), Some(exchange(None)), Some(exchange(Some("")))];
        let states = [TaskState::Running, TaskState::Done, TaskState::Cancelled, TaskState::Stopped("why".into())];
        for (target, state) in targets.into_iter().zip(states) {
            let task = task(target, state);
            let progress = task.progress.lock().clone();
            let (key, fields) = read_definition(&task.bytes(&progress)).unwrap();
            assert_eq!(key, DefinitionKey::new(Sort::Task, 3, "12c"));
            let read = Task::read(300, 3, &fields).unwrap();
            assert_eq!((&read.spec, &*read.progress.lock()), (&task.spec, &progress));
        }
    }
}
