//! The figures of a queue in reports, beyond its counts: how its messages moved, how many bytes
//! they have, and which consumers take them.
//!
//! All are read from counters that the queue keeps anyway, so a list of queues looks at no message
//! except each head.

use std::sync::LazyLock;

use crate::message::dialect::Field;
use crate::queue::rare::Empty;
use crate::queue::{Causes, Inner, Queue, QueueContext};
use crate::value::seconds_of_ms;

/// A queue is idle when so many milliseconds have passed since anything happened to it.
const IDLE: u64 = 1000;

/// Totals since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Messages taken.
    pub published: u64,
    /// Bytes of their bodies.
    pub published_bytes: u64,
    /// Messages delivered, in any way.
    pub delivered: u64,
    /// Those of them that went to consumers and need no settling.
    pub delivered_auto: u64,
    /// Those of them that were fetched, settled or not.
    pub fetched: u64,
    /// Those of the latter that need no settling.
    pub fetched_auto: u64,
    /// Fetches that found nothing.
    pub fetched_empty: u64,
    /// Messages delivered that were marked as redelivered.
    pub redelivered: u64,
    /// Deliveries accepted.
    pub acknowledged: u64,
    /// Messages that died, and moved on to the dead-letter exchange or had nowhere to go.
    pub dead_lettered: u64,
    /// Those of them that were dropped, since their exchange or queue was not there.
    pub targetless: u64,
}

/// The totals that any queue counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) published_bytes: u64,
    pub(crate) delivered: u64,
    pub(crate) delivered_auto: u64,
    pub(crate) acknowledged: u64,
}

/// Those that most queues do not, and the deaths.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// By reason.
    pub(crate) died: [u64; 4],
    pub(super) fetched: u64,
    pub(super) fetched_auto: u64,
    pub(super) fetched_empty: u64,
    pub(super) redelivered: u64,
    pub(super) dead_lettered: u64,
    pub(super) targetless: u64,
}

impl Empty for Seldom {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Seldom> = LazyLock::new(Seldom::default);
        &EMPTY
    }
}

impl Inner {
    /// Totals since start.
    pub(crate) fn totals(&self) -> QueueTotals {
        let Counts { published, published_bytes, delivered, delivered_auto, acknowledged } = self.totals;
        let seldom = &*self.seldom;
        QueueTotals {
            published,
            published_bytes,
            delivered,
            delivered_auto,
            fetched: seldom.fetched,
            fetched_auto: seldom.fetched_auto,
            fetched_empty: seldom.fetched_empty,
            redelivered: seldom.redelivered,
            acknowledged,
            dead_lettered: seldom.dead_lettered,
            targetless: seldom.targetless,
        }
    }
}

impl QueueTotals {
    /// Deliveries to consumers that settle.
    pub fn delivered_manual(&self) -> u64 {
        self.delivered - self.delivered_auto - self.fetched
    }

    /// Fetches that need settling.
    pub fn fetched_manual(&self) -> u64 {
        self.fetched - self.fetched_auto
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct QueueFigures {
    /// How its messages moved.
    pub totals: QueueTotals,
    /// Messages that are in the log.
    pub persistent: u64,
    /// Ready messages that are in memory too.
    pub ready_in_memory: u64,
    /// Bytes of the ready bodies, where they are counted for a limit.
    pub ready_bytes: Option<u64>,
    /// The timestamp of the next message, in seconds since 1970; unknown while only the disk has
    /// it.
    pub head_timestamp: Option<u64>,
    /// When the next message was published, in milliseconds since 1970; unknown while only the disk
    /// has it.
    pub oldest_ready: Option<u64>,
    /// When the oldest message was published that consumers hold.
    pub oldest_unsettled: Option<u64>,
    /// When it became idle, in milliseconds since 1970, if it is.
    pub idle_since: Option<u64>,
    /// A message that came now would be delivered at once.
    pub can_deliver: bool,
    /// Why its messages do not move; none where they do.
    pub causes: Causes,
    /// The tag of the exclusive consumer.
    pub exclusive_consumer: Option<String>,
    /// The tag of the single active consumer.
    pub single_active_consumer: Option<String>,
    /// Ids that it remembers for deduplication.
    pub remembered: u64,
    /// How often a message may come back; `None` for no limit.
    pub delivery_limit: Option<u64>,
}

impl QueueFigures {
    /// The bytes of so many bodies, by the mean of all published since the start; unknown where
    /// none was.
    pub fn bytes_of(&self, messages: u64) -> Option<u64> {
        let QueueTotals { published, published_bytes, .. } = self.totals;
        let bytes = u128::from(published_bytes) * u128::from(messages) / u128::from(published.max(1));
        (published > 0 || messages == 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Queue {
    /// Messages that died here since the start.
    pub(crate) fn dead_lettered(&self, context: &QueueContext) -> u64 {
        self.lock(context).seldom.dead_lettered
    }

    /// The figures of this queue, which is locked. So many messages of it are not due.
    pub(crate) fn figures(&self, inner: &mut Inner, delayed: u64, context: &QueueContext) -> QueueFigures {
        let causes = self.causes(inner, delayed, context);
        let consumers = || inner.consumers.with_activity();
        let single = inner.arguments.single_active_consumer;
        let active = if single { consumers().find(|(_, active)| *active) } else { None };
        let active_at = inner.lifetime.active_at();
        let is_exclusive = inner.has_exclusive_consumer();
        let exclusive = if is_exclusive { consumers().find(|(consumer, _)| consumer.exclusive) } else { None };
        QueueFigures {
            totals: inner.totals(),
            remembered: inner.remembered() as u64,
            persistent: inner.lanes.durable() as u64,
            ready_in_memory: (inner.ready() - inner.lanes.away()) as u64,
            ready_bytes: inner.accounting.known_ready_bytes(),
            idle_since: (context.clock.unix_ms() >= active_at + IDLE).then_some(active_at),
            can_deliver: consumers().any(|(consumer, active)| active && consumer.is_open())
                || inner.views.has_open_taker(),
            causes,
            exclusive_consumer: exclusive.map(|(consumer, _)| consumer.tag.to_string()),
            single_active_consumer: active.map(|(consumer, _)| consumer.tag.to_string()),
            delivery_limit: inner.arguments.delivery_limit,
            head_timestamp: inner.head_timestamp(context),
            oldest_ready: inner.oldest_ready(),
            oldest_unsettled: inner.oldest_unsettled(),
        }
    }
}

impl Inner {
    fn head_timestamp(&mut self, context: &QueueContext) -> Option<u64> {
        let seq = self.lanes.first_ready()?;
        let message = self.lanes.entry_of(seq)?.message.as_ref()?;
        match context.dialects.look_up(message, Field::Timestamp) {
            selector::Value::Int(milliseconds) => Some(seconds_of_ms(milliseconds)),
            _ => None,
        }
    }
}
