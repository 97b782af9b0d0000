//! A backlog: messages published to one durable queue without a consumer, and taken from it
//! later, perhaps by another process after the broker was restarted. What is expected follows from
//! the options alone, so nothing need be remembered between the two; what was received costs one
//! bit for each message.

mod report;
mod watch;

use std::path::PathBuf;
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::interval::{Drift, Interval, Mark};
use super::{Head, Trial, TrialArgs};
use crate::driver::{self, Driver};
use crate::load::audit::{audit, audit_drain};
use crate::load::slice::{held, joined};
use crate::load::threads::{OpenConnections, closed, join};
use crate::load::{Run, RunPhase};
use crate::measure::sequence::Numbers;
use crate::measure::stamp::Bodies;
use crate::progress::Progress;
use bench_record::check::Check;
use bench_record::failure::{Context, Failure};
use bench_record::integrity::Integrity;
use bench_record::latency::Summary;
use bench_record::rules::{FULL_THREAD, QUIET_CORES, integrity};
use bench_record::scenario::{QueueKind, Scenario};
use bench_record::statistics::random::mix;
use bench_record::verdict::Verdict;
use machine::directory::{self, Size};
use watch::{Ended, Watch};

/// How long consumers go on after the last expected message, in case that there are more.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Publish and leave
    Fill,
    /// Take what an earlier fill with the same options left
    Drain,
    /// One after the other
    Both,
}

/// Options of `backlog`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct BacklogArgs {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) trial: TrialArgs,
    /// What to do
    #[arg(long, value_enum, default_value = "both")]
    #[serde(skip)]
    pub(crate) phase: Phase,
    /// Messages in all
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub(crate) messages: u64,
    /// Bytes of a body; at least 8
    #[arg(long, default_value_t = 1024)]
    pub(crate) size: usize,
    /// Connections that publish, one thread each
    #[arg(long, default_value_t = 1)]
    pub(crate) producers: usize,
    /// Most unconfirmed messages of a producer
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: u64,
    /// Connections that consume, one thread each; order is checked within each, so that one checks
    /// the queue's
    #[arg(long, default_value_t = 1)]
    pub(crate) consumers: usize,
    /// Most unacknowledged messages of a consumer; 0: no limit
    #[arg(long, default_value_t = 1000)]
    pub(crate) prefetch: u16,
    /// Name of the queue; otherwise one that follows from the seed
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Tells these messages from others; a drain needs the seed of its fill
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The broker's data directory, whose size is reported
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Messages of a slice: each has a row of figures
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) slice: u64,
    /// Seconds without any movement after which a phase is given up
    #[arg(long, default_value_t = 30.0)]
    pub(crate) patience: f64,
    /// Most seconds of a phase
    #[arg(long, default_value_t = 3600.0)]
    pub(crate) limit: f64,
}

/// One phase, measured.
#[derive(Debug, Serialize)]
pub(crate) struct PhaseRecord {
    pub(crate) phase: &'static str,
    pub(crate) total: Interval,
    pub(crate) slices: Vec<Interval>,
    /// The last slice against the second.
    pub(crate) drift: Option<Drift>,
    /// The most that was resident since the broker started, bytes.
    pub(crate) peak_resident_bytes: Option<u64>,
    /// Microseconds from the send time to the confirm.
    pub(crate) confirm_us: Option<Summary>,
    /// Messages in the queue after it, where the protocol tells.
    pub(crate) held: Option<u64>,
    /// The data directory before and after.
    pub(crate) dir_before: Option<Size>,
    pub(crate) dir_after: Option<Size>,
    pub(crate) busiest_thread: Option<(String, f64)>,
    pub(crate) integrity: Integrity,
    pub(crate) verdict: Verdict,
}

/// All that is known in the end.
#[derive(Debug, Serialize)]
pub(crate) struct BacklogRecord<'a> {
    #[serde(flatten)]
    head: Head,
    load: &'a BacklogArgs,
    pub(crate) phases: Vec<PhaseRecord>,
    /// Why there are not as many phases as were asked for.
    pub(crate) error: Option<String>,
}

/// Runs the phases that were asked for, prints the table and writes the record. True: all was
/// valid.
pub(crate) fn run(args: &BacklogArgs) -> Result<bool, Failure> {
    let record = measure(args, &mut args.trial.progress())?;
    args.trial.report(&report::render(&record), &record)?;
    if let Some(error) = record.error {
        return Err(Failure::new(error));
    }
    Ok(record.phases.iter().all(|phase| phase.verdict.valid))
}

