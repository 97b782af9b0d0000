//! What all parts of a load share: the history, which the checker follows, and what went wrong
//! besides broken promises.
//!
//! Here is also what a run does for all parts: ask the broker something, and judge.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::checker::Checker;
use crate::history::Event;
use crate::server::Ports;
use crate::stamp::Stamp;
use crate::talk::{Broken, Control};

/// Something that went wrong besides broken promises.
#[derive(Debug)]
struct Problem {
    text: String,
    /// Whether it is no more than a connection that is gone.
    lost: bool,
}

/// What all parts share.
pub(crate) struct Stage {
    pub(crate) ports: Ports,
    /// Marks the bodies of this run.
    pub(crate) run: u32,
    /// The largest body, in bytes.
    pub(crate) largest: u64,
    checker: Mutex<Checker>,
    /// The next connection's number. It names it as a producer and as a consumer.
    next: AtomicU32,
    /// Set before the broker is killed: from then on connections may break.
    dying: AtomicBool,
    problems: Mutex<Vec<Problem>>,
    /// Whether messages may be delayed: the broker's clock is the harness's.
    delays: AtomicBool,
    /// When the last message is due that was delayed, in milliseconds since 1970.
    last_due: AtomicU64,
    /// Messages with ids that the broker may have or not, and their sizes. They are sent again.
    unsure: Mutex<Vec<(Stamp, usize)>>,
}

/// How late what is delayed may be on a machine that is busy with other things, in milliseconds.
const LATE_MS: u64 = 2000;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Stage {
    pub(crate) fn new(ports: Ports, run: u32, largest: u64) -> Self {
        Self {
            ports,
            run,
            largest,
            checker: Mutex::default(),
            next: AtomicU32::new(1),
            dying: AtomicBool::new(false),
            problems: Mutex::default(),
            delays: AtomicBool::new(true),
            last_due: AtomicU64::new(0),
            unsure: Mutex::default(),
        }
    }

    /// No message is delayed from here on: the calendar of the broker is about to go wrong.
    pub(crate) fn stop_delays(&self) {
        self.delays.store(false, Ordering::SeqCst);
    }

    /// Whether messages may be delayed.
    pub(crate) fn delays(&self) -> bool {
        self.delays.load(Ordering::SeqCst)
    }

    /// A message is due then.
    pub(crate) fn note_due(&self, due: u64) {
        self.last_due.fetch_max(due, Ordering::SeqCst);
    }

    /// True when nothing waits for its time any more. What is due moves to its queue first, and is
    /// in no count until then.
    pub(crate) fn is_all_due(&self) -> bool {
        self.last_due.load(Ordering::SeqCst) + LATE_MS <= now_ms()
    }

    /// Messages that the broker may have or not.
    pub(crate) fn unsure(&self) -> MutexGuard<'_, Vec<(Stamp, usize)>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage on which the history so far goes on elsewhere.
    pub(crate) fn fork(&self, ports: Ports) -> Self {
        let fork = Self::new(ports, self.run, self.largest);
        fork.checker().clone_from(&self.checker());
        fork.last_due.store(self.last_due.load(Ordering::SeqCst), Ordering::SeqCst);
        fork.next.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
        fork
    }

    /// The checker. A thread that panicked with it has been reported by then.
    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the history what happened, in order.
    pub(crate) fn tell(&self, events: &[Event]) {
        let mut checker = self.checker();
        for event in events {
            checker.apply(event);
        }
    }

    /// The number of a new connection.
    pub(crate) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// From now on connections may break: the broker dies.
    pub(crate) fn begin_dying(&self) {
        self.dying.store(true, Ordering::SeqCst);
    }

    /// From now on connections may not break: the broker is dead, and the next one is to live.
    pub(crate) fn end_dying(&self) {
        self.dying.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_dying(&self) -> bool {
        self.dying.load(Ordering::SeqCst)
    }

    /// Notes what ended a conversation of `who`, which should have gone on.
    pub(crate) fn report(&self, who: &str, broken: &Broken) {
        let lost = matches!(broken, Broken::Lost(_));
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.push(Problem { text: format!("{who}: {broken}"), lost });
    }

    /// The broker was meant to end by itself, and has: lost connections were no problem.
    pub(crate) fn forgive_lost(&self) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).retain(|problem| !problem.lost);
    }

    /// What went wrong besides broken promises.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.iter().map(|problem| problem.text.clone()).collect()
    }

    /// Does something on a connection of its own.
    pub(crate) fn control<T>(&self, action: impl Fn(&mut Control) -> Result<T, Broken>) -> Result<T, String> {
        Control::open(self.ports.amqp).and_then(|mut control| action(&mut control)).map_err(|error| error.to_string())
    }

    /// What has been found so far, as an error.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let checker = self.checker();
        let mut found: Vec<String> = checker.violations().iter().map(ToString::to_string).collect();
        let total = checker.counts().violations as usize;
        if total > found.len() {
            found.push(format!("… and {} more", total - found.len()));
        }
        found.extend(self.problems());
        if found.is_empty() { Ok(()) } else { Err(found.join("\n  ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_come_due_may_still_be_on_its_way() {
        let stage = Stage::new(Ports { amqp: 0, stomp: 0 }, 1, 100);
        assert!(stage.is_all_due(), "nothing was delayed");
        stage.note_due(now_ms() - LATE_MS - 1);
        assert!(stage.is_all_due());
        stage.note_due(now_ms() - 1);
        assert!(!stage.is_all_due());
    }
}
