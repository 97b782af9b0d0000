//! The record of a suite run: what was asked, what each cell of it gave on each target, what the
//! study published, and which of its claims hold here. Everything that the report shows is in it,
//! so that a report can be drawn again from the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::durability::Durability;
use crate::machine::{Forced, MachineFacts};
use crate::scenario::Scenario;
use crate::slice::{Measured, SliceRecord};
use crate::statistics::spread::Spread;
use crate::target::Target;

/// Version of this format; fields are only ever added within one.
pub const VERSION: u32 = 1;

/// A whole run of one or several suites.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// Seconds since 1970 at its start.
    pub started: u64,
    /// Seconds since 1970 at its end; none: it was interrupted or goes on, and cells may be
    /// missing.
    pub finished: Option<u64>,
    /// The command line, with passwords removed.
    pub command: Vec<String>,
    /// The machine that the load was made on.
    pub machine: MachineFacts,
    /// How much was asked for.
    pub extent: Extent,
    /// All targets, the first one first.
    pub targets: Vec<TargetFacts>,
    /// What an empty forced write costs here, once per block, where something persistent was
    /// measured.
    pub forced: Vec<Forced>,
    /// The suites that were run, in their order.
    pub suites: Vec<SuiteRecord>,
}

/// How much was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Message counts of the studies were multiplied by this.
    pub scale: f64,
    /// How often each target had its turn.
    pub blocks: usize,
    /// Repeats order, arrivals and bodies.
    pub seed: u64,
    /// Seconds that the run was expected to take.
    pub budget_s: f64,
    /// The targets that were not measured stood still.
    pub frozen: bool,
}

/// What a target is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A broker under test.
    Broker,
    /// The first target again under another name: what differs between the two is noise.
    Control,
    /// A floor: the relay, or forced writes to a plain file.
    Limit,
}

/// One target and what is known of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetFacts {
    /// The target as it was given.
    pub target: Target,
    /// What it is there for.
    pub role: Role,
    /// What it calls itself, and its version.
    pub product: Option<String>,
    /// Version of its software, as it tells it.
    pub version: Option<String>,
    /// What its configuration promises for persistent messages.
    pub declared: Option<Durability>,
    /// What was seen of that promise; none: it was not audited.
    pub audited: Option<Audited>,
    /// Seconds from its start until it took a connection, where this program started it.
    pub start_s: Option<f64>,
    /// Resident bytes before the first load.
    pub idle_bytes: Option<u64>,
}

/// What an audit of a durability class found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Audited {
    /// The highest class that the evidence supports.
    pub supports: Durability,
    /// The evidence in one sentence.
    pub evidence: String,
}

/// One suite.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SuiteRecord {
    /// `kth2016`, `dynabyte2018`, ….
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What was studied and what came of it, in three sentences.
    #[serde(default)]
    pub gist: String,
    /// The publication: authors, year, place.
    pub citation: String,
    /// What the authors' machines and settings were.
    pub environment: String,
    /// What is wrong with the published measurement, one sentence each: the faithful profile
    /// repeats it, the fair one does not.
    pub faults: Vec<String>,
    /// Every row at every point.
    pub cells: Vec<Cell>,
    /// The figures that are drawn again.
    pub figures: Vec<Figure>,
    /// What the study says, judged.
    pub claims: Vec<Claim>,
}

/// As published, faults included, or with the same promises and client modes for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As published, faults included.
    Faithful,
    /// Matched durability and client modes.
    Fair,
}

/// The figure that a cell is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Messages a second; more is better.
    MessagesPerSecond,
    /// Megabytes (10^6) of bodies a second; more is better.
    MegabytesPerSecond,
    /// Median latency, microseconds; less is better.
    LatencyUs,
    /// Time from an order to its confirmation, mean microseconds; less is better.
    CompletionUs,
    /// Network packets for each order; less is better.
    PacketsPerOrder,
    /// CPU microseconds of the broker for each message; less is better.
    CpuUsPerMessage,
    /// Resident megabytes (2^20) of the broker; less is better.
    ResidentMib,
    /// 1: all that was sent came through, once, in order and unchanged; 0: it did not.
    Passed,
}

