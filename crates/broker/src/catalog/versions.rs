//! The versions of a vhost's names: by them a client knows whether a route that it found still
//! holds.
//!
//! A route depends on the names of the exchanges that its search came through, and on those that it
//! looked up and did not find. A queue's name counts where the default exchange leads to it. Every
//! change behind a name raises its version, under the vhost's write lock.
//!
//! A binding by key concerns a part of the messages of its exchange alone
//! ([`crate::routing::Bindings::part_of`]). Such a part has a version of its own, and a route
//! depends on the parts of its message. So bindings that come and go leave routes of other keys as
//! they are.
//!
//! Several names and parts share a version. So a change may make a client search again for nothing,
//! and never keeps a wrong route.

use std::sync::atomic::{AtomicU64, Ordering};

use journal::Owner;

use crate::routing::digest;

/// Versions, one for each bit of [`Names`].
const VERSIONS: usize = 64;

/// Names of exchanges and queues, and parts of exchanges, as the set of their versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Names(u64);

impl Names {
    fn of(name: &str) -> Self {
        Self(1 << (digest(name.as_bytes()) % VERSIONS as u64))
    }

    fn of_part(exchange: Owner, part: u64) -> Self {
        Self(1 << ((part ^ digest(&exchange.to_le_bytes())) % VERSIONS as u64))
    }

    /// It depends on whatever changes.
    pub(crate) fn add_all(&mut self) {
        self.0 = u64::MAX;
    }

    pub(crate) fn add_part(&mut self, exchange: Owner, part: u64) {
        self.0 |= Self::of_part(exchange, part).0;
    }

    pub(crate) fn add(&mut self, name: &str) {
        self.0 |= Self::of(name).0;
    }
}

/// The names that a route depends on, and the sum of their versions when it was found. Versions
/// only rise, so the sum is the same as long as each of them is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Basis {
    names: Names,
    sum: u64,
    /// The number of changes up to which it is known to hold.
    seen: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Versions {
    all: [AtomicU64; VERSIONS],
    /// How many changes there were of any of them: where it stands still, no route has changed.
    changes: AtomicU64,
    /// How many queues were deleted.
    deleted: AtomicU64,
}

impl Default for Versions {
    fn default() -> Self {
        Self { all: [const { AtomicU64::new(0) }; VERSIONS], changes: AtomicU64::new(0), deleted: AtomicU64::new(0) }
    }
}

impl Versions {
    /// Something behind this name has changed.
    pub(super) fn raise(&self, name: &str) {
        self.raise_one(Names::of(name));
    }

    /// A binding of an exchange has changed that concerns this part of its messages.
    pub(super) fn raise_part(&self, exchange: Owner, part: u64) {
        self.raise_one(Names::of_part(exchange, part));
    }

