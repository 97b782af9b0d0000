//! Spilled bodies: they read back while they are held, their files go with them, and nothing of
//! them outlives the journal.

use std::io::ErrorKind;
use std::sync::Arc;

use journal::{Address, Durability, Journal, Options, RealDisk, Reference, Stepper, is_spilled};
use testkit::sim_disk::{Fault, Random, SimDisk};

use crate::queues::{Found, Queues, body, open, small, step};

fn files(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("spill/")).collect()
}

fn spill(journal: &Journal, bodies: &[Vec<u8>]) -> Vec<Address> {
    journal.spill(&bodies.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

fn free(journal: &Journal, address: Address) {
    journal.free_spilled(address.file, 1);
}

fn tidy(journal: &Journal) {
    while journal.tidy_spilled() {}
}

fn journal(seed: u64) -> (SimDisk, Journal, Stepper, Arc<Queues>) {
    let disk = SimDisk::new(seed, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (disk, journal, stepper, queues)
}

#[test]
fn bodies_read_back_while_they_are_held_and_their_files_go_with_them() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (disk, journal, _stepper, _) = journal(seed);
        let mut held: Vec<(Reference, Vec<u8>)> = Vec::new();
        for round in 0..60 {
            let bodies: Vec<Vec<u8>> =
                (0..=random.below(20)).map(|at| body(round, at, random.below(9000) as usize)).collect();
            for (address, body) in spill(&journal, &bodies).into_iter().zip(bodies) {
                assert!(address.is_spilled() && is_spilled(address.file));
                held.push((Reference { seq: 0, address, length: body.len() as u32 }, body));
            }
            while held.len() > 40 {
                let (one, _) = held.swap_remove(random.below(held.len() as u64) as usize);
                free(&journal, one.address);
            }
            tidy(&journal);
            let wanted: Vec<Reference> = held.iter().map(|(one, _)| *one).collect();
            let read = journal.read_all(&wanted).unwrap();
            assert!(read.iter().zip(&held).all(|(read, (_, body))| read == body));
            assert!(held.iter().all(|(one, body)| journal.read(one.address).unwrap() == body));
            // One file more than those with something in it: the one that is written.
            let mut numbers: Vec<u32> = held.iter().map(|(one, _)| one.address.file).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert!((numbers.len()..=numbers.len() + 1).contains(&files(&disk).len()), "{:?}", files(&disk));
            assert_eq!(journal.stats().spill.files as usize, files(&disk).len());
        }
        held.iter().for_each(|(one, _)| free(&journal, one.address));
        tidy(&journal);
        assert_eq!((files(&disk), journal.stats().spill.bytes), (vec![], 0));
        assert_eq!(journal.read(held[0].0.address).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(journal.stats().flushes, 0, "nothing waits for it");
    }
}

#[test]
fn a_body_longer_than_a_file_has_one_of_its_own() {
    let (disk, journal, _stepper, _) = journal(1);
    let bodies = [body(1, 1, 100), body(1, 2, 300_000), body(1, 3, 100)];
    let addresses = spill(&journal, &bodies);
    assert_eq!(files(&disk).len(), 3);
    for (address, body) in addresses.into_iter().zip(&bodies) {
        assert_eq!(journal.read(address).unwrap(), body);
    }
}

#[test]
fn what_fails_is_not_held_and_the_journal_goes_on() {
    for (after, fault) in [(1, Fault::Error), (2, Fault::Error)] {
        let (disk, journal, stepper, queues) = journal(1);
        stepper.flush().unwrap();
        disk.fault(after, fault);
        let bodies = [body(1, 1, 5000), body(1, 2, 5000)];
        assert!(journal.spill(&[&bodies[0], &bodies[1]]).is_err());
        assert_eq!((journal.stats().spill.failures, journal.stats().spill.bytes), (1, 0));
        let addresses = spill(&journal, &bodies);
        assert_eq!(journal.read(addresses[1]).unwrap(), bodies[1]);
        queues.publish(&journal, 1, b"durable");
        stepper.flush().unwrap();
        addresses.into_iter().for_each(|address| free(&journal, address));
        tidy(&journal);
        assert_eq!(files(&disk), [] as [String; 0]);
    }
}

#[test]
fn room_that_the_log_may_come_to_need_is_left_to_it() {
    let (disk, journal, stepper, queues) = journal(1);
    let ring = journal.stats().max_bytes;
    let used: u64 = disk.names().iter().map(|name| disk.bytes(name).len() as u64).sum();
    disk.set_capacity(used + ring / 2);
    let error = journal.spill(&[b"x"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(files(&disk), [] as [String; 0]);
    queues.publish(&journal, 1, b"durable");
    stepper.flush().unwrap();
}

#[test]
fn what_an_earlier_process_left_is_never_read_and_goes() {
    let (disk, journal, stepper, queues) = journal(3);
    queues.publish(&journal, 1, b"durable");
    stepper.flush().unwrap();
    let bodies: Vec<_> = (0..100).map(|at| body(1, at, 9000)).collect();
    let before = spill(&journal, &bodies);
    assert!(files(&disk).len() > 3);
    drop((journal, stepper));
    disk.restart();
    let left = files(&disk);
    let (journal, stepper, queues) = step(&disk);
    assert_eq!(queues.of(1).len(), 1);
    assert!(before.iter().all(|address| journal.read(*address).is_err()));
    // Names of files that are still there are not given again.
    let again = spill(&journal, &bodies);
    assert!(left.iter().all(|name| files(&disk).contains(name)));
    tidy(&journal);
    assert!(left.iter().all(|name| !files(&disk).contains(name)));
    assert!(again.iter().zip(&bodies).all(|(address, body)| journal.read(*address).unwrap() == body));
    journal.close().unwrap();
    assert_eq!(files(&disk), [] as [String; 0]);
    assert!(journal.spill(&[b"late"]).is_err());
    drop(stepper);
}

#[test]
fn a_file_that_is_mostly_dead_is_named_once_and_not_while_little_is_at_stake() {
    let (_disk, journal, _stepper, _) = journal(1);
    let bodies: Vec<_> = (0..20).map(|at| body(1, at, 9000)).collect();
    let mut held = spill(&journal, &bodies);
    assert_eq!(journal.sparse_spilled(), None);
    for _ in 0..20 {
        held.extend(spill(&journal, &bodies));
    }
    assert_eq!(journal.sparse_spilled(), None, "all of it is wanted");
    let mut kept: Vec<Address> = held.extract_if(.., |address| address.offset == 0).collect();
    held.into_iter().for_each(|address| free(&journal, address));
    tidy(&journal);
    let mut named = Vec::new();
    while let Some(file) = journal.sparse_spilled() {
        named.push(file);
    }
    kept.pop();
    named.sort_unstable();
    assert_eq!(named, kept.iter().map(|address| address.file).collect::<Vec<_>>(), "all but the one that is written");
}

#[test]
fn a_copy_has_no_spilled_bodies() {
    let (disk, journal, stepper, queues) = journal(5);
    queues.publish(&journal, 1, b"durable");
    spill(&journal, &[body(1, 1, 9000)]);
    stepper.flush().unwrap();
    let copy = SimDisk::new(6, 8 << 20);
    let mut backup = stepper.backup(Arc::new(copy.clone())).unwrap();
    while !backup.step().unwrap() {}
    assert_eq!((files(&disk).len(), files(&copy).len()), (1, 0));
}

#[test]
fn a_journal_in_memory_has_nowhere_to_spill_to() {
    let options = Options { durability: Durability::Memory, ..small() };
    let opened = Journal::open(Arc::new(SimDisk::new(0, 0)), options, &mut Found::default()).unwrap();
    let journal =
        opened.start(&mut std::iter::empty(), Arc::new(Queues::default()), Box::new(|error| panic!("{error}")));
    assert!(!journal.spills() && journal.spill(&[b"x"]).is_err() && !journal.tidy_spilled());
}

#[test]
fn a_real_directory_keeps_them_in_a_folder_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || Arc::new(RealDisk::open(folder.path()).unwrap());
    let names = || std::fs::read_dir(folder.path().join("spill")).unwrap().count();
    let (opened, queues) = open(disk()).unwrap();
    let journal = opened.start(&mut std::iter::empty(), queues, Box::new(|error| panic!("{error}")));
    let bodies: Vec<_> = (0..100).map(|at| body(1, at, 9000)).collect();
    let addresses = spill(&journal, &bodies);
    assert!(names() > 3);
    assert!(addresses.iter().zip(&bodies).all(|(address, body)| journal.read(*address).unwrap() == body));
    std::fs::write(folder.path().join("spill/left"), b"over").unwrap();
    journal.close().unwrap();
    assert_eq!(names(), 1);
    let (opened, queues) = open(disk()).unwrap();
    let journal = opened.start(&mut std::iter::empty(), queues, Box::new(|error| panic!("{error}")));
    tidy(&journal);
    assert_eq!(names(), 0);
}
