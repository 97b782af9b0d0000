//! What is done to a broker: how many connections, which messages, which promises, how fast and for
//! how long.

mod refusals;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::arrivals::Arrivals;
use crate::check::Check;
use crate::failure::{Context, Failure};
use crate::totals::Totals;

/// The queues: orders, answers, statistics.
pub const EXCHANGE_QUEUES: usize = 3;

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Producers and consumers at once.
    Throughput,
    /// One message at a time, sent back by the far end: round trips.
    Pingpong,
    /// The stock exchange: see `exchange`.
    #[value(skip)]
    Exchange,
}

/// How fast producers send.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rate {
    /// Closed loop: as fast as window and in-flight bound allow. Latency counts from the send time.
    Saturate,
    /// Open loop: this many messages a second in all, whatever the broker does. Latency counts from
    /// the intended time.
    Fixed(f64),
    /// Open loop at half of what the target was first measured to sustain.
    Half,
}

impl std::str::FromStr for Rate {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "max" => Ok(Self::Saturate),
            "half" => Ok(Self::Half),
            _ => {
                let rate: f64 = text.parse().context(format!("{text}: a rate is messages per second, max or half"))?;
                if !rate.is_finite() || rate <= 0.0 {
                    return Err(Failure::new(format!(
                        "{text}: a rate must be more than 0; leave it away for a closed loop"
                    )));
                }
                Ok(Self::Fixed(rate))
            }
        }
    }
}

/// How long a queue lives and who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// Survives a restart.
    Durable,
    /// Belongs to its consumer's connection; needs exactly one consumer for each queue.
    Exclusive,
    /// Shared, and gone after a restart.
    Transient,
}

/// Where messages go on their way to consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// Producer i sends to queue i modulo queues.
    Queue,
    /// Each producer sends to all queues in turn, and each consumer reads all of them.
    Spread,
    /// One exchange copies each message to all queues.
    Fanout,
    /// One direct exchange: the key of producer i is that of queue i modulo queues.
    Direct,
    /// One topic exchange: of the patterns bound to each queue one matches what its producers send.
    Pattern,
    /// A topic: each consumer has a subscription that ends with it.
    Topic,
    /// A topic: each consumer has a subscription that waits for it.
    DurableTopic,
}

/// What bodies are filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// A stamp, then random bytes that no compression makes smaller.
    Random,
    /// A stamp, then zeros.
    Zero,
    /// The message's number in six hexadecimal digits, then zeros.
    Counter,
}

/// Messages of another size behind all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// How many each producer sends.
    pub messages: u64,
    /// Bytes of their bodies; not more than those of the others.
    pub size: usize,
}

/// How consumers acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// One acknowledgement for this many messages; 0: automatic.
    pub every: u64,
}

impl std::str::FromStr for Ack {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let every = match text.split_once(':') {
            None if text == "auto" => 0,
            None if text == "each" => 1,
            Some(("every", count)) => count.parse().context(format!("{text}: how many"))?,
            _ => return Err(Failure::new(format!("{text}: acknowledgement is auto, each or every:K"))),
        };
        if every == 0 && text != "auto" {
            return Err(Failure::new(format!("{text}: K must be at least 1")));
        }
        Ok(Self { every })
    }
}

/// The warm-up: seconds, or `steady`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUp {
    /// Its length, or the most that it may take.
    pub seconds: f64,
    /// It ends as soon as the rate is steady.
    pub until_steady: bool,
}

/// Longest warm-up of a rate that never becomes steady, seconds.
const LONGEST_WARMUP: f64 = 60.0;

impl std::str::FromStr for WarmUp {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text == "steady" {
            return Ok(Self { seconds: LONGEST_WARMUP, until_steady: true });
        }
        let seconds = text.parse().context(format!("{text}: a warm-up is a number of seconds, or steady"))?;
        Ok(Self { seconds, until_steady: false })
    }
}

/// Confirms: `none`, or a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirms {
    /// Most unconfirmed messages of one producer; 0: no confirms.
    pub window: u64,
}

