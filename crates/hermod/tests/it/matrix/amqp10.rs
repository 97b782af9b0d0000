//! The row of AMQP 1.0.

use std::io::{Read, Write};
use std::net::TcpStream;

use ::amqp10::client::{Client, Event, LinkId, Login, Options, SendMode};
use ::amqp10::codec::performative::{Attach, Role, SenderSettleMode};
use ::amqp10::codec::value::Budget;
use ::amqp10::codec::{
    AttachTarget, DeliveryState, Message, Outcome, Source, Symbol, Target, Value, ValueRef, read_value,
};
use ::amqp10::dialect::{Acquired, Amqp10Dialect, publish, write_neutral};
use broker::{Content, Dialect, Properties};

use super::{Answer, Asks, Seen, Speaker};
use crate::server::{HANG, Server};

/// A connection with one session.
pub(super) struct Amqp10 {
    socket: TcpStream,
    client: Client,
    input: Vec<u8>,
    channel: u16,
}

/// `/queues/` and the name, percent-encoded.
fn address(queue: &str) -> String {
    format!("/queues/{}", queue.replace(' ', "%20"))
}

/// The filter of a selector, as a map.
fn filter(selector: &str) -> Vec<u8> {
    let descriptor = Value::Symbol("apache.org:selector-filter:string".to_owned());
    let filter = Value::Described(Box::new((descriptor, Value::Str(selector.to_owned()))));
    Value::Map(vec![(Value::Symbol("jms-selector".to_owned()), filter)]).to_bytes()
}

impl Amqp10 {
    pub(super) fn connect(server: &Server) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let client = Client::new(Options { login: Login::plain("guest", "guest"), ..Options::default() });
        let mut speaker = Self { socket, client, input: Vec::new(), channel: 0 };
        speaker.say(|client, out| client.start(out));
        speaker.wait(|event| matches!(event, Event::Opened(_)).then_some(()));
        speaker.channel = speaker.say(|client, out| client.begin(out).unwrap());
        speaker
    }

    /// Sends what the client appends.
    fn say<T>(&mut self, say: impl FnOnce(&mut Client, &mut Vec<u8>) -> T) -> T {
        let mut out = Vec::new();
        let said = say(&mut self.client, &mut out);
        self.socket.write_all(&out).unwrap();
        said
    }

    /// Reads events until `wanted` accepts one.
    fn wait<T>(&mut self, mut wanted: impl FnMut(&Event<'_>) -> Option<T>) -> T {
        loop {
            let mut out = Vec::new();
            let mut rest = &self.input[..];
            let mut found = None;
            while found.is_none() {
                let Some(event) = self.client.poll(&mut rest, &mut out).unwrap() else { break };
                found = wanted(&event);
                let failed = matches!(event, Event::Closed { .. } | Event::Ended { .. });
                assert!(!failed && (found.is_some() || !matches!(event, Event::Detached { .. })), "{event:?}");
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

    fn attach(&mut self, attach: &Attach<'_>) -> LinkId {
        let channel = self.channel;
        let link = self.say(|client, out| client.attach(channel, attach, out).unwrap());
        self.wait(|event| matches!(event, Event::Attached { .. }).then_some(()));
        link
    }

    fn publish_to(&mut self, address: &str, properties: &Properties, body: &[u8]) {
        let target = Some(AttachTarget::Target(Target { address: Some(address), ..Target::default() }));
        let link = self.attach(&Attach { name: "out", target, ..Attach::default() });
        let mut message = Vec::new();
        write_neutral(properties, body, Acquired::default(), &mut message);
        self.say(|client, out| client.send(link, SendMode::default(), &[&message], out).unwrap());
        self.wait(|event| match event {
            Event::Answered { state, .. } => {
                assert_eq!(*state, Some(DeliveryState::Outcome(Outcome::Accepted)));
                Some(())
            }
            _ => None,
        });
        self.close(link);
    }

    fn close(&mut self, link: LinkId) {
        self.say(|client, out| client.close_link(link, out).unwrap());
        self.wait(|event| matches!(event, Event::Detached { .. }).then_some(()));
    }
}

fn seen(bytes: &[u8]) -> Seen {
    let redelivered = !Message::decode(bytes).unwrap().header.unwrap_or_default().first_acquirer;
    let published = publish(bytes, 0).unwrap();
    let content = Content { properties: &published.properties, body: &published.body };
    Seen { properties: Amqp10Dialect.read(content).unwrap(), body: published.body.to_vec(), redelivered }
}

impl Speaker for Amqp10 {
    fn publish(&mut self, queue: &str, properties: &Properties, body: &[u8]) {
        self.publish_to(&address(queue), properties, body);
    }

    fn publish_topic(&mut self, key: &str, properties: &Properties, body: &[u8]) {
        let key = key.replace('%', "%25").replace(' ', "%20");
        self.publish_to(&format!("/exchanges/amq.topic/{key}"), properties, body);
    }

    fn consume(&mut self, queue: &str, asks: Asks, count: usize, answer: Answer) -> Vec<Seen> {
        let (address, browses) = (address(queue), matches!(asks, Asks::Browsing));
        let filter = if let Asks::Selected(selector) = asks { filter(selector) } else { Vec::new() };
        let filter = match read_value(&mut wire::Reader::new(&filter), &mut Budget::default()) {
            Ok(ValueRef::Map(map)) => Some(map),
            _ => None,
        };
        let distribution_mode = browses.then_some(Symbol("copy"));
        let source = Some(Source { address: Some(&address), filter, distribution_mode, ..Source::default() });
        let snd_settle_mode = if browses { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        let link =
            self.attach(&Attach { name: "in", role: Role::Receiver, snd_settle_mode, source, ..Attach::default() });
        let (channel, mut all) = (self.channel, Vec::new());
        let outcome = match answer {
            Answer::Accept => Outcome::Accepted,
            Answer::Requeue => Outcome::Released,
            Answer::Reject => Outcome::Rejected(Default::default()),
        };
        for _ in 0..count {
            self.say(|client, out| client.grant(link, 1, out).unwrap());
            let id = self.wait(|event| match event {
                Event::Delivery { delivery, .. } => {
                    all.push(seen(&delivery.message));
                    Some(delivery.id)
                }
                _ => None,
            });
            if !browses {
                let state = DeliveryState::Outcome(outcome);
                self.say(|client, out| client.settle(channel, id..=id, state, out).unwrap());
            }
        }
        if browses {
            // Nothing more is there.
            self.say(|client, out| client.fetch(link, 1, out).unwrap());
            self.wait(|event| matches!(event, Event::Drained { .. }).then_some(()));
        }
        self.close(link);
        all
    }
}
