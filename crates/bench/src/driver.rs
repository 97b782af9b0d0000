//! What a broker must be able to do to be measured, in words that fit every protocol. One file per
//! protocol.
//!
//! A driver sets places up and opens connections; a conversation is one connection that is ready to
//! carry messages and turns them into bytes and back, without any socket.

pub(crate) mod amqp;
mod amqp10;
pub(crate) mod jvm;
mod kafka;
pub(crate) mod link;
pub(crate) mod mqtt;
mod nats;
mod relay;
pub(crate) mod session;
mod stomp;

use wire::Output;

use bench_record::failure::Failure;
use bench_record::scenario::Scenario;
use bench_record::target::Target;
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
    /// Publishes to the first queue and consumes from the second, or, as the far end, the other way
    /// round.
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
    /// Understands what is whole at the front of `input`, appends the acknowledgements that are due
    /// to the output, and returns how many bytes are done with.
    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure>;
    /// Acknowledges what was received and is not acknowledged yet.
    fn settle(&mut self) -> Result<(), Failure>;
    /// Bytes that wait in the output. A message that others may follow in the same frame stays open
    /// to them.
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
    /// Reads once and understands what came, now or together with an earlier answer. False: there
    /// was nothing.
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
    if scenario.clients.exactly_once && !["mqtt", "mqtt5"].contains(&target.scheme.as_str()) {
        return Err(Failure::lacking("message that comes exactly once by its protocol"));
    }
    let (target, scenario) = (target.clone(), scenario.clone());
    match target.scheme.as_str() {
        "amqp" => Ok(Box::new(amqp::AmqpDriver::new(target, scenario, run))),
        "amqp10" => Ok(Box::new(amqp10::Amqp10Driver::new(target, scenario, run)?)),
        "stomp" => Ok(Box::new(stomp::StompDriver::new(target, scenario, run)?)),
        "nats" | "jetstream" => Ok(Box::new(nats::NatsDriver::new(target, scenario, run)?)),
        "kafka" => Ok(Box::new(kafka::KafkaDriver::new(target, scenario, run)?)),
        "mqtt" | "mqtt5" => Ok(Box::new(mqtt::MqttDriver::new(target, scenario, run)?)),
        "relay" => Ok(Box::new(relay::RelayDriver::new(target, scenario, run)?)),
        jms if bench_record::target::JMS_SCHEMES.contains(&jms) => {
            Err(Failure::new(format!("{jms}: a JMS client is loaded by `run`, `saturate`, `curve` and `suite` alone")))
        }
        other => Err(Failure::new(format!(
            "{other}://: no such protocol; use amqp, amqp10, stomp, nats, jetstream, mqtt, mqtt5, kafka, relay, or a JMS client: {}",
            bench_record::target::JMS_SCHEMES.join(", ")
        ))),
    }
}

/// What a protocol of topics alone has no word for, where a scenario asks for it.
fn special(scenario: &Scenario) -> Option<&'static str> {
    let cases = [
        (scenario.topology.idle_queues > 0, "bound on a queue that nobody consumes"),
        (scenario.message.priority.is_some(), "priority of a message"),
        (scenario.clients.selector.is_some(), "selector"),
        (scenario.clients.poll, "request for a single message"),
        (scenario.clients.bystander, "consumer that settles nothing"),
    ];
    first_wanted(&cases)
}

/// How a protocol writes the places that messages are routed by: the words of a place, and patterns
/// over them.
#[derive(Debug, Clone, Copy)]
struct Notation {
    /// Between two words.
    between: char,
    /// In a pattern, any one word.
    any: char,
}

impl Notation {
    /// Where messages go that one of the [`patterns`](Self::patterns) over `place` matches.
    fn matched(self, place: &str) -> String {
        format!("{place}{}message", self.between)
    }

    /// `count` patterns, of which exactly one, the last, matches.
    fn patterns(self, place: &str, count: usize) -> Vec<String> {
        let Self { between, any } = self;
        let others = (1..count).map(|other| format!("{place}{between}other{between}{other}{between}{any}"));
        others.chain([format!("{place}{between}{any}")]).collect()
    }
}

/// The first of `cases` that is wanted.
fn first_wanted(cases: &[(bool, &'static str)]) -> Option<&'static str> {
    cases.iter().find(|(wanted, _)| *wanted).map(|(_, what)| *what)
}

/// The place that message number `number` goes to, of those that a connection publishes to.
#[inline]
fn in_turn<T>(places: &[T], number: u64) -> Result<&T, Failure> {
    match places {
        [only] => Ok(only),
        [] => Err(Failure::new("a connection that only consumes was asked to publish")),
        several => Ok(&several[(number % several.len() as u64) as usize]),
    }
}

/// Product and version of a target, where it tells them.
pub(crate) fn product(target: &Target) -> Option<(String, String)> {
    match target.scheme.as_str() {
        "amqp" => session::Session::open(target, "greeting").ok().map(|session| session.server),
        "amqp10" => amqp10::server(target).ok(),
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
