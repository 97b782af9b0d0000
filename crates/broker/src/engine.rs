//! The state that every part of the broker shares: the journal, the catalog, the clock, the alarms,
//! the totals.
//!
//! Lock order: retained messages → groups → catalog write → queue → journal buffer → mailbox; the
//! system's lock comes behind the catalog's and before the journal's. The small locks here (timers,
//! waiting lists) are leaves: nothing else is locked while one is held. One exception: the pager's
//! errands are locked behind the postponed dead letters.

pub(crate) mod admission;
pub(crate) mod alarms;
pub(crate) mod bounds;
pub(crate) mod checkpoint;
pub(crate) mod clients;
pub(crate) mod connections;
pub(crate) mod dead_letter;
pub(crate) mod declarations;
pub(crate) mod delay;
pub(crate) mod disk_watch;
pub(crate) mod ending;
pub(crate) mod expiring_rights;
pub(crate) mod follow;
pub(crate) mod housekeeping;
pub(crate) mod open_error;
pub(crate) mod pager;
pub(crate) mod pages;
pub(crate) mod policies;
pub(crate) mod recovery;
pub(crate) mod replies;
pub(crate) mod retained;
pub(crate) mod rights;
pub(crate) mod sealed;
pub(crate) mod system;
pub(crate) mod tracing;
pub(crate) mod users;
pub(crate) mod verify;
pub(crate) mod walk;
pub(crate) mod wills;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use auth::Authority;
use hashbrown::HashMap;
use journal::{Journal, LogId, Owner, Ticket};
use parking_lot::{Mutex, RwLockReadGuard, RwLockWriteGuard};

use crate::catalog::Catalog;
use crate::catalog::system::System;
use crate::clock::Clock;
use crate::engine::alarms::Alarms;
use crate::engine::clients::Clients;
use crate::engine::dead_letter::postponed::Postponed;
use crate::engine::ending::Ending;
use crate::engine::pager::Sweep;
use crate::engine::pager::spill::Spilling;
use crate::engine::replies::Replies;
use crate::engine::retained::Feed;
use crate::engine::sealed::Sealed;
use crate::memory::ingress::Ingress;
use crate::memory::{Housekeeper, Memory};
use crate::message::dialect::Dialects;
use crate::names::NameGenerator;
use crate::queue::arrival::Arrival;
use crate::queue::dropped::Losses;
use crate::queue::errands::Pager;
use crate::queue::{GroupLocks, Queue, QueueContext};
use crate::settings::Settings;
use crate::stats::Totals;
use crate::store::owners::OwnerNumbers;

/// Queues and clients that wait for a time or a flush, for the housekeeping.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Due times in milliseconds since 1970, earliest first.
    pub(crate) timers: BinaryHeap<Reverse<(u64, TimerQueue)>>,
    pub(crate) marks: Vec<(Ticket, Arc<Queue>)>,
    pub(crate) sealed: Vec<Sealed>,
    /// Ends of sessions with many deliveries.
    pub(crate) ending: Vec<Ending>,
    /// Retained messages on their way.
    pub(crate) feeds: Vec<Feed>,
    /// When the next one expires, in milliseconds since 1970; or before that.
    pub(crate) retained_expires: Option<u64>,
    /// When the next will is due, in milliseconds since 1970; or before that.
    pub(crate) wills_due: Option<u64>,
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
    /// What queues use of it.
    pub(crate) context: QueueContext,
    pub(crate) catalog: Catalog,
    pub(crate) authority: Arc<Authority>,
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) alarms: Alarms,
    pub(crate) housekeeper: Arc<Housekeeper>,
    pub(crate) waiting: Mutex<Waiting>,
    pub(crate) postponed: Postponed,
    pub(crate) eviction: Eviction,
    pub(crate) clients: Clients,
    pub(crate) replies: Replies,
    pub(crate) damages: Damages,
    /// Locked after a vhost's tables and before the journal's buffer.
    pub(crate) system: Mutex<System>,
    /// Held while vhosts, users and definitions are added, changed or deleted, from the first look
    /// to the end. So these changes come one after the other. Locked before everything else.
    pub(crate) administration: Mutex<()>,
    pub(crate) names: NameGenerator,
}

/// The damage that the start and the pager found.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    /// Queues with unreadable entries since the start, and a description of the damage.
    pub(crate) lost: Mutex<HashMap<Owner, String>>,
    /// Lines for the log that it does not have yet.
    pub(crate) news: Mutex<Vec<String>>,
}

/// How messages leave memory.
#[derive(Default)]
pub(crate) struct Eviction {
    pub(crate) sweep: Mutex<Sweep>,
    pub(crate) spilling: Spilling,
}

/// Messages that move from one queue to others.
pub(crate) struct Move<'a> {
    /// The log of all these queues.
    pub(crate) log: LogId,
    pub(crate) arrivals: Vec<Arrival>,
    /// The queues of each.
    pub(crate) targets: &'a [Vec<Arc<Queue>>],
    /// The log has them already; if not, it has the persistent ones from now on.
    pub(crate) are_logged: bool,
}

/// The right to write a group, beside others or alone; see [`QueueContext::groups`].
pub(crate) enum Writing<'a> {
    Beside(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'a, ()>),
}

/// The parts of a new engine.
pub(crate) struct EngineParts {
    pub(crate) journal: Journal,
    pub(crate) catalog: Catalog,
    pub(crate) authority: Arc<Authority>,
    pub(crate) dialects: Dialects,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) damages: Damages,
    pub(crate) system: System,
    pub(crate) owners: OwnerNumbers,
    pub(crate) names: NameGenerator,
}

/// What queues use is as near to the engine as its own: every visit to a queue is given it.
impl Deref for Engine {
    type Target = QueueContext;

    fn deref(&self) -> &QueueContext {
        &self.context
    }
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Self {
        let housekeeper = Arc::new(Housekeeper::default());
        let (limit, budget) = (parts.settings.memory_limit, parts.settings.memory_budget);
        let memory = Arc::new(Memory::new(limit, budget, Arc::clone(&housekeeper)));
        memory.users().set_most(parts.settings.user_memory);
        let ingress = Arc::new(Ingress::new(Arc::clone(&memory)));
        let alarms = Alarms::new(parts.settings.disk_limits);
        let clients = Clients::new(parts.settings.limits.sessions_per_connection);
        let context = QueueContext {
            journal: parts.journal,
            dialects: parts.dialects,
            clock: parts.clock,
            settings: parts.settings,
            totals: Totals::default(),
            losses: Losses::default(),
            memory,
            pager: Pager::default(),
            groups: GroupLocks::default(),
            id_bundles: Mutex::default(),
            owners: parts.owners,
        };
        Self {
            context,
            catalog: parts.catalog,
            authority: parts.authority,
            ingress,
            alarms,
            housekeeper,
            waiting: Mutex::default(),
            postponed: Postponed::default(),
            eviction: Eviction::default(),
            clients,
            replies: Replies::default(),
            damages: parts.damages,
            system: Mutex::new(parts.system),
            administration: Mutex::new(()),
            names: parts.names,
        }
    }

    /// The right to write a group of `log` that brings messages to these queues. It is exclusive
    /// where a queue looks for duplicates: every known id is then in the log with its message.
    pub(crate) fn write_group(&self, log: LogId, targets: &[Vec<Arc<Queue>>]) -> Writing<'_> {
        let groups = self.groups.of(log);
        if targets.iter().flatten().any(|queue| queue.deduplicates()) {
            Writing::Alone(groups.write())
        } else {
            Writing::Beside(groups.read())
        }
    }
}
