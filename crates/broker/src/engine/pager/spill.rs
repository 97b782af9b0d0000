//! Messages that the log does not have, on their way out of memory while memory is short.
//!
//! The sweep picks them and the pager writes them, since that waits for the disk. A disk that takes
//! none is no failure: they stay in memory, the memory alarm does what it does, and a second later
//! the sweep tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::{Address, Reference};

use crate::engine::Engine;
use crate::queue::{Picked, Queue};

/// After the disk has taken none, nothing is picked for so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes that are read, and written anew, with one operation.
const MOVED_AT_ONCE: usize = 1 << 20;

/// Whether the disk takes what memory should not hold.
#[derive(Debug, Default)]
pub(crate) struct Spilling {
    /// It has not, since the sweep looked last.
    refused: AtomicBool,
    /// The log says so.
    told: AtomicBool,
}

impl Engine {
    /// Whether the sweep may pick messages now; `retry_at` is when it may again after the disk has
    /// taken none.
    pub(crate) fn may_spill(&self, now: Instant, retry_at: &mut Option<Instant>) -> bool {
        if self.spilling.refused.swap(false, Ordering::AcqRel) {
            *retry_at = Some(now + RETRY_AFTER);
        }
        retry_at.take_if(|at| *at <= now);
        self.journal.spills() && retry_at.is_none()
    }

    /// Writes what the sweep has picked, and while memory is short picks more of the same queue:
    /// the sweep may run on another thread, which would cost more than the writing. False when it
    /// is the sweep's turn again.
    pub(crate) fn spill(&self, queue: &Arc<Queue>, picked: Vec<Picked>) -> bool {
        let bodies: Vec<&[u8]> = picked.iter().map(|(_, message)| message.block()).collect();
        match self.journal.spill(&bodies) {
            Ok(addresses) => {
                queue.spilled(&picked, &addresses, self);
                drop(picked);
                if !self.memory.is_short() {
                    return false;
                }
                while !queue.sweep(true, self) {}
                queue.is_spilling(self)
            }
            Err(error) => {
                queue.not_spilled(self);
                self.spilling.refused.store(true, Ordering::Release);
                if !self.spilling.told.swap(true, Ordering::AcqRel) {
                    self.news.lock().push(format!(
                        "transient messages stay in memory, since the disk takes none: {error}; past memory.limit publishers wait"
                    ));
                }
                false
            }
        }
    }

    /// Lets go of bodies that were spilled. To be called under a queue's lock, too.
    pub(crate) fn free_spilled(&self, file: u32, count: u64) {
        if self.journal.free_spilled(file, count) {
            self.pager.wake();
        }
    }

    /// Gives back room that spilled files take for nothing. True when there is more to do.
    pub(crate) fn tidy_spilled(&self) -> bool {
        let more = self.journal.tidy_spilled();
        match self.journal.sparse_spilled() {
            None => more,
            Some(file) => {
                self.spill_anew(file);
                true
            }
        }
    }

    /// Writes anew what is wanted of a file, which goes then. What can't be moved stays where it
    /// is.
    fn spill_anew(&self, file: u32) {
        for vhost in self.catalog.vhosts() {
            let queues: Vec<Arc<Queue>> = vhost.tables.read().all_queues().cloned().collect();
            for queue in queues {
                for piece in pieces(&queue.spilled_in(file, self)) {
                    let Some(addresses) = self.copy(piece) else { return };
                    queue.spilled_anew(piece, &addresses, self);
                }
            }
        }
    }

    fn copy(&self, piece: &[Reference]) -> Option<Vec<Address>> {
        let blocks = self.journal.read_all(piece).ok()?;
        let bodies: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
        self.journal.spill(&bodies).ok()
    }
}

/// Runs of about so many bytes as are moved at once.
fn pieces(all: &[Reference]) -> impl Iterator<Item = &[Reference]> {
    let mut bytes = 0;
    all.chunk_by(move |one, _| {
        bytes += one.length as usize;
        let goes_on = bytes < MOVED_AT_ONCE;
        if !goes_on {
            bytes = 0;
        }
        goes_on
    })
}
