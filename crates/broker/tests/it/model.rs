//! A naive broker: queues are maps from position to message, and nothing is fast. It gives the
//! deliveries after each step. The real broker chooses among several consumers within their credit.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use broker::Settling;

/// The state of a message in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Part of a transaction that is being committed, or a dead letter that is on its way.
    Hidden,
    /// Dispatched in this step; its consumer is seen later.
    Leaving,
    /// With this session's tag, and the consumer that it counts for.
    Out(SessionKey, u64, Option<String>),
}

/// Client and session.
pub(crate) type SessionKey = (usize, u32);

/// Queue and position of a delivery.
pub(crate) type Place = (usize, u64);

/// The queue, the message, the reason.
pub(crate) type Dead = (usize, String, &'static str);

/// A message in a queue.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// Why it died in its queue before. A queue may hold both the published message and its dead
    /// letter from elsewhere.
    pub(crate) death: Option<&'static str>,
    pub(crate) redelivered: bool,
    pub(crate) failures: u32,
    pub(crate) state: State,
}

impl Item {
    fn new(id: &str, state: State) -> Self {
        Self { id: id.to_owned(), death: None, redelivered: false, failures: 0, state }
    }
}

/// The rules of a kind of queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) durable: bool,
    pub(crate) drop_head: Option<usize>,
    pub(crate) reject: Option<usize>,
    pub(crate) delivery_limit: Option<u32>,
    pub(crate) dead_letters_to: Option<usize>,
    /// The highest priority that it tells apart.
    pub(crate) max_priority: u8,
    /// Only the newest message of each key waits.
    pub(crate) last_values: bool,
}

/// The priority of a message, by its name.
pub(crate) fn priority_of(id: &str) -> u8 {
    id.trim_start_matches('m').parse::<u64>().map_or(0, |number| (number % 5) as u8)
}

/// The key of a message, by its name.
pub(crate) fn key_of(id: &str) -> u64 {
    id.trim_start_matches('m').parse::<u64>().map_or(0, |number| number / 5 % 3)
}

/// When a message came, by its position.
fn arrival(position: u64) -> u64 {
    position & u64::from(u32::MAX)
}

/// A consumer.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) session: SessionKey,
    pub(crate) prefetch: u32,
    pub(crate) settling: Settling,
}

/// A queue that exists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) items: BTreeMap<u64, Item>,
    next: u64,
    /// How many were declared before it.
    declared: u64,
    /// The value of `next` at the end of the last step.
    since: u64,
    pub(crate) consumers: BTreeMap<String, Consumer>,
    /// The newest message of each key that was shown, while it is here.
    newest: BTreeMap<u64, u64>,
    /// Messages that go if they are not delivered in this step, each with the newer one of its key
    /// that was dispatched before. Such a message is superseded, unless the newer one went to a
    /// consumer that acknowledges nothing and was gone by then.
    doubtful: BTreeMap<u64, u64>,
    /// Positions dispatched in this step, in order.
    pub(crate) leaving: Vec<u64>,
}

impl Queue {
    pub(crate) fn ready(&self) -> usize {
        self.items.values().filter(|item| item.state == State::Ready).count()
    }

    pub(crate) fn out(&self) -> usize {
        self.items.values().filter(|item| matches!(item.state, State::Out(..))).count()
    }

    /// A higher priority, as far as it counts, gives a place farther in front. Returns that place.
    fn push(&mut self, item: Item, rules: &Rules) -> u64 {
        let shown = item.state == State::Ready;
        let behind = rules.max_priority - priority_of(&item.id).min(rules.max_priority);
        let position = u64::from(behind) << 32 | self.next;
        self.items.insert(position, item);
        self.next += 1;
        if shown && rules.last_values {
            self.show(position);
        }
        position
    }

