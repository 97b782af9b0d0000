//! A queue: entries in order, consumers in turn, and one lock around both.
//!
//! Every visit takes the lock once for a whole batch. The order of its steps is in `visit.rs`.
//! Effects on anything else (dead letters, deletion, timers) leave as [`arrival::Work`] for after
//! the lock.

mod accounting;
pub(crate) mod arrival;
mod bindings;
mod bitmap;
mod consumers;
mod context;
mod copying;
mod credit;
mod death;
mod deduplication;
mod delay;
mod delivery_mark;
mod departures;
mod diagnosis;
mod dispatch;
pub(crate) mod dropped;
mod enqueue;
mod entries;
mod entry_annotations;
pub(crate) mod errands;
mod exactly_once;
mod expiry;
pub(crate) mod facts;
mod features;
mod figures;
mod filter;
mod lane;
mod lanes;
mod last_value;
mod lifetime;
pub(crate) mod mailbox;
mod message_groups;
mod page;
mod paging;
mod purge;
mod rare;
mod repair;
mod retry;
mod returns;
mod rings;
#[cfg(feature = "sabotage")]
mod sabotage;
mod scan;
pub(crate) mod settle;
mod spill;
mod visit;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use journal::{Address, Bits, Chunk, LogId, Owner, Reference};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

pub(crate) use bindings::{Bound, Bounds};
pub(crate) use bitmap::Bitmap;
pub(crate) use consumers::{Active, Consumer, ConsumerKey, Resume};
pub(crate) use context::{GroupLocks, QueueContext};
use copying::Copying;
pub(crate) use credit::SharedCredit;
pub use credit::{Credit, Rest};
pub(crate) use death::{Dying, Reason, Said, reason_code};
pub(crate) use deduplication::{DeduplicatingExchange, MessageIdentity, RememberedId, SeenIds};
pub(crate) use delay::{Bucket, Delays, Dues, Span, ToSort};
pub use diagnosis::{Ages, Cause, Causes, Readiness};
pub use dispatch::Settling;
pub(crate) use dispatch::{Fetched, Unattached};
pub(crate) use entry_annotations::EntryAnnotations;
pub use exactly_once::ExactlyOnce;
pub(crate) use exactly_once::Handed;
pub(crate) use features::{Remains, RestatedBundle};
use figures::{Counts, Seldom};
pub use figures::{QueueFigures, QueueTotals};
pub(crate) use filter::Filter;
pub use filter::SelectorReport;
pub(crate) use lane::{Attendance, Coming, Entry, Indexed, Lane, Least, Placed, Runs, State};
pub(crate) use lanes::{LaneNumber, Lanes, Position, Positions, PurgeEnds, first_of, lane_of};
pub(crate) use last_value::{Keyed, LastValues, Recovered};
pub(crate) use page::{BodyPlace, Listed, Page, Past};
pub(crate) use paging::{Damage, Purpose, Task};
pub use purge::Purging;
pub(crate) use retry::Waiters;
pub(crate) use returns::Returns;
pub(crate) use scan::{Glimpse, Seized, Step, Walk};
pub(crate) use settle::{EntryOutcome, SETTLED_BEFORE, Settlement};
pub(crate) use spill::Picked;
pub(crate) use visit::{VISIT_ENTRIES, Visit};

use crate::arguments::copies::CopyRule;
use crate::arguments::{Disuse, Overflow, QueueArguments, QueueType, Remember};
use crate::memory::ledger::Declared;
use crate::message::Message;
use crate::queue::arrival::Arrival;
use crate::routing::{Load, Tally, Weight};
use crate::value::Table;

use accounting::Accounting;
use consumers::Consumers;
use departures::Departures;
use dropped::MissingTarget;
use expiry::expires_at;
use features::Features;
use filter::Views;
use lifetime::Lifetime;
use paging::Paging;
use rare::Rare;
use visit::Show;

/// Stands for a number where there was none: the one before the first of a lane is never given out.
const NO_NUMBER: u64 = 0;

thread_local! {
    /// Memory for a list of addresses, empty between uses: one for each thread, since there are
    /// many more queues.
    static ADDRESSES: Cell<Vec<Address>> = const { Cell::new(Vec::new()) };
}

/// What routing knows of a queue, beside its lock.
#[derive(Debug, Default)]
struct WaysIn {
    /// An exchange that drops duplicates has led here.
    gated: AtomicBool,
    copying: Copying,
}

