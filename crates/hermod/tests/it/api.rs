//! `/api`: which users may use it, what it shows, and closing a connection.

mod changes;
mod tools;
mod traffic;

use serde_json::{Value, json};

use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// Header lines of these users and their passwords.
pub(crate) const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
const GUEST_WRONG: &str = "Authorization: Basic Z3Vlc3Q6d3Jvbmc=\r\n";
/// alice:one
const ALICE: &str = "Authorization: Basic YWxpY2U6b25l\r\n";

pub(crate) fn json(server: &Server, path: &str, headers: &str) -> Value {
    let (status, body) = server.ask("GET", path, headers);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn connections_are_listed_and_closed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    let listed = json(&server, "/api/connections/", GUEST);
    let row = &listed[0];
    assert_eq!((&row["user"], &row["vhost"], &row["protocol"]), (&json!("guest"), &json!("/"), &json!("STOMP")));
    assert_eq!((&row["peer_host"], &row["port"]), (&json!("127.0.0.1"), &json!(server.ports.stomp)));
    let name = row["name"].as_str().unwrap();
    let path = format!("/api/connections/{}", name.replace(' ', "%20").replace('>', "%3E"));
    assert_eq!(json(&server, &path, GUEST)["name"], name);
    let (status, _) = server.ask("DELETE", &path, &format!("{GUEST}X-Reason: moving house\r\n"));
    assert_eq!(status, 204);
    let last = client.frame();
    assert!(last.starts_with("ERROR\n") && last.contains("moving house"), "{last}");
    let missing = server.ask("DELETE", "/api/connections/nobody", GUEST);
    assert_eq!(missing, (404, r#"{"error":"Object Not Found","reason":"Not Found"}"#.to_owned()));
}

#[test]
fn nobody_is_let_in_without_a_password_and_a_tag() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    for headers in ["", GUEST_WRONG, "Authorization: Bearer x\r\n"] {
        for path in ["/api/whoami", "/api/connections", "/api/users", "/api/overview", "/api/queues/%2F/q"] {
            let (status, body) = server.ask("GET", path, headers);
            assert_eq!(
                (status, body.as_str()),
                (401, r#"{"error":"not_authorized","reason":"Login failed"}"#),
                "{path}"
            );
        }
        assert_eq!(server.ask("DELETE", "/api/connections/x", headers).0, 401);
    }
    let add = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    add(&["add", "alice", "--password", "one"]);
    let refused = r#"{"error":"not_authorized","reason":"Not management user"}"#;
    assert_eq!(server.ask("GET", "/api/whoami", ALICE), (401, refused.to_owned()));
    add(&["set-tags", "alice", "management"]);
    assert_eq!(json(&server, "/api/whoami", ALICE)["tags"], json!(["management"]));
    // It sees its own objects, and nothing of other users.
    let _client = Stomp::connect(&server);
    assert_eq!(json(&server, "/api/connections", ALICE), json!([]));
    assert_eq!(json(&server, "/api/channels", ALICE), json!([]));
    assert_eq!(json(&server, "/api/vhosts", ALICE), json!([]));
    assert_eq!(json(&server, "/api/exchanges", ALICE), json!([]));
    assert_eq!(server.ask("GET", "/api/users", ALICE).0, 401);
    assert_eq!(server.ask("GET", "/api/permissions", ALICE).0, 401);
    assert_eq!(server.ask("GET", "/api/exchanges/%2F/amq.topic", ALICE).0, 401);
    let connections = json(&server, "/api/connections", GUEST);
    let name = connections[0]["name"].as_str().unwrap().replace(' ', "%20").replace('>', "%3E");
    assert_eq!(server.ask("DELETE", &format!("/api/connections/{name}"), ALICE).0, 401);
    add(&["set-tags", "alice", "monitoring"]);
    assert_eq!(json(&server, "/api/connections", ALICE).as_array().unwrap().len(), 1);
    assert_eq!(server.ask("DELETE", &format!("/api/connections/{name}"), ALICE).0, 401);
}

#[test]
fn what_is_there_is_shown_under_the_names_that_tools_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "one");
    let overview = json(&server, "/api/overview", GUEST);
    for field in ["queue_totals", "object_totals", "message_stats", "churn_rates"] {
        assert!(overview[field].is_object(), "{field}");
    }
    assert_eq!(overview["queue_totals"]["messages_ready"], 1);
    assert!(overview["rabbitmq_version"].is_string() && overview["cluster_name"].is_string());
    let types: Vec<&str> =
        overview["exchange_types"].as_array().unwrap().iter().map(|kind| kind["name"].as_str().unwrap()).collect();
    for kind in ["direct", "headers", "x-consistent-hash", "x-delayed-message", "x-message-deduplication"] {
        assert!(types.contains(&kind), "{kind} is not in {types:?}");
    }
    assert_eq!(json(&server, "/api/nodes", GUEST)[0]["exchange_types"], overview["exchange_types"]);
    let queue = json(&server, "/api/queues/%2F/orders", GUEST);
    assert_eq!((&queue["name"], &queue["messages"], &queue["vhost"]), (&json!("orders"), &json!(1), &json!("/")));
    // The queue alone also shows its consumers.
    let listed = &json(&server, "/api/queues/%2F", GUEST)[0];
    assert_eq!((&listed["name"], &listed["messages"]), (&queue["name"], &queue["messages"]));
    assert_eq!((&queue["consumer_details"], &listed["consumer_details"]), (&json!([]), &Value::Null));
    assert_eq!(json(&server, "/api/exchanges/%2F", GUEST).as_array().unwrap().len(), 6);
    assert_eq!(json(&server, "/api/exchanges/%2F/amq.default", GUEST)["name"], "");
    assert_eq!(json(&server, "/api/bindings", GUEST)[0]["routing_key"], "orders");
    assert_eq!(json(&server, "/api/vhosts/%2F", GUEST)["name"], "/");
    let users = json(&server, "/api/users", GUEST);
    assert!(users[0]["password_hash"].as_str().unwrap().starts_with("$argon2id$"), "{users}");
    assert_eq!(json(&server, "/api/permissions", GUEST)[0]["configure"], ".*");
    for path in ["/api/queues/gone", "/api/queues/%2F/gone", "/api/users/gone", "/api/vhosts/gone"] {
        assert_eq!(server.ask("GET", path, GUEST).0, 404, "{path}");
    }
}
