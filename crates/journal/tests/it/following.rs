//! A journal that follows another: what it refuses, and what it is sent. The simulation has the
//! rest.

use std::sync::Arc;

use bytes::Bytes;
use journal::{
    Activity, Address, Chunk, Counted, Entry, Fed, Feed, FeedError, FollowedState, Follower, Journal, Keeping, LogEnd,
    LogId, Options, Owner, Refused, Replay, Stepper,
};
use testkit::sim_disk::SimDisk;

use crate::queues::small;

/// What a follower was told, in words.
#[derive(Default)]
struct Told(Vec<String>);

impl Replay for Told {
    fn cold(&mut self, owner: Owner, page: u64, _: u64, _: Chunk) {
        self.0.push(format!("chunk {owner} {page}"));
    }
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.0.push(format!("fact {owner} {kind} {bytes:?}"));
    }
    fn reference(&mut self, owner: Owner, first_seq: u64, _: u64, bodies: &[Address]) {
        self.0.push(format!("reference {owner} {first_seq} {}", bodies.len()));
    }
    fn settled(&mut self, owner: Owner, _: u8, runs: &[(u64, u64)]) {
        self.0.push(format!("settled {owner} {runs:?}"));
    }
    fn dropped(&mut self, owner: Owner) {
        self.0.push(format!("dropped {owner}"));
    }
    fn lost(&mut self, _: u32, file: &str, what: &str) {
        panic!("{file} {what}");
    }
    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.0.push(format!("burnt {owner} {first_seq} {count}"));
    }
}

impl FollowedState for Told {
    fn counted(&mut self, _: &mut Counted) {}
}

fn leader(disk: &SimDisk) -> (Journal, Stepper) {
    leader_with(disk, small())
}

fn leader_with(disk: &SimDisk, options: Options) -> (Journal, Stepper) {
    let opened = Journal::open(Arc::new(disk.clone()), options, &mut Told::default()).unwrap();
    opened.start_stepped(&mut std::iter::empty(), Arc::new(()), Box::new(|_| {}))
}

fn follower(disk: &SimDisk, options: Options) -> (Follower, Stepper) {
    let opened = Journal::open(Arc::new(disk.clone()), options, &mut Told::default()).unwrap();
    opened.follow_stepped(&mut std::iter::empty(), Arc::new(()), Box::new(|_| {})).unwrap()
}

fn disk() -> SimDisk {
    SimDisk::new(1, 8 << 20)
}

fn say(journal: &Journal, owner: Owner, value: &[u8]) {
    journal.appender(LogId::of(owner)).fact(None, owner, 0, &[value]);
}

fn entry(feed: &mut Feed) -> Entry {
    loop {
        match feed.pull().unwrap() {
            Fed::Entry(entry) => return entry,
            Fed::Horizon(_) => {}
            Fed::Nothing => panic!("there is an entry"),
        }
    }
}

/// The same records, said to be another entry.
fn as_if(entry: &Entry, end: LogEnd) -> Entry {
    Entry::new(end, entry.file(), Bytes::copy_from_slice(entry.records())).unwrap()
}

#[test]
fn an_entry_that_does_not_follow_is_refused_by_name_and_changes_nothing() {
    let (disk, other) = (disk(), disk());
    let (journal, steps) = leader(&disk);
    let log = LogId::new(3).unwrap();
    let mut feed = journal.feed([]);
    let entries: Vec<Entry> = [b"one", b"two", b"six"]
        .map(|value| {
            say(&journal, log.owner(1), value);
            steps.flush().unwrap();
            entry(&mut feed)
        })
        .into();
    let (follower, _) = follower(&other, small());
    let mut told = Told::default();
    follower.append(&entries[0], &mut told).unwrap();
    let end = entries[1].end();
    let table = [
        (entries[0].clone(), Refused::Known { log, next: 2, index: 1 }),
        (entries[2].clone(), Refused::Gap { log, next: 2, index: 3 }),
        (as_if(&entries[1], LogEnd { term: 0, ..end }), Refused::OldTerm { log, term: end.term, of_entry: 0 }),
        (as_if(&entries[1], LogEnd { link: end.link ^ 1, ..end }), Refused::Forked { log, index: 2 }),
        (as_if(&entries[2], end), Refused::Forked { log, index: 2 }),
    ];
    for (entry, expected) in table {
        assert_eq!(follower.append(&entry, &mut told), Err(expected), "{expected}");
        assert_eq!((follower.ends(), told.0.len()), (vec![entries[0].end()], 1));
    }
    let ticket = follower.append(&entries[1], &mut told).unwrap();
    follower.append(&entries[2], &mut told).unwrap();
    assert!(!follower.is_durable(ticket));
    let said = [b"one", b"two", b"six"].map(|value| format!("fact {} 0 {value:?}", log.owner(1)));
    assert_eq!(told.0, said);
}

