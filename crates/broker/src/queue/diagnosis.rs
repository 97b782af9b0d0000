//! Why messages do not go through a queue: the causes that hold now, and the times behind them.
//!
//! All is read under the queue's lock, from what the queue keeps anyway. No message is read from
//! the disk, no page is opened, and nothing of it costs a delivery anything.

use crate::queue::filter::Passed;
use crate::queue::{Consumer, Entry, Inner, Queue, QueueContext};

/// An entry that came back so often goes in circles.
const LOOP: u32 = 5;
/// Where returns are not counted: so many redeliveries since the start, and so many for each
/// acknowledgement.
const LOOP_REDELIVERED: u64 = 20;
const LOOP_SHARE: u64 = 4;
/// A queue in which nothing happens for so many milliseconds has no publishers.
const SILENT: u64 = 60_000;
/// For so many milliseconds it is told that a dead letter found nothing.
const OF_LATE: u64 = 600_000;

/// Why messages do not go through a queue, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A message can't be read, and nothing is delivered past it.
    Damaged,
    /// Messages that died wait, since their dead-letter queue can't be made.
    DeadLettersWait,
    /// Messages are ready, and no consumer takes any.
    NoConsumers,
    /// Only one consumer at a time is active, and this one takes none.
    SingleActive,
    /// The consumers hold as many deliveries as they may.
    OutOfCredit,
    /// The connections of the consumers are not read: what was delivered waits for them.
    SlowReader,
    /// No selector of a consumer that has credit is true of a message that is ready.
    NotSelected,
    /// The messages that are ready belong to groups of other consumers.
    GroupHeld,
    /// A message is delivered and returned again and again.
    RedeliveryLoop,
    /// All messages wait for their time.
    Delayed,
    /// The next message is being read from the disk, or the flush before its delivery is not over.
    WaitsForDisk,
    /// The queue refuses messages, since it holds as many as it may.
    Full,
    /// An alarm stops publishers.
    Alarm,
    /// Dead letters were dropped of late, since what they should go to is not there.
    NoTarget,
    /// The queue is empty, and nothing has come for a while.
    NoPublishes,
}

impl Cause {
    /// All of them, the gravest first.
    pub const ALL: [Self; 15] = [
        Self::Damaged,
        Self::DeadLettersWait,
        Self::NoConsumers,
        Self::SingleActive,
        Self::OutOfCredit,
        Self::SlowReader,
        Self::NotSelected,
        Self::GroupHeld,
        Self::RedeliveryLoop,
        Self::Delayed,
        Self::WaitsForDisk,
        Self::Full,
        Self::Alarm,
        Self::NoTarget,
        Self::NoPublishes,
    ];

    /// Its name for programs, which stays.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::DeadLettersWait => "dead_letters_wait",
            Self::NoConsumers => "no_consumers",
            Self::SingleActive => "single_active_idle",
            Self::OutOfCredit => "consumers_out_of_credit",
            Self::SlowReader => "slow_reader",
            Self::NotSelected => "selector_mismatch",
            Self::GroupHeld => "group_locked",
            Self::RedeliveryLoop => "redelivery_loop",
            Self::Delayed => "delayed",
            Self::WaitsForDisk => "waits_for_disk",
            Self::Full => "queue_full",
            Self::Alarm => "alarm",
            Self::NoTarget => "dead_letter_unroutable",
            Self::NoPublishes => "producer_silent",
        }
    }

    /// True for a cause that stops messages and does not pass by itself.
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::Delayed | Self::WaitsForDisk | Self::NoTarget | Self::NoPublishes)
    }
}

/// The causes that hold for a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes(u16);

impl Causes {
    /// Whether one of them stops the queue for itself, so that it is stuck.
    pub(crate) fn has_trouble(self) -> bool {
        self.iter().any(|cause| cause.is_trouble() && cause != Cause::Alarm)
    }

    /// One more cause holds.
    pub(crate) fn add(&mut self, cause: Cause) {
        self.0 |= 1 << cause as u16;
    }

    fn note(&mut self, cause: Option<Cause>) {
        cause.into_iter().for_each(|cause| self.add(cause));
    }

    /// All of them, the gravest first.
    pub fn iter(self) -> impl Iterator<Item = Cause> {
        Cause::ALL.into_iter().filter(move |cause| self.0 & (1 << *cause as u16) != 0)
    }

    /// The gravest one.
    pub fn first(self) -> Option<Cause> {
        self.iter().next()
    }
}

impl FromIterator<Cause> for Causes {
    fn from_iter<T: IntoIterator<Item = Cause>>(causes: T) -> Self {
        let mut all = Self::default();
        causes.into_iter().for_each(|cause| all.add(cause));
        all
    }
}

/// Whether a consumer would take a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It would.
    #[default]
    Ready,
    /// It waits until the active consumer goes.
    NotActive,
    /// It, or its session, holds as many deliveries as it may.
    OutOfCredit,
    /// Its connection is not read.
    NotReading {
        /// The bytes of deliveries that wait for it.
        bytes: u64,
    },
}

impl Readiness {
    /// That of an active consumer of a queue.
    pub(crate) fn of(consumer: &Consumer) -> Self {
        if !consumer.may_hold_more() {
            Self::OutOfCredit
        } else if consumer.mailbox.room() == 0 {
            Self::NotReading { bytes: consumer.mailbox.bytes() as u64 }
        } else {
            Self::Ready
        }
    }
}

