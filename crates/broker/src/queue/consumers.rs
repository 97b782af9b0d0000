//! Who gets the next message of a queue: consumers with credit and room, highest priority first, in turn. Where only one is
//! to be active at a time, that is the first that came, until it goes; then of those with the highest priority the one that came first.
//!
//! A consumer that lacks credit or room leaves the ring and comes back when [`Consumers::resume`] is called for it. What
//! one visit lends to the consumers of one connection goes to its mailbox together, in the order of the queue.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::message::value::Table;
use crate::session::mailbox::{Lent, Mailbox};

/// Lists that a thread keeps for its next visits.
const SPARE_MAX: usize = 16;

thread_local! {
    /// Memory for what visits lend, empty between uses: a few lists for each thread, since there are many more queues, and a list
    /// that once was long stays so.
    static SPARE: RefCell<Vec<Vec<Lent>>> = const { RefCell::new(Vec::new()) };
}

/// Names a consumer in the whole broker: its client, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConsumerKey {
    pub(crate) client: u64,
    pub(crate) consumer: u32,
}

/// A limit on unsettled deliveries that several consumers of a session share, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct SharedCredit {
    /// 0 for none.
    limit: AtomicU32,
    out: AtomicU32,
    /// Fetched messages that are not settled; no limit is on them.
    fetched: AtomicU32,
}

impl SharedCredit {
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Deliveries and fetched messages that are not settled.
    pub(crate) fn unsettled(&self) -> u32 {
        self.out.load(Ordering::Relaxed).saturating_add(self.fetched.load(Ordering::Relaxed))
    }

    /// Counts a message that was fetched and will be settled.
    pub(crate) fn add_fetched(&self) {
        self.fetched.fetch_add(1, Ordering::Relaxed);
    }

    /// It has been settled.
    pub(crate) fn remove_fetched(&self) {
        self.fetched.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != 0
    }

    /// Whether one more may go out.
    pub(crate) fn has_room(&self) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        limit == 0 || self.out.load(Ordering::SeqCst) < limit
    }

    /// Counts one delivery that will be settled, if there is room. What was fetched does not count.
    fn try_take(&self) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        if limit == 0 {
            self.out.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |out| (out < limit).then_some(out + 1)).is_ok()
    }

    pub(crate) fn give_back(&self, count: u32) {
        self.out.fetch_sub(count, Ordering::SeqCst);
    }
}

/// A receiver attached to a queue.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) key: ConsumerKey,
    /// What its client calls it.
    pub(crate) tag: Arc<str>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Deliveries are settled as they are sent.
    pub(crate) no_ack: bool,
    pub(crate) exclusive: bool,
    pub(crate) priority: i32,
    /// Most unsettled deliveries; 0 for no limit.
    pub(crate) prefetch: u32,
    /// How long it may hold a delivery; none is without end.
    pub(crate) timeout: Option<Duration>,
    /// What it asked for, for reports.
    pub(crate) arguments: Table,
    pub(crate) out: u32,
    pub(crate) shared: Arc<SharedCredit>,
    /// The outbox of its connection.
    outbox: u32,
    /// Its number among all that the queue ever had.
    came: u64,
    in_ring: bool,
}

/// What this visit to the queue hands to one connection at its end.
#[derive(Debug)]
struct Outbox {
    /// The connection's number.
    client: u64,
    mailbox: Arc<Mailbox>,
    /// Consumers of that connection.
    users: u32,
    /// Has no memory of its own between visits.
    pending: Vec<Lent>,
    bytes: usize,
}

impl Outbox {
    /// An empty mailbox takes one delivery of any size, so a full one is one without a byte of room.
    fn has_room(&self) -> bool {
        if self.mailbox.room() > self.bytes {
            return true;
        }
        // Told first and asked again, so that a mailbox which empties in between is not missed.
        self.mailbox.pass_by();
        self.mailbox.room() > self.bytes
    }
}

/// Whose turn it is.
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
            priority: 0,
            prefetch: 0,
            timeout: None,
            arguments: Table::default(),
            out: 0,
            shared,
            outbox: 0,
            came: 0,
            in_ring: false,
        }
    }

    /// Deliveries that are settled as they are sent use no credit, but like all others of the session they wait while the
    /// shared limit is reached, as in RabbitMQ.
    fn has_credit(&self) -> bool {
        (self.no_ack || self.prefetch == 0 || self.out < self.prefetch) && self.shared.has_room()
    }
}

#[derive(Debug)]
struct Level {
    priority: i32,
    ring: VecDeque<u32>,
}

