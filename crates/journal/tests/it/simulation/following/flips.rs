//! Disks under a pair that have another byte than was written: a bit flips, and the disk says
//! nothing of it.
//!
//! Who reads it must say so, or nothing is missing: no other byte is ever sent, taken or given.
//! Each flip is undone at once, or is one of a copy of the disk. So the pair goes on as if there
//! had been none.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use journal::{Entry, Fed, FeedError, Flushed, Journal, LogEnd, LogId, Refused, Stepper};
use parking_lot::Mutex;
use testkit::sim_disk::{Random, SimDisk};

use super::super::copy::{Answers, Copied};
use super::super::life::{CAPACITY, LOGS};
use super::super::model::{self, OwnerState, Replayed, World};
use super::{Counts, Pair, Second, index_of};

/// Of the unit a disk writes as a whole.
const SECTOR: usize = 512;

/// What came of all flips.
#[derive(Default, Debug)]
pub(super) struct Flips {
    /// Bits that flipped.
    made: u64,
    /// Feeds and snapshots that ended with it.
    pub(super) told: u64,
    /// Starts that were refused.
    refused: u64,
    /// Starts of the follower that took it for the end of the log, and asked for the rest again.
    torn: u64,
    /// Starts of the leader that took it for that. The follower had more then.
    apart: u64,
    /// Starts that left out a segment.
    segments: u64,
    /// Bodies that were not given.
    pub(super) bodies: u64,
}

impl Flips {
    pub(super) fn all(&self) -> [u64; 7] {
        [self.made, self.told, self.refused, self.torn, self.apart, self.segments, self.bodies]
    }
}

/// What may be wrong with a disk.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Damage {
    None,
    /// A bit, in whatever can be opened. The logs went so far before that.
    Bit(Vec<(LogId, u64)>),
    /// A segment was left out.
    Segment,
}

impl Damage {
    /// Takes out of what is expected of a log what had been settled further on, and is not there:
    /// once that was flushed, its segment could go.
    pub(super) fn spare(&self, pair: &Pair, log: LogId, expected: &mut World, found: &World) {
        let Self::Bit(had) = self else { return };
        let later = pair.world_at(log, had.iter().find(|end| end.0 == log).map_or(0, |end| end.1));
        let is_there = |world: &World, owner, seq: &u64| {
            world.get(owner).is_some_and(|state: &OwnerState| state.references.contains_key(seq))
        };
        for (owner, state) in expected.iter_mut() {
            state.references.retain(|seq, _| is_there(found, owner, seq) || is_there(&later, owner, seq));
        }
    }
}

/// A bit that is another one, until this is dropped.
pub(super) struct Flip {
    disk: SimDisk,
    name: String,
    bit: u64,
}

impl Flip {
    fn new(disk: &SimDisk, (name, bit): (String, u64)) -> Self {
        disk.flip_bit(&name, bit);
        Self { disk: disk.clone(), name, bit }
    }
}

impl Drop for Flip {
    fn drop(&mut self) {
        self.disk.flip_bit(&self.name, self.bit);
    }
}

/// The files of a disk.
type Image = BTreeMap<String, Vec<u8>>;

