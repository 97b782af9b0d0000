//! What peers of AMQP 1.0 can send, before and after their log-in.

use ::amqp10::codec::performative::{Attach, Begin, Close, Open, Role, Transfer};
use ::amqp10::codec::sasl::{SaslInit, Secret};
use ::amqp10::codec::{
    AttachTarget, DeliveryState, Encode, FrameKind, Outcome, Performative, ProtocolId, Section, Symbol, Target,
    decode_frame, decode_performative, encode_frame,
};

use super::*;
use crate::server::until;

const FRAME: u32 = 128 << 10;

fn put(bytes: &mut Vec<u8>, performative: &impl Encode) {
    encode_frame(bytes, FrameKind::Amqp, 0, performative);
}

/// A frame of the SASL layer with this body, behind the header.
fn sasl(body: &[u8]) -> Vec<u8> {
    let mut bytes = ProtocolId::Sasl.header().to_vec();
    bytes.extend((body.len() as u32 + 8).to_be_bytes());
    bytes.extend([2, 1, 0, 0]);
    bytes.extend(body);
    bytes
}

/// A list in a list, and so on.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = vec![0x45];
    for _ in 0..depth {
        let mut outer = vec![0xd0];
        outer.extend((value.len() as u32 + 4).to_be_bytes());
        outer.extend(1_u32.to_be_bytes());
        outer.append(&mut value);
        value = outer;
    }
    value
}

/// Values that lie, or cost more than their bytes.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let compound = |code: u8, count: u32, rest: &[u8]| {
        let mut bytes = vec![code];
        bytes.extend((rest.len() as u32 + 4).to_be_bytes());
        bytes.extend(count.to_be_bytes());
        bytes.extend(rest);
        bytes
    };
    vec![
        ("nested", nested(1000)),
        ("described without an end", [0x00; 4000].to_vec()),
        ("nulls in an array", compound(0xf0, u32::MAX, &[0x40])),
        ("empty lists in an array", compound(0xf0, 1 << 30, &[0x45])),
        ("a list of more than there is", compound(0xd0, u32::MAX, &[0x40; 8])),
        ("a map of an odd count", compound(0xd1, 3, &[0x40; 3])),
        ("a string longer than its frame", [&[0xb1][..], &u32::MAX.to_be_bytes(), b"abc"].concat()),
        ("an unknown format code", vec![0x3f]),
    ]
}

/// A peer that has logged in and begun a session.
struct Peer10 {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Peer10 {
    fn open(server: &Server) -> Self {
        let mut bytes = ProtocolId::Sasl.header().to_vec();
        let response = Some(Secret(b"\0guest\0guest"));
        let init = SaslInit { mechanism: Symbol("PLAIN"), initial_response: response, hostname: None };
        encode_frame(&mut bytes, FrameKind::Sasl, 0, &init);
        bytes.extend(ProtocolId::Amqp.header());
        put(&mut bytes, &Open { container_id: "attack", max_frame_size: FRAME, ..Open::default() });
        put(&mut bytes, &Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() });
        let mut peer = Self { socket: socket(server.ports.amqp), received: Vec::new() };
        shove(&mut peer.socket, &bytes);
        let header = ProtocolId::Amqp.header();
        while !peer.received.windows(8).any(|part| part == header) {
            assert!(peer.read(), "closed before the log-in ends");
        }
        let at = peer.received.windows(8).position(|part| part == header).unwrap();
        peer.received.drain(..at + 8);
        assert_eq!((peer.next(), peer.next()), ("open".to_owned(), "begin".to_owned()));
        peer
    }

    fn read(&mut self) -> bool {
        let mut part = [0; 4096];
        let count = self.socket.read(&mut part).unwrap_or(0);
        self.received.extend_from_slice(&part[..count]);
        count > 0
    }

    fn send(&mut self, performative: &impl Encode) {
        let mut bytes = Vec::new();
        put(&mut bytes, performative);
        shove(&mut self.socket, &bytes);
    }

