//! Kafka: a queue is a topic of one partition, which its one consumer reads by itself, without a
//! group that shares partitions out. Confirms are those of all replicas, message batch by message
//! batch; an acknowledgement is a committed offset. Every message is kept, whether that is asked
//! for or not.

mod asking;
mod batch;
mod codec;
mod talk;

use super::{AckCount, Driver, Line, Part, first_wanted, special};
use asking::Asking;
use batch::{HEAD, RECORD};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, Mode, Scenario};
use bench_record::target::Target;
use codec::End;
use talk::{Consuming, KafkaTalk, Publishing};

/// The largest batch that brokers take unless they are told otherwise.
const USUAL_BATCH: usize = 1_048_588;
/// The largest body: brokers take requests of 100 MiB.
const LARGEST_BODY: usize = 100 * 1024 * 1024 - 1024;
/// Bytes of a Fetch where no prefetch bounds it, and most bytes of any: what Kafka's own clients
/// ask for.
const USUAL_FETCH: usize = 1024 * 1024;
const LARGEST_FETCH: usize = 50 * 1024 * 1024;

/// What `scenario` needs and there is not: in Kafka, or in this driver for it.
fn lacks(scenario: &Scenario) -> Option<String> {
    let queues = if scenario.mode == Mode::Throughput { scenario.topology.queues } else { scenario.topology.consumers };
    let of_kafka = special(scenario).or_else(|| {
        first_wanted(&[
            (scenario.topology.destination == Destination::Pattern, "pattern that routes a message"),
            (scenario.message.size > LARGEST_BODY, "message of more than 100 MiB, its default bound,"),
        ])
    });
    let of_driver = first_wanted(&[
        (scenario.topology.destination == Destination::Spread, "connection that serves several queues"),
        (scenario.mode == Mode::Exchange, "stock exchange"),
        (scenario.clients.reply, "reply from a consumer"),
        (scenario.topology.consumers > queues, "queue that several consumers share"),
    ]);
    of_kafka
        .map(|what| format!("{what} in Kafka"))
        .or_else(|| of_driver.map(|what| format!("{what} in this program's driver for Kafka")))
}

/// A broker that speaks Kafka's protocol, by itself.
pub(super) struct KafkaDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
    /// Topics may be there.
    made: bool,
}

impl KafkaDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        match lacks(&scenario) {
            Some(what) => Err(Failure::lacking(what)),
            None => Ok(Self { target, scenario, run, made: false }),
        }
    }

    /// A connection for questions. None is kept for them: a broker closes what is idle for minutes.
    fn ask(&self) -> Result<Asking, Failure> {
        Asking::open(&self.target.address)
    }

    /// Fan-out is one topic that each consumer reads; else each queue is a topic.
    fn topics(&self) -> Vec<String> {
        let count = match self.scenario.mode {
            Mode::Pingpong => 2,
            _ if self.scenario.copies_all() => 1,
            _ => self.scenario.topology.queues,
        };
        (0..count).map(|number| self.topic(number)).collect()
    }

    fn topic(&self, queue: usize) -> String {
        let number = if self.scenario.copies_all() { 0 } else { queue };
        self.scenario.topology.queue_name.clone().unwrap_or_else(|| format!("hermod-bench-{:08x}-{number}", self.run))
    }

    /// Whose offset the consumer of `queue` commits.
    fn group(&self, queue: usize) -> String {
        format!("hermod-bench-{:08x}-{queue}", self.run)
    }

    /// The largest batch that a producer may send.
    fn largest_batch(&self) -> usize {
        USUAL_BATCH.max(self.scenario.batch).max(HEAD + RECORD + self.scenario.message.size)
    }

    /// A prefetch bounds the messages of a batch, too: a broker gives one in any case.
    fn publishing(&self, queue: usize) -> Publishing {
        let prefetch = u32::from(self.scenario.clients.prefetch);
        Publishing {
            topic: self.topic(queue),
            confirms: self.scenario.clients.window > 0,
            most_bytes: self.scenario.batch,
            most_messages: if prefetch > 0 { prefetch } else { u32::MAX },
        }
    }

    /// Bytes are all that bounds a Fetch: those of as many messages as the prefetch allows.
    fn most_fetched(&self) -> u32 {
        let bytes = match usize::from(self.scenario.clients.prefetch) {
            0 => USUAL_FETCH,
            prefetch => prefetch.saturating_mul(self.scenario.message.size + RECORD),
        };
        bytes.min(LARGEST_FETCH) as u32
    }
}

