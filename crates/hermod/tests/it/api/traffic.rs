//! Messages over HTTP, channels and consumers as the API shows them, and health checks.

use serde_json::{Value, json};

use super::{ALICE, GUEST, json as shown};
use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

fn post(server: &Server, path: &str, document: &Value) -> (u16, Value) {
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let reply = server.send("POST", &format!("/api/{path}"), &headers, &document.to_string());
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

fn publish(server: &Server, exchange: &str, document: &Value) -> (u16, Value) {
    post(server, &format!("exchanges/%2F/{exchange}/publish"), document)
}

fn get(server: &Server, count: u64, ackmode: &str) -> Value {
    let (status, rows) =
        post(server, "queues/%2F/q/get", &json!({ "count": count, "ackmode": ackmode, "encoding": "auto" }));
    assert_eq!(status, 200, "{rows}");
    rows
}

/// A request for thousands of messages once did all of them without a turn, beside the turns of
/// others.
#[test]
fn many_messages_are_fetched_in_several_turns() {
    const MANY: usize = 1500;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut stomp = Stomp::connect(&server);
    (1..MANY).for_each(|_| stomp.send("SEND\ndestination:/queue/q\n\nx"));
    stomp.publish("q", "last");
    let turns = || {
        let (_, metrics) = server.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix("hermod_http_turns_total "));
        line.expect("there is the metric").parse::<u64>().expect("it is a number")
    };
    let before = turns();
    let rows = get(&server, MANY as u64, "ack_requeue_false");
    assert_eq!(rows.as_array().map(Vec::len), Some(MANY));
    // A fetch costs as much as 16 entries, and a turn has 10 000. One that waits for a flush ends
    // its turn, too.
    let had = turns() - before;
    assert!((3..10).contains(&had), "{had} turns");
}

#[test]
fn messages_go_in_and_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let declare = format!("{GUEST}Content-Type: application/json\r\n");
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &declare, r#"{"durable":true}"#).status, 201);
    let properties = json!({
        "content_type": "text/plain", "content_encoding": "x", "delivery_mode": 2, "priority": 3, "correlation_id": "c",
        "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 7, "type": "t", "user_id": "guest",
        "app_id": "a", "cluster_id": "k", "headers": { "h": 1, "list": ["x", true] },
    });
    let text = json!({
        "routing_key": "q", "properties": properties, "payload": "h\u{e9}", "payload_encoding": "string",
    });
    assert_eq!(publish(&server, "amq.default", &text), (200, json!({ "routed": true })));
    let bytes = json!({ "routing_key": "q", "properties": {}, "payload": "/w==", "payload_encoding": "base64" });
    assert_eq!(publish(&server, "amq.default", &bytes), (200, json!({ "routed": true })));
    let nowhere = json!({ "routing_key": "gone", "payload": "", "payload_encoding": "string" });
    assert_eq!(publish(&server, "amq.default", &nowhere), (200, json!({ "routed": false })));

    let rows = get(&server, 5, "ack_requeue_true");
    let first = json!({
        "payload_bytes": 3, "redelivered": false, "exchange": "", "routing_key": "q", "message_count": 1,
        "properties": properties, "payload": "h\u{e9}", "payload_encoding": "string",
    });
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]), (2, &first));
    assert_eq!((&rows[1]["payload"], &rows[1]["payload_encoding"]), (&json!("/w=="), &json!("base64")));
    let again = get(&server, 1, "reject_requeue_true");
    assert_eq!((&again[0]["redelivered"], &again[0]["payload"]), (&json!(true), &json!("h\u{e9}")));
    assert_eq!(get(&server, 1, "ack_requeue_false")[0]["message_count"], 1);
    // Numbers as rabbitmqadmin sends them, which takes its arguments from a command line.
    let looked = json!({ "count": "1", "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": "0" });
    let (_, rows) = post(&server, "queues/%2F/q/get", &looked);
    assert_eq!((rows.as_array().map(Vec::len), &rows[0]["payload"]), (Some(1), &json!("")));
    let cut = json!({ "count": 1, "ackmode": "reject_requeue_false", "encoding": "base64", "truncate": 0 });
    let (_, rows) = post(&server, "queues/%2F/q/get", &cut);
    assert_eq!((&rows[0]["payload"], &rows[0]["payload_bytes"]), (&json!(""), &json!(1)));
    assert_eq!(get(&server, 1, "ack_requeue_true"), json!([]));
    // After a crash no acknowledged message comes back.
    drop(server);
    let server = Server::start(dir.path(), &[]);
    assert_eq!(get(&server, 1, "ack_requeue_true"), json!([]));
    let told = {
        publish(&server, "amq.default", &text);
        server.until_logged("published")
    };
    assert!(told.contains("guest") && !told.contains("h\u{e9}"), "{told}");
}

