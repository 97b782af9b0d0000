//! Backlogs in a broker whose faults are known: what is wrong is counted, and what was left by one
//! process is checked by another from the options alone.

use super::*;
use crate::cli::{Verb, verb};
use crate::simulate::behaviour::{Behaviour, Fault};
use crate::simulate::{LocalBroker, local};

const OPTIONS: &str = "--messages 5000 --size 64 --producers 2 --window 50 --slice 1000 --patience 0.4 --quiet";

fn options(broker: &LocalBroker, more: &str) -> BacklogArgs {
    match verb(&format!("backlog --target {} {OPTIONS} {more}", broker.target)) {
        Verb::Backlog(args) => *args,
        _ => panic!("not a backlog"),
    }
}

fn phases(broker: &LocalBroker, more: &str) -> Result<Vec<PhaseRecord>, String> {
    let args = options(broker, more);
    measure(&args, &mut Progress::silent()).map(|record| record.phases).map_err(|failure| failure.to_string())
}

/// lost, duplicated, reordered, corrupted, refused
fn counts(phase: &PhaseRecord) -> [u64; 5] {
    let found = &phase.integrity;
    [found.lost, found.duplicated, found.reordered, found.corrupted, found.refused]
}

#[test]
fn a_fill_and_a_later_drain_are_whole() {
    let broker = local(&Behaviour::default());
    let fill = phases(&broker, "--phase fill").unwrap().remove(0);
    assert!(fill.verdict.valid, "{:?}", fill.verdict);
    assert_eq!((fill.total.count, fill.held, counts(&fill)), (5000, Some(5000), [0; 5]));
    assert_eq!(fill.confirm_us.map(|confirm| confirm.samples), Some(5000));
    assert_eq!(fill.slices.iter().map(|slice| slice.count).sum::<u64>(), 5000);
    assert!(fill.slices.windows(2).all(|pair| pair[0].upto < pair[1].upto));

    for (consumers, left) in [("--consumers 1", 5000), ("--consumers 3", 0)] {
        if left == 0 {
            phases(&broker, "--phase fill").unwrap();
        }
        let drain = phases(&broker, &format!("--phase drain --prefetch 100 {consumers}")).unwrap().remove(0);
        assert!(drain.verdict.valid, "{consumers}: {:?}", drain.verdict);
        assert_eq!((drain.total.count, drain.held, counts(&drain)), (5000, Some(0), [0; 5]), "{consumers}");
        assert!(broker.held.lock().unwrap().queues.is_empty(), "the queue is removed");
    }
}

#[test]
fn what_went_wrong_in_between_is_counted_by_the_drain() {
    type Case = (&'static [(u64, Fault)], [u64; 5]);
    let cases: &[Case] = &[
        (&[(5, Fault::Lose), (77, Fault::Lose), (4999, Fault::Lose)], [3, 0, 0, 0, 0]),
        (&[(1, Fault::Double), (2500, Fault::Double)], [0, 2, 0, 0, 0]),
        (&[(10, Fault::Overtake)], [0, 0, 1, 0, 0]),
        (&[(44, Fault::Flip)], [1, 0, 0, 1, 0]),
    ];
    for (faults, expected) in cases {
        // Two producers may interleave in any way; one tells which overtook the other.
        let broker = local(&Behaviour::faulty(faults));
        phases(&broker, "--producers 1 --phase fill").unwrap();
        let drain = phases(&broker, "--producers 1 --phase drain").unwrap().remove(0);
        assert_eq!(counts(&drain), *expected, "{faults:?}");
        assert!(!drain.verdict.valid, "{faults:?}");
    }
}

#[test]
fn what_was_refused_is_not_expected_in_the_same_run() {
    let broker = local(&Behaviour::faulty(&[(44, Fault::Refuse)]));
    let both = phases(&broker, "--phase both").unwrap();
    assert_eq!((counts(&both[0]), counts(&both[1])), ([0, 0, 0, 0, 1], [0; 5]));
    assert_eq!((both[0].verdict.valid, both[1].verdict.valid), (false, true));
}

#[test]
fn messages_of_another_fill_are_not_taken_for_ours() {
    let broker = local(&Behaviour::default());
    phases(&broker, "--queue own --phase fill").unwrap();
    assert_eq!(broker.held.lock().unwrap().queues["own"].len(), 5000);
    let drain = phases(&broker, "--queue own --seed 2 --phase drain").unwrap().remove(0);
    assert_eq!(counts(&drain), [5000, 0, 0, 5000, 0]);
    assert!(drain.verdict.notes.iter().any(|note| note.contains("--seed")), "{:?}", drain.verdict);
}

#[test]
fn a_phase_ends_at_its_limit() {
    let broker = local(&Behaviour::faulty(&[(50, Fault::Lose)]));
    phases(&broker, "--phase fill").unwrap();
    let drain = phases(&broker, "--phase drain --patience 60 --limit 0.3").unwrap().remove(0);
    assert!(drain.verdict.violations.iter().any(|text| text.contains("--limit")), "{:?}", drain.verdict);
    assert_eq!(counts(&drain)[0], 1);
}

#[test]
fn what_can_not_be_done_is_refused() {
    let broker = local(&Behaviour::default());
    let cases = [
        ("--size 7", "--size must be at least 8"),
        ("--consumers 0", "at least one consumer"),
        ("--producers 0", "at least one producer"),
        ("--patience 0", "--patience"),
        ("--limit=-1", "--limit"),
        ("--phase drain", "holds nothing"),
        ("--target relay://127.0.0.1:1 --phase fill", "backlogs are of"),
        ("--dir /nowhere/at/all", "/nowhere/at/all"),
    ];
    for (more, part) in cases {
        let failure = phases(&broker, more).err().unwrap_or_default();
        assert!(failure.contains(part), "{more}: {failure}");
    }
    phases(&broker, "--phase fill").unwrap();
    let failure = phases(&broker, "--phase fill").err().unwrap_or_default();
    assert!(failure.contains("holds 5000 messages already"), "{failure}");
}

#[test]
fn a_fill_outlives_the_failure_of_its_drain() {
    let broker = local(&Behaviour::default());
    let args = options(&broker, "--phase both --consumers 1");
    broker.held.lock().unwrap().refuses_consumers = true;
    let record = measure(&args, &mut Progress::silent()).unwrap();
    assert!(record.error.as_deref().is_some_and(|error| error.contains("basic.consume")), "{:?}", record.error);
    assert_eq!(record.phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(), ["fill"]);
    assert!(run(&BacklogArgs { phase: Phase::Drain, ..args }).is_err());
}

#[test]
fn a_broker_that_dies_ends_it_with_a_failure() {
    let failure = phases(&local(&Behaviour::faulty(&[(1000, Fault::Die)])), "").err().unwrap_or_default();
    assert!(failure.contains("broker"), "{failure}");
}

#[test]
fn the_table_has_a_row_for_each_slice_and_what_is_wrong() {
    let broker = local(&Behaviour::faulty(&[(5, Fault::Lose)]));
    let args = options(&broker, "--phase both --queue q");
    let record = measure(&args, &mut Progress::silent()).unwrap();
    let text = report::render(&record);
    let slices: usize = record.phases.iter().map(|phase| phase.slices.len()).sum();
    assert_eq!(text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count(), slices + 1);
    assert!(text.contains("INVALID: messages lost") && text.contains("lost 1, duplicated 0"), "{text}");
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["phases"][1]["integrity"]["lost"], 1);
    assert_eq!((&json["load"]["queue"], &json["version"]), (&"q".into(), &1.into()));
}
