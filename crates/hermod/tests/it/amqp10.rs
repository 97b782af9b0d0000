//! AMQP 1.0 on the ports of the program: beside AMQP 0-9-1 on one, and over WebSocket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp10::client::in_transaction;
use amqp10::codec::performative::{Attach, Begin, Close, Disposition, Flow, Open, Role, Transfer};
use amqp10::codec::sasl::{SaslInit, Secret};
use amqp10::codec::terminus::{Coordinator, Declare, Discharge};
use amqp10::codec::{
    AttachTarget, DeliveryState, Encode, FrameKind, Outcome, Performative, ProtocolId, Section, Source, Symbol, Target,
    decode_frame, decode_performative, encode_frame,
};
use amqp10::delivery::encode_transfers;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, client};

use crate::server::{HANG, Ports, Server};
use crate::stomp::Stomp;

const FRAME: u32 = 4096;

/// The log-in and a session, as one run of bytes: nothing of it has to wait for an answer.
fn opening() -> Vec<u8> {
    let mut bytes = ProtocolId::Sasl.header().to_vec();
    let response = Some(Secret(b"\0guest\0guest"));
    let init = SaslInit { mechanism: Symbol("PLAIN"), initial_response: response, hostname: None };
    encode_frame(&mut bytes, FrameKind::Sasl, 0, &init);
    bytes.extend(ProtocolId::Amqp.header());
    put(&mut bytes, &Open { container_id: "it", max_frame_size: FRAME, ..Open::default() });
    put(&mut bytes, &Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() });
    bytes
}

fn put(bytes: &mut Vec<u8>, performative: &impl Encode) {
    encode_frame(bytes, FrameKind::Amqp, 0, performative);
}

/// The names of the performatives in `bytes`, from the second protocol header on, and the bodies
/// behind the transfers.
fn heard(bytes: &[u8]) -> Vec<String> {
    let header = ProtocolId::Amqp.header();
    let Some(at) = bytes.windows(8).position(|part| part == header) else { return Vec::new() };
    let mut rest = &bytes[at + 8..];
    let mut names = Vec::new();
    while let Ok(Some(frame)) = decode_frame(rest, u32::MAX) {
        let (performative, payload) = decode_performative(frame.body).unwrap();
        let name = format!("{performative:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
        match performative {
            Performative::Transfer(_) => names.push(format!("{name} {}", String::from_utf8_lossy(payload))),
            _ => names.push(name),
        }
        rest = &rest[frame.size as usize..];
    }
    names
}

/// Reads until the last frame has this name.
fn until(socket: &mut TcpStream, bytes: &mut Vec<u8>, last: &str) -> Vec<String> {
    let mut part = [0; 4096];
    loop {
        let names = heard(bytes);
        if names.last().is_some_and(|name| name.starts_with(last)) {
            return names;
        }
        let count = socket.read(&mut part).unwrap();
        assert!(count > 0, "closed after {names:?}");
        bytes.extend_from_slice(&part[..count]);
    }
}

#[test]
fn one_port_has_both_versions_and_the_queues_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut other = Stomp::connect(&server);
    other.publish("to10", "from stomp");

    let mut socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let mut bytes = opening();
    let target = Some(AttachTarget::Target(Target { address: Some("from10"), ..Target::default() }));
    put(&mut bytes, &Attach { name: "out", role: Role::Sender, target, ..Attach::default() });
    let mut message = Vec::new();
    Section::Data.encode(&&b"from amqp 1.0"[..], &mut message);
    let first = Transfer { delivery_id: Some(0), delivery_tag: Some(b"0"), ..Transfer::default() };
    encode_transfers(first, 0, &message, FRAME, &mut bytes);
    // In two parts, the first of which could be of either version.
    let (start, rest) = bytes.split_at(4);
    socket.write_all(start).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    socket.write_all(rest).unwrap();
    let mut answer = Vec::new();
    let names = until(&mut socket, &mut answer, "Disposition");
    assert_eq!(names, ["Open", "Begin", "Attach", "Flow", "Disposition"]);
    other.send("SUBSCRIBE\nid:1\ndestination:/queue/from10\n\n");
    assert!(other.frame().contains("from amqp 1.0"));

    let mut bytes = Vec::new();
    let source = Some(Source { address: Some("to10"), ..Source::default() });
    put(&mut bytes, &Attach { name: "in", handle: 1, role: Role::Receiver, source, ..Attach::default() });
    put(&mut bytes, &Flow { incoming_window: 100, handle: Some(1), link_credit: Some(1), ..Flow::default() });
    socket.write_all(&bytes).unwrap();
    let names = until(&mut socket, &mut answer, "Transfer");
    assert!(names.last().unwrap().contains("from stomp"), "{names:?}");
    let mut bytes = Vec::new();
    put(&mut bytes, &Close::default());
    socket.write_all(&bytes).unwrap();
    until(&mut socket, &mut answer, "Close");
}

