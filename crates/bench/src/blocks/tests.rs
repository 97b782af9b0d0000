//! Runs of several blocks: their order, what interrupts them and how they go on.

use super::*;
use crate::simulate::behaviour::Behaviour;
use crate::simulate::local;
use bench_record::scenario::{Destination, LARGEST_COUNT, Payload, QueueKind};
use bench_record::verdict::Verdict;
use machine::interrupt::Interrupt;

/// Two targets that are one relay, and a few messages for each.
fn plan() -> Plan {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::relay::serve("127.0.0.1:0".parse().unwrap(), 1, None, |address| {
            sender.send(address).map_err(|error| Failure::new(error.to_string()))
        })
    });
    let address = receiver.recv().unwrap();
    let targets = ["a", "b"].map(|name| format!("{name}=relay://{address}").parse().unwrap());
    let scenario = Scenario::default().with(|s| {
        s.message.size = 64;
        s.length.messages = Some(100);
        s.topology.queue = QueueKind::Transient;
    });
    Plan {
        targets: targets.into(),
        scenario,
        own: BTreeMap::new(),
        blocks: 3,
        seed: 11,
        salt: 0,
        freeze: false,
        wait_quiet: Duration::ZERO,
        retries: 0,
        forced_dir: Some(std::env::temp_dir()),
        control: Some("b".to_owned()),
        least: None,
        rehearsal: Duration::ZERO,
        early_end: EarlyEnd::default(),
        workers: Workers::default(),
    }
}

/// Runs `plan`, and interrupts it when `pieces` are kept.
fn run_until(plan: &Plan, earlier: Vec<Piece>, pieces: usize) -> (Results, Vec<Piece>) {
    let (interrupt, mut kept) = (Interrupt::default(), earlier.clone());
    let mut keep = |piece: &Piece| {
        kept.push(piece.clone());
        if kept.len() == pieces {
            interrupt.ask();
        }
        Ok(())
    };
    let mut progress = Progress::silent().interrupted_by(interrupt.clone());
    let results = run(plan, earlier, &mut keep, &mut progress).unwrap();
    (results, kept)
}

fn turns(results: &Results) -> Vec<(usize, &str)> {
    results.slices.iter().map(|slice| (slice.block, slice.target.as_str())).collect()
}

#[test]
fn a_run_that_was_interrupted_anywhere_goes_on_in_the_same_order() {
    let plan = plan();
    let (whole, pieces) = run_until(&plan, Vec::new(), usize::MAX);
    assert_eq!((whole.ended, turns(&whole).len(), pieces.len()), (Ended::Blocks, 6, 9));
    assert_eq!(whole.forced.len(), 3);
    for stop in [1, 2, 5, 8] {
        let (half, kept) = run_until(&plan, Vec::new(), stop);
        assert_eq!((half.ended, kept.len()), (Ended::Interrupt, stop));
        let earlier: Vec<Piece> = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        let (rest, kept) = run_until(&Plan { salt: 5, ..plan.clone() }, earlier, usize::MAX);
        assert_eq!((rest.ended, kept.len()), (Ended::Blocks, 9), "interrupted after {stop}");
        assert_eq!(turns(&rest), turns(&whole), "interrupted after {stop}");
    }
}

#[test]
fn a_run_that_is_gone_on_with_repeats_what_was_disturbed() {
    let plan = plan();
    let (_, mut pieces) = run_until(&plan, Vec::new(), usize::MAX);
    for piece in &mut pieces {
        if let Piece::Slice(slice) = piece {
            let verdict = &mut slice.measured.as_mut().unwrap().verdict;
            (verdict.valid, verdict.violations, slice.superseded) = (true, Vec::new(), false);
        }
    }
    let Some(Piece::Slice(slice)) = pieces.last_mut() else { panic!("a run ends with a slice") };
    let verdict = &mut slice.measured.as_mut().unwrap().verdict;
    (verdict.valid, verdict.violations) = (false, vec!["disturbed: by this test".to_owned()]);

    let (kept, _) = run_until(&plan, pieces.clone(), usize::MAX);
    assert_eq!((kept.slices.len(), kept.slices.iter().filter(|slice| slice.superseded).count()), (6, 0));
    let more = Plan { retries: 1, ..plan };
    // Messages that were lost besides are not made good by another slice.
    let mut lossy = pieces.clone();
    let Some(Piece::Slice(slice)) = lossy.last_mut() else { panic!("a run ends with a slice") };
    slice.measured.as_mut().unwrap().integrity.lost = 3;
    let (kept, _) = run_until(&more, lossy, usize::MAX);
    assert_eq!((kept.slices.len(), kept.slices.iter().filter(|slice| slice.superseded).count()), (6, 0));
    let (repeated, pieces) = run_until(&more, pieces, usize::MAX);
    assert_eq!((repeated.slices.len(), repeated.slices[5].superseded, repeated.slices[6].superseded), (7, true, false));
    // The record keeps both, and which of them counts follows from their order.
    let (again, _) = run_until(&Plan { retries: 0, ..more }, pieces, usize::MAX);
    assert_eq!((again.slices.len(), again.slices[5].superseded, again.slices[6].superseded), (7, true, false));
}

