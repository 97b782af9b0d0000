//! Messages that come back wait before they are delivered again, each time longer, and no other
//! message waits for them.

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn what_comes_back_waits_longer_each_time_and_keeps_its_place() {
    check(&[
        (
            "a queue q durable x-queue-type=quorum x-delivery-limit=3 x-delayed-retry-type=all x-delayed-retry-min=100 x-delayed-retry-max=250",
            "0 0",
        ),
        ("a publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent; get q", ":1=1 left 2"),
        ("a nack 1", ""),
        ("* counts q", "2 0"),
        ("* counts q delayed", "1"),
        ("a get q", ":2=2 left 1"),
        ("* tick 99", ""),
        ("* counts q", "1 1"),
        ("* tick 1", ""),
        ("a get q", ":3=1!(0/1) left 1"),
        ("a fail 3", ""),
        ("* tick 100", ""),
        ("a get q", ":4=1!(1/2) left 1"),
        ("a fail 4", ""),
        ("* tick 199", ""),
        ("* counts q", "1 1"),
        ("* tick 1", ""),
        ("a get q", ":5=1!(2/3) left 1"),
        // A message that did not fail again waits no longer than before.
        ("a nack 5", ""),
        ("* tick 199", ""),
        ("* counts q", "1 1"),
        ("* tick 1", ""),
        ("a get q", ":6=1!(2/4) left 1"),
        ("a fail 6", ""),
        ("* tick 249", ""),
        ("* counts q", "1 1"),
        ("* tick 1", ""),
        ("a get q", ":7=1!(3/5) left 1"),
        ("a fail 7", ""),
        ("* counts q delayed", "0"),
        ("* tick 1000", ""),
        ("a get q; get q", ":8=3 left 0, empty"),
    ]);
}

/// A superseded message was counted as waiting until its due time.
#[test]
fn what_is_superseded_waits_no_more() {
    check(&[
        ("a queue q durable x-last-value-key=k x-delayed-retry-type=all x-delayed-retry-min=60000", "0 0"),
        ("a publish - q 1 persistent k=x; get q", ":1=1 left 0"),
        ("a nack 1", ""),
        ("* counts q delayed", "1"),
        ("a publish - q 2 persistent k=x", ""),
        ("* counts q delayed", "0"),
        ("a get q", ":2=2 left 0"),
        ("a ack 2", ""),
        ("a delete q if-empty", "0"),
    ]);
}

#[test]
fn only_what_failed_or_only_what_was_returned_may_wait() {
    for (kind, waits, at_once, counts) in [("failed", "fail", "nack", "(0/1)"), ("returned", "nack", "fail", "(1)")] {
        check(&[
            (
                &format!(
                    "a queue q durable x-delayed-retry-type={kind} x-delayed-retry-min=100; publish - q 1 persistent"
                ),
                "0 0",
            ),
            ("a get q", ":1=1 left 0"),
            (&format!("a {at_once} 1"), ""),
            ("a get q", &format!(":2=1!{counts} left 0")),
            (&format!("a {waits} 2"), ""),
            ("a get q", "empty"),
            ("a delete q if-empty", "406 queue 'q' in vhost '/' not empty"),
            ("a purge q", "1"),
            ("* tick 100", ""),
            ("* counts q", "0 0"),
        ]);
    }
}

#[test]
fn consumers_get_it_when_it_is_due_and_others_meanwhile() {
    check(&[
        ("a queue q durable x-delayed-retry-type=all x-delayed-retry-min=1000; prefetch 1; consume q c", "0 0"),
        ("b publish - q 1 persistent; publish - q 2; publish - q 3 persistent", ""),
        ("a", "c:1=1"),
        ("a nack 1", "c:2=2"),
        ("a nack 2", "c:3=3"),
        ("a ack 3", ""),
        ("* tick 999", ""),
        ("a", ""),
        ("* tick 1", ""),
        ("a", "c:4=1!(0/1)"),
        ("a ack 4", "c:5=2!(0/1)"),
        ("a ack 5", ""),
        ("* counts q", "0 0"),
    ]);
}

#[test]
fn a_restart_makes_nothing_earlier() {
    check_each(
        ALL,
        &[
            ("a queue q durable x-delayed-retry-type=all x-delayed-retry-min=1000", "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; get q", ":1=1 left 1"),
            ("a nack 1; purge none", "404 no queue 'none' in vhost '/'"),
            ("* tick 400", ""),
            ("* background", ""),
            ("* END", ""),
            ("* counts q", "1 0"),
            ("* counts q delayed", "1"),
            ("* tick 599", ""),
            ("* counts q", "1 0"),
            ("* tick 1", ""),
            ("* counts q", "2 0"),
            ("* END", ""),
            ("* counts q", "2 0"),
            ("* counts q delayed", "0"),
        ],
    );
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let text = |what: &str| format!("406 invalid arg 'x-delayed-retry-{what}");
    check(&[
        (
            "a queue q x-delayed-retry-type=all",
            &text("type' for queue 'q' in vhost '/': delayed-retry-min is required when delayed-retry-type is all"),
        ),
        (
            "a queue q x-delayed-retry-type=some x-delayed-retry-min=5",
            &text(
                "type' for queue 'q' in vhost '/': some is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
            ),
        ),
        (
            "a queue q x-delayed-retry-type=all x-delayed-retry-min=5 x-delayed-retry-max=4",
            &text(
                "type' for queue 'q' in vhost '/': delayed-retry-max (4) must not be smaller than delayed-retry-min (5)",
            ),
        ),
        (
            "a queue q x-delayed-retry-min=5",
            &text("min' for queue 'q' in vhost '/': has no effect without x-delayed-retry-type"),
        ),
        (
            "a queue q x-delayed-retry-type=disabled x-delayed-retry-min=0",
            &text("min' for queue 'q' in vhost '/': {value_zero,0}"),
        ),
        ("a queue q x-delayed-retry-type=disabled x-delayed-retry-min=5", "0 0"),
    ]);
}