    /// Ends a step, after all its deliveries were seen.
    pub(crate) fn end_step(&mut self) {
        self.since = self.next;
        for (position, newer) in std::mem::take(&mut self.doubtful) {
            if let Some(at) = self.leaving.iter().position(|leaving| *leaving == position) {
                self.leaving.remove(at);
                let newest = self.items.remove(&position).and_then(|item| self.newest.get_mut(&key_of(&item.id)));
                newest.into_iter().filter(|newest| **newest == position).for_each(|newest| *newest = newer);
            }
        }
    }

    /// The newest message of the key that `id` has.
    fn newest(&self, id: &str) -> Option<u64> {
        self.newest.get(&key_of(id)).copied().filter(|position| self.items.contains_key(position))
    }

    /// Shows a message: another one of its key goes, or this one does.
    fn show(&mut self, position: u64) {
        let id = self.items[&position].id.clone();
        let before = self.newest(&id).filter(|before| *before != position);
        if let Some(newer) = before.filter(|before| arrival(*before) > arrival(position)) {
            if self.items[&newer].state != State::Leaving
                || self.consumers.values().all(|consumer| consumer.settling == Settling::Manual)
            {
                self.items.remove(&position);
            } else {
                self.newest.insert(key_of(&id), position);
                self.doubtful.insert(position, newer);
            }
            return;
        }
        self.newest.insert(key_of(&id), position);
        let waits = |before: &u64| self.items[before].state == State::Ready;
        before.filter(waits).into_iter().for_each(|before| drop(self.items.remove(&before)));
    }

    /// How many more deliveries its consumers can take.
    fn credit(&self) -> usize {
        let mut credit = 0;
        for (tag, consumer) in &self.consumers {
            if consumer.settling == Settling::Auto || consumer.prefetch == 0 {
                return usize::MAX;
            }
            let used =
                self.items.values().filter(|item| matches!(&item.state, State::Out(_, _, Some(of)) if of == tag));
            credit += (consumer.prefetch as usize).saturating_sub(used.count());
        }
        credit - self.leaving.len()
    }

    fn dispatch(&mut self) {
        let credit = self.credit();
        let ready = self.items.iter_mut().filter(|(_, item)| item.state == State::Ready).take(credit);
        for (position, item) in ready {
            item.state = State::Leaving;
            self.leaving.push(*position);
        }
    }
}

/// The naive broker.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) rules: Vec<Rules>,
    pub(crate) queues: BTreeMap<usize, Queue>,
    /// How many queues were ever declared.
    pub(crate) declared: u64,
    /// Queues bound to each exchange and key.
    pub(crate) bindings: BTreeSet<(String, String, usize)>,
    /// Unsettled deliveries by session and tag.
    pub(crate) unsettled: BTreeMap<SessionKey, BTreeMap<u64, Place>>,
    /// Dead letters of this step, in order.
    pub(crate) dead: Vec<Dead>,
    /// Messages that are not in the log.
    pub(crate) transient: BTreeSet<String>,
    /// There is a disk: the messages of a commit are shown when they are on it.
    pub(crate) disk: bool,
    /// Messages that wait are read before they are delivered.
    pub(crate) reads: bool,
}

/// A consumer's outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Released,
    Failed,
    Rejected,
}

impl Model {
    pub(crate) fn declare(&mut self, queue: usize) {
        if let Entry::Vacant(place) = self.queues.entry(queue) {
            place.insert(Queue { declared: self.declared, ..Queue::default() });
            self.declared += 1;
        }
    }

    /// Removes a queue; returns its ready count and its consumers' tags.
    pub(crate) fn delete(&mut self, queue: usize) -> (usize, Vec<String>) {
        let Some(gone) = self.queues.remove(&queue) else { return (0, Vec::new()) };
        self.bindings.retain(|(_, _, to)| *to != queue);
        for unsettled in self.unsettled.values_mut() {
            // The tags stay valid and lead nowhere.
            unsettled.values_mut().filter(|(of, _)| *of == queue).for_each(|to| to.0 = usize::MAX);
        }
        (gone.ready(), gone.consumers.into_keys().collect())
    }

