//! How a shovel is doing. It is written by the shovel alone, and read by anyone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes of an error that are kept.
const LONGEST_ERROR: usize = 500;

/// How a shovel is doing.
#[derive(Debug)]
pub struct Status {
    told: Mutex<Told>,
    moved: AtomicU64,
    moved_bytes: AtomicU64,
    on_their_way: AtomicU64,
    /// One more than the messages that the source has left; 0 if that is not known.
    left: AtomicU64,
}

#[derive(Debug, Clone)]
struct Told {
    state: State,
    since: SystemTime,
    ends: [String; 2],
    last_error: Option<String>,
}

/// What a shovel is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It connects to its ends.
    Starting,
    /// It moves messages.
    Running,
    /// It does, and the destination takes nothing at the moment.
    Blocked,
    /// It has failed, and tries again.
    Waiting,
    /// It has ended.
    Terminated,
}

impl State {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::Terminated => "terminated",
        }
    }
}

/// A status at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// What it is doing.
    pub state: State,
    /// Since when.
    pub since: SystemTime,
    /// The brokers that it is connected to, or tries to be: the source's and the destination's.
    pub ends: [String; 2],
    /// Why it failed last.
    pub last_error: Option<String>,
    /// Messages that it has moved since it began in this process: they are acknowledged.
    pub moved: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Messages that it has taken and not acknowledged.
    pub on_their_way: u64,
    /// Messages that are ready in the source, as of some seconds ago, if it says that.
    pub left: Option<u64>,
}

impl Default for Status {
    fn default() -> Self {
        let told =
            Told { state: State::Starting, since: SystemTime::now(), ends: Default::default(), last_error: None };
        let (moved, moved_bytes, on_their_way, left) = Default::default();
        Self { told: Mutex::new(told), moved, moved_bytes, on_their_way, left }
    }
}

impl Status {
    /// What it is now.
    pub fn figures(&self) -> Figures {
        let Told { state, since, ends, last_error } = self.told().clone();
        Figures {
            state,
            since,
            ends,
            last_error,
            moved: self.moved.load(Ordering::Relaxed),
            moved_bytes: self.moved_bytes.load(Ordering::Relaxed),
            on_their_way: self.on_their_way.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed).checked_sub(1),
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, state: State) {
        let mut told = self.told();
        if told.state != state {
            (told.state, told.since) = (state, SystemTime::now());
        }
    }

    pub(crate) fn connects(&self, ends: [String; 2]) {
        self.told().ends = ends;
    }

    /// It failed for this reason.
    pub(crate) fn fail(&self, why: &str) {
        let mut end = why.len().min(LONGEST_ERROR);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        self.told().last_error = Some(why[..end].to_owned());
        self.on_their_way.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, messages: u64, bytes: u64) {
        self.moved.fetch_add(messages, Ordering::Relaxed);
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn carries(&self, messages: usize) {
        self.on_their_way.store(messages as u64, Ordering::Relaxed);
    }

    pub(crate) fn leaves(&self, left: Option<u64>) {
        self.left.store(left.map_or(0, |left| left + 1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let status = Status::default();
        status.fail(&"ä".repeat(LONGEST_ERROR));
        assert_eq!(status.figures().last_error.unwrap().len(), LONGEST_ERROR);
        status.fail(&format!("x{}", "ä".repeat(LONGEST_ERROR)));
        assert_eq!(status.figures().last_error.unwrap().len(), LONGEST_ERROR - 1);
    }

    #[test]
    fn none_left_is_told_from_not_known() {
        let status = Status::default();
        assert_eq!(status.figures().left, None);
        status.leaves(Some(0));
        assert_eq!(status.figures().left, Some(0));
        status.fail("gone");
        assert_eq!(status.figures().left, None);
    }
}
