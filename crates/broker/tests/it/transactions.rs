//! Publishes and settlements that happen together or not at all.

use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

#[test]
fn nothing_of_a_transaction_shows_before_it_is_committed() {
    check(&[
        ("a queue q durable; queue r; begin", "0 0, 0 0"),
        ("a tx-publish - q 1 persistent; tx-publish - r 2; tx-publish - q 3", ""),
        ("* counts q", "0 0"),
        ("b consume q c no-ack", ""),
        ("a commit", "committed"),
        ("b", "c:1=1, c:2=3"),
        ("* counts r", "1 0"),
    ]);
}

#[test]
fn a_rollback_forgets_publishes_and_returns_deliveries() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; prefetch 2; consume q c", "0 0, c:1=1, c:2=2"),
        ("a begin; tx-publish - q 3; tx-ack 1", ""),
        ("* counts q", "0 2"),
        ("a rollback", "c:3=1!"),
        ("* counts q", "0 2"),
        ("a ack 1", "settled already"),
    ]);
}

#[test]
fn settlements_in_a_transaction_wait_for_the_commit() {
    check(&[
        ("a queue q durable; queue d; prefetch 1", "0 0, 0 0"),
        ("a publish - q 1 persistent; publish - q 2 persistent; publish - q 3; consume q c", "c:1=1"),
        ("a begin; tx-ack 1", ""),
        ("* counts q", "2 1"),
        ("a commit", "committed, c:2=2"),
        ("a begin; tx-nack 2", ""),
        ("a commit", "committed, c:3=2!"),
        ("a begin; tx-reject 3; commit", "committed, c:4=3"),
        ("* counts q", "0 1"),
    ]);
}

#[test]
fn a_transaction_that_a_full_queue_refuses_is_undone() {
    check(&[
        ("a queue full x-max-length=1 x-overflow=reject-publish; queue q; publish - full 1", "0 0, 0 0"),
        ("a publish - q 0; get q", ":1=0 left 0"),
        ("a begin; tx-publish - q 2; tx-publish - full 3; tx-ack 1", ""),
        ("a commit", "406 queue 'full' in vhost '/' is full and refuses publishes"),
        ("* counts q", "1 0"),
        ("* counts full", "1 0"),
        ("a begin; tx-publish none k m", "404 no exchange 'none' in vhost '/'"),
    ]);
}

/// Some clients do not settle what they accept in a transaction, and go on to hold it.
#[test]
fn what_a_client_holds_stays_with_it_when_a_commit_fails() {
    const FULL: &str = "406 queue 'full' in vhost '/' is full and refuses publishes";
    for (consumer, said, stays) in [("", "", true), ("cancel c", "cancelled", false)] {
        check(&[
            ("a queue full x-max-length=1 x-overflow=reject-publish; queue q; publish - full 1", "0 0, 0 0"),
            ("a publish - q 1; publish - q 2; prefetch 9; consume q c", "c:1=1, c:2=2"),
            ("a begin; tx-publish - full 3; tx-hold 1", ""),
            (&format!("a {consumer}"), said),
            ("a commit", FULL),
            ("* counts q", if stays { "0 2" } else { "1 1" }),
            ("a ack 1", if stays { "" } else { "settled already" }),
            ("a ack 2", ""),
            ("* counts q", if stays { "0 0" } else { "1 0" }),
        ]);
    }
}

/// A full transaction was taken where the queue was not full before.
#[test]
fn a_transaction_does_not_overfill_a_queue_that_refuses() {
    const FULL: &str = "406 queue 'q' in vhost '/' is full and refuses publishes";
    for limit in ["x-max-length=2", "x-max-length-bytes=2"] {
        check(&[
            (&format!("a queue q {limit} x-overflow=reject-publish; queue r"), "0 0, 0 0"),
            ("a begin; tx-publish - q 1; tx-publish - r 2; tx-publish - q 3; tx-publish - q 4", ""),
            ("a commit", FULL),
            ("* counts q", "0 0"),
            ("* counts r", "0 0"),
            ("a begin; tx-publish - q 1; tx-publish - r 2; tx-publish - q 3; commit", "committed"),
            ("* counts q", "2 0"),
            ("a get q no-ack; begin; tx-publish - q 5; tx-publish - q 6", ":1=1 left 1"),
            ("a commit", FULL),
            ("* counts q", "1 0"),
        ]);
    }
}

#[test]
fn what_takes_no_place_in_a_full_queue_fails_no_transaction() {
    let message = |name: &str| format!("tx-publish - q 1 persistent {name}=a");
    for (argument, name) in [("x-message-deduplication=true", "x-deduplication-header"), ("x-last-value-key=k", "k")] {
        check(&[
            (&format!("a queue q durable {argument} x-max-length=2 x-overflow=reject-publish"), "0 0"),
            (&format!("a begin; {}; commit", [message(name), message(name), message(name)].join("; ")), "committed"),
            ("* counts q", "1 0"),
        ]);
    }
}

