//! A peer that is there for one run: a keeper process starts it, starts it again when it is told
//! that it was killed, and ends it when this program ends in whatever way. The keeper's standard
//! input is a pipe from here, and a pipe closes even when its writer is killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use super::directory::PeersDirectory;
use super::instance::{Instance, Starting, start_again, start_installed};
use super::recipe::Wanted;
use super::source::install;
use bench_record::failure::{Context, Failure};
use bench_record::output;
use machine::interrupt::Interrupt;
use machine::netns;

/// What a keeper says when the peer is ready; anything else is why it is not.
const READY: &str = "ready";
/// What a keeper is told to start the peer again.
const AGAIN: &str = "again";

/// Ends a peer when it is dropped, if it was started for this value, and lets others measure it.
#[derive(Debug, Default)]
pub struct Guard {
    keeper: Option<Keeper>,
    /// Says that this run measures it; none where the run has said so already, or it is no peer.
    claim: Option<File>,
    ready_seconds: Option<f64>,
}

/// The process that has started a peer. The peer ends when this value is dropped.
#[derive(Debug)]
struct Keeper {
    child: Child,
    said: BufReader<ChildStdout>,
    place: PeersDirectory,
    instance: String,
    /// When it was heard that the peer is ready.
    ready: Instant,
}

impl Guard {
    /// The same, holding a claim on `instance`.
    pub(super) fn with(mut self, claim: Option<File>, instance: &Instance) -> Self {
        (self.claim, self.ready_seconds) = (claim, instance.ready_seconds);
        self
    }

    /// Starts `wanted` under a keeper.
    pub(super) fn start(place: &PeersDirectory, wanted: &Wanted) -> Result<Self, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = netns::beside_brokers(&program);
        command.args(["peers", "--dir"]).arg(place.root());
        command.args(["keep", &wanted.name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for this program; the keeper ends the peer afterwards.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().context("starting a keeper")?;
        let said = child.stdout.take().ok_or_else(|| Failure::new("a keeper without standard output"))?;
        let (said, place, instance) = (BufReader::new(said), place.clone(), wanted.instance());
        let mut keeper = Keeper { child, said, place, instance, ready: Instant::now() };
        keeper.await_ready()?;
        Ok(Self { keeper: Some(keeper), ..Self::default() })
    }

    /// True when the peer was started for this value, and so may be killed.
    pub fn started_it(&self) -> bool {
        self.keeper.is_some()
    }

    /// Seconds from the start of the peer's first process until it was ready, also in another run;
    /// none where it is no peer.
    pub fn ready_seconds(&self) -> Option<f64> {
        self.ready_seconds
    }

    /// Seconds since the first process of the peer was started; none where this value did not start
    /// it.
    pub fn seconds_since_start(&self) -> Result<Option<f64>, Failure> {
        let Some(keeper) = &self.keeper else { return Ok(None) };
        let since_ready = keeper.ready.elapsed().as_secs_f64();
        Ok(keeper.instance()?.ready_seconds.map(|seconds| seconds + since_ready))
    }

    /// Starts the peer again, which was killed, with the data that it left. Returns its
    /// new processes.
    pub fn start_again(&mut self) -> Result<Vec<u32>, Failure> {
        let keeper = self.keeper.as_mut().ok_or_else(|| Failure::new("only what was started here is started again"))?;
        let input = keeper.child.stdin.as_mut().ok_or_else(|| Failure::new("a keeper without input"))?;
        writeln!(input, "{AGAIN}").context("asking a keeper")?;
        keeper.await_ready()?;
        Ok(keeper.instance()?.pids())
    }
}

impl Keeper {
    /// Waits until the peer is ready; fails with what the keeper says instead.
    fn await_ready(&mut self) -> Result<(), Failure> {
        let mut said = String::new();
        self.said.read_line(&mut said).context("reading from a keeper")?;
        if said.trim() == READY {
            self.ready = Instant::now();
            return Ok(());
        }
        self.said.read_to_string(&mut said).context("reading from a keeper")?;
        Err(Failure::new(said.trim()))
    }

    fn instance(&self) -> Result<Instance, Failure> {
        let noted = Instance::read(&self.place, &self.instance)?;
        noted.ok_or_else(|| Failure::new(format!("{}: it ended again", self.instance)))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a keeper does: starts the peer, says so, starts it again whenever it is told to, and ends
/// it with its input.
pub(super) fn keep(place: &PeersDirectory, wanted: &Wanted, port_base: u16) -> Result<bool, Failure> {
    let kept = serve(place, wanted, port_base);
    if let Err(failure) = &kept {
        output::show(&failure.to_string())?;
    }
    Ok(kept.is_ok())
}

fn serve(place: &PeersDirectory, wanted: &Wanted, port_base: u16) -> Result<(), Failure> {
    Interrupt::leave_to_parent()?;
    let software = install(place, wanted)?;
    let starting = Starting { place, wanted, software: &software };
    let mut instance = start_installed(&starting, port_base)?;
    let served = obey(&starting, &mut instance);
    instance.stop(place)?;
    served
}

/// Does what it is told until the other side has gone.
fn obey(starting: &Starting<'_>, instance: &mut Instance) -> Result<(), Failure> {
    let mut told = BufReader::new(std::io::stdin().take(1 << 16));
    loop {
        // A parent that can't be told has ended; so does its peer.
        output::show(&format!("{READY}\n"))?;
        let mut line = String::new();
        // Whatever else comes, its end is the parent's end.
        match told.read_line(&mut line) {
            Ok(1..) if line.trim() == AGAIN => start_again(starting, instance)?,
            _ => return Ok(()),
        }
    }
}
