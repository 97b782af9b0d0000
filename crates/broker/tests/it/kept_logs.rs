//! A data directory of version 2 of the journal's format, in which each vhost has a log of its own.
//! Every later version opens it and finds everything in it.
//!
//! A killed broker left it so, and it is never written again. It has two vhosts, whose records lie
//! between each other, and segments. One transaction was committed and another one was not. A dead
//! letter and the first message of a group were with a client that had not settled them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::{Permission, User};
use broker::{ApplyTo, Browse, PolicyKind, PolicySpec, VhostSpec};
use journal::{Address, Chunk, LogId, Owner, RealDisk, Replay};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::Peer;
use testkit::script::Script;

use crate::kept::copy_all;
use crate::{durable, message};

/// Files of 128 KiB, hardly more than a message may need.
const RING: u64 = 1 << 20;
/// The messages in the second vhost, and in queue `most` of the first.
const MOST: u64 = 100;

/// What a client of the first vhost did.
const WRITTEN: &[(&str, &str)] = &[
    ("a exchange news topic durable; queue all durable; queue some durable", "0 0, 0 0"),
    ("a bind news # all; bind news *.b some x-kept=1", ""),
    ("a publish news a.b 1 persistent; publish news a.c 2 persistent; publish news a.b 3", ""),
    ("a queue large durable; publish - large 4 persistent size=30000", "0 0"),
    ("a queue values durable x-last-value-key=key", "0 0"),
    ("a publish - values old persistent key=k; publish - values other persistent key=j", ""),
    ("a publish - values new persistent key=k", ""),
    ("a queue quorum durable x-queue-type=quorum; publish - quorum 5 persistent; get quorum", "0 0, :1=5 left 0"),
    ("a fail 1", ""),
    ("a queue dead durable; queue work durable x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0, 0 0"),
    ("a publish - work 6 persistent; publish - work 7 persistent; get work", ":2=6 left 1"),
    ("a reject 2", ""),
    ("b begin; tx-publish news a.b 8 persistent; tx-publish - work 9 persistent; get work; tx-ack 1", ":1=7 left 0"),
    ("b commit", "committed"),
    ("b begin; tx-publish news a.b 10 persistent; get some; tx-ack 2", ":2=1 left 2"),
    ("a queue groups durable x-message-groups=true", "0 0"),
    ("a publish - groups x1 persistent JMSXGroupID=x; publish - groups y1 persistent JMSXGroupID=y", ""),
    ("a publish - groups x2 persistent JMSXGroupID=x", ""),
    ("c prefetch 1; consume groups g; get dead", ":1=6[work/rejected*1] left 0, g:2=x1"),
];

/// What every version finds there.
const FOUND: &[(&str, &str)] = &[
    ("* browse all", "1 2 8"),
    ("a passive-exchange news; consume some s no-ack", "s:1=1!, s:2=8!"),
    ("* browse values", "other new"),
    ("a consume quorum q no-ack", "q:3=5!(1)"),
    ("* browse work", "9"),
    ("a consume dead d no-ack", "d:4=6![work/rejected*1]"),
    ("b prefetch 1; consume groups g; prefetch 1; consume groups h", "g:1=x1!, h:2=y1!"),
    ("a publish news x.b 11 persistent; publish - dead 12 persistent", "s:5=11, d:6=12"),
    ("* browse all", "1 2 8 11"),
];

/// What is replayed of a directory.
#[derive(Default)]
struct Told {
    logs: BTreeSet<LogId>,
    chunks: u64,
}

impl Replay for Told {
    fn cold(&mut self, owner: Owner, _: u64, _: u64, _: Chunk) {
        self.logs.insert(LogId::of(owner));
        self.chunks += 1;
    }
    fn fact(&mut self, owner: Owner, _: u8, _: &[u8]) {
        self.logs.insert(LogId::of(owner));
    }
    fn reference(&mut self, owner: Owner, _: u64, _: u64, _: &[Address]) {
        self.logs.insert(LogId::of(owner));
    }
    fn settled(&mut self, _: Owner, _: u8, _: &[(u64, u64)]) {}
    fn dropped(&mut self, _: Owner) {}
    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        panic!("{segment} {file} {what}");
    }
    fn burnt(&mut self, _: Owner, _: u64, _: u64) {}
}

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v2-logs")
}

fn open(path: &Path) -> Script {
    let mut setup = Setup::directory(path, RING);
    setup.threads = false;
    Script::open(setup, None)
}

fn policy() -> PolicySpec {
    let definition = table_of("max-length=1000");
    PolicySpec { pattern: "^all$".to_owned(), apply_to: ApplyTo::Queues, priority: 1, definition }
}

