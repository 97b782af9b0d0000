//! WebSockets: the handshake, messages that cut lines anywhere, text and other bytes, and the end
//! from either side.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use net::{Listener, Nagle, Net, Settings, Web, WebMessages};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use crate::toy::Toy;
use crate::{HANG, connect, drain, until};

fn start(settings: Settings, toy: &Toy) -> (Net, SocketAddr) {
    let net = Net::start(1, settings).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
    let address = listener.address().unwrap();
    let origins = Arc::new(["https://shop.example".to_owned()]);
    let web = Web {
        subprotocols: &["v12.toy", "v11.toy"],
        origins,
        hosts: Arc::new(|_, _| true),
        messages: WebMessages::TextIfPossible,
    };
    net.serve(listener, &[Arc::new(toy.clone())], None, Some(web)).unwrap();
    (net, address)
}

type Opened = (WebSocket<TcpStream>, Response<Option<Vec<u8>>>);

fn open(address: SocketAddr, headers: &[(&'static str, &str)]) -> Result<Opened, Error> {
    let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    client(request, connect(address)).map_err(|error| match error {
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => panic!("the socket blocks"),
    })
}

/// Reads messages until `expected` has come, and says how many of them were text.
fn expect(socket: &mut WebSocket<TcpStream>, expected: &[u8]) -> usize {
    let (mut received, mut texts) = (Vec::new(), 0);
    while received.len() < expected.len() {
        let message = socket.read().unwrap();
        texts += usize::from(message.is_text());
        received.extend_from_slice(&message.into_data());
    }
    assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(expected));
    texts
}

#[test]
fn lines_come_back_whole_however_messages_cut_them() {
    let (net, address) = start(Settings::default(), &Toy::default());
    let (mut socket, response) = open(address, &[("sec-websocket-protocol", "v10.toy, v11.toy")]).unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "v11.toy");
    for part in ["ec", "ho one\nech", "o two\n"] {
        socket.send(Message::text(part)).unwrap();
    }
    assert!(expect(&mut socket, b"one\ntwo\n") > 0);
    socket.send(Message::Ping("are you there".into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong("are you there".into()));
    socket.send(Message::binary("echo caf\u{e9}\n".as_bytes().to_vec())).unwrap();
    assert!(expect(&mut socket, "caf\u{e9}\n".as_bytes()) > 0, "text comes as text");
    // More than one message takes, and more than the system's buffers hold.
    socket.send(Message::text("flood 3000000\n")).unwrap();
    let mut flooded = 0;
    while flooded < 3_000_000 {
        flooded += socket.read().unwrap().len();
    }
    assert_eq!(flooded, 3_000_000);
    assert_eq!(net.registry().list()[0].protocol, "toy");
    socket.close(None).unwrap();
    until("an empty registry", || net.registry().open() == 0);
    assert_eq!(net.shutdown(HANG), 0);
}

#[test]
fn the_server_says_goodbye() {
    let (_net, address) = start(Settings::default(), &Toy::default());
    let (mut socket, _) = open(address, &[]).unwrap();
    socket.send(Message::text("quit\n")).unwrap();
    expect(&mut socket, b"bye\n");
    assert!(socket.read().unwrap().is_close());
}

/// Both sides send a close frame before what lies beneath ends; what crosses it is discarded.
#[test]
fn a_last_answer_is_followed_by_a_close_frame_that_the_peer_returns() {
    let toy = Toy::default();
    let (net, address) = start(Settings { linger: HANG, ..Settings::default() }, &toy);
    let (mut socket, _) = open(address, &[]).unwrap();
    socket.send(Message::text("echo in\n")).unwrap();
    expect(&mut socket, b"in\n");
    socket.send(Message::text("answer\n")).unwrap();
    socket.send(Message::text("crossing\n")).unwrap();
    expect(&mut socket, b"bye\n");
    until("the end of the protocol", || toy.saw("Gone") == 1);
    socket.send(Message::binary(vec![b'x'; 100_000])).unwrap();
    assert_eq!(net.registry().open(), 1);
    assert!(socket.read().unwrap().is_close());
    let end = socket.read().unwrap_err();
    assert!(matches!(end, Error::ConnectionClosed), "{end:?}");
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn strangers_are_told_why_and_cost_nothing() {
    let (net, address) = start(Settings::default(), &Toy::default());
    for (headers, status, text) in [
        (&[("origin", "https://evil.example")][..], 403, "origin"),
        (&[("sec-websocket-protocol", "mqtt")], 400, "v12.toy, v11.toy"),
    ] {
        let Err(Error::Http(response)) = open(address, headers) else { panic!("{headers:?} was let in") };
        let body = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
        assert!(response.status() == status && body.contains(text), "{headers:?}: {response:?}");
    }
    for origin in ["https://shop.example", "http://127.0.0.1"] {
        open(address, &[("origin", origin)]).unwrap();
    }
    // Bytes of the protocol itself are no handshake, and a message of a mebibyte is the largest.
    let mut bare = connect(address);
    std::io::Write::write_all(&mut bare, b"echo one\n\r\n\r\n").unwrap();
    assert_eq!(drain(&mut bare), 0);
    let (mut socket, _) = open(address, &[]).unwrap();
    let _ = socket.send(Message::binary(vec![b'x'; (1 << 20) + 1]));
    assert!(socket.read().is_err());
    until("an empty registry", || net.registry().open() == 0);
}

/// Writes a request by hand and returns the first line of the answer, and what it says of a header.
fn ask(address: SocketAddr, request: &str, name: &str) -> (String, String) {
    let mut socket = connect(address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    let value = answer.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default().to_owned();
    (answer.lines().next().unwrap_or_default().to_owned(), value)
}

#[test]
fn what_opens_no_websocket_is_told_what_would() {
    let (_net, address) = start(Settings::default(), &Toy::default());
    let open =
        "Host: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (request, name, status, value) in [
        (format!("GET /ws HTTP/1.1\r\n{open}Sec-WebSocket-Version: 8\r\n\r\n"), "Sec-WebSocket-Version", "426", "13"),
        ("GET /ws HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "Sec-WebSocket-Version", "426", "13"),
        (format!("POST /ws HTTP/1.1\r\n{open}Sec-WebSocket-Version: 13\r\n\r\n"), "Allow", "405", "GET"),
    ] {
        let (line, said) = ask(address, &request, name);
        assert!(line.contains(status) && said == value, "{request}: {line}, {said}");
    }
}

#[test]
fn before_the_log_in_messages_are_short_and_after_it_long() {
    let (net, address) = start(Settings::default(), &Toy { strict: true, ..Toy::default() });
    let (mut socket, _) = open(address, &[]).unwrap();
    let _ = socket.send(Message::binary(vec![b'x'; 16 * 1024 + 1]));
    assert!(socket.read().is_err(), "16 KiB are the most before");
    let (mut socket, _) = open(address, &[]).unwrap();
    socket.send(Message::text("login\necho in\n")).unwrap();
    expect(&mut socket, b"in\n");
    let long = "y".repeat(500_000);
    socket.send(Message::text(format!("echo {long}\n"))).unwrap();
    expect(&mut socket, format!("{long}\n").as_bytes());
    drop(socket);
    let mut bare = connect(address);
    let head = format!("GET /ws HTTP/1.1\r\nx: {}", "y".repeat(20_000));
    // It may be closed while it is being written to.
    let _ = std::io::Write::write_all(&mut bare, head.as_bytes());
    assert_eq!(drain(&mut bare), 0);
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let settings = Settings { detect_timeout: std::time::Duration::from_millis(50), ..Settings::default() };
    let (net, address) = start(settings, &Toy::default());
    let mut socket = connect(address);
    std::io::Write::write_all(&mut socket, b"GET /ws HTTP/1.1\r\n").unwrap();
    assert_eq!(drain(&mut socket), 0);
    until("an empty registry", || net.registry().open() == 0);
}
