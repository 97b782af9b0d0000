//! How many messages a slice needs so that it lasts. A thousand are through in 16 ms with one
//! broker and take a second with another; of 16 ms neither a rate can be told nor what others did
//! to the machine meanwhile. A target gets at least as many as were asked for, and never fewer than
//! before.

use std::time::{Duration, Instant};

use super::{Plan, headline, one};
use crate::progress::Progress;
use bench_record::scenario::{Mode, Payload, Rate, Scenario};
use bench_record::statistics::random::mix;
use bench_record::target::Target;

/// Slices are to last this many times as long as they must, since brokers become faster as they
/// warm up.
const AIM: f64 = 1.5;
/// A rate that was seen for a moment is not trusted any further than this.
const MOST_GROWTH: f64 = 32.0;
/// The most messages, and the most bytes of bodies: of those that a broker has to hold before the
/// time begins, of those that it is sent and keeps, and of those that pass through. As many more
/// where a slice is to last longer than a second.
const MOST_MESSAGES: u64 = 5_000_000;
const MOST_HELD: u64 = 512 << 20;
const MOST_KEPT: u64 = 1 << 30;
const MOST_PASSED: u64 = 4 << 30;

/// Tries how long the messages of `scenario` last on `target`, again and again until the plan's
/// rehearsal is over, and returns how many it is to get at first; none where that was not found
/// out: what can't be measured says so in its slices.
pub(super) fn settle(
    plan: &Plan,
    target: &Target,
    scenario: &Scenario,
    number: u32,
    progress: &mut Progress,
) -> Option<u64> {
    least(plan, scenario)?;
    let (begin, mut scenario) = (Instant::now(), scenario.clone());
    let rehearsal = if target.is_relay() { Duration::ZERO } else { plan.rehearsal };
    for round in 1.. {
        progress.step("[how many] ".to_owned());
        let measured = one(plan, target, &scenario, mix(u64::from(number) ^ mix(round)) as u32, progress);
        progress.done(&headline(target, &measured));
        if progress.interrupted() {
            return None;
        }
        scenario.length.messages = more(plan, &scenario, measured.ok()?.seconds).or(scenario.length.messages);
        if begin.elapsed() >= rehearsal {
            break;
        }
    }
    scenario.length.messages
}

/// How many messages `scenario` needs instead of its own, which were through in `seconds`; none
/// where that was long enough, or where there can't be more.
pub(super) fn more(plan: &Plan, scenario: &Scenario, seconds: f64) -> Option<u64> {
    let least = least(plan, scenario).filter(|least| seconds < *least)?;
    let asked = scenario.length.messages?;
    Some(grown(scenario, asked, least / seconds).min(most(scenario, least))).filter(|more| *more > asked)
}

/// Seconds that the messages of `scenario` are to last at least; none where they may be through at
/// once.
fn least(plan: &Plan, scenario: &Scenario) -> Option<f64> {
    plan.least.filter(|_| scenario.mode != Mode::Exchange && scenario.pace.rate == Rate::Saturate)
}

/// As many messages as last `times` as long as `asked`, or more.
fn grown(scenario: &Scenario, asked: u64, times: f64) -> u64 {
    // What is drained is filled in before, all of it, and the last messages may be of another kind.
    // All else is ended by its time, and messages that were too many cost nothing.
    if scenario.length.cap.is_some() && !scenario.clients.drain && scenario.message.tail.is_none() {
        return u64::MAX;
    }
    (asked as f64 * (times * AIM).min(MOST_GROWTH)) as u64
}

/// The most messages that a slice is given to make it last for `least` seconds.
fn most(scenario: &Scenario, least: f64) -> u64 {
    let bytes = match (scenario.clients.drain, scenario.topology.consumers) {
        (true, _) => MOST_HELD,
        // A fill that is over while its rate still falls would flatter a fast broker.
        (false, 0) => MOST_KEPT,
        (false, _) => MOST_PASSED,
    };
    let times = |most: u64| (most as f64 * least.max(1.0)) as u64;
    let counted = match scenario.message.payload {
        Payload::Counter => bench_record::scenario::LARGEST_COUNT.saturating_sub(scenario.length.warmup_messages),
        Payload::Random | Payload::Zero => u64::MAX,
    };
    times(MOST_MESSAGES).min(counted).min(scenario.bodies_within(times(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::scenario::Tail;

    #[test]
    fn a_slice_that_a_time_ends_gets_all_that_there_can_be() {
        let base = Scenario::default();
        let capped = base.clone().with(|s| s.length.cap = Some(4.1));
        let drained = capped.clone().with(|s| s.clients.drain = true);
        let tailed = capped.clone().with(|s| s.message.tail = Some(Tail { messages: 10, size: 64 }));
        let of = |scenario: &Scenario, times: f64| grown(scenario, 1000, times);
        assert_eq!([&base, &capped, &drained, &tailed].map(|scenario| of(scenario, 2.0)), [3000, u64::MAX, 3000, 3000]);
        assert_eq!(of(&base, 1e6), 32_000);
    }

    #[test]
    fn a_broker_is_not_asked_to_hold_more_than_it_can() {
        let base = Scenario::default().with(|s| s.message.size = 1024);
        let cases = [
            (base.clone().with(|s| s.message.size = 0), 5_000_000),
            (base.clone().with(|s| s.message.size = 1 << 20), 4096),
            (base.clone().with(|s| s.topology.consumers = 0), 1 << 20),
            (base.clone().with(|s| (s.clients.drain, s.message.size) = (true, 500_000)), 1073),
            (
                base.with(|s| {
                    (s.message.payload, s.message.size) = (Payload::Counter, 6);
                    s.length.warmup_messages = 16_000_000;
                }),
                777_215,
            ),
        ];
        for (scenario, expected) in cases {
            assert_eq!(most(&scenario, 0.5), expected, "{scenario:?}");
        }
        let longer = [(1 << 20, 3 * 4096), (0, 15_000_000)];
        for (size, expected) in longer {
            assert_eq!(most(&Scenario::default().with(|s| s.message.size = size), 3.0), expected, "{size} B");
        }
    }
}
