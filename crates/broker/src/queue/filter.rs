//! The part of a queue that consumers with a selector, or without what their own connection
//! publishes, and browsers see.
//!
//! There is one view for each selector, and one for each browser. Where messages have groups each
//! consumer has a view, which passes over the groups of others.
//!
//! A view goes through the queue once, in the order of delivery, and its cursors say how far it has
//! looked. Entries that come back before them are remembered one by one. So an entry is looked at
//! once for each selector and each return. A visit looks at a bounded number of entries, and long
//! properties count for several. The pager goes on from there: it reads messages that are away in
//! pieces, and keeps only the selected ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use selector::Selector;

use crate::message::Message;
use crate::message::publisher::PublisherId;
use crate::message::selected::Selected;
use crate::queue::QueueContext;
use crate::queue::consumers::{Consumer, ConsumerKey, Consumers, Resume};
use crate::queue::diagnosis::Readiness;
use crate::queue::lane::Away;
use crate::queue::lanes::{LaneNumber, Lanes, height, lane_of};
use crate::queue::mailbox::{Notice, Outgoing};
use crate::queue::message_groups::Grouped;
use crate::queue::paging::Purpose;
use crate::queue::rare::Empty;
use crate::queue::{Inner, Queue, Reason, State, Task, Visit, settle};

/// Entries that one visit looks at for each view.
const LOOKED_AT_ONCE: usize = 1024;
/// A selector may read all properties again and again. So many bytes of properties, times bytes of
/// selector, count as one entry more.
const READ_AS_ONE: usize = 64 << 10;
/// Entries that came back and are remembered one by one. With more of them the view looks again
/// from the first of them on.
const RETURNED_MAX: usize = 4096;

/// The messages that a consumer asks for.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) selector: Option<Selector>,
    /// Messages of this publisher are left out.
    pub(crate) not_from: Option<PublisherId>,
    /// It sees messages and takes none.
    pub(crate) browses: bool,
    /// Messages that it does not ask for are dropped.
    pub(crate) drops_others: bool,
}

impl Filter {
    /// True for a consumer that takes everything.
    pub(crate) fn is_none(&self) -> bool {
        self.selector.is_none() && self.not_from.is_none() && !self.browses
    }
}

/// How far a view or a scan has looked in each lane: the number behind the last one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor(BTreeMap<LaneNumber, u64>);

impl Cursor {
    /// Where the lanes end now.
    pub(super) fn end_of(lanes: &Lanes) -> Self {
        Self(lanes.all().map(|lane| (lane.number(), lane.next())).collect())
    }

    /// The cursor whose numbers these are, one for each lane.
    pub(super) fn at(numbers: &[u64]) -> Self {
        Self(numbers.iter().map(|number| (lane_of(*number), *number)).collect())
    }

    /// The numbers of all lanes.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.0.values().copied().collect()
    }

    /// The first number of a lane that was not looked at.
    pub(crate) fn of(&self, lane: LaneNumber) -> u64 {
        self.0.get(&lane).copied().unwrap_or(0)
    }

    pub(super) fn pass(&mut self, seq: u64) {
        self.0.insert(lane_of(seq), seq + 1);
    }

    fn go_back_to(&mut self, seq: u64) {
        self.0.entry(lane_of(seq)).and_modify(|at| *at = seq.min(*at));
    }
}

/// The reason why a view does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It waits for consumers, new messages or the delivery mark, and not for the pager.
    No,
    /// It has looked at enough for one visit.
    Turn,
    /// The next entry is away.
    Read,
}

/// Whether the views whose consumers have credit want a message that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// No view has such a consumer, or one comes to a message next.
    No,
    /// One is still looking through the queue.
    Looks,
    /// They have passed over all messages.
    All,
}

/// The result of a look at an entry.
enum Look {
    Passed,
    Wanted,
    Stop(Waits),
}

/// An entry in the order of delivery.
fn place(seq: u64) -> (Reverse<i16>, u64) {
    (Reverse(height(lane_of(seq))), seq)
}

