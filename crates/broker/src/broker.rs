//! The broker for the server program: opening a data directory, attaching clients, reports,
//! closing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use auth::{Authority, AuthoritySettings, Identity, Permission, Tags, User};
use journal::{
    Awaited, Disk, Feed, FeedError, Journal, Keeping, Kept, LogEnd, LogId, Options, Reference, Snapshot, SnapshotError,
    Waiting,
};
use parking_lot::Mutex;

use crate::catalog::shovels::ShovelWatch;
use crate::catalog::system::SystemChange;
use crate::clock::Clock;
use crate::engine::checkpoint::Restater;
use crate::engine::clients::{Login, Terms};
use crate::engine::open_error::OpenError;
use crate::engine::recovery::{Rebuilt, Replayed};
use crate::engine::{Damages, Engine, EngineParts};
use crate::error::Error;
use crate::message::dialect::Dialects;
use crate::names::NameGenerator;
use crate::queue::Visit;
use crate::session::{Client, wills};
use crate::settings::{Limits, Settings};
use crate::store::facts;
use crate::tasks::Tasks;
use crate::value::Table;

/// The parts of a new broker.
pub struct Parts {
    /// The disk of its journal.
    pub disk: Arc<dyn Disk>,
    /// The journal's options.
    pub journal: Options,
    /// Called once when the journal can't be written any more; should end the process.
    pub on_journal_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    /// The settings.
    pub settings: Settings,
    /// The settings of log-in. The key of decoys is for a directory without one.
    pub authority: AuthoritySettings,
    /// The encodings of all protocols, unserved ones included: stored messages may have any.
    pub dialects: Dialects,
    /// Calendar time.
    pub clock: Arc<dyn Clock>,
    /// Secret random bytes from which the broker's names follow.
    pub name_key: [u8; 32],
    /// The vhost in a new data directory: `/` by custom. Its name has 1 to 255 bytes.
    pub default_vhost: String,
    /// The user in a new data directory.
    pub default_user: Option<FirstUser>,
    /// Random bytes for the hash of that password.
    pub salt: [u8; 16],
}

/// The parts of the state that a directory has.
pub(crate) struct Stored {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    pub(crate) authority: AuthoritySettings,
}

/// The other parts.
pub(crate) struct Serving {
    settings: Settings,
    decoy_key: [u8; 32],
    dialects: Dialects,
    pub(crate) clock: Arc<dyn Clock>,
    name_key: [u8; 32],
    default_vhost: String,
    default_user: Option<FirstUser>,
    salt: [u8; 16],
}

impl Parts {
    pub(crate) fn split(self) -> (Stored, Serving) {
        let serving = Serving {
            settings: self.settings,
            decoy_key: self.authority.decoy_key,
            dialects: self.dialects,
            clock: self.clock,
            name_key: self.name_key,
            default_vhost: self.default_vhost,
            default_user: self.default_user,
            salt: self.salt,
        };
        let (disk, options, on_failure) = (self.disk, self.journal, self.on_journal_failure);
        (Stored { disk, options, on_failure, authority: self.authority }, serving)
    }
}

/// The first user, and what it may do in the first vhost.
#[derive(Clone)]
pub struct FirstUser {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
    /// Its tags.
    pub tags: Tags,
    /// Its permissions in the first vhost.
    pub permission: Permission,
}

impl FirstUser {
    /// An administrator with every right in the first vhost.
    pub fn administrator(name: &str, password: &str) -> Self {
        let tags = Tags::new(["administrator"]);
        Self { name: name.to_owned(), password: password.to_owned(), tags, permission: Permission::full() }
    }
}

/// A running broker. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Broker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) shovels: Arc<ShovelWatch>,
}

impl Broker {
    /// Opens the data directory, recovers its contents, and starts the journal.
    ///
    /// # Errors
    /// One line that says what is wrong with the directory, and what to do.
    pub fn open(parts: Parts) -> Result<Self, OpenError> {
        Self::open_with(parts, |opened, live, owners, on_failure| opened.start(live, owners, on_failure))
    }

