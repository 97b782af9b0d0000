//! `hermod backup`: copies of a broker under load, and refusals.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::server::{Server, hermod, run, until};
use crate::stomp::Stomp;

/// A log so small that most of a backlog moves out of it.
const SMALL: [&str; 6] =
    ["--journal-max-bytes", "2MiB", "--journal-file-bytes", "256KiB", "--limits-max-message-size", "64KiB"];

fn body(number: usize) -> String {
    format!("{number:06}{}", "abcdefgh".repeat(500 + number % 7))
}

fn backup(server: &Path, to: &Path) -> (i32, String, String) {
    run(hermod("backup", server).arg(to).arg("--json"))
}

/// Stops the load, also if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Publishes to `kept` until `stop`, and counts confirmed messages.
fn keep(port: u16, confirmed: &AtomicUsize, stop: &AtomicBool) {
    let mut client = Stomp::connect_to(port);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        client.publish("kept", &body(number));
        confirmed.store(number + 1, Ordering::Release);
    }
}

/// Publishes to `worked`, consumes and acknowledges until `stop`. Counts the acknowledgements that
/// are certain.
fn work(port: u16, acknowledged: &AtomicUsize, stop: &AtomicBool) {
    let mut client = Stomp::connect_to(port);
    let mut consumer = Stomp::connect_to(port);
    consumer.send("SUBSCRIBE\nid:0\ndestination:/queue/worked\nack:client-individual\n\n");
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        client.publish("worked", &body(number));
        let message = consumer.frame();
        let id = message.lines().find_map(|line| line.strip_prefix("ack:")).unwrap();
        consumer.send(&format!("ACK\nid:{id}\nreceipt:a\n\n"));
        assert!(consumer.frame().starts_with("RECEIPT\n"));
        acknowledged.store(number + 1, Ordering::Release);
    }
}

/// All messages of a queue, in order.
fn drain(server: &Server, copy: &Path, queue: &str) -> Vec<String> {
    let (_, listed, _) = run(hermod("queues", copy).arg("--json"));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == queue).unwrap();
    let mut client = Stomp::connect(server);
    client.send(&format!("SUBSCRIBE\nid:0\ndestination:/queue/{queue}\nack:auto\n\n"));
    let texts = (0..row["messages_ready"].as_u64().unwrap()).map(|_| {
        let frame = client.frame();
        frame.split_once("\n\n").map(|(_, text)| text.to_owned()).unwrap()
    });
    texts.collect()
}

#[test]
fn copies_of_a_broker_under_load_hold_what_was_confirmed_before_and_nothing_that_was_done_with() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &SMALL);
    let port = server.ports.stomp;
    let (confirmed, acknowledged, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| keep(port, &confirmed, &stop));
        scope.spawn(|| work(port, &acknowledged, &stop));
        for round in 1..=3 {
            let goal = 700 * round;
            until("the load", || confirmed.load(Ordering::Acquire).min(acknowledged.load(Ordering::Acquire)) >= goal);
            let (kept, done) = (confirmed.load(Ordering::Acquire), acknowledged.load(Ordering::Acquire));
            let copy = dir.path().join(format!("copies/{round}"));
            let (code, stdout, stderr) = backup(&data, &copy);
            assert_eq!((code, stderr.as_str()), (0, ""));
            let (kept_after, done_after) =
                (confirmed.load(Ordering::Acquire) + 1, acknowledged.load(Ordering::Acquire));
            let told: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            let files = std::fs::read_dir(copy.join("wal")).unwrap().count()
                + std::fs::read_dir(copy.join("cold")).unwrap().count();
            assert_eq!(told["files"], files + 1, "{stdout}");
            assert!(std::fs::read_dir(copy.join("cold")).unwrap().count() > 0, "a part has left the log");
            let (code, stdout, stderr) = run(hermod("verify", &copy).arg(&copy));
            assert_eq!(code, 0, "{stdout}{stderr}");

            let other = Server::start(&copy, &SMALL);
            let texts = drain(&other, &copy, "kept");
            assert!((kept..=kept_after).contains(&texts.len()), "{kept} {} {kept_after}", texts.len());
            assert!(texts.iter().enumerate().all(|(number, text)| *text == body(number)));
            for text in drain(&other, &copy, "worked") {
                let number = text[..6].parse().unwrap();
                assert!((done..=done_after).contains(&number) && text == body(number), "{done} {number} {done_after}");
            }
            other.signal("TERM");
            assert_eq!(other.wait().0, Some(0));
        }
    });
    server.signal("TERM");
    let (code, log) = server.wait();
    assert_eq!(code, Some(0));
    assert_eq!(log.iter().filter(|line| line.contains("backup to") && line.contains("done")).count(), 3, "{log:?}");
    let (code, stdout, _) = run(hermod("verify", &data).arg(&data));
    assert_eq!(code, 0, "{stdout}");
}

#[test]
fn a_directory_that_will_not_do_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let full = dir.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("letter"), "x").unwrap();
    for (to, why) in [
        (full.clone(), "it is not empty (letter); name a new or an empty directory"),
        (data.join("copy"), "it lies in the data directory"),
        (data.clone(), "it lies in the data directory"),
        (full.join("letter"), "exists"),
    ] {
        let (code, stdout, stderr) = backup(&data, &to);
        assert_eq!((code, stdout.as_str()), (73, ""), "{stderr}");
        assert!(stderr.starts_with(&format!("hermod: {}: ", to.display())) && stderr.contains(why), "{stderr}");
    }
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 1);
    assert!(!data.join("copy").exists());
    drop(server);
    let (code, _, stderr) = backup(&data, &dir.path().join("copy"));
    assert_eq!(code, 69, "{stderr}");
    let server = Server::start(&data, &["--durability", "memory"]);
    let (code, _, stderr) = backup(&data, &dir.path().join("copy"));
    assert!(code == 73 && stderr.contains("durability memory"), "{stderr}");
    drop(server);
}
