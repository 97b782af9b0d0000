//! What a broker can hold: messages that nobody consumes, queues, connections. Each kind of load has a phase that makes and,
//! where there is something to take back, a phase that takes back and checks.

pub(crate) mod backlog;
pub(crate) mod connections;
pub(crate) mod queues;
#[cfg(test)]
mod simulated;
pub(crate) mod stretch;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::{Context, Failure};
use crate::report::record::{MachineFacts, public_command, unix_time};
use crate::target::Target;

/// Version of the records' format; fields are only ever added within one.
const VERSION: u32 = 1;

/// Which part of a load is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) make: bool,
    pub(crate) take: bool,
}

/// What every record begins with.
#[derive(Debug, Serialize)]
pub(crate) struct Head {
    version: u32,
    program: String,
    /// Seconds since 1970 at its end.
    ended: u64,
    /// The command line, with passwords removed.
    command: Vec<String>,
    machine: MachineFacts,
    target: Target,
}

impl Head {
    /// The head of a load on `target`.
    pub(crate) fn of(target: &Target) -> Self {
        Self {
            version: VERSION,
            program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            ended: unix_time(),
            command: public_command(std::env::args()),
            machine: MachineFacts::here(),
            target: target.clone(),
        }
    }
}

/// Writes a record to `path`, where one is wanted.
pub(crate) fn write_record(path: Option<&Path>, record: &impl Serialize) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(record).context("writing the record")?;
    fs::write(path, text + "\n").context(path.display())
}

/// Refuses a protocol that can't say what a load needs.
fn only(target: &Target, schemes: &[&str], why: &str) -> Result<(), Failure> {
    if schemes.contains(&target.scheme.as_str()) {
        return Ok(());
    }
    Err(Failure::new(format!("{}://: {why}; use {}://", target.scheme, schemes.join(":// or "))))
}
