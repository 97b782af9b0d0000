//! What queues use of everything around them. There is one for all queues of a broker, and the
//! engine is built around it.

use std::sync::Arc;

use hashbrown::HashMap;
use journal::{Journal, LogId, Owner};
use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::memory::Memory;
use crate::message::Message;
use crate::message::dialect::Dialects;
use crate::message::scheduling::Instructions;
use crate::queue::dropped::Losses;
use crate::queue::errands::Pager;
use crate::settings::Settings;
use crate::stats::Totals;
use crate::store::owners::OwnerNumbers;

/// See the module.
pub(crate) struct QueueContext {
    pub(crate) journal: Journal,
    pub(crate) dialects: Dialects,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) totals: Totals,
    pub(crate) losses: Losses,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pager: Pager,
    /// Held by the writer of a group, from its first settlement to its end, and exclusively while
    /// a queue is restated: what is restated as settled must not be undone by a group that never
    /// ends. Locked before any queue. Each log has its own.
    pub(crate) groups: GroupLocks,
    /// The queue of each bundle of ids. One that is no more leaves when the log would say it again.
    pub(crate) id_bundles: Mutex<HashMap<Owner, Owner>>,
    pub(crate) owners: OwnerNumbers,
}

/// How many locks there are for the groups of all logs.
const GROUP_LOCKS: usize = 64;

/// The locks for groups. Some logs share one, and a thread has no more than one at a time.
pub(crate) struct GroupLocks([RwLock<()>; GROUP_LOCKS]);

impl Default for GroupLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::default()))
    }
}

impl GroupLocks {
    /// That of a log.
    pub(crate) fn of(&self, log: LogId) -> &RwLock<()> {
        &self.0[log.number() as usize % GROUP_LOCKS]
    }
}

impl QueueContext {
    /// When a stored message is due, in milliseconds since 1970.
    pub(crate) fn due_of(&self, message: &Message) -> u64 {
        let read = self.dialects.read_message(message);
        let due = read.ok().and_then(|properties| {
            let instructions = Instructions::read(&properties.headers).ok()?;
            let delay = Instructions::exchange_delay(&properties.headers).ok()?;
            instructions.due(message.published_at(), delay)
        });
        due.unwrap_or_else(|| message.published_at())
    }

    /// Lets go of bodies that were spilled. To be called under a queue's lock, too.
    pub(crate) fn free_spilled(&self, file: u32, count: u64) {
        if self.journal.free_spilled(file, count) {
            self.pager.wake();
        }
    }

    /// An owner of a log, never used before in this data directory.
    pub(crate) fn owner(&self, log: LogId) -> Owner {
        self.owners.take(log, 1)
    }

    /// A new bundle of ids that `queue` knows.
    pub(crate) fn id_bundle(&self, queue: Owner) -> Owner {
        let bundle = self.owner(LogId::of(queue));
        self.keep_id_bundle(bundle, queue);
        bundle
    }

    /// Notes whose ids a bundle holds.
    pub(crate) fn keep_id_bundle(&self, bundle: Owner, queue: Owner) {
        self.id_bundles.lock().insert(bundle, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_restatement_of_one_log_holds_up_no_group_of_another() {
        let (locks, log) = (GroupLocks::default(), |number| LogId::new(number).unwrap());
        let _whole = locks.of(log(1)).write();
        assert!(locks.of(log(1)).try_read().is_none());
        assert!(locks.of(LogId::SYSTEM).try_read().is_some());
        assert!(locks.of(log(2)).try_write().is_some());
    }
}