impl std::str::FromStr for Confirms {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text == "none" {
            return Ok(Self { window: 0 });
        }
        let window = text.parse().context(format!("{text}: a window is none or a number of messages"))?;
        if window == 0 {
            return Err(Failure::new("a window of 0 would never send; use none for no confirms"));
        }
        Ok(Self { window })
    }
}

/// One kind of run. A record has the fields of its parts beside its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// The kind of load.
    pub mode: Mode,
    /// Which connections and queues there are, and where messages go.
    #[serde(flatten)]
    pub topology: Topology,
    /// What each message is.
    #[serde(flatten)]
    pub message: MessageSpec,
    /// What clients ask for, and in which order they work.
    #[serde(flatten)]
    pub clients: ClientSpec,
    /// How fast producers send.
    #[serde(flatten)]
    pub pace: Pace,
    /// How long it lasts, in time or in messages.
    #[serde(flatten)]
    pub length: Length,
    /// A producer gathers at most this many bytes into one write; 1: every message by itself.
    pub batch: usize,
}

/// Which connections and queues there are, and where messages go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Connections that publish, one thread each.
    pub producers: usize,
    /// Connections that consume, one thread each.
    pub consumers: usize,
    /// Queues that are consumed, or filled where nothing consumes.
    pub queues: usize,
    /// Where messages go.
    pub destination: Destination,
    /// Patterns bound to each queue of [`Destination::Pattern`]; one matches.
    pub bindings: usize,
    /// Further queues that match and have no consumer.
    pub idle_queues: usize,
    /// Messages that such a queue holds before it drops its oldest.
    pub idle_length: u32,
    /// The kind of queues.
    pub queue: QueueKind,
    /// Name of the only queue; none: names of the run's own.
    pub queue_name: Option<String>,
}

/// What each message is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageSpec {
    /// Bytes of a body.
    pub size: usize,
    /// What bodies are filled with.
    pub payload: Payload,
    /// Messages of another size behind all others; none: there are none.
    pub tail: Option<Tail>,
    /// Messages are to outlive the broker.
    pub persistent: bool,
    /// Priority of each message; none: the protocol's default.
    pub priority: Option<u8>,
}

/// What clients ask for, and in which order they work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientSpec {
    /// Consumers ask for some messages, and one of this many is such a one; none: they take all
    /// without asking.
    pub selector: Option<u64>,
    /// Most unconfirmed messages of one producer; 0: no confirms.
    pub window: u64,
    /// Most unacknowledged messages of one consumer; 0: no limit.
    pub prefetch: u16,
    /// One acknowledgement for this many messages; 0: automatic.
    pub ack_every: u64,
    /// Acknowledgements may come late, so that messages may come twice (JMS calls it DUPS_OK): a
    /// client library with such a mode uses it, the others acknowledge `ack_every` at once.
    pub dups_ok: bool,
    /// Consumers ask for each message by itself (`basic.get`).
    pub poll: bool,
    /// The queues are filled first, which is not measured; then they are emptied, and there
    /// is no producer.
    pub drain: bool,
    /// A consumer is open on each queue that is only filled: it is sent what its prefetch allows,
    /// and settles nothing.
    pub bystander: bool,
    /// Each consumer sends one empty message back when all have come, and producers wait for it.
    pub reply: bool,
    /// Client sockets send small segments at once (TCP_NODELAY).
    pub nodelay: bool,
    /// Confirms and acknowledgements are those of a message that comes exactly once: MQTT's QoS 2.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exactly_once: bool,
}

/// How fast producers send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// How fast producers send.
    pub rate: Rate,
    /// How the intended times of an open loop are spread.
    pub arrivals: Arrivals,
    /// Closed loop: most messages sent and not yet received, over all producers; 0: no bound.
    pub in_flight: u64,
}

