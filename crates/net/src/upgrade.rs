//! What answers a request on a port for WebSockets that opens none: the library above ends it
//! without a word.
//!
//! Only the method and the version are looked at; what else may be wrong with a handshake the
//! library tells itself.

use wire::Recognition;

/// What requests begin with.
const METHODS: [&[u8]; 7] = [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH "];
/// To another method than GET (RFC 9110, 15.5.6).
const NO_SUCH_METHOD: &str = "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nContent-Type: text/plain\r\n\
     Content-Length: 87\r\nConnection: close\r\n\r\n\
     this port is for WebSockets, by GET. The API and the console have ports of their own.\r\n";
/// To another version, or to what is no handshake (RFC 6455, 4.2.2; RFC 9110, 15.5.22).
const NO_SUCH_VERSION: &str = "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n\
     Content-Type: text/plain\r\nContent-Length: 91\r\nConnection: Upgrade, close\r\n\r\n\
     this port is for WebSockets, version 13. The API and the console have ports of their own.\r\n";
/// The version that is spoken.
const VERSION: &str = "13";

/// Whether these bytes begin a request of HTTP/1.1. `CONNECT` is none here: STOMP begins so.
pub(crate) fn recognise(first: &[u8]) -> Recognition {
    let begins = |method: &&&[u8]| method.starts_with(&first[..first.len().min(method.len())]);
    match METHODS.iter().find(begins) {
        None => Recognition::No,
        Some(method) if first.len() < method.len() => Recognition::Incomplete,
        Some(_) => Recognition::Yes,
    }
}

/// What to answer to a head before the end; nothing while it is not complete, to a handshake, and
/// to what is not HTTP.
pub(crate) fn refusal(head: &[u8]) -> Option<&'static str> {
    let end = head.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&head[..end]);
    let (line, fields) = head.split_once("\r\n").unwrap_or((&head, ""));
    if !line.contains(" HTTP/1.") {
        return None;
    }
    if !line.starts_with("GET ") {
        return Some(NO_SUCH_METHOD);
    }
    let fields = fields.lines().filter_map(|field| field.split_once(':'));
    let mut versions = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("sec-websocket-version"));
    let spoken = versions.any(|(_, version)| version.trim() == VERSION);
    (!spoken).then_some(NO_SUCH_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_no_websocket_is_told_what_would() {
        for (head, expected) in [
            ("GET /ws HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Version: 13\r\n\r\n", None),
            ("GET /ws HTTP/1.1\r\nsec-websocket-version:13\r\n\r\nmore", None),
            ("GET /ws HTTP/1.1\r\nSec-WebSocket-Version: 8\r\n\r\n", Some("426")),
            ("GET /ws HTTP/1.1\r\nHost: h\r\n\r\n", Some("426")),
            ("GET / HTTP/1.1\r\n\r\n", Some("426")),
            ("POST /ws HTTP/1.1\r\nSec-WebSocket-Version: 13\r\n\r\n", Some("405")),
            ("\u{16}\u{3}\r\n\r\n", None),
            ("echo one\n\r\n\r\n", None),
            ("GET /ws HTTP/1.1\r\nSec-WebSocket-Version: 8\r\n", None),
            ("", None),
        ] {
            let status = refusal(head.as_bytes()).map(|answer| &answer["HTTP/1.1 ".len()..][..3]);
            assert_eq!(status, expected, "{head:?}");
        }
    }

    #[test]
    fn requests_are_known_by_their_method() {
        for (first, expected) in [
            (&b""[..], Recognition::Incomplete),
            (b"G", Recognition::Incomplete),
            (b"P", Recognition::Incomplete),
            (b"PO", Recognition::Incomplete),
            (b"GET", Recognition::Incomplete),
            (b"GET ", Recognition::Yes),
            (b"GET /ws HTTP/1.1\r\n", Recognition::Yes),
            (b"GETTING", Recognition::No),
            (b"CONNECT h:1 HTTP/1.1\r\n", Recognition::No),
            (b"AMQP", Recognition::No),
        ] {
            assert_eq!(recognise(first), expected, "{first:?}");
        }
    }

    #[test]
    fn answers_are_as_long_as_they_say() {
        for answer in [NO_SUCH_METHOD, NO_SUCH_VERSION] {
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}: {}", body.len());
        }
    }
}
