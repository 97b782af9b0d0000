//! How often log-ins may fail: what is beyond that is refused without a look at the password.
//!
//! Failures are counted for each network, and for each user in each network, in a fixed number of
//! buckets that a keyed hash chooses. So memory does not grow with what strangers make up, and none
//! can aim at another's bucket. A user that does not exist is counted like one that does. Failures
//! from elsewhere lock out no user, and failures for others lock out none that has just succeeded.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wire::network;

/// Buckets of each kind. Two that fall into one share what it allows.
const BUCKETS: usize = 4096;
/// Pairs of network and user that are known to have succeeded.
const PROVEN: usize = 10_000;
/// How many times as often as a log-in may fail, one that has succeeded lately may be compared
/// beyond that.
const REPEATED: u32 = 10;
/// How long that counts.
const PROVEN_FOR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_secs(60);

/// How many log-ins may fail within a minute; 0 stands for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureLimits {
    /// Those from one address (IPv6: from one network of 64 bits).
    pub per_address: u32,
    /// Those from one address for one user.
    pub per_user: u32,
}

impl Default for FailureLimits {
    fn default() -> Self {
        Self { per_address: 200, per_user: 20 }
    }
}

/// The failures of late, and who has succeeded since.
pub(crate) struct Throttle {
    key: [u8; 32],
    addresses: Buckets,
    users: Buckets,
    /// Looks beyond what `users` allows, at pairs that have succeeded lately.
    repeated: Buckets,
    /// When each pair of network and user succeeded last.
    proven: Mutex<HashMap<u64, Instant>>,
    /// When a log-in from each network failed last.
    failed: Mutex<Box<[Option<Instant>]>>,
}

/// Where a log-in comes from, and the user that it names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) from: IpAddr,
    pub(crate) user: &'a str,
}

/// What may be done about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its password may be looked at.
    Look,
    /// Its password may be held against what has succeeded lately.
    Compare,
    /// Nothing.
    Refuse,
}

/// In which order attempts are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// This user has succeeded from there.
    Proven,
    /// Nothing has failed from there within a minute.
    Unknown,
    /// Something has.
    Failed,
}

/// Where an attempt is counted.
struct Places {
    address: usize,
    user: usize,
    pair: u64,
}

impl Throttle {
    /// `key` is a secret of this process.
    pub(crate) fn new(limits: FailureLimits, key: [u8; 32]) -> Self {
        Self {
            key,
            addresses: Buckets::new(limits.per_address),
            users: Buckets::new(limits.per_user),
            repeated: Buckets::new(limits.per_user.saturating_mul(REPEATED)),
            proven: Mutex::default(),
            failed: Mutex::new(vec![None; BUCKETS].into()),
        }
    }

    /// What may be done about an attempt. Failures for other users of its network close nothing to
    /// a pair that has succeeded lately. Failures for this user leave it the comparison, for which
    /// guesses are bounded too.
    pub(crate) fn judge(&self, attempt: Attempt<'_>, now: Instant) -> Verdict {
        let places = self.places(attempt);
        let (open, user_open) = (self.addresses.has_room(places.address, now), self.users.has_room(places.user, now));
        if open && user_open {
            return Verdict::Look;
        }
        if !self.is_proven(places.pair, now) {
            return Verdict::Refuse;
        }
        match user_open {
            true => Verdict::Look,
            false if self.repeated.has_room(places.user, now) => Verdict::Compare,
            false => Verdict::Refuse,
        }
    }

    /// Counts a log-in that has failed.
    pub(crate) fn count(&self, attempt: Attempt<'_>, now: Instant) {
        let places = self.places(attempt);
        self.addresses.fill(places.address, now);
        self.users.fill(places.user, now);
        self.failed.lock()[places.address] = Some(now);
    }

    /// What is known of who tries.
    pub(crate) fn standing(&self, attempt: Attempt<'_>, now: Instant) -> Standing {
        let places = self.places(attempt);
        if self.is_proven(places.pair, now) {
            return Standing::Proven;
        }
        let failed = self.failed.lock()[places.address];
        match failed.is_some_and(|at| now.saturating_duration_since(at) < MINUTE) {
            true => Standing::Failed,
            false => Standing::Unknown,
        }
    }

    fn is_proven(&self, pair: u64, now: Instant) -> bool {
        let proven = self.proven.lock();
        proven.get(&pair).is_some_and(|at| now.saturating_duration_since(*at) < PROVEN_FOR)
    }

    /// Counts a comparison in vain.
    pub(crate) fn count_compared(&self, attempt: Attempt<'_>, now: Instant) {
        self.repeated.fill(self.places(attempt).user, now);
    }

    /// Notes a log-in that has succeeded.
    pub(crate) fn prove(&self, attempt: Attempt<'_>, now: Instant) {
        let pair = self.places(attempt).pair;
        let mut proven = self.proven.lock();
        if proven.len() >= PROVEN {
            proven.retain(|_, at| now.saturating_duration_since(*at) < PROVEN_FOR);
        }
        if proven.len() < PROVEN || proven.contains_key(&pair) {
            proven.insert(pair, now);
        }
    }

    fn places(&self, attempt: Attempt<'_>) -> Places {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        network(attempt.from).hash(&mut hasher);
        let address = hasher.finish();
        attempt.user.hash(&mut hasher);
        let pair = hasher.finish();
        Places { address: place(address), user: place(pair), pair }
    }
}

fn place(hash: u64) -> usize {
    (hash % BUCKETS as u64) as usize
}

/// A row of leaky buckets: each holds a minute's worth of failures and lets one go after the other.
struct Buckets {
    per_minute: u32,
    /// When each will be empty.
    empty_at: Mutex<Box<[Option<Instant>]>>,
}

