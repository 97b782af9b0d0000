//! Ctrl-C: the first asks for an orderly end, in which the present slice is cut short, its queues are removed and what was
//! measured is written; the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Context, Failure};

/// Exit code of a program that was interrupted, as shells count it: 128 and the number of the signal.
const EXIT_INTERRUPTED: i32 = 130;

/// Whether the run was asked to end. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for Ctrl-C and for the request to terminate.
    pub(crate) fn by_signal() -> Result<Self, Failure> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, raises it, and so arms the exit for the second.
            flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED, interrupt.asked.clone())
                .and_then(|_| flag::register(signal, interrupt.asked.clone()))
                .context("listening for Ctrl-C")?;
        }
        Ok(interrupt)
    }

    /// Lets this process live on through a Ctrl-C on its parent's terminal, and through a request to terminate that goes to all
    /// processes of the program's name: it ends with its parent, after whatever the parent has it do at the end.
    pub(crate) fn leave_to_parent() -> Result<(), Failure> {
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::default()).context("listening for Ctrl-C")?;
        }
        Ok(())
    }

    /// True once an orderly end was asked for.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Asks for an orderly end from inside the program.
    #[cfg(test)]
    pub(crate) fn ask(&self) {
        self.asked.store(true, Relaxed);
    }
}
