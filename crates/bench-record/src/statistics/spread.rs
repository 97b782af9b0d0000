//! Figures over blocks. The unit of replication is the block, never the message: messages of one
//! run depend on each other.

use serde::{Deserialize, Serialize};

/// What an interval is to hold the median with, where there are values enough.
const COVERAGE: f64 = 0.95;
/// Fewer blocks than this say nothing about an interval.
const FEWEST_FOR_INTERVAL: usize = 5;

/// Several values of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// What holds the median of all that could have been drawn, with [`coverage`]; none below five
    /// values.
    pub interval: Option<(f64, f64)>,
    /// All values in the order of measuring.
    pub values: Vec<f64>,
}

impl Spread {
    /// Describes `values`, or none without any.
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: middle(&sorted), min, max, interval: interval(&sorted), values })
    }
}

/// How sure the interval of so many values holds the median, whatever they are distributed like:
/// 0.9375 for five, which have no wider one than from the least to the most, and at least 0.95 for
/// more.
pub fn coverage(count: usize) -> f64 {
    1.0 - 2.0 * beyond(count, left_out(count))
}

/// The median of sorted values, which must not be empty.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// From one value to another, as many from either end. Each value is above the median with one
/// half: that is exact, where a bootstrap of few values is too narrow.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let out = left_out(sorted.len());
    (sorted.len() >= FEWEST_FOR_INTERVAL).then(|| (sorted[out], sorted[sorted.len() - 1 - out]))
}

/// How many values an interval leaves out at either end: as many as [`COVERAGE`] allows.
fn left_out(count: usize) -> usize {
    (1..count / 2).take_while(|out| 1.0 - 2.0 * beyond(count, *out) >= COVERAGE).last().unwrap_or(0)
}

/// How likely at most `out` of so many values are above the median.
fn beyond(count: usize, out: usize) -> f64 {
    let mut likely = 0.5f64.powi(count as i32);
    let mut sum = likely;
    for above in 1..=out {
        likely *= (count + 1 - above) as f64 / above as f64;
        sum += likely;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::random::Random;

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
        assert_eq!((low, high), (2.0, 10.0));
    }

    /// The interval of five was called one of 95 %, and holds the median in 15 of 16 cases.
    #[test]
    fn an_interval_holds_the_median_as_often_as_it_says() {
        let mut random = Random::new(7);
        for (count, expected) in [(5, 0.9375), (6, 0.96875), (9, 0.9609375), (20, 0.9586)] {
            assert!((coverage(count) - expected).abs() < 1e-4, "{count}: {}", coverage(count));
            let mut holds = || {
                let spread = Spread::of((0..count).map(|_| random.unit().powi(3)).collect()).unwrap();
                spread.interval.is_some_and(|(low, high)| low <= 0.125 && 0.125 <= high)
            };
            let share = (0..4000).filter(|_| holds()).count() as f64 / 4000.0;
            assert!((share - expected).abs() < 0.012, "{count}: {share}");
        }
    }
}
