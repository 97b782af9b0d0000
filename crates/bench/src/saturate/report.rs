//! The tables of a search and of a curve.

use std::fmt::Write;

use super::{Found, SaturateRecord};
use bench_record::scenario::Rate;
use bench_record::slice::Measured;
use bench_record::statistics::spread::Spread;
use bench_report::table::{aligned, describe, number};

/// Everything that was found, as text.
pub(super) fn render(record: &SaturateRecord) -> String {
    let open = record.scenario.clone().with(|s| s.pace.rate = Rate::Half);
    let mut text = format!("{}, p99 up to {} ms\n\n", describe(&open), number(record.slo_us / 1000.0, 0));
    let mut rows = vec![
        ["target", "sustains msg/s", "closed loop", "p50 µs", "p99 µs", "µs CPU/msg", "trials"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(record.results.iter().map(row));
    text.push_str(&aligned(&rows));
    for found in &record.results {
        if let Some(error) = &found.error {
            let _ = writeln!(text, "  {}: FAILED: {error}", found.target.name);
        }
        let failed = found.trials.iter().filter(|trial| !trial.sustained);
        if let Some(lowest) = failed.min_by(|left, right| left.rate.total_cmp(&right.rate)) {
            let (name, rate, why) = (&found.target.name, number(lowest.rate, 0), lowest.reasons.join("; "));
            let _ = writeln!(text, "  {name}: not {rate} msg/s: {why}");
        }
    }
    if record.results.iter().any(|found| !found.curve.is_empty()) {
        text.push('\n');
        text.push_str(&aligned(&curve(record)));
    }
    if record.finished.is_none() {
        text.push_str("  interrupted: what is missing was not measured\n");
    }
    text
}

/// What a target sustains, with the figures of that trial.
fn row(found: &Found) -> Vec<String> {
    let best =
        found.trials.iter().filter(|trial| trial.sustained).max_by(|left, right| left.rate.total_cmp(&right.rate));
    let measured = best.and_then(|trial| trial.measured.as_ref());
    let cell = |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| number(value, digits));
    vec![
        found.target.name.clone(),
        cell(found.sustained_per_s, 0),
        cell(found.closed_loop_per_s, 0),
        cell(measured.and_then(|m| Some(latency(m)?.0)), 1),
        cell(measured.and_then(|m| Some(latency(m)?.1)), 1),
        cell(measured.and_then(|m| Some(m.costs.broker?.cpu_us_per_message)), 3),
        found.trials.len().to_string(),
    ]
}

/// p50 and p99 until receipt, or until the confirm where there is no consumer.
fn latency(measured: &Measured) -> Option<(f64, f64)> {
    let latency = measured.latencies.latency_us.as_ref().or(measured.latencies.confirm_us.as_ref())?;
    Some((latency.p50, latency.p99))
}

/// A row for each target and share: medians over its blocks.
fn curve(record: &SaturateRecord) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["target", "load", "msg/s", "reached", "p50 µs", "p99 µs", "p99.9 µs", "sustained"].map(str::to_owned).to_vec(),
    ];
    for found in &record.results {
        // A relay has one consumer for each producer.
        let per_send = if found.target.is_relay() { 1.0 } else { record.scenario.receipts_per_send() };
        let mut shares: Vec<f64> = found.curve.iter().map(|point| point.share).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        for share in shares {
            let points: Vec<_> = found.curve.iter().filter(|point| point.share == share).collect();
            let median = |value: &dyn Fn(&Measured) -> Option<f64>, digits| {
                let values = points.iter().filter_map(|point| value(point.trial.measured.as_ref()?)).collect();
                Spread::of(values).map_or("-".to_owned(), |spread| number(spread.median, digits))
            };
            let sustained = points.iter().filter(|point| point.trial.sustained).count();
            rows.push(vec![
                found.target.name.clone(),
                format!("{:.0} %", share * 100.0),
                points.first().map_or("-".to_owned(), |point| number(point.trial.rate, 0)),
                median(&|m| Some(m.rates.messages_per_s / per_send), 0),
                median(&|m| Some(latency(m)?.0), 1),
                median(&|m| Some(latency(m)?.1), 1),
                median(&|m| Some(m.latencies.latency_us.as_ref().or(m.latencies.confirm_us.as_ref())?.p999), 1),
                format!("{sustained}/{}", points.len()),
            ]);
        }
    }
    rows
}
