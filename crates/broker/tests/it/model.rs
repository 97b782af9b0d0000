//! A naive broker: queues are maps from position to message, and nothing is fast. It says what must be delivered after
//! each step; who of several consumers gets it is the real broker's choice, within their credit.

use std::collections::{BTreeMap, BTreeSet};

/// What a message in a queue is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Part of a transaction that is being committed.
    Hidden,
    /// Dispatched in this step; to whom is seen later.
    Leaving,
    /// With this session's tag, and the consumer that it counts for.
    Out(SessionKey, u64, Option<String>),
}

/// Client and session.
pub(crate) type SessionKey = (usize, u32);

/// Queue and position of a delivery.
pub(crate) type Place = (usize, u64);

/// A message in a queue.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) redelivered: bool,
    pub(crate) returns: u32,
    pub(crate) state: State,
}

/// What a kind of queue does with what it holds.
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
    pub(crate) no_ack: bool,
}

/// A queue that exists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) items: BTreeMap<u64, Item>,
    next: u64,
    pub(crate) consumers: BTreeMap<String, Consumer>,
    /// The newest message of each key that was shown, as long as it is here.
    newest: BTreeMap<u64, u64>,
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

    /// The higher its priority, as far as that counts, the farther in front is its place.
    fn push(&mut self, id: &str, state: State, rules: &Rules) {
        let shown = state == State::Ready;
        let item = Item { id: id.to_owned(), redelivered: false, returns: 0, state };
        let behind = rules.max_priority - priority_of(id).min(rules.max_priority);
        let position = u64::from(behind) << 32 | self.next;
        self.items.insert(position, item);
        self.next += 1;
        if shown && rules.last_values {
            self.show(position);
        }
    }

    /// The newest message of the key that `id` has.
    fn newest(&self, id: &str) -> Option<u64> {
        self.newest.get(&key_of(id)).copied().filter(|position| self.items.contains_key(position))
    }

    /// A message is ready: another one of its key goes, or it itself.
    fn show(&mut self, position: u64) {
        let id = self.items[&position].id.clone();
        let before = self.newest(&id).filter(|before| *before != position);
        if before.is_some_and(|before| arrival(before) > arrival(position)) {
            self.items.remove(&position);
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
            if consumer.no_ack || consumer.prefetch == 0 {
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
    /// Queues bound to each exchange and key.
    pub(crate) bindings: BTreeSet<(String, String, usize)>,
    /// Unsettled deliveries by session and tag.
    pub(crate) unsettled: BTreeMap<SessionKey, BTreeMap<u64, Place>>,
    /// Dead letters of this step, in order: from where, what.
    pub(crate) dead: Vec<(usize, String)>,
}

/// What a consumer says of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Released,
    Rejected,
}

impl Model {
    pub(crate) fn declare(&mut self, queue: usize) {
        self.queues.entry(queue).or_default();
    }

    /// Removes a queue; gives its ready count and its consumers' tags.
    pub(crate) fn delete(&mut self, queue: usize) -> (usize, Vec<String>) {
        let Some(gone) = self.queues.remove(&queue) else { return (0, Vec::new()) };
        self.bindings.retain(|(_, _, to)| *to != queue);
        for unsettled in self.unsettled.values_mut() {
            // The tags stay good, they only point nowhere.
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

    /// A turn of publishes: (exchange, key, id). Gives those that a full queue refused.
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
                entry.push(id, State::Ready, &rules);
                if limit.is_some() || rules.last_values {
                    entry.dispatch();
                }
            }
            self.settle_down(queue);
        }
        self.bury();
        refused
    }

    /// Dispatches, then drops what is too much.
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
                self.dead.push((queue, item.id));
            }
        }
    }

    /// Moves dead letters on.
    fn bury(&mut self) {
        while !self.dead.is_empty() {
            let mut targets = BTreeSet::new();
            for (from, id) in std::mem::take(&mut self.dead) {
                let Some(to) = self.rules[from].dead_letters_to else { continue };
                if let Some(queue) = self.queues.get_mut(&to) {
                    queue.push(&id, State::Ready, &self.rules[to]);
                    targets.insert(to);
                }
            }
            targets.into_iter().for_each(|target| self.settle_down(target));
        }
    }

    /// Settles deliveries that were taken out of the unsettled ones.
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
            item.returns += 1;
            let limit = self.rules[*queue].delivery_limit;
            let dies = *verdict == Verdict::Released && limit.is_some_and(|limit| item.returns > limit);
            match verdict {
                Verdict::Released if !dies => {
                    item.state = State::Ready;
                    if self.rules[*queue].last_values {
                        entry.show(*position);
                    }
                }
                Verdict::Accepted => drop(entry.items.remove(position)),
                _ => {
                    if let Some(item) = entry.items.remove(position) {
                        self.dead.push((*queue, item.id));
                    }
                }
            }
        }
        touched.into_iter().for_each(|queue| self.settle_down(queue));
    }

    /// Commits. False when a full queue refuses: then everything is undone.
    pub(crate) fn commit(&mut self, publishes: &[(String, String, String)], settled: &[(Place, Verdict)]) -> bool {
        let targets: Vec<_> = publishes.iter().map(|(exchange, key, _)| self.route(exchange, key)).collect();
        let full = |queue: &usize| {
            let ready = self.queues.get(queue).map_or(0, Queue::ready);
            self.rules[*queue].reject.is_some_and(|limit| ready >= limit)
        };
        if targets.iter().flatten().any(full) {
            self.rollback(settled);
            return false;
        }
        for (targets, (_, _, id)) in targets.iter().zip(publishes) {
            for number in targets {
                if let Some(queue) = self.queues.get_mut(number) {
                    queue.push(id, State::Hidden, &self.rules[*number]);
                }
            }
        }
        self.settle_first(settled);
        for number in targets.into_iter().flatten().collect::<BTreeSet<_>>() {
            if let Some(queue) = self.queues.get_mut(&number) {
                let hidden = queue.items.iter_mut().filter(|(_, item)| item.state == State::Hidden);
                let hidden = hidden.map(|(position, item)| {
                    item.state = State::Ready;
                    *position
                });
                let mut shown: Vec<u64> = hidden.collect();
                shown.sort_unstable_by_key(|position| arrival(*position));
                shown.retain(|_| self.rules[number].last_values);
                shown.into_iter().for_each(|position| queue.show(position));
            }
            self.settle_down(number);
        }
        self.bury();
        true
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

    /// Ends a session: its consumers go, its deliveries come back.
    pub(crate) fn end(&mut self, session: SessionKey) {
        for queue in self.queues.values_mut() {
            queue.consumers.retain(|_, consumer| consumer.session != session);
        }
        let back: Vec<_> = self.unsettled.remove(&session).unwrap_or_default().into_values().collect();
        let back: Vec<_> = back.into_iter().map(|delivery| (delivery, Verdict::Released)).collect();
        self.settle(&back);
    }
}
