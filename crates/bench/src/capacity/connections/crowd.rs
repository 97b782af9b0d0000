//! The connections of one process: opened by some threads at once, held without a thread, and
//! proven alive.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

use amqp091::client::{Event as Said, PublishTemplate};
use amqp091::codec::methods::{BasicConsume, BasicPublish, QueueDeclare};
use serde::{Deserialize, Serialize};

use crate::driver::amqp::{TRANSIENT, properties};
use crate::driver::link::Link;
use crate::driver::session::{CHANNEL, Questions, Session};
use crate::measure::stamp::{Bodies, Stamp};
use bench_record::failure::{Context, Failure};
use bench_record::statistics::random::mix;
use bench_record::target::Target;
use machine::clock::{now, unix_time};

/// Descriptors that a process needs beside its connections.
pub(super) const SPARE_DESCRIPTORS: u64 = 64;
/// Connections from one local address: Linux gives 28 232 ports to it unless told otherwise.
const FROM_ONE_ADDRESS: u32 = 20_000;
/// Bytes of a probe.
const PROBE: usize = 64;

/// What one process opens.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) target: Target,
    /// Number of the first connection.
    pub(super) first: u32,
    pub(super) count: u32,
    /// Each has a consumer on an exclusive queue.
    pub(super) consume: bool,
    /// Connections being opened at once.
    pub(super) parallel: u32,
    /// Connections that a message goes through in the end.
    pub(super) probes: u32,
    pub(super) limit: Duration,
}

/// What the connections of one process proved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Proof {
    pub(super) probes: u32,
    /// Nanoseconds there and back of each probe that came back unchanged.
    pub(super) round_trips: Vec<u64>,
    /// Connections that the broker had closed.
    pub(super) dead: u32,
    /// Why the first of those that failed did so.
    pub(super) complaint: Option<String>,
}

/// Open connections.
#[derive(Debug)]
pub(super) struct Crowd {
    order: Order,
    /// Tells their queues from all others.
    run: u32,
    sessions: Vec<Session>,
}

impl Crowd {
    /// Opens all, or fails with the number of the first that could not be opened.
    pub(super) fn open(order: &Order) -> Result<Self, Failure> {
        let run = mix(unix_time() ^ u64::from(std::process::id()) << 32 ^ u64::from(order.first)) as u32;
        let until = Instant::now().checked_add(order.limit);
        let part = |at: u32| (u64::from(order.count) * u64::from(at) / u64::from(order.parallel)) as u32;
        let opened: Vec<Result<Vec<Session>, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..order.parallel)
                .map(|at| scope.spawn(move || order.open_some(part(at)..part(at + 1), run, until)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|one| one.unwrap_or_else(|_| Err(Failure::new("a load thread ended by a panic")))).collect()
        });
        let mut sessions = Vec::with_capacity(order.count as usize);
        for some in opened {
            sessions.extend(some?);
        }
        Ok(Self { order: order.clone(), run, sessions })
    }

    /// Sends one message through some of them, evenly spread, and looks whether the broker has
    /// closed any.
    pub(super) fn prove(&mut self) -> Result<Proof, Failure> {
        let mut proof = Proof { probes: self.order.probes, ..Proof::default() };
        let bodies = Bodies::new(self.run, PROBE);
        for session in &mut self.sessions {
            if let Err(failure) = session.link.check() {
                proof.dead += 1;
                proof.complaint.get_or_insert(failure.to_string());
            }
        }
        for at in 0..self.order.probes {
            let number = (u64::from(at) * self.sessions.len() as u64 / u64::from(self.order.probes)) as usize;
            let id = self.order.first + number as u32;
            let queue = queue(self.run, id);
            let session = &mut self.sessions[number];
            let consumed = if self.order.consume { Ok(()) } else { consume(session, &queue) };
            match consumed.and_then(|()| probe(session, &queue, &bodies, id)) {
                Ok(time) => proof.round_trips.push(time),
                Err(failure) => {
                    proof.complaint.get_or_insert(format!("connection {id}: {failure}"));
                }
            }
        }
        Ok(proof)
    }
}