/// The parts of a queue that stay the same while it lives, and the lock around the others.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: Owner,
    pub(crate) vhost: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) durable: bool,
    /// The client that it belongs to, if it is exclusive.
    pub(crate) exclusive_to: Option<u64>,
    pub(crate) auto_delete: bool,
    pub(crate) queue_type: QueueType,
    /// How long ids are remembered, where duplicates are dropped. No policy changes it.
    pub(crate) deduplication: Option<Remember>,
    /// The name of the property that is the key of a last value. No policy changes it.
    last_value_key: Option<Box<str>>,
    /// The arguments as declared.
    pub(crate) declared: Table,
    /// Batches of its dead letters that wait to be read from the disk. Entries that die later wait
    /// behind them.
    pub(crate) awaiting_read: AtomicUsize,
    /// What routing knows of it.
    ways_in: WaysIn,
    /// Set for a bucket of another queue.
    pub(crate) bucket: Option<Box<Bucket>>,
    /// Its own buckets. Locked after the catalog and before any queue.
    pub(crate) delays: Mutex<Rare<Delays>>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// The result of its own arguments and its policies.
    pub(crate) arguments: Arc<QueueArguments>,
    lanes: Lanes,
    consumers: Rare<Consumers>,
    /// Consumers with a selector, and browsers. Where messages have groups, all consumers.
    views: Rare<Views>,
    pub(crate) bindings: Bounds,
    /// The bytes of its declaration.
    weight: Weight,
    lifetime: Lifetime,
    accounting: Accounting,
    features: Features,
    paging: Rare<Paging>,
    departures: Departures,
    unsettled: usize,
    pub(crate) totals: Counts,
    pub(crate) seldom: Rare<Seldom>,
}

/// The locked queue. Ends the process when a panic begins under it: its state could not be trusted
/// any more.
pub(crate) struct Guard<'a> {
    inner: MutexGuard<'a, Inner>,
    context: &'a QueueContext,
    bytes_before: usize,
    index_before: usize,
    listed_before: usize,
    /// The thread was unwinding before: a connection whose protocol panicked is being closed.
    unwinding: bool,
}

impl std::ops::Deref for Guard<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl std::ops::DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            std::process::abort();
        }
        let index = self.inner.index_bytes();
        self.context.memory.changed(self.bytes_before + self.index_before, self.inner.bytes() + index);
        let listed = self.inner.listed_bytes();
        if listed != self.listed_before {
            self.context.memory.index_changed(self.listed_before, listed);
        }
    }
}

/// Entries of a group that has not ended: in this queue, from `first` up to `end`.
#[derive(Debug)]
pub(crate) struct HiddenRun {
    pub(crate) queue: Arc<Queue>,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// The queue was deleted before it could be visited.
#[derive(Debug)]
pub(crate) struct Gone;

/// The parts of a new queue.
pub(crate) struct QueueParts {
    pub(crate) id: Owner,
    pub(crate) vhost: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) durable: bool,
    pub(crate) exclusive_to: Option<u64>,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: QueueArguments,
    pub(crate) declared: Table,
    pub(crate) tally: Tally,
    pub(crate) bucket: Option<Bucket>,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

impl QueueParts {
    /// The bytes of the declaration.
    fn load(&self) -> Load {
        let load = Load::of_queue(&self.name, &self.declared);
        if self.durable && self.exclusive_to.is_none() { load } else { load.unlogged() }
    }
}

/// Switches between a single active consumer and many.
fn activate(consumers: &mut Rare<Consumers>, active: Active) {
    if consumers.active() != active {
        consumers.activate(active);
    }
}

/// The least that memory keeps of a page. Some queues need the lengths of the bodies, or their
/// places at any time.
fn least(accounting: &Accounting, arguments: &QueueArguments) -> Least {
    let needs = accounting.weighs() || arguments.intake.last_value_key.is_some();
    if needs { Least::Places } else { Least::Bits }
}

impl Queue {
    pub(crate) fn new(parts: QueueParts) -> Arc<Self> {
        let weight = Weight::new(&parts.tally, parts.load());
        let accounting = Accounting::new(parts.arguments.max_length_bytes);
        let mut lanes = Lanes::new();
        let last_value_key = parts.arguments.intake.last_value_key.as_deref().map(Box::from);
        lanes.keep(least(&accounting, &parts.arguments));
        let QueueArguments { queue_type, .. } = parts.arguments;
        let deduplication = parts.arguments.intake.deduplication;
        let ways_in = WaysIn { copying: Copying::by(parts.arguments.intake.copies.clone()), ..WaysIn::default() };
        let features = Features::new(&parts.arguments, parts.bucket.as_ref(), parts.now);
        let mut consumers = Rare::default();
        activate(&mut consumers, Active::of(&parts.arguments));
        let inner = Inner {
            consumers,
            arguments: parts.arguments.shared(),
            lanes,
            views: Rare::default(),
            bindings: Bounds::new(&parts.tally),
            weight,
            lifetime: Lifetime::new(parts.now),
            accounting,
            features,
            paging: Rare::default(),
            departures: Departures::default(),
            unsettled: 0,
            totals: Counts::default(),
            seldom: Rare::default(),
        };
        Arc::new(Self {
            id: parts.id,
            vhost: parts.vhost,
            name: parts.name,
            durable: parts.durable,
            exclusive_to: parts.exclusive_to,
            auto_delete: parts.auto_delete,
            queue_type,
            deduplication,
            last_value_key,
            declared: parts.declared,
            awaiting_read: AtomicUsize::new(0),
            ways_in,
            bucket: parts.bucket.map(Box::new),
            delays: Mutex::default(),
            inner: Mutex::new(inner),
        })
    }

