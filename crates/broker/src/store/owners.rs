//! The numbers of owners, given out per log.
//!
//! Invariant: no number of a log is given twice, also not in a later run of the same directory, as
//! long as anything there speaks of it.

use hashbrown::HashMap;
use journal::{LogId, Owner};
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OwnerNumbers {
    /// The last number of each log.
    last: Mutex<HashMap<LogId, u64>>,
}

impl OwnerNumbers {
    /// This owner is in use.
    pub(crate) fn see(&mut self, owner: Owner) {
        let last = self.last.get_mut().entry(LogId::of(owner)).or_default();
        *last = (*last).max(LogId::number_of(owner));
    }

    /// The first of so many owners in a row.
    pub(crate) fn take(&self, log: LogId, count: u64) -> Owner {
        let mut numbers = self.last.lock();
        let last = numbers.entry(log).or_default();
        let first = *last + 1;
        *last += count;
        log.owner(first)
    }

    /// A log that no owner is of; `None` when there are as many as there can be. `known` are logs
    /// that the journal knows.
    pub(crate) fn new_log(&self, known: &[LogId]) -> Option<LogId> {
        let mut numbers = self.last.lock();
        let used = numbers.keys().chain(known).map(|log| log.number()).max().unwrap_or(0);
        let log = LogId::new(used + 1)?;
        numbers.insert(log, 0);
        Some(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_numbers_of_its_own() {
        let mut numbers = OwnerNumbers::default();
        numbers.see(LogId::SYSTEM.owner(7));
        numbers.see(LogId::SYSTEM.owner(4));
        let first = numbers.new_log(&[]).unwrap();
        let second = numbers.new_log(&[LogId::new(4).unwrap()]).unwrap();
        assert_eq!((first.number(), second.number()), (1, 5));
        assert_eq!((numbers.take(LogId::SYSTEM, 1), numbers.take(LogId::SYSTEM, 1)), (8, 9));
        assert_eq!((numbers.take(first, 6), numbers.take(first, 1)), (first.owner(1), first.owner(7)));
        assert_eq!(numbers.take(second, 1), second.owner(1));
    }
}
