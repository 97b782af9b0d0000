//! Retained messages: the last value of a topic, for those that subscribe later, each once and in
//! the order of the live ones; over crashes, with limits, and for as long as they live.

use broker::{RETAINED_BETWEEN, RetainedCount, RetainedLimits};
use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

const RING: u64 = 4 << 20;
const SMALL: u64 = 1 << 20;

fn names(script: &Script) -> String {
    let names = script.broker().broker.retained_names("/");
    let names = names.iter().map(|name| name.replace(RETAINED_BETWEEN, "/"));
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_subscriber_gets_the_last_value_of_each_topic_first() {
    check(&[
        ("p publish amq.topic a.b 1 x-retain=true; publish amq.topic a.b 2 x-retain=true", ""),
        (
            "p publish amq.topic a.c 3 x-retain=true; publish amq.topic a.c live; publish amq.topic b 4 x-retain=true",
            "",
        ),
        ("s subscribe s q amq.topic a.* + retained; consume q c no-ack", "c:1=2, c:2=3"),
        ("p publish amq.topic a.b 5 x-retain=true", ""),
        ("s", "c:3=5"),
        // Another one asks again, of new filters alone or of all.
        ("s subscribe s q amq.topic a.* + retained-of-new", ""),
        ("s subscribe s q amq.topic a.* amq.topic # + retained-of-new", "c:4=5, c:5=3, c:6=4"),
        ("s subscribe s q amq.topic a.b + retained", "c:7=5"),
        // Without asking there is none.
        ("t subscribe t r amq.topic # +; consume r c no-ack", ""),
    ]);
}

#[test]
fn filters_of_each_kind_find_theirs() {
    check(&[
        ("p exchange f fanout; exchange d direct; exchange h headers", ""),
        ("p publish f k 1 x-retain=true; publish f l 2 x-retain=true; publish d k 3 x-retain=true", ""),
        (
            "p publish d l 4 x-retain=true; publish amq.topic a 5 x-retain=true; publish amq.topic a.b.c 6 x-retain=true",
            "",
        ),
        ("s subscribe s1 q1 f any + retained; consume q1 c no-ack", "c:1=1, c:2=2"),
        ("s subscribe s2 q2 d l + retained; consume q2 d no-ack", "d:3=4"),
        ("s subscribe s3 q3 amq.topic a.# + retained; consume q3 e no-ack", "e:4=5, e:5=6"),
        ("s subscribe s4 q4 amq.topic *.*.c + retained; consume q4 f no-ack", "f:6=6"),
        (
            "s subscribe s5 q5 h k + retained",
            "540 exchange 'h' is of type headers: retained messages are found by topic, direct and fanout alone",
        ),
        ("* counts q5", "none"),
    ]);
}

#[test]
fn an_empty_body_removes_the_value_and_reaches_the_subscribers() {
    let mut script = Script::memory();
    script.check(&[
        ("s subscribe s q amq.topic # +; consume q c no-ack", ""),
        ("p publish amq.topic a 1 x-retain=true; publish amq.topic b 2 x-retain=true", ""),
        ("s", "c:1=1, c:2=2"),
        ("p publish amq.topic a - x-retain=true; publish amq.topic none - x-retain=true", ""),
        ("s", "c:3=, c:4="),
        ("t subscribe t r amq.topic # + retained; consume r c no-ack", "c:1=2"),
    ]);
    assert_eq!(names(&script), "amq.topic/b");
    assert_eq!(script.broker().broker.retained_count("/").messages, 1);
}

#[test]
fn what_can_not_be_retained_is_refused_by_name() {
    check(&[
        (
            "p publish - q 1 x-retain=true",
            "406 invalid message: header 'x-retain' is for a message to a topic; the default exchange has none",
        ),
        (
            "p publish amq.topic a 1 x-retain=1",
            "406 invalid message: header 'x-retain' must be true or false, not long",
        ),
        ("p queue q; bind amq.topic a q", "0 0"),
        (
            "p publish amq.topic a 1 x-retain=true x-opt-delivery-delay=5000",
            "406 invalid message: header 'x-retain' is not for a delayed message",
        ),
        (
            "p begin; tx-publish amq.topic a 1 x-retain=true",
            "540 a message with x-retain is not retained by a transaction: publish it outside of one",
        ),
        ("p rollback; publish amq.topic a 1 x-retain=false", ""),
        ("s subscribe s r amq.topic # + retained", ""),
        ("* counts r", "0 0"),
    ]);
}

/// It is answered as taken, since it is kept, whether or not a queue gets it.
#[test]
fn a_retained_message_is_never_unroutable() {
    check(&[
        ("p confirm", ""),
        ("p publish amq.topic a 1 confirm=1 mandatory x-retain=true", "+1"),
        ("p publish amq.topic a 2 confirm=2 mandatory", "returned 2 2"),
    ]);
}

#[test]
fn persistent_values_outlive_a_crash_and_none_older_comes_back() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, RING);
    script.check(&[
        ("p exchange gone topic durable; exchange brief topic", ""),
        ("p confirm; publish amq.topic a 1 confirm=1 persistent x-retain=true", "+1"),
        ("p publish amq.topic b 2 confirm=2 persistent x-retain=true", "+2"),
        ("p publish amq.topic b 3 confirm=3 persistent x-retain=true", "+3"),
        ("p publish amq.topic c 4 confirm=4 persistent x-retain=true", "+4"),
        ("p publish amq.topic c - confirm=5 persistent x-retain=true", "+5"),
        // A transient value takes the place of a persistent one: a restart has neither.
        ("p publish amq.topic d 5 confirm=6 persistent x-retain=true; publish amq.topic d 6 confirm=7 x-retain=true", "+7"),
        ("p publish amq.topic e 7 confirm=8 x-retain=true", "+8"),
        ("p publish gone f 8 confirm=9 persistent x-retain=true; publish brief f 9 confirm=10 persistent x-retain=true", "+10"),
        ("p delete-exchange gone; exchange gone topic durable", ""),
        ("* cut", ""),
    ]);
    assert_eq!(names(&script), "amq.topic/a amq.topic/b");
    script.check(&[
        ("s subscribe s q amq.topic # + retained durable; consume q c no-ack", "c:1=1, c:2=3"),
        ("p publish amq.topic b 10 persistent x-retain=true; publish amq.topic a - persistent x-retain=true", ""),
        ("* cut", ""),
        ("s subscribe t r amq.topic # + retained; consume r c no-ack", "c:1=10"),
    ]);
}

