//! One producer: fills its window or follows its schedule, gathers what may go now into one write,
//! and takes confirms.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Run, RunPhase, Tally};
use crate::driver::link::Interest;
use crate::driver::{Event, Line};
use crate::measure::schedule::Schedule;
use crate::measure::sequence::Numbers;
use crate::measure::stamp::Stamp;
use crate::measure::window::{Confirm, Window};
use bench_record::check::Check;
use bench_record::failure::Failure;
use bench_record::latency::Latency;
use machine::clock::now;
use machine::wait::sharpen_timer;

/// Longest sleep without looking at the phase of the run.
const GLANCE: Duration = Duration::from_millis(50);
/// How long to wait before looking whether the measured messages may follow.
const GATE_PAUSE: Duration = Duration::from_micros(200);
/// How long to wait for consumers when the in-flight bound is reached.
const BOUND_PAUSE: Duration = Duration::from_micros(100);
/// Without confirms the socket is looked at every so many turns, for closes and returned messages.
const LOOK_EVERY: u64 = 64;

/// What a producer is told.
pub(crate) struct Producer {
    pub(crate) id: u16,
    pub(crate) line: Line,
    /// Most unconfirmed messages; 0: no confirms.
    pub(crate) window: u64,
    /// Open loop; none: as fast as it goes.
    pub(crate) schedule: Option<Schedule>,
    /// Most messages in all.
    pub(crate) quota: u64,
    /// Those of them that come before the measured ones.
    pub(crate) warmup: u64,
    /// Replies that it waits for when all is sent.
    pub(crate) replies: u64,
    /// Most bytes gathered into one write.
    pub(crate) batch: usize,
}

/// What a producer saw.
pub(crate) struct Produced {
    pub(crate) id: u16,
    pub(crate) sent: u64,
    /// Messages that the broker refused.
    pub(crate) refused: u64,
    /// Numbers of the messages that the broker accepted responsibility for.
    pub(crate) confirmed: Numbers,
    /// Messages that came back as unroutable.
    pub(crate) returned: u64,
    /// Confirms of messages never sent or confirmed before.
    pub(crate) unknown_confirms: u64,
    /// Confirm minus intended time.
    pub(crate) confirm: Latency,
    /// How late the generator itself was: send minus intended time, without what the broker held it
    /// back.
    pub(crate) lateness: Latency,
}

/// Why nothing more can be sent right now.
enum Pause {
    /// It can: the batch is full.
    None,
    /// Until a confirm comes, or for this long.
    For(Duration),
}

/// Produces until its quota is sent or the run drains, and then until all is confirmed. The
/// connection comes back too: it stays open until all is received, since a broker may drop what a
/// closed one still had to say.
pub(crate) fn produce(job: Producer, run: &Run, tally: &Tally) -> Result<(Line, Produced), Failure> {
    sharpen_timer();
    job.line.link.set_nonblocking()?;
    let mut sender = Sender::new(job, run, tally)?;
    for turn in 0u64.. {
        let phase = run.phase();
        let stopping = phase != RunPhase::Run || sender.seen.sent == sender.quota;
        let answered = sender.replies == 0 || phase != RunPhase::Run;
        let quiet = sender.line.talk.waiting() == 0 && sender.window.open() == 0 && answered;
        if phase == RunPhase::End || (stopping && quiet) {
            break;
        }
        let pause = if stopping { Pause::For(GLANCE) } else { sender.fill()? };
        let Line { link, talk } = &mut sender.line;
        let blocked = !link.write(talk.output())?;
        sender.held |= blocked;
        let interest = if blocked { Interest::ReadAndWrite } else { Interest::Read };
        let look = match pause {
            Pause::None if !blocked => sender.window.confirms() || turn % LOOK_EVERY == 0,
            Pause::None => link.wait(interest, GLANCE)?.read,
            Pause::For(time) => link.wait(interest, time)?.read,
        };
        if look {
            sender.listen()?;
        }
    }
    Ok((sender.line, sender.seen))
}

