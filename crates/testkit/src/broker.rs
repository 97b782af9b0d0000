//! A broker inside the test's own process, over memory, a simulated disk or a real directory, with
//! a clock that the test sets.
//!
//! Over a simulated disk the journal has no threads: nothing is durable before
//! [`TestBroker::flush`] says so.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use auth::{AuthoritySettings, Cost, PasswordHash, Permission, TopicPermission, User};
use broker::{
    Broker, Client, Clock, Content, Dialect, DialectId, Dialects, Error, FirstUser, Login, Parts, Properties, Settings,
    Standby, Value,
};
use journal::{Activity, Backup, BackupError, Disk, Durability, Fed, Feed, Options, RealDisk, Stepper};

use crate::sim_disk::SimDisk;

/// The calendar time at which every test begins, in milliseconds since 1970.
const BEGIN: u64 = 1_700_000_000_000;

/// A clock that moves only when it is told to; it tells calendar time and the passing of time
/// alike.
pub struct FakeClock {
    start: Instant,
    passed_ms: AtomicU64,
    /// What goes on before the next one who looks at the clock does.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Default for FakeClock {
    fn default() -> Self {
        Self { start: Instant::now(), passed_ms: AtomicU64::new(0), meanwhile: Mutex::default() }
    }
}

impl FakeClock {
    /// Moves on by so many milliseconds.
    pub fn advance(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn lock_meanwhile(&self) -> MutexGuard<'_, Option<Meanwhile>> {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.passed_ms.load(Ordering::SeqCst))
    }
}

impl Clock for FakeClock {
    fn unix_ms(&self) -> u64 {
        let first = self.lock_meanwhile().take();
        first.into_iter().for_each(|first| first());
        BEGIN + self.passed_ms.load(Ordering::SeqCst)
    }
}

/// The encoding of properties in tests: lines `name=value`, each a header. A value of digits is an
/// integer; `CC` and `BCC` are lists of texts with commas between them.
#[derive(Debug)]
pub struct TextDialect;

impl TextDialect {
    /// Its id, which no protocol has.
    pub const ID: DialectId = DialectId(255);
}

impl Dialect for TextDialect {
    fn id(&self) -> DialectId {
        Self::ID
    }

    fn read(&self, content: Content<'_>) -> Result<Properties, Error> {
        let mut properties = Properties::default();
        for line in String::from_utf8_lossy(content.properties).lines() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let listed = || value.split(',').map(|key| Value::Text(key.to_owned())).collect();
            let value = if ["CC", "BCC"].contains(&name) { Value::Array(listed()) } else { value_of(value) };
            properties.headers.set(name, value);
        }
        Ok(properties)
    }
}

/// An integer, a truth value or text.
pub fn value_of(text: &str) -> Value {
    match (text, text.parse()) {
        ("true", _) => Value::Bool(true),
        ("false", _) => Value::Bool(false),
        (_, Ok(number)) => Value::I64(number),
        _ => Value::Text(text.to_owned()),
    }
}

