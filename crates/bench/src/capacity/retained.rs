//! A storm of retained messages over MQTT: many topics get one each, then a new client subscribes
//! to all of them by one wildcard, while two other clients go on with messages between them. What
//! counts is how soon the first one comes, how long the last one takes, and what the two notice.

mod live;
mod report;

use std::ops::Range;
use std::time::{Duration, Instant};

use clap::Args;
use mqtt::codec::{Packet, PacketId, QoS};
use serde::Serialize;

use super::interval::{Interval, Mark};
use super::{Head, Trial, TrialArgs};
use crate::driver::link::Link;
use crate::driver::mqtt::session::Session;
use crate::measure::stamp::{Bodies, Stamp};
use crate::progress::Progress;
use bench_record::check::Check;
use bench_record::failure::{Context, Failure};
use bench_record::latency::Summary;
use bench_record::statistics::random::mix;
use bench_record::verdict::Verdict;
use live::{Live, Noticed};
use machine::clock::{now, unix_time};

/// Topics below one level.
const BELOW: u32 = 1000;
/// A broker that sends nothing for this long has sent all that it has.
const SILENCE: Duration = Duration::from_secs(5);
/// Packet identifiers have 16 bits, without 0.
const IDS: u32 = 65_535;

/// Options of `retained`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct RetainedArgs {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) trial: TrialArgs,
    /// Topics, each with a retained message
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub(crate) topics: u32,
    /// Connections, one thread each, that publish them
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connections: u32,
    /// Most unacknowledged messages of a connection
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) window: u32,
    /// Bytes of a body; at least 16
    #[arg(long, default_value_t = 64)]
    pub(crate) size: usize,
    /// Messages a second between the two other clients, of quality 0
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) live_rate: u32,
    /// Seconds of their messages before the client with the wildcard comes
    #[arg(long, default_value_t = 3.0)]
    pub(crate) before: f64,
    /// Most seconds until all have been published, and until all have come
    #[arg(long, default_value_t = 600.0)]
    pub(crate) limit: f64,
}

/// What was wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// Retained messages that the broker refused.
    pub(crate) refused: u64,
    /// Topics whose message did not come.
    pub(crate) missing: u64,
    /// Messages that came for a topic that had its own already.
    pub(crate) twice: u64,
    /// Messages with another body than was sent to their topic, or without the flag RETAIN.
    pub(crate) corrupted: u64,
    /// Messages between the two other clients that did not come.
    pub(crate) live_lost: u64,
}

/// All that is known in the end.
#[derive(Debug, Serialize)]
pub(crate) struct RetainedRecord<'a> {
    #[serde(flatten)]
    head: Head,
    load: &'a RetainedArgs,
    /// From the first message to the last acknowledgement.
    pub(crate) publishing: Interval,
    /// Resident bytes that each retained message added.
    pub(crate) resident_each: Option<f64>,
    /// From the subscription to the last message.
    pub(crate) storm: Interval,
    /// Microseconds from the subscription to the first message.
    pub(crate) first_us: Option<f64>,
    /// Microseconds from the intended time of a live message to its arrival, before the storm.
    pub(crate) live_before_us: Option<Summary>,
    /// And while it lasted.
    pub(crate) live_during_us: Option<Summary>,
    pub(crate) found: Found,
    pub(crate) verdict: Verdict,
}

/// Runs it, prints the table and writes the record. True: all was valid.
pub(crate) fn run(args: &RetainedArgs) -> Result<bool, Failure> {
    let record = measure(args, &args.trial.progress())?;
    args.trial.report(&report::render(&record), &record)?;
    Ok(record.verdict.valid)
}

