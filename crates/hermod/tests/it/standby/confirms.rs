//! Confirms that wait for a standby, with real processes: stopped, killed, alone, and awaited
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Node, SMALL, body, expected, get, publish};
use crate::server::{Server, hermod, run, serve, until};
use crate::stomp::Stomp;

const ALWAYS: &[&str] = &[
    "--journal-max-bytes",
    "2MiB",
    "--journal-file-bytes",
    "256KiB",
    "--limits-max-message-size",
    "64KiB",
    "--nodes-confirms-wait",
    "always",
];

const A_SECOND: &[&str] = &[
    "--journal-max-bytes",
    "2MiB",
    "--journal-file-bytes",
    "256KiB",
    "--limits-max-message-size",
    "64KiB",
    "--nodes-confirms-wait",
    "1s",
];

/// What a node that serves says of the others.
fn cluster(node: &Node) -> serde_json::Value {
    let (code, text, error) = run(hermod("cluster", node.data()).args(["status", "--json"]));
    assert_eq!(code, 0, "{text}{error}");
    serde_json::from_str(&text).unwrap()
}

fn until_confirms_are(node: &Node, confirms: &str) {
    until(&format!("confirms that are {confirms}"), || cluster(node)["confirms"] == confirms);
}

/// Publishes on and on, until its broker ends.
fn load(port: u16) -> (Arc<AtomicUsize>, std::thread::JoinHandle<()>) {
    let confirmed = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&confirmed);
    let thread = std::thread::spawn(move || {
        let mut client = Stomp::connect_to(port);
        for number in 0.. {
            client.publish("q", &body(number));
            counts.store(number + 1, Ordering::Release);
        }
    });
    (confirmed, thread)
}

#[test]
fn no_confirm_comes_while_the_standby_stands_still_and_none_is_lost_with_the_leader() {
    let (one, two) = (Node::with(ALWAYS), Node::with(ALWAYS));
    let leader = one.serve();
    let token = one.invite();
    // Before there is a standby none comes either.
    let (confirmed, load) = load(one.ports.stomp);
    until("a confirm that waits", || cluster(&one)["confirms_waited_ms"].as_u64().unwrap() > 300);
    assert_eq!(confirmed.load(Ordering::Acquire), 0);
    let standby = two.follow(&["--token", &token]);
    until("some confirms", || confirmed.load(Ordering::Acquire) > 50);

    standby.signal("STOP");
    until("confirms that wait", || cluster(&one)["confirms_waited_ms"].as_u64().unwrap() > 300);
    let before = confirmed.load(Ordering::Acquire);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(confirmed.load(Ordering::Acquire), before);
    // A declaration promises something, too; what only looks does not wait.
    let mut other = Stomp::connect_to(one.ports.stomp);
    other.send("SUBSCRIBE\nid:0\ndestination:/queue/new\nreceipt:s\n\n");
    let (code, text, error) = run(&mut hermod("status", one.data()));
    assert!(code == 0 && text.contains("role"), "{text}{error}");
    standby.signal("CONT");
    until("more confirms", || confirmed.load(Ordering::Acquire) > before + 50);
    assert!(other.frame().starts_with("RECEIPT\n"));
    until_confirms_are(&one, "replicated");

    leader.signal("KILL");
    leader.wait();
    assert!(load.join().is_err(), "its connection was closed");
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
    // It waits for a standby of its own, also with what says that something is delivered.
    let again = one.follow(&["--replace", "--from", &two.nodes]);
    again.until_logged("connected: following");
    let confirmed = confirmed.load(Ordering::Acquire);
    assert_eq!(two.bodies("q", confirmed), expected(confirmed));
}

#[test]
fn a_leader_goes_on_alone_after_the_time_that_it_waits_and_says_so_until_the_standby_is_level() {
    let (one, two) = (Node::with(A_SECOND), Node::with(A_SECOND));
    let leader = one.serve();
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    publish(one.ports.stomp, 0..20);
    until_confirms_are(&one, "replicated");
    standby.signal("STOP");
    publish(one.ports.stomp, 20..21);
    assert_eq!(cluster(&one)["confirms"], "alone");
    publish(one.ports.stomp, 21..40);
    // It is said wherever an operator looks.
    for (verb, words) in
        [("alarms", "standby"), ("status", "Confirms rest on this node alone"), ("cluster", "node alone")]
    {
        let mut command = hermod(verb, one.data());
        let (code, text, error) = run(if verb == "cluster" { command.arg("status") } else { &mut command });
        assert!(code == 0 && text.contains(words), "{verb}: {text}{error}");
    }
    let (_, metrics) = get(one.ports.http, "/metrics");
    assert!(metrics.contains("\nhermod_confirms_alone 1\n"), "{metrics}");
    standby.signal("CONT");
    until_confirms_are(&one, "replicated");
    let (code, text, _) = run(&mut hermod("alarms", one.data()));
    assert!(code == 0 && !text.contains("standby"), "{text}");
    publish(one.ports.stomp, 40..60);

    leader.signal("KILL");
    let (_, log) = leader.wait();
    let logged = |words: &str| log.iter().any(|line| line.contains(words));
    assert!(logged("this node confirms alone") && logged("confirms wait for it again"), "{log:?}");
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("it confirms alone");
    standby.until_logged("Server startup complete");
    assert_eq!(two.bodies("q", 60), expected(60));
    // The one that would follow it is gone, so it serves at once.
    assert_eq!(cluster(&two)["confirms"], "alone");
    let again = one.follow(&["--replace", "--from", &two.nodes]);
    again.until_logged("connected: following");
    until_confirms_are(&two, "replicated");
}

