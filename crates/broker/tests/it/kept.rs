//! A data directory of version 1 of the formats: every later version opens it and finds everything
//! in it.
//!
//! It is never written again. It has a log, segments in their original place and segments from
//! merges, and queues of both types. Some of their messages are settled and some came back. It also
//! has an exchange with bindings, and a user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::{Consume, ExchangeSpec, Outcome, Tags, Value, Verified};
use journal::RealDisk;
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Received, Seen};

use crate::{binding, durable, durable_with, message};

const RING: u64 = 1 << 20;
const COUNT: u64 = 3000;
/// The messages in queue `late`.
const LATER: u64 = 1000;
/// One in so many messages of queue `mixed` is left.
const LEFT: u64 = 10;
/// The message in queue `quorum` that came back.
const RETURNED: u64 = 4;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1")
}

fn open(path: &Path) -> TestBroker {
    let mut setup = Setup::directory(path, RING);
    setup.threads = false;
    setup.default_user = Some(("kept".to_owned(), "secret".to_owned()));
    TestBroker::open(setup)
}

fn body(number: u64) -> String {
    format!("{number:0200}")
}

fn turn(peer: &mut Peer, broker: &TestBroker) -> Vec<Received> {
    let seen = peer.turn(broker).into_iter();
    seen.filter_map(|seen| if let Seen::Delivery(received) = seen { Some(received) } else { None }).collect()
}

/// Takes everything of a queue, and settles the messages that `settle` chooses. The rest comes back
/// when the client leaves.
fn take(peer: &mut Peer, broker: &TestBroker, queue: &str, settle: impl Fn(u64) -> Option<Outcome>) -> Vec<Received> {
    let (session, now) = (peer.session(1), broker.now());
    let consume = Consume { source: queue.into(), tag: queue.into(), ..Consume::default() };
    peer.client.consume(session, consume, now).unwrap();
    let mut all = Vec::new();
    loop {
        let came = turn(peer, broker);
        if came.is_empty() {
            return all;
        }
        for received in &came {
            if let Some(outcome) = settle(received.body.parse().unwrap()) {
                peer.client.settle(session, Tags::One(received.tag), &outcome).unwrap();
            }
        }
        all.extend(came);
    }
}

/// Writes the contents of the kept directory to `path`.
fn make(path: &Path) {
    let broker = open(path);
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let (session, now) = (peer.session(1), broker.now());
    let kinds = [("x-queue-type", Value::Text("quorum".to_owned())), ("x-delivery-limit", Value::I64(7))];
    for spec in [durable("mixed"), durable("whole"), durable("late"), durable_with("quorum", &kinds)] {
        peer.client.declare_queue(&spec, now).unwrap();
    }
    let logs = ExchangeSpec { name: "logs".into(), kind: "topic".into(), durable: true, ..ExchangeSpec::default() };
    peer.client.declare_exchange(&logs, now).unwrap();
    peer.client.bind(&binding("logs", "a.#", "mixed"), now).unwrap();
    peer.client.bind(&binding("logs", "*.b", "whole"), now).unwrap();
    for number in 0..COUNT {
        // Both bindings take it: one body, two references.
        peer.client.publish(session, message("logs", "a.b", body(number).as_bytes())).unwrap();
        if number % 20 == 0 {
            peer.client.publish(session, message("", "quorum", body(number / 20).as_bytes())).unwrap();
        }
        if number % 50 == 49 {
            turn(&mut peer, &broker);
        }
    }
    take(&mut peer, &broker, "mixed", |number| (number % LEFT != 0).then_some(Outcome::Accepted));
    take(&mut peer, &broker, "whole", |number| (number < COUNT / 10 * 9).then_some(Outcome::Accepted));
    let came = take(&mut peer, &broker, "quorum", |_| None);
    let back = came.iter().find(|received| received.body == body(RETURNED)).unwrap();
    peer.client.settle(session, Tags::One(back.tag), &Outcome::FAILED).unwrap();
    (0..50).for_each(|_| drop(turn(&mut peer, &broker)));
    for number in COUNT..COUNT + LATER {
        peer.client.publish(session, message("", "late", body(number).as_bytes())).unwrap();
        if number % 50 == 49 {
            turn(&mut peer, &broker);
        }
    }
    (0..50).for_each(|_| drop(turn(&mut peer, &broker)));
    let journal = broker.broker.overview().journal;
    assert!(
        journal.segments.adopted_files > 0 && journal.segments.merges > 0 && journal.segments.files > 1,
        "{journal:?}"
    );
    peer.client.close(broker.now());
    drop(peer);
    broker.stop();
}

#[test]
fn the_data_directory_of_version_1_opens_and_has_everything() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&kept(), copy.path());
    assert_everything(copy.path());
}

