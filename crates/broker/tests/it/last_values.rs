//! Queues that keep the last value of each key. A ready value is replaced, one that a consumer
//! holds is not, and a crash leaves one of two values, never both and never neither.

use std::collections::BTreeMap;

use testkit::script::Script;
use testkit::sim_disk::{Fault, Random, SimDisk};

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn a_newer_value_takes_the_place_of_one_that_waits() {
    check(&[
        ("a queue q durable x-last-value-key=stock; confirm", "0 0"),
        (
            "a publish - q a1 persistent stock=a; publish - q b1 persistent stock=b; publish - q a2 persistent stock=a",
            "+3",
        ),
        ("a publish - q n1 persistent; publish - q b2 stock=b; publish - q n2", "+6"),
        ("* counts q", "4 0"),
        ("* counts q superseded", "2"),
        // It is at the end now, like every new message.
        ("* browse q", "a2 n1 b2 n2"),
        ("b consume q c no-ack", "c:1=a2, c:2=n1, c:3=b2, c:4=n2"),
        ("a publish - q a3 stock=a; publish - q a4 stock=a", "+8"),
        ("b", "c:5=a3, c:6=a4"),
        ("* counts q superseded", "2"),
    ]);
}

#[test]
fn keys_are_alike_by_their_text_and_what_has_none_is_ordinary() {
    let long = "k".repeat(256);
    check(&[
        ("a queue q x-last-value-key=k; queue r x-last-value-key=amqp.routing_key; queue s", "0 0, 0 0, 0 0"),
        ("a publish - q 1 k=7; publish - q 2 k=true; publish - q 3 k=A; publish - q 4 k=a", ""),
        ("a publish - q 5 k=7; publish - q 6 k=true; publish - q 7 k=; publish - q 8 k=", ""),
        (&format!("a publish - q 9 k={long}; publish - q 10 k={long}; publish - q 11 K=a"), ""),
        ("* browse q", "3 4 5 6 7 8 9 10 11"),
        // Every name of a selector can be the key.
        ("a bind amq.topic # r; publish amq.topic x 1; publish amq.topic y 2; publish amq.topic x 3", ""),
        ("* browse r", "2 3"),
        (
            "a queue t x-last-value-key=",
            "406 invalid arg 'x-last-value-key' for queue 't' in vhost '/': expected the name of a header",
        ),
        (
            "a queue t x-last-value-key=1",
            "406 invalid arg 'x-last-value-key' for queue 't' in vhost '/': {unacceptable_type,long}",
        ),
        (
            "a queue q x-last-value-key=other",
            "406 inequivalent arg 'x-last-value-key' for queue 'q' in vhost '/': received 'other' but current is 'k'",
        ),
    ]);
}

/// The order of a random run, in which the model took them one by one.
#[test]
fn in_a_transaction_what_is_accepted_goes_before_what_is_given_back_returns() {
    check(&[
        ("a queue q durable x-last-value-key=k; prefetch 2; publish - q 1 persistent k=a; consume q c", "0 0, c:1=1"),
        ("a publish - q 2 persistent k=a", "c:2=2"),
        ("a begin; tx-nack 1; tx-ack 2; commit", "committed, c:3=1!"),
        ("* counts q superseded", "0"),
    ]);
}

#[test]
fn what_a_consumer_holds_stays_with_it_and_does_not_come_back_past_a_newer_one() {
    check(&[
        ("a queue q durable x-last-value-key=k x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0"),
        ("a queue dead; prefetch 1; consume q c", "0 0"),
        ("a publish - q 1 persistent k=a", "c:1=1"),
        ("a publish - q 2 persistent k=a; publish - q 3 persistent k=b", ""),
        ("* counts q", "2 1"),
        ("a nack 1", "c:2=2"),
        ("* counts q superseded", "1"),
        // No newer one: it comes back to its place.
        ("a nack 2", "c:3=2!"),
        ("b publish - q 4 persistent k=a; get q", ":1=3 left 1"),
        ("a ack 3", "c:4=4"),
        // Rejected and held: each is on its own way.
        ("b publish - q 5 k=a; reject 1", ""),
        ("a reject 4", "c:5=5"),
        ("* browse dead", "3 4"),
        ("b publish - q 6 k=a", ""),
        ("a end", ""),
        ("* counts q", "1 0"),
        ("* browse q", "6"),
        ("* counts q superseded", "2"),
        ("* browse dead", "3 4"),
    ]);
}

