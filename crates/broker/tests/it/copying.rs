//! Copies of what a queue gets: by an argument and by a policy, with and without a selector, and
//! what they take part in: transactions, confirms, dead letters, limits, restarts.

use auth::Identity;
use broker::{ApplyTo, PolicyKind, PolicySpec};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::Peer;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::restart::{ALL, check_each};
use crate::{check, durable};

#[test]
fn what_a_queue_gets_another_gets_too() {
    check(&[
        ("a queue all durable; queue q durable x-copy-to=all", "0 0, 0 0"),
        ("a publish - q 1 persistent; publish - q 2", ""),
        ("a get q; get all; get all", ":1=1 left 1, :2=1 left 1, :3=2 left 0"),
        // By every exchange, once for each message, and a message for both comes once.
        ("a exchange f fanout; bind f k q; bind f k all; publish f k 3", ""),
        ("* counts q", "2 1"),
        ("a get all", ":4=3 left 0"),
        // A selector says which, also by properties.
        ("a queue some durable; queue r durable x-copy-to=some x-copy-selector=n=2", "0 0, 0 0"),
        ("a publish - r 4 n=1; publish - r 5 n=2; publish - r 6 n=1", ""),
        ("a get some", ":5=5 left 0"),
        ("* counts r", "3 0"),
    ]);
}

#[test]
fn a_copy_makes_no_copy() {
    check(&[
        ("a queue one x-copy-to=two; queue two x-copy-to=three; queue three x-copy-to=one", "0 0, 0 0, 0 0"),
        ("a publish - one 1", ""),
        ("* counts one", "1 0"),
        ("* counts two", "1 0"),
        ("* counts three", "0 0"),
        ("a publish - two 2", ""),
        ("* counts one", "1 0"),
        ("* counts two", "2 0"),
        ("* counts three", "1 0"),
    ]);
}

#[test]
fn routes_that_are_known_follow_the_queues_that_come_and_go() {
    check(&[
        ("a queue q x-copy-to=all", "0 0"),
        ("a publish - q 1", ""),
        ("a queue all; publish - q 2", "0 0"),
        ("* counts all", "1 0"),
        ("a delete all; publish - q 3", "1"),
        ("* counts q", "3 0"),
        ("a queue all; publish - q 4", "0 0"),
        ("* counts all", "1 0"),
    ]);
}

#[test]
fn the_answer_speaks_for_the_copy_too() {
    check(&[
        ("a queue full x-max-length=1 x-overflow=reject-publish; queue q x-copy-to=full", "0 0, 0 0"),
        ("a confirm; publish - q 1", "+1"),
        ("a publish - q 2", "-2"),
    ]);
}

#[test]
fn a_dead_letter_is_copied_and_does_not_go_round() {
    check(&[
        ("a queue all durable", "0 0"),
        ("a queue dead durable x-copy-to=all", "0 0"),
        ("a queue q durable x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0"),
        ("a publish - q 1 persistent; get q", ":1=1 left 0"),
        ("a reject 1", ""),
        ("a get dead; get all", ":2=1[q/rejected*1] left 0, :3=1[q/rejected*1] left 0"),
        // One that expires and comes back to its queue by a copy would never end.
        ("a queue back durable x-copy-to=round", "0 0"),
        ("a queue round durable x-message-ttl=10 x-dead-letter-exchange= x-dead-letter-routing-key=back", "0 0"),
        ("a publish - round 2 persistent", ""),
        ("* tick 11", ""),
        ("* tick 11", ""),
        ("* counts back", "1 0"),
        ("* counts round", "0 0"),
    ]);
}

#[test]
fn copies_are_as_durable_as_their_messages() {
    check_each(
        ALL,
        &[
            ("a queue all durable; queue q durable x-copy-to=all x-copy-selector=n=1", "0 0, 0 0"),
            ("a publish - q 1 persistent n=1; publish - q 2 persistent n=2", ""),
            ("* END", ""),
            ("* counts q", "2 0"),
            ("* counts all", "1 0"),
            ("a publish - q 3 persistent n=1", ""),
            ("* END", ""),
            ("* counts all", "2 0"),
        ],
    );
}

#[test]
fn a_policy_begins_and_ends_copies_of_known_routes() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    let operator = Identity::operator("test");
    let spec = |definition: &str| PolicySpec {
        pattern: "^q$".to_owned(),
        apply_to: ApplyTo::Queues,
        priority: 0,
        definition: table_of(definition),
    };
    script.check(&[("a queue q durable; queue all durable; queue own durable x-copy-to=q", "0 0, 0 0, 0 0")]);
    script.check(&[("a publish - q 1 persistent", ""), ("* counts all", "0 0")]);
    let set = |script: &mut Script, definition: &str| {
        let set = script.broker().broker.set_policy("/", PolicyKind::User, "p", spec(definition), &operator);
        script.broker().flush();
        set.map(drop).map_err(|error| error.to_string())
    };
    set(&mut script, "copy-to=all").unwrap();
    script.check(&[("a publish - q 2 persistent", ""), ("* counts all", "1 0")]);
    let routed = script.broker().broker.explain_route("/", "", "q", &table_of("")).unwrap();
    assert_eq!(routed.queues, ["all", "q"]);
    set(&mut script, "copy-to=all copy-selector=n=2").unwrap();
    script.check(&[("a publish - q 3 n=1; publish - q 4 n=2", ""), ("* counts all", "2 0")]);
    script.broker().broker.clear_policy("/", PolicyKind::User, "p").unwrap();
    script.broker().flush();
    script.check(&[("a publish - q 5 n=2", ""), ("* counts all", "2 0"), ("* counts q", "5 0")]);
    for (definition, expected) in
        [("copy-selector=n=2", "has no effect without x-copy-to"), ("copy-to=", "expected the name of a queue")]
    {
        let error = set(&mut script, definition).unwrap_err();
        assert!(error.contains(expected), "{definition}: {error}");
    }
}

#[test]
fn copies_take_the_rights_of_those_who_read_and_publish() {
    let broker = TestBroker::open(Setup::memory());
    broker.user("alice", ".*", "^amq", "^mine$");
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let spec = |name: &str| {
        let arguments = table_of("x-copy-to=all");
        broker::QueueSpec { arguments, ..durable(name) }
    };
    let refused = alice.client.declare_queue(&spec("other"), broker.now()).unwrap_err();
    assert!(refused.text.contains("read access to queue 'other'"), "{}", refused.text);
    alice.client.declare_queue(&spec("mine"), broker.now()).unwrap();
    broker.user("bob", ".*", "^x$", ".*");
    let mut bob = Peer::attach(&broker, "bob").unwrap();
    let refused = bob.client.declare_queue(&spec("ours"), broker.now()).unwrap_err();
    assert!(refused.text.contains("write access to exchange"), "{}", refused.text);
}