fn measure<'a>(args: &'a BacklogArgs, progress: &mut Progress) -> Result<BacklogRecord<'a>, Failure> {
    let scenario = args.scenario()?;
    let number = mix(args.seed) as u32;
    let trial = args.trial.begin(&["amqp", "stomp"], "backlogs are of AMQP 0-9-1 and STOMP")?;
    let driver = driver::open(&trial.target, &scenario, number)?;
    let bodies = Bodies::new(number, args.size);
    let mut backlog = Backlog { args, trial: &trial, scenario, bodies, driver, progress };
    let mut phases = Vec::new();
    let error = match backlog.phases(&mut phases).context(&trial.target.name) {
        // A fill may have taken hours: its figures outlive the failure of its drain.
        Err(failure) if !phases.is_empty() => Some(failure.to_string()),
        done => done.map(|()| None)?,
    };
    Ok(BacklogRecord { head: trial.head(), load: args, phases, error })
}

impl BacklogArgs {
    /// The load of both phases.
    fn scenario(&self) -> Result<Scenario, Failure> {
        if Check::of(self.size) == Check::Counted {
            return Err(Failure::new("--size must be at least 8: smaller bodies can't say which message they are"));
        }
        if self.phase != Phase::Fill && self.consumers == 0 {
            return Err(Failure::new("a drain needs at least one consumer; use --phase fill"));
        }
        let limit = Duration::try_from_secs_f64(self.limit).context("--limit")?;
        if limit.is_zero() {
            return Err(Failure::new("--limit must be more than 0 seconds"));
        }
        let scenario = Scenario::default().with(|s| {
            (s.topology.producers, s.topology.consumers, s.topology.queue, s.topology.queue_name) =
                (self.producers, self.consumers, QueueKind::Durable, self.queue.clone());
            (s.message.size, s.message.persistent) = (self.size, true);
            (s.clients.window, s.clients.prefetch, s.clients.ack_every) = (self.window, self.prefetch, 1);
            s.pace.in_flight = 0;
            (s.length.messages, s.length.patience) = (Some(self.messages), self.patience);
        });
        scenario.check()?;
        Ok(scenario)
    }
}

struct Backlog<'a> {
    args: &'a BacklogArgs,
    trial: &'a Trial,
    scenario: Scenario,
    bodies: Bodies,
    driver: Box<dyn Driver>,
    progress: &'a mut Progress,
}

/// What a phase saw, before it is judged.
struct PhaseResult {
    phase: &'static str,
    marks: Vec<Mark>,
    ended: Ended,
    confirm_us: Option<Summary>,
    held: Option<u64>,
    dir_before: Option<Size>,
    integrity: Integrity,
}

