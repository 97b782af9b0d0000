//! Definitions in RabbitMQ's JSON, as Hermod imports them. All are of the vhost `/`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The one vhost: the other brokers have none.
const VHOST: &str = "/";
/// The exchange of topics: STOMP's, MQTT's and those of AMQP 1.0 are its keys.
const TOPICS: &str = "amq.topic";

/// A user, or a role: a user whose rights others have, too.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// `None`: no one can log in by a password.
    pub(crate) password: Option<String>,
    pub(crate) tags: BTreeSet<&'static str>,
    pub(crate) roles: BTreeSet<String>,
}

/// Patterns of one user's rights.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) configure: String,
    pub(crate) write: String,
    pub(crate) read: String,
}

/// Everything that is declared.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) permissions: BTreeMap<String, Rights>,
    /// Of keys of `amq.topic`, by user: write and read.
    pub(crate) topics: BTreeMap<String, (String, String)>,
    pub(crate) queues: BTreeMap<String, Map<String, Value>>,
    /// From a topic, which is a key of `amq.topic`, to a queue.
    pub(crate) bindings: BTreeSet<(String, String)>,
    pub(crate) policies: Vec<Policy>,
    /// Whether queues are of type quorum if they do not say.
    pub(crate) quorum: Option<&'static str>,
}

/// A policy for queues.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) pattern: String,
    pub(crate) priority: usize,
    pub(crate) definition: Map<String, Value>,
}

impl Definitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.queues.is_empty() && self.policies.is_empty()
    }

    /// Declares a durable queue, unless it is declared.
    pub(crate) fn queue(&mut self, name: &str) {
        self.queues.entry(name.to_owned()).or_default();
    }

    /// A queue gets the messages of a topic.
    pub(crate) fn bind(&mut self, topic: &str, queue: &str) {
        self.bindings.insert((topic.to_owned(), queue.to_owned()));
    }

    pub(crate) fn to_json(&self) -> String {
        let mut document = Map::new();
        let mut vhost = json!({ "name": VHOST });
        if let Some(kind) = self.quorum {
            vhost["default_queue_type"] = kind.into();
        }
        document.insert("vhosts".to_owned(), json!([vhost]));
        document.insert("users".to_owned(), self.users.iter().map(|(name, user)| user_row(name, user)).collect());
        let permission = |(user, rights): (&String, &Rights)| json!({ "user": user, "vhost": VHOST, "configure": rights.configure, "write": rights.write, "read": rights.read });
        document.insert("permissions".to_owned(), self.permissions.iter().map(permission).collect());
        let topic = |(user, (write, read)): (&String, &(String, String))| json!({ "user": user, "vhost": VHOST, "exchange": TOPICS, "write": write, "read": read });
        document.insert("topic_permissions".to_owned(), self.topics.iter().map(topic).collect());
        let queue = |(name, arguments): (&String, &Map<String, Value>)| json!({ "name": name, "vhost": VHOST, "durable": true, "auto_delete": false, "arguments": arguments });
        document.insert("queues".to_owned(), self.queues.iter().map(queue).collect());
        let binding = |(key, queue): &(String, String)| {
            json!({
                "source": TOPICS, "vhost": VHOST, "destination": queue, "destination_type": "queue",
                "routing_key": key, "arguments": {},
            })
        };
        document.insert("bindings".to_owned(), self.bindings.iter().map(binding).collect());
        let policy = |policy: &Policy| {
            json!({
                "name": policy.name, "vhost": VHOST, "pattern": policy.pattern, "apply-to": "queues",
                "priority": policy.priority, "definition": policy.definition,
            })
        };
        document.insert("policies".to_owned(), self.policies.iter().map(policy).collect());
        let mut text = serde_json::to_string_pretty(&Value::Object(document)).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn user_row(name: &str, user: &User) -> Value {
    let mut row = json!({ "name": name, "tags": user.tags });
    if let Some(password) = &user.password {
        row["password"] = password.as_str().into();
    }
    if !user.roles.is_empty() {
        row["hermod-roles"] = json!(user.roles);
    }
    row
}
