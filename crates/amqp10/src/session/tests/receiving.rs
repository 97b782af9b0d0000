//! What peers get: credit, drain, windows, outcomes, browsers, and what happens to what they leave.

use broker::{QueueSpec, Rest, Table, Value};
use wire::CloseReason;

use super::scene::{ACCEPTED, MAX, Peer, Scene, close, detach, disposed, end, from, text, to_peer, transfer};
use crate::codec::message::Header;
use crate::codec::performative::{Attach, Disposition, Flow, Open, ReceiverSettleMode, SenderSettleMode, Transfer};
use crate::codec::state::{Modified, Rejected};
use crate::codec::{Encode, Message, Outcome, Section, Source, Symbol};

/// A session with these messages in the queue `q`.
fn filled(scene: &Scene, window: u32, bodies: &[&str]) -> Peer {
    let mut peer = scene.session_with_window(window);
    peer.attach_to(9, Some("q"));
    for (id, body) in bodies.iter().enumerate() {
        peer.message(9, id as u32, body);
    }
    peer.heard();
    peer
}

#[test]
fn credit_is_absolute_and_a_drain_ends_at_once() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a", "b", "c"]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 2, Rest::Kept);
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a", "transfer 0 id=1 b"]);
    // The same again grants nothing: the peer has not seen the deliveries yet.
    peer.credit(0, 0, 2, Rest::Kept);
    peer.expect(&[]);
    peer.credit(0, 2, 5, Rest::Drained);
    peer.expect(&["transfer 0 id=2 c", "flow 0 count=7 credit=0 drain"]);
    peer.credit(0, 7, 3, Rest::Drained);
    peer.expect(&["flow 0 count=10 credit=0 drain"]);
    peer.credit(0, 10, 0, Rest::Drained);
    peer.expect(&["flow 0 count=10 credit=0 drain"]);
    peer.credit(0, 10, 1, Rest::Kept);
    peer.message(9, 3, "d");
    peer.expect(&["disposition Receiver 3..3 settled accepted", "transfer 0 id=3 d"]);
}

/// A JMS client has granted what it may fetch ahead. At the end of a `receive` with a timeout it
/// asks by a drain whether there is a message, and grants the same again.
#[test]
fn a_receive_on_an_empty_queue_takes_one_round_trip() {
    let mut peer = filled(&Scene::new(), 1000, &[]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 1000, Rest::Kept);
    peer.expect(&["attach 0 Sender q > -"]);
    for asked in 0..3 {
        let count = 1000 * asked;
        peer.credit(0, count, 1000, Rest::Drained);
        peer.expect(&[&format!("flow 0 count={} credit=0 drain", count + 1000)]);
        peer.credit(0, count + 1000, 1000, Rest::Kept);
        peer.expect(&[]);
    }
}

/// Bodies from 4 KiB on are referenced in the output, with what stands before and behind them.
#[test]
fn a_body_of_any_size_is_delivered_whole_with_its_footer() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(9, Some("q"));
    peer.attach_from(0, "q");
    peer.credit(0, 0, 20, Rest::Kept);
    peer.heard();
    for (id, size) in [0, 1, 4095, 4096, 5000, 60_000].into_iter().enumerate() {
        for sections in [1, 2] {
            let mut bare = Vec::new();
            for part in 0..sections {
                Section::encode_data_head(size, &mut bare);
                bare.extend((0..size).map(|at| (at + part) as u8));
            }
            Section::Footer.encode(&crate::codec::Value::Map(Vec::new()), &mut bare);
            peer.transfer(
                Transfer { handle: 9, settled: Some(true), ..transfer((id * 2 + sections - 1) as u32) },
                &bare,
            );
            let delivered = peer.payloads().concat();
            let header = delivered.len() - bare.len();
            assert_eq!(Message::decode(&delivered[..header]).unwrap().header.unwrap().delivery_count, 0);
            assert_eq!(delivered[header..], bare, "{sections} sections of {size} bytes");
        }
    }
}