impl Backlog<'_> {
    /// Runs the phases and keeps what each of them saw.
    fn phases(&mut self, phases: &mut Vec<PhaseRecord>) -> Result<(), Failure> {
        self.driver.prepare()?;
        let mut promised: Vec<Numbers> =
            (0..self.scenario.topology.producers).map(|id| Numbers::up_to(self.scenario.quota(id))).collect();
        if self.args.phase != Phase::Drain {
            let (record, confirmed) = self.fill()?;
            phases.push(record);
            promised = confirmed;
        } else if self.driver.depth()? == Some(0) {
            return Err(Failure::new(
                "the queue holds nothing: fill it first, with the same --queue or --seed, and the same vhost",
            ));
        }
        if self.args.phase != Phase::Fill {
            let record = self.drain(&promised)?;
            // What is left may be needed to find out why.
            let emptied = record.held.is_none_or(|held| held == 0);
            phases.push(record);
            if emptied {
                self.driver.clean().context("removing the queue")?;
            }
        }
        Ok(())
    }

    /// Publishes; also returns what was confirmed of each producer.
    fn fill(&mut self) -> Result<(PhaseRecord, Vec<Numbers>), Failure> {
        if let Some(held @ 1..) = self.driver.depth()? {
            return Err(Failure::new(format!(
                "the queue holds {held} messages already; drain it, or use another --seed or --queue"
            )));
        }
        let scenario = self.scenario.clone().with(|s| s.topology.consumers = 0);
        let connections = OpenConnections::open(self.driver.as_mut(), &scenario)?;
        let run = Run::new(scenario.topology.producers, 0, 0, self.bodies.clone());
        run.measure_from(1);
        let dir_before = self.dir()?;
        let mut watch = Watch::new(self.args, self.trial, &run, |totals| totals.confirmed + totals.refused);
        let (ended, produced) = std::thread::scope(|scope| {
            let (producers, _) = connections
                .start(scope, &scenario, &run, self.args.seed)
                .inspect_err(|_| run.advance(RunPhase::End))?;
            let sent = || producers.iter().all(ScopedJoinHandle::is_finished);
            let ended = watch.until(&sent, self.progress, "filling");
            // Given up on, they stop at once.
            run.advance(RunPhase::End);
            Ok::<_, Failure>((ended, join(producers)?))
        })?;
        let (marks, produced) = (watch.marks, closed(produced));
        let held = held(self.driver.as_mut(), run.totals().confirmed)?;
        let integrity = audit(&scenario, &run.totals(), &produced, &[], held)?;
        let confirm_us = joined(produced.iter().map(|one| &one.confirm))?.summary();
        let seen = PhaseResult { phase: "fill", marks, ended, confirm_us, held, dir_before, integrity };
        let record = self.judge(seen)?;
        Ok((record, produced.into_iter().map(|one| one.confirmed).collect()))
    }

    /// Takes what was `promised` of each producer.
    fn drain(&mut self, promised: &[Numbers]) -> Result<PhaseRecord, Failure> {
        let expected: u64 = promised.iter().map(Numbers::count).sum();
        let dir_before = self.dir()?;
        let connections = OpenConnections::consumers(self.driver.as_mut(), &self.scenario)?;
        let run =
            Run::new(self.scenario.topology.producers + self.scenario.topology.consumers, 0, 1, self.bodies.clone());
        let mut watch = Watch::new(self.args, self.trial, &run, |totals| totals.received);
        let (ended, consumed) = std::thread::scope(|scope| {
            let (_, consumers) = connections
                .start(scope, &self.scenario, &run, self.args.seed)
                .inspect_err(|_| run.advance(RunPhase::End))?;
            let ended = watch.until(&|| run.totals().received >= expected, self.progress, "draining");
            sleep(LAST_WORDS);
            run.advance(RunPhase::End);
            Ok::<_, Failure>((ended, join(consumers)?))
        })?;
        let marks = watch.marks;
        let mut integrity = audit_drain(&self.scenario, promised, &consumed);
        let held = self.settled()?;
        // What is still there is not lost, only not taken.
        integrity.lost = integrity.lost.saturating_sub(held.unwrap_or(0));
        self.judge(PhaseResult { phase: "drain", marks, ended, confirm_us: None, held, dir_before, integrity })
    }

    /// Messages in the queue once the acknowledgements have been taken in.
    fn settled(&mut self) -> Result<Option<u64>, Failure> {
        let end = Instant::now() + Duration::from_secs(3);
        loop {
            let held = self.driver.depth()?;
            if held.is_none_or(|held| held == 0) || Instant::now() > end {
                return Ok(held);
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn dir(&self) -> Result<Option<Size>, Failure> {
        self.args.dir.as_deref().map(directory::size).transpose()
    }

    fn judge(&self, seen: PhaseResult) -> Result<PhaseRecord, Failure> {
        let (Some(first), Some(last)) = (seen.marks.first(), seen.marks.last()) else {
            return Err(Failure::new("the phase ended before anything was measured"));
        };
        let between = |first: &Mark, last: &Mark| Interval::between(first, last, self.args.size);
        let slices: Vec<Interval> = seen.marks.windows(2).map(|pair| between(&pair[0], &pair[1])).collect();
        let mut verdict = Verdict::default();
        integrity(&seen.integrity, &mut verdict.violations);
        verdict.violations.extend(seen.ended.complaint(self.args));
        if let Some(left @ 1..) = seen.held.filter(|_| seen.phase == "drain") {
            verdict.violations.push(format!("{left} messages are still in the queue, which was not deleted"));
        }
        if seen.integrity.damages.length > 0 {
            verdict.notes.push("bodies of another length came: is --size that of the fill?".to_owned());
        }
        if seen.integrity.damages.stamp > 0 {
            verdict.notes.push("messages of another fill came: are --seed, --producers and --messages its?".to_owned());
        }
        if seen.integrity.redelivered > 0 {
            verdict.notes.push(format!("the broker marked {} messages as redelivered", seen.integrity.redelivered));
        }
        // Threads of a load that is over are gone from the last sample.
        let before_last = seen.marks.iter().rev().nth(1).unwrap_or(last);
        let busiest_thread = before_last.sample.busiest(&first.sample);
        if busiest_thread.as_ref().is_some_and(|(_, share)| *share > FULL_THREAD) {
            verdict.notes.push("one of the load's threads used a whole core: the rate is a lower bound".to_owned());
        }
        let total = between(first, last);
        if total.other_cores.is_some_and(|cores| cores > QUIET_CORES) {
            verdict.notes.push("other processes used more than a quarter of a core".to_owned());
        }
        verdict.valid = verdict.violations.is_empty();
        Ok(PhaseRecord {
            phase: seen.phase,
            total,
            drift: Drift::of(&slices),
            slices,
            peak_resident_bytes: last.sample.broker.and_then(|usage| usage.peak),
            confirm_us: seen.confirm_us,
            held: seen.held,
            dir_before: seen.dir_before,
            dir_after: self.dir()?,
            busiest_thread,
            integrity: seen.integrity,
            verdict,
        })
    }
}

#[cfg(test)]
mod tests;
