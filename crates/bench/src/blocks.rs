//! Several targets in one run: in each block every target has its turn once, in random order, so
//! that what the machine does meanwhile happens to all of them alike; ratios are taken within
//! blocks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::driver::jvm::workers::Workers;
use crate::load::judge::{Measures, judge};
use crate::load::slice;
use crate::progress::Progress;
use bench_record::failure::Failure;
use bench_record::machine::Forced;
use bench_record::rules::{is_whole, unsupported_claim};
use bench_record::run::{Ended, TargetSummary};
use bench_record::scenario::{Pace, Rate, Scenario};
use bench_record::slice::{Measured, SliceRecord};
use bench_record::statistics::random::{Random, mix};
use bench_record::summary::{ratios, summarise};
use bench_record::target::Target;
use machine::disk::forced_writes;
use machine::freeze::Frozen;
use machine::quiet::wait_until_quiet;

/// How long forced writes are timed before each block.
const FORCED_TIME: Duration = Duration::from_millis(500);
/// The slice that finds a target's saturation: long enough for its queues to settle.
const SATURATION_WARMUP: f64 = 1.0;
const SATURATION_TIME: f64 = 3.0;
/// Half load is this share of saturation.
const HALF: f64 = 0.5;

/// A run does not end for its precision before this many blocks: fewer would often look precise by
/// accident.
const FEWEST_FOR_PRECISION: usize = 10;
/// Said of a slice with more messages than were asked for.
const MORE: &str = "more messages than that, so that a slice lasts";
/// Said of a slice that was over in less than this part of the time that it was to last at least.
const SHORT: &str = "over in less than half the time that a slice is to last";
const SHORT_PART: f64 = 0.5;
/// Said of a slice whose prefetch could not be set.
const OWN_PREFETCH: &str = "its client fetches ahead what its own properties say";
/// What a slice takes besides its warm-up and its measured time, seconds: connections, the drain,
/// the cleaning.
const ROUND_A_SLICE: f64 = 0.5;

/// What a run consists of.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) targets: Vec<Target>,
    pub(crate) scenario: Scenario,
    /// What targets are loaded with that get something else, by their names.
    pub(crate) own: BTreeMap<String, Scenario>,
    /// Blocks; the most, where something else may end the run.
    pub(crate) blocks: usize,
    /// Repeats the order of the slices and the arrivals of each.
    pub(crate) seed: u64,
    /// Tells the queues and messages of this process from those of the one that it goes on for; 0
    /// in a run of its own.
    pub(crate) salt: u64,
    /// Stop the processes of the targets that are not measured.
    pub(crate) freeze: bool,
    /// How long to wait for a quiet machine before each slice.
    pub(crate) wait_quiet: Duration,
    /// How often a slice is measured again that was disturbed, and nothing worse.
    pub(crate) retries: usize,
    /// Where forced writes are timed; none: not at all.
    pub(crate) forced_dir: Option<PathBuf>,
    /// Name of the target that is the first one again.
    pub(crate) control: Option<String>,
    /// Seconds that a slice with a fixed number of messages is to last: targets that are faster get
    /// more of them.
    pub(crate) least: Option<f64>,
    /// How long each target is loaded before the first block, where slices are to last: brokers
    /// that compile themselves while they run are slow at first.
    pub(crate) rehearsal: Duration,
    /// What ends it before its last block.
    pub(crate) early_end: EarlyEnd,
    /// Those that load targets beside this program, also in what follows after this run.
    pub(crate) workers: Workers,
}

/// What ends a run before its last block.
#[derive(Debug, Clone, Default)]
pub(crate) struct EarlyEnd {
    /// Every rate's ratio to the first target is known this well: 0.03 for ± 3 %.
    pub(crate) precision: Option<f64>,
    /// The next block would probably end after this long.
    pub(crate) budget: Option<Duration>,
}

impl Plan {
    /// The load of a target.
    fn asked(&self, target: &Target) -> &Scenario {
        self.own.get(&target.name).unwrap_or(&self.scenario)
    }

    /// Seconds that the run will take, if everything goes well; none where that depends on the
    /// brokers.
    pub(crate) fn expected_seconds(&self) -> Option<f64> {
        if self.scenario.length.messages.is_some() {
            return None;
        }
        let slice = self.scenario.length.warmup + self.scenario.length.duration + ROUND_A_SLICE;
        let forced = if self.forced_dir.is_some() { FORCED_TIME.as_secs_f64() } else { 0.0 };
        let blocks = self.blocks as f64 * (self.targets.len() as f64 * slice + forced);
        let saturation = SATURATION_WARMUP + SATURATION_TIME + ROUND_A_SLICE;
        let first = if self.scenario.pace.rate == Rate::Half { self.targets.len() as f64 * saturation } else { 0.0 };
        Some(blocks + first).map(|all| self.early_end.budget.map_or(all, |budget| all.min(budget.as_secs_f64())))
    }
}

