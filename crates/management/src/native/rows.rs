//! The resources: what a queue, an exchange and so on are in this API.

use std::sync::Arc;

use auth::{PasswordHash, User};
use broker::{
    AttachedClient, BindingReport, Broker, ConsumerReport, ConsumerSource, ExchangeReport, FilterReport, Overview,
    PolicyKind, PolicyReport, QueueCounts, QueueReport, RetainedReport, Sharing, Standing, VhostReport, WillReport,
};
use serde_json::{Value as Json, json};

use super::field::{Field, Kind, declared, figure, time, whole};
use super::resource::{BETWEEN, Brief, Reading, Resource, by_name, few};
use crate::json::object;
use crate::listing::Rights;
use crate::recent::{AuditEntry, Ending, LogLine};
use crate::resources::{each_binding, each_consumer, will_kept};

/// A key of several names.
fn key(names: &[&str]) -> String {
    names.join(&BETWEEN.to_string())
}

fn maybe_time(milliseconds: Option<u64>) -> Json {
    milliseconds.map_or(Json::Null, time)
}

/// These queues with the figures that lists are filtered and sorted by most, and no others.
fn brief_queues(broker: &Broker, vhost: &str, names: &[Arc<str>]) -> Vec<QueueReport> {
    let counts = broker.some_counts(vhost, names).into_iter();
    let report = |(counts, name): (Option<QueueCounts>, &Arc<str>)| {
        let QueueCounts { ready, unacked, consumers, published, delivered, acknowledged } = counts?;
        let mut queue = QueueReport {
            vhost: vhost.to_owned(),
            name: name.to_string(),
            ready,
            unacked,
            consumers,
            ..QueueReport::default()
        };
        let totals = &mut queue.figures.totals;
        (totals.published, totals.delivered, totals.acknowledged) = (published, delivered, acknowledged);
        Some(queue)
    };
    counts.zip(names).filter_map(report).collect()
}