#[test]
fn a_message_may_live_for_ten_years_and_has_its_time_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let declare = format!("{GUEST}Content-Type: application/json\r\n");
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &declare, r#"{"durable":true}"#).status, 201);
    let times = ["5184000000", "315360000000"];
    for time in times {
        let properties = json!({ "delivery_mode": 2, "expiration": time });
        let message =
            json!({ "routing_key": "q", "properties": properties, "payload": "", "payload_encoding": "string" });
        assert_eq!(publish(&server, "amq.default", &message), (200, json!({ "routed": true })));
    }
    let shown = |server: &Server| {
        let rows = get(server, 5, "ack_requeue_true");
        rows.as_array().unwrap().iter().map(|row| row["properties"]["expiration"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&server), times);
    drop(server);
    let server = Server::start(dir.path(), &[]);
    assert_eq!(shown(&server), times);
}

/// Routing keys may be longer than those of AMQP 0-9-1. A dead letter keeps its key.
#[test]
fn a_routing_key_may_have_65_535_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let declare = |queue: &str, arguments: &Value| {
        let document = json!({ "durable": true, "arguments": arguments }).to_string();
        assert_eq!(server.send("PUT", &format!("/api/queues/%2F/{queue}"), &headers, &document).status, 201);
    };
    declare("q", &json!({}));
    declare("first", &json!({ "x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 1 }));
    for (queue, exchange) in [("q", "amq.fanout"), ("first", "amq.topic")] {
        let path = format!("/api/bindings/%2F/e/{exchange}/q/{queue}");
        let binding = json!({ "routing_key": "#", "arguments": {} }).to_string();
        assert_eq!(server.send("POST", &path, &headers, &binding).status, 201);
    }
    let message = |key: &str| {
        let properties = json!({ "delivery_mode": 2 });
        json!({ "routing_key": key, "properties": properties, "payload": "p", "payload_encoding": "string" })
    };
    let longest = "k".repeat(65_535);
    assert_eq!(publish(&server, "amq.fanout", &message(&longest)), (200, json!({ "routed": true })));
    assert_eq!(publish(&server, "amq.topic", &message(&longest)), (200, json!({ "routed": true })));
    until("the dead letter", || get(&server, 2, "ack_requeue_true").as_array().unwrap().len() == 2);
    drop(server);
    let server = Server::start(dir.path(), &[]);
    let rows = get(&server, 2, "ack_requeue_true");
    assert_eq!((&rows[0]["routing_key"], &rows[1]["routing_key"]), (&json!(longest), &json!(longest)));
    assert_eq!(rows[1]["properties"]["headers"]["x-death"][0]["routing-keys"], json!([longest]));
    let (status, refused) = publish(&server, "amq.fanout", &message(&"k".repeat(65_536)));
    assert_eq!(status, 400, "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("or the routing key than 65535"), "{refused}");
}

/// Binding keys may be as long as routing keys. The path of such a binding is short all the same.
#[test]
fn a_binding_key_may_have_65_535_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let path = "/api/bindings/%2F/e/amq.topic/q/q";
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &headers, r#"{"durable":true}"#).status, 201);
    // As many words as there can be, and an end that its bindings' keys do not share.
    let beginning = ".".repeat(65_534);
    let mut paths = Vec::new();
    for key in [format!("{beginning}a"), format!("{beginning}b")] {
        let reply = server.send("POST", path, &headers, &json!({ "routing_key": key }).to_string());
        assert_eq!(reply.status, 201, "{}", reply.body);
        paths.push(format!("{path}/{}", reply.header("location").rsplit('/').next().unwrap()));
    }
    assert_ne!(paths[0], paths[1]);
    drop(server);
    let server = Server::start(dir.path(), &[]);
    let message =
        |key: &str| json!({ "routing_key": key, "properties": {}, "payload": "p", "payload_encoding": "string" });
    let routed = |end: &str| publish(&server, "amq.topic", &message(&format!("{beginning}{end}"))).1["routed"].clone();
    assert_eq!([routed("a"), routed("b"), routed("c")], [true, true, false]);
    assert_eq!(server.ask("DELETE", &paths[1], GUEST).0, 204);
    assert_eq!([routed("a"), routed("b"), routed("c")], [true, false, false]);
    let refused = server.send("POST", path, &headers, &json!({ "routing_key": "k".repeat(65_536) }).to_string());
    assert_eq!((refused.status, refused.body.contains("routing key is longer than 65535 bytes")), (400, true));
}

/// The example of the manual's page on deduplication. The second message is not stored. The request
/// is still answered, although the log is idle and nothing else flushes it.
#[test]
fn a_duplicate_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let declare = format!("{GUEST}Content-Type: application/json\r\n");
    let queue = r#"{"durable":true,"arguments":{"x-message-deduplication":true}}"#;
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &declare, queue).status, 201);
    let flushes = || {
        let metrics = server.get("/metrics").1;
        let line = metrics.lines().find_map(|line| line.strip_prefix("hermod_journal_flushes_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let properties = json!({ "delivery_mode": 2, "headers": { "x-deduplication-header": "a" } });
    let message = json!({ "routing_key": "q", "properties": properties, "payload": "x", "payload_encoding": "string" });
    for _ in 0..3 {
        let before = flushes();
        assert_eq!(publish(&server, "amq.default", &message), (200, json!({ "routed": true })));
        // The log is flushed after the message, and its writer sleeps.
        until("a sealed log", || flushes() >= before + 2);
    }
    assert_eq!(get(&server, 5, "ack_requeue_false").as_array().map(Vec::len), Some(1));
}

#[test]
fn messages_that_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let full = r#"{"durable":true,"arguments":{"x-max-length":0,"x-overflow":"reject-publish"}}"#;
    assert_eq!(server.send("PUT", "/api/queues/%2F/full", &headers, full).status, 201);
    let with = |name: &str, value: Value| {
        let mut document = json!({ "routing_key": "q", "properties": {}, "payload": "", "payload_encoding": "string" });
        document[name] = value;
        document
    };
    let long = "x".repeat(256);
    for (exchange, document, status, words) in [
        ("gone", with("payload", json!("")), 404, "Not Found"),
        ("amq.default", with("routing_key", json!("full")), 400, "Check queue limits"),
        ("amq.default", with("payload", json!(7)), 400, "expected a string"),
        ("amq.default", with("payload_encoding", json!("dream")), 400, "string or base64, not 'dream'"),
        ("amq.default", json!({ "routing_key": "q", "payload": "?", "payload_encoding": "base64" }), 400, "base64"),
        ("amq.default", with("properties", json!({ "dream": 1 })), 400, "no property 'dream'"),
        ("amq.default", with("properties", json!({ "priority": 256 })), 400, "from 0 to 255, not 256"),
        ("amq.default", with("properties", json!({ "expiration": "-1" })), 400, "milliseconds"),
        (
            "amq.default",
            with("properties", json!({ "expiration": "315360000001" })),
            400,
            "invalid expiration '315360000001': {value_too_large,315360000001}",
        ),
        ("amq.default", with("properties", json!({ "user_id": "bob" })), 400, "user_id property set to 'bob'"),
        ("amq.default", with("properties", json!({ "message_id": long })), 400, "255 bytes"),
        ("amq.default", with("properties", json!({ "headers": { "CC": "q" } })), 400, "unacceptable_type_in_header"),
        ("amq.default", with("properties", json!({ "hermod_headers": [{ "name": "a" }] })), 400, "'a' has no type"),
        (
            "amq.default",
            with("properties", json!({ "headers": { "a": 1 }, "hermod_headers": [] })),
            400,
            "headers and hermod_headers differ",
        ),
    ] {
        let (found, refusal) = publish(&server, exchange, &document);
        let reason = refusal["reason"].as_str().unwrap();
        assert!(found == status && reason.contains(words), "{exchange} {document}: {found} {refusal}");
    }
    for (document, words) in [
        (json!({ "count": 1, "ackmode": "get", "encoding": "auto" }), "ack_requeue_true"),
        (json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "utf8" }), "base64"),
        (json!({ "ackmode": "ack_requeue_true", "encoding": "auto" }), "count"),
        (json!({ "count": "some", "ackmode": "ack_requeue_true", "encoding": "auto" }), "a whole number from 0 on"),
        (json!({ "count": -1, "ackmode": "ack_requeue_true", "encoding": "auto" }), "a whole number from 0 on"),
    ] {
        let (status, refusal) = post(&server, "queues/%2F/full/get", &document);
        assert!(status == 400 && refusal["reason"].as_str().unwrap().contains(words), "{refusal}");
    }
    assert_eq!(run(hermod("alarms", dir.path()).args(["set", "disk"])).0, 0);
    let (status, refusal) = publish(&server, "amq.default", &with("payload", json!("")));
    assert!(status == 400 && refusal["reason"].as_str().unwrap().contains("publishers are stopped"), "{refusal}");
    let alarmed = server.ask("GET", "/api/health/checks/alarms", GUEST);
    assert!(alarmed.0 == 503 && alarmed.1.contains(r#""resource":"disk""#), "{}", alarmed.1);
}

/// A client that is told of a refusal publishes the message again.
#[test]
fn what_an_alarm_refuses_is_in_no_queue() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &headers, r#"{"durable":true}"#).status, 201);
    // Messages with a client stay in memory, whatever the limit is.
    let mut client = Stomp::connect(&server);
    let body = "x".repeat(50_000);
    for _ in 0..100 {
        client.send(&format!("SEND\ndestination:/queue/held\n\n{body}"));
    }
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/held\nack:client\nprefetch-count:1000\n\n");
    for _ in 0..100 {
        client.frame();
    }
    let metrics = server.get("/metrics").1;
    let used = metrics.lines().find_map(|line| line.strip_prefix("hermod_queued_memory_bytes ")).unwrap();
    let used: u64 = used.parse().unwrap();
    let queued = || shown(&server, "/api/queues/%2F/q", GUEST)["messages"].as_u64().unwrap();
    let message = json!({
        "routing_key": "q", "properties": { "delivery_mode": 2 }, "payload": "", "payload_encoding": "string",
    });
    // No alarm; an alarm that leaves some room; an alarm that leaves none.
    for (limit, expected) in [(used * 2, 200), (used * 20 / 21, 200), (used / 2, 400)] {
        assert_eq!(run(hermod("alarms", dir.path()).args(["memory-limit", &limit.to_string()])).0, 0);
        let before = queued();
        let (status, answer) = publish(&server, "amq.default", &message);
        assert_eq!(status, expected, "{limit} of {used} bytes: {answer}");
        assert_eq!(queued(), before + u64::from(status == 200), "{limit} of {used} bytes: {answer}");
    }
}

