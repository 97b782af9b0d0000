//! HTTP within TLS: handshakes run beside each other and within a time, so that a slow peer holds up nobody.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Handshakes at a time; who comes then waits in the kernel.
const AT_ONCE: usize = 64;
/// How long the server waits when the system gives it no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

/// Sockets that are served within TLS.
pub struct Secure {
    /// Bound, non-blocking.
    pub sockets: Vec<std::net::TcpListener>,
    /// Certificates and versions as they are now; asked at each handshake.
    pub config: Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>,
    /// How long a handshake may take.
    pub patience: Duration,
}

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

/// Connections that have shaken hands.
pub(crate) struct Shaken {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Shaken {
    /// Starts to accept on each socket. Must be called within the runtime.
    pub(crate) fn start(secure: Secure) -> io::Result<Vec<Self>> {
        let Secure { sockets, config, patience } = secure;
        let start = |socket| {
            let listener = TcpListener::from_std(socket)?;
            let address = listener.local_addr()?;
            let (sender, ready) = mpsc::channel(1);
            let config = config.clone();
            tokio::spawn(async move {
                // Ends when nobody serves what has shaken hands any more.
                let over = sender.clone();
                tokio::select! {
                    () = over.closed() => {}
                    () = accept(listener, sender, &*config, patience) => {}
                }
            });
            Ok(Self { ready, address })
        };
        sockets.into_iter().map(start).collect()
    }
}

async fn accept(
    listener: TcpListener,
    ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
    config: &(dyn Fn() -> Arc<ServerConfig> + Send + Sync),
    patience: Duration,
) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "no HTTPS connection can be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let handshake = TlsAcceptor::from(config()).accept(socket);
        let ready = ready.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(patience, handshake).await {
                // An error means that nobody serves any more.
                Ok(Ok(stream)) => drop(ready.send((stream, peer)).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
            }
            drop(place);
        });
    }
}

impl axum::serve::Listener for Shaken {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(shaken) => shaken,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
