//! A broker and a history of what was done to it: what every fault is made on.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Scene, Stop};
use crate::history::Event;
use crate::part::{self, PARTS};
use crate::random::Random;
use crate::server::{Launch, Program, Server};
use crate::stage::Stage;
use crate::talk::Control;

/// The largest body of the parts of the crash harness: what fits the smallest log of a fault.
const LARGEST_BODY: u64 = 16 * 1024;
/// How long a broker that dies by itself may take until its process is gone.
const DYING: Duration = Duration::from_millis(500);

/// A broker's program, its history and a source of decisions.
pub(super) struct Rig {
    pub(super) program: Program,
    pub(super) stage: Arc<Stage>,
    pub(super) random: Random,
}

impl Rig {
    /// Prepares the program in the scene's folder. Nothing is started.
    pub(super) fn new(scene: &Scene) -> Result<Self, String> {
        let program = Program::prepare(&scene.source, &scene.folder, None)?;
        let stage = Arc::new(Stage::new(program.ports(), scene.seed as u32, LARGEST_BODY));
        Ok(Self { program, stage, random: Random::new(scene.seed) })
    }

    /// Starts the broker and waits until it serves.
    pub(super) fn start(&self, launch: &Launch) -> Result<Server, String> {
        let mut server = self.program.start(launch)?;
        server.wait_until_ready(self.stage.ports).map_err(|error| self.with_log(error))?;
        Ok(server)
    }

    /// The same on an empty data directory: the queues of the load are declared as well.
    pub(super) fn start_new(&self, launch: &Launch) -> Result<Server, String> {
        let server = self.start(launch)?;
        self.stage.control(Control::declare)?;
        Ok(server)
    }

    /// Makes the queues of the load in an empty data directory. Nothing runs afterwards.
    pub(super) fn declare(&self, launch: &Launch) -> Result<(), String> {
        let mut server = self.start_new(launch)?;
        self.kill(&mut server)
    }

    /// Kills the broker without warning and tells the history.
    pub(super) fn kill(&self, server: &mut Server) -> Result<(), String> {
        self.stage.begin_dying();
        server.kill()?;
        self.buried();
        Ok(())
    }

    /// The broker is gone: tells the history, and allows no broken connection any more.
    pub(super) fn buried(&self) {
        self.stage.tell(&[Event::Killed]);
        self.stage.end_dying();
    }

    /// Lets all parts of the crash harness play until `end` says so, or the broker ends by itself,
    /// or something goes wrong. The broker is dead afterwards, and the history knows; says how it
    /// ended if it did so by itself, which is for the caller to judge.
    pub(super) fn play(
        &mut self,
        server: &mut Server,
        mut end: impl FnMut() -> bool,
    ) -> Result<Option<ExitStatus>, String> {
        let verified = self.stage.control(Control::verify);
        if let Some(status) = server.ended() {
            self.buried();
            return Ok(Some(status));
        }
        verified?;
        let mut seeds: Vec<Random> = (0..PARTS.len() as u64).map(|part| self.random.fork(part)).collect();
        let stage = &self.stage;
        let until = Instant::now() + part::UNENDING;
        let ended = std::thread::scope(|scope| {
            for (part, random) in PARTS.iter().zip(&mut seeds) {
                scope.spawn(move || part.play(stage, random, until));
            }
            let mut ended = None;
            while ended.is_none() && stage.problems().is_empty() && !end() {
                std::thread::sleep(Duration::from_millis(1));
                ended = server.ended();
            }
            let since = Instant::now();
            // Connections that broke may be the first that is seen of the broker's own death.
            while ended.is_none() && !stage.problems().is_empty() && since.elapsed() < DYING {
                std::thread::sleep(Duration::from_millis(1));
                ended = server.ended();
            }
            stage.begin_dying();
            server.kill().map(|()| ended)
        })?;
        self.buried();
        if ended.is_some() {
            self.stage.forgive_lost();
        }
        Ok(ended)
    }

    /// Starts the broker as it is on what a fault has left, drains it, and judges the whole
    /// history. The broker must serve and everything confirmed must be there; afterwards it is dead
    /// and its queues are empty.
    pub(super) fn judge(&self, launch: &Launch) -> Result<(), String> {
        let mut server = self.start(launch)?;
        self.stage.control(Control::verify)?;
        part::drain_alive(&self.stage, &mut server)?;
        let retired = self.stage.number();
        self.stage.checker().finish(retired);
        self.stage.verdict()?;
        self.kill(&mut server)
    }

    /// Drains a broker that does nothing by itself and judges the history, without waiting where
    /// nothing is missing.
    pub(super) fn settle(&self) -> Result<(), String> {
        let retired = self.stage.number();
        part::drain(&self.stage, Duration::ZERO).map_err(|error| self.with_log(error.to_string()))?;
        // Deliveries may still have been under way: only a second look, with patience, says that
        // something is missing.
        let mut look = self.stage.checker().clone();
        look.finish(retired);
        if look.counts().violations > 0 {
            part::drain(&self.stage, part::APART).map_err(|error| self.with_log(error.to_string()))?;
        }
        self.stage.checker().finish(retired);
        self.stage.verdict()
    }

    /// An error together with the end of the broker's log.
    pub(super) fn with_log(&self, error: String) -> String {
        format!("{error}\n{}", self.program.log_tail())
    }
}

/// Fails with `error` unless `holds`.
pub(super) fn demand(holds: bool, error: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::Failed(error())) }
}

/// Waits until `reached`; fails with `what` if that takes longer than `limit`, or if the broker
/// ends by itself.
pub(super) fn wait_for(
    server: &mut Server,
    limit: Duration,
    what: &str,
    mut reached: impl FnMut() -> bool,
) -> Result<Duration, String> {
    let begin = Instant::now();
    while !reached() {
        if let Some(status) = server.ended() {
            return Err(format!("the broker ended by itself ({status}) before {what}"));
        }
        if begin.elapsed() > limit {
            return Err(format!("{what}: not within {limit:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(begin.elapsed())
}
