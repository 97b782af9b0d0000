//! The thread of management and what it listens on.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::door::{Door, Limits};
use crate::serving::{Secure, Serving};
use crate::source::Source;

/// Changes that are made at a time, and what else waits for the disk or for a hash; more of them wait for these.
const AT_ONCE: usize = 64;

/// What management is reached by.
#[derive(Debug)]
pub struct Endpoints {
    /// Bound sockets for HTTP, non-blocking.
    pub http: Vec<TcpListener>,
    /// The same within TLS.
    pub https: Option<Secure>,
    /// What connections to both are held to.
    pub limits: Limits,
    /// Where the control socket is to be, if anywhere. Ignored where there are no UNIX sockets.
    pub control: Option<PathBuf>,
}

/// Management while it runs.
#[derive(Debug)]
pub struct Management {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    control: Option<PathBuf>,
}

impl Management {
    /// Starts to serve `source` on a thread of its own. The second result says why there is no control socket, if so:
    /// everything else works without.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(source: &Arc<Source>, endpoints: Endpoints) -> io::Result<(Self, Option<io::Error>)> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(AT_ONCE).build()?;
        let (stop, stopped) = watch::channel(false);
        let mut control = endpoints.control;
        let mut no_control = None;
        {
            let _inside = runtime.enter();
            let serving = Serving::new(source, Door::new(endpoints.limits));
            let (secure, handshake) = endpoints.https.map(Secure::split).unzip();
            let plain = endpoints.http.into_iter().map(|socket| (socket, None));
            let secure = secure.into_iter().flatten().map(|socket| (socket, handshake.clone()));
            for (socket, handshake) in plain.chain(secure) {
                let listener = tokio::net::TcpListener::from_std(socket)?;
                drop(runtime.spawn(serving.clone().accept(listener, handshake)));
            }
            #[cfg(unix)]
            if let Some(path) = &control {
                match crate::control::bind(path) {
                    Ok(listener) => drop(runtime.spawn(crate::control::serve(listener, source.clone()))),
                    Err(error) => no_control = Some(error),
                }
            }
        }
        if no_control.is_some() || cfg!(not(unix)) {
            control = None;
        }
        let mut waiting = stopped;
        let thread = std::thread::Builder::new().name("hermod-management".to_owned()).spawn(move || {
            // An error means that `Management` is gone, which ends it just the same.
            let _ = runtime.block_on(waiting.wait_for(|stop| *stop));
            runtime.shutdown_background();
        })?;
        Ok((Self { stop, thread: Some(thread), control }, no_control))
    }

    /// Stops serving and removes the control socket.
    pub fn stop(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of management had panicked");
        }
        if let Some(path) = self.control.take() {
            // It is replaced at the next start if it stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.finish();
    }
}
