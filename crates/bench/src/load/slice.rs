//! One slice: one scenario on one target, from the first connection to the last. Warm up, measure,
//! stop sending, let the queues run dry, compare, clean up.

use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use super::consumer::{Consumed, stand_by};
use super::generator::LoadGenerator;
use super::producer::Produced;
use super::sample::Sample;
use super::threads::{LoadThread, OpenConnections, all_received, closed, join, movement, spawn};
use super::{Run, RunPhase, pingpong};
use crate::driver::jvm::workers::Workers;
use crate::driver::{self, Driver, Line, Part, jvm};
use crate::load::audit::{audit, audit_round_trips};
use crate::load::metrics::{self, growth};
use crate::measure::stamp::Bodies;
use crate::progress::Progress;
use bench_record::exchange::ExchangeFigures;
use bench_record::failure::{Context, Failure};
use bench_record::integrity::Integrity;
use bench_record::latency::Latency;
use bench_record::machine::Counters;
use bench_record::over_time::Recorder;
use bench_record::scenario::{Mode, Rate, Scenario};
use bench_record::slice::WorkerFacts;
use bench_record::statistics::trend::is_steady;
use bench_record::target::Target;
use bench_record::totals::Totals;
use machine::clock::now;

/// A drain ends after this long and the measured time in any case.
const LONGEST_DRAIN: Duration = Duration::from_secs(120);
/// How often the coordinating thread looks.
const STEP: Duration = Duration::from_millis(2);
/// How often it looks while time passes.
const LOOK: Duration = Duration::from_millis(5);
/// A steady rate is one over windows of this length.
const STEADY_WINDOW: Duration = Duration::from_millis(500);
/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(250);
/// What consumers need to send their last acknowledgements.
const LAST_WORDS: Duration = Duration::from_millis(30);
/// Broker counts of queued messages may lag behind; asked this often, a tenth of a second apart.
const DEPTH_TRIES: usize = 30;

/// All that one slice saw.
pub(crate) struct Outcome {
    pub(crate) first: Sample,
    pub(crate) last: Sample,
    pub(crate) totals: Totals,
    /// Messages a second that were meant to be sent; none in a closed loop.
    pub(crate) offered: Option<f64>,
    /// Why less was done than was asked for.
    pub(crate) stopped: Option<String>,
    pub(crate) integrity: Integrity,
    /// By how much the broker's own counters grew, where it shows them.
    pub(crate) metrics: Option<Counters>,
    /// Receipt minus intended time (closed loop: send time); in ping-pong the round trip.
    pub(crate) total: Latency,
    /// Receipt minus send time; empty in a closed loop.
    pub(crate) transit: Latency,
    /// Confirm minus intended time.
    pub(crate) confirm: Latency,
    /// Send minus intended time.
    pub(crate) lateness: Latency,
    /// What is said of a stock exchange alone.
    pub(crate) exchange: Option<ExchangeFigures>,
    /// How the rates went.
    pub(crate) rates: Recorder,
    /// The measured time was cut short.
    pub(crate) interrupted: bool,
    /// The worker that made the load; none: threads of this program did.
    pub(crate) worker: Option<WorkerFacts>,
}

/// OwnThreads of this program, which share the run.
struct OwnThreads<'a, 'scope, T> {
    run: &'a Run,
    senders: &'a [LoadThread<'scope, T>],
}

impl<T> LoadGenerator for OwnThreads<'_, '_, T> {
    fn have_sent(&mut self) -> bool {
        self.senders.iter().all(ScopedJoinHandle::is_finished)
    }

    fn sample(&mut self, pids: &[u32]) -> Sample {
        Sample::take(self.run, pids)
    }

    fn steer(&mut self) {}
}

