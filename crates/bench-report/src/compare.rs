//! Two records beside each other, the older first: what a change did to each target in each cell. A
//! regression is a change for the worse whose whole interval is beyond the limit, slices that go
//! wrong more often, or a figure that can't be judged any more: what could be told from the older
//! record and can't from the newer one does not pass.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::file;
use super::table::{aligned, significant};
use bench_record::failure::{Context, Failure};
use bench_record::metric::spread_of;
use bench_record::output;
use bench_record::rules::integrity;
use bench_record::slice::SliceRecord;
use bench_record::statistics::change::Change;
use bench_record::statistics::ratio::FEWEST_BLOCKS;
use bench_record::statistics::spread::Spread;
use bench_record::suite::{Cell, CellOutcome, CellResult, Metric, Profile, Report, Role};

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The record of before, of a suite or of a run
    old: PathBuf,
    /// The record of after
    new: PathBuf,
    /// Changes for the worse that are wholly beyond this are regressions
    #[arg(long, default_value = "5%")]
    fail_over: Limit,
    /// Write the comparison to this file, for programs
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A share that is written with a percent sign.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limit(f64);

impl std::str::FromStr for Limit {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        let percent: f64 = number.parse().context(format!("{text}: a limit is a percentage such as 5%"))?;
        if !(0.0..100.0).contains(&percent) {
            return Err(Failure::new(format!("{text}: a limit is at least 0% and below 100%")));
        }
        Ok(Self(percent / 100.0))
    }
}

/// What a change comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ChangeVerdict {
    /// Worse, and the whole interval is beyond the limit.
    Regression,
    /// A larger share of the slices failed or had something wrong with their messages.
    Broken,
    /// There was a figure that could be judged, and there is none now.
    Gone,
    /// Worse, and the whole interval says so, but within the limit.
    Worse,
    /// Better, and the whole interval says so.
    Better,
    /// The interval contains 1.
    NoDifference,
    /// Too few blocks for an interval.
    Undecided,
    /// The loads are not the same, so nothing is compared.
    OtherLoad,
}

impl ChangeVerdict {
    fn fails(self) -> bool {
        matches!(self, Self::Regression | Self::Broken | Self::Gone)
    }
}

impl fmt::Display for ChangeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regression => "REGRESSION",
            Self::Broken => "BROKEN",
            Self::Gone => "GONE",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::NoDifference => "no difference",
            Self::Undecided => "too few blocks",
            Self::OtherLoad => "another load",
        })
    }
}

/// One figure of one target, before and after.
#[derive(Debug, Clone, Serialize)]
struct Entry {
    suite: String,
    row: String,
    profile: Profile,
    point: BTreeMap<String, f64>,
    target: String,
    metric: Metric,
    old: f64,
    new: Option<f64>,
    change: Option<Change>,
    verdict: ChangeVerdict,
    /// What the figures do not say: why there is none that counts, or what went wrong.
    reason: Option<String>,
}

/// Everything that both records have.
#[derive(Debug, Serialize)]
struct Changes {
    limit: f64,
    regressions: usize,
    /// What a reader must know: records of unlike machines, cells of one record only.
    remarks: Vec<String>,
    entries: Vec<Entry>,
}

/// Compares two records; true when there is no regression.
pub fn run(args: &CompareArgs) -> Result<bool, Failure> {
    let (old, new) = (file::read(&args.old)?, file::read(&args.new)?);
    let comparison = compare(&old, &new, args.fail_over)?;
    output::report(&render(&comparison), args.json.as_deref(), &comparison)?;
    Ok(comparison.regressions == 0)
}

fn compare(old: &Report, new: &Report, limit: Limit) -> Result<Changes, Failure> {
    let (mut entries, mut missing, mut met) = (Vec::new(), 0, false);
    for (suite, before) in cells(old) {
        let after = cells(new).find(|(other, cell)| *other == suite && same_place(before, cell));
        let Some((_, after)) = after else {
            missing += 1;
            continue;
        };
        for result in before.results.iter().filter(|result| is_broker(old, &result.target)) {
            let now = after.results.iter().find(|now| now.target == result.target).map(|now| (after, now));
            met |= now.is_some();
            let metrics = [Some(before.metric), cpu_too(old, suite, before)];
            let pairs = metrics.into_iter().flatten();
            entries.extend(pairs.filter_map(|metric| entry(suite, (before, result), now, metric, limit)));
        }
    }
    if entries.is_empty() || !met {
        return Err(Failure::new(
            "the two records have no cell and target in common: compare runs of the same scenario or suite",
        ));
    }
    let regressions = entries.iter().filter(|entry| entry.verdict.fails()).count();
    Ok(Changes { limit: limit.0, regressions, remarks: remarks(old, new, missing), entries })
}

