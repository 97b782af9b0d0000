//! Two journals, one of which follows the other: both are recycled all the time, and both are
//! killed. At every moment the follower must be what some prefix of the leader's entries leaves.
//! The connection between them ends, and stays away for a while; [`flips`] has disks with another
//! byte than was written.

mod flips;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use journal::{
    Activity, Durability, Fed, Feed, FeedError, Flushed, Follower, Journal, LogEnd, LogId, OpenError, Options, Piece,
    Pulled, Receiving, Refused, SnapshotError, Stepper,
};
use parking_lot::Mutex;
use testkit::sim_disk::{Fault, Random, SimDisk};

use self::flips::{Damage, Flips};
use super::copy::{Answers, Copied};
use super::life::{CAPACITY, FILE, LOGS, Prefix, Run, Totals};
use super::model::{self, Entry, Replayed, World};
use super::{chosen, seeds};

/// How often everything happened, over all seeds.
#[derive(Default, Debug)]
struct Counts {
    entries: u64,
    compared: u64,
    kills: u64,
    power_cuts: u64,
    tails_cut: u64,
    leader_kills: u64,
    copies: u64,
    recycled: u64,
    moved: u64,
    put_off: u64,
    promoted: u64,
    drained: u64,
    stalls: u64,
    groups_resumed: u64,
    snapshots: u64,
    snapshots_cut: u64,
    snapshots_overtaken: u64,
    partitions: u64,
    flips: Flips,
}

impl Counts {
    fn assert_everything_was_tried(&self) {
        let all = [
            self.entries,
            self.compared,
            self.kills,
            self.power_cuts,
            self.tails_cut,
            self.leader_kills,
            self.copies,
            self.recycled,
            self.moved,
            self.put_off,
            self.promoted,
            self.drained,
            self.stalls,
            self.groups_resumed,
            self.snapshots,
            self.snapshots_cut,
            self.snapshots_overtaken,
            self.partitions,
        ];
        let mut all = all.into_iter().chain(self.flips.all());
        assert!(all.all(|count| count > 5), "something was hardly tried: {self:?}");
    }
}

/// One term of the leader: where it began, what was appended, and how far each log came.
struct Term {
    base: World,
    entries: Vec<Entry>,
    ends: BTreeMap<LogId, u64>,
}

/// The follower while it runs.
struct Second {
    follower: Follower,
    stepper: Stepper,
    copied: Arc<Mutex<Copied>>,
    feed: Feed,
}

