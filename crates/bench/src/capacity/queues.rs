//! Many durable queues: declared, bound to one direct exchange with a key each and given one
//! persistent message each; later, perhaps by another process after a restart of the broker, each
//! message is taken back and checked, and each queue deleted.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use amqp091::client::{Event as Said, PublishTemplate};
use amqp091::codec::methods::{
    BasicAck, BasicGet, BasicPublish, ConfirmSelect, ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare,
    QueueDelete,
};
use amqp091::codec::{Method, Table};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::interval::{Interval, Mark, absent, mebibytes};
use super::{Head, Trial, TrialArgs};
use crate::driver::amqp::{PERSISTENT, properties, queue_arguments};
use crate::driver::session::{CHANNEL, Questions, Session};
use crate::measure::stamp::{Bodies, Stamp};
use crate::measure::window::{Confirm, Window};
use crate::progress::Progress;
use bench_record::check::Check;
use bench_record::failure::{Context, Failure};
use bench_record::machine::Forced;
use bench_record::scenario::QueueKind;
use bench_record::statistics::random::mix;
use bench_record::verdict::Verdict;
use bench_report::table::{aligned, number};
use machine::disk::forced_writes;

/// For how long forced writes are timed.
const FORCED: Duration = Duration::from_secs(2);

/// Which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Declare, bind, publish
    Declare,
    /// Take each message of an earlier declare with the same options, and delete the queues
    Fetch,
    /// One after the other
    Both,
}

/// Options of `queues`.
#[derive(Debug, Args, Serialize)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) trial: TrialArgs,
    /// What to do
    #[arg(long, value_enum, default_value = "both")]
    #[serde(skip)]
    pub(crate) phase: Phase,
    /// Queues in all
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// Connections, one thread each, over which the queues are spread
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Requests that a connection may have unanswered; 1: it waits for each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) pipeline: u32,
    /// Most unconfirmed messages of a connection
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) window: u32,
    /// Bytes of a body; at least 8
    #[arg(long, default_value_t = 64)]
    pub(crate) size: usize,
    /// Tells these queues from others; a fetch needs the seed of its declare
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Directory on the broker's disk where forced writes are timed
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Most seconds of a step
    #[arg(long, default_value_t = 3600.0)]
    pub(crate) limit: f64,
}

/// What was wrong with queues and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// Queues that were empty.
    pub(crate) lost: u64,
    /// Messages with another body than was sent to this queue.
    pub(crate) corrupted: u64,
    /// Messages in a queue beside its own.
    pub(crate) extra: u64,
    /// Messages refused (negative confirms) and returned as unroutable.
    pub(crate) refused: u64,
    pub(crate) returned: u64,
}

/// One step over all queues.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) stretch: Interval,
    /// Resident bytes that it added for each queue.
    pub(crate) resident_each: Option<f64>,
    /// Answers that one connection waited for one after the other, where the broker has to force
    /// each to the disk.
    pub(crate) waits: Option<u64>,
    /// Seconds that as many forced writes take here, one after the other.
    pub(crate) forced_seconds: Option<f64>,
}

/// All that is known in the end.
#[derive(Debug, Serialize)]
pub(crate) struct QueuesRecord<'a> {
    #[serde(flatten)]
    head: Head,
    load: &'a QueuesArgs,
    pub(crate) forced: Option<Forced>,
    /// Resident bytes before the first step and after the last.
    pub(crate) resident_before: Option<u64>,
    pub(crate) resident_after: Option<u64>,
    pub(crate) steps: Vec<Step>,
    pub(crate) found: Found,
    pub(crate) verdict: Verdict,
}

/// Runs the steps that were asked for, prints the table and writes the record. True: all was valid.
pub(crate) fn run(args: &QueuesArgs) -> Result<bool, Failure> {
    let record = measure(args, &args.trial.progress())?;
    args.trial.report(&render(&record), &record)?;
    Ok(record.verdict.valid)
}

pub(super) fn measure<'a>(args: &'a QueuesArgs, progress: &Progress) -> Result<QueuesRecord<'a>, Failure> {
    if Check::of(args.size) == Check::Counted {
        return Err(Failure::new("--size must be at least 8: smaller bodies can't say which queue they belong to"));
    }
    let limit = Duration::try_from_secs_f64(args.limit).context("--limit")?;
    let forced = match &args.dir {
        Some(dir) => Some(forced_writes(dir, FORCED)?),
        None => None,
    };
    let trial = args.trial.begin(&["amqp"], "queues are declared by AMQP 0-9-1")?;
    steps(args, &trial, limit, forced, progress).context(&trial.target.name)
}

