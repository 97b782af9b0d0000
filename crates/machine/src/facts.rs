//! What this machine is.

use std::fs;
use std::thread::available_parallelism;

use crate::netns;
use bench_record::machine::MachineFacts;

/// Looks at this machine.
pub fn here() -> MachineFacts {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    MachineFacts {
        cores: available_parallelism().map_or(1, usize::from),
        os: std::env::consts::OS.to_owned(),
        kernel: read("/proc/sys/kernel/osrelease"),
        processor,
        network: netns::joined().map(ToString::to_string),
    }
}
