//! A few queues over a journal, for tests: what each has not settled and where its bodies lie,
//! before a restart and after.
//!
//! Invariant: the body of a number follows from owner, number and length, so whatever is read back
//! can be judged.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use journal::{
    Activity, Address, Admission, Bits, Chunk, Disk, Durability, Journal, LogId, OpenError, Opened, Options, Owner,
    Owners, PAGE, Reference, Replay, Restatement, Stepper,
};
use parking_lot::Mutex;
use testkit::sim_disk::{Random, SimDisk};

/// A few queues: what each has not settled, and its next number.
#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) live: Mutex<BTreeMap<(Owner, u64), Reference>>,
    pub(crate) next: Mutex<BTreeMap<Owner, u64>>,
}

impl Queues {
    pub(crate) fn publish(&self, journal: &Journal, owner: Owner, body: &[u8]) {
        let mut next = self.next.lock();
        let mut live = self.live.lock();
        let seq = next.entry(owner).or_default();
        let mut appender = journal.appender(LogId::of(owner));
        let address = appender.body(&[body]);
        appender.reference(None, owner, *seq, 0, &[address]);
        appender.release_hold(address);
        live.insert((owner, *seq), Reference { seq: *seq, address, length: body.len() as u32 });
        *seq += 1;
    }

    /// References a body on which there is a hold, and lets go of that.
    pub(crate) fn reference(&self, journal: &Journal, owner: Owner, address: Address, length: u32) {
        let (mut next, mut live) = (self.next.lock(), self.live.lock());
        let seq = next.entry(owner).or_default();
        let mut appender = journal.appender(LogId::of(owner));
        appender.reference(None, owner, *seq, 0, &[address]);
        appender.release_hold(address);
        live.insert((owner, *seq), Reference { seq: *seq, address, length });
        *seq += 1;
    }

    /// One body that `owner` references `count` times, `at_once` with one record.
    pub(crate) fn publish_shared(&self, journal: &Journal, owner: Owner, body: &[u8], count: u64, at_once: usize) {
        let address = journal.appender(LogId::of(owner)).body(&[body]);
        let (mut next, mut live) = (self.next.lock(), self.live.lock());
        let next = next.entry(owner).or_default();
        let new: Vec<u64> = (*next..*next + count).collect();
        for run in new.chunks(at_once) {
            journal.appender(LogId::of(owner)).reference(None, owner, run[0], 0, &vec![address; run.len()]);
        }
        let length = body.len() as u32;
        live.extend(new.iter().map(|seq| ((owner, *seq), Reference { seq: *seq, address, length })));
        *next += count;
        journal.appender(LogId::of(owner)).release_hold(address);
    }

    pub(crate) fn settle(&self, journal: &Journal, owner: Owner, seq: u64) {
        let mut live = self.live.lock();
        let one = live.remove(&(owner, seq)).unwrap();
        journal.appender(LogId::of(owner)).settle(None, owner, 0, &[(seq, 1)], &[one.address]);
    }

    pub(crate) fn all(&self) -> Vec<(Owner, Reference)> {
        self.live.lock().iter().map(|((owner, _), one)| (*owner, *one)).collect()
    }

    pub(crate) fn of(&self, owner: Owner) -> Vec<Reference> {
        self.live.lock().range((owner, 0)..=(owner, u64::MAX)).map(|(_, one)| *one).collect()
    }
}

impl Owners for Queues {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        for owner in owners {
            let next = self.next.lock().get(owner).copied().unwrap_or(0);
            let live = self.live.lock();
            // As runs: a restatement that grew with every number ever used would fill the log by
            // itself.
            let settled: Vec<_> = (0..next).filter(|seq| !live.contains_key(&(*owner, *seq))).collect();
            let runs: Vec<_> = settled.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u64)).collect();
            let mut appender = restatement.appender(LogId::of(*owner));
            appender.fact(None, *owner, 1, &[&next.to_le_bytes()]);
            appender.settle(None, *owner, 0, &runs, &[]);
        }
        Vec::new()
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
pub(crate) struct Found {
    /// The files that are damaged.
    pub(crate) lost: Vec<String>,
    live: BTreeMap<(Owner, u64), Address>,
    next: BTreeMap<Owner, u64>,
    pub(crate) chunks: Vec<(Owner, u64, Chunk)>,
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

