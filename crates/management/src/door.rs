//! Limits the number of HTTP connections: in all, of strangers, from one network, and of one user.
//!
//! Every connection needs a [`Place`], and counts as a stranger's until a request on it has logged
//! in. If places are short, a new connection replaces one that waits for its peer. The first to go
//! is one of the network or user that has the most connections. A few places are reserved for
//! health checks, so that a probe gets in however many other connections there are.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use wire::network;

/// Places that are reserved for health checks, if there are enough places.
const KEPT: usize = 8;
/// How many of them one network may have.
const KEPT_PER_NETWORK: usize = 4;

/// The limits of HTTP connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections of all listeners; half of them may be strangers'.
    pub connections: usize,
    /// Most connections from one network that have not logged in.
    pub per_network: usize,
    /// How long a peer may take for the head of a request, counted from the moment when no other
    /// request is under way.
    pub head_timeout: Duration,
    /// How long a peer may read nothing while an answer waits for it.
    pub write_timeout: Duration,
}

impl Limits {
    fn kept(&self) -> usize {
        KEPT.min(self.connections / 4)
    }

    fn strangers(&self) -> usize {
        (self.connections / 2).max(1)
    }

    fn users(&self) -> usize {
        self.connections.saturating_sub(self.strangers() + self.kept())
    }

    /// Most places of one user.
    fn share(&self) -> usize {
        self.users().div_ceil(2)
    }
}

/// Why a connection was not let in, or was closed for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The limit of all connections is reached.
    House,
    /// The limit of this network is reached.
    Network,
    /// A listener for proxies got no valid header of the PROXY protocol.
    Unproxied,
}

impl Full {
    /// All of them, in their order.
    pub(crate) const ALL: [Self; 3] = [Self::House, Self::Network, Self::Unproxied];

    /// Its reason in `hermod_connections_refused_total`: the name of the setting, if there is one.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::House => "http",
            Self::Network => "pending_per_address",
            Self::Unproxied => "proxy_protocol",
        }
    }
}

/// Lets connections in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Counts all events. The number of an event is its time, so the longest wait is the smallest
    /// number.
    events: u64,
    inside: HashMap<u64, Guest>,
}

/// A connection that is inside.
#[derive(Debug)]
struct Guest {
    network: IpAddr,
    whose: Whose,
    /// Since when the connection waits for its peer; `None` while a request is answered.
    waiting: Option<u64>,
    leave: Arc<Notify>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Stranger,
    /// A stranger that may ask for health only.
    Prober,
    User(Arc<str>),
}

impl Door {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    /// A place for a connection from `address`. If another connection had to go for it, also why.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<(Place, Option<Full>), Full> {
        let (network, limits) = (network(address), &self.limits);
        let mut table = self.lock();
        let here = |guest: &Guest| guest.whose == Whose::Stranger && guest.network == network;
        let (whose, gone) = if table.count(here) >= limits.per_network {
            let stranger = table.evict(here).then_some(Whose::Stranger);
            (stranger.or_else(|| table.prober(network, limits)).ok_or(Full::Network)?, Some(Full::Network))
        } else if table.count(|guest| guest.whose == Whose::Stranger) >= limits.strangers() {
            let stranger = table.evict(|guest| guest.whose == Whose::Stranger).then_some(Whose::Stranger);
            (stranger.or_else(|| table.prober(network, limits)).ok_or(Full::House)?, Some(Full::House))
        } else {
            (Whose::Stranger, None)
        };
        let leave = Arc::<Notify>::default();
        let number = table.next();
        let guest = Guest { network, whose, waiting: Some(number), leave: Arc::clone(&leave) };
        table.inside.insert(number, guest);
        Ok((Place { door: Arc::clone(self), number, leave }, gone))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves the numbers as they were, so the table is still right.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn count(&self, which: impl Fn(&Guest) -> bool) -> usize {
        self.inside.values().filter(|guest| which(guest)).count()
    }