/// The consumers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    slots: Vec<Option<Consumer>>,
    count: usize,
    /// Highest priority first; each holds consumers that may be ready.
    levels: Vec<Level>,
    /// One for each connection that consumes here.
    outboxes: Vec<Option<Outbox>>,
    /// Outboxes with something pending in this visit.
    touched: Vec<u32>,
    /// Only the active one is ever in a ring.
    single: bool,
    active: Option<u32>,
    /// The active one has left, and nobody follows it before what it held has come back.
    vacated: Option<ConsumerKey>,
    /// How many there have been.
    came: u64,
}

impl Consumers {
    /// No consumers yet; if `single`, one of them is active at a time.
    pub(crate) fn new(single: bool) -> Self {
        Self { single, ..Self::default() }
    }

    /// From now on one of them is active at a time, or not any more.
    pub(crate) fn set_single(&mut self, single: bool) {
        if std::mem::replace(&mut self.single, single) == single {
            return;
        }
        for level in &mut self.levels {
            level.ring.clear();
        }
        self.slots.iter_mut().flatten().for_each(|consumer| consumer.in_ring = false);
        self.active = if single { self.successor() } else { None };
        self.vacated = None;
        (0..self.slots.len() as u32).for_each(|slot| self.enter_ring(slot));
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.slots.iter().flatten()
    }

    /// The same, each with whether it is active: where only one is to be, the others wait until it goes.
    pub(crate) fn with_activity(&self) -> impl Iterator<Item = (&Consumer, bool)> {
        let is_active = move |slot: u32| !self.single || self.active == Some(slot);
        (0..).zip(&self.slots).filter_map(move |(slot, consumer)| Some((consumer.as_ref()?, is_active(slot))))
    }

    pub(crate) fn add(&mut self, mut consumer: Consumer) {
        consumer.outbox = self.join_outbox(&consumer);
        consumer.came = self.came;
        self.came += 1;
        let priority = consumer.priority;
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(free) => free as u32,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = Some(consumer);
        self.count += 1;
        if !self.levels.iter().any(|level| level.priority == priority) {
            let at = self.levels.partition_point(|level| level.priority > priority);
            self.levels.insert(at, Level { priority, ring: VecDeque::new() });
        }
        if self.single && self.vacated.is_none() {
            self.active = self.active.or(Some(slot));
        }
        self.enter_ring(slot);
    }

    /// Who is active after the one that was has gone.
    fn successor(&self) -> Option<u32> {
        let all = self.slots.iter().enumerate().filter_map(|(slot, consumer)| Some((slot, consumer.as_ref()?)));
        let first = all.max_by_key(|(_, consumer)| (consumer.priority, std::cmp::Reverse(consumer.came)));
        first.map(|(slot, _)| slot as u32)
    }

    fn join_outbox(&mut self, consumer: &Consumer) -> u32 {
        let client = consumer.key.client;
        let known = self.outboxes.iter_mut().enumerate().find_map(|(number, outbox)| {
            let outbox = outbox.as_mut().filter(|outbox| outbox.client == client)?;
            outbox.users += 1;
            Some(number as u32)
        });
        if let Some(known) = known {
            return known;
        }
        let mailbox = Arc::clone(&consumer.mailbox);
        let outbox = Some(Outbox { client, mailbox, users: 1, pending: Vec::new(), bytes: 0 });
        match self.outboxes.iter().position(Option::is_none) {
            Some(free) => {
                self.outboxes[free] = outbox;
                free as u32
            }
            None => {
                self.outboxes.push(outbox);
                (self.outboxes.len() - 1) as u32
            }
        }
    }

    fn leave_outbox(&mut self, consumer: &Consumer) {
        let Some(outbox) = self.outboxes[consumer.outbox as usize].as_mut() else { return };
        outbox.users -= 1;
        if outbox.users == 0 {
            self.outboxes[consumer.outbox as usize] = None;
        }
    }

    fn enter_ring(&mut self, slot: u32) {
        if self.single && self.active != Some(slot) {
            return;
        }
        let Some(consumer) = self.slots[slot as usize].as_mut() else { return };
        if !consumer.in_ring {
            consumer.in_ring = true;
            if let Some(level) = self.levels.iter_mut().find(|level| level.priority == consumer.priority) {
                level.ring.push_back(slot);
            }
        }
    }

