//! The state that every part of the broker shares: the journal, the catalog, the clock, the alarms,
//! the totals.
//!
//! Lock order: groups → catalog write → queue → journal buffer → mailbox. The small locks here
//! (timers, waiting lists) are leaves: nothing else is locked while one is held. One exception: the
//! pager's errands are locked behind the postponed dead letters.

pub(crate) mod checkpoint;
pub(crate) mod dead_letter;
pub(crate) mod delay;
pub(crate) mod housekeeping;
pub(crate) mod pager;
pub(crate) mod pages;
pub(crate) mod recovery;
pub(crate) mod replies;
pub(crate) mod verify;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use auth::Authority;
use hashbrown::HashMap;
use journal::{Journal, Owner, Ticket};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::alarms::Alarms;
use crate::catalog::Catalog;
use crate::catalog::definitions::Definitions;
use crate::clock::Clock;
use crate::engine::dead_letter::postponed::Postponed;
use crate::engine::pager::spill::Spilling;
use crate::engine::pager::{Pager, Sweep};
use crate::engine::replies::Replies;
use crate::memory::ingress::Ingress;
use crate::memory::{Housekeeper, Memory};
use crate::message::dialect::Dialects;
use crate::names::NameGenerator;
use crate::queue::Queue;
use crate::queue::dropped::Losses;
use crate::session::ClientShared;
use crate::session::ending::Ending;
use crate::session::transaction::Sealed;
use crate::settings::Settings;
use crate::stats::Totals;

/// Queues and clients that wait for a time or a flush, for the housekeeping.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Due times in milliseconds since 1970, earliest first.
    pub(crate) timers: BinaryHeap<Reverse<(u64, TimerQueue)>>,
    pub(crate) marks: Vec<(Ticket, Arc<Queue>)>,
    pub(crate) sealed: Vec<Sealed>,
    /// Ends of sessions with many deliveries.
    pub(crate) ending: Vec<Ending>,
}

/// A queue in the timer heap; only the times are compared.
pub(crate) struct TimerQueue(pub(crate) Weak<Queue>);

impl PartialEq for TimerQueue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TimerQueue {}

impl PartialOrd for TimerQueue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerQueue {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// See the module.
pub(crate) struct Engine {
    pub(crate) journal: Journal,
    pub(crate) catalog: Catalog,
    pub(crate) authority: Authority,
    pub(crate) dialects: Dialects,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// As [`crate::Limits::sessions_per_connection`] says, or a later change.
    pub(crate) sessions_per_connection: AtomicU32,
    pub(crate) totals: Totals,
    pub(crate) losses: Losses,
    pub(crate) memory: Arc<Memory>,
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) alarms: Alarms,
    pub(crate) housekeeper: Arc<Housekeeper>,
    pub(crate) waiting: Mutex<Waiting>,
    pub(crate) postponed: Mutex<Postponed>,
    pub(crate) pager: Pager,
    pub(crate) sweep: Mutex<Sweep>,
    pub(crate) spilling: Spilling,
    /// Held while a group is written, from its first settlement to its end, and exclusively while a
    /// queue is restated. A settlement that is restated must not be undone by a group that never
    /// ends. Locked before any queue.
    pub(crate) groups: RwLock<()>,
    pub(crate) clients: Mutex<HashMap<u64, Arc<ClientShared>>>,
    pub(crate) replies: Replies,
    /// Queues with unreadable entries since the start, and a description of the damage.
    pub(crate) lost: Mutex<HashMap<Owner, String>>,
    /// Lines for the log about damage that was found at the start.
    pub(crate) news: Mutex<Vec<String>>,
    /// Owners of the users' records in the journal.
    pub(crate) users: Mutex<HashMap<String, u64>>,
    pub(crate) definitions: Definitions,
    /// Held while vhosts, users and definitions are added, changed or deleted, from the first look
    /// to the end. So these changes come one after the other. Locked before everything else.
    pub(crate) administration: Mutex<()>,
    /// The queue of each bundle of ids. A bundle that has ended leaves at its next restatement.
    pub(crate) id_bundles: Mutex<HashMap<Owner, Owner>>,
    next_client: AtomicU64,
    next_owner: AtomicU64,
    pub(crate) names: NameGenerator,
}

/// The right to write a group, beside others or alone; see [`Engine::groups`].
pub(crate) enum Writing<'a> {
    Beside(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'a, ()>),
}

/// The parts of a new core.
pub(crate) struct EngineParts {
    pub(crate) journal: Journal,
    pub(crate) catalog: Catalog,
    pub(crate) authority: Authority,
    pub(crate) dialects: Dialects,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) lost: HashMap<Owner, String>,
    pub(crate) news: Vec<String>,
    pub(crate) users: HashMap<String, u64>,
    pub(crate) definitions: Definitions,
    pub(crate) next_owner: u64,
    pub(crate) names: NameGenerator,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Self {
        let housekeeper = Arc::new(Housekeeper::default());
        let (limit, budget) = (parts.settings.memory_limit, parts.settings.memory_budget);
        let memory = Arc::new(Memory::new(limit, budget, Arc::clone(&housekeeper)));
        Self {
            ingress: Arc::new(Ingress::new(Arc::clone(&memory))),
            memory,
            journal: parts.journal,
            catalog: parts.catalog,
            authority: parts.authority,
            dialects: parts.dialects,
            clock: parts.clock,
            sessions_per_connection: AtomicU32::new(parts.settings.limits.sessions_per_connection),
            settings: parts.settings,
            totals: Totals::default(),
            losses: Losses::default(),
            alarms: Alarms::default(),
            housekeeper,
            waiting: Mutex::default(),
            postponed: Mutex::default(),
            pager: Pager::default(),
            sweep: Mutex::default(),
            spilling: Spilling::default(),
            groups: RwLock::new(()),
            clients: Mutex::default(),
            replies: Replies::default(),
            lost: Mutex::new(parts.lost),
            news: Mutex::new(parts.news),
            users: Mutex::new(parts.users),
            definitions: parts.definitions,
            administration: Mutex::new(()),
            id_bundles: Mutex::default(),
            next_client: AtomicU64::new(1),
            next_owner: AtomicU64::new(parts.next_owner),
            names: parts.names,
        }
    }

    /// A number for a client, never used before in this run.
    pub(crate) fn client_number(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// An owner, never used before in this data directory.
    pub(crate) fn owner(&self) -> u64 {
        self.owners(1)
    }

    /// A new bundle of ids that `queue` knows.
    pub(crate) fn id_bundle(&self, queue: Owner) -> Owner {
        let bundle = self.owner();
        self.keep_id_bundle(bundle, queue);
        bundle
    }

    /// Notes that the ids of `queue` are in this bundle.
    pub(crate) fn keep_id_bundle(&self, bundle: Owner, queue: Owner) {
        self.id_bundles.lock().insert(bundle, queue);
    }

    /// The first of so many owners in a row.
    pub(crate) fn owners(&self, count: u64) -> u64 {
        self.next_owner.fetch_add(count, Ordering::Relaxed)
    }

    /// The right to write a group that brings messages to these queues. It is exclusive where a
    /// queue looks for duplicates: every known id is then in the log with its message.
    pub(crate) fn write_group(&self, targets: &[Vec<Arc<Queue>>]) -> Writing<'_> {
        if targets.iter().flatten().any(|queue| queue.deduplicates()) {
            Writing::Alone(self.groups.write())
        } else {
            Writing::Beside(self.groups.read())
        }
    }
}
