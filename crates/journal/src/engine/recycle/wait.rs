//! Waiting until everything known at some moment is durable: every group begun by then has ended,
//! and all appended until then is flushed.
//!
//! Invariant: a wait is over only if no crash from then on can undo what was the case when it
//! began.

use crate::Ticket;
use crate::engine::Engine;

/// What is waited for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Wait {
    /// Groups up to this one must end.
    group: u64,
    /// Known once they have: this must be flushed.
    ticket: Option<Ticket>,
}

impl Wait {
    /// The group that is waited for.
    pub(super) fn group(&self) -> Option<u64> {
        self.ticket.is_none().then_some(self.group)
    }

    /// The flush that is waited for.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }
}

impl Engine {
    /// Begins to wait for all that is the case now.
    pub(super) fn wait_from_now(&self) -> Wait {
        Wait { group: self.with_buffer(|buffer| buffer.groups.last_begun()).unwrap_or(0), ticket: None }
    }

    /// Whether the wait is over, with everything up to `synced` flushed; makes sure that it can
    /// end.
    pub(super) fn is_over(&self, synced: Ticket, wait: &mut Wait) -> bool {
        let ticket = match wait.ticket {
            Some(ticket) => ticket,
            None => {
                if self.with_buffer(|buffer| buffer.groups.open_up_to(wait.group)).unwrap_or(false) {
                    return false;
                }
                let mut state = self.state.lock();
                let ticket = state.ticket();
                wait.ticket = Some(ticket);
                state.sync_wanted = true;
                self.wake_writer(&mut state);
                ticket
            }
        };
        synced >= ticket
    }
}
