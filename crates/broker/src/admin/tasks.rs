//! Planning, starting, cancelling and listing tasks. What takes them forward is in `tasks.rs`.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use auth::{Identity, Resource, Right};
use journal::Ticket;
use parking_lot::Mutex;

use crate::broker::Broker;
use crate::catalog::change::Change;
use crate::catalog::tasks::{Task, TaskCounts, TaskId, TaskKind, TaskProgress, TaskSpec, TaskState, TaskTarget};
use crate::engine::admission::Asker;
use crate::error::Error;
use crate::routing::Load;
use crate::tasks::finish;
use crate::tasks::run::{Run, RunMode, Stepped};

/// Tasks of a vhost that run at a time.
const RUNNING: usize = 16;
/// Tasks of a vhost that are remembered after their end.
const KEPT: usize = 50;
/// The tag of users whose tasks need no other rights.
const ADMINISTRATOR: &str = "administrator";

/// A task, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Its name.
    pub name: TaskId,
    /// Its vhost.
    pub vhost: String,
    /// What was asked for.
    pub spec: TaskSpec,
    /// How far it is.
    pub state: TaskState,
    /// What became of the messages that it has looked at.
    pub counts: TaskCounts,
    /// Milliseconds since 1970.
    pub began_at: u64,
    /// Milliseconds since 1970, once it has ended.
    pub ended_at: Option<u64>,
}

impl Broker {
    /// Counts what a task would do now.
    ///
    /// # Errors
    /// As [`Broker::start_task`].
    pub fn plan_task(
        &self,
        vhost: &str,
        spec: &TaskSpec,
        author: &Identity,
        wanted: &dyn Fn() -> bool,
    ) -> Result<TaskCounts, Error> {
        self.authorize_task(vhost, spec, author)?;
        let mut run = Run::begin(&self.engine, vhost, spec, RunMode::Plan)?;
        while wanted() && run.step(&self.engine, u64::MAX, None, &mut |_| {})? == Stepped::On {}
        Ok(run.counts)
    }

    /// Begins a task. Returns its name, and the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost, the queue or the target. `Precondition` for an invalid
    /// selector or target, while another task takes from the queue, and for too many tasks.
    /// `AccessRefused` where its author may not read from the queue or write to the target.
    pub fn start_task(&self, vhost: &str, spec: TaskSpec, author: &Identity) -> Result<(TaskId, Ticket), Error> {
        self.authorize_task(vhost, &spec, author)?;
        let engine = &self.engine;
        let run = Run::begin(engine, vhost, &spec, RunMode::Plan)?;
        let vhost = engine.existing_vhost(vhost)?;
        let mut tables = vhost.tables.write();
        if tables.is_ended() {
            return Err(Error::not_found(format!("no vhost '{}'", vhost.name)));
        }
        let running: Vec<_> = tables.tasks.iter().filter(|task| task.is_running()).collect();
        if let Some(other) = running.iter().find(|task| task.spec.queue == spec.queue) {
            let (name, kind, queue) = (other.name(), other.spec.kind.name(), &spec.queue);
            return Err(Error::precondition(format!(
                "task {name} ({kind}) takes messages from queue '{queue}': wait for its end, or cancel it"
            )));
        }
        if running.len() >= RUNNING {
            return Err(Error::precondition(format!(
                "{RUNNING} tasks run in vhost '{}': wait for one of them",
                vhost.name
            )));
        }
        let (began_at, until) = (engine.clock.unix_ms(), run.until());
        let (state, counts) = (TaskState::Running, TaskCounts::default());
        let progress = TaskProgress { state, counts, began_at, ended_at: None, at: Vec::new(), until };
        let task = Task { id: engine.owner(vhost.log()), vhost: vhost.id, spec, progress: Mutex::new(progress) };
        let logged = task.bytes(&task.progress.lock()).len() as u64;
        engine.admit_load(
            &format!("task of queue '{}'", task.spec.queue),
            Load { logged, memory: 0 },
            Asker::Operator,
        )?;
        let ended: Vec<_> = tables.tasks.iter().rev().filter(|task| !task.is_running()).skip(KEPT).cloned().collect();
        for task in ended {
            engine.change(&vhost, &mut tables, Change::EndTask(task));
        }
        let task = Arc::new(task);
        let ticket = engine.change(&vhost, &mut tables, Change::Task(Arc::clone(&task)));
        drop(tables);
        self.tasks.push(&vhost, &task);
        Ok((task.name(), ticket))
    }

