//! What a broker that serves has to do with other nodes: the listener for those that follow it, the
//! fence against serving when another one has taken its place, and word to the one that it has
//! taken the place of itself.
//!
//! Invariant: that this node was replaced is kept before it is answered, and asked before it
//! serves. So it is true after a restart, too.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::Broker;
use journal::{Awaited, FeedError, LogEnd, LogId, Waiting};
use management::{ClusterStatus, FollowerRow, ListenerRow, Source};
use nodes::{
    Awaiting, Begins, Confirming, Confirms, Credentials, Doing, Followers, Hello, Identity, Listener, Replaced, Role,
    Serving, Standing, Waits,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{Durability, Settings};
use crate::exit::{Exit, Failure};
use crate::log::START;
use crate::worker::{Rest, Worker};

/// How long a follower has to take what is left, when it takes over.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the node is told that was replaced, while it can't be reached: at first, and at last.
const TELL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// What management calls the listener for nodes: RabbitMQ's name for its own.
pub(crate) const CLUSTERING: &str = "clustering";

/// The listener for nodes, as others reach it; none without `nodes.listen`.
pub(crate) fn listener(settings: &Settings) -> Option<ListenerRow> {
    settings.listen.nodes.listen?;
    Some(ListenerRow {
        protocol: CLUSTERING.to_owned(),
        address: settings.listen.nodes.reached_at(),
        name: "nodes.listen".to_owned(),
        terms: vec!["TLS of the cluster".to_owned()],
    })
}

/// Refuses settings for which no node can follow.
pub(crate) fn check(settings: &Settings) -> Result<(), Failure> {
    let nodes = &settings.listen.nodes;
    let durability = settings.store.durability;
    if nodes.listen.is_some() && durability == Durability::Memory {
        return Err(Exit::Config.because("nodes.listen: with durability memory there is nothing to follow"));
    }
    let why = match nodes.confirms_wait {
        Waits::Never => return Ok(()),
        _ if nodes.listen.is_none() => "no node can follow, since nodes.listen is not set",
        _ if durability != Durability::Fsync => "only what is flushed is sent to others, so durability must be fsync",
        _ => return Ok(()),
    };
    Err(Exit::Config.because(format!("nodes.confirms_wait: {why}")))
}

/// Refuses to serve a data directory that follows another node, or whose place another one has.
/// Finishes a copy that was being put into it.
pub(crate) fn may_serve(directory: &Path) -> Result<Standing, Failure> {
    let failed = |error: std::io::Error| Exit::Io.because(format!("{}: {error}", directory.display()));
    let standing = Standing::load(directory).map_err(failed)?;
    match &standing.role {
        Role::Serves => {
            nodes::finish_swap(directory).map_err(failed)?;
            Ok(standing)
        }
        Role::Follows(leader) => Err(Exit::Config.because(format!(
            "{} follows the node at {leader}: run hermod standby, and hermod promote when it is to take over",
            directory.display()
        ))),
        Role::Replaced { by, address } => Err(Exit::Config.because(replaced(standing.term, by, address))),
    }
}

/// Asks the nodes that have followed this one whether one of them was promoted meanwhile. Then this
/// one does not serve.
pub(crate) fn ask_peers(settings: &Settings, directory: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Exit::Io.because(format!("{}: {error}", directory.display()));
    let Some(identity) = Identity::load(directory).map_err(failed)? else { return Ok(()) };
    let standing = Standing::load(directory).map_err(failed)?;
    let me = hello(settings, &identity, &standing);
    for address in identity.peers().map_err(failed)? {
        let credentials = Credentials::of(&identity).map_err(failed)?;
        match nodes::ask(&address, &credentials, &me) {
            Ok(Some(other)) if other.term > standing.term => {
                let role = Role::Replaced { by: other.name.clone(), address: address.clone() };
                Standing { term: other.term, role, to_tell: None }.keep(directory).map_err(failed)?;
                return Err(Exit::Config.because(replaced(other.term, &other.name, &address)));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!("the node at {address} can't be asked whether it serves: {error}"),
        }
    }
    Ok(())
}

/// What a node says that was replaced.
fn replaced(term: u64, by: &str, address: &str) -> String {
    let from = if address.is_empty() { "ITS-ADDRESS" } else { address };
    format!(
        "this node does not serve: {by} has taken its place in term {term}; run hermod standby --from {from} --replace to follow \
         it, or hermod cluster reinstate if that one never served"
    )
}

/// What a broker has to do with other nodes, while it serves.
#[derive(Default)]
pub(crate) struct Links {
    listener: Option<Listener>,
    teller: Option<Worker>,
    fence: Arc<Fence>,
}

/// What becomes of this node.
#[derive(Default)]
struct Fence {
    replaced: Mutex<Option<Replaced>>,
    told: Notify,
    /// It takes nothing any more.
    quiet: AtomicBool,
}

impl Links {
    /// Opens the listener, if the settings want one, and tells the node that this one has taken the
    /// place of. Before clients are let in: their confirms may have to wait for a follower.
    pub(crate) fn start(
        settings: &Settings,
        directory: &Path,
        (standing, begins): (&Standing, Begins),
        broker: &Broker,
    ) -> Result<Self, Failure> {
        let mut links = Self::default();
        let failed = |error: std::io::Error| Exit::System.because(format!("nodes.listen: {error}"));
        let identity = Identity::load(directory).map_err(failed)?;
        let identity = match (identity, settings.listen.nodes.listen) {
            (None, Some(_)) => Some(Identity::create(directory).map_err(failed)?),
            (identity, _) => identity,
        };
        let Some(identity) = identity else { return Ok(links) };
        let hello = hello(settings, &identity, standing);
        if let Some(address) = standing.to_tell.clone() {
            let credentials = Credentials::of(&identity).map_err(failed)?;
            links.teller = Some(tell(directory, address, credentials, hello.clone()).map_err(failed)?);
        }
        if let Some(listen) = settings.listen.nodes.listen {
            let socket = TcpListener::bind(listen)
                .map_err(|error| Exit::System.because(format!("nodes.listen: {listen}: {error}")))?;
            let serving = serving((identity, hello), settings, directory, broker, (&links.fence, begins));
            links.listener = Some(Listener::start(socket, serving).map_err(failed)?);
        }
        Ok(links)
    }

    /// Shows management who follows, and what confirms rest on.
    pub(crate) fn show(&self, source: &Source) {
        if let Some(followers) = self.listener.as_ref().map(Listener::followers) {
            source.show_cluster(move || cluster(&followers));
        }
    }

    /// Ends when this node is replaced.
    pub(crate) fn replaced(&self) -> impl Future<Output = ()> {
        let fence = Arc::clone(&self.fence);
        async move { fence.told.notified().await }
    }

    /// Once nothing is taken from clients any more: lets the node that takes over have the rest, if
    /// it asked for that. Then ends all connections.
    pub(crate) fn stop(&mut self) {
        let is_planned = self.fence.replaced.lock().as_ref().is_some_and(|by| by.planned);
        if let Some(listener) = self.listener.take() {
            if is_planned {
                self.fence.quiet.store(true, Ordering::Release);
                let until = Instant::now() + PATIENCE;
                while !listener.has_handed_over() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(2));
                }
                if listener.has_handed_over() {
                    tracing::info!(target: START, "everything is handed over");
                } else {
                    tracing::error!("the node that was to take over has not taken the rest within {PATIENCE:?}");
                }
            }
            listener.stop();
        }
        if let Some(teller) = self.teller.take() {
            teller.stop();
        }
    }

    /// How the server ends, if this node was replaced.
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        match &*self.fence.replaced.lock() {
            None => Ok(()),
            Some(Replaced { by, planned }) => {
                let term = if *planned { by.term + 1 } else { by.term };
                Err(Exit::Config.because(replaced(term, &by.name, &by.address)))
            }
        }
    }
}

