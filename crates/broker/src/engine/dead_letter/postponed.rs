//! Dead letters that wait: for room in the log, for memory, or for the next run.
//!
//! Invariant: the dead letters of a queue keep their order, except that copies go before messages
//! that have fewer copies ([`Annotations::halvings`]): a copy can make fewer new ones. So what
//! multiplies is gone before more of it begins. Queues take turns, so that none waits for all dead
//! letters of another.
//!
//! [`Annotations::halvings`]: crate::message::annotations::Annotations::halvings

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use journal::{LogId, Owner, Ticket};
use parking_lot::{Mutex, MutexGuard};

use crate::engine::bounds::TURN_ENTRIES;
use crate::message::Message;
use crate::queue::{Dying, Queue};

/// The assumed length of a message that only the disk has, in bytes.
pub(crate) const LIKELY_BYTES: usize = 4 << 10;

/// While memory is full and grows by it, one run in so many milliseconds moves messages to several
/// queues.
const FULL_PERIOD: u64 = 1000;

/// See the module.
pub(crate) struct Postponed {
    lanes: Mutex<PostponedLanes>,
    /// See [`PostponedLanes::many`].
    many: Arc<AtomicBool>,
}

impl Default for Postponed {
    fn default() -> Self {
        let many = Arc::new(AtomicBool::new(false));
        Self { lanes: Mutex::new(PostponedLanes::new(Arc::clone(&many))), many }
    }
}

impl Postponed {
    pub(crate) fn lock(&self) -> MutexGuard<'_, PostponedLanes> {
        self.lanes.lock()
    }

    /// True while more wait than a run moves.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.many.load(Ordering::Relaxed)
    }
}

/// Whose turn is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Messages that went to one queue at a time.
    Unsplit,
    /// Those that can have the fewest copies.
    FewestCopies,
}

/// The turn of one lane: messages of one queue that were halved as often.
pub(crate) struct Turn {
    pub(crate) queue: Arc<Queue>,
    halvings: u32,
}

/// Those that wait, in lanes.
pub(crate) struct PostponedLanes {
    /// By queue and halvings. A lane that has its turn is there even if it is empty, so that later
    /// dead letters wait behind the turn.
    waiting: HashMap<Owner, BTreeMap<u32, VecDeque<Dying>>>,
    /// The queues that wait for their turn, by halvings, the next one first.
    turns: BTreeMap<u32, VecDeque<Arc<Queue>>>,
    count: usize,
    /// True while more wait than a run moves.
    many: Arc<AtomicBool>,
    full: WhileFull,
    /// Once these are durable, the last run's copies are in their queues.
    moved: HashMap<LogId, Ticket>,
}

/// What is known while memory is full.
struct WhileFull {
    /// The last time that a message went to several queues, in milliseconds since 1970.
    grown_at: u64,
    /// The least memory that was used meanwhile.
    least: usize,
}

fn halvings(dead: &Dying) -> u32 {
    let annotations = dead.message.as_ref().and_then(Message::annotations);
    annotations.map_or(0, |annotations| annotations.halvings())
}

