//! Publishes that wait behind an alarm, in order; settlements and fetches overtake them.
//!
//! They are taken as soon as the alarm allows. After the park timeout, or when the byte budget of
//! the connection or of its user is full, they are refused. One with a number is answered so; the
//! session of any other fails.
//! Nothing is dropped in silence.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::alarms::Allowance;
use crate::error::Error;
use crate::memory::ledger::Account;
use crate::queue::arrival::{Arrival, Refusal};
use crate::session::confirms::Answer;
use crate::session::sessions::Session;
use crate::session::{Client, SessionId};

/// The parked publishes of one session.
#[derive(Debug, Default)]
pub(super) struct Parked {
    publishes: VecDeque<Arrival>,
    bytes: usize,
    since: Option<Instant>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.publishes.is_empty()
    }

    fn push(&mut self, arrival: Arrival) {
        self.bytes += arrival.message().cost();
        self.publishes.push_back(arrival);
    }

    fn take(&mut self) -> VecDeque<Arrival> {
        self.bytes = 0;
        self.since = None;
        std::mem::take(&mut self.publishes)
    }
}

/// What alarms do to a client.
#[derive(Debug)]
pub(super) struct Parking {
    /// An alarm is up.
    blocked: bool,
    /// Bytes of its sessions' parked messages. They are counted for its user, too.
    bytes: usize,
    /// An alarm that the peer must be told of.
    tell: Option<&'static str>,
    account: Arc<Account>,
}

impl Parking {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        Self { blocked: false, bytes: 0, tell: None, account: Arc::clone(account) }
    }

    fn is_full(&self, most: usize) -> bool {
        self.bytes > most || self.account.too_much_in_an_alarm().is_some()
    }

    /// True while an alarm is up that the client has met.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Takes the alarm that the peer must be told of.
    #[inline]
    pub(super) fn take_alarm(&mut self) -> Option<&'static str> {
        self.tell.take()
    }

    fn push(&mut self, parked: &mut Parked, arrival: Arrival) {
        let cost = arrival.message().cost();
        self.bytes += cost;
        self.account.park(cost);
        parked.push(arrival);
    }

    fn take(&mut self, parked: &mut Parked) -> VecDeque<Arrival> {
        self.bytes -= parked.bytes;
        self.account.unpark(parked.bytes);
        parked.take()
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        self.account.unpark(self.bytes);
    }
}

impl Client {
    /// True while publishes or a commit of this session wait behind an alarm.
    pub fn parked(&self, session: SessionId) -> bool {
        let publishes = self.sessions.get(session).is_some_and(|session| !session.parked.is_empty());
        publishes || self.transactions.waits(session)
    }

