//! `hermod standby` and `hermod promote`, with real processes: followed, killed, handed over,
//! copied again, and refused.

mod confirms;
mod damaged;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::api::GUEST;
use crate::native::check;
use crate::remote::program;
use crate::server::{HANG, Ports, Server, free_port, hermod, run, serve, until};
use crate::stomp::Stomp;

/// A log so small that files leave it all the time.
const SMALL: &[&str] =
    &["--journal-max-bytes", "2MiB", "--journal-file-bytes", "256KiB", "--limits-max-message-size", "64KiB"];

/// A log of a few seconds of load. When nothing is kept for a follower, files leave from 8 MiB on.
const LARGER: &[&str] = &[
    "--journal-max-bytes",
    "32MiB",
    "--journal-file-bytes",
    "1MiB",
    "--limits-max-message-size",
    "64KiB",
    "--nodes-keep",
    "24MiB",
];

/// A node with its directory and its ports, whatever it does now.
struct Node {
    folder: tempfile::TempDir,
    ports: Ports,
    nodes: String,
    /// The flags of its log.
    log: &'static [&'static str],
}

/// A process that follows.
struct Follower {
    child: Child,
    log: Receiver<String>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    fn new() -> Self {
        Self::with(SMALL)
    }

    fn with(log: &'static [&'static str]) -> Self {
        let nodes = format!("127.0.0.1:{}", free_port());
        Self { folder: tempfile::tempdir().unwrap(), ports: Ports::free(), nodes, log }
    }

    fn data(&self) -> &Path {
        self.folder.path()
    }

    /// Has it serve.
    fn serve(&self) -> Server {
        let mut command = serve(self.data(), self.ports);
        Server::spawn(command.args(self.log).args(["--nodes-listen", &self.nodes]), self.ports)
    }

    /// A token for another node.
    fn invite(&self) -> String {
        let (code, token, error) = run(hermod("cluster", self.data()).args(["invite"]));
        assert_eq!((code, error.as_str()), (0, ""), "{token}");
        token.trim().to_owned()
    }

    /// The command that has it follow.
    fn standby(&self, arguments: &[&str]) -> Command {
        let mut command = serve(self.data(), self.ports);
        let flags: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
        command = hermod("standby", self.data());
        command.args(flags.iter().skip(2)).args(self.log).args(["--nodes-listen", &self.nodes]).args(arguments);
        command
    }

    /// Has it follow.
    fn follow(&self, arguments: &[&str]) -> Follower {
        let mut command = self.standby(arguments);
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let (sender, log) = channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Follower { child, log }
    }

    /// What it says of itself while it follows; null before it answers.
    fn status(&self) -> serde_json::Value {
        let (code, text, _) = run(hermod("cluster", self.data()).args(["status", "--json"]));
        if code == 0 { serde_json::from_str(&text).unwrap() } else { serde_json::Value::Null }
    }

    /// Waits until it has everything that was flushed on its leader before this call.
    fn catch_up(&self) {
        let begin = Instant::now();
        until("the standby to catch up", || {
            let (asked, status) = (Instant::now(), self.status());
            let lag = status["lag_ms"].as_u64().map(Duration::from_millis);
            status["state"] == "following" && lag.is_some_and(|lag| asked.duration_since(begin) > lag)
        });
    }

    fn promote(&self, flags: &[&str]) -> (i32, String, String) {
        run(hermod("promote", self.data()).args(flags))
    }

    /// The bodies in a queue, in order.
    fn bodies(&self, queue: &str, count: usize) -> Vec<String> {
        let mut consumer = Stomp::connect_to(self.ports.stomp);
        consumer.send(&format!("SUBSCRIBE\nid:0\ndestination:/queue/{queue}\nack:auto\n\n"));
        (0..count).map(|_| consumer.frame().rsplit_once("\n\n").unwrap().1.to_owned()).collect()
    }
}