#[test]
fn an_old_value_that_comes_back_gives_way_to_the_next() {
    check(&[
        ("a queue q x-last-value-key=k; publish - q 1 k=a; get q", "0 0, :1=1 left 0"),
        ("b publish - q 2 k=a; get q no-ack", ":1=2 left 0"),
        // No other message has this key any more.
        ("a nack 1", ""),
        ("* browse q", "1"),
        ("a publish - q 3 k=a", ""),
        ("* browse q", "3"),
        ("a purge q; publish - q 4 k=a; publish - q 5 k=a", "1"),
        ("* browse q", "5"),
    ]);
}

#[test]
fn limits_ages_priorities_and_transactions_go_along() {
    check(&[
        ("a queue q durable x-last-value-key=k x-max-length=2 x-overflow=reject-publish; confirm", "0 0"),
        ("a publish - q 1 persistent k=a; publish - q 2 persistent k=b; publish - q 3 persistent k=c", "+2, -3"),
        // A full queue takes a message that supersedes another.
        ("a publish - q 4 persistent k=a; publish - q 5 persistent", "+4, -5"),
        ("* browse q", "2 4"),
        ("a queue p durable x-last-value-key=k x-max-priority=5", "0 0"),
        (
            "a publish - p 1 persistent priority=4 k=a; publish - p 2 persistent priority=1 k=a; publish - p 3 priority=2",
            "+8",
        ),
        ("* browse p", "3 2"),
        ("a publish - p 4 priority=3 k=a ttl=100", "+9"),
        ("* tick 100", ""),
        ("* browse p", "3"),
        ("* counts p superseded", "2"),
        // A transaction counts from its end.
        (
            "b queue t durable x-last-value-key=k; publish - t 1 persistent k=a; begin; tx-publish - t 2 persistent k=a",
            "0 0",
        ),
        ("* browse t", "1"),
        ("b tx-publish - t 3 persistent k=a; tx-publish - t 4 persistent k=b", ""),
        ("b commit", "committed"),
        ("* browse t", "3 4"),
        ("b begin; tx-publish - t 5 persistent k=a; rollback", ""),
        ("* browse t", "3 4"),
        (
            "b queue r x-last-value-key=k x-delayed-retry-type=all x-delayed-retry-min=50; publish - r 1 k=a; get r",
            "0 0, :1=1 left 0",
        ),
        ("b nack 1; publish - r 2 k=a", ""),
        ("* tick 50", ""),
        ("* browse r", "2"),
    ]);
}

#[test]
fn delayed_and_dead_messages_count_when_they_arrive() {
    check(&[
        (
            "a queue q durable x-last-value-key=k; queue d durable x-dead-letter-exchange= x-dead-letter-routing-key=q",
            "0 0, 0 0",
        ),
        ("a publish - q 1 persistent k=a x-opt-delivery-delay=100; publish - q 2 persistent k=a", ""),
        ("* browse q", "2"),
        ("* tick 100", ""),
        ("* background", ""),
        ("* flush", ""),
        ("* browse q", "1"),
        ("a publish - d 3 persistent k=a; get d; reject 1", ":1=3 left 0"),
        ("* browse q", "3"),
    ]);
}

#[test]
fn browsers_and_selectors_see_what_is_there() {
    check(&[
        (
            "a queue q durable x-last-value-key=k; publish - q 1 persistent k=a n=1; publish - q 2 persistent k=b n=2",
            "0 0",
        ),
        ("a prefetch 1; consume q s x-selector=n>=2", "s:1=2"),
        ("a publish - q 3 persistent k=a n=3; publish - q 4 persistent k=a n=4", ""),
        ("b consume q w x-browse=true no-ack", "w:1=4, cancelled w"),
        ("a ack 1", "s:2=4"),
    ]);
}

