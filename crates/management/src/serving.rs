//! HTTP connections, plain and within TLS: each takes a place at the door, shakes hands if it is to, and is answered for as
//! long as its peer goes on: with its handshake, with the heads of its requests, and with reading the answers.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::api::From;
use crate::door::{Door, Place};
use crate::http;
use crate::source::Source;

/// How long the server waits when the system gives it no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

/// Certificates and versions as they are now; asked at each handshake.
type Configuring = dyn Fn() -> Arc<ServerConfig> + Send + Sync;

/// Sockets that are served within TLS.
pub struct Secure {
    /// Bound, non-blocking.
    pub sockets: Vec<std::net::TcpListener>,
    /// Certificates and versions as they are now; asked at each handshake.
    pub config: Arc<Configuring>,
    /// How long a handshake may take.
    pub patience: Duration,
}

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

/// The handshake that connections of a listener begin with.
#[derive(Clone)]
pub(crate) struct Handshake {
    config: Arc<Configuring>,
    patience: Duration,
}

impl Secure {
    /// The sockets, and the handshake of each.
    pub(crate) fn split(self) -> (Vec<std::net::TcpListener>, Handshake) {
        (self.sockets, Handshake { config: self.config, patience: self.patience })
    }
}

/// What all listeners have in common.
#[derive(Clone)]
pub(crate) struct Serving {
    source: Arc<Source>,
    door: Arc<Door>,
    router: Router,
}

impl Serving {
    pub(crate) fn new(source: &Arc<Source>, door: Arc<Door>) -> Self {
        Self { source: source.clone(), door, router: http::router(source.clone()) }
    }

    /// Serves whoever comes, for as long as the runtime lives.
    pub(crate) async fn accept(self, listener: TcpListener, handshake: Option<Handshake>) {
        loop {
            let (socket, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "no HTTP connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match self.door.admit(peer.ip()) {
                Ok(place) => {
                    let socket = Patient::new(socket, self.door.limits.write_timeout, place);
                    drop(tokio::spawn(self.clone().serve(socket, peer, handshake.clone())));
                }
                Err(full) => {
                    self.source.count_refused(full);
                    tracing::debug!(%peer, reason = full.reason(), "an HTTP connection was refused");
                }
            }
        }
    }

    async fn serve(self, socket: Patient, peer: SocketAddr, handshake: Option<Handshake>) {
        let Some(Handshake { config, patience }) = handshake else { return self.answer(socket, peer).await };
        match tokio::time::timeout(patience, TlsAcceptor::from(config()).accept(socket)).await {
            Ok(Ok(stream)) => self.answer(stream, peer).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    /// Answers one request after the other.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(From(peer)));
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.door.limits.head_timeout)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%peer, %error, "an HTTP connection has ended early");
        }
    }
}

/// A socket whose peer is given up when it reads nothing of what waits for it. It has its place for as long as it is open.
struct Patient {
    socket: TcpStream,
    patience: Duration,
    /// Runs while something waits that the socket does not take.
    stalled: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl Patient {
    fn new(socket: TcpStream, patience: Duration, place: Place) -> Self {
        Self { socket, patience, stalled: None, _place: place }
    }

    /// What comes of a write, or the end of patience.
    fn watch(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        // The kernel is not to keep for a while what nobody reads; if it does, that is no more than it takes for anybody.
        let _ = self.socket.set_zero_linger();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    // Neither waits: a socket has no buffer of its own.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
