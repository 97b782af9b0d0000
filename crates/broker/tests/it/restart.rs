//! The effects of a restart: everything durable stays after a clean stop, everything confirmed
//! after a crash, and nothing else.

use testkit::broker::{Setup, TestBroker};
use testkit::script::Script;
use testkit::sim_disk::{Fault, SimDisk};

/// The same conversation with each end: a clean stop, the end of the process, a power cut.
pub(crate) fn check_each(ends: &[&str], steps: &[(&str, &str)]) {
    for end in ends {
        let disk = SimDisk::new(3, 64 << 20);
        let mut script = Script::stepped(&disk, 8 << 20);
        for (at, (line, expected)) in steps.iter().enumerate() {
            let line = line.replace("END", end);
            assert_eq!(script.say(&line), *expected, "step {at} with {end}: {line}");
        }
    }
}

pub(crate) const ALL: &[&str] = &["restart", "crash", "cut"];

#[test]
fn what_is_durable_comes_back_and_what_is_transient_does_not() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable; queue t; queue x exclusive durable; queue ad durable auto-delete",
                "0 0, 0 0, 0 0, 0 0",
            ),
            ("a exchange e topic durable; exchange te topic; exchange in fanout durable internal", ""),
            ("a publish - q 1 persistent; publish - q 2; publish - t 3 persistent; publish - q 4 persistent", ""),
            ("a publish - ad 5 persistent", ""),
            ("* END", ""),
            ("a passive t", "404 no queue 't' in vhost '/'"),
            ("a passive x", "404 no queue 'x' in vhost '/'"),
            ("a passive-exchange te", "404 no exchange 'te' in vhost '/'"),
            ("a exchange e topic durable; exchange in fanout durable internal", ""),
            ("a queue q durable; queue ad durable auto-delete", "2 0, 1 0"),
            ("a get q; get q; get q", ":1=1 left 1, :2=4 left 0, empty"),
            ("a ack 2 multiple", ""),
            ("* END", ""),
            ("a get q", "empty"),
            ("a consume ad c", "c:1=5"),
            ("a cancel c", "cancelled"),
            ("* counts ad", "none"),
            ("* END", ""),
            ("* counts ad", "none"),
        ],
    );
}

/// A time to live counts from the publish, and may need more than 32 bits.
#[test]
fn messages_live_as_long_as_they_were_to() {
    check_each(
        ALL,
        &[
            ("a queue days durable; queue years durable; queue always durable", "0 0, 0 0, 0 0"),
            ("a publish - days 1 persistent ttl=5184000000; publish - years 2 persistent ttl=315360000000", ""),
            ("a publish - always 3 persistent", ""),
            ("* END", ""),
            ("* tick 5183999999", ""),
            ("* counts days", "1 0"),
            ("* END", ""),
            ("* counts days", "1 0"),
            ("* tick 1", ""),
            ("* counts days", "0 0"),
            ("* tick 310175999999", ""),
            ("* END", ""),
            ("* counts years", "1 0"),
            ("* tick 1", ""),
            ("* counts years", "0 0"),
            ("* tick 1000000000000", ""),
            ("* counts always", "1 0"),
        ],
    );
}

#[test]
fn bindings_come_back_between_durable_ends_only() {
    check_each(
        ALL,
        &[
            ("a queue q durable; queue t; queue r durable", "0 0, 0 0, 0 0"),
            ("a exchange e topic durable; exchange f headers durable; exchange te fanout", ""),
            ("a bind e a.* q; bind e b.* t; bind te - q; bind e c exchange:f; bind f - r h=1 g=2", ""),
            ("a bind e d exchange:te; bind amq.topic z q; bind amq.topic y exchange:e; bind e gone q", ""),
            ("a bind f - r h=5 g=6; unbind f - r g=6 h=5; unbind e gone q", ""),
            ("* END", ""),
            ("a publish e a.x 1; publish e b.x 2; publish e d 3; publish amq.topic z 4; publish e gone 5", ""),
            ("a publish e c 6 g=2 h=1; publish e c 7 h=1; publish e c 8 h=5 g=6; publish amq.topic y 9", ""),
            ("* counts q", "2 0"),
            ("* counts r", "1 0"),
            // A deleted object's bindings are gone when another one of its name is declared.
            ("a delete-exchange e; exchange e topic durable; publish e a.x 10", ""),
            ("* counts q", "2 0"),
            ("* END", ""),
            ("a publish e a.x 11", ""),
            ("a publish amq.topic z 12", ""),
            ("* counts q", "1 0"),
        ],
    );
}

