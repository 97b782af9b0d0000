//! The names of a vhost's queues in order, for lists: with many queues, each page and each letter
//! in a filter would sort all names.
//!
//! Invariant: names are sorted while no lock of the data path is held, and again only after a queue
//! came or went.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::catalog::Tables;

/// QueueNames in order. Many lists may share them.
pub type QueueNames = Arc<[Arc<str>]>;

/// The names as they were listed last, and the change of the tables that they are of.
#[derive(Debug, Default)]
pub(crate) struct ListedQueues(Mutex<Option<(u64, QueueNames)>>);

impl ListedQueues {
    /// The names of the queues of these tables.
    pub(crate) fn names(&self, tables: &RwLock<Tables>) -> QueueNames {
        let mut listed = self.0.lock();
        let (changes, mut names) = {
            let tables = tables.read();
            let changes = tables.queue_changes();
            if let Some((_, names)) = listed.as_ref().filter(|(of, _)| *of == changes) {
                return Arc::clone(names);
            }
            (changes, tables.queues().map(|queue| Arc::clone(&queue.name)).collect::<Vec<_>>())
        };
        names.sort_unstable();
        let names = QueueNames::from(names);
        *listed = Some((changes, Arc::clone(&names)));
        names
    }
}