/// How this node greets others.
pub(crate) fn hello(settings: &Settings, identity: &Identity, standing: &Standing) -> Hello {
    Hello {
        format: nodes::FORMAT,
        cluster: identity.cluster,
        node: identity.node,
        term: standing.term,
        name: settings.node_name(),
        address: settings.listen.nodes.reached_at(),
    }
}

/// What this node is to others.
fn cluster(followers: &Followers) -> ClusterStatus {
    let row = |status: nodes::FollowerStatus| FollowerRow {
        name: status.name,
        node: status.node.to_string(),
        address: status.address.to_string(),
        state: match status.doing {
            Doing::Copying => "copying",
            Doing::Following => "following",
            Doing::Away => "away",
        }
        .to_owned(),
        lag_entries: status.entries,
        lag_bytes: status.bytes,
        kept_bytes: status.kept_bytes,
        lag_ms: status.behind_ms,
    };
    let Hello { term, address, .. } = followers.leader();
    let (confirms, waited) = followers.confirms();
    let confirms = match confirms {
        Confirms::Local => "local",
        Confirms::Replicated => "replicated",
        Confirms::Waiting => "waiting",
        Confirms::Alone => "alone",
    };
    ClusterStatus {
        term: *term,
        nodes_address: address.clone(),
        confirms: confirms.to_owned(),
        confirms_waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        followers: followers.list().into_iter().map(row).collect(),
        ..ClusterStatus::default()
    }
}

