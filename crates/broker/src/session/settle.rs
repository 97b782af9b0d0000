//! Settling: a session's unsettled deliveries by tag, and the way of settlements to their queues.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use journal::Ticket;

use crate::engine::bounds::FETCH_ENTRIES;
use crate::error::Error;
use crate::message::annotations::check_notes;
use crate::queue::{EntryOutcome, Resume, Said, Settlement, VISIT_ENTRIES, Visit};
use crate::session::sessions::Session;
use crate::session::{Client, SessionId};
use crate::value::Table;

/// The deliveries of a session that a settlement names. Those that are settled already are passed
/// over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tags {
    /// This one.
    One(u64),
    /// This one and all before it; none if this one is settled already.
    UpTo(u64),
    /// All that are unsettled from the first to the last, which may be none.
    Range {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// All of them.
    All,
}

/// A client's outcome of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It leaves the queue.
    Accepted,
    /// It returns to its place in the queue. That is no failure, and counts only where all returns
    /// do.
    Released,
    /// It goes to the dead-letter exchange, or is dropped.
    Rejected {
        /// Why, in the consumer's words. The dead letter keeps the first [`SAID_MAX`] bytes of it.
        said: Option<Arc<String>>,
    },
    /// It returns as the client says.
    Modified {
        /// It counts as failed: the consumer could not do its work with it.
        failed: bool,
        /// This consumer must not get it again. The queue can't keep it from one consumer alone, so
        /// it is rejected, as in RabbitMQ.
        elsewhere: bool,
        /// What each later delivery of it shows, beside its publisher's properties. Older ones of
        /// the same names are replaced.
        annotations: Option<Arc<Table>>,
    },
}

impl Outcome {
    /// It is rejected without a word.
    pub const REJECTED: Self = Self::Rejected { said: None };
    /// It returns to its place, and counts as failed.
    pub const FAILED: Self = Self::Modified { failed: true, elsewhere: false, annotations: None };

    /// Whether a delivery may have this outcome.
    ///
    /// # Errors
    /// `Precondition` for annotations that are too large.
    pub fn check(&self) -> Result<(), Error> {
        self.annotations().map_or(Ok(()), check_notes)
    }

    #[inline]
    pub(super) fn for_entry(&self) -> (EntryOutcome, Option<Said>) {
        match self {
            Self::Accepted => (EntryOutcome::Accepted, None),
            Self::Released | Self::Modified { failed: false, elsewhere: false, .. } => (EntryOutcome::Released, None),
            Self::Modified { failed: true, elsewhere: false, .. } => (EntryOutcome::Failed, None),
            Self::Modified { elsewhere: true, .. } => (EntryOutcome::Rejected, None),
            Self::Rejected { said } => (EntryOutcome::Rejected, said.clone()),
        }
    }

    /// What is noted on the message.
    #[inline]
    pub(super) fn annotations(&self) -> Option<&Table> {
        if let Self::Modified { annotations, .. } = self { annotations.as_deref() } else { None }
    }
}

/// Stands for the consumer of a fetched message.
pub(super) const FETCHED: u32 = u32::MAX;

/// A delivery that is not settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unacked {
    pub(super) slot: u32,
    /// [`FETCHED`] for a fetched one.
    pub(super) consumer: u32,
    pub(super) seq: u64,
}

/// How many deliveries of one session were taken to be settled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// Those that its consumers had.
    consumed: u32,
    /// Those that it had fetched.
    fetched: u32,
}

impl Taken {
    #[inline]
    pub(super) fn add(&mut self, unacked: Unacked) {
        if unacked.consumer == FETCHED { self.fetched += 1 } else { self.consumed += 1 }
    }
}

/// Deliveries that are settled out of order keep their places in the list. The list is cleaned when
/// so many more places than unsettled ones are there.
const SETTLED_MAX: usize = 64;

/// Unsettled deliveries by tag. Tags rise from 1.
#[derive(Debug)]
pub(super) struct Unsettled {
    /// The next tag.
    next: u64,
    /// In the order of their tags. The first one is unsettled. Some of the others are settled and
    /// keep their places.
    deliveries: VecDeque<(u64, Option<Unacked>)>,
    count: usize,
    /// Tags that an open transaction will settle.
    aside: BTreeSet<u64>,
    /// All tags up to this one are aside. So a row of settlements that each name all of them costs
    /// each of them once.
    aside_to: u64,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self { next: 1, deliveries: VecDeque::new(), count: 0, aside: BTreeSet::new(), aside_to: 0 }
    }
}

