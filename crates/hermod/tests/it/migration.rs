//! Documents that RabbitMQ 3.10, 4.0 and 4.3 wrote, by its command line and over HTTP, are imported
//! completely. A refused document changes nothing, whatever the reason.

use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

const HEADERS: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Type: application/json\r\n";
/// All of them declare the same objects.
const OF_RABBITMQ: [(&str, &str); 5] = [
    ("3.10, command", include_str!("../data/rabbitmq-3.10-command.json")),
    ("3.10, http", include_str!("../data/rabbitmq-3.10-http.json")),
    ("4.0, http", include_str!("../data/rabbitmq-4.0-http.json")),
    ("4.3, command", include_str!("../data/rabbitmq-4.3-command.json")),
    ("4.3, http", include_str!("../data/rabbitmq-4.3-http.json")),
];
const OF_ONE_VHOST: &str = include_str!("../data/rabbitmq-4.0-vhost.json");

fn import(dir: &Path, document: &str, flags: &[&str]) -> (i32, String) {
    let file = dir.join("import.json");
    std::fs::write(&file, document).unwrap();
    let (code, stdout, stderr) = run(hermod("import", dir).arg(&file).args(flags));
    (code, stdout + &stderr)
}

fn export(dir: &Path) -> Value {
    serde_json::from_str(&run(&mut hermod("export", dir)).1).unwrap()
}

fn authenticates(dir: &Path, user: &str, password: &str) -> bool {
    run(hermod("users", dir).args(["authenticate", user, "--password", password])).0 == 0
}

/// The entry of a list with these values.
fn entry<'a>(document: &'a Value, list: &str, wanted: &[(&str, &str)]) -> &'a Value {
    let rows = document[list].as_array().unwrap();
    let fits = |row: &&Value| wanted.iter().all(|(field, value)| row[*field] == *value);
    rows.iter().find(fits).unwrap_or_else(|| panic!("no {wanted:?} in {list}: {rows:?}"))
}

#[test]
fn what_rabbitmq_wrote_comes_over() {
    for (version, document) in OF_RABBITMQ {
        let dir = tempfile::tempdir().unwrap();
        let _server = Server::start(dir.path(), &[]);
        let before = export(dir.path());
        let (code, said) = import(dir.path(), document, &["--skip-unsupported", "--dry-run"]);
        assert!(code == 0 && said.ends_with("would be taken over; nothing has changed\n"), "{version}: {said}");
        assert_eq!(export(dir.path()), before, "{version}");
        let (code, said) = import(dir.path(), document, &["--skip-unsupported"]);
        assert_eq!(code, 0, "{version}: {said}");
        let skipped: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("skipped: ")).collect();
        // Bindings to an internal exchange that the document lacks.
        assert!(skipped.iter().all(|line| line.contains("shop.dead")), "{version}: {said}");
        assert!(
            said.contains("note: 1 quorum queue: ") || said.contains("note: 2 quorum queues: "),
            "{version}: {said}"
        );
        let is = export(dir.path());
        assert_eq!(entry(&is, "users", &[("name", "ann")])["tags"], json!(["monitoring", "policymaker"]), "{version}");
        assert_eq!(entry(&is, "users", &[("name", "ann")])["limits"], json!({ "max-connections": 50 }), "{version}");
        assert!(authenticates(dir.path(), "ann", "test12") && authenticates(dir.path(), "hash", "test12"), "{version}");
        assert!(!authenticates(dir.path(), "nopass", ""), "{version}");
        let rights = entry(&is, "permissions", &[("user", "ann"), ("vhost", "shop")]);
        assert_eq!(rights["configure"], "^(?!amq\\.).*", "{version}");
        assert_eq!(entry(&is, "policies", &[("name", "short")])["pattern"], "^(?!amq\\.).*", "{version}");
        let topics = entry(&is, "topic_permissions", &[("user", "ann"), ("exchange", "")]);
        assert_eq!((&topics["write"], &topics["vhost"]), (&json!(".*"), &json!("shop")), "{version}");
        let limits = entry(&is, "parameters", &[("component", "vhost-limits"), ("vhost", "shop")]);
        assert_eq!(limits["value"], json!({ "max-connections": 60 }), "{version}");
        assert!(!entry(&is, "global_parameters", &[("name", "custom")])["value"].is_null(), "{version}");
        let bounds =
            entry(&is, "parameters", &[("component", "operator_policy"), ("vhost", "shop"), ("name", "bound")]);
        let said = json!({ "pattern": "^shop\\.", "apply-to": "queues", "priority": 0,
                           "definition": { "expires": 600_000, "max-length": 5000 } });
        assert_eq!(bounds["value"], said, "{version}");
        let orders = &entry(&is, "queues", &[("name", "shop.orders")])["arguments"];
        assert_eq!((&orders["x-delivery-limit"], &orders["x-queue-type"]), (&json!(5), &json!("quorum")), "{version}");
        let of_headers =
            &entry(&is, "bindings", &[("source", "shop.heads"), ("destination", "shop.mail")])["arguments"];
        assert_eq!(*of_headers, json!({ "x-match": "any", "a": 1, "b": true, "c": 1.5, "d": "x" }), "{version}");
        // Documents of 3.10 over HTTP have only the names of vhosts.
        if version != "3.10, http" {
            let shop = entry(&is, "vhosts", &[("name", "shop")]);
            assert_eq!((&shop["tags"], &shop["description"]), (&json!(["production", "eu"]), &json!("the shop")));
        }
        let kind = &entry(&is, "vhosts", &[("name", "shop")])["default_queue_type"];
        assert_eq!(*kind, if version.starts_with('4') { "quorum" } else { "classic" }, "{version}");
        // It imports its own export unchanged, and then nothing changes.
        let (code, said) = import(dir.path(), &is.to_string(), &[]);
        assert_eq!((code, export(dir.path())), (0, is), "{version}: {said}");
    }
}