/// How long it lasts, in time or in messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Length {
    /// Measured seconds.
    pub duration: f64,
    /// Seconds before that which are not measured.
    pub warmup: f64,
    /// Those are the most: the warm-up ends as soon as the rate is steady.
    pub until_steady: bool,
    /// Messages in all, measured from the first to the last, instead of a time.
    pub messages: Option<u64>,
    /// Messages before these, which are not measured.
    pub warmup_messages: u64,
    /// Seconds after which a number of messages is given up and what was done until then counts;
    /// none: it is done in full.
    pub cap: Option<f64>,
    /// Seconds of silence after which a drain is given up and what is missing is lost.
    pub patience: f64,
}

impl Scenario {
    /// The same with a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// True when each queue gets a copy of each message.
    pub fn copies_all(&self) -> bool {
        matches!(self.topology.destination, Destination::Fanout) || self.is_topic()
    }

    /// True when what is received is not acknowledged, or as little as the protocol or the client
    /// allows.
    pub fn acks_nothing(&self) -> bool {
        self.clients.ack_every == 0 && !self.clients.dups_ok
    }

    /// True when each consumer has a subscription instead of a share of a queue.
    pub fn is_topic(&self) -> bool {
        matches!(self.topology.destination, Destination::Topic | Destination::DurableTopic)
    }

    /// True when a confirm stands for a message that outlives the broker: a persistent one, where a
    /// durable queue takes it. A topic whose subscriptions end with their consumers keeps nothing.
    pub fn is_kept(&self) -> bool {
        self.message.persistent && self.topology.queue == QueueKind::Durable
    }

    /// How often each message that is selected is received.
    pub fn copies(&self) -> u64 {
        match (self.topology.consumers, self.copies_all()) {
            (0, _) => 0,
            (_, true) => self.topology.queues as u64,
            _ => 1,
        }
    }

    /// The count that a slice is about: received, or confirmed (sent, without confirms) where
    /// there is no consumer.
    pub fn main_count(&self, totals: &Totals) -> u64 {
        match (self.copies(), self.clients.window) {
            (0, 0) => totals.sent,
            (0, _) => totals.confirmed,
            _ => totals.received,
        }
    }

    /// How much of the main count follows from each message that is sent. The rate of an open loop
    /// counts what is sent.
    pub fn receipts_per_send(&self) -> f64 {
        match self.copies() {
            0 => 1.0,
            copies => copies as f64 / self.selects() as f64,
        }
    }

    /// How much of each body can be checked.
    pub fn check_of_bodies(&self) -> Check {
        let smallest = self.message.tail.map_or(self.message.size, |tail| tail.size.min(self.message.size));
        if self.message.payload == Payload::Counter { Check::Counter } else { Check::of(smallest) }
    }

    /// How many messages have bodies of `bytes` in all, at least one.
    pub fn bodies_within(&self, bytes: u64) -> u64 {
        (bytes / (self.message.size as u64).max(1)).max(1)
    }

    /// One of this many messages is selected.
    pub fn selects(&self) -> u64 {
        self.clients.selector.unwrap_or(1)
    }

    /// How many groups of consumers there are that share messages: each queue has one, or all
    /// queues together.
    pub fn groups(&self) -> usize {
        if self.topology.destination == Destination::Spread { 1 } else { self.topology.queues }
    }

    /// The queues of a part whose own is `queue`: where all write and read all, all of them.
    pub fn queues_of(&self, queue: usize) -> Range<usize> {
        if self.topology.destination == Destination::Spread { 0..self.topology.queues } else { queue..queue + 1 }
    }

    /// Queues in which the messages of one producer are in order by themselves.
    pub fn lanes(&self) -> usize {
        if self.topology.destination == Destination::Spread { self.topology.queues } else { 1 }
    }

    /// How many messages producer `id` may send.
    pub fn quota(&self, id: usize) -> u64 {
        self.length.messages.map_or(u64::MAX, |all| self.share(all + self.length.warmup_messages, id))
    }

    /// How many messages producer `id` sends before anything is measured, where that is a number.
    pub fn warmup_quota(&self, id: usize) -> u64 {
        self.share(self.length.warmup_messages, id)
    }

