//! How figures moved: for an hour in steps of five seconds, and for a day in steps of a minute.
//!
//! Samples are taken by management's own thread, never by the data path. Their number is bounded,
//! and so is that of the histories. Times come in as arguments.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker::{Overview, QueueReport};
use serde_json::{Map, Value as Json, json};

use crate::counters::{ALL_LENGTHS, CHURN, Counter, LENGTHS, OF_QUEUES, TRAFFIC};
use crate::glance::Glances;
use crate::pace::Paces;

/// Seconds between two samples.
pub(crate) const STEP_SECONDS: u64 = 5;
/// Samples that are kept of the last hour, and of the last day a minute apart.
const FINE: usize = 3600 / 5 + 1;
const COARSE: usize = 24 * 60 + 1;
const COARSE_STEP_MS: u64 = 60_000;
/// The most samples that one answer shows of one figure.
const SHOWN: u64 = 1500;

/// The most queues whose histories are kept.
pub(crate) const MOST_QUEUES: usize = 50;
/// A queue is sampled for so long after it was last looked at.
const INTEREST_MS: u64 = 24 * 3600 * 1000;

/// The histories of the broker, and of the queues that are looked at one by one.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    broker: Mutex<BrokerHistory>,
    queues: Mutex<HashMap<Place, QueueHistory>>,
    /// The last look at everything.
    pub(crate) glances: Glances,
    /// How fast all queues move, while lists ask for it.
    pub(crate) paces: Paces,
}

/// The vhost and the name of a queue.
pub(crate) type Place = (String, String);

/// How the sums over the broker moved.
#[derive(Debug, Default)]
pub(crate) struct BrokerHistory {
    pub(crate) traffic: History,
    pub(crate) churn: History,
    pub(crate) lengths: History,
}

/// How a queue moved.
#[derive(Debug, Default)]
pub(crate) struct QueueHistory {
    pub(crate) traffic: History,
    pub(crate) lengths: History,
    /// When it was last looked at, in milliseconds since 1970.
    asked: u64,
}

impl Histories {
    /// Forgets all samples, and which queues were looked at.
    pub(crate) fn forget(&self) {
        *self.of_broker() = BrokerHistory::default();
        self.queues().clear();
    }

    /// The history of the broker.
    pub(crate) fn of_broker(&self) -> MutexGuard<'_, BrokerHistory> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a sample of the broker found.
    pub(crate) fn keep_broker(&self, at: u64, overview: &Overview) {
        let mut history = self.of_broker();
        history.traffic.keep(at, figures(&TRAFFIC, overview));
        history.churn.keep(at, figures(&CHURN, overview));
        history.lengths.keep(at, figures(&ALL_LENGTHS, overview));
    }

    /// The queues to sample. Those that were not looked at for long are forgotten.
    pub(crate) fn looked_at(&self, now: u64) -> Vec<Place> {
        let mut queues = self.queues();
        queues.retain(|_, history| now.saturating_sub(history.asked) <= INTEREST_MS);
        queues.keys().cloned().collect()
    }

    /// Keeps what a sample of a queue found; one that is gone is forgotten.
    pub(crate) fn keep_queue(&self, at: u64, place: &Place, report: Option<&QueueReport>) {
        let mut queues = self.queues();
        match (report, queues.get_mut(place)) {
            (Some(report), Some(history)) => {
                history.traffic.keep(at, figures(&OF_QUEUES, &report.figures.totals));
                history.lengths.keep(at, figures(&LENGTHS, report));
            }
            _ => drop(queues.remove(place)),
        }
    }

    /// Looks at the history of a queue, which begins with the first look. If there are too many,
    /// the one that was looked at longest ago is forgotten.
    pub(crate) fn look_at_queue<T>(&self, now: u64, place: Place, look: impl FnOnce(&mut QueueHistory) -> T) -> T {
        let mut queues = self.queues();
        if queues.len() >= MOST_QUEUES && !queues.contains_key(&place) {
            let oldest = queues.iter().min_by_key(|(_, history)| history.asked).map(|(place, _)| place.clone());
            oldest.map(|oldest| queues.remove(&oldest));
        }
        let history = queues.entry(place).or_default();
        history.asked = now;
        look(history)
    }