#[test]
fn only_the_newest_survives() {
    check_each(
        ALL,
        &[
            ("a queue q durable x-last-value-key=k; queue t durable x-last-value-key=k; confirm", "0 0, 0 0"),
            ("a publish - q 1 persistent k=a; publish - q 2 persistent k=b; publish - q 3 persistent k=a", "+3"),
            (
                "a get q; publish - q 4 persistent k=b; publish - q 5 persistent; publish - q 6 persistent",
                ":1=2 left 1, +6",
            ),
            ("a begin; tx-publish - t 1 persistent k=a; commit", "committed"),
            ("* END", ""),
            // A held message would have come back late.
            ("* browse q", "3 4 5 6"),
            ("* browse t", "1"),
            ("a publish - q 7 persistent k=a; publish - q 8 persistent k=b; publish - t 2 persistent k=a", ""),
            ("* browse q", "5 6 7 8"),
            ("* browse t", "2"),
            ("* background", ""),
            ("* END", ""),
            ("* browse q", "5 6 7 8"),
            ("a get q; get q; get q; get q", ":1=5 left 3, :2=6 left 2, :3=7 left 1, :4=8 left 0"),
            ("a ack 4 multiple; publish - q 9 persistent k=a", ""),
            ("* END", ""),
            ("* browse q", "9"),
        ],
    );
}

#[test]
fn keys_are_known_when_the_log_has_come_round() {
    for (seed, end) in ALL.iter().enumerate() {
        let disk = SimDisk::new(seed as u64, 64 << 20);
        let mut script = Script::stepped(&disk, 1 << 20);
        script.check(&[("a queue q durable x-last-value-key=k; queue f durable", "0 0, 0 0")]);
        for key in 0..8 {
            script.say(&format!("a publish - q first{key} persistent k={key} size=2000"));
        }
        for round in 0..4 {
            for _ in 0..60 {
                let said =
                    script.say("a publish - f x persistent size=8000; publish - q often persistent k=o size=3000");
                assert_eq!(said, "");
                script.check(&[("* background", ""), ("* flush", "")]);
                script.say("a purge f");
            }
            script.check(&[(&format!("* {end}"), ""), ("* counts q", "9 0")]);
            script.say(&format!("a publish - q second persistent k={round}"));
            script.check(&[("* counts q", "9 0"), ("* counts q superseded", "1")]);
        }
        let said = script.say("* browse q");
        assert_eq!(said.matches("second").count(), 4, "{end}: {said}");
    }
}

/// A start had found a page in the log, and the page forgot the places of its values when their
/// file left. They stayed beside newer ones.
#[test]
fn a_value_that_a_start_found_in_the_log_gives_way_when_its_file_has_left() {
    for (seed, end) in ALL.iter().enumerate() {
        let disk = SimDisk::new(seed as u64, 64 << 20);
        let mut script = Script::stepped(&disk, 1 << 20);
        script.check(&[
            ("a queue q durable x-last-value-key=k; queue f durable; publish - q 1 persistent k=a", "0 0, 0 0"),
            (&format!("* {end}"), ""),
        ]);
        for _ in 0..200 {
            script.check(&[
                ("a publish - f x persistent size=8000", ""),
                ("* background", ""),
                ("* flush", ""),
                ("a purge f", "1"),
            ]);
        }
        script.check(&[
            ("a publish - q 2 persistent k=a", ""),
            ("* browse q", "2"),
            ("* counts q superseded", "1"),
            (&format!("* {end}"), ""),
            ("* browse q", "2"),
        ]);
    }
}

