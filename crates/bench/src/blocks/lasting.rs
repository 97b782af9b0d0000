//! How many messages a slice needs so that it lasts. A thousand are through in 16 ms with one broker and take a second with
//! another; of 16 ms neither a rate can be told nor what others did to the machine meanwhile. A target gets at least as many
//! as were asked for, and the same number in every block.

use super::{Plan, headline, one};
use crate::measure::random::mix;
use crate::report::progress::Progress;
use crate::scenario::{Mode, Payload, Rate, Scenario};
use crate::target::Target;

/// Slices are to last this many times as long as they must, since brokers become faster as they warm up.
const AIM: f64 = 1.5;
/// The same where a time ends the slice anyway, and messages that were too many cost nothing.
const AIM_CAPPED: f64 = 3.0;
/// A rate that was seen for a moment is not trusted any further than this: it is measured once more with what it led to.
const MOST_GROWTH: f64 = 32.0;
/// So often the number is raised at most.
const ROUNDS: u64 = 4;
/// The most messages, and the most bytes of bodies: of those that a broker has to hold before the time begins, of those that it is sent
/// and keeps, and of those that pass through. As many more where a slice is to last longer than a second.
const MOST_MESSAGES: u64 = 5_000_000;
const MOST_HELD: u64 = 512 << 20;
const MOST_KEPT: u64 = 1 << 30;
const MOST_PASSED: u64 = 4 << 30;

/// Tries how long the messages of `scenario` last on `target`, and returns how many it is to get; none where that was not found
/// out: what can't be measured says so in its slices.
pub(super) fn settle(
    plan: &Plan,
    target: &Target,
    scenario: &Scenario,
    number: u32,
    progress: &mut Progress,
) -> Option<u64> {
    let least = plan.least.filter(|_| scenario.mode != Mode::Exchange && scenario.rate == Rate::Saturate)?;
    let mut scenario = scenario.clone();
    for round in 1..=ROUNDS {
        let asked = scenario.messages?;
        progress.step("[how many] ".to_owned());
        let measured = one(plan, target, &scenario, mix(u64::from(number) ^ mix(round)) as u32, progress);
        progress.done(&headline(target, &measured));
        if progress.interrupted() {
            return None;
        }
        let seconds = measured.ok()?.seconds;
        if seconds >= least {
            break;
        }
        let growth = aim(&scenario) * least / seconds;
        let more = ((asked as f64 * growth.min(MOST_GROWTH)) as u64).min(most(&scenario, least)).max(asked);
        scenario.messages = Some(more);
        if growth <= MOST_GROWTH || more == asked {
            break;
        }
    }
    scenario.messages
}

/// For how many times `least` seconds a slice's messages are meant to last.
fn aim(scenario: &Scenario) -> f64 {
    // What is drained has to be filled in before, all of it.
    if scenario.cap.is_some() && !scenario.drain { AIM_CAPPED } else { AIM }
}

/// The most messages that a slice is given to make it last for `least` seconds.
fn most(scenario: &Scenario, least: f64) -> u64 {
    let bytes = match (scenario.drain, scenario.consumers) {
        (true, _) => MOST_HELD,
        // A fill that is over while its rate still falls would flatter whoever is fast.
        (false, 0) => MOST_KEPT,
        (false, _) => MOST_PASSED,
    };
    let times = |most: u64| (most as f64 * least.max(1.0)) as u64;
    let counted = match scenario.payload {
        Payload::Counter => crate::scenario::LARGEST_COUNT.saturating_sub(scenario.warmup_messages),
        Payload::Random | Payload::Zero => u64::MAX,
    };
    times(MOST_MESSAGES).min(counted).min(scenario.bodies_within(times(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_are_kept_ready_where_a_time_ends_the_slice() {
        let base = Scenario::default();
        let capped = Scenario { cap: Some(4.1), ..base.clone() };
        let drained = Scenario { drain: true, ..capped.clone() };
        assert_eq!([base, capped, drained].map(|scenario| aim(&scenario)), [1.5, 3.0, 1.5]);
    }

    #[test]
    fn a_broker_is_not_asked_to_hold_more_than_it_can() {
        let base = Scenario { size: 1024, ..Scenario::default() };
        let cases = [
            (Scenario { size: 0, ..base.clone() }, 5_000_000),
            (Scenario { size: 1 << 20, ..base.clone() }, 4096),
            (Scenario { consumers: 0, ..base.clone() }, 1 << 20),
            (Scenario { drain: true, size: 500_000, ..base.clone() }, 1073),
            (Scenario { payload: Payload::Counter, size: 6, warmup_messages: 16_000_000, ..base }, 777_215),
        ];
        for (scenario, expected) in cases {
            assert_eq!(most(&scenario, 0.5), expected, "{scenario:?}");
        }
        let longer = [(1 << 20, 3 * 4096), (0, 15_000_000)];
        for (size, expected) in longer {
            assert_eq!(most(&Scenario { size, ..Scenario::default() }, 3.0), expected, "{size} B");
        }
    }
}