fn cells(report: &Report) -> impl Iterator<Item = (&str, &Cell)> {
    report.suites.iter().flat_map(|suite| suite.cells.iter().map(|cell| (suite.id.as_str(), cell)))
}

fn same_place(a: &Cell, b: &Cell) -> bool {
    (&a.row, a.profile, a.metric, &a.point) == (&b.row, b.profile, b.metric, &b.point)
}

fn is_broker(report: &Report, target: &str) -> bool {
    report.targets.iter().any(|facts| facts.target.name == target && facts.role == Role::Broker)
}

/// CPU per message is compared too, being the steadiest figure of a shared machine, unless a cell
/// of its own is about it.
fn cpu_too(report: &Report, suite: &str, cell: &Cell) -> Option<Metric> {
    let cpu = Metric::CpuUsPerMessage;
    let own = cells(report).any(|(id, other)| {
        id == suite && other.metric == cpu && (other.profile, &other.point) == (cell.profile, &cell.point)
    });
    (!own).then_some(cpu)
}

/// A cell and what a target gave in it.
type Given<'a> = (&'a Cell, &'a CellResult);

/// Compares one figure; none where there was no valid one before. What is wrong with all of a cell
/// is said of its own figure.
fn entry(suite: &str, old: Given<'_>, new: Option<Given<'_>>, metric: Metric, limit: Limit) -> Option<Entry> {
    let before = valid(old, metric).ok()?;
    let missing = || "it is not in the new record".to_owned();
    let after = new.ok_or_else(missing).and_then(|new| Ok((new, valid(new, metric)?)));
    let own = metric == old.0.metric;
    let change = after.as_ref().ok().and_then(|(_, after)| Change::between(&before.values, &after.values));
    let (verdict, reason) = match &after {
        Err(_) if !own => return None,
        Err(reason) => (ChangeVerdict::Gone, Some(reason.clone())),
        Ok(((cell, _), _)) if cell.load != old.0.load => (ChangeVerdict::OtherLoad, None),
        Ok((new, after)) => {
            let judged = change.map_or(ChangeVerdict::Undecided, |change| judge(metric, change, limit));
            if own && let Some(reason) = more_went_wrong(old.1, new.1) {
                (ChangeVerdict::Broken, Some(reason))
            } else if own
                && judged == ChangeVerdict::Undecided
                && let Some(reason) = too_few(&before, after)
            {
                (ChangeVerdict::Gone, Some(reason))
            } else {
                (judged, None)
            }
        }
    };
    Some(Entry {
        suite: suite.to_owned(),
        row: old.0.row.clone(),
        profile: old.0.profile,
        point: old.0.point.clone(),
        target: old.1.target.clone(),
        metric,
        old: before.median,
        new: after.ok().map(|(_, after)| after.median),
        change,
        verdict,
        reason,
    })
}

/// Says so where a larger share of the slices went wrong than before. However many are left are no
/// better for it.
fn more_went_wrong(old: &CellResult, new: &CellResult) -> Option<String> {
    let ((before, all_before), (mut now, all)) = (wrong(old), wrong(new));
    let share = |wrong: &[String], all: usize| wrong.len() as f64 / all.max(1) as f64;
    if share(&now, all) <= share(&before, all_before) {
        return None;
    }
    let count = now.len();
    now.sort();
    now.dedup();
    Some(format!("{count} of {all} slices went wrong, before {} of {all_before}: {}", before.len(), now.join("; ")))
}

