//! Every setting, declared once: name, kind, default and meaning. File keys, variables, flags,
//! listings and the manual page are made from these declarations.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use broker::{CountedReturns, UnknownArguments};

use super::ConfigError;
use super::backends::Backends;
use super::disk::Disk;
use super::http::Http;
use super::listeners::Listening;
use super::logging::Log;
use super::nodes::Nodes;
use super::ports::Ports;
use super::reader::{Reader, declare};
use super::tls::Tls;
use super::users::{Strangers, Users};
use super::value::{self, Amount, at_least, between, optional_path};
use crate::machine;
use crate::protocols::{self, OwnSettings};

/// The effective settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) store: Store,
    pub(crate) io: Io,
    pub(crate) shutdown_timeout: Duration,
    /// A document to import at the start.
    pub(crate) definitions: Option<PathBuf>,
    pub(crate) users: Users,
    /// Who is asked when a user logs in.
    pub(crate) backends: Backends,
    /// The settings that only one protocol has, in the order of the table of protocols.
    pub(crate) protocols: Vec<Arc<dyn OwnSettings>>,
    pub(crate) http: Http,
    pub(crate) compat: Compat,
    pub(crate) limits: Limits,
    pub(crate) strangers: Strangers,
    pub(crate) memory: Memory,
    pub(crate) flow: Flow,
    pub(crate) log: Log,
}

/// Where peers connect, and what becomes of their sockets.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    pub(crate) bind: Vec<IpAddr>,
    pub(crate) port_offset: u16,
    pub(crate) ports: Ports,
    pub(crate) tcp: Tcp,
    pub(crate) tls: Tls,
    pub(crate) nodes: Nodes,
    /// What all of the above and `[[listeners]]` come to.
    pub(crate) all: Vec<Listening>,
}

/// Where messages are stored, and when they count as such.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    /// `None`: the default place for this user.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) durability: Durability,
    pub(crate) disk: Disk,
    pub(crate) journal: JournalSizes,
}

/// The threads that serve connections.
#[derive(Debug, Clone)]
pub(crate) struct Io {
    /// `None`: chosen by the number of cores.
    pub(crate) threads: Option<u64>,
    /// Zero: off.
    pub(crate) spin: Duration,
}

/// When a message counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Fsync,
    Os,
    Memory,
}

impl Durability {
    /// The three classes and their names.
    pub(crate) const CHOICES: [(&'static str, Self); 3] =
        [("fsync", Self::Fsync), ("os", Self::Os), ("memory", Self::Memory)];

    /// The name of the class.
    pub(crate) fn name(self) -> &'static str {
        Self::CHOICES.iter().find(|(_, class)| *class == self).map_or("", |(name, _)| name)
    }

    /// What the class promises, as a text.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Fsync => "confirmed messages are flushed to disk and survive a power cut",
            Self::Os => "confirmed messages survive a crash of the broker, not of the machine",
            Self::Memory => "nothing is written to disk; a restart loses everything",
        }
    }
}

/// The names of the broker in RabbitMQ's API and tools.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// `None`: made from the product and the machine's name.
    pub(crate) node: Option<String>,
    /// `None`: the name of the node.
    pub(crate) cluster: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Compat {
    pub(crate) names: Names,
    pub(crate) product: String,
    pub(crate) version: String,
    pub(crate) unknown_arguments: UnknownArguments,
    /// Follows from the version.
    pub(crate) counted_returns: CountedReturns,
}

#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) frame_max: u64,
    pub(crate) channel_max: u64,
    pub(crate) consumers: ConsumerLimits,
    pub(crate) unacked: u64,
    pub(crate) max_message_size: u64,
    pub(crate) declarations: DeclarationLimits,
    pub(crate) transaction_bytes: u64,
    pub(crate) held: HeldLimits,
    pub(crate) cc_keys: u64,
    pub(crate) handshake_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) connections: ConnectionLimits,
    pub(crate) objects: ObjectLimits,
}

/// Bytes of declarations.
#[derive(Debug, Clone)]
pub(crate) struct DeclarationLimits {
    pub(crate) each: u64,
    pub(crate) all: Option<u64>,
    pub(crate) of_user: Option<u64>,
}

