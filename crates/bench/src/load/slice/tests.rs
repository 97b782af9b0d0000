//! Whole slices against brokers whose faults are known: what is wrong is counted, what is right is
//! not complained about.

use super::*;
use crate::driver::jvm::workers::Workers;
use crate::load::judge::{Measures, judge};
use crate::simulate::behaviour::{Behaviour, Delay, Fault, Promise};
use crate::simulate::local;
use bench_record::check::Check;
use bench_record::durability::Durability;
use bench_record::integrity::Integrity;
use bench_record::rules::unsupported_claim;
use bench_record::scenario::QueueKind;
use bench_record::slice::{LatencyFrom, Measured};

const MESSAGES: u64 = 3000;

/// A scenario of a fixed number of messages that a simulated broker can serve.
fn counted(size: usize, window: u64) -> Scenario {
    let ack_every = u64::from(window > 0);
    let base = Scenario::default().with(|s| {
        s.message.size = size;
        (s.clients.window, s.clients.ack_every) = (window, ack_every);
        (s.length.messages, s.length.patience) = (Some(MESSAGES), 1.0);
    });
    base.with(|s| s.topology.queue = QueueKind::Transient)
}

fn measure(scenario: &Scenario, faults: &[(u64, Fault)]) -> (Outcome, Measured) {
    measure_broker(scenario, &Behaviour::faulty(faults))
}

fn measure_broker(scenario: &Scenario, behaviour: &Behaviour) -> (Outcome, Measured) {
    let target = local(behaviour).target.parse().unwrap();
    let outcome = run(&target, scenario, 7, &Workers::default(), &mut Progress::silent()).unwrap();
    let measured = judge(scenario, &outcome, Measures::Broker).unwrap();
    (outcome, measured)
}

/// lost, duplicated, reordered, corrupted, refused, unknown confirms, neither confirmed nor refused
fn counts(found: &Integrity) -> [u64; 7] {
    let Integrity { lost, duplicated, reordered, corrupted, refused, unknown_confirms, unsettled, .. } = *found;
    [lost, duplicated, reordered, corrupted, refused, unknown_confirms, unsettled]
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
        assert_eq!(counts(&outcome.integrity), [0; 7], "{size} B, window {window}");
        assert_eq!(outcome.integrity.check, check);
        assert_eq!((outcome.totals.sent, outcome.totals.received), (MESSAGES, MESSAGES));
        assert_eq!(outcome.totals.confirmed, if window > 0 { MESSAGES } else { 0 });
        assert!(!measured.verdict.violations.iter().any(|text| text.starts_with("messages")), "{:?}", measured.verdict);
        let timed = if size >= 16 { MESSAGES } else { 0 };
        assert_eq!(measured.latencies.latency_us.map_or(0, |latency| latency.samples), timed);
    }
}

