//! Opening a connection, successfully and not.

use super::*;
use auth::sasl::{Mechanism, scram};
use testkit::sim_disk::SimDisk;

const REFUSED: &str =
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";

/// A socket on which the server has sent start.
fn started(server: &Server) -> Peer {
    let mut peer = server.socket();
    peer.raw(&PROTOCOL_HEADER);
    peer.wait_for(1);
    peer.lines.clear();
    peer
}

/// A socket on which the server has sent tune.
fn tuning(server: &Server) -> Peer {
    let mut peer = started(server);
    peer.start_ok("PLAIN", b"\0guest\0guest", &capabilities());
    peer.expect(&["0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }"]);
    peer
}

#[test]
fn start_names_the_server_and_what_it_can() {
    let server = server();
    let mut peer = server.socket();
    peer.raw(b"AMQP");
    assert_eq!(peer.lines.len(), 0);
    let mut bytes = PROTOCOL_HEADER[4..].to_vec();
    // 0-9 is served as 0-9-1.
    peer.raw(&bytes);
    peer.wait_for(1);
    let start = peer.lines.remove(0);
    assert!(start.starts_with("0 ConnectionStart { version_major: 0, version_minor: 9,"), "{start}");
    let mut old = server.socket();
    bytes = b"AMQP\x01\x01\x00\x09".to_vec();
    old.raw(&bytes);
    old.wait_for(1);
    assert_eq!(old.lines.remove(0), start);
}

#[test]
fn other_protocols_are_answered_with_the_right_header() {
    for header in [b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"GET / HT"] {
        let mut peer = server().socket();
        peer.raw(header);
        assert_eq!(peer.take_raw(), PROTOCOL_HEADER);
        assert!(peer.is_closed());
    }
}

#[test]
fn both_mechanisms_let_the_right_password_in() {
    let amqplain =
        encode_fields(&[("LOGIN".to_owned(), Value::from("guest")), ("PASSWORD".to_owned(), Value::from("guest"))]);
    for (mechanism, response) in [("PLAIN", b"\0guest\0guest".as_slice()), ("AMQPLAIN", &amqplain)] {
        let mut peer = started(&server());
        peer.start_ok(mechanism, response, &[]);
        peer.expect(&["0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }"]);
        peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 4096, heartbeat: 0 });
        peer.send(0, ConnectionOpen { virtual_host: "", ..Default::default() });
        peer.expect(&["0 ConnectionOpenOk { known_hosts: \"\" }"]);
    }
}

#[test]
fn who_does_not_say_who_it_is_gets_in_only_where_that_is_wanted() {
    let server = |user: Option<&str>| {
        let settings = Settings { anonymous_user: user.map(str::to_owned), ..Default::default() };
        server_with(settings, Setup::memory())
    };
    let unknown = connection_closed(503, "COMMAND_INVALID - unknown authentication mechanism 'ANONYMOUS'", (10, 11));
    let refused = connection_closed(403, &REFUSED.replace("PLAIN", "ANONYMOUS"), (0, 0));
    let tune = "0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }".to_owned();
    for (user, remote, expected) in [
        (None, "127.0.0.1:1", unknown),
        (Some("guest"), "127.0.0.1:1", tune.clone()),
        (Some("guest"), "10.0.0.1:1", refused.clone()),
        (Some("weak"), "10.0.0.1:1", tune),
        (Some("nobody"), "127.0.0.1:1", refused),
    ] {
        let server = server(user);
        let mut peer = server.socket_from(remote);
        peer.raw(&PROTOCOL_HEADER);
        peer.wait_for(1);
        let start = peer.lines.remove(0);
        assert_eq!(start.contains(&format!("{:?}", b"PLAIN AMQPLAIN ANONYMOUS")), user.is_some(), "{start}");
        peer.start_ok("ANONYMOUS", b"somebody", &capabilities());
        peer.expect(&[&expected]);
    }
}

#[test]
fn a_certificate_lets_its_user_in_where_that_is_wanted() {
    let refused = connection_closed(403, &REFUSED.replace("PLAIN", "EXTERNAL"), (0, 0));
    let unknown = connection_closed(503, "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'", (10, 11));
    let tune = "0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }".to_owned();
    for (wanted, remote, certified, expected) in [
        (true, "10.0.0.1:1", Some("weak"), tune),
        (true, "10.0.0.1:1", Some("guest"), refused.clone()),
        (true, "127.0.0.1:1", Some("nobody"), refused),
        (true, "127.0.0.1:1", None, unknown.clone()),
        (false, "127.0.0.1:1", Some("weak"), unknown),
    ] {
        let mechanisms = if wanted { vec![Mechanism::External, Mechanism::Plain] } else { vec![Mechanism::Plain] };
        let server = server_with(Settings { mechanisms, ..Default::default() }, Setup::memory());
        let mut peer = server.socket_of(remote, certified);
        peer.raw(&PROTOCOL_HEADER);
        peer.wait_for(1);
        let start = peer.lines.remove(0);
        let offered = if wanted && certified.is_some() { "EXTERNAL PLAIN" } else { "PLAIN" };
        assert!(start.contains(&format!("mechanisms: {:?}", offered.as_bytes())), "{start}");
        // The response of the client makes no difference.
        peer.start_ok("EXTERNAL", b"guest", &capabilities());
        peer.expect(&[&expected]);
    }
}

