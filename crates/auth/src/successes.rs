//! Passwords that were found right of late. Hashes are slow on purpose: ten thousand clients that
//! come back after a network failure must not cost ten thousand of them.
//!
//! Invariant: no password is kept, and what is kept counts for one stored hash alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ring::hmac;

use crate::PasswordHash;

/// How long a success is remembered.
const REMEMBER: Duration = Duration::from_secs(60);
/// How many successes are remembered at once.
const REMEMBERED: usize = 10_000;

/// Recent successes, each under a hash keyed with a secret of this process, so that memory holds no
/// password.
pub(crate) struct Successes {
    key: hmac::Key,
    until: Mutex<HashMap<[u8; 32], Instant>>,
}

impl Successes {
    pub(crate) fn new(boot_key: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &boot_key), until: Mutex::default() }
    }

    /// Connections' threads compute it for each log-in, so it takes less than a microsecond. The
    /// stored hash is part of it, so a changed password is not remembered.
    fn key(&self, user: &str, hash: &PasswordHash, password: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [hash.as_str().as_bytes(), user.as_bytes(), password] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    /// Whether this password has been found right of late.
    pub(crate) fn contains(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) -> bool {
        // No success is remembered at most times: then the key need not be computed.
        if self.until.lock().is_empty() {
            return false;
        }
        let key = self.key(user, hash, password);
        self.until.lock().get(&key).is_some_and(|until| now < *until)
    }

    pub(crate) fn insert(&self, user: &str, hash: &PasswordHash, password: &[u8], now: Instant) {
        let key = self.key(user, hash, password);
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
