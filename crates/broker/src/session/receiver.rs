//! The receiving side of a client: its consumers, and what is on its way to it or comes back from
//! it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Owner;

use crate::queue::mailbox::{Mailbox, Notice, Outgoing};
use crate::queue::{Queue, SharedCredit};
use crate::session::SessionId;
use crate::session::numbered::Numbered;

#[derive(Debug)]
pub(super) struct ConsumerRecord {
    pub(super) session: SessionId,
    pub(super) tag: Arc<str>,
    /// Bytes of its tag and its selector, which its client is charged for.
    pub(super) text: usize,
    /// Its queue; a consumer of replies has none, nor has a subscriber without one.
    pub(super) slot: Option<u32>,
    /// The subscriber without a queue that it is.
    pub(super) direct: Option<Owner>,
    pub(super) no_ack: bool,
    /// How long it may hold a delivery; `None` for any time.
    pub(super) timeout: Option<Duration>,
    /// Deliveries that its client was told of, and granted ones that it gave back.
    pub(super) reported: u64,
}

/// The receiving side of a client.
#[derive(Default)]
pub(super) struct Receiver {
    consumers: Numbered<ConsumerRecord>,
    inbox: VecDeque<Outgoing>,
    notices: Vec<Notice>,
    /// The queue whose first message is being read for a fetch.
    fetching: Option<Arc<Queue>>,
    /// It has consumed or fetched: it is never stopped by an alarm before the headroom is used up.
    consumes: bool,
    /// Some session has a limit for its consumers together.
    shares_limits: bool,
    /// Shared credit that returns at the end of this turn's settlements.
    returning: Vec<(Arc<SharedCredit>, u32)>,
    /// When to look for overdue deliveries.
    look_at: Option<Instant>,
}

/// Consumers.
impl Receiver {
    /// Notes a consumer and gives it its number.
    pub(super) fn add_consumer(&mut self, record: ConsumerRecord) -> u32 {
        self.consumers.add(record)
    }

    /// Sets how long a consumer may hold a delivery.
    pub(super) fn set_timeout(&mut self, consumer: u32, timeout: Option<Duration>) {
        if let Some(record) = self.consumer_mut(consumer) {
            record.timeout = timeout;
        }
    }

    /// A consumer is this subscriber without a queue.
    pub(super) fn set_direct(&mut self, consumer: u32, subscriber: Owner) {
        if let Some(record) = self.consumer_mut(consumer) {
            record.direct = Some(subscriber);
        }
    }

    /// Takes the subscriber without a queue that a consumer is.
    pub(super) fn take_direct(&mut self, consumer: u32) -> Option<Owner> {
        self.consumer_mut(consumer)?.direct.take()
    }

    /// All subscribers without a queue.
    pub(super) fn direct(&self) -> Vec<Owner> {
        self.consumers.iter().filter_map(|(_, record)| record.direct).collect()
    }

    #[inline]
    pub(super) fn consumer(&self, consumer: u32) -> Option<&ConsumerRecord> {
        self.consumers.get(consumer)
    }

    #[inline]
    pub(super) fn consumer_mut(&mut self, consumer: u32) -> Option<&mut ConsumerRecord> {
        self.consumers.get_mut(consumer)
    }

    pub(super) fn remove_consumer(&mut self, consumer: u32) -> Option<ConsumerRecord> {
        self.consumers.remove(consumer)
    }

    pub(super) fn clear_consumers(&mut self) {
        self.consumers.clear();
    }

    #[inline]
    pub(super) fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// The shortest time that a consumer may hold a delivery.
    pub(super) fn shortest_timeout(&self) -> Option<Duration> {
        self.consumers.iter().filter_map(|(_, consumer)| consumer.timeout).min()
    }

    /// It consumes or fetches from here on.
    pub(super) fn note_consuming(&mut self) {
        self.consumes = true;
    }

    /// It has consumed or fetched.
    #[inline]
    pub(super) fn consumes(&self) -> bool {
        self.consumes
    }