/// The log turns many times over: what is said again is the last value, and what was removed stays
/// away.
#[test]
fn values_stay_while_the_log_turns() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, SMALL);
    for topic in 0..40 {
        script.say(&format!("p publish amq.topic t.{topic} first persistent x-retain=true"));
    }
    for round in 0..3000 {
        let topic = round % 10;
        let publish = format!("p publish amq.topic t.{topic} round{round} persistent x-retain=true size=2000");
        script.check(&[(&publish, "")]);
        script.say(&format!("p publish amq.topic t.{} - persistent x-retain=true", 30 + topic));
        script.say("* background");
        if round % 1000 == 0 {
            script.say("* cut");
        }
    }
    assert!(script.broker().broker.overview().journal.written_bytes > SMALL, "the log has turned");
    script.say("* cut");
    let broker = &script.broker().broker;
    let body = |topic: u32| {
        let message = broker.retained_message("/", "amq.topic", &format!("t.{topic}"))?;
        Some(String::from_utf8_lossy(message.body()).trim_end_matches('.').to_owned())
    };
    for topic in 0..40 {
        let expected = match topic {
            0..10 => Some(format!("round{}", 2990 + topic)),
            10..30 => Some("first".to_owned()),
            _ => None,
        };
        assert_eq!(body(topic), expected, "t.{topic}");
    }
}

#[test]
fn a_value_is_gone_when_its_time_is_over_and_is_given_with_what_is_left() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, RING);
    script.check(&[
        (
            "p publish amq.topic a 1 ttl=1000 persistent x-retain=true; publish amq.topic b 2 persistent x-retain=true",
            "",
        ),
        ("* tick 700", ""),
        ("s subscribe s q amq.topic # + retained", ""),
        ("* counts q", "2 0"),
        ("* tick 299", ""),
        ("* counts q", "2 0"),
        ("* tick 2", ""),
        ("* counts q", "1 0"),
        ("t subscribe t r amq.topic # + retained; consume r c no-ack", "c:1=2"),
    ]);
    assert_eq!(names(&script), "amq.topic/b");
    script.check(&[
        ("p publish amq.topic a 3 ttl=1000 persistent x-retain=true", ""),
        ("* crash", ""),
        ("* tick 1001", ""),
    ]);
    assert_eq!(names(&script), "amq.topic/b");
    script.say("* cut");
    assert_eq!(names(&script), "amq.topic/b");
}

