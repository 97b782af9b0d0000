//! Changes over HTTP: status codes, texts of refusals, and the state afterwards.

use serde_json::{Value, json};

use super::{GUEST, json as shown};
use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

/// A request, and the status and some text of its answer.
type Step = (&'static str, &'static str, &'static str, u16, &'static str);

const JSON: &str = "Content-Type: application/json\r\n";

/// Sends each request as `who`, with its document if that is not empty.
fn check(server: &Server, who: &str, steps: &[Step]) {
    for (method, path, document, expected, words) in steps {
        let headers = format!("{who}{}", if document.is_empty() { "" } else { JSON });
        let reply = server.send(method, &format!("/api/{path}"), &headers, document);
        assert_eq!(reply.status, *expected, "{method} {path} {document}: {}", reply.body);
        assert!(reply.body.contains(words), "{method} {path} {document}: {}", reply.body);
        if *expected >= 400 && *method != "HEAD" {
            let refusal: Value = serde_json::from_str(&reply.body).unwrap();
            assert!(refusal["error"].is_string() && refusal["reason"].is_string(), "{path}: {refusal}");
        }
    }
}

#[test]
fn users_vhosts_and_rights() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let hash = r#"{"password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","tags":"management,other"}"#;
    check(
        &server,
        GUEST,
        &[
            ("PUT", "vhosts/v", "", 201, ""),
            ("PUT", "vhosts/v", r#"{"description":"d","tags":"a,b","default_queue_type":"quorum"}"#, 204, ""),
            ("PUT", "vhosts/w", r#"{"default_queue_type":"stream"}"#, 400, "not implemented yet"),
            ("PUT", "vhosts/w", r#"{"protected_from_deletion":true}"#, 400, "protected_from_deletion is not built"),
            ("PUT", "vhosts/v", r#"{"default_queue_type":"quorum","tracing":"true"}"#, 204, ""),
            ("PUT", "vhosts/v", r#"{"default_queue_type":"quorum","tracing":"false"}"#, 204, ""),
            ("GET", "permissions/v/guest", "", 200, r#""configure":".*""#),
            ("PUT", "users/alice", r#"{"password":"one","tags":["monitoring"]}"#, 201, ""),
            ("PUT", "users/alice", r#"{"password":"one","tags":"policymaker"}"#, 204, ""),
            ("PUT", "users/alice", r#"{"password":"one"}"#, 400, "tags_not_present"),
            ("PUT", "users/alice", r#"{"password":"","tags":""}"#, 400, "may not be empty"),
            ("PUT", "users/alice", r#"{"password":"one","password_hash":"","tags":""}"#, 400, "both_password"),
            ("PUT", "users/carol", r#"{"password_hash":"x","tags":""}"#, 400, "rabbit_password_hashing_sha256"),
            ("PUT", "users/carol", r#"{"tags":7}"#, 400, "not understood"),
            ("PUT", "users/bob", r#"{"tags":""}"#, 201, ""),
            ("GET", "users/bob", "", 200, r#""password_hash":"""#),
            ("PUT", "permissions/v/alice", r#"{"configure":"","write":"a","read":"b"}"#, 201, ""),
            ("PUT", "permissions/v/alice", r#"{"configure":"","write":"c","read":"d"}"#, 204, ""),
            ("PUT", "permissions/v/alice", r#"{"configure":"(","write":"","read":""}"#, 400, "("),
            ("PUT", "permissions/v/alice", r#"{"write":"","read":""}"#, 400, "configure"),
            ("PUT", "permissions/v/nobody", r#"{"configure":"","write":"","read":""}"#, 400, "vhost_or_user_not_found"),
            ("GET", "vhosts/v/permissions", "", 200, r#""write":"c""#),
            ("GET", "users/alice/permissions", "", 200, r#""read":"d""#),
            ("GET", "users/nobody/permissions", "", 404, ""),
            ("GET", "users/without-permissions", "", 200, r#""name":"bob""#),
            ("DELETE", "permissions/v/alice", "", 204, ""),
            ("DELETE", "permissions/v/alice", "", 404, "Not Found"),
            ("GET", "permissions/v/alice", "", 404, ""),
            ("PUT", "topic-permissions/v/alice", r#"{"exchange":"x","write":"a","read":"b"}"#, 201, ""),
            ("PUT", "topic-permissions/v/alice", r#"{"exchange":"y","write":"a","read":"b"}"#, 201, ""),
            ("PUT", "topic-permissions/v/alice", r#"{"exchange":"y","write":"c","read":"b"}"#, 204, ""),
            ("DELETE", "topic-permissions/v/alice/x", "", 204, ""),
            ("DELETE", "topic-permissions/v/alice/x", "", 404, ""),
            ("GET", "topic-permissions/v/alice", "", 200, r#""exchange":"y""#),
            ("DELETE", "topic-permissions/v/alice", "", 204, ""),
            ("GET", "topic-permissions/v/alice", "", 404, ""),
            ("PUT", "vhost-limits/v/max-queues", r#"{"value":3}"#, 204, ""),
            ("PUT", "vhost-limits/v/max-connections", r#"{"value":5}"#, 204, ""),
            ("GET", "vhost-limits/v", "", 200, r#"{"max-connections":5,"max-queues":3}"#),
            ("PUT", "vhost-limits/v/max-queues", r#"{"value":-1}"#, 204, ""),
            ("PUT", "vhost-limits/v/max-dreams", r#"{"value":1}"#, 400, "max-connections and max-queues"),
            ("DELETE", "vhost-limits/v/max-connections", "", 204, ""),
            ("GET", "vhost-limits/v", "", 200, "[]"),
            ("PUT", "user-limits/alice/max-channels", r#"{"value":2}"#, 204, ""),
            ("PUT", "user-limits/nobody/max-channels", r#"{"value":2}"#, 404, ""),
            ("PUT", "user-limits/alice/max-channels", r#"{"value":4294967296}"#, 400, "beyond"),
            ("GET", "user-limits/alice", "", 200, r#"{"max-channels":2}"#),
            ("DELETE", "user-limits/alice/max-channels", "", 204, ""),
            ("PUT", "users/carol", hash, 201, ""),
            ("POST", "users/bulk-delete", r#"{"users":["alice","nobody"]}"#, 204, ""),
            ("DELETE", "users/alice", "", 404, ""),
            ("DELETE", "vhosts/v", "", 204, ""),
            ("DELETE", "vhosts/v", "", 404, ""),
        ],
    );
    assert_eq!(shown(&server, "/api/users/carol", GUEST)["tags"], json!(["management", "other"]));
    let (code, _, _) = run(hermod("users", dir.path()).args(["authenticate", "carol", "--password", "test12"]));
    assert_eq!(code, 0);
    let told = server.until_logged("put_user");
    assert!(told.contains("who=guest") && told.contains("name=") && !told.contains("test12"), "{told}");
}

#[test]
fn what_is_declared() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(
        &server,
        GUEST,
        &[
            ("PUT", "queues/%2F/q", r#"{"durable":true,"arguments":{"x-max-length":5},"node":"n"}"#, 201, ""),
            ("PUT", "queues/%2F/q", r#"{"durable":true,"arguments":{"x-max-length":5}}"#, 204, ""),
            ("PUT", "queues/%2F/q", "", 400, "inequivalent arg 'durable' for queue 'q' in vhost '/'"),
            // As rabbitmqadmin sends it, which takes its arguments from a command line.
            (
                "PUT",
                "queues/%2F/q",
                r#"{"name":"q","vhost":"/","durable":"true","auto_delete":"false","arguments":{"x-max-length":5}}"#,
                204,
                "",
            ),
            ("PUT", "queues/%2F/q", r#"{"durable":"yes"}"#, 400, "expected true or false"),
            ("PUT", "queues/%2F/q", r#"{"durable":1}"#, 400, "expected true or false"),
            ("PUT", "queues/%2F/amq.q", r#"{"durable":true}"#, 401, "amq.q"),
            ("PUT", "queues/gone/q", "", 404, ""),
            ("PUT", "exchanges/%2F/x", r#"{"type":"topic","durable":true}"#, 201, ""),
            ("PUT", "exchanges/%2F/x", r#"{"type":"topic","durable":true}"#, 204, ""),
            (
                "PUT",
                "exchanges/%2F/x",
                r#"{"type":"topic","durable":"true","auto_delete":"false","internal":"false"}"#,
                204,
                "",
            ),
            ("PUT", "exchanges/%2F/x", r#"{"type":"topic","durable":true,"internal":"true"}"#, 400, "arg 'internal'"),
            ("PUT", "exchanges/%2F/x", r#"{"type":"fanout","durable":true}"#, 400, "inequivalent arg 'type'"),
            ("PUT", "exchanges/%2F/y", r#"{"type":"dream"}"#, 400, "dream"),
            ("PUT", "exchanges/%2F/y", "", 201, ""),
            ("POST", "bindings/%2F/e/x/e/y", r#"{"routing_key":"k"}"#, 201, ""),
            ("GET", "bindings/%2F/e/x/e/y", "", 200, r#""properties_key":"k""#),
            ("GET", "exchanges/%2F/y/bindings/destination", "", 200, r#""source":"x""#),
            ("GET", "exchanges/%2F/x/bindings/source", "", 200, r#""destination":"y""#),
            ("POST", "bindings/%2F/e/x/q/gone", "", 404, ""),
            ("GET", "bindings/%2F/e/x/q/gone", "", 404, ""),
            ("GET", "bindings/%2F/e/x/z/q", "", 404, ""),
            ("DELETE", "bindings/%2F/e/x/e/y/~", "", 404, ""),
            ("DELETE", "bindings/%2F/e/x/e/y/k", "", 204, ""),
            ("DELETE", "exchanges/%2F/y?if-unused=true", "", 204, ""),
            ("DELETE", "exchanges/%2F/y", "", 404, ""),
            ("PUT", "policies/%2F/p", r#"{"pattern":"^q","definition":{"max-length":3},"apply-to":"queues"}"#, 201, ""),
            ("PUT", "policies/%2F/p", r#"{"pattern":"^q","definition":{"max-length":2}}"#, 204, ""),
            ("PUT", "policies/%2F/p", r#"{"pattern":"^q","definition":{"max-lengt":2}}"#, 400, "max-lengt"),
            (
                "PUT",
                "policies/%2F/p",
                r#"{"pattern":"^q","definition":{"consumer-timeout":315360000001}}"#,
                400,
                "{value_too_large,315360000001}",
            ),
            (
                "PUT",
                "queues/%2F/late",
                r#"{"durable":true,"arguments":{"x-consumer-timeout":315360000001}}"#,
                400,
                "{value_too_large,315360000001}",
            ),
            ("PUT", "policies/%2F/p", r#"{"pattern":"^q"}"#, 400, "definition"),
            ("PUT", "policies/gone/p", r#"{"pattern":"^q","definition":{"max-length":2}}"#, 404, ""),
            ("GET", "policies/%2F/p", "", 200, r#""apply-to":"all""#),
            ("GET", "queues/%2F/q", "", 200, r#""policy":"p""#),
            ("DELETE", "policies/%2F/p", "", 204, ""),
            ("DELETE", "policies/%2F/p", "", 404, ""),
            ("PUT", "operator-policies/%2F/p", r#"{"pattern":"","definition":{"max-length":3}}"#, 201, ""),
            ("GET", "operator-policies/%2F", "", 200, r#""max-length":3"#),
            ("DELETE", "operator-policies/%2F/p", "", 204, ""),
            ("DELETE", "queues/%2F/q/contents", "", 204, ""),
            ("DELETE", "queues/%2F/q?if-empty=true&if-unused=true", "", 204, ""),
            ("DELETE", "queues/%2F/q/contents", "", 404, ""),
            ("DELETE", "queues/%2F/q?if-empty=perhaps", "", 400, "if-empty"),
        ],
    );
}

#[test]
fn arguments_without_effect_are_taken_shown_and_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let old = r#"{"durable":true,"arguments":{"x-ha-policy":"all","x-queue-mode":"lazy","x-max-length":5}}"#;
    let fewer = r#"{"durable":true,"arguments":{"x-queue-mode":"lazy","x-max-length":5}}"#;
    let both = r#"{"durable":true,"arguments":{"x-max-priority":5,"x-delivery-limit":3}}"#;
    let typed = r#"{"durable":true,"arguments":{"x-queue-type":"classic","x-delivery-limit":3}}"#;
    check(
        &server,
        GUEST,
        &[
            ("PUT", "queues/%2F/old", old, 201, ""),
            ("PUT", "queues/%2F/old", old, 204, ""),
            ("PUT", "queues/%2F/old", fewer, 204, ""),
            ("PUT", "queues/%2F/older", old, 201, ""),
            ("PUT", "exchanges/%2F/x", r#"{"type":"direct","arguments":{"x-ha-policy":"all"}}"#, 201, ""),
            ("PUT", "queues/%2F/both", both, 201, ""),
            ("PUT", "queues/%2F/typed", typed, 400, "'x-delivery-limit' for queue 'typed'"),
            ("PUT", "queues/%2F/slip", r#"{"arguments":{"x-mesage-ttl":5}}"#, 400, "'x-mesage-ttl' for queue 'slip'"),
        ],
    );
    for (path, kept, idle) in [
        ("queues/%2F/old", 3, json!(["x-ha-policy", "x-queue-mode"])),
        ("queues/%2F/both", 2, json!([])),
        ("exchanges/%2F/x", 1, json!(["x-ha-policy"])),
    ] {
        let shown = shown(&server, &format!("/api/{path}"), GUEST);
        assert_eq!(shown["arguments_without_effect"], idle, "{path}");
        assert_eq!(shown["arguments"].as_object().unwrap().len(), kept, "{path}");
    }
    assert_eq!(shown(&server, "/api/queues/%2F/both", GUEST)["delivery_limit"], 3);
    let (_, said, _) = run(&mut hermod("queues", dir.path()));
    assert!(said.contains("without effect: old in /: x-ha-policy, x-queue-mode\n"), "{said}");
    server.signal("TERM");
    let (_, log) = server.wait();
    for argument in ["x-ha-policy", "x-queue-mode"] {
        let lines = log.iter().filter(|line| line.contains("has no effect") && line.contains(argument));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains("queue 'old'") && lines[0].contains("guest"), "{lines:?}");
    }
}

#[test]
fn a_binding_is_told_and_deleted_by_what_it_is_known_by() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(&server, GUEST, &[("PUT", "queues/%2F/a%2Fq", r#"{"durable":true}"#, 201, "")]);
    let headers = format!("{GUEST}{JSON}");
    for (document, location) in [
        (r#"{"routing_key":""}"#, "a%2Fq/%7E"),
        (r#"{"routing_key":"a/b~#"}"#, "a%2Fq/a%252Fb%257E%2523"),
        (r#"{"routing_key":"","arguments":{"b":"2","a":1}}"#, "a%2Fq/%7E9ZBtOQX8aKAR3mSpaeXcEw"),
        (r#"{"routing_key":"k","arguments":{"b":"2","a":1}}"#, "a%2Fq/k%7E9ZBtOQX8aKAR3mSpaeXcEw"),
    ] {
        let path = "/api/bindings/%2F/e/amq.headers/q/a%2Fq";
        let reply = server.send("POST", path, &headers, document);
        assert_eq!(reply.status, 201, "{}", reply.body);
        let told = reply.header("location");
        assert!(told.starts_with(location), "{document}: {told}");
        let rows = shown(&server, path, GUEST);
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        let one = format!("{path}/{}", told.rsplit('/').next().unwrap());
        assert_eq!(shown(&server, &one, GUEST), rows[0]);
        assert_eq!(server.ask("DELETE", &one, GUEST).0, 204);
        assert_eq!(shown(&server, path, GUEST), json!([]));
    }
}

/// Some clients put the `properties_key` into the path, and others the routing key.
#[test]
fn a_binding_is_found_by_its_key_whether_that_is_encoded_once_or_twice() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(&server, GUEST, &[("PUT", "queues/%2F/q", r#"{"durable":true}"#, 201, "")]);
    let (headers, path) = (format!("{GUEST}{JSON}"), "/api/bindings/%2F/e/amq.topic/q/q");
    for (document, keys) in [
        (r#"{"routing_key":"a.#"}"#, ["a.%23", "a.%2523"]),
        (r#"{"routing_key":"a/*:+%4"}"#, ["a%2F%2A%3A%2B%254", "a%252F%252A%253A%252B%25254"]),
        (r##"{"routing_key":"#"}"##, ["%23", "%2523"]),
        (
            r##"{"routing_key":"#","arguments":{"b":"2","a":1}}"##,
            ["%23~9ZBtOQX8aKAR3mSpaeXcEw", "%2523%7E9ZBtOQX8aKAR3mSpaeXcEw"],
        ),
    ] {
        for key in keys {
            assert_eq!(server.send("POST", path, &headers, document).status, 201, "{document}");
            let one = format!("{path}/{key}");
            assert_eq!(shown(&server, &one, GUEST), shown(&server, path, GUEST)[0], "{one}");
            assert_eq!(server.ask("DELETE", &one, GUEST).0, 204, "{one}");
            assert_eq!(shown(&server, path, GUEST), json!([]));
        }
    }
}

#[test]
fn global_parameters_and_the_name_of_the_cluster_are_kept_over_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--cluster-name=before"]);
    assert_eq!(shown(&server, "/api/global-parameters", GUEST), json!([{ "name": "cluster_name", "value": "before" }]));
    let value = r#"{"value":{"endpoints":["amqp://a"]}}"#;
    let (headers, long) = (format!("{GUEST}{JSON}"), format!(r#"{{"value":"{}"}}"#, "x".repeat(16 * 1024 - 1)));
    let refused = server.send("PUT", "/api/global-parameters/long", &headers, &long);
    assert!(refused.status == 400 && refused.body.contains("16385 bytes, 16384 are the most"), "{}", refused.body);
    check(
        &server,
        GUEST,
        &[
            ("PUT", "global-parameters/tool", value, 201, ""),
            ("PUT", "global-parameters/tool", value, 204, ""),
            ("PUT", "global-parameters/none", r#"{"value":null}"#, 201, ""),
            ("DELETE", "global-parameters/none", "", 204, ""),
            ("PUT", "cluster-name", r#"{"name":"orders"}"#, 204, ""),
        ],
    );
    let all = json!([
        { "name": "cluster_name", "value": "orders" },
        { "name": "tool", "value": { "endpoints": ["amqp://a"] } },
    ]);
    for round in ["before", "after"] {
        assert_eq!(shown(&server, "/api/global-parameters", GUEST), all, "{round}");
        assert_eq!(shown(&server, "/api/global-parameters/tool", GUEST), all[1], "{round}");
        assert_eq!(shown(&server, "/api/cluster-name", GUEST)["name"], "orders", "{round}");
        assert_eq!(shown(&server, "/api/overview", GUEST)["cluster_name"], "orders", "{round}");
        assert_eq!(shown(&server, "/api/definitions", GUEST)["global_parameters"], all, "{round}");
        assert!(server.get("/metrics").1.contains(r#"rabbitmq_cluster="orders""#), "{round}");
        if round == "before" {
            server.signal("KILL");
            server.wait();
            server = Server::start(dir.path(), &["--cluster-name=before"]);
        }
    }
    let exported = shown(&server, "/api/definitions", GUEST);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Server::start(elsewhere.path(), &[]);
    assert_eq!(other.send("POST", "/api/definitions", &headers, &exported.to_string()).status, 204);
    assert_eq!(shown(&other, "/api/global-parameters/tool", GUEST), all[1]);
    assert_ne!(shown(&other, "/api/cluster-name", GUEST)["name"], "orders");
}

#[test]
fn documents_methods_and_paths_that_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(
        &server,
        GUEST,
        &[
            ("PUT", "vhosts/v", "{", 400, "not understood"),
            ("PUT", "vhosts/v", "[]", 400, "must be an object"),
            ("PUT", "vhosts/v", r#"{"tags":[],"tags":[]}"#, 400, "duplicate field `tags`"),
            (
                "PUT",
                "parameters/federation-upstream/%2F/s",
                r#"{"value":{}}"#,
                400,
                "component 'federation-upstream' of parameter 's' is not built",
            ),
            ("PUT", "parameters/shovel/%2F/s", r#"{"value":{}}"#, 400, "src-uri"),
            ("DELETE", "parameters/shovel/%2F/s", "", 404, ""),
            ("GET", "parameters", "", 200, "[]"),
            ("PUT", "global-parameters/mqtt_default_vhosts", r#"{"value":{}}"#, 400, "VHOST:USER"),
            ("PUT", "global-parameters/internal_cluster_id", r#"{"value":"x"}"#, 400, "RabbitMQ's own use"),
            ("PUT", "global-parameters/cluster_name", r#"{"value":1}"#, 400, "is a text"),
            ("DELETE", "global-parameters/cluster_name", "", 400, "always has a name"),
            ("DELETE", "global-parameters/g", "", 404, ""),
            ("PUT", "cluster-name", r#"{"name":""}"#, 400, "1 to 255 bytes"),
            ("POST", "queues/%2F/q", "{}", 405, "method_not_allowed"),
            ("PUT", "overview", "{}", 405, ""),
            ("GET", "dreams", "", 404, ""),
            ("GET", "queues/%2F?page=0", "", 400, "page is a whole number"),
        ],
    );
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    for (headers, status) in [
        (format!("{GUEST}{form}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{GUEST}{form}Origin: http://elsewhere.example\r\n"), 403),
        (format!("{GUEST}{form}Origin: null\r\n"), 403),
        (format!("{GUEST}{form}"), 201),
        (GUEST.to_owned(), 204),
        (format!("{GUEST}{form}Sec-Fetch-Site: same-origin\r\n"), 204),
        (format!("{GUEST}{JSON}"), 204),
    ] {
        assert_eq!(server.send("PUT", "/api/vhosts/v", &headers, "{}").status, status, "{headers}");
    }
    let marked = format!("{GUEST}{form}");
    assert_eq!(server.send("PUT", "/api/vhosts/v", &marked, "\u{feff}{}").status, 204);
    assert_eq!(server.send("PUT", "/api/vhosts/v", &marked, "description=x").status, 400);
    let long = format!(r#"{{"description":"{}"}}"#, "x".repeat((4 << 20) - 17));
    assert_eq!(long.len(), (4 << 20) + 1);
    let reply = server.send("PUT", "/api/vhosts/v", &format!("{GUEST}{JSON}"), &long);
    assert_eq!(reply.status, 413, "{}", reply.body);
    assert_eq!(shown(&server, "/api/vhosts/v", GUEST)["description"], "");
}

#[test]
fn definitions_go_in_and_out_whole_and_by_vhost() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let headers = format!("{GUEST}{JSON}");
    let document = include_str!("../../data/definitions.json");
    assert_eq!(server.send("POST", "/api/definitions", &headers, document).status, 204);
    let mut exported = shown(&server, "/api/definitions/shop", GUEST);
    assert_eq!((&exported["users"], &exported["vhosts"]), (&Value::Null, &Value::Null));
    assert_eq!(exported["queues"][0]["vhost"], Value::Null);
    check(&server, GUEST, &[("PUT", "vhosts/other", "", 201, "")]);
    assert_eq!(server.send("POST", "/api/definitions/other", &headers, &exported.to_string()).status, 204);
    exported["original_vhost_name"] = "other".into();
    assert_eq!(shown(&server, "/api/definitions/other", GUEST), exported);
    let reply = server.send("POST", "/api/definitions/other", &headers, document);
    assert!(reply.status == 400 && reply.body.contains("users are not in one vhost"), "{}", reply.body);
    let reply = server.send("POST", "/api/definitions/gone", &headers, document);
    assert_eq!(reply.status, 404);
    let told = server.until_logged("definitions imported");
    assert!(told.contains("guest"), "{told}");
}

/// What each tag allows. The users have all permissions in the vhost `/` and in no other.
#[test]
fn tags_decide_who_may_do_what() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(&server, GUEST, &[("PUT", "vhosts/v", "", 201, ""), ("PUT", "users/bob", r#"{"tags":""}"#, 201, "")]);
    let policy = r#"{"pattern":"^q","definition":{"max-length":3}}"#;
    let rights = r#"{"configure":"","write":"","read":""}"#;
    // Status for management, policymaker, monitoring, administrator.
    let table: &[(&str, &str, &str, [u16; 4])] = &[
        ("PUT", "queues/%2F/q", "{}", [204; 4]),
        ("PUT", "queues/v/q", "{}", [401; 4]),
        ("GET", "queues/%2F/q", "", [200; 4]),
        ("GET", "exchanges/v/amq.topic", "", [401, 401, 200, 200]),
        ("PUT", "policies/%2F/p", policy, [401, 204, 401, 204]),
        ("PUT", "policies/v/p", policy, [401; 4]),
        ("PUT", "operator-policies/%2F/p", policy, [401, 401, 401, 204]),
        ("PUT", "users/bob", r#"{"tags":""}"#, [401, 401, 401, 204]),
        ("GET", "users", "", [401, 401, 401, 200]),
        ("PUT", "vhosts/v", "{}", [401, 401, 401, 204]),
        ("PUT", "permissions/%2F/bob", rights, [401, 401, 401, 204]),
        ("PUT", "vhost-limits/%2F/max-queues", r#"{"value":50}"#, [401, 401, 401, 204]),
        ("PUT", "user-limits/bob/max-channels", r#"{"value":50}"#, [401, 401, 401, 204]),
        ("GET", "definitions", "", [401, 401, 401, 200]),
        ("POST", "definitions", "{}", [401, 401, 401, 204]),
        ("GET", "nodes", "", [401, 401, 200, 200]),
        ("GET", "channels", "", [200; 4]),
        ("GET", "connections/username/guest", "", [401, 401, 200, 200]),
        ("DELETE", "connections/username/guest", "", [401, 401, 401, 204]),
        ("GET", "health/checks/alarms", "", [200; 4]),
        ("GET", "aliveness-test/%2F", "", [200; 4]),
        ("GET", "aliveness-test/v", "", [401; 4]),
        ("POST", "rebalance/queues", "", [401, 401, 401, 204]),
        ("PUT", "feature-flags/quorum_queue/enable", "", [401, 401, 401, 204]),
    ];
    check(
        &server,
        GUEST,
        &[
            ("PUT", "queues/%2F/q", "{}", 201, ""),
            ("PUT", "policies/%2F/p", policy, 201, ""),
            ("PUT", "operator-policies/%2F/p", policy, 201, ""),
            ("PUT", "permissions/%2F/bob", rights, 201, ""),
            ("PUT", "users/alice", r#"{"password":"one","tags":""}"#, 201, ""),
            ("PUT", "permissions/%2F/alice", r#"{"configure":".*","write":".*","read":".*"}"#, 201, ""),
        ],
    );
    for (column, tag) in ["management", "policymaker", "monitoring", "administrator"].into_iter().enumerate() {
        let (code, _, _) = run(hermod("users", dir.path()).args(["set-tags", "alice", tag]));
        assert_eq!(code, 0);
        for (method, path, document, expected) in table {
            let headers = format!("{}{}", super::ALICE, if document.is_empty() { "" } else { JSON });
            let reply = server.send(method, &format!("/api/{path}"), &headers, document);
            assert_eq!(reply.status, expected[column], "{tag}: {method} {path}: {}", reply.body);
        }
    }
}

/// A policy must not be a second way to move messages: it needs the same permissions of its author
/// as a declaration.
#[test]
fn a_policymaker_takes_no_messages_that_it_may_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let low = r#"{"configure":"^low","write":"^low","read":"^low"}"#;
    check(
        &server,
        GUEST,
        &[
            ("PUT", "users/alice", r#"{"password":"one","tags":"policymaker"}"#, 201, ""),
            ("PUT", "permissions/%2F/alice", low, 201, ""),
            ("PUT", "queues/%2F/payroll", "{}", 201, ""),
        ],
    );
    let take = r#"{"pattern":"","definition":{"dead-letter-exchange":"low","message-ttl":0}}"#;
    let take_low = r#"{"pattern":"^low","definition":{"dead-letter-exchange":"low"}}"#;
    let give = r#"{"pattern":"^low","definition":{"dead-letter-exchange":"theirs"}}"#;
    check(
        &server,
        super::ALICE,
        &[
            ("PUT", "policies/%2F/p", take, 401, "policy 'p': read access to queue 'payroll' in vhost '/' refused"),
            ("PUT", "policies/%2F/p", give, 401, "policy 'p': write access to exchange 'theirs' in vhost '/' refused"),
            ("PUT", "policies/%2F/p", take_low, 201, ""),
        ],
    );
    check(&server, GUEST, &[("PUT", "policies/%2F/p", take, 204, "")]);
}

/// To a user that may not enter it, a vhost that exists answers every request like one that does
/// not. So do its objects.
#[test]
fn nothing_tells_what_there_is_in_a_vhost_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let policy = r#"{"pattern":"^q","definition":{"max-length":3}}"#;
    check(
        &server,
        GUEST,
        &[
            ("PUT", "users/alice", r#"{"password":"one","tags":"policymaker"}"#, 201, ""),
            ("PUT", "permissions/%2F/alice", r#"{"configure":".*","write":".*","read":".*"}"#, 201, ""),
            ("PUT", "vhosts/there", "", 201, ""),
            ("PUT", "queues/there/q", "{}", 201, ""),
            ("PUT", "exchanges/there/x", "{}", 201, ""),
            ("POST", "bindings/there/e/x/q/q", "{}", 201, ""),
            ("PUT", "policies/there/p", policy, 201, ""),
        ],
    );
    let get = r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}"#;
    let publish = r#"{"properties":{},"routing_key":"q","payload":"m","payload_encoding":"string"}"#;
    let table = [
        ("GET", "vhosts/V", ""),
        ("GET", "vhosts/V/connections", ""),
        ("GET", "vhosts/V/channels", ""),
        ("GET", "vhosts/V/permissions", ""),
        ("GET", "queues/V", ""),
        ("GET", "queues/V/Q", ""),
        ("GET", "queues/V/Q/bindings", ""),
        ("GET", "exchanges/V", ""),
        ("GET", "exchanges/V/x", ""),
        ("GET", "exchanges/V/x/bindings/source", ""),
        ("GET", "bindings/V", ""),
        ("GET", "bindings/V/e/x/q/Q", ""),
        ("GET", "bindings/V/e/x/q/Q/~", ""),
        ("GET", "consumers/V", ""),
        ("GET", "all-consumers/V", ""),
        ("GET", "policies/V", ""),
        ("GET", "policies/V/p", ""),
        ("GET", "operator-policies/V/p", ""),
        ("GET", "vhost-limits/V", ""),
        ("GET", "permissions/V/alice", ""),
        ("GET", "definitions/V", ""),
        ("GET", "aliveness-test/V", ""),
        ("PUT", "vhosts/V", "{}"),
        ("PUT", "queues/V/Q", "{}"),
        ("PUT", "exchanges/V/x", "{}"),
        ("PUT", "policies/V/p", policy),
        ("PUT", "vhost-limits/V/max-queues", r#"{"value":5}"#),
        ("POST", "queues/V/Q/get", get),
        ("POST", "exchanges/V/x/publish", publish),
        ("POST", "bindings/V/e/x/q/Q", "{}"),
        ("DELETE", "bindings/V/e/x/q/Q/~", ""),
        ("DELETE", "queues/V/Q/contents", ""),
        ("DELETE", "queues/V/Q", ""),
        ("DELETE", "exchanges/V/x", ""),
        ("DELETE", "policies/V/p", ""),
        ("DELETE", "vhosts/V", ""),
    ];
    for (method, path, document) in table {
        let headers = format!("{}{}", super::ALICE, if document.is_empty() { "" } else { JSON });
        let ask = |vhost: &str, object: &str| {
            let path = path.replace('Q', object).replace('V', vhost);
            let reply = server.send(method, &format!("/api/{path}"), &headers, document);
            (reply.status, reply.body.replace(vhost, "V"))
        };
        let there = ask("there", "q");
        assert_eq!(there.0, 401, "{method} {path}: {}", there.1);
        assert_eq!(there, ask("absent", "q"), "{method} {path}");
        assert_eq!(there, ask("there", "none"), "{method} {path}");
    }
}

#[test]
fn a_task_is_planned_started_and_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for body in ["one", "two"] {
        client.publish("orders", body);
    }
    client.publish("old", "before");
    let post = |document: &str| {
        let reply = server.send("POST", "/api/tasks/%2F", GUEST, document);
        (reply.status, reply.body)
    };
    let plan = r#"{"kind":"move","queue":"orders","target":{"queue":"old"},"dry_run":true}"#;
    let planned = r#"{"taken":2,"alive":0,"homeless":0,"refused":0,"complete":true}"#;
    assert_eq!(post(plan), (200, planned.to_owned()));
    let (status, body) = post(r#"{"kind":"move","queue":"orders","target":{"queue":"old"},"rate":1}"#);
    let name = serde_json::from_str::<Value>(&body).unwrap()["name"].as_str().unwrap().to_owned();
    let path = format!("/api/tasks/%2F/{name}");
    assert_eq!((status, &shown(&server, &path, GUEST)["state"]), (202, &json!("running")));
    assert_eq!(server.ask("DELETE", &path, GUEST).0, 204);
    let task = shown(&server, &path, GUEST);
    assert_eq!(
        (&task["state"], &task["target"], &task["author"]),
        (&json!("cancelled"), &json!({"queue": "old"}), &json!("guest"))
    );
    assert_eq!(shown(&server, "/api/tasks", GUEST), json!([task]));
    assert_eq!(shown(&server, "/api/tasks/%2F", GUEST), json!([task]));
    assert_eq!(server.ask("DELETE", &path, GUEST).0, 400);
    assert_eq!(server.ask("GET", "/api/tasks/%2F/none", GUEST).0, 404);
    let (status, body) = post(r#"{"kind":"move","queue":"orders","target":{"queue":"old"},"speed":1}"#);
    assert!(status == 400 && body.contains("speed"), "{status} {body}");
    // Who may not enter the vhost learns nothing of its tasks.
    let add = |words: &[&str]| assert_eq!(run(hermod("users", dir.path()).args(words)).0, 0);
    add(&["add", "alice", "--password", "one", "--tags", "management"]);
    let alice = "Authorization: Basic YWxpY2U6b25l\r\n";
    assert_eq!(server.ask("GET", &path, alice).0, 401);
    assert_eq!(shown(&server, "/api/tasks", alice), json!([]));
    assert_eq!(server.send("POST", "/api/tasks/%2F", alice, plan).status, 401);
}

#[test]
fn a_task_that_keeps_messages_is_undone_by_its_author_or_an_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("orders", "one");
    let set = |verb: &str, words: &[&str]| assert_eq!(run(hermod(verb, dir.path()).args(words)).0, 0, "{words:?}");
    for name in ["alice", "bob"] {
        set("users", &["add", name, "--password", "one", "--tags", "management"]);
        set("permissions", &["set", name, "^$", "^$", "orders"]);
    }
    let (alice, bob) = ("Authorization: Basic YWxpY2U6b25l\r\n", "Authorization: Basic Ym9iOm9uZQ==\r\n");
    let post = |path: &str, user: &str, document: &str| {
        let reply = server.send("POST", path, user, document);
        (reply.status, reply.body)
    };
    let purge = r#"{"kind":"purge","queue":"orders","keep_ms":60000"#;
    let plan = post("/api/tasks/%2F", alice, &format!(r#"{purge},"dry_run":true}}"#));
    assert!(plan.0 == 200 && plan.1.contains(r#""taken":1"#), "{plan:?}");
    let delete = post("/api/tasks/%2F", alice, r#"{"kind":"delete-queue","queue":"orders"}"#);
    assert!(delete.0 == 401 && delete.1.contains("configure access to queue 'orders'"), "{delete:?}");
    let (status, begun) = post("/api/tasks/%2F", alice, &format!("{purge}}}"));
    assert_eq!(status, 202, "{begun}");
    let name = serde_json::from_str::<Value>(&begun).unwrap()["name"].as_str().unwrap().to_owned();
    let path = format!("/api/tasks/%2F/{name}");
    until("it has ended", || shown(&server, &path, GUEST)["state"] == "done");
    let ready = || shown(&server, "/api/queues/%2F/orders", GUEST)["messages_ready"].clone();
    assert_eq!((&shown(&server, &path, GUEST)["taken"], ready()), (&json!(1), json!(0)));
    let refused = post(&format!("{path}/undo"), bob, "");
    assert!(refused.0 == 401 && refused.1.contains("is of user 'alice'"), "{refused:?}");
    assert_eq!(post(&format!("{path}/undo"), alice, "").0, 202);
    until("it is back", || ready() == 1);
    // Its own queue is not there twice.
    until("the queue that kept it is gone", || post(&format!("{path}/undo"), GUEST, "").0 == 404);
}
