//! The broker as the server program sees it: opened from a data directory, attached to by clients,
//! reported on, closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use auth::{Authority, AuthoritySettings, Identity, Permission, Tags, User};
use hashbrown::HashMap;
use journal::{Disk, Journal, Options};

use crate::catalog::definitions::Definitions;
use crate::catalog::{Catalog, OWNERS_PER_VHOST, Vhost};
use crate::clock::Clock;
use crate::engine::checkpoint::Restater;
use crate::engine::recovery::Rebuilt;
use crate::engine::{Engine, EngineParts};
use crate::error::Error;
use crate::message::dialect::Dialects;
use crate::names::NameGenerator;
use crate::queue::Visit;
use crate::session::{Client, Login, Terms};
use crate::settings::{Limits, Settings};
use crate::store::facts;
use crate::value::Table;

/// What a broker is opened with.
pub struct Parts {
    /// Where its journal lies.
    pub disk: Arc<dyn Disk>,
    /// How the journal is kept.
    pub journal: Options,
    /// Called once when the journal can't be written any more; should end the process.
    pub on_journal_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    /// What can be set.
    pub settings: Settings,
    /// How logging in works. The key of decoys is for a directory that has none.
    pub authority: AuthoritySettings,
    /// The encodings of all protocols, also of those that are not served: stored messages may be in
    /// any.
    pub dialects: Dialects,
    /// Calendar time.
    pub clock: Arc<dyn Clock>,
    /// Random bytes from which the broker's names follow: a secret.
    pub name_key: [u8; 32],
    /// Name and password of the user that an empty data directory gets, with vhost `/` and every
    /// right there.
    pub default_user: Option<(String, String)>,
    /// Random bytes for the hash of that password.
    pub salt: [u8; 16],
}

/// Why a broker could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The journal.
    Journal(journal::OpenError),
    /// What the journal holds makes no sense.
    Damaged(String),
    /// The default user.
    DefaultUser(String),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "{error}"),
            Self::Damaged(what) => write!(
                f,
                "the data directory is damaged: {what}; restore it from a copy, or start on an empty directory"
            ),
            Self::DefaultUser(what) => write!(f, "the default user can't be created: {what}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<journal::OpenError> for OpenError {
    fn from(error: journal::OpenError) -> Self {
        Self::Journal(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Damaged(error.text)
    }
}

/// A running broker. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Broker {
    pub(crate) engine: Arc<Engine>,
}

