//! Subscriptions: one fact with a queue and bindings, which come and go together.

use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::{Fault, SimDisk};

use crate::check;

const RING: u64 = 4 << 20;

#[test]
fn a_subscription_keeps_what_comes_while_no_consumer_is_there() {
    check(&[
        ("a subscribe me/news q amq.topic a.* + durable", ""),
        ("b publish amq.topic a.b one; publish amq.topic c other", ""),
        ("a close", ""),
        ("* subscriptions", "q: 'news' of client 'me' Exclusive"),
        ("* counts q", "1 0"),
        ("a subscribe me/news q amq.topic a.* + durable; consume q c", "c:1=one"),
        ("b unsubscribe me/news", "406 queue 'q' in vhost '/' in use"),
        ("a cancel c; unsubscribe me/news", "cancelled"),
        ("* subscriptions", ""),
        ("* counts q", "none"),
        ("a unsubscribe me/news q", ""),
    ]);
}

#[test]
fn it_is_known_by_client_and_name_and_its_queue_belongs_to_it_alone() {
    check(&[
        ("a subscribe a.b/c x.a.b.c amq.topic k + durable", ""),
        // The names of queues are the protocol's, and two of them may be alike.
        (
            "a subscribe a/b.c x.a.b.c amq.topic k + durable",
            "406 queue 'x.a.b.c' in vhost '/' belongs to subscription 'c' of client 'a.b'",
        ),
        ("a subscribe c q amq.topic k + durable shared", ""),
        ("a subscribe c q amq.topic k + durable", "406 subscription 'c' in vhost '/' is shared"),
        (
            "a subscribe a.b/c q amq.topic k + durable shared",
            "406 subscription 'c' of client 'a.b' in vhost '/' is for one consumer at a time",
        ),
        // It is found by its name, whatever queue a later caller would have given it.
        ("a subscribe a.b/c other amq.topic k2 + durable", ""),
        ("* counts other", "none"),
        ("a publish amq.topic k 1; publish amq.topic k2 2", ""),
        ("* counts x.a.b.c", "2 0"),
        ("* counts q", "1 0"),
        ("* subscriptions", "q: 'c' Shared, x.a.b.c: 'c' of client 'a.b' Exclusive"),
    ]);
}

#[test]
fn filters_are_added_and_the_selector_is_the_last_one() {
    check(&[
        ("a subscribe s q amq.topic a amq.topic a amq.direct d + durable shared x-selector=n=1", ""),
        ("a subscribe s q amq.topic b + durable shared x-selector=n=2", ""),
        ("* subscriptions", "q: 's' Shared n=2"),
        ("a publish amq.topic a 1; publish amq.topic b 2; publish amq.direct d 3; publish amq.topic c 4", ""),
        ("* counts q", "3 0"),
        ("a consume q c no-ack", "c:1=1, c:2=2, c:3=3"),
        ("b subscribe s q amq.topic b + durable shared x-selector=n=2", ""),
        (
            "b subscribe s q amq.topic b + durable shared x-selector=n=3",
            "406 subscription 's' in vhost '/' is in use with another selector",
        ),
    ]);
    let refused = Script::memory().say("a subscribe s q + durable x-selector=n=");
    assert!(refused.starts_with("406 invalid arg 'x-selector' for queue 'q' in vhost '/': "), "{refused}");
}

/// As Jakarta Messaging wants it.
#[test]
fn one_that_is_to_be_exactly_so_ends_before_it_has_other_filters_or_another_selector() {
    check(&[
        ("a subscribe s q amq.topic a + durable shared exactly", ""),
        ("a publish amq.topic a 1", ""),
        ("a subscribe s q amq.topic a + durable shared exactly", ""),
        ("* counts q", "1 0"),
        ("a subscribe s q amq.topic b + durable shared exactly", ""),
        ("* counts q", "0 0"),
        ("a publish amq.topic a 2; publish amq.topic b 3", ""),
        ("* counts q", "1 0"),
        ("a subscribe s q amq.topic b + durable shared exactly x-selector=n=1", ""),
        ("* counts q", "0 0"),
        ("* subscriptions", "q: 's' Shared n=1"),
        ("a subscribe s q amq.topic b amq.topic c + durable shared", ""),
        ("a publish amq.topic b 4 n=1; subscribe s q amq.topic b + durable shared exactly x-selector=n=1", ""),
        ("* counts q", "0 0"),
        ("a subscribe s q amq.topic b + durable exactly", "406 subscription 's' in vhost '/' is shared"),
        ("a consume subscription:s c", ""),
        ("b subscribe s q amq.topic b + durable shared exactly x-selector=n=1", ""),
        ("b subscribe s q amq.topic b + durable shared exactly", "406 queue 'q' in vhost '/' in use"),
        ("b subscribe s q amq.topic a + durable shared exactly x-selector=n=1", "406 queue 'q' in vhost '/' in use"),
        ("* subscriptions", "q: 's' Shared n=1"),
    ]);
}

