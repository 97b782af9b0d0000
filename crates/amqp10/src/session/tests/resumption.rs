//! Links that are attached again with deliveries that their peers have not settled (part 2,
//! §2.6.13).

use std::time::Duration;

use broker::{QueueSpec, Rest, Switch};
use wire::CloseReason;

use super::scene::{ACCEPTED, MAX, Peer, Scene, detach, disposed, from, text, to_peer, to_server, transfer};
use crate::codec::performative::{Attach, Begin, Detach, Disposition, Flow, Open, ReceiverSettleMode, Role, Transfer};
use crate::codec::terminus::{Durability, ExpiryPolicy};
use crate::codec::value::Budget;
use crate::codec::{AttachTarget, Encode, Map, Target, Value, ValueRef, message, read_value};

/// What a peer has not settled, by tags.
fn unsettled(tags: &[&[u8]]) -> Option<Map<'static>> {
    let pairs = tags.iter().map(|tag| (Value::Binary(tag.to_vec()), Value::Null)).collect();
    let bytes = Value::Map(pairs).to_bytes().leak();
    match read_value(&mut wire::Reader::new(bytes), &mut Budget::default()) {
        Ok(ValueRef::Map(map)) => Some(map),
        other => panic!("{other:?}"),
    }
}

fn durable(address: &str) -> Option<AttachTarget<'_>> {
    let durable = Durability::UnsettledState;
    let target = Target { address: Some(address), durable, expiry_policy: ExpiryPolicy::Never, ..Target::default() };
    Some(AttachTarget::Target(target))
}

/// A link on which the peer sends, and which outlives its connection.
fn lasting(address: &str) -> Attach<'_> {
    Attach { target: durable(address), ..to_server("lasting") }
}

fn lose(mut peer: Peer) {
    let now = peer.driver.now;
    peer.driver.connection.close(CloseReason::Gone, now);
}

fn stored(body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    message::Header { durable: true, ..message::Header::default() }.encode(&mut bytes);
    bytes.extend(text(body));
    bytes
}

fn send(peer: &mut Peer, id: u32, tag: &[u8], body: &str) {
    peer.transfer(Transfer { delivery_tag: Some(tag), ..transfer(id) }, &stored(body));
}

fn resume(peer: &mut Peer, id: u32, tag: &[u8]) {
    peer.transfer(Transfer { delivery_tag: Some(tag), resume: true, ..transfer(id) }, &stored("resumed"));
}

fn ready(scene: &Scene) -> u64 {
    scene.client().check_queue("q", scene.test.now()).unwrap().ready
}

/// A5 of the public cases.
#[test]
fn a_producer_learns_what_was_stored_before_its_connection_was_lost() {
    // What was not flushed when the connection was lost is accepted when it is.
    for flushed in [true, false] {
        let scene = Scene::stepped();
        let mut peer = scene.session();
        peer.attach(lasting("q"));
        scene.test.flush();
        peer.heard();
        send(&mut peer, 0, b"one", "m");
        if flushed {
            scene.test.flush();
        }
        lose(peer);
        let mut peer = scene.session();
        peer.attach(Attach { unsettled: unsettled(&[b"one", b"two"]), ..lasting("q") });
        if !flushed {
            peer.expect(&[]);
        }
        scene.test.flush();
        peer.expect(&["attach 0 Receiver - > q unsettled={binary(6f6e65)=accepted}", "flow 0 count=0 credit=8000"]);
        resume(&mut peer, 0, b"one");
        peer.expect(&["disposition Receiver 0..0 settled accepted"]);
        // What is not in the broker's map is ignored (§2.7.5) and sent again as new.
        resume(&mut peer, 1, b"two");
        peer.expect(&[]);
        send(&mut peer, 2, b"two", "m");
        scene.test.flush();
        peer.expect(&["disposition Receiver 2..2 settled accepted"]);
        assert_eq!(ready(&scene), 2, "{flushed}");
    }
}

#[test]
fn refusals_are_remembered_and_what_waits_behind_an_alarm_is_not_claimed() {
    let scene = Scene::new();
    let arguments = testkit::broker::table_of("x-max-length=1 x-overflow=reject-publish");
    let spec = QueueSpec { name: "q".into(), durable: true, arguments, ..QueueSpec::default() };
    scene.client().declare_queue(&spec, scene.test.now()).unwrap();
    let mut peer = scene.session();
    peer.attach(lasting("/queues/q"));
    send(&mut peer, 0, b"a", "fits");
    send(&mut peer, 1, b"b", "does not");
    scene.test.broker.force_alarm("memory", Switch::On).unwrap();
    send(&mut peer, 2, b"c", "waits");
    lose(peer);
    scene.test.broker.force_alarm("memory", Switch::Off).unwrap();
    scene.test.housekeep();
    let mut peer = scene.session();
    peer.attach(Attach { unsettled: unsettled(&[b"a", b"b", b"c"]), ..lasting("/queues/q") });
    let heard = peer.heard();
    assert!(heard[0].contains("binary(61)=accepted, binary(62)=rejected}"), "{heard:?}");
    resume(&mut peer, 0, b"b");
    peer.expect(&["disposition Receiver 0..0 settled rejected amqp:resource-limit-exceeded"]);
}

