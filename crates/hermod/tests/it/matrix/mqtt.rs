//! The row of MQTT, and what only it shows: retained messages, and what another protocol's marks
//! become.
//!
//! A client of MQTT publishes to topics and chooses no queue. So queues are bound to the topics of
//! their names, and as a consumer it has the queue of its session.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use ::mqtt::codec::{
    Ack, Connect, FilterList, Options, Packet, PacketId, Properties as MqttProperties, PropertyBlock, PropertyId,
    PropertyValue, Publish, QoS, Reason, Subscribe, Version, decode, encode,
};
use broker::{Id, Properties, Value};

use super::{Answer, Asks, Row, SPEAKERS, Seen, Speaker, amqp091, every_pair, headers, with_text_headers};
use crate::server::{HANG, Server};

const VERSION: Version = Version::V5;
/// The header that delays a message anywhere.
const DELAY: &str = "AMQ_SCHEDULED_DELAY";
/// The sessions of all speakers differ.
static CLIENTS: AtomicU32 = AtomicU32::new(0);

/// A connection with a session that is stored.
pub(super) struct Mqtt {
    socket: TcpStream,
    input: Vec<u8>,
    /// The queue of its session.
    queue: String,
    published: u16,
    /// Messages that came before the answer to SUBSCRIBE.
    early: VecDeque<Delivered>,
}

/// A message as it came.
struct Delivered {
    seen: Seen,
    topic: String,
    retain: bool,
    id: Option<PacketId>,
}

/// Whether a message becomes the value of its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    AsValue,
    No,
}

/// What MQTT can say of these properties: a time to live in seconds, and headers as text.
pub(super) fn says(properties: Properties) -> Properties {
    let Properties { content_type, persistent, correlation_id, expiration, headers, .. } =
        with_text_headers(properties);
    let expiration = expiration.map(|ms| ms.div_ceil(1000).min(u32::MAX.into()) * 1000);
    Properties { content_type, persistent, correlation_id, expiration, headers, ..Properties::default() }
}

/// The key that binds a queue to the topic of its name.
pub(super) fn key_of(queue: &str) -> String {
    queue.replace('.', "%2E")
}

