//! Settling: a session's unsettled deliveries by tag, and how settlements reach their queues.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use journal::Ticket;

use crate::error::Error;
use crate::queue::{Settlement, SharedCredit, Verdict, Visit};
use crate::session::turn::QueueSlot;
use crate::session::{Client, SessionId};

/// What a client makes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done with: it leaves the queue.
    Accepted,
    /// Back to its place in the queue.
    Released,
    /// The same, since the consumer could not do with it what it should: it counts as failed where that matters.
    Failed,
    /// To the dead-letter exchange, or away.
    Rejected,
}

impl Outcome {
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self::Accepted => Verdict::Accepted,
            Self::Released => Verdict::Released,
            Self::Failed => Verdict::Failed,
            Self::Rejected => Verdict::Rejected,
        }
    }
}

/// Stands for a consumer where there was none.
pub(super) const FETCHED: u32 = u32::MAX;

/// A delivery that is not settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lien {
    pub(super) slot: u32,
    /// [`FETCHED`] for one that was fetched.
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
    /// Tags that an open transaction is going to settle.
    aside: BTreeSet<u64>,
    /// All up to this tag are aside, so that a row of settlements, each of all there are, costs each of them once.
    aside_to: u64,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self { base: 1, liens: VecDeque::new(), count: 0, aside: BTreeSet::new(), aside_to: 0 }
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

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many are unsettled.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The tag of the first that is not settled, or the next one; and the next one to be given out.
    pub(super) fn tags(&self) -> (u64, u64) {
        (self.base, self.base + self.liens.len() as u64)
    }

    /// All of them with their tags, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Lien)> {
        (self.base..).zip(&self.liens).filter_map(|(tag, lien)| Some((tag, lien.as_ref()?)))
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
        self.aside.remove(&(self.base + index as u64));
        self.count -= 1;
        self.trim();
        Some(lien)
    }

    /// Takes the first if it is among the first `count` tags.
    fn take_front(&mut self) -> Option<Lien> {
        let lien = self.liens.pop_front().flatten();
        self.aside.remove(&self.base);
        self.base += 1;
        self.count -= usize::from(lien.is_some());
        lien
    }

    pub(super) fn take_all(&mut self) -> Vec<Lien> {
        self.base += self.liens.len() as u64;
        self.count = 0;
        self.aside.clear();
        std::mem::take(&mut self.liens).into_iter().flatten().collect()
    }

    /// Takes all that no open transaction is going to settle.
    fn take_free(&mut self) -> Vec<Lien> {
        if self.aside.is_empty() {
            return self.take_all();
        }
        let tags = self.base..;
        let free = self.liens.iter_mut().zip(tags).filter(|(_, tag)| !self.aside.contains(tag));
        let taken: Vec<_> = free.filter_map(|(lien, _)| lien.take()).collect();
        self.count -= taken.len();
        self.trim();
        taken
    }

    /// Puts aside what `tag` names; None when it is not that of an unsettled delivery, or was put aside before.
    fn put_aside(&mut self, tag: u64, multiple: bool, each: &mut dyn FnMut(u64)) -> Option<()> {
        let all = multiple && tag == 0;
        if !all && (self.index(tag).is_none() || self.aside.contains(&tag)) {
            return None;
        }
        let last = if all { self.base + self.liens.len() as u64 - 1 } else { tag };
        let first = if multiple { self.base.max(self.aside_to + 1) } else { tag };
        for tag in first..=last {
            if self.index(tag).is_some() && self.aside.insert(tag) {
                each(tag);
            }
        }
        if multiple {
            self.aside_to = self.aside_to.max(last);
        }
        Some(())
    }

    fn take_up_again(&mut self) {
        self.aside.clear();
        self.aside_to = 0;
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
        each: &mut dyn FnMut(&mut Self, Lien, &Arc<SharedCredit>),
    ) -> Result<(), Error> {
        let entry = self.session_mut(session)?;
        let shared = Arc::clone(&entry.shared);
        if multiple && tag == 0 {
            for lien in entry.unsettled.take_all() {
                each(self, lien, &shared);
            }
            return Ok(());
        }
        let index = entry.unsettled.index(tag).ok_or_else(|| unknown_tag(tag))?;
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

    /// Puts deliveries aside that a transaction is going to settle, and reports their tags: one, or all up to `tag` (all
    /// there are with tag 0). They stay the session's, but nobody names them again before [`Client::settle_in`] or
    /// [`Client::take_up_again`], and [`Client::recover`] passes them over. This is for a protocol in which a rollback
    /// leaves deliveries with the client; the bare [`Client::settle_in`] gives them back to their queues.
    ///
    /// # Errors
    /// `Precondition` when the tag is not one of an unsettled delivery of this session, or was put aside before.
    pub fn put_aside(
        &mut self,
        session: SessionId,
        tag: u64,
        multiple: bool,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let aside = self.session_mut(session)?.unsettled.put_aside(tag, multiple, each);
        aside.ok_or_else(|| unknown_tag(tag))
    }

    /// What this session has put aside is unsettled again.
    pub fn take_up_again(&mut self, session: SessionId) {
        if let Some(entry) = self.sessions.get_mut(&session.0) {
            entry.unsettled.take_up_again();
        }
    }

    #[inline]
    fn gather_settlement(&mut self, lien: Lien, shared: &Arc<SharedCredit>, verdict: Verdict) {
        self.uncount(lien, shared);
        if let Some(slot) = self.touch(lien.slot) {
            slot.uses -= 1;
            slot.settlements.push(Settlement { seq: lien.seq, consumer: lien.consumer, verdict });
        }
    }

    /// Puts a delivery of an ended session back to its place.
    pub(super) fn release_lien(&mut self, lien: Lien, shared: &Arc<SharedCredit>) {
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
        let client = self.shared.number;
        let mut ticket = Ticket::NONE;
        let mut accepted = 0;
        for slot in &self.touched {
            let Some(QueueSlot { queue, settlements, .. }) = &mut self.slots[*slot as usize] else { continue };
            if settlements.is_empty() {
                continue;
            }
            let mut visit = Visit { core: &self.core, now, work: &mut self.work };
            ticket = ticket.max(queue.settle(settlements, client, &mut visit));
            accepted += settlements.iter().filter(|one| one.verdict == Verdict::Accepted).count();
            settlements.clear();
        }
        self.core.totals.acknowledged.add(accepted as u64);
        self.settled_ticket = self.settled_ticket.max(ticket);
        self.resume_shared();
    }

    /// A delivery of the session that `shared` is of is settled.
    pub(super) fn uncount(&mut self, lien: Lien, shared: &Arc<SharedCredit>) {
        if lien.consumer == FETCHED {
            shared.remove_fetched();
        } else {
            self.return_credit(shared);
        }
    }

    /// Credit that several consumers share comes back when the queues have been visited: else the queue that something
    /// was settled in would have it back each time.
    fn return_credit(&mut self, shared: &Arc<SharedCredit>) {
        if !self.shares_limits {
            shared.give_back(1);
            return;
        }
        match self.returning.last_mut() {
            Some((last, count)) if Arc::ptr_eq(last, shared) => *count += 1,
            _ => self.returning.push((Arc::clone(shared), 1)),
        }
    }

    /// Consumers that share a limit may go on where any of them had something settled.
    pub(super) fn resume_shared(&mut self) {
        for (shared, count) in self.returning.drain(..) {
            shared.give_back(count);
        }
        if !self.shares_limits {
            return;
        }
        let limited = self.sessions.iter().filter(|(_, session)| session.shared.is_limited());
        let limited: Vec<u32> = limited.map(|(number, _)| *number).collect();
        for session in limited {
            self.resume_in_turn(session);
        }
    }

    /// Lets the consumers of a session try again, that one first which comes after the last one that found credit. Where
    /// some is left, messages may still be on their way from the disk: then another one is first the next time.
    fn resume_in_turn(&mut self, session: u32) {
        let Some(entry) = self.sessions.get(&session).filter(|entry| !entry.consumers.is_empty()) else { return };
        let (shared, mut consumers) = (Arc::clone(&entry.shared), entry.consumers.clone());
        let (first, count) = (entry.first_in_turn % consumers.len(), consumers.len());
        consumers.rotate_left(first);
        let mut served = 0;
        for consumer in consumers {
            if !shared.has_room() {
                break;
            }
            if let Some(slot) = self.consumers.get(&consumer).and_then(|record| record.slot) {
                self.resume_consumer(consumer, slot, None);
            }
            served += 1;
        }
        let passed = if shared.has_room() { 1 } else { served };
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.first_in_turn = (first + passed) % count;
        }
    }

    /// Puts everything that a session has not settled back to its place, but for what it has put aside. Returns what the
    /// reply waits for.
    pub fn recover(&mut self, session: SessionId, now: std::time::Instant) -> Ticket {
        self.flush(now);
        let Some(entry) = self.sessions.get_mut(&session.0) else { return Ticket::NONE };
        let shared = Arc::clone(&entry.shared);
        for lien in entry.unsettled.take_free() {
            self.release_lien(lien, &shared);
        }
        self.flush(now);
        self.settled_ticket
    }
}

