//! The versions of a vhost's names: by them a client knows whether a route that it found still
//! holds.
//!
//! A route depends on the names of the exchanges that its search came through, and on those that it
//! looked up and did not find. A queue's name counts where the default exchange leads to it. Every
//! change behind a name raises its version, under the vhost's write lock. Several names share a
//! version. So a change may make a client search again for nothing, and never keeps a wrong route.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::routing::digest;

/// Versions, one for each bit of [`Names`].
const VERSIONS: usize = 64;

/// Names of exchanges and queues, as the set of their versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Names(u64);

impl Names {
    fn of(name: &str) -> Self {
        Self(1 << (digest(name.as_bytes()) % VERSIONS as u64))
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
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Versions {
    all: [AtomicU64; VERSIONS],
    /// How many queues were deleted.
    deleted: AtomicU64,
}

impl Default for Versions {
    fn default() -> Self {
        Self { all: [const { AtomicU64::new(0) }; VERSIONS], deleted: AtomicU64::new(0) }
    }
}

impl Versions {
    /// Something behind this name has changed.
    pub(super) fn raise(&self, name: &str) {
        self.all[Names::of(name).0.trailing_zeros() as usize].fetch_add(1, Ordering::AcqRel);
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
        Basis { names, sum: self.sum(names) }
    }

    /// Whether nothing has changed that a route depends on.
    #[inline]
    pub(crate) fn hold(&self, basis: Basis) -> bool {
        self.sum(basis.names) == basis.sum
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

    fn id(vhost: &Vhost, exchange: &str) -> u64 {
        vhost.tables.read().exchange(exchange).expect("every vhost has it").id
    }

    fn basis(vhost: &Vhost, exchange: &str) -> Basis {
        vhost.route(exchange, &Envelope::new("k", Copies::None, &|| None)).expect("it takes messages").basis
    }

    fn bind(vhost: &Vhost, exchange: &str, destination: Destination) {
        let mut tables = vhost.tables.write();
        let source = tables.exchange(exchange).expect("every vhost has it");
        let bound = Bound::new(source.id, "k", &Table::default());
        let binding = binding_of(destination, "k", &Table::default());
        let admitted = source.bindings.admit(binding, u64::MAX).expect("it is valid").expect("it is new");
        tables.apply(Change::Bind(bound, admitted));
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
