//! Reading a data directory from end to end: what is whole, and that no kind of damage goes unseen.

use std::sync::Arc;

use journal::{Activity, Cut, Damage, Disk, Journal, OpenError, Verification, VerifiedSegment, accept_damage, verify};
use testkit::sim_disk::{Random, SimDisk};

use crate::queues::{Found, body, check, open, rest, small, step};

const BLOCK: u64 = 4096;

/// A directory with a log of several files, adopted segments and copied ones, closed in good order.
fn directory() -> SimDisk {
    let disk = SimDisk::new(1, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    for at in 0..400 {
        queues.publish(&journal, 1, &body(1, at, 1000));
        // For a while hardly anything stays.
        if (100..300).contains(&at) && at % 10 != 0 {
            queues.settle(&journal, 1, at);
        }
        if at % 8 == 0 {
            stepper.flush().unwrap();
            stepper.background(Activity::Busy);
        }
    }
    rest(&stepper);
    (0..70).for_each(|at| queues.publish(&journal, 2, &body(2, at, 300)));
    stepper.flush().unwrap();
    // So that the file after the head is ready.
    stepper.background(Activity::Busy);
    journal.close().unwrap();
    disk.restart();
    disk
}

fn copy(disk: &SimDisk) -> SimDisk {
    let copied = SimDisk::new(1, 8 << 20);
    disk.names().iter().for_each(|name| copied.replace(name, &disk.bytes(name)));
    copied
}

fn read(disk: &SimDisk) -> Verification {
    verify(Arc::new(disk.clone()), &mut Found::default()).unwrap()
}

fn adopted_segment(disk: &SimDisk) -> VerifiedSegment {
    read(disk).segments.into_iter().find(|segment| segment.adopted).unwrap()
}

fn copied_segment(disk: &SimDisk) -> VerifiedSegment {
    read(disk).segments.into_iter().find(|segment| !segment.adopted).unwrap()
}

fn bytes_of(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

#[test]
fn a_whole_directory_is_counted_and_left_as_it_is() {
    let disk = directory();
    let before = bytes_of(&disk);
    let found = read(&disk);
    assert!(found.is_whole(), "{:?}", found.damages);
    assert_eq!(found.torn_tail, None);
    assert!(found.log.len() >= 2 && found.log.iter().all(|file| file.batches > 0), "{:?}", found.log);
    assert!(found.log.array_windows().all(|[one, next]| one.generation + 1 == next.generation));
    assert!(found.segments.iter().any(|segment| segment.adopted), "{:?}", found.segments);
    assert!(found.segments.iter().any(|segment| !segment.adopted), "{:?}", found.segments);
    let last = found.last_sequence;
    drop(found);
    assert_eq!(bytes_of(&disk), before);
    let (opened, queues) = open(Arc::new(disk.clone())).unwrap();
    let in_segments =
        queues.all().iter().filter(|(_, one)| one.address.file < 4 || one.address.file >> 31 == 1).count();
    let segments = read_segments(&copy(&disk));
    assert!(segments.iter().map(|segment| segment.live).sum::<u64>() >= in_segments as u64 && in_segments > 50);
    drop(opened);
    assert!(last > 40);
}

fn read_segments(disk: &SimDisk) -> Vec<VerifiedSegment> {
    read(disk).segments
}

#[test]
fn live_references_are_those_that_the_log_does_not_take_back() {
    let disk = directory();
    let before: u64 = read_segments(&disk).iter().map(|segment| segment.live).sum();
    let (journal, _stepper, queues) = step(&disk);
    let in_segment = adopted_segment(&copy(&disk));
    let of_it: Vec<_> = queues.of(1).into_iter().filter(|one| one.address.file == in_segment.number).take(5).collect();
    of_it.iter().for_each(|one| queues.settle(&journal, 1, one.seq));
    journal.close().unwrap();
    disk.restart();
    let after = adopted_segment(&disk);
    assert_eq!((after.listed, after.live), (in_segment.listed, in_segment.live - 5));
    assert_eq!(read_segments(&disk).iter().map(|segment| segment.live).sum::<u64>(), before - 5);
}

#[test]
fn what_is_no_journal_is_no_damage() {
    let empty = SimDisk::new(1, 1 << 20);
    assert!(matches!(verify(Arc::new(empty.clone()), &mut Found::default()), Err(OpenError::NoJournal)));
    empty.replace("letter.txt", b"dear");
    assert!(matches!(verify(Arc::new(empty), &mut Found::default()), Err(OpenError::Foreign(_))));
    let disk = directory();
    let _running = step(&disk);
    assert!(matches!(verify(Arc::new(disk.clone()), &mut Found::default()), Err(OpenError::Locked)));
}

#[test]
fn what_was_being_written_is_told_and_no_damage() {
    let disk = directory();
    let (journal, stepper, queues) = step(&disk);
    queues.publish(&journal, 1, &body(1, 400, 1000));
    stepper.flush().unwrap();
    drop((journal, stepper));
    disk.restart();
    let last = read(&disk).log.pop().unwrap();
    disk.flip_bit(&last.name, 8 * (BLOCK + last.bytes - BLOCK + 200));
    let found = read(&disk);
    assert!(found.is_whole(), "{:?}", found.damages);
    let sequence = found.last_sequence + 1;
    let cut = Cut { file: last.name, offset: last.bytes, sequence, batches: 1 };
    assert_eq!(found.torn_tail, Some(cut.clone()));
    drop(found);
    let opened = Journal::open(Arc::new(disk.clone()), small(), &mut Found::default()).unwrap();
    assert_eq!(opened.cut(), Some(&cut));
}

#[test]
fn a_flipped_bit_of_a_batch_that_nothing_proves_is_told() {
    // Whether the disk has lost what it flushed, or never had it, can't be told. A start says that
    // it has cut something.
    let disk = directory();
    let (journal, stepper, queues) = step(&disk);
    queues.publish(&journal, 1, &body(1, 400, 1000));
    stepper.flush().unwrap();
    drop((journal, stepper));
    disk.restart();
    let last = read(&disk).log.pop().unwrap();
    let begin = last.bytes;
    // Each bit of the header but those that are always zero, and some of the records.
    for byte in (0..96).chain(124..128).chain([128, 200]) {
        disk.flip_bit(&last.name, 8 * (begin + byte) + byte % 8);
        let found = read(&disk);
        assert!(found.is_whole(), "byte {byte}: {:?}", found.damages);
        let cut = found.torn_tail.unwrap_or_else(|| panic!("byte {byte}: nothing is said"));
        assert_eq!((cut.file.as_str(), cut.offset, cut.sequence), (last.name.as_str(), begin, found.last_sequence + 1));
        disk.flip_bit(&last.name, 8 * (begin + byte) + byte % 8);
    }
    assert_eq!(read(&disk).torn_tail, None);
}

/// What is done to the directory, and what is said of it: the file, and a part of the words.
type Case = (&'static str, fn(&SimDisk) -> String, &'static str);

fn flip(disk: &SimDisk, name: String, byte: u64) -> String {
    disk.flip_bit(&name, 8 * byte);
    name
}

fn index_of(segment: &VerifiedSegment) -> String {
    format!("cold/{:08x}.idx", segment.number)
}

fn cut(disk: &SimDisk, name: String, length: usize) -> String {
    disk.replace(&name, &disk.bytes(&name)[..length]);
    name
}

fn zero(disk: &SimDisk, name: String, length: usize) -> String {
    let mut bytes = disk.bytes(&name);
    bytes[..length].fill(0);
    disk.replace(&name, &bytes);
    name
}

fn remove(disk: &SimDisk, name: &str) {
    disk.remove(name).unwrap();
    disk.sync_directory().unwrap();
}

fn log_file(disk: &SimDisk, at: usize) -> String {
    read(disk).log[at].name.clone()
}

fn head(disk: &SimDisk) -> String {
    read(disk).log.pop().unwrap().name
}

/// The name of the file that was readied after the head.
fn readied(disk: &SimDisk) -> String {
    let next = read(disk).log.pop().unwrap().generation + 1;
    let says = |name: &String| name.ends_with(".wal") && disk.bytes(name)[16..20] == next.to_le_bytes();
    disk.names().into_iter().find(says).unwrap()
}

const CASES: [Case; 21] = [
    (
        "a batch",
        |disk| {
            flip(disk, log_file(disk, 0), BLOCK + 200);
            "wal/".into()
        },
        "does not read back",
    ),
    ("a batch's header", |disk| flip(disk, log_file(disk, 1), BLOCK + 30), "does not read back"),
    (
        "a log file's header",
        |disk| {
            zero(disk, log_file(disk, 1), 4096);
            "wal".into()
        },
        "is missing",
    ),
    (
        "the oldest file's header",
        |disk| {
            zero(disk, log_file(disk, 0), 4096);
            "wal".into()
        },
        "is missing",
    ),
    ("a log file cut", |disk| cut(disk, log_file(disk, 1), 10_000), "the file ends here"),
    (
        "the newest file gone",
        |disk| {
            remove(disk, &head(disk));
            readied_after(disk)
        },
        "missing",
    ),
    (
        "another copied over the newest",
        |disk| {
            let (head, next) = (head(disk), readied(disk));
            disk.replace(&head, &disk.bytes(&next));
            "wal/".into()
        },
        "missing",
    ),
    (
        "an older one copied over the newest",
        |disk| {
            let (older, head) = (log_file(disk, 0), head(disk));
            disk.replace(&head, &disk.bytes(&older));
            "wal/".into()
        },
        "same part of the log",
    ),
    ("an index's header", |disk| flip(disk, index_of(&adopted_segment(disk)), 40), "header of the index"),
    ("an index's header zeroed", |disk| zero(disk, index_of(&adopted_segment(disk)), 512), "header is gone"),
    ("a copied one's too", |disk| zero(disk, index_of(&copied_segment(disk)), 512), "header is gone"),
    ("an index cut to nothing", |disk| cut(disk, index_of(&adopted_segment(disk)), 0), "header is gone"),
    ("an index cut", |disk| cut(disk, index_of(&copied_segment(disk)), 600), "directory"),
    (
        "a directory",
        |disk| {
            let name = index_of(&copied_segment(disk));
            let last = disk.bytes(&name).len() as u64 - 8;
            flip(disk, name, last)
        },
        "directory does not check",
    ),
    ("a block", |disk| flip(disk, index_of(&adopted_segment(disk)), 530), "list of entries"),
    (
        "a copied segment gone",
        |disk| {
            let name = copied_segment(disk).name;
            remove(disk, &name);
            name
        },
        "missing",
    ),
    ("its header", |disk| flip(disk, copied_segment(disk).name, 20), "header is damaged"),
    ("it cut", |disk| cut(disk, copied_segment(disk).name, 5000), "missing or its header"),
    ("a body in it", |disk| flip(disk, copied_segment(disk).name, BLOCK + 300), "bodies do not read back"),
    ("an adopted segment's header", |disk| flip(disk, adopted_segment(disk).name, 20), "header is damaged"),
    (
        "an adopted segment gone",
        |disk| {
            let name = adopted_segment(disk).name;
            remove(disk, &name);
            name
        },
        "missing",
    ),
];

/// The file that was readied after a head which is gone.
fn readied_after(disk: &SimDisk) -> String {
    let generation = |name: &String| u32::from_le_bytes(disk.bytes(name)[16..20].try_into().unwrap());
    disk.names().into_iter().filter(|name| name.ends_with(".wal")).max_by_key(generation).unwrap()
}

/// With its log damaged a journal does not start; with a segment damaged it does, says so, gives
/// what is whole, and keeps the files.
fn starts_or_refuses(what: &str, disk: &SimDisk, said: &str) {
    let before = bytes_of(disk);
    let mut replayed = Found::default();
    let opened = match Journal::open(Arc::new(disk.clone()), small(), &mut replayed) {
        Err(error) => {
            assert!(what.contains("file") || what.contains("batch") || what.contains("newest"), "{what}: {error}");
            assert_eq!(bytes_of(disk), before, "{what}: a refused start changes nothing");
            return;
        }
        Ok(opened) => opened,
    };
    let told = replayed.lost.len();
    assert_eq!(told, usize::from(!said.contains("bodies") && !said.contains("list of")), "{what}");
    let kept: Vec<_> = before.iter().filter(|(name, _)| name.starts_with("cold/")).collect();
    assert!(kept.iter().all(|(name, bytes)| disk.bytes(name) == *bytes), "{what}: every file is kept");
    let mut whole = 0;
    for (owner, page, chunk) in &replayed.chunks {
        let mut listed = Vec::new();
        let read = opened.read_chunk(*chunk, *page, &mut listed);
        assert!(read.is_ok() || told == 1 || said.contains("list of"), "{what}");
        for one in listed {
            if let Ok(bytes) = opened.read(one.address) {
                assert_eq!(bytes, body(*owner, one.seq, one.length as usize), "{what}");
                whole += 1;
            }
        }
    }
    assert!(whole > 10, "{what}: {whole} bodies of the other segments are read");
}

#[test]
fn every_kind_of_damage_is_found_where_it_is() {
    let whole = directory();
    for (what, damage, said) in CASES {
        let disk = copy(&whole);
        let name = damage(&disk);
        let found = read(&disk);
        let told = |one: &Damage| one.file.starts_with(&name) && one.what.contains(said);
        assert!(found.damages.iter().any(told), "{what}: {name} {:?}", found.damages);
        assert!(found.damages.len() < 6, "{what}: {:?}", found.damages);
        drop(found);
        starts_or_refuses(what, &disk, said);
    }
}

#[test]
fn a_damaged_log_is_ended_where_it_is_sound_only_when_its_file_is_named() {
    let disk = directory();
    let (journal, stepper, queues) = step(&disk);
    for at in 0..60 {
        queues.publish(&journal, 3, &body(3, at, 1000));
        stepper.flush().unwrap();
    }
    journal.close().unwrap();
    disk.restart();
    let whole = read(&disk).log;
    // No file has left the log since.
    let (at, byte) = (whole.len() - 3, 5 * BLOCK);
    assert_eq!(accept_damage(&disk, &whole[at].name).unwrap(), None, "a log that is whole is left alone");
    disk.flip_bit(&whole[at].name, 8 * (byte + 30));
    let before = bytes_of(&disk);
    for name in ["wal", whole[0].name.as_str(), "cold/00000001.idx"] {
        assert!(matches!(accept_damage(&disk, name), Err(OpenError::Damaged { .. })), "{name}");
    }
    assert_eq!(before.len(), bytes_of(&disk).len());
    assert!(before == bytes_of(&disk), "nothing is changed as long as another file is named");
    let left_out = accept_damage(&disk, &whole[at].name).unwrap().unwrap();
    assert_eq!(left_out.end.0, whole[at].name);
    assert!(left_out.batches > 5 && left_out.last_left_out > left_out.last_sequence, "{left_out:?}");
    let kept = read(&disk);
    assert!(kept.is_whole(), "{:?}", kept.damages);
    assert_eq!((kept.last_sequence, kept.log.len()), (left_out.last_sequence, at + 1));
    drop(kept);
    // It goes on from there, and stays whole.
    let (journal, stepper, queues) = step(&disk);
    (0..100).for_each(|at| queues.publish(&journal, 9, &body(9, at, 1000)));
    rest(&stepper);
    check(&journal, &queues);
    journal.close().unwrap();
    disk.restart();
    assert!(read(&disk).is_whole());
    assert_eq!(open(Arc::new(disk.clone())).unwrap().1.of(9).len(), 100);
}

#[test]
fn a_log_that_needs_what_was_used_again_is_not_ended() {
    let disk = directory();
    let name = log_file(&disk, 0);
    disk.flip_bit(&name, 8 * (5 * BLOCK + 30));
    let before = bytes_of(&disk);
    let error = accept_damage(&disk, &name).unwrap_err().to_string();
    assert!(error.contains("can't be ended before that"), "{error}");
    assert!(before == bytes_of(&disk), "nothing is changed");
}

#[test]
fn a_missing_newest_file_can_be_accepted_and_a_missing_oldest_one_can_not() {
    let whole = directory();
    let disk = copy(&whole);
    remove(&disk, &head(&disk));
    let named = readied_after(&disk);
    let left_out = accept_damage(&disk, &named).unwrap().unwrap();
    assert_eq!(left_out.batches, 0, "{left_out:?}");
    assert!(read(&disk).is_whole());
    let disk = copy(&whole);
    remove(&disk, &log_file(&disk, 0));
    assert!(matches!(accept_damage(&disk, "wal"), Err(OpenError::Damaged { .. })));
}

#[test]
fn reading_goes_on_behind_a_damage() {
    let disk = directory();
    let whole = read(&disk).log;
    let places = [(0, 3 * BLOCK), (1, 5 * BLOCK)];
    for (at, byte) in places {
        disk.flip_bit(&whole[at].name, 8 * (byte + 30));
    }
    let found = read(&disk);
    let batches = |files: &[journal::VerifiedFile]| files.iter().map(|file| file.batches).sum::<u64>();
    assert_eq!(batches(&found.log), batches(&whole) - 2);
    assert_eq!(found.damages.len(), places.len(), "{:?}", found.damages);
    for (told, (at, byte)) in found.damages.iter().zip(places) {
        assert_eq!(told.file, whole[at].name);
        assert!(told.offset <= byte && byte < told.offset + 4 * BLOCK, "{told:?}");
    }
}

#[test]
fn a_flipped_byte_is_detected_or_does_no_harm() {
    let disk = directory();
    let names = disk.names();
    let expected: Vec<_> = open(Arc::new(copy(&disk))).unwrap().1.all();
    let mut random = Random::new(0xf11b);
    let (mut detected, mut harmless) = (0, 0);
    for at in 0..1200 {
        let name = &names[random.below(names.len() as u64) as usize];
        // One in three in what is small.
        let name = if at % 3 == 0 { names.iter().find(|name| name.ends_with("idx")).unwrap() } else { name };
        let bit = random.below(8 * disk.bytes(name).len() as u64);
        disk.flip_bit(name, bit);
        let found = verify(Arc::new(disk.clone()), &mut Found::default());
        if found.is_ok_and(|found| found.is_whole()) {
            harmless += 1;
            let (opened, queues) = open(Arc::new(copy(&disk))).unwrap();
            assert_eq!(queues.all(), expected, "bit {bit} of {name}");
            for (owner, one) in queues.all() {
                let right = body(owner, one.seq, one.length as usize);
                assert_eq!(opened.read(one.address).unwrap(), right, "bit {bit} of {name}");
            }
        } else {
            detected += 1;
        }
        disk.flip_bit(name, bit);
    }
    assert!(detected > 300 && harmless > 100, "{detected} detected, {harmless} harmless");
}