#[test]
fn an_entry_whose_body_is_gone_or_that_fits_in_no_file_is_refused() {
    let (disk, other) = (disk(), disk());
    let large = Options { file_bytes: 256 << 10, first_file_bytes: 256 << 10, max_bytes: 2 << 20, ..small() };
    let (journal, steps) = leader_with(&disk, large.clone());
    let owner = LogId::SYSTEM.owner(1);
    let body = journal.appender(LogId::SYSTEM).body(&[&[7; 70_000]]);
    steps.flush().unwrap();
    let mut appender = journal.appender(LogId::SYSTEM);
    appender.reference(None, owner, 1, 0, &[body]);
    appender.release_hold(body);
    drop(appender);
    steps.flush().unwrap();
    let mut feed = journal.feed([]);
    let (first, second) = (entry(&mut feed), entry(&mut feed));
    // The second is sent as if it were the first: what it names lies before the log.
    let mut told = Told::default();
    let (own, _) = follower(&other, large);
    let link = own_link(&second);
    let alone = as_if(&second, LogEnd { index: 1, link, ..second.end() });
    assert_eq!(own.append(&alone, &mut told), Err(Refused::NoBody { log: LogId::SYSTEM, index: 1 }));
    own.append(&first, &mut told).unwrap();
    own.append(&second, &mut told).unwrap();
    assert_eq!(told.0, [format!("reference {owner} 1 1")]);
    let (with_small_files, _) = follower(&SimDisk::new(3, 8 << 20), small());
    let refused = with_small_files.append(&first, &mut told).unwrap_err();
    assert!(matches!(refused, Refused::TooLong { bytes, most } if bytes > most), "{refused}");
}

/// The link of an entry that would be the first of its log.
fn own_link(entry: &Entry) -> u32 {
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    sum.update(&0u32.to_le_bytes());
    sum.update(entry.records());
    sum.finalize() as u32
}

#[test]
fn records_that_are_cut_anywhere_or_of_another_log_make_no_entry() {
    let disk = disk();
    let (journal, steps) = leader(&disk);
    let owner = LogId::SYSTEM.owner(1);
    let mut appender = journal.appender(LogId::SYSTEM);
    let body = appender.body(&[b"body"]);
    let group = appender.begin_group();
    appender.reference(Some(group), owner, 1, 0, &[body]);
    appender.settle(Some(group), owner, 3, &[(1, 1)], &[body]);
    appender.fact(Some(group), owner, 4, &[b"fact"]);
    appender.drop_owner(None, LogId::SYSTEM.owner(2), &mut std::iter::empty());
    appender.end_group(group);
    appender.release_hold(body);
    drop(appender);
    steps.flush().unwrap();
    let whole = entry(&mut journal.feed([]));
    let mut whole_records = 0;
    for cut in 0..=whole.records().len() {
        let records = Bytes::copy_from_slice(&whole.records()[..cut]);
        // Cut between two records it is an entry of fewer of them, which its link does not fit.
        whole_records += u32::from(Entry::new(whole.end(), 1, records).is_ok());
    }
    assert_eq!(whole_records, 6);
    let of_another = LogEnd { log: LogId::new(1).unwrap(), ..whole.end() };
    let records = Bytes::copy_from_slice(whole.records());
    assert_eq!(Entry::new(of_another, 1, records), Err("an entry has a record about an owner of another log"));
    // A group is told of when its end has come.
    let (own, _) = follower(&SimDisk::new(3, 8 << 20), small());
    let mut told = Told::default();
    own.append(&whole, &mut told).unwrap();
    let dropped = LogId::SYSTEM.owner(2);
    let expected = [
        format!("burnt {owner} 1 1"),
        format!("dropped {dropped}"),
        format!("reference {owner} 1 1"),
        format!("settled {owner} [(1, 1)]"),
        format!("fact {owner} 4 {:?}", b"fact"),
    ];
    assert_eq!(told.0, expected);
}

#[test]
fn only_what_is_flushed_and_still_in_the_log_is_sent() {
    let disk = disk();
    let (journal, steps) = leader(&disk);
    let owner = LogId::SYSTEM.owner(1);
    let mut feed = journal.feed([]);
    assert_eq!(feed.pull().unwrap(), Fed::Horizon(1));
    say(&journal, owner, b"one");
    assert_eq!(feed.pull().unwrap(), Fed::Nothing);
    steps.flush().unwrap();
    assert_eq!(entry(&mut feed).end().index, 1);
    assert_eq!(feed.pull().unwrap(), Fed::Nothing);
    let known = |index| [(LogId::SYSTEM, index)];
    let ahead = journal.feed(known(5)).pull();
    assert!(matches!(ahead, Err(FeedError::Ahead { known: 5, last: 1, .. })), "{ahead:?}");
    while journal.stats().oldest_file < 3 {
        say(&journal, owner, &[0; 4000]);
        steps.flush().unwrap();
        journal.relieve();
        while steps.background(Activity::Busy) {}
    }
    let gone = journal.feed(known(1)).pull();
    assert!(matches!(gone, Err(FeedError::Gone { wanted: 2, oldest, .. }) if oldest > 2), "{gone:?}");
    // One that was being sent notices it too.
    let late = loop {
        match feed.pull() {
            Ok(Fed::Entry(_) | Fed::Horizon(_)) => {}
            Ok(Fed::Nothing) => say(&journal, owner, b"more"),
            Err(error) => break error,
        }
    };
    assert!(matches!(late, FeedError::Gone { .. }), "{late}");
}