struct Pair {
    random: Random,
    leader: Run,
    journal: Journal,
    steps: Stepper,
    disk: SimDisk,
    options: Options,
    /// The terms of the leader that are over.
    terms: Vec<Term>,
    /// For so many steps the two do not reach each other.
    parted: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut leader = Run::new(seed);
        leader.options.durability = Durability::Fsync;
        let (opened, replayed) = leader.open();
        leader.compare(&opened, replayed, Prefix::default(), &mut Totals::default());
        let (journal, steps) = leader.start(opened, &Arc::default());
        let mut random = Random::new(seed ^ 0x0f01_10c5);
        let disk = SimDisk::new(random.number(), 2 * CAPACITY);
        let scale = 1 + random.below(2);
        let options = Options {
            max_bytes: scale * 8 * u64::from(FILE),
            max_batch_bytes: 4096 << random.below(4),
            incarnation: random.number(),
            ..leader.options.clone()
        };
        Self { random, leader, journal, steps, disk, options, terms: Vec::new(), parted: 0 }
    }

    /// Opens the follower's journal. It may be refused only while a fault is at work.
    fn open(&mut self, counts: &mut Counts) -> Second {
        for _ in 0..2 {
            let mut replayed = Replayed::default();
            match Journal::open(Arc::new(self.disk.clone()), self.options.clone(), &mut replayed) {
                Ok(opened) => {
                    assert!(replayed.lost.is_empty(), "nothing was damaged: {:?}", replayed.lost);
                    let copied = Copied::recovered(replayed, &opened);
                    let live = copied.live();
                    let copied = Arc::new(Mutex::new(copied));
                    let owners = Arc::new(Answers(Arc::clone(&copied)));
                    let followed = opened.follow_stepped(&mut live.into_iter(), owners, Box::new(|_| {}));
                    let Ok((follower, stepper)) = followed else {
                        assert!(self.disk.has_crashed(), "{:?}", followed.map(drop));
                        self.disk.power_cut();
                        continue;
                    };
                    let feed = self.journal.feed(follower.ends().into_iter().map(|end| (end.log, end.index)));
                    let second = Second { follower, stepper, copied, feed };
                    self.compare(&second, counts);
                    return second;
                }
                Err(error @ OpenError::Io { .. }) => {
                    assert!(error.to_string().contains("the machine has stopped"), "{error}");
                    self.disk.power_cut();
                }
                Err(error) => panic!("a false refusal: {error}"),
            }
        }
        panic!("the second attempt failed without a fault");
    }

    /// The follower's directory becomes a copy of the leader's.
    fn copy_again(&mut self, counts: &mut Counts) -> Second {
        counts.copies += 1;
        self.steps.flush().unwrap();
        let capacity = 2 * CAPACITY;
        self.disk = SimDisk::new(self.random.number(), capacity);
        for name in self.leader.disk.names() {
            self.disk.replace(&name, &self.leader.disk.bytes(&name));
        }
        self.open(counts)
    }

    /// The follower's directory becomes one that has received a snapshot, or is copied.
    fn begin_again(&mut self, counts: &mut Counts) -> Second {
        for _ in 0..3 {
            if let Some(disk) = self.receive(counts) {
                self.disk = disk;
                return self.open(counts);
            }
        }
        self.copy_again(counts)
    }

    /// Receives a snapshot while the leader works. None if it was cut off, or overtaken: then there
    /// is nothing of it.
    fn receive(&mut self, counts: &mut Counts) -> Option<SimDisk> {
        let disk = SimDisk::new(self.random.number(), 2 * CAPACITY);
        if self.random.chance(30) {
            // An attempt that is cut off at any moment.
            disk.fault(1 + self.random.below(80), Fault::Crash);
            if self.receive_into(&disk, counts).is_some() {
                counts.snapshots += 1;
                return Some(disk);
            }
            disk.power_cut();
            let names = disk.names();
            if !names.is_empty() {
                match Journal::open(Arc::new(disk.clone()), self.options.clone(), &mut Replayed::default()) {
                    Ok(opened) => {
                        // Only its last step was cut off.
                        assert!(names.iter().any(|name| name == "FORMAT"), "a half is no journal: {names:?}");
                        drop(opened);
                        disk.restart();
                        counts.snapshots += 1;
                        return Some(disk);
                    }
                    Err(OpenError::Foreign(_) | OpenError::Damaged { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            disk.restart();
            counts.snapshots_cut += 1;
        }
        self.receive_into(&disk, counts)?;
        if self.random.chance(50) {
            disk.power_cut();
        }
        counts.snapshots += 1;
        Some(disk)
    }

    fn receive_into(&mut self, disk: &SimDisk, counts: &mut Counts) -> Option<()> {
        let mut receiving = match Receiving::begin(Arc::new(disk.clone()), self.options.clone()) {
            Ok(receiving) => receiving,
            Err(error) => {
                assert!(disk.has_crashed(), "{error}");
                return None;
            }
        };
        let mut snapshot = self.journal.snapshot().unwrap();
        let (mut flipped, flips) = (None, self.random.chance(30));
        loop {
            let works = flipped.is_none() && self.random.chance(40);
            if works && !self.leader.step(&self.journal, &self.steps, &mut Totals::default()) {
                drop(snapshot);
                self.stop_leader(counts);
                return None;
            }
            let pulled = snapshot.pull();
            match (&pulled, flipped.is_some()) {
                (Ok(Pulled::Piece(Piece::Bodies { .. })), false) if flips => flipped = self.flip_under_snapshot(counts),
                (Ok(Pulled::Piece(Piece::Bodies { .. })), _) => {}
                (Err(SnapshotError::Io(error)), true) if error.kind() == ErrorKind::InvalidData => {
                    counts.flips.told += 1;
                    return None;
                }
                _ => flipped = None,
            }
            match pulled {
                Ok(Pulled::Piece(piece)) => {
                    if let Err(error) = receiving.take(&piece) {
                        assert!(disk.has_crashed(), "{error}");
                        return None;
                    }
                }
                Ok(Pulled::Nothing) => {
                    let open = self.leader.memory.lock().open.len();
                    self.steps.flush().unwrap();
                    self.steps.background(Activity::Busy);
                    if open > 0 && self.random.chance(20) {
                        self.leader.end_groups(&self.journal);
                    }
                }
                Ok(Pulled::Done) => break,
                Err(SnapshotError::NoRoom) => {
                    counts.snapshots_overtaken += 1;
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let finished = receiving.finish();
        assert!(finished.is_ok() || disk.has_crashed(), "{finished:?}");
        finished.ok()
    }

    /// What the leader's first `index` entries of a log leave.
    fn world_at(&self, log: LogId, index: u64) -> World {
        let memory = self.leader.memory.lock();
        let of = |base: &World, entries: &[Entry], index: u64| {
            let within = |entry: &&Entry| entry.log == log && entry.ticket.is_within(journal::Ticket::at(log, index));
            let entries: Vec<_> = entries.iter().filter(within).cloned().collect();
            model::pruned(&model::fold(&model::part_of(base, log), &entries))
        };
        match self.terms.iter().find(|term| term.ends.get(&log).copied().unwrap_or(0) >= index) {
            Some(term) => of(&term.base, &term.entries, index),
            None => of(&memory.base, &memory.entries, index),
        }
    }

    /// The follower is a prefix of the leader, with every body.
    fn compare(&self, second: &Second, counts: &mut Counts) {
        self.compare_with(second, &Damage::None, counts);
    }

    /// The same, of one that may have damage: bodies that it does not give, or a segment that it
    /// has left out.
    fn compare_with(&self, second: &Second, damage: &Damage, counts: &mut Counts) {
        let copied = second.copied.lock();
        for log in LOGS {
            let end = second.follower.ends().into_iter().find(|end| end.log == log);
            let expected = self.world_at(log, end.map_or(0, |end| end.index));
            let mut found = model::part_of(&copied.replayed.world, log);
            for ((owner, seq), address) in copied.replayed.places.iter().filter(|((of, _), _)| LogId::of(*of) == log) {
                let body = expected.get(owner).and_then(|state| state.references.get(seq));
                let Some(body) = body.copied() else { panic!("{owner}/{seq} is at {address:?} and should be gone") };
                match second.follower.read(*address) {
                    Ok(bytes) => assert_eq!(bytes[..], self.leader.bodies[body][..], "{owner}/{seq} at {address:?}"),
                    Err(error) if *damage != Damage::None && error.kind() == ErrorKind::InvalidData => {
                        counts.flips.bodies += 1;
                    }
                    Err(error) => assert!(self.disk.has_crashed(), "{owner}/{seq} at {address:?}: {error}"),
                }
                found.entry(*owner).or_default().references.insert(*seq, body);
                counts.compared += 1;
            }
            if *damage == Damage::Segment {
                continue;
            }
            let (mut expected, found) = (expected, model::pruned(&found));
            damage.spare(self, log, &mut expected, &found);
            let expected = model::pruned(&expected);
            assert!(expected == found, "{log:?} at {end:?}\n{}", model::difference(&expected, &found));
        }
    }

    /// Sends some entries. False if the follower needs a new copy.
    fn send(&mut self, second: &mut Second, most: u64, counts: &mut Counts) -> bool {
        for _ in 0..most {
            match second.feed.pull() {
                Ok(Fed::Entry(entry)) => {
                    let mut copied = second.copied.lock();
                    if let Err(refused) = second.follower.append(&entry, &mut *copied) {
                        assert!(refused == Refused::Ended && self.disk.has_crashed(), "{refused}");
                        return true;
                    }
                    counts.entries += 1;
                    let again = second.follower.append(&entry, &mut *copied);
                    assert!(matches!(again, Err(Refused::Known { .. } | Refused::Ended)), "{again:?}");
                }
                Ok(Fed::Horizon(file)) => second.follower.horizon(file),
                Ok(Fed::Nothing) => return true,
                Err(FeedError::Gone { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
        }
        true
    }

    /// The follower's machine or process stops, and comes back.
    fn stop(&mut self, second: Second, counts: &mut Counts) -> Second {
        let Second { follower, stepper, copied, .. } = second;
        let (appended, durable) = (follower.ends(), LOGS.map(|log| follower.durable(log)));
        counts.recycled += u64::from(follower.stats().oldest_file);
        counts.moved += copied.lock().moved;
        counts.put_off += copied.lock().put_off;
        drop((follower, stepper));
        if self.random.chance(60) {
            counts.power_cuts += 1;
            self.disk.power_cut();
        } else {
            counts.kills += 1;
            self.disk.restart();
        }
        self.disk.set_capacity(2 * CAPACITY);
        let second = self.open(counts);
        let found = second.follower.ends();
        for (log, durable) in LOGS.into_iter().zip(durable) {
            let index = |ends: &[LogEnd]| ends.iter().find(|end| end.log == log).map_or(0, |end| end.index);
            assert!(durable.is_within(journal::Ticket::at(log, index(&found))), "{durable:?} was lost: {found:?}");
            assert!(index(&found) <= index(&appended), "{found:?} has more than was sent: {appended:?}");
            counts.tails_cut += u64::from(index(&found) < index(&appended));
        }
        let open = LOGS.iter().any(|log| !self.is_whole(*log));
        counts.groups_resumed += u64::from(open);
        second
    }

    fn is_whole(&self, log: LogId) -> bool {
        self.leader.memory.lock().open_in(log).is_none()
    }

    /// The leader stops and comes back: another term.
    fn stop_leader(&mut self, counts: &mut Counts) {
        counts.leader_kills += 1;
        let durable = LOGS.map(|log| self.journal.durable(log));
        if self.random.chance(50) {
            self.leader.disk.power_cut();
        } else {
            self.leader.disk.restart();
        }
        self.leader.disk.set_capacity(CAPACITY);
        let prefix = durable.map(|durable| {
            let memory = self.leader.memory.lock();
            let of_log = memory.entries.iter().filter(|entry| Some(entry.log) == durable.log());
            of_log.take_while(|entry| entry.ticket.is_within(durable)).count()
        });
        let (base, entries) = {
            let memory = self.leader.memory.lock();
            (memory.base.clone(), memory.entries.clone())
        };
        let (opened, replayed) = self.leader.open();
        self.leader.compare(&opened, replayed, prefix, &mut Totals::default());
        (self.journal, self.steps) = self.leader.start(opened, &Arc::default());
        // What was cut is no part of the term.
        let ends = LOGS.iter().filter_map(|log| Some((*log, index_of(&self.journal, *log)?))).collect();
        self.terms.push(Term { base, entries, ends });
    }

    fn run(&mut self, counts: &mut Counts) {
        let mut second = self.open(counts);
        for _ in 0..60 + self.random.below(400) {
            if !self.leader.step(&self.journal, &self.steps, &mut Totals::default()) {
                self.stop_leader(counts);
                second.feed = self.journal.feed(second.follower.ends().into_iter().map(|end| (end.log, end.index)));
            }
            let is_parted = self.is_parted(&mut second);
            match self.random.below(100) {
                0..40 if !is_parted => {
                    let most = 1 + self.random.below(20);
                    if !self.send(&mut second, most, counts) {
                        second = self.begin_again(counts);
                    }
                }
                40..60 => match second.stepper.flush() {
                    Ok(Flushed::Stalled) => counts.stalls += 1,
                    Ok(_) => {}
                    Err(_) => second = self.stop(second, counts),
                },
                60..75 => {
                    for _ in 0..1 + self.random.below(12) {
                        second.stepper.background(Activity::Busy);
                    }
                }
                75..78 if second.stepper.seal().is_err() => second = self.stop(second, counts),
                78..81 => self.compare(&second, counts),
                81..83 => second = self.stop(second, counts),
                83 => self.plan_fault(),
                85 if !is_parted && self.random.chance(50) => second = self.begin_again(counts),
                86 => self.flip_under_feed(&second, counts),
                87 => {
                    self.flip_follower(&second, counts);
                    // What it had to flush first may have failed.
                    if self.disk.has_crashed() {
                        second = self.stop(second, counts);
                    }
                }
                88 => self.flip_leader(&mut second, counts),
                89 => self.part(&mut second, counts),
                84 => {
                    self.stop_leader(counts);
                    second.feed = self.journal.feed(second.follower.ends().into_iter().map(|end| (end.log, end.index)));
                }
                _ => {}
            }
        }
        self.finish(second, counts);
    }

    fn plan_fault(&mut self) {
        let after = 1 + self.random.below(60);
        match self.random.below(3) {
            0 => self.disk.fault(after, Fault::Crash),
            1 => self.disk.fault(after, Fault::Short),
            _ => self.disk.set_capacity(u64::from(FILE) * (3 + self.random.below(6))),
        }
    }

    /// The follower is promoted where it is, or has nothing left once all is settled.
    fn finish(&mut self, second: Second, counts: &mut Counts) {
        let mut second = self.stop(second, counts);
        if self.random.chance(50) {
            self.leader.drain(&self.journal, &self.steps, &mut Totals::default());
            if self.journal.stats().segments.files > 0 || self.leader.disk.has_crashed() {
                return;
            }
            for _ in 0..400 {
                if !self.send(&mut second, u64::MAX, counts) {
                    second = self.copy_again(counts);
                }
                second.stepper.background(Activity::Busy);
                second.stepper.flush().unwrap();
            }
            self.compare(&second, counts);
            assert_eq!(second.copied.lock().live().len(), 0);
            assert_eq!(second.follower.stats().segments.files, 0, "{:?}", second.follower.stats());
            assert_eq!(second.follower.stats().live_bytes, 0, "{:?}", second.follower.stats());
            counts.drained += 1;
            return;
        }
        let most = self.random.below(50);
        if !self.send(&mut second, most, counts) {
            return;
        }
        self.promote(second, counts);
    }

    /// The follower goes on by itself: what it is sent later is another history.
    fn promote(&mut self, second: Second, counts: &mut Counts) {
        self.compare(&second, counts);
        let ends = second.follower.ends();
        let Second { follower, stepper, copied, .. } = second;
        let journal = follower.promote();
        let owner = LOGS[0].owner(1 << 30);
        let mut appender = journal.appender(LOGS[0]);
        let group = appender.begin_group();
        appender.fact(Some(group), owner, model::VALUE, &[&7u64.to_le_bytes()]);
        appender.end_group(group);
        drop(appender);
        stepper.flush().unwrap();
        journal.close().unwrap();
        drop((journal, stepper));
        self.disk.restart();
        let mut replayed = Replayed::default();
        let opened = Journal::open(Arc::new(self.disk.clone()), self.options.clone(), &mut replayed).unwrap();
        let reopened = Copied::recovered(replayed, &opened);
        let mut before = copied.lock();
        before.replayed.world.entry(owner).or_default().value = 7;
        assert_eq!(model::pruned(&reopened.replayed.world), model::pruned(&before.replayed.world));
        assert_eq!(
            reopened.replayed.places.keys().collect::<Vec<_>>(),
            before.replayed.places.keys().collect::<Vec<_>>()
        );
        drop(before);
        // Its own term is later than all that it was sent, so the old leader is refused.
        let live = reopened.live();
        let copied = Arc::new(Mutex::new(reopened));
        let owners = Arc::new(Answers(Arc::clone(&copied)));
        let (follower, _) = opened.follow_stepped(&mut live.into_iter(), owners, Box::new(|_| {})).unwrap();
        let last = ends.iter().map(|end| end.term).max().unwrap_or(0);
        let own = follower.ends().into_iter().find(|end| end.log == LOGS[0]).unwrap();
        assert!(own.term > last, "{own:?} after {ends:?}");
        counts.promoted += 1;
    }
}

/// The index of the last entry of a log that is durable.
fn index_of(journal: &Journal, log: LogId) -> Option<u64> {
    let durable = journal.durable(log);
    (0..).find(|index| durable.is_within(journal::Ticket::at(log, *index)))
}

#[test]
fn a_follower_is_at_every_moment_a_prefix_of_its_leader() {
    let mut counts = Counts::default();
    let seeds = chosen().unwrap_or_else(|| 0..seeds().end / 4 + 1);
    for seed in seeds.clone() {
        let outcome = catch_unwind(AssertUnwindSafe(|| Pair::new(seed).run(&mut counts)));
        assert!(outcome.is_ok(), "seed {seed} failed: run it alone with JOURNAL_SEED={seed}");
    }
    println!("{counts:?}");
    if seeds.count() >= 500 {
        counts.assert_everything_was_tried();
    }
}
