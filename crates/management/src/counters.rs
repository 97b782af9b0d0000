//! Every counter of traffic and churn once: its name in RabbitMQ's JSON, its name among the
//! metrics, its help, and where it is read. JSON, metrics and histories are made from these tables.

use broker::{Overview, QueueReport, QueueTotals};
use serde_json::{Map, Value as Json, json};

/// A figure of a `T`.
pub(crate) struct Counter<T> {
    /// Its name in RabbitMQ's JSON; empty if it is not shown there.
    pub(crate) field: &'static str,
    /// The name of its metric, without the prefix and the `_total` of a counter; empty if it has
    /// none.
    pub(crate) metric: &'static str,
    pub(crate) help: &'static str,
    pub(crate) read: fn(&T) -> u64,
}

/// A row of a table: field, metric, help.
pub(crate) const fn counter<T>([field, metric, help]: [&'static str; 3], read: fn(&T) -> u64) -> Counter<T> {
    Counter { field, metric, help, read }
}

/// What moved through the broker.
pub(crate) const TRAFFIC: [Counter<Overview>; 14] = [
    counter(["publish", "received", "Messages received"], |all| all.totals.publishes.received.get()),
    counter(["", "received_confirm", "Messages received in confirming sessions"], |all| {
        all.totals.publishes.received_confirm.get()
    }),
    counter(["", "routed", "Messages that reached a queue"], |all| all.totals.publishes.routed.get()),
    counter(["confirm", "confirmed", "Messages confirmed"], |all| all.totals.publishes.confirmed.get()),
    counter(["drop_unroutable", "unroutable_dropped", "Messages no queue was bound for, dropped"], |all| {
        all.totals.publishes.unroutable_dropped.get()
    }),
    counter(["return_unroutable", "unroutable_returned", "Messages no queue was bound for, returned"], |all| {
        all.totals.publishes.unroutable_returned.get()
    }),
    counter(["deliver_get", "delivered", "Messages delivered or fetched"], delivered),
    counter(["deliver", "delivered_consume_manual_ack", "Deliveries that are to be settled"], |all| {
        all.totals.deliveries.delivered_manual.get()
    }),
    counter(["deliver_no_ack", "delivered_consume_auto_ack", "Deliveries that need no settling"], |all| {
        all.totals.deliveries.delivered_auto.get()
    }),
    counter(["get", "delivered_get_manual_ack", "Fetches that are to be settled"], |all| {
        all.totals.deliveries.fetched_manual.get()
    }),
    counter(["get_no_ack", "delivered_get_auto_ack", "Fetches that need no settling"], |all| {
        all.totals.deliveries.fetched_auto.get()
    }),
    counter(["get_empty", "get_empty", "Fetches that found nothing"], |all| all.totals.deliveries.fetched_empty.get()),
    counter(["redeliver", "redelivered", "Deliveries marked as redelivered"], |all| {
        all.totals.deliveries.redelivered.get()
    }),
    counter(["ack", "acknowledged", "Deliveries accepted"], |all| all.totals.deliveries.acknowledged.get()),
];

/// What moved through queues.
pub(crate) const OF_QUEUES: [Counter<QueueTotals>; 9] = [
    counter(["publish", "", "Messages that entered the queue"], |queue| queue.published),
    counter(["deliver_get", "", "Messages delivered or fetched"], |queue| queue.delivered),
    counter(["deliver", "queue_messages_delivered_ack", "Deliveries that are to be settled"], |queue| {
        queue.delivered_manual()
    }),
    counter(["deliver_no_ack", "queue_messages_delivered", "Deliveries that need no settling"], |queue| {
        queue.delivered_auto
    }),
    counter(["get", "queue_get_ack", "Fetches that are to be settled"], |queue| queue.fetched_manual()),
    counter(["get_no_ack", "queue_get", "Fetches that need no settling"], |queue| queue.fetched_auto),
    counter(["get_empty", "queue_get_empty", "Fetches that found nothing"], |queue| queue.fetched_empty),
    counter(["redeliver", "queue_messages_redelivered", "Deliveries marked as redelivered"], |queue| queue.redelivered),
    counter(["ack", "queue_messages_acked", "Deliveries accepted"], |queue| queue.acknowledged),
];

/// What was created and removed since the start.
pub(crate) const CHURN: [Counter<Overview>; 7] = [
    counter(["connection_created", "connections_opened", "Connections authenticated"], |all| {
        all.totals.churn.connections_opened.get()
    }),
    counter(["connection_closed", "connections_closed", "Authenticated connections closed"], |all| {
        all.totals.churn.connections_closed.get()
    }),
    counter(["channel_created", "channels_opened", "Sessions opened"], |all| all.totals.churn.sessions_opened.get()),
    counter(["channel_closed", "channels_closed", "Sessions closed"], |all| all.totals.churn.sessions_closed.get()),
    counter(["queue_declared", "queues_declared", "Queue declarations"], |all| all.totals.churn.queues_declared.get()),
    counter(["queue_created", "queues_created", "Queues created"], |all| all.totals.churn.queues_created.get()),
    counter(["queue_deleted", "queues_deleted", "Queues deleted"], |all| all.totals.churn.queues_deleted.get()),
];

/// How long queues are.
pub(crate) const LENGTHS: [Counter<QueueReport>; 3] = [
    counter(["messages", "queue_messages", "Messages in the queue"], |queue| queue.ready + queue.unacked),
    counter(["messages_ready", "queue_messages_ready", "Messages that wait in the queue"], |queue| queue.ready),
    counter(["messages_unacknowledged", "queue_messages_unacked", "Messages with consumers"], |queue| queue.unacked),
];

/// How long all queues are together.
pub(crate) const ALL_LENGTHS: [Counter<Overview>; 3] = [
    counter(["messages", "queue_messages", "Messages in queues"], |all| all.messages.ready + all.messages.unacked),
    counter(["messages_ready", "queue_messages_ready", "Messages that wait in queues"], |all| all.messages.ready),
    counter(["messages_unacknowledged", "queue_messages_unacked", "Messages with consumers"], |all| {
        all.messages.unacked
    }),
];

/// All messages that were delivered or fetched.
pub(crate) fn delivered(overview: &Overview) -> u64 {
    let deliveries = &overview.totals.deliveries;
    let delivered = deliveries.delivered_manual.get() + deliveries.delivered_auto.get();
    delivered + deliveries.fetched_manual.get() + deliveries.fetched_auto.get()
}

/// The figures of RabbitMQ's JSON.
pub(crate) fn fields<T>(counters: &[Counter<T>], of: &T) -> Map<String, Json> {
    let shown = counters.iter().filter(|counter| !counter.field.is_empty());
    shown.map(|counter| (counter.field.to_owned(), json!((counter.read)(of)))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names<T>(counters: &[Counter<T>]) -> Vec<[&'static str; 2]> {
        counters.iter().map(|counter| [counter.field, counter.metric]).collect()
    }

    #[test]
    fn names_are_given_once_in_a_table() {
        for table in [names(&TRAFFIC), names(&OF_QUEUES), names(&CHURN), names(&LENGTHS), names(&ALL_LENGTHS)] {
            for side in 0..2 {
                let given: Vec<&str> = table.iter().map(|names| names[side]).filter(|name| !name.is_empty()).collect();
                assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "{given:?}");
            }
        }
    }
}
