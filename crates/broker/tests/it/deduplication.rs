//! Messages that come twice: dropped once their id is known, and confirmed when the first one is
//! safe, also after a crash.

use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn an_id_is_known_while_its_message_is_in_the_queue() {
    check(&[
        ("a queue q durable x-message-deduplication=true; confirm", "0 0"),
        (
            "a publish - q 1 persistent x-deduplication-header=a; publish - q 2 persistent x-deduplication-header=a",
            "+2",
        ),
        ("a publish - q 3 persistent _AMQ_DUPL_ID=a; publish - q 4 persistent; publish - q 5 persistent", "+5"),
        ("a publish - q 6 persistent x-deduplication-header=7; publish - q 7 x-deduplication-header=7 mandatory", "+7"),
        ("* counts q", "4 0"),
        ("* counts q duplicates", "3"),
        // A message out with a consumer still counts.
        ("a get q", ":1=1 left 3"),
        ("a publish - q 8 persistent x-deduplication-header=a", "+8"),
        ("a ack 1", ""),
        ("a publish - q 9 persistent x-deduplication-header=a", "+9"),
        ("b consume q c no-ack", "c:1=4, c:2=5, c:3=6, c:4=9"),
        ("a publish - q 10 persistent x-deduplication-header=a; publish - q 11 x-deduplication-header=7", "+11"),
        ("b cancel c", "c:5=10, c:6=11, cancelled"),
        ("a publish - q 12 x-deduplication-header=a; purge q; publish - q 13 x-deduplication-header=a", "1, +13"),
        ("* counts q", "1 0"),
    ]);
}

/// Some reason keeps a message out of all its queues. Its log records are flushed all the same, and
/// its publisher is told. Before each the log is idle and its writer asleep.
#[test]
fn a_publish_is_answered_though_nothing_of_it_stays() {
    check(&[
        ("a queue q durable x-message-deduplication=true; queue r durable x-message-deduplication=true", "0 0, 0 0"),
        ("a exchange f fanout; bind f - q; bind f - r; queue last durable x-max-length=1", "0 0"),
        ("a queue full durable x-max-length=1 x-overflow=reject-publish; publish - full 0 persistent; confirm", "0 0"),
        ("a publish - q 1 persistent x-deduplication-header=a", "+1"),
        ("a publish - q 2 persistent x-deduplication-header=a", "+2"),
        ("a publish f - 3 persistent x-deduplication-header=a", "+3"),
        ("a publish f - 4 persistent x-deduplication-header=a", "+4"),
        ("a publish - full 5 persistent", "-5"),
        ("a publish - full 6 persistent; publish - q 7 persistent x-deduplication-header=a", "-6, +7"),
        ("b begin; tx-publish - q 8 persistent x-deduplication-header=a; commit", "committed"),
        ("b begin; commit", "committed"),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
    ]);
}

#[test]
fn the_last_ids_are_known_for_their_time_whatever_became_of_the_messages() {
    check(&[
        ("a queue q durable x-message-deduplication=true x-cache-size=2 x-cache-ttl=1000; consume q c no-ack", "0 0"),
        ("a publish - q 1 persistent x-deduplication-header=a; publish - q 2 x-deduplication-header=a", "c:1=1"),
        ("a publish - q 3 persistent x-deduplication-header=b x-cache-ttl=5000", "c:2=3"),
        ("* tick 999", ""),
        ("a publish - q 4 persistent x-deduplication-header=a", ""),
        ("* tick 1", ""),
        ("a publish - q 5 persistent x-deduplication-header=a; publish - q 6 x-deduplication-header=b", "c:3=5"),
        (
            "a publish - q 7 persistent x-deduplication-header=c; publish - q 8 persistent x-deduplication-header=b",
            "c:4=7, c:5=8",
        ),
        ("* counts q duplicates", "3"),
    ]);
}

#[test]
fn ids_are_told_from_each_other_by_their_text_and_bad_ones_refused() {
    check(&[
        ("a queue q x-message-deduplication=true; queue plain; confirm", "0 0, 0 0"),
        (
            "a publish - q 1 x-deduplication-header=",
            "406 invalid message: header 'x-deduplication-header' must have 1 to 255 bytes, not 0",
        ),
        (
            "a publish - q 1 x-deduplication-header=a x-cache-ttl=soon",
            "406 invalid message: header 'x-cache-ttl' must be a number of milliseconds, ten years at most and above 0, not longstr 'soon'",
        ),
        ("a publish - q 1 x-deduplication-header=a; publish - q 2 x-deduplication-header=A", "+2"),
        ("a publish - plain 3 x-deduplication-header=a; publish - plain 4 x-deduplication-header=a", "+4"),
        ("* counts plain", "2 0"),
        ("* counts q", "2 0"),
        (
            "a queue r x-cache-size=5",
            "406 invalid arg 'x-cache-size' for queue 'r' in vhost '/': has no effect without x-message-deduplication",
        ),
        (
            "a queue r x-message-deduplication=true x-cache-size=1000001",
            "406 invalid arg 'x-cache-size' for queue 'r' in vhost '/': {value_too_large,1000001}",
        ),
        (
            "a queue r x-message-deduplication=1",
            "406 invalid arg 'x-message-deduplication' for queue 'r' in vhost '/': {unacceptable_type,long}",
        ),
    ]);
}

