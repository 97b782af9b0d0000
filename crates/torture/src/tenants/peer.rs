//! A client of AMQP 0-9-1 that an attack leads by the hand: it writes what it is told, and counts
//! what the broker says to it.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp091::client::{Client, Event, Options};
use amqp091::codec::methods::{BasicPublish, ChannelOpen, QueueDeclare};
use amqp091::codec::table::{Value, encode_fields};
use amqp091::codec::{Method, frame};

use crate::talk::Link;

/// How long an answer may take. An attack waits as long as everybody else must.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one look at the socket lasts.
const LOOK: Duration = Duration::from_millis(5);
/// The channel of who needs only one.
pub(super) const CHANNEL: u16 = 1;
/// The largest frame of AMQP that the broker agrees to.
pub(super) const FRAME: u32 = 131_072;

/// A user of the broker.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) name: &'static str,
    pub(super) password: &'static str,
}

/// What the broker has said to a peer.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Publishes that are confirmed, by the highest number.
    pub(super) confirmed: u64,
    /// Publishes that were refused.
    pub(super) nacked: u64,
    pub(super) delivered: u64,
    pub(super) returned: u64,
    /// Answers to methods.
    pub(super) answers: u64,
    /// Channels that the broker has closed, and that must be opened again.
    pub(super) closed: Vec<u16>,
    /// Why it closed the last one.
    pub(super) reason: String,
    /// It does not read publishes for now.
    pub(super) blocked: bool,
    /// The addresses in `reply-to` of what came.
    pub(super) addresses: Vec<String>,
    /// The numbers that the bodies of what came begin with.
    pub(super) numbers: Vec<u64>,
}

/// A connection that has logged in, and has channel 1 open.
pub(super) struct Peer {
    link: Link,
    client: Client,
    pub(super) output: Vec<u8>,
    pub(super) heard: Heard,
}

impl Peer {
    /// Connects to the port on loopback.
    pub(super) fn open(port: u16, user: User) -> Result<Self, String> {
        let (name, password) = (user.name.to_owned(), user.password.to_owned());
        let options = Options { user: name.clone(), password, connection_name: name, ..Options::default() };
        let link = Link::open(port).map_err(|error| error.to_string())?;
        let mut peer = Self { link, client: Client::new(options), output: Vec::new(), heard: Heard::default() };
        peer.client.start(&mut peer.output);
        let end = Instant::now() + PATIENCE;
        while !peer.is_connected() {
            if Instant::now() > end {
                return Err("no log-in".to_owned());
            }
            peer.turn()?;
        }
        peer.heard = Heard::default();
        peer.ask(CHANNEL, ChannelOpen::default())?;
        Ok(peer)
    }

    /// Its socket, for a thread that only writes.
    pub(super) fn writer(&self) -> Result<TcpStream, String> {
        self.link.writer().map_err(|error| error.to_string())
    }

    fn is_connected(&self) -> bool {
        self.heard.answers > 0
    }

