//! CONNECT, heart-beats, DISCONNECT, and the other ways in which a connection can end.

use std::time::Duration;

use wire::{CloseReason, ReadState};

use super::{Scene, talk};
use crate::Settings;

#[test]
fn connect_negotiates_and_answers() {
    let scene = Scene::new();
    for (headers, version, heart_beat) in [
        ("", "1.0", "0,0"),
        ("accept-version:1.0,1.1,1.2\nhost:/\nheart-beat:5000,100\n", "1.2", "1000,5000"),
        ("accept-version:1.1\nhost:broker.example.org\nheart-beat:0,0\n", "1.1", "0,0"),
    ] {
        for command in ["CONNECT", "STOMP"] {
            let mut peer = scene.accept();
            assert_eq!(peer.state(), ReadState::Handshake);
            peer.say(&format!("{command}\n{headers}login:guest\npasscode:guest\n\n\0"));
            let heard = peer.wait_for_frames().remove(0);
            assert!(heard.starts_with(&format!("CONNECTED\nversion:{version}\nsession:")), "{heard}");
            assert!(heard.contains(&format!("\nheart-beat:{heart_beat}\nserver:Hermod/")), "{heard}");
            assert_eq!(peer.state(), ReadState::Read);
        }
    }
}

#[test]
fn a_connect_without_login_is_refused_but_for_a_setting() {
    let login = Some(("guest".to_owned(), "guest".to_owned()));
    let mut peer = Scene::new().with_settings(Settings { default_login: login, ..Settings::default() }).accept();
    peer.say("CONNECT\n\n\0");
    assert!(peer.wait_for_frames()[0].starts_with("CONNECTED"));
    let mut peer = Scene::new().accept();
    peer.say("CONNECT\n\n\0");
    assert_eq!(peer.heard()[0].lines().nth(1), Some("message:Missing header"));
}

