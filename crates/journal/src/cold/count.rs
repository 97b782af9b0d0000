//! How many references keep each segment, under the buffer's lock.
//!
//! Invariant: a count rises only while its segment is being filled. A segment that is not listed is
//! gone, and what is freed in it was settled before it went.

use hashbrown::HashMap;

/// One segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Count {
    /// References to bodies in it, now and when it was made.
    pub(crate) live: u64,
    pub(crate) references: u64,
    /// The bytes of these bodies when it was made.
    pub(crate) bytes: u64,
    /// The length of its file.
    pub(crate) length: u32,
    /// It can't be read whole, so it is never merged.
    pub(crate) unreadable: bool,
}

impl Count {
    /// A guess at the bytes still referenced: as if all bodies were of one size.
    pub(crate) fn live_bytes(&self) -> u64 {
        let share = u128::from(self.bytes) * u128::from(self.live) / u128::from(self.references.max(1));
        u64::try_from(share).unwrap_or(u64::MAX).min(self.bytes)
    }
}

/// All segments by number.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) segments: HashMap<u32, Count>,
    /// Segments that nothing keeps any more, and that wait to be looked at.
    pub(crate) dead: Vec<u32>,
}

impl Counts {
    pub(crate) fn hold(&mut self, number: u32, count: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.live += count;
        }
    }

    pub(crate) fn free(&mut self, number: u32, count: u64) {
        let Some(segment) = self.segments.get_mut(&number) else { return };
        debug_assert!(segment.live >= count, "more freed in segment {number:08x} than was live");
        segment.live = segment.live.saturating_sub(count);
        if segment.live == 0 && count > 0 {
            self.dead.push(number);
        }
    }

    /// Lists a segment, dead if nothing keeps it.
    pub(crate) fn insert(&mut self, number: u32, count: Count) {
        if count.live == 0 {
            self.dead.push(number);
        }
        self.segments.insert(number, count);
    }

    /// Notes which of the segments that were just read nothing keeps.
    pub(crate) fn find_dead(&mut self) {
        self.dead.extend(self.segments.iter().filter(|(_, count)| count.live == 0).map(|(number, _)| *number));
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| u64::from(segment.length)).sum()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.values().map(Count::live_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_dead_when_its_last_reference_is_freed_and_what_is_gone_is_ignored() {
        let mut counts = Counts::default();
        counts.insert(7, Count { live: 3, references: 4, bytes: 400, length: 1000, unreadable: false });
        counts.hold(9, 1);
        counts.free(9, 1);
        counts.free(7, 2);
        assert_eq!((counts.live_bytes(), counts.bytes(), counts.dead.len()), (100, 1000, 0));
        counts.free(7, 1);
        assert_eq!(counts.dead, [7]);
        counts.insert(8, Count { live: 0, references: 4, bytes: 400, length: 1000, unreadable: false });
        assert_eq!(counts.dead, [7, 8]);
    }
}