    /// Bytes that all samples take, about.
    pub(crate) fn bytes(&self) -> u64 {
        let broker = self.of_broker();
        let of_broker = broker.traffic.bytes() + broker.churn.bytes() + broker.lengths.bytes();
        drop(broker);
        let of_queues: usize =
            self.queues().values().map(|history| history.traffic.bytes() + history.lengths.bytes()).sum();
        (of_broker + of_queues + self.paces.bytes()) as u64
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Place, QueueHistory>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn figures<T>(counters: &[Counter<T>], of: &T) -> Vec<u64> {
    counters.iter().map(|counter| (counter.read)(of)).collect()
}

/// The samples of some figures.
#[derive(Debug, Default)]
pub(crate) struct History {
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
}

/// Figures at one moment, in milliseconds since 1970.
#[derive(Debug, Clone)]
struct Sample {
    at: u64,
    figures: Box<[u64]>,
}

/// A figure at a moment, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: u64,
    pub(crate) value: f64,
}

/// How far back a chart goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// An hour, in steps of five seconds.
    Hour,
    /// A day, in steps of a minute.
    Day,
}

/// Which samples an answer shows: of the last `age` seconds, `step` seconds apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) age: u64,
    pub(crate) step: u64,
}

impl Range {
    /// From the parameters of a request, as `lengths_age` and `lengths_incr`, in seconds.
    fn of(wanted: &HashMap<String, String>, of: &str) -> Option<Self> {
        let number = |name: &str| wanted.get(&format!("{of}_{name}"))?.parse().ok();
        Some(Self { age: number("age")?, step: number("incr")? })
    }
}

/// The ranges that a request asks for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ranges {
    pub(crate) traffic: Option<Range>,
    pub(crate) lengths: Option<Range>,
}

impl Ranges {
    /// From the parameters of a request.
    pub(crate) fn of(wanted: &HashMap<String, String>) -> Self {
        Self { traffic: Range::of(wanted, "msg_rates"), lengths: Range::of(wanted, "lengths") }
    }

    /// Whether a request asks for none.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl History {
    /// Whether there are two samples, so that rates are known.
    pub(crate) fn has_rates(&self) -> bool {
        self.fine.len() > 1
    }

    /// Bytes of its samples: each is a block of its own, for which the allocator adds some.
    fn bytes(&self) -> usize {
        let of_one = self.fine.back().map_or(0, |sample| size_of_val(&*sample.figures) + 16);
        let of_ring = |ring: &VecDeque<Sample>| ring.capacity() * size_of::<Sample>() + ring.len() * of_one;
        of_ring(&self.fine) + of_ring(&self.coarse)
    }

    /// Keeps the figures of a moment. They are always the same, in the same order.
    pub(crate) fn keep(&mut self, at: u64, figures: Vec<u64>) {
        let sample = Sample { at, figures: figures.into() };
        if self.coarse.back().is_none_or(|last| at.saturating_sub(last.at) >= COARSE_STEP_MS) {
            self.coarse.push_back(sample.clone());
        }
        self.fine.push_back(sample);
        self.coarse.drain(..self.coarse.len().saturating_sub(COARSE));
        self.fine.drain(..self.fine.len().saturating_sub(FINE));
    }

    /// Begins with the figures that are shown beside it, where there is no sample yet. So the first
    /// answer has one.
    pub(crate) fn begin<T>(&mut self, at: u64, counters: &[Counter<T>], shown: &Map<String, Json>) {
        if self.fine.is_empty() {
            let figure = |counter: &Counter<T>| shown.get(counter.field).and_then(Json::as_u64).unwrap_or_default();
            self.keep(at, counters.iter().map(figure).collect());
        }
    }

