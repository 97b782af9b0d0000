//! Races with the pager. Merges and the sweep go on each time it opens an index, on a disk of the
//! test's own. Clients go on between its read and its report. The sweep overtakes a redrive as
//! well.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use broker::{
    Browse, Consume, ConsumerArguments, Content, DeleteIf, Dialect, DialectId, Dialects, Error, Fetch, Outcome,
    Properties, Publish, RedriveMode, Redriven, Settling, Tags,
};
use journal::{Disk, DiskFile, Lock};
use testkit::broker::{Setup, TestBroker, TextDialect};
use testkit::peer::{Peer, Received, Seen};
use testkit::sim_disk::SimDisk;

use crate::{dead_letters_to, durable, durable_with, message};

/// Bytes that queues may hold in memory; the pager reads a sixteenth of it at once.
const BUDGET: u64 = 2 << 20;
/// Steps of the background for each index that the pager opens: about one merge.
const STEPS: usize = 10;
/// As little memory for queues that one page of entries is too much.
const TIGHT: u64 = 64 << 10;
/// The distance of the due times at the start of the test, in milliseconds.
const AHEAD: u64 = 595_968;
/// The due time, in milliseconds since 1970: the start of a bucket's span.
const DUE: u64 = 1_700_000_000_000 + AHEAD;

/// A disk on which other work goes on before the pager's reads.
struct Busy {
    disk: SimDisk,
    broker: OnceLock<Weak<TestBroker>>,
    others: fn(&TestBroker),
    /// Held while the other work goes on: files that it opens start no more of it.
    working: Mutex<()>,
}

impl Busy {
    /// Stops a broker and opens it again with little memory, on a disk on which `others` go first
    /// from then on.
    fn open_again(disk: SimDisk, broker: TestBroker, others: fn(&TestBroker)) -> (Arc<Self>, Arc<TestBroker>) {
        let busy = Arc::new(Self { disk, broker: OnceLock::new(), others, working: Mutex::new(()) });
        let mut setup = broker.stop();
        setup.disk = Arc::clone(&busy) as Arc<dyn Disk>;
        setup.settings.memory_budget = TIGHT;
        let broker = Arc::new(TestBroker::open(setup));
        assert!(busy.broker.set(Arc::downgrade(&broker)).is_ok());
        (busy, broker)
    }
}

impl Disk for Busy {
    fn lock(&self) -> io::Result<Option<Lock>> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let broker = self.broker.get().and_then(Weak::upgrade);
        if let (Some(broker), Ok(_working)) = (broker.filter(|_| name.ends_with(".idx")), self.working.try_lock()) {
            (self.others)(&broker);
        }
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn free(&self) -> io::Result<u64> {
        self.disk.free()
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.size()
    }
}

fn publish(peer: &mut Peer, broker: &TestBroker, count: u64) {
    let session = peer.session(1);
    for number in 0..count {
        // Half of every segment belongs to the queue that is drained, so that segments are worth
        // merging.
        for queue in ["drained", "kept"] {
            peer.client.publish(session, message("", queue, format!("{number:0300}").as_bytes())).unwrap();
        }
        if number % 50 == 49 {
            peer.client.flush(broker.now());
            broker.flush();
            broker.background(100);
        }
    }
    peer.client.flush(broker.now());
    broker.flush();
}

/// Takes and accepts everything that comes. The background works only when the disk makes it.
fn drain(peer: &mut Peer, broker: &TestBroker, queue: &str) -> Vec<u64> {
    peer.consume(broker, 0, Consume { source: queue.into(), tag: queue.into(), ..Consume::default() });
    let all = drain_on(peer, broker);
    let session = peer.session(1);
    peer.client.cancel(session, queue, broker.now(), &mut |_| ());
    all
}

/// The same with the present consumer.
fn drain_on(peer: &mut Peer, broker: &TestBroker) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        peer.client.flush(broker.now());
        broker.flush();
        let came = peer.drain(broker);
        if !accept(peer, came, &mut all) {
            return all;
        }
    }
}

/// Accepts the deliveries, and notes them; false if there was none.
fn accept(peer: &mut Peer, seen: Vec<Seen>, all: &mut Vec<u64>) -> bool {
    let came: Vec<Received> = seen
        .into_iter()
        .filter_map(|seen| if let Seen::Delivery(received) = seen { Some(received) } else { None })
        .collect();
    let Some(last) = came.last().map(|received| received.tag) else { return false };
    let session = peer.session(1);
    peer.client.settle(session, Tags::UpTo(last), &Outcome::Accepted).unwrap();
    all.extend(came.iter().map(|received| received.body.parse::<u64>().unwrap()));
    true
}

