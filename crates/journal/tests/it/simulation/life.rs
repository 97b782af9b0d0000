//! The lives of one simulated journal: open, compare, work, come to an end, again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journal::{
    Activity, Address, Admission, Durability, Flushed, Group, Journal, LogId, OpenError, Opened, Options, Owner, PAGE,
    Reference, Stats, Stepper, Ticket,
};
use parking_lot::Mutex;
use testkit::sim_disk::{Fault, Random, SimDisk};

use super::memory::{Memory, OpenGroup, Places, Restater};
use super::model::{self, Body, Change, Replayed, World};

pub(super) const FILE: u32 = 64 << 10;
pub(super) const CAPACITY: u64 = 2 << 20;
/// How many times larger than its smallest a ring may be, as may its files.
const SCALES: [u64; 3] = [1, 2, 3];

/// How often everything happened, over all seeds.
#[derive(Default, Debug)]
pub(crate) struct Totals {
    pub(crate) lives: u64,
    pub(crate) grown: u64,
    pub(crate) shrunk: u64,
    pub(crate) recycled: u64,
    pub(crate) power_cuts: u64,
    pub(crate) restarts: u64,
    pub(crate) failures: u64,
    pub(crate) stalls: u64,
    pub(crate) closed_gates: u64,
    pub(crate) groups_cut: u64,
    pub(crate) tails_cut: u64,
    pub(crate) flips: u64,
    pub(crate) flips_refused: u64,
    pub(crate) references_compared: u64,
    pub(crate) moved: u64,
    pub(crate) copied: u64,
    pub(crate) adopted: u64,
    pub(crate) merges: u64,
    pub(crate) segments_found: u64,
    pub(crate) segment_failures: u64,
    pub(crate) damaged_bodies: u64,
    pub(crate) segments_lost: u64,
    pub(crate) drained: u64,
}

impl Totals {
    pub(crate) fn assert_everything_was_tried(&self) {
        let all = [
            self.lives,
            self.grown,
            self.shrunk,
            self.recycled,
            self.power_cuts,
            self.restarts,
            self.failures,
            self.stalls,
            self.closed_gates,
            self.groups_cut,
            self.tails_cut,
            self.flips,
            self.flips_refused,
            self.references_compared,
            self.moved,
            self.copied,
            self.adopted,
            self.merges,
            self.segments_found,
            self.segment_failures,
            self.damaged_bodies,
            self.segments_lost,
            self.drained,
        ];
        assert!(all.iter().all(|count| *count > 20), "something was hardly tried: {self:?}");
    }
}

/// One seed's journal.
pub(crate) struct Run {
    pub(super) random: Random,
    pub(super) disk: SimDisk,
    pub(super) options: Options,
    pub(super) memory: Arc<Mutex<Memory>>,
    /// What each body holds.
    pub(super) bodies: Vec<Vec<u8>>,
    /// Bodies that a publisher holds and will reference later.
    held: [Vec<Published>; LOGS.len()],
    next_owner: u64,
    /// How many of [`LOGS`] there are.
    logs: u64,
    lying: bool,
    /// Groups stay open longer than files live.
    long_groups: bool,
    /// Little is settled, so that a backlog grows.
    hoarding: bool,
    /// A few references are never settled, so that a little of each file stays alive.
    lingering: bool,
}

/// The system's log and another.
pub(super) const LOGS: [LogId; 2] = [LogId::SYSTEM, LogId::new(3).unwrap()];

/// How many entries of each log are there.
pub(super) type Prefix = [usize; LOGS.len()];

/// A body, where it lies, its length.
type Published = (Body, Address, u32);

/// How a life ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Ending {
    Closed,
    Restart,
    PowerCut,
}

