//! MQTT over WebSockets: what counts as a sign of life, which ends send a will, and which targets
//! open a connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use mqtt::codec::{
    Connect, FilterList, Options, Packet, PacketId, Properties, Publish, QoS, Subscribe, Version, Will, decode, encode,
};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::server::{HANG, Ports, Server};

const VERSION: Version = Version::V3_1_1;

fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(packet, VERSION, &mut bytes);
    bytes
}

fn connect(client_id: &str, keep_alive: u16) -> Connect<'_> {
    Connect {
        version: VERSION,
        clean_start: true,
        keep_alive,
        client_id,
        user: Some("guest"),
        password: Some(b"guest"),
        ..Connect::default()
    }
}

/// A client over TCP that waits for wills.
struct Watcher {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Watcher {
    fn open(server: &Server) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", server.ports.mqtt)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let mut watcher = Self { socket, input: Vec::new() };
        watcher.socket.write_all(&bytes(&Packet::Connect(connect("watcher", 0)))).unwrap();
        let mut list = FilterList::default();
        list.subscribe("wills/#", Options { qos: QoS::AtLeastOnce, ..Options::default() }, VERSION);
        let (id, properties, filters) = (PacketId::MIN, Properties::NONE, list.as_subscribe(VERSION));
        watcher.socket.write_all(&bytes(&Packet::Subscribe(Subscribe { id, properties, filters }))).unwrap();
        assert_eq!(["CONNACK", "SUBACK"].map(|_| watcher.next().0), ["CONNACK", "SUBACK"]);
        watcher
    }

    /// The kind of the next packet, and its topic.
    fn next(&mut self) -> (&'static str, String) {
        loop {
            if let Some((packet, length)) = decode(&self.input, VERSION, u32::MAX).unwrap() {
                let topic = if let Packet::Publish(Publish { topic, .. }) = packet { topic } else { "" }.to_owned();
                let kind = packet.kind().as_str();
                self.input.drain(..length);
                return (kind, topic);
            }
            let mut read = [0; 1024];
            let count = self.socket.read(&mut read).unwrap();
            assert!(count > 0, "the server has closed the connection");
            self.input.extend_from_slice(&read[..count]);
        }
    }
}

/// A page that has sent this CONNECT and has its answer. The target is as it stands in the request.
fn page(port: u16, target: &str, connect: Connect<'_>) -> WebSocket<TcpStream> {
    let mut request = format!("ws://127.0.0.1:{port}{target}").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mqtt".parse().unwrap());
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let (mut socket, response) = client(request, socket).map_err(|error| error.to_string()).unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "mqtt", "{target}");
    socket.send(Message::binary(bytes(&Packet::Connect(connect)))).unwrap();
    assert_eq!(socket.read().unwrap().into_data().as_ref(), b"\x20\x02\0\0", "{target}");
    socket
}

fn with_will(topic: &str, keep_alive: u16) -> Connect<'_> {
    let will = Will { qos: QoS::AtLeastOnce, topic, payload: b"gone", ..Will::default() };
    Connect { will: Some(will), ..connect(topic, keep_alive) }
}

fn start(dir: &std::path::Path) -> (Server, u16) {
    let port = Ports::free().amqps;
    (Server::start(dir, &["--ports-web-mqtt", &port.to_string()]), port)
}

/// MQTT-3.1.2-22: only packets count. A page that hangs still answers pings.
#[test]
fn pings_of_the_websocket_are_no_sign_of_life() {
    let dir = tempfile::tempdir().unwrap();
    let (server, port) = start(dir.path());
    let mut watcher = Watcher::open(&server);
    let mut page = page(port, "/ws", with_will("wills/silent", 2));
    page.get_mut().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < HANG, "the connection lives on");
        let sent = page.send(Message::Ping(Vec::new().into()));
        match page.read() {
            Ok(Message::Close(_)) => break,
            Err(Error::Io(error)) if sent.is_ok() && error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
            Ok(_) => {}
        }
    }
    assert_eq!(watcher.next(), ("PUBLISH", "wills/silent".to_owned()));
}

/// MQTT 5 §3.1.2.5: the connection has ended without DISCONNECT, however it has ended.
#[test]
fn an_end_of_the_websocket_sends_the_will() {
    let dir = tempfile::tempdir().unwrap();
    let (server, port) = start(dir.path());
    let mut watcher = Watcher::open(&server);
    type Ends = fn(WebSocket<TcpStream>);
    let cases: [(&str, Ends); 4] = [
        ("wills/1000", |mut page| {
            page.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).unwrap();
            while page.read().is_ok() {}
        }),
        ("wills/1001", |mut page| {
            page.close(Some(CloseFrame { code: CloseCode::Away, reason: "".into() })).unwrap();
            while page.read().is_ok() {}
        }),
        ("wills/none", |mut page| {
            page.close(None).unwrap();
            while page.read().is_ok() {}
        }),
        ("wills/tcp", |page| page.get_ref().shutdown(Shutdown::Both).unwrap()),
    ];
    for (topic, end) in cases {
        end(page(port, "/ws", with_will(topic, 300)));
        assert_eq!(watcher.next(), ("PUBLISH", topic.to_owned()));
    }
}

/// Pages that carry a token in the address reach the broker, and the token is not logged.
#[test]
fn what_stands_behind_the_path_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (server, port) = start(dir.path());
    for target in ["/mqtt?access_token=s3cret", "/mqtt/", "/ws?x=%2F", "/ws"] {
        page(port, target, connect("c", 0)).close(None).unwrap();
    }
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status, Some(0));
    assert!(!log.iter().any(|line| line.contains("s3cret")), "{log:?}");
}