/// A queue that was declared before it had a subscription, as those of earlier versions.
#[test]
fn a_queue_that_is_there_and_is_as_asked_for_becomes_its_queue() {
    check(&[
        ("a queue q durable; bind amq.topic old q; publish - q 1", "0 0"),
        (
            "a subscribe s q amq.topic new + shared",
            "406 inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        ("a subscribe s q amq.topic new + durable shared", ""),
        ("a publish amq.topic old 2; publish amq.topic new 3", ""),
        ("* counts q", "3 0"),
        ("a delete q", "3"),
        ("* subscriptions", ""),
        ("a queue q durable; subscribe s r + durable", "0 0"),
        // The end of a subscription that is not there is that of its queue, if that is free.
        ("a unsubscribe other r; unsubscribe other q", ""),
        ("* counts q", "none"),
        ("* subscriptions", "r: 's' Exclusive"),
    ]);
}

#[test]
fn one_of_a_connection_is_called_like_its_queue_and_goes_with_it() {
    let mut script = Script::memory();
    assert_eq!(script.say("a subscribe - - amq.topic k + exclusive auto-delete"), "");
    let line = script.say("* subscriptions");
    let (queue, name) = line.split_once(": ").unwrap();
    assert!(queue.starts_with("amq.gen-") && name == format!("'{queue}' Exclusive"), "{line}");
    script.check(&[("a close", ""), ("b publish amq.topic k 1", ""), ("* subscriptions", "")]);
}

#[test]
fn what_is_refused_leaves_nothing_of_it() {
    check(&[
        ("* user reader ^n?q$ ^nq$ .*", ""),
        ("reader subscribe s nq amq.topic k none k + durable shared", "404 no exchange 'none' in vhost '/'"),
        (
            "reader subscribe s q amq.topic k + durable shared",
            "403 write access to queue 'q' in vhost '/' refused for user 'reader'",
        ),
    ]);
    let mut script = Script::memory();
    script.check(&[("a exchange h x-consistent-hash durable", "")]);
    let refused = script.say("a subscribe s q amq.topic k h none + durable shared");
    assert!(refused.starts_with("406 "), "{refused}");
    let overview = script.broker().broker.overview();
    assert_eq!((overview.objects.queues, overview.objects.bindings), (0, 0));
    script.check(&[("* subscriptions", ""), ("* counts q", "none"), ("a subscribe s q amq.topic k + durable", "")]);
    let overview = script.broker().broker.overview();
    assert_eq!((overview.objects.queues, overview.objects.bindings), (1, 1));
    let declared = overview.memory;
    script.check(&[("a unsubscribe s", ""), ("a subscribe s q amq.topic k + durable", "")]);
    let again = script.broker().broker.overview().memory;
    assert_eq!((again.declared, again.logged), (declared.declared, declared.logged), "all of it was counted off");
}

#[test]
fn its_consumers_have_its_selector_and_are_as_many_as_it_allows() {
    check(&[
        ("a consume subscription:me/s c", "404 no subscription 's' of client 'me' in vhost '/'"),
        ("a subscribe me/s q amq.topic k + durable x-selector=n=1; consume subscription:me/s c", ""),
        ("b publish amq.topic k 1 n=1; publish amq.topic k 2 n=2", ""),
        ("a", "c:1=1"),
        ("* counts q", "0 1"),
        ("b consume subscription:me/s d", "403 queue 'q' in vhost '/' in exclusive use"),
        ("b consume q d", "403 queue 'q' in vhost '/' in exclusive use"),
        (
            "a consume subscription:me/s d x-selector=n=1",
            "406 invalid arg 'x-selector' for queue 'q' in vhost '/': the subscription has the selector of all its consumers",
        ),
        ("a subscribe all p amq.topic k + durable shared", ""),
        ("a consume subscription:all e no-ack", ""),
        ("b consume subscription:all f no-ack", ""),
        ("b publish amq.topic k 3; publish amq.topic k 4", "f:1=4"),
        ("a", "e:2=3"),
        ("* user reader ^$ ^$ ^q$", ""),
        ("reader consume subscription:all c", "403 read access to queue 'p' in vhost '/' refused for user 'reader'"),
    ]);
}

#[test]
fn it_outlives_the_broker_if_its_queue_does() {
    for end in ["restart", "crash", "cut"] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut script = Script::stepped(&disk, RING);
        script.check(&[
            ("a subscribe me/news q amq.topic a + durable x-selector=n=1 x-expires=60000", ""),
            ("a subscribe work w amq.topic a + shared", ""),
            ("a subscribe gone g amq.topic a + durable; unsubscribe gone", ""),
            ("a publish amq.topic a 1 persistent", ""),
        ]);
        script.say(&format!("* {end}"));
        script.check(&[
            ("* subscriptions", "q: 'news' of client 'me' Exclusive n=1"),
            ("a unsubscribe gone g; unsubscribe work w", ""),
            ("a publish amq.topic a 2 persistent", ""),
            ("* counts q", "2 0"),
            ("* tick 60000", ""),
            ("* subscriptions", ""),
        ]);
    }
}