pub(super) static QUEUES: Resource<QueueReport> = Resource {
    name: "queues",
    rights: Rights::Vhost,
    of: |queue| &queue.vhost,
    key: |queue| key(&[&queue.vhost, &queue.name]),
    reading: Reading::Named {
        names: |broker, vhost| broker.queue_names(vhost).to_vec(),
        some: Broker::some_queues,
        brief: Some(Brief {
            fields: &["vhost", "name", "ready", "unsettled", "consumers", "published", "delivered", "acknowledged"],
            some: brief_queues,
        }),
    },
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |queue| json!(queue.vhost)),
        declared("name", Kind::Text, "Its name", |queue| json!(queue.name)),
        declared("type", Kind::Text, "classic or quorum", |queue| json!(queue.declared.kind)),
        declared("durable", Kind::Truth, "It survives a restart", |queue| json!(queue.declared.durable)),
        declared("exclusive", Kind::Truth, "It belongs to one connection", |queue| json!(queue.declared.exclusive)),
        declared("auto_delete", Kind::Truth, "It goes with its last consumer", |queue| {
            json!(queue.declared.auto_delete)
        }),
        declared("arguments", Kind::Object, "As it was declared", |queue| {
            Json::Object(object(&queue.declared.arguments))
        }),
        declared("arguments_without_effect", Kind::Words, "Those that change nothing", |queue| {
            json!(queue.declared.idle_arguments)
        }),
        declared("policy", Kind::Text, "The policy that applies", |queue: &QueueReport| json!(queue.policies.user))
            .or_null(),
        declared("operator_policy", Kind::Text, "The operator policy that applies", |queue: &QueueReport| {
            json!(queue.policies.operator)
        })
        .or_null(),
        declared("effective_policy", Kind::Object, "What both policies say together", |queue| {
            Json::Object(object(&queue.policies.definition))
        }),
        figure("standing", Kind::Text, "stuck, waits, moves, delivered or empty", |queue| {
            json!(match queue.standing() {
                Standing::Stuck => "stuck",
                Standing::Waits => "waits",
                Standing::Moves => "moves",
                Standing::Delivered => "delivered",
                Standing::Empty => "empty",
            })
        }),
        figure("causes", Kind::Words, "Why it does not move, the gravest first", |queue| {
            queue.figures.causes.iter().map(|cause| json!(cause.name())).collect()
        }),
        figure("ready", Kind::Number, "Messages that wait for a consumer", |queue| json!(queue.ready)),
        figure("unsettled", Kind::Number, "Messages with consumers", |queue| json!(queue.unacked)),
        figure("delayed", Kind::Number, "Messages that are not due yet", |queue| json!(queue.delayed)),
        figure("persistent", Kind::Number, "Messages that survive a restart", |queue| json!(queue.figures.persistent)),
        figure("consumers", Kind::Number, "Its consumers", |queue| json!(queue.consumers)),
        figure("memory_bytes", Kind::Number, "What it takes in memory", |queue| json!(queue.bytes)),
        figure(
            "oldest_ready",
            Kind::Time,
            "When the next message was published, if memory has it",
            |queue: &QueueReport| maybe_time(queue.figures.oldest_ready),
        )
        .or_null(),
        figure(
            "oldest_unsettled",
            Kind::Time,
            "When the oldest message with a consumer was published",
            |queue: &QueueReport| maybe_time(queue.figures.oldest_unsettled),
        )
        .or_null(),
        figure(
            "idle_since",
            Kind::Time,
            "When anything last happened, if that is a second ago",
            |queue: &QueueReport| maybe_time(queue.figures.idle_since),
        )
        .or_null(),
        figure("published", Kind::Number, "Messages that came, since the start", |queue| {
            json!(queue.figures.totals.published)
        }),
        figure("delivered", Kind::Number, "Messages delivered or fetched", |queue| {
            json!(queue.figures.totals.delivered)
        }),
        figure("acknowledged", Kind::Number, "Deliveries accepted", |queue| json!(queue.figures.totals.acknowledged)),
        figure("redelivered", Kind::Number, "Deliveries marked as redelivered", |queue| {
            json!(queue.figures.totals.redelivered)
        }),
        figure("damaged", Kind::Text, "Why its first message can't be read", |queue: &QueueReport| {
            json!(queue.damaged)
        })
        .or_null(),
    ],
};

pub(super) static EXCHANGES: Resource<ExchangeReport> = Resource {
    name: "exchanges",
    rights: Rights::Vhost,
    of: |exchange| &exchange.vhost,
    key: |exchange| key(&[&exchange.vhost, &exchange.name]),
    reading: by_name(Broker::exchange_names, Broker::some_exchanges),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |exchange| json!(exchange.vhost)),
        declared("name", Kind::Text, "Its name; empty for the default exchange", |exchange| json!(exchange.name)),
        declared("type", Kind::Text, "How it routes", |exchange| json!(exchange.kind)),
        declared("durable", Kind::Truth, "It survives a restart", |exchange| json!(exchange.durable)),
        declared("auto_delete", Kind::Truth, "It goes with its last binding", |exchange| json!(exchange.auto_delete)),
        declared("internal", Kind::Truth, "Clients can't publish to it", |exchange| json!(exchange.internal)),
        declared("arguments", Kind::Object, "As it was declared", |exchange| Json::Object(object(&exchange.arguments))),
        declared("arguments_without_effect", Kind::Words, "Those that change nothing", |exchange| {
            json!(exchange.idle_arguments)
        }),
    ],
};

