//! The outcomes of deliveries: acknowledged, returned to their places, rejected, or without an
//! answer.

use crate::check;

#[test]
fn unknown_tags_are_refused_by_the_exact_text() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; consume q c", "0 0, c:1=1, c:2=2, c:3=3"),
        ("a ack 0", "406 unknown delivery tag 0"),
        ("a ack 4", "406 unknown delivery tag 4"),
        ("a ack 2", ""),
        ("a ack 2", "406 unknown delivery tag 2"),
        ("a ack 2 multiple", "406 unknown delivery tag 2"),
        ("a nack 2", "406 unknown delivery tag 2"),
        ("a reject 9", "406 unknown delivery tag 9"),
        ("a/2 ack 1", "406 unknown delivery tag 1"),
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
        ("a ack 2..4; ack 6..9; ack 4..2; ack 2", "406 unknown delivery tag 2"),
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

#[test]
fn recover_brings_everything_of_the_session_back() {
    check(&[
        ("a queue q; publish - q 1; publish - q 2; publish - q 3; consume q c", "0 0, c:1=1, c:2=2, c:3=3"),
        ("a ack 2", ""),
        ("a recover", "c:4=1!, c:5=3!"),
        ("a ack 1", "406 unknown delivery tag 1"),
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