    /// A place that is reserved for health checks, for a new connection that no room was made for.
    fn prober(&mut self, network: IpAddr, limits: &Limits) -> Option<Whose> {
        let probes = |guest: &Guest| guest.whose == Whose::Prober;
        let here = |guest: &Guest| probes(guest) && guest.network == network;
        let has_room = if self.count(here) >= KEPT_PER_NETWORK.min(limits.kept()) {
            self.evict(here)
        } else {
            self.count(probes) < limits.kept() || self.evict(probes)
        };
        has_room.then_some(Whose::Prober)
    }

    /// Closes one of the waiting connections. It belongs to the network or user with the most
    /// connections, and of these it has waited longest.
    fn evict(&mut self, which: impl Fn(&Guest) -> bool) -> bool {
        let mut crowds = HashMap::new();
        for guest in self.inside.values().filter(|guest| which(guest)) {
            *crowds.entry(guest.crowd()).or_default() += 1;
        }
        let waits = self.inside.iter().filter(|(_, guest)| which(guest) && guest.waiting.is_some());
        let first = waits.min_by_key(|(_, guest)| {
            let crowd: usize = crowds.get(&guest.crowd()).copied().unwrap_or_default();
            (Reverse(crowd), guest.waiting)
        });
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        self.inside.remove(&number).inspect(|guest| guest.leave.notify_one()).is_some()
    }
}

impl Guest {
    /// The user or network that a connection counts for.
    fn crowd(&self) -> (Option<Arc<str>>, Option<IpAddr>) {
        match &self.whose {
            Whose::User(user) => (Some(Arc::clone(user)), None),
            Whose::Stranger | Whose::Prober => (None, Some(self.network)),
        }
    }
}

/// The place of a connection, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    door: Arc<Door>,
    number: u64,
    leave: Arc<Notify>,
}

impl Place {
    /// Ready when the connection must close for another one.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// A request is being answered. False if the connection must close.
    pub(crate) fn begin(&self) -> bool {
        self.change(|guest, _| guest.waiting = None).is_some()
    }

    /// The connection waits for its peer again.
    pub(crate) fn end(&self) {
        self.change(|guest, now| guest.waiting = guest.waiting.or(Some(now)));
    }

    /// Whether this place is reserved for health checks.
    pub(crate) fn is_kept(&self) -> bool {
        self.change(|guest, _| guest.whose == Whose::Prober).unwrap_or(false)
    }

    /// Whether the user of the connection is known.
    pub(crate) fn is_known(&self) -> bool {
        self.change(|guest, _| matches!(guest.whose, Whose::User(_))).unwrap_or(false)
    }

