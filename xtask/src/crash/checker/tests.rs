//! The checker's own test: what a sound broker does passes, and each way of spoiling a history is flagged every time.

mod model;

use super::*;
use crate::crash::random::Random;
use crate::crash::topology::{DEAD, PLAIN, SHORT, SPILL, WORK};

/// The violations of a history that ends drained.
fn check(history: &[Event]) -> Vec<Violation> {
    let mut checker = Checker::default();
    history.iter().for_each(|event| checker.apply(event));
    checker.finish(u32::MAX);
    checker.violations().to_vec()
}

/// The places of a history where a message is delivered, with queue, name and flag.
fn deliveries(history: &[Event]) -> Vec<(usize, usize, Id, bool)> {
    let found = history.iter().enumerate().filter_map(|(at, event)| match event {
        Event::Deliver { queue, redelivered, content: Ok(stamp), .. } => Some((at, *queue, stamp.id, *redelivered)),
        _ => None,
    });
    found.collect()
}

/// The same, of the drain alone, in which everything is accepted and fenced.
fn drained(history: &[Event]) -> Vec<(usize, usize, Id, bool)> {
    let killed = history.iter().rposition(|event| *event == Event::Killed).unwrap_or(0);
    deliveries(history).into_iter().filter(|(at, ..)| *at > killed).collect()
}

/// The history without what happened to one message in one queue.
fn without(history: &[Event], place: usize, name: Id) -> Vec<Event> {
    let concerns = |event: &&Event| match event {
        Event::Deliver { queue, content: Ok(stamp), .. } => *queue == place && stamp.id == name,
        Event::Settle { queue, id, .. } => *queue == place && *id == name,
        _ => false,
    };
    history.iter().filter(|event| !concerns(event)).cloned().collect()
}

fn with(history: &[Event], at: usize, event: Event) -> Vec<Event> {
    let mut changed = history.to_vec();
    changed.insert(at, event);
    changed
}

fn delivery(queue: usize, redelivered: bool, stamp: Stamp) -> Event {
    Event::Deliver { consumer: 9999, queue, redelivered, content: Ok(stamp) }
}

fn stamp_of(history: &[Event], name: Id) -> Option<Stamp> {
    history.iter().find_map(|event| match event {
        Event::Attempt { stamp, .. } if stamp.id == name => Some(*stamp),
        _ => None,
    })
}

fn is_confirmed(history: &[Event], name: Id) -> bool {
    history.contains(&Event::Confirm(name))
}

/// One way to spoil a history: the spoilt one, if it has a place for it.
type Spoil = fn(&[Event], &mut Random) -> Option<Vec<Event>>;

/// One of the places that fit, if any does.
fn any<T: Copy>(random: &mut Random, places: &[T]) -> Option<T> {
    (!places.is_empty()).then(|| *random.pick(places))
}

fn drop_confirmed(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let fits = |(_, queue, id, _): &(usize, usize, Id, bool)| {
        QUEUES[*queue].dead_letter.is_none() && source_of(*queue).is_none() && is_confirmed(history, *id)
    };
    let places: Vec<_> = deliveries(history).into_iter().filter(fits).collect();
    any(random, &places).map(|(_, queue, id, _)| without(history, queue, id))
}

/// A message that was delivered, not settled, and should have come again.
fn drop_redelivery(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = deliveries(history);
    let fits = |(at, queue, id, redelivered): &(usize, usize, Id, bool)| {
        let settled = history[..*at].iter().any(|event| match event {
            Event::Settle { queue: other, id: name, outcome, .. } => {
                (other, name) == (queue, id) && *outcome != Outcome::Released
            }
            _ => false,
        });
        let last = all.iter().rfind(|(_, other, name, _)| (other, name) == (queue, id));
        *redelivered && !settled && *queue == PLAIN && is_confirmed(history, *id) && last.is_some_and(|l| l.0 == *at)
    };
    let places: Vec<_> = all.iter().filter(|place| fits(place)).copied().collect();
    let (at, queue, id, _) = any(random, &places)?;
    let mut changed = history[..at].to_vec();
    changed.extend(without(&history[at..], queue, id));
    Some(changed)
}

