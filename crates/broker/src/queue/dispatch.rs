//! Handing ready entries to consumers, under the queue's lock.
//!
//! Before a durable entry is delivered, the delivery mark past it is on disk, or rides on the
//! entry's own reference record. After a crash, everything below the mark counts as delivered
//! before.

use std::sync::Arc;
use std::task::Waker;

use journal::Ticket;

use crate::message::Message;
use crate::queue::arrival::Work;
use crate::queue::consumers::Turn;
use crate::queue::lane::EntryPlace;
use crate::queue::mailbox::{Notice, Outgoing};
use crate::queue::visit::AT_ONCE;
use crate::queue::{Consumer, ConsumerKey, Filter, Gone, Inner, Past, Queue, Reason, Resume, Returns, Show, State};
use crate::queue::{VISIT_ENTRIES, Visit, settle};
use crate::store::facts;

/// How far ahead of the deliveries the mark is logged, in entries.
const STRIDE: u64 = 4096;

/// Why a consumer could not be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unattached {
    /// The queue was deleted.
    Gone,
    /// It, or a consumer that is there, is exclusive.
    InUse,
    /// The queue has as many consumers as it may have.
    TooMany,
}

/// Who settles a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// The client, later.
    Manual,
    /// The delivery itself.
    Auto,
}

/// The result of `get`.
#[derive(Debug)]
pub(crate) enum Fetched {
    Empty,
    /// The delivery mark must be on disk first; ask again then.
    Wait(Ticket),
    /// The message is on its way from the disk; ask again when [`Queue::will_wake`] says no.
    Away,
    /// The message can't be read; in words.
    Damaged(String),
    Entry {
        seq: u64,
        message: Message,
        past: Past,
        returns: Returns,
        remaining: u64,
    },
}

impl Queue {
    /// Delivers as many entries as it can.
    pub(super) fn dispatch(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        // Consumers with a selector go before those that take everything.
        if !inner.views.is_empty() {
            self.dispatch_views(inner, visit);
        }
        self.dispatch_plain(inner, visit);
    }

    /// The same where only one consumer has changed, which has this view or takes everything.
    pub(super) fn dispatch_to(self: &Arc<Self>, inner: &mut Inner, view: Option<u64>, visit: &mut Visit<'_>) {
        if let Some(view) = view {
            self.serve_views(inner, vec![view], visit);
        }
        self.dispatch_plain(inner, visit);
    }

    /// Delivers to consumers that take everything.
    #[inline]
    fn dispatch_plain(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        let mut expired = 0;
        while !inner.consumers.is_empty()
            && let Some((seq, place, entry)) = inner.lanes.head()
        {
            if entry.is_too_old(visit.now) {
                if expired == VISIT_ENTRIES {
                    inner.lifetime.note_more();
                    break;
                }
                self.die(inner, seq, Reason::Expired);
                expired += 1;
                continue;
            }
            let (durable, away) = (entry.is_durable(), entry.message.is_none());
            if away || (durable && !self.mark_covers(inner, seq, visit)) {
                break;
            }
            if !Self::deliver(inner, seq, place) {
                break;
            }
        }
        if let Some(consumers) = inner.consumers.made_mut() {
            consumers.hand_over();
            if consumers.are_draining() {
                consumers.end_drains(inner.lanes.first_ready());
            }
        }
        self.expire(inner, visit.now);
    }

    /// Delivers the entry at `place` to the consumer whose turn it is; false when none is ready.
    #[inline]
    fn deliver(inner: &mut Inner, seq: u64, place: EntryPlace) -> bool {
        let Some(turn) = inner.consumers.next() else { return false };
        let Some((outgoing, cost)) = inner.lend_at(place, seq, turn) else { return false };
        inner.consumers.lend(turn.slot, outgoing, cost);
        true
    }

    /// Whether the delivery mark covers `seq`, so that it may be delivered. Raises the mark ahead
    /// of need.
    pub(super) fn mark_covers(self: &Arc<Self>, inner: &mut Inner, seq: u64, visit: &mut Visit<'_>) -> bool {
        let Some(lane) = inner.lanes.of_mut(seq) else { return false };
        lane.mark.settle(&visit.context.journal);
        let next = lane.next();
        let near = seq + STRIDE / 2 >= lane.mark.at() && lane.mark.at() < next;
        if near && lane.mark.awaited().is_none() {
            let mark = next.min(seq + STRIDE);
            let mut appender = visit.context.journal.appender(self.log());
            facts::log_position(&mut appender, self.id, next, mark);
            let ticket = appender.ticket();
            drop(appender);
            if visit.context.journal.is_durable(ticket) {
                lane.mark.raise(mark);
            } else {
                lane.mark.rise(mark, ticket);
                visit.work.push(Work::Raise { queue: Arc::clone(self), ticket });
            }
        }
        seq < lane.mark.at()
    }

