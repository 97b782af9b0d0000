//! The bytes that peers make the broker hold besides queued messages: counted by kind, against the
//! memory limit, and given back.

use broker::{Held, Publish, QueueSpec, Switch, Unroutable};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};

use crate::message;

const BODY: [u8; 1000] = [b'x'; 1000];

/// Room for fifty bodies, and for three behind an alarm. One connection may take all of it.
fn small() -> TestBroker {
    small_with(Some(u64::MAX))
}

fn small_with(connection_memory: Option<u64>) -> TestBroker {
    open(connection_memory, None)
}

fn open(connection_memory: Option<u64>, user_memory: Option<u64>) -> TestBroker {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 50_000;
    setup.settings.parking.bytes = 3_000;
    setup.settings.connection_memory = connection_memory;
    setup.settings.user_memory = user_memory;
    TestBroker::open(setup)
}

fn held(broker: &TestBroker, kind: Held) -> u64 {
    broker.broker.overview().memory.held[kind as usize]
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
    assert!(broker.broker.overview().alarms.memory && broker.broker.overview().memory.used >= most);
    for transaction in &open[1..] {
        peer.client.rollback(*transaction);
    }
    let one = held(&broker, Held::Transactions);
    assert!((10_000..13_000).contains(&one) && !broker.broker.overview().alarms.memory, "{one}");
    peer.client.commit(open[0], broker.now()).expect("it fits");
    assert!(peer.turn(&broker).iter().any(|seen| matches!(seen, Seen::Committed(_))));
    assert_eq!(held(&broker, Held::Transactions), 0);
    let session = peer.session(1);
    let transaction = peer.client.begin(session);
    peer.client.publish_in(transaction, session, message("", "q", &BODY)).expect("there is room");
    drop(peer);
    assert_eq!(held(&broker, Held::Transactions), 0, "they end with their client");
}

/// A transaction that alone fills the memory can be committed: its messages are there already.
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
        requester.client.consume_replies(session, "", "reply.", broker.now()).expect("it may");
        let address = requester.client.reply_address(session).expect("it has one").to_owned();
        let mut responder = Peer::attach(&broker, "guest").expect("it may attach");
        let from = responder.session(1);
        for _ in 0..100 {
            let reply = Publish { unroutable: Unroutable::Return, ..message("", &address, &BODY) };
            responder.client.publish(from, reply).expect("it is taken");
            responder.client.flush(broker.now());
        }
        let most = held(&broker, Held::Replies);
        assert!((50_000..52_000).contains(&most), "{most}");
        let returned = responder.turn(&broker).iter().filter(|seen| matches!(seen, Seen::Unroutable(..))).count();
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

/// Gathers publishes in a transaction until one is refused: the refusal, and the bytes that the
/// connection holds then.
fn fill(broker: &TestBroker, peer: &mut Peer, number: u32) -> (String, u64) {
    let session = peer.session(number);
    let transaction = peer.client.begin(session);
    for _ in 0..100 {
        if let Err(error) = peer.client.publish_in(transaction, session, message("", "q", &BODY)) {
            let client = peer.client.number();
            let report = broker.broker.clients().into_iter().find(|report| report.number == client);
            return (error.text, report.expect("it is listed").held_bytes);
        }
    }
    panic!("nothing was refused");
}

#[test]
fn one_connection_holds_no_more_than_its_part() {
    for (setting, most) in [(None, 12_500), (Some(5_000), 5_000)] {
        let broker = small_with(setting);
        let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
        let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
        peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
        let (told, holds) = fill(&broker, &mut peer, 1);
        let expected = format!(
            "publish in a transaction refused: the connection holds {holds} bytes already, and limits.connection_memory allows {most}"
        );
        assert_eq!(told, expected);
        assert!((most - 1_500..=most).contains(&holds), "{holds}");
        assert_eq!((held(&broker, Held::Transactions), broker.broker.overview().alarms.memory), (holds, false));
        // Its other sessions have no part of their own; other connections have.
        assert_eq!(fill(&broker, &mut peer, 2), (told.clone(), holds));
        let mut other = Peer::attach(&broker, "guest").expect("it may attach");
        assert_eq!(fill(&broker, &mut other, 1), (told, holds));
        assert_eq!(held(&broker, Held::Transactions), 2 * holds);
    }
}

