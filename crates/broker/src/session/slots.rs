//! The queues that a client uses, and the work of a turn for each. The requests of one read of a
//! socket are gathered so that each queue is visited once.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::queue::{Queue, Settlement};

/// A queue that a client uses, and the work of this turn for it.
#[derive(Debug)]
pub(super) struct QueueSlot {
    pub(super) queue: Arc<Queue>,
    pub(super) picks: Vec<u32>,
    pub(super) settlements: Vec<Settlement>,
    pub(super) touched: bool,
    /// Unsettled deliveries and consumers that point here. The slot stays as long as there are any.
    pub(super) uses: u32,
}

/// The queues that a client uses.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) all: Vec<Option<QueueSlot>>,
    pub(super) free: Vec<u32>,
    pub(super) of_queue: HashMap<u64, u32>,
    /// Those with work of this turn.
    pub(super) touched: Vec<u32>,
}
