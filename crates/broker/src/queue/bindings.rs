//! The durable bindings of a queue or an exchange, kept with it so that it can be restated without
//! a search.

use std::sync::Arc;

use journal::Owner;

use crate::routing::{Load, Tally, Weight};
use crate::value::Table;

/// A durable binding to this queue, kept here so that the queue can be restated and deleted without
/// a search.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) exchange: Owner,
    pub(crate) key: Arc<str>,
    /// Sorted by name: the same arguments in another order are the same binding.
    pub(crate) arguments: Table,
}

impl Bound {
    pub(crate) fn new(exchange: Owner, key: impl Into<Arc<str>>, arguments: &Table) -> Self {
        let mut arguments = arguments.clone();
        arguments.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { exchange, key: key.into(), arguments }
    }

    /// The bytes of its log record.
    fn logged_bytes(&self) -> u64 {
        Load::of_binding(&self.key, &self.arguments).logged
    }
}

/// The durable bindings to a queue or an exchange, and the bytes of their log records.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    all: Vec<Bound>,
    weight: Weight,
}

impl Bounds {
    /// None yet, to be weighed by `tally`.
    pub(crate) fn new(tally: &Tally) -> Self {
        Self { all: Vec::new(), weight: Weight::new(tally, Load::default()) }
    }

    /// Adds a binding; most have one.
    pub(crate) fn keep(&mut self, bound: Bound) {
        self.all.reserve_exact(usize::from(self.all.is_empty()));
        self.all.push(bound);
        self.weigh(self.all.last().map_or(0, Bound::logged_bytes));
    }

    pub(crate) fn forget(&mut self, bound: &Bound) {
        self.retain(&|other| other != bound);
    }

    /// Number of bindings.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Keeps only those that `stays` is true of.
    pub(crate) fn retain(&mut self, stays: &dyn Fn(&Bound) -> bool) {
        let mut gone = 0;
        self.all.retain(|bound| {
            let stays = stays(bound);
            gone += if stays { 0 } else { bound.logged_bytes() };
            stays
        });
        let Load { logged, memory } = self.weight.load();
        self.weight.set(Load { logged: logged.saturating_sub(gone), memory });
    }

    pub(crate) fn clear(&mut self) {
        self.all = Vec::new();
        self.weight.set(Load::default());
    }

    pub(crate) fn as_slice(&self) -> &[Bound] {
        &self.all
    }

    fn weigh(&mut self, more: u64) {
        let Load { logged, memory } = self.weight.load();
        self.weight.set(Load { logged: logged + more, memory });
    }
}
