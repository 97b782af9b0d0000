//! The table at the end of a run: one row for each target, and under it what a reader must know to
//! believe it.

use std::fmt::Write;

use bench_record::run::{Ended, Record, TargetSummary};
use bench_record::scenario::{Destination, Mode, Rate, Scenario};
use bench_record::statistics::ratio::{Difference, Ratio};
use bench_record::statistics::spread::Spread;
use bench_record::target::Target;

/// A column: its title and its cell.
type Column = (&'static str, fn(&TargetSummary) -> String);

/// The table of a whole run as text.
pub fn render(record: &Record) -> String {
    let mut text = format!("{}\n\n", describe(&record.scenario));
    let columns = columns(record);
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|(title, _)| (*title).to_owned()).collect()];
    rows.extend(record.summary.iter().map(|summary| columns.iter().map(|(_, cell)| cell(summary)).collect()));
    text.push_str(&aligned(&rows));
    text.push_str(&comparison(record));
    for summary in &record.summary {
        for (remark, slices) in &summary.remarks {
            let _ = writeln!(text, "  {}: {remark} ({slices} of {} slices)", summary.target, summary.slices);
        }
    }
    text.push_str(&floor(record));
    if let Some(network) = &record.machine.network {
        let _ = writeln!(text, "  over {network}");
    }
    text
}

/// What the ratios to the first target come to, for each target that has some; and why the run
/// ended.
fn comparison(record: &Record) -> String {
    let mut text = String::new();
    let first = record.targets.first().map_or("", |first| first.name.as_str());
    for summary in
        record.summary.iter().filter(|summary| record.targets.iter().any(|t| t.name == summary.target && !t.is_relay()))
    {
        if let Some(ratio) = summary.to_log.as_ref().and_then(|ratios| ratios.rate.as_ref()) {
            let told = judged(ratio).unwrap_or_else(|| significant(ratio.mean));
            let _ = writeln!(text, "  {} / forcing the same bytes to a plain log: rate {told}", summary.target);
        }
        let Some(ratios) = &summary.to_first else { continue };
        let figures = [
            ("rate", &ratios.rate),
            ("CPU", &ratios.cpu),
            ("p99", &ratios.latency_p99),
            ("confirm p99", &ratios.confirm_p99),
        ];
        let told: Vec<String> =
            figures.iter().filter_map(|(what, ratio)| Some(format!("{what} {}", judged(ratio.as_ref()?)?))).collect();
        if !told.is_empty() {
            let name = if record.control.as_ref() == Some(&summary.target) {
                "noise (first target again)"
            } else {
                &summary.target
            };
            let _ = writeln!(text, "  {name} / {first}: {}", told.join(", "));
        }
    }
    let ended = match record.ended {
        Ended::Blocks => return text,
        Ended::Precision => "the ratios are known as well as was asked for",
        Ended::Budget => "the time budget is used up",
        Ended::Interrupt => "it was interrupted: what follows from few slices is worth little",
    };
    let blocks = record.slices.iter().map(|slice| slice.block).max().unwrap_or(0);
    let _ = writeln!(text, "  ended after {blocks} block(s): {ended}");
    text
}

/// A ratio with its interval and what it says; none where there are too few blocks for one.
fn judged(ratio: &Ratio) -> Option<String> {
    let (low, high) = ratio.interval?;
    let verdict = if ratio.difference == Difference::None { " no difference detected" } else { "" };
    Some(format!("{} [{}, {}]{verdict}", significant(ratio.mean), significant(low), significant(high)))
}

