//! Whole slices against brokers whose faults are known: what is wrong is counted, what is right is not complained about.

use super::*;
use crate::load::simulated::{Fault, start};
use crate::measure::stamp::Check;
use crate::report::record::{LatencyFrom, Measured};
use crate::report::verdict::judge;
use crate::scenario::QueueKind;

const MESSAGES: u64 = 3000;

/// A scenario of a fixed number of messages that a simulated broker can serve.
fn counted(size: usize, window: u64) -> Scenario {
    let ack_every = u64::from(window > 0);
    let base = Scenario { size, window, ack_every, messages: Some(MESSAGES), patience: 1.0, ..Scenario::default() };
    Scenario { queue: QueueKind::Transient, ..base }
}

fn measure(scenario: &Scenario, faults: &[(u64, Fault)]) -> (Outcome, Measured) {
    let (target, broker) = start(faults, scenario.window > 0);
    let outcome = run(&target, scenario, 7, &mut Progress::new(true)).unwrap();
    broker.join().unwrap();
    let measured = judge(scenario, &outcome, false).unwrap();
    (outcome, measured)
}

/// lost, duplicated, reordered, corrupted, refused, unknown confirms
fn counts(found: &Integrity) -> [u64; 6] {
    [found.lost, found.duplicated, found.reordered, found.corrupted, found.refused, found.unknown_confirms]
}

#[test]
fn a_faultless_broker_is_not_complained_about() {
    for (size, window, check) in [
        (64, 0, Check::Full),
        (1024, 100, Check::Full),
        (16, 0, Check::Timed),
        (8, 1, Check::Numbered),
        (0, 10, Check::Counted),
    ] {
        let (outcome, measured) = measure(&counted(size, window), &[]);
        assert_eq!(counts(&outcome.integrity), [0; 6], "{size} B, window {window}");
        assert_eq!(outcome.integrity.check, check);
        assert_eq!((outcome.totals.sent, outcome.totals.received), (MESSAGES, MESSAGES));
        assert_eq!(outcome.totals.confirmed, if window > 0 { MESSAGES } else { 0 });
        assert!(!measured.verdict.violations.iter().any(|text| text.starts_with("messages")), "{:?}", measured.verdict);
        let timed = if size >= 16 { MESSAGES } else { 0 };
        assert_eq!(measured.latency_us.map_or(0, |latency| latency.samples), timed);
    }
}

/// Faults, the window, and the counts that must be found.
type Case = (&'static [(u64, Fault)], u64, [u64; 6]);

#[test]
fn every_injected_fault_is_reported_as_often_as_it_was_injected() {
    let cases: &[Case] = &[
        (&[(5, Fault::Lose), (77, Fault::Lose), (MESSAGES, Fault::Lose)], 100, [3, 0, 0, 0, 0, 0]),
        (&[(5, Fault::Lose), (6, Fault::Lose)], 0, [2, 0, 0, 0, 0, 0]),
        (&[(1, Fault::Double), (2999, Fault::Double)], 100, [0, 2, 0, 0, 0, 0]),
        (&[(10, Fault::Overtake), (20, Fault::Overtake)], 100, [0, 0, 2, 0, 0, 0]),
        // A corrupted message is missing under its own number too.
        (&[(44, Fault::Flip)], 100, [1, 0, 0, 1, 0, 0]),
        // What was refused may be lost.
        (&[(44, Fault::Refuse)], 100, [0, 0, 0, 0, 1, 0]),
        (&[(44, Fault::ConfirmTwice)], 100, [0, 0, 0, 0, 0, 1]),
    ];
    for (faults, window, expected) in cases {
        let (outcome, measured) = measure(&counted(64, *window), faults);
        assert_eq!(counts(&outcome.integrity), *expected, "{faults:?}");
        assert!(!measured.verdict.valid, "{faults:?}");
    }
}

#[test]
fn bodies_too_small_for_a_stamp_are_still_counted() {
    let (outcome, _) = measure(&counted(0, 10), &[(3, Fault::Lose), (4, Fault::Lose)]);
    assert_eq!(counts(&outcome.integrity), [2, 0, 0, 0, 0, 0]);
    let (outcome, _) = measure(&counted(4, 10), &[(3, Fault::Double)]);
    assert_eq!(counts(&outcome.integrity), [0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_stall_is_charged_to_every_message_that_was_meant_to_go_during_it() {
    // 3000 messages in 1.5 s; the broker stops for 0.6 s at message 500. In an open loop the messages meant for that time
    // wait for up to 0.6 s. A closed loop, or one that stamps when it gets round to sending, would report a single slow one.
    let scenario = Scenario { rate: Rate::Fixed(2000.0), ..counted(64, 0) };
    let (outcome, measured) = measure(&scenario, &[(500, Fault::Stall(600))]);
    assert_eq!(counts(&outcome.integrity), [0; 6]);
    let latency = measured.latency_us.unwrap();
    assert!(latency.max >= 590_000.0, "{latency:?}");
    assert!(latency.p90 >= 200_000.0, "a tenth of all messages waited longer than this: {latency:?}");
    assert_eq!(measured.latency_from, LatencyFrom::Intended);
}

#[test]
fn round_trips_through_a_real_relay_are_all_accounted_for() {
    let address = relay();
    let target = format!("relay://{address}").parse().unwrap();
    let scenario = Scenario { mode: Mode::Pingpong, ..counted(64, 0) };
    let outcome = run(&target, &scenario, 9, &mut Progress::new(true)).unwrap();
    assert_eq!(counts(&outcome.integrity), [0; 6]);
    assert_eq!((outcome.totals.sent, outcome.totals.received), (MESSAGES, MESSAGES));
}

#[test]
fn several_pairs_and_large_bodies_go_through_a_real_relay() {
    let target: Target = format!("relay://{}", relay()).parse().unwrap();
    for (size, window) in [(64, 50), (300_000, 4)] {
        let scenario = Scenario { producers: 3, messages: Some(60), ..counted(size, window) }.for_relay();
        let outcome = run(&target, &scenario, 11, &mut Progress::new(true)).unwrap();
        assert_eq!(counts(&outcome.integrity), [0; 6], "{size} B");
        assert_eq!((outcome.totals.received, outcome.totals.confirmed), (60, 60));
    }
}

#[test]
fn a_broker_that_dies_ends_the_run_with_a_failure() {
    let scenario = counted(64, 100);
    let (target, broker) = start(&[(1000, Fault::Die)], true);
    let failure = run(&target, &scenario, 3, &mut Progress::new(true)).err().map(|failure| failure.to_string());
    broker.join().unwrap();
    assert!(failure.as_deref().is_some_and(|text| text.contains("broker")), "{failure:?}");
}

#[test]
fn a_missing_broker_fails_with_its_name() {
    let failure = run(&"gone=relay://127.0.0.1:1".parse().unwrap(), &counted(64, 0), 1, &mut Progress::new(true));
    let text = failure.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(text.contains("gone") && text.contains("127.0.0.1:1"), "{text}");
}

/// A relay that lives as long as the tests do.
fn relay() -> std::net::SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::relay::serve("127.0.0.1:0".parse().unwrap(), 1, |address| {
            sender.send(address).context("telling the test")
        })
    });
    receiver.recv().unwrap()
}
