//! Entries whose message is away: when the pager is asked, what it reads, and how messages come
//! back. And how messages leave memory.
//!
//! A visit that comes to such an entry asks the pager once and stops. The pager reads without the
//! queue's lock and returns with messages. One counts only if its body still lies where it was
//! read. Nothing is delivered past an entry that is away.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::task::Waker;

use journal::{Address, Chunk, Reference};

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::arrival::Work;
use crate::queue::dispatch::Fetched;
use crate::queue::expiry::expires_at;
use crate::queue::lane::{Away, Placed, Want};
use crate::queue::rare::{Empty, Rare};
use crate::queue::{Dying, Guard, Inner, Page, Queue, Show, State, Visit};

/// Bytes of messages that are read together for their times of expiry.
const AGES_AT_ONCE: usize = 64 << 10;

/// The next read of the pager for a queue.
#[derive(Debug)]
pub(crate) enum Task {
    /// Nothing more.
    Nothing,
    /// The lists of this page's chunks; [`Queue::place`] takes them.
    Place { page: u64, purpose: Purpose },
    /// These messages; [`Queue::install`] takes them.
    Messages { wanted: Vec<Reference>, purpose: Purpose },
    /// Views go on with messages that are in memory.
    GoOn,
    /// When the first ready entry expires, whose page stays as small as it is. [`Queue::peeked`]
    /// takes the answer.
    Peek { seq: u64, place: Option<Reference> },
}

/// The purpose of reading messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// They are delivered in order. The first one stays in memory until a consumer takes it.
    Deliver,
    /// Views look at them. Most will leave memory again.
    Select,
    /// Their figures are noted.
    Note,
}

/// Why a queue has stopped, in words, and the numbers of the messages that it can't read. It goes
/// on when none of them is ready any more.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) numbers: Range<u64>,
    pub(crate) text: String,
}

/// What a queue has asked the pager for, and what the pager could not read.
#[derive(Debug, Default)]
pub(super) struct Paging {
    /// The pager has been asked to read messages that are away.
    loading: bool,
    /// The first ready entry must be known, and its page is absent.
    head_wanted: bool,
    /// The entry that was read last for the head. Its message stays in memory until a consumer
    /// takes it; evicted first, it could never be delivered.
    kept: Option<u64>,
    /// Clients that wait for a message that is away.
    fetchers: Vec<Waker>,
    damage: Option<Box<Damage>>,
}

impl Paging {
    /// The first ready entry must be known.
    pub(super) fn want_head(&mut self) {
        self.head_wanted = true;
    }

    pub(super) fn wants_head(&self) -> bool {
        self.head_wanted
    }

    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Why the queue has stopped delivering, if it has.
    pub(super) fn damage_text(&self) -> Option<&str> {
        self.damage.as_ref().map(|damage| damage.text.as_str())
    }
}

impl Empty for Paging {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Paging> = LazyLock::new(Paging::default);
        &EMPTY
    }
}

impl Rare<Paging> {
    /// A read that failed is tried once more.
    pub(super) fn forget_damage(&mut self) {
        if let Some(paging) = self.made_mut() {
            paging.damage = None;
        }
    }
}

impl Queue {
    /// Asks the pager once for the data that this queue needs.
    pub(super) fn ask(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        if inner.paging.loading || inner.is_deleted() {
            return;
        }
        if inner.need(visit.context).is_some() {
            inner.paging.loading = true;
            visit.work.push(Work::Load { queue: Arc::clone(self) });
        }
    }

    /// Asks for a message that is away and that a client wants.
    pub(super) fn fetch_away(self: &Arc<Self>, mut inner: Guard<'_>, waker: &Waker, visit: &mut Visit<'_>) -> Fetched {
        let head = inner.lanes.first_ready();
        if let Some(damage) =
            inner.paging.damage.as_ref().filter(|damage| head.is_some_and(|head| damage.numbers.contains(&head)))
        {
            let text = damage.text.clone();
            self.conclude(inner, Show::Nothing, visit);
            return Fetched::Damaged(text);
        }
        if !inner.paging.fetchers.iter().any(|other| other.will_wake(waker)) {
            inner.paging.fetchers.push(waker.clone());
        }
        inner.paging.head_wanted = true;
        self.conclude(inner, Show::Nothing, visit);
        Fetched::Away
    }

