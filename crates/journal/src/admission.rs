//! Whether the log has room for publishes: the gate between *open*, *headroom* and *closed*.
//!
//! Invariant: the gate closes while there is still room for what must always be accepted:
//! settlements, facts and one restatement. It opens again only when clearly more than the threshold
//! is free, so that it does not flap.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// What the log has room for.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Admission {
    /// Everything.
    Open,
    /// Publishes of clients that also consume; clients that only publish must stop.
    Headroom,
    /// No publishes; settlements and facts are still taken.
    Closed,
}

/// The bytes at which the gate changes.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Thresholds {
    /// Kept for settlements, facts and a restatement: at or below this much room the gate is
    /// closed.
    pub(crate) reserve: u64,
    /// Room beyond the reserve for those who consume.
    pub(crate) headroom: u64,
    /// How much more than a threshold must be free before the gate opens past it again.
    pub(crate) hysteresis: u64,
}

/// The gate: one atomic to read, and the wakers of those who wait for a change.
pub(crate) struct AdmissionGate {
    state: AtomicU8,
    waiting: Mutex<Vec<Waker>>,
}

impl AdmissionGate {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU8::new(Admission::Open as u8), waiting: Mutex::new(Vec::new()) }
    }

    pub(crate) fn get(&self) -> Admission {
        match self.state.load(Ordering::Acquire) {
            0 => Admission::Open,
            1 => Admission::Headroom,
            _ => Admission::Closed,
        }
    }

    /// Wakes `waker` at the next change.
    pub(crate) fn on_change(&self, waker: Waker) {
        self.waiting.lock().push(waker);
    }

    /// Moves the gate to what `room` bytes allow, and gives the wakers to wake if that is a change.
    pub(crate) fn update(&self, room: u64, thresholds: Thresholds) -> Vec<Waker> {
        let was = self.get();
        let now = decide(was, room, thresholds);
        if now == was {
            return Vec::new();
        }
        self.state.store(now as u8, Ordering::Release);
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// The state for `room` bytes of room, given the state before.
fn decide(was: Admission, room: u64, thresholds: Thresholds) -> Admission {
    let level = |room: u64| {
        if room <= thresholds.reserve {
            Admission::Closed
        } else if room <= thresholds.reserve + thresholds.headroom {
            Admission::Headroom
        } else {
            Admission::Open
        }
    };
    let plain = level(room);
    if plain >= was {
        return plain;
    }
    // Opening: only as far as the room allows with the hysteresis taken off.
    level(room.saturating_sub(thresholds.hysteresis)).min(was)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_follows_the_room_with_hysteresis() {
        use Admission::{Closed, Headroom, Open};
        let thresholds = Thresholds { reserve: 100, headroom: 50, hysteresis: 10 };
        let table = [
            (Open, 1000, Open),
            (Open, 151, Open),
            (Open, 150, Headroom),
            (Open, 101, Headroom),
            (Open, 100, Closed),
            (Headroom, 151, Headroom),
            (Headroom, 160, Headroom),
            (Headroom, 161, Open),
            (Closed, 101, Closed),
            (Closed, 110, Closed),
            (Closed, 111, Headroom),
            (Closed, 160, Headroom),
            (Closed, 161, Open),
            (Closed, 0, Closed),
        ];
        for (was, room, expected) in table {
            assert_eq!(decide(was, room, thresholds), expected, "{was:?} with {room}");
        }
    }
}
