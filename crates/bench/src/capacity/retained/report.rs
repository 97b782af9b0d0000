//! What the storm was like, in lines for people.

use std::fmt::Write;

use super::RetainedRecord;
use crate::capacity::interval::absent;
use bench_record::latency::Summary;
use bench_record::slice::Cost;
use bench_report::table::number;

/// The figures as text.
pub(super) fn render(record: &RetainedRecord<'_>) -> String {
    let load = record.load;
    let mut text = format!(
        "{} topics with a retained message of {} B each, published over {} connections; live traffic of {} a second\n\n",
        number(load.topics.into(), 0),
        load.size,
        load.connections,
        number(load.live_rate.into(), 0)
    );
    let mut line = |line: String| {
        let _ = writeln!(text, "  {line}");
    };
    let cpu = |cost: Option<&Cost>| absent(cost.map(|cost| cost.cpu_us_per_message), 2);
    let publishing = &record.publishing;
    line(format!(
        "published in {} s: {} a second; CPU of the broker for each {} µs, RSS {} B",
        number(publishing.seconds, 2),
        number(publishing.per_s, 0),
        cpu(publishing.broker.as_ref()),
        absent(record.resident_each, 0)
    ));
    let storm = &record.storm;
    line(format!(
        "one wildcard over all: the first after {} ms, {} in {} s: {} a second; CPU of the broker for each {} µs",
        absent(record.first_us.map(|first| first / 1e3), 2),
        number(storm.count as f64, 0),
        number(storm.seconds, 2),
        number(storm.per_s, 0),
        cpu(storm.broker.as_ref())
    ));
    for (when, latency) in [("before", &record.live_before_us), ("during", &record.live_during_us)] {
        line(format!("live messages {when} it: {}", latency.as_ref().map_or("none".to_owned(), of_live)));
    }
    record.verdict.violations.iter().for_each(|violation| line(format!("INVALID: {violation}")));
    text
}

fn of_live(latency: &Summary) -> String {
    let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(|micros| number(micros, 0));
    format!("p50 {p50} µs, p99 {p99} µs, max {max} µs of {}", number(latency.samples as f64, 0))
}
