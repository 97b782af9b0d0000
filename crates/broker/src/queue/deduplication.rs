//! The ids by which a queue knows the messages that it has taken.
//!
//! Ids belong to a *scope*: the queue itself (0), or the owner of an exchange that drops
//! duplicates. Within a scope ids keep their order of arrival, and the oldest are forgotten first.
//! An id and the reference of its message are logged in one group: after a crash both are there or
//! neither. So a duplicate is never confirmed for a message that is gone, and never stored beside
//! one that is there.
//!
//! In the log the ids of a scope are in *bundles* of consecutive places, each an owner of its own.
//! When a log file leaves, only the bundles that it mentions are restated, so a restatement is
//! never larger than what leaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::{HashMap, HashSet};
use journal::Owner;

use crate::arguments::Remember;
use crate::arguments::deduplication::LARGEST_SIZE;
use crate::message::scheduling::Instructions;
use crate::queue::QueueContext;
use crate::queue::arrival::Arrival;
use crate::queue::facts as queue_facts;
use crate::queue::features::Entered;
use crate::queue::{Inner, Queue, Visit};

/// The scope of the queue itself.
const OWN: Owner = 0;
/// The memory of an id besides its bytes.
const ID_COST: usize = 120;
/// Places in a bundle.
const BUNDLE: u64 = 1024;

/// An exchange that drops duplicates, on the way to a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeduplicatingExchange {
    pub(crate) exchange: Owner,
    pub(crate) remember: Remember,
}

/// The id that makes a message a duplicate, and the scopes in which it counts.
#[derive(Debug, Clone)]
pub(crate) struct MessageIdentity {
    id: Arc<[u8]>,
    remembered_for: Option<u64>,
    /// By queue.
    gates: HashMap<Owner, DeduplicatingExchange>,
    /// Queues that the message has been in and returns to. There it is no duplicate of itself or of
    /// others.
    returns_to: HashSet<Owner>,
}

impl MessageIdentity {
    /// The identity of a message with these instructions that goes to `queues`, through `gates`.
    pub(crate) fn of(
        instructions: &Instructions,
        queues: &[Arc<Queue>],
        gates: HashMap<Owner, DeduplicatingExchange>,
    ) -> Option<Box<Self>> {
        let id = Arc::clone(instructions.id.as_ref()?);
        for queue in queues.iter().filter(|queue| gates.contains_key(&queue.id)) {
            queue.ways_in.gated.store(true, Ordering::Relaxed);
        }
        Some(Box::new(Self { id, remembered_for: instructions.remembered_for, gates, returns_to: HashSet::new() }))
    }

    /// The same for a dead letter that has been in the queues `been_in`.
    pub(crate) fn returning(mut self: Box<Self>, queues: &[Arc<Queue>], been_in: &HashSet<&str>) -> Box<Self> {
        self.returns_to = queues.iter().filter(|queue| been_in.contains(&*queue.name)).map(|queue| queue.id).collect();
        self
    }

    /// The scopes in which it counts at `queue`, and how long it is remembered there.
    fn scopes<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = (Owner, Remember)> + 'a {
        let own = queue.deduplication.map(|remember| (OWN, remember));
        let gate = self.gates.get(&queue.id);
        own.into_iter().chain(gate.map(|gate| (gate.exchange, gate.remember)))
    }
}

/// One id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RememberedId {
    pub(crate) id: Arc<[u8]>,
    /// The number of its message.
    pub(crate) number: u64,
    /// In milliseconds since 1970; 0 for never forgotten.
    pub(crate) until: u64,
    /// Its message is in the log.
    pub(crate) durable: bool,
}

impl RememberedId {
    fn is_over(&self, now: u64) -> bool {
        self.until != 0 && self.until <= now
    }
}

/// The ids of one scope, each at its place in the order of arrival.
#[derive(Debug, Default)]
struct Scope {
    places: HashMap<Arc<[u8]>, u64>,
    kept: BTreeMap<u64, RememberedId>,
    next: u64,
    /// The owners of bundles, as far as the log speaks of them.
    bundles: BTreeMap<u64, Owner>,
}

