//! Storms on a broker in memory whose faults are known.

use super::*;
use crate::capacity::mqtt_broker::{Fault, start};
use crate::cli::{Verb, verb};

fn options(target: &str, more: &str) -> RetainedArgs {
    match verb(&format!("retained --target {target} --topics 50 --before 0.1 {more}")) {
        Verb::Retained(args) => *args,
        _ => panic!("not retained"),
    }
}

#[test]
fn all_come_and_nothing_is_left() {
    let target = start(Fault::Nothing);
    for more in ["", "--topics 3 --connections 5 --window 1 --size 16"] {
        let args = options(&target, more);
        let record = measure(&args, &Progress::silent()).unwrap();
        assert!(record.verdict.valid, "{more}: {:?}", record.verdict);
        assert_eq!((record.publishing.count, record.storm.count), (args.topics.into(), args.topics.into()));
        assert!(record.live_before_us.is_some() && record.first_us.is_some());
        let text = report::render(&record);
        assert!(
            text.contains("topics with a retained message") && text.contains("live messages before it: p50"),
            "{text}"
        );
    }
    let args = options(&target, "");
    let bodies = Bodies::new(0, args.size);
    let trial = args.trial.begin(&["mqtt"], "").unwrap();
    let mut late = Storm { args: &args, trial: &trial, run: 0, bodies, limit: SILENCE }.connect("late").unwrap();
    late.link.set_read_timeout(Duration::from_millis(100)).unwrap();
    late.subscribe("#", QoS::AtMostOnce).unwrap();
    assert!(!late.take(&mut |_| {}).unwrap(), "the retained messages are removed in the end");
}

#[test]
fn what_is_wrong_is_counted() {
    for (fault, expected) in
        [(Fault::Forgets, "1 retained messages did not come"), (Fault::Changes, "50 retained messages came changed")]
    {
        let record_of = options(&start(fault), "");
        let record = measure(&record_of, &Progress::silent()).unwrap();
        assert_eq!(record.verdict.violations, [expected], "{fault:?}");
    }
    let args = options(&start(Fault::Repeats), "");
    let record = measure(&args, &Progress::silent()).unwrap();
    assert!(record.found.twice > 0 && !record.verdict.valid, "{:?}", record.found);
    let args = options(&start(Fault::Drops), "");
    let record = measure(&args, &Progress::silent()).unwrap();
    assert!(record.found.live_lost > 0 && !record.verdict.valid, "{:?}", record.found);
}

#[test]
fn what_can_not_be_done_is_refused() {
    let refusing = start(Fault::Refuses);
    for (target, more, part) in [
        ("amqp://127.0.0.1:1", "", "use mqtt5:// or mqtt://"),
        ("mqtt://127.0.0.1:1", "", "127.0.0.1:1"),
        ("mqtt://127.0.0.1:1", "--size 8", "--size"),
        ("mqtt://127.0.0.1:1", "--before=-1", "--before"),
        (&refusing, "", "refused the subscription"),
    ] {
        let failure = measure(&options(target, more), &Progress::silent()).err().unwrap().to_string();
        assert!(failure.contains(part), "{target} {more}: {failure}");
    }
}
