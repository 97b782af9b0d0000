//! Transient messages that leave memory while it is short.
//!
//! The sweep picks them and the pager writes them, since that waits for the disk. If the disk takes
//! none they stay in memory: the memory alarm does its work, and a second later the sweep tries
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::{Address, Reference};

use crate::engine::Engine;
use crate::queue::{Picked, Queue};

/// After the disk has taken none, no message is picked for so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes that are read, and written again, with one operation.
const MOVED_AT_ONCE: usize = 1 << 20;

/// Whether the disk takes spilled messages.
#[derive(Debug, Default)]
pub(crate) struct Spilling {
    /// It took none since the sweep looked last.
    refused: AtomicBool,
    /// The log has been told so.
    told: AtomicBool,
}

impl Engine {
    /// Whether the sweep may pick messages now. After the disk has taken none, `retry_at` is the
    /// time of the next try.
    pub(crate) fn may_spill(&self, now: Instant, retry_at: &mut Option<Instant>) -> bool {
        if self.eviction.spilling.refused.swap(false, Ordering::AcqRel) {
            *retry_at = Some(now + RETRY_AFTER);
        }
        retry_at.take_if(|at| *at <= now);
        self.journal.spills() && retry_at.is_none()
    }

    /// Writes the messages that the sweep has picked. While memory is short it picks more of the
    /// same queue: the sweep may run on another thread, which would cost more than the writing.
    /// False when it is the sweep's turn again.
    pub(crate) fn spill(&self, queue: &Arc<Queue>, picked: Vec<Picked>) -> bool {
        let bodies: Vec<&[u8]> = picked.iter().map(|(_, message)| message.block()).collect();
        match self.journal.spill(&bodies) {
            Ok(addresses) => {
                queue.spilled(&picked, &addresses, self);
                drop(picked);
                if !self.memory.is_short() {
                    return false;
                }
                while !queue.sweep(self.memory.spill_piece(), self) {}
                queue.is_spilling(self)
            }
            Err(error) => {
                queue.not_spilled(self);
                self.eviction.spilling.refused.store(true, Ordering::Release);
                if !self.eviction.spilling.told.swap(true, Ordering::AcqRel) {
                    self.damages.news.lock().push(format!(
                        "transient messages stay in memory, since the disk takes none: {error}; past memory.limit publishers wait"
                    ));
                }
                false
            }
        }
    }

    /// Gives back the unused room of spilled files. True when there is more to do.
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

    /// Writes the bodies of a file that are still needed again, and deletes the file. Bodies that
    /// can't be moved stay where they are.
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

/// Runs of references with about as many bytes as one operation moves.
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
