//! Answers to publishers: confirms, refusals, returns; and the right to publish.

use broker::{Consume, QueueSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::{check, message};

#[test]
fn confirms_count_from_one_and_are_cumulative() {
    check(&[
        ("a queue q durable", "0 0"),
        ("a publish - q m0 persistent", ""),
        ("a confirm", ""),
        ("a publish - q m1 persistent", "+1"),
        ("a publish - q m2 persistent; publish - q m3; publish - nowhere m4; publish - q m5 persistent", "+5"),
        ("a/2 confirm; publish - q m6", "+1"),
        ("* counts q", "6 0"),
    ]);
}

#[test]
fn a_confirm_waits_for_the_flush_and_never_passes_an_earlier_publish() {
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(&[
        ("a queue q durable; queue t", "0 0, 0 0"),
        ("a confirm", ""),
        ("* hold", ""),
        ("a publish - t m1", "+1"),
        ("a publish - q m2 persistent", ""),
        ("a publish - t m3", ""),
        ("a publish - q m4", ""),
        ("* flush", ""),
        ("a", "+4"),
        ("a publish - q m5 persistent; publish - nowhere m6 mandatory; publish - t m7", ""),
        ("* flush", ""),
        ("a", "+5, returned 6 m6, +7"),
    ]);
}

#[test]
fn a_full_queue_refuses_one_by_one() {
    check(&[
        ("a queue q x-max-length=2 x-overflow=reject-publish", "0 0"),
        ("a confirm", ""),
        ("a publish - q m1; publish - q m2; publish - q m3; publish - q m4", "+2, -3, -4"),
        ("a get q no-ack", ":1=m1 left 1"),
        ("a publish - q m5; publish - q m6", "+5, -6"),
        ("* counts q", "2 0"),
    ]);
}

#[test]
fn one_full_queue_of_several_is_enough_for_a_refusal() {
    check(&[
        ("a queue q x-max-length=0 x-overflow=reject-publish; queue r", "0 0, 0 0"),
        ("a bind amq.fanout - q; bind amq.fanout - r; confirm", ""),
        ("a publish amq.fanout - m1; publish - r m2", "-1, +2"),
        ("* counts r", "2 0"),
    ]);
}

#[test]
fn what_is_unroutable_comes_back_if_its_publisher_wants_it() {
    check(&[
        ("a confirm", ""),
        ("a publish - none m1 mandatory", "returned 1 m1"),
        ("a publish - none m2", "+2"),
        ("a queue q; publish - q m3 mandatory", "0 0, +3"),
        ("b publish - none m4 mandatory; publish - none m5", "returned m4"),
    ]);
}

#[test]
fn each_publish_says_for_itself_what_it_is_answered() {
    check(&[
        ("a queue q; queue full x-max-length=0 x-overflow=reject-publish", "0 0, 0 0"),
        ("a publish - q m1; publish - q m2 confirm=1; publish - q m3; publish - q m4 confirm=2", "+2"),
        ("a publish - none m5 confirm=3 tell; publish - none m6 tell; publish - none m7 confirm=4", "unroutable 3, +4"),
        ("a publish - full m8; publish - full m9 confirm=5; publish - none m10 mandatory", "-5, returned m10"),
        // Numbers need only rise.
        ("a publish - q m11 confirm=70; publish - q m12; publish - q m13 confirm=90", "+90"),
        ("* counts q", "7 0"),
    ]);
}

/// A protocol whose session survives such an error has its refusals in the order of publishing.
#[test]
fn a_publish_that_was_an_error_is_answered_in_its_place() {
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(&[
        ("a queue q durable", "0 0"),
        ("* hold", ""),
        ("a publish - q m1 persistent confirm=1; refuse 2; publish - q m3 persistent confirm=3; refuse 4", ""),
        ("* flush", ""),
        ("a", "+1, -2, +3, -4"),
        ("a refuse 5", "-5"),
        ("* counts q", "2 0"),
    ]);
}

#[test]
fn rights_are_checked_for_every_operation() {
    let mut script = Script::memory();
    script.check(&[
        ("* user reader ^$ ^$ .*", ""),
        ("* user writer ^w ^w ^$", ""),
        ("a queue q; queue w1; exchange wx fanout", "0 0, 0 0"),
        ("reader publish - q m", "403 write access to exchange 'amq.default' in vhost '/' refused for user 'reader'"),
        ("reader queue q", "403 configure access to queue 'q' in vhost '/' refused for user 'reader'"),
        ("reader passive q", "0 0"),
        ("reader get q", "empty"),
        ("reader exchange x fanout", "403 configure access to exchange 'x' in vhost '/' refused for user 'reader'"),
        ("reader delete q", "403 configure access to queue 'q' in vhost '/' refused for user 'reader'"),
        ("reader delete-exchange wx", "403 configure access to exchange 'wx' in vhost '/' refused for user 'reader'"),
        ("reader bind wx - q", "403 write access to queue 'q' in vhost '/' refused for user 'reader'"),
        ("writer publish wx - m", ""),
        ("writer queue w1", "0 0"),
        ("writer get w1", "403 read access to queue 'w1' in vhost '/' refused for user 'writer'"),
        ("writer consume w1 c", "403 read access to queue 'w1' in vhost '/' refused for user 'writer'"),
        ("writer purge w1", "403 read access to queue 'w1' in vhost '/' refused for user 'writer'"),
        ("writer bind wx - w1", "403 read access to exchange 'wx' in vhost '/' refused for user 'writer'"),
        (
            "writer queue w2 x-dead-letter-exchange=wx",
            "403 read access to queue 'w2' in vhost '/' refused for user 'writer'",
        ),
    ]);
}

/// A connection remembers a limited number of routes. It forgets them in the middle of a turn, and
/// no message goes astray.
#[test]
fn one_turn_may_reach_more_queues_than_are_remembered() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let session = peer.session(1);
    let names: Vec<_> = (0..20_000).map(|number| format!("q{number}")).collect();
    for name in &names {
        peer.client.declare_queue(&QueueSpec { name: name.clone(), ..QueueSpec::default() }, broker.now()).unwrap();
    }
    let mut publish =
        |body: &str, name: &str| peer.client.publish(session, message("", name, body.as_bytes())).unwrap();
    names.iter().chain(names.iter().rev()).for_each(|name| publish(name, name));
    peer.client.flush(broker.now());
    let overview = broker.broker.overview();
    assert_eq!(overview.messages.ready, 2 * names.len() as u64);
    // No channel may have as many consumers.
    for (some, number) in names.chunks(5000).zip(2..) {
        let session = peer.session(number);
        for name in some {
            let consume = Consume { source: name.clone().into(), no_ack: true, ..Consume::default() };
            peer.client.consume(session, consume, broker.now()).unwrap();
        }
    }
    let mut bodies: Vec<_> = peer.drain(&broker).into_iter().filter_map(delivered).collect();
    bodies.sort_unstable();
    let mut expected: Vec<_> = names.iter().chain(&names).cloned().collect();
    expected.sort_unstable();
    assert_eq!(bodies, expected);
}

fn delivered(seen: Seen) -> Option<String> {
    if let Seen::Delivery(received) = seen { Some(received.body) } else { None }
}
