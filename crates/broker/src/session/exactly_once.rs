//! Messages that a client and the broker hand over to each other exactly once, over losses of the
//! connection and ends of the broker.
//!
//! A message goes four steps: it is given, taken, released, and completed. Each side keeps the id
//! of a message from the second step to the last one. The broker's side belongs to a subscription
//! of the client.
//!
//! The ids of a turn stand in one group with its messages. So does the end of a will with its
//! publication: a crash leaves one of the two.

use std::sync::Arc;

use auth::{Resource, Right};
use hashbrown::HashMap;
use journal::{Owner, Ticket};

use crate::catalog::subscriptions::SubscriptionName;
use crate::engine::Engine;
use crate::engine::sealed::{Sealed, hide_arrivals, release_holds};
use crate::error::Error;
use crate::queue::arrival::{Arrival, Refusal};
use crate::queue::{Coming, ExactlyOnce, Handed, Queue, Visit};
use crate::session::{Client, SessionId};

/// A step of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// The client has forgotten a message that it published as
    /// [`Confirm::Once`](crate::Confirm::Once) with this id.
    Released(u64),
    /// The client has taken the delivery with this tag. It leaves its queue, and its place is kept;
    /// the delivery counts until it is settled as accepted.
    Taken(u64),
    /// The client has forgotten the message that it has taken from this place.
    Completed(u64),
}

/// What stands in one group with a client's publishes.
#[derive(Debug, Clone)]
pub(super) enum GroupedWith {
    /// The ids of those that come exactly once, which the queue of this subscription keeps.
    Ids(Arc<Queue>),
    /// The end of the will that is published.
    Will(Owner),
}

impl GroupedWith {
    /// Whether these publishes are such.
    #[inline]
    pub(super) fn concerns(&self, arrivals: &[Arrival]) -> bool {
        match self {
            Self::Ids(_) => arrivals.iter().any(|arrival| arrival.confirm.once().is_some()),
            Self::Will(_) => true,
        }
    }
}

impl Client {
    /// From here on the client's messages are handed over exactly once, and the subscription keeps
    /// how far they have come. Returns what is begun and not ended, and the ticket of that.
    ///
    /// # Errors
    /// `NotFound` if there is no such subscription; `AccessRefused` without the right to configure
    /// its queue.
    pub fn keep_exactly_once(&mut self, name: &SubscriptionName) -> Result<(ExactlyOnce, Ticket), Error> {
        let queue = self.vhost.tables.read().subscribed_queue(name).cloned();
        let queue =
            queue.ok_or_else(|| Error::not_found(format!("no subscription {name} in vhost '{}'", self.vhost.name)))?;
        self.authorize(Resource::queue(&queue.name), Right::Configure)?;
        let begun = queue.exactly_once(&self.engine);
        let is_kept = queue.logged() && !begun.is_empty();
        let ticket = if is_kept { self.engine.journal.appender(queue.log()).ticket() } else { Ticket::NONE };
        self.grouped = Some(GroupedWith::Ids(queue));
        Ok((begun, ticket))
    }

    /// Messages have come so far, in this order. Steps of deliveries that are settled are passed
    /// over. The ticket says when it holds over an end of the broker.
    ///
    /// # Errors
    /// `Internal` for a session that is not open.
    pub fn hand_over(&mut self, session: SessionId, steps: &[Handover]) -> Result<Ticket, Error> {
        let Some(GroupedWith::Ids(queue)) = self.grouped.clone() else { return Ok(Ticket::NONE) };
        let is_its = |other: &Arc<Queue>| Arc::ptr_eq(other, &queue);
        let unsettled = &self.sessions.require(session)?.unsettled;
        let place = |tag| unsettled.place_of(tag).filter(|(slot, _)| self.slots.queue(*slot).is_some_and(is_its));
        let steps = steps.iter().filter_map(|step| match *step {
            Handover::Released(id) => Some((Handed::Released, id)),
            Handover::Taken(tag) => place(tag).map(|(_, seq)| (Handed::Taken, seq)),
            Handover::Completed(seq) => Some((Handed::Completed, seq)),
        });
        let steps: Vec<_> = steps.collect();
        self.publisher.add_cost(steps.len());
        let ticket = self.visit(|visit| queue.hand_over(&steps, visit));
        self.settled.reach(ticket);
        Ok(ticket)
    }

