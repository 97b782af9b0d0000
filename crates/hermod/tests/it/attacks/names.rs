//! Names and values that have a meaning elsewhere: in logs, metrics, files, or other protocols.

use std::collections::HashMap;
use std::path::Path;

use amqp091::codec::BasicProperties;
use stomp::codec::{Command, Version};
use stomp::limits::Limits;

use super::*;
use crate::api::GUEST;

const NAMES: [&str; 9] = [
    "../../etc/passwd",
    "a\nb\r\n[error] fake",
    "\u{1b}[31mred",
    "quote\"brace}\\",
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE --",
    "%2e%2e%2f",
    "\u{202e}txt.exe 🐇",
    "{{7*7}}",
];

/// Every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn names_are_names_wherever_they_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--log-level=debug"]);
    let mut declared = 0;
    for name in NAMES {
        let mut client = Amqp::open(server.ports.amqp);
        client.send(1, QueueDeclare { queue: name, durable: true, ..Default::default() });
        client.expect("QueueDeclareOk");
        declared += 1;
        client.send(1, ExchangeDeclare { exchange: name, kind: name, ..Default::default() });
        client.expect("Ch");
        let mut stranger = Amqp::started(server.ports.amqp);
        stranger.start_ok("PLAIN", format!("\0{name}\0x").as_bytes());
        stranger.expect("ConnectionClose");
    }
    let (_, metrics) = server.ask("GET", "/metrics/per-object", GUEST);
    let samples = metrics.lines().filter(|line| line.starts_with("rabbitmq_queue_messages_ready{")).count();
    assert_eq!(samples, declared, "{metrics}");
    assert!(
        metrics
            .lines()
            .all(|line| line.starts_with("# ") || line.starts_with("rabbitmq_") || line.starts_with("hermod_"))
    );
    let stored = files(folder.path());
    assert!(
        stored.iter().all(|path| path.to_str().unwrap().is_ascii() && !path.to_str().unwrap().contains("etc/passwd"))
    );
    server.signal("TERM");
    let (_, lines) = server.wait();
    for line in &lines {
        assert!(!line.contains('\u{1b}') && !line.starts_with("[error] fake"), "{line:?}");
    }
}

