//! `hermod-bench`: load generator, referee and reporter for any broker, Hermod and its peers alike.
//!
//! Every producer and consumer is a thread with a connection of its own; every message is checked; CPU is counted for each
//! message; what the machine itself charges is measured in the same run.

mod audit;
mod blocks;
mod capacity;
mod cli;
mod clock;
mod driver;
mod durability;
mod failure;
mod load;
mod machine;
mod measure;
mod preset;
mod relay;
mod report;
mod scenario;
mod suite;
mod target;

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use blocks::Plan;
use cli::{Cli, FloorArgs, RelayArgs, RunArgs, Verb};
use failure::{Context, Failure};
use machine::backlog::{self, DiskArgs};
use machine::disk::forced_writes;
use machine::freeze;
use relay::own::{LISTENING, OwnRelay};
use report::output;
use report::progress::Progress;
use report::record::{MachineFacts, Record, VERSION, public_command, unix_time};
use report::table;

/// Everything measured was valid.
const EXIT_VALID: u8 = 0;
/// It could not be measured.
const EXIT_FAILED: u8 = 1;
/// It was measured, and some slices broke a rule.
const EXIT_INVALID: u8 = 3;

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Run(run) => measure(&run),
        Verb::Relay(relay) => serve_relay(&relay),
        Verb::Floor(floor) => show_floor(&floor),
        Verb::Disk(disk) => show_disk(&disk),
        Verb::Backlog(args) => capacity::backlog::run(&args).map(exit),
        Verb::Queues(args) => capacity::queues::run(&args).map(exit),
        Verb::Connections(args) => capacity::connections::run(&args).map(exit),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("hermod-bench: {failure}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn measure(run: &RunArgs) -> Result<u8, Failure> {
    let scenario = run.scenario()?;
    let own_relay = if run.relay { Some(OwnRelay::start()?) } else { None };
    let mut targets = run.targets.clone();
    match (targets.as_mut_slice(), run.pid.is_empty()) {
        (_, true) => {}
        ([only], false) => only.pids.extend(&run.pid),
        _ => {
            return Err(Failure::new("--pid is for one target; with several say which is whose: --target URI,pid=PID"));
        }
    }
    targets.extend(own_relay.as_ref().map(OwnRelay::target));
    if let Some(twice) =
        targets.iter().enumerate().find(|(at, target)| targets[..*at].iter().any(|t| t.name == target.name))
    {
        return Err(Failure::new(format!("two targets are called {0}; name them: --target a={0}://…", twice.1.name)));
    }
    if run.freeze && !freeze::supported() {
        return Err(Failure::new("--freeze needs a system with signals"));
    }
    let seed = run.seed.unwrap_or_else(|| measure::random::mix(unix_time() ^ u64::from(std::process::id())));
    let forced_dir = scenario.persistent.then(|| run.dir.clone().unwrap_or_else(std::env::temp_dir));
    let blocks = run.blocks.max(1);
    let wait_quiet = Duration::try_from_secs_f64(run.wait_quiet).context("--wait-quiet")?;
    let (freeze, retries) = (run.freeze, run.retries);
    let plan = Plan { targets, scenario, blocks, seed, freeze, wait_quiet, retries, forced_dir };
    let results = blocks::run(&plan, &mut Progress::new(run.quiet))?;
    let record = Record {
        version: VERSION,
        program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        started: unix_time(),
        command: public_command(std::env::args()),
        machine: MachineFacts::here(),
        seed,
        scenario: plan.scenario,
        targets: plan.targets,
        forced: results.forced,
        slices: results.slices,
        summary: results.summary,
    };
    output::report(&table::render(&record), run.json.as_deref(), &record)?;
    Ok(exit(record.summary.iter().all(|summary| summary.valid == summary.slices)))
}

fn exit(valid: bool) -> u8 {
    if valid { EXIT_VALID } else { EXIT_INVALID }
}

fn serve_relay(args: &RelayArgs) -> Result<u8, Failure> {
    if args.with_parent {
        let watcher = std::thread::Builder::new().name("parent".to_owned()).spawn(|| {
            let mut rest = Vec::new();
            // Whatever comes, its end is the parent's end.
            let _ = std::io::stdin().take(1 << 16).read_to_end(&mut rest);
            std::process::exit(0);
        });
        watcher.context("starting a thread")?;
    }
    relay::serve(args.listen, args.threads, |address| output::show(&format!("{LISTENING}{address}\n")))?;
    Ok(EXIT_VALID)
}

fn show_floor(args: &FloorArgs) -> Result<u8, Failure> {
    let time = Duration::try_from_secs_f64(args.duration).context("--duration")?;
    let forced = forced_writes(&args.dir, time)?;
    output::show(&output::pretty(&forced)?)?;
    Ok(EXIT_VALID)
}

fn show_disk(args: &DiskArgs) -> Result<u8, Failure> {
    if args.batch.contains(&0) {
        return Err(Failure::new("--batch must not be zero"));
    }
    let rows = backlog::measure(&args.dir, &args.batch, args.total, args.blocks.max(1))?;
    let text = if args.json { output::pretty(&rows)? } else { backlog::render(&rows) };
    output::show(&text)?;
    Ok(EXIT_VALID)
}
