//! Messages that come back to a queue with counts: the returns that count towards its delivery
//! limit, the shown ones, and those that a restart keeps.

use broker::CountedReturns;
use testkit::broker::Setup;
use testkit::script::Script;

use crate::check;
use crate::restart::{ALL, check_each};

const DYING: &str =
    "a queue d; queue q durable x-queue-type=quorum x-dead-letter-exchange= x-dead-letter-routing-key=d";

#[test]
fn what_is_given_back_never_counts() {
    let mut steps = vec![(DYING.to_owned(), "0 0, 0 0".to_owned()), ("a publish - q m persistent".into(), "".into())];
    steps.push(("a get q".into(), ":1=m left 0".into()));
    for time in 1..=30 {
        let back = if time % 2 == 0 { "recover".to_owned() } else { format!("nack {time}") };
        steps.push((format!("a {back}"), String::new()));
        steps.push(("a get q".into(), format!(":{}=m!(0/{time}) left 0", time + 1)));
    }
    steps.push(("* counts d".into(), "0 0".into()));
    check(&steps.iter().map(|(say, expect)| (say.as_str(), expect.as_str())).collect::<Vec<_>>());
}

#[test]
fn what_failed_twenty_times_dies_of_the_next_whatever_was_given_back_between() {
    let mut steps = vec![(DYING.to_owned(), "0 0, 0 0".to_owned()), ("a publish - q m persistent".into(), "".into())];
    steps.push(("a get q".into(), ":1=m left 0".into()));
    steps.push(("a nack 1".into(), "".into()));
    steps.push(("a get q".into(), ":2=m!(0/1) left 0".into()));
    for time in 1..=20 {
        steps.push((format!("a fail {}", time + 1), String::new()));
        steps.push(("a get q".into(), format!(":{}=m!({time}/{}) left 0", time + 2, time + 1)));
    }
    steps.push(("a fail 22".into(), "".into()));
    steps.push(("a get q; get d".into(), "empty, :23=m[q/delivery_limit*1] left 0".into()));
    check(&steps.iter().map(|(say, expect)| (say.as_str(), expect.as_str())).collect::<Vec<_>>());
}

#[test]
fn who_goes_has_failed_but_not_who_held_a_message_for_too_long() {
    check(&[
        ("a queue q durable x-queue-type=quorum; publish - q m persistent; consume q c", "0 0, c:1=m"),
        // The session, and then the connection.
        ("a/2 consume q d", ""),
        ("a end", "d:1=m!(1)"),
        ("b consume q e x-consumer-timeout=1000", ""),
        ("a close", ""),
        ("b", "e:1=m!(2)"),
        ("* tick 1000", ""),
        ("b", ""),
        ("* tick 1000", ""),
        ("b", "overdue 1000 ms"),
        ("b close", ""),
        ("c get q", ":1=m!(2/3) left 0"),
        // A transaction that is rolled back counts nothing.
        ("c begin; tx-ack 1; rollback; get q", ":2=m!(2/4) left 0"),
    ]);
}

#[test]
fn every_return_counts_where_an_older_version_is_announced() {
    let mut setup = Setup::memory();
    setup.settings.counted_returns = CountedReturns::All;
    Script::open(setup, None).check(&[
        (
            "a queue q durable x-queue-type=quorum x-delivery-limit=2; publish - q m persistent; get q",
            "0 0, :1=m left 0",
        ),
        ("a nack 1; get q", ":2=m!(1) left 0"),
        ("a fail 2; get q", ":3=m!(2) left 0"),
        ("a nack 3; get q", "empty"),
    ]);
}

#[test]
fn both_counts_are_known_after_a_stop_of_any_kind() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable x-queue-type=quorum x-delivery-limit=3; publish - q m persistent; get q",
                "0 0, :1=m left 0",
            ),
            ("a nack 1; get q", ":2=m!(0/1) left 0"),
            ("a fail 2; get q", ":3=m!(1/2) left 0"),
            ("a nack 3", ""),
            ("* END", ""),
            ("a get q", ":1=m!(1/3) left 0"),
            ("a fail 1; get q", ":2=m!(2/4) left 0"),
            ("a fail 2", ""),
            // Restated by a file that has left the log.
            ("* background", ""),
            ("* END", ""),
            ("a get q", ":1=m!(3/5) left 0"),
            ("a fail 1; get q", "empty"),
            ("* END", ""),
            ("a get q", "empty"),
        ],
    );
}

#[test]
fn a_failure_that_is_taken_for_granted_after_a_crash_stays_counted() {
    for (back, shown, later) in [("nack", "(1/2)", "(1/3)"), ("fail", "(2)", "(2/3)")] {
        check_each(
            &["crash", "cut"],
            &[
                ("a queue q durable x-queue-type=quorum; publish - q m persistent; get q", "0 0, :1=m left 0"),
                ("* END", ""),
                // Its consumer is told that it may have failed once.
                ("a get q", ":1=m! left 0"),
                (&format!("a {back} 1; get q"), &format!(":2=m!{shown} left 0")),
                ("a nack 2", ""),
                ("* END", ""),
                ("a get q", &format!(":1=m!{later} left 0")),
            ],
        );
    }
}

#[test]
fn what_a_consumer_noted_is_shown_after_a_stop_of_any_kind() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable; publish - q m persistent; publish - q n; get q; get q",
                "0 0, :1=m left 1, :2=n left 0",
            ),
            ("a modify 1 x-opt-why=slow; modify 2 x-opt-why=later", ""),
            ("a get q; get q", ":3=m! x-opt-why=slow left 1, :4=n! x-opt-why=later left 0"),
            ("a modify 3 failed x-opt-why=again x-opt-by=me; ack 4", ""),
            ("* END", ""),
            ("a get q", ":1=m! x-opt-why=again x-opt-by=me left 0"),
            ("a nack 1", ""),
            // Restated by a file that has left the log.
            ("* background", ""),
            ("* END", ""),
            ("a consume q b no-ack x-browse=true", "b:1=m! x-opt-why=again x-opt-by=me, cancelled b"),
            ("a consume q c no-ack", "c:2=m! x-opt-why=again x-opt-by=me"),
            ("* END", ""),
            ("a get q", "empty"),
        ],
    );
}

#[test]
fn what_was_noted_goes_with_the_dead_letter() {
    check(&[
        ("a queue dead durable; queue q durable x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0, 0 0"),
        ("a publish - q m persistent ttl=60000; get q", ":1=m left 0"),
        ("a begin; tx-modify 1 x-opt-first=1st; commit", "committed"),
        ("a get q", ":2=m! x-opt-first=1st left 0"),
        ("a modify 2 elsewhere x-opt-why=other", ""),
        ("a get dead", ":3=m[q/rejected*1] x-opt-first=1st x-opt-why=other left 0"),
        ("a modify 3 x-opt-why=dead", ""),
        ("a get dead", ":4=m![q/rejected*1] x-opt-first=1st x-opt-why=dead left 0"),
    ]);
}

#[test]
fn notes_that_are_too_large_settle_nothing() {
    let modify = format!("a modify 1 x-opt-why={}", "w".repeat(4096));
    check(&[
        ("a queue q; publish - q m; get q", "0 0, :1=m left 0"),
        (&modify, "406 annotations of 4110 bytes on a delivery; at most 4096 are kept"),
        ("a nack 1; get q", ":2=m! left 0"),
    ]);
}
