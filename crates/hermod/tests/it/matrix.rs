//! Every protocol as publisher with every protocol as consumer: which properties arrive, and what
//! consumers can ask for.
//!
//! A new protocol needs one row of [`SPEAKERS`] and a file with its client.

pub(crate) mod amqp091;
mod amqp10;
mod mqtt;
mod shown;
mod stomp;

use std::collections::BTreeSet;

use broker::{Properties, Table, Value};

use crate::server::Server;

/// A connection, in any protocol.
pub(crate) trait Speaker {
    /// Publishes to an existing queue, and waits until the server says that the message is stored.
    fn publish(&mut self, queue: &str, properties: &Properties, body: &[u8]);
    /// The same to the exchange `amq.topic`.
    fn publish_topic(&mut self, key: &str, properties: &Properties, body: &[u8]);
    /// The queue that it consumes, where its protocol lets it choose none.
    fn own_queue(&self) -> Option<String> {
        None
    }
    /// Consumes this many messages of an existing queue, answers each, and stops consuming. A
    /// browser answers nothing, and waits for its end.
    fn consume(&mut self, queue: &str, asks: Asks, count: usize, answer: Answer) -> Vec<Seen>;
}

/// The kind of consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asks {
    All,
    Selected(&'static str),
    Browsing,
}

/// How a consumer settles messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Accept,
    Requeue,
    Reject,
}

/// A message as its consumer sees it.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) properties: Properties,
    pub(crate) body: Vec<u8>,
    pub(crate) redelivered: bool,
}

/// A protocol.
struct Row {
    name: &'static str,
    connect: fn(&Server) -> Box<dyn Speaker>,
    /// Whether its consumers see all headers as text.
    text_only: bool,
    /// What it can say of these properties.
    says: fn(Properties) -> Properties,
    /// Whether its consumers choose a queue, select, browse and give back.
    chooses: bool,
    /// Whether it shows what is left of a time to live (AMQP 1.0, 3.2.1; [MQTT-3.3.2-6]), not what
    /// there was.
    counts_down: bool,
}

static SPEAKERS: [Row; 4] = [
    Row {
        name: "AMQP 0-9-1",
        connect: |server| Box::new(amqp091::Amqp091::connect(server)),
        text_only: false,
        says: |properties| properties,
        chooses: true,
        counts_down: false,
    },
    Row {
        name: "STOMP",
        connect: |server| Box::new(stomp::Stomp::connect(server)),
        text_only: true,
        says: with_texts_once,
        chooses: true,
        counts_down: false,
    },
    Row {
        name: "AMQP 1.0",
        connect: |server| Box::new(amqp10::Amqp10::connect(server)),
        text_only: false,
        says: |properties| Properties {
            expiration: properties.expiration.map(|ms| ms.min(u32::MAX.into())),
            ..properties
        },
        chooses: true,
        counts_down: true,
    },
    Row {
        name: "MQTT",
        connect: |server| Box::new(mqtt::Mqtt::connect(server)),
        text_only: true,
        says: mqtt::says,
        chooses: false,
        counts_down: true,
    },
];

/// The protocols whose consumers see what the broker adds as headers. AMQP 1.0 has annotations for
/// it, of which the view here shows those that begin with `x-`.
fn with_headers() -> &'static [Row] {
    &SPEAKERS[..2]
}