    pub(crate) fn route(&self, exchange: &str, key: &str) -> BTreeSet<usize> {
        if exchange.is_empty() {
            let named = key.strip_prefix('q').and_then(|number| number.parse().ok());
            return named.into_iter().filter(|queue| self.queues.contains_key(queue)).collect();
        }
        let matches = |bound: &str| exchange == "amq.fanout" || bound == key;
        let bound = self.bindings.iter().filter(|(of, bound, _)| of == exchange && matches(bound));
        bound.map(|(_, _, queue)| *queue).collect()
    }

    /// A turn of publishes: (exchange, key, id). Returns those that a full queue refused.
    pub(crate) fn publish(&mut self, turn: &[(String, String, String)]) -> Vec<bool> {
        let targets: Vec<_> = turn.iter().map(|(exchange, key, _)| self.route(exchange, key)).collect();
        let mut refused = vec![false; turn.len()];
        for queue in self.queues.keys().copied().collect::<Vec<_>>() {
            let rules = self.rules[queue].clone();
            let limit = rules.reject;
            let Some(entry) = self.queues.get_mut(&queue) else { continue };
            for (at, (_, _, id)) in turn.iter().enumerate().filter(|(at, _)| targets[*at].contains(&queue)) {
                let replaces = || entry.newest(id).is_some_and(|newest| entry.items[&newest].state == State::Ready);
                if limit.is_some_and(|limit| entry.ready() >= limit) && !(rules.last_values && replaces()) {
                    refused[at] = true;
                    continue;
                }
                entry.push(Item::new(id, State::Ready), &rules);
                if limit.is_some() || rules.last_values {
                    entry.dispatch();
                }
            }
            self.settle_down(queue);
        }
        self.bury();
        refused
    }

    /// Dispatches, then drops messages beyond the limit.
    fn settle_down(&mut self, queue: usize) {
        let rules = self.rules[queue].clone();
        let Some(entry) = self.queues.get_mut(&queue) else { return };
        entry.dispatch();
        while rules.drop_head.is_some_and(|limit| entry.ready() > limit) {
            let Some(position) = entry.items.iter().find(|(_, item)| item.state == State::Ready).map(|(at, _)| *at)
            else {
                return;
            };
            if let Some(item) = entry.items.remove(&position) {
                self.dead.push((queue, item.id, "maxlen"));
            }
        }
    }

    /// Moves dead letters on.
    fn bury(&mut self) {
        while !self.dead.is_empty() {
            let dead = std::mem::take(&mut self.dead);
            let places = self.arrive(dead);
            self.reveal(&places);
        }
    }

    /// Gives dead letters their places; they are not shown yet.
    fn arrive(&mut self, dead: Vec<Dead>) -> Vec<Place> {
        let mut places = Vec::new();
        for (from, id, why) in dead {
            let Some(to) = self.rules[from].dead_letters_to else { continue };
            if let Some(queue) = self.queues.get_mut(&to) {
                let item = Item { death: Some(why), ..Item::new(&id, State::Hidden) };
                places.push((to, queue.push(item, &self.rules[to])));
            }
        }
        places
    }

    /// Shows hidden messages.
    fn reveal(&mut self, places: &[Place]) {
        for number in places.iter().map(|(number, _)| *number).collect::<BTreeSet<_>>() {
            let Some(queue) = self.queues.get_mut(&number) else { continue };
            for (_, position) in places.iter().filter(|(of, _)| *of == number) {
                if let Some(item) = queue.items.get_mut(position) {
                    item.state = State::Ready;
                }
            }
            for (_, position) in places.iter().filter(|(of, _)| *of == number && self.rules[*of].last_values) {
                queue.show(*position);
            }
            self.settle_down(number);
        }
    }

