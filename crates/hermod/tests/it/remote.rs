//! The command line against a broker that it knows by its URL only, over HTTP.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// The program without a data directory. `home` has the contexts.
pub(crate) fn program(home: &Path) -> Command {
    let mut command = Command::new(hermod("", home).get_program());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMOD_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", home).stdin(Stdio::null());
    command
}

/// Each line, its exit code, and its output on both streams, with tabs as bars.
fn check(home: &Path, before: &[&str], lines: &[(&str, i32, &str)]) {
    for (line, code, said) in lines {
        let (ended, stdout, stderr) = run(program(home).args(before).args(line.split(' ')));
        assert_eq!((ended, (stdout + &stderr).replace('\t', "|").as_str()), (*code, *said), "{line}");
    }
}

#[test]
fn a_broker_on_another_machine_is_asked_and_changed_by_the_same_verbs() {
    let [dir, home] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let server = Server::start(dir.path(), &[]);
    let url = format!("http://127.0.0.1:{}", server.ports.http);
    let home = home.path();
    check(
        home,
        &["--url", &url],
        &[
            ("queues declare orders", 0, ""),
            ("queues --columns vhost,name,ready", 0, "vhost|name|messages_ready\n/|orders|0\n"),
            ("queues list --vhost none", 66, &format!("hermod: {url}: Not Found\n")),
            ("exchanges declare x --type fanout", 0, ""),
            ("bindings declare x orders", 0, ""),
            ("bindings --where source=x --columns destination", 0, "destination\norders\n"),
            (
                "exchanges declare x --type topic",
                73,
                "hermod: inequivalent arg 'type' for exchange 'x' in vhost '/': received 'topic' but current is 'fanout'\n",
            ),
            ("policies set short ^q {\"max-length\":1}", 0, ""),
            ("policies --columns name", 0, "name\nshort\n"),
            ("vhosts add v", 0, ""),
            ("trace on --vhost v", 0, ""),
            ("trace", 0, "name|tracing\n/|false\nv|true\n"),
            ("alarms set disk", 0, ""),
            ("alarms", 0, "disk\n"),
            ("alarms clear disk", 0, ""),
            ("losses", 0, "at|vhost|reason|queue|exchange|routing_key|body_bytes\n"),
            ("connections strangers", 0, "peer|protocol|received|sent\n"),
            ("users add ada --password p --tags monitoring", 0, ""),
            ("users authenticate ada --password p", 0, ""),
            (
                "users authenticate ada --password q",
                77,
                "hermod: there is no user 'ada', or that is not its password\n",
            ),
            (
                "backup /tmp/nowhere",
                64,
                "hermod: backup and repair work on the files of a server: run them on its machine, without --url and \
                 context\n",
            ),
        ],
    );
    let mut client = Stomp::connect(&server);
    client.send("SEND\ndestination:/exchange/x\nreceipt:r\n\nbody");
    assert!(client.frame().starts_with("RECEIPT"));
    let remote = |line: &str| run(program(home).args(["--url", &url]).args(line.split(' ')));
    let (code, browsed, _) = remote("browse orders");
    assert!(code == 0 && browsed.ends_with("\tbody\n"), "{browsed}");
    let (code, status, _) = remote("status");
    assert!(code == 0 && status.contains("1 ready"), "{status}");
    let (code, exported, _) = remote("export");
    assert!(code == 0 && exported.contains("\"orders\""), "{exported}");
    let (code, redriven, _) = remote("redrive orders --dry-run");
    assert_eq!((code, redriven.as_str()), (0, "orders: 0 messages would go back\norders: 1 never died\n"));
    let line = server.until_logged("declare_queue");
    assert!(line.contains("guest") && line.contains("127.0.0.1"), "the audit log names user and address: {line}");
}

/// What the same line says over the control socket.
fn said_locally(dir: &Path, line: &str) -> String {
    let mut words = line.split(' ');
    run(hermod(words.next().unwrap(), dir).args(words)).2
}

#[test]
fn a_user_sees_and_does_what_its_tags_allow() {
    let [dir, home] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let server = Server::start(dir.path(), &[]);
    let url = format!("http://127.0.0.1:{}", server.ports.http);
    let local = |line: &str| assert_eq!(said_locally(dir.path(), line), "", "{line}");
    local("users add ada --password p --tags monitoring");
    local("queues declare orders");
    let as_ada = |password: &str, line: &str| {
        let mut command = program(home.path());
        command.env("HERMOD_URL", &url).env("HERMOD_USER", "ada").env("HERMOD_PASSWORD", password);
        run(command.args(line.split(' ')))
    };
    assert_eq!(as_ada("p", "queues --columns name"), (0, "name\norders\n".to_owned(), String::new()));
    for (password, line) in [("p", "queues delete orders"), ("p", "users"), ("p", "status"), ("q", "queues")] {
        let (code, _, stderr) = as_ada(password, line);
        assert!(code == 77 && stderr.contains("refuses user 'ada'"), "{line}: {code} {stderr}");
    }
    // The contents of a queue take the right to read from it, also from an administrator.
    local("users add root --password p --tags administrator");
    let as_root = |line: &str| {
        let mut command = program(home.path());
        command.env("HERMOD_URL", &url).env("HERMOD_USER", "root").env("HERMOD_PASSWORD", "p");
        run(command.args(line.split(' ')))
    };
    let (code, _, stderr) = as_root("browse orders");
    assert!(code == 77 && stderr.contains("read access to queue 'orders'"), "{code} {stderr}");
    local("permissions set root ^$ ^$ ^orders$");
    assert_eq!(as_root("browse orders").0, 0);
    let closed = "http://127.0.0.1:1";
    for (before, code, words) in [
        (&["--url", closed][..], 69, "no answer from http://127.0.0.1:1"),
        (&["--url", "amqp://x"], 64, "'amqp://x' is no URL of HTTP; write it such as http://host:15672"),
        (&["--url", &url, "--user", "ada"], 64, "no password: give it with --password-file, or in HERMOD_PASSWORD"),
        (&["--context", "none"], 66, "there is no context 'none'; hermod context lists them"),
    ] {
        let (found, _, stderr) = run(program(home.path()).args(before).arg("queues"));
        assert!(found == code && stderr.contains(words), "{before:?}: {found} {stderr}");
    }
}

