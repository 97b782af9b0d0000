//! Several logs in one ring of files: each is replayed in its order, goes on by itself, and ends
//! without a trace in the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{
    Activity, Address, Bits, Chunk, Disk, Flushed, Journal, LogEnd, LogId, Options, Owner, Owners, Reference, Replay,
    Restatement, Standing, Stepper, Ticket,
};
use parking_lot::Mutex;
use testkit::sim_disk::{Fault, SimDisk};

use crate::queues::{Queues, alive, body, check, small, step, step_with};

/// What is replayed of each log, in order.
#[derive(Default, PartialEq, Eq, Debug, Clone)]
struct Told(BTreeMap<LogId, Vec<String>>);

impl Told {
    fn note(&mut self, owner: Owner, what: String) {
        self.0.entry(LogId::of(owner)).or_default().push(what);
    }
}

impl Replay for Told {
    fn cold(&mut self, owner: Owner, page: u64, bytes: u64, chunk: Chunk) {
        self.note(owner, format!("chunk {owner} {page} {bytes} {chunk:?}"));
    }
    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.note(owner, format!("fact {owner} {kind} {bytes:?}"));
    }
    fn reference(&mut self, owner: Owner, first_seq: u64, mark: u64, bodies: &[Address]) {
        self.note(owner, format!("reference {owner} {first_seq} {mark} {bodies:?}"));
    }
    fn settled(&mut self, owner: Owner, reason: u8, runs: &[(u64, u64)]) {
        self.note(owner, format!("settled {owner} {reason} {runs:?}"));
    }
    fn dropped(&mut self, owner: Owner) {
        self.note(owner, format!("dropped {owner}"));
    }
    fn lost(&mut self, segment: u32, file: &str, what: &str) {
        panic!("{segment} {file} {what}");
    }
    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.note(owner, format!("burnt {owner} {first_seq} {count}"));
    }
}

/// Restates the last fact of each owner.
#[derive(Default)]
struct Facts(Mutex<BTreeMap<Owner, u64>>);

impl Owners for Facts {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        for owner in owners {
            let Some(value) = self.0.lock().get(owner).copied() else { continue };
            restatement.appender(LogId::of(*owner)).fact(None, *owner, 0, &[&value.to_le_bytes()]);
        }
        Vec::new()
    }
    fn referenced(&self, _: Owner, _: u32, _: &mut Vec<Reference>) {}
    fn unsettled(&self, _: Owner, _: u64, _: &mut Bits) {}
    fn moved(&self, _: Owner, _: u64, _: &[u32], _: Chunk, _: &[Reference]) -> u64 {
        0
    }
}

struct Life {
    journal: Journal,
    stepper: Stepper,
    facts: Arc<Facts>,
    told: Told,
}

impl Life {
    fn begin(disk: &SimDisk) -> Self {
        let mut told = Told::default();
        let opened = Journal::open(Arc::new(disk.clone()), small(), &mut told).unwrap();
        let facts = Arc::<Facts>::default();
        let (journal, stepper) =
            opened.start_stepped(&mut std::iter::empty(), Arc::<Facts>::clone(&facts), Box::new(|_| {}));
        Self { journal, stepper, facts, told }
    }

    fn say(&self, owner: Owner, value: u64) -> Ticket {
        self.facts.0.lock().insert(owner, value);
        let mut appender = self.journal.appender(LogId::of(owner));
        appender.fact(None, owner, 0, &[&value.to_le_bytes()]);
        appender.ticket()
    }

    /// Writes about an owner until the log has parted with so many files.
    fn turn(&self, owner: Owner, files: u32) {
        let until = self.journal.stats().oldest_file + files;
        for value in 0.. {
            self.say(owner, value);
            (0..200).for_each(|_| {
                self.say(owner, value);
            });
            self.stepper.flush().unwrap();
            while self.stepper.background(Activity::Busy) {}
            if self.journal.stats().oldest_file >= until {
                return;
            }
        }
    }
}

fn logs() -> [LogId; 3] {
    [LogId::SYSTEM, LogId::new(1).unwrap(), LogId::new(70_000).unwrap()]
}

fn disk() -> SimDisk {
    SimDisk::new(1, 8 << 20)
}