#[test]
fn an_echo_is_answered() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a"]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 3, Rest::Kept);
    peer.heard();
    peer.flow(Flow { echo: true, ..Flow::default() });
    peer.expect(&["flow next=1 window=16384"]);
    peer.flow(Flow { echo: true, handle: Some(0), delivery_count: Some(1), link_credit: Some(2), ..Flow::default() });
    peer.expect(&["flow 0 count=1 credit=2"]);
}

#[test]
fn the_outcomes_do_what_they_say() {
    let modified = |delivery_failed, undeliverable_here| {
        Outcome::Modified(Modified { delivery_failed, undeliverable_here, message_annotations: None })
    };
    for (outcome, again) in [
        (ACCEPTED, None),
        (Outcome::Rejected(Rejected { error: None }), None),
        (modified(true, true), None),
        (Outcome::Released, Some("transfer 0 id=1 a")),
        (modified(false, false), Some("transfer 0 id=1 a")),
        (modified(true, false), Some("transfer 0 id=1 a failed=1")),
    ] {
        let scene = Scene::new();
        let mut peer = filled(&scene, 1000, &["a"]);
        peer.attach_from(0, "q");
        peer.credit(0, 0, 1, Rest::Kept);
        peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a"]);
        peer.settle(0, 0, outcome);
        peer.credit(0, 1, 1, Rest::Drained);
        let heard = peer.heard();
        match again {
            Some(line) => assert_eq!(heard, [line, "flow 0 count=2 credit=0 drain"], "{outcome:?}"),
            None => assert_eq!(heard, ["flow 0 count=2 credit=0 drain"], "{outcome:?}"),
        }
    }
}

#[test]
fn a_range_settles_what_was_sent_of_it() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a", "b", "c", "d"]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 4, Rest::Kept);
    peer.heard();
    peer.settle(1, 2, ACCEPTED);
    peer.settle(0, u32::MAX / 2 - 1, ACCEPTED);
    // Twice is no error.
    peer.settle(0, 3, ACCEPTED);
    peer.send(0, &end());
    peer.expect(&["end 0"]);
    peer.begin(0, 100);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 4, Rest::Drained);
    assert_eq!(peer.heard()[2..], ["flow 0 count=4 credit=0 drain"]);
}

#[test]
fn the_peer_may_settle_after_this_side() {
    let scene = Scene::stepped();
    let mut peer = scene.session();
    peer.attach_to(9, Some("q"));
    scene.test.flush();
    let mut message = Vec::new();
    crate::codec::Encode::encode(&crate::codec::message::Header { durable: true, ..Default::default() }, &mut message);
    message.extend(super::scene::text("a"));
    peer.transfer(crate::codec::performative::Transfer { handle: 9, ..super::scene::transfer(0) }, &message);
    scene.test.flush();
    peer.heard();
    peer.attach(Attach { rcv_settle_mode: ReceiverSettleMode::Second, source: Some(from("q")), ..to_peer("in") });
    peer.credit(0, 0, 1, Rest::Kept);
    // It waited in the queue, so a mark on the disk comes before it.
    scene.test.flush();
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a"]);
    peer.send(0, &disposed(0, 0, ACCEPTED));
    // The settlement is not durable yet.
    peer.expect(&[]);
    scene.test.flush();
    peer.expect(&["disposition Sender 0..0 settled accepted"]);
    peer.send(0, &Disposition { settled: true, ..disposed(0, 0, ACCEPTED) });
    peer.expect(&[]);
}

#[test]
fn settled_deliveries_need_nothing() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a"]);
    peer.attach(Attach { snd_settle_mode: SenderSettleMode::Settled, source: Some(from("q")), ..to_peer("in") });
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&["attach 0 Sender q > - settled", "transfer 0 id=0 settled a"]);
    peer.send(0, &detach(0));
    peer.expect(&["detach 0 closed"]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 10, Rest::Drained);
    assert_eq!(peer.heard()[1..], ["flow 0 count=10 credit=0 drain"]);
}

