//! Copies of a journal that runs: they hold just what had been appended when they were begun,
//! whatever went on meanwhile, and one that was cut short is no data directory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use journal::{Admission, Backup, BackupError, Durability, Journal, LogId, OpenError, Options, RealDisk, Stepper};
use testkit::sim_disk::{Fault, Random, SimDisk};

use crate::queues::{Alive, Found, Queues, alive, body, check, counts, live_on, open, small, step};

/// Opens a copy, compares, works with it, and opens it again.
fn judge(copy: &SimDisk, expected: &Alive, random: &mut Random) {
    let (journal, stepper, queues) = step(copy);
    assert_eq!(alive(&queues), *expected);
    check(&journal, &queues);
    (0..60).for_each(|_| live_on(&journal, &stepper, &queues, random));
    check(&journal, &queues);
    let left = alive(&queues);
    drop((journal, stepper));
    copy.power_cut();
    let (journal, _, queues) = step(copy);
    assert_eq!(alive(&queues), left);
    check(&journal, &queues);
}

#[test]
fn a_copy_holds_what_was_there_when_it_was_begun() {
    let (mut adopted, mut copied, mut moved_on, mut stretched) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (disk, copy) = (SimDisk::new(seed, 8 << 20), SimDisk::new(seed + 1000, 8 << 20));
        let (journal, stepper, queues) = step(&disk);
        (0..100 + random.below(300)).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
        let expected = alive(&queues);
        let before = journal.stats();
        let mut backup = stepper.backup(Arc::new(copy.clone())).unwrap();
        let (most, flushes) = (random.below(5), journal.stats().flushes);
        while !backup.step().unwrap() {
            (0..random.below(most + 1)).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
        }
        let copied_now = backup.copied();
        assert_eq!((copied_now.bytes, copied_now.files), (copied_now.total, copy.names().len() as u64));
        moved_on += u64::from(journal.stats().flushes > flushes);
        stretched += u64::from(journal.stats().files > before.files);
        drop(backup);
        copied += copy.names().iter().filter(|name| name.ends_with(".seg")).count();
        adopted += copy.names().iter().filter(|name| name.ends_with(".idx")).count();
        // The journal goes on as if nothing had been, and the copy knows nothing of that.
        (0..100).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
        check(&journal, &queues);
        copy.power_cut();
        judge(&copy, &expected, &mut random);
    }
    adopted -= copied;
    assert!(
        adopted > 100 && copied > 20 && moved_on > 30 && stretched > 20,
        "{adopted} {copied} {moved_on} {stretched}"
    );
}

/// A journal with some of everything, and its disk.
fn full(seed: u64) -> (SimDisk, Journal, Stepper, Arc<Queues>) {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (0..150).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
    (disk, journal, stepper, queues)
}

fn all_of(backup: &mut Backup) -> Result<(), BackupError> {
    while !backup.step()? {}
    Ok(())
}

#[test]
fn a_copy_that_was_cut_short_is_no_data_directory() {
    let (_disk, _journal, stepper, queues) = full(3);
    let expected = alive(&queues);
    let (mut refused, mut empty, mut whole) = (0, 0, 0);
    for cut in 1.. {
        let copy = SimDisk::new(cut, 8 << 20);
        copy.fault(cut, Fault::Crash);
        let mut backup = stepper.backup(Arc::new(copy.clone())).unwrap();
        let outcome = all_of(&mut backup);
        drop(backup);
        assert_eq!(outcome.is_err(), copy.has_crashed(), "{outcome:?}");
        copy.power_cut();
        match (open(Arc::new(copy.clone())), &outcome) {
            (Err(OpenError::Foreign(names)), Err(_)) => refused += usize::from(!names.is_empty()),
            // Cut in its last few bytes.
            (Err(OpenError::Damaged { file, .. }), Err(_)) if file == "FORMAT" => refused += 1,
            // Of the last flush alone the copy does not know whether it came about.
            (Ok((_, found)), _)
                if copy.names().contains(&"cold/00000001.idx".to_owned()) || !found.all().is_empty() =>
            {
                assert_eq!(alive(&found), expected);
                whole += 1;
            }
            (Ok((_, found)), Err(_)) if found.all().is_empty() => empty += 1,
            (opened, _) => panic!("cut {cut}: {outcome:?}, then {:?}", opened.map(|(_, found)| alive(&found))),
        }
        if outcome.is_ok() {
            break;
        }
    }
    assert!(refused > 20 && empty > 0 && whole > 0, "{refused} {empty} {whole}");
}

#[test]
fn a_copy_that_fails_is_removed_and_the_journal_goes_on() {
    let (_disk, journal, stepper, queues) = full(4);
    let mut random = Random::new(4);
    for at in 1..60 {
        let copy = SimDisk::new(at, 8 << 20);
        copy.fault(at, Fault::Error);
        let mut backup = stepper.backup(Arc::new(copy.clone())).unwrap();
        match all_of(&mut backup) {
            Err(BackupError::Io { doing, .. }) => assert!(doing.contains("copy"), "{doing}"),
            other => panic!("{other:?} with an error at operation {at}"),
        }
        drop(backup);
        assert_eq!(copy.names(), [""; 0]);
        // The same directory will do.
        let mut backup = stepper.backup(Arc::new(copy.clone())).unwrap();
        all_of(&mut backup).unwrap();
    }
    (0..200).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
    check(&journal, &queues);
}

