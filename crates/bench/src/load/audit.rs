//! The integrity of a run: every message that the broker took responsibility for came to each of
//! its queues once, in its producer's order and unchanged.

use crate::load::consumer::Consumed;
use crate::load::producer::Produced;
use crate::measure::sequence::Numbers;
use bench_record::check::Check;
use bench_record::failure::Failure;
use bench_record::integrity::{Damages, Integrity};
use bench_record::scenario::Scenario;
use bench_record::totals::Totals;

/// Compares what producers and consumers of `scenario` saw. `held` is what the queues still hold,
/// where there is no consumer.
pub(crate) fn audit(
    scenario: &Scenario,
    totals: &Totals,
    produced: &[Produced],
    consumed: &[Consumed],
    held: Option<u64>,
) -> Result<Integrity, Failure> {
    let mut found = Integrity {
        refused: totals.refused,
        unsettled: unsettled(scenario, totals),
        returned: produced.iter().map(|one| one.returned).sum(),
        unknown_confirms: produced.iter().map(|one| one.unknown_confirms).sum(),
        ..said(scenario, consumed)
    };
    let promised = if scenario.clients.window > 0 { totals.confirmed } else { totals.sent };
    if consumed.is_empty() {
        // A topic without subscribers keeps nothing.
        found.lost = held.filter(|_| !scenario.is_topic()).map_or(0, |held| promised.saturating_sub(held));
    } else if found.check == Check::Counted {
        let receipts = |messages: u64| messages / scenario.selects() * scenario.copies();
        found.lost = receipts(promised).saturating_sub(totals.received);
        found.duplicated = totals.received.saturating_sub(receipts(totals.sent));
    } else {
        for producer in produced {
            sequences(scenario, producer, consumed, &mut found);
        }
    }
    Ok(found)
}

/// Messages whose fate the broker did not tell, though it was asked.
fn unsettled(scenario: &Scenario, totals: &Totals) -> u64 {
    if scenario.clients.window == 0 { 0 } else { totals.sent.saturating_sub(totals.confirmed + totals.refused) }
}

/// Compares what consumers took from one queue with what each producer was promised earlier,
/// perhaps by another process.
pub(crate) fn audit_drain(scenario: &Scenario, promised: &[Numbers], consumed: &[Consumed]) -> Integrity {
    let mut found = said(scenario, consumed);
    for (id, promised) in promised.iter().enumerate() {
        let received = join(&mut found, id, consumed.iter());
        found.lost += promised.missing_from(&received);
    }
    found
}

/// What `consumed` says by itfound.
fn said(scenario: &Scenario, consumed: &[Consumed]) -> Integrity {
    let mut damages = Damages::default();
    for one in consumed {
        damages.length += one.damages.length;
        damages.stamp += one.damages.stamp;
        damages.filling += one.damages.filling;
    }
    Integrity {
        check: if consumed.is_empty() { Check::Counted } else { scenario.check_of_bodies() },
        lost: 0,
        duplicated: 0,
        unselected: 0,
        reordered: 0,
        corrupted: damages.total(),
        damages,
        refused: 0,
        unsettled: 0,
        returned: 0,
        unknown_confirms: 0,
        redelivered: consumed.iter().map(|one| one.redelivered).sum(),
    }
}

/// Joins what the consumers of one queue saw of the producer `id`, and counts what is wrong
/// with it.
fn join<'a>(found: &mut Integrity, id: usize, consumed: impl Iterator<Item = &'a Consumed>) -> Numbers {
    let mut received = Numbers::default();
    for seen in consumed.filter_map(|one| one.seen.get(id)) {
        found.duplicated += seen.duplicated + received.merge(&seen.numbers);
        found.reordered += seen.reordered;
    }
    received
}

/// Compares what one producer sent with what each queue that it sends to gave out.
fn sequences(scenario: &Scenario, producer: &Produced, consumed: &[Consumed], found: &mut Integrity) {
    let id = usize::from(producer.id);
    let (groups, selects) = (scenario.groups(), scenario.selects());
    for queue in (0..groups).filter(|queue| scenario.copies_all() || id % groups == *queue) {
        let received = join(found, id, consumed.iter().filter(|one| one.queue == queue));
        if selects > 1 {
            found.unselected += received.count() - received.multiples(selects).count();
        }
        found.lost += match (scenario.clients.window, selects) {
            (0, _) => (producer.sent / selects).saturating_sub(received.count()),
            (_, 1) => producer.confirmed.missing_from(&received),
            _ => producer.confirmed.multiples(selects).missing_from(&received),
        };
    }
}

/// The integrity of a ping-pong run: each message came back once.
pub(crate) fn audit_round_trips(scenario: &Scenario, totals: &Totals, near: &Consumed) -> Integrity {
    let (check, seen) = (scenario.check_of_bodies(), near.seen.first());
    let (back, duplicated) = match (check, seen) {
        (Check::Counted, _) | (_, None) => (totals.received, totals.received.saturating_sub(totals.sent)),
        (_, Some(seen)) => (seen.numbers.count(), seen.duplicated),
    };
    Integrity {
        check,
        lost: totals.sent.saturating_sub(back),
        duplicated,
        unselected: 0,
        reordered: seen.map_or(0, |seen| seen.reordered),
        corrupted: near.damages.total(),
        damages: near.damages,
        refused: 0,
        unsettled: 0,
        returned: 0,
        unknown_confirms: 0,
        redelivered: near.redelivered,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::measure::sequence::Seen;
    use bench_record::latency::Latency;

    #[test]
    fn answers_that_come_twice_are_counted_without_numbers_too() {
        let scenario = Scenario::default().with(|s| s.message.size = 4);
        let near = Consumed::new(0, vec![Seen::default()]).unwrap();
        let totals = Totals { sent: 10, received: 11, ..Totals::default() };
        let found = audit_round_trips(&scenario, &totals, &near);
        assert_eq!((found.check, found.lost, found.duplicated), (Check::Counted, 0, 1));
    }

    /// A broker that took the argument of a selector and did not know it came out three times as
    /// fast as one that selected.
    #[test]
    fn messages_that_no_selector_asked_for_are_found() {
        let scenario = Scenario::default().with(|s| {
            (s.clients.selector, s.clients.window) = (Some(10), 1);
            s.message.size = 64;
        });
        for (received, [lost, unselected]) in
            [((1..=100).collect::<Vec<u64>>(), [0, 90]), ((1..=9).map(|n| n * 10).collect(), [1, 0])]
        {
            let mut seen = Seen::up_to(100);
            received.iter().for_each(|number| assert!(seen.take(*number)));
            let consumed = Consumed::new(0, vec![seen]).unwrap();
            let produced = Produced {
                id: 0,
                sent: 100,
                refused: 0,
                confirmed: Numbers::up_to(100),
                returned: 0,
                unknown_confirms: 0,
                confirm: Latency::new().unwrap(),
                lateness: Latency::new().unwrap(),
            };
            let found = audit(&scenario, &Totals::default(), &[produced], &[consumed], None).unwrap();
            assert_eq!([found.lost, found.unselected], [lost, unselected]);
        }
    }
}
