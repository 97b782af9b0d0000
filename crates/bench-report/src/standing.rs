//! Who is ahead: how one target compares with the first within a cell, and when nothing can be
//! said. A ratio without an interval ranks no target, and neither does one between different
//! promises.

use bench_record::durability::Durability;
use bench_record::statistics::ratio::{Difference, Ratio};
use bench_record::suite::{Metric, Role, TargetFacts};

/// What a comparison allows to say, from the first target's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The first target is better, and the whole interval says so.
    Ahead,
    /// The first target is worse, and the whole interval says so.
    Behind,
    /// No difference was detected.
    Level,
    /// Too few blocks for an interval.
    Unknown,
    /// The two promise different things about the message, so neither is ranked.
    OtherPromise,
}

/// The first target against another one in one cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// How many times better the first target is: below 1 it is worse, whatever the metric's
    /// direction.
    pub(crate) advantage: f64,
    /// Its 95 % interval.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) standing: Standing,
}

/// Turns `to_first`, another target's figure over the first's, into the first one's advantage.
pub(crate) fn compare(metric: Metric, to_first: &Ratio) -> Comparison {
    let (advantage, interval) = if metric.more_is_better() {
        (1.0 / to_first.mean, to_first.interval.map(|(low, high)| (1.0 / high, 1.0 / low)))
    } else {
        (to_first.mean, to_first.interval)
    };
    let standing = match to_first.difference {
        Difference::Unknown => Standing::Unknown,
        Difference::None => Standing::Level,
        Difference::Found if advantage > 1.0 => Standing::Ahead,
        Difference::Found => Standing::Behind,
    };
    Comparison { advantage, interval, standing }
}

/// What a load asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Messages outlive the broker.
    pub(crate) kept: bool,
    /// Producers wait for confirms.
    pub(crate) confirmed: bool,
}

/// What a confirm promises on a target under a load. An audit that supports less than was declared
/// prevails; none: the target declares nothing.
pub(crate) fn promise(facts: &TargetFacts, load: Load) -> Option<Durability> {
    match (facts.role, load.confirmed, load.kept) {
        (Role::Limit, _, _) => None,
        (_, false, _) => Some(Durability::D0),
        (_, _, false) => Some(Durability::D1),
        _ => {
            let declared = facts.declared?;
            Some(facts.audited.as_ref().map_or(declared, |audited| audited.supports.min(declared)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_ranks_and_the_direction_of_the_metric_decides_who_is_ahead() {
        use Difference::{Found, None as Same, Unknown};
        let (rate, latency) = (Metric::MessagesPerSecond, Metric::LatencyUs);
        let cases = [
            (rate, 0.5, Found, Standing::Ahead),
            (rate, 2.0, Found, Standing::Behind),
            (rate, 0.5, Same, Standing::Level),
            (rate, 0.5, Unknown, Standing::Unknown),
            (latency, 2.0, Found, Standing::Ahead),
            (latency, 0.5, Found, Standing::Behind),
        ];
        for (metric, mean, difference, standing) in cases {
            let ratio = Ratio { mean, interval: Some((0.4, 0.8)), values: vec![mean], difference };
            let found = compare(metric, &ratio);
            assert_eq!(found.standing, standing, "{metric:?} {mean}");
            let turned = if metric == rate { (1.25, 2.5) } else { (0.4, 0.8) };
            assert_eq!(found.interval, Some(turned));
        }
    }
}
