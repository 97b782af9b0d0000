//! How other threads reach the task of a connection: one atomic byte of orders and the task's
//! waker.
//!
//! Rings that come before the task has looked merge into one, so a batch of deliveries costs one
//! wake-up however many queues they come from.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

/// The connection has something to do: call `wake`.
const WAKE: u8 = 1;
/// Somebody wants the connection closed in the protocol's words.
const CLOSE: u8 = 2;
/// The connection has to end now, whatever its protocol still wants to say.
const CUT: u8 = 4;

/// What was rung for since the last look.
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

/// Rung from any thread and under any lock; answered by the connection's task.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    orders: AtomicU8,
    /// Set once, by the task's first poll: a spawned task keeps its waker for life.
    task: OnceLock<Waker>,
}

impl Bell {
    /// Says which task answers. Orders given before are seen by the first look, which follows.
    pub(crate) fn answered_by(&self, task: &Waker) {
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

    /// Asks for an orderly close.
    pub(crate) fn close(&self) {
        self.ring(CLOSE);
    }

    /// Asks for an end without ceremony.
    pub(crate) fn cut(&self) {
        self.ring(CUT);
    }

    fn ring(&self, order: u8) {
        let before = self.orders.fetch_or(order, Ordering::AcqRel);
        if before & order == 0
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring(WAKE);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring(WAKE);
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
    fn rings_before_a_look_merge_into_one_wake_up() {
        let task = Arc::new(Counter::default());
        let bell = Arc::new(Bell::default());
        bell.answered_by(&Waker::from(task.clone()));
        let waker = Waker::from(bell.clone());
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(bell.take(), Orders(WAKE));
        assert_eq!(bell.take(), Orders(0));
        waker.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_different_order_wakes_again_and_none_is_lost_without_a_task() {
        let bell = Arc::new(Bell::default());
        Waker::from(bell.clone()).wake();
        bell.close();
        bell.cut();
        let orders = bell.take();
        assert!(orders.wake() && orders.close() && orders.cut());
    }
}
