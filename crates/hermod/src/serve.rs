//! `hermod serve`: journal and broker, protocols, listeners, management; closed in reverse.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use auth::sasl::Mechanism;
use auth::{AuthoritySettings, FailureLimits};
use broker::{Broker, OpenError, Parts, SystemClock};
use journal::{Disk, Lock, Progress, RealDisk};
use management::{
    BackupRow, Encryption, Endpoints, Facts, ListenerRow, Management, Network, RecentLog, Setting, Socket, Source,
    Watch,
};
use net::Net;
use nodes::Begins;

use crate::config::value::Amount;
use crate::config::{Config, Described, Durability, Listening, Origin, Settings, value};
use crate::exit::{Exit, Failure};
use crate::links::{self, Links};
use crate::log::START;
use crate::manual::MANUAL;
use crate::protocols::{self, Around, SERVED};
use crate::signals::{Ended, Signals};
use crate::tls::AllCertificates;
use crate::worker::Worker;
use crate::{
    backup, data_dir, housekeeper, listeners, log, logins, machine, notify, pager, refresh, secrets, shovels, tasks,
};

/// Files that the broker itself may have open: those of the log, segments that are being read, and
/// listeners.
const KEPT_DESCRIPTORS: usize = 96;
/// The most HTTP connections at the same time. Each may wait for an answer of some megabytes, and
/// tools need few.
const MOST_HTTP_CONNECTIONS: usize = 256;
/// Bytes that may be received after an incomplete frame.
const INPUT_SLACK: usize = 64 * 1024;
/// Enough for a few tools of an administrator.
const LEAST_RESERVE: u64 = 4;
/// The share of the memory that `memory.limit` is by default.
const USUAL_SHARE: Amount = Amount::Share(400);
/// The range within which `memory.budget` follows `memory.limit`.
const LEAST_BUDGET: u64 = 32 << 20;
const MOST_BUDGET: u64 = 8 << 30;

/// What a process has before its broker serves.
pub(crate) struct Begun {
    /// When it was started.
    pub(crate) started: Instant,
    /// The last lines of the log, and how its level is changed.
    pub(crate) recent: Arc<RecentLog>,
    pub(crate) level: log::Level,
    pub(crate) signals: Signals,
    /// Of the data.
    pub(crate) directory: PathBuf,
    /// Whether it was promoted just now.
    pub(crate) begins: Begins,
}

/// Runs the broker until it is told to stop. `reread` reads the settings again; `serving` is called
/// once the broker serves.
pub(crate) fn run(
    config: Config,
    reread: impl Fn() -> Result<Config, Failure>,
    accept_damage: Option<&str>,
    serving: impl FnOnce(&Settings, &Facts) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let recent = Arc::<RecentLog>::default();
    let level = log::start(&config.settings, &recent)?;
    without_effect(&config).iter().for_each(|warning| tracing::warn!("of no effect: {warning}"));
    let signals = Signals::catch()?;
    let directory = data_dir::data_dir(&config.settings)?;
    links::check(&config.settings)?;
    links::may_serve(&directory)?;
    links::ask_peers(&config.settings, &directory)?;
    let begun = Begun { started, recent, level, signals, directory, begins: Begins::Waiting };
    serve(config, reread, begun, |settings, directory| open_telling(settings, directory, accept_damage), serving)
}

