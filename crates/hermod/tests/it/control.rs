//! The command line against a running broker.

use std::process::Stdio;

use crate::api::GUEST;
use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

fn json(verb: &str, dir: &tempfile::TempDir) -> serde_json::Value {
    let (code, stdout, stderr) = run(hermod(verb, dir.path()).arg("--json"));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn status_queues_and_connections_show_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "one");
    client.publish("orders", "two");

    let status = json("status", &dir);
    assert_eq!(status["pid"], server.pid());
    assert_eq!((&status["durability"], &status["alarms"]), (&"fsync".into(), &serde_json::json!([])));
    assert_eq!((&status["connections"], &status["sockets"]), (&1.into(), &1.into()));
    assert_eq!((&status["messages_ready"], &status["published"]), (&2.into(), &2.into()));
    let amqp = format!("127.0.0.1:{}", server.ports.amqp);
    assert_eq!(
        status["listeners"][0],
        serde_json::json!({ "protocol": "amqp", "address": amqp, "name": "ports.amqp", "terms": [] })
    );

    let queues = json("queues", &dir);
    assert_eq!(
        (&queues[0]["name"], &queues[0]["messages_ready"], &queues[0]["vhost"]),
        (&"orders".into(), &2.into(), &"/".into())
    );

    let connections = json("connections", &dir);
    let shown = &connections[0];
    assert_eq!((&shown["user"], &shown["protocol"]), (&"guest".into(), &"STOMP".into()));
    assert!(shown["recv_oct"].as_u64().unwrap() > 100, "{shown}");

    assert_eq!(shown["held_bytes"], 0);
    client.send("BEGIN\ntransaction:t\n\n");
    client.send(&format!("SEND\ndestination:/queue/orders\ntransaction:t\nreceipt:r\n\n{}", "x".repeat(50_000)));
    assert!(client.frame().starts_with("RECEIPT"));
    let held = json("connections", &dir)[0]["held_bytes"].as_u64().unwrap();
    assert!((50_000..60_000).contains(&held), "{held}");
    let (_, over_http) = server.ask("GET", "/api/connections", GUEST);
    assert!(over_http.contains(&format!("\"held_bytes\":{held}")), "{over_http}");
    let (_, table, _) = run(&mut hermod("connections", dir.path()));
    let shown: Vec<_> = table.lines().filter_map(|line| line.rsplit('\t').next()).collect();
    assert_eq!(shown, ["held", &format!("{} KiB", held / 1024)], "{table}");

    let (code, table, _) = run(&mut hermod("queues", dir.path()));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!((code, lines.len()), (0, 2), "{table}");
    assert!(lines[1].starts_with("/\torders\tclassic\tdurable\t2\t0\t0\t"), "{table}");
}

/// Runs a command whose output is a list. Returns its lines, with tabs as bars.
fn lines(dir: &tempfile::TempDir, verb: &str, arguments: &[&str]) -> Vec<String> {
    let (code, stdout, stderr) = run(hermod(verb, dir.path()).args(arguments));
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout.lines().map(|line| line.replace('\t', "|")).collect()
}

