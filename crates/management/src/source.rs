//! What management reads: the broker's reports, the sockets, and facts that do not change while the
//! server runs.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use auth::Identity;
use broker::{Broker, Browse, Overview, Repair, RepairMode};

use crate::budget::Budget;
use crate::change::{self, Caller, Refused, Secret};
use crate::control::{Answer, Request};
use crate::courier::Encoding;
use crate::definitions::{self, Extent, Import, Imported};
use crate::door::Full;
use crate::figures::Figures;
use crate::listing::{self, Listed};
use crate::pool::Pool;
use crate::rates::Rates;
use crate::report::{BackupRow, ConnectionRow, ListenerRow, QueueRow, RepairRow, SelectorRow, Status};
use crate::watch::Watch;

/// One open socket, as reported by its owner.
#[derive(Debug, Clone)]
pub struct Socket {
    /// Peer and local address, in the form that protocols report to the broker: `1.2.3.4:5 ->
    /// 127.0.0.1:5672`.
    pub peer: String,
    /// Its protocol; empty while it is not known yet.
    pub protocol: &'static str,
    /// When it was accepted.
    pub since: SystemTime,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// The outcome of its TLS handshake, if it uses TLS.
    pub encryption: Option<Encryption>,
}

/// The outcome of a TLS handshake.
#[derive(Debug, Clone, Default)]
pub struct Encryption {
    /// The version, as `TLSv1_3`.
    pub version: String,
    /// The suite of algorithms, as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// Subject, issuer and validity of the peer's certificate, if it has one.
    pub certificate: Option<[String; 3]>,
}

/// Figures of the sockets, as reported by their owner.
pub struct Network {
    /// The open sockets.
    pub open: Box<dyn Fn() -> Vec<Socket> + Send + Sync>,
    /// The number of open sockets.
    pub count: Box<dyn Fn() -> usize + Send + Sync>,
    /// How many connections were refused when they were accepted, by reason.
    pub refused: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
    /// How often one connection held up all others of its thread for 100 ms or longer, and likewise
    /// for other watched work, by kind.
    pub long_turns: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
    /// When the TLS certificate expires.
    pub certificate_ends: Box<dyn Fn() -> Option<SystemTime> + Send + Sync>,
}

/// Facts that do not change while the server runs.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The product that it announces.
    pub product: String,
    /// Version of the server.
    pub version: String,
    /// The version that it announces.
    pub compat_version: String,
    /// Name of the node in RabbitMQ's form: a name, `@`, and the machine.
    pub node: String,
    /// Name of the cluster that the node is.
    pub cluster: String,
    /// The data directory.
    pub data_dir: String,
    /// The durability class.
    pub durability: String,
    /// The listeners.
    pub listeners: Vec<ListenerRow>,
    /// The names of the protocols that can be served.
    pub protocols: Vec<ProtocolNames>,
    /// When the server started.
    pub started: Instant,
}

/// How a protocol is called.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolNames {
    /// Its short name in listeners and logs. Over TLS, an `s` follows it.
    pub name: &'static str,
    /// Its name in RabbitMQ's listings of connections.
    pub listed: &'static str,
    /// Other names by which health checks may ask for it.
    pub also: &'static [&'static str],
}

impl ProtocolNames {
    /// The short name of the listeners that a health check means by `asked`, if it is a name of
    /// this protocol.
    pub(crate) fn listener(&self, asked: &str) -> Option<String> {
        let over_tls = asked.strip_suffix("/ssl").is_some_and(|bare| bare == self.name);
        match over_tls {
            true => Some(format!("{}s", self.name)),
            false => self.also.contains(&asked).then(|| self.name.to_owned()),
        }
    }
}

impl Facts {
    /// Whether a node of this name is this one. Scripts build the name that RabbitMQ would have
    /// from the machine's name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let host = |name: &'_ str| name.split_once('@').map(|(_, host)| host.to_owned());
        name == self.node || (name.starts_with("rabbit@") && host(name) == host(&self.node))
    }
}

/// Copies the data directory to a path while the second argument returns true. An error is one line
/// for the operator.
type Copying = dyn Fn(&Path, &dyn Fn() -> bool) -> Result<BackupRow, String> + Send + Sync;

