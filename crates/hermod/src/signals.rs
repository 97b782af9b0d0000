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

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By a signal of this name.
    BySignal(&'static str),
    /// By something else that was waited for.
    ByOther,
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

    /// Blocks until a signal stops the server, or `other` ends. Calls `reload` at each SIGHUP
    /// before that.
    #[cfg(unix)]
    pub(crate) fn wait(&mut self, reload: impl Fn(), other: impl Future<Output = ()>) -> Ended {
        let Self { runtime, terminate, interrupt, hangup } = self;
        runtime.block_on(async {
            let mut other = std::pin::pin!(other);
            loop {
                tokio::select! {
                    _ = terminate.recv() => return Ended::BySignal("SIGTERM"),
                    _ = interrupt.recv() => return Ended::BySignal("SIGINT"),
                    _ = hangup.recv() => reload(),
                    () = &mut other => return Ended::ByOther,
                }
            }
        })
    }

    /// Blocks until Ctrl-C or the end of the service; this system has no SIGHUP.
    #[cfg(not(unix))]
    pub(crate) fn wait(&mut self, _reload: impl Fn(), other: impl Future<Output = ()>) -> Ended {
        self.runtime.block_on(async {
            tokio::select! {
                // An error means that there is no console.
                Ok(()) = tokio::signal::ctrl_c() => Ended::BySignal("Ctrl-C"),
                () = STOP.notified() => Ended::BySignal("the service manager"),
                () = other => Ended::ByOther,
            }
        })
    }
}
