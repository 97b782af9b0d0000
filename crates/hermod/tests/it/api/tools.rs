//! The fields, types and paths that other projects' tools read, in the way in which they read them.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{ALICE, GUEST, json as shown};
use crate::server::{HANG, Server, hermod, run, until};
use crate::stomp::Stomp;

fn send(server: &Server, method: &str, path: &str, document: &Value) -> u16 {
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    server.send(method, path, &headers, &document.to_string()).status
}

/// Fields of a row, each with its value.
fn check(row: &Value, fields: &[(&str, Value)]) {
    for (path, value) in fields {
        let found = path.split('.').fold(row, |row, name| &row[name]);
        assert_eq!(found, value, "{path} of {row}");
    }
}

#[test]
fn a_queue_tells_how_its_messages_moved_and_what_they_weigh() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(send(&server, "PUT", "/api/queues/%2F/q", &json!({ "durable": true })), 201);
    let path = "/api/queues/%2F/q";
    let mut client = Stomp::connect(&server);
    for _ in 0..4 {
        client.publish("q", "0123456789");
    }
    client.send("SEND\ndestination:/queue/q\nreceipt:r\n\n0123456789");
    client.frame();
    check(
        &shown(&server, path, GUEST),
        &[
            ("messages_persistent", json!(4)),
            ("messages_ram", json!(5)),
            ("message_bytes", json!(50)),
            ("message_bytes_ready", json!(50)),
            ("message_bytes_persistent", json!(40)),
            ("message_bytes_unacknowledged", json!(0)),
            ("consumer_utilisation", json!(0)),
            ("head_message_timestamp", Value::Null),
            ("effective_policy_definition", json!({})),
        ],
    );
    let fetch = |ackmode: &str| json!({ "count": 1, "ackmode": ackmode, "encoding": "auto" });
    assert_eq!(send(&server, "POST", "/api/queues/%2F/q/get", &fetch("ack_requeue_false")), 200);
    client.send("SUBSCRIBE\nid:a\ndestination:/queue/q\nack:client\nprefetch-count:1\n\n");
    client.frame();
    let mut other = Stomp::connect(&server);
    other.send("SUBSCRIBE\nid:b\ndestination:/queue/q\nack:auto\n\n");
    (0..3).for_each(|_| drop(other.frame()));
    let queue = shown(&server, path, GUEST);
    check(
        &queue,
        &[
            ("messages", json!(1)),
            ("messages_persistent", json!(1)),
            ("message_bytes_unacknowledged", json!(10)),
            ("message_stats.publish", json!(5)),
            ("message_stats.deliver", json!(1)),
            ("message_stats.deliver_no_ack", json!(3)),
            ("message_stats.deliver_get", json!(5)),
            ("message_stats.redeliver", json!(0)),
            ("consumer_capacity", json!(1)),
        ],
    );
    assert_eq!(queue["consumer_details"].as_array().unwrap().len(), 2, "{queue}");
    assert!(queue["message_stats"]["publish_details"]["rate"].is_number(), "{queue}");
    let stats = &queue["message_stats"];
    let fetched = stats["get"].as_u64().unwrap() + stats["get_no_ack"].as_u64().unwrap();
    assert_eq!(fetched, 1, "{stats}");
    // The first client's messages return to the queue, and go to the other one.
    drop(client);
    other.frame();
    until("the redelivery", || shown(&server, path, GUEST)["message_stats"]["redeliver"] == 1);
    let overview = shown(&server, "/api/overview", GUEST);
    check(&overview, &[("message_stats.deliver", json!(1)), ("message_stats.deliver_no_ack", json!(4))]);
    check(&shown(&server, "/api/vhosts/%2F", GUEST), &[("message_stats.publish", json!(5))]);
}

