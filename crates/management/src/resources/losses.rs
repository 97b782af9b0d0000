//! The last messages that were dropped.

use std::collections::VecDeque;

use broker::Loss;
use serde_json::{Value as Json, json};

use crate::listing::{Collection, Part};
use crate::source::Source;

/// See the module.
pub(crate) struct Losses;

impl Collection for Losses {
    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        part.of_whole(source.broker.losses().iter().map(row))
    }
}

fn row(loss: &Loss) -> Json {
    json!({
        "at": loss.at,
        "vhost": loss.vhost,
        "reason": loss.reason,
        "queue": loss.queue,
        "exchange": loss.exchange,
        "routing_key": loss.routing_key,
        "body_bytes": loss.body_bytes,
    })
}
