//! Several targets in one run: in each block every target has its turn once, in random order, so that what the machine does
//! meanwhile happens to all of them alike; ratios are taken within blocks.

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Failure;
use crate::load::slice;
use crate::machine::disk::{Forced, forced_writes};
use crate::machine::freeze::Frozen;
use crate::machine::quiet::wait_until_quiet;
use crate::measure::random::Random;
use crate::measure::statistics::Spread;
use crate::report::progress::Progress;
use crate::report::record::{Measured, SliceRecord, TargetSummary};
use crate::report::verdict::judge;
use crate::scenario::{Rate, Scenario};
use crate::target::Target;

/// How long forced writes are timed before each block.
const FORCED_TIME: Duration = Duration::from_millis(500);
/// The slice that finds a target's saturation: long enough for its queues to settle.
const SATURATION_WARMUP: f64 = 1.0;
const SATURATION_TIME: f64 = 3.0;
/// Half load is this share of saturation.
const HALF: f64 = 0.5;

/// What a run consists of.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) targets: Vec<Target>,
    pub(crate) scenario: Scenario,
    pub(crate) blocks: usize,
    pub(crate) seed: u64,
    /// Stop the processes of the targets that are not measured.
    pub(crate) freeze: bool,
    /// How long to wait for a quiet machine before each slice.
    pub(crate) wait_quiet: Duration,
    /// How often a disturbed slice is measured again.
    pub(crate) retries: usize,
    /// Where forced writes are timed; none: not at all.
    pub(crate) forced_dir: Option<PathBuf>,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) forced: Vec<Forced>,
    pub(crate) slices: Vec<SliceRecord>,
    pub(crate) summary: Vec<TargetSummary>,
}

/// Runs all blocks.
pub(crate) fn run(plan: &Plan, progress: &mut Progress) -> Result<Results, Failure> {
    let mut random = Random::new(plan.seed);
    let scenarios: Vec<Result<Scenario, Failure>> =
        plan.targets.iter().map(|target| settle_rate(plan, target, random.next() as u32, progress)).collect();
    let (mut forced, mut slices) = (Vec::new(), Vec::new());
    for block in 1..=plan.blocks {
        if let Some(dir) = &plan.forced_dir {
            forced.push(forced_writes(dir, FORCED_TIME)?);
        }
        let mut order: Vec<usize> = (0..plan.targets.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            let target = &plan.targets[index];
            progress.step(format!("[{block}/{}] ", plan.blocks));
            for attempt in 0..=plan.retries {
                let slice = attempt_slice(plan, target, block, &scenarios[index], random.next() as u32, progress);
                let disturbed = slice.measured.as_ref().is_some_and(|measured| measured.verdict.disturbed());
                let again = disturbed && attempt < plan.retries;
                slices.push(SliceRecord { superseded: again, ..slice });
                if !again {
                    break;
                }
            }
        }
    }
    let summary = plan.targets.iter().map(|target| summarise(plan, target, &slices)).collect();
    Ok(Results { forced, slices, summary })
}

/// Measures one slice and shows what came of it.
fn attempt_slice(
    plan: &Plan,
    target: &Target,
    block: usize,
    scenario: &Result<Scenario, Failure>,
    number: u32,
    progress: &mut Progress,
) -> SliceRecord {
    let measured = match scenario {
        Ok(scenario) => one(plan, target, scenario, number, progress),
        Err(failure) => Err(failure.clone()),
    };
    progress.done(&headline(target, &measured));
    let (measured, error) = match measured {
        Ok(measured) => (Some(measured), None),
        Err(failure) => (None, Some(failure.to_string())),
    };
    SliceRecord { target: target.name.clone(), block, superseded: false, error, measured }
}

/// The scenario that a target gets: its relay form, and half of its own saturation where that is asked for.
fn settle_rate(plan: &Plan, target: &Target, number: u32, progress: &mut Progress) -> Result<Scenario, Failure> {
    let scenario = if target.is_relay() { plan.scenario.for_relay() } else { plan.scenario.clone() };
    if scenario.rate != Rate::Half {
        return Ok(scenario);
    }
    progress.step("[saturation] ".to_owned());
    let (warmup, duration) = (SATURATION_WARMUP, SATURATION_TIME);
    let full = Scenario { rate: Rate::Saturate, messages: None, warmup, duration, ..scenario.clone() };
    let measured = one(plan, target, &full, number, progress);
    progress.done(&headline(target, &measured));
    Ok(Scenario { rate: Rate::Fixed((measured?.messages_per_s * HALF).max(1.0)), ..scenario })
}

/// One slice of one target, with all others frozen if that is wanted.
fn one(
    plan: &Plan,
    target: &Target,
    scenario: &Scenario,
    number: u32,
    progress: &mut Progress,
) -> Result<Measured, Failure> {
    let others = plan.targets.iter().filter(|other| other.pids != target.pids);
    let idle: Vec<u32> = others.flat_map(|other| other.pids.iter().copied()).collect();
    let frozen = if plan.freeze { Frozen::stop(&idle, &target.pids)? } else { None };
    if plan.wait_quiet > Duration::ZERO && !wait_until_quiet(plan.wait_quiet) {
        progress.done("the machine did not become quiet");
    }
    let outcome = slice::run(target, scenario, number, progress);
    drop(frozen);
    judge(scenario, &outcome?, target.is_relay())
}

