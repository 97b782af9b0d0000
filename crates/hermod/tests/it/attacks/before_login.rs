//! What clients can do before they have logged in.

use super::*;
use crate::server::{free_port, until};

/// Flags of a server that lets in many strangers, so that their bytes are refused and not their
/// connections.
const CROWD: [&str; 2] = ["--limits-pending-per-address=20000", "--limits-pending=20000"];

/// A frame, complete or not, whose head announces `length`.
fn head(kind: u8, length: u32) -> Vec<u8> {
    let mut bytes = PROTOCOL_HEADER.to_vec();
    bytes.extend([kind, 0, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend(b"0123456789");
    bytes
}

#[test]
fn what_is_announced_is_not_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &CROWD);
    let canary = Canary::start(&server);
    let refused: [Vec<u8>; 7] = [
        head(1, 0x7FFF_FFFF),
        head(1, u32::MAX),
        head(3, 0x8000_0000),
        head(9, 10),
        b"CONNECT\ncontent-length:4294967296\nlogin:a\n\n".to_vec(),
        b"CONNECT\ncontent-length:-1\nlogin:a\n\n".to_vec(),
        format!("CONNECT\nlogin:{}", "a".repeat(100_000)).into_bytes(),
    ];
    let before = resident(&server);
    let mut held = Vec::new();
    for bytes in &refused {
        for _ in 0..100 {
            let port = if bytes.starts_with(b"AMQP") { server.ports.amqp } else { server.ports.stomp };
            let mut socket = socket(port);
            shove(&mut socket, bytes);
            held.push(socket);
        }
    }
    for socket in &mut held {
        last_words(socket);
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 700 * 16 + 16 * 1024, "{grown} KiB for 700 connections");
    canary.stop();
}

#[test]
fn a_handshake_that_does_not_go_on_ends_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (any, patience) = (free_port(), "--limits-handshake-timeout=1s");
    let server = Server::start(folder.path(), &[CROWD[0], CROWD[1], patience, &format!("--ports-any={any}")]);
    let canary = Canary::start(&server);
    let mut half_start_ok = PROTOCOL_HEADER.to_vec();
    half_start_ok.extend([1, 0, 0, 0, 0, 0x1F, 0xF0]);
    half_start_ok.extend([b'x'; 8000]);
    let halves: [&[u8]; 5] = [b"", b"AMQP\0", &half_start_ok, b"CONNECT\nlogin:gu", b"\x16\x03\x01\x02\x00\x01"];
    let before = resident(&server);
    let mut held = Vec::new();
    for half in halves {
        for port in (0..100).map(|number| [server.ports.amqp, any][number % 2]) {
            let mut socket = socket(port);
            socket.write_all(half).unwrap();
            held.push(socket);
        }
    }
    // Meanwhile other clients log in.
    Amqp::open(server.ports.amqp);
    Amqp::open(any);
    for socket in &mut held {
        last_words(socket);
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 500 * 24 + 16 * 1024, "{grown} KiB for 500 connections");
    canary.stop();
}

#[test]
fn nothing_but_the_handshake_is_reached_before_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &CROWD);
    let objects = |server: &Server| (metric(server, "rabbitmq_queues "), metric(server, "hermod_exchanges "));
    let before = objects(&server);
    // Every method of every class, with arguments that are valid for some.
    for class in [10_u16, 20, 30, 40, 50, 60, 85, 90] {
        for method in (10..=130).step_by(1).filter(|method| (class, *method) != (10, 11)) {
            let mut client = Amqp::started(server.ports.amqp);
            let mut payload = [class.to_be_bytes(), u16::to_be_bytes(method)].concat();
            payload.extend(b"\0\0\x01q\x06direct\0\0\0\0\0");
            for channel in [0_u16, 1] {
                let mut bytes = vec![1];
                bytes.extend(channel.to_be_bytes());
                bytes.extend((payload.len() as u32).to_be_bytes());
                bytes.extend(&payload);
                bytes.push(0xCE);
                shove(&mut client.socket, &bytes);
            }
            let said = client.method();
            assert!(said.starts_with("ConnectionClose ") || said == "closed", "{class}.{method}: {said}");
        }
    }
    for command in [
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "ACK",
        "NACK",
        "DISCONNECT",
        "MESSAGE",
        "RECEIPT",
    ] {
        let mut socket = socket(server.ports.stomp);
        socket.write_all(format!("{command}\ndestination:/queue/q\nid:1\ntransaction:t\n\n\0").as_bytes()).unwrap();
        let said = String::from_utf8(last_words(&mut socket)).unwrap();
        assert!(said.starts_with("ERROR\n"), "{command}: {said}");
    }
    assert_eq!(objects(&server), before);
}

#[test]
fn no_step_of_the_handshake_can_be_left_out_or_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &CROWD);
    let tune_ok = ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 };
    let mut client = Amqp::started(server.ports.amqp);
    client.send(0, tune_ok);
    client.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    client.expect_close(504);
    let mut client = Amqp::started(server.ports.amqp);
    client.start_ok("PLAIN", b"\0guest\0guest");
    client.start_ok("PLAIN", b"\0guest\0guest");
    client.expect("ConnectionTune");
    client.expect_close(504);
    // Mechanisms that are not offered, and responses that are invalid.
    for (mechanism, response, code) in [
        ("EXTERNAL", &b"guest"[..], 503),
        ("ANONYMOUS", b"guest", 503),
        ("plain", b"\0guest\0guest", 503),
        ("PLAIN", b"guest", 502),
        ("PLAIN", b"\0guest\0guest\0more", 502),
        ("PLAIN", b"admin\0guest\0guest", 502),
        ("AMQPLAIN", b"\x05LOGINS\xff\xff\xff\xff", 502),
    ] {
        let mut client = Amqp::started(server.ports.amqp);
        client.start_ok(mechanism, response);
        client.expect_close(code);
    }
    // A response too large for any password: the frame is refused because of its head.
    let mut client = Amqp::started(server.ports.amqp);
    client.start_ok("PLAIN", &vec![0; 1 << 20]);
    client.expect("ConnectionClose { reply_code: 501,");
}

