//! Which connection has a client identifier: the one that asked last [MQTT-3.1.4-3].
//!
//! An identifier belongs to a user in a vhost, so the session of another user is not taken over.
//! Invariant: one connection holds an identifier at a time. Those that asked after it wait until it
//! has let go; all but the last of them give up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

/// Whose identifier it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClientKey {
    pub(super) vhost: String,
    pub(super) user: String,
    pub(super) client_id: String,
}

#[derive(Debug, Default)]
struct Table {
    /// For each identifier the connection that holds it, then those that wait.
    claims: HashMap<Arc<ClientKey>, VecDeque<(u64, Waker)>>,
    next: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Claims(Arc<Mutex<Table>>);

/// What a connection has of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the one that holds it.
    Holds,
    /// Another one has not let go yet.
    Waits,
    /// Another one asked later.
    Lost,
}

/// A connection's claim of an identifier, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    table: Arc<Mutex<Table>>,
    pub(super) key: Arc<ClientKey>,
    number: u64,
}

impl Claims {
    /// Claims an identifier for the connection that `waker` wakes. The others are woken, to let go.
    pub(super) fn claim(&self, key: ClientKey, waker: Waker) -> Claim {
        let mut table = self.0.lock();
        table.next += 1;
        let (number, key) = (table.next, Arc::new(key));
        // Nearly all identifiers have one connection.
        let claims = table.claims.entry(Arc::clone(&key)).or_insert_with(|| VecDeque::with_capacity(1));
        claims.iter().for_each(|(_, other)| other.wake_by_ref());
        claims.push_back((number, waker));
        Claim { table: Arc::clone(&self.0), key, number }
    }
}

impl Claim {
    pub(super) fn standing(&self) -> Standing {
        let table = self.table.lock();
        let Some(claims) = table.claims.get(&self.key) else { return Standing::Lost };
        let is = |claim: Option<&(u64, Waker)>| claim.is_some_and(|(number, _)| *number == self.number);
        match (is(claims.back()), is(claims.front())) {
            (true, true) => Standing::Holds,
            (true, false) => Standing::Waits,
            (false, _) => Standing::Lost,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        let Some(claims) = table.claims.get_mut(&self.key) else { return };
        claims.retain(|(number, _)| *number != self.number);
        match claims.front() {
            Some((_, waker)) => waker.wake_by_ref(),
            None => _ = table.claims.remove(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str) -> ClientKey {
        ClientKey { vhost: "/".to_owned(), user: user.to_owned(), client_id: "c".to_owned() }
    }

    #[test]
    fn the_last_that_asks_gets_it_when_the_first_has_let_go() {
        let claims = Claims::default();
        let claim = |user: &str| claims.claim(key(user), Waker::noop().clone());
        let first = claim("u");
        assert_eq!(first.standing(), Standing::Holds);
        let (second, third, other) = (claim("u"), claim("u"), claim("v"));
        let standings = [&first, &second, &third, &other].map(Claim::standing);
        assert_eq!(standings, [Standing::Lost, Standing::Lost, Standing::Waits, Standing::Holds]);
        drop(first);
        assert_eq!(third.standing(), Standing::Waits);
        drop(second);
        assert_eq!(third.standing(), Standing::Holds);
        drop((third, other));
        assert!(claims.0.lock().claims.is_empty());
    }
}