impl Buckets {
    fn new(per_minute: u32) -> Self {
        let count = if per_minute == 0 { 0 } else { BUCKETS };
        Self { per_minute, empty_at: Mutex::new(vec![None; count].into()) }
    }

    fn has_room(&self, place: usize, now: Instant) -> bool {
        let waits = match self.empty_at.lock().get(place) {
            Some(Some(empty_at)) => empty_at.saturating_duration_since(now),
            _ => return true,
        };
        waits + MINUTE / self.per_minute <= MINUTE
    }

    fn fill(&self, place: usize, now: Instant) {
        if let Some(bucket) = self.empty_at.lock().get_mut(place) {
            let from = bucket.map_or(now, |empty_at| empty_at.max(now));
            // What is beyond the brim is not kept: it would close the bucket for longer than a
            // minute.
            *bucket = Some((from + MINUTE / self.per_minute).min(now + MINUTE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt<'a>(from: &str, user: &'a str) -> Attempt<'a> {
        Attempt { from: from.parse().unwrap(), user }
    }

    fn looks(throttle: &Throttle, attempt: Attempt<'_>, now: Instant) -> bool {
        throttle.judge(attempt, now) == Verdict::Look
    }

    #[test]
    fn who_has_succeeded_lately_is_not_locked_out_by_others_of_its_network() {
        let throttle = Throttle::new(FailureLimits { per_address: 5, per_user: 3 }, [7; 32]);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (alice, bob) = (attempt("10.0.0.1", "alice"), attempt("10.0.0.1", "bob"));
        throttle.prove(alice, start);
        for number in 0..100 {
            throttle.count(attempt("10.0.0.1", &format!("user{number}")), start);
        }
        assert_eq!(throttle.judge(alice, start), Verdict::Look);
        assert_eq!(throttle.judge(bob, start), Verdict::Refuse);
        // Guesses at its own password leave it the comparison, and those are bounded, too.
        (0..100).for_each(|_| throttle.count(alice, start));
        for _ in 0..30 {
            assert_eq!(throttle.judge(alice, start), Verdict::Compare);
            throttle.count_compared(alice, start);
        }
        assert_eq!(throttle.judge(alice, start), Verdict::Refuse);
        assert_eq!(throttle.judge(alice, at(2)), Verdict::Compare);
        (0..100).for_each(|_| throttle.count(alice, at(3600)));
        assert_eq!(throttle.judge(alice, at(3600)), Verdict::Refuse, "what has succeeded is long ago");
        assert_eq!(throttle.judge(alice, at(3620)), Verdict::Look);
    }

    #[test]
    fn who_has_succeeded_comes_before_strangers_and_these_before_who_has_failed() {
        let throttle = Throttle::new(FailureLimits { per_address: 0, per_user: 0 }, [7; 32]);
        let (start, alice) = (Instant::now(), attempt("10.0.0.1", "alice"));
        throttle.prove(alice, start);
        throttle.count(attempt("10.0.0.1", "bob"), start);
        for (attempt, seconds, expected) in [
            (alice, 0, Standing::Proven),
            (attempt("10.0.0.1", "carol"), 59, Standing::Failed),
            (attempt("10.0.0.1", "carol"), 60, Standing::Unknown),
            (attempt("10.0.0.2", "alice"), 0, Standing::Unknown),
        ] {
            assert_eq!(throttle.standing(attempt, start + Duration::from_secs(seconds)), expected, "{attempt:?}");
        }
    }

    #[test]
    fn failures_use_up_what_a_minute_allows_and_come_back_one_by_one() {
        let throttle = Throttle::new(FailureLimits { per_address: 5, per_user: 3 }, [7; 32]);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let alice = attempt("10.0.0.1", "alice");
        for _ in 0..3 {
            assert_eq!(throttle.judge(alice, start), Verdict::Look);
            throttle.count(alice, start);
        }
        for (who, seconds, expected) in [
            (alice, 0, false),
            (alice, 19, false),
            (alice, 20, true),
            // Others at that address, and the same user elsewhere, are not concerned.
            (attempt("10.0.0.1", "bob"), 0, true),
            (attempt("10.0.0.2", "alice"), 0, true),
        ] {
            assert_eq!(looks(&throttle, who, at(seconds)), expected, "{who:?} after {seconds} s");
        }
        // Many names from one address use up what the address has.
        for name in ["bob", "carol"] {
            throttle.count(attempt("10.0.0.1", name), start);
        }
        assert!(!looks(&throttle, attempt("10.0.0.1", "dave"), start));
        assert!(looks(&throttle, attempt("10.0.0.1", "dave"), at(12)));
        throttle.count(alice, at(600));
        assert!(looks(&throttle, alice, at(600)), "what was long ago is forgotten");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address_and_a_mapped_address_as_ipv4() {
        let throttle = Throttle::new(FailureLimits { per_address: 1, per_user: 0 }, [7; 32]);
        let now = Instant::now();
        throttle.count(attempt("2001:db8:0:1::5", "a"), now);
        throttle.count(attempt("::ffff:10.0.0.1", "a"), now);
        for (from, expected) in
            [("2001:db8:0:1:ffff::1", false), ("2001:db8:0:2::5", true), ("10.0.0.1", false), ("10.0.0.2", true)]
        {
            assert_eq!(looks(&throttle, attempt(from, "b"), now), expected, "{from}");
        }
    }

    #[test]
    fn zero_allows_everything() {
        let throttle = Throttle::new(FailureLimits { per_address: 0, per_user: 0 }, [7; 32]);
        let (now, alice) = (Instant::now(), attempt("10.0.0.1", "alice"));
        for _ in 0..1000 {
            throttle.count(alice, now);
        }
        assert!(looks(&throttle, alice, now));
    }
}
