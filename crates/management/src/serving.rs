//! HTTP connections, plain and over TLS. Each gets a place at the door, does its TLS handshake if
//! it has one, and is answered until its peer stops. A peer has a time limit for the handshake, for
//! the head of each request, and for reading an answer.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use crate::door::{Door, Full, Place};
use crate::http::Paths;
use crate::http_listener::{Handshake, HttpListener, Introduce};
use crate::source::Source;
use crate::visit::{Transport, Visit};

/// How long the server waits if the system gives it no more sockets.
const PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of the head of a request.
const LONGEST_HEAD: usize = 16 * 1024;
/// Bytes of a path that are logged.
const LONGEST_TOLD: usize = 200;
/// Bytes that a peer must read per second to make up for the time that it was waited for.
const SLOWEST: usize = 16 * 1024;

/// Connections of one listener that may wait for the header of their proxy at the same time.
const MOST_UNPROXIED: usize = 16;

/// What serves one listener. Source and door are those of all.
#[derive(Clone)]
pub(crate) struct Serving {
    source: Arc<Source>,
    door: Arc<Door>,
    paths: Paths,
    rules: Arc<Rules>,
}

/// Which connections one listener lets in, and how.
#[derive(Default)]
struct Rules {
    handshake: Option<Handshake>,
    /// The places that are free, if it has a limit of its own.
    places: Option<Arc<Semaphore>>,
    /// How its proxies say whose a connection is, and room to wait for that.
    introduce: Option<(Arc<Introduce>, Arc<Semaphore>)>,
}

impl Serving {
    pub(crate) fn new(source: &Arc<Source>, door: Arc<Door>, paths: Paths) -> Self {
        Self { source: source.clone(), door, paths, rules: Arc::default() }
    }

    /// What serves this listener, and its socket. Must be called within a runtime.
    pub(crate) fn at(&self, listener: HttpListener) -> io::Result<(Self, TcpListener)> {
        let HttpListener { socket, tls, most, introduce, pages, prefix } = listener;
        let rules = Rules {
            handshake: tls,
            places: most.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            introduce: introduce.map(|introduce| (introduce, Arc::new(Semaphore::new(MOST_UNPROXIED)))),
        };
        let paths = self.paths.at(pages, &prefix);
        Ok((Self { paths, rules: Arc::new(rules), ..self.clone() }, TcpListener::from_std(socket)?))
    }

