//! Settling: a session's unsettled deliveries by tag, and how settlements reach their queues.

use std::collections::VecDeque;
use std::sync::Arc;

use journal::Ticket;

use crate::error::Error;
use crate::queue::{Settlement, SharedCredit, Verdict, Visit};
use crate::session::{Client, SessionId};

/// What a client makes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done with: it leaves the queue.
    Accepted,
    /// Back to its place in the queue.
    Released,
    /// To the dead-letter exchange, or away.
    Rejected,
}

impl Outcome {
    fn verdict(self) -> Verdict {
        match self {
            Self::Accepted => Verdict::Accepted,
            Self::Released => Verdict::Released,
            Self::Rejected => Verdict::Rejected,
        }
    }
}

/// A delivery that is not settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lien {
    pub(super) slot: u32,
    /// `u32::MAX` for one that was fetched.
    pub(super) consumer: u32,
    pub(super) seq: u64,
}

/// Unsettled deliveries by tag. Tags rise from 1.
#[derive(Debug)]
pub(super) struct Unsettled {
    /// Tag of the first of `liens`.
    base: u64,
    liens: VecDeque<Option<Lien>>,
    count: usize,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self { base: 1, liens: VecDeque::new(), count: 0 }
    }
}

impl Unsettled {
    pub(super) fn add(&mut self, lien: Option<Lien>) -> u64 {
        let tag = self.base + self.liens.len() as u64;
        if lien.is_none() && self.liens.is_empty() {
            self.base += 1;
        } else {
            self.count += usize::from(lien.is_some());
            self.liens.push_back(lien);
        }
        tag
    }

    fn index(&self, tag: u64) -> Option<usize> {
        let index = usize::try_from(tag.checked_sub(self.base)?).ok()?;
        self.liens.get(index)?.is_some().then_some(index)
    }

    fn trim(&mut self) {
        while let Some(None) = self.liens.front() {
            self.liens.pop_front();
            self.base += 1;
        }
    }

    fn take_one(&mut self, index: usize) -> Option<Lien> {
        let lien = self.liens.get_mut(index)?.take()?;
        self.count -= 1;
        self.trim();
        Some(lien)
    }

    /// Takes the first if it is among the first `count` tags.
    fn take_front(&mut self) -> Option<Lien> {
        let lien = self.liens.pop_front().flatten();
        self.base += 1;
        self.count -= usize::from(lien.is_some());
        lien
    }

    pub(super) fn take_all(&mut self) -> Vec<Lien> {
        self.base += self.liens.len() as u64;
        self.count = 0;
        std::mem::take(&mut self.liens).into_iter().flatten().collect()
    }
}

impl Client {
    /// Settles deliveries: one, or all up to `tag` (all there are with tag 0). Gathered until the turn is flushed.
    ///
    /// # Errors
    /// `Precondition` when the tag is not one of an unsettled delivery of this session.
    pub fn settle(&mut self, session: SessionId, tag: u64, multiple: bool, outcome: Outcome) -> Result<(), Error> {
        self.take_liens(session, tag, multiple, &mut |client, lien, shared| {
            client.gather_settlement(lien, shared, outcome.verdict());
        })
    }

    /// Takes the deliveries that `tag` names out of the unsettled ones.
    pub(super) fn take_liens(
        &mut self,
        session: SessionId,
        tag: u64,
        multiple: bool,
        each: &mut dyn FnMut(&mut Self, Lien, &SharedCredit),
    ) -> Result<(), Error> {
        let entry = self.session_mut(session)?;
        let shared = Arc::clone(&entry.shared);
        let unknown = || Error::precondition(format!("unknown delivery tag {tag}"));
        if multiple && tag == 0 {
            for lien in entry.unsettled.take_all() {
                each(self, lien, &shared);
            }
            return Ok(());
        }
        let index = entry.unsettled.index(tag).ok_or_else(unknown)?;
        if !multiple {
            if let Some(lien) = entry.unsettled.take_one(index) {
                each(self, lien, &shared);
            }
            return Ok(());
        }
        for _ in 0..=index {
            let Some(entry) = self.sessions.get_mut(&session.0) else { break };
            if let Some(lien) = entry.unsettled.take_front() {
                each(self, lien, &shared);
            }
        }
        if let Some(entry) = self.sessions.get_mut(&session.0) {
            entry.unsettled.trim();
        }
        Ok(())
    }

