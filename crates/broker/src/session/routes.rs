//! The routes of a client's messages that were found before.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};

use crate::catalog::versions::{Basis, Versions};

/// Routes kept at most, more than a stock market has symbols. Beyond it all routes and their slots
/// are forgotten. A connection may publish to a hundred thousand queues in turn, and must not keep
/// all of them.
const ROUTES_MAX: usize = 16 * 1024;

/// Routes that no longer hold are looked for when so many queues were deleted, and a quarter as
/// many as there are routes. So deleted queues are let go of, and live routes are not gone through
/// often.
const DELETED: u64 = 64;

/// The slots of the queues that a message goes to. Nearly all go to one, and to count who has its
/// route would make each message wait for what was written before it.
#[derive(Debug, Clone)]
pub(super) enum Route {
    One(u32),
    Several(Arc<[u32]>),
}

impl Deref for Route {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Several(slots) => slots,
        }
    }
}

impl From<Vec<u32>> for Route {
    fn from(slots: Vec<u32>) -> Self {
        match slots[..] {
            [slot] => Self::One(slot),
            _ => Self::Several(slots.into()),
        }
    }
}

/// A route that was found, and what it depends on.
#[derive(Debug, Clone)]
struct Found {
    route: Route,
    basis: Basis,
}

/// The route of each exchange and routing key, valid for one generation of the catalog and of the
/// permissions as long as its basis holds.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: HashMap<Arc<[u8]>, Found>,
    /// The one used last, looked at before the map.
    last: Option<(Arc<[u8]>, Found)>,
    generation: u64,
    /// How many queues were deleted when routes were last looked through.
    deleted: u64,
    /// Until when the rights to all of them are known, if a program elsewhere decides about these.
    until: Option<Instant>,
    wanted: Vec<u8>,
}

/// Whether this is how routes are named of this exchange and this key: the exchange's length, and
/// both.
#[inline]
fn is_of(name: &[u8], exchange: &str, key: &str) -> bool {
    let Some((length, names)) = name.split_first() else { return false };
    let Some((of, routed)) = names.split_at_checked(exchange.len()) else { return false };
    // The default exchange has no name, and to compare none takes a call.
    usize::from(*length) == exchange.len()
        && routed == key.as_bytes()
        && (exchange.is_empty() || of == exchange.as_bytes())
}

impl Routes {
    pub(super) fn clear(&mut self) {
        self.known = HashMap::new();
        self.last = None;
        self.until = None;
    }

    /// Whether the right to one of them may be gone.
    #[inline]
    pub(super) fn are_old(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Notes which generation the routes are of. False if they were of another one.
    #[inline]
    pub(super) fn renew(&mut self, generation: u64) -> bool {
        std::mem::replace(&mut self.generation, generation) == generation
    }

    /// Whether many of the routes may lead to queues that were deleted.
    #[inline]
    pub(super) fn may_lead_astray(&self, versions: &Versions) -> bool {
        let since = versions.deleted().wrapping_sub(self.deleted);
        since >= DELETED && since >= self.known.len() as u64 / 4
    }

    /// Forgets the routes that no longer hold.
    pub(super) fn keep_valid(&mut self, versions: &Versions) {
        self.deleted = versions.deleted();
        self.last = None;
        self.known.retain(|_, found| versions.hold(found.basis));
    }

    /// The slots that the routes lead to.
    pub(super) fn slots(&self) -> HashSet<u32> {
        self.known.values().flat_map(|found| found.route.iter().copied()).collect()
    }

    /// True when no more routes may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= ROUTES_MAX
    }

    pub(super) fn find(&mut self, exchange: &str, key: &str, versions: &Versions) -> Option<Route> {
        if let Some((name, found)) = &mut self.last
            && is_of(name, exchange, key)
            && versions.still_hold(&mut found.basis)
        {
            return Some(found.route.clone());
        }
        self.wanted.clear();
        self.wanted.push(exchange.len() as u8);
        self.wanted.extend_from_slice(exchange.as_bytes());
        self.wanted.extend_from_slice(key.as_bytes());
        let (name, found) = self.known.get_key_value(self.wanted.as_slice())?;
        if !versions.hold(found.basis) {
            return None;
        }
        self.last = Some((Arc::clone(name), found.clone()));
        Some(found.route.clone())
    }

    /// Remembers the route of the last search.
    pub(super) fn remember(&mut self, route: &Route, basis: Basis, until: Option<Instant>) {
        self.until = self.until.or(until);
        self.known.insert(self.wanted.as_slice().into(), Found { route: route.clone(), basis });
    }
}
