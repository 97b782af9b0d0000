//! The thread that reads messages from the disk for the queues that wait for them. It logs messages
//! that can't be read.

use std::io;

use broker::Broker;

use crate::worker::{Rest, Worker};

/// Starts the thread.
pub(crate) fn start(broker: Broker) -> io::Result<Worker> {
    Worker::start("hermod-pager", move |waker| {
        let more = broker.page(waker);
        for damage in broker.take_damages() {
            tracing::error!("{damage}");
        }
        if more { Rest::None } else { Rest::UntilWoken }
    })
}
