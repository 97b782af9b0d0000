//! The crash harness: loads a broker over its protocols, kills it without warning again and again,
//! and holds it to its promises with a checker that has watched every message.
//!
//! The data directory lives through all kills of a run. Some cycles run with a journal so small
//! that its files are recycled all the time. Every few cycles all queues are drained and the
//! checker says what is missing.

mod amqp10;
mod counting;
mod kept;
mod ledger;
mod mqtt;
mod noted;
mod redrive;
mod rest;
mod shovelled;
mod wills;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::amqp10::Amqp10Load;
use self::mqtt::MqttLoad;
use crate::checker::Counts;
use crate::history::Event;
use crate::part::{self, PARTS, Part};
use crate::random::Random;
use crate::server::{self, Launch, Program, Server, Sizes};
use crate::stage::Stage;
use crate::talk::Control;
use kept::Kept;
use ledger::Summary;
use noted::{NOTED, Noted};
use shovelled::ShovelLoad;
use wills::WillLoad;

/// The largest body: what fits a record of the small journal.
const LARGEST_BODY: u64 = 64 * 1024;
/// In so many of 100 cycles the broker is killed once more while it starts.
const KILLED_AGAIN: u64 = 15;
/// How long after its start such a kill comes at most, in milliseconds.
const KILLED_WITHIN: u64 = 60;

/// Threads that serve connections, one of these numbers at each start.
const THREADS: [u64; 2] = [1, 3];
/// Budgets for the messages in memory, one of these at each start: the default, and one that has
/// transient messages spilled.
const BUDGETS: [Option<&str>; 2] = [None, Some("1MiB")];
/// How long a broker that dies by itself may take.
const DYING: Duration = Duration::from_millis(200);

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the broker is killed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: u64,
    /// The decisions of a run can be made again from its seed; one is chosen if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long the load lasts before each kill, in seconds, from and to.
    #[arg(long, value_name = "FROM..TO", default_value = "0.2..1.5", value_parser = parse_seconds)]
    seconds_per_cycle: (u64, u64),
    /// Drain and check after so many cycles.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    drain_every: u64,
    /// Also send messages with ids, delay some, and send some again; not in a small log, which the
    /// ids would fill.
    #[arg(long)]
    ids: bool,
    /// The sizes of the journal's files: those of a user who sets nothing, so small that they are
    /// recycled all the time, or both in turn.
    #[arg(long, value_enum, default_value_t = Choice::Both)]
    sizes: Choice,
    /// The broker to start; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The commit that `--binary` was built from, for the ledger; the one that is checked out if
    /// not given.
    #[arg(long)]
    commit: Option<String>,
    /// Append the run to docs/ledger/crash.md, also one that found a broken promise.
    #[arg(long)]
    ledger: bool,
    /// Run a broker with this deliberate fault; it must be found within the cycles.
    #[arg(long, value_name = "FAULT")]
    sabotage: Option<String>,
}

/// Which sizes of the journal's files a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    Default,
    Small,
    Both,
}

impl Choice {
    /// The sizes of a group of cycles.
    fn of(self, group: u64) -> Sizes {
        match self {
            Self::Default => Sizes::Default,
            Self::Small => Sizes::Small,
            Self::Both if group.is_multiple_of(2) => Sizes::Small,
            Self::Both => Sizes::Default,
        }
    }
}

/// Two numbers of seconds, as milliseconds.
fn parse_seconds(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let milliseconds = |text: &str| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok((seconds * 1000.0) as u64),
        _ => Err(format!("`{text}` is no number of seconds up to 3600")),
    };
    let (from, to) = (milliseconds(from)?, milliseconds(to)?);
    if from <= to { Ok((from, to)) } else { Err(format!("{text}: it ends before it begins")) }
}

