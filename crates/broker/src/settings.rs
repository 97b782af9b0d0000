//! The broker's settings.

use std::time::Duration;

/// Limits on the requests of clients. Each is refused by name when it is reached.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest body of a message, in bytes.
    pub max_message_bytes: u64,
    /// Sessions (AMQP 0-9-1: channels) of one connection, until
    /// [`crate::Broker::set_sessions_per_connection`] changes it.
    pub sessions_per_connection: u32,
    /// Consumers.
    pub consumers: ConsumerLimits,
    /// Unsettled deliveries of one consumer, or of one session that fetches. Consumers get no more
    /// until they settle some, as with a prefetch, and a fetch is refused.
    pub unsettled: u32,
    /// Queues in all.
    pub queues: u64,
    /// Exchanges in all.
    pub exchanges: u64,
    /// Bindings in all.
    pub bindings: u64,
    /// Vhosts.
    pub vhosts: u64,
    /// Authenticated connections in all.
    pub connections: u64,
    /// The part of these that is kept for administrators, at most a quarter.
    pub reserved_connections: u64,
    /// Percent of connections, queues, exchanges and bindings for a vhost without a limit of its
    /// own, where there are other vhosts.
    pub vhost_share: u32,
    /// Percent of connections for a user without a limit of its own that is no administrator, where
    /// there are several such users.
    pub user_share: u32,
    /// Bytes of declarations.
    pub declarations: DeclarationLimits,
    /// Bytes that one open transaction may hold.
    pub transaction_bytes: u64,
    /// Routing keys in the `CC` and `BCC` headers of one message together.
    pub cc_keys: u32,
}

/// The most that one vhost retains.
#[derive(Debug, Clone)]
pub struct RetainedLimits {
    /// Messages.
    pub messages: u64,
    /// Bytes of these, with their topics and properties.
    pub bytes: u64,
}

/// The most consumers.
#[derive(Debug, Clone)]
pub struct ConsumerLimits {
    /// Of one session.
    pub per_session: u32,
    /// Of one connection.
    pub per_connection: u32,
    /// Of one queue, browsers included.
    pub per_queue: u32,
}

/// The most bytes of declarations.
#[derive(Debug, Clone)]
pub struct DeclarationLimits {
    /// Of the arguments of each.
    pub each_bytes: u64,
    /// Of memory, for all; `None` for a quarter of the memory limit, at least 32 MiB.
    pub all_bytes: Option<u64>,
    /// The same of what one user has declared, without the tag `administrator`; `None` for half of
    /// it, while there are several such users.
    pub user_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: 16 << 20,
            sessions_per_connection: 2047,
            consumers: ConsumerLimits { per_session: 10_000, per_connection: 50_000, per_queue: 20_000 },
            unsettled: 1_000_000,
            queues: 100_000,
            exchanges: 10_000,
            bindings: 1_000_000,
            vhosts: 1000,
            connections: 10_000,
            reserved_connections: 500,
            vhost_share: 50,
            user_share: 50,
            declarations: DeclarationLimits { each_bytes: 16 << 10, all_bytes: None, user_bytes: None },
            transaction_bytes: 64 << 20,
            cc_keys: 255,
        }
    }
}

/// What an operator turns on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// From now on.
    On,
    /// No longer.
    Off,
}

/// The treatment of unknown arguments that begin with `x-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownArguments {
    /// The declaration is refused, and the text names the argument.
    #[default]
    Refuse,
    /// The argument is stored and shown as one without effect.
    Accept,
}

/// The returns of a message that count towards the delivery limit of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountedReturns {
    /// Those of a consumer that failed or has gone.
    #[default]
    Failures,
    /// All of them.
    All,
}

/// The publishes of a connection that wait behind an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkingLimits {
    /// How long one waits before it is refused.
    pub timeout: Duration,
    /// The most bytes of them all.
    pub bytes: usize,
}

/// A limit of the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiskLimit {
    /// None but what the journal needs.
    #[default]
    None,
    /// So many bytes.
    Bytes(u64),
    /// So many thousandths of the file system.
    Share(u16),
}

/// Where the disk alarm rises before the journal needs it to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskLimits {
    /// What must stay free.
    pub least_free: DiskLimit,
    /// What log, segments and spilled messages may take.
    pub most_stored: DiskLimit,
}

/// What the broker is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNames {
    /// Its own name, in copies of traced messages.
    pub node: String,
    /// The name of its cluster, until an operator gives that another one.
    pub cluster: String,
}

impl Default for NodeNames {
    fn default() -> Self {
        let name = || "hermod".to_owned();
        Self { node: name(), cluster: name() }
    }
}

/// The settings of the broker.
#[derive(Debug, Clone)]
pub struct Settings {
    /// See [`Limits`].
    pub limits: Limits,
    /// See [`RetainedLimits`].
    pub retained: RetainedLimits,
    /// Of queues and exchanges.
    pub unknown_arguments: UnknownArguments,
    /// Of queues that count.
    pub counted_returns: CountedReturns,
    /// See [`NodeNames`].
    pub names: NodeNames,
    /// See [`DiskLimits`].
    pub disk_limits: DiskLimits,
    /// Bytes of queued messages in memory at which the memory alarm rises.
    pub memory_limit: u64,
    /// Bytes that one connection may make the broker hold besides queued messages
    /// ([`crate::Held`]). `None` for a quarter of the current memory limit, at least the bytes of
    /// `parking`.
    pub connection_memory: Option<u64>,
    /// The same of all connections of one user together. `None` for half of the current memory
    /// limit, at least as much as of one connection. [`crate::Broker::set_user_memory`] changes it.
    pub user_memory: Option<u64>,
    /// Bytes of messages in memory that the disk has too. Beyond it messages are read when they are
    /// needed. At most half of the limit is in force.
    pub memory_budget: u64,
    /// Most bytes of deliveries that wait for one connection. A single delivery always fits.
    pub mailbox_bytes: usize,
    /// See [`ParkingLimits`].
    pub parking: ParkingLimits,
    /// How long nothing may come of a body that was begun, while its connection is read. Then its
    /// session is closed. `None` for any time.
    pub body_timeout: Option<Duration>,
    /// How long a consumer may hold a delivery before its session is closed; 0 for any time. A
    /// timeout of the consumer or its queue overrides it.
    pub consumer_timeout: Duration,
    /// A connection is not read while this many bytes wait for the journal's flush.
    pub lag_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            retained: RetainedLimits { messages: 100_000, bytes: 256 << 20 },
            unknown_arguments: UnknownArguments::default(),
            counted_returns: CountedReturns::default(),
            names: NodeNames::default(),
            disk_limits: DiskLimits::default(),
            memory_limit: 4 << 30,
            connection_memory: None,
            user_memory: None,
            memory_budget: 512 << 20,
            mailbox_bytes: 1 << 20,
            parking: ParkingLimits { timeout: Duration::from_secs(30), bytes: 4 << 20 },
            body_timeout: Some(Duration::from_mins(1)),
            consumer_timeout: Duration::from_mins(30),
            lag_bytes: 16 << 20,
        }
    }
}
