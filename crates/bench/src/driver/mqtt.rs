//! MQTT 3.1.1 and 5.0: a queue is a topic with one subscription, or one that is shared. What other
//! brokers have exchanges for, topics do: a key is a topic, and the patterns of a queue are what
//! its consumer subscribes to. Confirms and acknowledgements are those of QoS 1, message by
//! message. What is to outlast a connection is kept by the broker in the session of its consumer.

mod codec;
mod talk;

use wire::Output;

use super::link::Link;
use super::{Driver, Line, Notation, Part, first_wanted, special};
use bench_record::failure::Failure;
use bench_record::scenario::{Destination, QueueKind, Scenario};
use bench_record::target::Target;
use codec::{Hello, Qos, Said, Version, connect, decode, disconnect, subscribe};
use talk::MqttTalk;

/// Scheme of version 5; `mqtt` is 3.1.1.
const MQTT5: &str = "mqtt5";
const TOPICS: Notation = Notation { between: '/', any: '+' };
/// Message numbers have 16 bits, without 0.
const IDS: u64 = 65_535;
/// A granted QoS from here on is a refusal.
const REFUSED: u8 = 0x80;

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
        let version = if target.scheme == MQTT5 { Version::V5 } else { Version::V3 };
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

    fn is_durable(&self) -> bool {
        self.scenario.topology.queue == QueueKind::Durable
    }

    /// Connects as `part` with a session that begins afresh.
    fn connect(&self, part: &str, expiry: Expiry) -> Result<Session, Failure> {
        let client = self.client(part);
        let hello = Hello {
            version: self.version,
            client: &client,
            user: &self.target.user,
            password: &self.target.password,
            clean: true,
            kept: expiry == Expiry::Never,
            receive_maximum: self.scenario.clients.prefetch,
        };
        let mut session = Session { link: Link::open(&self.target.address)?, output: Output::keeping_all() };
        connect(&hello, session.output.tail());
        let (reason, takes) = session.hear(self.version, "CONNECT", &mut |said| match said {
            Said::Connected { reason, receive_maximum } => Some((*reason, *receive_maximum)),
            _ => None,
        })?;
        if reason != 0 {
            return Err(Failure::new(format!("the broker refused the connection: reason {reason}")));
        }
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
        let qos = if lossless { Qos::AtLeastOnce } else { Qos::AtMostOnce };
        self.filters(queue).iter().try_for_each(|filter| session.subscribe(self.version, filter, qos))
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
                session.subscribe(self.version, &self.reply_topic(id), Qos::AtMostOnce)?;
            }
            Part::Consume(id) if self.scenario.clients.reply => {
                topics.push(self.reply_topic(id % self.scenario.topology.producers))
            }
            _ => {}
        }
        session.link.set_delay(&self.scenario)?;
        let confirmed = publish.is_some() && self.scenario.clients.window > 0;
        let qos = if confirmed { Qos::AtLeastOnce } else { Qos::AtMostOnce };
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

/// A connection that asks and waits.
struct Session {
    link: Link,
    output: Output,
}

impl Session {
    /// Sends the waiting output, and reads until `pick` finds what it looks for.
    fn hear<T>(
        &mut self,
        version: Version,
        what: &str,
        pick: &mut dyn FnMut(&Said<'_>) -> Option<T>,
    ) -> Result<T, Failure> {
        self.link.write_all(&mut self.output)?;
        loop {
            let (mut used, mut picked) = (0, None);
            while picked.is_none()
                && let Some((said, length)) = decode(&self.link.input()[used..], version)?
            {
                used += length;
                if let Said::Closing(reason) = said {
                    return Err(Failure::new(format!("{what}: the broker closed the connection: reason {reason}")));
                }
                picked = pick(&said);
            }
            self.link.consume(used);
            if let Some(picked) = picked {
                return Ok(picked);
            }
            if !self.link.read()? {
                return Err(Failure::new(format!("no answer to {what}")));
            }
        }
    }

    /// Subscribes to `filter`.
    fn subscribe(&mut self, version: Version, filter: &str, qos: Qos) -> Result<(), Failure> {
        subscribe(version, filter, qos, self.output.tail());
        let granted = self.hear(version, "SUBSCRIBE", &mut |said| match said {
            Said::Subscribed(granted) => Some(*granted),
            _ => None,
        })?;
        match granted {
            REFUSED.. => Err(Failure::new(format!("the broker refused the subscription: reason {granted}"))),
            granted if granted < qos as u8 => Err(Failure::new("the broker granted a lower QoS than 1")),
            _ => Ok(()),
        }
    }

    fn end(mut self) -> Result<(), Failure> {
        disconnect(self.output.tail());
        self.link.write_all(&mut self.output)
    }
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
