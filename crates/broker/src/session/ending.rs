//! The end of sessions: consumers leave, their unsettled deliveries return to their places, and
//! exclusive queues go.
//!
//! An end is done in bounded pieces, and no lock is held from one to the next. A small end is done
//! at once. A large one is left to the housekeeping, which wakes the clients that wait for it, so
//! the connection's thread is free for others. The order is the same: all consumers leave, then all
//! deliveries return, then others succeed the consumers that have left.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::ending::{Ending, Leaving};
use crate::queue::{EntryOutcome, Queue, Settlement, Visit};
use crate::session::sessions::Session;
use crate::session::{Awaited, Client};
use hashbrown::HashMap;

/// An end of at most this weight is done at once.
const AT_ONCE: usize = 4096;

impl Client {
    /// Ends a session that no call can reach any more. Returns what the reply waits for.
    pub(super) fn end_session(&mut self, session: Session) -> Awaited {
        let consumers = session.consumers().clone();
        let mut ending = self.ending([session], Vec::new());
        // Before anything else is taken from the mailbox: deliveries for these consumers would not
        // return to their queues. A session has a limited number of them.
        let mut work = Vec::new();
        let engine = Arc::clone(&self.engine);
        while !ending.leaving.is_empty() {
            ending.leave(&mut Visit { context: &engine, now: engine.clock.unix_ms(), work: &mut work });
        }
        let ticket = &mut ending.ticket;
        engine.run_work_with(&mut work, &mut |gone| *ticket = ticket.max(gone));
        if !consumers.is_empty() {
            self.receiver.take_more_from(&self.shared.mailbox);
            ending.outgoing = self.receiver.take_deliveries_for(&consumers);
            self.shared.mailbox.handed_on(ending.outgoing.iter().map(|outgoing| outgoing.message.cost()).sum());
            let replies = ending.outgoing.iter().filter(|outgoing| outgoing.has_no_queue());
            self.shared.mailbox.replies_taken(replies.map(|outgoing| outgoing.message.cost()).sum());
        }
        for consumer in consumers {
            self.forget_consumer(consumer);
        }
        self.run_end(ending)
    }

    /// Ends all of them, with the client's exclusive queues.
    pub(super) fn end_all(&mut self, sessions: Vec<Session>) -> Awaited {
        let exclusive = std::mem::take(&mut self.exclusive);
        let mut ending = self.ending(sessions, exclusive);
        ending.outgoing = self.receiver.take_deliveries().into();
        ending.mailbox = Some(Arc::clone(&self.shared.mailbox));
        self.receiver.direct().into_iter().for_each(|subscriber| self.end_direct(Some(subscriber)));
        self.receiver.clear_consumers();
        self.shared.figures.clear_consumers();
        self.run_end(ending)
    }

    fn ending(&mut self, sessions: impl IntoIterator<Item = Session>, exclusive: Vec<Arc<Queue>>) -> Ending {
        let mut ending = Ending {
            client: self.shared.number,
            vhost: Arc::clone(&self.vhost),
            leaving: Vec::new(),
            left: BTreeMap::new(),
            lenders: HashMap::new(),
            outgoing: Vec::new(),
            mailbox: None,
            back: BTreeMap::new(),
            exclusive,
            ticket: self.settled.ticket(),
            ended: Arc::default(),
            waker: self.shared.mailbox.waker().clone(),
        };
        for mut session in sessions {
            let leaving = session.consumers().iter().filter_map(|consumer| {
                let no_ack = self.receiver.consumer(*consumer)?.no_ack;
                Some(Leaving { queue: self.consumed_by(*consumer)?, consumer: *consumer, no_ack })
            });
            ending.leaving.extend(leaving);
            // A delivery that was taken from a consumer for its timeout did not fail.
            let outcome = if session.overdue { EntryOutcome::Released } else { EntryOutcome::Failed };
            let mut deliveries = session.unsettled.take_all();
            deliveries.extend(std::mem::take(&mut session.abandoned));
            for unacked in deliveries {
                let Some(queue) = self.slots.let_go(unacked.slot) else { continue };
                let settlement = Settlement { seq: unacked.seq, consumer: unacked.consumer, outcome, said: None };
                ending.comes_back(queue, settlement);
            }
        }
        ending
    }

    fn run_end(&mut self, mut ending: Ending) -> Awaited {
        if ending.weight() <= AT_ONCE {
            while ending.advance(&self.engine) {}
            return self.settled.reach(ending.ticket).into();
        }
        // A client that waits for this may also wait for its earlier requests, with no other
        // ticket.
        ending.ticket = ending.ticket.max(self.engine.journal.appender(self.vhost.log()).ticket());
        self.settled.add_ending(&ending.ended);
        self.engine.waiting.lock().ending.push(ending);
        self.engine.housekeeper.wake();
        Awaited::Ends
    }
}
