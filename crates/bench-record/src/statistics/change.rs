//! How a figure changed between two runs. Their blocks are not pairs, so that the interval is
//! Welch's, of the difference of the mean logarithms: twice and half cancel out, and the two runs
//! may vary differently.

use serde::Serialize;

use super::distribution::student_95;
use super::ratio::FEWEST_BLOCKS;

/// The new figure over the old one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// Its 95 % interval; none below five blocks on a side.
    pub interval: Option<(f64, f64)>,
}

/// Values of one run as logarithms.
struct Side {
    count: f64,
    mean: f64,
    /// Variance of the mean.
    error: f64,
}

impl Side {
    /// None unless all values are above 0.
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| *value <= 0.0 || !value.is_finite()) {
            return None;
        }
        let count = values.len() as f64;
        let logs = values.iter().map(|value| value.ln());
        let mean = logs.clone().sum::<f64>() / count;
        let spread: f64 = logs.map(|log| (log - mean).powi(2)).sum();
        Some(Self { count, mean, error: spread / (count - 1.0).max(1.0) / count })
    }
}

impl Change {
    /// Compares the values of two runs; none where one of them has none above 0.
    pub fn between(old: &[f64], new: &[f64]) -> Option<Self> {
        let (before, after) = (Side::of(old)?, Side::of(new)?);
        let log = after.mean - before.mean;
        let enough = old.len().min(new.len()) >= FEWEST_BLOCKS;
        let reach = enough.then(|| reach(&before, &after));
        Some(Self { ratio: log.exp(), interval: reach.map(|reach| ((log - reach).exp(), (log + reach).exp())) })
    }
}

/// Half the width of the interval, by Welch and Satterthwaite.
fn reach(before: &Side, after: &Side) -> f64 {
    let error = before.error + after.error;
    if error == 0.0 {
        return 0.0;
    }
    let share = |side: &Side| side.error.powi(2) / (side.count - 1.0);
    let freedom = error.powi(2) / (share(before) + share(after));
    student_95(freedom as usize) * error.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::random::Random;

    #[test]
    fn an_interval_needs_blocks_on_both_sides() {
        let (few, many) = ([10.0; 4], [20.0; 5]);
        let change = Change::between(&few, &many).unwrap();
        assert!((change.ratio - 2.0).abs() < 1e-12 && change.interval.is_none());
        assert_eq!(Change::between(&many, &many).unwrap().interval, Some((1.0, 1.0)));
        assert!(Change::between(&[0.0; 5], &many).is_none() && Change::between(&[], &many).is_none());
    }

    #[test]
    fn a_known_example_comes_out() {
        let old = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0].map(f64::exp);
        let new = [2.0, 3.0, 2.0, 3.0, 2.0, 3.0].map(f64::exp);
        let change = Change::between(&old, &new).unwrap();
        // Means 1.5 and 2.5, both variances 0.3, error √0.1, 10 degrees of freedom: 1 ± 2.228 ·
        // 0.316 23.
        let (low, high) = change.interval.unwrap();
        assert!((low.ln() - 0.295_4).abs() < 1e-3 && (high.ln() - 1.704_6).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn intervals_contain_1_for_nineteen_of_twenty_pairs_without_a_difference() {
        let mut random = Random::new(11);
        let mut draw = |level: f64| -> Vec<f64> {
            let normal = |random: &mut Random| (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            (0..7).map(|_| level * (0.03 * normal(&mut random)).exp()).collect()
        };
        let mut contains = |level: f64| {
            let (low, high) = Change::between(&draw(1000.0), &draw(level)).unwrap().interval.unwrap();
            low <= 1.0 && high >= 1.0
        };
        let same = (0..1000).filter(|_| contains(1000.0)).count();
        assert!((930..=970).contains(&same), "{same} of 1000");
        let other = (0..100).filter(|_| contains(1200.0)).count();
        assert!(other <= 2, "{other} of 100");
    }
}
