//! Metrics and health.

use std::collections::BTreeSet;

use crate::server::Server;
use crate::stomp::Stomp;

#[test]
fn every_family_is_declared_once_and_figures_move() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "hello");
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    let mut declared = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            rest.split(' ').next().unwrap().clone_into(&mut current);
            assert!(declared.insert(current.clone()), "{current} is declared twice");
            assert_eq!(rest.ends_with(" counter"), current.ends_with("_total"), "{rest}");
        } else if !line.starts_with("# HELP ") {
            assert_eq!(line.split([' ', '{']).next(), Some(current.as_str()), "a sample outside its family");
        }
    }
    for line in [
        "rabbitmq_connections 1",
        "rabbitmq_queues 1",
        "rabbitmq_queue_messages_ready 1",
        "rabbitmq_global_messages_received_total 1",
        "rabbitmq_global_messages_routed_total 1",
        "hermod_received_body_bytes_total 5",
        "hermod_sockets{protocol=\"stomp\"} 1",
        "rabbitmq_alarms_memory_used_watermark 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in:\n{text}");
    }
    let (status, text) = server.get("/metrics/per-object");
    assert_eq!(status, 200);
    assert!(text.contains("rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"orders\"} 1\n"), "{text}");
    // What is on disk is in no figure of bytes, so there is none that says so.
    assert!(
        text.contains("rabbitmq_queue_messages_ram_bytes{") && !text.contains("rabbitmq_queue_messages_bytes"),
        "{text}"
    );
}

#[test]
fn health_is_told_and_other_paths_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    for (path, expected) in [
        ("/health/live", (200, "live\n")),
        ("/health/ready", (200, "ready\n")),
        ("/health/writable", (200, "writable\n")),
        ("/api", (404, "")),
    ] {
        let (status, body) = server.get(path);
        assert_eq!((status, body.as_str()), expected, "{path}");
    }
}
