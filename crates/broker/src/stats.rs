//! Totals since start: plain counters, added to once a turn.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Totals of the broker since it started.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) connections_opened: Counter,
    pub(crate) connections_closed: Counter,
    pub(crate) sessions_opened: Counter,
    pub(crate) sessions_closed: Counter,
    pub(crate) queues_declared: Counter,
    pub(crate) queues_created: Counter,
    pub(crate) queues_deleted: Counter,
    pub(crate) received: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) received_confirm: Counter,
    pub(crate) routed: Counter,
    pub(crate) confirmed: Counter,
    pub(crate) refused: Counter,
    pub(crate) unroutable_returned: Counter,
    pub(crate) unroutable_dropped: Counter,
    pub(crate) delivered_manual: Counter,
    pub(crate) delivered_auto: Counter,
    pub(crate) fetched_manual: Counter,
    pub(crate) fetched_auto: Counter,
    pub(crate) fetched_empty: Counter,
    pub(crate) redelivered: Counter,
    pub(crate) acknowledged: Counter,
    /// By reason: rejected, expired, maxlen, delivery limit.
    pub(crate) dead_lettered: [Counter; 4],
    pub(crate) dead_letters_dropped: Counter,
    /// Deaths of messages that had no dead-letter exchange, by reason, as above.
    pub(crate) lost: [Counter; 4],
    pub(crate) parked_dropped: Counter,
    pub(crate) duplicates: Counter,
    /// Dead letters that were redriven.
    pub(crate) redriven: Counter,
    /// Connections that a limit refused: of the broker, of their vhost, of their user.
    pub(crate) connections_refused: [Counter; 3],
    pub(crate) superseded: Counter,
}
