//! `/metrics/detailed`: the families of metrics that a scrape names, in the vhosts that it names.
//! Families and metrics have RabbitMQ's names.
//!
//! A family that Hermod has no figures for is empty, like a family that RabbitMQ does not know.

use broker::{Overview, QueueReport, QueueTotals};

use crate::exposition::Exposition;
use crate::facts::Facts;
use crate::metrics::{MOST_QUEUES, identity};

/// A metric of a queue. A queue without this figure has no sample.
type OfQueue = (&'static str, &'static str, &'static str, fn(&QueueReport) -> Option<u64>);
/// A metric of the broker.
type OfBroker = (&'static str, &'static str, &'static str, fn(&Overview) -> u64);

/// Metrics of queues, each with the families that contain it.
const OF_QUEUES: [(&[&str], OfQueue); 24] = [
    (COARSE, ("queue_messages_ready", GAUGE, "Messages that wait", |queue| Some(queue.ready))),
    (COARSE, ("queue_messages_unacked", GAUGE, "Messages with consumers", |queue| Some(queue.unacked))),
    (COARSE, ("queue_messages", GAUGE, "Messages in the queue", |queue| Some(queue.ready + queue.unacked))),
    (
        &["queue_consumer_count", "queue_metrics"],
        ("queue_consumers", GAUGE, "Consumers", |queue| Some(queue.consumers)),
    ),
    (QUEUE, ("queue_consumer_capacity", GAUGE, "1 when a message that came now would be delivered at once", capacity)),
    (QUEUE, ("queue_consumer_utilisation", GAUGE, "The same under its other name", capacity)),
    (QUEUE, ("queue_process_memory_bytes", GAUGE, "Bytes that the queue takes in memory", |queue| Some(queue.bytes))),
    (QUEUE, ("queue_messages_ram", GAUGE, "Messages in memory", |queue| Some(in_memory(queue)))),
    (QUEUE, ("queue_messages_ram_bytes", GAUGE, "Bytes of their bodies", |queue| weight(queue, in_memory(queue)))),
    (
        QUEUE,
        ("queue_messages_ready_ram", GAUGE, "Messages in memory that wait", |queue| {
            Some(queue.figures.ready_in_memory)
        }),
    ),
    (QUEUE, ("queue_messages_unacked_ram", GAUGE, "Messages in memory with consumers", |queue| Some(queue.unacked))),
    (QUEUE, ("queue_messages_persistent", GAUGE, "Persistent messages", |queue| Some(queue.figures.persistent))),
    (
        QUEUE,
        ("queue_messages_persistent_bytes", GAUGE, "Bytes of their bodies", |queue| {
            weight(queue, queue.figures.persistent)
        }),
    ),
    (QUEUE, ("queue_messages_bytes", GAUGE, "Bytes of all bodies", |queue| weight(queue, queue.ready + queue.unacked))),
    (QUEUE, ("queue_messages_ready_bytes", GAUGE, "Bytes of the bodies that wait", |queue| weight(queue, queue.ready))),
    (
        QUEUE,
        ("queue_messages_unacked_bytes", GAUGE, "Bytes of the bodies with consumers", |queue| {
            weight(queue, queue.unacked)
        }),
    ),
    (
        QUEUE,
        ("queue_head_message_timestamp", GAUGE, "When the next message was made", |queue| queue.figures.head_timestamp),
    ),
    (
        DELIVERY,
        ("queue_get_ack_total", COUNTER, "Fetches that are to be settled", |queue| Some(moved(queue).fetched_manual())),
    ),
    (DELIVERY, ("queue_get_total", COUNTER, "Fetches that need no settling", |queue| Some(moved(queue).fetched_auto))),
    (
        DELIVERY,
        ("queue_messages_delivered_ack_total", COUNTER, "Deliveries that are to be settled", |queue| {
            Some(moved(queue).delivered_manual())
        }),
    ),
    (
        DELIVERY,
        ("queue_messages_delivered_total", COUNTER, "Deliveries that need no settling", |queue| {
            Some(moved(queue).delivered_auto)
        }),
    ),
    (
        DELIVERY,
        ("queue_messages_redelivered_total", COUNTER, "Deliveries marked as redelivered", |queue| {
            Some(moved(queue).redelivered)
        }),
    ),
    (DELIVERY, ("queue_messages_acked_total", COUNTER, "Deliveries accepted", |queue| Some(moved(queue).acknowledged))),
    (
        DELIVERY,
        ("queue_get_empty_total", COUNTER, "Fetches that found nothing", |queue| Some(moved(queue).fetched_empty)),
    ),
];
const COARSE: &[&str] = &["queue_coarse_metrics"];
const QUEUE: &[&str] = &["queue_metrics"];
const DELIVERY: &[&str] = &["queue_delivery_metrics"];
const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// Metrics of the broker, each with its family.
const OF_BROKER: [(&str, OfBroker); 9] = [
    (
        CHURN,
        ("connections_opened_total", COUNTER, "Connections authenticated", |all| {
            all.totals.churn.connections_opened.get()
        }),
    ),
    (
        CHURN,
        ("connections_closed_total", COUNTER, "Authenticated connections closed", |all| {
            all.totals.churn.connections_closed.get()
        }),
    ),
    (CHURN, ("channels_opened_total", COUNTER, "Sessions opened", |all| all.totals.churn.sessions_opened.get())),
    (CHURN, ("channels_closed_total", COUNTER, "Sessions closed", |all| all.totals.churn.sessions_closed.get())),
    (CHURN, ("queues_declared_total", COUNTER, "Queue declarations", |all| all.totals.churn.queues_declared.get())),
    (CHURN, ("queues_created_total", COUNTER, "Queues created", |all| all.totals.churn.queues_created.get())),
    (CHURN, ("queues_deleted_total", COUNTER, "Queues deleted", |all| all.totals.churn.queues_deleted.get())),
    (
        "node_coarse_metrics",
        ("disk_space_available_bytes", GAUGE, "Bytes free on the journal's disk", |all| all.journal.free_bytes),
    ),
    ("node_metrics", ("resident_memory_limit_bytes", GAUGE, "Where the memory alarm rises", |all| all.memory.limit)),
];
const CHURN: &str = "connection_churn_metrics";

fn moved(queue: &QueueReport) -> &QueueTotals {
    &queue.figures.totals
}

fn in_memory(queue: &QueueReport) -> u64 {
    queue.figures.ready_in_memory + queue.unacked
}

fn weight(queue: &QueueReport, messages: u64) -> Option<u64> {
    queue.figures.bytes_of(messages)
}

fn capacity(queue: &QueueReport) -> Option<u64> {
    Some(queue.figures.can_deliver.into())
}

/// What a scrape asks for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    families: Vec<String>,
    /// Empty for all of them.
    vhosts: Vec<String>,
}

impl Asked {
    /// From the parameters of a request: `family` and `vhost`, each any number of times.
    pub(crate) fn of(parameters: Vec<(String, String)>) -> Self {
        let mut asked = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "family" => asked.families.push(value),
                "vhost" => asked.vhosts.push(value),
                _ => {}
            }
        }
        asked
    }

    fn has(&self, family: &str) -> bool {
        self.families.iter().any(|asked| asked == family)
    }

    /// Whether the scrape needs the reports of queues.
    pub(crate) fn is_about_queues(&self) -> bool {
        OF_QUEUES.iter().any(|(families, _)| families.iter().any(|family| self.has(family)))
    }
}