impl Unsettled {
    /// Gives back what is kept for the next ones.
    pub(super) fn rest(&mut self) {
        if self.deliveries.is_empty() {
            self.deliveries = VecDeque::new();
        }
    }

    /// The tag of a delivery; `None` needs no settling.
    pub(super) fn add(&mut self, unacked: Option<Unacked>) -> u64 {
        let tag = self.next;
        self.next += 1;
        if unacked.is_some() {
            self.count += 1;
            self.deliveries.push_back((tag, unacked));
        }
        tag
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slot and the number of the delivery with this tag, if it is unsettled.
    pub(super) fn place_of(&self, tag: u64) -> Option<(u32, u64)> {
        let (_, unacked) = self.deliveries.get(self.index(tag)?)?;
        unacked.map(|unacked| (unacked.slot, unacked.seq))
    }

    /// How many are unsettled.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The first unsettled tag, or the next one; and the next one.
    pub(super) fn tags(&self) -> (u64, u64) {
        (self.deliveries.front().map_or(self.next, |(tag, _)| *tag), self.next)
    }

    /// All of them with their tags, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Unacked)> {
        self.deliveries.iter().filter_map(|(tag, unacked)| Some((*tag, unacked.as_ref()?)))
    }

    /// How many places in the list have lower tags than this one. If no tag before it is missing
    /// this takes no search.
    fn place(&self, tag: u64) -> usize {
        let Some(most) = tag.checked_sub(self.tags().0) else { return 0 };
        let most = usize::try_from(most).map_or(self.deliveries.len(), |most| most.min(self.deliveries.len()));
        match most.checked_sub(1).and_then(|before| self.deliveries.get(before)) {
            Some((before, _)) if *before >= tag => self.deliveries.partition_point(|(other, _)| *other < tag),
            _ => most,
        }
    }

    fn index(&self, tag: u64) -> Option<usize> {
        let index = self.place(tag);
        self.deliveries.get(index).is_some_and(|(other, unacked)| *other == tag && unacked.is_some()).then_some(index)
    }

    /// Removes places whose deliveries are settled.
    fn trim(&mut self) {
        while let Some((_, None)) = self.deliveries.front() {
            self.deliveries.pop_front();
        }
        // More places were settled since the last cleaning than are moved now.
        if self.deliveries.len() > 2 * self.count + SETTLED_MAX {
            self.deliveries.retain(|(_, unacked)| unacked.is_some());
        }
    }

    fn take_one(&mut self, index: usize) -> Option<Unacked> {
        let (tag, unacked) = self.deliveries.get_mut(index)?;
        let (tag, unacked) = (*tag, unacked.take()?);
        self.aside.remove(&tag);
        self.count -= 1;
        self.trim();
        Some(unacked)
    }

    /// Takes the first place, and its delivery if that is unsettled.
    fn take_front(&mut self) -> Option<Unacked> {
        let (tag, unacked) = self.deliveries.pop_front()?;
        self.aside.remove(&tag);
        self.count -= usize::from(unacked.is_some());
        unacked
    }

    pub(super) fn take_all(&mut self) -> Vec<Unacked> {
        self.count = 0;
        self.aside.clear();
        std::mem::take(&mut self.deliveries).into_iter().filter_map(|(_, unacked)| unacked).collect()
    }

    /// Takes all that are in no open transaction.
    fn take_free(&mut self) -> Vec<Unacked> {
        if self.aside.is_empty() {
            return self.take_all();
        }
        let free = self.deliveries.iter_mut().filter(|(tag, _)| !self.aside.contains(tag));
        let taken: Vec<_> = free.filter_map(|(_, unacked)| unacked.take()).collect();
        self.count -= taken.len();
        self.trim();
        taken
    }

