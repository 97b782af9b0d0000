//! `hermod-bench`: load generator, referee and reporter for any broker, Hermod and its peers alike.
//!
//! Every producer and consumer is a thread with a connection of its own; every message is checked;
//! CPU is counted for each message; what the machine itself charges is measured in the same run.

mod blocks;
mod capacity;
mod cli;
mod disk;
mod driver;
mod durability_audit;
mod exchange;
mod load;
mod load_options;
mod measure;
mod progress;
mod relay;
mod resume;
mod run;
mod saturate;
mod scorecard;
mod simulate;
mod suite;

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use bench_record::failure::{Context, Failure};
use bench_record::output;
use cli::{Cli, FloorArgs, RelayArgs, Verb};
use disk::DiskArgs;
use machine::disk::forced_writes;
use machine::interrupt::Interrupt;
use relay::own::LISTENING;

/// Everything measured was valid.
const EXIT_VALID: u8 = 0;
/// It could not be measured.
const EXIT_FAILED: u8 = 1;
/// It was measured, and some slices broke a rule.
const EXIT_INVALID: u8 = 3;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let entered = cli.network().and_then(|network| network.map_or(Ok(()), machine::netns::enter));
    match entered.and_then(|()| done(cli.verb)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("hermod-bench: {failure}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Does what was asked for.
fn done(verb: Verb) -> Result<u8, Failure> {
    let exit = |valid| if valid { EXIT_VALID } else { EXIT_INVALID };
    match verb {
        Verb::Run(args) => run::run(&args).map(exit),
        Verb::Saturate(args) => saturate::saturate(&args).map(exit),
        Verb::Curve(args) => saturate::curve(&args).map(exit),
        Verb::Audit(args) => durability_audit::audit(&args).map(exit),
        Verb::Relay(relay) => serve_relay(&relay),
        Verb::Floor(floor) => show_floor(&floor),
        Verb::Disk(disk) => show_disk(&disk),
        Verb::Exchange(args) => exchange::run(&args).map(exit),
        Verb::Suite(args) => suite::run(&args).map(exit),
        Verb::Backlog(args) => capacity::backlog::run(&args).map(exit),
        Verb::Queues(args) => capacity::queues::run(&args).map(exit),
        Verb::Connections(args) => capacity::connections::run(&args).map(exit),
        Verb::Retained(args) => capacity::retained::run(&args).map(exit),
        Verb::Simulate(args) => simulate::serve(&args).map(|()| EXIT_VALID),
        Verb::Peers(args) => peers::run(&args).map(|done| if done { EXIT_VALID } else { EXIT_FAILED }),
        Verb::Report(args) => bench_report::draw(&args).map(|()| EXIT_VALID),
        Verb::Compare(args) => bench_report::compare::run(&args).map(exit),
        Verb::Scorecard(args) => scorecard::run(&args).map(|()| EXIT_VALID),
    }
}

fn serve_relay(args: &RelayArgs) -> Result<u8, Failure> {
    if args.with_parent {
        Interrupt::leave_to_parent()?;
        let watcher = std::thread::Builder::new().name("parent".to_owned()).spawn(|| {
            let mut rest = Vec::new();
            // Whatever comes, its end is the parent's end.
            let _ = std::io::stdin().take(1 << 16).read_to_end(&mut rest);
            std::process::exit(0);
        });
        watcher.context("starting a thread")?;
    }
    relay::serve(args.listen, args.threads, args.log.as_deref(), |address| {
        output::show(&format!("{LISTENING}{address}\n"))
    })?;
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
    let rows = disk::measure(&args.dir, &args.batch, args.total, args.blocks.max(1))?;
    let text = if args.json { output::pretty(&rows)? } else { disk::render(&rows) };
    output::show(&text)?;
    Ok(EXIT_VALID)
}