pub(super) static BINDINGS: Resource<BindingReport> = Resource {
    name: "bindings",
    rights: Rights::Vhost,
    of: |binding| &binding.vhost,
    key: |binding| {
        let arguments = Json::Object(object(&binding.arguments)).to_string();
        key(&[
            &binding.vhost,
            &binding.source,
            &binding.destination,
            destination_type(binding),
            &binding.key,
            &arguments,
        ])
    },
    reading: Reading::Parts(each_binding),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |binding| json!(binding.vhost)),
        declared("source", Kind::Text, "The exchange that it leads from", |binding| json!(binding.source)),
        declared("destination", Kind::Text, "What it leads to", |binding| json!(binding.destination)),
        declared("destination_type", Kind::Text, "queue or exchange", |binding| json!(destination_type(binding))),
        declared("routing_key", Kind::Text, "Its key", |binding| json!(binding.key)),
        declared("arguments", Kind::Object, "Its arguments", |binding| Json::Object(object(&binding.arguments))),
    ],
};

fn destination_type(binding: &BindingReport) -> &'static str {
    if binding.to_queue { "queue" } else { "exchange" }
}

pub(super) static CONNECTIONS: Resource<AttachedClient> = Resource {
    name: "connections",
    rights: Rights::Owner,
    of: AttachedClient::user,
    key: |client| in_order(client.number()),
    reading: Reading::Whole {
        all: |source| source.broker.attached(),
        one: Some(|source, names| source.broker.attached_at(names.first()?.parse().ok()?)),
    },
    fields: &[
        declared("number", Kind::Number, "Its number, in paths", |client| json!(client.number())),
        declared("peer", Kind::Text, "Both its ends", |client| json!(client.peer())),
        declared("name", Kind::Text, "Its client's name for it", |client: &AttachedClient| json!(client.name()))
            .or_null(),
        declared("user", Kind::Text, "Its user", |client| json!(client.user())),
        declared("vhost", Kind::Text, "Its vhost", |client| json!(client.vhost())),
        declared("protocol", Kind::Text, "Its protocol", |client| json!(client.protocol())),
        declared("mechanism", Kind::Text, "How it logged in", |client| json!(client.terms().mechanism)),
        declared("connected", Kind::Time, "When it logged in", |client| time(client.connected_at())),
        declared("client_properties", Kind::Object, "What the client says about itself", |client| {
            Json::Object(object(&client.properties()))
        }),
        figure("state", Kind::Text, "running, or blocked by an alarm", |client| json!(client.state())),
        figure("sessions", Kind::Number, "Its sessions", |client| json!(client.sessions())),
        figure("consumers", Kind::Number, "Its consumers", |client| json!(client.consumers())),
        figure("waiting_bytes", Kind::Number, "Deliveries that wait for it to be read", |client| {
            json!(client.waiting_bytes())
        }),
        figure("dropped", Kind::Number, "Messages dropped that subscribers without a queue left unread", |client| {
            json!(client.dropped())
        }),
        figure("held_bytes", Kind::Number, "What it makes the broker hold besides queued messages", |client| {
            json!(client.held_bytes())
        }),
    ],
};

