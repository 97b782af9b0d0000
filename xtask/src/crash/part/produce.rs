//! A producer: publishes with confirms, with a window of publishes that are not confirmed yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Stage, size};
use crate::crash::history::Event;
use crate::crash::random::Random;
use crate::crash::stamp::{Id, Stamp};
use crate::crash::talk::{Broken, Heard, Publish, Talk};
use crate::crash::topology::Route;

/// One connection that publishes.
pub(super) struct Producer<'a> {
    stage: &'a Stage,
    random: &'a mut Random,
    routes: &'static [Route],
    persistent: bool,
    producer: u32,
    /// The most publishes that wait for their confirms.
    window: usize,
    next: u64,
    /// The numbers of the publishes that are not confirmed, by which confirms name them.
    waiting: VecDeque<u64>,
}

impl<'a> Producer<'a> {
    pub(super) fn new(stage: &'a Stage, random: &'a mut Random, routes: &'static [Route], persistent: bool) -> Self {
        let window = *random.pick(&[1, 16, 64, 256]);
        let producer = stage.number();
        Self { stage, random, routes, persistent, producer, window, next: 0, waiting: VecDeque::new() }
    }

    pub(super) fn run(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        while Instant::now() < end {
            let room = self.window - self.waiting.len();
            if room > 0 {
                let burst = self.random.within(1..=room as u64);
                self.publish(talk, burst);
            }
            let mut confirmed = Vec::new();
            let waiting = &mut self.waiting;
            let wait = Duration::from_millis(if self.window > 1 { 2 } else { 20 });
            let outcome = talk.exchange(wait, &mut |heard| match heard {
                Heard::Confirmed { number, multiple } => take(waiting, number, multiple, &mut confirmed),
                // Nothing is promised of what was refused.
                Heard::Refused { number, multiple } => take(waiting, number, multiple, &mut Vec::new()),
                _ => {}
            });
            let confirm = |number: &u64| Event::Confirm(Id { producer: self.producer, seq: number - 1 });
            self.stage.tell(&confirmed.iter().map(confirm).collect::<Vec<_>>());
            outcome?;
        }
        Ok(())
    }

    fn publish(&mut self, talk: &mut dyn Talk, burst: u64) {
        let mut events = Vec::new();
        for _ in 0..burst {
            let route = *self.random.pick(self.routes);
            let id = Id { producer: self.producer, seq: self.next };
            let stamp = Stamp { id, transaction: None, queues: route.queues };
            let body = stamp.body(self.stage.run, size(self.random, self.stage.largest));
            talk.publish(&Publish { route, body: &body, persistent: self.persistent, transaction: None });
            events.push(Event::Attempt { stamp, persistent: self.persistent });
            self.next += 1;
            self.waiting.push_back(self.next);
        }
        self.stage.tell(&events);
    }
}

/// Moves the publish with this number, or all up to it, from `waiting` to `taken`.
pub(crate) fn take(waiting: &mut VecDeque<u64>, number: u64, multiple: bool, taken: &mut Vec<u64>) {
    if multiple {
        let count = waiting.partition_point(|waiting| *waiting <= number);
        taken.extend(waiting.drain(..count));
    } else if let Ok(at) = waiting.binary_search(&number) {
        waiting.remove(at);
        taken.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_name_one_or_all_up_to_one() {
        for (number, multiple, taken, left) in [
            (3, false, &[3][..], &[2, 5, 7][..]),
            (5, true, &[2, 3, 5], &[7]),
            (6, true, &[2, 3, 5], &[7]),
            (6, false, &[], &[2, 3, 5, 7]),
        ] {
            let mut waiting = VecDeque::from([2, 3, 5, 7]);
            let mut found = Vec::new();
            take(&mut waiting, number, multiple, &mut found);
            assert_eq!((found.as_slice(), waiting.make_contiguous() as &[u64]), (taken, left));
        }
    }
}