#[test]
fn an_exchange_lets_nothing_through_twice() {
    check(&[
        (
            "a queue q durable; queue r; exchange x x-message-deduplication durable x-cache-size=10 x-cache-ttl=500",
            "0 0, 0 0",
        ),
        ("a bind x k q; bind x other r; confirm", ""),
        (
            "a publish x any 1 persistent x-deduplication-header=a; publish x any 2 persistent x-deduplication-header=a",
            "+2",
        ),
        ("a publish x any 3 persistent; publish - q 4 persistent x-deduplication-header=a", "+4"),
        ("* counts q", "3 0"),
        ("* counts r", "2 0"),
        // Through another exchange it is the same.
        ("a exchange f fanout; bind f - exchange:x; publish f k 5 x-deduplication-header=a mandatory", "+5"),
        ("a publish f k 6 x-deduplication-header=b", "+6"),
        ("* counts q", "4 0"),
        ("a purge q; publish x k 7 x-deduplication-header=b", "4, +7"),
        ("* counts q", "0 0"),
        ("* tick 500", ""),
        ("a publish x k 8 x-deduplication-header=a", "+8"),
        ("* counts q", "1 0"),
        (
            "a exchange y x-message-deduplication",
            "406 Missing or invalid argument, 'x-cache-size' must be an integer greater than 0",
        ),
        (
            "a exchange y x-message-deduplication x-cache-size=1 x-cache-persistence=cloud",
            "406 Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'",
        ),
        (
            "a exchange x x-message-deduplication durable x-cache-size=11 x-cache-ttl=500",
            "406 inequivalent arg 'x-cache-size' for exchange 'x' in vhost '/': received '11' but current is '10'",
        ),
    ]);
}

#[test]
fn ids_survive_as_their_messages_do() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable x-message-deduplication=true; queue w durable x-message-deduplication=true x-cache-ttl=60000",
                "0 0, 0 0",
            ),
            (
                "a exchange x x-message-deduplication durable x-cache-size=10; bind x - g; queue g durable; bind x - g",
                "404 no queue 'g' in vhost '/', 0 0",
            ),
            (
                "a publish - q 1 persistent x-deduplication-header=a; publish - q 2 persistent x-deduplication-header=b",
                "",
            ),
            (
                "a publish - w 1 persistent x-deduplication-header=a; publish x - 1 persistent x-deduplication-header=a",
                "",
            ),
            ("a get q; get w; get g", ":1=1 left 1, :2=1 left 0, :3=1 left 0"),
            ("a ack 3 multiple; purge plain", "404 no queue 'plain' in vhost '/'"),
            ("* END", ""),
            ("* background", ""),
            (
                "a confirm; publish - q 3 persistent x-deduplication-header=a; publish - q 4 persistent x-deduplication-header=b",
                "+2",
            ),
            ("* counts q", "2 0"),
            (
                "a publish - w 2 persistent x-deduplication-header=a; publish x - 2 persistent x-deduplication-header=a",
                "+4",
            ),
            ("* counts w", "0 0"),
            ("* counts g", "0 0"),
            ("* END", ""),
            (
                "a publish - q 5 persistent x-deduplication-header=a; publish - w 3 persistent x-deduplication-header=b",
                "",
            ),
            ("* counts q", "2 0"),
            ("* counts w", "1 0"),
        ],
    );
}

