//! How fast counters grow: `…_details` with a `rate` beside each counter of `message_stats`.
//!
//! Each reading is remembered, and the next one is compared with a reading that is some seconds
//! old. For an object that is read for the first time the rate is 0, as RabbitMQ says for a new
//! one. What is sampled whether it is read or not is in `history.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

/// The least age of the reading that the next one is compared with.
const SPAN: Duration = Duration::from_secs(5);
/// An older reading says nothing about the rate now.
const STALE: Duration = Duration::from_secs(300);
/// The names of lengths of queues begin like this; all others are counters.
const LENGTH: &str = "messages";
/// The most objects whose readings are remembered; for further objects the rate is 0.
const MOST: usize = 10_000;
/// Bytes of one object besides its name and its counts: its place in the table, and what the
/// allocator adds to each of three blocks.
const ONE: usize = size_of::<(Box<str>, Seen)>() * 8 / 7 + 3 * 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    seen: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    things: HashMap<Box<str>, Seen>,
    /// The names of the counters of each kind of object; all objects of a kind share them.
    kinds: Vec<Names>,
    /// When old readings were last removed.
    swept: Option<Instant>,
}

/// Names of counters, in the order of their readings.
type Names = Arc<[Box<str>]>;

impl Memory {
    /// Whether one more object may be remembered. If the table is full, objects that were not read
    /// for a long time are removed first.
    fn has_room(&mut self, now: Instant) -> bool {
        let is_due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SPAN);
        if self.things.len() >= MOST && is_due {
            self.things.retain(|_, seen| now.saturating_duration_since(seen.newer.at) <= STALE);
            self.swept = Some(now);
        }
        self.things.len() < MOST
    }

    /// The names of these counters.
    fn names(&mut self, counts: &Map<String, Json>) -> Names {
        let is_same =
            |names: &&Names| names.len() == counts.len() && names.iter().zip(counts.keys()).all(|(a, b)| **a == **b);
        if let Some(known) = self.kinds.iter().find(is_same) {
            return Arc::clone(known);
        }
        let names: Names = counts.keys().map(|name| name.as_str().into()).collect();
        self.kinds.push(Arc::clone(&names));
        names
    }
}

/// Two readings of the counters of one object.
#[derive(Debug, Clone)]
struct Seen {
    names: Names,
    older: Reading,
    newer: Reading,
}

#[derive(Debug, Clone)]
struct Reading {
    at: Instant,
    counts: Box<[u64]>,
}

impl Reading {
    /// Growth per second since an older reading of a counter, by its place among the names.
    fn rate_since(&self, older: &Self, (place, name): (usize, &str)) -> f64 {
        let (now, before) = (self.counts[place], older.counts[place]);
        let seconds = self.at.saturating_duration_since(older.at).as_secs_f64();
        // A counter that became smaller belongs to an object that was created again, so it grew by
        // nothing. Queues become shorter, too.
        let moved = now as f64 - before as f64;
        let moved = if name.starts_with(LENGTH) { moved } else { moved.max(0.0) };
        if seconds > 0.0 { moved / seconds } else { 0.0 }
    }
}

impl Rates {
    /// Forgets all readings.
    pub(crate) fn forget(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Memory::default();
    }

    /// Adds the rates of counters and of lengths to them.
    pub(crate) fn add_both(
        &self,
        of: &str,
        (stats, lengths): (&mut Map<String, Json>, &mut Map<String, Json>),
        now: Instant,
    ) {
        let mut both: Map<String, Json> =
            stats.iter().chain(lengths.iter()).map(|(n, v)| (n.clone(), v.clone())).collect();
        self.add(of, &mut both, now);
        for (name, rate) in both.into_iter().filter(|(name, _)| name.ends_with("_details")) {
            if name.starts_with(LENGTH) { &mut *lengths } else { &mut *stats }.insert(name, rate);
        }
    }

    /// Adds the rates of the counters in `stats` to it. `of` identifies the object that they belong
    /// to.
    pub(crate) fn add(&self, of: &str, stats: &mut Map<String, Json>, now: Instant) {
        let mut memory = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let names = memory.names(stats);
        let counts = stats.values().map(|count| count.as_u64().unwrap_or_default()).collect();
        let reading = Reading { at: now, counts };
        let unknown = Seen { names: Arc::clone(&names), older: reading.clone(), newer: reading.clone() };
        let has_room = memory.things.contains_key(of) || memory.has_room(now);
        let mut passing = unknown.clone();
        let known =
            if has_room { memory.things.entry(of.into()).or_insert_with(|| unknown.clone()) } else { &mut passing };
        let age = now.saturating_duration_since(known.newer.at);
        if age > STALE || !Arc::ptr_eq(&known.names, &names) {
            *known = unknown;
        } else if age >= SPAN {
            known.older = std::mem::replace(&mut known.newer, reading.clone());
        }
        for (place, name) in names.iter().enumerate() {
            let rate = reading.rate_since(&known.older, (place, name));
            stats.insert(format!("{name}_details"), json!({ "rate": rate }));
        }
    }

    /// Bytes that the readings take, about.
    pub(crate) fn bytes(&self) -> u64 {
        let memory = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = |of: &str, seen: &Seen| of.len() + 2 * size_of_val(&*seen.newer.counts) + ONE;
        memory.things.iter().map(|(of, seen)| of_one(of, seen)).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_growth_since_a_reading_that_is_some_seconds_old() {
        let (rates, start) = (Rates::default(), Instant::now());
        let read = |seconds: u64, publish: u64| {
            let mut stats = Map::from_iter([("publish".to_owned(), json!(publish))]);
            rates.add("q", &mut stats, start + Duration::from_secs(seconds));
            assert_eq!(stats["publish"], publish);
            stats["publish_details"]["rate"].as_f64().unwrap()
        };
        for (seconds, publish, rate) in [
            (0, 100, 0.0),
            (2, 120, 10.0),
            (10, 200, 10.0),
            (20, 400, 20.0),
            (30, 400, 0.0),
            (31, 0, 0.0),
            (1000, 7, 0.0),
        ] {
            assert_eq!(read(seconds, publish), rate, "after {seconds} s");
        }
    }

    #[test]
    fn lengths_become_less_and_counters_do_not() {
        let (rates, start) = (Rates::default(), Instant::now());
        let read = |seconds: u64, figure: u64| {
            let figures = |name: &str| Map::from_iter([(name.to_owned(), json!(figure))]);
            let (mut stats, mut lengths) = (figures("ack"), figures("messages"));
            rates.add_both("q", (&mut stats, &mut lengths), start + Duration::from_secs(seconds));
            assert_eq!((stats.len(), lengths.len()), (2, 2));
            (stats["ack_details"]["rate"].clone(), lengths["messages_details"]["rate"].clone())
        };
        assert_eq!(read(0, 100), (json!(0.0), json!(0.0)));
        assert_eq!(read(10, 50), (json!(0.0), json!(-5.0)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (rates, now) = (Rates::default(), Instant::now());
        for number in 0..MOST + 5 {
            rates.add(&number.to_string(), &mut Map::new(), now);
        }
        let known = |rates: &Rates| rates.seen.lock().unwrap().things.len();
        assert_eq!(known(&rates), MOST);
        rates.add("later", &mut Map::new(), now + STALE + SPAN);
        assert_eq!(known(&rates), 1, "what nobody asks for any more makes room");
    }
}
