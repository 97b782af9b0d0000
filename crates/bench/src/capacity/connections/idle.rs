//! One idle connection, of AMQP 0-9-1 or of MQTT: how it opens, how it consumes, and one message
//! through it.

use std::net::IpAddr;

use amqp091::client::{Event as Said, PublishTemplate};
use amqp091::codec::methods::{BasicConsume, BasicPublish, QueueDeclare};
use mqtt::codec::{Packet, QoS};

use crate::driver::amqp::{TRANSIENT, properties};
use crate::driver::link::Link;
use crate::driver::mqtt::session::Session as MqttSession;
use crate::driver::session::{CHANNEL, Questions, Session as AmqpSession};
use crate::measure::stamp::{Bodies, Stamp};
use bench_record::failure::Failure;
use bench_record::target::Target;
use machine::clock::now;

/// The protocols that such a connection speaks.
pub(super) const SCHEMES: [&str; 3] = ["amqp", "mqtt5", "mqtt"];

/// A connection.
#[derive(Debug)]
pub(super) enum Idle {
    Amqp(Box<AmqpSession>),
    Mqtt(MqttSession),
}

impl Idle {
    /// Connects from a local address, if one is given. `name` is its own.
    pub(super) fn open(target: &Target, source: Option<IpAddr>, name: &str) -> Result<Self, Failure> {
        let link = Link::open_idle(&target.address, source)?;
        match target.scheme.as_str() {
            "amqp" => AmqpSession::over(link, target, name).map(|session| Self::Amqp(Box::new(session))),
            _ => MqttSession::clean(link, target, name).map(|(session, _)| Self::Mqtt(session)),
        }
    }

    /// Fails when the broker has closed it.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        match self {
            Self::Amqp(session) => session.link.check(),
            Self::Mqtt(session) => session.link.check(),
        }
    }

    /// Consumes from a place of its own: an exclusive queue, or a topic.
    pub(super) fn consume(&mut self, place: &str) -> Result<(), Failure> {
        match self {
            Self::Amqp(session) => {
                session.call(QueueDeclare { queue: place, exclusive: true, ..QueueDeclare::default() })?;
                session.call(BasicConsume {
                    queue: place,
                    consumer_tag: "c",
                    no_ack: true,
                    ..BasicConsume::default()
                })?;
                Ok(())
            }
            Self::Mqtt(session) => session.subscribe(place, QoS::AtMostOnce),
        }
    }

    /// Sends one message to the place that it consumes from and waits for it; returns nanoseconds
    /// there and back.
    pub(super) fn probe(&mut self, place: &str, bodies: &Bodies, id: u32) -> Result<u64, Failure> {
        let stamp = Stamp { number: u64::from(id), ..Stamp::default() };
        let mut body = bodies.blank();
        bodies.write(&mut body, &stamp);
        let begin = now();
        let is_whole = match self {
            Self::Amqp(session) => there_and_back(session, place, &body, &mut |body| bodies.read(body) == Ok(stamp))?,
            Self::Mqtt(session) => {
                session.publish(place, &body);
                session.hear("a message", &mut |packet| match packet {
                    Packet::Publish(message) => Some(bodies.read(message.payload) == Ok(stamp)),
                    _ => None,
                })?
            }
        };
        if !is_whole {
            return Err(Failure::new("its message came back changed"));
        }
        Ok(now() - begin)
    }
}

/// A message through an exclusive queue; returns what `check` says of it.
fn there_and_back(
    session: &mut AmqpSession,
    queue: &str,
    body: &[u8],
    check: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Failure> {
    let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
    let template = PublishTemplate::new(CHANNEL, publish, &properties(TRANSIENT), session.client.frame_max());
    let mut is_whole = false;
    let one = Questions { what: "a message", count: 1, unanswered: 1 };
    session.ask(one, &mut |_, out| template.append(body, out), &mut |said, _| match said {
        Said::Deliver { message, .. } => {
            is_whole = check(message.body);
            Ok(1)
        }
        _ => Ok(0),
    })?;
    Ok(is_whole)
}
