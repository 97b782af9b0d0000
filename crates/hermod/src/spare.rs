//! Decides when memory that messages have left should go back to the system.
//!
//! The next burst must ask the system for that memory again, page by page. So only memory that was
//! spare at every look within half a minute counts. Looks are counted instead of time, because a
//! process that was stopped meanwhile was not idle.

use std::time::{Duration, Instant};

/// Time between two looks.
const BETWEEN: Duration = Duration::from_secs(10);
/// The same, beyond the limit.
const BETWEEN_BEYOND: Duration = Duration::from_millis(500);
/// How many looks decide.
const LOOKS: u32 = 3;
/// Bytes for which it is worth walking through the allocator's lists.
const WORTH: usize = 16 << 20;

/// What the process has, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    pub(crate) all: usize,
    /// The part of it that messages, and what peers make the broker hold, do not take.
    pub(crate) spare: usize,
    /// What it should have at most.
    pub(crate) limit: usize,
}

impl Resident {
    fn is_beyond(self) -> bool {
        self.all > self.limit
    }
}

/// The results of the last looks.
#[derive(Debug)]
pub(crate) struct Spare {
    looked: Instant,
    /// The last look, within the limit or beyond it.
    glanced: Instant,
    looks: u32,
    /// The fewest spare bytes at these looks.
    least: usize,
    /// Bytes that can't be given back: connections, queues, code.
    fixed: usize,
}

impl Spare {
    pub(crate) fn new(now: Instant) -> Self {
        Self { looked: now, glanced: now, looks: 0, least: usize::MAX, fixed: 0 }
    }

    /// If a look is due, reads what is resident. True if memory should go back.
    pub(crate) fn look(&mut self, now: Instant, resident: impl FnOnce() -> Resident) -> bool {
        if now < self.glanced + BETWEEN_BEYOND {
            return false;
        }
        self.glanced = now;
        let resident = resident();
        let beyond = resident.is_beyond() && resident.spare >= self.fixed + WORTH;
        self.look_slowly(now, resident.spare) || beyond
    }

    /// True if this look and those before it have seen memory that is spare.
    fn look_slowly(&mut self, now: Instant, spare: usize) -> bool {
        if now < self.looked + BETWEEN {
            return false;
        }
        self.looked = now;
        self.least = self.least.min(spare);
        self.looks += 1;
        if self.looks < LOOKS {
            return false;
        }
        let idle = std::mem::replace(&mut self.least, usize::MAX);
        self.looks = 0;
        self.fixed = self.fixed.min(idle);
        idle - self.fixed >= WORTH
    }

    /// Memory went back. The bytes that are still resident and not for messages are in use.
    pub(crate) fn gave_back(&mut self, bytes: usize) {
        self.fixed = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn within(spare: usize) -> Resident {
        Resident { all: spare, spare, limit: usize::MAX }
    }

    /// Purged and filled again every two seconds, queues in a fanout left holes in the heaps of
    /// several threads, and the process grew half beyond its limit.
    #[test]
    fn beyond_the_limit_memory_goes_back_at_once_and_again_when_more_is_spare() {
        let mut now = Instant::now();
        let mut spare = Spare::new(now);
        let mut given = Vec::new();
        let seen = [(250, 60), (260, 60), (270, 30), (300, 35), (300, 36), (310, 36), (300, 300)];
        for (at, (all, of_it)) in seen.into_iter().enumerate() {
            now += BETWEEN_BEYOND;
            if spare.look(now, || Resident { all: all * MIB, spare: of_it * MIB, limit: 256 * MIB }) {
                given.push(at);
                spare.gave_back(20 * MIB);
            }
        }
        // Holes of 16 MiB are worth it, less is not.
        assert_eq!(given, [1, 4, 5, 6]);
        assert!(!spare.look(now + BETWEEN_BEYOND / 2, || panic!("too early to look")));
    }

    /// The numbers of the looks at which memory goes back. A look sees this many MiB; after memory
    /// went back, 20 MiB are in use.
    fn given(seen: &[usize]) -> Vec<usize> {
        let mut now = Instant::now();
        let mut spare = Spare::new(now);
        let mut given = Vec::new();
        for (at, mib) in seen.iter().enumerate() {
            now += BETWEEN;
            if spare.look(now, || within(mib * MIB)) {
                spare.gave_back(20 * MIB);
                given.push(at);
            }
        }
        given
    }

    #[test]
    fn memory_goes_back_once_it_was_spare_at_three_looks_and_what_is_in_use_does_not_count() {
        for (seen, expected) in [
            (vec![10; 9], vec![]),
            (vec![90, 90, 90, 20, 20, 20], vec![2]),
            (vec![90, 90, 10, 90, 90, 90], vec![5]),
            (vec![90, 90, 90, 35, 35, 35, 36, 36, 36], vec![2, 8]),
            // The memory in use shrank, so its former size no longer counts.
            (vec![90, 90, 90, 8, 8, 8, 24, 24, 24], vec![2, 8]),
        ] {
            assert_eq!(given(&seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn looks_are_ten_seconds_apart_and_a_long_sleep_is_one_look() {
        let start = Instant::now();
        let mut spare = Spare::new(start);
        assert!(!spare.look(start + BETWEEN / 2, || within(90 * MIB)), "too early to count");
        assert!(!spare.look(start + 60 * BETWEEN, || within(90 * MIB)));
        assert!(!spare.look(start + 61 * BETWEEN, || within(90 * MIB)));
        assert!(spare.look(start + 62 * BETWEEN, || within(90 * MIB)));
    }
}
