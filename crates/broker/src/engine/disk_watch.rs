//! The limits of the disk that an operator sets: how much must stay free, and how much the store
//! may take. The disk alarm is up while one is passed.
//!
//! The journal closes by itself where the log would lack room. A limit only raises the alarm
//! earlier, so no setting makes the broker less safe.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use journal::DiskUse;
use parking_lot::Mutex;

use crate::alarms::Allowance;
use crate::settings::{DiskLimit, DiskLimits};

/// How often the disk is looked at while there is a limit.
const PERIOD: Duration = Duration::from_secs(1);
/// The alarm passes when a sixteenth of the limit is regained, so that it doesn't flap.
const BAND: u64 = 16;
/// Clients that consume may publish until the limit is passed by an eighth.
const ROOM: u64 = 8;

/// The limits in bytes, and what the disk had at the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskBounds {
    /// Bytes that must stay free; 0 for no such limit.
    pub least_free: u64,
    /// Most bytes of log, segments and spilled messages; 0 for no such limit.
    pub most_stored: u64,
    /// Bytes of log, segments and spilled messages; 0 while there is no limit.
    pub stored: u64,
}

/// The limits, and whether one is passed.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    state: Mutex<State>,
    level: AtomicU8,
}

#[derive(Debug, Default)]
struct State {
    limits: DiskLimits,
    bounds: DiskBounds,
    look_at: Option<Instant>,
}

const CLEAR: u8 = 0;
const SHORT: u8 = 1;
const SHORTER: u8 = 2;

impl DiskBounds {
    fn of(limits: DiskLimits, disk: DiskUse) -> Self {
        let bytes = |limit: DiskLimit| match limit {
            DiskLimit::None => 0,
            DiskLimit::Bytes(bytes) => bytes,
            DiskLimit::Share(share) => disk.size / 1000 * u64::from(share),
        };
        Self { least_free: bytes(limits.least_free), most_stored: bytes(limits.most_stored), stored: disk.stored }
    }

    /// How far a limit is passed, if the level was `before`.
    fn level(&self, free: u64, before: u8) -> u8 {
        let (least, most) = (self.least_free, self.most_stored);
        let limited = |limit: u64, level| if limit == 0 { CLEAR } else { level };
        let regained = |limit: u64, by: u64| if before == CLEAR { limit } else { limit.saturating_add(by) };
        let by_free = match free {
            free if free < least - least / ROOM => SHORTER,
            free if free < regained(least, least / BAND) => SHORT,
            _ => CLEAR,
        };
        let by_stored = match self.stored {
            stored if stored > most.saturating_add(most / ROOM) => SHORTER,
            stored if regained(stored, most / BAND) > most => SHORT,
            _ => CLEAR,
        };
        limited(least, by_free).max(limited(most, by_stored))
    }
}

impl DiskWatch {
    pub(crate) fn new(limits: DiskLimits) -> Self {
        Self { state: Mutex::new(State { limits, ..State::default() }), level: AtomicU8::new(CLEAR) }
    }

    /// The publishes that the limits allow.
    pub(crate) fn allowance(&self) -> Allowance {
        match self.level.load(Ordering::Relaxed) {
            CLEAR => Allowance::All,
            SHORT => Allowance::Consuming,
            _ => Allowance::None,
        }
    }

    /// The limits in bytes, as of the last look.
    pub(crate) fn bounds(&self) -> DiskBounds {
        self.state.lock().bounds
    }

    /// Changes the limits; the next look is due at once.
    pub(crate) fn change(&self, change: impl FnOnce(&mut DiskLimits)) {
        let mut state = self.state.lock();
        change(&mut state.limits);
        state.look_at = None;
    }

    /// Asks for the use of the disk if it is time to. Returns when to look again.
    pub(crate) fn look(&self, now: Instant, ask: impl FnOnce() -> Option<io::Result<DiskUse>>) -> Option<Instant> {
        let mut state = self.state.lock();
        if state.limits == DiskLimits::default() {
            state.bounds = DiskBounds::default();
            self.level.store(CLEAR, Ordering::Relaxed);
            return None;
        }
        if let Some(at) = state.look_at.filter(|at| *at > now) {
            return Some(at);
        }
        state.look_at = Some(now + PERIOD);
        match ask()? {
            Ok(disk) => {
                state.bounds = DiskBounds::of(state.limits, disk);
                let before = self.level.load(Ordering::Relaxed);
                self.level.store(state.bounds.level(disk.free, before), Ordering::Relaxed);
            }
            // The level stays, and the next look may tell more.
            Err(error) => ::tracing::debug!(%error, "the disk can't be looked at"),
        }
        state.look_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_the_disk() {
        let disk = DiskUse { free: 10, size: 2_000_000, stored: 7 };
        let limits = DiskLimits { least_free: DiskLimit::Share(100), most_stored: DiskLimit::Bytes(5) };
        assert_eq!(DiskBounds::of(limits, disk), DiskBounds { least_free: 200_000, most_stored: 5, stored: 7 });
    }

    #[test]
    fn the_alarm_rises_at_the_limit_and_passes_beyond_a_band() {
        let free = DiskBounds { least_free: 1600, ..DiskBounds::default() };
        for (before, left, after) in [
            (CLEAR, 1600, CLEAR),
            (CLEAR, 1599, SHORT),
            (SHORT, 1600, SHORT),
            (SHORT, 1699, SHORT),
            (SHORT, 1700, CLEAR),
            (SHORT, 1400, SHORT),
            (SHORT, 1399, SHORTER),
            (SHORTER, 1400, SHORT),
            (CLEAR, 0, SHORTER),
        ] {
            assert_eq!(free.level(left, before), after, "{left} free");
        }
        for (before, stored, after) in [
            (CLEAR, 1600, CLEAR),
            (CLEAR, 1601, SHORT),
            (SHORT, 1501, SHORT),
            (SHORT, 1500, CLEAR),
            (SHORT, 1800, SHORT),
            (SHORT, 1801, SHORTER),
        ] {
            let bounds = DiskBounds { most_stored: 1600, stored, ..DiskBounds::default() };
            assert_eq!(bounds.level(0, before), after, "{stored} stored");
        }
    }
}
