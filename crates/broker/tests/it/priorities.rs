//! Queues with `x-max-priority`, and quorum queues: the order of deliveries and of deaths, and what
//! a restart keeps of it.

use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

#[test]
fn the_highest_priority_goes_first_and_equals_in_order() {
    check(&[
        ("a queue q durable x-max-priority=5", "0 0"),
        ("p publish - q 1 persistent; publish - q 2 priority=5; publish - q 3 priority=2 persistent", ""),
        // A priority above the highest counts as the highest.
        ("p publish - q 4 priority=200 persistent; publish - q 5 priority=2; publish - q 6 priority=0", ""),
        ("* counts q", "6 0"),
        ("a get q; get q; get q", ":1=2 left 5, :2=4 left 4, :3=3 left 3"),
        ("a get q; get q; get q", ":4=5 left 2, :5=1 left 1, :6=6 left 0"),
        ("a nack 5; nack 2; nack 1; nack 4", ""),
        ("b consume q c no-ack", "c:1=2!, c:2=4!, c:3=5!, c:4=1!"),
        ("a nack 0 multiple", ""),
        ("b", "c:5=3!, c:6=6!"),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn without_the_argument_a_priority_is_not_looked_at() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2 priority=9", "0 0"),
        ("a get q; get q", ":1=1 left 1, :2=2 left 0"),
    ]);
}

#[test]
fn what_comes_later_overtakes_what_waits_but_not_what_is_out() {
    check(&[
        ("a queue q durable x-max-priority=255; prefetch 1; consume q c", "0 0"),
        ("p publish - q 1 persistent", ""),
        ("a", "c:1=1"),
        (
            "p publish - q 2 persistent; publish - q 3 persistent priority=255; publish - q 4 persistent priority=254",
            "",
        ),
        ("a ack 1", "c:2=3"),
        ("p publish - q 5 persistent priority=255", ""),
        ("a ack 2", "c:3=5"),
        ("a ack 3", "c:4=4"),
        ("a ack 4", "c:5=2"),
    ]);
}

#[test]
fn a_queue_that_is_too_long_drops_what_it_would_deliver_next() {
    check(&[
        (
            "a queue q x-max-priority=3 x-max-length=2 x-dead-letter-exchange= x-dead-letter-routing-key=d; queue d",
            "0 0, 0 0",
        ),
        ("p publish - q 1; publish - q 2 priority=3; publish - q 3 priority=1", ""),
        ("p publish - q 4 priority=2", ""),
        ("a get d; get d; get d", ":1=2[q/maxlen*1] left 1, :2=4[q/maxlen*1] left 0, empty"),
        ("a get q; get q", ":3=3 left 1, :4=1 left 0"),
    ]);
}

#[test]
fn the_old_ones_die_behind_any_higher_priority() {
    check(&[
        ("a queue q durable x-max-priority=3 x-dead-letter-exchange= x-dead-letter-routing-key=d; queue d", "0 0, 0 0"),
        ("p publish - q 1 ttl=100 persistent; publish - q 2 priority=3 persistent", ""),
        ("p publish - q 3 priority=2 ttl=50 persistent", ""),
        ("* tick 60", ""),
        ("* counts q", "2 0"),
        ("* tick 60", ""),
        ("* counts q", "1 0"),
        ("a get d; get d; get q", ":1=3[q/expired*1] left 1, :2=1[q/expired*1] left 0, :3=2 left 0"),
    ]);
}

#[test]
fn a_transaction_shows_its_messages_in_their_order() {
    check(&[
        ("a queue q durable x-max-priority=3; publish - q 0 priority=1", "0 0"),
        (
            "p begin; tx-publish - q 1 persistent; tx-publish - q 2 persistent priority=2; tx-publish - q 3 persistent",
            "",
        ),
        ("* counts q", "1 0"),
        ("p commit", "committed"),
        ("b consume q c no-ack", "c:1=2, c:2=0, c:3=1, c:4=3"),
    ]);
}

#[test]
fn priorities_and_what_was_delivered_are_known_after_a_stop_of_any_kind() {
    for end in ["restart", "crash", "cut"] {
        let disk = SimDisk::new(3, 64 << 20);
        let mut script = Script::stepped(&disk, 8 << 20);
        let end = format!("* {end}");
        script.check(&[
            ("a queue q durable x-max-priority=3", "0 0"),
            (
                "p publish - q 1 persistent; publish - q 2 persistent priority=1; publish - q 3 persistent priority=3",
                "",
            ),
            ("p publish - q 4 persistent; publish - q gone priority=3", ""),
            ("a get q; get q", ":1=3 left 4, :2=gone left 3"),
            ("p publish - q 5 persistent priority=3", ""),
            (&end, ""),
            (
                "p publish - q 6 persistent priority=3; publish - q 7 persistent; publish - q 8 persistent priority=2",
                "",
            ),
            ("a get q; get q; get q; get q", ":1=3! left 7, :2=5 left 6, :3=6 left 5, :4=8 left 4"),
            ("a get q; get q", ":5=2 left 3, :6=1 left 2"),
            ("a ack 5 multiple", ""),
            (&end, ""),
            ("p publish - q 9 persistent priority=2", ""),
            ("a get q", ":1=9 left 3"),
            ("a purge q; queue q durable x-max-priority=3", "3, 0 0"),
            (&end, ""),
            ("a get q; get q", ":1=9! left 0, empty"),
        ]);
    }
}

