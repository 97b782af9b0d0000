//! The I/O threads, what they listen on, and the way down: stop accepting, close politely, cut what
//! is left.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};
use wire::Protocol;

use crate::accept::{Acceptor, Refused};
use crate::any::{Any, AnyHandshakes};
use crate::aside::Aside;
use crate::handshake::{FixedHandshakes, Handshakes};
use crate::handshake_threads::HandshakeThreads;
use crate::heavy::Heavy;
use crate::listener::{Listener, Nagle};
use crate::proxy::MOST_WAITING;
use crate::registry::{Limits, Registry};
use crate::settings::Settings;
use crate::spin::Spin;
use crate::tls::{Secure, Tls};
use crate::web::{Web, WebSockets};

/// How long connections get to end after they were cut: they only have to notice.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// The default number of I/O threads on a machine with `cores` cores: all of them, except that two
/// cores get one. A second thread there moves every body to the other core's cache.
pub fn io_threads_for(cores: usize) -> usize {
    if cores <= 2 { 1 } else { cores }
}

/// Sockets, the threads that serve them, and the connections on them.
#[derive(Debug)]
pub struct Net {
    handle: Handle,
    stop: watch::Sender<bool>,
    finish: watch::Sender<bool>,
    host: Option<JoinHandle<()>>,
    registry: Arc<Registry>,
    settings: Arc<Settings>,
    io_threads: usize,
    heavy: Arc<Heavy>,
    aside: Option<Arc<Aside>>,
    /// Once a listener has TLS.
    handshake_threads: Mutex<Option<Arc<HandshakeThreads>>>,
    /// Room for connections that wait for the header of their proxy.
    unproxied: Arc<Semaphore>,
}

impl Net {
    /// Starts `io_threads` threads, at least one. Nothing is listened on yet.
    pub fn start(io_threads: usize, settings: Settings) -> io::Result<Self> {
        let io_threads = io_threads.max(1);
        let runtime = build(io_threads, settings.spin)?;
        let handle = runtime.handle().clone();
        let (stop, _) = watch::channel(false);
        let (finish, mut finished) = watch::channel(false);
        let host = std::thread::Builder::new().name("hermod-io".to_owned()).spawn(move || {
            // An error means that `Net` is gone, which ends the runtime just the same.
            let _ = runtime.block_on(finished.wait_for(|finished| *finished));
            runtime.shutdown_timeout(CUT_PATIENCE);
        })?;
        let registry = Arc::new(Registry::new(Limits {
            connections: settings.connections,
            pending: settings.pending,
            pending_per_address: settings.pending_per_address,
            rate_per_address: settings.connects_per_address,
        }));
        let (settings, heavy, handshake_threads) = (Arc::new(settings), Heavy::new(io_threads), Mutex::default());
        let unproxied = Arc::new(Semaphore::new(MOST_WAITING));
        let host = Some(host);
        let aside = (settings.aside_threads > 0).then(|| Arc::new(Aside::new(settings.aside_threads)));
        Ok(Self {
            handle,
            stop,
            finish,
            host,
            registry,
            settings,
            io_threads,
            heavy,
            aside,
            handshake_threads,
            unproxied,
        })
    }

    /// Accepts connections on `listener` that speak one of `protocols`. They come within TLS if
    /// `tls` is given, and within WebSockets if `web` is. The first protocol answers strangers.
    pub fn serve(
        &self,
        listener: Listener,
        protocols: &[Arc<dyn Protocol>],
        tls: Option<Arc<dyn Tls>>,
        web: Option<Web>,
    ) -> io::Result<()> {
        let patience = self.settings.detect_timeout;
        let handshakes = Handshakes::Fixed(Box::new(FixedHandshakes {
            secure: tls.map(|tls| self.secure(tls)).transpose()?,
            websockets: web.map(|web| WebSockets::new(vec![Some(web)], patience)),
            protocols: protocols.into(),
            patience,
        }));
        self.accept_on(listener, handshakes)
    }

    /// Accepts connections on `listener` that speak any of what `any` has, by WebSocket or without,
    /// and within TLS or without.
    pub fn serve_any(&self, listener: Listener, any: Any) -> io::Result<()> {
        let Any { spoken, tls, plain } = any;
        let secure = tls.map(|tls| self.secure(tls)).transpose()?;
        let secure = secure.map(|secure| secure.with_alpn(&AnyHandshakes::alpn(&spoken)));
        let any = AnyHandshakes::new(spoken, secure, plain, self.settings.detect_timeout);
        self.accept_on(listener, Handshakes::Any(Box::new(any)))
    }

