//! What the broker has promised about queues: declared means there, deleted means gone, also after
//! a crash; what was asked for and not answered may be either.

use std::collections::BTreeMap;

use crate::stage::Stage;
use crate::talk::{Broken, Control};

/// How far a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A declare or a delete was asked for and not answered.
    Unknown,
    /// It is there.
    There,
    /// It is gone.
    Gone,
}

/// All queues besides those of the load, and whether those of the load are declared.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    queues: BTreeMap<String, State>,
    load: bool,
}

impl Catalog {
    /// The queues of the load were declared and answered.
    pub(super) fn load_is_declared(&mut self) {
        self.load = true;
    }

    /// Declares a queue.
    pub(super) fn declare(&mut self, control: &mut Control, name: &str) -> Result<(), Broken> {
        self.queues.insert(name.to_owned(), State::Unknown);
        control.declare_extra(name)?;
        self.queues.insert(name.to_owned(), State::There);
        Ok(())
    }

    /// Deletes a queue.
    pub(super) fn delete(&mut self, control: &mut Control, name: &str) -> Result<(), Broken> {
        self.queues.insert(name.to_owned(), State::Unknown);
        control.delete(name)?;
        self.queues.insert(name.to_owned(), State::Gone);
        Ok(())
    }

    /// Checks all promises against a broker that serves, and declares the queues of the load if
    /// they may be missing.
    pub(super) fn check(&self, stage: &Stage) -> Result<(), String> {
        stage.control(if self.load { Control::verify } else { Control::declare })?;
        let mut control = Control::open(stage.ports.amqp).map_err(|error| error.to_string())?;
        for (name, state) in &self.queues {
            let there = control.exists(name).map_err(|error| format!("looking for {name}: {error}"))?;
            if !there {
                // The question has ended the connection.
                control = Control::open(stage.ports.amqp).map_err(|error| error.to_string())?;
            }
            match (state, there) {
                (State::There, false) => return Err(format!("the queue {name} was declared and is not there")),
                (State::Gone, true) => return Err(format!("the queue {name} was deleted and is there")),
                _ => {}
            }
        }
        Ok(())
    }
}
