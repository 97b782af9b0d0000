//! The promises to the clients of a broker that crashes, and whether a recovered broker keeps them.

use std::collections::{BTreeMap, BTreeSet};

use testkit::peer::Received;

/// A message in a queue.
pub(crate) type Copy = (String, String);

/// The facts about one copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Its place among the publishes of its publisher.
    order: u64,
    confirmed: bool,
    delivered: bool,
    /// A client has settled it.
    settled: bool,
    /// The settlement is durable: the copy must never be seen again.
    fenced: bool,
    /// The queue of a rejected copy.
    rejected_to: Option<String>,
    transaction: Option<u64>,
}

/// A committed transaction without an answer yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unit {
    pub(crate) arrivals: Vec<Copy>,
    pub(crate) settled: Vec<Copy>,
}

/// Every copy that may exist, and the promises about it.
#[derive(Debug, Default)]
pub(crate) struct History {
    copies: BTreeMap<Copy, Fate>,
    /// Copies that must never be seen again.
    gone: BTreeSet<Copy>,
    units: BTreeMap<u64, Unit>,
    made: u64,
    /// The due times of delayed messages, by name, in milliseconds since 1970.
    dues: BTreeMap<String, u64>,
    /// The queue that tells so many priorities apart, besides 0.
    pub(crate) prioritised: Option<(&'static str, u8)>,
}

/// The priority of a message, by its name.
pub(crate) fn priority_of(name: &str) -> u8 {
    name.trim_end_matches('.').trim_start_matches('m').parse::<u64>().map_or(0, |number| (number % 5) as u8)
}

impl History {
    /// A history without messages. `prioritised` tells so many priorities apart, besides 0.
    pub(crate) fn of_queues(prioritised: Option<(&'static str, u8)>) -> Self {
        Self { prioritised, ..Self::default() }
    }

    /// A name for the next message.
    pub(crate) fn name(&mut self) -> String {
        self.made += 1;
        format!("m{}", self.made)
    }

    /// Notes that it must not be delivered before `due`.
    pub(crate) fn delay(&mut self, name: &str, due: u64) {
        self.dues.insert(name.to_owned(), due);
    }

    /// When it is due; 0 for at once.
    pub(crate) fn due_of(&self, body: &str) -> u64 {
        self.dues.get(body.trim_end_matches('.')).copied().unwrap_or(0)
    }

    /// The messages that a queue was sent outside of transactions, if they may still be there or
    /// were settled since the start.
    pub(crate) fn names_in(&self, queue: &str) -> Vec<String> {
        let all = self.copies.iter().filter(|((of, _), fate)| of == queue && fate.transaction.is_none());
        // A delayed message is compared at another time.
        all.filter(|((_, name), _)| !self.dues.contains_key(name)).map(|((_, name), _)| name.clone()).collect()
    }

    /// It was handed to the broker.
    pub(crate) fn sent(&mut self, copy: &Copy, transaction: Option<u64>) {
        let order = self.made;
        self.copies.insert(copy.clone(), Fate { order, transaction, ..Fate::default() });
    }

    pub(crate) fn confirmed(&mut self, copy: &Copy) {
        if let Some(fate) = self.copies.get_mut(copy) {
            fate.confirmed = true;
        }
    }

    /// The broker refused it.
    pub(crate) fn refused(&mut self, copy: &Copy) {
        self.copies.remove(copy);
        self.gone.insert(copy.clone());
    }

    /// A client received it.
    pub(crate) fn delivered(&mut self, queue: &str, received: &Received) {
        let copy = (queue.to_owned(), received.body.clone());
        assert!(!self.gone.contains(&copy), "{copy:?} is back");
        let fate = self.copies.get_mut(&copy).unwrap_or_else(|| panic!("nobody sent {copy:?}"));
        assert!(!fate.fenced, "{copy:?} was settled durably: {fate:?}");
        assert!(received.redelivered || !fate.delivered, "{copy:?} was delivered before and is not marked");
        fate.delivered = true;
        fate.settled = false;
    }

    /// A client accepted it.
    pub(crate) fn settled(&mut self, copy: &Copy) {
        if let Some(fate) = self.copies.get_mut(copy) {
            fate.settled = true;
        }
    }

    /// A client rejected it: it moves to queue `to`.
    pub(crate) fn rejected(&mut self, copy: &Copy, to: &str) {
        if let Some(fate) = self.copies.get_mut(copy) {
            fate.settled = true;
            fate.rejected_to = Some(to.to_owned());
            let moved = Fate { order: fate.order, confirmed: fate.confirmed, ..Fate::default() };
            let to = (to.to_owned(), copy.1.clone());
            // It may have been there already, by a rejection that a crash undid.
            self.gone.remove(&to);
            self.copies.insert(to, moved);
        }
    }

    /// Its settlement is durable.
    pub(crate) fn fenced(&mut self, copy: &Copy) {
        if let Some(fate) = self.copies.get_mut(copy).filter(|fate| fate.settled) {
            fate.fenced = true;
        }
    }

    pub(crate) fn commit_sent(&mut self, number: u64, unit: Unit) {
        self.units.insert(number, unit);
    }

    pub(crate) fn committed(&mut self, number: u64) {
        let Some(unit) = self.units.remove(&number) else { return };
        unit.arrivals.iter().for_each(|copy| self.confirmed(copy));
        for copy in &unit.settled {
            self.settled(copy);
            self.fenced(copy);
        }
    }

    pub(crate) fn rolled_back(&mut self, number: u64) {
        let Some(unit) = self.units.remove(&number) else { return };
        unit.arrivals.iter().for_each(|copy| self.refused(copy));
    }

    /// Checks the messages of a recovered broker, queue by queue in order, and goes on from there.
    pub(crate) fn recovered(&mut self, found: &BTreeMap<String, Vec<Received>>) {
        let present: BTreeSet<Copy> = found
            .iter()
            .flat_map(|(queue, all)| all.iter().map(|received| (queue.clone(), received.body.clone())))
            .collect();
        assert_eq!(present.len(), found.values().map(Vec::len).sum::<usize>(), "something is there twice");
        self.check_units(&present);
        self.check_moves(&present);
        for (copy, fate) in &self.copies {
            let kept = fate.confirmed && !fate.settled;
            let moved = fate.order > 0 && self.is_in_motion(copy);
            assert!(!kept || moved || present.contains(copy), "{copy:?} was confirmed and is lost: {fate:?}");
        }
        for (queue, all) in found {
            self.check_order(queue, all);
            all.iter().for_each(|received| self.delivered(queue, received));
        }
        // A copy that is missing now must never come back. A copy that is there is durable.
        for (copy, mut fate) in std::mem::take(&mut self.copies) {
            if present.contains(&copy) {
                fate.confirmed = true;
                fate.rejected_to = None;
                fate.transaction = None;
                self.copies.insert(copy, fate);
            } else {
                self.gone.insert(copy);
            }
        }
    }

    /// A copy that a rejection moves, not fenced yet: it may still be in its old queue.
    fn is_in_motion(&self, copy: &Copy) -> bool {
        self.copies.iter().any(|(from, fate)| {
            from.1 == copy.1 && fate.rejected_to.as_deref() == Some(copy.0.as_str()) && !fate.fenced
        })
    }

    fn check_order(&self, queue: &str, all: &[Received]) {
        let max = self.prioritised.filter(|(prioritised, _)| *prioritised == queue).map_or(0, |(_, max)| max);
        let urgency = |name: &str| max - priority_of(name).min(max);
        let copy_of = |received: &Received| (queue.to_owned(), received.body.clone());
        let fate_of = |received: &Received| Some((urgency(&received.body), self.copies.get(&copy_of(received))?));
        let orders: Vec<_> = all.iter().filter_map(fate_of).collect();
        // Dead letters come in the order of their deaths, transactions in that of their commits,
        // and delayed messages in that of their due times.
        let delayed = |fate: &Fate| self.dues.contains_key(&format!("m{}", fate.order));
        let plain = |(_, fate): &&(u8, &Fate)| fate.transaction.is_none() && !delayed(fate);
        let sorted =
            queue == "dead" || orders.iter().filter(plain).is_sorted_by_key(|(urgency, fate)| (*urgency, fate.order));
        assert!(sorted, "{queue} is out of order: {all:?}");
    }

    /// All of a transaction is there, or nothing.
    fn check_units(&mut self, present: &BTreeSet<Copy>) {
        for (number, unit) in std::mem::take(&mut self.units) {
            let there = unit.arrivals.iter().filter(|copy| present.contains(*copy)).count();
            let back = unit.settled.iter().filter(|copy| present.contains(*copy)).count();
            let whole = there == unit.arrivals.len() && back == 0;
            let nothing = there == 0 && back == unit.settled.len();
            assert!(whole || nothing, "transaction {number} is in pieces: {there} and {back} of {unit:?}");
            if whole {
                unit.settled.iter().for_each(|copy| self.settled(copy));
            }
        }
    }

    /// A rejected message is in one of its two queues, and in the new one if that was durable.
    fn check_moves(&self, present: &BTreeSet<Copy>) {
        for (copy, fate) in &self.copies {
            let Some(to) = &fate.rejected_to else { continue };
            let moved = (to.clone(), copy.1.clone());
            let settled = self.copies.get(&moved).is_none_or(|fate| fate.settled || fate.delivered);
            let places = usize::from(present.contains(copy)) + usize::from(present.contains(&moved));
            assert!(places <= 1, "{copy:?} is in both places");
            assert!(places == 1 || settled || !fate.confirmed, "{copy:?} was rejected and is nowhere");
            assert!(!fate.fenced || !present.contains(copy), "{copy:?} was rejected durably and is back");
        }
    }
}
