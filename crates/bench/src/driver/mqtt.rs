//! MQTT 3.1.1 and 5.0: a queue is a topic with one subscription, or one that is shared. What other
//! brokers have exchanges for, topics do: a key is a topic, and the patterns of a queue are what
//! its consumer subscribes to. Confirms and acknowledgements are those of QoS 1, message by
//! message, or those of QoS 2 for what has to come exactly once. What is to outlast a connection is
//! kept by the broker in the session of its consumer.

pub(crate) mod session;
mod talk;

use mqtt::codec::{Connect, Packet, PropertyBlock, PropertyId, QoS, Version, decode};

use super::link::Link;
use super::{Driver, Line, Notation, Part, first_wanted, special};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Destination, QueueKind, Scenario};
use bench_record::target::Target;
use session::{Session, version_of};
use talk::MqttTalk;

/// Scheme of version 5; `mqtt` is 3.1.1.
const MQTT5: &str = "mqtt5";
const TOPICS: Notation = Notation { between: '/', any: '+' };
/// Message numbers have 16 bits, without 0.
const IDS: u64 = 65_535;
/// A session that outlives its connection.
const NEVER: u32 = u32::MAX;

/// What is whole at the front of `input`, and its length.
fn packet(input: &[u8], version: Version) -> Result<Option<(Packet<'_>, usize)>, Failure> {
    decode(input, version, u32::MAX).context("a packet from the broker; does it speak MQTT?")
}

/// What `scenario` needs and the protocol `scheme` has not.
fn lacks(scheme: &str, scenario: &Scenario) -> Option<&'static str> {
    let v3 = scheme != MQTT5;
    special(scenario).or_else(|| {
        first_wanted(&[
            (scenario.clients.drain, "queue in MQTT that is filled before its consumer comes"),
            (scenario.clients.ack_every > 1, "cumulative acknowledgement in MQTT"),
            (scenario.clients.window > IDS, "window of more than 65 535 messages in MQTT"),
            (v3 && scenario.clients.prefetch > 0, "prefetch in MQTT 3.1.1 (use mqtt5://)"),
            (
                v3 && scenario.topology.consumers > scenario.groups(),
                "queue with several consumers in MQTT 3.1.1 (use mqtt5://)",
            ),
        ])
    })
}

/// A broker that speaks MQTT.
pub(super) struct MqttDriver {
    target: Target,
    scenario: Scenario,
    run: u32,
    version: Version,
    /// Clients whose sessions outlast their connections.
    kept: Vec<String>,
    /// Connections so far.
    opened: usize,
}

