//! Many connections that do nothing: how fast they open, what each costs in memory, what all of
//! them cost in CPU while nothing happens, and the proof that they still live. They stay in this
//! process, or in children that hold a share each.

mod crowd;
mod idle;
mod report;
mod share;

use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::interval::{Interval, Mark};
use super::{Head, Trial, TrialArgs};
use crate::progress::Progress;
use bench_record::failure::{Context, Failure};
use bench_record::latency::{Latency, Summary};
use bench_record::verdict::Verdict;
use crowd::{Order, Proof};
use idle::SCHEMES;
use machine::descriptors;
use share::Holder;

/// What a broker needs to come to rest after the last connection.
const SETTLE: Duration = Duration::from_secs(2);

/// Options of `connections`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct ConnectionsArgs {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) trial: TrialArgs,
    /// Connections in all
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub(crate) count: u32,
    /// Processes over which they are spread, where one may not open so many files
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) processes: u32,
    /// Give each connection a consumer on an exclusive queue of its own; over MQTT: a subscription
    /// of quality 0 to a topic of its own
    #[arg(long)]
    pub(crate) consume: bool,
    /// Connections that are being opened at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) parallel: u32,
    /// Connections, evenly spread, that a message goes through in the end
    #[arg(long, default_value_t = 100)]
    pub(crate) probes: u32,
    /// Seconds without any work over which the broker's CPU is taken
    #[arg(long, default_value_t = 10.0)]
    pub(crate) idle: f64,
    /// Most seconds until all are open
    #[arg(long, default_value_t = 600.0)]
    pub(crate) limit: f64,
    /// Number of the first connection: this process holds another's share and answers on standard
    /// output
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub(crate) share_from: Option<u32>,
}

/// All that is known in the end.
#[derive(Debug, Serialize)]
pub(crate) struct ConnectionsRecord<'a> {
    #[serde(flatten)]
    head: Head,
    load: &'a ConnectionsArgs,
    /// From the first connection to the last.
    pub(crate) opening: Interval,
    /// Nothing was done in it.
    pub(crate) idle: Interval,
    /// Resident bytes before the first connection.
    pub(crate) resident_before: Option<u64>,
    /// Resident bytes that each connection added, after a rest.
    pub(crate) resident_each: Option<f64>,
    /// Files that this process (each child) may open.
    pub(crate) descriptors: Option<u64>,
    /// Messages that came back through their connections.
    pub(crate) answered: u32,
    pub(crate) probes: u32,
    /// Microseconds there and back.
    pub(crate) round_trip_us: Option<Summary>,
    /// Connections that the broker had closed.
    pub(crate) dead: u32,
    pub(crate) verdict: Verdict,
}

/// Opens and measures, prints the table and writes the record. True: all was valid.
pub(crate) fn run(args: &ConnectionsArgs) -> Result<bool, Failure> {
    let limit = descriptors::raise();
    if let Some(first) = args.share_from {
        args.enough_descriptors(limit, args.count)?;
        let trial = args.begin()?;
        return share::serve(&args.order(&trial, first, args.count)?).map(|()| true);
    }
    let record = measure(args, limit, &args.trial.progress())?;
    args.trial.report(&report::render(&record), &record)?;
    Ok(record.verdict.valid)
}

impl ConnectionsArgs {
    fn begin(&self) -> Result<Trial, Failure> {
        self.trial.begin(&SCHEMES, "connections are opened by AMQP 0-9-1 or MQTT")
    }

    /// What one process opens.
    fn order(&self, trial: &Trial, first: u32, count: u32) -> Result<Order, Failure> {
        let limit = Duration::try_from_secs_f64(self.limit).context("--limit")?;
        let probes = self.probes.min(count);
        let (target, consume, parallel) = (trial.target.clone(), self.consume, self.parallel);
        Ok(Order { target, first, count, consume, parallel, probes, limit })
    }

    /// What process `at` has of `all`.
    fn share(&self, all: u32, at: u32) -> Range<u32> {
        let part = |at: u32| (u64::from(all) * u64::from(at) / u64::from(self.processes)) as u32;
        part(at)..part(at + 1)
    }

    /// Fails where `count` connections need more descriptors than there may be.
    fn enough_descriptors(&self, limit: Option<u64>, count: u32) -> Result<(), Failure> {
        let Some(limit) = limit else { return Ok(()) };
        let needed = u64::from(count) + crowd::SPARE_DESCRIPTORS;
        if needed <= limit {
            return Ok(());
        }
        let room = limit.saturating_sub(crowd::SPARE_DESCRIPTORS).max(1);
        Err(Failure::new(format!(
            "{count} connections in one process need {needed} open files, and it may have {limit} (ulimit -Hn): use \
             --processes {} or raise the limit",
            u64::from(self.count).div_ceil(room)
        )))
    }
}