    /// A link to a queue.
    fn attach(&mut self, handle: u32) {
        let target = Some(AttachTarget::Target(Target { address: Some("attacked"), ..Target::default() }));
        let name = format!("link {handle}");
        self.send(&Attach { name: &name, handle, role: Role::Sender, target, ..Attach::default() });
    }

    /// A part of a message.
    fn transfer(&mut self, transfer: &Transfer<'_>, payload: &[u8]) {
        let mut bytes = Vec::new();
        put(&mut bytes, transfer);
        let size = (bytes.len() + payload.len()) as u32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes.extend(payload);
        shove(&mut self.socket, &bytes);
    }

    /// The next frame, with its error; `closed` if there is none.
    fn next(&mut self) -> String {
        loop {
            if let Some(frame) = decode_frame(&self.received, u32::MAX).unwrap() {
                let size = frame.size as usize;
                let shown = decode_performative(frame.body).map(|(performative, _)| shown(&performative)).unwrap();
                self.received.drain(..size);
                return shown;
            }
            if !self.read() {
                return "closed".to_owned();
            }
        }
    }

    /// The first frame that begins so.
    fn until(&mut self, begins: &str) -> String {
        loop {
            let shown = self.next();
            assert_ne!(shown, "closed", "no {begins}");
            if shown.starts_with(begins) {
                return shown;
            }
        }
    }
}

fn shown(performative: &Performative<'_>) -> String {
    let (name, error) = match performative {
        Performative::Open(_) => ("open", None),
        Performative::Begin(_) => ("begin", None),
        Performative::Attach(_) => ("attach", None),
        Performative::Flow(_) => ("flow", None),
        Performative::Transfer(_) => ("transfer", None),
        Performative::Disposition(disposition) => match &disposition.state {
            Some(DeliveryState::Outcome(Outcome::Rejected(rejected))) => ("rejected", rejected.error),
            _ => ("disposition", None),
        },
        Performative::Detach(detach) => ("detach", detach.error),
        Performative::End(end) => ("end", end.error),
        Performative::Close(close) => ("close", close.error),
    };
    error.map_or(name.to_owned(), |error| format!("{name} {}", error.condition.0))
}

#[test]
fn strangers_of_amqp_1_0_are_closed_and_cost_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-pending-per-address=20000", "--limits-pending=20000"]);
    let canary = Canary::start(&server);
    let header = ProtocolId::Sasl.header();
    let head = |rest: &[u8]| [&header[..], rest].concat();
    let mut refused = vec![
        head(&[0x7f, 0xff, 0xff, 0xff, 2, 1, 0, 0]),
        head(&[0, 0, 0x20, 1, 2, 1, 0, 0]),
        head(&[0, 0, 0, 7, 2, 1, 0, 0]),
        head(&[0, 0, 0, 8, 1, 1, 0, 0]),
        head(&[0, 0, 0, 8, 255, 1, 0, 0]),
        head(&[0, 0, 0, 8, 2, 9, 0, 0]),
        // Frames of AMQP, of which the first is a heartbeat.
        head(&[0, 0, 0, 8, 2, 0, 0, 0]),
        sasl(&[0x00, 0x53, 0x99, 0x45]),
        sasl(&[0x00, 0x53, 0x44, 0x45]),
    ];
    let init = |value: &[u8]| {
        let mut fields = vec![0xa3, 5];
        fields.extend(b"PLAIN");
        fields.extend(value);
        let mut body = vec![0x00, 0x53, 0x41, 0xd0];
        body.extend((fields.len() as u32 + 4).to_be_bytes());
        body.extend(2_u32.to_be_bytes());
        body.extend(fields);
        body
    };
    refused.extend(hostile().iter().filter(|(_, value)| value.len() < 8000).map(|(_, value)| sasl(&init(value))));
    let before = resident(&server);
    let mut held = Vec::new();
    for bytes in &refused {
        for _ in 0..40 {
            let mut socket = socket(server.ports.amqp);
            shove(&mut socket, bytes);
            held.push(socket);
        }
    }
    for socket in &mut held {
        let said = answer(socket);
        assert!(!said.windows(8).any(|part| part == ProtocolId::Amqp.header()), "it goes on: {said:?}");
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < held.len() as u64 * 16 + 16 * 1024, "{grown} KiB for {} connections", held.len());
    canary.stop();
}

