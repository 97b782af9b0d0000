//! Declarations that the log, or memory, has no room for are refused with their reason. Everything
//! that makes room goes on.

use auth::User;
use broker::{BindingSpec, Consume, DeleteIf, DestinationName, ExchangeSpec, QueueSpec, Tags, Value, VhostSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::Peer;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::message;

/// A durable queue with a text of so many bytes among its arguments.
fn spec(name: &str, bytes: usize) -> QueueSpec {
    let mut spec = QueueSpec { name: name.to_owned(), durable: true, ..QueueSpec::default() };
    spec.arguments.set("note", Value::Text("x".repeat(bytes)));
    spec
}

/// Declares queues until one is refused: their number, and the text of the refusal.
fn declare_all(peer: &mut Peer, broker: &TestBroker, bytes: usize) -> (usize, String) {
    for number in 0..10_000 {
        if let Err(error) = peer.client.declare_queue(&spec(&format!("q{number}"), bytes), broker.now()) {
            return (number, error.text);
        }
        peer.turn(broker);
    }
    panic!("nothing is ever refused");
}

#[test]
fn arguments_of_one_declaration_are_bounded() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let told = |text: String| {
        assert!(text.contains("bytes, of 16384 that they may (limits.declaration_bytes)"), "{text}");
        text.split(" in vhost").next().unwrap_or_default().to_owned()
    };
    let large = spec("q", 120_000).arguments;
    let queue = QueueSpec { arguments: large.clone(), ..spec("q", 1) };
    let refused = peer.client.declare_queue(&queue, broker.now()).expect_err("too large").text;
    assert_eq!(told(refused), "arguments of queue 'q'");
    peer.client.declare_queue(&spec("q", 16_000), broker.now()).expect("it fits");
    let exchange =
        ExchangeSpec { name: "e".into(), kind: "direct".into(), arguments: large.clone(), ..ExchangeSpec::default() };
    let refused = peer.client.declare_exchange(&exchange, broker.now()).expect_err("too large").text;
    assert_eq!(told(refused), "arguments of exchange 'e'");
    let destination = DestinationName::Queue("q".into());
    let binding = BindingSpec { source: "amq.direct".into(), destination, key: "k".into(), arguments: large };
    let refused = peer.client.bind(&binding, broker.now()).expect_err("too large").text;
    assert_eq!(told(refused), "arguments of binding from exchange 'amq.direct'");
}

/// The limit for all declarations counts those that exist: a deleted one makes room.
#[test]
fn arguments_of_all_declarations_are_bounded_together() {
    let mut setup = Setup::memory();
    setup.settings.limits.declarations.all_bytes = Some(112_000);
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let (count, why) = declare_all(&mut peer, &broker, 10_000);
    assert_eq!(count, 9);
    assert!(why.contains("of 112000 that they may: delete some, or raise limits.declarations_bytes"), "{why}");
    peer.client.delete_queue("q0", DeleteIf::ALWAYS, broker.now()).expect("it goes");
    peer.client.declare_queue(&spec("r", 10_000), broker.now()).expect("there is room again");
    let mut binding = BindingSpec {
        source: "amq.direct".into(),
        destination: DestinationName::Queue("r".into()),
        key: "k".into(),
        arguments: spec("", 4_000).arguments,
    };
    peer.client.bind(&binding, broker.now()).expect("there is room");
    peer.client.bind(&binding, broker.now()).expect("it is there already");
    binding.key = "l".into();
    assert!(peer.client.bind(&binding, broker.now()).is_err(), "there is no room for another one");
    peer.client.unbind(&BindingSpec { key: "k".into(), ..binding.clone() }, broker.now()).expect("it goes");
    peer.client.bind(&binding, broker.now()).expect("there is room again");
}