pub(super) static CONSUMERS: Resource<ConsumerReport> = Resource {
    name: "consumers",
    rights: Rights::Vhost,
    of: |consumer| &consumer.vhost,
    key: |consumer| {
        let (client, session) = (in_order(consumer.client), in_order(consumer.session.into()));
        key(&[&consumer.vhost, consumer.queue().unwrap_or_default(), &client, &session, &consumer.tag])
    },
    reading: Reading::Parts(each_consumer),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |consumer| json!(consumer.vhost)),
        declared("source", Kind::Text, "What it gets messages from: queue, filters or replies", |consumer| {
            json!(match consumer.source {
                ConsumerSource::Queue(_) => "queue",
                ConsumerSource::Filters(_) => "filters",
                ConsumerSource::Replies => "replies",
            })
        }),
        declared("queue", Kind::Text, "Its queue; null for a consumer without one", |consumer: &ConsumerReport| {
            json!(consumer.queue())
        })
        .or_null(),
        declared("filters", Kind::Rows("filters"), "What it subscribes to without a queue", |consumer| {
            consumer.filters().iter().map(|filter| whole(FILTERS, filter)).collect()
        }),
        declared("tag", Kind::Text, "Its client's name for it", |consumer| json!(consumer.tag)),
        declared("connection", Kind::Number, "The number of its connection", |consumer| json!(consumer.client)),
        declared(
            "connection_name",
            Kind::Text,
            "Its client's name for its connection; over MQTT the client identifier",
            |consumer: &ConsumerReport| json!(consumer.holder.name),
        )
        .or_null(),
        declared("user", Kind::Text, "The user of its connection", |consumer| json!(consumer.holder.user)),
        declared("session", Kind::Number, "Its session", |consumer| json!(consumer.session)),
        declared("settles", Kind::Truth, "It settles its deliveries", |consumer| json!(!consumer.no_ack)),
        declared("exclusive", Kind::Truth, "It is the only one that may be", |consumer| json!(consumer.exclusive)),
        declared("prefetch", Kind::Number, "The most deliveries that it asked for; 0 for any", |consumer| {
            json!(consumer.prefetch)
        }),
        declared("arguments", Kind::Object, "Those that change something", |consumer| {
            Json::Object(object(&consumer.arguments))
        }),
        figure("active", Kind::Truth, "It gets messages", |consumer| json!(consumer.active)),
        figure("unsettled", Kind::Number, "Deliveries that it has not settled", |consumer| json!(consumer.unsettled)),
    ],
};

/// A filter of a consumer.
pub(super) static FILTERS: &[Field<FilterReport>] = &[
    declared("exchange", Kind::Text, "The exchange that messages come from", |filter| json!(filter.exchange)),
    declared("routing_key", Kind::Text, "The binding key", |filter| json!(filter.key)),
];

pub(super) static VHOSTS: Resource<VhostReport> = Resource {
    name: "vhosts",
    rights: Rights::VhostItself,
    of: |vhost| &vhost.name,
    key: |vhost| vhost.name.clone(),
    reading: few(|source| source.broker.vhosts()),
    fields: &[
        declared("name", Kind::Text, "Its name", |vhost| json!(vhost.name)),
        declared("description", Kind::Text, "Its purpose", |vhost| json!(vhost.spec.description)),
        declared("tags", Kind::Words, "Words to find it by", |vhost| json!(vhost.spec.tags)),
        declared("default_queue_type", Kind::Text, "The type of queues that are declared without one", |vhost| {
            json!(vhost.spec.default_queue_type.as_deref().unwrap_or("classic"))
        }),
        declared("max_connections", Kind::Number, "Its limit of connections", |vhost: &VhostReport| {
            json!(vhost.limits.connections)
        })
        .or_null(),
        declared("max_queues", Kind::Number, "Its limit of queues", |vhost: &VhostReport| json!(vhost.limits.queues))
            .or_null(),
        declared("tracing", Kind::Truth, "Copies of its messages go to amq.rabbitmq.trace", |vhost| {
            json!(vhost.traced)
        }),
    ],
};

pub(super) static RETAINED: Resource<RetainedReport> = Resource {
    name: "retained",
    rights: Rights::Vhost,
    of: |retained| &retained.vhost,
    key: |retained| key(&[&retained.vhost, &retained.exchange, &retained.topic]),
    reading: by_name(Broker::retained_names, Broker::some_retained),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |retained| json!(retained.vhost)),
        declared("exchange", Kind::Text, "The exchange that it was published to", |retained| json!(retained.exchange)),
        declared("topic", Kind::Text, "Its routing key", |retained| json!(retained.topic)),
        declared("body_bytes", Kind::Number, "The size of its body", |retained| json!(retained.body_bytes)),
        declared("persistent", Kind::Truth, "It survives a restart", |retained| json!(retained.persistent)),
        declared("published", Kind::Time, "When it was published", |retained| time(retained.published_at)),
        declared("expires", Kind::Time, "When it expires", |retained: &RetainedReport| maybe_time(retained.expires_at))
            .or_null(),
    ],
};