    /// When `drain` must be called even if the connection was not woken.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timeout = self.engine.settings.parking.timeout;
        let parked = self.sessions.iter().filter_map(|(_, session)| session.parked.since).min();
        let commits = self.transactions.waiting_since();
        let waiting = [parked, commits].into_iter().flatten().min().map(|since| since + timeout);
        [waiting, self.uploads.deadline(self.body_timeouts()), self.receiver.look_at()].into_iter().flatten().min()
    }

    pub(super) fn park(&mut self, session: SessionId, arrival: Arrival) {
        let full = self.parking.is_full(self.engine.settings.parking.bytes);
        let Some(entry) = self.sessions.get_mut(session) else { return };
        self.parking.push(&mut entry.parked, arrival);
        if full {
            // All of the session's: no publish is refused before an earlier one.
            let parked = self.take_parked(session);
            self.refuse_parked(session, parked, "more waits for the alarm to pass than may");
        }
    }

    fn take_parked(&mut self, session: SessionId) -> VecDeque<Arrival> {
        let Some(entry) = self.sessions.get_mut(session) else { return VecDeque::new() };
        self.parking.take(&mut entry.parked)
    }

    /// Parks the whole turn. Nothing of it has been logged.
    pub(super) fn park_arrivals(&mut self) {
        for arrival in self.publisher.take_arrivals() {
            self.park(SessionId(arrival.session), arrival);
        }
    }

    /// Takes parked publishes if the alarm allows it, or refuses those that waited too long.
    pub(super) fn retry_parked(&mut self, now: Instant) {
        self.publisher.forget_cost();
        let waiting: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.parked.is_empty())
            .map(|(session, _)| session)
            .collect();
        if !waiting.is_empty() {
            let allowed = self.engine.allowance() != Allowance::None;
            for session in waiting {
                match allowed {
                    true => self.take_turn_of_parked(session, now),
                    false => self.refuse_late(session, now),
                }
            }
            if allowed {
                self.flush(now);
            } else {
                self.engine.when_alarms_change(self.shared.mailbox.waker());
            }
        }
        self.lift_alarm();
    }

    /// Refuses the parked publishes of a session that have waited too long.
    fn refuse_late(&mut self, session: SessionId, now: Instant) {
        let timeout = self.engine.settings.parking.timeout;
        let Some(entry) = self.sessions.get_mut(session) else { return };
        let since = *entry.parked.since.get_or_insert(now);
        if now >= since + timeout {
            let parked = self.take_parked(session);
            self.refuse_parked(session, parked, "the alarm did not pass in time");
        }
    }

    /// Takes as many parked publishes as make a turn. The others stay parked, behind those of the
    /// turn if an alarm is up again. The connection looks again at once.
    fn take_turn_of_parked(&mut self, session: SessionId, now: Instant) {
        let mut parked = self.take_parked(session).into_iter();
        for arrival in parked.by_ref() {
            if arrival.refused.is_some() {
                self.publisher.gather(arrival, 0);
                continue;
            }
            match self.route_again(arrival.message()) {
                Ok(routed) => self.gather(arrival, routed),
                Err(error) => self.sessions.fail(session, error),
            }
            if self.is_turn_full() {
                self.flush(now);
                break;
            }
        }
        let mut more = false;
        for arrival in parked {
            self.park(session, arrival);
            more = true;
        }
        if more {
            self.shared.mailbox.waker().wake_by_ref();
        }
    }

    /// An alarm is up: reports it once, and waits for its end.
    pub(super) fn meet_alarm(&mut self) {
        self.engine.when_alarms_change(self.shared.mailbox.waker());
        if !self.parking.blocked {
            self.parking.blocked = true;
            self.shared.figures.block();
            self.parking.tell = self.engine.alarm_text();
            self.shared.mailbox.waker().wake_by_ref();
        }
    }

    fn lift_alarm(&mut self) {
        if self.parking.blocked {
            if self.engine.allowance() == Allowance::All {
                self.parking.blocked = false;
                self.shared.figures.unblock();
            } else {
                self.engine.when_alarms_change(self.shared.mailbox.waker());
            }
        }
    }

    fn refuse_parked(&mut self, session: SessionId, parked: VecDeque<Arrival>, why: &str) {
        let alarm = self.engine.alarm_text().unwrap_or("an alarm");
        for arrival in parked {
            if let Some(number) = arrival.confirm.number() {
                self.engine.totals.publishes.refused.add(1);
                let why = arrival.refused.unwrap_or(Refusal::Alarm);
                self.sessions.answer(session, Answer::Refused { number, why });
            } else {
                self.engine.totals.publishes.parked_dropped.add(1);
                self.sessions.fail(session, Error::precondition(format!("publish refused: broker is {alarm}: {why}")));
            }
        }
        self.shared.mailbox.waker().wake_by_ref();
    }

    /// The session ends before the alarm. No answer can be sent any more, so the publishes are
    /// counted.
    pub(super) fn refuse_parked_of_closed(&mut self, session: &mut Session) {
        let parked = self.parking.take(&mut session.parked);
        self.engine.totals.publishes.parked_dropped.add(parked.len() as u64);
    }
}
