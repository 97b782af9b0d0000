//! Consumers. RabbitMQ's path lists those of queues. Another one lists those without a queue, too:
//! there they are queues of a kind of their own, which have no consumers.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use broker::{ConsumerReport, ConsumerSource, FilterReport};
use serde_json::{Value as Json, json};

use crate::api::{self, Routes};
use crate::facts::endpoint;
use crate::json::object;
use crate::listing::{self, Collection, PART, Part};
use crate::source::Source;

/// Those of queues.
pub(crate) struct Consumers;

/// All of them.
pub(crate) struct AllConsumers;

impl Collection for Consumers {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        listing::named(source, vhost, |vhost| source.broker.queue_names(vhost))
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, queues) = part else { return Vec::new() };
        source.broker.consumers_of_queues(&vhost, &queues).iter().map(row).collect()
    }
}

impl Collection for AllConsumers {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        let vhosts = vhost.map_or_else(|| source.broker.vhost_names(), |vhost| vec![vhost.into()]);
        let direct = |vhost: &Arc<str>| -> Vec<Part> {
            let all = source.broker.direct_consumers(vhost);
            all.chunks(PART).map(|some| Part::Direct(Arc::clone(vhost), some.to_vec())).collect()
        };
        let of_vhost = |vhost: &Arc<str>| Consumers.parts(source, Some(vhost)).into_iter().chain(direct(vhost));
        vhosts.iter().flat_map(of_vhost).collect()
    }

    fn rows(&self, source: &Source, part: Part, left: &mut VecDeque<Part>) -> Vec<Json> {
        match part {
            Part::Direct(_, consumers) => source.broker.some_direct(&consumers).iter().map(row).collect(),
            part => Consumers.rows(source, part, left),
        }
    }
}

/// Visits the consumers of a vhost a part at a time, those without a queue last.
pub(crate) fn each_consumer(source: &Source, vhost: &str, visit: &mut dyn FnMut(Vec<ConsumerReport>)) {
    for queues in source.broker.queue_names(vhost).chunks(PART) {
        visit(source.broker.consumers_of_queues(vhost, queues));
    }
    for consumers in source.broker.direct_consumers(vhost).chunks(PART) {
        visit(source.broker.some_direct(consumers));
    }
}

pub(super) fn routes() -> Routes {
    Router::new()
        .merge(api::all("consumers", &Consumers))
        .merge(api::in_vhost("consumers/{vhost}", &Consumers))
        .merge(api::all("all-consumers", &AllConsumers))
        .merge(api::in_vhost("all-consumers/{vhost}", &AllConsumers))
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
    let mut row = json!({
        "vhost": consumer.vhost,
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
    });
    match &consumer.source {
        ConsumerSource::Queue(name) => {
            row["queue"] = json!({ "name": name, "vhost": consumer.vhost });
            row["queue_name"] = json!(name);
        }
        ConsumerSource::Filters(filters) => row["filters"] = filters.iter().map(filter).collect(),
        ConsumerSource::Replies => row["replies"] = json!(true),
    }
    if let (None, Some(name)) = (consumer.queue(), &consumer.holder.name) {
        row["user_provided_name"] = json!(name);
    }
    row
}

fn filter(filter: &FilterReport) -> Json {
    json!({ "exchange": filter.exchange, "routing_key": filter.key })
}
