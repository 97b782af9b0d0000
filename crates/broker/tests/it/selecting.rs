//! Consumers with selectors, and browsers: their messages, the order of these, and which of them
//! holds up another.

use broker::{Consume, ConsumerArguments, Outcome, Publish, SelectorReport, Settling, Tags, Value};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::{check, durable, durable_with, message};

#[test]
fn a_selector_takes_what_it_is_true_of_and_leaves_the_rest() {
    check(&[
        ("a queue q durable; consume q red x-selector=color='red'", "0 0"),
        (
            "b publish - q 1 persistent color=red; publish - q 2 persistent color=blue; publish - q 3 persistent; \
             publish - q 4 persistent color=red",
            "",
        ),
        ("a", "red:1=1, red:2=4"),
        ("* counts q", "2 2"),
        ("b consume q all", "all:1=2, all:2=3"),
        ("a ack 1; ack 2", ""),
        ("* counts q", "0 2"),
        ("a passive q", "0 2"),
    ]);
}

#[test]
fn a_consumer_may_leave_out_what_its_own_connection_publishes() {
    check(&[
        ("a queue q durable; queue r durable", "0 0, 0 0"),
        // What was published before anyone asked has no publisher.
        ("a publish - q 1 persistent", ""),
        ("a consume q two no-local x-selector=n=2; consume q own no-local", "own:1=1"),
        ("a publish - q 2 persistent; publish - q 3 n=2", ""),
        ("b publish - q 4 persistent", ""),
        ("a", "own:2=4"),
        ("b publish - q 5 n=2", ""),
        ("a", "two:3=5"),
        ("* counts q", "2 3"),
        ("b consume q other no-local", "other:1=2, other:2=3"),
        // What comes back is looked at again.
        ("b nack 1", "other:3=2!"),
        ("a nack 2", "own:4=4!"),
        // A subscription drops what its consumer does not get.
        ("a subscribe s r + durable; consume subscription:s alone no-local", ""),
        ("a publish - r 6 persistent", ""),
        ("* counts r", "0 0"),
    ]);
}

#[test]
fn the_publisher_of_a_dead_letter_is_that_of_the_message_also_after_a_restart() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    for (queue, dead) in [("q", Some("dead")), ("dead", None)] {
        let mut spec = durable(queue);
        if let Some(dead) = dead {
            spec.arguments.set("x-dead-letter-exchange", Value::Text(String::new()));
            spec.arguments.set("x-dead-letter-routing-key", Value::Text(dead.to_owned()));
        }
        let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
        peer.client.declare_queue(&spec, broker.now()).expect("it is new");
    }
    let own = |queue: &str| Consume { source: queue.into(), no_local: true, ..Consume::default() };
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let session = peer.session(1);
    peer.consume(&broker, 1, own("dead"));
    peer.client.publish(session, message("", "q", b"1")).expect("it is taken");
    peer.turn(&broker);
    peer.consume(&broker, 1, Consume { source: "q".into(), ..Consume::default() });
    assert_eq!(peer.turn(&broker).len(), 1);
    peer.client.settle(session, Tags::One(1), &Outcome::REJECTED).expect("it is held");
    peer.turn(&broker);
    assert!(peer.turn(&broker).is_empty(), "its own dead letter is left out");
    drop(peer);
    broker.flush();
    let setup = broker.stop();
    setup.clock.advance(1);
    broker = TestBroker::open(setup);
    // Numbers of connections begin again at a start, and identities do not.
    let mut peers: Vec<Peer> = (0..8).map(|_| Peer::attach(&broker, "guest").expect("it may attach")).collect();
    for peer in &mut peers {
        peer.session(1);
        peer.consume(&broker, 1, own("dead"));
    }
    let come: usize = peers.iter_mut().map(|peer| peer.turn(&broker).len()).sum();
    assert_eq!(come, 1, "its publisher has gone");
}

#[test]
fn what_waits_is_looked_through_when_a_consumer_comes() {
    check(&[
        ("a queue q durable", "0 0"),
        ("a publish - q 1 n=1; publish - q 2 persistent n=2; publish - q 3 n=3; publish - q 4 persistent n=4", ""),
        ("a consume q big x-selector=n>2", "big:1=3, big:2=4"),
        ("a consume q one x-selector=n<2", "one:3=1"),
        ("a get q", ":4=2 left 0"),
    ]);
}

