//! Backlogs: what is alive leaves the log for segments, on a real disk and on a simulated one, and what is damaged, missing
//! or in the way there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic here is a failed test")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use journal::{
    Address, Admission, Bits, Chunk, Disk, Durability, Journal, OpenError, Opened, Options, Owner, Owners, PAGE,
    RealDisk, Reference, Replay, Stepper,
};
use parking_lot::Mutex;
use testkit::sim_disk::{Fault, SimDisk};

/// A few queues: what each has not settled, and its next number.
#[derive(Default)]
struct Queues {
    live: Mutex<BTreeMap<(Owner, u64), Reference>>,
    next: Mutex<BTreeMap<Owner, u64>>,
}

impl Queues {
    fn publish(&self, journal: &Journal, owner: Owner, body: &[u8]) {
        let mut next = self.next.lock();
        let mut live = self.live.lock();
        let seq = next.entry(owner).or_default();
        let mut appender = journal.appender();
        let address = appender.body(&[body]);
        appender.reference(None, owner, *seq, 0, &[address]);
        appender.release_hold(address);
        live.insert((owner, *seq), Reference { seq: *seq, address, length: body.len() as u32 });
        *seq += 1;
    }

    fn settle(&self, journal: &Journal, owner: Owner, seq: u64) {
        let mut live = self.live.lock();
        let one = live.remove(&(owner, seq)).unwrap();
        journal.appender().settle(None, owner, 0, &[(seq, 1)], &[one.address]);
    }

    fn all(&self) -> Vec<(Owner, Reference)> {
        self.live.lock().iter().map(|((owner, _), one)| (*owner, *one)).collect()
    }

    fn of(&self, owner: Owner) -> Vec<Reference> {
        self.live.lock().range((owner, 0)..=(owner, u64::MAX)).map(|(_, one)| *one).collect()
    }
}

impl Owners for Queues {
    fn restate(&self, owners: &[Owner], journal: &Journal) {
        for owner in owners {
            let next = self.next.lock().get(owner).copied().unwrap_or(0);
            let live = self.live.lock();
            let runs: Vec<_> =
                (0..next).filter(|seq| !live.contains_key(&(*owner, *seq))).map(|seq| (seq, 1)).collect();
            let mut appender = journal.housekeeping_appender();
            appender.fact(None, *owner, 1, &[&next.to_le_bytes()]);
            appender.settle(None, *owner, 0, &runs, &[]);
        }
    }

    fn referenced(&self, owner: Owner, file: u32, found: &mut Vec<Reference>) {
        found.extend(self.of(owner).into_iter().filter(|one| one.address.file == file));
    }