/// What went wrong with each slice that did, and how many there are. A machine that others used, or
/// a generator that was too slow, is no fault of the target's.
fn wrong(result: &CellResult) -> (Vec<String>, usize) {
    let CellOutcome::Measured(found) = &result.outcome else { return (Vec::new(), 0) };
    let counted = found.all.iter().filter(|slice| !slice.superseded);
    let of_slice = |slice: &SliceRecord| {
        let Some(measured) = &slice.measured else { return slice.error.clone() };
        let mut violations = Vec::new();
        integrity(&measured.integrity, &mut violations);
        (!violations.is_empty()).then(|| violations.join("; "))
    };
    (counted.clone().filter_map(of_slice).collect(), counted.count())
}

/// Says so where there were values enough for an interval, and are not now.
fn too_few(before: &Spread, after: &Spread) -> Option<String> {
    let (enough, now) = (before.values.len(), after.values.len());
    (enough >= FEWEST_BLOCKS && now < FEWEST_BLOCKS)
        .then(|| format!("{now} valid slices are too few to judge by, before there were {enough}"))
}

/// The figure of a result, or why there is none that counts.
fn valid((cell, result): (&Cell, &CellResult), metric: Metric) -> Result<Spread, String> {
    match &result.outcome {
        CellOutcome::Measured(found) if found.valid == 0 => {
            let rules: Vec<&str> = found.remarks.iter().map(|(text, _)| text.as_str()).collect();
            Err(format!("no slice was valid: {}", rules.join("; ")))
        }
        CellOutcome::Measured(found) => {
            spread_of(metric, cell, found).ok_or_else(|| format!("its {} was not measured", metric.title()))
        }
        CellOutcome::NotApplicable { lacks } => Err(format!("not applicable: it lacks {lacks}")),
        CellOutcome::Failed { error } => Err(error.clone()),
        CellOutcome::Pending => Err("its turn did not come".to_owned()),
    }
}

fn judge(metric: Metric, change: Change, limit: Limit) -> ChangeVerdict {
    // A pass or fail has no noise.
    let interval = if metric == Metric::Passed { Some((change.ratio, change.ratio)) } else { change.interval };
    let Some((low, high)) = interval else { return ChangeVerdict::Undecided };
    // For the worse is downwards now, whatever the metric.
    let (low, high) = if metric.more_is_better() { (low, high) } else { (1.0 / high, 1.0 / low) };
    match (low, high) {
        (_, high) if high < 1.0 - limit.0 => ChangeVerdict::Regression,
        (_, high) if high < 1.0 => ChangeVerdict::Worse,
        (low, _) if low > 1.0 => ChangeVerdict::Better,
        _ => ChangeVerdict::NoDifference,
    }
}

fn remarks(old: &Report, new: &Report, missing: usize) -> Vec<String> {
    let mut all = Vec::new();
    let (before, after) = (&old.machine, &new.machine);
    if (before.cores, &before.processor) != (after.cores, &after.processor) {
        all.push("the machines are not alike: a change may be theirs".to_owned());
    } else if before.kernel != after.kernel {
        all.push("the kernels are not the same".to_owned());
    }
    if before.network != after.network {
        all.push("the networks between load and brokers are not the same".to_owned());
    }
    if missing > 0 {
        all.push(format!("{missing} cells of the old record are not in the new one"));
    }
    all
}

fn render(comparison: &Changes) -> String {
    let heads = ["cell", "target", "figure", "old", "new", "new/old", "interval", "verdict"];
    let mut rows: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(comparison.entries.iter().map(line));
    let mut text = aligned(&rows);
    for entry in comparison.entries.iter() {
        if let Some(reason) = &entry.reason {
            text.push_str(&format!("  {} {}: {reason}\n", place(entry), entry.target));
        }
    }
    for remark in &comparison.remarks {
        text.push_str(&format!("  {remark}\n"));
    }
    text.push_str(&format!(
        "{} regressions beyond {} % among {} figures\n",
        comparison.regressions,
        significant(comparison.limit * 100.0),
        comparison.entries.len()
    ));
    text
}

fn line(entry: &Entry) -> Vec<String> {
    let interval = entry.change.and_then(|change| change.interval);
    vec![
        place(entry),
        entry.target.clone(),
        entry.metric.unit().to_owned(),
        significant(entry.old),
        entry.new.map_or("-".to_owned(), significant),
        entry.change.map_or("-".to_owned(), |change| significant(change.ratio)),
        interval.map_or("-".to_owned(), |(low, high)| format!("{}-{}", significant(low), significant(high))),
        entry.verdict.to_string(),
    ]
}

