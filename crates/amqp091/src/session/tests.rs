//! Whole conversations with a real broker: methods in, the server's frames out as lines of text.
//!
//! [`Peer::expect`] compares everything that the server sends, in order, so an extra frame fails a
//! test as well as a missing one. Tests wait a bounded number of rounds and never assert times.

mod closing;
mod content;
mod errors;
mod exchanges;
mod fences;
mod handshake;
mod objects;
mod replies;
mod rights;
mod selecting;
mod settling;
mod waiting;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{Cost, PasswordHash, Permission, Tags, User};
use broker::{Broker, Dialects};
use testkit::broker::{Setup, TestBroker};
use testkit::driver::Driver;
use wire::{CloseReason, Peer as WirePeer, ReadState};

use crate::codec::methods::*;
use crate::codec::properties::BasicProperties;
use crate::codec::table::{Value, encode_fields};
use crate::codec::{FrameKind, Method, Table, decode_frame, decode_method, frame};
use crate::dialect::Amqp091Dialect;
use crate::limits::PROTOCOL_HEADER;
use crate::session::{Amqp091, Settings};

/// How often a test looks for an answer, with pauses of a millisecond, before it fails.
const ROUNDS: usize = 10_000;

/// Adds a user whose password is its name.
fn add_user(broker: &Broker, name: &str, tags: &[&str], permission: Permission) {
    let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
    let hash = PasswordHash::create(name.as_bytes(), [7; 16], cost).expect("a valid cost");
    let mut user = User::new(name, Some(hash));
    user.tags = Tags::new(tags.iter().copied());
    user.permissions.insert("/".into(), permission);
    broker.authority().put(user).expect("a valid user");
}

/// The protocol over a broker with the users guest, boss (an impersonator) and weak (without any
/// permission).
pub(super) struct Server {
    pub(super) protocol: Amqp091,
    pub(super) test: Rc<TestBroker>,
}

pub(super) fn server() -> Server {
    server_with(Settings::default(), Setup::memory())
}

pub(super) fn server_with(settings: Settings, mut setup: Setup) -> Server {
    setup.dialects = Dialects::new(vec![Arc::new(Amqp091Dialect)]);
    let test = TestBroker::open(setup);
    add_user(&test.broker, "boss", &["impersonator"], Permission::full());
    add_user(&test.broker, "weak", &[], Permission::new("", "", "").expect("valid patterns"));
    Server { protocol: Amqp091::new(test.broker.clone(), settings), test: Rc::new(test) }
}

/// The client's end of a connection.
pub(super) struct Peer {
    test: Rc<TestBroker>,
    pub(super) driver: Driver,
    pub(super) lines: Vec<String>,
}

impl Server {
    /// A socket that has sent nothing yet.
    pub(super) fn socket(&self) -> Peer {
        self.socket_from("127.0.0.1:40000")
    }

    pub(super) fn socket_from(&self, remote: &str) -> Peer {
        self.socket_of(remote, None)
    }

    /// A socket; it uses TLS if there is a user of its certificate.
    pub(super) fn socket_of(&self, remote: &str, certified_user: Option<&str>) -> Peer {
        let peer = WirePeer {
            remote: remote.parse().expect("an address"),
            local: "127.0.0.1:5672".parse().expect("an address"),
            encrypted: certified_user.is_some(),
            certified_user: certified_user.map(Arc::from),
        };
        let driver = Driver::accept_from(&self.protocol, peer, Instant::now());
        Peer { test: Rc::clone(&self.test), driver, lines: Vec::new() }
    }

    /// An open connection of this user. The client announces these capabilities.
    pub(super) fn connect_as(&self, user: &str, fields: &[(String, Value)]) -> Peer {
        let mut peer = self.socket();
        peer.raw(&PROTOCOL_HEADER);
        peer.wait_for(1);
        peer.start_ok("PLAIN", format!("\0{user}\0{user}").as_bytes(), fields);
        peer.wait_for(2);
        peer.send(0, ConnectionTuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 });
        peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
        peer.wait_for(3);
        assert!(peer.lines[2].starts_with("0 ConnectionOpenOk"), "{:?}", peer.lines);
        peer.lines.clear();
        peer
    }

    /// An open connection of guest with channel 1 open.
    pub(super) fn channel(&self) -> Peer {
        let mut peer = self.connect_as("guest", &capabilities());
        peer.open(1);
        peer
    }
}

/// The capabilities of all today's client libraries.
pub(super) fn capabilities() -> Vec<(String, Value)> {
    let able = |name: &str| (name.to_owned(), Value::Bool(true));
    let able = vec![able("consumer_cancel_notify"), able("authentication_failure_close"), able("connection.blocked")];
    vec![("capabilities".to_owned(), Value::Table(able))]
}

