//! How a rate went over the time of a slice: what moved in each tenth of a second, warm-up
//! included, and how fast each next thousand messages went.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::totals::Totals;

/// Length of one window, nanoseconds.
const WINDOW_NS: u64 = 100_000_000;
/// Most windows that are kept: more than two hours.
const MOST_WINDOWS: usize = 80_000;
/// A thousand messages make a step of [`Thousands`].
const THOUSAND: u64 = 1000;
/// Most such steps that are kept.
const MOST_STEPS: usize = 4_000_000;

/// Fewer windows than this are too short a half to have a rate.
const FEWEST_WINDOWS: usize = 5;

/// What moved in each window. All lists have one entry for each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// End of the window in seconds since the measured time began: what is not above 0 is warm-up.
    pub until_s: Vec<f64>,
    /// Its length in seconds: about a tenth, as exactly as the machine let it be.
    pub seconds: Vec<f64>,
    /// Messages sent in it.
    pub sent: Vec<u64>,
    /// Messages confirmed in it.
    pub confirmed: Vec<u64>,
    /// Messages received in it.
    pub received: Vec<u64>,
}

impl OverTime {
    /// The rate of the second half of the measured time over that of the first, of what was
    /// received, else confirmed, else sent. None where too few windows, or none with anything, can
    /// tell.
    pub fn second_half(&self) -> Option<f64> {
        let counts = [&self.received, &self.confirmed, &self.sent];
        let counts = counts.into_iter().find(|counts| counts.iter().any(|count| *count > 0))?;
        let measured = self.until_s.iter().position(|until| *until > 0.0)?;
        let middle = measured + (counts.len() - measured) / 2;
        let rate = |windows: Range<usize>| {
            counts[windows.clone()].iter().sum::<u64>() as f64 / self.seconds[windows].iter().sum::<f64>()
        };
        let (first, second) = (rate(measured..middle), rate(middle..counts.len()));
        (middle - measured >= FEWEST_WINDOWS && first > 0.0).then(|| second / first)
    }
}

/// Messages a second over each thousand messages of the measured time, or over as many more as came
/// between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thousands {
    /// How many steps there were.
    pub steps: usize,
    /// The slowest step.
    pub min: f64,
    /// The first percentile.
    pub p1: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The fastest step.
    pub max: f64,
}

/// Makes both from looks at the counters.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    /// When the windows began and what had moved by then, the last one being open; nanoseconds of
    /// the run's clock.
    looks: Vec<(u64, Totals)>,
    /// When the last thousand was complete, and the count by then.
    step: Option<(u64, u64)>,
    /// Messages a second of each step.
    steps: Vec<f64>,
}

impl Recorder {
    /// Begins at `at`, with what has moved so far.
    pub fn begin(&mut self, at: u64, totals: Totals) {
        if self.looks.is_empty() {
            self.looks.push((at, totals));
        }
    }

    /// Looks at the counters. `main` is the count that the slice is about, where it is measured
    /// now.
    pub fn look(&mut self, at: u64, totals: Totals, main: Option<u64>) {
        if self.looks.last().is_some_and(|(last, _)| at.saturating_sub(*last) >= WINDOW_NS)
            && self.looks.len() <= MOST_WINDOWS
        {
            self.looks.push((at, totals));
        }
        let Some(count) = main else { return };
        let (since, before) = *self.step.get_or_insert((at, count));
        let moved = count.saturating_sub(before);
        if moved >= THOUSAND && at > since && self.steps.len() < MOST_STEPS {
            self.steps.push(moved as f64 * 1e9 / (at - since) as f64);
            self.step = Some((at, count));
        }
    }

    /// What was recorded; the measured time began at `origin`.
    pub fn over_time(&self, origin: u64) -> OverTime {
        let mut series = OverTime::default();
        for pair in self.looks.windows(2) {
            let [(from, before), (until, after)] = pair else { continue };
            series.until_s.push((*until as f64 - origin as f64) / 1e9);
            series.seconds.push((until - from) as f64 / 1e9);
            series.sent.push(after.sent - before.sent);
            series.confirmed.push(after.confirmed - before.confirmed);
            series.received.push(after.received - before.received);
        }
        series
    }

    /// How fast the thousands went; none without any.
    pub fn thousands(&self) -> Option<Thousands> {
        let mut sorted = self.steps.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        Some(Thousands { steps: sorted.len(), min: at(0.0), p1: at(0.01), p50: at(0.5), p99: at(0.99), max: at(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_is_compared_with_the_first_one() {
        let series = |counts: &[u64]| OverTime {
            // Two windows of warm-up come before.
            until_s: (0..counts.len()).map(|at| at as f64 / 10.0 - 0.1).collect(),
            seconds: vec![0.1; counts.len()],
            sent: vec![9; counts.len()],
            confirmed: counts.to_vec(),
            received: vec![0; counts.len()],
        };
        let counts = |first: u64, second: u64| [[90; 2].to_vec(), vec![first; 6], vec![second; 6]].concat();
        for (counts, expected) in [
            (counts(100, 100), Some(1.0)),
            (counts(100, 50), Some(0.5)),
            (counts(0, 50), None),
            (vec![90, 90, 1, 2, 3, 4], None),
            (Vec::new(), None),
        ] {
            let found = series(&counts).second_half();
            let same = found.zip(expected).map_or(found == expected, |(one, other)| (one - other).abs() < 1e-9);
            assert!(same, "{counts:?}: {found:?}");
        }
    }

    fn received(count: u64) -> Totals {
        Totals { received: count, ..Totals::default() }
    }

    #[test]
    fn windows_hold_what_moved_in_them_and_say_when() {
        let mut recorder = Recorder::default();
        recorder.begin(1_000, received(5));
        for (at_ms, count) in [(40, 6), (100, 15), (130, 16), (230, 45)] {
            recorder.look(1_000 + at_ms * 1_000_000, received(count), None);
        }
        let series = recorder.over_time(1_000 + 100_000_000);
        assert_eq!(series.received, [10, 30]);
        assert_eq!(series.until_s, [0.0, 0.13]);
        assert_eq!(series.seconds, [0.1, 0.13]);
        assert!(recorder.thousands().is_none());
    }

    #[test]
    fn each_thousand_has_its_own_rate() {
        let mut recorder = Recorder::default();
        recorder.begin(0, received(0));
        // 1000 messages in 10 ms, then 1000 in 100 ms.
        for (at_ms, count) in [(0, 0), (5, 400), (10, 1000), (60, 1500), (110, 2000)] {
            recorder.look(at_ms * 1_000_000, received(count), Some(count));
        }
        let thousands = recorder.thousands().unwrap();
        assert_eq!((thousands.steps, thousands.min, thousands.max), (2, 10_000.0, 100_000.0));
    }
}
