//! The native API: what it answers is what its OpenAPI document says, lists go on where they ended,
//! and a change that was made for an older state is refused.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::api::{GUEST, json as shown};
use crate::server::{Reply, Server, hermod, run, until};
use crate::stomp::Stomp;

const V1: &str = "/hermod/v1";
/// alice:one
const ALICE: &str = "Authorization: Basic YWxpY2U6b25l\r\n";

fn send(server: &Server, method: &str, path: &str, headers: &str, document: &Value) -> Reply {
    let headers = format!("{GUEST}{headers}Content-Type: application/json\r\n");
    server.send(method, &format!("{V1}{path}"), &headers, &document.to_string())
}

/// Whether a value is of a type of JSON Schema.
fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

/// Checks a row against its schema: all its fields, no others, each of its type.
pub(crate) fn check(row: &Value, schema: &Value) {
    let (fields, told) = (row.as_object().unwrap(), schema["properties"].as_object().unwrap());
    assert_eq!(fields.keys().collect::<Vec<_>>(), told.keys().collect::<Vec<_>>());
    for (name, value) in fields {
        let kind = &told[name]["type"];
        let kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
        assert!(kinds.iter().any(|kind| is_of(value, kind)), "{name} is {value}, and not {kind}");
    }
}

/// A client of MQTT that has left a will.
pub(crate) fn with_will(server: &Server) -> TcpStream {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    // Version 3.1.1; user, password, will and clean session; a minute of keep-alive.
    let mut connect = [text("MQTT"), vec![4, 0xC6, 0, 60]].concat();
    for field in ["native", "last/words", "gone", "guest", "guest"] {
        connect.extend(text(field));
    }
    connect.splice(..0, [0x10, connect.len() as u8]);
    let mut socket = TcpStream::connect(("127.0.0.1", server.ports.mqtt)).unwrap();
    socket.write_all(&connect).unwrap();
    let mut answer = [0; 4];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    socket
}

#[test]
fn every_path_of_the_document_answers_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "one");
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client\n\n");
    client.frame();
    client.send("SUBSCRIBE\nid:d\ndestination:/topic/t\ndurable:true\nreceipt:d\n\n");
    client.frame();
    client.send("SEND\ndestination:/exchange/amq.direct/t\nx-retain:true\nreceipt:r\n\nvalue");
    client.frame();
    let _connected = with_will(&server);
    drop(Stomp::connect(&server));
    until("an ending", || shown(&server, &format!("{V1}/endings"), GUEST)["total"] == 1);
    let policy = json!({ "pattern": "^o", "definition": { "max-length": 5 }, "apply_to": "queues" });
    assert_eq!(send(&server, "PUT", "/policies/%2F/p", "", &policy).status, 201);
    let ceiling = json!({ "pattern": "^x", "definition": { "max-length": 3 } });
    let path = "/api/operator-policies/%2F/ceiling";
    assert_eq!(server.send("PUT", path, GUEST, &ceiling.to_string()).status, 201);
    let document = shown(&server, &format!("{V1}/openapi.json"), "");
    assert_eq!(document["openapi"], "3.1.0");
    let schemas = &document["components"]["schemas"];
    let (mut lists, mut ones) = (0, 0);
    for (path, operations) in document["paths"].as_object().unwrap() {
        let schema = &operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        let Some(name) = schema.as_str().and_then(|schema| schema.strip_prefix("#/components/schemas/")) else {
            continue;
        };
        let Some(name) = name.strip_suffix("-page") else {
            ones += 1;
            continue;
        };
        let page = shown(&server, path, GUEST);
        let rows = page["items"].as_array().unwrap();
        assert!(!rows.is_empty(), "{path} has nothing");
        assert_eq!((&page["next"], page["total"].as_u64()), (&Value::Null, Some(rows.len() as u64)), "{path}");
        rows.iter().for_each(|row| check(row, &schemas[name]));
        lists += 1;
        // The path of one of them has the names of its fields.
        let row = rows.last().unwrap();
        let one = document["paths"].as_object().unwrap().keys().find(|other| {
            other.strip_prefix(&format!("{path}/")).is_some_and(|rest| rest.starts_with('{') && rest.ends_with('}'))
        });
        if let Some(one) = one {
            let mut at = one.clone();
            for (field, value) in row.as_object().unwrap() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                at = at.replace(&format!("{{{field}}}"), &value.replace('/', "%2F"));
            }
            check(&shown(&server, &at, GUEST), &schemas[name]);
        }
    }
    assert_eq!((lists, ones), (15, 11));
    for path in ["/overview", "/health"] {
        assert!(shown(&server, &format!("{V1}{path}"), GUEST).is_object());
    }
    assert_eq!(shown(&server, &format!("{V1}/overview"), GUEST)["unsettled"], 1);
}

