//! The journal as its users see it: threads, a real directory, tickets and wakers, admission,
//! refusals.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::Duration;

use journal::{
    Activity, Address, Admission, Bits, Chunk, Disk, Durability, Flushed, Held, Journal, LogId, OpenError, Options,
    Owner, Owners, RealDisk, Reference, Replay, Restatement, Stepper, Ticket,
};
use testkit::sim_disk::{Fault, SimDisk};

/// Long enough for any machine; only a failing test waits it out.
const PATIENCE: Duration = Duration::from_secs(60);

/// Replays into lists.
#[derive(Default)]
struct Found {
    facts: Vec<(Owner, u8, Vec<u8>)>,
    references: BTreeMap<(Owner, u64), Address>,
    dropped: Vec<Owner>,
    burnt: Vec<(Owner, u64, u64)>,
}

impl Replay for Found {
    fn cold(&mut self, _: Owner, _: u64, _: u64, _: Chunk) {}

    fn fact(&mut self, owner: Owner, kind: u8, bytes: &[u8]) {
        self.facts.push((owner, kind, bytes.to_vec()));
    }

    fn reference(&mut self, owner: Owner, first_seq: u64, _: u64, bodies: &[Address]) {
        self.references.extend((first_seq..).zip(bodies).map(|(seq, body)| ((owner, seq), *body)));
    }

    fn settled(&mut self, owner: Owner, _: u8, runs: &[(u64, u64)]) {
        for (first, count) in runs {
            self.references.retain(|(of, seq), _| *of != owner || !(*first..first + count).contains(seq));
        }
    }

    fn lost(&mut self, _: u32, _: &str, _: &str) {}

    fn dropped(&mut self, owner: Owner) {
        self.dropped.push(owner);
    }

    fn burnt(&mut self, owner: Owner, first_seq: u64, count: u64) {
        self.burnt.push((owner, first_seq, count));
    }
}

/// Owners without a state of their own: what was restated is counted.
#[derive(Default)]
struct Counted(AtomicU64);

impl Owners for Counted {
    fn restate(&self, owners: &[Owner], restatement: &Restatement<'_>) -> Vec<Owner> {
        self.0.fetch_add(owners.len() as u64, Ordering::Relaxed);
        let mut appender = restatement.appender(LogId::SYSTEM);
        owners.iter().for_each(|owner| appender.fact(None, *owner, 9, &[b"restated"]));
        Vec::new()
    }

    fn referenced(&self, _: Owner, _: u32, _: &mut Vec<Reference>) {}

    fn unsettled(&self, _: Owner, _: u64, _: &mut Bits) {}

    fn moved(&self, _: Owner, _: u64, _: &[u32], _: Chunk, _: &[Reference]) -> u64 {
        0
    }
}

/// A waker that says so over a channel.
struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

fn bell() -> (Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Waker::from(Arc::new(Bell(sender))), receiver)
}

