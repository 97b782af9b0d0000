//! Last values: of the messages of one key only the newest waits, in memory as in the log.
//!
//! The key of an entry and its reference are logged in one group, with the settlement of the entry
//! that it supersedes. After a crash one of the two is there, never both and never neither. Entries
//! keep the order of their arrival. An entry that a consumer holds stays with it. It is superseded
//! on its return if a newer one is there.
//!
//! In the log keys are in bundles of consecutive places, each an owner of its own, as ids are
//! ([`crate::queue::SeenIds`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use journal::{Owner, PAGE};

use crate::message::Message;
use crate::message::selected::Selected;
use crate::queue::QueueContext;
use crate::queue::arrival::Arrival;
use crate::queue::facts as queue_facts;
use crate::queue::features::Entered;
use crate::queue::{Inner, Queue, State, Visit, settle};

/// The longest key, in bytes: keys are kept in memory and in the log as they are.
const KEY_MAX: usize = 255;
/// The memory of a key besides its bytes.
const KEY_COST: usize = 200;
/// Places in a bundle.
const BUNDLE: u64 = 1024;

/// An entry that has a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) key: Arc<[u8]>,
    /// The number of the entry.
    pub(crate) number: u64,
    /// It is in the log.
    pub(crate) durable: bool,
}

/// The entries of a queue that have keys. See the module.
#[derive(Debug, Default)]
pub(crate) struct LastValues {
    /// In the order of arrival, by place. Numbers are not in that order if there are priorities.
    all: BTreeMap<u64, Keyed>,
    /// Their places, by number.
    places: HashMap<u64, u64>,
    /// The place of the newest entry of each key that is not hidden.
    newest: HashMap<Arc<[u8]>, u64>,
    next: u64,
    /// The owners of bundles, as far as the log speaks of them.
    bundles: BTreeMap<u64, Owner>,
    /// Bytes of all keys.
    bytes: usize,
}

/// The standing of an entry among those of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is the newest; this one was before.
    Newest { before: Option<u64> },
    /// There is a newer one.
    Outdated,
}

impl LastValues {
    /// Adds the key of a new entry, which counts once the entry is shown. Returns its place.
    fn come(&mut self, keyed: Keyed) -> u64 {
        let place = self.next;
        self.put(place, keyed);
        if place.is_multiple_of(BUNDLE)
            && let Some(before) = (place / BUNDLE).checked_sub(1)
        {
            self.close(before);
        }
        place
    }

    fn put(&mut self, place: u64, keyed: Keyed) {
        self.next = self.next.max(place + 1);
        self.places.insert(keyed.number, place);
        self.bytes += keyed.key.len();
        self.all.insert(place, keyed);
    }

    /// Takes a key from the log, in a bundle of this owner. The log may repeat a key.
    pub(crate) fn recover(&mut self, bundle: Owner, place: u64, keyed: Keyed) {
        self.bundles.insert(place / BUNDLE, bundle);
        match self.all.get(&place).map(|other| other.number) {
            Some(other) if other == keyed.number => return,
            // The place of an entry that is gone was given out again.
            Some(other) => self.left(other),
            None => {}
        }
        self.bundles.insert(place / BUNDLE, bundle);
        self.put(place, keyed);
    }

    /// The owner of the bundle with this place, `new` if it has none yet.
    fn bundle_of(&mut self, place: u64, new: &dyn Fn() -> Owner) -> Owner {
        *self.bundles.entry(place / BUNDLE).or_insert_with(new)
    }

    /// Forgets a bundle that is empty and stays so.
    fn close(&mut self, bundle: u64) {
        let places = bundle * BUNDLE..(bundle + 1) * BUNDLE;
        if places.end <= self.next && self.all.range(places).next().is_none() {
            self.bundles.remove(&bundle);
        }
    }

