//! What a broker's confirms are worth. Three kinds of evidence: the flushes that the disks counted
//! while it confirmed, the calls that force data to a disk and that it was seen to make, and what
//! is left of confirmed messages when it is killed without a warning. A claim that the evidence
//! does not carry is printed as such.

mod calls;
mod crash;

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::{Args, FromArgMatches};
use serde::{Deserialize, Serialize};

use crate::driver;
use crate::measure::stamp::Bodies;
use crate::progress::Progress;
use bench_record::command::public_command;
use bench_record::durability::Durability;
use bench_record::failure::Failure;
use bench_record::machine::MachineFacts;
use bench_record::output;
use bench_record::rules::FLUSHED;
use bench_record::scenario::{QueueKind, Scenario};
use bench_record::span::Span;
use bench_record::statistics::random::{Random, mix};
use bench_record::suite::Audited;
use bench_record::target::Target;
use calls::{Calls, Trace};
use crash::{Crash, Killer, Signals, publish};
use machine::clock::unix_time;
use machine::disk::flushes;
use machine::facts;

/// Version of the record; fields are only ever added within one.
const VERSION: u32 = 1;
/// How long the machine is watched before and while messages are confirmed.
const WATCH: Duration = Duration::from_secs(1);

/// Protocols whose confirms can be audited; a peer is audited by the first that it speaks.
pub(crate) const SCHEMES: [&str; 6] = ["amqp", "stomp", "jetstream", "kafka", "mqtt5", "mqtt"];
/// What a publisher needs to notice that its connection has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How much is done to find out what confirms are worth.
#[derive(Debug, Args)]
struct Effort {
    /// How often it is killed
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long before its first message the queue of a kill is declared: some brokers keep a
    /// declaration in memory for seconds
    #[arg(long, default_value = "5s", value_name = "SPAN")]
    settle: Span,
    /// Bytes of a body
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Most unconfirmed messages
    #[arg(long, default_value_t = 100)]
    window: u64,
    /// Seconds that the broker may take to be back, and to confirm what it was sent
    #[arg(long, default_value = "60")]
    patience: Span,
}

impl Default for Effort {
    fn default() -> Self {
        let options = Self::augment_args(clap::Command::new("audit")).get_matches_from(["audit"]);
        Self::from_arg_matches(&options).expect("every option has a default")
    }
}

/// Options of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// A broker or a peer, as for run; a broker with ,pid= for all that needs its processes
    #[arg(long)]
    target: String,
    /// What it claims of persistent messages that it confirmed
    #[arg(long, value_enum, ignore_case = true)]
    claims: Option<Durability>,
    /// Kill the broker (SIGKILL), start it again by this command of the shell, and look for what it
    /// had confirmed. A peer that is started for the audit needs no command
    #[arg(long, value_name = "COMMAND", num_args = 0..=1)]
    restart: Option<Option<String>>,
    #[command(flatten)]
    effort: Effort,
    /// Repeats the moments of an earlier audit
    #[arg(long)]
    seed: Option<u64>,
    /// Write a record of everything to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show nothing but the result
    #[arg(long, short)]
    quiet: bool,
}

/// Flushes that all disks counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Flushes {
    /// A second, while nothing was published.
    idle_per_s: f64,
    /// A second, while messages were confirmed.
    per_s: f64,
    confirmed_per_s: f64,
    window: u64,
}

impl Flushes {
    /// True when the disks flushed about as often as forced confirms need at least: once for each
    /// full window.
    fn force(&self) -> bool {
        self.confirmed_per_s > 0.0
            && self.per_s - self.idle_per_s >= self.confirmed_per_s / self.window as f64 * FLUSHED
    }
}

/// All that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct AuditRecord {
    version: u32,
    program: String,
    /// Seconds since 1970 at its end.
    ended: u64,
    command: Vec<String>,
    machine: MachineFacts,
    target: Target,
    seed: u64,
    claims: Option<Durability>,
    flushes: Option<Flushes>,
    calls: Option<Calls>,
    crashes: Vec<Crash>,
    audited: Audited,
}