/// Serves the broker that `open` opens, with the lock of its directory, once all ports are bound.
pub(crate) fn serve(
    config: Config,
    reread: impl Fn() -> Result<Config, Failure>,
    begun: Begun,
    open: impl FnOnce(&Settings, &Path) -> Result<(Broker, Option<Lock>), Failure>,
    serving: impl FnOnce(&Settings, &Facts) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Begun { started, recent, level, mut signals, directory, begins } = begun;
    let settings = &config.settings;
    let certificates = Arc::new(AllCertificates::load(&settings.listen.all)?);
    let bound = listeners::bind(&config)?;
    let (broker, _lock) = open(settings, &directory)?;
    warn_of_short_disk(settings, &broker);
    let watch = Arc::new(Watch::default());
    let workers = start_workers(settings, &broker, &watch).map_err(|error| thread_failure(&error))?;
    let net = Net::start(io_threads(settings), net_settings(settings)).map_err(|error| thread_failure(&error))?;
    let (entrances, mut rows, endpoints) =
        listeners::furnish(settings, &broker, bound, &certificates, http_limits(settings));
    rows.extend(links::listener(settings));
    let facts = Facts { recent, ..facts(settings, &directory, rows, started) };
    let source = Arc::new(Source::new(
        broker.clone(),
        facts.clone(),
        network_of(&net, certificates.clone(), watch),
        copying(&broker, &directory),
        protocols::encode,
    ));
    tell(&source, &config)?;
    define(settings, &source)?;
    let mut links = Links::start(settings, &directory, (&links::may_serve(&directory)?, begins), &broker)?;
    links.show(&source);
    // Listeners open only after the import. An earlier client would find only some of the
    // definitions, and a user of theirs could not log in.
    entrances.into_iter().try_for_each(|entrance| entrance.open(&net)).map_err(|error| thread_failure(&error))?;
    let control = data_dir::control_socket(settings)?;
    let shovels = start_shovels(&source, &broker, settings, &net)?;
    let management = manage(&source, endpoints, &control)?;
    let protocols = start_protocols(settings, &broker, &net, &facts)?;
    source.start_serving();
    announce(settings, &facts);
    serving(settings, &facts)?;

    let adopted = RefCell::new(settings.clone());
    let reload = || {
        log::reopen();
        certificates.reload();
        match reread() {
            Ok(now) => {
                adopt(&broker, &adopted.replace(now.settings.clone()), &now.settings);
                compare(&config, &now, &level);
                let both = config.described.iter().zip(&now.described);
                let settings = both.map(|(was, is)| in_force(if TAKEN_UP.contains(&was.name) { is } else { was }));
                source.show_settings(settings.collect());
            }
            Err(failure) => tracing::error!("SIGHUP: the settings stay as they are: {}", failure.text),
        }
    };
    let ended = signals.wait(reload, links.replaced());
    tell_stop(ended, settings);
    source.stop_serving();
    shovels.stop();
    end_connections(net, settings);
    management.stop();
    // The housekeeping has what is left flushed, so it goes on until then.
    links.stop();
    workers.into_iter().chain(protocols).for_each(Worker::stop);
    close(broker)?;
    links.outcome()
}

/// Ends connections, and says how many did not end by themselves.
fn end_connections(net: Net, settings: &Settings) {
    let cut = net.shutdown(settings.shutdown_timeout);
    if cut > 0 {
        tracing::warn!(connections = cut, "cut off: they did not end within shutdown_timeout");
    }
}

/// Says why the server stops.
fn tell_stop(ended: Ended, settings: &Settings) {
    let why = match ended {
        Ended::BySignal(signal) => signal,
        Ended::ByOther => "another node takes the place of this one",
    };
    tracing::info!(target: START, "{why}: stopping; connections have {:?}", settings.shutdown_timeout);
    notify::stopping(&format!("stopping; connections have {:?}", settings.shutdown_timeout));
}

/// Starts the thread of the shovels, whose states management shows from now on.
fn start_shovels(source: &Source, broker: &Broker, settings: &Settings, net: &Net) -> Result<shovels::Thread, Failure> {
    let shovels = shovels::Thread::start(broker, settings, net).map_err(|error| thread_failure(&error))?;
    source.show_shovels(shovels.states());
    Ok(shovels)
}

/// Closes the broker after everything that uses it.
fn close(broker: Broker) -> Result<(), Failure> {
    broker.close().map_err(|error| {
        Exit::Io.because(format!("the journal cannot be closed: {error}; what was confirmed is stored"))
    })?;
    tracing::info!(target: START, "Server stopped");
    log::settle();
    Ok(())
}

/// Tells management what the settings say of it.
fn tell(source: &Source, config: &Config) -> Result<(), Failure> {
    source.show_settings(config.described.iter().map(in_force).collect());
    if let Some(sign_on) = logins::sign_on(&config.settings)? {
        source.lead_to(sign_on);
    }
    Ok(())
}

/// Starts the scrub, and the threads for all that happens without a request.
fn start_workers(settings: &Settings, broker: &Broker, watch: &Arc<Watch>) -> std::io::Result<Vec<Worker>> {
    broker.scrub(settings.store.journal.scrub);
    let always = [
        housekeeper::start(broker.clone(), watch.clone())?,
        pager::start(broker.clone())?,
        tasks::start(broker.clone())?,
    ];
    Ok(always.into_iter().chain(refresh::start(broker.clone())?).collect())
}

