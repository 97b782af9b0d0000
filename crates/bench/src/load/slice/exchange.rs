//! A slice of the stock exchange: its three parts as threads, timed by the answers that the gateway
//! gets.

use super::{Outcome, OwnThreads, Slice};
use crate::driver::{Driver, Part};
use crate::load::RunPhase;
use crate::load::exchange;
use crate::load::sample::Sample;
use crate::load::threads::{join, spawn};
use bench_record::failure::Failure;
use machine::clock::now;
use machine::packets::segments;

impl Slice<'_> {
    /// Runs the exchange.
    pub(super) fn exchange(&mut self, driver: &mut dyn Driver) -> Result<Outcome, Failure> {
        // Readers are there before the first write.
        let reporter = exchange::reporting(driver)?;
        let engine = exchange::lines(driver, Part::PingPong { far: true })?;
        let gateway = exchange::lines(driver, Part::PingPong { far: false })?;
        let ports = [engine.main.link.local_port()?, gateway.main.link.local_port()?];
        let run = self.run;
        let before = self.before(|pids| Sample::take(run, pids));
        let segments_before = segments(&ports);
        let schedule = exchange::schedule(self.scenario, now(), u64::from(self.number))?;
        let orders = self.scenario.quota(0) as u32;
        let (samples, segments_after, gated, heard) = std::thread::scope(|scope| {
            let reporting = spawn(scope, "reporter".to_owned(), run, move || exchange::reporter(reporter, run));
            let matching = spawn(scope, "engine".to_owned(), run, move || exchange::engine(engine, run));
            let work = move || exchange::gateway(gateway, schedule, orders, run, &run.tallies[0]);
            let sending = spawn(scope, "gateway".to_owned(), run, work);
            let samples = match (&sending, &matching, &reporting) {
                (Ok(sending), Ok(_), Ok(_)) => {
                    self.watch(before, &mut OwnThreads { run, senders: std::slice::from_ref(sending) })
                }
                _ => (Sample::default(), Sample::default()),
            };
            let segments_after = segments(&ports);
            run.advance(RunPhase::End);
            let (gated, matched, heard) = (join(vec![sending?])?, join(vec![matching?]), join(vec![reporting?])?);
            matched?;
            Ok::<_, Failure>((samples, segments_after, gated, heard))
        })?;
        let gated = gated.into_iter().next().ok_or_else(|| Failure::new("the gateway saw nothing"))?;
        let heard: Vec<_> = heard.into_iter().flatten().collect();
        let packets = segments_after.zip(segments_before).map(|(after, before)| after.saturating_sub(before));
        let traded = exchange::figures(&heard, &gated, packets);
        let outcome = self.outcome(samples, exchange::integrity(&gated), &[], &[])?;
        let seconds = outcome.last.at.saturating_sub(outcome.first.at) as f64 / 1e9;
        let reached = f64::from(gated.answered) / seconds.max(f64::MIN_POSITIVE);
        let overload = outcome.offered.filter(|offered| reached < offered * KEEPS_UP);
        let overload = overload.map(|offered| format!("overload: {reached:.0} of {offered} orders a second were done"));
        let stopped = [overload, outcome.stopped].into_iter().flatten().reduce(|all, one| all + "; " + &one);
        Ok(Outcome { total: gated.completion, lateness: gated.lateness, exchange: Some(traded), stopped, ..outcome })
    }
}

/// Less than this share of the rate and something did not keep up.
const KEEPS_UP: f64 = 0.95;
