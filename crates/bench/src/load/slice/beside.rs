//! A slice whose load a worker makes: the same steps as with threads of this program, and a
//! rehearsal before, whose length depends on what the worker has done so far.

use super::drain::{fill_end, filling, take_over};
use super::{Outcome, Slice, Steady};
use crate::driver::jvm::protocol::Spec;
use crate::driver::jvm::worker::{Practice, Worker};
use crate::load::audit::{audit, audit_round_trips};
use crate::load::generator::LoadGenerator;
use crate::load::producer::Produced;
use crate::load::remote::Remote;
use crate::load::{Run, RunPhase};
use crate::measure::stamp::Bodies;
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Mode, Scenario};

/// Seconds that a Java machine which has made no load yet rehearses in any case, and how long it
/// may then take until the rate is steady.
const FIRST: Seconds = Seconds { at_least: 3.0, until_steady: 12.0 };
/// The same where it has made another load: most of what it needs is compiled.
const ANOTHER: Seconds = Seconds { at_least: 0.0, until_steady: 5.0 };

/// How long a rehearsal lasts: some seconds, and then until the rate is steady, but no longer than
/// that.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seconds {
    at_least: f64,
    until_steady: f64,
}

/// How long a worker rehearses `scenario`; none: not at all, for without a warm-up none is
/// wanted, and a load with a time has a warm-up of its own, which is enough for a known scenario.
fn rehearsal(scenario: &Scenario, practice: Practice) -> Option<Seconds> {
    let own = scenario.length.messages.is_none();
    let known = practice == Practice::Same;
    if scenario.length.warmup == 0.0 || (own && (known || scenario.length.until_steady)) {
        return None;
    }
    let Seconds { at_least, until_steady } = match practice {
        Practice::None => FIRST,
        Practice::Other => ANOTHER,
        Practice::Same => Seconds { at_least: 0.0, until_steady: 0.0 },
    };
    Some(match (scenario.length.until_steady, own) {
        (true, _) => Seconds { at_least, until_steady: scenario.length.warmup },
        (false, true) => Seconds { at_least, until_steady },
        (false, false) => Seconds { at_least: at_least.max(scenario.length.warmup), until_steady },
    })
}

/// What is rehearsed in place of `scenario`, without an end. Nothing of it stays behind: what
/// has no consumer otherwise is consumed, and consumers take all.
fn rehearsed(scenario: &Scenario) -> Scenario {
    let emptied = scenario.topology.consumers == 0 && !scenario.copies_all();
    let consumers = if emptied { scenario.topology.queues } else { scenario.topology.consumers };
    let selector = scenario.clients.selector.map(|_| 1);
    scenario.clone().with(|s| {
        s.topology.consumers = consumers;
        (s.clients.bystander, s.clients.selector) = (false, selector);
    })
}

