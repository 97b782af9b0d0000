//! Subscriptions, each with its queue. RabbitMQ has none: there they are queues alone.

use std::collections::VecDeque;

use broker::{QueueReport, Sharing};
use serde_json::{Value as Json, json};

use crate::listing::{Collection, Part, named};
use crate::source::Source;

/// See the module.
pub(crate) struct Subscriptions;

impl Collection for Subscriptions {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        named(source, vhost, |vhost| source.broker.subscribed_names(vhost))
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, names) = part else { return Vec::new() };
        source.broker.some_queues(&vhost, &names).iter().filter_map(row).collect()
    }
}

fn row(queue: &QueueReport) -> Option<Json> {
    let subscription = queue.declared.subscription.as_deref()?;
    Some(json!({
        "vhost": queue.vhost,
        "client": subscription.name.client,
        "name": subscription.name.name,
        "shared": subscription.sharing == Sharing::Shared,
        "selector": subscription.selector,
        "queue": queue.name,
        "durable": queue.declared.durable,
        "messages_ready": queue.ready,
        "messages_unacknowledged": queue.unacked,
        "consumers": queue.consumers,
    }))
}
