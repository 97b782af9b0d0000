//! Handing ready entries to consumers, under the queue's lock.
//!
//! Before a durable entry is delivered, the delivery mark past it is on disk (or rides on its own reference record): after
//! a crash, everything below the mark counts as delivered before.

use std::sync::Arc;
use std::task::Waker;

use journal::Ticket;

use crate::message::Message;
use crate::queue::consumers::Turn;
use crate::queue::{Consumer, ConsumerKey, Gone, Inner, Queue, Reason, State, Visit, settle};
use crate::session::mailbox::Lent;
use crate::session::turn::Work;
use crate::store::facts;

/// How far ahead of the deliveries the mark is logged, in entries.
const STRIDE: u64 = 4096;

/// Why a consumer could not be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unattached {
    /// The queue was deleted.
    Gone,
    /// It, or the one that is there, wants to be alone.
    InUse,
}

/// What `get` found.
#[derive(Debug)]
pub(crate) enum Fetched {
    Empty,
    /// The delivery mark must be on disk first; ask again then.
    Wait(Ticket),
    /// The message is on its way from the disk; ask again when [`Queue::is_loading`] says no.
    Away,
    /// The message can't be read; in words.
    Damaged(String),
    Entry {
        seq: u64,
        message: Message,
        redelivered: bool,
        returns: u32,
        remaining: u64,
    },
}

impl Queue {
    /// Delivers what can be delivered.
    pub(super) fn dispatch(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        while let Some(seq) = inner.lanes.first_ready() {
            if inner.consumers.is_empty() {
                break;
            }
            let Some(entry) = inner.lanes.get_mut(seq) else { break };
            // With no time to live at all a message may be delivered as it comes, but not when it comes back.
            if entry.expires_at < visit.now || (entry.redelivered && entry.expires_at <= visit.now) {
                self.die(inner, seq, Reason::Expired);
                continue;
            }
            let (durable, away) = (entry.is_durable(), entry.message.is_none());
            if away || (durable && !self.mark_covers(inner, seq, visit)) {
                break;
            }
            if !self.deliver(inner, seq) {
                break;
            }
        }
        inner.consumers.hand_over();
        self.expire(inner, visit.now);
    }

    /// Lets the heads of the lanes die while they are too old.
    fn expire(&self, inner: &mut Inner, now: u64) {
        while let Some(seq) = inner.lanes.first_expired(now) {
            if !self.die(inner, seq, Reason::Expired) {
                break;
            }
        }
    }

    /// Delivers one entry to the consumer whose turn it is; false when nobody is ready.
    fn deliver(&self, inner: &mut Inner, seq: u64) -> bool {
        let Some(Turn { slot, consumer, no_ack }) = inner.consumers.next() else { return false };
        let Some(entry) = inner.lanes.get_mut(seq) else { return false };
        inner.resident -= super::resident_of(entry);
        if inner.weighs {
            inner.ready_bytes = inner.ready_bytes.saturating_sub(super::weight_of(entry));
        }
        let (redelivered, returns, address) = (entry.redelivered, entry.returns, entry.address);
        let message = if no_ack {
            inner.lanes.set(seq, State::Done)
        } else {
            let message = entry.message.clone();
            inner.lanes.set(seq, State::Out);
            message
        };
        let Some(message) = message else { return false };
        let cost = message.cost();
        inner.consumers.lend(slot, Lent { consumer, redelivered, returns, seq, message }, cost);
        inner.totals.delivered += 1;
        inner.lanes.delivered(seq);
        if no_ack {
            inner.bytes -= cost;
            inner.forget_id(seq);
            if let Some(address) = address {
                inner.settled.push(settle::Settled { seq, address, reason: settle::ACKNOWLEDGED });
            }
        } else {
            inner.unsettled += 1;
        }
        true
    }

    /// Whether `seq` may be delivered as far as the mark is concerned. Raises the mark ahead of need.
    fn mark_covers(self: &Arc<Self>, inner: &mut Inner, seq: u64, visit: &mut Visit<'_>) -> bool {
        let Some(lane) = inner.lanes.of_mut(seq) else { return false };
        lane.mark.settle(visit.core.journal.durable());
        let next = lane.next();
        let near = seq + STRIDE / 2 >= lane.mark.at() && lane.mark.at() < next;
        if near && lane.mark.awaited().is_none() {
            let mark = next.min(seq + STRIDE);
            let mut appender = visit.core.journal.appender();
            facts::log_position(&mut appender, self.id, next, mark);
            let ticket = appender.ticket();
            drop(appender);
            if visit.core.journal.durable() >= ticket {
                lane.mark.raise(mark);
            } else {
                lane.mark.rise(mark, ticket);
                visit.work.push(Work::Raise { queue: Arc::clone(self), ticket });
            }
        }
        seq < lane.mark.at()
    }

