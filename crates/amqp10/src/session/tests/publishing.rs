//! What peers send: answers, parts, credit, and what is wrong with messages.

use broker::Rest;
use testkit::broker::Setup;

use super::scene::{ACCEPTED, Scene, text, to_server, transfer};
use crate::codec::message::Properties;
use crate::codec::performative::{Attach, ReceiverSettleMode, Transfer};
use crate::codec::state::TransactionalState;
use crate::codec::{AttachTarget, DeliveryState, Encode, Section, Target, Value};
use crate::session::receiver::CREDIT;

#[test]
fn answers_come_as_ranges_of_each_link() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.attach_to(1, Some("/exchanges/amq.direct/nowhere"));
    peer.heard();
    let mut bytes = Vec::new();
    for (id, handle) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 0)] {
        let frame = frame_of(&Transfer { handle, ..transfer(id) }, &text("m"));
        bytes.extend(frame);
    }
    peer.raw(&bytes);
    peer.expect(&[
        "disposition Receiver 0..2 settled accepted",
        "disposition Receiver 3..3 settled released",
        "disposition Receiver 4..4 settled accepted",
    ]);
}

fn frame_of(transfer: &Transfer<'_>, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::delivery::encode_transfers(*transfer, 0, payload, 1 << 20, &mut out);
    out
}

#[test]
fn an_answer_waits_for_the_flush() {
    let scene = Scene::stepped();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    // The queue is made, so even the link waits.
    peer.expect(&[]);
    scene.test.flush();
    peer.expect(&["attach 0 Receiver - > q", "flow 0 count=0 credit=8000"]);
    let mut message = Vec::new();
    crate::codec::message::Header { durable: true, ..Default::default() }.encode(&mut message);
    message.extend(text("kept"));
    peer.transfer(transfer(0), &message);
    peer.expect(&[]);
    scene.test.flush();
    peer.expect(&["disposition Receiver 0..0 settled accepted"]);
}

#[test]
fn a_message_in_parts_is_one_and_an_aborted_one_is_none() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    peer.attach_to(1, Some("q"));
    peer.heard();
    let message = text("in three parts");
    let more = |handle, id| Transfer { handle, more: true, ..transfer(id) };
    peer.transfer(more(0, 0), &message[..5]);
    // Messages of different links may interleave.
    peer.transfer(more(1, 1), &message[..3]);
    peer.transfer(Transfer { handle: 0, more: true, ..Transfer::default() }, &message[5..9]);
    peer.transfer(Transfer { handle: 1, aborted: true, ..Transfer::default() }, b"");
    peer.expect(&[]);
    peer.transfer(Transfer { handle: 0, ..Transfer::default() }, &message[9..]);
    peer.expect(&["disposition Receiver 0..0 settled accepted"]);
    assert_eq!(scene.test.broker.user_held_bytes("guest"), 0);
    peer.attach_from(2, "q");
    peer.credit(2, 0, 10, Rest::Kept);
    peer.expect(&["attach 2 Sender q > -", "transfer 2 id=0 in three parts"]);
}

#[test]
fn a_message_that_is_not_finished_is_charged_and_let_go() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    peer.transfer(Transfer { more: true, ..transfer(0) }, &[0; 1000]);
    assert_eq!(scene.test.broker.user_held_bytes("guest"), 1000);
    peer.send(0, &super::scene::detach(0));
    peer.expect(&["detach 0 closed"]);
    assert_eq!(scene.test.broker.user_held_bytes("guest"), 0);
    peer.pass(std::time::Duration::from_secs(50));
    peer.expect(&[]);
}

#[test]
fn settled_messages_have_no_answer_and_an_error_detaches() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    peer.transfer(Transfer { settled: Some(true), ..transfer(0) }, &text("m"));
    peer.expect(&[]);
    peer.transfer(Transfer { settled: Some(true), ..transfer(1) }, b"\0\x53");
    peer.expect(&["detach 0 closed amqp:decode-error delivery-tag=binary(74)"]);
}

