//! Figures over blocks. The unit of replication is the block, never the message: messages of one run depend on each other.

use serde::{Deserialize, Serialize};

use super::random::Random;

/// Resamples of a bootstrap interval: enough for two digits of its ends.
const RESAMPLES: usize = 4000;
/// Fewer blocks than this say nothing about an interval.
const FEWEST_FOR_INTERVAL: usize = 5;

/// Several values of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// 95 % bootstrap interval of the median; none below five values.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) values: Vec<f64>,
}

impl Spread {
    /// Describes `values`, or none without any.
    pub(crate) fn of(values: Vec<f64>) -> Option<Self> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: middle(&sorted), min, max, interval: interval(&sorted), values })
    }
}

/// The median of sorted values, which must not be empty.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < FEWEST_FOR_INTERVAL {
        return None;
    }
    // A fixed seed: the same blocks always give the same interval.
    let mut random = Random::new(0x5eed);
    let mut resample = || {
        let mut drawn: Vec<f64> = values.iter().map(|_| values[random.below(values.len())]).collect();
        drawn.sort_by(f64::total_cmp);
        middle(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    medians.sort_by(f64::total_cmp);
    Some((medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let cases: &[(&[f64], f64)] =
            &[(&[3.0], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 5.0], 5.0), (&[4.0, 1.0, 3.0, 2.0], 2.5)];
        for (values, median) in cases {
            assert_eq!(Spread::of(values.to_vec()).unwrap().median, *median, "{values:?}");
        }
        assert!(Spread::of(Vec::new()).is_none());
    }

    #[test]
    fn an_interval_needs_blocks_and_holds_the_median() {
        assert!(Spread::of(vec![1.0; 4]).unwrap().interval.is_none());
        let spread = Spread::of((1..=11).map(f64::from).collect()).unwrap();
        let (low, high) = spread.interval.unwrap();
        assert!(low < 6.0 && 6.0 < high && low >= 1.0 && high <= 11.0, "{low} {high}");
    }
}
