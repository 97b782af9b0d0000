//! Documents over HTTP that are huge, deeply nested, contradictory, or of wrong types: they are
//! refused and change nothing.

use serde_json::{Value, json};

use super::{Canary, resident};
use crate::server::Server;

const HEADERS: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Type: application/json\r\n";

fn definitions(server: &Server) -> Value {
    let (status, body) = server.ask("GET", "/api/definitions", HEADERS);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn queue(arguments: &str) -> String {
    format!(
        r#"{{"queues":[{{"name":"first","vhost":"/","durable":true,"auto_delete":false}},
            {{"name":"q","vhost":"/","durable":true,"auto_delete":false,"arguments":{arguments}}}]}}"#
    )
}

/// A document that first declares a queue and ends with a binding.
fn bound(source: &str, key: &str, arguments: &str) -> String {
    let exchange = |name: &str, kind: &str, arguments: &str| {
        format!(
            r#"{{"name":"{name}","vhost":"/","type":"{kind}","durable":true,"auto_delete":false,"arguments":{arguments}}}"#
        )
    };
    let exchanges = [
        exchange("hash", "x-consistent-hash", "{}"),
        exchange("late", "x-delayed-message", r#"{"x-delayed-type":"headers"}"#),
    ];
    format!(
        r#"{{"queues":[{{"name":"first","vhost":"/","durable":true,"auto_delete":false}}],"exchanges":[{}],
            "bindings":[{{"source":"{source}","vhost":"/","destination":"first","destination_type":"queue",
                          "routing_key":"{key}","arguments":{arguments}}}]}}"#,
        exchanges.join(",")
    )
}

