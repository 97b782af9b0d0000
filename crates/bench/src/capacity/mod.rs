//! What a broker can hold: messages that nobody consumes, queues, connections. Each kind of load has a phase that makes and,
//! where there is something to take back, a phase that takes back and checks.

pub(crate) mod backlog;
pub(crate) mod connections;
pub(crate) mod queues;
pub(crate) mod stretch;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::load::Totals;
use crate::load::sample::Sample;
use crate::report::output;
use crate::report::progress::Progress;
use crate::report::record::{MachineFacts, public_command, unix_time};
use crate::target::Target;
use stretch::Mark;

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

/// Whom a load is made on, and where its figures go: the options that every load has.
#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// A broker, as for run; with ,pid= its processes are measured too
    #[arg(long)]
    pub(crate) target: Target,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    quiet: bool,
}

impl Trial {
    /// Refuses a protocol that can't say what a load needs.
    fn only(&self, schemes: &[&str], why: &str) -> Result<(), Failure> {
        let scheme = &self.target.scheme;
        if schemes.contains(&scheme.as_str()) {
            return Ok(());
        }
        Err(Failure::new(format!("{scheme}://: {why}; use {}://", schemes.join(":// or "))))
    }

    /// What shows how far the load is.
    fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

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
            machine: MachineFacts::here(),
            target: self.target.clone(),
        }
    }

    /// Writes the record where one is wanted, and prints the table.
    fn report(&self, table: &str, record: &impl Serialize) -> Result<(), Failure> {
        output::report(table, self.json.as_deref(), record)
    }
}
