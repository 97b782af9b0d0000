//! Subscribers without a queue among the slots of a client, and what the turn has for each.
//!
//! Invariant: their numbers begin above those of queues. So a route names both alike, and a
//! message that goes to queues alone costs nothing more.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use journal::Owner;

use crate::catalog::direct::DirectSubscriber;
use crate::queue::arrival::Arrival;
use crate::stats::Deliveries;

/// The lowest of their numbers.
const FIRST: u32 = 1 << 31;

/// A subscriber, and the places of its messages among the arrivals of the turn.
#[derive(Debug)]
struct DirectSlot {
    subscriber: Arc<DirectSubscriber>,
    picks: Vec<u32>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DirectSlots {
    all: Vec<Option<DirectSlot>>,
    free: Vec<u32>,
    by_id: HashMap<Owner, u32>,
    /// Those with work of this turn, in the order in which the turn came to them.
    touched: Vec<u32>,
}

impl DirectSlots {
    /// The slot of a subscriber; a new one is made if needed.
    pub(super) fn slot(&mut self, subscriber: &Arc<DirectSubscriber>) -> u32 {
        if let Some(slot) = self.by_id.get(&subscriber.id) {
            return *slot;
        }
        let fresh = Some(DirectSlot { subscriber: Arc::clone(subscriber), picks: Vec::new() });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.all[(slot - FIRST) as usize] = fresh;
                slot
            }
            None => {
                self.all.push(fresh);
                FIRST + (self.all.len() - 1) as u32
            }
        };
        self.by_id.insert(subscriber.id, slot);
        slot
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut DirectSlot> {
        self.all.get_mut(slot.checked_sub(FIRST)? as usize)?.as_mut()
    }

    /// The subscriber in a slot; `None` for the slot of a queue.
    pub(super) fn subscriber(&self, slot: u32) -> Option<&Arc<DirectSubscriber>> {
        Some(&self.all.get(slot.checked_sub(FIRST)? as usize)?.as_ref()?.subscriber)
    }

    /// The turn's arrival at `index` goes to the subscriber in this slot.
    pub(super) fn gather_pick(&mut self, slot: u32, index: u32) {
        let Some(entry) = self.get_mut(slot) else { return };
        let is_first = entry.picks.is_empty();
        entry.picks.push(index);
        if is_first {
            self.touched.push(slot);
        }
    }

    /// The turn's arrival at `index` goes to none of those that were picked for it.
    pub(super) fn forget_picks(&mut self, index: u32) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(entry) = self.get_mut(slot) else { continue };
            entry.picks.retain(|pick| *pick != index);
            if !entry.picks.is_empty() {
                self.touched.push(slot);
            }
        }
    }

    /// True when the turn has nothing for any of them.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.touched.is_empty()
    }

    /// Hands each its messages of the turn as one batch. What does not fit into its client's
    /// mailbox is dropped and counted there: the publisher is told that it was taken.
    #[cold]
    pub(super) fn deliver(&mut self, arrivals: &mut [Arrival], totals: &Deliveries) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(DirectSlot { subscriber, picks }) = self.get_mut(slot) else { continue };
            let mut messages = Vec::with_capacity(picks.len());
            for pick in picks.drain(..) {
                let arrival = &mut arrivals[pick as usize];
                if subscriber.takes(arrival.message()) {
                    messages.push(arrival.take_share());
                } else {
                    arrival.miss();
                }
            }
            subscriber.deliver(messages, totals);
        }
    }

    /// Forgets what the turn has.
    #[cold]
    pub(super) fn end_turn(&mut self) {
        for slot in std::mem::take(&mut self.touched) {
            self.get_mut(slot).into_iter().for_each(|entry| entry.picks.clear());
        }
    }

    /// Forgets the slots that no route leads to.
    pub(super) fn let_go_of_idle(&mut self, routed: &HashSet<u32>) {
        for (index, entry) in self.all.iter_mut().enumerate() {
            let slot = FIRST + index as u32;
            let is_idle = |entry: &mut DirectSlot| entry.picks.is_empty() && !routed.contains(&slot);
            if let Some(entry) = entry.take_if(is_idle) {
                self.by_id.remove(&entry.subscriber.id);
                self.free.push(slot);
            }
        }
    }
}