    /// Adds `NAME_details` for the figures of this table: how fast each moved between the last
    /// two samples, and the samples of a range.
    pub(crate) fn add<T>(&self, counters: &[Counter<T>], range: Option<Range>, to: &mut Map<String, Json>) {
        let names = counters.iter().map(|counter| counter.field).enumerate();
        for (index, name) in names.filter(|(_, name)| !name.is_empty()) {
            let mut details = Map::new();
            details.insert("rate".to_owned(), json!(self.rate(index)));
            if let Some(range) = range {
                self.add_samples(index, range, &mut details);
            }
            to.insert(format!("{name}_details"), Json::Object(details));
        }
    }

    /// How the figure of this field of the table stood within a span, from old to new.
    pub(crate) fn lengths<T>(&self, counters: &[Counter<T>], field: &str, span: Span) -> Vec<Point> {
        let Some(index) = index_of(counters, field) else { return Vec::new() };
        self.ring(span).iter().map(|sample| Point { at: sample.at, value: sample.figures[index] as f64 }).collect()
    }

    /// How fast the figure of this field moved within a span, from old to new.
    pub(crate) fn rates<T>(&self, counters: &[Counter<T>], field: &str, span: Span) -> Vec<Point> {
        let Some(index) = index_of(counters, field) else { return Vec::new() };
        let ring = self.ring(span);
        let pairs = ring.iter().zip(ring.iter().skip(1));
        pairs.map(|(older, newer)| Point { at: newer.at, value: rate(older, newer, index).max(0.0) }).collect()
    }

    fn ring(&self, span: Span) -> &VecDeque<Sample> {
        match span {
            Span::Hour => &self.fine,
            Span::Day => &self.coarse,
        }
    }

    fn rate(&self, index: usize) -> f64 {
        let mut last = self.fine.iter().rev();
        let (Some(newer), Some(older)) = (last.next(), last.next()) else { return 0.0 };
        rate(older, newer, index)
    }

    fn add_samples(&self, index: usize, range: Range, details: &mut Map<String, Json>) {
        let samples = self.within(range);
        if let (Some(newest), Some(oldest)) = (samples.first(), samples.last()) {
            let sum: u64 = samples.iter().map(|sample| sample.figures[index]).sum();
            details.insert("avg".to_owned(), json!(sum as f64 / samples.len() as f64));
            details.insert("avg_rate".to_owned(), json!(rate(oldest, newest, index)));
        }
        let shown = samples.iter().map(|sample| json!({ "sample": sample.figures[index], "timestamp": sample.at }));
        details.insert("samples".to_owned(), shown.collect());
    }

    /// The samples of a range, the newest first.
    fn within(&self, range: Range) -> Vec<&Sample> {
        let ring = if range.age <= FINE as u64 * STEP_SECONDS { &self.fine } else { &self.coarse };
        let Some(newest) = ring.back() else { return Vec::new() };
        let step = range.step.clamp(1, 24 * 3600) * 1000;
        let moments = (0..SHOWN).map(|number| number * step).take_while(|back| *back <= range.age.saturating_mul(1000));
        let mut left = ring.len();
        let mut found = Vec::new();
        for moment in moments.map_while(|back| newest.at.checked_sub(back)) {
            while left > 0 && ring[left - 1].at > moment {
                left -= 1;
            }
            if left == 0 {
                break;
            }
            found.push(&ring[left - 1]);
        }
        found.dedup_by_key(|sample| sample.at);
        found
    }
}

fn index_of<T>(counters: &[Counter<T>], field: &str) -> Option<usize> {
    counters.iter().position(|counter| counter.field == field)
}

