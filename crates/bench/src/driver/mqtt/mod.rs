//! MQTT 3.1.1 and 5.0: a queue is a topic with one subscription, or one that is shared. Confirms and acknowledgements are those
//! of QoS 1, message by message. What is to outlast a connection is kept by the broker in the session of its consumer.

mod codec;
mod talk;

use wire::Output;

use super::link::Link;
use super::{Driver, Line, Part, first_wanted, special};
use crate::failure::Failure;
use crate::scenario::{QueueKind, Scenario};
use crate::target::Target;
use codec::{Hello, Said, Version, connect, decode, disconnect, subscribe};
use talk::MqttTalk;

/// Scheme of version 5; `mqtt` is 3.1.1.
const MQTT5: &str = "mqtt5";
/// Message numbers have 16 bits, without 0.
const IDS: u64 = 65_535;
/// A granted QoS from here on is a refusal.
const REFUSED: u8 = 0x80;

/// What `scenario` needs and the protocol `scheme` has not.
fn lacks(scheme: &str, scenario: &Scenario) -> Option<&'static str> {
    let v3 = scheme != MQTT5;
    special(scenario).or_else(|| {
        first_wanted(&[
            (scenario.drain, "queue in MQTT that is filled before its consumer comes"),
            (scenario.ack_every > 1, "cumulative acknowledgement in MQTT"),
            (scenario.window > IDS, "window of more than 65 535 messages in MQTT"),
            (v3 && scenario.prefetch > 0, "prefetch in MQTT 3.1.1 (use mqtt5://)"),
            (v3 && scenario.consumers > scenario.queues, "queue with several consumers in MQTT 3.1.1 (use mqtt5://)"),
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
}

impl MqttDriver {
    pub(super) fn new(target: Target, scenario: Scenario, run: u32) -> Result<Self, Failure> {
        if let Some(what) = lacks(&target.scheme, &scenario) {
            return Err(Failure::lacking(what));
        }
        let version = if target.scheme == MQTT5 { Version::V5 } else { Version::V3 };
        Ok(Self { target, scenario, run, version, kept: Vec::new() })
    }

    fn topic(&self, queue: usize) -> String {
        let queue = if self.scenario.copies_all() { 0 } else { queue };
        self.scenario.queue_name.clone().unwrap_or_else(|| format!("hermod-bench/{:08x}/{queue}", self.run))
    }

    /// What a consumer of `queue` subscribes to.
    fn filter(&self, queue: usize) -> String {
        let topic = self.topic(queue);
        if self.scenario.consumers > self.scenario.queues { format!("$share/q{queue}/{topic}") } else { topic }
    }

    fn client(&self, part: &str) -> String {
        format!("hermod-bench-{:08x}-{part}", self.run)
    }

    fn is_durable(&self) -> bool {
        self.scenario.queue == QueueKind::Durable
    }

    /// Connects as `part`, whose session is kept if `kept`, and forgotten first if `clean`.
    fn connect(&self, part: &str, kept: bool, clean: bool) -> Result<Session, Failure> {
        let client = self.client(part);
        let hello = Hello {
            version: self.version,
            client: &client,
            user: &self.target.user,
            password: &self.target.password,
            clean,
            kept,
            receive_maximum: self.scenario.prefetch,
        };
        let mut session = Session { link: Link::open(&self.target.address)?, output: Output::default() };
        connect(&hello, session.output.tail());
        let (reason, takes) = session.hear(self.version, "CONNECT", &mut |said| match said {
            Said::Connected { reason, receive_maximum } => Some((*reason, *receive_maximum)),
            _ => None,
        })?;
        if reason != 0 {
            return Err(Failure::new(format!("the broker refused the connection: reason {reason}")));
        }
        if self.scenario.window > u64::from(takes) {
            return Err(Failure::new(format!(
                "the broker takes at most {takes} unconfirmed messages of a client: --window {takes}, or raise its receive maximum"
            )));
        }
        Ok(session)
    }

    fn subscribe(&self, session: &mut Session, queue: usize) -> Result<(), Failure> {
        // What is published with QoS 1 to nobody yet has to wait with QoS 1.
        let acknowledged = self.scenario.ack_every > 0 || self.scenario.consumers == 0;
        subscribe(self.version, &self.filter(queue), acknowledged, session.output.tail());
        let granted = session.hear(self.version, "SUBSCRIBE", &mut |said| match said {
            Said::Subscribed(granted) => Some(*granted),
            _ => None,
        })?;
        match granted {
            REFUSED.. => Err(Failure::new(format!("the broker refused the subscription: reason {granted}"))),
            granted if granted < u8::from(acknowledged) => Err(Failure::new("the broker granted a lower QoS than 1")),
            _ => Ok(()),
        }
    }
}

impl Driver for MqttDriver {
    /// Where nobody consumes, a session that is not connected stands for each queue.
    fn prepare(&mut self) -> Result<(), Failure> {
        let absent = if self.scenario.consumers == 0 && self.is_durable() { self.scenario.queues } else { 0 };
        for queue in 0..absent {
            let part = format!("q{queue}");
            let mut session = self.connect(&part, true, true)?;
            self.kept.push(part);
            self.subscribe(&mut session, queue)?;
            session.end()?;
        }
        Ok(())
    }

    fn open(&mut self, part: Part) -> Result<Line, Failure> {
        let (name, publish, consume) = match part {
            Part::Produce(id) => (format!("p{id}"), Some(id % self.scenario.queues), None),
            Part::Consume(id) => (format!("c{id}"), None, Some(id % self.scenario.queues)),
            Part::PingPong { far } => (format!("e{}", u8::from(far)), Some(usize::from(far)), Some(usize::from(!far))),
        };
        let kept = consume.is_some() && self.is_durable();
        let mut session = self.connect(&name, kept, true)?;
        if kept {
            self.kept.push(name);
        }
        if let Some(queue) = consume {
            self.subscribe(&mut session, queue)?;
        }
        let topic = self.topic(publish.unwrap_or(0));
        session.link.set_nodelay(self.scenario.nodelay)?;
        let talk = MqttTalk::new(self.version, session.output, topic, self.scenario.window > 0);
        Ok(Line { link: session.link, talk: Box::new(talk) })
    }

    fn depth(&mut self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// A session is forgotten when its client begins anew and keeps nothing.
    fn clean(&mut self) -> Result<(), Failure> {
        for part in std::mem::take(&mut self.kept) {
            self.connect(&part, false, true)?.end()?;
        }
        Ok(())
    }
}

/// A connection that asks and waits.
struct Session {
    link: Link,
    output: Output,
}

impl Session {
    /// Sends what is to be sent, and reads until `pick` finds what it looks for.
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

    fn end(mut self) -> Result<(), Failure> {
        disconnect(self.output.tail());
        self.link.write_all(&mut self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn what_is_lacking_is_said_before_anybody_connects() {
        let persistent = Preset::Persistent1k.scenario();
        let cases = [
            ("mqtt", Preset::Transient64.scenario(), None),
            ("mqtt", persistent.clone(), Some("prefetch in MQTT 3.1.1")),
            ("mqtt", Scenario { prefetch: 0, consumers: 2, ..persistent.clone() }, Some("several consumers")),
            ("mqtt5", Scenario { consumers: 2, ..persistent.clone() }, None),
            ("mqtt5", Scenario { ack_every: 10, ..persistent.clone() }, Some("cumulative")),
            ("mqtt5", Scenario { window: 70_000, ..persistent }, Some("65 535")),
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
