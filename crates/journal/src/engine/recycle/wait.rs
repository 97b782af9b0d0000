//! Waiting until everything known at some moment is durable: every group begun by then has ended,
//! and all appended until then is flushed.
//!
//! Invariant: a wait is over only if no crash from then on can undo what was the case when it
//! began.

use crate::engine::Engine;

/// What is waited for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Wait {
    /// Groups up to this one must end.
    group: u64,
    /// Known once they have: this must be flushed.
    sequence: Option<u64>,
}

impl Wait {
    /// The group that is waited for.
    pub(super) fn group(&self) -> Option<u64> {
        self.sequence.is_none().then_some(self.group)
    }

    /// The flush that is waited for.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.sequence
    }
}

impl Engine {
    /// Begins to wait for all that is the case now.
    pub(crate) fn wait_from_now(&self) -> Wait {
        Wait { group: self.with_buffer(|buffer| buffer.groups.last_begun()).unwrap_or(0), sequence: None }
    }

    /// Whether the wait is over, with everything up to `synced` flushed; makes sure that it can
    /// end.
    pub(crate) fn is_over(&self, synced: u64, wait: &mut Wait) -> bool {
        let sequence = match wait.sequence {
            Some(sequence) => sequence,
            None => {
                if self.with_buffer(|buffer| buffer.groups.open_up_to(wait.group)).unwrap_or(false) {
                    return false;
                }
                let mut state = self.state.lock();
                let Some(sequence) = state.last_sequence() else { return false };
                wait.sequence = Some(sequence);
                state.sync_wanted = true;
                self.wake_writer(&mut state);
                sequence
            }
        };
        synced >= sequence
    }
}
