//! Runs suites: cell by cell, and in each cell all targets in random order, block by block.
//! Whatever is finished is kept at once, so that a run that is interrupted gives what it has, and
//! can be gone on with.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::SuiteArgs;
use super::audits::{self, Audits};
use super::cells::{Planned, Sized, Sizing};
use super::claim::Bench;
use super::figures::by_block;
use super::study::{ClientKind, Row, RowKind, Study};
use crate::blocks::{self, EarlyEnd, Piece, Plan};
use crate::driver;
use crate::driver::jvm::workers::Workers;
use crate::progress::Progress;
use crate::relay::own::{Floors, OwnRelay};
use crate::resume::{ResumeLog, Resumed};
use crate::run::Circumstances;
use bench_record::command::public_command;
use bench_record::durability::Durability;
use bench_record::failure::{Context, Failure};
use bench_record::output;
use bench_record::run::Ended;
use bench_record::scenario::{Mode, Scenario};
use bench_record::slice::SliceRecord;
use bench_record::span::words;
use bench_record::statistics::random::mix;
use bench_record::statistics::spread::Spread;
use bench_record::suite::{
    Cell, CellOutcome, CellResult, Extent, Figures, Metric, Report, Role, SuiteRecord, TargetFacts, VERSION,
};
use bench_record::summary::remarks;
use bench_record::target::Target;
use bench_report::{html, suites};
use machine::clock::unix_time;
use machine::disk::forced_writes;
use machine::interrupt::Interrupt;
use machine::{facts, freeze, process};
use peers::Guard;

/// What the control is called: the first target again.
const CONTROL: &str = "control";
/// A slice lasts at least this part of the time after which it is ended, where nothing else is
/// said.
const LEAST_PART: f64 = 0.25;
/// How long each target is loaded before the first slice that counts: brokers that compile
/// themselves while they run are faster by then than when they were started, some by half, and
/// the first target would else be measured cold.
const REHEARSAL: Duration = Duration::from_secs(15);
/// How long forced writes are timed.
const FORCED_TIME: Duration = Duration::from_millis(500);
/// What a slice takes besides its measured time, seconds: connections, a fill, the drain, the
/// cleaning.
const ROUND_A_SLICE: f64 = 1.0;

/// What a run must have in common with the one that it goes on for.
#[derive(Debug, Serialize)]
struct Asked<'a> {
    #[serde(flatten)]
    circumstances: Circumstances,
    suites: Vec<&'a str>,
    targets: &'a [String],
    scale: f64,
    cap: Option<f64>,
    least: Option<f64>,
}

/// What a cell is loaded with, whatever the clients are; none: it can't be.
#[derive(Debug, Serialize)]
struct Loads {
    amqp: Option<Scenario>,
    stomp: Option<Scenario>,
    jms: Option<Scenario>,
    others: Option<Scenario>,
}

impl Loads {
    fn of(study: &Study, planned: &Planned<'_>, sizing: &Sizing) -> Self {
        let load = |client| study.load(planned, client, sizing).ok().map(|sized| sized.scenario);
        let [amqp, stomp, jms] = [ClientKind::Amqp, ClientKind::Stomp, ClientKind::Jms].map(|kind| load(Some(kind)));
        Self { amqp, stomp, jms, others: load(None) }
    }
}

/// What a target turned out to be when it was up.
#[derive(Debug, Serialize)]
struct Met<'a> {
    scheme: &'a str,
    product: &'a str,
    version: Option<&'a str>,
    declared: Option<Durability>,
    queue_type: Option<&'a str>,
}

/// A finished piece of one cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    suite: String,
    cell: String,
    piece: Piece,
}

