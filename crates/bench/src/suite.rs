//! The published studies as suites: their rows as data, run on any target, beside the figures that
//! were printed.

mod audits;
mod cells;
mod choice;
mod claim;
mod figures;
mod knobs;
mod point;
mod predicate;
mod runner;
mod study;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;

use bench_record::suite::Profile;
use choice::Choice;

/// Options of `suite`.
#[derive(Debug, Args)]
pub(crate) struct SuiteArgs {
    /// kth2016, dynabyte2018, mostlyuseless2007, osu2008, crimson2003, or a file of that form that
    /// ends in .toml
    #[arg(required = true)]
    suites: Vec<String>,
    /// A broker or a peer, as for `run`; repeat it to compare. Ratios are to the first
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// As published with its faults, or with the same promises and client modes for all
    #[arg(long, value_enum, default_value_t = Profiles::Fair)]
    profile: Profiles,
    /// Only these rows, or points of them: D1,Q*,O4:size=64,copies=32
    #[arg(long, default_value = "", hide_default_value = true)]
    rows: Choice,
    #[command(flatten)]
    effort: Effort,
    #[command(flatten)]
    besides: Besides,
    /// Let the targets that are not being measured run on; otherwise they are stopped meanwhile,
    /// where their pids are known
    #[arg(long)]
    no_freeze: bool,
    /// Measure a slice that other processes disturbed this often again
    #[arg(long, default_value_t = 0)]
    retries: usize,
    /// Repeats the random orders of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Keep each finished slice in this directory, so that the run can be gone on with
    #[arg(long, conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the run in this directory
    #[arg(long)]
    resume: Option<PathBuf>,
    /// Directory on the brokers' disk, for forced writes and for --log
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw the report into this file: one page that needs nothing else
    #[arg(long, default_value = "hermod-bench-report.html")]
    html: PathBuf,
    /// Show nothing but the tables
    #[arg(long, short)]
    quiet: bool,
}

/// How much is measured in each cell.
#[derive(Debug, Args)]
struct Effort {
    /// Message counts of the study are multiplied by this; rows have floors
    #[arg(long, default_value_t = 0.01)]
    scale: f64,
    /// How often every target has its turn in each cell, in random order
    #[arg(long, default_value_t = 1)]
    blocks: usize,
    /// Seconds after which a slice is ended, whatever is left of its messages
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Seconds that a slice is to last at least: where its messages are through sooner, they are
    /// made more [default: a quarter of --seconds]
    #[arg(long, value_name = "SECONDS", conflicts_with = "exact")]
    at_least: Option<f64>,
    /// Let every slice send all of its messages and no more, however long or short that takes
    #[arg(long)]
    exact: bool,
}

/// What is measured besides the targets.
#[derive(Debug, Args)]
struct Besides {
    /// Also measure a relay of this program's own, which only copies bytes: the machine's limit
    #[arg(long)]
    relay: bool,
    /// Also measure a relay that forces what it copies to the disk of --dir before it passes it on:
    /// the limit of persistent rows
    #[arg(long)]
    log: bool,
    /// Also measure the first target once more under another name: what differs between the two is
    /// noise
    #[arg(long)]
    control: bool,
    /// First find out what the confirms of each target are worth, as `audit` does: a peer that is
    /// not up is started for that, killed and started again; what is up is not killed
    #[arg(long)]
    audit: bool,
}

/// Which profiles are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Profiles {
    Faithful,
    Fair,
    Both,
}

impl Profiles {
    fn list(self) -> &'static [Profile] {
        match self {
            Self::Faithful => &[Profile::Faithful],
            Self::Fair => &[Profile::Fair],
            Self::Both => &[Profile::Faithful, Profile::Fair],
        }
    }
}

pub(crate) use runner::run;
