//! A broker in memory and its peers, without sockets. Frames are shown as short lines.

use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use broker::{Dialects, Rest};
use testkit::broker::{Setup, TestBroker, TextDialect};
use testkit::driver::Driver;
use testkit::sim_disk::SimDisk;
use wire::ReadState;

use crate::codec::frame::{FrameKind, decode_frame, encode_frame};
use crate::codec::performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, ReceiverSettleMode, Role, SenderSettleMode, Transfer,
};
use crate::codec::sasl::{SaslInit, Secret};
use crate::codec::value::Budget;
use crate::codec::{
    AttachTarget, Body, DeliveryState, Encode, Message, Outcome, Performative, ProtocolId, Section, Source, Symbol,
    Symbols, Target, ValueRef, decode_performative, decode_sasl, descriptor_code, read_value,
};
use crate::dialect::Amqp10Dialect;
use crate::session::{Amqp10, Settings};

pub(super) const MAX: u32 = 1 << 20;

/// A broker that speaks AMQP 1.0.
pub(super) struct Scene {
    pub(super) test: TestBroker,
    protocol: Amqp10,
    /// How many peers there were.
    peers: Cell<u32>,
}

impl Scene {
    /// A broker in memory: everything is durable at once.
    pub(super) fn new() -> Self {
        Self::open(Setup::memory())
    }

    /// A broker whose journal is flushed only when the test does it.
    pub(super) fn stepped() -> Self {
        Self::open(Setup::stepped(&SimDisk::new(1, 64 << 20), 16 << 20))
    }

    pub(super) fn open(mut setup: Setup) -> Self {
        setup.dialects = Dialects::new(vec![Arc::new(TextDialect), Arc::new(Amqp10Dialect)]);
        let test = TestBroker::open(setup);
        test.user("reader", "^$", "^$", ".*");
        let protocol = Amqp10::new(test.broker.clone(), Settings::default());
        Self { test, protocol, peers: Cell::new(0) }
    }

    /// The same after a crash.
    pub(super) fn restarted(self) -> Self {
        drop(self.protocol);
        Self::open(self.test.abandon())
    }

    pub(super) fn with_settings(mut self, settings: Settings) -> Self {
        self.protocol = Amqp10::new(self.test.broker.clone(), settings);
        self
    }

    /// A client of the broker without a protocol.
    pub(super) fn client(&self) -> broker::Client {
        self.test.attach("guest", Waker::noop().clone()).unwrap()
    }

    /// A connection that has sent nothing.
    pub(super) fn accept(&self) -> Peer {
        self.peers.set(self.peers.get() + 1);
        Peer { driver: Driver::accept(&self.protocol, self.test.now()), number: self.peers.get() }
    }

    /// A connection that has logged in and not opened yet.
    pub(super) fn logged_in(&self, user: &str) -> Peer {
        let mut peer = self.accept();
        peer.raw(&ProtocolId::Sasl.header());
        peer.sasl_init("PLAIN", format!("\0{user}\0{user}").as_bytes());
        peer.wait_for("SaslOutcome");
        peer.raw(&ProtocolId::Amqp.header());
        assert_eq!(peer.take(), ProtocolId::Amqp.header());
        peer
    }

    /// An open connection of this user.
    pub(super) fn connect_as(&self, user: &str) -> Peer {
        let mut peer = self.logged_in(user);
        peer.send(0, &Open { container_id: "c", max_frame_size: MAX, ..Open::default() });
        let heard = peer.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].starts_with("open"), "{heard:?}");
        peer
    }

    /// An open connection of guest with a session on channel 0.
    pub(super) fn session(&self) -> Peer {
        self.session_with_window(1000)
    }

    pub(super) fn session_with_window(&self, window: u32) -> Peer {
        let mut peer = self.connect_as("guest");
        peer.begin(0, window);
        peer.expect(&["begin 0 remote=0 window=16384"]);
        peer
    }
}

/// The other end of a connection.
pub(super) struct Peer {
    pub(super) driver: Driver,
    /// Which one of its scene it is. All have the same container id, and so need names of their own
    /// for their links.
    number: u32,
}

