//! Scenarios from public trackers and other brokers' tests (docs/conformance.md, "Public cases of
//! AMQP 1.0"), as far as no other test of the session has them.

use std::time::Duration;

use broker::{QueueSpec, Rest, Switch};

use super::scene::{ACCEPTED, MAX, Peer, Scene, capabilities, detach, from, text, to_peer, to_server, transfer};
use crate::codec::frame::{FrameKind, encode_frame};
use crate::codec::message::{Header, Properties};
use crate::codec::performative::{Attach, Begin, Detach, Disposition, Flow, Open, ReceiverSettleMode, Role, Transfer};
use crate::codec::sasl::{SaslInit, Secret};
use crate::codec::state::Received;
use crate::codec::{
    AttachTarget, DeliveryState, Encode, Message, Outcome, ProtocolId, Source, Symbol, Symbols, Target, Value,
};
use crate::session::receiver::CREDIT;

fn target(address: &str) -> Option<AttachTarget<'_>> {
    Some(AttachTarget::Target(Target { address: Some(address), ..Target::default() }))
}

/// A message for an address, or with other properties.
fn with(properties: Properties<'_>, body: &str) -> Vec<u8> {
    let mut message = Vec::new();
    properties.encode(&mut message);
    message.extend(text(body));
    message
}

fn headed(header: Header, body: &str) -> Vec<u8> {
    let mut message = Vec::new();
    header.encode(&mut message);
    message.extend(text(body));
    message
}

fn ready(scene: &Scene, queue: &str) -> u64 {
    scene.client().check_queue(queue, scene.test.now()).unwrap().ready
}

/// A1: §2.6.1 of part 2.
#[test]
fn a_link_that_is_attached_again_is_stolen_from_where_it_was() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.begin(1, 1000);
    let sender = |handle| Attach { handle, target: target("q"), ..to_server("l") };
    let receiver = |handle| Attach { handle, source: Some(from("q")), ..to_peer("l") };
    peer.attach(sender(0));
    // The other direction is another link.
    peer.attach(receiver(1));
    peer.message(0, 0, "m");
    peer.credit(1, 0, 1, Rest::Kept);
    assert!(peer.heard().contains(&"transfer 1 id=0 m".to_owned()));
    peer.send(1, &sender(0));
    peer.expect(&["detach 0 closed amqp:link:stolen", "attach 0 Receiver - > q", "flow 0 count=0 credit=8000"]);
    let mut other = scene.session();
    other.attach(receiver(0));
    other.expect(&["attach 0 Sender q > -"]);
    peer.expect(&["detach 1 closed amqp:link:stolen"]);
    // What it had not settled is there once.
    other.credit(0, 0, 10, Rest::Kept);
    other.expect(&["transfer 0 id=0 m"]);
    other.settle(0, 0, ACCEPTED);
    peer.send(0, &detach(0));
    peer.send(0, &detach(1));
    peer.expect(&[]);
    assert_eq!(ready(&scene, "q"), 0);
    // A user can't steal from another one.
    let mut foreign = scene.connect_as("reader");
    foreign.begin(0, 10);
    foreign.attach(receiver(0));
    assert!(foreign.heard().contains(&"attach 0 Sender q > -".to_owned()));
    other.expect(&[]);
}

