//! Logging in: the order of the checks, the threads that compute hashes, and the memory of recent
//! successes.
//!
//! Argon2 is slow on purpose, so it never runs on a connection's thread. A few threads of its own
//! take jobs from a bounded queue and wake the connection. That bounds both the processors and the
//! memory (19 MiB a thread) that peers without an account can use. The queue serves networks in
//! turn, and those that have failed lately behind the others. A success is remembered for a minute
//! under a keyed hash. So ten thousand clients that come back after a network failure do not cost
//! ten thousand computations. Too many failures refuse a login before, also while its job waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::{Condvar, Mutex};
use wire::InTurn;

use crate::password::Work;
use crate::throttle::{Attempt, Standing, Throttle, Verdict};
use crate::{FailureLimits, Identity, PasswordHash, Tags};

/// How long a success is remembered.
const REMEMBER: Duration = Duration::from_secs(60);
/// How many successes are remembered at once.
const REMEMBERED: usize = 10_000;
/// Logins of one standing that may wait for a hashing thread; of more, the newest of the network
/// with the most is refused.
const WAITING: usize = 4096;

/// Why a login was refused. The texts are for the log. Clients get one and the same text for all of
/// them: the difference would tell an attacker which users exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such user, it has no password, or the password is wrong.
    WrongCredentials,
    /// An empty password; never accepted, whatever is stored.
    EmptyPassword,
    /// The user may connect from a loopback address only, and the peer's is another.
    NotLoopback,
    /// Too many logins have failed lately from this address, or for this user from there; the
    /// password was not looked at.
    TooManyFailures,
    /// Too many logins are waiting already; the client may try again.
    Busy,
}

impl Refusal {
    /// Whether this can come as fast as peers can connect, so that a line for each would fill the
    /// log. Any other refusal counts as a failure, and after some failures log-ins are refused by
    /// this.
    pub fn is_endless(&self) -> bool {
        matches!(self, Self::TooManyFailures | Self::Busy)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WrongCredentials => "unknown user or wrong password",
            Self::EmptyPassword => "the password is empty",
            Self::NotLoopback => "this user can only connect via localhost",
            Self::TooManyFailures => "too many log-ins from this address have failed within a minute",
            Self::Busy => "too many logins are waiting",
        })
    }
}

impl std::error::Error for Refusal {}

/// A login under way. Dropping it abandons the login.
#[derive(Debug)]
pub struct Login {
    outcome: Arc<Mutex<Option<Result<Identity, Refusal>>>>,
}

impl Login {
    /// The outcome, once: `None` until it is known, and again after it has been taken.
    pub fn take(&self) -> Option<Result<Identity, Refusal>> {
        self.outcome.lock().take()
    }
}

/// One password to check.
pub(crate) struct Job {
    pub(crate) user: Arc<str>,
    pub(crate) tags: Tags,
    pub(crate) from: IpAddr,
    pub(crate) hash: PasswordHash,
    /// How passwords are kept here.
    pub(crate) kept: &'static [Work],
    pub(crate) password: Vec<u8>,
    pub(crate) now: Instant,
    pub(crate) waker: Waker,
}

struct Waiting {
    job: Job,
    outcome: Arc<Mutex<Option<Result<Identity, Refusal>>>>,
}

/// How many logins have ended in which way since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// Those that were let in.
    pub succeeded: u64,
    /// Those that were refused, but for the next.
    pub refused: u64,
    /// Those that were refused since too many had failed before.
    pub throttled: u64,
}

/// What the connections and the hashing threads share.
struct Shared {
    successes: Successes,
    throttle: Throttle,
    /// Counts what fails without a look at a password: that takes nothing from those who bring one.
    unlooked: Throttle,
    succeeded: AtomicU64,
    refused: AtomicU64,
    throttled: AtomicU64,
}

