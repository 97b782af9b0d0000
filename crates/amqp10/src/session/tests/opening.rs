//! Protocol headers, SASL, `open`, and the ways in which a connection ends.

use std::time::Duration;

use auth::sasl::Mechanism;
use wire::{CloseReason, Protocol, ReadState, Recognition};

use super::scene::{Scene, close};
use crate::codec::performative::{Begin, Open};
use crate::codec::{Performative, ProtocolId, Symbols, decode_frame, decode_performative};
use crate::session::{Amqp10, Settings};

#[test]
fn the_first_eight_bytes_tell_it_from_other_versions() {
    let protocol = Amqp10::new(Scene::new().test.broker.clone(), Settings::default());
    for (first, expected) in [
        (&b""[..], Recognition::Incomplete),
        (b"AMQP", Recognition::Incomplete),
        (b"AMQP\x00\x01\x00", Recognition::Incomplete),
        (b"AMQP\x00\x01\x00\x00", Recognition::Yes),
        (b"AMQP\x03\x01\x00\x00more", Recognition::Yes),
        (b"AMQP\x02\x01\x00\x00", Recognition::Yes),
        (b"AMQP\x00\x00", Recognition::No),
        (b"AMQP\x01", Recognition::No),
        (b"GET ", Recognition::No),
    ] {
        assert_eq!(protocol.recognise(first), expected, "{first:?}");
    }
}

