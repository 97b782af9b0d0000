//! Limits the bytes of answers and documents that are under way over HTTP: in all, and for each
//! user.
//!
//! A body is charged before it is handed over. The bytes are given back when the body has been
//! written, or when its connection has ended. A request that finds no room is told to come again. A
//! body larger than the whole limit is let through if nothing else is under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of all users together.
const ALL: usize = 64 << 20;
/// Most bytes of one user, or of all strangers together.
const SHARE: usize = ALL / 2;

/// The bytes that are under way.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    used: usize,
    /// By user; strangers are under the empty name.
    by_user: HashMap<Arc<str>, usize>,
}

/// The limit leaves no room for these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Budget {
    /// A charge for this user, of no bytes yet.
    pub(crate) fn charge(self: &Arc<Self>, user: &str) -> Charge {
        Charge { budget: Arc::clone(self), user: user.into(), bytes: 0 }
    }

    /// The bytes of all.
    pub(crate) fn used(&self) -> u64 {
        self.lock().used as u64
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves the sums as they were, so the table is still right.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes charged to a user, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    user: Arc<str>,
    bytes: usize,
}

impl Charge {
    /// Charges these bytes in addition.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let mut table = self.budget.lock();
        let own = table.by_user.get(&self.user).copied().unwrap_or_default();
        let alone = |used: usize| used == self.bytes;
        if (table.used + bytes > ALL && !alone(table.used)) || (own + bytes > SHARE && !alone(own)) {
            return Err(NoRoom);
        }
        table.used += bytes;
        *table.by_user.entry(Arc::clone(&self.user)).or_default() += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Moves all charged bytes to this user, even beyond its share.
    pub(crate) fn move_to(&mut self, user: &str) {
        let bytes = self.bytes;
        self.give_back();
        self.user = user.into();
        let mut table = self.budget.lock();
        table.used += bytes;
        if bytes > 0 {
            *table.by_user.entry(Arc::clone(&self.user)).or_default() += bytes;
        }
        self.bytes = bytes;
    }

    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut table = self.budget.lock();
        table.used -= bytes;
        if let Some(own) = table.by_user.get_mut(&self.user) {
            *own -= bytes;
            if *own == 0 {
                table.by_user.remove(&self.user);
            }
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_a_share_and_all_have_a_sum_and_what_is_done_is_given_back() {
        let budget = Arc::<Budget>::default();
        let mut one = budget.charge("one");
        let mut more = budget.charge("one");
        assert_eq!(one.grow(SHARE), Ok(()));
        assert_eq!(more.grow(1), Err(NoRoom), "its share is used up");
        let (mut two, mut three) = (budget.charge("two"), budget.charge("three"));
        assert_eq!(two.grow(SHARE), Ok(()));
        assert_eq!(budget.used(), ALL as u64);
        assert_eq!(three.grow(1), Err(NoRoom), "all is used up");
        drop(one);
        assert_eq!((three.grow(1), more.grow(SHARE - 1)), (Ok(()), Ok(())));
        drop((two, three, more));
        let table = budget.lock();
        assert!(table.used == 0 && table.by_user.is_empty());
    }

    #[test]
    fn what_is_larger_than_all_goes_alone() {
        let budget = Arc::<Budget>::default();
        let mut export = budget.charge("admin");
        assert_eq!((export.grow(ALL), export.grow(ALL)), (Ok(()), Ok(())));
        let mut other = budget.charge("other");
        assert_eq!(other.grow(1), Err(NoRoom));
        drop(export);
        assert_eq!(other.grow(1), Ok(()));
        let mut export = budget.charge("admin");
        assert_eq!(export.grow(2 * ALL), Err(NoRoom));
    }

    #[test]
    fn what_a_stranger_has_moves_to_who_it_is() {
        let budget = Arc::<Budget>::default();
        let mut charge = budget.charge("");
        charge.grow(7).unwrap();
        charge.move_to("user");
        let by_user: Vec<_> = budget.lock().by_user.iter().map(|(user, bytes)| (user.to_string(), *bytes)).collect();
        assert_eq!(by_user, [("user".to_owned(), 7)]);
    }
}
