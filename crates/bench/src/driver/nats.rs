//! NATS: core, which hands messages to those that listen, and JetStream, which keeps them. A queue
//! is a subject of core, and a stream of JetStream with one consumer, from which messages are
//! pulled. What other brokers have exchanges for, subjects do: a key is a subject, and the patterns
//! of a queue are what its stream takes, or what its consumer subscribes to.

mod asking;
mod codec;
mod talk;

use serde_json::json;

use super::{AckCount, Driver, Line, Notation, Part, first_wanted, special};
use asking::Asking;
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, Mode, Scenario};
use bench_record::target::Target;
use talk::{CONFIRMS, DELIVERIES, NatsTalk, Pull, REPLIES};

/// Scheme of JetStream; the other is core's.
const JETSTREAM: &str = "jetstream";
const SUBJECTS: Notation = Notation { between: '.', any: '*' };
/// Messages that are pulled ahead of their consumer, where nothing else bounds them.
const AHEAD: u64 = 1000;
/// The most bytes of bodies that are pulled ahead: with more than three quarters of its
/// `max_pending` (64 MiB) on the way to a client, the server holds back for milliseconds whatever
/// sends to it.
const AHEAD_BYTES: u64 = 32 << 20;

/// What `scenario` needs and the protocol `scheme` has not.
fn lacks(scheme: &str, scenario: &Scenario) -> Option<&'static str> {
    special(scenario).or_else(|| if scheme == JETSTREAM { stream_lacks(scenario) } else { core_lacks(scenario) })
}

fn core_lacks(scenario: &Scenario) -> Option<&'static str> {
    let kept = scenario.message.persistent
        || scenario.clients.drain
        || scenario.topology.destination == Destination::DurableTopic;
    first_wanted(&[
        (kept, "message that is kept"),
        (scenario.clients.window > 0, "confirm"),
        (scenario.clients.ack_every > 0, "acknowledgement"),
    ])
}

fn stream_lacks(scenario: &Scenario) -> Option<&'static str> {
    let shared = scenario.topology.consumers > scenario.groups();
    let several = scenario.topology.destination == Destination::Spread;
    first_wanted(&[
        (scenario.clients.ack_every > 1 && several, "acknowledgement that covers messages of several queues"),
        (scenario.clients.ack_every > 1 && shared, "cumulative acknowledgement where several consumers share a queue"),
        (scenario.topology.queue_name.is_some(), "queue of another name: streams have names of the run's own"),
    ])
}

fn named(scheme: &str) -> &'static str {
    if scheme == JETSTREAM { "JetStream" } else { "core NATS (use jetstream://)" }
}

/// A server that speaks NATS.
pub(super) struct NatsDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
    control: Option<Asking>,
}