/// Reads until so many frames begin like this.
fn heard_until(socket: &mut TcpStream, bytes: &mut Vec<u8>, name: &str, wanted: usize) -> Vec<String> {
    let mut part = [0; 4096];
    loop {
        let names = heard(bytes);
        if names.iter().filter(|found| found.starts_with(name)).count() >= wanted {
            return names;
        }
        let count = socket.read(&mut part).unwrap();
        assert!(count > 0, "closed after {names:?}");
        bytes.extend_from_slice(&part[..count]);
    }
}

fn put_message(bytes: &mut Vec<u8>, handle: u32, id: u32, section: Section, value: &impl Encode) {
    let mut message = Vec::new();
    section.encode(value, &mut message);
    let tag = id.to_be_bytes();
    let transfer = Transfer { handle, delivery_id: Some(id), delivery_tag: Some(&tag), ..Transfer::default() };
    encode_transfers(transfer, 0, &message, FRAME, bytes);
}

/// Part 4, §4.4.2. Clients as AMQPNetLite and Proton do not settle what they take in a transaction.
#[test]
fn a_rollback_leaves_what_a_client_has_not_settled_with_it() {
    // The id of the first transaction of a connection.
    let txn_id = &1_u64.to_be_bytes();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let mut say = opening();
    let target = Some(AttachTarget::Target(Target { address: Some("kept"), ..Target::default() }));
    put(&mut say, &Attach { name: "out", role: Role::Sender, target, ..Attach::default() });
    put_message(&mut say, 0, 0, Section::Data, &&b"m"[..]);
    let target = Some(AttachTarget::Coordinator(Coordinator::default()));
    put(&mut say, &Attach { name: "control", handle: 1, role: Role::Sender, target, ..Attach::default() });
    let source = Some(Source { address: Some("kept"), ..Source::default() });
    put(&mut say, &Attach { name: "in", handle: 2, role: Role::Receiver, source, ..Attach::default() });
    put(&mut say, &Flow { incoming_window: 100, handle: Some(2), link_credit: Some(9), ..Flow::default() });
    socket.write_all(&say).unwrap();
    let mut answer = Vec::new();
    heard_until(&mut socket, &mut answer, "Transfer", 1);

    let taken = Disposition { role: Role::Receiver, ..Disposition::default() };
    let mut say = Vec::new();
    put_message(&mut say, 1, 1, Section::Value, &Declare::default());
    put(&mut say, &Disposition { state: Some(in_transaction(txn_id, Outcome::Accepted)), ..taken });
    put_message(&mut say, 1, 2, Section::Value, &Discharge { txn_id, fail: true });
    put(&mut say, &Disposition { state: Some(DeliveryState::Outcome(Outcome::Accepted)), ..taken });
    socket.write_all(&say).unwrap();
    // The publish, the declaration, the rollback, and at last that the delivery is settled.
    let heard = heard_until(&mut socket, &mut answer, "Disposition", 4);
    assert_eq!(heard.iter().filter(|name| name.starts_with("Transfer")).count(), 1, "{heard:?}");
}

