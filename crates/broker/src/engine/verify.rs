//! The contents of a data directory that no broker has open, by the names of its queues, and its
//! damage.
//!
//! Invariant: the facts are read by the code of a start, so a directory that is whole here opens
//! there.

use std::sync::Arc;

use auth::{Authority, AuthoritySettings};
use journal::{Disk, Owner, Verification};

use crate::engine::open_error::OpenError;
use crate::engine::pages::UnreadableEntries;
use crate::engine::recovery::Replayed;

/// See [`Verified::read`].
pub struct Verified {
    /// The bytes: log, segments, damages.
    pub journal: Verification,
    /// The queues, by vhost and name.
    pub queues: Vec<VerifiedQueue>,
    /// The fact that can't be read, or that a start would not take, in words.
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
    /// Entries that are not settled, the lost ones included.
    pub entries: u64,
    /// Entries that the facts mention and no index lists any more.
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
        let authority = Authority::new(AuthoritySettings::new([0; 32]))
            .map_err(|error| OpenError::DefaultUser(error.to_string()))?;
        let mut replayed = Replayed::new(Arc::new(authority));
        let journal = journal::verify(disk, &mut replayed)?;
        let Replayed { system, mut rebuilt, .. } = replayed;
        rebuilt.settle_pages(&system, &|chunk, page, into| journal.read_chunk(chunk, page, into));
        let facts = rebuilt.damage().map(str::to_owned);
        let mut queues = Vec::new();
        let mut names = Vec::new();
        for (owner, vhost, name, entries) in rebuilt.queue_counts(&system) {
            let UnreadableEntries { count, numbers, .. } = rebuilt.lost.get(&owner).copied().unwrap_or_default();
            names.push((owner, format!("queue '{name}' in vhost '{vhost}'")));
            queues.push(VerifiedQueue { vhost, name, entries, lost: count, lost_numbers: numbers });
        }
        queues.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        Ok(Self { journal, queues, facts, names })
    }

    /// True when a broker can open the directory and read all of it.
    pub fn is_whole(&self) -> bool {
        self.journal.is_whole() && self.facts.is_none() && self.queues.iter().all(|queue| queue.lost == 0)
    }

    /// The name of the queue with this number in the journal.
    pub fn name_of(&self, owner: Owner) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == owner).map(|(_, name)| name.as_str())
    }
}
