//! Message groups: the messages of a group go to one consumer, in order, as long as it is there.
//!
//! Groups fall into a fixed number of buckets by a hash of their names, and a bucket belongs to a
//! consumer. So memory is bounded for any number of groups. Invariant: while a consumer that has
//! left still holds messages of a bucket, no other consumer owns the bucket. Its later messages
//! wait until the earlier ones are settled or back at their places.
//!
//! Each consumer of such a queue has a view of its own ([`crate::queue::filter`]), which passes
//! over the groups of others. So no group waits for the credit of another consumer.

use std::cmp::Reverse;

use hashbrown::HashMap;
use selector::{Lookup, Value};

use crate::arguments::Grouping;
use crate::message::selected::Selected;
use crate::queue::ConsumerKey;
use crate::routing::digest;

/// The properties with the name of a group; the first one counts.
const NAMES: [&str; 2] = ["JMSXGroupID", "x-group-id"];
/// A negative number here ends the group: later messages of its name may go to another consumer.
const SEQUENCE: &str = "JMSXGroupSeq";
/// The memory of an entry that is out, in bytes.
const HELD_COST: usize = 24;

/// Stands for no member.
const NOBODY: u32 = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// The number of a member, or [`NOBODY`].
    owner: u32,
    /// Unsettled entries that are out.
    out: u32,
}

/// A consumer of a queue with groups.
#[derive(Debug)]
struct Member {
    number: u32,
    key: ConsumerKey,
    priority: i32,
    buckets: usize,
    /// It has left with unsettled messages, and others wait for them.
    gone: bool,
}

/// The bucket that a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grouped {
    bucket: u32,
    /// It is the last of its group.
    ends: bool,
}

/// The groups of a queue. See the module.
#[derive(Debug)]
pub(super) struct Groups {
    grouping: Grouping,
    /// Empty until a message has a group.
    buckets: Vec<Bucket>,
    members: Vec<Member>,
    /// The number of members that there have been.
    came: u32,
    /// The buckets of entries that are out.
    held: HashMap<u64, u32>,
    /// Members that look again from this number on, since they may have passed over entries of
    /// groups that are now their own.
    to_look: Vec<(u32, u64)>,
}

impl Groups {
    pub(super) fn new(grouping: Grouping) -> Self {
        Self {
            grouping,
            buckets: Vec::new(),
            members: Vec::new(),
            came: NOBODY,
            held: HashMap::new(),
            to_look: Vec::new(),
        }
    }

    /// The bucket of a message; `None` if it has no group.
    pub(super) fn group_of(&self, selected: &Selected<'_>) -> Option<Grouped> {
        let name = NAMES.iter().find_map(|name| selected.text(name).filter(|name| !name.is_empty()))?;
        let bucket = (digest(name.as_bytes()) % u64::from(self.grouping.buckets)) as u32;
        let ends = match selected.get(SEQUENCE) {
            Value::Int(number) => number < 0,
            Value::Text(text) => text.trim().parse::<i64>().is_ok_and(|number| number < 0),
            _ => false,
        };
        Some(Grouped { bucket, ends })
    }

    /// Adds a consumer; its number. Where groups are shared out again, only buckets without
    /// unsettled messages move.
    pub(super) fn join(&mut self, key: ConsumerKey, priority: i32) -> u32 {
        self.came += 1;
        self.members.push(Member { number: self.came, key, priority, buckets: 0, gone: false });
        if self.grouping.rebalance {
            let present = self.members.iter().filter(|member| !member.gone).count();
            let share = self.members.iter().map(|member| member.buckets).sum::<usize>().div_ceil(present);
            for at in 0..self.buckets.len() {
                let Bucket { owner, out } = self.buckets[at];
                let has_more = self.member_mut(owner).is_some_and(|member| member.buckets > share);
                if out == 0 && has_more {
                    self.release(at);
                }
            }
        }
        self.came
    }

