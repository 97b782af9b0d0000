//! Snapshots for a journal that follows: what they have, what a half of one is, and when one is
//! given up. The simulation cuts them off at every moment.

use std::sync::Arc;
use std::time::Duration;

use journal::{
    Admission, Disk, Journal, OpenError, Options, Piece, Pulled, RealDisk, Receiving, ReceivingError, Snapshot,
    SnapshotError, Stepper,
};
use testkit::sim_disk::SimDisk;

use crate::queues::{Queues, alive, body, check, counts, open, open_with, rest, small, step};

fn disk() -> SimDisk {
    SimDisk::new(1, 8 << 20)
}

/// A queue of which most has left the log for segments, and one of which most is settled.
fn backlog(journal: &Journal, steps: &Stepper, queues: &Queues) {
    for at in 0..400 {
        queues.publish(journal, 1, &body(1, at, 1000));
        queues.publish(journal, 2, &body(2, at, 100));
        if at % 10 != 0 {
            queues.settle(journal, 2, at);
        }
        if at % 20 == 0 {
            rest(steps);
        }
    }
    rest(steps);
    assert!(journal.stats().segments.files > 0 && journal.stats().oldest_file > 1, "{:?}", journal.stats());
}

/// The next piece; none at the end.
fn piece(snapshot: &mut Snapshot, steps: &Stepper) -> Option<Piece> {
    loop {
        match snapshot.pull().unwrap() {
            Pulled::Piece(piece) => return Some(piece),
            Pulled::Nothing => drop(steps.flush().unwrap()),
            Pulled::Done => return None,
        }
    }
}

#[test]
fn a_snapshot_has_what_is_alive_while_its_journal_works() {
    let (from, to) = (disk(), disk());
    let (journal, steps, queues) = step(&from);
    backlog(&journal, &steps, &queues);
    let mut receiving = Receiving::begin(Arc::new(to.clone()), small()).unwrap();
    let mut snapshot = journal.snapshot().unwrap();
    assert!(matches!(journal.snapshot(), Err(SnapshotError::Running)));
    let mut pieces = 0;
    while let Some(piece) = piece(&mut snapshot, &steps) {
        receiving.take(&piece).unwrap();
        pieces += 1;
        if pieces == 1 {
            // What is alive now goes, and what was not there comes.
            (0..100).for_each(|seq| queues.settle(&journal, 1, seq));
            (0..20).for_each(|at| queues.publish(&journal, 3, &body(3, at, 500)));
        }
    }
    receiving.finish().unwrap();
    to.power_cut();
    let (copy, _, copied) = step(&to);
    assert_eq!(alive(&copied), alive(&queues));
    check(&copy, &copied);
    // What the snapshot kept may go again.
    drop(snapshot);
    queues.all().into_iter().for_each(|(owner, one)| queues.settle(&journal, owner, one.seq));
    rest(&steps);
    assert_eq!(journal.stats().segments.files, 0, "{:?}", journal.stats());
}

#[test]
fn a_half_of_a_snapshot_is_no_journal_and_the_next_one_takes_its_place() {
    let (from, to) = (disk(), disk());
    let (journal, steps, queues) = step(&from);
    backlog(&journal, &steps, &queues);
    for half in [1, 2, 5, usize::MAX] {
        let mut receiving = Receiving::begin(Arc::new(to.clone()), small()).unwrap();
        let mut snapshot = journal.snapshot().unwrap();
        let mut taken = 0;
        while let Some(piece) = (taken < half).then(|| piece(&mut snapshot, &steps)).flatten() {
            receiving.take(&piece).unwrap();
            taken += 1;
        }
        if half == usize::MAX {
            assert!(matches!(receiving.take(&Piece::Begin(Default::default())), Err(ReceivingError::Order)));
            receiving.finish().unwrap();
            break;
        }
        drop(receiving);
        assert!(matches!(open(Arc::new(to.clone())), Err(OpenError::Foreign(_))), "{half} pieces");
    }
    assert_eq!(alive(&open(Arc::new(to.clone())).unwrap().1), alive(&queues));
    assert!(matches!(Receiving::begin(Arc::new(to), small()), Err(ReceivingError::Taken)));
}

#[test]
fn a_snapshot_is_given_up_before_its_journal_has_no_room() {
    let from = disk();
    let (journal, steps, queues) = step(&from);
    backlog(&journal, &steps, &queues);
    let mut snapshot = journal.snapshot().unwrap();
    piece(&mut snapshot, &steps).unwrap();
    for at in 400.. {
        if journal.admission() == Admission::Closed {
            break;
        }
        queues.publish(&journal, 1, &body(1, at, 1000));
        steps.flush().unwrap();
    }
    assert!(matches!(snapshot.pull(), Err(SnapshotError::NoRoom)));
    rest(&steps);
    assert_eq!(journal.admission(), Admission::Closed, "its files are kept");
    drop(snapshot);
    rest(&steps);
    assert_eq!(journal.admission(), Admission::Open);
}

#[test]
fn a_snapshot_is_sent_from_a_real_disk_while_a_thread_publishes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = |name| -> Arc<dyn Disk> { Arc::new(RealDisk::open(folder.path().join(name)).unwrap()) };
    let options = Options { max_bytes: 32 << 20, ..small() };
    let start = |disk| {
        let (opened, queues) = open_with(disk, options.clone()).unwrap();
        let journal =
            opened.start(&mut counts(&queues).into_iter(), queues.clone(), Box::new(|error| panic!("{error}")));
        (journal, queues)
    };
    let (journal, queues) = start(disk("data"));
    (0..1000).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    let before = alive(&queues);
    let to = disk("copy");
    let mut receiving = Receiving::begin(Arc::clone(&to), options.clone()).unwrap();
    let mut snapshot = journal.snapshot().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..2000 {
                queues.publish(&journal, 2, &body(2, at, 1000));
                if at % 2 == 0 {
                    queues.settle(&journal, 2, at);
                }
            }
        });
        loop {
            match snapshot.pull().unwrap() {
                Pulled::Piece(piece) => receiving.take(&piece).unwrap(),
                Pulled::Nothing => std::thread::sleep(Duration::from_millis(1)),
                Pulled::Done => break,
            }
        }
    });
    receiving.finish().unwrap();
    drop(snapshot);
    journal.close().unwrap();
    let (copy, copied) = start(to);
    check(&copy, &copied);
    let (first, second): (Vec<_>, Vec<_>) = alive(&copied).into_iter().partition(|((owner, _), _)| *owner == 1);
    assert_eq!(first, before.into_iter().collect::<Vec<_>>());
    // A beginning of what the thread did: all odd numbers up to some one, and that.
    let numbers: Vec<u64> = second.iter().map(|((_, seq), _)| *seq).collect();
    let last = numbers.last().copied().unwrap_or(0);
    let expected: Vec<u64> = (0..=last).filter(|seq| seq % 2 == 1 || *seq == last).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    copy.close().unwrap();
}
