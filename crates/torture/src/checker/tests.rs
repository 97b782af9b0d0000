//! The checker's own test: what a sound broker does passes, and each way of spoiling a history is
//! flagged every time.

mod model;

use super::*;
use crate::properties::Shown;
use crate::random::Random;
use crate::stamp::DeliveryMode;
use crate::topology::{
    DEAD, FULL, GROUPS, LAST, LATER, OVER, PARKED, PLAIN, RANKS, RETRIED, SHORT, SINGLE, SPILL, SPILT, TRANSIENT, WORK,
};

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
    let draining = history.iter().rposition(|event| matches!(event, Event::Draining(_))).unwrap_or(0);
    deliveries(history).into_iter().filter(|(at, ..)| *at > draining).collect()
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

fn first_delivery(queue: usize, stamp: Stamp) -> Event {
    Event::Deliver { consumer: 9999, queue, redelivered: false, content: Ok(stamp) }
}

fn redelivery(queue: usize, stamp: Stamp) -> Event {
    Event::Deliver { consumer: 9999, queue, redelivered: true, content: Ok(stamp) }
}

fn stamp_of(history: &[Event], name: Id) -> Option<Stamp> {
    history.iter().find_map(|event| match event {
        Event::Attempt { stamp, .. } if stamp.id == name => Some(*stamp),
        _ => None,
    })
}

/// What was rejected may have come back, and what was not confirmed at a kill may have been lost
/// and sent again.
fn may_be_new_again(history: &[Event], place: usize, name: Id) -> bool {
    let is_rejection = |event: &Event| match event {
        Event::Settle { queue, id, outcome, .. } => (*queue, *id, *outcome) == (place, name, Outcome::Rejected),
        _ => false,
    };
    let before_kill = history.iter().take_while(|event| **event != Event::Killed);
    let confirmed = before_kill.into_iter().any(|event| *event == Event::Confirm(name));
    (QUEUES[place].redriven && history.iter().any(is_rejection)) || (QUEUES[place].sifts && !confirmed)
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
    let new = |(_, queue, id, redelivered): &(usize, usize, Id, bool)| {
        !redelivered && source_of(*queue).is_none() && !may_be_new_again(history, *queue, *id)
    };
    let places: Vec<_> = deliveries(history).into_iter().filter(new).collect();
    any(random, &places).map(|(at, ..)| with(history, at + 1, history[at].clone()))
}

fn flip_redelivered(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let again = |(_, queue, id, redelivered): &(usize, usize, Id, bool)| {
        *redelivered && source_of(*queue).is_none() && !may_be_new_again(history, *queue, *id)
    };
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
            let same = next.producer == id.producer && QUEUES[*queue].rank(next.seq) == QUEUES[*queue].rank(id.seq);
            !again && other == queue && same && of(*after) == of(*at)
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

/// A message that was given back does not return to its place.
fn give_back_to_the_end(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let all = drained(history);
    let mut places = Vec::new();
    for (number, (at, queue, id, redelivered)) in all.iter().enumerate() {
        let behind = |(_, other, next, _): &&(usize, usize, Id, bool)| {
            let same = next.producer == id.producer && QUEUES[*queue].rank(next.seq) == QUEUES[*queue].rank(id.seq);
            other == queue && same
        };
        if let (true, true, Some(next)) = (*redelivered, QUEUES[*queue].ordered, all[number + 1..].iter().find(behind))
        {
            places.push((*at, next.0));
        }
    }
    let (first, second) = any(random, &places)?;
    let mut changed = history.to_vec();
    changed.swap(first, second);
    Some(changed)
}

/// What one consumer holds comes to another one.
fn deliver_held(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, queue, id, _) = any(random, &deliveries(history))?;
    Some(with(history, at + 1, redelivery(queue, stamp_of(history, id)?)))
}

fn resurrect(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (_, queue, id, _) = any(random, &drained(history))?;
    Some(with(history, history.len(), redelivery(queue, stamp_of(history, id)?)))
}

/// What is settled in a dead-letter queue comes back to the queue before it.
fn resurrect_moved(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let moved: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == DEAD).collect();
    let (_, _, id, _) = any(random, &moved)?;
    Some(with(history, history.len(), redelivery(WORK, stamp_of(history, id)?)))
}

/// What was accepted turns up in the dead-letter queue.
fn dead_letter_accepted(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let kept: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == SHORT).collect();
    let (_, _, id, _) = any(random, &kept)?;
    Some(with(history, history.len(), first_delivery(SPILL, stamp_of(history, id)?)))
}