    /// True until `waker`, which [`Queue::fetch`] was given, has been woken.
    pub(crate) fn will_wake(&self, waker: &Waker, context: &QueueContext) -> bool {
        self.lock(context).paging.fetchers.iter().any(|fetcher| fetcher.will_wake(waker))
    }

    /// The next read.
    pub(crate) fn task(&self, context: &QueueContext) -> Task {
        let mut inner = self.lock(context);
        if inner.is_deleted() {
            return Task::Nothing;
        }
        let Some(need) = inner.need(context) else { return Task::Nothing };
        if need == Need::Look {
            return inner.look_further(context.memory.piece());
        }
        if let Some(views) = inner.views.made_mut() {
            views.wait_turn();
        }
        if need == Need::Peek {
            return inner.lanes.peek();
        }
        let (want, purpose) = match need {
            Need::Messages(bytes) => (Want::Messages(bytes), Purpose::Deliver),
            Need::Ages => (Want::Ages(AGES_AT_ONCE), Purpose::Note),
            Need::Weights => (Want::Weights(AGES_AT_ONCE), Purpose::Note),
            Need::Head | Need::Peek | Need::Look => (Want::Head, Purpose::Note),
        };
        match inner.lanes.away_of(want) {
            Away::Nothing => {
                // Otherwise the queue would ask for it again and again.
                debug_assert!(matches!(need, Need::Head | Need::Weights), "{need:?}: nothing is away");
                inner.paging.head_wanted = false;
                if need == Need::Weights {
                    inner.accounting.give_up_weights();
                }
                Task::Nothing
            }
            Away::Index(page) => Task::Place { page, purpose },
            Away::Messages(wanted) => Task::Messages { wanted, purpose },
        }
    }

    /// Takes the lists of `chunks`, which are all of an absent page.
    pub(crate) fn place(&self, page: u64, chunks: &[Chunk], listed: Vec<Reference>, context: &QueueContext) -> Placed {
        let mut inner = self.lock(context);
        let placed = inner.lanes.place(page, chunks, listed);
        inner.paging.head_wanted &= placed != Placed::Whole;
        placed
    }

    /// The chunks of a page, if only they have the places of its entries.
    pub(crate) fn absent_chunks_of(&self, page: u64, context: &QueueContext) -> Option<Vec<Chunk>> {
        self.lock(context).lanes.absent_chunks_of(page)
    }

    /// True when the body of an entry lies at this address, readable or not.
    pub(crate) fn lies_at(&self, one: &Reference, context: &QueueContext) -> bool {
        self.lock(context).lanes.lies_at(one)
    }

    /// Takes messages that were read. Those of entries that are still away are in memory again, or
    /// only their figures are noted.
    pub(crate) fn install(&self, read: Vec<(Reference, Message)>, purpose: Purpose, context: &QueueContext) {
        let mut inner = self.lock(context);
        let inner = &mut *inner;
        if purpose == Purpose::Deliver {
            inner.paging.kept = read.first().map(|(one, _)| one.seq);
        }
        let message_ttl = inner.arguments.message_ttl;
        for (one, message) in read {
            let expires_at = expires_at(message_ttl, &message, message.published_at());
            let Some(entry) = inner.lanes.away_at(&one) else { continue };
            let unweighed = entry.is_unweighed();
            entry.expires_at = expires_at;
            entry.note(&message);
            if unweighed {
                inner.accounting.weighed(entry);
            }
            if purpose != Purpose::Note {
                inner.accounting.returned(&message);
                entry.message = Some(message);
                inner.lanes.returned(one.seq);
            }
        }
    }