fn small() -> Options {
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

fn never_fails() -> Box<dyn Fn(&io::Error) + Send + Sync> {
    Box::new(|error| panic!("the journal has failed: {error}"))
}

fn open(disk: &Arc<dyn Disk>, options: &Options) -> Result<(Journal, Found), OpenError> {
    let mut found = Found::default();
    let opened = Journal::open(Arc::clone(disk), options.clone(), &mut found)?;
    let mut live = found.references.values().map(|address| (address.file, 1));
    Ok((opened.start(&mut live, Arc::<Counted>::default(), never_fails()), found))
}

fn step(disk: &SimDisk, options: &Options) -> (Journal, Stepper, Found) {
    let mut found = Found::default();
    let opened = Journal::open(Arc::new(disk.clone()), options.clone(), &mut found).unwrap();
    let mut live = found.references.values().map(|address| (address.file, 1));
    let (journal, stepper) = opened.start_stepped(&mut live, Arc::<Counted>::default(), Box::new(|_| {}));
    (journal, stepper, found)
}

/// Appends one body with one reference and gives its address and ticket.
fn publish(journal: &Journal, owner: Owner, seq: u64, body: &[u8]) -> (Address, Ticket) {
    let mut appender = journal.appender(LogId::SYSTEM);
    let address = appender.body(&[body]);
    appender.reference(None, owner, seq, 0, &[address]);
    appender.release_hold(address);
    (address, appender.ticket())
}

fn wait(journal: &Journal, ticket: Ticket) {
    let (waker, rung) = bell();
    journal.when_durable(ticket, &waker);
    rung.recv_timeout(PATIENCE).unwrap();
    assert!(journal.is_durable(ticket));
}

fn refused(disk: &Arc<dyn Disk>, options: &Options) -> OpenError {
    match Journal::open(Arc::clone(disk), options.clone(), &mut Found::default()) {
        Ok(_) => panic!("opened what should have been refused"),
        Err(error) => error,
    }
}

#[test]
fn what_was_durable_is_there_after_a_restart_on_a_real_disk() {
    for durability in [Durability::Fsync, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path().join("data")).unwrap().past_the_cache());
        let options = Options { durability, max_bytes: 4 << 20, ..small() };
        let (journal, _) = open(&disk, &options).unwrap();
        let bodies: Vec<Vec<u8>> = (0..40u8).map(|at| vec![at; 500 * usize::from(at)]).collect();
        let published: Vec<_> = (0..).zip(&bodies).map(|(seq, body)| publish(&journal, 3, seq, body)).collect();
        journal.appender(LogId::SYSTEM).settle(
            None,
            3,
            1,
            &[(0, 10)],
            &published[..10].iter().map(|at| at.0).collect::<Vec<_>>(),
        );
        let ticket = journal.appender(LogId::SYSTEM).ticket();
        wait(&journal, ticket);
        assert_eq!(journal.lag(), 0);
        for ((address, _), body) in published.iter().zip(&bodies) {
            assert_eq!(journal.read(*address).unwrap()[..], body[..]);
        }
        journal.close().unwrap();
        let (journal, found) = open(&disk, &options).unwrap();
        assert_eq!(found.references.len(), 30);
        assert_eq!(journal.read(found.references[&(3, 30)]).unwrap()[..], bodies[30][..]);
        journal.close().unwrap();
    }
}

/// A body that no reference follows: its ticket must become durable all the same.
#[test]
fn who_puts_off_waking_the_writer_wakes_it_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let (journal, _) = open(&disk, &small()).unwrap();
    for _ in 0..3 {
        let before = journal.stats().flushes;
        let mut appender = journal.appender(LogId::SYSTEM);
        let (address, ticket) = (appender.body(&[b"twice"]), appender.ticket());
        let unwoken = appender.and_more();
        journal.appender(LogId::SYSTEM).release_hold(address);
        drop(unwoken);
        wait(&journal, ticket);
        // The log is sealed, and the writer sleeps until it is woken.
        let sealed = || journal.stats().flushes >= before + 2;
        assert!((0..6000).any(|_| sealed() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    }
    journal.close().unwrap();
}

#[test]
fn a_writer_sleeps_until_the_last_of_what_belongs_together() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    type Follow = fn(&Journal, Address);
    let follows: [(&str, Follow); 3] = [
        ("nothing", |_, _| {}),
        ("a hold let go", |journal, body| journal.appender(LogId::SYSTEM).release_hold(body)),
        ("a reference", |journal, body| {
            journal.appender(LogId::SYSTEM).reference(None, 1, u64::from(body.offset), 0, &[body])
        }),
    ];
    for (what, follow) in follows {
        while stepper.run_writer().unwrap() == Flushed::Done {}
        let mut appender = journal.appender(LogId::SYSTEM);
        let (body, ticket) = (appender.body(&[b"body"]), appender.ticket());
        let unwoken = appender.and_more();
        assert_eq!(stepper.run_writer().unwrap(), Flushed::Idle, "{what}");
        follow(&journal, body);
        drop(unwoken);
        assert_eq!(stepper.run_writer().unwrap(), Flushed::Done, "{what}");
        assert!(journal.is_durable(ticket), "{what}");
        assert_eq!(stepper.run_writer().unwrap(), Flushed::Idle, "{what}");
    }
}

