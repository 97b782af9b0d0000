//! Memory that the process takes and that nothing counts: blocks of messages of which few are left,
//! and holes that can't be given back.
//!
//! Each count is an estimate, and what a peer chooses can make it wrong: one small message keeps
//! the block that it shares with messages that have gone. So the system is asked as well.
//!
//! What the process takes beyond its counts is shown at any time: of what it took when the system
//! was asked last, all that is not counted now. With the counts beside it, this is never more than
//! the process took. Invariant: while the process is
//! beyond the limit, it is held against the limit like a message. Then messages leave memory, with
//! the blocks that they keep, and publishers wait.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of the limit by which the process may exceed its counts.
const PART: usize = 16;
/// The bytes by which it may at least.
const LEAST: usize = 16 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    /// What an idle process takes, in bytes: the program and its buffers.
    idle: OnceLock<usize>,
    /// What it took when it was looked at last.
    resident: AtomicUsize,
    /// What it took beyond its counts then, while it is held against the limit.
    held: AtomicUsize,
}

impl Uncounted {
    /// Bytes that are held against the limit.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes beyond what is `counted` now, held against the limit or not.
    pub(super) fn beyond(&self, counted: usize, limit: usize) -> usize {
        let idle = self.idle.get().copied().unwrap_or_default();
        let allowed = idle + (limit / PART).max(LEAST);
        self.resident.load(Ordering::Relaxed).saturating_sub(counted).saturating_sub(allowed)
    }

    /// The process has `resident` bytes, of which `counted` are counted. The first look is at an
    /// idle process.
    pub(super) fn look(&self, resident: usize, counted: usize, limit: usize) {
        self.idle.get_or_init(|| resident.saturating_sub(counted));
        self.resident.store(resident, Ordering::Relaxed);
        let held = if resident > limit { self.beyond(counted, limit) } else { 0 };
        self.held.store(held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_nothing_counts_is_held_against_the_limit_once_the_process_is_beyond_it() {
        let uncounted = Uncounted::default();
        for (resident, counted, beyond, held) in [
            // The program itself.
            (20, 0, 0, 0),
            (46, 10, 0, 0),
            // Within the limit it is only shown.
            (100, 10, 54, 0),
            (256, 10, 210, 0),
            // 20 of the program and a sixteenth of the limit are allowed.
            (257, 10, 211, 211),
            (290, 254, 0, 0),
            (300, 254, 10, 10),
            (2000, 254, 1710, 1710),
            // Holes went back, or messages left.
            (200, 170, 0, 0),
            // More is counted than there is.
            (300, 400, 0, 0),
        ] {
            uncounted.look(resident * MIB, counted * MIB, 256 * MIB);
            let found = (uncounted.beyond(counted * MIB, 256 * MIB) / MIB, uncounted.held() / MIB);
            assert_eq!(found, (beyond, held), "{resident} MiB, {counted} counted");
        }
    }

    /// Consumers that were made and ended again and again were counted beside the memory that they
    /// had left, so the two were more than the process took.
    #[test]
    fn what_is_counted_since_the_last_look_is_not_beyond_the_counts() {
        let uncounted = Uncounted::default();
        uncounted.look(20 * MIB, 0, 256 * MIB);
        uncounted.look(80 * MIB, 0, 256 * MIB);
        for (counted, beyond) in [(0, 44), (30, 14), (44, 0), (60, 0)] {
            assert_eq!(uncounted.beyond(counted * MIB, 256 * MIB) / MIB, beyond, "{counted} counted");
        }
    }

    #[test]
    fn a_small_limit_leaves_room_for_what_a_process_takes_anyway() {
        let uncounted = Uncounted::default();
        for (resident, expected) in [(20, 0), (36, 0), (37, 1)] {
            uncounted.look(resident * MIB, 0, MIB);
            assert_eq!(uncounted.held() / MIB, expected, "{resident} MiB");
        }
    }
}
