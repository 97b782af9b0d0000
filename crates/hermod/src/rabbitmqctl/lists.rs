//! The lists of `rabbitmqctl`: the columns of each, and how it prints them.

use management::Listed;
use serde_json::Value as Json;

use super::call::Call;

/// One list.
pub(super) struct List {
    pub(super) verb: &'static str,
    pub(super) what: Listed,
    /// The text before the list, without the vhost.
    pub(super) banner: &'static str,
    /// Whether it lists the objects of one vhost.
    pub(super) in_vhost: bool,
    /// The columns if none are asked for.
    default: &'static [&'static str],
    /// Columns that RabbitMQ has and the server does not give; they are empty.
    unknown: &'static [&'static str],
    /// Columns that the server gives under another name.
    renamed: &'static [(&'static str, &'static str)],
}

const QUEUE_COLUMNS: &[&str] = &[
    "effective_policy_definition",
    "pid",
    "owner_pid",
    "exclusive_consumer_pid",
    "exclusive_consumer_tag",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "messages_ram",
    "messages_persistent",
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_ram",
    "message_bytes_persistent",
    "head_message_timestamp",
    "disk_reads",
    "disk_writes",
    "consumer_utilisation",
    "consumer_capacity",
    "leader",
    "members",
    "online",
];
const CONNECTION_COLUMNS: &[&str] = &[
    "ssl",
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
    "auth_mechanism",
    "timeout",
    "frame_max",
    "channel_max",
    "recv_cnt",
    "send_cnt",
    "send_pend",
    "user_provided_name",
    "recv_oct",
    "send_oct",
];

const POLICY_COLUMNS: &[&str] = &["vhost", "name", "pattern", "apply-to", "definition", "priority"];

pub(super) const LISTS: [List; 14] = [
    List {
        verb: "list_users",
        what: Listed::Users,
        banner: "Listing users",
        in_vhost: false,
        default: &["user", "tags"],
        unknown: &[],
        renamed: &[("user", "name")],
    },
    List {
        verb: "list_vhosts",
        what: Listed::Vhosts,
        banner: "Listing vhosts",
        in_vhost: false,
        default: &["name"],
        unknown: &["cluster_state", "protected_from_deletion"],
        renamed: &[],
    },
    List {
        verb: "list_permissions",
        what: Listed::Permissions,
        banner: "Listing permissions for vhost",
        in_vhost: true,
        default: &["user", "configure", "write", "read"],
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_topic_permissions",
        what: Listed::TopicPermissions,
        banner: "Listing topic permissions for vhost",
        in_vhost: true,
        default: &["user", "exchange", "write", "read"],
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_user_permissions",
        what: Listed::Permissions,
        banner: "Listing permissions for user",
        in_vhost: false,
        default: &["vhost", "configure", "write", "read"],
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_user_topic_permissions",
        what: Listed::TopicPermissions,
        banner: "Listing topic permissions for user",
        in_vhost: false,
        default: &["vhost", "exchange", "write", "read"],
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_queues",
        what: Listed::Queues,
        banner: "Listing queues for vhost",
        in_vhost: true,
        default: &["name", "messages"],
        unknown: QUEUE_COLUMNS,
        renamed: &[],
    },
    List {
        verb: "list_exchanges",
        what: Listed::Exchanges,
        banner: "Listing exchanges for vhost",
        in_vhost: true,
        default: &["name", "type"],
        unknown: &["policy"],
        renamed: &[],
    },
    List {
        verb: "list_bindings",
        what: Listed::Bindings,
        banner: "Listing bindings for vhost",
        in_vhost: true,
        default: &["source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments"],
        unknown: &[],
        renamed: &[
            ("source_name", "source"),
            ("source_kind", "source_kind"),
            ("destination_name", "destination"),
            ("destination_kind", "destination_type"),
        ],
    },
    List {
        verb: "list_connections",
        what: Listed::Connections,
        banner: "Listing connections",
        in_vhost: false,
        default: &["user", "peer_host", "peer_port", "state"],
        unknown: CONNECTION_COLUMNS,
        renamed: &[],
    },
    List {
        verb: "list_channels",
        what: Listed::Channels,
        banner: "Listing channels",
        in_vhost: false,
        default: &["pid", "user", "consumer_count", "messages_unacknowledged"],
        unknown: &["acks_uncommitted", "messages_uncommitted", "idle_since", "messages_unsent"],
        renamed: &[],
    },
    List {
        verb: "list_consumers",
        what: Listed::Consumers,
        banner: "Listing consumers in vhost",
        in_vhost: true,
        default: &[
            "queue_name",
            "channel_pid",
            "consumer_tag",
            "ack_required",
            "prefetch_count",
            "active",
            "arguments",
        ],
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_policies",
        what: Listed::Policies,
        banner: "Listing policies for vhost",
        in_vhost: true,
        default: POLICY_COLUMNS,
        unknown: &[],
        renamed: &[],
    },
    List {
        verb: "list_operator_policies",
        what: Listed::OperatorPolicies,
        banner: "Listing operator policy overrides for vhost",
        in_vhost: true,
        default: POLICY_COLUMNS,
        unknown: &[],
        renamed: &[],
    },
];