/// Bytes that the broker holds besides queued messages.
#[derive(Debug, Clone)]
pub(crate) struct HeldLimits {
    pub(crate) of_connection: Option<u64>,
    pub(crate) of_user: Option<u64>,
}

/// How many consumers there may be in one place.
#[derive(Debug, Clone)]
pub(crate) struct ConsumerLimits {
    pub(crate) per_channel: u64,
    pub(crate) per_connection: u64,
    pub(crate) per_queue: u64,
}

/// How many connections there may be, and how many of them one vhost or user may have.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimits {
    pub(crate) all: u64,
    /// `None`: a part of all.
    pub(crate) reserved: Option<u64>,
    /// Percent; of queues, exchanges and bindings, too.
    pub(crate) vhost_share: u64,
    /// Percent.
    pub(crate) user_share: u64,
    /// Of those that have not authenticated.
    pub(crate) pending_per_address: u64,
}

/// How much may be declared.
#[derive(Debug, Clone)]
pub(crate) struct ObjectLimits {
    pub(crate) queues: u64,
    pub(crate) exchanges: u64,
    pub(crate) bindings: u64,
    pub(crate) vhosts: u64,
    /// Messages that one vhost retains, and their bytes.
    pub(crate) retained: (u64, u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// `None`: the usual share of the memory of the machine or the container.
    pub(crate) limit: Option<Amount>,
    /// Bytes; `None`: a share of the limit.
    pub(crate) budget: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct JournalSizes {
    pub(crate) max_bytes: u64,
    pub(crate) file_bytes: u64,
    /// Bytes per second.
    pub(crate) scrub: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) park_timeout: Duration,
    pub(crate) consumer_timeout: Duration,
    pub(crate) park_bytes: u64,
    pub(crate) mailbox_bytes: u64,
    pub(crate) lag_bytes: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Tcp {
    pub(crate) nodelay: bool,
    pub(crate) write_timeout: Duration,
    /// Zero: off.
    pub(crate) keepalive: Duration,
}

impl Settings {
    /// The name of the node. Scripts for RabbitMQ build its name from the machine's name.
    pub(crate) fn node_name(&self) -> String {
        let by_product = if self.compat.product == "RabbitMQ" { "rabbit" } else { "hermod" };
        let name = self.compat.names.node.as_deref().unwrap_or(by_product);
        if name.contains('@') { name.to_owned() } else { format!("{name}@{}", machine::name()) }
    }

    /// The name of the cluster.
    pub(crate) fn cluster_name(&self) -> String {
        self.compat.names.cluster.clone().unwrap_or_else(|| self.node_name())
    }

    /// Asks `reader` for every setting, in the order of listings.
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let (bind, port_offset, ports) = listeners(reader)?;
        let data_dir = reader.get(declare("data_dir", "path", "auto", DATA_DIR), |text| value::or_auto(text, path))?;
        let durability = reader.get(declare("durability", "fsync, os, memory", "fsync", DURABILITY), |text| {
            value::choice(text, &Durability::CHOICES)
        })?;
        let io = Io {
            threads: reader.get(declare("io_threads", "number", "auto", IO_THREADS), threads)?,
            spin: reader.get(declare("io_spin", "time", "50 us", IO_SPIN), spin)?,
        };
        let shutdown_timeout =
            reader.get(declare("shutdown_timeout", "time", "10 s", SHUTDOWN_TIMEOUT), value::duration)?;
        // Fields are read in the order in which they are written here.
        Ok(Self {
            shutdown_timeout,
            io,
            definitions: reader.get(declare("definitions", "path", "", DEFINITIONS), optional_path)?,
            users: Users::read(reader)?,
            backends: Backends::read(reader)?,
            protocols: protocols::read_settings(reader)?,
            http: Http::read(reader)?,
            compat: Compat::read(reader)?,
            limits: Limits::read(reader)?,
            strangers: Strangers::read(reader)?,
            memory: Memory::read(reader)?,
            store: Store { data_dir, durability, disk: Disk::read(reader)?, journal: JournalSizes::read(reader)? },
            flow: Flow::read(reader)?,
            listen: Listen {
                bind,
                port_offset,
                ports,
                tcp: Tcp::read(reader)?,
                tls: Tls::read(reader)?,
                nodes: Nodes::read(reader)?,
                all: Vec::new(),
            },
            log: Log::read(reader)?,
        })
    }
}

/// A core that stays busy for longer between two requests saves no time.
const MOST_SPIN: Duration = Duration::from_millis(10);

const DATA_DIR: &str = "Directory of the data and of the control socket. `auto` is `$STATE_DIRECTORY` under systemd, \
    else `$XDG_STATE_HOME/hermod`, else `~/.local/state/hermod` (Windows: `%LOCALAPPDATA%\\hermod`).";
const DURABILITY: &str = "When a message is confirmed. `fsync`: when it is flushed to disk. `os`: when the operating \
    system has it; a power cut may lose it. `memory`: at once; nothing is written, and a restart loses everything.";
const IO_THREADS: &str = "Threads that serve connections. `auto` is one per core. On two cores `auto` is one thread, \
    because a second one mostly moves bodies between caches.";
const IO_SPIN: &str = "How long a single I/O thread looks for more work before it sleeps, up to 10 ms. 0: it sleeps \
    at once. Clients that wait for each answer get it sooner, because waking a thread takes longer than most \
    requests. The thread stops looking while that finds no work. A stream with regular gaps shorter than this keeps \
    the thread awake. A time longer than a flush of the disk (such as `200 us`) also helps clients that wait for \
    confirms; it may keep a core busy. Several I/O threads never look; they sleep at once.";
const DEFINITIONS: &str = "File of definitions in RabbitMQ's JSON, or a directory of such files, whose names end in \
    `.json`: they are taken in the order of their names. They are imported at each start, before clients can connect. \
    A new data directory then gets no `default_user`.";
const SHUTDOWN_TIMEOUT: &str = "How long connections may take to close when the server stops. Then they are cut off.";

fn listeners(reader: &mut Reader) -> Result<(Vec<IpAddr>, u16, Ports), ConfigError> {
    let bind = reader.get(
        declare(
            "bind",
            "addresses",
            "127.0.0.1, [::1]",
            "IP addresses to listen on, separated by commas. The default serves this machine only; `*` serves every \
             network.",
        ),
        value::addresses,
    )?;
    let port_offset = reader.get(
        declare("port_offset", "number", "0", "Added to every port under `ports` and of `[[listeners]]`."),
        |text| between(text, value::count, 0, u16::MAX.into()).map(|offset| u16::try_from(offset).unwrap_or(u16::MAX)),
    )?;
    Ok((bind, port_offset, Ports::read(reader)?))
}

const NODE_NAME: &str = "Name of the broker in the HTTP API, in metrics and for `rabbitmqctl`: a name, `@`, and the \
    machine's name. Without `@`, the machine's name is added. `auto` is `hermod`, or `rabbit` if `compat.product` is \
    `RabbitMQ`.";

const MAX_MESSAGE_SIZE: &str = "Largest body of a message; by AMQP 1.0 the largest message, with all its sections. \
    A larger one is refused.";

const CLUSTER_NAME: &str = "Name by which dashboards tell this broker from others. It is in the HTTP API, in the \
    server properties of AMQP, and in metrics (`rabbitmq_identity_info`). `auto` is `node_name`. A name that an \
    operator gives while the broker runs (`rabbitmqctl set_cluster_name`) comes before it.";

impl Names {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            node: reader.get(declare("node_name", "text", "auto", NODE_NAME), name)?,
            cluster: reader.get(declare("cluster_name", "text", "auto", CLUSTER_NAME), name)?,
        })
    }
}

