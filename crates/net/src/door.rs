//! What a socket passes before its protocol sees a byte: TLS and a WebSocket handshake, where the
//! listener has them.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::registry::Listed;
use crate::stream::Stream;
use crate::tls::Secure;
use crate::web::Hall;

/// What all connections of one listener pass.
pub(crate) struct Door {
    /// `None`: the listener is plain.
    pub(crate) secure: Option<Secure>,
    /// `None`: bytes are the protocol's own from the beginning.
    pub(crate) hall: Option<Hall>,
}

impl Door {
    /// The stream behind it, and the user that the peer's certificate stands for. `None` when a
    /// handshake failed, took too long, or the connection was ordered to end.
    pub(crate) async fn pass(&self, socket: TcpStream, listed: &Listed) -> Option<(Stream, Option<Arc<str>>)> {
        // In boxes: the states of handshakes are large, and plain connections would carry them,
        // too.
        let (stream, user) = match &self.secure {
            None => (Stream::Plain(socket), None),
            Some(secure) => Box::pin(secure.open(socket, listed)).await?,
        };
        match &self.hall {
            None => Some((stream, user)),
            Some(hall) => Some((Box::pin(hall.open(stream, listed)).await?, user)),
        }
    }
}

/// Waits for a handshake. `None` when the connection was ordered to end meanwhile; `late` says what
/// it took longer than.
pub(crate) async fn heeding<T>(
    listed: &Listed,
    patience: Duration,
    late: &'static str,
    handshake: impl Future<Output = io::Result<T>>,
) -> Option<io::Result<T>> {
    let mut handshake = std::pin::pin!(handshake);
    let heeding = poll_fn(|cx| {
        let orders = listed.bell().take();
        if orders.close() || orders.cut() {
            return Poll::Ready(None);
        }
        handshake.as_mut().poll(cx).map(Some)
    });
    match tokio::time::timeout(patience, heeding).await {
        Ok(outcome) => outcome,
        Err(_) => Some(Err(io::Error::new(io::ErrorKind::TimedOut, format!("it took longer than {late}")))),
    }
}
