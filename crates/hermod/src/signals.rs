//! The signals that stop the server, and the one that makes it read files again.

use tokio::runtime::{Builder, Runtime};
#[cfg(not(unix))]
use tokio::sync::Notify;

use crate::exit::{Exit, Failure};

/// Told by a service manager that has no signals.
#[cfg(not(unix))]
static STOP: Notify = Notify::const_new();

/// Stops the server as Ctrl-C does.
#[cfg(windows)]
pub(crate) fn stop() {
    STOP.notify_one();
}

/// Signals, which are caught from its creation on.
pub(crate) struct Signals {
    runtime: Runtime,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP (Ctrl-C elsewhere).
    pub(crate) fn catch() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Exit::System.because(format!("signals cannot be caught: {error}"));
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let inside = runtime.enter();
            let terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            let hangup = signal(SignalKind::hangup()).map_err(failed)?;
            drop(inside);
            Ok(Self { runtime, terminate, interrupt, hangup })
        }
        #[cfg(not(unix))]
        Ok(Self { runtime })
    }

    /// Blocks until a signal stops the server, and returns its name. Calls `reload` at each SIGHUP
    /// before that.
    #[cfg(unix)]
    pub(crate) fn wait(self, reload: impl Fn()) -> &'static str {
        let Self { runtime, mut terminate, mut interrupt, mut hangup } = self;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return "SIGTERM",
                    _ = interrupt.recv() => return "SIGINT",
                    _ = hangup.recv() => reload(),
                }
            }
        })
    }

    /// Blocks until Ctrl-C or the end of the service; this system has no SIGHUP.
    #[cfg(not(unix))]
    pub(crate) fn wait(self, _reload: impl Fn()) -> &'static str {
        self.runtime.block_on(async {
            tokio::select! {
                // An error means that there is no console.
                Ok(()) = tokio::signal::ctrl_c() => "Ctrl-C",
                () = STOP.notified() => "the service manager",
            }
        })
    }
}