    /// Notes when the entry `seq` expires.
    pub(crate) fn peeked(&self, seq: u64, message: &Message, context: &QueueContext) {
        let mut inner = self.lock(context);
        let expires_at = expires_at(inner.arguments.message_ttl, message, message.published_at());
        if let Some(lane) = inner.lanes.of_mut(seq) {
            lane.peeked = Some(Box::new((seq, expires_at)));
        }
    }

    /// The pager has read what it could: goes on delivering, and asks again if that is not enough.
    /// Visits during the read did not ask. So this one must ask for them, even if there was nothing
    /// to read: their need may be younger than the pager's look.
    pub(crate) fn loaded(self: &Arc<Self>, damage: Option<Damage>, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        inner.paging.loading = false;
        inner.paging.damage = damage.map(Box::new);
        let fetchers = std::mem::take(&mut inner.paging.fetchers);
        let show = if inner.is_deleted() { Show::Nothing } else { Show::AllWithinLimits };
        self.conclude(inner, show, visit);
        fetchers.into_iter().for_each(Waker::wake);
    }

    /// The pager has read for views: delivers to them. The message that a client waits for may have
    /// been among those read, and may no longer be the first. While the first is away the pager
    /// reads it next.
    pub(crate) fn looked_at(self: &Arc<Self>, visit: &mut Visit<'_>) {
        let mut inner = self.lock(visit.context);
        inner.paging.loading = false;
        if !inner.is_deleted() {
            self.show(&mut inner, Show::All, visit);
            inner.give_back_borrowed();
        }
        // The first entry is not looked at without a waiting client: that would make its page hot.
        let waits = !inner.paging.fetchers.is_empty() && !inner.is_deleted() && inner.head_is_away();
        let fetchers = if waits { Vec::new() } else { std::mem::take(&mut inner.paging.fetchers) };
        self.conclude(inner, Show::Nothing, visit);
        fetchers.into_iter().for_each(Waker::wake);
    }

    /// The places of dying entries whose messages are away.
    pub(crate) fn whereabouts(&self, dying: &[Dying], context: &QueueContext) -> Vec<Reference> {
        let mut inner = self.lock(context);
        let away = dying.iter().filter(|dead| dead.message.is_none());
        let mut found = Vec::new();
        for dead in away {
            let Some(entry) = inner.lanes.get_mut(dead.seq).filter(|entry| entry.state == State::Dying) else {
                continue;
            };
            if let Some(address) = entry.address {
                found.push(Reference { seq: dead.seq, address, length: entry.length });
            }
        }
        found
    }

    /// True when dead letters must queue up behind others that wait to be read.
    pub(crate) fn awaits_read(&self) -> bool {
        self.awaiting_read.load(Ordering::Acquire) > 0
    }

    /// One step of making room. Drops messages that memory need not hold. Of those that are on no
    /// disk, up to `room` bytes are picked to be written. True when the whole queue was looked at,
    /// as far as it can be now.
    pub(crate) fn sweep(self: &Arc<Self>, room: usize, context: &QueueContext) -> bool {
        let mut inner = self.lock(context);
        let inner = &mut *inner;
        if inner.accounting.is_spilling() {
            return true;
        }
        let stays = if inner.consumers.is_empty() { 0 } else { context.memory.window() };
        let excess = inner.accounting.resident().saturating_sub(stays);
        let mut swept = inner.lanes.sweep(excess, inner.paging.kept, room);
        inner.accounting.dropped(swept.dropped);
        if !swept.picked.is_empty() {
            // In the order in which they will be read.
            swept.picked.reverse();
            inner.accounting.begin_spilling();
            context.pager.spill(Arc::clone(self), swept.picked);
        }
        swept.whole
    }

    /// The text of a damage: the place of the first message, and the error.
    pub(crate) fn damage_text(&self, address: Option<Address>, error: &dyn std::fmt::Display) -> String {
        let place = match address {
            Some(address) => format!("at byte {} of file {}", address.offset, address.file),
            None => "in an index".to_owned(),
        };
        let (name, vhost) = (&self.name, &self.vhost);
        format!(
            "queue '{name}' in vhost '{vhost}' stops at a message {place} that can't be read: {error}; `hermod repair` says what \
             is lost and, with --accept-loss, goes on without it"
        )
    }
}

