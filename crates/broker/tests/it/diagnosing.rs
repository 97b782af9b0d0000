//! Why a queue does not move: each cause in the situation that it names, with the evidence. What is
//! damaged is in `damage.rs`.

use broker::{Cause, Diagnosis, Readiness, Standing, Switch};
use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

/// The diagnosis of queue q after these lines.
fn after(script: &mut Script, lines: &[&str]) -> Diagnosis {
    lines.iter().for_each(|line| drop(script.say(line)));
    let found = script.broker().broker.diagnose("/", "q").expect("the queue is there");
    let stuck = script.broker().broker.stuck_queues("/", 8);
    let is_named = stuck.iter().any(|queue| queue.name == "q");
    assert_eq!(is_named, found.standing() == Standing::Stuck, "the list of stuck queues says the same");
    found
}

fn of(lines: &[&str]) -> Diagnosis {
    after(&mut Script::memory(), lines)
}

fn causes(diagnosis: &Diagnosis) -> Vec<&'static str> {
    diagnosis.causes().map(Cause::name).collect()
}

#[test]
fn each_cause_shows_in_its_situation() {
    for (lines, expected) in [
        (&["a queue q; publish - q 1"][..], &["no_consumers"][..]),
        (&["a queue q; publish - q 1; consume q c; cancel c; nack 1"], &["no_consumers"]),
        (&["a queue q; prefetch 1; consume q c", "w publish - q 1; publish - q 2"], &["consumers_out_of_credit"]),
        (&["a queue q; consume q c credit=0; publish - q 1"], &["consumers_out_of_credit"]),
        (
            &["a queue q; prefetch 1 shared; consume q c", "w publish - q 1; publish - q 2"],
            &["consumers_out_of_credit"],
        ),
        (&["a queue q; consume q c x-selector=n=2; publish - q 1 n=1"], &["selector_mismatch"]),
        (
            &[
                "a queue q x-single-active-consumer=true; prefetch 1; consume q c",
                "b consume q d",
                "w publish - q 1; publish - q 2",
            ],
            &["single_active_idle", "consumers_out_of_credit"],
        ),
        (
            &[
                "a queue q x-message-groups=true; prefetch 1; consume q c",
                "b consume q d",
                "w publish - q 1 JMSXGroupID=x; publish - q 2 JMSXGroupID=x",
            ],
            &["group_locked"],
        ),
        (
            &["a exchange d x-delayed-message x-delayed-type=fanout; queue q; bind d k q; publish d k 1 x-delay=900"],
            &["delayed"],
        ),
        (
            &["a queue q x-max-length=1 x-overflow=reject-publish; publish - q 1; publish - q 2"],
            &["no_consumers", "queue_full"],
        ),
        (&["a queue q", "* tick 60000"], &["producer_silent"]),
        (&["a queue q", "* tick 59999"], &[]),
        (&["a queue q; consume q c; publish - q 1; ack 1; publish - q 2"], &[]),
    ] {
        let found = of(lines);
        assert_eq!(causes(&found), expected, "{lines:?}: {found:?}");
    }
}

#[test]
fn of_many_stuck_queues_those_with_most_messages_are_named() {
    let mut script = Script::memory();
    for number in 1..=9 {
        script.say(&format!("a queue q{number}"));
        (0..number).for_each(|body| drop(script.say(&format!("a publish - q{number} {body}"))));
    }
    script.say("a queue idle");
    let named = |most| -> Vec<(String, u64)> {
        let stuck = script.broker().broker.stuck_queues("/", most);
        stuck.into_iter().map(|queue| (queue.name, queue.ready)).collect()
    };
    assert_eq!(named(2), [("q9".to_owned(), 9), ("q8".to_owned(), 8)]);
    assert_eq!((named(100).len(), named(0).len()), (9, 0));
    assert!(script.broker().broker.stuck_queues("nowhere", 8).is_empty());
}