#[test]
fn publishers_on_many_threads_keep_the_ring_turning() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let (journal, _) = open(&disk, &small()).unwrap();
    std::thread::scope(|scope| {
        for owner in 1..5 {
            let journal = journal.clone();
            scope.spawn(move || {
                for seq in 0..300 {
                    let body = vec![owner as u8; 1500];
                    let (address, ticket) = publish(&journal, owner, seq, &body);
                    assert_eq!(journal.read(address).unwrap()[..], body[..]);
                    wait(&journal, ticket);
                    assert_eq!(journal.read(address).unwrap()[..], body[..]);
                    journal.appender(LogId::SYSTEM).settle(None, owner, 0, &[(seq, 1)], &[address]);
                }
            });
        }
    });
    let ticket = journal.appender(LogId::SYSTEM).ticket();
    wait(&journal, ticket);
    assert!(journal.stats().oldest_file > 2, "files were recycled: {:?}", journal.stats());
    // What the background restates comes on top, and is flushed like everything else.
    for _ in 0..1000 {
        if journal.lag() == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(journal.lag(), 0);
    journal.close().unwrap();
    let (journal, found) = open(&disk, &small()).unwrap();
    assert!(found.references.is_empty());
    assert!(found.facts.iter().any(|(_, kind, bytes)| *kind == 9 && bytes == b"restated"));
    journal.close().unwrap();
}

#[test]
fn only_one_may_have_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let (journal, _) = open(&disk, &small()).unwrap();
    let second: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let error = refused(&second, &small());
    assert!(matches!(error, OpenError::Locked));
    assert_eq!(
        error.to_string(),
        "the data directory is in use by another process; stop it or choose another directory"
    );
    journal.close().unwrap();
    open(&second, &small()).unwrap().0.close().unwrap();
}

#[test]
fn a_directory_of_something_else_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("holiday.jpg"), b"beach").unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    assert_eq!(
        refused(&disk, &small()).to_string(),
        "the data directory holds files that are not a journal (holiday.jpg); choose an empty directory"
    );
    std::fs::remove_file(folder.path().join("holiday.jpg")).unwrap();
    std::fs::create_dir(folder.path().join("lost+found")).unwrap();
    open(&disk, &small()).unwrap().0.close().unwrap();
}

#[cfg(unix)]
#[test]
fn files_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&root).unwrap());
    open(&disk, &small()).unwrap().0.close().unwrap();
    for (name, mode) in [("", 0o700), ("wal", 0o700), ("wal/0000.wal", 0o600), ("FORMAT", 0o600), ("LOCK", 0o600)] {
        assert_eq!(std::fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn in_memory_every_ticket_is_durable_and_bodies_are_kept_while_referenced() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, 0));
    let (journal, _) = open(&disk, &Options { durability: Durability::Memory, ..small() }).unwrap();
    let (address, ticket) = publish(&journal, 1, 0, b"hello");
    assert_eq!((ticket, journal.lag()), (Ticket::NONE, 0));
    wait(&journal, ticket);
    assert_eq!(journal.read(address).unwrap()[..], b"hello"[..]);
    let filler = vec![0; 40 << 10];
    let (mut seq, mut filled) = (1, Vec::new());
    while journal.admission() != Admission::Closed {
        filled.push(publish(&journal, 1, seq, &filler).0);
        seq += 1;
    }
    let (waker, rung) = bell();
    journal.on_admission_change(waker);
    journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(1, seq - 1)], &filled);
    journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(0, 1)], &[address]);
    let last = publish(&journal, 1, seq, &filler).0;
    rung.recv_timeout(PATIENCE).unwrap();
    assert_eq!(journal.read(last).unwrap().len(), 40 << 10);
    journal.close().unwrap();
    assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "nothing was written");
}

#[test]
fn a_group_counts_only_when_its_end_is_durable() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    let (first, _) = publish(&journal, 1, 0, b"first");
    let mut appender = journal.appender(LogId::SYSTEM);
    let (whole, cut) = (appender.begin_group(), appender.begin_group());
    for (group, owner) in [(whole, 2), (cut, 3)] {
        appender.reference(Some(group), owner, 5, 0, &[first, first]);
        appender.fact(Some(group), owner, 1, &[b"fact"]);
    }
    appender.end_group(whole);
    drop(appender);
    stepper.flush().unwrap();
    disk.power_cut();
    let (_, _, found) = step(&disk, &small());
    assert_eq!(found.references.keys().copied().collect::<Vec<_>>(), [(1, 0), (2, 5), (2, 6)]);
    assert_eq!(found.burnt, [(3, 5, 2)]);
    assert_eq!(found.facts, [(2, 1, b"fact".to_vec())]);
}

/// Half of the group would stand when the other log lost its tail.
#[test]
#[should_panic(expected = "the caller should have refused it")]
fn a_group_with_a_record_of_another_log_is_a_fault_of_the_caller() {
    let (journal, ..) = step(&SimDisk::new(4, 4 << 20), &small());
    let group = journal.appender(LogId::SYSTEM).begin_group();
    let other = LogId::new(1).unwrap();
    journal.appender(other).fact(Some(group), other.owner(1), 1, &[b"fact"]);
}

