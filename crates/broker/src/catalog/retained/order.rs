//! The places of values in the order of their topics, as runs of numbers: four bytes for each.
//!
//! Topics lie with the values alone, so each call is given how to find that of a place. Invariant:
//! no run is empty, two neighbours together fill half of one, and all places, run after run, are in
//! the order of their topics.

/// The most places of a run. One that has more becomes two.
const RUN: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Order {
    runs: Vec<Vec<u32>>,
}

/// A position: a run, and an index in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    run: usize,
    index: usize,
}

impl Order {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// All places.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flatten().copied()
    }

    /// The place at a position; `None` behind the last one.
    pub(super) fn get(&self, at: At) -> Option<u32> {
        self.runs.get(at.run)?.get(at.index).copied()
    }

    /// The position after this one.
    pub(super) fn next(&self, At { run, index }: At) -> At {
        let is_last = self.runs.get(run).is_none_or(|places| index + 1 >= places.len());
        if is_last { At { run: run + 1, index: 0 } } else { At { run, index: index + 1 } }
    }

    /// The first position whose topic is not before what is sought, as `is_before` says.
    pub(super) fn seek(&self, is_before: impl Fn(u32) -> bool) -> At {
        let behind = self.runs.partition_point(|places| places.first().is_some_and(|first| is_before(*first)));
        let Some(run) = behind.checked_sub(1) else { return At { run: 0, index: 0 } };
        let index = self.runs[run].partition_point(|place| is_before(*place));
        if index < self.runs[run].len() { At { run, index } } else { At { run: behind, index: 0 } }
    }

    /// Puts a place in front of the position that was sought for its topic.
    pub(super) fn insert(&mut self, at: At, place: u32) {
        // What comes between two runs goes to the first of them, unless only the second has room.
        let has_room = |run: usize| self.runs.get(run).is_some_and(|places| places.len() < RUN);
        let (run, index) = match at {
            At { run, index: 0 } if run > 0 && (has_room(run - 1) || !has_room(run)) => {
                (run - 1, self.runs[run - 1].len())
            }
            At { run, index } => (run, index),
        };
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        if self.runs[run].len() < RUN {
            return self.runs[run].insert(index, place);
        }
        if index == RUN {
            // Topics that rise fill their runs.
            return self.runs.insert(run + 1, vec![place]);
        }
        let behind = self.runs[run].split_off(RUN / 2);
        self.runs.insert(run + 1, behind);
        match index.checked_sub(RUN / 2) {
            Some(index) => self.runs[run + 1].insert(index, place),
            None => self.runs[run].insert(index, place),
        }
    }

    /// Takes out the place at a position.
    pub(super) fn remove(&mut self, at: At) {
        self.runs[at.run].remove(at.index);
        if self.runs[at.run].is_empty() {
            self.runs.remove(at.run);
            return;
        }
        self.join(at.run);
        if let Some(before) = at.run.checked_sub(1) {
            self.join(before);
        }
    }

    /// Makes one of a run and the next one where both are small.
    fn join(&mut self, run: usize) {
        let Some([one, next]) = self.runs.get(run..run + 2) else { return };
        if one.len() + next.len() <= RUN / 2 {
            let next = self.runs.remove(run + 1);
            self.runs[run].extend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Adds or removes the topic of this number, which is its place, too.
    fn turn(order: &mut Order, there: &mut BTreeMap<u32, ()>, topic: u32) {
        let at = order.seek(|place| place < topic);
        if there.remove(&topic).is_some() {
            assert_eq!(order.get(at), Some(topic));
            order.remove(at);
        } else {
            there.insert(topic, ());
            order.insert(at, topic);
        }
    }

    fn check(order: &Order, there: &BTreeMap<u32, ()>) {
        assert!(order.iter().eq(there.keys().copied()));
        assert!(order.runs.iter().all(|places| (1..=RUN).contains(&places.len())));
        assert!(order.runs.windows(2).all(|runs| runs[0].len() + runs[1].len() > RUN / 2));
        let (mut at, mut walked) = (order.seek(|_| false), Vec::new());
        while let Some(place) = order.get(at) {
            walked.push(place);
            at = order.next(at);
        }
        assert!(walked.iter().eq(there.keys()));
        assert_eq!(order.get(order.seek(|_| true)), None);
        assert_eq!(order.is_empty(), there.is_empty());
    }

    #[test]
    fn topics_that_rise_fill_their_runs_and_all_go_again() {
        let (mut order, mut there) = (Order::default(), BTreeMap::new());
        (0..10 * RUN as u32).for_each(|topic| turn(&mut order, &mut there, topic));
        check(&order, &there);
        assert_eq!(order.runs.len(), 10);
        (0..10 * RUN as u32).filter(|topic| topic % 64 > 0).for_each(|topic| turn(&mut order, &mut there, topic));
        check(&order, &there);
        assert_eq!(order.runs.len(), 1, "runs with few places are put together");
        (0..10 * RUN as u32).step_by(64).for_each(|topic| turn(&mut order, &mut there, topic));
        check(&order, &there);
    }

    #[test]
    fn topics_that_come_between_full_runs_share_new_ones() {
        let (mut order, mut there) = (Order::default(), BTreeMap::new());
        (0..4 * RUN as u32).for_each(|topic| turn(&mut order, &mut there, 1000 * topic));
        assert_eq!(order.runs.len(), 4);
        let between = 1000 * RUN as u32;
        (1..100).for_each(|back| turn(&mut order, &mut there, between - back));
        check(&order, &there);
        assert_eq!(order.runs.len(), 5);
    }

    proptest! {
        #[test]
        fn it_is_as_a_sorted_map(topics in prop::collection::vec(0..3000u32, 0..6000)) {
            let (mut order, mut there) = (Order::default(), BTreeMap::new());
            for topic in topics {
                turn(&mut order, &mut there, topic);
            }
            check(&order, &there);
        }
    }
}