    /// Shows an entry to consumers; `None` if it has no key.
    fn show(&mut self, number: u64) -> Option<Standing> {
        let place = *self.places.get(&number)?;
        let key = &self.all.get(&place)?.key;
        let before = self.newest.get(key).copied();
        if before.is_some_and(|before| before > place) {
            return Some(Standing::Outdated);
        }
        self.newest.insert(Arc::clone(key), place);
        #[cfg(feature = "sabotage")]
        let before = before.filter(|_| !super::sabotage::armed("pile"));
        let before = before.filter(|before| *before != place).and_then(|before| self.all.get(&before));
        Some(Standing::Newest { before: before.map(|keyed| keyed.number) })
    }

    /// The newest entry of a key.
    fn newest_of(&self, key: &[u8]) -> Option<u64> {
        self.newest.get(key).and_then(|place| self.all.get(place)).map(|keyed| keyed.number)
    }

    /// The entry of this number has left.
    pub(crate) fn left(&mut self, number: u64) {
        let Some(place) = self.places.remove(&number) else { return };
        let Some(keyed) = self.all.remove(&place) else { return };
        self.bytes -= keyed.key.len();
        if self.newest.get(&keyed.key) == Some(&place) {
            self.newest.remove(&keyed.key);
        }
        self.close(place / BUNDLE);
    }

    /// Entries of a run have left.
    pub(crate) fn left_in_run(&mut self, first: u64, count: u64) {
        if count <= self.all.len() as u64 {
            (first..first.saturating_add(count)).for_each(|number| self.left(number));
        } else {
            self.retain(&mut |number| number < first || number - first >= count);
        }
    }

    /// Forgets entries that are gone.
    fn retain(&mut self, is_there: &mut dyn FnMut(u64) -> bool) {
        let gone: Vec<u64> = self.places.keys().copied().filter(|number| !is_there(*number)).collect();
        gone.into_iter().for_each(|number| self.left(number));
    }

    /// Shows all entries in the order of arrival. Returns those that others supersede.
    fn show_all(&mut self) -> Vec<u64> {
        let numbers: Vec<u64> = self.all.values().map(|keyed| keyed.number).collect();
        let before = |standing| match standing {
            Some(Standing::Newest { before }) => before,
            Some(Standing::Outdated) | None => None,
        };
        numbers.into_iter().filter_map(|number| before(self.show(number))).collect()
    }

    /// The owners of all bundles.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = Owner> {
        self.bundles.values().copied()
    }

    /// The keys of a bundle that are in the log, with their places.
    pub(crate) fn logged(&self, bundle: Owner) -> Option<Vec<(u64, &Keyed)>> {
        let (number, _) = self.bundles.iter().find(|(_, owner)| **owner == bundle)?;
        let places = self.all.range(number * BUNDLE..(number + 1) * BUNDLE);
        Some(places.filter(|(_, keyed)| keyed.durable).map(|(place, keyed)| (*place, keyed)).collect())
    }
}

/// The keys of a queue, as far as it has any.
#[derive(Debug, Default)]
pub(super) struct Values {
    latest: Option<Box<LastValues>>,
    /// Messages that were superseded by newer ones of their keys.
    superseded: u64,
}

impl Values {
    /// Notes the key of a new entry, and logs it.
    pub(super) fn entered(&mut self, entered: Entered<'_>, queue: &Queue, visit: &Visit<'_>) {
        let Entered { number, durable, key: Some(key), group, .. } = entered else { return };
        let keyed = Keyed { key, number, durable };
        let latest = self.latest.get_or_insert_default();
        let place = latest.come(keyed.clone());
        if durable {
            let bundle = latest.bundle_of(place, &|| visit.context.id_bundle(queue.id));
            let mut appender = visit.context.journal.appender(queue.log());
            queue_facts::log_keyed(&mut appender, group, bundle, queue.id, &[(place, &keyed)]);
        }
    }

    /// An entry is done, or on its way to another queue.
    #[inline]
    pub(super) fn left(&mut self, number: u64) {
        if let Some(latest) = &mut self.latest {
            latest.left(number);
        }
    }

    /// Forgets the keys of entries that are gone.
    pub(super) fn purged(&mut self, is_live: &dyn Fn(u64) -> bool) {
        if let Some(latest) = &mut self.latest {
            latest.retain(&mut |number| is_live(number));
        }
    }