const COMPAT_VERSION: &str = "The version that the server announces. It also decides which returns of a message \
    count towards the delivery limit of its queue. With a version of RabbitMQ below 4.3, every return counts, as in \
    RabbitMQ. Otherwise only failures count: a rejection with requeue (`basic.reject`), and the end of a channel or \
    connection before the message is settled, unless a consumer's timeout caused it.";

/// Which returns count in this version of RabbitMQ. Hermod's own versions begin with 0, and are not
/// versions of RabbitMQ.
fn counted_returns(version: &str) -> CountedReturns {
    let mut numbers = version.split(['.', '-', '+']).map_while(|number| number.parse::<u32>().ok());
    let version_of = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let is_older = version != env!("CARGO_PKG_VERSION") && version_of.0 > 0 && version_of < (4, 3);
    if is_older { CountedReturns::All } else { CountedReturns::Failures }
}

const UNKNOWN_ARGUMENTS: &str = "What happens when a queue or an exchange is declared with an `x-` argument that \
    Hermod does not know. `refuse`: the declaration is refused, and the error names the argument. `accept`: the \
    argument is stored and has no effect, as in RabbitMQ. The program then does not notice a misspelt argument. \
    Listings show the argument as without effect, and the log warns of it. A later version of Hermod may know the \
    argument and apply it.";

