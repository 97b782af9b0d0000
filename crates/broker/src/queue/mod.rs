//! A queue: entries in order, consumers in turn, and one lock around both.
//!
//! Every visit takes the lock once for a whole batch. A visit logs first and shows afterwards: the reference of an entry
//! is in the journal's buffer before any consumer can see it. Whoever makes the queue deliverable dispatches, in the same
//! visit. Effects on anything else (dead letters, deletion, timers) leave as [`Work`] for after the lock.

mod away;
mod bitmap;
mod consumers;
mod dispatch;
mod dying;
mod lane;
mod page;
mod repair;
#[cfg(feature = "sabotage")]
mod sabotage;
mod settle;
mod spill;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Waker;

use journal::{Address, Bits, Chunk, Group, Owner, Reference, Ticket};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use away::Task;
pub(crate) use bitmap::Bitmap;
pub(crate) use consumers::{Consumer, ConsumerKey, SharedCredit};
pub(crate) use dispatch::{Fetched, Unattached};
pub(crate) use dying::{Dying, Reason, reason_code};
pub(crate) use lane::{Entry, Lane, Placed, State};
pub(crate) use page::{Listed, Page, Place};
pub(crate) use settle::{SETTLED_BEFORE, Settlement, Verdict};
pub(crate) use spill::Picked;

use crate::catalog::arguments::{Overflow, QueueArguments};
use crate::core::Core;
use crate::message::Message;
use crate::message::value::Table;
use crate::session::turn::{Arrival, Work};

use consumers::Consumers;

/// What an entry costs in memory besides its message's block, in bytes.
pub(crate) const ENTRY_COST: usize = 96;

thread_local! {
    /// Memory for a list of addresses, empty between uses: one for each thread, since there are many more queues.
    static ADDRESSES: Cell<Vec<Address>> = const { Cell::new(Vec::new()) };
}

/// What stays the same while a queue lives.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: Owner,
    pub(crate) vhost: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) durable: bool,
    /// The client that it belongs to, if it is exclusive.
    pub(crate) exclusive_to: Option<u64>,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: Arc<QueueArguments>,
    /// The arguments as declared.
    pub(crate) declared: Table,
    /// Batches of its dead letters that wait to be read from the disk; what dies later waits behind them.
    pub(crate) mourned: AtomicUsize,
    inner: Mutex<Inner>,
}

/// A durable binding to this queue, kept here so that the queue can be restated and deleted without a search.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) exchange: Owner,
    pub(crate) key: String,
    /// By name: their order makes no other binding.
    pub(crate) arguments: Table,
}

impl Bound {
    pub(crate) fn new(exchange: Owner, key: &str, arguments: &Table) -> Self {
        let mut arguments = arguments.clone();
        arguments.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { exchange, key: key.to_owned(), arguments }
    }
}

/// Adds a binding to those of a queue or an exchange, most of which have one.
pub(crate) fn keep_binding(list: &mut Vec<Bound>, bound: Bound) {
    list.reserve_exact(usize::from(list.is_empty()));
    list.push(bound);
}

/// Totals since start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueTotals {
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    pub(crate) acknowledged: u64,
}

#[derive(Debug)]
pub(crate) struct Inner {
    lane: Lane,
    consumers: Consumers,
    pub(crate) bindings: Vec<Bound>,
    deleted: bool,
    had_consumer: bool,
    /// Logged: every durable entry below it may have been delivered.
    mark: u64,
    /// The entry behind the last one that was delivered.
    delivered_to: u64,
    /// A higher mark is on its way to the disk: it counts once the ticket is durable.
    mark_rising: Option<(u64, Ticket)>,
    /// What the messages cost that are in memory.
    bytes: usize,
    /// Bytes of the messages in memory that are ready.
    resident: usize,
    /// Entries that are not done and whose body was spilled.
    spilled: usize,
    /// Messages are on their way to be spilled.
    spilling: bool,
    /// Bytes of the bodies that are ready, where their sum is limited; and the entries that nobody has weighed since the
    /// start, which count nothing.
    ready_bytes: u64,
    unweighed: usize,
    weighs: bool,
    /// Somebody has been asked to read what is away.
    loading: bool,
    /// The first ready entry must be known, and its page is absent.
    head_wanted: bool,
    /// When a message dies of age that was read for nothing else: its number, and milliseconds since 1970.
    peeked: Option<(u64, u64)>,
    /// The first entry that was read last: its message stays until somebody takes it, or nobody ever would.
    kept: Option<u64>,
    /// Clients that wait for a message that is away.
    fetchers: Vec<Waker>,
    /// Why the first ready entry can't be read.
    damage: Option<String>,
    /// Deaths whose decision is logged and whose move waits for room.
    decided: BTreeMap<u64, Reason>,
    unsettled: usize,
    /// When the timer for this queue will fire, in milliseconds since 1970.
    pub(crate) timer_at: u64,
    /// When it was last used, for its own expiry.
    pub(crate) used_at: u64,
    /// Entries that this visit settled by itself or for a client, to be logged at its end.
    settled: Vec<settle::Settled>,
    dying: Vec<Dying>,
    #[cfg(feature = "sabotage")]
    held_back: sabotage::HeldBack,
    /// Deaths since start, by reason.
    pub(crate) died: [u64; 4],
    pub(crate) totals: QueueTotals,
}

