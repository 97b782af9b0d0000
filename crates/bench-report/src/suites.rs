//! Suites as text: a table for each with the published figures beside the measured ones, and what
//! became of the claims.

use std::fmt::Write;

use crate::table::{aligned, number};
use bench_record::suite::{Cell, CellOutcome, ClaimVerdict, Metric, Profile, Report, SuiteRecord, label};

/// All suites of a report.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for facts in &report.targets {
        let software = [facts.product.as_deref(), facts.version.as_deref()];
        let software: Vec<&str> = software.into_iter().flatten().collect();
        let _ = writeln!(text, "{}: {}", facts.target.name, software.join(" "));
    }
    if let Some(network) = &report.machine.network {
        let _ = writeln!(text, "over {network}");
    }
    for suite in &report.suites {
        text.push_str(&one(report, suite));
    }
    if report.finished.is_none() {
        text.push_str("\ninterrupted: what is marked - was not measured\n");
    }
    text
}

fn one(report: &Report, suite: &SuiteRecord) -> String {
    let mut text = format!("\n{}: {}\n{}\n\n", suite.id, suite.title, suite.citation);
    let profiles = suite.cells.iter().any(|cell| cell.profile != suite.cells[0].profile);
    let mut heads = vec!["row".to_owned()];
    heads.extend(profiles.then(|| "profile".to_owned()));
    heads.push("unit".to_owned());
    for (at, facts) in report.targets.iter().enumerate() {
        heads.push(facts.target.name.clone());
        heads.extend((at > 0).then(|| "x first".to_owned()));
    }
    heads.extend(["what", "published"].map(str::to_owned));
    let mut rows = vec![heads];
    for cell in &suite.cells {
        let mut line = vec![label(&cell.row, &cell.point)];
        line.extend(profiles.then(|| profile(cell.profile).to_owned()));
        line.push(unit(cell.metric).to_owned());
        for (at, result) in cell.results.iter().enumerate() {
            line.push(figure(cell.metric, &result.outcome));
            line.extend((at > 0).then(|| ratio(&result.outcome)));
        }
        line.push(cell.title.clone());
        line.push(published(cell));
        rows.push(line);
    }
    text.push_str(&aligned(&rows));
    text.push_str(&remarks(suite));
    for claim in &suite.claims {
        let verdict = match claim.verdict {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::DoesNotHold => "DOES NOT HOLD",
            ClaimVerdict::Undecided => "undecided",
        };
        let _ = writeln!(text, "  {verdict}: {} — {}", claim.text, claim.why);
    }
    text
}

/// What must be known to believe the figures, each text once with the cells that it is about.
fn remarks(suite: &SuiteRecord) -> String {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |text: String, cell: &Cell| {
        let place = label(&cell.row, &cell.point);
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, cells)) if cells.contains(&place) => {}
            Some((_, cells)) => cells.push(place),
            None => texts.push((text, vec![place])),
        }
    };
    for cell in &suite.cells {
        if let Some(scaled) = &cell.scaled {
            add(format!("scaled: {scaled}"), cell);
        }
        for result in &cell.results {
            match &result.outcome {
                CellOutcome::Measured(figures) => {
                    for (remark, _) in &figures.remarks {
                        add(format!("{}: {remark}", result.target), cell);
                    }
                }
                CellOutcome::NotApplicable { lacks } => add(format!("{}: n/a, it lacks {lacks}", result.target), cell),
                CellOutcome::Failed { error } => add(format!("{}: FAILED: {error}", result.target), cell),
                CellOutcome::Pending => {}
            }
        }
    }
    let mut text = String::new();
    for (remark, cells) in texts {
        let shown =
            if cells.len() > MOST_PLACES { cells[..MOST_PLACES].join(", ") + ", …" } else { cells.join(", ") };
        let _ = writeln!(text, "  {remark} ({shown})");
    }
    text
}

/// Cells that a remark names.
const MOST_PLACES: usize = 6;

fn figure(metric: Metric, outcome: &CellOutcome) -> String {
    match outcome {
        CellOutcome::Measured(figures) => {
            let (passed, tried) = figures.passed();
            let text = match metric {
                Metric::Passed => format!("{passed} of {tried}"),
                _ => number(figures.value.median, 1),
            };
            if figures.valid == figures.slices { text } else { text + "!" }
        }
        CellOutcome::NotApplicable { .. } => "n/a".to_owned(),
        CellOutcome::Failed { .. } => "FAILED".to_owned(),
        CellOutcome::Pending => "-".to_owned(),
    }
}

fn ratio(outcome: &CellOutcome) -> String {
    let CellOutcome::Measured(figures) = outcome else { return "-".to_owned() };
    let Some(ratio) = &figures.to_first else { return "-".to_owned() };
    match ratio.interval {
        Some((low, high)) => format!("{:.2} [{low:.2}-{high:.2}]", ratio.median),
        None => format!("{:.2}", ratio.median),
    }
}

fn published(cell: &Cell) -> String {
    let each: Vec<String> =
        cell.published.iter().map(|one| format!("{} {}", one.platform, number(one.value, 1))).collect();
    if each.is_empty() { "-".to_owned() } else { each.join("; ") }
}

fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Faithful => "faithful",
        Profile::Fair => "fair",
    }
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::MessagesPerSecond => "msg/s",
        Metric::MegabytesPerSecond => "MB/s",
        Metric::LatencyUs | Metric::CompletionUs => "µs",
        Metric::PacketsPerOrder => "packets",
        Metric::CpuUsPerMessage => "µs CPU",
        Metric::ResidentMib => "MiB",
        Metric::Passed => "passed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;
    use bench_record::statistics::spread::Spread;

    #[test]
    fn a_pass_in_some_blocks_is_told_as_such() {
        let mut outcome = sample::small().suites[0].cells[0].results[0].outcome.clone();
        let CellOutcome::Measured(figures) = &mut outcome else { panic!("{outcome:?}") };
        figures.value = Spread::of(vec![1.0, 0.0, 1.0, 1.0]).unwrap();
        (figures.slices, figures.valid) = (4, 3);
        assert_eq!(figure(Metric::Passed, &outcome), "3 of 4!");
        assert_eq!(figure(Metric::LatencyUs, &outcome), "1.0!");
    }
}
