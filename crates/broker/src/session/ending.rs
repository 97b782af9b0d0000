//! The end of sessions: consumers leave, their unsettled deliveries return to their places, and
//! exclusive queues go.
//!
//! An end is done in bounded pieces, and no lock is held from one to the next. A small end is done
//! at once. A large one is left to the housekeeping, which wakes the clients that wait for it, so
//! the connection's thread is free for others. The order is the same: all consumers leave, then all
//! deliveries return, then others succeed the consumers that have left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use hashbrown::HashMap;
use journal::{Owner, Ticket};
use parking_lot::Mutex;

use crate::catalog::Vhost;
use crate::engine::Engine;
use crate::queue::arrival::Work;
use crate::queue::mailbox::{Mailbox, Outgoing};
use crate::queue::{ConsumerKey, EntryOutcome, Queue, Settlement, Visit};
use crate::session::{Client, Session};

/// Stands for ends of sessions that the housekeeping works on. The journal never returns it.
pub(super) const ENDING: Ticket = Ticket(u64::MAX - 2);

/// An end of at most this weight is done at once.
const AT_ONCE: usize = 4096;
/// The weight of a piece of an end, about.
const PIECE: usize = 2048;
/// The weight of a queue's end, in settlements. The exchanges of its vhost that are asked for
/// bindings count besides.
const QUEUE_WEIGHT: usize = 16;
/// So many exchanges are asked at the cost of one settlement.
const ASKED_AS_ONE: usize = 8;

/// The result of an end, for the clients that wait for it.
#[derive(Debug, Default)]
pub(super) struct Ended(Mutex<Option<Ticket>>);

impl Ended {
    /// The ticket that it left, once it is over.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        *self.0.lock()
    }
}

/// The remaining work of one or more ended sessions of a client.
#[derive(Debug)]
pub(crate) struct Ending {
    client: u64,
    vhost: Arc<Vhost>,
    /// Consumers that have not left their queues.
    leaving: Vec<Leaving>,
    /// Consumers that have left, by queue: others succeed them in the end.
    left: HashMap<Owner, (Arc<Queue>, Vec<ConsumerKey>)>,
    /// The queues of consumers whose deliveries return, and deliveries that were never sent.
    lenders: HashMap<u32, Arc<Queue>>,
    outgoing: Vec<Outgoing>,
    /// The mailbox of a client that ends: its deliveries were never sent either.
    mailbox: Option<Arc<Mailbox>>,
    /// Deliveries that return, by queue.
    back: HashMap<Owner, (Arc<Queue>, VecDeque<Settlement>)>,
    exclusive: Vec<Arc<Queue>>,
    ticket: Ticket,
    ended: Arc<Ended>,
    waker: Waker,
}

/// A consumer whose session has ended.
#[derive(Debug)]
struct Leaving {
    queue: Arc<Queue>,
    consumer: u32,
    no_ack: bool,
}

impl Ending {
    /// Its weight, about, in settlements.
    fn weight(&self) -> usize {
        let back: usize = self.back.values().map(|(_, settlements)| settlements.len()).sum();
        self.leaving.len() + self.outgoing.len() + back + self.exclusive.len() * QUEUE_WEIGHT
    }

    fn comes_back(&mut self, queue: &Arc<Queue>, settlement: Settlement) {
        let fresh = || (Arc::clone(queue), VecDeque::new());
        self.back.entry(queue.id).or_insert_with(fresh).1.push_back(settlement);
    }