/// See the module.
#[derive(Debug)]
struct View {
    selector: Option<Selector>,
    not_from: Option<PublisherId>,
    /// Messages that are not selected are dropped.
    drops_others: bool,
    /// Where messages have groups: the number of its one consumer among their members.
    member: Option<u32>,
    /// Of a browser: the end of its queue when it came.
    until: Option<Cursor>,
    consumers: Consumers,
    cursor: Cursor,
    /// Entries before the cursor that have come back since.
    returned: BTreeSet<(Reverse<i16>, u64)>,
    /// The next entry, if it is known to be selected, and its group.
    found: Option<u64>,
    grouped: Option<Grouped>,
    /// Entries that it may still look at in this visit.
    left: usize,
    waits: Waits,
    ended: bool,
    looked: u64,
    matched: u64,
}

impl View {
    fn new(filter: Filter, member: Option<u32>, lanes: &Lanes) -> Self {
        Self {
            selector: filter.selector,
            not_from: filter.not_from,
            drops_others: filter.drops_others,
            member,
            until: filter.browses.then(|| Cursor::end_of(lanes)),
            consumers: Consumers::default(),
            cursor: Cursor::default(),
            returned: BTreeSet::new(),
            found: None,
            grouped: None,
            left: 0,
            waits: Waits::No,
            ended: false,
            looked: 0,
            matched: 0,
        }
    }

    fn browses(&self) -> bool {
        self.until.is_some()
    }

    /// The next entry that it has to look at.
    fn next(&mut self, lanes: &Lanes) -> Option<u64> {
        // Other views may have taken it meanwhile.
        while self.returned.first().is_some_and(|(_, seq)| !lanes.is_ready(*seq)) {
            self.returned.pop_first();
        }
        let back = self.returned.first().copied();
        let fresh = lanes.ready_between(&self.cursor, self.until.as_ref()).map(place);
        back.into_iter().chain(fresh).min().map(|(_, seq)| seq)
    }

    fn pass(&mut self, seq: u64) {
        self.found = None;
        if !self.returned.remove(&place(seq)) {
            self.cursor.pass(seq);
        }
    }

    /// How many entries of a visit's limit this message counts for.
    fn looks_for(&self, message: &Message) -> usize {
        let length = self.selector.as_ref().map_or(0, |selector| selector.text().len());
        1 + length.saturating_mul(message.properties().len()) / READ_AS_ONE
    }

    /// An entry is ready again. A browser sees no entry twice.
    fn came_back(&mut self, seq: u64) {
        if self.browses() || seq >= self.cursor.of(lane_of(seq)) {
            return;
        }
        self.returned.insert(place(seq));
        if self.returned.len() > RETURNED_MAX {
            for (_, seq) in std::mem::take(&mut self.returned) {
                self.cursor.go_back_to(seq);
            }
        }
    }

    /// Entries that it has passed over may be for it now: it starts again from the front.
    fn look_again(&mut self) {
        if !self.browses() {
            self.cursor = Cursor::default();
            self.returned.clear();
            self.found = None;
        }
    }

    /// A browser has seen everything.
    fn end(&mut self) {
        if !self.browses() {
            return;
        }
        self.ended = true;
        self.consumers.hand_over();
        for consumer in self.consumers.iter() {
            consumer.mailbox.notify(Notice::Cancelled { consumer: consumer.key.consumer });
        }
    }
}

/// A selector in reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorReport {
    /// As the consumers gave it.
    pub selector: String,
    /// Consumers that have it.
    pub consumers: u64,
    /// Messages that were looked at since the first of these consumers came.
    pub looked_at: u64,
    /// Those of them that were selected.
    pub selected: u64,
}

/// What the consumers of a shared view ask for: the text of their selector, the publisher that they
/// leave out, and whether they drop the others.
type Asked = (Box<str>, Option<PublisherId>, bool);

