//! Policies on live queues and exchanges, and across restarts.

use std::sync::atomic::{AtomicBool, Ordering};

use broker::{ApplyTo, PolicyKind, PolicySpec};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::Peer;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::{durable, message};

fn script() -> Script {
    Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20)
}

/// Sets a policy for all names that contain `pattern`.
fn set(script: &mut Script, kind: PolicyKind, name: &str, pattern: &str, definition: &str) {
    let definition = table_of(definition);
    let spec = PolicySpec { pattern: pattern.to_owned(), apply_to: ApplyTo::All, priority: 0, definition };
    script.broker().broker.set_policy("/", kind, name, spec, &auth::Identity::operator("test")).unwrap();
    script.broker().flush();
}

fn clear(script: &mut Script, kind: PolicyKind, name: &str) {
    script.broker().broker.clear_policy("/", kind, name).unwrap();
    script.broker().flush();
}

#[test]
fn a_length_limit_drops_at_once_and_goes_again() {
    let mut script = script();
    script.check(&[("a queue q durable; queue other durable; queue dead", "0 0, 0 0, 0 0")]);
    let publish = "a publish - q 1 persistent; publish - q 2; publish - q 3 persistent; publish - other x";
    script.check(&[(publish, ""), ("a publish - other y", "")]);
    set(&mut script, PolicyKind::User, "p", "^q", "max-length=1 dead-letter-exchange= dead-letter-routing-key=dead");
    script.check(&[
        ("* counts q", "1 0"),
        ("* counts other", "2 0"),
        ("a get dead; get dead", ":1=1[q/maxlen*1] left 1, :2=2[q/maxlen*1] left 0"),
        ("a ack 2 multiple", ""),
    ]);
    set(&mut script, PolicyKind::User, "p", "^q", "max-length=1 overflow=reject-publish");
    script.check(&[("a/2 confirm; publish - q 4", "-1"), ("* counts q", "1 0")]);
    clear(&mut script, PolicyKind::User, "p");
    script.check(&[("a/2 publish - q 5", "+2"), ("* counts q", "2 0"), ("a get q", ":3=3 left 1")]);
}

/// All of a backlog went under one lock of its queue, and all who used the queue waited for that.
#[test]
fn a_limit_drops_a_backlog_in_pieces_between_which_others_use_the_queue() {
    const MANY: u64 = 25_000;
    for definition in ["max-length=1", "max-length-bytes=1", "message-ttl=0"] {
        let broker = TestBroker::open(Setup::memory());
        let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
        let session = peer.session(1);
        peer.client.declare_queue(&durable("q"), broker.now()).expect("it may declare");
        for _ in 0..MANY {
            peer.client.publish(session, message("", "q", b"x")).expect("it is taken");
        }
        peer.client.end_turn(broker.now());
        let definition = table_of(definition);
        let spec = PolicySpec { pattern: "q".to_owned(), apply_to: ApplyTo::All, priority: 0, definition };
        let operator = auth::Identity::operator("test");
        broker.broker.set_policy("/", PolicyKind::User, "p", spec, &operator).expect("it may be set");
        let waiting = || broker.broker.overview().messages.ready;
        assert_eq!(waiting(), MANY - 10_000, "one piece went at once");
        let mut pieces = Vec::new();
        while waiting() > 1 && pieces.len() < 10 {
            broker.housekeep_only();
            pieces.push(waiting());
        }
        pieces.dedup();
        assert!(pieces.len() == 2 && pieces[0] == MANY - 20_000, "{pieces:?}");
    }
}

#[test]
fn a_limit_in_bytes_counts_what_is_there_wherever_it_is() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 8 << 20);
    setup.settings.memory_budget = 100;
    let mut script = Script::open(setup, Some(disk));
    script.check(&[("a queue q durable; publish - q 1 persistent size=100; publish - q 2 persistent size=100", "0 0")]);
    script.check(&[("a publish - q 3 persistent size=100", ""), ("* counts q", "3 0")]);
    set(&mut script, PolicyKind::Operator, "p", "", "max-length-bytes=200");
    script.check(&[("* flush", ""), ("* counts q", "2 0"), ("a get q", ":1=2 left 1")]);
}