/// A queue stopped "at a message in an index that can't be read", until the next start. Merges had
/// moved its bodies between four of the pager's attempts. No message was lost, and none was
/// delivered either.
#[test]
fn a_queue_goes_on_while_merges_overtake_its_reading() {
    const COUNT: u64 = 10_000;
    let disk = SimDisk::new(1, 256 << 20);
    let mut setup = Setup::stepped(&disk, 1 << 20);
    setup.settings.memory_budget = TIGHT;
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    for queue in ["drained", "kept"] {
        peer.client.declare_queue(&durable(queue), broker.now()).unwrap();
    }
    publish(&mut peer, &broker, COUNT);
    assert_eq!(drain(&mut peer, &broker, "drained"), (0..COUNT).collect::<Vec<_>>());
    peer.client.close(broker.now());
    drop(peer);
    let merge = |broker: &TestBroker| assert!(broker.background(STEPS));
    let (_busy, broker) = Busy::open_again(disk, broker, merge);
    let before = broker.broker.overview().journal;
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    assert_eq!(drain(&mut peer, &broker, "kept"), (0..COUNT).collect::<Vec<_>>());
    assert_eq!(broker.broker.take_damages(), Vec::<String>::new());
    let merges = broker.broker.overview().journal.segments.merges - before.segments.merges;
    assert!(merges >= 4, "merges came in between: {merges}, of {} segments", before.segments.files);
}

/// A queue with a backlog of so many messages in the log, most of them away.
fn backlog(count: u64) -> (Arc<TestBroker>, Peer) {
    let disk = SimDisk::new(1, 256 << 20);
    let mut setup = Setup::stepped(&disk, 64 << 20);
    setup.settings.memory_budget = BUDGET;
    let broker = Arc::new(TestBroker::open(setup));
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    let session = peer.session(1);
    for number in 0..count {
        peer.client.publish(session, message("", "q", number.to_string().as_bytes())).unwrap();
        if number % 50 == 49 {
            peer.client.flush(broker.now());
            broker.flush();
        }
    }
    (broker, peer)
}

/// A consumer that takes everything it can while the pager does nothing, and waits for the disk
/// `flushes` times.
fn race(broker: &TestBroker, peer: &mut Peer, all: &mut Vec<u64>, flushes: usize) -> bool {
    let before = all.len();
    for _ in 0..=flushes {
        loop {
            let mut seen = Vec::new();
            peer.drain_some(broker, &mut seen);
            if !accept(peer, seen, all) {
                break;
            }
            peer.client.flush(broker.now());
        }
        if flushes > 0 {
            assert!(broker.try_flush());
            broker.housekeep_only();
        }
    }
    all.len() > before
}

/// Drains of twenty million messages stopped for good in one of ten runs. The pager had found
/// nothing to read, since the consumers had a full prefetch. Before it said so they had taken the
/// rest from memory, and they did not ask, since the pager was at work.
#[test]
fn a_queue_goes_on_when_its_consumer_overtakes_the_pager() {
    const COUNT: u64 = 50_000;
    let (broker, mut peer) = backlog(COUNT);
    peer.consume(&broker, 100, Consume { source: "q".into(), tag: "c".into(), ..Consume::default() });
    let consumer = Arc::new(Mutex::new((peer, Vec::new())));
    let overtakes = Arc::new(AtomicUsize::new(0));
    for _ in 0..200 {
        {
            let (peer, all) = &mut *consumer.lock().unwrap();
            race(&broker, peer, all, 0);
        }
        // A queue asks the pager while deliveries wait for their mark. Its consumer has a full
        // prefetch once that is flushed.
        assert!(broker.try_flush());
        broker.housekeep_only();
        let (faster, shared, count) = (Arc::clone(&broker), Arc::clone(&consumer), Arc::clone(&overtakes));
        broker.page_overtaken_by(move || {
            let (peer, all) = &mut *shared.lock().unwrap();
            count.fetch_add(usize::from(race(&faster, peer, all, 3)), Ordering::SeqCst);
        });
    }
    let all = std::mem::take(&mut consumer.lock().unwrap().1);
    let left = broker.broker.queues()[0].ready;
    assert_eq!((all.len() as u64, left), (COUNT, 0), "messages taken and left");
    assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
    assert!(overtakes.load(Ordering::SeqCst) > 3, "{overtakes:?} times the consumer was faster");
}