/// A2: §3.5.10 of part 3.
#[test]
fn a_dynamic_node_outlives_a_suspended_link() {
    let scene = Scene::new();
    let dynamic = Source { dynamic: true, ..Source::default() };
    let suspend = Detach { handle: 0, closed: false, error: None };
    let queues = || scene.test.broker.overview().objects.queues;
    let mut peer = scene.session();
    for by_address in [false, true] {
        peer.attach(Attach { source: Some(dynamic), ..to_peer("l") });
        let heard = peer.heard();
        let address = heard[0].strip_prefix("attach 0 Sender ").and_then(|rest| rest.strip_suffix(" > -")).unwrap();
        peer.attach_to(1, Some(address));
        peer.message(1, 0, "kept");
        peer.send(0, &suspend);
        assert_eq!(peer.heard().last().unwrap(), "detach 0");
        assert_eq!(queues(), 1);
        let again = if by_address { from(address) } else { dynamic };
        peer.attach(Attach { source: Some(again), ..to_peer("l") });
        peer.credit(0, 0, 1, Rest::Kept);
        let heard = peer.heard();
        assert_eq!(heard[0], format!("attach 0 Sender {address} > -"));
        assert!(heard[1].ends_with(" kept"), "{heard:?}");
        peer.send(0, &detach(0));
        peer.send(0, &detach(1));
        peer.heard();
        assert_eq!(queues(), 0, "{by_address}");
    }
    // It goes with the connection.
    peer.attach(Attach { source: Some(dynamic), ..to_peer("l") });
    peer.send(0, &suspend);
    peer.heard();
    assert_eq!(queues(), 1);
    drop(peer);
    assert_eq!(queues(), 0);
}

/// A3
#[test]
fn a_session_has_a_thousand_links_and_a_connection_five_hundred_sessions() {
    let scene = Scene::new();
    let mut peer = scene.session();
    for handle in 0..1000 {
        if handle % 2 == 0 {
            peer.attach_from(handle, "q");
        } else {
            peer.attach_to(handle, Some("q"));
        }
    }
    assert_eq!(peer.heard().iter().filter(|line| line.starts_with("attach")).count(), 1000);
    for channel in 1..500 {
        peer.begin(channel, 10);
    }
    assert_eq!(peer.heard().iter().filter(|line| line.starts_with("begin")).count(), 499);
}

/// A4: Anonymous Terminus, §2.2.2. What is settled has no other answer; the rest is released, as
/// RabbitMQ's clients expect.
#[test]
fn a_relay_ends_at_a_settled_message_that_goes_nowhere() {
    let scene = Scene::new();
    for (user, to, ends) in [
        ("guest", "/queues/none", " amqp:not-found delivery-tag="),
        ("guest", "/exchanges/none/k", " amqp:not-found delivery-tag="),
        ("reader", "/exchanges/amq.direct/k", " amqp:unauthorized-access delivery-tag="),
    ] {
        let mut peer = scene.connect_as(user);
        peer.begin(0, 100);
        peer.attach_to(0, None);
        peer.heard();
        let properties = Properties { to: Some(to), ..Properties::default() };
        peer.transfer(Transfer { settled: Some(true), ..transfer(0) }, &with(properties, "m"));
        let heard = peer.heard();
        assert!(heard.len() == 1 && heard[0].starts_with(&format!("detach 0 closed{ends}")), "{to} {heard:?}");
    }
}

/// A8: §2.6.7 of part 2.
#[test]
fn a_drain_waits_for_the_window() {
    let scene = Scene::new();
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    other.message(0, 0, "m");
    other.heard();
    let mut peer = scene.session_with_window(0);
    peer.attach_from(0, "q");
    peer.heard();
    let flow = |incoming_window| Flow { next_incoming_id: Some(0), incoming_window, ..Flow::default() };
    let drain = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(2), drain: true, ..flow(0) };
    peer.send(0, &drain);
    peer.expect(&[]);
    peer.pass(Duration::from_millis(500));
    peer.expect(&[]);
    peer.send(0, &flow(5));
    peer.expect(&["transfer 0 id=0 m", "flow 0 count=2 credit=0 drain"]);
}

