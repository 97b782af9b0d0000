//! What management reads: the broker's reports, the sockets, and facts that do not change while the
//! server runs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use auth::{Identity, SignOn};
use broker::{AlarmsUp, Broker, Error, MemoryUse, Overview, Properties, Publish};

use crate::budget::Budget;
use crate::change::Caller;
use crate::door::Full;
use crate::facts::{Facts, Network, Setting, ShovelStatus, Socket};
use crate::figures::Scrapes;
use crate::history::Histories;
use crate::memory::Kept;
use crate::pool::Pool;
use crate::rates::Rates;
use crate::report::{BackupRow, ClusterStatus};
use crate::sessions::Sessions;
use crate::watch::Watch;

/// Writes properties in the encoding of a protocol, with the same checks as for its clients. The
/// returned publish has no address and no body yet.
pub type Encoding = for<'a> fn(&Properties, &'a mut Vec<u8>) -> Result<Publish<'a>, Error>;

/// Copies the data directory to a path while the second argument returns true. An error is one line
/// for the operator.
type Copying = dyn Fn(&Path, &dyn Fn() -> bool) -> Result<BackupRow, String> + Send + Sync;

/// How shovels are doing.
type ShovelStates = dyn Fn() -> Vec<ShovelStatus> + Send + Sync;

/// The nodes that follow this one.
type ClusterOf = dyn Fn() -> ClusterStatus + Send + Sync;

/// Everything that management reads.
pub struct Source {
    pub(crate) broker: Broker,
    pub(crate) facts: Facts,
    pub(crate) pool: Arc<Pool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) scrapes: Scrapes,
    pub(crate) rates: Rates,
    pub(crate) histories: Histories,
    /// Who is logged in to the console.
    pub(crate) sessions: Sessions,
    /// Watches the loop of management.
    pub(crate) watch: Watch,
    told: Told,
    network: Network,
    pub(crate) backup: Box<Copying>,
    pub(crate) encoding: Encoding,
    ready: AtomicBool,
    /// HTTP connections that were refused, by reason.
    refused: [AtomicU64; Full::ALL.len()],
}

/// What management is told after its start.
#[derive(Default)]
struct Told {
    /// The settings in force.
    settings: Mutex<Vec<Setting>>,
    /// How shovels are doing, once they run.
    shovel_states: OnceLock<Box<ShovelStates>>,
    /// What this node is to others, if it listens for any.
    cluster: OnceLock<Box<ClusterOf>>,
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
        let (pool, budget, rates, sessions, watch) = Default::default();
        let (scrapes, histories, told) = Default::default();
        let (backup, ready, refused) = (Box::new(backup), AtomicBool::new(false), Default::default());
        Self {
            broker,
            facts,
            pool,
            budget,
            scrapes,
            rates,
            histories,
            sessions,
            watch,
            told,
            network,
            backup,
            encoding,
            ready,
            refused,
        }
    }

    /// The console also leads people to this server, which logs them in. The first one counts.
    pub fn lead_to(&self, sign_on: Arc<dyn SignOn>) {
        self.sessions.journeys.lead_to(sign_on);
    }

    /// Asks here how shovels are doing. The first one counts.
    pub fn show_shovels(&self, states: impl Fn() -> Vec<ShovelStatus> + Send + Sync + 'static) {
        let _ = self.told.shovel_states.set(Box::new(states));
    }

    pub(crate) fn shovel_states(&self) -> Vec<ShovelStatus> {
        self.told.shovel_states.get().map(|states| states()).unwrap_or_default()
    }

    /// Asks here what this node is to others, and which follow it. The first one counts.
    pub fn show_cluster(&self, cluster: impl Fn() -> ClusterStatus + Send + Sync + 'static) {
        let _ = self.told.cluster.set(Box::new(cluster));
    }

    pub(crate) fn cluster(&self) -> ClusterStatus {
        self.told.cluster.get().map(|cluster| cluster()).unwrap_or_default()
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

    /// Shows these settings from now on.
    pub fn show_settings(&self, settings: Vec<Setting>) {
        *self.told.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.told.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn sockets(&self) -> Vec<Socket> {
        (self.network.open)()
    }

    /// The sockets of these peers, as [`Socket::peer`] has them.
    pub(crate) fn some_sockets(&self, peers: &[&str]) -> Vec<Socket> {
        (self.network.some)(peers)
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

    /// What is kept besides messages, with what the broker itself knows of it.
    pub(crate) fn kept(&self, of_broker: &MemoryUse) -> Kept {
        let MemoryUse { declared, clients, .. } = *of_broker;
        let http = self.budget.used() + self.rates.bytes() + self.histories.bytes();
        Kept { declared, clients, http, strangers: (self.network.strangers_bytes)() }
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
        let [of_all, of_vhost, of_user] = &overview.totals.churn.connections_refused;
        let by_http = Full::ALL.map(|full| (full.reason(), self.refused[full as usize].load(Ordering::Relaxed)));
        let others = [("connections", of_all.get()), ("vhost_limit", of_vhost.get()), ("user_limit", of_user.get())];
        for (reason, count) in others.into_iter().chain(by_http) {
            match refused.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += count,
                None => refused.push((reason, count)),
            }
        }
        refused
    }
}

/// What the audit log calls the operator.
pub(crate) const OPERATOR: &str = "operator";

/// The operator of the server, which may do everything.
pub(crate) fn operator(from: &str) -> Caller {
    Caller { identity: Identity::operator(OPERATOR), from: from.to_owned() }
}

/// The names of the active alarms that stop publishers.
pub(crate) fn alarms(up: AlarmsUp) -> Vec<String> {
    [(up.memory, "memory"), (up.disk, "disk")]
        .iter()
        .filter(|(up, _)| *up)
        .map(|(_, name)| (*name).to_owned())
        .collect()
}
