//! A purge by hand: every entry that is ready, and all that are not due yet, in pieces. Others get
//! at the queue between them, and the thread may do something else.
//!
//! Invariant: what comes after the first piece stays. So a purge ends, however fast the queue
//! fills.

use std::sync::Arc;

use journal::Ticket;

use crate::queue::settle::PURGED;
use crate::queue::{PurgeEnds, Queue, QueueContext, VISIT_ENTRIES};

/// A purge that is under way. Dropping it leaves what it has not come to.
#[derive(Debug)]
pub struct Purging {
    queue: Arc<Queue>,
    /// The buckets that are left.
    buckets: Vec<Arc<Queue>>,
    ends: PurgeEnds,
    is_over: bool,
    count: u64,
    ticket: Ticket,
}

impl Purging {
    /// Nothing has gone yet.
    pub(crate) fn of(queue: &Arc<Queue>) -> Self {
        let (queue, buckets) = (Arc::clone(queue), queue.buckets());
        Self { queue, buckets, ends: PurgeEnds::default(), is_over: false, count: 0, ticket: Ticket::NONE }
    }

    /// Whether everything has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many entries have gone, and the ticket for the reply.
    pub(crate) fn done(&self) -> (u64, Ticket) {
        (self.count, self.ticket)
    }

    /// Drops some. Returns how many.
    pub(crate) fn step(&mut self, context: &QueueContext) -> u64 {
        let (count, ticket) = match self.buckets.pop() {
            Some(bucket) => {
                let (count, ticket, _) = bucket.purge_piece(&mut PurgeEnds::default(), context);
                (count, ticket)
            }
            None => {
                let (count, ticket, has_more) = self.queue.purge_piece(&mut self.ends, context);
                self.is_over = !has_more;
                (count, ticket)
            }
        };
        self.count += count;
        self.ticket = self.ticket.max(ticket);
        count
    }
}

impl Queue {
    /// Drops some of what is ready, or all of a bucket. True if there are more.
    fn purge_piece(&self, ends: &mut PurgeEnds, context: &QueueContext) -> (u64, Ticket, bool) {
        let mut guard = self.lock(context);
        let inner = &mut *guard;
        inner.lifetime.touch(context.clock.unix_ms());
        // Entries that wait after a return go too. None of them may be delivered before, and what
        // looks through all ids or keys does so once.
        let at_once = inner.wake(u64::MAX) || self.bucket.is_some() || self.deduplicates() || self.keeps_last_values();
        let most = if at_once { u64::MAX } else { VISIT_ENTRIES as u64 };
        let mut purged = inner.lanes.purge(most, ends);
        inner.purged(&mut purged, context);
        if purged.freed.is_empty() || !self.logged() {
            return (purged.count, Ticket::NONE, purged.has_more);
        }
        let mut appender = context.journal.appender(self.log());
        appender.settle_counted(None, self.id, PURGED, &purged.runs, &mut purged.freed.into_iter());
        (purged.count, appender.ticket(), purged.has_more)
    }
}
