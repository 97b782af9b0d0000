//! Roles over every way that an operator has: the command line, both APIs, definitions and the
//! console.

use serde_json::{Value, json};

use crate::api::{GUEST, json};
use crate::server::{Server, hermod, run};

#[test]
fn roles_are_given_shown_explained_and_moved() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("one"), &[]);
    let say = |arguments: &[&str]| run(hermod(arguments[0], &dir.path().join("one")).args(&arguments[1..]));
    for arguments in [
        &["users", "add", "readers", "--no-password"][..],
        &["permissions", "set", "readers", "", "", "^orders"],
        &["users", "add", "bo", "--password", "pw"],
        &["users", "set-roles", "bo", "readers"],
    ] {
        let done = say(arguments);
        assert_eq!(done.0, 0, "{arguments:?} {done:?}");
    }
    let (code, _, error) = say(&["users", "set-roles", "bo", "nobody"]);
    assert!(code == 66 && error.contains("there is no user 'nobody' to be a role"), "{code} {error}");
    let (_, explained, _) = say(&["explain", "access", "bo", "/", "queue", "orders"]);
    assert!(explained.contains("the pattern '^orders' of role 'readers' is found in it"), "{explained}");
    let (_, explained, _) = say(&["explain", "access", "bo", "/", "queue", "other"]);
    assert!(explained.contains("the pattern '^orders' of role 'readers' is not found in it"), "{explained}");
    assert_eq!(json(&server, "/api/users/bo", GUEST)["roles"], json!(["readers"]));
    assert_eq!(json(&server, "/hermod/v1/users/bo", GUEST)["roles"], json!(["readers"]));
    // A user may enter by its role, and a PUT of RabbitMQ's fields keeps the roles.
    let put = |path: &str, body: Value| server.send("PUT", path, GUEST, &body.to_string()).status;
    assert_eq!(put("/api/users/bo", json!({"password": "pw", "tags": "management"})), 204);
    let bo = "Authorization: Basic Ym86cHc=\r\n";
    assert_eq!(server.ask("GET", "/api/queues/%2F", bo).0, 200);
    // Definitions carry them, in any order of names.
    let document = json(&server, "/api/definitions", GUEST);
    let users = document["users"].as_array().unwrap();
    let exported = users.iter().find(|user| user["name"] == "bo").unwrap();
    assert_eq!(exported["hermod-roles"], json!(["readers"]));
    let other = Server::start(&dir.path().join("two"), &[]);
    let reply = other.send("POST", "/api/definitions", GUEST, &document.to_string());
    assert_eq!(reply.status, 204, "{}", reply.body);
    assert_eq!(json(&other, "/api/users/bo", GUEST)["roles"], json!(["readers"]));
    let missing = json!({"users": [{"name": "eve", "password_hash": "", "tags": "", "hermod-roles": ["nobody"]}]});
    let reply = other.send("POST", "/api/definitions", GUEST, &missing.to_string());
    assert!(reply.status == 400 && reply.body.contains("there is no user 'nobody' to be a role"), "{}", reply.body);
    // Without roles it is out again.
    assert_eq!(put("/hermod/v1/users/bo", json!({"password": "pw", "tags": ["management"], "roles": []})), 204);
    assert_ne!(server.ask("GET", "/api/queues/%2F", bo).0, 200);
}
