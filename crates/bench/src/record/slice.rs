//! The figures of one slice: one target in one block.

use serde::{Deserialize, Serialize};

use crate::record::durability::Durability;
use crate::record::exchange::Traded;
use crate::record::integrity::Integrity;
use crate::record::latency::Summary;
use crate::record::machine::Counters;
use crate::record::over_time::{OverTime, Thousands};
use crate::record::usage::Usage;
use crate::record::verdict::Verdict;

/// One slice: one target in one block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SliceRecord {
    pub(crate) target: String,
    /// Counts from 1.
    pub(crate) block: usize,
    /// Disturbed, and measured again: not in the summary.
    pub(crate) superseded: bool,
    /// What went wrong before there was anything to measure; everything else is absent then.
    pub(crate) error: Option<String>,
    /// What the broker or its protocol lacks, where that is why.
    #[serde(default)]
    pub(crate) lacks: Option<String>,
    pub(crate) measured: Option<Measured>,
}

/// The moment from which a latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LatencyFrom {
    /// The time at which the message was meant to be sent: open loops.
    Intended,
    /// The time at which it was sent: closed loops and ping-pong.
    Send,
}

/// The figures of one slice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Length of the measured time in seconds.
    pub(crate) seconds: f64,
    /// Messages a second, in the measured time.
    pub(crate) sent_per_s: f64,
    pub(crate) confirmed_per_s: f64,
    pub(crate) received_per_s: f64,
    /// What the slice is about: received, or confirmed (or sent) where nobody receives.
    pub(crate) messages_per_s: f64,
    /// Messages a second meant to be sent; none in a closed loop.
    pub(crate) offered_per_s: Option<f64>,
    /// All messages, warm-up and drain included.
    pub(crate) all_sent: u64,
    pub(crate) all_confirmed: u64,
    pub(crate) all_received: u64,
    /// Where latencies begin.
    pub(crate) latency_from: LatencyFrom,
    /// Microseconds until receipt (ping-pong: until it was back).
    pub(crate) latency_us: Option<Summary>,
    /// Microseconds from the actual send to receipt.
    pub(crate) transit_us: Option<Summary>,
    /// Microseconds until the confirm.
    pub(crate) confirm_us: Option<Summary>,
    /// Microseconds by which the generator itself was late.
    pub(crate) lateness_us: Option<Summary>,
    pub(crate) broker: Option<Cost>,
    pub(crate) client: Option<Cost>,
    /// The load thread that used most CPU, and its share of a core.
    pub(crate) busiest_thread: Option<(String, f64)>,
    /// Cores that neither broker nor client used, and cores that a hypervisor took away.
    pub(crate) other_cores: Option<f64>,
    pub(crate) stolen_cores: Option<f64>,
    /// Cache flushes of all disks of the machine.
    pub(crate) flushes_per_s: Option<f64>,
    pub(crate) flushes_per_message: Option<f64>,
    /// The highest class that the disks' flushes leave to the confirms of persistent messages; none
    /// where that can't be told.
    #[serde(default)]
    pub(crate) durability_at_most: Option<Durability>,
    /// By how much the broker's own counters grew, where the target names its page.
    pub(crate) metrics: Option<Counters>,
    /// What moved in each tenth of a second, warm-up included.
    #[serde(default)]
    pub(crate) over_time: OverTime,
    /// What is said of a stock exchange alone.
    #[serde(default)]
    pub(crate) exchange: Option<Traded>,
    /// How fast each thousand messages went.
    #[serde(default)]
    pub(crate) thousands: Option<Thousands>,
    /// The worker that made the load; none: threads of this program did.
    pub(crate) worker: Option<WorkerFacts>,
    /// Milliseconds of the measured time in which the worker's machine collected garbage.
    pub(crate) worker_gc_ms: Option<u64>,
    pub(crate) integrity: Integrity,
    pub(crate) verdict: Verdict,
}

/// A worker that loads brokers through their own JMS clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerFacts {
    /// `jakarta` or `javax`.
    pub(crate) api: String,
    /// Version of its Java machine.
    pub(crate) jvm: String,
    /// Most bytes of its heap.
    pub(crate) heap_bytes: u64,
    /// Name and version of the client.
    pub(crate) provider: String,
    /// Version of JMS that the client says to be.
    pub(crate) jms: String,
}

/// What some processes used.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) cpu_us_per_message: f64,
    /// Cores busy on average.
    pub(crate) cores: f64,
    pub(crate) switches_per_message: f64,
    /// Resident memory at the end of the measured time, bytes.
    pub(crate) resident_bytes: u64,
    /// The most that was resident since the processes started, the sum over them, bytes.
    pub(crate) peak_resident_bytes: Option<u64>,
    /// Bytes of the pages of files that they made dirty in the measured time.
    pub(crate) write_bytes: Option<u64>,
    /// Bytes that they gave to write calls in the measured time.
    pub(crate) wchar: Option<u64>,
    pub(crate) processes: u64,
}

impl Cost {
    /// What was used between two looks, `seconds` apart, in which `messages` moved.
    pub(crate) fn between(before: &Usage, after: &Usage, messages: f64, seconds: f64) -> Self {
        let cpu = after.cpu_since(before) as f64;
        let per_message = |value: f64| if messages > 0.0 { value / messages } else { 0.0 };
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            cpu_us_per_message: per_message(cpu / 1000.0),
            cores: cpu / 1e9 / seconds,
            switches_per_message: per_message(after.switches.saturating_sub(before.switches) as f64),
            resident_bytes: after.resident,
            peak_resident_bytes: after.peak,
            write_bytes: grown(before.write_bytes, after.write_bytes),
            wchar: grown(before.wchar, after.wchar),
            processes: after.processes,
        }
    }
}
