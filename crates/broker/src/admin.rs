//! Changes by operators while the broker runs: vhosts, users, their limits, policies, tasks,
//! shovels, and global parameters.
//!
//! Changes come one after the other (`Engine::administration`). Each is logged before it counts and
//! returns the ticket for its answer: it is durable when [`Broker::is_durable`] says so. The caller
//! checks the rights of its user.

mod checks;
mod global_parameters;
mod policies;
mod shovels;
mod tasks;
mod users;
mod vhosts;

use std::task::Waker;

use journal::Ticket;

use crate::alarms::{DISK, MEMORY};
use crate::broker::Broker;
use crate::error::Error;
use crate::settings::{DiskLimit, DiskLimits, Switch};

pub use global_parameters::GlobalParameter;
pub use policies::PolicyReport;
pub use shovels::ShovelReport;
pub use tasks::TaskReport;
pub use vhosts::VhostReport;

impl Broker {
    /// True when everything up to `ticket` is durable; if it is not, `waker` is woken when it is.
    pub fn is_durable(&self, ticket: Ticket, waker: &Waker) -> bool {
        if self.engine.journal.is_durable(ticket) {
            return true;
        }
        self.engine.journal.when_durable(ticket, waker);
        false
    }
}

impl Broker {
    /// Raises an alarm, `memory` or `disk`, whatever room there is, or takes it back: then room
    /// decides again. It ends with the process.
    ///
    /// # Errors
    /// `NotFound` for another resource.
    pub fn force_alarm(&self, resource: &str, switch: Switch) -> Result<(), Error> {
        let which = match resource {
            "memory" => MEMORY,
            "disk" => DISK,
            other => {
                return Err(Error::not_found(format!("there is no alarm for '{other}', only for memory and disk")));
            }
        };
        self.engine.force_alarms(which, switch);
        Ok(())
    }

    /// Sets the bytes of queued messages in memory at which the memory alarm rises, until the
    /// process ends. At 0 it is up.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.engine.memory.set_limit(bytes);
    }

    /// Sets the limits of the disk, until the process ends.
    pub fn set_disk_limits(&self, limits: DiskLimits) {
        self.engine.set_disk_limits(|current| *current = limits);
    }

    /// Sets the bytes of the disk that must stay free, until the process ends; 0 for no limit.
    pub fn set_least_free(&self, bytes: u64) {
        let limit = if bytes == 0 { DiskLimit::None } else { DiskLimit::Bytes(bytes) };
        self.engine.set_disk_limits(|current| current.least_free = limit);
    }
}