    /// Which other queue gets copies of what this one gets.
    #[inline]
    pub(crate) fn copies(&self) -> Option<Arc<CopyRule>> {
        self.ways_in.copying.rule()
    }

    /// True when its entries and its declaration are journaled.
    pub(crate) fn logged(&self) -> bool {
        self.durable && self.exclusive_to.is_none()
    }

    /// The log in which they lie, and those of its messages.
    #[inline]
    pub(crate) fn log(&self) -> LogId {
        LogId::of(self.id)
    }

    pub(crate) fn lock<'a>(&'a self, context: &'a QueueContext) -> Guard<'a> {
        let inner = self.inner.lock();
        let (bytes_before, index_before) = (inner.bytes(), inner.index_bytes());
        let listed_before = inner.listed_bytes();
        Guard { inner, context, bytes_before, index_before, listed_before, unwinding: std::thread::panicking() }
    }

    /// The durable bindings to it. They count for no entry, so the lock needs no context.
    pub(crate) fn bounds(&self) -> MappedMutexGuard<'_, Bounds> {
        MutexGuard::map(self.inner.lock(), |inner| &mut inner.bindings)
    }

    /// The present result of its own arguments and its policies.
    pub(crate) fn arguments(&self, context: &QueueContext) -> Arc<QueueArguments> {
        Arc::clone(&self.lock(context).arguments)
    }

    /// The user that its memory counts for.
    pub(crate) fn payer(&self) -> Option<Declared> {
        self.inner.lock().weight.payer().cloned()
    }

    /// True when one more message would be refused, behind those that are `coming` and those that
    /// are hidden. Asked before a transaction is committed, and before dead letters are redriven.
    pub(crate) fn would_refuse(&self, mut coming: Coming, context: &QueueContext) -> bool {
        let inner = self.lock(context);
        if !inner.arguments.overflow.refuses() {
            return false;
        }
        inner.lanes.all().for_each(|lane| lane.add_hidden(&mut coming));
        inner.is_full_with(coming)
    }

    fn enforce_length(&self, inner: &mut Inner) {
        let QueueArguments { overflow, max_length, max_length_bytes, .. } = *inner.arguments;
        if overflow != Overflow::DropHead {
            return;
        }
        let too_many = |ready: usize| max_length.is_some_and(|limit| ready as u64 > limit);
        let mut dropped = 0;
        while too_many(inner.lanes.ready()) || inner.accounting.exceeds(max_length_bytes) {
            if dropped == VISIT_ENTRIES {
                // A policy has shortened the queue: the timer goes on.
                return inner.lifetime.note_more();
            }
            let Some(seq) = inner.lanes.first_ready() else { return };
            if !self.die(inner, seq, Reason::MaxLength) {
                return;
            }
            dropped += 1;
        }
    }

