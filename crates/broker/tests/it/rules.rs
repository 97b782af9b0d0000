//! Rules for queues that other brokers have: a way of their own for messages that expire, delays
//! that grow by a factor, and queues that go only when they are empty.

use broker::{ApplyTo, PolicyKind, PolicySpec};
use testkit::broker::table_of;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn what_expires_has_a_way_of_its_own() {
    check(&[
        ("a queue dead; queue late", "0 0, 0 0"),
        (
            "a queue q durable x-message-ttl=1000 x-dead-letter-exchange= x-dead-letter-routing-key=dead x-expiry-exchange= x-expiry-routing-key=late",
            "0 0",
        ),
        ("a publish - q 1 persistent; publish - q 2 persistent; get q", ":1=1 left 1"),
        ("a reject 1", ""),
        ("* tick 1001", ""),
        ("a get dead; get late", ":2=1[q/rejected*1] left 0, :3=2[q/expired*1] left 0"),
        // The other way alone: what is rejected is gone.
        ("a queue r durable x-message-ttl=1000 x-expiry-exchange= x-expiry-routing-key=late", "0 0"),
        ("a publish - r 1 persistent; publish - r 2 persistent; get r", ":4=1 left 1"),
        ("a reject 4", ""),
        ("* tick 1001", ""),
        ("a get late; get late", ":5=2[r/expired*1] left 0, empty"),
        ("* counts r", "0 0"),
        // Both are arguments that a second declaration must repeat.
        (
            "a/2 queue r durable x-message-ttl=1000",
            "406 inequivalent arg 'x-expiry-exchange' for queue 'r' in vhost '/': received none but current is the value '' of type 'longstr'",
        ),
        (
            "a/3 queue s x-expiry-routing-key=late",
            "406 invalid arg 'x-expiry-routing-key' for queue 's' in vhost '/': has no effect without x-expiry-exchange",
        ),
    ]);
}

#[test]
fn a_restart_sends_what_expires_on_its_way() {
    check_each(
        ALL,
        &[
            ("a queue late durable", "0 0"),
            ("a queue q durable x-message-ttl=1000 x-expiry-exchange= x-expiry-routing-key=late", "0 0"),
            ("a publish - q 1 persistent", ""),
            ("* END", ""),
            ("* counts q", "1 0"),
            ("* tick 1001", ""),
            ("* counts q", "0 0"),
            ("* counts late", "1 0"),
            ("* END", ""),
            ("* counts late", "1 0"),
        ],
    );
}

#[test]
fn delays_grow_by_a_factor() {
    check(&[
        (
            "a queue q durable x-delayed-retry-type=all x-delayed-retry-min=100 x-delayed-retry-max=400 x-delayed-retry-multiplier=3",
            "0 0",
        ),
        ("a publish - q 1 persistent; get q", ":1=1 left 0"),
        ("a fail 1", ""),
        ("* tick 99", ""),
        ("a get q", "empty"),
        ("* tick 1", ""),
        ("a get q", ":2=1!(1) left 0"),
        ("a fail 2", ""),
        ("* tick 299", ""),
        ("a get q", "empty"),
        ("* tick 1", ""),
        ("a get q", ":3=1!(2) left 0"),
        ("a fail 3", ""),
        ("* tick 399", ""),
        ("a get q", "empty"),
        ("* tick 1", ""),
        ("a get q", ":4=1!(3) left 0"),
        (
            "a/2 queue r x-delayed-retry-type=all x-delayed-retry-min=100 x-delayed-retry-multiplier=2",
            "406 invalid arg 'x-delayed-retry-type' for queue 'r' in vhost '/': x-delayed-retry-multiplier has no effect unless x-delayed-retry-max is above x-delayed-retry-min",
        ),
        (
            "a/3 queue r x-delayed-retry-type=all x-delayed-retry-min=1 x-delayed-retry-max=9 x-delayed-retry-multiplier=0.5",
            "406 invalid arg 'x-delayed-retry-multiplier' for queue 'r' in vhost '/': expected a factor from 1 to 1000, such as 2 or 1.5",
        ),
    ]);
}

#[test]
fn a_queue_with_messages_stays_however_long_it_is_not_used() {
    check(&[
        ("a queue q durable x-expires=1000 x-expires-if-empty=true", "0 0"),
        ("a publish - q 1 persistent", ""),
        ("* tick 5000", ""),
        ("* counts q", "1 0"),
        ("a get q", ":1=1 left 0"),
        // A message that is out is still the queue's.
        ("* tick 5000", ""),
        ("* counts q", "0 1"),
        ("a ack 1", ""),
        ("* tick 1", ""),
        ("a passive q", "404 no queue 'q' in vhost '/'"),
        // An empty one goes as ever.
        ("b queue q durable x-expires=1000 x-expires-if-empty=true", "0 0"),
        ("* tick 1001", ""),
        ("b passive q", "404 no queue 'q' in vhost '/'"),
    ]);
}

#[test]
fn an_auto_delete_queue_stays_until_it_is_empty() {
    check(&[
        ("a queue q auto-delete x-expires-if-empty=true x-message-ttl=5000", "0 0"),
        ("b consume q c", ""),
        ("a publish - q 1", ""),
        ("b", "c:1=1"),
        ("b close", ""),
        ("* tick 100", ""),
        ("* counts q", "1 0"),
        ("* tick 5000", ""),
        ("* tick 1", ""),
        ("* counts q", "none"),
    ]);
}

#[test]
fn policies_give_these_rules_too() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    let set = |script: &mut Script, definition: &str| {
        let definition = table_of(definition);
        let spec = PolicySpec { pattern: "^q".to_owned(), apply_to: ApplyTo::All, priority: 0, definition };
        let outcome =
            script.broker().broker.set_policy("/", PolicyKind::User, "p", spec, &auth::Identity::operator("test"));
        script.broker().flush();
        outcome.map(drop).map_err(|error| error.to_string())
    };
    script.check(&[("a queue q durable; queue late durable", "0 0, 0 0")]);
    script.check(&[("a publish - q 1 persistent", "")]);
    set(&mut script, "message-ttl=1000 expiry-exchange= expiry-routing-key=late").unwrap();
    script.check(&[
        ("* tick 1001", ""),
        ("a get late", ":1=1[q/expired*1] left 0"),
        ("a publish - q 2; get q", ":2=2 left 0"),
    ]);
    set(&mut script, "delayed-retry-type=all delayed-retry-min=100 delayed-retry-max=400 delayed-retry-multiplier=2")
        .unwrap();
    script.check(&[
        ("a fail 2", ""),
        ("* tick 99", ""),
        ("a get q", "empty"),
        ("* tick 1", ""),
        ("a get q", ":3=2!(1) left 0"),
        ("a fail 3", ""),
        ("* tick 199", ""),
        ("a get q", "empty"),
        ("* tick 1", ""),
        ("a get q", ":4=2!(2) left 0"),
    ]);
    for (definition, expected) in [
        ("delayed-retry-min=100", "has no effect without x-delayed-retry-type"),
        ("delayed-retry-type=all", "delayed-retry-min is required"),
        ("delayed-retry-type=all delayed-retry-min=9 delayed-retry-max=5", "must not be smaller"),
        ("expires-if-empty=1", "unacceptable_type"),
        ("expiry-exchange=5", "unacceptable_type"),
    ] {
        let error = set(&mut script, definition).unwrap_err();
        assert!(error.contains(expected), "{definition}: {error}");
    }
}