    /// True for dead letters that are shown at once, since the log has none of them.
    fn are_transient(&self, dead: &[Dead]) -> bool {
        let moves = |from: usize| self.rules[from].dead_letters_to.is_some();
        dead.iter().all(|(from, id, _)| !moves(*from) || self.transient.contains(id))
    }

    /// Settles deliveries, which are no longer among the unsettled ones.
    pub(crate) fn settle(&mut self, deliveries: &[(Place, Verdict)]) {
        self.settle_first(deliveries);
        self.bury();
    }

    fn settle_first(&mut self, deliveries: &[(Place, Verdict)]) {
        let mut touched = BTreeSet::new();
        for ((queue, position), verdict) in deliveries {
            let Some(entry) = self.queues.get_mut(queue) else { continue };
            touched.insert(*queue);
            let Some(item) = entry.items.get_mut(position) else { continue };
            item.redelivered = true;
            item.failures += u32::from(*verdict == Verdict::Failed);
            let limit = self.rules[*queue].delivery_limit;
            let dies = *verdict == Verdict::Failed && limit.is_some_and(|limit| item.failures > limit);
            match verdict {
                Verdict::Released | Verdict::Failed if !dies => {
                    item.state = State::Ready;
                    if self.rules[*queue].last_values {
                        entry.show(*position);
                    }
                }
                Verdict::Accepted => drop(entry.items.remove(position)),
                _ => {
                    if let Some(item) = entry.items.remove(position) {
                        self.dead.push((*queue, item.id, "rejected"));
                    }
                }
            }
        }
        touched.into_iter().for_each(|queue| self.settle_down(queue));
    }

    /// Commits. False when a full queue refuses: then everything is undone.
    pub(crate) fn commit(&mut self, publishes: &[(String, String, String)], settled: &[(Place, Verdict)]) -> bool {
        let targets: Vec<_> = publishes.iter().map(|(exchange, key, _)| self.route(exchange, key)).collect();
        let mut coming: BTreeMap<usize, usize> = BTreeMap::new();
        for number in targets.iter().flatten() {
            let before = coming.entry(*number).or_default();
            let held = self.queues.get(number).map_or(0, Queue::ready) + *before;
            if self.rules[*number].reject.is_some_and(|limit| held >= limit) {
                self.rollback(settled);
                return false;
            }
            // A newer value may supersede a ready one.
            *before += usize::from(!self.rules[*number].last_values);
        }
        let mut places = Vec::new();
        for (targets, (_, _, id)) in targets.iter().zip(publishes) {
            for number in targets {
                if let Some(queue) = self.queues.get_mut(number) {
                    places.push((*number, queue.push(Item::new(id, State::Hidden), &self.rules[*number])));
                }
            }
        }
        // Accepted deliveries go with the group of the commit; the others take effect after that.
        let mut settled = settled.to_vec();
        settled.sort_by_key(|(_, verdict)| *verdict != Verdict::Accepted);
        self.settle_first(&settled);
        self.show_committed(&places);
        true
    }

    /// A commit shows its messages when they are on the disk, if there is one. Dead letters have
    /// groups of their own, from the settlements and from the limits of queues after the rest was
    /// shown. If they need not be on the disk they go before everything that waits for it.
    fn show_committed(&mut self, places: &[Place]) {
        let rejected = std::mem::take(&mut self.dead);
        let first = self.are_transient(&rejected);
        if self.disk {
            let rejected = self.arrive(rejected);
            let (one, other) = if first { (&*rejected, places) } else { (places, &*rejected) };
            self.reveal(one);
            self.reveal(other);
        } else {
            self.reveal(places);
            let dropped = std::mem::take(&mut self.dead);
            let first = first || !self.are_transient(&dropped);
            let (rejected, dropped) = (self.arrive(rejected), self.arrive(dropped));
            let (one, other) = if first { (rejected, dropped) } else { (dropped, rejected) };
            self.reveal(&one);
            self.reveal(&other);
        }
        self.bury();
    }