/// As `rabbitmqctl export_definitions` of 3.12 writes it. The mirroring arguments are old and have
/// had no effect for long.
#[test]
fn arguments_of_mirrors_come_over_and_are_told_to_have_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let old = json!({ "x-ha-policy": "nodes", "x-ha-policy-params": ["rabbit@one"], "x-queue-mode": "lazy" });
    let queue = json!({ "name": "old", "vhost": "/", "durable": true, "auto_delete": false, "arguments": old });
    let mirrored = json!({ "x-ha-policy": "all" });
    let exchange = json!({ "name": "x", "vhost": "/", "type": "fanout", "durable": true, "auto_delete": false,
                           "internal": false, "arguments": mirrored });
    let document = json!({ "rabbit_version": "3.12.14", "vhosts": [{ "name": "/", "default_queue_type": "classic" }],
                           "queues": [queue], "exchanges": [exchange] });
    let (code, said) = import(dir.path(), &document.to_string(), &[]);
    assert_eq!(code, 0, "{said}");
    let is = export(dir.path());
    assert_eq!(entry(&is, "queues", &[("name", "old")])["arguments"], old);
    assert_eq!(entry(&is, "exchanges", &[("name", "x")])["arguments"], mirrored);
    // It imports its own export unchanged.
    let (code, said) = import(dir.path(), &is.to_string(), &[]);
    assert_eq!((code, export(dir.path())), (0, is), "{said}");
    let (_, listed, _) = run(&mut hermod("queues", dir.path()));
    let names = "without effect: old in /: x-ha-policy, x-ha-policy-params, x-queue-mode\n";
    assert!(listed.contains(names), "{listed}");
    let (_, listed, _) = run(&mut hermod("exchanges", dir.path()));
    assert!(listed.lines().next().unwrap().contains("arguments_without_effect"), "{listed}");
    server.until_logged("has no effect");
}

/// An accepted argument stays, whatever the setting is after a restart.
#[test]
fn arguments_that_nobody_knows_come_over_where_that_is_set_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let slip = json!({ "x-mesage-ttl": 5 });
    let queue = json!({ "name": "q", "vhost": "/", "durable": true, "auto_delete": false, "arguments": slip });
    let exchange = json!({ "name": "x", "vhost": "/", "type": "fanout", "durable": true, "auto_delete": false,
                           "internal": false, "arguments": slip });
    let document = json!({ "queues": [queue], "exchanges": [exchange] }).to_string();
    let server = Server::start(dir.path(), &[]);
    let (code, said) = import(dir.path(), &document, &[]);
    let why = "unknown; arguments of the application must not begin with x-, unless compat.unknown_arguments is accept";
    let both = ["queue 'q'", "exchange 'x'"];
    let told = both.map(|what| said.contains(&format!("invalid arg 'x-mesage-ttl' for {what} in vhost '/': {why}")));
    assert!(code != 0 && told == [true; 2], "{said}");
    drop(server);
    let server = Server::start(dir.path(), &["--compat-unknown-arguments=accept"]);
    let (code, said) = import(dir.path(), &document, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(server.until_logged("has no effect").contains("x-mesage-ttl"));
    drop(server);
    let _server = Server::start(dir.path(), &[]);
    let is = export(dir.path());
    assert_eq!(entry(&is, "queues", &[("name", "q")])["arguments"], slip);
    assert_eq!(entry(&is, "exchanges", &[("name", "x")])["arguments"], slip);
    let (_, listed, _) = run(&mut hermod("queues", dir.path()));
    assert!(listed.contains("without effect: q in /: x-mesage-ttl\n"), "{listed}");
}