/// One row of a study at one point of its variables in one profile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    /// The row: `D1`, `Q7`.
    pub row: String,
    /// What the row is called.
    pub title: String,
    /// Whether it is done as published.
    pub profile: Profile,
    /// The row's variables here, such as `size` or `consumers`; empty where the row has one point
    /// only.
    pub point: BTreeMap<String, f64>,
    /// What it is about.
    pub metric: Metric,
    /// What was loaded, after scaling.
    pub load: Scenario,
    /// What scaling changed, in words; none: nothing.
    pub scaled: Option<String>,
    /// What the study printed for it.
    pub published: Vec<Published>,
    /// One for each target, in the order of the report's targets.
    pub results: Vec<CellResult>,
}

/// A figure that the study printed, in the unit of its cell's metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The product and version that was measured.
    pub platform: String,
    /// The figure.
    pub value: f64,
    /// The least that the study saw.
    #[serde(default)]
    pub low: Option<f64>,
    /// The most that the study saw.
    #[serde(default)]
    pub high: Option<f64>,
    /// What a reader must know of it.
    #[serde(default)]
    pub note: Option<String>,
}

/// What one target gave in one cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellResult {
    /// The target's name.
    pub target: String,
    /// What became of it.
    pub outcome: CellOutcome,
}

/// Whether there is a figure, and if not why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CellOutcome {
    /// It was measured.
    Measured(Box<Figures>),
    /// The broker itself lacks what the row is about.
    NotApplicable {
        /// What it lacks.
        lacks: String,
    },
    /// Every attempt failed.
    Failed {
        /// What the last attempt said.
        error: String,
    },
    /// Its turn has not come.
    Pending,
}

/// The figures of a cell on one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// The cell's metric over the blocks: valid slices, or all where none is valid or the metric is
    /// whether they passed.
    pub value: Spread,
    /// Within blocks, this target's metric over the first target's; none for the first.
    pub to_first: Option<Spread>,
    /// Within blocks, this target's metric over the limit's (relay or forced writes); none where no
    /// limit fits.
    pub of_limit: Option<Spread>,
    /// How many slices were measured, and how many broke no rule.
    pub slices: usize,
    /// How many of them broke no rule.
    pub valid: usize,
    /// Violations and notes, each once, with how many slices had it.
    pub remarks: Vec<(String, usize)>,
    /// Every slice.
    pub all: Vec<SliceRecord>,
}

impl Figures {
    /// How many slices passed, of how many, where that is the metric.
    pub fn passed(&self) -> (usize, usize) {
        let values = &self.value.values;
        (values.iter().filter(|value| **value == 1.0).count(), values.len())
    }

    /// The slices that count: those that broke no rule, or all where every one did.
    pub fn usable(&self) -> impl Iterator<Item = (&SliceRecord, &Measured)> {
        let counted = self.all.iter().filter(|slice| !slice.superseded);
        let measured = counted.filter_map(|slice| Some((slice, slice.measured.as_ref()?)));
        measured.filter(|(_, measured)| measured.verdict.valid || self.valid == 0)
    }
}

/// A figure of the study, drawn again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What stands above it.
    pub title: String,
    /// How it is drawn.
    pub kind: FigureKind,
    /// Rows whose cells it shows.
    pub rows: Vec<String>,
    /// The variable on its horizontal axis; none: one group of bars for each row.
    #[serde(default)]
    pub across: Option<String>,
    /// What is drawn upwards; none: the metric of its cells.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Axes that are logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// The vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// The kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// A group of bars for each row, a bar for each target, the published figure beside it.
    Bars,
    /// A line for each target over a variable.
    Lines,
    /// Rate over time within one slice of each target, while a queue fills or drains.
    OverTime,
    /// Latency over the share of messages that are faster, a line for each target.
    Percentiles,
}

/// Something that the study says, and whether it holds here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// Whether it holds here.
    pub verdict: ClaimVerdict,
    /// The figures behind the verdict in one sentence.
    pub why: String,
}

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// The interval lies wholly on its side.
    Holds,
    /// The interval lies wholly on the other side.
    DoesNotHold,
    /// The interval holds both, or too few blocks were measured, or a product is not among the
    /// targets.
    Undecided,
}

/// A row and a point in a few characters.
pub fn label(row: &str, point: &BTreeMap<String, f64>) -> String {
    let mut text = row.to_owned();
    for (axis, value) in point {
        text.push_str(&format!(" {axis}={value}"));
    }
    text
}
