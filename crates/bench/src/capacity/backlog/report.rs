//! The tables of a backlog: a row for each slice, the whole, and what a reader must know.

use std::fmt::Write;

use super::{BacklogRecord, PhaseRecord};
use crate::capacity::interval::{Interval, absent, mebibytes};
use bench_report::table::{aligned, number};

/// The tables as text.
pub(super) fn render(record: &BacklogRecord<'_>) -> String {
    let load = record.load;
    let mut text = format!(
        "{} messages of {} B, persistent, confirms with a window of {}, {}:{} on one queue, prefetch {}, seed {}\n",
        number(load.messages as f64, 0),
        load.size,
        load.window,
        load.producers,
        load.consumers,
        load.prefetch,
        load.seed
    );
    for phase in &record.phases {
        text.push('\n');
        text.push_str(&one(phase));
    }
    text
}

fn one(phase: &PhaseRecord) -> String {
    let mut rows: Vec<Vec<String>> = vec![row(phase.phase, Interval::TITLES.map(str::to_owned))];
    rows.extend(phase.slices.iter().enumerate().map(|(at, slice)| row(&(at + 1).to_string(), slice.cells())));
    rows.push(row("all", phase.total.cells()));
    let mut text = aligned(&rows);
    let mut line = |line: String| {
        let _ = writeln!(text, "  {line}");
    };
    if let Some(drift) = &phase.drift {
        line(format!(
            "the last whole slice against the second: CPU {}, rate {}, RSS {} MiB",
            absent(drift.cpu, 3),
            number(drift.rate, 3),
            drift.resident_bytes.map_or("-".to_owned(), |bytes| format!("{:+.1}", bytes as f64 / 1_048_576.0))
        ));
    }
    if let Some(confirm) = &phase.confirm_us {
        line(format!("confirm p50 {} µs, p99 {} µs", number(confirm.p50, 0), number(confirm.p99, 0)));
    }
    if let Some(peak) = phase.peak_resident_bytes {
        line(format!("peak RSS since the broker started {} MiB", number(mebibytes(peak), 1)));
    }
    if let Some((before, after)) = phase.dir_before.zip(phase.dir_after) {
        line(format!(
            "data directory {} MiB before, {} MiB after in {} files, {} MiB allocated",
            number(mebibytes(before.bytes), 1),
            number(mebibytes(after.bytes), 1),
            after.files,
            absent(after.allocated.map(mebibytes), 1)
        ));
    }
    if let Some(held) = phase.held {
        line(format!("the queue holds {} messages after it", number(held as f64, 0)));
    }
    let found = &phase.integrity;
    line(format!(
        "lost {}, duplicated {}, reordered {}, corrupted {}, refused {}, returned {}",
        found.lost, found.duplicated, found.reordered, found.corrupted, found.refused, found.returned
    ));
    phase.verdict.violations.iter().for_each(|violation| line(format!("INVALID: {violation}")));
    phase.verdict.notes.iter().for_each(|note| line(note.clone()));
    text
}

fn row(name: &str, cells: [String; 9]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}