/// A9
#[test]
fn an_alarm_that_passes_leaves_no_sender_without_credit() {
    for settled in [false, true] {
        let scene = Scene::new();
        let mut peers = [scene.session(), scene.session()];
        for peer in &mut peers {
            peer.attach_to(0, Some("q"));
            peer.heard();
        }
        scene.test.broker.force_alarm("memory", Switch::On).unwrap();
        for peer in &mut peers {
            for id in 0..CREDIT {
                peer.transfer(Transfer { settled: Some(settled), ..transfer(id) }, &text("m"));
            }
            assert!(!peer.heard().iter().any(|line| line.starts_with("flow 0")));
        }
        scene.test.broker.force_alarm("memory", Switch::Off).unwrap();
        scene.test.housekeep();
        for peer in &mut peers {
            let heard = peer.heard();
            let opens = |line: &String| line.starts_with("flow next=") && line.ends_with(" window=16384");
            assert!(heard.iter().any(opens), "{settled} {heard:?}");
            let granted = format!("flow 0 count={CREDIT} credit=");
            assert!(heard.iter().any(|line| line.starts_with(&granted)), "{settled} {heard:?}");
        }
        assert_eq!(ready(&scene, "q"), 2 * u64::from(CREDIT), "{settled}");
    }
}

/// A11: RFC 1982, §2.8.10 of part 2.
#[test]
fn numbers_of_a_peer_wrap() {
    const FIRST: u32 = u32::MAX - 7;
    let scene = Scene::new();
    let mut peer = scene.connect_as("guest");
    let begin = Begin { next_outgoing_id: FIRST, incoming_window: 1000, outgoing_window: 1000, ..Begin::default() };
    peer.send(0, &begin);
    peer.attach(Attach { target: target("q"), initial_delivery_count: Some(FIRST), ..to_server("l") });
    peer.heard();
    let mut settled = 0;
    for number in 0..40 {
        peer.message(0, FIRST.wrapping_add(number), "m");
        let heard = peer.heard();
        let id = FIRST.wrapping_add(number);
        assert!(heard.contains(&format!("disposition Receiver {id}..{id} settled accepted")), "{heard:?}");
        settled += 1;
    }
    assert_eq!((settled, ready(&scene, "q")), (40, 40));
    peer.flow(Flow { echo: true, handle: Some(0), ..Flow::default() });
    let heard = peer.heard();
    assert!(heard[0].starts_with("flow 0 count=32 credit="), "{heard:?}");
}

/// A12: §2.7.1 of part 2.
#[test]
fn an_idle_time_out_of_zero_is_none() {
    let scene = Scene::new();
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", max_frame_size: MAX, idle_time_out: Some(0), ..Open::default() });
    peer.begin(0, 100);
    peer.attach_to(0, Some("q"));
    peer.heard();
    peer.pass(Duration::from_secs(3));
    peer.expect(&[]);
    peer.message(0, 0, "m");
    peer.expect(&["disposition Receiver 0..0 settled accepted"]);
}

/// A13: §2.6.12 of part 2.
#[test]
fn what_a_peer_accepts_is_gone_before_the_peer_settles() {
    let scene = Scene::new();
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    other.message(0, 0, "m");
    other.heard();
    let mut peer = scene.session();
    peer.attach(Attach { rcv_settle_mode: ReceiverSettleMode::Second, source: Some(from("q")), ..to_peer("l") });
    peer.credit(0, 0, 1, Rest::Kept);
    peer.heard();
    peer.send(0, &super::scene::disposed(0, 0, ACCEPTED));
    peer.expect(&["disposition Sender 0..0 settled accepted"]);
    drop(peer);
    assert_eq!(ready(&scene, "q"), 0);
}

/// A14: `received` is no outcome (§3.4.1 of part 3).
#[test]
fn what_a_peer_has_received_is_not_accepted() {
    let scene = Scene::new();
    let body = "x".repeat(3000);
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    other.message(0, 0, &body);
    other.heard();
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", max_frame_size: 1000, ..Open::default() });
    // The window ends in the middle of the delivery.
    peer.begin(0, 2);
    peer.attach_from(0, "q");
    let flow = Flow { next_incoming_id: Some(0), incoming_window: 2, ..Flow::default() };
    peer.send(0, &Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(1), ..flow });
    assert_eq!(peer.heard().iter().filter(|line| line.starts_with("transfer")).count(), 2);
    let received = |section_offset| {
        let state = Some(DeliveryState::Received(Received { section_number: 0, section_offset }));
        Disposition { role: Role::Receiver, state, ..Disposition::default() }
    };
    peer.send(0, &received(1500));
    peer.send(0, &Flow { next_incoming_id: Some(2), incoming_window: 10, ..Flow::default() });
    assert!(peer.heard().iter().any(|line| line.starts_with("transfer")), "the delivery goes on");
    peer.send(0, &received(3000));
    peer.expect(&[]);
    drop(peer);
    assert_eq!(ready(&scene, "q"), 1);
}