#[test]
fn rates_and_samples_have_the_shapes_that_tools_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("q", "one");
    let ranges = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5";
    let overview = |query: &str| shown(&server, &format!("/api/overview?{query}"), GUEST);
    // The first sample is taken at the start, the second some seconds later.
    until("a sample", || {
        let samples = &overview(ranges)["message_stats"]["publish_details"]["samples"];
        samples.as_array().is_some_and(|samples| !samples.is_empty())
    });
    let sampled = overview(ranges);
    for details in [
        &sampled["message_stats"]["publish_details"],
        &sampled["message_stats"]["ack_details"],
        &sampled["queue_totals"]["messages_ready_details"],
    ] {
        assert!(details["rate"].is_number() && details["avg"].is_number(), "{details}");
        assert!(details["samples"][0]["sample"].is_u64() && details["samples"][0]["timestamp"].is_u64(), "{details}");
    }
    assert!(sampled["churn_rates"]["connection_created_details"]["rate"].is_number(), "{sampled}");
    assert_eq!(overview("")["message_stats"]["publish_details"]["samples"], Value::Null);
    let path = format!("/api/queues/%2F/q?{ranges}");
    assert!(shown(&server, &path, GUEST)["messages_details"]["rate"].is_number());
    let vhost = shown(&server, "/api/vhosts/%2F", GUEST);
    check(&vhost, &[("messages", json!(1)), ("message_stats.publish", json!(1))]);
    assert!(vhost["messages_details"]["rate"].is_number(), "{vhost}");
    let connection = &shown(&server, "/api/connections", GUEST)[0];
    assert!(connection["recv_oct_details"]["rate"].is_number(), "{connection}");
}

/// A list once knew only the rates of queues that were asked for before, and had no samples.
#[test]
fn a_list_is_sorted_by_rates_and_has_samples_of_the_past() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    ["busy", "calm", "idle"].iter().for_each(|name| client.publish(name, "m"));
    let fastest = |by: &str| {
        let query = format!("/api/queues?sort=message_stats.{by}_details.rate&sort_reverse=true&page=1&page_size=1");
        shown(&server, &query, GUEST)["items"][0]["name"].clone()
    };
    until("the rates of two looks", || {
        client.publish("busy", "m");
        fastest("publish") == "busy"
    });
    // Nothing is acknowledged, so the names decide, from the last one on.
    assert_eq!(fastest("ack"), "idle");
    let ranges = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5";
    for path in ["/api/queues", "/api/queues/%2F", "/api/queues?sort=name&page=1"] {
        let joined = if path.contains('?') { "&" } else { "?" };
        let page = shown(&server, &format!("{path}{joined}{ranges}"), GUEST);
        let rows = page.as_array().or_else(|| page["items"].as_array()).unwrap();
        assert_eq!(rows.len(), 3);
        for row in rows {
            for details in [&row["messages_details"], &row["message_stats"]["publish_details"]] {
                assert!(details["samples"][0]["sample"].is_u64(), "{path}: {row}");
            }
        }
    }
}

#[test]
fn a_page_is_what_is_asked_for_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for (name, count) in [("orders", 1), ("offers", 3), ("mails", 2)] {
        (0..count).for_each(|_| client.publish(name, "m"));
    }
    let names = |query: &str| {
        let page = shown(&server, &format!("/api/queues?{query}"), GUEST);
        let rows = if page.is_array() { page.clone() } else { page["items"].clone() };
        let names = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>().join(" "), page["filtered_count"].clone())
    };
    for (query, expected, filtered) in [
        ("sort=messages", "orders mails offers", Value::Null),
        ("sort=name&sort_reverse=true", "orders offers mails", Value::Null),
        ("sort=message_stats.publish&sort_reverse=true&page=1&page_size=1", "offers", json!(3)),
        ("pagination=true&name=^o&use_regex=true&sort=messages&page_size=1", "orders", json!(2)),
        ("pagination=false&page=1&name=^o&use_regex=true", "offers orders", json!(2)),
    ] {
        assert_eq!(names(query), (expected.to_owned(), filtered), "{query}");
    }
    let bare = shown(&server, "/api/queues/%2F?disable_stats=true&enable_queue_totals=true", GUEST);
    assert_eq!((&bare[0]["messages"], &bare[0]["message_stats"]), (&json!(2), &Value::Null), "{bare}");
    let page = shown(&server, "/api/connections?page=1&page_size=1&sort=recv_oct", GUEST);
    check(&page, &[("total_count", json!(1)), ("item_count", json!(1))]);
    check(&shown(&server, "/api/exchanges?page=1&sort=type", GUEST), &[("total_count", json!(6))]);
    check(&shown(&server, "/api/auth", ""), &[("oauth_enabled", json!(false))]);
}