#[test]
fn what_several_logs_say_in_turn_comes_back_in_the_order_of_each() {
    let disk = disk();
    let life = Life::begin(&disk);
    let mut expected = Told::default();
    let mut tickets = Vec::new();
    for value in 0..3000 {
        let log = logs()[value as usize % 3];
        let owner = log.owner(value % 7);
        tickets.push(life.say(owner, value));
        expected.note(owner, format!("fact {owner} 0 {:?}", value.to_le_bytes()));
        if value % 300 == 0 {
            life.stepper.flush().unwrap();
        }
    }
    let late = tickets.split_off(2701);
    assert!(tickets.iter().all(|ticket| life.journal.is_durable(*ticket)));
    assert!(late.iter().all(|ticket| life.journal.standing(*ticket) == Standing::Pending));
    // One flush for all of them.
    let flushes = life.journal.stats().flushes;
    life.stepper.flush().unwrap();
    assert_eq!(life.journal.stats().flushes, flushes + 1);
    assert!(late.iter().all(|ticket| life.journal.standing(*ticket) == Standing::Durable));
    disk.power_cut();
    assert_eq!(Life::begin(&disk).told, expected);
}

/// With a thousand logs a write for each took ten times as long as the flush.
#[test]
fn what_many_logs_have_said_goes_out_in_one_write() {
    let disk = disk();
    let life = Life::begin(&disk);
    for number in 0..12 {
        life.say(LogId::new(number).unwrap().owner(1), 5);
    }
    life.say(LogId::SYSTEM.owner(1), 6);
    let before = disk.operations();
    life.stepper.flush().unwrap();
    assert_eq!(disk.operations() - before, 2, "a write and a flush");
    disk.power_cut();
    let told = Life::begin(&disk).told;
    assert_eq!(told.0.len(), 12);
    assert_eq!(told.0[&LogId::SYSTEM].len(), 2);
}

#[test]
fn a_log_that_ends_leaves_the_replay_of_the_others_as_it_was() {
    let disk = disk();
    let [system, staying, going] = logs();
    let life = Life::begin(&disk);
    for value in 0..500 {
        for log in logs() {
            life.say(log.owner(value % 7), value);
        }
    }
    life.stepper.flush().unwrap();
    drop(life);
    disk.power_cut();
    let life = Life::begin(&disk);
    let before = life.told.clone();
    // Its owners end one after the other, and others go on meanwhile.
    for number in 0..7 {
        life.journal.appender(going).drop_owner(None, going.owner(number), &mut std::iter::empty());
    }
    life.journal.end_log(going);
    life.stepper.flush().unwrap();
    drop(life);
    disk.power_cut();
    let life = Life::begin(&disk);
    assert_eq!((&life.told.0[&staying], &life.told.0[&system]), (&before.0[&staying], &before.0[&system]));
    assert_eq!(life.told.0[&going].len(), before.0[&going].len() + 7);
    // Nothing of it is left once the files have turned.
    life.facts.0.lock().extend((0..7).map(|number| (staying.owner(number), number)));
    life.journal.end_log(going);
    life.turn(system.owner(1), 20);
    drop(life);
    disk.power_cut();
    let life = Life::begin(&disk);
    assert!(!life.told.0.contains_key(&going) && !life.journal.logs().contains(&going));
    assert!(life.told.0[&staying].len() >= 7);
}

#[test]
fn an_idle_log_goes_on_where_it_was_after_its_files_have_left() {
    let disk = disk();
    let [system, idle, _] = logs();
    let life = Life::begin(&disk);
    for index in 1..=3 {
        assert_eq!(life.say(idle.owner(1), index), Ticket::at(idle, index));
        life.stepper.flush().unwrap();
    }
    life.turn(system.owner(1), 20);
    drop(life);
    disk.power_cut();
    let life = Life::begin(&disk);
    assert_eq!(life.journal.durable(idle), Ticket::at(idle, 3));
    life.turn(system.owner(1), 20);
    assert_eq!(life.say(idle.owner(1), 4), Ticket::at(idle, 4));
}

#[test]
fn tickets_of_a_journal_that_has_failed_are_unknown() {
    let disk = disk();
    let life = Life::begin(&disk);
    let [_, one, other] = logs();
    let durable = life.say(one.owner(1), 1);
    assert_eq!(life.stepper.flush().unwrap(), Flushed::Done);
    let (lost, elsewhere) = (life.say(one.owner(1), 2), life.say(other.owner(1), 2));
    disk.fault(1, Fault::Error);
    assert!(life.stepper.flush().is_err());
    let swallowed = life.say(one.owner(1), 3);
    for (ticket, standing) in [
        (Ticket::NONE, Standing::Durable),
        (durable, Standing::Durable),
        (lost, Standing::Unknown),
        (elsewhere, Standing::Unknown),
        (swallowed, Standing::Unknown),
    ] {
        assert_eq!(life.journal.standing(ticket), standing, "{ticket:?}");
    }
}