#[test]
fn who_does_not_say_which_version_is_closed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--limits-handshake-timeout", "1s"]);
    let began = Instant::now();
    for first in [&b"AMQP"[..], b"AMQP\x00", b"AMQP\x00\x01\x00", b""] {
        let mut socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        socket.write_all(first).unwrap();
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{first:?} {rest:?}");
    }
    assert!(began.elapsed() < HANG);
}

#[test]
fn a_page_speaks_amqp_1_0() {
    let dir = tempfile::tempdir().unwrap();
    let port = Ports::free().amqps;
    let server = Server::start(dir.path(), &["--ports-web-amqp", &port.to_string()]);
    assert!(server.start.iter().any(|line| line.contains(&format!("listening for web-amqp on 127.0.0.1:{port}"))));
    let mut request = format!("ws://127.0.0.1:{port}/ws").into_client_request().unwrap();
    request.headers_mut().insert("origin", "http://127.0.0.1:8080".parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "amqp".parse().unwrap());
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let (mut page, response) = client(request, socket).unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "amqp");
    page.send(Message::binary(opening())).unwrap();
    let mut answer = Vec::new();
    while heard(&answer) != ["Open", "Begin"] {
        answer.extend_from_slice(&page.read().unwrap().into_data());
    }
}

/// Reads until so many links of the peer's are answered. `rest` is what was read and not looked at.
#[cfg(target_os = "linux")]
fn attached(socket: &mut TcpStream, rest: &mut Vec<u8>, links: usize) {
    let (mut part, mut count) = ([0; 1 << 16], 0);
    while count < links {
        let mut at = 0;
        while let Some(frame) = decode_frame(&rest[at..], u32::MAX).unwrap() {
            match decode_performative(frame.body).unwrap().0 {
                Performative::Attach(_) => count += 1,
                Performative::Flow(_) => {}
                other => panic!("{other:?}"),
            }
            at += frame.size as usize;
        }
        rest.drain(..at);
        if count < links {
            let more = socket.read(&mut part).unwrap();
            assert!(more > 0, "closed after {count} links");
            rest.extend_from_slice(&part[..more]);
        }
    }
}

/// Programs hold a link for each of their consumers and producers, most of which wait.
#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_idle_links_take_two_kibibytes_each() {
    use crate::attacks::resident;

    const LINKS: u32 = 10_000;
    const AT_ONCE: u32 = 500;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let (source, target) = (Source { address: Some("idle"), ..Source::default() }, Target::default());
    let there = AttachTarget::Target(Target { address: Some("idle"), ..Target::default() });
    let consumer = Attach {
        role: Role::Receiver,
        source: Some(source),
        target: Some(AttachTarget::Target(target)),
        ..Attach::default()
    };
    let producer =
        Attach { role: Role::Sender, source: Some(Source::default()), target: Some(there), ..Attach::default() };
    // What one of them left would be where the other's links go.
    let mut stay = Vec::new();
    for kind in [consumer, producer] {
        let mut socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        socket.write_all(&opening()).unwrap();
        until(&mut socket, &mut Vec::new(), "Begin");
        let (mut rest, mut before) = (Vec::new(), 0);
        for first in (0..LINKS).step_by(AT_ONCE as usize) {
            let mut bytes = Vec::new();
            for handle in first..first + AT_ONCE {
                put(&mut bytes, &Attach { name: &format!("link {handle} {:?}", kind.role), handle, ..kind });
                if kind.role == Role::Receiver {
                    let credit = Flow { handle: Some(handle), link_credit: Some(100), ..Flow::default() };
                    put(&mut bytes, &Flow { incoming_window: 100, ..credit });
                }
            }
            socket.write_all(&bytes).unwrap();
            attached(&mut socket, &mut rest, AT_ONCE as usize);
            if first == 0 {
                before = resident(&server);
            }
        }
        // The buffers of an idle connection go back after some seconds.
        let (most, began) = (before + u64::from(2 * (LINKS - AT_ONCE)), Instant::now());
        while resident(&server) > most {
            assert!(began.elapsed() < HANG, "{:?}: {} KiB of {most}", kind.role, resident(&server));
            std::thread::sleep(Duration::from_millis(200));
        }
        stay.push(socket);
    }
}
