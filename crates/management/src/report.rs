//! What a running broker reports about itself, in the form that goes over the control socket and
//! into the `--json` output.

use broker::{Sharing, SubscriptionFact};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A summary of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Status {
    /// What the server is, and how it is reached.
    #[serde(flatten)]
    pub server: ServerStatus,
    /// Connections, and how many there may be.
    #[serde(flatten)]
    pub connections: ConnectionStatus,
    /// How many of what there are.
    #[serde(flatten)]
    pub objects: ObjectStatus,
    /// Messages in queues, and those that moved.
    #[serde(flatten)]
    pub messages: MessageStatus,
    /// Memory, and the files of the journal.
    #[serde(flatten)]
    pub storage: StorageStatus,
    /// What the node is to others.
    #[serde(flatten)]
    pub cluster: ClusterStatus,
}

/// What the server is, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Version of the server.
    pub version: String,
    /// The product that it announces.
    pub product: String,
    /// The version that it announces.
    pub compat_version: String,
    /// Name of the node.
    pub node: String,
    /// Name of the cluster that the node is.
    pub cluster: String,
    /// Number of its process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The data directory, as an absolute path.
    pub data_dir: String,
    /// The durability class: `fsync`, `os` or `memory`.
    pub durability: String,
    /// The listeners: protocol and address.
    pub listeners: Vec<ListenerRow>,
    /// Why publishers are stopped; empty when they are not.
    pub alarms: Vec<String>,
}

/// Connections, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Open sockets, authenticated or not.
    pub sockets: u64,
    /// Authenticated connections.
    pub connections: u64,
    /// Connections that a limit refused, since the start.
    pub refused_connections: u64,
    /// The most authenticated connections.
    pub max_connections: u64,
    /// How many of them are reserved for administrators.
    pub reserved_connections: u64,
    /// Percent of connections, queues, exchanges and bindings that a vhost without a limit of its
    /// own may have while there are other vhosts.
    pub vhost_share: u32,
    /// Percent of connections that a user without a limit of its own may have.
    pub user_share: u32,
}

/// How many of what there are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ObjectStatus {
    /// Their sessions (AMQP 0-9-1: channels).
    pub sessions: u64,
    /// Consumers in all.
    pub consumers: u64,
    /// Queues in all.
    pub queues: u64,
    /// Queues with messages that can't be read.
    pub damaged_queues: u64,
    /// Exchanges in all.
    pub exchanges: u64,
    /// Bindings in all.
    pub bindings: u64,
}

/// Messages in queues, and those that moved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MessageStatus {
    /// Messages that wait in queues.
    pub messages_ready: u64,
    /// Messages that are with consumers.
    pub messages_unacked: u64,
    /// Messages received since the start.
    pub published: u64,
    /// Messages confirmed since the start.
    pub confirmed: u64,
    /// Messages handed to consumers since the start.
    pub delivered: u64,
    /// Messages acknowledged since the start.
    pub acknowledged: u64,
    /// Messages that no binding matched, since the start; they were dropped or returned.
    pub unroutable: u64,
}

/// Memory, and the files of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StorageStatus {
    /// Bytes of queued messages in memory.
    pub memory_used_bytes: u64,
    /// The limit at which the memory alarm rises.
    pub memory_limit_bytes: u64,
    /// Bytes that raise no alarm: of connections, sessions, consumers and declarations, of answers
    /// that are under way over HTTP, and in buffers of peers that have not logged in.
    #[serde(default)]
    pub memory_kept_bytes: u64,
    /// Bytes of the process that nothing counts. Beyond the limit they count for
    /// the alarm, too.
    #[serde(default)]
    pub memory_uncounted_bytes: u64,
    /// Bytes of the journal's files.
    pub journal_used_bytes: u64,
    /// The most bytes that they may take.
    pub journal_max_bytes: u64,
    /// Files of messages outside the log.
    pub segments: u64,
    /// Bytes of these files.
    pub segment_bytes: u64,
    /// How many of them have damage that the scrub found.
    pub damaged_segments: u64,
    /// Bytes free on the journal's disk.
    pub disk_free_bytes: u64,
    /// Below so many the disk alarm rises, whatever the journal needs; 0 if no limit is set.
    #[serde(default)]
    pub disk_free_limit_bytes: u64,
    /// Above so many bytes of the store the disk alarm rises; 0 if no limit is set.
    #[serde(default)]
    pub disk_limit_bytes: u64,
}

/// The outcome of a repair of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairRow {
    /// Messages that were read.
    pub read: u64,
    /// Messages that can't be read.
    pub unreadable: u64,
    /// The first and the last number of the unreadable messages in the queue.
    pub numbers: (u64, u64),
    /// How many of the unreadable messages were given up.
    pub given_up: u64,
}

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRow {
    /// Its number in the queue.
    pub number: u64,
    /// The exchange that it was published to.
    pub exchange: String,
    /// The routing key that it was published with.
    pub routing_key: String,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    /// When the broker received it, in milliseconds since 1970.
    pub taken_at: u64,
    /// Its properties by the names of AMQP 0-9-1, without the headers; `hermod_headers` where an
    /// object can't show these.
    pub properties: Map<String, Value>,
    /// Its headers, including those of a dead letter.
    pub headers: Map<String, Value>,
    /// Length of its body in bytes.
    pub bytes: u64,
    /// The beginning of its body; bytes that are not text as `\\x00`.
    pub body: String,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionRow {
    /// The client that it belongs to, if it does.
    pub client: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether it may have several consumers at a time.
    pub shared: bool,
    /// The selector of what it keeps.
    pub selector: String,
    /// How many milliseconds it outlives its last consumer, if that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl From<&SubscriptionFact> for SubscriptionRow {
    fn from(fact: &SubscriptionFact) -> Self {
        Self {
            client: fact.name.client.clone(),
            name: fact.name.name.clone(),
            shared: fact.sharing == Sharing::Shared,
            selector: fact.selector.clone(),
            expires: fact.expires,
        }
    }
}

/// The outcome of a redrive of dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedriveRow {
    /// Messages that went back, or would go back.
    pub moved: u64,
    /// Messages that are not dead letters, and stay.
    pub alive: u64,
    /// Messages whose queue no longer exists and whose exchange reaches no queue; they stay.
    pub homeless: u64,
    /// Messages that the queue or the log has no room for; they stay.
    pub refused: u64,
    /// Whether the move ended early because the disk had no room.
    pub out_of_room: bool,
}

