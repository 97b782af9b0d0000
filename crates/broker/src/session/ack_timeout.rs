//! Deliveries that a consumer holds too long: their session is closed, and they return to their
//! queues.
//!
//! Nothing is noted of a single delivery. From time to time each session notes which tags it has
//! given out by then. A delivery is at least as old as the first such note that covers it. So an
//! overdue one is found up to a quarter of its timeout late, but never early.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::session::Client;
use crate::session::confirms::Answer;
use crate::session::sessions::Session;
use crate::session::settle::FETCHED;

/// Sessions are looked at no more often than this.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
/// And at least this often.
const LONGEST_PERIOD: Duration = Duration::from_mins(1);

/// The tags that a session had given out at certain times, in order.
#[derive(Debug, Default)]
pub(super) struct Notes(VecDeque<(Instant, u64)>);

impl Notes {
    /// All tags below `next` were given out by `now`.
    fn note(&mut self, now: Instant, first_unsettled: u64, next: u64) {
        // A note that covers only settled tags is no longer needed.
        while self.0.front().is_some_and(|(_, covered)| *covered <= first_unsettled) {
            self.0.pop_front();
        }
        if first_unsettled < next && self.0.back().is_none_or(|(_, covered)| *covered < next) {
            self.0.push_back((now, next));
        }
    }

    /// Whether a delivery can be as old as that.
    fn reach_back_to(&self, then: Instant) -> bool {
        self.0.front().is_some_and(|(at, _)| *at <= then)
    }

    /// A time by which the delivery with this tag had certainly been given out.
    fn given_out_by(&self, tag: u64) -> Option<Instant> {
        let at = self.0.partition_point(|(_, next)| *next <= tag);
        self.0.get(at).map(|(at, _)| *at)
    }
}

impl Client {
    /// Deliveries went out: sessions are looked at from now on.
    #[inline]
    pub(super) fn watch_deliveries(&mut self, now: Instant) {
        if self.receiver.look_at().is_none() {
            let period = self.shortest_timeout().map_or(LONGEST_PERIOD, period_of);
            self.receiver.look_by(now + period);
        }
    }

    /// A consumer has come that may hold its deliveries for so long.
    pub(super) fn watch_consumer(&mut self, timeout: Duration, now: Instant) {
        if self.receiver.look_at().is_some() {
            self.receiver.look_by(now + period_of(timeout));
        }
    }

    fn shortest_timeout(&self) -> Option<Duration> {
        self.receiver.shortest_timeout().into_iter().chain(self.fetch_timeout()).min()
    }

    /// A fetched message may be held as long as the broker's setting says.
    fn fetch_timeout(&self) -> Option<Duration> {
        Some(self.engine.settings.consumer_timeout).filter(|timeout| !timeout.is_zero())
    }

    /// Fails sessions that hold a delivery for too long.
    pub(super) fn look_for_overdue(&mut self, now: Instant) {
        if self.receiver.look_at().is_none_or(|at| now < at) {
            return;
        }
        let (receiver, fetched) = (&self.receiver, self.fetch_timeout());
        let timeout = |consumer: u32| match consumer {
            FETCHED => fetched,
            // Only the deliveries of a cancelled consumer are left.
            consumer => receiver.consumer(consumer).map_or(fetched, |record| record.timeout),
        };
        let shortest = self.shortest_timeout();
        let (mut overdue, mut holds) = (Vec::new(), false);
        for (number, session) in self.sessions.iter_mut().filter(|(_, session)| !session.unsettled.is_empty()) {
            holds = true;
            overdue.extend(session.overdue(now, shortest, &timeout).map(|timeout| (number, timeout)));
        }
        for (number, timeout) in overdue {
            self.sessions.answer(number, Answer::Overdue { timeout });
        }
        self.receiver.note_looked();
        if holds {
            self.watch_deliveries(now);
        }
    }
}

impl Session {
    /// The timeout that a delivery has passed, if one has; `timeout` gives that of a consumer.
    fn overdue(
        &mut self,
        now: Instant,
        shortest: Option<Duration>,
        timeout: &dyn Fn(u32) -> Option<Duration>,
    ) -> Option<Duration> {
        let (first, next) = self.unsettled.tags();
        self.notes.note(now, first, next);
        if self.failed || !self.notes.reach_back_to(now.checked_sub(shortest?)?) {
            return None;
        }
        let is_over = |tag: u64, timeout: Duration| self.notes.given_out_by(tag).is_some_and(|at| at + timeout <= now);
        let over = self
            .unsettled
            .iter()
            .find_map(|(tag, unacked)| timeout(unacked.consumer).filter(|most| is_over(tag, *most)));
        (self.failed, self.overdue) = (over.is_some(), over.is_some());
        over
    }
}

fn period_of(timeout: Duration) -> Duration {
    (timeout / 4).clamp(SHORTEST_PERIOD, LONGEST_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_as_old_as_the_first_note_that_covers_it() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut notes = Notes::default();
        notes.note(at(1), 1, 5);
        notes.note(at(2), 1, 5);
        notes.note(at(3), 1, 9);
        let ages = |notes: &Notes| [1, 4, 5, 8, 9].map(|tag| notes.given_out_by(tag));
        assert_eq!(ages(&notes), [Some(at(1)), Some(at(1)), Some(at(3)), Some(at(3)), None]);
        notes.note(at(4), 6, 9);
        assert_eq!(ages(&notes), [Some(at(3)), Some(at(3)), Some(at(3)), Some(at(3)), None]);
        notes.note(at(5), 9, 9);
        assert_eq!(notes.0.len(), 0, "nothing is remembered where everything is settled");
    }
}