/// Sends control characters on every path to an error that the log has a line for.
#[test]
fn what_peers_write_ends_no_line_of_the_log_and_moves_no_cursor() {
    const FORGED: &str = "x\r\n2026-01-01T00:00:00Z  INFO forged user=\"admin\"\u{1b}[2J\u{9b}1m\u{7f}";
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--log-format", format]);
        let mut stranger = Amqp::started(server.ports.amqp);
        stranger.start_ok("PLAIN", format!("\0{FORGED}\0x").as_bytes());
        stranger.expect("ConnectionClose");
        let mut client = Amqp::started(server.ports.amqp);
        client.start_ok("PLAIN", b"\0guest\0guest");
        client.expect("ConnectionTune");
        client.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 });
        client.send(0, ConnectionOpen { virtual_host: FORGED, ..Default::default() });
        client.expect_close(530);
        let mut client = Amqp::open(server.ports.amqp);
        client.send(1, QueueDeclare { queue: FORGED, passive: true, ..Default::default() });
        client.expect("ChannelClose");
        let escaped = FORGED.replace('\r', "\\r").replace('\n', "\\n");
        for head in [
            format!("CONNECT\naccept-version:1.2\nlogin:{escaped}\npasscode:x\n\n\0"),
            format!(
                "CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n\n\0SEND\ndestination:/nowhere/{escaped}\n\nx\0"
            ),
        ] {
            let mut stomp = socket(server.ports.stomp);
            shove(&mut stomp, head.as_bytes());
            last_words(&mut stomp);
        }
        let headers = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Type: application/json\r\n";
        let encoded: String = FORGED.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for (method, path, body) in [
            ("PUT", format!("/api/vhosts/{encoded}"), "{}"),
            ("PUT", format!("/api/users/{encoded}"), r#"{"password":"x","tags":""}"#),
            ("PUT", format!("/api/policies/%2F/{encoded}"), r#"{"pattern":"","definition":{"max-length":1}}"#),
            ("DELETE", format!("/api/vhosts/{encoded}"), ""),
            ("PUT", format!("/api/exchanges/%2F/{encoded}"), r#"{"type":"nope"}"#),
            (
                "POST",
                format!("/api/exchanges/%2F/{encoded}/publish"),
                r#"{"routing_key":"","payload":"","payload_encoding":"string"}"#,
            ),
        ] {
            let reply = server.send(method, &path, headers, body);
            assert!((400..500).contains(&reply.status), "{method} {path}: {}", reply.status);
        }
        assert_eq!(
            server.send("PUT", &format!("/api/queues/%2F/{encoded}"), headers, r#"{"durable":true}"#).status,
            201
        );
        let (code, listed, _) = crate::server::run(&mut crate::server::hermod("queues", folder.path()));
        assert!(code == 0 && !listed.contains('\u{1b}') && listed.contains("\\u{1b}"), "{listed:?}");
        server.signal("TERM");
        let (_, lines) = server.wait();
        assert!(lines.iter().any(|line| line.contains("forged")), "{lines:?}");
        for line in &lines {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert!(!line.contains(" INFO forged") || !line.starts_with("2026-01-01"), "{line:?}");
            assert!(format == "text" || serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
    }
}

/// One user's refusals cause some lines, and then one per second. Each has the count of the lines
/// that were left out.
#[test]
fn a_user_cannot_fill_the_log_with_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = Amqp::open(server.ports.amqp);
    for _ in 0..2000 {
        client.send(1, QueueDeclare { queue: "gone", passive: true, ..Default::default() });
        client.expect("ChannelClose");
        client.send(1, ChannelCloseOk {});
        client.send(1, ChannelOpen::default());
        client.expect("ChannelOpenOk");
    }
    server.signal("TERM");
    let (_, lines) = server.wait();
    let told = lines.iter().filter(|line| line.contains("closing after an error")).count();
    assert!((1..200).contains(&told), "{told} lines");
}

#[test]
fn secrets_are_neither_logged_nor_stored_nor_shown() {
    const SECRETS: [&str; 4] = ["right-S3cret-one", "wrong-S3cret-two", "token-S3cret-three", "amqplain-S3cret-four"];
    let folder = tempfile::tempdir().unwrap();
    let (data, password) = (folder.path().join("data"), folder.path().join("password"));
    std::fs::write(&password, SECRETS[0]).unwrap();
    let file = format!("--default-pass-file={}", password.display());
    let server = Server::start(&data, &["--log-level=trace", "--default-user=shop", &file]);
    let plain = |password: &str| {
        let mut client = Amqp::started(server.ports.amqp);
        client.start_ok("PLAIN", format!("\0shop\0{password}").as_bytes());
        let said = client.method();
        (client, said)
    };
    let (mut client, said) = plain(SECRETS[0]);
    assert!(said.starts_with("ConnectionTune"), "{said}");
    client.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 });
    client.send(0, ConnectionOpen { virtual_host: "/", ..Default::default() });
    client.expect("ConnectionOpenOk");
    client.send(0, ConnectionUpdateSecret { new_secret: SECRETS[2].as_bytes(), reason: "renewed" });
    client.expect("ConnectionUpdateSecretOk");
    assert!(plain(SECRETS[1]).1.starts_with("ConnectionClose"));
    let response = [&b"\x05LOGINS\0\0\0\x04shop\x08PASSWORDS\0\0\0\x14"[..], SECRETS[3].as_bytes()].concat();
    let mut other = Amqp::started(server.ports.amqp);
    other.start_ok("AMQPLAIN", &response);
    other.expect("ConnectionClose");
    for passcode in &SECRETS[..2] {
        let mut stomp = socket(server.ports.stomp);
        stomp
            .write_all(format!("CONNECT\naccept-version:1.2\nlogin:shop\npasscode:{passcode}\n\n\0").as_bytes())
            .unwrap();
        stomp.read_exact(&mut [0; 5]).unwrap();
    }
    let mut shown = server.get("/metrics").1;
    for name in ["cmdline", "environ"] {
        shown += &String::from_utf8_lossy(&std::fs::read(format!("/proc/{}/{name}", server.pid())).unwrap());
    }
    server.signal("TERM");
    let (_, lines) = server.wait();
    shown += &lines.concat();
    for path in files(&data) {
        shown += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
    }
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret}");
    }
}