/// The views of a queue; most have none.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// By their numbers, which rise: the oldest view looks first.
    all: BTreeMap<u64, View>,
    /// The view of each consumer.
    of: HashMap<ConsumerKey, u64>,
    /// The views that consumers which ask for the same share.
    shared: HashMap<Asked, u64>,
    /// Where messages have groups: the view of each member.
    of_member: HashMap<u32, u64>,
    /// Views that wait for the pager.
    waiting: BTreeSet<u64>,
    /// Consumers that take messages, and how many of them are exclusive.
    takers: usize,
    exclusive: usize,
    /// The number of the view that comes next.
    next: u64,
    /// The view that the pager serves first.
    in_turn: u64,
    /// Entries whose messages were read for a look.
    borrowed: Vec<u64>,
    /// The pager reads for the views next, and not for other consumers.
    are_next: bool,
}

impl Empty for Views {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Views> = LazyLock::new(Views::default);
        &EMPTY
    }
}

impl Views {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Every consumer.
    pub(super) fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.all.values().flat_map(|view| view.consumers.iter())
    }

    /// How many consumers take messages.
    pub(super) fn takers(&self) -> usize {
        self.takers
    }

    /// Whether one of them would take a message now.
    pub(super) fn has_open_taker(&self) -> bool {
        let mut takers = self.all.values().filter(|view| !view.browses());
        takers.any(|view| view.consumers.iter().any(Consumer::is_open))
    }

    /// Whether each consumer that takes messages would take one now.
    pub(super) fn takers_ready(&self) -> impl Iterator<Item = Readiness> {
        let takers = self.all.values().filter(|view| !view.browses());
        takers.flat_map(|view| view.consumers.iter()).map(Readiness::of)
    }

    /// See [`Passed`].
    pub(super) fn passed(&mut self, lanes: &Lanes) -> Passed {
        let open = |view: &&mut View| !view.browses() && view.consumers.iter().any(Consumer::is_open);
        let mut passed = Passed::No;
        for view in self.all.values_mut().filter(open) {
            match (view.waits, view.next(lanes)) {
                (Waits::Turn | Waits::Read, _) => return Passed::Looks,
                (Waits::No, Some(_)) => return Passed::No,
                (Waits::No, None) => passed = Passed::All,
            }
        }
        passed
    }

    /// How many of them are exclusive.
    pub(super) fn exclusive(&self) -> usize {
        self.exclusive
    }

    /// How many consumers there are, browsers included.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Adds a consumer; the number of its view. Those with the same selector share a view, unless
    /// they are members of groups.
    pub(super) fn add(&mut self, consumer: Consumer, filter: Filter, member: Option<u32>, lanes: &Lanes) -> u64 {
        if member.is_some() {
            // Its groups may have been assigned to others.
            self.all.values_mut().for_each(|view| view.found = None);
        }
        let text = filter.selector.as_ref().map_or("", Selector::text);
        let shared =
            (member.is_none() && !filter.browses).then(|| (Box::from(text), filter.not_from, filter.drops_others));
        let known = shared.as_ref().and_then(|shared| self.shared.get(shared)).copied();
        let number = known.unwrap_or(self.next);
        if known.is_none() {
            self.next += 1;
            self.shared.extend(shared.map(|shared| (shared, number)));
            self.of_member.extend(member.map(|member| (member, number)));
        }
        self.of.insert(consumer.key, number);
        let takes = !filter.browses;
        self.takers += usize::from(takes);
        self.exclusive += usize::from(takes && consumer.exclusive);
        self.all.entry(number).or_insert_with(|| View::new(filter, member, lanes)).consumers.add(consumer);
        number
    }

    pub(super) fn remove(&mut self, key: ConsumerKey) -> Option<Consumer> {
        let number = self.of.remove(&key)?;
        let view = self.all.get_mut(&number)?;
        let removed = view.consumers.remove(key)?;
        if !view.browses() {
            self.takers -= 1;
            self.exclusive -= usize::from(removed.exclusive);
        }
        if view.consumers.is_empty() {
            self.forget(number);
        }
        Some(removed)
    }

    /// A view has no consumers any more, or has seen everything.
    fn forget(&mut self, number: u64) {
        let Some(view) = self.all.remove(&number) else { return };
        for consumer in view.consumers.iter() {
            self.of.remove(&consumer.key);
        }
        self.waiting.remove(&number);
        view.member.map(|member| self.of_member.remove(&member));
        if view.member.is_none() && !view.browses() {
            let text = view.selector.as_ref().map_or("", Selector::text);
            self.shared.remove(&(Box::from(text), view.not_from, view.drops_others));
        }
    }

    pub(super) fn clear(&mut self) -> Vec<Consumer> {
        std::mem::take(self).all.into_values().flat_map(|mut view| view.consumers.clear()).collect()
    }

    fn of(&mut self, key: ConsumerKey) -> Option<&mut View> {
        self.all.get_mut(self.of.get(&key)?)
    }

    /// See [`Consumers::settled`].
    pub(super) fn settled(&mut self, key: ConsumerKey, count: u32) {
        self.of(key).into_iter().for_each(|view| view.consumers.settled(key, count));
    }

    /// See [`Consumers::resume`]. The view of the consumer, if it has one.
    pub(super) fn resume(&mut self, key: ConsumerKey, why: Resume) -> Option<u64> {
        self.of(key)?.consumers.resume(key, why);
        self.of.get(&key).copied()
    }

    /// An entry is ready again.
    #[cold]
    pub(super) fn came_back(&mut self, seq: u64) {
        self.all.values_mut().for_each(|view| view.came_back(seq));
    }

    /// Entries that consumers have passed over may be for them now.
    #[cold]
    pub(super) fn look_again(&mut self) {
        self.all.values_mut().for_each(View::look_again);
    }

    /// True when a view needs the pager and can go on now.
    pub(super) fn need_pager(&self) -> bool {
        self.next_waiting().is_some()
    }

    /// The view that the pager serves next.
    fn next_waiting(&self) -> Option<u64> {
        let takes = |number: &&u64| self.all.get(*number).is_some_and(|view| view.consumers.may_take());
        let behind = self.waiting.range(self.in_turn..).find(takes);
        behind.or_else(|| self.waiting.range(..self.in_turn).find(takes)).copied()
    }

    /// True when it is the views' turn with the pager.
    pub(super) fn are_next(&self) -> bool {
        self.are_next
    }

    /// The pager works for the views. Next it is the turn of other consumers.
    pub(super) fn take_turn(&mut self) {
        self.are_next = false;
    }

    /// The pager works for other consumers. Next it is the turn of the views.
    pub(super) fn wait_turn(&mut self) {
        self.are_next = true;
    }

    /// The selectors of consumers.
    pub(super) fn report(&self) -> Vec<SelectorReport> {
        let takers = self.all.values().filter(|view| !view.browses());
        let report = |view: &View| {
            let selector = view.selector.as_ref()?.text().to_owned();
            let consumers = view.consumers.len() as u64;
            Some(SelectorReport { selector, consumers, looked_at: view.looked, selected: view.matched })
        };
        takers.filter_map(report).collect()
    }
}