impl Compat {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let names = Names::read(reader)?;
        let product = reader.get(
            declare(
                "compat.product",
                "text",
                "Hermod",
                "The product that the server announces to clients. Some clients require `RabbitMQ`.",
            ),
            product,
        )?;
        let version = reader
            .get(declare("compat.version", "version", env!("CARGO_PKG_VERSION"), COMPAT_VERSION), value::version)?;
        let unknown_arguments = reader
            .get(declare("compat.unknown_arguments", "refuse, accept", "refuse", UNKNOWN_ARGUMENTS), |text| {
                value::choice(text, &[("refuse", UnknownArguments::Refuse), ("accept", UnknownArguments::Accept)])
            })?;
        let counted_returns = counted_returns(&version);
        Ok(Self { names, product, version, unknown_arguments, counted_returns })
    }
}

impl Limits {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let frame_max = frame_max(reader)?;
        let mut size = |name, default, doc| {
            reader.get(declare(name, "size", default, doc), |text| at_least(text, value::bytes, 1))
        };
        let max_message_size = size("limits.max_message_size", "16 MiB", MAX_MESSAGE_SIZE)?;
        let transaction_bytes =
            size("limits.transaction_bytes", "64 MiB", "Bytes that one open transaction may hold.")?;
        let declarations = declarations(reader)?;
        let channel_max = channel_max(reader)?;
        let consumers = consumers(reader)?;
        let held = held_limits(reader)?;
        let cc_keys = cc_keys(reader)?;
        let mut count = |name, default, doc| {
            reader
                .get(declare(name, "number", default, doc), |text| between(text, value::count, 1, u64::from(u32::MAX)))
        };
        let unacked = count(
            "limits.unacked",
            "1000000",
            "Unacknowledged deliveries that one consumer may hold, whatever its prefetch. It is also the limit for \
             what one channel took by `basic.get`.",
        )?;
        let all = count("limits.connections", "10000", "Authenticated connections, within the limit of open files.")?;
        let pending_per_address = count(
            "limits.pending_per_address",
            "64",
            "Connections from one address that have not authenticated yet. More are refused. Connections by HTTP are \
             counted separately, and for as long as they last.",
        )?;
        let objects = objects(reader)?;
        let (reserved, [vhost_share, user_share]) = shares(reader)?;
        let (handshake_timeout, body_timeout) = (handshake_timeout(reader)?, body_timeout(reader)?);
        let heartbeat = reader.get(
            declare(
                "limits.heartbeat",
                "time",
                "60 s",
                "Heartbeat interval that the server proposes, in whole seconds up to 18 h; 0 proposes none. The \
                 connection of a peer that is silent for two intervals is closed.",
            ),
            heartbeat,
        )?;
        Ok(Self {
            frame_max,
            channel_max,
            consumers,
            unacked,
            max_message_size,
            declarations,
            transaction_bytes,
            held,
            cc_keys,
            handshake_timeout,
            body_timeout,
            heartbeat,
            connections: ConnectionLimits { all, reserved, vhost_share, user_share, pending_per_address },
            objects,
        })
    }
}

fn declarations(reader: &mut Reader) -> Result<DeclarationLimits, ConfigError> {
    let size = |text: &str| at_least(text, value::bytes, 1);
    let each = "Bytes that the arguments of one queue, exchange or binding may take.";
    let each = reader.get(declare("limits.declaration_bytes", "size", "16 KiB", each), size)?;
    let all = "Bytes of memory that all queues, exchanges and bindings may take, names, keys and arguments included. \
               `auto` is a quarter of `memory.limit`, and at least 32 MiB. It follows the limit that is in force. \
               Connections, channels and consumers may take as much again, and what declarations leave.";
    let all =
        reader.get(declare("limits.declarations_bytes", "size", "auto", all), |text| value::or_auto(text, size))?;
    let of_user = "The same of what one user has declared, also what is bound. After a start a binding counts for the \
                   user who declared what it leads to. `auto` is half of `limits.declarations_bytes` while there are \
                   several users without the tag `administrator`. Administrators may declare all.";
    let of_user = reader
        .get(declare("limits.user_declarations_bytes", "size", "auto", of_user), |text| value::or_auto(text, size))?;
    Ok(DeclarationLimits { each, all, of_user })
}