impl Peer {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.driver.say(bytes);
    }

    pub(super) fn send(&mut self, channel: u16, performative: &impl Encode) {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, FrameKind::Amqp, channel, performative);
        self.raw(&bytes);
    }

    pub(super) fn sasl_init(&mut self, mechanism: &str, response: &[u8]) {
        let init = SaslInit { mechanism: Symbol(mechanism), initial_response: Some(Secret(response)), hostname: None };
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, FrameKind::Sasl, 0, &init);
        self.raw(&bytes);
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.driver.output)
    }

    /// Waits for another thread until a frame of SASL arrives that begins like this, which is
    /// returned. All before it is dropped.
    pub(super) fn wait_for(&mut self, begins: &str) -> String {
        loop {
            let bytes = self.take();
            let mut at = if bytes.starts_with(b"AMQP") { 8 } else { 0 };
            while let Ok(Some(frame)) = decode_frame(&bytes[at..], MAX) {
                at += frame.size as usize;
                let shown = format!("{:?}", decode_sasl(frame.body).unwrap());
                if shown.contains(begins) {
                    return shown;
                }
            }
            self.driver.wait();
        }
    }

    /// The frames that have arrived since the last call.
    pub(super) fn heard(&mut self) -> Vec<String> {
        self.driver.run();
        let bytes = self.take();
        let mut lines = Vec::new();
        let mut at = 0;
        while let Some(frame) = decode_frame(&bytes[at..], MAX).unwrap() {
            at += frame.size as usize;
            if frame.body.is_empty() {
                lines.push("heartbeat".to_owned());
                continue;
            }
            let (performative, payload) = decode_performative(frame.body).unwrap();
            lines.push(line(frame.channel, &performative, payload));
        }
        assert_eq!(at, bytes.len());
        lines
    }

    /// The payloads of the transfers that have arrived since the last call.
    pub(super) fn payloads(&mut self) -> Vec<Vec<u8>> {
        self.driver.run();
        let bytes = self.take();
        let (mut payloads, mut at) = (Vec::new(), 0);
        while let Some(frame) = decode_frame(&bytes[at..], MAX).unwrap() {
            at += frame.size as usize;
            if let (Performative::Transfer(_), payload) = decode_performative(frame.body).unwrap() {
                payloads.push(payload.to_vec());
            }
        }
        payloads
    }

    pub(super) fn expect(&mut self, lines: &[&str]) {
        assert_eq!(self.heard(), lines);
    }

    pub(super) fn begin(&mut self, channel: u16, window: u32) {
        self.send(channel, &Begin { incoming_window: window, outgoing_window: 1000, ..Begin::default() });
    }

    /// A link on which the peer sends to this address.
    pub(super) fn attach_to(&mut self, handle: u32, address: Option<&str>) {
        let name = format!("out {} {handle}", self.number);
        self.attach(Attach {
            handle,
            target: Some(AttachTarget::Target(Target { address, ..Target::default() })),
            ..to_server(&name)
        });
    }

    /// A link on which it receives from this address.
    pub(super) fn attach_from(&mut self, handle: u32, address: &str) {
        let name = format!("in {} {handle}", self.number);
        self.attach(Attach { handle, source: Some(from(address)), ..to_peer(&name) });
    }

    /// A name that no other peer uses for a link.
    pub(super) fn name(&self, link: &str) -> String {
        format!("{link} {}", self.number)
    }

    pub(super) fn attach(&mut self, attach: Attach<'_>) {
        self.send(0, &attach);
    }

    /// Grants absolute credit.
    pub(super) fn credit(&mut self, handle: u32, count: u32, credit: u32, rest: Rest) {
        self.flow(Flow {
            handle: Some(handle),
            delivery_count: Some(count),
            link_credit: Some(credit),
            drain: rest == Rest::Drained,
            ..Flow::default()
        });
    }

    pub(super) fn flow(&mut self, flow: Flow<'_>) {
        let flow = Flow { incoming_window: flow.incoming_window.max(1000), ..flow };
        self.send(0, &flow);
    }

    /// Sends a message in one transfer.
    pub(super) fn message(&mut self, handle: u32, id: u32, body: &str) {
        self.transfer(Transfer { handle, ..transfer(id) }, &text(body));
    }

    pub(super) fn transfer(&mut self, transfer: Transfer<'_>, payload: &[u8]) {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, FrameKind::Amqp, 0, &With(&transfer, payload));
        self.raw(&bytes);
    }

    pub(super) fn settle(&mut self, first: u32, last: u32, outcome: Outcome<'_>) {
        self.send(0, &Disposition { settled: true, ..disposed(first, last, outcome) });
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.driver.pass(time);
    }

    pub(super) fn state(&self) -> ReadState {
        self.driver.state()
    }
}