#[test]
fn what_is_wrong_with_a_message_is_told_of_it_alone() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    let txn = TransactionalState { txn_id: b"1", outcome: None };
    let mut foreign = Vec::new();
    Properties { user_id: Some(b"other"), ..Properties::default() }.encode(&mut foreign);
    foreign.extend(text("m"));
    for (id, with, message, condition) in [
        (0, Transfer::default(), b"\0\x53".to_vec(), "amqp:decode-error"),
        (1, Transfer { message_format: Some(7), ..Transfer::default() }, text("m"), "amqp:not-implemented"),
        (
            2,
            Transfer { state: Some(DeliveryState::Transactional(txn)), ..Transfer::default() },
            text("m"),
            "amqp:transaction:unknown-id",
        ),
        (3, Transfer::default(), foreign, "amqp:unauthorized-access"),
    ] {
        peer.transfer(Transfer { delivery_id: Some(id), delivery_tag: Some(b"t"), ..with }, &message);
        peer.expect(&[&format!("disposition Receiver {id}..{id} settled rejected {condition}")]);
    }
    peer.message(0, 4, "good");
    peer.expect(&["disposition Receiver 4..4 settled accepted"]);
    // Part 2, §2.7.5: only where the link has agreed on it.
    peer.transfer(Transfer { rcv_settle_mode: Some(ReceiverSettleMode::Second), ..transfer(5) }, &text("m"));
    peer.expect(&["detach 0 closed amqp:invalid-field"]);
}

#[test]
fn an_anonymous_relay_takes_each_message_where_it_says() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(0, None);
    peer.expect(&["attach 0 Receiver - > -", "flow 0 count=0 credit=8000"]);
    for (id, to, answer) in [
        (0, Some("plain"), "accepted"),
        (1, Some("/queues/plain"), "accepted"),
        (2, Some("/queues/none"), "released"),
        (3, Some("/exchanges/none/k"), "rejected amqp:not-found"),
        (4, Some("/nonsense"), "rejected amqp:invalid-field"),
        (5, None, "rejected amqp:precondition-failed"),
        (6, Some("/topic/without.subscribers"), "accepted"),
    ] {
        let mut message = Vec::new();
        Properties { to, ..Properties::default() }.encode(&mut message);
        message.extend(text("m"));
        peer.transfer(transfer(id), &message);
        peer.expect(&[&format!("disposition Receiver {id}..{id} settled {answer}")]);
    }
}

#[test]
fn credit_is_topped_up_and_more_than_it_detaches() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    let mut flows = 0;
    for id in 0..3 * CREDIT {
        peer.message(0, id, "m");
        flows += peer.heard().iter().filter(|line| line.starts_with("flow 0")).count();
    }
    assert!((4..=12).contains(&flows), "{flows}");
    // Without answers there is no more credit than was granted.
    let scene = Scene::stepped();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    scene.test.flush();
    peer.heard();
    let mut message = Vec::new();
    crate::codec::message::Header { durable: true, ..Default::default() }.encode(&mut message);
    message.extend(text("m"));
    for id in 0..CREDIT {
        peer.transfer(transfer(id), &message);
    }
    peer.expect(&[]);
    peer.transfer(transfer(CREDIT), &message);
    peer.expect(&["detach 0 closed amqp:link:transfer-limit-exceeded"]);
}

#[test]
fn a_peer_that_settles_second_gets_an_answer_that_is_not_settled() {
    let mut peer = Scene::new().session();
    let target = Some(AttachTarget::Target(Target { address: Some("q"), ..Target::default() }));
    peer.attach(Attach { rcv_settle_mode: ReceiverSettleMode::Second, target, ..to_server("second") });
    peer.heard();
    peer.message(0, 0, "m");
    peer.expect(&["disposition Receiver 0..0 accepted"]);
}

/// A message whose body is this text, with one annotation.
fn annotated(name: &str, value: Value, body: &str) -> Vec<u8> {
    let mut message = Vec::new();
    Section::MessageAnnotations.encode(&Value::Map(vec![(Value::Symbol(name.to_owned()), value)]), &mut message);
    message.extend(text(body));
    message
}