/// A message that was redriven is also where it was.
fn leave_a_copy(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let back: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == RETRIED).collect();
    let (_, _, id, _) = any(random, &back)?;
    Some(with(history, history.len(), first_delivery(PARKED, stamp_of(history, id)?)))
}

/// A message that was confirmed before a kill and delivered, and so must not be new again though it
/// was sent again.
fn forget_an_id(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let killed = history.iter().rposition(|event| *event == Event::Killed)?;
    let known = |(at, queue, id, _): &(usize, usize, Id, bool)| {
        *at < killed && *queue == LATER && history[..*at].contains(&Event::Confirm(*id))
    };
    let places: Vec<_> = deliveries(history).into_iter().filter(known).collect();
    let (_, _, id, _) = any(random, &places)?;
    Some(with(history, killed + 1, first_delivery(LATER, stamp_of(history, id)?)))
}

/// What has a lower priority goes first.
fn swap_ranks(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let ranked: Vec<_> = drained(history).into_iter().filter(|(_, queue, ..)| *queue == RANKS).collect();
    let rank = |id: Id| QUEUES[RANKS].rank(id.seq);
    let pairs = ranked.windows(2).filter(|pair| rank(pair[0].2) > rank(pair[1].2)).map(|pair| (pair[0].0, pair[1].0));
    let (first, second) = any(random, &pairs.collect::<Vec<_>>())?;
    let mut changed = history.to_vec();
    changed.swap(first, second);
    Some(changed)
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
    Some(with(history, at, first_delivery(wrong, stamp)))
}

/// A delivery lacks one of its properties, or shows those of another message.
fn change_properties(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, queue, id, _) = any(random, &deliveries(history))?;
    let stamp = stamp_of(history, id)?;
    let mut shown = Shown::sound(queue, &stamp, &[]);
    if random.chance(50) {
        shown.fields.remove(random.below(shown.fields.len() as u64) as usize);
    } else {
        let id = Id { seq: id.seq + 1, ..id };
        shown = Shown::sound(queue, &Stamp { id, ..stamp }, &[]);
    }
    let what = shown.difference(queue, &stamp)?;
    Some(with(history, at + 1, Event::Changed { queue, id, what }))
}

/// A count of the history, and what it may be.
fn counted(history: &[Event], random: &mut Random, fits: impl Fn(u64, u64) -> bool) -> Option<(usize, u64, u64)> {
    let mut checker = Checker::default();
    let mut places = Vec::new();
    for (at, event) in history.iter().enumerate() {
        if let Event::Counted { queue, .. } = event {
            let (least, most) = checker.bounds(*queue);
            places.extend(fits(least, most).then_some((at, least, most)));
        }
        checker.apply(event);
    }
    any(random, &places)
}

fn recount(history: &[Event], at: usize, count: u64) -> Option<Vec<Event>> {
    let mut changed = history.to_vec();
    let Event::Counted { ready, moved, .. } = &mut changed[at] else { return None };
    (*ready, *moved) = (0, count);
    Some(changed)
}

/// A queue holds less than must be there.
fn count_too_few(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, least, _) = counted(history, random, |least, _| least > 0)?;
    recount(history, at, least - 1)
}

/// A message is there twice.
fn count_too_many(history: &[Event], random: &mut Random) -> Option<Vec<Event>> {
    let (at, _, most) = counted(history, random, |_, most| most > 0)?;
    recount(history, at, most + 1)
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
    Some(with(history, at, first_delivery(members(stamp.queues).next()?, stamp)))
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
    Some(with(history, history.len(), redelivery(queue, stamp_of(history, id)?)))
}

