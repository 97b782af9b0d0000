//! The verb `run`: from its options to a plan, from the plan to a record. A run that keeps a
//! journal can be gone on with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::blocks::{self, EarlyEnd, Piece, Plan};
use crate::driver::jvm::workers::Workers;
use crate::load_options::LoadArgs;
use crate::progress::Progress;
use crate::relay::own::{Floors, OwnRelay};
use crate::resume::{ResumeLog, Resumed};
use bench_record::command::public_command;
use bench_record::failure::{Context, Failure};
use bench_record::machine::MachineFacts;
use bench_record::output;
use bench_record::preset::Preset;
use bench_record::run::{Ended, Record, VERSION};
use bench_record::scenario::Scenario;
use bench_record::span::{Share, Span, words};
use bench_record::statistics::random::mix;
use bench_record::target::Target;
use bench_report::table;
use machine::clock::unix_time;
use machine::identity::own_build;
use machine::interrupt::Interrupt;
use machine::{facts, freeze, netns};

/// What the control is called: the first target again.
const CONTROL: &str = "control";

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A broker:
    /// [NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT[/VHOST][,pid=PID[+PID]][,type=QUEUE_TYPE][,durability=CLASS]
    /// [,metrics=HOST:PORT/PATH], where SCHEME is amqp, amqp10, stomp, nats, jetstream, mqtt,
    /// mqtt5, kafka, relay, or a JMS client: qpid-jms, openwire, openwire5, artemis, openmq; any
    /// other is jms:CLASS?KEY=VALUE&... or jndi:CONTEXT?url=URL&cf=NAME. Or a peer,
    /// [NAME=]PEER[/VARIANT...][,via=SCHEME], which is started for the run if it is not up. Repeat
    /// it to compare
    #[arg(long = "target", value_name = "TARGET", required_unless_present_any = ["relay", "log"])]
    pub(crate) targets: Vec<String>,
    /// Class path of the jars of jms: and jndi: targets that do not have their own as ,classpath=
    #[arg(long, value_name = "PATH")]
    pub(crate) jms_classpath: Option<String>,
    /// Processes of the only target (its children count too); with several targets give them as
    /// ,pid=
    #[arg(long, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Also measure a relay of this program's own, and show ratios to it
    #[arg(long)]
    pub(crate) relay: bool,
    /// Also measure a relay that forces what it copies to the disk of --dir first: the limit for
    /// persistent messages
    #[arg(long)]
    pub(crate) log: bool,
    /// A row of the speed table; other options change it
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Repeats the random order and the arrivals of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Directory on the broker's disk where forced writes are timed beside persistent scenarios
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Write a record of everything to this file
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Show nothing but the table
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// How often a run measures, until when, and under which circumstances.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// How often every target has its turn, in random order; with --until the most (50)
    #[arg(long)]
    pub(crate) blocks: Option<usize>,
    /// Also measure the first target again as if it were another: what differs between the two is
    /// noise
    #[arg(long)]
    pub(crate) control: bool,
    /// End when the rates' ratios to the first target are known this well (3%), after ten blocks at
    /// the earliest
    #[arg(long)]
    pub(crate) until: Option<Share>,
    /// Begin no block that would probably end after this long: 90s, 10m, 2h
    #[arg(long)]
    pub(crate) budget: Option<Span>,
    /// Keep each finished slice in this new directory at once, so that the run can be gone on with
    #[arg(long, conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run that was begun in this directory, given the same options
    #[arg(long, conflicts_with = "seed")]
    pub(crate) resume: Option<PathBuf>,
    /// Stop the processes of the targets that are not being measured (SIGSTOP), as far as their
    /// pids are known
    #[arg(long)]
    pub(crate) freeze: bool,
    /// Wait up to this many seconds before each slice until the machine is quiet
    #[arg(long, default_value_t = 0.0)]
    pub(crate) wait_quiet: f64,
    /// Measure a slice that other processes disturbed this often again; all attempts are in the
    /// record
    #[arg(long, default_value_t = 0)]
    pub(crate) retries: usize,
}

impl RunArgs {
    /// The scenario that was asked for.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        self.load.scenario(self.preset)
    }
}

/// What a run must have in common with the one that it goes on for.
#[derive(Debug, Serialize)]
struct Asked<'a> {
    #[serde(flatten)]
    circumstances: Circumstances,
    scenario: &'a Scenario,
    targets: Vec<&'a str>,
    /// What the software of peers says of itself, by their names.
    versions: BTreeMap<&'a str, &'a str>,
}