impl MqttDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        if let Some(what) = lacks(&target.scheme, &scenario) {
            return Err(Failure::lacking(what));
        }
        let version = version_of(&target.scheme);
        Ok(Self { target, scenario, run, version, kept: Vec::new(), opened: 0 })
    }

    /// What all topics of a queue begin with.
    fn place(&self, queue: usize) -> String {
        let queue = if self.scenario.copies_all() { 0 } else { queue };
        self.scenario.topology.queue_name.clone().unwrap_or_else(|| format!("hermod-bench/{:08x}/{queue}", self.run))
    }

    /// Where messages for `queue` are published.
    fn topic(&self, queue: usize) -> String {
        let place = self.place(queue);
        if self.scenario.topology.destination == Destination::Pattern { TOPICS.matched(&place) } else { place }
    }

    /// What a consumer of `queue` subscribes to: exactly one of these matches its messages.
    fn filters(&self, queue: usize) -> Vec<String> {
        let filters = match self.scenario.topology.destination {
            Destination::Pattern => TOPICS.patterns(&self.place(queue), self.scenario.topology.bindings),
            _ => vec![self.topic(queue)],
        };
        let shared = self.scenario.topology.consumers > self.scenario.groups();
        let share = |filter: String| if shared { format!("$share/q{queue}/{filter}") } else { filter };
        filters.into_iter().map(share).collect()
    }

    /// Where the consumers of producer `id` send their replies.
    fn reply_topic(&self, id: usize) -> String {
        format!("hermod-bench/{:08x}/reply/{id}", self.run)
    }

    fn client(&self, part: &str) -> String {
        format!("hermod-bench-{:08x}-{part}", self.run)
    }

    /// The quality of messages that are confirmed or acknowledged.
    fn confirmed(&self) -> QoS {
        if self.scenario.clients.exactly_once { QoS::ExactlyOnce } else { QoS::AtLeastOnce }
    }

    fn is_durable(&self) -> bool {
        self.scenario.topology.queue == QueueKind::Durable
    }

    /// Connects as `part` with a session that begins afresh.
    fn connect(&self, part: &str, expiry: Expiry) -> Result<Session, Failure> {
        let client = self.client(part);
        let mut properties = PropertyBlock::default();
        if self.version == Version::V5 {
            if expiry == Expiry::Never {
                properties.number(PropertyId::SessionExpiry, NEVER);
            }
            if self.scenario.clients.prefetch > 0 {
                properties.number(PropertyId::ReceiveMaximum, self.scenario.clients.prefetch.into());
            }
        }
        let connect = Connect {
            version: self.version,
            // A session of MQTT 3 that begins afresh ends with its connection.
            clean_start: self.version == Version::V5 || expiry == Expiry::AtEnd,
            properties: properties.as_properties(),
            client_id: &client,
            user: Some(&self.target.user),
            password: Some(self.target.password.as_bytes()),
            ..Connect::default()
        };
        let (session, takes) = Session::open(Link::open(&self.target.address)?, connect)?;
        if self.scenario.clients.window > u64::from(takes) {
            return Err(Failure::new(format!(
                "the broker takes at most {takes} unconfirmed messages of a client: --window {takes}, or raise its receive maximum"
            )));
        }
        Ok(session)
    }

    /// Subscribes to `queue`.
    fn consume(&self, session: &mut Session, queue: usize) -> Result<(), Failure> {
        // What is published with QoS 1 before there is a subscriber has to wait with QoS 1.
        let lossless = self.scenario.clients.ack_every > 0 || self.scenario.topology.consumers == 0;
        let qos = if lossless { self.confirmed() } else { QoS::AtMostOnce };
        self.filters(queue).iter().try_for_each(|filter| session.subscribe(filter, qos))
    }
}

