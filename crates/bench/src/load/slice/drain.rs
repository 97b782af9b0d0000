//! A slice that only consumes: the queues are filled first, with confirms, so that all is there;
//! then the consumers start, and the time begins.

use std::sync::atomic::Ordering::Relaxed;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::{Outcome, OwnThreads, Slice};
use crate::driver::Driver;
use crate::load::audit::audit;
use crate::load::producer::Produced;
use crate::load::sample::Sample;
use crate::load::threads::{LoadThread, OpenConnections, closed, join};
use crate::load::{Run, RunPhase};
use crate::measure::stamp::Bodies;
use bench_record::failure::Failure;
use bench_record::scenario::Scenario;

/// Unconfirmed messages of a fill, and bytes of their bodies, where the scenario asks for less:
/// it is not measured, and a broker that refuses what it can't hold back would have to refuse some
/// of it.
const FILL_WINDOW: u64 = 1000;
const FILL_BYTES: u64 = 32 << 20;
/// A fill is given up after this many times the cap, and what it brought in is drained.
const FILL_CAPS: f64 = 5.0;

/// The scenario with confirms where a fill needs them to know that all is there.
pub(super) fn confirmed(scenario: &Scenario) -> Scenario {
    if !scenario.clients.drain {
        return scenario.clone();
    }
    let fill = FILL_WINDOW.min(scenario.bodies_within(FILL_BYTES));
    scenario.clone().with(|s| s.clients.window = scenario.clients.window.max(fill))
}

impl Slice<'_> {
    /// Fills the queues, and measures how they are emptied.
    pub(super) fn drained(&mut self, driver: &mut dyn Driver) -> Result<Outcome, Failure> {
        let produced = self.fill(driver)?;
        let run = self.run;
        take_over(run, &produced);
        let connections = OpenConnections::consumers(driver, self.scenario)?;
        let before = self.before(|pids| Sample::take(run, pids));
        // How long messages lay in the queue says nothing about the broker.
        run.measure_until(0);
        let (samples, consumed) = std::thread::scope(|scope| {
            let started = connections.start(scope, self.scenario, run, u64::from(self.number));
            let samples = match &started {
                Ok(_) => self.watch(before, &mut OwnThreads { run, senders: &[] as &[LoadThread<'_, ()>] }),
                Err(_) => (Sample::default(), Sample::default()),
            };
            run.advance(RunPhase::End);
            Ok::<_, Failure>((samples, join(started?.1)?))
        })?;
        let integrity = audit(self.scenario, &run.totals(), &produced, &consumed, None)?;
        self.outcome(samples, integrity, &[], &consumed)
    }

    /// Sends all messages and waits for their confirms.
    fn fill(&mut self, driver: &mut dyn Driver) -> Result<Vec<Produced>, Failure> {
        let scenario = filling(self.scenario);
        let connections = OpenConnections::open(driver, &scenario)?;
        let run = Run::of(&scenario, Bodies::of(self.scenario, self.number));
        std::thread::scope(|scope| {
            let (producers, _) = connections
                .start(scope, &scenario, &run, u64::from(self.number))
                .inspect_err(|_| run.advance(RunPhase::End))?;
            let sent = || producers.iter().all(ScopedJoinHandle::is_finished);
            let end = fill_end(&scenario);
            self.wait(&run, "filling", None, &mut || sent() || Instant::now() > end);
            // Out of time, producers wait for their confirms and send nothing more.
            run.advance(RunPhase::Drain);
            self.wait(&run, "filling", None, &mut || sent());
            run.advance(RunPhase::End);
            join(producers).map(closed)
        })
    }
}

/// The scenario of a fill: those messages too that are drained before the measured ones.
pub(super) fn filling(scenario: &Scenario) -> Scenario {
    let messages = scenario.length.messages.map(|messages| messages + scenario.length.warmup_messages);
    scenario.clone().with(|s| (s.topology.consumers, s.length.warmup_messages, s.length.messages) = (0, 0, messages))
}

/// When a fill is given up.
pub(super) fn fill_end(scenario: &Scenario) -> Instant {
    let seconds = scenario.length.cap.map_or(f64::from(u32::MAX), |cap| cap * FILL_CAPS);
    Instant::now() + Duration::from_secs_f64(seconds)
}

/// Lets the counters of a drain begin with what its fill brought in.
pub(super) fn take_over(run: &Run, produced: &[Produced]) {
    for (tally, one) in run.tallies.iter().zip(produced) {
        tally.sent.store(one.sent, Relaxed);
        // What was refused is not in any queue.
        tally.confirmed.store(one.sent.saturating_sub(one.refused), Relaxed);
        tally.refused.store(one.refused, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_has_as_much_under_way_as_a_broker_can_hold_back() {
        let cases = [(0, 1, 1000), (1024, 1, 1000), (400_000, 1, 83), (400_000, 100, 100), (64 << 20, 1, 1)];
        for (size, window, expected) in cases {
            let scenario = Scenario::default().with(|s| {
                (s.clients.drain, s.clients.window) = (true, window);
                s.message.size = size;
            });
            assert_eq!(confirmed(&scenario).clients.window, expected, "{size} B, {window}");
            assert_eq!(confirmed(&scenario.with(|s| s.clients.drain = false)).clients.window, window);
        }
    }
}