#[test]
fn contexts_are_kept_for_their_owner_and_show_no_password() {
    let [dir, home] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let server = Server::start(dir.path(), &[]);
    let (url, home) = (format!("http://127.0.0.1:{}", server.ports.http), home.path());
    assert_eq!(said_locally(dir.path(), "users add ada --password s3cret --tags administrator"), "");
    let mut child = program(home)
        .args(["context", "add", "prod", &url, "--user", "ada"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"s3cret\n").unwrap();
    assert!(child.wait().unwrap().success());
    let head = "name|url|user|current\n";
    check(
        home,
        &[],
        &[
            ("context", 0, &format!("{head}prod|{url}|ada\n")),
            ("context use prod", 0, ""),
            ("context list", 0, &format!("{head}prod|{url}|ada|yes\n")),
            ("users --columns name", 0, "name\nada\nguest\n"),
            ("--context local context", 0, &format!("{head}prod|{url}|ada|yes\n")),
            ("context use none", 66, "hermod: there is no context 'none'; hermod context lists them\n"),
            ("context add local http://x", 64, "hermod: 'local' is no name for a context: choose another\n"),
            ("context use local", 0, ""),
            ("context remove prod", 0, ""),
            ("context", 0, head),
        ],
    );
}

/// Publishing and consuming by shell, over the control socket and over HTTP.
#[test]
fn messages_are_published_and_taken_by_the_command_line() {
    let [dir, home] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let server = Server::start(dir.path(), &[]);
    let url = format!("http://127.0.0.1:{}", server.ports.http);
    let local = ["--data-dir", dir.path().to_str().unwrap()];
    let remote = ["--url", url.as_str()];
    assert_eq!(said_locally(dir.path(), "queues declare q"), "");
    for (before, after) in [(&[][..], &local[..]), (&remote[..], &[])] {
        let say = |words: &[&str], input: &[u8]| {
            let mut command = program(home.path());
            command.args(before).arg(words[0]).args(after).args(&words[1..]);
            let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = streams.spawn().unwrap();
            // A command that refuses its arguments reads nothing.
            let _ = child.stdin.take().unwrap().write_all(input);
            let output = child.wait_with_output().unwrap();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
        };
        let done = |text: &str| (0, text.to_owned(), String::new());
        let header = ["publish", "q", "body", "--header", "color=red", "--header", "n:=5", "--property", "priority=3"];
        assert_eq!(say(&header, b""), done("1 message confirmed\n"));
        assert_eq!(say(&["publish", "q", "--lines"], b"one\ntwo\n"), done("2 messages confirmed\n"));
        assert_eq!(say(&["publish", "q", "--count", "2"], b"\x00\xff"), done("2 messages confirmed\n"));
        let (code, stdout, stderr) = say(&["publish", "nowhere", "x", "--json"], b"");
        assert_eq!((code, stdout.as_str()), (66, "{\"confirmed\":0,\"unroutable\":1}\n"));
        assert!(stderr.contains("1 message reached no queue"), "{stderr}");
        let (code, row, _) = say(&["consume", "q", "--json", "--count", "1"], b"");
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert_eq!((code, &row["payload"], &row["properties"]["priority"]), (0, &"body".into(), &3.into()));
        assert_eq!(row["properties"]["headers"], serde_json::json!({ "color": "red", "n": 5 }));
        assert_eq!(row["properties"]["delivery_mode"], 2);
        assert_eq!(say(&["consume", "q", "--count", "2"], b""), done("one\ntwo\n"));
        let (_, bytes, _) = say(&["consume", "q"], b"");
        assert_eq!(bytes.matches('\0').count(), 2, "bytes are those of the message");
        assert_eq!(say(&["consume", "q"], b""), done(""));
        assert_eq!(say(&["consume", "none"], b"").0, 66);
        let (code, _, stderr) = say(&["publish", "q", "x", "--property", "nonsense=1"], b"");
        assert!(code == 73 && stderr.contains("there is no property 'nonsense'"), "{code} {stderr}");
        let (code, top, _) = say(&["top", "--count", "1", "--interval", "1"], b"");
        assert!(code == 0 && top.contains("published") && top.contains("/\tq\t0\t0\t0\t"), "{top}");
    }
}