#[test]
fn a_node_that_leads_says_so_and_is_not_promoted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let schemas = shown(&server, &format!("{V1}/openapi.json"), "")["components"]["schemas"].clone();
    let row = shown(&server, &format!("{V1}/cluster"), GUEST);
    check(&row, &schemas["cluster"]);
    assert_eq!((&row["role"], &row["state"], &row["loss"]), (&json!("leader"), &json!("serving"), &Value::Null));
    let reply = send(&server, "POST", "/cluster/promote", "", &json!({ "planned": true }));
    assert_eq!((reply.status, reply.header("content-type")), (409, "application/problem+json"));
    assert!(reply.body.contains("serves clients already"), "{}", reply.body);
    let add = ["add", "alice", "--password", "one", "--tags", "management"];
    assert_eq!(run(hermod("users", dir.path()).args(add)).0, 0);
    assert_eq!(server.send("GET", &format!("{V1}/cluster"), ALICE, "").status, 403);
    assert_eq!(server.send("POST", &format!("{V1}/cluster/promote"), ALICE, "{}").status, 403);
    assert_eq!(server.send("POST", &format!("{V1}/cluster/promote"), "", "{}").status, 401);
}

#[test]
fn a_list_is_filtered_sorted_and_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for (name, count) in [("a", 3), ("b", 1), ("c", 2), ("d", 1), ("e", 5)] {
        (0..count).for_each(|_| client.publish(name, "m"));
    }
    let page = |query: &str| shown(&server, &format!("{V1}/queues?fields=name&{query}"), GUEST);
    let names = |page: &Value| {
        let rows = page["items"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect::<String>()
    };
    for (query, expected, total) in [
        ("", "abcde", 5),
        ("sort=-ready", "eacbd", 5),
        ("sort=ready", "bdcae", 5),
        ("filter=ready%3E1%20name!%3De", "ac", 2),
        ("filter=vhost%3D%2F%20name~%5E%5Bab%5D&sort=-name", "ba", 2),
        ("filter=vhost%3Dother", "", 0),
    ] {
        let found = page(query);
        assert_eq!((names(&found).as_str(), &found["total"]), (expected, &json!(total)), "{query}");
        // The same in pages of two. What comes in between is no reason to repeat or miss any.
        let (mut all, mut next) = (String::new(), Value::Null);
        loop {
            let after = next.as_str().map(|cursor| format!("&after={cursor}")).unwrap_or_default();
            let found = page(&format!("{query}&limit=2{after}"));
            all += &names(&found);
            next = found["next"].clone();
            if next.is_null() {
                break;
            }
        }
        assert_eq!(all, expected, "{query} in pages");
    }
    // Sorted by a figure, an item has all its fields all the same.
    let first = &shown(&server, &format!("{V1}/queues?sort=-ready&limit=1"), GUEST)["items"][0];
    let seen = ["name", "ready", "type", "standing", "persistent", "durable"].map(|name| &first[name]);
    assert_eq!(json!(seen), json!(["e", 5, "classic", "stuck", 5, true]));
    let reply = server.send("GET", &format!("{V1}/queues?sort=size"), GUEST, "");
    assert_eq!((reply.status, reply.header("content-type")), (400, "application/problem+json"));
    let problem: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((&problem["status"], &problem["title"]), (&json!(400), &json!("bad_request")));
    assert!(problem["detail"].as_str().unwrap().contains("no field 'size'"), "{problem}");
}