#[test]
fn values_of_amqp_1_0_are_neither_deep_nor_larger_than_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let canary = Canary::start(&server);
    let before = resident(&server);
    for (what, value) in hostile() {
        // The properties of a flow.
        let mut fields = [[0x43; 4].as_slice(), &[0x40; 6]].concat();
        fields.extend(&value);
        let mut body = vec![0x00, 0x53, 0x13, 0xd0];
        body.extend((fields.len() as u32 + 4).to_be_bytes());
        body.extend(11_u32.to_be_bytes());
        body.extend(fields);
        let mut frame = (body.len() as u32 + 8).to_be_bytes().to_vec();
        frame.extend([2, 0, 0, 0]);
        frame.extend(body);
        let mut peer = Peer10::open(&server);
        shove(&mut peer.socket, &frame);
        assert_eq!(peer.next(), "close amqp:decode-error", "{what}");
        // The application properties of a message, which alone are refused.
        let mut peer = Peer10::open(&server);
        peer.attach(0);
        peer.until("flow");
        let section = [&[0x00, 0x53, 0x74][..], &value].concat();
        peer.transfer(&Transfer { delivery_id: Some(0), delivery_tag: Some(b"0"), ..Transfer::default() }, &section);
        assert_eq!(peer.next(), "rejected amqp:decode-error", "{what}");
        peer.send(&Close::default());
        assert_eq!(peer.next(), "close", "{what}");
    }
    let mut peer = Peer10::open(&server);
    shove(&mut peer.socket, &[0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x99, 0x45]);
    assert_eq!(peer.next(), "close amqp:decode-error", "an unknown descriptor");
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
    canary.stop();
}

#[test]
fn links_of_amqp_1_0_and_parts_of_messages_are_limited_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        ["--limits-max-message-size=1MiB", "--limits-consumers-per-channel=50", "--limits-consumers-per-connection=20"];
    let server = Server::start(folder.path(), &flags);
    let canary = Canary::start(&server);
    let before = resident(&server);
    for _ in 0..2 {
        let mut peer = Peer10::open(&server);
        peer.attach(50);
        assert_eq!(peer.next(), "close amqp:connection:framing-error", "beyond handle-max");
        let mut peer = Peer10::open(&server);
        (0..21).for_each(|handle| peer.attach(handle));
        assert_eq!(peer.until("end"), "end amqp:resource-limit-exceeded");
        let mut peer = Peer10::open(&server);
        (0..20).for_each(|handle| peer.attach(handle));
        (0..20).for_each(|_| drop(peer.until("flow")));
        let (part, mut parts) = (vec![0; 64 << 10], (0..).zip((0..20).cycle()));
        // Each message is within its own limit, and all together are not.
        for (number, handle) in parts.by_ref().take(20 * 14) {
            let first = number < 20;
            let transfer = Transfer {
                handle,
                delivery_id: first.then_some(handle),
                delivery_tag: first.then_some(b"t"),
                more: true,
                ..Transfer::default()
            };
            peer.transfer(&transfer, &part);
        }
        assert_eq!(peer.until("detach"), "detach amqp:resource-limit-exceeded");
        let mut peer = Peer10::open(&server);
        peer.attach(0);
        peer.until("flow");
        for number in 0..40 {
            let transfer = Transfer {
                delivery_id: (number == 0).then_some(0),
                delivery_tag: (number == 0).then_some(b"t"),
                more: true,
                ..Transfer::default()
            };
            peer.transfer(&transfer, &part);
        }
        assert_eq!(peer.until("detach"), "detach amqp:link:message-size-exceeded");
        let mut whole = Vec::new();
        Section::Data.encode(&&b"x"[..], &mut whole);
        peer.transfer(&Transfer { handle: 7, delivery_id: Some(1), ..Transfer::default() }, &whole);
        assert_eq!(peer.until("end"), "end amqp:session:unattached-handle");
    }
    until("all connections but the canary's are gone", || metric(&server, "rabbitmq_connections ") == 1);
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    canary.stop();
}