/// Its own expiry is said again each time, and ends it and its queue, also after a restart.
#[test]
fn one_that_expires_outlives_its_last_consumer_for_so_long() {
    for end in ["restart", "crash", "cut"] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut script = Script::stepped(&disk, RING);
        script.check(&[
            ("a subscribe me/s q amq.topic a + durable expires=1000; consume subscription:me/s c", ""),
            ("* tick 5000", ""),
            ("a cancel c", "cancelled"),
            ("* tick 900", ""),
            ("* subscriptions", "q: 's' of client 'me' Exclusive 1000 ms"),
            ("a subscribe me/s q + durable expires=3000", ""),
            ("* tick 2000", ""),
            ("* subscriptions", "q: 's' of client 'me' Exclusive 3000 ms"),
        ]);
        script.say(&format!("* {end}"));
        script.check(&[
            ("* tick 2900", ""),
            ("* subscriptions", "q: 's' of client 'me' Exclusive 3000 ms"),
            ("a subscribe me/s q + durable", ""),
            ("* tick 100000", ""),
            ("* subscriptions", "q: 's' of client 'me' Exclusive"),
            ("a subscribe me/s q + durable expires=50", ""),
            ("* tick 50", ""),
            ("* subscriptions", ""),
            ("* counts q", "none"),
        ]);
    }
}

/// Cuts the power at each operation of the disk while a subscription begins and while it ends.
#[test]
fn a_cut_leaves_a_subscription_with_its_queue_and_bindings_or_none_of_them() {
    let mut found = Vec::new();
    for (line, before) in [("a subscribe s q amq.topic a amq.direct b + durable", 0), ("a unsubscribe s", 1)] {
        for operation in 0..4 {
            let disk = SimDisk::new(operation, 64 << 20);
            let mut script = Script::open(Setup::stepped(&disk, RING), Some(disk.clone()));
            if before > 0 {
                script.say("a subscribe s q amq.topic a amq.direct b + durable");
            }
            script.say("* hold");
            script.say(line);
            disk.fault(operation, Fault::Crash);
            script.broker().try_flush();
            script.say("* cut");
            let subscribed = script.say("* subscriptions");
            let queues = script.say("* counts q");
            let bindings = script.broker().broker.overview().objects.bindings;
            let all = (subscribed.as_str(), queues.as_str(), bindings);
            assert!([("", "none", 0), ("q: 's' Exclusive", "0 0", 2)].contains(&all), "{line}, {operation}: {all:?}");
            found.push((line, bindings));
        }
    }
    for line in ["a subscribe s q amq.topic a amq.direct b + durable", "a unsubscribe s"] {
        let of_line = found.iter().filter(|(other, _)| *other == line).map(|(_, bindings)| *bindings);
        let all: std::collections::BTreeSet<_> = of_line.collect();
        assert_eq!(all.len(), 2, "a cut leaves it as before, or as after: {line}");
    }
}