fn drop_dead_letter(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let confirmed = |(_, queue, id, _): &(usize, usize, Id, bool)| *queue == DEAD && is_confirmed(history, *id);
    let places: Vec<_> = deliveries(history).into_iter().filter(confirmed).collect();
    any(random, &places).map(|(_, queue, id, _)| without(history, queue, id))
}

fn deliver_twice(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let new = |(_, queue, _, redelivered): &(usize, usize, Id, bool)| !redelivered && source_of(*queue).is_none();
    let places: Vec<_> = deliveries(history).into_iter().filter(new).collect();
    any(random, &places).map(|(at, ..)| with(history, at + 1, history[at].clone()))
}

fn flip_redelivered(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let again = |(_, queue, _, redelivered): &(usize, usize, Id, bool)| *redelivered && source_of(*queue).is_none();
    let places: Vec<_> = deliveries(history).into_iter().filter(again).collect();
    let (at, ..) = any(random, &places)?;
    let mut changed = history.to_vec();
    if let Event::Deliver { redelivered, .. } = &mut changed[at] {
        *redelivered = false;
    }
    Some(changed)
}

fn swap_two(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = deliveries(history);
    let of = |at: usize| match &history[at] {
        Event::Deliver { consumer, .. } => *consumer,
        _ => 0,
    };
    let mut places = Vec::new();
    for (number, (at, queue, id, redelivered)) in all.iter().enumerate() {
        let follows = |(after, other, next, again): &&(usize, usize, Id, bool)| {
            !again && other == queue && next.producer == id.producer && of(*after) == of(*at)
        };
        if let (false, true, Some(next)) = (redelivered, QUEUES[*queue].ordered, all[number + 1..].iter().find(follows))
        {
            places.push((*at, next.0));
        }
    }
    let (first, second) = any(random, &places)?;
    let mut changed = history.to_vec();
    changed.swap(first, second);
    Some(changed)
}

fn resurrect(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (_, queue, id, _) = any(random, &drained(history))?;
    Some(with(history, history.len(), delivery(queue, true, stamp_of(history, id)?)))
}

/// What is settled in a dead-letter queue comes back to the queue before it.
fn resurrect_moved(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let moved: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == DEAD).collect();
    let (_, _, id, _) = any(random, &moved)?;
    Some(with(history, history.len(), delivery(WORK, true, stamp_of(history, id)?)))
}

/// What was accepted turns up in the dead-letter queue.
fn dead_letter_accepted(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let kept: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == SHORT).collect();
    let (_, _, id, _) = any(random, &kept)?;
    Some(with(history, history.len(), delivery(SPILL, false, stamp_of(history, id)?)))
}

fn corrupt(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, ..) = any(random, &deliveries(history))?;
    let mut changed = history.to_vec();
    if let Event::Deliver { content, .. } = &mut changed[at] {
        *content = Err(Damage::Seal);
    }
    Some(changed)
}

fn misroute(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, _, id, _) = any(random, &deliveries(history))?;
    let stamp = stamp_of(history, id)?;
    let wrong = (0..QUEUES.len()).find(|queue| source_of(*queue).is_none() && stamp.queues & 1 << queue == 0)?;
    Some(with(history, at, delivery(wrong, false, stamp)))
}

/// One message of a transaction is missing while others arrived.
fn halve(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let member = |(_, _, id, _): &(usize, usize, Id, bool)| {
        stamp_of(history, *id).is_some_and(|stamp| stamp.transaction.is_some())
    };
    let places: Vec<_> = deliveries(history).into_iter().filter(member).collect();
    any(random, &places).map(|(_, queue, id, _)| without(history, queue, id))
}

