//! Message groups: each goes to one consumer, in its order, and to the next when that one has left
//! and has settled all of it.

use std::collections::BTreeMap;

use testkit::script::Script;
use testkit::sim_disk::{Random, SimDisk};

use crate::check;

#[test]
fn a_group_goes_to_one_consumer_and_what_has_none_to_all_in_turn() {
    check(&[
        ("a queue q durable x-message-groups=true; consume q c", "0 0"),
        ("b consume q d", ""),
        (
            "w publish - q 1 JMSXGroupID=x; publish - q 2 JMSXGroupID=y; publish - q 3 JMSXGroupID=x; publish - q 4 x-group-id=y",
            "",
        ),
        ("w publish - q 5 JMSXGroupID=7; publish - q 6 x-group-id=7; publish - q 7 JMSXGroupID=x", ""),
        ("a", "c:1=1, c:2=3, c:3=5, c:4=6, c:5=7"),
        ("b", "d:1=2, d:2=4"),
        ("w publish - q 8; publish - q 9; publish - q 10 JMSXGroupID=; publish - q 11", ""),
        ("a", "c:6=8, c:7=10"),
        ("b", "d:3=9, d:4=11"),
        // It stays there while its consumer is there, also when no message of it is out.
        ("b ack 4 multiple; publish - q 12 persistent JMSXGroupID=y", "d:5=12"),
        ("a ack 7 multiple", ""),
        ("* counts q", "0 1"),
    ]);
}

#[test]
fn a_consumer_without_credit_keeps_its_groups_and_holds_up_no_other() {
    check(&[
        ("a queue q durable x-message-groups=true; prefetch 1; consume q c", "0 0"),
        ("b prefetch 3; consume q d", ""),
        ("w publish - q 1 JMSXGroupID=x; publish - q 2 persistent JMSXGroupID=x; publish - q 3 JMSXGroupID=y", ""),
        ("w publish - q 4 JMSXGroupID=x; publish - q 5 persistent; publish - q 6 JMSXGroupID=y", ""),
        ("a", "c:1=1"),
        ("b", "d:1=3, d:2=5, d:3=6"),
        ("* counts q", "2 4"),
        // A returned message is first in its group again.
        ("a nack 1", "c:2=1!"),
        ("a ack 2", "c:3=2"),
        ("a ack 3", "c:4=4"),
    ]);
}

#[test]
fn what_the_last_consumer_holds_comes_before_the_group_goes_on() {
    check(&[
        ("a queue q durable x-message-groups=true; prefetch 2; consume q c", "0 0"),
        ("b queue r; consume q d", "0 0"),
        (
            "w publish - q 1 persistent JMSXGroupID=x; publish - q 2 JMSXGroupID=x; publish - q 3 persistent JMSXGroupID=x",
            "",
        ),
        ("a", "c:1=1, c:2=2"),
        // It has stopped, and may still settle its deliveries.
        ("a cancel c", "cancelled"),
        ("b", ""),
        ("a ack 1", ""),
        ("b", ""),
        ("w publish - q 4 JMSXGroupID=z", ""),
        ("b", "d:1=4"),
        ("a nack 2", ""),
        ("b", "d:2=2!, d:3=3"),
        ("a prefetch 0; consume q c; publish - q 5 JMSXGroupID=n", "c:3=5"),
        ("a publish - q 6 JMSXGroupID=n; publish - q 7 JMSXGroupID=x", "c:4=6"),
        ("b", "d:4=7"),
        // All its deliveries are back before another message of the group goes out.
        ("b close", ""),
        ("a", "c:5=2!, c:6=3!, c:7=4!, c:8=7!"),
    ]);
}

#[test]
fn a_group_ends_with_a_negative_number_in_its_sequence() {
    check(&[
        ("a queue q x-message-groups=true; prefetch 3; consume q c", "0 0"),
        ("w publish - q 1 JMSXGroupID=x; publish - q 2 JMSXGroupID=u JMSXGroupSeq=1", ""),
        ("b consume q d", ""),
        ("w publish - q 3 JMSXGroupID=x JMSXGroupSeq=-1; publish - q 4 JMSXGroupID=x; publish - q 5 JMSXGroupID=u", ""),
        // The second one has fewer groups now, and the first one no credit.
        ("a", "c:1=1, c:2=2, c:3=3"),
        ("b", "d:1=4"),
        ("a ack 3 multiple", "c:4=5"),
    ]);
}