/// Starts the threads that protocols have of their own.
fn start_protocols(settings: &Settings, broker: &Broker, net: &Net, facts: &Facts) -> Result<Vec<Worker>, Failure> {
    let around = Around { broker, registry: net.registry(), facts };
    let started = settings.protocols.iter().filter_map(|own| own.start(&around).transpose());
    started.collect::<std::io::Result<_>>().map_err(|error| thread_failure(&error))
}

/// Facts for management that do not change.
fn facts(settings: &Settings, directory: &Path, listeners: Vec<ListenerRow>, started: Instant) -> Facts {
    Facts {
        product: settings.compat.product.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        compat_version: settings.compat.version.clone(),
        node: settings.node_name(),
        data_dir: directory.display().to_string(),
        durability: settings.store.durability.name().to_owned(),
        listeners,
        protocols: SERVED.iter().map(|served| served.names).collect(),
        started,
        recent: Arc::default(),
        manual: MANUAL,
    }
}

/// A setting as management shows it.
fn in_force(setting: &Described) -> Setting {
    Setting { name: setting.name, value: setting.shown().to_owned(), origin: setting.origin.to_string() }
}

/// Imports the definitions that the settings name. Those of a directory come in the order of their
/// names.
fn define(settings: &Settings, source: &Source) -> Result<(), Failure> {
    let Some(path) = &settings.definitions else { return Ok(()) };
    if !path.is_dir() {
        return define_file(path, source);
    }
    let wrong = |what: &dyn std::fmt::Display| Exit::Config.because(format!("definitions: {}: {what}", path.display()));
    let entries = std::fs::read_dir(path).map_err(|error| wrong(&error))?;
    let mut files =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(|error| wrong(&error))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    if files.is_empty() {
        return Err(wrong(&"the directory has no file whose name ends in .json"));
    }
    files.iter().try_for_each(|file| define_file(file, source))
}

fn define_file(file: &Path, source: &Source) -> Result<(), Failure> {
    let wrong = |what: &dyn std::fmt::Display| Exit::Config.because(format!("definitions: {}: {what}", file.display()));
    let document = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let imported = source
        .define(&document, "the setting definitions")
        .map_err(|refused| Failure { items: refused.items, ..wrong(&refused.text) })?;
    imported.notes.iter().for_each(|note| tracing::info!("definitions: {note}"));
    tracing::info!(definitions = imported.taken, file = %file.display(), "definitions taken over");
    Ok(())
}

/// Settings that SIGHUP applies while the server runs.
const TAKEN_UP: [&str; 7] = [
    "disk.free_limit",
    "disk.limit",
    "limits.channel_max",
    "limits.user_memory",
    "log.level",
    "loopback_users",
    "memory.limit",
];

/// Applies those of them that the broker has. Limits of memory and disk change at once, the others
/// for later connections and log-ins. A limit that was set by hand stays, unless its setting
/// changed.
fn adopt(broker: &Broker, before: &Settings, settings: &Settings) {
    let (memory, limits) = (memory_limit(settings), |of: &Settings| of.store.disk.limits(machine::memory()));
    if memory != memory_limit(before) {
        broker.set_memory_limit(memory);
    }
    if limits(settings) != limits(before) {
        broker.set_disk_limits(limits(settings));
    }
    broker.set_user_memory(settings.limits.held.of_user);
    broker.set_sessions_per_connection(narrow(settings.limits.channel_max));
    broker.authority().set_loopback_users(settings.users.loopback.iter().cloned().collect());
    broker.authority().forget_answers();
}

/// Sets the log's level, and logs which other settings differ from the start.
fn compare(before: &Config, now: &Config, level: &log::Level) {
    if let Err(failure) = level(&now.settings) {
        tracing::error!("SIGHUP: {}", failure.text);
    }
    for (was, is) in before.described.iter().zip(&now.described) {
        match was.name {
            _ if was.value == is.value => {}
            name if TAKEN_UP.contains(&name) => tracing::info!(target: START, "SIGHUP: {name} is {}", is.value),
            name => tracing::warn!("SIGHUP: {name} is {} from the next start on; it stays {} now", is.value, was.value),
        }
    }
    let own = |config: &Config| -> Vec<_> {
        // Where it is written may change.
        let own = config.settings.listen.all.iter().filter(|listening| listening.is_own());
        own.map(|listening| Listening { origin: Origin::Default, ..listening.clone() }).collect()
    };
    if own(before) != own(now) {
        tracing::warn!(
            "SIGHUP: [[listeners]] are other ones from the next start on; those that are open stay as they are"
        );
    }
}