#[test]
fn guesses_are_told_nothing_and_end_after_some() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-failed-logins-per-user=2"]);
    let try_as = |user: &str, password: &str| {
        let mut client = Amqp::started(server.ports.amqp);
        client.start_ok("PLAIN", format!("\0{user}\0{password}").as_bytes());
        client.method()
    };
    let refused = "ConnectionClose { reply_code: 403, reply_text: \"ACCESS_REFUSED - Login was refused using authentication \
                   mechanism PLAIN. For details see the broker logfile.\", class_id: 0, method_id: 0 })";
    for user in ["guest", "nobody"] {
        for password in ["", "admin", "1", "2", "3", "4", "5", "6", "7"] {
            assert_eq!(try_as(user, password), refused, "{user} with {password:?}");
        }
    }
    // An empty password is refused without a check, and does not count as a failure of the user.
    assert_eq!(metric(&server, "hermod_logins_total{outcome=\"throttled\"}"), 12);
    // From this address, even the right password is refused now. Other users are not affected.
    assert_eq!(try_as("guest", "guest"), refused);
    assert_eq!(try_as("other", "x"), refused);
    assert_eq!(metric(&server, "hermod_logins_total{outcome=\"throttled\"}"), 13);
}

#[test]
fn a_peer_cannot_fill_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-pending-per-address=10"]);
    let started = std::time::Instant::now();
    for round in 0..300 {
        let noise: &[u8] = [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\0\0\0\0\0", b"CONNECT\n\n\0"][round % 3];
        shove(&mut socket(server.ports.amqp), noise);
    }
    for round in 0..100 {
        let mut client = socket(server.ports.stomp);
        // Another name each time, because strangers can choose their names.
        let connect = format!("CONNECT\naccept-version:1.2\nlogin:guest{round}\npasscode:wrong\n\n\0");
        shove(&mut client, connect.as_bytes());
        answer(&mut client);
        // The same by HTTP and without a password, for guest and for a user with a long name.
        for credentials in ["Z3Vlc3Q6d3Jvbmc=", "Z3Vlc3Q6", &("bm5u".repeat(2000) + "Og==")] {
            let mut client = socket(server.ports.http);
            let request = format!(
                "GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
            );
            shove(&mut client, request.as_bytes());
            assert!(last_words(&mut client).starts_with(b"HTTP/1.1 401"));
        }
    }
    until("an empty registry", || server.get("/metrics").1.lines().all(|line| !line.starts_with("hermod_sockets{")));
    server.signal("TERM");
    let (code, lines) = server.wait();
    assert_eq!(code, Some(0));
    // Of each of three kinds 20 lines at once and then one per second, for 700 refusals from one
    // network.
    let allowed = 20 + 3 * (20 + usize::try_from(started.elapsed().as_secs()).unwrap_or(usize::MAX) + 1);
    assert!(lines.len() < allowed, "{} lines, and {allowed} are allowed: {lines:?}", lines.len());
    assert!(lines.iter().all(|line| line.len() < 1000), "{lines:?}");
}

#[test]
fn by_http_no_more_are_inside_than_may_from_one_address() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-pending-per-address=10", "--limits-handshake-timeout=1h"]);
    let mut held: Vec<_> = (0..10).map(|_| socket(server.ports.http)).collect();
    for socket in &mut held {
        // Each is let in: it gets one answer.
        shove(socket, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT");
        assert_eq!(socket.read(&mut [0; 4]).unwrap(), 4);
    }
    // One more is let in, and the one that has waited longest is closed for it.
    let more: Vec<_> = (0..5)
        .map(|_| {
            let mut client = socket(server.ports.http);
            shove(&mut client, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(client.read(&mut [0; 4]).unwrap(), 4);
            client
        })
        .collect();
    for (number, socket) in held.iter_mut().enumerate() {
        shove(socket, b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let said = String::from_utf8(last_words(socket)).unwrap();
        // A connection that is still served gets a second answer after the first.
        assert_eq!(said.contains("location: /login"), number >= 5, "{number}: {said}");
    }
    drop((held, more));
    assert!(metric(&server, "hermod_connections_refused_total{reason=\"pending_per_address\"}") >= 5);
}

#[test]
fn by_http_who_does_not_go_on_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-handshake-timeout=1s", "--tcp-write-timeout=1s"]);
    for said in [&b""[..], b"GET / HT", b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut held: Vec<_> = (0..20).map(|_| socket(server.ports.http)).collect();
        held.iter_mut().for_each(|socket| shove(socket, said));
        for socket in &mut held {
            let answer = last_words(socket);
            assert_eq!(answer.starts_with(b"HTTP/1.1 200"), said.ends_with(b"\r\n\r\n"), "{}", answer.escape_ascii());
        }
    }
    // A client that asks for much and reads very little of it: more than the buffers of the kernel
    // hold.
    let files = open_files(&server);
    let mut client = socket(server.ports.http);
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    shove(&mut client, &request.repeat(4000));
    client.read_exact(&mut [0]).unwrap();
    until("it is given up", || open_files(&server) <= files);
    let answers = last_words(&mut client).windows(12).filter(|window| *window == b"HTTP/1.1 200").count();
    assert!(answers < 3999, "{answers} of 4000 answers");
}