/// The times behind a diagnosis, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// When the next message was published; unknown while only the disk has it.
    pub oldest_ready: Option<u64>,
    /// When the oldest message was published that consumers hold.
    pub oldest_unsettled: Option<u64>,
    /// When the first message is due that waits for its time, or the earliest time that is
    /// possible.
    pub next_due: Option<u64>,
    /// When anything last happened to the queue.
    pub active: u64,
}

impl Queue {
    /// The causes that its own state shows; so many messages of it are not due.
    pub(crate) fn causes(&self, inner: &mut Inner, delayed: u64, context: &QueueContext) -> Causes {
        let mut causes = Causes::default();
        causes.note(inner.damage().is_some().then_some(Cause::Damaged));
        if inner.ready() > 0 {
            self.add_of_delivery(inner, &mut causes);
        }
        let is_still = inner.ready() + inner.unsettled() == 0;
        causes.note(inner.goes_in_circles().then_some(Cause::RedeliveryLoop));
        causes.note(inner.unmade().map(|_| Cause::DeadLettersWait));
        causes.note((inner.ready() == 0 && delayed > 0).then_some(Cause::Delayed));
        causes.note((inner.arguments.overflow.refuses() && inner.is_full()).then_some(Cause::Full));
        let now = context.clock.unix_ms();
        let missed = inner.missing_target().is_some_and(|missing| now.saturating_sub(missing.at) < OF_LATE);
        causes.note(missed.then_some(Cause::NoTarget));
        let silent_for = now.saturating_sub(inner.lifetime.active_at());
        causes.note((is_still && delayed == 0 && silent_for >= SILENT).then_some(Cause::NoPublishes));
        causes
    }

    /// Why ready messages are not delivered.
    fn add_of_delivery(&self, inner: &mut Inner, causes: &mut Causes) {
        if !inner.is_attended() {
            return causes.add(Cause::NoConsumers);
        }
        let of = |(consumer, active)| if active { Readiness::of(consumer) } else { Readiness::NotActive };
        let plain = || inner.consumers.with_activity().map(of);
        let takers = || plain().chain(inner.views.takers_ready());
        if takers().any(|one| one == Readiness::Ready) {
            let plain_waits = plain().any(|one| one == Readiness::Ready);
            let passed = inner.views.made_mut().map_or(Passed::No, |views| views.passed(&inner.lanes));
            let stopped = !plain_waits && passed == Passed::All;
            let has_groups = inner.features.groups.is_some();
            causes.note((stopped && has_groups).then_some(Cause::GroupHeld));
            causes.note((stopped && !has_groups).then_some(Cause::NotSelected));
            causes.note(
                (passed == Passed::Looks || (plain_waits && self.waits_for_disk(inner))).then_some(Cause::WaitsForDisk),
            );
            return;
        }
        let waiting = takers().filter(|one| *one == Readiness::NotActive).count();
        causes.note((waiting > 0).then_some(Cause::SingleActive));
        causes.note(takers().any(|one| one == Readiness::OutOfCredit).then_some(Cause::OutOfCredit));
        causes.note(takers().any(|one| matches!(one, Readiness::NotReading { .. })).then_some(Cause::SlowReader));
    }

    /// True while the next message is only on the disk, or its delivery waits for a flush.
    fn waits_for_disk(&self, inner: &mut Inner) -> bool {
        let Some(seq) = inner.lanes.first_ready() else { return false };
        let Some(entry) = inner.lanes.entry_of(seq).filter(|entry| entry.message.is_some()) else { return true };
        let durable = self.logged() && entry.is_durable();
        durable && inner.lanes.of_mut(seq).is_some_and(|lane| seq >= lane.mark.at())
    }

    /// The times behind a diagnosis.
    pub(crate) fn ages(&self, context: &QueueContext) -> Ages {
        let buckets = self.buckets();
        let dues = buckets.iter().filter(|bucket| bucket.lock(context).live() > 0);
        let due = dues.filter_map(|bucket| bucket.first_due(context).or_else(|| bucket.begins())).min();
        let mut inner = self.lock(context);
        Ages {
            oldest_ready: inner.oldest_ready(),
            oldest_unsettled: inner.oldest_unsettled(),
            next_due: due.into_iter().chain(inner.next_waking()).min(),
            active: inner.lifetime.active_at(),
        }
    }
}

impl Inner {
    /// When the next message was published, if memory has it.
    pub(super) fn oldest_ready(&mut self) -> Option<u64> {
        let seq = self.lanes.first_ready()?;
        published(self.lanes.entry_of(seq)?)
    }

    /// When the oldest message was published that consumers hold.
    pub(super) fn oldest_unsettled(&self) -> Option<u64> {
        published(self.lanes.oldest_out()?)
    }

    /// True when its oldest message comes back again and again.
    fn goes_in_circles(&mut self) -> bool {
        let totals = self.totals();
        let often = totals.redelivered >= LOOP_REDELIVERED && totals.redelivered > LOOP_SHARE * totals.acknowledged;
        let next = self.lanes.first_ready();
        let entries = [next.and_then(|seq| self.lanes.entry_of(seq)), self.lanes.oldest_out()];
        entries.into_iter().flatten().any(|one| one.past.is_redelivered() && (often || one.returns.came_back() >= LOOP))
    }
}

fn published(entry: &Entry) -> Option<u64> {
    entry.message.as_ref().map(|message| message.published_at())
}
