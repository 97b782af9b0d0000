//! What clients have in virtual hosts, and have left there: sums, without a report of each object.

use crate::broker::Broker;
use crate::catalog::Vhost;
use crate::report::{Left, Messages};
use crate::routing::Destination;
use crate::stats::Totals;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Presence {
    /// Attached clients.
    pub connections: u64,
    /// Filters of subscriptions, and of subscribers without a queue.
    pub filters: u64,
    /// What clients left besides queues.
    pub left: Left,
    /// The messages in queues.
    pub messages: Messages,
}

impl Broker {
    /// Totals since the start, as they are now.
    pub fn totals(&self) -> Totals {
        self.engine.totals.clone()
    }

    /// Sums over the virtual hosts that `sees` is true of. A binding of a subscription counts as a
    /// filter if `is_filter` is true of its key.
    pub fn presence(&self, sees: impl Fn(&str) -> bool, is_filter: impl Fn(&str) -> bool) -> Presence {
        let mut presence = Presence::default();
        for vhost in self.engine.catalog.vhosts().into_iter().filter(|vhost| sees(&vhost.name)) {
            self.add_presence(&vhost, &is_filter, &mut presence);
        }
        let clients = self.engine.clients.lock();
        presence.connections = clients.values().filter(|client| sees(&client.vhost)).count() as u64;
        presence
    }

    fn add_presence(&self, vhost: &Vhost, is_filter: &impl Fn(&str) -> bool, presence: &mut Presence) {
        let Presence { filters, left, messages, .. } = presence;
        let tables = vhost.tables.read();
        for queue in tables.queues() {
            let inner = queue.lock(&self.engine);
            messages.ready += inner.ready() as u64;
            messages.unacked += inner.unsettled() as u64;
            if tables.subscriptions.of_queue(queue.id).is_some() {
                left.subscriptions += 1;
                left.offline_subscriptions += u64::from(inner.consumer_count() == 0);
            }
        }
        for binding in tables.exchanges().flat_map(|exchange| exchange.bindings.iter()) {
            let is_of_subscription = match binding.destination {
                Destination::Queue(id) => tables.subscriptions.of_queue(id).is_some() && is_filter(&binding.key),
                Destination::Subscriber(_) => true,
                Destination::Exchange(_) => false,
            };
            *filters += u64::from(is_of_subscription);
        }
        drop(tables);
        let retained = self.retained_count(&vhost.name);
        left.retained.messages += retained.messages;
        left.retained.bytes += retained.bytes;
    }
}
