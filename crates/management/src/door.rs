//! How many HTTP connections there are: strangers' and users', in all, from one network, and of one
//! user.
//!
//! None is served without a [`Place`]. It is a stranger's until a request on it has shown who asks.
//! A connection that waits for its peer, to say something or to read, makes room for the next when
//! places are short: first those of the network, or the user, that has most. A few places are kept
//! for health checks, so that a probe is let in whatever else there is.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use wire::network;

/// Places that are kept for health checks, where there are enough.
const KEPT: usize = 8;
/// Of these one network may have.
const KEPT_PER_NETWORK: usize = 4;

/// What HTTP connections are held to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most of them, of all listeners: half of them strangers'.
    pub connections: usize,
    /// Most from one network that have not shown who they are.
    pub per_network: usize,
    /// How long a peer may take for the head of a request, counted from when nothing else is going
    /// on.
    pub head_timeout: Duration,
    /// How long it may read nothing of what waits for it.
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

    /// Places of one user.
    fn share(&self) -> usize {
        self.users().div_ceil(2)
    }
}

/// Why a connection was not let in, or had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many as there may be.
    House,
    /// There are as many as there may be from this network.
    Network,
}

impl Full {
    /// What `hermod_connections_refused_total` calls it: the setting that says so, if there is one.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::House => "http",
            Self::Network => "pending_per_address",
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
    /// Counts everything that happens, so that it is known who has waited longest.
    events: u64,
    inside: HashMap<u64, Guest>,
}

/// A connection that is inside.
#[derive(Debug)]
struct Guest {
    network: IpAddr,
    whose: Whose,
    /// Since when it waits for its peer; `None` while it is answered.
    waiting: Option<u64>,
    leave: Arc<Notify>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Stranger,
    /// Of a stranger that may ask for health only.
    Prober,
    User(Arc<str>),
}

impl Door {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    /// A place for a connection from `address`, and why another had to go for it, if so.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<(Place, Option<Full>), Full> {
        let (network, limits) = (network(address), &self.limits);
        let mut table = self.lock();
        let here = |guest: &Guest| guest.whose == Whose::Stranger && guest.network == network;
        let (whose, gone) = if table.count(here) >= limits.per_network {
            let gone = table.evict(here);
            (table.whose(gone, network, limits).ok_or(Full::Network)?, Some(Full::Network))
        } else if table.count(|guest| guest.whose == Whose::Stranger) >= limits.strangers() {
            let gone = table.evict(|guest| guest.whose == Whose::Stranger);
            (table.whose(gone, network, limits).ok_or(Full::House)?, Some(Full::House))
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
        // What a panic could leave behind is a count.
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

    /// What a newcomer is once room was made, or was not: then it may ask for health, in a place
    /// that is kept.
    fn whose(&mut self, made_room: bool, network: IpAddr, limits: &Limits) -> Option<Whose> {
        if made_room {
            return Some(Whose::Stranger);
        }
        let probes = |guest: &Guest| guest.whose == Whose::Prober;
        let here = |guest: &Guest| probes(guest) && guest.network == network;
        let has_room = if self.count(here) >= KEPT_PER_NETWORK.min(limits.kept()) {
            self.evict(here)
        } else {
            self.count(probes) < limits.kept() || self.evict(probes)
        };
        has_room.then_some(Whose::Prober)
    }

    /// Ends one of those that wait: of the network or user that has most of them the one that has
    /// waited longest.
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
    /// What it is counted with.
    fn crowd(&self) -> (Option<Arc<str>>, Option<IpAddr>) {
        match &self.whose {
            Whose::User(user) => (Some(Arc::clone(user)), None),
            Whose::Stranger | Whose::Prober => (None, Some(self.network)),
        }
    }
}

/// A connection that was let in; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    door: Arc<Door>,
    number: u64,
    leave: Arc<Notify>,
}

impl Place {
    /// Ready when the connection has to go for another.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// A request is answered. False when the connection has to go.
    pub(crate) fn begin(&self) -> bool {
        self.change(|guest, _| guest.waiting = None).is_some()
    }

    /// It waits for its peer again.
    pub(crate) fn end(&self) {
        self.change(|guest, now| guest.waiting = guest.waiting.or(Some(now)));
    }

    /// Whether only health may be asked for here.
    pub(crate) fn is_kept(&self) -> bool {
        self.change(|guest, _| guest.whose == Whose::Prober).unwrap_or(false)
    }

    /// Whether it is known whose it is.
    pub(crate) fn is_known(&self) -> bool {
        self.change(|guest, _| matches!(guest.whose, Whose::User(_))).unwrap_or(false)
    }

    /// A request here is this user's. It stays a stranger's when users' places are all in use.
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
        // One more from there: the first goes, unless it is being answered.
        assert!(crowd[0].begin());
        let (more, gone) = admit(&door, "::ffff:10.0.0.1").unwrap();
        assert_eq!(gone, Some(Full::Network));
        assert!(is_inside(&crowd[0]) && !is_inside(&crowd[1]) && is_inside(&crowd[2]));
        // Six strangers are all there may be.
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
        // Of the places that are kept one network has no more than its part, and waits for itself.
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
        // Beyond its share a user waits for itself, and stays a stranger where it can't.
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