    /// Takes those from `first` to `last`.
    fn take_range(&mut self, first: u64, last: u64) -> Vec<Unacked> {
        let from = self.place(first);
        let named = self.deliveries.range_mut(from..).take_while(|(tag, _)| *tag <= last);
        let taken: Vec<_> = named.filter_map(|(_, unacked)| unacked.take()).collect();
        self.count -= taken.len();
        if !self.aside.is_empty() {
            self.aside.retain(|tag| *tag < first || *tag > last);
        }
        self.trim();
        taken
    }

    /// Puts these deliveries aside, except those that were put aside before.
    /// Returns how many were looked at.
    fn put_aside(&mut self, tags: Tags, each: &mut dyn FnMut(u64)) -> usize {
        let (first, last) = match tags {
            Tags::One(tag) => (tag, tag),
            Tags::UpTo(tag) => (self.aside_to + 1, tag),
            Tags::Range { first, last } => (first, last),
            Tags::All => (self.aside_to + 1, self.next - 1),
        };
        if let Tags::One(tag) | Tags::UpTo(tag) = tags
            && (self.index(tag).is_none() || self.aside.contains(&tag))
        {
            return 0;
        }
        let named = self.deliveries.range(self.place(first)..).take_while(|(tag, _)| *tag <= last);
        let mut count = 0;
        for (tag, unacked) in named {
            count += 1;
            if unacked.is_some() && self.aside.insert(*tag) {
                each(*tag);
            }
        }
        if let Tags::UpTo(_) | Tags::All = tags {
            self.aside_to = self.aside_to.max(last);
        }
        count
    }

    /// Makes these free to be named again.
    fn take_up_again(&mut self, tags: impl IntoIterator<Item = u64>) {
        for tag in tags {
            self.aside.remove(&tag);
        }
        self.aside_to = 0;
    }

    /// Deliveries that were taken are unsettled again, in their places.
    pub(super) fn put_back(&mut self, deliveries: impl IntoIterator<Item = (u64, Unacked)>) {
        let back = deliveries.into_iter().map(|(tag, unacked)| (tag, Some(unacked)));
        let left = std::mem::take(&mut self.deliveries).into_iter().filter(|(_, unacked)| unacked.is_some());
        let mut all: Vec<_> = left.chain(back).collect();
        all.sort_unstable_by_key(|(tag, _)| *tag);
        self.count = all.len();
        self.deliveries = all.into();
    }
}

impl Client {
    /// Takes the tag of a delivery in a session, for a message that the protocol itself sends. It
    /// needs no settling. `None` if the session has ended.
    pub fn take_tag(&mut self, session: SessionId) -> Option<u64> {
        Some(self.sessions.get_mut(session)?.unsettled.add(None))
    }

    /// Settles deliveries, and returns how many. None is no error: they are settled already, or
    /// never needed it. Gathered until the turn is flushed.
    ///
    /// # Errors
    /// If the session has ended; `Precondition` for annotations that are too large.
    #[inline]
    pub fn settle(&mut self, session: SessionId, tags: Tags, outcome: &Outcome) -> Result<usize, Error> {
        outcome.check()?;
        let annotations = outcome.annotations();
        let (outcome, said) = outcome.for_entry();
        let mut taken = Taken::default();
        let count = self.take_deliveries(session, tags, &mut |client, unacked| {
            if let Some(annotations) = annotations {
                client.annotate(unacked, annotations);
            }
            taken.add(unacked);
            client.gather_settlement(unacked, outcome, said.clone());
        })?;
        self.uncount(session, taken);
        Ok(count)
    }

    /// Takes these deliveries out of the unsettled ones, and returns how many.
    pub(super) fn take_deliveries(
        &mut self,
        session: SessionId,
        tags: Tags,
        each: &mut dyn FnMut(&mut Self, Unacked),
    ) -> Result<usize, Error> {
        let entry = self.sessions.require(session)?;
        let several = match tags {
            Tags::One(tag) => {
                let index = entry.unsettled.index(tag);
                let Some(unacked) = index.and_then(|index| entry.unsettled.take_one(index)) else { return Ok(0) };
                each(self, unacked);
                return Ok(1);
            }
            Tags::UpTo(tag) => return self.take_up_to(session, tag, each),
            Tags::Range { first, last } => entry.unsettled.take_range(first, last),
            Tags::All => entry.unsettled.take_all(),
        };
        self.publisher.add_cost(several.len());
        let count = several.len();
        several.into_iter().for_each(|unacked| each(self, unacked));
        Ok(count)
    }