#[test]
fn whoever_comes_gets_a_share_where_that_is_asked_for() {
    for rebalance in [false, true] {
        let mut script = Script::memory();
        let publish = "w publish - q x JMSXGroupID=x; publish - q y JMSXGroupID=y; publish - q z JMSXGroupID=z";
        script.check(&[
            (&format!("a queue q x-message-groups=true x-group-rebalance={rebalance}; consume q c"), "0 0"),
            (publish, ""),
            ("a", "c:1=x, c:2=y, c:3=z"),
            ("a ack 2 multiple", ""),
            ("b consume q d", ""),
            (publish, ""),
        ]);
        let (stayed, moved) = (script.say("a"), script.say("b"));
        assert_eq!(stayed.matches("c:").count(), if rebalance { 2 } else { 3 }, "{stayed}");
        assert_eq!(moved.matches("d:").count(), usize::from(rebalance), "{moved}");
        assert!(stayed.contains("=z"), "something of it was out: {stayed}");
    }
}

#[test]
fn selectors_browsers_and_fetches_go_their_own_ways() {
    check(&[
        ("a queue q x-message-groups=true; consume q c x-selector=n=1", "0 0"),
        (
            "w publish - q 1 JMSXGroupID=x n=1; publish - q 2 JMSXGroupID=x n=2; publish - q 3 n=1; publish - q 4 n=2",
            "",
        ),
        ("a", "c:1=1, c:2=3"),
        ("b consume q w x-browse=true no-ack", "w:1=2, w:2=4, cancelled w"),
        ("b get q; get q", ":3=2 left 1, :4=4 left 0"),
        ("a ack 2 multiple; close", ""),
        ("b nack 4 multiple; consume q d", "d:5=2!, d:6=4!"),
    ]);
}

#[test]
fn a_queue_with_a_single_active_consumer_has_no_groups() {
    let why = "the queue has a single active consumer, which takes whatever comes";
    check(&[
        (
            "a queue q x-message-groups=true x-single-active-consumer=true",
            &format!("406 invalid arg 'x-message-groups' for queue 'q' in vhost '/': {why}"),
        ),
        ("a queue q x-message-groups=false x-single-active-consumer=true; consume q c", "0 0"),
    ]);
}

/// The holder of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    peer: usize,
    tag: u64,
    /// Its consumer has been cancelled since.
    cancelled: bool,
}