/// One user could take all memory for declarations.
#[test]
fn one_user_leaves_memory_for_declarations_to_others() {
    let mut setup = Setup::memory();
    setup.settings.limits.declarations.all_bytes = Some(112_000);
    let broker = TestBroker::open(setup);
    broker.user("alice", ".*", ".*", ".*");
    assert!(broker.broker.authority().remove("guest"), "the user of the test kit");
    let mut alice = Peer::attach(&broker, "alice").expect("it may attach");
    let own = || broker.broker.user_declared_bytes("alice");
    let (count, why) = declare_all(&mut alice, &broker, 10_000);
    assert!(count == 9 && why.contains("raise limits.declarations_bytes"), "a lone user has all: {why}");
    for number in 0..count {
        alice.client.delete_queue(&format!("q{number}"), DeleteIf::ALWAYS, broker.now()).expect("it goes");
    }
    assert_eq!(own(), 0);
    broker.user("bob", ".*", ".*", ".*");
    let (count, why) = declare_all(&mut alice, &broker, 10_000);
    assert_eq!(count, 4);
    assert!(why.contains("what user 'alice' has declared takes ") && why.contains(" of 56000 that it may"), "{why}");
    assert!(why.ends_with("raise limits.user_declarations_bytes"), "{why}");
    // Bindings count for who makes them, also those of an exchange that is always there.
    let before = own();
    let mut binding = BindingSpec {
        source: "amq.topic".into(),
        destination: DestinationName::Queue("q0".into()),
        key: "k".into(),
        arguments: spec("", 1_000).arguments,
    };
    alice.client.bind(&binding, broker.now()).expect("there is room");
    assert!(own() >= before + 1_000);
    alice.client.unbind(&binding, broker.now()).expect("it goes");
    assert_eq!(own(), before);
    binding.arguments = spec("", 9_900).arguments;
    assert!(alice.client.bind(&binding, broker.now()).is_err(), "there is no room for it");
    // It counts for as long as it is there, whatever becomes of the connection.
    drop(alice);
    assert_eq!(own(), before);
    let mut alice = Peer::attach(&broker, "alice").expect("it may attach");
    assert!(alice.client.declare_queue(&spec("more", 10_000), broker.now()).is_err());
    let mut bob = Peer::attach(&broker, "bob").expect("it may attach");
    for name in ["b1", "b2", "b3", "b4"] {
        bob.client.declare_queue(&spec(name, 10_000), broker.now()).expect("there is room for others");
    }
    for number in 0..count {
        bob.client.delete_queue(&format!("q{number}"), DeleteIf::ALWAYS, broker.now()).expect("it goes");
    }
    assert_eq!(own(), 0, "also when others delete it");
    // An administrator may declare all.
    broker.user("boss", ".*", ".*", ".*");
    let change = |user: &mut User| {
        user.tags = auth::Tags::new(["administrator"]);
        Ok(())
    };
    broker.broker.change_user("boss", change).expect("it may be changed");
    let mut boss = Peer::attach(&broker, "boss").expect("it may attach");
    for name in ["g1", "g2", "g3", "g4", "g5"] {
        boss.client.declare_queue(&spec(name, 10_000), broker.now()).expect("there is room");
    }
}