/// Opens the broker, and tells how far that has come.
fn open_telling(
    settings: &Settings,
    directory: &Path,
    accept_damage: Option<&str>,
) -> Result<(Broker, Option<Lock>), Failure> {
    let progress = Arc::<Progress>::default();
    let starting = notify::starting(progress.clone()).map_err(|error| thread_failure(&error))?;
    let opened = open(settings, directory, (accept_damage, progress));
    starting.stop();
    opened
}

/// Opens the broker. A journal that writes nothing does not lock the directory, so then the second
/// result holds the lock.
///
/// With `accept_damage`, a log that is damaged in that file is first ended before the damage.
fn open(
    settings: &Settings,
    directory: &Path,
    (accept_damage, progress): (Option<&str>, Arc<Progress>),
) -> Result<(Broker, Option<Lock>), Failure> {
    let path = directory.display();
    let unusable = |error| Exit::Io.because(format!("{path}: the data directory cannot be used: {error}"));
    let mut disk = RealDisk::open(directory).map_err(unusable)?;
    if settings.store.durability == Durability::Fsync {
        disk = disk.past_the_cache();
    }
    data_dir::sweep(settings)?;
    let mut lock = None;
    if settings.store.durability == Durability::Memory {
        lock = disk.lock().map_err(unusable)?;
        if lock.is_none() {
            return Err(Exit::TryAgain.because(format!("{path}: {}", journal::OpenError::Locked)));
        }
    }
    let refused = |error: OpenError| {
        let exit = match &error {
            OpenError::Journal(journal::OpenError::Locked) => Exit::TryAgain,
            OpenError::Journal(journal::OpenError::Io { .. }) => Exit::Io,
            OpenError::Journal(_) | OpenError::Damaged(_) => Exit::BadData,
            OpenError::DefaultUser(_) => Exit::Config,
        };
        exit.because(format!("{path}: {error}"))
    };
    if let Some(file) = accept_damage.filter(|_| settings.store.durability != Durability::Memory) {
        leave_out(&disk, file).map_err(|error| refused(error.into()))?;
    }
    let broker = Broker::open_with(parts(settings, disk, progress)?, |opened, live, owners, on_failure| {
        if let Some(cut) = opened.cut() {
            tell_cut(cut);
        }
        opened.start(live, owners, on_failure)
    });
    let broker = broker.map_err(refused)?;
    Ok((broker, lock))
}

/// Logs what the start has cut off at the end of the log.
pub(crate) fn tell_cut(cut: &journal::Cut) {
    let journal::Cut { file, offset, sequence, batches } = cut;
    tracing::warn!(
        "the log ends in {file} at byte {offset}: batch {sequence} does not read back and is cut off, with the {batches} \
         batches from there on whose headers are whole; nothing of them was confirmed, unless the disk has lost what it \
         said was flushed"
    );
}

/// Ends a damaged log before the damage in `file`, and logs what is lost with it.
fn leave_out(disk: &RealDisk, file: &str) -> Result<(), journal::OpenError> {
    match journal::accept_damage(disk, file)? {
        None => tracing::warn!("--accept-damage {file}: the log is not damaged; nothing is left out"),
        Some(journal::LeftOut { end: (name, offset), last_sequence, batches, last_left_out }) => tracing::warn!(
            "--accept-damage {file}: the log ends in {name} at byte {offset} now, after batch {last_sequence}; {batches} whole \
             batches behind it, up to batch {last_left_out}, are gone with those that were damaged, and with them what was \
             confirmed, acknowledged and declared there"
        ),
    }
    Ok(())
}

