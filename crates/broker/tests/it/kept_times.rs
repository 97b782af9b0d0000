//! A third data directory that every later version opens: version 1 of the message block wrote it, with times as they were taken
//! then. A time to live had 49 days at most and was cut to that, a timeout of consumers had no bound, nor had the time at which
//! a message is due.
//!
//! It is as a killed broker left it, and is never written again. This is what it was written by, besides a policy:
//!
//! ```text
//! queue always durable x-consumer-timeout=4102444800000; queue minute durable; queue longest durable
//! publish - always 1 persistent; publish - minute 2 persistent ttl=60000
//! publish - longest 3 persistent ttl=5184000000
//! queue later durable; publish - later 4 persistent _AMQ_SCHED_DELIVERY=9000000000000
//! ```

use std::path::Path;

use testkit::broker::Setup;
use testkit::script::Script;

use crate::kept::copy_all;

/// What every version finds in it. The last tick ends ten years after the messages were published.
const FOUND: &[(&str, &str)] = &[
    ("* counts later delayed", "1"),
    ("* tick 59999", ""),
    ("* counts minute", "1 0"),
    ("* tick 1", ""),
    ("* counts minute", "0 0"),
    ("* tick 4294907293", ""),
    ("* counts longest", "1 0"),
    ("* tick 1", ""),
    ("* counts longest", "0 0"),
    ("a publish - always 5 persistent", ""),
    ("* tick 311065032705", ""),
    ("a consume later c no-ack", ""),
    ("* tick 1", ""),
    ("a", "c:1=4"),
    ("b consume always c no-ack", "c:1=1, c:2=5"),
];

#[test]
fn the_directory_with_the_times_of_version_1_opens_and_keeps_to_them() {
    let copy = tempfile::tempdir().unwrap();
    copy_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1-times"), copy.path());
    let mut setup = Setup::directory(copy.path(), 1 << 20);
    setup.threads = false;
    let mut script = Script::open(setup, None);
    script.check(FOUND);
    assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new());
}
