//! What recovery makes of files that were cut, damaged, swapped or left over: a torn tail is cut,
//! anything that was acknowledged and does not read back stops the start.

use std::sync::Arc;

use journal::{
    Activity, Address, Bits, Chunk, Durability, Journal, LogId, OpenError, Opened, Options, Owner, Owners, Progress,
    Reference, Replay, Restatement, Stepper,
};
use testkit::sim_disk::SimDisk;

const FILE: &str = "wal/0000.wal";
const BLOCK: usize = 4096;

/// Replays the values of facts.
#[derive(Default, Debug)]
struct Values(Vec<u64>);

impl Replay for Values {
    fn cold(&mut self, _: Owner, _: u64, _: u64, _: Chunk) {}

    fn fact(&mut self, _: Owner, _: u8, bytes: &[u8]) {
        self.0.push(u64::from_le_bytes(bytes.try_into().unwrap()));
    }

    fn reference(&mut self, _: Owner, _: u64, _: u64, _: &[Address]) {}
    fn settled(&mut self, _: Owner, _: u8, _: &[(u64, u64)]) {}
    fn dropped(&mut self, _: Owner) {}
    fn lost(&mut self, _: u32, _: &str, _: &str) {}
    fn burnt(&mut self, _: Owner, _: u64, _: u64) {}
}

struct NoOwners;

impl Owners for NoOwners {
    fn restate(&self, _: &[Owner], _: &Restatement<'_>) -> Vec<Owner> {
        Vec::new()
    }
    fn referenced(&self, _: Owner, _: u32, _: &mut Vec<Reference>) {}
    fn unsettled(&self, _: Owner, _: u64, _: &mut Bits) {}
    fn moved(&self, _: Owner, _: u64, _: &[u32], _: Chunk, _: &[Reference]) -> u64 {
        0
    }
}

fn options() -> Options {
    Options {
        durability: Durability::Fsync,
        file_bytes: 64 << 10,
        first_file_bytes: 64 << 10,
        max_bytes: 512 << 10,
        max_batch_bytes: 16 << 10,
        incarnation: 0x5eed,
        progress: Arc::default(),
    }
}

fn open(disk: &SimDisk) -> Result<(Opened, Vec<u64>), OpenError> {
    let mut values = Values::default();
    let opened = Journal::open(Arc::new(disk.clone()), options(), &mut values)?;
    Ok((opened, values.0))
}

fn start(disk: &SimDisk) -> (Journal, Stepper) {
    open(disk).unwrap().0.start_stepped(&mut std::iter::empty(), Arc::new(NoOwners), Box::new(|_| {}))
}

/// Appends each value and flushes it: a batch each.
fn append(journal: &Journal, stepper: &Stepper, values: std::ops::Range<u64>) {
    for value in values {
        journal.appender(LogId::SYSTEM).fact(None, 1, 0, &[&value.to_le_bytes()]);
        stepper.flush().unwrap();
    }
}

/// A disk with a log of four batches. The last one is not sealed.
fn written() -> SimDisk {
    let disk = SimDisk::new(1, 4 << 20);
    let (journal, stepper) = start(&disk);
    append(&journal, &stepper, 0..4);
    drop((journal, stepper));
    disk.restart();
    disk
}

/// As [`written`], with a last batch that says that all before it is flushed.
fn sealed() -> SimDisk {
    let disk = SimDisk::new(1, 4 << 20);
    let (journal, stepper) = start(&disk);
    append(&journal, &stepper, 0..4);
    journal.close().unwrap();
    disk.restart();
    disk
}

fn with_file(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1, 4 << 20);
    disk.replace("FORMAT", &sealed().bytes("FORMAT"));
    disk.replace(FILE, bytes);
    disk
}