/// A piece of a run that is finished and need not be done again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Piece {
    /// The rate that a target is loaded with, found by loading it in full.
    Rate { target: String, rate: f64 },
    /// How many messages a target gets in each slice from here on, so that it lasts.
    Count { target: String, messages: u64 },
    /// What a forced write took before a block.
    Forced { block: usize, forced: Forced },
    /// A slice.
    Slice(Box<SliceRecord>),
}

/// Takes each piece when it is finished.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(&Piece) -> Result<(), Failure>;

/// What a run found.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) forced: Vec<Forced>,
    pub(crate) slices: Vec<SliceRecord>,
    pub(crate) summary: Vec<TargetSummary>,
    pub(crate) ended: Ended,
}

/// Runs all blocks, but for the pieces that were finished `earlier`. What is interrupted is
/// measured up to then and is in the results, but is not kept: it will be done again.
pub(crate) fn run(
    plan: &Plan,
    earlier: Vec<Piece>,
    keep: Keep<'_>,
    progress: &mut Progress,
) -> Result<Results, Failure> {
    let mut scenarios = settle(plan, &earlier, keep, progress)?;
    let (mut forced, mut slices) = sorted(earlier);
    let (begin, mut longest) = (Instant::now(), Duration::ZERO);
    let mut ended = Ended::Blocks;
    for block in 1..=plan.blocks {
        if let Some(reason) = ends_before(plan, block, begin.elapsed() + longest, &slices, progress) {
            ended = reason;
            break;
        }
        let block_begin = Instant::now();
        if let Some(dir) = plan.forced_dir.as_ref().filter(|_| !forced.iter().any(|(of, _)| *of == block)) {
            let cost = forced_writes(dir, FORCED_TIME)?;
            keep(&Piece::Forced { block, forced: cost.clone() })?;
            forced.push((block, cost));
        }
        progress.step(format!("[{block}/{}] ", plan.blocks));
        let mut random = Random::new(mix(plan.seed ^ block as u64));
        let mut order: Vec<usize> = (0..plan.targets.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            let mut turn = Turn { plan, block, index, scenario: &mut scenarios[index] };
            turn.take(&mut slices, keep, progress)?;
        }
        longest = longest.max(block_begin.elapsed());
    }
    if progress.interrupted() {
        ended = Ended::Interrupt;
    }
    let summary =
        plan.targets.iter().map(|target| summarise(target, &plan.targets, plan.control.as_deref(), &slices)).collect();
    Ok(Results { forced: forced.into_iter().map(|(_, forced)| forced).collect(), slices, summary, ended })
}

/// The forced writes by block, and the slices, among what was finished earlier.
fn sorted(earlier: Vec<Piece>) -> (Vec<(usize, Forced)>, Vec<SliceRecord>) {
    let (mut forced, mut slices) = (Vec::new(), Vec::new());
    for piece in earlier {
        match piece {
            Piece::Forced { block, forced: cost } => forced.push((block, cost)),
            Piece::Slice(slice) => slices.push(*slice),
            Piece::Rate { .. } | Piece::Count { .. } => {}
        }
    }
    (forced, slices)
}

/// Why `block` is not begun any more; `after` is when it would probably end.
fn ends_before(
    plan: &Plan,
    block: usize,
    after: Duration,
    slices: &[SliceRecord],
    progress: &Progress,
) -> Option<Ended> {
    if progress.interrupted() {
        return Some(Ended::Interrupt);
    }
    if plan.early_end.budget.is_some_and(|budget| block > 1 && after > budget) {
        return Some(Ended::Budget);
    }
    let wanted = plan.early_end.precision.filter(|_| block > FEWEST_FOR_PRECISION)?;
    let (first, others) = plan.targets.split_first()?;
    let known = others.iter().filter(|other| !other.is_relay()).all(|other| {
        let ratio = ratios(&other.name, &first.name, None, slices).rate;
        ratio.and_then(|ratio| ratio.precision()).is_some_and(|precision| precision <= wanted)
    });
    known.then_some(Ended::Precision)
}

/// One target's turn in one block.
struct Turn<'a> {
    plan: &'a Plan,
    block: usize,
    index: usize,
    scenario: &'a mut Result<Scenario, Failure>,
}

