//! Which log a batch belongs to, and its place in it: what is equal on every copy of the log.
//!
//! Invariant: the index ascends by one with each batch that says something new, and the link is a
//! checksum over all records up to there. The term of such a batch is that of its writer, who may
//! have sent it here. A batch without records, and one that restates, moves none of the three: its
//! term is of the journal that wrote it. The link leaves out the checksums of bodies, which depend
//! on the file that a batch lies in. Nothing else in a record does: references name a body by its
//! entry.

use crate::log::LogEnd;
use crate::record;

/// What a header says of the log that its batch belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// The end of the log with this batch in it.
    pub(crate) end: LogEnd,
    /// The index up to which all was flushed when the batch was written.
    pub(crate) commit: u64,
}

/// Whether the records of a batch move its log forward.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Advance {
    /// They are new.
    Yes,
    /// There are none, or they restate what the log had said before.
    No,
}

impl LogEnd {
    /// The end with one more batch. Checksums of bodies among its records count as zero: they
    /// depend on the place.
    pub(crate) fn with(self, advance: Advance, records: &[u8]) -> Self {
        match advance {
            Advance::No => self,
            Advance::Yes => Self { index: self.index + 1, link: record::link(self.link, records), ..self },
        }
    }

    /// Takes the next batch of the log that was read back; the error says why it can't be that.
    pub(crate) fn follow(self, next: &Identity, advance: Advance, records: &[u8]) -> Result<Self, &'static str> {
        let expected = self.with(advance, records);
        debug_assert_eq!(next.end.log, expected.log);
        if advance == Advance::Yes && next.end.term < self.term {
            return Err("a batch is of an earlier term than the one before");
        }
        if next.end.index != expected.index {
            return Err("a batch is not the next of its log");
        }
        if next.end.link != expected.link {
            return Err("the records of the log do not add up to the link in this batch");
        }
        if next.commit > next.end.index {
            return Err("a batch says that more of its log was flushed than there was");
        }
        Ok(match advance {
            Advance::Yes => next.end,
            Advance::No => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogId;

    /// A dropped owner.
    const RECORD: [u8; 14] = [5, 0, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_batch_follows_only_the_one_before_it_in_its_log() {
        let end = LogEnd { log: LogId::SYSTEM, term: 3, index: 8, link: 5 };
        let next = Identity { end: end.with(Advance::Yes, &RECORD), commit: 8 };
        assert_eq!((next.end.index, next.end.term), (9, 3));
        assert_eq!(end.follow(&next, Advance::Yes, &RECORD), Ok(next.end));
        let later = Identity { end: LogEnd { term: 4, ..next.end }, ..next };
        assert_eq!(end.follow(&later, Advance::Yes, &RECORD), Ok(later.end));
        for term in [2, 3, 9] {
            let housekeeping = Identity { end: LogEnd { term, ..end }, commit: 8 };
            assert_eq!(end.follow(&housekeeping, Advance::No, &RECORD), Ok(end), "the term of whoever restates");
        }
        let wrong = [
            Identity { end: LogEnd { term: 2, ..next.end }, ..next },
            Identity { end: LogEnd { index: 8, ..next.end }, ..next },
            Identity { end: LogEnd { index: 10, ..next.end }, ..next },
            Identity { end: LogEnd { link: 1, ..next.end }, ..next },
            Identity { commit: 10, ..next },
        ];
        for wrong in wrong {
            assert!(end.follow(&wrong, Advance::Yes, &RECORD).is_err(), "{wrong:?}");
        }
        let mut other = RECORD;
        other[6] = 8;
        assert!(end.follow(&next, Advance::Yes, &other).is_err());
    }
}
