//! How much a target sustains, and how latency grows up to there. What is sustained is an open
//! loop's rate at which at least 99 % of the offered messages come, the backlog does not grow, p99
//! keeps its bound and every message is whole.
//!
//! Targets take turns: each round tries one rate of each, in random order, so that what the machine
//! does happens to all.

mod report;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::blocks::{self, EarlyEnd, Plan};
use crate::driver::jvm::workers::Workers;
use crate::load_options::LoadArgs;
use crate::progress::Progress;
use bench_record::command::public_command;
use bench_record::failure::{Context, Failure};
use bench_record::machine::MachineFacts;
use bench_record::output;
use bench_record::preset::Preset;
use bench_record::scenario::{Mode, Rate, Scenario};
use bench_record::slice::Measured;
use bench_record::span::{Share, Span};
use bench_record::statistics::random::{Random, mix};
use bench_record::target::Target;
use machine::clock::unix_time;
use machine::interrupt::Interrupt;
use machine::{facts, freeze};
use peers::Guard;
use search::{Search, Trial};

/// Version of the records; fields are only ever added within one.
const VERSION: u32 = 1;
/// A trial that was disturbed is made again so often.
const RETRIES: usize = 2;
/// Most rounds of a search.
const MOST_ROUNDS: usize = 40;
/// Shares of the sustained rate at which a curve is measured.
const SHARES: [f64; 9] = [0.10, 0.25, 0.50, 0.70, 0.80, 0.90, 0.95, 1.00, 1.05];

/// Options of `saturate`, and the first half of `curve`.
#[derive(Debug, Args)]
pub(crate) struct SaturateArgs {
    /// A broker or a peer, as for run. Repeat it to compare
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// A row of the speed table; other options change it. --duration is that of each trial
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Highest p99 of the latency that is accepted
    #[arg(long, default_value = "100ms")]
    slo: Span,
    /// How near the lowest rate that fails must be to the highest that goes well
    #[arg(long, default_value = "2%")]
    precision: Share,
    /// Stop the processes of the targets that are not being measured (SIGSTOP)
    #[arg(long)]
    freeze: bool,
    /// Repeats the random order and the arrivals of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    load: LoadArgs,
}

/// Options of `curve`.
#[derive(Debug, Args)]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    search: SaturateArgs,
    /// 100 % is this many messages a second for every target, instead of what each is first found
    /// to sustain
    #[arg(long)]
    full: Option<f64>,
    /// How often each share is measured
    #[arg(long, default_value_t = 1)]
    blocks: usize,
}

/// The record of either.
#[derive(Debug, Serialize, Deserialize)]
struct SaturateRecord {
    version: u32,
    program: String,
    /// Seconds since 1970 at its start.
    started: u64,
    /// Seconds since 1970 at its end; none when it was interrupted.
    finished: Option<u64>,
    command: Vec<String>,
    machine: MachineFacts,
    seed: u64,
    /// Highest p99 accepted, microseconds.
    slo_us: f64,
    scenario: Scenario,
    results: Vec<Found>,
}

/// What was found out about one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Found {
    target: Target,
    /// Messages sent a second that came through in the closed loop; none where that was not
    /// measured.
    closed_loop_per_s: Option<f64>,
    /// The highest rate that was sustained; none: none was.
    sustained_per_s: Option<f64>,
    trials: Vec<Trial>,
    /// Latency at shares of the sustained rate.
    curve: Vec<Point>,
    /// Why there is nothing more.
    error: Option<String>,
}

impl Found {
    /// True when a rate was sustained, or given, and something was measured at its shares if these
    /// were looked at.
    fn is_good(&self) -> bool {
        let looked = self.curve.is_empty() || self.curve.iter().any(|point| point.trial.measured.is_some());
        self.sustained_per_s.is_some() && looked
    }
}

/// One share of the sustained rate, measured once.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Point {
    share: f64,
    block: usize,
    trial: Trial,
}

/// The verb `saturate`. False: some target sustained nothing, or it was interrupted.
pub(crate) fn saturate(args: &SaturateArgs) -> Result<bool, Failure> {
    let (mut study, _guards) = Study::begin(args)?;
    study.search()?;
    study.finish(args)
}

/// The verb `curve`.
pub(crate) fn curve(args: &CurveArgs) -> Result<bool, Failure> {
    if let Some(full) = args.full.filter(|full| !(*full > 0.0 && full.is_finite())) {
        return Err(Failure::new(format!("--full {full}: a rate must be more than 0")));
    }
    let (mut study, _guards) = Study::begin(&args.search)?;
    match args.full {
        Some(full) => study.found.iter_mut().for_each(|found| found.sustained_per_s = Some(full)),
        None => study.search()?,
    }
    study.curve(args.blocks.max(1));
    study.finish(&args.search)
}

/// A search or a curve under way.
struct Study {
    plan: Plan,
    started: u64,
    slo_us: f64,
    precision: f64,
    random: Random,
    progress: Progress,
    found: Vec<Found>,
}

impl Study {
    /// A study, and what ends the peers that were started for it.
    fn begin(args: &SaturateArgs) -> Result<(Self, Vec<Guard>), Failure> {
        let scenario = args.load.scenario(args.preset)?;
        if scenario.mode == Mode::Pingpong || scenario.pace.rate != Rate::Saturate || scenario.length.messages.is_some()
        {
            return Err(Failure::new("the rate is what is searched for: without --rate, --messages and ping-pong"));
        }
        if args.freeze && !freeze::supported() {
            return Err(Failure::new("--freeze needs a system with signals"));
        }
        let (targets, guards) = peers::resolve_all(&args.targets)?;
        let progress =
            if args.quiet { Progress::silent() } else { Progress::shown() }.interrupted_by(Interrupt::by_signal()?);
        Ok((Self::new(args, targets, scenario, progress), guards))
    }