/// The scenario in one sentence.
pub fn describe(scenario: &Scenario) -> String {
    let durability = if scenario.message.persistent { "persistent" } else { "transient" };
    let mut text = format!("{} B {durability}", scenario.message.size);
    if scenario.mode == Mode::Pingpong {
        text.push_str(", one message there and back at a time; latency is the round trip");
        return text;
    }
    if scenario.mode == Mode::Exchange {
        text.push_str(", a stock exchange; latency is from an order's intended time to its answer");
        return text;
    }
    let _ = write!(
        text,
        ", {}:{} on {} queue(s)",
        scenario.topology.producers, scenario.topology.consumers, scenario.topology.queues
    );
    match scenario.topology.destination {
        Destination::Queue => {}
        Destination::Fanout => {
            let _ = write!(text, ", fan-out with {} idle queue(s)", scenario.topology.idle_queues);
        }
        Destination::Spread => text.push_str(", all of them written and read by all"),
        Destination::Direct => text.push_str(" of a direct exchange"),
        Destination::Pattern => {
            let _ = write!(text, " of a topic exchange, {} pattern(s) each", scenario.topology.bindings);
        }
        Destination::Topic => text.push_str(", subscriptions to a topic"),
        Destination::DurableTopic => text.push_str(", durable subscriptions to a topic"),
    }
    if scenario.clients.drain {
        text.push_str(", filled before");
    }
    match scenario.clients.window {
        0 => text.push_str(", no confirms"),
        window => {
            let _ = write!(text, ", confirms with a window of {window}");
        }
    }
    match (scenario.topology.consumers, scenario.clients.ack_every) {
        (0, _) => {}
        (_, 0) => text.push_str(", automatic acknowledgement"),
        (_, every) => {
            let _ = write!(text, ", prefetch {}, one acknowledgement per {every}", scenario.clients.prefetch);
        }
    }
    text.push_str(match scenario.pace.rate {
        Rate::Saturate => ", closed loop; latency from the send time",
        Rate::Fixed(_) | Rate::Half => ", open loop; latency from the intended send time",
    });
    text
}

fn columns(record: &Record) -> Vec<Column> {
    let scenario = &record.scenario;
    let relay = record.targets.iter().any(Target::only_copies) && record.targets.len() > 1;
    let several = record.targets.iter().filter(|target| !target.is_relay()).count() > 1;
    let repeated = record.summary.iter().any(|summary| summary.slices > 1);
    let mut columns: Vec<Column> =
        vec![("target", |s| s.target.clone()), ("msg/s", |s| cell(s.messages_per_s.as_ref(), 0))];
    let mut add = |wanted: bool, column: Column| columns.extend(wanted.then_some(column));
    add(repeated, ("(min-max)", |s| range(s.messages_per_s.as_ref())));
    add(relay, ("of relay", |s| ratio(s.within_blocks.rate_to_relay.as_ref())));
    add(several, ("of first", |s| ratio(s.within_blocks.rate_to_first.as_ref())));
    add(true, ("µs CPU/msg", |s| cell(s.cpu_us_per_message.as_ref(), 3)));
    add(relay, ("of relay", |s| ratio(s.within_blocks.cpu_to_relay.as_ref())));
    add(several, ("of first", |s| ratio(s.within_blocks.cpu_to_first.as_ref())));
    add(true, ("switches/msg", |s| cell(s.switches_per_message.as_ref(), 4)));
    add(true, ("RSS MiB", |s| mebibytes(s.resident_bytes.as_ref())));
    let (receives, confirms) = (scenario.topology.consumers > 0, scenario.clients.window > 0);
    add(receives, ("p50 µs", |s| cell(s.times.latency_p50_us.as_ref(), 1)));
    add(receives, ("p99 µs", |s| cell(s.times.latency_p99_us.as_ref(), 1)));
    add(confirms, ("confirm p50 µs", |s| cell(s.times.confirm_p50_us.as_ref(), 1)));
    add(confirms, ("p99 µs", |s| cell(s.times.confirm_p99_us.as_ref(), 1)));
    add(scenario.message.persistent, ("flushes/s", |s| cell(s.flushes_per_s.as_ref(), 0)));
    columns.push(("valid", |s| format!("{}/{}", s.valid, s.slices)));
    columns
}

fn cell(spread: Option<&Spread>, digits: usize) -> String {
    spread.map_or("-".to_owned(), |spread| number(spread.median, digits))
}

fn mebibytes(spread: Option<&Spread>) -> String {
    spread.map_or("-".to_owned(), |spread| number(spread.median / 1_048_576.0, 0))
}

