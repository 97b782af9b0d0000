//! Transient messages leave memory too: they are spilled to files that end with the process.
//!
//! The pager writes without the lock, and an entry that still waits then gets its address.
//! Invariant: each unsettled entry with such an address holds its body once. The visit that ends
//! the entry frees the body too.

use std::collections::BTreeMap;

use journal::{Address, PAGE, Reference, is_spilled};

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::{Inner, Queue};

/// A message to spill, with its number.
pub(crate) type Picked = (u64, Message);

impl Queue {
    /// Picked messages were written. Those of entries that still wait may leave memory; the others
    /// are freed.
    pub(crate) fn spilled(&self, picked: &[Picked], addresses: &[Address], context: &QueueContext) {
        let mut inner = self.lock(context);
        let inner = &mut *inner;
        inner.accounting.end_spilling();
        let window = inner.window(context);
        // Messages that are now near to delivery stay in memory.
        for ((seq, _), address) in picked.iter().zip(addresses).rev() {
            if inner.is_deleted() || !inner.lanes.spill(*seq, *address) {
                context.free_spilled(address.file, 1);
                continue;
            }
            inner.accounting.spilled_one();
            if inner.accounting.resident() > window {
                inner.let_go_of(*seq);
            }
        }
        for page in picked.chunk_by(|(one, _), (other, _)| one / PAGE == other / PAGE) {
            page.first().into_iter().for_each(|(seq, _)| inner.lanes.lean_down(*seq));
        }
    }

    /// Picked messages could not be written: they stay in memory.
    pub(crate) fn not_spilled(&self, context: &QueueContext) {
        self.lock(context).accounting.end_spilling();
    }

    /// True while messages are on their way to disk.
    pub(crate) fn is_spilling(&self, context: &QueueContext) -> bool {
        self.lock(context).accounting.is_spilling()
    }

    /// The bodies of a spilled file that are still needed.
    pub(crate) fn spilled_in(&self, file: u32, context: &QueueContext) -> Vec<Reference> {
        let inner = self.lock(context);
        let mut found = Vec::new();
        if inner.accounting.has_spilled() {
            inner.referenced(file, &mut found);
        }
        found
    }

    /// Messages were spilled once more: entries that still lie at the old place get the new one.
    pub(crate) fn spilled_anew(&self, before: &[Reference], addresses: &[Address], context: &QueueContext) {
        let mut inner = self.lock(context);
        for (one, address) in before.iter().zip(addresses) {
            let moved = inner.lanes.relocate(one, *address);
            context.free_spilled(if moved { one.address.file } else { address.file }, 1);
        }
    }
}

impl Inner {
    /// Frees the bodies of spilled entries that have ended.
    pub(super) fn free_spilled(&mut self, file: u32, count: u64, context: &QueueContext) {
        self.accounting.freed(count);
        context.free_spilled(file, count);
    }

    /// Frees the spilled bodies among those that ended, and leaves those that are in the log.
    pub(super) fn free_spilled_of(&mut self, freed: &mut BTreeMap<u32, u64>, context: &QueueContext) {
        if self.accounting.has_spilled() {
            let spilled: Vec<_> = freed.extract_if(.., |file, _| is_spilled(*file)).collect();
            spilled.into_iter().for_each(|(file, count)| self.free_spilled(file, count, context));
        }
    }
}
