//! Direct exchanges: a message goes to the bindings whose key equals its routing key, byte for
//! byte.

use std::sync::Arc;

use hashbrown::HashMap;

use super::binding::Destination;
use super::reached::Reached;
use super::targets::Targets;

/// The destinations of each key. A key without destinations is not kept.
#[derive(Default, Debug)]
pub(super) struct Direct {
    keys: HashMap<Arc<str>, Targets>,
}

impl Direct {
    pub(super) fn add(&mut self, key: &Arc<str>, destination: Destination) {
        self.keys.entry(Arc::clone(key)).or_default().add(destination);
    }

    pub(super) fn remove(&mut self, key: &str, destination: Destination) {
        let Some(targets) = self.keys.get_mut(key) else { return };
        targets.remove(destination);
        if targets.is_empty() {
            self.keys.remove(key);
        }
    }

    pub(super) fn route(&self, key: &str, into: &mut Reached) {
        into.charge(1);
        if let Some(targets) = self.keys.get(key) {
            targets.append_to(into);
        }
    }
}
