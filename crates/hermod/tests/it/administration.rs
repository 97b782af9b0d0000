//! Users, vhosts, queues and alarms, changed by the command line while the broker runs.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::GUEST;
use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

/// Runs `hermod` with these words. Returns its exit code, and its output on both streams.
fn say(dir: &Path, line: &str) -> (i32, String) {
    let mut words = line.split(' ');
    let verb = words.next().unwrap();
    let (code, stdout, stderr) = run(hermod(verb, dir).args(words));
    (code, stdout + &stderr)
}

/// Each line, its exit code, and its output with tabs as bars.
fn check(dir: &Path, lines: &[(&str, i32, &str)]) {
    for (line, code, said) in lines {
        let (ended, text) = say(dir, line);
        assert_eq!((ended, text.replace('\t', "|").as_str()), (*code, *said), "{line}");
    }
}

#[test]
fn users_and_their_rights() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(
        dir.path(),
        &[
            ("users", 0, "name|tags|limits|held_bytes|declared_bytes\nguest|administrator||0|0\n"),
            ("users add alice --password one --tags monitoring,x", 0, ""),
            ("users add alice --password one", 73, "hermod: user 'alice' already exists\n"),
            ("users authenticate alice --password one", 0, ""),
            (
                "users authenticate alice --password two",
                77,
                "hermod: there is no user 'alice', or that is not its password\n",
            ),
            ("users change-password alice --password two", 0, ""),
            ("users authenticate alice --password two", 0, ""),
            ("users set-tags alice administrator", 0, ""),
            ("users limit alice --max-connections 2", 0, ""),
            (
                "users list",
                0,
                "name|tags|limits|held_bytes|declared_bytes\nalice|administrator|max-connections=2|0|0\nguest|administrator||0|0\n",
            ),
            ("permissions set alice ^a ^b ^c", 0, ""),
            ("permissions set bob ^a ^b ^c", 66, "hermod: user 'bob' does not exist\n"),
            ("permissions set alice ^a ^b ^c --vhost v", 66, "hermod: vhost 'v' does not exist\n"),
            ("permissions", 0, "user|vhost|configure|write|read\nalice|/|^a|^b|^c\nguest|/|.*|.*|.*\n"),
            ("permissions set-topic alice amq.topic ^x ^y", 0, ""),
            ("permissions list-topic", 0, "user|vhost|exchange|write|read\nalice|/|amq.topic|^x|^y\n"),
            ("permissions clear-topic alice amq.topic", 0, ""),
            ("permissions clear alice", 0, ""),
            ("permissions list", 0, "user|vhost|configure|write|read\nguest|/|.*|.*|.*\n"),
            ("users change-password guest --password other", 0, ""),
        ],
    );
    let denied = say(dir.path(), "permissions set alice ( .* .*");
    assert!(denied.0 == 73 && denied.1.contains("permission pattern '('"), "{denied:?}");
    // The changes survive a crash: the server is killed.
    drop(server);
    let server = Server::start(dir.path(), &[]);
    check(
        dir.path(),
        &[
            ("users authenticate guest --password other", 0, ""),
            ("users authenticate alice --password two", 0, ""),
            ("users delete alice", 0, ""),
            ("users delete alice", 66, "hermod: user 'alice' does not exist\n"),
        ],
    );
    server.until_logged("refused");
}

#[test]
fn a_password_comes_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut child = hermod("users", dir.path())
        .args(["add", "alice"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"s3 cret\n").unwrap();
    assert!(child.wait().unwrap().success());
    let (code, _, _) = run(hermod("users", dir.path()).args(["authenticate", "alice", "--password", "s3 cret"]));
    assert_eq!(code, 0);
    let line = server.until_logged("add_user");
    assert!(line.contains("alice") && !line.contains("s3 cret"), "{line}");
}