/// The verb `audit`. False: the claim is not supported, or confirmed messages were lost.
pub(crate) fn audit(args: &AuditArgs) -> Result<bool, Failure> {
    let Effort { rounds, size, window, .. } = args.effort;
    if window == 0 || size < 8 || (args.restart.is_some() && rounds == 0) {
        return Err(Failure::new("--window and --rounds must be at least 1, --size at least 8: messages are numbered"));
    }
    let (target, guard) = peers::resolve_one(&args.target, &SCHEMES)?;
    let mut killer = match &args.restart {
        Some(command) => Some(Killer::new(&target, guard, command.as_deref())?),
        None => None,
    };
    let record = record(args, &target, killer.as_mut())?;
    let mut text = render(&record);
    if let Some(pid) = killer.as_ref().and_then(Killer::left_running) {
        let _ = writeln!(text, "  the broker was left running as process {pid}");
    }
    output::report(&text, args.json.as_deref(), &record)?;
    let kept = record.crashes.iter().all(|crash| crash.lost == 0);
    Ok(record.claims.map_or(kept, |claim| claim <= record.audited.supports))
}

/// What an audit found out of a target, and by which protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    scheme: String,
    /// None: neither a kill nor forced writes decided anything.
    audited: Option<Audited>,
}

impl Finding {
    /// What is to be said of the target where it is measured by the protocol `scheme`.
    pub(crate) fn told(&self, scheme: &str) -> Option<Audited> {
        let Audited { supports, evidence } = self.audited.clone()?;
        let by = if self.scheme == scheme { String::new() } else { format!("by {}: ", self.scheme) };
        Some(Audited { supports, evidence: by + &evidence })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.audited {
            Some(audited) => write!(f, "by {}, the evidence supports {}", self.scheme, audited.supports),
            None => write!(f, "by {}, nothing is decided: neither forced writes nor a kill tell", self.scheme),
        }
    }
}

/// Audits the target that `text` means by one of [`SCHEMES`], as the verb does by default. What is
/// started for it is killed and started again; what is up already is not.
pub(crate) fn finding(text: &str, progress: &Progress) -> Result<Finding, Failure> {
    let (target, guard) = peers::resolve_one(text, &SCHEMES)?;
    let (mut killer, mut guard) = (None, Some(guard));
    if let Some(started) = guard.take_if(|guard| guard.started_it()) {
        killer = Some(Killer::new(&target, started, None)?);
    }
    let mut random = Random::new(fresh_seed());
    let mut audit = Audit { effort: &Effort::default(), target: &target, random: &mut random, progress };
    let evidence = audit.evidence(killer.as_mut())?;
    Ok(Finding { scheme: target.scheme.clone(), audited: evidence.decides().then(|| evidence.judged()) })
}

/// A record of all evidence that the options ask for.
fn record(args: &AuditArgs, target: &Target, killer: Option<&mut Killer>) -> Result<AuditRecord, Failure> {
    let progress = if args.quiet { Progress::silent() } else { Progress::shown() };
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let mut random = Random::new(seed);
    let evidence = Audit { effort: &args.effort, target, random: &mut random, progress: &progress }.evidence(killer)?;
    let audited = evidence.judged();
    let Evidence { flushes, calls, crashes } = evidence;
    Ok(AuditRecord {
        version: VERSION,
        program: concat!("hermod-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        ended: unix_time(),
        command: public_command(std::env::args()),
        machine: facts::here(),
        target: target.clone(),
        seed,
        claims: args.claims,
        flushes,
        calls,
        crashes,
        audited,
    })
}

fn fresh_seed() -> u64 {
    mix(unix_time() ^ u64::from(std::process::id()))
}

struct Audit<'a> {
    effort: &'a Effort,
    target: &'a Target,
    random: &'a mut Random,
    progress: &'a Progress,
}