#[test]
fn the_document_of_one_vhost_goes_into_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.send("PUT", "/api/vhosts/copy", HEADERS, "").status, 201);
    let (code, said) = import(dir.path(), OF_ONE_VHOST, &["--skip-unsupported"]);
    assert!(code == 73 && said.contains("say into which vhost"), "{said}");
    let (code, said) = import(dir.path(), OF_ONE_VHOST, &["--skip-unsupported", "--vhost", "gone"]);
    assert!(code == 73 && said.contains("vhost 'gone' does not exist"), "{said}");
    let (code, said) = import(dir.path(), OF_ONE_VHOST, &["--skip-unsupported", "--vhost", "copy"]);
    assert_eq!(code, 0, "{said}");
    let is = export(dir.path());
    let copy = entry(&is, "vhosts", &[("name", "copy")]);
    assert_eq!((&copy["tags"], &copy["default_queue_type"]), (&json!(["production", "eu"]), &json!("quorum")));
    assert_eq!(entry(&is, "queues", &[("name", "shop.orders")])["vhost"], "copy");
    assert_eq!(entry(&is, "parameters", &[("name", "bound")])["vhost"], "copy");
    assert_eq!(entry(&is, "parameters", &[("name", "limits")])["value"], json!({ "max-connections": 60 }));
}

/// RabbitMQ refuses a document because of a hash that it can't read, and ignores fields that it
/// does not know.
#[test]
fn what_rabbitmq_cannot_read_has_a_field_of_its_own() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let _servers = dirs.each_ref().map(|dir| Server::start(dir.path(), &[]));
    let [first, second] = dirs.each_ref().map(|dir| dir.path());
    let document = r#"{"users":[{"name":"u","password":"old","tags":"a, b"}]}"#;
    assert_eq!(import(first, document, &[]), (0, "1 definitions taken over\n".to_owned()));
    let is = export(first);
    let user = entry(&is, "users", &[("name", "u")]);
    assert_eq!(
        (&user["password_hash"], &user["hashing_algorithm"]),
        (&json!(""), &json!("rabbit_password_hashing_sha256"))
    );
    assert!(user["hermod-password-hash"].as_str().unwrap().starts_with("$argon2id$"), "{user}");
    assert_eq!(user["tags"], json!(["a", "b"]));
    assert_eq!(import(second, &is.to_string(), &[]).0, 0);
    assert!(authenticates(second, "u", "old") && !authenticates(second, "u", "new"));
    // As earlier versions wrote documents.
    let hash = user["hermod-password-hash"].as_str().unwrap();
    let older =
        json!({ "users": [{ "name": "v", "password_hash": hash, "hashing_algorithm": "argon2id", "tags": [] }] });
    assert_eq!(import(second, &older.to_string(), &[]).0, 0);
    assert!(authenticates(second, "v", "old"));
}

/// RabbitMQ ignores the field of the subscription, and has the queue with its bindings.
#[test]
fn a_subscription_comes_over_with_its_queue() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let servers = dirs.each_ref().map(|dir| Server::start(dir.path(), &[]));
    let [first, second] = dirs.each_ref().map(|dir| dir.path());
    let name = "stomp-subscription.1.amq.topic.a.*";
    let subscribe = |server| {
        let mut client = Stomp::connect(server);
        client.send("SUBSCRIBE\nid:1\ndestination:/topic/a.*\ndurable:true\nselector:n = 1\nreceipt:r\n\n");
        assert!(client.frame().starts_with("RECEIPT\n"));
    };
    subscribe(&servers[0]);
    let is = export(first);
    let subscription =
        json!({ "client": null, "name": name, "shared": true, "selector": "convert_string_expressions:n = 1" });
    assert_eq!(entry(&is, "queues", &[("name", name)])["hermod-subscription"], subscription);
    assert_eq!(import(second, &is.to_string(), &[]).0, 0);
    let again = export(second);
    assert_eq!((&again["queues"], &again["bindings"]), (&is["queues"], &is["bindings"]));
    // Its client goes on there.
    subscribe(&servers[1]);
    let (_, listed, _) = run(&mut hermod("queues", second));
    assert!(listed.contains(&format!("subscription: {name} in /: {name}, shared\n")), "{listed}");
    let wrong = r#"{"queues":[{"name":"q","vhost":"/","hermod-subscription":{"shared":"yes"}}]}"#;
    let (code, said) = import(second, wrong, &[]);
    assert!(code != 0 && said.contains("queues[0].hermod-subscription.name: missing"), "{said}");
}

