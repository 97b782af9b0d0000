//! The row of STOMP.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;

use broker::{Content, Dialect, Id, Properties, Value, decimal_text, seconds_of_ms};
use stomp::StompDialect;
use stomp::client::{AckId, AckMode, Client, Connect, Event, Requests, Send, Settle, Subscribe};
use stomp::limits::Limits;

use super::{Answer, Asks, Seen, Speaker};
use crate::server::{HANG, Server};

/// Headers of a MESSAGE that the server adds.
const SERVERS: [&str; 6] = ["subscription", "message-id", "destination", "redelivered", "ack", "content-length"];
const RECEIPT: &str = "r";

/// A connection that uses the newest version.
pub(super) struct Stomp {
    socket: TcpStream,
    client: Client,
    input: Vec<u8>,
    /// Frames that were received while another one was waited for.
    heard: VecDeque<Heard>,
}

/// A frame from the server.
enum Heard {
    Connected,
    Receipt,
    Message(Box<Seen>, Option<AckId<'static>>),
    End,
}

impl Stomp {
    pub(super) fn connect(server: &Server) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", server.ports.stomp)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let mut speaker =
            Self { socket, client: Client::new(Limits::default()), input: Vec::new(), heard: VecDeque::new() };
        let connect = Connect { login: Some("guest"), passcode: Some("guest"), ..Connect::default() };
        speaker.ask(|requests| requests.connect(&connect));
        assert!(matches!(speaker.hear(), Heard::Connected));
        speaker
    }

    fn ask(&mut self, ask: impl FnOnce(&mut Requests)) {
        let requests = self.client.requests();
        ask(requests);
        self.socket.write_all(&requests.output().take()).unwrap();
    }

    /// The next frame.
    fn hear(&mut self) -> Heard {
        loop {
            let heard = &mut self.heard;
            let consumed = self.client.feed(&self.input, |event, _| heard.push_back(read(event))).unwrap();
            self.input.drain(..consumed);
            if let Some(heard) = self.heard.pop_front() {
                return heard;
            }
            let mut buffer = [0; 64 * 1024];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }

    fn wait_for_receipt(&mut self) {
        while !matches!(self.hear(), Heard::Receipt) {}
    }

    fn publish_to(&mut self, destination: &str, properties: &Properties, body: &[u8]) {
        let headers = headers_of(properties);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let send = Send { destination, receipt: Some(RECEIPT), headers: &headers, ..Send::default() };
        self.ask(|requests| requests.send(&send, body));
        self.wait_for_receipt();
    }

    fn stop(&mut self) {
        self.ask(|requests| requests.unsubscribe("s", Some(RECEIPT)));
        self.wait_for_receipt();
    }
}

fn read(event: Event<'_>) -> Heard {
    let message = match event {
        Event::Connected(_) => return Heard::Connected,
        Event::Receipt(_) => return Heard::Receipt,
        Event::Error(error) => panic!("{}: {}", error.message(), error.detail()),
        Event::Message(message) => message,
    };
    if message.headers.get("browser").is_some() {
        return Heard::End;
    }
    let mut lines = Vec::new();
    for (name, value) in message.headers.raw().filter(|(name, _)| !SERVERS.contains(name)) {
        lines.extend_from_slice(format!("{name}:{value}\n").as_bytes());
    }
    let redelivered = message.headers.get("redelivered").as_deref() == Some("true");
    let properties = StompDialect.read(Content { properties: &lines, body: &[] }).unwrap();
    let ack = message.ack_id().map(AckId::into_owned);
    Heard::Message(Box::new(Seen { properties, body: message.body().to_vec(), redelivered }), ack)
}

impl Speaker for Stomp {
    fn publish(&mut self, queue: &str, properties: &Properties, body: &[u8]) {
        self.publish_to(&format!("/amq/queue/{queue}"), properties, body);
    }

    fn publish_topic(&mut self, key: &str, properties: &Properties, body: &[u8]) {
        self.publish_to(&format!("/topic/{key}"), properties, body);
    }

    fn consume(&mut self, queue: &str, asks: Asks, count: usize, answer: Answer) -> Vec<Seen> {
        let browses = matches!(asks, Asks::Browsing);
        let headers = match asks {
            Asks::All => vec![("prefetch-count", "1")],
            Asks::Selected(selector) => vec![("prefetch-count", "1"), ("selector", selector)],
            Asks::Browsing => vec![("browser", "true")],
        };
        let destination = format!("/amq/queue/{queue}");
        let ack = if browses { AckMode::Auto } else { AckMode::ClientIndividual };
        let subscribe =
            Subscribe { id: "s", destination: &destination, ack, headers: &headers, ..Subscribe::default() };
        self.ask(|requests| requests.subscribe(&subscribe));
        let mut all = Vec::new();
        while all.len() < count {
            let Heard::Message(seen, id) = self.hear() else { panic!("a message was to come") };
            all.push(*seen);
            // The last one is settled after the consumer has stopped. Otherwise a requeued message
            // would come again.
            if all.len() == count && !browses {
                self.stop();
            }
            let Some(id) = id.filter(|_| !browses) else { continue };
            let settle = Settle { receipt: (all.len() == count).then_some(RECEIPT), ..Settle::default() };
            let reject = Settle { headers: &[("requeue", "false")], ..settle };
            self.ask(|requests| match answer {
                Answer::Accept => requests.ack(&id, &settle),
                Answer::Requeue => requests.nack(&id, &settle),
                Answer::Reject => requests.nack(&id, &reject),
            });
            if all.len() == count {
                self.wait_for_receipt();
            }
        }
        if browses {
            assert!(matches!(self.hear(), Heard::End));
        }
        if browses || count == 0 {
            self.stop();
        }
        all
    }
}

fn headers_of(properties: &Properties) -> Vec<(String, String)> {
    let id = |id: &Option<Id>| id.as_ref().and_then(Id::as_text).map(std::borrow::Cow::into_owned);
    let mut headers = Vec::new();
    let mut add = |name: &str, value: Option<String>| headers.extend(value.map(|value| (name.to_owned(), value)));
    add("content-type", properties.content_type.clone());
    add("content-encoding", properties.content_encoding.clone());
    add("persistent", properties.persistent.then(|| "true".to_owned()));
    add("priority", properties.priority.map(|number| number.to_string()));
    add("correlation-id", id(&properties.correlation_id));
    add("reply-to", properties.reply_to.clone());
    add("expiration", properties.expiration.map(|number| number.to_string()));
    add("amqp-message-id", id(&properties.message_id));
    add("timestamp", properties.timestamp.map(|time| seconds_of_ms(time).to_string()));
    add("type", properties.kind.clone());
    add("user-id", properties.user_id.clone());
    add("app-id", properties.app_id.clone());
    for (name, value) in &properties.headers.0 {
        let text = match value {
            Value::Text(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::F32(number) => number.to_string(),
            Value::F64(number) => number.to_string(),
            Value::Decimal { scale, value } => decimal_text(*scale, *value),
            Value::Timestamp(time) => seconds_of_ms(*time).to_string(),
            other => other.as_integer().unwrap().to_string(),
        };
        add(name, Some(text));
    }
    headers
}