#[test]
fn one_answer_is_bounded_by_headers_as_by_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let declare = format!("{GUEST}Content-Type: application/json\r\n");
    assert_eq!(server.send("PUT", "/api/queues/%2F/q", &declare, r#"{"durable":true}"#).status, 201);
    let message = json!({
        "routing_key": "q", "properties": { "headers": { "h": "x".repeat(100_000) } }, "payload": "",
        "payload_encoding": "string",
    });
    for _ in 0..180 {
        assert_eq!(publish(&server, "amq.default", &message).0, 200);
    }
    let count = || get(&server, 1000, "ack_requeue_false").as_array().unwrap().len();
    let first = count();
    assert!((150..175).contains(&first), "{first} of 180 messages of 100 KB");
    assert_eq!(count(), 180 - first);
}

/// The requests need the permissions of their user.
#[test]
fn rights_count() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let add = |verb: &str, words: &[&str]| assert_eq!(run(hermod(verb, dir.path()).args(words)).0, 0, "{words:?}");
    add("users", &["add", "alice", "--password", "one", "--tags", "management"]);
    add("permissions", &["set", "alice", "^mine", "^mine", "^mine"]);
    let headers = format!("{ALICE}Content-Type: application/json\r\n");
    let message = r#"{"routing_key":"mine","payload":"","payload_encoding":"string"}"#;
    let get = r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}"#;
    for (method, path, document, status) in [
        ("PUT", "queues/%2F/mine", "{}", 201),
        ("PUT", "queues/%2F/yours", "{}", 401),
        ("POST", "exchanges/%2F/amq.default/publish", message, 401),
        ("POST", "queues/%2F/mine/get", get, 200),
        ("DELETE", "queues/%2F/mine/contents", "", 204),
        ("POST", "bindings/%2F/e/amq.topic/q/mine", "{}", 401),
        ("DELETE", "exchanges/%2F/amq.topic", "", 401),
        ("DELETE", "queues/%2F/mine", "", 204),
    ] {
        let reply = server.send(method, &format!("/api/{path}"), &headers, document);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
    }
}