#[test]
fn a_browser_sees_all_once_and_takes_nothing() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a", "b"]);
    peer.attach(Attach {
        source: Some(Source { distribution_mode: Some(Symbol("copy")), ..from("q") }),
        ..to_peer("browser")
    });
    peer.credit(0, 0, 1, Rest::Drained);
    let heard = peer.heard();
    assert_eq!(heard[..2], ["attach 0 Sender q > - settled", "transfer 0 id=0 settled a"]);
    peer.credit(0, 1, 1, Rest::Drained);
    peer.credit(0, 2, 1, Rest::Drained);
    let heard = peer.heard();
    assert_eq!(heard[0], "transfer 0 id=1 settled b");
    assert_eq!(heard.last().unwrap(), "flow 0 count=3 credit=0 drain");
    peer.send(0, &detach(0));
    peer.heard();
    peer.attach_from(0, "q");
    peer.credit(0, 0, 10, Rest::Kept);
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=2 a", "transfer 0 id=3 b"]);
}

#[test]
fn what_is_left_at_the_end_of_a_link_ends_as_its_source_says() {
    let failed =
        Outcome::Modified(Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None });
    for (default_outcome, left) in [(None, 1), (Some(failed), 1), (Some(ACCEPTED), 0)] {
        let scene = Scene::new();
        let mut peer = filled(&scene, 1000, &["a"]);
        peer.attach(Attach { source: Some(Source { default_outcome, ..from("q") }), ..to_peer("in") });
        peer.credit(0, 0, 1, Rest::Kept);
        assert_eq!(peer.heard()[1], "transfer 0 id=0 a");
        peer.send(0, &detach(0));
        peer.expect(&["detach 0 closed"]);
        let mut client = scene.client();
        assert_eq!(client.check_queue("q", scene.test.now()).unwrap().ready, left, "{default_outcome:?}");
    }
}

#[test]
fn the_sessions_window_holds_deliveries_back() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 2, &["a", "b", "c", "d"]);
    peer.attach_from(0, "q");
    // The peer's window is the one of begin: two transfers.
    peer.send(
        0,
        &Flow {
            incoming_window: 2,
            next_incoming_id: Some(0),
            handle: Some(0),
            delivery_count: Some(0),
            link_credit: Some(10),
            ..Flow::default()
        },
    );
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a", "transfer 0 id=1 b"]);
    let window = |next| Flow { incoming_window: 1, next_incoming_id: Some(next), ..Flow::default() };
    peer.send(0, &window(2));
    peer.expect(&["transfer 0 id=2 c"]);
    peer.send(0, &window(2));
    peer.expect(&[]);
    peer.send(0, &Flow { incoming_window: 10, next_incoming_id: Some(3), ..Flow::default() });
    peer.expect(&["transfer 0 id=3 d"]);
    peer.message(9, 4, "e");
    peer.expect(&["disposition Receiver 4..4 settled accepted", "transfer 0 id=4 e"]);
    // A drain behind what is held is told behind it.
    peer.send(0, &Flow { incoming_window: 0, next_incoming_id: Some(5), ..Flow::default() });
    peer.message(9, 5, "f");
    peer.heard();
    peer.send(
        0,
        &Flow {
            incoming_window: 0,
            next_incoming_id: Some(5),
            handle: Some(0),
            delivery_count: Some(5),
            link_credit: Some(5),
            drain: true,
            ..Flow::default()
        },
    );
    peer.expect(&[]);
    peer.send(0, &Flow { incoming_window: 10, next_incoming_id: Some(5), ..Flow::default() });
    peer.expect(&["transfer 0 id=5 f", "flow 0 count=10 credit=0 drain"]);
}