fn consumers(reader: &mut Reader) -> Result<ConsumerLimits, ConfigError> {
    let mut count = |name, default, doc| {
        reader.get(declare(name, "number", default, doc), |text| between(text, value::count, 1, u64::from(u32::MAX)))
    };
    Ok(ConsumerLimits {
        per_channel: count("limits.consumers_per_channel", "10000", "Consumers of one channel.")?,
        per_connection: count("limits.consumers_per_connection", "50000", "Consumers of one connection.")?,
        per_queue: count("limits.consumers_per_queue", "20000", "Consumers of one queue, browsers included.")?,
    })
}

fn objects(reader: &mut Reader) -> Result<ObjectLimits, ConfigError> {
    let mut count = |name, default, doc| {
        reader.get(declare(name, "number", default, doc), |text| between(text, value::count, 1, u64::from(u32::MAX)))
    };
    let messages = "Retained messages of one virtual host. A publish that would add one more is refused.";
    let messages = count("limits.retained_messages", "100000", messages)?;
    let bytes = "Bytes of the retained messages of one virtual host, with their topics and properties. A publish that \
                 would exceed it is refused. Persistent ones count as durable declarations in the log, too.";
    let bytes = declare("limits.retained_bytes", "size", "256 MiB", bytes);
    let bytes = reader.get(bytes, |text| at_least(text, value::bytes, 1))?;
    let mut count = |name, default, doc| {
        reader.get(declare(name, "number", default, doc), |text| between(text, value::count, 1, u64::from(u32::MAX)))
    };
    Ok(ObjectLimits {
        retained: (messages, bytes),
        queues: count("limits.queues", "100000", "Queues in all.")?,
        exchanges: count("limits.exchanges", "10000", "Exchanges in all.")?,
        bindings: count("limits.bindings", "1000000", "Bindings in all.")?,
        vhosts: count("limits.vhosts", "1000", "Virtual hosts.")?,
    })
}

fn shares(reader: &mut Reader) -> Result<(Option<u64>, [u64; 2]), ConfigError> {
    let doc = "How many of `limits.connections` are reserved for users with the tag `administrator`, at most a \
               quarter. `auto` is one in twenty, and at least 4.";
    let reserved = declare("limits.reserved_connections", "number", "auto", doc);
    let reserved = reader.get(reserved, |text| value::or_auto(text, value::count))?;
    let mut percent =
        |name, doc| reader.get(declare(name, "number", "50", doc), |text| between(text, value::count, 1, 100));
    let of_vhost = "Percent of `limits.connections`, `limits.queues`, `limits.exchanges` and `limits.bindings` that \
                    one virtual host may have while there are others. If the virtual host has a limit of its own, \
                    that applies instead.";
    let of_user = "Percent of `limits.connections` that one user may have while there are several users without the \
                   tag `administrator`. If the user has a limit of its own, that applies instead. Administrators may \
                   have all.";
    Ok((reserved, [percent("limits.vhost_share", of_vhost)?, percent("limits.user_share", of_user)?]))
}

fn held_limits(reader: &mut Reader) -> Result<HeldLimits, ConfigError> {
    let of_connection = "Bytes that the broker holds for one connection besides queued messages: open transactions, \
                         incomplete bodies up to 64 KiB, and direct replies that the client does not read. More is \
                         refused. `auto` is a quarter of `memory.limit`, and at least `flow.park_bytes`. It follows \
                         changes of `memory.limit` while the broker runs.";
    let of_user = "The same for all connections of one user together, in all vhosts. While memory or disk is short, \
                   a quarter of it, and at least `flow.park_bytes`; publishes that wait for the alarm to pass count \
                   then, too. `auto` is half of `memory.limit`, and at least `limits.connection_memory`. It follows \
                   changes of `memory.limit` while the broker runs.";
    let mut size = |name, doc| {
        reader.get(declare(name, "size", "auto", doc), |text| {
            value::or_auto(text, |text| at_least(text, value::bytes, 1))
        })
    };
    let of_connection = size("limits.connection_memory", of_connection)?;
    Ok(HeldLimits { of_connection, of_user: size("limits.user_memory", of_user)? })
}