#[test]
fn the_log_of_version_1_is_put_into_the_present_format() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&kept(), copy.path());
    let broker = open(copy.path());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let session = peer.session(1);
    // From the first publish on, and without a need of room, the old files leave the log.
    peer.client.publish(session, message("logs", "a.b", body(COUNT * LEFT).as_bytes())).unwrap();
    (0..200).for_each(|_| drop(turn(&mut peer, &broker)));
    let oldest = broker.broker.overview().journal.oldest_file;
    let mut formats = BTreeMap::new();
    for entry in std::fs::read_dir(copy.path().join("wal")).unwrap() {
        let front = std::fs::read(entry.unwrap().path()).unwrap();
        let generation = u32::from_le_bytes(front[16..20].try_into().unwrap());
        if generation >= oldest {
            *formats.entry(u16::from_le_bytes([front[6], front[7]])).or_insert(0) += 1;
        }
    }
    assert_eq!(formats.keys().collect::<Vec<_>>(), [&journal::FORMAT], "{formats:?}");
    let marker = std::fs::read_to_string(copy.path().join("FORMAT")).unwrap();
    assert!(marker.contains(&format!("\nformat {}\n", journal::FORMAT)), "{marker}");
    peer.client.close(broker.now());
    drop(peer);
    broker.stop();
}

/// Writes a directory in this version's formats. When a format gets a new version, run it with
/// `HERMOD_KEEP=DIR`, a new directory, and keep the result.
#[test]
fn the_data_directory_that_this_version_writes_has_the_same() {
    let written = tempfile::tempdir().unwrap();
    make(written.path());
    if let Some(keep) = std::env::var_os("HERMOD_KEEP") {
        std::fs::create_dir(&keep).unwrap();
        copy_all(written.path(), Path::new(&keep));
    }
    assert_everything(written.path());
}

fn assert_everything(path: &Path) {
    let broker = open(path);
    let authority = broker.broker.authority();
    assert!(authority.verify("kept", b"secret", std::net::Ipv4Addr::LOCALHOST.into(), broker.now()).is_ok());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    let session = peer.session(1);
    peer.client.publish(session, message("logs", "a.b", body(COUNT * LEFT).as_bytes())).unwrap();
    let accept = |_| Some(Outcome::Accepted);
    let numbers = |came: &[Received]| came.iter().map(|one| one.body.parse().unwrap()).collect::<Vec<u64>>();
    let mixed = numbers(&take(&mut peer, &broker, "mixed", accept));
    assert_eq!(mixed, (0..COUNT).step_by(LEFT as usize).chain([COUNT * LEFT]).collect::<Vec<_>>());
    let whole = numbers(&take(&mut peer, &broker, "whole", accept));
    assert_eq!(whole, (COUNT / 10 * 9..COUNT).chain([COUNT * LEFT]).collect::<Vec<_>>());
    let late = numbers(&take(&mut peer, &broker, "late", accept));
    assert_eq!(late, (COUNT..COUNT + LATER).collect::<Vec<_>>());
    let quorum = take(&mut peer, &broker, "quorum", accept);
    assert_eq!(numbers(&quorum), (0..COUNT.div_ceil(20)).collect::<Vec<_>>());
    // All came back when their client left, one of them once before.
    let counts: BTreeMap<_, _> =
        quorum.iter().map(|one| (one.body.clone(), (one.redelivered, one.counts.delivery))).collect();
    let expected = |number| (true, Some(if number == RETURNED { 2 } else { 1 }));
    assert_eq!(counts, (0..COUNT.div_ceil(20)).map(|number| (body(number), expected(number))).collect());
    assert_eq!(broker.broker.take_damages(), Vec::<String>::new());
}

/// What an operator sees of every kept directory, as `hermod verify` reads it: nothing is damaged
/// or lost, and each queue has the entries that an open broker finds there.
#[test]
fn every_kept_directory_is_verified_as_whole() {
    for (directory, expected) in [
        ("v1", "/:late=1000 /:mixed=300 /:quorum=150 /:whole=300"),
        ("v1-features", "/:bound=0 /:brief=1 /:dead=1 /:later=2 /:limited=1 /:ranks=4 /:retry=1 /:sifted=1 /:work=1"),
        ("v1-times", "/:always=1 /:later=1 /:longest=1 /:minute=1"),
        (
            "v2-logs",
            "/:all=3 /:dead=1 /:groups=3 /:large=1 /:most=100 /:quorum=1 /:some=2 /:values=2 /:work=1 other:all=100",
        ),
    ] {
        let copy = tempfile::tempdir().unwrap();
        copy_all(&kept().with_file_name(directory), copy.path());
        let verified = Verified::read(Arc::new(RealDisk::open(copy.path()).unwrap())).unwrap();
        assert!(verified.is_whole(), "{directory}: {:?}", verified.facts);
        let queues = verified.queues.iter().map(|queue| format!("{}:{}={}", queue.vhost, queue.name, queue.entries));
        assert_eq!(queues.collect::<Vec<_>>().join(" "), expected, "{directory}");
    }
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
