//! Subscriptions, each with its queue. RabbitMQ has none: there they are queues alone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::routing::MethodRouter;
use broker::{Broker, DeleteIf, Error, QueueReport, Sharing, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{Answer, Asker, Shared, done, make};
use crate::audit::Told;
use crate::change::{Caller, Changes, client};
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

/// The route that ends one.
pub(crate) fn native_remove() -> MethodRouter<Arc<Source>> {
    axum::routing::delete(remove)
}

async fn remove(asker: Asker, State(source): Shared, Path((vhost, queue)): Path<(String, String)>) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, SubscriptionChange::Delete { vhost, queue }).await?;
    done()
}

/// A change of subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SubscriptionChange {
    /// Deletes one with its queue and all that this keeps.
    Delete {
        /// Its vhost.
        vhost: String,
        /// Its queue.
        queue: String,
    },
}

impl Changes for SubscriptionChange {
    fn told(&self) -> Told {
        let Self::Delete { vhost, queue } = self;
        Told::plain("delete_subscription", [vhost, queue])
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let Self::Delete { vhost, queue } = self;
        let mut client = client(broker, &vhost, caller)?;
        if broker.some_subscribed(&vhost, &[queue.as_str().into()]).is_empty() {
            let text = format!("no subscription with a queue '{queue}' in vhost '{vhost}'");
            return Err(Error::not_found(text));
        }
        client.delete_queue(&queue, DeleteIf::default(), Instant::now())
    }
}
