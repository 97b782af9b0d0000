//! Backlogs: what is alive leaves the log for segments, on a real disk and on a simulated one, and
//! what is damaged, missing or in the way there.

use std::io;
use std::ops::Range;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use journal::{Activity, Admission, Disk, DiskFile, Journal, Lock, Options, RealDisk, Stepper};
use testkit::sim_disk::{Fault, SimDisk};

use crate::queues::{Found, Queues, body, check, counts, open, open_with, rest, small, step, step_with};

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
    assert!(stats.segments.files > 10 && stats.used_bytes <= stats.max_bytes, "{stats:?}");
    check(&journal, &queues);
    journal.close().unwrap();
    let (journal, queues) = start();
    assert_eq!(queues.all().len(), 2000);
    check(&journal, &queues);
    queues.all().iter().for_each(|(owner, one)| queues.settle(&journal, *owner, one.seq));
    for _ in 0..6000 {
        if journal.stats().segments.files == 0 && disk.list().unwrap().iter().all(|name| !name.starts_with("cold/")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(journal.stats().segments.files, 0, "{:?}", disk.list());
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
                stepper.background(Activity::Busy);
            });
        }
    }
    rest(&stepper);
    let stats = journal.stats();
    assert!(
        stats.segments.adopted_files > 20 && stats.segments.evacuated_bytes == 0 && stats.segments.merges == 0,
        "{stats:?}"
    );
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

/// A queue of large backlog beside one of which a message in each file stays: files are mostly
/// dead.
fn leave_few(journal: &Journal, stepper: &Stepper, queues: &Queues) {
    for at in 0..700 {
        queues.publish(journal, 1, &body(1, at, 1000));
        if at % 40 != 0 {
            queues.settle(journal, 1, at);
        }
        stepper.flush().unwrap();
        stepper.background(Activity::Busy);
    }
    rest(stepper);
}

#[test]
fn what_little_is_alive_is_copied_and_small_segments_are_merged() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    leave_few(&journal, &stepper, &queues);
    let stats = journal.stats();
    assert!(stats.segments.merges > 0 && stats.segments.files < 9 && stats.segments.adopted_files == 0, "{stats:?}");
    assert!(stats.segments.evacuated_bytes > 0 && stats.segments.bytes < 128 << 10, "{stats:?}");
    check(&journal, &queues);
    disk.power_cut();
    let (journal, _, queues) = step(&disk);
    assert_eq!(queues.all().len(), 18);
    check(&journal, &queues);
}

/// As [`leave_few`], one flush and some background at a time, until the disk stops. Gives the
/// operations on the disk before and after the step in which a merge came to its end.
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
            stepper.background(Activity::Busy);
            if journal.stats().segments.merges > 0 {
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
fn a_header_of_which_a_part_was_written_is_none() {
    let (_, end) = merge_once(&SimDisk::new(0, 8 << 20)).unwrap();
    for (seed, at) in (0..12).flat_map(|seed| (end - 8..=end).map(move |at| (seed, at))) {
        let disk = SimDisk::new(seed, 8 << 20);
        // The system takes half of a write; the power goes as the rest follows.
        disk.fault(at, Fault::Short);
        disk.fault(at + 1, Fault::Crash);
        merge_once(&disk);
        disk.power_cut();
        let mut found = Found::default();
        Journal::open(Arc::new(disk), small(), &mut found).unwrap();
        assert!(found.lost.is_empty(), "seed {seed}, half of write {at}: {:?}", found.lost);
    }
}

#[test]
fn a_file_that_is_wanted_leaves_although_there_is_room() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (0..70).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    rest(&stepper);
    assert_eq!((journal.stats().segments.files, journal.stats().files), (0, 2));
    journal.relieve();
    rest(&stepper);
    assert_eq!((journal.stats().segments.files, journal.stats().files), (1, 1));
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
    assert_eq!(
        (stats.segments.adopted_files, stats.segments.failures, stats.segments.evacuated_bytes),
        (1, 1, 0),
        "{stats:?}"
    );
    for one in queues.of(1) {
        match journal.read(one.address) {
            Ok(bytes) => assert_eq!(bytes, body(1, one.seq, 1000)),
            Err(error) => assert_eq!((one, error.kind()), (damaged, io::ErrorKind::InvalidData)),
        }
    }
    assert!(journal.read_all(&queues.of(1)).is_err());
}

/// A disk with a bad place: reads of a file fail there.
struct Bad {
    disk: SimDisk,
    place: Arc<OnceLock<Range<u64>>>,
}

struct BadFile {
    file: Arc<dyn DiskFile>,
    place: Arc<OnceLock<Range<u64>>>,
}

impl DiskFile for BadFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset + buffer.len() as u64;
        if self.place.get().is_some_and(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::other("a bad place"));
        }
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

