//! The consumers of a queue, and which of them gets the next message: one with credit and room,
//! highest priority first, in turn. With a single active consumer, the first that came stays active
//! until it goes. The next one is the oldest of the highest priority.
//!
//! A consumer that lacks credit or room leaves the ring. It has told its mailbox or its session
//! that it waits, and [`Consumers::resume`] brings it back. The deliveries of one visit to the
//! consumers of one connection go to its mailbox together, in the order of the queue. Only reports
//! look through all consumers.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashMap;

use crate::arguments::QueueArguments;
use crate::arguments::consumer::ConsumerArguments;
use crate::queue::credit::{Bounds, Credit, Grant, Rest, SharedCredit};
use crate::queue::mailbox::{Mailbox, Notice, Outgoing};
use crate::queue::rare::Empty;
use crate::queue::rings::Rings;

/// Up to this number of consumers a search looks through all; beyond it an index is kept.
const LOOKED_THROUGH: usize = 16;
/// Lists that a thread keeps for its next visits.
const SPARE_MAX: usize = 16;

thread_local! {
    /// Memory for the deliveries of a visit, empty between uses. Each thread has a few lists, since
    /// there are many more queues than threads, and a list never shrinks.
    static SPARE: RefCell<Vec<Vec<Outgoing>>> = const { RefCell::new(Vec::new()) };
}

/// Names a consumer in the whole broker: its client, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConsumerKey {
    pub(crate) client: u64,
    pub(crate) consumer: u32,
}

/// A receiver attached to a queue.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) key: ConsumerKey,
    /// Its client's name for it.
    pub(crate) tag: Arc<str>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Deliveries are settled as they are sent.
    pub(crate) no_ack: bool,
    pub(crate) exclusive: bool,
    pub(crate) bounds: Bounds,
    /// Its protocol's number for its session, for reports.
    pub(crate) session: u32,
    /// How long it may hold a delivery; `None` for any time.
    pub(crate) timeout: Option<Duration>,
    /// What it asks of the queue.
    pub(crate) arguments: ConsumerArguments,
    pub(crate) out: u32,
    /// Deliveries since it came, and granted ones that it gave back.
    sent: u64,
    pub(crate) shared: Arc<SharedCredit>,
    place: Place,
}

/// The place of a consumer among those of its queue.
#[derive(Debug, Default)]
struct Place {
    /// The outbox of its connection.
    outbox: u32,
    /// Its priority's place among the rings.
    level: u32,
    /// Its number in the order of arrival, among all consumers that the queue ever had.
    came: u64,
    in_ring: bool,
    /// Its mailbox has been told that it waits for room.
    passed_by: bool,
    /// Its session has been told that it waits for credit.
    starved: bool,
}

/// The deliveries of this visit to one connection, handed over at its end.
#[derive(Debug)]
struct Outbox {
    /// The connection's number.
    client: u64,
    mailbox: Arc<Mailbox>,
    /// Consumers of that connection.
    users: u32,
    /// Takes its memory from a spare list of the thread, and gives it back after each visit.
    pending: Vec<Outgoing>,
    bytes: usize,
}

impl Outbox {
    /// An empty mailbox takes one delivery of any size. So only a mailbox without a byte of room is
    /// full.
    #[inline]
    fn has_room(&self) -> bool {
        self.mailbox.room() > self.bytes
    }
}

/// The consumer whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) slot: u32,
    /// Its number within its client.
    pub(crate) consumer: u32,
    pub(crate) no_ack: bool,
}

impl Consumer {
    pub(crate) fn new(key: ConsumerKey, mailbox: Arc<Mailbox>, shared: Arc<SharedCredit>) -> Self {
        Self {
            key,
            tag: Arc::default(),
            mailbox,
            no_ack: false,
            exclusive: false,
            bounds: Credit::OPEN.bounds(0, 0),
            session: 0,
            timeout: None,
            arguments: ConsumerArguments::default(),
            out: 0,
            sent: 0,
            shared,
            place: Place::default(),
        }
    }

    /// Whether it would take a message now.
    pub(crate) fn is_open(&self) -> bool {
        self.may_hold_more() && self.mailbox.room() > 0
    }

