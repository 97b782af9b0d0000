//! Logging in: the order of the checks, and the threads that compute hashes.
//!
//! Argon2 is slow on purpose, so it never runs on a connection's thread. A few threads of its own
//! take jobs from a bounded queue and wake the connection. That bounds both the processors and the
//! memory (19 MiB a thread) that peers without an account can use. The queue serves networks in
//! turn, and those that have failed lately behind the others. A success is remembered for a minute
//! under a keyed hash. So ten thousand clients that come back after a network failure do not cost
//! ten thousand computations. Too many failures refuse a login before, also while its job waits.
//!
//! Backends are asked in their order, until one lets the user in. Those elsewhere are asked by
//! threads of their own, so that a slow one holds up no hash.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use wire::InTurn;

use crate::again::Connected;
use crate::asking::Asking;
use crate::backend::{self, Answers, Credentials, Grant, No, RightsOf, Step};
use crate::password::{MAX_PASSWORD, Work};
use crate::successes::Successes;
use crate::throttle::{Attempt, Standing, Throttle, Verdict};
use crate::{FailureLimits, Identity, PasswordHash, Tags, User};

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
    /// No backend lets the user in: the reason of each that was asked.
    Elsewhere(String),
    /// No backend lets the user in, and some could not be asked.
    Unavailable(String),
    /// A backend lets this user in whose rights are those of the user of that name here, which is
    /// not there.
    NoRights,
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
            Self::Elsewhere(reasons) | Self::Unavailable(reasons) => reasons,
            Self::NoRights => "a backend lets the user in, but its rights are those of a user here that is missing",
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

    /// Whether the outcome is there, and lets in a user whose rights are decided elsewhere.
    pub fn is_decided_elsewhere(&self) -> bool {
        matches!(&*self.outcome.lock(), Some(Ok(identity)) if identity.is_decided_elsewhere())
    }
}

/// One password or token to check.
pub(crate) struct Job {
    /// Which of the backends is asked next.
    pub(crate) step: usize,
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
    /// Why the backends that were asked do not let it in.
    nos: Vec<Refusal>,
}

impl Waiting {
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.outcome) == 1
    }
}

/// Who may log in from where: shared with the authority.
#[derive(Clone, Default)]
pub(crate) struct People {
    pub(crate) users: Arc<RwLock<BTreeMap<Arc<str>, User>>>,
    pub(crate) loopback: Arc<RwLock<BTreeSet<String>>>,
    /// Who decides about operations, for each backend that does.
    pub(crate) asking: Arc<[Arc<Asking>]>,
    /// Those with rights that are asked about again.
    pub(crate) connected: Arc<Connected>,
}

impl People {
    pub(crate) fn may_come_from(&self, user: &str, from: IpAddr) -> bool {
        from.to_canonical().is_loopback() || !self.loopback.read().contains(user)
    }

    /// The identity of a user that a backend elsewhere has let in.
    ///
    /// # Errors
    /// If the user may not come from there, or has no rights here that it needs.
    pub(crate) fn identity(&self, grant: Arc<Grant>, rights: RightsOf, from: IpAddr) -> Result<Identity, Refusal> {
        if !self.may_come_from(&grant.user, from) {
            return Err(Refusal::NotLoopback);
        }
        match rights {
            RightsOf::Backend => {
                let asking = self.asking.iter().find(|asking| asking.backend == grant.backend).cloned();
                let identity = Identity::by_grant(grant);
                identity.held().into_iter().for_each(|held| self.connected.list(held));
                Ok(match asking {
                    Some(asking) => identity.decided_by(asking, from.to_canonical()),
                    None => identity,
                })
            }
            RightsOf::Internal => {
                let users = self.users.read();
                let (name, user) = users.get_key_value(&*grant.user).ok_or(Refusal::NoRights)?;
                Ok(Identity::new(Arc::clone(name), user.tags.clone()))
            }
        }
    }
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

/// What the connections and the threads of log-ins share.
struct Shared {
    steps: Box<[Step]>,
    answers: Answers,
    people: People,
    lines: Lines,
    successes: Successes,
    throttle: Throttle,
    /// Counts what fails without a look at a password: that takes nothing from those who bring one.
    unlooked: Throttle,
    succeeded: AtomicU64,
    refused: AtomicU64,
    throttled: AtomicU64,
}

/// Where log-ins wait, by what is done about them.
struct Lines {
    usual: Arc<Line>,
    /// Hashes that take far longer than others, on a thread of their own: they hold up no other
    /// login.
    costly: Arc<Line>,
    /// For the answers of backends elsewhere.
    elsewhere: Arc<Line>,
    hashing_threads: usize,
    asking_threads: usize,
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

