//! Totals since start: plain counters by subject, added to once a turn. A report has a copy.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::Durations;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A copy counts on by itself.
impl Clone for Counter {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.get()))
    }
}

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Its value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Totals of the broker since it started.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What came and went.
    pub churn: Churn,
    /// Messages that were published.
    pub publishes: Publishes,
    /// Messages that were delivered.
    pub deliveries: Deliveries,
    /// Messages that left queues without a consumer.
    pub deaths: Deaths,
}

/// Connections, sessions and queues that came and went.
#[derive(Debug, Clone, Default)]
pub struct Churn {
    /// Connections attached.
    pub connections_opened: Counter,
    /// Connections that have gone.
    pub connections_closed: Counter,
    /// Connections that a limit refused after they had authenticated: of the broker, of their
    /// vhost, of their user.
    pub connections_refused: [Counter; 3],
    /// Sessions started.
    pub sessions_opened: Counter,
    /// Sessions ended.
    pub sessions_closed: Counter,
    /// Queue declarations.
    pub queues_declared: Counter,
    /// Queues made.
    pub queues_created: Counter,
    /// Queues deleted.
    pub queues_deleted: Counter,
}

/// Messages that clients published.
#[derive(Debug, Clone, Default)]
pub struct Publishes {
    /// All of them.
    pub received: Counter,
    /// Bytes of their bodies.
    pub received_bytes: Counter,
    /// Those of confirming sessions.
    pub received_confirm: Counter,
    /// Messages that reached a queue.
    pub routed: Counter,
    /// Publishes confirmed.
    pub confirmed: Counter,
    /// Publishes refused by a full queue or an alarm.
    pub refused: Counter,
    /// Unroutable messages that were returned.
    pub unroutable_returned: Counter,
    /// Unroutable messages that were dropped.
    pub unroutable_dropped: Counter,
    /// Messages that queues dropped as duplicates.
    pub duplicates: Counter,
    /// Parked publishes that were given up after their session had ended.
    pub parked_dropped: Counter,
    /// All of them by the sizes of their bodies.
    pub sizes: Sizes,
    /// How long confirms took, from the end of the turn that took the publish.
    pub confirm_times: Durations,
}

/// Messages by the sizes of their bodies.
#[derive(Debug, Clone, Default)]
pub struct Sizes([Counter; Sizes::BOUNDS.len() + 1]);

impl Sizes {
    /// The largest body of each class but the last.
    pub const BOUNDS: [u64; 8] = [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

    /// The class of a body of this length.
    #[inline]
    pub(crate) fn class(length: u64) -> usize {
        Self::BOUNDS.iter().position(|bound| length <= *bound).unwrap_or(Self::BOUNDS.len())
    }

    /// Adds the messages of a turn, by class.
    pub(crate) fn add(&self, counts: [u64; Self::BOUNDS.len() + 1]) {
        self.0.iter().zip(counts).for_each(|(class, count)| class.add(count));
    }

    /// How many messages are in each class.
    pub fn counts(&self) -> [u64; Self::BOUNDS.len() + 1] {
        std::array::from_fn(|class| self.0[class].get())
    }
}

/// Messages that went to clients.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    /// Deliveries to consumers that settle.
    pub delivered_manual: Counter,
    /// Deliveries to consumers that do not.
    pub delivered_auto: Counter,
    /// Fetches that need settling.
    pub fetched_manual: Counter,
    /// Fetches that need no settling.
    pub fetched_auto: Counter,
    /// Fetches that found nothing.
    pub fetched_empty: Counter,
    /// Deliveries marked as redelivered.
    pub redelivered: Counter,
    /// Deliveries accepted.
    pub acknowledged: Counter,
    /// Messages dropped since a subscriber without a queue left too much unread.
    pub unread_dropped: Counter,
}

/// Messages that left queues without a consumer. Arrays are by reason: rejected, expired, maxlen,
/// delivery limit.
#[derive(Debug, Clone, Default)]
pub struct Deaths {
    /// Deaths of messages that had a dead-letter exchange.
    pub dead_lettered: [Counter; 4],
    /// Dead letters that no queue took, in the order of [`crate::DEAD_LETTERS_DROPPED`].
    pub dead_letters_dropped: [Counter; 4],
    /// Deaths of messages that had no dead-letter exchange.
    pub lost: [Counter; 4],
    /// Dead letters that were redriven.
    pub redriven: Counter,
    /// Messages that newer ones of their keys superseded.
    pub superseded: Counter,
}
