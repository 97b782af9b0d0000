//! Credit: what lets deliveries go to a consumer.
//!
//! A window is given back by settlements. Granted credit counts down with each delivery, settled or
//! not. A grant is counted from the first delivery of its consumer on. So one that crosses
//! deliveries on their way lets none go twice.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::queue::mailbox::FORGOTTEN_MAX;

/// What lets deliveries go to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credit {
    /// A window of unsettled deliveries, which settlements give back.
    Window {
        /// How many there may be; `None` for as many as the broker allows.
        most: Option<NonZeroU32>,
    },
    /// A number of deliveries; 0 for none. Only another grant raises it. The broker's own limit of
    /// unsettled deliveries stays.
    Granted {
        /// How many may come behind those that were reported.
        left: u32,
        /// What has to happen with them when the queue has nothing more for the consumer.
        rest: Rest,
    },
}

/// What becomes of granted credit when a queue has nothing more for its consumer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rest {
    /// It waits for messages.
    #[default]
    Kept,
    /// It is taken back, and [`Event::Drained`](crate::Event::Drained) says so. Messages that are
    /// being read from the disk are waited for.
    Drained,
}

/// Granted credit, as a queue counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The consumer may get this many deliveries, counted from its first one.
    pub(crate) up_to: u64,
    pub(crate) rest: Rest,
}

impl Credit {
    /// A window that only the broker bounds.
    pub const OPEN: Self = Self::Window { most: None };

    /// The same for a consumer that has been told of so many deliveries. The broker lets it hold
    /// `limit` unsettled ones, 0 for any number.
    pub(crate) fn bounds(self, reported: u64, limit: u32) -> Bounds {
        let (asked, grant) = match self {
            Self::Window { most } => (most.map_or(0, NonZeroU32::get), None),
            Self::Granted { left, rest } => (0, Some(Grant { up_to: reported + u64::from(left), rest })),
        };
        let most = if asked == 0 { limit } else { asked.min(limit) };
        Bounds { window: Window { asked, most }, grant }
    }
}

impl Default for Credit {
    fn default() -> Self {
        Self::OPEN
    }
}

/// Credit, as a queue keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) window: Window,
    /// The deliveries that were granted, if these are counted at all.
    pub(crate) grant: Option<Grant>,
}

/// A limit on unsettled deliveries that several consumers of a session share, and how many there
/// are.
#[derive(Debug, Default)]
pub(crate) struct SharedCredit {
    /// 0 for none.
    limit: AtomicU32,
    out: AtomicU32,
    /// Fetched messages that are not settled; no limit is on them.
    fetched: AtomicU32,
    /// Consumers without credit under this limit, in the order of their turns.
    starved: Mutex<VecDeque<u32>>,
}

impl SharedCredit {
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    /// A consumer waits for credit.
    pub(super) fn add_starved(&self, consumer: u32) {
        self.starved.lock().push_back(consumer);
    }

    /// The consumer that comes first when there is credit.
    pub(crate) fn next_starved(&self) -> Option<u32> {
        self.starved.lock().pop_front()
    }

    /// A consumer has gone. Where most that are noted are not in `there`, those are forgotten.
    pub(crate) fn forget_starved(&self, there: &BTreeSet<u32>) {
        let mut starved = self.starved.lock();
        if starved.len() > 2 * there.len() + FORGOTTEN_MAX {
            starved.retain(|consumer| there.contains(consumer));
        }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Deliveries and fetched messages that are not settled.
    pub(crate) fn unsettled(&self) -> u32 {
        self.out.load(Ordering::Relaxed).saturating_add(self.fetched.load(Ordering::Relaxed))
    }

    /// Counts a message that was fetched and will be settled.
    pub(crate) fn add_fetched(&self) {
        self.fetched.fetch_add(1, Ordering::Relaxed);
    }

    /// So many have been settled.
    pub(crate) fn remove_fetched(&self, count: u32) {
        self.fetched.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != 0
    }

    /// Whether one more may go out.
    pub(crate) fn has_room(&self) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        limit == 0 || self.out.load(Ordering::SeqCst) < limit
    }

    /// Counts one delivery that needs settling, if there is room. Fetched messages do not count.
    pub(super) fn try_take(&self) -> bool {
        let limit = self.limit.load(Ordering::SeqCst);
        if limit == 0 {
            self.out.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |out| (out < limit).then_some(out + 1)).is_ok()
    }

    pub(crate) fn give_back(&self, count: u32) {
        self.out.fetch_sub(count, Ordering::SeqCst);
    }
}

/// How many unsettled deliveries a consumer may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// The wish of its client; 0 for no limit.
    pub(crate) asked: u32,
    /// The same within the broker's own limit; 0 for no limit.
    pub(crate) most: u32,
}