    fn member_mut(&mut self, number: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    /// Takes a bucket from its owner.
    fn release(&mut self, at: usize) {
        let owner = std::mem::replace(&mut self.buckets[at].owner, NOBODY);
        if let Some(member) = self.member_mut(owner) {
            member.buckets -= 1;
        }
        self.members.retain(|member| !member.gone || member.buckets > 0);
    }

    /// A consumer has left. True if others may take over its groups.
    pub(super) fn leave(&mut self, key: ConsumerKey) -> bool {
        let Some(member) = self.members.iter_mut().find(|member| member.key == key && !member.gone) else {
            return false;
        };
        member.gone = true;
        let number = member.number;
        let mut freed = false;
        for at in 0..self.buckets.len() {
            if self.buckets[at].owner == number && self.buckets[at].out == 0 {
                self.release(at);
                freed = true;
            }
        }
        self.members.retain(|member| !member.gone || member.buckets > 0);
        freed
    }

    /// True when an entry is for this member, which then owns the bucket. A bucket without an owner
    /// goes to the member with the fewest, among those of the highest priority.
    pub(super) fn is_for(&mut self, grouped: Grouped, member: u32, seq: u64) -> bool {
        if self.buckets.is_empty() {
            self.buckets.resize(self.grouping.buckets as usize, Bucket::default());
        }
        let bucket = &mut self.buckets[grouped.bucket as usize];
        if bucket.owner == NOBODY {
            let present = self.members.iter_mut().filter(|member| !member.gone);
            let next = present.max_by_key(|one| (one.priority, Reverse(one.buckets), Reverse(one.number)));
            let Some(next) = next else { return false };
            next.buckets += 1;
            bucket.owner = next.number;
            if next.number != member {
                self.to_look.push((next.number, seq));
            }
        }
        #[cfg(feature = "sabotage")]
        if super::sabotage::armed("ungrouped") {
            return true;
        }
        bucket.owner == member
    }

    /// An entry goes out, and is out until it is settled.
    pub(super) fn hold(&mut self, grouped: Grouped, seq: u64) {
        self.buckets[grouped.bucket as usize].out += 1;
        self.held.insert(seq, grouped.bucket);
    }

    /// Notes that an entry has been delivered.
    pub(super) fn delivered(&mut self, grouped: Grouped, seq: u64) {
        if grouped.ends {
            self.release(grouped.bucket as usize);
            let present = self.members.iter().filter(|member| !member.gone);
            self.to_look.extend(present.map(|member| (member.number, seq + 1)));
        }
    }

    /// An entry that was out is settled, or back at its place. True if others may take over the
    /// groups of its consumer.
    pub(super) fn settled(&mut self, seq: u64) -> bool {
        let Some(at) = self.held.remove(&seq) else { return false };
        let bucket = &mut self.buckets[at as usize];
        bucket.out -= 1;
        let Bucket { owner, out } = *bucket;
        let freed = out == 0 && self.member_mut(owner).is_some_and(|member| member.gone);
        if freed {
            self.release(at as usize);
        }
        freed
    }

    /// Takes the list of members that have to look again, each from a number on.
    pub(super) fn take_to_look(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.to_look)
    }

    /// Bytes of memory.
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.held.len() * HELD_COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Grouped; 4] = [grouped(0), grouped(1), grouped(2), grouped(3)];

    const fn grouped(bucket: u32) -> Grouped {
        Grouped { bucket, ends: false }
    }

    fn key(consumer: u32) -> ConsumerKey {
        ConsumerKey { client: 1, consumer }
    }

    const STAYING: Grouping = Grouping { buckets: 4, rebalance: false };

    /// To a consumer that will settle it.
    fn deliver(groups: &mut Groups, grouped: Grouped, seq: u64) {
        groups.hold(grouped, seq);
        groups.delivered(grouped, seq);
    }

    fn groups(grouping: Grouping, members: u32) -> Groups {
        let mut groups = Groups::new(grouping);
        for consumer in 1..=members {
            assert_eq!(groups.join(key(consumer), 0), consumer);
        }
        groups
    }

    /// The owner of each bucket, after member 1 has looked at all.
    fn owners(groups: &mut Groups) -> [u32; 4] {
        ALL.map(|grouped| {
            groups.is_for(grouped, 1, 100 + u64::from(grouped.bucket));
            groups.buckets[grouped.bucket as usize].owner
        })
    }

    #[test]
    fn buckets_go_to_who_has_the_fewest_of_those_with_the_highest_priority() {
        let mut groups = groups(STAYING, 2);
        assert_eq!(owners(&mut groups), [1, 2, 1, 2]);
        assert_eq!(groups.take_to_look(), [(2, 101), (2, 103)]);
        assert_eq!(groups.join(key(3), 5), 3);
        assert_eq!(owners(&mut groups), [1, 2, 1, 2], "who comes takes nothing from anybody");
        assert!(groups.leave(key(1)) && !groups.leave(key(1)));
        assert_eq!(owners(&mut groups), [3, 2, 3, 2]);
    }

    #[test]
    fn what_a_consumer_holds_that_has_left_keeps_its_bucket() {
        let mut groups = groups(STAYING, 2);
        owners(&mut groups);
        for (bucket, seq) in [(0, 10), (0, 11), (1, 12)] {
            deliver(&mut groups, ALL[bucket], seq);
        }
        assert!(groups.leave(key(1)), "bucket 2 is free");
        assert_eq!(owners(&mut groups), [1, 2, 2, 2]);
        assert!(!groups.settled(12) && !groups.settled(11) && !groups.settled(11));
        assert!(groups.settled(10));
        assert_eq!(owners(&mut groups), [2, 2, 2, 2]);
        assert_eq!((groups.members.len(), groups.held.len()), (1, 0));
    }

    #[test]
    fn the_end_of_a_group_frees_its_bucket() {
        let mut groups = groups(STAYING, 2);
        owners(&mut groups);
        deliver(&mut groups, Grouped { bucket: 0, ends: true }, 10);
        groups.delivered(Grouped { bucket: 2, ends: true }, 11);
        assert_eq!(groups.buckets.iter().map(|bucket| bucket.owner).collect::<Vec<_>>(), [0, 2, 0, 2]);
        assert!(!groups.settled(10) && !groups.settled(11));
    }

    #[test]
    fn where_it_is_asked_for_groups_of_which_nothing_is_out_are_shared_with_who_comes() {
        let mut groups = groups(Grouping { rebalance: true, ..STAYING }, 1);
        assert_eq!(owners(&mut groups), [1, 1, 1, 1]);
        deliver(&mut groups, ALL[0], 10);
        groups.join(key(2), 0);
        assert_eq!(groups.buckets.iter().map(|bucket| bucket.owner).collect::<Vec<_>>(), [1, 0, 0, 1]);
        assert_eq!(owners(&mut groups), [1, 2, 2, 1]);
    }
}
