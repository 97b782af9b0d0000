//! Logging in: the order of the checks, the threads that compute hashes, and the memory of recent successes.
//!
//! Argon2 is slow on purpose, so it never runs on a connection's thread: a few threads of its own take jobs from a
//! bounded queue and wake the connection. That bounds both the processors and the memory (19 MiB a thread) that peers
//! without an account can use. A success is remembered for a minute under a keyed hash, so that ten thousand clients
//! coming back after a network failure do not cost ten thousand computations. Who has failed too often lately is refused
//! before, also when that happens while the job waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::task::Waker;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::Mutex;

use crate::password::Work;
use crate::throttle::{Attempt, Throttle};
use crate::{FailureLimits, Identity, PasswordHash, Tags};

/// How long a success is remembered.
const REMEMBER: Duration = Duration::from_secs(60);
/// How many successes are remembered at once.
const REMEMBERED: usize = 10_000;
/// Logins that may wait for a hashing thread; more are refused.
const WAITING: usize = 4096;

/// Why a login was refused. The texts are for the log: clients get one and the same text for all of them, since the
/// difference would tell an attacker which users exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such user, it has no password, or the password is wrong.
    WrongCredentials,
    /// An empty password; never accepted, whatever is stored.
    EmptyPassword,
    /// The user may connect from a loopback address only, and the peer's is another.
    NotLoopback,
    /// Too many logins have failed lately from this address, or for this user from there; the password was not looked at.
    TooManyFailures,
    /// Too many logins are waiting already; the client may try again.
    Busy,
}

impl Refusal {
    /// Whether this can come as fast as peers can connect, so that a line for each would fill the log: whatever else refuses
    /// log-ins counts as a failure, and after some failures they are refused by this.
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
}

/// The hashing threads and what they remember. Threads start at the first login that needs one and end with this.
pub(crate) struct Logins {
    jobs: Mutex<Option<SyncSender<Waiting>>>,
    threads: usize,
    shared: Arc<Shared>,
}

impl Logins {
    pub(crate) fn new(threads: usize, failures: FailureLimits, boot_key: [u8; 32]) -> Self {
        let shared = Shared {
            successes: Successes::new(boot_key),
            throttle: Throttle::new(failures, boot_key),
            succeeded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        };
        Self { jobs: Mutex::default(), threads: threads.max(1), shared: Arc::new(shared) }
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

    /// A login that fails without a password to check. It counts as a failure like any other, so that nobody is told of it for
    /// ever either: what is beyond the limits is [`Refusal::TooManyFailures`].
    pub(crate) fn refused(&self, refusal: Refusal, from: IpAddr, user: &str, now: Instant) -> Login {
        let attempt = Attempt { from, user };
        if !self.shared.throttle.allows(attempt, now) {
            return self.decided(Err(Refusal::TooManyFailures));
        }
        self.shared.throttle.count(attempt, now);
        self.decided(Err(refusal))
    }

    /// Whether so few have failed that this one may be looked at.
    pub(crate) fn allows(&self, from: IpAddr, user: &str, now: Instant) -> bool {
        self.shared.throttle.allows(Attempt { from, user }, now)
    }

    /// Whether this password was right for this user and this very hash within the last minute.
    pub(crate) fn remembers(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) -> bool {
        self.shared.successes.contains(user, hash, password, now)
    }

    pub(crate) fn start(&self, job: Job) -> Login {
        let outcome = Arc::new(Mutex::new(None));
        let waiting = Waiting { job, outcome: outcome.clone() };
        let Some(sender) = self.sender() else {
            return self.decided(Err(Refusal::Busy));
        };
        match sender.try_send(waiting) {
            Ok(()) => Login { outcome },
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.decided(Err(Refusal::Busy)),
        }
    }

    /// The way to the threads, which are started if they are not running. `None` when the system gives no thread.
    fn sender(&self) -> Option<SyncSender<Waiting>> {
        let mut jobs = self.jobs.lock();
        if let Some(sender) = &*jobs {
            return Some(sender.clone());
        }
        let (sender, receiver) = sync_channel(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..self.threads)
            .filter(|number| {
                let receiver = receiver.clone();
                let shared = self.shared.clone();
                let builder = std::thread::Builder::new().name(format!("login-{number}"));
                builder.spawn(move || check_passwords(&receiver, &shared)).is_ok()
            })
            .count();
        if started == 0 {
            return None;
        }
        *jobs = Some(sender.clone());
        Some(sender)
    }
}

/// The life of a hashing thread. It ends when the [`Logins`] is dropped.
fn check_passwords(jobs: &Mutex<Receiver<Waiting>>, shared: &Shared) {
    loop {
        // The lock is held while waiting: the other threads wait for the lock instead of the channel.
        let Ok(Waiting { job, outcome }) = jobs.lock().recv() else {
            return;
        };
        // Nobody waits for an abandoned login, so an attacker who hangs up at once costs nothing.
        if Arc::strong_count(&outcome) == 1 {
            continue;
        }
        let attempt = Attempt { from: job.from, user: &job.user };
        // Asked again: those that came in one burst with this one may have failed since it was asked first.
        let decided = if !shared.throttle.allows(attempt, job.now) {
            Err(Refusal::TooManyFailures)
        } else if job.hash.matches_among(&job.password, job.kept) {
            shared.successes.insert(&job.user, &job.hash, &job.password, job.now);
            Ok(Identity::new(job.user, job.tags))
        } else {
            shared.throttle.count(attempt, job.now);
            Err(Refusal::WrongCredentials)
        };
        shared.count(&decided);
        *outcome.lock() = Some(decided);
        job.waker.wake();
    }
}

/// Recent successes, each under a hash keyed with a secret of this process, so that memory holds no password.
struct Successes {
    boot_key: [u8; 32],
    until: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Successes {
    fn new(boot_key: [u8; 32]) -> Self {
        Self { boot_key, until: Mutex::default() }
    }

    /// Argon2id with its smallest parameters and the boot key as its secret: a keyed hash of some microseconds. The
    /// stored hash is part of it, so a changed password is not remembered.
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
}
