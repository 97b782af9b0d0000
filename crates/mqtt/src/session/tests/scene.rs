//! A broker in memory and its clients, without sockets. Packets are shown as text.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use broker::Dialects;
use testkit::broker::{Setup, TestBroker, TextDialect};
use testkit::driver::Driver;
use testkit::sim_disk::SimDisk;
use wire::ReadState;

use crate::codec::{
    Ack, Connect, FilterList, Notice, Options, Packet, PacketId, Properties, PropertyBlock, PropertyId, PropertyValue,
    Publish, QoS, Reason, Subscribe, Unsubscribe, Version, Will, decode, encode,
};
use crate::{Mqtt, MqttDialect, Settings, Sys};

/// A broker that speaks MQTT.
pub(super) struct Scene {
    pub(super) test: TestBroker,
    pub(super) broker: broker::Broker,
    pub(super) mqtt: Mqtt,
    pub(super) sys: Arc<Sys>,
}

impl Scene {
    /// A broker in memory: everything is durable at once.
    pub(super) fn new() -> Self {
        Self::open(Setup::memory(), Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        Self::open(Setup::memory(), settings)
    }

    /// A broker whose journal is flushed only when the test does it.
    pub(super) fn stepped_on(disk: &SimDisk) -> Self {
        Self::open(Setup::stepped(disk, 16 << 20), Settings::default())
    }

    /// The broker after a power cut and a new start.
    pub(super) fn after_cut(self, disk: &SimDisk) -> Self {
        disk.power_cut();
        Self::open(self.test.abandon(), Settings::default())
    }

    /// The broker after a stop in good order and a new start.
    pub(super) fn restarted(self) -> Self {
        Self::open(self.test.stop(), Settings::default())
    }

    fn open(mut setup: Setup, settings: Settings) -> Self {
        setup.dialects = Dialects::new(vec![Arc::new(TextDialect), Arc::new(MqttDialect)]);
        let test = TestBroker::open(setup);
        test.user("reader", ".*", "^mqtt-.*", ".*");
        let broker = test.broker.clone();
        let sys = Arc::<Sys>::default();
        let mqtt = Mqtt::new(broker.clone(), settings, sys.clone());
        Self { test, broker, mqtt, sys }
    }

    /// A client of the broker without a protocol.
    pub(super) fn client(&self) -> broker::Client {
        self.test.attach("guest", Waker::noop().clone()).unwrap()
    }

    /// A connection that has sent nothing.
    pub(super) fn accept(&self) -> Peer {
        Peer { driver: Driver::accept(&self.mqtt, self.test.now()), version: Version::V3_1_1, heard: Vec::new() }
    }

    /// A connection that has sent this CONNECT, and its answer.
    pub(super) fn connect_with(&self, connect: &Connect<'_>) -> (Peer, String) {
        let mut peer = self.accept();
        peer.connect(connect);
        peer.heard = peer.wait();
        let answer = if peer.heard.is_empty() { String::new() } else { peer.heard.remove(0) };
        (peer, answer)
    }

    /// A client of MQTT 5 with a clean session that ends with its connection.
    pub(super) fn v5(&self, client_id: &str) -> Peer {
        let (peer, heard) = self.connect_with(&guest(Version::V5, client_id));
        assert!(heard.starts_with("CONNACK success"), "{heard}");
        peer
    }

    /// A client of MQTT 3.1.1 with a clean session.
    pub(super) fn v3(&self, client_id: &str) -> Peer {
        let (peer, heard) = self.connect_with(&guest(Version::V3_1_1, client_id));
        assert_eq!(heard, "CONNACK success");
        peer
    }

    /// A client of MQTT 5 whose session lives for these seconds; also whether it was there.
    pub(super) fn stored(&self, client_id: &str, expiry: u32) -> (Peer, bool) {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, expiry);
        let connect =
            Connect { clean_start: false, properties: block.as_properties(), ..guest(Version::V5, client_id) };
        let (peer, heard) = self.connect_with(&connect);
        (peer, heard.starts_with("CONNACK present success"))
    }

