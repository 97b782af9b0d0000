//! Messages of a queue that are not due yet. They lie in *buckets*, each for a span of time, and
//! move into the queue when their time comes.
//!
//! A bucket is a queue of its own in the log, without a name and without consumers. So a message
//! that waits long costs what any backlog on disk costs. A bucket is *sorted* only shortly before
//! its span: the due times of its messages are then in memory. Spans grow with their distance, so a
//! queue has a few hundred buckets at most, however far ahead messages are due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Weak};

use journal::{Group, Owner, Ticket};

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::arrival::{Arrival, Work};
use crate::queue::rare::Empty;
use crate::queue::{Dying, Gone, Inner, Lanes, Queue, Reason, State, Visit, settle};

/// The shortest span is two to the power of this in milliseconds: 16 s.
const SHORTEST: u32 = 14;
/// A span is at most the distance of its messages divided by two to the power of this.
const FINENESS: u32 = 6;
/// How long before its span a bucket is sorted, in milliseconds.
pub(crate) const LEAD: u64 = 5000;
/// The memory of a due time, in bytes.
const DUE_COST: usize = 32;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    /// Milliseconds since 1970.
    pub(crate) begins: u64,
    /// It lasts two to the power of this, in milliseconds.
    pub(crate) exponent: u32,
}

impl Span {
    /// The span for a message that comes at `now` and is due at `due`.
    pub(crate) fn of(due: u64, now: u64) -> Self {
        let ahead = due.saturating_sub(now).max(1);
        let exponent = ahead.ilog2().saturating_sub(FINENESS).max(SHORTEST);
        Self { begins: due >> exponent << exponent, exponent }
    }

    pub(crate) fn ends(self) -> u64 {
        self.begins.saturating_add(1 << self.exponent)
    }

    /// True when it is time to sort its bucket.
    pub(crate) fn is_near(self, now: u64) -> bool {
        self.begins <= now + LEAD
    }
}

/// The additional part of a queue that is a bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The queue that its messages go to when they are due.
    pub(crate) of: Weak<Queue>,
    pub(crate) owner: Owner,
    pub(crate) span: Span,
}

/// The buckets of a queue.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    pub(crate) buckets: BTreeMap<Span, Arc<Queue>>,
    /// The queue is deleted: no bucket is added any more.
    pub(crate) closed: bool,
    /// A visit to move due messages has been asked for.
    pub(crate) asked: bool,
}

impl Empty for Delays {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Delays> = LazyLock::new(Delays::default);
        &EMPTY
    }
}

/// How far a bucket has been looked through for due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sorted {
    #[default]
    Not,
    /// All pages before this one, and all later arrivals.
    To(u64),
    Whole,
}

/// The due times of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    /// Due time in milliseconds since 1970, and sequence number.
    order: BTreeSet<(u64, u64)>,
    sorted: Sorted,
}

impl Dues {
    /// Those of an empty bucket, sorted from the beginning.
    pub(crate) fn sorted() -> Self {
        Self { order: BTreeSet::new(), sorted: Sorted::Whole }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.order.len() * DUE_COST
    }

    /// All entries are gone.
    pub(super) fn purged(&mut self) {
        self.order.clear();
    }
}

/// The work that is left before a bucket is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToSort {
    Nothing,
    /// Sorting has not begun.
    All,
    /// This page is next.
    Page(u64),
}

impl Queue {
    /// Takes arrivals as [`Queue::publish`] does. A bucket that has ended passes them on to its
    /// queue, since they are due.
    pub(crate) fn publish_or_pass_to_successor(
        self: &Arc<Self>,
        arrivals: &mut [Arrival],
        picks: &[u32],
        visit: &mut Visit<'_>,
    ) -> Result<Ticket, Gone> {
        self.publish(arrivals, picks, visit).or_else(|gone| match self.bucket.as_ref().map(|own| own.of.upgrade()) {
            Some(Some(queue)) => queue.publish(arrivals, picks, visit),
            _ => Err(gone),
        })
    }

    /// The queue that takes arrivals for this one: itself, or the queue of a bucket that has ended.
    pub(crate) fn successor(self: Arc<Self>, context: &QueueContext) -> Arc<Self> {
        let of = self.bucket.as_ref().and_then(|bucket| bucket.of.upgrade());
        of.filter(|_| self.lock(context).is_deleted()).unwrap_or(self)
    }

    /// Takes the entries that recovery found of a bucket.
    pub(crate) fn recover_delayed(&self, lanes: Lanes, context: &QueueContext) {
        let mut inner = self.lock(context);
        inner.recover(lanes);
        inner.features.dues = Some(Box::default());
    }