/// What is given back while the broker lives is in its place as soon as all consumers are gone;
/// before that it may be on its way.
#[test]
fn what_was_given_back_comes_in_its_place_again() {
    let ids = [0, 1, 2].map(|seq| Id { producer: 1, seq });
    let stamp = |id| Stamp { id, transaction: None, queues: 1 << PLAIN, due: 0 };
    let deliver =
        |consumer, redelivered, id| Event::Deliver { consumer, queue: PLAIN, redelivered, content: Ok(stamp(id)) };
    let settle = |consumer, id, outcome| Event::Settle { consumer, queue: PLAIN, id, outcome, transaction: None };
    let mut taken = Vec::new();
    for id in ids {
        taken.extend([Event::Attempt { stamp: stamp(id), mode: DeliveryMode::Persistent }, Event::Confirm(id)]);
    }
    taken.extend([deliver(2, false, ids[0]), deliver(2, false, ids[1]), settle(2, ids[0], Outcome::Released)]);
    taken.push(Event::Left(2));
    for (order, at_rest, sound) in [
        ([0, 1, 2], true, true),
        ([1, 0, 2], true, false),
        ([1, 2, 0], true, false),
        ([2, 0, 1], true, false),
        ([2, 0, 1], false, true),
    ] {
        let mut history = taken.clone();
        history.extend(at_rest.then_some(Event::AtRest));
        history.push(Event::Draining(3));
        for at in order {
            history.extend([deliver(3, at < 2, ids[at]), settle(3, ids[at], Outcome::Accepted)]);
        }
        let found: Vec<Invariant> = check(&history).iter().map(|violation| violation.invariant).collect();
        assert_eq!(found.is_empty(), sound, "{order:?}: {found:?}");
        assert!(found.iter().all(|invariant| *invariant == Invariant::Order), "{order:?}: {found:?}");
    }
}

/// What would not survive a kill is kept as long as the broker lives.
#[test]
fn transients_are_lost_by_a_kill_alone() {
    for (queue, mode) in [(TRANSIENT, DeliveryMode::Persistent), (PLAIN, DeliveryMode::Transient)] {
        let id = Id { producer: 1, seq: 0 };
        let stamp = Stamp { id, transaction: None, queues: 1 << queue, due: 0 };
        let attempt = Event::Attempt { stamp, mode };
        let accept = Event::Settle { consumer: 2, queue, id, outcome: Outcome::Accepted, transaction: None };
        let taken = [Event::Deliver { consumer: 2, queue, redelivered: false, content: Ok(stamp) }, accept];
        let confirmed = [attempt.clone(), Event::Confirm(id)];
        for (name, history, sound) in [
            ("lost while the broker lives", confirmed.to_vec(), false),
            ("taken", [&confirmed[..], &taken].concat(), true),
            ("killed", [&confirmed[..], &[Event::Killed]].concat(), true),
            (
                "killed after it was lost from a consumer",
                [&confirmed[..], &taken[..1], &[Event::Killed]].concat(),
                true,
            ),
            ("never confirmed", vec![attempt], true),
        ] {
            let found: Vec<Invariant> = check(&history).iter().map(|violation| violation.invariant).collect();
            assert_eq!(found, if sound { vec![] } else { vec![Invariant::Lost] }, "{name}");
        }
    }
}

/// What waits in a queue while consumers wait for it is stalled, and so is what came and was not
/// settled.
#[test]
fn what_does_not_come_in_time_is_stalled() {
    let id = Id { producer: 1, seq: 0 };
    let stamp = Stamp { id, transaction: None, queues: 1 << WORK, due: 0 };
    let attempt = Event::Attempt { stamp, mode: DeliveryMode::Persistent };
    let come = |queue| Event::Deliver { consumer: 2, queue, redelivered: false, content: Ok(stamp) };
    let settle = |queue, outcome| Event::Settle { consumer: 2, queue, id, outcome, transaction: None };
    let accepted = [come(WORK), settle(WORK, Outcome::Accepted)];
    let rejected = [come(WORK), settle(WORK, Outcome::Rejected)];
    let dead = [come(DEAD), settle(DEAD, Outcome::Accepted)];
    for (name, confirmed, happened, sound) in [
        ("nothing came", true, vec![], false),
        ("nothing was confirmed", false, vec![], true),
        ("it came", true, accepted.to_vec(), true),
        ("it was given back", true, vec![come(WORK), settle(WORK, Outcome::Released)], false),
        ("it never came to where dead letters go", true, rejected.to_vec(), false),
        ("it came there", true, [rejected, dead].concat(), true),
    ] {
        let mut history = vec![attempt.clone()];
        history.extend(confirmed.then_some(Event::Confirm(id)));
        history.extend(happened);
        history.push(Event::Overdue);
        let mut checker = Checker::default();
        history.iter().for_each(|event| checker.apply(event));
        let found: Vec<Invariant> = checker.violations().iter().map(|violation| violation.invariant).collect();
        assert_eq!(found, if sound { vec![] } else { vec![Invariant::Stalled] }, "{name}");
        assert_eq!(checker.outstanding() == 0, sound, "{name}");
    }
}

