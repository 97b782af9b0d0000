//! Settling deliveries: accepted entries go, released ones return to their places, and rejected
//! ones die.

use std::sync::Arc;

use journal::{Address, Group, Ticket};

use crate::arguments::ReturnCause;
use crate::queue::QueueContext;
use crate::queue::Visit;
use crate::queue::{ADDRESSES, ConsumerKey, Guard, Inner, Past, Queue, Reason, Said, Show, State};

/// Reasons of settlements as the journal stores them; never renumbered.
pub(crate) const ACKNOWLEDGED: u8 = 0;
pub(crate) const REJECTED: u8 = 1;
pub(crate) const EXPIRED: u8 = 2;
pub(crate) const MAX_LENGTH: u8 = 3;
pub(crate) const DELIVERY_LIMIT: u8 = 4;
pub(crate) const PURGED: u8 = 5;
/// Settled before: said again because an index may still list it.
pub(crate) const SETTLED_BEFORE: u8 = 6;
/// Given up by an operator: it could not be read.
pub(crate) const UNREADABLE: u8 = 7;
/// Moved to other queues by an operator.
pub(crate) const MOVED: u8 = 8;
/// The selector of the subscription was not true of it.
pub(crate) const NOT_SELECTED: u8 = 9;
/// It was due: it moved from its bucket into its queue.
pub(crate) const DUE: u8 = 10;

/// A newer message of its key superseded it.
pub(crate) const SUPERSEDED: u8 = 11;

/// An entry whose settlement this visit has still to log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    pub(crate) seq: u64,
    pub(crate) address: Address,
    pub(crate) reason: u8,
}

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryOutcome {
    Accepted,
    /// Came back from a consumer: to its place, marked as redelivered.
    Released,
    /// The same, since its consumer failed or has gone.
    Failed,
    /// Never left the broker: to its place, without counting as a return. It is still marked as
    /// redelivered, since it may now come after later ones. Only marked messages may come out of
    /// order.
    Unsent,
    Rejected,
}

impl EntryOutcome {
    /// True when the entry returns to its queue.
    fn brings_back(self) -> bool {
        matches!(self, Self::Released | Self::Failed | Self::Unsent)
    }
}

/// One delivery to settle.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    pub(crate) seq: u64,
    /// The number of its consumer within the client; `u32::MAX` for one that was fetched.
    pub(crate) consumer: u32,
    pub(crate) outcome: EntryOutcome,
    /// Why it was rejected, in the consumer's words.
    pub(crate) said: Option<Said>,
}