    fn unsettled(&self, owner: Owner, page: u64, bits: &mut Bits) {
        for at in self.of(owner).iter().filter(|one| one.seq / PAGE == page).map(|one| one.seq % PAGE) {
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    fn moved(&self, owner: Owner, _: u64, _: &[u32], _: Chunk, entries: &[Reference]) -> u64 {
        let mut live = self.live.lock();
        let mut left = 0;
        for entry in entries {
            if let Some(one) = live.get_mut(&(owner, entry.seq)) {
                *one = *entry;
                left += 1;
            }
        }
        left
    }
}

/// What a replay found.
#[derive(Default)]
struct Found {
    live: BTreeMap<(Owner, u64), Address>,
    next: BTreeMap<Owner, u64>,
    chunks: Vec<(Owner, u64, Chunk)>,
    settled: Vec<(Owner, u64, u64)>,
}

impl Replay for Found {
    fn cold(&mut self, owner: Owner, page: u64, _: u64, chunk: Chunk) {
        self.chunks.push((owner, page, chunk));
    }

    fn fact(&mut self, owner: Owner, _: u8, bytes: &[u8]) {
        self.next.insert(owner, u64::from_le_bytes(bytes.try_into().unwrap()));
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, _: u64, bodies: &[Address]) {
        let next = self.next.entry(owner).or_default();
        *next = (*next).max(first_seq + bodies.len() as u64);
        self.live.extend((first_seq..).zip(bodies).map(|(seq, body)| ((owner, seq), *body)));
    }

    fn settled(&mut self, owner: Owner, _: u8, runs: &[(u64, u64)]) {
        for (first, count) in runs {
            let settled: Vec<_> = self.live.range((owner, *first)..(owner, first + count)).map(|(at, _)| *at).collect();
            self.live.retain(|at, _| !settled.contains(at));
            self.settled.push((owner, *first, *count));
        }
    }

    fn dropped(&mut self, _: Owner) {}

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        let next = self.next.entry(owner).or_default();
        *next = (*next).max(first_seq + count);
    }
}

impl Found {
    /// The queues that a start finds.
    fn queues(self, opened: &Opened) -> io::Result<Queues> {
        let mut live = BTreeMap::new();
        for ((owner, seq), address) in self.live {
            let length = opened.read(address)?.len() as u32;
            live.insert((owner, seq), Reference { seq, address, length });
        }
        for (owner, page, chunk) in self.chunks {
            let mut listed = Vec::new();
            opened.read_chunk(chunk, page, &mut listed)?;
            let gone = |seq| {
                self.settled.iter().any(|(of, first, count)| *of == owner && (*first..first + count).contains(&seq))
            };
            live.extend(listed.into_iter().filter(|one| !gone(one.seq)).map(|one| ((owner, one.seq), one)));
        }
        Ok(Queues { live: Mutex::new(live), next: Mutex::new(self.next) })
    }
}

fn small() -> Options {
    Options {
        durability: Durability::Fsync,
        file_bytes: 64 << 10,
        first_file_bytes: 64 << 10,
        max_bytes: 512 << 10,
        max_batch_bytes: 16 << 10,
        incarnation: 77,
    }
}

fn open(disk: Arc<dyn Disk>) -> Result<(Opened, Arc<Queues>), OpenError> {
    let mut found = Found::default();
    let opened = Journal::open(disk, small(), &mut found)?;
    let queues = found.queues(&opened).unwrap();
    Ok((opened, Arc::new(queues)))
}

fn counts(queues: &Queues) -> Vec<(u32, u64)> {
    queues.all().iter().map(|(_, one)| (one.address.file, 1)).collect()
}

fn step(disk: &SimDisk) -> (Journal, Stepper, Arc<Queues>) {
    let (opened, queues) = open(Arc::new(disk.clone())).unwrap();
    let mut live = counts(&queues).into_iter();
    let stopped = disk.clone();
    let failed = Box::new(move |error: &io::Error| assert!(stopped.has_crashed(), "the journal has failed: {error}"));
    let (journal, stepper) = opened.start_stepped(&mut live, queues.clone(), failed);
    (journal, stepper, queues)
}

/// The background works and the writer flushes, until there is nothing more to do.
fn rest(stepper: &Stepper) {
    for _ in 0..300 {
        stepper.background(false);
        stepper.flush().unwrap();
    }
}

fn body(owner: Owner, seq: u64, length: usize) -> Vec<u8> {
    (owner ^ seq << 8).to_le_bytes().into_iter().cycle().take(length).collect()
}

/// Every body that is alive reads back as the one that was published, one by one and all at once.
fn check(journal: &Journal, queues: &Queues) {
    let read = || {
        let all = queues.all();
        let bodies = journal.read_all(&all.iter().map(|(_, one)| *one).collect::<Vec<_>>());
        // What moves while it is read is looked up again.
        bodies.map_err(|error| assert_ne!(all, queues.all(), "{error}")).map(|bodies| (all, bodies))
    };
    let (all, bodies) = (0..100).find_map(|_| read().ok()).unwrap();
    for ((owner, one), bytes) in all.iter().zip(bodies) {
        assert_eq!(bytes, body(*owner, one.seq, one.length as usize));
        if let Ok(alone) = journal.read(one.address) {
            assert_eq!(alone, bytes);
        } else {
            assert_ne!(all, queues.all());
        }
    }
}

#[test]
fn a_backlog_of_many_rings_is_taken_kept_and_given_back_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path().join("data")).unwrap());
    let start = || {
        let (opened, queues) = open(Arc::clone(&disk)).unwrap();
        let failed = Box::new(|error: &io::Error| panic!("the journal has failed: {error}"));
        let journal = opened.start(&mut counts(&queues).into_iter(), queues.clone(), failed);
        (journal, queues)
    };
    let (journal, queues) = start();
    for at in 0..3000 {
        while journal.admission() == Admission::Closed {
            std::thread::sleep(Duration::from_millis(1));
        }
        // One in three goes at once: a part of each file is dead.
        queues.publish(&journal, at % 3, &body(at % 3, at / 3, 1000));
        if at % 3 == 2 {
            queues.settle(&journal, 2, at / 3);
        }
    }
    let stats = journal.stats();
    assert!(stats.segments > 10 && stats.used_bytes <= stats.max_bytes, "{stats:?}");
    check(&journal, &queues);
    journal.close().unwrap();
    let (journal, queues) = start();
    assert_eq!(queues.all().len(), 2000);
    check(&journal, &queues);
    queues.all().iter().for_each(|(owner, one)| queues.settle(&journal, *owner, one.seq));
    for _ in 0..6000 {
        if journal.stats().segments == 0 && disk.list().unwrap().iter().all(|name| !name.starts_with("cold/")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(journal.stats().segments, 0, "{:?}", disk.list());
    journal.close().unwrap();
    assert!(start().1.all().is_empty());
}

#[test]
fn a_backlog_that_is_all_alive_is_written_once() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    for at in 0..2000 {
        queues.publish(&journal, 1, &body(1, at, 1000));
        if at % 16 == 0 {
            stepper.flush().unwrap();
            (0..4).for_each(|_| {
                stepper.background(false);
            });
        }
    }
    rest(&stepper);
    let stats = journal.stats();
    assert!(stats.adopted_files > 20 && stats.evacuated_bytes == 0 && stats.merges == 0, "{stats:?}");
    assert!(stats.written_bytes < 2_800_000 && stats.used_bytes <= stats.max_bytes / 2, "{stats:?}");
    check(&journal, &queues);
    drop((journal, stepper));
    disk.power_cut();
    let (journal, stepper, queues) = step(&disk);
    assert_eq!(queues.all().len(), 2000);
    check(&journal, &queues);
    // Consumed to the end, nothing is left of it.
    queues.of(1).iter().for_each(|one| queues.settle(&journal, 1, one.seq));
    rest(&stepper);
    assert!(disk.names().iter().all(|name| !name.starts_with("cold/")), "{:?}", disk.names());
    assert!(disk.names().len() < 14, "slots are given back: {:?}", disk.names());
}

