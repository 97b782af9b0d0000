//! A third data directory that every later version opens, of version 1 of the message block, with
//! the times of that version. A time to live was cut to 49 days. A consumer's timeout and a due
//! time had no bound; both count as the longest now.
//!
//! A killed broker left it so, and it is never written again. This script wrote it, with a policy
//! for `minute` with the same timeout:
//!
//! ```text
//! queue always durable x-consumer-timeout=4102444800000; queue minute durable; queue longest durable
//! publish - always 1 persistent; publish - minute 2 persistent ttl=60000
//! publish - longest 3 persistent ttl=5184000000
//! queue later durable; publish - later 4 persistent _AMQ_SCHED_DELIVERY=9000000000000
//! ```

use std::path::Path;

use broker::PolicyKind;
use testkit::broker::{Setup, table_of};
use testkit::script::Script;

use crate::kept::copy_all;

/// The contents that every version finds in it. The last tick ends ten years after the messages
/// were published.
const FOUND: &[(&str, &str)] = &[
    // A client that starts again declares it as before.
    ("a queue always durable x-consumer-timeout=4102444800000", "1 0"),
    (
        "a queue new durable x-consumer-timeout=4102444800000",
        "406 invalid arg 'x-consumer-timeout' for queue 'new' in vhost '/': {value_too_large,4102444800000}",
    ),
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
    let policies = script.broker().broker.policies(PolicyKind::User);
    let said: Vec<_> = policies.iter().map(|policy| (&*policy.name, policy.spec.definition.clone())).collect();
    assert_eq!(said, [("patient", table_of("consumer-timeout=315360000000"))]);
    script.check(FOUND);
    assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new());
}
