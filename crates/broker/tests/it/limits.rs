//! Limits on lengths, ages and deliveries, and the ways of messages beyond a limit.

use broker::Counter;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

#[test]
fn the_oldest_go_when_a_queue_is_too_long() {
    check(&[
        ("a queue q x-max-length=2", "0 0"),
        ("a publish - q 1; publish - q 2; publish - q 3", ""),
        ("a publish - q 4", ""),
        ("a get q no-ack; get q no-ack; get q no-ack", ":1=3 left 1, :2=4 left 0, empty"),
        ("a queue b x-max-length-bytes=10", "0 0"),
        ("a publish - b 1 size=6; publish - b 2 size=4; publish - b 3 size=5", ""),
        ("a get b no-ack; get b no-ack; get b no-ack", ":3=2 left 1, :4=3 left 0, empty"),
        ("a publish - b 4 size=11", ""),
        ("* counts b", "0 0"),
    ]);
}

#[test]
fn a_consumer_takes_before_the_limit_does() {
    check(&[
        ("a queue q x-max-length=1; prefetch 2; consume q c", "0 0"),
        ("a publish - q 1; publish - q 2; publish - q 3; publish - q 4", "c:1=1, c:2=2"),
        ("* counts q", "1 2"),
        ("a nack 1", "c:3=1!"),
        ("a cancel c; nack 2; nack 3", "cancelled"),
        ("* counts q", "1 0"),
        ("a get q", ":4=4 left 0"),
    ]);
}

/// The same log, once with the wanted size and once as small as the disk made it.
#[test]
fn who_sends_what_the_log_cannot_hold_is_told_what_keeps_it_small() {
    const MIB: usize = 1 << 20;
    for (disk, asked, remedy) in [
        (64 * MIB, 2 * MIB, "raise journal.file_bytes, and journal.max_bytes to eight times that"),
        (4 * MIB, 16 * MIB, "its disk was short when the broker started: make room there, and start it again"),
    ] {
        let mut script = Script::stepped(&SimDisk::new(1, disk as u64), asked as u64);
        let told = "406 message of 215536 bytes with its properties is larger than the log can hold (196608)";
        script.check(&[
            ("a queue q durable", "0 0"),
            ("a publish - q 1 persistent size=150000", &format!("{told}; {remedy}")),
            ("a publish - q 1 persistent size=100000", ""),
        ]);
    }
}

#[test]
fn messages_die_of_age_at_the_head() {
    check(&[
        ("a queue q; publish - q 1 ttl=1000; publish - q 2; publish - q 3 ttl=10", "0 0"),
        ("* tick 999", ""),
        ("* counts q", "3 0"),
        ("* tick 1", ""),
        ("* counts q", "2 0"),
        ("a get q no-ack", ":1=2 left 1"),
        ("a get q no-ack", "empty"),
        ("a queue t x-message-ttl=500; publish - t 1; publish - t 2 ttl=100; publish - t 3 ttl=9000", "0 0"),
        ("* tick 100", ""),
        ("* counts t", "3 0"),
        ("* tick 400", ""),
        ("* counts t", "0 0"),
    ]);
}