/// After a start a user once had as much again: what it had declared before did not count.
#[test]
fn what_was_declared_counts_for_its_user_after_a_restart() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    broker.user("alice", ".*", ".*", ".*");
    let mut alice = Peer::attach(&broker, "alice").expect("it may attach");
    alice.client.declare_queue(&spec("q", 5_000), broker.now()).expect("it may declare");
    let exchange = ExchangeSpec { name: "e".into(), kind: "topic".into(), durable: true, ..ExchangeSpec::default() };
    alice.client.declare_exchange(&exchange, broker.now()).expect("it may declare");
    for destination in [DestinationName::Queue("q".into()), DestinationName::Exchange("e".into())] {
        let arguments = spec("", 1_000).arguments;
        let binding = BindingSpec { source: "amq.topic".into(), destination, key: "k".into(), arguments };
        alice.client.bind(&binding, broker.now()).expect("there is room");
    }
    let mut other = Peer::attach(&broker, "guest").expect("it may attach");
    other.client.declare_queue(&spec("other", 3_000), broker.now()).expect("it may declare");
    let before = ["alice", "guest"].map(|user| broker.broker.user_declared_bytes(user));
    assert!(before[0] > 7_000 && before[1] > 3_000, "{before:?}");
    drop((alice, other));
    // From what was logged at first, and from what a start has said again.
    for _ in 0..2 {
        broker.flush();
        broker = TestBroker::open(broker.stop());
        assert_eq!(["alice", "guest"].map(|user| broker.broker.user_declared_bytes(user)), before);
    }
    broker.user("alice", ".*", ".*", ".*");
    let mut alice = Peer::attach(&broker, "alice").expect("it may attach");
    alice.client.delete_queue("q", DeleteIf::ALWAYS, broker.now()).expect("it goes");
    alice.client.delete_exchange("e", DeleteIf::ALWAYS, broker.now()).expect("it goes");
    assert_eq!(broker.broker.user_declared_bytes("alice"), 0);
}

/// What stays for as long as a client or a declaration is there is refused by name beyond its share
/// of the memory limit, and raises no alarm. Administrators may still come, to make room.
#[test]
fn clients_and_declarations_share_what_may_stay_in_memory() {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 128 << 20;
    let broker = TestBroker::open(setup);
    broker.user("low", ".*", ".*", ".*");
    let raise = |user: &mut auth::User| {
        user.tags = auth::Tags::new(["administrator"]);
        Ok(())
    };
    broker.broker.change_user("guest", raise).expect("there is such a user");
    let kept = || broker.broker.overview().memory.clients;
    assert_eq!(kept(), 0);
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let session = peer.session(1);
    peer.client.declare_queue(&spec("q", 0), broker.now()).expect("it fits");
    let mut consume = |digits: &str, bytes: usize| {
        let tag = digits.repeat(bytes / digits.len());
        peer.client.consume(session, Consume { source: "q".into(), tag, ..Consume::default() }, broker.now())
    };
    let mut large = 0;
    let text = loop {
        match consume(&format!("{large:08}"), 8 << 20) {
            Ok(_) => large += 1,
            Err(error) => break error.text,
        }
    };
    assert_eq!(large, 7, "two quarters of the limit, less what else is there");
    assert!(text.starts_with("consumer refused: connections, consumers and declarations take "), "{text}");
    assert!(text.contains("of 67108864 that they may") && text.ends_with("or raise memory.limit"), "{text}");
    let mut small = 0;
    while consume(&format!("{small:08}s"), 9 << 10).is_ok() {
        small += 1;
    }
    // What is left is less than a connection.
    let refused = Peer::attach(&broker, "low").err().expect("there is no room").text;
    assert!(refused.starts_with("connection refused: connections, consumers"), "{refused}");
    let mut other = Peer::attach(&broker, "guest").expect("an administrator may");
    let refused = other.client.declare_queue(&spec("r", 0), broker.now()).expect_err("there is no room").text;
    assert!(refused.starts_with("cannot declare queue 'r': connections, consumers"), "{refused}");
    let refused = other.client.check_session("channel").expect_err("there is no room").text;
    assert!(refused.starts_with("channel refused: connections, consumers"), "{refused}");
    let refused = other.client.admit_publisher(0).expect_err("there is no room").text;
    assert!(refused.starts_with("publisher refused: connections, consumers"), "{refused}");
    assert!(!broker.broker.overview().alarms.memory);

    // The share follows the limit.
    broker.broker.set_memory_limit(256 << 20);
    other.client.check_session("channel").expect("there is room");
    let before = kept();
    let room = other.client.admit_publisher(100).expect("there is room");
    assert_eq!(kept(), before + 484);
    drop(room);
    assert_eq!(kept(), before);
    broker.broker.set_memory_limit(128 << 20);
    peer.client.cancel(session, &"00000000".repeat(1 << 20), broker.now(), &mut |_| ());
    drop(Peer::attach(&broker, "low").expect("there is room again"));
    drop((peer, other));
    assert_eq!(kept(), 0, "all of it is given back");
}