/// What a broker is opened with, over this disk.
pub(crate) fn parts(settings: &Settings, disk: RealDisk, progress: Arc<Progress>) -> Result<Parts, Failure> {
    Ok(Parts {
        disk: Arc::new(disk),
        journal: journal::Options {
            durability: journal_class(settings.store.durability),
            // The ranges are checked where the settings are declared.
            file_bytes: u32::try_from(settings.store.journal.file_bytes).unwrap_or(u32::MAX),
            max_bytes: settings.store.journal.max_bytes,
            incarnation: u64::from_ne_bytes(secrets::random()?),
            progress,
            ..journal::Options::default()
        },
        on_journal_failure: Box::new(end_without_journal),
        settings: broker_settings(settings),
        authority: AuthoritySettings {
            loopback_users: settings.users.loopback.iter().cloned().collect::<BTreeSet<_>>(),
            plan: logins::plan(settings)?,
            scram: settings.users.mechanisms.contains(&Mechanism::ScramSha256),
            failures: FailureLimits {
                per_address: narrow(settings.strangers.failed_logins_per_address),
                per_user: narrow(settings.strangers.failed_logins_per_user),
            },
            boot_key: secrets::random()?,
            decoy_key: secrets::random()?,
        },
        dialects: protocols::dialects(),
        clock: Arc::new(SystemClock),
        name_key: secrets::random()?,
        // With definitions, all users come from them.
        default_vhost: settings.users.first.vhost.clone(),
        default_user: match settings.definitions {
            Some(_) => None,
            None => Some(secrets::default_user(&settings.users)?),
        },
        salt: secrets::random()?,
    })
}

/// Ends the server, because nothing can be confirmed any more. A second flush would not bring back
/// what the first one lost: only a restart helps.
fn end_without_journal(error: &std::io::Error) {
    tracing::error!(%error, "the journal cannot be written any more; the server ends so that it confirms nothing it has lost");
    log::settle();
    std::process::exit(Exit::Io.code().into());
}

fn journal_class(class: Durability) -> journal::Durability {
    match class {
        Durability::Fsync => journal::Durability::Fsync,
        Durability::Os => journal::Durability::Os,
        Durability::Memory => journal::Durability::Memory,
    }
}