#[test]
fn a_quorum_queue_tells_its_limit_and_its_policy() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let quorum =
        |limit: Value| json!({ "durable": true, "arguments": { "x-queue-type": "quorum", "x-delivery-limit": limit } });
    let plain = json!({ "durable": true, "arguments": { "x-queue-type": "quorum" } });
    assert_eq!(send(&server, "PUT", "/api/queues/%2F/plain", &plain), 201);
    assert_eq!(send(&server, "PUT", "/api/queues/%2F/endless", &quorum(json!(-1))), 201);
    assert_eq!(send(&server, "PUT", "/api/queues/%2F/seven", &quorum(json!(7))), 201);
    let node = shown(&server, "/api/overview", GUEST)["node"].clone();
    for (name, limit) in [("plain", json!(20)), ("endless", json!("unlimited")), ("seven", json!(7))] {
        let queue = shown(&server, &format!("/api/queues/%2F/{name}"), GUEST);
        check(
            &queue,
            &[("delivery_limit", limit), ("effective_policy_definition", json!({})), ("leader", node.clone())],
        );
        assert_eq!(queue["members"], json!([node]));
    }
    let policy =
        json!({ "pattern": "^p", "apply-to": "queues", "definition": { "delivery-limit": 9, "max-length": 5 } });
    assert_eq!(send(&server, "PUT", "/api/policies/%2F/one", &policy), 201);
    let ceiling = json!({ "pattern": "^p", "apply-to": "queues", "definition": { "max-length": 3 } });
    assert_eq!(send(&server, "PUT", "/api/operator-policies/%2F/two", &ceiling), 201);
    let effective = json!({ "delivery-limit": 9, "max-length": 3 });
    check(
        &shown(&server, "/api/queues/%2F/plain", GUEST),
        &[("delivery_limit", json!(9)), ("effective_policy_definition", effective)],
    );
}

#[test]
fn connections_and_consumers_tell_what_was_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("q", "m");
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n");
    client.frame();
    let connection = shown(&server, "/api/connections", GUEST)[0].clone();
    check(
        &connection,
        &[
            ("ssl", json!(false)),
            ("ssl_protocol", Value::Null),
            ("peer_cert_subject", Value::Null),
            ("auth_mechanism", json!("PLAIN")),
            ("timeout", json!(0)),
            ("frame_max", json!(0)),
            ("channel_max", json!(0)),
        ],
    );
    check(
        &shown(&server, "/api/consumers", GUEST)[0],
        &[
            ("prefetch_count", json!(0)),
            ("activity_status", json!("up")),
            ("channel_details.connection_name", connection["name"].clone()),
            ("channel_details.user", json!("guest")),
            ("channel_details.number", json!(1)),
        ],
    );
}

#[test]
fn sums_count_only_what_the_asker_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let users = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    users(&["add", "alice", "--password", "one"]);
    users(&["set-tags", "alice", "management"]);
    let mut client = Stomp::connect(&server);
    client.publish("secret", "one");
    let totals = |overview: &Value| (overview["queue_totals"].clone(), overview["object_totals"].clone());
    let (messages, objects) = totals(&shown(&server, "/api/overview", ALICE));
    for name in ["messages", "messages_ready", "messages_unacknowledged"] {
        assert_eq!((&messages[name], messages[format!("{name}_details")]["rate"].is_number()), (&json!(0), true));
    }
    let nothing = json!({ "connections": 0, "channels": 0, "consumers": 0, "queues": 0, "exchanges": 0 });
    assert_eq!(objects, nothing);
    let overview = shown(&server, "/api/overview", ALICE);
    assert_eq!(overview["message_stats"]["publish"], 0);
    assert!(overview["listeners"].is_null() && overview["churn_rates"].is_null(), "{overview}");
    // It sees its own vhost.
    assert_eq!(send(&server, "PUT", "/api/vhosts/hers", &json!({})), 201);
    let all = json!({ "configure": "", "write": "", "read": "" });
    assert_eq!(send(&server, "PUT", "/api/permissions/hers/alice", &all), 201);
    assert_eq!(send(&server, "PUT", "/api/queues/hers/q", &json!({ "durable": true })), 201);
    let (_, objects) = totals(&shown(&server, "/api/overview", ALICE));
    assert_eq!((&objects["queues"], &objects["exchanges"]), (&json!(1), &json!(6)));
    users(&["set-tags", "alice", "monitoring"]);
    let (messages, objects) = totals(&shown(&server, "/api/overview", ALICE));
    assert_eq!((&messages["messages"], &objects["queues"], &objects["connections"]), (&json!(1), &json!(2), &json!(1)));
}

