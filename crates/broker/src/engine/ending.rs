//! The ends of sessions, in bounded pieces: no lock is held from one to the next.
//!
//! The order is always the same. All consumers leave, then everything comes back, then others may
//! take the places of those that left, then exclusive queues go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use hashbrown::HashMap;
use journal::{Owner, Ticket};
use parking_lot::Mutex;

use crate::catalog::Vhost;
use crate::engine::Engine;
use crate::engine::bounds::CHANGE_ENTRIES;
use crate::queue::arrival::Work;
use crate::queue::mailbox::{Mailbox, Outgoing};
use crate::queue::{ConsumerKey, EntryOutcome, Queue, Settlement, Visit};

/// The weight of a piece of an end, about.
const PIECE: usize = 2048;

/// The result of an end, for the clients that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Ended(Mutex<Option<Ticket>>);

impl Ended {
    /// The ticket that it left, once it is over.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        *self.0.lock()
    }
}

/// The remaining work of one or more ended sessions of a client.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) client: u64,
    pub(crate) vhost: Arc<Vhost>,
    /// Consumers that have not left their queues.
    pub(crate) leaving: Vec<Leaving>,
    /// Consumers that have left, by queue: others succeed them in the end.
    pub(crate) left: BTreeMap<Owner, (Arc<Queue>, Vec<ConsumerKey>)>,
    /// The queues of consumers whose deliveries return, and deliveries that were never sent.
    pub(crate) lenders: HashMap<u32, Arc<Queue>>,
    pub(crate) outgoing: Vec<Outgoing>,
    /// The mailbox of a client that ends: its deliveries were never sent either.
    pub(crate) mailbox: Option<Arc<Mailbox>>,
    /// Deliveries that return, by queue, in the order in which the queues were declared.
    pub(crate) back: BTreeMap<Owner, (Arc<Queue>, VecDeque<Settlement>)>,
    pub(crate) exclusive: Vec<Arc<Queue>>,
    pub(crate) ticket: Ticket,
    pub(crate) ended: Arc<Ended>,
    pub(crate) waker: Waker,
}

/// A consumer whose session has ended.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) queue: Arc<Queue>,
    pub(crate) consumer: u32,
    pub(crate) no_ack: bool,
}

impl Ending {
    /// Its weight, about, in settlements.
    pub(crate) fn weight(&self) -> usize {
        let back: usize = self.back.values().map(|(_, settlements)| settlements.len()).sum();
        self.leaving.len() + self.outgoing.len() + back + self.exclusive.len() * CHANGE_ENTRIES
    }

    pub(crate) fn comes_back(&mut self, queue: &Arc<Queue>, settlement: Settlement) {
        let fresh = || (Arc::clone(queue), VecDeque::new());
        self.back.entry(queue.id).or_insert_with(fresh).1.push_back(settlement);
    }

    /// Detaches some consumers from their queues.
    pub(crate) fn leave(&mut self, visit: &mut Visit<'_>) {
        let from = self.leaving.len().saturating_sub(PIECE);
        for Leaving { queue, consumer, no_ack } in self.leaving.split_off(from) {
            let key = ConsumerKey { client: self.client, consumer };
            if queue.leave(key, visit) {
                self.left.entry(queue.id).or_insert_with(|| (Arc::clone(&queue), Vec::new())).1.push(key);
            }
            if !no_ack {
                self.lenders.insert(consumer, queue);
            }
        }
    }

    /// Collects the deliveries that were never sent. True if there were any.
    fn take_unsent(&mut self) -> bool {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.take_more(&mut self.outgoing, &mut Vec::new());
        }
        let outgoing = std::mem::take(&mut self.outgoing);
        for outgoing in &outgoing {
            let Some(queue) = self.lenders.get(&outgoing.consumer).cloned() else { continue };
            let outcome = EntryOutcome::Unsent;
            self.comes_back(&queue, Settlement { seq: outgoing.seq, consumer: outgoing.consumer, outcome, said: None });
        }
        !outgoing.is_empty()
    }

    /// Does one piece. False when none is left.
    fn step(&mut self, engine: &Engine, work: &mut Vec<Work>) -> bool {
        let now = engine.clock.unix_ms();
        let mut visit = Visit { context: engine, now, work };
        if !self.leaving.is_empty() {
            self.leave(&mut visit);
            return true;
        }
        if self.take_unsent() {
            return true;
        }
        if let Some(mut first) = self.back.first_entry() {
            let (queue, settlements) = first.get_mut();
            let piece: Vec<Settlement> = settlements.drain(..settlements.len().min(PIECE)).collect();
            self.ticket = self.ticket.max(queue.settle(&piece, self.client, &mut visit));
            if settlements.is_empty() {
                first.remove();
            }
            return true;
        }
        if !self.left.is_empty() {
            let some: Vec<Owner> = self.left.keys().take(PIECE / CHANGE_ENTRIES).copied().collect();
            for (queue, keys) in some.iter().filter_map(|id| self.left.remove(id)) {
                queue.left(&keys, &mut visit);
            }
            return true;
        }
        self.end_queues(engine);
        !self.exclusive.is_empty()
    }

    fn end_queues(&mut self, engine: &Engine) {
        if self.exclusive.is_empty() {
            return;
        }
        let mut tables = self.vhost.tables.write();
        let from = self.exclusive.len().saturating_sub(PIECE / CHANGE_ENTRIES);
        for queue in self.exclusive.drain(from..) {
            // The check is empty, so it can't refuse.
            let _ = engine.end_queue(&mut tables, &queue, &|_| Ok(()));
        }
    }

    /// Does one piece and the work that it leaves. True when more is left.
    pub(crate) fn advance(&mut self, engine: &Engine) -> bool {
        let mut work = Vec::new();
        let more = self.step(engine, &mut work);
        let rejected = work.iter().any(|item| matches!(item, Work::DeadLetter { .. }));
        let ticket = &mut self.ticket;
        engine.run_work_with(&mut work, &mut |gone| *ticket = ticket.max(gone));
        if rejected {
            // A rejection is settled only once its dead letter is logged.
            self.ticket = engine.journal.appender(self.vhost.log()).ticket();
        }
        more
    }

    fn finish(self) {
        *self.ended.0.lock() = Some(self.ticket);
        self.waker.wake();
    }
}

impl Engine {
    /// Goes on with large ends, a piece of each. True when more is left of any.
    pub(crate) fn go_on_ending(&self) -> bool {
        let ends = std::mem::take(&mut self.waiting.lock().ending);
        let mut more = Vec::new();
        for mut ending in ends {
            if ending.advance(self) { more.push(ending) } else { ending.finish() }
        }
        let mut waiting = self.waiting.lock();
        // Ends that came meanwhile are behind these.
        more.append(&mut waiting.ending);
        waiting.ending = more;
        !waiting.ending.is_empty()
    }
}
