//! What the rest of the broker knows of its clients, and of their sessions.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use auth::Identity;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};

use crate::encoding::{Reader, write_table};
use crate::engine::Engine;
use crate::memory::ledger::{Account, Kept};
use crate::queue::SharedCredit;
use crate::queue::mailbox::Mailbox;
use crate::value::Table;

/// The user that attaches, and the vhost.
#[derive(Debug)]
pub struct Login {
    /// The authenticated user.
    pub identity: Identity,
    /// The vhost it wants.
    pub vhost: String,
    /// The protocol's short name.
    pub protocol: &'static str,
    /// Both ends of the connection, for reports.
    pub peer: String,
    /// The client's name for its connection.
    pub name: Option<String>,
    /// The client's other properties, for reports.
    pub properties: Table,
    /// The agreed terms, for reports.
    pub terms: Terms,
}

/// Clients by their numbers.
pub(crate) type ByNumber = HashMap<u64, Arc<ClientShared>>;

/// The clients that are attached, and how many of them each vhost and each user has: many come in a
/// second, and none may cost more because others are there.
#[derive(Default)]
pub(crate) struct Attached {
    clients: ByNumber,
    of_vhosts: HashMap<Box<str>, u64>,
    of_users: HashMap<Box<str>, u64>,
}

impl Deref for Attached {
    type Target = ByNumber;

    fn deref(&self) -> &ByNumber {
        &self.clients
    }
}

impl Attached {
    pub(crate) fn insert(&mut self, client: &Arc<ClientShared>) {
        for (counts, name) in [(&mut self.of_vhosts, &client.vhost), (&mut self.of_users, &client.user)] {
            match counts.get_mut(&**name) {
                Some(count) => *count += 1,
                None => _ = counts.insert(name.as_str().into(), 1),
            }
        }
        self.clients.insert(client.number, Arc::clone(client));
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Arc<ClientShared>> {
        let client = self.clients.remove(&number)?;
        for (counts, name) in [(&mut self.of_vhosts, &client.vhost), (&mut self.of_users, &client.user)] {
            let Some(count) = counts.get_mut(&**name) else { continue };
            *count -= 1;
            if *count == 0 {
                counts.remove(&**name);
            }
        }
        Some(client)
    }

    /// How many clients are attached to a vhost.
    pub(crate) fn of_vhost(&self, name: &str) -> u64 {
        self.of_vhosts.get(name).copied().unwrap_or_default()
    }

    /// How many clients a user has.
    pub(crate) fn of_user(&self, name: &str) -> u64 {
        self.of_users.get(name).copied().unwrap_or_default()
    }
}

/// The clients of the broker.
pub(crate) struct Clients {
    attached: Mutex<Attached>,
    next: AtomicU64,
    /// As [`crate::Limits::sessions_per_connection`] says, or a later change.
    pub(crate) sessions_each: AtomicU32,
    /// When the rights of each client end, in milliseconds since 1970, with its number. Clients
    /// whose rights do not end by themselves are not in it.
    pub(crate) expiries: Mutex<BTreeSet<(u64, u64)>>,
}

impl Clients {
    pub(crate) fn new(sessions_each: u32) -> Self {
        Self {
            attached: Mutex::default(),
            next: AtomicU64::new(1),
            sessions_each: AtomicU32::new(sessions_each),
            expiries: Mutex::default(),
        }
    }

    /// Those that are attached.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Attached> {
        self.attached.lock()
    }

    /// A number for a client, never used before in this run.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// The terms that a protocol and its peer have agreed on, for reports; zero where the protocol has
/// no such term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// The mechanism of its authentication.
    pub mechanism: &'static str,
    /// The interval in which the peer wants a sign of life.
    pub keep_alive: Duration,
    /// Most bytes of one piece that either side sends.
    pub piece_bytes: u32,
    /// Most sessions.
    pub sessions: u32,
}

/// The part of a client that the rest of the broker uses.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) number: u64,
    pub(crate) user: String,
    /// The identity of the log-in: permissions are checked against it.
    pub(crate) identity: Identity,
    pub(crate) vhost: String,
    pub(crate) protocol: &'static str,
    pub(crate) peer: Box<str>,
    pub(crate) name: Option<String>,
    /// Encoded, since decoded they take thirty times as much.
    properties: Box<[u8]>,
    pub(crate) terms: Terms,
    /// Milliseconds since 1970.
    pub(crate) since: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) account: Arc<Account>,
    pub(crate) figures: Figures,
    kick: Kick,
}

/// Whether a client must be closed.
#[derive(Debug, Default)]
struct Kick {
    /// The reason, until the protocol has read it.
    reason: Mutex<Option<String>>,
    is_given: AtomicBool,
}

impl ClientShared {
    pub(crate) fn new(engine: &Engine, login: Login, waker: Waker) -> Self {
        let account = Arc::new(Account::new(&engine.memory, &engine.settings, login.identity.user()));
        let properties = encoded(&login.properties);
        account.keep(Kept::Connection, properties.len() + login.name.as_ref().map_or(0, String::len));
        Self {
            number: engine.clients.number(),
            user: login.identity.user().to_owned(),
            identity: login.identity.named(login.name.as_deref()),
            vhost: login.vhost,
            protocol: login.protocol,
            peer: login.peer.into(),
            name: login.name,
            properties,
            terms: login.terms,
            since: engine.clock.unix_ms(),
            mailbox: Arc::new(Mailbox::counted(engine.settings.mailbox_bytes, &account, waker)),
            account,
            figures: Figures::default(),
            kick: Kick::default(),
        }
    }

    /// The client's other properties.
    pub(crate) fn properties(&self) -> Table {
        Reader::new(&self.properties).table().unwrap_or_default()
    }

