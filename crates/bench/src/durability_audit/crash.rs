//! A broker killed while it confirms: who publishes until the connection ends, who kills and starts
//! again, and what comes back.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::driver::link::Interest;
use crate::driver::{self, Driver, Event, Line, Part};
use crate::measure::sequence::{Numbers, Seen};
use crate::measure::stamp::{Bodies, Stamp};
use crate::measure::window::{Confirm, Window};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::Scenario;
use bench_record::target::Target;
use machine::clock::now;
use machine::process::{descendants, is_alive};
use peers::Guard;

/// How long one wait for the broker lasts.
const GLANCE: Duration = Duration::from_millis(20);
/// What is missing after this much silence is lost.
const SILENCE: Duration = Duration::from_secs(5);
/// Longest time that killed processes take to be gone.
const DYING: Duration = Duration::from_secs(10);
/// Between two attempts to reach a broker that is starting.
const ATTEMPT: Duration = Duration::from_millis(200);

/// One kill and what was left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Crash {
    /// Seconds of publishing before it.
    pub(super) killed_after_s: f64,
    /// Seconds from the restart until it had the queue again.
    pub(super) back_s: f64,
    pub(super) sent: u64,
    /// Confirmed when the connection ended.
    pub(super) confirmed: u64,
    /// Different messages that were there after the restart.
    pub(super) found: u64,
    /// Confirmed messages that were not among them.
    pub(super) lost: u64,
}

impl std::fmt::Display for Crash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { killed_after_s, back_s, sent, confirmed, found, lost } = self;
        write!(f, "killed after {killed_after_s:.1} s: {sent} sent, {confirmed} confirmed; back after {back_s:.1} s")?;
        write!(f, " with {found}, {lost} lost")
    }
}

/// What a publisher saw until it was told to stop or its connection ended.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) sent: u64,
    pub(super) confirmed: Numbers,
    /// How the connection ended, if it did.
    pub(super) lost: Option<String>,
    /// Messages that were neither confirmed nor refused when its patience ended.
    pub(super) unanswered: u64,
}

/// What a publisher is told, and what it tells meanwhile.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) over: AtomicBool,
    /// Messages confirmed so far.
    pub(super) confirmed: AtomicU64,
    /// How long it waits for one more confirm when it is over.
    pub(super) patience: Duration,
}

impl Signals {
    pub(super) fn new(patience: Duration) -> Self {
        Self { over: AtomicBool::new(false), confirmed: AtomicU64::new(0), patience }
    }
}

/// Publishes with at most `window` messages unconfirmed until it is over, then waits for the
/// confirms; or until the connection ends.
pub(super) fn publish(mut line: Line, bodies: &Bodies, window: u64, signals: &Signals) -> Witness {
    let mut witness = Witness::default();
    let mut open = Window::new(window);
    let ended = publish_on(&mut line, bodies, &mut open, &mut witness, signals);
    match ended {
        Ok(()) => witness.unanswered = open.open(),
        Err(failure) => witness.lost = Some(failure.to_string()),
    }
    witness
}

fn publish_on(
    line: &mut Line,
    bodies: &Bodies,
    open: &mut Window,
    witness: &mut Witness,
    signals: &Signals,
) -> Result<(), Failure> {
    line.link.set_nonblocking()?;
    let (mut body, mut heard) = (bodies.blank(), Instant::now());
    loop {
        let stopping = signals.over.load(Relaxed);
        if stopping && (open.open() == 0 || heard.elapsed() > signals.patience) {
            return Ok(());
        }
        while !stopping && open.has_room() {
            witness.sent += 1;
            let at = now();
            open.push(at);
            bodies.write(&mut body, &Stamp { producer: 0, number: witness.sent, intended: at, sent: at });
            line.talk.publish(&body)?;
        }
        let blocked = !line.link.write(line.talk.output())?;
        line.link.wait(if blocked { Interest::ReadAndWrite } else { Interest::Read }, GLANCE)?;
        let (confirmed, before) = (&mut witness.confirmed, open.open());
        line.receive(&mut |event| {
            if let Event::Confirm { upto, multiple, accepted } = event {
                open.confirm(Confirm { upto, multiple }, |number, _| {
                    if accepted {
                        confirmed.insert(number);
                    }
                });
            }
        })?;
        signals.confirmed.store(confirmed.count(), Relaxed);
        if !stopping || open.open() < before {
            heard = Instant::now();
        }
    }
}