    /// Replaces the arguments and enforces them on the messages that are there too. Only their
    /// priorities stay.
    pub(crate) fn apply_arguments(self: &Arc<Self>, arguments: QueueArguments, visit: &mut Visit<'_>) {
        let mut guard = self.lock(visit.context);
        let inner = &mut *guard;
        if inner.is_deleted() || *inner.arguments == arguments {
            return;
        }
        let before = std::mem::replace(&mut inner.arguments, arguments.shared());
        let arguments = Arc::clone(&inner.arguments);
        self.ways_in.copying.set(arguments.intake.copies.clone());
        activate(&mut inner.consumers, Active::of(&arguments));
        inner.weigh(arguments.max_length_bytes);
        if before.message_ttl != arguments.message_ttl {
            let die_at = |message: &Message| expires_at(arguments.message_ttl, message, message.published_at());
            inner.lanes.all_mut().for_each(|lane| lane.age_anew(&die_at));
        }
        if before.disuse != arguments.disuse {
            inner.lifetime.touch(visit.now);
        }
        // An old timer may still fire; it then finds nothing to do.
        inner.lifetime.disarm();
        self.conclude(guard, Show::AllWithinLimits, visit);
    }

    /// Enforces its arguments after a start: a policy may have come since its messages did.
    pub(crate) fn enforce_arguments(self: &Arc<Self>, visit: &mut Visit<'_>) {
        let inner = self.lock(visit.context);
        if !inner.is_deleted() {
            self.conclude(inner, Show::AllWithinLimits, visit);
        }
    }

    /// Its subscription outlives its last consumer by this many milliseconds; `None` for as long as
    /// its arguments allow. The caller has its timer set.
    pub(crate) fn expire_after(&self, expires: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.lifetime.expire_after(expires);
        inner.lifetime.disarm();
    }

    /// When a queue without consumers expires.
    fn idle_until(&self, inner: &Inner) -> Option<u64> {
        if inner.is_attended() || inner.is_deleted() || inner.must_stay() {
            return None;
        }
        let Disuse { after, only_empty } = inner.arguments.disuse;
        if only_empty && self.is_abandoned(inner) {
            // It was not empty when its last consumer left.
            return Some(inner.lifetime.used_at());
        }
        let after = [after, inner.lifetime.expires()].into_iter().flatten().min();
        Some(inner.lifetime.used_at().saturating_add(after?))
    }

    /// True for an auto-delete queue whose last consumer has left.
    fn is_abandoned(&self, inner: &Inner) -> bool {
        self.auto_delete && inner.lifetime.had_consumer() && !inner.is_attended()
    }

    /// True for a queue that should be deleted by now: its last consumer has left, or its time
    /// without use is over.
    pub(crate) fn should_go(&self, inner: &Inner, now: u64) -> bool {
        let abandoned = self.is_abandoned(inner) && !inner.must_stay();
        abandoned || self.idle_until(inner).is_some_and(|due| due <= now)
    }

    /// Sets the timer of a queue that is new here.
    pub(crate) fn watch(self: &Arc<Self>, visit: &mut Visit<'_>) {
        let inner = self.lock(visit.context);
        self.conclude(inner, Show::Nothing, visit);
    }
}

impl Inner {
    /// True when it holds as much as it may, or more.
    fn is_full(&self) -> bool {
        self.is_full_with(Coming::default())
    }

    fn is_full_with(&self, coming: Coming) -> bool {
        let most = self.arguments.max_length;
        most.is_some_and(|most| self.lanes.ready() as u64 + coming.messages >= most)
            || self.accounting.reaches(self.arguments.max_length_bytes, coming)
    }

    /// Begins or stops to count the bytes of ready bodies.
    fn weigh(&mut self, limit: Option<u64>) {
        if self.accounting.weigh(limit, || self.lanes.weight()) {
            self.lanes.keep(least(&self.accounting, &self.arguments));
        }
    }

    /// Refuses a message, which may go to the dead-letter exchange instead. It never had a number
    /// here.
    fn refuse(&mut self, arrival: &mut Arrival) {
        let dies = self.arguments.overflow == Overflow::RejectPublishDeadLetter;
        if dies && self.arguments.dead_letters.of(Reason::MaxLength).is_some() {
            let message = Some(arrival.message().clone());
            self.departures.send_on(Dying {
                seq: NO_NUMBER,
                message,
                durable: false,
                reason: Reason::MaxLength,
                said: None,
                noted: None,
            });
        }
        if dies {
            self.seldom.died[Reason::MaxLength as usize] += 1;
        }
        arrival.refuse();
    }

    fn insert(&mut self, lane: LaneNumber, entry: Entry) -> u64 {
        self.accounting.entered(&entry);
        if entry.state == State::Ready {
            self.accounting.entered_ready(&entry);
        }
        self.lanes.push(lane, entry)
    }