fn image(disk: &SimDisk) -> Image {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

/// A bit of any file whose name begins so.
fn any(random: &mut Random, files: &Image, begins: &str) -> Option<(String, u64)> {
    let names: Vec<_> = files.iter().filter(|(name, bytes)| name.starts_with(begins) && !bytes.is_empty()).collect();
    let (name, bytes) = names.get(random.below(names.len() as u64) as usize)?;
    // Most of a file is stale or zero; its start is not.
    let bytes = if random.chance(50) { bytes.len() } else { bytes.len().min(20_000) };
    Some(((*name).clone(), random.below(8 * bytes as u64)))
}

/// A bit that was written between two images.
fn written(random: &mut Random, before: &Image, after: &Image) -> Option<(String, u64)> {
    let mut found = Vec::new();
    for (name, bytes) in after {
        let old = before.get(name).map_or(&[][..], Vec::as_slice);
        for (at, sector) in bytes.chunks(SECTOR).enumerate() {
            let old = old.get(at * SECTOR..).map_or(&[][..], |rest| &rest[..rest.len().min(SECTOR)]);
            if sector != old {
                let differs = |at: &usize| old.get(*at) != Some(&sector[*at]);
                found.extend((0..sector.len()).filter(differs).map(|byte| (name, at * SECTOR + byte)));
            }
        }
    }
    let (name, byte) = found.get(random.below(found.len() as u64) as usize)?;
    Some(((*name).clone(), 8 * *byte as u64 + random.below(8)))
}

/// What a journal sends behind these entries, once all is flushed, and why there is no more.
fn sent(journal: &Journal, known: &[(LogId, u64)]) -> (Vec<Entry>, Result<(), FeedError>) {
    let (mut feed, mut entries) = (journal.feed(known.iter().copied()), Vec::new());
    loop {
        match feed.pull() {
            Ok(Fed::Entry(entry)) => entries.push(entry),
            Ok(Fed::Horizon(_)) => {}
            Ok(Fed::Nothing) => {
                assert!(feed.passed() >= feed.flushed(), "it waits for what is flushed: {:?}", feed.behind());
                return (entries, Ok(()));
            }
            Err(error) => return (entries, Err(error)),
        }
    }
}

fn ends_of(second: &Second) -> Vec<(LogId, u64)> {
    second.follower.ends().into_iter().map(|end| (end.log, end.index)).collect()
}

/// What a flush has done to a disk; none if what was appended can't be flushed.
struct FlushedImages {
    before: Image,
    after: Image,
}

impl FlushedImages {
    fn of(disk: &SimDisk, steps: &Stepper) -> Option<Self> {
        let before = image(disk);
        let is_done = matches!(steps.flush(), Ok(Flushed::Done | Flushed::Idle));
        is_done.then(|| Self { before, after: image(disk) })
    }

    /// A copy of the disk on which a bit has flipped: in half of the cases one that was written
    /// last.
    fn flipped(&self, random: &mut Random) -> Option<SimDisk> {
        let tail = if random.chance(50) { written(random, &self.before, &self.after) } else { None };
        let (name, bit) = tail.or_else(|| any(random, &self.after, ""))?;
        let copy = SimDisk::new(random.number(), 2 * CAPACITY);
        self.after.iter().for_each(|(name, bytes)| copy.replace(name, bytes));
        copy.flip_bit(&name, bit);
        Some(copy)
    }
}

impl Pair {
    /// A bit flips while the leader's log is read: what is sent is what was written, up to the bit.
    pub(super) fn flip_under_feed(&mut self, second: &Second, counts: &mut Counts) {
        if !matches!(self.steps.flush(), Ok(Flushed::Done | Flushed::Idle)) {
            return;
        }
        let back = self.random.below(60);
        let mut known = ends_of(second);
        known.iter_mut().for_each(|(_, index)| *index = index.saturating_sub(back));
        let (whole, Ok(())) = sent(&self.journal, &known) else { return };
        let Some(bit) = any(&mut self.random, &image(&self.leader.disk), "wal/") else { return };
        let _flip = Flip::new(&self.leader.disk, bit);
        counts.flips.made += 1;
        let (found, end) = sent(&self.journal, &known);
        assert!(whole.starts_with(&found), "something else is sent than was written");
        match end {
            Ok(()) => assert_eq!(found.len(), whole.len(), "something is missing without an error"),
            Err(FeedError::Io(error)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
                counts.flips.told += 1;
                // The next link goes on there, and is told as well, or it was nothing that is sent.
                let mut known: BTreeMap<_, _> = known.into_iter().collect();
                known.extend(found.iter().map(|entry| (entry.end().log, entry.end().index)));
                let known: Vec<_> = known.into_iter().collect();
                let (rest, end) = sent(&self.journal, &known);
                assert!(whole[found.len()..].starts_with(&rest));
                assert!(end.is_err() || found.len() + rest.len() == whole.len());
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A bit of a body, or of a list of them, flips while a snapshot reads it.
    pub(super) fn flip_under_snapshot(&mut self, counts: &mut Counts) -> Option<Flip> {
        if self.random.chance(70) {
            return None;
        }
        let bit = any(&mut self.random, &image(&self.leader.disk), "")?;
        counts.flips.made += 1;
        Some(Flip::new(&self.leader.disk, bit))
    }

    /// The follower starts with a bit that has flipped. It is refused, or it is a follower as any
    /// other, which asks for what it has no more.
    pub(super) fn flip_follower(&mut self, second: &Second, counts: &mut Counts) {
        if self.disk.has_crashed() {
            return;
        }
        let Some(images) = FlushedImages::of(&self.disk, &second.stepper) else { return };
        let Some(disk) = images.flipped(&mut self.random) else { return };
        counts.flips.made += 1;
        let before = image(&disk);
        let mut replayed = Replayed::default();
        let Ok(opened) = Journal::open(Arc::new(disk.clone()), self.options.clone(), &mut replayed) else {
            assert!(image(&disk) == before, "a refused start changes nothing");
            counts.flips.refused += 1;
            return;
        };
        let damage = if replayed.lost.is_empty() { Damage::Bit(ends_of(second)) } else { Damage::Segment };
        let copied = match Copied::read(replayed, &opened) {
            Ok(copied) => copied,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
                counts.flips.refused += 1;
                return;
            }
        };
        let live = copied.live();
        let copied = Arc::new(Mutex::new(copied));
        let owners = Arc::new(Answers(Arc::clone(&copied)));
        let (follower, stepper) =
            opened.follow_stepped(&mut live.into_iter(), owners, Box::new(|_| {})).expect("nothing else is wrong");
        let feed = self.journal.feed(follower.ends().into_iter().map(|end| (end.log, end.index)));
        let mut started = Second { follower, stepper, copied, feed };
        let (had, has) = (ends_of(second), ends_of(&started));
        let index = |ends: &[(LogId, u64)], log| ends.iter().find(|end| end.0 == log).map_or(0, |end| end.1);
        let [before, after] = [&had, &has].map(|ends| LOGS.map(|log| index(ends, log)));
        assert!(after.iter().zip(&before).all(|(after, before)| after <= before), "{has:?} after {had:?}");
        counts.flips.torn += u64::from(after != before);
        self.compare_with(&started, &damage, counts);
        if damage == Damage::Segment {
            counts.flips.segments += 1;
        } else if self.send(&mut started, 200, &mut Counts::default()) {
            self.compare_with(&started, &damage, counts);
        }
    }

    /// The leader starts with a bit that has flipped. It is refused, or it has all that it had
    /// flushed, or its follower is told that they are apart: before the leader has gone on, and
    /// after.
    pub(super) fn flip_leader(&mut self, second: &mut Second, counts: &mut Counts) {
        let Some(images) = FlushedImages::of(&self.leader.disk, &self.steps) else { return };
        // The follower has what is lost here, if the two reach each other.
        if self.parted == 0 && !self.send(second, u64::MAX, counts) {
            return;
        }
        let Some(disk) = images.flipped(&mut self.random) else { return };
        counts.flips.made += 1;
        let (options, mut replayed) = (self.leader.options.clone(), Replayed::default());
        let Ok(opened) = Journal::open(Arc::new(disk), options, &mut replayed) else {
            counts.flips.refused += 1;
            return;
        };
        counts.flips.segments += u64::from(!replayed.lost.is_empty());
        let (journal, steps) = opened.start_stepped(&mut std::iter::empty(), Arc::new(()), Box::new(|_| {}));
        let known = ends_of(second);
        let has_less = |(log, index): &&(LogId, u64)| index_of(&journal, *log).unwrap_or(0) < *index;
        let less: Vec<_> = known.iter().filter(has_less).copied().collect();
        if less.is_empty() {
            return;
        }
        counts.flips.apart += 1;
        let (entries, end) = sent(&journal, &known);
        // Of a log that is not known at all, because it has ended or was lost as a whole, nothing
        // can be said before there is something in it.
        let is_known = less.iter().any(|(log, _)| index_of(&journal, *log).is_some_and(|index| index > 0));
        assert!(matches!(end, Err(FeedError::Ahead { .. })) || !is_known, "{end:?}");
        assert!(entries.iter().all(|entry| less.iter().all(|(log, _)| *log != entry.end().log)));
        for (log, index) in &less {
            while index_of(&journal, *log).unwrap_or(0) <= *index {
                let value = self.random.number().to_le_bytes();
                journal.appender(*log).fact(None, log.owner(1 << 30), model::VALUE, &[&value]);
                if !matches!(steps.flush(), Ok(Flushed::Done)) {
                    return;
                }
            }
        }
        self.refuses_other(second, &journal, &less);
    }

    /// What the follower is sent of a log is not what comes next there.
    fn refuses_other(&self, second: &Second, other: &Journal, logs: &[(LogId, u64)]) {
        let (entries, _) = sent(other, &ends_of(second));
        let mut copied = second.copied.lock();
        for entry in entries {
            let LogEnd { log, index, .. } = entry.end();
            if logs.iter().any(|(of, end)| (*of, end + 1) == (log, index)) {
                let taken = second.follower.append(&entry, &mut *copied);
                assert!(matches!(taken, Err(Refused::Forked { .. } | Refused::Ended)), "{taken:?}");
            }
        }
    }

    /// The connection ends with some entries on their way. None comes for a while.
    pub(super) fn part(&mut self, second: &mut Second, counts: &mut Counts) {
        for _ in 0..self.random.below(6) {
            if second.feed.pull().is_err() {
                break;
            }
        }
        self.parted = 1 + self.random.below(40);
        counts.partitions += 1;
    }

    /// A step of the time in which the two do not reach each other. At its end there is a new
    /// connection.
    pub(super) fn is_parted(&mut self, second: &mut Second) -> bool {
        if self.parted == 1 {
            second.feed = self.journal.feed(ends_of(second));
        }
        self.parted = self.parted.saturating_sub(1);
        self.parted > 0
    }
}