/// Without a setting the part follows the limit, and is at least the bytes that may wait behind an
/// alarm.
#[test]
fn the_part_of_a_connection_follows_the_memory_limit() {
    let broker = small_with(None);
    for (limit, most) in [(100_000, 25_000), (50_000, 12_500), (5_000, 3_000)] {
        broker.broker.set_memory_limit(limit);
        let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
        let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
        peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
        let (told, _) = fill(&broker, &mut peer, 1);
        assert!(told.ends_with(&format!("limits.connection_memory allows {most}")), "{told}");
    }
}

#[test]
fn replies_that_are_not_read_find_no_room_beyond_the_part_of_a_connection() {
    let broker = small_with(None);
    let mut requester = Peer::attach(&broker, "guest").expect("it may attach");
    let session = requester.session(1);
    requester.client.consume_replies(session, "", "reply.", broker.now()).expect("it may");
    let address = requester.client.reply_address(session).expect("it has one").to_owned();
    let mut responder = Peer::attach(&broker, "guest").expect("it may attach");
    let from = responder.session(1);
    for _ in 0..100 {
        let reply = Publish { unroutable: Unroutable::Return, ..message("", &address, &BODY) };
        responder.client.publish(from, reply).expect("it is taken");
        responder.client.flush(broker.now());
    }
    let most = held(&broker, Held::Replies);
    assert!((11_000..=12_500).contains(&most), "{most}");
    let returned = responder.turn(&broker).iter().filter(|seen| matches!(seen, Seen::Unroutable(..))).count();
    assert_eq!(requester.turn(&broker).len() + returned, 100);
    assert_eq!(held(&broker, Held::Replies), 0, "they are read");
}

/// One user opened forty connections, each with its own part: together they filled the memory, and
/// the publishers of all users stopped.
#[test]
fn one_user_holds_no_more_than_its_part_by_more_connections() {
    for (setting, most) in [(None, 25_000), (Some(20_000), 20_000)] {
        let broker = open(None, setting);
        let mut peers: Vec<Peer> = (0..8).map(|_| Peer::attach(&broker, "guest").expect("it may attach")).collect();
        let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
        peers[0].client.declare_queue(&spec, broker.now()).expect("it may declare");
        let told: Vec<String> = peers.iter_mut().map(|peer| fill(&broker, peer, 1).0).collect();
        let holds = broker.broker.user_held_bytes("guest");
        assert!((most - 1_500..=most).contains(&holds), "{holds}");
        let expected = format!(
            "publish in a transaction refused: the connections of user 'guest' hold {holds} bytes already, and \
             limits.user_memory allows {most}"
        );
        assert_eq!(told.last(), Some(&expected));
        assert_eq!((held(&broker, Held::Transactions), broker.broker.overview().alarms.memory), (holds, false));
        // A change applies to connections that are there.
        broker.broker.set_user_memory(Some(30_000));
        assert!(fill(&broker, &mut peers[7], 2).1 > 0);
        drop(peers);
        assert_eq!(broker.broker.user_held_bytes("guest"), 0);
    }
}

/// While memory is full, each connection used to keep the bytes that may wait behind an alarm,
/// however many connections its user had.
#[test]
fn what_a_user_keeps_while_memory_is_full_does_not_grow_with_its_connections() {
    let broker = small_with(None);
    let mut peers: Vec<Peer> = (0..20).map(|_| Peer::attach(&broker, "guest").expect("it may attach")).collect();
    let spec = QueueSpec { name: "q".into(), ..QueueSpec::default() };
    peers[0].client.declare_queue(&spec, broker.now()).expect("it may declare");
    broker.broker.force_alarm("memory", Switch::On).expect("there is such an alarm");
    let mut refused = 0;
    for peer in &mut peers {
        let session = peer.session(1);
        peer.confirm(session);
        for _ in 0..3 {
            peer.publish(session, message("", "q", &BODY)).expect("it is taken");
            peer.client.flush(broker.now());
        }
        refused += peer.turn(&broker).iter().filter(|seen| matches!(seen, Seen::Refused(..))).count();
        // A quarter of half of the memory, and the publish that exceeds it.
        let waits = broker.broker.user_held_bytes("guest");
        assert!(waits <= 50_000 / 8 + 1_500, "{waits}");
    }
    assert!(refused >= 45, "{refused}");
    let told = fill(&broker, &mut peers[19], 2).0;
    assert!(told.contains("and the connections of user 'guest' hold "), "{told}");
    drop(peers);
    assert_eq!(broker.broker.user_held_bytes("guest"), 0);
}