/// A purge says runs that span what was settled before. That took along what an open group had
/// settled, which must be there again when the group does not end.
#[test]
fn a_run_takes_nothing_along_that_an_open_group_settles() {
    for ends in [false, true] {
        let disk = SimDisk::new(4, 4 << 20);
        let (journal, stepper, _) = step(&disk, &small());
        let bodies: Vec<Address> = (1..=10).map(|seq| publish(&journal, 1, seq, b"body").0).collect();
        let mut appender = journal.appender(LogId::SYSTEM);
        let group = appender.begin_group();
        appender.settle(Some(group), 1, 0, &[(5, 1)], &bodies[4..5]);
        appender.settle_counted(None, 1, 5, &[(1, 10)], &mut std::iter::once((bodies[0].file, 9)));
        if ends {
            appender.end_group(group);
        }
        drop(appender);
        stepper.flush().unwrap();
        disk.power_cut();
        let (_, _, found) = step(&disk, &small());
        let left: Vec<_> = found.references.keys().copied().collect();
        let expected: &[(Owner, u64)] = if ends { &[] } else { &[(1, 5)] };
        assert_eq!(left, expected, "ends: {ends}");
    }
}

#[test]
fn a_file_with_an_open_group_or_a_live_body_stays() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    let filler = vec![7; 12 << 10];
    let fill = |owner| {
        for seq in 0..8 {
            let (address, _) = publish(&journal, owner, seq, &filler);
            journal.appender(LogId::SYSTEM).settle(None, owner, 0, &[(seq, 1)], &[address]);
            stepper.flush().unwrap();
        }
    };
    let turn = || {
        for _ in 0..100 {
            stepper.background(Activity::Idle);
            stepper.flush().unwrap();
        }
    };
    let group = journal.appender(LogId::SYSTEM).begin_group();
    journal.appender(LogId::SYSTEM).fact(Some(group), 1, 1, &[b"in the group"]);
    let (held, _) = publish(&journal, 2, 0, b"held");
    fill(3);
    fill(4);
    turn();
    assert_eq!(journal.stats().oldest_held, Held::Live(1));
    journal.appender(LogId::SYSTEM).settle(None, 2, 0, &[(0, 1)], &[held]);
    turn();
    assert_eq!((journal.stats().oldest_file, journal.stats().oldest_held), (1, Held::Group));
    journal.appender(LogId::SYSTEM).end_group(group);
    turn();
    assert!(journal.stats().oldest_file > 1);
    assert!(journal.stats().files <= 2, "an idle, dead log shrinks: {:?}", journal.stats());
    assert!(journal.read(held).is_err(), "a recycled address gives an error, not other bytes");
}

#[test]
fn the_gate_closes_before_the_ring_is_full_and_settlements_still_pass() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    let (waker, rung) = bell();
    journal.on_admission_change(waker);
    let mut addresses = Vec::new();
    let mut seen = Vec::new();
    while journal.admission() != Admission::Closed {
        addresses.push(publish(&journal, 1, addresses.len() as u64, &[1; 4000]).0);
        stepper.flush().unwrap();
        if seen.last() != Some(&journal.admission()) {
            seen.push(journal.admission());
        }
    }
    assert_eq!(seen, [Admission::Open, Admission::Headroom, Admission::Closed]);
    assert_eq!(rung.try_iter().count(), 1, "a waker is woken once");
    assert!(journal.stats().used_bytes <= journal.stats().max_bytes);
    for (seq, address) in (0..).zip(&addresses) {
        journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(seq, 1)], &[*address]);
        stepper.flush().unwrap();
        stepper.background(Activity::Busy);
    }
    for _ in 0..100 {
        stepper.background(Activity::Busy);
        stepper.flush().unwrap();
    }
    assert_eq!(journal.admission(), Admission::Open, "{:?}", journal.stats());
}

/// The background works and the writer flushes, until there is nothing more to do.
fn settle_down(stepper: &Stepper) {
    for _ in 0..100 {
        stepper.background(Activity::Busy);
        stepper.flush().unwrap();
    }
}