#[test]
fn who_asks_for_some_goes_before_who_takes_all_and_holds_up_nobody() {
    check(&[
        ("a queue q; prefetch 1; consume q some x-selector=n>1", "0 0"),
        ("b consume q all", ""),
        ("c publish - q 1 n=1; publish - q 2 n=2; publish - q 3 n=3; publish - q 4 n=4", ""),
        // Without credit a selector holds nothing back.
        ("a", "some:1=2"),
        ("b", "all:1=1, all:2=3, all:3=4"),
        ("a ack 1", ""),
        ("c publish - q 5 n=5", ""),
        ("a", "some:2=5"),
    ]);
}

#[test]
fn consumers_with_the_same_selector_take_turns_by_priority() {
    check(&[
        ("a queue q; consume q a1 x-selector=n>1; consume q a2 x-selector=n>1", "0 0"),
        ("b prefetch 1; consume q high x-selector=n>1 x-priority=1", ""),
        ("c publish - q 1 n=2; publish - q 2 n=3; publish - q 3 n=4; publish - q 4 n=1", ""),
        ("b", "high:1=1"),
        ("a", "a1:1=2, a2:2=3"),
        ("a cancel a1", "cancelled"),
        ("c publish - q 5 n=5; publish - q 6 n=6", ""),
        ("a", "a2:3=5, a2:4=6"),
    ]);
}

#[test]
fn what_comes_back_is_seen_again_at_its_place() {
    check(&[
        ("a queue q durable; prefetch 2", "0 0"),
        ("a publish - q 1 persistent n=1; publish - q 2 persistent n=2; publish - q 3 persistent n=2", ""),
        ("a consume q all", "all:1=1, all:2=2"),
        ("a consume q two x-selector=n=2", "two:3=3"),
        // It is behind the cursor of the selector by now.
        ("a nack 2", "two:4=2!"),
        ("a nack 1", "all:5=1!"),
        ("a ack 3; ack 4", ""),
        ("b publish - q 4 n=2", ""),
        ("a", "two:6=4"),
    ]);
}

#[test]
fn a_selector_sees_that_a_message_was_delivered_before() {
    check(&[
        ("a queue q; consume q again x-selector=JMSRedelivered", "0 0"),
        ("b publish - q 1; get q", ":1=1 left 0"),
        ("a", ""),
        ("b nack 1", ""),
        ("a", "again:1=1!"),
    ]);
}