/// Everything that management reads.
pub struct Source {
    pub(crate) broker: Broker,
    pub(crate) facts: Facts,
    pub(crate) pool: Arc<Pool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) figures: Figures,
    /// Figures that few scrapes ask for, apart from the others so that those do not wait for them.
    pub(crate) rare_figures: Figures,
    pub(crate) rates: Rates,
    /// Watches the loop of management.
    pub(crate) watch: Watch,
    network: Network,
    backup: Box<Copying>,
    pub(crate) encoding: Encoding,
    ready: AtomicBool,
    /// HTTP connections that were refused: by the limit of all, and by the limit of their network.
    refused: [AtomicU64; 2],
}

impl Source {
    /// Reads `broker`, asks `network` for the sockets, and has `backup` copy the data directory to
    /// a path, while its second argument returns true. `encoding` writes the properties of messages
    /// that are published.
    pub fn new(
        broker: Broker,
        facts: Facts,
        network: Network,
        backup: impl Fn(&Path, &dyn Fn() -> bool) -> Result<BackupRow, String> + Send + Sync + 'static,
        encoding: Encoding,
    ) -> Self {
        let (pool, budget, rates, watch) = Default::default();
        let (figures, rare_figures) = Default::default();
        let (backup, ready, refused) = (Box::new(backup), AtomicBool::new(false), Default::default());
        Self {
            broker,
            facts,
            pool,
            budget,
            figures,
            rare_figures,
            rates,
            watch,
            network,
            backup,
            encoding,
            ready,
            refused,
        }
    }

