//! What is done to a broker: how many connections, which messages, which promises, how fast and for
//! how long.

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

/// One kind of run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// The kind of load.
    pub mode: Mode,
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
    /// How fast producers send.
    pub rate: Rate,
    /// How the intended times of an open loop are spread.
    pub arrivals: Arrivals,
    /// Closed loop: most messages sent and not yet received, over all producers; 0: no bound.
    pub in_flight: u64,
    /// Measured seconds.
    pub duration: f64,
    /// Seconds before that which are not measured.
    pub warmup: f64,
    /// Those are the most: the warm-up ends as soon as the rate is steady.
    #[serde(default)]
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
    /// A producer gathers at most this many bytes into one write; 1: every message by itself.
    pub batch: usize,
}

impl Scenario {
    /// True when each queue gets a copy of each message.
    pub fn copies_all(&self) -> bool {
        matches!(self.destination, Destination::Fanout) || self.is_topic()
    }

    /// True when what is received is not acknowledged, or as little as the protocol or the client
    /// allows.
    pub fn acks_nothing(&self) -> bool {
        self.ack_every == 0 && !self.dups_ok
    }

    /// True when each consumer has a subscription instead of a share of a queue.
    pub fn is_topic(&self) -> bool {
        matches!(self.destination, Destination::Topic | Destination::DurableTopic)
    }

    /// True when a confirm stands for a message that outlives the broker: a persistent one, where a
    /// durable queue takes it. A topic whose subscriptions end with their consumers keeps nothing.
    pub fn is_kept(&self) -> bool {
        self.persistent && self.queue == QueueKind::Durable
    }

    /// How often each message that is selected is received.
    pub fn copies(&self) -> u64 {
        match (self.consumers, self.copies_all()) {
            (0, _) => 0,
            (_, true) => self.queues as u64,
            _ => 1,
        }
    }

