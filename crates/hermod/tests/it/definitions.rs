//! Definitions: a document of RabbitMQ is imported, exported, and imported into another broker.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use amqp091::limits::PROTOCOL_HEADER;
use serde_json::{Value, json};
use testkit::sim_disk::Random;

use crate::server::{HANG, Ports, Server, hermod, run, serve};

const DOCUMENT: &str = include_str!("../data/definitions.json");

/// Imports `document`. Returns the exit code, and the output on both streams.
fn import(dir: &Path, document: &Value, flags: &[&str]) -> (i32, String) {
    let file = dir.join("import.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let (code, stdout, stderr) = run(hermod("import", dir).arg(&file).args(flags));
    (code, stdout + &stderr)
}

fn export(dir: &Path) -> Value {
    let (code, stdout, stderr) = run(&mut hermod("export", dir));
    assert_eq!((code, stderr.as_str()), (0, ""));
    serde_json::from_str(&stdout).unwrap()
}

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

#[test]
fn a_document_is_taken_over_and_comes_back() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = Server::start(dirs[0].path(), &[]);
    let (code, said) = import(dirs[0].path(), &document(), &[]);
    assert!(code == 0 && said.ends_with("\n13 definitions taken over\n"), "{said}");
    assert!(said.contains("note: 1 quorum queue: Hermod keeps one copy of it"), "{said}");
    let authenticate =
        |dir: &Path, password| run(hermod("users", dir).args(["authenticate", "shop", "--password", password])).0;
    assert_eq!((authenticate(dirs[0].path(), "test12"), authenticate(dirs[0].path(), "test13")), (0, 77));
    let exported = export(dirs[0].path());
    let (wanted, is) = (document(), &exported);
    for list in ["permissions", "topic_permissions", "parameters", "policies"] {
        let rows = is[list].as_array().unwrap();
        let limited = list == "parameters";
        for row in wanted[list].as_array().unwrap() {
            let same = |other: &&Value| if limited { other["vhost"] == row["vhost"] } else { *other == row };
            assert!(rows.iter().any(|other| same(&other)), "{list}: {row} is not in {rows:?}");
        }
    }
    assert_eq!(is["parameters"][0]["value"], json!({ "max-queues": 100 }));
    for (list, fields) in [
        ("users", &["name", "password_hash"][..]),
        ("vhosts", &["name", "description", "tags"]),
        ("queues", &["name", "vhost", "durable", "auto_delete", "arguments"]),
        ("exchanges", &["name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"]),
    ] {
        for row in wanted[list].as_array().unwrap() {
            let found = is[list].as_array().unwrap().iter().find(|other| other["name"] == row["name"]);
            let found = found.unwrap_or_else(|| panic!("{list}: {row} is missing"));
            fields.iter().for_each(|field| assert_eq!(found[field], row[field], "{list}: {field}"));
        }
    }
    assert_eq!(is["bindings"].as_array().unwrap().len(), 2);
    // Into another broker, and into the same one again: then nothing changes.
    let _second = Server::start(dirs[1].path(), &[]);
    for dir in &dirs {
        assert_eq!(import(dir.path(), &exported, &[]).0, 0);
        assert_eq!(export(dir.path()), exported);
    }
    // Everything survives a crash.
    drop(first);
    let _first = Server::start(dirs[0].path(), &[]);
    assert_eq!(export(dirs[0].path()), exported);
}

