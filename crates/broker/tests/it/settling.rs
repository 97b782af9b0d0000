//! The outcomes of deliveries: acknowledged, returned to their places, rejected, or without an
//! answer.

use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

#[test]
fn what_is_settled_already_is_no_error() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; consume q c", "0 0, c:1=1, c:2=2, c:3=3"),
        ("a ack 0", "settled already"),
        ("a ack 4", "settled already"),
        ("a ack 2", ""),
        ("a ack 2", "settled already"),
        ("a ack 2 multiple", "settled already"),
        ("a nack 2", "settled already"),
        ("a reject 9", "settled already"),
        ("a/2 ack 1", "settled already"),
        ("a ack 3 multiple", ""),
        ("a ack 0 multiple", ""),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn multiple_settles_everything_up_to_the_tag() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; publish - q 4", "0 0"),
        ("a consume q c", "c:1=1, c:2=2, c:3=3, c:4=4"),
        ("a ack 2", ""),
        ("a ack 3 multiple", ""),
        ("* counts q", "0 1"),
        ("a cancel c; nack 0 multiple", "cancelled"),
        ("* counts q", "1 0"),
    ]);
}

/// A range names whatever is unsettled in it, so it can't be wrong about one that is settled.
#[test]
fn a_range_settles_what_is_unsettled_in_it() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; publish - q 4; publish - q 5", "0 0"),
        ("a consume q c", "c:1=1, c:2=2, c:3=3, c:4=4, c:5=5"),
        ("a ack 3; ack 2..4", ""),
        ("* counts q", "0 2"),
        ("a ack 2..4; ack 6..9; ack 4..2; ack 2", "settled already"),
        ("a cancel c; nack 0..99", "cancelled"),
        ("* counts q", "2 0"),
        ("a begin; get q; get q", ":6=1! left 1, :7=5! left 0"),
        ("a tx-ack 6..7; commit", "committed"),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn what_comes_back_returns_to_its_place_and_is_marked() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; publish - q 4", "0 0"),
        ("a get q", ":1=1 left 3"),
        ("a get q", ":2=2 left 2"),
        ("a get q", ":3=3 left 1"),
        ("a nack 2", ""),
        ("a nack 1", ""),
        ("b consume q c no-ack", "c:1=1!, c:2=2!, c:3=4"),
        ("a nack 3", ""),
        ("b", "c:4=3!"),
    ]);
}

#[test]
fn nack_multiple_keeps_the_order() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3", "0 0"),
        ("a prefetch 3; consume q c", "c:1=1, c:2=2, c:3=3"),
        ("a nack 3 multiple", "c:4=1!, c:5=2!, c:6=3!"),
        ("a ack 5; nack 6; nack 4", "c:7=1!, c:8=3!"),
    ]);
}

#[test]
fn a_rejected_message_without_a_dead_letter_exchange_is_gone() {
    check(&[
        ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent; consume q c", "0 0, c:1=1, c:2=2"),
        ("a reject 1; reject 2", ""),
        ("* counts q", "0 0"),
    ]);
}

/// Each outcome of a protocol that has them all, on a queue that counts failures.
#[test]
fn every_outcome_does_what_it_says() {
    let declared =
        "a queue dead; queue q x-queue-type=quorum durable x-dead-letter-exchange= x-dead-letter-routing-key=dead";
    check(&[
        (declared, "0 0, 0 0"),
        ("a consume dead d no-ack; publish - q 1; consume q c", "c:1=1"),
        ("a nack 1", "c:2=1!(0/1)"),
        ("a modify 2", "c:3=1!(0/2)"),
        ("a modify 3 failed", "c:4=1!(1/3)"),
        ("a modify 4 failed elsewhere", "d:5=1[q/rejected*1]"),
        ("a publish - q 2", "c:6=2"),
        ("a modify 6 elsewhere", "d:7=2[q/rejected*1]"),
        ("a publish - q 3; publish - q 4", "c:8=3, c:9=4"),
        ("a reject 8 said=broken; reject 9", "d:10=3[q/rejected*1]\"broken\", d:11=4[q/rejected*1]"),
        ("a begin; publish - q 5", "c:12=5"),
        ("a tx-reject 12 said=late", ""),
        ("a commit", "committed, d:13=5[q/rejected*1]\"late\""),
        ("a reject 12 said=again; ack 5", "settled already, settled already"),
        ("* counts q", "0 0"),
    ]);
}