/// A queue of large backlog beside one of which a message in each file stays: files are mostly dead.
fn leave_few(journal: &Journal, stepper: &Stepper, queues: &Queues) {
    for at in 0..700 {
        queues.publish(journal, 1, &body(1, at, 1000));
        if at % 40 != 0 {
            queues.settle(journal, 1, at);
        }
        stepper.flush().unwrap();
        stepper.background(false);
    }
    rest(stepper);
}

#[test]
fn what_little_is_alive_is_copied_and_small_segments_are_merged() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    leave_few(&journal, &stepper, &queues);
    let stats = journal.stats();
    assert!(stats.merges > 0 && stats.segments < 9 && stats.adopted_files == 0, "{stats:?}");
    assert!(stats.evacuated_bytes > 0 && stats.segment_bytes < 128 << 10, "{stats:?}");
    check(&journal, &queues);
    disk.power_cut();
    let (journal, _, queues) = step(&disk);
    assert_eq!(queues.all().len(), 18);
    check(&journal, &queues);
}

/// As [`leave_few`], one flush and some background at a time, until the disk stops. Gives the operations on the disk before
/// and after the step in which a merge came to its end.
fn merge_once(disk: &SimDisk) -> Option<(u64, u64)> {
    let (journal, stepper, queues) = step(disk);
    let mut at = 0;
    loop {
        queues.publish(&journal, 1, &body(1, at, 1000));
        if at % 40 != 0 {
            queues.settle(&journal, 1, at);
        }
        at += 1;
        stepper.flush().ok()?;
        for _ in 0..3 {
            let before = disk.operations();
            stepper.background(false);
            if journal.stats().merges > 0 {
                return Some((before, disk.operations()));
            }
        }
    }
}

#[test]
fn what_a_merge_replaces_stays_until_its_index_is_on_the_disk() {
    let (_, end) = merge_once(&SimDisk::new(0, 8 << 20)).unwrap();
    for seed in 0..12 {
        for crash in end - 8..=end {
            let disk = SimDisk::new(seed, 8 << 20);
            disk.fault(crash, Fault::Crash);
            let before = merge_once(&disk);
            // The system goes on, and shows what the disk need not have.
            disk.restart();
            let left = step(&disk).2.all().len();
            disk.power_cut();
            let (journal, _, queues) = step(&disk);
            assert_eq!(queues.all().len(), left, "seed {seed}, crash at {crash}, {before:?}");
            check(&journal, &queues);
        }
    }
}