/// The locked queue. Ends the process when a panic begins under it: its state could not be trusted any more.
pub(crate) struct Guard<'a> {
    inner: MutexGuard<'a, Inner>,
    core: &'a Core,
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
        let index = self.inner.lane.index_bytes();
        self.core.memory.changed(self.bytes_before + self.index_before, self.inner.bytes + index);
        let listed = self.inner.listed_bytes();
        if listed != self.listed_before {
            self.core.memory.index_changed(self.listed_before, listed);
        }
    }
}

/// The circumstances of one visit, and what it leaves to be done.
pub(crate) struct Visit<'a> {
    pub(crate) core: &'a Core,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) work: &'a mut Vec<Work>,
}

/// The queue was deleted before it could be visited.
#[derive(Debug)]
pub(crate) struct Gone;

/// What a new queue is.
pub(crate) struct QueueParts {
    pub(crate) id: Owner,
    pub(crate) vhost: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) durable: bool,
    pub(crate) exclusive_to: Option<u64>,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: QueueArguments,
    pub(crate) declared: Table,
    pub(crate) next_seq: u64,
    pub(crate) mark: u64,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

impl Queue {
    pub(crate) fn new(parts: QueueParts) -> Arc<Self> {
        let weighs = parts.arguments.max_length_bytes.is_some();
        let mut lane = Lane::starting_at(parts.next_seq);
        // Of entries in other pages nobody knows how long their bodies are.
        lane.keep_hot(weighs);
        let inner = Inner {
            lane,
            consumers: Consumers::default(),
            bindings: Vec::new(),
            deleted: false,
            had_consumer: false,
            mark: parts.mark,
            // What a run before this one delivered stays delivered.
            delivered_to: parts.mark,
            mark_rising: None,
            bytes: 0,
            resident: 0,
            spilled: 0,
            spilling: false,
            ready_bytes: 0,
            unweighed: 0,
            weighs,
            loading: false,
            head_wanted: false,
            peeked: None,
            kept: None,
            fetchers: Vec::new(),
            damage: None,
            decided: BTreeMap::new(),
            unsettled: 0,
            timer_at: u64::MAX,
            used_at: parts.now,
            settled: Vec::new(),
            dying: Vec::new(),
            #[cfg(feature = "sabotage")]
            held_back: sabotage::HeldBack::default(),
            died: [0; 4],
            totals: QueueTotals::default(),
        };
        Arc::new(Self {
            id: parts.id,
            vhost: parts.vhost,
            name: parts.name,
            durable: parts.durable,
            exclusive_to: parts.exclusive_to,
            auto_delete: parts.auto_delete,
            arguments: parts.arguments.shared(),
            declared: parts.declared,
            mourned: AtomicUsize::new(0),
            inner: Mutex::new(inner),
        })
    }

    /// True when its entries and its declaration are journaled.
    pub(crate) fn logged(&self) -> bool {
        self.durable && self.exclusive_to.is_none()
    }

    pub(crate) fn lock<'a>(&'a self, core: &'a Core) -> Guard<'a> {
        let inner = self.inner.lock();
        let (bytes_before, index_before) = (inner.bytes, inner.lane.index_bytes());
        let listed_before = inner.listed_bytes();
        Guard { inner, core, bytes_before, index_before, listed_before, unwinding: std::thread::panicking() }
    }