/// Some definitions of every list. Each names only what is in the same document.
fn random_document(random: &mut Random) -> Value {
    let mut some = |all: &[&str]| all.iter().filter(|_| random.chance(70)).map(ToString::to_string).collect::<Vec<_>>();
    let (vhosts, users) = (some(&["a", "b"]), some(&["alice", "bob"]));
    let (queues, exchanges) = (some(&["q", "r", "quorum"]), some(&["x", "y", "z"]));
    let mut one_of = |all: &[Value]| all[random.below(all.len() as u64) as usize].clone();
    let arguments = [json!({}), json!({ "x-max-length": 9, "x-message-ttl": 500 })];
    let kinds = [json!("direct"), json!("fanout"), json!("topic"), json!("headers")];
    let mut document = json!({
        "vhosts": [], "users": [], "permissions": [], "topic_permissions": [], "parameters": [], "policies": [],
        "queues": [], "exchanges": [], "bindings": [],
    });
    let mut add = |list: &str, row: Value| document[list].as_array_mut().unwrap().push(row);
    for user in &users {
        let tags = one_of(&[json!([]), json!(["monitoring"]), json!(["management", "policymaker"])]);
        add("users", json!({ "name": user, "password_hash": "", "tags": tags }));
    }
    for vhost in &vhosts {
        add("vhosts", json!({ "name": vhost, "description": one_of(&[json!(""), json!("orders")]), "tags": [] }));
        for user in &users {
            let read = one_of(&[json!(".*"), json!("^q")]);
            add("permissions", json!({ "user": user, "vhost": vhost, "configure": "", "write": ".*", "read": read }));
            add(
                "topic_permissions",
                json!({ "user": user, "vhost": vhost, "exchange": "amq.topic", "write": ".*", "read": read }),
            );
        }
        let value = one_of(&[json!({ "max-queues": 7 }), json!({ "max-connections": 3, "max-queues": 100 })]);
        add("parameters", json!({ "component": "vhost-limits", "vhost": vhost, "name": "limits", "value": value }));
        let definition = one_of(&[json!({ "max-length": 5 }), json!({ "message-ttl": 100, "expires": 60000 })]);
        let priority = one_of(&[json!(0), json!(7)]);
        let policy = json!({ "pattern": "^q", "apply-to": "queues", "definition": definition, "priority": priority });
        add("parameters", json!({ "component": "operator_policy", "vhost": vhost, "name": "o", "value": policy }));
        let mut policy = policy;
        (policy["vhost"], policy["name"]) = (json!(vhost), json!("p"));
        add("policies", policy);
        for queue in &queues {
            let kind = if queue == "quorum" { json!({ "x-queue-type": "quorum" }) } else { one_of(&arguments) };
            let row =
                json!({ "name": queue, "vhost": vhost, "durable": true, "auto_delete": false, "arguments": kind });
            add("queues", row);
        }
        for exchange in &exchanges {
            let arguments = one_of(&[json!({}), json!({ "alternate-exchange": "amq.fanout" })]);
            let (kind, internal) = (one_of(&kinds), one_of(&[json!(true), json!(false)]));
            add(
                "exchanges",
                json!({
                    "name": exchange, "vhost": vhost, "type": kind, "durable": true, "auto_delete": false,
                    "internal": internal, "arguments": arguments,
                }),
            );
            for (kind, ends) in [("queue", &queues), ("exchange", &exchanges)] {
                for end in ends {
                    let arguments = one_of(&[json!({}), json!({ "b": 2, "a": 1 })]);
                    let key = one_of(&[json!(""), json!("a.#")]);
                    add(
                        "bindings",
                        json!({
                            "source": exchange, "vhost": vhost, "destination": end, "destination_type": kind,
                            "routing_key": key, "arguments": arguments,
                        }),
                    );
                }
            }
        }
    }
    document
}

/// A broker that was killed after an import exports what the live one did, and so does another
/// broker that imports that.
#[test]
fn any_document_comes_back_from_the_log_and_from_another_broker() {
    for seed in 0..5 {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let first = Server::start(dirs[0].path(), &[]);
        let document = random_document(&mut Random::new(seed));
        let (code, said) = import(dirs[0].path(), &document, &[]);
        assert_eq!(code, 0, "seed {seed}: {said}");
        let exported = export(dirs[0].path());
        for list in ["vhosts", "users", "queues", "exchanges", "bindings", "policies", "parameters"] {
            let count = |of: &Value| of[list].as_array().unwrap().len();
            assert!(count(&exported) >= count(&document), "seed {seed}: {list}");
        }
        drop(first);
        let _first = Server::start(dirs[0].path(), &[]);
        let _second = Server::start(dirs[1].path(), &[]);
        assert_eq!(export(dirs[0].path()), exported, "seed {seed}: after a kill");
        let (code, said) = import(dirs[1].path(), &exported, &[]);
        assert_eq!((code, export(dirs[1].path())), (0, exported), "seed {seed}: {said}");
    }
}

/// The lists whose rows an import makes as they stand in the document. The limits of a vhost may be
/// wider until the end.
const AS_THEY_STAND: [&str; 7] =
    ["users", "vhosts", "permissions", "topic_permissions", "policies", "queues", "exchanges"];

/// The lists of what is declared in a vhost.
const IN_A_VHOST: [&str; 4] = ["policies", "exchanges", "queues", "bindings"];

/// What is exported, without the first user, whose password has a salt of its own in each broker.
fn declared(dir: &Path) -> Value {
    let mut exported = export(dir);
    exported["users"].as_array_mut().unwrap().retain(|user| user["name"] != "guest");
    exported
}