    /// As [`Broker::open`], with another way to start the journal: a simulation runs it step by
    /// step.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_with(
        parts: Parts,
        start: impl FnOnce(
            journal::Opened,
            &mut dyn Iterator<Item = (u32, u64)>,
            Arc<dyn journal::Owners>,
            Box<dyn Fn(&io::Error) + Send + Sync>,
        ) -> Journal,
    ) -> Result<Self, OpenError> {
        let (Stored { disk, options, on_failure, authority }, serving) = parts.split();
        let mut replayed = Replayed::with(authority)?;
        let opened = Journal::open(disk, options, &mut replayed)?;
        let read = |chunk, page, into: &mut Vec<Reference>| opened.read_chunk(chunk, page, into);
        let live = replayed.declare(&read, serving.clock.unix_ms())?;
        let restater = Arc::new(Restater::default());
        let owners = Arc::clone(&restater);
        let journal = start(opened, &mut live.into_iter(), owners, on_failure);
        Self::serve(replayed, journal, &restater, serving)
    }

    /// The broker of what was replayed and declared.
    pub(crate) fn serve(
        replayed: Replayed,
        journal: Journal,
        restater: &Restater,
        serving: Serving,
    ) -> Result<Self, OpenError> {
        let Replayed { system, catalog, authority, mut rebuilt } = replayed;
        // An operator may have deleted the last vhost on purpose.
        let is_new = system.is_empty() && rebuilt.is_fresh();
        let engine = Arc::new(Engine::new(EngineParts {
            journal,
            catalog,
            authority,
            dialects: serving.dialects,
            clock: serving.clock,
            settings: serving.settings,
            damages: Damages { lost: Mutex::new(rebuilt.losses()), news: Mutex::new(rebuilt.news(&system)) },
            system,
            owners: rebuilt.take_owners(),
            names: NameGenerator::new(serving.name_key),
        }));
        engine.memory.users().recover(rebuilt.take_declared());
        let broker = Self { engine, tasks: Arc::default(), shovels: Arc::default() };
        if is_new {
            broker.create_defaults(&serving.default_vhost, serving.default_user, serving.salt)?;
        }
        // Behind the first user and vhost: a directory with any contents gets neither.
        broker.engine.keep_decoy_key(&serving.decoy_key);
        broker.resume(&mut rebuilt)?;
        broker.tasks.resume(&broker.engine);
        // What has expired meanwhile goes with the first round of the housekeeping.
        broker.engine.expire_retained_at(0);
        broker.engine.journal.note_lasting(broker.engine.catalog.bindings.load().logged);
        broker.engine.end_logs_without_vhost();
        // It could not answer the journal before.
        restater.answer_for(&broker.engine);
        broker.engine.end_connections_of_last_run();
        broker.engine.hold_subscriptions_to_rights();
        Ok(broker)
    }

    /// Fills the queues, and takes up the unfinished work of the last run.
    fn resume(&self, rebuilt: &mut Rebuilt) -> Result<(), OpenError> {
        let decided = rebuilt.fill(&self.engine);
        let mut work = Vec::new();
        for decided in decided {
            decided.place(&self.engine);
            let now = self.engine.clock.unix_ms();
            let mut visit = Visit { context: &self.engine, now, work: &mut work };
            decided.queue.resume_waiting(&decided.waiting, &mut visit);
            decided.queue.resume_dying(&decided.dying, &mut visit);
            decided.queue.supersede_all(&decided.keyed.outdated, &self.engine);
        }
        self.engine.run_work(&mut work);
        // Dying entries are out by now, so limits drop no others in their place.
        let mut visit = Visit { context: &self.engine, now: self.engine.clock.unix_ms(), work: &mut work };
        for vhost in self.engine.catalog.vhosts() {
            let queues: Vec<_> = vhost.tables.read().queues_with_policies().cloned().collect();
            queues.iter().for_each(|queue| queue.enforce_arguments(&mut visit));
        }
        self.engine.run_work(&mut work);
        for vhost in self.engine.catalog.vhosts() {
            let queues: Vec<_> = vhost.tables.read().all_queues().cloned().collect();
            queues.iter().for_each(|queue| self.engine.watch(queue));
            queues.iter().for_each(|queue| self.engine.end_left_over(queue));
        }
        Ok(())
    }

    /// A unique name that can't be guessed: `prefix` and 22 characters of URL-safe base 64.
    pub fn name(&self, prefix: &str) -> String {
        self.engine.names.name(prefix)
    }

    fn create_defaults(&self, vhost: &str, user: Option<FirstUser>, salt: [u8; 16]) -> Result<(), OpenError> {
        let engine = &self.engine;
        let failed = |what: &dyn std::fmt::Display| OpenError::DefaultUser(what.to_string());
        // Both or neither: a directory with one of them was left so by an operator.
        let mut changes = vec![engine.new_vhost(vhost).1];
        if let Some(first) = user {
            let hash =
                engine.authority.hash_password(first.password.as_bytes(), salt).map_err(|error| failed(&error))?;
            let mut user = User::new(&first.name, Some(hash));
            user.tags = first.tags;
            user.permissions.insert(vhost.into(), first.permission);
            user.check().map_err(|error| failed(&error))?;
            changes.push(SystemChange::User { id: engine.owner(LogId::SYSTEM), user: Box::new(user) });
        }
        engine.change_system(changes);
        Ok(())
    }

    /// The users and their rights.
    pub fn authority(&self) -> &Authority {
        &self.engine.authority
    }

    /// Asks a backend elsewhere again what a user may do who is connected, on a thread that may
    /// wait. What it may do no more ends: consumers, bindings of exclusive queues, or its clients.
    /// Returns whether its rights have changed.
    ///
    /// # Errors
    /// When the backend can't be asked; then nothing has changed.
    pub fn ask_again(&self, backend: &'static str, user: &Arc<str>) -> Result<bool, String> {
        self.engine.ask_again(backend, user)
    }

    /// Whether an identity is still that of its user, and its rights have not ended.
    pub fn is_current(&self, identity: &Identity) -> bool {
        let has_ended = identity.expires().is_some_and(|at| at <= self.engine.clock.unix_ms());
        !has_ended && self.engine.authority.is_current(identity)
    }

    /// True when there is a vhost of this name.
    pub fn has_vhost(&self, name: &str) -> bool {
        self.engine.catalog.vhost(name).is_some()
    }

    /// Reads the properties of messages from other protocols.
    pub fn dialects(&self) -> &Dialects {
        &self.engine.dialects
    }

    /// The limits on clients.
    pub fn limits(&self) -> &Limits {
        &self.engine.settings.limits
    }

    /// Connections that are kept for administrators.
    pub fn reserved_connections(&self) -> u64 {
        self.engine.reserved_connections()
    }

    /// Sessions (AMQP 0-9-1: channels) of one connection, for later connections.
    pub fn sessions_per_connection(&self) -> u32 {
        self.engine.clients.sessions_each.load(Ordering::Relaxed)
    }

    /// Changes that. Open connections keep their number.
    pub fn set_sessions_per_connection(&self, sessions: u32) {
        self.engine.clients.sessions_each.store(sessions, Ordering::Relaxed);
    }

    /// Changes what one user may make the broker hold: see [`Settings::user_memory`].
    pub fn set_user_memory(&self, bytes: Option<u64>) {
        self.engine.memory.users().set_most(bytes);
    }

    /// Bytes of memory of what a user has declared since the start, of what is there.
    pub fn user_declared_bytes(&self, user: &str) -> u64 {
        self.engine.memory.users().find(user).map_or(0, |account| account.declared().bytes())
    }

    /// Bytes that all connections of a user make the broker hold besides queued messages, parked
    /// publishes included.
    pub fn user_held_bytes(&self, user: &str) -> u64 {
        let account = self.engine.memory.users().find(user);
        account.map_or(0, |account| (account.held() + account.parked()) as u64)
    }

    /// Attaches an authenticated connection to a vhost. `waker` is woken when `Client::drain`
    /// should be called.
    ///
    /// # Errors
    /// `NotAllowed`: no such vhost, no access to it, too many connections.
    pub fn attach(&self, login: Login, waker: Waker) -> Result<Client, Error> {
        Client::attach(&self.engine, login, waker)
    }

    /// A client for one request of management. It acts as `identity` in a vhost, is in no list, and
    /// counts against no limit.
    ///
    /// # Errors
    /// `NotAllowed`: no such vhost, or no access to it.
    pub fn attach_unlisted(&self, identity: Identity, vhost: &str, from: &str, waker: Waker) -> Result<Client, Error> {
        let login = Login {
            identity,
            vhost: vhost.to_owned(),
            protocol: "management",
            peer: from.to_owned(),
            name: None,
            properties: Table::default(),
            terms: Terms::default(),
        };
        Client::attach_unlisted(&self.engine, login, waker)
    }

    /// Does the work that is due, and returns when to run again if `waker` is not woken before. One
    /// task runs it.
    pub fn housekeep(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        // Before it, so that it says when the next one is due.
        wills::publish_due(&self.engine, now);
        self.engine.housekeep(now, waker)
    }

    /// Whether messages have left memory, because it was short, since the last call.
    pub fn take_swept(&self) -> bool {
        self.engine.memory.take_swept()
    }

    /// Notes that the process has so many bytes of memory. What nothing counts of them is held
    /// against the limit while the process is beyond it. The first call is to come before clients
    /// do.
    pub fn process_has(&self, resident: usize) {
        self.engine.memory.process_has(resident, self.engine.counted_elsewhere());
    }

    /// Bytes of memory that count against the limit, and the limit.
    pub fn memory_of_limit(&self) -> (usize, usize) {
        (self.engine.memory.total(), self.engine.memory.limit())
    }

    /// Runs one read from the disk that a queue waits for. True when more wait; otherwise `waker`
    /// is woken when there are. One thread runs it, since it waits for the disk.
    pub fn page(&self, waker: &Waker) -> bool {
        self.engine.page(waker)
    }

    /// The failed reads since the last call: a line for each queue that stopped, for the log.
    pub fn take_damages(&self) -> Vec<String> {
        let mut damages = std::mem::take(&mut *self.engine.damages.news.lock());
        damages.extend(self.engine.take_damages());
        damages
    }

    /// Has the files of backlogs read from time to time, at most so many bytes each second; 0 for
    /// never.
    pub fn scrub(&self, bytes_per_second: u64) {
        self.engine.journal.scrub(bytes_per_second);
    }

    /// The damage that it found since the last call: a line for each file, for the log.
    pub fn take_scrubbed(&self) -> Vec<String> {
        let line = |damage: journal::Damage| {
            let journal::Damage { file, offset, what, .. } = damage;
            format!(
                "{file} is damaged at byte {offset}: {what}; a queue whose messages lie there stops when it comes to them: \
                 look at the disk, and at hermod repair"
            )
        };
        self.engine.journal.take_damages().into_iter().map(line).collect()
    }

    /// What another broker is sent that follows this one, and has so many entries of each log. See
    /// [`crate::Standby`].
    pub fn feed(&self, known: impl IntoIterator<Item = (LogId, u64)>) -> Feed {
        self.engine.journal.feed(known)
    }

    /// See [`journal::Journal::await_follower`].
    pub fn await_follower(&self, awaited: Awaited) {
        self.engine.journal.await_follower(awaited);
    }

    /// See [`journal::Journal::waiting`].
    pub fn waiting(&self) -> Waiting {
        self.engine.journal.waiting()
    }

    /// See [`journal::Journal::confirm`].
    pub fn confirm(&self, ends: &[(LogId, u64)]) {
        self.engine.journal.confirm(ends);
    }

    /// See [`journal::Journal::shared_ends`].
    ///
    /// # Errors
    /// As there.
    pub fn shared_ends(&self, theirs: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError> {
        self.engine.journal.shared_ends(theirs)
    }

    /// Keeps the log for one that follows: see [`journal::Journal::keep`].
    pub fn keep_log(&self, keeping: Keeping) -> Kept {
        self.engine.journal.keep(keeping)
    }

    /// What a follower is sent whose entries have left the log: see [`journal::Snapshot`] and
    /// [`crate::Standby::receive`].
    ///
    /// # Errors
    /// While another snapshot is being made.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        self.engine.journal.snapshot()
    }

    /// Begins to copy the data directory into `to`, which must be empty. Everything that is
    /// confirmed by now will be in the copy.
    ///
    /// # Errors
    /// The reason why there can't be a copy.
    pub fn backup(&self, to: Arc<dyn Disk>) -> Result<journal::Backup, journal::BackupError> {
        self.engine.journal.backup(to)
    }

    /// Makes the protocol of a connection close it. False when there is none of that number.
    pub fn kick(&self, client: u64, reason: &str) -> bool {
        let clients = self.engine.clients.lock();
        let Some(shared) = clients.get(&client) else { return false };
        shared.kick(reason);
        true
    }

    /// Logs how far deliveries really went, then flushes and stops the journal. Call it when all
    /// clients are gone.
    ///
    /// # Errors
    /// When the journal could not take its last records.
    pub fn close(self) -> io::Result<()> {
        while self.engine.go_on_ending() {}
        self.engine.log_wills_in_memory();
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            for queue in tables.queues().filter(|queue| queue.logged()) {
                let mut inner = queue.lock(&self.engine);
                for lane in inner.lanes_mut().filter(|lane| lane.live() > 0) {
                    let (next, mark) = lane.last_position();
                    facts::log_position(&mut self.engine.journal.appender(queue.log()), queue.id, next, mark);
                }
            }
        }
        self.engine.journal.close()
    }
}
