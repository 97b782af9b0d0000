//! Memory: the bytes of queued messages, and the other bytes that peers make the broker hold,
//! against their limits.

pub(crate) mod ingress;
pub(crate) mod ledger;
mod uncounted;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::memory::ledger::{Held, Ledger, UserAccounts};
use crate::memory::uncounted::Uncounted;

/// Bytes of messages that a queue with consumers keeps in memory ahead of them, although the disk
/// has them too.
const WINDOW: usize = 1 << 20;
/// The same, while memory is very short.
const SMALL_WINDOW: usize = 64 << 10;
/// Messages are read in pieces of up to so many bytes.
const PIECE: usize = 2 << 20;
/// Messages are spilled in pieces of up to so many bytes.
const SPILLED_AT_ONCE: usize = 1 << 20;

/// The least share of the memory limit for declarations, or for clients, in bytes.
const LEAST_SHARE: u64 = 32 << 20;

/// Bytes of everything that is queued in memory.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicUsize,
    /// Bytes of it that only say where messages lie.
    index: AtomicUsize,
    /// Other bytes that peers make the broker hold.
    held: Ledger,
    /// The same of each user.
    users: UserAccounts,
    /// Bytes that clients take for as long as they are there: see [`ledger::Kept`]. They raise no
    /// alarm, since no consumer could end it.
    kept: AtomicUsize,
    /// Bytes of the process beyond all of these.
    uncounted: Uncounted,
    limit: AtomicUsize,
    /// The budget for messages that the disk has too; see [`budget_in_force`].
    budget: AtomicUsize,
    /// The configured budget.
    set_budget: usize,
    /// Messages have left memory since the last question.
    swept: AtomicBool,
    /// Woken when the use falls below the limit.
    housekeeper: Arc<Housekeeper>,
}

/// The budget under a limit: at most half of that, so that a backlog leaves memory long before it
/// stops publishers. At the limit 0 publishers are always stopped, and the budget counts alone.
fn budget_in_force(limit: usize, budget: usize) -> usize {
    if limit == 0 { budget } else { budget.min(limit / 2) }
}

impl Memory {
    pub(crate) fn new(limit: u64, budget: u64, housekeeper: Arc<Housekeeper>) -> Self {
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (limit, set_budget) = (size(limit), size(budget));
        let (used, index) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let budget = AtomicUsize::new(budget_in_force(limit, set_budget));
        let limit = AtomicUsize::new(limit);
        let (held, users, swept) = (Ledger::default(), UserAccounts::default(), AtomicBool::new(false));
        let (kept, uncounted) = (AtomicUsize::new(0), Uncounted::default());
        Self { used, index, held, users, kept, uncounted, limit, budget, set_budget, swept, housekeeper }
    }

    pub(crate) fn changed(&self, before: usize, after: usize) {
        if after > before {
            let used = self.used.fetch_add(after - before, Ordering::Relaxed);
            let short = self.short();
            if used <= short && used + (after - before) > short {
                self.housekeeper.wake();
            }
        } else if after < before {
            let used = self.used.fetch_sub(before - after, Ordering::Relaxed);
            let limit = self.limit();
            let held = self.held.all() + self.uncounted.held();
            if used + held > limit && used - (before - after) + held <= limit {
                self.housekeeper.wake();
            }
        }
    }

    pub(crate) fn index_changed(&self, before: usize, after: usize) {
        self.index.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Notes that a round of the sweep has ended.
    pub(crate) fn swept(&self) {
        self.swept.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_swept(&self) -> bool {
        self.swept.swap(false, Ordering::Relaxed)
    }

    /// Half of the budget is used: messages that need not stay leave memory as they come.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.used() + self.uncounted.held() > self.budget() / 2
    }

    /// Three quarters of the budget are used: messages that are there leave too.
    pub(crate) fn is_short(&self) -> bool {
        self.used() + self.uncounted.held() > self.short()
    }

    fn short(&self) -> usize {
        let budget = self.budget();
        budget - budget / 4
    }

    fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// The places of messages take more than a quarter of the budget.
    pub(crate) fn index_is_large(&self) -> bool {
        self.index.load(Ordering::Relaxed) > self.budget() / 4
    }

    /// Bytes of messages that a queue keeps in memory ahead of its consumers.
    pub(crate) fn window(&self) -> usize {
        if self.is_short() { SMALL_WINDOW.min(self.budget() / 16) } else { WINDOW.min(self.budget() / 16) }
    }

    /// Bytes of messages that are read at once.
    pub(crate) fn piece(&self) -> usize {
        if self.is_short() { SMALL_WINDOW.min(self.budget() / 16) } else { PIECE.min(self.budget() / 16) }
    }

    /// Bytes of messages that are spilled at once.
    pub(crate) fn spill_piece(&self) -> usize {
        SPILLED_AT_ONCE.min(self.budget() / 16).max(1)
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn held(&self) -> &Ledger {
        &self.held
    }

    pub(crate) fn users(&self) -> &UserAccounts {
        &self.users
    }

    /// Bytes of queued messages and of everything else that peers make the broker hold.
    pub(crate) fn total(&self) -> usize {
        self.used() + self.held.all()
    }

    /// The same, with what nothing counts once the process is beyond the limit: this is what the
    /// limit is held against.
    pub(crate) fn taken(&self) -> usize {
        self.total() + self.uncounted.held()
    }

    /// Bytes that the process takes beyond everything that is counted, so many of which elsewhere.
    pub(crate) fn uncounted(&self, elsewhere: usize) -> usize {
        self.uncounted.beyond(self.counted(elsewhere), self.limit())
    }

    fn counted(&self, elsewhere: usize) -> usize {
        self.total() + self.kept() + elsewhere
    }

    /// Notes that the process has so many bytes, and that so many of them are counted elsewhere.
    pub(crate) fn process_has(&self, resident: usize, elsewhere: usize) {
        let was_full = self.is_full();
        self.uncounted.look(resident, self.counted(elsewhere), self.limit());
        if was_full != self.is_full() || self.is_short() {
            self.housekeeper.wake();
        }
    }

    /// Counts bytes that a peer makes the broker hold.
    pub(crate) fn hold(&self, kind: Held, bytes: usize) {
        self.held.add(kind, bytes);
    }

    /// Counts them no more.
    pub(crate) fn let_go(&self, kind: Held, bytes: usize) {
        let full = self.is_full();
        self.held.remove(kind, bytes);
        if full && !self.is_full() {
            self.housekeeper.wake();
        }
    }

    /// Bytes that clients take for as long as they are there.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// A quarter of the limit, at least [`LEAST_SHARE`].
    pub(crate) fn share(&self) -> u64 {
        (self.limit() as u64 / 4).max(LEAST_SHARE)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.limit.store(limit, Ordering::Relaxed);
        self.budget.store(budget_in_force(limit, self.set_budget), Ordering::Relaxed);
        self.housekeeper.wake();
    }

    /// True when more is taken than the limit allows; always at the limit 0.
    pub(crate) fn is_full(&self) -> bool {
        let limit = self.limit();
        limit == 0 || self.taken() > limit
    }
}

/// Wakes the housekeeping.
#[derive(Debug, Default)]
pub(crate) struct Housekeeper(Mutex<Option<Waker>>);

impl Housekeeper {
    pub(crate) fn set(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.0.lock() {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn waker(&self) -> Option<Waker> {
        self.0.lock().clone()
    }
}
