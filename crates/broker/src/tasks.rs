//! Tasks: long work on the messages of a queue, which goes on without its author and over restarts.
//!
//! A task is logged before its author has an answer. One thread runs [`Tasks::run`], which gives
//! each task a step in turn. A task waits while memory is full or the disk has no room, keeps
//! to its rate, and stops itself when most of what it sent dies again.

pub(crate) mod run;
mod way;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use journal::Ticket;
use parking_lot::{Mutex, MutexGuard};

use crate::catalog::Vhost;
use crate::catalog::tasks::{Task, TaskKind, TaskState};
use crate::engine::Engine;
use crate::queue::Queue;
use run::{Run, Stepped};

/// The pause of a task that waits for room.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause of a task whose moves are not durable yet.
const FLUSH: Duration = Duration::from_millis(5);
/// A task that sends messages to consumers looks, after so many, whether they die again.
const TRIED: u64 = 100;
/// How long the consumers of a target have for them.
const TRIAL: Duration = Duration::from_secs(1);
/// A task with a rate takes those of so many seconds in one step.
const TOGETHER: f64 = 0.1;
/// How often a task that deletes its queue looks for messages that came while it ran.
const ROUNDS: u32 = 16;
/// Queues whose deaths a task watches at most.
const WATCHED: usize = 16;

/// The tasks that run. One thread takes them forward.
#[derive(Default)]
pub(crate) struct Tasks {
    running: Mutex<Vec<RunningTask>>,
    begun: Mutex<Begun>,
}

/// What others leave for the thread.
#[derive(Default)]
struct Begun {
    tasks: Vec<(Arc<Vhost>, Arc<Task>)>,
    waker: Option<Waker>,
}

/// A task while it runs.
struct RunningTask {
    vhost: Arc<Vhost>,
    task: Arc<Task>,
    /// Or why it can't run.
    run: Result<Run, String>,
    pace: Pace,
    watch: Watch,
    /// How often it has begun again.
    rounds: u32,
    /// It has nothing to do before this.
    due: Instant,
    /// It ends so once its moves are durable.
    ending: Option<TaskState>,
}

/// How many messages a task may take now.
struct Pace {
    rate: Option<u32>,
    /// Messages that it may take, and when that was.
    allowance: (f64, Instant),
}

impl Pace {
    fn new(rate: Option<u32>, now: Instant) -> Self {
        Self { rate, allowance: (1.0, now) }
    }

    /// How many, or how long it has to wait for the next one.
    fn allowed(&mut self, now: Instant) -> Result<u64, Duration> {
        let Some(rate) = self.rate.map(|rate| f64::from(rate.max(1))) else { return Ok(u64::MAX) };
        let (left, at) = self.allowance;
        // No more than those of one second come together.
        let left = (left + now.saturating_duration_since(at).as_secs_f64() * rate).min(rate);
        self.allowance = (left, now);
        // A step reads as many messages as it may look at, so it waits until it may take several.
        let least = (rate * TOGETHER).max(1.0);
        if left < least {
            return Err(Duration::from_secs_f64((least - left) / rate));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 1 to a u32")]
        let whole = left as u64;
        Ok(whole)
    }

    fn took(&mut self, count: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a step takes few")]
        let count = count as f64;
        self.allowance.0 -= count;
    }
}

/// Whether what a task sent dies again.
#[derive(Default)]
struct Watch {
    /// Queues that got some, and how many messages had died in each before.
    queues: Vec<(Arc<Queue>, u64)>,
    sent: u64,
    tried: bool,
}

impl Watch {
    fn note(&mut self, queue: &Arc<Queue>, engine: &Engine) {
        self.sent += 1;
        if self.queues.len() < WATCHED && !self.queues.iter().any(|(known, _)| known.id == queue.id) {
            self.queues.push((Arc::clone(queue), queue.dead_lettered(engine)));
        }
    }

