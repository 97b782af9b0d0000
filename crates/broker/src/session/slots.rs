//! The queues that a client has to do with, and what a turn brings each: what one read of a socket
//! asked for is gathered so that each queue is visited once.

use std::sync::Arc;

use crate::queue::{Queue, Settlement};

/// A queue that a client has to do with, and what this turn brings it.
#[derive(Debug)]
pub(super) struct QueueSlot {
    pub(super) queue: Arc<Queue>,
    pub(super) picks: Vec<u32>,
    pub(super) settlements: Vec<Settlement>,
    pub(super) touched: bool,
    /// Unsettled deliveries and consumers that point here; the slot stays as long.
    pub(super) uses: u32,
}
