//! Redriving: moves dead letters back to their origin while an operator waits. A task does the same
//! by itself ([`crate::tasks`]).

use crate::broker::Broker;
use crate::browse::Browse;
use crate::catalog::tasks::{TaskCounts, TaskKind, TaskSpec};
use crate::error::Error;
use crate::tasks::run::{Run, RunMode, Stepped};

/// The result of a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redriven {
    /// Messages that were moved back, or would be.
    pub moved: u64,
    /// Messages that never died.
    pub alive: u64,
    /// Messages whose queue is gone, and whose exchange routes them nowhere.
    pub homeless: u64,
    /// Messages for which their queue is too full, or the log too small.
    pub refused: u64,
    /// The rest was not moved because the disk has no room.
    pub out_of_room: bool,
}

/// Whether dead letters are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveMode {
    /// They are counted, and stay.
    DryRun,
    /// They move.
    Move,
}

impl Broker {
    /// Moves the dead letters of a queue back to the queue in which each died first. If that is
    /// gone, the exchange of the publish routes it.
    ///
    /// # Errors
    /// As [`Broker::browse`]. Messages that were moved before stay moved.
    pub fn redrive(
        &self,
        browse: &Browse<'_>,
        mode: RedriveMode,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Redriven, Error> {
        let engine = &self.engine;
        let spec = TaskSpec {
            kind: TaskKind::Redrive,
            undo: None,
            queue: browse.queue.to_owned(),
            target: None,
            selector: browse.selector.to_owned(),
            limit: Some(browse.limit),
            rate: None,
            author: String::new(),
        };
        let run_mode = match mode {
            RedriveMode::DryRun => RunMode::Plan,
            RedriveMode::Move => RunMode::Go,
        };
        let mut run = Run::begin(engine, browse.vhost, &spec, run_mode)?;
        let mut out_of_room = false;
        while wanted() && !out_of_room {
            match run.step(engine, u64::MAX, None, &mut |_| {})? {
                Stepped::On => {}
                Stepped::End => break,
                Stepped::NoRoom => out_of_room = true,
            }
        }
        let TaskCounts { taken, alive, homeless, refused } = run.counts;
        if mode == RedriveMode::Move {
            engine.totals.deaths.redriven.add(taken);
        }
        Ok(Redriven { moved: taken, alive, homeless, refused, out_of_room })
    }
}