impl PostponedLanes {
    fn new(many: Arc<AtomicBool>) -> Self {
        let full = WhileFull { grown_at: 0, least: usize::MAX };
        Self { waiting: HashMap::new(), turns: BTreeMap::new(), count: 0, many, full, moved: HashMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True when dead letters of this queue wait, so that later ones have to wait behind them.
    pub(crate) fn has(&self, queue: &Queue) -> bool {
        !self.waiting.is_empty() && self.waiting.contains_key(&queue.id)
    }

    fn lane(&mut self, queue: &Arc<Queue>, halvings: u32) -> &mut VecDeque<Dying> {
        let Self { waiting, turns, .. } = self;
        waiting.entry(queue.id).or_default().entry(halvings).or_insert_with(|| {
            turns.entry(halvings).or_default().push_back(Arc::clone(queue));
            VecDeque::new()
        })
    }

    fn count(&mut self, count: usize) {
        self.count = count;
        self.many.store(count > TURN_ENTRIES, Ordering::Relaxed);
    }

    /// Puts these behind all others of their queue.
    pub(crate) fn push(&mut self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        self.count(self.count + dying.len());
        for dead in dying {
            self.lane(queue, halvings(&dead)).push_back(dead);
        }
    }

    /// Puts these in front of all others of their queue.
    pub(crate) fn push_front(&mut self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        self.count(self.count + dying.len());
        for dead in dying.into_iter().rev() {
            self.lane(queue, halvings(&dead)).push_front(dead);
        }
    }

    /// Takes the oldest of the lane whose turn it is: at most `count`, and up to so many bytes but
    /// at least one. [`PostponedLanes::end_turn`] follows, and [`PostponedLanes::keep`] before it
    /// for those that must wait on.
    pub(crate) fn next(&mut self, pick: Pick, count: usize, bytes: usize) -> Option<(Turn, Vec<Dying>)> {
        let halvings = match pick {
            Pick::Unsplit => 0,
            Pick::FewestCopies => *self.turns.last_key_value()?.0,
        };
        let queues = self.turns.get_mut(&halvings)?;
        let queue = queues.pop_front()?;
        if queues.is_empty() {
            self.turns.remove(&halvings);
        }
        let lane = self.waiting.get_mut(&queue.id)?.get_mut(&halvings)?;
        let mut sum = 0;
        let fits = lane.iter().take(count).take_while(|dead| {
            sum += dead.message.as_ref().map_or(LIKELY_BYTES, Message::cost);
            sum <= bytes
        });
        let count = fits.count().max(1).min(lane.len());
        let chunk: Vec<Dying> = lane.drain(..count).collect();
        self.count(self.count - chunk.len());
        Some((Turn { queue, halvings }, chunk))
    }

    /// These go on waiting, in front of all others of their lane.
    pub(crate) fn keep(&mut self, turn: &Turn, left: Vec<Dying>) {
        self.count(self.count + left.len());
        let lane = self.lane(&turn.queue, turn.halvings);
        left.into_iter().rev().for_each(|dead| lane.push_front(dead));
    }

    /// Ends the turn of a lane. It has another one behind all others if some go on waiting.
    pub(crate) fn end_turn(&mut self, turn: Turn) {
        let Turn { queue, halvings } = turn;
        let Some(lanes) = self.waiting.get_mut(&queue.id) else { return };
        if lanes.get(&halvings).is_some_and(|lane| !lane.is_empty()) {
            self.turns.entry(halvings).or_default().push_back(queue);
            return;
        }
        lanes.remove(&halvings);
        if lanes.is_empty() {
            self.waiting.remove(&queue.id);
        }
    }

    /// The last run's copies are in their queues once these are durable.
    pub(crate) fn moved(&mut self, tickets: &[Ticket]) {
        self.moved.extend(tickets.iter().filter_map(|ticket| Some((ticket.log()?, *ticket))));
    }

    /// Whether the last run's copies are in their queues. Otherwise they could not go first.
    pub(crate) fn are_copies_there(&mut self, is_durable: impl Fn(Ticket) -> bool) -> bool {
        self.moved.retain(|_, ticket| !is_durable(*ticket));
        self.moved.is_empty()
    }

    /// Memory is not full.
    pub(crate) fn has_room(&mut self) {
        self.full.least = usize::MAX;
    }

    /// Whether a message may go to several queues while memory is full: `used` bytes are. It is as
    /// long as memory grows by no more than `most` bytes, since copies that die free more than they
    /// take.
    pub(crate) fn may_grow(&mut self, used: usize, most: usize, now: u64) -> bool {
        self.full.least = self.full.least.min(used);
        let may = used - self.full.least <= most;
        if may {
            self.full.grown_at = now;
        }
        may
    }

    /// Whether a run may go on as if memory were not full. Otherwise postponed messages would wait
    /// for ever where they are all that fills it.
    pub(crate) fn has_run_while_full(&mut self, now: u64) -> bool {
        let is_due = now.abs_diff(self.full.grown_at) >= FULL_PERIOD;
        if is_due {
            self.full.grown_at = now;
        }
        is_due
    }
}