impl Audit<'_> {
    /// Everything that can be seen; what only kills tell where there is a `killer`.
    fn evidence(&mut self, killer: Option<&mut Killer>) -> Result<Evidence, Failure> {
        let mut evidence = Evidence { flushes: self.flushes()?, calls: self.calls()?, crashes: Vec::new() };
        let Some(killer) = killer else { return Ok(evidence) };
        for round in 1..=self.effort.rounds {
            if self.progress.interrupted() {
                return Err(Failure::new("interrupted"));
            }
            let crash = self.crash(killer)?;
            self.progress.done(&format!("[{round}/{}] {crash}", self.effort.rounds));
            evidence.crashes.push(crash);
        }
        Ok(evidence)
    }

    /// Persistent messages to one durable queue without a consumer.
    fn scenario(&self) -> Scenario {
        let Effort { size, window, .. } = *self.effort;
        let base = Scenario::default().with(|s| {
            (s.message.size, s.message.persistent) = (size, true);
            s.clients.window = window;
        });
        base.with(|s| {
            (s.topology.queue, s.topology.consumers) = (QueueKind::Durable, 0);
            (s.clients.prefetch, s.clients.ack_every) = (1000, 1);
        })
    }

    /// Publishes while it looks at what `counter` counts, and removes the queue. What declaring the
    /// queue took, and what comes after the watch, is in neither of the counts.
    fn published(&mut self, counter: impl Fn() -> Result<u64, Failure>) -> Result<Watched, Failure> {
        let (scenario, number) = (self.scenario(), self.random.draw() as u32);
        let mut driver = driver::open(self.target, &scenario, number)?;
        driver.prepare()?;
        let line = driver.open(driver::Part::Produce(0))?;
        let (bodies, signals) = (Bodies::new(number, scenario.message.size), Signals::new(self.effort.patience.0));
        let (witness, watched) = std::thread::scope(|scope| {
            let publishing = scope.spawn(|| publish(line, &bodies, scenario.clients.window, &signals));
            let watched = watch(counter, || signals.confirmed.load(Relaxed));
            signals.over.store(true, Relaxed);
            (publishing.join().unwrap_or_default(), watched)
        });
        let cleaned = driver.clean();
        if let Some(text) = witness.lost {
            return Err(Failure::new(text));
        }
        if witness.unanswered > 0 {
            return Err(Failure::new(format!(
                "{} messages got no confirm within {} s (--patience): does the broker hold publishers back, for lack of \
                 memory or disk?",
                witness.unanswered,
                self.effort.patience.0.as_secs_f64()
            )));
        }
        cleaned.and(watched)
    }

    fn flushes(&mut self) -> Result<Option<Flushes>, Failure> {
        let Some(before) = flushes() else { return Ok(None) };
        let counter = || Ok(flushes().unwrap_or(before));
        let idle = watch(counter, || 0)?;
        let busy = self.published(counter)?;
        let found = Flushes {
            idle_per_s: idle.count as f64 / idle.seconds,
            per_s: busy.count as f64 / busy.seconds,
            confirmed_per_s: busy.confirmed as f64 / busy.seconds,
            window: self.effort.window,
        };
        self.progress.done(&found.to_string());
        Ok(Some(found))
    }

    /// Looks which forcing calls the broker makes, where there is `strace` and it may look.
    fn calls(&mut self) -> Result<Option<Calls>, Failure> {
        let pids = &self.target.pids;
        if pids.is_empty() || !calls::possible() {
            return Ok(None);
        }
        let Some(trace) = Trace::attach(pids)? else { return Ok(None) };
        let Watched { count, confirmed, .. } = self.published(|| trace.count())?;
        let calls = Calls { count, confirmed, window: self.effort.window, processes: trace.processes };
        self.progress.done(&calls.to_string());
        Ok(Some(calls))
    }

    /// Kills the broker while it confirms, starts it again, and looks for what it had confirmed.
    fn crash(&mut self, killer: &mut Killer) -> Result<Crash, Failure> {
        let (scenario, number) = (self.scenario(), self.random.draw() as u32);
        let target = self.target;
        let mut driver = driver::open(target, &scenario, number)?;
        driver.prepare()?;
        // It is the confirms of messages that are audited, not the answer to a declaration.
        std::thread::sleep(self.effort.settle.0);
        let line = driver.open(driver::Part::Produce(0))?;
        let bodies = Bodies::new(number, scenario.message.size);
        let after = Duration::from_millis(300 + self.random.below(1200) as u64);
        let signals = Signals::new(LAST_WORDS);
        let witness = std::thread::scope(|scope| {
            let publishing = scope.spawn(|| publish(line, &bodies, scenario.clients.window, &signals));
            std::thread::sleep(after);
            let killed = killer.kill();
            // The end of its connection ends the publisher too, unless the connection leads to
            // something else.
            std::thread::sleep(LAST_WORDS);
            signals.over.store(true, Relaxed);
            killed.map(|()| publishing.join().unwrap_or_default())
        })?;
        if witness.lost.is_none() {
            return Err(Failure::new("the connection outlived the kill: are these the processes of the broker?"));
        }
        drop(driver);
        let begin = Instant::now();
        killer.restart()?;
        let reading = scenario.with(|s| s.topology.consumers = 1);
        let (mut driver, line) = crash::reopened(target, &reading, number, self.effort.patience.0)?;
        let back_s = begin.elapsed().as_secs_f64();
        let received = crash::drain(line, &bodies, &witness.confirmed)?;
        driver.clean()?;
        let lost = witness.confirmed.missing_from(&received);
        let killed_after_s = after.as_secs_f64();
        Ok(Crash {
            killed_after_s,
            back_s,
            sent: witness.sent,
            confirmed: witness.confirmed.count(),
            found: received.count(),
            lost,
        })
    }
}