/// What all pieces of a run depend on, whatever is measured.
#[derive(Debug, Serialize)]
pub(crate) struct Circumstances {
    pub(crate) program: &'static str,
    pub(crate) build: &'static str,
    pub(crate) machine: MachineFacts,
    /// What was said of each target that is given, by its name.
    pub(crate) given: BTreeMap<String, String>,
    pub(crate) network: Option<String>,
    /// The targets that are not measured stand still.
    pub(crate) frozen: bool,
}

impl Circumstances {
    /// Those of a run on the targets that `texts` mean, none of which stands still.
    pub(crate) fn here(texts: &[String]) -> Result<Self, Failure> {
        Ok(Self {
            program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")),
            build: own_build(),
            machine: facts::here(),
            given: texts
                .iter()
                .map(|text| Ok((peers::label(text)?, peers::terms(text)?)))
                .collect::<Result<_, Failure>>()?,
            network: netns::joined().map(ToString::to_string),
            frozen: false,
        })
    }
}

/// Measures what the options ask for. False: some slices broke a rule, or it was interrupted.
pub(crate) fn run(args: &RunArgs) -> Result<bool, Failure> {
    let started = unix_time();
    let scenario = args.scenario()?;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let floors = Floors { relay: args.relay, log: args.log }.start(&dir)?;
    // Peers that are started for this run end with their guards.
    let (given, _guards) = peers::resolve_all(&args.targets)?;
    // From here on a request to end is one to stop in order: a program that just died would leave
    // peers that are still ending.
    let interrupt = Interrupt::by_signal()?;
    let targets = targets(args, given, &floors)?;
    if args.plan.freeze && !freeze::supported() {
        return Err(Failure::new("--freeze needs a system with signals"));
    }
    let fresh = args.seed.unwrap_or_else(|| mix(unix_time() ^ u64::from(std::process::id())));
    let (mut journal, seed, salt, earlier) = open_journal(args, &scenario, &targets, fresh)?;
    let started = journal.as_mut().map_or(Ok(started), |journal| journal.begun(started))?;
    let plan = Plan {
        blocks: args.plan.blocks.unwrap_or(if args.plan.until.is_some() { MOST_FOR_PRECISION } else { 1 }).max(1),
        seed,
        salt,
        freeze: args.plan.freeze,
        wait_quiet: Duration::try_from_secs_f64(args.plan.wait_quiet).context("--wait-quiet")?,
        retries: args.plan.retries,
        forced_dir: scenario.message.persistent.then_some(dir),
        control: args.plan.control.then(|| CONTROL.to_owned()),
        least: None,
        rehearsal: Duration::ZERO,
        early_end: EarlyEnd {
            precision: args.plan.until.map(|share| share.0),
            budget: args.plan.budget.map(|span| span.0),
        },
        workers: Workers::default(),
        own: BTreeMap::new(),
        targets,
        scenario,
    };
    let mut progress = if args.quiet { Progress::silent() } else { Progress::shown() }.interrupted_by(interrupt);
    progress.done(&announcement(&plan));
    let finished = earlier.iter().filter(|piece| matches!(piece, Piece::Slice(slice) if !slice.superseded)).count();
    progress.expect((plan.blocks * plan.targets.len()).saturating_sub(finished), plan.expected_seconds());
    let mut keep = |piece: &Piece| journal.as_mut().map_or(Ok(()), |journal| journal.append(piece));
    let results = blocks::run(&plan, earlier, &mut keep, &mut progress)?;
    let record = Record {
        version: VERSION,
        program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        started,
        finished: (results.ended != Ended::Interrupt).then(unix_time),
        ended: results.ended,
        control: plan.control,
        command: public_command(std::env::args()),
        machine: facts::here(),
        seed,
        frozen: plan.freeze,
        scenario: plan.scenario,
        targets: plan.targets,
        forced: results.forced,
        slices: results.slices,
        summary: results.summary,
    };
    output::report(&table::render(&record), args.json.as_deref(), &record)?;
    Ok(record.finished.is_some() && record.summary.iter().all(|summary| summary.valid == summary.slices))
}

/// Blocks that a run for precision takes at most, unless it is told.
const MOST_FOR_PRECISION: usize = 50;

