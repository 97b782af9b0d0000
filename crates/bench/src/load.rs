//! Making the load: one thread for each connection, and what the threads share with the one that
//! measures them.

pub(crate) mod audit;
pub(crate) mod consumer;
pub(crate) mod exchange;
pub(crate) mod generator;
pub(crate) mod judge;
pub(crate) mod metrics;
pub(crate) mod pingpong;
pub(crate) mod producer;
pub(crate) mod remote;
pub(crate) mod sample;
pub(crate) mod slice;
pub(crate) mod threads;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::measure::stamp::Bodies;
use bench_record::scenario::{Rate, Scenario};
use bench_record::totals::Totals;
use machine::process::{ThreadTime, ThreadTimes};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPhase {
    /// All threads work.
    Run,
    /// Producers send nothing more and wait for their confirms; consumers empty the queues.
    Drain,
    /// All threads stop now.
    End,
}

/// One thread's counters, alone on their cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub(crate) sent: AtomicU64,
    pub(crate) confirmed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) received: AtomicU64,
    /// When something of this last moved, nanoseconds of the run's clock.
    pub(crate) moved: AtomicU64,
}

/// What all threads of a run share.
#[derive(Debug)]
pub(crate) struct Run {
    phase: AtomicU8,
    /// Messages meant to be sent from here on are measured; 0: not yet.
    from: AtomicU64,
    /// Messages meant to be sent from here on are no longer measured.
    until: AtomicU64,
    /// Producers first, then consumers.
    pub(crate) tallies: Vec<Tally>,
    /// Most messages sent and not yet received; 0: no bound.
    in_flight: u64,
    /// How often each message that is selected is received.
    copies: u64,
    /// One of this many messages is selected.
    selects: u64,
    /// Producers that have sent what comes before the measured messages may go on.
    gate: AtomicBool,
    /// What the threads have used that have ended: the system no longer tells.
    ended: Mutex<ThreadTimes>,
    /// Messages have a schedule, so that the time of sending is not the intended one.
    pub(crate) open_loop: bool,
    pub(crate) bodies: Bodies,
}

impl Run {
    /// A run of `threads` threads that has not begun to be measured.
    pub(crate) fn new(threads: usize, in_flight: u64, copies: u64, bodies: Bodies) -> Self {
        Self {
            phase: AtomicU8::new(RunPhase::Run as u8),
            from: AtomicU64::new(0),
            until: AtomicU64::new(u64::MAX),
            tallies: (0..threads).map(|_| Tally::default()).collect(),
            in_flight: if copies == 0 { 0 } else { in_flight },
            copies,
            selects: 1,
            gate: AtomicBool::new(true),
            ended: Mutex::default(),
            open_loop: false,
            bodies,
        }
    }

    /// The run of `scenario` with these bodies.
    pub(crate) fn of(scenario: &Scenario, bodies: Bodies) -> Self {
        let threads = scenario.topology.producers + scenario.topology.consumers;
        let mut run = Self::new(threads, scenario.pace.in_flight, scenario.copies(), bodies);
        run.selects = scenario.selects();
        run.open_loop = matches!(scenario.pace.rate, Rate::Fixed(_));
        run.gate = AtomicBool::new(scenario.length.warmup_messages == 0);
        run
    }

    /// Lets producers go on to the measured messages.
    pub(crate) fn open_gate(&self) {
        self.gate.store(true, Relaxed);
    }

    #[inline]
    pub(crate) fn gate_is_open(&self) -> bool {
        self.gate.load(Relaxed)
    }

    /// Notes what a thread has used by its end.
    pub(crate) fn end_thread(&self, number: u32, used: ThreadTime) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(number, used);
    }

    /// What the threads have used that have ended.
    pub(crate) fn ended_threads(&self) -> ThreadTimes {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many receipts follow from all that has been sent.
    pub(crate) fn expected(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.sent.load(Relaxed) / self.selects * self.copies).sum()
    }

    /// When something last moved.
    pub(crate) fn moved_at(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.moved.load(Relaxed)).max().unwrap_or(0)
    }

    pub(crate) fn phase(&self) -> RunPhase {
        match self.phase.load(Relaxed) {
            0 => RunPhase::Run,
            1 => RunPhase::Drain,
            _ => RunPhase::End,
        }
    }

    /// Goes on to `phase`, never back.
    pub(crate) fn advance(&self, phase: RunPhase) {
        self.phase.fetch_max(phase as u8, Relaxed);
    }

    pub(crate) fn measure_from(&self, at: u64) {
        self.from.store(at, Relaxed);
    }

    pub(crate) fn measure_until(&self, at: u64) {
        self.until.store(at, Relaxed);
    }

    /// From when until when messages meant to be sent are measured; 0: not yet.
    pub(crate) fn measured(&self) -> (u64, u64) {
        (self.from.load(Relaxed), self.until.load(Relaxed))
    }

    /// True when a message with this intended time counts.
    #[inline]
    pub(crate) fn measures(&self, intended: u64) -> bool {
        let from = self.from.load(Relaxed);
        from != 0 && intended >= from && intended < self.until.load(Relaxed)
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for tally in &self.tallies {
            sum.sent += tally.sent.load(Relaxed);
            sum.confirmed += tally.confirmed.load(Relaxed);
            sum.refused += tally.refused.load(Relaxed);
            sum.received += tally.received.load(Relaxed);
        }
        sum
    }

    /// How many messages may be sent now before the in-flight bound is reached.
    pub(crate) fn room(&self) -> u64 {
        if self.in_flight == 0 {
            return u64::MAX;
        }
        let totals = self.totals();
        let under_way = totals.sent.saturating_sub(totals.received * self.selects / self.copies.max(1));
        self.in_flight.saturating_sub(under_way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_measured_time_counts_and_phases_never_go_back() {
        let run = Run::new(1, 0, 1, Bodies::new(1, 64));
        assert!(!run.measures(5));
        run.measure_from(10);
        run.measure_until(20);
        assert_eq!([9, 10, 19, 20].map(|at| run.measures(at)), [false, true, true, false]);
        run.advance(RunPhase::End);
        run.advance(RunPhase::Drain);
        assert_eq!(run.phase(), RunPhase::End);
    }

    #[test]
    fn room_is_what_the_consumers_have_freed() {
        let run = Run::new(2, 100, 2, Bodies::new(1, 64));
        run.tallies[0].sent.store(90, Relaxed);
        run.tallies[1].received.store(60, Relaxed);
        assert_eq!(run.room(), 100 - (90 - 30));
        assert_eq!(Run::new(1, 100, 0, Bodies::new(1, 64)).room(), u64::MAX);
    }
}