impl List {
    /// The line before the list.
    pub(super) fn banner(&self, call: &Call) -> String {
        match (self.in_vhost, self.of_user(call)) {
            (true, _) => format!("{} {} ...", self.banner, call.vhost()),
            (false, Some(user)) => format!("{} \"{user}\" ...", self.banner),
            (false, None) => format!("{} ...", self.banner),
        }
    }

    /// The user of a list about one user.
    pub(super) fn of_user<'a>(&self, call: &'a Call) -> Option<&'a str> {
        self.banner.ends_with("for user").then(|| call.words.first().map_or("", String::as_str))
    }

    /// The columns that were asked for. Each word has one column, or several that are separated by
    /// commas.
    ///
    /// # Errors
    /// RabbitMQ's text for an unknown column.
    pub(super) fn columns(&self, call: &Call, rows: &[Json]) -> Result<Vec<String>, String> {
        let asked = if self.of_user(call).is_some() { &[] } else { &call.words[..] };
        let asked: Vec<String> =
            asked.iter().flat_map(|word| word.split(',')).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if asked.is_empty() {
            return Ok(self.default.iter().map(|name| (*name).to_owned()).collect());
        }
        let there = |name: &&String| {
            let name = name.as_str();
            self.default.contains(&name)
                || self.unknown.contains(&name)
                || self.renamed.iter().any(|(renamed, _)| *renamed == name)
                || KNOWN.contains(&name)
                || rows.first().is_some_and(|row| row.get(name).is_some())
        };
        let strange: Vec<&str> = asked.iter().filter(|name| !there(name)).map(String::as_str).collect();
        if strange.is_empty() { Ok(asked) } else { Err(format!("Info key(s) {} are not supported", strange.join(","))) }
    }

    /// The value of a column.
    pub(super) fn cell(&self, row: &Json, column: &str) -> Json {
        let name = self.renamed.iter().find(|(renamed, _)| *renamed == column).map_or(column, |(_, name)| name);
        match (name, row.get(name)) {
            ("pid", Some(Json::Number(number))) if self.what == Listed::Connections => {
                let node = row.get("node").and_then(Json::as_str).unwrap_or_default();
                Json::String(format!("<{node}.1.{number}.0>"))
            }
            // A process id of RabbitMQ's form, never an empty cell. A script that counts words
            // would take the next cell for this one.
            ("channel_pid", None) => {
                let number = &row["channel_details"]["number"];
                Json::String(format!("<0.{}.{number}>", row["connection"]))
            }
            // RabbitMQ keeps a definition as the text that it was given as.
            ("definition", Some(definition)) => Json::String(definition.to_string()),
            ("source_kind", None) => Json::String("exchange".to_owned()),
            (_, value) => value.cloned().unwrap_or_default(),
        }
    }
}

/// Columns that are known even if there is no row to take them from.
const KNOWN: [&str; 52] = [
    "name",
    "vhost",
    "durable",
    "auto_delete",
    "arguments",
    "arguments_without_effect",
    "subscription",
    "exclusive",
    "messages_ready",
    "messages_unacknowledged",
    "messages",
    "consumers",
    "memory",
    "state",
    "type",
    "node",
    "internal",
    "pid",
    "port",
    "host",
    "peer_port",
    "peer_host",
    "channels",
    "protocol",
    "user",
    "client_properties",
    "connected_at",
    "routing_key",
    "description",
    "tags",
    "tracing",
    "default_queue_type",
    "metadata",
    "queue_name",
    "consumer_tag",
    "ack_required",
    "prefetch_count",
    "active",
    "exchange",
    "limits",
    "message_stats",
    "policy",
    "operator_policy",
    "channel_pid",
    "activity_status",
    "consumer_count",
    "confirm",
    "number",
    "global_prefetch_count",
    "messages_unconfirmed",
    "transactional",
    "connection",
];

/// The number of a connection whose `pid` was printed by `list_connections`.
pub(super) fn connection_number(pid: &str) -> Option<u64> {
    let parts: Vec<&str> = pid.trim_matches(['<', '>', '\'', '"']).split('.').collect();
    match parts.len() {
        0 => None,
        1 => parts[0].parse().ok(),
        count => parts[count - 2].parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_what_was_printed() {
        let list = LISTS.iter().find(|list| list.verb == "list_connections").unwrap();
        let row = serde_json::json!({"pid": 17, "node": "hermod@a.example"});
        let pid = crate::rabbitmqctl::terms::cell_text(&list.cell(&row, "pid"));
        assert_eq!(pid, "<hermod@a.example.1.17.0>");
        assert_eq!(connection_number(&pid), Some(17));
        assert_eq!(connection_number("18"), Some(18));
        assert_eq!(connection_number("x"), None);
    }

    #[test]
    fn columns_that_are_not_there_are_named() {
        let list = LISTS.iter().find(|list| list.verb == "list_queues").unwrap();
        let columns = |words: &[&str]| {
            let words: Vec<String> =
                std::iter::once("list_queues").chain(words.iter().copied()).map(str::to_owned).collect();
            list.columns(&Call::parse(&words).unwrap(), &[])
        };
        assert_eq!(columns(&[]).unwrap(), ["name", "messages"]);
        assert_eq!(columns(&["name,type", "policy"]).unwrap(), ["name", "type", "policy"]);
        assert_eq!(columns(&["name", "colour"]).unwrap_err(), "Info key(s) colour are not supported");
    }
}