#[test]
fn exchanges_come_back_with_their_arguments() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable; queue r durable; queue s durable; exchange ae fanout durable; bind ae - q",
                "0 0, 0 0, 0 0",
            ),
            ("a exchange x headers durable alternate-exchange=ae; bind x - r x-match=any-with-x x-h=1", ""),
            (
                "a exchange h x-consistent-hash durable hash-header=h; bind h 10 s; exchange m x-modulus-hash durable",
                "",
            ),
            ("* END", ""),
            ("a publish x - m x-h=1; publish x - m", ""),
            ("* counts q", "1 0"),
            ("* counts r", "1 0"),
            ("a publish h k m h=5; exchange m x-modulus-hash durable", ""),
            ("* counts s", "1 0"),
            ("a exchange x headers durable alternate-exchange=ae", ""),
            (
                "a exchange h x-consistent-hash durable hash-header=g",
                "406 inequivalent arg 'hash-header' for exchange 'h' in vhost '/': received 'g' but current is 'h'",
            ),
        ],
    );
}

#[test]
fn a_key_is_hashed_to_the_same_queue_after_a_restart() {
    let publishes: Vec<String> = (0..50).map(|key| format!("publish x user.{key} m persistent")).collect();
    let publishes = format!("a {}", publishes.join("; "));
    for kind in ["x-consistent-hash", "x-modulus-hash"] {
        for end in ALL {
            let disk = SimDisk::new(3, 64 << 20);
            let mut script = Script::stepped(&disk, 8 << 20);
            script.say(&format!("a exchange x {kind} durable"));
            let queues = ["q0", "q1", "q2", "q3", "q4", "q5", "q6"];
            for queue in queues {
                script.say(&format!("a queue {queue} durable; bind x 1 {queue}"));
            }
            let mut counts = Vec::new();
            for round in 1..=2 {
                assert_eq!(script.say(&publishes), "");
                let now = queues.map(|queue| script.say(&format!("* counts {queue}")));
                let now = now.map(|count| count.trim_end_matches(" 0").parse::<u64>().unwrap());
                assert_eq!(now.iter().sum::<u64>(), 50 * round, "{kind} {end}");
                counts.push(now);
                script.say(&format!("* {end}"));
            }
            assert_eq!(counts[1], counts[0].map(|count| 2 * count), "{kind} {end}");
        }
    }
}

#[test]
fn copies_are_still_copies_after_a_restart() {
    check_each(
        ALL,
        &[
            ("a queue q durable x-dead-letter-exchange=d; queue r durable; queue s durable", "0 0, 0 0, 0 0"),
            ("a exchange d direct durable; bind d k1 r; bind d k2 s", ""),
            ("a publish - q m persistent CC=k1 BCC=k2", ""),
            ("* END", ""),
            ("a prefetch 1; get q", ":1=m left 0"),
            ("a reject 1", ""),
            ("* counts r", "1 0"),
            ("* counts s", "1 0"),
        ],
    );
}

#[test]
fn after_a_good_stop_only_what_was_delivered_is_marked() {
    check_each(
        &["restart"],
        &[
            ("a queue q durable", "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent", ""),
            ("a get q; get q", ":1=1 left 2, :2=2 left 1"),
            ("* END", ""),
            ("* END", ""),
            ("a consume q c", "c:1=1!, c:2=2!, c:3=3"),
            ("a ack 2", ""),
            ("* END", ""),
            ("* END", ""),
            ("a consume q c", "c:1=1!, c:2=3!"),
        ],
    );
}

