//! CONNECT and its answers, keep-alive, take-over, and packets out of place.

use std::time::Duration;

use auth::PasswordHash;
use auth::sasl::Mechanism;
use auth::sasl::scram::answer;
use wire::{Protocol, ReadState, Recognition};

use super::scene::{Peer, Scene, guest};
use crate::Settings;
use crate::codec::{Connect, Notice, Packet, PacketKind, PropertyBlock, PropertyId, Reason, Version};

#[test]
fn a_connection_is_recognised_by_its_first_packet() {
    let scene = Scene::new();
    for (first, expected) in [
        (&b""[..], Recognition::Incomplete),
        (b"\x10", Recognition::Incomplete),
        (b"\x10\x80\x01\0", Recognition::Incomplete),
        (b"\x10\x0c\0\x04MQTT\x04", Recognition::Yes),
        (b"\x10\x80\x01\0\x06MQIsdp", Recognition::Yes),
        (b"\x10\x0c\0\x04AMQP", Recognition::No),
        (b"\x10\xff\xff\xff\xff", Recognition::No),
        (b"AMQP\0\0\x09\x01", Recognition::No),
        (b"\x16\x03\x01", Recognition::No),
    ] {
        assert_eq!(scene.mqtt.recognise(first), expected, "{first:02x?}");
    }
}

#[test]
fn a_client_is_told_what_the_server_takes() {
    let scene = Scene::new();
    for (version, expected) in [
        (Version::V3_1, "CONNACK success"),
        (Version::V3_1_1, "CONNACK success"),
        (Version::V5, "CONNACK success ReceiveMaximum=256 MaximumPacketSize=16908288 TopicAliasMaximum=16"),
    ] {
        assert_eq!(scene.connect_with(&guest(version, "c")).1, expected);
    }
    let (_, heard) = scene.connect_with(&guest(Version::V5, ""));
    assert!(heard.contains(" AssignedClientId=hermod-"), "{heard}");
    let mut block = PropertyBlock::default();
    block.number(PropertyId::SessionExpiry, u32::MAX);
    let (_, heard) = scene.connect_with(&Connect { properties: block.as_properties(), ..guest(Version::V5, "long") });
    assert!(heard.contains(" SessionExpiry=604800 "), "{heard}");
}

#[test]
fn who_is_not_let_in_is_told_so_and_the_connection_ends() {
    let scene = Scene::new();
    let bad = |version| Connect { password: Some(b"wrong"), ..guest(version, "c") };
    let anonymous = |version| Connect { user: None, password: None, ..guest(version, "c") };
    let nameless = Connect { clean_start: false, ..guest(Version::V3_1_1, "") };
    let mut scram = PropertyBlock::default();
    scram.text(PropertyId::AuthenticationMethod, "SCRAM-SHA-256");
    for (connect, expected) in [
        (bad(Version::V3_1_1), "CONNACK bad user name or password"),
        (bad(Version::V5), "CONNACK bad user name or password ReasonString=access refused for user 'guest'"),
        (anonymous(Version::V3_1_1), "CONNACK not authorized"),
        (nameless, "CONNACK client identifier not valid"),
        (guest(Version::V3_1, ""), "CONNACK client identifier not valid"),
        (
            Connect { properties: scram.as_properties(), ..guest(Version::V5, "c") },
            "CONNACK bad authentication method ReasonString=the log-in method 'SCRAM-SHA-256' is not offered: use \
             SCRAM-SHA-256 where it is in auth_mechanisms, a user name and password, or a certificate",
        ),
    ] {
        let (peer, heard) = scene.connect_with(&connect);
        assert_eq!((heard.as_str(), peer.state()), (expected, ReadState::Closed));
    }
}