impl Shared {
    fn count(&self, outcome: &Result<Identity, Refusal>) {
        let counter = match outcome {
            Ok(_) => &self.succeeded,
            Err(Refusal::TooManyFailures) => &self.throttled,
            Err(_) => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn finish(&self, waiting: Waiting, decided: Result<Identity, Refusal>) {
        self.count(&decided);
        *waiting.outcome.lock() = Some(decided);
        waiting.job.waker.wake();
    }

    /// Checks one password, unless none waits for that any more.
    fn check(&self, waiting: Waiting) {
        // A login that was abandoned is skipped, so an attacker who hangs up at once costs nothing.
        if Arc::strong_count(&waiting.outcome) == 1 {
            return;
        }
        let job = &waiting.job;
        let attempt = Attempt { from: job.from, user: &job.user };
        // Asked again: those that came in one burst with this one may have failed since it was
        // asked first.
        let decided = if self.throttle.judge(attempt, job.now) != Verdict::Look {
            Err(Refusal::TooManyFailures)
        } else if job.hash.matches_among(&job.password, job.kept) {
            self.successes.insert(&job.user, &job.hash, &job.password, job.now);
            self.throttle.prove(attempt, job.now);
            Ok(Identity::by_password(Arc::clone(&job.user), job.tags.clone(), job.hash.clone()))
        } else {
            self.throttle.count(attempt, job.now);
            Err(Refusal::WrongCredentials)
        };
        self.finish(waiting, decided);
    }
}

/// Passwords that wait to be checked, and the threads that check them.
struct Line {
    waiting: Mutex<Waitings>,
    arrived: Condvar,
}

/// Those of one line by standing, each in turn by network.
struct Waitings {
    proven: InTurn<Waiting>,
    unknown: InTurn<Waiting>,
    failed: InTurn<Waiting>,
    /// Counts what was taken.
    taken: u64,
    /// The threads run.
    served: bool,
    closed: bool,
}

impl Waitings {
    fn of(&mut self, standing: Standing) -> &mut InTurn<Waiting> {
        match standing {
            Standing::Proven => &mut self.proven,
            Standing::Unknown => &mut self.unknown,
            Standing::Failed => &mut self.failed,
        }
    }

    /// The next one: by standing, but that one in four of each of the later two goes before.
    fn take(&mut self) -> Option<Waiting> {
        use Standing::{Failed, Proven, Unknown};
        let order = match self.taken % 4 {
            1 => [Unknown, Proven, Failed],
            3 => [Failed, Proven, Unknown],
            _ => [Proven, Unknown, Failed],
        };
        let next = order.into_iter().find_map(|standing| self.of(standing).pop())?;
        self.taken += 1;
        Some(next)
    }
}

impl Line {
    fn new() -> Arc<Self> {
        let waiting = Waitings {
            proven: InTurn::new(WAITING),
            unknown: InTurn::new(WAITING),
            failed: InTurn::new(WAITING),
            taken: 0,
            served: false,
            closed: false,
        };
        Arc::new(Self { waiting: Mutex::new(waiting), arrived: Condvar::new() })
    }

    /// Puts one in. Returns what has no place then.
    fn push(&self, waiting: Waiting, standing: Standing) -> Option<Waiting> {
        let from = waiting.job.from;
        let dropped = self.waiting.lock().of(standing).push(from, waiting);
        self.arrived.notify_one();
        dropped
    }

    /// Waits for one; `None` when there will be none any more.
    fn pop(&self) -> Option<Waiting> {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            if let Some(next) = waiting.take() {
                return Some(next);
            }
            self.arrived.wait(&mut waiting);
        }
        None
    }

    /// Starts the threads if they are not running. False when the system gives none.
    fn serve(self: &Arc<Self>, name: &str, threads: usize, shared: &Arc<Shared>) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.served {
            let started = (0..threads).filter(|number| {
                let (line, shared) = (Arc::clone(self), Arc::clone(shared));
                let builder = std::thread::Builder::new().name(format!("{name}-{number}"));
                let life = move || {
                    while let Some(next) = line.pop() {
                        shared.check(next);
                    }
                };
                builder.spawn(life).is_ok()
            });
            waiting.served = started.count() > 0;
        }
        waiting.served
    }

    fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }
}

/// The hashing threads and what they remember. Threads start at the first login that needs one and
/// end with this.
pub(crate) struct Logins {
    usual: Arc<Line>,
    /// Hashes that take far longer than others, on a thread of their own: they hold up no other
    /// login.
    costly: Arc<Line>,
    threads: usize,
    shared: Arc<Shared>,
}

impl Drop for Logins {
    fn drop(&mut self) {
        self.usual.close();
        self.costly.close();
    }
}

impl Logins {
    pub(crate) fn new(threads: usize, failures: FailureLimits, boot_key: [u8; 32]) -> Self {
        let shared = Shared {
            successes: Successes::new(boot_key),
            throttle: Throttle::new(failures, boot_key),
            unlooked: Throttle::new(failures, boot_key),
            succeeded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        };
        Self { usual: Line::new(), costly: Line::new(), threads: threads.max(1), shared: Arc::new(shared) }
    }

    pub(crate) fn counts(&self) -> LoginCounts {
        let Shared { succeeded, refused, throttled, .. } = &*self.shared;
        let [succeeded, refused, throttled] =
            [succeeded, refused, throttled].map(|count| count.load(Ordering::Relaxed));
        LoginCounts { succeeded, refused, throttled }
    }

    /// A login whose outcome is known at once.
    pub(crate) fn decided(&self, outcome: Result<Identity, Refusal>) -> Login {
        self.shared.count(&outcome);
        Login { outcome: Arc::new(Mutex::new(Some(outcome))) }
    }