    #[inline]
    fn gather_settlement(&mut self, lien: Lien, shared: &SharedCredit, verdict: Verdict) {
        shared.give_back(1);
        if let Some(slot) = self.touch(lien.slot) {
            slot.uses -= 1;
            slot.settlements.push(Settlement { seq: lien.seq, consumer: lien.consumer, verdict });
        }
    }

    /// Puts a delivery of an ended session back to its place.
    pub(super) fn release_lien(&mut self, lien: Lien, shared: &SharedCredit) {
        self.gather_settlement(lien, shared, Verdict::Released);
    }

    /// Puts back what was never sent.
    pub(super) fn unsend(&mut self, slot: u32, consumer: u32, seq: u64) {
        if let Some(slot) = self.touch(slot) {
            slot.settlements.push(Settlement { seq, consumer, verdict: Verdict::Unsent });
        }
    }

    /// Visits each queue that has settlements gathered.
    pub(super) fn settle_touched(&mut self) {
        let now = self.core.clock.unix_ms();
        let core = Arc::clone(&self.core);
        let client = self.shared.number;
        let mut ticket = Ticket::NONE;
        let mut accepted = 0;
        for index in 0..self.touched.len() {
            let slot = self.touched[index];
            let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { continue };
            if entry.settlements.is_empty() {
                continue;
            }
            let mut settlements = std::mem::take(&mut entry.settlements);
            let queue = Arc::clone(&entry.queue);
            let mut visit = Visit { core: &core, now, work: &mut self.work };
            ticket = ticket.max(queue.settle(&settlements, client, &mut visit));
            accepted += settlements.iter().filter(|one| one.verdict == Verdict::Accepted).count();
            settlements.clear();
            if let Some(entry) = self.slot_mut(slot) {
                entry.settlements = settlements;
            }
        }
        self.core.totals.acknowledged.add(accepted as u64);
        self.settled_ticket = self.settled_ticket.max(ticket);
        self.resume_shared();
    }

    /// Consumers that share a limit may go on where any of them had something settled.
    fn resume_shared(&mut self) {
        if !self.shares_limits {
            return;
        }
        let limited: Vec<(u32, u32)> = self
            .sessions
            .values()
            .filter(|session| session.shared.is_limited())
            .flat_map(|session| session.consumers.iter())
            .filter_map(|consumer| self.consumers.get(consumer).map(|record| (*consumer, record.slot)))
            .collect();
        for (consumer, slot) in limited {
            self.resume_consumer(consumer, slot, None);
        }
    }

    /// Puts everything that a session has not settled back to its place. Returns what the reply waits for.
    pub fn recover(&mut self, session: SessionId, now: std::time::Instant) -> Ticket {
        self.flush(now);
        let Some(entry) = self.sessions.get_mut(&session.0) else { return Ticket::NONE };
        let shared = Arc::clone(&entry.shared);
        for lien in entry.unsettled.take_all() {
            self.release_lien(lien, &shared);
        }
        self.flush(now);
        self.settled_ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lien(seq: u64) -> Lien {
        Lien { slot: 0, consumer: 1, seq }
    }

    #[test]
    fn tags_rise_whether_or_not_a_delivery_needs_settling() {
        let mut unsettled = Unsettled::default();
        assert_eq!(unsettled.add(None), 1);
        assert_eq!(unsettled.add(Some(lien(10))), 2);
        assert_eq!(unsettled.add(None), 3);
        assert_eq!(unsettled.add(Some(lien(11))), 4);
        assert_eq!(unsettled.index(1), None);
        assert_eq!(unsettled.index(3), None);
        let second = unsettled.index(4).and_then(|index| unsettled.take_one(index));
        assert_eq!(second.map(|lien| lien.seq), Some(11));
        assert_eq!(unsettled.index(4), None, "settled twice");
        assert_eq!(unsettled.take_all().len(), 1);
        assert_eq!(unsettled.add(Some(lien(12))), 5);
    }
}
