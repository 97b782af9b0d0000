//! One consumer: reads, checks every body, acknowledges what is due and measures how long each
//! message took.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Run, RunPhase, Tally};
use crate::driver::{Event, Line};
use crate::measure::sequence::Seen;
use crate::measure::stamp::Damage;
use bench_record::check::Check;
use bench_record::failure::Failure;
use bench_record::integrity::Damages;
use bench_record::latency::Latency;
use machine::clock::now;

/// Silence after which acknowledgements that wait for company are sent, and the phase of the run is
/// looked at.
const SILENCE: Duration = Duration::from_millis(10);

/// What a consumer is told.
pub(crate) struct Consumer {
    /// The queue that it reads.
    pub(crate) queue: usize,
    /// What is expected of each producer, before anything came.
    pub(crate) seen: Vec<Seen>,
    pub(crate) line: Line,
    /// Messages after which it sends one empty message back; none: never.
    pub(crate) reply_after: Option<u64>,
}

/// What a consumer saw.
pub(crate) struct Consumed {
    pub(crate) queue: usize,
    /// By producer.
    pub(crate) seen: Vec<Seen>,
    pub(crate) damages: Damages,
    /// Messages that the broker itself called redelivered.
    pub(crate) redelivered: u64,
    /// Receipt minus intended time.
    pub(crate) total: Latency,
    /// Receipt minus send time: without the generator's own lateness. Open loop only.
    pub(crate) transit: Latency,
}

impl Consumed {
    /// Nothing received yet from any producer; `seen` has one entry for each.
    pub(crate) fn new(queue: usize, seen: Vec<Seen>) -> Result<Self, Failure> {
        Ok(Self {
            queue,
            seen,
            damages: Damages::default(),
            redelivered: 0,
            total: Latency::new()?,
            transit: Latency::new()?,
        })
    }

    /// Checks and times one body received at `at`.
    #[inline]
    pub(crate) fn note(&mut self, run: &Run, body: &[u8], at: u64) {
        let stamp = match run.bodies.read(body) {
            Ok(stamp) => stamp,
            Err(damage) => return count(&mut self.damages, damage),
        };
        if run.bodies.check() == Check::Counted {
            return;
        }
        let known = self.seen.get_mut(usize::from(stamp.producer)).is_some_and(|seen| seen.take(stamp.number));
        if !known {
            return count(&mut self.damages, Damage::Stamp);
        }
        if stamp.intended != 0 && run.measures(stamp.intended) {
            self.total.record(at.saturating_sub(stamp.intended));
            if run.open_loop && stamp.sent != 0 {
                self.transit.record(at.saturating_sub(stamp.sent));
            }
        }
    }
}

/// Counts a body that came back changed.
fn count(damages: &mut Damages, damage: Damage) {
    match damage {
        Damage::Length => damages.length += 1,
        Damage::Stamp => damages.stamp += 1,
        Damage::Filling => damages.filling += 1,
    }
}

/// Takes what is pushed and settles nothing, until the run ends.
pub(crate) fn stand_by(mut line: Line, run: &Run) -> Result<(), Failure> {
    line.link.set_read_timeout(SILENCE)?;
    while run.phase() != RunPhase::End {
        line.receive(&mut |_| {})?;
    }
    Ok(())
}

/// Consumes until the run ends.
pub(crate) fn consume(job: Consumer, run: &Run, tally: &Tally) -> Result<Consumed, Failure> {
    let Consumer { queue, seen, mut line, mut reply_after } = job;
    line.link.set_read_timeout(SILENCE)?;
    let mut consumed = Consumed::new(queue, seen)?;
    let mut received = 0;
    // What was left for the first turn: a subscription, or the request for the first message.
    line.link.write_all(line.talk.output())?;
    while run.phase() != RunPhase::End {
        let (mut at, mut count) = (0, 0);
        let busy = line.receive(&mut |event| {
            if let Event::Delivery { body, redelivered } = event {
                at = if at == 0 { now() } else { at };
                count += 1;
                consumed.redelivered += u64::from(redelivered);
                consumed.note(run, body, at);
            }
        })?;
        if count > 0 {
            received += count;
            tally.received.store(received, Relaxed);
            tally.moved.store(now(), Relaxed);
        }
        if reply_after.is_some_and(|all| received >= all) {
            reply_after = None;
            line.talk.publish(&[])?;
        }
        if !busy {
            line.talk.settle()?;
        }
        line.link.write_all(line.talk.output())?;
    }
    Ok(consumed)
}
