//! How other threads wake the task of a connection: one atomic byte of orders and the task's waker.
//!
//! Orders that come before the task has looked merge into one wake-up. So a batch of deliveries
//! costs one, from however many queues it comes.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// The connection has something to do: call `wake`.
const WAKE: u8 = 1;
/// The connection has to be closed, in the protocol's words.
const CLOSE: u8 = 2;
/// The connection has to end now, whatever its protocol still wants to say.
const CUT: u8 = 4;

/// What was ordered since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orders(u8);

impl Orders {
    pub(crate) fn wake(self) -> bool {
        self.0 & WAKE != 0
    }

    pub(crate) fn close(self) -> bool {
        self.0 & CLOSE != 0
    }

    pub(crate) fn cut(self) -> bool {
        self.0 & CUT != 0
    }
}

/// Orders come from any thread and under any lock. The connection's task carries them out.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    orders: AtomicU8,
    /// Set once, by the task's first poll: a spawned task keeps its waker for life.
    task: OnceLock<Waker>,
}

impl Wakeup {
    /// Says which task to wake. Its first look, which follows, sees the orders given before.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Takes what was ordered since the last call.
    pub(crate) fn take(&self) -> Orders {
        // The plain load keeps the usual case, no orders, free of a locked instruction.
        if self.orders.load(Ordering::Relaxed) == 0 {
            return Orders(0);
        }
        Orders(self.orders.swap(0, Ordering::AcqRel))
    }

    /// Whether an end without ceremony is ordered; it stays so.
    pub(crate) fn is_cut(&self) -> bool {
        self.orders.load(Ordering::Acquire) & CUT != 0
    }

    /// Asks for an orderly close.
    pub(crate) fn close(&self) {
        self.order(CLOSE);
    }

    /// Asks for an end without ceremony.
    pub(crate) fn cut(&self) {
        self.order(CUT);
    }

    fn order(&self, order: u8) {
        let before = self.orders.fetch_or(order, Ordering::AcqRel);
        if before & order == 0
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.order(WAKE);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.order(WAKE);
    }
}

/// Waits for a handshake. `None` when the connection was ordered to end meanwhile; `late` says what
/// it took longer than.
pub(crate) async fn await_handshake<T>(
    wakeup: &Wakeup,
    patience: Duration,
    late: &'static str,
    handshake: impl Future<Output = io::Result<T>>,
) -> Option<io::Result<T>> {
    let mut handshake = std::pin::pin!(handshake);
    let ordered_or_done = poll_fn(|cx| {
        let orders = wakeup.take();
        if orders.close() || orders.cut() {
            return Poll::Ready(None);
        }
        handshake.as_mut().poll(cx).map(Some)
    });
    match tokio::time::timeout(patience, ordered_or_done).await {
        Ok(outcome) => outcome,
        Err(_) => Some(Err(io::Error::new(io::ErrorKind::TimedOut, format!("it took longer than {late}")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn orders_before_a_look_merge_into_one_wake_up() {
        let task = Arc::new(Counter::default());
        let wakeup = Arc::new(Wakeup::default());
        wakeup.set_task(&Waker::from(task.clone()));
        let waker = Waker::from(wakeup.clone());
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(wakeup.take(), Orders(WAKE));
        assert_eq!(wakeup.take(), Orders(0));
        waker.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_different_order_wakes_again_and_none_is_lost_without_a_task() {
        let wakeup = Arc::new(Wakeup::default());
        Waker::from(wakeup.clone()).wake();
        wakeup.close();
        wakeup.cut();
        let orders = wakeup.take();
        assert!(orders.wake() && orders.close() && orders.cut());
    }
}