#[test]
fn after_a_crash_what_may_have_been_delivered_is_marked() {
    check_each(
        &["crash", "cut"],
        &[
            ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent", "0 0"),
            ("* END", ""),
            ("a get q", ":1=1 left 1"),
            ("* END", ""),
            ("a get q; get q", ":1=1! left 1, :2=2! left 0"),
            ("a publish - q 3 persistent", ""),
            ("* END", ""),
            ("a consume q c", "c:1=1!, c:2=2!, c:3=3"),
            ("b publish - q 4 persistent", ""),
            ("a ack 3", "c:4=4"),
            ("* END", ""),
            ("b publish - q 5 persistent", ""),
            ("a consume q c", "c:1=1!, c:2=2!, c:3=4!, c:4=5"),
        ],
    );
}

/// A backlog is waiting, and a new message comes. Its record must not cover the backlog before it
/// is flushed.
#[test]
fn a_mark_that_is_not_flushed_lets_no_backlog_pass() {
    check_each(
        &["crash", "cut"],
        &[
            ("a queue q durable; publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent", "0 0"),
            ("* hold", ""),
            ("a consume q c", ""),
            ("b publish - q 4 persistent", ""),
            ("a", ""),
            ("* END", ""),
            ("a consume q c no-ack", "c:1=1, c:2=2, c:3=3"),
        ],
    );
}

#[test]
fn settled_stays_settled_once_something_behind_it_is_durable() {
    check_each(
        ALL,
        &[
            ("a queue q durable; queue o durable", "0 0, 0 0"),
            (
                "a publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent; consume q c",
                "c:1=1, c:2=2, c:3=3",
            ),
            ("a ack 1; reject 3", ""),
            ("* END", ""),
            ("a get q; get q", ":1=2! left 0, empty"),
            ("a purge q; nack 1", "0"),
            ("a purge q", "1"),
            ("* END", ""),
            ("a get q", "empty"),
            ("a publish - o 1 persistent; delete o; queue o durable", "1, 0 0"),
            ("* END", ""),
            ("a get o", "empty"),
        ],
    );
}

#[test]
fn places_and_numbers_survive() {
    check_each(
        &["restart"],
        &[
            ("a queue q durable", "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; publish - q 3 persistent", ""),
            ("a get q; get q", ":1=1 left 2, :2=2 left 1"),
            ("a ack 2", ""),
            ("* END", ""),
            ("a publish - q 4 persistent", ""),
            ("* END", ""),
            ("a publish - q 5 persistent", ""),
            ("a consume q c", "c:1=1!, c:2=3, c:3=4, c:4=5"),
            ("a cancel c; ack 0 multiple", "cancelled"),
            ("* END", ""),
            ("a publish - q 6 persistent; get q", ":1=6 left 0"),
            ("a ack 1", ""),
            ("* END", ""),
            ("a get q", "empty"),
        ],
    );
}

#[test]
fn ages_go_on_while_the_broker_is_down() {
    check_each(
        ALL,
        &[
            ("a queue q durable; publish - q 1 persistent ttl=1000; publish - q 2 persistent", "0 0"),
            ("a queue t durable x-message-ttl=2000; publish - t 1 persistent", "0 0"),
            ("* tick 500", ""),
            ("* END", ""),
            ("* counts q", "2 0"),
            ("* tick 500", ""),
            ("* counts q", "1 0"),
            ("* END", ""),
            ("* counts q", "1 0"),
            ("* tick 1000", ""),
            ("* counts t", "0 0"),
            ("a queue e durable x-expires=1000", "0 0"),
            ("* tick 900", ""),
            ("* END", ""),
            ("* tick 900", ""),
            ("* counts e", "0 0"),
            ("* tick 100", ""),
            ("* counts e", "none"),
            ("* END", ""),
            ("* counts e", "none"),
        ],
    );
}

#[test]
fn dead_letters_move_once_with_their_story() {
    check_each(
        ALL,
        &[
            ("a queue dead durable", "0 0"),
            ("a queue q durable x-dead-letter-exchange= x-dead-letter-routing-key=dead", "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent ttl=10; publish - q 3 persistent", ""),
            ("a get q; reject 1", ":1=1 left 2"),
            ("* tick 10", ""),
            ("* END", ""),
            ("* counts q", "1 0"),
            ("a get dead; get dead", ":1=1[q/rejected*1] left 1, :2=2[q/expired*1] left 0"),
            ("* END", ""),
            ("a get dead; get dead; get dead", ":1=1![q/rejected*1] left 1, :2=2![q/expired*1] left 0, empty"),
            ("* counts q", "1 0"),
        ],
    );
}

