//! The order of deliveries among consumers: turns, priorities, prefetch, cancelling, fetching, full
//! mailboxes.

use testkit::script::Script;

use crate::check;

#[test]
fn consumers_take_turns() {
    check(&[
        ("a queue q; consume q a1; consume q a2", "0 0"),
        ("b consume q b1", ""),
        ("c publish - q 1; publish - q 2; publish - q 3; publish - q 4; publish - q 5", ""),
        ("a", "a1:1=1, a2:2=2, a1:3=4, a2:4=5"),
        ("b", "b1:1=3"),
    ]);
}

#[test]
fn a_higher_priority_is_served_first_while_it_has_credit() {
    check(&[
        ("a queue q; consume q low", "0 0"),
        ("b prefetch 2; consume q high x-priority=5", ""),
        ("c publish - q 1; publish - q 2; publish - q 3; publish - q 4", ""),
        ("b", "high:1=1, high:2=2"),
        ("a", "low:1=3, low:2=4"),
        ("b ack 1; ack 2", ""),
        ("c publish - q 5", ""),
        ("b", "high:3=5"),
        (
            "a consume q bad x-priority=high",
            "406 invalid arg 'x-priority' for queue 'q' in vhost '/': expected an integer of 32 bits",
        ),
    ]);
}

#[test]
fn prefetch_bounds_each_new_consumer() {
    check(&[
        ("a queue q; prefetch 2; consume q c1; prefetch 1; consume q c2", "0 0"),
        ("b publish - q 1; publish - q 2; publish - q 3; publish - q 4; publish - q 5", ""),
        ("a", "c1:1=1, c2:2=2, c1:3=3"),
        ("a ack 2", "c2:4=4"),
        ("a ack 1", "c1:5=5"),
        ("* counts q", "0 3"),
    ]);
}

#[test]
fn a_shared_prefetch_bounds_the_session_but_not_what_it_fetches() {
    check(&[
        ("a queue q; queue r; prefetch 2 shared; consume q c1; consume r c2", "0 0, 0 0"),
        ("b publish - q 1; publish - r 2; publish - q 3; publish - r 4", ""),
        ("a", "c1:1=1, c1:2=3"),
        ("a ack 1", "c2:3=2"),
        ("a prefetch 3 shared", "c2:4=4"),
        ("a ack 4 multiple", ""),
        ("b publish - q 5; publish - q 6; publish - q 7; publish - q 8", ""),
        ("a", "c1:5=5, c1:6=6, c1:7=7"),
        ("a/2 queue s; publish - s x", "0 0"),
        ("a get s", ":8=x left 0"),
        ("a ack 7", "c1:9=8"),
        ("b publish - q 9", ""),
        ("a ack 8", ""),
        ("a ack 6", "c1:10=9"),
    ]);
}

#[test]
fn shared_credit_goes_round_among_queues_and_consumers() {
    // Where memory is short, the order in which messages are read back decides.
    Script::memory().check(&[
        ("a queue q; queue r; queue s; prefetch 1 shared", "0 0, 0 0, 0 0"),
        ("a consume q c1; consume q c2; consume r c3; consume s c4", ""),
        ("b publish - q 1; publish - q 2; publish - q 3; publish - r 4; publish - r 5; publish - s 6", ""),
        ("a", "c1:1=1"),
        ("a ack 1", "c2:2=2"),
        ("a ack 2", "c1:3=3"),
        ("a ack 3", "c3:4=4"),
        ("a ack 4", "c4:5=6"),
        ("a ack 5", "c3:6=5"),
        ("a ack 6", ""),
    ]);
}

#[test]
fn a_full_shared_prefetch_stops_consumers_without_acknowledgements_too() {
    check(&[
        ("a queue q; queue r; prefetch 1 shared; consume q c1; consume r c2 no-ack", "0 0, 0 0"),
        ("b publish - r 1; publish - r 2; publish - q 3", ""),
        ("a", "c2:1=1, c2:2=2, c1:3=3"),
        ("b publish - q 4; publish - r 5", ""),
        ("a", ""),
        ("a ack 3", "c1:4=4"),
        ("a ack 4", "c2:5=5"),
    ]);
}

#[test]
fn a_commit_gives_shared_credit_back_to_all_queues() {
    check(&[
        ("a queue q; queue r; prefetch 1 shared; consume q c1; consume r c2", "0 0, 0 0"),
        ("b publish - q 1; publish - r 2", ""),
        ("a", "c1:1=1"),
        ("a begin; tx-ack 1", ""),
        ("a commit", "committed, c2:2=2"),
    ]);
}

#[test]
fn prefetch_for_existing_consumers_takes_effect_at_once() {
    check(&[
        ("a queue q; prefetch 1; consume q c", "0 0"),
        ("b publish - q 1; publish - q 2; publish - q 3; publish - q 4", ""),
        ("a", "c:1=1"),
        ("a prefetch 3 all", "c:2=2, c:3=3"),
        ("a prefetch 0 all", "c:4=4"),
    ]);
}