/// The challenge in the only line.
fn challenge(peer: &mut Peer) -> String {
    peer.wait_for(1);
    let line = peer.lines.remove(0);
    let bytes = line.strip_prefix("0 ConnectionSecure { challenge: [").and_then(|line| line.strip_suffix("] }"));
    let bytes = bytes.unwrap_or_else(|| panic!("{line}")).split(", ").map(|byte| byte.parse().unwrap());
    String::from_utf8(bytes.collect()).unwrap()
}

#[test]
fn a_proof_of_the_password_lets_in_and_the_server_proves_itself() {
    let settings = Settings { mechanisms: vec![Mechanism::ScramSha256], ..Default::default() };
    let server = server_with(settings, Setup::memory());
    let hash = PasswordHash::create_scram(b"pencil", [7; 16]).unwrap();
    server.test.broker.authority().put(User::new("shop", Some(hash))).unwrap();
    let refused = connection_closed(403, &REFUSED.replace("PLAIN", "SCRAM-SHA-256"), (0, 0));
    for (user, password, right) in
        [("shop", "pencil", true), ("shop", "Pencil", false), ("nobody", "pencil", false), ("guest", "guest", false)]
    {
        let mut peer = started(&server);
        let bare = format!("n={user},r=fyko");
        peer.start_ok("SCRAM-SHA-256", format!("n,,{bare}").as_bytes(), &capabilities());
        let challenged = challenge(&mut peer);
        let last = scram::answer(password.as_bytes(), &bare, &challenged).unwrap();
        peer.send(0, ConnectionSecureOk { response: last.as_bytes() });
        if right {
            assert!(challenge(&mut peer).starts_with("v="));
            peer.send(0, ConnectionSecureOk { response: b"" });
            peer.expect(&["0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }"]);
        } else {
            peer.expect(&[&refused]);
        }
    }
    // Messages out of order, and bytes that are not a SCRAM message.
    let mut peer = started(&server);
    peer.send(0, ConnectionSecureOk { response: b"" });
    let text = "CHANNEL_ERROR - unexpected method in connection state starting";
    peer.expect(&[&connection_closed(504, text, (10, 21))]);
    for (first, last) in [("n,,n=shop", None), ("n,,n=shop,r=fyko", Some("c=biws,r=fyko,p=AAAA"))] {
        let mut peer = started(&server);
        peer.start_ok("SCRAM-SHA-256", first.as_bytes(), &capabilities());
        if let Some(last) = last {
            challenge(&mut peer);
            peer.send(0, ConnectionSecureOk { response: last.as_bytes() });
        }
        peer.wait_for(1);
        assert!(peer.lines[0].starts_with("0 ConnectionClose { reply_code: 502"), "{:?}", peer.lines);
    }
}

/// The salt of an existing user survives a restart. So the salt that is made up for an unknown user
/// must survive it too.
#[test]
fn a_restart_tells_no_user_from_nobody() {
    let disk = SimDisk::new(1, 64 << 20);
    let salts = |boot: u8| {
        let settings = Settings { mechanisms: vec![Mechanism::ScramSha256], ..Settings::default() };
        let server = server_with(settings, Setup { boot_key: [boot; 32], ..Setup::stepped(&disk, 8 << 20) });
        if boot == 1 {
            let hash = PasswordHash::create_scram(b"pencil", [7; 16]).unwrap();
            server.test.broker.add_user(User::new("shop", Some(hash))).unwrap();
        }
        server.test.flush();
        let salts = ["shop", "nobody"].map(|user| {
            let mut peer = started(&server);
            peer.start_ok("SCRAM-SHA-256", format!("n,,n={user},r=fyko").as_bytes(), &capabilities());
            challenge(&mut peer).split_once(',').unwrap().1.to_owned()
        });
        disk.power_cut();
        salts
    };
    assert_eq!(salts(1), salts(2));
}