#[test]
fn a_file_that_is_wanted_leaves_although_there_is_room() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (0..70).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    rest(&stepper);
    assert_eq!((journal.stats().segments, journal.stats().files), (0, 2));
    journal.relieve();
    rest(&stepper);
    assert_eq!((journal.stats().segments, journal.stats().files), (1, 1));
    check(&journal, &queues);
}

#[test]
fn a_body_that_does_not_read_back_costs_itself_alone() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (0..60).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    (0..50).for_each(|at| queues.settle(&journal, 1, at));
    (60..130).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    stepper.flush().unwrap();
    let damaged = queues.of(1)[3];
    assert_eq!(damaged.address.file, 1);
    disk.flip_bit("wal/0000.wal", 8 * (u64::from(damaged.address.offset) + 500));
    journal.relieve();
    rest(&stepper);
    // It can't be copied whole, so it stays where it is.
    let stats = journal.stats();
    assert_eq!((stats.adopted_files, stats.segment_failures, stats.evacuated_bytes), (1, 1, 0), "{stats:?}");
    for one in queues.of(1) {
        match journal.read(one.address) {
            Ok(bytes) => assert_eq!(bytes, body(1, one.seq, 1000)),
            Err(error) => assert_eq!((one, error.kind()), (damaged, io::ErrorKind::InvalidData)),
        }
    }
    assert!(journal.read_all(&queues.of(1)).is_err());
}

#[test]
fn damaged_and_missing_segments_stop_the_start_by_name() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    leave_few(&journal, &stepper, &queues);
    (0..70).for_each(|at| queues.publish(&journal, 2, &body(2, at, 1000)));
    journal.relieve();
    rest(&stepper);
    journal.close().unwrap();
    disk.restart();
    let names: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("cold/")).collect();
    let number = |end: &str| names.iter().find(|name| name.ends_with(end)).unwrap();
    let (segment, index) = (number(".seg"), number(".idx"));
    let refused = |what: &dyn Fn(&SimDisk)| {
        let copy = SimDisk::new(1, 8 << 20);
        disk.names().iter().for_each(|name| copy.replace(name, &disk.bytes(name)));
        what(&copy);
        let before: Vec<_> = copy.names().iter().map(|name| copy.bytes(name)).collect();
        let error = open(Arc::new(copy.clone())).err().unwrap().to_string();
        assert_eq!(before, copy.names().iter().map(|name| copy.bytes(name)).collect::<Vec<_>>());
        error
    };
    let rest = "; nothing was changed, restore the data directory from a copy";
    assert_eq!(
        refused(&|copy| copy.remove(segment).unwrap()),
        format!(
            "{segment} is damaged at byte 0: the file of segment {} is missing or its header is damaged{rest}",
            &segment[5..13]
        )
    );
    assert_eq!(
        refused(&|copy| copy.flip_bit(index, 300)),
        format!("{index} is damaged at byte 0: the header of the index does not check{rest}")
    );
    let end = 8 * disk.bytes(index).len() as u64 - 1;
    let error = refused(&|copy| copy.flip_bit(index, end));
    assert!(error.starts_with(&format!("{index} is damaged at byte ")) && error.contains("directory"), "{error}");
    let error =
        refused(&|copy| names.iter().filter(|name| name.ends_with(".seg")).for_each(|name| copy.replace(name, b"x")));
    assert!(error.contains("is missing or its header is damaged"), "{error}");
    let logs: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("wal/")).collect();
    let error = refused(&|copy| logs.iter().for_each(|name| copy.remove(name).unwrap()));
    assert!(error.contains("the files of the log are missing"), "{error}");
}

#[test]
fn a_damaged_chunk_is_refused_when_it_is_read() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    leave_few(&journal, &stepper, &queues);
    journal.close().unwrap();
    disk.restart();
    let names = disk.names();
    let index = names.iter().find(|name| name.ends_with(".idx")).unwrap();
    // The first block begins behind the header.
    disk.flip_bit(index, 8 * 520);
    let mut found = Found::default();
    let opened = Journal::open(Arc::new(disk.clone()), small(), &mut found).unwrap();
    let error = found.queues(&opened).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().starts_with(&format!("{index}, the chunk at byte 512: ")), "{error}");
}
