//! The queues that a client uses, and the work of a turn for each. The requests of one read of a
//! socket are gathered so that each queue is visited once.

mod direct;

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use journal::Owner;

use crate::catalog::direct::{DirectBatch, DirectSubscriber};
use crate::catalog::versions::{Basis, Versions};
use crate::queue::arrival::Arrival;
use crate::queue::{Queue, Settlement};
use crate::session::routes::{Route, Routes};
use crate::stats::Deliveries;
use direct::DirectSlots;

/// The most slots of a client that gives back what they keep.
const RESTS: usize = 256;

/// A queue that a client uses, and the work of this turn for it.
#[derive(Debug)]
pub(super) struct QueueSlot {
    pub(super) queue: Arc<Queue>,
    /// The places of its messages among the arrivals of the turn.
    pub(super) picks: Vec<u32>,
    pub(super) settlements: Vec<Settlement>,
    /// It is on the list of slots with work.
    touched: bool,
    /// Unsettled deliveries and consumers that point here. The slot stays as long as there are any.
    uses: u32,
}

/// The queues that a client uses, by small numbers, and its routes to them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Option<QueueSlot>>,
    free: Vec<u32>,
    by_queue: HashMap<Owner, u32>,
    /// Those with work of this turn, in the order in which the turn came to them.
    touched: Vec<u32>,
    /// Subscribers without a queue, which have slots too. Few clients publish to any, and the
    /// others do without the memory.
    direct: Option<Box<DirectSlots>>,
    /// They name slots.
    routes: Routes,
}

