//! One port for everything: whatever a client opens with reaches what it means, within TLS or a
//! WebSocket or both, and strangers are given up in time.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{Any, Listener, Nagle, Net, Plain, Settings, Spoken, Web, WebMessages};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use crate::tls::{Pki, pki};
use crate::toy::Toy;
use crate::{connect, drain, until};

/// Two protocols that say their opening back. Pages of other hosts may speak the second one alone.
const FIRST: &[u8] = b"echo a\n";
const SECOND: &[u8] = b"echo b\n";

fn spoken(opening: &'static [u8], name: &'static [&'static str], messages: WebMessages) -> Spoken {
    let origins: Arc<[String]> = match opening {
        SECOND => Arc::new(["https://shop.example".to_owned()]),
        _ => Arc::new([]),
    };
    let web = Web { subprotocols: name, origins, hosts: Arc::new(|_, _| true), messages };
    Spoken { protocol: Arc::new(Toy { opening, ..Toy::default() }), alpn: name, web: Some(web) }
}

fn start(settings: Settings, pki: Option<&Pki>, plain: Plain) -> (Net, SocketAddr) {
    let net = Net::start(1, settings).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
    let address = listener.address().unwrap();
    let spoken =
        vec![spoken(FIRST, &["a", "x-a"], WebMessages::Binary), spoken(SECOND, &["b"], WebMessages::TextIfPossible)];
    net.serve_any(listener, Any { spoken, tls: pki.map(Pki::server), plain }).unwrap();
    (net, address)
}

/// What comes back for these bytes, written one by one, up to as many bytes as `expected` has.
fn exchange(mut socket: impl Read + Write, sent: &[u8], expected: &str) -> Result<(), std::io::Error> {
    for byte in sent {
        socket.write_all(&[*byte])?;
        socket.flush()?;
    }
    let mut received = vec![0; expected.len()];
    socket.read_exact(&mut received)?;
    assert_eq!(String::from_utf8_lossy(&received), expected);
    Ok(())
}

fn open<S: Read + Write>(stream: S, headers: &[(&'static str, &str)]) -> Result<WebSocket<S>, Error> {
    let mut request = "ws://localhost/ws".into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let opened = client(request, stream).map_err(|error| match error {
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => panic!("the socket blocks"),
    });
    Ok(opened?.0)
}

/// Sends an opening and returns whether its answer came as text; `None` if another or none came.
fn talk<S: Read + Write>(mut socket: WebSocket<S>, sent: &[u8]) -> Option<bool> {
    socket.send(Message::binary(sent.to_vec())).ok()?;
    let (mut received, mut is_text) = (Vec::new(), false);
    while received.len() < sent.len() {
        let message = socket.read().ok()?;
        is_text = message.is_text();
        received.extend_from_slice(&message.into_data());
    }
    received.starts_with(sent).then_some(is_text)
}

#[test]
fn whatever_a_client_opens_with_reaches_what_it_means() {
    let pki = pki();
    let (net, address) = start(Settings::default(), Some(&pki), Plain::Served);
    for (opening, answer) in [(FIRST, "echo a\na\n"), (SECOND, "echo b\nb\n"), (b"OTHER", "echo a\n")] {
        // What no protocol knows the first one answers.
        exchange(connect(address), opening, answer).unwrap();
        exchange(pki.connect_with(address, &[]), opening, answer).unwrap();
    }
    for (opening, is_text) in [(FIRST, false), (SECOND, true)] {
        assert_eq!(talk(open(connect(address), &[]).unwrap(), opening), Some(is_text));
        let within = pki.connect_with(address, &["http/1.1"]);
        assert_eq!(talk(open(within, &[]).unwrap(), opening), Some(is_text));
    }
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn listings_tell_which_connections_are_encrypted() {
    let pki = pki();
    let (net, address) = start(Settings::default(), Some(&pki), Plain::Served);
    let (mut plain, mut within) = (connect(address), pki.connect_with(address, &[]));
    exchange(&mut plain, FIRST, "echo a\na\n").unwrap();
    exchange(&mut within, SECOND, "echo b\nb\n").unwrap();
    let shown = net.registry().list();
    assert_eq!(shown.iter().map(|shown| shown.encrypted).collect::<Vec<_>>(), [false, true]);
    assert_eq!(shown.iter().filter(|shown| shown.encryption.is_some()).count(), 1);
}

#[test]
fn a_name_that_was_agreed_upon_narrows_what_follows() {
    let pki = pki();
    let (_net, address) = start(Settings::default(), Some(&pki), Plain::Served);
    // The best that both know, and nothing else from then on: bytes for another reach the one that
    // was named.
    for (names, opening, answer) in [
        (&["a"][..], FIRST, "echo a\na\n"),
        (&["unknown", "x-a"], FIRST, "echo a\na\n"),
        (&["b", "a"], FIRST, "echo a\na\n"),
        (&["b"], SECOND, "echo b\nb\n"),
        (&["b"], &FIRST[..6], "echo b\n"),
    ] {
        exchange(pki.connect_with(address, names), opening, answer).unwrap();
    }
    for (names, sent) in [
        (&["unknown"][..], FIRST),
        (&["h2"], FIRST),
        // A page's request, to a protocol.
        (&["http/1.1"], FIRST),
    ] {
        exchange(pki.connect_with(address, names), sent, "e").unwrap_err();
    }
    assert!(open(pki.connect_with(address, &["b"]), &[]).is_err(), "no WebSocket by the name of a protocol");
    // So does a subprotocol, and so does an origin.
    let named = |name, origin| open(connect(address), &[("sec-websocket-protocol", name), ("origin", origin)]);
    let (here, shop) = ("http://localhost", "https://shop.example");
    assert_eq!(talk(named("b", here).unwrap(), SECOND), Some(true));
    assert_eq!(talk(named("a", here).unwrap(), FIRST), Some(false));
    assert_eq!(talk(named("b", here).unwrap(), FIRST), None);
    assert_eq!(talk(named("b", shop).unwrap(), SECOND), Some(true));
    assert_eq!(talk(open(connect(address), &[("origin", shop)]).unwrap(), FIRST), None);
    for (name, origin, status, text) in
        [("a", shop, 400, "spoken here: b\n"), ("c", here, 400, "a, x-a, b"), ("b", "https://evil", 403, "origin")]
    {
        let Err(Error::Http(response)) = named(name, origin) else { panic!("{name} was let in from {origin}") };
        let body = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
        assert!(response.status() == status && body.contains(text), "{name} {origin}: {response:?}");
    }
}

#[test]
fn without_certificates_or_with_them_alone_the_other_kind_is_refused() {
    let pki = pki();
    let (_net, address) = start(Settings::default(), Some(&pki), Plain::Refused);
    exchange(pki.connect_with(address, &[]), FIRST, "echo a\na\n").unwrap();
    // An alert (RFC 8446, 5.1).
    exchange(connect(address), FIRST, "\u{15}").unwrap();
    assert!(open(connect(address), &[]).is_err());
    let (_net, address) = start(Settings::default(), None, Plain::Served);
    exchange(connect(address), FIRST, "echo a\na\n").unwrap();
    exchange(pki.connect_with(address, &[]), FIRST, "echo a\n").unwrap_err();
}

#[test]
fn requests_that_open_no_websocket_are_told_so() {
    let (_net, address) = start(Settings::default(), None, Plain::Served);
    for (request, status) in
        [("GET /api/overview HTTP/1.1\r\nHost: h\r\n\r\n", "426"), ("POST / HTTP/1.1\r\nHost: h\r\n\r\n", "405")]
    {
        let mut socket = connect(address);
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains("the console"), "{answer}");
    }
}

/// Wherever it stops, and however slowly it comes: the steps have one patience together.
#[test]
fn who_does_not_say_what_it_speaks_is_given_up_and_makes_room() {
    let pki = pki();
    let patience = Duration::from_millis(300);
    let settings =
        Settings { detect_timeout: patience, tls_timeout: patience, pending_per_address: 1, ..Settings::default() };
    let (net, address) = start(settings, Some(&pki), Plain::Served);
    for sent in [&b""[..], b"\x16", b"\x16\x03\x01\x02\0\x01", b"echo ", b"GE", b"GET /ws HTTP/1.1\r\n"] {
        let mut socket = connect(address);
        socket.write_all(sent).unwrap();
        until("its place", || net.registry().open() == 1);
        assert_eq!(drain(&mut connect(address)), 0, "it is a stranger of which there may be one");
        assert_eq!(drain(&mut socket), 0, "{sent:?}");
        until("an empty registry", || net.registry().open() == 0);
    }
    let mut within = pki.connect_with(address, &[]);
    within.write_all(b"echo ").unwrap();
    assert_eq!(within.read(&mut [0]).unwrap_or(0), 0);
    until("an empty registry", || net.registry().open() == 0);
    exchange(connect(address), FIRST, "echo a\na\n").unwrap();
}

#[test]
fn a_shutdown_ends_who_has_said_nothing() {
    let (net, address) = start(Settings::default(), Some(&pki()), Plain::Served);
    let _silent = connect(address);
    until("a connection", || net.registry().open() == 1);
    assert_eq!(net.shutdown(crate::HANG), 0);
}
