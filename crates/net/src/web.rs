//! WebSocket (RFC 6455) on a listener: who may open one, and the stream of bytes that its messages
//! are.
//!
//! Where one message ends and the next begins means nothing to the protocol within. What is written
//! goes out as text where it is text, since that is what pages expect, and as binary messages where
//! it is not.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::str;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::{Sink, Stream as Messages};
use tokio::io::{AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{HOST, HeaderValue, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::http::{HeaderName, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::log_throttle::LogThrottle;
use crate::registry::Listed;
use crate::screen::Screened;
use crate::stream::Stream;
use crate::wakeup::await_handshake;

/// Any peer that reaches the port can make handshakes fail. The log has one line of it per
/// interval.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Most bytes of a message from a peer: it is held until its end has come. Strangers may send less:
/// see [`Screened`].
const LARGEST: usize = 1024 * 1024;
/// Most bytes of a message to a peer.
const LARGEST_SENT: usize = 256 * 1024;
/// What an idle connection holds to read into.
const READ_BUFFER: usize = 4096;

/// Who may open WebSockets on a listener, and what is spoken in them.
#[derive(Clone)]
pub struct Web {
    /// Names of what is spoken, the best first (RFC 6455, 1.9). Of a peer that offers names the
    /// best of these is chosen, and one that offers others alone is refused.
    pub subprotocols: &'static [&'static str],
    /// Pages of these origins may connect, such as `https://example.org`, and of all with `*`.
    /// Pages from the host that the connection is for may always, and so may programs, which name
    /// no origin.
    pub origins: Arc<[String]>,
    /// Whether a peer may call the server so. A page can have its own name lead here, and is then
    /// no page of the server's host.
    pub hosts: Arc<Naming>,
    /// How the messages of the server are sent.
    pub messages: WebMessages,
}

/// Which messages of a WebSocket carry a protocol (RFC 6455, 5.6). Both are taken from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebMessages {
    /// Text where the bytes are that, else binary ones.
    TextIfPossible,
    /// Binary ones alone.
    Binary,
}

/// Asked with a host, perhaps with a port, and the peer.
pub type Naming = dyn Fn(&str, IpAddr) -> bool + Send + Sync;

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { subprotocols, origins, .. } = self;
        f.debug_struct("Web").field("subprotocols", subprotocols).field("origins", origins).finish_non_exhaustive()
    }
}

/// The WebSockets of one listener.
pub(crate) struct WebSockets {
    /// Of each protocol there; `None` if it is not spoken in WebSockets.
    webs: Vec<Option<Web>>,
    patience: Duration,
    failed: LogThrottle,
}

impl WebSockets {
    /// Handshakes may take as long as `patience`.
    pub(crate) fn new(webs: Vec<Option<Web>>, patience: Duration) -> Self {
        Self { webs, patience, failed: LogThrottle::new(LOG_INTERVAL) }
    }

    /// Shakes hands; `unread` has come already. The stream of bytes, and the places of what may be
    /// spoken in it. `None` when that failed, took too long, or the connection was ordered to end.
    pub(crate) async fn open(&self, stream: Stream, unread: Vec<u8>, listed: &Listed) -> Option<(Stream, Vec<usize>)> {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            // Output is gathered already when it comes here.
            .write_buffer_size(0)
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let mut agreed = Vec::new();
        let asked = Asked { webs: &self.webs, peer: listed.peer().remote.ip(), agreed: &mut agreed };
        let screened = Screened::new(stream, unread);
        let handshake = async { accept_hdr_async_with_config(screened, asked, Some(config)).await.map_err(broken) };
        match await_handshake(listed.wakeup(), self.patience, "limits.handshake_timeout", handshake).await? {
            Ok(mut messages) => {
                messages.get_mut().shook_hands();
                let first = agreed.first().and_then(|place| self.webs.get(*place)?.as_ref());
                let sends = first.map_or(WebMessages::Binary, |web| web.messages);
                Some((Stream::Web(Box::new(WebStream { messages, unread: Bytes::new(), sends })), agreed))
            }
            Err(error) => {
                if let Some(held) = self.failed.pass(Instant::now()) {
                    tracing::warn!(peer = %listed.peer().remote, held, "WebSocket handshake failed: {error}");
                }
                None
            }
        }
    }
}