/// The log takes no more declarations than it could restate for one file. Deletes, fetches and
/// settlements go on, also after a stop, and a directory at its limit opens.
#[test]
fn durable_declarations_take_no_more_of_the_log_than_it_can_say_again() {
    let disk = SimDisk::new(1, 256 << 20);
    let mut broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    let mut refused_at = None;
    for _ in 0..2 {
        let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
        let session = peer.session(1);
        if refused_at.is_none() {
            peer.client.declare_queue(&spec("first", 0), broker.now()).expect("it fits");
            peer.client.publish(session, message("", "first", b"1")).expect("it is taken");
            peer.turn(&broker);
            let (count, why) = declare_all(&mut peer, &broker, 15_000);
            assert!(why.contains("of the log") && why.contains("raise journal.max_bytes"), "{why}");
            assert!((10..100).contains(&count), "{count}");
            refused_at = Some(count);
        }
        assert!(peer.client.declare_queue(&spec("more", 15_000), broker.now()).is_err());
        assert!(peer.client.declare_queue(&spec("q0", 15_000), broker.now()).is_ok(), "what is there is found");
        let transient = QueueSpec { durable: false, ..spec("transient", 15_000) };
        peer.client.declare_queue(&transient, broker.now()).expect("it is not logged");
        peer.client.delete_queue("transient", DeleteIf::ALWAYS, broker.now()).expect("it goes");
        peer.client.publish(session, message("", "first", b"2")).expect("it is taken");
        peer.consume(&broker, 1, Consume { source: "first".into(), ..Consume::default() });
        assert_eq!(peer.turn(&broker).len(), 1, "publishers and consumers go on");
        peer.client.settle(session, Tags::One(1), &broker::Outcome::Accepted).expect("it is held");
        peer.turn(&broker);
        drop(peer);
        broker.flush();
        let setup = broker.stop();
        broker = TestBroker::open(setup);
    }
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    peer.client.delete_queue("q0", DeleteIf::ALWAYS, broker.now()).expect("it goes");
    peer.client.declare_queue(&spec("more", 14_000), broker.now()).expect("there is room again");
}

/// A vhost was once there although its description had no room and the answer was an error.
#[test]
fn a_vhost_whose_description_has_no_room_is_not_there() {
    let disk = SimDisk::new(1, 256 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    declare_all(&mut peer, &broker, 15_000);
    drop(peer);
    let spec = VhostSpec { description: "x".repeat(15_000), ..VhostSpec::default() };
    let refused = broker.broker.put_vhost("v", &spec).expect_err("there is no room").text;
    assert!(refused.contains("of the log"), "{refused}");
    assert!(!broker.broker.has_vhost("v"));
    broker.flush();
    let broker = TestBroker::open(broker.stop());
    assert!(!broker.broker.has_vhost("v"), "the log does not have it either");
}

/// A client that only publishes is refused before one that consumes. Transient declarations and
/// deletes need no room.
#[test]
fn where_the_log_is_short_nothing_durable_is_declared_and_everything_can_go() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut script = Script::stepped(&disk, 2 << 20);
    script.check(&[("a queue q durable; queue r durable", "0 0, 0 0")]);
    for number in 0..40 {
        script.say(&format!("a publish - q {number} persistent size=50000"));
    }
    script.check(&[("a flow", "Pause")]);
    let told = script.say("b queue s durable");
    assert!(told.starts_with("406 cannot declare queue 's': broker is low on disk"), "{told}");
    script.check(&[("b queue s", "0 0"), ("b queue r durable", "0 0"), ("b delete r", "0")]);
}
