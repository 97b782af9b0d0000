//! Documents over HTTP that are huge, deep, contradict themselves or are of other types than they should be: refused, with nothing
//! changed.

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

#[test]
fn definitions_that_make_no_sense_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--limits-queues", "1000", "--limits-vhosts", "10"]);
    let before = definitions(&server);
    let canary = Canary::start(&server);
    let nested = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let many = |count: usize, entry: &dyn Fn(usize) -> Value| Value::from((0..count).map(entry).collect::<Vec<_>>());
    let queues =
        many(2000, &|n| json!({ "name": format!("q{n}"), "vhost": "/", "durable": true, "auto_delete": false }));
    let vhosts = many(11, &|n| json!({ "name": format!("v{n}") }));
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
        (queue("7"), "no document of definitions"),
        (r#"{"users":[],"users":[]}"#.to_owned(), "duplicate field `users`"),
        (r#"{"vhosts":[{"name":"v","name":"w"}]}"#.to_owned(), "duplicate field `name`"),
        (r#"{"vhosts":{"name":"v"}}"#.to_owned(), "no document of definitions"),
        (r#"{"vhosts":[{"name":""}]}"#.to_owned(), "1 to 255 bytes"),
        (json!({ "vhosts": [{ "name": "x".repeat(256) }] }).to_string(), "1 to 255 bytes"),
        (json!({ "vhosts": vhosts }).to_string(), "limits.vhosts"),
        (json!({ "queues": queues }).to_string(), "limits.queues"),
        (user(json!({ "password_hash": "short" })), "rabbit_password_hashing_sha256"),
        (user(json!({ "password_hash": "AAAA", "hashing_algorithm": "rot13" })), "rot13"),
        (user(json!({ "password_hash": "$argon2id$v=19$m=4294967295,t=9,p=1$AAAA$AAAA", "hashing_algorithm": "argon2id" })), "eve"),
        (user(json!({ "limits": { "max-connections": "none" } })), "no document of definitions"),
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
    // The queue of whoever worked meanwhile.
    after["queues"].as_array_mut().unwrap().retain(|queue| queue["name"] != "canary");
    assert_eq!(after, before);
}
