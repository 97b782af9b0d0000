//! Whether a series goes anywhere: over the blocks of a run, the windows of a warm-up, the depth of
//! a queue.

use super::distribution::student_95;

/// Beyond this many standard deviations a trend is no accident (two-sided 5 %).
const NO_ACCIDENT: f64 = 1.96;
/// Fewer values have no trend.
const FEWEST: usize = 5;

/// Where a series goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// Later values are larger.
    Up,
    /// Later values are smaller.
    Down,
}

/// The trend of `values` by Mann and Kendall: whether later values are larger (smaller) than
/// earlier ones more often than accident makes them. None: there is none, or fewer than five
/// values.
pub fn mann_kendall(values: &[f64]) -> Option<Trend> {
    let n = values.len() as f64;
    if values.len() < FEWEST {
        return None;
    }
    let mut score = 0.0;
    for (at, early) in values.iter().enumerate() {
        for late in &values[at + 1..] {
            score += f64::from(i8::from(late > early) - i8::from(late < early));
        }
    }
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    // The score goes in steps: one step towards nothing.
    let z = (score.abs() - 1.0).max(0.0) / deviation;
    match z > NO_ACCIDENT {
        false => None,
        true if score > 0.0 => Some(Trend::Up),
        true => Some(Trend::Down),
    }
}

/// The slope of `points` (x, y) by Theil and Sen, the median of the slopes of all pairs, which a
/// few wild points do not move. None for fewer than two points, or where all are at one x.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (at, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().filter(|(other, _)| other != x).map(|(u, v)| (v - y) / (u - x)));
    }
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied()
}

/// Whether a rate has settled: over the last five windows its slope can't be told from none, and it
/// varies little.
pub fn is_steady(rates: &[f64]) -> bool {
    const WINDOWS: usize = 5;
    const VARIATION: f64 = 0.05;
    let Some(last) = rates.len().checked_sub(WINDOWS).map(|from| &rates[from..]) else { return false };
    let n = WINDOWS as f64;
    let (mean, middle) = (last.iter().sum::<f64>() / n, (n - 1.0) / 2.0);
    let spread: f64 = last.iter().map(|rate| (rate - mean).powi(2)).sum();
    if mean <= 0.0 || (spread / (n - 1.0)).sqrt() > VARIATION * mean {
        return false;
    }
    let at = |index: usize| index as f64 - middle;
    let width: f64 = (0..WINDOWS).map(|index| at(index).powi(2)).sum();
    let slope = last.iter().enumerate().map(|(index, rate)| at(index) * rate).sum::<f64>() / width;
    let rest: f64 = last.iter().enumerate().map(|(index, rate)| (rate - mean - slope * at(index)).powi(2)).sum();
    let error = (rest / (n - 2.0) / width).sqrt();
    slope.abs() <= student_95(WINDOWS - 2) * error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_noticed_and_noise_is_not() {
        let cases: &[(&[f64], Option<Trend>)] = &[
            (&[1.0, 2.0, 3.0, 4.0, 5.0], Some(Trend::Up)),
            (&[9.0, 8.5, 8.0, 8.1, 7.0, 6.0, 6.2, 5.0], Some(Trend::Down)),
            (&[5.0, 4.0, 6.0, 5.0, 4.5, 5.5], None),
            (&[1.0, 2.0, 3.0, 4.0], None),
            (&[7.0; 8], None),
        ];
        for (values, trend) in cases {
            assert_eq!(mann_kendall(values), *trend, "{values:?}");
        }
    }

    #[test]
    fn a_slope_is_not_moved_by_a_wild_point() {
        let mut points: Vec<(f64, f64)> = (0..11).map(|n| (f64::from(n), 3.0 * f64::from(n) + 1.0)).collect();
        points[4].1 = 1000.0;
        assert!((theil_sen(&points).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn steady_is_level_and_calm() {
        let cases: &[(&[f64], bool)] = &[
            (&[100.0, 101.0, 100.0, 99.0], false),
            (&[100.0, 101.0, 99.5, 99.0, 100.5], true),
            (&[10.0, 50.0, 100.0, 101.0, 99.5, 99.0, 100.5], true),
            // Level but wild, calm but rising, nothing at all.
            (&[100.0, 80.0, 120.0, 95.0, 100.0], false),
            (&[100.0, 102.0, 104.0, 106.0, 108.0], false),
            (&[0.0; 6], false),
        ];
        for (rates, steady) in cases {
            assert_eq!(is_steady(rates), *steady, "{rates:?}");
        }
    }
}