    pub(super) fn ended(&mut self) {
        self.latest = None;
    }

    /// See [`LastValues::logged`].
    pub(super) fn restated(&self, bundle: Owner) -> Option<Vec<(u64, &Keyed)>> {
        self.latest.as_ref()?.logged(bundle)
    }

    /// The memory of the keys, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.latest.as_ref().map_or(0, |latest| latest.bytes + latest.all.len() * KEY_COST)
    }
}

impl Queue {
    /// True for a queue that keeps the last value of each key.
    #[inline]
    pub(crate) fn keeps_last_values(&self) -> bool {
        self.last_value_key.is_some()
    }

    /// The key that a message has here.
    #[inline]
    pub(super) fn key_of(&self, message: &Message, context: &QueueContext) -> Option<Arc<[u8]>> {
        let name = self.last_value_key.as_deref()?;
        let selected = Selected { message, dialects: &context.dialects, redelivered: false };
        let text = selected.text(name)?;
        (1..=KEY_MAX).contains(&text.len()).then(|| text.as_bytes().into())
    }

    /// True when an arrival supersedes a ready entry, so that the queue does not grow.
    pub(super) fn replaces(&self, inner: &mut Inner, arrival: &Arrival, context: &QueueContext) -> bool {
        let Some(key) = self.key_of(arrival.message(), context) else { return false };
        let newest = inner.features.values.latest.as_ref().and_then(|latest| latest.newest_of(&key));
        let entry = newest.and_then(|number| inner.lanes.get_mut(number));
        entry.is_some_and(|entry| entry.state == State::Ready)
    }

    /// Takes the keys that recovery found. Returns the superseded entries that are still there,
    /// since a consumer held them or a transaction had just ended. Returns the pages of all entries
    /// with keys too.
    pub(crate) fn recover_latest(&self, mut found: LastValues, context: &QueueContext) -> Recovered {
        if !self.keeps_last_values() {
            return Recovered::default();
        }
        let mut inner = self.lock(context);
        found.retain(&mut |number| inner.lanes.is_live(number));
        let outdated = found.show_all();
        let mut pages: Vec<u64> = found.places.keys().map(|number| number / PAGE).collect();
        pages.sort_unstable();
        pages.dedup();
        found.bundles.values().for_each(|bundle| context.keep_id_bundle(*bundle, self.id));
        inner.features.values.latest = Some(Box::new(found));
        Recovered { outdated, pages }
    }

    /// Settles the superseded entries that recovery found, in pages that are placed.
    pub(crate) fn supersede_all(&self, outdated: &[u64], context: &QueueContext) {
        let mut inner = self.lock(context);
        outdated.iter().for_each(|number| inner.supersede(*number, context));
        self.log_settled(&mut inner, context);
    }
}

/// The result of a recovery of last values.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Entries that others have superseded.
    pub(crate) outdated: Vec<u64>,
    /// The pages of entries with keys. They stay placed, so that each entry can be superseded at
    /// any time.
    pub(crate) pages: Vec<u64>,
}

impl Inner {
    /// A new entry is ready: settles the entry that it supersedes, or the new one if a newer one is
    /// there.
    #[inline]
    pub(super) fn show_key(&mut self, number: u64, context: &QueueContext) {
        match self.features.values.latest.as_mut().and_then(|latest| latest.show(number)) {
            None | Some(Standing::Newest { before: None }) => {}
            Some(Standing::Newest { before: Some(before) }) => self.supersede(before, context),
            Some(Standing::Outdated) => self.supersede(number, context),
        }
    }

    /// Settles an entry that is ready, or will be: there is a newer one.
    fn supersede(&mut self, number: u64, context: &QueueContext) {
        let entry = self.lanes.get_mut(number);
        let Some(entry) = entry.filter(|entry| matches!(entry.state, State::Ready | State::Waiting)) else { return };
        if let Some(address) = entry.address {
            self.departures.settle(number, address, settle::SUPERSEDED);
        }
        self.leave_ready(number, State::Done);
        self.features.values.superseded += 1;
        context.totals.deaths.superseded.add(1);
    }

