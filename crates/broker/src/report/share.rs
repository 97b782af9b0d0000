//! One user's part of the broker's sums: of the vhosts that it may enter, and of its own
//! connections.

use std::ops::AddAssign;

use crate::broker::Broker;
use crate::queue::QueueTotals;

/// Sums over a part of the broker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    /// Connections of the user.
    pub connections: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Consumers of the queues.
    pub consumers: u64,
    /// Queues.
    pub queues: u64,
    /// Exchanges, with the default one of each vhost.
    pub exchanges: u64,
    /// Messages that are ready.
    pub ready: u64,
    /// Messages that are out with consumers.
    pub unacked: u64,
    /// How the messages of the queues moved since start.
    pub totals: QueueTotals,
}

impl AddAssign<QueueTotals> for Share {
    fn add_assign(&mut self, more: QueueTotals) {
        let totals = &mut self.totals;
        totals.published += more.published;
        totals.published_bytes += more.published_bytes;
        totals.delivered += more.delivered;
        totals.delivered_auto += more.delivered_auto;
        totals.fetched += more.fetched;
        totals.fetched_auto += more.fetched_auto;
        totals.fetched_empty += more.fetched_empty;
        totals.redelivered += more.redelivered;
        totals.acknowledged += more.acknowledged;
    }
}

impl Broker {
    /// Sums over the vhosts that `sees` is true of, and over the connections of `user`.
    pub fn share(&self, user: &str, sees: impl Fn(&str) -> bool) -> Share {
        let mut share = Share::default();
        for vhost in self.engine.catalog.vhosts().into_iter().filter(|vhost| sees(&vhost.name)) {
            let tables = vhost.tables.read();
            share.exchanges += 1 + tables.exchanges().count() as u64;
            for queue in tables.queues() {
                let inner = queue.lock(&self.engine);
                share.queues += 1;
                share.consumers += inner.consumer_count() as u64;
                share.ready += inner.ready() as u64;
                share.unacked += inner.unsettled() as u64;
                share += inner.totals();
            }
        }
        for client in self.engine.clients.lock().values().filter(|client| client.user == user) {
            share.connections += 1;
            share.sessions += u64::from(client.figures.sessions());
        }
        share
    }
}