    /// The count that a slice is about: received, or confirmed (sent, without confirms) where
    /// there is no consumer.
    pub fn main_count(&self, totals: &Totals) -> u64 {
        match (self.copies(), self.window) {
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
        let smallest = self.tail.map_or(self.size, |tail| tail.size.min(self.size));
        if self.payload == Payload::Counter { Check::Counter } else { Check::of(smallest) }
    }

    /// How many messages have bodies of `bytes` in all, at least one.
    pub fn bodies_within(&self, bytes: u64) -> u64 {
        (bytes / (self.size as u64).max(1)).max(1)
    }

    /// One of this many messages is selected.
    pub fn selects(&self) -> u64 {
        self.selector.unwrap_or(1)
    }

    /// How many groups of consumers there are that share messages: each queue has one, or all
    /// queues together.
    pub fn groups(&self) -> usize {
        if self.destination == Destination::Spread { 1 } else { self.queues }
    }

    /// The queues of a part whose own is `queue`: where all write and read all, all of them.
    pub fn queues_of(&self, queue: usize) -> Range<usize> {
        if self.destination == Destination::Spread { 0..self.queues } else { queue..queue + 1 }
    }

    /// Queues in which the messages of one producer are in order by themselves.
    pub fn lanes(&self) -> usize {
        if self.destination == Destination::Spread { self.queues } else { 1 }
    }

    /// How many messages producer `id` may send.
    pub fn quota(&self, id: usize) -> u64 {
        self.messages.map_or(u64::MAX, |all| self.share(all + self.warmup_messages, id))
    }

    /// How many messages producer `id` sends before anything is measured, where that is a number.
    pub fn warmup_quota(&self, id: usize) -> u64 {
        self.share(self.warmup_messages, id)
    }

    fn share(&self, all: u64, id: usize) -> u64 {
        let producers = self.producers as u64;
        all / producers + u64::from((id as u64) < all % producers)
    }

    /// The kind of queue that fits where none was chosen: durable where messages are, and where
    /// several consumers share one or there is none.
    pub fn natural_kind(&self) -> QueueKind {
        match self.destination {
            Destination::Topic => return QueueKind::Exclusive,
            Destination::DurableTopic | Destination::Spread => return QueueKind::Durable,
            _ => {}
        }
        if self.mode == Mode::Exchange {
            return QueueKind::Exclusive;
        }
        let shared = self.mode == Mode::Throughput && self.consumers != self.queues;
        if self.persistent || shared || self.drain { QueueKind::Durable } else { QueueKind::Exclusive }
    }

    /// The nearest thing that a relay can do: pairs of one producer and one consumer, both at work.
    /// Where there are confirms, the consumer's acknowledgements pass through the relay and are the
    /// producer's confirms.
    pub fn for_relay(&self) -> Self {
        let ack_every = if self.window > 0 { self.ack_every.clamp(1, self.window) } else { 0 };
        // Orders go one way through a relay: no engine could match them.
        let (mode, size) = match self.mode {
            Mode::Exchange => (Mode::Throughput, SMALLEST_TIMED),
            mode => (mode, self.size),
        };
        Self {
            mode,
            size,
            consumers: self.producers,
            queues: self.producers,
            ack_every,
            destination: Destination::Queue,
            bindings: 1,
            idle_queues: 0,
            persistent: false,
            queue: QueueKind::Transient,
            selector: None,
            tail: None,
            poll: false,
            drain: false,
            bystander: false,
            reply: false,
            ..self.clone()
        }
    }

    /// Says what can't be done.
    pub fn check(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.queues == 0 || self.producers == 0 {
            return refuse("at least one producer and one queue are needed");
        }
        if self.producers > usize::from(u16::MAX) {
            return refuse("at most 65535 producers");
        }
        let unread = self.is_topic() && self.consumers == 0;
        let own = self.consumers == self.queues || unread || self.mode != Mode::Throughput;
        if self.queue == QueueKind::Exclusive && !own {
            return refuse("exclusive queues need exactly one consumer each; use --queue durable");
        }
        if self.consumers > 0 && self.consumers < self.queues && self.destination != Destination::Spread {
            return refuse(
                "a queue without a consumer would never be emptied; use as many consumers as queues, or none, or --idle-queues",
            );
        }
        let each = !self.copies_all() && self.destination != Destination::Spread && self.mode == Mode::Throughput;
        if each && self.producers < self.queues {
            return refuse("producer i sends to queue i modulo queues: queues without a producer measure nothing");
        }
        if self.idle_queues > 0 && self.destination != Destination::Fanout {
            return refuse("--idle-queues needs --fanout: only then do they match");
        }
        if self.queue_name.is_some()
            && (self.queues != 1 || self.destination != Destination::Queue || self.mode == Mode::Pingpong)
        {
            return refuse("a queue can be named where there is one only");
        }
        if self.mode == Mode::Pingpong && self.rate != Rate::Saturate {
            return refuse("ping-pong has no rate: one message is under way at a time");
        }
        if self.duration <= 0.0 || self.warmup < 0.0 || !(self.duration + self.warmup).is_finite() {
            return refuse("--duration must be more than 0 seconds and --warmup not less than 0");
        }
        if !(self.patience > 0.0 && self.patience.is_finite()) {
            return refuse("--patience must be more than 0 seconds");
        }
        if self.batch == 0 || self.size > LARGEST_BODY || self.messages == Some(0) {
            return refuse("--batch and --messages must be at least 1, --size at most 134217728");
        }
        self.check_places()?;
        self.check_steps()
    }

    /// Says what can't be done with this destination and these bodies.
    fn check_places(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.is_topic() && self.consumers.max(1) != self.queues {
            return refuse("each consumer of a topic has a subscription of its own: give as many queues as consumers");
        }
        if self.is_topic() && self.consumers > 0 && self.queue != self.natural_kind() {
            return refuse("subscriptions of a topic are exclusive queues, those of a durable one durable queues");
        }
        if self.destination == Destination::Spread && self.queue == QueueKind::Exclusive {
            return refuse("exclusive queues belong to one consumer, and here all read all; use --queue durable");
        }
        if self.bindings == 0 || (self.bindings > 1 && self.destination != Destination::Pattern) {
            return refuse("at least one binding is needed, and more than one with --destination pattern only");
        }
        if self.payload == Payload::Counter && (self.producers > 1 || self.size < COUNTER_DIGITS) {
            return refuse("a counter is one producer's, and its bodies have at least 6 bytes");
        }
        if self.payload == Payload::Counter && self.quota(0) > LARGEST_COUNT {
            return refuse("a counter has six hexadecimal digits: at most 16777215 messages, warm-up included");
        }
        if self.selects() == 0 || (self.selects() > 1 && self.destination == Destination::Spread) {
            return refuse("a selector takes one of at least 1 messages, and can't leave any out of several queues");
        }
        let short = |tail: Tail| (SMALLEST_TAIL..=self.size).contains(&tail.size) && self.producers == 1;
        if self.tail.is_some_and(|tail| !short(tail) || self.payload == Payload::Counter) {
            return refuse(
                "the last messages of one producer may be shorter than the others; no counters, at least 40 bytes",
            );
        }
        Ok(())
    }

    /// Says what the stock exchange can't do.
    fn check_exchange(&self) -> Result<(), Failure> {
        let fixed = matches!(self.rate, Rate::Fixed(_));
        let parts = (self.producers, self.consumers, self.queues) == (1, EXCHANGE_QUEUES, EXCHANGE_QUEUES);
        let orders = self.messages.is_some_and(|orders| u32::try_from(orders).is_ok());
        if fixed && parts && orders && self.window == 0 && self.ack_every == 0 && self.warmup_messages == 0 {
            return Ok(());
        }
        Err(Failure::new("the stock exchange has a rate, a number of orders, three queues, and confirms nothing"))
    }

    /// Says what can't be done in this order.
    fn check_steps(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::new(text));
        if self.mode == Mode::Pingpong && (self.drain || self.poll || self.reply || self.selector.is_some()) {
            return refuse("ping-pong is one message there and back, and nothing else");
        }
        if self.mode == Mode::Exchange {
            return self.check_exchange();
        }
        if self.drain && (self.messages.is_none() || self.consumers == 0 || self.is_topic()) {
            return refuse("a drain needs --messages, consumers, and queues that keep what they get");
        }
        if self.drain && (self.queue == QueueKind::Exclusive || self.reply || self.selects() > 1) {
            return refuse("a drain needs shared queues, no replies, and consumers that take all");
        }
        if self.drain && self.rate != Rate::Saturate {
            return refuse(
                "a drain has no --rate: the queue is full before it is measured, and its consumers take what they can",
            );
        }
        if self.bystander && self.consumers > 0 {
            return refuse("bystanders are for queues that nobody consumes");
        }
        if self.reply && (self.messages.is_none() || self.consumers != self.queues || self.selects() > 1) {
            return refuse("replies need --messages and one consumer for each queue that takes all");
        }
        if self.reply && self.destination == Destination::Spread {
            return refuse("replies need one queue for each consumer");
        }
        if (self.warmup_messages > 0 || self.tail.is_some()) && self.messages.is_none() {
            return refuse("messages before or behind the others need --messages");
        }
        if self.cap.is_some_and(|cap| !(cap > 0.0 && cap.is_finite())) {
            return refuse("--cap must be more than 0 seconds");
        }
        Ok(())
    }
}