/// A16: the order of what one of several consumers leaves.
#[test]
fn what_a_consumer_leaves_comes_in_order_and_first() {
    let scene = Scene::new();
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    let [mut one, mut two, mut third] = [(); 3].map(|()| scene.session());
    for peer in [&mut one, &mut two] {
        peer.attach_from(0, "q");
        peer.credit(0, 0, 10, Rest::Kept);
        peer.heard();
    }
    for number in 1..=25 {
        other.message(0, number, &number.to_string());
    }
    let numbers = |peer: &mut Peer| -> Vec<u32> {
        let lines = peer.heard();
        let bodies = lines.iter().filter(|line| line.starts_with("transfer"));
        bodies.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    let (of_one, of_two) = (numbers(&mut one), numbers(&mut two));
    assert_eq!((of_one.len(), of_two.len()), (10, 10));
    two.settle(1, 1, ACCEPTED);
    two.settle(4, 4, ACCEPTED);
    two.send(0, &detach(0));
    two.heard();
    third.attach_from(0, "q");
    third.credit(0, 0, 100, Rest::Kept);
    let left = of_two.iter().enumerate().filter(|(at, _)| ![1, 4].contains(at)).map(|(_, number)| *number);
    assert_eq!(numbers(&mut third), left.chain(21..=25).collect::<Vec<_>>());
    assert_eq!(numbers(&mut one), []);
}

/// A18 and A19: §3.2.1 of part 3. A time to live is an unsigned number, and what is left of it is
/// delivered, also after a restart.
#[test]
fn a_time_to_live_runs_on_and_is_not_clipped() {
    let ttl_of = |payload: &[u8]| Message::decode(payload).unwrap().header.unwrap().ttl;
    for ttl in [u32::MAX, 3_000_000_000, 1 << 31] {
        let scene = Scene::new();
        let mut peer = scene.session();
        peer.attach_to(0, Some("q"));
        peer.transfer(transfer(0), &headed(Header { ttl: Some(ttl), ..Header::default() }, "m"));
        scene.test.setup.clock.advance(1000);
        peer.attach_from(1, "q");
        peer.credit(1, 0, 1, Rest::Kept);
        let payloads = peer.payloads();
        assert_eq!(ttl_of(&payloads[0]), Some(ttl - 1000));
    }
    let scene = Scene::stepped();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    scene.test.flush();
    for id in 0..2 {
        peer.transfer(transfer(id), &headed(Header { durable: true, ttl: Some(10_000), ..Header::default() }, "m"));
    }
    scene.test.flush();
    peer.heard();
    drop(peer);
    scene.test.setup.clock.advance(4000);
    let scene = scene.restarted();
    scene.test.setup.clock.advance(3000);
    let mut peer = scene.session();
    peer.attach_from(0, "q");
    peer.credit(0, 0, 1, Rest::Kept);
    scene.test.flush();
    let payloads = peer.payloads();
    assert_eq!(ttl_of(&payloads[0]), Some(3000));
    scene.test.setup.clock.advance(5000);
    peer.credit(0, 1, 1, Rest::Drained);
    scene.test.flush();
    peer.expect(&["flow 0 count=2 credit=0 drain"]);
}

/// A message whose encodings are as wide as they can be, from its properties to its footer.
fn wide() -> Vec<u8> {
    let mut bytes = vec![0x00, 0xb3, 0, 0, 0, 20];
    bytes.extend(b"amqp:properties:list");
    // message-id, user-id, to
    let mut list = vec![0xb1, 0, 0, 0, 2, b'i', b'd', 0x40, 0xb1, 0, 0, 0, 1, b'q'];
    bytes.push(0xd0);
    bytes.extend((list.len() as u32 + 4).to_be_bytes());
    bytes.extend(3_u32.to_be_bytes());
    bytes.append(&mut list);
    // A map of one pair: 4 bytes of the count, 6 of the key, 5 of the value.
    bytes.extend([0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x74, 0xd1, 0, 0, 0, 15, 0, 0, 0, 2]);
    bytes.extend([0xb1, 0, 0, 0, 1, b'k', 0x71, 0, 0, 0, 1]);
    for part in [&b"one"[..], b"two", b"three"] {
        bytes.extend([0x00, 0x53, 0x75, 0xb0]);
        bytes.extend((part.len() as u32).to_be_bytes());
        bytes.extend(part);
    }
    bytes.extend([0x00, 0x53, 0x78, 0xd1, 0, 0, 0, 19, 0, 0, 0, 2]);
    bytes.extend([0xb3, 0, 0, 0, 4, b'h', b'a', b's', b'h', 0xa1, 4, b'1', b'2', b'3', b'4']);
    bytes
}

/// A20: the bare message and its footer are their sender's (§3.2 of part 3).
#[test]
fn the_bare_message_stays_through_death_and_restart() {
    let wide = wide();
    Message::decode(&wide).expect("the test's own message is one");
    let scene = Scene::stepped();
    let arguments = testkit::broker::table_of("x-dead-letter-routing-key=dead");
    let mut arguments = arguments;
    arguments.0.push(("x-dead-letter-exchange".to_owned(), broker::Value::Text(String::new())));
    let spec = QueueSpec { name: "q".to_owned(), durable: true, arguments, ..QueueSpec::default() };
    scene.client().declare_queue(&spec, scene.test.now()).unwrap();
    let mut peer = scene.session();
    peer.attach_to(0, Some("/queues/q"));
    peer.attach_from(1, "dead");
    scene.test.flush();
    let mut message = Vec::new();
    Header { durable: true, ..Header::default() }.encode(&mut message);
    message.extend(&wide);
    peer.transfer(transfer(0), &message);
    scene.test.flush();
    peer.attach_from(2, "/queues/q");
    peer.credit(2, 0, 1, Rest::Kept);
    scene.test.flush();
    let payloads = peer.payloads();
    assert!(payloads[0].ends_with(&wide));
    peer.settle(0, 0, Outcome::Rejected(crate::codec::state::Rejected { error: None }));
    scene.test.flush();
    scene.test.housekeep();
    scene.test.flush();
    peer.heard();
    drop(peer);
    let scene = scene.restarted();
    let mut peer = scene.session();
    peer.attach_from(0, "dead");
    peer.credit(0, 0, 1, Rest::Kept);
    scene.test.flush();
    let payloads = peer.payloads();
    assert!(payloads[0].ends_with(&wide), "{:?}", payloads[0]);
}

/// A21: as Artemis; RabbitMQ refuses such.
#[test]
fn a_message_without_a_body_is_delivered_as_one() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    peer.attach_from(1, "q");
    peer.credit(1, 0, 10, Rest::Kept);
    peer.heard();
    let (mut named, mut bare) = (Vec::new(), Vec::new());
    Properties { subject: Some("s"), ..Properties::default() }.encode(&mut named);
    Header::default().encode(&mut bare);
    for (id, message) in [named, bare].iter().enumerate() {
        peer.transfer(transfer(id as u32), message);
        let payloads = peer.payloads();
        assert_eq!(Message::decode(&payloads[0]).unwrap().body, crate::codec::Body::Missing);
    }
}

