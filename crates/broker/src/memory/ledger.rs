//! The bytes that peers make the broker hold besides queued messages, by kind. They count while
//! they are held, with the queued messages, against the memory limit. Each client has an
//! [`Account`] of its own part, and all clients of a user have one [`UserAccount`]. So a user gets
//! no more by more connections.
//!
//! All of them pass when the peer goes on or leaves, so they may raise the alarm. What a client
//! takes while it only is there stays, and is counted apart ([`Kept`]); so are declarations
//! ([`crate::routing::Load`]), for who declared them too ([`Declared`]). Both are bounded by
//! [`crate::engine::admission`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::memory::Memory;
use crate::settings::Settings;

/// The kinds of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Messages of transactions that are not committed.
    Transactions,
    /// Bodies of up to 64 KiB that have not arrived in full. Larger ones have a claim in the
    /// ingress.
    Bodies,
    /// Unread messages that have no queue: direct replies, and those of subscribers without one.
    Replies,
}

impl Held {
    /// Each kind, its name in metrics, and its description.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Transactions, "transactions", "messages of open transactions"),
        (Self::Bodies, "bodies", "small bodies that are not whole"),
        (Self::Replies, "replies", "direct replies, and messages of subscribers without a queue, that are not read"),
    ];
}

/// What a client takes for as long as it is there, each with a cost that was measured: the growth
/// of the process, Linux with glibc, by 2000 connections of AMQP 0-9-1 over plain TCP that rest
/// (8.7 KiB with a session) and by 5000 of MQTT (8.0 KiB with theirs), by 2000 sessions, consumers,
/// and 36 000 links of publishers of AMQP 1.0. Of the consumers 50 000 of five queues take 570
/// bytes each, and 15 000 of a queue each 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Connection,
    Session,
    Consumer,
    Publisher,
}

impl Kept {
    /// Bytes besides texts.
    pub(crate) const fn cost(self) -> usize {
        match self {
            Self::Connection => 8 << 10,
            Self::Session => 1536,
            Self::Consumer => 768,
            Self::Publisher => 384,
        }
    }
}

/// Bytes of each kind.
#[derive(Debug, Default)]
pub(crate) struct Ledger([AtomicUsize; Held::ALL.len()]);

