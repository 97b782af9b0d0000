//! A load that a worker process makes: steering it as the threads of this program are steered, and
//! turning what it saw into what they would have seen, so that everything behind is the same for
//! both.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::consumer::Consumed;
use super::generator::LoadGenerator;
use super::producer::Produced;
use super::sample::Sample;
use super::{Run, RunPhase};
use crate::driver::jvm::protocol::{
    Answer, Command, ConsumedThere, Counts, Pairs, ProducedThere, Ready, Results, Spec,
};
use crate::driver::jvm::worker::Worker;
use crate::measure::sequence::{Numbers, Seen};
use bench_record::failure::{Context, Failure};
use bench_record::integrity::Damages;
use bench_record::latency::Latency;
use bench_record::slice::WorkerFacts;

/// A worker counts what was not consumed for two minutes at most; it has this long to end.
const LONGEST_END: Duration = Duration::from_secs(150);

/// What a worker saw.
pub(crate) struct Found {
    pub(crate) produced: Vec<Produced>,
    pub(crate) consumed: Vec<Consumed>,
    pub(crate) held: Option<u64>,
    pub(crate) worker: WorkerFacts,
}

/// A worker with a load that is prepared or running.
pub(crate) struct Remote<'a> {
    worker: &'a mut Worker,
    run: &'a Run,
    names: Ready,
    /// The newest counters.
    counts: Counts,
    /// What went wrong; the run ends then.
    failure: Option<Failure>,
}

impl<'a> Remote<'a> {
    /// Opens the connections of a load; nothing is sent yet.
    pub(crate) fn prepare(worker: &'a mut Worker, spec: &Spec, run: &'a Run) -> Result<Self, Failure> {
        worker.tell(&Command::Prepare { spec })?;
        match worker.answer()? {
            (_, Answer::Ready(names)) => Ok(Self { worker, run, names, counts: Counts::default(), failure: None }),
            (_, other) => Err(Failure::new(format!("the worker prepared nothing: {other:?}"))),
        }
    }

    /// Starts the load.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        self.worker.tell(&Command::Start)?;
        self.steer();
        Ok(())
    }

    /// Ends the load and takes what was seen.
    pub(crate) fn end(mut self) -> Result<Found, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.worker.tell(&Command::End)?;
        let begin = Instant::now();
        let results = loop {
            let left = LONGEST_END.saturating_sub(begin.elapsed());
            match self.worker.hear(left)? {
                Some((_, Answer::Result(results))) => break results,
                Some((_, Answer::Stats(counts))) => self.counts = counts,
                Some((_, other)) => {
                    return Err(Failure::new(format!("the worker said {other:?} instead of its results")));
                }
                None => return Err(Failure::new("the worker did not end its load")),
            }
        };
        let hello = self.worker.hello();
        let worker = WorkerFacts {
            api: hello.api.clone(),
            jvm: hello.jvm.clone(),
            heap_bytes: hello.heap,
            provider: self.names.provider,
            jms: self.names.jms,
        };
        found(results, worker)
    }

    /// Takes counters in.
    fn note(&mut self, counts: Counts) {
        for (tally, sent) in self.run.tallies.iter().zip(&counts.sent) {
            tally.sent.store(*sent, Relaxed);
        }
        // One thread's tally stands for all others of the worker's.
        if let Some(tally) = self.run.tallies.last() {
            tally.confirmed.store(counts.confirmed, Relaxed);
            tally.refused.store(counts.refused, Relaxed);
            tally.received.store(counts.received, Relaxed);
            if counts.moved > 0 {
                tally.moved.store(self.worker.here(counts.moved), Relaxed);
            }
        }
        self.counts = counts;
    }

    /// Hears until the counters come that were asked for; with no patience only what was said
    /// already.
    fn hear(&mut self, patience: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            match self.worker.hear(patience.saturating_sub(begin.elapsed()))? {
                Some((_, Answer::Stats(counts))) => self.note(counts),
                Some((_, Answer::Sample(counts))) => {
                    self.note(counts);
                    return Ok(());
                }
                Some((_, other)) => return Err(Failure::new(format!("the worker said {other:?} during a load"))),
                None if patience.is_zero() => return Ok(()),
                None => return Err(Failure::new("the worker did not tell its counters")),
            }
        }
    }

    /// A failure ends the run for all.
    fn kept(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
            self.run.advance(RunPhase::End);
        }
    }
}

impl LoadGenerator for Remote<'_> {
    fn have_sent(&mut self) -> bool {
        if self.failure.is_none() {
            let heard = self.hear(Duration::ZERO);
            self.kept(heard);
        }
        self.counts.done
    }

    fn sample(&mut self, pids: &[u32]) -> Sample {
        const SOON: Duration = Duration::from_secs(10);
        let worker = self.worker.hello().pid;
        Sample::beside(pids, worker, || {
            if self.failure.is_none() {
                let heard = self.worker.tell(&Command::Sample).and_then(|()| self.hear(SOON));
                self.kept(heard);
            }
            (self.run.totals(), self.worker.here(self.counts.at), self.counts.gc_ms)
        })
    }

    fn steer(&mut self) {
        let (from, until) = self.run.measured();
        let steer = Command::Steer {
            from: if from == 0 { 0 } else { self.worker.there(from).max(1) },
            until: self.worker.there(until),
            gate: self.run.gate_is_open(),
            drain: self.run.phase() != RunPhase::Run,
        };
        if self.failure.is_none() {
            let told = self.worker.tell(&steer);
            self.kept(told);
        }
    }
}

/// Turns what the worker saw into what threads of this program would have.
fn found(results: Results, worker: WorkerFacts) -> Result<Found, Failure> {
    let produced = results.produced.into_iter().enumerate().map(|(id, there)| produced(id, there));
    Ok(Found {
        produced: produced.collect::<Result<_, _>>()?,
        consumed: results.consumed.into_iter().map(consumed).collect::<Result<_, _>>()?,
        held: results.held,
        worker,
    })
}

fn produced(id: usize, there: ProducedThere) -> Result<Produced, Failure> {
    Ok(Produced {
        id: u16::try_from(id).context("a producer's number")?,
        sent: there.sent,
        refused: there.refused,
        confirmed: numbers(&there.confirmed)?,
        returned: 0,
        unknown_confirms: there.unknown_confirms,
        confirm: latency(&there.confirm)?,
        lateness: latency(&there.lateness)?,
    })
}

fn consumed(there: ConsumedThere) -> Result<Consumed, Failure> {
    let [length, stamp, filling] = there.damages;
    let seen = there.seen.into_iter();
    let seen = seen.map(|one| Ok(Seen::reported(numbers(&one.numbers)?, one.duplicated, one.reordered)));
    Ok(Consumed {
        queue: there.queue,
        seen: seen.collect::<Result<_, Failure>>()?,
        damages: Damages { length, stamp, filling },
        redelivered: there.redelivered,
        total: latency(&there.total)?,
        transit: latency(&there.transit)?,
    })
}

/// Numbers from bits in base 64, words of 64, little endian.
fn numbers(text: &str) -> Result<Numbers, Failure> {
    let bytes = STANDARD.decode(text).context("numbers from the worker")?;
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Failure::new("numbers from the worker are no whole words"));
    }
    Ok(Numbers::of_words(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
}

fn latency(pairs: &Pairs) -> Result<Latency, Failure> {
    let mut latency = Latency::new()?;
    pairs.iter().for_each(|(ns, count)| latency.record_many(*ns, *count));
    Ok(latency)
}

#[cfg(test)]
mod tests;
