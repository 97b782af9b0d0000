//! What a follower builds from the entries that it is sent, and its answers to its own journal.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use journal::{
    Address, Bits, Chunk, Counted, FollowedState, LogId, Opened, Owner, Owners, PAGE, Reference, Replay, Restatement,
};
use parking_lot::Mutex;

use super::memory::gaps;
use super::model::{self, Replayed};

/// See the module.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) replayed: Replayed,
    /// Owners that have, or had, something in a segment.
    cold: BTreeSet<Owner>,
    counted: Counted,
    pub(super) moved: u64,
    pub(super) put_off: u64,
}

impl Copied {
    /// What a start has found on a disk that has what was written.
    pub(super) fn recovered(replayed: Replayed, opened: &Opened) -> Self {
        Self::read(replayed, opened).unwrap()
    }

    /// What a start has found.
    ///
    /// # Errors
    /// When the list of what a segment holds does not read back.
    pub(super) fn read(mut replayed: Replayed, opened: &Opened) -> io::Result<Self> {
        let cold = replayed.cold().collect();
        replayed.add_chunks(|chunk, page, into| opened.read_chunk(chunk, page, into))?;
        let world = &replayed.world;
        replayed.places.retain(|(owner, _), _| world.contains_key(owner));
        Ok(Self { replayed, cold, ..Self::default() })
    }

    /// The file of each reference.
    pub(super) fn live(&self) -> Vec<(u32, u64)> {
        self.replayed.places.values().map(|address| (address.file, 1)).collect()
    }

    fn free(&mut self, owner: Owner, is_over: impl Fn(u64) -> bool) {
        let of_owner = self.replayed.places.range((owner, 0)..=(owner, u64::MAX));
        let over = of_owner.filter(|((_, seq), _)| is_over(*seq));
        self.counted.freed.extend(over.map(|(_, address)| (address.file, 1)));
    }
}

impl Replay for Copied {
    fn cold(&mut self, _: Owner, _: u64, _: u64, _: Chunk) {
        panic!("chunks are not sent");
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.replayed.fact(owner, kind, bytes);
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        self.counted.held.extend(bodies.iter().map(|body| (body.file, 1, owner)));
        self.replayed.last.remove(&owner);
        self.replayed.reference(owner, first_seq, mark, bodies);
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        self.free(owner, |seq| runs.iter().any(|(first, count)| (*first..first + count).contains(&seq)));
        self.replayed.settled(owner, reason, runs);
    }

    fn dropped(&mut self, owner: Owner) {
        self.free(owner, |_| true);
        self.replayed.dropped(owner);
    }

    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        self.replayed.lost(segment, file, what);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.replayed.burnt(owner, first_seq, count);
    }
}

impl FollowedState for Copied {
    fn counted(&mut self, into: &mut Counted) {
        into.held.append(&mut self.counted.held);
        into.freed.append(&mut self.counted.freed);
    }
}

/// Answers from a copy.
pub(super) struct Answers(pub(super) Arc<Mutex<Copied>>);

impl Owners for Answers {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        let mut copied = self.0.lock();
        let mut later = Vec::new();
        for owner in owners {
            let log = LogId::of(*owner);
            if !restatement.is_whole(log) {
                later.push(*owner);
                continue;
            }
            let Some(state) = copied.replayed.world.get(owner) else { continue };
            let mut appender = restatement.appender(log);
            appender.fact(None, *owner, model::STATE, &[&model::encode_state(state)]);
            if copied.cold.contains(owner) {
                let live = copied.replayed.places.range((*owner, 0)..=(*owner, u64::MAX)).map(|((_, seq), _)| *seq);
                appender.settle(None, *owner, model::REASON, &gaps(live, state.next_seq), &[]);
            }
        }
        copied.put_off += later.len() as u64;
        later
    }

    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        let copied = self.0.lock();
        let of_owner = copied.replayed.places.range((owner, 0)..=(owner, u64::MAX));
        let inside = of_owner.filter(|(_, address)| address.file == file);
        found.extend(inside.map(|((_, seq), address)| Reference { seq: *seq, address: *address, length: 0 }));
    }

    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        let copied = self.0.lock();
        let of_page = copied.replayed.places.range((owner, page * PAGE)..(owner, (page + 1) * PAGE));
        for at in of_page.map(|((_, seq), _)| seq % PAGE) {
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    fn moved(&self, owner: Owner, _: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        let mut copied = self.0.lock();
        copied.cold.insert(owner);
        let mut left = 0;
        for entry in entries {
            if let Some(address) = copied.replayed.places.get_mut(&(owner, entry.seq)) {
                assert!(from.contains(&address.file), "{owner}/{} lies in {}", entry.seq, address.file);
                assert_eq!(entry.address.file, chunk.segment);
                *address = entry.address;
                left += 1;
            }
        }
        copied.moved += left;
        left
    }
}