/// Bytes of a counter.
const COUNTER_DIGITS: usize = 6;
/// The smallest body that carries a time, bytes.
const SMALLEST_TIMED: usize = 16;
/// The shortest last messages, bytes: what a full stamp needs.
const SMALLEST_TAIL: usize = 40;
/// The highest number that such a counter can show.
pub const LARGEST_COUNT: u64 = 0x00ff_ffff;

/// Largest body, in bytes.
const LARGEST_BODY: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

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
        let scenario = Scenario { producers: 3, messages: Some(11), ..Scenario::default() };
        assert_eq!((0..4).map(|id| if id < 3 { scenario.quota(id) } else { 0 }).sum::<u64>(), 11);
        for preset in [Preset::Sync, Preset::Persistent1k, Preset::Fanout] {
            let relay = preset.scenario().for_relay();
            assert!(relay.check().is_ok() && relay.consumers == relay.producers && !relay.copies_all());
            assert_eq!(relay.ack_every > 0, relay.window > 0, "{preset:?}");
        }
    }

    #[test]
    fn receipts_follow_from_sends_by_copies_and_selectors_where_anybody_receives() {
        let fanout = Scenario { destination: Destination::Fanout, consumers: 10, queues: 10, ..Scenario::default() };
        let cases = [
            (Scenario::default(), 1.0),
            (fanout.clone(), 10.0),
            (Scenario { selector: Some(10), ..Scenario::default() }, 0.1),
            (Scenario { selector: Some(5), ..fanout.clone() }, 2.0),
            // Confirms are the main count then, or sends.
            (Scenario { consumers: 0, selector: Some(5), ..fanout.clone() }, 1.0),
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
            let scenario = Scenario { destination, persistent, ..Scenario::default() };
            let scenario = Scenario { queue: scenario.natural_kind(), ..scenario };
            assert_eq!(scenario.is_kept(), kept, "{destination:?} {persistent}");
        }
    }

    /// What the refusal says, and what leads to it.
    type Case = (&'static str, fn(&mut Scenario));

    #[test]
    fn what_can_not_be_done_is_refused() {
        let base = Preset::Transient64.scenario();
        assert!(base.check().is_ok());
        let cases: &[Case] = &[
            ("at least one producer", |s| s.producers = 0),
            ("exactly one consumer", |s| s.consumers = 2),
            ("never be emptied", |s| (s.queue, s.producers, s.queues) = (QueueKind::Durable, 2, 2)),
            ("without a producer", |s| (s.queue, s.consumers, s.queues) = (QueueKind::Durable, 2, 2)),
            ("needs --fanout", |s| s.idle_queues = 1),
            ("as many queues", |s| {
                (s.destination, s.queue, s.consumers) = (Destination::DurableTopic, QueueKind::Durable, 2)
            }),
            ("of a durable one", |s| s.destination = Destination::DurableTopic),
            ("all read all", |s| s.destination = Destination::Spread),
            ("at least one binding", |s| s.bindings = 2),
            ("one producer's", |s| (s.payload, s.size) = (Payload::Counter, 5)),
            ("16777215", |s| (s.payload, s.messages) = (Payload::Counter, Some(16_777_216))),
            ("out of several queues", |s| s.selector = Some(0)),
            ("no counters", |s| (s.tail, s.messages) = (Some(Tail { messages: 1, size: 2000 }), Some(5))),
            ("nothing else", |s| (s.mode, s.drain) = (Mode::Pingpong, true)),
            ("keep what they get", |s| s.drain = true),
            ("shared queues", |s| (s.drain, s.messages) = (true, Some(1))),
            ("a drain has no --rate", |s| {
                (s.drain, s.messages, s.queue, s.rate) = (true, Some(1), QueueKind::Durable, Rate::Fixed(5.0));
            }),
            ("nobody consumes", |s| s.bystander = true),
            ("replies need --messages", |s| s.reply = true),
            ("need --messages", |s| s.warmup_messages = 1),
            ("--cap", |s| s.cap = Some(0.0)),
            ("where there is one only", |s| (s.mode, s.queue_name) = (Mode::Pingpong, Some("q".to_owned()))),
            ("has no rate", |s| (s.mode, s.rate) = (Mode::Pingpong, Rate::Half)),
            ("--duration", |s| s.duration = 0.0),
            ("--batch", |s| s.batch = 0),
        ];
        for (part, change) in cases {
            let mut scenario = base.clone();
            change(&mut scenario);
            let failure = scenario.check().unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