impl Run {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let durability = if random.chance(20) { Durability::Os } else { Durability::Fsync };
        let options = Options {
            durability,
            // An eighth of the ring.
            file_bytes: u32::MAX,
            first_file_bytes: FILE,
            max_bytes: 8 * u64::from(FILE),
            max_batch_bytes: 4096 << random.below(4),
            incarnation: random.number(),
            progress: Arc::default(),
        };
        let disk = SimDisk::new(random.number(), CAPACITY);
        let (memory, bodies) = (Arc::default(), Vec::new());
        Self {
            random,
            disk,
            options,
            memory,
            bodies,
            held: Default::default(),
            next_owner: 5,
            logs: 1 + seed % 2,
            lying: false,
            long_groups: false,
            hoarding: false,
            lingering: false,
        }
    }

    pub(crate) fn lie_about_flushes(&mut self) {
        self.lying = true;
        self.options.durability = Durability::Fsync;
        self.disk.lie_about_flushes();
    }

    pub(crate) fn run(&mut self, totals: &mut Totals) {
        let mut durable = Prefix::default();
        for _ in 0..2 + self.random.below(4) {
            if self.random.chance(30) {
                self.resize(totals);
            }
            if self.random.chance(15) {
                // A fault while recovering: it must fail cleanly, and work the next time.
                self.disk.fault(1 + self.random.below(6), Fault::Crash);
                if self.options.durability == Durability::Os {
                    // The power may go before recovery has flushed what only the operating system
                    // had.
                    durable = Prefix::default();
                }
            }
            let (opened, replayed) = self.open();
            self.compare(&opened, replayed, durable, totals);
            let ending;
            (durable, ending) = self.live(opened, totals);
            if std::env::var("JOURNAL_SEED").is_ok() {
                println!(
                    "{ending:?} with {durable:?} durable under {:?}; {:?}",
                    self.options.durability,
                    self.disk.names()
                );
            }
            if ending == Ending::Closed && !self.lying && self.random.chance(50) {
                self.flip_bits(totals);
            }
        }
        let (opened, replayed) = self.open();
        self.compare(&opened, replayed, durable, totals);
    }

    /// The next life has a ring of another size.
    fn resize(&mut self, totals: &mut Totals) {
        let before = self.options.max_bytes;
        let scale = SCALES[self.random.below(SCALES.len() as u64) as usize];
        self.options.max_bytes = scale * 8 * u64::from(FILE);
        totals.grown += u64::from(self.options.max_bytes > before);
        totals.shrunk += u64::from(self.options.max_bytes < before);
    }

    /// Opens the journal. It may be refused only while a fault is at work.
    pub(super) fn open(&mut self) -> (Opened, Replayed) {
        for _ in 0..2 {
            let mut replayed = Replayed::default();
            match Journal::open(Arc::new(self.disk.clone()), self.options.clone(), &mut replayed) {
                Ok(opened) => return (opened, replayed),
                Err(error @ OpenError::Io { .. }) => {
                    assert!(error.to_string().contains("the machine has stopped"), "{error}");
                    self.disk.power_cut();
                }
                Err(error) => panic!("a false refusal: {error}"),
            }
        }
        panic!("the second attempt failed without a fault");
    }

    /// Each log's world must be what some prefix of its entries leaves that has all the first
    /// `durable` of them.
    pub(super) fn compare(&mut self, opened: &Opened, mut replayed: Replayed, durable: Prefix, totals: &mut Totals) {
        totals.lives += 1;
        assert!(replayed.lost.is_empty(), "nothing was damaged: {:?}", replayed.lost);
        let cold = replayed.cold().collect();
        totals.segments_found += replayed.cold().count() as u64;
        replayed.add_chunks(|chunk, page, into| opened.read_chunk(chunk, page, into)).unwrap();
        let found = self.world_of(&replayed, &mut |address| Some(opened.read(address).unwrap().to_vec()));
        totals.references_compared += replayed.places.len() as u64;
        let found = model::pruned(&found);
        for (log, durable) in LOGS.into_iter().zip(durable) {
            self.compare_log(log, &model::part_of(&found, log), durable, totals);
        }
        let mut memory = self.memory.lock();
        let length = |place: &(Owner, u64)| self.bodies[found[&place.0].references[&place.1]].len() as u32;
        let places: Places =
            replayed.places.iter().map(|(place, address)| (*place, (*address, length(place)))).collect();
        let unmeasured = places.keys().filter(|_| self.random.chance(70)).copied().collect();
        *memory = Memory { base: found.clone(), world: found, places, cold, unmeasured, ..Memory::default() };
    }

    fn compare_log(&self, log: LogId, found: &World, durable: usize, totals: &mut Totals) {
        let memory = self.memory.lock();
        let entries: Vec<_> = memory.entries.iter().filter(|entry| entry.log == log).cloned().collect();
        let base = model::part_of(&memory.base, log);
        let fold = |end: usize| model::pruned(&model::fold(&base, &entries[..end]));
        let prefixes = (durable..=entries.len()).rev();
        let Some(end) = prefixes.clone().find(|end| fold(*end) == *found) else {
            // Against the prefix that comes nearest.
            let expected = prefixes.map(fold).min_by_key(|world| model::difference(world, found).len()).unwrap();
            let (of, operations) = (entries.len(), self.disk.operations());
            panic!(
                "no prefix of {log:?} matches after {operations} operations; {durable} of {of} entries are durable\n{}",
                model::difference(&expected, found)
            );
        };
        totals.tails_cut += u64::from(end < entries.len());
        let entries = &entries[..end];
        let ended = |group: Group| {
            entries.iter().any(|entry| matches!(entry.change, Change::End { group: ended } if ended == group))
        };
        totals.groups_cut += u64::from(entries.iter().any(|entry| entry.group.is_some_and(|group| !ended(group))));
    }

    /// The replayed world with the body of each reference in it, as far as `read` gives one; each
    /// that it gives must be the body that was published under that number.
    fn world_of(&self, replayed: &Replayed, read: &mut dyn FnMut(Address) -> Option<Vec<u8>>) -> World {
        let memory = self.memory.lock();
        let mut expected: BTreeMap<(Owner, u64), Body> = BTreeMap::new();
        for (owner, state) in &memory.base {
            expected.extend(state.references.iter().map(|(seq, body)| ((*owner, *seq), *body)));
        }
        for entry in &memory.entries {
            if let Change::Reference { owner, first_seq, bodies } = &entry.change {
                expected.extend((*first_seq..).zip(bodies).map(|(seq, body)| ((*owner, seq), *body)));
            }
        }
        let mut world = replayed.world.clone();
        for ((owner, seq), address) in &replayed.places {
            let body = *expected.get(&(*owner, *seq)).unwrap_or_else(|| panic!("{owner}/{seq} was never appended"));
            if let Some(bytes) = read(*address) {
                assert_eq!(bytes, self.bodies[body], "the body of {owner}/{seq} at {address:?}");
            }
            world.entry(*owner).or_default().references.insert(*seq, body);
        }
        world
    }

    /// Works until a fault or the end of the script. Gives how many entries are durable.
    fn live(&mut self, opened: Opened, totals: &mut Totals) -> (Prefix, Ending) {
        let failures = Arc::new(AtomicU64::new(0));
        let (journal, stepper) = self.start(opened, &failures);
        let first = journal.stats().oldest_file;
        self.plan_faults();
        self.long_groups = self.random.chance(25);
        self.hoarding = self.random.chance(50);
        self.lingering = self.random.chance(50);
        let steps = 40 + self.random.below(400);
        let mut ending = None;
        for _ in 0..steps {
            if !self.step(&journal, &stepper, totals) {
                ending = Some(if self.random.chance(70) { Ending::PowerCut } else { Ending::Restart });
                break;
            }
        }
        if ending.is_none() && self.random.chance(20) {
            self.drain(&journal, &stepper, totals);
        }
        let durable = LOGS.map(|log| journal.durable(log));
        totals.recycled += u64::from(journal.stats().oldest_file - first);
        self.count(&journal.stats(), totals);
        totals.failures += failures.load(Ordering::Relaxed);
        assert!(failures.load(Ordering::Relaxed) <= 1, "a failure is told once");
        let ending = ending.unwrap_or_else(|| match self.random.below(3) {
            0 => Ending::PowerCut,
            1 => Ending::Restart,
            _ => Ending::Closed,
        });
        self.end(&journal, ending, durable, totals)
    }

    /// Starts the journal, which tells of its failures.
    pub(super) fn start(&mut self, opened: Opened, failures: &Arc<AtomicU64>) -> (Journal, Stepper) {
        let counted = Arc::clone(failures);
        let live: Vec<u32> = self.memory.lock().places.values().map(|(address, _)| address.file).collect();
        let on_failure = Box::new(move |_: &std::io::Error| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let owners = Arc::new(Restater(Arc::clone(&self.memory)));
        self.held.iter_mut().for_each(Vec::clear);
        opened.start_stepped(&mut live.into_iter().map(|file| (file, 1)), owners, on_failure)
    }

    /// Ends every group and settles every reference: of the segments nothing may be left, unless
    /// the journal has failed.
    pub(super) fn drain(&mut self, journal: &Journal, stepper: &Stepper, totals: &mut Totals) {
        self.end_groups(journal);
        let mut memory = self.memory.lock();
        let held = self.held.iter_mut().flat_map(|held| held.drain(..));
        held.for_each(|(_, address, _)| journal.appender(LogId::SYSTEM).release_hold(address));
        for ((owner, seq), (address, _)) in memory.places.clone() {
            let log = LogId::of(owner);
            let mut appender = journal.appender(log);
            appender.settle(None, owner, model::REASON, &[(seq, 1)], &[address]);
            memory.log(log, Change::Settle { owner, runs: vec![(seq, 1)] }, None, appender.ticket());
        }
        drop(memory);
        self.disk.set_capacity(4 * CAPACITY);
        for _ in 0..400 {
            stepper.background(Activity::Busy);
            if stepper.flush().is_err() || self.disk.has_crashed() {
                return;
            }
        }
        assert_eq!(journal.stats().segments.files, 0, "{:?}", journal.stats());
        let cold: Vec<_> = self.disk.names().into_iter().filter(|name| name.starts_with("cold/")).collect();
        assert!(cold.is_empty(), "{cold:?} {:?}", journal.stats());
        totals.drained += 1;
    }

    pub(super) fn end_groups(&self, journal: &Journal) {
        let mut memory = self.memory.lock();
        while let Some(OpenGroup { group, log, .. }) = memory.open.last().cloned() {
            let mut appender = journal.appender(log);
            appender.end_group(group);
            memory.log(log, Change::End { group }, None, appender.ticket());
        }
    }

    /// Adds up what became of the segments.
    fn count(&self, stats: &Stats, totals: &mut Totals) {
        totals.moved += std::mem::take(&mut self.memory.lock().moved);
        totals.copied += u64::from(stats.segments.evacuated_bytes > 0);
        totals.adopted += stats.segments.adopted_files;
        totals.merges += stats.segments.merges;
        totals.segment_failures += stats.segments.failures;
    }

    /// Ends a life. Gives how many entries must be there afterwards, and how it ended after all.
    fn end(
        &mut self,
        journal: &Journal,
        mut ending: Ending,
        mut durable: [Ticket; LOGS.len()],
        totals: &mut Totals,
    ) -> (Prefix, Ending) {
        if ending == Ending::Closed {
            self.disk.set_capacity(4 * CAPACITY);
            match journal.close() {
                Ok(()) => durable = LOGS.map(|log| journal.durable(log)),
                Err(_) => ending = Ending::Restart,
            }
        }
        let kept = match ending {
            // What the operating system has is kept as long as it runs, and lost with the power.
            Ending::PowerCut if self.options.durability == Durability::Os => Default::default(),
            _ => durable,
        };
        match ending {
            Ending::PowerCut => self.disk.power_cut(),
            Ending::Restart | Ending::Closed => self.disk.restart(),
        }
        totals.power_cuts += u64::from(ending == Ending::PowerCut);
        totals.restarts += u64::from(ending == Ending::Restart);
        self.disk.set_capacity(CAPACITY);
        if ending == Ending::Restart && self.random.chance(50) {
            // Recover once, then lose the power: what recovery kept must be on the disk.
            let opened = self.open().0;
            drop(opened);
            self.disk.power_cut();
        }
        let memory = self.memory.lock();
        let mut prefix = Prefix::default();
        for ((count, log), kept) in prefix.iter_mut().zip(LOGS).zip(kept) {
            let entries = memory.entries.iter().filter(|entry| entry.log == log);
            *count = entries.take_while(|entry| entry.ticket.is_within(kept)).count();
        }
        (prefix, ending)
    }

    fn plan_faults(&mut self) {
        let after = 1 + self.random.below(300);
        match self.random.below(10) {
            0..4 => self.disk.fault(after, Fault::Crash),
            4 => self.disk.fault(after, Fault::Error),
            5 => (0..10).for_each(|at| self.disk.fault(after + 7 * at, Fault::Short)),
            6 => self.disk.set_capacity(u64::from(FILE) * (3 + self.random.below(4))),
            _ => {}
        }
    }

    /// One thing happens. False if the journal has failed.
    pub(super) fn step(&mut self, journal: &Journal, stepper: &Stepper, totals: &mut Totals) -> bool {
        match self.random.below(100) {
            0..30 => self.publish(journal, totals),
            30..55 if self.hoarding && self.random.chance(70) => {}
            30..55 => self.settle(journal),
            55..60 => self.fact(journal),
            60..62 => self.drop_owner(journal),
            62..70 => self.group(journal),
            70..72 => return stepper.seal().is_ok(),
            72..80 => {
                for _ in 0..1 + self.random.below(12) {
                    stepper.background(if self.random.chance(20) { Activity::Idle } else { Activity::Busy });
                }
            }
            80..82 => journal.relieve(),
            82..85 => self.read_back(journal),
            _ => match stepper.flush() {
                Ok(Flushed::Stalled) => {
                    totals.stalls += 1;
                    if self.random.chance(30) {
                        self.disk.set_capacity(CAPACITY);
                    }
                }
                Ok(_) => {}
                Err(_) => return false,
            },
        }
        true
    }

    fn owner(&mut self) -> Owner {
        // Owners are never reused: after a drop a new number takes the place.
        let number = self.next_owner.saturating_sub(self.random.below(5));
        self.owner_of(number)
    }

    /// Of two logs each owner in turn is of the other one.
    fn owner_of(&self, number: u64) -> Owner {
        LOGS[(number % self.logs) as usize].owner(number)
    }

    /// One of this log.
    fn owner_in(&mut self, log: LogId) -> Owner {
        loop {
            let owner = self.owner();
            if LogId::of(owner) == log {
                return owner;
            }
        }
    }

    fn publish(&mut self, journal: &Journal, totals: &mut Totals) {
        if journal.admission() == Admission::Closed {
            totals.closed_gates += 1;
            return self.settle(journal);
        }
        let mut bodies = Vec::new();
        let place = self.random.below(self.logs) as usize;
        let log = LOGS[place];
        for _ in 0..1 + self.random.below(4) {
            let size = if self.random.chance(5) { self.random.below(20_000) } else { self.random.below(1500) };
            let fill = self.random.number().to_le_bytes();
            let body: Vec<u8> = fill.iter().copied().cycle().take(size as usize).collect();
            let (front, back) = body.split_at(body.len() / 3);
            let address = journal.appender(log).body(&[front, back]);
            bodies.push((self.bodies.len(), address, body.len() as u32));
            self.bodies.push(body);
        }
        if self.random.chance(10) {
            return self.held[place].append(&mut bodies);
        }
        if self.random.chance(20) {
            bodies.append(&mut self.held[place]);
        }
        let addresses: Vec<Address> = bodies.iter().map(|(_, address, _)| *address).collect();
        for _ in 0..1 + self.random.below(3) {
            // Numbers need not begin with the first, so that they come to more than one page.
            let (owner, start) = (self.owner_in(log), PAGE - self.random.below(100));
            let mut memory = self.memory.lock();
            let group = memory.open_in(log).filter(|_| self.random.chance(50));
            let state = memory.world.entry(owner).or_default();
            let first_seq = if state.next_seq == 0 { start } else { state.next_seq };
            state.next_seq = first_seq + bodies.len() as u64;
            let mut appender = journal.appender(log);
            appender.reference(group, owner, first_seq, owner ^ 0x1234, &addresses);
            let places =
                (first_seq..).zip(&bodies).map(|(seq, (_, address, length))| ((owner, seq), (*address, *length)));
            memory.places.extend(places);
            let bodies = bodies.iter().map(|(body, ..)| *body).collect();
            memory.log(log, Change::Reference { owner, first_seq, bodies }, group, appender.ticket());
        }
        let mut appender = journal.appender(log);
        addresses.iter().for_each(|address| appender.release_hold(*address));
    }

    fn settle(&mut self, journal: &Journal) {
        let owner = self.owner();
        let log = LogId::of(owner);
        let mut memory = self.memory.lock();
        let group = memory.open_in(log).filter(|_| self.random.chance(30));
        let taken = memory.settled_in_groups(owner);
        let Some(state) = memory.world.get(&owner) else { return };
        let limit = if self.random.chance(30) { 40 } else { 3 };
        let chosen: Vec<(u64, Address)> = state
            .references
            .iter()
            .filter(|(seq, _)| !(taken.contains(seq) || self.lingering && **seq % 16 == 0))
            .take(limit)
            .filter(|_| self.random.chance(90))
            .map(|(seq, _)| (*seq, memory.places[&(owner, *seq)].0))
            .collect();
        if chosen.is_empty() {
            return;
        }
        let runs: Vec<(u64, u64)> = chosen.iter().map(|(seq, _)| (*seq, 1)).collect();
        let freed: Vec<Address> = chosen.iter().map(|(_, address)| *address).collect();
        let mut appender = journal.appender(log);
        if self.random.chance(50) {
            appender.settle(group, owner, model::REASON, &runs, &freed);
        } else {
            appender.settle_counted(
                group,
                owner,
                model::REASON,
                &runs,
                &mut freed.iter().map(|address| (address.file, 1)),
            );
        }
        memory.log(log, Change::Settle { owner, runs }, group, appender.ticket());
    }

    fn fact(&mut self, journal: &Journal) {
        let (owner, value) = (self.owner(), self.random.number());
        let log = LogId::of(owner);
        let mut memory = self.memory.lock();
        let mut appender = journal.appender(log);
        appender.fact(None, owner, model::VALUE, &[&value.to_le_bytes()[..4], &value.to_le_bytes()[4..]]);
        memory.log(log, Change::Value { owner, value }, None, appender.ticket());
    }

    fn drop_owner(&mut self, journal: &Journal) {
        let mut memory = self.memory.lock();
        // An owner with business in an open group is left alone.
        if !memory.open.is_empty() {
            return;
        }
        let owner = self.owner_of(self.next_owner.saturating_sub(4));
        let log = LogId::of(owner);
        self.next_owner += 1;
        let places = memory.places.range((owner, 0)..=(owner, u64::MAX));
        let freed: Vec<Address> = places.map(|(_, (address, _))| *address).collect();
        let mut appender = journal.appender(log);
        appender.drop_owner(None, owner, &mut freed.iter().map(|address| (address.file, 1)));
        memory.log(log, Change::Drop { owner }, None, appender.ticket());
    }

    /// Begins a group, adds to one, or ends one.
    fn group(&mut self, journal: &Journal) {
        let (owner, member, dice) = (self.owner(), self.random.number(), self.random.below(4));
        let log = LogId::of(owner);
        let mut memory = self.memory.lock();
        let mut appender = journal.appender(log);
        let Some(group) = memory.open_in(log) else {
            let group = appender.begin_group();
            memory.open.push(OpenGroup { group, log, changes: Vec::new() });
            return;
        };
        if dice < 2 || (self.long_groups && self.random.chance(90)) {
            appender.fact(Some(group), owner, model::MEMBER, &[&member.to_le_bytes()]);
            memory.log(log, Change::Member { owner, member }, Some(group), appender.ticket());
        } else {
            appender.end_group(group);
            memory.log(log, Change::End { group }, None, appender.ticket());
        }
    }

    /// Reads some bodies, in any order. Nothing may be missing unless the machine has stopped.
    fn read_back(&mut self, journal: &Journal) {
        let memory = self.memory.lock();
        let visible = |((owner, seq), _): &(&(Owner, u64), _)| {
            memory.world.get(owner).is_some_and(|state| state.references.contains_key(seq))
        };
        let all: Places = memory.places.iter().filter(visible).map(|(place, at)| (*place, *at)).collect();
        let mut wanted: Vec<((Owner, u64), Reference)> = Vec::new();
        for ((owner, seq), (address, length)) in all {
            if self.random.chance(30) {
                let at = self.random.below(wanted.len() as u64 + 1) as usize;
                let length = if self.random.chance(10) { 0 } else { length };
                wanted.insert(at, ((owner, seq), Reference { seq, address, length }));
            }
        }
        let references: Vec<Reference> = wanted.iter().map(|(_, one)| *one).collect();
        match journal.read_all(&references) {
            Ok(bodies) => {
                for (((owner, seq), _), body) in wanted.iter().zip(bodies) {
                    assert_eq!(body[..], self.bodies[memory.world[owner].references[seq]][..]);
                }
            }
            Err(error) => assert!(self.disk.has_crashed(), "{error}"),
        }
    }

    /// A bit of a sealed log flips: the log is refused, or nothing is missing.
    fn flip_bits(&mut self, totals: &mut Totals) {
        for _ in 0..3 {
            let names = self.disk.names();
            let name = &names[self.random.below(names.len() as u64) as usize];
            // Most of a file is stale or zero; its start is not.
            let bits = 8 * self.disk.bytes(name).len() as u64;
            let bit =
                if self.random.chance(50) { self.random.below(bits) } else { self.random.below(bits.min(8 * 20_000)) };
            self.disk.flip_bit(name, bit);
            totals.flips += 1;
            let before: Vec<_> = names.iter().map(|name| self.disk.bytes(name)).collect();
            let mut replayed = Replayed::default();
            match Journal::open(Arc::new(self.disk.clone()), self.options.clone(), &mut replayed) {
                Err(_) => {
                    totals.flips_refused += 1;
                    let after: Vec<_> = names.iter().map(|name| self.disk.bytes(name)).collect();
                    assert_eq!(before, after, "a refused start changes nothing");
                }
                Ok(opened) => self.check_flipped(&opened, replayed, name, totals),
            }
            // A log that was opened has been tidied; it is whole without the flip, or does not have
            // the file any more.
            self.disk.flip_bit(name, bit);
        }
    }

    /// A journal that opens although a bit of `name` has flipped has all its records; a body or a
    /// chunk may be refused.
    fn check_flipped(&self, opened: &Opened, mut replayed: Replayed, name: &str, totals: &mut Totals) {
        let refused = |error: &std::io::Error| {
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
            true
        };
        if replayed
            .add_chunks(|chunk, page, into| opened.read_chunk(chunk, page, into))
            .is_err_and(|error| refused(&error))
        {
            totals.flips_refused += 1;
            return;
        }
        if !replayed.lost.is_empty() {
            assert!(replayed.lost[0].starts_with(name), "{name} was damaged, not {:?}", replayed.lost);
            totals.segments_lost += 1;
        }
        let found = self.world_of(&replayed, &mut |address| match opened.read(address) {
            Ok(body) => Some(body.to_vec()),
            Err(error) => {
                totals.damaged_bodies += u64::from(refused(&error));
                None
            }
        });
        if !replayed.lost.is_empty() {
            // What the index listed is not there; what is there is right.
            return;
        }
        let memory = self.memory.lock();
        let expected = model::pruned(&model::fold(&memory.base, &memory.entries));
        assert_eq!(model::pruned(&found), expected, "a flipped bit of {name} was taken for a torn tail");
    }
}
