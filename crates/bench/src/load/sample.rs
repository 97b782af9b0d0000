//! The state of everything at one instant, so that a measured time is the difference of two of
//! these.

use super::Run;
use bench_record::totals::Totals;
use bench_record::usage::Usage;
use machine::clock::now;
use machine::disk::{bytes_written, flushes};
use machine::process::{self, Machine, ThreadTimes};

/// All counters at one instant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Nanoseconds of the run's clock.
    pub(crate) at: u64,
    pub(crate) totals: Totals,
    pub(crate) broker: Option<Usage>,
    pub(crate) client: Option<Usage>,
    /// What the threads of the clients have used.
    pub(crate) threads: ThreadTimes,
    pub(crate) machine: Option<Machine>,
    pub(crate) flushes: Option<u64>,
    /// Bytes that all disks were given.
    pub(crate) disk_bytes: Option<u64>,
    /// Milliseconds in which a worker's machine collected garbage; none: there is no worker.
    pub(crate) gc_ms: Option<u64>,
}

impl Sample {
    /// Takes a sample; `pids` are the broker's.
    pub(crate) fn take(run: &Run, pids: &[u32]) -> Self {
        let mut sample = Self::with(pids, || run.totals());
        sample.threads.extend(run.ended_threads());
        sample
    }

    /// Takes a sample of a load whose counters `totals` reads.
    pub(crate) fn with(pids: &[u32], totals: impl FnOnce() -> Totals) -> Self {
        let broker = if pids.is_empty() { None } else { process::usage(pids) };
        let (client, threads) = (process::own_usage(), process::own_threads());
        let (machine, flushes, disk_bytes) = (process::machine(), flushes(), bytes_written());
        // Counters and time last and together: a rate is their quotient.
        Self { broker, client, threads, machine, flushes, disk_bytes, totals: totals(), at: now(), gc_ms: None }
    }

    /// Takes a sample of a load that the process `worker` makes, and whose `counters` tell their
    /// own time and the milliseconds of its collector.
    pub(crate) fn beside(pids: &[u32], worker: u32, counters: impl FnOnce() -> (Totals, u64, u64)) -> Self {
        let mut sample = Self::with(pids, Totals::default);
        if let (Some(all), Some(there)) = (&mut sample.client, process::usage(&[worker])) {
            all.add(&there);
        }
        sample.threads.extend(process::threads(worker));
        let (totals, at, gc_ms) = counters();
        Self { totals, at, gc_ms: Some(gc_ms), ..sample }
    }

    /// Cores that neither broker nor client used since `before`. Without the broker's processes its
    /// CPU can't be told from that of others.
    pub(crate) fn other_cores(&self, before: &Self) -> Option<f64> {
        let spent = |after: Option<Usage>, before: Option<Usage>| Some(after?.cpu_since(&before?));
        let all = self.machine?.busy_ns.saturating_sub(before.machine?.busy_ns);
        let known = spent(self.broker, before.broker)? + spent(self.client, before.client).unwrap_or(0);
        Some(all.saturating_sub(known) as f64 / self.at.saturating_sub(before.at).max(1) as f64)
    }

    /// The load thread that used most CPU since `before`, with its share of one core.
    pub(crate) fn busiest(&self, before: &Self) -> Option<(String, f64)> {
        let elapsed = self.at.saturating_sub(before.at).max(1) as f64;
        let used = self.threads.iter().map(|(number, after)| {
            let spent = after.cpu_ns.saturating_sub(before.threads.get(number).map_or(0, |thread| thread.cpu_ns));
            (after.name.clone(), spent as f64 / elapsed)
        });
        used.max_by(|left, right| left.1.total_cmp(&right.1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use machine::process::ThreadTime;

    #[test]
    fn the_busiest_thread_is_the_one_that_used_most_since() {
        let thread = |name: &str, cpu_ns: u64| ThreadTime { name: name.to_owned(), cpu_ns };
        let threads = |a: u64, b: u64| HashMap::from([(1, thread("a", a)), (2, thread("b", b))]);
        let before = Sample { at: 0, threads: threads(900, 0), ..Sample::default() };
        let mut after = Sample { at: 1000, threads: threads(1000, 500), ..Sample::default() };
        assert_eq!(after.busiest(&before), Some(("b".to_owned(), 0.5)));
        after.threads.insert(3, thread("new", 600));
        assert_eq!(after.busiest(&before), Some(("new".to_owned(), 0.6)));
        // Four threads whose names begin alike were once taken for one that used more than a core
        // can give.
        for number in 4..8 {
            after.threads.insert(number, thread("AsyncSendListen", 550));
        }
        assert_eq!(after.busiest(&before), Some(("new".to_owned(), 0.6)));
    }
}
