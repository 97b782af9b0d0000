//! The sessions of a client, and which of them have answers waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use journal::Ticket;

use crate::engine::clients::Shown;
use crate::error::Error;
use crate::queue::SharedCredit;
use crate::queue::arrival::Confirm;
use crate::session::SessionId;
use crate::session::ack_timeout::Notes;
use crate::session::blocked::Parked;
use crate::session::confirms::{Answer, Answers};
use crate::session::drain::Event;
use crate::session::numbered::Numbered;
use crate::session::replies::ReplyConsumer;
use crate::session::settle::{Unacked, Unsettled};

/// A session of a client.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) answers: Answers,
    pub(super) unsettled: Unsettled,
    pub(super) notes: Notes,
    pub(super) shared: Arc<SharedCredit>,
    pub(super) shown: Arc<Shown>,
    consumers: BTreeSet<u32>,
    /// The same by their tags.
    tags: HashMap<Arc<str>, u32>,
    pub(super) replies: Option<ReplyConsumer>,
    pub(super) parked: Parked,
    /// Of a session that ends: the deliveries in its open transactions.
    pub(super) abandoned: Vec<Unacked>,
    pub(super) failed: bool,
    /// It failed because it held a delivery for too long.
    pub(super) overdue: bool,
    /// It has published.
    publishes: bool,
}

impl Session {
    fn new(called: u32) -> Self {
        let shared = Arc::<SharedCredit>::default();
        let shown = Arc::new(Shown::new(called, &shared));
        Self { shared, shown, ..Self::default() }
    }

    /// True at its first publish.
    #[inline]
    pub(super) fn begins_to_publish(&mut self) -> bool {
        !std::mem::replace(&mut self.publishes, true)
    }

    /// True if it has published.
    pub(super) fn publishes(&self) -> bool {
        self.publishes
    }

    pub(super) fn add_consumer(&mut self, consumer: u32, tag: Arc<str>) {
        self.consumers.insert(consumer);
        self.tags.insert(tag, consumer);
        self.shown.set_consumers(self.consumers.len());
    }

    pub(super) fn remove_consumer(&mut self, consumer: u32, tag: &str) {
        self.consumers.remove(&consumer);
        self.tags.remove(tag);
        self.shared.forget_starved(&self.consumers);
        self.shown.set_consumers(self.consumers.len());
    }

    pub(super) fn consumers(&self) -> &BTreeSet<u32> {
        &self.consumers
    }

    /// The consumer with this tag.
    pub(super) fn consumer_tagged(&self, tag: &str) -> Option<u32> {
        self.tags.get(tag).copied()
    }
}

/// The sessions of a client.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Numbered<Session>,
    /// Sessions with answers waiting.
    answering: Vec<u32>,
}

impl Sessions {
    /// Starts a session that its protocol calls by the number `called`.
    pub(super) fn start(&mut self, called: u32) -> (SessionId, Arc<Shown>) {
        let session = Session::new(called);
        let shown = Arc::clone(&session.shown);
        (SessionId(self.open.add(session)), shown)
    }

    /// Gives back what is kept for the next messages.
    pub(super) fn rest(&mut self) {
        self.open.iter_mut().for_each(|(_, session)| {
            session.answers.rest();
            session.unsettled.rest();
        });
        self.answering.shrink_to_fit();
    }

    pub(super) fn remove(&mut self, session: SessionId) -> Option<Session> {
        self.open.remove(session.0)
    }

    #[inline]
    pub(super) fn get(&self, session: SessionId) -> Option<&Session> {
        self.open.get(session.0)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.open.get_mut(session.0)
    }

    /// The session, which a protocol must not use once it is closed.
    #[inline]
    pub(super) fn require(&mut self, session: SessionId) -> Result<&mut Session, Error> {
        self.get_mut(session).ok_or_else(|| Error::internal(format!("session {} is not open", session.0)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.open.iter().map(|(number, session)| (SessionId(number), session))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Session)> {
        self.open.iter_mut().map(|(number, session)| (SessionId(number), session))
    }

    /// True while an answer waits.
    #[inline]
    pub(super) fn is_answering(&self) -> bool {
        !self.answering.is_empty()
    }

    /// Puts an answer behind the others of its session.
    pub(super) fn answer(&mut self, session: SessionId, answer: Answer) {
        let Some(entry) = self.open.get_mut(session.0) else { return };
        if entry.answers.is_empty() {
            self.answering.push(session.0);
        }
        entry.answers.push(answer);
    }

    /// Answers a publish that was taken in this turn, if it has a number.
    pub(super) fn answer_taken(&mut self, session: SessionId, confirm: Confirm, ticket: Ticket, turn: (u64, Instant)) {
        let answer = self.get_mut(session).and_then(|entry| entry.answers.taken(confirm, ticket, turn));
        if let Some(answer) = answer {
            self.answer(session, answer);
        }
    }

    /// Fails a session, once.
    pub(super) fn fail(&mut self, session: SessionId, error: Error) {
        if let Some(entry) = self.get_mut(session)
            && !entry.failed
        {
            entry.failed = true;
            self.answer(session, Answer::Failed { error });
        }
    }

    /// Reports the answers whose tickets are durable, and tells `times` how many publishes of a
    /// turn are confirmed, and when that was. Returns how many publishes were confirmed, and the
    /// highest ticket that an answer waits for.
    pub(super) fn report_answers(
        &mut self,
        durable: Ticket,
        times: &mut dyn FnMut(Instant, u64),
        report: &mut dyn FnMut(Event<'_>),
    ) -> (u64, Ticket) {
        let (mut confirmed, mut highest) = (0, Ticket::NONE);
        let open = &mut self.open;
        self.answering.retain(|number| {
            let Some(entry) = open.get_mut(*number) else { return false };
            let (count, waits) = entry.answers.report(SessionId(*number), durable, times, report);
            confirmed += count;
            highest = highest.max(waits.unwrap_or(Ticket::NONE));
            entry.shown.set_unconfirmed(entry.answers.unanswered());
            waits.is_some()
        });
        (confirmed, highest)
    }
}