/// A message of a transaction is seen before its commit, or in spite of its abort.
fn show_early(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let ends = history.iter().enumerate().filter_map(|(at, event)| match event {
        Event::CommitAsked(number) => Some((at, *number)),
        Event::Aborted(number) => Some((at + 1, *number)),
        _ => None,
    });
    let (at, number) = any(random, &ends.collect::<Vec<_>>())?;
    let stamp = history.iter().find_map(|event| match event {
        Event::Attempt { stamp, .. } if stamp.transaction == Some(number) => Some(*stamp),
        _ => None,
    })?;
    Some(with(history, at, delivery(members(stamp.queues).next()?, false, stamp)))
}

/// What a transaction that did not happen had accepted does not come back.
fn lose_source(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let mut places = Vec::new();
    for (at, event) in history.iter().enumerate() {
        let Event::Settle { queue, id, transaction: Some(number), .. } = event else { continue };
        let asked = history.contains(&Event::CommitAsked(*number)) && !history.contains(&Event::Committed(*number));
        let again = |(_, place, name, _): &(usize, usize, Id, bool)| (place, name) == (queue, id);
        if asked && deliveries(&history[at..]).iter().any(again) {
            places.push((at + 1, *queue, *id));
        }
    }
    let (at, queue, id) = any(random, &places)?;
    let mut changed = history[..at].to_vec();
    changed.extend(without(&history[at..], queue, id));
    Some(changed)
}

/// What a transaction that happened had accepted comes back.
fn return_source(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let arrived = |number: u64| {
        deliveries(history)
            .iter()
            .any(|(_, _, id, _)| stamp_of(history, *id).is_some_and(|stamp| stamp.transaction == Some(number)))
    };
    let sources = history.iter().filter_map(|event| match event {
        Event::Settle { queue, id, transaction: Some(number), .. } if arrived(*number) => Some((*queue, *id)),
        _ => None,
    });
    let (queue, id) = any(random, &sources.collect::<Vec<_>>())?;
    Some(with(history, history.len(), delivery(queue, true, stamp_of(history, id)?)))
}

const SPOILS: [(&str, Spoil, &[Invariant]); 15] = [
    ("drop", drop_confirmed, &[Invariant::Lost]),
    ("drop a redelivery", drop_redelivery, &[Invariant::Lost]),
    ("drop a dead letter", drop_dead_letter, &[Invariant::Lost]),
    ("deliver twice", deliver_twice, &[Invariant::Duplicate]),
    ("flip redelivered", flip_redelivered, &[Invariant::Duplicate]),
    // The later one may not even have been published yet.
    ("swap", swap_two, &[Invariant::Order, Invariant::Phantom]),
    ("resurrect", resurrect, &[Invariant::AfterFence]),
    ("resurrect after a move", resurrect_moved, &[Invariant::AfterFence]),
    ("dead-letter what was accepted", dead_letter_accepted, &[Invariant::AfterFence]),
    ("corrupt", corrupt, &[Invariant::Phantom]),
    ("misroute", misroute, &[Invariant::Phantom]),
    ("half a transaction", halve, &[Invariant::Transaction]),
    ("show before the commit", show_early, &[Invariant::Transaction]),
    ("lose a source", lose_source, &[Invariant::Transaction, Invariant::Lost]),
    ("return a source", return_source, &[Invariant::Transaction, Invariant::AfterFence]),
];

#[test]
fn a_sound_history_passes() {
    for seed in 0..500 {
        let found = check(&model::history(seed));
        assert!(found.is_empty(), "seed {seed}: {}", found[0]);
    }
}

#[test]
fn every_spoilt_history_is_flagged() {
    for (name, spoil, expected) in SPOILS {
        let mut spoilt = 0;
        for seed in 0..300 {
            let history = model::history(seed);
            let Some(changed) = spoil(&history, &mut Random::new(seed)) else { continue };
            let found = check(&changed);
            let flagged = found.iter().any(|violation| expected.contains(&violation.invariant));
            assert!(flagged, "{name}, seed {seed}: found {found:?}");
            spoilt += 1;
        }
        assert!(spoilt > 20, "{name} was tried {spoilt} times only");
    }
}