#[test]
fn an_interrupt_cuts_the_slice_that_is_under_way_and_keeps_what_it_measured() {
    let mut plan = plan();
    (plan.scenario.length.messages, plan.scenario.length.duration, plan.scenario.length.warmup) = (None, 600.0, 0.0);
    plan.forced_dir = None;
    let interrupt = Interrupt::default();
    let asker = interrupt.clone();
    let mut progress = Progress::silent().interrupted_by(interrupt);
    let results = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            asker.ask();
        });
        run(&plan, Vec::new(), &mut |_| Err(Failure::new("nothing was finished")), &mut progress).unwrap()
    });
    assert_eq!((results.ended, results.slices.len()), (Ended::Interrupt, 1));
    let measured = results.slices[0].measured.as_ref().unwrap();
    assert!(measured.verdict.violations.iter().any(|text| text.starts_with("interrupted")), "{measured:?}");
    assert!(!measured.verdict.violations.iter().any(|text| text.starts_with("messages")), "{measured:?}");
    assert!(measured.totals.all_received > 0 && !measured.over_time.received.is_empty(), "{measured:?}");
}

#[test]
fn a_budget_ends_a_run_between_blocks() {
    let (results, _) = run_until(
        &Plan { early_end: EarlyEnd { budget: Some(Duration::ZERO), ..EarlyEnd::default() }, ..plan() },
        Vec::new(),
        usize::MAX,
    );
    assert_eq!((results.ended, results.slices.len()), (Ended::Budget, 2));
}

/// The rates are given: what a busy machine makes of them decides nothing here.
#[test]
fn a_run_ends_when_its_ratios_are_known_well_enough_but_not_before_ten_blocks() {
    let behaviour = Behaviour { capacity: Some(1000.0), ..Behaviour::default() };
    let targets = ["a", "b"].map(|name| format!("{name}={}", local(&behaviour).target).parse().unwrap());
    let scenario = plan().scenario.with(|s| {
        (s.clients.window, s.clients.ack_every) = (10, 1);
        s.length.messages = Some(20);
    });
    let plan = Plan { targets: targets.into(), scenario, blocks: 10, forced_dir: None, ..plan() };
    let (mut results, _) = run_until(&plan, Vec::new(), usize::MAX);
    for slice in &mut results.slices {
        let measured = slice.measured.as_mut().unwrap();
        measured.verdict = Verdict { valid: true, ..Verdict::default() };
        let spread = 1.0 + 0.02 * (slice.block % 3) as f64;
        measured.rates.messages_per_s = if slice.target == "a" { 1000.0 * spread } else { 900.0 };
    }
    let progress = Progress::silent();
    let ended = |until: f64, block: usize| {
        let plan = Plan { early_end: EarlyEnd { precision: Some(until), ..EarlyEnd::default() }, ..plan.clone() };
        ends_before(&plan, block, Duration::ZERO, &results.slices, &progress)
    };
    assert_eq!([ended(0.05, 10), ended(0.05, 11), ended(0.0001, 11)], [None, Some(Ended::Precision), None]);
}

#[test]
fn the_time_that_a_run_takes_is_known_before_it_begins() {
    let mut plan = plan();
    assert_eq!(plan.expected_seconds(), None);
    (plan.scenario.length.messages, plan.scenario.length.duration, plan.scenario.length.warmup) = (None, 5.0, 1.0);
    assert_eq!(plan.expected_seconds(), Some(3.0 * (2.0 * 6.5 + 0.5)));
    plan.early_end.budget = Some(Duration::from_secs(7));
    assert_eq!(plan.expected_seconds(), Some(7.0));
}

