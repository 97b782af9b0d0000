//! The connections of one process: opened by some threads at once, held without a thread, and
//! proven alive.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::idle::Idle;
use crate::measure::stamp::Bodies;
use bench_record::failure::{Context, Failure};
use bench_record::statistics::random::mix;
use bench_record::target::Target;
use machine::clock::unix_time;

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
    /// Each has a consumer on an exclusive queue, or a subscription to a topic.
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
    /// Tells their queues and names from all others.
    run: u32,
    sessions: Vec<Idle>,
}

impl Crowd {
    /// Opens all, or fails with the number of the first that could not be opened.
    pub(super) fn open(order: &Order) -> Result<Self, Failure> {
        let run = mix(unix_time() ^ u64::from(std::process::id()) << 32 ^ u64::from(order.first)) as u32;
        let until = Instant::now().checked_add(order.limit);
        let part = |at: u32| (u64::from(order.count) * u64::from(at) / u64::from(order.parallel)) as u32;
        let opened: Vec<Result<Vec<Idle>, Failure>> = std::thread::scope(|scope| {
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
            if let Err(failure) = session.check() {
                proof.dead += 1;
                proof.complaint.get_or_insert(failure.to_string());
            }
        }
        for at in 0..self.order.probes {
            let number = (u64::from(at) * self.sessions.len() as u64 / u64::from(self.order.probes)) as usize;
            let id = self.order.first + number as u32;
            let place = place(self.run, id);
            let session = &mut self.sessions[number];
            let consumed = if self.order.consume { Ok(()) } else { session.consume(&place) };
            match consumed.and_then(|()| session.probe(&place, &bodies, id)) {
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
    fn open_some(&self, part: Range<u32>, run: u32, until: Option<Instant>) -> Result<Vec<Idle>, Failure> {
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

    fn open_one(&self, number: u32, run: u32) -> Result<Idle, Failure> {
        // What MQTT calls a client is its alone.
        let name = format!("hermod-bench-{run:08x}-idle-{number}");
        let mut session = Idle::open(&self.target, source(&self.target.address, number), &name)?;
        if self.consume {
            session.consume(&place(run, number))?;
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

/// The queue or topic of a connection.
fn place(run: u32, number: u32) -> String {
    format!("hermod-bench.{run:08x}.{number}")
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
