//! I11: what queues say that they hold. Behind a kill and before anybody consumes or publishes, all
//! that is there is ready, so the counts lie between what must be there and what can be.
//!
//! A queue is counted together with the one where its dead letters go: each message is in one of
//! the two.

use std::collections::HashSet;

use super::{Checker, Entry, Id, Invariant, Marks, QUEUES};
use crate::topology::{Overflow, key};

impl Checker {
    /// The least and the most that a queue and the one behind it can hold together right behind a
    /// kill.
    pub(super) fn bounds(&self, queue: usize) -> (u64, u64) {
        let unhappened: HashSet<Id> = self.transactions.unhappened().collect();
        let (mut least, mut most) = (0, 0);
        // Where only the last values stay, one message of each key can be there.
        let mut keys = HashSet::new();
        for ((_, producer), lane) in self.lanes.iter().filter(|((place, _), _)| *place == queue) {
            for (seq, entry) in lane.iter() {
                let id = Id { producer: *producer, seq };
                let beyond = QUEUES[queue].dead_letter.and_then(|target| self.marks(target, id)).unwrap_or_default();
                let refused = entry.marks.has(Marks::REFUSED) && QUEUES[queue].overflow != Overflow::RefuseAndMove;
                let never = entry.marks.has(Marks::TRANSIENT) || refused;
                let gone = never || is_over(entry.marks) || is_over(beyond) || unhappened.contains(&id);
                let counts = !gone && (!QUEUES[queue].last_value || keys.insert((*producer, key(seq))));
                most += u64::from(counts);
                least += u64::from(self.must_be_ready(queue, id, entry));
            }
        }
        (least, most)
    }

    /// Whether a message is promised and has not been settled. What sifts also delays, and what is
    /// delayed is not ready.
    fn must_be_ready(&self, queue: usize, id: Id, entry: &Entry) -> bool {
        let promised = entry.marks.has(Marks::CONFIRMED) && !entry.marks.has(Marks::TRANSIENT);
        promised && !QUEUES[queue].sifts && !self.is_settled(queue, id, entry.marks)
    }

    /// What is wrong with the counts of a queue and of the one behind it.
    fn miscounted(&self, queue: usize, ready: u64, moved: u64) -> Option<String> {
        let (least, most) = self.bounds(queue);
        let Some(limit) = QUEUES[queue].drop_limit().filter(|limit| ready > *limit) else {
            let held = ready + moved;
            let wrong = held < least || held > most;
            return wrong.then(|| format!("holds {ready} and {moved} behind it, not {least} to {most} together"));
        };
        Some(format!("holds {ready}, more than its limit of {limit}"))
    }

    /// Whether a queue may hold so many, and the one behind it so many.
    pub(crate) fn agrees(&self, queue: usize, ready: u64, moved: u64) -> bool {
        self.miscounted(queue, ready, moved).is_none()
    }

    pub(super) fn counted(&mut self, queue: usize, ready: u64, moved: u64) {
        self.counts.counted += 1;
        if let Some(wrong) = self.miscounted(queue, ready, moved) {
            self.violate(Invariant::Count, format!("{} {wrong}", QUEUES[queue].name));
        }
    }
}

/// Whether it is known that a message has left for good.
fn is_over(marks: Marks) -> bool {
    marks.has(Marks::ACCEPTED) && marks.has(Marks::FENCED)
}
