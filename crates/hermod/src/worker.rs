//! A thread that repeats one step. Between steps it sleeps until the next one is due or it is
//! woken. When it is told to stop, it ends after the current step.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How a worker rests before its next step.
pub(crate) enum Rest {
    /// Not at all.
    None,
    /// It sleeps for this long, unless it is woken.
    For(Duration),
    /// It sleeps until it is woken.
    UntilWoken,
}

/// The thread while it runs.
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Wakes a sleeping thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Worker {
    /// Starts a thread of this name. Each step gets a waker of the thread.
    pub(crate) fn start(name: &str, mut step: impl FnMut(&Waker) -> Rest + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            while !stopped.load(Ordering::Acquire) {
                // A wake-up before the thread sleeps is not lost: the next park returns at once.
                match step(&waker) {
                    Rest::None => {}
                    Rest::For(time) => std::thread::park_timeout(time),
                    Rest::UntilWoken => std::thread::park(),
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread after the step that it is in.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let name = self.thread.thread().name().unwrap_or_default().to_owned();
        if self.thread.join().is_err() {
            tracing::error!("the thread {name} had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// So long that a test which waits for it never ends.
    const EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn a_worker_goes_on_when_it_is_woken_and_ends_when_it_is_stopped() {
        for rest in [|| Rest::UntilWoken, || Rest::For(EVER)] {
            let (told, steps) = channel();
            let worker = Worker::start("test", move |waker| {
                let _ = told.send(waker.clone());
                rest()
            });
            let worker = worker.expect("a thread can be started");
            for _ in 0..3 {
                let waker = steps.recv().expect("a step was made");
                waker.wake();
            }
            worker.stop();
        }
    }

    #[test]
    fn without_a_rest_the_next_step_follows_at_once() {
        let (told, steps) = channel();
        let worker = Worker::start("test", move |_| {
            let _ = told.send(());
            Rest::None
        });
        assert_eq!(steps.iter().take(100).count(), 100);
        worker.expect("a thread can be started").stop();
    }
}
