//! The few distributions that intervals need: the normal one, and Student's for few values.

/// Two-sided 95 % quantiles of Student's distribution for 1, 2, 3… degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The two-sided 95 % quantile of Student's distribution.
pub fn student_95(freedom: usize) -> f64 {
    match freedom.checked_sub(1) {
        None => f64::INFINITY,
        // The error of the expansion is below 0.001 from here on.
        Some(at) => STUDENT.get(at).copied().unwrap_or(1.959_96 + 2.4 / freedom as f64),
    }
}

/// The share of a normal distribution below `z` (Abramowitz and Stegun 26.2.17; error below 1e-7).
pub fn normal_share(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// Where a normal distribution has `share` (between 0 and 1) below: the inverse of
/// [`normal_share`], by bisection.
pub fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_share(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_quantiles_come_out() {
        for (share, z) in [(0.5, 0.0), (0.975, 1.959_964), (0.025, -1.959_964), (0.999, 3.090_232)] {
            assert!((normal_quantile(share) - z).abs() < 1e-4, "{share}");
            assert!((normal_share(z) - share).abs() < 1e-6, "{z}");
        }
        for (freedom, t) in [(1, 12.706), (9, 2.262), (30, 2.042), (60, 2.000), (1000, 1.962)] {
            assert!((student_95(freedom) - t).abs() < 0.002, "{freedom}");
        }
        assert!(student_95(0).is_infinite());
    }
}