impl Turn<'_> {
    /// Measures the slice, again while it was only disturbed and may be, unless it was finished
    /// earlier.
    fn take(&mut self, slices: &mut Vec<SliceRecord>, keep: Keep<'_>, progress: &mut Progress) -> Result<(), Failure> {
        let Self { plan, block, index, .. } = *self;
        let target = &plan.targets[index];
        let mine = |slice: &&SliceRecord| slice.target == target.name && slice.block == block;
        let before = slices.iter().filter(mine).count();
        // The last attempt counts; one that was disturbed does not, if a run that is gone on with
        // may repeat it.
        for (attempt, slice) in (1..).zip(slices.iter_mut().filter(|slice| mine(&&**slice))) {
            slice.superseded = attempt < before || (is_excused(slice) && before <= plan.retries);
        }
        let finished = slices.iter().filter(mine).any(|slice| !slice.superseded);
        for attempt in before..=plan.retries.max(before) {
            if finished || progress.interrupted() {
                break;
            }
            let mut slice = self.long_enough(attempt, keep, progress)?;
            slice.superseded = is_excused(&slice) && attempt < plan.retries && !progress.interrupted();
            let piece = Piece::Slice(Box::new(slice));
            if !progress.interrupted() {
                keep(&piece)?;
            }
            let Piece::Slice(slice) = piece else { break };
            let again = slice.superseded;
            slices.push(*slice);
            if !again {
                break;
            }
        }
        if !finished {
            progress.advance();
        }
        Ok(())
    }

    /// Measures until the messages last. A slice of too few is forgotten, and every later one of
    /// this target gets more.
    fn long_enough(&mut self, attempt: usize, keep: Keep<'_>, progress: &mut Progress) -> Result<SliceRecord, Failure> {
        let Self { plan, block, index, .. } = *self;
        let target = &plan.targets[index];
        loop {
            let slice = attempt_slice(plan, target, block, self.scenario, self.number(attempt), progress);
            let (Ok(scenario), Some(measured)) = (&mut *self.scenario, &slice.measured) else { return Ok(slice) };
            // Lost messages make a slice short, too, and must be reported.
            let counts = progress.interrupted() || !is_whole(&measured.integrity);
            let more = if counts { None } else { lasting::more(plan, scenario, measured.seconds) };
            let Some(messages) = more else { return Ok(slice) };
            keep(&Piece::Count { target: target.name.clone(), messages })?;
            scenario.length.messages = Some(messages);
        }
    }

    /// What tells this attempt's messages and queues from all others.
    fn number(&self, attempt: usize) -> u32 {
        let messages = self.scenario.as_ref().ok().and_then(|scenario| scenario.length.messages);
        let place = [self.block as u64, self.index as u64, attempt as u64, self.plan.salt, messages.unwrap_or(0)];
        place.into_iter().fold(self.plan.seed, |state, part| mix(state ^ part.wrapping_add(1))) as u32
    }
}

/// True for a slice that may be measured again. What was wrong with its messages no disturbance
/// excuses: it counts.
fn is_excused(slice: &SliceRecord) -> bool {
    let excuses = |measured: &Measured| measured.verdict.disturbed() && is_whole(&measured.integrity);
    slice.measured.as_ref().is_some_and(excuses)
}