    /// Takes the picked arrivals at its end and dispatches. The returned ticket covers their references.
    ///
    /// With a group, the entries are hidden until [`Queue::reveal`]; `first` of the result is the first of them.
    pub(crate) fn publish(
        self: &Arc<Self>,
        arrivals: &mut [Arrival],
        picks: &[u32],
        visit: &mut Visit<'_>,
    ) -> Result<Ticket, Gone> {
        let mut inner = self.lock(visit.core);
        if inner.deleted {
            return Err(Gone);
        }
        let mut ticket = Ticket::NONE;
        // Whether the next message is refused depends on what consumers take of this one.
        let refuses = self.arguments.overflow == Overflow::RejectPublish;
        let step = if refuses { 1 } else { picks.len().max(1) };
        for picks in picks.chunks(step) {
            if refuses && self.is_full(&inner) {
                for pick in picks {
                    arrivals[*pick as usize].refuse();
                }
                continue;
            }
            let (first, rides) = (inner.lane.next(), inner.mark_can_ride());
            for pick in picks {
                let arrival = &mut arrivals[*pick as usize];
                let address = arrival.address;
                let entry = self.entry(arrival.take_share(), address, State::Ready, visit.now);
                inner.insert(entry);
            }
            inner.totals.published += picks.len() as u64;
            ticket = ticket.max(self.log_references(&mut inner, first, rides, None, visit));
            self.dispatch(&mut inner, visit);
            self.enforce_length(&mut inner);
            if self.logged() && visit.core.memory.is_tight() {
                inner.let_go(first, visit.core);
            }
        }
        self.finish(inner, visit);
        Ok(ticket)
    }

    /// Takes messages into a group: they have their places, and nobody sees them before [`Queue::reveal`].
    /// Returns the first sequence number.
    pub(crate) fn publish_hidden(
        self: &Arc<Self>,
        arrivals: &mut [Arrival],
        picks: &[u32],
        group: Option<Group>,
        visit: &mut Visit<'_>,
    ) -> Result<u64, Gone> {
        let mut inner = self.lock(visit.core);
        if inner.deleted {
            return Err(Gone);
        }
        let (first, rides) = (inner.lane.next(), inner.mark_can_ride());
        for pick in picks {
            let arrival = &mut arrivals[*pick as usize];
            let address = arrival.address;
            let entry = self.entry(arrival.take_share(), address, State::Hidden, visit.now);
            inner.insert(entry);
        }
        self.log_references(&mut inner, first, rides, group, visit);
        inner.totals.published += picks.len() as u64;
        Ok(first)
    }