/// Runs what the options ask for. False: some slices broke a rule, or a claim could not be looked
/// at.
pub(crate) fn run(args: &SuiteArgs) -> Result<bool, Failure> {
    let started = unix_time();
    let studies: Vec<Study> = args.suites.iter().map(|name| Study::find(name)).collect::<Result<_, _>>()?;
    let sizing = args.sizing()?;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let cells = args.count(&studies)?;
    let limits = Floors { relay: args.besides.relay, log: args.besides.log }.start(&dir)?;
    let names = args.names(&limits)?;
    let (mut journal, seed, salt, earlier) = args.open_journal(&studies, &names)?;
    let started = journal.as_mut().map_or(Ok(started), |journal| journal.begun(started))?;
    let mut progress =
        if args.quiet { Progress::silent() } else { Progress::shown() }.interrupted_by(Interrupt::by_signal()?);
    let mut audits = Audits::known(journal.as_ref(), &args.targets)?;
    let missing = if args.besides.audit { audits.missing(&args.targets)? } else { Vec::new() };
    let budget_s =
        args.announce(&sizing, &Work { cells, names: &names, audits_s: audits::seconds(&missing) }, &progress);
    audits.fill(missing, journal.as_mut(), &mut progress)?;
    // Peers that were started for this run end with their guards.
    let (given, guards) = peers::resolve_all(&args.targets)?;
    let targets = args.facts(given, &guards, &audits, &limits);
    note_met(journal.as_mut(), &targets)?;
    let freeze = args.freezes();
    let workers = Workers::default();
    let mut runner =
        Runner { args, sizing, targets, freeze, seed, salt, earlier, journal, progress, cold: true, workers };
    let forced = runner.forced(&studies)?;
    let (mut suites, mut done, begin) = (Vec::new(), 0, Instant::now());
    for study in &studies {
        suites.push(runner.suite(study, Counter { done: &mut done, all: cells, begin })?);
    }
    let Runner { targets, progress, .. } = runner;
    let interrupted = progress.interrupted();
    let report = Report {
        version: VERSION,
        program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        started,
        finished: (!interrupted).then(unix_time),
        command: public_command(std::env::args()),
        machine: facts::here(),
        extent: Extent { scale: args.effort.scale, blocks: args.effort.blocks.max(1), seed, budget_s, frozen: freeze },
        targets,
        forced,
        suites,
    };
    output::report(&suites::render(&report), args.json.as_deref(), &report)?;
    fs::write(&args.html, html::render(&report)?).context(args.html.display())?;
    progress.done(&format!("the report is in {}", args.html.display()));
    Ok(report.suites.iter().flat_map(|suite| &suite.cells).flat_map(|cell| &cell.results).all(is_good))
}

/// True when nothing is wrong with a result: what a broker lacks is not wrong.
fn is_good(result: &CellResult) -> bool {
    match &result.outcome {
        CellOutcome::Measured(figures) => figures.valid == figures.slices,
        CellOutcome::NotApplicable { .. } => true,
        CellOutcome::Failed { .. } | CellOutcome::Pending => false,
    }
}

/// A journal where one is kept, with the seed, the salt and the finished pieces.
type Begun = (Option<ResumeLog>, u64, u64, Vec<Entry>);

impl SuiteArgs {
    fn sizing(&self) -> Result<Sizing, Failure> {
        let positive = |value: f64, name: &str| {
            let fits = value.is_finite() && value > 0.0;
            if fits { Ok(value) } else { Err(Failure::new(format!("{name} must be more than 0"))) }
        };
        let (scale, cap) = (positive(self.effort.scale, "--scale")?, positive(self.effort.seconds, "--seconds")?);
        let least = positive(self.effort.at_least.unwrap_or(cap * LEAST_PART), "--at-least")?;
        if least > cap {
            return Err(Failure::new(format!("--at-least {least} is more than --seconds {cap}, which ends a slice")));
        }
        let timed = |seconds: f64| (!self.effort.exact).then_some(seconds);
        Ok(Sizing { scale, cap: timed(cap), least: timed(least) })
    }