/// One consumer at most for each peer, random settlements, and the rules of each group.
struct Run {
    random: Random,
    script: Script,
    /// The group of each published message; 0 for none.
    groups: Vec<u64>,
    /// The unsettled deliveries of consumers.
    held: BTreeMap<u64, Held>,
    done: Vec<bool>,
    /// Prefetch of the peers that consume.
    prefetch: [Option<u64>; 3],
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut script = if seed.is_multiple_of(2) {
            Script::memory()
        } else {
            let disk = SimDisk::new(seed, 64 << 20);
            let mut setup = testkit::broker::Setup::stepped(&disk, 8 << 20);
            if seed % 4 == 3 {
                setup.settings.memory_budget = 100;
            }
            Script::open(setup, Some(disk))
        };
        let buckets = [1024, 3, 1][(seed % 3) as usize];
        let rebalance = seed % 5 < 2;
        let line =
            format!("w queue q durable x-message-groups=true x-group-buckets={buckets} x-group-rebalance={rebalance}");
        assert_eq!(script.say(&line), "0 0");
        Self {
            random: Random::new(seed),
            script,
            groups: Vec::new(),
            held: BTreeMap::new(),
            done: Vec::new(),
            prefetch: [None; 3],
            log: Vec::new(),
        }
    }

    fn say(&mut self, line: &str) -> String {
        self.log.push(line.to_owned());
        self.script.say(line)
    }

    /// Takes the events of a peer. Each delivery must be the next of its group for this peer.
    fn hear(&mut self, peer: usize, said: &str) {
        for word in said.split(", ").filter(|word| word.starts_with("c:")) {
            let (tag, body) = word[2..].split_once('=').unwrap();
            let message: u64 = body.trim_end_matches('!').parse().unwrap();
            let group = self.groups[message as usize];
            if group > 0 {
                let others = (0..self.groups.len() as u64).filter(|other| self.groups[*other as usize] == group);
                for other in others {
                    let (held, done) = (self.held.get(&other), self.done[other as usize]);
                    let with_it = held.is_none_or(|held| held.peer == peer && !held.cancelled);
                    assert!(with_it, "{other} of the group of {message} is with {held:?}");
                    assert!(other >= message || done || held.is_some(), "{other} waits before {message}");
                }
            }
            let before = self.held.insert(message, Held { peer, tag: tag.parse().unwrap(), cancelled: false });
            assert_eq!(before, None, "{message} is delivered twice");
        }
    }

    /// An operation of one peer may bring messages to another, also by way of the disk.
    fn hear_all(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            for peer in 0..3 {
                let said = self.script.say(&format!("p{peer}"));
                quiet = if said.contains("c:") { 0 } else { quiet + 1 };
                self.hear(peer, &said);
            }
        }
    }

    fn step(&mut self) {
        let peer = self.random.below(3) as usize;
        match self.random.below(12) {
            0..4 => {
                let mut line = "w".to_owned();
                for at in 0..=self.random.below(5) {
                    let (message, group) = (self.groups.len(), self.random.below(5));
                    let header = if group > 0 { format!("JMSXGroupID=g{group}") } else { String::new() };
                    let separator = if at == 0 { "" } else { ";" };
                    let kind = if self.random.chance(70) { "persistent" } else { "" };
                    line += &format!("{separator} publish - q {message} {kind} {header}");
                    self.groups.push(group);
                    self.done.push(false);
                }
                self.say(&line);
            }
            4..10 => self.settle(peer),
            10 => self.come_or_go(peer),
            _ => {
                // The session ends, and its deliveries come back.
                self.held.retain(|_, held| held.peer != peer);
                self.prefetch[peer] = None;
                self.say(&format!("p{peer} end"));
            }
        }
        self.hear_all();
        self.check_credit();
    }

    fn settle(&mut self, peer: usize) {
        let of_peer: Vec<_> = self.held.iter().filter(|(_, held)| held.peer == peer).collect();
        let chosen = of_peer.get(self.random.below(of_peer.len().max(1) as u64) as usize);
        let Some((message, tag)) = chosen.map(|(message, held)| (**message, held.tag)) else { return };
        self.held.remove(&message);
        let verb = if self.random.chance(75) { "ack" } else { "nack" };
        self.done[message as usize] = verb == "ack";
        let said = self.say(&format!("p{peer} {verb} {tag}"));
        self.hear(peer, &said);
    }

    fn come_or_go(&mut self, peer: usize) {
        if self.prefetch[peer].take().is_some() {
            let said = self.say(&format!("p{peer} cancel c"));
            self.hear(peer, &said);
            self.held.values_mut().filter(|held| held.peer == peer).for_each(|held| held.cancelled = true);
        } else {
            let prefetch = 1 + self.random.below(4);
            self.prefetch[peer] = Some(prefetch);
            let said = self.say(&format!("p{peer} prefetch {prefetch}; consume q c"));
            self.hear(peer, &said);
        }
    }

    /// No message waits that a consumer with credit should get. The deliveries of a cancelled
    /// consumer count for no other consumer.
    fn check_credit(&mut self) {
        let full = |run: &Self, peer: usize| {
            let held = run.held.values().filter(|held| held.peer == peer && !held.cancelled).count() as u64;
            run.prefetch[peer].is_none_or(|prefetch| held >= prefetch)
        };
        let waits = |run: &Self, message: u64| !run.done[message as usize] && !run.held.contains_key(&message);
        for message in (0..self.groups.len() as u64).filter(|message| waits(self, *message)) {
            let group = self.groups[message as usize];
            let holder = self.held.iter().find(|(other, _)| group > 0 && self.groups[**other as usize] == group);
            match holder {
                Some((_, held)) if held.cancelled => {}
                Some((_, held)) => assert!(full(self, held.peer), "{message} waits for {}", held.peer),
                None if group == 0 => assert!((0..3).all(|peer| full(self, peer)), "{message} waits"),
                None => {}
            }
        }
    }

    /// Everything is delivered in the end.
    fn finish(&mut self) {
        for peer in 0..3 {
            if self.prefetch[peer].is_none() {
                self.come_or_go(peer);
            }
        }
        for _ in 0..4 * self.groups.len() {
            self.hear_all();
            let Some((message, Held { peer, tag, .. })) = self.held.pop_first() else { break };
            self.done[message as usize] = true;
            let said = self.say(&format!("p{peer} ack {tag}"));
            self.hear(peer, &said);
        }
        assert!(self.done.iter().all(|done| *done), "{:?}", self.script.say("* counts q"));
    }
}

#[test]
fn groups_stay_together_and_in_order() {
    for seed in 0..200 {
        let mut run = Run::new(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..150).for_each(|_| run.step());
            run.finish();
        }));
        assert!(outcome.is_ok(), "seed {seed}; its last steps: {:#?}", &run.log[run.log.len().saturating_sub(30)..]);
    }
}