    /// The group that brought these entries has ended: they are ready.
    pub(crate) fn reveal(self: &Arc<Self>, first: u64, count: u64, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.core);
        for seq in first..first + count {
            let hidden = inner.lane.get_mut(seq).is_some_and(|entry| entry.state == State::Hidden);
            if hidden {
                inner.make_ready(seq);
            }
        }
        self.dispatch(&mut inner, visit);
        self.enforce_length(&mut inner);
        if self.logged() && visit.core.memory.is_tight() {
            inner.let_go(first, visit.core);
        }
        self.finish(inner, visit);
    }

    fn entry(&self, message: Message, address: Option<Address>, state: State, now: u64) -> Entry {
        Entry {
            address: if self.logged() { address } else { None },
            expires_at: self.expires_at(&message, now),
            message: Some(message),
            length: 0,
            returns: 0,
            besides: 0,
            redelivered: false,
            state,
        }
    }

    /// When a message dies of age that came to its queue at `since`, in milliseconds since 1970.
    fn expires_at(&self, message: &Message, since: u64) -> u64 {
        let ttl = match (message.expiration(), self.arguments.message_ttl) {
            (Some(own), Some(queue)) => Some(own.min(queue)),
            (own, queue) => own.or(queue),
        };
        ttl.map_or(u64::MAX, |ttl| since.saturating_add(ttl))
    }

    /// Logs the references of all durable entries from `first` on, in runs. If the mark `rides`, they carry it past
    /// themselves, so that none has to wait for a mark of its own.
    fn log_references(
        &self,
        inner: &mut Inner,
        first: u64,
        rides: bool,
        group: Option<Group>,
        visit: &Visit<'_>,
    ) -> Ticket {
        if !self.logged() {
            return Ticket::NONE;
        }
        #[cfg(feature = "sabotage")]
        if group.is_none() && sabotage::armed() {
            return self.log_references_late(inner, first, visit);
        }
        if rides {
            inner.mark = inner.mark.max(inner.lane.next());
        }
        let mark = inner.logged_mark();
        let mut addresses = ADDRESSES.take();
        let mut appender = None;
        let end = inner.lane.next();
        let mut run = first;
        for seq in first..=end {
            let address = if seq < end { inner.lane.get_mut(seq).and_then(|entry| entry.address) } else { None };
            if let Some(address) = address {
                addresses.push(address);
                continue;
            }
            if !addresses.is_empty() {
                let appender = appender.get_or_insert_with(|| visit.core.journal.appender());
                appender.reference(group, self.id, run, mark, &addresses);
                addresses.clear();
            }
            run = seq + 1;
        }
        ADDRESSES.set(addresses);
        appender.map_or(Ticket::NONE, |appender| appender.ticket())
    }

    fn is_full(&self, inner: &Inner) -> bool {
        let full = |limit: Option<u64>, held: u64| limit.is_some_and(|limit| held >= limit);
        full(self.arguments.max_length, inner.lane.ready() as u64)
            || full(self.arguments.max_length_bytes, inner.ready_bytes)
    }

    /// True when taking one more message would be refused: asked before a transaction is committed.
    pub(crate) fn would_refuse(&self, core: &Core) -> bool {
        self.arguments.overflow == Overflow::RejectPublish && self.is_full(&self.lock(core))
    }

    fn enforce_length(&self, inner: &mut Inner) {
        if self.arguments.overflow != Overflow::DropHead {
            return;
        }
        let over = |limit: Option<u64>, held: u64| limit.is_some_and(|limit| held > limit);
        while over(self.arguments.max_length, inner.lane.ready() as u64)
            || over(self.arguments.max_length_bytes, inner.ready_bytes)
        {
            let Some(seq) = inner.lane.first_ready() else { return };
            if !self.die(inner, seq, Reason::MaxLength) {
                return;
            }
        }
    }

    /// Ends a visit: logs what was settled, hands dead letters to the work list, sets the timer.
    fn finish(self: &Arc<Self>, mut inner: Guard<'_>, visit: &mut Visit<'_>) -> Ticket {
        let ticket = self.log_settled(&mut inner, visit.core);
        if !inner.dying.is_empty() {
            let dying = std::mem::take(&mut inner.dying);
            visit.work.push(Work::DeadLetter { queue: Arc::clone(self), dying });
        }
        if inner.lane.away() > 0 {
            self.ask(&mut inner, visit);
        }
        if let Some(at) = self.next_timer(&mut inner).filter(|at| *at < inner.timer_at) {
            inner.timer_at = at;
            visit.work.push(Work::Arm { queue: Arc::clone(self), at });
        }
        ticket
    }

    /// When the entry at the head dies of age, or the queue itself goes for want of use.
    fn next_timer(&self, inner: &mut Inner) -> Option<u64> {
        let head = Some(inner.head_expires_at()).filter(|at| *at != u64::MAX);
        [head, self.idle_until(inner)].into_iter().flatten().min()
    }

    /// When a queue that nobody consumes goes for want of use.
    fn idle_until(&self, inner: &Inner) -> Option<u64> {
        let ttl = self.arguments.expires.filter(|_| inner.consumers.is_empty() && !inner.deleted)?;
        Some(inner.used_at.saturating_add(ttl))
    }

    /// True for a queue that should be deleted by now: its last consumer has left, or nobody used it for its time.
    pub(crate) fn should_go(&self, inner: &Inner, now: u64) -> bool {
        let abandoned = self.auto_delete && inner.had_consumer && inner.consumers.is_empty();
        abandoned || self.idle_until(inner).is_some_and(|due| due <= now)
    }

    /// Sets the timer of a queue that is new here.
    pub(crate) fn watch(self: &Arc<Self>, visit: &mut Visit<'_>) {
        let inner = self.lock(visit.core);
        self.finish(inner, visit);
    }
}

impl Inner {
    /// Whether the reference of the next entry may carry the delivery mark past itself: there is somebody to deliver
    /// to, and nothing older waits above the mark, which would then be delivered on the strength of a record that may
    /// still be lost.
    fn mark_can_ride(&self) -> bool {
        !self.consumers.is_empty() && (self.mark >= self.lane.next() || !self.lane.has_waiting())
    }

    fn insert(&mut self, entry: Entry) -> u64 {
        if let Some(message) = &entry.message {
            self.bytes += message.cost();
        }
        if entry.state == State::Ready {
            self.enters_ready(&entry);
        }
        self.lane.push(entry)
    }