    /// Whether its credit allows one more delivery.
    pub(crate) fn may_hold_more(&self) -> bool {
        self.has_credit() && self.shared.has_room()
    }

    #[inline]
    fn has_credit(&self) -> bool {
        self.is_within_window() && self.bounds.grant.is_none_or(|grant| self.sent < grant.up_to)
    }

    fn is_within_window(&self) -> bool {
        self.no_ack || self.bounds.window.most == 0 || self.out < self.bounds.window.most
    }

    fn drains(&self) -> bool {
        self.bounds.grant.is_some_and(|grant| grant.rest == Rest::Drained)
    }

    /// Takes back what is left of its grant, and tells its client.
    fn end_drain(&mut self) {
        let Some(Grant { up_to, rest }) = &mut self.bounds.grant else { return };
        let unused = up_to.saturating_sub(self.sent);
        *rest = Rest::Kept;
        self.sent += unused;
        self.mailbox.notify(Notice::Drained { consumer: self.key.consumer, unused });
    }

    /// Takes the shared credit of a delivery, if it can be made now. If not, the mailbox or the
    /// session has been told that this consumer waits.
    ///
    /// Deliveries that are settled as they are sent use no credit. Like all others of the session
    /// they wait while the shared limit is reached, as in RabbitMQ.
    #[inline]
    fn takes(&mut self, outbox: &Outbox) -> bool {
        if !self.has_credit() || !(self.shared.has_room() || self.finds_credit()) {
            return false;
        }
        if !(outbox.has_room() || self.finds_room(outbox)) {
            return false;
        }
        self.no_ack || self.shared.try_take() || (self.finds_credit() && self.shared.try_take())
    }

    /// Tells the mailbox first and asks it again, so that one that empties in between is not
    /// missed.
    #[cold]
    fn finds_room(&mut self, outbox: &Outbox) -> bool {
        if !std::mem::replace(&mut self.place.passed_by, true) {
            outbox.mailbox.pass_by(self.key.consumer);
        }
        outbox.has_room()
    }

    /// The same for credit that it shares.
    #[cold]
    fn finds_credit(&mut self) -> bool {
        self.wait_for_credit();
        self.shared.has_room()
    }

    fn wait_for_credit(&mut self) {
        if !std::mem::replace(&mut self.place.starved, true) {
            self.shared.add_starved(self.key.consumer);
        }
    }
}

/// Why a consumer may be ready again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Its mailbox has room.
    Room,
    /// The limit that it shares has room, or was changed.
    Credit,
    /// It has other credit.
    Bounds(Bounds),
}

/// The consumers of a queue that get its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Active {
    All,
    /// A single one; the others wait until it goes.
    One,
}

impl Active {
    /// As the arguments of a queue ask.
    pub(crate) fn of(arguments: &QueueArguments) -> Self {
        if arguments.single_active_consumer { Self::One } else { Self::All }
    }
}

/// The state of a queue with a single active consumer.
#[derive(Debug, Default)]
struct Single {
    active: Option<u32>,
    /// The active one has left. It has no successor until its unsettled messages are back.
    vacated: Option<ConsumerKey>,
    /// All of them in the order of succession: by priority, then by arrival.
    order: BTreeSet<(Reverse<i32>, u64, u32)>,
}

impl Single {
    /// The next active consumer, once the last one has gone.
    fn successor(&self) -> Option<u32> {
        self.order.first().map(|(_, _, slot)| *slot)
    }
}

/// Finds consumers and outboxes where there are too many of them to look through.
#[derive(Debug, Default)]
struct Index {
    slots: HashMap<ConsumerKey, u32>,
    outboxes: HashMap<u64, u32>,
}

/// The consumers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    slots: Vec<Option<Consumer>>,
    /// Slots without a consumer that no ring names.
    free: Vec<u32>,
    /// How many slots without a consumer a ring still names.
    stale: usize,
    count: usize,
    exclusive: usize,
    /// Those that may be ready.
    rings: Rings,
    /// How many are in a ring.
    in_rings: usize,
    /// One for each connection that consumes here.
    outboxes: Vec<Option<Outbox>>,
    free_outboxes: Vec<u32>,
    /// Outboxes with something pending in this visit.
    touched: Vec<u32>,
    /// Consumers whose drain has not ended.
    draining: BTreeSet<u32>,
    index: Option<Box<Index>>,
    /// Only the active one is ever in a ring.
    single: Option<Box<Single>>,
    /// How many there have been.
    came: u64,
}