    fn cells<'s>(&self, study: &'s Study) -> Vec<Planned<'s>> {
        study.cells(self.profile.list(), &self.rows)
    }

    /// How many cells there are in all.
    fn count(&self, studies: &[Study]) -> Result<usize, Failure> {
        self.rows.check(studies)?;
        match studies.iter().map(|study| self.cells(study).len()).sum() {
            0 => Err(Failure::new("no row is left: those of --rows are not in this profile")),
            cells => Ok(cells),
        }
    }

    fn freezes(&self) -> bool {
        !self.no_freeze && freeze::supported()
    }

    /// What the targets will be called, the control behind them and the limits at the end.
    fn names(&self, limits: &[OwnRelay]) -> Result<Vec<String>, Failure> {
        let mut names = self.targets.iter().map(|text| peers::label(text)).collect::<Result<Vec<_>, _>>()?;
        names.extend(self.besides.control.then(|| CONTROL.to_owned()));
        names.extend(limits.iter().map(|limit| limit.target().name));
        match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            Some((_, name)) => {
                Err(Failure::new(format!("two targets are called {name}; name them: --target a={name}://…")))
            }
            None => Ok(names),
        }
    }

    /// The targets with what is known of them, in the order of their names.
    fn facts(&self, given: Vec<Target>, guards: &[Guard], audits: &Audits, limits: &[OwnRelay]) -> Vec<TargetFacts> {
        let known = |(target, guard): (Target, &Guard)| {
            let role = if target.is_relay() { Role::Limit } else { Role::Broker };
            let audited = audits.of(&target.name, &target.scheme);
            TargetFacts { start_s: guard.ready_seconds(), audited, ..about(target, role) }
        };
        let mut facts: Vec<TargetFacts> = given.into_iter().zip(guards).map(known).collect();
        if let Some(first) = facts.first().filter(|_| self.besides.control) {
            let target = Target { name: CONTROL.to_owned(), ..first.target.clone() };
            facts.push(TargetFacts { target, role: Role::Control, ..first.clone() });
        }
        facts.extend(limits.iter().map(|limit| about(limit.target(), Role::Limit)));
        facts
    }

    /// Begins a journal, or opens the one that is gone on with, where neither the options nor the
    /// loads have changed. Rows, blocks and retries may be others: what is finished is the same
    /// whichever more is asked for.
    fn open_journal(&self, studies: &[Study], names: &[String]) -> Result<Begun, Failure> {
        let sizing = self.sizing()?;
        let asked = Asked {
            circumstances: Circumstances { frozen: self.freezes(), ..Circumstances::here(&self.targets)? },
            suites: studies.iter().map(|study| study.id.as_str()).collect(),
            targets: names,
            scale: sizing.scale,
            cap: sizing.cap,
            least: sizing.least,
        };
        let seed = self.seed.unwrap_or_else(|| mix(unix_time() ^ u64::from(std::process::id())));
        let (mut journal, seed, salt, entries) = match (&self.out, &self.resume) {
            (_, Some(dir)) => {
                let Resumed { journal, seed, entries } = ResumeLog::resume(dir, &asked)?;
                (journal, seed, unix_time(), entries)
            }
            (Some(dir), None) => (ResumeLog::create(dir, seed, &asked)?, seed, 0, Vec::new()),
            (None, None) => return Ok((None, seed, 0, Vec::new())),
        };
        for study in studies {
            for planned in self.cells(study) {
                journal.note(&format!("{} {}", study.id, key(&planned)), &Loads::of(study, &planned, &sizing))?;
            }
        }
        Ok((Some(journal), seed, salt, entries))
    }

    /// Says how long it may take, in seconds too.
    fn announce(&self, sizing: &Sizing, work: &Work<'_>, progress: &Progress) -> f64 {
        let Work { cells, names, audits_s } = *work;
        // One more for each target finds out how many messages last.
        let slices = (cells * names.len() * (self.effort.blocks.max(1) + 1)) as f64;
        let rehearsals = names.len() as f64 * REHEARSAL.as_secs_f64();
        let all = audits_s + rehearsals + slices * (sizing.cap.unwrap_or(f64::from(u16::MAX)) + ROUND_A_SLICE);
        let what = format!("{cells} cell(s), {} target(s), {} block(s)", names.len(), self.effort.blocks.max(1));
        let time = match sizing.cap {
            Some(_) => format!("at most about {}", words(all)),
            None => "as long as the messages take".to_owned(),
        };
        progress.done(&format!("{what}: {time}; Ctrl-C ends it early, with what it has"));
        all
    }
}

/// How much there is to do.
struct Work<'a> {
    cells: usize,
    names: &'a [String],
    /// Seconds of audits.
    audits_s: f64,
}

/// What tells a cell from the others of its suite.
fn key(planned: &Planned<'_>) -> String {
    format!("{} {:?}", planned.label(), planned.profile)
}

