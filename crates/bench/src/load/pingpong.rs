//! One message at a time: the near end sends, the far end sends the same body back, the near end
//! takes the time.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::consumer::Consumed;
use super::{Run, RunPhase, Tally};
use crate::driver::{Event, Line};
use crate::measure::sequence::Seen;
use crate::measure::stamp::Stamp;
use bench_record::check::Check;
use bench_record::failure::Failure;
use machine::clock::now;
use machine::wait::sharpen_timer;

/// How long one read waits before the phase of the run is looked at.
const SILENCE: Duration = Duration::from_millis(50);
/// A message that has not come back after this long is lost.
const LOST_AFTER_NS: u64 = 10_000_000_000;

/// The near end: round trips until the run drains or the quota is done. Its figures are those of a
/// consumer. The connection comes back too: it stays open until the far end has stopped.
pub(crate) fn near(mut line: Line, quota: u64, run: &Run, tally: &Tally) -> Result<(Line, Consumed), Failure> {
    sharpen_timer();
    line.link.set_read_timeout(SILENCE)?;
    let mut seen = Consumed::new(0, vec![Seen::default()])?;
    let mut body = run.bodies.blank();
    let mut number = 0;
    while run.phase() == RunPhase::Run && number < quota {
        number += 1;
        let begin = now();
        run.bodies.write(&mut body, &Stamp { producer: 0, number, intended: begin, sent: begin });
        line.talk.publish(&body)?;
        line.link.write_all(line.talk.output())?;
        tally.sent.store(number, Relaxed);
        // Small bodies have no room for the time.
        let untimed = !matches!(run.bodies.check(), Check::Full | Check::Timed);
        let mut back = 0;
        while back == 0 && run.phase() != RunPhase::End {
            line.receive(&mut |event| {
                if let Event::Delivery { body, redelivered } = event {
                    back += 1;
                    let at = now();
                    seen.redelivered += u64::from(redelivered);
                    seen.note(run, body, at);
                    if untimed && run.measures(begin) {
                        seen.total.record(at - begin);
                    }
                }
            })?;
            if back == 0 && now() - begin > LOST_AFTER_NS {
                return Ok((line, seen));
            }
        }
        tally.received.fetch_add(back, Relaxed);
        tally.moved.store(now(), Relaxed);
    }
    line.link.write_all(line.talk.output())?;
    Ok((line, seen))
}

/// The far end: sends every body back until the run ends.
pub(crate) fn far(mut line: Line, run: &Run) -> Result<(), Failure> {
    sharpen_timer();
    line.link.set_read_timeout(SILENCE)?;
    // In buffers that are used again: else making room for a large body would be measured with each
    // message.
    let (mut bodies, mut lengths) = (Vec::new(), Vec::new());
    while run.phase() != RunPhase::End {
        line.receive(&mut |event| {
            if let Event::Delivery { body, .. } = event {
                bodies.extend_from_slice(body);
                lengths.push(body.len());
            }
        })?;
        let mut rest = bodies.as_slice();
        for length in lengths.drain(..) {
            let (body, others) = rest.split_at(length);
            line.talk.publish(body)?;
            rest = others;
        }
        bodies.clear();
        line.link.write_all(line.talk.output())?;
    }
    Ok(())
}
