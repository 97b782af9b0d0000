//! Alarms, and who must stop publishing because of them.
//!
//! The journal's lag passes by itself: it only pauses a socket. Alarms pass when consumers work: clients that only publish
//! stop at once; a client that consumes goes on into a headroom, and past that its publishes are parked.

use std::task::Waker;

use journal::Admission;
use parking_lot::Mutex;

use crate::core::Core;

const MEMORY: u8 = 1;
const DISK: u8 = 2;

/// Whether a connection should be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Run,
    /// Do not read; the waker is woken when that changes.
    Pause,
}

/// What the alarms allow a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowance {
    /// Anything.
    All,
    /// Only what comes from clients that also consume.
    Consuming,
    /// Nothing.
    None,
}

/// Who wants to know when the alarms change.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    waiting: Mutex<Vec<Waker>>,
}

impl Alarms {
    /// Wakes `waker` at the next change.
    pub(crate) fn when_changed(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake_all(&self) -> bool {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let any = !waiting.is_empty();
        for waker in waiting {
            waker.wake();
        }
        any
    }
}

impl Core {
    fn alarms_now(&self) -> u8 {
        let memory = if self.memory.used() > self.memory.limit() { MEMORY } else { 0 };
        let disk = if self.journal.admission() == Admission::Open { 0 } else { DISK };
        memory | disk
    }

    /// What publishers may do now.
    pub(crate) fn allowance(&self) -> Allowance {
        let limit = self.memory.limit();
        let used = self.memory.used();
        let memory = if used <= limit {
            Allowance::All
        } else if used <= limit + limit / 8 {
            Allowance::Consuming
        } else {
            Allowance::None
        };
        let disk = match self.journal.admission() {
            Admission::Open => Allowance::All,
            Admission::Headroom => Allowance::Consuming,
            Admission::Closed => Allowance::None,
        };
        memory.max(disk)
    }

    /// The alarms in words, `None` when there are none.
    pub(crate) fn alarm_text(&self) -> Option<&'static str> {
        match self.alarms_now() {
            0 => None,
            MEMORY => Some("low on memory"),
            DISK => Some("low on disk"),
            _ => Some("low on memory & disk"),
        }
    }

    /// (memory, disk)
    pub(crate) fn alarms_up(&self) -> (bool, bool) {
        let now = self.alarms_now();
        (now & MEMORY != 0, now & DISK != 0)
    }

    /// Tells everybody who waits to look again, and whether somebody does.
    pub(crate) fn announce_alarms(&self) -> bool {
        self.alarms.wake_all()
    }
}