#[test]
fn annotations_say_when_a_message_is_due() {
    const DELAY: &str = "x-opt-delivery-delay";
    const TIME: &str = "x-opt-delivery-time";
    let scene = Scene::new();
    let due = scene.client().unix_ms() + 1000;
    for (number, (name, value)) in [
        (DELAY, Value::I64(1000)),
        (DELAY, Value::U32(1000)),
        (TIME, Value::I64(due as i64)),
        (TIME, Value::U64(due)),
        (TIME, Value::Timestamp(due as i64)),
    ]
    .into_iter()
    .enumerate()
    {
        let queue = format!("due {number}");
        let mut peer = scene.session();
        peer.attach_to(0, Some(&queue));
        peer.transfer(transfer(0), &annotated(name, value, "late"));
        peer.message(0, 1, "at once");
        peer.attach_from(1, &queue);
        peer.credit(1, 0, 1, Rest::Kept);
        let heard = peer.heard();
        assert_eq!(heard.last().unwrap(), "transfer 1 id=0 at once", "{name} {heard:?}");
        peer.settle(0, 0, ACCEPTED);
        assert_eq!(scene.client().check_queue(&queue, scene.test.now()).unwrap().ready, 0, "{name}");
    }
    scene.test.setup.clock.advance(1001);
    scene.test.housekeep();
    let mut client = scene.client();
    for number in 0..5 {
        let found = client.check_queue(&format!("due {number}"), scene.test.now()).unwrap();
        assert_eq!(found.ready, 1, "{number}");
    }
}

#[test]
fn a_time_that_cannot_be_read_is_refused_by_name() {
    let mut peer = Scene::new().session();
    peer.attach_to(0, Some("q"));
    peer.heard();
    peer.transfer(transfer(0), &annotated("x-opt-delivery-time", Value::I64(-1), "m"));
    peer.expect(&["disposition Receiver 0..0 settled rejected amqp:precondition-failed"]);
}

#[test]
fn a_queue_that_is_full_rejects_with_a_condition() {
    let scene = Scene::new();
    let arguments = testkit::broker::table_of("x-max-length=1 x-overflow=reject-publish");
    let spec = broker::QueueSpec { name: "full".into(), durable: true, arguments, ..Default::default() };
    scene.client().declare_queue(&spec, scene.test.now()).unwrap();
    let mut peer = scene.session();
    peer.attach_to(0, Some("/queues/full"));
    peer.heard();
    peer.message(0, 0, "first");
    peer.message(0, 1, "second");
    peer.expect(&[
        "disposition Receiver 0..0 settled accepted",
        "disposition Receiver 1..1 settled rejected amqp:resource-limit-exceeded",
    ]);
}

/// What a link announces holds for the whole message, header and properties included (part 2,
/// §2.7.3), in one transfer and in several.
#[test]
fn a_message_may_be_as_large_as_its_link_says_and_no_larger() {
    const MOST: usize = 4000;
    for parts in [1, 3] {
        let mut setup = Setup::memory();
        setup.settings.limits.max_message_bytes = MOST as u64;
        let scene = Scene::open(setup);
        let mut peer = scene.session();
        peer.attach_to(1, Some("q"));
        peer.heard();
        for (id, size) in [MOST, MOST + 1].into_iter().enumerate() {
            let head = text(&"x".repeat(1000)).len() - 1000;
            let message = text(&"x".repeat(size - head));
            assert_eq!(message.len(), size);
            let part = size.div_ceil(parts);
            for (number, payload) in message.chunks(part).enumerate() {
                let more = number + 1 < parts;
                let first = if number == 0 { transfer(id as u32) } else { Transfer::default() };
                peer.transfer(Transfer { handle: 1, more, ..first }, payload);
            }
            let heard = peer.heard();
            match size > MOST {
                true => assert!(heard[0].contains("amqp:link:message-size-exceeded"), "{heard:?}"),
                false => assert_eq!(heard, ["disposition Receiver 0..0 settled accepted"]),
            }
        }
    }
}
