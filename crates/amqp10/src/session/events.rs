//! The broker's events as frames, and the answers to publishes.

use broker::{Event, Refusal};
use wire::Output;

use crate::codec::DeliveryState;
use crate::codec::error::condition;
use crate::codec::performative::{Disposition, Role};
use crate::session::begun::{Begun, Unanswered};
use crate::session::deliver::Drained;
use crate::session::error::{Failure, condition_of};
use crate::session::frames;
use crate::session::link::Link;
use crate::session::sessions::{After, Sessions};
use crate::session::termini::Answer;
use crate::session::window::Gate;

impl Sessions {
    /// Writes what an event says.
    pub(super) fn report(&mut self, event: Event<'_>, output: &mut Output) {
        match event {
            Event::Deliver(delivery) => self.deliver(&delivery, output),
            Event::Confirmed { session, up_to } => {
                if let Some(begun) = self.of(session) {
                    begun.confirmed(up_to, output);
                }
            }
            Event::Refused { session, number, why } => {
                let answer = Answer::Rejected(refused(why));
                self.answer(session, number, &answer, output);
            }
            Event::Unroutable { session, number: Some(number), .. } => {
                self.answer(session, number, &Answer::Released, output);
            }
            Event::Cancelled { session, consumer_tag } => {
                if let Some(begun) = self.of(session) {
                    begun.cancelled(consumer_tag, output);
                }
            }
            Event::Drained { session, consumer_tag, unused } => {
                let Some(begun) = self.of(session) else { return };
                let Some(handle) = begun.deliveries.handle_of(consumer_tag) else { return };
                let unused = u32::try_from(unused).unwrap_or(u32::MAX);
                if let Some(drained) = begun.deliveries.drained(Drained { handle, unused }) {
                    begun.put_drained(drained, output);
                }
            }
            Event::SessionFailed { session, error } => self.fail(session, error.into()),
            Event::Overdue { session, timeout } => {
                let text = format!("a message was not settled within {} ms", timeout.as_millis());
                self.fail(session, Failure::new(condition::PRECONDITION_FAILED, text));
            }
            Event::Blocked { .. } => self.set_gate(Gate::Shut, output),
            Event::Unblocked => self.set_gate(Gate::Open, output),
            Event::Kicked { reason } => {
                self.after.push(After::CloseConnection(Failure::new(condition::CONNECTION_FORCED, reason)));
            }
            Event::Committed { transaction } => self.committed(transaction, None, output),
            Event::RolledBack { transaction, error } => self.committed(transaction, Some(error.text), output),
            // No publish asks for its return.
            Event::Unroutable { number: None, .. } => {}
        }
    }

    fn fail(&mut self, session: broker::SessionId, failure: Failure) {
        if let Some(channel) = self.of(session).map(|begun| begun.channel) {
            self.after.push(After::EndSession(channel, failure));
        }
    }

    fn answer(&mut self, session: broker::SessionId, number: u64, answer: &Answer, output: &mut Output) {
        let Some(begun) = self.of(session) else { return };
        let at = begun.unanswered.iter().position(|publish| publish.number == number);
        if let Some(publish) = at.and_then(|at| begun.unanswered.remove(at)) {
            begun.put_answer(publish, publish.delivery, answer, output);
            begun.answered(publish.handle, output);
        }
    }

    /// An alarm is up, or has passed: the sessions' windows are shut meanwhile.
    fn set_gate(&mut self, gate: Gate, output: &mut Output) {
        self.gate = gate;
        for begun in self.all_mut() {
            begun.incoming.set(gate);
            if begun.links.iter().any(|(_, link)| matches!(link, Link::Receiver(_))) {
                begun.put_flow(output);
            }
            if gate == Gate::Open {
                begun.top_up_all(output);
            }
        }
    }
}

