//! How one target compares with another: the ratio of a figure within each block, its mean over
//! blocks, and how far that mean may be trusted. Ratios are averaged as logarithms, so that twice
//! and half cancel out.
//!
//! The interval is a bootstrap over blocks, bias-corrected and accelerated (Efron 1987). For few
//! blocks a bootstrap is too narrow: its levels are widened by Student's quantile and √(n/(n−1))
//! (Hesterberg 2015, expanded percentiles).

use serde::{Deserialize, Serialize};

use super::distribution::{normal_quantile, normal_share, student_95};
use super::random::Random;

/// Resamples of an interval.
const RESAMPLES: usize = 10_000;
/// Fewer blocks than this say nothing about an interval.
pub const FEWEST_BLOCKS: usize = 5;

/// A figure of one target over the same figure of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Geometric mean of the ratios within blocks.
    pub mean: f64,
    /// 95 % interval of the mean; none below five blocks.
    pub interval: Option<(f64, f64)>,
    /// The ratio of each block in which both have the figure.
    pub values: Vec<f64>,
    /// What can be said.
    pub difference: Difference,
}

/// Whether two targets differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// Too few blocks for an interval.
    Unknown,
    /// None was detected: the interval holds 1, or lies within what the same target differs from
    /// itself here.
    None,
    /// The interval lies on one side of 1.
    Found,
}

impl Ratio {
    /// Compares the values of both in each block; pairs without two positive values are left out.
    /// None without any. `noise` is the interval of the control, where there is one.
    pub fn of(pairs: impl Iterator<Item = (f64, f64)>, noise: Option<(f64, f64)>) -> Option<Self> {
        let values: Vec<f64> =
            pairs.filter(|(mine, theirs)| *mine > 0.0 && *theirs > 0.0).map(|(a, b)| a / b).collect();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let interval = mean_interval(&logs).map(|(low, high)| (low.exp(), high.exp()));
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        Some(Self { mean, interval, values, difference: difference(interval, noise) })
    }

    /// Half of the interval's width, as a share of the mean: 0.03 for ± 3 %.
    pub fn precision(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high / low).sqrt() - 1.0)
    }
}

fn difference(interval: Option<(f64, f64)>, noise: Option<(f64, f64)>) -> Difference {
    let Some((low, high)) = interval else { return Difference::Unknown };
    let inside = noise.is_some_and(|(least, most)| least <= low && high <= most);
    if inside || (low <= 1.0 && 1.0 <= high) { Difference::None } else { Difference::Found }
}

/// The 95 % interval of the mean of `values`; none below five.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < FEWEST_BLOCKS {
        return None;
    }
    let n = count as f64;
    let mean = values.iter().sum::<f64>() / n;
    // A fixed seed: the same blocks always give the same interval.
    let mut random = Random::new(0x5eed);
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| (0..count).map(|_| values[random.below(count)]).sum::<f64>() / n).collect();
    means.sort_by(f64::total_cmp);
    // Half of the ties count as below, or equal values would look biased.
    let below = means.partition_point(|value| *value < mean) + means.partition_point(|value| *value <= mean);
    let bias = normal_quantile(below as f64 / (2 * RESAMPLES) as f64);
    let (second, third) = values.iter().fold((0.0, 0.0), |(second, third), value| {
        let off = value - mean;
        (second + off * off, third + off * off * off)
    });
    if second == 0.0 {
        return Some((mean, mean));
    }
    // The jackknife's acceleration, which for a mean is its skewness over 6 √n.
    let acceleration = third / (6.0 * second.powf(1.5));
    let reach = student_95(count - 1) * (n / (n - 1.0)).sqrt();
    let end = |z: f64| {
        let share = normal_share(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
        means[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)]
    };
    Some((end(-reach), end(reach)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of the standard normal distribution (Box and Muller).
    fn normal(random: &mut Random) -> f64 {
        (-2.0 * random.unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * random.unit()).cos()
    }

    /// The rates of two targets in each block, on a machine whose speed wanders from slice to slice
    /// and keeps nine tenths of where it was; `truth` is how much faster the first is.
    fn blocks(random: &mut Random, count: usize, truth: f64) -> Vec<(f64, f64)> {
        let mut speed = 0.0;
        let mut slice = |random: &mut Random| {
            speed = 0.9 * speed + 0.03 * normal(random);
            (speed + 0.02 * normal(random)).exp() * 1000.0
        };
        let mut block = |_| {
            let (one, two) = (slice(random), slice(random));
            // Random order within the block.
            if random.below(2) == 0 { (one * truth, two) } else { (two * truth, one) }
        };
        (0..count).map(&mut block).collect()
    }

    #[test]
    fn of_twenty_comparisons_of_a_target_with_itself_at_least_eighteen_find_nothing() {
        for (seed, count) in [(1, 5), (2, 10), (3, 20)] {
            let mut random = Random::new(seed);
            let quiet = (0..20).filter(|_| {
                let ratio = Ratio::of(blocks(&mut random, count, 1.0).into_iter(), None).unwrap();
                ratio.difference == Difference::None
            });
            assert!(quiet.count() >= 18, "{count} blocks");
        }
    }

    #[test]
    fn ninety_five_percent_intervals_hold_the_truth_about_as_often() {
        for (count, truth) in [(5, 1.0), (10, 1.25), (20, 0.9)] {
            let mut random = Random::new(count as u64);
            let held = (0..300).filter(|_| {
                let ratio = Ratio::of(blocks(&mut random, count, truth).into_iter(), None).unwrap();
                ratio.interval.is_some_and(|(low, high)| low <= truth && truth <= high)
            });
            let share = held.count() as f64 / 300.0;
            assert!((0.91..=0.99).contains(&share), "{count} blocks: {share}");
        }
    }

    #[test]
    fn a_difference_beyond_the_noise_is_found() {
        let mut random = Random::new(9);
        let ratio = Ratio::of(blocks(&mut random, 10, 1.2).into_iter(), None).unwrap();
        assert_eq!(ratio.difference, Difference::Found);
        let (low, high) = ratio.interval.unwrap();
        assert!(low < 1.2 && 1.2 < high && ratio.precision().unwrap() < 0.1, "{low} {high}");
    }

    #[test]
    fn what_lies_within_the_control_is_no_difference() {
        let pairs = || (0..6).map(|n| (102.0 + f64::from(n) * 0.1, 100.0));
        assert_eq!(Ratio::of(pairs(), None).unwrap().difference, Difference::Found);
        assert_eq!(Ratio::of(pairs(), Some((0.96, 1.04))).unwrap().difference, Difference::None);
        assert_eq!(Ratio::of(pairs(), Some((0.99, 1.01))).unwrap().difference, Difference::Found);
        assert_eq!(Ratio::of(pairs().take(4), None).unwrap().difference, Difference::Unknown);
    }

    #[test]
    fn twice_and_half_cancel_out_and_missing_figures_are_left_out() {
        let ratio = Ratio::of([(2.0, 1.0), (1.0, 2.0), (0.0, 5.0), (5.0, 0.0)].into_iter(), None).unwrap();
        assert!((ratio.mean - 1.0).abs() < 1e-12 && ratio.values == [2.0, 0.5]);
        assert!(Ratio::of(std::iter::empty(), None).is_none());
        let equal = Ratio::of([(3.0, 3.0); 6].into_iter(), None).unwrap();
        assert_eq!((equal.interval, equal.difference), (Some((1.0, 1.0)), Difference::None));
    }
}