/// Runs `scenario` on `target`; `number` tells this run's messages and queues from all others. A
/// target that a worker loads finds its worker among `workers`.
pub(crate) fn run(
    target: &Target,
    scenario: &Scenario,
    number: u32,
    workers: &Workers,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    scenario.check()?;
    let scenario = &drain::confirmed(scenario);
    let run = Run::of(scenario, Bodies::of(scenario, number));
    let (metrics_before, metrics_after, rates, cut, stopped) = Default::default();
    let mut slice =
        Slice { target, scenario, run: &run, progress, number, metrics_before, metrics_after, rates, cut, stopped };
    let outcome = match jvm::open(target, scenario, number, workers) {
        Ok(Some(jvm::Loader { owner, mut worker, spec })) => {
            let outcome = slice.beside(&mut worker, &spec);
            if outcome.is_ok() {
                workers.keep(owner, worker);
            }
            outcome
        }
        Ok(None) => slice.here(),
        Err(failure) => Err(failure),
    };
    outcome.context(&target.name)
}

struct Slice<'a> {
    target: &'a Target,
    scenario: &'a Scenario,
    run: &'a Run,
    progress: &'a mut Progress,
    number: u32,
    metrics_before: Option<Counters>,
    metrics_after: Option<Counters>,
    /// Why less was done than was asked for.
    stopped: Option<String>,
    rates: Recorder,
    cut: Cut,
}

/// Where a slice was interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Cut {
    /// It was not, before its time was over.
    #[default]
    None,
    /// Before anything was measured.
    WarmUp,
    /// While it was measured.
    Measuring,
}