/// The journal of a broker, which may wait for a follower.
struct JournalOf(Broker);

impl Awaiting for JournalOf {
    fn await_follower(&self, awaited: Awaited) {
        self.0.await_follower(awaited);
    }

    fn waiting(&self) -> Waiting {
        self.0.waiting()
    }

    fn confirm(&self, ends: &[(LogId, u64)]) {
        self.0.confirm(ends);
    }

    fn shared_ends(&self, theirs: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError> {
        self.0.shared_ends(theirs)
    }
}

fn serving(
    (identity, hello): (Identity, Hello),
    settings: &Settings,
    directory: &Path,
    broker: &Broker,
    (fence, begins): (&Arc<Fence>, Begins),
) -> Serving {
    let nodes = &settings.listen.nodes;
    let most_kept = nodes.keep.unwrap_or_else(|| broker.overview().journal.max_bytes / 2);
    let confirming = Confirming::begin(nodes.confirms_wait, begins, Box::new(JournalOf(broker.clone())));
    let [feeding, copying, keeping_log] = [(); 3].map(|()| broker.clone());
    let (keeping, asking, data) = (Arc::clone(fence), Arc::clone(fence), directory.to_owned());
    Serving {
        identity,
        hello,
        feed: Box::new(move |ends| feeding.feed(ends)),
        backup: Box::new(move |to| copying.backup(to)),
        keep: Box::new(move |most| keeping_log.keep_log(most)),
        most_kept,
        confirming,
        replaced: Box::new(move |by| keep(&data, &keeping, by)),
        is_quiet: Box::new(move || asking.quiet.load(Ordering::Acquire)),
    }
}

/// Keeps that another node takes the place of this one.
fn keep(data: &Path, fence: &Fence, by: Replaced) -> std::io::Result<()> {
    let mut replaced = fence.replaced.lock();
    if replaced.is_none() {
        let term = if by.planned { by.by.term + 1 } else { by.by.term };
        let role = Role::Replaced { by: by.by.name.clone(), address: by.by.address.clone() };
        Standing { term, role, to_tell: None }.keep(data)?;
        *replaced = Some(by);
        fence.told.notify_one();
    }
    Ok(())
}

/// Tells a node that it was replaced, until it has heard.
fn tell(directory: &Path, address: String, credentials: Credentials, me: Hello) -> std::io::Result<Worker> {
    let (data, mut wait, mut told): (PathBuf, _, bool) = (directory.to_owned(), TELL.0, false);
    Worker::start("hermod-teller", move |_| {
        if told {
            return Rest::UntilWoken;
        }
        match nodes::tell(&address, &credentials, &me) {
            Ok(true) => {
                tracing::info!("the node at {address} has heard that this one serves in term {}", me.term);
                let kept = Standing { term: me.term, role: Role::Serves, to_tell: None }.keep(&data);
                if let Err(error) = kept {
                    tracing::warn!("that can't be kept, so it will be told again: {error}");
                }
                told = true;
                return Rest::UntilWoken;
            }
            Ok(false) => tracing::warn!("the node at {address} does not take it that this one has replaced it"),
            Err(error) => tracing::debug!("the node at {address} can't be told that it is replaced: {error}"),
        }
        wait = (wait * 2).min(TELL.1);
        Rest::For(wait)
    })
}