/// The targets of the command line, the control behind them and the floors at the end.
fn targets(args: &RunArgs, mut targets: Vec<Target>, floors: &[OwnRelay]) -> Result<Vec<Target>, Failure> {
    for target in targets.iter_mut().filter(|target| target.is_jms_class()) {
        target.class_path = target.class_path.take().or_else(|| args.jms_classpath.clone());
    }
    match (targets.as_mut_slice(), args.pid.is_empty()) {
        (_, true) => {}
        ([only], false) => only.pids.extend(&args.pid),
        _ => {
            return Err(Failure::new("--pid is for one target; with several say which is whose: --target URI,pid=PID"));
        }
    }
    if args.plan.control {
        let first = targets.first().ok_or_else(|| Failure::new("--control needs a --target to repeat"))?;
        targets.push(Target { name: CONTROL.to_owned(), ..first.clone() });
    }
    targets.extend(floors.iter().map(OwnRelay::target));
    let twice = targets.iter().enumerate().find(|(at, target)| targets[..*at].iter().any(|t| t.name == target.name));
    match twice {
        Some((_, Target { name, .. })) => {
            Err(Failure::new(format!("two targets are called {name}; name them: --target a={name}://…")))
        }
        None => Ok(targets),
    }
}

/// A journal where one is kept, with the seed, the salt and the finished pieces.
type Begun = (Option<ResumeLog>, u64, u64, Vec<Piece>);

fn open_journal(args: &RunArgs, scenario: &Scenario, targets: &[Target], seed: u64) -> Result<Begun, Failure> {
    let asked = || {
        Ok::<_, Failure>(Asked {
            circumstances: Circumstances { frozen: args.plan.freeze, ..Circumstances::here(&args.targets)? },
            scenario,
            targets: targets.iter().map(|target| target.name.as_str()).collect(),
            versions: targets
                .iter()
                .filter_map(|target| Some((target.name.as_str(), target.software.version.as_deref()?)))
                .collect(),
        })
    };
    match (&args.plan.out, &args.plan.resume) {
        (_, Some(dir)) => {
            let Resumed { journal, seed, entries } = ResumeLog::resume(dir, &asked()?)?;
            Ok((Some(journal), seed, unix_time(), entries))
        }
        (Some(dir), None) => Ok((Some(ResumeLog::create(dir, seed, &asked()?)?), seed, 0, Vec::new())),
        (None, None) => Ok((None, seed, 0, Vec::new())),
    }
}

/// What will be done and how long it will take, before it begins.
fn announcement(plan: &Plan) -> String {
    let what = format!("{} block(s) of {} target(s)", plan.blocks, plan.targets.len());
    let most =
        if plan.early_end.precision.is_some() || plan.scenario.length.until_steady { "at most " } else { "about " };
    match plan.expected_seconds() {
        Some(seconds) => format!("{what}: {most}{}; Ctrl-C ends it early, with what it has", words(seconds)),
        None => format!("{what}, as long as the messages take; Ctrl-C ends it early, with what it has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    use crate::cli::{Cli, Verb};

    #[test]
    fn a_run_is_gone_on_with_by_the_same_program_options_and_software_only() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |how: &str, target: &str, version: &str, more: &str| {
            let line = format!("hermod-bench run --{how} {} --target {target} {more}", dir.path().display());
            let Verb::Run(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().verb else { panic!("{line}") };
            let mut target: Target = target.parse().unwrap();
            target.software.version = Some(version.to_owned());
            open_journal(&args, &Scenario::default(), &[target], 1).map(drop).map_err(|failure| failure.to_string())
        };
        begin("out", "a=amqp://h:1,pid=2,type=quorum", "4.2", "--blocks 2").unwrap();
        // It may be elsewhere by now, and be measured for longer.
        begin("resume", "a=amqp://g:3,type=quorum,pid=4", "4.2", "--blocks 5 --retries 1").unwrap();
        let cases = [
            ("a=amqp://h:1,type=quorum", "4.3", "", r#"versions.a: "4.2" there, "4.3" here"#),
            ("a=amqp://h:1", "4.2", "", r#"given.a: "amqp /,type=quorum" there, "amqp /" here"#),
            ("a=stomp://h:1,type=quorum", "4.2", "", "given.a: "),
            ("b=amqp://h:1,type=quorum", "4.2", "", "given.a: "),
            ("a=amqp://h:1,type=quorum", "4.2", "--freeze", "frozen: false there, true here"),
        ];
        for (target, version, more, part) in cases {
            let failure = begin("resume", target, version, more).unwrap_err();
            assert!(failure.contains(part), "{target} {version} {more}: {failure}");
        }
    }
}
