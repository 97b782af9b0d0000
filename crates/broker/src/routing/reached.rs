//! The result of routing and its cost: destinations, each once, and a budget of steps.
//!
//! A publisher chooses the factors of a match's work: the numbers of keys, patterns, arguments and
//! headers, and how often the same destination is found. So each step is charged, and a message
//! without steps left is refused. A new destination costs no step, since declarations limit their
//! number.

use hashbrown::HashSet;

use super::binding::Destination;

/// Steps that routing one message may take: nodes of patterns, comparisons, and repeated
/// destinations. They take some tens of milliseconds, and no useful set of bindings comes near that
/// number.
pub(crate) const STEPS: u32 = 250_000;

/// Destinations of one exchange, and the steps that a message has left.
#[derive(Debug)]
pub(crate) struct Reached {
    list: Vec<Destination>,
    /// The same as `list`, once a second set of destinations is added to it.
    seen: HashSet<Destination>,
    left: u32,
}

impl Reached {
    /// Nothing yet, and this many steps.
    pub(crate) fn within(steps: u32) -> Self {
        Self { list: Vec::new(), seen: HashSet::new(), left: steps }
    }

    /// Takes steps off the budget. False when none is left: the caller stops.
    #[inline]
    pub(crate) fn charge(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
        self.left > 0
    }

    /// True when no step is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Steps that are left.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// True when nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a destination, if it is a new one.
    pub(super) fn add(&mut self, destination: Destination) {
        self.extend(std::iter::once(destination));
    }

    /// Adds destinations, each of which comes once.
    pub(super) fn extend(&mut self, destinations: impl Iterator<Item = Destination>) {
        if self.list.is_empty() {
            self.list.extend(destinations);
            return;
        }
        if self.seen.is_empty() {
            self.seen.extend(self.list.iter().copied());
        }
        for destination in destinations {
            if self.seen.insert(destination) {
                self.list.push(destination);
            } else if !self.charge(1) {
                return;
            }
        }
    }

    /// Returns the destinations, so that the next exchange begins with none.
    pub(crate) fn take(&mut self) -> Vec<Destination> {
        self.seen.clear();
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(ids: std::ops::Range<u64>) -> impl Iterator<Item = Destination> {
        ids.map(Destination::Queue)
    }

    #[test]
    fn each_destination_comes_once_in_the_order_in_which_it_was_found() {
        let mut reached = Reached::within(100);
        for range in [3..6, 0..4, 5..8] {
            reached.extend(queues(range));
        }
        assert_eq!(reached.left(), 98, "3 and 5 came twice");
        let ids = [3, 4, 5, 0, 1, 2, 6, 7].map(Destination::Queue);
        assert_eq!(reached.take(), ids);
        assert!(reached.is_empty());
        reached.add(Destination::Queue(3));
        assert_eq!(reached.take(), [Destination::Queue(3)], "nothing is known of what was taken");
    }

    #[test]
    fn what_comes_again_is_charged_and_what_is_new_is_not() {
        let mut reached = Reached::within(1000);
        reached.extend(queues(0..100_000));
        assert_eq!(reached.left(), 1000);
        reached.extend(queues(0..100_000));
        assert!(reached.is_spent());
        assert_eq!(reached.take().len(), 100_000);
    }

    #[test]
    fn steps_do_not_come_back() {
        let mut reached = Reached::within(3);
        assert!(reached.charge(2));
        assert!(!reached.charge(usize::MAX));
        assert!(reached.is_spent() && !reached.charge(0));
    }
}