    /// Writes this with the next turn.
    pub(super) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        self.client.send(channel, method, &mut self.output);
    }

    /// Publishes a message with the next turn.
    pub(super) fn publish(&mut self, to: (&str, &str), properties: &[u8], body: &[u8]) {
        self.publish_on(CHANNEL, to, properties, body);
    }

    pub(super) fn publish_on(
        &mut self,
        channel: u16,
        (exchange, routing_key): (&str, &str),
        properties: &[u8],
        body: &[u8],
    ) {
        let publish = BasicPublish { exchange, routing_key, ..BasicPublish::default() };
        Method::from(publish).encode(channel, &mut self.output);
        frame::encode_header(&mut self.output, channel, body.len() as u64, properties);
        frame::encode_body(&mut self.output, channel, FRAME, body);
    }

    /// Writes what the broker takes in a moment, and hears once.
    pub(super) fn turn(&mut self) -> Result<(), String> {
        let turned = self.link.turn(&mut self.output, LOOK);
        let mut rest = self.link.input();
        let before = rest.len();
        while let Some(event) = self.client.poll(&mut rest, &mut self.output).map_err(|error| error.to_string())? {
            self.heard.take(&event)?;
        }
        let used = before - rest.len();
        self.link.consume(used);
        turned.map_err(|error| error.to_string())
    }

    /// Takes turns until everything is written and `reached` says so. False when `end` comes first.
    pub(super) fn until(&mut self, end: Instant, reached: impl Fn(&Heard) -> bool) -> Result<bool, String> {
        loop {
            self.turn()?;
            if self.output.is_empty() && reached(&self.heard) {
                return Ok(true);
            }
            if Instant::now() > end {
                return Ok(false);
            }
        }
    }

    /// Sends a method and waits for its answer.
    pub(super) fn ask<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) -> Result<(), String> {
        let method = method.into();
        let (name, before, closed) = (method.name(), self.heard.answers, self.heard.closed.len());
        self.client.send(channel, method, &mut self.output);
        // Another channel may be closed meanwhile, by something that was sent before.
        let is_closed = |heard: &Heard| heard.closed.iter().skip(closed).any(|other| *other == channel);
        let answered = self.until(Instant::now() + PATIENCE, |heard| heard.answers > before || is_closed(heard))?;
        match (answered, is_closed(&self.heard)) {
            (true, false) => Ok(()),
            (true, true) => Err(format!("{name}: {}", self.heard.reason)),
            (false, _) => Err(format!("{name}: no answer within {PATIENCE:?}")),
        }
    }

    /// Waits until everything that was sent is done: a passive declaration of a queue of one's own
    /// is answered behind it.
    pub(super) fn fence(&mut self, queue: &str) -> Result<(), String> {
        self.ask(CHANNEL, QueueDeclare { queue, passive: true, ..QueueDeclare::default() })
    }

    /// Opens the channels again that the broker has closed. Returns how many that were.
    pub(super) fn reopen(&mut self) -> Result<u64, String> {
        let closed = std::mem::take(&mut self.heard.closed);
        for channel in &closed {
            self.ask(*channel, ChannelOpen::default())?;
        }
        self.heard.confirmed = 0;
        Ok(closed.len() as u64)
    }
}

impl Heard {
    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Ack { delivery_tag, .. } => self.confirmed = self.confirmed.max(*delivery_tag),
            Event::Nack { .. } => self.nacked += 1,
            Event::Deliver { message, .. } => {
                self.delivered += 1;
                self.numbers.extend(message.body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)));
                let properties = amqp091::codec::decode_properties(message.properties);
                let address = properties.ok().and_then(|properties| properties.reply_to);
                self.addresses.extend(address.map(|address| String::from_utf8_lossy(address).into_owned()));
            }
            Event::Returned { .. } => self.returned += 1,
            Event::ChannelClosed { channel, reply_text, .. } => {
                self.closed.push(*channel);
                self.reason = (*reply_text).to_owned();
            }
            Event::Closed { reply_code, reply_text } => {
                return Err(format!("the broker closed the connection: {reply_code} {reply_text}"));
            }
            Event::Blocked { .. } => self.blocked = true,
            Event::Unblocked => self.blocked = false,
            Event::Connected(_) | Event::Method { .. } | Event::Got { .. } => self.answers += 1,
            Event::Cancelled { .. } | Event::CloseOk => {}
        }
        Ok(())
    }
}

/// Properties that are these headers and nothing else.
pub(super) fn headers(fields: &[(String, Value)]) -> Vec<u8> {
    let fields = encode_fields(fields);
    let mut properties = vec![0x20, 0];
    properties.extend((fields.len() as u32).to_be_bytes());
    properties.extend(fields);
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_properties_that_decode() {
        let properties = headers(&[("n".to_owned(), Value::Void)]);
        let decoded = amqp091::codec::decode_properties(&properties).unwrap();
        assert_eq!(decoded.headers.unwrap().to_fields(), [("n".to_owned(), Value::Void)]);
    }

    #[test]
    fn a_peer_counts_what_it_hears() {
        let mut heard = Heard::default();
        for delivery_tag in [1, 5, 3] {
            heard.take(&Event::Ack { channel: 1, delivery_tag, multiple: true }).unwrap();
        }
        heard.take(&Event::ChannelClosed { channel: 7, reply_code: 406, reply_text: "no" }).unwrap();
        heard.take(&Event::Blocked { reason: "low on memory" }).unwrap();
        assert!(heard.blocked && heard.confirmed == 5 && heard.closed == [7] && heard.reason == "no");
        assert!(heard.take(&Event::Closed { reply_code: 501, reply_text: "no" }).is_err());
    }
}