impl Broker {
    /// Opens the data directory, recovers what it holds, and starts the journal.
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
        let mut rebuilt = Rebuilt::default();
        let opened = Journal::open(parts.disk, parts.journal, &mut rebuilt)?;
        if let Some(damage) = rebuilt.damage() {
            return Err(OpenError::Damaged(damage.to_owned()));
        }
        let live = rebuilt.settle_pages(&|chunk, page, into| opened.read_chunk(chunk, page, into));
        let catalog = Catalog::default();
        rebuilt.declare(&catalog, parts.clock.unix_ms())?;
        let definitions = Definitions::default();
        rebuilt.define(&definitions);
        let decoy_key = definitions.decoy_key().unwrap_or(parts.authority.decoy_key);
        let authority = Authority::new(AuthoritySettings { decoy_key, ..parts.authority })
            .map_err(|error| OpenError::DefaultUser(error.to_string()))?;
        let (users, curtailed) = load_users(&rebuilt, &authority)?;
        let restater = Arc::new(Restater::default());
        let owners = Arc::clone(&restater);
        let journal = start(opened, &mut live.into_iter(), owners, parts.on_journal_failure);
        let engine = Arc::new(Engine::new(EngineParts {
            journal,
            catalog,
            authority,
            dialects: parts.dialects,
            clock: parts.clock,
            settings: parts.settings,
            lost: rebuilt.losses(),
            news: rebuilt.news(),
            users,
            definitions,
            next_owner: rebuilt.next_owner(),
            names: NameGenerator::new(parts.name_key),
        }));
        let broker = Self { engine };
        for user in curtailed {
            broker.engine.log_user(&user, &mut broker.engine.users.lock())?;
        }
        if rebuilt.is_empty() {
            broker.create_defaults(parts.default_user, parts.salt)?;
        }
        // Behind the first user and vhost: a directory with anything in it gets neither.
        broker.engine.keep_decoy_key(&decoy_key);
        broker.resume(&mut rebuilt)?;
        broker.engine.journal.note_lasting(broker.engine.catalog.bindings.load().logged);
        // Before, it could have told the journal nothing.
        restater.answer_for(&broker.engine);
        Ok(broker)
    }

    /// Fills the queues, and takes up what the last run left undone.
    fn resume(&self, rebuilt: &mut Rebuilt) -> Result<(), OpenError> {
        let decided = rebuilt.fill(&self.engine)?;
        // First, since they may say where a message goes whose death was decided.
        let bound = self.engine.resume_policies()?;
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
        // What was to die has been taken out by now, so that limits take nothing in its place.
        let mut visit = Visit { context: &self.engine, now: self.engine.clock.unix_ms(), work: &mut work };
        bound.iter().for_each(|queue| queue.enforce_arguments(&mut visit));
        self.engine.run_work(&mut work);
        for vhost in self.engine.catalog.vhosts() {
            let queues: Vec<_> = vhost.tables.read().all_queues().cloned().collect();
            queues.iter().for_each(|queue| self.engine.watch(queue));
        }
        Ok(())
    }

    /// A name that no other thing has and that can't be guessed: `prefix` and 22 characters of
    /// URL-safe base 64.
    pub fn name(&self, prefix: &str) -> String {
        self.engine.names.name(prefix)
    }

    fn create_defaults(&self, user: Option<(String, String)>, salt: [u8; 16]) -> Result<(), OpenError> {
        let engine = &self.engine;
        let failed = |what: &dyn std::fmt::Display| OpenError::DefaultUser(what.to_string());
        let mut record = None;
        if let Some((name, password)) = user {
            let hash = engine.authority.hash_password(password.as_bytes(), salt).map_err(|error| failed(&error))?;
            let mut user = User::new(&name, Some(hash));
            user.tags = Tags::new(["administrator"]);
            user.permissions.insert("/".into(), Permission::full());
            record = Some((engine.owner(), user.encode().map_err(|error| failed(&error))?));
            engine.users.lock().extend(record.iter().map(|(owner, _)| (name.clone(), *owner)));
            engine.authority.put(user).map_err(|error| failed(&error))?;
        }
        // Both or neither: a directory with one of them is what an operator left of it, and gets
        // nothing again.
        let id = engine.owners(OWNERS_PER_VHOST);
        let mut appender = engine.journal.appender();
        let group = appender.begin_group();
        if let Some((owner, bytes)) = record {
            appender.fact(Some(group), owner, facts::USER, &[&bytes]);
        }
        facts::log_vhost(&mut appender, Some(group), id, "/");
        appender.end_group(group);
        drop(appender);
        engine.catalog.insert_vhost(Arc::new(Vhost::new(id, "/", &engine.catalog.bindings)));
        Ok(())
    }

    /// Who may log in, and what they may do.
    pub fn authority(&self) -> &Authority {
        &self.engine.authority
    }

    /// True when there is a vhost of this name.
    pub fn has_vhost(&self, name: &str) -> bool {
        self.engine.catalog.vhost(name).is_some()
    }

    /// Reads the properties of messages from other protocols.
    pub fn dialects(&self) -> &Dialects {
        &self.engine.dialects
    }

    /// What clients may ask for.
    pub fn limits(&self) -> &Limits {
        &self.engine.settings.limits
    }

    /// Connections that are kept for administrators.
    pub fn reserved_connections(&self) -> u64 {
        self.engine.reserved_connections()
    }

    /// Sessions (AMQP 0-9-1: channels) of one connection, for connections to come.
    pub fn sessions_per_connection(&self) -> u32 {
        self.engine.sessions_per_connection.load(Ordering::Relaxed)
    }

    /// Changes that. Connections that are open keep what they were told.
    pub fn set_sessions_per_connection(&self, sessions: u32) {
        self.engine.sessions_per_connection.store(sessions, Ordering::Relaxed);
    }

    /// Attaches an authenticated connection to a vhost. `waker` is woken when `Client::drain`
    /// should be called.
    ///
    /// # Errors
    /// `NotAllowed`: no such vhost, no access to it, too many connections.
    pub fn attach(&self, login: Login, waker: Waker) -> Result<Client, Error> {
        Client::attach(&self.engine, login, waker)
    }

    /// A client for one request of management: it acts as `identity` in a vhost, is listed nowhere
    /// and counts against no limit.
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

    /// Does what is due, and says when to come again if `waker` is not woken before. One task runs
    /// it.
    pub fn housekeep(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        self.engine.housekeep(now, waker)
    }

    /// Whether messages have left memory, because it was short, since the last call.
    pub fn take_swept(&self) -> bool {
        self.engine.memory.take_swept()
    }

    /// Bytes of memory that messages, and what it takes to know where they are, have now.
    pub fn memory_used(&self) -> usize {
        self.engine.memory.used()
    }

    /// Reads one thing that a queue waits for from the disk. True when more waits; else `waker` is
    /// woken when there is something. One thread runs it, since it waits for the disk.
    pub fn page(&self, waker: &Waker) -> bool {
        self.engine.page(waker)
    }

    /// What could not be read since the last call: a line for each queue that stopped, for the log.
    pub fn take_damages(&self) -> Vec<String> {
        let mut damages = std::mem::take(&mut *self.engine.news.lock());
        damages.extend(self.engine.take_damages());
        damages
    }

    /// Has the files of backlogs read from time to time, at most so many bytes of them each second;
    /// zero for never.
    pub fn scrub(&self, bytes_per_second: u64) {
        self.engine.journal.scrub(bytes_per_second);
    }

    /// What that found damaged since the last call: a line for each file, for the log.
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

    /// Begins to copy the data directory into `to`, which must be empty: everything confirmed by
    /// now will be in the copy.
    ///
    /// # Errors
    /// Why there can't be a copy.
    pub fn backup(&self, to: Arc<dyn Disk>) -> Result<journal::Backup, journal::BackupError> {
        self.engine.journal.backup(to)
    }

    /// Has a connection closed by its protocol. False when there is none of that number.
    pub fn kick(&self, client: u64, reason: &str) -> bool {
        let clients = self.engine.clients.lock();
        let Some(shared) = clients.get(&client) else { return false };
        shared.kick(reason);
        true
    }

    /// Writes how far deliveries really went, flushes and stops the journal. Call it when all
    /// clients are gone.
    ///
    /// # Errors
    /// When the journal could not take its last records.
    pub fn close(self) -> io::Result<()> {
        while self.engine.go_on_ending() {}
        for vhost in self.engine.catalog.vhosts() {
            let tables = vhost.tables.read();
            for queue in tables.queues().filter(|queue| queue.logged()) {
                let mut inner = queue.lock(&self.engine);
                for lane in inner.lanes_mut().filter(|lane| lane.live() > 0) {
                    let (next, mark) = lane.last_position();
                    facts::log_position(&mut self.engine.journal.appender(), queue.id, next, mark);
                }
            }
        }
        self.engine.journal.close()
    }
}

/// Users as they were, but for their rights in vhosts that are gone: the end of a vhost ends those
/// too. The second result is whom that changed.
fn load_users(rebuilt: &Rebuilt, authority: &Authority) -> Result<(HashMap<String, u64>, Vec<User>), OpenError> {
    let (mut users, mut curtailed) = (HashMap::new(), Vec::new());
    for (owner, bytes) in &rebuilt.users {
        let mut user = User::decode(bytes).map_err(|error| OpenError::Damaged(format!("a user's record: {error}")))?;
        let gone: Vec<_> = user.vhosts().filter(|vhost| !rebuilt.has_vhost(vhost)).map(str::to_owned).collect();
        if !gone.is_empty() {
            for vhost in &gone {
                user.leave(vhost);
            }
            curtailed.push(user.clone());
        }
        users.insert(user.name.to_string(), *owner);
        authority.put(user).map_err(|error| OpenError::Damaged(format!("a user's record: {error}")))?;
    }
    Ok((users, curtailed))
}