#[test]
fn a_message_dies_of_age_wherever_a_selector_meets_it() {
    check(&[
        ("a queue q", "0 0"),
        ("a publish - q 1 n=1; publish - q 2 n=2 ttl=100; publish - q 3 n=2", ""),
        ("* tick 200", ""),
        ("a consume q two x-selector=n=2", "two:1=3"),
        ("* counts q", "1 1"),
    ]);
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer_that_takes() {
    check(&[
        ("a queue q auto-delete; consume q look no-ack x-browse=true", "0 0, cancelled look"),
        ("* counts q", "0 0"),
        ("a consume q some x-selector=n=1; passive q", "0 1"),
        ("a cancel some", "cancelled"),
        ("* counts q", "none"),
    ]);
}

#[test]
fn an_exclusive_consumer_is_alone_whether_or_not_it_selects() {
    let refused = "403 queue 'q' in vhost '/' in exclusive use";
    check(&[
        ("a queue q; consume q some exclusive x-selector=n=1", "0 0"),
        ("b consume q all", refused),
        ("b consume q other x-selector=n=2", refused),
        ("b get q", "empty"),
        ("b consume q look no-ack x-browse=true", "cancelled look"),
        ("a cancel some; consume q some x-selector=n=1", "cancelled"),
        ("b consume q all exclusive", refused),
    ]);
}

#[test]
fn a_subscription_drops_what_its_selector_is_not_true_of() {
    check(&[
        ("a subscribe s q + durable x-selector=n>1; prefetch 1; consume subscription:s c", ""),
        ("b publish - q 1 persistent n=1; publish - q 2 n=2; publish - q 3 persistent n=1; publish - q 4 n=3", ""),
        ("a", "c:1=2"),
        ("a ack 1", "c:2=4"),
        ("* counts q", "0 1"),
        ("a nack 2", "c:3=4!"),
    ]);
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(&[
        ("a subscribe s q + durable x-selector=n>1; consume subscription:s c", ""),
        ("b publish - q 1 persistent n=1; publish - q 2 persistent n=1", ""),
        ("* cut", ""),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn a_browser_sees_what_there_is_and_takes_nothing() {
    check(&[
        ("a queue q durable; publish - q 1 persistent n=1; publish - q 2 n=2; publish - q 3 persistent n=3", "0 0"),
        ("b get q", ":1=1 left 2"),
        // A message that is out with a consumer is not shown.
        ("a consume q look no-ack x-browse=true", "look:1=2, look:2=3, cancelled look"),
        ("b nack 1", ""),
        ("a consume q look no-ack x-browse=true", "look:3=1!, look:4=2, look:5=3, cancelled look"),
        ("a consume q look no-ack x-browse=true x-selector=n<>2", "look:6=1!, look:7=3, cancelled look"),
        ("* counts q", "3 0"),
        ("a get q", ":8=1! left 2"),
        ("a get q", ":9=2 left 1"),
    ]);
}

#[test]
fn consumers_that_ask_for_nonsense_are_refused() {
    let invalid = |name: &str, why: &str| format!("406 invalid arg '{name}' for queue 'q' in vhost '/': {why}");
    let selector = |why: &str| invalid("x-selector", &format!("invalid selector at {why}"));
    check(&[
        ("a queue q", "0 0"),
        (
            "a consume q c x-selector=n>",
            &selector(
                "character 3: the selector ends; expected a property's name, a literal or an opening parenthesis",
            ),
        ),
        ("a consume q c x-selector=5", &invalid("x-selector", "expected a selector as text")),
        (
            "a consume q c x-browse=true",
            &invalid("x-browse", "a browser settles nothing: it consumes without settling"),
        ),
        ("a consume q c no-ack x-browse=1", &invalid("x-browse", "expected true or false")),
        ("a consume q c x-select=n>1", &invalid("x-select", "not implemented yet")),
        // A blank one selects everything.
        ("a consume q c x-selector=; consume q d no-ack x-browse=false", ""),
        ("b publish - q 1; publish - q 2", ""),
        ("a", "c:1=1, d:2=2"),
    ]);
}

#[test]
fn priorities_come_first_for_selectors_and_browsers_too() {
    check(&[
        ("a queue q x-max-priority=9", "0 0"),
        ("a publish - q 1 n=1; publish - q 2 n=1 priority=5; publish - q 3 n=2 priority=5; publish - q 4 n=1", ""),
        ("a consume q look no-ack x-browse=true", "look:1=2, look:2=3, look:3=1, look:4=4, cancelled look"),
        ("a prefetch 1; consume q one x-selector=n=1", "one:5=2"),
        ("a publish - q 5 n=1 priority=7", ""),
        ("a nack 5", "one:6=5"),
        ("a ack 6", "one:7=2!"),
        ("a ack 7", "one:8=1"),
        ("a ack 8", "one:9=4"),
    ]);
}

#[test]
fn transactions_and_selectors() {
    check(&[
        ("a queue q durable; consume q two x-selector=n=2", "0 0"),
        ("b begin; tx-publish - q 1 persistent n=1; tx-publish - q 2 persistent n=2", ""),
        ("c publish - q 3 persistent n=2", ""),
        ("a", "two:1=3"),
        ("b commit", "committed"),
        ("a", "two:2=2"),
        ("* counts q", "1 2"),
    ]);
}

/// A crash loses no message that a selector has passed over, and no delivered one comes back as
/// new.
#[test]
fn a_crash_with_selectors_keeps_what_is_there_and_tells_what_was_delivered() {
    for crash in ["* crash", "* cut"] {
        let disk = SimDisk::new(1, 64 << 20);
        Script::stepped(&disk, 8 << 20).check(&[
            ("a queue q durable", "0 0"),
            ("a publish - q 1 persistent n=1; publish - q 2 persistent n=2; publish - q 3 persistent n=2", ""),
            ("a consume q two x-selector=n=2", "two:1=2, two:2=3"),
            ("a ack 1", ""),
            (crash, ""),
            ("a consume q two x-selector=n=2", "two:1=3!"),
            ("a consume q one x-selector=n=1", "one:2=1!"),
            ("* counts q", "0 2"),
        ]);
    }
}

/// A queue over a disk, with next to no memory for its backlog.
struct Scene {
    broker: TestBroker,
    peer: Peer,
    peak: u64,
}

const BUDGET: u64 = 1 << 20;
const SLACK: u64 = 2 << 20;
const MANY: u64 = 60_000;

impl Scene {
    /// The backlog is in the log, or most of it in segments. Each message has its number `n`, and
    /// `rest`, its remainder by 1000.
    fn both(test: impl Fn(Scene)) {
        for ring in [64 << 20, 4 << 20] {
            let disk = SimDisk::new(1, 256 << 20);
            let mut setup = Setup::stepped(&disk, ring);
            setup.settings.memory_budget = BUDGET;
            let broker = TestBroker::open(setup);
            let peer = Peer::attach(&broker, "guest").unwrap();
            let mut scene = Self { broker, peer, peak: 0 };
            scene.peer.client.declare_queue(&durable("q"), scene.broker.now()).unwrap();
            scene.publish(0..MANY);
            println!("{} bytes at most while it was published", scene.peak);
            test(scene);
        }
    }

    /// Publishes, and returns the numbers of the deliveries meanwhile.
    fn publish(&mut self, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let mut seen = Vec::new();
        let session = self.peer.session(1);
        for number in numbers {
            let properties = format!("n={number}\nrest={}\n", number % 1000);
            let body = format!("{number:0100}");
            let publish = Publish { properties: properties.as_bytes(), ..message("", "q", body.as_bytes()) };
            self.peer.client.publish(session, publish).unwrap();
            if number % 500 == 499 {
                seen.extend(self.turn());
            }
        }
        seen.extend(self.turn());
        let number = |seen| match seen {
            Seen::Delivery(received) => received.body.parse().ok(),
            _ => None,
        };
        seen.into_iter().filter_map(number).collect()
    }

    fn turn(&mut self) -> Vec<Seen> {
        let seen = self.peer.turn(&self.broker);
        self.peak = self.peak.max(self.broker.broker.overview().memory.used);
        seen
    }

    fn consume(&mut self, tag: &str, prefetch: u32, settling: Settling, arguments: &[(&str, Value)]) {
        let no_ack = settling == Settling::Auto;
        let arguments = ConsumerArguments::parse(&durable_with("", arguments).arguments);
        let consume = Consume { source: "q".into(), tag: tag.into(), no_ack, arguments, ..Consume::default() };
        self.peer.consume(&self.broker, prefetch, consume);
    }

    fn selector(text: &str) -> (&'static str, Value) {
        ("x-selector", Value::Text(text.to_owned()))
    }

    /// Takes all deliveries, and accepts those of the consumer `accepts`, until there are no more.
    /// Returns numbers by consumer, and the cancelled tags.
    fn drain(&mut self, accepts: &str) -> (Vec<(String, u64)>, Vec<String>) {
        let session = self.peer.session(1);
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        loop {
            let seen = self.turn();
            if seen.is_empty() {
                return (all, ended);
            }
            for one in seen {
                match one {
                    Seen::Delivery(received) => {
                        if received.consumer == accepts {
                            self.peer.client.settle(session, Tags::One(received.tag), &Outcome::Accepted).unwrap();
                        }
                        all.push((received.consumer, received.body.parse().unwrap()));
                    }
                    Seen::Cancelled(_, tag) => ended.push(tag),
                    _ => {}
                }
            }
        }
    }

    fn report(&self) -> (u64, Vec<SelectorReport>) {
        let queue = self.broker.broker.queues().remove(0);
        (queue.ready, queue.selectors)
    }
}

#[test]
fn a_deep_backlog_is_looked_through_once_and_with_little_memory() {
    Scene::both(|mut scene| {
        scene.consume("c", 10, Settling::Manual, &[Scene::selector("rest = 7")]);
        let (all, _) = scene.drain("c");
        let expected: Vec<_> =
            (0..MANY).filter(|number| number % 1000 == 7).map(|number| ("c".to_owned(), number)).collect();
        assert_eq!(all, expected);
        let (ready, selectors) = scene.report();
        assert_eq!(ready, MANY - 60);
        let report = SelectorReport { selector: "rest = 7".into(), consumers: 1, looked_at: MANY, selected: 60 };
        assert_eq!(selectors, [report]);
        // Later arrivals are looked at once, and so are returned messages.
        assert_eq!(scene.publish(MANY..MANY + 1000), [MANY + 7]);
        assert_eq!(scene.report().1[0].looked_at, MANY + 1000);
        let session = scene.peer.session(1);
        scene.peer.client.recover(session, scene.broker.now());
        assert_eq!(scene.drain("c").0, [("c".to_owned(), MANY + 7)]);
        assert_eq!(scene.report().1[0].looked_at, MANY + 1001);
        assert!(scene.peak < BUDGET + SLACK, "{} bytes were in memory at most", scene.peak);
    });
}

/// One consumer looks for messages at the end. Others go on from the front meanwhile, and each gets
/// its own.
#[test]
fn consumers_of_a_deep_backlog_do_not_hold_each_other_up() {
    Scene::both(|mut scene| {
        scene.consume("last", 10, Settling::Manual, &[Scene::selector("n = 59999")]);
        scene.consume("odd", 10, Settling::Manual, &[Scene::selector("rest % 2 = 1 AND n < 2000")]);
        scene.consume("all", 10, Settling::Manual, &[]);
        let (all, _) = scene.drain("all");
        let of = |tag: &str| {
            all.iter().filter(|(consumer, _)| consumer == tag).map(|(_, number)| *number).collect::<Vec<_>>()
        };
        assert_eq!(of("last"), [59_999]);
        // Ten stay with the consumer that settles nothing.
        assert_eq!(of("odd").len(), 10);
        let (odd, rest) = (of("odd"), of("all"));
        assert!(odd.is_sorted() && odd.iter().all(|number| number % 2 == 1));
        assert!(rest.is_sorted(), "who takes all gets it in order");
        assert_eq!(rest.len() as u64, MANY - 11);
        assert!(scene.peak < BUDGET + SLACK, "{} bytes were in memory at most", scene.peak);
    });
}

#[test]
fn a_deep_backlog_is_browsed_whole_and_stays() {
    Scene::both(|mut scene| {
        scene.consume("look", 0, Settling::Auto, &[("x-browse", Value::Bool(true))]);
        let (all, ended) = scene.drain("");
        assert!(all.into_iter().map(|(_, number)| number).eq(0..MANY));
        assert_eq!(ended, ["look"]);
        scene.consume("look", 0, Settling::Auto, &[("x-browse", Value::Bool(true)), Scene::selector("rest = 999")]);
        let (all, ended) = scene.drain("");
        assert_eq!((all.len(), ended.len()), (60, 1));
        assert_eq!(scene.report(), (MANY, vec![]));
        assert!(scene.peak < BUDGET + SLACK, "{} bytes were in memory at most", scene.peak);
        // No message counts as delivered.
        scene.consume("all", 1, Settling::Manual, &[]);
        let first = scene.turn();
        assert!(matches!(&first[..], [Seen::Delivery(received)] if !received.redelivered), "{first:?}");
    });
}

/// A visit looked at as many entries whatever the cost of each look.
#[test]
fn a_visit_looks_at_few_messages_where_properties_and_selector_are_long() {
    let mut script = Script::memory();
    script.say("a queue q");
    for _ in 0..50 {
        script.say(&format!("a publish - q x h={}", "a".repeat(100_000)));
    }
    let looked = |script: &Script| script.broker().broker.queues()[0].selectors[0].looked_at;
    script.say("* hold");
    script.say(&format!("b mute; consume q c x-selector=h='{}'", "b".repeat(4000)));
    assert!(looked(&script) < 5, "{}", looked(&script));
    script.say("* release");
    assert_eq!(looked(&script), 50, "the pager goes on");
}