impl Slice<'_> {
    /// A worker makes the load that `spec` describes.
    pub(super) fn beside(&mut self, worker: &mut Worker, spec: &Spec) -> Result<Outcome, Failure> {
        if let Some(seconds) = rehearsal(self.scenario, worker.practice(spec)) {
            self.rehearse(worker, spec, seconds)?;
        }
        worker.has_practised(spec);
        let filled = if self.scenario.clients.drain { Some(self.fill_beside(worker, spec)?) } else { None };
        let mut remote = match filled {
            Some(_) => Remote::prepare(worker, &spec.draining(), self.run)?,
            None => Remote::prepare(worker, spec, self.run)?,
        };
        take_over(self.run, filled.as_deref().unwrap_or_default());
        let before = self.before(|pids| remote.sample(pids));
        if filled.is_some() {
            // How long messages lay in the queue says nothing about the broker.
            self.run.measure_until(0);
        }
        remote.start()?;
        let samples = self.watch(before, &mut remote);
        self.run.advance(RunPhase::End);
        let found = remote.end()?;
        let (totals, produced) = (self.run.totals(), filled.as_ref().unwrap_or(&found.produced));
        let integrity = match (self.scenario.mode, found.consumed.first()) {
            (Mode::Pingpong, Some(near)) => audit_round_trips(self.scenario, &totals, near),
            _ => audit(self.scenario, &totals, produced, &found.consumed, found.held)?,
        };
        let outcome = self.outcome(samples, integrity, &found.produced, &found.consumed)?;
        Ok(Outcome { worker: Some(found.worker), ..outcome })
    }

    /// Sends all messages for the drain, and waits for their confirms.
    fn fill_beside(&mut self, worker: &mut Worker, spec: &Spec) -> Result<Vec<Produced>, Failure> {
        let scenario = filling(self.scenario);
        let run = Run::of(&scenario, Bodies::of(self.scenario, self.number));
        let mut remote = Remote::prepare(worker, &spec.filling(), &run)?;
        remote.start()?;
        let end = fill_end(&scenario);
        self.wait(&run, "filling", None, &mut || remote.have_sent() || std::time::Instant::now() > end);
        // Out of time, producers wait for their confirms and send nothing more.
        run.advance(RunPhase::Drain);
        remote.steer();
        self.wait(&run, "filling", None, &mut || remote.have_sent());
        run.advance(RunPhase::End);
        remote.end().map(|found| found.produced).context("the fill")
    }

    /// A Java machine compiles what it runs often, so it does the same before, with messages that
    /// do not count.
    fn rehearse(&mut self, worker: &mut Worker, spec: &Spec, seconds: Seconds) -> Result<(), Failure> {
        let scenario = &rehearsed(self.scenario);
        let run = Run::of(scenario, Bodies::of(scenario, self.number));
        run.open_gate();
        let (target, number) = (self.target, self.number);
        let (metrics_before, metrics_after, rates, cut, stopped) = Default::default();
        let progress = &mut *self.progress;
        let mut slice =
            Slice { target, scenario, run: &run, progress, number, metrics_before, metrics_after, rates, cut, stopped };
        let mut remote = Remote::prepare(worker, &spec.rehearsal(), &run)?;
        remote.start()?;
        let doing = ("rehearsing", None);
        slice.pass(seconds.at_least, Steady::ignored(), doing, &mut remote);
        slice.pass(seconds.until_steady, Steady::watched(), doing, &mut remote);
        slice.drain(&mut remote);
        run.advance(RunPhase::End);
        remote.end().map(|_| ()).context("the rehearsal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::jvm::provider::Provider;
    use bench_record::scenario::Destination;

    /// Warm-up, whether it lasts until the rate is steady, messages, what the worker knows, and
    /// seconds of the rehearsal.
    type Case = (f64, bool, Option<u64>, Practice, Option<(f64, f64)>);

    #[test]
    fn whoever_knows_less_rehearses_longer() {
        let cases: &[Case] = &[
            (1.0, false, Some(9), Practice::None, Some((3.0, 12.0))),
            (1.0, false, Some(9), Practice::Other, Some((1.0, 5.0))),
            (1.0, false, Some(9), Practice::Same, Some((1.0, 0.0))),
            (20.0, false, Some(9), Practice::None, Some((20.0, 12.0))),
            (60.0, true, Some(9), Practice::Same, Some((0.0, 60.0))),
            (60.0, true, Some(9), Practice::None, Some((3.0, 60.0))),
            (1.0, false, None, Practice::None, Some((3.0, 12.0))),
            (1.0, false, None, Practice::Other, Some((0.0, 5.0))),
            (1.0, false, None, Practice::Same, None),
            (60.0, true, None, Practice::None, None),
            (0.0, false, Some(9), Practice::None, None),
        ];
        for (warmup, until_steady, messages, practice, expected) in cases {
            let (warmup, until_steady, messages) = (*warmup, *until_steady, *messages);
            let scenario = Scenario::default().with(|s| {
                (s.length.warmup, s.length.until_steady, s.length.messages) = (warmup, until_steady, messages);
            });
            let found = rehearsal(&scenario, *practice).map(|seconds| (seconds.at_least, seconds.until_steady));
            assert_eq!(found, *expected, "{scenario:?} {practice:?}");
        }
    }

    /// A load, and consumers, bystander and selector of its rehearsal.
    type Left = (fn(&mut Scenario), (usize, bool, u64));

    #[test]
    fn a_rehearsal_leaves_nothing_behind() {
        let cases: &[Left] = &[
            (|_| {}, (1, false, 0)),
            (
                |s| {
                    (s.topology.consumers, s.topology.producers, s.topology.queues, s.clients.bystander) =
                        (0, 2, 2, true)
                },
                (2, false, 0),
            ),
            (|s| (s.topology.consumers, s.topology.destination) = (0, Destination::Topic), (0, false, 0)),
            (|s| s.clients.selector = Some(10), (1, false, 1)),
        ];
        for (change, expected) in cases {
            let (target, mut scenario) = ("qpid-jms://h".parse().unwrap(), Scenario::default());
            change(&mut scenario);
            let provider = Provider::of(&target, &scenario).unwrap().unwrap();
            let spec = serde_json::to_value(Spec::new(&provider, &target, &scenario, 1).unwrap().rehearsal()).unwrap();
            let here = rehearsed(&scenario);
            assert_eq!(
                (here.topology.consumers, here.clients.bystander, here.clients.selector.unwrap_or(0)),
                *expected
            );
            let there = (&spec["consumers"], &spec["bystander"], &spec["selects"]);
            assert_eq!(
                there,
                (
                    &here.topology.consumers.into(),
                    &here.clients.bystander.into(),
                    &here.clients.selector.unwrap_or(0).into()
                )
            );
        }
    }
}