#[test]
fn mechanisms_come_at_once_and_a_wrong_password_ends_with_an_outcome() {
    let scene = Scene::new();
    let mut peer = scene.accept();
    peer.raw(&ProtocolId::Sasl.header());
    let offered = peer.wait_for("Mechanisms");
    assert!(offered.contains("[\"PLAIN\", \"SCRAM-SHA-256\"]"), "{offered}");
    peer.sasl_init("PLAIN", b"\0guest\0wrong");
    assert!(peer.wait_for("Outcome").contains("Auth"));
    assert_eq!(peer.state(), ReadState::Answered);
    for (mechanism, response) in [("AMQPLAIN", &b""[..]), ("EXTERNAL", b""), ("ANONYMOUS", b""), ("PLAIN", b"nonsense")]
    {
        let mut peer = scene.accept();
        peer.raw(&ProtocolId::Sasl.header());
        peer.sasl_init(mechanism, response);
        assert!(peer.wait_for("Outcome").contains("Auth"), "{mechanism}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
}

#[test]
fn without_sasl_a_client_is_the_anonymous_user_or_told_to_use_sasl() {
    let mut peer = Scene::new().accept();
    peer.raw(&ProtocolId::Amqp.header());
    assert_eq!(peer.take(), ProtocolId::Sasl.header());
    assert_eq!(peer.state(), ReadState::Answered);
    let settings = Settings {
        mechanisms: vec![Mechanism::Anonymous],
        anonymous_user: Some("guest".to_owned()),
        ..Settings::default()
    };
    let mut peer = Scene::new().with_settings(settings).accept();
    peer.raw(&ProtocolId::Amqp.header());
    assert_eq!(peer.take(), ProtocolId::Amqp.header());
    peer.send(0, &Open { container_id: "c", ..Open::default() });
    assert!(peer.heard()[0].starts_with("open"));
}

#[test]
fn other_versions_and_noise_are_answered_with_a_header_and_the_end() {
    for first in [&b"AMQP\x02\x01\x00\x00"[..], b"AMQP\x00\x00\x09\x01", b"GET / HTTP/1.1\r\n"] {
        let mut peer = Scene::new().accept();
        peer.raw(first);
        assert_eq!(peer.take(), ProtocolId::Sasl.header(), "{first:?}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
}

#[test]
fn open_shows_what_is_offered_and_agrees_on_limits() {
    let mut peer = Scene::new().logged_in("guest");
    peer.send(0, &Open { container_id: "c", channel_max: 3, ..Open::default() });
    let bytes = peer.take();
    let frame = decode_frame(&bytes, 4096).unwrap().unwrap();
    let (performative, _) = decode_performative(frame.body).unwrap();
    let Performative::Open(open) = performative else { panic!("{performative:?}") };
    assert!(open.offered_capabilities.has("ANONYMOUS-RELAY"));
    assert_eq!((open.container_id, open.max_frame_size), ("hermod", 128 << 10));
    assert_eq!(open.idle_time_out, Some(60_000));
    let names: Vec<_> = open.properties.unwrap().iter().filter_map(|(key, _)| key.as_text()).collect();
    assert_eq!(names, ["product", "version", "platform", "node", "sole-connection-detection-policy"]);
    peer.begin(4, 1);
    peer.expect(&["close amqp:connection:framing-error"]);
    let mut peer = Scene::new().logged_in("guest");
    peer.send(1, &Open { container_id: "c", ..Open::default() });
    assert_eq!(peer.heard().last().map(String::as_str), Some("close amqp:connection:framing-error"));
}

#[test]
fn a_vhost_is_named_in_the_hostname() {
    let scene = Scene::new();
    for (hostname, expected) in [
        (
            None,
            &[
                "open [\"sole-connection-for-container\", \"ANONYMOUS-RELAY\", \"DELAYED_DELIVERY\", \"SHARED-SUBS\", \"LINK_PAIR_V1_0\"]",
            ][..],
        ),
        (
            Some("broker.example.org"),
            &[
                "open [\"sole-connection-for-container\", \"ANONYMOUS-RELAY\", \"DELAYED_DELIVERY\", \"SHARED-SUBS\", \"LINK_PAIR_V1_0\"]",
            ],
        ),
        (
            Some("vhost:/"),
            &[
                "open [\"sole-connection-for-container\", \"ANONYMOUS-RELAY\", \"DELAYED_DELIVERY\", \"SHARED-SUBS\", \"LINK_PAIR_V1_0\"]",
            ],
        ),
        (
            Some("vhost:none"),
            &[
                "open [\"sole-connection-for-container\", \"ANONYMOUS-RELAY\", \"DELAYED_DELIVERY\", \"SHARED-SUBS\", \"LINK_PAIR_V1_0\"]",
                "close amqp:not-found",
            ],
        ),
    ] {
        let mut peer = scene.logged_in("guest");
        peer.send(0, &Open { container_id: "c", hostname, ..Open::default() });
        let heard = peer.heard();
        assert_eq!(heard.len(), expected.len(), "{hostname:?} {heard:?}");
        assert_eq!(heard[0], expected[0]);
    }
}

#[test]
fn a_container_id_clashes_only_where_both_want_to_be_alone() {
    let scene = Scene::new();
    let sole = Open {
        container_id: "one",
        desired_capabilities: Symbols::of(&["sole-connection-for-container"]),
        ..Open::default()
    };
    let mut first = scene.logged_in("guest");
    first.send(0, &sole);
    assert_eq!(first.heard().len(), 1);
    let mut second = scene.logged_in("guest");
    second.send(0, &sole);
    let heard = second.heard();
    assert_eq!(heard[1..], ["close amqp:invalid-field invalid-field=:\"container-id\""]);
    second.send(0, &close());
    assert_eq!(second.state(), ReadState::Answered);
    let mut third = scene.logged_in("guest");
    third.send(0, &Open { container_id: "one", ..Open::default() });
    assert_eq!(third.heard().len(), 1);
    first.send(0, &close());
    first.expect(&["close"]);
    let mut fourth = scene.logged_in("guest");
    fourth.send(0, &sole);
    assert_eq!(fourth.heard().len(), 1);
}

#[test]
fn strangers_are_bounded_and_frames_out_of_place_end_the_connection() {
    let scene = Scene::new();
    // A frame that is announced larger than a stranger's may be.
    let mut peer = scene.accept();
    peer.raw(&ProtocolId::Sasl.header());
    peer.raw(&[0, 1, 0, 0, 2, 1, 0, 0]);
    assert_eq!(peer.state(), ReadState::Answered);
    // A frame of AMQP before the log-in.
    let mut peer = scene.accept();
    peer.raw(&ProtocolId::Sasl.header());
    peer.send(0, &Open { container_id: "c", ..Open::default() });
    assert_eq!(peer.state(), ReadState::Answered);
    // Something else than open.
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Begin::default());
    let heard = peer.heard();
    assert_eq!((heard.len(), &*heard[1]), (2, "close amqp:illegal-state"));
    // An idle time-out that would make this side do nothing else.
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", idle_time_out: Some(5), ..Open::default() });
    assert_eq!(peer.heard()[1], "close amqp:not-allowed");
    // A frame of no known type, of an open connection.
    let mut peer = scene.connect_as("guest");
    peer.raw(&[0, 0, 0, 8, 2, 9, 0, 0]);
    peer.expect(&["close amqp:connection:framing-error"]);
    // A body that is no performative.
    let mut peer = scene.connect_as("guest");
    peer.raw(&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x70, 0x45]);
    peer.expect(&["close amqp:decode-error"]);
    // Not open in time.
    let mut peer = scene.accept();
    peer.pass(Duration::from_secs(11));
    assert_eq!(peer.state(), ReadState::Answered);
}

#[test]
fn both_sides_give_signs_of_life() {
    let scene = Scene::new();
    let mut peer = scene.logged_in("guest");
    peer.send(0, &Open { container_id: "c", idle_time_out: Some(10_000), ..Open::default() });
    peer.heard();
    peer.pass(Duration::from_secs(6));
    peer.expect(&["heartbeat"]);
    peer.raw(&crate::codec::frame::HEARTBEAT);
    peer.pass(Duration::from_secs(119));
    assert_eq!(peer.state(), ReadState::Read);
    peer.pass(Duration::from_secs(2));
    assert_eq!(peer.state(), ReadState::GivenUp);
}

#[test]
fn an_operator_or_a_shutdown_closes_with_a_condition() {
    for reason in [CloseReason::Shutdown, CloseReason::Forced("enough".to_owned())] {
        let mut peer = Scene::new().session();
        let now = peer.driver.now;
        peer.driver.connection.close(reason, now);
        peer.expect(&["close amqp:connection:forced"]);
        peer.begin(1, 10);
        peer.expect(&[]);
        peer.send(0, &close());
        assert_eq!(peer.state(), ReadState::Answered);
    }
}
