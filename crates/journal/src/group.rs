//! Groups: records that stand or fall together.
//!
//! Invariant: what a grouped settlement frees is freed when its group ends, not before. A file that
//! holds part of an open group is not recycled.

use std::num::NonZeroU64;

use crate::Owner;
use crate::log::LogId;

/// The name of a group of records that recovery applies as a whole or not at all.
///
/// Its number is used once in a term, which the batches of its records name. A term is the time
/// from one start of the journal to the next. Every group that is begun must be ended; until then
/// the files that hold its records cannot be recycled.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group(NonZeroU64);

impl Group {
    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        NonZeroU64::new(raw).map(Self)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0.get()
    }
}

/// Counts of bodies freed, by file; neighbours of one file are added up.
#[derive(Default, Debug)]
pub(crate) struct Freed(Vec<(u32, u64)>);

impl Freed {
    pub(crate) fn add(&mut self, file: u32, count: u64) {
        match self.0.last_mut() {
            Some((last, total)) if *last == file => *total += count,
            _ => self.0.push((file, count)),
        }
    }
}

/// One group that has not ended.
struct Entry {
    group: Group,
    log: LogId,
    /// The file that holds its first record; every later file may hold more of it.
    first_file: u32,
    freed: Freed,
    /// What it settles: owner, first sequence number, count.
    settled: Vec<(Owner, u64, u64)>,
}

/// The groups that have not ended. There are few: a group is written in one bounded run.
pub(crate) struct Groups {
    next: NonZeroU64,
    entries: Vec<Entry>,
}

impl Groups {
    /// No group has been begun in this term.
    pub(crate) fn new() -> Self {
        Self { next: NonZeroU64::MIN, entries: Vec::new() }
    }

    pub(crate) fn begin(&mut self, log: LogId, file: u32) -> Group {
        let group = Group(self.next);
        self.next = self.next.saturating_add(1);
        self.entries.push(Entry { group, log, first_file: file, freed: Freed::default(), settled: Vec::new() });
        group
    }

    /// The log of `group`, if it is open.
    pub(crate) fn log_of(&self, group: Group) -> Option<LogId> {
        self.entries.iter().find(|entry| entry.group == group).map(|entry| entry.log)
    }

    /// The counts that the end of `group` will free.
    pub(crate) fn freed(&mut self, group: Group) -> Option<&mut Freed> {
        self.entries.iter_mut().find(|entry| entry.group == group).map(|entry| &mut entry.freed)
    }

    /// Ends `group`, and gives the counts that it frees, by file.
    pub(crate) fn end(&mut self, group: Group) -> Vec<(u32, u64)> {
        let at = self.entries.iter().position(|entry| entry.group == group);
        debug_assert!(at.is_some(), "{group:?} is not open");
        at.map(|at| self.entries.swap_remove(at).freed.0).unwrap_or_default()
    }

    /// Notes what `group` settles.
    pub(crate) fn note_settled(&mut self, group: Group, owner: Owner, runs: &[(u64, u64)]) {
        let entry = self.entries.iter_mut().find(|entry| entry.group == group);
        let runs = runs.iter().map(|(first, count)| (owner, *first, *count));
        entry.into_iter().for_each(|entry| entry.settled.extend(runs.clone()));
    }

    /// `runs` of `owner` without what open groups settle; `None` if that is all of them.
    pub(crate) fn without_settled(&self, owner: Owner, runs: &[(u64, u64)]) -> Option<Vec<(u64, u64)>> {
        let settled = self.entries.iter().flat_map(|entry| &entry.settled);
        let mut out: Vec<(u64, u64)> =
            settled.filter(|(of, ..)| *of == owner).map(|(_, first, count)| (*first, *count)).collect();
        if out.is_empty() {
            return None;
        }
        out.sort_unstable();
        let mut kept = Vec::with_capacity(runs.len() + out.len());
        for (first, count) in runs {
            let (mut at, end) = (*first, first.saturating_add(*count));
            for (from, length) in &out {
                let (from, until) = ((*from).max(at), from.saturating_add(*length).min(end));
                if from < until {
                    kept.extend((at < from).then_some((at, from - at)));
                    at = until;
                }
            }
            kept.extend((at < end).then_some((at, end - at)));
        }
        Some(kept)
    }

    /// The last group begun, or a later one than any that is open.
    pub(crate) fn last_begun(&self) -> u64 {
        self.next.get() - 1
    }

    /// Whether a group up to `last` is open.
    pub(crate) fn open_up_to(&self, last: u64) -> bool {
        self.entries.iter().any(|entry| entry.group.raw() <= last)
    }

    /// The oldest file in which a group may have records.
    pub(crate) fn oldest_file(&self) -> Option<u32> {
        self.entries.iter().map(|entry| entry.first_file).min()
    }

    /// Whether a group may have records in `file` or an older one.
    pub(crate) fn hold(&self, file: u32) -> bool {
        self.entries.iter().any(|entry| entry.first_file <= file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_open_groups_settle_is_taken_out_of_runs() {
        let mut groups = Groups::new();
        let (first, second) = (groups.begin(LogId::SYSTEM, 1), groups.begin(LogId::SYSTEM, 1));
        groups.note_settled(first, 7, &[(5, 1), (20, 10)]);
        groups.note_settled(second, 7, &[(3, 1)]);
        groups.note_settled(second, 8, &[(0, 100)]);
        type Runs = [(u64, u64)];
        let table: [(&Runs, &Runs); 7] = [
            (&[(0, 2)], &[(0, 2)]),
            (&[(0, 10)], &[(0, 3), (4, 1), (6, 4)]),
            (&[(3, 1)], &[]),
            (&[(3, 3)], &[(4, 1)]),
            (&[(0, 4), (5, 20)], &[(0, 3), (6, 14)]),
            (&[(25, 10), (40, 1)], &[(30, 5), (40, 1)]),
            (&[(0, u64::MAX)], &[(0, 3), (4, 1), (6, 14), (30, u64::MAX - 30)]),
        ];
        for (runs, expected) in table {
            assert_eq!(groups.without_settled(7, runs).as_deref(), Some(expected), "{runs:?}");
        }
        assert_eq!(groups.without_settled(6, &[(0, 9)]), None);
        groups.end(first);
        assert_eq!(groups.without_settled(7, &[(0, 9)]).as_deref(), Some(&[(0, 3), (4, 5)][..]));
        assert_eq!((groups.last_begun(), groups.open_up_to(1), groups.open_up_to(2)), (2, false, true));
    }
}