/// Runs `check` for every pair of publisher and consumer of these. Each has a queue of its own, and
/// one for its dead letters.
fn every_pair(consumers: impl Fn(&Row) -> bool, check: impl Fn(&Row, &mut dyn Speaker, &Row, &mut dyn Speaker, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut declarer = amqp091::Amqp091::connect(&server);
    for publisher in &SPEAKERS {
        for consumer in SPEAKERS.iter().filter(|row| consumers(row)) {
            println!("from {} to {}", publisher.name, consumer.name);
            let mut consuming = (consumer.connect)(&server);
            let queue = consuming.own_queue().unwrap_or_else(|| {
                let queue = format!("from {} to {}", publisher.name, consumer.name);
                declarer.declare(&queue);
                declarer.bind(&queue, &mqtt::key_of(&queue));
                queue
            });
            check(publisher, &mut *(publisher.connect)(&server), consumer, &mut *consuming, &queue);
        }
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn headers(fields: &[(&str, Value)]) -> Properties {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Properties { headers: Table(fields.collect()), ..Properties::default() }
}

/// Each property by itself, and all of them.
fn samples() -> Vec<Properties> {
    let none = Properties::default;
    let fields = [
        ("text", Value::Text("ü: \\ \n".into())),
        ("empty", Value::Text(String::new())),
        ("whole", Value::I32(-5)),
        ("long", Value::I64(1 << 40)),
        ("rate", Value::F64(0.5)),
        ("truth", Value::Bool(true)),
        ("twice", Value::Text("2".into())),
        ("twice", Value::Text("1".into())),
    ];
    let all = Properties {
        content_type: text("text/plain"),
        content_encoding: text("gzip"),
        persistent: true,
        priority: Some(7),
        correlation_id: Some("c:1".into()),
        reply_to: text("answers"),
        expiration: Some(315_360_000_000),
        message_id: Some("m".into()),
        timestamp: Some(1_700_000_000_000),
        kind: text("car"),
        user_id: text("guest"),
        app_id: text("shop"),
        ..headers(&fields)
    };
    vec![
        none(),
        Properties { content_type: all.content_type.clone(), ..none() },
        Properties { content_encoding: all.content_encoding.clone(), ..none() },
        Properties { persistent: true, ..none() },
        Properties { priority: Some(0), ..none() },
        Properties { priority: Some(255), ..none() },
        Properties { correlation_id: all.correlation_id.clone(), ..none() },
        Properties { reply_to: all.reply_to.clone(), ..none() },
        Properties { expiration: all.expiration, ..none() },
        Properties { message_id: all.message_id.clone(), ..none() },
        Properties { timestamp: all.timestamp, ..none() },
        Properties { kind: all.kind.clone(), ..none() },
        Properties { user_id: all.user_id.clone(), ..none() },
        Properties { app_id: all.app_id.clone(), ..none() },
        headers(&fields),
        all,
    ]
}

/// These properties with the headers in the order of their names.
fn sorted(mut properties: Properties) -> Properties {
    properties.headers.0.sort_by(|one, other| one.0.cmp(&other.0));
    properties
}

/// These properties as a protocol has them whose headers are text.
fn with_text_headers(mut properties: Properties) -> Properties {
    for (_, value) in &mut properties.headers.0 {
        let text = match &*value {
            Value::Text(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::F64(number) => number.to_string(),
            other => other.as_integer().unwrap().to_string(),
        };
        *value = Value::Text(text);
    }
    properties
}

/// The same for one that has of a header that comes twice the first one.
fn with_texts_once(properties: Properties) -> Properties {
    let mut properties = with_text_headers(properties);
    let mut names = BTreeSet::new();
    properties.headers.0.retain(|(name, _)| names.insert(name.clone()));
    properties
}

#[test]
fn every_property_reaches_every_consumer() {
    every_pair(
        |_| true,
        |from, publisher, to, consumer, queue| {
            for sample in samples() {
                publisher.publish(queue, &sample, b"body");
                let mut seen = consumer.consume(queue, Asks::All, 1, Answer::Accept).remove(0);
                let mut sent = (to.says)((from.says)(sample));
                if let (true, Some(left), Some(all)) = (to.counts_down, seen.properties.expiration, sent.expiration) {
                    assert!((all - 600_000..=all).contains(&left), "{queue}: {left} are left of {all} ms");
                    sent.expiration = Some(left);
                }
                seen.properties = sorted(seen.properties);
                let expected = Seen { properties: sorted(sent), body: b"body".to_vec(), redelivered: false };
                assert_eq!(seen, expected, "{queue}");
            }
        },
    );
}

#[test]
fn every_body_reaches_every_consumer() {
    let bodies = [Vec::new(), b"\0".to_vec(), (0..=255).collect(), vec![b'x'; 200_000]];
    every_pair(
        |_| true,
        |_, publisher, _, consumer, queue| {
            for body in &bodies {
                publisher.publish(queue, &Properties::default(), body);
                let seen = consumer.consume(queue, Asks::All, 1, Answer::Accept).remove(0);
                assert!(seen.body == *body, "{queue}: {} bytes became {}", body.len(), seen.body.len());
            }
        },
    );
}

/// The bodies of messages.
fn bodies(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| std::str::from_utf8(&seen.body).unwrap()).collect()
}

#[test]
fn every_consumer_selects_from_every_publisher() {
    // The selector, and the messages that match it.
    let cases = [
        ("color = 'red'", vec!["1", "3"]),
        ("convert_string_expressions:n > 1", vec!["2", "3"]),
        ("color IS NULL OR color LIKE 'b%'", vec!["2", "4"]),
        ("JMSType = 'car' AND JMSPriority = 7", vec!["3"]),
        ("amqp.app_id = 'shop' AND amqp.correlation_id = 'c' AND JMSDeliveryMode = 'PERSISTENT'", vec!["3"]),
        ("amqp.routing_key LIKE 'from %'", vec!["1", "2", "3", "4"]),
    ];
    every_pair(
        |row| row.chooses,
        |from, publisher, _, consumer, queue| {
            let red = |n| headers(&[("color", Value::Text("red".into())), ("n", Value::I32(n))]);
            let all = Properties {
                kind: text("car"),
                priority: Some(7),
                app_id: text("shop"),
                correlation_id: Some("c".into()),
                persistent: true,
                ..red(3)
            };
            let blue = headers(&[("color", Value::Text("blue".into())), ("n", Value::I32(2))]);
            // Where a publisher has no such property, there is nothing to select by.
            let says_all = (from.says)(all.clone()).kind.is_some();
            let cases = cases.iter().filter(|(selector, _)| says_all || !selector.contains("JMS"));
            for (selector, expected) in cases {
                for (body, properties) in [("1", &red(1)), ("2", &blue), ("3", &all), ("4", &Properties::default())] {
                    publisher.publish(queue, properties, body.as_bytes());
                }
                let seen = consumer.consume(queue, Asks::Selected(selector), expected.len(), Answer::Accept);
                assert_eq!(bodies(&seen), *expected, "{queue}: {selector}");
                let rest = consumer.consume(queue, Asks::All, 4 - expected.len(), Answer::Accept);
                assert_eq!(rest.len(), 4 - expected.len(), "{queue}: {selector}");
            }
        },
    );
}

#[test]
fn every_consumer_browses_requeues_and_rejects() {
    every_pair(
        |row| row.chooses,
        |_, publisher, _, consumer, queue| {
            publisher.publish(queue, &Properties { persistent: true, ..Properties::default() }, b"1");
            publisher.publish(queue, &Properties::default(), b"2");
            let browsed = consumer.consume(queue, Asks::Browsing, 2, Answer::Accept);
            assert_eq!(bodies(&browsed), ["1", "2"], "{queue}");
            assert!(browsed.iter().all(|seen| !seen.redelivered));
            let seen = consumer.consume(queue, Asks::All, 1, Answer::Requeue);
            assert_eq!((bodies(&seen), seen[0].redelivered), (vec!["1"], false), "{queue}");
            let seen = consumer.consume(queue, Asks::All, 1, Answer::Reject);
            assert_eq!((bodies(&seen), seen[0].redelivered), (vec!["1"], true), "{queue}");
            let dead = consumer.consume("dead", Asks::All, 1, Answer::Accept);
            let first = dead[0].properties.headers.get("x-first-death-queue");
            assert_eq!((bodies(&dead), first), (vec!["1"], Some(&Value::Text(queue.to_owned()))), "{queue}");
            let seen = consumer.consume(queue, Asks::All, 1, Answer::Accept);
            assert_eq!(bodies(&seen), ["2"], "{queue}");
        },
    );
}
