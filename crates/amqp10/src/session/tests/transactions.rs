//! Local transactions: declare, what is done within one, and how it ends.

use broker::{QueueSpec, Rest, Switch};

use super::scene::{ACCEPTED, Peer, Scene, capabilities, detach, disposed, from, text, to_peer, to_server, transfer};
use crate::client::in_transaction;
use crate::codec::message::Properties;
use crate::codec::performative::{Attach, Disposition, Flow, Role, Transfer};
use crate::codec::terminus::{Coordinator, Declare, Discharge};
use crate::codec::value::Budget;
use crate::codec::{AttachTarget, DeliveryState, Encode, Outcome, Section, Source, Value, ValueRef, read_value};
use crate::session::coordinator::coordinator;

/// The ids of the first two transactions of a connection.
const FIRST: [u8; 8] = 1_u64.to_be_bytes();
const SECOND: [u8; 8] = 2_u64.to_be_bytes();
const ABSENT: [u8; 8] = 9_u64.to_be_bytes();

/// The peer has a coordinator at handle 9, sends to `q` at 0 and receives from it at 1.
fn begun(scene: &Scene) -> Peer {
    let mut peer = scene.session();
    let target = Some(AttachTarget::Coordinator(Coordinator::default()));
    let name = peer.name("transactions");
    peer.attach(Attach { handle: 9, target, ..to_server(&name) });
    peer.expect(&["attach 9 Receiver - > coordinator", "flow 9 count=0 credit=8000"]);
    peer.attach_to(0, Some("q"));
    peer.attach_from(1, "q");
    peer.heard();
    peer
}

fn ask(peer: &mut Peer, id: u32, request: &impl Encode) {
    let mut message = Vec::new();
    Section::Value.encode(request, &mut message);
    peer.transfer(Transfer { handle: 9, ..transfer(id) }, &message);
}

fn declare(peer: &mut Peer, id: u32) {
    ask(peer, id, &Declare::default());
    let heard = peer.heard();
    assert!(heard[0].starts_with(&format!("disposition Receiver {id}..{id} settled declared")), "{heard:?}");
}

fn publish(peer: &mut Peer, id: u32, transaction: &[u8]) -> Vec<String> {
    let state: DeliveryState<'_> = in_transaction(transaction, ACCEPTED);
    peer.transfer(Transfer { state: Some(state), ..transfer(id) }, &text("m"));
    peer.heard()
}

#[test]
fn a_commit_shows_what_was_published_and_a_rollback_drops_it() {
    for (fail, shown) in [(false, 1), (true, 0)] {
        let mut peer = begun(&Scene::new());
        declare(&mut peer, 0);
        peer.credit(1, 0, 10, Rest::Kept);
        let heard = publish(&mut peer, 1, &FIRST);
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains("Transactional"), "{heard:?}");
        ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail });
        let heard = peer.heard();
        assert!(heard.contains(&"disposition Receiver 2..2 settled accepted".to_owned()), "{heard:?}");
        assert_eq!(heard.iter().filter(|line| line.starts_with("transfer 1")).count(), shown, "{heard:?}");
    }
}

#[test]
fn what_was_settled_in_a_transaction_comes_back_as_tried() {
    // The end of the coordinator's link rolls back as a discharge does.
    for by_link in [false, true] {
        let mut peer = begun(&Scene::new());
        peer.message(0, 0, "m");
        peer.credit(1, 0, 10, Rest::Kept);
        peer.heard();
        declare(&mut peer, 1);
        let state = Some(in_transaction(&FIRST, ACCEPTED));
        peer.send(0, &Disposition { role: Role::Receiver, settled: true, state, ..Disposition::default() });
        peer.expect(&[]);
        if by_link {
            peer.send(0, &detach(9));
        } else {
            ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail: true });
        }
        let heard = peer.heard();
        assert!(heard.iter().any(|line| line.ends_with("m failed=1")), "{heard:?}");
    }
}

#[test]
fn an_unknown_id_is_refused() {
    let mut peer = begun(&Scene::new());
    let refused = |id| vec![format!("disposition Receiver {id}..{id} settled rejected amqp:transaction:unknown-id")];
    assert_eq!(publish(&mut peer, 0, &ABSENT), refused(0));
    ask(&mut peer, 1, &Discharge { txn_id: &ABSENT, fail: false });
    assert_eq!(peer.heard(), refused(1));
}