impl Ledger {
    pub(crate) fn of(&self, kind: Held) -> usize {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// Bytes of all kinds.
    #[inline]
    pub(crate) fn all(&self) -> usize {
        self.0.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn add(&self, kind: Held, bytes: usize) {
        self.0[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, kind: Held, bytes: usize) {
        self.0[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The memory of what one user has declared and is there. The log has the user's name beside what
/// it has of these.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared(Arc<DeclaredBytes>);

#[derive(Debug, Default)]
struct DeclaredBytes {
    user: Box<str>,
    bytes: AtomicU64,
}

impl Declared {
    /// Nothing so far.
    pub(crate) fn by(user: &str) -> Self {
        Self(Arc::new(DeclaredBytes { user: user.into(), bytes: AtomicU64::new(0) }))
    }

    pub(crate) fn user(&self) -> &str {
        &self.0.user
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn changed(&self, before: u64, after: u64) {
        self.0.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// True while something is there that it counts.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// The bytes that all clients of one user make the broker hold.
#[derive(Debug)]
pub(crate) struct UserAccount {
    name: Box<str>,
    /// Bytes of each kind.
    held: AtomicUsize,
    /// Bytes of publishes that wait behind an alarm. They do not count against the memory limit:
    /// otherwise they would keep up the alarm that they wait for.
    parked: AtomicUsize,
    declared: Declared,
    /// How many clients it has. Changed under the lock of [`UserAccounts`] alone.
    clients: AtomicUsize,
    /// The sessions of those of its clients that are listed.
    sessions: AtomicUsize,
}

impl UserAccount {
    /// Of a user without clients.
    fn new(declared: Declared) -> Self {
        let [held, parked, clients, sessions] = [const { AtomicUsize::new(0) }; 4];
        Self { name: declared.user().into(), held, parked, declared, clients, sessions }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    pub(crate) fn declared(&self) -> &Declared {
        &self.declared
    }

    fn is_idle(&self) -> bool {
        self.clients.load(Ordering::Relaxed) == 0 && !self.declared.is_used()
    }
}

/// The accounts of the users that have clients, or have declared something.
#[derive(Debug, Default)]
pub(crate) struct UserAccounts {
    accounts: Mutex<HashMap<Box<str>, Arc<UserAccount>>>,
    /// Most bytes of each; 0 for half of the memory limit, at least as many as of one connection.
    most: AtomicUsize,
}

impl UserAccounts {
    /// Sets the limit on each; `None` for the one that follows the memory limit.
    pub(crate) fn set_most(&self, most: Option<u64>) {
        self.most.store(most.map_or(0, |bytes| size(bytes).max(1)), Ordering::Relaxed);
    }

    /// The account of a user, if it has one.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<UserAccount>> {
        self.accounts.lock().get(name).cloned()
    }

    /// The user that holds most, and how many bytes that is.
    pub(crate) fn heaviest(&self) -> Option<(Box<str>, usize)> {
        let accounts = self.accounts.lock();
        accounts.values().max_by_key(|account| account.held()).map(|account| (account.name.clone(), account.held()))
    }

    /// What users had declared before the start counts for them. No client has come yet.
    pub(crate) fn recover(&self, declared: impl IntoIterator<Item = Declared>) {
        let mut accounts = self.accounts.lock();
        for declared in declared {
            let name: Box<str> = declared.user().into();
            accounts.insert(name, Arc::new(UserAccount::new(declared)));
        }
    }

    fn enter(&self, name: &str) -> Arc<UserAccount> {
        let new = || Arc::new(UserAccount::new(Declared::by(name)));
        let mut accounts = self.accounts.lock();
        // What a user had declared may have gone after its last client.
        if accounts.len().is_power_of_two() && !accounts.contains_key(name) {
            accounts.retain(|_, account| !account.is_idle());
        }
        let account = accounts.entry(name.into()).or_insert_with(new);
        account.clients.fetch_add(1, Ordering::Relaxed);
        Arc::clone(account)
    }

    /// A client of this user ends. The last one takes the account along, unless something is there
    /// that the user has declared.
    fn leave(&self, account: &Arc<UserAccount>) {
        let mut accounts = self.accounts.lock();
        account.clients.fetch_sub(1, Ordering::Relaxed);
        if account.is_idle() {
            accounts.remove(&account.name);
        }
    }
}

/// Which part would be exceeded, how much it has already, and how much it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The part of the connection.
    Connection { holds: usize, most: usize },
    /// The part of the user.
    User { holds: usize, most: usize },
}

/// The bytes that one client makes the broker hold. All are counted for its user and in the whole,
/// too.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    own: Ledger,
    /// The bytes that the client takes for as long as it is there.
    kept: AtomicUsize,
    /// Its sessions, and whether they count against the limit of its user.
    sessions: AtomicUsize,
    sessions_count: AtomicBool,
    user: Arc<UserAccount>,
    /// Most bytes; `None` for a quarter of the memory limit, at least `least`.
    most: Option<usize>,
    /// The bytes that may wait behind an alarm anyway.
    least: usize,
}

impl Account {
    pub(crate) fn new(memory: &Arc<Memory>, settings: &Settings, user: &str) -> Self {
        Self {
            memory: Arc::clone(memory),
            own: Ledger::default(),
            kept: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            sessions_count: AtomicBool::new(false),
            user: memory.users().enter(user),
            most: settings.connection_memory.map(size),
            least: settings.parking.bytes,
        }
    }

    pub(crate) fn hold(&self, kind: Held, bytes: usize) {
        self.own.add(kind, bytes);
        self.user.held.fetch_add(bytes, Ordering::Relaxed);
        self.memory.hold(kind, bytes);
    }

    pub(crate) fn let_go(&self, kind: Held, bytes: usize) {
        self.own.remove(kind, bytes);
        self.user.held.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.let_go(kind, bytes);
    }

    /// The client takes this from now on, with texts of so many bytes.
    pub(crate) fn keep(&self, kept: Kept, texts: usize) {
        self.kept.fetch_add(kept.cost() + texts, Ordering::Relaxed);
        self.memory.kept.fetch_add(kept.cost() + texts, Ordering::Relaxed);
    }

    /// It takes that no more.
    pub(crate) fn end(&self, kept: Kept, texts: usize) {
        self.kept.fetch_sub(kept.cost() + texts, Ordering::Relaxed);
        self.memory.kept.fetch_sub(kept.cost() + texts, Ordering::Relaxed);
    }

    /// The client is among those that count against limits. It has no session yet.
    pub(crate) fn list(&self) {
        self.sessions_count.store(true, Ordering::Relaxed);
    }

    /// Its sessions do not count nevertheless. It has none yet.
    pub(crate) fn leave_out_sessions(&self) {
        self.sessions_count.store(false, Ordering::Relaxed);
    }

    fn sessions_count(&self) -> bool {
        self.sessions_count.load(Ordering::Relaxed)
    }

    /// The client has one more session.
    pub(crate) fn add_session(&self) {
        self.keep(Kept::Session, 0);
        self.sessions.fetch_add(1, Ordering::Relaxed);
        if self.sessions_count() {
            self.user.sessions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One of its sessions has ended.
    pub(crate) fn remove_session(&self) {
        self.end(Kept::Session, 0);
        self.sessions.fetch_sub(1, Ordering::Relaxed);
        if self.sessions_count() {
            self.user.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The sessions of its user that count.
    pub(crate) fn sessions_of_user(&self) -> usize {
        self.user.sessions.load(Ordering::Relaxed)
    }

    /// Bytes of one kind.
    pub(crate) fn of(&self, kind: Held) -> usize {
        self.own.of(kind)
    }

    /// Bytes of all kinds.
    pub(crate) fn held(&self) -> usize {
        self.own.all()
    }

    /// The limit on its bytes.
    fn most(&self) -> usize {
        self.most.unwrap_or_else(|| (self.memory.limit() / 4).max(self.least))
    }

    /// The limit on the bytes of its user.
    fn most_of_user(&self) -> usize {
        match self.memory.users().most.load(Ordering::Relaxed) {
            0 => (self.memory.limit() / 2).max(self.most()),
            most => most,
        }
    }

    /// The part that so many more bytes would exceed.
    pub(crate) fn shortage(&self, bytes: usize) -> Option<Shortage> {
        let (holds, most) = (self.held(), self.most());
        if holds.saturating_add(bytes) > most {
            return Some(Shortage::Connection { holds, most });
        }
        let (holds, most) = (self.user.held(), self.most_of_user());
        (holds.saturating_add(bytes) > most).then_some(Shortage::User { holds, most })
    }

    /// Whether so many more bytes are within the limits of the client and its user.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.shortage(bytes).is_none()
    }

    /// What the user holds, if that is more than it may hold while memory is short: a quarter of
    /// its part, and at least what one connection may keep then.
    pub(crate) fn too_much_in_an_alarm(&self) -> Option<usize> {
        let holds = self.user.held() + self.user.parked();
        (holds > (self.most_of_user() / 4).max(self.least)).then_some(holds)
    }

    /// What its user has declared.
    pub(crate) fn declared(&self) -> &Declared {
        &self.user.declared
    }

    /// A publish of so many bytes waits behind an alarm.
    pub(crate) fn park(&self, bytes: usize) {
        self.user.parked.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Publishes of so many bytes wait no more.
    pub(crate) fn unpark(&self, bytes: usize) {
        self.user.parked.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether memory is full for all clients.
    pub(crate) fn is_full(&self) -> bool {
        self.memory.is_full()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.memory.kept.fetch_sub(*self.kept.get_mut(), Ordering::Relaxed);
        if self.sessions_count() {
            self.user.sessions.fetch_sub(*self.sessions.get_mut(), Ordering::Relaxed);
        }
        self.memory.users().leave(&self.user);
    }
}

/// Bytes that are held, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    kind: Held,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(account: &Arc<Account>, kind: Held) -> Self {
        Self { account: Arc::clone(account), kind, bytes: 0 }
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.account.hold(self.kind, bytes);
    }

    /// The bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.let_go(self.kind, self.bytes);
    }
}

/// The room that a link of a publisher takes, until it is dropped.
#[derive(Debug)]
pub struct PublisherRoom {
    account: Arc<Account>,
    texts: usize,
}

impl PublisherRoom {
    pub(crate) fn new(account: &Arc<Account>, texts: usize) -> Self {
        account.keep(Kept::Publisher, texts);
        Self { account: Arc::clone(account), texts }
    }
}

impl Drop for PublisherRoom {
    fn drop(&mut self) {
        self.account.end(Kept::Publisher, self.texts);
    }
}