#[test]
fn lists_are_filtered_sorted_and_cut_and_are_the_rows_of_the_http_api() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for (queue, count) in [("orders.new", 3), ("orders.old", 1), ("mail", 2)] {
        (0..count).for_each(|_| client.publish(queue, "body"));
    }
    for (arguments, expected) in [
        (
            &["--sort", "-messages", "--columns", "name,ready"][..],
            &["name|messages_ready", "orders.new|3", "mail|2", "orders.old|1"][..],
        ),
        (&["list", "--where", "name =~ ^orders and ready > 1", "--columns", "name"], &["name", "orders.new"]),
        (
            &["--limit", "1", "--sort", "name", "--columns", "name,message_stats.publish"],
            &["name|message_stats.publish", "mail|2"],
        ),
        (&["--vhost", "none", "--columns", "name"], &["name"]),
    ] {
        assert_eq!(lines(&dir, "queues", arguments), expected, "{arguments:?}");
    }
    assert_eq!(
        lines(&dir, "queues", &["--json", "--columns", "name,message_stats.publish", "--where", "name = mail"]),
        [r#"[{"message_stats":{"publish":2},"name":"mail"}]"#]
    );
    for verb in ["queues", "exchanges", "bindings", "vhosts", "users", "permissions", "connections", "consumers"] {
        let path = if verb == "consumers" { "all-consumers" } else { verb };
        let (_, over_http) = server.ask("GET", &format!("/api/{path}"), GUEST);
        let mut rows = [serde_json::from_str(&over_http).unwrap(), json(verb, &dir)];
        // What moves between two readings.
        for row in rows.iter_mut().flat_map(|rows: &mut serde_json::Value| rows.as_array_mut().unwrap()) {
            let row = row.as_object_mut().unwrap();
            row.retain(|name, _| name != "idle_since" && !name.ends_with("_details") && name != "message_stats");
        }
        assert_eq!(rows[0], rows[1], "{verb}");
    }
    for (verb, arguments, words) in [
        ("queues", &["--where", "ready >"][..], "hermod: --where at character 8: expected a value"),
        (
            "queues",
            &["--vhost", "v", "declare", "q"],
            "hermod: --vhost belongs behind the verb: write declare … --vhost",
        ),
        ("users", &["--limit", "x"], "hermod: invalid value 'x' for '--limit <N>'"),
    ] {
        let (code, _, stderr) = run(hermod(verb, dir.path()).args(arguments));
        assert!(code == 64 && stderr.starts_with(words), "{verb} {arguments:?}: {code} {stderr}");
    }
    let (code, _, stderr) = run(hermod("queues", dir.path()).args(["--sort", "redy"]));
    let tip = "hermod: no queue has the field 'redy' now; did you mean ready? --json shows all fields\n";
    assert_eq!((code, stderr.as_str()), (0, tip));
}