/// A23: credit of a sender that settles by itself comes while it is read.
#[test]
fn a_settled_sender_never_runs_out_of_credit() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(0, Some("q"));
    peer.attach_to(1, Some("q"));
    peer.heard();
    let (mut credit, mut settling) = (i64::from(CREDIT), 0);
    for id in 0..5 * CREDIT {
        let is_settled = id % 2 == 0;
        let handle = u32::from(!is_settled);
        peer.transfer(Transfer { handle, settled: Some(is_settled), ..transfer(id) }, &text("m"));
        credit -= i64::from(is_settled);
        for line in peer.heard() {
            if let Some(at) = line.strip_prefix("flow 0 ").and_then(|rest| rest.split("credit=").nth(1)) {
                credit = at.parse().unwrap();
                settling += 1;
            }
        }
        assert!(credit > 0, "{id}");
    }
    assert!(settling >= 3, "{settling}");
}

/// A24: a poison message takes no other message's place, and is not counted.
#[test]
fn a_consumer_that_releases_all_it_gets_stops_no_other() {
    let scene = Scene::new();
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    let mut releasing = scene.session();
    releasing.attach_from(0, "q");
    releasing.credit(0, 0, 10, Rest::Kept);
    for number in 0..10 {
        other.message(0, number, "poison");
    }
    for number in 10..110 {
        other.message(0, number, "good");
    }
    let mut taking = scene.session();
    taking.attach_from(0, "q");
    let (mut next, mut good, mut poison) = (0, 0, Vec::new());
    for round in 0..40 {
        let heard = releasing.heard();
        let got = heard.iter().filter(|line| line.starts_with("transfer")).count() as u32;
        assert!(!heard.iter().any(|line| line.contains("failed=")), "{heard:?}");
        if got > 0 {
            releasing.settle(next, next + got - 1, Outcome::Released);
            next += got;
            releasing.credit(0, next, 10, Rest::Kept);
        }
        if round == 5 {
            taking.credit(0, 0, 200, Rest::Kept);
        }
        for line in taking.heard() {
            good += usize::from(line.ends_with(" good"));
            if line.ends_with(" poison") {
                poison.push(line);
            }
        }
    }
    assert_eq!(good, 100, "{poison:?}");
}

