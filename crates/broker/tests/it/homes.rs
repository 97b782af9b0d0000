//! The home of a vhost, a log of its own: what lies there, and what its end leaves in the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{Permission, User};
use broker::VhostSpec;
use journal::{Address, Chunk, Disk, LogId, Owner, Replay};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::Peer;
use testkit::sim_disk::SimDisk;

use crate::{durable, message};

/// The records of each log, in order.
#[derive(Default, PartialEq, Eq, Debug)]
struct Told(BTreeMap<u32, Vec<String>>);

impl Told {
    fn note(&mut self, owner: Owner, what: String) {
        self.0.entry(LogId::of(owner).number()).or_default().push(what);
    }
}

impl Replay for Told {
    fn cold(&mut self, owner: Owner, page: u64, _: u64, chunk: Chunk) {
        self.note(owner, format!("chunk {owner} {page} {chunk:?}"));
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

/// What a start would replay now.
fn told(disk: &SimDisk) -> Told {
    let copy = SimDisk::new(0, 64 << 20);
    for name in disk.names() {
        let bytes = disk.bytes(&name);
        assert_eq!(copy.create(&name).unwrap().write_at(&bytes, 0).unwrap(), bytes.len());
    }
    let mut told = Told::default();
    journal::verify(Arc::new(copy), &mut told).unwrap();
    told
}

/// A peer in a vhost with a queue.
fn settle_in(broker: &TestBroker, vhost: &str) -> Peer {
    if vhost != "/" {
        broker.broker.put_vhost(vhost, &VhostSpec::default()).unwrap();
        let grant = |user: &mut User| {
            user.permissions.insert(vhost.into(), Permission::full());
            Ok(())
        };
        broker.broker.change_user("guest", grant).unwrap();
    }
    let mut peer = Peer::attach_to(broker, "guest", vhost).unwrap();
    peer.session(1);
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    peer
}

#[test]
fn the_end_of_a_vhost_is_in_its_own_log_and_the_systems_alone() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    let mut peers = ["/", "staying", "going"].map(|vhost| settle_in(&broker, vhost));
    for number in 0..50u8 {
        for peer in &mut peers {
            let session = peer.session(1);
            peer.client.publish(session, message("", "q", &[number])).unwrap();
            peer.client.flush(broker.now());
        }
        if number % 10 == 9 {
            broker.flush();
        }
    }
    let before = told(&disk);
    assert_eq!(before.0.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    for home in [1, 2, 3] {
        assert!(before.0[&home].iter().filter(|what| what.starts_with("reference")).count() == 50, "{before:?}");
    }
    // The system's log has users, vhosts and what describes them, and no message.
    assert!(before.0[&0].iter().all(|what| what.starts_with("fact")), "{:?}", before.0[&0]);
    broker.broker.delete_vhost("going").unwrap();
    broker.flush();
    let after = told(&disk);
    for home in [1, 2] {
        assert_eq!(after.0[&home], before.0[&home]);
    }
    // The end of the vhost, which takes the rights of users there along.
    assert_eq!(after.0[&0].len(), before.0[&0].len() + 1, "{:?}", after.0[&0]);
    drop(peers);
    broker.abandon();
    disk.power_cut();
    let broker = TestBroker::open(Setup::stepped(&disk, 8 << 20));
    assert_eq!(broker.broker.vhosts().into_iter().map(|vhost| vhost.name).collect::<Vec<_>>(), ["/", "staying"]);
    // No log is used a second time while anything speaks of it.
    drop(settle_in(&broker, "new"));
    broker.flush();
    assert_eq!(told(&disk).0.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}