/// A15 of the public cases: a transaction in which a send has failed is rolled back as a whole.
#[test]
fn a_send_that_fails_fails_the_transaction() {
    let full = testkit::broker::table_of("x-max-length=1 x-overflow=reject-publish");
    for (to, when) in [
        ("/queues/full", "at the commit"),
        ("/queues/none", "at once"),
        ("/exchanges/amq.direct/nowhere", "at once"),
        ("/exchanges/none/k", "at once"),
    ] {
        let scene = Scene::new();
        let spec = QueueSpec { name: "full".into(), durable: true, arguments: full.clone(), ..QueueSpec::default() };
        scene.client().declare_queue(&spec, scene.test.now()).unwrap();
        let mut peer = begun(&scene);
        peer.attach_to(2, None);
        peer.attach_to(3, Some("/queues/full"));
        peer.message(3, 0, "fills it");
        peer.heard();
        declare(&mut peer, 1);
        publish(&mut peer, 2, &FIRST);
        let mut message = Vec::new();
        Properties { to: Some(to), ..Properties::default() }.encode(&mut message);
        message.extend(text("fails"));
        let state = Some(in_transaction(&FIRST, ACCEPTED));
        peer.transfer(Transfer { handle: 2, state, ..transfer(3) }, &message);
        let heard = peer.heard();
        assert_eq!(heard[0].contains("rejected"), when == "at once", "{to} {heard:?}");
        ask(&mut peer, 4, &Discharge { txn_id: &FIRST, fail: false });
        peer.expect(&["disposition Receiver 4..4 settled rejected amqp:transaction:rollback"]);
        assert_eq!(scene.client().check_queue("q", scene.test.now()).unwrap().ready, 0, "{to}");
    }
}

/// A10 of the public cases: an alarm stops no settlements, and no commit for good.
#[test]
fn commits_pass_in_an_alarm() {
    let scene = Scene::new();
    let mut peer = begun(&scene);
    for id in 0..10 {
        peer.message(0, id, "m");
    }
    peer.credit(1, 0, 10, Rest::Kept);
    peer.heard();
    declare(&mut peer, 10);
    let mut sender = begun(&scene);
    declare(&mut sender, 0);
    for id in 1..=10 {
        publish(&mut sender, id, &FIRST);
    }
    scene.test.broker.force_alarm("memory", Switch::On).unwrap();
    let state = Some(in_transaction(&FIRST, ACCEPTED));
    let last = Some(9);
    peer.send(0, &Disposition { role: Role::Receiver, last, settled: true, state, ..Disposition::default() });
    // What makes room passes at once.
    let accepted = "disposition Receiver 11..11 settled accepted".to_owned();
    ask(&mut peer, 11, &Discharge { txn_id: &FIRST, fail: false });
    let heard = peer.heard();
    assert!(heard.contains(&accepted), "{heard:?}");
    // What needs room waits for it, and is answered then.
    ask(&mut sender, 11, &Discharge { txn_id: &FIRST, fail: false });
    let heard = sender.heard();
    assert!(!heard.iter().any(|line| line.starts_with("disposition Receiver 11")), "{heard:?}");
    scene.test.broker.force_alarm("memory", Switch::Off).unwrap();
    scene.test.housekeep();
    let heard = sender.heard();
    assert!(heard.contains(&accepted), "{heard:?}");
    assert_eq!(scene.client().check_queue("q", scene.test.now()).unwrap().ready, 10);
}