    /// How many have died, and the queue of most of them.
    fn died(&self, engine: &Engine) -> (u64, &str) {
        let deaths = self.queues.iter().map(|(queue, before)| (queue.dead_lettered(engine) - before, &*queue.name));
        let most = deaths.clone().max().map_or("", |(_, name)| name);
        (deaths.map(|(count, _)| count).sum(), most)
    }

    /// The reason why a task should send no more.
    fn verdict(&self, engine: &Engine) -> Option<String> {
        let (died, queue) = self.died(engine);
        (self.sent >= TRIED && died * 2 > self.sent).then(|| {
            format!("queue '{queue}' dead-letters most of what comes: {died} of {} messages died again", self.sent)
        })
    }
}

impl Tasks {
    /// Hands a task to the thread.
    pub(crate) fn push(&self, vhost: &Arc<Vhost>, task: &Arc<Task>) {
        let mut begun = self.begun.lock();
        begun.tasks.push((Arc::clone(vhost), Arc::clone(task)));
        begun.waker.iter().for_each(Waker::wake_by_ref);
    }

    /// The thread looks at all tasks again.
    pub(crate) fn wake(&self) {
        self.begun.lock().waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Takes all tasks a step forward. Returns when to do so again; `None` while there is no task.
    pub(crate) fn run(&self, engine: &Engine, now: Instant, waker: &Waker) -> Option<Instant> {
        let mut running = self.running(engine, now, waker);
        running.retain_mut(|task| task.step(engine, now));
        running.iter().map(|task| task.due).min()
    }

    /// Takes up the tasks of the last run.
    pub(crate) fn resume(&self, engine: &Engine) {
        for vhost in engine.catalog.vhosts() {
            let tasks: Vec<_> = vhost.tables.read().tasks.iter().filter(|task| task.is_running()).cloned().collect();
            tasks.iter().for_each(|task| self.push(&vhost, task));
        }
    }

    /// Those that run, with those that began meanwhile.
    fn running(&self, engine: &Engine, now: Instant, waker: &Waker) -> MutexGuard<'_, Vec<RunningTask>> {
        let mut running = self.running.lock();
        let mut begun = self.begun.lock();
        begun.waker = Some(waker.clone());
        running.extend(begun.tasks.drain(..).map(|(vhost, task)| RunningTask::new(engine, vhost, task, now)));
        running
    }
}

impl RunningTask {
    fn new(engine: &Engine, vhost: Arc<Vhost>, task: Arc<Task>, now: Instant) -> Self {
        let run = Run::resume(engine, &vhost.name, &task).map_err(|error| error.to_string());
        let (pace, watch) = (Pace::new(task.spec.rate, now), Watch::default());
        Self { vhost, task, run, pace, watch, rounds: 0, due: now, ending: None }
    }

    /// Takes a step if it is due. False when the task has ended.
    fn step(&mut self, engine: &Engine, now: Instant) -> bool {
        if now < self.due {
            return true;
        }
        if self.vhost.tables.read().is_ended() || !self.task.is_running() {
            return false;
        }
        if let Some(state) = self.ending.take() {
            return !self.end(engine, state, now);
        }
        match self.advance(engine, now) {
            Ok(None) => true,
            Ok(Some(state)) => !self.end(engine, state, now),
            Err(reason) => !self.end(engine, TaskState::Stopped(reason), now),
        }
    }

