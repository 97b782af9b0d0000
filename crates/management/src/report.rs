//! What a running broker reports about itself, in the form that goes over the control socket and
//! into the `--json` output.

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
}

/// A selector that consumers of a queue have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorRow {
    /// As the consumers wrote it.
    pub selector: String,
    /// Consumers that have it.
    pub consumers: u64,
    /// Messages that it was tested on.
    pub looked_at: u64,
    /// How many of them matched.
    pub selected: u64,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its virtual host.
    pub vhost: String,
    /// Its name there.
    pub name: String,
    /// How it is declared, and what policies say of it.
    #[serde(flatten)]
    pub declared: QueueDeclaration,
    /// The messages in it.
    #[serde(flatten)]
    pub held: QueueContents,
    /// The messages that moved through it since the start.
    #[serde(flatten)]
    pub moved: QueueTraffic,
    /// Consumers.
    pub consumers: u64,
    /// The selectors of its consumers.
    pub selectors: Vec<SelectorRow>,
    /// Why it does not deliver: its first message can't be read.
    pub damaged: Option<String>,
}

/// How it is declared, and what policies say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueDeclaration {
    /// `classic` or `quorum`.
    pub kind: String,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Whether it belongs to one connection.
    pub exclusive: bool,
    /// Whether it is deleted with its last consumer.
    pub auto_delete: bool,
    /// The name of its policy.
    pub policy: Option<String>,
    /// The name of its operator policy.
    pub operator_policy: Option<String>,
    /// The names of its arguments that have no effect.
    pub arguments_without_effect: Vec<String>,
}

/// The messages in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueContents {
    /// Messages that wait.
    pub ready: u64,
    /// Messages that are with consumers.
    pub unacked: u64,
    /// Bytes of memory that these messages take; most of a backlog is on disk.
    pub bytes: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
    /// Message ids that are remembered for deduplication.
    pub remembered: u64,
}

/// The messages that moved through it since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueTraffic {
    /// Messages that entered it since the start.
    pub published: u64,
    /// Messages that it delivered since the start.
    pub delivered: u64,
    /// Messages that were acknowledged since the start.
    pub acknowledged: u64,
    /// Messages that died in it since the start: rejected, expired, over a length limit, over the
    /// delivery limit.
    pub died: [u64; 4],
    /// Messages that were dropped as duplicates, since the start.
    pub duplicates: u64,
    /// Messages that were replaced by a newer one with the same key, since the start.
    pub superseded: u64,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// Its number; `None` until it has authenticated.
    pub id: Option<u64>,
    /// The user that logged in.
    pub user: String,
    /// The virtual host it works in.
    pub vhost: String,
    /// Its protocol.
    pub protocol: String,
    /// Peer and local address.
    pub peer: String,
    /// The name that the client gives itself.
    pub name: String,
    /// Its sessions.
    pub sessions: u64,
    /// Its consumers.
    pub consumers: u64,
    /// `running`, `blocked`, `paused`, or `handshake`.
    pub state: String,
    /// When it was accepted, in seconds since 1970.
    pub connected_at: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes that the broker holds for it besides queued messages.
    #[serde(default)]
    pub held_bytes: u64,
}
