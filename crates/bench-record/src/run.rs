//! The record of a run: everything that was asked for and everything that was seen, for programs to
//! read.

use serde::{Deserialize, Serialize};

use crate::machine::{Forced, MachineFacts};
use crate::scenario::Scenario;
use crate::slice::SliceRecord;
use crate::statistics::ratio::Ratio;
use crate::statistics::spread::Spread;
use crate::target::Target;

/// Version of this format; fields are only ever added within one.
pub const VERSION: u32 = 1;

/// The whole run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// Seconds since 1970 at its start.
    pub started: u64,
    /// Seconds since 1970 at its end; none when it was interrupted and holds what was measured
    /// until then.
    #[serde(default)]
    pub finished: Option<u64>,
    /// Why it ended when it did.
    #[serde(default)]
    pub ended: Ended,
    /// Name of the target that is the first one again: what differs between the two is noise.
    #[serde(default)]
    pub control: Option<String>,
    /// The command line, with passwords removed.
    pub command: Vec<String>,
    /// The machine that the load was made on.
    pub machine: MachineFacts,
    /// Repeats the order of targets and the arrivals.
    pub seed: u64,
    /// The targets that were not measured stood still.
    #[serde(default)]
    pub frozen: bool,
    /// What was done to each target.
    pub scenario: Scenario,
    /// All targets, floors last.
    pub targets: Vec<Target>,
    /// What an empty forced write costs, once per block, where the scenario is persistent.
    pub forced: Vec<Forced>,
    /// Every slice in the order of measuring.
    pub slices: Vec<SliceRecord>,
    /// One for each target.
    pub summary: Vec<TargetSummary>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All blocks were measured.
    #[default]
    Blocks,
    /// The ratios were known as well as was asked for.
    Precision,
    /// The next block would not have ended in time.
    Budget,
    /// It was interrupted.
    Interrupt,
}

/// One target over all its blocks. Medians are of valid slices, or of all where none is valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetSummary {
    /// The target's name.
    pub target: String,
    /// How many slices count.
    pub slices: usize,
    /// How many of them broke no rule.
    pub valid: usize,
    /// Messages a second.
    pub messages_per_s: Option<Spread>,
    /// The broker's CPU microseconds for each message.
    pub cpu_us_per_message: Option<Spread>,
    /// The broker's context switches for each message.
    pub switches_per_message: Option<Spread>,
    /// The broker's resident bytes.
    pub resident_bytes: Option<Spread>,
    /// How long messages and confirms took.
    #[serde(flatten)]
    pub times: Times,
    /// Cache flushes of the machine's disks a second.
    pub flushes_per_s: Option<Spread>,
    /// The same for each message.
    pub flushes_per_message: Option<Spread>,
    /// Its figures over those of others in the same block.
    #[serde(flatten)]
    pub within_blocks: WithinBlocks,
    /// How its figures compare with the first target's; none for the first.
    #[serde(default)]
    pub to_first: Option<Ratios>,
    /// How its figures compare with those of forcing the same bytes to a plain log; none where that
    /// was not measured.
    #[serde(default)]
    pub to_log: Option<Ratios>,
    /// Violations and notes of its slices, each once, with how many slices had it.
    pub remarks: Vec<(String, usize)>,
}

/// How long messages and confirms of one target took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Times {
    /// Median microseconds until receipt.
    pub latency_p50_us: Option<Spread>,
    /// The same at the 99th percentile.
    pub latency_p99_us: Option<Spread>,
    /// Median microseconds until the confirm.
    pub confirm_p50_us: Option<Spread>,
    /// The same at the 99th percentile.
    pub confirm_p99_us: Option<Spread>,
}

/// Figures of one target over those of another in the same block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WithinBlocks {
    /// This target's rate over the relay's.
    pub rate_to_relay: Option<Spread>,
    /// This target's CPU per message over the relay's.
    pub cpu_to_relay: Option<Spread>,
    /// This target's rate over the first target's.
    pub rate_to_first: Option<Spread>,
    /// This target's CPU per message over the first target's.
    pub cpu_to_first: Option<Spread>,
}

/// Ratios of one target to another within blocks; none where one of them lacks the figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ratios {
    /// Of messages a second.
    pub rate: Option<Ratio>,
    /// Of the broker's CPU for each message.
    pub cpu: Option<Ratio>,
    /// Of the median latency.
    pub latency_p50: Option<Ratio>,
    /// Of the latency at the 99th percentile.
    pub latency_p99: Option<Ratio>,
    /// Of the median time until the confirm.
    pub confirm_p50: Option<Ratio>,
    /// Of the time until the confirm at the 99th percentile.
    pub confirm_p99: Option<Ratio>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of earlier runs have each figure at the top, in this order.
    #[test]
    fn a_summary_is_written_as_it_was_read() {
        let names = "messages_per_s cpu_us_per_message switches_per_message resident_bytes latency_p50_us \
                     latency_p99_us confirm_p50_us confirm_p99_us flushes_per_s flushes_per_message rate_to_relay \
                     cpu_to_relay rate_to_first cpu_to_first";
        let spread = r#"{"median":1.5,"min":1.0,"max":2.0,"interval":[1.0,2.0],"values":[1.0,2.0]}"#;
        let figures: String = names.split(' ').map(|name| format!("\"{name}\":{spread},")).collect();
        let text = format!(
            r#"{{"target":"a","slices":2,"valid":1,{figures}"to_first":null,"to_log":null,"remarks":[["slow",1]]}}"#
        );
        let summary: TargetSummary = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&summary).unwrap(), text);
    }
}