#[test]
fn sessions_and_consumers_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "one");
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client\nprefetch-count:7\nx-priority:3\n\n");
    client.frame();
    let channel = &shown(&server, "/api/channels", GUEST)[0];
    let name = channel["name"].as_str().unwrap();
    assert!(name.ends_with(" (1)"), "{name}");
    for (field, value) in [
        ("user", json!("guest")),
        ("number", json!(1)),
        ("vhost", json!("/")),
        ("consumer_count", json!(1)),
        ("messages_unacknowledged", json!(1)),
        ("messages_unconfirmed", json!(0)),
        ("transactional", json!(false)),
    ] {
        assert_eq!(channel[field], value, "{field} of {channel}");
    }
    let encoded = name.replace(' ', "%20").replace('>', "%3E");
    assert_eq!(shown(&server, &format!("/api/channels/{encoded}"), GUEST), *channel);
    assert_eq!(shown(&server, "/api/vhosts/%2F/channels", GUEST), json!([channel]));
    let consumer = &shown(&server, "/api/consumers/%2F", GUEST)[0];
    assert_eq!((&consumer["ack_required"], &consumer["queue"]["name"]), (&json!(true), &json!("orders")));
    // rabbitmqadmin can't read any of these lists without one of these fields.
    for (field, value) in
        [("active", json!(true)), ("arguments", json!({ "x-priority": 3 })), ("consumer_timeout", json!(1_800_000))]
    {
        assert_eq!(consumer[field], value, "{field} of {consumer}");
    }
    let node = &shown(&server, "/api/nodes", GUEST)[0];
    for field in ["run_queue", "proc_total", "disk_free_limit"] {
        assert_eq!(node[field], json!(0), "{field} of {node}");
    }
    let flags = shown(&server, "/api/feature-flags", GUEST);
    assert!(flags.as_array().unwrap().iter().all(|flag| flag["doc_url"] == ""), "{flags}");
}