    /// Puts an entry back among the ready ones, at its place.
    fn make_ready(&mut self, seq: u64) {
        self.lanes.set(seq, State::Ready);
        if !self.views.is_empty() {
            self.views.came_back(seq);
        }
        let Some(entry) = self.lanes.get_mut(seq) else { return };
        self.accounting.entered_ready(entry);
    }

    /// Takes an entry out of the ready ones.
    fn leave_ready(&mut self, seq: u64, state: State) {
        if let Some(entry) = self.lanes.get_mut(seq) {
            if entry.state == State::Ready {
                self.accounting.left_ready(entry);
            }
            self.remove_or_set(seq, state);
        }
    }

    /// Sets the state of an entry that is not among the ready ones. Returns the message of one that
    /// is done.
    #[inline]
    fn remove_or_set(&mut self, seq: u64, state: State) -> Option<Message> {
        let message = self.lanes.set(seq, state);
        self.left(seq, state, message.as_ref());
        message
    }

    /// An entry has this state now, which is none of the ready ones. It has lost the message, if
    /// there is one.
    #[inline]
    fn left(&mut self, seq: u64, state: State, message: Option<&Message>) {
        if let Some(message) = message {
            self.accounting.left(message.cost());
        }
        if matches!(state, State::Done | State::Dying) {
            self.features.left(seq, state);
        }
    }

    pub(crate) fn ready(&self) -> usize {
        self.lanes.ready()
    }

    pub(crate) fn live(&self) -> usize {
        self.lanes.live()
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// True if it has messages, and is deleted only without.
    fn must_stay(&self) -> bool {
        self.arguments.disuse.only_empty && self.live() > 0
    }

    /// True without messages, consumers and bindings.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.live() == 0 && !self.is_attended() && !self.lifetime.is_deleted() && self.bindings.len() == 0
    }

    /// Why the queue for its dead letters can't be made, if they wait for it.
    pub(crate) fn unmade(&self) -> Option<&str> {
        self.departures.unmade.as_ref().map(|unmade| &*unmade.why)
    }

    /// What was missing for its last dead letter that found nothing.
    pub(crate) fn missing_target(&self) -> Option<&MissingTarget> {
        self.departures.missing.as_deref()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.accounting.bytes()
    }

    /// The memory of everything besides messages, in bytes.
    fn index_bytes(&self) -> usize {
        self.lanes.index_bytes() + self.features.heap_bytes()
    }

    /// The cost of places in memory that the log has, or could list.
    fn listed_bytes(&self) -> usize {
        self.lanes.index_bytes().saturating_sub(self.accounting.spilled_places())
    }

    /// True when some consumer takes messages.
    #[inline]
    fn is_attended(&self) -> bool {
        !self.consumers.is_empty() || self.views.takers() > 0
    }

    /// The selectors of consumers.
    pub(crate) fn selectors(&self) -> Vec<SelectorReport> {
        self.views.report()
    }

    /// All consumers: plain ones, those with selectors, and browsers; each with whether it is
    /// active.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = (&Consumer, bool)> {
        self.consumers.with_activity().chain(self.views.consumers().map(|consumer| (consumer, true)))
    }

    pub(crate) fn consumer_count(&self) -> usize {
        self.consumers.len() + self.views.takers()
    }

    pub(crate) fn has_exclusive_consumer(&self) -> bool {
        self.consumers.exclusive() + self.views.exclusive() > 0
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.lifetime.is_deleted()
    }

    /// The queue is used: its own expiry begins again.
    pub(crate) fn touch(&mut self, now: u64) {
        self.lifetime.touch(now);
    }

    /// Takes the lanes that recovery found.
    pub(crate) fn recover(&mut self, lanes: Lanes) {
        self.accounting.recovered(lanes.live());
        self.lanes = lanes;
        self.lanes.keep(least(&self.accounting, &self.arguments));
    }

    /// Its lanes, from the last to be delivered to the first.
    pub(crate) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.all_mut().rev()
    }

    /// See [`journal::Owners::referenced`].
    pub(crate) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        self.lanes.referenced(file, found);
    }

    /// See [`journal::Owners::unsettled`].
    pub(crate) fn unsettled_of(&mut self, page: u64, bits: &mut Bits) {
        self.lanes.unsettled(page, bits);
    }

    /// See [`journal::Owners::moved`].
    pub(crate) fn moved(&mut self, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.lanes.moved(page, from, chunk, entries)
    }

    /// Why the queue has stopped delivering, if it has.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.paging.damage_text()
    }
}