    fn slot_of(&self, key: ConsumerKey) -> Option<u32> {
        self.slots
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|consumer| consumer.key == key))
            .map(|slot| slot as u32)
    }

    /// Takes a consumer out. If it was the active one, nobody is before [`Consumers::succeed`].
    pub(crate) fn remove(&mut self, key: ConsumerKey) -> Option<Consumer> {
        let slot = self.slot_of(key)?;
        let consumer = self.slots[slot as usize].take()?;
        self.leave_outbox(&consumer);
        for level in &mut self.levels {
            level.ring.retain(|other| *other != slot);
        }
        self.levels.retain(|level| {
            level.priority != consumer.priority
                || self.slots.iter().flatten().any(|other| other.priority == level.priority)
        });
        self.count -= 1;
        if self.active.take_if(|active| *active == slot).is_some() {
            self.vacated = Some(key);
        }
        Some(consumer)
    }

    /// What this consumer held has come back: if it was the active one, the next one is now.
    pub(crate) fn succeed(&mut self, key: ConsumerKey) {
        if self.vacated.take_if(|gone| *gone == key).is_some() {
            self.active = self.successor();
            self.active.into_iter().for_each(|next| self.enter_ring(next));
        }
    }

    pub(crate) fn clear(&mut self) -> Vec<Consumer> {
        self.levels.clear();
        self.outboxes.clear();
        (self.active, self.vacated) = (None, None);
        self.count = 0;
        std::mem::take(&mut self.slots).into_iter().flatten().collect()
    }

    /// True when one of them may be ready for a message.
    pub(crate) fn may_take(&self) -> bool {
        self.levels.iter().any(|level| !level.ring.is_empty())
    }

    /// `count` deliveries of this consumer were settled. One that shares a limit waits for its turn in the session, which
    /// resumes it.
    pub(crate) fn settled(&mut self, key: ConsumerKey, count: u32) {
        let Some(slot) = self.slot_of(key) else { return };
        let Some(consumer) = self.slots[slot as usize].as_mut() else { return };
        consumer.out = consumer.out.saturating_sub(count);
        if !consumer.shared.is_limited() {
            self.enter_ring(slot);
        }
    }

    /// This consumer may be ready again, and gets this prefetch if one is given.
    pub(crate) fn resume(&mut self, key: ConsumerKey, prefetch: Option<u32>) {
        let Some(slot) = self.slot_of(key) else { return };
        if let (Some(consumer), Some(prefetch)) = (self.slots[slot as usize].as_mut(), prefetch) {
            consumer.prefetch = prefetch;
        }
        self.enter_ring(slot);
    }

    /// Takes credit from the consumer whose turn it is. None when nobody is ready.
    pub(crate) fn next(&mut self) -> Option<Turn> {
        let slot = self.next_slot()?;
        let consumer = self.slots[slot as usize].as_mut()?;
        if !consumer.no_ack {
            consumer.out += 1;
        }
        Some(Turn { slot, consumer: consumer.key.consumer, no_ack: consumer.no_ack })
    }

    /// Puts a delivery of `cost` bytes into the outbox of the consumer at `slot`.
    pub(crate) fn lend(&mut self, slot: u32, lent: Lent, cost: usize) {
        let Some(number) = self.slots[slot as usize].as_ref().map(|consumer| consumer.outbox) else { return };
        let Some(outbox) = self.outboxes[number as usize].as_mut() else { return };
        if outbox.pending.is_empty() {
            self.touched.push(number);
            outbox.pending = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        outbox.bytes += cost;
        outbox.pending.push(lent);
    }

    fn next_slot(&mut self) -> Option<u32> {
        for level in &mut self.levels {
            while let Some(slot) = level.ring.front().copied() {
                let Some(consumer) = self.slots[slot as usize].as_mut() else {
                    level.ring.pop_front();
                    continue;
                };
                let room = || self.outboxes[consumer.outbox as usize].as_ref().is_some_and(Outbox::has_room);
                let ready = consumer.has_credit() && room() && (consumer.no_ack || consumer.shared.try_take());
                if ready {
                    if level.ring.len() > 1 {
                        level.ring.rotate_left(1);
                    }
                    return Some(slot);
                }
                consumer.in_ring = false;
                level.ring.pop_front();
            }
        }
        None
    }

    /// Hands what this visit gathered to the mailboxes, one lock and one wake-up for each connection.
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
        consumer.priority = priority;
        consumer.prefetch = prefetch;
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
        let mut consumers = Consumers::new(true);
        for (number, priority) in [(1, 0), (2, 0), (3, 5), (4, 5)] {
            consumers.add(consumer(number, priority, 2));
        }
        let key = |consumer| ConsumerKey { client: 1, consumer };
        assert_eq!(turns(&mut consumers, 4), [1, 1]);
        consumers.resume(key(2), None);
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
        consumers.resume(ConsumerKey { client: 1, consumer: 2 }, None);
        assert_eq!(turns(&mut consumers, 10), [2]);
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
            consumers.resume(ConsumerKey { client: 1, consumer: number }, None);
        }
        assert_eq!(turns(&mut consumers, 10), [2]);
    }
}