#[test]
fn a_message_without_time_reaches_only_who_is_ready() {
    check(&[
        ("a queue q x-message-ttl=0; publish - q 1", "0 0"),
        ("* counts q", "0 0"),
        ("a prefetch 1; consume q c; publish - q 2; publish - q 3", "c:1=2"),
        ("* counts q", "0 1"),
        // A returned message has had its time.
        ("a nack 1", ""),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn dead_letters_carry_their_story() {
    check(&[
        ("a exchange dlx topic; queue dead; bind dlx # dead", "0 0"),
        ("a queue q x-dead-letter-exchange=dlx x-max-length=3 x-message-ttl=1000", "0 0"),
        ("a publish - q 1; publish - q 2; publish - q 3; publish - q 4", ""),
        ("b consume dead d no-ack", "d:1=1[q/maxlen*1]"),
        ("a get q", ":1=2 left 2"),
        ("a reject 1", ""),
        ("b", "d:2=2[q/rejected*1]"),
        ("* tick 1000", ""),
        ("b", "d:3=3[q/expired*1], d:4=4[q/expired*1]"),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn dead_letters_may_get_another_key_and_may_have_nowhere_to_go() {
    check(&[
        ("a queue dead; queue q x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0, 0 0"),
        ("a publish - q 1; get q; reject 1", ":1=1 left 0"),
        ("a get dead no-ack", ":2=1[q/rejected*1] left 0"),
        ("a queue r x-dead-letter-exchange=none; publish - r 2; get r; reject 3", "0 0, :3=2 left 0"),
        ("* counts r", "0 0"),
    ]);
}

#[test]
fn dead_letters_travel_in_chains_and_circles_end_without_a_rejection() {
    check(&[
        ("a queue q1 x-dead-letter-exchange= x-dead-letter-routing-key=q2 x-message-ttl=100", "0 0"),
        ("a queue q2 x-dead-letter-exchange= x-dead-letter-routing-key=q3 x-message-ttl=100", "0 0"),
        ("a queue q3 x-dead-letter-exchange= x-dead-letter-routing-key=q1", "0 0"),
        ("a publish - q1 m", ""),
        ("* tick 100", ""),
        ("* counts q2", "1 0"),
        ("* tick 100", ""),
        ("a get q3", ":1=m[q2/expired*1 q1/expired*1] left 0"),
        ("a reject 1", ""),
        ("* counts q1", "1 0"),
        ("* tick 100", ""),
        ("* tick 100", ""),
        ("a get q3", ":2=m[q2/expired*2 q1/expired*2 q3/rejected*1] left 0"),
        // No consumer rejects here, so a cycle is not allowed.
        ("a queue c x-dead-letter-exchange= x-dead-letter-routing-key=c x-message-ttl=100; publish - c m", "0 0"),
        ("* tick 100", ""),
        ("* counts c", "0 0"),
    ]);
}

#[test]
fn a_quorum_queue_counts_deliveries_and_gives_up() {
    check(&[
        (
            "a queue dead; queue q durable x-queue-type=quorum x-delivery-limit=2 x-dead-letter-exchange= x-dead-letter-routing-key=dead",
            "0 0, 0 0",
        ),
        ("a publish - q m persistent; consume q c", "c:1=m"),
        ("a fail 1", "c:2=m!(1)"),
        ("a fail 2", "c:3=m!(2)"),
        ("a fail 3", ""),
        ("a get dead no-ack", ":4=m[q/delivery_limit*1] left 0"),
        ("a queue r durable x-queue-type=quorum; publish - r m persistent; consume r d", "0 0, d:5=m"),
        ("a queue s x-queue-type=quorum", "406 invalid property 'non-durable' for queue 's' in vhost '/'"),
    ]);
}

/// No client can have asked RabbitMQ for that: its classic queues have no delivery limit, its
/// quorum queues no `x-max-priority`.
#[test]
fn a_queue_that_asks_for_no_type_has_limits_of_both_at_once() {
    check(&[
        (
            "a queue dead; queue q x-max-priority=9 x-delivery-limit=1 x-single-active-consumer=true \
             x-message-deduplication=true x-dead-letter-strategy=at-least-once x-dead-letter-exchange= \
             x-dead-letter-routing-key=dead",
            "0 0, 0 0",
        ),
        ("a publish - q low priority=1; publish - q high priority=7", ""),
        ("a prefetch 1; consume q c", "c:1=high"),
        ("b consume q d", ""),
        ("a fail 1", "c:2=high!(1)"),
        ("a fail 2", "c:3=low"),
        ("a get dead no-ack", ":4=high[q/delivery_limit*1] left 0"),
        // Without such an argument it comes back for ever, as from a classic queue.
        ("c queue r; publish - r m; consume r e", "0 0, e:1=m"),
        ("c nack 1", "e:2=m!"),
    ]);
}

#[test]
fn what_is_lost_is_counted_and_shown() {
    let mut script = Script::memory();
    let steps = [
        "a queue q x-max-length=1; queue e; publish amq.topic nowhere 1 size=9",
        "* tick 1",
        "a publish - q 2; publish - q 3",
        "* tick 1",
        "a publish - e 4 ttl=5; queue d x-dead-letter-exchange=none; publish - d 5",
        "* tick 10",
        "* tick 1",
        "a get d; reject 1",
        "* tick 1",
        "a get q; reject 2",
    ];
    steps.iter().for_each(|step| drop(script.say(step)));
    let broker = &script.broker().broker;
    let losses: Vec<_> = broker
        .losses()
        .into_iter()
        .map(|loss| (loss.reason, loss.queue.unwrap_or_default(), loss.exchange, loss.routing_key, loss.body_bytes))
        .collect();
    let text = |words: [&str; 3]| words.map(str::to_owned);
    let expected = [
        ("unroutable", text(["", "amq.topic", "nowhere"]), 9),
        ("maxlen", text(["q", "", "q"]), 1),
        ("expired", text(["e", "", "e"]), 1),
        ("dead_letter_unroutable", text(["d", "", "d"]), 1),
        ("rejected", text(["q", "", "q"]), 1),
    ]
    .map(|(reason, [queue, exchange, key], bytes)| (reason, queue, exchange, key, bytes));
    assert_eq!(losses, expected);
    let totals = broker.overview().totals;
    let dropped = [totals.publishes.unroutable_dropped.get(), totals.deaths.dead_letters_dropped[0].get()];
    assert_eq!((totals.deaths.lost.each_ref().map(Counter::get), dropped), ([1, 1, 1, 0], [1, 1]));
}