/// Section 4.12 of MQTT 5, RFC 5802
#[test]
fn a_client_may_log_in_by_scram() {
    let mechanisms = vec![Mechanism::Plain, Mechanism::ScramSha256];
    let scene = Scene::with(Settings { mechanisms, ..Settings::default() });
    let mut user = scene.broker.authority().user("guest").unwrap();
    user.password = Some(PasswordHash::create_scram(b"guest", [7; 16]).unwrap());
    scene.broker.authority().put(user).unwrap();
    let bare = "n=guest,r=abc";
    let auth = |peer: &mut Peer, data: &str| {
        let mut block = PropertyBlock::default();
        block.text(PropertyId::AuthenticationMethod, "SCRAM-SHA-256");
        block.binary(PropertyId::AuthenticationData, data.as_bytes());
        let reason = Reason::ContinueAuthentication;
        peer.say(&Packet::Auth(Notice { reason, properties: block.as_properties() }));
    };
    let start = || {
        let mut block = PropertyBlock::default();
        block.text(PropertyId::AuthenticationMethod, "SCRAM-SHA-256");
        block.binary(PropertyId::AuthenticationData, format!("n,,{bare}").as_bytes());
        let mut peer = scene.accept();
        peer.connect(&Connect {
            user: None,
            password: None,
            properties: block.as_properties(),
            ..guest(Version::V5, "c")
        });
        let heard = peer.heard();
        let challenge = heard[0].split("AuthenticationData=").nth(1).unwrap().to_owned();
        (peer, challenge)
    };
    for (password, expected) in [("guest", "CONNACK success"), ("wrong", "CONNACK bad user name or password")] {
        let (mut peer, challenge) = start();
        auth(&mut peer, &answer(password.as_bytes(), bare, &challenge).unwrap());
        let heard = peer.wait();
        assert!(heard[0].starts_with(expected), "{heard:?}");
        let has_proof = heard[0].contains(" AuthenticationMethod=SCRAM-SHA-256 AuthenticationData=v=");
        assert_eq!(has_proof, password == "guest", "{heard:?}");
    }
    // Anything else than the answer ends it.
    let (mut peer, _) = start();
    peer.publish(0, "t", "1");
    assert_eq!(peer.state(), ReadState::Closed);
    let (mut peer, _) = start();
    auth(&mut peer, "c=biws,r=other,p=AAAA");
    assert!(peer.wait()[0].starts_with("CONNACK bad user name or password"));
}

#[test]
fn clients_without_a_user_are_those_of_the_setting() {
    let default_login = Some(("guest".to_owned(), "guest".to_owned()));
    let scene = Scene::with(Settings { default_login, ..Settings::default() });
    let (peer, heard) = scene.connect_with(&Connect { user: None, password: None, ..guest(Version::V3_1_1, "c") });
    assert_eq!((heard.as_str(), peer.state()), ("CONNACK success", ReadState::Read));
}

#[test]
fn a_user_name_may_begin_with_a_vhost() {
    let scene = Scene::new();
    for (user, expected) in [("/:guest", "CONNACK success"), ("none:guest", "CONNACK bad user name or password")] {
        assert_eq!(scene.connect_with(&Connect { user: Some(user), ..guest(Version::V3_1_1, "c") }).1, expected);
    }
}

/// [3.1.1: MQTT-3.1.2-2], [3.1.1: MQTT-3.1.4-1]
/// As in RabbitMQ, where MQTT has no channels. A limit of connections is for them.
#[test]
fn a_connection_is_none_of_the_sessions_of_its_user() {
    let scene = Scene::new();
    let limit = |user: &mut auth::User| {
        user.limits.sessions = Some(1);
        Ok(())
    };
    scene.broker.change_user("guest", limit).unwrap();
    let _clients = ["a", "b", "c"].map(|name| scene.v5(name));
    let mut client = scene.client();
    assert_eq!(client.session_limit_reached(), None);
    client.open_session(1);
    assert_eq!(client.session_limit_reached(), Some(1));
    let _fourth = scene.v3("d");
}

#[test]
fn an_unknown_version_has_an_answer_and_no_packet_at_all_has_none() {
    let scene = Scene::new();
    for (bytes, answer) in [
        (&b"\x10\x0d\0\x04MQTT\x09\x02\0\0\0\0\0"[..], &b"\x20\x02\0\x01"[..]),
        (b"\x10\x0c\0\x04MQTT\x04\x03\0\0\0\0", b""),
        (b"\xc0\0", b""),
        (b"\x30\x03\0\x01a", b""),
        (b"\x10\xff\xff\x7f", b""),
    ] {
        let mut peer = scene.accept();
        peer.driver.say(bytes);
        assert_eq!((peer.driver.output.as_slice(), peer.state()), (answer, ReadState::Closed), "{bytes:02x?}");
    }
}

#[test]
fn a_silent_stranger_is_closed_without_a_word() {
    let scene = Scene::new();
    let mut peer = scene.accept();
    peer.pass(Duration::from_secs(11));
    assert_eq!((peer.driver.output.len(), peer.state()), (0, ReadState::Closed));
}

/// [MQTT-3.1.2-22]
#[test]
fn a_client_may_be_silent_for_one_and_a_half_times_its_keep_alive() {
    let scene = Scene::new();
    let (mut peer, _) = scene.connect_with(&Connect { keep_alive: 10, ..guest(Version::V5, "c") });
    peer.pass(Duration::from_secs(14));
    peer.say(&Packet::PingReq);
    assert_eq!(peer.heard(), ["PINGRESP"]);
    peer.pass(Duration::from_millis(14_900));
    assert_eq!(peer.state(), ReadState::Read);
    peer.pass(Duration::from_millis(200));
    assert_eq!(
        (peer.heard().as_slice(), peer.state()),
        (&["DISCONNECT keep alive timeout".to_owned()][..], ReadState::Closed)
    );
}

