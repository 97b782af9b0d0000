//! The handshakes of a connection before its protocol sees a byte: TLS and WebSocket, where the
//! listener has them.

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::registry::Listed;
use crate::stream::Stream;
use crate::tls::Secure;
use crate::web::WebSockets;

/// The handshakes that every connection of one listener passes.
pub(crate) struct Handshakes {
    /// `None`: the listener is plain.
    pub(crate) secure: Option<Secure>,
    /// `None`: bytes are the protocol's own from the beginning.
    pub(crate) websockets: Option<WebSockets>,
}

impl Handshakes {
    /// The stream after them, and the user that the peer's certificate stands for. `None` when a
    /// handshake failed, took too long, or the connection was ordered to end.
    pub(crate) async fn pass(&self, socket: TcpStream, listed: &Listed) -> Option<(Stream, Option<Arc<str>>)> {
        // In boxes: the states of handshakes are large, and plain connections would carry them,
        // too.
        let (stream, user) = match &self.secure {
            None => (Stream::Plain(socket), None),
            Some(secure) => Box::pin(secure.open(socket, listed)).await?,
        };
        match &self.websockets {
            None => Some((stream, user)),
            Some(websockets) => Some((Box::pin(websockets.open(stream, listed)).await?, user)),
        }
    }
}
