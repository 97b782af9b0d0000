//! A second data directory that every later version opens. The first one (`kept.rs`) is too old for
//! its features: definitions, ids, delays, retries, priorities, dead letters, topic permissions and
//! limits of a user.
//!
//! A killed broker left it so, and it is never written again.

use std::path::{Path, PathBuf};

use auth::{Permission, TopicPermission, User, UserLimits};
use broker::{ApplyTo, PolicyKind, PolicySpec, VhostLimits, VhostSpec};
use testkit::broker::{Setup, table_of};
use testkit::script::Script;

use crate::kept::copy_all;

const RING: u64 = 1 << 20;

/// The script that wrote the directory.
const WRITTEN: &[(&str, &str)] = &[
    ("a queue sifted durable x-message-deduplication=true x-cache-size=10; queue bound durable", "0 0, 0 0"),
    ("a exchange once x-message-deduplication durable x-cache-size=5; bind once - bound", ""),
    ("a publish - sifted 1 persistent x-deduplication-header=a; publish - sifted 2 persistent _AMQ_DUPL_ID=7", ""),
    ("a publish once - 1 persistent x-deduplication-header=b", ""),
    ("a get sifted no-ack; get bound no-ack", ":1=1 left 1, :2=1 left 0"),
    ("a queue ranks durable x-max-priority=9", "0 0"),
    ("a publish - ranks low persistent; publish - ranks high persistent priority=9", ""),
    ("a publish - ranks middle persistent priority=4; publish - ranks most persistent priority=200", ""),
    ("a queue later durable; exchange wait x-delayed-message durable x-delayed-type=direct; bind wait k later", "0 0"),
    ("a publish wait k hour persistent x-delay=3600000; publish wait k minute persistent x-delay=60000", ""),
    (
        "a queue retry durable x-queue-type=quorum x-delivery-limit=3 x-delayed-retry-type=all x-delayed-retry-min=90000",
        "0 0",
    ),
    ("a publish - retry again persistent; get retry", ":3=again left 0"),
    // At that time every return counted, and this was a nack.
    ("a fail 3", ""),
    ("a queue dead durable; queue work durable x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0, 0 0"),
    ("a publish - work rejected persistent n=1; publish - work fine persistent; get work", ":4=rejected left 1"),
    ("a reject 4", ""),
    ("a queue brief durable x-message-ttl=120000; publish - brief aging persistent", "0 0"),
    ("a queue limited durable; publish - limited 1 persistent", "0 0"),
];

/// The contents that every version finds in it.
const FOUND: &[(&str, &str)] = &[
    (
        "a confirm; publish - sifted 3 persistent x-deduplication-header=a; publish - sifted 4 persistent _AMQ_DUPL_ID=7",
        "+2",
    ),
    (
        "a publish once - 2 persistent x-deduplication-header=b; publish once - 3 persistent x-deduplication-header=c",
        "+4",
    ),
    ("b consume sifted c no-ack", "c:1=2!"),
    ("b consume bound d no-ack", "d:2=3"),
    ("c consume ranks c no-ack", "c:1=high, c:2=most, c:3=middle, c:4=low"),
    ("* counts later delayed", "2"),
    ("* counts retry delayed", "1"),
    ("* browse dead", "rejected"),
    ("* redrive dead", "1 0 0 0"),
    ("d consume work c no-ack", "c:1=fine!, c:2=rejected[work/rejected*1]"),
    ("a publish - limited 2 persistent; publish - limited 3 persistent", "+6"),
    ("* browse limited", "2 3"),
    ("e consume later c no-ack; consume retry d no-ack", ""),
    ("* tick 59999", ""),
    ("e", ""),
    ("* tick 1", ""),
    ("e", "c:1=minute"),
    ("* tick 30000", ""),
    ("e", "d:2=again!(1)"),
    ("* counts brief", "1 0"),
    ("* tick 30000", ""),
    ("* counts brief", "0 0"),
    ("* tick 3480000", ""),
    ("e", "c:3=hour"),
];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1-features")
}

fn open(path: &Path) -> Script {
    let mut setup = Setup::directory(path, RING);
    setup.threads = false;
    Script::open(setup, None)
}

fn policy() -> PolicySpec {
    let definition = table_of("max-length=2");
    PolicySpec { pattern: "^limited$".to_owned(), apply_to: ApplyTo::Queues, priority: 3, definition }
}

fn vhost() -> (VhostSpec, VhostLimits) {
    let spec = VhostSpec {
        description: "kept".to_owned(),
        tags: vec!["one".to_owned()],
        default_queue_type: Some("quorum".to_owned()),
    };
    (spec, VhostLimits { connections: Some(5), queues: None })
}

fn user() -> User {
    let mut user = User::new("topical", None);
    user.permissions.insert("/".into(), Permission::new("^a", "^b", "^c").unwrap());
    let topics = TopicPermission::new("topical", "/", "^w", "^r").unwrap();
    user.topic_permissions.insert(("/".into(), "amq.topic".into()), topics);
    user.limits = UserLimits { connections: Some(2), sessions: None };
    user
}

fn write(path: &Path) {
    say(&mut open(path), &mut |_| ());
}

/// Says what the directory has, and tells after each line.
pub(crate) fn say(script: &mut Script, after: &mut dyn FnMut(&Script)) {
    for step in WRITTEN {
        script.check(&[*step]);
        after(script);
    }
    let broker = &script.broker().broker;
    let (spec, limits) = vhost();
    broker.set_policy("/", PolicyKind::User, "short", policy(), &auth::Identity::operator("test")).unwrap();
    broker.put_vhost("other", &spec).unwrap();
    broker.limit_vhost("other", limits).unwrap();
    broker.add_user(user()).unwrap();
    script.broker().flush();
    after(script);
}

fn assert_found(path: &Path) {
    assert_has(&mut open(path));
}

/// Everything that was said is there.
pub(crate) fn assert_has(script: &mut Script) {
    let broker = &script.broker().broker;
    let policies = broker.policies(PolicyKind::User);
    assert_eq!(policies.iter().map(|policy| (&*policy.name, &policy.spec)).collect::<Vec<_>>(), [("short", &policy())]);
    let vhosts = broker.vhosts();
    let other = vhosts.iter().find(|vhost| vhost.name == "other").unwrap();
    assert_eq!((other.spec.clone(), other.limits), vhost());
    assert_eq!(broker.authority().user("topical"), Some(user()));
    script.check(FOUND);
    assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new());
}

#[test]
fn the_directory_with_the_features_of_version_1_opens_and_has_everything() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&kept(), copy.path());
    assert_found(copy.path());
}

/// Writes a directory in this version's formats. When a feature has new facts, run it with
/// `HERMOD_KEEP_FEATURES=DIR`, a new directory, and keep the result.
#[test]
fn the_directory_that_this_version_writes_has_the_same() {
    let written = tempfile::tempdir().unwrap();
    write(written.path());
    if let Some(keep) = std::env::var_os("HERMOD_KEEP_FEATURES") {
        std::fs::create_dir(&keep).unwrap();
        copy_all(written.path(), Path::new(&keep));
    }
    assert_found(written.path());
}