#[test]
fn a_log_cut_at_any_byte_keeps_its_whole_batches() {
    let whole = sealed().bytes(FILE);
    // Each of the four batches has 128 bytes of header, 6 of record head, 9 and 8 of fact.
    let end_of_batch = |batch: usize| BLOCK * (1 + batch) + 128 + 6 + 9 + 8;
    for cut in BLOCK..6 * BLOCK {
        if !(cut % BLOCK < 200 || cut % 512 < 2) {
            continue;
        }
        let expected = (0..4).take_while(|batch| cut >= end_of_batch(*batch)).count() as u64;
        let mut zeroed = whole.clone();
        zeroed[cut..].fill(0);
        let mut garbled = whole.clone();
        garbled[cut..].fill(0xa5);
        let shorter = open(&with_file(&whole[..cut])).err();
        assert!(matches!(shorter, Some(OpenError::Damaged { .. })), "a file is never shorter than its header says");
        for bytes in [zeroed, garbled] {
            let disk = with_file(&bytes);
            let (_, values) = open(&disk).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            // A batch whose last bytes are zeros anyway is whole without them.
            assert!(values.len() as u64 >= expected && values.len() as u64 <= expected + 1, "cut at {cut}: {values:?}");
            assert_eq!(values, (0..values.len() as u64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_start_shows_how_far_it_has_come_in_each_pass() {
    struct Watching(Arc<Progress>, Vec<Option<usize>>);
    impl Replay for Watching {
        fn cold(&mut self, _: Owner, _: u64, _: u64, _: Chunk) {}
        fn fact(&mut self, _: Owner, _: u8, _: &[u8]) {
            self.1.push(self.0.percent());
        }
        fn reference(&mut self, _: Owner, _: u64, _: u64, _: &[Address]) {}
        fn settled(&mut self, _: Owner, _: u8, _: &[(u64, u64)]) {}
        fn dropped(&mut self, _: Owner) {}
        fn lost(&mut self, _: u32, _: &str, _: &str) {}
        fn burnt(&mut self, _: Owner, _: u64, _: u64) {}
    }
    let disk = written();
    let progress = Arc::<Progress>::default();
    assert_eq!(progress.percent(), None);
    let options = Options { progress: progress.clone(), ..options() };
    let mut watching = Watching(progress.clone(), Vec::new());
    Journal::open(Arc::new(disk), options, &mut watching).unwrap();
    // The log is one file, which is read a second time to be replayed.
    assert_eq!(watching.1, [Some(50); 4]);
    assert_eq!(progress.percent(), Some(100));
}

#[test]
fn damage_in_what_a_later_batch_proves_stops_the_start_and_changes_nothing() {
    let sealed = sealed();
    let whole = sealed.bytes(FILE);
    for byte in (BLOCK..BLOCK + 151).chain(4 * BLOCK..4 * BLOCK + 151) {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x10;
        let disk = with_file(&damaged);
        match open(&disk) {
            Err(OpenError::Damaged { file, offset, .. }) => {
                assert_eq!((file.as_str(), offset), (FILE, (byte / BLOCK * BLOCK) as u64));
            }
            other => panic!("byte {byte}: {:?}", other.map(|(_, values)| values)),
        }
        assert_eq!(disk.bytes(FILE), damaged);
    }
}

#[test]
fn damage_in_the_last_batch_is_a_torn_tail_only_while_nothing_proves_it_flushed() {
    for (disk, refused) in [(written(), false), (sealed(), true)] {
        let mut bytes = disk.bytes(FILE);
        bytes[4 * BLOCK + 130] ^= 1;
        assert_eq!(open(&with_file(&bytes)).is_err(), refused, "refused: {refused}");
    }
}

#[test]
fn a_tail_that_was_cut_never_comes_back() {
    // Batches 0 and 2 reached the disk, 1 was torn; the next life writes a new 1 that ends where 2
    // begins.
    let disk = SimDisk::new(1, 4 << 20);
    let (journal, stepper) = start(&disk);
    append(&journal, &stepper, 0..1);
    let before = disk.bytes(FILE);
    for value in 1..3 {
        journal.appender(LogId::SYSTEM).fact(None, 1, 0, &[&u64::to_le_bytes(value)]);
        // A batch of restated facts between them keeps the two apart, in one flush.
        journal.restatement().appender(LogId::SYSTEM).fact(None, 1, 0, &[&100u64.to_le_bytes()]);
    }
    stepper.flush().unwrap();
    let mut bytes = disk.bytes(FILE);
    bytes[2 * BLOCK..3 * BLOCK].copy_from_slice(&before[2 * BLOCK..3 * BLOCK]);
    let torn = with_file(&bytes);
    let (journal, stepper) = start(&torn);
    append(&journal, &stepper, 7..8);
    torn.power_cut();
    assert_eq!(open(&torn).unwrap().1, [0, 7]);
}

#[test]
fn a_group_that_an_earlier_run_left_open_is_never_ended_by_a_later_one() {
    let disk = SimDisk::new(1, 4 << 20);
    // Each run begins its first group; only the third ends it.
    for (value, ends) in [(5, false), (6, false), (7, true)] {
        let (journal, stepper) = start(&disk);
        let group = journal.appender(LogId::SYSTEM).begin_group();
        journal.appender(LogId::SYSTEM).fact(Some(group), 1, 0, &[&u64::to_le_bytes(value)]);
        if ends {
            journal.appender(LogId::SYSTEM).end_group(group);
        }
        stepper.flush().unwrap();
        disk.power_cut();
    }
    assert_eq!(open(&disk).unwrap().1, [7]);
}

#[test]
fn files_of_another_journal_or_format_are_refused() {
    let ours = sealed();
    let other = SimDisk::new(1, 4 << 20);
    let opened =
        Journal::open(Arc::new(other.clone()), Options { incarnation: 9, ..options() }, &mut Values::default());
    drop(opened.unwrap());
    other.restart();
    ours.replace("wal/0001.wal", &other.bytes(FILE));
    assert_eq!(
        open(&ours).err().unwrap().to_string(),
        "wal/0001.wal is damaged at byte 0: the file belongs to another journal; nothing was changed, restore the data \
         directory from a copy"
    );
    let text = String::from_utf8(sealed().bytes("FORMAT")).unwrap();
    let future = text.lines().take(3).map(|line| line.replace("format 2", "format 3") + "\n").collect::<String>();
    let sum = crc_fast::crc32_iscsi(future.as_bytes());
    ours.replace("FORMAT", format!("{future}checksum {sum:08x}\n").as_bytes());
    assert_eq!(
        open(&ours).err().unwrap().to_string(),
        "FORMAT has journal format 3, this version reads 1 to 2; open it with the version that wrote it"
    );
}

#[test]
fn a_missing_or_headless_file_of_the_log_is_noticed() {
    let disk = SimDisk::new(1, 4 << 20);
    let (journal, stepper) = start(&disk);
    append(&journal, &stepper, 0..40);
    journal.close().unwrap();
    disk.restart();
    let files: Vec<_> = disk.names().into_iter().filter(|name| name.starts_with("wal/")).collect();
    assert_eq!(files.len(), 3);
    for name in &files {
        let bytes = disk.bytes(name);
        let mut headless = bytes.clone();
        headless[..BLOCK].fill(0);
        disk.replace(name, &headless);
        assert!(matches!(open(&disk), Err(OpenError::Damaged { .. })), "{name} without its header");
        disk.replace(name, &bytes);
    }
    assert_eq!(open(&disk).unwrap().1, (0..40).collect::<Vec<_>>());
}

#[test]
fn what_a_recycled_file_held_before_never_validates() {
    let disk = SimDisk::new(1, 4 << 20);
    let (journal, stepper) = start(&disk);
    let filler = [0; 12 << 10];
    for seq in 0..60 {
        let mut appender = journal.appender(LogId::SYSTEM);
        let address = appender.body(&[&filler]);
        appender.reference(None, 1, seq, 0, &[address]);
        appender.settle(None, 1, 0, &[(seq, 1)], &[address]);
        appender.release_hold(address);
        drop(appender);
        stepper.flush().unwrap();
        (0..8).for_each(|_| {
            stepper.background(Activity::Idle);
        });
    }
    let oldest = journal.stats().oldest_file;
    assert!(oldest > 4);
    append(&journal, &stepper, 0..1);
    disk.power_cut();
    assert_eq!(open(&disk).unwrap().1, [0]);
}