fn broker_settings(settings: &Settings) -> broker::Settings {
    let (limits, flow) = (&settings.limits, &settings.flow);
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let memory_limit = memory_limit(settings);
    let (connections, _) = connections(settings);
    broker::Settings {
        names: broker::NodeNames { node: settings.node_name(), cluster: settings.cluster_name() },
        unknown_arguments: settings.compat.unknown_arguments,
        counted_returns: settings.compat.counted_returns,
        limits: broker::Limits {
            max_message_bytes: limits.max_message_size,
            sessions_per_connection: narrow(limits.channel_max),
            consumers: broker::ConsumerLimits {
                per_session: narrow(limits.consumers.per_channel),
                per_connection: narrow(limits.consumers.per_connection),
                per_queue: narrow(limits.consumers.per_queue),
            },
            declarations: broker::DeclarationLimits {
                each_bytes: limits.declarations.each,
                all_bytes: limits.declarations.all,
                user_bytes: limits.declarations.of_user,
            },
            unsettled: narrow(limits.unacked),
            queues: limits.objects.queues,
            exchanges: limits.objects.exchanges,
            bindings: limits.objects.bindings,
            vhosts: limits.objects.vhosts,
            connections,
            reserved_connections: limits.connections.reserved.unwrap_or_else(|| reserve(connections)),
            vhost_share: narrow(limits.connections.vhost_share),
            user_share: narrow(limits.connections.user_share),
            transaction_bytes: limits.transaction_bytes,
            cc_keys: narrow(limits.cc_keys),
        },
        disk_limits: settings.store.disk.limits(machine::memory()),
        retained: broker::RetainedLimits { messages: limits.objects.retained.0, bytes: limits.objects.retained.1 },
        memory_limit,
        connection_memory: limits.held.of_connection,
        user_memory: limits.held.of_user,
        memory_budget: settings.memory.budget.unwrap_or_else(|| (memory_limit / 2).clamp(LEAST_BUDGET, MOST_BUDGET)),
        mailbox_bytes: size(flow.mailbox_bytes),
        parking: broker::ParkingLimits { timeout: flow.park_timeout, bytes: size(flow.park_bytes) },
        body_timeout: Some(limits.body_timeout).filter(|timeout| !timeout.is_zero()),
        consumer_timeout: flow.consumer_timeout,
        lag_bytes: flow.lag_bytes,
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn net_settings(settings: &Settings) -> net::Settings {
    let limits = &settings.limits;
    let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
    let (connections, pending) = connections(settings);
    net::Settings {
        write_timeout: settings.listen.tcp.write_timeout,
        detect_timeout: limits.handshake_timeout,
        tls_timeout: settings.listen.tls.handshake_timeout,
        keepalive: Some(settings.listen.tcp.keepalive).filter(|idle| !idle.is_zero()),
        // Connections that have not authenticated are counted in addition, so that they take no
        // place of the others. The last of those are reserved for administrators.
        connections: size(connections + pending),
        pending: size(pending),
        connects_per_address: narrow(settings.strangers.connects_per_address),
        pending_per_address: size(limits.connections.pending_per_address),
        // A frame is the largest unit that a protocol needs as a whole. Protocols gather bodies
        // themselves.
        input_limit: size(limits.frame_max) + INPUT_SLACK,
        spin: settings.io.spin,
        aside_threads: logins::aside_threads(settings),
        ..net::Settings::default()
    }
}

/// The most connections, and the most further ones that have not authenticated.
fn connections(settings: &Settings) -> (u64, u64) {
    let room = room_for_connections(machine::descriptors()) as u64;
    connections_in(room, settings.limits.connections.all, settings.strangers.pending)
}

/// The same numbers, if there is room for `room` connections in all. Those that have not
/// authenticated get at most a quarter of it.
fn connections_in(room: u64, connections: u64, pending: u64) -> (u64, u64) {
    let pending = pending.min(room / 4);
    (connections.min(room - pending), pending)
}

/// How many connections are reserved for administrators by default.
fn reserve(connections: u64) -> u64 {
    (connections / 20).max(LEAST_RESERVE)
}

/// How many connections the limit of open files allows. Enough files are kept for the log, which
/// stops without a file to write to.
fn room_for_connections(descriptors: usize) -> usize {
    descriptors.saturating_sub(KEPT_DESCRIPTORS + room_for_http(descriptors)).max(descriptors / 2)
}

/// How many of these files HTTP connections may use.
fn room_for_http(descriptors: usize) -> usize {
    (descriptors / 8).min(MOST_HTTP_CONNECTIONS)
}

/// Settings and variables that have no effect, each with the reason.
pub(crate) fn without_effect(config: &Config) -> Vec<String> {
    let mut warnings: Vec<_> = config
        .suspects
        .iter()
        .map(|(variable, nearest)| format!("{variable} is no setting and has no effect; did you mean {nearest}?"))
        .collect();
    if config.settings.store.durability == Durability::Memory && config.settings.store.disk.is_limited() {
        let why = "disk.free_limit and disk.limit have no effect with durability = memory: nothing is on a disk";
        warnings.push(why.to_owned());
    }
    let spins = config.described.iter().any(|one| one.name == "io_spin" && one.origin != Origin::Default);
    let threads = io_threads(&config.settings);
    if spins && threads > 1 {
        warnings.push(format!(
            "io_spin has no effect with {threads} I/O threads: only a single one (io_threads = 1) looks for more to do"
        ));
    }
    let (budget, limit) = (config.settings.memory.budget, memory_limit(&config.settings));
    if let Some(budget) = budget.filter(|budget| limit > 0 && *budget > limit / 2) {
        warnings.push(format!(
            "memory.budget is {}, of which half of memory.limit counts, {}: raise the limit or lower the budget",
            value::size(budget),
            value::size(limit / 2)
        ));
    }
    warnings
}

/// Warns if the disk has less room for the log than the settings ask for.
fn warn_of_short_disk(settings: &Settings, broker: &Broker) {
    let (asked, given) = (settings.store.journal.max_bytes, broker.overview().journal.max_bytes);
    if given < asked {
        tracing::warn!(
            "journal.max_bytes is {}, of which the disk has room for {} (three quarters of what is free), until the next start: make \
             room and start again, or lower it",
            value::size(asked),
            value::size(given)
        );
    }
}

fn memory_limit(settings: &Settings) -> u64 {
    settings.memory.limit.unwrap_or(USUAL_SHARE).of(machine::memory())
}

fn io_threads(settings: &Settings) -> usize {
    match settings.io.threads {
        Some(threads) => usize::try_from(threads).unwrap_or(1),
        None => net::io_threads_for(machine::cores()),
    }
}

fn http_limits(settings: &Settings) -> management::Limits {
    management::Limits {
        connections: room_for_http(machine::descriptors()),
        per_network: usize::try_from(settings.limits.connections.pending_per_address).unwrap_or(usize::MAX),
        head_timeout: settings.limits.handshake_timeout,
        write_timeout: settings.listen.tcp.write_timeout,
    }
}

/// The figures of the sockets; `watch` is the one of housekeeping.
fn network_of(net: &Net, certificates: Arc<AllCertificates>, watch: Arc<Watch>) -> Network {
    let socket = |connection: net::ConnectionInfo| Socket {
        peer: format!("{} -> {}", connection.remote, connection.local),
        protocol: connection.protocol,
        since: connection.since,
        bytes_in: connection.bytes_in,
        bytes_out: connection.bytes_out,
        encryption: connection.encryption.map(|encryption| Encryption {
            version: encryption.version,
            suite: encryption.suite,
            certificate: encryption.certificate.map(|it| [it.subject, it.issuer, it.validity]),
        }),
    };
    let [open, some, count, refused, turns, strangers] = [(); 6].map(|()| net.registry().clone());
    Network {
        open: Box::new(move || open.list().into_iter().map(socket).collect()),
        some: Box::new(move |peers| {
            let ends: HashSet<_> = peers.iter().filter_map(|peer| ends_of(peer)).collect();
            some.some(&ends).into_iter().map(socket).collect()
        }),
        count: Box::new(move || count.open()),
        refused: Box::new(move || refused.refused().collect()),
        long_turns: Box::new(move || vec![("connection", turns.long_turns()), ("housekeeping", watch.count())]),
        strangers_bytes: Box::new(move || strangers.strangers_bytes()),
        certificate_ends: Box::new(move || certificates.end()),
    }
}

/// Both ends of a connection, from the text of [`Socket::peer`].
fn ends_of(peer: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (remote, local) = peer.split_once(" -> ")?;
    Some((remote.parse().ok()?, local.parse().ok()?))
}

/// The function that copies the data directory.
fn copying(
    broker: &Broker,
    directory: &Path,
) -> impl Fn(&Path, &dyn Fn() -> bool) -> Result<BackupRow, String> + Send + Sync + 'static {
    let (broker, directory) = (broker.clone(), directory.to_owned());
    move |to, wanted| backup::run(&broker, &directory, to, wanted)
}

/// Starts management. If the control socket can't be made, only `hermod status` and similar
/// commands fail. So that is a warning and does not end the server.
fn manage(source: &Arc<Source>, endpoints: Endpoints, control: &Path) -> Result<Management, Failure> {
    let endpoints = Endpoints { control: Some(control.to_owned()), ..endpoints };
    let (management, no_control) = Management::start(source, endpoints).map_err(|error| thread_failure(&error))?;
    if let Some(error) = no_control {
        let path = control.display();
        tracing::warn!("{path}: no control socket: {error}; hermod status and its like cannot ask this server");
    }
    Ok(management)
}

fn announce(settings: &Settings, facts: &Facts) {
    tracing::info!(target: START, "Hermod {}, process {}", facts.version, std::process::id());
    tracing::info!(target: START, "data directory {}", facts.data_dir);
    tracing::info!(target: START, "durability {}: {}", facts.durability, settings.store.durability.promise());
    for listener in &facts.listeners {
        let terms = listener.terms();
        tracing::info!(target: START, "listening for {} on {}{terms}", listener.protocol, listener.address);
    }
    tracing::info!(target: START, "Server startup complete");
    notify::ready(&format!("Hermod {} serves", facts.version));
}

fn thread_failure(error: &std::io::Error) -> Failure {
    Exit::System.because(format!("the operating system refuses a thread or a socket: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_log() {
        for (descriptors, connections, http) in
            [(100, 50, 12), (256, 128, 32), (1024, 800, 128), (usize::MAX, usize::MAX - 352, 256)]
        {
            assert_eq!((room_for_connections(descriptors), room_for_http(descriptors)), (connections, http));
        }
    }

    #[test]
    fn strangers_and_connections_have_files_of_their_own() {
        for (room, shared) in [(50, (38, 12)), (800, (600, 200)), (8000, (7000, 1000)), (500_000, (10_000, 1000))] {
            assert_eq!(connections_in(room, 10_000, 1000), shared);
        }
    }
}