/// What is declared in a vhost comes as one group of its log. The kills come earlier and later in
/// the import; they leave each vhost as in the document, or without anything.
#[test]
fn a_kill_in_an_import_leaves_each_vhost_whole_or_empty_and_the_next_import_adds_the_rest() {
    let mut document = random_document(&mut Random::new(7));
    document["vhosts"].as_array_mut().unwrap().push(json!({ "name": "many" }));
    for number in 0..2000 {
        let (name, durable) = (format!("q{number}"), true);
        let queue = json!({ "name": name, "vhost": "many", "durable": durable, "auto_delete": false, "arguments": {} });
        let binding = json!({
            "source": "amq.topic", "vhost": "many", "destination": name, "destination_type": "queue",
            "routing_key": "#", "arguments": {},
        });
        document["queues"].as_array_mut().unwrap().push(queue);
        document["bindings"].as_array_mut().unwrap().push(binding);
    }
    let whole = {
        let dir = tempfile::tempdir().unwrap();
        let _server = Server::start(dir.path(), &[]);
        assert_eq!(import(dir.path(), &document, &[]).0, 0);
        declared(dir.path())
    };
    for round in 0..7 {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &[]);
        let file = dir.path().join("import.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let mut importing =
            hermod("import", dir.path()).arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(4 << round));
        drop(server);
        importing.wait().unwrap();
        let _server = Server::start(dir.path(), &[]);
        let left = declared(dir.path());
        for list in AS_THEY_STAND {
            let all = whole[list].as_array().unwrap();
            for row in left[list].as_array().unwrap() {
                assert!(all.contains(row), "round {round}: {list} of what is left: {row}");
            }
        }
        for vhost in whole["vhosts"].as_array().unwrap() {
            let counts = |of: &Value| {
                IN_A_VHOST
                    .map(|list| of[list].as_array().unwrap().iter().filter(|row| row["vhost"] == vhost["name"]).count())
            };
            let (there, all) = (counts(&left), counts(&whole));
            assert!(there == all || there == [0; 4], "round {round}: {vhost} has {there:?} of {all:?}");
        }
        assert_eq!((import(dir.path(), &document, &[]).0, declared(dir.path()) == whole), (0, true), "round {round}");
    }
}

#[test]
fn a_document_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(dir.path(), &[]);
    let before = export(dir.path());
    type Spoil = fn(&mut Value);
    let cases: [(Spoil, &str); 8] = [
        (|it| it["queues"][0]["vhost"] = json!("nowhere"), "queue 'shop.orders': there is no vhost 'nowhere'"),
        (|it| it["permissions"][0]["user"] = json!("nobody"), "there is no such user"),
        (|it| it["bindings"][1]["destination"] = json!("gone"), "there is no queue 'gone'"),
        (|it| it["queues"][1]["arguments"]["x-message-ttl"] = json!("long"), "invalid arg 'x-message-ttl'"),
        (|it| it["queues"][1]["arguments"]["x-queue-type"] = json!("stream"), "shop.mail"),
        (
            |it| it["users"][0]["hashing_algorithm"] = json!("rabbit_password_hashing_md5"),
            "rabbit_password_hashing_md5",
        ),
        (
            |it| it["parameters"][0]["component"] = json!("federation-upstream"),
            "parameter 'limits' of federation-upstream in vhost 'shop'",
        ),
        (|it| it["parameters"][0]["component"] = json!("shovel"), "shovel 'limits' in vhost 'shop': src-uri"),
    ];
    for (spoil, expected) in cases {
        let mut spoilt = document();
        spoil(&mut spoilt);
        let (code, said) = import(dir.path(), &spoilt, &[]);
        assert!(code == 73 && said.contains("nothing was imported") && said.contains(expected), "{said}");
        assert_eq!(export(dir.path()), before, "{expected}");
    }
    let (code, said) = import(dir.path(), &json!({ "queues": 7 }), &[]);
    assert!(code == 73 && said.contains("no document of definitions"), "{said}");
    let mut spoilt = document();
    spoilt["queues"][0]["arguments"]["x-queue-type"] = json!("stream");
    let (code, said) = import(dir.path(), &spoilt, &["--skip-unsupported"]);
    let skipped = said.lines().filter(|line| line.starts_with("skipped: ")).count();
    assert_eq!((code, skipped), (0, 2), "{said}");
    assert!(said.contains("'shop.orders'") && said.contains("see there") && said.ends_with(" taken over\n"), "{said}");
}

#[test]
fn a_server_starts_with_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("definitions.json");
    std::fs::write(&file, DOCUMENT).unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--definitions", file.to_str().unwrap()]);
    let names: Vec<Value> =
        export(&data)["users"].as_array().unwrap().iter().map(|user| user["name"].clone()).collect();
    assert_eq!(names, ["certificate", "shop"], "nobody whom the document does not know");
    drop(server);
    std::fs::write(&file, "{\"queues\": 7}").unwrap();
    let (code, _, said) = run(serve(&data, Ports::free()).args(["--definitions", file.to_str().unwrap()]));
    assert!(code == 78 && said.contains("no document of definitions"), "{said}");
}