/// Refuses a target that is another than when the run was begun. One that was not reached is not
/// known.
fn note_met(journal: Option<&mut ResumeLog>, targets: &[TargetFacts]) -> Result<(), Failure> {
    let Some(journal) = journal else { return Ok(()) };
    for TargetFacts { target, product, version, declared, .. } in targets {
        if let Some(product) = product {
            let met = Met {
                scheme: &target.scheme,
                product,
                version: version.as_deref(),
                declared: *declared,
                queue_type: target.queue_type.as_deref(),
            };
            journal.note(&format!("target {}", target.name), &met)?;
        }
    }
    Ok(())
}

/// What is known of a target before it is loaded.
fn about(target: Target, role: Role) -> TargetFacts {
    let (product, said) = driver::product(&target).unzip();
    let product = product.or_else(|| target.software.peer.clone());
    // What started it knows more than it says itself: which build it is.
    let version = target.software.version.clone().or(said);
    let declared = target.durability;
    let idle_bytes = process::usage(&target.pids).filter(|_| !target.pids.is_empty()).map(|usage| usage.resident);
    TargetFacts { target, role, product, version, declared, audited: None, start_s: None, idle_bytes }
}

/// What a target can't have for a row, whatever it says; none: it is asked.
fn lacks(row: &Row, facts: &TargetFacts) -> Option<String> {
    match &row.kind {
        RowKind::Absent(why) => Some(why.clone()),
        RowKind::Needs(what) if !facts.target.name.contains(what.as_str()) => {
            Some(format!("what the row is about: a target is taken for having it with \"{what}\" in its name"))
        }
        _ if facts.role == Role::Limit && row.metric == Metric::PacketsPerOrder => {
            Some("answers to orders: it only copies".to_owned())
        }
        RowKind::Load | RowKind::Needs(_) => None,
    }
}

struct Runner<'a> {
    args: &'a SuiteArgs,
    sizing: Sizing,
    targets: Vec<TargetFacts>,
    freeze: bool,
    seed: u64,
    salt: u64,
    earlier: Vec<Entry>,
    journal: Option<ResumeLog>,
    progress: Progress,
    /// The targets were not rehearsed yet since they were started.
    cold: bool,
    /// Those that load targets beside this program, through all cells.
    workers: Workers,
}

/// Which cell it is, of how many, and since when.
struct Counter<'a> {
    done: &'a mut usize,
    all: usize,
    begin: Instant,
}

impl Counter<'_> {
    /// What progress lines begin with.
    fn next(&mut self, what: &str) -> String {
        *self.done += 1;
        let before = *self.done - 1;
        let left = match before {
            0 => String::new(),
            _ => {
                let each = self.begin.elapsed().as_secs_f64() / before as f64;
                format!(", {} left", words(each * (self.all - before) as f64))
            }
        };
        format!("[{}/{}{left}] {what} ", self.done, self.all)
    }
}