impl Queue {
    /// Settles deliveries of one client, in order, and dispatches. The ticket covers the
    /// settlements.
    pub(crate) fn settle(self: &Arc<Self>, settlements: &[Settlement], client: u64, visit: &mut Visit<'_>) -> Ticket {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Ticket::NONE;
        }
        for settlement in settlements {
            self.settle_one(&mut inner, settlement, visit);
        }
        Self::return_credit(&mut inner, settlements, client);
        let ticket = self.log_settled(&mut inner, visit.context);
        ticket.max(self.conclude(inner, Show::AllWithinLimits, visit))
    }

    /// Settles accepted deliveries as part of a group. They are gone at once: the end of the
    /// session can't bring them back.
    pub(crate) fn settle_in(&self, settlements: &[Settlement], client: u64, group: Group, visit: &Visit<'_>) -> Ticket {
        let mut inner = self.lock(visit.context);
        if inner.is_deleted() {
            return Ticket::NONE;
        }
        for settlement in settlements {
            self.settle_one(&mut inner, settlement, visit);
        }
        Self::return_credit(&mut inner, settlements, client);
        self.log_settled_in(&mut inner, Some(group), visit.context)
    }

    pub(super) fn settle_one(&self, inner: &mut Inner, settlement: &Settlement, visit: &Visit<'_>) {
        let seq = settlement.seq;
        let Some(entry) = inner.lanes.get_mut(seq) else { return };
        if entry.state != State::Out {
            return;
        }
        let address = entry.address;
        inner.unsettled -= 1;
        if inner.features.groups.as_mut().is_some_and(|groups| groups.settled(seq)) {
            inner.views.look_again();
        }
        if settlement.outcome.brings_back() && inner.comes_back_late(seq, visit.context) {
            return;
        }
        match settlement.outcome {
            EntryOutcome::Accepted => {
                if let Some(address) = address {
                    inner.departures.settle(seq, address, ACKNOWLEDGED);
                }
                inner.remove_or_set(seq, State::Done);
                inner.totals.acknowledged += 1;
            }
            EntryOutcome::Unsent => {
                if let Some(entry) = inner.lanes.get_mut(seq) {
                    entry.past = entry.past.max(Past::Returned);
                }
                inner.make_ready(seq);
            }
            EntryOutcome::Failed => self.come_back(inner, seq, ReturnCause::Failed, visit),
            EntryOutcome::Released => self.come_back(inner, seq, ReturnCause::Returned, visit),
            EntryOutcome::Rejected => {
                self.die(inner, seq, Reason::Rejected);
                inner.departures.say(seq, settlement.said.as_ref());
            }
        }
    }

    fn return_credit(inner: &mut Inner, settlements: &[Settlement], client: u64) {
        let mut index = 0;
        while let Some(first) = settlements.get(index) {
            let same = settlements[index..].iter().take_while(|other| other.consumer == first.consumer).count();
            if first.consumer != u32::MAX {
                let key = ConsumerKey { client, consumer: first.consumer };
                if let Some(consumers) = inner.consumers.made_mut() {
                    consumers.settled(key, same as u32);
                }
                if let Some(views) = inner.views.made_mut() {
                    views.settled(key, same as u32);
                }
            }
            index += same;
        }
    }

    pub(super) fn log_settled(&self, inner: &mut Inner, context: &QueueContext) -> Ticket {
        self.log_settled_in(inner, None, context)
    }

    /// Logs the settlements of this visit, in runs of consecutive entries, with one record for each
    /// row of a reason.
    pub(super) fn log_settled_in(&self, inner: &mut Inner, group: Option<Group>, context: &QueueContext) -> Ticket {
        if inner.departures.are_logged() {
            return Ticket::NONE;
        }
        let mut settled = inner.departures.take_settled();
        if inner.accounting.has_spilled() {
            // These were never in the log.
            for one in settled.extract_if(.., |one| one.address.is_spilled()) {
                inner.free_spilled(one.address.file, 1, context);
            }
            if settled.is_empty() {
                inner.departures.keep(settled);
                return Ticket::NONE;
            }
        }
        let mut addresses = ADDRESSES.take();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut appender = context.journal.appender(self.log());
        for (index, one) in settled.iter().enumerate() {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == one.seq => *count += 1,
                _ => runs.push((one.seq, 1)),
            }
            #[cfg(feature = "sabotage")]
            let kept = inner.departures.held_back.keeps(one.seq);
            #[cfg(not(feature = "sabotage"))]
            let kept = false;
            if !kept {
                addresses.push(one.address);
            }
            let ends = settled.get(index + 1).is_none_or(|next| next.reason != one.reason);
            if ends {
                appender.settle(group, self.id, one.reason, &runs, &addresses);
                runs.clear();
                addresses.clear();
            }
        }
        let ticket = appender.ticket();
        drop(appender);
        settled.clear();
        inner.departures.keep(settled);
        ADDRESSES.set(addresses);
        ticket
    }

    /// Ends the queue under its lock: nothing enters or leaves any more. Returns its consumers and
    /// the ready count. The caller holds the catalog's write lock and has done its checks on
    /// `inner`.
    pub(crate) fn end(&self, inner: &mut Guard<'_>, context: &QueueContext) -> (Vec<super::Consumer>, u64, Ticket) {
        let ready = inner.lanes.ready() as u64;
        inner.lifetime.end();
        let mut ticket = Ticket::NONE;
        let mut freed = inner.lanes.files();
        inner.free_spilled_of(&mut freed, context);
        if self.logged() {
            let mut appender = context.journal.appender(self.log());
            appender.drop_owner(None, self.id, &mut freed.into_iter());
            ticket = appender.ticket();
        }
        (inner.ended(), ready, ticket)
    }
}