/// The text of the scrape.
pub(crate) fn text(facts: &Facts, overview: &Overview, queues: &[QueueReport], asked: &Asked) -> String {
    let mut out = Exposition::default();
    identity(&mut out, facts, "detailed");
    for (family, (name, kind, help, figure)) in OF_BROKER {
        if asked.has(family) {
            let name = format!("rabbitmq_detailed_{name}");
            out.family(&name, kind, help);
            out.sample(&name, &[], figure(overview));
        }
    }
    let wanted = |queue: &&QueueReport| asked.vhosts.is_empty() || asked.vhosts.contains(&queue.vhost);
    let wanted: Vec<_> = queues.iter().filter(wanted).collect();
    let shown = &wanted[..wanted.len().min(MOST_QUEUES)];
    for (families, (name, kind, help, figure)) in OF_QUEUES {
        if !families.iter().any(|family| asked.has(family)) {
            continue;
        }
        let name = format!("rabbitmq_detailed_{name}");
        out.family(&name, kind, help);
        for queue in shown {
            if let Some(figure) = figure(queue) {
                out.sample(&name, &[("vhost", &queue.vhost), ("queue", &queue.name)], figure);
            }
        }
    }
    let is_cut = u64::from(shown.len() < wanted.len());
    out.gauge("hermod_metrics_truncated", "1 when there are more queues than are shown", is_cut);
    out.into_text()
}
