//! The routes of a client's messages that were found before.

use std::sync::Arc;

use hashbrown::HashMap;

/// Routes kept at most, more than a stock market has symbols. Beyond it all routes and their slots
/// are forgotten. A connection may publish to a hundred thousand queues in turn, and must not keep
/// all of them.
const ROUTES_MAX: usize = 16 * 1024;

/// The slots of the queues that a message goes to.
pub(super) type Route = Arc<[u32]>;

/// The route of each exchange and routing key, valid for one generation of the catalog and of the
/// permissions.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: HashMap<Arc<[u8]>, Route>,
    /// The one used last, looked at before the map.
    last: Option<(Arc<[u8]>, Route)>,
    generation: u64,
    wanted: Vec<u8>,
}

impl Routes {
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last = None;
    }

    /// Notes which generation the routes are of. False if they were of another one.
    #[inline]
    pub(super) fn renew(&mut self, generation: u64) -> bool {
        std::mem::replace(&mut self.generation, generation) == generation
    }

    /// True when no more routes may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= ROUTES_MAX
    }

    pub(super) fn find(&mut self, exchange: &str, key: &str) -> Option<Route> {
        self.wanted.clear();
        self.wanted.push(exchange.len() as u8);
        self.wanted.extend_from_slice(exchange.as_bytes());
        self.wanted.extend_from_slice(key.as_bytes());
        if let Some((name, route)) = &self.last
            && **name == *self.wanted
        {
            return Some(Arc::clone(route));
        }
        let (name, route) = self.known.get_key_value(self.wanted.as_slice())?;
        self.last = Some((Arc::clone(name), Arc::clone(route)));
        Some(Arc::clone(route))
    }

    /// Remembers the route of the last search.
    pub(super) fn remember(&mut self, route: &Route) {
        self.known.insert(self.wanted.as_slice().into(), Arc::clone(route));
    }
}
