//! The start as scripts see it, and the shutdown.

use std::net::TcpStream;

use crate::server::Server;
use crate::stomp::Stomp;

#[test]
fn the_start_is_announced_in_order_at_any_log_level_and_format() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--log-level", "error"]);
    let expected = [
        "Hermod ".to_owned(),
        format!("data directory {}", dir.path().display()),
        "durability fsync: ".to_owned(),
        format!("listening for amqp on 127.0.0.1:{}", server.ports.amqp),
        format!("listening for stomp on 127.0.0.1:{}", server.ports.stomp),
        format!("listening for mqtt on 127.0.0.1:{}", server.ports.mqtt),
        format!("listening for http on 127.0.0.1:{}", server.ports.http),
        "Server startup complete".to_owned(),
    ];
    assert_eq!(server.start.len(), expected.len(), "{:?}", server.start);
    for (line, expected) in server.start.iter().zip(&expected) {
        assert!(line.contains(expected.as_str()), "{line} instead of {expected}");
    }
    drop(server);
    let server = Server::start(dir.path(), &["--log-format", "json"]);
    for line in &server.start {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(event["message"].is_string() && event["level"] == "INFO", "{line}");
    }
}

#[test]
fn a_signal_tells_clients_closes_everything_and_leaves_a_clean_directory() {
    for signal in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &[]);
        let ports = server.ports;
        let mut client = Stomp::connect(&server);
        client.publish("q", "m");
        server.signal(signal);
        let last = client.frame();
        assert!(last.starts_with("ERROR\n"), "{last}");
        assert!(client.is_closed());
        let (code, log) = server.wait();
        assert_eq!(code, Some(0), "{log:?}");
        assert!(log.iter().any(|line| line.contains(&format!("SIG{signal}: stopping"))), "{log:?}");
        assert!(log.last().is_some_and(|line| line.contains("Server stopped")), "{log:?}");
        assert!(TcpStream::connect(("127.0.0.1", ports.stomp)).is_err());
        assert!(!dir.path().join("control.sock").exists());
    }
}

#[test]
fn clients_that_never_opened_a_session_do_not_hold_the_end_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--shutdown-timeout", "500ms"]);
    let _silent = [server.ports.amqp, server.ports.stomp, server.ports.http]
        .map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap());
    server.signal("TERM");
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log:?}");
}

/// The line about the end of each connection says who ended it, and a client at the wrong port is
/// told of with the remedy.
#[test]
fn the_log_tells_how_connections_end_and_which_clients_are_at_the_wrong_port() {
    use std::io::{Read, Write};

    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--log-format", "json"]);
    let ended = |before: &str| {
        let line = server.until_logged("\"connection closed\"");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&event["user"], &event["vhost"], &event["level"]), (&"guest".into(), &"/".into(), &"INFO".into()));
        assert!(event["received"].as_u64().unwrap() > 40 && event["sent"].as_u64().unwrap() > 40, "{before}: {line}");
        assert!(event["seconds"].is_u64() && event["last"].is_string(), "{before}: {line}");
        event["by"].as_str().unwrap().to_owned()
    };
    let mut polite = Stomp::connect(&server);
    polite.send("DISCONNECT\nreceipt:bye\n\n");
    assert!(polite.frame().starts_with("RECEIPT\n"));
    drop(polite);
    assert_eq!(ended("a polite end"), "protocol");
    drop(Stomp::connect(&server));
    assert_eq!(ended("a socket that is closed"), "client");
    let mut wrong = Stomp::connect(&server);
    wrong.send("NONSENSE\n\n");
    assert!(wrong.frame().starts_with("ERROR\n"));
    assert_eq!(ended("an error"), "protocol");

    for (port, first, spoken) in [
        (server.ports.amqp, &b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"[..], "TLS"),
        (server.ports.stomp, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (server.ports.http, b"AMQP\0\0\x09\x01", "HTTP alone"),
    ] {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(first).unwrap();
        let line = server.until_logged("a client speaks another protocol");
        assert!(line.contains("\"level\":\"WARN\"") && line.contains("remedy") && line.contains(spoken), "{line}");
        // The answer, if there is one, is of no interest.
        drop(socket.shutdown(std::net::Shutdown::Write));
        let _ = socket.read(&mut [0; 64]);
    }
}