/// J1: a subscription is known by client and name, not by the two run together.
#[test]
fn names_of_subscriptions_do_not_run_together() {
    let scene = Scene::new();
    let source = Source {
        durable: crate::codec::terminus::Durability::UnsettledState,
        expiry_policy: crate::codec::terminus::ExpiryPolicy::Never,
        capabilities: capabilities(&["topic"]),
        ..from("news")
    };
    let global = Source { capabilities: capabilities(&["topic", "shared", "global"]), ..source };
    let mut peers = Vec::new();
    for (container, link, source) in [("a.b", "c", source), ("a", "b.c", source), ("x", "a.b.c|global", global)] {
        let mut peer = scene.logged_in("guest");
        peer.send(0, &Open { container_id: container, max_frame_size: MAX, ..Open::default() });
        peer.begin(0, 100);
        peer.attach(Attach { source: Some(source), ..to_peer(link) });
        assert_eq!(peer.heard().last().unwrap(), "attach 0 Sender news > -");
        peers.push(peer);
    }
    peers[0].send(0, &detach(0));
    peers[0].expect(&["detach 0 closed"]);
    assert_eq!(scene.test.broker.overview().objects.queues, 2);
    let mut other = scene.session();
    other.attach(Attach { target: target("/topic/news"), ..to_server("out") });
    other.message(0, 0, "m");
    other.heard();
    for peer in &mut peers[1..] {
        peer.credit(0, 0, 10, Rest::Kept);
        peer.expect(&["transfer 0 id=0 m"]);
    }
}