/// [MQTT-3.1.4-3]
#[test]
fn the_last_connection_with_a_client_identifier_has_it() {
    let scene = Scene::new();
    let mut first = scene.v5("c");
    let mut second = scene.accept();
    second.connect(&guest(Version::V5, "c"));
    assert_eq!(second.heard(), [""; 0]);
    first.driver.wait();
    assert_eq!(
        (first.heard().as_slice(), first.state()),
        (&["DISCONNECT session taken over".to_owned()][..], ReadState::Closed)
    );
    assert!(second.wait()[0].starts_with("CONNACK success"));
    let (mut old, _) = scene.connect_with(&guest(Version::V3_1_1, "d"));
    let mut new = scene.accept();
    new.connect(&guest(Version::V5, "d"));
    old.driver.wait();
    assert_eq!((old.heard().len(), old.state()), (0, ReadState::Closed));
    assert!(new.wait()[0].starts_with("CONNACK success"));
}

#[test]
fn another_user_does_not_take_over() {
    let scene = Scene::new();
    let mut first = scene.v5("c");
    let (_, heard) =
        scene.connect_with(&Connect { user: Some("reader"), password: Some(b"reader"), ..guest(Version::V5, "c") });
    assert!(heard.starts_with("CONNACK success"), "{heard}");
    first.say(&Packet::PingReq);
    assert_eq!(first.heard(), ["PINGRESP"]);
}

#[test]
fn packets_out_of_place_end_the_connection() {
    let scene = Scene::new();
    for (bytes, reason) in [
        (&b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0"[..], "protocol error"),
        (b"\xf0\0", "protocol error"),
        (b"\x20\x03\0\0\0", "protocol error"),
        (b"\x90\x04\0\x01\0\0", "protocol error"),
        (b"\x30\x06\0\x01a\x02\x0b\x01", "protocol error"),
        (b"\x30\x07\0\x01a\x03\x23\0\x11", "topic alias invalid"),
        (b"\x30\x06\0\0\x03\x23\0\x01", "protocol error"),
        (b"\x30\x0b\0\x08$share/g\0", "topic name invalid"),
        (b"\x30\x04\0\x01+\0", "topic name invalid"),
        (b"\x82\x08\0\x01\0\0\x02a#\0", "topic filter invalid"),
        (b"\xc1\0", "malformed packet"),
        (b"\x30\xff\xff\xff\x7f", "packet too large"),
        (b"\x82\xff\xff\x7f", "packet too large"),
    ] {
        let mut peer = scene.v5("c");
        peer.driver.say(bytes);
        let expected = format!("DISCONNECT {reason}");
        assert_eq!((peer.heard(), peer.state()), (vec![expected], ReadState::Closed), "{bytes:02x?}");
    }
}

#[test]
fn a_goodbye_leaves_the_close_to_the_client() {
    let scene = Scene::new();
    let mut peer = scene.v3("c");
    peer.publish(7, "a", "1");
    peer.disconnect(Reason::Success);
    assert_eq!((peer.heard(), peer.state()), (vec!["PUBACK 7 success".to_owned()], ReadState::Answered));
}

#[test]
fn an_operator_sees_the_client_and_can_close_it() {
    let scene = Scene::new();
    let mut peer = scene.v5("sensor");
    let report = scene.broker.clients().into_iter().find(|client| client.protocol == "mqtt").unwrap();
    assert_eq!(report.name.as_deref(), Some("sensor"));
    assert!(scene.broker.kick(report.number, "maintenance"));
    peer.driver.wait();
    assert_eq!(peer.heard(), ["DISCONNECT administrative action"]);
}

#[test]
fn every_packet_may_come_in_pieces() {
    let scene = Scene::new();
    let mut peer = scene.v5("c");
    let mut bytes = Vec::new();
    crate::codec::encode(&Packet::PingReq, Version::V5, &mut bytes);
    crate::codec::encode(&Packet::Disconnect(Notice::plain(Reason::DisconnectWithWill)), Version::V5, &mut bytes);
    bytes.iter().for_each(|byte| peer.driver.say(&[*byte]));
    assert_eq!((peer.heard(), peer.state()), (vec![PacketKind::PingResp.as_str().to_owned()], ReadState::Answered));
}