/// A get waited for ever, or until the next event of its connection. Its message had been read, and
/// the pager was asked for more before the client looked.
#[test]
fn a_get_has_its_message_as_soon_as_it_is_woken() {
    let (broker, mut peer) = backlog(50_000);
    let session = peer.session(1);
    let mut woken = 0;
    for number in 0..20_000 {
        let mut got = None;
        let now = broker.now();
        let mut report = |delivery: &broker::Delivery<'_>, _| got = Some(Received::of(delivery).body.parse::<u64>());
        while let Fetch::Wait(ticket) = peer.client.get(session, "q", Settling::Auto, now, &mut report).unwrap() {
            peer.wakes.take();
            while !peer.client.durable(ticket) {
                loop {
                    assert!(broker.try_flush());
                    broker.housekeep_only();
                    let more = broker.page_once();
                    if peer.wakes.take() {
                        break;
                    }
                    assert!(more, "get {number} is never woken");
                }
                woken += 1;
            }
        }
        assert_eq!(got, Some(Ok(number)));
    }
    assert!(woken > 3, "{woken} times a get waited");
}

/// While the pager read for a consumer with a selector, the message of a get went to that consumer,
/// or its queue was deleted. The get was not woken.
#[test]
fn a_get_is_woken_when_what_it_waits_for_goes_to_a_selector_or_with_its_queue() {
    for deleted in [false, true] {
        let mut setup = Setup::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
        // Only one message is read at once.
        setup.settings.memory_budget = 100;
        let broker = TestBroker::open(setup);
        let mut peer = Peer::attach(&broker, "guest").unwrap();
        peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
        let session = peer.session(1);
        for number in ["n=1", "n=2"] {
            let publish = Publish { properties: number.as_bytes(), ..message("", "q", number.as_bytes()) };
            peer.client.publish(session, publish).unwrap();
            peer.turn(&broker);
        }
        // The pager has read for a get, so views come first the next time.
        let fetch =
            |peer: &mut Peer| peer.client.get(session, "q", Settling::Auto, broker.now(), &mut |_, _| ()).unwrap();
        let got = (0..10).any(|_| {
            let got = fetch(&mut peer);
            broker.flush();
            got == Fetch::Message
        });
        assert!(got, "the first comes");
        let arguments = Ok(ConsumerArguments { selector: "n = 2".into(), ..ConsumerArguments::default() });
        peer.consume(&broker, 0, Consume { source: "q".into(), tag: "c".into(), arguments, ..Consume::default() });
        let mut other = Peer::attach(&broker, "guest").unwrap();
        other.session(1);
        let Fetch::Wait(ticket) = fetch(&mut other) else { panic!("the second is away") };
        other.wakes.take();
        let (third, now) = (Mutex::new(Peer::attach(&broker, "guest").unwrap()), broker.now());
        broker.page_overtaken_by(move || {
            if deleted {
                third.lock().unwrap().client.delete_queue("q", DeleteIf::ALWAYS, now).unwrap();
            }
        });
        broker.flush();
        assert!(other.wakes.take() && other.client.durable(ticket), "deleted: {deleted}");
        assert_eq!(peer.drain(&broker).len(), 1, "deleted: {deleted}");
    }
}

/// Recycles the log, so that its messages are in segments. The pager does nothing meanwhile.
fn turn_over(peer: &mut Peer, broker: &TestBroker) {
    peer.client.declare_queue(&durable("other"), broker.now()).unwrap();
    let session = peer.session(1);
    for _ in 0..250 {
        peer.client.publish(session, message("", "other", &[b'x'; 8000])).unwrap();
        peer.client.flush(broker.now());
        assert!(broker.background(100));
        assert_eq!(peer.client.purge_queue("other", broker.now()).unwrap().0, 1);
    }
    assert!(broker.background(1000));
}

/// Publishes these numbers to `q`, each due at `due` of its number. The pager does nothing
/// meanwhile.
fn delay(peer: &mut Peer, broker: &TestBroker, numbers: Range<u64>, due: fn(u64) -> u64) {
    let session = peer.session(1);
    for number in numbers {
        let (properties, body) = (format!("x-opt-delivery-time={}\n", due(number)), number.to_string());
        let delayed = message("", "q", body.as_bytes());
        let delayed = Publish { properties: properties.as_bytes(), instructed: true, ..delayed };
        peer.client.publish(session, delayed).unwrap();
        if number % 50 == 49 {
            peer.client.flush(broker.now());
            assert!(broker.background(100));
        }
    }
}

/// Takes and accepts all deliveries of ten seconds, while `background` makes room in the log.
fn take_due(peer: &mut Peer, broker: &TestBroker, background: &dyn Fn()) -> Vec<u64> {
    peer.consume(broker, 0, Consume { source: "q".into(), tag: "q".into(), ..Consume::default() });
    let mut all = Vec::new();
    for _ in 0..200 {
        broker.setup.clock.advance(50);
        peer.client.flush(broker.now());
        broker.flush();
        background();
        let came = peer.drain(broker);
        accept(peer, came, &mut all);
    }
    all
}

