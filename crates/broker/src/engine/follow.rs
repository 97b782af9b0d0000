//! The state of a broker that follows another: what its entries have said so far, and the answers
//! to its own journal.
//!
//! Invariant: the lock of the state is held from before an entry is appended until all of it is
//! applied and counted. So the journal's background sees an entry whole or not at all. Lock order:
//! this one, then those of the journal.

use std::sync::Arc;

use auth::Authority;
use journal::{
    Address, Bits, Chunk, Counted, Entry, FollowedState, LogId, Owner, Owners, Reference, Refused, Replay, Restatement,
    Ticket,
};
use parking_lot::Mutex;

use crate::engine::recovery::Replayed;
use crate::store::facts;

/// See the module.
pub(crate) struct Followed(Mutex<Replayed>);

impl Followed {
    /// What a start has found.
    pub(crate) fn new(replayed: Replayed) -> Arc<Self> {
        Arc::new(Self(Mutex::new(replayed)))
    }

    /// Appends the next entry to the journal, and applies it.
    ///
    /// # Errors
    /// Why the journal does not take it.
    pub(crate) fn apply(&self, entry: &Entry, journal: &journal::Follower) -> Result<Ticket, Refused> {
        let mut replayed = self.0.lock();
        let mut applying = Applying { replayed: &mut replayed, journal, counted: Counted::default() };
        journal.append(entry, &mut applying)
    }

    /// The users, which change with the entries.
    pub(crate) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.0.lock().authority)
    }

    /// The reason why this can't become a broker, if there is one.
    pub(crate) fn damage(&self) -> Option<String> {
        self.0.lock().rebuilt.damage().map(str::to_owned)
    }

    /// Takes the state out.
    pub(crate) fn into_inner(self) -> Replayed {
        self.0.into_inner()
    }
}

/// The state while an entry is applied.
struct Applying<'a> {
    replayed: &'a mut Replayed,
    journal: &'a journal::Follower,
    counted: Counted,
}

impl FollowedState for Applying<'_> {
    fn counted(&mut self, into: &mut Counted) {
        into.held.append(&mut self.counted.held);
        into.freed.append(&mut self.counted.freed);
    }
}

impl Replay for Applying<'_> {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        debug_assert!(false, "chunks are not sent");
        self.replayed.cold(owner, page, bytes, chunk);
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.replayed.fact(owner, kind, bytes);
        if kind == facts::SEEN {
            self.replayed.rebuilt.bound_ids(owner);
        }
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        if !self.replayed.rebuilt.takes_entries(owner) {
            return;
        }
        for run in bodies.chunk_by(|a, b| a.file == b.file) {
            self.counted.held.push((run[0].file, run.len() as u64, owner));
        }
        self.replayed.reference(owner, first_seq, mark, bodies);
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        let (journal, freed) = (self.journal, &mut self.counted.freed);
        let read = |chunk, page, into: &mut Vec<Reference>| journal.read_chunk(chunk, page, into);
        self.replayed.rebuilt.freed(owner, runs, &read, &mut |file, count| freed.push((file, count)));
        self.replayed.settled(owner, reason, runs);
    }

    fn dropped(&mut self, owner: Owner) {
        let freed = &mut self.counted.freed;
        let mut free = |file, count| freed.push((file, count));
        if let Some(vhost) = self.replayed.system.vhost_of(owner) {
            self.replayed.rebuilt.end_vhost(vhost, &mut free);
        }
        self.replayed.rebuilt.end_entries(owner, &mut free);
        self.replayed.dropped(owner);
        self.replayed.rebuilt.forget_dropped(owner);
    }

    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        self.replayed.lost(segment, file, what);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        if self.replayed.rebuilt.takes_entries(owner) {
            self.replayed.burnt(owner, first_seq, count);
        }
    }
}

impl Owners for Followed {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        let replayed = self.0.lock();
        let mut later = Vec::new();
        for owner in owners {
            let log = LogId::of(*owner);
            if restatement.is_whole(log) {
                replayed.restate(*owner, &mut restatement.appender(log));
            } else {
                later.push(*owner);
            }
        }
        later
    }

    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        self.0.lock().rebuilt.referenced(owner, file, found);
    }

    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        self.0.lock().rebuilt.unsettled(owner, page, bits);
    }

    fn moved(&self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.0.lock().rebuilt.moved(owner, page, from, chunk, entries)
    }
}
