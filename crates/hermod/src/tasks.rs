//! The thread that takes the tasks of operators forward.

use std::io;
use std::time::Instant;

use broker::Broker;

use crate::worker::{Rest, Worker};

/// Starts the thread.
pub(crate) fn start(broker: Broker) -> io::Result<Worker> {
    Worker::start("hermod-tasks", move |waker| match broker.run_tasks(Instant::now(), waker) {
        None => Rest::UntilWoken,
        Some(due) => Rest::For(due.saturating_duration_since(Instant::now())),
    })
}