/// A handshake of a peer.
struct Asked<'a> {
    webs: &'a [Option<Web>],
    peer: IpAddr,
    /// The places of what may be spoken, once that is known.
    agreed: &'a mut Vec<usize>,
}

impl Callback for Asked<'_> {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        let (origin, host) = (header(ORIGIN), header(HOST));
        let webs = self.webs.iter().enumerate().filter_map(|(place, web)| Some((place, web.as_ref()?)));
        let admitting: Vec<_> = webs.filter(|(_, web)| web.admits(origin, host, self.peer)).collect();
        if admitting.is_empty() {
            return Err(refusal(StatusCode::FORBIDDEN, "pages of this origin may not connect here".to_owned()));
        }
        let offers = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
        let offers = offers.iter().filter_map(|value| value.to_str().ok());
        let offers: Vec<_> = offers.flat_map(|value| value.split(',')).map(str::trim).collect();
        let chosen = chosen(&admitting, &offers).map_err(|text| refusal(StatusCode::BAD_REQUEST, text))?;
        let speaks = |web: &Web| chosen.is_none_or(|name| web.subprotocols.contains(&name));
        self.agreed.extend(admitting.iter().filter(|(_, web)| speaks(web)).map(|(place, _)| *place));
        if let Some(name) = chosen {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
        }
        Ok(response)
    }
}

/// The best of the names that a peer offers; `None` if it offers none.
fn chosen(webs: &[(usize, &Web)], offers: &[&str]) -> Result<Option<&'static str>, String> {
    let mut known: Vec<&'static str> = webs.iter().flat_map(|(_, web)| web.subprotocols).copied().collect();
    let chosen = known.iter().copied().find(|name| offers.contains(name));
    if chosen.is_none() && !offers.is_empty() {
        known.dedup();
        return Err(format!("spoken here: {}", known.join(", ")));
    }
    Ok(chosen)
}

impl Web {
    fn admits(&self, origin: Option<&str>, host: Option<&str>, peer: IpAddr) -> bool {
        let Some(origin) = origin else { return true };
        let host = host.filter(|host| (self.hosts)(host, peer));
        let page = origin.split_once("://").map(|(_, place)| without_port(place));
        self.origins.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
            || page.zip(host.map(without_port)).is_some_and(|(page, host)| page.eq_ignore_ascii_case(host))
    }
}

fn refusal(status: StatusCode, text: String) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(format!("{text}\n")));
    *response.status_mut() = status;
    response
}

/// `[::1]` of `[::1]:80`.
fn without_port(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => place,
    }
}

/// A WebSocket after its handshake.
#[derive(Debug)]
pub(crate) struct WebStream {
    messages: WebSocketStream<Screened>,
    /// What came in the last message and was not read yet.
    unread: Bytes,
    /// How its own messages are sent.
    sends: WebMessages,
}

impl WebStream {
    /// What it lies upon.
    pub(crate) fn beneath(&self) -> &Stream {
        self.messages.get_ref().beneath()
    }

    /// How its messages are sent from now on.
    pub(crate) fn send_as(&mut self, messages: WebMessages) {
        self.sends = messages;
    }

    /// The peer has authenticated.
    pub(crate) fn trust(&mut self) {
        self.messages.get_mut().trust();
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(Pin::new(&mut self.messages).poll_next(cx)) {
                Some(Ok(Message::Text(text))) => self.unread = text.into(),
                Some(Ok(Message::Binary(bytes))) => self.unread = bytes,
                // Answers to pings are sent by the library.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.unread.len().min(space.remaining());
        space.put_slice(&self.unread.split_to(count));
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.messages).poll_ready(cx)).map_err(broken)?;
        let bytes = &bytes[..bytes.len().min(LARGEST_SENT)];
        let (message, count) = match self.sends {
            WebMessages::TextIfPossible => message(bytes),
            WebMessages::Binary => (Message::binary(bytes.to_vec()), bytes.len()),
        };
        Pin::new(&mut self.messages).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(count))
    }

    pub(crate) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = Vec::new();
        for slice in slices {
            let room = LARGEST_SENT - gathered.len();
            gathered.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.poll_write(cx, &gathered)
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.messages).poll_flush(cx).map_err(broken)
    }

    /// Sends a close frame. The peer answers with its own (RFC 6455, 5.5.1), and reads as at its
    /// end from then on.
    pub(crate) fn poll_end_of_messages(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.messages).poll_close(cx).map_err(broken)
    }

    /// Sends a close frame, and ends what lies beneath.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_end_of_messages(cx))?;
        Pin::new(self.messages.get_mut()).poll_shutdown(cx)
    }
}