/// Kills the broker as often as asked.
///
/// # Errors
/// When it breaks a promise (with a deliberate fault: when none is seen to be broken), refuses
/// something, ends by itself or does not start.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_nanos() as u64 % 1_000_000_000)
    });
    let commit = match &options.commit {
        Some(commit) => commit.clone(),
        None => crate::ledger::commit(root)?,
    };
    let source = match &options.binary {
        Some(path) => path.clone(),
        None => server::build(root, options.sabotage.as_deref())?,
    };
    let folder = server::target_folder(root).join("crash").join(format!("{seed}-{}", std::process::id()));
    let program = Program::prepare(&source, &folder, options.sabotage.as_deref())?;
    println!("crash: seed {seed}, {} cycles, in {}", options.cycles, folder.display());
    let stage = Stage::new(program.ports(), seed as u32, LARGEST_BODY);
    let (mqtt, wills) = (MqttLoad::new(program.mqtt()), WillLoad::new(program.mqtt()));
    let amqp10 = Amqp10Load::new(program.ports().amqp);
    let mut run = Run {
        options,
        program,
        stage,
        kept: Mutex::default(),
        noted: Mutex::default(),
        mqtt,
        amqp10,
        wills,
        shovels: ShovelLoad::default(),
        random: Random::new(seed),
        restarts: Vec::new(),
        cycle: 0,
    };
    let outcome = run.all_cycles();
    let verdict = run.stage.verdict();
    let summary =
        Summary { commit, seed, cycles: run.cycle, counts: run.stage.checker().counts(), restarts: run.restarts };
    println!("{summary}\n{}\n{}\n{}\n{}", run.mqtt, run.amqp10, run.wills, run.shovels);
    match (&options.sabotage, outcome) {
        (None, Ok(())) => {
            std::fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
            if options.ledger { summary.append(root) } else { Ok(()) }
        }
        (None, Err(error)) => {
            let tail = run.program.log_tail();
            // A broken promise is worth more of the page than all that went well.
            if options.ledger && summary.counts.violations > 0 {
                summary.append(root)?;
            }
            Err(format!("seed {seed}, cycle {}: {error}\nkept: {}\n{tail}", summary.cycles, folder.display()))
        }
        // Found by the checker, that is: a broker that ends by itself is another fault.
        (Some(fault), Err(error)) if summary.counts.violations > 0 && verdict.as_ref() == Err(&error) => {
            println!("{fault} was found in cycle {}: {}", summary.cycles, error.lines().next().unwrap_or_default());
            std::fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))
        }
        (Some(fault), outcome) => {
            let (reason, tail) = (outcome.err().unwrap_or_default(), run.program.log_tail());
            Err(format!("seed {seed}: {fault} was not found in {} cycles; {reason}\n{tail}", summary.cycles))
        }
    }
}

/// A run and how far it has got.
struct Run<'a> {
    options: &'a Options,
    program: Program,
    stage: Stage,
    kept: Mutex<Kept>,
    noted: Mutex<Noted>,
    mqtt: MqttLoad,
    amqp10: Amqp10Load,
    wills: WillLoad,
    shovels: ShovelLoad,
    random: Random,
    restarts: Vec<Duration>,
    cycle: u64,
}

