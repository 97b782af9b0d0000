//! Idle connections to a broker in memory: all are opened, numbered once, and proven.

use super::*;
use crate::capacity::mqtt_broker::{Fault, start};
use crate::cli::{Verb, verb};
use crate::simulate::behaviour::Behaviour;
use crate::simulate::local;

fn options(target: &str, more: &str) -> ConnectionsArgs {
    match verb(&format!("connections --target {target} --idle 0.01 {more}")) {
        Verb::Connections(args) => *args,
        _ => panic!("not connections"),
    }
}

#[test]
fn connections_are_opened_and_live() {
    let broker = local(&Behaviour::default());
    for more in ["--count 30 --probes 7", "--count 30 --probes 7 --consume", "--count 3 --parallel 5 --consume"] {
        let args = options(&broker.target, more);
        let record = measure(&args, None, &Progress::silent()).unwrap();
        assert!(record.verdict.valid, "{more}: {:?}", record.verdict);
        let probes = args.probes.min(args.count);
        assert_eq!((record.answered, record.probes, record.dead), (probes, probes, 0), "{more}");
        assert_eq!(record.round_trip_us.as_ref().map(|time| time.samples), Some(probes.into()));
        assert_eq!(record.opening.count, u64::from(args.count));
        assert!(report::render(&record).contains("came back"));
    }
}

#[test]
fn connections_of_mqtt_are_opened_and_live() {
    let target = start(Fault::Nothing);
    for (more, words) in [("", "without subscriptions"), ("--consume", "with a subscription each")] {
        let args = options(&target, &format!("--count 30 --probes 7 {more}"));
        let record = measure(&args, None, &Progress::silent()).unwrap();
        assert!(record.verdict.valid, "{more}: {:?}", record.verdict);
        assert_eq!((record.answered, record.dead, record.opening.count), (7, 0, 30), "{more}");
        assert!(report::render(&record).contains(words));
    }
    let refused = options(&start(Fault::Refuses), "--count 2 --consume");
    let failure = measure(&refused, None, &Progress::silent()).err().unwrap().to_string();
    assert!(failure.contains("connection 0") || failure.contains("connection 1"), "{failure}");
}

#[test]
fn every_connection_has_its_process_and_every_probe_too() {
    for (all, processes) in [(10, 3), (2, 5), (1, 1), (4_000_000, 256)] {
        let args = options("amqp://h", &format!("--count {all} --processes {processes}"));
        let parts: Vec<Range<u32>> = (0..processes).map(|at| args.share(all, at)).collect();
        assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, all));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}

#[test]
fn too_few_descriptors_are_named_with_the_way_out() {
    let args = options("amqp://127.0.0.1:1", "--count 2000");
    let text = measure(&args, Some(1024), &Progress::silent()).err().unwrap().to_string();
    assert!(text.contains("1024") && text.contains("--processes 3"), "{text}");
    assert!(args.enough_descriptors(Some(2064), 2000).is_ok() && args.enough_descriptors(None, 2000).is_ok());
}

#[test]
fn dead_and_silent_connections_are_violations() {
    let proofs = [
        Proof { probes: 3, round_trips: vec![1, 2], dead: 1, complaint: Some("why".to_owned()) },
        Proof { probes: 1, round_trips: vec![1], dead: 0, complaint: None },
    ];
    let found = verdict(&proofs);
    assert_eq!(found.violations, ["the broker closed 1 connections", "1 connections did not carry a message"]);
    assert_eq!(found.notes, ["why"]);
    assert!(verdict(&proofs[1..]).valid);
}

#[test]
fn what_can_not_be_done_is_refused() {
    for (target, more, part) in [
        ("stomp://127.0.0.1:1", "--count 1", "use amqp:// or mqtt5:// or mqtt://"),
        ("amqp://127.0.0.1:1", "--count 1 --parallel 1", "connection 0"),
        ("amqp://127.0.0.1:1", "--count 1 --limit=-1", "--limit"),
    ] {
        let failure = measure(&options(target, more), None, &Progress::silent()).err().unwrap().to_string();
        assert!(failure.contains(part), "{more}: {failure}");
    }
}