/// The next consumer of a queue with a single active one gets something when the first has gone,
/// and not before.
#[test]
fn one_consumer_at_a_time_is_active() {
    let stamps =
        [0, 1].map(|seq| Stamp { id: Id { producer: 1, seq }, transaction: None, queues: 1 << SINGLE, due: 0 });
    let deliver = |consumer, stamp| Event::Deliver { consumer, queue: SINGLE, redelivered: false, content: Ok(stamp) };
    let published = stamps.map(|stamp| Event::Attempt { stamp, mode: DeliveryMode::Persistent });
    for (between, consumer, sound) in [
        (None, 3, false),
        (None, 2, true),
        (Some(Event::Left(2)), 3, true),
        (Some(Event::Left(4)), 3, false),
        (Some(Event::AtRest), 3, true),
        (Some(Event::Killed), 3, true),
    ] {
        let mut history = published.to_vec();
        history.push(deliver(2, stamps[0]));
        history.extend(between.clone());
        history.push(deliver(consumer, stamps[1]));
        let found: Vec<Invariant> = check(&history).iter().map(|violation| violation.invariant).collect();
        assert_eq!(found, if sound { vec![] } else { vec![Invariant::Single] }, "{between:?}, {consumer}");
    }
}

/// A group stays with its consumer, and another group may have another one.
#[test]
fn one_consumer_at_a_time_has_a_group() {
    // The first and the last of these are of one group.
    let stamps =
        [0, 1, 5].map(|seq| Stamp { id: Id { producer: 1, seq }, transaction: None, queues: 1 << GROUPS, due: 0 });
    let deliver = |consumer, stamp| Event::Deliver { consumer, queue: GROUPS, redelivered: false, content: Ok(stamp) };
    let published = stamps.map(|stamp| Event::Attempt { stamp, mode: DeliveryMode::Persistent });
    for (second, third, sound) in [(3, 2, true), (2, 2, true), (2, 3, false), (3, 3, false)] {
        let mut history = published.to_vec();
        history.extend([deliver(2, stamps[0]), deliver(second, stamps[1]), deliver(third, stamps[2])]);
        let found: Vec<Invariant> = check(&history).iter().map(|violation| violation.invariant).collect();
        assert_eq!(found, if sound { vec![] } else { vec![Invariant::Single] }, "{second}, {third}");
    }
}

/// The later message with a key may have taken the place of the earlier one: of these two one is
/// there, and no more.
#[test]
fn the_last_message_of_a_key_is_not_missing() {
    let ids = [0, 3].map(|seq| Id { producer: 1, seq });
    let stamp = |id| Stamp { id, transaction: None, queues: 1 << LAST, due: 0 };
    let mut history = Vec::new();
    for id in ids {
        history.extend([Event::Attempt { stamp: stamp(id), mode: DeliveryMode::Persistent }, Event::Confirm(id)]);
    }
    let accept = |id| Event::Settle { consumer: 2, queue: LAST, id, outcome: Outcome::Accepted, transaction: None };
    let come = |id| Event::Deliver { consumer: 2, queue: LAST, redelivered: false, content: Ok(stamp(id)) };
    let drain = Event::Draining(2);
    let counted = |ready| Event::Counted { queue: LAST, ready, moved: 0 };
    for (happened, expected) in [
        (vec![accept(ids[1])], None),
        (vec![accept(ids[0])], Some(Invariant::Lost)),
        (vec![counted(1), accept(ids[1])], None),
        (vec![counted(2), accept(ids[1])], Some(Invariant::Count)),
        (vec![counted(0), accept(ids[1])], Some(Invariant::Count)),
        (vec![Event::AtRest, drain.clone(), come(ids[1]), accept(ids[1])], None),
        (vec![Event::AtRest, drain, come(ids[0]), come(ids[1]), accept(ids[1])], Some(Invariant::Replaced)),
    ] {
        let found = check(&[&history[..], &happened].concat());
        assert_eq!(found.first().map(|violation| violation.invariant), expected, "{happened:?}");
    }
}