    /// Puts an entry back among the ready ones, at its place.
    fn make_ready(&mut self, seq: u64) {
        self.lane.set(seq, State::Ready);
        let Some(entry) = self.lane.get_mut(seq) else { return };
        let (resident, weight) = (resident_of(entry), weight_of(entry));
        self.resident += resident;
        if self.weighs {
            self.ready_bytes += weight;
        }
    }

    #[inline]
    fn enters_ready(&mut self, entry: &Entry) {
        self.resident += resident_of(entry);
        if self.weighs {
            self.ready_bytes += weight_of(entry);
        }
    }

    /// Takes an entry out of the ready ones.
    fn leave_ready(&mut self, seq: u64, state: State) {
        if let Some(entry) = self.lane.get_mut(seq) {
            if entry.state == State::Ready {
                let (resident, weight, unread) = (resident_of(entry), weight_of(entry), entry.is_unread());
                self.resident -= resident;
                if self.weighs {
                    self.ready_bytes = self.ready_bytes.saturating_sub(weight);
                    self.unweighed = self.unweighed.saturating_sub(usize::from(unread));
                }
            }
            self.remove_or_set(seq, state);
        }
    }

    fn remove_or_set(&mut self, seq: u64, state: State) {
        if let Some(message) = self.lane.set(seq, state) {
            self.bytes -= message.cost();
        }
    }

    pub(crate) fn ready(&self) -> usize {
        self.lane.ready()
    }

    pub(crate) fn live(&self) -> usize {
        self.lane.live()
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it costs to know where messages lie that the log has, or could list.
    fn listed_bytes(&self) -> usize {
        self.lane.index_bytes().saturating_sub(self.spilled * lane::PLACE_COST)
    }

    pub(crate) fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    pub(crate) fn has_exclusive_consumer(&self) -> bool {
        self.consumers.iter().any(|consumer| consumer.exclusive)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Takes what recovery found.
    pub(crate) fn recover(&mut self, lane: Lane) {
        self.unweighed = if self.weighs { lane.live() } else { 0 };
        self.lane = lane;
        self.lane.keep_hot(self.weighs);
    }

    /// See [`journal::Owners::referenced`].
    pub(crate) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        self.lane.referenced(file, found);
    }

    /// See [`journal::Owners::unsettled`].
    pub(crate) fn unsettled_of(&mut self, page: u64, bits: &mut Bits) {
        self.lane.unsettled(page, bits);
    }

    /// See [`journal::Owners::moved`].
    pub(crate) fn moved(&mut self, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.lane.moved(page, from, chunk, entries)
    }

    /// The numbers that are settled, as far as an index may still list them, in runs.
    pub(crate) fn settled_runs(&self) -> Vec<(u64, u64)> {
        self.lane.settled_runs()
    }

    /// What a restatement says besides declaration and position: these runs of settled numbers, how often entries came back,
    /// and whose death is decided.
    pub(crate) fn remains(&self, settled: Vec<(u64, u64)>) -> Remains<'_> {
        Remains { settled, returns: self.lane.returns(), decided: &self.decided }
    }

    /// Why the queue can't go on delivering, if it can't.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The next sequence number, and up to where entries really were delivered: what a good stop says.
    pub(crate) fn last_position(&self) -> (u64, u64) {
        (self.lane.next(), self.delivered_to)
    }

    /// The next sequence number and the mark: what a restatement says.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.lane.next(), self.logged_mark())
    }

    /// The mark that the log says already. Recovery takes the last one it reads, so no record may say less.
    fn logged_mark(&self) -> u64 {
        self.mark_rising.map_or(self.mark, |(mark, _)| mark.max(self.mark))
    }
}

/// What a restatement says of a queue's entries.
pub(crate) struct Remains<'a> {
    pub(crate) settled: Vec<(u64, u64)>,
    pub(crate) returns: Vec<(u64, u32)>,
    pub(crate) decided: &'a BTreeMap<u64, Reason>,
}

/// Bytes of a ready entry's message in memory.
#[inline]
fn resident_of(entry: &Entry) -> usize {
    entry.message.as_ref().map_or(0, |message| message.block().len())
}

/// Bytes of a ready entry's body, as far as it is known.
fn weight_of(entry: &Entry) -> u64 {
    match &entry.message {
        Some(message) => message.body().len() as u64,
        None if entry.besides == 0 => 0,
        None => u64::from(entry.length).saturating_sub(entry.besides.into()),
    }
}