    fn lost(&mut self, _: u32, file: &str, _: &str) {
        self.lost.push(file.to_owned());
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        let next = self.next.entry(owner).or_default();
        *next = (*next).max(first_seq + count);
    }
}

impl Found {
    /// The queues that a start finds.
    pub(crate) fn queues(self, opened: &Opened) -> io::Result<Queues> {
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

pub(crate) fn small() -> Options {
    Options {
        durability: Durability::Fsync,
        file_bytes: 64 << 10,
        first_file_bytes: 64 << 10,
        max_bytes: 512 << 10,
        max_batch_bytes: 16 << 10,
        incarnation: 77,
        progress: Arc::default(),
    }
}

pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<(Opened, Arc<Queues>), OpenError> {
    open_with(disk, small())
}

pub(crate) fn open_with(disk: Arc<dyn Disk>, options: Options) -> Result<(Opened, Arc<Queues>), OpenError> {
    let mut found = Found::default();
    let opened = Journal::open(disk, options, &mut found)?;
    let queues = found.queues(&opened).unwrap();
    Ok((opened, Arc::new(queues)))
}

pub(crate) fn counts(queues: &Queues) -> Vec<(u32, u64)> {
    queues.all().iter().map(|(_, one)| (one.address.file, 1)).collect()
}

pub(crate) fn step(disk: &SimDisk) -> (Journal, Stepper, Arc<Queues>) {
    step_with(disk, small())
}

pub(crate) fn step_with(disk: &SimDisk, options: Options) -> (Journal, Stepper, Arc<Queues>) {
    let (opened, queues) = open_with(Arc::new(disk.clone()), options).unwrap();
    let mut live = counts(&queues).into_iter();
    let stopped = disk.clone();
    let failed = Box::new(move |error: &io::Error| assert!(stopped.has_crashed(), "the journal has failed: {error}"));
    let (journal, stepper) = opened.start_stepped(&mut live, queues.clone(), failed);
    (journal, stepper, queues)
}

/// The background works and the writer flushes, until there is nothing more to do.
pub(crate) fn rest(stepper: &Stepper) {
    for _ in 0..300 {
        stepper.background(Activity::Busy);
        stepper.flush().unwrap();
    }
}

pub(crate) fn body(owner: Owner, seq: u64, length: usize) -> Vec<u8> {
    (owner ^ seq << 8).to_le_bytes().into_iter().cycle().take(length).collect()
}

/// Every body that is alive reads back as the one that was published, one by one and all at once.
pub(crate) fn check(journal: &Journal, queues: &Queues) {
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

/// What is alive: owner, number and length of each body.
pub(crate) type Alive = BTreeMap<(Owner, u64), u32>;

pub(crate) fn alive(queues: &Queues) -> Alive {
    queues.all().iter().map(|(owner, one)| ((*owner, one.seq), one.length)).collect()
}

/// Some publishes and settlements, a flush, some background.
pub(crate) fn live_on(journal: &Journal, stepper: &Stepper, queues: &Queues, random: &mut Random) {
    for _ in 0..random.below(8) {
        if journal.admission() == Admission::Open {
            let owner = random.below(3);
            let seq = queues.next.lock().get(&owner).copied().unwrap_or(0);
            queues.publish(journal, owner, &body(owner, seq, 200 + random.below(1800) as usize));
        }
    }
    let all = queues.all();
    for (owner, one) in all.iter().filter(|_| random.chance(400 / (all.len() as u64 + 1))) {
        // Of the third queue nearly everything goes, so that files with little in them are there
        // too.
        if *owner == 2 || one.seq % 8 == 0 {
            queues.settle(journal, *owner, one.seq);
        }
    }
    stepper.flush().unwrap();
    for _ in 0..random.below(4) {
        stepper.background(if random.chance(5) { Activity::Idle } else { Activity::Busy });
    }
}
