//! The signals that stop the server.

use tokio::runtime::{Builder, Runtime};

use crate::exit::{Exit, Failure};

/// Signals that are caught from its making on.
pub(crate) struct Signals {
    runtime: Runtime,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Catches SIGTERM and SIGINT (Ctrl-C elsewhere).
    pub(crate) fn catch() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Exit::System.because(format!("signals cannot be caught: {error}"));
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let (terminate, interrupt) = {
                let _inside = runtime.enter();
                (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?)
            };
            Ok(Self { runtime, terminate, interrupt })
        }
        #[cfg(not(unix))]
        Ok(Self { runtime })
    }

    /// Blocks until one of them comes; returns its name.
    #[cfg(unix)]
    pub(crate) fn wait(self) -> &'static str {
        let Self { runtime, mut terminate, mut interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        })
    }

    /// Blocks until Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) fn wait(self) -> &'static str {
        // An error means that there is no console to press it on: then only the end of the process ends it.
        if self.runtime.block_on(tokio::signal::ctrl_c()).is_err() {
            loop {
                std::thread::park();
            }
        }
        "Ctrl-C"
    }
}