/// How much was counted in one watch, and how many messages were confirmed in the same time.
#[derive(Debug)]
struct Watched {
    count: u64,
    confirmed: u64,
    seconds: f64,
}

/// Looks at both for [`WATCH`].
fn watch(counter: impl Fn() -> Result<u64, Failure>, confirmed: impl Fn() -> u64) -> Result<Watched, Failure> {
    let (begin, counted, before) = (Instant::now(), counter()?, confirmed());
    std::thread::sleep(WATCH);
    let (count, confirmed) = (counter()?.saturating_sub(counted), confirmed() - before);
    Ok(Watched { count, confirmed, seconds: begin.elapsed().as_secs_f64() })
}

/// What was seen of a broker's promise.
#[derive(Debug, Default)]
struct Evidence {
    flushes: Option<Flushes>,
    calls: Option<Calls>,
    crashes: Vec<Crash>,
}

impl Evidence {
    fn lost(&self) -> u64 {
        self.crashes.iter().map(|crash| crash.lost).sum()
    }

    /// False where it speaks neither for the broker nor against it.
    fn decides(&self) -> bool {
        self.judged().supports > Durability::D1 || self.lost() > 0
    }

    /// The highest class that it carries, and itself in one sentence.
    fn judged(&self) -> Audited {
        let mut evidence: Vec<String> = Vec::new();
        evidence.extend(self.flushes.as_ref().map(ToString::to_string));
        evidence.extend(self.calls.as_ref().map(ToString::to_string));
        let (lost, confirmed) = (self.lost(), self.crashes.iter().map(|crash| crash.confirmed).sum::<u64>());
        match self.crashes.len() {
            0 => evidence.push("it was not killed".to_owned()),
            count => evidence.push(format!("killed {count} times, {lost} of {confirmed} confirmed messages were gone")),
        }
        let forced = match &self.calls {
            Some(calls) => calls.force(),
            None => self.flushes.as_ref().is_some_and(Flushes::force),
        };
        let supports = match (forced, lost, confirmed) {
            (_, 1.., _) => Durability::D1,
            (true, 0, _) => Durability::D3,
            (false, 0, 1..) => Durability::D2,
            (false, 0, 0) => Durability::D1,
        };
        Audited { supports, evidence: evidence.join("; ") }
    }
}

fn render(record: &AuditRecord) -> String {
    let mut text = format!("{}: what its confirms of persistent messages are worth\n", record.target.name);
    let Audited { supports, evidence } = &record.audited;
    let _ = writeln!(text, "  the evidence supports {supports}: {evidence}");
    match record.claims {
        Some(claim) if claim > *supports => {
            let _ = writeln!(text, "  CLAIM NOT SUPPORTED: {claim} was claimed");
        }
        Some(claim) => {
            let _ = writeln!(text, "  the claim of {claim} is supported");
        }
        None => {}
    }
    text
}

