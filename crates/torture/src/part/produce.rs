//! A producer: publishes with confirms, with a window of publishes that are not confirmed yet.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{Stage, size};
use crate::history::Event;
use crate::random::Random;
use crate::stage::now_ms;
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::talk::{Broken, Heard, Numbers, Publish, Talk};
use crate::topology::{QUEUES, Route, members};

/// Of 100 messages with ids so many are sent once more at once, and so many are delayed, by so many
/// milliseconds at most.
const REPEATED: u64 = 10;
const DELAYED: u64 = 40;
const LONGEST_DELAY: u64 = 2500;

/// One connection that publishes.
pub(super) struct Producer<'a> {
    stage: &'a Stage,
    random: &'a mut Random,
    routes: &'static [Route],
    mode: DeliveryMode,
    producer: u32,
    /// The most publishes that wait for their confirms.
    window: usize,
    next: u64,
    /// The numbers of the publishes that are not confirmed, by which confirms name them.
    waiting: VecDeque<u64>,
    /// Publishes so far, what is sent again among them.
    sent: u64,
    /// What those are that carry ids: their stamps and sizes, by number.
    named: HashMap<u64, (Stamp, usize)>,
    /// What an earlier connection has left unconfirmed, to be sent again.
    again: Vec<(Stamp, usize)>,
}

impl<'a> Producer<'a> {
    pub(super) fn new(stage: &'a Stage, random: &'a mut Random, routes: &'static [Route], mode: DeliveryMode) -> Self {
        let window = *random.pick(&[1, 16, 64, 256]);
        let producer = stage.number();
        let again = if sifts(routes) { std::mem::take(&mut *stage.unsure()) } else { Vec::new() };
        Self {
            stage,
            random,
            routes,
            mode,
            producer,
            window,
            next: 0,
            waiting: VecDeque::new(),
            sent: 0,
            named: HashMap::new(),
            again,
        }
    }

    /// Publishes until `end` or until the connection breaks. What is not confirmed then, and
    /// carries an id, is sent again by the next producer: the broker may have it or not.
    pub(super) fn run(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        let outcome = self.publish_until(talk, end);
        let mut unsure = self.stage.unsure();
        unsure.append(&mut self.again);
        unsure.extend(self.waiting.iter().filter_map(|number| self.named.remove(number)));
        outcome
    }

    fn publish_until(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        while Instant::now() < end {
            let room = self.window - self.waiting.len();
            if room > 0 {
                let burst = self.random.within(1..=room as u64);
                self.publish(talk, burst);
            }
            let (mut confirmed, mut refused) = (Vec::new(), Vec::new());
            let waiting = &mut self.waiting;
            let wait = Duration::from_millis(if self.window > 1 { 2 } else { 20 });
            let outcome = talk.exchange(wait, &mut |heard| match heard {
                Heard::Confirmed(numbers) => take(waiting, numbers, &mut confirmed),
                Heard::Refused(numbers) => take(waiting, numbers, &mut refused),
                _ => {}
            });
            let mut events: Vec<_> = confirmed.into_iter().map(|number| Event::Confirm(self.id_of(number))).collect();
            events.extend(refused.into_iter().map(|number| Event::Refuse(self.id_of(number))));
            self.stage.tell(&events);
            outcome?;
        }
        Ok(())
    }

    /// The message of a publish.
    fn id_of(&mut self, number: u64) -> Id {
        match self.named.remove(&number) {
            Some((stamp, _)) => stamp.id,
            None => Id { producer: self.producer, seq: number - 1 },
        }
    }

    fn publish(&mut self, talk: &mut dyn Talk, burst: u64) {
        let mut events = Vec::new();
        for _ in 0..burst {
            if sifts(self.routes) {
                self.publish_named(talk, &mut events);
                continue;
            }
            let route = *self.random.pick(self.routes);
            let queue = &QUEUES[members(route.queues).next().unwrap_or_default()];
            // Where it dies of age, this is when.
            let ttl_ms = queue.ttl_ms.filter(|_| self.stage.delays());
            let stamp = self.stamp(route, ttl_ms.map_or(0, |ttl_ms| now_ms() + ttl_ms));
            let body = stamp.body(self.stage.run, size(self.random, self.stage.largest));
            let priority = queue.max_priority.map(|_| queue.rank(stamp.id.seq));
            talk.publish(&Publish { mode: self.mode, priority, ..Publish::persistent(route, &body) });
            events.push(Event::Attempt { stamp, mode: self.mode });
            self.sent += 1;
            self.waiting.push_back(self.sent);
        }
        self.stage.tell(&events);
    }

    fn stamp(&mut self, route: Route, due: u64) -> Stamp {
        let id = Id { producer: self.producer, seq: self.next };
        self.next += 1;
        Stamp { id, transaction: None, queues: route.queues, due }
    }

    /// Publishes a message with an id: one that is sent again, or a new one, which may be delayed.
    fn publish_named(&mut self, talk: &mut dyn Talk, events: &mut Vec<Event>) {
        let route = *self.random.pick(self.routes);
        let repeated = if self.random.chance(REPEATED) { self.named.values().next().copied() } else { None };
        let (stamp, size) = self.again.pop().or(repeated).unwrap_or_else(|| {
            let delayed = self.stage.delays() && self.random.chance(DELAYED);
            let due = if delayed { now_ms() + self.random.within(1..=LONGEST_DELAY) } else { 0 };
            let stamp = self.stamp(route, due);
            events.push(Event::Attempt { stamp, mode: DeliveryMode::Persistent });
            (stamp, size(self.random, self.stage.largest))
        });
        self.stage.note_due(stamp.due);
        let body = stamp.body(self.stage.run, size);
        let name = format!("{}-{}", stamp.id.producer, stamp.id.seq);
        let due = Some(stamp.due).filter(|due| *due > 0);
        talk.publish(&Publish { due, id: Some(&name), ..Publish::persistent(route, &body) });
        self.sent += 1;
        self.named.insert(self.sent, (stamp, size));
        self.waiting.push_back(self.sent);
    }
}

/// True for routes whose messages carry ids.
pub(super) fn sifts(routes: &[Route]) -> bool {
    routes.iter().all(|route| members(route.queues).all(|queue| QUEUES[queue].sifts))
}

/// Moves the publishes of these numbers from `waiting`, which is in order, to `taken`.
pub(crate) fn take(waiting: &mut VecDeque<u64>, numbers: Numbers, taken: &mut Vec<u64>) {
    match numbers {
        Numbers::UpTo(number) => {
            let count = waiting.partition_point(|waiting| *waiting <= number);
            taken.extend(waiting.drain(..count));
        }
        Numbers::One(number) => {
            if let Ok(at) = waiting.binary_search(&number) {
                waiting.remove(at);
                taken.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_name_one_or_all_up_to_one() {
        for (numbers, taken, left) in [
            (Numbers::One(3), &[3][..], &[2, 5, 7][..]),
            (Numbers::UpTo(5), &[2, 3, 5], &[7]),
            (Numbers::UpTo(6), &[2, 3, 5], &[7]),
            (Numbers::One(6), &[], &[2, 3, 5, 7]),
        ] {
            let mut waiting = VecDeque::from([2, 3, 5, 7]);
            let mut found = Vec::new();
            take(&mut waiting, numbers, &mut found);
            assert_eq!((found.as_slice(), waiting.make_contiguous() as &[u64]), (taken, left));
        }
    }
}
