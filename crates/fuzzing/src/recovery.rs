//! Recovery of a damaged journal. Whatever is on the disk, opening it returns a value, and never
//! invents a record. Some files of the log have become segments, by adoption and by copying.
//!
//! The log is undamaged at first; an input is a list of damages to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use journal::{
    Activity, Address, Bits, Chunk, Durability, Journal, LogId, Opened, Options, Owner, Owners, PAGE, Reference,
    Replay, Restatement,
};

use crate::disk::Files;

/// Messages in the undamaged log.
const MESSAGES: u64 = 90;
/// From here on only every sixteenth message is unsettled.
const EARLY: u64 = 30;
const QUEUE: Owner = 7;
/// Bytes of one damage: four of position, one of kind, one of value.
const DAMAGE: usize = 6;

/// Each six bytes of the input damage one place: its byte is changed or zeroed, or the file is cut.
pub(super) fn recovery(input: &[u8]) {
    let mut files = good_log().clone();
    for damage in input.chunks_exact(DAMAGE) {
        apply(damage, &mut files);
    }
    let mut found = Found::default();
    let opened = Journal::open(Arc::new(Files::with(files)), options(), &mut found);
    let whole = opened.as_ref().is_ok_and(|opened| found.add_chunks(opened));
    for (seq, address) in &found.references {
        assert!(*seq < MESSAGES, "sequence number {seq} was never used");
        if let Ok(opened) = &opened {
            check_body(opened, *seq, *address);
        }
    }
    if input.len() < DAMAGE {
        assert!(opened.is_ok() && whole, "an undamaged journal opens");
        assert!(found.cold > 0, "it has segments");
        let left: Vec<u64> = found.references.keys().copied().collect();
        assert_eq!(left, (0..MESSAGES).filter(|seq| !is_settled(*seq)).collect::<Vec<_>>());
    }
}

/// Whether message `seq` of the undamaged log is settled: every third of the early ones, and nearly
/// all later ones.
fn is_settled(seq: u64) -> bool {
    if seq < EARLY { seq.is_multiple_of(3) } else { !seq.is_multiple_of(16) }
}

/// If a body can be read, it must be the one that was written.
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
        progress: Arc::default(),
    }
}

fn body_of(seq: u64) -> Vec<u8> {
    vec![seq as u8; 2000 + seq as usize * 10]
}

/// The files of a journal with some batches, a group, settlements and segments; made only once.
fn good_log() -> &'static Vec<(String, Vec<u8>)> {
    static LOG: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    LOG.get_or_init(|| {
        let disk = Arc::new(Files::default());
        let opened = Journal::open(disk.clone(), options(), &mut Found::default()).expect("an empty disk opens");
        let queue = Arc::<Queue>::default();
        let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), queue.clone(), Box::new(|_| {}));
        for seq in 0..MESSAGES {
            let mut appender = journal.appender(LogId::SYSTEM);
            let body = body_of(seq);
            let address = appender.body(&[&body]);
            let group = (seq % 5 == 0).then(|| appender.begin_group());
            appender.reference(group, QUEUE, seq, 0, &[address]);
            appender.release_hold(address);
            if is_settled(seq) {
                appender.settle(group, QUEUE, 1, &[(seq, 1)], &[address]);
            } else {
                queue.put(Reference { seq, address, length: body.len() as u32 });
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
        for _ in 0..2 {
            journal.relieve();
            for _ in 0..30 {
                stepper.background(Activity::Busy);
                stepper.flush().expect("memory takes everything");
            }
        }
        disk.copy()
    })
}

/// The records that a replay reported.
#[derive(Default)]
struct Found {
    references: BTreeMap<u64, Address>,
    chunks: Vec<(u64, Chunk)>,
    settled: Vec<(u64, u64)>,
    cold: u64,
}

impl Found {
    /// Adds the messages of the chunks; false if a chunk is damaged.
    fn add_chunks(&mut self, opened: &Opened) -> bool {
        let mut listed = Vec::new();
        let whole = self.chunks.iter().all(|(page, chunk)| opened.read_chunk(*chunk, *page, &mut listed).is_ok());
        listed.retain(|one| !self.settled.iter().any(|(first, count)| (*first..first + count).contains(&one.seq)));
        self.cold += listed.len() as u64;
        self.references.extend(listed.iter().map(|one| (one.seq, one.address)));
        whole
    }
}

impl Replay for Found {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        assert_eq!((owner, page), (QUEUE, 0));
        assert!(bytes > 0);
        self.chunks.push((page, chunk));
    }

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        assert_eq!((owner, kind, bytes), (QUEUE, 2, &b"declared"[..]));
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, _mark: u64, bodies: &[Address]) {
        assert_eq!(owner, QUEUE);
        self.references.extend((first_seq..).zip(bodies.iter().copied()));
    }

    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        assert_eq!((owner, reason), (QUEUE, 1));
        self.references.retain(|seq, _| !runs.iter().any(|(first, count)| (*first..first + count).contains(seq)));
        self.settled.extend(runs);
    }

    fn dropped(&mut self, owner: Owner) {
        assert_ne!(owner, QUEUE, "the owner was never dropped");
    }

    fn lost(&mut self, segment: u32, file: &str, _what: &str) {
        assert!(segment > 0 && !file.is_empty());
    }

    fn burnt(&mut self, owner: Owner, _first_seq: u64, _count: u64) {
        assert_eq!(owner, QUEUE);
    }
}

/// The only owner: its unsettled messages.
#[derive(Default)]
struct Queue(Mutex<BTreeMap<u64, Reference>>);

impl Queue {
    fn put(&self, reference: Reference) {
        self.entries().insert(reference.seq, reference);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Reference>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owners for Queue {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        let settled: Vec<(u64, u64)> = (0..MESSAGES).filter(|seq| is_settled(*seq)).map(|seq| (seq, 1)).collect();
        for owner in owners {
            let mut appender = restatement.appender(LogId::SYSTEM);
            appender.fact(None, *owner, 2, &[b"declared"]);
            appender.settle(None, *owner, 1, &settled, &[]);
        }
        Vec::new()
    }

    fn referenced(&self, _owner: Owner, file: u32, found: &mut Vec<Reference>) {
        found.extend(self.entries().values().filter(|one| one.address.file == file));
    }

    fn unsettled(&self, _owner: Owner, _page: u64, bits: &mut Bits) {
        for at in self.entries().keys().map(|seq| seq % PAGE) {
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    fn moved(&self, _owner: Owner, _page: u64, _from: &[u32], _chunk: Chunk, entries: &[Reference]) -> u64 {
        entries.iter().for_each(|one| self.put(*one));
        entries.len() as u64
    }
}
