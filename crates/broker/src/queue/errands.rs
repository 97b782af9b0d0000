//! What queues ask the pager for: what must be read from the disk, or written where memory need not
//! hold it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use parking_lot::Mutex;

use crate::queue::{Dying, Picked, Queue};

/// What the pager is asked for.
pub(crate) enum Errand {
    /// What this queue can't go on without.
    Load(Arc<Queue>),
    /// The messages of these, which then move on to the dead-letter exchange.
    ReadDying { queue: Arc<Queue>, dying: Vec<Dying> },
    /// What of this queue is due, or soon will be.
    Release(Arc<Queue>),
    /// Writes these messages to the disk, so that memory need not hold them.
    Spill { queue: Arc<Queue>, picked: Vec<Picked> },
}

/// What waits for the pager.
#[derive(Default)]
pub(crate) struct Pager {
    pub(crate) errands: Mutex<VecDeque<Errand>>,
    pub(crate) waker: Mutex<Option<Waker>>,
    /// What could not be read, in words, until the log takes it.
    pub(crate) damages: Mutex<Vec<String>>,
}

impl Pager {
    /// Reads what `queue` can't go on without.
    pub(crate) fn load(&self, queue: Arc<Queue>) {
        self.send(Errand::Load(queue));
    }

    /// Reads the messages of dead letters and moves them on.
    pub(crate) fn await_read(&self, queue: Arc<Queue>, dying: Vec<Dying>) {
        queue.awaiting_read.fetch_add(1, Ordering::AcqRel);
        self.send(Errand::ReadDying { queue, dying });
    }

    /// Takes back all dead letters of `queue` that are still to be read, in their order.
    pub(crate) fn take_awaiting_read(&self, queue: &Arc<Queue>) -> Vec<Dying> {
        let mut errands = self.errands.lock();
        let mut taken = Vec::new();
        errands.retain_mut(|errand| match errand {
            Errand::ReadDying { queue: other, dying } if other.id == queue.id => {
                queue.awaiting_read.fetch_sub(1, Ordering::AcqRel);
                taken.append(dying);
                false
            }
            _ => true,
        });
        taken
    }

    /// Writes these messages of `queue` to the disk.
    pub(crate) fn spill(&self, queue: Arc<Queue>, picked: Vec<Picked>) {
        self.send(Errand::Spill { queue, picked });
    }

    /// Moves what of `queue` is due, unless the pager is asked already.
    pub(crate) fn release(&self, queue: &Arc<Queue>) {
        if !std::mem::replace(&mut queue.delays.lock().asked, true) {
            self.send(Errand::Release(Arc::clone(queue)));
        }
    }

    /// Something can't be read, in words for the log.
    pub(crate) fn tell(&self, damage: String) {
        self.damages.lock().push(damage);
    }

    fn send(&self, errand: Errand) {
        self.errands.lock().push_back(errand);
        self.wake();
    }

    /// There is something to do.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }
}