fn user() -> User {
    let mut user = User::new("kept", None);
    user.permissions.insert("other".into(), Permission::new("^a", "^b", "^c").unwrap());
    user
}

fn vhost() -> VhostSpec {
    VhostSpec { description: "kept".to_owned(), ..VhostSpec::default() }
}

fn grant(user: &mut User) -> Result<(), broker::Error> {
    user.permissions.insert("other".into(), Permission::full());
    Ok(())
}

/// Writes the contents of the kept directory to `path`, and copies it to `to` as a kill leaves it.
fn write(path: &Path, to: &Path) {
    let mut script = open(path);
    let broker = &script.broker().broker;
    broker.put_vhost("other", &vhost()).unwrap();
    broker.change_user("guest", grant).unwrap();
    broker.add_user(user()).unwrap();
    broker.set_policy("/", PolicyKind::User, "long", policy(), &auth::Identity::operator("test")).unwrap();
    let mut other = Peer::attach_to(script.broker(), "guest", "other").unwrap();
    let session = other.session(1);
    other.client.declare_queue(&durable("all"), script.broker().now()).unwrap();
    assert_eq!(script.say("a queue most durable"), "0 0");
    for number in 0..MOST {
        other.client.publish(session, message("", "all", number.to_string().as_bytes())).unwrap();
        other.client.flush(script.broker().now());
        // Files with small ones are copied to segments, the others are adopted.
        let size = if number < MOST / 2 { 1000 } else { 7000 };
        assert_eq!(script.say(&format!("a publish - most {number} persistent size={size}")), "");
        script.say("* background");
    }
    script.check(WRITTEN);
    let segments = script.broker().broker.overview().journal.segments;
    assert!(segments.adopted_files > 0 && u64::from(segments.files) > segments.adopted_files, "{segments:?}");
    copy_all(path, to);
}

/// The directory is whole, says `hermod verify`, and three logs are in it.
fn assert_whole(path: &Path) {
    let mut told = Told::default();
    let verification = journal::verify(Arc::new(RealDisk::open(path).unwrap()), &mut told).unwrap();
    assert!(verification.damages.is_empty(), "{:?}", verification.damages);
    assert_eq!(told.logs.iter().map(|log| log.number()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(told.chunks > 0);
}

fn assert_found(path: &Path) {
    assert_whole(path);
    let mut script = open(path);
    let broker = &script.broker().broker;
    let policies = broker.policies(PolicyKind::User);
    assert_eq!(policies.iter().map(|policy| (&*policy.name, &policy.spec)).collect::<Vec<_>>(), [("long", &policy())]);
    assert_eq!(
        broker.vhosts().iter().find(|found| found.name == "other").map(|found| found.spec.clone()),
        Some(vhost())
    );
    assert_eq!(broker.authority().user("kept"), Some(user()));
    script.check(FOUND);
    let numbers = (0..MOST).map(|number| number.to_string()).collect::<Vec<_>>();
    assert_eq!(bodies(script.broker(), "other", "all"), numbers);
    let most = bodies(script.broker(), "/", "most");
    assert_eq!(most.iter().map(|body| body.trim_end_matches('.')).collect::<Vec<_>>(), numbers);
    assert_eq!(bodies(script.broker(), "/", "large"), [format!("4{}", ".".repeat(29_999))]);
    assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new());
}

/// The bodies in a queue, in their order.
fn bodies(broker: &TestBroker, vhost: &str, queue: &str) -> Vec<String> {
    let meant = Browse { vhost, queue, selector: "", limit: u64::MAX };
    let mut bodies = Vec::new();
    let mut note = |browsed: broker::Browsed| bodies.push(String::from_utf8_lossy(browsed.message.body()).into_owned());
    broker.broker.browse(&meant, &|| true, &mut note).unwrap();
    bodies
}

#[test]
fn the_directory_with_logs_of_version_2_opens_and_has_everything() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&kept(), copy.path());
    assert_found(copy.path());
}

/// Writes a directory in this version's formats. When a format gets a new version, run it with
/// `HERMOD_KEEP_LOGS=DIR`, a new directory, and keep the result.
#[test]
fn the_directory_with_logs_that_this_version_writes_has_the_same() {
    let (written, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(written.path(), killed.path());
    if let Some(keep) = std::env::var_os("HERMOD_KEEP_LOGS") {
        std::fs::create_dir(&keep).unwrap();
        copy_all(killed.path(), Path::new(&keep));
    }
    assert_found(killed.path());
}