/// What each target is loaded with.
fn settle(
    plan: &Plan,
    earlier: &[Piece],
    keep: Keep<'_>,
    progress: &mut Progress,
) -> Result<Vec<Result<Scenario, Failure>>, Failure> {
    let mut scenarios = Vec::new();
    for (index, target) in plan.targets.iter().enumerate() {
        let known = earlier.iter().find_map(|piece| match piece {
            Piece::Rate { target: of, rate } if *of == target.name => Some(*rate),
            _ => None,
        });
        let number = mix(plan.seed ^ plan.salt ^ mix(index as u64)) as u32;
        let mut scenario = settle_rate(plan, target, known, number, progress);
        if let (None, Rate::Half, Ok(Scenario { pace: Pace { rate: Rate::Fixed(rate), .. }, .. })) =
            (known, plan.scenario.pace.rate, &scenario)
        {
            keep(&Piece::Rate { target: target.name.clone(), rate: *rate })?;
        }
        if let Ok(scenario) = &mut scenario {
            let known = earlier.iter().rev().find_map(|piece| match piece {
                Piece::Count { target: of, messages } if *of == target.name => Some(*messages),
                _ => None,
            });
            scenario.length.messages = known.or(scenario.length.messages);
            let done = known.is_some() && (plan.rehearsal.is_zero() || is_finished(plan, target, earlier));
            let tried = if done { None } else { lasting::settle(plan, target, scenario, number, progress) };
            if let Some(messages) = tried {
                keep(&Piece::Count { target: target.name.clone(), messages })?;
                scenario.length.messages = tried;
            }
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

/// True when each block of `target` was measured `earlier`.
fn is_finished(plan: &Plan, target: &Target, earlier: &[Piece]) -> bool {
    let of = |piece: &Piece, block| matches!(piece, Piece::Slice(slice) if slice.target == target.name && slice.block == block);
    (1..=plan.blocks).all(|block| earlier.iter().any(|piece| of(piece, block)))
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
    let grown = scenario.as_ref().is_ok_and(|scenario| scenario.length.messages > plan.asked(target).length.messages);
    let (measured, failure) = match measured {
        Ok(mut measured) => {
            let short = plan.least.is_some_and(|least| measured.seconds < least * SHORT_PART);
            measured.verdict.notes.extend(grown.then(|| MORE.to_owned()));
            measured.verdict.notes.extend(short.then(|| SHORT.to_owned()));
            (Some(measured), None)
        }
        Err(failure) => (None, Some(failure)),
    };
    let (lacks, error) = (failure.as_ref().and_then(Failure::lacks).map(str::to_owned), failure.map(|f| f.to_string()));
    SliceRecord { target: target.name.clone(), block, superseded: false, error, lacks, measured }
}

/// The scenario that a target gets: its relay form, and half of its own saturation where that is
/// asked for.
fn settle_rate(
    plan: &Plan,
    target: &Target,
    known: Option<f64>,
    number: u32,
    progress: &mut Progress,
) -> Result<Scenario, Failure> {
    let scenario = plan.asked(target);
    let scenario = if target.is_relay() { scenario.for_relay() } else { scenario.clone() };
    if scenario.pace.rate != Rate::Half {
        return Ok(scenario);
    }
    if let Some(rate) = known {
        return Ok(scenario.with(|s| s.pace.rate = Rate::Fixed(rate)));
    }
    progress.step("[saturation] ".to_owned());
    let (warmup, duration) = (SATURATION_WARMUP, SATURATION_TIME);
    let full = scenario.clone().with(|s| {
        s.pace.rate = Rate::Saturate;
        (s.length.messages, s.length.warmup, s.length.duration) = (None, warmup, duration);
    });
    let measured = one(plan, target, &full, number, progress);
    progress.done(&headline(target, &measured));
    let rate = half(&scenario, measured?.rates.messages_per_s);
    Ok(scenario.with(|s| s.pace.rate = rate))
}

/// Half of the sends that `messages_per_s` of the main count follow from.
fn half(scenario: &Scenario, messages_per_s: f64) -> Rate {
    Rate::Fixed((messages_per_s / scenario.receipts_per_send() * HALF).max(1.0))
}

/// One slice of one target, with all others frozen if that is wanted.
pub(crate) fn one(
    plan: &Plan,
    target: &Target,
    scenario: &Scenario,
    number: u32,
    progress: &mut Progress,
) -> Result<Measured, Failure> {
    let others = plan.targets.iter().filter(|other| other.pids != target.pids);
    let mut idle: Vec<u32> = others.flat_map(|other| other.pids.iter().copied()).collect();
    idle.extend(plan.workers.others(&target.name));
    let frozen = if plan.freeze { Frozen::stop(&idle, &target.pids)? } else { None };
    if plan.wait_quiet > Duration::ZERO && !wait_until_quiet(plan.wait_quiet) {
        progress.done("the machine did not become quiet");
    }
    let outcome = slice::run(target, scenario, number, &plan.workers, progress);
    drop(frozen);
    let measures = if target.is_relay() { Measures::Floor } else { Measures::Broker };
    let mut measured = judge(scenario, &outcome?, measures)?;
    let claim = unsupported_claim(target.durability.filter(|_| !target.is_relay()), &measured);
    measured.verdict.notes.extend(claim);
    let own = target.is_jms_class() && scenario.clients.prefetch > 0 && scenario.topology.consumers > 0;
    measured.verdict.notes.extend(own.then(|| OWN_PREFETCH.to_owned()));
    Ok(measured)
}

fn headline(target: &Target, measured: &Result<Measured, Failure>) -> String {
    match measured {
        Err(failure) => format!("{failure}"),
        Ok(measured) => {
            let cpu = measured
                .costs
                .broker
                .map_or(String::new(), |cost| format!("  {:.3} µs CPU/msg", cost.cpu_us_per_message));
            let verdict = if measured.verdict.valid {
                String::new()
            } else {
                format!("  INVALID: {}", measured.verdict.violations.join("; "))
            };
            format!("{}: {:.0} msg/s{cpu}{verdict}", target.name, measured.rates.messages_per_s)
        }
    }
}

mod lasting;
#[cfg(test)]
mod tests;
