//! What the log should hold: the operations in the order they were appended, and the state that any
//! prefix of them leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use journal::{Address, Chunk, Group, LogId, Owner, PAGE, Reference, Replay, Ticket};

/// The kind of a fact that gives an owner's value.
pub(crate) const VALUE: u8 = 1;
/// The kind of a fact that gives an owner's whole state, as restated.
pub(crate) const STATE: u8 = 2;
/// The kind of a fact that adds a member to an owner's set.
pub(crate) const MEMBER: u8 = 3;

/// The reason of every settlement.
pub(crate) const REASON: u8 = 7;

/// Which of all bodies ever published.
pub(crate) type Body = usize;

/// One owner's state.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct OwnerState {
    pub(crate) value: u64,
    pub(crate) next_seq: u64,
    pub(crate) members: BTreeSet<u64>,
    /// The body of each live reference, by its number.
    pub(crate) references: BTreeMap<u64, Body>,
}

/// All owners that are not dropped.
pub(crate) type World = BTreeMap<Owner, OwnerState>;

/// What was appended.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Value { owner: Owner, value: u64 },
    Member { owner: Owner, member: u64 },
    Reference { owner: Owner, first_seq: u64, bodies: Vec<Body> },
    Settle { owner: Owner, runs: Vec<(u64, u64)> },
    Drop { owner: Owner },
    End { group: Group },
}

/// A change, the log and the group it is in, and when it is durable.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) log: LogId,
    pub(crate) change: Change,
    pub(crate) group: Option<Group>,
    pub(crate) ticket: Ticket,
}

/// The state after `entries` on top of `world`: whole groups only, but no sequence number is used
/// twice.
pub(crate) fn fold(world: &World, entries: &[Entry]) -> World {
    let ended: BTreeSet<Group> = entries
        .iter()
        .filter_map(|entry| if let Change::End { group } = entry.change { Some(group) } else { None })
        .collect();
    let mut world = world.clone();
    for entry in entries {
        let stands = entry.group.is_none_or(|group| ended.contains(&group));
        match &entry.change {
            Change::Reference { owner, first_seq, bodies } => {
                let owner = world.entry(*owner).or_default();
                owner.next_seq = owner.next_seq.max(first_seq + bodies.len() as u64);
                if stands {
                    owner.references.extend((*first_seq..).zip(bodies.iter().copied()));
                }
            }
            _ if !stands => {}
            Change::Value { owner, value } => world.entry(*owner).or_default().value = *value,
            Change::Member { owner, member } => {
                world.entry(*owner).or_default().members.insert(*member);
            }
            Change::Settle { owner, runs } => settle(world.entry(*owner).or_default(), runs),
            Change::Drop { owner } => {
                world.remove(owner);
            }
            Change::End { .. } => {}
        }
    }
    world
}

fn settle(owner: &mut OwnerState, runs: &[(u64, u64)]) {
    for (first, count) in runs {
        owner.references.retain(|seq, _| !(*first..first + count).contains(seq));
    }
}

/// What of a world lies in a log.
pub(crate) fn part_of(world: &World, log: LogId) -> World {
    world.iter().filter(|(owner, _)| LogId::of(**owner) == log).map(|(owner, state)| (*owner, state.clone())).collect()
}

