//! The threads of a slice: starting one for each connection, and collecting what they saw.

use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::consumer::{Consumed, Consumer, consume};
use super::producer::{Produced, Producer, produce};
use super::{Run, RunPhase};
use crate::driver::{Driver, Line, Part};
use crate::measure::schedule::Schedule;
use crate::measure::sequence::Seen;
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Rate, Scenario};
use machine::clock::now;
use machine::process::this_thread;

/// A running thread and what it will return.
pub(crate) type LoadThread<'scope, T> = ScopedJoinHandle<'scope, Result<T, Failure>>;

/// All threads at work: the producers and the consumers.
pub(crate) type AtWork<'scope> = (Vec<LoadThread<'scope, (Line, Produced)>>, Vec<LoadThread<'scope, Consumed>>);

/// Connections that are open and not yet used.
pub(crate) struct OpenConnections {
    producers: Vec<Line>,
    consumers: Vec<Line>,
}

impl OpenConnections {
    /// Opens all connections, consumers first, so that exclusive queues exist before the
    /// first publish.
    pub(crate) fn open(driver: &mut dyn Driver, scenario: &Scenario) -> Result<Self, Failure> {
        let mut connections = Self::consumers(driver, scenario)?;
        for id in 0..scenario.topology.producers {
            connections.producers.push(driver.open(Part::Produce(id)).context(format!("producer {id}"))?);
        }
        Ok(connections)
    }

    /// Opens the connections of the consumers alone: what they find was sent before.
    pub(crate) fn consumers(driver: &mut dyn Driver, scenario: &Scenario) -> Result<Self, Failure> {
        let mut connections = Self { producers: Vec::new(), consumers: Vec::new() };
        for id in 0..scenario.topology.consumers {
            connections.consumers.push(driver.open(Part::Consume(id)).context(format!("consumer {id}"))?);
        }
        Ok(connections)
    }

    /// Starts the consumers, then the producers.
    pub(crate) fn start<'scope, 'env>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        scenario: &Scenario,
        run: &'env Run,
        seed: u64,
    ) -> Result<AtWork<'scope>, Failure> {
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        for (id, line) in self.consumers.into_iter().enumerate() {
            let queue = id % scenario.groups();
            let job = Consumer { queue, seen: unseen(scenario), line, reply_after: reply_after(scenario, queue) };
            let tally = &run.tallies[scenario.topology.producers + id];
            consumers.push(spawn(scope, format!("consumer-{id}"), run, move || consume(job, run, tally))?);
        }
        let begin = now();
        for (id, line) in self.producers.into_iter().enumerate() {
            let job = Producer {
                id: id as u16,
                line,
                window: scenario.clients.window,
                schedule: schedule(scenario, id, begin, seed),
                quota: scenario.quota(id),
                warmup: scenario.warmup_quota(id),
                replies: replies(scenario, id),
                batch: scenario.batch,
            };
            let tally = &run.tallies[id];
            producers.push(spawn(scope, format!("producer-{id}"), run, move || produce(job, run, tally))?);
        }
        Ok((producers, consumers))
    }
}

/// What a consumer has seen of each producer before it begins.
fn unseen(scenario: &Scenario) -> Vec<Seen> {
    let of = |id| if scenario.length.messages.is_some() { Seen::up_to(scenario.quota(id)) } else { Seen::default() };
    (0..scenario.topology.producers).map(|id| of(id).in_lanes(scenario.lanes())).collect()
}

/// How many messages the consumer of `queue` answers; none: it does not.
fn reply_after(scenario: &Scenario, queue: usize) -> Option<u64> {
    let mine =
        (0..scenario.topology.producers).filter(|id| scenario.copies_all() || id % scenario.topology.queues == queue);
    scenario.clients.reply.then(|| mine.map(|id| scenario.quota(id)).sum())
}

/// How many consumers answer to producer `id`: consumer i answers producer i modulo producers.
fn replies(scenario: &Scenario, id: usize) -> u64 {
    let answers = (0..scenario.topology.consumers).filter(|consumer| consumer % scenario.topology.producers == id);
    if scenario.clients.reply { answers.count() as u64 } else { 0 }
}

/// The schedule of one producer; none in a closed loop.
fn schedule(scenario: &Scenario, id: usize, begin: u64, seed: u64) -> Option<Schedule> {
    let Rate::Fixed(rate) = scenario.pace.rate else { return None };
    let producers = scenario.topology.producers as f64;
    Some(Schedule::new(scenario.pace.arrivals, rate / producers, begin, id as f64 / producers, seed ^ id as u64))
}

/// Starts a named thread. A thread that fails ends the run for all.
pub(crate) fn spawn<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    name: String,
    run: &'env Run,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'scope,
) -> Result<LoadThread<'scope, T>, Failure> {
    let guarded = move || {
        let result = work();
        if let Some((number, used)) = this_thread() {
            run.end_thread(number, used);
        }
        if result.is_err() {
            run.advance(RunPhase::End);
        }
        result
    };
    Builder::new().name(name).spawn_scoped(scope, guarded).context("starting a thread")
}

/// Waits for all of them; the first failure wins.
pub(crate) fn join<T>(workers: Vec<LoadThread<'_, T>>) -> Result<Vec<T>, Failure> {
    let results: Vec<Result<T, Failure>> = workers
        .into_iter()
        .map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("a load thread ended by a panic"))))
        .collect();
    results.into_iter().collect()
}

/// Closes the connections of producers whose messages have been received, and keeps what they saw.
pub(crate) fn closed(producers: Vec<(Line, Produced)>) -> Vec<Produced> {
    producers.into_iter().map(|(_, produced)| produced).collect()
}

/// True when every message sent so far has been received by all who should.
pub(crate) fn all_received(run: &Run) -> bool {
    run.totals().received >= run.expected()
}

/// How much has moved so far, to tell a slow drain from a dead one.
pub(crate) fn movement(run: &Run) -> u64 {
    run.tallies
        .iter()
        .map(|tally| tally.sent.load(Relaxed) + tally.received.load(Relaxed) + tally.confirmed.load(Relaxed))
        .sum()
}
