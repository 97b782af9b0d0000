//! What peers make the broker hold besides queued messages: counted by kind, against the memory limit, and given back.

use broker::{Held, Publish, QueueSpec};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};

use crate::message;

const BODY: [u8; 1000] = [b'x'; 1000];

/// Room for fifty bodies, and for three behind an alarm.
fn small() -> TestBroker {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 50_000;
    setup.settings.park_bytes = 3_000;
    TestBroker::open(setup)
}

fn held(broker: &TestBroker, kind: Held) -> u64 {
    broker.broker.overview().held[kind as usize]
}

#[test]
fn open_transactions_count_until_they_end_and_are_refused_where_memory_is_short() {
    let broker = small();
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
    peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
    let mut told = String::new();
    let mut open = Vec::new();
    for number in 1..=10 {
        let session = peer.session(number);
        let transaction = peer.client.begin(session);
        open.push(transaction);
        for _ in 0..10 {
            if let Err(error) = peer.client.publish_in(transaction, session, message("", "q", &BODY)) {
                told = error.text;
            }
        }
    }
    assert!(told.starts_with("publish in a transaction refused: broker is low on memory"), "{told}");
    let most = held(&broker, Held::Transactions);
    assert!((50_000..60_000).contains(&most), "{most}");
    assert!(broker.broker.overview().memory_alarm && broker.broker.overview().memory_used >= most);
    for transaction in &open[1..] {
        peer.client.rollback(*transaction);
    }
    let one = held(&broker, Held::Transactions);
    assert!((10_000..13_000).contains(&one) && !broker.broker.overview().memory_alarm, "{one}");
    peer.client.commit(open[0], broker.now()).expect("it fits");
    assert!(peer.turn(&broker).iter().any(|seen| matches!(seen, Seen::Committed(_))));
    assert_eq!(held(&broker, Held::Transactions), 0);
    let session = peer.session(1);
    let transaction = peer.client.begin(session);
    peer.client.publish_in(transaction, session, message("", "q", &BODY)).expect("there is room");
    drop(peer);
    assert_eq!(held(&broker, Held::Transactions), 0, "they end with their client");
}

/// What fills memory alone can be committed: it is there already.
#[test]
fn a_transaction_is_not_refused_for_its_own_size() {
    let broker = small();
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
    peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
    let session = peer.session(1);
    let transaction = peer.client.begin(session);
    while held(&broker, Held::Transactions) < 52_000 {
        peer.client.publish_in(transaction, session, message("", "q", &BODY)).expect("it is within the headroom");
    }
    peer.client.commit(transaction, broker.now()).expect("it may be committed");
    assert!(peer.turn(&broker).iter().any(|seen| matches!(seen, Seen::Committed(_))));
}

#[test]
fn replies_that_are_not_read_count_and_find_no_room_where_memory_is_short() {
    let broker = small();
    for read in [true, false] {
        let mut requester = Peer::attach(&broker, "guest").expect("it may attach");
        let session = requester.session(1);
        requester.client.consume_replies(session, "", broker.now()).expect("it may");
        let address = requester.client.reply_address(session).expect("it has one").to_owned();
        let mut responder = Peer::attach(&broker, "guest").expect("it may attach");
        let from = responder.session(1);
        for _ in 0..100 {
            let reply = Publish { mandatory: true, ..message("", &address, &BODY) };
            responder.client.publish(from, reply).expect("it is taken");
            responder.client.flush(broker.now());
        }
        let most = held(&broker, Held::Replies);
        assert!((50_000..52_000).contains(&most), "{most}");
        let returned = responder.turn(&broker).iter().filter(|seen| matches!(seen, Seen::Returned(..))).count();
        assert!((45..60).contains(&returned), "{returned} found no room");
        if read {
            assert_eq!(requester.turn(&broker).len() + returned, 100);
        } else {
            drop(requester);
        }
        drop(responder);
        assert_eq!(held(&broker, Held::Replies), 0, "read: {read}");
    }
}