/// The first one is not flushed. A publisher that sends it again must not be told that it is safe.
/// After a crash its second copy must be taken.
#[test]
fn a_duplicate_is_confirmed_when_the_first_one_is_durable() {
    for (end, left) in [("crash", "0 0"), ("cut", "0 0")] {
        let disk = SimDisk::new(3, 64 << 20);
        let mut script = Script::stepped(&disk, 8 << 20);
        script.check(&[
            ("a queue q durable x-message-deduplication=true x-cache-ttl=60000; confirm", "0 0"),
            ("b confirm", ""),
            ("* hold", ""),
            ("a publish - q 1 persistent x-deduplication-header=a", ""),
            ("b publish - q 2 persistent x-deduplication-header=a; publish - q 3 x-deduplication-header=a", ""),
            (&format!("* {end}"), ""),
            ("* counts q", left),
            ("a confirm; publish - q 4 persistent x-deduplication-header=a", "+1"),
            ("* counts q", "1 0"),
            ("* hold", ""),
            ("a publish - q 5 persistent x-deduplication-header=b", ""),
            ("b confirm; publish - q 6 persistent x-deduplication-header=b", ""),
            ("* release", ""),
            ("b", "+1"),
            ("a", "+2"),
            ("* counts q", "2 0"),
        ]);
    }
}

/// A message may be delivered before it is on disk, and be lost. The copy that its publisher sends
/// again is new, and `redelivered` says so. A message that was on disk stays, and is known to have
/// been delivered.
#[test]
fn what_was_delivered_and_lost_is_new_when_it_is_sent_again() {
    for end in ["crash", "cut"] {
        for (flushes, confirmed, left, again) in
            [(false, "", "0 0", ":1=2 left 0"), (true, "+1", "1 0", ":1=1! left 0")]
        {
            let disk = SimDisk::new(3, 64 << 20);
            let mut script = Script::stepped(&disk, 8 << 20);
            script.check(&[
                ("a queue q durable x-message-deduplication=true x-cache-ttl=60000; confirm", "0 0"),
                // The delivery mark is on disk before any message is.
                ("b consume q c", ""),
                ("* hold", ""),
                ("a publish - q 1 persistent x-deduplication-header=a", ""),
                ("b", "c:1=1"),
                (if flushes { "* flush" } else { "b" }, ""),
                ("a", confirmed),
                (&format!("* {end}"), ""),
                ("* counts q", left),
                ("a confirm; publish - q 2 persistent x-deduplication-header=a", "+1"),
                ("a get q", again),
                ("a get q", "empty"),
            ]);
        }
    }
}

#[test]
fn a_durable_message_is_no_duplicate_of_one_that_ends_with_the_process() {
    check_each(
        &["crash", "cut"],
        &[
            ("a queue q durable x-message-deduplication=true x-cache-ttl=60000; confirm", "0 0"),
            ("a publish - q 1 x-deduplication-header=a; publish - q 2 persistent x-deduplication-header=a", "+2"),
            ("* counts q", "2 0"),
            ("* END", ""),
            ("a get q", ":1=2 left 0"),
        ],
    );
}

#[test]
fn transactions_and_dead_letters_are_sifted_too() {
    check_each(
        ALL,
        &[
            ("a queue q durable x-message-deduplication=true x-cache-ttl=60000", "0 0"),
            ("a queue s durable x-dead-letter-exchange= x-dead-letter-routing-key=q", "0 0"),
            (
                "a begin; tx-publish - q 1 persistent x-deduplication-header=a; tx-publish - q 2 persistent x-deduplication-header=a; tx-publish - s 3 persistent x-deduplication-header=a",
                "",
            ),
            ("a commit", "committed"),
            ("* counts q", "1 0"),
            (
                "a begin; tx-publish - q 4 persistent x-deduplication-header=a; tx-publish - q 5 persistent x-deduplication-header=b",
                "",
            ),
            ("a commit", "committed"),
            ("* counts q", "2 0"),
            ("* END", ""),
            ("a get s", ":1=3 left 0"),
            ("a reject 1; publish - q 6 persistent x-deduplication-header=b", ""),
            ("* counts q", "2 0"),
            ("* counts s", "0 0"),
            ("a publish - s 7 persistent x-deduplication-header=c; get s", ":2=7 left 0"),
            ("a reject 2", ""),
            ("* counts q", "3 0"),
            ("* END", ""),
            ("a publish - q 8 persistent x-deduplication-header=c", ""),
            ("* counts q", "3 0"),
        ],
    );
}

