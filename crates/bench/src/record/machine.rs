//! What is known of the machine that made a run, and what it told of the broker on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::latency::Summary;

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

/// What an empty forced write costs on one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Forced {
    /// Writes a second, one after the other.
    pub(crate) per_second: f64,
    /// CPU microseconds of this program per write.
    pub(crate) cpu_us: Option<f64>,
    /// Cache flushes that the devices counted per write; 1 where a flush is a flush.
    pub(crate) flushes_each: Option<f64>,
    /// Microseconds per write.
    pub(crate) latency: Summary,
}

/// Counters by name, labels summed up.
pub(crate) type Counters = BTreeMap<String, f64>;