impl Run<'_> {
    fn all_cycles(&mut self) -> Result<(), String> {
        let mut server = self.start(self.options.sizes.of(0))?;
        self.stage.control(Control::declare)?;
        self.stage.control(|control| control.declare_extra(NOTED))?;
        kept::publish(&self.stage, NOTED)?;
        self.mqtt.subscribe()?;
        self.amqp10.declare(&self.stage)?;
        self.wills.subscribe()?;
        self.shovels.set(&self.program, &self.stage)?;
        for group in 0.. {
            let before = self.stage.checker().counts();
            let last = self.options.cycles.min(self.cycle + self.options.drain_every);
            while self.cycle < last {
                self.cycle += 1;
                self.play(&mut server)?;
                server = self.kill_and_restart(server, self.options.sizes.of(group))?;
                self.stage.verdict()?;
            }
            part::let_age(&self.stage, &mut self.random).map_err(|broken| broken.to_string())?;
            redrive::all(&self.program, &self.stage)?;
            part::unsettle(&self.stage, &mut self.random).map_err(|broken| broken.to_string())?;
            part::drain_alive(&self.stage, &mut server)?;
            self.mqtt.settle()?;
            self.amqp10.drain()?;
            self.wills.settle()?;
            self.shovels.settle(&self.stage)?;
            // What was settled and fenced while draining must not come back.
            server = self.kill_and_restart(server, self.options.sizes.of(group + 1))?;
            part::drain_alive(&self.stage, &mut server)?;
            self.mqtt.settle()?;
            self.amqp10.drain()?;
            self.wills.settle()?;
            self.shovels.settle(&self.stage)?;
            let retired = self.stage.number();
            self.stage.checker().finish(retired);
            self.stage.verdict()?;
            self.alive_since(before)?;
            self.amqp10.alive()?;
            self.shovels.alive()?;
            self.play_calmly(&mut server)?;
            self.play_before_waiters(&mut server)?;
            println!("cycle {}: {}", self.cycle, self.progress());
            if self.cycle == self.options.cycles {
                break;
            }
        }
        server.kill()
    }

    /// A broker that takes nothing loses nothing: that is no success.
    fn alive_since(&self, before: Counts) -> Result<(), String> {
        let now = self.stage.checker().counts();
        for (what, before, now) in [
            ("confirmed", before.confirmed, now.confirmed),
            ("delivered", before.delivered, now.delivered),
            ("fenced", before.fenced, now.fenced),
            ("committed", before.transactions, now.transactions),
            ("dead of age", before.expired, now.expired),
            ("redriven", before.redriven, now.redriven),
            ("counted", before.counted, now.counted),
            ("kept", before.kept, now.kept),
        ] {
            if before == now {
                return Err(format!("nothing was {what} in the last {} cycles", self.options.drain_every));
            }
        }
        Ok(())
    }

    /// Lets all parts play for a while and kills the broker in the middle of it.
    fn play(&mut self, server: &mut Server) -> Result<(), String> {
        let end = self.some_time_from_now();
        self.play_all(
            server,
            end + part::UNENDING,
            |_| true,
            |server, stage| {
                watch(server, stage, end)?;
                stage.begin_dying();
                server.kill()
            },
        )
    }

    /// Lets all parts play for a while and leave. The broker lives on: what it has confirmed since
    /// it was started must be there, even if it would not survive a kill.
    fn play_calmly(&mut self, server: &mut Server) -> Result<(), String> {
        let end = self.some_time_from_now();
        self.play_all(server, end, |_| true, |server, stage| watch(server, stage, end))?;
        self.drain_at_rest(server)
    }

    /// Lets the parts publish for a while to consumers that wait: what is confirmed must come to
    /// them in time.
    fn play_before_waiters(&mut self, server: &mut Server) -> Result<(), String> {
        let end = self.some_time_from_now();
        self.play_all(server, end, Part::only_publishes, |server, stage| {
            let waited = part::wait_upon(stage, end).map_err(|broken| broken.to_string());
            watch(server, stage, end).and(waited)
        })?;
        self.drain_at_rest(server)
    }

    /// All have left: what is still there comes now, and nothing is missing.
    fn drain_at_rest(&mut self, server: &mut Server) -> Result<(), String> {
        self.stage.verdict()?;
        rest::wait(&self.program, &self.stage)?;
        part::drain_alive(&self.stage, server)?;
        let retired = self.stage.number();
        self.stage.checker().finish(retired);
        self.stage.verdict()
    }

    fn some_time_from_now(&mut self) -> Instant {
        let (from, to) = self.options.seconds_per_cycle;
        Instant::now() + Duration::from_millis(self.random.within(from..=to))
    }

    /// Lets some parts play until then, beside what is done meanwhile.
    fn play_all(
        &mut self,
        server: &mut Server,
        until: Instant,
        plays: impl Fn(&Part) -> bool,
        meanwhile: impl FnOnce(&mut Server, &Stage) -> Result<(), String>,
    ) -> Result<(), String> {
        let plays = |part: &Part| plays(part) && (self.options.ids || !part.has_ids());
        let mut seeds: Vec<Random> = (0..PARTS.len() as u64).map(|part| self.random.fork(part)).collect();
        let [mut redriver, mut keeper, mut annotator, mut publisher, mut subscriber, mut tenth, mut dying, mut digger] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|other| self.random.fork(PARTS.len() as u64 + other));
        let (stage, program, kept, noted) = (&self.stage, &self.program, &self.kept, &self.noted);
        let (mqtt, amqp10, wills, shovels) = (&self.mqtt, &self.amqp10, &self.wills, &self.shovels);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                kept.lock().unwrap_or_else(PoisonError::into_inner).play(stage, &mut keeper, until);
            });
            scope.spawn(|| {
                noted.lock().unwrap_or_else(PoisonError::into_inner).play(stage, &mut annotator, until);
            });
            scope.spawn(|| redrive::play(program, stage, &mut redriver, until));
            scope.spawn(|| mqtt.publish(stage, &mut publisher, until));
            scope.spawn(|| mqtt.consume(stage, &mut subscriber, until));
            amqp10.play(scope, stage, &mut tenth, until);
            scope.spawn(|| wills.play(stage, &mut dying, until));
            scope.spawn(|| shovels.publish(stage, &mut digger, until));
            scope.spawn(|| shovels.consume(stage, until));
            for (part, random) in PARTS.iter().zip(&mut seeds).filter(|(part, _)| plays(part)) {
                scope.spawn(move || part.play(stage, random, until));
            }
            let outcome = meanwhile(server, stage);
            // No part goes on beside a broker that has failed.
            if outcome.is_err() {
                stage.begin_dying();
            }
            outcome
        })
    }

    /// The broker is dead, or dies now: starts it on the same data, sometimes once more in vain.
    fn kill_and_restart(&mut self, mut server: Server, sizes: Sizes) -> Result<Server, String> {
        server.kill()?;
        self.stage.tell(&[Event::Killed]);
        self.amqp10.killed();
        self.stage.end_dying();
        if self.random.chance(KILLED_AGAIN) {
            let mut unlucky = self.program.start(&Launch::plain(sizes))?;
            std::thread::sleep(Duration::from_millis(self.random.within(0..=KILLED_WITHIN)));
            if let Some(status) = unlucky.ended() {
                return Err(format!("the broker ended while starting ({status})"));
            }
            unlucky.kill()?;
        }
        let server = self.start(sizes)?;
        self.stage.control(Control::verify)?;
        counting::all(&self.stage).map_err(|broken| broken.to_string())?;
        self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).check(&self.program, &self.stage)?;
        self.noted.get_mut().unwrap_or_else(PoisonError::into_inner).check(&self.stage)?;
        Ok(server)
    }

    fn start(&mut self, sizes: Sizes) -> Result<Server, String> {
        let threads = *self.random.pick(&THREADS);
        let budget = self.random.pick(&BUDGETS).map(|budget| ("HERMOD_MEMORY_BUDGET", budget.to_owned()));
        let variables = budget.into_iter().collect();
        let mut server = self.program.start(&Launch { threads, variables, ..Launch::plain(sizes) })?;
        self.restarts.push(server.wait_until_ready(self.stage.ports)?);
        Ok(server)
    }

    fn progress(&self) -> String {
        let counts = self.stage.checker().counts();
        format!(
            "{} published, {} confirmed, {} delivered, {} fenced, {} committed, nothing lost",
            counts.attempted, counts.confirmed, counts.delivered, counts.fenced, counts.transactions
        )
    }
}

/// Waits until then, or until something goes wrong. An error if the broker has ended by itself.
fn watch(server: &mut Server, stage: &Stage, end: Instant) -> Result<(), String> {
    let mut ended = None;
    while Instant::now() < end && ended.is_none() && stage.problems().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        ended = server.ended();
    }
    if !stage.problems().is_empty() {
        // Connections that broke by themselves may be the first that is seen of the broker's own
        // death.
        std::thread::sleep(DYING);
        ended = server.ended();
    }
    ended.map_or(Ok(()), |status| Err(format!("the broker ended by itself ({status})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_one_number_or_two() {
        for (text, expected) in
            [("0.2..1.5", Some((200, 1500))), ("2", Some((2000, 2000))), ("3..2", None), ("x", None)]
        {
            assert_eq!(parse_seconds(text).ok(), expected, "{text}");
        }
    }
}
