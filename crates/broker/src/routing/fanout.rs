//! Fanout exchanges: a message goes to every destination, whatever its routing key.

use super::binding::Destination;
use super::reached::Reached;
use super::targets::Targets;

/// All destinations of the exchange.
#[derive(Default, Debug)]
pub(super) struct Fanout {
    targets: Targets,
}

impl Fanout {
    pub(super) fn add(&mut self, destination: Destination) {
        self.targets.add(destination);
    }

    pub(super) fn remove(&mut self, destination: Destination) {
        self.targets.remove(destination);
    }

    pub(super) fn route(&self, into: &mut Reached) {
        self.targets.append_to(into);
    }
}
