//! Many queues in a broker whose faults are known.

use super::*;
use crate::cli::{Verb, verb};
use crate::simulate::behaviour::{Behaviour, Fault};
use crate::simulate::{LocalBroker, local};

fn options(broker: &LocalBroker, more: &str) -> QueuesArgs {
    match verb(&format!("queues --target {} --count 300 --connections 4 {more}", broker.target)) {
        Verb::Queues(args) => *args,
        _ => panic!("not queues"),
    }
}

fn found(broker: &LocalBroker, more: &str) -> Found {
    measure(&options(broker, more), &Progress::silent()).unwrap().found
}

#[test]
fn queues_are_made_and_a_later_fetch_finds_them_whole() {
    for (pipeline, waits) in [(1, [75, 75, 8]), (20, [4, 4, 8])] {
        let broker = local(&Behaviour::default());
        let args = options(&broker, &format!("--phase declare --window 10 --pipeline {pipeline}"));
        let made = measure(&args, &Progress::silent()).unwrap();
        assert!(made.verdict.valid);
        assert_eq!(made.steps.iter().map(|step| step.name).collect::<Vec<_>>(), ["declare", "bind", "publish"]);
        assert_eq!(made.steps.iter().map(|step| step.waits.unwrap()).collect::<Vec<_>>(), waits);
        assert!(made.steps.iter().all(|step| step.stretch.count == 300));
        let held: Vec<usize> = broker.held.lock().unwrap().queues.values().map(|queue| queue.len()).collect();
        assert_eq!(held, [1; 300]);
        // Other connections, another way to ask: the same queues.
        assert_eq!(found(&broker, "--phase fetch --connections 7 --pipeline 3"), Found::default());
        assert!(broker.held.lock().unwrap().queues.is_empty());
    }
}

#[test]
fn every_fault_is_counted() {
    type Case = (&'static [(u64, Fault)], Found);
    let none = Found::default;
    let cases: &[Case] = &[
        (&[(5, Fault::Lose), (300, Fault::Lose)], Found { lost: 2, ..none() }),
        (&[(7, Fault::Double)], Found { extra: 1, ..none() }),
        (&[(8, Fault::Flip)], Found { corrupted: 1, ..none() }),
        (&[(9, Fault::Refuse)], Found { refused: 1, lost: 1, ..none() }),
    ];
    for (faults, expected) in cases {
        let record = found(&local(&Behaviour::faulty(faults)), "");
        assert_eq!(record, *expected, "{faults:?}");
        assert!(!record.verdict().valid);
    }
}

#[test]
fn a_message_in_another_queue_is_no_message_of_this_one() {
    let broker = local(&Behaviour::default());
    found(&broker, "--phase declare");
    {
        let mut held = broker.held.lock().unwrap();
        let names: Vec<String> = held.queues.keys().take(2).cloned().collect();
        let (one, two) = (held.queues.remove(&names[0]).unwrap(), held.queues.remove(&names[1]).unwrap());
        held.queues.extend([(names[0].clone(), two), (names[1].clone(), one)]);
    }
    assert_eq!(found(&broker, "--phase fetch"), Found { corrupted: 2, ..Found::default() });
}

#[test]
fn what_can_not_be_done_is_refused() {
    let broker = local(&Behaviour::faulty(&[(100, Fault::Die)]));
    let cases = [
        ("--size 7", "--size must be"),
        ("--limit=-1", "--limit"),
        ("--dir /nowhere/at/all", "/nowhere"),
        ("", "broker"),
    ];
    for (more, part) in cases {
        let failure = measure(&options(&broker, more), &Progress::silent()).err().unwrap().to_string();
        assert!(failure.contains(part), "{more}: {failure}");
    }
    let stomp = LocalBroker { target: "stomp://127.0.0.1:1".to_owned(), held: broker.held.clone() };
    let failure = measure(&options(&stomp, ""), &Progress::silent()).err().unwrap().to_string();
    assert!(failure.contains("use amqp://"), "{failure}");
}

#[test]
fn forced_writes_stand_beside_the_steps_that_wait_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = local(&Behaviour::default());
    let args = options(&broker, &format!("--dir {}", dir.path().display()));
    let record = measure(&args, &Progress::silent()).unwrap();
    let forced: Vec<bool> = record.steps.iter().map(|step| step.forced_seconds.is_some()).collect();
    assert_eq!(forced, [true, true, true, false, true]);
    let text = render(&record);
    assert!(
        text.contains("forced write here") && text.lines().filter(|line| line.starts_with("get ")).count() == 1,
        "{text}"
    );
}