#[test]
fn nothing_leaves_the_log_while_a_backup_lives_and_it_ends_however_the_backup_does() {
    for finished in [true, false] {
        let (disk, journal, stepper, queues) = full(5);
        let mut random = Random::new(5);
        let mut backup = stepper.backup(Arc::new(SimDisk::new(1, 8 << 20))).unwrap();
        let mut steady: Vec<_> = disk.names().into_iter().filter(|name| name.starts_with("cold/")).collect();
        steady.extend(["LOCK".to_owned(), "FORMAT".to_owned()]);
        steady.retain(|name| disk.names().contains(name));
        let (before, kept) = (journal.stats(), steady.iter().map(|name| disk.bytes(name)).collect::<Vec<_>>());
        queues.all().iter().for_each(|(owner, one)| queues.settle(&journal, *owner, one.seq));
        (0..200).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
        let during = journal.stats();
        assert_eq!((during.oldest_file, during.segments.files), (before.oldest_file, before.segments.files));
        assert!(steady.iter().zip(&kept).all(|(name, bytes)| disk.bytes(name) == *bytes), "{steady:?}");
        if finished {
            all_of(&mut backup).unwrap();
        }
        drop(backup);
        (0..300).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
        let after = journal.stats();
        assert!(after.oldest_file > before.oldest_file && after.used_bytes <= after.max_bytes, "{after:?}");
        check(&journal, &queues);
    }
}

#[test]
fn a_backup_that_cannot_be_says_why() {
    let (disk, journal, stepper, _queues) = full(6);
    let begin = |to: &SimDisk| stepper.backup(Arc::new(to.clone()));
    let used = SimDisk::new(1, 8 << 20);
    used.replace("wal/0000.wal", b"something");
    assert!(matches!(begin(&used), Err(BackupError::NotEmpty(names)) if names == ["wal/0000.wal"]));
    let fresh = SimDisk::new(1, 8 << 20);
    fresh.replace("lost+found", b"");
    let first = begin(&fresh).unwrap();
    assert!(matches!(begin(&SimDisk::new(1, 8 << 20)), Err(BackupError::Running)));
    assert!(matches!(begin(&fresh), Err(BackupError::InUse)), "the copy is locked while it is made");
    drop(first);
    assert!(matches!(begin(&disk), Err(BackupError::NotEmpty(_))), "the journal's own directory");
    let small_disk = SimDisk::new(1, 100_000);
    assert!(matches!(begin(&small_disk), Err(BackupError::NoRoom { free: 100_000, .. })));
    let mut last = begin(&fresh).unwrap();
    assert!(!last.step().unwrap());
    journal.close().unwrap();
    assert!(matches!(last.step(), Err(BackupError::Stopped)));
    drop(last);
    assert!(matches!(begin(&fresh), Err(BackupError::Stopped)));
    assert_eq!(fresh.names(), ["lost+found"]);

    let options = Options { durability: Durability::Memory, ..small() };
    let opened = Journal::open(Arc::new(SimDisk::new(1, 1 << 20)), options, &mut Found::default()).unwrap();
    let in_memory = opened.start(&mut std::iter::empty(), Arc::new(Queues::default()), Box::new(|_| ()));
    assert!(matches!(in_memory.backup(Arc::new(fresh)), Err(BackupError::InMemory)));
}

fn damages(disk: Arc<RealDisk>) -> Vec<journal::Damage> {
    journal::verify(disk, &mut Found::default()).unwrap().damages
}

/// Stops the publisher, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn everything_durable_when_it_was_begun_is_in_the_copy_of_a_busy_journal() {
    let folder = tempfile::tempdir().unwrap();
    let disk = |name: &str| Arc::new(RealDisk::open(folder.path().join(name)).unwrap());
    let start = |disk: Arc<RealDisk>| {
        let (opened, queues) = open(disk).unwrap();
        let failed = Box::new(|error: &io::Error| panic!("the journal has failed: {error}"));
        let journal = opened.start(&mut counts(&queues).into_iter(), queues.clone(), failed);
        (journal, queues)
    };
    let (journal, queues) = start(disk("data"));
    let (published, durable, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            // The last thousand of one queue wait; what is older was settled, and files come and
            // go.
            for seq in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                while journal.admission() == Admission::Closed && !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                queues.publish(&journal, 1, &body(1, seq, 1000));
                published.store(seq + 1, Ordering::Relaxed);
                if seq >= 1000 {
                    queues.settle(&journal, 1, seq - 1000);
                }
                if seq % 64 == 0 {
                    let ticket = journal.appender(LogId::SYSTEM).ticket();
                    while !journal.is_durable(ticket) {
                        std::thread::yield_now();
                    }
                    durable.store(seq + 1, Ordering::Relaxed);
                }
            }
        });
        for round in 0..30 {
            let target = durable.load(Ordering::Relaxed) + 300;
            while durable.load(Ordering::Relaxed) < target {
                std::thread::yield_now();
            }
            let confirmed = durable.load(Ordering::Relaxed);
            let copy = disk(&format!("copy{round}"));
            let mut backup = journal.backup(copy.clone()).unwrap();
            let begun = published.load(Ordering::Relaxed) + 1;
            all_of(&mut backup).unwrap();
            drop(backup);
            assert_eq!(damages(copy.clone()), []);
            let (copied, found) = start(copy);
            let last = found.of(1).last().unwrap().seq + 1;
            assert!((confirmed..=begun).contains(&last), "{confirmed} {last} {begun}");
            let first = found.of(1)[0].seq;
            assert_eq!(found.of(1).len() as u64, last - first);
            assert!(last - first <= 1001, "{first} {last}");
            check(&copied, &found);
            copied.close().unwrap();
        }
    });
    assert!(journal.stats().oldest_file > 20, "{:?}", journal.stats());
    journal.close().unwrap();
    drop(journal);
    assert_eq!(damages(disk("data")), []);
}
