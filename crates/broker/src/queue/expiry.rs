//! Message TTL: when a message expires, by its own time to live and that of its queue, and how the
//! heads of a queue that are too old go.

use std::sync::Arc;

use crate::message::Message;
use crate::queue::{Guard, Inner, Queue, Reason, Show, VISIT_ENTRIES, Visit};

/// When a message expires that came at `since`, in a queue with `message_ttl`. In milliseconds
/// since 1970.
#[inline]
pub(super) fn expires_at(message_ttl: Option<u64>, message: &Message, since: u64) -> u64 {
    let ttl = match (message.expiration(), message_ttl) {
        (Some(own), Some(queue)) => Some(own.min(queue)),
        (own, queue) => own.or(queue),
    };
    ttl.map_or(u64::MAX, |ttl| since.saturating_add(ttl))
}

impl Queue {
    /// Expires the heads of the lanes that are too old, up to [`VISIT_ENTRIES`]. A head that the
    /// pager must place first does not hold up other lanes. False if more are too old, or this
    /// visit has dropped as much as it may.
    pub(super) fn expire(&self, inner: &mut Inner, now: u64) -> bool {
        if inner.lifetime.has_more() {
            return false;
        }
        #[cfg(feature = "sabotage")]
        let now = now + if super::sabotage::armed("early") { super::sabotage::EARLY } else { 0 };
        let mut expired = 0;
        for at in 0..inner.lanes.count() {
            while let Some(seq) = inner.lanes.first_expired(at, now) {
                if expired == VISIT_ENTRIES {
                    inner.lifetime.note_more();
                    return false;
                }
                if !self.die(inner, seq, Reason::Expired) {
                    break;
                }
                expired += 1;
            }
        }
        true
    }

    /// Locks the queue once all heads that are too old have expired, in as many visits as that
    /// takes.
    pub(super) fn lock_expired<'a, 'v: 'a>(self: &'a Arc<Self>, visit: &mut Visit<'v>) -> Guard<'a> {
        loop {
            let mut inner = self.lock(visit.context);
            if inner.is_deleted() || self.expire(&mut inner, visit.now) {
                return inner;
            }
            self.conclude(inner, Show::Nothing, visit);
        }
    }
}