fn cc_keys(reader: &mut Reader) -> Result<u64, ConfigError> {
    let doc = "Routing keys that the `CC` and `BCC` headers of one message may name together.";
    reader.get(declare("limits.cc_keys", "number", "255", doc), |text| {
        between(text, value::count, 1, u64::from(u32::MAX))
    })
}

fn handshake_timeout(reader: &mut Reader) -> Result<Duration, ConfigError> {
    reader.get(
        declare(
            "limits.handshake_timeout",
            "time",
            "10 s",
            "How long a peer may take to authenticate. Then its connection is closed. By HTTP: how long the head of \
             each request may take, from the answer before it; so an idle connection is closed, too.",
        ),
        value::duration,
    )
}

fn body_timeout(reader: &mut Reader) -> Result<Duration, ConfigError> {
    let doc = "How long nothing may come of a message whose body has begun, while its connection is read. Then its \
               channel (STOMP: the connection) is closed. `0`: without limit.";
    reader.get(declare("limits.body_timeout", "time", "1 min", doc), value::duration)
}

fn frame_max(reader: &mut Reader) -> Result<u64, ConfigError> {
    reader.get(
        declare(
            "limits.frame_max",
            "size",
            "128 KiB",
            "Largest AMQP 0-9-1 frame that the server agrees to, from 4 KiB to 16 MiB.",
        ),
        |text| between(text, value::bytes, 4096, 16 << 20),
    )
}

fn channel_max(reader: &mut Reader) -> Result<u64, ConfigError> {
    reader.get(
        declare(
            "limits.channel_max",
            "number",
            "2047",
            "Channels (sessions) of one connection, up to 65535. SIGHUP changes it for later connections.",
        ),
        |text| between(text, value::count, 1, u64::from(u16::MAX)),
    )
}

impl Memory {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let limit = reader.get(
            declare(
                "memory.limit",
                "amount",
                "auto",
                "Bytes of queued messages in memory at which publishers are stopped, or a share of the machine's \
                 memory (`60 %`), or of the container's limit if that is less. `auto` is 40 %. On Windows and macOS \
                 the share is one of 4 GiB. While the process has more than the limit, what nothing counts of its \
                 memory counts as well.",
            ),
            |text| value::or_auto(text, value::amount),
        )?;
        let budget = reader.get(
            declare(
                "memory.budget",
                "size",
                "auto",
                "Bytes of waiting messages that queues keep in memory. The rest waits on disk and is read when a \
                 consumer needs it. Persistent messages leave memory when half of the budget is used. `auto` is half \
                 of `memory.limit`, from 32 MiB to 8 GiB. The budget is never more than half of `memory.limit`, also \
                 when that is changed while the broker runs.",
            ),
            |text| value::or_auto(text, |text| at_least(text, value::bytes, 1 << 20)),
        )?;
        Ok(Self { limit, budget })
    }
}

impl JournalSizes {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let max_bytes = reader.get(
            declare(
                "journal.max_bytes",
                "size",
                "1 GiB",
                "Bytes that the journal may take on disk. Publishers are stopped shortly before that, so that \
                 consumers can still make room. Until the next start, the journal takes at most three quarters of \
                 the room that the disk has for it at the start: what is free, and its own files. If that is less than \
                 this setting, the log warns of it.",
            ),
            |text| at_least(text, value::bytes, 1 << 20),
        )?;
        let file_bytes = reader.get(
            declare(
                "journal.file_bytes",
                "size",
                "64 MiB",
                "Size of one journal file, from 64 KiB to 1 GiB. A file is never larger than an eighth of \
                 `journal.max_bytes`.",
            ),
            |text| between(text, value::bytes, 1 << 16, 1 << 30),
        )?;
        let scrub = reader.get(
            declare(
                "journal.scrub",
                "size",
                "4 MiB",
                "Bytes of waiting messages on disk that are read each second, to check that they are still readable. \
                 All of them are read once a day, as far as this rate allows: 337 GiB at 4 MiB. `0`: none are read.",
            ),
            value::bytes,
        )?;
        Ok(Self { max_bytes, file_bytes, scrub })
    }
}