#[test]
fn a_watched_list_comes_again_until_its_reader_has_gone() {
    use std::io::{BufRead, BufReader};

    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(dir.path(), &[]);
    let words = ["--watch", "1", "--columns", "name"];
    let mut child = hermod("vhosts", dir.path()).args(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let two: Vec<String> = lines.by_ref().take(6).collect();
    assert_eq!(two, ["name", "/", "", "name", "/", ""]);
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn connections_without_a_log_in_are_a_list_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let _stranger = std::net::TcpStream::connect(("127.0.0.1", server.ports.stomp)).unwrap();
    let _client = Stomp::connect(&server);
    until("a stranger", || lines(&dir, "connections", &["strangers", "--columns", "ssl"]) == ["ssl", "false"]);
    assert_eq!(lines(&dir, "connections", &["--columns", "user"]), ["user", "guest"]);
}

#[test]
fn messages_are_shown_and_dead_letters_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("dead", "alive");
    client.send(
        "SUBSCRIBE\nid:s\ndestination:/queue/orders\nack:client-individual\nx-dead-letter-exchange:\n\
         x-dead-letter-routing-key:dead\nselector:color = 'red'\n\n",
    );
    client.send("SEND\ndestination:/amq/queue/orders\npersistent:true\ncolor:red\n\n\u{e9}\nline");
    let delivered = client.frame();
    let ack = delivered.lines().find_map(|line| line.strip_prefix("ack:")).unwrap();
    let selectors = &json("queues", &dir)[1]["selectors"];
    assert_eq!(selectors[0]["selector"], "convert_string_expressions:color = 'red'");
    assert_eq!((&selectors[0]["consumers"], &selectors[0]["matched"]), (&1.into(), &1.into()));
    client.send(&format!("NACK\nid:{ack}\nrequeue:false\nreceipt:n\n\n"));
    assert!(client.frame().starts_with("RECEIPT\n"));
    client.send("UNSUBSCRIBE\nid:s\nreceipt:u\n\n");
    assert!(client.frame().starts_with("RECEIPT\n"));

    let browse = |arguments: &[&str]| {
        let (code, stdout, stderr) = run(hermod("browse", dir.path()).args(["dead", "--json"]).args(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        serde_json::from_str::<serde_json::Value>(&stdout).unwrap()
    };
    until("the dead letter", || browse(&[]).as_array().unwrap().len() == 2);
    let dead = &browse(&["--selector", "color = 'red'"])[0];
    assert_eq!(
        (&dead["body"], &dead["bytes"], &dead["redelivered"]),
        (&"\u{e9}\nline".into(), &7.into(), &false.into())
    );
    assert_eq!((&dead["headers"]["color"], &dead["properties"]["delivery_mode"]), (&"red".into(), &2.into()));
    assert_eq!(dead["headers"]["x-first-death-reason"], "rejected");
    assert_eq!(browse(&["--limit", "1"]).as_array().unwrap().len(), 1);
    let (code, table, _) = run(hermod("browse", dir.path()).arg("dead"));
    assert_eq!((code, table.lines().count()), (0, 3), "{table}");
    assert!(table.contains("\u{e9}\\nline") && table.contains("color=\"red\""), "{table}");

    for (arguments, expected) in [
        (&["dead", "--dry-run"][..], "dead: 1 message would go back\ndead: 1 never died\n"),
        (&["dead", "--selector", "color = 'blue'"], "dead: 0 messages went back to where they came from\n"),
        (&["dead"], "dead: 1 message went back to where they came from\ndead: 1 never died\n"),
    ] {
        let (code, stdout, stderr) = run(hermod("redrive", dir.path()).args(arguments));
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, expected, ""), "{arguments:?}");
    }
    until("its return", || json("queues", &dir)[1]["messages_ready"] == 1);
    for (verb, arguments, code, words) in [
        ("browse", &["none"][..], 66, "no queue 'none' in vhost '/'"),
        ("redrive", &["none"], 66, "no queue 'none' in vhost '/'"),
        ("browse", &["dead", "--selector", "color ="], 64, "invalid selector at character 8"),
        ("redrive", &["dead", "--vhost", "none"], 66, "no vhost 'none'"),
    ] {
        let (found, _, stderr) = run(hermod(verb, dir.path()).args(arguments));
        assert!(found == code && stderr.contains(words), "{verb} {arguments:?}: {found} {stderr}");
    }
}