impl Driver for KafkaDriver {
    fn prepare(&mut self) -> Result<(), Failure> {
        let mut asking = self.ask()?;
        self.made = true;
        asking.create(&self.topics(), self.largest_batch())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let queues = self.scenario.topology.queues;
        let (publish, consume) = match part {
            Part::Produce(id) => (Some(id % queues), None),
            Part::Consume(id) => (None, Some(id % queues)),
            Part::PingPong { far } => (Some(usize::from(far)), Some(usize::from(!far))),
        };
        let mut asking = self.ask()?;
        let mut consuming = None;
        if let Some(queue) = consume {
            let (topic, group) = (self.topic(queue), self.group(queue));
            let oldest = asking.offsets(std::slice::from_ref(&topic), End::Earliest).context(&topic)?;
            let next = oldest.first().copied().unwrap_or(0);
            if self.scenario.clients.ack_every > 0 {
                asking.until_it_commits(&group, &topic, next)?;
            }
            let (acks, most_bytes) = (AckCount::new(self.scenario.clients.ack_every), self.most_fetched());
            consuming = Some(Consuming { topic, group, acks, most_bytes, next });
        }
        let link = asking.into_link();
        link.set_delay(&self.scenario)?;
        let mut talk = KafkaTalk::new(publish.map(|queue| self.publishing(queue)), consuming);
        if consume.is_some() {
            if part == (Part::PingPong { far: false }) {
                talk.fetch_after_publish();
            } else {
                talk.fetch_now();
            }
        }
        Ok(Line { link, talk: Box::new(talk) })
    }

    /// What is acknowledged stays in a topic; it is asked for only where there is no consumer.
    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        let (topics, mut asking) = (self.topics(), self.ask()?);
        let (oldest, next) = (asking.offsets(&topics, End::Earliest)?, asking.offsets(&topics, End::Latest)?);
        Ok(Some(next.iter().zip(&oldest).map(|(next, oldest)| next.abs_diff(*oldest)).sum()))
    }

    /// Offsets that were committed go with their topics.
    fn clean(&mut self) -> Result<(), Failure> {
        if self.made { self.ask()?.delete(&self.topics()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::preset::Preset;
    use bench_record::scenario::Destination;

    fn driver(scenario: Scenario) -> KafkaDriver {
        KafkaDriver::new("kafka://127.0.0.1".parse().unwrap(), scenario, 0xab).unwrap()
    }

    #[test]
    fn what_is_lacking_is_said_before_anybody_connects() {
        let persistent = Preset::Persistent1k.scenario();
        let fanout = Scenario::default().with(|s| {
            (s.topology.destination, s.topology.queues, s.topology.consumers) = (Destination::Fanout, 3, 3);
        });
        let cases = [
            (Preset::Transient64.scenario(), None),
            (persistent.clone(), None),
            (Preset::Pingpong.scenario(), None),
            (Preset::Sync.scenario(), None),
            (fanout, None),
            (
                persistent.clone().with(|s| {
                    (s.topology.producers, s.topology.queues, s.topology.consumers) = (2, 2, 2);
                }),
                None,
            ),
            (Preset::Fanout.scenario(), Some("bound on a queue that nobody consumes in Kafka")),
            (persistent.clone().with(|s| s.message.priority = Some(4)), Some("priority of a message in Kafka")),
            (persistent.clone().with(|s| s.clients.selector = Some(2)), Some("selector in Kafka")),
            (
                persistent.clone().with(|s| s.clients.reply = true),
                Some("reply from a consumer in this program's driver for Kafka"),
            ),
            (
                persistent.clone().with(|s| s.topology.destination = Destination::Pattern),
                Some("pattern that routes a message in Kafka"),
            ),
            (
                persistent.clone().with(|s| s.topology.consumers = 2),
                Some("queue that several consumers share in this program's driver for Kafka"),
            ),
            (
                persistent.with(|s| s.message.size = 120 << 20),
                Some("message of more than 100 MiB, its default bound, in Kafka"),
            ),
        ];
        for (scenario, expected) in cases {
            assert_eq!(lacks(&scenario).as_deref(), expected);
        }
    }

    #[test]
    fn each_queue_is_a_topic_and_copies_share_one() {
        let two = driver(Scenario::default().with(|s| {
            (s.topology.producers, s.topology.queues, s.topology.consumers) = (2, 2, 2);
        }));
        assert_eq!(two.topics(), ["hermod-bench-000000ab-0", "hermod-bench-000000ab-1"]);
        let copies = driver(Scenario::default().with(|s| {
            (s.topology.destination, s.topology.queues, s.topology.consumers) = (Destination::Topic, 2, 2);
        }));
        assert_eq!(copies.topics(), ["hermod-bench-000000ab-0"]);
        assert_ne!(copies.group(0), copies.group(1));
        assert_eq!(driver(Preset::Pingpong.scenario()).topics().len(), 2);
        let named = driver(Scenario::default().with(|s| s.topology.queue_name = Some("own".to_owned())));
        assert_eq!(named.topics(), ["own"]);
    }

    #[test]
    fn a_prefetch_bounds_batches_and_the_bytes_that_are_asked_for() {
        let of = |prefetch, size| {
            driver(Scenario::default().with(|s| {
                s.clients.prefetch = prefetch;
                s.message.size = size;
            }))
        };
        let bounds = |driver: KafkaDriver| (driver.publishing(0).most_messages, driver.most_fetched());
        assert_eq!(bounds(of(0, 1024)), (u32::MAX, 1024 * 1024));
        assert_eq!(bounds(of(10, 1024)), (10, 10 * 1040));
        assert_eq!(bounds(of(1000, 1 << 20)), (1000, 50 << 20));
        assert_eq!(of(0, 8 << 20).largest_batch(), (8 << 20) + 77);
        assert_eq!(of(0, 16).largest_batch(), 1_048_588);
    }
}
