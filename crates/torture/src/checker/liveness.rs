//! I12: what is confirmed comes in time to consumers that wait for it, while the broker lives.

use super::{Checker, Id, Invariant, Marks, QUEUES};

impl Checker {
    /// What is promised and not settled, each with its queue.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (usize, Id, Marks)> {
        let all = self.lanes.iter().flat_map(|((queue, producer), lane)| {
            lane.iter().map(|(seq, entry)| (*queue, Id { producer: *producer, seq }, entry.marks))
        });
        all.filter(|(queue, id, marks)| marks.has(Marks::CONFIRMED) && !self.is_settled(*queue, *id, *marks))
    }

    /// How much is promised and has not been settled.
    pub(crate) fn outstanding(&self) -> usize {
        self.unsettled().count()
    }

    /// All that is promised should have come by now.
    pub(super) fn overdue(&mut self) {
        let mut late: Vec<_> = self.unsettled().collect();
        late.sort_unstable_by_key(|(queue, id, _)| (*queue, *id));
        for (queue, id, marks) in late {
            self.violate(Invariant::Stalled, format!("{id} in {} ({marks})", QUEUES[queue].name));
        }
    }
}
