//! The container ids of connections that each want to be the only one of their id. Jakarta
//! Messaging's client ids are these.
//!
//! A connection that does not ask for that is not noted, and clashes with none.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

type Taken = Arc<Mutex<HashSet<(String, String)>>>;

/// The ids in use, by vhost.
#[derive(Debug, Default)]
pub(super) struct Containers(Taken);

/// The only connection of its id, until it is dropped.
#[derive(Debug)]
pub(super) struct Sole {
    taken: Taken,
    id: (String, String),
}

impl Containers {
    /// Takes the id. `None` if a connection has it.
    pub(super) fn take(&self, vhost: &str, container: &str) -> Option<Sole> {
        let id = (vhost.to_owned(), container.to_owned());
        let is_free = self.0.lock().insert(id.clone());
        is_free.then(|| Sole { taken: Arc::clone(&self.0), id })
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_once_in_each_vhost_until_it_is_dropped() {
        let containers = Containers::default();
        let first = containers.take("/", "a");
        assert!(first.is_some());
        assert!(containers.take("/", "a").is_none());
        assert!(containers.take("v", "a").is_some());
        drop(first);
        assert!(containers.take("/", "a").is_some());
    }
}