impl Runner<'_> {
    /// What a forced write costs here, where something persistent is measured.
    fn forced(&self, studies: &[Study]) -> Result<Vec<bench_record::machine::Forced>, Failure> {
        for study in studies {
            for cell in self.args.cells(study) {
                if study.load(&cell, None, &self.sizing)?.scenario.is_kept() {
                    let dir = self.args.dir.clone().unwrap_or_else(std::env::temp_dir);
                    return Ok(vec![forced_writes(&dir, FORCED_TIME)?]);
                }
            }
        }
        Ok(Vec::new())
    }

    fn suite(&mut self, study: &Study, mut counter: Counter<'_>) -> Result<SuiteRecord, Failure> {
        let mut cells = Vec::new();
        for planned in self.args.cells(study) {
            let step = counter.next(&format!("{} {}", study.id, planned.label()));
            cells.push(self.cell(study, &planned, &step)?);
        }
        let claims = Bench { study, cells: &cells, targets: &self.targets }.claims();
        let measured = |figure: &&bench_record::suite::Figure| {
            figure.rows.iter().any(|row| cells.iter().any(|cell| cell.row == *row))
        };
        Ok(SuiteRecord {
            id: study.id.clone(),
            title: study.title.clone(),
            gist: study.gist.clone(),
            citation: study.citation.clone(),
            environment: study.environment.clone(),
            faults: study.faults.clone(),
            figures: study.figures.iter().filter(measured).cloned().collect(),
            cells,
            claims,
        })
    }

    /// Measures one cell on all targets that it applies to.
    fn cell(&mut self, study: &Study, planned: &Planned<'_>, step: &str) -> Result<Cell, Failure> {
        let Sized { scenario, scaled } = study.load(planned, self.client_of_first(), &self.sizing)?;
        let mut kept_out: BTreeMap<String, String> = BTreeMap::new();
        let mut own: BTreeMap<String, Scenario> = BTreeMap::new();
        for facts in &self.targets {
            let Target { name, scheme, .. } = &facts.target;
            if let Some(lacks) = lacks(planned.row, facts) {
                kept_out.insert(name.clone(), lacks);
            } else {
                own.insert(name.clone(), study.load(planned, ClientKind::of(scheme), &self.sizing)?.scenario);
            }
        }
        let loaded = |facts: &TargetFacts| Some(typed(&facts.target, own.get(&facts.target.name)?));
        let targets: Vec<Target> = self.targets.iter().filter_map(loaded).collect();
        let slices = self.slices(study, planned, targets, scenario.clone(), own, step)?;
        let results = self.targets.iter().map(|facts| {
            let name = &facts.target.name;
            let outcome = match kept_out.remove(name) {
                Some(lacks) => CellOutcome::NotApplicable { lacks },
                None => self.outcome(name, planned.row.metric, &scenario, &slices),
            };
            CellResult { target: name.clone(), outcome }
        });
        Ok(Cell {
            row: planned.row.id.clone(),
            title: planned.row.title.clone(),
            profile: planned.profile,
            point: planned.point.clone(),
            metric: planned.row.metric,
            results: results.collect(),
            load: scenario,
            scaled,
            published: planned.published(study),
        })
    }

    fn client_of_first(&self) -> Option<ClientKind> {
        self.targets.first().and_then(|facts| ClientKind::of(&facts.target.scheme))
    }

    /// The slices of one cell, as far as they are not finished already.
    fn slices(
        &mut self,
        study: &Study,
        planned: &Planned<'_>,
        targets: Vec<Target>,
        scenario: Scenario,
        own: BTreeMap<String, Scenario>,
        step: &str,
    ) -> Result<Vec<SliceRecord>, Failure> {
        if targets.is_empty() || self.progress.interrupted() {
            return Ok(Vec::new());
        }
        let label = key(planned);
        let number = label.bytes().chain(study.id.bytes()).fold(self.seed, |state, byte| mix(state ^ u64::from(byte)));
        let plan = Plan {
            targets,
            scenario,
            own,
            blocks: self.args.effort.blocks.max(1),
            seed: number,
            salt: self.salt,
            freeze: self.freeze,
            wait_quiet: Duration::ZERO,
            retries: self.args.retries,
            forced_dir: None,
            control: None,
            least: self.sizing.least(planned.row.metric),
            rehearsal: if self.cold { REHEARSAL } else { Duration::ZERO },
            early_end: EarlyEnd::default(),
            workers: self.workers.clone(),
        };
        let mine = |entry: &&Entry| entry.suite == study.id && entry.cell == label;
        let earlier: Vec<Piece> = self.earlier.iter().filter(mine).map(|entry| entry.piece.clone()).collect();
        let (journal, cold) = (&mut self.journal, &mut self.cold);
        let mut keep = |piece: &Piece| {
            // Where it was tried how many messages last, that was the rehearsal; rows without one
            // leave the brokers cold.
            *cold &= !matches!(piece, Piece::Count { .. });
            let Some(journal) = journal.as_mut() else { return Ok(()) };
            journal.append(&Entry { suite: study.id.clone(), cell: label.clone(), piece: piece.clone() })
        };
        self.progress.within(step.to_owned());
        let results = blocks::run(&plan, earlier, &mut keep, &mut self.progress)?;
        if results.ended == Ended::Interrupt {
            self.progress.done("interrupted: what follows is missing");
        }
        Ok(results.slices)
    }

    /// What a broker can come to at most: forced writes where messages are kept and they were
    /// measured, else the relay.
    fn limit(&self, scenario: &Scenario) -> Option<&TargetFacts> {
        let mut limits = self.targets.iter().filter(|facts| facts.role == Role::Limit);
        let fits = |facts: &&TargetFacts| facts.target.only_copies() != scenario.is_kept();
        limits.clone().find(fits).or_else(|| limits.next())
    }

    /// What one target's slices come to.
    fn outcome(&self, name: &str, metric: Metric, scenario: &Scenario, slices: &[SliceRecord]) -> CellOutcome {
        let counted = slices.iter().filter(|slice| slice.target == name && !slice.superseded);
        let all: Vec<SliceRecord> = counted.cloned().collect();
        let own = by_block(metric, scenario, name, slices);
        let Some(spread) = Spread::of(own.iter().map(|(_, value)| *value).collect()) else {
            return match all.last() {
                None => CellOutcome::Pending,
                Some(SliceRecord { lacks: Some(lacks), .. }) => CellOutcome::NotApplicable { lacks: lacks.clone() },
                Some(slice) => {
                    CellOutcome::Failed { error: slice.error.clone().unwrap_or_else(|| "no figure".to_owned()) }
                }
            };
        };
        let within = |other: &str| {
            let theirs = by_block(metric, scenario, other, slices);
            let quotient = |(block, value): &(usize, f64)| {
                let (_, their) = theirs.iter().find(|(their_block, _)| their_block == block)?;
                (*their > 0.0).then(|| value / their)
            };
            Spread::of(own.iter().filter_map(quotient).collect())
        };
        // An order goes to the exchange, is matched and comes back; a relay carries it one way, and
        // is no limit of that.
        let there_and_back = scenario.mode == Mode::Exchange;
        let first = self.targets.first().map(|facts| facts.target.name.as_str()).filter(|first| *first != name);
        let limit = self.limit(scenario).filter(|limit| limit.target.name != name && !there_and_back);
        CellOutcome::Measured(Box::new(Figures {
            value: spread,
            to_first: first.and_then(within),
            of_limit: limit.and_then(|facts| within(&facts.target.name)),
            slices: all.len(),
            valid: all.iter().filter(|slice| slice.measured.as_ref().is_some_and(|one| one.verdict.valid)).count(),
            remarks: remarks(name, slices),
            all,
        }))
    }
}