struct Sender<'a> {
    run: &'a Run,
    tally: &'a Tally,
    window: Window,
    schedule: Option<Schedule>,
    quota: u64,
    warmup: u64,
    /// Replies that have not come.
    replies: u64,
    batch: usize,
    /// The broker holds it back: the window is full, or the socket takes no more.
    held: bool,
    /// When it was last found to be held back no more; 0: it never was.
    free_since: u64,
    body: Vec<u8>,
    line: Line,
    seen: Produced,
}

impl<'a> Sender<'a> {
    fn new(job: Producer, run: &'a Run, tally: &'a Tally) -> Result<Self, Failure> {
        let seen = Produced {
            id: job.id,
            sent: 0,
            refused: 0,
            confirmed: Numbers::default(),
            returned: 0,
            unknown_confirms: 0,
            confirm: Latency::new()?,
            lateness: Latency::new()?,
        };
        let Producer { line, window, schedule, quota, warmup, replies, batch, .. } = job;
        let (window, body) = (Window::new(window), run.bodies.blank());
        let (held, free_since) = (false, 0);
        Ok(Self { run, tally, window, schedule, quota, warmup, replies, batch, held, free_since, body, line, seen })
    }

    /// Appends as many messages to the output as may be sent now.
    fn fill(&mut self) -> Result<Pause, Failure> {
        let at = now();
        if std::mem::take(&mut self.held) {
            self.free_since = at;
        }
        let gated = !self.run.gate_is_open();
        let before = self.seen.sent;
        let mut room = if self.schedule.is_some() { u64::MAX } else { self.run.room() };
        let pause = loop {
            if self.line.talk.waiting() >= self.batch {
                // With nothing to write, what waits is in need of the broker's credit.
                self.held = self.line.talk.output().is_empty();
                break if self.held { Pause::For(GLANCE) } else { Pause::None };
            }
            if !self.window.has_room() || self.seen.sent == self.quota {
                self.held = true;
                break Pause::For(GLANCE);
            }
            if gated && self.seen.sent >= self.warmup {
                break Pause::For(GATE_PAUSE);
            }
            if room == 0 {
                break Pause::For(BOUND_PAUSE);
            }
            let intended = self.schedule.as_ref().map_or(at, Schedule::next);
            if intended > at {
                break Pause::For(Duration::from_nanos(intended - at).min(GLANCE));
            }
            room -= 1;
            self.put(intended, at)?;
        };
        if self.seen.sent > before {
            self.tally.sent.store(self.seen.sent, Relaxed);
            self.tally.moved.store(now(), Relaxed);
        }
        Ok(pause)
    }

    fn put(&mut self, intended: u64, at: u64) -> Result<(), Failure> {
        self.seen.sent += 1;
        self.window.push(intended);
        let stamp = Stamp { producer: self.seen.id, number: self.seen.sent, intended, sent: at };
        self.run.bodies.write(&mut self.body, &stamp);
        self.line.talk.publish(&self.body[..self.run.bodies.length(self.seen.sent)])?;
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
            if self.run.measures(intended) {
                self.seen.lateness.record(at - intended.max(self.free_since));
            }
        }
        Ok(())
    }

    /// Takes the confirms that have come.
    fn listen(&mut self) -> Result<(), Failure> {
        let Self { run, tally, window, replies, line, seen, .. } = self;
        let Produced { refused, confirmed, returned, unknown_confirms, confirm, .. } = seen;
        let numbered = run.bodies.check() != Check::Counted;
        let mut at = 0;
        line.receive(&mut |event| match event {
            Event::Confirm { upto, multiple, accepted } => {
                at = if at == 0 { now() } else { at };
                let mut count = 0;
                let known = window.confirm(Confirm { upto, multiple }, |number, intended| {
                    count += 1;
                    if numbered && accepted {
                        confirmed.insert(number);
                    }
                    if run.measures(intended) {
                        confirm.record(at.saturating_sub(intended));
                    }
                });
                *unknown_confirms += u64::from(!known);
                *refused += if accepted { 0 } else { count };
                let counter = if accepted { &tally.confirmed } else { &tally.refused };
                counter.fetch_add(count, Relaxed);
            }
            Event::Returned => *returned += 1,
            Event::Delivery { .. } => {
                at = now();
                *replies = replies.saturating_sub(1);
            }
        })?;
        if at != 0 {
            tally.moved.store(at, Relaxed);
        }
        Ok(())
    }
}