/// What was said belongs to the newest death, survives a stop, and stays within its bound.
#[test]
fn what_a_consumer_said_is_kept_with_the_dead_letter() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut script = Script::stepped(&disk, 1 << 20);
    let dead = "x-dead-letter-exchange= x-dead-letter-routing-key=";
    script.check(&[
        (
            &format!("a queue three durable; queue two durable {dead}three; queue one durable {dead}two"),
            "0 0, 0 0, 0 0",
        ),
        ("a publish - one 1 persistent; consume one c", "c:1=1"),
        (&format!("a reject 1 said={}", "ä".repeat(200)), ""),
    ]);
    script.check(&[
        ("* restart", ""),
        ("a consume two c", &format!("c:1=1[one/rejected*1]\"{}\"", "ä".repeat(127))),
        ("a reject 1", ""),
        ("a consume three d", "d:2=1[two/rejected*1 one/rejected*1]"),
    ]);
}

#[test]
fn recover_brings_everything_of_the_session_back() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; consume q c", "0 0, c:1=1, c:2=2, c:3=3"),
        ("a ack 2", ""),
        ("a recover", "c:4=1!, c:5=3!"),
        ("a ack 1", "settled already"),
        ("a ack 5 multiple", ""),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn a_session_that_ends_gives_everything_back_in_order() {
    check(&[
        ("a queue q; prefetch 3; consume q c; mute", "0 0"),
        ("b publish - q 1; publish - q 2; publish - q 3; publish - q 4; publish - q 5", ""),
        ("a listen; mute", ""),
        ("a listen", "c:1=1, c:2=2, c:3=3"),
        ("a mute; ack 2", ""),
        ("a end", ""),
        ("* counts q", "4 0"),
        ("b consume q d", "d:1=1!, d:2=3!, d:3=4!, d:4=5"),
    ]);
}

/// It may come after later messages now, at a consumer that was there before. Unmarked, that would
/// break the order.
#[test]
fn what_was_never_sent_comes_back_marked() {
    check(&[
        ("a queue q; consume q c; mute", "0 0"),
        ("b publish - q 1; publish - q 2", ""),
        ("* counts q", "0 2"),
        ("a close", ""),
        ("* counts q", "2 0"),
        ("b consume q d", "d:1=1!, d:2=2!"),
    ]);
}

#[test]
fn the_end_of_one_session_leaves_the_others_alone() {
    check(&[
        ("a queue q; queue r; consume q c; mute", "0 0, 0 0"),
        ("a/2 consume r d", ""),
        ("b publish - q 1; publish - r 2; publish - q 3", ""),
        ("a end", ""),
        ("a/2 listen", "d:1=2"),
        ("* counts q", "2 0"),
        ("a/2 ack 1", ""),
        ("* counts r", "0 0"),
        ("a close", ""),
        ("* counts r", "0 0"),
    ]);
}

#[test]
fn thousands_of_sessions_on_one_connection_each_have_their_tags() {
    let mut script = testkit::script::Script::memory();
    script.check(&[("a queue q", "0 0")]);
    for session in 1..=2000 {
        script.say(&format!("a/{session} prefetch 1; consume q c{session}"));
    }
    for number in 0..2500 {
        script.say(&format!("b publish - q {number}"));
    }
    script.check(&[("* counts q", "500 2000")]);
    let heard = script.say("a");
    assert_eq!(heard.split(", ").count(), 2000);
    for session in 1..=1000 {
        assert_eq!(script.say(&format!("a/{session} ack 1")).is_empty(), session > 500, "session {session}");
    }
    script.check(&[("* counts q", "0 1500"), ("a close", ""), ("* counts q", "1500 0")]);
}
