//! Consumers of queues.

use std::collections::VecDeque;

use axum::Router;
use broker::ConsumerReport;
use serde_json::{Value as Json, json};

use crate::api::{self, Routes};
use crate::facts::endpoint;
use crate::json::object;
use crate::listing::{self, Collection, Part};
use crate::source::Source;

/// See the module.
pub(crate) struct Consumers;

impl Collection for Consumers {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        listing::named(source, vhost, |vhost| source.broker.queue_names(vhost))
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, queues) = part else { return Vec::new() };
        source.broker.consumers_of_queues(&vhost, &queues).iter().map(row).collect()
    }
}

pub(super) fn routes() -> Routes {
    Router::new().merge(api::all("consumers", &Consumers)).merge(api::in_vhost("consumers/{vhost}", &Consumers))
}

/// Includes the fields without which rabbitmqadmin can't read a list of consumers.
pub(super) fn row(consumer: &ConsumerReport) -> Json {
    let timeout = consumer.timeout.map_or(0, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let peer = &consumer.holder.peer;
    let (host, port) = endpoint(peer.split(" -> ").next().unwrap_or_default());
    let status = match (consumer.single, consumer.active) {
        (true, true) => "single_active",
        (true, false) => "waiting",
        _ => "up",
    };
    json!({
        "queue": { "name": consumer.queue, "vhost": consumer.vhost },
        "vhost": consumer.vhost,
        "queue_name": consumer.queue,
        "connection": consumer.client,
        "consumer_tag": consumer.tag,
        "ack_required": !consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "messages_unacknowledged": consumer.unsettled,
        "active": consumer.active,
        "arguments": object(&consumer.arguments),
        "consumer_timeout": timeout,
        "activity_status": status,
        "channel_details": {
            "name": format!("{peer} ({})", consumer.session),
            "number": consumer.session,
            "connection_name": peer,
            "user": consumer.holder.user,
            "peer_host": host,
            "peer_port": port,
        },
    })
}