impl Follower {
    fn until_logged(&self, text: &str) {
        loop {
            match self.log.recv_timeout(HANG) {
                Ok(line) if line.contains(text) => return,
                Ok(_) => {}
                Err(error) => panic!("no line with {text}: {error}"),
            }
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn publish(port: u16, range: std::ops::Range<usize>) {
    let mut client = Stomp::connect_to(port);
    range.for_each(|number| client.publish("q", &body(number)));
}

fn body(number: usize) -> String {
    format!("{number:06}{}", "x".repeat(200))
}

fn expected(count: usize) -> Vec<String> {
    (0..count).map(body).collect()
}

#[test]
fn a_standby_takes_over_from_a_node_that_was_killed_and_fences_it() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    publish(one.ports.stomp, 0..30);
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    publish(one.ports.stomp, 30..60);
    two.catch_up();
    // It is there for probes, and for no client.
    let (code, _, error) = run(&mut hermod("health", two.data()));
    assert!(code == 69 && error.contains("serves no clients"), "{error}");
    let (code, text, error) = run(&mut hermod("status", two.data()));
    let shows = |words: &[&str]| words.iter().all(|words| text.contains(words));
    assert!(code == 0 && shows(&["standby: ", &one.nodes, "up to date as of", "0 entries"]), "{text}{error}");
    let (code, text, _) = run(&mut hermod("status", one.data()));
    assert!(code == 0 && text.contains("leader; ") && text.contains(" follows, 0 entries, "), "{text}");
    let (code, text, _) = run(hermod("status", one.data()).arg("--json"));
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && status["role"] == "leader" && status["followers"][0]["state"] == "following", "{text}");
    assert!(std::net::TcpStream::connect(("127.0.0.1", two.ports.stomp)).is_err());
    let (code, rows, _) = run(hermod("cluster", one.data()).args(["status", "--json"]));
    assert!(code == 0 && rows.contains(r#""state": "following""#) || rows.contains(r#""state":"following""#), "{rows}");
    let (code, _, error) = two.promote(&[]);
    assert!(code == 64 && error.contains("--yes"), "{error}");

    leader.signal("KILL");
    leader.wait();
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    assert!(text.contains("what that one has taken since is lost"), "{text}");
    standby.until_logged("Server startup complete");
    assert_eq!(two.bodies("q", 60), expected(60));

    // It comes back, asks, and does not serve, also when there is no node to ask.
    let (code, _, error) = run(serve(one.data(), one.ports).args(SMALL));
    assert!(code == 78 && error.contains("has taken its place in term 1"), "{error}");
    let (code, _, error) = run(serve(one.data(), one.ports).args(SMALL));
    assert!(code == 78 && error.contains("in term 1") && error.contains(&format!("--from {}", two.nodes)), "{error}");
    let (code, _, error) = run(hermod("standby", one.data()).args(["--from", &two.nodes]));
    assert!(code == 65 && error.contains("--replace"), "{error}");

    // It follows the other one now, and takes over again without a loss.
    let again = one.follow(&["--replace"]);
    again.until_logged("connected: following");
    let (code, text, error) = one.promote(&["--planned"]);
    assert_eq!(code, 0, "{text}{error}");
    again.until_logged("Server startup complete");
    publish(one.ports.stomp, 0..3);
    assert_eq!(one.bodies("q", 3), expected(3));
}

#[test]
fn a_node_that_serves_already_is_told_that_it_was_replaced() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    // They can't reach each other while one is stopped; it serves on, as no node can tell it.
    leader.signal("STOP");
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
    leader.signal("CONT");
    let (code, log) = leader.wait();
    assert_eq!(code, Some(78), "{log:?}");
    standby.until_logged("has heard that this one serves in term 1");
}

#[test]
fn nothing_is_lost_by_a_planned_switch_under_load() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    let mut standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    let confirmed = Arc::new(AtomicUsize::new(0));
    let (port, counts) = (one.ports.stomp, Arc::clone(&confirmed));
    let load = std::thread::spawn(move || {
        let mut client = Stomp::connect_to(port);
        for number in 0.. {
            client.publish("q", &body(number));
            counts.store(number + 1, Ordering::Release);
        }
    });
    until("some messages", || confirmed.load(Ordering::Acquire) > 100);
    let (code, text, error) = two.promote(&["--planned"]);
    assert_eq!(code, 0, "{text}{error}");
    assert!(load.join().is_err(), "its connection was closed");
    let (code, log) = leader.wait();
    assert_eq!(code, Some(78), "{log:?}");
    assert!(log.iter().any(|line| line.contains("everything is handed over")), "{log:?}");
    standby.until_logged("Server startup complete");
    let confirmed = confirmed.load(Ordering::Acquire);
    assert_eq!(two.bodies("q", confirmed), expected(confirmed));
    assert!(standby.child.try_wait().unwrap().is_none());

    // The old one says who serves now. Its operator may insist; the other one tells it again.
    let (code, _, error) = run(serve(one.data(), one.ports).args(SMALL));
    assert!(code == 78 && error.contains("has taken its place in term 1"), "{error}");
    let (code, text, _) = run(hermod("cluster", one.data()).args(["reinstate"]));
    assert!(code == 0 && text.contains("serves again"), "{text}");
    let (code, _, error) = run(serve(one.data(), one.ports).args(SMALL));
    assert!(code == 78 && error.contains("has taken its place in term 1"), "{error}");
    drop(standby);
    let (code, text, _) = run(hermod("cluster", one.data()).args(["reinstate"]));
    assert!(code == 0 && text.contains("serves again"), "{text}");
    drop(one.serve());
}

#[test]
fn a_standby_that_comes_too_late_begins_with_a_new_copy_and_survives_kills() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    publish(one.ports.stomp, 0..20);
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    // Until then the leader keeps all that it needs, for a minute, too, after it is gone.
    two.catch_up();
    standby.stop();
    let (code, _, error) = run(serve(two.data(), two.ports).args(SMALL));
    assert!(code == 78 && error.contains("run hermod standby"), "{error}");
    // More than the log holds.
    let mut client = Stomp::connect_to(one.ports.stomp);
    for _ in 0..200 {
        client.publish("gone", &"y".repeat(32_000));
    }
    let standby = two.follow(&[]);
    standby.until_logged("a new copy is begun");
    drop(standby);
    for pause in [0, 30, 60, 90, 120, 200, 300] {
        let standby = two.follow(&[]);
        std::thread::sleep(Duration::from_millis(pause));
        drop(standby);
    }
    let standby = two.follow(&[]);
    standby.until_logged("connected: following");
    publish(one.ports.stomp, 20..40);
    two.catch_up();
    drop(leader);
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
    assert_eq!(two.bodies("q", 40), expected(40));
    assert_eq!(two.bodies("gone", 200).len(), 200);
}

