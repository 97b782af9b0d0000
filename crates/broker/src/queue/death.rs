//! How entries leave a queue without having been accepted, and why.
//!
//! An entry that has somewhere to go (a dead-letter exchange) turns *dying*. It is never delivered
//! again, and the work list moves it as a group. An entry that has nowhere to go is settled at
//! once, with its reason.

use std::sync::Arc;

use journal::Group;

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::departures::Unmade;
use crate::queue::dropped::MissingTarget;
use crate::queue::facts as queue_facts;
use crate::queue::{Inner, Queue, Show, State, Visit, settle};

pub(crate) use crate::message::annotations::Reason;
use crate::value::Table;

/// Why a consumer rejected a message, in its own words. A thin pointer, since each settlement has
/// room for one.
pub(crate) type Said = Arc<String>;

/// An entry on its way to the dead-letter exchange.
#[derive(Debug, Clone)]
pub(crate) struct Dying {
    pub(crate) seq: u64,
    /// `None` while only the disk has it.
    pub(crate) message: Option<Message>,
    pub(crate) durable: bool,
    pub(crate) reason: Reason,
    /// What its consumer said. It is not logged with the decision, and a restart forgets it.
    pub(crate) said: Option<Said>,
    /// What consumers noted on it.
    pub(crate) noted: Option<Arc<Table>>,
}

/// The reason as the journal stores it.
pub(crate) fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::Rejected => settle::REJECTED,
        Reason::Expired => settle::EXPIRED,
        Reason::MaxLength => settle::MAX_LENGTH,
        Reason::DeliveryLimit => settle::DELIVERY_LIMIT,
    }
}

/// So many milliseconds after a dead-letter queue could not be made it is tried again.
const TRY_AGAIN: u64 = 1000;

impl Queue {
    /// Notes that this queue for its dead letters can't be made. False if that was known.
    pub(crate) fn note_unmade(&self, made: &str, why: String, now: u64, context: &QueueContext) -> bool {
        let mut inner = self.lock(context);
        let is_known = inner.departures.unmade.as_ref().is_some_and(|before| before.why == why);
        inner.departures.unmade = Some(Box::new(Unmade { name: made.into(), why, again: now + TRY_AGAIN }));
        !is_known
    }

    /// This queue for its dead letters is there, or is not wanted any more.
    pub(crate) fn note_made(&self, made: &str, context: &QueueContext) {
        self.lock(context).departures.unmade.take_if(|unmade| *unmade.name == *made);
    }

    /// The queue for its dead letters that can't be made, and when to try again, in milliseconds
    /// since 1970.
    pub(crate) fn makes_again(&self, context: &QueueContext) -> Option<(u64, Arc<str>)> {
        let inner = self.lock(context);
        inner.departures.unmade.as_ref().map(|unmade| (unmade.again, Arc::clone(&unmade.name)))
    }

    /// So many of its dead letters were dropped, since what they should go to is not there.
    #[cold]
    pub(crate) fn note_missing(&self, count: u64, missing: MissingTarget, context: &QueueContext) {
        let mut inner = self.lock(context);
        inner.seldom.targetless += count;
        inner.departures.missing = Some(Box::new(missing));
    }

    /// True for a queue that was made for dead letters, has had some, and is empty and not used. It
    /// goes if the queue is gone that it was made for. An import may declare it before that one.
    pub(super) fn may_be_left_over(&self, inner: &Inner) -> bool {
        let has_had_some = || inner.totals.published + inner.totals.delivered > 0;
        inner.arguments.dead_letters.made_for.is_some() && inner.is_left_alone() && has_had_some()
    }

    /// Takes an entry out of the queue for `reason`. Does nothing and returns false while its place
    /// is unknown.
    pub(super) fn die(&self, inner: &mut Inner, seq: u64, reason: Reason) -> bool {
        let is_dead_lettered = inner.arguments.dead_letters.of(reason).is_some();
        let Some(entry) = inner.lanes.get_mut(seq) else {
            inner.paging.want_head();
            return false;
        };
        let address = entry.address;
        if is_dead_lettered {
            let (message, durable) = (entry.message.clone(), entry.is_durable());
            if message.is_some() || address.is_some() {
                let noted = inner.features.noted(seq);
                inner.departures.send_on(Dying { seq, message, durable, reason, said: None, noted });
            }
            inner.leave_ready(seq, State::Dying);
        } else {
            inner.departures.lose(reason, entry);
            if let Some(address) = address {
                inner.departures.settle(seq, address, reason_code(reason));
            }
            inner.leave_ready(seq, State::Done);
        }
        inner.seldom.died[reason as usize] += 1;
        true
    }

    /// Logs that these entries have left, as part of `group`, and forgets them.
    pub(crate) fn settle_dead(&self, dying: &[Dying], group: Option<Group>, context: &QueueContext) {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return;
        }
        for dead in dying {
            // Where it lies now: its body may have been moved since it died.
            if let Some(address) = inner.lanes.get_mut(dead.seq).and_then(|entry| entry.address) {
                let reason = reason_code(dead.reason);
                inner.departures.settle(dead.seq, address, reason);
            }
            inner.remove_or_set(dead.seq, State::Done);
        }
        inner.seldom.dead_lettered += dying.len() as u64;
        self.log_settled_in(&mut inner, group, context);
    }

    /// Logs once that these entries die, while the move waits for room or for a read.
    pub(crate) fn decide<'a>(&self, dying: impl Iterator<Item = &'a Dying>, context: &QueueContext) {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return;
        }
        let mut appender = context.journal.appender(self.log());
        for dead in dying.filter(|dead| dead.durable) {
            if inner.features.decided.insert(dead.seq, dead.reason).is_none() {
                queue_facts::log_dying(&mut appender, self.id, dead.seq, dead.reason);
            }
        }
    }

    /// After a restart: moves on the entries whose death was decided.
    pub(crate) fn resume_dying(self: &Arc<Self>, decided: &[(u64, Reason)], visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        for (seq, reason) in decided {
            if inner.lanes.get_mut(*seq).is_some_and(|entry| entry.state == State::Ready) {
                self.die(&mut inner, *seq, *reason);
            }
        }
        self.conclude(inner, Show::Nothing, visit);
    }
}