    /// Does what `enqueue` does for a turn with messages that come exactly once: all of the turn is
    /// one group with their ids. It is visible when the group is durable: a crash would take a
    /// message back that a consumer has, and its publisher would give it a second time.
    ///
    /// A will is visible at once, since what its client says when it is back must come after it.
    #[cold]
    pub(super) fn enqueue_grouped(&mut self, arrivals: &mut [Arrival], with: &GroupedWith) -> Ticket {
        let (engine, log) = (Arc::clone(&self.engine), self.vhost.log());
        let targets = self.targets_of_turn(arrivals);
        if engine.postponed.are_many() && targets.iter().flatten().any(|queue| engine.postponed.lock().has(queue)) {
            self.wait_for_dead_letters();
        }
        self.slots.deliver_direct(arrivals, &engine.totals.deliveries);
        let written = engine.write_group(log, &targets);
        let group = engine.journal.appender(log).begin_group();
        let now = self.publisher.time(&*engine.clock);
        let mut visit = Visit { context: &engine, now, work: &mut self.work };
        let hidden = hide_arrivals(arrivals, &targets, Some(group), &mut visit);
        match with {
            GroupedWith::Ids(ids) => {
                let taken = arrivals.iter().filter(|arrival| arrival.refused.is_none());
                let received: Vec<u64> = taken.filter_map(|arrival| arrival.confirm.once()).collect();
                ids.receive_once(&received, group, &engine);
            }
            GroupedWith::Will(will) => _ = engine.end_will(&self.vhost, *will, Some(group)),
        }
        let mut appender = engine.journal.appender(log);
        appender.end_group(group);
        let ticket = appender.ticket();
        drop((appender, written));
        release_holds(arrivals, log, &engine);
        let sealed = Sealed { hidden, ..Sealed::nothing(ticket) };
        if ticket.is_none() || matches!(with, GroupedWith::Will(_)) {
            sealed.reveal(&mut visit);
        } else {
            // Even if it is durable already: an earlier turn may still wait to be seen.
            engine.wait_for_sealed(sealed);
        }
        ticket
    }

    /// The queues of each arrival of the turn. One that a full queue refuses goes to none.
    fn targets_of_turn(&mut self, arrivals: &mut [Arrival]) -> Vec<Vec<Arc<Queue>>> {
        let mut targets: Vec<Vec<Arc<Queue>>> = vec![Vec::new(); arrivals.len()];
        for slot in self.slots.touched() {
            slot.picks.iter().for_each(|pick| targets[*pick as usize].push(Arc::clone(&slot.queue)));
        }
        let mut coming: HashMap<Owner, Coming> = HashMap::new();
        for (index, (arrival, queues)) in arrivals.iter_mut().zip(&mut targets).enumerate() {
            if is_refused(arrival, queues, &coming, &self.engine) {
                arrival.refused = Some(Refusal::Full);
                queues.clear();
                self.slots.forget_picks(index as u32);
            }
            queues.iter().for_each(|queue| coming.entry(queue.id).or_default().add(arrival.message()));
        }
        targets
    }
}

/// Whether one of the queues is full and refuses more, with those that come before this one.
fn is_refused(arrival: &Arrival, queues: &[Arc<Queue>], coming: &HashMap<Owner, Coming>, engine: &Engine) -> bool {
    let before = |queue: &Queue| coming.get(&queue.id).copied().unwrap_or_default();
    arrival.refused.is_none() && queues.iter().any(|queue| queue.would_refuse(before(queue), engine))
}
