//! Recovery of a damaged log: whatever is on the disk, opening it ends with a value, and never invents a record.
//!
//! The log is a good one to begin with; an input is a list of damages to it.

use std::sync::{Arc, OnceLock};

use journal::{Address, Durability, Journal, Opened, Options, Owner, Owners, Replay};

use crate::disk::Files;

/// Messages in the undamaged log. Each is published, and every third of them settled.
const MESSAGES: u64 = 30;
const QUEUE: Owner = 7;
/// Bytes of one damage: four of place, one of kind, one of value.
const DAMAGE: usize = 6;

/// Each six bytes of the input damage one place: the byte there is changed, zeroed, or the file is cut.
pub(super) fn recovery(input: &[u8]) {
    let mut files = good_log().clone();
    for damage in input.chunks_exact(DAMAGE) {
        apply(damage, &mut files);
    }
    let mut found = Found::default();
    let opened = Journal::open(Arc::new(Files::with(files)), options(), &mut found);
    for (seq, address) in &found.references {
        assert!(*seq < MESSAGES, "sequence number {seq} was never used");
        if let Ok(opened) = &opened {
            check_body(opened, *seq, *address);
        }
    }
    if input.len() < DAMAGE {
        assert!(opened.is_ok(), "an undamaged log opens");
        assert_eq!((found.references.len() as u64, found.settled), (MESSAGES, MESSAGES / 3));
    }
}

/// A body that can be read at all is the one that was written.
fn check_body(opened: &Opened, seq: u64, address: Address) {
    if let Ok(body) = opened.read(address) {
        assert_eq!(&body[..], body_of(seq), "the body of message {seq}");
    }
}

fn apply(damage: &[u8], files: &mut [(String, Vec<u8>)]) {
    let &[p0, p1, p2, p3, kind, value] = damage else { return };
    let place = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
    let count = files.len();
    let Some((_, content)) = files.get_mut(usize::from(kind >> 4) % count.max(1)) else { return };
    if content.is_empty() {
        return;
    }
    let place = place % content.len();
    match kind % 4 {
        0 => content[place] ^= value,
        1 => content[place..].iter_mut().take(usize::from(value) * 16).for_each(|byte| *byte = 0),
        2 => content.truncate(place),
        _ => content[place] = value,
    }
}

fn options() -> Options {
    Options {
        durability: Durability::Fsync,
        file_bytes: 64 << 10,
        first_file_bytes: 64 << 10,
        max_bytes: 1 << 20,
        max_batch_bytes: 16 << 10,
        incarnation: 0x1122_3344_5566_7788,
    }
}

fn body_of(seq: u64) -> Vec<u8> {
    vec![seq as u8; 100 + seq as usize * 50]
}

/// The files of a log with some batches, a group and settlements; made once.
fn good_log() -> &'static Vec<(String, Vec<u8>)> {
    static LOG: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    LOG.get_or_init(|| {
        let disk = Arc::new(Files::default());
        let opened = Journal::open(disk.clone(), options(), &mut Found::default()).expect("an empty disk opens");
        let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), Arc::new(Nobody), Box::new(|_| {}));
        for seq in 0..MESSAGES {
            let mut appender = journal.appender();
            let address = appender.body(&[&body_of(seq)]);
            let group = (seq % 5 == 0).then(|| appender.begin_group());
            appender.reference(group, QUEUE, seq, 0, &[address]);
            appender.release_hold(address);
            if seq % 3 == 0 {
                appender.settle(group, QUEUE, 1, &[(seq, 1)], &[address]);
            }
            appender.fact(group, QUEUE, 2, &[b"declared"]);
            if let Some(group) = group {
                appender.end_group(group);
            }
            drop(appender);
            if seq % 4 == 0 {
                stepper.flush().expect("memory takes everything");
            }
        }
        stepper.flush().expect("memory takes everything");
        disk.copy()
    })
}

/// What a replay delivered.
#[derive(Default)]
struct Found {
    references: Vec<(u64, Address)>,
    settled: u64,
}

impl Replay for Found {
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        assert_eq!((owner, kind, bytes), (QUEUE, 2, &b"declared"[..]));
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, _mark: u64, bodies: &[Address]) {
        assert_eq!(owner, QUEUE);
        self.references.extend((first_seq..).zip(bodies.iter().copied()));
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        assert_eq!((owner, reason), (QUEUE, 1));
        self.settled += runs.iter().map(|(_, count)| count).sum::<u64>();
    }

    fn dropped(&mut self, owner: Owner) {
        assert_ne!(owner, QUEUE, "the owner was never dropped");
    }

    fn burnt(&mut self, owner: Owner, _first_seq: u64, _count: u64) {
        assert_eq!(owner, QUEUE);
    }
}

/// Nobody restates anything: the log is far from full.
struct Nobody;

impl Owners for Nobody {
    fn restate(&self, _owners: &[Owner], _journal: &Journal) {}
}