/// What a list has in one of its fields, in pages of so many.
fn in_pages(server: &Server, list: &str, field: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = shown(server, &format!("{V1}/{list}?fields={field}&limit={limit}{after}"), GUEST);
        all.extend(page["items"].as_array().unwrap().iter().map(|row| row[field].clone()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

#[test]
fn connections_consumers_and_bindings_go_on_where_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut clients: Vec<Stomp> = (0..12).map(|_| Stomp::connect(&server)).collect();
    for client in &mut clients {
        client.send("SUBSCRIBE\nid:s\ndestination:/queue/orders\nreceipt:s\n\n");
        client.frame();
    }
    let numbers = in_pages(&server, "connections", "number", 5);
    assert_eq!(numbers, (1..=12).map(|number| json!(number)).collect::<Vec<_>>());
    assert_eq!(in_pages(&server, "consumers", "connection", 5), numbers);
    let one = shown(&server, &format!("{V1}/connections/12"), GUEST);
    assert_eq!((&one["number"], &one["consumers"], &one["user"]), (&json!(12), &json!(1), &json!("guest")));
    for missing in ["13", "x", "012x"] {
        assert_eq!(server.send("GET", &format!("{V1}/connections/{missing}"), GUEST, "").status, 404, "{missing}");
    }
    // More than are read at once, of one exchange.
    for number in 0..150 {
        let key = json!({ "routing_key": format!("key {number:03}") }).to_string();
        assert_eq!(server.send("POST", "/api/bindings/%2F/e/amq.direct/q/orders", GUEST, &key).status, 201);
    }
    let keys: Vec<_> = std::iter::once(json!("orders")).chain((0..150).map(|n| json!(format!("key {n:03}")))).collect();
    assert_eq!(in_pages(&server, "bindings", "routing_key", 7), keys);
}

/// The body of an answer, put together if it came in chunks.
fn whole(reply: &Reply) -> String {
    if reply.header("transfer-encoding") != "chunked" {
        return reply.body.clone();
    }
    let (mut rest, mut all) = (reply.body.as_str(), String::new());
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return all;
        }
        all += &chunk[..length];
        rest = &chunk[length + 2..];
    }
    panic!("the last chunk is missing");
}