impl std::fmt::Display for Flushes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { idle_per_s, per_s, confirmed_per_s, window } = self;
        write!(
            f,
            "{confirmed_per_s:.0} confirms a second in windows of {window} against {per_s:.0} flushes of the disks"
        )?;
        write!(f, " ({idle_per_s:.0} while idle)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::behaviour::Behaviour;
    use crate::simulate::local;

    fn flushed(idle_per_s: f64, per_s: f64) -> Flushes {
        Flushes { idle_per_s, per_s, confirmed_per_s: 10_000.0, window: 100 }
    }

    fn crash(lost: u64) -> Crash {
        Crash { killed_after_s: 1.0, back_s: 1.0, sent: 1100, confirmed: 1000, found: 1000 - lost, lost }
    }

    fn called(count: u64) -> Calls {
        Calls { count, confirmed: 10_000, window: 100, processes: 2 }
    }

    #[test]
    fn no_class_is_granted_without_its_evidence() {
        use Durability::{D1, D2, D3};
        type Case = (Option<Flushes>, Option<Calls>, Vec<Crash>, Durability);
        let nothing = Flushes { confirmed_per_s: 0.0, ..flushed(0.0, 100.0) };
        let cases: Vec<Case> = vec![
            (None, None, vec![], D1),
            (Some(flushed(0.0, 3.0)), None, vec![], D1),
            (Some(flushed(0.0, 3.0)), None, vec![crash(0)], D2),
            (Some(flushed(0.0, 100.0)), None, vec![crash(0), crash(0)], D3),
            // Flushes of other programs are not the broker's.
            (Some(flushed(98.0, 101.0)), None, vec![crash(0)], D2),
            // Calls that were looked for and not seen weigh more than flushes that any program may
            // have made.
            (Some(flushed(0.0, 100.0)), Some(called(2)), vec![crash(0)], D2),
            (Some(flushed(0.0, 100.0)), Some(called(90)), vec![crash(0)], D3),
            // What was lost was lost, however much was flushed.
            (Some(flushed(0.0, 100.0)), Some(called(90)), vec![crash(0), crash(1)], D1),
            // Who confirms nothing promises nothing.
            (Some(nothing), None, vec![], D1),
            (None, Some(Calls { confirmed: 0, ..called(0) }), vec![], D1),
            (None, Some(Calls { confirmed: 0, ..called(90) }), vec![], D1),
        ];
        for (flushes, calls, crashes, supports) in cases {
            let evidence = Evidence { flushes, calls, crashes };
            let audited = evidence.judged();
            assert_eq!(audited.supports, supports, "{}", audited.evidence);
            assert_eq!(evidence.decides(), supports > D1 || evidence.lost() > 0, "{}", audited.evidence);
        }
    }

    /// What is seen of a broker whose confirms come this long after the publishes.
    fn of_slow(confirm: &str, patience: &str) -> Result<Watched, Failure> {
        let broker = local(&Behaviour { confirm: confirm.parse().unwrap(), ..Behaviour::default() });
        let effort = Effort {
            rounds: 0,
            settle: Span(Duration::ZERO),
            size: 64,
            window: 10,
            patience: patience.parse().unwrap(),
        };
        let target = broker.target.parse().unwrap();
        let (mut random, progress) = (Random::new(1), Progress::silent());
        let mut audit = Audit { effort: &effort, target: &target, random: &mut random, progress: &progress };
        audit.published(|| Ok(0))
    }

    #[test]
    fn a_broker_that_does_not_confirm_ends_an_audit_with_a_reason() {
        let failure = of_slow("1h", "10ms").unwrap_err().to_string();
        assert!(failure.contains("10 messages got no confirm within 0.01 s"), "{failure}");
    }

    #[test]
    fn confirms_count_in_the_time_in_which_flushes_do() {
        assert_eq!(of_slow("3s", "60s").unwrap().confirmed, 0);
        assert!(of_slow("0", "60s").unwrap().confirmed > 0);
    }
}