#[test]
fn a_terminus_ends_with_a_closed_link_and_after_its_time() {
    let scene = Scene::new();
    let again = |peer: &mut Peer| {
        peer.attach(Attach { unsettled: unsettled(&[b"one"]), ..lasting("q") });
        let heard = peer.heard();
        heard[0].contains("accepted")
    };
    let begin = || {
        let mut peer = scene.session();
        peer.attach(lasting("q"));
        send(&mut peer, 0, b"one", "m");
        peer.heard();
        peer
    };
    let mut peer = begin();
    peer.send(0, &detach(0));
    peer.heard();
    assert!(!again(&mut peer), "it was closed");
    peer.send(0, &detach(0));
    drop(peer);
    for (leave, kept) in [(0, true), (1, true), (2, true)] {
        let mut peer = begin();
        match leave {
            0 => peer.send(0, &Detach { handle: 0, closed: false, error: None }),
            1 => peer.send(0, &super::scene::end()),
            _ => peer.send(0, &super::scene::close()),
        }
        peer.heard();
        lose(peer);
        let mut peer = scene.session();
        assert_eq!(again(&mut peer), kept, "{leave}");
        peer.send(0, &detach(0));
        peer.heard();
    }
    let peer = begin();
    lose(peer);
    assert!(scene.test.broker.user_held_bytes("guest") > 0, "it is charged");
    scene.test.setup.clock.advance(3_601_000);
    let mut peer = scene.session();
    peer.driver.now = scene.test.now();
    assert!(!again(&mut peer), "its time is over");
    assert_eq!(scene.test.broker.user_held_bytes("guest"), 0);
}

#[test]
fn a_peer_that_settles_second_is_done_with_what_it_settles() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..lasting("q") });
    send(&mut peer, 0, b"one", "m");
    send(&mut peer, 1, b"two", "m");
    peer.heard();
    peer.send(0, &Disposition { role: Role::Sender, settled: true, ..disposed(0, 0, ACCEPTED) });
    lose(peer);
    let mut peer = scene.session();
    peer.attach(Attach { unsettled: unsettled(&[b"one", b"two"]), ..lasting("q") });
    let heard = peer.heard();
    assert_eq!(heard[0], "attach 0 Receiver - > q unsettled={binary(74776f)=accepted}");
}

/// A7 of the public cases: a map that has no room in a frame is cut, and no frame is too large.
#[test]
fn a_map_is_cut_for_the_peers_frames() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach(lasting("q"));
    let tags: Vec<[u8; 4]> = (0..100_u32).map(u32::to_be_bytes).collect();
    for (id, tag) in tags.iter().enumerate() {
        send(&mut peer, id as u32, tag, "m");
    }
    peer.heard();
    lose(peer);
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", max_frame_size: 512, ..Open::default() });
    peer.send(0, &Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() });
    let all: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
    peer.attach(Attach { unsettled: unsettled(&all), ..lasting("q") });
    peer.driver.run();
    let bytes = peer.driver.output.clone();
    let mut at = 0;
    while let Some(frame) = crate::codec::decode_frame(&bytes[at..], MAX).unwrap() {
        assert!(frame.size <= 512, "{}", frame.size);
        at += frame.size as usize;
    }
    let heard = peer.heard();
    assert!(heard.iter().any(|line| line.contains("binary(00000000)=accepted") && line.ends_with(" incomplete")));
}

/// A6 and A7 of the public cases: what a suspended link had not settled is in its queue again, and
/// is not counted. Nothing new comes on a link whose peer has named a part only (§2.7.3).
#[test]
fn a_consumer_that_comes_back_gets_its_messages_as_new_ones() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(9, Some("q"));
    for (id, body) in ["a", "b", "c"].iter().enumerate() {
        peer.message(9, id as u32, body);
    }
    peer.attach(Attach { source: Some(from("q")), ..to_peer("l") });
    peer.credit(0, 0, 2, Rest::Kept);
    peer.heard();
    peer.send(0, &Detach { handle: 0, closed: false, error: None });
    peer.expect(&["detach 0"]);
    let tags = [1_u64.to_be_bytes(), 2_u64.to_be_bytes()];
    let named = unsettled(&[&tags[0], &tags[1]]);
    let part = Attach { source: Some(from("q")), unsettled: named, incomplete_unsettled: true, ..to_peer("l") };
    peer.attach(part);
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&["attach 0 Sender q > - unsettled={}"]);
    peer.pass(Duration::from_secs(1));
    peer.flow(Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(10), drain: true, ..Flow::default() });
    peer.expect(&["flow 0 count=10 credit=0 drain"]);
    peer.send(0, &detach(0));
    peer.expect(&["detach 0 closed"]);
    peer.attach(Attach { source: Some(from("q")), unsettled: named, ..to_peer("l") });
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&["attach 0 Sender q > - unsettled={}", "transfer 0 id=2 a", "transfer 0 id=3 b", "transfer 0 id=4 c"]);
}
