//! What a broker must be able to do to be measured, in words that fit every protocol. One file per protocol.
//!
//! A driver sets places up and opens connections; a conversation is one connection that is ready to carry messages and turns
//! them into bytes and back, without any socket.

pub(crate) mod amqp;
pub(crate) mod jvm;
mod kafka;
pub(crate) mod link;
mod mqtt;
mod nats;
mod relay;
pub(crate) mod session;
mod stomp;

use wire::Output;

use crate::failure::Failure;
use crate::scenario::{Destination, Scenario};
use crate::target::Target;
use link::Link;

/// What consumers with a selector ask for, and the `kind` of the messages that they get.
pub(crate) const SELECTOR: &str = "kind = 'A'";
pub(crate) const SELECTED: &str = "A";

/// What one connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Publishes: the producer with this number.
    Produce(usize),
    /// Consumes: the consumer with this number.
    Consume(usize),
    /// Publishes to the first queue and consumes from the second, or, as the far end, the other way round.
    PingPong {
        /// True for the end that answers.
        far: bool,
    },
}

/// Something that a broker said.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A whole message arrived.
    Delivery {
        body: &'a [u8],
        /// The broker says that it has delivered it before.
        redelivered: bool,
    },
    /// Messages are confirmed, or refused; numbers count what this connection published, from 1.
    Confirm { upto: u64, multiple: bool, accepted: bool },
    /// The broker gave a published message back.
    Returned,
}

/// One connection that carries messages.
pub(crate) trait Conversation: Send {
    /// Appends one message with this body to the output.
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure>;
    /// Understands what is whole at the front of `input`, appends the acknowledgements that are due to the output, and
    /// returns how many bytes are done with.
    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure>;
    /// Acknowledges what was received and is not acknowledged yet.
    fn settle(&mut self) -> Result<(), Failure>;
    /// Bytes that wait in the output. A message that others may follow in the same frame stays open to them.
    fn waiting(&mut self) -> usize {
        self.output().len()
    }
    /// Bytes for the broker, whole.
    fn output(&mut self) -> &mut Output;
}

/// A socket and the conversation that it carries.
pub(crate) struct Line {
    pub(crate) link: Link,
    pub(crate) talk: Box<dyn Conversation>,
}

impl Line {
    /// Reads once and understands what came, now or together with an earlier answer. False: there was nothing.
    pub(crate) fn receive(&mut self, on: &mut dyn FnMut(Event<'_>)) -> Result<bool, Failure> {
        let came = self.link.read()?;
        if self.link.input().is_empty() {
            return Ok(came);
        }
        let used = self.talk.receive(self.link.input(), on)?;
        self.link.consume(used);
        Ok(came || used > 0)
    }
}

/// One broker under one protocol, for one run.
pub(crate) trait Driver {
    /// Creates queues and exchanges with names of this run's own.
    fn prepare(&mut self) -> Result<(), Failure>;
    /// Opens a connection for one part. Consumers may start to receive with their first read.
    fn open(&mut self, part: Part) -> Result<Line, Failure>;
    /// Messages that all queues hold now, if the protocol tells.
    fn depth(&mut self) -> Result<Option<u64>, Failure>;
    /// Removes what `prepare` made.
    fn clean(&mut self) -> Result<(), Failure>;
}

/// The driver for a target: one line per protocol.
pub(crate) fn open(target: &Target, scenario: &Scenario, run: u32) -> Result<Box<dyn Driver>, Failure> {
    let (target, scenario) = (target.clone(), scenario.clone());
    match target.scheme.as_str() {
        "amqp" => Ok(Box::new(amqp::AmqpDriver::new(target, scenario, run))),
        "stomp" => Ok(Box::new(stomp::StompDriver::new(target, scenario, run)?)),
        "nats" | "jetstream" => Ok(Box::new(nats::NatsDriver::new(target, scenario, run)?)),
        "kafka" => Ok(Box::new(kafka::KafkaDriver::new(target, scenario, run)?)),
        "mqtt" | "mqtt5" => Ok(Box::new(mqtt::MqttDriver::new(target, scenario, run)?)),
        "relay" => Ok(Box::new(relay::RelayDriver::new(target, scenario, run)?)),
        jms if jvm::provider::SCHEMES.contains(&jms) => {
            Err(Failure::new(format!("{jms}: a JMS client can only be loaded by `hermod-bench run`")))
        }
        other => Err(Failure::new(format!(
            "{other}://: no such protocol; use amqp, stomp, nats, jetstream, mqtt, mqtt5, kafka, relay, or a JMS client: {}",
            jvm::provider::SCHEMES.join(", ")
        ))),
    }
}

/// What a protocol without exchanges, selectors and the like has no word for, where a scenario asks for it.
fn special(scenario: &Scenario) -> Option<&'static str> {
    let plain = matches!(
        scenario.destination,
        Destination::Queue | Destination::Fanout | Destination::Topic | Destination::DurableTopic
    );
    let cases = [
        (!plain, "exchange"),
        (scenario.idle_queues > 0, "bound on a queue that nobody consumes"),
        (scenario.priority.is_some(), "priority of a message"),
        (scenario.selector.is_some(), "selector"),
        (scenario.poll, "request for a single message"),
        (scenario.bystander, "consumer that settles nothing"),
        (scenario.reply, "reply from a consumer"),
    ];
    first_wanted(&cases)
}

/// The first of `cases` that is wanted.
fn first_wanted(cases: &[(bool, &'static str)]) -> Option<&'static str> {
    cases.iter().find(|(wanted, _)| *wanted).map(|(_, what)| *what)
}

/// Product and version of a target, where it tells them.
pub(crate) fn product(target: &Target) -> Option<(String, String)> {
    match target.scheme.as_str() {
        "amqp" => session::Session::open(target, "greeting").ok().map(|session| session.server),
        "stomp" => stomp::server(target).ok(),
        _ => None,
    }
}

/// Counts deliveries until an acknowledgement is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckCount {
    /// Acknowledge after this many; 0: the broker needs none.
    every: u64,
    pending: u64,
}

impl AckCount {
    pub(crate) fn new(every: u64) -> Self {
        Self { every, pending: 0 }
    }

    /// Counts one delivery; true when an acknowledgement of it and all before it is due.
    #[inline]
    pub(crate) fn due(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        self.pending += 1;
        let due = self.pending >= self.every;
        if due {
            self.pending = 0;
        }
        due
    }

    /// True when something waits for an acknowledgement.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.pending > 0
    }

    /// True when something waits for an acknowledgement, which the caller sends now.
    pub(crate) fn take_rest(&mut self) -> bool {
        std::mem::take(&mut self.pending) > 0
    }
}