/// A performative and the bytes behind it.
struct With<'a, T>(&'a T, &'a [u8]);

impl<T: Encode> Encode for With<'_, T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        out.extend_from_slice(self.1);
    }
}

pub(super) fn disposed(first: u32, last: u32, outcome: Outcome<'_>) -> Disposition<'_> {
    Disposition {
        role: Role::Receiver,
        first,
        last: Some(last),
        state: Some(DeliveryState::Outcome(outcome)),
        ..Disposition::default()
    }
}

pub(super) fn transfer(id: u32) -> Transfer<'static> {
    Transfer { delivery_id: Some(id), delivery_tag: Some(b"t"), ..Transfer::default() }
}

/// A message whose body is this text.
pub(super) fn text(body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Section::Data.encode(&body.as_bytes(), &mut bytes);
    bytes
}

pub(super) fn from(address: &str) -> Source<'_> {
    Source { address: Some(address), ..Source::default() }
}

pub(super) fn to_server(name: &str) -> Attach<'_> {
    Attach { name, role: Role::Sender, initial_delivery_count: Some(0), source: Some(Source::default()), ..empty() }
}

pub(super) fn to_peer(name: &str) -> Attach<'_> {
    Attach { name, role: Role::Receiver, target: Some(AttachTarget::Target(Target::default())), ..empty() }
}

fn empty() -> Attach<'static> {
    Attach { snd_settle_mode: SenderSettleMode::Mixed, rcv_settle_mode: ReceiverSettleMode::First, ..Attach::default() }
}

fn line(channel: u16, performative: &Performative<'_>, payload: &[u8]) -> String {
    match performative {
        Performative::Open(open) => format!("open {:?}", open.offered_capabilities),
        Performative::Begin(begin) => {
            let remote = begin.remote_channel.map_or("-".to_owned(), |channel| channel.to_string());
            format!("begin {channel} remote={remote} window={}", begin.incoming_window)
        }
        Performative::Attach(attach) => attached(attach),
        Performative::Flow(flow) => flowed(flow),
        Performative::Transfer(transfer) => transferred(transfer, payload),
        Performative::Disposition(disposition) => {
            let last = disposition.last.unwrap_or(disposition.first);
            let state = match &disposition.state {
                Some(DeliveryState::Outcome(Outcome::Rejected(rejected))) => {
                    format!("rejected{}", condition(rejected.error))
                }
                Some(DeliveryState::Outcome(outcome)) => format!("{outcome:?}").to_lowercase(),
                other => format!("{other:?}"),
            };
            let settled = if disposition.settled { " settled" } else { "" };
            format!("disposition {:?} {}..{last}{settled} {state}", disposition.role, disposition.first)
        }
        Performative::Detach(detach) => {
            let closed = if detach.closed { " closed" } else { "" };
            format!("detach {}{closed}{}", detach.handle, condition(detach.error))
        }
        Performative::End(end) => format!("end {channel}{}", condition(end.error)),
        Performative::Close(close) => format!("close{}", condition(close.error)),
    }
}

fn condition(error: Option<crate::codec::Error<'_>>) -> String {
    let Some(error) = error else { return String::new() };
    let about = error.info.into_iter().flat_map(|info| info.iter());
    let about: String = about.map(|(name, value)| format!(" {}={value}", name.as_text().unwrap_or("?"))).collect();
    format!(" {}{about}", error.condition.0)
}

