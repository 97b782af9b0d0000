//! Metrics and health.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::api::GUEST;
use crate::server::{HANG, Server, hermod, run};
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
    let (mut current, mut is_histogram) = (String::new(), false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            rest.split(' ').next().unwrap().clone_into(&mut current);
            assert!(declared.insert(current.clone()), "{current} is declared twice");
            assert_eq!(rest.ends_with(" counter"), current.ends_with("_total"), "{rest}");
            is_histogram = rest.ends_with(" histogram");
        } else if !line.starts_with("# HELP ") {
            let name = line.split([' ', '{']).next().unwrap();
            let parts = ["_bucket", "_sum", "_count"];
            let of = parts.iter().filter(|_| is_histogram).find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            assert_eq!(of, current, "a sample outside its family");
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
        "rabbitmq_global_publishers 1",
        "hermod_queues_unattended 1",
        "rabbitmq_message_size_bytes_bucket{le=\"100.0\"} 1",
        "rabbitmq_message_size_bytes_bucket{le=\"5e+07\"} 1",
        "rabbitmq_message_size_bytes_sum 5",
        "hermod_confirm_seconds_count 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in:\n{text}");
    }
    // Their values depend on how busy the machine is.
    for kind in ["connection", "housekeeping", "management"] {
        let family = format!("hermod_long_turns_total{{kind=\"{kind}\"}} ");
        assert!(text.lines().any(|shown| shown.starts_with(&family)), "{family} is missing in:\n{text}");
    }
    let (status, text) = server.ask("GET", "/metrics/per-object", GUEST);
    assert_eq!(status, 200);
    assert!(text.contains("rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"orders\"} 1\n"), "{text}");
    for line in [
        "rabbitmq_queue_messages_acked_total{vhost=\"/\",queue=\"orders\"} 0",
        "hermod_queue_stalled{vhost=\"/\",queue=\"orders\",reason=\"no_consumers\"} 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in:\n{text}");
    }
    assert!(text.contains("hermod_queue_oldest_ready_seconds{vhost=\"/\",queue=\"orders\"} "), "{text}");
    // Bytes that include those on disk are in /metrics/detailed.
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
    ] {
        let (status, body) = server.get(path);
        assert_eq!((status, body.as_str()), expected, "{path}");
    }
}

/// The answer to a request that consists of these lines only.
fn raw(server: &Server, lines: &[&str]) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", server.ports.http)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.write_all(format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_browser_is_told_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.send("GET", "/", "", "").header("location"), "/login");
    assert_eq!(server.send("GET", "/favicon.ico", "", "").header("content-type"), "image/svg+xml");
    for (path, status, said) in [
        ("/ui", 404, "/api/overview"),
        ("/cli/rabbitmqadmin", 404, "https://github.com/rabbitmq/rabbitmqadmin-ng"),
        ("/api", 200, "RabbitMQ's HTTP API"),
        ("/api/", 200, "RabbitMQ's HTTP API"),
        ("/api/nothing", 404, "Object Not Found"),
    ] {
        let (found, text) = server.get(path);
        assert!(found == status && text.contains(said), "{path}: {found} {text}");
    }
    let (_, text) = server.ask("GET", "/ui", "Accept: application/json\r\n");
    assert!(text.starts_with("{\"error\":\"Object Not Found\""), "{text}");
    assert_eq!(run(hermod("alarms", dir.path()).args(["set", "memory"])).0, 0);
    assert!(server.get("/login").1.contains("Low on memory: publishers wait"));
}

#[test]
fn answers_are_not_kept_guessed_at_or_shown_within_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    for path in ["/", "/metrics", "/health/ready", "/api/whoami", "/api/users", "/api/none", "/none"] {
        let reply = server.send("GET", path, GUEST, "");
        assert_eq!(
            (reply.header("cache-control"), reply.header("x-content-type-options")),
            ("no-store", "nosniff"),
            "{path}"
        );
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(reply.header("access-control-allow-origin"), "", "{path}");
    }
}

