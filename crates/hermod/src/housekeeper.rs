//! The thread that runs the broker's housekeeping: it sleeps until something is due or somebody wakes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use broker::Broker;

/// Comes by this often even if nothing was announced.
const ROUND: Duration = Duration::from_secs(10);

/// The thread while it runs.
pub(crate) struct Housekeeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes a sleeping thread.
pub(crate) struct Unpark(pub(crate) Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Housekeeper {
    /// Starts the thread.
    pub(crate) fn start(broker: Broker) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("hermod-housekeeping".to_owned()).spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            while !stopped.load(Ordering::Acquire) {
                let now = Instant::now();
                let due = broker.housekeep(now, &waker).unwrap_or(now + ROUND);
                std::thread::park_timeout(due.saturating_duration_since(Instant::now()).min(ROUND));
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
                tracing::error!("the thread of the housekeeping had panicked");
            }
        }
    }
}