#[test]
fn what_a_start_finds_is_not_confirmed_before_the_standby_has_it() {
    let (one, two) = (Node::with(ALWAYS), Node::with(ALWAYS));
    let leader = one.serve();
    let standby = two.follow(&["--token", &one.invite()]);
    standby.until_logged("connected: following");
    let mut client = Stomp::connect_to(one.ports.stomp);
    client.send("SUBSCRIBE\nid:0\ndestination:/queue/once\nx-message-deduplication:true\nack:client\nreceipt:s\n\n");
    assert!(client.frame().starts_with("RECEIPT\n"));
    client.send("UNSUBSCRIBE\nid:0\nreceipt:u\n\n");
    assert!(client.frame().starts_with("RECEIPT\n"));
    let send = |client: &mut Stomp| {
        client.send("SEND\ndestination:/amq/queue/once\nx-deduplication-header:7\npersistent:true\nreceipt:p\n\nonce");
    };
    standby.signal("STOP");
    send(&mut client);
    until("a confirm that waits", || cluster(&one)["confirms_waited_ms"].as_u64().unwrap() > 100);
    leader.signal("KILL");
    leader.wait();
    // The message is on the disk of the leader alone, so its repetition is no more safe than it.
    let leader = one.serve();
    let mut client = Stomp::connect_to(one.ports.stomp);
    send(&mut client);
    until("a confirm that waits", || cluster(&one)["confirms_waited_ms"].as_u64().unwrap() > 300);
    assert!(client.is_silent(Duration::from_millis(200)));
    standby.signal("CONT");
    assert!(client.frame().starts_with("RECEIPT\n"));
    drop(leader);
    let (code, text, error) = two.promote(&["--yes"]);
    assert_eq!(code, 0, "{text}{error}");
    standby.until_logged("Server startup complete");
    let again = one.follow(&["--replace", "--from", &two.nodes]);
    again.until_logged("connected: following");
    let mut client = Stomp::connect_to(two.ports.stomp);
    client.send("SUBSCRIBE\nid:0\ndestination:/amq/queue/once\nack:auto\n\n");
    assert!(client.frame().ends_with("\n\nonce"));
}

#[test]
fn a_server_whose_confirms_wait_ends_when_it_is_told_to() {
    let one = Node::with(ALWAYS);
    let leader = one.serve();
    let mut client = Stomp::connect_to(one.ports.stomp);
    client.send("SEND\ndestination:/queue/q\npersistent:true\nreceipt:p\n\nbody");
    let mut declares = hermod("queues", one.data());
    let mut declares = declares.args(["declare", "other"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("a confirm that waits", || cluster(&one)["confirms_waited_ms"].as_u64().unwrap() > 300);
    leader.signal("TERM");
    let (code, log) = leader.wait();
    assert_eq!(code, Some(0), "{log:?}");
    let _ = declares.wait();
}

#[test]
fn confirms_that_can_not_wait_are_refused_by_name() {
    let node = Node::with(SMALL);
    for (flags, words) in [
        (
            &["--nodes-confirms-wait", "10s"][..],
            "nodes.confirms_wait: no node can follow, since nodes.listen is not set",
        ),
        (&["--nodes-confirms-wait", "1ms"], "'1ms' is none of never, always, and times from 100 ms on"),
        (&["--nodes-confirms-wait", "always", "--nodes-listen", "127.0.0.1:1", "--durability", "os"], "must be fsync"),
    ] {
        let (code, _, error) = run(serve(node.data(), node.ports).args(flags));
        assert!(code == 78 && error.contains(words), "{flags:?}: {code} {error}");
    }
    // On a standby, too: it would serve with these settings.
    let flags = ["--nodes-confirms-wait", "10s"];
    let (code, _, error) = run(hermod("standby", node.data()).args(flags));
    assert!(code == 78 && error.contains("nodes.listen is not set"), "{error}");
    drop(Server::spawn(serve(node.data(), node.ports).args(["--nodes-confirms-wait", "never"]), node.ports));
}
