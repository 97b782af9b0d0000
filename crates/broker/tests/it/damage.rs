//! Damaged segments. The queues with messages in them deliver the earlier messages and stop there,
//! and all others go on. An operator can let a damaged queue go on without the lost messages.

use broker::{
    ApplyTo, Cause, Consume, ConsumerArguments, Fetch, Outcome, PolicyKind, PolicySpec, Publish, QueueSpec, Repair,
    RepairMode, Settling, Tags, Value,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::{Peer, Received, Seen};
use testkit::sim_disk::SimDisk;

use crate::{dead_letters_to, durable, durable_with, message};

const RING: u64 = 2 << 20;
const MANY: u64 = 12_000;

struct Scene {
    broker: TestBroker,
    peer: Peer,
}

impl Scene {
    fn open(setup: Setup) -> Self {
        let broker = TestBroker::open(setup);
        let peer = Peer::attach(&broker, "guest").unwrap();
        Self { broker, peer }
    }

    fn publish(&mut self, queue: &str, numbers: std::ops::Range<u64>) {
        let session = self.peer.session(1);
        for number in numbers {
            let body = format!("{number:0200}");
            let publish = Publish { priority: Some(1), ..message("", queue, body.as_bytes()) };
            self.peer.client.publish(session, publish).unwrap();
            if number % 200 == 199 {
                self.turn();
            }
        }
        self.turn();
    }

    fn turn(&mut self) -> Vec<Received> {
        self.peer.client.flush(self.broker.now());
        self.broker.flush();
        assert!(self.broker.background(100));
        let received = |seen| if let Seen::Delivery(received) = seen { Some(received) } else { None };
        self.peer.drain(&self.broker).into_iter().filter_map(received).collect()
    }

    /// Accepts all messages that come, and returns their numbers.
    fn drain(&mut self, queue: &str) -> Vec<u64> {
        self.drain_by(Consume { source: queue.into(), tag: queue.into(), ..Consume::default() })
    }

    /// The same, for this consumer.
    fn drain_by(&mut self, consume: Consume) -> Vec<u64> {
        self.peer.consume(&self.broker, 500, consume);
        self.drain_on()
    }

    /// The same, for the present consumer.
    fn drain_on(&mut self) -> Vec<u64> {
        let session = self.peer.session(1);
        let mut all: Vec<u64> = Vec::new();
        loop {
            let came = self.turn();
            let Some(last) = came.last().map(|received| received.tag) else { return all };
            all.extend(came.iter().map(|received| received.body.parse::<u64>().unwrap()));
            self.peer.client.settle(session, Tags::UpTo(last), &Outcome::Accepted).unwrap();
        }
    }

    fn ready(&self, queue: &str) -> u64 {
        let queues = self.broker.broker.queues();
        queues.iter().find(|report| report.name == queue).map(|report| report.ready).unwrap()
    }

    fn damaged(&self, queue: &str) -> bool {
        let found = self.broker.broker.diagnose("/", queue).unwrap();
        let (damaged, cause) = (found.queue.damaged.is_some(), found.causes().next());
        assert_eq!(cause == Some(Cause::Damaged), damaged, "{found:?}");
        damaged
    }

    fn repair(&self, mode: RepairMode) -> Repair {
        self.broker.broker.repair("/", "hurt", mode).unwrap()
    }

    fn stop(mut self) -> Setup {
        self.turn();
        self.peer.client.close(self.broker.now());
        drop(self.peer);
        self.broker.stop()
    }
}

/// A broker that has stopped with two long queues in segments, the first in the older ones.
fn stopped(disk: &SimDisk) -> Setup {
    filled(disk, &durable("hurt")).stop()
}

fn filled(disk: &SimDisk, hurt: &QueueSpec) -> Scene {
    let mut scene = Scene::open(Setup::stepped(disk, RING));
    for queue in [hurt, &durable("well")] {
        scene.peer.client.declare_queue(queue, scene.broker.now()).unwrap();
        scene.publish(&queue.name, 0..MANY);
    }
    scene
}

/// The index of the second segment, which has messages of the first queue only, and the file with
/// its bodies.
fn victim(disk: &SimDisk) -> (String, String) {
    let index = disk.names().into_iter().filter(|name| name.ends_with(".idx")).nth(1).unwrap();
    let bytes = disk.bytes(&index);
    assert_eq!(bytes[20], 1, "a file of which all is alive is adopted");
    (index, format!("wal/{:04}.wal", u32::from_le_bytes(bytes[24..28].try_into().unwrap())))
}

fn overwrite(disk: &SimDisk, name: &str, range: std::ops::Range<usize>) {
    let mut bytes = disk.bytes(name);
    bytes[range].fill(0);
    disk.replace(name, &bytes);
}

fn remove(disk: &SimDisk, name: &str) {
    use journal::Disk;
    disk.remove(name).unwrap();
    disk.sync_directory().unwrap();
}

type Case = (&'static str, fn(&SimDisk, &str, &str));

const CASES: [Case; 8] = [
    ("the index is gone", |disk, index, _| remove(disk, index)),
    ("its header is zeros", |disk, index, _| overwrite(disk, index, 0..512)),
    ("its header is damaged", |disk, index, _| disk.flip_bit(index, 8 * 40)),
    ("its directory is damaged", |disk, index, _| disk.flip_bit(index, 8 * (disk.bytes(index).len() as u64 - 4))),
    ("a list is damaged", |disk, index, _| disk.flip_bit(index, 8 * 600)),
    ("the bodies are cut", |disk, _, bodies| disk.replace(bodies, &disk.bytes(bodies)[..100_000])),
    ("the bodies are gone", |disk, _, bodies| remove(disk, bodies)),
    ("the first block of the bodies is gone", |disk, _, bodies| overwrite(disk, bodies, 0..4096)),
];

#[test]
fn a_damaged_segment_stops_its_queue_alone_until_the_loss_is_accepted() {
    for (what, damage) in CASES {
        let disk = SimDisk::new(1, 64 << 20);
        let setup = stopped(&disk);
        let (index, bodies) = victim(&disk);
        damage(&disk, &index, &bodies);
        let (index_left, bodies_left) = (disk.bytes(&index), disk.bytes(&bodies));
        let harmless = what.contains("first block");

        let mut scene = Scene::open(setup);
        // A start reads no more lists than it needs.
        let known = what != "a list is damaged";
        assert_eq!((scene.damaged("hurt"), scene.damaged("well")), (known, false), "{what}");
        assert_eq!(scene.broker.broker.overview().objects.damaged_queues, u64::from(known), "{what}");
        let told = scene.broker.broker.take_damages();
        assert_eq!(told.iter().any(|line| line.contains("'hurt'")), known, "{what}: {told:?}");
        assert!(scene.drain("well").into_iter().eq(0..MANY), "{what}: the other queue goes on");
        scene.publish("hurt", MANY..MANY + 500);
        let before = scene.drain("hurt");
        assert!(before.iter().copied().eq(0..before.len() as u64), "{what}: in order, up to what is lost");
        assert_eq!(before.len() as u64 == MANY + 500, harmless, "{what}: {}", before.len());
        // Without its index an adopted segment looks like a slot that the log no longer needs.
        let kept =
            disk.bytes(&index) == index_left && (disk.bytes(&bodies) == bodies_left || what == "the index is gone");
        assert!(kept || harmless, "{what}: no file is touched");
        assert_eq!(scene.damaged("hurt"), !harmless, "{what}");
        if harmless {
            continue;
        }

        let told = scene.repair(RepairMode::Look);
        assert!(told.unreadable > 100 && told.given_up == 0, "{what}: {told:?}");
        assert_eq!(scene.repair(RepairMode::Look), told, "{what}: nothing was changed");
        assert!(scene.turn().is_empty(), "{what}");
        let done = scene.repair(RepairMode::AcceptLoss);
        assert_eq!((done.unreadable, done.given_up), (told.unreadable, told.unreadable), "{what}");
        let after = scene.drain_on();
        let count = (before.len() + after.len()) as u64;
        assert_eq!(count, MANY + 500 - done.given_up, "{what}: the rest comes");
        assert!(after.array_windows().all(|[one, next]| one < next), "{what}: in order");
        assert!(!scene.damaged("hurt"), "{what}");

        let mut scene = Scene::open(scene.stop());
        assert!(scene.drain("hurt").is_empty(), "{what}: what was given up stays so");
        assert!(!scene.damaged("hurt") && !scene.damaged("well"), "{what}");
    }
}

/// The pager read the same list again and again while such a consumer was there.
#[test]
fn a_consumer_with_a_selector_does_without_what_no_list_tells_until_the_loss_is_accepted() {
    let disk = SimDisk::new(1, 64 << 20);
    let setup = stopped(&disk);
    disk.flip_bit(&victim(&disk).0, 8 * 600);
    let mut scene = Scene::open(setup);
    let arguments = Ok(ConsumerArguments { selector: "n IS NULL".into(), ..ConsumerArguments::default() });
    let mut all =
        scene.drain_by(Consume { source: "hurt".into(), tag: "hurt".into(), arguments, ..Consume::default() });
    let told = scene.broker.broker.take_damages();
    assert!(told.len() == 1 && told[0].contains("'hurt'"), "{told:?}");
    assert!(all.array_windows().all(|[one, next]| one < next), "in order");
    assert_eq!(all[all.len() - 1], MANY - 1, "what comes behind it");
    let given_up = scene.repair(RepairMode::AcceptLoss).given_up;
    assert!(given_up > 100);
    all.extend(scene.drain_on());
    all.sort_unstable();
    assert!(all.array_windows().all(|[one, next]| one < next), "nothing comes twice");
    assert_eq!(all.len() as u64, MANY - given_up);
}

#[test]
fn a_queue_that_is_whole_is_told_so_and_loses_nothing() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut scene = Scene::open(stopped(&disk));
    for mode in [RepairMode::Look, RepairMode::AcceptLoss] {
        let told = scene.repair(mode);
        assert_eq!((told.unreadable, told.given_up), (0, 0), "{told:?}");
        assert!(told.read > MANY / 2, "{told:?}");
    }
    assert_eq!(scene.broker.broker.repair("/", "none", RepairMode::AcceptLoss), None);
    assert!(scene.drain("hurt").into_iter().eq(0..MANY));
}

/// Up to 63 messages behind an unreadable dead letter were neither moved nor reported.
#[test]
fn a_dead_letter_that_cant_be_read_stays_alone() {
    let disk = SimDisk::new(1, 64 << 20);
    let setup = stopped(&disk);
    let (_, bodies) = victim(&disk);
    disk.flip_bit(&bodies, 8 * 100_000);
    let mut scene = Scene::open(setup);
    scene.peer.client.declare_queue(&durable("dead"), scene.broker.now()).unwrap();
    let definition = table_of("max-length=1 dead-letter-exchange= dead-letter-routing-key=dead");
    let spec = PolicySpec { pattern: "^hurt$".to_owned(), apply_to: ApplyTo::All, priority: 0, definition };
    scene.broker.broker.set_policy("/", PolicyKind::User, "p", spec, &auth::Identity::operator("test")).unwrap();
    for _ in 0..100 {
        scene.turn();
    }
    assert_eq!((scene.ready("hurt"), scene.ready("dead")), (1, MANY - 2));
    let told = scene.broker.broker.take_damages();
    assert_eq!(told.iter().filter(|line| line.contains("'hurt'")).count(), 1, "{told:?}");
}

/// A start has to find messages that wait for a retry. With a damaged list of their page, the
/// broker did not start.
#[test]
fn a_damaged_list_of_what_waits_for_its_retry_stops_no_start() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut spec = durable("hurt");
    spec.arguments = table_of("x-delayed-retry-type=all x-delayed-retry-min=1000");
    let mut scene = filled(&disk, &spec);
    scene.peer.consume(&scene.broker, 1, Consume { source: "hurt".into(), tag: "c".into(), ..Consume::default() });
    let came = scene.turn();
    let session = scene.peer.session(1);
    scene.peer.client.settle(session, Tags::One(came[0].tag), &Outcome::FAILED).unwrap();
    let setup = scene.stop();
    let (index, _) = victim(&disk);
    disk.flip_bit(&index, 8 * 600);

    let mut scene = Scene::open(setup);
    let told = scene.broker.broker.take_damages();
    assert!(told.iter().any(|line| line.contains("'hurt'")), "{told:?}");
    assert!(scene.drain("well").into_iter().eq(0..MANY), "the other queue goes on");
    assert!(scene.drain("hurt").is_empty() && scene.damaged("hurt"));
    let lost = scene.repair(RepairMode::AcceptLoss).given_up;
    let mut rest = scene.drain_on();
    scene.broker.setup.clock.advance(2000);
    rest.extend(scene.drain_on());
    assert_eq!(rest.len() as u64, MANY - lost);
}