    /// Clients are served from now on: the server has started.
    pub fn start_serving(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Clients are not served any more: the server begins to stop.
    pub fn stop_serving(&self) {
        self.ready.store(false, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether the peer still waits for an answer and the server is not stopping.
    pub(crate) fn is_wanted(&self, gone: &AtomicBool) -> bool {
        self.is_ready() && !gone.load(Ordering::Relaxed)
    }

    pub(crate) fn sockets(&self) -> Vec<Socket> {
        (self.network.open)()
    }

    pub(crate) fn count_sockets(&self) -> usize {
        (self.network.count)()
    }

    /// How often one piece of work held up others for too long, by kind.
    pub(crate) fn long_turns(&self) -> Vec<(&'static str, u64)> {
        let mut kinds = (self.network.long_turns)();
        kinds.push(("management", self.watch.count()));
        kinds
    }

    /// When the TLS certificate expires.
    pub(crate) fn certificate_ends(&self) -> Option<SystemTime> {
        (self.network.certificate_ends)()
    }

    /// Counts an HTTP connection that was refused.
    pub(crate) fn count_refused(&self, full: Full) {
        self.refused[full as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that a limit refused, by reason: when they were accepted, or after they had
    /// logged in.
    pub(crate) fn refused_connections(&self, overview: &Overview) -> Vec<(&'static str, u64)> {
        let mut refused = (self.network.refused)();
        let [of_all, of_vhost, of_user] = overview.connections_refused;
        let by_http = [Full::House, Full::Network]
            .map(|full| (full.reason(), self.refused[full as usize].load(Ordering::Relaxed)));
        let others = [("connections", of_all), ("vhost_limit", of_vhost), ("user_limit", of_user)];
        for (reason, count) in others.into_iter().chain(by_http) {
            match refused.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += count,
                None => refused.push((reason, count)),
            }
        }
        refused
    }

    /// The answer to a request. Long work ends early when `gone` is set.
    pub(crate) fn answer(&self, request: &Request, asker: &str, gone: &AtomicBool) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Queues => Answer::Queues(self.queues()),
            Request::Connections => Answer::Connections(self.connections()),
            Request::Repair { vhost, queue, accept_loss } => {
                let mode = if *accept_loss { RepairMode::AcceptLoss } else { RepairMode::Look };
                let repair = self.broker.repair(vhost, queue, mode);
                Answer::Repaired(repair.map(|repair| repaired(vhost, queue, &repair)))
            }
            Request::Browse { vhost, queue, selector, limit } => {
                self.browse(&Browse { vhost, queue, selector, limit: *limit }, gone)
            }
            Request::Redrive { vhost, queue, selector, limit, dry_run } => {
                let extent = if *dry_run { Extent::DryRun } else { Extent::Whole };
                self.redrive(&Browse { vhost, queue, selector, limit: *limit }, extent, gone)
            }
            Request::Backup { directory } => {
                // A server that stops ends the backup early.
                (self.backup)(Path::new(directory), &|| self.is_wanted(gone))
                    .map_or_else(Answer::NotBackedUp, Answer::BackedUp)
            }
            Request::List { what, vhost } => Answer::List(self.list(*what, vhost.as_deref())),
            Request::Change(change) => {
                let caller = operator(asker);
                change::make(&self.broker, change.clone(), caller).map_or_else(Answer::NotChanged, Answer::Changed)
            }
            Request::Export => Answer::Exported(self.export()),
            Request::Import { document, skip_unsupported, vhost, extent } => {
                let (vhost, caller) = (vhost.as_deref(), operator(asker));
                let import = Import { vhost, skip_unsupported: *skip_unsupported, extent: *extent, caller };
                self.import(document, &import).map_or_else(Answer::NotChanged, Answer::Imported)
            }
            Request::Authenticate { user, password } => Answer::Authenticated(match password {
                Secret::Password(password) => self
                    .broker
                    .authority()
                    .verify(user, password.as_bytes(), Ipv4Addr::LOCALHOST.into(), Instant::now())
                    .is_ok(),
                Secret::None | Secret::Hash(_) => false,
            }),
        }
    }

    /// All objects of one kind, or those in a vhost.
    pub(crate) fn list(&self, what: Listed, vhost: Option<&str>) -> Vec<serde_json::Value> {
        listing::list(&self.broker, &self.facts, &self.sockets(), what, vhost)
    }

    /// All definitions, as RabbitMQ's document.
    pub(crate) fn export(&self) -> serde_json::Value {
        definitions::export(&self.broker, &self.facts)
    }

    /// The declarations, policies and limits of a vhost, as the same document without the vhost.
    pub(crate) fn export_vhost(&self, vhost: &str) -> serde_json::Value {
        definitions::export_vhost(&self.broker, &self.facts, vhost)
    }

    /// Imports the document that the server's settings name; `from` names the settings. Blocks
    /// until everything is durable.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn define(&self, document: &str, from: &str) -> Result<Imported, Refused> {
        let (extent, caller) = (Extent::Whole, operator(from));
        self.import(document, &Import { vhost: None, skip_unsupported: false, extent, caller })
    }

    /// Imports a document. Blocks until everything is durable.
    pub(crate) fn import(&self, document: &str, import: &Import<'_>) -> Result<Imported, Refused> {
        definitions::import(&self.broker, document, import)
    }

    fn status(&self) -> Status {
        let overview = self.broker.overview();
        let (facts, limits) = (&self.facts, self.broker.limits());
        Status {
            version: facts.version.clone(),
            product: facts.product.clone(),
            compat_version: facts.compat_version.clone(),
            node: facts.node.clone(),
            cluster: facts.cluster.clone(),
            pid: std::process::id(),
            uptime_seconds: facts.started.elapsed().as_secs(),
            data_dir: facts.data_dir.clone(),
            durability: facts.durability.clone(),
            listeners: facts.listeners.clone(),
            alarms: alarms((overview.memory_alarm, overview.disk_alarm)),
            sockets: self.count_sockets() as u64,
            connections: overview.connections,
            refused_connections: self.refused_connections(&overview).iter().map(|(_, count)| count).sum(),
            max_connections: limits.connections,
            reserved_connections: self.broker.reserved_connections(),
            vhost_share: limits.vhost_share,
            user_share: limits.user_share,
            sessions: overview.sessions,
            consumers: overview.consumers,
            queues: overview.queues,
            damaged_queues: overview.damaged_queues,
            exchanges: overview.exchanges,
            bindings: overview.bindings,
            messages_ready: overview.ready,
            messages_unacked: overview.unacked,
            published: overview.received,
            confirmed: overview.confirmed,
            delivered: delivered(&overview),
            acknowledged: overview.acknowledged,
            unroutable: overview.unroutable_dropped + overview.unroutable_returned,
            memory_used_bytes: overview.memory_used,
            memory_limit_bytes: overview.memory_limit,
            journal_used_bytes: overview.journal.used_bytes,
            journal_max_bytes: overview.journal.max_bytes,
            segments: overview.journal.segments.files.into(),
            segment_bytes: overview.journal.segments.bytes,
            damaged_segments: overview.journal.segments.damaged.into(),
            disk_free_bytes: overview.journal.free_bytes,
        }
    }

    fn queues(&self) -> Vec<QueueRow> {
        let row = |queue: broker::QueueReport| QueueRow {
            vhost: queue.vhost,
            name: queue.name,
            kind: queue.kind.to_owned(),
            durable: queue.durable,
            exclusive: queue.exclusive,
            auto_delete: queue.auto_delete,
            ready: queue.ready,
            unacked: queue.unacked,
            bytes: queue.bytes,
            consumers: queue.consumers,
            selectors: queue.selectors.into_iter().map(selector_row).collect(),
            published: queue.published,
            delivered: queue.delivered,
            acknowledged: queue.acknowledged,
            died: queue.died,
            policy: queue.policy,
            operator_policy: queue.operator_policy,
            delayed: queue.delayed,
            duplicates: queue.duplicates,
            superseded: queue.superseded,
            remembered: queue.remembered,
            arguments_without_effect: queue.idle_arguments,
            damaged: queue.damaged,
        };
        self.broker.queues().into_iter().map(row).collect()
    }

    /// Authenticated connections by number, then sockets that have not authenticated.
    fn connections(&self) -> Vec<ConnectionRow> {
        let mut sockets: HashMap<String, Socket> =
            self.sockets().into_iter().map(|socket| (socket.peer.clone(), socket)).collect();
        let mut rows: Vec<_> = Vec::new();
        for client in self.broker.clients() {
            let socket = sockets.remove(&client.peer);
            rows.push(ConnectionRow {
                id: Some(client.number),
                user: client.user,
                vhost: client.vhost,
                protocol: client.protocol.to_owned(),
                name: client.name.unwrap_or_default(),
                sessions: client.sessions,
                consumers: client.consumers,
                state: client.state.to_owned(),
                connected_at: client.connected_at / 1000,
                bytes_in: socket.as_ref().map_or(0, |socket| socket.bytes_in),
                bytes_out: socket.as_ref().map_or(0, |socket| socket.bytes_out),
                held_bytes: client.held_bytes,
                peer: client.peer,
            });
        }
        let mut strangers: Vec<_> = sockets.into_values().collect();
        strangers.sort_by_key(|socket| socket.since);
        rows.extend(strangers.into_iter().map(stranger));
        rows
    }
}

/// The operator of the server, which may do everything.
fn operator(from: &str) -> Caller {
    Caller { identity: Identity::operator("operator"), from: from.to_owned() }
}

fn stranger(socket: Socket) -> ConnectionRow {
    ConnectionRow {
        id: None,
        user: String::new(),
        vhost: String::new(),
        protocol: socket.protocol.to_owned(),
        peer: socket.peer,
        name: String::new(),
        sessions: 0,
        consumers: 0,
        state: "handshake".to_owned(),
        connected_at: socket.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        bytes_in: socket.bytes_in,
        bytes_out: socket.bytes_out,
        held_bytes: 0,
    }
}

fn selector_row(report: broker::SelectorReport) -> SelectorRow {
    let broker::SelectorReport { selector, consumers, looked_at, selected } = report;
    SelectorRow { selector, consumers, looked_at, selected }
}

/// All messages that were delivered or fetched.
pub(crate) fn delivered(overview: &Overview) -> u64 {
    overview.delivered_manual + overview.delivered_auto + overview.fetched_manual + overview.fetched_auto
}

/// The names of the active alarms that stop publishers.
pub(crate) fn alarms((memory, disk): (bool, bool)) -> Vec<String> {
    [(memory, "memory"), (disk, "disk")].iter().filter(|(up, _)| *up).map(|(_, name)| (*name).to_owned()).collect()
}

/// What a repair of this queue came to. The log says so, too, if it gave messages up.
fn repaired(vhost: &str, queue: &str, repair: &Repair) -> RepairRow {
    let Repair { read, unreadable, numbers, given_up } = *repair;
    if given_up > 0 {
        let (first, last) = numbers;
        tracing::warn!("queue '{queue}' in vhost '{vhost}': {given_up} messages given up, numbers {first} to {last}");
    }
    RepairRow { read, unreadable, numbers, given_up }
}