impl Peer {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.driver.input.extend_from_slice(bytes);
        self.pump();
    }

    pub(super) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let mut bytes = Vec::new();
        method.into().encode(channel, &mut bytes);
        self.raw(&bytes);
    }

    pub(super) fn start_ok(&mut self, mechanism: &str, response: &[u8], fields: &[(String, Value)]) {
        let fields = encode_fields(fields);
        let client_properties = Table::new(&fields).expect("a valid table");
        self.send(0, ConnectionStartOk { client_properties, mechanism, response, locale: "en_US" });
    }

    pub(super) fn open(&mut self, channel: u16) {
        self.send(channel, ChannelOpen::default());
        self.expect(&[&format!("{channel} ChannelOpenOk {{ channel_id: [] }}")]);
    }

    /// Sends the frames of a publish.
    pub(super) fn publish(&mut self, channel: u16, publish: BasicPublish<'_>, properties: &[u8], body: &[u8]) {
        let mut bytes = Vec::new();
        Method::from(publish).encode(channel, &mut bytes);
        frame::encode_header(&mut bytes, channel, body.len() as u64, properties);
        frame::encode_body(&mut bytes, channel, 4096, body);
        self.raw(&bytes);
    }

    /// Publishes a text to a queue through the default exchange.
    pub(super) fn put(&mut self, channel: u16, queue: &str, body: &str) {
        let publish = BasicPublish { routing_key: queue, ..Default::default() };
        self.publish(channel, publish, &[0, 0], body.as_bytes());
    }

    pub(super) fn declare(&mut self, channel: u16, queue: &str) {
        self.send(channel, QueueDeclare { queue, ..Default::default() });
        self.expect(&[&declared(channel, queue, 0, 0)]);
    }

    /// Does the work of the driver until nothing more happens.
    pub(super) fn pump(&mut self) {
        // A connection that waits for the end of an alarm is woken by every housekeeping. That
        // alone is no progress.
        let mut moved_nothing = 0;
        while moved_nothing < 10 {
            self.test.housekeep();
            let before = (self.driver.input.len(), self.driver.output.len());
            if !self.driver.run() {
                return;
            }
            let moved = before != (self.driver.input.len(), self.driver.output.len());
            self.read_lines();
            moved_nothing = if moved { 0 } else { moved_nothing + 1 };
        }
    }

    fn read_lines(&mut self) {
        while let Ok(Some(frame)) = decode_frame(&self.driver.output, 0) {
            let line = match frame.kind {
                FrameKind::Method => {
                    let method = decode_method(frame.payload).expect("the server's methods decode");
                    let shown = format!("{method:?}");
                    let inner = shown.split_once('(').map_or(shown.as_str(), |(_, rest)| rest);
                    format!("{} {}", frame.channel, &inner[..inner.len() - 1])
                }
                FrameKind::Header => format!("{} header {}", frame.channel, frame.payload[12..].escape_ascii()),
                FrameKind::Body if frame.payload.len() > 100 => {
                    format!("{} body of {}", frame.channel, frame.payload.len())
                }
                FrameKind::Body => format!("{} body {}", frame.channel, frame.payload.escape_ascii()),
                FrameKind::Heartbeat => format!("{} heartbeat", frame.channel),
            };
            self.lines.push(line);
            let length = frame.wire_len();
            self.driver.output.drain(..length);
        }
    }

    /// Waits until the server has sent this many lines, or has closed.
    pub(super) fn wait_for(&mut self, count: usize) {
        for _ in 0..ROUNDS {
            self.pump();
            if self.lines.len() >= count || self.is_closed() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for these lines, and checks that nothing else has come.
    #[track_caller]
    pub(super) fn expect(&mut self, lines: &[&str]) {
        self.wait_for(lines.len());
        self.pump();
        assert_eq!(std::mem::take(&mut self.lines), lines);
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.driver.state(), ReadState::Answered | ReadState::Closed | ReadState::GivenUp)
    }

    pub(super) fn reads(&self) -> bool {
        self.driver.reads()
    }

    /// The received bytes that are not frames.
    pub(super) fn take_raw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.driver.output)
    }

    pub(super) fn advance(&mut self, seconds: u64) {
        self.driver.now += Duration::from_secs(seconds);
        self.driver.connection.tick(self.driver.now);
        self.pump();
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.driver.connection.deadline()
    }

    /// User, vhost, and the last frame that was handled.
    pub(super) fn doing(&self) -> (&str, &str, &str) {
        let wire::Doing { user, vhost, last } = self.driver.connection.doing();
        (user, vhost, last)
    }

    pub(super) fn close(&mut self, reason: CloseReason) {
        self.driver.connection.close(reason, self.driver.now);
        self.pump();
    }
}

pub(super) fn declared(channel: u16, queue: &str, messages: u32, consumers: u32) -> String {
    format!("{channel} QueueDeclareOk {{ queue: \"{queue}\", message_count: {messages}, consumer_count: {consumers} }}")
}

pub(super) fn channel_closed(channel: u16, code: u16, text: &str, method: (u16, u16)) -> String {
    let (class, id) = method;
    format!("{channel} ChannelClose {{ reply_code: {code}, reply_text: {text:?}, class_id: {class}, method_id: {id} }}")
}

pub(super) fn connection_closed(code: u16, text: &str, method: (u16, u16)) -> String {
    channel_closed(0, code, text, method).replace("ChannelClose", "ConnectionClose")
}

pub(super) fn delivered(channel: u16, consumer: &str, tag: u64, queue: &str) -> String {
    redelivered(channel, consumer, tag, queue).replace("redelivered: true", "redelivered: false")
}

pub(super) fn redelivered(channel: u16, consumer: &str, tag: u64, queue: &str) -> String {
    format!(
        "{channel} BasicDeliver {{ consumer_tag: \"{consumer}\", delivery_tag: {tag}, redelivered: true, \
         exchange: \"\", routing_key: \"{queue}\" }}"
    )
}