/// A copy of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRow {
    /// The directory that it is in.
    pub directory: String,
    /// Number of its files.
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// How long it took.
    pub milliseconds: u64,
    /// The last batch of the log in the copy. It includes everything that was confirmed before the
    /// request.
    pub sequence: u64,
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerRow {
    /// `amqp`, `stomp`, `http`; several are separated by a slash.
    pub protocol: String,
    /// Address and port.
    pub address: String,
    /// Its name in the settings: that of `[[listeners]]`, or the setting of its port.
    #[serde(default)]
    pub name: String,
    /// What it asks of connections, such as `TLS` and `PROXY protocol`, for people.
    #[serde(default)]
    pub terms: Vec<String>,
}

impl ListenerRow {
    /// What it asks of connections, in brackets after a blank; empty if nothing.
    #[must_use]
    pub fn terms(&self) -> String {
        if self.terms.is_empty() { String::new() } else { format!(" ({})", self.terms.join(", ")) }
    }
}

/// What a node that serves is to the others of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// `leader`, which serves clients; the other is `standby`.
    pub role: String,
    /// How often a node of the cluster was promoted, as far as this one knows.
    pub term: u64,
    /// Where other nodes reach it; empty if it listens for none.
    pub nodes_address: String,
    /// What confirms rest on: `local`, this node alone, as the settings say; `replicated`, a node
    /// that follows, too; `waiting`, the same, but some have waited for long; `alone`, this node
    /// alone, because no other has got on.
    pub confirms: String,
    /// How long the oldest confirm has waited for a node that follows, in milliseconds.
    pub confirms_waited_ms: u64,
    /// The nodes that follow it, and those that are away and for which the log is kept.
    pub followers: Vec<FollowerRow>,
}

impl Default for ClusterStatus {
    fn default() -> Self {
        Self {
            role: "leader".to_owned(),
            term: 0,
            nodes_address: String::new(),
            confirms: "local".to_owned(),
            confirms_waited_ms: 0,
            followers: Vec::new(),
        }
    }
}

impl ClusterStatus {
    /// What an operator has to know of confirms that should wait for a node that follows; none
    /// while all is well.
    #[must_use]
    pub fn alarm(&self) -> Option<&'static str> {
        match self.confirms.as_str() {
            "alone" => Some("Confirms rest on this node alone: no node that follows has got on."),
            "waiting" => Some("Confirms wait for a node that follows, and none gets on."),
            _ => None,
        }
    }
}

/// How a node follows another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StandbyRow {
    /// Its name.
    pub node: String,
    /// Where the node is that it follows.
    pub leader: String,
    /// What it does now: `connecting`, `copying`, `following`, `stopped` or `promoting`.
    pub state: String,
    /// Why it does not follow, if it does not.
    pub trouble: String,
    /// How often a node of the cluster was promoted.
    pub term: u64,
    /// Whether it has a whole copy, and could be promoted.
    pub whole: bool,
    /// Bytes of the copy that came, and its size, while it is copied.
    pub copied_bytes: u64,
    /// Its size.
    pub copy_bytes: u64,
    /// Copies begun since the start.
    pub copies: u64,
    /// Entries taken since the start.
    pub entries: u64,
    /// Segments that the scrub found damaged.
    pub damaged_segments: u64,
    /// Entries that the leader had flushed and not sent when it was heard last, at most.
    pub lag_entries: u64,
    /// The bytes of these, at most.
    pub lag_bytes: u64,
    /// All that the leader had flushed so long ago is here, in milliseconds. None before that was
    /// ever so.
    pub lag_ms: Option<u64>,
    /// When the leader was heard last, in milliseconds before now.
    pub heard_ms: Option<u64>,
}

/// A node that follows this one, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FollowerRow {
    /// Its name.
    pub name: String,
    /// Its number in the cluster.
    pub node: String,
    /// Where it connects from.
    pub address: String,
    /// `copying`, `following`, or `away` while the log is kept for it without a connection.
    pub state: String,
    /// Entries that are flushed here and not there, at most.
    pub lag_entries: u64,
    /// Bytes that are flushed here and were not sent, at most.
    pub lag_bytes: u64,
    /// Bytes of the log that are kept for it.
    pub kept_bytes: u64,
    /// All that was flushed here so long ago is flushed there, in milliseconds.
    pub lag_ms: u64,
}

/// How an operator wants a node promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promotion {
    /// At once, with what is here.
    Now,
    /// When the leader has stopped serving, and everything is here.
    Planned,
}