    fn raise_one(&self, version: Names) {
        self.all[version.0.trailing_zeros() as usize].fetch_add(1, Ordering::AcqRel);
        // Behind the version: who sees the count sees it, too.
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn note_deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// How many queues of the vhost were deleted. A client that remembers routes to them forgets
    /// these from time to time.
    #[inline]
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// What a route depends on that is found under the vhost's lock.
    pub(super) fn basis(&self, names: Names) -> Basis {
        let seen = self.changes.load(Ordering::Acquire);
        Basis { names, sum: self.sum(names), seen }
    }

    /// Whether nothing has changed that a route depends on.
    #[inline]
    pub(crate) fn hold(&self, basis: Basis) -> bool {
        self.changes.load(Ordering::Acquire) == basis.seen || self.sum(basis.names) == basis.sum
    }

    /// The same, and notes up to where it holds.
    #[inline]
    pub(crate) fn still_hold(&self, basis: &mut Basis) -> bool {
        let changes = self.changes.load(Ordering::Acquire);
        let holds = changes == basis.seen || self.sum(basis.names) == basis.sum;
        if holds {
            basis.seen = changes;
        }
        holds
    }

    #[inline]
    fn sum(&self, names: Names) -> u64 {
        let (mut left, mut sum) = (names.0, 0_u64);
        while left != 0 {
            sum = sum.wrapping_add(self.all[left.trailing_zeros() as usize].load(Ordering::Acquire));
            left &= left - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::change::Change;
    use crate::catalog::{Vhost, binding_of};
    use crate::message::cc::Copies;
    use crate::queue::Bound;
    use crate::routing::{Destination, Envelope, Tally};
    use crate::value::Table;

    fn basis_of(vhost: &Vhost, exchange: &str, key: &str) -> Basis {
        vhost.route(exchange, &Envelope::new(key, Copies::None, &|| None)).expect("it takes messages").basis
    }

    fn bind_key(vhost: &Vhost, exchange: &str, key: &str, destination: Destination) {
        let mut tables = vhost.tables.write();
        let source = tables.exchange(exchange).expect("every vhost has it");
        let bound = Bound::new(source.id, key, &Table::default());
        let binding = binding_of(destination, key, &Table::default());
        let admitted = source.bindings.admit(binding, u64::MAX).expect("it is valid").expect("it is new");
        tables.apply(Change::Bind(bound, admitted));
    }

    fn id(vhost: &Vhost, exchange: &str) -> u64 {
        vhost.tables.read().exchange(exchange).expect("every vhost has it").id
    }

    fn basis(vhost: &Vhost, exchange: &str) -> Basis {
        basis_of(vhost, exchange, "k")
    }

    fn bind(vhost: &Vhost, exchange: &str, destination: Destination) {
        bind_key(vhost, exchange, "k", destination);
    }

    fn unbind(vhost: &Vhost, exchange: &str, destination: Destination) {
        let bound = Bound::new(id(vhost, exchange), "k", &Table::default());
        vhost.tables.write().apply(Change::Unbind(bound, destination));
    }

    /// A client that publishes elsewhere searches for no route again.
    #[test]
    fn thousands_of_bindings_that_come_and_go_at_one_exchange_leave_other_routes_valid() {
        let vhost = Vhost::new(1, 2, "v", &Tally::default());
        let others = ["", "amq.direct", "amq.topic"].map(|exchange| basis(&vhost, exchange));
        let mut own = basis(&vhost, "amq.fanout");
        let mut searches = 0;
        for queue in 100..5100 {
            bind(&vhost, "amq.fanout", Destination::Queue(queue));
            assert!(!vhost.versions.hold(own));
            unbind(&vhost, "amq.fanout", Destination::Queue(queue));
            own = basis(&vhost, "amq.fanout");
            searches += others.iter().filter(|basis| !vhost.versions.hold(**basis)).count();
        }
        assert_eq!(searches, 0);
    }

    /// Subscribers that come and go at the publisher's own exchange, most of them by other keys.
    #[test]
    fn bindings_by_other_keys_leave_most_routes_of_an_exchange_valid() {
        for (exchange, pattern) in [("amq.direct", "k"), ("amq.topic", "a.k.#"), ("amq.topic", "k.*.c")] {
            let vhost = Vhost::new(1, 2, "v", &Tally::default());
            let own = basis_of(&vhost, exchange, "a.b.c");
            let spoiled = (0..1000).filter(|number| {
                let key = pattern.replace('k', &format!("k{number}"));
                let before = basis_of(&vhost, exchange, "a.b.c");
                bind_key(&vhost, exchange, &key, Destination::Queue(*number));
                !vhost.versions.hold(before)
            });
            let spoiled = spoiled.count();
            // Six of 64 versions at most, and chance.
            assert!(spoiled < 200, "{exchange} {pattern}: {spoiled}");
            assert!(!vhost.versions.hold(own), "some share a version");
        }
    }

    /// Each of them may take the message, or keep it from the alternate exchange.
    #[test]
    fn a_binding_that_matches_ends_the_route() {
        let cases = [
            ("amq.direct", "a.b.c.d.e", "a.b.c.d.e"),
            ("amq.topic", "a.b.c.d.e", "a.b.c.d.e"),
            ("amq.topic", "a.b.c.d.e", "a.#"),
            ("amq.topic", "a.b.c.d.e", "a.b.*.d.e"),
            ("amq.topic", "a.b.c.d.e", "#.e"),
            ("amq.topic", "a.b.c.d.e", "a.b.c.d.*"),
            ("amq.topic", "", "#"),
            ("amq.topic", "", ""),
            ("amq.fanout", "a", "b"),
            ("amq.headers", "a", "b"),
        ];
        for (exchange, key, binding) in cases {
            let vhost = Vhost::new(1, 2, "v", &Tally::default());
            for destination in [Destination::Queue(100), Destination::Subscriber(101)] {
                let mut before = basis_of(&vhost, exchange, key);
                bind_key(&vhost, exchange, binding, destination);
                assert!(!vhost.versions.hold(before), "{exchange} {key} {binding}");
                assert!(!vhost.versions.still_hold(&mut before) && !vhost.versions.still_hold(&mut before));
                let mut before = basis_of(&vhost, exchange, key);
                let bound = Bound::new(id(&vhost, exchange), binding, &Table::default());
                vhost.tables.write().apply(Change::Unbind(bound, destination));
                assert!(!vhost.versions.still_hold(&mut before), "{exchange} {key} {binding}");
            }
        }
    }

    #[test]
    fn a_route_depends_on_every_exchange_that_leads_to_it() {
        let vhost = Vhost::new(1, 2, "v", &Tally::default());
        bind(&vhost, "amq.direct", Destination::Exchange(id(&vhost, "amq.topic")));
        bind(&vhost, "amq.topic", Destination::Exchange(id(&vhost, "amq.fanout")));
        for (changed, expected) in [("amq.direct", [false, true, true]), ("amq.fanout", [false; 3])] {
            let found = ["amq.direct", "amq.topic", "amq.fanout"].map(|exchange| basis(&vhost, exchange));
            bind(&vhost, changed, Destination::Queue(100));
            assert_eq!(found.map(|basis| vhost.versions.hold(basis)), expected, "{changed}");
        }
        let found = basis(&vhost, "amq.direct");
        let gone = Destination::Exchange(id(&vhost, "amq.fanout"));
        assert_eq!(vhost.tables.write().unbind_all(gone), []);
        assert!(!vhost.versions.hold(found));
    }

    /// A missing alternate exchange, and a name without a queue, may be declared later.
    #[test]
    fn a_route_depends_on_the_names_that_were_not_there() {
        let vhost = Vhost::new(1, 2, "v", &Tally::default());
        vhost.tables.write().exchange_mut("amq.direct").expect("it is there").alternate = Some("spare".to_owned());
        let (named, alternate) = (basis(&vhost, ""), basis(&vhost, "amq.direct"));
        vhost.versions.raise("k");
        assert_eq!([named, alternate].map(|basis| vhost.versions.hold(basis)), [false, true]);
        vhost.versions.raise("spare");
        assert!(!vhost.versions.hold(alternate));
    }
}