#[test]
fn a_head_larger_than_the_files_of_a_smaller_ring_goes_once_it_is_dead() {
    let large = Options { file_bytes: 1 << 20, first_file_bytes: 1 << 20, max_bytes: 8 << 20, ..small() };
    // How the first life ends, and how much of what it published it has settled by then.
    for (closed, settled_before) in [(true, 0), (false, 0), (true, 40), (false, 40), (true, 39), (false, 39)] {
        let disk = SimDisk::new(4, 16 << 20);
        let (journal, stepper, _) = step(&disk, &large);
        for seq in 0..40 {
            let (address, _) = publish(&journal, 1, seq, &[seq as u8; 16 << 10]);
            if seq < settled_before {
                journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(seq, 1)], &[address]);
            }
            stepper.flush().unwrap();
        }
        if closed {
            journal.close().unwrap();
        }
        drop((journal, stepper));
        disk.power_cut();
        let (journal, stepper, found) = step(&disk, &small());
        assert_eq!(found.references.len() as u64, 40 - settled_before);
        assert_eq!(journal.admission(), Admission::Closed);
        settle_down(&stepper);
        let left = found.references.len();
        assert_eq!(journal.admission(), if left == 0 { Admission::Open } else { Admission::Closed }, "{left} left");
        // A crash before anything is in the next file, and one after: the log goes on there all the
        // same.
        disk.power_cut();
        drop((journal, stepper));
        let (journal, stepper, found) = step(&disk, &small());
        assert_eq!(found.references.len(), left);
        for ((owner, seq), address) in &found.references {
            assert_eq!(journal.read(*address).unwrap()[..], [*seq as u8; 16 << 10]);
            journal.appender(LogId::SYSTEM).settle(None, *owner, 0, &[(*seq, 1)], &[*address]);
            stepper.flush().unwrap();
        }
        settle_down(&stepper);
        assert_eq!(journal.admission(), Admission::Open, "{:?}", journal.stats());
        assert!(journal.stats().used_bytes < 512 << 10, "the large file is gone: {:?}", journal.stats());
        let (_, ticket) = publish(&journal, 1, 40, b"goes on");
        stepper.flush().unwrap();
        assert!(journal.is_durable(ticket));
        drop((journal, stepper));
        disk.power_cut();
        // Files of the small ring are followed by large ones again.
        let (journal, _, found) = step(&disk, &large);
        assert_eq!(found.references.keys().collect::<Vec<_>>(), [&(1, 40)]);
        assert_eq!(journal.read(found.references[&(1, 40)]).unwrap()[..], b"goes on"[..]);
    }
}

#[test]
fn an_empty_head_larger_than_the_files_of_a_smaller_ring_is_used_in_part() {
    let large = Options { first_file_bytes: 1 << 20, file_bytes: 1 << 20, max_bytes: 8 << 20, ..small() };
    let disk = SimDisk::new(4, 16 << 20);
    drop(step(&disk, &large));
    disk.restart();
    let (journal, stepper, _) = step(&disk, &small());
    for seq in 0..20 {
        publish(&journal, 1, seq, &[1; 8000]);
        stepper.flush().unwrap();
    }
    assert!(journal.stats().files > 1, "{:?}", journal.stats());
    drop((journal, stepper));
    disk.power_cut();
    let (_, _, found) = step(&disk, &small());
    assert_eq!(found.references.len(), 20);
}

#[test]
fn a_ring_full_of_what_is_dead_opens_after_a_restart_without_anything_new() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    let mut published = Vec::new();
    while journal.admission() != Admission::Closed {
        published.push(publish(&journal, 1, published.len() as u64, &[1; 4000]).0);
        stepper.flush().unwrap();
    }
    journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(0, published.len() as u64)], &published);
    stepper.flush().unwrap();
    drop((journal, stepper));
    disk.power_cut();
    let (journal, stepper, found) = step(&disk, &small());
    assert!(found.references.is_empty());
    settle_down(&stepper);
    assert_eq!(journal.stats().oldest_file, 1, "owners are not asked before the first who needs room");
    assert_eq!(journal.admission(), Admission::Closed);
    settle_down(&stepper);
    assert_eq!(journal.admission(), Admission::Open, "{:?}", journal.stats());
}

