//! What the log keeps for those that follow it: for each the files from a certain one on, up to a
//! bound.
//!
//! Invariant: for a file that has begun to leave the log nothing is kept any more. So a file that
//! can leave never becomes one that can't. What was given up is not kept again under its number.

use super::table::Table;

/// How much is kept for a follower.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// All that it needs. Publishes wait when that fills the log, so it must get on.
    All,
    /// What it needs, while the closed files of the log have no more bytes than this.
    UpTo(u64),
    /// The same, but nothing once publishes would have to wait for it.
    WhileThereIsRoom(u64),
}

/// How short of room the log is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    /// The room for publishes comes to its end.
    ForPublishes,
    /// That for what is always taken, too.
    ForAll,
}

/// What is kept for one.
struct Keep {
    number: u64,
    /// The first file that it needs.
    from: u32,
    keeping: Keeping,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Keeps {
    keeps: Vec<Keep>,
    last: u64,
    /// All files before this one have begun to leave.
    left: u32,
}

impl Keeps {
    /// Keeps the whole log from now on, for one more. Gives its number.
    pub(crate) fn add(&mut self, oldest: u32, keeping: Keeping) -> u64 {
        self.last += 1;
        self.keeps.push(Keep { number: self.last, from: oldest.max(self.left), keeping });
        self.last
    }

    /// Nothing before this file is needed any more for that one.
    pub(crate) fn needs(&mut self, number: u64, from: u32) {
        self.of(number).into_iter().for_each(|keep| keep.from = keep.from.max(from));
    }

    /// Keeps so much for that one from now on.
    pub(crate) fn keep(&mut self, number: u64, keeping: Keeping) {
        self.of(number).into_iter().for_each(|keep| keep.keeping = keeping);
    }

    /// Keeps nothing more for that one.
    pub(crate) fn remove(&mut self, number: u64) {
        self.keeps.retain(|keep| keep.number != number);
    }

    /// The first file that is kept for that one; none if what it needs was given up.
    pub(crate) fn from(&self, number: u64) -> Option<u32> {
        self.keeps.iter().find(|keep| keep.number == number).map(|keep| keep.from)
    }

    /// Whether the oldest file is kept for any.
    pub(crate) fn hold(&self, table: &Table) -> bool {
        let (oldest, bytes) = (table.oldest().generation, table.closed_bytes());
        self.keeps.iter().any(|keep| {
            keep.from <= oldest
                && match keep.keeping {
                    Keeping::All => true,
                    Keeping::UpTo(most) | Keeping::WhileThereIsRoom(most) => bytes <= most,
                }
        })
    }

    /// A file begins to leave the log: what needs it is given up.
    pub(crate) fn leave(&mut self, file: u32) {
        self.left = file + 1;
        self.keeps.retain(|keep| keep.from > file);
    }

    /// Gives up what the log has no room for.
    pub(crate) fn give_up(&mut self, shortage: Shortage) {
        self.keeps
            .retain(|keep| shortage == Shortage::ForPublishes && !matches!(keep.keeping, Keeping::WhileThereIsRoom(_)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keeps.is_empty()
    }

    fn of(&mut self, number: u64) -> Option<&mut Keep> {
        self.keeps.iter_mut().find(|keep| keep.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::table::LogFile;

    /// Files 4 and 5 of ten bytes each, and the head 6.
    fn table() -> Table {
        Table::new(vec![LogFile::new(4, 10), LogFile::new(5, 10)], LogFile::new(6, 10))
    }

    #[test]
    fn the_oldest_file_is_kept_up_to_the_bound_of_who_needs_it() {
        for (keeping, from, held) in [
            (Keeping::All, 4, true),
            (Keeping::All, 5, false),
            (Keeping::UpTo(20), 4, true),
            (Keeping::UpTo(19), 4, false),
            (Keeping::WhileThereIsRoom(20), 4, true),
            (Keeping::WhileThereIsRoom(20), 6, false),
        ] {
            let mut keeps = Keeps::default();
            let number = keeps.add(4, keeping);
            keeps.needs(number, from);
            assert_eq!(keeps.hold(&table()), held, "{keeping:?} from {from}");
            keeps.remove(number);
            assert!(!keeps.hold(&table()));
        }
    }

    #[test]
    fn what_has_begun_to_leave_is_kept_for_none_whatever_is_asked_for_later() {
        let mut keeps = Keeps::default();
        let (late, early) = (keeps.add(4, Keeping::UpTo(0)), keeps.add(4, Keeping::UpTo(0)));
        keeps.needs(early, 5);
        assert!(!keeps.hold(&table()));
        keeps.leave(4);
        keeps.keep(late, Keeping::All);
        let new = keeps.add(4, Keeping::All);
        assert!(!keeps.hold(&table()));
        assert_eq!([late, early, new].map(|number| keeps.from(number)), [None, Some(5), Some(5)]);
    }

    #[test]
    fn what_there_is_no_room_for_is_given_up() {
        for (keeping, kept) in [
            (Keeping::All, [true, false]),
            (Keeping::UpTo(9), [true, false]),
            (Keeping::WhileThereIsRoom(9), [false, false]),
        ] {
            for (shortage, kept) in [Shortage::ForPublishes, Shortage::ForAll].into_iter().zip(kept) {
                let mut keeps = Keeps::default();
                keeps.add(4, keeping);
                keeps.give_up(shortage);
                assert_eq!(!keeps.is_empty(), kept, "{keeping:?} {shortage:?}");
            }
        }
    }
}