#[test]
fn a_refused_connect_says_no_more_than_it_must() {
    let scene = Scene::new().with_settings(Settings { strict_host: true, ..Settings::default() });
    for (frame, message, detail) in [
        ("CONNECT\nlogin:guest\npasscode:no\n\n\0", "Bad CONNECT", "Access refused for user 'guest'"),
        ("CONNECT\nlogin:nobody\npasscode:no\n\n\0", "Bad CONNECT", "Access refused for user 'nobody'"),
        ("CONNECT\nlogin:guest\n\n\0", "Bad CONNECT", "Access refused for user 'guest'"),
        (
            "CONNECT\nlogin:guest\npasscode:guest\nhost:x\n\n\0",
            "Bad CONNECT",
            "access to vhost 'x' refused for user 'guest'",
        ),
        ("CONNECT\naccept-version:2.0\n\n\0", "Version mismatch", "Supported versions are 1.0,1.1,1.2, not '2.0'"),
        ("CONNECT\nlogin:guest\nheart-beat:x\n\n\0", "Invalid header", "header 'heart-beat' must be"),
        ("SEND\ndestination:/queue/a\n\n\0", "Illegal command", "You must log in using CONNECT first"),
        ("SUBSCRIBE\ndestination:/queue/a\n\n\0", "Illegal command", "You must log in"),
        ("SEND\n\nx", "Illegal command", "You must log in using CONNECT first"),
        ("NONSENSE\n\n\0", "Bad command", "\"NONSENSE\" is no STOMP command"),
    ] {
        let mut peer = scene.accept();
        peer.say(frame);
        let heard = peer.wait_for_frames().remove(0);
        let expected = format!("ERROR\nmessage:{message}\ncontent-type:text/plain\nversion:1.0,1.1,1.2\n\n{detail}");
        assert!(heard.starts_with(&expected), "{frame:?}: {heard}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
    assert!(scene.broker.clients().is_empty());
}

/// As in RabbitMQ, where a connection of STOMP has a channel.
#[test]
fn a_connection_is_one_of_the_sessions_of_its_user() {
    let scene = Scene::new();
    let limit = |user: &mut auth::User| {
        user.limits.sessions = Some(2);
        Ok(())
    };
    scene.broker.change_user("guest", limit).unwrap();
    let first = scene.connect("1.2");
    let _second = scene.connect("1.2");
    let mut third = scene.accept();
    third.say("CONNECT\nlogin:guest\npasscode:guest\n\n\0");
    let heard = third.wait_for_frames().remove(0);
    assert!(heard.starts_with("ERROR\nmessage:Bad CONNECT\n"), "{heard}");
    assert!(heard.ends_with("\n\nuser 'guest' has as many sessions as it may (2)"), "{heard}");
    assert_eq!(scene.broker.clients().len(), 2);
    drop(first);
    drop(scene.connect("1.2"));
}

#[test]
fn frames_right_behind_connect_are_understood_in_its_version() {
    let mut peer = Scene::new().accept();
    peer.say("CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n\n\0\n\nSEND\ndestination:/queue/a\nreceipt:r\\c1\n\nx\0");
    let mut heard = peer.wait_for_frames();
    if heard.len() == 1 {
        heard.extend(peer.wait_for_frames());
    }
    assert_eq!(heard[1], "RECEIPT\nreceipt-id:r\\c1");
}

#[test]
fn a_stranger_may_send_no_long_head_and_a_known_peer_may() {
    let scene = Scene::new();
    let headers =
        |count: usize| (0..count).map(|number| format!("h{number}:{}\n", "x".repeat(4000))).collect::<String>();
    let mut peer = scene.accept();
    peer.say(&format!("CONNECT\nlogin:guest\npasscode:guest\n{}", headers(4)));
    let heard = peer.heard().concat();
    assert!(heard.contains("longer than 12288 bytes"), "{heard}");
    assert_eq!(peer.state(), ReadState::Answered);
    // A token as password fits.
    let mut peer = scene.accept();
    peer.say(&format!("CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n{}\n\0", headers(2)));
    assert!(peer.wait_for_frames()[0].starts_with("CONNECTED"));
    peer.say(&format!("SEND\ndestination:/queue/a\nreceipt:r\n{}\nx\0", headers(10)));
    assert_eq!(peer.wait_for_frames(), ["RECEIPT\nreceipt-id:r"]);
}

#[test]
fn a_peer_that_does_not_connect_is_let_go() {
    let mut peer = Scene::new().accept();
    peer.say("\n\n");
    peer.pass(Duration::from_secs(9));
    assert_eq!(peer.state(), ReadState::Handshake);
    peer.pass(Duration::from_secs(1));
    assert!(peer.heard()[0].contains("not open within 10 seconds"));
    assert_eq!(peer.state(), ReadState::Answered);
}

#[test]
fn heart_beats_go_out_and_silence_ends_the_connection() {
    let mut peer = Scene::new().accept();
    peer.say("CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\nheart-beat:2000,4000\n\n\0");
    peer.wait_for_frames();
    peer.pass(Duration::from_secs(3));
    assert_eq!(peer.raw(), "\n");
    peer.say("\n");
    peer.pass(Duration::from_secs(3));
    assert_eq!(peer.raw(), "\n\n");
    assert_eq!(peer.state(), ReadState::Read);
    peer.pass(Duration::from_secs(1));
    assert!(peer.raw().starts_with("ERROR\nmessage:Heart-beat missed\n"));
    assert_eq!(peer.state(), ReadState::Answered);
}

#[test]
fn a_frame_that_stops_in_the_middle_is_no_sign_of_life() {
    let mut peer = Scene::new().accept();
    peer.say("CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\nheart-beat:2000,4000\n\n\0");
    peer.wait_for_frames();
    peer.say("SEND\ndestination:/queue/a\n");
    // The driver offers the same bytes again whenever it has called the connection.
    for _ in 0..3 {
        peer.pass(Duration::from_secs(1));
        peer.run();
        assert_eq!(peer.state(), ReadState::Read);
    }
    peer.pass(Duration::from_secs(1));
    assert_eq!(peer.state(), ReadState::Answered);
}

#[test]
fn disconnect_answers_last_and_closes() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    talk(
        &mut peer,
        &[
            ("SEND\ndestination:/queue/a\nreceipt:1\n\nx\0", &["RECEIPT\nreceipt-id:1"]),
            (
                "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\nreceipt:2\n\n\0",
                &[
                    "MESSAGE\nsubscription:s\nmessage-id:S-0-1\nack:S-0-1\ndestination:/queue/a\nredelivered:false\n\nx",
                    "RECEIPT\nreceipt-id:2",
                ],
            ),
            ("DISCONNECT\nreceipt:3\n\n\0SEND\ndestination:/queue/a\n\nlate\0", &["RECEIPT\nreceipt-id:3"]),
        ],
    );
    assert_eq!(peer.state(), ReadState::Answered);
    drop(peer);
    let mut other = scene.connect("1.2");
    talk(
        &mut other,
        &[(
            "SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0",
            &["MESSAGE\nsubscription:s\nmessage-id:S-0-1\ndestination:/queue/a\nredelivered:true\n\nx"],
        )],
    );
    let mut silent = scene.connect("1.2");
    talk(&mut silent, &[("DISCONNECT\n\n\0", &[])]);
    assert_eq!(silent.state(), ReadState::Answered);
}

#[test]
fn the_server_says_why_it_closes() {
    for (reason, detail) in [
        (CloseReason::Shutdown, "the server is shutting down; connect again later"),
        (CloseReason::Forced("maintenance".into()), "maintenance"),
    ] {
        let mut peer = Scene::new().connect("1.2");
        peer.driver.connection.close(reason, peer.driver.now);
        peer.run();
        let heard = peer.heard();
        assert!(heard[0].starts_with("ERROR\nmessage:Connection forced\n") && heard[0].ends_with(detail), "{heard:?}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    assert!(scene.broker.kick(scene.broker.clients()[0].number, "go away"));
    peer.run();
    assert!(peer.heard()[0].ends_with("go away"));
    let mut peer = scene.connect("1.2");
    peer.driver.connection.close(CloseReason::Gone, peer.driver.now);
    peer.driver.connection.close(CloseReason::Gone, peer.driver.now);
    assert_eq!(peer.state(), ReadState::Answered);
    assert!(scene.broker.clients().is_empty());
}

/// The log describes a connection that takes long, also while it ends.
#[test]
fn a_connection_tells_whose_it_is_and_what_it_is_at() {
    let scene = Scene::new();
    let doing = |user: &'static str, vhost: &'static str, last: &'static str| wire::Doing { user, vhost, last };
    assert_eq!(scene.accept().driver.connection.doing(), doing("", "", ""));
    for reason in [CloseReason::Gone, CloseReason::Shutdown] {
        let mut peer = scene.connect("1.2");
        assert_eq!(peer.driver.connection.doing(), doing("guest", "/", "CONNECT"));
        peer.say("SEND\ndestination:/queue/q\n\nx\0");
        assert_eq!(peer.driver.connection.doing(), doing("guest", "/", "SEND"));
        peer.driver.connection.close(reason, peer.driver.now);
        assert_eq!(peer.driver.connection.doing(), doing("guest", "/", "SEND"));
    }
}

#[test]
fn the_first_bytes_tell() {
    use wire::Recognition::*;
    for (bytes, expected) in [
        ("", Incomplete),
        ("\r\n\n", Incomplete),
        ("C", Incomplete),
        ("\nCONNECT", Incomplete),
        ("STOMP", Incomplete),
        ("CONNECT\n", Yes),
        ("\n\nCONNECT\r\n", Yes),
        ("STOMP\naccept-version:1.2\n", Yes),
        ("CONNECT example.org:443 HTTP/1.1\r\n", No),
        ("AMQP\0\0\u{9}\u{1}", No),
        ("GET / HTTP/1.1\r\n", No),
        ("SEND\n", No),
        ("CONNECTED\n", No),
    ] {
        assert_eq!(crate::session::recognise(bytes.as_bytes()), expected, "{bytes:?}");
    }
}
