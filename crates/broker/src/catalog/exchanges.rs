//! The exchanges of a vhost: by name, by id, and by what they have bindings to.
//!
//! The end of a queue asks for its sources, and not every exchange of the vhost: those may be many,
//! and another user's. Invariant: an exchange is among the sources of a queue or an exchange
//! exactly as long as it has bindings to it. Subscribers without a queue are left out: they know
//! their own filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use journal::Owner;

use crate::catalog::Exchange;
use crate::routing::Destination;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    by_name: HashMap<Arc<str>, Exchange>,
    names: HashMap<Owner, Arc<str>>,
    /// Each destination with each of its sources.
    sources: BTreeSet<(Destination, Owner)>,
}

impl Exchanges {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Exchange> {
        self.by_name.values()
    }

    pub(super) fn named(&self, name: &str) -> Option<&Exchange> {
        self.by_name.get(name)
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut Exchange> {
        self.by_name.get_mut(name)
    }

    pub(super) fn get(&self, id: Owner) -> Option<&Exchange> {
        self.by_name.get(self.names.get(&id)?)
    }

    pub(super) fn get_mut(&mut self, id: Owner) -> Option<&mut Exchange> {
        self.by_name.get_mut(self.names.get(&id)?)
    }

    pub(super) fn insert(&mut self, exchange: Exchange) {
        self.names.insert(exchange.id, Arc::clone(&exchange.name));
        self.by_name.insert(Arc::clone(&exchange.name), exchange);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Exchange> {
        let exchange = self.by_name.remove(name)?;
        self.names.remove(&exchange.id);
        for binding in exchange.bindings.iter() {
            self.sources.remove(&(binding.destination, exchange.id));
        }
        Some(exchange)
    }

    /// Bindings of this exchange to this destination have come or gone.
    pub(super) fn note(&mut self, destination: Destination, exchange: Owner) {
        if matches!(destination, Destination::Subscriber(_)) {
            return;
        }
        let leads = |source: &Exchange| source.bindings.to(destination).next().is_some();
        if self.get(exchange).is_some_and(leads) {
            self.sources.insert((destination, exchange));
        } else {
            self.sources.remove(&(destination, exchange));
        }
    }

    /// The exchanges with bindings to this queue or exchange.
    pub(super) fn sources_of(&self, destination: Destination) -> impl Iterator<Item = &Exchange> {
        let all = self.sources.range((destination, Owner::MIN)..=(destination, Owner::MAX));
        all.filter_map(|(_, source)| self.get(*source))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::change::Change;
    use crate::catalog::{Tables, Vhost, binding_of};
    use crate::queue::Bound;
    use crate::routing::Tally;
    use crate::value::Table;

    const EXCHANGES: [&str; 4] = ["amq.direct", "amq.topic", "amq.fanout", "amq.headers"];

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Bind(&'static str, &'static str, Destination),
        Unbind(&'static str, &'static str, Destination),
        EndDestination(Destination),
        EndExchange(&'static str),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let exchange = || prop::sample::select(EXCHANGES.to_vec());
        let key = || prop::sample::select(vec!["a", "b"]);
        let destination =
            || prop_oneof![(0..3u64).prop_map(Destination::Queue), (0..2u64).prop_map(Destination::Exchange)];
        let step = prop_oneof![
            8 => (exchange(), key(), destination()).prop_map(|(exchange, key, to)| Step::Bind(exchange, key, to)),
            6 => (exchange(), key(), destination()).prop_map(|(exchange, key, to)| Step::Unbind(exchange, key, to)),
            2 => destination().prop_map(Step::EndDestination),
            1 => exchange().prop_map(Step::EndExchange),
        ];
        prop::collection::vec(step, 0..60)
    }

    fn take(tables: &mut Tables, step: Step) {
        match step {
            Step::Bind(name, key, destination) => {
                let Some(source) = tables.exchange(name) else { return };
                let (bound, binding) =
                    (Bound::new(source.id, key, &Table::default()), binding_of(destination, key, &Table::default()));
                if let Some(admitted) = source.bindings.admit(binding, u64::MAX).unwrap() {
                    tables.apply(Change::Bind(bound, admitted));
                }
            }
            Step::Unbind(name, key, destination) => {
                let Some(source) = tables.exchange(name) else { return };
                let bound = Bound::new(source.id, key, &Table::default());
                tables.apply(Change::Unbind(bound, destination));
            }
            Step::EndDestination(destination) => {
                tables.unbind_all(destination);
            }
            Step::EndExchange(name) => _ = tables.remove_exchange(name),
        }
    }

    proptest! {
        #[test]
        fn sources_are_the_exchanges_with_bindings(steps in steps()) {
            let vhost = Vhost::new(1, 2, "v", &Tally::default());
            let mut tables = vhost.tables.write();
            for step in steps {
                take(&mut tables, step);
                let of_bindings = tables.exchanges().flat_map(|exchange| {
                    exchange.bindings.iter().map(|binding| (binding.destination, exchange.id))
                });
                prop_assert_eq!(&of_bindings.collect::<BTreeSet<_>>(), &tables.exchanges.sources, "{:?}", step);
            }
        }
    }
}