/// What a full queue refused and moved on is behind it, and not in it.
#[test]
fn what_was_refused_and_moved_comes_from_where_dead_letters_go() {
    let id = Id { producer: 1, seq: 0 };
    let stamp = Stamp { id, transaction: None, queues: 1 << OVER, due: 0 };
    let published = [Event::Attempt { stamp, mode: DeliveryMode::Persistent }, Event::Refuse(id)];
    let deliver = |queue| Event::Deliver { consumer: 2, queue, redelivered: false, content: Ok(stamp) };
    for (event, expected) in [
        (deliver(SPILT), None),
        (deliver(OVER), Some(Invariant::Phantom)),
        (Event::Counted { queue: OVER, ready: 0, moved: 1 }, None),
        (Event::Counted { queue: OVER, ready: 0, moved: 2 }, Some(Invariant::Count)),
    ] {
        let found = check(&[&published[..], &[event]].concat());
        assert_eq!(found.first().map(|violation| violation.invariant), expected);
    }
}

/// What a full queue refused is not in it, neither delivered nor counted.
#[test]
fn what_was_refused_does_not_come() {
    let id = Id { producer: 1, seq: 0 };
    let stamp = Stamp { id, transaction: None, queues: 1 << FULL, due: 0 };
    let deliver = Event::Deliver { consumer: 2, queue: FULL, redelivered: false, content: Ok(stamp) };
    let counted = |ready| Event::Counted { queue: FULL, ready, moved: 0 };
    for (answer, event, expected) in [
        (Event::Confirm(id), deliver.clone(), None),
        (Event::Refuse(id), deliver, Some(Invariant::Phantom)),
        (Event::Confirm(id), counted(1), None),
        (Event::Refuse(id), counted(1), Some(Invariant::Count)),
        (Event::Refuse(id), counted(0), None),
    ] {
        let mut checker = Checker::default();
        [Event::Attempt { stamp, mode: DeliveryMode::Persistent }, answer, event]
            .iter()
            .for_each(|event| checker.apply(event));
        let found = checker.violations().first().map(|violation| violation.invariant);
        assert_eq!(found, expected);
    }
}

/// A queue with a limit keeps so many and moves the rest on.
#[test]
fn a_queue_holds_no_more_than_its_limit() {
    let limit = QUEUES[SHORT].max_length.unwrap() as u64;
    let mut history = Vec::new();
    for id in (0..=limit).map(|seq| Id { producer: 1, seq }) {
        let stamp = Stamp { id, transaction: None, queues: 1 << SHORT, due: 0 };
        history.extend([Event::Attempt { stamp, mode: DeliveryMode::Persistent }, Event::Confirm(id)]);
    }
    history.push(Event::Killed);
    for (ready, moved, sound) in
        [(limit, 1, true), (limit + 1, 0, false), (limit, 0, false), (limit, 2, false), (0, limit + 1, true)]
    {
        let mut checker = Checker::default();
        history.iter().for_each(|event| checker.apply(event));
        checker.apply(&Event::Counted { queue: SHORT, ready, moved });
        let found: Vec<Invariant> = checker.violations().iter().map(|violation| violation.invariant).collect();
        assert_eq!(found, if sound { vec![] } else { vec![Invariant::Count] }, "{ready} and {moved}");
    }
}

/// One consumer rejects a message; it is sent back, and another one accepts it. What the first one
/// is then told says nothing of what the second one did.
#[test]
fn the_answer_to_a_rejection_does_not_stand_for_what_came_after_it() {
    let id = Id { producer: 1, seq: 0 };
    let stamp = Stamp { id, transaction: None, queues: 1 << RETRIED, due: 0 };
    let deliver = |consumer, redelivered| Event::Deliver { consumer, queue: RETRIED, redelivered, content: Ok(stamp) };
    let settle = |consumer, outcome| Event::Settle { consumer, queue: RETRIED, id, outcome, transaction: None };
    let mut history = vec![
        Event::Attempt { stamp, mode: DeliveryMode::Persistent },
        Event::Confirm(id),
        deliver(2, false),
        settle(2, Outcome::Rejected),
        Event::FenceAsked { consumer: 2, fence: 1, kind: Fence::Purge },
        Event::Redriven(1),
        deliver(3, false),
        settle(3, Outcome::Accepted),
        Event::FenceAsked { consumer: 3, fence: 2, kind: Fence::DeclareExchange },
        Event::FenceReplied { consumer: 2, fence: 1 },
    ];
    let back = [Event::Killed, deliver(4, true), settle(4, Outcome::Accepted)];
    let sound = [&history[..], &back].concat();
    assert_eq!(check(&sound), []);
    history.push(Event::FenceReplied { consumer: 3, fence: 2 });
    let spoilt = [&history[..], &back].concat();
    let found = check(&spoilt);
    assert_eq!(found.first().map(|violation| violation.invariant), Some(Invariant::AfterFence));
    assert!(found[0].what.contains("DeclareExchange"), "the reply that let it back is named: {}", found[0]);
}