/// A17 of the public cases (§4.3): how a controller is told depends on the outcomes of its source.
#[test]
fn a_source_without_rejected_is_detached() {
    for (outcomes, expected) in [
        (
            &["amqp:accepted:list", "amqp:rejected:list"][..],
            "disposition Receiver 1..1 settled rejected amqp:transaction:unknown-id",
        ),
        (&["amqp:accepted:list"], "detach 8 closed amqp:transaction:unknown-id delivery-tag="),
    ] {
        let scene = Scene::new();
        let mut peer = begun(&scene);
        declare(&mut peer, 0);
        let target = Some(AttachTarget::Coordinator(Coordinator::default()));
        let source = Some(Source { outcomes: capabilities(outcomes), ..Source::default() });
        peer.attach(Attach { handle: 8, target, source, ..to_server("other") });
        peer.heard();
        let mut message = Vec::new();
        Section::Value.encode(&Discharge { txn_id: &ABSENT, fail: false }, &mut message);
        peer.transfer(Transfer { handle: 8, ..transfer(1) }, &message);
        let heard = peer.heard();
        assert!(heard.len() == 1 && heard[0].starts_with(expected), "{heard:?}");
        // The transactions of other links live.
        publish(&mut peer, 2, &FIRST);
        ask(&mut peer, 3, &Discharge { txn_id: &FIRST, fail: false });
        peer.expect(&["disposition Receiver 3..3 settled accepted"]);
    }
}

/// §4.2: links of several sessions take part, and the end of one of them changes nothing.
#[test]
fn a_transaction_spans_the_sessions_of_its_connection() {
    let offered = coordinator(&Coordinator::default()).unwrap().capabilities;
    assert!(offered.has("amqp:multi-ssns-per-txn"));
    for (fail, ends, left) in [(false, false, 1), (false, true, 1), (true, false, 2), (true, true, 2)] {
        let scene = Scene::new();
        let mut peer = begun(&scene);
        peer.message(0, 0, "first");
        peer.message(0, 1, "second");
        peer.begin(1, 100);
        peer.send(1, &Attach { handle: 0, source: Some(from("q")), ..to_peer("of session 1") });
        let credit = Flow { handle: Some(0), link_credit: Some(1), incoming_window: 10, ..Flow::default() };
        peer.send(1, &credit);
        peer.heard();
        declare(&mut peer, 2);
        let state = Some(in_transaction(&FIRST, ACCEPTED));
        peer.send(1, &Disposition { role: Role::Receiver, settled: true, state, ..Disposition::default() });
        if ends {
            peer.send(1, &super::scene::end());
            peer.heard();
        }
        ask(&mut peer, 3, &Discharge { txn_id: &FIRST, fail });
        let heard = peer.heard();
        assert!(heard.contains(&"disposition Receiver 3..3 settled accepted".to_owned()), "{heard:?}");
        if !ends {
            // What it took of the session's credit is returned.
            peer.send(1, &super::scene::end());
            peer.heard();
        }
        assert_eq!(scene.client().check_queue("q", scene.test.now()).unwrap().ready, left, "{fail} {ends}");
    }
}

/// §4.3: the end of the coordinator's session undoes what other sessions did.
#[test]
fn the_end_of_a_coordinators_session_rolls_back_in_all_sessions() {
    let scene = Scene::new();
    let mut peer = begun(&scene);
    peer.message(0, 0, "m");
    peer.begin(1, 100);
    peer.send(1, &Attach { handle: 0, source: Some(from("q")), ..to_peer("of session 1") });
    let credit = Flow { handle: Some(0), link_credit: Some(2), incoming_window: 10, ..Flow::default() };
    peer.send(1, &credit);
    peer.heard();
    declare(&mut peer, 1);
    let state = Some(in_transaction(&FIRST, ACCEPTED));
    peer.send(1, &Disposition { role: Role::Receiver, settled: true, state, ..Disposition::default() });
    peer.expect(&[]);
    peer.send(0, &super::scene::end());
    peer.expect(&["end 0", "transfer 0 id=1 m failed=1"]);
}

/// A disposition of delivery 0 in this transaction, which the peer does not settle.
fn promise(peer: &mut Peer, transaction: &[u8], outcome: Outcome<'_>) {
    let state = Some(in_transaction(transaction, outcome));
    peer.send(0, &Disposition { role: Role::Receiver, state, ..Disposition::default() });
}

fn ready(scene: &Scene) -> u64 {
    scene.client().check_queue("q", scene.test.now()).unwrap().ready
}

/// The peer has got one message, and has declared a transaction.
fn delivered(scene: &Scene) -> Peer {
    let mut peer = begun(scene);
    peer.message(0, 0, "m");
    peer.credit(1, 0, 10, Rest::Kept);
    peer.heard();
    declare(&mut peer, 1);
    peer
}