pub(super) static WILLS: Resource<WillReport> = Resource {
    name: "wills",
    rights: Rights::Vhost,
    of: |will| &will.vhost,
    key: |will| key(&[&will.vhost, &will.user, &will.client]),
    reading: by_name(Broker::will_names, Broker::some_wills),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |will| json!(will.vhost)),
        declared("user", Kind::Text, "The user that left it", |will| json!(will.user)),
        declared("client", Kind::Text, "What its client is called", |will| json!(will.client)),
        declared("exchange", Kind::Text, "The exchange that it is published to", |will| json!(will.exchange)),
        declared("topic", Kind::Text, "Its routing key", |will| json!(will.topic)),
        declared("body_bytes", Kind::Number, "The size of its body", |will| json!(will.body_bytes)),
        declared("due", Kind::Time, "When it is published; null while its client is connected", |will: &WillReport| {
            maybe_time(will.due)
        })
        .or_null(),
        declared("kept", Kind::Text, "disk, or memory until the log has room", |will| json!(will_kept(will.kept))),
        figure("held_up", Kind::Number, "Wills of this client that were due and wait for an alarm's end", |will| {
            json!(will.held_up)
        }),
    ],
};

pub(super) static SUBSCRIPTIONS: Resource<QueueReport> = Resource {
    name: "subscriptions",
    rights: Rights::Vhost,
    of: |queue| &queue.vhost,
    key: |queue| key(&[&queue.vhost, &queue.name]),
    reading: by_name(Broker::subscribed_names, Broker::some_subscribed),
    fields: &[
        declared("vhost", Kind::Text, "Its vhost", |queue| json!(queue.vhost)),
        declared("client", Kind::Text, "The client that it belongs to", |queue: &QueueReport| {
            json!(queue.declared.subscription.as_ref().and_then(|of| of.name.client.clone()))
        })
        .or_null(),
        declared("name", Kind::Text, "Its name", |queue| {
            json!(queue.declared.subscription.as_ref().map(|of| of.name.name.clone()))
        }),
        declared("shared", Kind::Truth, "It may have several consumers at a time", |queue| {
            json!(queue.declared.subscription.as_ref().is_some_and(|of| of.sharing == Sharing::Shared))
        }),
        declared("selector", Kind::Text, "It keeps what this is true of; all, if it is empty", |queue| {
            json!(queue.declared.subscription.as_ref().map(|of| of.selector.clone()))
        }),
        declared("queue", Kind::Text, "Its queue, in paths", |queue| json!(queue.name)),
        declared("durable", Kind::Truth, "It survives a restart", |queue| json!(queue.declared.durable)),
        figure("ready", Kind::Number, "Messages that wait for a consumer", |queue| json!(queue.ready)),
        figure("unsettled", Kind::Number, "Messages with consumers", |queue| json!(queue.unacked)),
        figure("consumers", Kind::Number, "Its consumers", |queue| json!(queue.consumers)),
    ],
};

pub(super) static USERS: Resource<User> = Resource {
    name: "users",
    rights: Rights::Administrators,
    of: |user| &user.name,
    key: |user| user.name.to_string(),
    reading: few(|source| source.broker.authority().users()),
    fields: &[
        declared("name", Kind::Text, "Its name", |user| json!(&*user.name)),
        declared("tags", Kind::Words, "What it may see and do", |user| json!(user.tags.iter().collect::<Vec<_>>())),
        declared("roles", Kind::Words, "Users whose permissions it has, too", |user: &User| {
            json!(user.roles.iter().map(|role| &**role).collect::<Vec<_>>())
        }),
        declared("hashing", Kind::Text, "How its password is hashed; null for a user without one", |user: &User| {
            json!(user.password.as_ref().map(|password| PasswordHash::parts(password).0))
        })
        .or_null(),
        declared("max_connections", Kind::Number, "Its limit of connections", |user: &User| {
            json!(user.limits.connections)
        })
        .or_null(),
        declared("max_sessions", Kind::Number, "Its limit of sessions", |user: &User| json!(user.limits.sessions))
            .or_null(),
    ],
};

