//! Groups: records that stand or fall together.
//!
//! Invariant: what a grouped settlement frees is freed when its group ends, not before, and a file that holds part of an
//! open group is not recycled.

use std::num::NonZeroU64;

/// The name of a group of records that recovery applies as a whole or not at all.
///
/// Every group that is begun must be ended; until then the files that hold its records cannot be recycled.
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
    /// The file that holds its first record; every later file may hold more of it.
    first_file: u32,
    freed: Freed,
}

/// The groups that have not ended. There are few: a group is written in one bounded run.
pub(crate) struct Groups {
    next: NonZeroU64,
    entries: Vec<Entry>,
}

impl Groups {
    /// The first group will be named `next`.
    pub(crate) fn new(next: NonZeroU64) -> Self {
        Self { next, entries: Vec::new() }
    }

    pub(crate) fn begin(&mut self, file: u32) -> Group {
        let group = Group(self.next);
        self.next = self.next.saturating_add(1);
        self.entries.push(Entry { group, first_file: file, freed: Freed::default() });
        group
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

    /// Whether a group may have records in `file` or an older one.
    pub(crate) fn hold(&self, file: u32) -> bool {
        self.entries.iter().any(|entry| entry.first_file <= file)
    }
}