/// The timer was set to a time in the past, again and again, so the housekeeping never came to
/// rest. Messages of a lower priority did not expire meanwhile.
#[test]
fn what_should_die_of_age_and_cant_be_found_is_not_tried_without_end() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut spec = durable("hurt");
    spec.arguments = table_of("x-message-ttl=60000 x-max-priority=1");
    let setup = filled(&disk, &spec).stop();
    disk.flip_bit(&victim(&disk).0, 8 * 600);

    let mut scene = Scene::open(setup);
    let session = scene.peer.session(1);
    scene.peer.client.publish(session, message("", "hurt", b"low")).unwrap();
    scene.turn();
    assert!(!scene.damaged("hurt"), "the list that tells of the first message is whole");
    scene.broker.setup.clock.advance(60_000);
    scene.broker.flush();
    assert!(scene.damaged("hurt"));
    assert_eq!(scene.ready("hurt"), MANY, "what can be found has died");
    assert!(scene.repair(RepairMode::AcceptLoss).given_up > 100);
    scene.turn();
    assert_eq!((scene.ready("hurt"), scene.damaged("hurt")), (0, false), "the rest dies then");
}

/// They waited, and their deaths were not logged, until the queue's next visit, at the latest that
/// of its timer.
#[test]
fn a_get_that_meets_damage_moves_the_dead_letters_before_it() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut spec = durable_with("hurt", &dead_letters_to("dead"));
    spec.arguments.set("x-max-priority", Value::I64(2));
    let setup = filled(&disk, &spec).stop();
    disk.flip_bit(&victim(&disk).0, 8 * 600);

    let mut scene = Scene::open(setup);
    scene.peer.client.declare_queue(&durable("dead"), scene.broker.now()).unwrap();
    let session = scene.peer.session(1);
    let get =
        |scene: &mut Scene| scene.peer.client.get(session, "hurt", Settling::Auto, scene.broker.now(), &mut |_, _| ());
    assert!(matches!(get(&mut scene), Ok(Fetch::Wait(_))));
    scene.turn();
    assert!(scene.damaged("hurt"));
    let short =
        Publish { priority: Some(2), persistent: false, expiration: Some(1000), ..message("", "hurt", b"short") };
    scene.peer.client.publish(session, short).unwrap();
    scene.turn();
    scene.broker.setup.clock.advance(1001);
    assert!(get(&mut scene).is_err());
    assert_eq!(scene.ready("dead"), 1, "nothing else has come to the queue");
}