    /// Ends a task; what it has moved stays moved. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost or the task, `Precondition` for one that has ended,
    /// `AccessRefused` as for its start.
    pub fn cancel_task(&self, vhost: &str, name: &str, author: &Identity) -> Result<Ticket, Error> {
        let known = self.engine.existing_vhost(vhost)?;
        let task = known.tables.read().tasks.iter().find(|task| task.name().to_string() == name).cloned();
        let task = task.ok_or_else(|| Error::not_found(format!("no task '{name}' in vhost '{vhost}'")))?;
        self.authorize_task(vhost, &task.spec, author)?;
        let ticket = finish(&self.engine, &known, &task, TaskState::Cancelled);
        if ticket.is_none() {
            return Err(Error::precondition(format!("task '{name}' has ended")));
        }
        self.tasks.wake();
        Ok(ticket)
    }

    /// The tasks of a vhost that run or are remembered, the newest first.
    ///
    /// # Errors
    /// `NotFound` without the vhost.
    pub fn tasks(&self, vhost: &str) -> Result<Vec<TaskReport>, Error> {
        let vhost = self.engine.existing_vhost(vhost)?;
        let tasks: Vec<_> = vhost.tables.read().tasks.iter().rev().cloned().collect();
        Ok(tasks.iter().map(|task| report(&vhost.name, task)).collect())
    }

    /// Takes all tasks a step forward. Returns when to do so again, at the latest, unless `waker`
    /// is woken before; `None` while there is no task. One thread runs it.
    pub fn run_tasks(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        self.tasks.run(&self.engine, now, waker)
    }

    /// A task needs the rights of a client that does the same. A redrive goes to queues that are
    /// not known before, so it needs an administrator.
    fn authorize_task(&self, vhost: &str, spec: &TaskSpec, author: &Identity) -> Result<(), Error> {
        let authority = &self.engine.authority;
        if authority.is_tagged(author, ADMINISTRATOR) {
            return Ok(());
        }
        if spec.kind == TaskKind::Redrive {
            return Err(Error::refused(format!(
                "a redrive writes to the queues in which messages died first: only users with the tag '{ADMINISTRATOR}' may"
            )));
        }
        let ask = |resource: Resource<'_>, right| {
            let asked = authority.authorize(author, vhost, resource, right);
            asked.map_err(|denied| Error::refused(format!("{}: {denied}", spec.kind.name())))
        };
        let right = if spec.kind == TaskKind::DeleteQueue { Right::Configure } else { Right::Read };
        ask(Resource::queue(&spec.queue), right)?;
        match &spec.target {
            // A queue that the broker has made for this.
            _ if spec.kind.is_kept() => Ok(()),
            None => Ok(()),
            // As a publish to the default exchange, whose key is the queue's name.
            Some(TaskTarget::Queue(_)) => ask(Resource::exchange(""), Right::Write),
            Some(TaskTarget::Exchange { name, .. }) => ask(Resource::exchange(name), Right::Write),
        }
    }
}

fn report(vhost: &str, task: &Task) -> TaskReport {
    let TaskProgress { state, counts, began_at, ended_at, .. } = task.progress.lock().clone();
    TaskReport {
        name: task.name(),
        vhost: vhost.to_owned(),
        spec: task.spec.clone(),
        state,
        counts,
        began_at,
        ended_at,
    }
}