#[test]
fn a_consumer_without_acknowledgements_needs_no_credit() {
    check(&[
        ("a queue q; prefetch 1; consume q c no-ack", "0 0"),
        ("b publish - q 1; publish - q 2", ""),
        ("a", "c:1=1, c:2=2"),
        ("* counts q", "0 0"),
        ("a ack 1", "settled already"),
    ]);
}

#[test]
fn tags_are_unique_in_a_session_and_given_on_demand() {
    check(&[
        ("a queue q; consume q c; consume q c", "0 0, 530 attempt to reuse consumer tag 'c'"),
        ("a/2 consume q c", ""),
        ("a consume q -", "named"),
        ("a consume none d", "404 no queue 'none' in vhost '/'"),
        ("a passive q", "0 3"),
    ]);
}

#[test]
fn an_exclusive_consumer_is_alone() {
    check(&[
        ("a queue q; prefetch 1; consume q c exclusive", "0 0"),
        ("b consume q d", "403 queue 'q' in vhost '/' in exclusive use"),
        ("b publish - q 1; publish - q 2", ""),
        ("a", "c:1=1"),
        ("b get q no-ack", ":1=2 left 0"),
        ("a cancel c", "cancelled"),
        ("b consume q d", ""),
        ("a consume q c exclusive", "403 queue 'q' in vhost '/' in exclusive use"),
    ]);
}