impl Scope {
    /// Forgets a bundle that is empty and stays so.
    fn close(&mut self, bundle: u64) {
        let places = bundle * BUNDLE..(bundle + 1) * BUNDLE;
        if places.end <= self.next && self.kept.range(places).next().is_none() {
            self.bundles.remove(&bundle);
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SeenIds {
    scopes: BTreeMap<Owner, Scope>,
    /// The places of the queue's own ids, by the numbers of their messages.
    own: HashMap<u64, u64>,
    /// Bytes of all ids.
    bytes: usize,
    /// Ids, in all scopes.
    count: usize,
}

impl SeenIds {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The message of this id that was taken, as long as the id counts.
    fn find(&self, scope: Owner, id: &[u8], now: u64) -> Option<&RememberedId> {
        let scope = self.scopes.get(&scope)?;
        scope.kept.get(scope.places.get(id)?).filter(|kept| !kept.is_over(now))
    }

    /// Remembers an id among at most `size`, and forgets those that have run out by `now`. Returns
    /// its place.
    fn keep(&mut self, scope: Owner, kept: RememberedId, size: u64, now: u64) -> u64 {
        let place = self.scopes.get(&scope).map_or(0, |ids| ids.next);
        if let Some(before) = self.put(scope, place, kept) {
            self.remove(scope, before);
        }
        if let Some(ids) = self.scopes.get_mut(&scope)
            && place.is_multiple_of(BUNDLE)
            && let Some(before) = (place / BUNDLE).checked_sub(1)
        {
            ids.close(before);
        }
        while let Some(ids) = self.scopes.get(&scope)
            && let Some((first, kept)) = ids.kept.first_key_value()
            && (ids.kept.len() as u64 > size || kept.is_over(now))
        {
            self.remove(scope, *first);
        }
        place
    }

    /// Puts an id at a place that is free, and returns where it was before.
    fn put(&mut self, scope: Owner, place: u64, kept: RememberedId) -> Option<u64> {
        let ids = self.scopes.entry(scope).or_default();
        ids.next = ids.next.max(place + 1);
        if scope == OWN {
            self.own.insert(kept.number, place);
        }
        self.bytes += kept.id.len();
        self.count += 1;
        let before = ids.places.insert(Arc::clone(&kept.id), place);
        ids.kept.insert(place, kept);
        before
    }

    fn remove(&mut self, scope: Owner, place: u64) {
        let Some(ids) = self.scopes.get_mut(&scope) else { return };
        let Some(kept) = ids.kept.remove(&place) else { return };
        // The id may be there once more, with another place and another message.
        if ids.places.get(&kept.id) == Some(&place) {
            ids.places.remove(&kept.id);
        }
        if scope == OWN && self.own.get(&kept.number) == Some(&place) {
            self.own.remove(&kept.number);
        }
        self.bytes -= kept.id.len();
        self.count -= 1;
        ids.close(place / BUNDLE);
    }

    /// Takes an id from the log, in a bundle of this owner. The log may repeat an id, and have more
    /// than the limit allows. Their places tell the order of arrival; their order in the log does
    /// not.
    pub(crate) fn recover(&mut self, bundle: Owner, scope: Owner, place: u64, kept: RememberedId) {
        let ids = self.scopes.entry(scope).or_default();
        if ids.kept.contains_key(&place) {
            return;
        }
        if ids.places.get(&kept.id).is_some_and(|other| *other > place) {
            return;
        }
        ids.bundles.insert(place / BUNDLE, bundle);
        if let Some(before) = self.put(scope, place, kept) {
            self.remove(scope, before);
        }
    }

    /// Forgets the oldest ids of a scope that are more than any limit allows. What limit it has is
    /// not known here.
    pub(crate) fn forget_beyond_any_limit(&mut self, scope: Owner) {
        while let Some(ids) = self.scopes.get(&scope)
            && let Some((first, _)) = ids.kept.first_key_value()
            && ids.kept.len() as u64 > LARGEST_SIZE
        {
            self.remove(scope, *first);
        }
    }

    /// The owner of the bundle with this place, `new` if it has none yet.
    fn bundle_of(&mut self, scope: Owner, place: u64, new: &dyn Fn() -> Owner) -> Owner {
        *self.scopes.entry(scope).or_default().bundles.entry(place / BUNDLE).or_insert_with(new)
    }

    /// The owners of all bundles.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = Owner> {
        self.scopes.values().flat_map(|ids| ids.bundles.values().copied())
    }

    /// The scope of a bundle, and its ids whose messages are in the log, with their places.
    pub(crate) fn logged(&self, bundle: Owner) -> Option<(Owner, Vec<(u64, &RememberedId)>)> {
        let found = |ids: &Scope| ids.bundles.iter().find(|(_, owner)| **owner == bundle).map(|(number, _)| *number);
        let (scope, ids, number) = self.scopes.iter().find_map(|(scope, ids)| Some((*scope, ids, found(ids)?)))?;
        let places = ids.kept.range(number * BUNDLE..(number + 1) * BUNDLE);
        Some((scope, places.filter(|(_, kept)| kept.durable).map(|(place, kept)| (*place, kept)).collect()))
    }

    /// The message of this number has left the queue.
    fn left(&mut self, number: u64) {
        if let Some(place) = self.own.get(&number) {
            self.remove(OWN, *place);
        }
    }

    /// Forgets the queue's own ids whose messages are not there.
    fn retain(&mut self, is_there: &mut dyn FnMut(u64) -> bool) {
        let gone: Vec<u64> = self.own.keys().copied().filter(|number| !is_there(*number)).collect();
        gone.into_iter().for_each(|number| self.left(number));
    }

    /// Forgets scopes that no longer exist.
    fn retain_scopes(&mut self, is_there: &mut dyn FnMut(Owner) -> bool) {
        let scopes: Vec<Owner> = self.scopes.keys().copied().filter(|scope| !is_there(*scope)).collect();
        for scope in scopes {
            let places: Vec<u64> = self.scopes[&scope].kept.keys().copied().collect();
            places.into_iter().for_each(|place| self.remove(scope, place));
            self.scopes.remove(&scope);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes + self.count * ID_COST
    }
}

/// The ids of a queue, as far as it has any.
#[derive(Debug)]
pub(super) struct Ids {
    seen: Option<Box<SeenIds>>,
    /// The queue's own ids are remembered only while their messages are here.
    while_queued: bool,
    /// Messages that were dropped as duplicates.
    duplicates: u64,
}

impl Ids {
    /// Those of a new queue, which may drop duplicates itself.
    pub(super) fn new(deduplication: Option<Remember>) -> Self {
        Self { seen: None, while_queued: deduplication == Some(Remember::WhileQueued), duplicates: 0 }
    }

    /// Remembers the id of a new entry, and logs it.
    pub(super) fn entered(
        &mut self,
        identity: &MessageIdentity,
        entered: &Entered<'_>,
        queue: &Queue,
        visit: &Visit<'_>,
    ) {
        let Entered { number, durable, group, .. } = *entered;
        for (scope, remember) in identity.scopes(queue) {
            let until = remember.until(visit.now, identity.remembered_for);
            let kept = RememberedId { id: Arc::clone(&identity.id), number, until, durable };
            let seen = self.seen.get_or_insert_default();
            let place = seen.keep(scope, kept.clone(), remember.size(), visit.now);
            #[cfg(feature = "sabotage")]
            let durable = durable && !super::sabotage::armed("forget-ids");
            if durable {
                let bundle = seen.bundle_of(scope, place, &|| visit.context.id_bundle(queue.id));
                let mut appender = visit.context.journal.appender(queue.log());
                queue_facts::log_seen(&mut appender, group, bundle, (queue.id, scope), &[(place, &kept)]);
            }
        }
    }

    /// An entry is done.
    #[inline]
    pub(super) fn left(&mut self, number: u64) {
        if self.while_queued
            && let Some(seen) = &mut self.seen
        {
            seen.left(number);
        }
    }

    /// Forgets ids that last only as long as their messages, where the messages are gone.
    pub(super) fn purged(&mut self, is_live: &dyn Fn(u64) -> bool) {
        if self.while_queued
            && let Some(seen) = &mut self.seen
        {
            seen.retain(&mut |number| is_live(number));
        }
    }

    pub(super) fn ended(&mut self) {
        self.seen = None;
    }

    /// See [`SeenIds::logged`].
    pub(super) fn restated(&self, bundle: Owner) -> Option<(Owner, Vec<(u64, &RememberedId)>)> {
        self.seen.as_ref()?.logged(bundle)
    }

    /// The memory of the ids, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.seen.as_ref().map_or(0, |seen| seen.heap_bytes())
    }
}

impl Queue {
    /// True when arrivals may have to be compared with earlier ids.
    #[inline]
    pub(crate) fn deduplicates(&self) -> bool {
        self.deduplication.is_some() || self.ways_in.gated.load(Ordering::Relaxed)
    }

    /// True when an arrival is a duplicate: it is counted and dropped.
    pub(super) fn drops(&self, inner: &mut Inner, arrival: &mut Arrival, now: u64) -> bool {
        let (Some(identity), Some(seen)) = (&arrival.identity, &inner.features.ids.seen) else { return false };
        // What survives a restart is no duplicate of what does not.
        let durable = self.logged() && arrival.address.is_some();
        let repeats =
            |(scope, _)| seen.find(scope, &identity.id, now).is_some_and(|earlier| earlier.durable || !durable);
        if identity.returns_to.contains(&self.id) || !identity.scopes(self).any(repeats) {
            return false;
        }
        inner.features.ids.duplicates += 1;
        arrival.repeat();
        true
    }

    /// Takes the ids that recovery found. `exists` says whether the exchange of a scope is still
    /// there.
    pub(crate) fn recover_seen(&self, mut found: SeenIds, exists: &dyn Fn(Owner) -> bool, context: &QueueContext) {
        found.retain_scopes(&mut |scope| {
            if scope == OWN { self.deduplication.is_some() } else { exists(scope) }
        });
        self.ways_in.gated.store(found.scopes.keys().any(|scope| *scope != OWN), Ordering::Relaxed);
        found.bundles().for_each(|bundle| context.keep_id_bundle(bundle, self.id));
        let mut inner = self.lock(context);
        let inner = &mut *inner;
        inner.features.ids.seen = Some(Box::new(found));
        inner.features.ids.purged(&|number| inner.lanes.is_live(number));
    }
}

impl Inner {
    /// Ids that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.features.ids.seen.as_ref().map_or(0, |seen| seen.count)
    }

    /// Messages that were dropped as duplicates.
    pub(crate) fn duplicates(&self) -> u64 {
        self.features.ids.duplicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: &str, number: u64, until: u64) -> RememberedId {
        RememberedId { id: id.as_bytes().into(), number, until, durable: true }
    }

    /// Whether a durable message of this id was taken.
    fn knows(seen: &SeenIds, scope: Owner, id: &[u8], now: u64) -> bool {
        seen.find(scope, id, now).is_some_and(|kept| kept.durable)
    }

    #[test]
    fn the_oldest_ids_are_forgotten_first_and_those_that_are_over() {
        let mut seen = SeenIds::default();
        // Numbers say nothing of the order of arrival: messages have priorities.
        for (number, id, until) in [(9, "a", 0), (2, "b", 50), (8, "c", 0), (4, "d", 500)] {
            seen.keep(OWN, kept(id, number, until), 3, 0);
        }
        let known = |seen: &SeenIds, now| {
            let ids = ["a", "b", "c", "d"].into_iter();
            ids.filter(|id| knows(seen, OWN, id.as_bytes(), now)).collect::<String>()
        };
        assert_eq!(known(&seen, 49), "bcd");
        assert_eq!(known(&seen, 50), "cd");
        seen.keep(OWN, kept("a", 5, 0), 3, 60);
        assert_eq!(known(&seen, 60), "acd");
        assert_eq!((seen.count, seen.bytes), (3, 3));
        // An id that comes again after it ran out is that of the new message.
        seen.keep(OWN, kept("d", 6, 0), 3, 600);
        assert_eq!((known(&seen, 600).as_str(), seen.count), ("acd", 3));
        seen.left(4);
        assert!(knows(&seen, OWN, b"d", 600));
        seen.left(6);
        assert!(!knows(&seen, OWN, b"d", 600));
        seen.retain(&mut |number| number == 5);
        assert_eq!((known(&seen, 600).as_str(), seen.count, seen.bytes, seen.own.len()), ("a", 1, 1, 1));
    }

    #[test]
    fn scopes_do_not_know_of_each_other() {
        let mut seen = SeenIds::default();
        seen.keep(7, kept("a", 1, 0), 1, 0);
        assert!(knows(&seen, 7, b"a", 0) && !knows(&seen, OWN, b"a", 0) && !knows(&seen, 8, b"a", 0));
        seen.left(1);
        seen.retain(&mut |_| false);
        assert!(knows(&seen, 7, b"a", 0), "only the queue's own ids go with their messages");
        seen.retain_scopes(&mut |scope| scope != 7);
        assert!(!knows(&seen, 7, b"a", 0) && seen.is_empty());
    }

    #[test]
    fn an_id_says_whether_its_message_survives() {
        let mut seen = SeenIds::default();
        seen.keep(OWN, RememberedId { durable: false, ..kept("a", 1, 0) }, 9, 0);
        assert!(seen.find(OWN, b"a", 0).is_some() && !knows(&seen, OWN, b"a", 0));
        assert_eq!(seen.bundle_of(OWN, 0, &|| 77), 77);
        assert_eq!(logged(&seen, 77), []);
        seen.keep(OWN, kept("a", 2, 0), 9, 0);
        assert!(seen.find(OWN, b"a", 0).is_some() && knows(&seen, OWN, b"a", 0));
        assert_eq!(logged(&seen, 77), [(1, 2)]);
    }

    /// Places and numbers in the restatement of a bundle.
    fn logged(seen: &SeenIds, bundle: Owner) -> Vec<(u64, u64)> {
        let (scope, ids) = seen.logged(bundle).unwrap();
        assert_eq!(scope, OWN);
        ids.into_iter().map(|(place, kept)| (place, kept.number)).collect()
    }

    #[test]
    fn places_tell_the_order_whatever_the_log_says_first() {
        let mut seen = SeenIds::default();
        // The bundle of the older ids was restated behind the newer ones; "b" came a second time.
        for (bundle, place, id, number) in
            [(8, BUNDLE, "c", 3), (8, BUNDLE + 1, "b", 4), (7, 0, "a", 1), (7, 1, "b", 2), (7, 0, "a", 1)]
        {
            seen.recover(bundle, OWN, place, kept(id, number, 0));
        }
        assert_eq!((logged(&seen, 7), logged(&seen, 8)), (vec![(0, 1)], vec![(BUNDLE, 3), (BUNDLE + 1, 4)]));
        assert_eq!((seen.count, seen.own.len()), (3, 3));
        assert_eq!(seen.keep(OWN, kept("d", 5, 0), 3, 0), BUNDLE + 2);
        assert!(!knows(&seen, OWN, b"a", 0) && knows(&seen, OWN, b"c", 0), "the oldest goes first");
        assert!(seen.logged(7).is_none(), "nothing is left of the first bundle");
    }

    #[test]
    fn a_bundle_is_forgotten_once_it_is_full_and_empty() {
        let mut seen = SeenIds::default();
        for number in 0..BUNDLE + 1 {
            let place = seen.keep(OWN, kept(&number.to_string(), number, 0), BUNDLE, 0);
            seen.bundle_of(OWN, place, &|| 100 + place / BUNDLE);
            seen.left(number);
            let expected = match number + 1 {
                ..BUNDLE => Some(100),
                BUNDLE => None,
                _ => Some(101),
            };
            assert_eq!(seen.bundles().next(), expected, "after {number}");
        }
    }
}
