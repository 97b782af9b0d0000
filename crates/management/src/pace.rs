//! How fast each queue moves, for lists that are sorted by it.
//!
//! A list that looked at every queue for each page would cost the more the more queues there are,
//! and would know only the rates of those that were asked for before. So one look at all of them is
//! kept, which the sampler renews for as long as lists ask. It holds a name and a few figures for
//! each queue, and is charged with the histories. Until the second look all rates are 0.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use broker::{Broker, QueueCounts};

/// A look is shown for so long: two steps of the sampler, and some time for being late.
const LASTS: Duration = Duration::from_secs(12);
/// The sampler renews the look for so long after the last list.
const INTEREST: Duration = Duration::from_secs(60);
/// Queues that are looked at while a vhost is locked.
const CHUNK: usize = 64;

/// What moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Movement {
    Published,
    Delivered,
    Acknowledged,
}

impl Movement {
    /// The one whose rate is at this path of a row.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "message_stats.publish_details.rate" => Self::Published,
            "message_stats.deliver_get_details.rate" => Self::Delivered,
            "message_stats.ack_details.rate" => Self::Acknowledged,
            _ => return None,
        })
    }
}

/// The last look, and when a list asked last.
#[derive(Debug, Default)]
pub(crate) struct Paces(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last: Option<Arc<Look>>,
    asked: Option<Instant>,
}

/// How fast all queues moved at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    at: Instant,
    /// The queues of each vhost, in the order of their names.
    vhosts: HashMap<Arc<str>, Vec<Paced>>,
}

#[derive(Debug, Clone)]
struct Paced {
    name: Arc<str>,
    counts: [u64; 3],
    /// Per second, since the look before.
    rates: [f32; 3],
}

impl Paces {
    /// The last look, or a new one if that is too old.
    pub(crate) fn look(&self, broker: &Broker) -> Arc<Look> {
        let now = Instant::now();
        let last = {
            let mut known = self.lock();
            known.asked = Some(now);
            known.last.clone()
        };
        match last.filter(|last| now.saturating_duration_since(last.at) < LASTS) {
            Some(last) => last,
            None => self.keep(Look::make(broker, now, None)),
        }
    }

    /// Looks again if a list has asked lately, else forgets the look.
    pub(crate) fn renew(&self, broker: &Broker, now: Instant) {
        let last = {
            let mut known = self.lock();
            if known.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= INTEREST) {
                known.last = None;
            }
            known.last.clone()
        };
        if let Some(last) = last {
            self.keep(Look::make(broker, now, Some(&last)));
        }
    }

    /// Bytes that the last look takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.lock();
        let of_vhosts = known.last.iter().flat_map(|look| look.vhosts.values());
        of_vhosts.map(|queues| queues.capacity() * size_of::<Paced>()).sum()
    }

    fn keep(&self, look: Look) -> Arc<Look> {
        let look = Arc::new(look);
        self.lock().last = Some(Arc::clone(&look));
        look
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    fn make(broker: &Broker, now: Instant, before: Option<&Self>) -> Self {
        let seconds = before.map_or(0.0, |before| now.saturating_duration_since(before.at).as_secs_f32());
        let of_vhost = |vhost: Arc<str>| {
            let names = broker.queue_names(&vhost);
            let mut older = before.map(|before| before.walk(&vhost));
            let mut queues = Vec::with_capacity(names.len());
            for some in names.chunks(CHUNK) {
                for (name, counts) in some.iter().zip(broker.some_counts(&vhost, some)) {
                    let Some(counts) = counts.map(|counts| figures(&counts)) else { continue };
                    let older = older.as_mut().and_then(|older| older.find(name)).map(|paced| paced.counts);
                    queues.push(Paced { name: Arc::clone(name), counts, rates: rates(counts, older, seconds) });
                }
            }
            (vhost, queues)
        };
        Self { at: now, vhosts: broker.vhost_names().iter().cloned().map(of_vhost).collect() }
    }

    /// How fast each of these queues of a vhost moves; they are in the order of their names. A
    /// queue that the look has not seen stands still.
    pub(crate) fn rates<'a>(
        &'a self,
        vhost: &str,
        names: impl IntoIterator<Item = &'a Arc<str>>,
        of: Movement,
    ) -> impl Iterator<Item = f64> {
        let mut walk = self.walk(vhost);
        names.into_iter().map(move |name| walk.find(name).map_or(0.0, |paced| f64::from(paced.rates[of as usize])))
    }

    fn walk(&self, vhost: &str) -> Walk<'_> {
        Walk(self.vhosts.get(vhost).map_or(&[], Vec::as_slice))
    }
}

/// The queues behind the last that was found.
struct Walk<'a>(&'a [Paced]);

impl<'a> Walk<'a> {
    /// Finds a queue, which is behind the last one. Where nearly all are asked for, it is the next.
    fn find(&mut self, name: &Arc<str>) -> Option<&'a Paced> {
        if self.0.first().is_some_and(|next| next.name < *name) {
            self.0 = &self.0[self.0.partition_point(|paced| paced.name < *name)..];
        }
        let found = self.0.first().filter(|next| next.name == *name)?;
        self.0 = &self.0[1..];
        Some(found)
    }
}

fn figures(counts: &QueueCounts) -> [u64; 3] {
    [counts.published, counts.delivered, counts.acknowledged]
}

/// Growth per second. What became less belongs to a queue that was created again.
fn rates(counts: [u64; 3], older: Option<[u64; 3]>, seconds: f32) -> [f32; 3] {
    let older = older.filter(|_| seconds > 0.0).unwrap_or(counts);
    std::array::from_fn(|of| counts[of].saturating_sub(older[of]) as f32 / seconds.max(f32::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(names: &[(&str, f32)]) -> Look {
        let paced =
            |(name, rate): &(&str, f32)| Paced { name: (*name).into(), counts: [0; 3], rates: [*rate, 0.0, 0.0] };
        let vhosts = HashMap::from([("/".into(), names.iter().map(paced).collect())]);
        Look { at: Instant::now(), vhosts }
    }

    #[test]
    fn each_queue_is_found_behind_the_one_before() {
        let look = look(&[("a", 1.0), ("b", 2.0), ("d", 4.0), ("e", 5.0)]);
        let rates = |names: &[&str]| -> Vec<f64> {
            let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
            look.rates("/", &names, Movement::Published).collect()
        };
        assert_eq!(rates(&["a", "b", "d", "e"]), [1.0, 2.0, 4.0, 5.0]);
        assert_eq!(rates(&["b", "c", "e", "f"]), [2.0, 0.0, 5.0, 0.0]);
        assert_eq!(rates(&["0", "e"]), [0.0, 5.0]);
        let none: Vec<f64> = look.rates("other", &["a".into()], Movement::Published).collect();
        assert_eq!(none, [0.0]);
    }

    #[test]
    fn a_queue_that_was_created_again_or_is_new_stands_still() {
        assert_eq!(rates([10, 4, 0], Some([0, 4, 0]), 5.0), [2.0, 0.0, 0.0]);
        assert_eq!(rates([1, 1, 1], Some([7, 7, 7]), 5.0), [0.0; 3]);
        assert_eq!(rates([9, 9, 9], None, 5.0), [0.0; 3]);
        assert_eq!(rates([9, 9, 9], Some([0; 3]), 0.0), [0.0; 3]);
    }
}
