//! A set of destinations that counts the bindings to each, since several bindings of one
//! destination may differ in arguments alone. Adding and removing take constant time at any size.

use hashbrown::HashMap;

use super::binding::Destination;
use super::reached::Reached;

/// Up to this size a scan of the list beats an index.
const SCANNED: usize = 16;

/// Destinations, each once. Most keys have one, which takes no memory of its own.
#[derive(Default, Debug)]
pub(super) enum Targets {
    #[default]
    None,
    One(Target),
    Many(Box<Many>),
}

/// Several destinations.
#[derive(Default, Debug)]
pub(super) struct Many {
    list: Vec<Target>,
    /// Place of each destination in `list`; empty until the list outgrows [`SCANNED`], and then
    /// complete until the list is empty again.
    places: HashMap<Destination, usize>,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Target {
    destination: Destination,
    bindings: usize,
}

impl Targets {
    /// Counts one more binding to `destination`.
    pub(super) fn add(&mut self, destination: Destination) {
        match self {
            Self::None => *self = Self::One(Target { destination, bindings: 1 }),
            Self::One(target) if target.destination == destination => target.bindings += 1,
            Self::One(target) => {
                let mut many = Many { list: vec![*target], places: HashMap::new() };
                many.add(destination);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => many.add(destination),
        }
    }

    /// Counts one binding to `destination` less.
    pub(super) fn remove(&mut self, destination: Destination) {
        match self {
            Self::One(target) if target.destination == destination => {
                target.bindings -= 1;
                if target.bindings == 0 {
                    *self = Self::None;
                }
            }
            Self::None | Self::One(_) => {}
            Self::Many(many) => {
                many.remove(destination);
                if many.list.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }

    /// True without destinations.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Appends each destination once.
    pub(super) fn append_to(&self, into: &mut Reached) {
        match self {
            Self::None => {}
            Self::One(target) => into.add(target.destination),
            Self::Many(many) => into.extend(many.list.iter().map(|target| target.destination)),
        }
    }
}

impl Many {
    /// Counts one more binding to `destination`.
    fn add(&mut self, destination: Destination) {
        if let Some(place) = self.place(destination) {
            self.list[place].bindings += 1;
            return;
        }
        self.list.push(Target { destination, bindings: 1 });
        if !self.places.is_empty() {
            self.places.insert(destination, self.list.len() - 1);
        } else if self.list.len() > SCANNED {
            self.places = self.list.iter().enumerate().map(|(place, target)| (target.destination, place)).collect();
        }
    }

    /// Counts one binding to `destination` less.
    fn remove(&mut self, destination: Destination) {
        let Some(place) = self.place(destination) else { return };
        self.list[place].bindings -= 1;
        if self.list[place].bindings > 0 {
            return;
        }
        self.list.swap_remove(place);
        if self.places.is_empty() {
            return;
        }
        self.places.remove(&destination);
        if let Some(moved) = self.list.get(place) {
            self.places.insert(moved.destination, place);
        }
    }

    fn place(&self, destination: Destination) -> Option<usize> {
        if self.places.is_empty() {
            self.list.iter().position(|target| target.destination == destination)
        } else {
            self.places.get(&destination).copied()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain map of counts, over sizes on both sides of the index.
        #[test]
        fn counts_like_a_map(steps in prop::collection::vec((any::<bool>(), 0..40u64), 0..300)) {
            let mut targets = Targets::default();
            let mut model: BTreeMap<Destination, usize> = BTreeMap::new();
            for (add, id) in steps {
                let destination = if id % 2 == 0 { Destination::Queue(id) } else { Destination::Exchange(id) };
                if add {
                    targets.add(destination);
                    *model.entry(destination).or_default() += 1;
                } else {
                    targets.remove(destination);
                    if let Some(count) = model.get_mut(&destination) {
                        *count -= 1;
                        if *count == 0 {
                            model.remove(&destination);
                        }
                    }
                }
                let mut reached = Reached::within(u32::MAX);
                targets.append_to(&mut reached);
                let mut reached = reached.take();
                reached.sort();
                prop_assert_eq!(reached, model.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(targets.is_empty(), model.is_empty());
            }
        }
    }
}