/// Proton-J ends the connection at a gap: "Expected delivery-id 132, got 144".
#[test]
fn ids_have_no_gaps_when_a_link_goes_with_what_was_on_its_way() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 2, &["a", "b", "c", "d"]);
    peer.attach_from(0, "q");
    let credit = |window, seen, count| Flow {
        incoming_window: window,
        next_incoming_id: Some(seen),
        handle: Some(0),
        delivery_count: Some(count),
        link_credit: Some(10),
        ..Flow::default()
    };
    peer.send(0, &credit(2, 0, 0));
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a", "transfer 0 id=1 b"]);
    peer.send(0, &detach(0));
    peer.expect(&["detach 0 closed"]);
    peer.attach_from(0, "q");
    peer.send(0, &credit(10, 2, 0));
    let again = ["transfer 0 id=2 a", "transfer 0 id=3 b", "transfer 0 id=4 c", "transfer 0 id=5 d"];
    peer.expect(&[&["attach 0 Sender q > -"], &again[..]].concat());
    // The ids name these deliveries, and no others.
    peer.settle(3, 4, ACCEPTED);
    peer.send(0, &detach(0));
    peer.heard();
    peer.attach_from(0, "q");
    peer.send(0, &credit(10, 6, 0));
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=6 a", "transfer 0 id=7 d"]);
}

#[test]
fn what_is_held_at_the_end_was_never_delivered() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1, &["a", "b", "c"]);
    let failed =
        Outcome::Modified(Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None });
    peer.attach(Attach { source: Some(Source { default_outcome: Some(failed), ..from("q") }), ..to_peer("in") });
    peer.send(
        0,
        &Flow {
            incoming_window: 1,
            next_incoming_id: Some(0),
            handle: Some(0),
            delivery_count: Some(0),
            link_credit: Some(10),
            ..Flow::default()
        },
    );
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a"]);
    peer.send(0, &end());
    peer.expect(&["end 0"]);
    assert_eq!(scene.client().check_queue("q", scene.test.now()).unwrap().ready, 3);
}

#[test]
fn a_large_message_is_cut_for_the_peers_frames() {
    let scene = Scene::new();
    let body = "x".repeat(2000);
    filled(&scene, 1000, &[&body]);
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", max_frame_size: 1000, ..Open::default() });
    peer.begin(0, 1000);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 1, Rest::Kept);
    let heard = peer.heard();
    assert!(peer.driver.output.is_empty() && MAX > 1000);
    let transfers: Vec<_> = heard.iter().filter(|line| line.starts_with("transfer")).collect();
    assert_eq!(transfers.len(), 3, "{heard:?}");
    assert!(transfers[0].starts_with("transfer 0 id=0 more") && transfers[1].starts_with("transfer 0 more"));
}

/// go-amqp takes its credit back so: the rest of an earlier grant must not stay with the queue.
#[test]
fn a_drain_without_credit_takes_back_what_was_granted() {
    let scene = Scene::new();
    let mut peer = filled(&scene, 1000, &["a", "b"]);
    peer.attach_from(0, "q");
    peer.credit(0, 0, 5, Rest::Kept);
    peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a", "transfer 0 id=1 b"]);
    peer.credit(0, 2, 0, Rest::Drained);
    peer.expect(&["flow 0 count=2 credit=0 drain"]);
    peer.message(9, 2, "c");
    assert!(!peer.heard().iter().any(|line| line.starts_with("transfer")), "there is no credit");
    peer.credit(0, 2, 1, Rest::Kept);
    peer.expect(&["transfer 0 id=2 c"]);
}