impl Order {
    fn open_some(&self, part: Range<u32>, run: u32, until: Option<Instant>) -> Result<Vec<Session>, Failure> {
        let mut sessions = Vec::with_capacity(part.len());
        for number in part.map(|at| self.first + at) {
            if until.is_some_and(|until| Instant::now() > until) {
                let failure = format!("the time limit was reached before connection {number} (--limit)");
                return Err(Failure::new(failure));
            }
            sessions.push(self.open_one(number, run).context(format!("connection {number}"))?);
        }
        Ok(sessions)
    }

    fn open_one(&self, number: u32, run: u32) -> Result<Session, Failure> {
        let link = Link::open_idle(&self.target.address, source(&self.target.address, number))?;
        let mut session = Session::over(link, &self.target, &format!("idle {number}"))?;
        if self.consume {
            consume(&mut session, &queue(run, number))?;
        }
        Ok(session)
    }
}

/// The local address of connection `number`, where the system's choice would run out of ports: each
/// loopback address has ports of its own. To other hosts there is no choice.
fn source(address: &str, number: u32) -> Option<IpAddr> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(host)) if host.is_loopback() && number >= FROM_ONE_ADDRESS => {
            let [_, b, c, d] = (number / FROM_ONE_ADDRESS + 1).to_be_bytes();
            Some(Ipv4Addr::new(127, b, c, d).into())
        }
        _ => None,
    }
}

fn queue(run: u32, number: u32) -> String {
    format!("hermod-bench.{run:08x}.{number}")
}

/// Declares an exclusive queue and consumes from it.
fn consume(session: &mut Session, queue: &str) -> Result<(), Failure> {
    session.call(QueueDeclare { queue, exclusive: true, ..QueueDeclare::default() })?;
    session.call(BasicConsume { queue, consumer_tag: "c", no_ack: true, ..BasicConsume::default() })?;
    Ok(())
}

/// Sends one message to the queue that the connection consumes and waits for it; returns
/// nanoseconds there and back.
fn probe(session: &mut Session, name: &str, bodies: &Bodies, id: u32) -> Result<u64, Failure> {
    let stamp = Stamp { number: u64::from(id), ..Stamp::default() };
    let mut body = bodies.blank();
    bodies.write(&mut body, &stamp);
    let publish = BasicPublish { routing_key: name, ..BasicPublish::default() };
    let template = PublishTemplate::new(CHANNEL, publish, &properties(TRANSIENT), session.client.frame_max());
    let begin = now();
    let mut changed = false;
    let one = Questions { what: "a message", count: 1, unanswered: 1 };
    session.ask(one, &mut |_, out| template.append(&body, out), &mut |said, _| match said {
        Said::Deliver { message, .. } => {
            changed = bodies.read(message.body) != Ok(stamp);
            Ok(1)
        }
        _ => Ok(0),
    })?;
    if changed {
        return Err(Failure::new("its message came back changed"));
    }
    Ok(now() - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_change_before_their_ports_run_out() {
        let cases = [
            ("127.0.0.1:5672", 0, None),
            ("127.0.0.1:5672", FROM_ONE_ADDRESS - 1, None),
            ("127.0.0.1:5672", FROM_ONE_ADDRESS, Some("127.0.0.2")),
            ("127.0.0.1:5672", FROM_ONE_ADDRESS * 255, Some("127.0.1.0")),
            ("10.0.0.1:5672", FROM_ONE_ADDRESS, None),
            ("[::1]:5672", FROM_ONE_ADDRESS, None),
            ("localhost:5672", FROM_ONE_ADDRESS, None),
        ];
        for (address, number, expected) in cases {
            let found = source(address, number).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{address} {number}");
        }
    }
}
