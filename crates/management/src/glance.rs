//! What the first page of the console shows of the whole broker: its sums, and the queues that are
//! stuck.
//!
//! Both look at every queue. While that is cheap, each page has a look of its own. With very many
//! queues a page shows the last look, which the sampler renews for as long as pages ask.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use broker::{Broker, Overview, QueueReport};

/// Queues that are named.
pub(crate) const NAMED: usize = 8;
/// A look that takes longer is not made for each page.
const CHEAP: Duration = Duration::from_millis(5);
/// A look is shown for so long: two steps of the sampler, and some time for being late.
const LASTS: Duration = Duration::from_secs(12);
/// The sampler renews the look for so long after the last page.
const INTEREST: Duration = Duration::from_secs(60);

/// A look at everything.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) overview: Overview,
    /// The queues that are stuck, the worst first.
    pub(crate) stuck: Vec<QueueReport>,
    pub(crate) at: Instant,
    took: Duration,
}

/// The last look, and when a page asked last.
#[derive(Debug, Default)]
pub(crate) struct Glances(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last: Option<Arc<Glance>>,
    asked: Option<Instant>,
}

impl Glances {
    /// The last look if a new one takes long, else a new one.
    pub(crate) fn look(&self, broker: &Broker) -> Arc<Glance> {
        let now = Instant::now();
        let last = {
            let mut known = self.lock();
            known.asked = Some(now);
            known.last.clone()
        };
        match last.filter(|last| last.is_shown(now)) {
            Some(last) => last,
            None => self.keep(broker, broker.overview(), now),
        }
    }

    /// Completes the look of the sampler, which began to make this overview at `begun`, if a page
    /// has asked lately.
    pub(crate) fn renew(&self, broker: &Broker, overview: Overview, begun: Instant) {
        let asked = self.lock().asked;
        if asked.is_some_and(|asked| begun.saturating_duration_since(asked) < INTEREST) {
            self.keep(broker, overview, begun);
        }
    }

    fn keep(&self, broker: &Broker, overview: Overview, begun: Instant) -> Arc<Glance> {
        let stuck = stuck(broker, &broker.vhost_names());
        let glance = Arc::new(Glance { overview, stuck, at: begun, took: begun.elapsed() });
        self.lock().last = Some(Arc::clone(&glance));
        glance
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Glance {
    /// Whether a page that comes now shows it.
    fn is_shown(&self, now: Instant) -> bool {
        is_shown(self.took, now.saturating_duration_since(self.at))
    }
}

/// Whether a look that took so long is shown at this age.
fn is_shown(took: Duration, age: Duration) -> bool {
    took > CHEAP && age < LASTS
}

/// The queues of these vhosts that are stuck: damaged ones first, then those with most messages.
pub(crate) fn stuck(broker: &Broker, vhosts: &[Arc<str>]) -> Vec<QueueReport> {
    let mut stuck: Vec<QueueReport> = vhosts.iter().flat_map(|vhost| broker.stuck_queues(vhost, NAMED)).collect();
    stuck.sort_by_key(|queue| std::cmp::Reverse((queue.damaged.is_some(), queue.ready)));
    stuck.truncate(NAMED);
    stuck
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_that_took_long_is_shown_again_and_not_for_ever() {
        let shown = |took, age| is_shown(Duration::from_millis(took), Duration::from_secs(age));
        assert!(!shown(1, 0) && shown(20, 0) && shown(20, 11) && !shown(20, 12));
    }
}
