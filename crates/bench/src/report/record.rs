//! The record of a run: everything that was asked for and everything that was seen, for programs to
//! read.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::verdict::Verdict;
use crate::audit::Integrity;
use crate::durability::Durability;
use crate::exchange::Traded;
use crate::machine::disk::Forced;
use crate::machine::metrics::Counters;
use crate::machine::process::Usage;
use crate::measure::latency::Summary;
use crate::measure::over_time::{OverTime, Thousands};
use crate::measure::ratio::Ratio;
use crate::measure::statistics::Spread;
use crate::netns;
use crate::scenario::Scenario;
use crate::target::Target;

/// Version of this format; fields are only ever added within one.
pub(crate) const VERSION: u32 = 1;

/// The whole run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Version of this format.
    pub(crate) version: u32,
    /// The program that wrote it.
    pub(crate) program: String,
    /// Seconds since 1970 at its start.
    pub(crate) started: u64,
    /// Seconds since 1970 at its end; none when it was interrupted and holds what was measured
    /// until then.
    #[serde(default)]
    pub(crate) finished: Option<u64>,
    /// Why it ended when it did.
    #[serde(default)]
    pub(crate) ended: Ended,
    /// Name of the target that is the first one again: what differs between the two is noise.
    #[serde(default)]
    pub(crate) control: Option<String>,
    /// The command line, with passwords removed.
    pub(crate) command: Vec<String>,
    pub(crate) machine: MachineFacts,
    /// Repeats the order of targets and the arrivals.
    pub(crate) seed: u64,
    /// The targets that were not measured stood still.
    #[serde(default)]
    pub(crate) frozen: bool,
    pub(crate) scenario: Scenario,
    pub(crate) targets: Vec<Target>,
    /// What an empty forced write costs, once per block, where the scenario is persistent.
    pub(crate) forced: Vec<Forced>,
    pub(crate) slices: Vec<SliceRecord>,
    pub(crate) summary: Vec<TargetSummary>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    /// All blocks were measured.
    #[default]
    Blocks,
    /// The ratios were known as well as was asked for.
    Precision,
    /// The next block would not have ended in time.
    Budget,
    /// Somebody interrupted it.
    Interrupt,
}

/// What is known of the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    pub(crate) cores: usize,
    pub(crate) os: String,
    pub(crate) kernel: Option<String>,
    pub(crate) processor: Option<String>,
    /// What lay between the load and the brokers; none: whatever the targets' addresses say.
    #[serde(default)]
    pub(crate) network: Option<String>,
}

impl MachineFacts {
    /// Looks at this machine.
    pub(crate) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Self {
            cores: available_parallelism().map_or(1, usize::from),
            os: std::env::consts::OS.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease"),
            processor,
            network: netns::joined().map(ToString::to_string),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The command line as it may be published: the password of a target is replaced.
pub(crate) fn public_command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments.map(|argument| without_password(&argument)).collect()
}

fn without_password(argument: &str) -> String {
    if let Some((before, after)) = argument.split_once("password=") {
        let rest = after.find(['&', ',']).map_or("", |end| &after[end..]);
        return format!("{before}password=***{rest}");
    }
    let Some((before, after)) = argument.split_once("://") else { return argument.to_owned() };
    match after.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            format!("{before}://{user}:***@{place}")
        }
        None => argument.to_owned(),
    }
}

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

/// One target over all its blocks. Medians are of valid slices, or of all where none is valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TargetSummary {
    pub(crate) target: String,
    pub(crate) slices: usize,
    pub(crate) valid: usize,
    pub(crate) messages_per_s: Option<Spread>,
    pub(crate) cpu_us_per_message: Option<Spread>,
    pub(crate) switches_per_message: Option<Spread>,
    pub(crate) resident_bytes: Option<Spread>,
    pub(crate) latency_p50_us: Option<Spread>,
    pub(crate) latency_p99_us: Option<Spread>,
    pub(crate) confirm_p50_us: Option<Spread>,
    pub(crate) confirm_p99_us: Option<Spread>,
    pub(crate) flushes_per_s: Option<Spread>,
    pub(crate) flushes_per_message: Option<Spread>,
    /// Within blocks: this target's rate over the relay's.
    pub(crate) rate_to_relay: Option<Spread>,
    /// Within blocks: this target's CPU per message over the relay's.
    pub(crate) cpu_to_relay: Option<Spread>,
    /// Within blocks: this target's rate over the first target's.
    pub(crate) rate_to_first: Option<Spread>,
    /// Within blocks: this target's CPU per message over the first target's.
    pub(crate) cpu_to_first: Option<Spread>,
    /// How its figures compare with the first target's; none for the first.
    #[serde(default)]
    pub(crate) to_first: Option<Ratios>,
    /// How its figures compare with those of forcing the same bytes to a plain log; none where that
    /// was not measured.
    #[serde(default)]
    pub(crate) to_log: Option<Ratios>,
    /// Violations and notes of its slices, each once, with how many slices had it.
    pub(crate) remarks: Vec<(String, usize)>,
}

/// Ratios of one target to another within blocks; none where one of them lacks the figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ratios {
    pub(crate) rate: Option<Ratio>,
    pub(crate) cpu: Option<Ratio>,
    pub(crate) latency_p50: Option<Ratio>,
    pub(crate) latency_p99: Option<Ratio>,
    pub(crate) confirm_p50: Option<Ratio>,
    pub(crate) confirm_p99: Option<Ratio>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_get_into_records() {
        let cases = [
            ("own=amqp://me:secret@h:1/v,pid=3", "own=amqp://me:***@h:1/v,pid=3"),
            ("amqp://me@h", "amqp://me:***@h"),
            ("amqp://h:1", "amqp://h:1"),
            ("jms:a.B?user=me&password=secret&c=d,pid=3", "jms:a.B?user=me&password=***&c=d,pid=3"),
            ("--json", "--json"),
        ];
        for (argument, public) in cases {
            assert_eq!(public_command([argument.to_owned()].into_iter()), [public]);
        }
    }
}
