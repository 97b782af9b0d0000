//! Publishes that wait behind an alarm, in order; settlements and fetches overtake them.
//!
//! They are taken as soon as the alarm allows. After the park timeout, or when the connection's
//! byte budget is full, they are refused. A session with confirms gets a nack; any other fails.
//! Nothing is dropped in silence.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::alarms::Allowance;
use crate::engine::clients::RUNNING;
use crate::error::Error;
use crate::queue::arrival::Arrival;
use crate::session::{Answer, Client, Refusal, Session, SessionId};

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
#[derive(Default)]
pub(super) struct Parking {
    /// An alarm is up.
    pub(super) blocked: bool,
    /// Bytes of its sessions' parked messages.
    pub(super) bytes: usize,
    /// An alarm that the peer must be told of.
    pub(super) tell: Option<&'static str>,
}

impl Client {
    /// True while publishes or a commit of this session wait behind an alarm.
    pub fn parked(&self, session: SessionId) -> bool {
        let publishes = self.sessions.get(&session.0).is_some_and(|session| !session.parked.is_empty());
        publishes || self.transactions.open.values().any(|open| open.session == session && open.waiting_since.is_some())
    }

    /// When `drain` must be called even if the connection was not woken.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timeout = self.engine.settings.park_timeout;
        let parked = self.sessions.values().filter_map(|session| session.parked.since).min();
        let commits = self.transactions.open.values().filter_map(|open| open.waiting_since).min();
        let waiting = [parked, commits].into_iter().flatten().min().map(|since| since + timeout);
        [waiting, self.bodies_deadline(), self.receiver.look_at].into_iter().flatten().min()
    }

    pub(super) fn park(&mut self, session: u32, arrival: Arrival) {
        let full = self.parking.bytes > self.engine.settings.park_bytes;
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        self.parking.bytes += arrival.message().cost();
        entry.parked.push(arrival);
        if full {
            // All of the session's: no publish is refused before an earlier one.
            let parked = self.take_parked(session);
            self.refuse(session, parked, "more waits for the alarm to pass than may");
        }
    }

    fn take_parked(&mut self, session: u32) -> VecDeque<Arrival> {
        let Some(entry) = self.sessions.get_mut(&session) else { return VecDeque::new() };
        self.parking.bytes -= entry.parked.bytes;
        entry.parked.take()
    }

    /// Parks the whole turn. Nothing of it has been logged.
    pub(super) fn park_arrivals(&mut self) {
        for arrival in std::mem::take(&mut self.publisher.arrivals) {
            self.park(arrival.session, arrival);
        }
    }

    /// Takes parked publishes if the alarm allows it, or refuses those that waited too long.
    pub(super) fn retry_parked(&mut self, now: Instant) {
        self.publisher.cost = 0;
        let waiting: Vec<u32> =
            self.sessions.iter().filter(|(_, session)| !session.parked.is_empty()).map(|(id, _)| *id).collect();
        if !waiting.is_empty() {
            let allowed = self.engine.allowance() != Allowance::None;
            for session in waiting {
                self.retry_session(session, allowed, now);
            }
            if allowed {
                self.flush(now);
            } else {
                self.engine.when_alarms_change(self.shared.mailbox.waker());
            }
        }
        self.lift_alarm();
    }

    fn retry_session(&mut self, session: u32, allowed: bool, now: Instant) {
        let timeout = self.engine.settings.park_timeout;
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        let since = *entry.parked.since.get_or_insert(now);
        if allowed {
            self.take_turn_of_parked(session, now);
        } else if now >= since + timeout {
            let parked = self.take_parked(session);
            self.refuse(session, parked, "the alarm did not pass in time");
        }
    }

    /// Takes as many parked publishes as make a turn. The others stay parked, behind those of the
    /// turn if an alarm is up again. The connection looks again at once.
    fn take_turn_of_parked(&mut self, session: u32, now: Instant) {
        let mut parked = self.take_parked(session).into_iter();
        for arrival in parked.by_ref() {
            match self.route_again(arrival.message()) {
                Ok(routed) => self.gather(arrival, routed),
                Err(error) => self.fail(session, error),
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

    fn lift_alarm(&mut self) {
        if self.parking.blocked {
            if self.engine.allowance() == Allowance::All {
                self.parking.blocked = false;
                self.shared.state.store(RUNNING, Ordering::Relaxed);
            } else {
                self.engine.when_alarms_change(self.shared.mailbox.waker());
            }
        }
    }

    fn refuse(&mut self, session: u32, parked: VecDeque<Arrival>, why: &str) {
        let alarm = self.engine.alarm_text().unwrap_or("an alarm");
        for arrival in parked {
            if arrival.number > 0 {
                self.engine.totals.refused.add(1);
                self.answer(session, Answer::Refused { number: arrival.number, why: Refusal::Alarm });
            } else {
                self.engine.totals.parked_dropped.add(1);
                self.fail(session, Error::precondition(format!("publish refused: broker is {alarm}: {why}")));
            }
        }
        self.shared.mailbox.waker().wake_by_ref();
    }

    pub(super) fn fail(&mut self, session: u32, error: Error) {
        if let Some(entry) = self.sessions.get_mut(&session)
            && !entry.failed
        {
            entry.failed = true;
            self.answer(session, Answer::Failed { error });
        }
    }

    /// The session ends before the alarm. No answer can be sent any more, so the publishes are
    /// counted.
    pub(super) fn refuse_parked_of_closed(&mut self, session: &mut Session) {
        self.parking.bytes -= session.parked.bytes;
        self.engine.totals.parked_dropped.add(session.parked.take().len() as u64);
    }
}
