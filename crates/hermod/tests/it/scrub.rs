//! The scrub finds a message that has become unreadable on disk before a consumer asks for it.

use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

/// A log so small that most of a backlog moves out of it.
const SMALL: [&str; 6] =
    ["--journal-max-bytes", "2MiB", "--journal-file-bytes", "256KiB", "--limits-max-message-size", "64KiB"];

#[test]
fn a_damaged_backlog_is_noticed_before_it_is_consumed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SMALL);
    let mut client = Stomp::connect(&server);
    (0..500).for_each(|number| client.publish("orders", &format!("{number:04}{}", "x".repeat(4096))));
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));

    let damaged = "cold/80000001.seg";
    let mut bytes = std::fs::read(dir.path().join(damaged)).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(dir.path().join(damaged), bytes).unwrap();

    let off = Server::start(dir.path(), &[&SMALL[..], &["--journal-scrub", "0"]].concat());
    assert!(off.get("/metrics").1.contains("\nhermod_scrub_bytes_total 0\n"));
    off.signal("TERM");
    assert_eq!(off.wait().0, Some(0));

    let server = Server::start(dir.path(), &SMALL);
    let line = server.until_logged(&format!("{damaged} is damaged at byte "));
    assert!(line.contains("hermod repair"), "{line}");
    until("the round", || server.get("/metrics").1.contains("\nhermod_scrub_rounds_total 1\n"));
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\nhermod_scrub_damaged 1\n"), "{metrics}");
    let (_, status, _) = run(hermod("status", dir.path()).arg("--json"));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["damaged_segments"], &status["damaged_queues"]), (&1.into(), &0.into()));
}