/// The sweep had made a page absent again while the pager placed others. Due messages in it were
/// taken for purged, and came after the next start.
#[test]
fn what_is_due_comes_while_the_sweep_overtakes_its_placing() {
    const COUNT: u64 = 10_000;
    let disk = SimDisk::new(1, 256 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 1 << 20));
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    // Messages that are due together are in all pages.
    delay(&mut peer, &broker, 0..COUNT, |number| DUE + number % 100);
    turn_over(&mut peer, &broker);
    peer.client.close(broker.now());
    drop(peer);
    let (busy, broker) = Busy::open_again(disk, broker, TestBroker::housekeep_only);
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    broker.setup.clock.advance(AHEAD);
    let came = take_due(&mut peer, &broker, &|| {
        let _idle = busy.working.lock().unwrap();
        assert!(broker.background(100));
    });
    let mut wanted: Vec<u64> = (0..COUNT).collect();
    wanted.sort_by_key(|number| number % 100);
    assert_eq!(came.len(), wanted.len());
    assert_eq!(came, wanted);
}

/// The encoding of tests; its first use runs other work.
#[derive(Default)]
struct Interrupted(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Dialect for Interrupted {
    fn id(&self) -> DialectId {
        TextDialect::ID
    }

    fn read(&self, content: Content<'_>) -> Result<Properties, Error> {
        let first = self.0.lock().unwrap().take();
        first.into_iter().for_each(|first| first());
        TextDialect.read(content)
    }
}

/// The sweep had made a page absent again while the pager looked through it. It was taken for a
/// page without messages.
#[test]
fn due_times_are_found_while_the_sweep_overtakes_the_look_at_them() {
    const BEFORE: u64 = 5000;
    const COUNT: u64 = 9500;
    let dialect = Arc::new(Interrupted::default());
    let mut setup = Setup::stepped(&SimDisk::new(1, 256 << 20), 1 << 20);
    setup.dialects = Dialects::new(vec![Arc::clone(&dialect) as Arc<dyn Dialect>]);
    let broker = Arc::new(TestBroker::open(setup));
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    delay(&mut peer, &broker, 0..BEFORE, |_| DUE);
    broker.flush();
    // The first page is looked through.
    broker.setup.clock.advance(AHEAD - 4000);
    broker.housekeep_only();
    assert!(broker.page_once());
    // Later arrivals are noted as they come. The rest of the second page is in memory, with its
    // first entries only on disk.
    delay(&mut peer, &broker, BEFORE..COUNT, |_| DUE);
    turn_over(&mut peer, &broker);
    let faster = Arc::clone(&broker);
    *dialect.0.lock().unwrap() = Some(Box::new(move || {
        faster.broker.set_memory_limit(100);
        faster.housekeep_only();
        faster.broker.set_memory_limit(1 << 30);
    }));
    assert!(broker.page_once());
    assert!(dialect.0.lock().unwrap().is_none(), "the sweep was faster");
    let came = take_due(&mut peer, &broker, &|| assert!(broker.background(100)));
    assert_eq!(came.len() as u64, COUNT);
    assert_eq!(came, (0..COUNT).collect::<Vec<_>>());
}

/// The sweep had made a page absent again while the redrive placed others. Messages in it stayed
/// dead letters.
#[test]
fn a_redrive_moves_all_while_the_sweep_overtakes_its_placing() {
    const COUNT: u64 = 10_000;
    let disk = SimDisk::new(1, 256 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 1 << 20));
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    for spec in [durable("dead"), durable_with("q", &dead_letters_to("dead"))] {
        peer.client.declare_queue(&spec, broker.now()).unwrap();
    }
    let session = peer.session(1);
    for number in 0..COUNT {
        let (properties, body) = (format!("n={}\n", number % 100), number.to_string());
        let old = message("", "q", body.as_bytes());
        let old = Publish { properties: properties.as_bytes(), expiration: Some(1), ..old };
        peer.client.publish(session, old).unwrap();
        if number % 50 == 49 {
            peer.turn(&broker);
            broker.setup.clock.advance(2);
            peer.turn(&broker);
        }
    }
    turn_over(&mut peer, &broker);
    peer.client.close(broker.now());
    drop(peer);
    let (_busy, broker) = Busy::open_again(disk, broker, TestBroker::housekeep_only);
    let ready = || broker.broker.queues().iter().map(|queue| (queue.name.clone(), queue.ready)).collect::<Vec<_>>();
    assert_eq!(ready()[0], ("dead".to_owned(), COUNT));
    // The messages of one move are in two pages.
    let some = Browse { vhost: "/", queue: "dead", selector: "n = 0", limit: u64::MAX };
    let redriven = broker.broker.redrive(&some, RedriveMode::Move, &|| true);
    assert_eq!(redriven.unwrap(), Redriven { moved: COUNT / 100, ..Redriven::default() });
    assert_eq!(ready()[0].1, COUNT - COUNT / 100);
}
