//! Wills: messages that clients leave for the ends of their connections. RabbitMQ has none over
//! HTTP.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::MethodRouter;
use broker::{Broker, Error, Ticket, WillKept, WillReport};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::api::{Answer, Asker, Shared, done, make};
use crate::audit::Told;
use crate::change::{Caller, Changes, client};
use crate::listing::{Collection, Part, named};
use crate::source::Source;

/// See the module.
pub(crate) struct Wills;

impl Collection for Wills {
    fn parts(&self, source: &Source, vhost: Option<&str>) -> VecDeque<Part> {
        named(source, vhost, |vhost| source.broker.will_names(vhost))
    }

    fn rows(&self, source: &Source, part: Part, _: &mut VecDeque<Part>) -> Vec<Json> {
        let Part::Named(vhost, names) = part else { return Vec::new() };
        source.broker.some_wills(&vhost, &names).iter().map(row).collect()
    }
}

fn row(will: &WillReport) -> Json {
    json!({
        "vhost": will.vhost,
        "user": will.user,
        "client": will.client,
        "exchange": will.exchange,
        "topic": will.topic,
        "body_bytes": will.body_bytes,
        "due": will.due,
        "kept": kept(will.kept),
        "held_up": will.held_up,
    })
}

/// Where a will is kept, as operators read it.
pub(crate) fn kept(kept: WillKept) -> &'static str {
    match kept {
        WillKept::Log => "disk",
        WillKept::Memory => "memory",
    }
}

/// The route that removes one.
pub(crate) fn native_remove() -> MethodRouter<Arc<Source>> {
    axum::routing::delete(remove)
}

async fn remove(
    asker: Asker,
    State(source): Shared,
    Path((vhost, user, client)): Path<(String, String, String)>,
) -> Answer {
    asker.enters(&source, &vhost)?;
    make(&source, &asker, WillChange::Remove { vhost, user, client }).await?;
    done()
}

/// A change of wills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WillChange {
    /// Removes one. It is not published.
    Remove {
        /// Its vhost.
        vhost: String,
        /// The user that left it.
        user: String,
        /// What its client is called.
        client: String,
    },
}

impl Changes for WillChange {
    fn told(&self) -> Told {
        let Self::Remove { vhost, user, client } = self;
        Told::plain("remove_will", [vhost, &format!("{client} of {user}")])
    }

    fn apply(self, broker: &Broker, caller: Caller) -> Result<(u64, Ticket), Error> {
        let Self::Remove { vhost, user, client: of } = self;
        Ok((0, client(broker, &vhost, caller)?.remove_will(&user, &of)?))
    }
}