    /// A login that fails without a password to look at. Those are counted for themselves, so that
    /// their reason is not told for ever either: what is beyond the limits is
    /// [`Refusal::TooManyFailures`].
    pub(crate) fn refused(&self, refusal: Refusal, attempt: Attempt<'_>, now: Instant) -> Login {
        if self.shared.unlooked.judge(attempt, now) != Verdict::Look {
            return self.decided(Err(Refusal::TooManyFailures));
        }
        self.shared.unlooked.count(attempt, now);
        self.decided(Err(refusal))
    }

    /// What may be done about a login.
    pub(crate) fn judge(&self, attempt: Attempt<'_>, now: Instant) -> Verdict {
        self.shared.throttle.judge(attempt, now)
    }

    /// A login that has succeeded without a hash to compute.
    pub(crate) fn succeeded(&self, identity: Identity, attempt: Attempt<'_>, now: Instant) -> Login {
        self.shared.throttle.prove(attempt, now);
        self.decided(Ok(identity))
    }

    /// A login that has failed without a hash to compute: what it brought was compared with
    /// something known.
    pub(crate) fn failed(&self, attempt: Attempt<'_>, verdict: Verdict, now: Instant) -> Login {
        match verdict {
            Verdict::Look => {
                self.shared.throttle.count(attempt, now);
                self.decided(Err(Refusal::WrongCredentials))
            }
            Verdict::Compare => {
                self.shared.throttle.count_compared(attempt, now);
                self.decided(Err(Refusal::TooManyFailures))
            }
            Verdict::Refuse => self.decided(Err(Refusal::TooManyFailures)),
        }
    }

    /// Whether this password was right for this user and this very hash within the last minute.
    pub(crate) fn remembers(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) -> bool {
        self.shared.successes.contains(user, hash, password, now)
    }

    pub(crate) fn start(&self, job: Job) -> Login {
        let outcome = Arc::new(Mutex::new(None));
        let standing = self.shared.throttle.standing(Attempt { from: job.from, user: &job.user }, job.now);
        let (line, name, threads) = match job.hash.is_costly() {
            true => (&self.costly, "login-costly", 1),
            false => (&self.usual, "login", self.threads),
        };
        if !line.serve(name, threads, &self.shared) {
            return self.decided(Err(Refusal::Busy));
        }
        if let Some(dropped) = line.push(Waiting { job, outcome: Arc::clone(&outcome) }, standing) {
            self.shared.finish(dropped, Err(Refusal::Busy));
        }
        Login { outcome }
    }
}