#[test]
fn a_standby_that_stood_still_under_load_arrives_with_one_more_copy_at_most() {
    let (one, two) = (Node::with(LARGER), Node::with(LARGER));
    let leader = one.serve();
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    two.catch_up();
    let (published, wanted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (port, counts, most) = (one.ports.stomp, Arc::clone(&published), Arc::clone(&wanted));
    let load = std::thread::spawn(move || {
        let mut client = Stomp::connect_to(port);
        let body = "y".repeat(60_000);
        // Until its broker ends.
        loop {
            if counts.load(Ordering::Acquire) < most.load(Ordering::Acquire) {
                client.publish("load", &body);
                counts.fetch_add(1, Ordering::Release);
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // So many and no more: a fast machine would publish beyond what is kept meanwhile.
    let more = |count: usize| {
        let goal = wanted.fetch_add(count, Ordering::AcqRel) + count;
        until("more messages", || published.load(Ordering::Acquire) >= goal);
    };
    // More than is on its way at most, 4 MiB, and than the log has by itself. It is kept for it.
    more(20);
    standby.signal("STOP");
    more(290);
    let (code, rows, _) = run(hermod("cluster", one.data()).args(["status", "--json"]));
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    // It has taken nothing since, and the leader waits for its socket.
    let one_row = |of: &str| rows["followers"][0][of].as_u64().unwrap();
    assert!(code == 0 && one_row("kept_bytes") > 290 * 60_000 - (3 << 20), "{rows}");
    assert!(one_row("lag_entries") >= 290 && one_row("lag_bytes") > 1 << 20, "{rows}");
    standby.signal("CONT");
    two.catch_up();
    let copies = two.status()["copies"].as_u64().unwrap();
    assert_eq!(copies, 1, "it goes on where it was");
    // Beyond that, and beyond what is on its way, a copy brings it back, whatever the load.
    standby.signal("STOP");
    more(460);
    wanted.store(usize::MAX, Ordering::Release);
    standby.signal("CONT");
    two.catch_up();
    let before = published.load(Ordering::Acquire);
    until("more messages", || published.load(Ordering::Acquire) >= before + 50);
    two.catch_up();
    let status = two.status();
    assert!(status["copies"].as_u64().unwrap() <= copies + 1, "{status}");
    leader.signal("KILL");
    leader.wait();
    assert!(load.join().is_err(), "its connection was closed");
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
}

#[test]
fn what_can_not_be_followed_is_refused_by_name() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    let token = one.invite();
    for (arguments, code, words) in [
        (&[][..], 64, "hermod cluster invite"),
        (&["--token", "nonsense"], 64, "no token, or only a part"),
        (&["--token", &token[1..]], 64, "no token, or only a part"),
        (&["--durability", "os", "--token", &token], 78, "durability = fsync"),
    ] {
        let (found, _, error) = run(hermod("standby", two.data()).args(arguments));
        assert!(found == code && error.contains(words), "{arguments:?}: {found} {error}");
    }
    let standby = two.follow(&["--token", &token]);
    standby.until_logged("connected: following");
    let three = Node::new();
    let (code, _, error) = run(hermod("standby", three.data()).args(["--token", &token]));
    assert!(code == 77 && error.contains("was used before"), "{error}");
    let (code, _, error) = run(hermod("promote", one.data()).args(["--yes"]));
    assert!(code == 73 && error.contains("follows none"), "{error}");
    let (code, _, error) = run(hermod("cluster", three.data()).args(["invite"]));
    assert!(code == 78 && error.contains("nodes.listen is not set here, and the broker can't be asked"), "{error}");
    let alone = Node::new();
    let server = Server::spawn(&mut serve(alone.data(), alone.ports), alone.ports);
    let (code, _, error) = run(hermod("cluster", alone.data()).args(["invite"]));
    assert!(code == 78 && error.contains("nodes.listen is not set there"), "{error}");
    drop(server);
    let (code, _, error) = run(hermod("cluster", one.data()).args(["reinstate"]));
    assert!(code == 73 && error.contains("was not replaced"), "{error}");
    // A standby that is the last one with the data can be asked over HTTP whether it lives.
    let paths = ["/health/live", "/health/ready", "/metrics", "/hermod/v1/standby"];
    let answers = paths.map(|path| get(two.ports.http, path));
    let codes: Vec<_> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(codes, [200, 503, 200, 200], "{answers:?}");
    assert!(answers[2].1.contains("hermod_standby_following 1"), "{}", answers[2].1);
    drop(leader);
}

#[test]
fn the_command_line_promotes_a_standby_by_its_url_and_the_audit_log_says_who_promoted_it() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    publish(one.ports.stomp, 0..10);
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    two.catch_up();
    let home = tempfile::tempdir().unwrap();
    let ask = |node: &Node, line: &str, password: &str| {
        let mut command = program(home.path());
        command.env("HERMOD_URL", format!("http://127.0.0.1:{}", node.ports.http));
        run(command.envs([("HERMOD_USER", "guest"), ("HERMOD_PASSWORD", password)]).args(line.split(' ')))
    };
    for (line, code, words) in [
        ("cluster status", 0, "following"),
        ("status", 0, "standby: "),
        ("health", 69, "and serves no clients"),
        ("queues", 69, "and serves no clients"),
        ("queues declare x", 69, "and serves no clients"),
        ("cluster invite", 64, "cluster invite works on the files of a node: run it on its machine"),
        ("promote", 64, "add --yes"),
    ] {
        let (ended, text, error) = ask(&two, line, "guest");
        assert!(ended == code && (text.contains(words) || error.contains(words)), "{line}: {ended} {text}{error}");
    }
    for (node, password, code, words) in [
        (&one, "guest", 73, "follows none"),
        (&two, "wrong", 77, "refuses user 'guest'"),
        (&two, "guest", 0, "nothing is lost"),
    ] {
        let (ended, text, error) = ask(node, "promote --planned", password);
        assert!(ended == code && (text.contains(words) || error.contains(words)), "{ended} {text}{error}");
    }
    standby.until_logged("Server startup complete");
    assert_eq!(leader.wait().0, Some(78));
    let audit = |node: &Node| run(hermod("audit", node.data()).args(["--columns", "who,via,action,outcome"])).1;
    let text = audit(&two);
    assert!(text.contains("\nguest\thttp\tpromote\tdone\n"), "{text}");

    let back = one.follow(&["--from", &two.nodes, "--replace"]);
    back.until_logged("connected: following");
    one.catch_up();
    let (code, text, error) = one.promote(&["--planned"]);
    assert_eq!(code, 0, "{text}{error}");
    back.until_logged("Server startup complete");
    let text = audit(&one);
    assert!(text.contains("\noperator\tcommand line\tpromote\tdone\n"), "{text}");
}

/// A standby is looked at and promoted over HTTP by the users of its leader; then by its page.
#[test]
fn a_standby_is_promoted_over_http_and_by_its_page() {
    let (one, two) = (Node::new(), Node::new());
    let leader = one.serve();
    publish(one.ports.stomp, 0..10);
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    two.catch_up();
    let schemas = serde_json::from_str::<serde_json::Value>(&get(one.ports.http, "/hermod/v1/openapi.json").1).unwrap()
        ["components"]["schemas"]
        .clone();
    let cluster = |port| {
        let (status, _, body) = ask(port, ("GET", "/hermod/v1/cluster"), GUEST, "");
        assert_eq!(status, 200, "{body}");
        let row: serde_json::Value = serde_json::from_str(&body).unwrap();
        check(&row, &schemas["cluster"]);
        row
    };
    let (leads, follows) = (cluster(one.ports.http), cluster(two.ports.http));
    check(&leads["followers"][0], &schemas["followers"]);
    assert_eq!((&leads["role"], &leads["followers"][0]["state"]), (&"leader".into(), &"following".into()));
    assert_eq!((&follows["role"], &follows["promotable"]), (&"standby".into(), &true.into()), "{follows}");
    assert!(follows["loss"].as_str().unwrap().contains("what that one has taken since is lost"), "{follows}");

    let promote = |document: &str| ask(two.ports.http, ("POST", "/hermod/v1/cluster/promote"), GUEST, document);
    let (status, _, body) = promote("{}");
    assert!(status == 409 && body.contains("were known to be missing"), "{status} {body}");
    assert_eq!(cluster(two.ports.http)["state"], "following", "it was asked what to do");
    let (status, _, body) = promote(r#"{"planned": true}"#);
    assert!(status == 200 && body.contains("nothing is lost"), "{status} {body}");
    check(&serde_json::from_str(&body).unwrap(), &schemas["promotion"]);
    standby.until_logged("Server startup complete");
    let (code, log) = leader.wait();
    assert_eq!(code, Some(78), "{log:?}");
    assert_eq!(promote(r#"{"planned": true}"#).0, 409, "it leads now");

    // Back again by the page, with what the form needs.
    let back = one.follow(&["--from", &two.nodes, "--replace"]);
    back.until_logged("connected: following");
    one.catch_up();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let (status, cookie, _) = ask(one.ports.http, ("POST", "/login"), form, "user=guest&password=guest");
    assert_eq!(status, 303);
    let headers = format!("{form}Cookie: {cookie}\r\nOrigin: http://localhost\r\n");
    let (_, _, page) = ask(one.ports.http, ("GET", "/"), &headers, "");
    assert!(page.contains("It follows its leader.") && page.contains("Promote at once…"), "{page}");
    let (status, _, page) = ask(one.ports.http, ("POST", "/promote"), &headers, "how=now&name=other");
    assert!(status == 400 && page.contains("not the name of this node"), "{page}");
    let forged = format!("{headers}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(ask(one.ports.http, ("POST", "/promote"), &forged, "how=planned").0, 403);
    let (status, _, page) = ask(one.ports.http, ("POST", "/promote"), &headers, "how=planned");
    assert!(status == 200 && page.contains("it serves from now on"), "{status} {page}");
    back.until_logged("Server startup complete");
    assert_eq!(one.bodies("q", 10), expected(10));
}

fn get(port: u16, path: &str) -> (u16, String) {
    let (status, _, body) = ask(port, ("GET", path), "", "");
    (status, body)
}

/// The status, the cookie that is set, and the body of an answer.
fn ask(port: u16, (method, path): (&str, &str), headers: &str, document: &str) -> (u16, String, String) {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let length = document.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{document}"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_default();
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), cookie, body.to_owned())
}