#[test]
fn messages_and_queues_that_are_there_get_their_time() {
    let mut script = script();
    script.check(&[("a queue q durable x-message-ttl=5000; publish - q 1; publish - q 2 ttl=50", "0 0")]);
    script.check(&[("* tick 100", ""), ("* counts q", "2 0")]);
    set(&mut script, PolicyKind::User, "p", "q", "message-ttl=1000");
    script.check(&[("* tick 800", ""), ("* counts q", "2 0"), ("* tick 200", ""), ("* counts q", "0 0")]);
    set(&mut script, PolicyKind::User, "p", "q", "expires=1000");
    script.check(&[("a publish - q 3", ""), ("* tick 900", ""), ("* counts q", "1 0")]);
    script.check(&[("* tick 1200", ""), ("* counts q", "none")]);
}

/// Only messages in memory expired at the new time.
#[test]
fn what_only_the_disk_has_gets_its_time_too() {
    let scene = || {
        let disk = SimDisk::new(1, 64 << 20);
        let mut setup = Setup::stepped(&disk, 8 << 20);
        setup.settings.memory_budget = 100;
        Script::open(setup, Some(disk))
    };
    let publish =
        [("a queue q durable", "0 0"), ("a publish - q 1 persistent", ""), ("a publish - q 2 persistent", "")];
    let mut script = scene();
    script.check(&publish);
    set(&mut script, PolicyKind::User, "p", "q", "message-ttl=1000");
    script.check(&[("* tick 999", ""), ("* counts q", "2 0"), ("* tick 1", ""), ("* counts q", "0 0")]);

    let mut script = scene();
    set(&mut script, PolicyKind::User, "p", "q", "message-ttl=1000");
    script.check(&publish);
    clear(&mut script, PolicyKind::User, "p");
    script.check(&[("* tick 1000", ""), ("* counts q", "2 0")]);
}

#[test]
fn priorities_and_single_active_consumers_come_and_go() {
    let mut script = script();
    script.check(&[("a queue q durable; publish - q 1 persistent; publish - q 2 priority=9 persistent", "0 0")]);
    set(&mut script, PolicyKind::User, "p", "q", "max-priority=9 single-active-consumer=true");
    script.check(&[
        ("a publish - q 3 priority=9 persistent; publish - q 4 priority=1 persistent", ""),
        ("b prefetch 1; consume q b1; consume q b2", "b1:1=3"),
        ("b ack 1", "b1:2=4"),
    ]);
    clear(&mut script, PolicyKind::User, "p");
    script.check(&[("b", "b2:3=1"), ("b ack 2; ack 3", "b1:4=2")]);
}

#[test]
fn an_exchange_gets_an_alternate_and_loses_it() {
    let mut script = script();
    script.check(&[("a queue q; exchange e direct; exchange own direct alternate-exchange=amq.direct", "0 0")]);
    script.check(&[("a bind amq.fanout - q; publish e k 1; publish own k 2", ""), ("* counts q", "0 0")]);
    set(&mut script, PolicyKind::User, "p", "^(e|own|later)$", "alternate-exchange=amq.fanout");
    script.check(&[("a publish e k 3; publish own k 4", ""), ("* counts q", "1 0")]);
    script.check(&[("a exchange later direct; publish later k 5", ""), ("* counts q", "2 0")]);
    clear(&mut script, PolicyKind::User, "p");
    script.check(&[("a publish e k 6; publish later k 7", ""), ("* counts q", "2 0")]);
}

