//! A connected socket, plain, within TLS, or of WebSocket messages: the one type that the data path
//! reads from and writes to.
//!
//! A plain connection pays one branch for the other kinds, beside a system call. The states of TLS
//! and WebSockets are large, so they lie behind boxes: a plain connection does not carry their
//! size.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::web::{WebMessages, WebStream};

/// See the module.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Bytes as they come from the kernel.
    Plain(TcpStream),
    /// Bytes within records of TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
    /// Bytes within messages, after the handshake.
    Web(Box<WebStream>),
}

impl Stream {
    /// Makes the socket end by a reset when it is dropped. An orderly end waits for a peer that
    /// takes nothing, perhaps for minutes, and tells it nothing meanwhile.
    pub(crate) fn end_by_reset(&self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(socket) => socket.get_ref().0,
            Self::Web(socket) => return socket.beneath().end_by_reset(),
        };
        // A wish like all socket options: without it the end is only noticed later.
        let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }

    /// True within TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_) => true,
            Self::Web(socket) => socket.beneath().is_encrypted(),
        }
    }

    /// The name of what is spoken within TLS (RFC 7301), if the peer has offered names.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(socket) => socket.get_ref().1.alpn_protocol(),
            Self::Web(socket) => socket.beneath().alpn(),
        }
    }

    /// How messages are sent from now on, where there are any.
    pub(crate) fn send_as(&mut self, messages: WebMessages) {
        if let Self::Web(socket) = self {
            socket.send_as(messages);
        }
    }

    /// Tells the peer that nothing more comes, where that can be told without ending what lies
    /// beneath. WebSockets have a message for it, which the peer answers.
    pub(crate) fn poll_end_of_messages(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) | Self::Tls(_) => Poll::Ready(Ok(())),
            Self::Web(socket) => socket.poll_end_of_messages(cx),
        }
    }

    /// The peer has authenticated: what strangers are held to ends.
    pub(crate) fn trust(&mut self) {
        if let Self::Web(socket) = self {
            socket.trust();
        }
    }

    /// Ready when a read may bring something. Plain sockets are asked, so that nothing is allocated
    /// for a peer that sends nothing. Within the others bytes may wait that the kernel does not
    /// know of, and only a read tells.
    pub(crate) fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_read_ready(cx),
            Self::Tls(_) | Self::Web(_) => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, space),
            Self::Tls(socket) => Pin::new(socket).poll_read(cx, space),
            Self::Web(socket) => socket.poll_read(cx, space),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Web(socket) => socket.poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Web(socket) => socket.poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(socket) => Pin::new(socket).poll_flush(cx),
            Self::Web(socket) => socket.poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Web(socket) => socket.poll_shutdown(cx),
        }
    }
}