/// Fields as scripts write them, `name=value` between spaces.
pub fn table_of(text: &str) -> broker::Table {
    let fields = text.split_whitespace().filter_map(|word| word.split_once('='));
    broker::Table(fields.map(|(name, value)| (name.to_owned(), value_of(value))).collect())
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
pub struct WakeCount(AtomicUsize);

impl WakeCount {
    /// Whether it was woken since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(0, Ordering::SeqCst) > 0
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a test's broker is opened with.
#[derive(Clone)]
pub struct Setup {
    /// Where the journal lies.
    pub disk: Arc<dyn Disk>,
    /// How it is kept.
    pub journal: Options,
    /// The journal runs in its own threads; otherwise the test drives it.
    pub threads: bool,
    /// The broker's settings.
    pub settings: Settings,
    /// The user that the broker itself makes on an empty directory, besides `guest`, which the test
    /// adds each time.
    pub default_user: Option<(String, String)>,
    /// The encodings of properties that it knows: [`TextDialect`], and those of the protocol that
    /// is tested.
    pub dialects: Dialects,
    /// The clock, which outlives restarts.
    pub clock: Arc<FakeClock>,
    /// What is random at each start.
    pub boot_key: [u8; 32],
}

impl Setup {
    /// Nothing is written, everything is durable at once.
    pub fn memory() -> Self {
        let options = Options { durability: Durability::Memory, ..Options::default() };
        Self::new(Arc::new(SimDisk::new(0, 0)), options)
    }

    /// Over a simulated disk: a ring of `ring` bytes in files of an eighth of it, driven by the
    /// test.
    pub fn stepped(disk: &SimDisk, ring: u64) -> Self {
        Self::new(Arc::new(disk.clone()), small_ring(ring))
    }

    /// Over a real directory, with the journal's threads.
    pub fn directory(path: &Path, ring: u64) -> Self {
        let disk = RealDisk::open(path).expect("the test's directory can be made").past_the_cache();
        Self { threads: true, ..Self::new(Arc::new(disk), small_ring(ring)) }
    }

    fn parts(&self) -> Parts {
        Parts {
            disk: Arc::clone(&self.disk),
            journal: self.journal.clone(),
            // A test that drives the journal sees the error. With threads nothing becomes durable
            // any more.
            on_journal_failure: Box::new(|_| ()),
            settings: self.settings.clone(),
            authority: AuthoritySettings::new(self.boot_key),
            dialects: self.dialects.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            name_key: [1; 32],
            default_vhost: "/".to_owned(),
            default_user: self.default_user.as_ref().map(|(name, password)| FirstUser::administrator(name, password)),
            salt: [1; 16],
        }
    }

    fn new(disk: Arc<dyn Disk>, journal: Options) -> Self {
        let clock = Arc::new(FakeClock::default());
        let dialects = Dialects::new(vec![Arc::new(TextDialect)]);
        let (settings, boot_key) = (Settings::default(), [7; 32]);
        Self { disk, journal, threads: false, settings, default_user: None, dialects, clock, boot_key }
    }
}

fn small_ring(ring: u64) -> Options {
    let file = u32::try_from(ring / 8).unwrap_or(u32::MAX);
    Options {
        file_bytes: file,
        first_file_bytes: file,
        max_bytes: ring,
        max_batch_bytes: file / 4,
        incarnation: 7,
        ..Options::default()
    }
}

/// A broker that follows another, driven by the test.
pub struct TestFollower {
    /// It.
    pub follower: Standby,
    feed: Feed,
    setup: Setup,
    stepper: Stepper,
}

impl TestFollower {
    /// Opens one that follows `leader` from where its directory is.
    ///
    /// # Panics
    /// If it can't be opened.
    pub fn open(setup: Setup, leader: &TestBroker) -> Self {
        let mut stepper = None;
        let opened = Standby::open_with(setup.parts(), |opened, live, owners, on_failure| {
            let (follower, steps) = opened.follow_stepped(live, owners, on_failure)?;
            stepper = Some(steps);
            Ok(follower)
        });
        let follower = opened.unwrap_or_else(|error| panic!("the follower does not open: {error}"));
        let feed = leader.broker.feed(follower.ends().into_iter().map(|end| (end.log, end.index)));
        Self { follower, feed, setup, stepper: stepper.expect("it was started") }
    }

    /// Takes at most so many entries, and says how many there were.
    ///
    /// # Panics
    /// If one is refused, or has left the leader's log.
    pub fn take(&mut self, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most {
            match self.feed.pull().unwrap_or_else(|error| panic!("{error}")) {
                Fed::Entry(entry) => {
                    self.follower.apply(&entry).unwrap_or_else(|refused| panic!("{refused}"));
                    taken += 1;
                }
                Fed::Horizon(file) => self.follower.horizon(file),
                Fed::Nothing => break,
            }
        }
        taken
    }

    /// Lets the journal flush, and its background work for so many steps.
    ///
    /// # Panics
    /// If the journal has failed.
    pub fn work(&self, steps: u64) {
        self.stepper.flush().expect("the journal takes its records");
        for _ in 0..steps {
            self.stepper.background(Activity::Busy);
            self.stepper.flush().expect("the journal takes its records");
        }
    }

    /// Its process ends, and it is opened again.
    #[must_use]
    pub fn restart(self, disk: &SimDisk, leader: &TestBroker) -> Self {
        let setup = self.setup.clone();
        drop(self);
        disk.restart();
        Self::open(setup, leader)
    }

    /// Follows no longer, and serves.
    ///
    /// # Panics
    /// If it can't.
    pub fn promote(self) -> TestBroker {
        let Self { follower, setup, stepper, .. } = self;
        let broker = follower.promote().unwrap_or_else(|error| panic!("it can't be promoted: {error}"));
        TestBroker::of(broker, setup, Some(stepper))
    }
}

/// See the module.
pub struct TestBroker {
    /// The broker.
    pub broker: Broker,
    /// What it was opened with.
    pub setup: Setup,
    stepper: Option<Stepper>,
    housekeeper: Arc<WakeCount>,
    pager: Arc<WakeCount>,
}

impl TestBroker {
    /// Begins to copy the directory, of which the test drives the journal.
    ///
    /// # Errors
    /// Why there can't be a copy.
    pub fn backup(&self, to: Arc<dyn Disk>) -> Result<Backup, BackupError> {
        self.stepper
            .as_ref()
            .map_or_else(|| self.broker.backup(Arc::clone(&to)), |stepper| stepper.backup(Arc::clone(&to)))
    }

    /// Opens a broker; `guest`, with the password `guest`, may do everything in vhost `/`.
    ///
    /// # Panics
    /// If it can't be opened.
    pub fn open(setup: Setup) -> Self {
        match Self::try_open(setup) {
            Ok(broker) => broker,
            Err(error) => panic!("the broker does not open: {error}"),
        }
    }

    /// As [`TestBroker::open`].
    ///
    /// # Errors
    /// The broker's.
    pub fn try_open(setup: Setup) -> Result<Self, broker::OpenError> {
        let parts = setup.parts();
        let mut stepper = None;
        let broker = if setup.threads {
            Broker::open(parts)?
        } else {
            Broker::open_with(parts, |opened, live, owners, on_failure| {
                let (journal, steps) = opened.start_stepped(live, owners, on_failure);
                stepper = Some(steps);
                journal
            })?
        };
        Ok(Self::of(broker, setup, stepper))
    }

    /// One that is open, with its `guest`.
    fn of(broker: Broker, setup: Setup, stepper: Option<Stepper>) -> Self {
        let opened = Self { broker, setup, stepper, housekeeper: Arc::default(), pager: Arc::default() };
        opened.user("guest", ".*", ".*", ".*");
        opened.housekeep();
        opened
    }

    /// Adds a user, until the next restart, whose password is its name.
    ///
    /// # Panics
    /// If a pattern can't be used.
    pub fn user(&self, name: &str, configure: &str, write: &str, read: &str) {
        let cheap = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let hash = PasswordHash::create(name.as_bytes(), [1; 16], cheap).expect("the password is not empty");
        let mut user = User::new(name, Some(hash));
        let permission = Permission::new(configure, write, read).expect("the patterns are good");
        user.permissions.insert("/".into(), permission);
        self.broker.authority().put(user).expect("the user is good");
    }

    /// From now on `user` may read those topics of `amq.topic` alone that match the pattern.
    ///
    /// # Panics
    /// If there is no such user, or the pattern can't be used.
    pub fn may_read_topics(&self, user: &str, pattern: &str) {
        let topics = TopicPermission::new(user, "/", ".*", pattern).expect("the pattern is good");
        let change = |user: &mut User| {
            user.topic_permissions.insert(("/".into(), "amq.topic".into()), topics);
            Ok(())
        };
        self.broker.change_user(user, change).expect("the user is there");
    }

    /// Attaches as `user` to vhost `/`.
    ///
    /// # Errors
    /// The broker's.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn attach(&self, user: &str, waker: Waker) -> Result<Client, Error> {
        self.attach_to(user, "/", waker)
    }

    /// Attaches as `user` to a vhost.
    ///
    /// # Errors
    /// The broker's.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn attach_to(&self, user: &str, vhost: &str, waker: Waker) -> Result<Client, Error> {
        let identity = self
            .broker
            .authority()
            .verify(user, user.as_bytes(), std::net::Ipv4Addr::LOCALHOST.into(), self.setup.clock.now())
            .unwrap_or_else(|refusal| panic!("{user} can't log in: {refusal:?}"));
        let login = Login {
            identity,
            vhost: vhost.to_owned(),
            protocol: "test",
            peer: "127.0.0.1:1 -> 127.0.0.1:2".to_owned(),
            name: None,
            properties: broker::Table::default(),
            terms: broker::Terms::default(),
        };
        self.broker.attach(login, waker)
    }

    /// The present of its clock.
    pub fn now(&self) -> Instant {
        self.setup.clock.now()
    }

    /// Lets the journal's writer flush, if the test drives it, and runs the housekeeping until it
    /// is not woken any more. A writer that something was appended for and that was not woken
    /// sleeps on, as its thread would.
    ///
    /// # Panics
    /// If the journal has failed.
    pub fn flush(&self) {
        let write = |stepper: &Stepper| stepper.run_writer().expect("the journal takes its records");
        self.stepper.as_ref().map(write);
        self.housekeep();
        for _ in 0..10_000 {
            let flushed = self.stepper.as_ref().map(write);
            if !self.housekeeper.take() && flushed != Some(journal::Flushed::Done) {
                return;
            }
            self.housekeep();
        }
        panic!("the housekeeping does not come to rest");
    }

    /// Whether the housekeeping was woken since this, or [`TestBroker::flush`], looked last.
    pub fn wants_housekeeping(&self) -> bool {
        self.housekeeper.take()
    }

    /// Runs the housekeeping once, and reads from the disk what queues wait for.
    pub fn housekeep(&self) {
        self.housekeep_only();
        self.page();
    }

    /// Reads from the disk what queues wait for.
    pub fn page(&self) {
        while self.page_once() || self.pager.take() {}
    }

    /// One errand of the pager; false if there was none.
    pub fn page_once(&self) -> bool {
        self.broker.page(&Waker::from(Arc::clone(&self.pager)))
    }

    /// One errand of the pager, and `first` is done between its work and its saying what came of
    /// it, when it looks at the clock.
    pub fn page_overtaken_by(&self, first: impl FnOnce() + Send + 'static) {
        self.overtaken_by(first, || self.page_once());
    }

    /// Does `act`, and `first` where that looks at the clock for the first time.
    pub fn overtaken_by<R>(&self, first: impl FnOnce() + Send + 'static, act: impl FnOnce() -> R) -> R {
        *self.setup.clock.lock_meanwhile() = Some(Box::new(first));
        let result = act();
        *self.setup.clock.lock_meanwhile() = None;
        result
    }

    /// The housekeeping alone: nothing is read from the disk.
    pub fn housekeep_only(&self) {
        self.broker.housekeep(self.now(), &Waker::from(Arc::clone(&self.housekeeper)));
    }

    /// Lets the journal's background work for at most `steps`, if the test drives it, and flushes
    /// in between. False when the journal has failed.
    pub fn background(&self, steps: usize) -> bool {
        let Some(stepper) = &self.stepper else { return true };
        for _ in 0..steps {
            let more = stepper.background(Activity::Busy);
            match stepper.flush() {
                Err(_) => return false,
                Ok(flushed) if !more && flushed != journal::Flushed::Done => return true,
                Ok(_) => {}
            }
        }
        true
    }

    /// One flush of the journal, without its consequences; false when it failed.
    pub fn try_flush(&self) -> bool {
        self.stepper.as_ref().is_none_or(|stepper| stepper.flush().is_ok())
    }

    /// Stops it in good order, and gives back what it takes to open it again.
    ///
    /// # Panics
    /// If the journal does not take its last records.
    pub fn stop(self) -> Setup {
        self.broker.close().expect("the journal takes its last records");
        self.setup
    }

    /// Lets go of it as a crash does: nothing more is written. The disk must have been told
    /// already.
    pub fn abandon(self) -> Setup {
        self.setup
    }
}