fn refused(why: Refusal) -> Failure {
    match why {
        Refusal::Full => {
            Failure::new(condition::RESOURCE_LIMIT_EXCEEDED, "a queue is full and refuses messages (x-overflow)")
        }
        Refusal::Alarm => {
            let text = "the broker is short of memory or disk, and the message waited for too long";
            Failure::new(condition::RESOURCE_LIMIT_EXCEEDED, text)
        }
        Refusal::Error(kind) => Failure::new(condition_of(kind), "the message was not taken"),
    }
}

impl Begun {
    /// All publishes without an answer up to this number are safe. Their ids mostly follow each
    /// other, and are told together.
    fn confirmed(&mut self, up_to: u64, output: &mut Output) {
        let mut run: Option<(Unanswered, u32)> = None;
        while let Some(publish) = self.unanswered.pop_front_if(|publish| publish.number <= up_to) {
            match &mut run {
                Some((first, last)) if first.handle == publish.handle && last.wrapping_add(1) == publish.delivery => {
                    *last = publish.delivery;
                }
                _ => {
                    if let Some((first, last)) = run.replace((publish, publish.delivery)) {
                        self.put_answer(first, last, &Answer::Accepted, output);
                    }
                }
            }
            self.answered(publish.handle, output);
        }
        if let Some((first, last)) = run {
            self.put_answer(first, last, &Answer::Accepted, output);
        }
    }

    /// A publish of this link has its answer, which makes room for others.
    fn answered(&mut self, handle: u32, output: &mut Output) {
        let Some(Link::Receiver(receiver)) = self.links.get_mut(handle) else { return };
        receiver.unanswered = receiver.unanswered.saturating_sub(1);
        if receiver.top_up() {
            self.put_link_flow(handle, output);
        }
    }

    /// Gives credit to links that have used theirs up while an alarm was up.
    fn top_up_all(&mut self, output: &mut Output) {
        let receivers = self.links.iter_mut().filter_map(|(handle, link)| match link {
            Link::Receiver(receiver) => receiver.top_up().then_some(handle),
            _ => None,
        });
        for handle in receivers.collect::<Vec<_>>() {
            self.put_link_flow(handle, output);
        }
    }

    pub(super) fn put_answer(&self, first: Unanswered, last: u32, answer: &Answer, output: &mut Output) {
        if let Some(Link::Receiver(receiver)) = self.links.get(first.handle)
            && let Some(terminus) = &receiver.terminus
        {
            terminus.answered(first.delivery, last, answer);
        }
        self.put_state(first, last, DeliveryState::Outcome(answer.as_outcome()), output);
    }

    /// Tells the peer of the state of its deliveries up to this one.
    pub(super) fn put_state(&self, first: Unanswered, last: u32, state: DeliveryState<'_>, output: &mut Output) {
        let Some(Link::Receiver(receiver)) = self.links.get(first.handle) else { return };
        let disposition = Disposition {
            role: Role::Receiver,
            first: first.delivery,
            last: Some(last).filter(|last| *last != first.delivery),
            settled: !receiver.settles_second,
            state: Some(state),
            batchable: false,
        };
        frames::answer(output, self.channel, &disposition);
    }

    /// Rejects a message at once.
    pub(super) fn reject(&mut self, delivery: u32, handle: u32, failure: Failure, output: &mut Output) {
        self.put_answer(Unanswered { number: 0, delivery, handle }, delivery, &Answer::Rejected(failure), output);
    }

    /// A consumer's queue is gone, or a browser has seen all. The next drain of a browser is
    /// answered at once.
    fn cancelled(&mut self, tag: &str, output: &mut Output) {
        let Some(handle) = self.deliveries.handle_of(tag) else { return };
        let Some(Link::Sender(sender)) = self.links.get_mut(handle) else { return };
        if sender.browses {
            sender.ended = true;
            let drained = Drained { handle, unused: sender.credit };
            if sender.drains
                && let Some(drained) = self.deliveries.drained(drained)
            {
                self.put_drained(drained, output);
            }
            return;
        }
        self.deliveries.remove_consumer(tag);
        let text = "the queue was deleted, or its user may not read there any more";
        self.put_detach(handle, &Failure::new(condition::RESOURCE_DELETED, text), output);
        self.links.insert(handle, Link::Detached);
    }
}
