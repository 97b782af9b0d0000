//! Which log an owner's records lie in, and up to where a log goes.
//!
//! Invariant: the log is in the upper 24 bits of an owner and its number in the others, so that
//! each log gives out numbers of its own. An owner's records lie in its log and in no other.

use std::fmt;

use crate::Owner;

/// The bits of an owner's number within its log.
const NUMBER_BITS: u32 = 40;

/// The number of a log. Each is replayed by itself, and a [`crate::Ticket`] is of one.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogId(u32);

impl LogId {
    /// The log of what belongs to no other.
    pub const SYSTEM: Self = Self(0);

    /// The log of this number; `None` for one with more than 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number >> (u64::BITS - NUMBER_BITS) == 0 { Some(Self(number)) } else { None }
    }

    /// The log in which the records of `owner` lie.
    #[inline]
    pub const fn of(owner: Owner) -> Self {
        Self((owner >> NUMBER_BITS) as u32)
    }

    /// The owner of this number in the log.
    ///
    /// # Panics
    /// If the number has more than 40 bits: that many are never given out.
    #[inline]
    pub const fn owner(self, number: u64) -> Owner {
        assert!(number >> NUMBER_BITS == 0, "an owner's number has more than 40 bits");
        (self.0 as u64) << NUMBER_BITS | number
    }

    /// The number of `owner` within its log.
    #[inline]
    pub const fn number_of(owner: Owner) -> u64 {
        owner & ((1 << NUMBER_BITS) - 1)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether a group of this log may have records of all of `logs`.
    ///
    /// # Errors
    /// When one of them is another.
    pub fn check_group(self, logs: impl IntoIterator<Item = Self>) -> Result<(), SpansLogs> {
        match logs.into_iter().find(|log| *log != self) {
            None => Ok(()),
            Some(other) => Err(SpansLogs { home: self, other }),
        }
    }
}

/// A group would lie in two logs, and could stand in one and fall in the other. That is not built.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct SpansLogs {
    /// The log that the group begins in.
    pub home: LogId,
    /// Another that it would write to.
    pub other: LogId,
}

impl fmt::Display for SpansLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { home, other } = self;
        write!(f, "a group of log {} would write to log {} too; write one for each log", home.0, other.0)
    }
}

impl std::error::Error for SpansLogs {}

/// Up to where a log goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// The log.
    pub log: LogId,
    /// One more with each start of the journal.
    pub term: u64,
    /// The index of the last batch with something new; zero for none.
    pub index: u64,
    /// The checksum over all such batches, which is the same on every copy.
    pub link: u32,
}

impl LogEnd {
    /// The end of a log that has nothing yet.
    pub(crate) fn before(log: LogId, term: u64) -> Self {
        Self { log, term, index: 0, link: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_says_its_log_and_its_number() {
        assert_eq!((LogId::new((1 << 24) - 1).map(LogId::number), LogId::new(1 << 24)), (Some((1 << 24) - 1), None));
        for log in [0, 1, 77, (1 << 24) - 1] {
            let log = LogId::new(log).unwrap();
            for number in [0, 1, (1 << 40) - 1] {
                let owner = log.owner(number);
                assert_eq!((LogId::of(owner), LogId::number_of(owner)), (log, number));
            }
        }
        // What was there before owners said their log is of the system's.
        assert_eq!(LogId::of(5), LogId::SYSTEM);
    }

    #[test]
    fn a_group_that_spans_logs_is_refused_by_the_first_other_one() {
        let log = |number| LogId::new(number).unwrap();
        assert_eq!(log(3).check_group([]), Ok(()));
        assert_eq!(log(3).check_group([log(3), log(3)]), Ok(()));
        let refused = log(3).check_group([log(3), log(7), log(8)]).unwrap_err();
        assert_eq!(refused, SpansLogs { home: log(3), other: log(7) });
        assert_eq!(refused.to_string(), "a group of log 3 would write to log 7 too; write one for each log");
    }
}
