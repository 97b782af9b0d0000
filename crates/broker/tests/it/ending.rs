//! Sessions that end with many deliveries to return: in bounded pieces, completely, in order, and
//! behind the reply's ticket.

use broker::{Awaited, Consume, ErrorKind, QueueSpec, Ticket};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};

use crate::message;

/// More than one piece, and more than an end does at once.
const MANY: usize = 10_000;

/// Who may use a queue.
#[derive(PartialEq)]
enum Access {
    Shared,
    Exclusive,
}

fn queue(peer: &mut Peer, broker: &TestBroker, name: &str, access: Access) {
    let spec = QueueSpec { name: name.to_owned(), exclusive: access == Access::Exclusive, ..QueueSpec::default() };
    peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
}

fn publish(peer: &mut Peer, broker: &TestBroker, count: usize) {
    let session = peer.session(1);
    for number in 0..count {
        peer.client.publish(session, message("", "q", number.to_string().as_bytes())).expect("it is taken");
    }
    peer.turn(broker);
}

fn bodies(seen: &[Seen]) -> Vec<String> {
    seen.iter()
        .filter_map(|seen| match seen {
            Seen::Delivery(received) => Some(received.body.clone()),
            _ => None,
        })
        .collect()
}

/// The housekeeping does one piece of the end a round. The ticket of the reply is not durable
/// before the last one.
#[test]
fn a_large_end_goes_on_in_pieces_and_the_reply_waits_for_all_of_them() {
    for whole in [false, true] {
        let broker = TestBroker::open(Setup::memory());
        let mut holder = Peer::attach(&broker, "guest").expect("it may attach");
        queue(&mut holder, &broker, "q", Access::Shared);
        publish(&mut holder, &broker, MANY);
        holder.consume(&broker, 0, Consume { source: "q".into(), ..Consume::default() });
        assert_eq!(bodies(&holder.drain(&broker)).len(), MANY);
        let mut heir = Peer::attach(&broker, "guest").expect("it may attach");
        let session = holder.session(1);
        let small = holder.session(2);
        let small = holder.client.close_session(small, broker.now());
        assert!(matches!(small, Awaited::Flush(_)), "{small:?}");
        let large = match whole {
            true => holder.client.close(broker.now()),
            false => holder.client.close_session(session, broker.now()),
        };
        assert_eq!(small.and(Ticket::NONE), small);
        assert_eq!((large, large.and(Ticket::at(journal::LogId::SYSTEM, 1))), (Awaited::Ends, Awaited::Ends));
        let mut rounds = 0;
        while !holder.client.durable(large) {
            assert!(rounds < 100, "it does not end");
            broker.housekeep_only();
            rounds += 1;
        }
        assert!(rounds >= 3, "{rounds} rounds for {MANY} deliveries");
        assert!(holder.wakes.take(), "whoever waits is woken");
        heir.consume(&broker, 0, Consume { source: "q".into(), ..Consume::default() });
        let expected: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&heir.drain(&broker)), expected, "all are back, in their order");
    }
}

/// The deliveries of a dropped client, and those in its mailbox, come back as well; no reply waits
/// for them.
/// A client with many exclusive queues in a vhost whose log is empty was never told that its end is
/// over: it waited for the end of that log, which no flush reaches.
#[test]
fn a_large_end_comes_to_its_end_where_nothing_was_ever_logged() {
    let dir = tempfile::tempdir().expect("there is a place");
    let broker = TestBroker::open(Setup::directory(dir.path(), 8 << 20));
    let mut holder = Peer::attach(&broker, "guest").expect("it may attach");
    for number in 0..300 {
        queue(&mut holder, &broker, &format!("q{number}"), Access::Exclusive);
    }
    let ends = holder.client.close(broker.now());
    assert_eq!(ends, Awaited::Ends);
    let mut rounds = 0;
    while !holder.client.durable(ends) {
        assert!(rounds < 100, "it does not end");
        broker.housekeep_only();
        rounds += 1;
    }
}

#[test]
fn what_a_client_that_is_gone_held_and_never_read_comes_back() {
    let broker = TestBroker::open(Setup::memory());
    let mut gone = Peer::attach(&broker, "guest").expect("it may attach");
    queue(&mut gone, &broker, "q", Access::Shared);
    for number in 0..300 {
        queue(&mut gone, &broker, &format!("own{number}"), Access::Exclusive);
    }
    gone.consume(&broker, 0, Consume { source: "q".into(), ..Consume::default() });
    let mut other = Peer::attach(&broker, "guest").expect("it may attach");
    publish(&mut other, &broker, MANY);
    let mut some = Vec::new();
    gone.drain_some(&broker, &mut some);
    assert!(!some.is_empty());
    drop(gone);
    other.consume(&broker, 0, Consume { source: "q".into(), ..Consume::default() });
    assert!(other.client.check_queue("own0", broker.now()).is_err_and(|error| error.kind == ErrorKind::Locked));
    let mut seen = Vec::new();
    for _ in 0..20 {
        broker.housekeep_only();
        seen.extend(bodies(&other.drain(&broker)));
    }
    seen.sort_by_key(|body| body.parse::<usize>().expect("a number"));
    let expected: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    assert_eq!(seen, expected, "each once");
    assert!(other.client.check_queue("own0", broker.now()).is_err_and(|error| error.kind == ErrorKind::NotFound));
}

/// A clean stop waits for no thread: it does the rest of all ends itself.
#[test]
fn an_end_under_way_is_finished_before_the_log_is_closed() {
    let disk = testkit::sim_disk::SimDisk::new(1, 256 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 32 << 20));
    let mut holder = Peer::attach(&broker, "guest").expect("it may attach");
    queue(&mut holder, &broker, "q", Access::Shared);
    publish(&mut holder, &broker, MANY);
    holder.consume(&broker, 0, Consume { source: "q".into(), ..Consume::default() });
    holder.drain(&broker);
    drop(holder);
    broker.stop();
}

/// Distinct priorities, tags, selectors and browsers: everything that exists once for each
/// consumer.
#[test]
fn consumers_are_limited_for_each_session_connection_and_queue() {
    let mut setup = Setup::memory();
    setup.settings.limits.consumers.per_session = 3;
    setup.settings.limits.consumers.per_connection = 5;
    setup.settings.limits.consumers.per_queue = 6;
    let broker = TestBroker::open(setup);
    let mut first = Peer::attach(&broker, "guest").expect("it may attach");
    queue(&mut first, &broker, "q", Access::Shared);
    let mut second = Peer::attach(&broker, "guest").expect("it may attach");
    let consume = |peer: &mut Peer, number: u32| {
        let session = peer.session(number);
        let wanted = Consume { source: "q".into(), ..Consume::default() };
        peer.client.consume(session, wanted, broker.now()).map_err(|error| error.text)
    };
    let mut tags = Vec::new();
    for number in [1, 1, 1, 2, 2] {
        tags.push(consume(&mut first, number).expect("there is room"));
    }
    assert_eq!(consume(&mut first, 1), Err("reached maximum (3) of consumers per session".to_owned()));
    assert_eq!(consume(&mut first, 2), Err("reached maximum (5) of consumers per connection".to_owned()));
    consume(&mut second, 1).expect("there is room");
    let full = "reached maximum (6) of consumers of queue 'q' in vhost '/'";
    assert_eq!(consume(&mut second, 1), Err(full.to_owned()));
    let session = first.session(1);
    first.client.cancel(session, &tags[0], broker.now(), &mut |_| {});
    consume(&mut second, 1).expect("there is room again");
}
