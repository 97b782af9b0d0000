//! What a data directory that no broker has open holds, by the names of its queues, and what of it
//! is damaged.
//!
//! Invariant: the facts are read by the same code that a start reads them with, so what is whole
//! here opens there.

use std::sync::Arc;

use journal::{Disk, Owner, Verification};

use crate::broker::OpenError;
use crate::engine::pages::UnreadableEntries;
use crate::engine::recovery::Rebuilt;

/// See [`Verified::read`].
pub struct Verified {
    /// The bytes: log, segments, damages.
    pub journal: Verification,
    /// The queues, by vhost and name.
    pub queues: Vec<VerifiedQueue>,
    /// What a fact says that can't be read, or that a start would not take.
    pub facts: Option<String>,
    names: Vec<(Owner, String)>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedQueue {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// Entries that are not settled, those lost among them.
    pub entries: u64,
    /// Entries that the facts speak of and nothing lists any more: how many.
    pub lost: u64,
    /// The first and the last of their numbers.
    pub lost_numbers: (u64, u64),
}

impl Verified {
    /// Reads every byte of the data directory on `disk`, which stays locked as long as the result
    /// lives. Nothing is changed.
    ///
    /// # Errors
    /// If the directory is in use, or holds no journal that this version reads.
    pub fn read(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let mut rebuilt = Rebuilt::default();
        let journal = journal::verify(disk, &mut rebuilt)?;
        rebuilt.settle_pages(&|chunk, page, into| journal.read_chunk(chunk, page, into));
        let facts = rebuilt.damage().map(str::to_owned);
        let mut queues = Vec::new();
        let mut names = Vec::new();
        for (owner, vhost, name, entries) in rebuilt.queue_counts() {
            let UnreadableEntries { count, numbers, .. } = rebuilt.lost.get(&owner).copied().unwrap_or_default();
            names.push((owner, format!("queue '{name}' in vhost '{vhost}'")));
            queues.push(VerifiedQueue { vhost, name, entries, lost: count, lost_numbers: numbers });
        }
        queues.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        Ok(Self { journal, queues, facts, names })
    }

    /// True when a broker opens the directory and can read all that is in it.
    pub fn is_whole(&self) -> bool {
        self.journal.is_whole() && self.facts.is_none() && self.queues.iter().all(|queue| queue.lost == 0)
    }

    /// The queue that has this number in the journal, in words.
    pub fn name_of(&self, owner: Owner) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == owner).map(|(_, name)| name.as_str())
    }
}