#[test]
fn wrong_passwords_unknown_users_and_far_guests_are_told_the_same() {
    let server = server();
    for (remote, response) in [
        ("127.0.0.1:1", b"\0guest\0wrong".as_slice()),
        ("127.0.0.1:1", b"\0nobody\0guest"),
        ("127.0.0.1:1", b"\0guest\0"),
        ("10.0.0.1:1", b"\0guest\0guest"),
    ] {
        for (fields, expected) in [(capabilities(), Some(connection_closed(403, REFUSED, (0, 0)))), (vec![], None)] {
            let mut peer = server.socket_from(remote);
            peer.raw(&PROTOCOL_HEADER);
            peer.wait_for(1);
            peer.lines.clear();
            peer.start_ok("PLAIN", response, &fields);
            match expected {
                Some(close) => peer.expect(&[&close]),
                None => {
                    // No answer is sent, and the socket closes after a pause. Until the log-in is
                    // decided, nothing is read.
                    for _ in 0..ROUNDS {
                        peer.pump();
                        if peer.reads() {
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    peer.expect(&[]);
                }
            }
            assert!(!peer.is_closed());
            peer.advance(3);
            assert!(peer.is_closed());
        }
    }
}

/// How far the handshake has come (0: start, 1: tune, 2: tune-ok) and the method that is sent; then
/// code, text and method of the close.
type Case<'a> = (u8, Method<'a>, u16, &'static str, (u16, u16));

#[test]
fn a_handshake_out_of_order_or_out_of_bounds_is_refused() {
    let open = |virtual_host| Method::from(ConnectionOpen { virtual_host, ..Default::default() });
    let tune = |channel_max, frame_max| Method::from(ConnectionTuneOk { channel_max, frame_max, heartbeat: 0 });
    let start = |mechanism, response| Method::from(ConnectionStartOk { mechanism, response, ..Default::default() });
    let table: Vec<Case<'_>> = vec![
        (0, open("/"), 504, "CHANNEL_ERROR - unexpected method in connection state starting", (10, 40)),
        (0, start("EXTERNAL", b""), 503, "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'", (10, 11)),
        (
            1,
            tune(10, 100),
            530,
            "NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
            (10, 30),
        ),
        (
            1,
            tune(2048, 8192),
            530,
            "NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
            (10, 30),
        ),
        (1, open("/"), 504, "CHANNEL_ERROR - unexpected method in connection state tuning", (10, 40)),
        (2, open("none"), 530, "NOT_ALLOWED - access to vhost 'none' refused for user 'guest'", (10, 40)),
        (2, tune(10, 8192), 504, "CHANNEL_ERROR - unexpected method in connection state opening", (10, 31)),
    ];
    let server = server();
    for (stage, method, code, text, blamed) in table {
        let mut peer = if stage == 0 { started(&server) } else { tuning(&server) };
        if stage == 2 {
            peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 0 });
        }
        peer.send(0, method);
        peer.expect(&[&connection_closed(code, text, blamed)]);
        peer.send(0, ConnectionCloseOk {});
        assert!(peer.is_closed());
    }
}

#[test]
fn a_client_that_chose_plain_and_said_nothing_is_asked() {
    let server = server();
    for (response, expected) in [
        (&b"\0guest\0guest"[..], "0 ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 }".to_owned()),
        (b"\0guest\0wrong", connection_closed(403, REFUSED, (0, 0))),
        (b"", connection_closed(502, "SYNTAX_ERROR - a PLAIN response has three parts separated by NUL", (10, 21))),
    ] {
        let mut peer = started(&server);
        peer.start_ok("PLAIN", b"", &capabilities());
        peer.expect(&["0 ConnectionSecure { challenge: [] }"]);
        peer.send(0, ConnectionSecureOk { response });
        peer.expect(&[&expected]);
    }
    // A client that is asked for credentials is not logged in.
    let mut peer = started(&server);
    peer.start_ok("PLAIN", b"", &capabilities());
    peer.expect(&["0 ConnectionSecure { challenge: [] }"]);
    peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 0 });
    peer.expect(&[&connection_closed(504, "CHANNEL_ERROR - unexpected method in connection state securing", (10, 31))]);
}

/// "Zero means that the client does not impose any specific limit", says the specification of
/// tune-ok.
#[test]
fn a_client_without_limits_keeps_to_those_of_the_server() {
    let server = server();
    let mut peer = tuning(&server);
    peer.send(0, ConnectionTuneOk { channel_max: 0, frame_max: 0, heartbeat: 0 });
    peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    peer.expect(&["0 ConnectionOpenOk { known_hosts: \"\" }"]);
    peer.send(2048, ChannelOpen::default());
    let text = "CHANNEL_ERROR - channel number 2048 is higher than the negotiated channel_max (2047)";
    peer.expect(&[&connection_closed(504, text, (20, 10))]);
}

#[test]
fn frames_are_small_and_channels_closed_before_the_connection_is_open() {
    let server = server();
    let mut peer = started(&server);
    peer.raw(&[1, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF]);
    let text = "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,2147483647,8184}";
    peer.expect(&[&connection_closed(501, text, (0, 0))]);
    peer.advance(3);
    assert!(peer.is_closed());
    let mut peer = started(&server);
    peer.send(1, ChannelOpen::default());
    assert!(peer.lines[0].contains("reply_code: 505"), "{:?}", peer.lines);
}

