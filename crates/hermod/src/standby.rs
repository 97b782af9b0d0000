//! `hermod standby`: a node that follows another, until it is promoted or told to stop.
//!
//! One thread follows ([`following`]). Another answers the control socket and probes. Invariant:
//! the node serves no client before its term is raised and kept, and it has stopped following.

mod following;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use management::{Hosts, Promotion, RecentLog, StandbyHooks, StandbyServer};
use nodes::{Begins, Identity, Role, Standing, Token};

use self::following::{Following, Follows, Order};
use crate::config::{Config, Durability, Settings};
use crate::exit::{Exit, Failure};
use crate::log::START;
use crate::serve::{self, Begun};
use crate::signals::{Ended, Signals};
use crate::tls::AllCertificates;
use crate::{data_dir, links, listeners, log, machine, notify};

/// What the command line says.
pub(crate) struct Wanted {
    /// The node to follow; none for the one that was followed last, or that of the token.
    pub(crate) from: Option<String>,
    /// An invitation, for a node that is of no cluster yet.
    pub(crate) token: Option<String>,
    /// Whether what is in the data directory may be replaced by a new copy.
    pub(crate) replace: Replace,
}

/// Whether a copy is begun although the directory has contents of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    /// Yes: what is there is given up.
    Yes,
    /// Only if what comes next has left the leader's log.
    IfGone,
}

/// Follows until the process is told to stop, or serves once the node is promoted.
pub(crate) fn run(
    config: Config,
    reread: impl Fn() -> Result<Config, Failure>,
    wanted: &Wanted,
) -> Result<(), Failure> {
    if cfg!(not(unix)) {
        let text =
            "hermod standby: this system has no control socket, by which a standby is promoted; use Linux or macOS";
        return Err(Exit::Usage.because(text));
    }
    let recent = Arc::<RecentLog>::default();
    let level = log::start(&config.settings, &recent)?;
    let mut signals = Signals::catch()?;
    let directory = data_dir::data_dir(&config.settings)?;
    let follows = prepare(&config.settings, &directory, wanted)?;
    let began = Instant::now();
    let following = Following::start(follows, &config.settings).map_err(|error| system(&error))?;
    let certificates = certificates(&config.settings);
    let server = watch(&config, &directory, &following, &certificates)?;
    let (version, process, leader) = (env!("CARGO_PKG_VERSION"), std::process::id(), following.leader());
    tracing::info!(target: START, "Hermod {version}, process {process}: follows {leader}; it serves no clients");
    notify::ready(&format!("follows {}", following.leader()));
    let reload = || {
        log::reopen();
        certificates.reload();
    };
    let ended = signals.wait(reload, following.promoted());
    if let Ended::BySignal(signal) = ended {
        tracing::info!(target: START, "{signal}: stopping");
        notify::stopping("stopping");
        server.stop();
        following.stop()?;
        tracing::info!(target: START, "Server stopped");
        log::settle();
        return Ok(());
    }
    // The one that asked over the control socket has its answer before that goes.
    std::thread::sleep(std::time::Duration::from_millis(50));
    server.stop();
    let begins = Begins::Promoted;
    let begun = Begun { started: began, recent, level, signals, directory, begins };
    serve::serve(config, reread, begun, |_, _| Ok((following.broker()?, None)), |_, _| Ok(()))
}

fn system(error: &std::io::Error) -> Failure {
    Exit::System.because(format!("the operating system refuses a thread or a socket: {error}"))
}

/// The certificates of listeners. A node that follows goes on without them, and says so.
fn certificates(settings: &Settings) -> AllCertificates {
    AllCertificates::load(&settings.listen.all).unwrap_or_else(|failure| {
        tracing::error!("HTTPS is not served, and this node could not be promoted: {}", failure.text);
        AllCertificates::default()
    })
}

/// Finds out which node this is, and which one it follows.
fn prepare(settings: &Settings, directory: &Path, wanted: &Wanted) -> Result<Follows, Failure> {
    let failed = |error: std::io::Error| Exit::Io.because(format!("{}: {error}", directory.display()));
    if settings.store.durability != Durability::Fsync {
        let what = "a standby keeps what it has with durability = fsync only: what is not flushed can't be promoted";
        return Err(Exit::Config.because(what));
    }
    links::check(settings)?;
    data_dir::sweep(settings)?;
    let token = wanted.token.as_deref().map(Token::read).transpose();
    let token = token.map_err(|what| Exit::Usage.because(format!("--token: {what}")))?;
    let identity = match (Identity::load(directory).map_err(failed)?, &token) {
        (Some(identity), _) => identity,
        (None, Some(token)) => nodes::join(token, directory).map_err(|error| {
            Exit::NoPermission.because(format!("the node at {} lets this one not in: {error}", token.address))
        })?,
        (None, None) => {
            let what = "this node is of no cluster: make a token on the other one with hermod cluster invite, and name it \
                        with --token";
            return Err(Exit::Usage.because(what));
        }
    };
    nodes::finish_swap(directory).map_err(failed)?;
    let standing = Standing::load(directory).map_err(failed)?;
    let known = match &standing.role {
        Role::Follows(leader) => Some(leader.clone()),
        Role::Replaced { address, .. } if !address.is_empty() => Some(address.clone()),
        Role::Replaced { .. } | Role::Serves => None,
    };
    let leader = wanted.from.clone().or(token.map(|token| token.address)).or(known).ok_or_else(|| {
        Exit::Usage.because("which node to follow is not known: name its address and port with --from")
    })?;
    let has_served = directory.join("FORMAT").exists() && !matches!(standing.role, Role::Follows(_));
    if has_served && wanted.replace == Replace::IfGone {
        return Err(Exit::BadData.because(format!(
            "{} has served clients, and may have what {leader} does not have: add --replace to give it up for a copy of that \
             node, or name an empty --data-dir",
            directory.display()
        )));
    }
    let standing = Standing { role: Role::Follows(leader.clone()), to_tell: None, ..standing };
    // With contents that are given up, the role changes when the copy has taken their place.
    if !has_served {
        standing.keep(directory).map_err(failed)?;
    }
    let me = links::hello(settings, &identity, &standing);
    let data = directory.to_owned();
    Ok(Follows { data, leader, identity, me, standing, replace: wanted.replace })
}

/// Opens the control socket, and HTTP at the ports that it has when it serves.
fn watch(
    config: &Config,
    directory: &Path,
    following: &Following,
    certificates: &AllCertificates,
) -> Result<StandbyServer, Failure> {
    let (status, orders, users) = (following.shared(), following.shared(), following.shared());
    let hooks = StandbyHooks {
        status: Box::new(move || status.status()),
        promote: Box::new(move |promotion| {
            orders.order(match promotion {
                Promotion::Now => Order::Promote,
                Promotion::Planned => Order::HandOver,
            })
        }),
        authority: Box::new(move || users.authority()),
    };
    let control = data_dir::control_socket(&config.settings)?;
    let http = listeners::for_standby(&config.settings, certificates);
    let hosts = Hosts::new(&machine::name(), config.settings.http.hosts.clone());
    StandbyServer::start(http, hosts, cfg!(unix).then_some(control), hooks)
        .map_err(|error| Exit::System.because(format!("{}: {error}", directory.display())))
}