#[test]
fn deliveries_of_quorum_queues_are_counted_across_restarts() {
    check_each(
        ALL,
        &[
            (
                "a queue q durable x-queue-type=quorum x-delivery-limit=3; publish - q m persistent; get q",
                "0 0, :1=m left 0",
            ),
            ("a fail 1", ""),
            ("a get q", ":2=m!(1) left 0"),
            ("a fail 2", ""),
            ("* END", ""),
            ("a get q", ":1=m!(2) left 0"),
            ("a fail 1; get q", ":2=m!(3) left 0"),
            ("a fail 2; get q", "empty"),
            ("* END", ""),
            ("a get q", "empty"),
        ],
    );
}

#[test]
fn arguments_of_every_type_and_those_without_effect_come_back() {
    let queue = "queue q durable x-max-priority=9 x-delivery-limit=1 x-ha-policy=all";
    check_each(
        ALL,
        &[
            (&format!("a {queue}; exchange e direct durable x-ha-policy=all"), "0 0"),
            (
                "a publish - q low persistent priority=1; publish - q high persistent priority=7; get q",
                ":1=high left 1",
            ),
            ("a fail 1", ""),
            ("* END", ""),
            (&format!("a {queue}; exchange e direct durable x-ha-policy=all"), "2 0"),
            ("a get q", ":1=high!(1) left 1"),
            ("a fail 1; get q", ":2=low left 0"),
        ],
    );
}

#[test]
fn transactions_are_whole_or_not_there() {
    check_each(
        ALL,
        &[
            ("a queue q durable; queue r durable; publish - q 0 persistent; get q", "0 0, 0 0, :1=0 left 0"),
            ("a begin; tx-publish - q 1 persistent; tx-publish - r 2 persistent; tx-ack 1; commit", "committed"),
            ("* END", ""),
            ("a get q no-ack; get r no-ack", ":1=1 left 0, :2=2 left 0"),
            ("a publish - q 0 persistent; get q", ":3=0 left 0"),
            ("a begin; tx-publish - q 1 persistent; tx-ack 3", ""),
            ("* END", ""),
            ("a get q", ":1=0! left 0"),
        ],
    );
}

/// Whether a user may log in from this machine.
fn lets_in(broker: &TestBroker, user: &str, password: &str) -> bool {
    let (authority, here) = (broker.broker.authority(), std::net::Ipv4Addr::LOCALHOST.into());
    authority.verify(user, password.as_bytes(), here, broker.now()).is_ok()
}

#[test]
fn the_first_user_is_kept() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 8 << 20);
    setup.default_user = Some(("admin".to_owned(), "secret".to_owned()));
    let broker = TestBroker::open(setup);
    broker.flush();
    disk.power_cut();
    let mut setup = broker.abandon();
    setup.default_user = Some(("other".to_owned(), "ignored".to_owned()));
    let broker = TestBroker::open(setup);
    assert!(lets_in(&broker, "admin", "secret"));
    assert!(!lets_in(&broker, "other", "ignored"));
    assert!(broker.broker.has_vhost("/"));
}

/// A directory whose first start was cut off gets its user and its vhost at the second.
#[test]
fn a_first_start_that_is_cut_off_is_made_again() {
    for records in 0..4 {
        let disk = SimDisk::new(records, 64 << 20);
        let mut setup = Setup::stepped(&disk, 8 << 20);
        setup.default_user = Some(("admin".to_owned(), "secret".to_owned()));
        let broker = TestBroker::open(setup);
        if records > 1 {
            broker.flush();
        }
        disk.power_cut();
        let broker = TestBroker::open(broker.abandon());
        assert!(lets_in(&broker, "admin", "secret"));
        assert!(broker.broker.has_vhost("/"));
    }
}