#[test]
fn what_is_on_its_way_comes_before_the_cancel_is_answered() {
    check(&[
        ("a queue q; consume q c; mute", "0 0"),
        ("b publish - q 1; publish - q 2", ""),
        ("a cancel c", "c:1=1, c:2=2, cancelled"),
        ("a listen; cancel c; cancel none", "cancelled, cancelled"),
        ("b publish - q 3", ""),
        ("* counts q", "1 2"),
        ("a ack 1; ack 2", ""),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn consumers_are_told_when_their_queue_goes_after_what_was_on_its_way() {
    check(&[
        ("a queue q; consume q c no-ack; consume q d; mute", "0 0"),
        ("b publish - q 1; publish - q 2; delete q", "0"),
        ("a listen", "c:1=1, d:2=2, cancelled c, cancelled d"),
        ("a ack 2", ""),
        ("a queue q; consume q c", "0 0"),
    ]);
}

#[test]
fn a_deleted_queue_gives_shared_credit_back() {
    check(&[
        ("a queue q; queue r; prefetch 1 shared; consume q c; mute", "0 0, 0 0"),
        ("b publish - q 1; publish - r 2; delete q", "0"),
        ("a listen", "c:1=1, cancelled c"),
        ("a ack 1", ""),
        ("a consume r d", "d:2=2"),
    ]);
}

#[test]
fn a_get_takes_one_message_and_says_how_many_stay() {
    check(&[
        ("a queue q durable", "0 0"),
        ("a get q", "empty"),
        ("a publish - q 1 persistent; publish - q 2; publish - q 3 persistent", ""),
        ("a get q", ":1=1 left 2"),
        ("a get q no-ack", ":2=2 left 1"),
        ("a nack 1", ""),
        ("a get q", ":3=1! left 1"),
        ("a ack 3", ""),
        ("a get none", "404 no queue 'none' in vhost '/'"),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn what_a_peer_does_not_take_stays_in_the_queue() {
    let mut script = Script::memory();
    script.check(&[("a queue q; consume q c no-ack; mute", "0 0")]);
    for number in 0..100 {
        script.say(&format!("b publish - q {number} size=65536"));
    }
    let ready: u64 = script.broker().broker.queues()[0].ready;
    assert!((80..=86).contains(&ready), "{ready} of 100 messages of 64 KiB stay behind a mailbox of 1 MiB");
    let heard = script.say("a listen");
    let bodies: Vec<_> = heard.split(", ").map(|one| one.rsplit('=').next().unwrap().to_owned()).collect();
    assert_eq!(bodies, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// The consumer that was asked first when the mailbox had room took all of it, each time.
#[test]
fn consumers_of_one_connection_take_turns_when_it_has_room_again() {
    // Eight of each fill the mailbox, then nine at a time. With 98 the first queue becomes empty
    // just when it fills the mailbox for the last time. So it does not ask to be resumed.
    let data = [
        ("a queue q; queue r; consume q c no-ack; consume r d no-ack; mute", ["q", "r"], 98),
        ("a queue q; queue r; prefetch 100; consume q c; consume r d; mute", ["q", "r"], 100),
        ("a queue q; consume q c no-ack x-selector=k='x'; consume q d no-ack x-selector=k='y'; mute", ["q", "q"], 100),
    ];
    for (consumers, [first, second], count) in data {
        let mut script = Script::memory();
        script.say(consumers);
        for number in 0..count {
            let (one, other) = (format!("- {first} {number} k=x"), format!("- {second} {number} k=y"));
            script.say(&format!("b publish {one} size=65536; publish {other} size=65536"));
        }
        let heard = script.say("a listen");
        let tags: Vec<_> = heard.split(", ").map(|one| one.split(':').next().unwrap()).collect();
        for tag in ["c", "d"] {
            assert_eq!(tags.iter().filter(|other| **other == tag).count(), count, "{consumers}: {tag}");
        }
        let longest = tags.chunk_by(|one, other| one == other).map(<[_]>::len).max().unwrap();
        assert!(longest <= 20, "{consumers}: {longest} messages of one queue in a row");
    }
}

#[test]
fn a_message_larger_than_the_mailbox_is_delivered_too() {
    let mut script = Script::memory();
    script.check(&[
        ("a queue q; consume q c no-ack", "0 0"),
        ("b publish - q big size=3000000; publish - q big2 size=3000000", ""),
        ("a", "c:1=big, c:2=big2"),
    ]);
}

#[test]
fn a_queue_with_a_single_active_consumer_goes_to_the_next_one_when_it_leaves() {
    check(&[
        ("a queue q x-single-active-consumer=true; prefetch 1; consume q first", "0 0"),
        ("b prefetch 0; consume q second; consume q urgent x-priority=1", ""),
        ("c publish - q 1; publish - q 2; publish - q 3; publish - q 4", ""),
        ("a", "first:1=1"),
        ("b", ""),
        ("a ack 1", "first:2=2"),
        ("c get q no-ack", ":1=3 left 1"),
        ("c consume q x exclusive", "403 queue 'q' in vhost '/' in exclusive use"),
        // The deliveries of the consumer that stops stay with its session.
        ("a cancel first", "cancelled"),
        ("b", "urgent:1=4"),
        ("a close", ""),
        ("b", "urgent:2=2!"),
        ("b cancel urgent", "cancelled"),
        ("c publish - q 5", ""),
        ("b", "second:3=5"),
        ("* counts q", "0 3"),
    ]);
}

#[test]
fn who_waits_to_be_the_active_consumer_is_reported_so() {
    let mut script = Script::memory();
    let reported = |script: &Script| -> Vec<(String, bool)> {
        script.broker().broker.consumers().into_iter().map(|consumer| (consumer.tag, consumer.active)).collect()
    };
    script.check(&[("a queue q x-single-active-consumer=true; consume q first; consume q second x-priority=1", "0 0")]);
    assert_eq!(reported(&script), [("first".to_owned(), true), ("second".to_owned(), false)]);
    script.check(&[("a cancel first; queue r; consume r any", "cancelled, 0 0")]);
    assert_eq!(reported(&script), [("second".to_owned(), true), ("any".to_owned(), true)]);
}

#[test]
fn nobody_fetches_from_a_quorum_queue_with_a_single_active_consumer() {
    check(&[
        ("a queue q durable x-queue-type=quorum x-single-active-consumer=true", "0 0"),
        ("a publish - q 1; get q", LOCKED),
    ]);
}

/// The deliveries of the active one came back behind later messages that its successor had got
/// before.
#[test]
fn the_next_active_consumer_gets_first_what_comes_back_from_a_closed_session() {
    for close in ["a/2 end", "a close"] {
        check(&[
            ("a open; queue q x-single-active-consumer=true", "0 0"),
            ("a/2 prefetch 2; consume q first", ""),
            ("b prefetch 0; consume q second", ""),
            ("c publish - q 1; publish - q 2; publish - q 3; publish - q 4", ""),
            ("a", "first:1=1, first:2=2"),
            (close, ""),
            ("b", "second:1=1!, second:2=2!, second:3=3, second:4=4"),
        ]);
    }
}

const LOCKED: &str = "405 queue 'q' in vhost '/' has a single active consumer, past which nothing is fetched";

#[test]
fn who_holds_a_message_too_long_must_close_the_session() {
    // Where memory is short, the order in which messages are read back decides.
    Script::memory().check(&[
        ("a queue q x-consumer-timeout=1000; queue r; publish - q 1; publish - r 2", "0 0, 0 0"),
        ("a consume q c; consume r d; consume r no-limit x-consumer-timeout=0", "c:1=1, d:2=2"),
        ("b publish - r 3; publish - r 4", ""),
        ("a ack 2", "d:3=3, no-limit:4=4"),
        ("* tick 900", ""),
        ("a ack 3", ""),
        ("* tick 900", ""),
        ("a", ""),
        ("* tick 300", ""),
        ("a", "overdue 1000 ms"),
        ("* tick 2000", ""),
        ("a", ""),
        ("a close", ""),
        ("* counts q", "1 0"),
        ("b consume q c x-consumer-timeout=-1", NO_SPAN),
        ("b consume q c x-consumer-timeout=315360000001", NO_SPAN),
        (
            "b queue z x-consumer-timeout=315360000001",
            "406 invalid arg 'x-consumer-timeout' for queue 'z' in vhost '/': {value_too_large,315360000001}",
        ),
        ("b queue z x-consumer-timeout=315360000000; consume z c x-consumer-timeout=315360000000", "0 0"),
    ]);
}

const NO_SPAN: &str = "406 invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': expected a number of milliseconds, ten years \
                       at most";
