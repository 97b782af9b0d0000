//! The record of a run: everything that was asked for and everything that was seen, for programs to
//! read.

use serde::{Deserialize, Serialize};

use crate::record::machine::{Forced, MachineFacts};
use crate::record::scenario::Scenario;
use crate::record::slice::SliceRecord;
use crate::record::statistics::ratio::Ratio;
use crate::record::statistics::spread::Spread;
use crate::record::target::Target;

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