#[test]
fn a_small_ring_turns_under_load_and_restarts() {
    for (seed, end) in ALL.iter().enumerate() {
        let disk = SimDisk::new(seed as u64, 64 << 20);
        let mut script = Script::stepped(&disk, 1 << 20);
        script.check(&[(
            "a queue old durable x-max-length=5; queue q durable; exchange e topic durable; bind e # q",
            "0 0, 0 0",
        )]);
        for round in 0..6 {
            for number in 0..40 {
                let body = format!("{round}-{number}");
                script.check(&[
                    (&format!("a publish e k {body} persistent size=8000; publish - q x{body} persistent"), ""),
                    ("* background", ""),
                    ("a get q no-ack; get q no-ack", &{
                        let at = 2 * number + 1;
                        format!(":{at}={body} left 1, :{}=x{body} left 0", at + 1)
                    }),
                ]);
            }
            script.check(&[(&format!("* {end}"), ""), ("* counts old", "0 0"), ("* counts q", "0 0")]);
        }
    }
}

#[test]
fn a_real_directory_with_threads_keeps_what_was_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Script::open(Setup::directory(directory.path(), 1 << 20), None);
    script.check(&[("a queue q durable; bind amq.fanout - q; confirm", "0 0")]);
    for round in 0..3 {
        let mut confirmed = 0;
        for number in 1..=100 {
            script.say(&format!("a confirm; publish amq.fanout - {round}-{number} persistent size=2000"));
        }
        while confirmed < 100 {
            std::thread::yield_now();
            for word in script.say("a").split(", ").filter(|word| word.starts_with('+')) {
                confirmed = word[1..].parse().unwrap();
            }
        }
        script.check(&[("* counts q", "100 0"), ("* restart", ""), ("* counts q", "100 0")]);
        for number in 1..=100 {
            let left = 100 - number;
            let mut said = script.say("a get q no-ack");
            while said == "waits" {
                said = script.say("a get q no-ack");
            }
            assert_eq!(said, format!(":{number}={round}-{number} left {left}"));
        }
    }
}

/// The settled numbers of a restatement may need more than one batch with the accounted pages. Cut
/// off between the two, it made accepted messages look lost, and their queue stopped at its head.
#[test]
fn a_restatement_that_is_cut_off_tells_of_no_loss() {
    let each = |numbers: &[u64], what: &str| {
        let statements: Vec<_> = numbers.iter().map(|number| what.replace('N', &number.to_string())).collect();
        format!("a {}", statements.join("; "))
    };
    let (first, later) = ((1..=100).collect::<Vec<_>>(), (101..=700).collect::<Vec<_>>());
    let odd: Vec<_> = later.iter().copied().filter(|number| number % 2 == 1).collect();
    for cut in 1..1000 {
        let disk = SimDisk::new(1, 64 << 20);
        let mut setup = Setup::stepped(&disk, 1 << 20);
        // The runs that the odd numbers make take more than a batch.
        setup.journal.max_batch_bytes = 4096;
        let mut script = Script::open(setup, Some(disk.clone()));
        script.say("a queue q durable; queue other durable; consume q c");
        // A start forgets the page when all of it so far is accepted, and goes on with later
        // messages.
        script.say(&each(&first, "publish - q N persistent"));
        script.say(&each(&first, "ack N"));
        script.say(&each(&later, "publish - q N persistent"));
        script.say(&each(&odd, "ack N"));
        (0..20).for_each(|_| drop(script.say("a publish - other x persistent size=20000")));
        script.check(&[("* counts q", "0 300"), ("* counts other", "20 0")]);
        disk.fault(cut, Fault::Crash);
        script.broker().background(1000);
        let left = script.broker().broker.overview().journal.oldest_file > 1;
        script.check(&[("* crash", "")]);
        assert_eq!(script.broker().broker.take_damages(), Vec::<String>::new(), "cut off at operation {cut}");
        script.check(&[("* counts q", "300 0"), ("* counts other", "20 0")]);
        if left {
            assert!(cut > 5, "it was cut off before");
            return;
        }
    }
    panic!("the first file does not leave");
}
