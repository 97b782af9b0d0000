//! The thread that reads messages back from the disk for the queues that wait for them, and tells what can't be read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;

use broker::Broker;

use crate::housekeeper::Unpark;

/// The thread while it runs.
pub(crate) struct Pager {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pager {
    /// Starts the thread.
    pub(crate) fn start(broker: Broker) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("hermod-pager".to_owned()).spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            while !stopped.load(Ordering::Acquire) {
                let more = broker.page(&waker);
                for damage in broker.take_damages() {
                    tracing::error!("{damage}");
                }
                if !more {
                    std::thread::park();
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the thread after what it is doing.
    pub(crate) fn stop(mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread of the pager had panicked");
            }
        }
    }
}
