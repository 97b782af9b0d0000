//! Merges that overtake the pager: each time it opens an index the journal's background goes on first, on a disk of the
//! test's own.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use broker::{Consume, Outcome};
use journal::{Disk, DiskFile, Lock};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Received, Seen};
use testkit::sim_disk::SimDisk;

use crate::{durable, message};

/// Steps of the background for each index that the pager opens: about a merge.
const STEPS: usize = 10;

/// A disk on which others are faster than the pager.
struct Busy {
    disk: SimDisk,
    broker: OnceLock<Weak<TestBroker>>,
    /// Held while the background works: what it opens itself does not make it work more.
    working: Mutex<()>,
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
            broker.background(STEPS);
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
}

fn publish(peer: &mut Peer, broker: &TestBroker, count: u64) {
    let session = peer.session(1);
    for number in 0..count {
        // Half of every segment is of the queue that is drained, so that segments are worth merging.
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

/// Takes and accepts everything that comes, with no work of the background but what the disk makes of it.
fn drain(peer: &mut Peer, broker: &TestBroker, queue: &str) -> Vec<u64> {
    let (session, now) = (peer.session(1), broker.now());
    let consume = Consume { queue: queue.into(), tag: queue.into(), ..Consume::default() };
    peer.client.consume(session, consume, now).unwrap();
    let mut all = Vec::new();
    loop {
        peer.client.flush(broker.now());
        broker.flush();
        let came: Vec<Received> = peer
            .drain(broker)
            .into_iter()
            .filter_map(|seen| if let Seen::Delivery(received) = seen { Some(received) } else { None })
            .collect();
        let Some(last) = came.last().map(|received| received.tag) else { break };
        peer.client.settle(session, last, true, Outcome::Accepted).unwrap();
        all.extend(came.iter().map(|received| received.body.parse::<u64>().unwrap()));
    }
    peer.client.cancel(session, queue, broker.now(), &mut |_| ());
    all
}

/// A queue stopped "at a message in an index that can't be read", until the next start, when merges had moved its bodies
/// between four of the pager's attempts. Nothing was lost, but nothing came either.
#[test]
fn a_queue_goes_on_while_merges_overtake_its_reading() {
    const COUNT: u64 = 10_000;
    let disk = SimDisk::new(1, 256 << 20);
    let mut setup = Setup::stepped(&disk, 1 << 20);
    setup.settings.memory_budget = 64 << 10;
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    for queue in ["drained", "kept"] {
        peer.client.declare_queue(&durable(queue), broker.now()).unwrap();
    }
    publish(&mut peer, &broker, COUNT);
    assert_eq!(drain(&mut peer, &broker, "drained"), (0..COUNT).collect::<Vec<_>>());
    peer.client.close(broker.now());
    drop(peer);
    let busy = Arc::new(Busy { disk, broker: OnceLock::new(), working: Mutex::new(()) });
    let mut setup = broker.stop();
    setup.disk = Arc::clone(&busy) as Arc<dyn Disk>;
    let broker = Arc::new(TestBroker::open(setup));
    let before = broker.broker.overview().journal;
    assert!(busy.broker.set(Arc::downgrade(&broker)).is_ok());
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    assert_eq!(drain(&mut peer, &broker, "kept"), (0..COUNT).collect::<Vec<_>>());
    assert_eq!(broker.broker.take_damages(), Vec::<String>::new());
    let merges = broker.broker.overview().journal.merges - before.merges;
    assert!(merges >= 4, "merges came in between: {merges}, of {} segments", before.segments);
}
