//! Ctrl-C: the first asks for an orderly end, in which the present slice is cut short, its queues
//! are removed and what was measured is written; the second ends the program at once, unless it
//! comes with the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, sleep};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use bench_record::failure::{Context, Failure};

/// Exit code of a program that was interrupted, as shells count it: 128 and the number of the
/// signal.
const EXIT_INTERRUPTED: i32 = 130;
/// Signals that are no further apart are one request: `timeout` sends its signal to its child, and
/// to its child's group.
const TOGETHER: Duration = Duration::from_millis(100);

/// Whether the run was asked to end. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for Ctrl-C and for the request to terminate.
    pub fn by_signal() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let (asked, armed) = (interrupt.asked.clone(), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED, armed.clone())
                .and_then(|_| flag::register(signal, asked.clone()))
                .context("listening for Ctrl-C")?;
        }
        let arm = move || {
            while !asked.load(Relaxed) {
                sleep(TOGETHER);
            }
            sleep(TOGETHER);
            armed.store(true, Relaxed);
        };
        Builder::new().name("interrupt".to_owned()).spawn(arm).context("listening for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Lets this process live on through a Ctrl-C on its parent's terminal, and through a request
    /// to terminate that goes to all processes of the program's name: it ends with its parent,
    /// after whatever the parent has it do at the end.
    pub fn leave_to_parent() -> Result<(), Failure> {
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::default()).context("listening for Ctrl-C")?;
        }
        Ok(())
    }

    /// True once an orderly end was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Asks for an orderly end from inside the program.
    pub fn ask(&self) {
        self.asked.store(true, Relaxed);
    }
}
