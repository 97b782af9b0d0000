//! The search for the highest rate that a target sustains: bisection between a rate that went well
//! and one that did not, in steps of equal factors. It asks for rates and is told what came of
//! them, so that several targets can take turns.

use serde::{Deserialize, Serialize};

use bench_record::over_time::OverTime;
use bench_record::scenario::Scenario;
use bench_record::slice::Measured;
use bench_record::statistics::trend::theil_sen;
use bench_record::totals::Totals;
use bench_record::verdict::DISTURBED;

/// What is loaded first is this share of what a closed loop reached: often enough that is too much
/// for an open one.
const FIRST: f64 = 0.9;
/// How much more is tried while everything goes well, and less while nothing does.
const STEP: f64 = 1.25;
/// Where the search gives up: this share of what the closed loop reached.
const LEAST: f64 = 0.01;
/// A backlog may grow by this share of the offered rate, and the target still keeps up.
const GROWTH: f64 = 0.005;

/// One rate and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// Messages a second that were offered.
    pub(crate) rate: f64,
    pub(crate) sustained: bool,
    /// Why not, one reason each.
    pub(crate) reasons: Vec<String>,
    /// By how many messages a second the backlog grew (Theil and Sen).
    pub(crate) growth_per_s: Option<f64>,
    /// None where the slice failed.
    pub(crate) measured: Option<Measured>,
}

impl Trial {
    /// Judges a slice of `load` that offered `rate`. `slo_us` bounds the p99 of the latency,
    /// microseconds.
    pub(crate) fn of(rate: f64, load: &Scenario, measured: Result<Measured, String>, slo_us: f64) -> Self {
        let measured = match measured {
            Ok(measured) => measured,
            Err(text) => {
                return Self { rate, sustained: false, reasons: vec![text], growth_per_s: None, measured: None };
            }
        };
        let mut reasons = measured.verdict.violations.clone();
        let growth_per_s = growth(load, &measured.over_time);
        if growth_per_s.is_some_and(|growth| growth > rate * GROWTH) {
            reasons.push("the backlog grew all the time".to_owned());
        }
        if measured
            .latencies
            .latency_us
            .as_ref()
            .or(measured.latencies.confirm_us.as_ref())
            .is_some_and(|latency| latency.p99 > slo_us)
        {
            reasons.push("p99 is above the bound".to_owned());
        }
        // Others on the machine make it harder to keep up, never easier: what went well in spite of
        // them went well.
        if reasons.iter().all(|reason| reason.starts_with(DISTURBED)) {
            reasons.clear();
        }
        Self { rate, sustained: reasons.is_empty(), reasons, growth_per_s, measured: Some(measured) }
    }
}

/// By how many messages a second what was sent and is not yet through grew while it was measured.
fn growth(load: &Scenario, series: &OverTime) -> Option<f64> {
    let (mut backlog, mut points) = (0.0, Vec::new());
    for (at, until) in series.until_s.iter().enumerate() {
        let (sent, confirmed, received) = (series.sent[at], series.confirmed[at], series.received[at]);
        let through = load.main_count(&Totals { sent, confirmed, received, refused: 0 });
        backlog += sent as f64 - through as f64 / load.receipts_per_send();
        if *until > 0.0 {
            points.push((*until, backlog));
        }
    }
    theil_sen(&points)
}

/// The search on one target.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Messages a second of the closed loop.
    estimate: f64,
    /// The highest that went well, and the lowest that did not.
    good: Option<f64>,
    bad: Option<f64>,
    /// Ends when the two are this near: 0.02 for 2 %.
    precision: f64,
}

impl Search {
    pub(crate) fn new(estimate: f64, precision: f64) -> Self {
        Self { estimate, good: None, bad: None, precision }
    }

    /// The next rate to try; none when the answer is known.
    pub(crate) fn next(&self) -> Option<f64> {
        match (self.good, self.bad) {
            (None, None) => Some(self.estimate * FIRST),
            (Some(good), None) => Some(good * STEP),
            (None, Some(bad)) => Some(bad / STEP).filter(|rate| *rate > self.estimate * LEAST),
            (Some(good), Some(bad)) => (bad / good > 1.0 + self.precision).then(|| (good * bad).sqrt()),
        }
    }

    /// Takes a rate that was sustained.
    pub(crate) fn went_well(&mut self, rate: f64) {
        self.good = Some(self.good.map_or(rate, |good| good.max(rate)));
        // A rate that went well says more than a lower one that did not: the machine may have been
        // to blame.
        self.bad = self.bad.filter(|bad| *bad > rate);
    }

    /// Takes a rate that was too much.
    pub(crate) fn went_wrong(&mut self, rate: f64) {
        self.bad = Some(self.bad.map_or(rate, |bad| bad.min(rate)));
    }

    /// The highest rate that went well.
    pub(crate) fn sustained(&self) -> Option<f64> {
        self.good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::scenario::Destination;

    #[test]
    fn any_capacity_is_found_within_the_precision_and_from_any_estimate() {
        for capacity in [1000.0, 2345.0, 50_000.0] {
            for estimate in [capacity * 0.3, capacity, capacity * 1.9] {
                let mut search = Search::new(estimate, 0.02);
                let mut trials = 0;
                while let Some(rate) = search.next() {
                    if rate <= capacity {
                        search.went_well(rate)
                    } else {
                        search.went_wrong(rate)
                    }
                    trials += 1;
                }
                let found = search.sustained().unwrap();
                assert!(found <= capacity && found * 1.021 >= capacity, "{capacity} from {estimate}: {found}");
                assert!(trials <= 16, "{trials} trials");
            }
        }
    }

    /// What 20 windows of a tenth of a second saw of 1000 messages a second, of which these many a
    /// second were confirmed and received.
    fn windows(confirmed_per_s: u64, receipts_per_s: u64) -> OverTime {
        let each = |per_s: u64| vec![per_s / 10; 20];
        OverTime {
            until_s: (1..=20).map(|window| f64::from(window) / 10.0).collect(),
            seconds: vec![0.1; 20],
            sent: each(1000),
            confirmed: each(confirmed_per_s),
            received: each(receipts_per_s),
        }
    }

    #[test]
    fn a_backlog_is_what_was_sent_and_whose_receipts_have_not_all_come() {
        let base = Scenario::default().with(|s| s.clients.window = 100);
        let fanout = base.clone().with(|s| {
            (s.topology.destination, s.topology.consumers, s.topology.queues) = (Destination::Fanout, 10, 10);
        });
        let selecting = base.clone().with(|s| s.clients.selector = Some(10));
        let unread = base.clone().with(|s| s.topology.consumers = 0);
        let cases = [
            (base.clone(), windows(1000, 1000), 0.0),
            (base, windows(1000, 0), 1000.0),
            (fanout.clone(), windows(1000, 10_000), 0.0),
            (fanout, windows(1000, 2000), 800.0),
            (selecting.clone(), windows(1000, 100), 0.0),
            (selecting, windows(1000, 50), 500.0),
            (unread.clone(), windows(900, 0), 100.0),
            // What became of it is unknown.
            (unread.with(|s| s.clients.window = 0), windows(0, 0), 0.0),
        ];
        for (load, series, expected) in cases {
            let grown = growth(&load, &series).unwrap();
            assert!((grown - expected).abs() < 1e-6, "{grown}, expected {expected}: {load:?}");
        }
    }

    #[test]
    fn a_target_that_sustains_nothing_is_given_up() {
        let mut search = Search::new(1000.0, 0.02);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            search.went_wrong(rate);
            trials += 1;
        }
        assert!(search.sustained().is_none() && trials < 30);
    }
}