/// A median ratio.
fn ratio(spread: Option<&Spread>) -> String {
    spread.map_or("-".to_owned(), |spread| significant(spread.median))
}

/// A number with three significant digits at least, its thousands apart.
pub(crate) fn significant(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    number(value, digits)
}

fn range(spread: Option<&Spread>) -> String {
    spread.map_or("-".to_owned(), |spread| format!("{}-{}", number(spread.min, 0), number(spread.max, 0)))
}

/// A number with its thousands apart.
pub fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |dot| text.split_at(dot));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Rows as text, their cells below each other.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let space = widths[column];
            // Names to the left, numbers to the right.
            let _ = if column == 0 { write!(text, "{cell:<space$}") } else { write!(text, "  {cell:>space$}") };
        }
        text.push('\n');
    }
    text
}

/// What this machine charges for the same promises, measured in the same run.
fn floor(record: &Record) -> String {
    let mut text = String::new();
    let median = |value: fn(&bench_record::machine::Forced) -> Option<f64>| {
        Spread::of(record.forced.iter().filter_map(value).collect()).map(|spread| spread.median)
    };
    let Some(forced) = median(|forced| Some(forced.latency.p50)) else { return text };
    let cpu = median(|forced| forced.cpu_us);
    let _ = writeln!(
        text,
        "  an empty 4 KiB forced write here: p50 {} µs, {} µs of CPU, {} flush(es) counted",
        number(forced, 1),
        cpu.map_or("-".to_owned(), |cpu| number(cpu, 1)),
        median(|forced| forced.flushes_each).map_or("-".to_owned(), |count| number(count, 2)),
    );
    let relay = record
        .summary
        .iter()
        .find(|summary| record.targets.iter().any(|t| t.only_copies() && t.name == summary.target));
    let Some(relay) = relay else { return text };
    if record.scenario.clients.window == 1
        && let Some(trip) = &relay.times.confirm_p50_us
    {
        let _ = writeln!(
            text,
            "  floor of a confirm that is waited for: {} µs (one forced write {}, one round trip through the relay {})",
            number(forced + trip.median, 1),
            number(forced, 1),
            number(trip.median, 1)
        );
    }
    for summary in record.summary.iter().filter(|summary| summary.target != relay.target) {
        if let (Some(cpu), Some(copied), Some(flushes), Some(spent)) =
            (cpu, &relay.cpu_us_per_message, &summary.flushes_per_message, &summary.cpu_us_per_message)
        {
            let least = copied.median + flushes.median * cpu;
            let _ = writeln!(
                text,
                "  {}: {} times the CPU of copying its bytes and forcing its flushes ({} µs per message)",
                summary.target,
                number(spent.median / least, 2),
                number(least, 3)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        let cases = [
            (0.0, 0, "0"),
            (999.4, 0, "999"),
            (1000.0, 0, "1 000"),
            (1_234_567.891, 1, "1 234 567.9"),
            (-1234.0, 0, "-1 234"),
            (-123.0, 0, "-123"),
        ];
        for (value, digits, text) in cases {
            assert_eq!(number(value, digits), text);
        }
    }

    #[test]
    fn a_ratio_is_told_with_its_interval_and_what_it_says() {
        let ratio = |interval, difference| Ratio { mean: 0.9617, interval, values: Vec::new(), difference };
        let told = |interval, difference| judged(&ratio(interval, difference));
        assert_eq!(told(Some((0.9411, 1.2)), Difference::Found).as_deref(), Some("0.962 [0.941, 1.20]"));
        let none = told(Some((0.9, 1.1)), Difference::None);
        assert_eq!(none.as_deref(), Some("0.962 [0.900, 1.10] no difference detected"));
        assert_eq!(told(None, Difference::Unknown), None);
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["target".to_owned(), "µs".to_owned()], vec!["a".to_owned(), "1 000".to_owned()]];
        assert_eq!(aligned(&rows), "target     µs\na       1 000\n");
    }
}