impl NatsDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        match lacks(&target.scheme, &scenario) {
            Some(what) => Err(Failure::lacking(format!("{what} in {}", named(&target.scheme)))),
            None => Ok(Self { target, scenario, run, control: None }),
        }
    }

    fn keeps(&self) -> bool {
        self.target.scheme == JETSTREAM
    }

    /// How many queues carry messages.
    fn queues(&self) -> usize {
        if self.scenario.mode == Mode::Pingpong { 2 } else { self.scenario.topology.queues }
    }

    /// Fan-out is one stream with a consumer for each queue; else each queue is a stream.
    fn stream(&self, queue: usize) -> String {
        let number = if self.scenario.copies_all() { 0 } else { queue };
        format!("hermod-bench_{:08x}_{number}", self.run)
    }

    fn streams(&self) -> Vec<String> {
        let count = if self.scenario.copies_all() { 1 } else { self.queues() };
        (0..count).map(|number| self.stream(number)).collect()
    }

    /// What all subjects of a queue begin with.
    fn place(&self, queue: usize) -> String {
        let number = if self.scenario.copies_all() { 0 } else { queue };
        format!("hermod-bench.{:08x}.{number}", self.run)
    }

    /// Where messages for `queue` are published.
    fn subject(&self, queue: usize) -> String {
        let place = self.place(queue);
        if self.scenario.topology.destination == Destination::Pattern { SUBJECTS.matched(&place) } else { place }
    }

    /// What a queue takes: exactly one of these matches its messages.
    fn filters(&self, queue: usize) -> Vec<String> {
        match self.scenario.topology.destination {
            Destination::Pattern => SUBJECTS.patterns(&self.place(queue), self.scenario.topology.bindings),
            _ => vec![self.subject(queue)],
        }
    }

    /// Where the consumers of producer `id` send their replies.
    fn reply_subject(&self, id: usize) -> String {
        format!("_INBOX.{:08x}.reply.{id}", self.run)
    }

    fn consumer(queue: usize) -> String {
        format!("q{queue}")
    }

    /// In memory every message is removed when its one consumer has acknowledged it. Only where
    /// there is none, or where several are to have it, or where one acknowledgement is for many,
    /// that takes another kind of stream. A stream on disk would force a record of each removal
    /// where the server syncs always, which no scenario asks of an acknowledgement: it keeps what
    /// it has, as is JetStream's default, until it is deleted.
    fn retention(&self) -> &'static str {
        if self.scenario.is_kept() {
            return "limits";
        }
        let each = self.scenario.clients.ack_every == 1 && !self.scenario.copies_all();
        if each || self.scenario.topology.consumers == 0 { "workqueue" } else { "interest" }
    }

    fn make_stream(&self, control: &mut Asking, queue: usize) -> Result<(), Failure> {
        let stream = self.stream(queue);
        // Persistent messages to a topic without durable subscribers are kept by no other broker
        // either.
        let storage = if self.scenario.is_kept() { "file" } else { "memory" };
        let config = json!({
            "name": stream, "subjects": self.filters(queue), "retention": self.retention(), "storage": storage,
            "num_replicas": 1, "discard": "old",
        });
        control.ask(&format!("$JS.API.STREAM.CREATE.{stream}"), &config)?;
        Ok(())
    }

    fn make_consumer(&self, control: &mut Asking, queue: usize) -> Result<(), Failure> {
        let (stream, consumer) = (self.stream(queue), Self::consumer(queue));
        let policy = match self.scenario.clients.ack_every {
            0 => "none",
            1 => "explicit",
            _ => "all",
        };
        let sharers = self.scenario.topology.consumers.div_ceil(self.scenario.groups()) as i64;
        let unsettled =
            if self.scenario.clients.prefetch > 0 { i64::from(self.scenario.clients.prefetch) * sharers } else { -1 };
        let config = json!({
            "stream_name": stream,
            "config": {
                "name": consumer, "durable_name": consumer, "deliver_policy": "all", "ack_policy": policy,
                "max_ack_pending": if policy == "none" { 0 } else { unsettled }, "replay_policy": "instant",
            },
        });
        control.ask(&format!("$JS.API.CONSUMER.CREATE.{stream}.{consumer}"), &config)?;
        Ok(())
    }

    /// Subscribes to what the consumer of `queue` reads, and says how that is asked for, where it
    /// is not pushed.
    fn consume(&self, asking: &mut Asking, queue: usize, inbox: &str) -> Vec<Pull> {
        let queues = self.scenario.queues_of(queue);
        if self.keeps() {
            let pull = |(queue, id)| {
                let messages = format!("{inbox}.m{queue}");
                asking.subscribe(&messages, None, id);
                self.pull(queue, &messages)
            };
            return queues.zip(DELIVERIES..).map(pull).collect();
        }
        let filters = queues.flat_map(|queue| self.filters(queue).into_iter().map(move |filter| (queue, filter)));
        for ((queue, filter), id) in filters.zip(DELIVERIES..) {
            asking.subscribe(&filter, Some(&Self::consumer(queue)), id);
        }
        Vec::new()
    }

    /// How a consumer of `queue` gets its messages.
    fn pull(&self, queue: usize, inbox: &str) -> Pull {
        let ahead = ahead(&self.scenario);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream(queue), Self::consumer(queue));
        Pull::new(subject, inbox.to_owned(), ahead)
    }
}

/// How many messages of a queue are pulled ahead of a consumer.
fn ahead(scenario: &Scenario) -> u64 {
    let ahead = if scenario.clients.prefetch > 0 { u64::from(scenario.clients.prefetch) } else { AHEAD };
    ahead.min(scenario.bodies_within(AHEAD_BYTES / scenario.lanes() as u64))
}