/// What an idle log says again when a file leaves was taken off what waits, and had not been added.
/// From then on there seemed to wait more than any limit, and publishers were paced for ever.
#[test]
fn what_waits_is_counted_though_idle_logs_say_again_how_far_they_go() {
    let disk = SimDisk::new(4, 4 << 20);
    let (journal, stepper, _) = step(&disk, &small());
    let idle = LogId::new(3).unwrap();
    let address = journal.appender(idle).body(&[b"idle"]);
    journal.appender(idle).release_hold(address);
    for seq in 0..100 {
        let (address, _) = publish(&journal, 1, seq, &[1; 4000]);
        assert!(journal.lag() >= 4000 && journal.lag() < 64 << 10, "{}", journal.lag());
        journal.appender(LogId::SYSTEM).settle(None, 1, 0, &[(seq, 1)], &[address]);
        settle_down(&stepper);
        assert_eq!(journal.lag(), 0);
    }
    assert!(journal.stats().oldest_file > 2, "files were recycled: {:?}", journal.stats());
}

#[test]
fn a_full_disk_closes_the_gate_and_is_no_failure() {
    let disk = SimDisk::new(4, 64 << 10 << 2);
    let (journal, stepper, _) = step(&disk, &small());
    assert_eq!(journal.admission(), Admission::Open);
    disk.set_capacity(80 << 10);
    let mut ticket = Ticket::NONE;
    for seq in 0..20 {
        ticket = publish(&journal, 1, seq, &[1; 8000]).1;
    }
    assert_eq!(stepper.flush().unwrap(), Flushed::Done, "what fits is written");
    assert_eq!(stepper.flush().unwrap(), Flushed::Stalled);
    assert!(!journal.is_durable(ticket) && journal.lag() > 0);
    stepper.background(Activity::Busy);
    assert_eq!(journal.admission(), Admission::Closed);
    assert!(journal.stats().ready_failures > 0);
    disk.set_capacity(4 << 20);
    assert_eq!(stepper.flush().unwrap(), Flushed::Done);
    assert!(journal.is_durable(ticket) && journal.lag() == 0);
    stepper.background(Activity::Busy);
    assert_eq!(journal.admission(), Admission::Open);
}

/// Whatever was written to a file that has no name goes with the process: nothing may be confirmed
/// any more.
#[test]
fn a_log_file_that_is_deleted_or_cut_short_ends_the_log() {
    type Harm = fn(&SimDisk, &str);
    let harms: [(&str, Harm); 2] = [("deleted", |disk, name| disk.unlink(name)), ("cut short", SimDisk::cut)];
    for (what, harm) in harms {
        let disk = SimDisk::new(4, 4 << 20);
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let opened = Journal::open(Arc::new(disk.clone()), small(), &mut Found::default()).unwrap();
        let tell = Arc::clone(&told);
        let on_failure = Box::new(move |error: &io::Error| tell.lock().unwrap().push(error.to_string()));
        let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), Arc::<Counted>::default(), on_failure);
        publish(&journal, 1, 0, b"before");
        stepper.flush().unwrap();
        while stepper.background(Activity::Busy) {}
        assert!(told.lock().unwrap().is_empty());
        let log: Vec<_> = disk.names().into_iter().filter(|name| name.starts_with("wal/")).collect();
        harm(&disk, &log[0]);
        stepper.background(Activity::Idle);
        let told = told.lock().unwrap();
        assert!(told.len() == 1 && told[0].starts_with(&format!("{} was {what}", log[0])), "{told:?}");
        let (_, ticket) = publish(&journal, 1, 1, b"after");
        assert!(stepper.flush().is_err() && !journal.is_durable(ticket), "{what}");
    }
}

#[test]
fn a_failed_flush_is_told_once_and_nothing_is_durable_afterwards() {
    let disk = SimDisk::new(4, 4 << 20);
    let told = Arc::new(AtomicU64::new(0));
    let opened = Journal::open(Arc::new(disk.clone()), small(), &mut Found::default()).unwrap();
    let count = Arc::clone(&told);
    let on_failure = Box::new(move |_: &io::Error| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let (journal, stepper) = opened.start_stepped(&mut std::iter::empty(), Arc::<Counted>::default(), on_failure);
    let (_, ticket) = publish(&journal, 1, 0, b"before");
    disk.fault(2, Fault::Error);
    assert!(stepper.flush().is_err());
    assert!(!journal.is_durable(ticket));
    let (_, ticket) = publish(&journal, 1, 1, b"swallowed");
    assert!(stepper.flush().is_err() && stepper.seal().is_err() && journal.close().is_err());
    assert!(!journal.is_durable(ticket));
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