/// Qpid JMS asks for this outcome of what it leaves unsettled. Before it ends anything in the
/// ordinary way, it settles what its program has seen; so the rest was only fetched ahead.
#[test]
fn what_was_only_fetched_ahead_did_not_fail_unless_the_peer_is_lost() {
    let failed =
        Outcome::Modified(Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None });
    type Leave = fn(&mut Peer);
    let ends: [(Leave, &str); 5] = [
        (|peer| peer.send(0, &detach(0)), ""),
        (|peer| peer.send(0, &end()), ""),
        (|peer| peer.send(0, &close()), ""),
        // A transfer on a link that this side sends on ends the session with an error.
        (|peer| peer.message(0, 7, "x"), " failed=1"),
        (|peer| peer.driver.connection.close(CloseReason::Gone, peer.driver.now), " failed=1"),
    ];
    for (number, (leave, shown)) in ends.into_iter().enumerate() {
        let scene = Scene::new();
        // The session's window has no room for the second message: it is never sent.
        let mut peer = filled(&scene, 1, &["a", "b"]);
        peer.attach(Attach { source: Some(Source { default_outcome: Some(failed), ..from("q") }), ..to_peer("in") });
        let credit = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(10), ..Flow::default() };
        peer.send(0, &Flow { incoming_window: 1, next_incoming_id: Some(0), ..credit });
        peer.expect(&["attach 0 Sender q > -", "transfer 0 id=0 a"]);
        leave(&mut peer);
        peer.heard();
        let mut other = scene.session();
        other.attach_from(0, "q");
        other.credit(0, 0, 4, Rest::Kept);
        let expected = [format!("transfer 0 id=0 a{shown}"), "transfer 0 id=1 b".to_owned()];
        assert_eq!(other.heard()[1..], expected, "{number}");
    }
}

/// `released` is no failure; a queue that counts tells the two apart.
#[test]
fn a_queue_that_counts_returns_shows_failures_alone() {
    let scene = Scene::new();
    let arguments = Table(vec![("x-queue-type".to_owned(), Value::Text("quorum".into()))]);
    let spec = QueueSpec { name: "counts".to_owned(), durable: true, arguments, ..QueueSpec::default() };
    scene.client().declare_queue(&spec, scene.test.now()).unwrap();
    let mut peer = scene.session_with_window(1000);
    peer.attach_to(9, Some("counts"));
    peer.message(9, 0, "a");
    peer.heard();
    peer.attach_from(0, "counts");
    peer.credit(0, 0, 1, Rest::Kept);
    peer.expect(&["attach 0 Sender counts > -", "transfer 0 id=0 a"]);
    peer.settle(0, 0, Outcome::Released);
    peer.credit(0, 1, 1, Rest::Kept);
    peer.expect(&["transfer 0 id=1 a"]);
    let failed = Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
    peer.settle(1, 1, Outcome::Modified(failed));
    peer.credit(0, 2, 1, Rest::Kept);
    peer.expect(&["transfer 0 id=2 a failed=1"]);
}

/// Jakarta Messaging expects both of a queue that is made by its first link.
#[test]
fn a_queue_of_a_link_ranks_by_priority_and_counts_every_failure() {
    let scene = Scene::new();
    let mut peer = scene.session_with_window(1000);
    peer.attach_to(9, Some("q"));
    for (id, priority) in [(0, Some(0)), (1, None), (2, Some(9)), (3, Some(4)), (4, Some(5))] {
        let mut message = Vec::new();
        Header { priority, ..Header::default() }.encode(&mut message);
        message.extend(text(&format!("{priority:?}")));
        peer.transfer(Transfer { handle: 9, ..transfer(id) }, &message);
    }
    peer.heard();
    peer.attach_from(0, "q");
    peer.credit(0, 0, 5, Rest::Kept);
    let heard = peer.heard();
    let bodies: Vec<_> = heard[1..].iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(bodies, ["Some(9)", "Some(5)", "None", "Some(4)", "Some(0)"]);
    // AMQP 0-9-1 declares it without arguments.
    let spec = QueueSpec { name: "q".to_owned(), durable: true, ..QueueSpec::default() };
    scene.client().declare_queue(&spec, scene.test.now()).unwrap();
    peer.settle(1, 4, ACCEPTED);
    let failed = Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
    let mut id = 0;
    for count in 1..=4 {
        peer.settle(id, id, Outcome::Modified(failed));
        id = 4 + count;
        peer.credit(0, id, 1, Rest::Kept);
        peer.expect(&[&format!("transfer 0 id={id} Some(9) failed={count}")]);
    }
}
