//! Counts work that holds up everything else of its kind: a round of housekeeping, or a request on
//! the loop of management.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Work that takes this long is counted and logged; connections have the same limit.
const LONG: Duration = Duration::from_millis(100);

/// The count of one kind.
#[derive(Debug, Default)]
pub struct Watch(AtomicU64);

impl Watch {
    /// Runs work that others wait for. If it takes long, it is counted, and `tell` gets its
    /// milliseconds.
    pub fn over<T>(&self, tell: impl FnOnce(u128), work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let took = began.elapsed();
        if took >= LONG {
            self.0.fetch_add(1, Ordering::Relaxed);
            tell(took.as_millis());
        }
        done
    }

    /// How often work took long.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_counted_and_told() {
        let watch = Watch::default();
        let told = std::cell::Cell::new(0);
        assert_eq!(watch.over(|milliseconds| told.set(milliseconds), || 7), 7);
        let before = watch.count();
        watch.over(|milliseconds| told.set(milliseconds), || std::thread::sleep(LONG));
        assert_eq!(watch.count(), before + 1);
        assert!(told.get() >= LONG.as_millis());
    }
}