impl Flow {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let park_timeout = reader.get(
            declare(
                "flow.park_timeout",
                "time",
                "30 s",
                "How long a publish waits while memory or disk is short. Then it is refused.",
            ),
            value::duration,
        )?;
        let consumer_timeout = reader.get(
            declare(
                "flow.consumer_timeout",
                "time",
                "30 min",
                "How long a consumer may hold a message without settling it. Then its channel is closed, and its \
                 messages return to the queues. `x-consumer-timeout` of a queue or of a consumer overrides it. `0`: \
                 without limit.",
            ),
            value::duration,
        )?;
        let mut size = |name, default, doc| {
            reader.get(declare(name, "size", default, doc), |text| at_least(text, value::bytes, 1))
        };
        let park_bytes = size(
            "flow.park_bytes",
            "4 MiB",
            "Bytes of publishes of one connection that may wait while memory or disk is short.",
        )?;
        let mailbox_bytes = size(
            "flow.mailbox_bytes",
            "1 MiB",
            "Bytes of deliveries that may wait for one connection. The rest stays in its queues.",
        )?;
        let lag_bytes = size(
            "flow.lag_bytes",
            "16 MiB",
            "Bytes that may wait for a flush of the journal, here or by `nodes.confirms_wait` on a standby. Beyond that, \
             nothing more is read from publishers.",
        )?;
        Ok(Self { park_timeout, consumer_timeout, park_bytes, mailbox_bytes, lag_bytes })
    }
}

impl Tcp {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let nodelay = reader.get(
            declare(
                "tcp.nodelay",
                "true, false",
                "true",
                "Sends small segments at once (`TCP_NODELAY`). The server batches its own writes, so `false` rarely helps.",
            ),
            value::flag,
        )?;
        let write_timeout = reader.get(
            declare(
                "tcp.write_timeout",
                "time",
                "30 s",
                "How long a peer may read nothing while data waits for it. Then its connection is closed.",
            ),
            value::duration,
        )?;
        let keepalive = reader.get(
            declare(
                "tcp.keepalive",
                "time",
                "60 s",
                "Idle time after which the kernel probes whether a peer is still there; 0 turns it off.",
            ),
            value::duration,
        )?;
        Ok(Self { nodelay, write_timeout, keepalive })
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    match optional_path(text)? {
        Some(path) => Ok(path),
        None => Err("an empty path; write the directory's, or auto".to_owned()),
    }
}

fn product(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an empty name; write Hermod or RabbitMQ".to_owned()),
        _ => value::text(text),
    }
}

/// `auto`, or a name that is one word.
fn name(text: &str) -> Result<Option<String>, String> {
    let word = |text: &str| match text.is_empty()
        || text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
    {
        true => Err(format!("'{}' is no name; write one word", text.escape_debug())),
        false => Ok(text.to_owned()),
    };
    value::or_auto(text, word)
}

fn threads(text: &str) -> Result<Option<u64>, String> {
    value::or_auto(text, |text| between(text, value::count, 1, 1024))
}

fn spin(text: &str) -> Result<Duration, String> {
    match value::short_duration(text)? {
        long if long > MOST_SPIN => Err(format!("{text} is longer than 10 ms; write at most that")),
        short => Ok(short),
    }
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match value::duration(text)? {
        interval if interval.as_secs() > u64::from(u16::MAX) => {
            Err(format!("{text} is longer than 18 h; write at most 65535 s"))
        }
        interval if interval.subsec_millis() > 0 => {
            Err(format!("{text} is no whole number of seconds; write it as 30 s"))
        }
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_version_of_rabbitmq_counts_every_return() {
        for version in ["4.2.0", "4.2", "4.0.9", "3.13.7", "4", "4.2.5-rc.1+x"] {
            assert_eq!(counted_returns(version), CountedReturns::All, "{version}");
        }
        for version in
            [env!("CARGO_PKG_VERSION"), "0.2.0", "4.3.0", "4.3.0-rc.1", "4.3-rc.1", "4.10.0", "5.0.0", "", "new"]
        {
            assert_eq!(counted_returns(version), CountedReturns::Failures, "{version}");
        }
    }
}