    fn secure(&self, tls: Arc<dyn Tls>) -> io::Result<Secure> {
        Ok(Secure::new(tls, self.handshake_threads()?, self.settings.tls_timeout))
    }

    fn accept_on(&self, listener: Listener, handshakes: Handshakes) -> io::Result<()> {
        let (socket, nagle, admission) = listener.into_parts();
        let _inside = self.handle.enter();
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let acceptor = Acceptor {
            registry: self.registry.clone(),
            settings: self.settings.clone(),
            nagle,
            places: admission.most.map(|most| (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))),
            proxies: admission.proxies,
            unproxied: self.unproxied.clone(),
            refused: Refused::default(),
            heavy: self.heavy.clone(),
            aside: self.aside.clone(),
            handshakes: Arc::new(handshakes),
        };
        self.handle.spawn(Arc::new(acceptor).run(socket, self.stop.subscribe()));
        Ok(())
    }

    /// What serves a connection that did not come to a listener: one end of a pair, whose other end
    /// this program has. Its peer counts as the user that it is handed over with, as if a
    /// certificate said so. It speaks one of `protocols`.
    pub fn adopting(
        &self,
        protocols: &[Arc<dyn Protocol>],
    ) -> impl Fn(std::net::TcpStream, &str) -> io::Result<()> + Send + Sync + use<> {
        let handshakes = Handshakes::Fixed(Box::new(FixedHandshakes {
            secure: None,
            websockets: None,
            protocols: protocols.into(),
            patience: self.settings.detect_timeout,
        }));
        let acceptor = Acceptor {
            registry: self.registry.clone(),
            settings: self.settings.clone(),
            nagle: Nagle::Off,
            places: None,
            proxies: Vec::new(),
            unproxied: self.unproxied.clone(),
            refused: Refused::default(),
            heavy: self.heavy.clone(),
            aside: self.aside.clone(),
            handshakes: Arc::new(handshakes),
        };
        let (handle, acceptor) = (self.handle.clone(), Arc::new(acceptor));
        move |socket, user| {
            socket.set_nonblocking(true)?;
            let _inside = handle.enter();
            acceptor.adopt(tokio::net::TcpStream::from_std(socket)?, user)
        }
    }

    /// Who shakes hands on all listeners: half as many threads as move bytes, so that these have
    /// cores whatever strangers ask for.
    fn handshake_threads(&self) -> io::Result<Arc<HandshakeThreads>> {
        let mut handshake_threads = self.handshake_threads.lock();
        if let Some(handshake_threads) = &*handshake_threads {
            return Ok(handshake_threads.clone());
        }
        let started = Arc::new(HandshakeThreads::start(self.io_threads.div_ceil(2), self.settings.pending)?);
        Ok(handshake_threads.insert(started).clone())
    }

    /// What is connected.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Stops accepting, lets every connection say goodbye for at most `patience`, then ends the
    /// threads. Blocks; returns how many connections had to be cut off.
    pub fn shutdown(mut self, patience: Duration) -> usize {
        self.stop.send_replace(true);
        self.registry.close_all();
        let left = self.registry.wait_empty(patience);
        if left > 0 {
            self.registry.cut_all();
            self.registry.wait_empty(CUT_PATIENCE);
        }
        self.finish();
        left
    }

    fn finish(&mut self) {
        self.finish.send_replace(true);
        if let Some(host) = self.host.take()
            && host.join().is_err()
        {
            tracing::error!("the thread of the sockets had panicked");
        }
    }
}

impl Drop for Net {
    /// Without [`Net::shutdown`] before, connections are dropped where they are.
    fn drop(&mut self) {
        self.finish();
    }
}

/// One thread needs no scheduler that shares work between threads, and is measurably faster
/// without.
fn build(io_threads: usize, spin: Duration) -> io::Result<Runtime> {
    if io_threads == 1 {
        let mut one = Builder::new_current_thread();
        one.enable_io().enable_time();
        if spin.is_zero() {
            return one.build();
        }
        let spin = Arc::new(Spin::new(spin));
        let awake = Arc::clone(&spin);
        let runtime = one.on_thread_park(move || spin.before_sleep()).build()?;
        runtime.spawn(async move { awake.stay_awake().await });
        return Ok(runtime);
    }
    Builder::new_multi_thread()
        .worker_threads(io_threads)
        .thread_name("hermod-io-worker")
        .enable_io()
        .enable_time()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_get_one_thread_and_more_get_all() {
        assert_eq!([1, 2, 3, 4, 64].map(io_threads_for), [1, 1, 3, 4, 64]);
    }
}