/// What is read back from the disk would come from there, since it is written past the page cache.
#[test]
fn what_was_written_last_is_sent_from_memory_and_what_is_older_from_the_disk() {
    let disk = disk();
    let (journal, steps) = leader(&disk);
    let owner = LogId::SYSTEM.owner(1);
    let mut feed = journal.feed([]);
    say(&journal, owner, b"one");
    steps.flush().unwrap();
    assert_eq!(entry(&mut feed).end().index, 1);
    for value in [&b"two"[..], b"three"] {
        say(&journal, owner, value);
        steps.flush().unwrap();
    }
    let (name, bit) = bit_of(&disk, b"three");
    disk.flip_bit(&name, bit);
    assert_eq!(entry(&mut feed).end().index, 2);
    assert_eq!(entry(&mut feed).end().index, 3, "the disk was not asked");
    assert_eq!(feed.pull().unwrap(), Fed::Nothing);
    // Another one begins before what is held: it reads what is on the disk.
    drop(feed);
    let mut late = journal.feed([]);
    assert_eq!((entry(&mut late).end().index, entry(&mut late).end().index), (1, 2));
    let torn = late.pull();
    assert!(matches!(&torn, Err(FeedError::Io(_))), "{torn:?}");
}

/// The file in which a value was written, and the number of its first bit there.
fn bit_of(disk: &SimDisk, value: &[u8]) -> (String, u64) {
    let place = |name: &String| disk.bytes(name).windows(value.len()).position(|part| part == value);
    let found = disk.names().into_iter().find_map(|name| place(&name).map(|at| (name, 8 * at as u64)));
    found.expect("it is written")
}

#[test]
fn a_batch_that_does_not_read_back_is_told_to_every_feed_that_comes_to_it() {
    let disk = disk();
    let (journal, steps) = leader(&disk);
    for value in [&b"one"[..], b"two", b"three", b"four"] {
        say(&journal, LogId::SYSTEM.owner(1), value);
        steps.flush().unwrap();
    }
    let (name, bit) = bit_of(&disk, b"three");
    disk.flip_bit(&name, bit);
    // Also one that begins with it, as after a link that has ended: it may not wait for it.
    for known in 0..4 {
        let mut feed = journal.feed([(LogId::SYSTEM, known)]);
        (known + 1..3).for_each(|index| assert_eq!(entry(&mut feed).end().index, index));
        loop {
            match feed.pull() {
                Ok(Fed::Horizon(_)) => {}
                Ok(Fed::Entry(entry)) if known == 3 => break assert_eq!(entry.end().index, 4),
                Err(FeedError::Io(error)) if known < 3 => {
                    break assert!(error.to_string().contains("does not read back"), "{error}");
                }
                other => panic!("from {known}: {other:?}"),
            }
        }
    }
}

/// Appends so many entries of two blocks each, and lets all leave that can.
fn turn(journal: &Journal, steps: &Stepper, entries: usize) {
    for _ in 0..entries {
        say(journal, LogId::SYSTEM.owner(1), &[0; 4000]);
        steps.flush().unwrap();
        journal.relieve();
        while steps.background(Activity::Busy) {}
    }
}

#[test]
fn what_a_follower_needs_stays_in_the_log_up_to_a_bound() {
    let file = 64 << 10;
    for (keeping, entries, is_kept) in [
        (Keeping::UpTo(4 * file), 30, true),
        (Keeping::UpTo(4 * file), 60, false),
        (Keeping::WhileThereIsRoom(8 * file), 10, true),
        (Keeping::WhileThereIsRoom(8 * file), 60, false),
        // What must always be taken comes first.
        (Keeping::All, 35, true),
        (Keeping::All, 200, false),
    ] {
        let disk = disk();
        let (journal, steps) = leader(&disk);
        say(&journal, LogId::SYSTEM.owner(1), b"one");
        steps.flush().unwrap();
        let (mut feed, mut kept) = (journal.feed([]), journal.keep(keeping));
        assert_eq!(entry(&mut feed).end().index, 1);
        kept.needs(feed.needs().unwrap());
        turn(&journal, &steps, entries);
        assert_eq!(kept.bytes().is_some(), is_kept, "{keeping:?} {entries}");
        if !is_kept {
            let gone = journal.feed([(LogId::SYSTEM, 1)]).pull();
            assert!(matches!(gone, Err(FeedError::Gone { .. })), "{keeping:?} {entries}: {gone:?}");
            continue;
        }
        assert!(kept.bytes().unwrap() >= 8192 * entries as u64);
        for index in 2..=1 + entries as u64 {
            assert_eq!(entry(&mut feed).end().index, index);
        }
        // What was sent goes.
        kept.needs(feed.needs().unwrap());
        let oldest = journal.stats().oldest_file;
        turn(&journal, &steps, 1);
        assert!(journal.stats().oldest_file > oldest || entries < 20, "{keeping:?} {entries}");
    }
}