#[test]
fn a_server_starts_with_a_directory_of_documents_in_the_order_of_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, data) = (dir.path().join("definitions"), dir.path().join("data"));
    std::fs::create_dir(&folder).unwrap();
    let given = folder.to_str().unwrap();
    let (code, _, said) = run(serve(&data, Ports::free()).args(["--definitions", given]));
    assert!(code == 78 && said.contains("no file whose name ends in .json"), "{said}");
    // The first has the vhost without which the second would be refused.
    let queue = json!({ "queues": [{ "name": "late", "vhost": "b", "durable": true, "auto_delete": false }] });
    for (name, text) in [
        ("2-queue.json", queue.to_string()),
        ("10.json", json!({ "vhosts": [{ "name": "b" }] }).to_string()),
        ("README", "not one of them".to_owned()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let _server = Server::start(&data, &["--definitions", given]);
    assert_eq!(export(&data)["queues"][0]["name"], "late");
}

#[test]
fn the_first_user_has_the_vhost_the_tags_and_the_rights_of_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--default-vhost=shop", "--default-user-tags=monitoring,own", "--default-permissions-write=^shop"];
    let _server = Server::start(dir.path(), &[&flags[..], &["--default-permissions-configure="]].concat());
    let all = export(dir.path());
    assert_eq!(all["vhosts"].as_array().unwrap().len(), 1);
    assert_eq!(all["vhosts"][0]["name"], "shop");
    assert_eq!(all["users"][0]["tags"], json!(["monitoring", "own"]));
    let permission = &all["permissions"][0];
    let rights = ["vhost", "configure", "write", "read"].map(|field| permission[field].as_str().unwrap());
    assert_eq!(rights, ["shop", "", "^shop", ".*"]);
}

/// A limit applies to later queues: more may exist already.
#[test]
fn a_vhost_with_more_queues_than_its_limit_is_taken_over() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let _servers = dirs.each_ref().map(|dir| Server::start(dir.path(), &[]));
    let [first, second] = dirs.each_ref().map(|dir| dir.path());
    let queue =
        |name: &str| json!({ "name": name, "vhost": "full", "type": "classic", "durable": true, "auto_delete": false });
    let limit = json!({ "component": "vhost-limits", "vhost": "full", "name": "limits", "value": { "max-queues": 1 } });
    let vhost = json!({ "name": "full", "default_queue_type": "quorum" });
    let trace = json!({ "source": "amq.rabbitmq.trace", "vhost": "full", "destination": "a", "destination_type": "queue",
                        "routing_key": "#" });
    let document = json!({ "vhosts": [vhost], "queues": [queue("a"), queue("b")], "bindings": [trace] });
    assert_eq!(import(first, &document, &[]), (0, "4 definitions taken over\n".to_owned()));
    assert_eq!(import(first, &json!({ "parameters": [limit] }), &[]).0, 0);
    let exported = export(first);
    assert_eq!((&exported["queues"][1]["name"], &exported["queues"][1]["type"]), (&json!("b"), &json!("classic")));
    for dir in [first, second] {
        let (code, said) = import(dir, &exported, &[]);
        assert_eq!((code, export(dir)), (0, exported.clone()), "{said}");
        let (code, said) = import(dir, &json!({ "queues": [queue("c")] }), &[]);
        assert!(code == 73 && said.contains("nothing was imported") && said.contains("its max-queues is 1"), "{said}");
    }
}

/// A pipe as document, which stops the start at the place where it is read.
#[test]
fn nobody_is_let_in_before_the_document_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, data, ports) = (dir.path().join("definitions"), dir.path().join("data"), Ports::free());
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let flag = pipe.to_str().unwrap().to_owned();
    let server = std::thread::spawn(move || Server::start_on(ports, &data, &["--definitions", &flag]));
    let (sender, opened) = std::sync::mpsc::channel();
    // Returns when the server opens the other end.
    std::thread::spawn(move || sender.send(std::fs::File::options().write(true).open(pipe).unwrap()));
    let mut document = opened.recv_timeout(HANG).unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", ports.amqp)).unwrap();
    client.write_all(&PROTOCOL_HEADER).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut start = [0; 11];
    let early = client.read(&mut start).unwrap_err();
    assert!(matches!(early.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    document.write_all(DOCUMENT.as_bytes()).unwrap();
    drop(document);
    client.set_read_timeout(Some(HANG)).unwrap();
    client.read_exact(&mut start).unwrap();
    // A method on channel 0: connection.start.
    assert_eq!((&start[..3], &start[7..]), (&[1, 0, 0][..], &[0, 10, 0, 10][..]));
    drop(server.join().unwrap());
}