#[test]
fn names_of_queues_are_told_to_users_that_see_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("secret", "hello");
    let refused = server.send("GET", "/metrics/per-object", "", "");
    assert_eq!((refused.status, refused.header("www-authenticate").is_empty()), (401, false));
    assert!(!refused.body.contains("secret"));
    let add = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    add(&["add", "alice", "--password", "one"]);
    let alice = "Authorization: Basic YWxpY2U6b25l\r\n";
    assert_eq!(server.ask("GET", "/metrics/per-object", alice).0, 401);
    for (tag, sees) in [("management", false), ("monitoring", true)] {
        add(&["set-tags", "alice", tag]);
        let (status, text) = server.ask("GET", "/metrics/per-object", alice);
        assert_eq!((status, text.contains("secret")), (200, sees), "{tag}");
    }
    drop(server);
    let server = Server::start(dir.path(), &["--http-open-metrics=true"]);
    assert_eq!(server.get("/metrics/per-object").0, 200);
}

#[test]
fn a_page_whose_own_name_leads_here_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--http-hosts=mq.example"]);
    for (line, header, status) in [
        ("GET /api/version HTTP/1.1", "Host: localhost:15672", "200"),
        ("GET /api/version HTTP/1.1", "Host: 127.0.0.1", "200"),
        ("GET /api/version HTTP/1.1", "Host: MQ.example:443", "200"),
        ("GET /api/version HTTP/1.1", "Host: evil.example", "421"),
        ("GET / HTTP/1.1", "Host: evil.example:15672", "421"),
        ("GET /metrics HTTP/1.1", "Host: localhost.evil.example", "421"),
        ("GET http://evil.example/api/version HTTP/1.1", "Host: localhost", "421"),
        ("GET /api/version HTTP/1.1", "Host: localhost\r\nHost: evil.example", "400"),
        // A load balancer's probe without a host.
        ("GET /health/live HTTP/1.0", "X: y", "200"),
    ] {
        let answer = raw(&server, &[line, header]);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{line} {header}: {answer}");
    }
    drop(server);
    let server = Server::start(dir.path(), &[]);
    assert!(raw(&server, &["GET / HTTP/1.1", "Host: evil.example"]).starts_with("HTTP/1.1 421"));
}

#[test]
fn a_page_of_another_site_can_not_act_in_an_operators_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let bind = "/api/bindings/%2F/e/amq.topic/e/amq.direct";
    let foreign = ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"];
    for header in foreign {
        assert_eq!(server.ask("POST", bind, &format!("{GUEST}{header}")).0, 403, "{header}");
        assert_eq!(server.ask("PUT", "/api/queues/%2F/q", &format!("{GUEST}{header}")).0, 403, "{header}");
        assert_eq!(server.ask("GET", bind, GUEST), (200, "[]".to_owned()), "{header}");
    }
    let alive = "/api/aliveness-test/%2F";
    assert_eq!(server.ask("GET", alive, &format!("{GUEST}{}", foreign[2])).0, 403);
    assert_eq!(server.ask("GET", alive, GUEST).0, 200);
    // Programs send no origin. A console's own pages send the console's origin.
    for header in ["", "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"] {
        assert_eq!(server.ask("POST", bind, &format!("{GUEST}{header}")).0, 201, "{header}");
    }
}

#[test]
fn the_manual_of_this_version_is_at_docs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let get = |path: &str, headers: &str| server.send("GET", path, headers, "");
    let moved = get("/docs", "");
    assert_eq!((moved.status, moved.header("location")), (308, "/docs/"));
    let contents = get("/docs/", "");
    assert_eq!((contents.status, contents.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(contents.body.contains("<h1 id=\"the-manual\">"), "{}", contents.body);
    assert!(contents.header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    for (path, kind) in [
        ("manual/queues.html", "text/html; charset=utf-8"),
        ("tutorials/", "text/html; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("search-index.js", "text/javascript; charset=utf-8"),
    ] {
        let page = get(&format!("/docs/{path}"), "");
        assert_eq!((page.status, page.header("content-type")), (200, kind), "{path}");
    }
    // It is sent packed where the browser says that it can unpack, and not at all where it has it.
    let head = server.send("HEAD", "/docs/", "Accept-Encoding: gzip\r\n", "");
    assert_eq!((head.status, head.header("content-encoding")), (200, "gzip"));
    let tag = contents.header("etag");
    let known = get("/docs/", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    for absent in ["nowhere.html", "..%2f..%2fCargo.toml", "manual", "%ff"] {
        let status = get(&format!("/docs/{absent}"), "").status;
        assert!(status == 404 || (absent == "%ff" && status == 400), "{absent}: {status}");
    }
}
