//! Retained messages: the last values of topics. RabbitMQ has none over HTTP.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::routing::MethodRouter;
use broker::{Broker, Error, RetainedReport, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{Answer, Asker, Shared, done, make};
use crate::audit::Told;
use crate::change::{Caller, Changes, client};
use crate::listing::{Collection, Part, named};
use crate::source::Source;

/// See the module.
pub(crate) struct Retained;

impl Collection for Retained {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        named(source, vhost, |vhost| source.broker.retained_names(vhost))
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, names) = part else { return Vec::new() };
        source.broker.some_retained(&vhost, &names).iter().map(row).collect()
    }
}

fn row(retained: &RetainedReport) -> Json {
    json!({
        "vhost": retained.vhost,
        "exchange": retained.exchange,
        "topic": retained.topic,
        "body_bytes": retained.body_bytes,
        "persistent": retained.persistent,
        "published_at": retained.published_at,
        "expires_at": retained.expires_at,
    })
}

/// The route that removes one.
pub(crate) fn native_remove() -> MethodRouter<Arc<Source>> {
    axum::routing::delete(remove)
}

async fn remove(
    asker: Asker,
    State(source): Shared,
    Path((vhost, exchange, topic)): Path<(String, String, String)>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, RetainedChange::Remove { vhost, exchange, topic }).await?;
    done()
}

/// A change of retained messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RetainedChange {
    /// Removes one. Its subscribers are not told.
    Remove {
        /// Its vhost.
        vhost: String,
        /// The exchange that it was published to.
        exchange: String,
        /// Its topic.
        topic: String,
    },
}

impl Changes for RetainedChange {
    fn told(&self) -> Told {
        let Self::Remove { vhost, exchange, topic } = self;
        Told::plain("remove_retained", [vhost, &format!("{exchange}/{topic}")])
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let Self::Remove { vhost, exchange, topic } = self;
        let mut client = client(broker, &vhost, caller)?;
        Ok((0, client.remove_retained(&exchange, &topic, Instant::now())?))
    }
}