impl Queue {
    /// Delivers as many entries to views as it can.
    #[cold]
    pub(super) fn dispatch_views(self: &Arc<Self>, inner: &mut Inner, visit: &mut Visit<'_>) {
        let all: Vec<u64> = inner.views.all.keys().copied().collect();
        self.serve_views(inner, all, visit);
    }

    /// Delivers to these views, since the others have not changed.
    pub(super) fn serve_views(self: &Arc<Self>, inner: &mut Inner, mut due: Vec<u64>, visit: &mut Visit<'_>) {
        let mut all = std::mem::take(&mut inner.views.all);
        for number in &due {
            all.get_mut(number).into_iter().for_each(|view| view.left = LOOKED_AT_ONCE);
        }
        if inner.features.groups.is_none() {
            for number in &due {
                all.get_mut(number).into_iter().for_each(|view| _ = self.serve(inner, view, usize::MAX, visit));
            }
        } else {
            self.serve_in_turn(inner, &mut all, &mut due, visit);
        }
        inner.views.all = all;
        for number in due {
            let Some(view) = inner.views.all.get_mut(&number) else { continue };
            view.consumers.hand_over();
            if view.consumers.are_draining() {
                let next = view.next(&inner.lanes);
                view.consumers.end_drains(next);
            }
            let (waits, ended) = (view.waits != Waits::No, view.ended);
            if waits {
                inner.views.waiting.insert(number)
            } else {
                inner.views.waiting.remove(&number)
            };
            if ended {
                inner.views.forget(number);
            }
        }
    }