/// A body that looks like a frame of its own to a client that takes its first NUL for the end of
/// the frame.
const FORGED: &[u8] = b"\0MESSAGE\nsubscription:s\nmessage-id:x\ndestination:/queue/q\n\nforged\0";

/// The commands, headers and bodies of the frames at the start of `received`.
fn stomp_frames(received: &[u8]) -> Vec<(Command, HashMap<String, String>, Vec<u8>)> {
    let mut frames = Vec::new();
    let limits = Limits { header_line: 1 << 16, ..Limits::default() };
    let decoded = stomp::codec::decode(received, Version::V1_2, limits, &mut |frame| {
        let headers = frame.headers.iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        frames.push((frame.command, headers, frame.body.as_slice().to_vec()));
    });
    assert!(decoded.is_ok(), "{decoded:?}: {}", received.escape_ascii());
    frames
}

#[test]
fn what_one_protocol_allows_ends_no_client_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut publisher = Amqp::open(server.ports.amqp);
    publisher.send(1, QueueDeclare { queue: "mixed", durable: true, ..Default::default() });
    publisher.expect("QueueDeclareOk");
    let odd = |name: &str, value: Value| encode_fields(&[(name.to_owned(), value)]);
    let mut tables = vec![
        odd("a:b\nc\r\0d", Value::from("e:f\ng\0")),
        odd("message-id", Value::from("not yours")),
        odd("destination", Value::from("/queue/elsewhere")),
        odd("content-length", Value::from("0")),
        odd("subscription", Value::from("another")),
        odd("ack", Value::from("not yours")),
        odd("", Value::from("no name")),
        odd(&"n".repeat(255), Value::from("v".repeat(60_000).as_str())),
        odd("nested", Value::Table(vec![("deep".to_owned(), Value::Bool(true))])),
        // Text that is not UTF-8.
        b"\x01tS\0\0\0\x02\xff\xfe".to_vec(),
        b"\x02\xff\xfeV".to_vec(),
    ];
    tables.extend(NAMES.map(|name| odd(name, Value::from(name))));
    let count = tables.len();
    for table in &tables {
        let properties = BasicProperties { headers: Table::new(table).ok(), ..Default::default() };
        publisher.publish("mixed", &properties.to_bytes(), FORGED);
    }
    for text in [&b"\xff\xfe"[..], b"a\nb:c", b""] {
        let some = Some(text);
        let properties = BasicProperties { correlation_id: some, kind: some, content_type: some, ..Default::default() };
        publisher.publish("mixed", &properties.to_bytes(), &[0xFF; 100]);
    }
    publisher.send(1, BasicQos::default());
    publisher.expect("BasicQosOk");
    let mut reader = socket(server.ports.stomp);
    reader
        .write_all(
            b"CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n\n\0SUBSCRIBE\nid:s\ndestination:/queue/mixed\nack:client-individual\n\n\0",
        )
        .unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 65536];
    let mut frames = Vec::new();
    // The first one is CONNECTED.
    while frames.len() < 1 + count + 3 {
        let length = reader.read(&mut buffer).unwrap();
        assert!(length > 0, "the reader was closed after {} frames: {}", frames.len(), received.escape_ascii());
        received.extend_from_slice(&buffer[..length]);
        frames = stomp_frames(&received);
    }
    for (at, (command, headers, body)) in frames[1..].iter().enumerate() {
        assert_eq!((*command, &headers["subscription"][..]), (Command::Message, "s"));
        assert_eq!((&headers["ack"], &headers["destination"][..]), (&headers["message-id"], "/queue/mixed"));
        assert_eq!(body, if at < count { FORGED } else { &[0xFF; 100] });
    }
}