fn steps<'a>(
    args: &'a QueuesArgs,
    trial: &Trial,
    limit: Duration,
    forced: Option<Forced>,
    progress: &Progress,
) -> Result<QueuesRecord<'a>, Failure> {
    let sessions = (0..args.connections)
        .map(|id| Session::open(&trial.target, &format!("queues {id}")))
        .collect::<Result<_, _>>()?;
    let run = mix(args.seed) as u32;
    let names = Names { prefix: format!("hermod-bench.{run:08x}"), bodies: Bodies::new(run, args.size) };
    let mut load =
        Load { args, trial, names: &names, sessions, limit, steps: Vec::new(), found: Found::default(), forced };
    let before = load.mark(0);
    if args.phase != Phase::Fetch {
        load.declare(progress)?;
    }
    if args.phase != Phase::Declare {
        load.fetch(progress)?;
    }
    let after = load.mark(0);
    let resident = |mark: &Mark| mark.sample.broker.map(|usage| usage.resident);
    Ok(QueuesRecord {
        head: trial.head(),
        load: args,
        forced: load.forced,
        resident_before: resident(&before),
        resident_after: resident(&after),
        steps: load.steps,
        found: load.found,
        verdict: load.found.verdict(),
    })
}

/// What queues are called and what is in them.
struct Names {
    /// Also the exchange's name.
    prefix: String,
    bodies: Bodies,
}

impl Names {
    fn queue(&self, number: usize) -> String {
        format!("{}.{number}", self.prefix)
    }

    fn key(number: usize) -> String {
        format!("key.{number}")
    }

    fn stamp(number: usize) -> Stamp {
        Stamp { number: number as u64 + 1, ..Stamp::default() }
    }

    /// True when `body` is what was published to the queue `number`.
    fn fits(&self, body: &[u8], number: usize) -> bool {
        self.bodies.read(body).is_ok_and(|stamp| stamp == Self::stamp(number))
    }
}

/// What one connection does for its share of the queues.
type Work<'a> = &'a (dyn Fn(&mut Session, Range<usize>) -> Result<Found, Failure> + Sync);

struct Load<'a> {
    args: &'a QueuesArgs,
    trial: &'a Trial,
    names: &'a Names,
    sessions: Vec<Session>,
    limit: Duration,
    steps: Vec<Step>,
    found: Found,
    forced: Option<Forced>,
}

impl Load<'_> {
    fn mark(&self, moved: u64) -> Mark {
        self.trial.mark(moved)
    }

    /// The queues of connection `id`.
    fn share(&self, id: usize) -> Range<usize> {
        let (count, connections) = (self.args.count as usize, self.sessions.len());
        count * id / connections..count * (id + 1) / connections
    }

    /// Lets every connection do its work at once. `unanswered` is none where nothing waits for the
    /// disk.
    fn step(&mut self, name: &'static str, unanswered: Option<u32>, work: Work<'_>) -> Result<(), Failure> {
        let shares: Vec<Range<usize>> = (0..self.sessions.len()).map(|id| self.share(id)).collect();
        let until = Instant::now().checked_add(self.limit);
        let first = self.mark(0);
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (self.sessions.iter_mut().zip(shares.iter().cloned()))
                .map(|(session, share)| {
                    session.until = until;
                    scope.spawn(move || work(session, share))
                })
                .collect();
            let results: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a load thread ended by a panic"))))
                .collect();
            results.into_iter().collect::<Result<Vec<Found>, Failure>>()
        })?;
        let last = self.mark(self.args.count.into());
        found.iter().for_each(|found| self.found.add(found));
        let longest = shares.iter().map(ExactSizeIterator::len).max().unwrap_or(0) as u64;
        let waits = unanswered.map(|most| longest.div_ceil(most.into()));
        let resident = |mark: &Mark| Some(mark.sample.broker?.resident as f64);
        self.steps.push(Step {
            name,
            // Only one step moves bodies, and none is about bytes.
            stretch: Interval::between(&first, &last, 0),
            resident_each: resident(&last)
                .zip(resident(&first))
                .map(|(after, before)| (after - before) / f64::from(self.args.count)),
            waits,
            forced_seconds: waits.zip(self.forced.as_ref()).map(|(waits, forced)| waits as f64 / forced.per_second),
        });
        Ok(())
    }

    fn declare(&mut self, progress: &Progress) -> Result<(), Failure> {
        let exchange =
            ExchangeDeclare { exchange: &self.names.prefix, kind: "direct", durable: true, ..Default::default() };
        if let Some(session) = self.sessions.first_mut() {
            session.call(exchange)?;
        }
        for session in &mut self.sessions {
            session.call(ConfirmSelect::default())?;
        }
        let (pipeline, window) = (self.args.pipeline, self.args.window);
        let names = self.names;
        let arguments = queue_arguments(&self.trial.target, QueueKind::Durable, None);
        progress.done("declaring");
        self.step("declare", Some(pipeline), &|session, share| declare(session, names, &arguments, share, pipeline))?;
        progress.done("binding");
        self.step("bind", Some(pipeline), &|session, share| bind(session, names, share, pipeline))?;
        progress.done("publishing");
        self.step("publish", Some(window), &|session, share| publish(session, names, share, window))
    }

    fn fetch(&mut self, progress: &Progress) -> Result<(), Failure> {
        let pipeline = self.args.pipeline;
        let names = self.names;
        progress.done("fetching");
        self.step("get", None, &|session, share| get(session, names, share, pipeline))?;
        progress.done("deleting");
        self.step("delete", Some(pipeline), &|session, share| delete(session, names, share, pipeline))?;
        let exchange = ExchangeDelete { exchange: &self.names.prefix, ..Default::default() };
        self.sessions.first_mut().map_or(Ok(0), |session| session.call(exchange)).map(|_| ())
    }
}

