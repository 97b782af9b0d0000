//! The side of `$SYS` that makes the values, step by step, in a thread of its owner.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use broker::{Broker, Presence};

pub use super::figures::Host;
use super::figures::{Counts, Loads, of_broker, of_vhost};
use super::{Sys, Values, View};
use crate::session::store::is_filter_key;

/// The least time between two looks at the broker, however often sessions come and go.
const LEAST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct SysPublisher {
    sys: Arc<Sys>,
    host: Host,
    interval: Duration,
    started: Instant,
    /// When counters were read last.
    sampled: Instant,
    /// When the broker was looked at last.
    looked: Option<Instant>,
    counts: Counts,
    loads: Loads,
    /// The most connections that were open at a reading of the counters.
    most: u64,
}

impl SysPublisher {
    /// Publishes figures of `broker` at this interval. `moved` is the bytes that sockets have
    /// received and sent.
    pub fn new(
        sys: Arc<Sys>,
        host: Host,
        interval: Duration,
        broker: &Broker,
        moved: (u64, u64),
        now: Instant,
    ) -> Self {
        let counts = Counts::new(&broker.totals(), moved);
        let loads = Loads::new(&counts);
        Self { sys, host, interval, started: now, sampled: now, looked: None, counts, loads, most: 0 }
    }

    /// Does what is due, and returns when the next step is. `waker` wakes its thread when a session
    /// wants figures before.
    pub fn step(
        &mut self,
        broker: &Broker,
        moved: impl FnOnce() -> (u64, u64),
        waker: &Waker,
        now: Instant,
    ) -> Instant {
        let elapsed = now.saturating_duration_since(self.sampled);
        let is_due = elapsed >= self.interval;
        let wanted = self.sys.wanted(waker);
        let views: Vec<View> = wanted.into_iter().filter(|(_, has)| is_due || !has).map(|(view, _)| view).collect();
        let may_look = self.looked.map_or(now, |looked| looked + LEAST);
        let looks = !views.is_empty() && (is_due || now >= may_look);
        if is_due || looks {
            self.counts = Counts::new(&broker.totals(), moved());
        }
        if is_due {
            self.loads.sample(&self.counts, elapsed);
            self.most = self.most.max(self.counts.connected());
            self.sampled = now;
        }
        let next = self.sampled + self.interval;
        if !looks {
            return if views.is_empty() { next } else { next.min(may_look) };
        }
        self.looked = Some(now);
        let up = now.saturating_duration_since(self.started);
        let made = views.into_iter().map(|view| self.make(broker, view, up)).collect();
        self.sys.publish(made);
        next
    }

    fn make(&mut self, broker: &Broker, view: View, up: Duration) -> (View, Values) {
        let presence = match &view {
            View::Broker => broker.presence(|_| true, is_filter_key),
            View::Vhost(name) => broker.presence(|vhost| vhost == &**name, is_filter_key),
        };
        let values = match &view {
            View::Broker => {
                let Presence { connections, .. } = presence;
                self.most = self.most.max(connections);
                of_broker(&self.host, up, &presence, (&self.counts, &self.loads, self.most))
            }
            View::Vhost(_) => of_vhost(&self.host, up, &presence),
        };
        (view, values)
    }
}