#[test]
fn policies_bind_queues_to_come_and_survive_any_stop() {
    for end in ["* restart", "* crash", "* cut"] {
        let mut script = script();
        set(&mut script, PolicyKind::User, "p", "^q", "max-length=2 message-ttl=1000");
        set(&mut script, PolicyKind::Operator, "p", "^q", "max-length=1");
        set(&mut script, PolicyKind::User, "gone", "^q", "max-length=0");
        clear(&mut script, PolicyKind::User, "gone");
        script.check(&[
            ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent", "0 0"),
            ("* counts q", "1 0"),
            (end, ""),
            ("a publish - q 3 persistent", ""),
            ("* counts q", "1 0"),
            ("* tick 1000", ""),
            ("* counts q", "0 0"),
        ]);
        let broker = &script.broker().broker;
        let names = |kind| broker.policies(kind).into_iter().map(|policy| policy.name).collect::<Vec<_>>();
        assert_eq!(
            (names(PolicyKind::User), names(PolicyKind::Operator)),
            (vec!["p".to_owned()], vec!["p".to_owned()])
        );
        clear(&mut script, PolicyKind::Operator, "p");
        script.check(&[(end, ""), ("a publish - q 4; publish - q 5; publish - q 6", ""), ("* counts q", "2 0")]);
    }
}

/// The declaration alone counted then, without the operator's limits.
#[test]
fn a_single_active_consumer_by_policy_leaves_groups_and_limits_alone() {
    let mut script = script();
    set(&mut script, PolicyKind::User, "p", "q", "single-active-consumer=true max-length=2");
    set(&mut script, PolicyKind::Operator, "p", "q", "max-length=1");
    script.check(&[
        ("a queue q durable x-message-groups=true; publish - q 1; publish - q 2; publish - q 3", "0 0"),
        ("* counts q", "1 0"),
        ("a consume q c", "c:1=3"),
        ("b consume q d", ""),
        ("w publish - q 4 JMSXGroupID=x", ""),
        ("w publish - q 5 JMSXGroupID=y", ""),
        ("a", "c:2=4"),
        ("b", "d:1=5"),
        ("a cancel c", "cancelled"),
        ("b cancel d", "cancelled"),
    ]);
    clear(&mut script, PolicyKind::Operator, "p");
    script.check(&[("w publish - q 6; publish - q 7; publish - q 8", ""), ("* counts q", "2 3")]);
}

/// As many as make the change of a policy long.
const QUEUES: u64 = 6000;

/// With many queues and policies a change takes long, and declarations do not wait for all of it.
#[test]
fn declarations_go_on_while_a_policy_is_given_to_many_queues() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    for number in 0..QUEUES {
        peer.client.declare_queue(&durable(&format!("queue-{number}")), now).unwrap();
    }
    let set = |name: &str, pattern: &str, priority, definition: &str| {
        let (pattern, definition) = (pattern.to_owned(), table_of(definition));
        let spec = PolicySpec { pattern, apply_to: ApplyTo::Queues, priority, definition };
        let author = auth::Identity::operator("test");
        broker.broker.set_policy("/", PolicyKind::User, name, spec, &author).unwrap();
    };
    // None of them applies to a queue, which is checked for each queue again.
    for number in 0..300 {
        set(&format!("p{number}"), &format!("(x|y)+[a-z]*{number}$"), 1, "max-length=9");
    }
    // A policy without room for messages drops those of each queue that it reaches. A declaration
    // is within the change if some queues had lost theirs before it, and not all have after it.
    let waiting = || broker.broker.overview().messages.ready;
    let mut declared = 0;
    let mut race = || {
        set("all", "", 0, "max-length=9");
        for number in 0..QUEUES {
            peer.client.publish(session, message("", &format!("queue-{number}"), b"1")).unwrap();
        }
        peer.client.flush(now);
        broker.flush();
        assert_eq!(waiting(), QUEUES);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut within = 0;
                while !done.load(Ordering::SeqCst) {
                    let has_begun = waiting() < QUEUES;
                    peer.client.declare_queue(&durable(&format!("another-{declared}")), now).unwrap();
                    declared += 1;
                    within += u32::from(has_begun && waiting() > 0);
                }
                within
            });
            set("all", "", 0, "max-length=0");
            done.store(true, Ordering::SeqCst);
            other.join().unwrap()
        })
    };
    // A machine with other work may take the processor away during a whole change. If declarations
    // waited for all of it, none would ever be within.
    assert!((0..10).any(|_| race() > 0));
    let limited = broker.broker.queues().iter().filter(|queue| queue.policies.user.as_deref() == Some("all")).count();
    assert_eq!(limited as u64, QUEUES + declared);
}
