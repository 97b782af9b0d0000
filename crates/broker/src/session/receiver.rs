//! The receiving side of a client: its consumers, and what is on its way to it or comes back from
//! it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::queue::mailbox::{Notice, Outgoing};
use crate::queue::{Queue, SharedCredit};
use crate::session::SessionId;

#[derive(Debug)]
pub(super) struct ConsumerRecord {
    pub(super) session: SessionId,
    pub(super) tag: Arc<str>,
    /// Its queue; the consumer of replies has none.
    pub(super) slot: Option<u32>,
    pub(super) no_ack: bool,
    /// How long it may hold a delivery; `None` for any time.
    pub(super) timeout: Option<Duration>,
}

/// The receiving side of a client.
pub(super) struct Receiver {
    pub(super) consumers: HashMap<u32, ConsumerRecord>,
    pub(super) next_consumer: u32,
    pub(super) inbox: Vec<Outgoing>,
    pub(super) notices: Vec<Notice>,
    /// The queue whose first message is being read for a fetch.
    pub(super) fetching: Option<Arc<Queue>>,
    /// It has consumed or fetched: it is never stopped by an alarm before the headroom is used up.
    pub(super) consumes: bool,
    /// Some session has a limit for its consumers together.
    pub(super) shares_limits: bool,
    /// Shared credit that returns at the end of this turn's settlements.
    pub(super) returning: Vec<(Arc<SharedCredit>, u32)>,
    /// When to look for overdue deliveries.
    pub(super) look_at: Option<Instant>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            consumers: HashMap::new(),
            next_consumer: 1,
            inbox: Vec::new(),
            notices: Vec::new(),
            fetching: None,
            consumes: false,
            shares_limits: false,
            returning: Vec::new(),
            look_at: None,
        }
    }
}