    fn share(&self, all: u64, id: usize) -> u64 {
        let producers = self.topology.producers as u64;
        all / producers + u64::from((id as u64) < all % producers)
    }

    /// The kind of queue that fits where none was chosen: durable where messages are, and where
    /// several consumers share one or there is none.
    pub fn natural_kind(&self) -> QueueKind {
        match self.topology.destination {
            Destination::Topic => return QueueKind::Exclusive,
            Destination::DurableTopic | Destination::Spread => return QueueKind::Durable,
            _ => {}
        }
        if self.mode == Mode::Exchange {
            return QueueKind::Exclusive;
        }
        let shared = self.mode == Mode::Throughput && self.topology.consumers != self.topology.queues;
        if self.message.persistent || shared || self.clients.drain { QueueKind::Durable } else { QueueKind::Exclusive }
    }

    /// The nearest thing that a relay can do: pairs of one producer and one consumer, both at work.
    /// Where there are confirms, the consumer's acknowledgements pass through the relay and are the
    /// producer's confirms.
    pub fn for_relay(&self) -> Self {
        let window = self.clients.window;
        self.clone().with(|s| {
            // Orders go one way through a relay: no engine could match them.
            if s.mode == Mode::Exchange {
                (s.mode, s.message.size) = (Mode::Throughput, SMALLEST_TIMED);
            }
            (s.topology.consumers, s.topology.queues) = (self.topology.producers, self.topology.producers);
            (s.topology.queue, s.topology.destination) = (QueueKind::Transient, Destination::Queue);
            (s.topology.bindings, s.topology.idle_queues) = (1, 0);
            (s.message.persistent, s.message.tail, s.clients.selector) = (false, None, None);
            s.clients.ack_every = if window > 0 { s.clients.ack_every.clamp(1, window) } else { 0 };
            (s.clients.poll, s.clients.drain, s.clients.bystander, s.clients.reply) = (false, false, false, false);
        })
    }
}

/// 1 KiB transient, automatic acknowledgement, one producer, one consumer, saturated.
impl Default for Scenario {
    fn default() -> Self {
        Self {
            mode: Mode::Throughput,
            topology: Topology::default(),
            message: MessageSpec::default(),
            clients: ClientSpec::default(),
            pace: Pace::default(),
            length: Length::default(),
            batch: 64 * 1024,
        }
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            producers: 1,
            consumers: 1,
            queues: 1,
            destination: Destination::Queue,
            bindings: 1,
            idle_queues: 0,
            idle_length: 1000,
            queue: QueueKind::Exclusive,
            queue_name: None,
        }
    }
}

impl Default for MessageSpec {
    fn default() -> Self {
        Self { size: 1024, payload: Payload::Random, tail: None, persistent: false, priority: None }
    }
}

impl Default for ClientSpec {
    fn default() -> Self {
        Self {
            selector: None,
            window: 0,
            prefetch: 0,
            ack_every: 0,
            dups_ok: false,
            poll: false,
            drain: false,
            bystander: false,
            reply: false,
            nodelay: true,
            exactly_once: false,
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate: Rate::Saturate, arrivals: Arrivals::Uniform, in_flight: 50_000 }
    }
}

impl Default for Length {
    fn default() -> Self {
        Self {
            duration: 5.0,
            warmup: 1.0,
            until_steady: false,
            messages: None,
            warmup_messages: 0,
            cap: None,
            patience: 5.0,
        }
    }
}