#[test]
fn a_target_whose_messages_are_through_at_once_gets_more_until_they_last() {
    let plan = Plan { least: Some(0.3), blocks: 2, forced_dir: None, ..plan() };
    let (results, pieces) = run_until(&plan, Vec::new(), usize::MAX);
    assert_eq!(turns(&results).len(), 4);
    for slice in &results.slices {
        let measured = slice.measured.as_ref().unwrap();
        assert!(measured.seconds >= 0.3 && !slice.superseded, "{} s", measured.seconds);
        assert!(measured.verdict.notes.iter().any(|note| note == MORE), "{:?}", measured.verdict);
    }
    // Counts only grow, and a run that is gone on with begins with the last.
    let counts: Vec<Piece> = pieces.into_iter().filter(|piece| matches!(piece, Piece::Count { .. })).collect();
    let of = |name: &str| -> Vec<u64> {
        let count = |piece: &Piece| match piece {
            Piece::Count { target, messages } if target == name => Some(*messages),
            _ => None,
        };
        counts.iter().filter_map(count).collect()
    };
    for target in &plan.targets {
        let counted = of(&target.name);
        assert!(counted[0] > 100 && counted.is_sorted(), "{counted:?}");
    }
    let (again, _) = run_until(&plan, counts.clone(), usize::MAX);
    for slice in &again.slices {
        let measured = slice.measured.as_ref().unwrap();
        let through = measured.rates.messages_per_s * measured.seconds;
        let last = *of(&slice.target).last().unwrap() as f64;
        assert!(through > last - 1.0, "{through} of {last}");
    }
}

#[test]
fn whoever_was_just_started_is_loaded_for_a_while_before_the_first_block() {
    let behaviour = Behaviour { capacity: Some(1000.0), ..Behaviour::default() };
    let server = local(&behaviour);
    let targets = vec![format!("a={}", server.target).parse().unwrap()];
    let scenario = plan().scenario.with(|s| {
        (s.clients.window, s.clients.ack_every) = (10, 1);
        s.length.messages = Some(20);
    });
    let rehearsal = Duration::from_millis(300);
    let plan = Plan { targets, scenario, blocks: 1, forced_dir: None, least: Some(0.01), rehearsal, ..plan() };
    let begin = Instant::now();
    let (_, pieces) = run_until(&plan, Vec::new(), usize::MAX);
    assert!(begin.elapsed() >= rehearsal && pieces.len() == 2, "{pieces:?}");
    // What is finished is not rehearsed once more, and what is not is: the broker may have been
    // started again.
    let counted = |earlier: &[Piece]| run_until(&plan, earlier.to_vec(), usize::MAX).1.len() - earlier.len();
    assert_eq!([counted(&pieces), counted(&pieces[..1])], [0, 2]);
}

#[test]
fn a_slice_that_can_not_be_made_to_last_says_so() {
    let all = plan().scenario.with(|s| {
        s.message.payload = Payload::Counter;
        s.length.messages = Some(LARGEST_COUNT);
    });
    assert_eq!(lasting::more(&Plan { least: Some(1e3), ..plan() }, &all, 0.1), None, "there are no more numbers");
    // More messages at a rate that is given would be another row.
    let scenario = plan().scenario.with(|s| s.pace.rate = Rate::Fixed(1e5));
    let plan = Plan { least: Some(1e3), blocks: 1, forced_dir: None, scenario, ..plan() };
    let (results, _) = run_until(&plan, Vec::new(), usize::MAX);
    assert_eq!(results.slices.len(), plan.targets.len());
    for slice in &results.slices {
        let notes = &slice.measured.as_ref().unwrap().verdict.notes;
        assert!(notes.iter().any(|note| note == SHORT), "{notes:?}");
    }
}

#[test]
fn half_load_is_half_of_what_was_sent_however_often_it_was_received() {
    let fanout = Scenario::default().with(|s| {
        (s.topology.destination, s.topology.consumers, s.topology.queues) = (Destination::Fanout, 10, 10);
    });
    let cases = [
        (Scenario::default(), 5000.0),
        (fanout.clone(), 500.0),
        (Scenario::default().with(|s| s.clients.selector = Some(10)), 50_000.0),
        (fanout.for_relay(), 5000.0),
    ];
    for (scenario, expected) in cases {
        assert_eq!(half(&scenario, 10_000.0), Rate::Fixed(expected), "{scenario:?}");
    }
}