    /// A higher mark is on disk: go on.
    pub(crate) fn mark_raised(self: &Arc<Self>, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.core);
        self.dispatch(&mut inner, visit);
        self.finish(inner, visit);
    }

    /// Attaches a consumer and dispatches to it.
    pub(crate) fn attach(self: &Arc<Self>, consumer: Consumer, visit: &mut Visit<'_>) -> Result<(), Unattached> {
        let mut inner = self.lock(visit.core);
        if inner.deleted {
            return Err(Unattached::Gone);
        }
        if inner.has_exclusive_consumer() || (consumer.exclusive && !inner.consumers.is_empty()) {
            return Err(Unattached::InUse);
        }
        inner.consumers.add(consumer);
        inner.had_consumer = true;
        // What could not be read is tried once more.
        inner.damage = None;
        inner.used_at = visit.now;
        self.dispatch(&mut inner, visit);
        self.finish(inner, visit);
        Ok(())
    }

    /// Detaches a consumer. An auto-delete queue goes with its last one.
    pub(crate) fn detach(self: &Arc<Self>, key: ConsumerKey, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.core);
        if inner.consumers.remove(key).is_none() {
            return;
        }
        inner.used_at = visit.now;
        if self.should_go(&inner, visit.now) {
            visit.work.push(Work::Vanish { queue: Arc::clone(self) });
        }
        self.dispatch(&mut inner, visit);
        self.finish(inner, visit);
    }

    /// A consumer has room or credit again, or another prefetch.
    pub(crate) fn resume(self: &Arc<Self>, key: ConsumerKey, prefetch: Option<u32>, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.core);
        inner.consumers.resume(key, prefetch);
        self.dispatch(&mut inner, visit);
        self.finish(inner, visit);
    }

    /// The timer that was set for `at` has fired: whatever is too old dies. A timer that was set for later, and then
    /// overtaken, is not heeded.
    pub(crate) fn grow_old(self: &Arc<Self>, at: u64, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.core);
        if inner.timer_at != at || inner.deleted {
            return;
        }
        inner.timer_at = u64::MAX;
        self.expire(&mut inner, visit.now);
        if self.should_go(&inner, visit.now) {
            visit.work.push(Work::Vanish { queue: Arc::clone(self) });
        }
        self.finish(inner, visit);
    }

    /// Takes the first message for `basic.get`; it stays out until it is settled, unless `no_ack`.
    /// `waker` is woken when a message arrives that was away.
    pub(crate) fn fetch(self: &Arc<Self>, no_ack: bool, waker: &Waker, visit: &mut Visit<'_>) -> Result<Fetched, Gone> {
        let mut inner = self.lock(visit.core);
        if inner.deleted {
            return Err(Gone);
        }
        inner.used_at = visit.now;
        self.expire(&mut inner, visit.now);
        let Some(seq) = inner.lanes.first_ready() else {
            self.finish(inner, visit);
            return Ok(Fetched::Empty);
        };
        if inner.lanes.get_mut(seq).is_none_or(|entry| entry.message.is_none()) {
            return Ok(self.fetch_away(inner, waker, visit));
        }
        let durable = inner.lanes.get_mut(seq).is_some_and(|entry| entry.is_durable());
        if durable && !self.mark_covers(&mut inner, seq, visit) {
            let ticket = inner.lanes.of_mut(seq).and_then(|lane| lane.mark.awaited()).unwrap_or(Ticket::NONE);
            self.finish(inner, visit);
            return Ok(Fetched::Wait(ticket));
        }
        let fetched = Self::take_first(&mut inner, seq, no_ack);
        self.finish(inner, visit);
        Ok(fetched)
    }

    fn take_first(inner: &mut Inner, seq: u64, no_ack: bool) -> Fetched {
        let Some(entry) = inner.lanes.get_mut(seq) else { return Fetched::Empty };
        let Some(message) = entry.message.clone() else { return Fetched::Empty };
        let (redelivered, returns, address) = (entry.redelivered, entry.returns, entry.address);
        inner.totals.delivered += 1;
        inner.lanes.delivered(seq);
        if no_ack {
            if let Some(address) = address {
                inner.settled.push(settle::Settled { seq, address, reason: settle::ACKNOWLEDGED });
            }
            inner.leave_ready(seq, State::Done);
        } else {
            inner.unsettled += 1;
            inner.leave_ready(seq, State::Out);
        }
        Fetched::Entry { seq, message, redelivered, returns, remaining: inner.lanes.ready() as u64 }
    }
}
