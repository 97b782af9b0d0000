//! Consumers without a queue: every list but RabbitMQ's own shows them, with what they ask for, and
//! no user sees those of a vhost that it may not enter.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::api::{GUEST, json as shown};
use crate::console::{Browser, has};
use crate::matrix::amqp091::Amqp091;
use crate::native::{check, with_will};
use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// alice:one
const ALICE: &str = "Authorization: Basic YWxpY2U6b25l\r\n";

/// Subscribes the client of [`with_will`] to a topic, with quality 0.
fn subscribe(socket: &mut (impl Read + Write), topic: &str) {
    let mut packet = vec![0x82, topic.len() as u8 + 5, 0, 1, 0, topic.len() as u8];
    packet.extend(topic.as_bytes());
    packet.push(0);
    socket.write_all(&packet).unwrap();
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x90, 3, 0, 1, 0]);
}

#[test]
fn consumers_without_a_queue_are_shown_with_what_they_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut device = with_will(&server);
    subscribe(&mut device, "rooms/+/heat");
    let mut asking = Amqp091::connect(&server);
    asking.consume_replies("answers");
    let mut taking = Stomp::connect(&server);
    taking.publish("orders", "one");
    taking.send("SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client\n\n");
    taking.frame();
    // The native API.
    let page = shown(&server, "/hermod/v1/consumers", GUEST);
    let schema = &shown(&server, "/hermod/v1/openapi.json", "")["components"]["schemas"]["consumers"];
    let rows = page["items"].as_array().unwrap();
    rows.iter().for_each(|row| check(row, schema));
    let of = |source: &str| rows.iter().find(|row| row["source"] == source).unwrap();
    let (filters, replies) = (of("filters"), of("replies"));
    assert_eq!((rows.len(), &of("queue")["queue"]), (3, &json!("orders")));
    assert_eq!(filters["filters"], json!([{ "exchange": "amq.topic", "routing_key": "rooms.*.heat" }]));
    let who = ["user", "connection_name", "session", "settles", "queue", "unsettled"].map(|field| &filters[field]);
    assert_eq!(who, [&json!("guest"), &json!("native"), &json!(1), &json!(false), &Value::Null, &json!(0)]);
    assert_eq!((&replies["tag"], &replies["filters"]), (&json!("answers"), &json!([])));
    let found = shown(&server, "/hermod/v1/consumers?filter=filters~heat", GUEST);
    assert_eq!((&found["total"], &found["items"][0]), (&json!(1), filters));
    // RabbitMQ's path has those of queues, as there.
    let of_queues = shown(&server, "/api/consumers", GUEST);
    assert_eq!((of_queues.as_array().unwrap().len(), &of_queues[0]["queue"]["name"]), (1, &json!("orders")));
    let all = shown(&server, "/api/all-consumers/%2F", GUEST);
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert_eq!(all[0], of_queues[0]);
    // The command line, and the console.
    let (code, listed, _) = run(&mut hermod("consumers", dir.path()));
    let line = listed.lines().find(|line| line.contains("rooms")).unwrap_or_else(|| panic!("{listed}"));
    assert!(code == 0 && line.contains("exchange=amq.topic,routing_key=rooms.*.heat\t"), "{listed}");
    assert!(line.contains("\tnative\tguest\t"), "{listed}");
    let browser = Browser::of(&server, "guest", "guest");
    has(&browser.page("/consumers"), &["orders", "replies, without a queue", "rooms.*.heat", "native"]);
    let narrow = browser.page("/consumers?name=HEAT");
    assert!(narrow.contains("rooms.*.heat") && !narrow.contains("orders"), "{narrow}");
    // They end with their clients.
    drop((device, asking));
    crate::server::until("they have gone", || {
        shown(&server, "/hermod/v1/consumers?filter=source!%3Dqueue", GUEST)["total"] == 0
    });
}

#[test]
fn a_user_sees_consumers_without_a_queue_of_its_vhosts_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut device = with_will(&server);
    subscribe(&mut device, "rooms/+/heat");
    let ask = |verb: &str, words: &[&str]| assert_eq!(run(hermod(verb, dir.path()).args(words)).0, 0);
    ask("users", &["add", "alice", "--password", "one", "--tags", "management"]);
    let seen = || {
        let native = shown(&server, "/hermod/v1/consumers", ALICE)["total"].as_u64();
        let listed = shown(&server, "/api/all-consumers", ALICE).as_array().map(Vec::len);
        let page = Browser::of(&server, "alice", "one").page("/consumers").contains("rooms.*.heat");
        (native, listed, page)
    };
    assert_eq!(seen(), (Some(0), Some(0), false));
    assert_eq!(server.ask("GET", "/api/all-consumers/%2F", ALICE).0, 401);
    ask("permissions", &["set", "alice", "", "", ""]);
    assert_eq!(seen(), (Some(1), Some(1), true));
}