#[test]
fn one_name_and_one_version_are_told_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--compat-product=RabbitMQ", "--compat-version=4.2.0", "--cluster-name=orders-production"];
    let server = Server::start(dir.path(), &flags);
    let overview = shown(&server, "/api/overview", GUEST);
    check(
        &overview,
        &[
            ("product_name", json!("RabbitMQ")),
            ("product_version", json!("4.2.0")),
            ("rabbitmq_version", json!("4.2.0")),
            ("management_version", json!("4.2.0")),
            ("hermod_version", json!(env!("CARGO_PKG_VERSION"))),
            ("cluster_name", json!("orders-production")),
        ],
    );
    let node = overview["node"].as_str().unwrap();
    assert!(node.starts_with("rabbit@"), "{node}");
    assert_eq!(shown(&server, "/api/cluster-name", GUEST)["name"], "orders-production");
    let flags = shown(&server, "/api/feature-flags", GUEST);
    assert!(flags.as_array().unwrap().iter().any(|flag| flag["name"] == "stream_queue"), "{flags}");
    let (_, metrics) = server.get("/metrics");
    for line in [
        format!(
            "rabbitmq_identity_info{{rabbitmq_node=\"{node}\",rabbitmq_cluster=\"orders-production\",\
             rabbitmq_endpoint=\"aggregated\"}} 1"
        ),
        "rabbitmq_build_info{rabbitmq_version=\"4.2.0\",product_name=\"RabbitMQ\",product_version=\"4.2.0\"} 1"
            .to_owned(),
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is missing in:\n{metrics}");
    }
    let mut socket = TcpStream::connect(("127.0.0.1", server.ports.amqp)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.write_all(b"AMQP\0\0\x09\x01").unwrap();
    let mut head = [0; 7];
    socket.read_exact(&mut head).unwrap();
    let mut start = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize];
    socket.read_exact(&mut start).unwrap();
    let start = String::from_utf8_lossy(&start).into_owned();
    for word in ["orders-production", "RabbitMQ", "4.2.0"] {
        assert!(start.contains(word), "{word} is not in {start:?}");
    }
}

#[test]
fn a_node_is_found_by_the_name_that_scripts_build_and_tells_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--node-name=broker1"]);
    let node = shown(&server, "/api/overview", GUEST)["node"].as_str().unwrap().to_owned();
    let host = node.strip_prefix("broker1@").unwrap();
    assert_eq!(shown(&server, &format!("/api/nodes/rabbit@{host}"), GUEST)["name"], node);
    assert_eq!(server.ask("GET", "/api/nodes/rabbit@elsewhere.example", GUEST).0, 404);
    let memory = shown(&server, &format!("/api/nodes/{node}/memory"), GUEST);
    assert!(memory["memory"]["total"]["rss"].as_u64().unwrap() > 0, "{memory}");
    for part in ["queue_procs", "binary", "mgmt_db", "allocated_unused", "other_system"] {
        assert!(memory["memory"][part].is_u64(), "{part} of {memory}");
    }
    assert_eq!(shown(&server, &format!("/api/nodes/{node}/memory/relative"), GUEST)["memory"]["total"], 100);
    assert_eq!(server.ask("GET", "/api/nodes/other/memory", GUEST).0, 404);
    let (_, text) = server.get("/metrics/memory-breakdown");
    assert!(text.contains("rabbitmq_memory_other_system_bytes "), "{text}");
    let attempts = shown(&server, &format!("/api/auth/attempts/{node}"), GUEST);
    assert!(attempts[0]["auth_attempts_succeeded"].as_u64().unwrap() > 0, "{attempts}");
}

#[test]
fn a_refused_request_names_the_realm_that_plug_ins_know() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let reply = server.send("GET", "/api/overview", "", "");
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, "Basic realm=\"RabbitMQ Management\""));
    for (path, status) in [
        ("/api/health/checks/certificate-expiration/1/weeks", 200),
        ("/api/health/checks/certificate-expiration/1/moons", 400),
        ("/api/health/checks/certificate-expiration/x/days", 400),
        ("/api/queues/detailed", 200),
        ("/api/all-configuration", 200),
    ] {
        assert_eq!(server.ask("GET", path, GUEST).0, status, "{path}");
    }
    assert_eq!(send(&server, "POST", "/api/vhosts/%2F/deletion/protection", &json!({})), 400);
    assert_eq!(send(&server, "DELETE", "/api/vhosts/%2F/deletion/protection", &json!({})), 204);
    // A password given by its hash.
    let hash = shown(&server, "/api/auth/hash_password/sec%20ret", GUEST)["ok"].clone();
    let user =
        json!({ "password_hash": hash, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "management" });
    assert_eq!(send(&server, "PUT", "/api/users/bob", &user), 201);
    // bob:sec ret
    assert_eq!(shown(&server, "/api/whoami", "Authorization: Basic Ym9iOnNlYyByZXQ=\r\n")["name"], "bob");
}

