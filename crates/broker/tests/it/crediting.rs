//! Granted credit: it counts down, is not given back by settlements, and can be drained. AMQP 1.0
//! has it so.

use broker::{Consume, Credit, Publish, Rest};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::Peer;

use crate::{check, durable, message};

#[test]
fn a_grant_is_absolute_and_0_is_none() {
    check(&[
        ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent", "0 0"),
        ("a consume q c credit=0", ""),
        ("a credit c 2", "c:1=1, c:2=2"),
        ("a ack 2 multiple", ""),
        ("a credit c 1", "c:3=3"),
        ("a credit c 2; publish - q 4", "c:4=4"),
        ("a credit c 0; publish - q 5", ""),
        ("a cancel c", "cancelled"),
        ("a consume q d no-ack credit=1", "d:5=5"),
        ("a publish - q 6; publish - q 7", ""),
        ("a credit d 1", "d:6=6"),
    ]);
}

/// The answer comes behind the deliveries, also behind those that the pager had to read first.
#[test]
fn a_drain_is_answered_behind_the_last_delivery() {
    check(&[
        ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent", "0 0"),
        ("a consume q c credit=2 drain", "c:1=1, c:2=2, drained c 0"),
        ("a credit c 5 drain", "c:3=3, drained c 4"),
        ("a publish - q 4", ""),
        ("a credit c 0 drain", "drained c 0"),
        ("a credit c 1", "c:4=4"),
        ("a credit c 3 drain", "drained c 3"),
        ("a credit c 1; publish - q 5", "c:5=5"),
    ]);
}

#[test]
fn a_drain_does_not_wait_for_messages_of_others() {
    check(&[
        ("a queue q; publish - q 1 n=1; publish - q 2 n=2; publish - q 3 n=3", "0 0"),
        ("a consume q c x-selector=n=2 credit=5 drain", "c:1=2, drained c 4"),
        ("a queue one x-single-active-consumer=true; publish - one 4", "0 0"),
        ("a consume one first credit=0; consume one second credit=2 drain", "drained second 2"),
        ("a cancel first", "cancelled"),
        ("a credit second 2 drain", "second:2=4, drained second 1"),
    ]);
}

/// A client that counts what it was told of grants the same credit again, while deliveries and the
/// answer to a drain are on their way. It gets no more than it granted.
#[test]
fn a_grant_that_crosses_deliveries_lets_none_go_twice() {
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    let (session, now) = (peer.session(1), broker.now());
    let publish = |peer: &mut Peer, count: usize| {
        let transient = || Publish { persistent: false, ..message("", "q", b"x") };
        (0..count).for_each(|_| peer.publish(session, transient()).unwrap());
    };
    publish(&mut peer, 9);
    let granted = |left, rest| Credit::Granted { left, rest };
    let credit = granted(4, Rest::Kept);
    peer.consume(&broker, 0, Consume { source: "q".into(), tag: "c".into(), credit, ..Consume::default() });
    peer.client.set_credit(session, "c", granted(4, Rest::Kept), now);
    assert_eq!(peer.turn(&broker).len(), 4);
    peer.client.set_credit(session, "c", granted(7, Rest::Drained), now);
    peer.client.set_credit(session, "c", granted(7, Rest::Kept), now);
    let seen: Vec<String> = peer.turn(&broker).iter().map(ToString::to_string).collect();
    assert_eq!((seen.len(), seen.last().map(String::as_str)), (6, Some("drained c 2")));
    publish(&mut peer, 3);
    assert_eq!(peer.turn(&broker).len(), 0, "the drain took it back");
}