/// §4.4.2: whichever side wants the rollback, what the peer has not settled is still its own.
#[test]
fn what_the_peer_has_not_settled_stays_with_it_after_a_rollback() {
    let full = testkit::broker::table_of("x-max-length=1 x-overflow=reject-publish");
    for how in ["discharge", "detach", "refused at once", "refused by a queue"] {
        let scene = Scene::new();
        let spec = QueueSpec { name: "full".into(), durable: true, arguments: full.clone(), ..QueueSpec::default() };
        scene.client().declare_queue(&spec, scene.test.now()).unwrap();
        let mut peer = delivered(&scene);
        let to = if how == "refused at once" { "/queues/none" } else { "/queues/full" };
        peer.attach_to(2, None);
        peer.attach_to(3, Some("/queues/full"));
        peer.message(3, 2, "fills it");
        peer.heard();
        promise(&mut peer, &FIRST, ACCEPTED);
        peer.expect(&[]);
        if how.starts_with("refused") {
            let mut message = Vec::new();
            Properties { to: Some(to), ..Properties::default() }.encode(&mut message);
            message.extend(text("fails"));
            let state = Some(in_transaction(&FIRST, ACCEPTED));
            peer.transfer(Transfer { handle: 2, state, ..transfer(3) }, &message);
            peer.heard();
        }
        match how {
            "detach" => peer.send(0, &detach(9)),
            _ => ask(&mut peer, 4, &Discharge { txn_id: &FIRST, fail: how == "discharge" }),
        }
        let heard = peer.heard();
        assert_eq!(heard.len(), 1, "{how} {heard:?}");
        assert_eq!(heard[0].contains("rejected amqp:transaction:rollback"), how.starts_with("refused"), "{heard:?}");
        assert_eq!(ready(&scene), 0, "{how}");
        peer.send(0, &disposed(0, 0, ACCEPTED));
        peer.expect(&["disposition Sender 0..0 settled accepted"]);
        peer.send(0, &detach(1));
        peer.heard();
        assert_eq!(ready(&scene), 0, "{how}");
    }
}

/// It can be part of another transaction then.
#[test]
fn a_commit_settles_what_the_peer_has_not_settled() {
    let scene = Scene::new();
    let mut peer = delivered(&scene);
    peer.message(0, 2, "n");
    peer.heard();
    let state = Some(in_transaction(&FIRST, ACCEPTED));
    let both = Disposition { role: Role::Receiver, last: Some(1), state, ..Disposition::default() };
    peer.send(0, &both);
    ask(&mut peer, 3, &Discharge { txn_id: &FIRST, fail: true });
    peer.expect(&["disposition Receiver 3..3 settled accepted"]);
    declare(&mut peer, 4);
    peer.send(0, &Disposition { state: Some(in_transaction(&SECOND, ACCEPTED)), ..both });
    peer.expect(&[]);
    ask(&mut peer, 5, &Discharge { txn_id: &SECOND, fail: false });
    peer.expect(&["disposition Sender 0..1 settled accepted", "disposition Receiver 5..5 settled accepted"]);
    peer.send(0, &detach(1));
    peer.heard();
    assert_eq!(ready(&scene), 0);
}

/// With the link the peer has let go of it.
#[test]
fn what_was_not_settled_returns_to_its_queue_if_its_link_has_ended_before_the_rollback() {
    for (fail, left) in [(false, 0), (true, 1)] {
        let scene = Scene::new();
        let mut peer = delivered(&scene);
        promise(&mut peer, &FIRST, ACCEPTED);
        peer.send(0, &detach(1));
        peer.heard();
        assert_eq!(ready(&scene), 0);
        ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail });
        peer.expect(&["disposition Receiver 2..2 settled accepted"]);
        assert_eq!(ready(&scene), left, "{fail}");
    }
}

/// §4.4.2: the control link is terminated with that error.
#[test]
fn a_delivery_is_in_one_transaction_at_a_time() {
    let scene = Scene::new();
    let mut peer = delivered(&scene);
    declare(&mut peer, 2);
    promise(&mut peer, &FIRST, ACCEPTED);
    peer.expect(&[]);
    promise(&mut peer, &SECOND, ACCEPTED);
    peer.expect(&["detach 9 closed amqp:transaction:rollback"]);
    peer.send(0, &disposed(0, 0, ACCEPTED));
    peer.expect(&["disposition Sender 0..0 settled accepted"]);
}