    /// Detaches some consumers from their queues.
    fn leave(&mut self, visit: &mut Visit<'_>) {
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
            self.comes_back(&queue, Settlement { seq: outgoing.seq, consumer: outgoing.consumer, outcome });
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
        if let Some(id) = self.back.keys().next().copied()
            && let Some((queue, settlements)) = self.back.get_mut(&id)
        {
            let piece: Vec<Settlement> = settlements.drain(..settlements.len().min(PIECE)).collect();
            self.ticket = self.ticket.max(queue.settle(&piece, self.client, &mut visit));
            if settlements.is_empty() {
                self.back.remove(&id);
            }
            return true;
        }
        if !self.left.is_empty() {
            let some: Vec<Owner> = self.left.keys().take(PIECE / QUEUE_WEIGHT).copied().collect();
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
        let each = QUEUE_WEIGHT + tables.exchanges().count() / ASKED_AS_ONE;
        let from = self.exclusive.len().saturating_sub((PIECE / each).max(1));
        for queue in self.exclusive.drain(from..) {
            // The check is empty, so it can't refuse.
            let _ = engine.end_queue(&mut tables, &queue, &|_| Ok(()));
        }
    }

    /// Does one piece and the work that it leaves. True when more is left.
    fn advance(&mut self, engine: &Engine) -> bool {
        let mut work = Vec::new();
        let more = self.step(engine, &mut work);
        let rejected = work.iter().any(|item| matches!(item, Work::DeadLetter { .. }));
        self.ticket = self.ticket.max(engine.run_work(&mut work));
        if rejected {
            // A rejection is settled only once its dead letter is logged.
            self.ticket = engine.journal.appender().ticket();
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

impl Client {
    /// Ends a session that no call can reach any more. Returns the ticket for the reply.
    pub(super) fn end_session(&mut self, session: Session) -> Ticket {
        let consumers = session.consumers.clone();
        let mut ending = self.ending([session], Vec::new());
        // Before anything else is taken from the mailbox: deliveries for these consumers would not
        // return to their queues. A session has a limited number of them.
        let mut work = Vec::new();
        let engine = Arc::clone(&self.engine);
        while !ending.leaving.is_empty() {
            ending.leave(&mut Visit { context: &engine, now: engine.clock.unix_ms(), work: &mut work });
        }
        ending.ticket = ending.ticket.max(engine.run_work(&mut work));
        if !consumers.is_empty() {
            self.shared.mailbox.take_more(&mut self.inbox, &mut self.notices);
            ending.outgoing = self.inbox.extract_if(.., |outgoing| consumers.contains(&outgoing.consumer)).collect();
            self.shared.mailbox.handed_on(ending.outgoing.iter().map(|outgoing| outgoing.message.cost()).sum());
            let replies = ending.outgoing.iter().filter(|outgoing| outgoing.is_reply());
            self.shared.mailbox.replies_taken(replies.map(|outgoing| outgoing.message.cost()).sum());
        }
        for consumer in consumers {
            self.forget_consumer(consumer);
        }
        self.run_end(ending)
    }

    /// Ends all of them, with the client's exclusive queues.
    pub(super) fn end_all(&mut self, sessions: Vec<Session>) -> Ticket {
        let exclusive = std::mem::take(&mut self.exclusive);
        let mut ending = self.ending(sessions, exclusive);
        ending.outgoing = std::mem::take(&mut self.inbox);
        ending.mailbox = Some(Arc::clone(&self.shared.mailbox));
        self.consumers.clear();
        self.shared.consumers.store(0, Ordering::Relaxed);
        self.run_end(ending)
    }

    fn ending(&mut self, sessions: impl IntoIterator<Item = Session>, exclusive: Vec<Arc<Queue>>) -> Ending {
        let mut ending = Ending {
            client: self.shared.number,
            vhost: Arc::clone(&self.vhost),
            leaving: Vec::new(),
            left: HashMap::new(),
            lenders: HashMap::new(),
            outgoing: Vec::new(),
            mailbox: None,
            back: HashMap::new(),
            exclusive,
            ticket: self.settled_ticket,
            ended: Arc::default(),
            waker: self.shared.mailbox.waker().clone(),
        };
        for mut session in sessions {
            let leaving = session.consumers.iter().filter_map(|consumer| {
                let no_ack = self.consumers.get(consumer)?.no_ack;
                Some(Leaving { queue: self.consumed_by(*consumer)?, consumer: *consumer, no_ack })
            });
            ending.leaving.extend(leaving);
            // A delivery that was taken from a consumer for its timeout did not fail.
            let outcome = if session.overdue { EntryOutcome::Released } else { EntryOutcome::Failed };
            let mut deliveries = session.unsettled.take_all();
            deliveries.extend(std::mem::take(&mut session.abandoned));
            for unacked in deliveries {
                let Some(slot) = self.slot_mut(unacked.slot) else { continue };
                slot.uses -= 1;
                let settlement = Settlement { seq: unacked.seq, consumer: unacked.consumer, outcome };
                ending.comes_back(&slot.queue, settlement);
            }
        }
        ending
    }

    fn run_end(&mut self, mut ending: Ending) -> Ticket {
        if ending.weight() <= AT_ONCE {
            while ending.advance(&self.engine) {}
            self.settled_ticket = self.settled_ticket.max(ending.ticket);
            return self.settled_ticket;
        }
        // A client that waits for this may also wait for its earlier requests, with no other
        // ticket.
        ending.ticket = ending.ticket.max(self.engine.journal.appender().ticket());
        // An end without a waiting client is forgotten once it is over.
        let _ = self.ended_ticket();
        self.endings.push(Arc::clone(&ending.ended));
        self.engine.waiting.lock().ending.push(ending);
        self.engine.housekeeper.wake();
        ENDING
    }

    /// The ticket that the ends of sessions left, once all of them are over.
    pub(super) fn ended_ticket(&mut self) -> Option<Ticket> {
        let all: Option<Vec<Ticket>> = self.endings.iter().map(|ended| ended.ticket()).collect();
        self.settled_ticket = all?.into_iter().fold(self.settled_ticket, Ticket::max);
        self.endings.clear();
        Some(self.settled_ticket)
    }
}