    /// A consumer returns an entry. True if there is a newer one: the entry is then settled and
    /// does not come back.
    #[inline]
    pub(super) fn comes_back_late(&mut self, number: u64, context: &QueueContext) -> bool {
        let standing = self.features.values.latest.as_mut().and_then(|latest| latest.show(number));
        if standing == Some(Standing::Outdated) {
            self.make_ready(number);
            self.supersede(number, context);
            return true;
        }
        if let Some(Standing::Newest { before: Some(before) }) = standing {
            self.supersede(before, context);
        }
        false
    }

    /// Messages that were superseded by newer ones of their keys.
    pub(crate) fn superseded(&self) -> u64 {
        self.features.values.superseded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(key: &str, number: u64) -> Keyed {
        Keyed { key: key.as_bytes().into(), number, durable: true }
    }

    fn latest(entries: &[(&str, u64)]) -> LastValues {
        let mut latest = LastValues::default();
        for (key, number) in entries {
            latest.come(keyed(key, *number));
        }
        latest
    }

    /// The numbers in the restatement of a bundle.
    fn logged(latest: &LastValues, bundle: Owner) -> Vec<u64> {
        latest.logged(bundle).unwrap().into_iter().map(|(_, keyed)| keyed.number).collect()
    }

    #[test]
    fn the_newest_is_the_last_that_came_whatever_its_number_and_when_it_is_shown() {
        // Number 5 has a higher priority than 900.
        let mut all = latest(&[("a", 900), ("a", 5), ("b", 901), ("a", 901_000)]);
        assert_eq!(all.show(900), Some(Standing::Newest { before: None }));
        assert_eq!(all.show(901_000), Some(Standing::Newest { before: Some(900) }));
        assert_eq!(all.show(5), Some(Standing::Outdated), "a transaction that ended late");
        assert_eq!(all.show(901), Some(Standing::Newest { before: None }));
        assert_eq!(all.show(7), None, "without a key");
        assert_eq!(all.show(900), Some(Standing::Outdated), "it comes back");
        all.left(901_000);
        assert_eq!(all.show(900), Some(Standing::Newest { before: None }), "it comes back, and no other is there");
        assert_eq!(all.newest_of(b"a"), Some(900));
    }

    #[test]
    fn places_tell_the_order_whatever_the_log_says_first_and_twice() {
        let mut all = LastValues::default();
        // The older bundle was restated behind the newer one.
        for (bundle, place, key, number) in
            [(8, BUNDLE, "a", 2), (8, BUNDLE + 1, "c", 4), (7, 0, "a", 1), (7, 1, "b", 3), (7, 0, "a", 1)]
        {
            all.recover(bundle, place, keyed(key, number));
        }
        assert_eq!((all.all.len(), all.places.len(), all.bytes), (4, 4, 4));
        assert_eq!(all.show_all(), [1]);
        assert_eq!((logged(&all, 7), logged(&all, 8)), (vec![1, 3], vec![2, 4]));
        all.left_in_run(2, 2);
        assert_eq!((logged(&all, 7), logged(&all, 8)), (vec![1], vec![4]));
        // A place that was given out again.
        all.recover(9, 0, keyed("d", 50));
        assert_eq!((logged(&all, 9), all.places.contains_key(&1)), (vec![50], false));
        all.left_in_run(2, u64::MAX);
        assert!(all.all.is_empty() && all.newest.is_empty() && all.places.is_empty() && all.bytes == 0);
    }

    #[test]
    fn a_bundle_is_forgotten_once_it_is_full_and_empty() {
        let mut all = LastValues::default();
        for number in 0..BUNDLE + 1 {
            let place = all.come(keyed("k", number));
            all.bundle_of(place, &|| 100 + place / BUNDLE);
            all.left(number);
            let expected = match number + 1 {
                ..BUNDLE => Some(100),
                BUNDLE => None,
                _ => Some(101),
            };
            assert_eq!(all.bundles.values().next().copied(), expected, "after {number}");
        }
    }
}