/// Bytes that are not AMQP may belong to any protocol: the connection ends "without sending any
/// further data on it" (specification §4.2.3).
#[test]
fn who_sends_no_frames_before_the_login_is_told_nothing() {
    let unknown_type = [5, 0, 0, 0, 0, 0, 0, 0xCE];
    let wrong_end = [8, 0, 0, 0, 0, 0, 0, 0xCD];
    let server = server();
    for bytes in [unknown_type, wrong_end] {
        let mut peer = started(&server);
        peer.raw(&bytes);
        peer.expect(&[]);
        peer.advance(2);
        assert!(!peer.is_closed(), "who guesses has to wait");
        peer.advance(1);
        peer.expect(&[]);
        assert!(peer.is_closed());
    }
}

#[test]
fn a_handshake_that_dawdles_is_cut_off() {
    let mut peer = started(&server());
    peer.advance(9);
    assert!(!peer.is_closed());
    peer.advance(1);
    assert!(peer.is_closed());
}

#[test]
fn heartbeats_go_both_ways() {
    let mut peer = tuning(&server());
    peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 10 });
    peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    peer.expect(&["0 ConnectionOpenOk { known_hosts: \"\" }"]);
    assert_eq!(peer.deadline(), Some(peer.driver.now + Duration::from_secs(5)));
    peer.advance(5);
    peer.expect(&["0 heartbeat"]);
    peer.advance(5);
    peer.expect(&["0 heartbeat"]);
    // Any byte proves that the peer is alive.
    peer.raw(&[8, 0, 0, 0, 0, 0, 0, 0xCE]);
    peer.advance(15);
    peer.expect(&["0 heartbeat"]);
    assert!(!peer.is_closed());
    peer.advance(5);
    assert!(peer.is_closed());
}

#[test]
fn a_frame_that_stops_in_the_middle_is_no_sign_of_life() {
    let mut peer = tuning(&server());
    peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 10 });
    peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    peer.expect(&["0 ConnectionOpenOk { known_hosts: \"\" }"]);
    peer.raw(&[1, 0, 1]);
    // The driver offers the same bytes again whenever it has called the connection.
    for _ in 0..3 {
        peer.advance(5);
        assert!(!peer.is_closed());
    }
    peer.advance(5);
    assert!(peer.is_closed());
}

#[test]
fn for_a_peer_that_is_given_up_nothing_is_left_to_write() {
    let mut peer = tuning(&server());
    peer.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 10 });
    peer.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    peer.expect(&["0 ConnectionOpenOk { known_hosts: \"\" }"]);
    peer.open(1);
    let mut bytes = Vec::new();
    Method::from(AccessRequest::default()).encode(1, &mut bytes);
    peer.driver.connection.receive(&bytes, peer.driver.now);
    peer.driver.connection.tick(peer.driver.now + Duration::from_secs(19));
    assert!(!peer.driver.connection.output().is_empty());
    peer.driver.connection.tick(peer.driver.now + Duration::from_secs(20));
    assert!(peer.driver.connection.output().is_empty());
    // Not merely closed: the end of a stream would wait behind bytes that the peer does not read.
    assert_eq!(peer.driver.connection.read_state(), ReadState::GivenUp);
}

#[test]
fn secrets_can_be_updated() {
    let mut peer = server().connect_as("guest", &[]);
    peer.send(0, ConnectionUpdateSecret { new_secret: b"token", reason: "renewed" });
    peer.expect(&["0 ConnectionUpdateSecretOk"]);
}

#[test]
fn its_header_is_told_from_that_of_amqp_1_0() {
    use wire::{Protocol, Recognition};
    let protocol = server().protocol;
    for (first, expected) in [
        (&b""[..], Recognition::Incomplete),
        (b"AMQ", Recognition::Incomplete),
        (b"AMQP", Recognition::Incomplete),
        (b"AMQP\x00", Recognition::Incomplete),
        (b"AMQP\x00\x00", Recognition::Yes),
        (b"AMQP\x00\x00\x09\x01", Recognition::Yes),
        (b"AMQP\x01\x01\x00\x09", Recognition::Yes),
        (b"AMQP\x00\x01\x00", Recognition::Incomplete),
        (b"AMQP\x00\x01\x00\x00", Recognition::No),
        (b"AMQP\x03\x01\x00\x00", Recognition::No),
        (b"AMQP\x03\x02", Recognition::Yes),
        (b"GET ", Recognition::No),
    ] {
        assert_eq!(protocol.recognise(first), expected, "{first:?}");
    }
}
