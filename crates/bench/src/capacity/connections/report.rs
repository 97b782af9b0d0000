//! What the connections cost, in lines for people.

use std::fmt::Write;

use super::ConnectionsRecord;
use crate::capacity::interval::{absent, mebibytes};
use bench_report::table::number;

/// The figures as text.
pub(super) fn render(record: &ConnectionsRecord<'_>) -> String {
    let load = record.load;
    let kind = match (record.head.target.scheme.as_str(), load.consume) {
        ("amqp", true) => "with a consumer on an exclusive queue each",
        ("amqp", false) => "with an open channel each",
        (_, true) => "with a subscription each",
        (_, false) => "without subscriptions",
    };
    let mut text = format!(
        "{} idle connections {kind}, {} at once, {} process(es)\n\n",
        number(load.count.into(), 0),
        load.parallel,
        load.processes
    );
    let mut line = |line: String| {
        let _ = writeln!(text, "  {line}");
    };
    let opening = &record.opening;
    let cost = |figure: fn(&bench_record::slice::Cost) -> f64| opening.broker.as_ref().map(figure);
    line(format!("opened in {} s: {} a second", number(opening.seconds, 2), number(opening.per_s, 0)));
    line(format!("CPU of the broker for each opening {} µs", absent(cost(|cost| cost.cpu_us_per_message), 1)));
    line(format!(
        "RSS {} MiB before; {} KiB for each connection",
        absent(record.resident_before.map(mebibytes), 1),
        absent(record.resident_each.map(|bytes| bytes / 1024.0), 2)
    ));
    let idle = record.idle.broker.as_ref();
    let share = idle.map(|cost| cost.cores);
    line(format!(
        "idle for {} s: the broker used {} ms of CPU, {} % of a core, {} µs for each connection and minute",
        number(record.idle.seconds, 1),
        absent(share.map(|cores| cores * record.idle.seconds * 1e3), 2),
        absent(share.map(|cores| cores * 100.0), 3),
        absent(share.map(|cores| cores * 60e6 / f64::from(load.count)), 2)
    ));
    line(format!(
        "{} of {} probes came back, round trip p50 {} µs, max {} µs; {} connections were closed by the broker",
        record.answered,
        record.probes,
        absent(record.round_trip_us.as_ref().map(|time| time.p50), 0),
        absent(record.round_trip_us.as_ref().map(|time| time.max), 0),
        record.dead
    ));
    record.verdict.violations.iter().for_each(|violation| line(format!("INVALID: {violation}")));
    record.verdict.notes.iter().for_each(|note| line(note.clone()));
    text
}
