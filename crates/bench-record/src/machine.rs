//! What is known of the machine that made a run, and what it told of the broker on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::Summary;

/// What is known of the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineFacts {
    /// How many cores this program may use.
    pub cores: usize,
    /// Name of the operating system.
    pub os: String,
    /// Version of its kernel.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub processor: Option<String>,
    /// What lay between the load and the brokers; none: whatever the targets' addresses say.
    #[serde(default)]
    pub network: Option<String>,
}

/// What an empty forced write costs on one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Forced {
    /// Writes a second, one after the other.
    pub per_second: f64,
    /// CPU microseconds of this program per write.
    pub cpu_us: Option<f64>,
    /// Cache flushes that the devices counted per write; 1 where a flush is a flush.
    pub flushes_each: Option<f64>,
    /// Microseconds per write.
    pub latency: Summary,
}

/// Counters by name, labels summed up.
pub type Counters = BTreeMap<String, f64>;