    /// Delivers one message to each view in turn, so that messages without a group are shared out,
    /// until no view takes any more. A view that took none is asked again only if it has got a
    /// group. `due` becomes the views that were asked.
    fn serve_in_turn(
        self: &Arc<Self>,
        inner: &mut Inner,
        all: &mut BTreeMap<u64, View>,
        due: &mut Vec<u64>,
        visit: &mut Visit<'_>,
    ) {
        let mut asked: BTreeSet<u64> = due.iter().copied().collect();
        let mut round = asked.clone();
        while !round.is_empty() {
            let mut next = BTreeSet::new();
            for number in &round {
                let Some(view) = all.get_mut(number) else { continue };
                if self.serve(inner, view, 1, visit) > 0 {
                    next.insert(*number);
                }
            }
            for (member, seq) in inner.features.groups.iter_mut().flat_map(|groups| groups.take_to_look()) {
                let Some(number) = inner.views.of_member.get(&member) else { continue };
                let Some(view) = all.get_mut(number) else { continue };
                // For other lanes that is unknown.
                if inner.lanes.count() > 1 {
                    view.look_again();
                }
                view.found = None;
                view.cursor.go_back_to(seq);
                next.insert(*number);
                if asked.insert(*number) {
                    view.left = LOOKED_AT_ONCE;
                }
            }
            round = next;
        }
        *due = asked.into_iter().collect();
    }

    /// Delivers at most so many entries to a view; returns how many it got.
    fn serve(self: &Arc<Self>, inner: &mut Inner, view: &mut View, most: usize, visit: &mut Visit<'_>) -> usize {
        view.waits = Waits::No;
        let mut count = 0;
        while count < most && !view.ended && view.consumers.may_take() {
            let Some(seq) = view.next(&inner.lanes) else {
                view.end();
                break;
            };
            match self.look(inner, view, seq, visit) {
                Look::Passed => {}
                Look::Wanted if Self::hand_to(inner, view, seq) => count += 1,
                Look::Wanted => break,
                Look::Stop(waits) => {
                    view.waits = waits;
                    break;
                }
            }
        }
        count
    }

    fn look(self: &Arc<Self>, inner: &mut Inner, view: &mut View, seq: u64, visit: &mut Visit<'_>) -> Look {
        let Some(entry) = inner.lanes.get_mut(seq) else { return Look::Stop(Waits::Read) };
        let Some(message) = &entry.message else { return Look::Stop(Waits::Read) };
        if entry.is_too_old(visit.now) {
            self.die(inner, seq, Reason::Expired);
            return Look::Passed;
        }
        if view.found != Some(seq) {
            if view.left == 0 {
                return Look::Stop(Waits::Turn);
            }
            view.left = view.left.saturating_sub(view.looks_for(message));
            view.looked += 1;
            let selected =
                Selected { message, dialects: &visit.context.dialects, redelivered: entry.past.is_redelivered() };
            if let (Some(member), Some(groups)) = (view.member, &mut inner.features.groups) {
                view.grouped = groups.group_of(&selected);
                if view.grouped.is_some_and(|grouped| !groups.is_for(grouped, member, seq)) {
                    view.pass(seq);
                    return Look::Passed;
                }
            }
            let is_own = view.not_from.is_some_and(|own| message.publisher() == own.bytes());
            if is_own || view.selector.as_ref().is_some_and(|selector| !selector.matches(&selected)) {
                view.pass(seq);
                if view.drops_others {
                    inner.drop_unwanted(seq);
                }
                return Look::Passed;
            }
            view.matched += 1;
            view.found = Some(seq);
        }
        let durable = entry.is_durable();
        if !view.browses() && durable && !self.mark_covers(inner, seq, visit) {
            return Look::Stop(Waits::No);
        }
        Look::Wanted
    }