    /// The same for another user, whose password is its name.
    pub(super) fn stored_of(&self, user: &str, client_id: &str) -> (Peer, bool) {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, 600);
        let connect = Connect {
            clean_start: false,
            properties: block.as_properties(),
            user: Some(user),
            password: Some(user.as_bytes()),
            ..guest(Version::V5, client_id)
        };
        let (peer, heard) = self.connect_with(&connect);
        assert!(heard.contains("success"), "{heard}");
        (peer, heard.starts_with("CONNACK present success"))
    }

    /// The same over a journal that only a test flushes: it is flushed once, for the session.
    pub(super) fn stored_flushed(&self, client_id: &str, expiry: u32) -> (Peer, String) {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, expiry);
        let mut peer = self.accept();
        let properties = block.as_properties();
        peer.connect(&Connect { clean_start: false, properties, ..guest(Version::V5, client_id) });
        // The password is checked by another thread.
        peer.driver.wait();
        peer.heard = peer.heard();
        let is_new = peer.heard.is_empty();
        self.test.flush();
        peer.heard = peer.heard();
        let answer = peer.heard.remove(0);
        assert_eq!(is_new, answer.starts_with("CONNACK success"), "a new session is on disk before it is answered");
        (peer, answer)
    }

    /// A client whose session lives for a thousand seconds, and its answer. The journal is flushed
    /// as often as it takes.
    pub(super) fn resume(&self, client_id: &str) -> (Peer, String) {
        let mut block = PropertyBlock::default();
        block.number(PropertyId::SessionExpiry, 1000);
        let properties = block.as_properties();
        self.connect_flushed(&Connect { clean_start: false, properties, ..guest(Version::V5, client_id) })
    }

    /// A connection that has sent this CONNECT, and its answer, in the same way.
    pub(super) fn connect_flushed(&self, connect: &Connect<'_>) -> (Peer, String) {
        let mut peer = self.accept();
        peer.connect(connect);
        let mut heard = Vec::new();
        while heard.is_empty() {
            // Another thread may check the password.
            std::thread::sleep(Duration::from_millis(1));
            self.test.flush();
            heard = peer.heard();
        }
        let answer = heard.remove(0);
        assert!(answer.starts_with("CONNACK"), "{answer}");
        peer.heard = heard;
        (peer, answer)
    }

    /// Time goes on, and the housekeeping runs.
    pub(super) fn pass(&self, ms: u64) {
        self.test.setup.clock.advance(ms);
        self.test.flush();
    }

    /// The names of all queues.
    pub(super) fn queues(&self) -> Vec<String> {
        self.broker.queues().iter().map(|queue| queue.name.to_string()).collect()
    }
}

/// CONNECT of the user `guest`.
pub(super) fn guest(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        clean_start: true,
        client_id,
        user: Some("guest"),
        password: Some(b"guest"),
        ..Connect::default()
    }
}

/// A will of quality 1.
pub(super) fn will<'w>(topic: &'w str, properties: Properties<'w>) -> Will<'w> {
    Will { qos: QoS::AtLeastOnce, retain: false, properties, topic, payload: b"gone" }
}

/// The other end of a connection.
pub(super) struct Peer {
    pub(super) driver: Driver,
    pub(super) version: Version,
    /// What has arrived, and no test has asked for.
    heard: Vec<String>,
}

impl Peer {
    pub(super) fn say(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        encode(packet, self.version, &mut bytes);
        self.driver.say(&bytes);
    }

    pub(super) fn connect(&mut self, connect: &Connect<'_>) {
        self.version = connect.version;
        self.say(&Packet::Connect(*connect));
    }

    pub(super) fn publish_with(&mut self, publish: Publish<'_>) {
        self.say(&Packet::Publish(publish));
    }

    /// Publishes `payload`, with this identifier if that is not 0.
    pub(super) fn publish(&mut self, id: u16, topic: &str, payload: &str) {
        let id = PacketId::new(id);
        let qos = if id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        self.publish_with(Publish { qos, id, topic, payload: payload.as_bytes(), ..Publish::default() });
    }

    /// Makes `payload` the value of a topic.
    pub(super) fn retain(&mut self, topic: &str, payload: &str) {
        self.publish_with(Publish { retain: true, topic, payload: payload.as_bytes(), ..Publish::default() });
    }

    pub(super) fn subscribe_with(&mut self, filters: &[(&str, Options)], properties: Properties<'_>) {
        let mut list = FilterList::default();
        filters.iter().for_each(|(filter, options)| _ = list.subscribe(filter, *options, self.version));
        let filters = list.as_subscribe(self.version);
        self.say(&Packet::Subscribe(Subscribe { id: PacketId::MIN, properties, filters }));
    }

