//! Keeps an event that a peer can repeat at will from filling the log: one line per interval, with
//! a count of the rest.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets one event pass per interval and counts those it holds back.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    held: u64,
}

impl LogThrottle {
    /// A throttle that lets one event pass per `interval`.
    pub(crate) const fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::new(State { last: None, held: 0 }) }
    }

    /// `Some(n)` to log the event at `now`; `n` events were held back since the last one.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            state.held += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_passes_per_interval_with_the_count_of_the_others() {
        let start = Instant::now();
        let throttle = LogThrottle::new(Duration::from_secs(10));
        let at = |seconds| throttle.pass(start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(9), at(10), at(11), at(30)], [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