/// Faults, the window, and the counts that must be found.
type Case = (&'static [(u64, Fault)], u64, [u64; 7]);

#[test]
fn every_injected_fault_is_reported_as_often_as_it_was_injected() {
    let cases: &[Case] = &[
        (&[(5, Fault::Lose), (77, Fault::Lose), (MESSAGES, Fault::Lose)], 100, [3, 0, 0, 0, 0, 0, 0]),
        (&[(5, Fault::Lose), (6, Fault::Lose)], 0, [2, 0, 0, 0, 0, 0, 0]),
        (&[(1, Fault::Double), (2999, Fault::Double)], 100, [0, 2, 0, 0, 0, 0, 0]),
        (&[(10, Fault::Overtake), (20, Fault::Overtake)], 100, [0, 0, 2, 0, 0, 0, 0]),
        // A corrupted message is missing under its own number too.
        (&[(44, Fault::Flip)], 100, [1, 0, 0, 1, 0, 0, 0]),
        // What was refused may be lost.
        (&[(44, Fault::Refuse)], 100, [0, 0, 0, 0, 1, 0, 0]),
        (&[(44, Fault::ConfirmTwice)], 100, [0, 0, 0, 0, 0, 1, 0]),
        // What is never answered was not promised, so it is not lost: but something is wrong.
        (&[(44, Fault::Swallow), (45, Fault::Swallow)], 100, [0, 0, 0, 0, 0, 0, 2]),
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
    assert_eq!(counts(&outcome.integrity), [2, 0, 0, 0, 0, 0, 0]);
    let (outcome, _) = measure(&counted(4, 10), &[(3, Fault::Double)]);
    assert_eq!(counts(&outcome.integrity), [0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_stall_is_charged_to_every_message_that_was_meant_to_go_during_it() {
    // 3000 messages in 3 s; the broker stands still for the second one. In an open loop the 1000
    // messages meant for that second wait from 1 s down to nothing, evenly. A closed loop, or one
    // that stamps when it gets round to sending, would report a single slow message. The machine
    // may make more messages late, never fewer.
    let scenario = counted(64, 0).with(|s| s.pace.rate = Rate::Fixed(1000.0));
    let behaviour = Behaviour { stalls: vec!["1s@1s".parse().unwrap()], ..Behaviour::default() };
    let (outcome, measured) = measure_broker(&scenario, &behaviour);
    assert_eq!(counts(&outcome.integrity), [0; 7]);
    for (late_ms, fewest) in [(5, 970), (100, 880), (250, 730), (500, 480), (750, 230), (950, 30)] {
        let late = outcome.total.longer_than(late_ms * 1_000_000);
        assert!((fewest..fewest + 600).contains(&late), "{late} messages later than {late_ms} ms");
    }
    assert_eq!(measured.latencies.latency_from, LatencyFrom::Intended);
}

/// A full window holds the generator back, and that is the broker's doing. Charged to the
/// generator, it made every slice in which the broker had stalled an invalid one, and left the calm
/// ones to speak for it.
#[test]
fn a_generator_that_is_held_back_is_not_late() {
    let scenario = counted(64, 100).with(|s| s.pace.rate = Rate::Fixed(1000.0));
    let behaviour = Behaviour { stalls: vec!["1s@1s".parse().unwrap()], ..Behaviour::default() };
    let (outcome, measured) = measure_broker(&scenario, &behaviour);
    let late = outcome.total.longer_than(500_000_000);
    assert!((480..1100).contains(&late), "{late} messages later than half a second");
    assert_eq!(outcome.lateness.longer_than(500_000_000), 0);
    assert!(!measured.verdict.violations.iter().any(|text| text.contains("generator was late")));
}

#[test]
fn a_broker_that_falls_silent_is_said_to_have() {
    let (_, measured) = measure(&counted(64, 1), &[(44, Fault::Swallow)]);
    let said = "stopped when nothing had moved for 1 s, before all messages were through";
    assert!(measured.verdict.notes.iter().any(|note| note == said), "{:?}", measured.verdict);
}

/// A producer whose messages are all confirmed ends, and the system forgets what it has used.
#[test]
#[cfg(target_os = "linux")]
fn what_threads_used_that_have_ended_is_known() {
    let (outcome, measured) = measure(&counted(64, 10).with(|s| s.topology.consumers = 0), &[]);
    let used = |name: &str| outcome.last.threads.values().any(|thread| thread.name == name && thread.cpu_ns > 0);
    assert!(used("producer-0"), "{:?}", outcome.last.threads);
    assert!(measured.costs.busiest_thread.is_some());
}

#[test]
fn a_programmed_latency_is_the_one_that_is_measured() {
    let ms = |count| Delay::Fixed(Duration::from_millis(count));
    let scenario = counted(64, 1000).with(|s| (s.pace.rate, s.length.messages) = (Rate::Fixed(1000.0), Some(1500)));
    let behaviour = Behaviour { delivery: ms(5), confirm: ms(3), ..Behaviour::default() };
    let (_, measured) = measure_broker(&scenario, &behaviour);
    let (latency, confirm) = (measured.latencies.latency_us.unwrap(), measured.latencies.confirm_us.unwrap());
    for (found, programmed) in [(latency, 5000.0), (confirm, 3000.0)] {
        // Never less than was programmed; a machine that does something else too may add to it.
        assert!(found.min >= programmed * 0.999 && found.min < programmed + 100_000.0, "{found:?}");
    }
}

#[test]
fn a_capped_rate_is_the_one_that_is_measured() {
    let behaviour = Behaviour { capacity: Some(2000.0), ..Behaviour::default() };
    let (_, measured) = measure_broker(&counted(64, 100).with(|s| s.length.messages = Some(4000)), &behaviour);
    let rate = measured.rates.messages_per_s;
    // A machine that does something else too may take from it.
    assert!(rate > 100.0 && rate <= 2020.0, "{rate}");
    let thousands = measured.thousands.unwrap();
    assert!(thousands.steps >= 3 && thousands.p50 <= 2300.0, "{thousands:?}");
    let windows = &measured.over_time;
    let moved: u64 = windows.received.iter().sum();
    assert!(moved > 3000 && windows.seconds.iter().all(|length| *length >= 0.1), "{windows:?}");
}

#[test]
fn a_broker_that_confirms_without_flushing_is_called_out() {
    let Some(flushed) = disk_that_counts() else { return };
    let scenario = counted(64, 10).with(|s| (s.message.persistent, s.topology.queue) = (true, QueueKind::Durable));
    let measured = |promise| {
        let behaviour = Behaviour { promise, dir: Some(flushed.path().to_owned()), ..Behaviour::default() };
        measure_broker(&scenario, &behaviour).1
    };
    // Disks count the flushes of the whole machine: while another program forces writes, these
    // count for the broker.
    for promise in [Promise::Memory, Promise::Write] {
        let called_out = |_: &usize| {
            let found = measured(promise);
            let claim = |class| unsupported_claim(Some(class), &found);
            found.verdict.notes.iter().any(|note| note.starts_with("not forced"))
                && claim(Durability::D3).is_some_and(|text| text.contains("D2 at most"))
                && claim(Durability::D2).is_none()
        };
        assert!((0..20).find(called_out).is_some(), "{promise:?}");
    }
    let found = measured(Promise::Flush);
    assert!(found.verdict.notes.iter().any(|note| note.starts_with("forced to disk")), "{:?}", found.verdict);
    assert_eq!(unsupported_claim(Some(Durability::D3), &found), None);
}

/// A directory on a disk whose flushes the machine counts; none where there is no such disk, as in
/// some containers.
fn disk_that_counts() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).ok()?;
    let forced = machine::disk::forced_writes(dir.path(), Duration::from_millis(50)).ok()?;
    forced.flushes_each.is_some_and(|each| each >= 0.9).then_some(dir)
}

#[test]
fn a_warm_up_lasts_until_the_rate_is_steady() {
    let behaviour = Behaviour { capacity: Some(1000.0), ..Behaviour::default() };
    let scenario = counted(64, 10).with(|s| {
        (s.length.messages, s.length.warmup, s.length.until_steady, s.length.duration) = (None, 60.0, true, 0.5);
    });
    let (outcome, measured) = measure_broker(&scenario, &behaviour);
    let warmed = -measured.over_time.until_s[0];
    assert!((2.0..60.0).contains(&warmed), "{warmed} s");
    assert!(outcome.totals.received > 2000);
}

#[test]
fn round_trips_through_a_real_relay_are_all_accounted_for() {
    let address = relay(None);
    let target = format!("relay://{address}").parse().unwrap();
    // Too small for a number, a body can only be counted.
    for size in [64, 1] {
        let scenario = counted(size, 0).with(|s| s.mode = Mode::Pingpong);
        let outcome = run(&target, &scenario, 9, &Workers::default(), &mut Progress::silent()).unwrap();
        assert_eq!(counts(&outcome.integrity), [0; 7], "{size} B");
        assert_eq!((outcome.totals.sent, outcome.totals.received), (MESSAGES, MESSAGES));
    }
}

#[test]
fn several_pairs_and_large_bodies_go_through_a_real_relay() {
    let dir = tempfile::tempdir().unwrap();
    let logged = Some(dir.path().to_owned());
    for (size, window, log) in [(64, 50, None), (300_000, 4, None), (300_000, 4, logged)] {
        let target: Target = format!("relay://{}", relay(log)).parse().unwrap();
        let scenario = counted(size, window)
            .with(|s| {
                s.topology.producers = 3;
                s.length.messages = Some(60);
            })
            .for_relay();
        let outcome = run(&target, &scenario, 11, &Workers::default(), &mut Progress::silent()).unwrap();
        assert_eq!(counts(&outcome.integrity), [0; 7], "{size} B");
        assert_eq!((outcome.totals.received, outcome.totals.confirmed), (60, 60));
    }
}

#[test]
fn a_broker_that_dies_ends_the_run_with_a_failure() {
    let scenario = counted(64, 100);
    let target = local(&Behaviour::faulty(&[(1000, Fault::Die)])).target.parse().unwrap();
    let failure = run(&target, &scenario, 3, &Workers::default(), &mut Progress::silent())
        .err()
        .map(|failure| failure.to_string());
    assert!(failure.as_deref().is_some_and(|text| text.contains("broker")), "{failure:?}");
}

#[test]
fn a_missing_broker_fails_with_its_name() {
    let failure = run(
        &"gone=relay://127.0.0.1:1".parse().unwrap(),
        &counted(64, 0),
        1,
        &Workers::default(),
        &mut Progress::silent(),
    );
    let text = failure.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(text.contains("gone") && text.contains("127.0.0.1:1"), "{text}");
}

/// A relay that lives as long as the tests do.
fn relay(log: Option<std::path::PathBuf>) -> std::net::SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::relay::serve("127.0.0.1:0".parse().unwrap(), 1, log.as_deref(), |address| {
            sender.send(address).context("telling the test")
        })
    });
    receiver.recv().unwrap()
}

#[test]
fn a_selector_that_a_broker_takes_and_does_not_know_is_found_out_however_late_it_delivers() {
    for delivery in ["0ms", "30ms"] {
        let behaviour = Behaviour { delivery: delivery.parse().unwrap(), ..Behaviour::default() };
        let target = local(&behaviour).target.parse().unwrap();
        let scenario = counted(64, 1).with(|s| s.clients.selector = Some(10));
        let failure = run(&target, &scenario, 7, &Workers::default(), &mut Progress::silent()).err().unwrap();
        assert!(failure.lacks().is_some_and(|what| what.contains("x-filter-jms-selector")), "{failure}");
    }
}