/// J2: Jakarta Messaging, `createDurableConsumer`.
#[test]
fn another_no_local_begins_a_subscription_anew() {
    let scene = Scene::new();
    let filter = Value::Described(Box::new((
        Value::Symbol("apache.org:no-local-filter:list".to_owned()),
        Value::List(Vec::new()),
    )));
    let filters = Value::Map(vec![(Value::Symbol("no-local".to_owned()), filter)]).to_bytes();
    let mut budget = crate::codec::value::Budget::default();
    let no_local = match crate::codec::read_value(&mut wire::Reader::new(&filters), &mut budget) {
        Ok(crate::codec::ValueRef::Map(map)) => map,
        other => panic!("{other:?}"),
    };
    let source = Source {
        durable: crate::codec::terminus::Durability::UnsettledState,
        expiry_policy: crate::codec::terminus::ExpiryPolicy::Never,
        capabilities: capabilities(&["topic"]),
        ..from("news")
    };
    let without_own = Source { filter: Some(no_local), ..source };
    let mut peer = scene.session();
    peer.attach(Attach { source: Some(source), ..to_peer("sub") });
    peer.attach(Attach { handle: 1, target: target("/topic/news"), ..to_server("out") });
    // While it is in use it stays as it is.
    let mut other = scene.session();
    other.attach(Attach { source: Some(without_own), ..to_peer("sub") });
    other.expect(&["attach 0 Sender null > -", "detach 0 closed amqp:illegal-state"]);
    peer.send(0, &Detach { handle: 0, closed: false, error: None });
    for id in 0..5 {
        peer.message(1, id, "own");
    }
    peer.heard();
    peer.attach(Attach { source: Some(without_own), ..to_peer("sub") });
    peer.credit(0, 0, 10, Rest::Kept);
    peer.message(1, 5, "own");
    peer.expect(&["attach 0 Sender news > - filters=1", "disposition Receiver 5..5 settled accepted"]);
    let mut foreign = scene.connect_as("guest");
    foreign.begin(0, 10);
    foreign.attach(Attach { target: target("/topic/news"), ..to_server("foreign") });
    foreign.message(0, 0, "foreign");
    foreign.heard();
    peer.expect(&["transfer 0 id=0 foreign"]);
    peer.settle(0, 0, ACCEPTED);
    // What its own connections publish while it is away is not kept for it either.
    peer.send(0, &Detach { handle: 0, closed: false, error: None });
    peer.message(1, 6, "own");
    peer.heard();
    drop(peer);
    let mut peer = scene.session();
    peer.attach(Attach { source: Some(without_own), ..to_peer("sub") });
    peer.credit(0, 0, 10, Rest::Drained);
    peer.expect(&["attach 0 Sender news > - filters=1", "flow 0 count=10 credit=0 drain"]);
}

/// J3: Camel JMS asks for a thousand replies at once.
#[test]
fn a_selector_may_be_long() {
    let scene = Scene::new();
    let mut peer = scene.session();
    peer.attach_to(9, Some("q"));
    let ids: Vec<_> = (0..1000).map(|number| format!("'ID:6f3c5b1e-2a60-4a0c-9d43-0123456789ab-{number}'")).collect();
    let alternatives: Vec<_> = ids.iter().map(|id| format!("JMSCorrelationID={id}")).collect();
    for (handle, selector) in
        [alternatives.join(" OR "), format!("JMSCorrelationID IN ({})", ids.join(","))].iter().enumerate()
    {
        let filter = Value::Described(Box::new((
            Value::Symbol("apache.org:selector-filter:string".to_owned()),
            Value::Str(selector.clone()),
        )));
        let filters = Value::Map(vec![(Value::Symbol("jms-selector".to_owned()), filter)]).to_bytes();
        let mut budget = crate::codec::value::Budget::default();
        let filter = match crate::codec::read_value(&mut wire::Reader::new(&filters), &mut budget) {
            Ok(crate::codec::ValueRef::Map(map)) => Some(map),
            other => panic!("{other:?}"),
        };
        let name = format!("in {handle}");
        let source = Source { filter, ..from("q") };
        peer.attach(Attach { handle: handle as u32, source: Some(source), ..to_peer(&name) });
        peer.credit(handle as u32, 0, 1, Rest::Kept);
        let heard = peer.heard();
        assert_eq!(heard.last().unwrap(), &format!("attach {handle} Sender q > - filters=1"));
        let last = ids[999].trim_matches('\'').to_owned();
        let id = crate::codec::MessageId::Text(&last);
        let properties = Properties { correlation_id: Some(id), ..Properties::default() };
        peer.transfer(Transfer { handle: 9, ..transfer(handle as u32) }, &with(properties, "reply"));
        let heard = peer.heard();
        assert!(heard.iter().any(|line| line.starts_with(&format!("transfer {handle} "))), "{heard:?}");
    }
}