    /// Goes on delivering: a higher mark is on disk.
    pub(crate) fn mark_raised(self: &Arc<Self>, visit: &mut Visit<'_>) {
        self.conclude(self.lock(visit.context), Show::All, visit);
    }

    /// Attaches a consumer and dispatches to it.
    pub(crate) fn attach(
        self: &Arc<Self>,
        consumer: Consumer,
        filter: Filter,
        visit: &mut Visit<'_>,
    ) -> Result<(), Unattached> {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Err(Unattached::Gone);
        }
        // A browser takes no message from other consumers.
        let shared = inner.is_attended() || inner.arguments.single_active_consumer;
        let alone = inner.has_exclusive_consumer() || (consumer.exclusive && shared);
        if alone && !filter.browses {
            return Err(Unattached::InUse);
        }
        let (there, most) =
            (inner.consumers.len() + inner.views.len(), visit.context.settings.limits.consumers.per_queue);
        if there as u64 >= u64::from(most) {
            return Err(Unattached::TooMany);
        }
        if !filter.browses {
            inner.lifetime.note_consumer();
        }
        let attached = &mut *inner;
        let groups = attached.features.groups.as_mut().filter(|_| !filter.browses);
        let member = groups.map(|groups| groups.join(consumer.key, consumer.arguments.priority));
        let view = if filter.is_none() && member.is_none() {
            attached.consumers.add(consumer);
            None
        } else {
            Some(attached.views.add(consumer, filter, member, &attached.lanes))
        };
        // A read that failed is tried once more.
        inner.paging.forget_damage();
        inner.lifetime.touch(visit.now);
        let show = if member.is_some() { Show::All } else { Show::One { view } };
        self.conclude(inner, show, visit);
        Ok(())
    }

    /// Detaches a consumer. An auto-delete queue goes with its last one.
    pub(crate) fn detach(self: &Arc<Self>, key: ConsumerKey, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        if self.take_away(&mut inner, key, visit) {
            inner.consumers.succeed(key);
            self.conclude(inner, Show::All, visit);
        }
    }

    /// Detaches the consumers of some clients, and tells them. The clients may still settle their
    /// deliveries.
    pub(crate) fn expel(self: &Arc<Self>, whose: &dyn Fn(u64) -> bool, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        let consumers = inner.consumers().map(|(consumer, _)| consumer).filter(|consumer| whose(consumer.key.client));
        let leaving: Vec<_> = consumers.map(|consumer| (consumer.key, Arc::clone(&consumer.mailbox))).collect();
        if leaving.is_empty() {
            return;
        }
        for (key, mailbox) in leaving {
            self.take_away(&mut inner, key, visit);
            inner.consumers.succeed(key);
            mailbox.notify(Notice::Cancelled { consumer: key.consumer });
        }
        self.conclude(inner, Show::All, visit);
    }

    /// The first of two steps for a consumer of a session that ends. Between them its deliveries
    /// come back, before another consumer becomes active. True if it was there; then
    /// [`Queue::left`] follows.
    pub(crate) fn leave(self: &Arc<Self>, key: ConsumerKey, visit: &mut Visit<'_>) -> bool {
        let mut inner = self.lock(visit.context);
        self.take_away(&mut inner, key, visit)
    }

    /// The second step: the deliveries of these consumers are back.
    pub(crate) fn left(self: &Arc<Self>, keys: &[ConsumerKey], visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return;
        }
        if let Some(consumers) = inner.consumers.made_mut() {
            keys.iter().for_each(|key| consumers.succeed(*key));
        }
        self.conclude(inner, Show::All, visit);
    }

    fn take_away(self: &Arc<Self>, inner: &mut Inner, key: ConsumerKey, visit: &mut Visit<'_>) -> bool {
        let plain = inner.consumers.made_mut().and_then(|consumers| consumers.remove(key));
        if plain.or_else(|| inner.views.made_mut()?.remove(key)).is_none() {
            return false;
        }
        if inner.features.groups.as_mut().is_some_and(|groups| groups.leave(key)) {
            inner.views.look_again();
        }
        inner.lifetime.touch(visit.now);
        if self.should_go(inner, visit.now) {
            visit.work.push(Work::DeleteIfUnused { queue: Arc::clone(self) });
        }
        true
    }

    /// A consumer may be ready again.
    pub(crate) fn resume(self: &Arc<Self>, key: ConsumerKey, why: Resume, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        if let Some(consumers) = inner.consumers.made_mut() {
            consumers.resume(key, why);
        }
        let view = inner.views.made_mut().and_then(|views| views.resume(key, why));
        self.conclude(inner, Show::One { view }, visit);
    }

    /// The timer that was set for `at` has fired: entries that are too old expire. A timer that an
    /// earlier one has replaced does nothing.
    pub(crate) fn on_timer(self: &Arc<Self>, at: u64, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() || !inner.lifetime.fire(at) {
            return;
        }
        if let Some(bucket) = &self.bucket {
            let queue = bucket.of.upgrade();
            visit.work.extend(queue.map(|queue| Work::Release { queue }));
            return;
        }
        if inner.wake(visit.now) | (at == AT_ONCE) {
            self.show(&mut inner, Show::AllWithinLimits, visit);
        } else {
            self.expire(&mut inner, visit.now);
        }
        if self.should_go(&inner, visit.now) {
            visit.work.push(Work::DeleteIfUnused { queue: Arc::clone(self) });
        }
        self.conclude(inner, Show::Nothing, visit);
    }

    /// Takes the first message for a fetch. `waker` is woken when a message that was away is in
    /// memory.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        settling: Settling,
        waker: &Waker,
        visit: &mut Visit<'_>,
    ) -> Result<Fetched, Gone> {
        let mut inner = self.lock_expired(visit);
        if inner.is_deleted() {
            return Err(Gone);
        }
        inner.lifetime.touch(visit.now);
        let Some(seq) = inner.lanes.first_ready() else {
            inner.seldom.fetched_empty += 1;
            self.conclude(inner, Show::Nothing, visit);
            return Ok(Fetched::Empty);
        };
        if inner.lanes.get_mut(seq).is_none_or(|entry| entry.message.is_none()) {
            return Ok(self.fetch_away(inner, waker, visit));
        }
        let durable = inner.lanes.get_mut(seq).is_some_and(|entry| entry.is_durable());
        if durable && !self.mark_covers(&mut inner, seq, visit) {
            let ticket = inner.lanes.of_mut(seq).and_then(|lane| lane.mark.awaited()).unwrap_or(Ticket::NONE);
            self.conclude(inner, Show::Nothing, visit);
            return Ok(Fetched::Wait(ticket));
        }
        let fetched = Self::take_first(&mut inner, seq, settling);
        self.conclude(inner, Show::Nothing, visit);
        Ok(fetched)
    }

    fn take_first(inner: &mut Inner, seq: u64, settling: Settling) -> Fetched {
        let Some(entry) = inner.lanes.get_mut(seq) else { return Fetched::Empty };
        let Some(message) = entry.message.clone() else { return Fetched::Empty };
        let (past, returns, address) = (entry.past, entry.returns, entry.address);
        let message = inner.features.show_noted(seq, message);
        inner.totals.delivered += 1;
        inner.seldom.fetched += 1;
        inner.note_redelivered(past);
        inner.lanes.delivered(seq);
        match settling {
            Settling::Auto => {
                inner.seldom.fetched_auto += 1;
                if let Some(address) = address {
                    inner.departures.settle(seq, address, settle::ACKNOWLEDGED);
                }
                inner.leave_ready(seq, State::Done);
            }
            Settling::Manual => {
                inner.unsettled += 1;
                inner.leave_ready(seq, State::Out);
            }
        }
        Fetched::Entry { seq, message, past, returns, remaining: inner.lanes.ready() as u64 }
    }
}

