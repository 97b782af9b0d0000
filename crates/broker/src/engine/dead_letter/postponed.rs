//! Dead letters that wait: for room in the log, for memory, or for the next run.
//!
//! Invariant: the dead letters of a queue keep their order. Queues take turns, so that none waits
//! for all dead letters of another.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use journal::Owner;

use crate::message::Message;
use crate::queue::{Dying, Queue};

/// The assumed length of a message that only the disk has, in bytes.
pub(crate) const LIKELY_BYTES: usize = 4 << 10;

/// While memory is full, one run in so many milliseconds moves messages to several queues.
const FULL_PERIOD: u64 = 1000;

/// See the module.
#[derive(Default)]
pub(crate) struct Postponed {
    /// By queue. A queue that has its turn has an entry even if it is empty, so that later dead
    /// letters wait behind the turn.
    waiting: HashMap<Owner, VecDeque<Dying>>,
    /// The queues that wait for their turn, the next one first.
    turns: VecDeque<Arc<Queue>>,
    /// The time of the last run while memory was full, in milliseconds since 1970.
    full_at: u64,
}

impl Postponed {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many queues wait for their turn.
    pub(crate) fn queues(&self) -> usize {
        self.turns.len()
    }

    /// True when dead letters of this queue wait, so that later ones have to wait behind them.
    pub(crate) fn has(&self, queue: &Queue) -> bool {
        !self.waiting.is_empty() && self.waiting.contains_key(&queue.id)
    }

    fn of(&mut self, queue: &Arc<Queue>) -> &mut VecDeque<Dying> {
        let Self { waiting, turns, .. } = self;
        waiting.entry(queue.id).or_insert_with(|| {
            turns.push_back(Arc::clone(queue));
            VecDeque::new()
        })
    }

    /// Puts these behind all others of their queue.
    pub(crate) fn push(&mut self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        if !dying.is_empty() {
            self.of(queue).extend(dying);
        }
    }

    /// Puts these in front of all others of their queue.
    pub(crate) fn push_front(&mut self, queue: &Arc<Queue>, dying: Vec<Dying>) {
        if !dying.is_empty() {
            let waiting = self.of(queue);
            waiting.reserve(dying.len());
            dying.into_iter().rev().for_each(|dead| waiting.push_front(dead));
        }
    }

    /// Ends the turn of a queue. Those that are `left` go on waiting, in front of all others.
    pub(crate) fn end_turn(&mut self, queue: &Arc<Queue>, left: Vec<Dying>) {
        self.push_front(queue, left);
        if self.waiting.get(&queue.id).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&queue.id);
        } else {
            self.turns.push_back(Arc::clone(queue));
        }
    }

    /// Whether a run may go on as if memory were not full. Otherwise postponed messages would wait
    /// for ever where they are all that fills it.
    pub(crate) fn has_run_while_full(&mut self, now: u64) -> bool {
        let is_due = now.abs_diff(self.full_at) >= FULL_PERIOD;
        if is_due {
            self.full_at = now;
        }
        is_due
    }

    /// Takes the oldest of the queue whose turn it is: at most `count`, and up to so many bytes but
    /// at least one. [`Postponed::end_turn`] follows.
    pub(crate) fn next(&mut self, count: usize, bytes: usize) -> Option<(Arc<Queue>, Vec<Dying>)> {
        let queue = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&queue.id)?;
        let mut sum = 0;
        let fits = waiting.iter().take(count).take_while(|dead| {
            sum += dead.message.as_ref().map_or(LIKELY_BYTES, Message::cost);
            sum <= bytes
        });
        let count = fits.count().max(1).min(waiting.len());
        let chunk = waiting.drain(..count).collect();
        Some((queue, chunk))
    }
}