    /// Asks the backend whose turn it is, unless none waits for that any more.
    fn check(self: &Arc<Self>, mut waiting: Waiting) {
        // A login that was abandoned is skipped, so an attacker who hangs up at once costs nothing.
        if waiting.is_abandoned() {
            return;
        }
        let job = &waiting.job;
        let attempt = Attempt { from: job.from, user: &job.user };
        // Asked again: those that came in one burst with this one may have failed since it was
        // asked first.
        if self.throttle.judge(attempt, job.now) != Verdict::Look {
            return self.finish(waiting, Err(Refusal::TooManyFailures));
        }
        let decided = match &self.steps[job.step] {
            Step::Internal => self.check_hash(job),
            Step::Elsewhere { backend, rights } => self.ask(&**backend, *rights, job),
        };
        match decided {
            Ok(identity) => {
                self.prove(&identity, attempt, job.now);
                self.finish(waiting, Ok(identity));
            }
            Err(no) => {
                waiting.nos.push(no);
                match self.step(waiting.job.step + 1, &waiting.job.password) {
                    Some(step) => {
                        waiting.job.step = step;
                        self.enqueue(waiting);
                    }
                    None => self.give_up(waiting),
                }
            }
        }
    }

    /// Notes a success for the name that the client gave. A client with a token may give any name:
    /// that of another user proves nothing about it.
    fn prove(&self, identity: &Identity, attempt: Attempt<'_>, now: Instant) {
        if attempt.user.is_empty() || attempt.user == identity.user() {
            self.throttle.prove(attempt, now);
        }
    }

    /// Of many log-ins with one password that wait here together, the first alone is computed.
    fn check_hash(&self, job: &Job) -> Result<Identity, Refusal> {
        if !self.successes.contains(&job.user, &job.hash, &job.password, job.now) {
            if !job.hash.matches_among(&job.password, job.kept) {
                return Err(Refusal::WrongCredentials);
            }
            self.successes.insert(&job.user, &job.hash, &job.password, job.now);
        }
        Ok(Identity::by_password(Arc::clone(&job.user), job.tags.clone(), job.hash.clone()))
    }

    fn ask(&self, asked: &dyn backend::Backend, rights: RightsOf, job: &Job) -> Result<Identity, Refusal> {
        let (user, secret) = (&*job.user, &job.password[..]);
        let answer = asked.ask(Credentials { user, secret, from: job.from });
        let vouched = answer.map_err(|no| match no {
            No::Refused(why) => Refusal::Elsewhere(backend::reason(asked.name(), &why)),
            No::Unavailable(why) => Refusal::Unavailable(backend::reason(asked.name(), &why)),
        })?;
        let grant = self.answers.keep((user, secret), vouched, job.now);
        self.people.identity(grant, rights, job.from)
    }

    /// Refuses a login that no backend lets in.
    fn give_up(&self, waiting: Waiting) {
        let (attempt, now) = (Attempt { from: waiting.job.from, user: &waiting.job.user }, waiting.job.now);
        let refusal = together(&waiting.nos);
        // A backend that can't be asked is no guess of the user's. It is counted like what fails
        // without a look, so that its reason is not told for ever.
        let throttle = if matches!(refusal, Refusal::Unavailable(_)) { &self.unlooked } else { &self.throttle };
        let refusal = match throttle.judge(attempt, now) {
            Verdict::Look => refusal,
            Verdict::Compare | Verdict::Refuse => Refusal::TooManyFailures,
        };
        throttle.count(attempt, now);
        self.finish(waiting, Err(refusal));
    }

