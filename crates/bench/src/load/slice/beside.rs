//! A slice whose load a worker makes: the same steps as with threads of this program, and a rehearsal where all is measured.

use super::drain::{fill_end, filling, take_over};
use super::{Hands, Outcome, Slice};
use crate::audit::{audit, audit_round_trips};
use crate::driver::jvm::protocol::Spec;
use crate::driver::jvm::worker::Worker;
use crate::failure::{Context, Failure};
use crate::load::producer::Produced;
use crate::load::remote::Remote;
use crate::load::{Phase, Run};
use crate::measure::stamp::Bodies;
use crate::scenario::Mode;

impl Slice<'_> {
    /// A worker makes the load that `spec` describes.
    pub(super) fn beside(&mut self, worker: &mut Worker, spec: &Spec) -> Result<Outcome, Failure> {
        if self.scenario.messages.is_some() && self.scenario.warmup > 0.0 {
            self.rehearse(worker, spec)?;
        }
        let filled = if self.scenario.drain { Some(self.fill_beside(worker, spec)?) } else { None };
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
        self.run.advance(Phase::End);
        let found = remote.end()?;
        let (totals, produced) = (self.run.totals(), filled.as_ref().unwrap_or(&found.produced));
        let integrity = match (self.scenario.mode, found.consumed.first()) {
            (Mode::Pingpong, Some(near)) => audit_round_trips(self.scenario, &totals, near),
            _ => audit(self.scenario, &totals, produced, &found.consumed, found.held)?,
        };
        let outcome = self.outcome(samples, integrity, &found.produced, &found.consumed)?;
        Ok(Outcome { worker: Some(found.worker), ..outcome })
    }

    /// Sends all messages that are to be drained and waits for their confirms.
    fn fill_beside(&mut self, worker: &mut Worker, spec: &Spec) -> Result<Vec<Produced>, Failure> {
        let scenario = filling(self.scenario);
        let run = Run::of(&scenario, Bodies::of(self.scenario, self.number));
        let mut remote = Remote::prepare(worker, &spec.filling(), &run)?;
        remote.start()?;
        let end = fill_end(&scenario);
        self.wait(&run, "filling", None, &mut || remote.have_sent() || std::time::Instant::now() > end);
        // Out of time, producers wait for their confirms and send nothing more.
        run.advance(Phase::Drain);
        remote.steer();
        self.wait(&run, "filling", None, &mut || remote.have_sent());
        run.advance(Phase::End);
        remote.end().map(|found| found.produced).context("the fill")
    }

    /// A Java machine compiles what it runs often. Where a number of messages is measured from the first to the last, it
    /// does the same for the seconds of the warm-up before, with messages that do not count.
    fn rehearse(&mut self, worker: &mut Worker, spec: &Spec) -> Result<(), Failure> {
        let run = Run::of(self.scenario, Bodies::of(self.scenario, self.number));
        run.open_gate();
        let Self { target, scenario, number, .. } = *self;
        let (metrics_before, metrics_after, rates, cut, stopped) = Default::default();
        let progress = &mut *self.progress;
        let mut slice =
            Slice { target, scenario, run: &run, progress, number, metrics_before, metrics_after, rates, cut, stopped };
        let mut remote = Remote::prepare(worker, &spec.rehearsal(), &run)?;
        remote.start()?;
        slice.pass(scenario.warmup, "rehearsing", None, &mut remote);
        slice.drain(&mut remote);
        run.advance(Phase::End);
        remote.end().map(|_| ()).context("the rehearsal")
    }
}