/// Receipts of different kinds may overtake each other: one that comes late says nothing of what
/// was settled after its question.
#[test]
fn an_answer_that_was_overtaken_fences_nothing_more() {
    let ids = [0, 1, 2].map(|seq| Id { producer: 1, seq });
    let stamp = |id| Stamp { id, transaction: None, queues: 1 << PLAIN, due: 0 };
    let mut history = Vec::new();
    for (number, id) in ids.into_iter().enumerate() {
        let (consumer, queue, stamp) = (2, PLAIN, stamp(id));
        history.push(Event::Attempt { stamp, mode: DeliveryMode::Persistent });
        history.push(Event::Deliver { consumer, queue, redelivered: false, content: Ok(stamp) });
        history.push(Event::Settle { consumer, queue, id, outcome: Outcome::Accepted, transaction: None });
        history.push(Event::FenceAsked { consumer, fence: number as u64, kind: Fence::SendReceipt });
    }
    history.extend([1, 0].map(|fence| Event::FenceReplied { consumer: 2, fence }));
    history.push(Event::Killed);
    let again = |id| Event::Deliver { consumer: 3, queue: PLAIN, redelivered: true, content: Ok(stamp(id)) };
    for (id, expected) in [(ids[0], true), (ids[1], true), (ids[2], false)] {
        let found = check(&[&history[..], &[again(id)]].concat());
        assert_eq!(found.iter().any(|violation| violation.invariant == Invariant::AfterFence), expected, "{id}");
    }
}

/// What carries an id and was not confirmed at a kill is sent again: it is new if the first copy
/// was lost, and must not be if that one had been confirmed.
#[test]
fn what_is_sent_again_is_new_if_it_was_not_confirmed() {
    let id = Id { producer: 1, seq: 0 };
    let stamp = Stamp { id, transaction: None, queues: 1 << LATER, due: 0 };
    let deliver = |consumer| Event::Deliver { consumer, queue: LATER, redelivered: false, content: Ok(stamp) };
    let accept = Event::Settle { consumer: 3, queue: LATER, id, outcome: Outcome::Accepted, transaction: None };
    let attempt = Event::Attempt { stamp, mode: DeliveryMode::Persistent };
    let lost = [attempt.clone(), deliver(2), Event::Killed, Event::Confirm(id), deliver(3), accept.clone()];
    assert_eq!(check(&lost), []);
    let kept = [attempt, Event::Confirm(id), deliver(2), Event::Killed, deliver(3), accept];
    assert_eq!(check(&kept).first().map(|violation| violation.invariant), Some(Invariant::Duplicate));
}

const SPOILS: [(&str, Spoil, &[Invariant]); 23] = [
    ("drop", drop_confirmed, &[Invariant::Lost]),
    ("drop a redelivery", drop_redelivery, &[Invariant::Lost]),
    ("drop a dead letter", drop_dead_letter, &[Invariant::Lost]),
    ("deliver twice", deliver_twice, &[Invariant::Duplicate]),
    ("flip redelivered", flip_redelivered, &[Invariant::Duplicate]),
    // The later one may not even have been published yet.
    ("swap", swap_two, &[Invariant::Order, Invariant::Phantom]),
    ("give back to the end", give_back_to_the_end, &[Invariant::Order]),
    ("deliver what is held", deliver_held, &[Invariant::Twice]),
    ("resurrect", resurrect, &[Invariant::AfterFence]),
    ("resurrect after a move", resurrect_moved, &[Invariant::AfterFence]),
    ("dead-letter what was accepted", dead_letter_accepted, &[Invariant::AfterFence]),
    ("leave a copy", leave_a_copy, &[Invariant::AfterFence, Invariant::Phantom]),
    ("forget an id", forget_an_id, &[Invariant::Duplicate, Invariant::AfterFence]),
    ("swap ranks", swap_ranks, &[Invariant::Priority]),
    ("corrupt", corrupt, &[Invariant::Phantom]),
    ("change properties", change_properties, &[Invariant::Changed]),
    ("count too few", count_too_few, &[Invariant::Count]),
    ("count too many", count_too_many, &[Invariant::Count]),
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