/// How far a log goes on a disk.
fn end_of(disk: &SimDisk, log: LogId) -> LogEnd {
    let copy = SimDisk::new(0, 8 << 20);
    for name in disk.names() {
        let bytes = disk.bytes(&name);
        assert_eq!(copy.create(&name).unwrap().write_at(&bytes, 0).unwrap(), bytes.len());
    }
    let verified = journal::verify(Arc::new(copy), &mut Told::default()).unwrap();
    assert!(verified.damages.is_empty(), "{:?}", verified.damages);
    verified.logs.into_iter().find(|end| end.log == log).unwrap()
}

/// The same batches have the same links, wherever they lie. One journal has the log to itself, in
/// large files. In the other its files turn beneath a backlog of another log, are copied, adopted
/// and merged.
#[test]
fn a_log_has_the_same_link_on_two_disks_that_have_nothing_else_in_common() {
    let (quiet, busy) = (SimDisk::new(1, 8 << 20), SimDisk::new(2, 8 << 20));
    let large = || Options { file_bytes: 256 << 10, max_bytes: 2 << 20, incarnation: 5, ..small() };
    let log = LogId::new(3).unwrap();
    let owner = log.owner(1);
    let (mut adopted, mut copied, mut merges) = (0, 0, 0);
    for _ in 0..3 {
        let (alone, beside) = (step_with(&quiet, large()), step(&busy));
        for at in 0..400 {
            crowd(&beside, at);
            for (journal, stepper, queues) in [&alone, &beside] {
                say_more(journal, stepper, queues, owner);
            }
        }
        let stats = beside.0.stats().segments;
        adopted += stats.adopted_files;
        copied += stats.evacuated_bytes;
        merges += stats.merges;
        for (disk, options, life) in [(&quiet, large(), alone), (&busy, small(), beside)] {
            let expected = alive(&life.2);
            drop(life);
            disk.power_cut();
            let (journal, _, queues) = step_with(disk, options);
            assert_eq!(alive(&queues), expected);
            check(&journal, &queues);
        }
    }
    assert!(adopted > 20 && copied > 0 && merges > 0, "{adopted} {copied} {merges}");
    assert_eq!(end_of(&quiet, log), end_of(&busy, log));
}

/// One entry with a body and a reference, one with a body, one with a reference to that, and some
/// with a settlement. None is longer than a block, so that where a file ends makes no difference.
fn say_more(journal: &Journal, stepper: &Stepper, queues: &Queues, owner: Owner) {
    let flush = || assert_eq!(stepper.flush().unwrap(), Flushed::Done);
    while stepper.background(Activity::Busy) {
        stepper.flush().unwrap();
    }
    let next = |owner| queues.next.lock().get(&owner).copied().unwrap_or(0);
    let seq = next(owner);
    queues.publish(journal, owner, &body(owner, seq, 1 + (seq * 7) as usize % 3000));
    flush();
    let (other, log) = (owner + 1, LogId::of(owner));
    let seq = next(other);
    let shared = journal.appender(log).body(&[&body(other, seq, 100)]);
    flush();
    queues.reference(journal, other, shared, 100);
    flush();
    for owner in [owner, other] {
        if let Some(one) = queues.of(owner).iter().find(|one| one.seq % 16 != 0).filter(|one| one.seq + 20 < seq) {
            queues.settle(journal, owner, one.seq);
            flush();
        }
    }
}

/// A backlog of the system's log: whole files of it stay, and of others next to nothing does.
fn crowd((journal, stepper, queues): &(Journal, Stepper, Arc<Queues>), at: u64) {
    for (owner, count) in [(1, if at.is_multiple_of(100) { 60 } else { 0 }), (2, 1)] {
        for _ in 0..count {
            let seq = queues.next.lock().get(&owner).copied().unwrap_or(0);
            queues.publish(journal, owner, &body(owner, seq, 3000));
        }
    }
    if let Some(one) = queues.of(2).iter().find(|one| one.seq % 32 != 0) {
        queues.settle(journal, 2, one.seq);
    }
    stepper.flush().unwrap();
}