fn questions<'a>(what: &'a str, share: &Range<usize>, unanswered: u32) -> Questions<'a> {
    Questions { what, count: share.len(), unanswered: unanswered as usize }
}

fn declare(
    session: &mut Session,
    names: &Names,
    arguments: &[u8],
    share: Range<usize>,
    unanswered: u32,
) -> Result<Found, Failure> {
    let arguments = Table::new(arguments).context("queue arguments")?;
    let ask = &mut |at: usize, out: &mut Vec<u8>| {
        let queue = &names.queue(share.start + at);
        Method::from(QueueDeclare { queue, durable: true, arguments, ..Default::default() }).encode(CHANNEL, out);
    };
    session.ask(questions("queue.declare", &share, unanswered), ask, &mut |said, _| {
        Ok(usize::from(matches!(said, Said::Method { method: Method::QueueDeclareOk(_), .. })))
    })?;
    Ok(Found::default())
}

fn bind(session: &mut Session, names: &Names, share: Range<usize>, unanswered: u32) -> Result<Found, Failure> {
    let ask = &mut |at: usize, out: &mut Vec<u8>| {
        let (queue, routing_key) = (&names.queue(share.start + at), &Names::key(share.start + at));
        let exchange = &names.prefix;
        Method::from(QueueBind { queue, exchange, routing_key, ..Default::default() }).encode(CHANNEL, out);
    };
    session.ask(questions("queue.bind", &share, unanswered), ask, &mut |said, _| {
        Ok(usize::from(matches!(said, Said::Method { method: Method::QueueBindOk(_), .. })))
    })?;
    Ok(Found::default())
}

fn publish(session: &mut Session, names: &Names, share: Range<usize>, unanswered: u32) -> Result<Found, Failure> {
    let (mut found, mut body) = (Found::default(), names.bodies.blank());
    let (properties, frame_max) = (properties(PERSISTENT), session.client.frame_max());
    let window = std::cell::RefCell::new(Window::new(unanswered.into()));
    let ask = &mut |at: usize, out: &mut Vec<u8>| {
        names.bodies.write(&mut body, &Names::stamp(share.start + at));
        let routing_key = &Names::key(share.start + at);
        let publish = BasicPublish { exchange: &names.prefix, routing_key, mandatory: true, ..Default::default() };
        PublishTemplate::new(CHANNEL, publish, &properties, frame_max).append(&body, out);
        window.borrow_mut().push(1);
    };
    session.ask(questions("basic.publish", &share, unanswered), ask, &mut |said, _| {
        let (upto, multiple, refused) = match *said {
            Said::Ack { delivery_tag, multiple, .. } => (delivery_tag, multiple, 0),
            Said::Nack { delivery_tag, multiple, .. } => (delivery_tag, multiple, 1),
            Said::Returned { .. } => {
                found.returned += 1;
                return Ok(0);
            }
            _ => return Ok(0),
        };
        let mut settled = 0;
        window.borrow_mut().confirm(Confirm { upto, multiple }, |_, _| settled += 1);
        found.refused += settled as u64 * refused;
        Ok(settled)
    })?;
    Ok(found)
}