#[test]
fn vhosts_and_what_is_declared_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(dir.path(), &[]);
    let columns = "vhost|name|type|durable|auto_delete|internal|arguments\n";
    let bindings = "vhost|source|destination|destination_type|routing_key|arguments\n";
    check(
        dir.path(),
        &[
            ("vhosts add v --description d --tags a,b --default-queue-type quorum", 0, ""),
            ("vhosts add w --default-queue-type stream", 73, "hermod: vhost 'w': not implemented yet\n"),
            ("vhosts", 0, "name|description|tags|default_queue_type\n/|||classic\nv|d|a,b|quorum\n"),
            ("vhosts limit v --max-queues 1", 0, ""),
            ("vhosts limits", 0, "vhost|value\nv|max-queues=1\n"),
            ("queues declare q --vhost v", 0, ""),
            ("queues declare q --vhost v", 0, ""),
            (
                "queues declare r --vhost v",
                73,
                "hermod: cannot declare queue 'r': queue limit in vhost 'v' (1) is reached\n",
            ),
            ("exchanges declare x --vhost v --type topic", 0, ""),
            ("bindings declare x q --key k.* --vhost v", 0, ""),
            ("bindings", 0, &format!("{bindings}v||q|queue|q\nv|x|q|queue|k.*\n")),
            ("bindings delete x q --key k.* --vhost v", 0, ""),
            ("bindings", 0, &format!("{bindings}v||q|queue|q\n")),
            ("exchanges delete x --vhost v", 0, ""),
            ("exchanges delete x --vhost v", 66, "hermod: no exchange 'x' in vhost 'v'\n"),
            ("queues purge q --vhost v", 0, "0 messages dropped\n"),
            ("queues delete q --vhost v", 0, "0 messages dropped\n"),
            ("queues delete q --vhost v", 66, "hermod: no queue 'q' in vhost 'v'\n"),
            ("vhosts delete v", 0, ""),
            ("vhosts delete v", 66, "hermod: vhost 'v' does not exist\n"),
            ("queues declare q --vhost v", 77, "hermod: vhost v not found\n"),
        ],
    );
    let (code, text) = say(dir.path(), "exchanges");
    assert!(code == 0 && text.replace('\t', "|").starts_with(columns) && text.lines().count() == 7, "{text}");
}

#[test]
fn alarms_by_hand_and_connections_that_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut clients = [Stomp::connect(&server), Stomp::connect(&server)];
    check(
        dir.path(),
        &[
            ("alarms", 0, ""),
            ("alarms set disk", 0, ""),
            ("alarms memory-limit 0", 0, ""),
            ("alarms", 0, "memory\ndisk\n"),
            ("alarms clear disk", 0, ""),
            ("alarms memory-limit 1GiB", 0, ""),
            ("alarms", 0, ""),
            ("alarms disk-free-limit 50TiB", 0, ""),
            ("alarms", 0, "disk\n"),
            ("alarms disk-free-limit 0", 0, ""),
            ("alarms", 0, ""),
            ("connections close", 64, "hermod: which connections? Give a number, --user, --vhost or --all\n"),
            ("connections close 77", 66, "hermod: there is no connection 77\n"),
            ("connections close --user nobody", 0, ""),
            ("connections close --all --reason enough", 0, ""),
        ],
    );
    for client in &mut clients {
        let last = client.frame();
        assert!(last.starts_with("ERROR\n") && last.contains("enough"), "{last}");
    }
    let line = server.until_logged("disk alarm rises");
    assert!(line.contains("by_hand=true"), "{line}");
}

