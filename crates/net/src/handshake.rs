//! The handshakes of a connection before its protocol sees a byte: TLS and WebSocket, where the
//! listener has them, and the look at the first bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use wire::Protocol;

use crate::any::AnyHandshakes;
use crate::detect::{Opened, detect};
use crate::input::Input;
use crate::registry::Listed;
use crate::stream::Stream;
use crate::tls::Secure;
use crate::web::WebSockets;

/// What every connection of one listener passes.
pub(crate) enum Handshakes {
    /// The same for each.
    Fixed(Box<FixedHandshakes>),
    /// What its first bytes ask for.
    Any(Box<AnyHandshakes>),
}

/// The handshakes of a listener whose connections are all alike but for their protocol.
pub(crate) struct FixedHandshakes {
    /// `None`: the listener is plain.
    pub(crate) secure: Option<Secure>,
    /// `None`: bytes are the protocol's own from the beginning.
    pub(crate) websockets: Option<WebSockets>,
    /// What is spoken. The first one answers strangers.
    pub(crate) protocols: Arc<[Arc<dyn Protocol>]>,
    /// How long the bytes that tell a protocol may take.
    pub(crate) patience: Duration,
}

impl Handshakes {
    /// True when all connections are within TLS.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            Self::Fixed(fixed) => fixed.secure.is_some(),
            Self::Any(any) => any.is_secure(),
        }
    }

    /// The connection after them. `None` when a handshake failed, took too long, or the connection
    /// was ordered to end.
    pub(crate) async fn open(&self, socket: TcpStream, listed: &Listed) -> Option<Opened> {
        match self {
            Self::Fixed(fixed) => fixed.open(socket, listed).await,
            // In a box: its states are large, and others would carry them, too.
            Self::Any(any) => Box::pin(any.open(socket, listed)).await,
        }
    }
}

impl FixedHandshakes {
    async fn open(&self, socket: TcpStream, listed: &Listed) -> Option<Opened> {
        // In boxes: the states of handshakes are large, and plain connections would carry them,
        // too.
        let (mut stream, certified_user) = match &self.secure {
            None => (Stream::Plain(socket), None),
            Some(secure) => Box::pin(secure.open(socket, listed)).await?,
        };
        if let Some(websockets) = &self.websockets {
            (stream, _) = Box::pin(websockets.open(stream, Vec::new(), listed)).await?;
        }
        let mut input = Input::new();
        let detected = detect(&mut stream, &mut input, listed, &self.protocols);
        let protocol = tokio::time::timeout(self.patience, detected).await.ok()??;
        Some(Opened { stream, certified_user, input, protocol })
    }
}