    /// Its buckets, the earliest first.
    pub(crate) fn buckets(&self) -> Vec<Arc<Queue>> {
        self.delays.lock().buckets.values().cloned().collect()
    }

    /// Messages that wait for their time.
    pub(crate) fn delayed(&self, context: &QueueContext) -> u64 {
        self.buckets().iter().map(|bucket| bucket.lock(context).live() as u64).sum()
    }

    /// The queue is gone: returns its buckets, which go with it.
    pub(crate) fn close_delays(&self) -> Vec<Arc<Queue>> {
        let mut delays = self.delays.lock();
        delays.closed = true;
        std::mem::take(&mut delays.buckets).into_values().collect()
    }

    /// When a bucket needs its next visit.
    pub(super) fn next_look(&self, bucket: &Bucket, inner: &Inner) -> Option<u64> {
        let dues = inner.features.dues.as_ref().filter(|_| !inner.is_deleted())?;
        match dues.sorted {
            Sorted::Not => Some(bucket.span.begins.saturating_sub(LEAD)),
            Sorted::To(_) => None,
            Sorted::Whole => match dues.order.first() {
                Some((due, _)) => Some(*due),
                // Entries that are left can't be read, or their group has not ended.
                None if inner.lanes.live() > 0 => None,
                None => Some(bucket.span.ends()),
            },
        }
    }

    /// A bucket has new entries, in these runs from the first number up to the last. Their due
    /// times are noted if it is sorted. Messages that are due far ahead leave memory at once.
    pub(super) fn take_delayed(&self, inner: &mut Inner, runs: &[(u64, u64)], visit: &Visit<'_>) {
        let far = inner.features.dues.as_ref().is_none_or(|dues| dues.sorted == Sorted::Not);
        for (first, end) in runs {
            if far && self.logged() {
                inner.let_go_beyond(*first, *end, 0);
            }
            if far {
                continue;
            }
            for seq in *first..*end {
                let entry = inner.lanes.get_mut(seq).filter(|entry| entry.state == State::Ready);
                let due = entry.and_then(|entry| entry.message.as_ref()).map(|message| visit.context.due_of(message));
                if let (Some(due), Some(dues)) = (due, &mut inner.features.dues) {
                    dues.order.insert((due, seq));
                }
            }
            if self.logged() && visit.context.memory.is_tight() {
                inner.let_go(*first, *end, visit.context);
            }
        }
    }

    /// The next step of sorting a bucket.
    pub(crate) fn to_sort(&self, context: &QueueContext) -> ToSort {
        match self.lock(context).features.dues.as_ref().map(|dues| dues.sorted) {
            Some(Sorted::Not) => ToSort::All,
            Some(Sorted::To(page)) => ToSort::Page(page),
            Some(Sorted::Whole) | None => ToSort::Nothing,
        }
    }

    /// The first page from `number` on that has anything in it.
    pub(crate) fn page_to_sort(&self, number: u64, context: &QueueContext) -> Option<u64> {
        self.lock(context).lanes.first_page(number)
    }

    /// Notes the due times `found` in everything before `page`. Without a page the bucket is
    /// sorted.
    pub(crate) fn sorted_to(&self, page: Option<u64>, found: &[(u64, u64)], context: &QueueContext) {
        let mut inner = self.lock(context);
        if let Some(dues) = &mut inner.features.dues {
            dues.order.extend(found);
            dues.sorted = page.map_or(Sorted::Whole, Sorted::To);
        }
    }

    /// The messages of a page that are in memory.
    pub(crate) fn in_memory(&self, page: u64, context: &QueueContext) -> Vec<(u64, Message)> {
        let mut inner = self.lock(context);
        let mut found = Vec::new();
        for seq in page * journal::PAGE..(page + 1) * journal::PAGE {
            let entry = inner.lanes.get_mut(seq).filter(|entry| entry.state == State::Ready);
            found.extend(entry.and_then(|entry| entry.message.clone()).map(|message| (seq, message)));
        }
        found
    }

    /// Due times that a bucket has in memory.
    pub(crate) fn sorted_count(&self, context: &QueueContext) -> usize {
        self.lock(context).features.dues.as_ref().map_or(0, |dues| dues.order.len())
    }

    /// When the first message of a bucket is due, as far as it is sorted.
    pub(crate) fn first_due(&self, context: &QueueContext) -> Option<u64> {
        self.lock(context).features.dues.as_ref()?.order.first().map(|(due, _)| *due)
    }

    /// When the span of a bucket begins.
    pub(crate) fn begins(&self) -> Option<u64> {
        self.bucket.as_ref().map(|bucket| bucket.span.begins)
    }

