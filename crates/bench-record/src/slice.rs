//! The figures of one slice: one target in one block.

use serde::{Deserialize, Serialize};

use crate::durability::Durability;
use crate::exchange::ExchangeFigures;
use crate::integrity::Integrity;
use crate::latency::Summary;
use crate::machine::Counters;
use crate::over_time::{OverTime, Thousands};
use crate::usage::Usage;
use crate::verdict::Verdict;

/// One slice: one target in one block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SliceRecord {
    /// The target's name.
    pub target: String,
    /// Counts from 1.
    pub block: usize,
    /// Disturbed, and measured again: not in the summary.
    pub superseded: bool,
    /// What went wrong before there was anything to measure; everything else is absent then.
    pub error: Option<String>,
    /// What the broker or its protocol lacks, where that is why.
    #[serde(default)]
    pub lacks: Option<String>,
    /// Its figures.
    pub measured: Option<Measured>,
}

/// The moment from which a latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencyFrom {
    /// The time at which the message was meant to be sent: open loops.
    Intended,
    /// The time at which it was sent: closed loops and ping-pong.
    Send,
}

/// The figures of one slice. A record has the fields of its parts beside its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Length of the measured time in seconds.
    pub seconds: f64,
    /// How fast messages went.
    #[serde(flatten)]
    pub rates: MessageRates,
    /// How many messages there were.
    #[serde(flatten)]
    pub totals: MessageTotals,
    /// How long messages took.
    #[serde(flatten)]
    pub latencies: Latencies,
    /// What that cost the machine.
    #[serde(flatten)]
    pub costs: Costs,
    /// The highest class that the disks' flushes leave to the confirms of persistent messages; none
    /// where that can't be told.
    #[serde(default)]
    pub durability_at_most: Option<Durability>,
    /// By how much the broker's own counters grew, where the target names its page.
    pub metrics: Option<Counters>,
    /// What moved in each tenth of a second, warm-up included.
    #[serde(default)]
    pub over_time: OverTime,
    /// What is said of a stock exchange alone.
    #[serde(default)]
    pub exchange: Option<ExchangeFigures>,
    /// How fast each thousand messages went.
    #[serde(default)]
    pub thousands: Option<Thousands>,
    /// The worker that made the load; none: threads of this program did.
    pub worker: Option<WorkerFacts>,
    /// Milliseconds of the measured time in which the worker's machine collected garbage.
    pub worker_gc_ms: Option<u64>,
    /// What came of the messages.
    pub integrity: Integrity,
    /// Whether the figures may be used.
    pub verdict: Verdict,
}

/// Messages a second, in the measured time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessageRates {
    /// Messages sent a second.
    pub sent_per_s: f64,
    /// Messages confirmed a second.
    pub confirmed_per_s: f64,
    /// Messages received a second.
    pub received_per_s: f64,
    /// What the slice is about: received, or confirmed (or sent) where there is no consumer.
    pub messages_per_s: f64,
    /// Messages a second meant to be sent; none in a closed loop.
    pub offered_per_s: Option<f64>,
}

/// All messages, warm-up and drain included.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessageTotals {
    /// All messages sent.
    pub all_sent: u64,
    /// All messages confirmed.
    pub all_confirmed: u64,
    /// All messages received.
    pub all_received: u64,
}

/// How long messages took, in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Latencies {
    /// Where latencies begin.
    pub latency_from: LatencyFrom,
    /// Microseconds until receipt (ping-pong: until it was back).
    pub latency_us: Option<Summary>,
    /// Microseconds from the actual send to receipt.
    pub transit_us: Option<Summary>,
    /// Microseconds until the confirm.
    pub confirm_us: Option<Summary>,
    /// Microseconds by which the generator itself was late.
    pub lateness_us: Option<Summary>,
}