    /// A fetch waits for a message of this queue.
    pub(super) fn wait_for(&mut self, queue: Arc<Queue>) {
        self.fetching = Some(queue);
    }

    /// Whether no fetch waits for a message, or none that `will_wake` is true of.
    pub(super) fn has_fetched(&mut self, will_wake: impl FnOnce(&Queue) -> bool) -> bool {
        self.fetching.take_if(|queue| !will_wake(queue));
        self.fetching.is_none()
    }
}

/// Deliveries and notices on their way to the protocol.
impl Receiver {
    /// Takes what waits in the mailbox, once the last deliveries were reported.
    pub(super) fn take_from(&mut self, mailbox: &Mailbox) {
        self.with_list(|inbox, notices| mailbox.take(inbox, notices));
    }

    /// Takes what waits in the mailbox, behind what is here.
    pub(super) fn take_more_from(&mut self, mailbox: &Mailbox) {
        self.with_list(|inbox, notices| mailbox.take_more(inbox, notices));
    }

    /// Calls `change` with the deliveries as a list. Nothing is copied where none has been
    /// reported, or all have.
    #[inline]
    fn with_list<R>(&mut self, change: impl FnOnce(&mut Vec<Outgoing>, &mut Vec<Notice>) -> R) -> R {
        let mut inbox = Vec::from(std::mem::take(&mut self.inbox));
        let result = change(&mut inbox, &mut self.notices);
        self.inbox = VecDeque::from(inbox);
        result
    }

    /// Gives back what is kept for the next ones.
    pub(super) fn rest(&mut self) {
        if self.inbox.is_empty() && self.notices.is_empty() && self.returning.is_empty() {
            (self.inbox, self.notices, self.returning) = Default::default();
        }
    }

    #[inline]
    pub(super) fn has_deliveries(&self) -> bool {
        !self.inbox.is_empty()
    }

    #[inline]
    pub(super) fn take_deliveries(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(&mut self.inbox)
    }

    /// The deliveries that were taken and not reported.
    #[inline]
    pub(super) fn put_back_deliveries(&mut self, deliveries: VecDeque<Outgoing>) {
        self.inbox = deliveries;
    }

    /// Takes the deliveries for these consumers out.
    pub(super) fn take_deliveries_for(&mut self, consumers: &BTreeSet<u32>) -> Vec<Outgoing> {
        let is_for = |outgoing: &mut Outgoing| consumers.contains(&outgoing.consumer);
        self.with_list(|inbox, _| inbox.extract_if(.., is_for).collect())
    }

    #[inline]
    pub(super) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    #[inline]
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    #[inline]
    pub(super) fn put_back_notices(&mut self, notices: Vec<Notice>) {
        self.notices = notices;
    }
}

/// Credit and time.
impl Receiver {
    /// Some session has a limit for its consumers together.
    #[inline]
    pub(super) fn shares_limits(&self) -> bool {
        self.shares_limits
    }

    pub(super) fn note_shared_limit(&mut self) {
        self.shares_limits = true;
    }

    /// Returns credit that several consumers share, once the queues have been visited. Otherwise
    /// the queue of the settlement would always be the first to use it.
    #[inline]
    pub(super) fn return_credit(&mut self, shared: &Arc<SharedCredit>, count: u32) {
        match self.returning.last_mut() {
            Some((last, returning)) if Arc::ptr_eq(last, shared) => *returning += count,
            _ => self.returning.push((Arc::clone(shared), count)),
        }
    }

    /// The queues have been visited: gives back the shared credit.
    #[inline]
    pub(super) fn give_back_credit(&mut self) {
        for (shared, count) in self.returning.drain(..) {
            shared.give_back(count);
        }
    }

    /// When to look for overdue deliveries; `None` while none are out.
    #[inline]
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Overdue deliveries are looked for at this time at the latest.
    pub(super) fn look_by(&mut self, latest: Instant) {
        self.look_at = Some(self.look_at.map_or(latest, |at| at.min(latest)));
    }

    /// Overdue deliveries have been looked for.
    pub(super) fn note_looked(&mut self) {
        self.look_at = None;
    }
}
