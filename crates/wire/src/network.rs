//! Where peers come from: the network that a count is kept for, and a queue that serves networks,
//! or users, in turn.
//!
//! A host with IPv6 has 2^64 addresses of its own, so what is counted by address must be counted by
//! [`network`], the same one everywhere. [`InTurn`] keeps one network with much that waits from
//! holding up the others.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

/// The part of an address that one peer cannot choose: all of it for IPv4, mapped or not, and the
/// first 64 bits for IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// A bounded queue that takes one of each network in turn, or of each `K`, however many of one
/// there are.
#[derive(Debug)]
pub struct InTurn<T, K = IpAddr> {
    lines: HashMap<K, VecDeque<T>>,
    /// The keys of `lines`, the next one in front.
    turns: VecDeque<K>,
    waiting: usize,
    most: usize,
}

impl<T> InTurn<T> {
    /// Puts one behind the others of its network. Returns what has no place then, as
    /// [`InTurn::push_of`] does.
    pub fn push(&mut self, from: IpAddr, item: T) -> Option<T> {
        self.push_of(network(from), item)
    }
}

impl<T, K: Eq + Hash + Clone> InTurn<T, K> {
    /// An empty queue for at most `most`.
    pub fn new(most: usize) -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new(), waiting: 0, most }
    }

    /// Puts one behind the others of its key. Returns what has no place then: where the queue is
    /// full, the newest of the key that has the most.
    pub fn push_of(&mut self, key: K, item: T) -> Option<T> {
        let line = self.lines.entry(key.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(key);
        }
        line.push_back(item);
        self.waiting += 1;
        if self.waiting <= self.most {
            return None;
        }
        let longest = self.lines.iter().max_by_key(|(_, line)| line.len()).map(|(key, _)| key.clone())?;
        let line = self.lines.get_mut(&longest)?;
        let dropped = line.pop_back()?;
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&longest);
            self.turns.retain(|key| *key != longest);
        }
        Some(dropped)
    }

    /// The oldest of the key whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.turns.pop_front()?;
        let line = self.lines.get_mut(&key)?;
        let item = line.pop_front()?;
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        Some(item)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_one_peer_has_to_itself() {
        for (address, expected) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:0:1::5", "2001:db8:0:1::"),
            ("2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::"),
            ("2001:db8:0:2::5", "2001:db8:0:2::"),
            ("::1", "::"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(network(address), expected.parse::<IpAddr>().unwrap(), "{address}");
        }
    }

    #[test]
    fn networks_are_served_in_turn_and_each_in_its_own_order() {
        let mut queue = InTurn::new(100);
        for (from, item) in [
            ("10.0.0.1", "a1"),
            ("10.0.0.1", "a2"),
            ("10.0.0.1", "a3"),
            ("2001:db8::1", "b1"),
            ("2001:db8::2", "b2"),
            ("10.0.0.2", "c1"),
        ] {
            assert_eq!(queue.push(from.parse().unwrap(), item), None);
        }
        let served: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(served, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(queue.is_empty() && queue.lines.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn when_it_is_full_the_network_with_the_most_makes_room() {
        let mut queue = InTurn::new(3);
        let mut push = |from: &str, item| queue.push(from.parse().unwrap(), item);
        assert_eq!([push("10.0.0.1", 1), push("10.0.0.1", 2), push("10.0.0.1", 3)], [None; 3]);
        assert_eq!(push("10.0.0.1", 4), Some(4));
        assert_eq!(push("10.0.0.2", 5), Some(3));
        assert_eq!(queue.len(), 3);
        let mut tiny = InTurn::new(0);
        assert_eq!(tiny.push("10.0.0.1".parse().unwrap(), 1), Some(1));
        assert!(tiny.is_empty() && tiny.turns.is_empty());
    }
}
