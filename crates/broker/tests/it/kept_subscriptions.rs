//! A data directory with subscriptions, which every later version opens. It also has a queue that
//! an earlier version made for a subscription, without a record of that.
//!
//! A killed broker left it so, and it is never written again.

use std::path::Path;

use testkit::broker::Setup;
use testkit::script::Script;

use crate::kept::copy_all;

/// The script that wrote the directory.
pub(crate) const WRITTEN: &[(&str, &str)] = &[
    ("a subscribe me/news q.news amq.topic a.* amq.direct d + durable x-selector=n=1 x-expires=3600000", ""),
    ("a subscribe work q.work amq.topic a.* + durable shared; subscribe gone q.gone amq.topic # + durable", ""),
    ("a subscribe work q.work amq.topic b + durable shared; unsubscribe gone", ""),
    ("a subscribe brief q.brief amq.topic # + shared; queue q.old durable; bind amq.topic old q.old", "0 0"),
    ("a publish amq.topic a.b 1 persistent n=1; publish amq.topic a.c 2 persistent n=2", ""),
    (
        "a publish amq.direct d 3 persistent n=1; publish amq.topic b 4 persistent; publish amq.topic old 5 persistent",
        "",
    ),
];

/// What every version finds there.
pub(crate) const FOUND: &[(&str, &str)] = &[
    ("* subscriptions", "q.news: 'news' of client 'me' Exclusive n=1, q.work: 'work' Shared"),
    ("a consume subscription:me/news n no-ack", "n:1=1, n:2=3"),
    ("b consume subscription:me/news n", "403 queue 'q.news' in vhost '/' in exclusive use"),
    ("b consume subscription:work w no-ack", "w:1=1, w:2=2, w:3=4"),
    ("c subscribe old q.old amq.topic new + durable; consume subscription:old o no-ack", "o:1=5"),
    ("c publish amq.topic old 6; publish amq.topic new 7", "o:2=6, o:3=7"),
];

fn open(path: &Path) -> Script {
    let mut setup = Setup::directory(path, 1 << 20);
    setup.threads = false;
    Script::open(setup, None)
}

fn assert_found(path: &Path) {
    let mut script = open(path);
    script.check(FOUND);
    assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new());
}

#[test]
fn the_directory_with_subscriptions_opens_and_has_them() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v2-subscriptions"), copy.path());
    assert_found(copy.path());
}

/// With `HERMOD_KEEP_SUBSCRIPTIONS=DIR`, a new directory, the result can be kept.
#[test]
fn the_directory_of_subscriptions_that_this_version_writes_has_the_same() {
    let written = tempfile::tempdir().unwrap();
    let mut script = open(written.path());
    script.check(WRITTEN);
    script.broker().flush();
    if let Some(keep) = std::env::var_os("HERMOD_KEEP_SUBSCRIPTIONS") {
        std::fs::create_dir(&keep).unwrap();
        copy_all(written.path(), Path::new(&keep));
    }
    drop(script);
    assert_found(written.path());
}