/// The target as a cell loads it. A type of queues that keeps what it is given keeps transient
/// messages too, and forces them: where nothing is to be kept, the broker's ordinary queues do what
/// those of the others do.
fn typed(target: &Target, scenario: &Scenario) -> Target {
    Target { queue_type: target.queue_type.clone().filter(|_| scenario.is_kept()), ..target.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::scenario::QueueKind;

    /// Quorum queues forced each message of rows in which no other broker keeps any, and were ten
    /// times as slow for it.
    #[test]
    fn queues_are_of_the_type_that_keeps_only_where_messages_are_kept() {
        let target: Target = "amqp://127.0.0.1:1,type=quorum".parse().unwrap();
        for (persistent, kind, expected) in [
            (true, QueueKind::Durable, Some("quorum")),
            (false, QueueKind::Durable, None),
            (true, QueueKind::Exclusive, None),
        ] {
            let scenario = Scenario::default().with(|s| {
                s.message.persistent = persistent;
                s.topology.queue = kind;
            });
            assert_eq!(typed(&target, &scenario).queue_type.as_deref(), expected, "{persistent} {kind:?}");
        }
    }

    #[test]
    fn packets_of_orders_are_not_asked_of_what_only_copies() {
        let study = Study::find("osu2008").unwrap();
        let row = |id: &str| study.rows.iter().find(|row| row.id == id).unwrap();
        let facts = |role| about("relay=relay://127.0.0.1:1".parse().unwrap(), role);
        assert!(lacks(row("O6p"), &facts(Role::Limit)).is_some_and(|what| what.contains("only copies")));
        assert_eq!(lacks(row("O6"), &facts(Role::Limit)), None);
        assert_eq!(lacks(row("O6p"), &facts(Role::Broker)), None);
    }
}