/// J5: Artemis passes another's name on; here it is refused, as over AMQP 0-9-1.
#[test]
fn a_publisher_signs_with_its_own_name_or_none() {
    let scene = Scene::new();
    for (user_id, settled, expected) in [
        (Some(&b"guest"[..]), false, "disposition Receiver 0..0 settled accepted"),
        (None, false, "disposition Receiver 0..0 settled accepted"),
        (Some(b"admin"), false, "disposition Receiver 0..0 settled rejected amqp:unauthorized-access"),
        (Some(b"admin"), true, "detach 0 closed amqp:unauthorized-access delivery-tag="),
    ] {
        for relay in [false, true] {
            let mut peer = scene.session();
            peer.attach_to(0, (!relay).then_some("q"));
            peer.heard();
            let properties = Properties { user_id, to: Some("q"), ..Properties::default() };
            peer.transfer(Transfer { settled: Some(settled), ..transfer(0) }, &with(properties, "m"));
            let heard = peer.heard();
            assert!(heard.len() == 1 && heard[0].starts_with(expected), "{user_id:?} {relay} {heard:?}");
        }
    }
}

/// J6: a log-in and all behind it, cut anywhere.
#[test]
fn a_log_in_may_come_in_one_piece_or_in_many() {
    let scene = Scene::new();
    let mut other = scene.session();
    other.attach_to(0, Some("q"));
    other.heard();
    let mut bytes = ProtocolId::Sasl.header().to_vec();
    let response = Some(Secret(b"\0guest\0guest"));
    let init = SaslInit { mechanism: Symbol("PLAIN"), initial_response: response, hostname: None };
    encode_frame(&mut bytes, FrameKind::Sasl, 0, &init);
    bytes.extend(ProtocolId::Amqp.header());
    let open = Open { container_id: "j6", max_frame_size: MAX, ..Open::default() };
    encode_frame(&mut bytes, FrameKind::Amqp, 0, &open);
    let begin = Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() };
    encode_frame(&mut bytes, FrameKind::Amqp, 0, &begin);
    encode_frame(&mut bytes, FrameKind::Amqp, 0, &Attach { source: Some(from("q")), ..to_peer("in") });
    let flow = Flow { incoming_window: 100, handle: Some(0), link_credit: Some(1), ..Flow::default() };
    encode_frame(&mut bytes, FrameKind::Amqp, 0, &flow);
    let cuts: Vec<Vec<&[u8]>> = (0..bytes.len())
        .step_by(5)
        .map(|at| vec![&bytes[..at], &bytes[at..]])
        .chain([bytes.chunks(1).collect()])
        .collect();
    for pieces in cuts {
        other.message(0, 0, "delivered");
        other.heard();
        let mut peer = scene.accept();
        for piece in pieces {
            peer.raw(piece);
        }
        while !peer.driver.output.windows(9).any(|part| part == b"delivered") {
            peer.driver.wait();
        }
        drop(peer);
        scene.client().purge_queue("q", scene.test.now()).unwrap();
    }
    // Behind a refusal nothing is looked at.
    let mut wrong = bytes.clone();
    let at = wrong.windows(12).position(|part| part == b"\0guest\0guest").unwrap();
    wrong[at + 11] = b'x';
    let mut peer = scene.accept();
    peer.raw(&wrong);
    assert!(peer.wait_for("Outcome").contains("Auth"));
    assert!(Symbols::NONE.is_empty() && peer.heard().is_empty());
}
