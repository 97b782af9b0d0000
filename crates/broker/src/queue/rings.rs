//! The order of turns among consumers that may be ready: one ring for each priority, the highest
//! first.
//!
//! A ring names places in the list of consumers. A consumer that leaves stays named until its turn
//! comes, or until the list is swept, so that no departure looks through a ring. The cost of a
//! delivery does not grow with consumers or priorities.

use std::cmp::Reverse;
use std::collections::VecDeque;

#[derive(Debug, Default)]
struct Level {
    priority: i32,
    /// Consumers of this priority, in the ring or not.
    members: usize,
    ring: VecDeque<u32>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rings {
    levels: Vec<Level>,
    /// Levels without members.
    vacant: Vec<u32>,
    /// Each level with members, the highest priority first.
    by_priority: Vec<(Reverse<i32>, u32)>,
    /// The levels among them whose ring is not empty, in the same order.
    waiting: Vec<(Reverse<i32>, u32)>,
}

impl Rings {
    /// Adds a consumer of this priority; the level that it belongs to.
    pub(super) fn join(&mut self, priority: i32) -> u32 {
        let at = match self.by_priority.binary_search_by_key(&Reverse(priority), |(key, _)| *key) {
            Ok(known) => self.by_priority[known].1,
            Err(place) => {
                let at = self.vacant.pop().unwrap_or_else(|| {
                    self.levels.push(Level::default());
                    (self.levels.len() - 1) as u32
                });
                self.levels[at as usize].priority = priority;
                self.by_priority.insert(place, (Reverse(priority), at));
                at
            }
        };
        self.levels[at as usize].members += 1;
        at
    }

    /// Removes a consumer. With the last one of its priority the ring goes too, and its places go
    /// to `free`.
    pub(super) fn leave(&mut self, at: u32, free: &mut Vec<u32>) {
        let level = &mut self.levels[at as usize];
        level.members -= 1;
        if level.members > 0 {
            return;
        }
        free.extend(level.ring.drain(..));
        level.ring = VecDeque::new();
        let key = Reverse(level.priority);
        self.stop_waiting(key);
        if let Ok(place) = self.by_priority.binary_search_by_key(&key, |(key, _)| *key) {
            self.by_priority.remove(place);
        }
        self.vacant.push(at);
    }

    /// Puts a place at the end of its level's ring.
    pub(super) fn enter(&mut self, at: u32, slot: u32) {
        let level = &mut self.levels[at as usize];
        if level.ring.is_empty() {
            let key = Reverse(level.priority);
            if let Err(place) = self.waiting.binary_search_by_key(&key, |(key, _)| *key) {
                self.waiting.insert(place, (key, at));
            }
        }
        level.ring.push_back(slot);
    }

    fn stop_waiting(&mut self, key: Reverse<i32>) {
        if let Ok(place) = self.waiting.binary_search_by_key(&key, |(key, _)| *key) {
            self.waiting.remove(place);
        }
    }

    fn first(&mut self) -> Option<&mut VecDeque<u32>> {
        let (_, at) = self.waiting.first()?;
        Some(&mut self.levels[*at as usize].ring)
    }

    /// The place whose turn it is.
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        let (_, at) = self.waiting.first()?;
        self.levels[*at as usize].ring.front().copied()
    }

    /// Ends the turn of the front, which stays in its ring.
    #[inline]
    pub(super) fn rotate(&mut self) {
        if let Some(ring) = self.first().filter(|ring| ring.len() > 1) {
            ring.rotate_left(1);
        }
    }

    /// Takes the front out of its ring.
    pub(super) fn pop(&mut self) {
        let Some(ring) = self.first() else { return };
        ring.pop_front();
        if ring.is_empty() {
            self.waiting.remove(0);
        }
    }

    /// Takes out every place that `stays` is not true of, and adds it to `free`.
    pub(super) fn sweep(&mut self, free: &mut Vec<u32>, stays: &dyn Fn(u32) -> bool) {
        for (_, at) in &self.waiting {
            let ring = &mut self.levels[*at as usize].ring;
            free.extend(ring.iter().copied().filter(|slot| !stays(*slot)));
            ring.retain(|slot| stays(*slot));
        }
        self.waiting.retain(|(_, at)| !self.levels[*at as usize].ring.is_empty());
    }

    /// Empties every ring; the members stay members.
    pub(super) fn empty(&mut self) {
        for (_, at) in self.waiting.drain(..) {
            self.levels[at as usize].ring.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+P` joins with priority P and enters, `-P:S` leaves, `r` rotates, `p` pops; then the place
    /// at the front.
    #[test]
    fn the_highest_priority_is_first_and_equals_come_in_turn() {
        let (mut rings, mut free) = (Rings::default(), Vec::new());
        let low = rings.join(0);
        let high = rings.join(7);
        assert_eq!((rings.join(0), rings.join(7)), (low, high));
        for (level, slot) in [(low, 0), (high, 1), (low, 2), (high, 3)] {
            rings.enter(level, slot);
        }
        let mut seen = Vec::new();
        for action in ["r", "r", "p", "p", "r", "p", "p", "p"] {
            seen.push(rings.front());
            if action == "r" { rings.rotate() } else { rings.pop() }
        }
        let expected = [Some(1), Some(3), Some(1), Some(3), Some(0), Some(2), Some(0), None];
        assert_eq!(seen, expected);
        rings.enter(high, 3);
        rings.enter(high, 1);
        rings.sweep(&mut free, &|slot| slot != 3);
        assert_eq!((rings.front(), free.as_slice()), (Some(1), [3].as_slice()));
        rings.leave(high, &mut free);
        rings.leave(high, &mut free);
        assert_eq!((rings.front(), free.as_slice()), (None, [3, 1].as_slice()), "the ring goes with its last member");
        assert_eq!(rings.join(3), high, "its level is used again");
    }
}