fn place(entry: &Entry) -> String {
    let point: Vec<String> = entry.point.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    let profile = if entry.profile == Profile::Faithful { " faithful" } else { "" };
    format!("{} {}{}{profile}", entry.suite, entry.row, point.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;

    /// The first cell's figure on the first target, times `factor`.
    fn changed(report: &Report, factor: f64) -> Report {
        let mut new = report.clone();
        if let CellOutcome::Measured(found) = &mut new.suites[0].cells[0].results[0].outcome {
            found.value = Spread::of(found.value.values.iter().map(|value| value * factor).collect()).unwrap();
        }
        new
    }

    fn verdict(old: &Report, new: &Report) -> ChangeVerdict {
        compare(old, new, Limit(0.05)).unwrap().entries[0].verdict
    }

    #[test]
    fn a_record_does_not_differ_from_itself() {
        let report = sample::large();
        let found = compare(&report, &report, Limit(0.0)).unwrap();
        assert_eq!(found.regressions, 0);
        assert!(found.entries.len() > 100);
        assert!(found.entries.iter().all(|entry| entry.change.is_some_and(|change| change.ratio == 1.0)));
        // The control and the relay are not under test.
        assert!(found.entries.iter().all(|entry| entry.target != "relay" && entry.target != "hermod-again"));
    }

    #[test]
    fn what_is_wholly_beyond_the_limit_is_a_regression() {
        let old = sample::large();
        let cases =
            [(0.5, ChangeVerdict::Regression), (1.0, ChangeVerdict::NoDifference), (2.0, ChangeVerdict::Better)];
        for (factor, expected) in cases {
            assert_eq!(verdict(&old, &changed(&old, factor)), expected, "{factor}");
        }
        // In two blocks nothing is proved.
        let few = sample::small();
        assert_eq!(verdict(&few, &changed(&few, 0.5)), ChangeVerdict::Undecided);
    }

    #[test]
    fn directions_and_limits() {
        let change = |low, high| Change { ratio: low, interval: Some((low, high)) };
        let cases = [
            (Metric::MessagesPerSecond, change(0.90, 0.94), ChangeVerdict::Regression),
            (Metric::MessagesPerSecond, change(0.90, 0.96), ChangeVerdict::Worse),
            (Metric::MessagesPerSecond, change(0.90, 1.01), ChangeVerdict::NoDifference),
            (Metric::LatencyUs, change(1.10, 1.20), ChangeVerdict::Regression),
            (Metric::LatencyUs, change(1.01, 1.04), ChangeVerdict::Worse),
            (Metric::LatencyUs, change(0.80, 0.90), ChangeVerdict::Better),
            (Metric::Passed, Change { ratio: 0.0, interval: None }, ChangeVerdict::Regression),
        ];
        for (metric, change, expected) in cases {
            assert_eq!(judge(metric, change, Limit(0.05)), expected, "{metric:?} {change:?}");
        }
    }

    #[test]
    fn a_figure_that_is_no_more_fails() {
        let old = sample::large();
        let mut new = old.clone();
        new.suites[0].cells[0].results[0].outcome = CellOutcome::Failed { error: "it did not start".to_owned() };
        let found = compare(&old, &new, Limit(0.05)).unwrap();
        assert_eq!((found.regressions, found.entries[0].verdict), (1, ChangeVerdict::Gone));
        assert!(render(&found).contains("it did not start"));
    }

    /// One figure as so many slices leave it: valid ones, and ones that lost a message, failed or
    /// were disturbed.
    fn sliced([valid, lossy, failed, disturbed]: [usize; 4]) -> Report {
        let mut report = sample::small();
        report.suites[0].cells[0].results.truncate(1);
        let CellOutcome::Measured(found) = &mut report.suites[0].cells[0].results[0].outcome else {
            panic!("no figure")
        };
        let slice = |change: fn(&mut SliceRecord), count: usize| {
            let mut slice = found.all[0].clone();
            change(&mut slice);
            vec![slice; count]
        };
        let lose = |slice: &mut SliceRecord| {
            let measured = slice.measured.as_mut().unwrap();
            (measured.integrity.lost, measured.verdict.valid) = (1, false);
        };
        let fail = |slice: &mut SliceRecord| (slice.measured, slice.error) = (None, Some("it crashed".to_owned()));
        let disturb = |slice: &mut SliceRecord| slice.measured.as_mut().unwrap().verdict.valid = false;
        let parts = [slice(|_| (), valid), slice(lose, lossy), slice(fail, failed), slice(disturb, disturbed)];
        found.all = parts.concat();
        (found.slices, found.valid) = (found.all.len(), valid);
        found.value = Spread::of(vec![1000.0; valid.max(1)]).unwrap();
        report
    }

    #[test]
    fn slices_that_go_wrong_or_leave_too_few_fail_whatever_the_others_say() {
        let cases = [
            ([10, 0, 0, 0], [4, 6, 0, 0], ChangeVerdict::Broken),
            ([10, 0, 0, 0], [6, 4, 0, 0], ChangeVerdict::Broken),
            ([5, 0, 0, 0], [1, 1, 0, 0], ChangeVerdict::Broken),
            ([5, 0, 0, 0], [9, 0, 1, 0], ChangeVerdict::Broken),
            ([2, 0, 0, 0], [1, 0, 1, 0], ChangeVerdict::Broken),
            ([5, 0, 0, 0], [0, 5, 0, 0], ChangeVerdict::Gone),
            ([5, 0, 0, 0], [4, 0, 0, 1], ChangeVerdict::Gone),
            ([8, 2, 0, 0], [4, 1, 0, 0], ChangeVerdict::Gone),
            // As often as before, or no fault of the target's.
            ([8, 1, 1, 0], [8, 0, 2, 0], ChangeVerdict::NoDifference),
            ([10, 0, 0, 0], [6, 0, 0, 4], ChangeVerdict::NoDifference),
            ([4, 0, 0, 1], [4, 0, 0, 1], ChangeVerdict::Undecided),
        ];
        for (old, new, expected) in cases {
            let found = compare(&sliced(old), &sliced(new), Limit(0.05)).unwrap();
            assert_eq!(found.entries[0].verdict, expected, "{old:?} {new:?}");
            assert_eq!(found.regressions, usize::from(expected.fails()), "{old:?} {new:?}");
        }
        let found = compare(&sliced([9, 1, 0, 0]), &sliced([6, 3, 1, 0]), Limit(0.05)).unwrap();
        assert!(render(&found).contains("4 of 10 slices went wrong, before 1 of 10: it crashed; messages lost"));
    }

    #[test]
    fn a_target_that_is_no_more_fails() {
        let (old, mut new) = (sample::large(), sample::large());
        let cells = new.suites.iter_mut().flat_map(|suite| &mut suite.cells);
        cells.for_each(|cell| cell.results.retain(|result| result.target != "rabbitmq"));
        let found = compare(&old, &new, Limit(0.05)).unwrap();
        let (theirs, others): (Vec<_>, Vec<_>) = found.entries.iter().partition(|entry| entry.target == "rabbitmq");
        assert!(theirs.len() > 20 && theirs.iter().all(|entry| entry.verdict == ChangeVerdict::Gone));
        assert_eq!(found.regressions, theirs.len());
        assert!(!others.is_empty() && render(&found).contains("rabbitmq: it is not in the new record"));
        // Where no target is left, nothing is compared.
        new.suites[0].cells.iter_mut().for_each(|cell| cell.results.clear());
        new.suites.truncate(1);
        assert!(compare(&old, &new, Limit(0.05)).unwrap_err().to_string().contains("no cell"));
    }

    #[test]
    fn unlike_loads_and_strange_records_are_not_compared() {
        let old = sample::large();
        let mut new = changed(&old, 0.5);
        new.suites[0].cells[0].load.message.size += 1;
        assert_eq!(verdict(&old, &new), ChangeVerdict::OtherLoad);
        let mut strange = old.clone();
        strange.suites.clear();
        assert!(compare(&old, &strange, Limit(0.05)).unwrap_err().to_string().contains("no cell"));
    }

    #[test]
    fn limits_are_percentages() {
        assert_eq!("5%".parse::<Limit>().unwrap(), Limit(0.05));
        assert_eq!("0".parse::<Limit>().unwrap(), Limit(0.0));
        for bad in ["", "x%", "-1%", "100%", "NaN"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