#[test]
fn of_users_nothing_is_lost_that_a_document_does_not_say() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(dir.path(), &[]);
    let dir = dir.path();
    let first = r#"{"users":[{"name":"u","password":"old","tags":["monitoring"],"limits":{"max-channels":7}}]}"#;
    assert_eq!(import(dir, first, &[]).0, 0);
    let kept = export(dir);
    // Importing the same password again keeps its hash.
    assert_eq!((import(dir, first, &[]).0, export(dir)), (0, kept));
    let foreign = r#"{"users":[{"name":"u","password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbY=","hashing_algorithm":"rabbit_password_hashing_md5"}]}"#;
    let (code, said) = import(dir, foreign, &["--skip-unsupported"]);
    assert!(code == 0 && said.starts_with("skipped: password of user 'u'"), "{said}");
    let user = export(dir);
    let user = entry(&user, "users", &[("name", "u")]);
    assert!(authenticates(dir, "u", "old"));
    assert_eq!((&user["tags"], &user["limits"]), (&json!(["monitoring"]), &json!({ "max-channels": 7 })));
    let null = r#"{"users":[{"name":"u","password_hash":"","hashing_algorithm":null,"tags":"","limits":{}}]}"#;
    let (code, said) = import(dir, null, &[]);
    assert!(code == 0 && said.starts_with("note: user 'u' has no password any more"), "{said}");
    assert!(!authenticates(dir, "u", "old"));
}

#[test]
fn a_refused_document_has_changed_nothing_whatever_it_was_refused_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let vhost_limits = |value: Value| json!({ "parameters": [{ "component": "vhost-limits", "vhost": "new", "name": "limits", "value": value }] });
    let users = |user: Value| json!({ "users": [user] });
    let policies = |policy: Value| json!({ "policies": [policy] });
    let long = "x".repeat(300);
    let right = |exchange: &str, write: &str| json!({ "topic_permissions": [{ "user": "guest", "vhost": "new", "exchange": exchange, "write": write, "read": "" }] });
    let limit = "parameters[0].value.max-connections: expected a whole number, not";
    let cases = [
        (vhost_limits(json!({ "max-connections": "60" })), format!("{limit} \"60\"")),
        (vhost_limits(json!({ "max-connections": 1.5 })), format!("{limit} 1.5")),
        (vhost_limits(json!({ "max-connections": [1] })), format!("{limit} a list")),
        (vhost_limits(json!({ "max-connections": null })), format!("{limit} null")),
        (vhost_limits(json!({ "max-conections": 6 })), "parameters[0].value.max-conections: no limit".to_owned()),
        (vhost_limits(json!("none")), "parameters[0].value: expected an object".to_owned()),
        (users(json!({ "name": "u", "tags": 7 })), "users[0].tags: expected a list of texts".to_owned()),
        (users(json!({ "name": "u", "password": 7 })), "users[0].password: expected a text, not 7".to_owned()),
        (
            users(json!({ "name": "u", "password": "a", "password_hash": "b" })),
            "users[0].password: there is a".to_owned(),
        ),
        (
            users(json!({ "name": "u", "password": "x".repeat(2000) })),
            "password of user 'u': the password is longer".to_owned(),
        ),
        (users(json!({ "name": "u", "limits": { "max-channels": "3" } })), "users[0].limits.max-channels".to_owned()),
        (users(json!({ "name": "u", "nick": "v" })), "users[0].nick: Hermod has no meaning for this field".to_owned()),
        (users(json!({ "tags": [] })), "users[0].name: missing".to_owned()),
        (right(&long, ""), "the exchange is longer than 255 bytes".to_owned()),
        (right("x", "("), "rights of user 'guest' on topics of exchange 'x'".to_owned()),
        (
            policies(json!({ "vhost": "new", "name": long, "pattern": "", "definition": { "max-length": 1 } })),
            "the name of a policy has 1 to 255 bytes".to_owned(),
        ),
        (
            policies(
                json!({ "vhost": "new", "name": "p", "pattern": "", "definition": { "max-length": 1 }, "priority": "1" }),
            ),
            "policies[0].priority: expected a whole number".to_owned(),
        ),
        (json!({ "vhosts": [{ "name": "other", "metadata": { "tags": 7 } }] }), "vhosts[1].metadata.tags".to_owned()),
        (
            json!({ "queues": [{ "name": "q", "vhost": "new", "durable": "true" }] }),
            "queues[0].durable: expected true".to_owned(),
        ),
        (
            json!({ "bindings": [{ "source": "amq.topic", "vhost": "new", "destination": "gone", "destination_type": "queue",
                                "routing_key": "" }] }),
            "there is no queue 'gone'".to_owned(),
        ),
        (json!({ "dreams": [] }), "dreams: Hermod has no meaning for this field".to_owned()),
    ];
    let before = export(dir.path());
    for (mut document, expected) in cases {
        // Definitions that could be imported come first.
        let lists = document.as_object_mut().unwrap();
        let (vhosts, users) = (lists.entry("vhosts").or_insert_with(|| json!([])), json!({ "name": "new" }));
        vhosts.as_array_mut().unwrap().insert(0, users);
        let users = lists.entry("users").or_insert_with(|| json!([]));
        users.as_array_mut().unwrap().push(json!({ "name": "eve", "password": "x", "tags": "administrator" }));
        let reply = server.send("POST", "/api/definitions", HEADERS, &document.to_string());
        let reason = serde_json::from_str::<Value>(&reply.body).unwrap()["reason"].as_str().unwrap().to_owned();
        assert!(reply.status == 400 && reason.contains(&expected), "{expected}: {} {reason}", reply.status);
        let (code, said) = import(dir.path(), &document.to_string(), &[]);
        assert!(code == 73 && said.contains(&expected), "{expected}: {said}");
        assert!(said.starts_with("hermod: nothing was imported"), "{said}");
        assert_eq!(export(dir.path()), before, "{expected}");
    }
}