/// Recent successes, each under a hash keyed with a secret of this process, so that memory holds no
/// password.
struct Successes {
    boot_key: [u8; 32],
    until: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Successes {
    fn new(boot_key: [u8; 32]) -> Self {
        Self { boot_key, until: Mutex::default() }
    }

    /// Argon2id with its smallest parameters and the boot key as its secret: a keyed hash of some
    /// microseconds. The stored hash is part of it, so a changed password is not remembered.
    fn key(&self, user: &str, hash: &PasswordHash, password: &[u8]) -> Option<[u8; 32]> {
        let params = Params::new(Params::MIN_M_COST, 1, 1, Some(32)).ok()?;
        let keyed = Argon2::new_with_secret(&self.boot_key, Algorithm::Argon2id, Version::V0x13, params).ok()?;
        let salt = [hash.as_str().as_bytes(), &[0], user.as_bytes()].concat();
        let mut key = [0; 32];
        keyed.hash_password_into(password, &salt, &mut key).ok()?;
        Some(key)
    }

    fn contains(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) -> bool {
        // No success is remembered at most times: then the key need not be computed.
        if self.until.lock().is_empty() {
            return false;
        }
        let Some(key) = self.key(user, hash, password) else {
            return false;
        };
        self.until.lock().get(&key).is_some_and(|until| now < *until)
    }

    fn insert(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) {
        let Some(key) = self.key(user, hash, password) else {
            return;
        };
        let mut until = self.until.lock();
        if until.len() >= REMEMBERED {
            until.retain(|_, until| now < *until);
        }
        if until.len() < REMEMBERED {
            until.insert(key, now + REMEMBER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;

    #[test]
    fn a_success_is_remembered_for_a_minute_and_for_its_hash_alone() {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let hash = PasswordHash::create(b"secret", [1; 16], cost).unwrap();
        let renewed = PasswordHash::create(b"secret", [2; 16], cost).unwrap();
        let successes = Successes::new([9; 32]);
        let now = Instant::now();
        assert!(!successes.contains("alice", &hash, b"secret", now));
        successes.insert("alice", &hash, b"secret", now);
        let late = now + REMEMBER;
        for (user, hash, password, at, expected) in [
            ("alice", &hash, &b"secret"[..], now, true),
            ("alice", &hash, b"secret", late - Duration::from_nanos(1), true),
            ("alice", &hash, b"secret", late, false),
            ("alice", &hash, b"Secret", now, false),
            ("bob", &hash, b"secret", now, false),
            ("alice", &renewed, b"secret", now, false),
        ] {
            assert_eq!(successes.contains(user, hash, password, at), expected);
        }
        assert_ne!(Successes::new([8; 32]).key("alice", &hash, b"x"), successes.key("alice", &hash, b"x"));
    }

    fn job(user: &str, from: &str, hash: &PasswordHash) -> Waiting {
        let job = Job {
            user: user.into(),
            tags: Tags::default(),
            from: from.parse().unwrap(),
            hash: hash.clone(),
            kept: &[],
            password: b"x".to_vec(),
            now: Instant::now(),
            waker: Waker::noop().clone(),
        };
        Waiting { job, outcome: Arc::default() }
    }

    /// 15 networks with 20 connections each, all guessing: who comes then is the first or the
    /// second to be served.
    #[test]
    fn a_fresh_login_does_not_wait_behind_guesses() {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let hash = PasswordHash::create(b"secret", [1; 16], cost).unwrap();
        for (taken, standing, most) in
            [(0, Standing::Proven, 1), (1, Standing::Proven, 2), (2, Standing::Unknown, 2), (3, Standing::Unknown, 2)]
        {
            let line = Line::new();
            for number in 0..300 {
                let from = format!("10.0.0.{}", number % 15);
                assert!(line.push(job("guess", &from, &hash), Standing::Failed).is_none());
            }
            line.waiting.lock().taken = taken;
            assert!(line.push(job("alice", "10.1.0.1", &hash), standing).is_none());
            let mut served = std::iter::from_fn(|| line.waiting.lock().take());
            let place = served.position(|waiting| &*waiting.job.user == "alice").unwrap();
            assert!(place < most, "{standing:?} is served at {place}");
        }
    }

    /// Who guesses is served too, so that a user whose network has failed is not kept out by
    /// others' log-ins without end.
    #[test]
    fn each_standing_has_its_share_and_each_network_its_turn() {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let hash = PasswordHash::create(b"secret", [1; 16], cost).unwrap();
        let line = Line::new();
        for number in 0..100 {
            line.push(job("busy", "10.0.0.1", &hash), Standing::Proven);
            line.push(job("new", &format!("10.0.1.{number}"), &hash), Standing::Unknown);
        }
        (0..20).for_each(|_| drop(line.push(job("guess", "10.0.0.2", &hash), Standing::Failed)));
        line.push(job("alice", "10.0.0.3", &hash), Standing::Failed);
        let served: Vec<_> =
            std::iter::from_fn(|| line.waiting.lock().take()).take(16).map(|waiting| waiting.job.user).collect();
        let count = |user: &str| served.iter().filter(|served| ***served == *user).count();
        assert_eq!((count("busy"), count("new"), count("guess"), count("alice")), (8, 4, 3, 1));
    }

    #[test]
    fn when_the_line_is_full_the_network_with_the_most_is_refused() {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let hash = PasswordHash::create(b"secret", [1; 16], cost).unwrap();
        let line = Line::new();
        for _ in 0..WAITING {
            assert!(line.push(job("guess", "10.0.0.1", &hash), Standing::Unknown).is_none());
        }
        let dropped = line.push(job("alice", "10.0.0.2", &hash), Standing::Unknown).unwrap();
        assert_eq!(&*dropped.job.user, "guess");
    }

    /// Nothing of the usual line waits for a hash that takes seconds.
    #[test]
    fn costly_hashes_have_a_line_of_their_own() {
        let quick = PasswordHash::create(b"secret", [1; 16], Cost { memory_kib: 8, passes: 1, lanes: 1 }).unwrap();
        let costly = PasswordHash::parse_stored(&quick.as_str().replace("m=8,t=1", "m=262144,t=16")).unwrap();
        let logins = Logins::new(1, FailureLimits::default(), [9; 32]);
        // No thread takes anything: only where it lies counts.
        for line in [&logins.usual, &logins.costly] {
            line.waiting.lock().served = true;
        }
        for hash in [&quick, &costly, &quick] {
            let Waiting { job, .. } = job("alice", "10.0.0.1", hash);
            logins.start(job);
        }
        let waiting = |line: &Line| line.waiting.lock().unknown.len();
        assert_eq!((waiting(&logins.usual), waiting(&logins.costly)), (2, 1));
    }
}
