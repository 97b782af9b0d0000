//! Where things lie in the log and how far the log is durable: [`Address`], [`Ticket`] and the
//! wakers that wait for a ticket.
//!
//! Invariant: a ticket never becomes durable before every record appended up to it is, and never
//! stops being so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::layout::is_spilled;

/// Where a body lies: the generation of its file and the byte offset of its record in that file.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The generation of the log file; generations are never reused.
    pub file: u32,
    /// The byte offset of the record within the file.
    pub offset: u32,
}

impl Address {
    /// Whether the body lies outside the log, where nothing survives the process: see
    /// [`crate::Journal::spill`].
    #[inline]
    pub fn is_spilled(self) -> bool {
        is_spilled(self.file)
    }
}

/// The end of some records in the log. They are durable once
/// [`Journal::durable`](crate::Journal::durable) has reached it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The ticket that is always durable.
    pub const NONE: Self = Self(0);
}

/// How far the log is durable, and what waits for it to get further.
#[derive(Default)]
pub(crate) struct Progress {
    durable: AtomicU64,
    lag: AtomicU64,
    waiting: Mutex<Vec<(Ticket, Waker)>>,
}

impl Progress {
    pub(crate) fn durable(&self) -> Ticket {
        Ticket(self.durable.load(Ordering::Acquire))
    }

    /// Bytes appended and not yet durable.
    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    pub(crate) fn appended(&self, bytes: u64) {
        self.lag.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Moves the durable end forward and wakes what waited for it.
    pub(crate) fn reach(&self, ticket: Ticket, bytes: u64) {
        self.lag.fetch_sub(bytes, Ordering::Relaxed);
        self.durable.store(ticket.0, Ordering::Release);
        let mut reached = Vec::new();
        self.waiting.lock().retain(|(wanted, waker)| {
            let keep = *wanted > ticket;
            if !keep {
                reached.push(waker.clone());
            }
            keep
        });
        // Woken without the lock: a waker may run arbitrary code, including this type's.
        for waker in reached {
            waker.wake();
        }
    }

    /// Wakes `waker` once `ticket` is durable, at once if it is.
    pub(crate) fn when_durable(&self, ticket: Ticket, waker: &Waker) {
        if self.durable() < ticket {
            let mut waiting = self.waiting.lock();
            // `reach` stores before it takes this lock, so what it stored is seen here or `reach`
            // sees the waiter.
            if self.durable() < ticket {
                waiting.push((ticket, waker.clone()));
                return;
            }
        }
        waker.wake_by_ref();
    }

    /// Starts from what recovery found durable.
    pub(crate) fn resume(&self, ticket: Ticket) {
        self.durable.store(ticket.0, Ordering::Release);
    }
}