/// The newer value was dying and had not moved yet when the broker ended. The start took it for the
/// last one, and so settled the older one, which had come back. Then the newer one moved on, and
/// none was left.
#[test]
fn a_value_that_came_back_outlives_a_newer_one_that_is_to_die() {
    for end in ["crash", "cut"] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut script = Script::stepped(&disk, 1 << 20);
        script.check(&[
            ("a queue q durable x-last-value-key=k x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0"),
            ("a queue dead durable; queue f durable; queue n", "0 0, 0 0, 0 0"),
            ("a publish - q 1 persistent k=a; get q", ":1=1 left 0"),
            ("a publish - q 2 persistent k=a; get q", ":2=2 left 0"),
            ("b consume n c", ""),
        ]);
        // In a full log a death is decided, and the move waits.
        let parked = (0..500).any(|_| {
            script.say("b publish - f x persistent size=4000");
            script.say("b parked").starts_with("true")
        });
        assert!(parked, "{:?}", script.broker().broker.overview().journal);
        script.check(&[
            ("* hold", ""),
            ("a reject 2", ""),
            ("a nack 1", ""),
            ("* browse q", "1"),
            ("* browse dead", ""),
        ]);
        assert!(script.broker().try_flush());
        script.say(&format!("* {end}"));
        script.say("a purge f");
        script.check(&[("* background", ""), ("* tick 50", ""), ("* browse dead", "2"), ("* browse q", "1")]);
    }
}

/// Publishes values of a few keys over a disk that loses power, at rest or in the middle of a
/// flush.
struct Crashing {
    random: Random,
    disk: SimDisk,
    script: Script,
    /// The durable value of each key.
    safe: BTreeMap<u64, u64>,
    /// The publishes since the last crash, by publish number.
    sent: Vec<(u64, u64)>,
    made: u64,
}

impl Crashing {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut script = Script::stepped(&disk, 2 << 20);
        script.check(&[("a queue q durable x-last-value-key=k", "0 0")]);
        Self { random: Random::new(seed), disk, script, safe: BTreeMap::new(), sent: Vec::new(), made: 0 }
    }

    fn say(&mut self, line: &str) {
        let said = self.script.say(line);
        for up_to in said.split(", ").filter_map(|word| word.strip_prefix('+')) {
            for (key, value) in &self.sent[..up_to.parse().unwrap()] {
                self.safe.insert(*key, *value.max(self.safe.get(key).unwrap_or(value)));
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0 => self.say("* hold"),
            1 => self.say("* release"),
            2 => self.say("a get q"),
            3 => self.say("a recover"),
            4 => assert!(self.script.broker().background(5)),
            _ => {
                let mut line = "a confirm".to_owned();
                let transaction = self.random.chance(20);
                for _ in 0..=self.random.below(3) {
                    self.made += 1;
                    let (key, value, size) = (self.random.below(5), self.made, self.random.below(3000));
                    self.sent.push((key, value));
                    line += &format!("; publish - q {value} persistent k={key} size={size}");
                }
                if transaction {
                    // No client is told which values are durable.
                    line += "; begin; tx-publish - q 0 persistent k=t; commit";
                }
                self.say(&line);
            }
        }
    }

    fn crash(&mut self) {
        if self.random.chance(60) {
            self.disk.fault(1 + self.random.below(5), Fault::Crash);
            for _ in 0..5 {
                if !self.script.broker().try_flush() || !self.script.broker().background(3) {
                    break;
                }
            }
        }
        self.script.say("* cut");
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let shown = self.script.say("* browse q");
        let values = shown.split(' ').map(|body| body.trim_end_matches('.')).filter(|body| !["", "0"].contains(body));
        for value in values.map(|body| body.parse::<u64>().unwrap()) {
            let sent = self.sent.iter().find(|(_, sent)| *sent == value).map(|(key, _)| *key);
            let key = sent.or_else(|| self.safe.iter().find(|(_, safe)| **safe == value).map(|(key, _)| *key));
            let before = found.insert(key.expect("it was sent since what is safe"), value);
            assert_eq!(before, None, "two values of one key: {shown}");
        }
        for (key, safe) in &self.safe {
            assert!(found.get(key) >= Some(safe), "{safe} of key {key} was confirmed: {shown}");
        }
        self.safe = found;
        self.sent.clear();
    }
}

#[test]
fn a_crash_leaves_one_value_of_each_key() {
    for seed in 0..150 {
        let mut world = Crashing::new(seed);
        for _ in 0..8 {
            for _ in 0..30 {
                world.step();
            }
            world.crash();
        }
    }
}