impl Mqtt {
    pub(super) fn connect(server: &Server) -> Self {
        let client = format!("matrix{}", CLIENTS.fetch_add(1, Ordering::Relaxed));
        let socket = TcpStream::connect(("127.0.0.1", server.ports.mqtt)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let queue = format!("mqtt-session.{client}.guest");
        let mut speaker = Self { socket, input: Vec::new(), queue, published: 0, early: VecDeque::new() };
        let mut expiry = PropertyBlock::default();
        expiry.number(PropertyId::SessionExpiry, 60);
        speaker.send(&Packet::Connect(Connect {
            version: VERSION,
            clean_start: true,
            properties: expiry.as_properties(),
            client_id: &client,
            user: Some("guest"),
            password: Some(b"guest"),
            ..Connect::default()
        }));
        speaker.wait(|packet| match packet {
            Packet::ConnAck(answer) => {
                assert_eq!(answer.reason, Reason::Success);
                Some(())
            }
            _ => None,
        });
        let queue = speaker.queue.clone();
        speaker.subscribe(&queue, Options { qos: QoS::AtLeastOnce, ..Options::default() });
        speaker
    }

    fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        encode(packet, VERSION, &mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    /// Reads packets until `wanted` accepts one.
    fn wait<T>(&mut self, mut wanted: impl FnMut(&Packet<'_>) -> Option<T>) -> T {
        loop {
            while let Some((packet, length)) = decode(&self.input, VERSION, u32::MAX).unwrap() {
                assert!(!matches!(packet, Packet::Disconnect(_)), "{packet:?}");
                let found = wanted(&packet);
                self.input.drain(..length);
                if let Some(found) = found {
                    return found;
                }
            }
            let mut buffer = [0; 64 * 1024];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }

    fn subscribe(&mut self, filter: &str, options: Options) {
        let mut list = FilterList::default();
        list.subscribe(filter, options, VERSION);
        let filters = list.as_subscribe(VERSION);
        self.send(&Packet::Subscribe(Subscribe { id: PacketId::MIN, properties: MqttProperties::NONE, filters }));
        // Messages may come before the answer [MQTT 5.0, 3.8.4].
        let mut early = VecDeque::new();
        self.wait(|packet| match packet {
            Packet::Publish(publish) => {
                early.push_back(read(publish));
                None
            }
            packet => matches!(packet, Packet::SubAck(_)).then_some(()),
        });
        self.early.append(&mut early);
    }

    /// The next message. The caller answers it.
    fn next(&mut self) -> Delivered {
        if let Some(early) = self.early.pop_front() {
            return early;
        }
        self.wait(|packet| match packet {
            Packet::Publish(publish) => Some(read(publish)),
            _ => None,
        })
    }

    /// The next message, taken.
    fn take(&mut self) -> Delivered {
        let delivered = self.next();
        delivered.id.into_iter().for_each(|id| self.send(&Packet::PubAck(Ack::success(id))));
        delivered
    }

    fn publish_as(&mut self, topic: &str, kept: Kept, properties: &Properties, body: &[u8]) {
        self.published += 1;
        let block = properties_of(properties);
        let qos = if properties.persistent { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        let retain = kept == Kept::AsValue;
        let id = properties.persistent.then(|| PacketId::new(self.published).unwrap());
        let properties = block.as_properties();
        self.send(&Packet::Publish(Publish {
            qos,
            retain,
            topic,
            id,
            properties,
            payload: body,
            ..Publish::default()
        }));
        // What has no answer is handled before the ping behind it.
        if id.is_none() {
            self.send(&Packet::PingReq);
        }
        self.wait(|packet| match (packet, id) {
            (Packet::PubAck(ack), Some(id)) => {
                assert!(ack.id == id && ack.reason == Reason::Success, "{topic}: {ack:?}");
                Some(())
            }
            (Packet::PingResp, None) => Some(()),
            _ => None,
        });
    }
}

impl Speaker for Mqtt {
    fn publish(&mut self, queue: &str, properties: &Properties, body: &[u8]) {
        self.publish_as(queue, Kept::No, properties, body);
    }

    fn publish_topic(&mut self, key: &str, properties: &Properties, body: &[u8]) {
        let mut properties = properties.clone();
        let before = properties.headers.0.len();
        properties.headers.0.retain(|(name, _)| name != "x-retain");
        let kept = if properties.headers.0.len() < before { Kept::AsValue } else { Kept::No };
        self.publish_as(&key.replace('.', "/"), kept, &properties, body);
    }

    fn own_queue(&self) -> Option<String> {
        Some(self.queue.clone())
    }

    fn consume(&mut self, _: &str, asks: Asks, count: usize, answer: Answer) -> Vec<Seen> {
        assert!(matches!((asks, answer), (Asks::All, Answer::Accept)), "MQTT has no word for it");
        (0..count).map(|_| self.take().seen).collect()
    }
}

fn properties_of(properties: &Properties) -> PropertyBlock {
    let mut block = PropertyBlock::default();
    if let Some(text) = &properties.content_type {
        block.text(PropertyId::ContentType, text);
    }
    if let Some(id) = &properties.correlation_id {
        block.binary(PropertyId::CorrelationData, id.as_text().unwrap().as_bytes());
    }
    if let Some(ms) = properties.expiration {
        block.number(PropertyId::MessageExpiry, u32::try_from(ms / 1000).unwrap());
    }
    for (name, value) in &with_text_headers(properties.clone()).headers.0 {
        let Value::Text(value) = value else { unreachable!("they are texts now") };
        block.pair(name, value);
    }
    block
}

fn read(publish: &Publish<'_>) -> Delivered {
    let mut properties = Properties { persistent: publish.qos != QoS::AtMostOnce, ..Properties::default() };
    for (id, value) in publish.properties.iter() {
        match (id, value) {
            (PropertyId::ContentType, PropertyValue::Text(text)) => properties.content_type = Some(text.to_owned()),
            (PropertyId::CorrelationData, PropertyValue::Binary(bytes)) => {
                properties.correlation_id = Some(Id::Text(String::from_utf8(bytes.to_vec()).unwrap()));
            }
            (PropertyId::MessageExpiry, PropertyValue::Number(left)) => {
                properties.expiration = Some(u64::from(left) * 1000);
            }
            (PropertyId::UserProperty, PropertyValue::Pair(name, value)) => {
                properties.headers.0.push((name.to_owned(), Value::Text(value.to_owned())));
            }
            (PropertyId::TopicAlias | PropertyId::SubscriptionId, _) => {}
            other => panic!("{other:?}"),
        }
    }
    let seen = Seen { properties, body: publish.payload.to_vec(), redelivered: publish.dup };
    Delivered { seen, topic: publish.topic.to_owned(), retain: publish.retain, id: publish.id }
}

fn started() -> (tempfile::TempDir, Server, amqp091::Amqp091) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let declarer = amqp091::Amqp091::connect(&server);
    (dir, server, declarer)
}

/// Publishers with a header that makes a message the value of its topic, or the flag.
#[test]
fn every_publisher_sets_the_value_of_a_topic_and_every_reader_sees_it() {
    let (_dir, server, mut declarer) = started();
    for Row { name, connect, .. } in &SPEAKERS {
        let topic = format!("values/{}", name.replace('.', "-"));
        let key = topic.replace('/', ".");
        declarer.declare(&topic);
        declarer.bind(&topic, &key);
        let retained = Properties { persistent: true, ..headers(&[("x-retain", Value::Bool(true))]) };
        let mut publisher = connect(&server);
        publisher.publish_topic(&key, &retained, b"first");
        publisher.publish_topic(&key, &retained, b"second");
        // A subscriber that comes later has the last one, with the flag.
        let mut late = Mqtt::connect(&server);
        late.subscribe(&topic, Options { qos: QoS::AtLeastOnce, ..Options::default() });
        let value = late.take();
        assert_eq!(
            (value.topic.as_str(), value.retain, &value.seen.body[..]),
            (&topic[..], true, &b"second"[..]),
            "{name}"
        );
        assert_eq!(value.seen.properties.headers.0, [], "{name}: the flag says it");
        // One that is there already sees a message like any other.
        publisher.publish_topic(&key, &retained, b"third");
        assert_eq!((late.next().retain, name), (false, name));
        // A queue sees the header.
        let seen = declarer.consume(&topic, Asks::All, 3, Answer::Accept);
        for seen in &seen {
            let header = seen.properties.headers.get("x-retain");
            assert!(matches!(header, Some(Value::Bool(true) | Value::Text(_))), "{name}: {header:?}");
        }
        // An empty one is the end of the value.
        publisher.publish_topic(&key, &retained, b"");
        let mut later = Mqtt::connect(&server);
        later.subscribe(&topic, Options::default());
        publisher.publish_topic(&key, &Properties::default(), b"live");
        assert_eq!(later.next().seen.body, b"live", "{name}");
    }
}

/// What the broker adds to a message is there in the words of MQTT, from every publisher.
#[test]
fn deaths_copies_and_delays_are_shown_to_subscribers() {
    let (_dir, server, mut declarer) = started();
    let mut watcher = Mqtt::connect(&server);
    watcher.subscribe("dead/#", Options { qos: QoS::AtLeastOnce, ..Options::default() });
    watcher.subscribe("copies/#", Options { qos: QoS::AtLeastOnce, ..Options::default() });
    for Row { name, connect, .. } in &SPEAKERS {
        let queue = format!("doomed by {name}");
        declarer.declare_dying(&queue, "amq.topic", &format!("dead.{}", key_of(name)));
        declarer.bind(&queue, &key_of(&queue));
        let delayed = headers(&[("n", Value::I32(1)), ("x-delay", Value::I32(1)), (DELAY, Value::I32(1))]);
        let sent = Properties { persistent: true, expiration: Some(600_000), ..delayed };
        connect(&server).publish(&queue, &sent, b"body");
        declarer.consume(&queue, Asks::All, 1, Answer::Reject);
        let dead = watcher.take();
        assert_eq!((dead.topic, &dead.seen.body[..]), (format!("dead/{name}"), &b"body"[..]));
        let shown = |name: &str| dead.seen.properties.headers.get(name).cloned();
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        for (header, expected) in [
            ("n", text("1")),
            ("x-delay", text("-1")),
            ("x-first-death-queue", text(&queue)),
            ("x-first-death-reason", text("rejected")),
            ("x-death", None),
        ] {
            assert_eq!(shown(header), expected, "{name}: {header} of {:?}", dead.seen.properties);
        }
        assert_eq!(dead.seen.properties.expiration, None, "{name}: what has died does not expire again");
    }
    // Lists have no text, and who gets a blind copy is told to none.
    let copies = |key: &str| Value::Array(vec![Value::Text(key.to_owned())]);
    let sent = headers(&[("CC", copies("copies.b")), ("BCC", copies("copies.c")), ("n", Value::I32(2))]);
    declarer.publish_topic("copies.a", &sent, b"body");
    // One session has it once, however many of its filters match.
    assert_eq!(watcher.take().seen.properties.headers.0, [("n".to_owned(), Value::Text("2".to_owned()))]);
}

/// The flag of durability is the quality, both ways.
#[test]
fn qualities_are_durability() {
    every_pair(
        |row| row.name == "MQTT",
        |_, publisher, _, consumer, queue| {
            for persistent in [false, true] {
                publisher.publish(queue, &Properties { persistent, ..Properties::default() }, b"body");
                let seen = consumer.consume(queue, Asks::All, 1, Answer::Accept);
                assert_eq!(seen[0].properties.persistent, persistent, "{queue}");
            }
        },
    );
}
