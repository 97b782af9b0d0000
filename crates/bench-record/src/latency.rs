//! Distributions of nanoseconds, kept whole: quantiles come from every sample, never from a
//! reservoir.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};

/// Longest latency told apart: one hour; what is longer counts as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits: an error below 0.1 %.
const DIGITS: u8 = 3;

/// Every sample of one kind, of one thread or of a run.
#[derive(Debug, Clone)]
pub struct Latency {
    samples: Histogram<u64>,
}

impl Latency {
    /// No samples yet.
    pub fn new() -> Result<Self, Failure> {
        let samples = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).context("histogram bounds")?;
        Ok(Self { samples })
    }

    /// Adds one sample of `ns` nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.samples.saturating_record(ns);
    }

    /// Adds `count` samples of `ns` nanoseconds.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.samples.saturating_record_n(ns, count);
    }

    /// Takes in the samples of another thread.
    pub fn merge(&mut self, other: &Self) -> Result<(), Failure> {
        self.samples.add(&other.samples).context("joining histograms")
    }

    /// How many samples were longer than `ns` nanoseconds.
    pub fn longer_than(&self, ns: u64) -> u64 {
        self.samples.len() - self.samples.count_between(0, ns)
    }

    /// The figures of this distribution, or none without samples.
    pub fn summary(&self) -> Option<Summary> {
        if self.samples.is_empty() {
            return None;
        }
        let micros = |share: f64| self.samples.value_at_quantile(share) as f64 / 1000.0;
        Some(Summary {
            samples: self.samples.len(),
            mean: self.samples.mean() / 1000.0,
            min: self.samples.min() as f64 / 1000.0,
            p50: micros(0.5),
            p90: micros(0.9),
            p99: micros(0.99),
            p999: micros(0.999),
            max: self.samples.max() as f64 / 1000.0,
        })
    }
}

/// A distribution in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples there were.
    pub samples: u64,
    /// The mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut all = Latency::new().unwrap();
        let mut half = Latency::new().unwrap();
        for n in 1..=100_000u64 {
            if n % 2 == 0 { &mut all } else { &mut half }.record(n * 1000);
        }
        all.merge(&half).unwrap();
        let summary = all.summary().unwrap();
        assert_eq!(summary.samples, 100_000);
        for (got, right) in [(summary.p50, 50_000.0), (summary.p99, 99_000.0), (summary.max, 100_000.0)] {
            assert!((got - right).abs() / right < 0.001_5, "{got} for {right}");
        }
    }

    #[test]
    fn no_samples_have_no_figures_and_too_long_ones_count() {
        let mut all = Latency::new().unwrap();
        assert!(all.summary().is_none());
        all.record(u64::MAX);
        assert_eq!(all.summary().unwrap().samples, 1);
    }

    #[test]
    fn a_stall_shows_in_every_message_it_delayed() {
        // 1000 messages/s, a stall of one second: 1000 messages are late by 1 s down to nothing,
        // evenly.
        let mut all = Latency::new().unwrap();
        (0..1000u64).for_each(|n| all.record(1_000_000_000 - n * 1_000_000));
        let summary = all.summary().unwrap();
        assert!((summary.p50 - 500_000.0).abs() < 2_000.0, "{}", summary.p50);
        assert!((summary.mean - 500_500.0).abs() < 2_000.0, "{}", summary.mean);
    }
}