/// The data that a queue needs before it can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Messages to deliver, up to so many bytes.
    Messages(usize),
    /// The first ready entry.
    Head,
    /// When the first ready entry expires.
    Peek,
    /// The same for the first ready entry and those behind it, once its page is hot.
    Ages,
    /// The lengths of bodies whose sum is limited.
    Weights,
    /// Messages for views to look at.
    Look,
}

impl Inner {
    /// The next need. Views and other consumers take turns with the pager.
    fn need(&mut self, context: &QueueContext) -> Option<Need> {
        let look = self.views.need_pager().then_some(Need::Look);
        if look.is_some() && (self.views.are_next() || self.paging.damage.is_some()) {
            return look;
        }
        let others = if self.is_stopped() { None } else { self.need_of_others(context) };
        others.or(look)
    }

    /// True while the damage stops all reading except for views. Messages that came back, or have a
    /// higher priority, lie before the damage and may still be delivered.
    fn is_stopped(&mut self) -> bool {
        let Some(damage) = &self.paging.damage else { return false };
        let numbers = damage.numbers.clone();
        let before = self.lanes.first_ready().is_some_and(|head| !numbers.contains(&head));
        !(before && self.is_hungry() && self.head_is_away())
    }

    /// Forgets the damage if its messages have gone; true if it did.
    pub(super) fn forget_damage(&mut self) -> bool {
        self.paging.damage.take_if(|damage| !self.lanes.has_ready(&damage.numbers)).is_some()
    }

    fn is_hungry(&self) -> bool {
        !self.paging.fetchers.is_empty() || self.consumers.may_take()
    }

    fn need_of_others(&mut self, context: &QueueContext) -> Option<Need> {
        if self.lanes.away() == 0 || self.features.dues.is_some() {
            return None;
        }
        let piece = context.memory.piece();
        if self.is_hungry() && (self.accounting.resident() < piece || self.head_is_away()) {
            return Some(Need::Messages(piece));
        }
        if self.paging.head_wanted {
            return Some(Need::Head);
        }
        if self.accounting.lacks_weights() {
            return Some(Need::Weights);
        }
        let lane = self.lanes.all_mut().find_map(|lane| lane.ageless_head().map(|_| lane))?;
        Some(if lane.head_page().is_some_and(Page::is_hot) { Need::Ages } else { Need::Peek })
    }

    fn head_is_away(&mut self) -> bool {
        let head = self.lanes.first_ready();
        head.is_some_and(|head| self.lanes.get_mut(head).is_none_or(|entry| entry.message.is_none()))
    }

    /// Bytes of messages that may stay while memory is tight. A queue without consumers keeps none
    /// then: a hundred thousand short queues are a backlog too.
    pub(super) fn window(&self, context: &QueueContext) -> usize {
        if self.consumers.is_empty() && context.memory.is_short() { 0 } else { context.memory.window() }
    }

    /// Drops one message from memory, if it is ready and on disk.
    pub(super) fn let_go_of(&mut self, seq: u64) {
        if let Some(dropped) = self.lanes.drop_message(seq) {
            self.accounting.dropped(dropped);
        }
    }

    /// Drops messages of this visit from memory that are not needed soon: from `first` up to `end`,
    /// all of one lane.
    pub(super) fn let_go(&mut self, first: u64, end: u64, context: &QueueContext) {
        self.let_go_beyond(first, end, self.window(context));
    }

    /// The same, the last ones first, until `window` bytes are left in memory.
    pub(super) fn let_go_beyond(&mut self, first: u64, end: u64, window: usize) {
        for seq in (first..end).rev() {
            if self.accounting.resident() <= window {
                return;
            }
            self.let_go_of(seq);
        }
        for page in first / journal::PAGE..end / journal::PAGE {
            self.lanes.lean_down(page * journal::PAGE);
        }
    }
}