impl Slots {
    /// The slot of a queue; a new one is made if needed.
    pub(super) fn slot(&mut self, queue: &Arc<Queue>) -> u32 {
        if let Some(slot) = self.by_queue.get(&queue.id) {
            return *slot;
        }
        let fresh =
            QueueSlot { queue: Arc::clone(queue), picks: Vec::new(), settlements: Vec::new(), touched: false, uses: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.all[slot as usize] = Some(fresh);
                slot
            }
            None => {
                self.all.push(Some(fresh));
                (self.all.len() - 1) as u32
            }
        };
        self.by_queue.insert(queue.id, slot);
        slot
    }

    /// The route to these queues, and to these subscribers without one.
    pub(super) fn route(&mut self, queues: &[Arc<Queue>], direct: &[Arc<DirectSubscriber>]) -> Route {
        let mut route: Vec<u32> = queues.iter().map(|queue| self.slot(queue)).collect();
        if !direct.is_empty() {
            let slots = self.direct.get_or_insert_default();
            route.extend(direct.iter().map(|subscriber| slots.slot(subscriber)));
        }
        route.into()
    }

    /// The queue in a slot; `None` for the slot of a subscriber without one.
    #[inline]
    pub(super) fn queue(&self, slot: u32) -> Option<&Arc<Queue>> {
        self.all.get(slot as usize)?.as_ref().map(|slot| &slot.queue)
    }

    #[inline]
    fn get_mut(&mut self, slot: u32) -> Option<&mut QueueSlot> {
        self.all.get_mut(slot as usize).and_then(Option::as_mut)
    }

    /// A consumer or an unsettled delivery points to this slot from here on.
    #[inline]
    pub(super) fn hold(&mut self, slot: u32) {
        if let Some(slot) = self.get_mut(slot) {
            slot.uses += 1;
        }
    }

    /// Undoes one [`Slots::hold`], and returns the queue.
    pub(super) fn let_go(&mut self, slot: u32) -> Option<&Arc<Queue>> {
        let slot = self.get_mut(slot)?;
        slot.uses -= 1;
        Some(&slot.queue)
    }

    /// Forgets all routes if they are not of this generation of the catalog and the permissions.
    /// Forgets those that no longer hold if many queues were deleted.
    #[inline]
    pub(super) fn renew_routes(&mut self, generation: u64, versions: &Versions) {
        if !self.routes.renew(generation) {
            self.forget_routes();
        } else if self.routes.may_lead_astray(versions) {
            self.routes.keep_valid(versions);
            self.let_go_of_idle();
        }
    }

    /// The route of an exchange and a routing key, if it was found before and holds.
    #[inline]
    pub(super) fn known_route(&mut self, exchange: &str, key: &str, versions: &Versions) -> Option<Route> {
        self.routes.find(exchange, key, versions)
    }

    /// Forgets all routes if no more may be kept.
    pub(super) fn make_room_for_route(&mut self) {
        if self.routes.is_full() {
            self.forget_routes();
        }
    }

    /// Remembers the route that [`Slots::known_route`] did not find. The right to it is known until
    /// then, if not for ever.
    pub(super) fn remember_route(&mut self, route: &Route, basis: Basis, until: Option<Instant>) {
        self.routes.remember(route, basis, until);
    }

    /// Forgets all routes if the right to the first of them is no longer known.
    #[inline]
    pub(super) fn forget_old_routes(&mut self, now: Instant) {
        if self.routes.are_old(now) {
            self.forget_routes();
        }
    }

    /// Forgets all routes, and the slots that nothing else points to.
    pub(super) fn forget_routes(&mut self) {
        self.routes.clear();
        self.let_go_of_idle();
    }

    /// Forgets the slots that nothing points to.
    fn let_go_of_idle(&mut self) {
        let routed = self.routes.slots();
        for index in 0..self.all.len() {
            let idle = self.all[index].as_ref().is_some_and(|slot| slot.uses == 0 && !slot.touched);
            let idle = idle && !routed.contains(&(index as u32));
            if let Some(slot) = self.all[index].take_if(|_| idle) {
                self.by_queue.remove(&slot.queue.id);
                self.free.push(index as u32);
            }
        }
        self.direct.iter_mut().for_each(|direct| direct.let_go_of_idle(&routed));
    }

    /// Forgets all routes, and gives back what the slots keep for the next turn. A client of many
    /// queues keeps all of it: to go through them would hold up others.
    pub(super) fn rest(&mut self) {
        if self.all.len() > RESTS || !self.is_idle() {
            return;
        }
        self.forget_routes();
        for slot in self.all.iter_mut().flatten() {
            slot.picks = Vec::new();
            slot.settlements = Vec::new();
        }
        self.touched = Vec::new();
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> Option<&mut QueueSlot> {
        let entry = self.all.get_mut(slot as usize).and_then(Option::as_mut)?;
        if !entry.touched {
            entry.touched = true;
            self.touched.push(slot);
        }
        Some(entry)
    }

    /// The turn's arrival at `index` goes to what is in this slot.
    #[inline]
    pub(super) fn gather_pick(&mut self, slot: u32, index: u32) {
        match self.touch(slot) {
            Some(entry) => entry.picks.push(index),
            None => self.direct.iter_mut().for_each(|direct| direct.gather_pick(slot, index)),
        }
    }

    /// The turn's arrival at `index` goes to none of the slots that were picked for it.
    pub(super) fn forget_picks(&mut self, index: u32) {
        self.direct.iter_mut().for_each(|direct| direct.forget_picks(index));
        for slot in &self.touched {
            if let Some(entry) = &mut self.all[*slot as usize] {
                entry.picks.retain(|pick| *pick != index);
            }
        }
    }

    /// Hands subscribers without a queue their messages of the turn.
    #[inline]
    pub(super) fn deliver_direct(&mut self, arrivals: &mut [Arrival], totals: &Deliveries) {
        if let Some(direct) = self.direct.as_mut().filter(|direct| !direct.is_idle()) {
            direct.deliver(arrivals, totals);
        }
    }

    /// Adds an arrival of a transaction to what goes to subscribers without a queue, by slot.
    pub(super) fn add_direct(&self, route: &Route, arrival: &mut Arrival, batches: &mut HashMap<u32, DirectBatch>) {
        for slot in &**route {
            let Some(subscriber) = self.direct.as_ref().and_then(|direct| direct.subscriber(*slot)) else { continue };
            if subscriber.takes(arrival.message()) {
                let batch = batches.entry(*slot).or_insert_with(|| DirectBatch::to(subscriber));
                batch.messages.push(arrival.message().clone());
                arrival.taken += 1;
            }
        }
    }

    /// A delivery from the queue in this slot is settled with this turn, and no longer points here.
    /// Gives the list of the settlements.
    #[inline]
    pub(super) fn settle(&mut self, slot: u32) -> Option<&mut Vec<Settlement>> {
        let entry = self.touch(slot)?;
        entry.uses -= 1;
        Some(&mut entry.settlements)
    }

    /// True when the turn has no work for any queue.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.touched.is_empty()
    }

    /// The slots with work of this turn.
    #[inline]
    pub(super) fn touched(&self) -> impl Iterator<Item = &QueueSlot> {
        self.touched.iter().filter_map(|slot| self.all[*slot as usize].as_ref())
    }

    /// Takes the settlements of this turn, queue by queue. They are forgotten afterwards.
    #[inline]
    pub(super) fn settle_touched(&mut self, mut settle: impl FnMut(&Arc<Queue>, &[Settlement])) {
        for slot in &self.touched {
            let Some(QueueSlot { queue, settlements, .. }) = &mut self.all[*slot as usize] else { continue };
            if !settlements.is_empty() {
                settle(queue, settlements);
                settlements.clear();
            }
        }
    }

    /// Ends the turn: no slot has work any more.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        for slot in std::mem::take(&mut self.touched) {
            if let Some(entry) = self.get_mut(slot) {
                entry.touched = false;
                entry.picks.clear();
            }
        }
        if let Some(direct) = self.direct.as_mut().filter(|direct| !direct.is_idle()) {
            direct.end_turn();
        }
    }
}