    /// The first backend from this one on that takes such a secret.
    fn step(&self, from: usize, secret: &[u8]) -> Option<usize> {
        (from..self.steps.len()).find(|step| match &self.steps[*step] {
            Step::Internal => secret.len() <= MAX_PASSWORD,
            Step::Elsewhere { backend, .. } => secret.len() <= backend::MOST_SECRET && backend.takes(secret),
        })
    }

    /// Puts a login where its next backend is asked.
    fn enqueue(self: &Arc<Self>, waiting: Waiting) {
        let job = &waiting.job;
        let Lines { usual, costly, elsewhere, hashing_threads, asking_threads } = &self.lines;
        let (line, name, threads) = match &self.steps[job.step] {
            Step::Elsewhere { .. } => (elsewhere, "login-elsewhere", *asking_threads),
            Step::Internal if job.hash.is_costly() => (costly, "login-costly", 1),
            Step::Internal => (usual, "login", *hashing_threads),
        };
        let standing = self.throttle.standing(Attempt { from: job.from, user: &job.user }, job.now);
        let left = match line.serve(name, threads, self) {
            true => line.push(waiting, standing),
            false => Some(waiting),
        };
        if let Some(left) = left {
            self.finish(left, Err(Refusal::Busy));
        }
    }
}

/// What is said of a login that several backends have refused.
fn together(nos: &[Refusal]) -> Refusal {
    let [first, others @ ..] = nos else { return Refusal::WrongCredentials };
    if others.is_empty() {
        return first.clone();
    }
    let reasons: Vec<_> = nos
        .iter()
        .map(|no| match no {
            Refusal::WrongCredentials => format!("internal: {no}"),
            no => no.to_string(),
        })
        .collect();
    let is_unavailable = nos.iter().any(|no| matches!(no, Refusal::Unavailable(_)));
    if is_unavailable { Refusal::Unavailable(reasons.join("; ")) } else { Refusal::Elsewhere(reasons.join("; ")) }
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

/// The threads of log-ins and what they remember. Threads start at the first login that needs one
/// and end with this.
pub(crate) struct Logins {
    shared: Arc<Shared>,
}

impl Drop for Logins {
    fn drop(&mut self) {
        let Lines { usual, costly, elsewhere, .. } = &self.shared.lines;
        [usual, costly, elsewhere].into_iter().for_each(|line| line.close());
    }
}

/// Who is asked, and by how many threads.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The backends in their order.
    pub steps: Vec<Step>,
    /// Threads that compute hashes; each uses 19 MiB while it works.
    pub hashing_threads: usize,
    /// Threads that ask backends elsewhere: so many questions are under way at most.
    pub asking_threads: usize,
    /// How long an answer from elsewhere may be taken again.
    pub keep_answers: Duration,
}

impl Plan {
    /// Who decides about operations, for each backend that does.
    pub(crate) fn asking(&self) -> Arc<[Arc<Asking>]> {
        self.steps.iter().filter_map(|step| step.asking(self.keep_answers)).collect()
    }

