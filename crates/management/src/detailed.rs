//! `/metrics/detailed`: the families of metrics that a scrape names, of the vhosts and queues that
//! it names. Families and metrics have RabbitMQ's names.
//!
//! A family that Hermod has no figures for is empty, like a family that RabbitMQ does not know.

use auth::pattern::Pattern;
use broker::{Overview, QueueReport};

use crate::counters::{self, CHURN, Counter, LENGTHS};
use crate::exposition::Exposition;
use crate::metrics::{Origin, identity};
use crate::scrape::{Metric, Scrape, Stalls};

/// A gauge of a queue: name, help, figure. A queue without this figure has no sample.
type OfQueue = (&'static str, &'static str, fn(&QueueReport) -> Option<u64>);
/// A gauge of the broker.
type OfBroker = (&'static str, &'static str, fn(&Overview) -> u64);

/// Gauges of queues besides their lengths, each with the families that contain it.
const OF_QUEUES: [(&[&str], OfQueue); 14] = [
    (&["queue_consumer_count", "queue_metrics"], ("queue_consumers", "Consumers", |queue| Some(queue.consumers))),
    (QUEUE, ("queue_consumer_capacity", "1 when a message that came now would be delivered at once", capacity)),
    (QUEUE, ("queue_consumer_utilisation", "The same under its other name", capacity)),
    (QUEUE, ("queue_process_memory_bytes", "Bytes that the queue takes in memory", |queue| Some(queue.bytes))),
    (QUEUE, ("queue_messages_ram", "Messages in memory", |queue| Some(in_memory(queue)))),
    (QUEUE, ("queue_messages_ram_bytes", "Bytes of their bodies", |queue| weight(queue, in_memory(queue)))),
    (QUEUE, ("queue_messages_ready_ram", "Messages in memory that wait", |queue| Some(queue.figures.ready_in_memory))),
    (QUEUE, ("queue_messages_unacked_ram", "Messages in memory with consumers", |queue| Some(queue.unacked))),
    (QUEUE, ("queue_messages_persistent", "Persistent messages", |queue| Some(queue.figures.persistent))),
    (
        QUEUE,
        ("queue_messages_persistent_bytes", "Bytes of their bodies", |queue| weight(queue, queue.figures.persistent)),
    ),
    (QUEUE, ("queue_messages_bytes", "Bytes of all bodies", |queue| weight(queue, queue.ready + queue.unacked))),
    (QUEUE, ("queue_messages_ready_bytes", "Bytes of the bodies that wait", |queue| weight(queue, queue.ready))),
    (
        QUEUE,
        ("queue_messages_unacked_bytes", "Bytes of the bodies with consumers", |queue| weight(queue, queue.unacked)),
    ),
    (QUEUE, ("queue_head_message_timestamp", "When the next message was made", |queue| queue.figures.head_timestamp)),
];
const QUEUE: &[&str] = &["queue_metrics"];
/// Families that the tables of counters have.
const LENGTHS_OF_QUEUES: &str = "queue_coarse_metrics";
const DELIVERIES: &str = "queue_delivery_metrics";

/// Gauges of the broker, each with its family.
const OF_BROKER: [(&str, OfBroker); 2] = [
    (
        "node_coarse_metrics",
        ("disk_space_available_bytes", "Bytes free on the journal's disk", |all| all.journal.free_bytes),
    ),
    ("node_metrics", ("resident_memory_limit_bytes", "Where the memory alarm rises", |all| all.memory.limit)),
];
const OF_CHURN: &str = "connection_churn_metrics";

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
    /// What the name of a queue must match, one of them; empty for all queues.
    queues: Vec<Pattern>,
}

impl Asked {
    /// From the parameters of a request: `family`, `vhost` and `queue`, each any number of times.
    ///
    /// # Errors
    /// If `queue` is no regular expression, in a sentence.
    pub(crate) fn of(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let mut asked = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "family" => asked.families.push(value),
                "vhost" => asked.vhosts.push(value),
                "queue" => {
                    let refused = |reason| format!("queue is no regular expression: {reason}");
                    asked.queues.push(Pattern::filter(&value).map_err(|error| refused(error.reason))?);
                }
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Whether the scrape shows queues of this vhost.
    pub(crate) fn wants_vhost(&self, vhost: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|wanted| wanted == vhost)
    }

    /// Whether it shows a queue of this name.
    pub(crate) fn wants_queue(&self, name: &str) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| pattern.matches(name))
    }

    fn has(&self, family: &str) -> bool {
        self.families.iter().any(|asked| asked == family)
    }

    /// Whether the scrape needs the reports of queues.
    pub(crate) fn is_about_queues(&self) -> bool {
        let of_gauges = OF_QUEUES.iter().flat_map(|(families, _)| families.iter());
        of_gauges.chain(&[LENGTHS_OF_QUEUES, DELIVERIES]).any(|family| self.has(family))
    }
}

/// The scrape, to which the queues that it wants are to be added.
pub(crate) fn scrape(origin: &Origin<'_>, overview: &Overview, asked: &Asked) -> Scrape {
    let mut out = Exposition::default();
    identity(&mut out, origin, "detailed");
    if asked.has(OF_CHURN) {
        for counter in &CHURN {
            out.counter(&format!("rabbitmq_detailed_{}_total", counter.metric), counter.help, (counter.read)(overview));
        }
    }
    for (family, (name, help, figure)) in OF_BROKER {
        if asked.has(family) {
            out.gauge(&format!("rabbitmq_detailed_{name}"), help, figure(overview));
        }
    }
    let mut metrics = Vec::new();
    if asked.has(LENGTHS_OF_QUEUES) {
        let metric = |length: &'static Counter<QueueReport>| {
            of_each([length.metric, "gauge", length.help], |queue| Some((length.read)(queue)))
        };
        metrics.extend(LENGTHS.iter().map(metric));
    }
    for (_, (name, help, figure)) in OF_QUEUES.iter().filter(|(families, _)| families.iter().any(|of| asked.has(of))) {
        metrics.push(of_each([name, "gauge", help], figure));
    }
    if asked.has(DELIVERIES) {
        for counter in counters::OF_QUEUES.iter().filter(|counter| !counter.metric.is_empty()) {
            let name = format!("rabbitmq_detailed_{}_total", counter.metric);
            let figure = |queue: &QueueReport| Some((counter.read)(&queue.figures.totals) as f64);
            metrics.push(Metric::new(name, ["counter", counter.help], figure));
        }
    }
    Scrape::new(out, metrics, Stalls::Untold)
}

/// One metric of each queue: name, type, help.
fn of_each(
    [name, kind, help]: [&'static str; 3],
    figure: impl Fn(&QueueReport) -> Option<u64> + Send + 'static,
) -> Metric {
    let figure = move |queue: &QueueReport| figure(queue).map(|figure| figure as f64);
    Metric::new(format!("rabbitmq_detailed_{name}"), [kind, help], figure)
}
