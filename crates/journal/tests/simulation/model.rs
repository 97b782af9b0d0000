//! What the log should hold: the operations in the order they were appended, and the state that any prefix of them
//! leaves.

use std::collections::{BTreeMap, BTreeSet};

use journal::{Address, Group, Owner, Replay, Ticket};

/// The kind of a fact that gives an owner's value.
pub(crate) const VALUE: u8 = 1;
/// The kind of a fact that gives an owner's whole state, as restated.
pub(crate) const STATE: u8 = 2;
/// The kind of a fact that adds a member to an owner's set.
pub(crate) const MEMBER: u8 = 3;

/// One owner's state.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct OwnerState {
    pub(crate) value: u64,
    pub(crate) next_seq: u64,
    pub(crate) members: BTreeSet<u64>,
    /// The body of each live reference.
    pub(crate) references: BTreeMap<u64, Address>,
}

/// All owners that are not dropped.
pub(crate) type World = BTreeMap<Owner, OwnerState>;

/// What was appended.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Value { owner: Owner, value: u64 },
    Member { owner: Owner, member: u64 },
    Reference { owner: Owner, first_seq: u64, bodies: Vec<Address> },
    Settle { owner: Owner, runs: Vec<(u64, u64)> },
    Drop { owner: Owner },
    End { group: Group },
}

/// A change, the group it is in, and when it is durable.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) change: Change,
    pub(crate) group: Option<Group>,
    pub(crate) ticket: Ticket,
}

/// The state after `entries` on top of `world`: whole groups only, but no sequence number is used twice.
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

/// The bytes of an owner's whole state, without its references.
pub(crate) fn encode_state(state: &OwnerState) -> Vec<u8> {
    let numbers = [state.value, state.next_seq].into_iter().chain(state.members.iter().copied());
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// Builds the world from replay.
#[derive(Default)]
pub(crate) struct Replayed {
    pub(crate) world: World,
    /// The last sequence number referenced of each owner: they must ascend.
    last: BTreeMap<Owner, u64>,
    pub(crate) records: u64,
}

impl Replayed {
    fn owner(&mut self, owner: Owner) -> &mut OwnerState {
        self.records += 1;
        self.world.entry(owner).or_default()
    }
}

impl Replay for Replayed {
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
        assert_eq!(mark, first_seq ^ owner, "the mark comes back");
        let end = first_seq + bodies.len() as u64;
        let before = self.last.insert(owner, end).unwrap_or(0);
        assert!(first_seq >= before, "references of one owner come in order");
        let owner = self.owner(owner);
        owner.next_seq = owner.next_seq.max(end);
        owner.references.extend((first_seq..).zip(bodies.iter().copied()));
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        assert_eq!(reason, 7, "the reason comes back");
        settle(self.owner(owner), runs);
    }

    fn dropped(&mut self, owner: Owner) {
        self.records += 1;
        self.world.remove(&owner);
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
        .map(|owner| format!("owner {owner}\n  durable {:?}\n  found   {:?}\n", expected.get(owner), found.get(owner)));
    lines.collect()
}