    /// Counts the connection for this user. It remains a stranger's if all places of users are in
    /// use.
    pub(crate) fn is_of(&self, user: &str) {
        let mut table = self.door.lock();
        let limits = &self.door.limits;
        let whose = Whose::User(user.into());
        let is_its = |guest: &Guest| guest.whose == whose;
        if table.inside.get(&self.number).is_none_or(is_its) {
            return;
        }
        let is_users = |guest: &Guest| matches!(guest.whose, Whose::User(_));
        let has_room = if table.count(is_its) >= limits.share() {
            table.evict(is_its)
        } else {
            table.count(is_users) < limits.users() || table.evict(is_users)
        };
        if let Some(guest) = table.inside.get_mut(&self.number).filter(|_| has_room) {
            guest.whose = whose;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Guest, u64) -> T) -> Option<T> {
        let mut table = self.door.lock();
        let now = table.next();
        table.inside.get_mut(&self.number).map(|guest| change(guest, now))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.lock().inside.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(connections: usize, per_network: usize) -> Arc<Door> {
        let (head_timeout, write_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
        Door::new(Limits { connections, per_network, head_timeout, write_timeout })
    }

    fn admit(door: &Arc<Door>, address: &str) -> Result<(Place, Option<Full>), Full> {
        door.admit(address.parse().unwrap())
    }

    fn place(door: &Arc<Door>, address: &str) -> Place {
        admit(door, address).unwrap().0
    }

    fn is_inside(place: &Place) -> bool {
        place.change(|_, _| ()).is_some()
    }

    #[test]
    fn the_longest_waiting_of_the_largest_crowd_makes_room() {
        let door = door(12, 4);
        let crowd: Vec<_> = (0..4).map(|_| place(&door, "10.0.0.1")).collect();
        // One more from there: the first waiting one goes; the one that is being answered stays.
        assert!(crowd[0].begin());
        let (more, gone) = admit(&door, "::ffff:10.0.0.1").unwrap();
        assert_eq!(gone, Some(Full::Network));
        assert!(is_inside(&crowd[0]) && !is_inside(&crowd[1]) && is_inside(&crowd[2]));
        // Six strangers are the most.
        let others = [place(&door, "10.0.0.2"), place(&door, "10.0.0.3")];
        let (last, gone) = admit(&door, "10.0.0.4").unwrap();
        assert_eq!(gone, Some(Full::House));
        assert!(!is_inside(&crowd[2]) && others.iter().all(is_inside) && is_inside(&last));
        drop((crowd, more, others, last));
        assert!(door.lock().inside.is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn addresses_of_one_network_are_counted_together() {
        let door = door(100, 2);
        let held = [place(&door, "2001:db8::1"), place(&door, "2001:db8::2:1")];
        let other = place(&door, "2001:db8:0:1::1");
        let (_more, gone) = admit(&door, "2001:db8::ffff").unwrap();
        assert_eq!(gone, Some(Full::Network));
        assert!(!is_inside(&held[0]) && is_inside(&held[1]) && is_inside(&other));
    }

    #[test]
    fn probes_are_let_in_while_all_others_are_answered() {
        let door = door(16, 8);
        let busy: Vec<_> = (0..8).map(|host| place(&door, &format!("10.0.0.{host}"))).collect();
        assert!(busy.iter().all(Place::begin));
        let probe = place(&door, "10.1.0.1");
        assert!(probe.is_kept() && !busy[0].is_kept());
        // One network gets only its part of the reserved places; beyond that it replaces its own.
        let more: Vec<_> = (0..6).map(|_| place(&door, "10.1.0.1")).collect();
        assert!(!is_inside(&probe) && more.iter().filter(|place| is_inside(place)).count() == 4);
        assert!(more[2..].iter().all(Place::begin));
        assert_eq!(admit(&door, "10.1.0.1").unwrap_err(), Full::House);
        busy[0].end();
        assert!(!place(&door, "10.1.0.1").is_kept(), "who has been answered makes room");
    }

    #[test]
    fn users_have_places_of_their_own_and_a_share_each() {
        let door = door(20, 10);
        assert_eq!(
            (door.limits.strangers(), door.limits.kept(), door.limits.users(), door.limits.share()),
            (10, 5, 5, 3)
        );
        let known: Vec<_> = (0..3)
            .map(|_| {
                let place = place(&door, "10.0.0.1");
                assert!(place.begin());
                place.is_of("alice");
                place
            })
            .collect();
        assert!(known.iter().all(Place::is_known));
        let crowd: Vec<_> = (0..30).map(|_| place(&door, "10.0.0.1")).collect();
        assert!(known.iter().all(is_inside), "strangers take no place of a user");
        // Beyond its share a user replaces its own connections. If it can't, the connection stays a
        // stranger's.
        let last = crowd.last().unwrap();
        last.is_of("alice");
        assert!(!last.is_known());
        known[1].end();
        last.is_of("alice");
        assert!(last.is_known() && !is_inside(&known[1]));
    }

    #[tokio::test]
    async fn who_has_to_go_is_told() {
        let door = door(8, 1);
        let first = place(&door, "10.0.0.1");
        let _second = place(&door, "10.0.0.1");
        first.lost().await;
        assert!(!first.begin());
        first.is_of("alice");
        assert!(!first.is_known());
    }
}
