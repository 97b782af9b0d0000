//! The record of a single run as a report of one scenario, so that everything that reads reports
//! reads runs too: a cell for the rate, one for the CPU per message, one for the latency.

use std::collections::BTreeMap;

use super::table;
use bench_record::failure::Failure;
use bench_record::run::{Record, TargetSummary, VERSION};
use bench_record::slice::SliceRecord;
use bench_record::statistics::ratio::Ratio;
use bench_record::statistics::spread::Spread;
use bench_record::suite::{
    self, Cell, CellOutcome, CellResult, Extent, Figure, FigureKind, Figures, Metric, Profile, Report, Role,
    SuiteRecord, TargetFacts,
};
use bench_record::target::Target;

/// The id of the only suite.
const ID: &str = "run";

/// A figure of a target's summary.
type Part<T> = fn(&TargetSummary) -> Option<&T>;

/// What becomes of a summary: a row, its title, its metric, and where the figure and its ratios
/// are.
struct Row {
    id: &'static str,
    metric: Metric,
    value: Part<Spread>,
    to_first: Part<Ratio>,
    of_limit: Part<Spread>,
}

const ROWS: [Row; 3] = [
    Row {
        id: "rate",
        metric: Metric::MessagesPerSecond,
        value: |s| s.messages_per_s.as_ref(),
        to_first: |s| s.to_first.as_ref()?.rate.as_ref(),
        of_limit: |s| s.within_blocks.rate_to_relay.as_ref(),
    },
    Row {
        id: "cpu",
        metric: Metric::CpuUsPerMessage,
        value: |s| s.cpu_us_per_message.as_ref(),
        to_first: |s| s.to_first.as_ref()?.cpu.as_ref(),
        of_limit: |s| s.within_blocks.cpu_to_relay.as_ref(),
    },
    Row {
        id: "latency",
        metric: Metric::LatencyUs,
        value: |s| s.times.latency_p50_us.as_ref().or(s.times.confirm_p50_us.as_ref()),
        to_first: |s| s.to_first.as_ref()?.latency_p50.as_ref().or(s.to_first.as_ref()?.confirm_p50.as_ref()),
        of_limit: |_| None,
    },
];

/// The report of a run.
pub(super) fn report(record: Record) -> Result<Report, Failure> {
    if record.version != VERSION {
        return Err(Failure::new(format!("the record is of version {}, this program reads {VERSION}", record.version)));
    }
    let cells: Vec<Cell> = ROWS
        .iter()
        .filter(|row| record.summary.iter().any(|summary| (row.value)(summary).is_some()))
        .map(|row| cell(&record, row))
        .collect();
    let figure = Figure {
        title: "The scenario".to_owned(),
        kind: FigureKind::Bars,
        rows: cells.iter().map(|cell| cell.row.clone()).collect(),
        across: None,
        metric: None,
        log_x: false,
        log_y: false,
    };
    let suite = SuiteRecord {
        id: ID.to_owned(),
        title: "One scenario".to_owned(),
        gist: String::new(),
        citation: table::describe(&record.scenario),
        environment: String::new(),
        faults: Vec::new(),
        cells,
        figures: vec![figure],
        claims: Vec::new(),
    };
    Ok(Report {
        version: suite::VERSION,
        program: record.program,
        started: record.started,
        finished: record.finished,
        command: record.command,
        machine: record.machine,
        extent: Extent {
            scale: 1.0,
            blocks: record.slices.iter().map(|slice| slice.block).max().unwrap_or(0),
            seed: record.seed,
            budget_s: 0.0,
            frozen: record.frozen,
        },
        targets: record.targets.into_iter().map(|target| facts(target, record.control.as_ref())).collect(),
        forced: record.forced,
        suites: vec![suite],
    })
}

fn facts(target: Target, control: Option<&String>) -> TargetFacts {
    let role = match control {
        _ if target.is_relay() => Role::Limit,
        Some(name) if *name == target.name => Role::Control,
        _ => Role::Broker,
    };
    TargetFacts {
        role,
        product: target.software.peer.clone(),
        version: target.software.version.clone(),
        declared: target.durability,
        target,
        audited: None,
        start_s: None,
        idle_bytes: None,
    }
}

fn cell(record: &Record, row: &Row) -> Cell {
    let results = record.summary.iter().map(|summary| {
        let all: Vec<SliceRecord> =
            record.slices.iter().filter(|slice| slice.target == summary.target).cloned().collect();
        CellResult { target: summary.target.clone(), outcome: outcome(summary, row, all) }
    });
    Cell {
        row: row.id.to_owned(),
        title: row.metric.title().to_owned(),
        profile: Profile::Fair,
        point: BTreeMap::new(),
        metric: row.metric,
        load: record.scenario.clone(),
        scaled: None,
        published: Vec::new(),
        results: results.collect(),
    }
}

fn outcome(summary: &TargetSummary, row: &Row, all: Vec<SliceRecord>) -> CellOutcome {
    let Some(value) = (row.value)(summary).cloned() else {
        let last = |told: fn(&SliceRecord) -> Option<&String>| all.iter().rev().find_map(told).cloned();
        return match (last(|slice| slice.lacks.as_ref()), last(|slice| slice.error.as_ref())) {
            (Some(lacks), _) => CellOutcome::NotApplicable { lacks },
            (None, Some(error)) => CellOutcome::Failed { error },
            (None, None) => CellOutcome::NotApplicable { lacks: format!("a measured {}", row.metric.title()) },
        };
    };
    CellOutcome::Measured(Box::new(Figures {
        value,
        to_first: (row.to_first)(summary).and_then(|ratio| Spread::of(ratio.values.clone())),
        of_limit: (row.of_limit)(summary).cloned(),
        slices: summary.slices,
        valid: summary.valid,
        remarks: summary.remarks.clone(),
        all,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::scenario::Scenario;

    #[test]
    fn a_run_says_whether_who_was_not_measured_stood_still() {
        // Records from before say nothing of it.
        for (said, frozen) in [(None, false), (Some(false), false), (Some(true), true)] {
            let mut text = serde_json::json!({
                "version": VERSION, "program": "p", "started": 1, "command": [], "seed": 1, "scenario": Scenario::default(),
                "machine": { "cores": 2, "os": "linux", "kernel": null, "processor": null },
                "targets": [], "forced": [], "slices": [], "summary": [],
            });
            if let Some(said) = said {
                text["frozen"] = said.into();
            }
            assert_eq!(report(serde_json::from_value(text).unwrap()).unwrap().extent.frozen, frozen, "{said:?}");
        }
    }
}