fn unknown_tag(tag: u64) -> Error {
    Error::precondition(format!("unknown delivery tag {tag}"))
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
    #[test]
    fn what_is_put_aside_is_named_once_and_passed_over() {
        let mut unsettled = Unsettled::default();
        for seq in 1..=5 {
            unsettled.add((seq != 3).then_some(lien(seq)));
        }
        // Tag and multiple, and what is put aside; none is a refusal.
        let steps: [(u64, bool, Option<&[u64]>); 9] = [
            (0, false, None),
            (3, false, None),
            (6, false, None),
            (2, false, Some(&[2])),
            (2, false, None),
            (2, true, None),
            (4, true, Some(&[1, 4])),
            (0, true, Some(&[5])),
            (0, true, Some(&[])),
        ];
        for (tag, multiple, expected) in steps {
            let mut tags = Vec::new();
            let known = unsettled.put_aside(tag, multiple, &mut |tag| tags.push(tag));
            assert_eq!(known.map(|()| tags.as_slice()), expected, "{tag} {multiple}");
        }
        assert_eq!(unsettled.take_free().len(), 0);
        unsettled.aside.remove(&4);
        assert_eq!(unsettled.take_free().iter().map(|lien| lien.seq).collect::<Vec<_>>(), [4]);
        assert_eq!(unsettled.index(5).and_then(|index| unsettled.take_one(index)).map(|lien| lien.seq), Some(5));
        unsettled.take_up_again();
        let mut tags = Vec::new();
        unsettled.put_aside(2, true, &mut |tag| tags.push(tag));
        assert_eq!(tags, [1, 2]);
        unsettled.take_up_again();
        assert_eq!(unsettled.take_free().iter().map(|lien| lien.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(unsettled.add(Some(lien(6))), 6);
    }
}