fn attached(attach: &Attach<'_>) -> String {
    let source = attach.source.map_or("null", |source| source.address.unwrap_or("-"));
    let target = match attach.target {
        None => "null",
        Some(AttachTarget::Target(target)) => target.address.unwrap_or("-"),
        Some(AttachTarget::Coordinator(_)) => "coordinator",
    };
    let filters = attach.source.and_then(|source| source.filter).map_or(0, |filters| filters.len());
    let filters = if filters == 0 { String::new() } else { format!(" filters={filters}") };
    let mode = match attach.snd_settle_mode {
        SenderSettleMode::Mixed => "",
        SenderSettleMode::Settled => " settled",
        SenderSettleMode::Unsettled => " unsettled",
    };
    let state = |value: ValueRef<'_>| match value {
        ValueRef::Described(described) => match descriptor_code(&described.descriptor()) {
            Some(0x24) => "accepted".to_owned(),
            Some(0x25) => "rejected".to_owned(),
            Some(0x26) => "released".to_owned(),
            other => format!("{other:?}"),
        },
        other => other.to_string(),
    };
    let unsettled = attach.unsettled.map_or(String::new(), |map| {
        let pairs: Vec<_> = map.iter().map(|(tag, value)| format!("{tag}={}", state(value))).collect();
        format!(" unsettled={{{}}}", pairs.join(", "))
    });
    let incomplete = if attach.incomplete_unsettled { " incomplete" } else { "" };
    let (handle, role) = (attach.handle, attach.role);
    format!("attach {handle} {role:?} {source} > {target}{mode}{filters}{unsettled}{incomplete}")
}

fn flowed(flow: &Flow<'_>) -> String {
    let Some(handle) = flow.handle else {
        return format!("flow next={} window={}", flow.next_incoming_id.unwrap_or(u32::MAX), flow.incoming_window);
    };
    let drain = if flow.drain { " drain" } else { "" };
    let shown = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    format!("flow {handle} count={} credit={}{drain}", shown(flow.delivery_count), shown(flow.link_credit))
}

fn transferred(transfer: &Transfer<'_>, payload: &[u8]) -> String {
    let mut line = format!("transfer {}", transfer.handle);
    if let Some(id) = transfer.delivery_id {
        line.push_str(&format!(" id={id}"));
    }
    for (name, shown) in [("settled", transfer.settled == Some(true)), ("more", transfer.more)] {
        if shown {
            line.push_str(&format!(" {name}"));
        }
    }
    let Ok(message) = Message::decode(payload) else { return format!("{line} {} bytes", payload.len()) };
    let body = match message.body {
        Body::Data(data) => String::from_utf8_lossy(data.single().unwrap_or_default()).into_owned(),
        Body::Value(bytes) => match read_value(&mut wire::Reader::new(bytes), &mut Budget::default()) {
            Ok(ValueRef::Str(text)) => text.to_owned(),
            Ok(value) => value.to_string(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    let is_response = message
        .application_properties
        .is_some_and(|map| map.iter().any(|(name, _)| name.as_text() == Some("http:response")));
    let status = message.properties.and_then(|properties| properties.subject).filter(|_| is_response);
    if let Some(status) = status {
        return format!("{line} {status} {body}");
    }
    let body = if body.len() > 40 { format!("{} bytes", body.len()) } else { body };
    let failed = message.header.map_or(0, |header| header.delivery_count);
    let failed = if failed == 0 { String::new() } else { format!(" failed={failed}") };
    format!("{line} {body}{failed}")
}

/// Shorthands of the outcomes.
pub(super) const ACCEPTED: Outcome<'static> = Outcome::Accepted;

pub(super) fn end() -> End<'static> {
    End::default()
}

pub(super) fn close() -> Close<'static> {
    Close::default()
}

pub(super) fn detach(handle: u32) -> Detach<'static> {
    Detach { handle, closed: true, error: None }
}

/// The capability `queue` and its like.
pub(super) fn capabilities(names: &'static [&'static str]) -> Symbols<'static> {
    Symbols::of(names)
}
