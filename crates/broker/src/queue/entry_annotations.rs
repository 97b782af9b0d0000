//! What consumers noted on entries that they gave back. Each later delivery of such an entry shows
//! it, and its dead letter keeps it.
//!
//! Invariant: the notes on a durable entry are in the log before the return that they came with. An
//! entry has bounded bytes of them, the newest.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::Ticket;

use crate::message::annotations::merge;
use crate::queue::facts as queue_facts;
use crate::queue::{Queue, QueueContext, State};
use crate::value::Table;

/// The memory of one entry's notes besides their names and values, in bytes.
const COST: usize = 96;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EntryAnnotations {
    of: BTreeMap<u64, Arc<Table>>,
    bytes: usize,
}

impl EntryAnnotations {
    /// Those of an entry.
    pub(super) fn get(&self, number: u64) -> Option<Arc<Table>> {
        self.of.get(&number).cloned()
    }

    /// Sets those of an entry.
    pub(crate) fn set(&mut self, number: u64, annotations: Table) {
        self.left(number);
        self.bytes += COST + annotations.heap_bytes();
        self.of.insert(number, Arc::new(annotations));
    }

    /// The entry is done.
    pub(super) fn left(&mut self, number: u64) {
        if let Some(gone) = self.of.remove(&number) {
            self.bytes -= COST + gone.heap_bytes();
        }
    }

    /// These entries are settled, says the log.
    pub(crate) fn left_in_run(&mut self, first: u64, count: u64) {
        while let Some((number, _)) = self.of.range(first..first.saturating_add(count)).next() {
            self.left(*number);
        }
    }

    /// Only these entries are left.
    pub(super) fn retain(&mut self, is_live: &dyn Fn(u64) -> bool) {
        let gone: Vec<u64> = self.of.keys().copied().filter(|number| !is_live(*number)).collect();
        gone.into_iter().for_each(|number| self.left(number));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Each entry with what was noted on it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Table)> {
        self.of.iter().map(|(number, annotations)| (*number, &**annotations))
    }

    /// Their memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

impl Queue {
    /// Notes something on a delivery that its consumer is about to give back. Returns the ticket of
    /// the record.
    pub(crate) fn annotate(&self, seq: u64, annotations: &Table, context: &QueueContext) -> Ticket {
        let mut inner = self.lock(context);
        let Some(entry) = inner.lanes.get_mut(seq).filter(|entry| entry.state == State::Out) else {
            return Ticket::NONE;
        };
        let durable = entry.is_durable();
        let all = inner.features.annotations.get_or_insert_default();
        let mut merged = all.get(seq).map_or_else(Table::default, |known| Table::clone(&known));
        merge(&mut merged, annotations);
        let mut ticket = Ticket::NONE;
        if durable {
            let mut appender = context.journal.appender(self.log());
            queue_facts::log_annotations(&mut appender, self.id, seq, &merged);
            ticket = appender.ticket();
        }
        all.set(seq, merged);
        ticket
    }

    /// Takes the notes that recovery found.
    pub(crate) fn recover_annotations(&self, mut found: EntryAnnotations, context: &QueueContext) {
        let mut inner = self.lock(context);
        found.retain(&|number| inner.lanes.is_live(number));
        if !found.is_empty() {
            inner.features.annotations = Some(Box::new(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::annotations::ANNOTATIONS_MAX;
    use crate::value::Value;

    fn noted(name: &str) -> Table {
        Table(vec![(name.to_owned(), Value::Text("v".repeat(100)))])
    }

    #[test]
    fn memory_is_counted_while_an_entry_is_there() {
        let mut all = EntryAnnotations::default();
        [3, 4, 5, 9].into_iter().for_each(|number| all.set(number, noted("a")));
        let whole = all.heap_bytes();
        all.set(4, noted("b"));
        assert_eq!(all.heap_bytes(), whole);
        all.left(3);
        all.left(3);
        all.left_in_run(4, 2);
        assert_eq!((all.heap_bytes(), all.iter().collect::<Vec<_>>()), (whole / 4, vec![(9, &noted("a"))]));
        all.retain(&|_| false);
        assert!(all.is_empty() && all.heap_bytes() == 0);
    }

    #[test]
    fn the_newest_notes_stay_where_all_are_too_many() {
        let mut all = Table::default();
        for round in 0..2 {
            (0..100).for_each(|number| merge(&mut all, &noted(&number.to_string())));
            assert!(all.len() > 20 && all.get("0").is_none() && all.get("99").is_some(), "{round}: {}", all.len());
        }
        merge(&mut all, &Table(vec![("99".to_owned(), Value::Bool(true))]));
        assert_eq!(all.0.iter().filter(|(name, _)| name == "99").count(), 1);
        assert_eq!(all.get("99"), Some(&Value::Bool(true)));
        let large = Table(vec![("large".to_owned(), Value::Text("v".repeat(ANNOTATIONS_MAX - 10)))]);
        merge(&mut all, &large);
        assert_eq!(all, large);
    }
}
