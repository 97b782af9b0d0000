//! What a broker can hold: messages that are not consumed, queues, connections, retained messages.
//! Each kind of load has a phase that makes and, where there is something to take back, a phase
//! that takes back and checks.

pub(crate) mod backlog;
pub(crate) mod connections;
pub(crate) mod interval;
#[cfg(test)]
mod mqtt_broker;
pub(crate) mod queues;
pub(crate) mod retained;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::load::sample::Sample;
use crate::progress::Progress;
use bench_record::command::public_command;
use bench_record::failure::Failure;
use bench_record::machine::MachineFacts;
use bench_record::output;
use bench_record::target::Target;
use bench_record::totals::Totals;
use interval::Mark;
use machine::clock::unix_time;
use machine::facts;
use peers::Guard;

/// Version of the records' format; fields are only ever added within one.
const VERSION: u32 = 1;

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

/// The options that every load has.
#[derive(Debug, Args)]
pub(crate) struct TrialArgs {
    /// A broker or a peer, as for run; with ,pid= its processes are measured too
    #[arg(long)]
    target: String,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    quiet: bool,
}

impl TrialArgs {
    /// Finds the broker, which is started if it is a peer, by a protocol that can say what the load
    /// needs.
    fn begin(&self, schemes: &[&str], why: &str) -> Result<Trial, Failure> {
        let (target, guard) = peers::resolve_one(&self.target, schemes)?;
        let scheme = &target.scheme;
        if !schemes.contains(&scheme.as_str()) {
            return Err(Failure::new(format!("{scheme}://: {why}; use {}://", schemes.join(":// or "))));
        }
        Ok(Trial { target, _guard: guard })
    }

    /// What shows how far the load is.
    fn progress(&self) -> Progress {
        if self.quiet { Progress::silent() } else { Progress::shown() }
    }

    /// Writes the record where one is wanted, and prints the table.
    fn report(&self, table: &str, record: &impl Serialize) -> Result<(), Failure> {
        output::report(table, self.json.as_deref(), record)
    }
}

/// The broker that a load is made on. A peer that was started for it ends with this value.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) target: Target,
    _guard: Guard,
}

impl Trial {
    /// What the broker has used by now, when `moved` have moved.
    fn mark(&self, moved: u64) -> Mark {
        Mark { moved, sample: Sample::with(&self.target.pids, Totals::default) }
    }

    /// The head of its record.
    fn head(&self) -> Head {
        Head {
            version: VERSION,
            program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            ended: unix_time(),
            command: public_command(std::env::args()),
            machine: facts::here(),
            target: self.target.clone(),
        }
    }
}