#[test]
fn the_last_outcome_of_a_delivery_is_the_one_that_counts() {
    let again = |heard: &[String]| heard.iter().find(|line| line.starts_with("transfer")).cloned();
    // In the same transaction.
    let mut peer = delivered(&Scene::new());
    promise(&mut peer, &FIRST, ACCEPTED);
    promise(&mut peer, &FIRST, Outcome::Released);
    ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail: false });
    let heard = peer.heard();
    assert!(heard.contains(&"disposition Sender 0..0 settled released".to_owned()), "{heard:?}");
    assert_eq!(again(&heard).as_deref(), Some("transfer 1 id=1 m"));
    // Settled with what was said before, and outside of the transaction.
    let settled = Disposition { role: Role::Receiver, settled: true, ..Disposition::default() };
    let accepted = Disposition { state: Some(DeliveryState::Outcome(ACCEPTED)), ..settled };
    let in_first = Disposition { state: Some(in_transaction(&FIRST, ACCEPTED)), ..settled };
    for (then, fail, comes) in [
        (settled, false, None),
        (settled, true, Some("transfer 1 id=1 m failed=1")),
        (in_first, true, Some("transfer 1 id=1 m failed=1")),
        (accepted, false, None),
        (accepted, true, None),
    ] {
        let scene = Scene::new();
        let mut peer = delivered(&scene);
        promise(&mut peer, &FIRST, ACCEPTED);
        peer.send(0, &then);
        ask(&mut peer, 2, &Discharge { txn_id: &FIRST, fail });
        let heard = peer.heard();
        assert_eq!(again(&heard).as_deref(), comes, "{then:?} {heard:?}");
        assert!(!heard.iter().any(|line| line.starts_with("disposition Sender")), "{heard:?}");
        assert_eq!(ready(&scene), 0);
    }
}

/// §4.4.3 is not built.
#[test]
fn what_is_to_be_delivered_in_a_transaction_is_refused_by_name() {
    let mut peer = begun(&Scene::new());
    declare(&mut peer, 0);
    let id = Value::Map(vec![(Value::Symbol("txn-id".to_owned()), Value::Binary(FIRST.to_vec()))]).to_bytes();
    let properties = match read_value(&mut wire::Reader::new(&id), &mut Budget::default()) {
        Ok(ValueRef::Map(map)) => Some(map),
        _ => None,
    };
    peer.flow(Flow { handle: Some(1), link_credit: Some(1), properties, ..Flow::default() });
    peer.expect(&["detach 1 closed amqp:not-implemented"]);
}

/// A rollback as Qpid JMS does it: it takes its credit back, ends the transaction, and releases
/// what it had fetched ahead. However much that is, the broker's answers are two frames, and none
/// of them needs another of the client's.
#[test]
fn a_rollback_of_a_thousand_fetched_messages_takes_one_round_trip() {
    const FETCHED: u32 = 1000;
    let mut peer = begun(&Scene::new());
    for id in 0..FETCHED {
        peer.message(0, id, &format!("m{id}"));
    }
    let granted = |delivery_count, link_credit| {
        let (delivery_count, link_credit) = (Some(delivery_count), Some(link_credit));
        Flow { handle: Some(1), delivery_count, link_credit, incoming_window: 4 * FETCHED, ..Flow::default() }
    };
    peer.flow(granted(0, FETCHED));
    peer.heard();
    declare(&mut peer, FETCHED);
    peer.flow(Flow { drain: true, ..granted(FETCHED, 0) });
    ask(&mut peer, FETCHED + 1, &Discharge { txn_id: &FIRST, fail: true });
    for id in 0..FETCHED {
        peer.settle(id, id, Outcome::Released);
    }
    let (drained, ended) = (format!("flow 1 count={FETCHED} credit=0 drain"), FETCHED + 1);
    peer.expect(&[&drained, &format!("disposition Receiver {ended}..{ended} settled accepted")]);
    // All come again, in their order.
    peer.flow(granted(FETCHED, FETCHED));
    let again: Vec<_> = (0..FETCHED).map(|id| format!("transfer 1 id={} m{id}", FETCHED + id)).collect();
    assert_eq!(peer.heard(), again);
}