fn get(session: &mut Session, names: &Names, share: Range<usize>, unanswered: u32) -> Result<Found, Failure> {
    let (mut found, mut next) = (Found::default(), share.start);
    let ask = &mut |at: usize, out: &mut Vec<u8>| {
        Method::from(BasicGet { queue: &names.queue(share.start + at), ..Default::default() }).encode(CHANNEL, out);
    };
    session.ask(questions("basic.get", &share, unanswered), ask, &mut |said, out| {
        match said {
            Said::Got { delivery_tag, message, .. } => {
                found.corrupted += u64::from(!names.fits(message.body, next));
                Method::from(BasicAck { delivery_tag: *delivery_tag, multiple: false }).encode(CHANNEL, out);
            }
            Said::Method { method: Method::BasicGetEmpty(_), .. } => found.lost += 1,
            _ => return Ok(0),
        }
        // Answers come in the order of the questions.
        next += 1;
        Ok(1)
    })?;
    Ok(found)
}

fn delete(session: &mut Session, names: &Names, share: Range<usize>, unanswered: u32) -> Result<Found, Failure> {
    let mut found = Found::default();
    let ask = &mut |at: usize, out: &mut Vec<u8>| {
        Method::from(QueueDelete { queue: &names.queue(share.start + at), ..Default::default() }).encode(CHANNEL, out);
    };
    session.ask(questions("queue.delete", &share, unanswered), ask, &mut |said, _| {
        let Said::Method { method: Method::QueueDeleteOk(ok), .. } = said else { return Ok(0) };
        found.extra += u64::from(ok.message_count);
        Ok(1)
    })?;
    Ok(found)
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.corrupted += other.corrupted;
        self.extra += other.extra;
        self.refused += other.refused;
        self.returned += other.returned;
    }

    fn verdict(&self) -> Verdict {
        let counts = [
            (self.lost, "queues had lost their message"),
            (self.corrupted, "queues gave another body than was sent to them"),
            (self.extra, "messages too many were in the queues"),
            (self.refused, "messages were refused"),
            (self.returned, "messages were returned as unroutable"),
        ];
        let wrong = counts.iter().filter(|(count, _)| *count > 0);
        let violations: Vec<String> = wrong.map(|(count, what)| format!("{count} {what}")).collect();
        Verdict { valid: violations.is_empty(), violations, notes: Vec::new() }
    }
}

/// The table of the steps as text.
fn render(record: &QueuesRecord<'_>) -> String {
    let load = record.load;
    let mut text = format!(
        "{} durable queues over {} connections, {} unanswered at once, one message of {} B each, confirm window {}, seed {}\n\n",
        number(load.count.into(), 0),
        load.connections,
        load.pipeline,
        load.size,
        load.window,
        load.seed
    );
    let titles = ["step", "seconds", "per s", "µs CPU each", "RSS MiB", "RSS B each", "waits", "as forced writes s"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(record.steps.iter().map(|step| {
        let broker = step.stretch.broker.as_ref();
        vec![
            step.name.to_owned(),
            number(step.stretch.seconds, 2),
            number(step.stretch.per_s, 0),
            absent(broker.map(|cost| cost.cpu_us_per_message), 2),
            absent(broker.map(|cost| mebibytes(cost.resident_bytes)), 1),
            absent(step.resident_each, 0),
            absent(step.waits.map(|waits| waits as f64), 0),
            absent(step.forced_seconds, 2),
        ]
    }));
    text.push_str(&aligned(&rows));
    if let Some((before, after)) = record.resident_before.zip(record.resident_after) {
        let each = (after as f64 - before as f64) / f64::from(load.count);
        text.push_str(&format!(
            "  RSS {} MiB before, {} MiB after: {} B for each queue\n",
            number(mebibytes(before), 1),
            number(mebibytes(after), 1),
            number(each, 0)
        ));
    }
    if let Some(forced) = &record.forced {
        text.push_str(&format!(
            "  an empty 4 KiB forced write here: {} a second, p50 {} µs\n",
            number(forced.per_second, 0),
            number(forced.latency.p50, 0)
        ));
    }
    record.verdict.violations.iter().for_each(|violation| text.push_str(&format!("  INVALID: {violation}\n")));
    text
}

#[cfg(test)]
mod tests;
