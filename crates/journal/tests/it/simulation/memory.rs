//! What the world looks like to the one who appends, and the owners' answers to the journal, which
//! are drawn from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal::{Address, Bits, Chunk, Group, LogId, Owner, Owners, PAGE, Reference, Restatement, Ticket};
use parking_lot::Mutex;

use super::model::{self, Change, Entry, World};

/// Where the body of a reference lies, and its length.
pub(crate) type Places = BTreeMap<(Owner, u64), (Address, u32)>;

/// A group that has not ended, its log, and what it will do.
#[derive(Clone)]
pub(crate) struct OpenGroup {
    pub(crate) group: Group,
    pub(crate) log: LogId,
    pub(crate) changes: Vec<Change>,
}

/// Shared with the journal's background.
#[derive(Default)]
pub(crate) struct Memory {
    /// What recovery found, and what was appended since.
    pub(crate) base: World,
    pub(crate) entries: Vec<Entry>,
    /// The present state: as if every ended group and everything ungrouped were durable.
    pub(crate) world: World,
    /// Groups begun and not ended, with what they will do.
    pub(crate) open: Vec<OpenGroup>,
    /// Every reference not settled, hidden ones included.
    pub(crate) places: Places,
    /// Owners that have, or had, something in a segment.
    pub(crate) cold: BTreeSet<Owner>,
    pub(crate) moved: u64,
    /// The places that recovery found in the log.
    pub(crate) unmeasured: BTreeSet<(Owner, u64)>,
}

impl Memory {
    /// Notes what was appended, and does it: at once, or when its group ends.
    pub(crate) fn log(&mut self, log: LogId, change: Change, group: Option<Group>, ticket: Ticket) {
        self.entries.push(Entry { log, change: change.clone(), group, ticket });
        if let Some(open) = group.and_then(|group| self.open.iter_mut().find(|open| open.group == group)) {
            open.changes.push(change);
            return;
        }
        if let Change::End { group } = change {
            let at = self.open.iter().position(|open| open.group == group).unwrap();
            self.open.remove(at).changes.into_iter().for_each(|change| self.apply(change));
        } else {
            self.apply(change);
        }
    }

    fn apply(&mut self, change: Change) {
        match &change {
            Change::Settle { owner, runs } => {
                let seqs = runs.iter().flat_map(|(first, count)| *first..first + count);
                let settled: BTreeSet<u64> = seqs.collect();
                self.places.retain(|(of, seq), _| of != owner || !settled.contains(seq));
            }
            Change::Drop { owner } => self.places.retain(|(of, _), _| of != owner),
            _ => {}
        }
        let entry = Entry { log: LogId::SYSTEM, change, group: None, ticket: Ticket::NONE };
        self.world = model::fold(&self.world, std::slice::from_ref(&entry));
    }

    /// The group of a log that was begun last, if one is open.
    pub(crate) fn open_in(&self, log: LogId) -> Option<Group> {
        self.open.iter().rev().find(|open| open.log == log).map(|open| open.group)
    }

    /// What open groups have settled already.
    pub(crate) fn settled_in_groups(&self, owner: Owner) -> Vec<u64> {
        let changes = self.open.iter().flat_map(|open| &open.changes);
        let runs = changes.filter_map(|change| match change {
            Change::Settle { owner: settled, runs } if *settled == owner => Some(runs),
            _ => None,
        });
        runs.flatten().map(|(first, _)| *first).collect()
    }

    /// The references of `owner` for which no settlement was appended, grouped or not.
    fn unsettled(&self, owner: Owner) -> BTreeMap<u64, (Address, u32)> {
        let settled = self.settled_in_groups(owner);
        let of_owner = self.places.range((owner, 0)..=(owner, u64::MAX));
        of_owner.filter(|((_, seq), _)| !settled.contains(seq)).map(|((_, seq), place)| (*seq, *place)).collect()
    }
}

/// Answers for all owners.
pub(crate) struct Restater(pub(crate) Arc<Mutex<Memory>>);

impl Owners for Restater {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        let memory = self.0.lock();
        for owner in owners {
            let Some(state) = memory.world.get(owner) else { continue };
            let mut appender = restatement.appender(LogId::of(*owner));
            appender.fact(None, *owner, model::STATE, &[&model::encode_state(state)]);
            if memory.cold.contains(owner) {
                let runs = gaps(memory.unsettled(*owner).keys().copied(), state.next_seq);
                appender.settle(None, *owner, model::REASON, &runs, &[]);
            }
        }
        Vec::new()
    }

    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        let memory = self.0.lock();
        let inside = memory.unsettled(owner).into_iter().filter(|(_, (address, _))| address.file == file);
        found.extend(inside.map(|(seq, (address, length))| {
            let known = !memory.unmeasured.contains(&(owner, seq));
            Reference { seq, address, length: if known { length } else { 0 } }
        }));
    }

    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        assert_eq!(*bits, [0; (PAGE / 64) as usize]);
        let unsettled = self.0.lock().unsettled(owner);
        for at in unsettled.keys().filter(|seq| **seq / PAGE == page).map(|seq| seq % PAGE) {
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    fn moved(&self, owner: Owner, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        let mut memory = self.0.lock();
        assert_eq!(entries.len(), chunk.count as usize);
        assert!(entries.is_sorted_by_key(|entry| entry.seq) && entries.iter().all(|entry| entry.seq / PAGE == page));
        let unsettled = memory.unsettled(owner);
        memory.cold.insert(owner);
        let mut left = 0;
        for entry in entries {
            assert_eq!(entry.address.file, chunk.segment);
            if let Some((address, length)) = unsettled.get(&entry.seq) {
                assert!(from.contains(&address.file), "{owner}/{} lies in {}", entry.seq, address.file);
                assert_eq!(*length, entry.length);
                memory.places.insert((owner, entry.seq), (entry.address, entry.length));
                memory.unmeasured.remove(&(owner, entry.seq));
                left += 1;
            }
        }
        memory.moved += left;
        left
    }
}

/// The runs of numbers below `end` that are not in `live`, which ascends.
pub(super) fn gaps(live: impl Iterator<Item = u64>, end: u64) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    let mut next = 0;
    for seq in live.chain([end]) {
        if next < seq {
            runs.push((next, seq - next));
        }
        next = next.max(seq + 1);
    }
    runs
}
