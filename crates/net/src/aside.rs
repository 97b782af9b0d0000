//! The threads where a connection may wait for a program elsewhere ([`wire::waiting`]).
//!
//! The driver hands the whole connection over, with its input, and takes both back after a turn.
//! Meanwhile it reads nothing and writes nothing for it, so all that a connection sees is that its
//! turn takes longer. Users are served in turn: one whose turns wait, or are many, holds up its own
//! first. A connection has at most one turn here, so the line is as long as there are connections.
//!
//! Threads start when there is something to do. None is there while no connection may wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use wire::{CloseReason, Connection, InTurn, ReadState, waiting};

use crate::input::Input;

/// How long a turn goes on with what does not wait.
const SLICE: Duration = Duration::from_millis(10);

/// A connection with its input.
pub(crate) struct Talk {
    pub(crate) connection: Box<dyn Connection>,
    pub(crate) input: Input,
    /// The protocol has not yet refused what waits in `input`: offer it before reading more.
    pub(crate) fresh: bool,
}

/// What a turn has to do.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    pub(crate) close: Option<CloseReason>,
    pub(crate) wake: bool,
    pub(crate) tick: bool,
    /// There is input to offer.
    pub(crate) offer: bool,
}

impl Acts {
    /// The end of a connection whose peer hears nothing any more.
    pub(crate) fn gone() -> Self {
        Self { close: Some(CloseReason::Gone), ..Self::default() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.close.is_none() && !self.wake && !self.tick && !self.offer
    }
}

impl Talk {
    pub(crate) fn reads(&self) -> bool {
        matches!(self.connection.read_state(), ReadState::Read | ReadState::Handshake)
    }

    /// Offers what waits until the protocol takes no more, or `is_enough`.
    pub(crate) fn offer(&mut self, now: Instant, is_enough: impl Fn(&mut Self) -> bool) {
        while self.fresh && self.reads() {
            let taken = self.connection.receive(self.input.bytes(), now);
            self.input.consume(taken);
            self.fresh = taken > 0 && !self.input.is_empty();
            if is_enough(self) {
                break;
            }
        }
    }

    /// A turn. Input comes before the timers: it may have waited for longer than these allow.
    fn act(&mut self, acts: Acts) {
        let now = Instant::now();
        if let Some(reason) = acts.close {
            self.connection.close(reason, now);
            self.fresh |= !self.input.is_empty();
        }
        if acts.wake {
            self.connection.wake(now);
            self.fresh |= !self.input.is_empty();
        }
        self.offer(now, |_| waiting::has_waited() || now.elapsed() >= SLICE);
        if acts.tick {
            self.connection.tick(Instant::now());
            self.fresh |= !self.input.is_empty();
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads, until it is dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    line: Arc<Line>,
    threads: usize,
}

#[derive(Debug)]
struct Line {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

struct Waiting {
    jobs: InTurn<Job, Box<str>>,
    /// Threads that run, and those of them that wait for a job.
    started: usize,
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("jobs", &self.jobs.len())
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Aside {
    /// At most so many threads, at least one.
    pub(crate) fn new(threads: usize) -> Self {
        let waiting = Waiting { jobs: InTurn::new(usize::MAX), started: 0, idle: 0, closed: false };
        let line = Arc::new(Line { waiting: Mutex::new(waiting), arrived: Condvar::new() });
        Self { line, threads: threads.max(1) }
    }

    /// Has a thread take a turn of a connection of this user, which then comes back. One that the
    /// receiver no longer waits for is closed there. [`Aside::serve`] has seen to a thread.
    pub(crate) fn send(&self, user: &str, mut talk: Talk, acts: Acts) -> oneshot::Receiver<Talk> {
        let (told, back) = oneshot::channel();
        let job = move || {
            // What a panic leaves half-done is dropped with the connection, and the receiver hears.
            let done = catch_unwind(AssertUnwindSafe(|| {
                waiting::allowed(|| talk.act(acts));
                talk
            }));
            let Ok(talk) = done else { return };
            if let Err(mut talk) = told.send(talk) {
                let _ = catch_unwind(AssertUnwindSafe(|| waiting::allowed(|| talk.act(Acts::gone()))));
            }
        };
        self.line.push(user, Box::new(job));
        back
    }

    /// Starts a thread where all are busy.
    ///
    /// # Errors
    /// If there is none, and the system gives none.
    pub(crate) fn serve(&self) -> io::Result<()> {
        let mut waiting = self.line.waiting.lock();
        if waiting.started >= self.threads || waiting.idle > waiting.jobs.len() {
            return Ok(());
        }
        let line = Arc::clone(&self.line);
        let life = move || {
            while let Some(job) = line.pop() {
                job();
            }
        };
        let spawned = std::thread::Builder::new().name(format!("hermod-aside-{}", waiting.started)).spawn(life);
        match spawned {
            Ok(_) => waiting.started += 1,
            Err(error) if waiting.started == 0 => return Err(error),
            // Those that run do it later.
            Err(_) => {}
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl Line {
    fn push(&self, user: &str, job: Job) {
        let mut waiting = self.waiting.lock();
        // Without threads that take it, its connection hears that it is dropped.
        if !waiting.closed {
            waiting.jobs.push_of(user.into(), job);
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Waits for one; `None` when there will be none any more.
    fn pop(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            if let Some(next) = waiting.jobs.pop() {
                return Some(next);
            }
            waiting.idle += 1;
            self.arrived.wait(&mut waiting);
            waiting.idle -= 1;
        }
        None
    }

    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let left: Vec<_> = std::iter::from_fn(|| waiting.jobs.pop()).collect();
        drop(waiting);
        self.arrived.notify_all();
        // Each drops its connection.
        drop(left);
    }
}