/// The bytes of an owner's whole state, without its references.
pub(crate) fn encode_state(state: &OwnerState) -> Vec<u8> {
    let numbers = [state.value, state.next_seq].into_iter().chain(state.members.iter().copied());
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// Builds the world from replay; where bodies lie instead of which they are.
#[derive(Default)]
pub(crate) struct Replayed {
    /// Segments that are damaged.
    pub(crate) lost: Vec<String>,
    /// Without references.
    pub(crate) world: World,
    pub(crate) places: BTreeMap<(Owner, u64), Address>,
    /// Chunks with their owner, page and bytes; those of owners that the log does not know are
    /// dead.
    pub(crate) chunks: Vec<(Owner, u64, u64, Chunk)>,
    settled: BTreeMap<Owner, Vec<(u64, u64)>>,
    /// The last sequence number referenced of each owner: they must ascend, except where a group is
    /// told of when it ends.
    pub(crate) last: BTreeMap<Owner, u64>,
    pub(crate) records: u64,
}

impl Replayed {
    fn owner(&mut self, owner: Owner) -> &mut OwnerState {
        self.records += 1;
        self.world.entry(owner).or_default()
    }

    /// Adds what the chunks list and no settlement has taken back. `read` reads a chunk.
    pub(crate) fn add_chunks(
        &mut self,
        mut read: impl FnMut(Chunk, u64, &mut Vec<Reference>) -> io::Result<()>,
    ) -> io::Result<()> {
        for (owner, page, bytes, chunk) in std::mem::take(&mut self.chunks) {
            let mut listed = Vec::new();
            read(chunk, page, &mut listed)?;
            assert_eq!(listed.len(), chunk.count as usize);
            assert_eq!(listed.iter().map(|one| u64::from(one.length)).sum::<u64>(), bytes);
            let Some(state) = self.world.get_mut(&owner) else { continue };
            let settled = self.settled.entry(owner).or_default();
            for one in listed {
                assert_eq!((one.seq / PAGE, one.address.file), (page, chunk.segment));
                state.next_seq = state.next_seq.max(one.seq + 1);
                if !settled.iter().any(|(first, count)| (*first..first + count).contains(&one.seq)) {
                    let twice = self.places.insert((owner, one.seq), one.address);
                    assert_eq!(twice, None, "{owner}/{} is in two places", one.seq);
                }
            }
        }
        Ok(())
    }

    /// The owners that have chunks.
    pub(crate) fn cold(&self) -> impl Iterator<Item = Owner> + '_ {
        self.chunks.iter().map(|(owner, ..)| *owner)
    }
}

impl Replay for Replayed {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        assert_eq!(self.records, 0, "chunks come before the log");
        self.chunks.push((owner, page, bytes, chunk));
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        let owner = self.owner(owner);
        let mut numbers = bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        match kind {
            VALUE => owner.value = numbers.next().unwrap(),
            MEMBER => owner.members.extend(numbers.next()),
            STATE => {
                owner.value = numbers.next().unwrap();
                owner.next_seq = owner.next_seq.max(numbers.next().unwrap());
                owner.members.extend(numbers);
            }
            _ => panic!("a fact of kind {kind} was never appended"),
        }
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        let end = first_seq + bodies.len() as u64;
        let before = self.last.insert(owner, end).unwrap_or(0);
        assert!(first_seq >= before, "references of one owner come in order");
        assert_eq!(mark, owner ^ 0x1234, "the mark comes back");
        let state = self.owner(owner);
        state.next_seq = state.next_seq.max(end);
        self.places.extend((first_seq..).zip(bodies).map(|(seq, address)| ((owner, seq), *address)));
    }

    fn lost(&mut self, _: u32, file: &str, what: &str) {
        self.lost.push(format!("{file}: {what}"));
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        assert_eq!(reason, REASON, "the reason comes back");
        self.owner(owner);
        let inside = |seq: u64| runs.iter().any(|(first, count)| (*first..first + count).contains(&seq));
        self.places.retain(|(of, seq), _| *of != owner || !inside(*seq));
        self.settled.entry(owner).or_default().extend(runs);
    }

    fn dropped(&mut self, owner: Owner) {
        self.records += 1;
        self.world.remove(&owner);
        self.places.retain(|(of, _), _| *of != owner);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        let owner = self.owner(owner);
        owner.next_seq = owner.next_seq.max(first_seq + count);
    }
}

/// Drops what can't be told apart from nothing: an owner none of whose records ever stood.
pub(crate) fn pruned(world: &World) -> World {
    world
        .iter()
        .filter(|(_, state)| **state != OwnerState::default())
        .map(|(owner, state)| (*owner, state.clone()))
        .collect()
}

/// What differs between two worlds, one line for each owner.
pub(crate) fn difference(expected: &World, found: &World) -> String {
    let owners: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = owners.into_iter().filter(|owner| expected.get(owner) != found.get(owner));
    let lines = differ
        .map(|owner| format!("owner {owner}\n  nearest {:?}\n  found   {:?}\n", expected.get(owner), found.get(owner)));
    lines.collect()
}