#[test]
fn policies_and_those_of_operators() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let head = "vhost|name|pattern|apply-to|definition|priority\n";
    let short = format!("{head}/|short|^q|queues|max-length=1|2\n");
    check(
        dir.path(),
        &[
            ("policies set short ^q {\"max-length\":1} --priority 2 --apply-to queues", 0, ""),
            ("policies set ceiling ^ {\"max-length\":5} --operator", 0, ""),
            ("policies", 0, &short),
            ("policies list --operator", 0, &format!("{head}/|ceiling|^|all|max-length=5|0\n")),
            (
                "policies set short ^q {\"max-lengt\":1}",
                73,
                "hermod: policy 'short': 'max-lengt' is not a recognised policy setting\n",
            ),
            ("policies clear nobody", 66, "hermod: policy 'nobody' does not exist in vhost '/'\n"),
            ("policies clear ceiling --operator", 0, ""),
        ],
    );
    // The settings survive a crash: the server is killed.
    drop(server);
    let _server = Server::start(dir.path(), &[]);
    check(
        dir.path(),
        &[
            ("policies list", 0, &short),
            ("policies clear short", 0, ""),
            ("policies clear short", 66, "hermod: policy 'short' does not exist in vhost '/'\n"),
        ],
    );
}

#[test]
fn losses_are_listed_with_their_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let head = "at|vhost|reason|queue|exchange|routing_key|body_bytes\n";
    check(dir.path(), &[("losses", 0, head), ("losses --json", 0, "[]\n")]);
    let mut client = Stomp::connect(&server);
    // The reason, the queue, the exchange, the key and the length of each, in the order in which
    // they are caused.
    let table = [
        ("unroutable", json!(null), "amq.direct", "nowhere", 3),
        ("rejected", json!("orders"), "", "orders", 4),
        ("maxlen", json!("short"), "", "short", 5),
        ("expired", json!("brief"), "", "brief", 6),
    ];
    client.send("SEND\ndestination:/exchange/amq.direct/nowhere\nreceipt:r\n\none");
    client.frame();
    // Only one loss of each millisecond is kept.
    std::thread::sleep(Duration::from_millis(20));
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client-individual\n\n");
    client.send("SEND\ndestination:/queue/orders\n\nfour");
    let delivered = client.frame();
    let ack = delivered.lines().find_map(|line| line.strip_prefix("ack:")).unwrap();
    client.send(&format!("NACK\nid:{ack}\nrequeue:false\nreceipt:n\n\n"));
    client.frame();
    for (queue, limit, body) in [("short", "x-max-length:0", "fifth"), ("brief", "x-message-ttl:1", "sixth.")] {
        std::thread::sleep(Duration::from_millis(20));
        client.send(&format!("SEND\ndestination:/queue/{queue}\n{limit}\nreceipt:r\n\n{body}"));
        client.frame();
    }
    let listed = || -> Vec<Value> {
        let (code, text) = say(dir.path(), "losses --json");
        assert_eq!(code, 0, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    until("all losses", || listed().len() == table.len());
    for ((reason, queue, exchange, key, bytes), row) in table.into_iter().zip(listed()) {
        let expected = json!({
            "at": row["at"], "vhost": "/", "reason": reason, "queue": queue, "exchange": exchange, "routing_key": key,
            "body_bytes": bytes,
        });
        assert_eq!(row, expected);
    }
    let (code, text) = say(dir.path(), "losses");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((code, lines.len(), lines[0]), (0, 5, "at\tvhost\treason\tqueue\texchange\trouting_key\tbody_bytes"));
    assert!(lines[2].ends_with("\t/\trejected\torders\t\torders\t4"), "{text}");
}

#[test]
fn the_log_and_the_audit_log_are_shown_to_administrators() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    check(
        dir.path(),
        &[
            ("queues declare orders", 0, ""),
            ("queues purge orders", 0, "0 messages dropped\n"),
            ("queues purge nowhere", 66, "hermod: no queue 'nowhere' in vhost '/'\n"),
        ],
    );
    let (code, text) = say(dir.path(), "audit --columns via,action,vhost,object,outcome,why");
    let purges: Vec<&str> = text.lines().filter(|line| line.contains("purge_queue")).collect();
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        purges,
        [
            "command line\tpurge_queue\t/\torders\tdone",
            "command line\tpurge_queue\t/\tnowhere\trefused\tno queue 'nowhere' in vhost '/'"
        ]
    );
    let (code, text) = say(dir.path(), "log --level warn --part audit");
    assert_eq!((code, text.lines().count()), (0, 1), "{text}");
    assert!(text.contains("WARN audit: administrative change refused who="), "{text}");
    let (_, text) = say(dir.path(), "log --filter startup --json");
    let lines: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!((lines.len(), &lines[0]["text"]), (1, &json!("Server startup complete")));
    let (code, text) = say(dir.path(), "log --level loud");
    assert!(code == 64 && text.contains("error, warn, info, debug, trace"), "{code} {text}");
    // The same over HTTP, for administrators alone.
    let user = r#"{"password": "one", "tags": "monitoring"}"#;
    assert_eq!(server.send("PUT", "/api/users/alice", GUEST, user).status, 201);
    for path in ["/hermod/v1/log", "/hermod/v1/audit"] {
        let alice = "Authorization: Basic YWxpY2U6b25l\r\n";
        assert_eq!(server.send("GET", path, alice, "").status, 403, "{path}");
    }
    let reply = server.send("GET", "/hermod/v1/audit?filter=object=alice&fields=who,via,object,outcome", GUEST, "");
    let page: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(page["items"], json!([{ "who": "guest", "via": "http", "object": "alice", "outcome": "done" }]));
}