pub(super) fn measure<'a>(
    args: &'a ConnectionsArgs,
    limit: Option<u64>,
    progress: &Progress,
) -> Result<ConnectionsRecord<'a>, Failure> {
    let idle = Duration::try_from_secs_f64(args.idle).context("--idle")?;
    args.enough_descriptors(limit, args.count.div_ceil(args.processes))?;
    let trial = args.begin()?;
    crowded(args, &trial, limit, idle, progress).context(&trial.target.name)
}

fn crowded<'a>(
    args: &'a ConnectionsArgs,
    trial: &Trial,
    limit: Option<u64>,
    idle: Duration,
    progress: &Progress,
) -> Result<ConnectionsRecord<'a>, Failure> {
    let mark = |moved: u32| trial.mark(moved.into());
    let first = mark(0);
    progress.done("opening");
    let mut holders = open(args, trial).map_err(|failure| failure_with_limits(args, trial, &failure))?;
    let opened = mark(args.count);
    progress.done("idle");
    sleep(SETTLE);
    let before = mark(0);
    sleep(idle);
    let after = mark(0);
    progress.done("proving");
    let proofs = holders.iter_mut().map(Holder::prove).collect::<Result<Vec<Proof>, Failure>>()?;
    let resident = |mark: &Mark| mark.sample.broker.map(|usage| usage.resident);
    let each = |before: u64, after: u64| (after as f64 - before as f64) / f64::from(args.count);
    let mut round_trip = Latency::new()?;
    proofs.iter().flat_map(|proof| &proof.round_trips).for_each(|time| round_trip.record(*time));
    Ok(ConnectionsRecord {
        head: trial.head(),
        load: args,
        opening: Interval::between(&first, &opened, 0),
        idle: Interval::between(&before, &after, 0),
        resident_before: resident(&first),
        resident_each: resident(&first).zip(resident(&before)).map(|(first, before)| each(first, before)),
        descriptors: limit,
        answered: proofs.iter().map(|proof| proof.round_trips.len() as u32).sum(),
        probes: proofs.iter().map(|proof| proof.probes).sum(),
        round_trip_us: round_trip.summary(),
        dead: proofs.iter().map(|proof| proof.dead).sum(),
        verdict: verdict(&proofs),
    })
}

fn verdict(proofs: &[Proof]) -> Verdict {
    let mut violations = Vec::new();
    let (dead, silent) = proofs
        .iter()
        .fold((0, 0), |(dead, silent), one| (dead + one.dead, silent + one.probes - one.round_trips.len() as u32));
    if dead > 0 {
        violations.push(format!("the broker closed {dead} connections"));
    }
    if silent > 0 {
        violations.push(format!("{silent} connections did not carry a message"));
    }
    let notes = proofs.iter().filter_map(|proof| proof.complaint.clone()).take(3).collect();
    Verdict { valid: violations.is_empty(), violations, notes }
}

/// Opens all connections, here or in children.
fn open(args: &ConnectionsArgs, trial: &Trial) -> Result<Vec<Holder>, Failure> {
    if args.processes == 1 {
        return Ok(vec![Holder::here(&args.order(trial, 0, args.count)?)?]);
    }
    let mut holders = Vec::new();
    for at in 0..args.processes {
        let (numbers, probes) = (args.share(args.count, at), args.share(args.probes, at));
        if !numbers.is_empty() {
            holders.push(Holder::start(args, trial, &numbers, probes.len())?);
        }
    }
    let until = Instant::now().checked_add(Duration::try_from_secs_f64(args.limit).context("--limit")?);
    holders.iter_mut().try_for_each(|holder| holder.opened(until))?;
    Ok(holders)
}

/// Adds the usual reason: how many files the broker may open, or a limit of its own.
fn failure_with_limits(args: &ConnectionsArgs, trial: &Trial, failure: &Failure) -> Failure {
    let limit = trial.target.pids.iter().filter_map(|pid| descriptors::of_process(*pid)).max();
    match limit.filter(|limit| *limit < u64::from(args.count) + crowd::SPARE_DESCRIPTORS) {
        Some(limit) => Failure::new(format!("{failure} (the broker may open {limit} files only)")),
        None => Failure::new(format!("{failure} (brokers limit their connections: its log and settings may say more)")),
    }
}

#[cfg(test)]
mod tests;