    /// Makes its protocol close it. Nothing more is put into its mailbox, whether it reads or not.
    pub(crate) fn kick(&self, reason: &str) {
        self.mailbox.shut();
        *self.kick.reason.lock() = Some(reason.to_owned());
        self.kick.is_given.store(true, Ordering::Release);
        self.mailbox.waker().wake_by_ref();
    }

    pub(crate) fn take_kick(&self) -> Option<String> {
        if !self.kick.is_given.load(Ordering::Acquire) {
            return None;
        }
        self.kick.reason.lock().take()
    }
}

/// An encoded table; empty for one that is nested too deeply.
fn encoded(table: &Table) -> Box<[u8]> {
    let mut bytes = Vec::new();
    // It is for reports only, which then show an empty one.
    let _ = write_table(&mut bytes, table);
    bytes.into_boxed_slice()
}

/// What reports show of a client.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    sessions: AtomicU32,
    consumers: AtomicU32,
    /// Those of its sessions that have published.
    publishers: AtomicU32,
    /// Its sessions, each as reports see it.
    shown: Mutex<Vec<Arc<Shown>>>,
    blocked: AtomicBool,
}

impl Figures {
    /// How many sessions the client has.
    pub(crate) fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// How many consumers the client has.
    pub(crate) fn consumers(&self) -> u32 {
        self.consumers.load(Ordering::Relaxed)
    }

    /// How many of its sessions have published.
    pub(crate) fn publishers(&self) -> u32 {
        self.publishers.load(Ordering::Relaxed)
    }

    pub(crate) fn add_publisher(&self) {
        self.publishers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_publisher(&self) {
        self.publishers.fetch_sub(1, Ordering::Relaxed);
    }

    /// True while an alarm stops the client.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    pub(crate) fn add_session(&self, shown: &Arc<Shown>) {
        self.shown.lock().push(Arc::clone(shown));
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_session(&self, shown: &Arc<Shown>) {
        self.shown.lock().retain(|other| !Arc::ptr_eq(other, shown));
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn add_consumer(&self) {
        self.consumers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_consumer(&self) {
        self.consumers.fetch_sub(1, Ordering::Relaxed);
    }

    /// The client ends, and all its consumers with it.
    pub(crate) fn clear_consumers(&self) {
        self.consumers.store(0, Ordering::Relaxed);
    }

    pub(crate) fn block(&self) {
        self.blocked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn unblock(&self) {
        self.blocked.store(false, Ordering::Relaxed);
    }
}

/// One session, as reports see it.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Its protocol's number for it.
    number: u32,
    confirming: AtomicBool,
    transactional: AtomicBool,
    prefetch: AtomicU32,
    consumers: AtomicU32,
    unconfirmed: AtomicU64,
    credit: Arc<SharedCredit>,
}

impl Shown {
    pub(crate) fn new(number: u32, credit: &Arc<SharedCredit>) -> Self {
        Self { number, credit: Arc::clone(credit), ..Self::default() }
    }

    /// Its protocol's number for it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// How many publishes of the session wait for their answer.
    pub(crate) fn set_unconfirmed(&self, count: u64) {
        self.unconfirmed.store(count, Ordering::Relaxed);
    }

    pub(crate) fn set_consumers(&self, count: usize) {
        self.consumers.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn set_prefetch(&self, count: u32) {
        self.prefetch.store(count, Ordering::Relaxed);
    }

    pub(crate) fn set_confirming(&self) {
        self.confirming.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_transactional(&self) {
        self.transactional.store(true, Ordering::Relaxed);
    }
}

impl ClientShared {
    /// Its sessions, by the numbers that its protocol gives them.
    pub(crate) fn session_reports(&self) -> Vec<SessionReport> {
        let report = |session: &Arc<Shown>| SessionReport {
            client: self.number,
            user: self.user.clone(),
            vhost: self.vhost.clone(),
            peer: self.peer.to_string(),
            number: session.number,
            confirming: session.confirming.load(Ordering::Relaxed),
            transactional: session.transactional.load(Ordering::Relaxed),
            prefetch: session.prefetch.load(Ordering::Relaxed),
            shared_prefetch: session.credit.limit(),
            consumers: session.consumers.load(Ordering::Relaxed),
            unsettled: session.credit.unsettled(),
            unconfirmed: session.unconfirmed.load(Ordering::Relaxed),
        };
        let mut reports: Vec<_> = self.figures.shown.lock().iter().map(report).collect();
        reports.sort_by_key(|report| report.number);
        reports
    }
}

/// One session of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    /// The number of its client.
    pub client: u64,
    /// The user of its client.
    pub user: String,
    /// The vhost of its client.
    pub vhost: String,
    /// Both ends of the connection.
    pub peer: String,
    /// Its protocol's number for it.
    pub number: u32,
    /// Its publishes are confirmed.
    pub confirming: bool,
    /// It works in transactions, or did.
    pub transactional: bool,
    /// Most unsettled deliveries of each later consumer; 0 for no limit.
    pub prefetch: u32,
    /// Most unsettled deliveries of all its consumers; 0 for no limit.
    pub shared_prefetch: u32,
    /// Its consumers.
    pub consumers: u32,
    /// Deliveries, fetched messages included, that it has not settled.
    pub unsettled: u32,
    /// Publishes that have not been answered, as of the last look at its answers.
    pub unconfirmed: u64,
}

impl Engine {
    /// Closes the clients for which `whom` is true, through their protocols. Returns their number.
    pub(crate) fn kick_all(&self, whom: impl Fn(&ClientShared) -> bool, reason: &str) -> u64 {
        let clients = self.clients.lock();
        let mut count = 0;
        for client in clients.values().filter(|client| whom(client)) {
            client.kick(reason);
            count += 1;
        }
        count
    }
}
