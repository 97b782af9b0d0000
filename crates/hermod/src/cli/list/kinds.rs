//! The lists that there are: their columns, and what is told below them.

use std::fmt::Write;

use management::Listed;
use serde_json::Value as Json;

use super::{Column, Kind, Notes, Show};
use crate::cli::counted;

const fn plain(title: &'static str) -> Column {
    named(title, title)
}

const fn named(title: &'static str, path: &'static str) -> Column {
    Column { title, path, show: Show::Plain }
}

const fn bytes(title: &'static str, path: &'static str) -> Column {
    Column { title, path, show: Show::Size }
}

const fn simple(what: Listed, nouns: [&'static str; 2], columns: &'static [Column]) -> Kind {
    Kind { what, nouns, columns, notes: None }
}

/// `hermod queues`.
pub(crate) const QUEUES: Kind = Kind {
    what: Listed::Queues,
    nouns: ["queue", "queues"],
    columns: &[
        plain("vhost"),
        plain("name"),
        plain("type"),
        Column {
            title: "features",
            path: "",
            show: Show::Words(&[
                ["durable", "durable"],
                ["exclusive", "exclusive"],
                ["auto_delete", "auto-delete"],
                ["damage", "damaged"],
            ]),
        },
        named("ready", "messages_ready"),
        named("unacked", "messages_unacknowledged"),
        named("delayed", "messages_delayed"),
        plain("consumers"),
        bytes("memory", "memory"),
        named("in", "message_stats.publish"),
        named("out", "message_stats.deliver_get"),
        named("acked", "message_stats.ack"),
    ],
    notes: Some(Notes {
        fields: &["dropped", "message_ids_known", "selectors", "arguments_without_effect", "subscription", "damage"],
        of: of_queue,
    }),
};

/// What is unusual about a queue.
fn of_queue(queue: &Json) -> String {
    let place = format!("{} in {}", queue["name"].as_str().unwrap_or(""), queue["vhost"].as_str().unwrap_or(""));
    let number = |value: &Json| value.as_u64().unwrap_or(0);
    let mut text = String::new();
    let (duplicates, known) = (number(&queue["dropped"]["duplicate"]), number(&queue["message_ids_known"]));
    // Writing into a String cannot fail.
    if duplicates + known > 0 {
        let _ = writeln!(text, "duplicates: {place}: {duplicates} dropped, {} known", counted(known, ["id", "ids"]));
    }
    let superseded = number(&queue["dropped"]["superseded"]);
    if superseded > 0 {
        let _ = writeln!(text, "superseded: {place}: {superseded}");
    }
    let lost = number(&queue["dropped"]["dead_letter_unroutable"]);
    if lost > 0 {
        let _ = writeln!(text, "dead letters lost: {place}: {lost}, their exchange or queue is missing");
    }
    for one in queue["selectors"].as_array().into_iter().flatten() {
        let consumers = counted(number(&one["consumers"]), ["consumer", "consumers"]);
        let (selector, matched, of) = (one["selector"].as_str().unwrap_or(""), &one["matched"], &one["tested"]);
        let _ = writeln!(text, "selector: {place}: {selector} ({consumers}, {matched} of {of} selected)");
    }
    let idle = super::cell(queue.get("arguments_without_effect")).replace(',', ", ");
    if !idle.is_empty() {
        let _ = writeln!(text, "without effect: {place}: {idle}");
    }
    if let Some(name) = queue["subscription"]["name"].as_str() {
        let client = queue["subscription"]["client"].as_str();
        let whose = client.map_or(String::new(), |client| format!(" of client {client}"));
        let sharing = if queue["subscription"]["shared"] == true { "shared" } else { "for one consumer at a time" };
        let _ = writeln!(text, "subscription: {place}: {name}{whose}, {sharing}");
    }
    if let Some(damage) = queue["damage"].as_str() {
        let _ = writeln!(text, "damaged: {place}: {damage}");
    }
    text
}

/// `hermod connections`.
pub(crate) const CONNECTIONS: Kind = simple(
    Listed::Connections,
    ["connection", "connections"],
    &[
        named("id", "pid"),
        plain("user"),
        plain("vhost"),
        plain("protocol"),
        named("peer", "name"),
        named("client", "user_provided_name"),
        plain("channels"),
        plain("consumers"),
        plain("state"),
        bytes("received", "recv_oct"),
        bytes("sent", "send_oct"),
        bytes("held", "held_bytes"),
    ],
);

/// `hermod connections strangers`.
pub(crate) const STRANGERS: Kind = simple(
    Listed::Strangers,
    ["connection without a log-in", "connections without a log-in"],
    &[named("peer", "name"), plain("protocol"), bytes("received", "recv_oct"), bytes("sent", "send_oct")],
);

/// `hermod connections ended`.
pub(crate) const ENDINGS: Kind = simple(
    Listed::Endings,
    ["connection that has ended", "connections that have ended"],
    &[
        plain("at"),
        plain("user"),
        plain("vhost"),
        plain("peer"),
        plain("protocol"),
        plain("by"),
        plain("reason"),
        plain("told"),
        plain("last"),
    ],
);

/// `hermod tasks`.
pub(crate) const TASKS: Kind = simple(
    Listed::Tasks,
    ["task", "tasks"],
    &[
        plain("vhost"),
        plain("name"),
        plain("kind"),
        plain("queue"),
        plain("state"),
        plain("taken"),
        plain("homeless"),
        plain("refused"),
        plain("author"),
        plain("reason"),
    ],
);

/// `hermod shovels`.
pub(crate) const SHOVELS: Kind = simple(
    Listed::ShovelStates,
    ["shovel", "shovels"],
    &[
        plain("vhost"),
        plain("name"),
        plain("phase"),
        plain("src_uri"),
        plain("dest_uri"),
        plain("left"),
        plain("pending"),
        plain("forwarded"),
        plain("author"),
        plain("reason"),
    ],
);

/// `hermod retained`.
pub(crate) const RETAINED: Kind = simple(
    Listed::Retained,
    ["retained message", "retained messages"],
    &[plain("vhost"), plain("exchange"), plain("topic"), bytes("body", "body_bytes"), plain("persistent")],
);

/// `hermod wills`.
pub(crate) const WILLS: Kind = simple(
    Listed::Wills,
    ["will", "wills"],
    &[
        plain("vhost"),
        plain("user"),
        plain("client"),
        plain("exchange"),
        plain("topic"),
        bytes("body", "body_bytes"),
        plain("due"),
        plain("kept"),
        named("held-up", "held_up"),
    ],
);

/// `hermod subscriptions`.
pub(crate) const SUBSCRIPTIONS: Kind = simple(
    Listed::Subscriptions,
    ["subscription", "subscriptions"],
    &[
        plain("vhost"),
        plain("client"),
        plain("name"),
        plain("shared"),
        plain("durable"),
        Column { title: "selector", path: "selector", show: Show::Rare },
        plain("queue"),
        named("ready", "messages_ready"),
        named("unacked", "messages_unacknowledged"),
        plain("consumers"),
    ],
);

/// `hermod exchanges`.
pub(crate) const EXCHANGES: Kind = simple(
    Listed::Exchanges,
    ["exchange", "exchanges"],
    &[
        plain("vhost"),
        plain("name"),
        plain("type"),
        plain("durable"),
        plain("auto_delete"),
        plain("internal"),
        plain("arguments"),
        // Empty in most brokers.
        Column { title: "arguments_without_effect", path: "arguments_without_effect", show: Show::Rare },
    ],
);

/// `hermod bindings`.
pub(crate) const BINDINGS: Kind = simple(
    Listed::Bindings,
    ["binding", "bindings"],
    &[
        plain("vhost"),
        plain("source"),
        plain("destination"),
        plain("destination_type"),
        plain("routing_key"),
        plain("arguments"),
    ],
);

/// `hermod consumers`.
pub(crate) const CONSUMERS: Kind = simple(
    Listed::AllConsumers,
    ["consumer", "consumers"],
    &[
        plain("vhost"),
        named("queue", "queue_name"),
        Column { title: "filters", path: "filters", show: Show::Rare },
        Column { title: "replies", path: "replies", show: Show::Rare },
        named("connection", "channel_details.connection_name"),
        Column { title: "client", path: "user_provided_name", show: Show::Rare },
        named("user", "channel_details.user"),
        named("tag", "consumer_tag"),
        named("acks", "ack_required"),
        named("prefetch", "prefetch_count"),
        plain("exclusive"),
    ],
);

/// `hermod users`.
pub(crate) const USERS: Kind = simple(
    Listed::Users,
    ["user", "users"],
    &[plain("name"), plain("tags"), plain("limits"), plain("held_bytes"), plain("declared_bytes")],
);

/// `hermod permissions`.
pub(crate) const PERMISSIONS: Kind = simple(
    Listed::Permissions,
    ["permission", "permissions"],
    &[plain("user"), plain("vhost"), plain("configure"), plain("write"), plain("read")],
);

/// `hermod permissions list-topic`.
pub(crate) const TOPIC_PERMISSIONS: Kind = simple(
    Listed::TopicPermissions,
    ["topic permission", "topic permissions"],
    &[plain("user"), plain("vhost"), plain("exchange"), plain("write"), plain("read")],
);

/// `hermod vhosts`.
pub(crate) const VHOSTS: Kind = simple(
    Listed::Vhosts,
    ["vhost", "vhosts"],
    &[plain("name"), plain("description"), plain("tags"), plain("default_queue_type")],
);

/// `hermod vhosts limits`.
pub(crate) const VHOST_LIMITS: Kind =
    simple(Listed::VhostLimits, ["vhost with limits", "vhosts with limits"], &[plain("vhost"), plain("value")]);

/// `hermod trace`.
pub(crate) const TRACED: Kind = simple(Listed::Vhosts, ["vhost", "vhosts"], &[plain("name"), plain("tracing")]);

const OF_POLICIES: &[Column] =
    &[plain("vhost"), plain("name"), plain("pattern"), plain("apply-to"), plain("definition"), plain("priority")];

/// `hermod policies`.
pub(crate) const POLICIES: Kind = simple(Listed::Policies, ["policy", "policies"], OF_POLICIES);

/// `hermod policies list --operator`.
pub(crate) const OPERATOR_POLICIES: Kind =
    simple(Listed::OperatorPolicies, ["operator policy", "operator policies"], OF_POLICIES);

/// `hermod losses`.
pub(crate) const LOSSES: Kind = simple(
    Listed::Losses,
    ["dropped message", "dropped messages"],
    &[
        plain("at"),
        plain("vhost"),
        plain("reason"),
        plain("queue"),
        plain("exchange"),
        plain("routing_key"),
        plain("body_bytes"),
    ],
);

/// `hermod audit`.
pub(crate) const AUDIT: Kind = simple(
    Listed::Audit,
    ["audit entry", "audit entries"],
    &[
        plain("at"),
        plain("who"),
        plain("via"),
        plain("action"),
        plain("vhost"),
        plain("object"),
        plain("outcome"),
        plain("why"),
        plain("about"),
    ],
);
