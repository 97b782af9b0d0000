//! Returned deliveries: how often an entry came back, how many of these returns count towards the
//! delivery limit, and what becomes of it: ready at once, after a while, or past the limit dead.

use std::sync::Arc;

use crate::arguments::ReturnCause;
use crate::message::overlay::Counts;
use crate::queue::{Inner, Past, Queue, Reason, Visit, facts as queue_facts};
use crate::settings::CountedReturns;
use crate::store::facts;

/// How often an entry came back. Both numbers end at 65 535, so that they take four bytes of an
/// entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Returns {
    came_back: u16,
    counted: u16,
}

impl Returns {
    /// It came back once more.
    pub(crate) fn add(&mut self) {
        self.came_back = self.came_back.saturating_add(1);
    }

    /// The same, and that counts.
    pub(crate) fn add_counted(&mut self) {
        self.add();
        self.counted = self.counted.saturating_add(1);
    }

    /// True when it never came back.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.came_back == 0
    }

    /// How often it came back.
    pub(crate) fn came_back(self) -> u32 {
        self.came_back.into()
    }

    /// How many of these returns count.
    pub(crate) fn counted(self) -> u32 {
        self.counted.into()
    }

    /// The extra number in the log in front of [`Returns::counted`], where not all returns count:
    /// it holds both numbers.
    pub(crate) fn both(self) -> Option<u64> {
        let differ = self.came_back != self.counted;
        differ.then(|| u64::from(self.came_back) << 32 | u64::from(self.counted))
    }

    /// Takes the next number from the log. An older version knew one number and counted every
    /// return.
    pub(crate) fn take_in(&mut self, stored: u64) {
        let narrow = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        self.counted = narrow(stored & u64::from(u32::MAX));
        self.came_back = self.came_back.max(narrow(stored >> 32)).max(self.counted);
    }

    /// The counts that consumers are shown.
    #[inline]
    pub(crate) fn shown(self, counting: CountedReturns) -> Counts {
        let of = |number: u16| (number > 0).then_some(u32::from(number));
        let acquired = if counting == CountedReturns::Failures { of(self.came_back) } else { None };
        Counts { delivery: of(self.counted), acquired }
    }
}

impl Queue {
    /// Returns a delivery: the entry is ready again at its place, at once or after a while. Past
    /// the delivery limit it dies.
    pub(super) fn come_back(&self, inner: &mut Inner, seq: u64, how: ReturnCause, visit: &Visit<'_>) {
        let arguments = Arc::clone(&inner.arguments);
        let Some(entry) = inner.lanes.get_mut(seq) else { return };
        let before = entry.past;
        entry.past = before.max(match how {
            ReturnCause::Failed => Past::Failed,
            ReturnCause::Returned => Past::Returned,
        });
        if arguments.counts_returns() {
            // The failure of an earlier run that its consumer was told of stays counted.
            if before.failures(entry.returns) > entry.returns.counted() {
                entry.returns.add_counted();
            }
            let all = visit.context.settings.counted_returns == CountedReturns::All;
            match how {
                ReturnCause::Failed => entry.returns.add_counted(),
                ReturnCause::Returned if all => entry.returns.add_counted(),
                ReturnCause::Returned => entry.returns.add(),
            }
            let (returns, durable) = (entry.returns, entry.is_durable());
            if arguments.delivery_limit.is_some_and(|limit| u64::from(returns.counted()) > limit) {
                self.die(inner, seq, Reason::DeliveryLimit);
                return;
            }
            let delay = arguments.retry.and_then(|retry| retry.delay(how, returns.counted()));
            let due = delay.map(|delay| visit.now.saturating_add(delay));
            if durable {
                let mut appender = visit.context.journal.appender(self.log());
                queue_facts::log_returns(&mut appender, self.id, seq, returns);
                if let Some(due) = due {
                    facts::log_retry(&mut appender, self.id, seq, due);
                }
            }
            if let Some(due) = due {
                inner.make_ready(seq);
                if durable && visit.context.memory.is_tight() {
                    inner.let_go_of(seq);
                }
                inner.wait_until(seq, due);
                return;
            }
        }
        inner.make_ready(seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log's numbers, read by this version, and by one that takes the last number for all.
    fn read(returns: Returns) -> (Returns, u64) {
        let stored: Vec<u64> = returns.both().into_iter().chain([returns.counted().into()]).collect();
        let mut read = Returns::default();
        // The log may repeat facts.
        stored.iter().chain(&stored).for_each(|number| read.take_in(*number));
        (read, stored[stored.len() - 1])
    }

    #[test]
    fn what_the_log_says_is_read_by_both_versions() {
        for (came_back, counted) in [(0, 0), (1, 1), (7, 0), (7, 2), (u16::MAX, 3), (u16::MAX, u16::MAX)] {
            let returns = Returns { came_back, counted };
            assert_eq!(read(returns), (returns, counted.into()), "{returns:?}");
        }
    }

    #[test]
    fn a_version_that_counted_every_return_said_how_many_there_were() {
        for (stored, number) in [(0, 0), (3, 3), (70_000, u16::MAX), (u64::from(u32::MAX), u16::MAX)] {
            let mut returns = Returns::default();
            returns.take_in(stored);
            assert_eq!(returns, Returns { came_back: number, counted: number });
        }
    }

    #[test]
    fn what_is_shown_is_what_the_rule_knows() {
        let returns = Returns { came_back: 3, counted: 1 };
        let counts = |delivery, acquired| Counts { delivery, acquired };
        assert_eq!(returns.shown(CountedReturns::Failures), counts(Some(1), Some(3)));
        assert_eq!(returns.shown(CountedReturns::All), counts(Some(1), None));
        assert_eq!(Returns { counted: 0, ..returns }.shown(CountedReturns::Failures), counts(None, Some(3)));
        assert_eq!(Returns::default().shown(CountedReturns::Failures), Counts::default());
    }
}