#[test]
fn metrics_come_by_the_families_that_a_scrape_names() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("q", "12345");
    let path = "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&vhost=%2F";
    assert_eq!(server.get(path).0, 401, "names of queues are not for everybody");
    let (_, text) = server.ask("GET", path, GUEST);
    for line in [
        "rabbitmq_detailed_queue_messages_ready{vhost=\"/\",queue=\"q\"} 1",
        "rabbitmq_detailed_queue_messages_bytes{vhost=\"/\",queue=\"q\"} 5",
        "rabbitmq_detailed_queue_consumers{vhost=\"/\",queue=\"q\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in:\n{text}");
    }
    assert!(!text.contains("queue_get_total") && text.contains("rabbitmq_endpoint=\"detailed\""), "{text}");
    let (_, text) = server.ask("GET", "/metrics/detailed?family=queue_coarse_metrics&vhost=other", GUEST);
    assert!(!text.contains("queue=\"q\""), "{text}");
    for (queue, shown) in [("%5Eq$", true), ("x", false)] {
        let path = format!("/metrics/detailed?family=queue_coarse_metrics&queue={queue}");
        let (_, text) = server.ask("GET", &path, GUEST);
        assert_eq!(text.contains("queue=\"q\""), shown, "{queue}: {text}");
    }
    assert_eq!(server.ask("GET", "/metrics/detailed?family=queue_metrics&queue=(", GUEST).0, 400);
    let (_, text) = server.get("/metrics/detailed?family=connection_churn_metrics");
    assert!(text.contains("rabbitmq_detailed_connections_opened_total 1\n"), "{text}");
}

#[test]
fn rare_paths_of_tools_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--default-pass=guest"]);
    let node = shown(&server, "/api/overview", GUEST)["node"].as_str().unwrap().to_owned();
    let _client = Stomp::connect(&server);
    let connection = shown(&server, "/api/connections", GUEST)[0]["name"].as_str().unwrap().to_owned();
    let connection = connection.replace(' ', "%20").replace('>', "%3E");
    for path in [
        &format!("connections/{connection}/sessions"),
        "stream/connections",
        "stream/publishers/%2F",
        "stream/consumers",
        "federation-links/state/down",
        "federation-links/%2F/state/down",
    ] {
        assert_eq!(shown(&server, &format!("/api/{path}"), GUEST), json!([]), "{path}");
    }
    for (method, path, status) in [
        ("GET", "connections/gone/sessions", 404),
        ("POST", &format!("vhosts/%2F/start/{node}"), 204),
        ("POST", "vhosts/%2F/start/other", 404),
        ("DELETE", "reset", 204),
        ("DELETE", &format!("reset/{node}"), 204),
        ("DELETE", "reset/other", 404),
    ] {
        assert_eq!(send(&server, method, &format!("/api/{path}"), &json!({})), status, "{method} {path}");
    }
    let settings = shown(&server, "/api/config/effective", GUEST);
    let http = server.ports.http.to_string();
    assert_eq!(settings["ports.http"], json!({ "value": http, "origin": "--ports-http" }));
    assert_eq!(settings["default_pass"], json!({ "value": "(hidden)", "origin": "--default-pass" }));
    let alice = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    alice(&["add", "alice", "--password", "one", "--tags", "monitoring"]);
    assert_eq!(server.ask("GET", "/api/config/effective", ALICE).0, 401);
    assert_eq!(server.ask("DELETE", "/api/reset", ALICE).0, 401);
    // Tracing is a field of a vhost here. What a document does not say stays.
    for (document, traced) in
        [(json!({ "tracing": true }), true), (json!({}), true), (json!({ "tracing": false }), false)]
    {
        assert_eq!(send(&server, "PUT", "/api/vhosts/%2F", &document), 204);
        check(&shown(&server, "/api/vhosts/%2F", GUEST), &[("tracing", json!(traced))]);
    }
}

#[test]
fn a_form_logs_in_and_its_cookie_stands_for_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let log_in = |fields: &str| server.send("POST", "/api/login", form, fields);
    assert_eq!(log_in("username=guest&password=wrong").status, 401);
    assert_eq!(log_in("username=guest").status, 400);
    let reply = log_in("username=guest&password=guest");
    assert_eq!((reply.status, reply.body.as_str()), (200, "\"ok\""));
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let with = format!("Cookie: {cookie}\r\n");
    assert_eq!(shown(&server, "/api/whoami", &with)["name"], "guest");
    let foreign = format!("{with}Sec-Fetch-Site: same-site\r\n");
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &foreign, "{}").status, 403);
    assert_eq!(server.send("DELETE", "/api/login", &with, "").status, 200);
    assert_eq!(server.ask("GET", "/api/whoami", &with).0, 401);
}