/// What the machine spent in the measured time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Costs {
    /// What the broker's processes used; none where they are unknown.
    pub broker: Option<Cost>,
    /// What those that made the load used.
    pub client: Option<Cost>,
    /// The load thread that used most CPU, and its share of a core.
    pub busiest_thread: Option<(String, f64)>,
    /// Cores that neither broker nor client used, and cores that a hypervisor took away.
    pub other_cores: Option<f64>,
    /// Cores that a hypervisor took away.
    pub stolen_cores: Option<f64>,
    /// Cache flushes of all disks of the machine.
    pub flushes_per_s: Option<f64>,
    /// The same for each message.
    pub flushes_per_message: Option<f64>,
}

/// A worker that loads brokers through their own JMS clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// `jakarta` or `javax`.
    pub api: String,
    /// Version of its Java machine.
    pub jvm: String,
    /// Most bytes of its heap.
    pub heap_bytes: u64,
    /// Name and version of the client.
    pub provider: String,
    /// Version of JMS that the client says to be.
    pub jms: String,
}

/// What some processes used.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cost {
    /// CPU microseconds for each message.
    pub cpu_us_per_message: f64,
    /// Cores busy on average.
    pub cores: f64,
    /// Context switches for each message.
    pub switches_per_message: f64,
    /// Resident memory at the end of the measured time, bytes.
    pub resident_bytes: u64,
    /// The most that was resident since the processes started, the sum over them, bytes.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes of the pages of files that they made dirty in the measured time.
    pub write_bytes: Option<u64>,
    /// Bytes that they gave to write calls in the measured time.
    pub wchar: Option<u64>,
    /// How many processes there were.
    pub processes: u64,
}

impl Cost {
    /// What was used between two looks, `seconds` apart, in which `messages` moved.
    pub fn between(before: &Usage, after: &Usage, messages: f64, seconds: f64) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of earlier runs have each figure at the top, in this order.
    #[test]
    fn figures_are_written_as_they_were_read() {
        let (summary, cost) = (
            r#"{"samples":4,"mean":1.1,"min":0.7,"p50":1.0,"p90":1.5,"p99":3.0,"p999":9.0,"max":20.0}"#,
            r#"{"cpu_us_per_message":9.5,"cores":0.9,"switches_per_message":0.1,"resident_bytes":1,"peak_resident_bytes":2,"write_bytes":3,"wchar":4,"processes":1}"#,
        );
        let text = [
            r#"{"seconds":4.0,"sent_per_s":1.5,"confirmed_per_s":2.5,"received_per_s":3.5,"messages_per_s":3.5,"#,
            r#""offered_per_s":1000.0,"all_sent":18446744073709551615,"all_confirmed":2,"all_received":3,"#,
            &format!(r#""latency_from":"intended","latency_us":{summary},"transit_us":{summary},"#),
            &format!(r#""confirm_us":{summary},"lateness_us":null,"broker":{cost},"client":{cost},"#),
            r#""busiest_thread":["consumer 1",0.5],"other_cores":0.02,"stolen_cores":0.0,"flushes_per_s":900.0,"#,
            r#""flushes_per_message":0.01,"durability_at_most":"d2","metrics":{"a":1.0},"over_time":{"until_s":[0.1],"#,
            r#""seconds":[0.1],"sent":[1],"confirmed":[2],"received":[3]},"exchange":null,"thousands":null,"#,
            r#""worker":{"api":"jakarta","jvm":"21","heap_bytes":5,"provider":"p","jms":"3.1"},"worker_gc_ms":7,"#,
            r#""integrity":{"check":"full","lost":0,"duplicated":0,"unselected":0,"reordered":0,"corrupted":0,"#,
            r#""damages":{"length":0,"stamp":0,"filling":0},"refused":0,"unsettled":0,"returned":0,"#,
            r#""unknown_confirms":0,"redelivered":0},"verdict":{"valid":true,"violations":[],"notes":["n"]}}"#,
        ]
        .concat();
        let measured: Measured = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&measured).unwrap(), text);
    }
}