    /// The first messages of a bucket that are due by `now`: time and number.
    pub(crate) fn due_by(&self, now: u64, limit: usize, context: &QueueContext) -> Vec<(u64, u64)> {
        #[cfg(feature = "sabotage")]
        let now = now + if super::sabotage::armed("early") { super::sabotage::EARLY } else { 0 };
        let inner = self.lock(context);
        let order = inner.features.dues.iter().flat_map(|dues| &dues.order);
        order.take_while(|(due, _)| *due <= now).take(limit).copied().collect()
    }

    /// The pages of these entries that are not in memory.
    pub(crate) fn pages_to_place(&self, due: &[(u64, u64)], context: &QueueContext) -> Vec<u64> {
        let mut inner = self.lock(context);
        let mut pages: Vec<u64> = due.iter().map(|(_, seq)| seq / journal::PAGE).collect();
        pages.dedup();
        pages.retain(|page| inner.lanes.absent_chunks_of(*page).is_some());
        pages
    }

    /// Takes entries that are due out of a bucket; from here on they are on their way. Entries that
    /// are gone were purged. Entries without a place in one of the pages `damaged` stay. Those
    /// whose page has become absent again are left in `due`.
    pub(crate) fn take_due(&self, due: &mut Vec<(u64, u64)>, damaged: &[u64], context: &QueueContext) -> Vec<Dying> {
        let mut inner = self.lock(context);
        let mut taken = Vec::with_capacity(due.len());
        due.retain(|(at, seq)| {
            let page = seq / journal::PAGE;
            if !damaged.contains(&page) && inner.lanes.absent_chunks_of(page).is_some() {
                return true;
            }
            if let Some(dues) = &mut inner.features.dues {
                dues.order.remove(&(*at, *seq));
            }
            if let Some(entry) = inner.lanes.get_mut(*seq).filter(|entry| entry.state == State::Ready) {
                let (message, durable) = (entry.message.clone(), entry.is_durable());
                taken.push(Dying { seq: *seq, message, durable, reason: Reason::Expired, said: None, noted: None });
                inner.leave_ready(*seq, State::Dying);
            }
            false
        });
        taken
    }

    /// Logs that these entries have moved on, as part of `group`, and forgets them.
    pub(crate) fn depart(&self, gone: &[u64], group: Option<Group>, context: &QueueContext) {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return;
        }
        for seq in gone {
            // Where it lies now: its body may have been moved meanwhile.
            if let Some(address) = inner.lanes.get_mut(*seq).and_then(|entry| entry.address) {
                inner.departures.settle(*seq, address, settle::DUE);
            }
            inner.remove_or_set(*seq, State::Done);
        }
        self.log_settled_in(&mut inner, group, context);
    }

    /// Sets the timer of a bucket to this time.
    pub(crate) fn look_at(self: &Arc<Self>, at: u64, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        if !inner.is_deleted() && inner.lifetime.arm(at) {
            visit.work.push(Work::Arm { queue: Arc::clone(self), at });
        }
    }

    /// When a bucket needs its next visit, if that is known.
    pub(crate) fn looks_at(&self, context: &QueueContext) -> Option<u64> {
        let bucket = self.bucket.as_ref()?;
        self.next_look(bucket, &self.lock(context))
    }

    /// True for a bucket that is empty, and will stay so.
    pub(crate) fn is_spent(&self, now: u64, context: &QueueContext) -> bool {
        self.bucket.as_ref().is_some_and(|bucket| bucket.span.ends() <= now) && self.lock(context).live() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_what_is_due_and_grows_with_the_distance() {
        let now = 1_700_000_000_000;
        for (ahead, lasts) in [
            (0, 16_384),
            (1, 16_384),
            (60_000, 16_384),
            (2_097_151, 16_384),
            (2_097_152, 32_768),
            (86_400_000, 1_048_576),
            (315_360_000_000, 4_294_967_296),
        ] {
            let due = now + ahead;
            let span = Span::of(due, now);
            assert_eq!(span.ends() - span.begins, lasts, "{ahead}");
            assert!(span.begins <= due && due < span.ends(), "{ahead}");
            assert!(span.is_near(due), "{ahead}");
        }
    }

    #[test]
    fn there_are_few_spans_however_far_ahead_messages_are_due() {
        let now = 1_700_000_000_000;
        let mut spans = BTreeSet::new();
        let mut ahead = 1;
        while ahead < 315_360_000_000 {
            spans.insert(Span::of(now + ahead, now));
            ahead += (ahead / 1000).max(1);
        }
        assert!(spans.len() < 1500, "{}", spans.len());
    }
}