pub(super) static POLICIES: Resource<PolicyReport> = Resource {
    name: "policies",
    rights: Rights::Vhost,
    of: |policy| &policy.vhost,
    key: |policy| key(&[&policy.vhost, &policy.name]),
    reading: few(|source| source.broker.policies(PolicyKind::User)),
    fields: POLICY,
};

pub(super) static OPERATOR_POLICIES: Resource<PolicyReport> = Resource {
    name: "operator-policies",
    rights: Rights::Vhost,
    of: |policy| &policy.vhost,
    key: |policy| key(&[&policy.vhost, &policy.name]),
    reading: few(|source| source.broker.policies(PolicyKind::Operator)),
    fields: POLICY,
};

const POLICY: &[Field<PolicyReport>] = &[
    declared("vhost", Kind::Text, "Its vhost", |policy| json!(policy.vhost)),
    declared("name", Kind::Text, "Its name", |policy| json!(policy.name)),
    declared("pattern", Kind::Text, "What names must match", |policy| json!(policy.spec.pattern)),
    declared("apply_to", Kind::Text, "The kinds of things that it applies to", |policy| {
        json!(policy.spec.apply_to.name())
    }),
    declared("priority", Kind::Number, "The highest applies", |policy| json!(policy.spec.priority)),
    declared("definition", Kind::Object, "What it sets", |policy| Json::Object(object(&policy.spec.definition))),
];

pub(super) static LOG: Resource<Arc<LogLine>> = Resource {
    name: "log",
    rights: Rights::Administrators,
    of: |_| "",
    key: |line| in_order(line.number),
    reading: few(|source| source.facts.recent.lines()),
    fields: &[
        declared("number", Kind::Number, "Counts all lines since the start", |line| json!(line.number)),
        declared("at", Kind::Time, "When it was written", |line| time(line.at)),
        declared("level", Kind::Text, "error, warn, info, debug or trace", |line| json!(line.level)),
        declared("part", Kind::Text, "The part of the program that wrote it", |line| json!(line.part)),
        declared("text", Kind::Text, "What it says", |line| json!(line.text)),
        declared("fields", Kind::Text, "Its fields, as name=value", |line| json!(line.said())),
    ],
};

pub(super) static AUDIT: Resource<AuditEntry> = Resource {
    name: "audit",
    rights: Rights::Administrators,
    of: |_| "",
    key: |entry| in_order(entry.number),
    reading: few(|source| source.facts.recent.audit()),
    fields: &[
        declared("number", Kind::Number, "Counts all lines of the log since the start", |entry| json!(entry.number)),
        declared("at", Kind::Time, "When it happened", |entry| time(entry.at)),
        declared("who", Kind::Text, "The user that asked", |entry| json!(entry.who)),
        declared("via", Kind::Text, "http, command line or client", |entry| json!(entry.via)),
        declared("from", Kind::Text, "Where the request came from", |entry| json!(entry.from)),
        declared("action", Kind::Text, "What was asked for", |entry| json!(entry.action)),
        declared("vhost", Kind::Text, "The vhost of the object, if it has one", |entry| json!(entry.vhost)),
        declared("object", Kind::Text, "The name of the object", |entry| json!(entry.object)),
        declared("outcome", Kind::Text, "done or refused", |entry| json!(entry.outcome)),
        declared("why", Kind::Text, "Why it was refused", |entry| json!(entry.why)),
        declared("about", Kind::Text, "The new values, cut to a bounded length", |entry| json!(entry.about)),
    ],
};