    /// Delivers an entry to the consumer of the view whose turn it is; false when none is ready.
    fn hand_to(inner: &mut Inner, view: &mut View, seq: u64) -> bool {
        let Some(turn) = view.consumers.next() else { return false };
        let outgoing = if view.browses() { inner.show(seq, turn.consumer) } else { inner.lend(seq, turn) };
        let Some((outgoing, cost)) = outgoing else { return false };
        view.consumers.lend(turn.slot, outgoing, cost);
        if let (Some(grouped), Some(groups)) = (view.grouped, &mut inner.features.groups) {
            if !turn.no_ack {
                groups.hold(grouped, seq);
            }
            groups.delivered(grouped, seq);
        }
        view.pass(seq);
        true
    }

    /// Messages of these numbers can't be read. Views that come to one go on behind the last.
    /// Consumers that take everything stop there.
    pub(crate) fn pass_over(&self, numbers: &Range<u64>, context: &QueueContext) {
        let mut inner = self.lock(context);
        let inner = &mut *inner;
        for view in inner.views.made_mut().into_iter().flat_map(|views| views.all.values_mut()) {
            while let Some(seq) = view.next(&inner.lanes).filter(|seq| numbers.contains(seq)) {
                view.pass(seq);
            }
        }
    }

    /// Unreadable messages were given up. Views look again, since a message behind them may be
    /// selected.
    pub(crate) fn repaired(self: &Arc<Self>, visit: &mut Visit<'_>) {
        if let Some(views) = self.lock(visit.context).views.made_mut() {
            views.look_again();
        }
        self.loaded(None, visit);
    }
}

impl Inner {
    /// Drops an entry that no consumer has selected.
    fn drop_unwanted(&mut self, seq: u64) {
        if let Some(address) = self.lanes.get_mut(seq).and_then(|entry| entry.address) {
            self.departures.settle(seq, address, settle::NOT_SELECTED);
        }
        self.leave_ready(seq, State::Done);
    }

    /// A copy of an entry for a browser.
    fn show(&mut self, seq: u64, consumer: u32) -> Option<(Outgoing, usize)> {
        let entry = self.lanes.get_mut(seq)?;
        let (message, past, returns) = (entry.message.clone()?, entry.past, entry.returns);
        let message = self.features.show_noted(seq, message);
        let cost = message.cost();
        Some((Outgoing { consumer, past, returns, seq, message }, cost))
    }

    /// The next work of the pager for the views, in turn; it reads up to `piece` bytes.
    pub(super) fn look_further(&mut self, piece: usize) -> Task {
        self.views.take_turn();
        let Some(at) = self.views.next_waiting() else { return Task::Nothing };
        self.views.in_turn = at;
        let Some(view) = self.views.all.get_mut(&at) else { return Task::Nothing };
        let next = view.next(&self.lanes).filter(|_| view.waits == Waits::Read);
        let Some(next) = next else { return Task::GoOn };
        let task = match self.lanes.away_from(next, piece) {
            Away::Nothing => Task::GoOn,
            // The same view again, until it can read.
            Away::Index(page) => return Task::Place { page, purpose: Purpose::Select },
            Away::Messages(mut wanted) => {
                wanted.truncate(LOOKED_AT_ONCE);
                self.views.borrowed.extend(wanted.iter().map(|one| one.seq));
                Task::Messages { wanted, purpose: Purpose::Select }
            }
        };
        self.views.in_turn = at + 1;
        task
    }

    /// Drops from memory the messages that were read for a look. Those that a view is about to
    /// deliver stay.
    pub(super) fn give_back_borrowed(&mut self) {
        let Some(views) = self.views.made_mut() else { return };
        let mut borrowed = std::mem::take(&mut views.borrowed);
        // These are given back the next time.
        views.borrowed.extend(views.all.values().filter_map(|view| view.found));
        let kept: HashSet<u64> = views.borrowed.iter().copied().collect();
        borrowed.retain(|seq| !kept.contains(seq));
        borrowed.iter().for_each(|seq| self.let_go_of(*seq));
        let pages: BTreeSet<u64> = borrowed.iter().map(|seq| seq / journal::PAGE).collect();
        pages.into_iter().for_each(|page| self.lanes.lean_down(page * journal::PAGE));
    }
}