impl Slice<'_> {
    /// OwnThreads of this program make the load.
    fn here(&mut self) -> Result<Outcome, Failure> {
        let mut driver = driver::open(self.target, self.scenario, self.number)?;
        let outcome = driver.prepare().and_then(|()| match self.scenario.mode {
            Mode::Throughput if self.scenario.clients.drain => self.drained(driver.as_mut()),
            Mode::Throughput => self.throughput(driver.as_mut()),
            Mode::Pingpong => self.round_trips(driver.as_mut()),
            Mode::Exchange => self.exchange(driver.as_mut()),
        });
        let cleaned = driver.clean().context("removing the queues of this run");
        // The failure of the run explains more than that of the cleaning.
        outcome.and_then(|outcome| cleaned.map(|()| outcome))
    }

    fn throughput(&mut self, driver: &mut dyn Driver) -> Result<Outcome, Failure> {
        let connections = OpenConnections::open(driver, self.scenario)?;
        let bystanders = bystanders(driver, self.scenario)?;
        let run = self.run;
        let before = self.before(|pids| Sample::take(run, pids));
        let (samples, produced, consumed) = std::thread::scope(|scope| {
            for (id, line) in bystanders.into_iter().enumerate() {
                spawn(scope, format!("bystander-{id}"), run, move || stand_by(line, run))?;
            }
            let started = connections.start(scope, self.scenario, run, u64::from(self.number));
            let samples = match &started {
                Ok((senders, _)) => self.watch(before, &mut OwnThreads { run, senders }),
                Err(_) => (Sample::default(), Sample::default()),
            };
            run.advance(RunPhase::End);
            let (producers, consumers) = started?;
            Ok::<_, Failure>((samples, join(producers)?, join(consumers)?))
        })?;
        let produced = closed(produced);
        let held = if consumed.is_empty() { held(driver, run.totals().confirmed)? } else { None };
        let integrity = audit(self.scenario, &run.totals(), &produced, &consumed, held)?;
        self.outcome(samples, integrity, &produced, &consumed)
    }

    fn round_trips(&mut self, driver: &mut dyn Driver) -> Result<Outcome, Failure> {
        let far = driver.open(Part::PingPong { far: true })?;
        let near = driver.open(Part::PingPong { far: false })?;
        let (run, quota) = (self.run, self.scenario.quota(0));
        let before = self.before(|pids| Sample::take(run, pids));
        let (samples, seen) = std::thread::scope(|scope| {
            let answering = spawn(scope, "far-end".to_owned(), run, move || pingpong::far(far, run));
            let asking =
                spawn(scope, "near-end".to_owned(), run, move || pingpong::near(near, quota, run, &run.tallies[0]));
            let samples = match (&asking, &answering) {
                (Ok(asking), Ok(_)) => {
                    self.watch(before, &mut OwnThreads { run, senders: std::slice::from_ref(asking) })
                }
                _ => (Sample::default(), Sample::default()),
            };
            run.advance(RunPhase::End);
            let (seen, ended) = (join(vec![asking?])?, join(vec![answering?]));
            ended.map(|_| (samples, seen))
        })?;
        let seen: Vec<Consumed> = seen.into_iter().map(|(_, seen)| seen).collect();
        let near = seen.first().ok_or_else(|| Failure::new("the near end saw nothing"))?;
        let integrity = audit_round_trips(self.scenario, &run.totals(), near);
        self.outcome(samples, integrity, &[], &seen)
    }

    /// A fixed number of messages without others before them is measured from before the first:
    /// no thread has been started.
    fn before(&mut self, sample: impl FnOnce(&[u32]) -> Sample) -> Option<Sample> {
        if self.scenario.length.messages.is_none() || self.scenario.length.warmup_messages > 0 {
            return None;
        }
        self.run.measure_from(1);
        self.metrics_before = self.read_metrics();
        Some(sample(&self.target.pids))
    }

    /// Lets the hands warm up, measures, tells them to stop, waits until all is received. With a
    /// fixed number of messages, which `before` says, all of them are measured, until the last is
    /// received.
    fn watch(&mut self, before: Option<Sample>, hands: &mut dyn LoadGenerator) -> (Sample, Sample) {
        let pids = &self.target.pids;
        let (first, last) = match before {
            Some(first) => self.count(first, hands),
            None if self.scenario.length.messages.is_some() => {
                let first = self.warm_up(hands);
                self.run.open_gate();
                hands.steer();
                self.count(first, hands)
            }
            None => {
                self.rates.begin(now(), self.run.totals());
                let steady = if self.scenario.length.until_steady { Steady::watched() } else { Steady::ignored() };
                self.pass(self.scenario.length.warmup, steady, ("warming up", None), hands);
                self.metrics_before = self.read_metrics();
                let first = hands.sample(pids);
                self.run.measure_from(first.at);
                hands.steer();
                self.pass(self.scenario.length.duration, Steady::ignored(), ("measuring", Some(&first)), hands);
                let last = hands.sample(pids);
                self.run.measure_until(last.at);
                hands.steer();
                (first, last)
            }
        };
        self.metrics_after = self.read_metrics();
        self.drain(hands);
        (first, last)
    }

    /// Waits until all is sent, received and answered, or the time for it is over. The end is when
    /// the last moved.
    fn count(&mut self, first: Sample, hands: &mut dyn LoadGenerator) -> (Sample, Sample) {
        let run = self.run;
        let cap = self.scenario.length.cap.map(|cap| Instant::now() + Duration::from_secs_f64(cap));
        self.rates.begin(first.at, first.totals);
        let out_of_time = || cap.is_some_and(|cap| Instant::now() > cap);
        self.settle(Some(&first), &mut || (hands.have_sent() && all_received(run)) || out_of_time());
        let mut last = hands.sample(&self.target.pids);
        let moved_at = run.moved_at();
        if hands.have_sent() && all_received(run) && moved_at > first.at {
            last.at = moved_at;
        } else if self.cut == Cut::None {
            run.measure_until(last.at);
            let reason = match self.scenario.length.cap {
                Some(cap) if out_of_time() => format!("after {cap} s"),
                _ => format!("when nothing had moved for {} s", self.scenario.length.patience),
            };
            // Without the counts, which the record has, notes of many slices are the same and are
            // shown once.
            self.stopped = Some(format!("stopped {reason}, before all messages were through"));
        }
        (first, last)
    }

    /// Waits until what comes before the measured messages is through, and takes the first sample.
    fn warm_up(&mut self, hands: &mut dyn LoadGenerator) -> Sample {
        let (run, scenario) = (self.run, self.scenario);
        let enough = scenario.length.warmup_messages / scenario.selects() * scenario.copies().max(1);
        // A drain has everything before it from the beginning.
        let all_that_was_sent = !scenario.clients.drain && scenario.copies() > 0;
        self.wait(run, "warming up", None, &mut || {
            hands.have_sent();
            scenario.main_count(&run.totals()) >= enough && (!all_that_was_sent || all_received(run))
        });
        self.metrics_before = self.read_metrics();
        let first = hands.sample(&self.target.pids);
        run.measure_from(first.at);
        first
    }

    /// Counters are an extra: without them there is still a measurement, and the reason is shown.
    fn read_metrics(&self) -> Option<Counters> {
        match metrics::read(self.target.metrics.as_deref()?) {
            Ok(counters) => Some(counters),
            Err(failure) => {
                self.progress.done(&format!("no counters: {failure}"));
                None
            }
        }
    }

    fn drain(&mut self, hands: &mut dyn LoadGenerator) {
        let run = self.run;
        run.advance(RunPhase::Drain);
        hands.steer();
        let longest = LONGEST_DRAIN + Duration::from_secs_f64(self.scenario.length.duration);
        let end = Instant::now() + longest;
        let out_of_time = || Instant::now() > end;
        self.settle(None, &mut || (hands.have_sent() && all_received(run)) || out_of_time());
        if out_of_time() && !all_received(run) {
            self.stopped =
                Some(format!("the queues were not empty after {} s: the rest is lost here", longest.as_secs()));
        }
        sleep(LAST_WORDS);
    }

    /// Waits for `seconds`, or until the rate is steady where that is waited for, or until a thread
    /// has failed or an interrupt comes. Measured is what comes after `since`.
    fn pass(
        &mut self,
        seconds: f64,
        mut steady: Steady,
        (doing, since): (&str, Option<&Sample>),
        hands: &mut dyn LoadGenerator,
    ) {
        let begin = Instant::now();
        let end = begin + Duration::from_secs_f64(seconds);
        let (mut before, mut shown_at) = (self.run.totals(), begin);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.run.phase() == RunPhase::End {
                return;
            }
            if self.progress.interrupted() {
                self.cut = if since.is_some() { Cut::Measuring } else { Cut::WarmUp };
                return;
            }
            sleep(left.min(LOOK));
            // A worker in another process is heard then, too.
            hands.have_sent();
            self.look(since);
            if steady.reached(self.scenario.main_count(&self.run.totals())) {
                return;
            }
            if shown_at.elapsed() > SHOW {
                let totals = self.run.totals();
                before = self.progress.moving(
                    &self.target.name,
                    doing,
                    totals,
                    before,
                    shown_at.elapsed(),
                    since.map(|first| first.at),
                );
                shown_at = Instant::now();
            }
        }
    }

    /// Notes how far the counters are; what comes after `since` is measured.
    fn look(&mut self, since: Option<&Sample>) {
        let totals = self.run.totals();
        self.rates.look(now(), totals, since.map(|_| self.scenario.main_count(&totals)));
    }

    /// Waits until `done`, or nothing has moved for a while, or a thread has failed. `since` is
    /// where a measured number of messages began; it may be interrupted, a drain may not.
    fn settle(&mut self, since: Option<&Sample>, done: &mut dyn FnMut() -> bool) {
        let doing = if since.is_some() { "measuring" } else { "draining" };
        self.wait(self.run, doing, since, done);
    }

    /// The same for the messages of `run`.
    fn wait(&mut self, run: &Run, doing: &str, since: Option<&Sample>, done: &mut dyn FnMut() -> bool) {
        let (begin, silence) = (Instant::now(), Duration::from_secs_f64(self.scenario.length.patience));
        let (mut moved, mut moved_at, mut shown_at) = (movement(run), begin, begin);
        let mut before = run.totals();
        while !done() && run.phase() != RunPhase::End {
            if since.is_some() && self.progress.interrupted() {
                self.cut = Cut::Measuring;
                return;
            }
            sleep(STEP);
            if since.is_some() {
                self.look(since);
            }
            let at = movement(run);
            if at != moved {
                (moved, moved_at) = (at, Instant::now());
            } else if moved_at.elapsed() > silence {
                return;
            }
            if shown_at.elapsed() > SHOW {
                before = self.progress.moving(
                    &self.target.name,
                    doing,
                    run.totals(),
                    before,
                    SHOW,
                    since.map(|first| first.at),
                );
                shown_at = Instant::now();
            }
        }
    }

    fn outcome(
        &self,
        (first, last): (Sample, Sample),
        integrity: Integrity,
        produced: &[Produced],
        consumed: &[Consumed],
    ) -> Result<Outcome, Failure> {
        if self.cut == Cut::WarmUp {
            return Err(Failure::new("interrupted before anything was measured"));
        }
        let offered = match self.scenario.pace.rate {
            Rate::Fixed(rate) => Some(rate),
            Rate::Saturate | Rate::Half => None,
        };
        Ok(Outcome {
            first,
            last,
            totals: self.run.totals(),
            offered,
            stopped: self.stopped.clone(),
            exchange: None,
            integrity,
            metrics: self.metrics_before.as_ref().zip(self.metrics_after.as_ref()).map(|(b, a)| growth(b, a)),
            total: joined(consumed.iter().map(|one| &one.total))?,
            transit: joined(consumed.iter().map(|one| &one.transit))?,
            confirm: joined(produced.iter().map(|one| &one.confirm))?,
            lateness: joined(produced.iter().map(|one| &one.lateness))?,
            rates: self.rates.clone(),
            interrupted: self.cut == Cut::Measuring,
            worker: None,
        })
    }
}