/// Movement per second between two samples. What became less is a length, or belongs to a thing
/// that was made again.
fn rate(older: &Sample, newer: &Sample, index: usize) -> f64 {
    let seconds = newer.at.saturating_sub(older.at) as f64 / 1000.0;
    let moved = newer.figures[index] as f64 - older.figures[index] as f64;
    if seconds > 0.0 { moved / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(history: &History, range: Option<Range>) -> Json {
        let row = |field| Counter::<()> { field, metric: "", help: "", read: |()| 0 };
        let mut fields = Map::new();
        history.add(&[row("a"), row(""), row("b")], range, &mut fields);
        assert!(!fields.contains_key("_details"));
        Json::Object(fields)
    }

    #[test]
    fn rates_are_those_of_the_last_step_and_samples_those_of_the_range() {
        let mut history = History::default();
        assert_eq!(details(&history, None)["a_details"], json!({ "rate": 0.0 }));
        for number in 0..=12 {
            history.keep(1_000_000 + number * 5000, vec![number * 10, 0, 100 - number]);
        }
        let shown = details(&history, Some(Range { age: 20, step: 10 }));
        let samples = json!([
            { "sample": 120, "timestamp": 1_060_000 },
            { "sample": 100, "timestamp": 1_050_000 },
            { "sample": 80, "timestamp": 1_040_000 },
        ]);
        assert_eq!(shown["a_details"], json!({ "rate": 2.0, "samples": samples, "avg": 100.0, "avg_rate": 2.0 }));
        assert_eq!(shown["b_details"]["rate"], -0.2);
        let row = |field| Counter::<()> { field, metric: "", help: "", read: |()| 0 };
        let rates = history.rates(&[row("a"), row("b")], "a", Span::Hour);
        assert_eq!((rates.len(), rates[0]), (12, Point { at: 1_005_000, value: 2.0 }));
        assert_eq!(history.lengths(&[row("a")], "a", Span::Hour)[12], Point { at: 1_060_000, value: 120.0 });
        assert_eq!(history.rates(&[row("a")], "none", Span::Hour), []);
    }

    #[test]
    fn samples_are_bounded_and_a_day_is_told_by_the_minute() {
        let mut history = History::default();
        for number in 0..2 * 24 * 720 {
            history.keep(number * 5000, vec![number, 0, 0]);
        }
        assert_eq!((history.fine.len(), history.coarse.len()), (FINE, COARSE));
        let day = details(&history, Some(Range { age: 24 * 3600, step: 3600 }));
        let samples = day["a_details"]["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 25);
        assert_eq!(samples[0]["sample"].as_u64().unwrap() - samples[1]["sample"].as_u64().unwrap(), 720);
        let row = [Counter::<()> { field: "a", metric: "", help: "", read: |()| 0 }];
        let (hour, day) = (history.rates(&row, "a", Span::Hour), history.rates(&row, "a", Span::Day));
        assert_eq!((hour.len(), day.len()), (FINE - 1, COARSE - 1));
        assert!(day.iter().chain(&hour).all(|point| (point.value - 0.2).abs() < 1e-9), "one in five seconds");
        assert_eq!(day[1].at - day[0].at, COARSE_STEP_MS);
        // More samples than an answer shows are cut at the old end.
        let all = details(&history, Some(Range { age: u64::MAX, step: 0 }));
        assert!(all["a_details"]["samples"].as_array().unwrap().len() <= usize::try_from(SHOWN).unwrap());
    }

    #[test]
    fn queues_are_forgotten_that_are_not_looked_at() {
        let histories = Histories::default();
        let place = |number: usize| ("/".to_owned(), number.to_string());
        for number in 0..=MOST_QUEUES {
            histories.look_at_queue(number as u64, place(number), |history| assert!(!history.traffic.has_rates()));
        }
        let report = QueueReport { ready: 3, ..QueueReport::default() };
        [1000, 2000].into_iter().for_each(|at| histories.keep_queue(at, &place(5), Some(&report)));
        let mut row = Map::new();
        histories.look_at_queue(5, place(5), |history| {
            assert!(history.traffic.has_rates());
            history.lengths.add(&LENGTHS, None, &mut row);
        });
        assert_eq!((row.len(), &row["messages_ready_details"]), (3, &json!({ "rate": 0.0 })));
        let known = histories.looked_at(MOST_QUEUES as u64);
        assert!(known.len() == MOST_QUEUES && !known.contains(&place(0)), "{known:?}");
        histories.keep_queue(1, &place(7), None);
        assert!(!histories.looked_at(INTEREST_MS).contains(&place(7)));
        assert_eq!(histories.looked_at(INTEREST_MS + 5).len(), MOST_QUEUES - 5);
    }
}