#[test]
fn a_quorum_queue_tells_priorities_apart_without_an_argument() {
    check(&[
        ("a queue q durable x-queue-type=quorum", "0 0"),
        ("p publish - q 1 persistent priority=0; publish - q 2 persistent; publish - q 3 persistent priority=4", ""),
        ("p publish - q 4 persistent priority=3; publish - q 5 persistent priority=5", ""),
        // 31 is the highest priority.
        ("p publish - q 6 persistent priority=31; publish - q 7 priority=255; publish - q 8 priority=30", ""),
        ("* counts q", "8 0"),
        ("a get q; get q; get q; get q", ":1=6 left 7, :2=7 left 6, :3=8 left 5, :4=5 left 4"),
        ("a nack 2; nack 3", ""),
        ("b consume q c no-ack", "c:1=7!(0/1), c:2=8!(0/1), c:3=2, c:4=3, c:5=4, c:6=1"),
        ("a nack 0 multiple", ""),
        ("b", "c:7=6!(0/1), c:8=5!(0/1)"),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn what_is_urgent_overtakes_the_backlog_of_a_quorum_queue_but_not_what_is_out() {
    let backlog: Vec<_> = (1..=9).map(|number| format!("publish - q {number} persistent priority=0")).collect();
    check(&[
        ("a queue q durable x-queue-type=quorum; prefetch 1; consume q c", "0 0"),
        (&format!("p {}", backlog.join("; ")), ""),
        ("p publish - q late persistent; publish - q high persistent priority=9", ""),
        ("a", "c:1=1"),
        ("a ack 1", "c:2=high"),
        ("a ack 2", "c:3=late"),
        ("a ack 3", "c:4=2"),
        ("a nack 4", "c:5=2!(0/1)"),
        ("a ack 5", "c:6=3"),
    ]);
}

#[test]
fn a_quorum_queue_that_is_too_long_drops_what_it_would_deliver_next() {
    check(&[
        (
            "a queue q durable x-queue-type=quorum x-max-length=2 x-dead-letter-exchange= x-dead-letter-routing-key=d",
            "0 0",
        ),
        ("a queue d durable x-queue-type=quorum", "0 0"),
        ("p publish - q 1 ttl=50 priority=0; publish - q 2 priority=1; publish - q 3; publish - q 4 priority=3", ""),
        ("a get d; get d; get d", ":1=3[q/maxlen*1] left 1, :2=4[q/maxlen*1] left 0, empty"),
        ("p publish - q 5 priority=2", ""),
        // Age counts behind any priority, in the lanes below the usual one too.
        ("* tick 60", ""),
        (
            "a get q no-ack; get d no-ack; get d no-ack",
            ":3=2 left 0, :4=5[q/maxlen*1] left 1, :5=1[q/expired*1] left 0",
        ),
    ]);
}

/// A message without a priority has 4 there, and one of 0 has 0.
#[test]
fn a_priority_of_0_is_one_wherever_the_message_goes() {
    check(&[
        ("a queue q durable x-queue-type=quorum", "0 0"),
        ("a queue from durable x-dead-letter-exchange= x-dead-letter-routing-key=q", "0 0"),
        ("a exchange wait x-delayed-message durable x-delayed-type=direct; bind wait q q", ""),
        ("p publish - from 1 persistent priority=0; publish - from 2 persistent", ""),
        ("p publish wait q 3 persistent priority=0 x-delay=50; publish wait q 4 persistent x-delay=50", ""),
        ("* tick 50", ""),
        ("a get from; get from", ":1=1 left 1, :2=2 left 0"),
        ("a reject 2; reject 1", ""),
        ("p publish - q 5 persistent; publish - q 6 persistent priority=0", ""),
        ("b consume q c no-ack", "c:1=4, c:2=2[from/rejected*1], c:3=5, c:4=3, c:5=1[from/rejected*1], c:6=6"),
    ]);
}

#[test]
fn a_quorum_queue_knows_its_priorities_after_a_stop_of_any_kind() {
    for end in ["restart", "crash", "cut"] {
        let disk = SimDisk::new(3, 64 << 20);
        let mut script = Script::stepped(&disk, 8 << 20);
        let end = format!("* {end}");
        script.check(&[
            ("a queue q durable x-queue-type=quorum x-delivery-limit=-1", "0 0"),
            (
                "p publish - q 1 persistent priority=0; publish - q 2 persistent priority=3; publish - q 3 persistent",
                "",
            ),
            ("p publish - q 4 persistent priority=5; publish - q 5 persistent priority=40", ""),
            ("a get q; get q; get q; get q", ":1=5 left 4, :2=4 left 3, :3=3 left 2, :4=2 left 1"),
            ("a ack 2; purge none", "404 no queue 'none' in vhost '/'"),
            (&end, ""),
            (
                "p publish - q 6 persistent priority=3; publish - q 7 persistent; publish - q 8 persistent priority=31",
                "",
            ),
            ("a get q; get q; get q", ":1=5! left 6, :2=8 left 5, :3=3! left 4"),
            ("a get q; get q; get q; get q", ":4=7 left 3, :5=2! left 2, :6=6 left 1, :7=1 left 0"),
            ("a ack 3 multiple; purge q", "0"),
            (&end, ""),
            ("* counts q", "4 0"),
            ("a get q; get q; get q; get q", ":1=7! left 3, :2=2! left 2, :3=6! left 1, :4=1! left 0"),
        ]);
    }
}