/// A job that was rejected, waited and came back was taken for a duplicate of itself: its only copy
/// was dropped.
#[test]
fn what_comes_back_from_a_waiting_queue_is_no_duplicate_of_itself() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable x-message-deduplication=true x-cache-ttl=60000 x-dead-letter-exchange= x-dead-letter-routing-key=w",
                "0 0",
            ),
            ("a queue w durable x-dead-letter-exchange= x-dead-letter-routing-key=q", "0 0"),
            ("a publish - q 1 persistent x-deduplication-header=a", ""),
            ("* END", ""),
            ("a get q", ":1=1 left 0"),
            ("a reject 1", ""),
            ("* END", ""),
            ("a get w", ":1=1[q/rejected*1] left 0"),
            ("a reject 1", ""),
            ("* END", ""),
            ("* counts q", "1 0"),
            // It is still known by its id, which another message has too.
            ("a publish - q 2 persistent x-deduplication-header=a", ""),
            ("* counts q", "1 0"),
            ("a publish - w 3 persistent x-deduplication-header=a; get w", ":1=3 left 0"),
            ("a reject 1", ""),
            ("* END", ""),
            ("* counts q", "1 0"),
        ],
    );
}

/// A full queue refuses new messages, and confirms duplicates.
#[test]
fn a_full_queue_confirms_what_it_has() {
    check(&[
        ("a queue q durable x-message-deduplication=true x-max-length=1 x-overflow=reject-publish; confirm", "0 0"),
        (
            "a publish - q 1 persistent x-deduplication-header=a; publish - q 2 persistent x-deduplication-header=b",
            "+1, -2",
        ),
        ("a publish - q 3 persistent x-deduplication-header=a", "+3"),
        ("a purge q; publish - q 4 persistent x-deduplication-header=b", "1, +4"),
    ]);
}

/// The log has been recycled many times, and the ids with it.
#[test]
fn ids_are_said_again_when_the_log_is_recycled() {
    let disk = SimDisk::new(5, 64 << 20);
    let mut script = Script::stepped(&disk, 1 << 20);
    script.say(
        "a queue q durable x-message-deduplication=true; queue w durable x-message-deduplication=true x-cache-size=3",
    );
    script.say("a queue busy durable; publish - q 1 persistent x-deduplication-header=a");
    for id in ["a", "b", "c", "d"] {
        script.say(&format!("a publish - w 1 persistent x-deduplication-header={id}"));
    }
    script.say("a purge w");
    for round in 0..300 {
        script.say("a publish - busy x persistent size=20000; get busy");
        script.say(&format!("a ack {}", round + 1));
        script.say("* background");
    }
    assert!(script.broker().broker.overview().journal.oldest_file > 3, "files have left the log");
    for end in ["crash", "restart"] {
        assert_eq!(script.say(&format!("* {end}")), "");
        for (queue, id, expected) in [("q", "a", "1 0"), ("w", "b", "0 0"), ("w", "c", "0 0"), ("w", "d", "0 0")] {
            script.say(&format!("a publish - {queue} 2 persistent x-deduplication-header={id}"));
            assert_eq!(script.say(&format!("* counts {queue}")), expected, "{queue} {id} after {end}");
        }
    }
    script.say("a publish - w 2 persistent x-deduplication-header=a");
    assert_eq!(script.say("* counts w"), "1 0", "the oldest of four was forgotten");
}

/// More ids than fit into a log file. Once all of them were restated whenever a file with some of
/// them left. Then the log could never get ahead of them: it stayed full, and publishers waited for
/// ever.
#[test]
fn more_ids_than_a_log_file_holds_leave_room_in_the_log() {
    const IDS: u64 = 6000;
    let disk = SimDisk::new(6, 64 << 20);
    let mut script = Script::stepped(&disk, 1 << 20);
    script.say(&format!("a queue w durable x-message-deduplication=true x-cache-size={IDS}; consume w c no-ack"));
    let publish = |script: &mut Script, id: u64| {
        script.say(&format!("a publish - w 1 persistent x-deduplication-header=order-{id:012}"))
    };
    for id in 0..IDS {
        publish(&mut script, id);
        script.say("* background");
    }
    script.say("a queue busy durable");
    for round in 0..200 {
        assert_eq!(script.say("a publish - busy x persistent size=20000"), "", "round {round}");
        script.say("* background");
        script.say("a purge busy");
        script.say("* background");
    }
    let journal = script.broker().broker.overview().journal;
    assert!(journal.oldest_file > 20 && journal.used_bytes < journal.max_bytes * 3 / 4, "{journal:?}");
    for end in ["crash", "restart"] {
        assert_eq!(script.say(&format!("* {end}")), "");
        for id in [0, 1023, 1024, 3000, IDS - 1] {
            publish(&mut script, id);
        }
        assert_eq!(script.say("* counts w"), "0 0", "after {end}");
    }
    publish(&mut script, IDS);
    assert_eq!(script.say("* counts w"), "1 0");
    publish(&mut script, 1);
    assert_eq!(script.say("* counts w"), "1 0", "only the oldest was forgotten");
    publish(&mut script, 0);
    assert_eq!(script.say("* counts w"), "2 0");
}