    pub(super) fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.subscribe_with(&[(filter, Options { qos, ..Options::default() })], Properties::NONE);
    }

    pub(super) fn unsubscribe(&mut self, filter: &str) {
        let mut list = FilterList::default();
        list.unsubscribe(filter);
        let filters = list.as_unsubscribe();
        self.say(&Packet::Unsubscribe(Unsubscribe { id: PacketId::MIN, properties: Properties::NONE, filters }));
    }

    pub(super) fn puback(&mut self, id: u16, reason: Reason) {
        self.answer(Packet::PubAck, id, reason);
    }

    /// Sends an answer, or an answer to one.
    pub(super) fn answer(&mut self, packet: fn(Ack<'static>) -> Packet<'static>, id: u16, reason: Reason) {
        let id = PacketId::new(id).unwrap();
        self.say(&packet(Ack { id, reason, properties: Properties::NONE }));
    }

    pub(super) fn disconnect(&mut self, reason: Reason) {
        self.say(&Packet::Disconnect(Notice::plain(reason)));
    }

    /// The peer has closed its socket.
    pub(super) fn drop_connection(mut self) {
        self.driver.connection.close(wire::CloseReason::Gone, self.driver.now);
    }

    pub(super) fn run(&mut self) {
        self.driver.run();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.driver.pass(time);
    }

    pub(super) fn state(&self) -> ReadState {
        self.driver.state()
    }

    /// The packets that have arrived since the last call, as text.
    pub(super) fn heard(&mut self) -> Vec<String> {
        self.run();
        let bytes = std::mem::take(&mut self.driver.output);
        let (mut at, mut heard) = (0, std::mem::take(&mut self.heard));
        while let Some((packet, length)) = decode(&bytes[at..], self.version, u32::MAX).unwrap() {
            heard.push(show(&packet));
            at += length;
        }
        self.driver.output = bytes[at..].to_vec();
        heard
    }

    /// Waits for another thread until a packet arrives.
    pub(super) fn wait(&mut self) -> Vec<String> {
        loop {
            let heard = self.heard();
            if !heard.is_empty() || matches!(self.state(), ReadState::Closed) {
                return heard;
            }
            self.driver.wait();
        }
    }
}

fn show_properties(properties: Properties<'_>) -> String {
    let shown = properties.iter().map(|(id, value)| match value {
        PropertyValue::Number(number) => format!(" {id:?}={number}"),
        PropertyValue::Text(text) => format!(" {id:?}={text}"),
        PropertyValue::Binary(bytes) => format!(" {id:?}={}", String::from_utf8_lossy(bytes)),
        PropertyValue::Pair(name, value) => format!(" {name}:{value}"),
    });
    shown.collect()
}

fn show(packet: &Packet<'_>) -> String {
    let kind = packet.kind().as_str();
    match packet {
        Packet::ConnAck(ack) => {
            let present = if ack.session_present { " present" } else { "" };
            format!("{kind}{present} {}{}", ack.reason.as_str(), show_properties(ack.properties))
        }
        Packet::Publish(publish) => {
            let flags = [(publish.dup, " dup"), (publish.retain, " retain")];
            let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
            let id = publish.id.map_or(String::new(), |id| format!(" {id}"));
            let payload = match publish.payload.len() {
                0..200 => String::from_utf8_lossy(publish.payload).into_owned(),
                many => format!("{many} bytes"),
            };
            format!("{kind}{id}{flags} {} {payload}{}", publish.topic, show_properties(publish.properties))
        }
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            format!("{kind} {} {}{}", ack.id, ack.reason.as_str(), show_properties(ack.properties))
        }
        Packet::SubAck(granted) | Packet::UnsubAck(granted) => {
            let reasons: String = granted.reasons.iter().map(|reason| format!(" {:#04x}", reason as u8)).collect();
            format!("{kind}{reasons}{}", show_properties(granted.properties))
        }
        Packet::Disconnect(notice) => format!("{kind} {}", notice.reason.as_str()),
        Packet::Auth(notice) => format!("{kind} {}{}", notice.reason.as_str(), show_properties(notice.properties)),
        _ => kind.to_owned(),
    }
}