#[test]
fn who_does_not_read_is_named_with_the_bytes_that_wait() {
    let mut script = Script::memory();
    script.say("a queue q; consume q c; mute");
    for _ in 0..40 {
        script.say("w publish - q x size=65536");
    }
    let found = after(&mut script, &[]);
    assert_eq!(causes(&found), ["slow_reader"], "{found:?}");
    let Readiness::NotReading { bytes } = found.consumers[0].readiness else { panic!("{:?}", found.consumers) };
    assert!(bytes >= 1 << 20, "{bytes}");
    assert_eq!(causes(&after(&mut script, &["a listen"])), [] as [&str; 0]);
}

#[test]
fn what_comes_back_again_and_again_is_a_loop() {
    let rounds: Vec<String> = (1..=5).map(|tag| format!("a fail {tag}")).collect();
    for (queue, nacks, loops) in [
        ("a queue q durable x-queue-type=quorum; consume q c; publish - q 1 persistent", 4, false),
        ("a queue q durable x-queue-type=quorum; consume q c; publish - q 1 persistent", 5, true),
    ] {
        let lines: Vec<&str> = [queue].into_iter().chain(rounds[..nacks].iter().map(String::as_str)).collect();
        assert_eq!(causes(&of(&lines)).contains(&"redelivery_loop"), loops, "{nacks} returns");
    }
    // Where returns are not counted, the sums since the start show it.
    let mut script = Script::memory();
    script.say("a queue q; consume q c; publish - q 1");
    for tag in 1..=20 {
        script.say(&format!("a nack {tag}"));
    }
    let found = after(&mut script, &[]);
    assert_eq!((causes(&found), found.standing()), (vec!["redelivery_loop"], Standing::Stuck));
    assert_eq!(causes(&after(&mut script, &["a ack 21; publish - q 2"])), [] as [&str; 0], "another message");
}

#[test]
fn a_delivery_that_waits_for_its_flush_waits_for_the_disk() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut script = Script::open(Setup::stepped(&disk, 8 << 20), Some(disk));
    let lines = ["a queue q durable; publish - q 1 persistent", "* hold", "a consume q c"];
    let found = after(&mut script, &lines);
    assert_eq!((causes(&found), found.standing()), (vec!["waits_for_disk"], Standing::Waits));
    let found = after(&mut script, &["* release", "a"]);
    assert_eq!((causes(&found), found.standing()), (vec![], Standing::Delivered));
}

#[test]
fn an_alarm_stops_publishers_of_all_queues_and_makes_none_stuck() {
    let mut script = Script::memory();
    script.say("a queue q; consume q c; publish - q 1");
    script.broker().broker.force_alarm("memory", Switch::On).unwrap();
    let found = after(&mut script, &[]);
    assert_eq!((causes(&found), found.standing()), (vec!["alarm"], Standing::Delivered));
    assert!(found.alarms.memory && !found.alarms.disk);
}

#[test]
fn the_evidence_has_the_ages_of_the_oldest_messages() {
    let mut script = Script::memory();
    let lines = [
        "a queue q x-max-priority=5; prefetch 1; consume q c; publish - q 1",
        "* tick 1000",
        "a publish - q 2",
        "* tick 500",
        "a publish - q 3 priority=3",
        "* tick 60",
    ];
    let found = after(&mut script, &lines);
    let ages = [found.ages.oldest_unsettled, found.ages.oldest_ready].map(|at| at.map(|at| found.at - at));
    assert_eq!(ages, [Some(1560), Some(60)], "the next one to be delivered");
    assert_eq!(found.at - found.ages.active, 60);
    assert_eq!(found.ages.next_due, None);
    let delayed = after(
        &mut script,
        &["b exchange d x-delayed-message x-delayed-type=fanout; bind d k q; publish d k 4 x-delay=900"],
    );
    assert_eq!(delayed.ages.next_due.map(|due| due - delayed.at), Some(900));
}