    fn take_up_to(
        &mut self,
        session: SessionId,
        tag: u64,
        each: &mut dyn FnMut(&mut Self, Unacked),
    ) -> Result<usize, Error> {
        let Some(index) = self.sessions.require(session)?.unsettled.index(tag) else { return Ok(0) };
        self.publisher.add_cost(index + 1);
        let mut count = 0;
        for _ in 0..=index {
            let Some(entry) = self.sessions.get_mut(session) else { break };
            if let Some(unacked) = entry.unsettled.take_front() {
                count += 1;
                each(self, unacked);
            }
        }
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.unsettled.trim();
        }
        Ok(count)
    }

    /// Puts deliveries aside that a transaction will settle, and reports their tags. They stay the
    /// session's. They can't be named again before [`Client::settle_in`],
    /// [`Client::settle_held_in`] or [`Client::take_up_again`], and [`Client::recover`] passes them
    /// over. Some protocols leave deliveries with the client after a rollback, and need this. The
    /// bare [`Client::settle_in`] gives them back to their queues.
    ///
    /// # Errors
    /// As [`Client::settle`].
    pub fn put_aside(&mut self, session: SessionId, tags: Tags, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let count = self.sessions.require(session)?.unsettled.put_aside(tags, each);
        self.publisher.add_cost(count);
        Ok(())
    }

    /// Makes deliveries that this session has put aside for one transaction free to be named again.
    pub fn take_up_again(&mut self, session: SessionId, tags: impl IntoIterator<Item = u64>) {
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.unsettled.take_up_again(tags);
        }
    }

    /// Notes something on a delivery that is about to be given back.
    pub(super) fn annotate(&mut self, unacked: Unacked, annotations: &Table) {
        let Some(queue) = self.slots.queue(unacked.slot).cloned() else { return };
        let ticket = queue.annotate(unacked.seq, annotations, &self.engine);
        self.settled.reach(ticket);
        self.publisher.add_cost(FETCH_ENTRIES);
    }

    #[inline]
    fn gather_settlement(&mut self, unacked: Unacked, outcome: EntryOutcome, said: Option<Said>) {
        if let Some(settlements) = self.slots.settle(unacked.slot) {
            settlements.push(Settlement { seq: unacked.seq, consumer: unacked.consumer, outcome, said });
        }
    }

    /// Visits each queue with gathered settlements.
    pub(super) fn settle_touched(&mut self) {
        let now = self.engine.clock.unix_ms();
        let client = self.shared.number;
        let mut ticket = Ticket::NONE;
        let mut accepted = 0;
        self.slots.settle_touched(|queue, settlements| {
            let mut visit = Visit { context: &self.engine, now, work: &mut self.work };
            // Others get at the queue between two pieces.
            for piece in settlements.chunks(VISIT_ENTRIES) {
                ticket = ticket.max(queue.settle(piece, client, &mut visit));
            }
            accepted += settlements.iter().filter(|one| one.outcome == EntryOutcome::Accepted).count();
        });
        self.engine.totals.deliveries.acknowledged.add(accepted as u64);
        self.settled.reach(ticket);
        self.resume_shared();
    }

    /// Uncounts deliveries of a session that were taken to be settled. One that has ended counts
    /// nothing any more.
    #[inline]
    pub(super) fn uncount(&mut self, session: SessionId, taken: Taken) {
        let Some(Session { shared, .. }) = self.sessions.get(session) else { return };
        if taken.fetched > 0 {
            shared.remove_fetched(taken.fetched);
        }
        if taken.consumed > 0 {
            self.receiver.return_credit(shared, taken.consumed);
        }
    }

    /// Resumes consumers that share a limit, where some of them had deliveries settled.
    pub(super) fn resume_shared(&mut self) {
        self.receiver.give_back_credit();
        if !self.receiver.shares_limits() {
            return;
        }
        let limited = self.sessions.iter().filter(|(_, session)| session.shared.is_limited());
        let limited: Vec<SessionId> = limited.map(|(session, _)| session).collect();
        for session in limited {
            self.resume_starved(session);
        }
    }

    /// Resumes the consumers of a session that its limit held back, in turn, as long as there is
    /// credit.
    pub(super) fn resume_starved(&mut self, session: SessionId) {
        let Some(shared) = self.sessions.get(session).map(|entry| Arc::clone(&entry.shared)) else { return };
        while shared.has_room()
            && let Some(consumer) = shared.next_starved()
        {
            self.resume_consumer(consumer, Resume::Credit);
        }
    }

    /// Returns all unsettled deliveries of a session to their places, except those put aside.
    /// Returns the ticket for the reply.
    pub fn recover(&mut self, session: SessionId, now: std::time::Instant) -> Ticket {
        self.flush(now);
        let Some(entry) = self.sessions.get_mut(session) else { return Ticket::NONE };
        let free = entry.unsettled.take_free();
        self.publisher.add_cost(free.len());
        let mut taken = Taken::default();
        for unacked in free {
            taken.add(unacked);
            self.gather_settlement(unacked, EntryOutcome::Released, None);
        }
        self.uncount(session, taken);
        self.flush(now);
        self.settled.ticket()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn unacked(seq: u64) -> Unacked {
        Unacked { slot: 0, consumer: 1, seq }
    }

    #[test]
    fn tags_rise_whether_or_not_a_delivery_needs_settling() {
        let mut unsettled = Unsettled::default();
        assert_eq!(unsettled.add(None), 1);
        assert_eq!(unsettled.add(Some(unacked(10))), 2);
        assert_eq!(unsettled.add(None), 3);
        assert_eq!(unsettled.add(Some(unacked(11))), 4);
        assert_eq!(unsettled.index(1), None);
        assert_eq!(unsettled.index(3), None);
        let second = unsettled.index(4).and_then(|index| unsettled.take_one(index));
        assert_eq!(second.map(|unacked| unacked.seq), Some(11));
        assert_eq!(unsettled.index(4), None, "settled twice");
        assert_eq!(unsettled.take_all().len(), 1);
        assert_eq!(unsettled.add(Some(unacked(12))), 5);
    }

    /// Each left a place behind that stayed until the first one was settled.
    #[test]
    fn what_is_settled_or_needs_no_settling_takes_no_room_behind_what_is_held() {
        let mut unsettled = Unsettled::default();
        unsettled.add(Some(unacked(1)));
        for seq in 2..100_000 {
            let tag = unsettled.add(Some(unacked(seq)));
            unsettled.add(None);
            assert_eq!(
                unsettled.index(tag).and_then(|index| unsettled.take_one(index)).map(|unacked| unacked.seq),
                Some(seq)
            );
            assert!(
                unsettled.deliveries.len() <= 2 + SETTLED_MAX,
                "{} places for one delivery",
                unsettled.deliveries.len()
            );
        }
        assert_eq!(unsettled.iter().map(|(tag, unacked)| (tag, unacked.seq)).collect::<Vec<_>>(), [(1, 1)]);
    }

    proptest! {
        /// Steps are a kind and a number: deliveries come, and are settled one by one, up to a tag
        /// or in a range, in any order.
        #[test]
        fn each_tag_is_that_of_its_delivery(steps in proptest::collection::vec((0..16_u8, 0..4000_u64), 0..1500)) {
            let (mut unsettled, mut expected, mut next) = (Unsettled::default(), BTreeMap::new(), 1_u64);
            for (kind, number) in steps {
                let tag = 1 + number % next;
                match kind {
                    0..5 => {
                        let added = (kind < 4).then_some(unacked(number));
                        prop_assert_eq!(unsettled.add(added), next);
                        expected.extend(added.map(|unacked| (next, unacked.seq)));
                        next += 1;
                    }
                    5..7 => {
                        let taken = unsettled.take_range(tag, tag + 5).into_iter().map(|unacked| unacked.seq);
                        let named: Vec<u64> = expected.range(tag..=tag + 5).map(|(tag, _)| *tag).collect();
                        let known: Vec<_> = named.iter().filter_map(|tag| expected.remove(tag)).collect();
                        prop_assert_eq!(taken.collect::<Vec<_>>(), known);
                    }
                    7..15 => {
                        let taken = unsettled.index(tag).and_then(|index| unsettled.take_one(index));
                        prop_assert_eq!(taken.map(|unacked| unacked.seq), expected.remove(&tag));
                    }
                    _ => {
                        let Some(index) = unsettled.index(tag / 8) else { continue };
                        let taken = (0..=index).filter_map(|_| unsettled.take_front()).map(|unacked| unacked.seq);
                        let taken: Vec<_> = taken.collect();
                        unsettled.trim();
                        let later = expected.split_off(&(tag / 8 + 1));
                        let earlier = std::mem::replace(&mut expected, later);
                        prop_assert_eq!(taken, earlier.into_values().collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(unsettled.len(), expected.len());
                prop_assert_eq!(unsettled.tags(), (expected.keys().next().copied().unwrap_or(next), next));
            }
            let left: Vec<_> = unsettled.iter().map(|(tag, unacked)| (tag, unacked.seq)).collect();
            prop_assert_eq!(left, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_put_aside_is_named_once_and_passed_over() {
        let mut unsettled = Unsettled::default();
        for seq in 1..=5 {
            unsettled.add((seq != 3).then_some(unacked(seq)));
        }
        // What is named, and the tags that are put aside.
        let steps: [(Tags, &[u64]); 10] = [
            (Tags::One(0), &[]),
            (Tags::One(3), &[]),
            (Tags::One(6), &[]),
            (Tags::Range { first: 2, last: 3 }, &[2]),
            (Tags::One(2), &[]),
            (Tags::UpTo(2), &[]),
            (Tags::UpTo(4), &[1, 4]),
            (Tags::Range { first: 1, last: 4 }, &[]),
            (Tags::All, &[5]),
            (Tags::All, &[]),
        ];
        for (named, expected) in steps {
            let mut tags = Vec::new();
            unsettled.put_aside(named, &mut |tag| tags.push(tag));
            assert_eq!(tags, expected, "{named:?}");
        }
        assert_eq!(unsettled.take_free().len(), 0);
        unsettled.aside.remove(&4);
        assert_eq!(unsettled.take_free().iter().map(|unacked| unacked.seq).collect::<Vec<_>>(), [4]);
        assert_eq!(unsettled.index(5).and_then(|index| unsettled.take_one(index)).map(|unacked| unacked.seq), Some(5));
        unsettled.take_up_again([1, 2]);
        let mut tags = Vec::new();
        unsettled.put_aside(Tags::UpTo(2), &mut |tag| tags.push(tag));
        assert_eq!(tags, [1, 2]);
        unsettled.take_up_again([1, 2]);
        assert_eq!(unsettled.take_free().iter().map(|unacked| unacked.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(unsettled.add(Some(unacked(6))), 6);
    }

    /// One transaction is rolled back, another one goes on.
    #[test]
    fn what_one_transaction_takes_up_stays_aside_for_another() {
        let mut unsettled = Unsettled::default();
        for seq in 1..=4 {
            unsettled.add(Some(unacked(seq)));
        }
        for one in [Tags::One(1), Tags::Range { first: 2, last: 3 }] {
            unsettled.put_aside(one, &mut |_| {});
        }
        unsettled.take_up_again([2, 3]);
        let mut tags = Vec::new();
        unsettled.put_aside(Tags::All, &mut |tag| tags.push(tag));
        assert_eq!(tags, [2, 3, 4]);
    }

    #[test]
    fn what_is_put_back_has_its_place_again() {
        let mut unsettled = Unsettled::default();
        for seq in 1..=6 {
            unsettled.add(Some(unacked(seq)));
        }
        let taken = |unsettled: &mut Unsettled, tag| {
            let index = unsettled.index(tag).unwrap();
            (tag, unsettled.take_one(index).unwrap())
        };
        let back = [5, 1, 2].map(|tag| taken(&mut unsettled, tag));
        taken(&mut unsettled, 3);
        unsettled.put_back(back);
        assert_eq!((unsettled.len(), unsettled.tags()), (5, (1, 7)));
        assert_eq!(unsettled.iter().map(|(tag, _)| tag).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        assert_eq!(unsettled.take_range(2, 4).iter().map(|unacked| unacked.seq).collect::<Vec<_>>(), [2, 4]);
    }
}