#[test]
fn a_vhost_retains_no_more_than_it_may() {
    let mut setup = Setup::memory();
    setup.settings.retained = RetainedLimits { messages: 2, bytes: 1000 };
    let mut script = Script::open(setup, None);
    let many = "406 cannot retain the message of topic 'c': vhost '/' retains 2 messages, the most that it may \
                (limits.retained_messages): remove some with hermod retained, or publish an empty body to their topics";
    script.check(&[
        ("p publish amq.topic a 1 x-retain=true; publish amq.topic b 2 x-retain=true", ""),
        ("p publish amq.topic c 3 x-retain=true", many),
        ("p publish amq.topic a 4 x-retain=true; publish amq.topic b - x-retain=true", ""),
        ("p publish amq.topic c 5 x-retain=true; publish amq.topic c - x-retain=true", ""),
    ]);
    let large = script.say("p publish amq.topic a 6 x-retain=true size=1000");
    assert!(large.contains("of 1000 that it may (limits.retained_bytes)"), "{large}");
    // In one turn, too.
    let both = script.say("p publish amq.topic d 1 x-retain=true; publish amq.topic e 1 x-retain=true");
    assert!(both.contains("cannot retain the message of topic 'e'"), "{both}");
    assert_eq!(names(&script), "amq.topic/a amq.topic/d");
}

/// Memory counts what is retained, and for the user that published it, until it goes.
#[test]
fn what_is_retained_is_counted_for_its_publisher() {
    let mut script = Script::memory();
    let declared = |script: &Script| script.broker().broker.user_declared_bytes("guest");
    let before = declared(&script);
    script.say("p publish amq.topic a 1 x-retain=true size=5000");
    assert!(declared(&script) >= before + 5000);
    let RetainedCount { messages, bytes } = script.broker().broker.retained_count("/");
    assert!(messages == 1 && bytes > 5000);
    script.say("p publish amq.topic a 1 x-retain=true size=50");
    assert!(declared(&script) < before + 1000);
    script.say("p publish amq.topic a - x-retain=true");
    assert_eq!((declared(&script), script.broker().broker.retained_count("/")), (before, RetainedCount::default()));
}

#[test]
fn what_is_retained_counts_for_its_publisher_after_a_start_too() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, SMALL);
    let declared = |script: &Script| script.broker().broker.user_declared_bytes("guest");
    script.say("p publish amq.topic a 1 x-retain=true persistent size=5000");
    let all = declared(&script);
    assert!(all > 5000);
    // Said again when the log turns, too.
    for _ in 0..1000 {
        script.say("p publish amq.topic b 2 x-retain=true persistent size=2000");
        script.say("* background");
    }
    assert!(script.broker().broker.overview().journal.written_bytes > SMALL, "the log has turned");
    script.say("p publish amq.topic b - x-retain=true persistent");
    for crash in ["* cut", "* restart"] {
        script.say(crash);
        assert_eq!(declared(&script), all, "{crash}");
    }
    script.say("p publish amq.topic a - x-retain=true persistent");
    assert_eq!(declared(&script), 0);
}

/// The rest comes with the rounds of the housekeeping, and no live message is overtaken by an older
/// value of its topic.
#[test]
fn many_come_in_pieces_and_live_ones_in_between() {
    let mut script = Script::memory();
    for thousand in 0..3 {
        let publishes: Vec<_> =
            (0..1000).map(|topic| format!("publish amq.topic {thousand}.{topic:03} old x-retain=true")).collect();
        script.say(&format!("p {}", publishes.join("; ")));
    }
    script.say("* hold");
    script.say("s subscribe s q amq.topic # + retained");
    let first: u64 = script.say("* counts q").split(' ').next().unwrap().parse().unwrap();
    assert!((1..3000).contains(&first), "{first}");
    // One that was given already, and one that is still to come.
    script.say("p publish amq.topic 0.000 new x-retain=true; publish amq.topic 2.999 new x-retain=true");
    script.say("* release");
    for _ in 0..20 {
        script.say("* flush");
    }
    let bodies = script.say("* browse q");
    let count = |body: &str| bodies.split(' ').filter(|other| *other == body).count();
    assert_eq!((count("old"), count("new")), (2999, 2));
}

#[test]
fn what_was_not_flushed_is_not_confirmed_and_the_older_value_is_there() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, RING);
    script.check(&[
        ("p confirm; publish amq.topic a 1 confirm=1 persistent x-retain=true", "+1"),
        ("* hold", ""),
        ("p publish amq.topic a 2 confirm=2 persistent x-retain=true", ""),
        ("* cut", ""),
        ("s subscribe s q amq.topic # + retained durable; consume q c no-ack", "c:1=1"),
    ]);
}
