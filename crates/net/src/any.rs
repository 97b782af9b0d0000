//! One port for everything: TLS, WebSockets and each protocol are told apart by their first bytes.
//!
//! The first byte of a handshake of TLS (RFC 8446, 5.1) opens no protocol, and no request of HTTP.
//! What comes within TLS is told apart again. A name that the peer has chosen by ALPN (RFC 7301)
//! or by a subprotocol of WebSockets narrows what may follow: bytes that a page was made to send
//! for one protocol are never taken for another. All steps together have one patience, and the peer
//! is a stranger meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use wire::{Protocol, Recognition};

use crate::detect::{Choice, Opened, choose, read_until, tell};
use crate::input::Input;
use crate::registry::Listed;
use crate::stream::Stream;
use crate::tls::{Secure, Tls};
use crate::upgrade;
use crate::wakeup::await_handshake;
use crate::web::{Web, WebSockets};

/// The type of a record that begins a handshake of TLS (RFC 8446, 5.1: `handshake(22)`).
const TLS_HANDSHAKE: u8 = 0x16;
/// The name of HTTP/1.1 in ALPN (RFC 7301, 6), by which WebSockets are opened.
const HTTP: &str = "http/1.1";

/// What a listener for everything is served with.
pub struct Any {
    /// What is spoken. The first one answers strangers.
    pub spoken: Vec<Spoken>,
    /// Certificates; `None` if nothing is encrypted.
    pub tls: Option<Arc<dyn Tls>>,
    /// What becomes of connections without TLS, where there are certificates.
    pub plain: Plain,
}

/// A protocol of such a listener.
pub struct Spoken {
    /// Its server side.
    pub protocol: Arc<dyn Protocol>,
    /// Its names in ALPN.
    pub alpn: &'static [&'static str],
    /// Who may speak it by WebSocket; `None` if that is not offered.
    pub web: Option<Web>,
}

/// What becomes of connections without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// They are served like those within TLS.
    Served,
    /// Their handshake fails.
    Refused,
}

/// The handshakes of a listener for everything.
pub(crate) struct AnyHandshakes {
    spoken: Vec<Spoken>,
    secure: Option<Secure>,
    plain: Plain,
    websockets: WebSockets,
    /// For all steps together.
    patience: Duration,
}

/// What the bytes behind TLS open.
enum Opening {
    /// A request of HTTP.
    Http,
    /// A protocol, by its place in the list.
    Protocol(usize),
}

impl AnyHandshakes {
    pub(crate) fn new(spoken: Vec<Spoken>, secure: Option<Secure>, plain: Plain, patience: Duration) -> Self {
        let webs = spoken.iter().map(|spoken| spoken.web.clone()).collect();
        Self { websockets: WebSockets::new(webs, patience), spoken, secure, plain, patience }
    }

    /// The names of ALPN that are known here, the best first.
    pub(crate) fn alpn(spoken: &[Spoken]) -> Vec<&'static str> {
        let mut names: Vec<_> = spoken.iter().flat_map(|spoken| spoken.alpn).copied().collect();
        names.extend(spoken.iter().any(|spoken| spoken.web.is_some()).then_some(HTTP));
        names
    }

    /// True when all connections are within TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure.is_some() && self.plain == Plain::Refused
    }

    /// The stream after the handshakes, and what is spoken in it. `None` when one failed, all took
    /// too long, or the connection was ordered to end.
    pub(crate) async fn open(&self, socket: TcpStream, listed: &Listed) -> Option<Opened> {
        match tokio::time::timeout(self.patience, self.tell_apart(socket, listed)).await {
            Ok(opened) => opened,
            Err(_) => {
                tracing::debug!(peer = %listed.peer().remote, "its first bytes took longer than limits.handshake_timeout");
                None
            }
        }
    }

    async fn tell_apart(&self, socket: TcpStream, listed: &Listed) -> Option<Opened> {
        let (mut stream, certified_user) = match &self.secure {
            Some(secure) if self.is_secure() || self.begins_with_tls(&socket, listed).await? => {
                secure.open(socket, listed).await?
            }
            _ => (Stream::Plain(socket), None),
        };
        let (mut candidates, is_web) = self.candidates(stream.alpn());
        let mut input = Input::new();
        let opening = self.read_opening(&mut stream, &mut input, listed, &candidates, is_web).await?;
        let index = match opening {
            Opening::Protocol(index) => index,
            Opening::Http => {
                let (web, admitted) = self.websockets.open(stream, input.take(), listed).await?;
                stream = web;
                candidates = admitted;
                let opening = self.read_opening(&mut stream, &mut input, listed, &candidates, IsWeb::No).await?;
                let Opening::Protocol(index) = opening else { return None };
                index
            }
        };
        let Spoken { protocol, web, .. } = self.spoken.get(index)?;
        if let Some(web) = web {
            stream.send_as(web.messages);
        }
        Some(Opened { stream, certified_user, input, protocol: protocol.clone() })
    }

    /// Waits for the first byte. `None` when the peer left.
    async fn begins_with_tls(&self, socket: &TcpStream, listed: &Listed) -> Option<bool> {
        let first = async {
            let mut first = [0];
            let count = socket.peek(&mut first).await?;
            Ok((count > 0).then_some(first[0] == TLS_HANDSHAKE))
        };
        let looked: Option<io::Result<_>> =
            await_handshake(listed.wakeup(), self.patience, "limits.handshake_timeout", first).await;
        looked?.ok().flatten()
    }

    /// The protocols that may be spoken behind this name of ALPN, and whether a WebSocket may be
    /// opened.
    fn candidates(&self, alpn: Option<&[u8]>) -> (Vec<usize>, IsWeb) {
        let has_web = self.spoken.iter().any(|spoken| spoken.web.is_some());
        let all = 0..self.spoken.len();
        match alpn {
            None => (all.collect(), if has_web { IsWeb::Maybe } else { IsWeb::No }),
            Some(name) if name == HTTP.as_bytes() => (Vec::new(), IsWeb::Maybe),
            Some(name) => {
                let has_name = |index: &usize| self.spoken[*index].alpn.iter().any(|known| known.as_bytes() == name);
                (all.filter(has_name).collect(), IsWeb::No)
            }
        }
    }

    /// Reads until it is known what the first bytes open. What no candidate recognises the first
    /// one of them gets: it knows how to refuse a stranger in its own words.
    async fn read_opening(
        &self,
        stream: &mut Stream,
        input: &mut Input,
        listed: &Listed,
        candidates: &[usize],
        is_web: IsWeb,
    ) -> Option<Opening> {
        let protocols: Vec<_> = candidates.iter().map(|index| self.spoken[*index].protocol.clone()).collect();
        let opening = read_until(stream, input, listed, |first| {
            let http = if is_web == IsWeb::No { Recognition::No } else { upgrade::recognise(first) };
            match (http, choose(&protocols, first)) {
                (Recognition::Yes, _) => Some(Some(Opening::Http)),
                (_, Choice::Known(place)) => Some(Some(Opening::Protocol(candidates[place]))),
                (Recognition::Incomplete, _) | (_, Choice::Undecided) => None,
                (Recognition::No, Choice::Unknown) => {
                    tell(first, listed);
                    Some(candidates.first().copied().map(Opening::Protocol))
                }
            }
        });
        opening.await?
    }
}

/// Whether what comes may open a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsWeb {
    Maybe,
    No,
}
