//! How long pieces of work took, counted in classes, as histograms of Prometheus have them.
//!
//! A count is two additions and takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes: one for each bound, and one for what takes longer than the last.
const CLASSES: usize = Durations::BOUNDS.len() + 1;

/// See the module.
#[derive(Debug, Default)]
pub struct Durations {
    classes: [AtomicU64; CLASSES],
    nanoseconds: AtomicU64,
}

/// A copy counts on by itself.
impl Clone for Durations {
    fn clone(&self) -> Self {
        let copy = |figure: &AtomicU64| AtomicU64::new(figure.load(Ordering::Relaxed));
        Self { classes: std::array::from_fn(|class| copy(&self.classes[class])), nanoseconds: copy(&self.nanoseconds) }
    }
}

impl Durations {
    /// The most microseconds of each class but the last.
    pub const BOUNDS: [u64; 13] =
        [100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

    /// So many pieces of work took so long each.
    pub fn add(&self, took: Duration, count: u64) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let class = Self::BOUNDS.partition_point(|bound| bound * 1000 < nanoseconds);
        self.classes[class].fetch_add(count, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds.saturating_mul(count), Ordering::Relaxed);
    }

    /// How many pieces of work are in each class.
    pub fn counts(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }

    /// How long all of them took together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_class_that_it_does_not_exceed() {
        let durations = Durations::default();
        for (microseconds, count) in [(0, 1), (100, 1), (101, 2), (5_000_000, 1), (5_000_001, 3)] {
            durations.add(Duration::from_micros(microseconds), count);
        }
        let counts = durations.clone().counts();
        assert_eq!((counts[0], counts[1], counts[12], counts[13]), (2, 2, 1, 3));
        assert_eq!(counts.iter().sum::<u64>(), 8);
        assert_eq!(durations.total(), Duration::from_micros(100 + 2 * 101 + 5_000_000 + 3 * 5_000_001));
    }
}