    /// Serves all connections for as long as the runtime lives.
    pub(crate) async fn accept(self, listener: TcpListener) {
        loop {
            let (socket, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "no HTTP connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some((introduce, room)) = &self.rules.introduce else {
                self.admit(socket, peer);
                continue;
            };
            let Ok(room) = room.clone().acquire_owned().await else { return };
            let (serving, introduced) = (self.clone(), introduce(socket, peer));
            drop(tokio::spawn(async move {
                let outcome = introduced.await;
                drop(room);
                match outcome {
                    Ok((socket, peer)) => serving.admit(socket, peer),
                    Err(why) => {
                        serving.source.count_refused(Full::Unproxied);
                        tracing::warn!(%peer, "HTTP connection refused: {why}");
                    }
                }
            }));
        }
    }

    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        let place = match &self.rules.places {
            None => None,
            Some(places) => match places.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => {
                    self.source.count_refused(Full::House);
                    return tracing::debug!(%peer, reason = "max_connections", "an HTTP connection was refused");
                }
            },
        };
        match self.door.admit(peer.ip()) {
            Ok((inside, gone)) => {
                gone.into_iter().for_each(|full| self.source.count_refused(full));
                let socket = Patient::new(socket, self.door.limits.write_timeout);
                let serving = self.clone().serve(socket, peer, Arc::new(inside));
                drop(tokio::spawn(async move {
                    serving.await;
                    drop(place);
                }));
            }
            Err(full) => {
                self.source.count_refused(full);
                tracing::debug!(%peer, reason = full.reason(), "an HTTP connection was refused");
            }
        }
    }

    /// Serves a connection for as long as it has its place.
    async fn serve(self, socket: Patient, peer: SocketAddr, place: Arc<Place>) {
        let (keeper, source, last) = (Arc::clone(&place), Arc::clone(&self.source), Last::default());
        tokio::select! {
            biased;
            () = keeper.lost() => tracing::debug!(%peer, "an HTTP connection that waited made room for another"),
            () = watched(&source, peer, &last, self.converse(socket, peer, place, &last)) => {}
        }
    }

    async fn converse(self, socket: Patient, peer: SocketAddr, place: Arc<Place>, last: &Last) {
        let Some(Handshake { config, patience }) = self.rules.handshake.clone() else {
            return self.answer(socket, peer, Transport::Plain, place, last).await;
        };
        match tokio::time::timeout(patience, TlsAcceptor::from(config()).accept(socket)).await {
            Ok(Ok(stream)) => self.answer(stream, peer, Transport::Tls, place, last).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    /// Answers requests one after the other.
    async fn answer(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: SocketAddr,
        transport: Transport,
        place: Arc<Place>,
        last: &Last,
    ) {
        let Self { source, door, paths, .. } = self;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            last.is(&request);
            let visit = Visit::begin(peer, transport, &place, &source.budget);
            let paths = paths.clone();
            async move {
                let visit = visit.ok_or_else(|| io::Error::other("its place is another's"))?;
                Ok::<_, io::Error>(paths.answer(visit, request).await)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(door.limits.head_timeout)
            .max_buf_size(LONGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            if error.is_parse() {
                let remedy =
                    "this port speaks HTTP alone: use ports.amqp or ports.stomp, or https with a port of HTTPS";
                tracing::warn!(%peer, %error, remedy, "a client speaks another protocol than HTTP");
            } else {
                tracing::debug!(%peer, %error, "an HTTP connection has ended early");
            }
        }
    }
}

/// The last request of a connection.
#[derive(Default)]
struct Last(Mutex<String>);

impl Last {
    /// Keeps the path only. The query may be long, and may be confidential.
    fn is<B>(&self, request: &hyper::Request<B>) {
        let path = auth::shown::extract(request.uri().path(), LONGEST_TOLD);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = format!("{} {path}", request.method());
    }

    fn told(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves a connection. Counts and logs the turns in which it held up everything else on the loop.
async fn watched(source: &Source, peer: SocketAddr, last: &Last, serving: impl Future<Output = ()>) {
    let mut serving = pin!(serving);
    let tell = |milliseconds| {
        let last = last.told();
        tracing::warn!(%peer, last, milliseconds, "management had to wait: one HTTP connection took long");
    };
    poll_fn(|context| source.watch.over(tell, || serving.as_mut().poll(context))).await;
}

/// A socket that fails if its peer reads nothing, or too slowly, while data waits for it.
struct Patient {
    socket: TcpStream,
    patience: Duration,
    /// Runs while the socket does not accept data that waits.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How long the peer was waited for, less the time that its reading made up for.
    waited: Duration,
}

impl Patient {
    fn new(socket: TcpStream, patience: Duration) -> Self {
        Self { socket, patience, stalled: None, waited: Duration::ZERO }
    }

    /// The outcome of a write, or an error if the peer was too slow.
    fn watch(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = written {
            if let Some((since, _)) = self.stalled.take() {
                self.waited += since.elapsed();
            }
            self.waited = after(self.waited, outcome.as_ref().copied().unwrap_or_default());
            return Poll::Ready(outcome);
        }
        let patience = self.patience.saturating_sub(self.waited);
        let (_, sleep) = self.stalled.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(patience))));
        ready!(sleep.as_mut().poll(context));
        // The kernel need not keep data for a peer that does not read. If it does, that is no more
        // than it keeps for any socket.
        let _ = self.socket.set_zero_linger();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing, or too slowly")))
    }
}

/// What remains of a wait after these bytes were read.
fn after(waited: Duration, bytes: usize) -> Duration {
    waited.saturating_sub(Duration::from_secs_f64(bytes as f64 / SLOWEST as f64))
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

    // Neither of these waits: a socket has no buffer of its own.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that reads a byte now and then can't hold an answer for ever. A peer that reads
    /// slowly and steadily can.
    #[test]
    fn a_wait_is_made_good_by_what_is_read() {
        let second = Duration::from_secs(1);
        assert_eq!(after(10 * second, 1).as_secs(), 9);
        assert_eq!(after(10 * second, SLOWEST), 9 * second);
        assert_eq!(after(second, 10 * SLOWEST), Duration::ZERO);
    }
}