    /// The users of this broker alone, and one thread.
    pub fn internal() -> Self {
        Self {
            steps: vec![Step::Internal],
            hashing_threads: 1,
            asking_threads: 1,
            keep_answers: Duration::from_secs(15),
        }
    }
}

impl Logins {
    pub(crate) fn new(plan: Plan, people: People, failures: FailureLimits, boot_key: [u8; 32]) -> Self {
        let Plan { steps, hashing_threads, asking_threads, keep_answers } = plan;
        let lines = Lines {
            usual: Line::new(),
            costly: Line::new(),
            elsewhere: Line::new(),
            hashing_threads: hashing_threads.max(1),
            asking_threads: asking_threads.max(1),
        };
        let shared = Shared {
            steps: steps.into(),
            answers: Answers::new(&boot_key, keep_answers),
            people,
            lines,
            successes: Successes::new(boot_key),
            throttle: Throttle::new(failures, boot_key),
            unlooked: Throttle::new(failures, boot_key),
            succeeded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The first backend from this one on that takes such a secret.
    pub(crate) fn step_at(&self, from: usize, secret: &[u8]) -> Option<usize> {
        self.shared.step(from, secret)
    }

    /// Whether the users of this broker count in any log-in.
    pub(crate) fn asks_own_users(&self) -> bool {
        self.shared.steps.iter().any(Step::asks_own_users)
    }

    /// Whether passwords of the users of this broker let in.
    pub(crate) fn checks_own_passwords(&self) -> bool {
        self.shared.steps.iter().any(|step| matches!(step, Step::Internal))
    }

    /// The backend elsewhere of this name.
    pub(crate) fn step_of(&self, name: &str) -> Option<usize> {
        self.shared
            .steps
            .iter()
            .position(|step| matches!(step, Step::Elsewhere { backend, .. } if backend.name() == name))
    }

    /// What a backend elsewhere has lately said of the same credentials.
    pub(crate) fn answered(&self, user: &str, secret: &[u8], from: IpAddr, now: Instant) -> Option<Identity> {
        let Shared { steps, answers, people, .. } = &*self.shared;
        steps.iter().find_map(|step| match step {
            Step::Elsewhere { backend, rights } if backend.takes(secret) => {
                let grant = answers.find(backend.name(), user, secret, now)?;
                people.identity(grant, *rights, from).ok()
            }
            Step::Elsewhere { .. } | Step::Internal => None,
        })
    }

    /// Forgets the answers about a user of a backend.
    pub(crate) fn forget_answers_about(&self, backend: &str, user: &str) {
        self.shared.answers.forget_user(backend, user);
    }

    /// Forgets all answers: every backend is asked again.
    pub(crate) fn forget_answers(&self) {
        self.shared.answers.forget();
        self.shared.people.asking.iter().for_each(|asking| asking.forget());
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
        self.shared.prove(&identity, attempt, now);
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
        self.shared.enqueue(Waiting { job, outcome: Arc::clone(&outcome), nos: Vec::new() });
        Login { outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;

    #[test]
    fn a_log_in_that_waited_while_its_password_was_found_right_computes_no_hash() {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let other = PasswordHash::create(b"another", [1; 16], cost).unwrap();
        let logins = Logins::new(Plan::internal(), People::default(), FailureLimits::default(), [9; 32]);
        let job = job("alice", "10.0.0.1", &other).job;
        assert!(logins.shared.check_hash(&job).is_err());
        // The hash does not fit, so only what is remembered can let it in.
        logins.shared.successes.insert("alice", &other, b"x", job.now);
        assert!(logins.shared.check_hash(&job).is_ok());
    }

    fn job(user: &str, from: &str, hash: &PasswordHash) -> Waiting {
        let job = Job {
            step: 0,
            user: user.into(),
            tags: Tags::default(),
            from: from.parse().unwrap(),
            hash: hash.clone(),
            kept: &[],
            password: b"x".to_vec(),
            now: Instant::now(),
            waker: Waker::noop().clone(),
        };
        Waiting { job, outcome: Arc::default(), nos: Vec::new() }
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
        let logins = Logins::new(Plan::internal(), People::default(), FailureLimits::default(), [9; 32]);
        // No thread takes anything: only where it lies counts.
        for line in [&logins.shared.lines.usual, &logins.shared.lines.costly] {
            line.waiting.lock().served = true;
        }
        for hash in [&quick, &costly, &quick] {
            let Waiting { job, .. } = job("alice", "10.0.0.1", hash);
            logins.start(job);
        }
        let waiting = |line: &Line| line.waiting.lock().unknown.len();
        assert_eq!((waiting(&logins.shared.lines.usual), waiting(&logins.shared.lines.costly)), (2, 1));
    }
}