#[test]
fn forms_of_documents_that_rabbitmq_takes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let operators = json!({ "component": "operator_policy", "vhost": "/", "name": "o",
                            "value": { "pattern": "^q", "definition": { "max-length": 5 }, "priority": 1 } });
    let documents = [
        "\u{feff}{\"vhosts\":[{\"name\":\"marked\"}]}".to_owned(),
        r#"{"vhosts":null,"users":[]}"#.to_owned(),
        r#"{"vhosts":[{"name":"tagged","metadata":{"description":"m","tags":["x"]}}]}"#.to_owned(),
        r#"{"policies":[{"vhost":"/","name":"p","pattern":"^q","definition":{"max-length":5}}]}"#.to_owned(),
        r#"{"queues":[{"name":"q","vhost":"/","arguments":{}}],"exchanges":[{"name":"e","vhost":"/","type":"topic"}]}"#
            .to_owned(),
        r#"{"exchanges":[{"name":"amq.rabbitmq.log","vhost":"/","type":"topic","durable":true,"auto_delete":false}]}"#
            .to_owned(),
        json!({ "parameters": [operators] }).to_string(),
    ];
    for document in &documents {
        let reply = server.send("POST", "/api/definitions", HEADERS, document);
        assert_eq!(reply.status, 204, "{document}: {}", reply.body);
    }
    let is = export(dir.path());
    assert_eq!(entry(&is, "vhosts", &[("name", "tagged")])["tags"], json!(["x"]));
    entry(&is, "vhosts", &[("name", "marked")]);
    assert_eq!(entry(&is, "policies", &[("name", "p")])["apply-to"], "all");
    let value = &entry(&is, "parameters", &[("name", "o")])["value"];
    assert_eq!(*value, json!({ "pattern": "^q", "apply-to": "all", "definition": { "max-length": 5 }, "priority": 1 }));
    // A vhost with no fields in the document stays as it is.
    assert_eq!(server.send("POST", "/api/definitions", HEADERS, r#"{"vhosts":[{"name":"tagged"}]}"#).status, 204);
    assert_eq!(entry(&export(dir.path()), "vhosts", &[("name", "tagged")])["description"], "m");
    // Unknown settings of a policy are left out, and the others are kept.
    let mirrored = json!({ "policies": [{ "vhost": "/", "name": "ha", "pattern": "^m", "priority": 0,
                                          "definition": { "ha-mode": "all", "max-length": 9 } }] });
    let (code, said) = import(dir.path(), &mirrored.to_string(), &["--skip-unsupported"]);
    assert!(code == 0 && said.contains("skipped: policy 'ha': 'ha-mode' is not a recognised policy setting"), "{said}");
    assert_eq!(entry(&export(dir.path()), "policies", &[("name", "ha")])["definition"], json!({ "max-length": 9 }));
    let reply = server.send("POST", "/api/definitions?dry-run=true", HEADERS, r#"{"vhosts":[{"name":"dry"}]}"#);
    assert_eq!((reply.status, reply.body.contains("\"taken\":1")), (200, true), "{}", reply.body);
    assert_eq!(server.ask("GET", "/api/vhosts/dry", HEADERS).0, 404);
}