pub(super) fn measure<'a>(args: &'a RetainedArgs, progress: &Progress) -> Result<RetainedRecord<'a>, Failure> {
    if !matches!(Check::of(args.size), Check::Full | Check::Timed) {
        return Err(Failure::new("--size must be at least 16: smaller bodies can't say when they were sent"));
    }
    let limit = Duration::try_from_secs_f64(args.limit).context("--limit")?;
    let before = Duration::try_from_secs_f64(args.before).context("--before")?;
    let trial = args.trial.begin(&["mqtt5", "mqtt"], "MQTT has retained messages and wildcards over them")?;
    let run = mix(unix_time() ^ u64::from(std::process::id()) << 32) as u32;
    let storm = Storm { args, trial: &trial, run, bodies: Bodies::new(run, args.size), limit };
    storm.record(before, progress).context(&trial.target.name)
}

/// One run of it.
struct Storm<'a, 't> {
    args: &'a RetainedArgs,
    trial: &'t Trial,
    /// Tells its topics and clients from all others.
    run: u32,
    bodies: Bodies,
    limit: Duration,
}

/// What came for the wildcard.
#[derive(Debug)]
struct Came {
    interval: Interval,
    first_us: Option<f64>,
    found: Found,
}

/// What a topic gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Its stamped body.
    Body,
    /// Nothing, which takes its value away.
    Empty,
}