impl Empty for Consumers {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Consumers> = LazyLock::new(Consumers::default);
        &EMPTY
    }
}

impl Consumers {
    /// No consumers yet.
    pub(crate) fn new(active: Active) -> Self {
        Self { single: (active == Active::One).then(Box::default), ..Self::default() }
    }

    /// How many of them are active.
    pub(super) fn active(&self) -> Active {
        if self.single.is_some() { Active::One } else { Active::All }
    }

    /// Switches between a single active consumer and many.
    pub(crate) fn activate(&mut self, active: Active) {
        self.sweep();
        self.rings.empty();
        self.in_rings = 0;
        self.slots.iter_mut().flatten().for_each(|consumer| consumer.place.in_ring = false);
        self.single = (active == Active::One).then(|| {
            let mut fresh = Box::<Single>::default();
            let all = (0..).zip(&self.slots).filter_map(|(slot, one)| Some((slot, one.as_ref()?)));
            fresh.order = all.map(|(slot, one)| (Reverse(one.arguments.priority), one.place.came, slot)).collect();
            fresh.active = fresh.successor();
            fresh
        });
        (0..self.slots.len() as u32).for_each(|slot| self.enter_ring(slot));
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of them are exclusive.
    pub(crate) fn exclusive(&self) -> usize {
        self.exclusive
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.slots.iter().flatten()
    }

    /// The same, each with whether it is active. With a single active consumer the others wait
    /// until it goes.
    pub(crate) fn with_activity(&self) -> impl Iterator<Item = (&Consumer, bool)> {
        let is_active = move |slot: u32| self.single.as_ref().is_none_or(|single| single.active == Some(slot));
        (0..).zip(&self.slots).filter_map(move |(slot, consumer)| Some((consumer.as_ref()?, is_active(slot))))
    }

    pub(crate) fn add(&mut self, mut consumer: Consumer) {
        consumer.place.outbox = self.join_outbox(&consumer);
        consumer.place.came = self.came;
        self.came += 1;
        consumer.place.level = self.rings.join(consumer.arguments.priority);
        let (key, place) = (consumer.key, (Reverse(consumer.arguments.priority), consumer.place.came));
        self.count += 1;
        self.exclusive += usize::from(consumer.exclusive);
        let drains = consumer.drains();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(consumer);
        if drains {
            self.draining.insert(slot);
        }
        match &mut self.index {
            Some(index) => {
                index.slots.insert(key, slot);
            }
            None if self.slots.len() > LOOKED_THROUGH => self.begin_index(),
            None => {}
        }
        if let Some(single) = &mut self.single {
            single.order.insert((place.0, place.1, slot));
            if single.vacated.is_none() {
                single.active = single.active.or(Some(slot));
            }
        }
        self.enter_ring(slot);
    }

    fn begin_index(&mut self) {
        let all = (0..).zip(&self.slots).filter_map(|(slot, one)| Some((one.as_ref()?.key, slot)));
        let outboxes = (0..).zip(&self.outboxes).filter_map(|(number, one)| Some((one.as_ref()?.client, number)));
        self.index = Some(Box::new(Index { slots: all.collect(), outboxes: outboxes.collect() }));
    }

    fn outbox_of(&self, client: u64) -> Option<u32> {
        if let Some(index) = &self.index {
            return index.outboxes.get(&client).copied();
        }
        let of = |outbox: &Option<Outbox>| outbox.as_ref().is_some_and(|outbox| outbox.client == client);
        self.outboxes.iter().position(of).map(|number| number as u32)
    }

    fn join_outbox(&mut self, consumer: &Consumer) -> u32 {
        let client = consumer.key.client;
        if let Some(known) = self.outbox_of(client) {
            if let Some(outbox) = &mut self.outboxes[known as usize] {
                outbox.users += 1;
            }
            return known;
        }
        let mailbox = Arc::clone(&consumer.mailbox);
        let number = self.free_outboxes.pop().unwrap_or_else(|| {
            self.outboxes.push(None);
            (self.outboxes.len() - 1) as u32
        });
        self.outboxes[number as usize] = Some(Outbox { client, mailbox, users: 1, pending: Vec::new(), bytes: 0 });
        if let Some(index) = &mut self.index {
            index.outboxes.insert(client, number);
        }
        number
    }

    fn leave_outbox(&mut self, consumer: &Consumer) {
        let Some(outbox) = self.outboxes[consumer.place.outbox as usize].as_mut() else { return };
        outbox.users -= 1;
        if outbox.users == 0 {
            self.outboxes[consumer.place.outbox as usize] = None;
            self.free_outboxes.push(consumer.place.outbox);
            if let Some(index) = &mut self.index {
                index.outboxes.remove(&consumer.key.client);
            }
        }
    }

    fn enter_ring(&mut self, slot: u32) {
        if self.single.as_ref().is_some_and(|single| single.active != Some(slot)) {
            return;
        }
        let Some(consumer) = self.slots[slot as usize].as_mut() else { return };
        if !consumer.place.in_ring {
            consumer.place.in_ring = true;
            self.in_rings += 1;
            self.rings.enter(consumer.place.level, slot);
        }
    }

    fn slot_of(&self, key: ConsumerKey) -> Option<u32> {
        if let Some(index) = &self.index {
            return index.slots.get(&key).copied();
        }
        let of = |slot: &Option<Consumer>| slot.as_ref().is_some_and(|consumer| consumer.key == key);
        self.slots.iter().position(of).map(|slot| slot as u32)
    }

    /// Removes a consumer. If it was the active one, none is active before [`Consumers::succeed`].
    pub(crate) fn remove(&mut self, key: ConsumerKey) -> Option<Consumer> {
        let slot = self.slot_of(key)?;
        let consumer = self.slots[slot as usize].take()?;
        self.leave_outbox(&consumer);
        if let Some(index) = &mut self.index {
            index.slots.remove(&key);
        }
        self.draining.remove(&slot);
        self.count -= 1;
        self.exclusive -= usize::from(consumer.exclusive);
        if consumer.place.in_ring {
            self.in_rings -= 1;
            self.stale += 1;
        } else {
            self.free.push(slot);
        }
        let freed = self.free.len();
        self.rings.leave(consumer.place.level, &mut self.free);
        self.stale -= self.free.len() - freed;
        if self.stale > self.count + LOOKED_THROUGH {
            self.sweep();
        }
        if let Some(single) = &mut self.single {
            single.order.remove(&(Reverse(consumer.arguments.priority), consumer.place.came, slot));
            if single.active.take_if(|active| *active == slot).is_some() {
                single.vacated = Some(key);
            }
        }
        if self.count == 0 {
            self.index = None;
        }
        Some(consumer)
    }

    /// Removes the slots without a consumer from all rings.
    fn sweep(&mut self) {
        let slots = &self.slots;
        self.rings.sweep(&mut self.free, &|slot| slots[slot as usize].is_some());
        self.stale = 0;
    }

    /// The unsettled messages of this consumer are back: if it was the active one, the next one is
    /// now.
    pub(crate) fn succeed(&mut self, key: ConsumerKey) {
        let Some(single) = &mut self.single else { return };
        if single.vacated.take_if(|gone| *gone == key).is_some() {
            single.active = single.successor();
            single.active.into_iter().for_each(|next| self.enter_ring(next));
        }
    }

    pub(crate) fn clear(&mut self) -> Vec<Consumer> {
        let (active, came) = (self.active(), self.came);
        let slots = std::mem::replace(self, Self { came, ..Self::new(active) }).slots;
        slots.into_iter().flatten().collect()
    }

    /// True when one of them may be ready for a message.
    pub(crate) fn may_take(&self) -> bool {
        self.in_rings > 0
    }

    /// `count` deliveries of this consumer were settled. One with a shared limit waits for its turn
    /// in the session, which resumes it.
    pub(crate) fn settled(&mut self, key: ConsumerKey, count: u32) {
        let Some(slot) = self.slot_of(key) else { return };
        let Some(consumer) = self.slots[slot as usize].as_mut() else { return };
        consumer.out = consumer.out.saturating_sub(count);
        if !consumer.shared.is_limited() {
            self.enter_ring(slot);
        } else if !consumer.place.in_ring {
            consumer.wait_for_credit();
        }
    }

    /// This consumer may be ready again.
    pub(crate) fn resume(&mut self, key: ConsumerKey, why: Resume) {
        let Some(slot) = self.slot_of(key) else { return };
        let Some(consumer) = self.slots[slot as usize].as_mut() else { return };
        match why {
            Resume::Room => consumer.place.passed_by = false,
            Resume::Credit => consumer.place.starved = false,
            Resume::Bounds(bounds) => {
                consumer.bounds = bounds;
                if consumer.drains() {
                    self.draining.insert(slot);
                } else {
                    self.draining.remove(&slot);
                }
            }
        }
        self.enter_ring(slot);
    }

    /// Takes credit from the consumer whose turn it is. `None` when no consumer is ready. Part of
    /// its caller, which has it in registers then.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Turn> {
        let slot = self.next_slot()?;
        let consumer = self.slots[slot as usize].as_mut()?;
        consumer.sent += 1;
        if !consumer.no_ack {
            consumer.out += 1;
        }
        Some(Turn { slot, consumer: consumer.key.consumer, no_ack: consumer.no_ack })
    }