#[test]
fn the_end_of_a_session_rolls_back() {
    check(&[
        ("a queue q; publish - q 1; get q; begin; tx-ack 1; tx-publish - q 2", "0 0, :1=1 left 0"),
        ("a end", ""),
        ("* counts q", "1 0"),
        ("a get q", ":1=1! left 0"),
    ]);
}

/// A returned message must not go to a consumer without acknowledgements that ends in the same
/// moment.
#[test]
fn what_the_end_of_a_session_or_client_gives_back_is_not_lost() {
    check(&[
        ("a queue q; publish - q 1; get q; begin; tx-ack 1", "0 0, :1=1 left 0"),
        ("a consume q d no-ack; end", ""),
        ("* counts q", "1 0"),
    ]);
    check(&[
        ("a queue q; publish - q 1; publish - q 2; get q; begin; tx-ack 1", "0 0, :1=1 left 1"),
        ("a get q", ":2=2 left 0"),
        ("a/2 consume q d no-ack", ""),
        ("a close", ""),
        ("* counts q", "2 0"),
    ]);
    // The other session lives, and so does its consumer.
    check(&[
        ("a queue q; publish - q 1; get q", "0 0, :1=1 left 0"),
        ("a/2 consume q d no-ack", ""),
        ("a end", "d:1=1!"),
        ("* counts q", "0 0"),
    ]);
    // Whichever consumer is active next, it goes too.
    check(&[
        ("a queue q x-single-active-consumer=true; prefetch 1; consume q b", "0 0"),
        ("a publish - q 1; publish - q 2", "b:1=1"),
        ("a/2 consume q c no-ack", ""),
        ("a close", ""),
        ("* counts q", "2 0"),
    ]);
}

/// Its queue counted it, the broker did not.
#[test]
fn what_a_commit_accepts_counts_as_acknowledged() {
    let mut script = Script::memory();
    script.check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; publish - q 4", "0 0"),
        ("a consume q c", "c:1=1, c:2=2, c:3=3, c:4=4"),
        ("a begin; tx-ack 1; rollback", "c:5=1!"),
        ("a begin; tx-ack 3 multiple; tx-reject 4; commit", "committed"),
        ("a ack 5", ""),
    ]);
    let broker = &script.broker().broker;
    assert_eq!(
        (broker.overview().totals.deliveries.acknowledged.get(), broker.queues()[0].figures.totals.acknowledged),
        (3, 3)
    );
}

#[test]
fn what_a_transaction_sends_nowhere_comes_back_with_the_commit() {
    check(&[
        ("a begin; tx-publish - none m mandatory; tx-publish - none n", ""),
        ("a commit", "returned m, committed"),
    ]);
}

#[test]
fn a_commit_is_answered_and_visible_when_it_is_durable() {
    let disk = SimDisk::new(1, 64 << 20);
    Script::stepped(&disk, 8 << 20).check(&[
        ("a queue q durable; publish - q 0 persistent; get q", "0 0, :1=0 left 0"),
        ("b consume q c", ""),
        ("* hold", ""),
        ("a begin; tx-publish - q 1 persistent; tx-ack 1; commit; flow", "Pause"),
        ("b", ""),
        ("* counts q", "0 0"),
        ("* release", ""),
        ("a flow", "Pause, committed"),
        ("a flow", "Run"),
        ("b", "c:1=1"),
        // A sealed transaction stands, even if its session ends before the flush.
        ("* hold", ""),
        ("a begin; tx-publish - q 2 persistent; commit; end", ""),
        ("* release", ""),
        ("b", "c:2=2"),
    ]);
}

/// The last block of a log file takes the group and no more, and the disk has no room for the next
/// file. The commit was answered all the same. Its rejected deliveries would have come back after a
/// crash.
#[test]
fn a_commit_is_answered_when_what_it_rejects_is_durable() {
    const BLOCK: u64 = 4096;
    const FILE: u64 = 128 << 10;
    for arguments in ["", "x-dead-letter-exchange= x-dead-letter-routing-key=dead"] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut script = Script::stepped(&disk, 8 * FILE);
        script.say(&format!("a queue q durable {arguments}; queue dead durable; queue other durable; consume q c"));
        script.say(&format!("a {}", ["publish - q x persistent"; 600].join("; ")));
        script.check(&[("* counts q", "0 600")]);
        // The header of the file is a block as well.
        let left = |script: &Script| FILE - BLOCK - script.broker().broker.overview().journal.written_bytes;
        while left(&script) > BLOCK {
            script.say("a publish - other x persistent");
        }
        assert_eq!(left(&script), BLOCK);
        disk.set_capacity(0);
        let rejects: Vec<_> = (1..=600).step_by(2).map(|number| format!("tx-reject {number}")).collect();
        script.check(&[(&format!("a begin; {}; commit", rejects.join("; ")), ""), ("a flow", "Pause")]);
        disk.set_capacity(64 << 20);
        script.check(&[("a", "committed"), ("* cut", ""), ("* counts q", "300 0")]);
    }
}