impl Disk for Bad {
    fn lock(&self) -> io::Result<Option<Lock>> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(name)?;
        if name != "wal/0000.wal" {
            return Ok(file);
        }
        Ok(Arc::new(BadFile { file, place: Arc::clone(&self.place) }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn free(&self) -> io::Result<u64> {
        self.disk.free()
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.size()
    }
}

#[test]
fn a_file_with_a_bad_place_leaves_the_log_although_lengths_are_not_known() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, _, queues) = step(&disk);
    (0..130).for_each(|at| queues.publish(&journal, 1, &body(1, at, 1000)));
    journal.close().unwrap();
    disk.restart();
    let place = Arc::new(OnceLock::new());
    let bad = Bad { disk: disk.clone(), place: Arc::clone(&place) };
    let (opened, queues) = open_with(Arc::new(bad), small()).unwrap();
    // As after any start.
    queues.live.lock().values_mut().for_each(|one| one.length = 0);
    let failed = Box::new(|error: &io::Error| panic!("the journal has failed: {error}"));
    let (journal, stepper) = opened.start_stepped(&mut counts(&queues).into_iter(), queues.clone(), failed);
    let hurt = queues.of(1)[30];
    assert_eq!((hurt.address.file, journal.stats().oldest_file), (1, 1));
    let start = u64::from(hurt.address.offset);
    place.set(start + 500..start + 501).unwrap();
    journal.relieve();
    rest(&stepper);
    let stats = journal.stats();
    assert_eq!((stats.oldest_file, stats.segments.adopted_files, stats.segments.failures), (2, 1, 1), "{stats:?}");
    let moved: Vec<_> = queues.of(1).into_iter().filter(|one| one.address.file == 1).collect();
    let unmeasured = moved.iter().filter(|one| one.length == 0).count();
    assert!(moved.len() > 50 && (1..8).contains(&unmeasured), "{unmeasured} of {}", moved.len());
    // A read takes whole blocks, so that others beside the bad place may fail too; those that are
    // far off do not.
    for one in moved.iter().filter(|one| u64::from(one.address.offset).abs_diff(start) > 4096) {
        assert_eq!(journal.read(one.address).unwrap(), body(1, one.seq, 1000));
    }
    assert!(journal.read(hurt.address).is_err());
}

/// A disk on which, once `wants` is set, files can't be opened at times because no handle is left,
/// twice in a row.
#[cfg(unix)]
struct Wanting {
    disk: SimDisk,
    wants: AtomicBool,
    tries: AtomicU64,
}

#[cfg(unix)]
impl Disk for Wanting {
    fn lock(&self) -> io::Result<Option<journal::Lock>> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn journal::DiskFile>> {
        const EMFILE: i32 = 24;
        if self.wants.load(Ordering::Relaxed) && self.tries.fetch_add(1, Ordering::Relaxed) % 8 < 2 {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn journal::DiskFile>> {
        self.disk.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn free(&self) -> io::Result<u64> {
        self.disk.free()
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.size()
    }
}

/// Who took the want of a file handle for damage would lose messages that are there.
#[cfg(unix)]
#[test]
fn a_want_of_file_handles_is_waited_out_and_is_no_damage() {
    let disk = SimDisk::new(1, 8 << 20);
    let disk = Arc::new(Wanting { disk, wants: AtomicBool::new(false), tries: AtomicU64::new(0) });
    let (opened, queues) = open(disk.clone()).unwrap();
    let failed = Box::new(|error: &io::Error| panic!("the journal has failed: {error}"));
    let (journal, stepper) = opened.start_stepped(&mut counts(&queues).into_iter(), queues.clone(), failed);
    disk.wants.store(true, Ordering::Relaxed);
    leave_few(&journal, &stepper, &queues);
    let stats = journal.stats();
    assert!(stats.segments.merges > 0 && stats.segments.failures == 0, "{stats:?}");
    let before = disk.tries.swap(0, Ordering::Relaxed);
    check(&journal, &queues);
    let tries = disk.tries.load(Ordering::Relaxed);
    assert!(before > 8 && tries > 2, "files were opened with and without luck: {before}, {tries}");
    let spilled = journal.spill(&[b"transient"]).unwrap();
    assert_eq!(journal.read(spilled[0]).unwrap(), &b"transient"[..]);
}

#[test]
fn an_owner_behind_one_with_very_many_references_is_asked_too() {
    // The file stays where it is, or what is alive in it is copied.
    for (length, adopted) in [(1_200_000, true), (100, false)] {
        let options = || Options { file_bytes: 2 << 20, first_file_bytes: 2 << 20, max_bytes: 16 << 20, ..small() };
        let disk = SimDisk::new(1, 128 << 20);
        let (journal, stepper, queues) = step_with(&disk, options());
        queues.publish_shared(&journal, 1, &body(1, 0, length), 66_000, 500);
        queues.publish(&journal, 2, &body(2, 0, 100));
        for at in 0..1000 {
            if journal.stats().oldest_file > 1 {
                break;
            }
            queues.publish(&journal, 3, &body(3, at, 30_000));
            if !adopted {
                queues.settle(&journal, 3, at);
            }
            stepper.flush().unwrap();
            (0..4).for_each(|_| {
                stepper.background(Activity::Busy);
            });
        }
        let stats = journal.stats();
        assert!(stats.oldest_file > 1, "{stats:?}");
        assert_eq!(stats.segments.adopted_files > 0, adopted, "{stats:?}");
        rest(&stepper);
        let left = counts(&queues).len();
        drop((journal, stepper));
        disk.power_cut();
        let (journal, _, queues) = step_with(&disk, options());
        assert_eq!((queues.all().len(), queues.of(1).len()), (left, 66_000));
        assert_eq!(journal.read(queues.of(2)[0].address).unwrap(), body(2, 0, 100));
    }
}

#[test]
fn segments_without_any_log_stop_the_start() {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    leave_few(&journal, &stepper, &queues);
    journal.close().unwrap();
    disk.restart();
    let logs: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("wal/")).collect();
    logs.iter().for_each(|name| disk.remove(name).unwrap());
    let error = open(Arc::new(disk.clone())).err().unwrap().to_string();
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