    /// Puts a delivery of `cost` bytes into the outbox of the consumer at `slot`.
    #[inline]
    pub(crate) fn lend(&mut self, slot: u32, outgoing: Outgoing, cost: usize) {
        let Some(number) = self.slots[slot as usize].as_ref().map(|consumer| consumer.place.outbox) else { return };
        let Some(outbox) = self.outboxes[number as usize].as_mut() else { return };
        if outbox.pending.is_empty() {
            self.touched.push(number);
            outbox.pending = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        outbox.bytes += cost;
        outbox.pending.push(outgoing);
    }

    fn next_slot(&mut self) -> Option<u32> {
        while let Some(slot) = self.rings.front() {
            let Some(consumer) = self.slots[slot as usize].as_mut() else {
                self.rings.pop();
                self.free.push(slot);
                self.stale -= 1;
                continue;
            };
            let outbox = self.outboxes[consumer.place.outbox as usize].as_ref();
            if outbox.is_some_and(|outbox| consumer.takes(outbox)) {
                self.rings.rotate();
                return Some(slot);
            }
            consumer.place.in_ring = false;
            self.in_rings -= 1;
            self.rings.pop();
        }
        None
    }

    /// True while the drain of a consumer has not ended.
    #[inline]
    pub(crate) fn are_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Ends the drains of consumers that do not wait for `next`, the entry that is delivered next.
    /// None waits for an entry that another consumer would get, or for its own settlements. Their
    /// deliveries were handed over.
    #[cold]
    pub(crate) fn end_drains(&mut self, next: Option<u64>) {
        let active = self.single.as_ref().map(|single| single.active);
        let slots = &mut self.slots;
        self.draining.retain(|slot| {
            let Some(consumer) = slots[*slot as usize].as_mut() else { return false };
            let is_active = active.is_none_or(|active| active == Some(*slot));
            let waits = next.is_some() && is_active && consumer.has_credit();
            if !waits {
                consumer.end_drain();
            }
            waits
        });
    }

    /// Moves the deliveries of this visit to the mailboxes, with one lock and one wake-up for each
    /// connection.
    pub(crate) fn hand_over(&mut self) {
        for number in self.touched.drain(..) {
            if let Some(outbox) = self.outboxes[number as usize].as_mut() {
                let bytes = std::mem::take(&mut outbox.bytes);
                let mut pending = std::mem::take(&mut outbox.pending);
                outbox.mailbox.deliver(&mut pending, bytes);
                SPARE.with_borrow_mut(|spare| {
                    if spare.len() < SPARE_MAX {
                        spare.push(pending);
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn consumer(number: u32, priority: i32, prefetch: u32) -> Consumer {
        let mailbox = Arc::new(Mailbox::new(1 << 20, Waker::noop().clone()));
        let mut consumer = Consumer::new(ConsumerKey { client: 1, consumer: number }, mailbox, Arc::default());
        consumer.arguments.priority = priority;
        consumer.bounds.window.most = prefetch;
        consumer
    }

    fn turns(consumers: &mut Consumers, count: usize) -> Vec<u32> {
        (0..count).map_while(|_| consumers.next().map(|turn| turn.consumer)).collect()
    }

    #[test]
    fn equals_take_turns_and_stop_without_credit() {
        let mut consumers = Consumers::default();
        for number in 1..=3 {
            consumers.add(consumer(number, 0, 2));
        }
        assert_eq!(turns(&mut consumers, 10), [1, 2, 3, 1, 2, 3]);
        consumers.settled(ConsumerKey { client: 1, consumer: 2 }, 1);
        assert_eq!(turns(&mut consumers, 10), [2]);
    }

    #[test]
    fn a_grant_counts_down_and_is_not_given_back_by_settlements() {
        let (mut consumers, key) = (Consumers::default(), ConsumerKey { client: 1, consumer: 1 });
        let mut one = consumer(1, 0, 0);
        one.bounds.grant = Some(Grant { up_to: 0, rest: Rest::Kept });
        consumers.add(one);
        assert_eq!(turns(&mut consumers, 5), [] as [u32; 0], "0 is none");
        for (up_to, count) in [(2, 2), (2, 0), (3, 1)] {
            let credit = Credit::Granted { left: up_to, rest: Rest::Kept };
            consumers.resume(key, Resume::Bounds(credit.bounds(0, 0)));
            assert_eq!(turns(&mut consumers, 5).len(), count, "up to {up_to}");
            consumers.settled(key, count as u32);
            assert_eq!(turns(&mut consumers, 5), [] as [u32; 0]);
        }
        consumers.resume(key, Resume::Bounds(Credit::OPEN.bounds(0, 0)));
        assert_eq!(turns(&mut consumers, 5).len(), 5, "a window without a limit");
    }

    #[test]
    fn the_higher_priority_goes_first_while_it_has_credit() {
        let mut consumers = Consumers::default();
        consumers.add(consumer(1, 0, 0));
        consumers.add(consumer(2, 5, 2));
        assert_eq!(turns(&mut consumers, 4), [2, 2, 1, 1]);
        consumers.settled(ConsumerKey { client: 1, consumer: 2 }, 2);
        assert_eq!(turns(&mut consumers, 3), [2, 2, 1]);
        consumers.remove(ConsumerKey { client: 1, consumer: 1 });
        assert_eq!(turns(&mut consumers, 3), [] as [u32; 0]);
    }

    #[test]
    fn one_is_active_until_it_goes_and_then_the_first_of_the_highest_priority() {
        let mut consumers = Consumers::new(Active::One);
        for (number, priority) in [(1, 0), (2, 0), (3, 5), (4, 5)] {
            consumers.add(consumer(number, priority, 2));
        }
        let key = |consumer| ConsumerKey { client: 1, consumer };
        assert_eq!(turns(&mut consumers, 4), [1, 1]);
        consumers.resume(key(2), Resume::Credit);
        assert_eq!(turns(&mut consumers, 4), [] as [u32; 0], "nobody else gets what the active one has no credit for");
        consumers.settled(key(1), 1);
        assert_eq!(turns(&mut consumers, 4), [1]);
        for (gone, next) in [(2, 0), (1, 3), (3, 4), (4, 0)] {
            consumers.remove(key(gone));
            assert_eq!(turns(&mut consumers, 1), [] as [u32; 0], "nobody follows at once");
            consumers.succeed(key(gone));
            assert_eq!(turns(&mut consumers, 1), [next].into_iter().filter(|next| *next > 0).collect::<Vec<_>>());
        }
        consumers.add(consumer(5, 0, 0));
        assert_eq!(turns(&mut consumers, 2), [5, 5]);
    }

    #[test]
    fn a_shared_limit_bounds_all_consumers_of_the_session() {
        let shared = Arc::new(SharedCredit::default());
        shared.set_limit(3);
        let mut consumers = Consumers::default();
        for number in 1..=2 {
            let mut consumer = consumer(number, 0, 0);
            consumer.shared = Arc::clone(&shared);
            consumers.add(consumer);
        }
        assert_eq!(turns(&mut consumers, 10), [1, 2, 1]);
        shared.give_back(1);
        consumers.resume(ConsumerKey { client: 1, consumer: 2 }, Resume::Credit);
        assert_eq!(turns(&mut consumers, 10), [2]);
    }

    /// Priorities, connections and departures out of order, with more consumers than are looked
    /// through. The index finds them, and no slot that a ring still names is given to another
    /// consumer.
    #[test]
    fn many_come_and_go_and_each_keeps_its_own_turn() {
        const MANY: u32 = 300;
        let mut consumers = Consumers::default();
        let key = |number| ConsumerKey { client: u64::from(number % 7), consumer: number };
        let add = |consumers: &mut Consumers, number: u32| {
            let mut one = consumer(number, (number % 5).cast_signed(), 1);
            one.key = key(number);
            one.exclusive = number == 1;
            consumers.add(one);
        };
        (0..MANY).for_each(|number| add(&mut consumers, number));
        assert!(consumers.index.is_some() && consumers.exclusive() == 1);
        for number in (0..MANY).filter(|number| number % 3 == 1) {
            assert_eq!(consumers.remove(key(number)).map(|gone| gone.key), Some(key(number)));
        }
        (MANY..MANY + 50).for_each(|number| add(&mut consumers, number));
        let mut expected: Vec<u32> = (0..MANY).filter(|number| number % 3 != 1).chain(MANY..MANY + 50).collect();
        expected.sort_by_key(|number| (Reverse(number % 5), *number));
        assert_eq!(turns(&mut consumers, 1000), expected, "each once, the highest priority first, then as they came");
        assert!(!consumers.may_take() && consumers.exclusive() == 0);
        consumers.settled(key(2), 1);
        assert_eq!((turns(&mut consumers, 2), consumers.slots.len()), (vec![2], MANY as usize + 50));
        let left: Vec<ConsumerKey> = consumers.iter().map(|one| one.key).collect();
        left.into_iter().for_each(|key| drop(consumers.remove(key)));
        assert!(consumers.is_empty() && consumers.index.is_none() && consumers.outboxes.iter().all(Option::is_none));
        assert_eq!(consumers.free.len() + consumers.stale, consumers.slots.len());
    }

    #[test]
    fn who_finds_no_room_is_noted_once_and_in_turn() {
        let mailbox = Arc::new(Mailbox::new(0, Waker::noop().clone()));
        let mut consumers = Consumers::default();
        for number in 1..=3 {
            let mut one = consumer(number, 0, 0);
            one.mailbox = Arc::clone(&mailbox);
            consumers.add(one);
        }
        assert_eq!(turns(&mut consumers, 5), [] as [u32; 0]);
        let again = ConsumerKey { client: 1, consumer: 1 };
        consumers.resume(again, Resume::Credit);
        assert_eq!(turns(&mut consumers, 5), [] as [u32; 0]);
        assert_eq!(std::iter::from_fn(|| mailbox.next_passed()).collect::<Vec<_>>(), [1, 2, 3]);
        consumers.resume(again, Resume::Room);
        turns(&mut consumers, 1);
        assert_eq!((mailbox.next_passed(), mailbox.next_passed()), (Some(1), None));
    }

    #[test]
    fn with_a_shared_limit_the_session_says_whose_turn_it_is() {
        let shared = Arc::new(SharedCredit::default());
        shared.set_limit(1);
        let mut consumers = Consumers::default();
        for number in 1..=2 {
            let mut consumer = consumer(number, 0, 0);
            consumer.shared = Arc::clone(&shared);
            consumers.add(consumer);
        }
        assert_eq!(turns(&mut consumers, 10), [1]);
        consumers.settled(ConsumerKey { client: 1, consumer: 1 }, 1);
        shared.give_back(1);
        for number in [2, 1] {
            consumers.resume(ConsumerKey { client: 1, consumer: number }, Resume::Credit);
        }
        assert_eq!(turns(&mut consumers, 10), [2]);
    }
}