fn headline(target: &Target, measured: &Result<Measured, Failure>) -> String {
    match measured {
        Err(failure) => format!("{failure}"),
        Ok(measured) => {
            let cpu =
                measured.broker.map_or(String::new(), |cost| format!("  {:.3} µs CPU/msg", cost.cpu_us_per_message));
            let verdict = if measured.verdict.valid {
                String::new()
            } else {
                format!("  INVALID: {}", measured.verdict.violations.join("; "))
            };
            format!("{}: {:.0} msg/s{cpu}{verdict}", target.name, measured.messages_per_s)
        }
    }
}

/// Median figures of one target, and its ratios to the relay and to the first target within each block.
fn summarise(plan: &Plan, target: &Target, slices: &[SliceRecord]) -> TargetSummary {
    let mine: Vec<(usize, &Measured)> = usable(&target.name, slices);
    let relay = plan.targets.iter().find(|other| other.is_relay() && other.name != target.name);
    let first = plan.targets.first().filter(|other| other.name != target.name);
    let spread = |value: &dyn Fn(&Measured) -> Option<f64>| {
        Spread::of(mine.iter().filter_map(|(_, measured)| value(measured)).collect())
    };
    let ratio = |other: Option<&Target>, value: &dyn Fn(&Measured) -> Option<f64>| {
        let theirs = usable(&other?.name, slices);
        let ratios = mine.iter().filter_map(|(block, measured)| {
            let (_, their) = theirs.iter().find(|(their_block, _)| their_block == block)?;
            Some(value(measured)? / value(their).filter(|value| *value > 0.0)?)
        });
        Spread::of(ratios.collect())
    };
    let rate = |measured: &Measured| Some(measured.messages_per_s);
    let cpu = |measured: &Measured| measured.broker.map(|cost| cost.cpu_us_per_message);
    let all = of_target(&target.name, slices);
    TargetSummary {
        target: target.name.clone(),
        slices: all.clone().count(),
        valid: all.filter(|slice| slice.measured.as_ref().is_some_and(|measured| measured.verdict.valid)).count(),
        messages_per_s: spread(&rate),
        cpu_us_per_message: spread(&cpu),
        switches_per_message: spread(&|m| m.broker.map(|cost| cost.switches_per_message)),
        resident_bytes: spread(&|m| m.broker.map(|cost| cost.resident_bytes as f64)),
        latency_p50_us: spread(&|m| m.latency_us.as_ref().map(|latency| latency.p50)),
        latency_p99_us: spread(&|m| m.latency_us.as_ref().map(|latency| latency.p99)),
        confirm_p50_us: spread(&|m| m.confirm_us.as_ref().map(|latency| latency.p50)),
        confirm_p99_us: spread(&|m| m.confirm_us.as_ref().map(|latency| latency.p99)),
        flushes_per_s: spread(&|m| m.flushes_per_s),
        flushes_per_message: spread(&|m| m.flushes_per_message),
        rate_to_relay: ratio(relay, &rate),
        cpu_to_relay: ratio(relay, &cpu),
        rate_to_first: ratio(first, &rate),
        cpu_to_first: ratio(first, &cpu),
        remarks: remarks(&target.name, slices),
    }
}

/// The slices of a target that count.
fn of_target<'a>(name: &str, slices: &'a [SliceRecord]) -> impl Iterator<Item = &'a SliceRecord> + Clone {
    slices.iter().filter(move |slice| slice.target == name && !slice.superseded)
}

/// The measured slices of a target by block: the valid ones, or all where none is valid.
fn usable<'a>(name: &str, slices: &'a [SliceRecord]) -> Vec<(usize, &'a Measured)> {
    let mine = of_target(name, slices);
    let all: Vec<(usize, &Measured)> = mine.filter_map(|slice| Some((slice.block, slice.measured.as_ref()?))).collect();
    let valid: Vec<(usize, &Measured)> = all.iter().copied().filter(|(_, measured)| measured.verdict.valid).collect();
    if valid.is_empty() { all } else { valid }
}

/// What was remarked about a target's slices, each text once.
fn remarks(name: &str, slices: &[SliceRecord]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for slice in of_target(name, slices) {
        let texts: Vec<String> = match (&slice.measured, &slice.error) {
            (Some(measured), _) => {
                let broken = measured.verdict.violations.iter().map(|text| format!("INVALID: {text}"));
                broken.chain(measured.verdict.notes.iter().cloned()).collect()
            }
            (None, Some(error)) => vec![format!("FAILED: {error}")],
            (None, None) => Vec::new(),
        };
        for text in texts {
            match counts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => counts.push((text, 1)),
            }
        }
    }
    counts
}