#[test]
fn definitions_that_make_no_sense_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let limits = ["--limits-queues", "1000", "--limits-vhosts", "10", "--limits-bindings", "20"];
    let server = Server::start(dir.path(), &limits);
    let before = definitions(&server);
    let canary = Canary::start(&server);
    let nested = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let many = |count: usize, entry: &dyn Fn(usize) -> Value| Value::from((0..count).map(entry).collect::<Vec<_>>());
    let queues =
        many(2000, &|n| json!({ "name": format!("q{n}"), "vhost": "/", "durable": true, "auto_delete": false }));
    let vhosts = many(11, &|n| json!({ "name": format!("v{n}") }));
    let bindings = many(21, &|n| {
        json!({ "source": "amq.topic", "vhost": "/", "destination": "amq.fanout",
                                         "destination_type": "exchange", "routing_key": format!("k{n}") })
    });
    let twice = |one: Value, other: Value| {
        let with = |rest: Value| {
            let mut entry = json!({ "name": "twin", "vhost": "/", "durable": true, "auto_delete": false });
            entry.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            entry
        };
        [with(one), with(other)]
    };
    let user = |rest: Value| {
        let mut user = json!({ "name": "eve", "tags": "administrator" });
        user.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "users": [user] }).to_string()
    };
    let cases = [
        (String::new(), "it must be an object"),
        ("\u{0}".to_owned(), "no document of definitions"),
        ("[]".to_owned(), "no document of definitions"),
        ("7".to_owned(), "no document of definitions"),
        (nested("[", "]", 100_000), "no document of definitions"),
        (nested(r#"{"queues":"#, "}", 100_000), "no document of definitions"),
        (queue(&nested(r#"{"a":"#, "}", 127)), "no document of definitions"),
        (queue(&nested(r#"{"a":"#, "}", 40)), "nested more than 32 deep"),
        (queue(r#"{"x-max-length":18446744073709551615}"#), "beyond 64 bits"),
        (queue(r#"{"x-max-length":"many"}"#), "x-max-length"),
        (queue(r#"{"x-max-length":1,"x-max-length":2}"#), "'x-max-length' is there twice"),
        (queue("7"), "queues[1].arguments: expected an object, not 7"),
        (r#"{"users":[],"users":[]}"#.to_owned(), "'users' is there twice"),
        (r#"{"vhosts":[{"name":"v","name":"w"}]}"#.to_owned(), "'name' is there twice"),
        (r#"{"vhosts":{"name":"v"}}"#.to_owned(), "no document of definitions"),
        (r#"{"vhosts":[{"name":""}]}"#.to_owned(), "1 to 255 bytes"),
        (json!({ "vhosts": [{ "name": "x".repeat(256) }] }).to_string(), "1 to 255 bytes"),
        (json!({ "vhosts": vhosts }).to_string(), "limits.vhosts"),
        (json!({ "queues": queues }).to_string(), "limits.queues"),
        (user(json!({ "password_hash": "short" })), "rabbit_password_hashing_sha256"),
        (user(json!({ "password_hash": "AAAA", "hashing_algorithm": "rot13" })), "rot13"),
        (user(json!({ "password_hash": "$argon2id$v=19$m=4294967295,t=9,p=1$AAAA$AAAA", "hashing_algorithm": "argon2id" })), "eve"),
        (user(json!({ "limits": { "max-connections": "none" } })), "users[0].limits.max-connections: expected a whole number"),
        (
            json!({ "permissions": [{ "user": "guest", "vhost": "/", "configure": "(".repeat(5000), "write": "", "read": "" }] })
                .to_string(),
            "rights of user 'guest'",
        ),
        (
            json!({ "policies": [{ "vhost": "/", "name": "p", "pattern": "((a{1000}){1000}){1000}", "apply-to": "all",
                                   "priority": 0, "definition": { "max-length": 1 } }] })
            .to_string(),
            "policy 'p'",
        ),
        (
            json!({ "bindings": [{ "source": "amq.direct", "vhost": "/", "destination": "gone", "destination_type": "queue",
                                   "routing_key": "k" }] })
            .to_string(),
            "there is no queue 'gone'",
        ),
        (bound("amq.headers", "", r#"{"x-match":"some"}"#), "Invalid x-match field"),
        (bound("late", "", r#"{"x-match":"some"}"#), "Invalid x-match field"),
        (bound("hash", "abc", "{}"), "The binding key must be an integer"),
        (bound("amq.topic", &"k".repeat(65_536), "{}"), "routing key is longer than 65535 bytes"),
        (bound("amq.headers", "", &nested(r#"{"a":"#, "}", 40)), "nested more than 32 deep"),
        (json!({ "bindings": bindings }).to_string(), "limits.bindings"),
        (
            json!({ "queues": twice(json!({}), json!({ "arguments": { "x-max-length": 1 } })) }).to_string(),
            "queue 'twin' in vhost '/' is there twice",
        ),
        (
            json!({ "exchanges": twice(json!({ "type": "direct" }), json!({ "type": "topic" })) }).to_string(),
            "exchange 'twin' in vhost '/' is there twice",
        ),
        (
            json!({ "queues": twice(json!({}), json!({ "name": "" })) }).to_string(),
            "a queue in vhost '/' has no name",
        ),
        (
            json!({ "exchanges": twice(json!({ "type": "direct" }), json!({ "name": "", "type": "direct" })) }).to_string(),
            "the default exchange",
        ),
        (
            json!({ "vhosts": [{ "name": "v", "default_queue_type": "quorum" }],
                    "queues": [{ "name": "q", "vhost": "v", "durable": true, "auto_delete": false,
                                 "arguments": { "x-max-priority": 5 } }] })
            .to_string(),
            "x-max-priority",
        ),
        (format!("{{{}\"queues\":[]}}", " ".repeat((32 << 20) - 12)), "longer than"),
    ];
    let resident_before = resident(&server);
    for (document, words) in &cases {
        let reply = server.send("POST", "/api/definitions", HEADERS, document);
        let beginning = &document[..document.len().min(100)];
        let refused = if document.len() > 32 << 20 { 413 } else { 400 };
        assert_eq!(reply.status, refused, "{beginning}: {}", reply.body);
        assert!(reply.body.contains(words), "{beginning}: {} instead of {words}", reply.body);
    }
    canary.stop();
    let grown = resident(&server).saturating_sub(resident_before);
    assert!(grown < 200 << 10, "{grown} KiB more");
    let mut after = definitions(&server);
    // The queue of the client that worked meanwhile.
    after["queues"].as_array_mut().unwrap().retain(|queue| queue["name"] != "canary");
    assert_eq!(after, before);
}
