//! Messages that are not due yet: they come at their time, in its order, and not before; also after
//! a crash.

use std::fmt::Write;

use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn an_exchange_delays_what_asks_for_it() {
    check(&[
        ("a queue q durable; exchange d x-delayed-message durable x-delayed-type=direct; bind d k q; confirm", "0 0"),
        (
            "a publish d k 1 persistent x-delay=1000; publish d k 2 persistent x-delay=500; publish d k 3 persistent",
            "+3",
        ),
        (
            "a publish d k 4 x-delay=-7; publish d none 5 x-delay=5 mandatory; publish - q 6 x-delay=900",
            "+4, returned 5 5, +6",
        ),
        ("* counts q", "3 0"),
        ("* counts q delayed", "2"),
        ("a consume q c no-ack", "c:1=3, c:2=4, c:3=6"),
        ("* tick 499", ""),
        ("a", ""),
        ("* tick 1", ""),
        ("a", "c:4=2"),
        ("* tick 499", ""),
        ("a", ""),
        ("* tick 1", ""),
        ("a", "c:5=1"),
        ("* counts q delayed", "0"),
        (
            "a publish d k 7 x-delay=soon",
            "406 invalid message: header 'x-delay' must be a number of milliseconds, ten years at most, not longstr 'soon'",
        ),
        ("a exchange e x-delayed-message", "406 Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            "a exchange e x-delayed-message x-delayed-type=x-delayed-message",
            "406 Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ("a exchange e x-delayed-message x-delayed-type=none", "406 unknown exchange type 'none'"),
        (
            "a exchange d x-delayed-message durable x-delayed-type=topic",
            "406 inequivalent arg 'x-delayed-type' for exchange 'd' in vhost '/': received 'topic' but current is 'direct'",
        ),
    ]);
}

#[test]
fn it_routes_as_it_says_and_by_way_of_others() {
    check(&[
        ("a queue q durable; queue r; queue s; exchange d x-delayed-message x-delayed-type=topic", "0 0, 0 0, 0 0"),
        ("a exchange f fanout; bind f - exchange:d; bind f - s; bind d a.* q; bind d #.b r", ""),
        (
            "a publish f a.b 1 persistent x-delay=100; publish d a.x 2 persistent x-delay=100; publish f x 3 x-delay=100",
            "",
        ),
        ("* counts s", "2 0"),
        ("* counts q delayed", "2"),
        ("* counts r delayed", "1"),
        ("* counts s delayed", "0"),
        ("* tick 100", ""),
        ("* counts q", "2 0"),
        ("* counts r", "1 0"),
        ("a get q; get q", ":1=1 left 1, :2=2 left 0"),
    ]);
}

#[test]
fn a_message_can_say_itself_when_it_is_due() {
    check(&[
        ("a queue q durable x-message-ttl=300; confirm", "0 0"),
        (
            "a publish - q 1 persistent x-opt-delivery-delay=40000; publish - q 2 persistent AMQ_SCHEDULED_DELAY=20000",
            "+2",
        ),
        (
            "a publish - q 3 persistent _AMQ_SCHED_DELIVERY=1700000030000; publish - q 4 x-opt-delivery-time=1600000000000",
            "+4",
        ),
        ("* counts q", "1 0"),
        ("* tick 20000", ""),
        ("a get q", ":1=2 left 0"),
        ("* tick 299", ""),
        ("a nack 1", ""),
        ("a get q", ":2=2! left 0"),
        ("* tick 9701", ""),
        ("a get q", ":3=3 left 0"),
        // Its age counts from its due time.
        ("* tick 10000", ""),
        ("* tick 299", ""),
        ("* counts q", "1 2"),
        ("* tick 1", ""),
        ("* counts q", "0 2"),
        (
            "a publish - q 5 x-opt-delivery-delay=-1",
            "406 invalid message: header 'x-opt-delivery-delay' must be a number of milliseconds, ten years at most, not long",
        ),
    ]);
}

/// No instruction can delay a message for longer.
#[test]
fn the_longest_delay_is_ten_years() {
    const NO_SPAN: &str = "must be a number of milliseconds, ten years at most, not long";
    const NO_TIME: &str = "must be a time in milliseconds since 1970, ten years ahead at most, not long";
    let refused = |header: &str, what: &str| format!("406 invalid message: header '{header}' {what}");
    let mut script = Script::memory();
    script.check(&[
        ("a queue q; exchange d x-delayed-message x-delayed-type=direct; bind d k q", "0 0"),
        ("a publish - q 1 x-opt-delivery-delay=315360000000; publish - q 2 AMQ_SCHEDULED_DELAY=315360000000", ""),
        ("a publish d k 3 x-delay=315360000000; publish - q 4 _AMQ_SCHED_DELIVERY=2015360000000", ""),
    ]);
    for (publish, header, what) in [
        ("- q", "x-opt-delivery-delay=315360000001", NO_SPAN),
        ("- q", "AMQ_SCHEDULED_DELAY=315360000001", NO_SPAN),
        ("d k", "x-delay=315360000001", NO_SPAN),
        ("- q", "x-opt-delivery-time=2015360000001", NO_TIME),
        ("- q", "_AMQ_SCHED_DELIVERY=2015360000001", NO_TIME),
    ] {
        let name = header.split('=').next().unwrap_or(header);
        assert_eq!(script.say(&format!("a publish {publish} 5 {header}")), refused(name, what));
    }
    script.check(&[
        ("* tick 315359999999", ""),
        ("* counts q delayed", "4"),
        ("a consume q c no-ack", ""),
        ("* tick 1", ""),
        ("a", "c:1=1, c:2=2, c:3=3, c:4=4"),
    ]);
}

#[test]
fn purging_and_deleting_takes_what_is_not_due() {
    check_each(
        ALL,
        &[
            ("a queue q durable; queue r durable", "0 0, 0 0"),
            (
                "a publish - q 1 persistent x-opt-delivery-delay=100; publish - q 2 persistent x-opt-delivery-delay=90000000; publish - q 3 persistent",
                "",
            ),
            ("a publish - r 1 persistent x-opt-delivery-delay=100", ""),
            ("a delete r if-empty", "406 queue 'r' in vhost '/' not empty"),
            ("a purge q; delete r", "3, 0"),
            ("* END", ""),
            ("a queue r durable", "0 0"),
            ("* tick 90000000", ""),
            ("* counts q", "0 0"),
            ("* counts r", "0 0"),
            ("* counts q delayed", "0"),
        ],
    );
}

#[test]
fn what_is_delayed_survives_and_comes_in_the_order_of_its_times() {
    check_each(
        ALL,
        &[
            ("a queue q durable; exchange d x-delayed-message durable x-delayed-type=fanout; bind d - q", "0 0"),
            (
                "a publish d - 1 persistent x-delay=90000000; publish d - 2 persistent x-delay=100; publish d - 3 x-delay=100",
                "",
            ),
            (
                "a publish d - 4 persistent x-delay=3600000; publish d - 5 persistent x-delay=3599999; publish d - 6 persistent x-delay=3600000",
                "",
            ),
            ("* END", ""),
            ("* counts q delayed", "5"),
            (
                "a exchange d x-delayed-message durable x-delayed-type=fanout; publish d - 7 persistent x-delay=3600001",
                "",
            ),
            ("a consume q c", ""),
            ("* tick 3599998", ""),
            ("a", "c:1=2"),
            ("a ack 1", ""),
            ("* background", ""),
            ("* END", ""),
            ("* tick 10", ""),
            ("a consume q c", "c:1=5, c:2=4, c:3=6, c:4=7"),
            ("a ack 4 multiple", ""),
            ("* END", ""),
            ("* counts q", "0 0"),
            ("* counts q delayed", "1"),
            ("* tick 90000000", ""),
            ("a get q", ":1=1 left 0"),
        ],
    );
}

#[test]
fn what_is_delayed_and_transient_ends_with_the_process() {
    check_each(
        &["crash", "cut", "restart"],
        &[
            ("a queue q durable; queue t", "0 0, 0 0"),
            ("a publish - q 1 x-opt-delivery-delay=50000; publish - t 2 persistent x-opt-delivery-delay=50000", ""),
            ("* counts t delayed", "1"),
            ("* END", ""),
            ("* counts q delayed", "0"),
            ("* tick 50000", ""),
            ("* counts q", "0 0"),
        ],
    );
}

#[test]
fn transactions_delay_too_and_nothing_is_there_before_the_commit() {
    check_each(
        ALL,
        &[
            ("a queue q durable; queue r durable; begin", "0 0, 0 0"),
            (
                "a tx-publish - q 1 persistent x-opt-delivery-delay=60000; tx-publish - r 2 persistent; tx-publish - q 3 persistent x-opt-delivery-delay=1",
                "",
            ),
            ("* tick 1", ""),
            ("* counts q delayed", "0"),
            ("a commit", "committed"),
            ("* counts q delayed", "1"),
            ("* counts q", "1 0"),
            ("* END", ""),
            ("* tick 60000", ""),
            ("* counts q", "2 0"),
        ],
    );
}

#[test]
fn dead_letters_are_delayed_once() {
    check(&[
        (
            "a queue q durable x-dead-letter-exchange=d; exchange d x-delayed-message durable x-delayed-type=fanout; bind d - q",
            "0 0",
        ),
        ("a publish - q 1 persistent x-delay=5000; get q", ":1=1 left 0"),
        ("a reject 1", ""),
        ("* counts q delayed", "1"),
        ("* tick 5000", ""),
        ("a get q", ":2=1[q/rejected*1] left 0"),
        ("a reject 2", ""),
        ("* counts q", "1 0"),
        ("a get q", ":3=1[q/rejected*2] left 0"),
    ]);
}

#[test]
fn a_delayed_message_is_compared_with_others_when_it_is_due() {
    check(&[
        (
            "a queue q durable x-message-deduplication=true; exchange x x-message-deduplication durable x-cache-size=9; queue r durable; bind x - r",
            "0 0, 0 0",
        ),
        (
            "a publish - q 1 persistent x-deduplication-header=a x-opt-delivery-delay=60000; publish - q 2 persistent x-deduplication-header=a",
            "",
        ),
        (
            "a publish x - 1 persistent x-deduplication-header=a x-opt-delivery-delay=60000; publish x - 2 persistent x-deduplication-header=a",
            "",
        ),
        ("* counts q", "1 0"),
        ("* tick 60000", ""),
        ("* counts q", "1 0"),
        ("* counts q duplicates", "1"),
        ("* counts r duplicates", "1"),
    ]);
}

/// Thousands of messages in buckets of all widths, with hardly any memory, through restarts: each
/// comes once, in order, at its time.
#[test]
fn many_messages_come_in_order_each_at_its_time() {
    const COUNT: u64 = 6000;
    for (seed, budget) in [(1, 100), (2, 1 << 30)] {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut setup = Setup::stepped(&disk, 4 << 20);
        setup.settings.memory_budget = budget;
        let mut script = Script::open(setup, Some(disk));
        script.say("a queue q durable");
        let mut random = seed;
        let mut dues: Vec<(u64, u64)> = Vec::new();
        for number in 0..COUNT {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Half of them within a minute, the others within a day.
            let delay = 1 + (random >> 33) % if number % 2 == 0 { 60_000 } else { 86_400_000 };
            dues.push((delay, number));
            let publish = format!("a publish - q {number} persistent x-opt-delivery-delay={delay} size=200");
            let said = script.say(&publish);
            assert_eq!(said, "", "message {number}: {:?}", script.broker().broker.overview().journal);
            if number % 20 == 0 {
                script.say("* background");
            }
        }
        dues.sort_unstable();
        assert_eq!(script.say("* counts q delayed"), COUNT.to_string());
        let mut passed = 0;
        let mut came = 0;
        for (round, until) in [15_000, 40_000, 60_000, 600_000, 7_200_000, 86_400_000].into_iter().enumerate() {
            let end = ["restart", "crash", "cut"][round % 3];
            assert_eq!(script.say(&format!("* {end}")), "");
            assert_eq!(script.say("a prefetch 0; consume q c no-ack"), "");
            while passed < until {
                let step = ((until - passed) / 7).max(1);
                script.say(&format!("* tick {step}"));
                passed += step;
                script.say("* background");
                let mut expected = String::new();
                let due = dues.iter().skip(came).take_while(|(due, _)| *due <= passed).count();
                let first = came;
                came += due;
                let mut said = script.say("a");
                for _ in 0..100 {
                    let more = script.say("a");
                    if more.is_empty() {
                        break;
                    }
                    write!(said, ", {more}").unwrap();
                }
                let bodies: Vec<&str> = said.split(", ").filter_map(|one| Some(one.split_once('=')?.1)).collect();
                let wanted: Vec<String> = dues[first..came].iter().map(|(_, number)| number.to_string()).collect();
                expected.push_str(&wanted.join(" "));
                assert_eq!(bodies.join(" "), expected, "seed {seed}, round {round}, at {passed}");
            }
        }
        assert_eq!(script.say("* counts q delayed"), "0");
    }
}