    fn new(args: &SaturateArgs, targets: Vec<Target>, scenario: Scenario, progress: Progress) -> Self {
        let seed = args.seed.unwrap_or_else(|| mix(unix_time() ^ u64::from(std::process::id())));
        let found = |target: &Target| Found {
            target: target.clone(),
            closed_loop_per_s: None,
            sustained_per_s: None,
            trials: Vec::new(),
            curve: Vec::new(),
            error: None,
        };
        let plan = Plan {
            own: BTreeMap::new(),
            targets,
            scenario,
            blocks: 1,
            seed,
            salt: 0,
            freeze: args.freeze,
            wait_quiet: Duration::ZERO,
            retries: RETRIES,
            forced_dir: None,
            control: None,
            least: None,
            rehearsal: Duration::ZERO,
            early_end: EarlyEnd::default(),
            workers: Workers::default(),
        };
        let found = plan.targets.iter().map(found).collect();
        let (slo_us, precision) = (args.slo.0.as_secs_f64() * 1e6, args.precision.0);
        Self { plan, started: unix_time(), slo_us, precision, random: Random::new(seed), progress, found }
    }

    /// Finds what each target sustains.
    fn search(&mut self) -> Result<(), Failure> {
        let mut searches = Vec::new();
        for at in 0..self.found.len() {
            self.progress.step("[closed loop] ".to_owned());
            let load = self.load(at, Rate::Saturate);
            let measured = self.measure(at, &load);
            let estimate = measured.map(|measured| measured.rates.messages_per_s / load.receipts_per_send());
            let found = &mut self.found[at];
            match estimate {
                Ok(estimate) => found.closed_loop_per_s = Some(estimate),
                Err(failure) => found.error = Some(failure.to_string()),
            }
            searches.push(found.closed_loop_per_s.map(|estimate| Search::new(estimate, self.precision)));
        }
        for round in 1..=MOST_ROUNDS {
            let mut order: Vec<usize> = (0..searches.len()).collect();
            self.random.shuffle(&mut order);
            let mut tried = false;
            for at in order {
                let Some(rate) = searches[at].as_ref().and_then(Search::next) else { continue };
                if self.progress.interrupted() {
                    return Ok(());
                }
                self.progress.step(format!("[round {round}] "));
                let trial = self.trial(at, rate);
                if let Some(search) = searches[at].as_mut() {
                    if trial.sustained {
                        search.went_well(rate)
                    } else {
                        search.went_wrong(rate)
                    }
                    self.found[at].sustained_per_s = search.sustained();
                }
                self.found[at].trials.push(trial);
                tried = true;
            }
            if !tried {
                break;
            }
        }
        Ok(())
    }

    /// Measures every target at every share, in random order within each block.
    fn curve(&mut self, blocks: usize) {
        for block in 1..=blocks {
            let mut turns: Vec<(usize, f64)> =
                (0..self.found.len()).flat_map(|at| SHARES.map(|share| (at, share))).collect();
            self.random.shuffle(&mut turns);
            for (at, share) in turns {
                let Some(full) = self.found[at].sustained_per_s else { continue };
                if self.progress.interrupted() {
                    return;
                }
                self.progress.step(format!("[{block}/{blocks}, {:.0} %] ", share * 100.0));
                let trial = self.trial(at, full * share);
                self.found[at].curve.push(Point { share, block, trial });
            }
        }
    }

    /// Offers one rate, again where it did not go well and the machine may be to blame.
    fn trial(&mut self, at: usize, rate: f64) -> Trial {
        let load = self.load(at, Rate::Fixed(rate));
        let mut attempt = 0;
        loop {
            let measured = self.measure(at, &load);
            let disturbed = measured.as_ref().is_ok_and(|measured| measured.verdict.disturbed());
            let trial = Trial::of(rate, &load, measured.map_err(|failure| failure.to_string()), self.slo_us);
            if disturbed && !trial.sustained && attempt < self.plan.retries && !self.progress.interrupted() {
                attempt += 1;
                continue;
            }
            let what = if trial.sustained { "sustained".to_owned() } else { trial.reasons.join("; ") };
            self.progress.done(&format!("{}: {rate:.0} msg/s {what}", self.found[at].target.name));
            return trial;
        }
    }

    /// What a target is loaded with.
    fn load(&self, at: usize, rate: Rate) -> Scenario {
        let relay = self.plan.targets[at].is_relay();
        let base = if relay { self.plan.scenario.for_relay() } else { self.plan.scenario.clone() };
        base.with(|s| s.pace.rate = rate)
    }

    fn measure(&mut self, at: usize, load: &Scenario) -> Result<Measured, Failure> {
        let target = &self.plan.targets[at];
        blocks::one(&self.plan, target, load, self.random.draw() as u32, &mut self.progress)
    }

    fn finish(self, args: &SaturateArgs) -> Result<bool, Failure> {
        let record = SaturateRecord {
            version: VERSION,
            program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            started: self.started,
            finished: (!self.progress.interrupted()).then(unix_time),
            command: public_command(std::env::args()),
            machine: facts::here(),
            seed: self.plan.seed,
            slo_us: self.slo_us,
            scenario: self.plan.scenario,
            results: self.found,
        };
        output::report(&report::render(&record), args.json.as_deref(), &record).context("the result")?;
        Ok(record.finished.is_some() && record.results.iter().all(Found::is_good))
    }
}