impl Driver for NatsDriver {
    fn prepare(&mut self) -> Result<(), Failure> {
        let mut control = Asking::open(&self.target, &format!("_INBOX.{:08x}", self.run))?;
        control.can_take(self.scenario.message.size)?;
        if self.keeps() {
            for queue in 0..self.streams().len() {
                self.make_stream(&mut control, queue)?;
            }
            let consumed = self.scenario.topology.consumers > 0 || self.scenario.mode == Mode::Pingpong;
            for queue in 0..if consumed { self.queues() } else { 0 } {
                self.make_consumer(&mut control, queue)?;
            }
        }
        self.control = Some(control);
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (name, publish, consume) = match part {
            Part::Produce(id) => (format!("p{id}"), Some(id % self.scenario.topology.queues), None),
            Part::Consume(id) => (format!("c{id}"), None, Some(id % self.scenario.topology.queues)),
            Part::PingPong { far } => (format!("e{}", u8::from(far)), Some(usize::from(far)), Some(usize::from(!far))),
        };
        let inbox = format!("_INBOX.{:08x}.{name}", self.run);
        let mut asking = Asking::open(&self.target, &inbox)?;
        let confirms = publish.is_some() && self.scenario.clients.window > 0;
        if confirms {
            asking.subscribe(&format!("{inbox}.c.*"), None, CONFIRMS);
        }
        let written = publish.into_iter().flat_map(|queue| self.scenario.queues_of(queue));
        let mut subjects: Vec<String> = written.map(|queue| self.subject(queue)).collect();
        match part {
            Part::Produce(id) if self.scenario.clients.reply => {
                asking.subscribe(&self.reply_subject(id), None, REPLIES)
            }
            Part::Consume(id) if self.scenario.clients.reply => {
                subjects.push(self.reply_subject(id % self.scenario.topology.producers))
            }
            _ => {}
        }
        let pulls = consume.map_or_else(Vec::new, |queue| self.consume(&mut asking, queue, &inbox));
        asking.settle()?;
        let (link, output) = asking.into_parts();
        link.set_delay(&self.scenario)?;
        let acks = AckCount::new(if self.keeps() { self.scenario.clients.ack_every } else { 0 });
        let mut talk = NatsTalk::new(output, subjects, confirms.then(|| format!("{inbox}.c.")), acks, pulls);
        talk.begin();
        Ok(Line { link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        let (keeps, streams) = (self.keeps(), self.streams());
        let Some(control) = self.control.as_mut().filter(|_| keeps) else { return Ok(None) };
        let mut held = 0;
        for stream in &streams {
            let said = control.ask(&format!("$JS.API.STREAM.INFO.{stream}"), &json!({}))?;
            held += said["state"]["messages"]
                .as_u64()
                .ok_or_else(|| Failure::new("the state of a stream has no number of messages"))?;
        }
        Ok(Some(held))
    }

    fn clean(&mut self) -> Result<(), Failure> {
        let (keeps, streams) = (self.keeps(), self.streams());
        // Without a control connection nothing was made.
        let Some(control) = self.control.as_mut().filter(|_| keeps) else { return Ok(()) };
        for stream in &streams {
            control.ask(&format!("$JS.API.STREAM.DELETE.{stream}"), &json!({})).context(stream)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::preset::Preset;

    #[test]
    fn no_more_is_pulled_ahead_than_the_server_sends_without_holding_back() {
        let cases = [(0, 0, 1000), (0, 10, 10), (400_000, 1000, 83), (400_000, 10, 10), (64 << 20, 0, 1)];
        for (size, prefetch, expected) in cases {
            assert_eq!(
                ahead(&Scenario::default().with(|s| {
                    s.message.size = size;
                    s.clients.prefetch = prefetch;
                })),
                expected,
                "{size} B, {prefetch}"
            );
        }
    }

    #[test]
    fn patterns_are_the_subjects_of_a_stream_and_one_of_them_matches() {
        let target: Target = "jetstream://127.0.0.1:1".parse().unwrap();
        let scenario = Scenario::default().with(|s| {
            (s.topology.destination, s.topology.bindings) = (Destination::Pattern, 3);
        });
        let driver = NatsDriver::new(target, scenario, 1).unwrap();
        let place = "hermod-bench.00000001.0";
        assert_eq!(driver.filters(0), ["other.1.*", "other.2.*", "*"].map(|rest| format!("{place}.{rest}")));
        assert_eq!(driver.subject(0), format!("{place}.message"));
    }

    #[test]
    fn what_is_lacking_is_said_before_anybody_connects() {
        let cases = [
            ("nats", Preset::Transient64, None),
            ("nats", Preset::Pingpong, None),
            ("nats", Preset::Persistent1k, Some("message that is kept")),
            ("nats", Preset::Fanout, Some("bound on a queue that nobody consumes")),
            ("jetstream", Preset::Persistent1k, None),
            ("jetstream", Preset::Sync, None),
            ("jetstream", Preset::Pingpong, None),
        ];
        for (scheme, preset, expected) in cases {
            assert_eq!(lacks(scheme, &preset.scenario()), expected, "{scheme} {preset:?}");
        }
        let shared = Preset::Persistent1k.scenario().with(|s| (s.topology.consumers, s.clients.ack_every) = (2, 10));
        assert!(lacks("jetstream", &shared).is_some_and(|lack| lack.contains("cumulative")));
        // An acknowledgement is for one stream: those of the others would never come.
        let spread = |ack_every| {
            let base = Preset::Persistent1k.scenario();
            lacks(
                "jetstream",
                &base.with(|s| {
                    (s.topology.destination, s.topology.queues) = (Destination::Spread, 4);
                    s.clients.ack_every = ack_every;
                }),
            )
        };
        assert_eq!(spread(1), None);
        assert!(spread(10).is_some_and(|lack| lack.contains("several queues")));
    }
}
