//! The threads of management and their listeners.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::door::{Door, Limits};
use crate::hosts::Hosts;
use crate::http::{Paths, PerObject};
use crate::http_listener::HttpListener;
use crate::serving::Serving;
use crate::source::Source;
use crate::{pool, sampling};

/// How management can be reached.
#[derive(Debug)]
pub struct Endpoints {
    /// The listeners for HTTP, plain and over TLS.
    pub listeners: Vec<HttpListener>,
    /// Limits of the connections to all of them.
    pub limits: Limits,
    /// Names that the server may be called by.
    pub hosts: Arc<Hosts>,
    /// Who may read the figures of each queue.
    pub per_object: PerObject,
    /// Path of the control socket, if there is one. Ignored on systems without UNIX sockets.
    pub control: Option<PathBuf>,
}

/// Management while it runs.
#[derive(Debug)]
pub struct Management {
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    control: Option<PathBuf>,
}

impl Management {
    /// Starts to serve `source` on threads of its own. TLS handshakes take computing time, so plain
    /// connections have a thread of their own. The second result says why there is no control
    /// socket; everything else works without it.
    ///
    /// # Errors
    /// If a thread can't be started.
    pub fn start(source: &Arc<Source>, endpoints: Endpoints) -> io::Result<(Self, Option<io::Error>)> {
        let (stop, stopped) = watch::channel(false);
        let paths = Paths::new(source, Arc::clone(&endpoints.hosts), endpoints.per_object);
        let serving = Serving::new(source, Door::new(endpoints.limits), paths);
        let (secure, plain): (Vec<_>, Vec<_>) =
            endpoints.listeners.into_iter().partition(|listener| listener.tls.is_some());
        let plain = serve(&serving, plain)?;
        let secure = if secure.is_empty() { None } else { Some(serve(&serving, secure)?) };
        drop(plain.spawn(sampling::run(Arc::clone(source))));
        let mut control = endpoints.control;
        #[cfg(not(unix))]
        let no_control = None;
        #[cfg(unix)]
        let no_control = {
            let _inside = plain.enter();
            match control.as_ref().map(|path| crate::control::bind(path)) {
                Some(Ok(listener)) => {
                    drop(plain.spawn(crate::control::serve(listener, source.clone())));
                    None
                }
                Some(Err(error)) => Some(error),
                None => None,
            }
        };
        if no_control.is_some() || cfg!(not(unix)) {
            control = None;
        }
        let mut started = Self { stop, threads: Vec::new(), control };
        started.threads.push(run("hermod-management", plain, stopped.clone())?);
        if let Some(secure) = secure {
            started.threads.push(run("hermod-https", secure, stopped)?);
        }
        Ok((started, no_control))
    }

    /// Stops serving and removes the control socket.
    pub fn stop(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of management had panicked");
            }
        }
        if let Some(path) = self.control.take() {
            // If it can't be removed, the next start replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A loop that accepts connections on these listeners.
fn serve(serving: &Serving, listeners: Vec<HttpListener>) -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().max_blocking_threads(pool::THREADS).build()?;
    for listener in listeners {
        let inside = runtime.enter();
        let (serving, socket) = serving.at(listener)?;
        drop(inside);
        drop(runtime.spawn(serving.accept(socket)));
    }
    Ok(runtime)
}

/// Runs the loop on a thread until it is stopped.
fn run(name: &str, runtime: Runtime, mut stopped: watch::Receiver<bool>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // An error means that `Management` was dropped, which ends the loop too.
        let _ = runtime.block_on(stopped.wait_for(|stop| *stop));
        runtime.shutdown_background();
    })
}

impl Drop for Management {
    fn drop(&mut self) {
        self.finish();
    }
}