    /// Moves some messages. Returns its last state when there are no more, or why it can't go on.
    fn advance(&mut self, engine: &Engine, now: Instant) -> Result<Option<TaskState>, String> {
        let run = self.run.as_mut().map_err(|reason| reason.clone())?;
        if run.queue().lock(engine).is_deleted() {
            return Err(format!("queue '{}' was deleted", run.queue().name));
        }
        if self.task.spec.kind != TaskKind::Delete && engine.memory.is_full() {
            self.due = now + PAUSE;
            return Ok(None);
        }
        let most = match self.pace.allowed(now) {
            Ok(most) => most,
            Err(wait) => {
                self.due = now + wait;
                return Ok(None);
            }
        };
        let (before, watch) = (run.counts.taken, &mut self.watch);
        let stepped = run
            .step(engine, most.min(TRIED), Some(&self.task), &mut |queue| watch.note(queue, engine))
            .map_err(|error| error.to_string())?;
        let taken = run.counts.taken - before;
        self.pace.took(taken);
        if self.task.spec.kind == TaskKind::Redrive {
            engine.totals.deaths.redriven.add(taken);
        }
        if let Some(reason) = self.watch.verdict(engine) {
            return Err(reason);
        }
        match stepped {
            Stepped::End => return self.looked_at_all(engine),
            Stepped::NoRoom => self.due = now + PAUSE,
            Stepped::On if self.watch.sent >= TRIED && !self.watch.tried => {
                self.watch.tried = true;
                self.due = now + TRIAL;
            }
            Stepped::On => {}
        }
        Ok(None)
    }

    /// It has looked at everything. A queue that is to be deleted may have got more meanwhile, and
    /// is looked at again.
    fn looked_at_all(&mut self, engine: &Engine) -> Result<Option<TaskState>, String> {
        let run = self.run.as_mut().map_err(|reason| reason.clone())?;
        if !self.task.spec.kind.ends_queue() {
            return Ok(Some(TaskState::Done));
        }
        let (left, queue) = (run.counts.refused + run.counts.homeless, &run.queue().name);
        if left > 0 {
            return Err(format!("{left} messages found no place, so queue '{queue}' is not deleted"));
        }
        if run.queue().lock(engine).ready() > 0 && self.rounds < ROUNDS {
            self.rounds += 1;
            run.begin_again(engine, &self.task);
            return Ok(None);
        }
        Ok(Some(TaskState::Done))
    }

    /// Ends the task once its moves are durable. True when it has ended.
    fn end(&mut self, engine: &Engine, state: TaskState, now: Instant) -> bool {
        let moved = self.run.as_ref().map_or(Ticket::NONE, |run| run.moved);
        if !engine.journal.is_durable(moved) {
            (self.ending, self.due) = (Some(state), now + FLUSH);
            return false;
        }
        if state == TaskState::Done && self.task.spec.kind.ends_queue() {
            self.end_queue(engine);
        }
        finish(engine, &self.vhost, &self.task, state);
        true
    }
}

impl RunningTask {
    /// Deletes the queue, whose messages have moved.
    fn end_queue(&self, engine: &Engine) {
        let (Ok(run), mut tables) = (&self.run, self.vhost.tables.write()) else { return };
        if !tables.is_ended() {
            // The check is empty, so it can't refuse.
            let _ = engine.end_queue(&mut tables, run.queue(), &|_| Ok(()));
        }
    }
}

/// Notes that a task has ended. Nothing happens if it had ended before.
pub(crate) fn finish(engine: &Engine, vhost: &Vhost, task: &Task, state: TaskState) -> Ticket {
    // No record of a vhost may follow its end.
    let tables = vhost.tables.read();
    let mut progress = task.progress.lock();
    if tables.is_ended() || progress.state != TaskState::Running {
        return Ticket::NONE;
    }
    (progress.state, progress.ended_at) = (state, Some(engine.clock.unix_ms()));
    let mut appender = engine.journal.appender(vhost.log());
    task.log(&progress, None, &mut appender);
    appender.ticket()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_with_a_rate_takes_several_messages_in_a_step() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut pace = Pace::new(Some(200), begun);
        assert_eq!(pace.allowed(begun), Err(Duration::from_millis(95)));
        assert_eq!(pace.allowed(after(95)), Ok(20));
        pace.took(20);
        assert_eq!(pace.allowed(after(145)), Err(Duration::from_millis(50)));
        // What it did not take in a long time does not come at once.
        assert_eq!(pace.allowed(after(60_000)), Ok(200));
        assert_eq!(Pace::new(None, begun).allowed(begun), Ok(u64::MAX));
        assert_eq!(Pace::new(Some(2), begun).allowed(begun), Ok(1));
    }
}