/// A message of the first of these bytes, and of how many. A character that is cut at the end waits
/// for its rest.
fn message(bytes: &[u8]) -> (Message, usize) {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(cut) if cut.error_len().is_none() && cut.valid_up_to() > 0 => {
            str::from_utf8(&bytes[..cut.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return (Message::binary(bytes.to_vec()), bytes.len()),
    };
    (Message::text(text), text.len())
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_same_host_and_of_listed_origins_may_connect() {
        let web = |origins: &[&str]| Web {
            subprotocols: &[],
            origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            hosts: Arc::new(|host, peer| !host.starts_with("evil") || !peer.is_loopback()),
            messages: WebMessages::TextIfPossible,
        };
        let here = "127.0.0.1".parse().unwrap();
        for (origins, origin, host, admitted) in [
            (&[][..], None, Some("h:1"), true),
            (&[], Some("http://localhost"), Some("localhost:15674"), true),
            (&[], Some("https://[::1]:8080"), Some("[::1]:15674"), true),
            (&[], Some("https://[::1]"), Some("[::1]"), true),
            (&[], Some("https://evil.example"), Some("localhost:15674"), false),
            (&[], Some("https://localhost.evil.example"), Some("localhost:15674"), false),
            (&[], Some("null"), Some("localhost"), false),
            (&[], Some("http://localhost"), None, false),
            (&["https://shop.example"], Some("https://SHOP.example"), Some("mq.example"), true),
            (&["https://shop.example"], Some("http://shop.example"), Some("mq.example"), false),
            (&["*"], Some("null"), Some("mq.example"), true),
            // Its own name leads here.
            (&[], Some("http://evil.example:15674"), Some("evil.example:15674"), false),
        ] {
            assert_eq!(web(origins).admits(origin, host, here), admitted, "{origins:?} {origin:?} {host:?}");
        }
    }

    #[test]
    fn the_best_that_is_offered_is_spoken() {
        let hosts = Arc::new(|_: &str, _| true);
        let web = Web { subprotocols: &["v12", "v11"], origins: Arc::new([]), hosts, messages: WebMessages::Binary };
        let webs = [(0, &web)];
        assert_eq!(chosen(&webs, &[]), Ok(None));
        assert_eq!(chosen(&webs, &["v11", "v12"]), Ok(Some("v12")));
        assert_eq!(chosen(&webs, &["mqtt", "v11"]), Ok(Some("v11")));
        assert!(chosen(&webs, &["mqtt"]).is_err_and(|text| text.contains("v12, v11")));
        // Two protocols that share a name, as both versions of AMQP do.
        let webs = [(0, &web), (3, &web)];
        assert_eq!(chosen(&webs, &["v11"]), Ok(Some("v11")));
    }

    #[test]
    fn text_goes_as_text_up_to_the_last_whole_character() {
        let euro = "€".as_bytes();
        for (bytes, is_text, count) in [
            (&b"abc"[..], true, 3),
            (&[b"ab", &euro[..2]].concat(), true, 2),
            (&euro[..2], false, 2),
            (&[b"a", &euro[1..], b"b"].concat(), false, 4),
            (&[0xff, b'a'], false, 2),
        ] {
            let (message, sent) = message(bytes);
            assert_eq!((message.is_text(), sent), (is_text, count), "{bytes:?}");
            assert_eq!(message.into_data(), bytes[..count]);
        }
    }
}