impl Driver for MqttDriver {
    /// Where there is no consumer, a session that is not connected stands for each queue.
    fn prepare(&mut self) -> Result<(), Failure> {
        let absent =
            if self.scenario.topology.consumers == 0 && self.is_durable() { self.scenario.topology.queues } else { 0 };
        for queue in 0..absent {
            let part = format!("q{queue}");
            let mut session = self.connect(&part, Expiry::Never)?;
            self.kept.push(part);
            self.consume(&mut session, queue)?;
            session.end()?;
        }
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (name, publish, consume) = match part {
            Part::Produce(id) => (format!("p{id}"), Some(id % self.scenario.topology.queues), None),
            Part::Consume(id) => (format!("c{id}"), None, Some(id % self.scenario.topology.queues)),
            Part::PingPong { far } => (format!("e{}", u8::from(far)), Some(usize::from(far)), Some(usize::from(!far))),
        };
        // A broker closes the connection of a client when another of its name comes: the parts of a
        // stock exchange may be in several processes, and two of them tell the third about
        // themselves.
        self.opened += 1;
        let name = format!("{name}-{:x}-{}", std::process::id(), self.opened);
        let kept = consume.is_some() && self.is_durable();
        let mut session = self.connect(&name, if kept { Expiry::Never } else { Expiry::AtEnd })?;
        if kept {
            self.kept.push(name);
        }
        for queue in consume.into_iter().flat_map(|queue| self.scenario.queues_of(queue)) {
            self.consume(&mut session, queue)?;
        }
        let written = publish.into_iter().flat_map(|queue| self.scenario.queues_of(queue));
        let mut topics: Vec<String> = written.map(|queue| self.topic(queue)).collect();
        match part {
            Part::Produce(id) if self.scenario.clients.reply => {
                session.subscribe(&self.reply_topic(id), QoS::AtMostOnce)?;
            }
            Part::Consume(id) if self.scenario.clients.reply => {
                topics.push(self.reply_topic(id % self.scenario.topology.producers))
            }
            _ => {}
        }
        session.link.set_delay(&self.scenario)?;
        let confirmed = publish.is_some() && self.scenario.clients.window > 0;
        let qos = if confirmed { self.confirmed() } else { QoS::AtMostOnce };
        let talk = MqttTalk::new(self.version, session.output, topics, qos);
        Ok(Line { link: session.link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// A session is forgotten when its client begins afresh and keeps nothing.
    fn clean(&mut self) -> Result<(), Failure> {
        for part in std::mem::take(&mut self.kept) {
            self.connect(&part, Expiry::AtEnd)?.end()?;
        }
        Ok(())
    }
}

/// When a session is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// When its client begins afresh.
    Never,
    /// With its connection.
    AtEnd,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::preset::Preset;

    #[test]
    fn consumers_that_share_all_queues_share_each_subscription() {
        let target: Target = "mqtt5://127.0.0.1:1".parse().unwrap();
        let spread = Scenario::default().with(|s| {
            (s.topology.destination, s.topology.queues, s.topology.consumers) = (Destination::Spread, 4, 2);
        });
        let alone = spread.clone().with(|s| s.topology.consumers = 1);
        let pattern = Scenario::default().with(|s| {
            (s.topology.destination, s.topology.bindings) = (Destination::Pattern, 2);
        });
        let cases: [(Scenario, &[&str]); 3] = [
            (spread, &["$share/q3/hermod-bench/00000001/3"]),
            (alone, &["hermod-bench/00000001/3"]),
            (pattern, &["hermod-bench/00000001/3/other/1/+", "hermod-bench/00000001/3/+"]),
        ];
        for (scenario, filters) in cases {
            assert_eq!(MqttDriver::new(target.clone(), scenario, 1).unwrap().filters(3), filters);
        }
    }

    /// Quality 2 is asked for, and never given for a protocol that has none.
    #[test]
    fn a_message_that_comes_exactly_once_has_quality_2() {
        let scenario = Scenario::default().with(|s| (s.clients.window, s.clients.ack_every) = (10, 1));
        let once = scenario.clone().with(|s| s.clients.exactly_once = true);
        let target = |scheme: &str| format!("{scheme}://127.0.0.1:1").parse::<Target>().unwrap();
        for (scenario, qos) in [(scenario, QoS::AtLeastOnce), (once.clone(), QoS::ExactlyOnce)] {
            assert_eq!(MqttDriver::new(target("mqtt"), scenario, 1).unwrap().confirmed(), qos);
        }
        for scheme in ["amqp", "amqp10", "stomp", "nats", "kafka", "relay"] {
            let refused = crate::driver::open(&target(scheme), &once, 1).err().unwrap().to_string();
            assert!(refused.contains("exactly once"), "{scheme}: {refused}");
        }
    }

    #[test]
    fn what_is_lacking_is_said_before_anybody_connects() {
        let persistent = Preset::Persistent1k.scenario();
        let cases = [
            ("mqtt", Preset::Transient64.scenario(), None),
            ("mqtt", persistent.clone(), Some("prefetch in MQTT 3.1.1")),
            (
                "mqtt",
                persistent.clone().with(|s| {
                    s.clients.prefetch = 0;
                    s.topology.consumers = 2;
                }),
                Some("several consumers"),
            ),
            ("mqtt5", persistent.clone().with(|s| s.topology.consumers = 2), None),
            ("mqtt5", persistent.clone().with(|s| s.clients.ack_every = 10), Some("cumulative")),
            ("mqtt5", persistent.with(|s| s.clients.window = 70_000), Some("65 535")),
            ("mqtt5", Preset::Fanout.scenario(), Some("nobody consumes")),
            ("mqtt5", Preset::Sync.scenario(), None),
        ];
        for (scheme, scenario, expected) in cases {
            let found = lacks(scheme, &scenario);
            let matches = match (&found, expected) {
                (Some(found), Some(part)) => found.contains(part),
                (found, part) => found.is_none() && part.is_none(),
            };
            assert!(matches, "{scheme}: {found:?} instead of {expected:?}");
        }
    }
}
