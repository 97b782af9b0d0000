//! Alarms, and the publishers that they stop.
//!
//! The journal's lag passes by itself and only pauses a socket. Alarms pass when consumers work.
//! Clients that only publish stop at once. A client that consumes goes on into a headroom, and past
//! that its publishes are parked.

use std::task::Waker;
use std::time::{Duration, Instant};

pub(crate) const MEMORY: u8 = 1;
pub(crate) const DISK: u8 = 2;

/// Whether a connection should be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Run,
    /// Do not read; the waker is woken when that changes.
    Pause,
}

/// The publishes that the alarms allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowance {
    /// All.
    All,
    /// Those of clients that also consume.
    Consuming,
    /// Nothing.
    None,
}

/// The alarms that are up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlarmsUp {
    /// The memory alarm.
    pub memory: bool,
    /// The disk alarm.
    pub disk: bool,
}

/// The last line of the log about alarms.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The alarms that were up.
    pub(crate) up: u8,
    at: Option<Instant>,
}

/// Lines about alarms are this far apart at least.
const LINES_APART: Duration = Duration::from_secs(10);

impl Told {
    /// The alarms that rose and those that passed since the last line, if it is time for another.
    pub(crate) fn turn(&mut self, up: u8, now: Instant) -> Option<(u8, u8)> {
        let is_too_soon = self.at.is_some_and(|at| now.saturating_duration_since(at) < LINES_APART);
        if up == self.up || is_too_soon {
            return None;
        }
        let turned = (up & !self.up, self.up & !up);
        *self = Self { up, at: Some(now) };
        Some(turned)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) waiting: Vec<Waker>,
    /// The housekeeping will look at the alarms again by itself.
    pub(crate) polled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_that_flaps_has_a_line_in_ten_seconds_and_the_last_state_is_told() {
        let (start, mut told) = (Instant::now(), Told::default());
        let cases = [
            (0, 0, None),
            (1, MEMORY, Some((MEMORY, 0))),
            (2, 0, None),
            (3, MEMORY | DISK, None),
            (11, DISK, Some((DISK, MEMORY))),
            (20, 0, None),
            (21, 0, Some((0, DISK))),
            (40, 0, None),
        ];
        for (second, up, expected) in cases {
            assert_eq!(told.turn(up, start + Duration::from_secs(second)), expected, "after {second} s");
        }
    }
}