impl<'a> Storm<'a, '_> {
    fn record(&self, before: Duration, progress: &Progress) -> Result<RetainedRecord<'a>, Failure> {
        let mark = |moved: u32| self.trial.mark(moved.into());
        progress.done("publishing");
        let first = mark(0);
        let refused = self.publish_all(Value::Body)?;
        let last = mark(self.args.topics);
        progress.done("live traffic");
        let live = Live::begin(self.connect("live-source")?, self.connect("live-sink")?, self.live())?;
        std::thread::sleep(before);
        progress.done("storm");
        live.storm_begins();
        let came = self.subscribe_to_all();
        live.storm_ends();
        let noticed = live.end();
        progress.done("removing");
        self.publish_all(Value::Empty)?;
        let (came, Noticed { before, during, lost }) = (came?, noticed?);
        let found = Found { refused, live_lost: lost, ..came.found };
        let resident = |mark: &Mark| mark.sample.broker.map(|usage| usage.resident as f64);
        let each = |first: f64, last: f64| (last - first) / f64::from(self.args.topics);
        Ok(RetainedRecord {
            head: self.trial.head(),
            load: self.args,
            publishing: Interval::between(&first, &last, self.args.size),
            resident_each: resident(&first).zip(resident(&last)).map(|(first, last)| each(first, last)),
            storm: came.interval,
            first_us: came.first_us,
            live_before_us: before,
            live_during_us: during,
            found,
            verdict: found.verdict(),
        })
    }

    fn connect(&self, name: &str) -> Result<Session, Failure> {
        let name = format!("hermod-bench-{:08x}-{name}", self.run);
        let target = &self.trial.target;
        Session::clean(Link::open(&target.address)?, target, &name).map(|(session, _)| session)
    }

    fn topic(&self, number: u32) -> String {
        format!("hermod-bench/{:08x}/kept/{}/{number}", self.run, number / BELOW)
    }

    fn live(&self) -> live::Order {
        let topic = format!("hermod-bench/{:08x}/live", self.run);
        live::Order { topic, bodies: self.bodies.clone(), rate: self.args.live_rate.into() }
    }

    fn stamp(number: u32) -> Stamp {
        Stamp { number: u64::from(number) + 1, ..Stamp::default() }
    }

    /// Gives each topic its value. Returns how many the broker refused.
    fn publish_all(&self, value: Value) -> Result<u64, Failure> {
        let all = u64::from(self.args.topics);
        let part = |at: u32| (all * u64::from(at) / u64::from(self.args.connections)) as u32;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.args.connections)
                .map(|at| scope.spawn(move || self.publish(at, part(at)..part(at + 1), value)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|one| one.unwrap_or_else(|_| Err(Failure::new("a load thread ended by a panic")))).sum()
        })
    }

    /// One connection's part.
    fn publish(&self, connection: u32, topics: Range<u32>, value: Value) -> Result<u64, Failure> {
        let target = &self.trial.target;
        let name = format!("hermod-bench-{:08x}-source-{connection}", self.run);
        let (mut session, takes) = Session::clean(Link::open(&target.address)?, target, &name)?;
        let window = self.args.window.min(takes).max(1);
        let until = Instant::now().checked_add(self.limit);
        let mut body = self.bodies.blank();
        let (mut next, mut unanswered, mut refused) = (topics.start, 0, 0);
        while next < topics.end || unanswered > 0 {
            while next < topics.end && unanswered < window {
                self.bodies.write(&mut body, &Self::stamp(next));
                let payload = if value == Value::Body { &body[..] } else { &[] };
                let id = PacketId::new((next % IDS + 1) as u16).unwrap_or(PacketId::MIN);
                session.retain(&self.topic(next), id, payload);
                (next, unanswered) = (next + 1, unanswered + 1);
            }
            let heard = session.take(&mut |packet| {
                if let Packet::PubAck(ack) = packet {
                    unanswered -= 1;
                    refused += u64::from(ack.reason.is_error());
                }
            })?;
            if !heard || until.is_some_and(|until| Instant::now() > until) {
                return Err(Failure::new(format!("{unanswered} retained messages were not acknowledged in time")));
            }
        }
        session.end()?;
        Ok(refused)
    }

    /// Subscribes to all topics by one wildcard, and takes what comes.
    fn subscribe_to_all(&self) -> Result<Came, Failure> {
        let mut session = self.connect("storm")?;
        session.link.set_read_timeout(SILENCE)?;
        let until = Instant::now().checked_add(self.limit);
        let mut seen = vec![false; self.args.topics as usize];
        let (mut found, mut count, mut first_at, mut failure) = (Found::default(), 0, None, None);
        let begin = now();
        let (start, mut last) = (self.trial.mark(0), None);
        session.ask_for(&format!("hermod-bench/{:08x}/kept/#", self.run), QoS::AtMostOnce);
        while count < u64::from(self.args.topics)
            && failure.is_none()
            && until.is_none_or(|until| Instant::now() < until)
        {
            let heard = session.take(&mut |packet| match packet {
                Packet::SubAck(granted) if granted.reasons.iter().any(mqtt::codec::Reason::is_error) => {
                    failure = Some(Failure::new("the broker refused the wildcard over all topics"));
                }
                Packet::Publish(message) => {
                    first_at.get_or_insert_with(now);
                    count += self.came(message, &mut seen, &mut found);
                }
                _ => {}
            })?;
            if !heard {
                break;
            }
            last = Some(self.trial.mark(count));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        session.end()?;
        found.missing = u64::from(self.args.topics) - count;
        let interval = Interval::between(&start, last.as_ref().unwrap_or(&start), self.args.size);
        Ok(Came { interval, first_us: first_at.map(|at| (at - begin) as f64 / 1e3), found })
    }

    /// One that came. Returns 1 if it is the first of its topic.
    fn came(&self, message: &mqtt::codec::Publish<'_>, seen: &mut [bool], found: &mut Found) -> u64 {
        let number = message.topic.rsplit_once('/').and_then(|(_, number)| number.parse::<u32>().ok());
        let Some(number) = number.filter(|number| (*number as usize) < seen.len()) else {
            found.corrupted += 1;
            return 0;
        };
        if !message.retain || self.bodies.read(message.payload) != Ok(Self::stamp(number)) {
            found.corrupted += 1;
        }
        if std::mem::replace(&mut seen[number as usize], true) {
            found.twice += 1;
            return 0;
        }
        1
    }
}

impl Found {
    fn verdict(&self) -> Verdict {
        let Self { refused, missing, twice, corrupted, live_lost } = *self;
        let violations: Vec<String> = [
            (refused, "retained messages were refused"),
            (missing, "retained messages did not come"),
            (twice, "retained messages came twice"),
            (corrupted, "retained messages came changed"),
            (live_lost, "live messages were lost"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        Verdict { valid: violations.is_empty(), violations, notes: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
