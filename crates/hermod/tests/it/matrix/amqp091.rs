//! The row of AMQP 0-9-1.

use std::io::{Read, Write};
use std::net::TcpStream;

use amqp091::Amqp091Dialect;
use amqp091::client::{Client, Event, Options, PublishTemplate};
use amqp091::codec::methods::{
    BasicCancel, BasicConsume, BasicNack, BasicPublish, BasicQos, ChannelOpen, ConfirmSelect, QueueBind, QueueDeclare,
};
use amqp091::codec::table::{Table, Value, encode_fields};
use amqp091::codec::{BasicProperties, Method};
use broker::{Content, Dialect, Id, Properties, seconds_of_ms};

use super::{Answer, Asks, Seen, Speaker};
use crate::server::{HANG, Server};

const CHANNEL: u16 = 1;

/// A connection with one channel in confirm mode.
pub(crate) struct Amqp091 {
    socket: TcpStream,
    client: Client,
    input: Vec<u8>,
}

impl Amqp091 {
    pub(crate) fn connect(server: &Server) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let mut speaker = Self { socket, client: Client::new(Options::default()), input: Vec::new() };
        let mut out = Vec::new();
        speaker.client.start(&mut out);
        speaker.socket.write_all(&out).unwrap();
        speaker.wait(|event| matches!(event, Event::Connected(_)).then_some(()));
        speaker.send(ChannelOpen::default());
        speaker.send(ConfirmSelect::default());
        speaker.wait(|event| method(event, |method| matches!(method, Method::ConfirmSelectOk(_))));
        speaker
    }

    /// A durable queue whose dead letters go to the queue `dead`.
    pub(super) fn declare(&mut self, queue: &str) {
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let dead = [text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "dead")];
        let arguments = encode_fields(&dead);
        let declare = QueueDeclare { queue: "dead", durable: true, ..Default::default() };
        self.send(declare);
        let arguments = Table::new(&arguments).unwrap();
        self.send(QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        for _ in 0..2 {
            self.wait(|event| method(event, |method| matches!(method, Method::QueueDeclareOk(_))));
        }
    }

    /// A durable queue whose dead letters go to this exchange, with this key.
    pub(super) fn declare_dying(&mut self, queue: &str, exchange: &str, key: &str) {
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let dead = [text("x-dead-letter-exchange", exchange), text("x-dead-letter-routing-key", key)];
        let arguments = encode_fields(&dead);
        let arguments = Table::new(&arguments).unwrap();
        self.send(QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        self.wait(|event| method(event, |method| matches!(method, Method::QueueDeclareOk(_))));
    }

    /// Binds a queue to `amq.topic`.
    pub(super) fn bind(&mut self, queue: &str, routing_key: &str) {
        self.send(QueueBind { queue, exchange: "amq.topic", routing_key, ..Default::default() });
        self.wait(|event| method(event, |method| matches!(method, Method::QueueBindOk(_))));
    }

    /// A durable queue that shows how often its messages came back.
    pub(crate) fn declare_counting(&mut self, queue: &str) {
        let arguments = encode_fields(&[("x-queue-type".to_owned(), Value::from("quorum"))]);
        let arguments = Table::new(&arguments).unwrap();
        self.send(QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        self.wait(|event| method(event, |method| matches!(method, Method::QueueDeclareOk(_))));
    }

    /// Consumes replies by a consumer of this tag.
    pub(crate) fn consume_replies(&mut self, consumer_tag: &str) {
        let queue = "amq.rabbitmq.reply-to";
        self.send(BasicConsume { queue, consumer_tag, no_ack: true, ..Default::default() });
        self.wait(|event| method(event, |method| matches!(method, Method::BasicConsumeOk(_))));
    }

    /// How many messages of an existing queue are ready.
    pub(crate) fn count(&mut self, queue: &str) -> usize {
        self.send(QueueDeclare { queue, passive: true, ..Default::default() });
        self.wait(|event| match event {
            Event::Method { method: Method::QueueDeclareOk(answer), .. } => Some(answer.message_count as usize),
            _ => None,
        })
    }

    fn send<'m>(&mut self, method: impl Into<Method<'m>>) {
        let mut out = Vec::new();
        self.client.send(CHANNEL, method, &mut out);
        self.socket.write_all(&out).unwrap();
    }

    /// Reads events until `wanted` accepts one.
    fn wait<T>(&mut self, mut wanted: impl FnMut(&Event<'_>) -> Option<T>) -> T {
        loop {
            let mut out = Vec::new();
            let mut rest = &self.input[..];
            let mut found = None;
            while found.is_none() {
                let Some(event) = self.client.poll(&mut rest, &mut out).unwrap() else { break };
                let failed = matches!(event, Event::Closed { .. } | Event::ChannelClosed { .. });
                assert!(!failed, "{event:?}");
                found = wanted(&event);
            }
            let left = rest.len();
            self.input.drain(..self.input.len() - left);
            self.socket.write_all(&out).unwrap();
            if let Some(found) = found {
                return found;
            }
            let mut buffer = [0; 64 * 1024];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }
}

fn method(event: &Event<'_>, wanted: fn(&Method<'_>) -> bool) -> Option<()> {
    matches!(event, Event::Method { method, .. } if wanted(method)).then_some(())
}

impl Speaker for Amqp091 {
    fn publish(&mut self, queue: &str, properties: &Properties, body: &[u8]) {
        self.publish_to(BasicPublish { routing_key: queue, ..Default::default() }, properties, body);
    }

    fn publish_topic(&mut self, key: &str, properties: &Properties, body: &[u8]) {
        let publish = BasicPublish { exchange: "amq.topic", routing_key: key, ..Default::default() };
        self.publish_to(publish, properties, body);
    }

    fn consume(&mut self, queue: &str, asks: Asks, count: usize, answer: Answer) -> Vec<Seen> {
        let arguments = match asks {
            Asks::All => vec![],
            Asks::Selected(selector) => vec![("x-selector".to_owned(), Value::from(selector))],
            Asks::Browsing => vec![("x-browse".to_owned(), Value::Bool(true))],
        };
        let browses = matches!(asks, Asks::Browsing);
        let arguments = encode_fields(&arguments);
        let arguments = Table::new(&arguments).unwrap();
        self.send(BasicQos { prefetch_count: 1, ..Default::default() });
        self.send(BasicConsume { queue, consumer_tag: "c", no_ack: browses, arguments, ..Default::default() });
        let mut all = Vec::new();
        for _ in 0..count {
            let (seen, tag) = self.wait(|event| match event {
                Event::Deliver { delivery_tag, redelivered, message, .. } => {
                    let properties =
                        Amqp091Dialect.read(Content { properties: message.properties, body: &[] }).unwrap();
                    Some((Seen { properties, body: message.body.to_vec(), redelivered: *redelivered }, *delivery_tag))
                }
                _ => None,
            });
            all.push(seen);
            // The last one is settled after the consumer has stopped. Otherwise a requeued message
            // would come again.
            if all.len() == count && !browses {
                self.stop();
            }
            let requeue = matches!(answer, Answer::Requeue);
            match answer {
                _ if browses => {}
                Answer::Accept => self.send(amqp091::codec::methods::BasicAck { delivery_tag: tag, multiple: false }),
                Answer::Requeue | Answer::Reject => {
                    self.send(BasicNack { delivery_tag: tag, multiple: false, requeue });
                }
            }
        }
        if browses {
            self.wait(|event| matches!(event, Event::Cancelled { .. }).then_some(()));
        } else if count == 0 {
            self.stop();
        }
        all
    }
}

impl Amqp091 {
    fn publish_to(&mut self, publish: BasicPublish<'_>, properties: &Properties, body: &[u8]) {
        let template = PublishTemplate::new(CHANNEL, publish, &encode(properties), self.client.frame_max());
        let mut out = Vec::new();
        template.append(body, &mut out);
        self.socket.write_all(&out).unwrap();
        self.wait(|event| matches!(event, Event::Ack { .. }).then_some(()));
    }

    fn stop(&mut self) {
        self.send(BasicCancel { consumer_tag: "c", nowait: false });
        self.wait(|event| method(event, |method| matches!(method, Method::BasicCancelOk(_))));
    }
}

fn field(value: &broker::Value) -> Value {
    match value {
        broker::Value::Null => Value::Void,
        broker::Value::Text(text) => Value::from(text.as_str()),
        broker::Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
        broker::Value::Bool(truth) => Value::Bool(*truth),
        broker::Value::I8(number) => Value::I8(*number),
        broker::Value::U8(number) => Value::U8(*number),
        broker::Value::I16(number) => Value::I16(*number),
        broker::Value::U16(number) => Value::U16(*number),
        broker::Value::I32(number) => Value::I32(*number),
        broker::Value::U32(number) => Value::U32(*number),
        broker::Value::I64(number) => Value::I64(*number),
        broker::Value::F32(number) => Value::F32(*number),
        broker::Value::F64(number) => Value::F64(*number),
        broker::Value::Decimal { scale, value } => Value::Decimal { scale: *scale, value: *value },
        broker::Value::Timestamp(time) => Value::Timestamp(seconds_of_ms(*time)),
        broker::Value::Table(table) => {
            Value::Table(table.0.iter().map(|(name, value)| (name.clone(), field(value))).collect())
        }
        broker::Value::Array(list) => Value::Array(list.iter().map(field).collect()),
        other => panic!("no sample has {other:?}"),
    }
}

fn encode(properties: &Properties) -> Vec<u8> {
    let fields: Vec<_> = properties.headers.0.iter().map(|(name, value)| (name.clone(), field(value))).collect();
    let fields = encode_fields(&fields);
    let text = |text: &'_ Option<String>| text.clone().map(String::into_bytes);
    let id = |id: &'_ Option<Id>| id.as_ref().and_then(Id::as_text).map(|text| text.into_owned().into_bytes());
    let expiration = properties.expiration.map(|ms| ms.to_string().into_bytes());
    BasicProperties {
        content_type: text(&properties.content_type).as_deref(),
        content_encoding: text(&properties.content_encoding).as_deref(),
        headers: (!properties.headers.is_empty()).then(|| Table::new(&fields).unwrap()),
        delivery_mode: properties.persistent.then_some(2),
        priority: properties.priority,
        correlation_id: id(&properties.correlation_id).as_deref(),
        reply_to: text(&properties.reply_to).as_deref(),
        expiration: expiration.as_deref(),
        message_id: id(&properties.message_id).as_deref(),
        timestamp: properties.timestamp.map(seconds_of_ms),
        kind: text(&properties.kind).as_deref(),
        user_id: text(&properties.user_id).as_deref(),
        app_id: text(&properties.app_id).as_deref(),
        cluster_id: None,
    }
    .to_bytes()
}
