//! A session that the peer has begun: its links, its windows, and what waits to be told.

use std::collections::VecDeque;
use std::time::Instant;

use broker::{Client, Credit, Outcome, Rest, SessionId, Tags};
use wire::Output;

use crate::codec::performative::{Begin, Detach, Flow};
use crate::session::deliver::{Deliveries, Drained};
use crate::session::error::Failure;
use crate::session::frames;
use crate::session::link::Link;
use crate::session::names::Node;
use crate::session::numbered::Numbered;
use crate::session::promised::Promised;
use crate::session::sender::Ending;
use crate::session::window::{Incoming, Outgoing};

/// What this side sends is not bounded by a window of its own.
pub(super) const OUTGOING_WINDOW: u32 = u32::MAX;

/// A publish without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unanswered {
    pub(super) number: u64,
    pub(super) delivery: u32,
    pub(super) handle: u32,
}

/// See the module.
pub(super) struct Begun {
    /// The number of the session's channel, in both directions.
    pub(super) channel: u16,
    pub(super) id: SessionId,
    pub(super) incoming: Incoming,
    pub(super) links: Numbered<Link>,
    pub(super) deliveries: Deliveries,
    pub(super) promised: Promised,
    /// The number of the last publish.
    pub(super) published: u64,
    pub(super) unanswered: VecDeque<Unanswered>,
    /// The handles of links whose termini may outlive them.
    pub(super) lasting: Vec<u32>,
    /// The handle of the last link for responses of `/management`.
    pub(super) responses: Option<u32>,
    /// This side has ended it, and ignores all but the peer's end.
    pub(super) ended: bool,
}

impl Begun {
    pub(super) fn new(channel: u16, id: SessionId, begin: &Begin<'_>, frame_max: u32) -> Self {
        Self {
            channel,
            id,
            incoming: Incoming::new(begin),
            links: Numbered::default(),
            deliveries: Deliveries::new(channel, frame_max, Outgoing::new(begin)),
            promised: Promised::default(),
            published: 0,
            unanswered: VecDeque::new(),
            lasting: Vec::new(),
            responses: None,
            ended: false,
        }
    }

    /// The flow of the session, to which the state of a link can be added.
    fn flow(&mut self) -> Flow<'static> {
        let (next_incoming_id, incoming_window) = self.incoming.announce();
        Flow {
            next_incoming_id: Some(next_incoming_id),
            incoming_window,
            next_outgoing_id: self.deliveries.outgoing.next_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }

    /// Tells the peer of the session's windows.
    pub(super) fn put_flow(&mut self, output: &mut Output) {
        let flow = self.flow();
        frames::answer(output, self.channel, &flow);
    }

    /// The flow of a link: its credit, seen from this side.
    pub(super) fn link_flow(&mut self, handle: u32) -> Option<Flow<'static>> {
        let session = self.flow();
        let (count, credit, available) = match self.links.get(handle)? {
            Link::Sender(sender) => (sender.sent(), sender.credit.wrapping_add(sender.held), Some(sender.held)),
            Link::Receiver(receiver) => (receiver.delivery_count, receiver.credit, None),
            Link::Detached | Link::Found(_) => return None,
        };
        Some(Flow {
            handle: Some(handle),
            delivery_count: Some(count),
            link_credit: Some(credit),
            available,
            ..session
        })
    }

    /// Tells the peer of a link's credit.
    pub(super) fn put_link_flow(&mut self, handle: u32, output: &mut Output) {
        if let Some(flow) = self.link_flow(handle) {
            frames::answer(output, self.channel, &flow);
        }
    }

    /// Tells the peer that a drain has ended.
    pub(super) fn put_drained(&mut self, drained: Drained, output: &mut Output) {
        let Drained { handle, unused } = drained;
        if let Some(Link::Sender(sender)) = self.links.get_mut(handle) {
            sender.end_drain(unused);
            if let Some(flow) = self.link_flow(handle) {
                frames::answer(output, self.channel, &Flow { drain: true, ..flow });
            }
        }
    }

    /// Sends what is held, as far as the window goes.
    pub(super) fn flush_held(&mut self, output: &mut Output) {
        loop {
            self.deliveries.flush(&mut self.links, output);
            let Some(drained) = self.deliveries.next_drained() else { return };
            self.put_drained(drained, output);
        }
    }

    /// Takes the credit of all consumers while something is held, and gives it back afterwards.
    pub(super) fn regulate(&mut self, client: &mut Client, now: Instant) {
        let stop = self.deliveries.holds();
        if stop == self.deliveries.stopped || self.ended {
            return;
        }
        self.deliveries.stopped = stop;
        if stop {
            client.set_credit_of_all(self.id, Credit::Granted { left: 0, rest: Rest::Kept }, now);
            return;
        }
        for (_, link) in self.links.iter() {
            if let Link::Sender(sender) = link {
                let rest = if sender.drains { Rest::Drained } else { Rest::Kept };
                client.set_credit(self.id, &sender.tag, Credit::Granted { left: sender.credit, rest }, now);
            }
        }
    }

    /// Settles what the peer has not settled of a link, as its source says. What it has not even
    /// seen is released.
    pub(super) fn give_back(&mut self, handle: u32, ending: Ending, client: &mut Client) {
        for tag in self.deliveries.forget_held(Some(handle)) {
            self.settle_tags(client, (tag, tag), &Outcome::Released);
        }
        self.settle_promised(handle, client);
        let Some(Link::Sender(sender)) = self.links.get(handle) else { return };
        let outcome = sender.outcome_of_rest(ending);
        for part in self.deliveries.unsettled.of_link(handle) {
            self.settle_tags(client, (part.first, part.last), &outcome);
        }
        self.deliveries.unsettled.forget_link(handle);
    }

    fn settle_tags(&self, client: &mut Client, (first, last): (u64, u64), outcome: &Outcome) {
        // The session is open, and such an outcome has no annotations that could be too large.
        client.settle(self.id, Tags::Range { first, last }, outcome).ok();
    }

    /// The same for all links.
    pub(super) fn give_all_back(&mut self, ending: Ending, client: &mut Client) {
        let senders = self.links.iter().filter(|(_, link)| matches!(link, Link::Sender(_)));
        for handle in senders.map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.give_back(handle, ending, client);
        }
    }

    /// Ends a link whose consumer is cancelled. The handle stays in use until the peer's detach.
    /// Returns the queue that goes with it, and the bytes of a message that was not whole.
    pub(super) fn end_link(&mut self, handle: u32, ending: Ending, client: &mut Client) -> (Option<Node>, usize) {
        self.give_back(handle, ending, client);
        match self.links.insert(handle, Link::Detached) {
            Some(Link::Sender(sender)) => {
                self.deliveries.remove_consumer(&sender.tag);
                (sender.dynamic, 0)
            }
            Some(Link::Receiver(receiver)) => {
                if receiver.unfinished > 0 {
                    client.body_abandoned(self.id);
                }
                (receiver.dynamic, receiver.unfinished)
            }
            Some(Link::Detached | Link::Found(_)) | None => (None, 0),
        }
    }

    /// Detaches a link with an error; the peer's own detach ends it.
    pub(super) fn put_detach(&self, handle: u32, failure: &Failure, output: &mut Output) {
        let detach = Detach { handle, closed: true, error: Some(failure.as_error()) };
        frames::answer(output, self.channel, &detach);
    }
}