#[test]
fn there_are_as_many_vhosts_and_connections_as_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--limits-vhosts", "2"]);
    let full = "hermod: cannot create vhost 'w': vhost limit (2) is reached; delete one, or raise limits.vhosts\n";
    check(
        dir.path(),
        &[
            ("vhosts add v", 0, ""),
            ("vhosts add w", 73, full),
            ("vhosts add v --description changed", 0, ""),
            ("vhosts delete v", 0, ""),
            ("vhosts add w", 0, ""),
            ("users limit guest --max-connections 1", 0, ""),
        ],
    );
    let _first = Stomp::connect(&server);
    let mut second = Stomp::ask_to_connect(server.ports.stomp);
    let refused = second.frame();
    assert!(refused.contains("user connection limit (1) is reached"), "{refused}");
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("hermod_connections_refused_total{reason=\"user_limit\"} 1\n"), "{metrics}");
    let (code, status) = say(dir.path(), "status");
    assert!(code == 0 && status.contains("1 refused since the start"), "{status}");
}

#[test]
fn what_one_user_may_have_leaves_something_for_others_and_for_administrators() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--limits-connections", "12"]);
    let user = |name: &str| {
        check(dir.path(), &[(&format!("users add {name} --password {name}"), 0, "")]);
        check(dir.path(), &[(&format!("permissions set {name} .* .* .*"), 0, "")]);
    };
    ["alice", "bob"].into_iter().for_each(user);
    let mut open = Vec::new();
    let mut connect = |user: &str| {
        let mut client = Stomp::ask_to_connect_as(server.ports.stomp, user);
        let answer = client.frame();
        open.push(client);
        answer
    };
    for _ in 0..6 {
        assert!(connect("alice").starts_with("CONNECTED\n"));
    }
    let refused = connect("alice");
    assert!(refused.contains("it has its share of all connections (6)"), "{refused}");
    for _ in 0..3 {
        assert!(connect("bob").starts_with("CONNECTED\n"));
    }
    let refused = connect("bob");
    assert!(refused.contains("the last 3 of 12 connections are kept for administrators"), "{refused}");
    // More than the limit of connections; none of them logs in.
    let strangers: Vec<_> = (0..16).map(|_| TcpStream::connect(("127.0.0.1", server.ports.stomp)).unwrap()).collect();
    assert!(connect("guest").starts_with("CONNECTED\n"));
    drop(strangers);
    let (code, status) = say(dir.path(), "status");
    let shares = "one vhost 50 % of all there may be, one user 50 % of connections; the last 3 of 12 connections are for administrators";
    assert!(code == 0 && status.contains(shares), "{status}");
}
