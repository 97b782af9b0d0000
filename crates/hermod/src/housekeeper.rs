//! The thread that runs the broker's housekeeping, and tells what the scrub has found: it sleeps until something is due or
//! somebody wakes it.

use std::io;
use std::time::{Duration, Instant};

use broker::Broker;

use crate::worker::{Rest, Worker};

/// Comes by this often even if nothing was announced.
const ROUND: Duration = Duration::from_secs(10);

/// Starts the thread.
pub(crate) fn start(broker: Broker) -> io::Result<Worker> {
    Worker::start("hermod-housekeeping", move |waker| {
        let now = Instant::now();
        for damage in broker.take_scrubbed() {
            tracing::error!("{damage}");
        }
        let due = broker.housekeep(now, waker).unwrap_or(now + ROUND);
        Rest::For(due.saturating_duration_since(Instant::now()).min(ROUND))
    })
}