/// Watches a warm-up for a steady rate.
struct Steady {
    wanted: bool,
    /// When the open window began, and the count by then.
    since: Option<(Instant, u64)>,
    rates: Vec<f64>,
}

impl Steady {
    /// Watches the rate.
    fn watched() -> Self {
        Self { wanted: true, since: None, rates: Vec::new() }
    }

    /// Looks at nothing: the rate never counts as settled.
    fn ignored() -> Self {
        Self { wanted: false, ..Self::watched() }
    }

    /// Takes the present count; true once the rate has settled.
    fn reached(&mut self, count: u64) -> bool {
        let (begin, before) = *self.since.get_or_insert((Instant::now(), count));
        if !self.wanted || begin.elapsed() < STEADY_WINDOW {
            return false;
        }
        self.rates.push(count.saturating_sub(before) as f64 / begin.elapsed().as_secs_f64());
        self.since = Some((Instant::now(), count));
        is_steady(&self.rates)
    }
}

/// Connections that are pushed what their prefetch allows and settle nothing, one for each queue,
/// where these are wanted.
fn bystanders(driver: &mut dyn Driver, scenario: &Scenario) -> Result<Vec<Line>, Failure> {
    let queues = if scenario.clients.bystander { 0..scenario.topology.queues } else { 0..0 };
    queues.map(|id| driver.open(Part::Consume(id))).collect()
}

/// What the queues hold in the end, where there was no consumer and `promised` were confirmed.
pub(crate) fn held(driver: &mut dyn Driver, promised: u64) -> Result<Option<u64>, Failure> {
    let mut held = driver.depth()?;
    for _ in 0..DEPTH_TRIES {
        if held.is_none_or(|held| held >= promised) {
            break;
        }
        sleep(Duration::from_millis(100));
        held = driver.depth()?;
    }
    Ok(held)
}

/// All samples of several threads.
pub(crate) fn joined<'a>(parts: impl Iterator<Item = &'a Latency>) -> Result<Latency, Failure> {
    let mut all = Latency::new()?;
    for part in parts {
        all.merge(part)?;
    }
    Ok(all)
}

mod beside;
mod drain;
mod exchange;
#[cfg(test)]
mod tests;