    pub(crate) fn rollback(&mut self, settled: &[(Place, Verdict)]) {
        let released: Vec<_> = settled.iter().map(|(delivery, _)| (*delivery, Verdict::Released)).collect();
        self.settle(&released);
    }

    pub(crate) fn consume(&mut self, queue: usize, tag: &str, consumer: Consumer) {
        if let Some(entry) = self.queues.get_mut(&queue) {
            entry.consumers.insert(tag.to_owned(), consumer);
        }
        self.settle_down(queue);
        self.bury();
    }

    pub(crate) fn cancel(&mut self, tag: &str) {
        for queue in self.queues.values_mut() {
            queue.consumers.remove(tag);
        }
    }

    /// The real broker may deliver a ready message instead of the last one that the model
    /// dispatched. That one was being read from the disk when a message of a higher priority came;
    /// no other message may pass it. Returns the position, if the broker may do that.
    pub(crate) fn overtake(&mut self, number: usize, id: &str, death: Option<&str>) -> Option<u64> {
        let queue = self.queues.get_mut(&number).filter(|_| self.reads)?;
        let last = queue.leaving.iter().copied().max()?;
        let is_it = |item: &Item| item.id == id && item.death == death && item.state == State::Ready;
        let before = |position: u64| position < last && arrival(position) >= queue.since;
        let found = queue.items.iter().find(|(position, item)| before(**position) && is_it(item));
        let position = *found?.0;
        queue.leaving.retain(|leaving| *leaving != last);
        queue.items.get_mut(&last)?.state = State::Ready;
        Some(position)
    }

    /// A durable message is ready as long as the mark past it is on its way to the disk. Where it
    /// is one more than the limit allows it may be dropped meanwhile, and its consumer gets the
    /// next one. `delivered` are the messages that consumers of the queue got in this step.
    pub(crate) fn drop_what_waited(&mut self, number: usize, delivered: &[&str]) {
        let Some(limit) = self.rules[number].drop_head.filter(|_| self.disk) else { return };
        let Some(queue) = self.queues.get_mut(&number) else { return };
        while queue.ready() + queue.leaving.len() > limit {
            let waited = queue.leaving.iter().position(|position| {
                let id = &queue.items[position].id;
                !delivered.contains(&id.as_str()) && !self.transient.contains(id)
            });
            let Some(position) = waited.map(|at| queue.leaving.remove(at)) else { break };
            self.dead.extend(queue.items.remove(&position).map(|item| (number, item.id, "maxlen")));
            queue.dispatch();
        }
        self.bury();
    }

    /// Takes the first ready message for a fetch: its position.
    pub(crate) fn fetch(&mut self, queue: usize) -> Option<u64> {
        let entry = self.queues.get_mut(&queue)?;
        entry.items.iter().find(|(_, item)| item.state == State::Ready).map(|(position, _)| *position)
    }

    pub(crate) fn purge(&mut self, queue: usize) -> usize {
        let Some(entry) = self.queues.get_mut(&queue) else { return 0 };
        let before = entry.items.len();
        entry.items.retain(|_, item| item.state != State::Ready);
        before - entry.items.len()
    }

    /// Ends a session: its consumers go, then its deliveries come back to one queue after the
    /// other, in the order in which these were declared. The dead letters of one go before the
    /// next.
    pub(crate) fn end(&mut self, session: SessionKey) {
        for queue in self.queues.values_mut() {
            queue.consumers.retain(|_, consumer| consumer.session != session);
        }
        let mut back: BTreeMap<u64, Vec<(Place, Verdict)>> = BTreeMap::new();
        for place in self.unsettled.remove(&session).unwrap_or_default().into_values() {
            let Some(queue) = self.queues.get(&place.0) else { continue };
            back.entry(queue.declared).or_default().push((place, Verdict::Failed));
        }
        back.values().for_each(|back| self.settle(back));
    }
}
