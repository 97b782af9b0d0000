//! Axes: from values to places, and the round numbers at which an axis is marked.

use bench_record::suite::Figure;

/// A step is at most this many times shorter than the axis.
const TICKS: f64 = 5.0;

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Linear,
    Logarithmic,
}

impl Kind {
    /// That of the vertical axis of `figure`.
    pub(in super::super) fn of_y(figure: &Figure) -> Self {
        if figure.log_y { Self::Logarithmic } else { Self::Linear }
    }

    /// That of the horizontal axis of `figure`.
    pub(in super::super) fn of_x(figure: &Figure) -> Self {
        if figure.log_x { Self::Logarithmic } else { Self::Linear }
    }
}

/// A linear or logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Scale {
    low: f64,
    high: f64,
    kind: Kind,
    from: f64,
    to: f64,
}

impl Scale {
    /// A linear axis from 0 over all `values`.
    pub(in super::super) fn from_zero(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { low: 0.0, high: if high > 0.0 { high * 1.04 } else { 1.0 }, kind: Kind::Linear, from, to }
    }

    /// An axis over all `values`, which leaves a little room at both ends. What is not above 0 has
    /// no place on a logarithmic one and is put at its end.
    pub(in super::super) fn over(values: impl Iterator<Item = f64>, kind: Kind, from: f64, to: f64) -> Self {
        let log = kind == Kind::Logarithmic;
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = usable.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 2.0) } else { (low, high) };
        match (log, low < high) {
            (true, true) => Self { low: low / 1.12, high: high * 1.12, kind, from, to },
            (true, false) => Self { low: low / 2.0, high: high * 2.0, kind, from, to },
            (false, true) => Self { low: low - (high - low) * 0.03, high: high + (high - low) * 0.03, kind, from, to },
            (false, false) => Self { low: low - 1.0, high: high + 1.0, kind, from, to },
        }
    }

    /// True where equal ratios are equally long.
    pub(in super::super) fn is_logarithmic(&self) -> bool {
        self.kind == Kind::Logarithmic
    }

    /// True for what lies above the axis and is drawn at its end.
    pub(in super::super) fn is_above(&self, value: f64) -> bool {
        value > self.high
    }

    /// True for what lies below the axis and is drawn at its beginning.
    pub(in super::super) fn is_below(&self, value: f64) -> bool {
        value < self.low
    }

    /// Where a value is.
    pub(in super::super) fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic() {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round numbers on the axis, ascending.
    pub(in super::super) fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic() { self.decades() } else { self.steps() }
    }

    fn steps(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    /// Powers of ten; also 2 and 5 times those where there are few of them.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |value: &f64| *value >= self.low && *value <= self.high;
        let parts: &[f64] = if (self.high / self.low).log10() < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (first..=last).flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
        let ticks: Vec<f64> = all.filter(within).collect();
        if ticks.len() >= 2 { ticks } else { vec![self.low, self.high] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = Scale::from_zero([0.0, 47_000.0].into_iter(), 0.0, 100.0);
        assert_eq!(linear.ticks(), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        let log = Scale::over([3.0, 80_000.0].into_iter(), Kind::Logarithmic, 0.0, 100.0);
        assert_eq!(log.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let near = Scale::over([0.6, 4.0].into_iter(), Kind::Logarithmic, 0.0, 100.0);
        assert_eq!(near.ticks(), [1.0, 2.0]);
    }

    #[test]
    fn places_grow_with_values_and_never_leave_the_axis() {
        for scale in [
            Scale::from_zero([9.0].into_iter(), 10.0, 90.0),
            Scale::over([1.0, 9.0].into_iter(), Kind::Logarithmic, 10.0, 90.0),
        ] {
            let places: Vec<f64> = [0.0, 1.0, 3.0, 9.0, 99.0].into_iter().map(|value| scale.at(value)).collect();
            assert!(places.windows(2).all(|pair| pair[0] <= pair[1]), "{places:?}");
            assert!(places[0] >= 10.0 && places[4] <= 90.0);
        }
        let nothing = Scale::over(std::iter::empty(), Kind::Logarithmic, 0.0, 1.0);
        assert!(nothing.at(1.0).is_finite() && Scale::from_zero(std::iter::empty(), 0.0, 1.0).at(0.0) == 0.0);
    }
}