#[test]
fn all_messages_of_a_queue_are_lines_that_can_be_published_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    // More than are read at once, more than a piece of an answer, and more than a browser shows.
    let long = "long ".repeat(200);
    (0..1200).for_each(|number| client.publish("orders", &format!("{number} {long}")));
    let odd = json!({
        "routing_key": "orders", "payload": "/wAA", "payload_encoding": "base64",
        "properties": { "headers": { "tenant": "acme" }, "priority": 3 },
    });
    assert_eq!(server.send("POST", "/api/exchanges/%2F/amq.default/publish", GUEST, &odd.to_string()).status, 200);
    let path = format!("{V1}/queues/%2F/orders/messages");
    let lines = |query: &str| {
        let reply = server.send("GET", &format!("{path}{query}"), GUEST, "");
        assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"), "{}", reply.body);
        whole(&reply).lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let all = lines("");
    let schemas = shown(&server, &format!("{V1}/openapi.json"), "")["components"]["schemas"].clone();
    all.iter().for_each(|line| check(line, &schemas["messages"]));
    let bodies: Vec<_> = all.iter().map(|line| line["payload"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..1200).map(|number| format!("{number} {long}")).chain(["/wAA".to_owned()]).collect();
    assert_eq!(bodies, expected);
    let last = &all[1200];
    assert_eq!((&last["payload_encoding"], &last["payload_bytes"]), (&json!("base64"), &json!(3)));
    assert_eq!(last["properties"], json!({ "headers": { "tenant": "acme" }, "priority": 3 }));
    // What was shown is still there, and not as if it had been delivered.
    assert_eq!(lines(""), all);
    assert_eq!(all[0]["redelivered"], false);
    assert_eq!(shown(&server, "/api/queues/%2F/orders", GUEST)["messages_ready"], 1201);
    // A line is a document of publish.
    assert_eq!(server.send("POST", "/api/exchanges/%2F/amq.default/publish", GUEST, &last.to_string()).status, 200);
    let same = |line: &Value| [&line["payload"], &line["properties"], &line["routing_key"]].map(Value::clone);
    assert_eq!(same(&lines("?selector=tenant%3D'acme'")[1]), same(last));
    assert_eq!(lines("?limit=70"), all[..70]);
    assert_eq!(lines("?limit=0"), Vec::<Value>::new());

    for (query, status) in [("?selector=(", 400), ("?limit=some", 400), ("?from=1", 400)] {
        let reply = server.send("GET", &format!("{path}{query}"), GUEST, "");
        assert_eq!((reply.status, reply.header("content-type")), (status, "application/problem+json"), "{query}");
    }
    assert_eq!(server.send("GET", &path.replace("orders", "none"), GUEST, "").status, 404);
    let add = ["add", "alice", "--password", "one", "--tags", "management"];
    assert_eq!(run(hermod("users", dir.path()).args(add)).0, 0);
    assert_eq!(run(hermod("permissions", dir.path()).args(["set", "alice", ".*", ".*", "^mine$"])).0, 0);
    let reply = server.send("GET", &path, ALICE, "");
    assert!(reply.status == 403 && reply.body.contains("to see messages"), "{}", reply.body);
    server.until_logged("messages browsed");
}

#[test]
fn a_change_for_an_older_state_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let path = "/policies/%2F/p";
    let policy = |length: u64| json!({ "pattern": "^q", "definition": { "max-length": length } });
    assert_eq!(send(&server, "PUT", path, "", &policy(1)).status, 201);
    let tag = || server.send("GET", &format!("{V1}{path}"), GUEST, "").header("etag").to_owned();
    let first = format!("If-Match: {}\r\n", tag());
    assert_eq!(send(&server, "PUT", path, &first, &policy(2)).status, 204);
    let reply = send(&server, "PUT", path, &first, &policy(3));
    assert_eq!((reply.status, reply.header("content-type")), (412, "application/problem+json"));
    assert_eq!(send(&server, "DELETE", path, &first, &json!({})).status, 412);
    let second = format!("If-Match: {}\r\n", tag());
    assert_eq!(send(&server, "DELETE", path, &second, &json!({})).status, 204);
    assert_eq!(send(&server, "PUT", path, &second, &policy(3)).status, 412, "it is not there");
    // Figures that move are no change.
    let queue = json!({ "durable": true });
    assert_eq!(send(&server, "PUT", "/queues/%2F/q", "", &queue).status, 201);
    let reply = server.send("GET", &format!("{V1}/queues/%2F/q"), GUEST, "");
    let tag = format!("If-Match: {}\r\n", reply.header("etag"));
    Stomp::connect(&server).publish("q", "one");
    assert_eq!(send(&server, "DELETE", "/queues/%2F/q/messages", "", &json!({})).status, 204);
    assert_eq!(send(&server, "DELETE", "/queues/%2F/q", &tag, &json!({})).status, 204);
}

#[test]
fn what_a_user_may_not_see_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("secret", "one");
    assert_eq!(server.get(&format!("{V1}/queues")).0, 401);
    let add = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    add(&["add", "alice", "--password", "one", "--tags", "management"]);
    for list in ["queues", "exchanges", "bindings", "connections", "consumers", "vhosts", "policies"] {
        let page = shown(&server, &format!("{V1}/{list}"), ALICE);
        assert_eq!((&page["items"], &page["total"]), (&json!([]), &json!(0)), "{list}");
    }
    let number = shown(&server, &format!("{V1}/connections"), GUEST)["items"][0]["number"].clone();
    for (method, path, status) in [
        ("GET", "/queues/%2F/secret".to_owned(), 404),
        ("GET", "/vhosts/%2F".to_owned(), 404),
        ("GET", format!("/connections/{number}"), 404),
        ("DELETE", format!("/connections/{number}"), 404),
        ("GET", "/users".to_owned(), 403),
        ("GET", "/overview".to_owned(), 403),
        ("GET", "/nothing".to_owned(), 404),
        ("POST", "/queues".to_owned(), 405),
    ] {
        let reply = server.send(method, &format!("{V1}{path}"), ALICE, "");
        assert_eq!((reply.status, reply.header("content-type")), (status, "application/problem+json"), "{path}");
    }
    let tag = format!("{ALICE}If-Match: \"x\"\r\n");
    assert_eq!(server.send("DELETE", &format!("{V1}/queues/%2F/secret"), &tag, "").status, 412);
    assert_eq!(send(&server, "DELETE", &format!("/connections/{number}"), "", &json!({})).status, 204);
    assert!(client.frame().starts_with("ERROR\n"));
}