#[test]
fn a_task_moves_messages_and_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for body in ["one", "two", "three"] {
        client.publish("orders", body);
    }
    assert_eq!(run(hermod("queues", dir.path()).args(["declare", "old"])).0, 0);
    let tasks = |arguments: &[&str]| run(hermod("tasks", dir.path()).args(arguments));
    let said = |arguments: &[&str]| {
        let (code, stdout, stderr) = tasks(&[&["start"], arguments].concat());
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        stdout
    };
    assert_eq!(said(&["move", "orders", "--to", "old", "--dry-run"]), "orders: move would take 3 messages\n");
    assert_eq!(said(&["move", "orders", "--to", "old", "--limit", "2"]), "orders: move took 2 messages\n");
    assert_eq!(
        said(&["copy", "old", "--exchange", "amq.direct"]),
        "old: copy took 0 messages\nold: 2 messages stayed: they have nowhere to go\n"
    );
    assert_eq!(said(&["delete", "orders"]), "orders: delete took 1 message\n");
    // One that does not end by itself soon, so that it can be cancelled.
    let name = said(&["copy", "old", "--exchange", "", "--routing-key", "orders", "--rate", "1", "--detach"]);
    let name = name.trim();
    assert_eq!(tasks(&["cancel", name]).0, 0);
    let (code, listed, _) = tasks(&["--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let states: Vec<_> = listed.iter().map(|task| task["state"].as_str().unwrap()).collect();
    assert_eq!((code, states), (0, vec!["cancelled", "done", "done", "done"]));
    for (arguments, code, words) in [
        (&["start", "move", "orders", "--to", "none"][..], 66, "no queue 'none' in vhost '/' to send messages to"),
        (&["start", "move", "orders"], 73, "move needs a target"),
        (&["start", "burn", "orders"], 64, "burn"),
        (&["cancel", name], 73, "has ended"),
        (&["cancel", "none"], 66, "no task 'none' in vhost '/'"),
    ] {
        let (found, _, stderr) = tasks(arguments);
        assert!(found == code && stderr.contains(words), "{arguments:?}: {found} {stderr}");
    }
}

#[test]
fn a_purge_and_a_deletion_that_keep_messages_are_undone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    for body in ["one", "two", "three"] {
        client.publish("orders", body);
    }
    let say = |verb: &str, arguments: &[&str]| {
        let (code, stdout, stderr) = run(hermod(verb, dir.path()).args(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{verb} {arguments:?}: {stdout}");
        stdout
    };
    say("exchanges", &["declare", "news", "--type", "fanout"]);
    say("bindings", &["declare", "news", "orders", "--key", "k"]);
    let ready = || say("queues", &["--json", "--columns", "name,messages_ready"]);
    let undo = |said: &str| said.lines().last().unwrap().split(' ').next_back().unwrap().to_owned();
    let purged = say("queues", &["purge", "orders", "--keep", "1h"]);
    assert!(purged.starts_with("orders: purge took 3 messages\nkept in queue undo."), "{purged}");
    assert_eq!(ready().matches("undo.").count(), 1);
    assert!(say("tasks", &["undo", &undo(&purged)]).contains(": restore took 3 messages\n"));
    assert!(!ready().contains("undo."), "the queue that kept them goes");
    let deleted = say("queues", &["delete", "orders", "--keep", "1h"]);
    assert!(deleted.starts_with("orders: delete-queue took 3 messages\n"), "{deleted}");
    assert!(!ready().contains("orders"));
    say("tasks", &["undo", &undo(&deleted)]);
    assert!(ready().contains("orders") && say("bindings", &["--json"]).contains("news"));
    assert!(say("browse", &["orders"]).contains("three"));
    let refused = |arguments: &[&str]| {
        let (code, _, stderr) = run(hermod("tasks", dir.path()).args(arguments));
        assert!(code != 0, "{arguments:?}");
        stderr
    };
    for (arguments, words) in [
        (vec!["undo", "none"], "no task 'none' in vhost '/'"),
        (vec!["undo", &undo(&deleted)], "is not kept any more (queue 'undo."),
        (vec!["start", "move", "orders", "--to", "x", "--keep", "1h"], "move keeps nothing for an undo"),
        (vec!["start", "purge", "orders", "--to", "x"], "purge keeps messages in a queue of its own"),
        (vec!["start", "purge", "orders", "--keep", "200h"], "at most 7 days"),
        (vec!["start", "delete-queue", "orders", "--limit", "1"], "deleted with all its messages"),
        (vec!["start", "purge", "none"], "no queue 'none' in vhost '/'"),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn retained_messages_and_subscriptions_are_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.send("SUBSCRIBE\nid:s\ndestination:/topic/a\ndurable:true\nselector:n > 1\nreceipt:s\n\n");
    client.frame();
    for (topic, persistent) in [("a.b", true), ("c", false)] {
        client.send(&format!(
            "SEND\ndestination:/topic/{topic}\nx-retain:true\npersistent:{persistent}\nreceipt:r\n\nfive!"
        ));
        client.frame();
    }
    let (code, listed, _) = run(&mut hermod("subscriptions", dir.path()));
    assert!(code == 0 && listed.contains("\ttrue\ttrue\tconvert_string_expressions:n > 1\t"), "{listed}");
    let listed = || {
        let (code, listed, _) = run(hermod("retained", dir.path()).args(["list", "--json"]));
        let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
        let of = |one: &serde_json::Value| {
            format!("{} {} {} {}", one["exchange"], one["topic"], one["body_bytes"], one["persistent"])
        };
        (code, listed.iter().map(of).collect::<Vec<_>>())
    };
    assert_eq!(listed(), (0, vec![r#""amq.topic" "a.b" 5 true"#.to_owned(), r#""amq.topic" "c" 5 false"#.to_owned()]));
    let remove = |topic: &str| run(hermod("retained", dir.path()).args(["remove", "amq.topic", topic])).0;
    assert_eq!((remove("a.b"), remove("none")), (0, 0));
    assert_eq!(listed().1, [r#""amq.topic" "c" 5 false"#]);
    assert_eq!(run(hermod("retained", dir.path()).args(["remove", "none", "c"])).0, 66);
    let subscriptions = json("subscriptions", &dir);
    let queue = subscriptions[0]["queue"].as_str().unwrap();
    let (code, said, _) = run(hermod("subscriptions", dir.path()).args(["delete", queue]));
    assert_eq!((code, said.as_str()), (0, "0 messages dropped\n"));
    assert_eq!(json("subscriptions", &dir), serde_json::json!([]));
    assert_eq!(json("wills", &dir), serde_json::json!([]));
    let (code, _, said) = run(hermod("wills", dir.path()).args(["remove", "guest", "c"]));
    assert!(code == 66 && said.contains("no will of client 'c' of user 'guest'"), "{said}");
}

#[test]
fn a_connection_is_closed_by_number_and_its_client_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    let id = json("connections", &dir)[0]["pid"].to_string();
    let (code, _, stderr) = run(hermod("connections", dir.path()).args(["close", &id, "--reason", "moving house"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let last = client.frame();
    assert!(last.starts_with("ERROR\n") && last.contains("moving house"), "{last}");
    assert!(client.is_closed());
    until("an empty list", || json("connections", &dir).as_array().unwrap().is_empty());
    let (code, _, stderr) = run(hermod("connections", dir.path()).args(["close", &id]));
    assert_eq!((code, stderr), (66, format!("hermod: there is no connection {id}\n")));
}

/// Who opens 1883 in a firewall opens it for MQTT.
#[test]
fn a_port_speaks_the_protocol_that_it_is_named_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let (amqp, stomp) = (&b"AMQP\0\0\x09\x01"[..], &b"CONNECT\naccept-version:1.2\n\n\0"[..]);
    for (port, said, answered, remedy) in
        [(server.ports.amqp, stomp, amqp, "use ports.stomp"), (server.ports.stomp, amqp, b"ERROR\n", "use ports.amqp")]
    {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut socket, said).unwrap();
        let mut answer = vec![0; answered.len()];
        std::io::Read::read_exact(&mut socket, &mut answer).unwrap();
        assert_eq!(answer.escape_ascii().to_string(), answered.escape_ascii().to_string());
        let line = server.until_logged("a client speaks another protocol");
        assert!(line.contains(remedy), "{line}");
    }
}

#[test]
fn config_shows_values_and_their_origin() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    std::fs::write(&file, "[limits]\nheartbeat = '30 s'\n").unwrap();
    let mut command = hermod("config", dir.path());
    let (code, stdout, _) = run(command.arg("--json").arg("--config").arg(&file).env("HERMOD_LOG_FORMAT", "json"));
    let shown: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    let origin = format!("{}:2", file.display());
    assert_eq!(shown["limits.heartbeat"], serde_json::json!({ "value": "30 s", "origin": origin }));
    assert_eq!(shown["log.format"]["origin"], "HERMOD_LOG_FORMAT");
    assert_eq!(shown["default_pass"]["value"], "(hidden)");
    assert_eq!(shown["bind"]["origin"], "default");
}

/// `hermod config | head -1`: the reader closes the pipe early, which must not be an error or a
/// panic.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = hermod("config", dir.path()).args(flags).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{flags:?}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let child = hermod("config", dir.path()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(74), "{stderr}");
    assert!(stderr.starts_with("hermod: standard output: "), "{stderr}");
}
