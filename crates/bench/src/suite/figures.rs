//! The figure that a cell is about, of each block: of the slices that count, and for metrics that
//! pass or fail of all slices.

use bench_record::rules::is_whole;
use bench_record::scenario::Scenario;
use bench_record::slice::{Measured, SliceRecord};
use bench_record::suite::Metric;
use bench_record::summary::usable;

/// A target's figure in each block: of the slices that count, or, where the figure is whether they
/// passed, of all.
pub(super) fn by_block(metric: Metric, scenario: &Scenario, name: &str, slices: &[SliceRecord]) -> Vec<(usize, f64)> {
    if metric == Metric::Passed {
        let tried = |slice: &&SliceRecord| slice.target == name && !slice.superseded && slice.lacks.is_none();
        let passed = |slice: &SliceRecord| value(metric, scenario, slice.measured.as_ref()?);
        return slices.iter().filter(tried).map(|slice| (slice.block, passed(slice).unwrap_or(0.0))).collect();
    }
    let usable = usable(name, slices);
    usable.iter().filter_map(|(block, measured)| Some((*block, value(metric, scenario, measured)?))).collect()
}

/// True when all messages that were sent in a slice came through, once, in order and unchanged. A
/// slice that its time ended sent fewer, and passes with those: how slow a broker is, is the matter
/// of other metrics.
fn came_through(measured: &Measured) -> bool {
    is_whole(&measured.integrity) && measured.rates.messages_per_s > 0.0
}

/// The figure that a cell is about.
fn value(metric: Metric, scenario: &Scenario, measured: &Measured) -> Option<f64> {
    match metric {
        Metric::MessagesPerSecond => Some(measured.rates.messages_per_s),
        Metric::MegabytesPerSecond => Some(measured.rates.messages_per_s * scenario.message.size as f64 / 1e6),
        Metric::LatencyUs => Some(measured.latencies.latency_us.as_ref()?.p50),
        Metric::CompletionUs => Some(measured.latencies.latency_us.as_ref()?.mean),
        Metric::PacketsPerOrder => measured.exchange.as_ref()?.packets_per_order,
        Metric::CpuUsPerMessage => Some(measured.costs.broker?.cpu_us_per_message),
        Metric::ResidentMib => Some(measured.costs.broker?.resident_bytes as f64 / (1024.0 * 1024.0)),
        Metric::Passed => Some(f64::from(came_through(measured))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::slice;
    use super::*;

    /// Slices that lost messages or failed were once left out, so that a target passed that had
    /// come through once in ten times.
    #[test]
    fn what_lost_messages_or_failed_did_not_pass() {
        type Change = fn(&mut SliceRecord);
        let cases: &[(&str, Change, Option<f64>)] = &[
            ("whole", |_| {}, Some(1.0)),
            ("lost", |slice| of(slice).integrity.lost = 1, Some(0.0)),
            ("corrupted", |slice| of(slice).integrity.corrupted = 1, Some(0.0)),
            ("duplicated", |slice| of(slice).integrity.duplicated = 1, Some(0.0)),
            ("refused", |slice| of(slice).integrity.refused = 4000, Some(0.0)),
            ("hung", |slice| of(slice).integrity.unsettled = 1, Some(0.0)),
            ("nothing arrived", |slice| of(slice).rates.messages_per_s = 0.0, Some(0.0)),
            ("failed", |slice| (slice.measured, slice.error) = (None, Some("reset".to_owned())), Some(0.0)),
            ("lacking", |slice| (slice.measured, slice.lacks) = (None, Some("queues".to_owned())), None),
            ("measured again", |slice| slice.superseded = true, None),
            // That others used the machine says nothing about the messages, and neither does the
            // end of the time.
            ("disturbed", |slice| of(slice).verdict.violations = vec!["disturbed: others".to_owned()], Some(1.0)),
            ("ended", |slice| of(slice).verdict.notes = vec!["stopped after 4 s".to_owned()], Some(1.0)),
        ];
        let passed = |slices: &[SliceRecord]| by_block(Metric::Passed, &Scenario::default(), "a", slices);
        for (what, change, expected) in cases {
            let mut changed = slice("a", 2);
            change(&mut changed);
            if let Some(measured) = &mut changed.measured {
                let mut broken = Vec::new();
                bench_record::rules::integrity(&measured.integrity, &mut broken);
                measured.verdict.violations.extend(broken);
                measured.verdict.valid = measured.verdict.violations.is_empty();
            }
            // Beside a slice that passed, and one of another target.
            let values = passed(&[slice("a", 1), changed, slice("b", 2)]);
            let expected: Vec<(usize, f64)> = [(1, 1.0)].into_iter().chain(expected.map(|value| (2, value))).collect();
            assert_eq!(values, expected, "{what}");
        }
    }

    fn of(slice: &mut SliceRecord) -> &mut Measured {
        slice.measured.as_mut().unwrap()
    }
}