#[test]
fn health_is_told_as_tools_ask_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let amqp = format!("port-listener/{}", server.ports.amqp);
    for (check, status, words) in [
        ("alarms", 200, "ok"),
        ("local-alarms", 200, "ok"),
        ("virtual-hosts", 200, "ok"),
        ("node-is-quorum-critical", 200, "ok"),
        (amqp.as_str(), 200, "ok"),
        ("port-listener/1", 503, r#""missing":1"#),
        ("port-listener/x", 400, "no port"),
        ("protocol-listener/amqp091,http", 200, "ok"),
        ("protocol-listener/mqtt,stomp", 200, "ok"),
        ("protocol-listener/stream,stomp", 503, r#""missing":["stream"]"#),
        ("dreams", 404, "Not Found"),
    ] {
        let (found, body) = server.ask("GET", &format!("/api/health/checks/{check}"), GUEST);
        assert!(found == status && body.contains(words), "{check}: {found} {body}");
    }
    for check in
        ["is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "reached-target-cluster-size"]
    {
        assert_eq!(server.get(&format!("/api/health/checks/{check}")).0, 200, "{check} needs no password");
    }
    assert_eq!(server.get("/api/health/checks/alarms").0, 401);
    assert_eq!(shown(&server, "/api/aliveness-test/%2F", GUEST), json!({ "status": "ok" }));
    assert_eq!(shown(&server, "/api/queues", GUEST), json!([]), "nothing is left of it");
    let node = &shown(&server, "/api/nodes", GUEST)[0];
    assert_eq!((&node["running"], &node["partitions"]), (&json!(true), &json!([])));
    let path = format!("/api/nodes/{}", node["name"].as_str().unwrap());
    assert_eq!(shown(&server, &path, GUEST)["os_pid"], server.pid().to_string());
}