pub(super) static ENDINGS: Resource<Ending> = Resource {
    name: "endings",
    rights: Rights::Owner,
    of: |ending| &ending.user,
    key: |ending| in_order(ending.number),
    reading: few(|source| source.facts.recent.endings()),
    fields: &[
        declared("number", Kind::Number, "Counts all lines of the log since the start", |ending| json!(ending.number)),
        declared("at", Kind::Time, "When it ended", |ending| time(ending.at)),
        declared("user", Kind::Text, "Its user", |ending| json!(ending.user)),
        declared("vhost", Kind::Text, "Its vhost", |ending| json!(ending.vhost)),
        declared("peer", Kind::Text, "The client's address", |ending| json!(ending.peer)),
        declared("protocol", Kind::Text, "Its protocol", |ending| json!(ending.protocol)),
        declared("by", Kind::Text, "Who ended it: protocol, client, broker or network", |ending| json!(ending.by)),
        declared("reason", Kind::Text, "Why", |ending| json!(ending.reason)),
        declared("told", Kind::Text, "What the client was told, if it was told an error", |ending| json!(ending.told)),
        declared("last", Kind::Text, "The last thing that the client asked for", |ending| json!(ending.last)),
        declared("received", Kind::Number, "Bytes received", |ending| json!(ending.received)),
        declared("sent", Kind::Number, "Bytes sent", |ending| json!(ending.sent)),
        declared("seconds", Kind::Number, "How long it was open", |ending| json!(ending.seconds)),
    ],
};

/// A number as a text that sorts as numbers do.
fn in_order(number: u64) -> String {
    format!("{number:020}")
}

pub(super) static OVERVIEW: &[Field<Overview>] = &[
    figure("connections", Kind::Number, "Connections", |all| json!(all.objects.connections)),
    figure("sessions", Kind::Number, "Their sessions", |all| json!(all.objects.sessions)),
    figure("publishers", Kind::Number, "Sessions that have published", |all| json!(all.objects.publishers)),
    figure("consumers", Kind::Number, "Consumers", |all| json!(all.objects.consumers)),
    figure("queues", Kind::Number, "Queues", |all| json!(all.objects.queues)),
    figure("unattended_queues", Kind::Number, "Queues with messages that wait and no consumer", |all| {
        json!(all.objects.unattended_queues)
    }),
    figure("damaged_queues", Kind::Number, "Queues with messages that can't be read", |all| {
        json!(all.objects.damaged_queues)
    }),
    figure("exchanges", Kind::Number, "Exchanges", |all| json!(all.objects.exchanges)),
    figure("bindings", Kind::Number, "Bindings", |all| json!(all.objects.bindings)),
    figure("ready", Kind::Number, "Messages that wait for a consumer", |all| json!(all.messages.ready)),
    figure("unsettled", Kind::Number, "Messages with consumers", |all| json!(all.messages.unacked)),
    figure("delayed", Kind::Number, "Messages that are not due yet", |all| json!(all.messages.delayed)),
    figure("memory_used_bytes", Kind::Number, "Memory of messages", |all| json!(all.memory.used)),
    figure("memory_limit_bytes", Kind::Number, "Where the memory alarm rises", |all| json!(all.memory.limit)),
    figure("disk_free_bytes", Kind::Number, "Free on the disk of the log", |all| json!(all.journal.free_bytes)),
    figure("disk_free_limit_bytes", Kind::Number, "Below it the disk alarm rises, if it is set", |all| {
        json!(all.disk.least_free)
    }),
    figure("disk_limit_bytes", Kind::Number, "What the store may take, if it is set", |all| {
        json!(all.disk.most_stored)
    }),
    figure("disk_room_bytes", Kind::Number, "What can be taken before publishers are stopped", |all| {
        json!(all.journal.room_bytes)
    }),
    figure("memory_alarm", Kind::Truth, "Publishers are stopped by memory", |all| json!(all.alarms.memory)),
    figure("disk_alarm", Kind::Truth, "Publishers are stopped by the disk or the log", |all| json!(all.alarms.disk)),
];
