//! How often log-ins may fail: what is beyond that is refused without a look at the password.
//!
//! Failures are counted for each address, and for each user at each address, in a fixed number of buckets that a keyed hash
//! chooses. So memory does not grow with what strangers make up, nobody can aim at another's bucket, a user that does not
//! exist is counted like one that does, and nobody is locked out by failures from elsewhere.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Buckets of each kind. Two that fall into one share what it allows.
const BUCKETS: usize = 4096;
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

/// The failures of late.
pub(crate) struct Throttle {
    key: [u8; 32],
    addresses: Buckets,
    users: Buckets,
}

/// Who tries, and as whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) from: IpAddr,
    pub(crate) user: &'a str,
}

impl Throttle {
    /// `key` is a secret of this process.
    pub(crate) fn new(limits: FailureLimits, key: [u8; 32]) -> Self {
        Self { key, addresses: Buckets::new(limits.per_address), users: Buckets::new(limits.per_user) }
    }

    /// Whether a password may be looked at.
    pub(crate) fn allows(&self, attempt: Attempt<'_>, now: Instant) -> bool {
        let (address, user) = self.places(attempt);
        self.addresses.has_room(address, now) && self.users.has_room(user, now)
    }

    /// Counts a log-in that has failed.
    pub(crate) fn count(&self, attempt: Attempt<'_>, now: Instant) {
        let (address, user) = self.places(attempt);
        self.addresses.fill(address, now);
        self.users.fill(user, now);
    }

    fn places(&self, attempt: Attempt<'_>) -> (usize, usize) {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        network(attempt.from).hash(&mut hasher);
        let address = hasher.finish();
        attempt.user.hash(&mut hasher);
        (place(address), place(hasher.finish()))
    }
}

fn place(hash: u64) -> usize {
    (hash % BUCKETS as u64) as usize
}

/// An address as one who is given addresses by the network has it to himself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
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
            *bucket = Some(from + MINUTE / self.per_minute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt<'a>(from: &str, user: &'a str) -> Attempt<'a> {
        Attempt { from: from.parse().unwrap(), user }
    }

    #[test]
    fn failures_use_up_what_a_minute_allows_and_come_back_one_by_one() {
        let throttle = Throttle::new(FailureLimits { per_address: 5, per_user: 3 }, [7; 32]);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let alice = attempt("10.0.0.1", "alice");
        for _ in 0..3 {
            assert!(throttle.allows(alice, start));
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
            assert_eq!(throttle.allows(who, at(seconds)), expected, "{who:?} after {seconds} s");
        }
        // Many names from one address use up what the address has.
        for name in ["bob", "carol"] {
            throttle.count(attempt("10.0.0.1", name), start);
        }
        assert!(!throttle.allows(attempt("10.0.0.1", "dave"), start));
        assert!(throttle.allows(attempt("10.0.0.1", "dave"), at(12)));
        throttle.count(alice, at(600));
        assert!(throttle.allows(alice, at(600)), "what was long ago is forgotten");
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
            assert_eq!(throttle.allows(attempt(from, "b"), now), expected, "{from}");
        }
    }

    #[test]
    fn zero_allows_everything() {
        let throttle = Throttle::new(FailureLimits { per_address: 0, per_user: 0 }, [7; 32]);
        let (now, alice) = (Instant::now(), attempt("10.0.0.1", "alice"));
        for _ in 0..1000 {
            throttle.count(alice, now);
        }
        assert!(throttle.allows(alice, now));
    }
}