/// The smallest body that carries a time, bytes.
const SMALLEST_TIMED: usize = 16;
/// The highest number that a counter of six hexadecimal digits can show.
pub const LARGEST_COUNT: u64 = 0x00ff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    /// Records of earlier runs have each field at the top, in this order, and may lack newer ones.
    #[test]
    fn a_scenario_is_written_as_it_was_read() {
        let text = concat!(
            r#"{"mode":"throughput","producers":2,"consumers":1,"queues":1,"destination":"durable-topic","bindings":1,"#,
            r#""idle_queues":0,"idle_length":1000,"queue":"durable","queue_name":"q","size":1024,"payload":"random","#,
            r#""tail":{"messages":3,"size":40},"persistent":true,"priority":4,"selector":10,"window":0,"prefetch":65535,"#,
            r#""ack_every":18446744073709551615,"dups_ok":false,"poll":false,"drain":false,"bystander":false,"reply":false,"#,
            r#""nodelay":true,"rate":{"fixed":2.5},"arrivals":"uniform","in_flight":50000,"duration":5.0,"warmup":1.0,"#,
            r#""until_steady":false,"messages":null,"warmup_messages":0,"cap":null,"patience":5.0,"batch":65536}"#,
        );
        let scenario: Scenario = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&scenario).unwrap(), text);
        assert_eq!(serde_json::from_str::<Scenario>("{}").unwrap(), Scenario::default());
    }

    #[test]
    fn options_with_a_grammar_are_read() {
        assert_eq!("auto".parse::<Ack>().unwrap().every, 0);
        assert_eq!("each".parse::<Ack>().unwrap().every, 1);
        assert_eq!("every:100".parse::<Ack>().unwrap().every, 100);
        assert_eq!("none".parse::<Confirms>().unwrap().window, 0);
        assert_eq!("1000".parse::<Confirms>().unwrap().window, 1000);
        assert_eq!("2.5".parse::<Rate>().unwrap(), Rate::Fixed(2.5));
        assert_eq!("half".parse::<Rate>().unwrap(), Rate::Half);
        for bad in ["", "every:", "every:0", "some", "every:x"] {
            assert!(bad.parse::<Ack>().is_err(), "{bad}");
        }
        for bad in ["0", "-1", "x", "inf", "NaN"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
            assert!(bad.parse::<Confirms>().is_err(), "{bad}");
        }
    }

    #[test]
    fn quotas_add_up_and_a_relay_confirms_by_acknowledging() {
        let scenario = Scenario::default().with(|s| (s.topology.producers, s.length.messages) = (3, Some(11)));
        assert_eq!((0..4).map(|id| if id < 3 { scenario.quota(id) } else { 0 }).sum::<u64>(), 11);
        for preset in [Preset::Sync, Preset::Persistent1k, Preset::Fanout] {
            let relay = preset.scenario().for_relay();
            assert!(
                relay.check().is_ok() && relay.topology.consumers == relay.topology.producers && !relay.copies_all()
            );
            assert_eq!(relay.clients.ack_every > 0, relay.clients.window > 0, "{preset:?}");
        }
    }

    #[test]
    fn receipts_follow_from_sends_by_copies_and_selectors_where_anybody_receives() {
        let fanout = Scenario::default().with(|s| {
            (s.topology.destination, s.topology.consumers, s.topology.queues) = (Destination::Fanout, 10, 10);
        });
        let cases = [
            (Scenario::default(), 1.0),
            (fanout.clone(), 10.0),
            (Scenario::default().with(|s| s.clients.selector = Some(10)), 0.1),
            (fanout.clone().with(|s| s.clients.selector = Some(5)), 2.0),
            // Confirms are the main count then, or sends.
            (fanout.clone().with(|s| (s.topology.consumers, s.clients.selector) = (0, Some(5))), 1.0),
            (fanout.for_relay(), 1.0),
        ];
        for (scenario, expected) in cases {
            assert_eq!(scenario.receipts_per_send(), expected, "{scenario:?}");
        }
    }

    #[test]
    fn a_persistent_message_is_kept_where_a_durable_queue_takes_it() {
        for (destination, persistent, kept) in [
            (Destination::Queue, true, true),
            (Destination::Queue, false, false),
            (Destination::Topic, true, false),
            (Destination::DurableTopic, true, true),
        ] {
            let scenario = Scenario::default().with(|s| {
                s.topology.destination = destination;
                s.message.persistent = persistent;
            });
            let scenario = scenario.with(|s| s.topology.queue = s.natural_kind());
            assert_eq!(scenario.is_kept(), kept, "{destination:?} {persistent}");
        }
    }
}