/// Takes what the queue holds until all that is `wanted` is there, or nothing has come for a while.
pub(super) fn drain(mut line: Line, bodies: &Bodies, wanted: &Numbers) -> Result<Numbers, Failure> {
    line.link.set_read_timeout(GLANCE)?;
    let (mut seen, mut heard) = (Seen::default(), Instant::now());
    while heard.elapsed() < SILENCE {
        let mut count = 0;
        let busy = line.receive(&mut |event| {
            if let Event::Delivery { body, .. } = event {
                count += 1;
                if let Ok(stamp) = bodies.read(body) {
                    seen.take(stamp.number);
                }
            }
        })?;
        if !busy {
            line.talk.settle()?;
        }
        line.link.write_all(line.talk.output())?;
        if count > 0 {
            heard = Instant::now();
        } else if wanted.missing_from(&seen.numbers) == 0 {
            break;
        }
    }
    Ok(seen.numbers)
}

/// Opens the broker's queue again, and a consumer on it, as soon as both are answered: some brokers
/// take connections before they have found their queues.
pub(super) fn reopened(
    target: &Target,
    scenario: &Scenario,
    number: u32,
    patience: Duration,
) -> Result<(Box<dyn Driver>, Line), Failure> {
    let end = Instant::now() + patience;
    loop {
        let mut driver = driver::open(target, scenario, number)?;
        match driver.prepare().and_then(|()| driver.open(Part::Consume(0))) {
            Ok(line) => return Ok((driver, line)),
            Err(failure) if Instant::now() > end => {
                return Err(failure).context(format!("the broker did not come back within {} s", patience.as_secs()));
            }
            Err(_) => std::thread::sleep(ATTEMPT),
        }
    }
}

/// Ends the broker's processes without a warning, and starts it again.
#[derive(Debug)]
pub(super) struct Killer {
    roots: Vec<u32>,
    again: Again,
}

/// How a broker is started again.
#[derive(Debug)]
enum Again {
    /// By a command of the shell.
    Command { command: String, child: Option<Child> },
    /// As the peer was started before.
    Peer(Guard),
}

impl Killer {
    /// For `target`, of whose start `guard` knows. Refuses what can't be killed, or started again.
    pub(super) fn new(target: &Target, guard: Guard, command: Option<&str>) -> Result<Self, Failure> {
        if !cfg!(unix) {
            return Err(Failure::new("--restart needs a system with signals"));
        }
        let again = match (&target.software.peer, command) {
            (Some(_), None) if guard.started_it() => Again::Peer(guard),
            (Some(peer), None) => {
                return Err(Failure::new(format!(
                    "{peer} was up before, and is not killed here: `hermod-bench peers stop {peer}` first"
                )));
            }
            (Some(peer), Some(_)) => {
                return Err(Failure::new(format!("--restart without a command: {peer} is started again as it was")));
            }
            (None, None) => {
                return Err(Failure::new("--restart needs the command that starts the broker: --restart 'broker …'"));
            }
            (None, Some(_)) if target.pids.is_empty() => {
                return Err(Failure::new("--restart needs the broker's processes: --target URI,pid=PID"));
            }
            (None, Some(command)) => Again::Command { command: command.to_owned(), child: None },
        };
        Ok(Self { roots: target.pids.clone(), again })
    }

    /// The process that outlives the audit.
    pub(super) fn left_running(&self) -> Option<u32> {
        match &self.again {
            Again::Command { child: Some(child), .. } => Some(child.id()),
            Again::Command { child: None, .. } => self.roots.first().copied(),
            Again::Peer(_) => None,
        }
    }

    /// Kills all processes of the broker, this program never, and waits until they are gone: a
    /// socket that they listened on is free only then.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        let own = std::process::id();
        let pids: Vec<u32> = descendants(&self.roots).into_iter().filter(|pid| *pid > 1 && *pid != own).collect();
        pids.iter().for_each(|pid| kill(*pid));
        let end = Instant::now() + DYING;
        while pids.iter().any(|pid| is_alive(*pid)) {
            if Instant::now() > end {
                return Err(Failure::new(format!("the processes {pids:?} can't be killed")));
            }
            std::thread::sleep(GLANCE);
        }
        if let Again::Command { child: Some(child), .. } = &mut self.again {
            // No other process would take its remains away.
            let _ = child.wait();
        }
        Ok(())
    }

    /// Starts the broker again. A command must not end before the broker does.
    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.roots = match &mut self.again {
            Again::Peer(guard) => guard.start_again()?,
            Again::Command { command, child } => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("exec {command}")]);
                let shell = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let started = shell.spawn().context(command)?;
                let roots = vec![started.id()];
                *child = Some(started);
                roots
            }
        };
        Ok(())
    }
}

#[cfg(unix)]
fn kill(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that has ended meanwhile is as dead.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(_: u32) {
    // There are no signals here: see `Killer::new`.
}