impl Inner {
    /// Counts a delivery of an entry that may have been delivered before.
    #[inline]
    fn note_redelivered(&mut self, past: Past) {
        if past.is_redelivered() {
            self.seldom.redelivered += 1;
        }
    }

    /// Takes an entry out for a consumer, and returns its cost too. With `no_ack` the entry is
    /// done.
    pub(super) fn lend(&mut self, seq: u64, turn: Turn) -> Option<(Outgoing, usize)> {
        let place = self.lanes.of_mut(seq)?.find(seq)?;
        self.lend_at(place, seq, turn)
    }

    /// The same for the entry at the place where its lane has it. Part of its caller: the message
    /// is not moved once more.
    #[inline(always)]
    fn lend_at(&mut self, place: EntryPlace, seq: u64, turn: Turn) -> Option<(Outgoing, usize)> {
        let Turn { consumer, no_ack, .. } = turn;
        let lane = self.lanes.of_mut(seq)?;
        let entry = lane.entry_at(place)?;
        self.accounting.left_ready(entry);
        let (past, returns, address) = (entry.past, entry.returns, entry.address);
        let kept = if no_ack { None } else { entry.message.clone() };
        let removed = lane.set_at(place, seq, if no_ack { State::Done } else { State::Out });
        lane.mark.delivered(seq);
        let noted = self.features.noted(seq);
        let mut message = kept.or(removed)?;
        if no_ack {
            self.left(seq, State::Done, Some(&message));
        }
        if let Some(noted) = noted {
            message = message.noted(&noted);
        }
        let cost = message.cost();
        self.totals.delivered += 1;
        self.note_redelivered(past);
        if no_ack {
            self.totals.delivered_auto += 1;
            if let Some(address) = address {
                self.departures.settle(seq, address, settle::ACKNOWLEDGED);
            }
        } else {
            self.unsettled += 1;
        }
        Some((Outgoing { consumer, past, returns, seq, message }, cost))
    }
}
