//! Declaring, deleting, purging: names, equivalence, exclusivity, and queues that are deleted by
//! themselves.

use broker::{DeleteIf, QueueSpec, VhostSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::Peer;

use crate::check;

const LOCKED: &str = "405 cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally \
declared on another connection or the exclusive property value does not match that of the original declaration.";

#[test]
fn a_declaration_answers_with_what_is_ready_and_who_consumes() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2", "0 0"),
        ("a queue q", "2 0"),
        ("a passive q", "2 0"),
        ("a passive none", "404 no queue 'none' in vhost '/'"),
        ("a passive-exchange none", "404 no exchange 'none' in vhost '/'"),
        ("a prefetch 1; consume q c", "c:1=1"),
        ("a passive q", "1 1"),
        ("a purge q", "1"),
        ("a passive q", "0 1"),
        ("a purge none", "404 no queue 'none' in vhost '/'"),
        ("* counts q", "0 1"),
    ]);
}

#[test]
fn a_second_declaration_must_ask_for_the_same() {
    check(&[
        ("a queue q durable x-max-length=5", "0 0"),
        ("b queue q durable x-max-length=5", "0 0"),
        (
            "a queue q x-max-length=5",
            "406 inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "a queue q durable auto-delete x-max-length=5",
            "406 inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "a queue q durable",
            "406 inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value \
             '5' of type 'long'",
        ),
        ("a exchange x topic durable", ""),
        ("a exchange x topic durable", ""),
        (
            "a exchange x direct durable",
            "406 inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'",
        ),
        ("a exchange x nonsense", "406 unknown exchange type 'nonsense'"),
    ]);
}

#[test]
fn reserved_names_are_refused_and_the_broker_gives_its_own() {
    check(&[
        ("a queue amq.q", "403 queue name 'amq.q' contains reserved prefix 'amq.*'"),
        ("a exchange amq.x fanout", "403 exchange name 'amq.x' contains reserved prefix 'amq.*'"),
        ("a exchange amq.topic topic durable", ""),
        ("a delete-exchange amq.topic", "403 deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
        ("a queue - exclusive", "0 0"),
        ("a queue $ exclusive; publish - $ m; get $ no-ack", "0 0, :1=m left 0"),
    ]);
}

#[test]
fn an_exclusive_queue_is_for_its_connection_and_goes_with_it() {
    check(&[
        ("a queue q exclusive durable", "0 0"),
        ("b queue q exclusive durable", LOCKED),
        ("b passive q", LOCKED),
        ("b get q", LOCKED),
        ("b consume q c", LOCKED),
        ("b purge q", LOCKED),
        ("b delete q", LOCKED),
        ("b bind amq.fanout - q", LOCKED),
        ("a queue q durable", LOCKED),
        ("b publish - q m", ""),
        ("a get q", ":1=m left 0"),
        ("a/2 end", ""),
        ("a passive q", "0 0"),
        ("a close", ""),
        ("b passive q", "404 no queue 'q' in vhost '/'"),
        ("b queue q", "0 0"),
    ]);
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer() {
    check(&[
        ("a queue q auto-delete; consume q c; consume q d", "0 0"),
        ("a cancel c; passive q", "cancelled, 0 1"),
        ("a cancel d; passive q", "cancelled, 404 no queue 'q' in vhost '/'"),
        ("a queue q auto-delete; get q; passive q", "0 0, empty, 0 0"),
        ("b consume q c", ""),
        ("b close", ""),
        ("a passive q", "404 no queue 'q' in vhost '/'"),
    ]);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    check(&[
        ("a exchange x fanout auto-delete; passive-exchange x", ""),
        ("a exchange y fanout auto-delete; bind y - exchange:x", ""),
        ("a queue q; bind x - q; queue r; bind x - r", "0 0, 0 0"),
        ("a unbind x - q; passive-exchange x", ""),
        ("a delete r", "0"),
        ("a passive-exchange x", "404 no exchange 'x' in vhost '/'"),
        ("a passive-exchange y", "404 no exchange 'y' in vhost '/'"),
    ]);
}

#[test]
fn deleting_can_be_made_conditional_and_what_is_missing_is_no_error() {
    check(&[
        ("a queue q; publish - q 1", "0 0"),
        ("a delete q if-empty", "406 queue 'q' in vhost '/' not empty"),
        ("b prefetch 1; consume q c", "c:1=1"),
        ("a delete q if-unused", "406 queue 'q' in vhost '/' in use"),
        ("a publish - q 2; delete q", "1"),
        ("b", "cancelled c"),
        ("a delete q if-unused if-empty", "0"),
        ("a exchange x fanout; queue q; bind x - q", "0 0"),
        ("a delete-exchange x if-unused", "406 exchange 'x' in vhost '/' in use"),
        ("a unbind x - q; delete-exchange x if-unused; delete-exchange x", ""),
        ("a unbind x - q; unbind amq.direct k none", ""),
    ]);
}

#[test]
fn bindings_differ_by_key_and_arguments() {
    check(&[
        ("a queue q; exchange x headers", "0 0"),
        ("a bind x - q a=1 b=2; bind x - q b=2 a=1; bind x - q a=1", ""),
        ("a unbind x - q a=1; publish x - m a=1", ""),
        ("* counts q", "0 0"),
        ("a publish x - m a=1 b=2", ""),
        ("* counts q", "1 0"),
        ("a unbind x - q b=2 a=1; publish x - m a=1 b=2", ""),
        ("* counts q", "1 0"),
        ("a bind x k none", "404 no queue 'none' in vhost '/'"),
        ("a bind none k q", "404 no exchange 'none' in vhost '/'"),
    ]);
}

#[test]
fn an_unused_queue_expires() {
    check(&[
        ("a queue q x-expires=1000", "0 0"),
        ("* tick 900", ""),
        ("a get q", "empty"),
        ("* tick 900", ""),
        ("a passive q", "0 0"),
        ("* tick 900", ""),
        ("a consume q c", ""),
        ("* tick 5000", ""),
        ("a cancel c", "cancelled"),
        ("* tick 999", ""),
        ("* counts q", "0 0"),
        ("* tick 1", ""),
        ("* counts q", "none"),
    ]);
}

/// The names are kept from one list to the next.
#[test]
fn the_names_of_queues_are_those_of_now() {
    let broker = TestBroker::open(Setup::memory());
    let names = || broker.broker.queue_names("/").iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(), Vec::<String>::new());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let now = broker.now();
    for name in ["b", "a"] {
        peer.client.declare_queue(&QueueSpec { name: name.into(), ..QueueSpec::default() }, now).unwrap();
    }
    assert_eq!((names(), names()), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
    peer.client.delete_queue("a", DeleteIf::ALWAYS, now).unwrap();
    peer.client.declare_queue(&QueueSpec { name: "c".into(), ..QueueSpec::default() }, now).unwrap();
    assert_eq!(names(), ["b", "c"], "as many as before");
    broker.broker.delete_vhost("/").unwrap();
    assert_eq!(names(), Vec::<String>::new());
    broker.broker.put_vhost("/", &VhostSpec::default()).unwrap();
    assert_eq!(names(), Vec::<String>::new(), "another vhost of this name");
    assert_eq!((broker.broker.count_queues("/"), broker.broker.count_queues("absent")), (0, 0));
}
