//! Transient messages that memory has no room for: they wait on the disk, behave like any other,
//! and are gone after a restart.

use broker::{Consume, DeleteIf, Fetch, Outcome, Publish, QueueSpec, RepairMode, Settling, Tags, Value};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Received, Seen};
use testkit::sim_disk::{Fault, SimDisk};

use crate::{dead_letters_to, durable_with, message};

const BUDGET: u64 = 1 << 20;
/// The most that one piece of reading, a mailbox and the entries of a page or two can take.
const SLACK: u64 = 2 << 20;
const MANY: u64 = 50_000;

struct Scene {
    broker: TestBroker,
    peer: Peer,
    disk: SimDisk,
    /// The most that was in memory.
    peak: u64,
}

fn body(number: u64) -> String {
    format!("{number:0100}")
}

/// Every third message of a queue is persistent, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Transient,
    Mixed,
}

impl Scene {
    fn open() -> Self {
        let disk = SimDisk::new(1, 256 << 20);
        let mut setup = Setup::stepped(&disk, 2 << 20);
        setup.settings.memory_budget = BUDGET;
        setup.settings.memory_limit = 8 * BUDGET;
        Self::again(setup, disk)
    }

    fn again(setup: Setup, disk: SimDisk) -> Self {
        let broker = TestBroker::open(setup);
        let peer = Peer::attach(&broker, "guest").unwrap();
        Self { broker, peer, disk, peak: 0 }
    }

    /// Declares a queue for messages of this kind.
    fn declare(&mut self, name: &str, kind: Kind, arguments: &[(&str, Value)]) {
        let spec = QueueSpec { durable: kind == Kind::Mixed, ..durable_with(name, arguments) };
        self.peer.client.declare_queue(&spec, self.broker.now()).unwrap();
    }

    fn publish(&mut self, queue: &str, numbers: std::ops::Range<u64>, kind: Kind) {
        let session = self.peer.session(1);
        for number in numbers {
            let (body, persistent) = (body(number), kind == Kind::Mixed && number % 3 == 0);
            let publish = Publish { persistent, ..message("", queue, body.as_bytes()) };
            self.peer.client.publish(session, publish).unwrap();
            if number % 500 == 499 {
                self.turn();
            }
        }
        self.turn();
    }

    fn turn(&mut self) -> Vec<Seen> {
        let seen = self.peer.turn(&self.broker);
        self.peak = self.peak.max(self.used());
        seen
    }

    fn used(&self) -> u64 {
        self.broker.broker.overview().memory.used
    }

    fn consume(&mut self, queue: &str, prefetch: u32, settling: Settling) {
        let no_ack = settling == Settling::Auto;
        let consume = Consume { source: queue.into(), tag: "c".into(), no_ack, ..Consume::default() };
        self.peer.consume(&self.broker, prefetch, consume);
    }

    fn cancel(&mut self) {
        let session = self.peer.session(1);
        self.peer.client.cancel(session, "c", self.broker.now(), &mut |_| ());
    }

    fn came(&mut self) -> Vec<Received> {
        let delivery = |seen| if let Seen::Delivery(received) = seen { Some(received) } else { None };
        self.turn().into_iter().filter_map(delivery).collect()
    }

    /// Takes and settles everything that comes.
    fn drain(&mut self, outcome: Outcome) -> Vec<Received> {
        let session = self.peer.session(1);
        let mut all = Vec::new();
        for _ in 0..100_000 {
            let came = self.came();
            let Some(last) = came.last().map(|received| received.tag) else { return all };
            // A consumer that does not acknowledge has nothing to settle.
            drop(self.peer.client.settle(session, Tags::UpTo(last), &outcome));
            all.extend(came);
        }
        panic!("deliveries do not come to an end");
    }

    fn get(&mut self, queue: &str) -> Option<Received> {
        let session = self.peer.session(1);
        for _ in 0..20 {
            let (mut got, now) = (None, self.broker.now());
            let mut report = |delivery: &broker::Delivery<'_>, _| got = Some(Received::of(delivery));
            match self.peer.client.get(session, queue, Settling::Manual, now, &mut report).unwrap() {
                Fetch::Message | Fetch::Empty => return got,
                Fetch::Wait(_) => self.broker.flush(),
            }
        }
        panic!("a get waits for ever");
    }

    fn ready(&self, queue: &str) -> u64 {
        let queues = self.broker.broker.queues();
        queues.iter().find(|report| report.name == queue).map_or(0, |report| report.ready)
    }

    fn spilled_files(&self) -> Vec<String> {
        self.disk.names().into_iter().filter(|name| name.starts_with("spill/")).collect()
    }

    /// (files, bytes) of the figures.
    fn spilled(&self) -> (u32, u64) {
        let journal = self.broker.broker.overview().journal;
        (journal.spill.files, journal.spill.bytes)
    }

    fn failures(&self) -> u64 {
        self.broker.broker.overview().journal.spill.failures
    }

    fn check_nothing_is_left(&mut self) {
        (0..3).for_each(|_| drop(self.turn()));
        assert_eq!((self.spilled(), self.spilled_files()), ((0, 0), vec![]));
        assert!(self.used() < 100_000, "{} bytes are in memory", self.used());
    }

    fn check_memory(&self) {
        assert!(self.peak < BUDGET + SLACK, "{} bytes were in memory at most", self.peak);
    }
}

fn assert_run(all: &[Received], expected: impl Iterator<Item = u64>) {
    let found: Vec<u64> = all.iter().map(|received| received.body.parse().unwrap()).collect();
    let expected: Vec<u64> = expected.collect();
    let at = found.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!((found.len(), at), (expected.len(), None), "length, and where it differs first");
}

/// A transient queue, and a durable one in which some messages are durable.
fn both(test: impl Fn(Scene, Kind)) {
    for kind in [Kind::Transient, Kind::Mixed] {
        let mut scene = Scene::open();
        scene.declare("q", kind, &[]);
        test(scene, kind);
    }
}

#[test]
fn a_large_transient_backlog_comes_out_in_order_with_little_memory() {
    both(|mut scene, kind| {
        scene.publish("q", 0..MANY, kind);
        assert_eq!(scene.ready("q"), MANY);
        assert!(scene.spilled().1 > 0 && !scene.spilled_files().is_empty());
        assert!(scene.used() < BUDGET, "{} bytes are in memory", scene.used());
        scene.consume("q", 1000, Settling::Manual);
        let all = scene.drain(Outcome::Accepted);
        assert_run(&all, 0..MANY);
        assert!(all.iter().all(|received| !received.redelivered));
        scene.check_memory();
        scene.check_nothing_is_left();
    });
}

#[test]
fn after_a_stop_or_a_power_cut_nothing_transient_and_no_file_is_there() {
    for cut in [false, true] {
        both(|mut scene, kind| {
            scene.publish("q", 0..MANY, kind);
            assert!(!scene.spilled_files().is_empty());
            // Recovery must tell spilled messages, which no index lists, from lost ones.
            let segments = scene.broker.broker.overview().journal.segments.files;
            assert_eq!(segments > 0, kind == Kind::Mixed, "{segments} segments");
            let Scene { broker, mut peer, disk, .. } = scene;
            let setup = if cut {
                disk.restart();
                broker.abandon()
            } else {
                peer.client.close(broker.now());
                broker.stop()
            };
            drop(peer);
            let files = disk.names().into_iter().filter(|name| name.starts_with("spill/")).count();
            assert_eq!(files > 0, cut, "a stop removes them, a crash leaves them");
            let mut scene = Scene::again(setup, disk);
            assert_eq!(scene.spilled_files(), [] as [String; 0]);
            assert!(scene.broker.broker.queues().iter().all(|queue| queue.damaged.is_none()));
            if kind == Kind::Transient {
                assert_eq!(scene.broker.broker.queues().len(), 0);
                scene.declare("q", Kind::Transient, &[]);
            }
            scene.consume("q", 0, Settling::Auto);
            let expected = if kind == Kind::Mixed { (0..MANY).step_by(3) } else { (0..0).step_by(1) };
            assert_run(&scene.drain(Outcome::Accepted), expected);
            scene.check_nothing_is_left();
        });
    }
}

#[test]
fn what_comes_back_returns_to_its_place_in_front_of_what_was_spilled() {
    both(|mut scene, kind| {
        scene.publish("q", 0..20_000, kind);
        for number in 0..100 {
            let received = scene.get("q").unwrap();
            assert_eq!((&received.body, received.redelivered), (&body(number), false));
            let session = scene.peer.session(1);
            scene.peer.client.settle(session, Tags::One(received.tag), &Outcome::Released).unwrap();
            let again = scene.get("q").unwrap();
            assert_eq!((&again.body, again.redelivered), (&body(number), true));
            scene.peer.client.settle(session, Tags::One(again.tag), &Outcome::Accepted).unwrap();
        }
        scene.consume("q", 5000, Settling::Manual);
        let held: Vec<Received> = scene.came();
        scene.publish("q", 20_000..30_000, kind);
        let session = scene.peer.session(1);
        scene.cancel();
        scene.peer.client.recover(session, scene.broker.now());
        scene.consume("q", 1000, Settling::Manual);
        let all = scene.drain(Outcome::Accepted);
        assert_run(&all, 100..30_000);
        assert!(all[..held.len()].iter().all(|received| received.redelivered));
        assert!(!all.last().unwrap().redelivered);
        scene.check_nothing_is_left();
    });
}

#[test]
fn spilled_messages_are_purged_and_deleted_without_being_read() {
    both(|mut scene, kind| {
        scene.declare("r", kind, &[]);
        scene.publish("q", 0..20_000, kind);
        scene.publish("r", 0..20_000, kind);
        let now = scene.broker.now();
        assert_eq!(scene.peer.client.purge_queue("q", now).unwrap().0, 20_000);
        scene.publish("q", 0..10, kind);
        scene.peer.client.delete_queue("r", DeleteIf::ALWAYS, now).unwrap();
        for number in 0..10 {
            let tag = scene.get("q").map(|received| (received.body == body(number)).then_some(received.tag)).unwrap();
            let session = scene.peer.session(1);
            scene.peer.client.settle(session, Tags::One(tag.unwrap()), &Outcome::Accepted).unwrap();
        }
        scene.check_nothing_is_left();
    });
}

#[test]
fn spilled_messages_die_of_age_and_go_to_the_dead_letter_exchange() {
    both(|mut scene, kind| {
        scene.declare("dead", kind, &[]);
        scene.declare("plain", kind, &[("x-message-ttl", Value::I64(60_000))]);
        let arguments = [&dead_letters_to("dead")[..], &[("x-message-ttl", Value::I64(60_000))]].concat();
        scene.declare("moves", kind, &arguments);
        scene.publish("plain", 0..20_000, kind);
        scene.publish("moves", 0..20_000, kind);
        assert_eq!((scene.ready("plain"), scene.ready("moves")), (20_000, 20_000));
        scene.broker.setup.clock.advance(60_001);
        for _ in 0..2000 {
            scene.turn();
            if scene.ready("dead") == 20_000 && scene.ready("plain") == 0 {
                break;
            }
        }
        assert_eq!([scene.ready("plain"), scene.ready("moves"), scene.ready("dead")], [0, 0, 20_000]);
        scene.consume("dead", 1000, Settling::Manual);
        assert_run(&scene.drain(Outcome::Accepted), 0..20_000);
        scene.check_nothing_is_left();
    });
}

#[test]
fn limits_of_length_hold_for_spilled_messages() {
    both(|mut scene, kind| {
        scene.declare("dead", kind, &[]);
        scene.declare("short", kind, &[&dead_letters_to("dead")[..], &[("x-max-length", Value::I64(15_000))]].concat());
        scene.declare("light", kind, &[("x-max-length-bytes", Value::I64(1_000_000))]);
        scene.publish("short", 0..30_000, kind);
        scene.publish("light", 0..30_000, kind);
        (0..20).for_each(|_| drop(scene.turn()));
        assert_eq!([scene.ready("short"), scene.ready("light"), scene.ready("dead")], [15_000, 10_000, 15_000]);
        for (queue, expected) in [("short", 15_000..30_000), ("light", 20_000..30_000), ("dead", 0..15_000)] {
            scene.consume(queue, 500, Settling::Manual);
            assert_run(&scene.drain(Outcome::Accepted), expected);
            scene.cancel();
        }
        scene.check_nothing_is_left();
    });
}

#[test]
fn rejected_and_unacknowledged_messages_leave_nothing_behind() {
    both(|mut scene, kind| {
        scene.declare("dead", kind, &[]);
        scene.declare("moves", kind, &dead_letters_to("dead"));
        scene.publish("moves", 0..10_000, kind);
        scene.publish("q", 0..10_000, kind);
        scene.consume("moves", 200, Settling::Manual);
        assert_run(&scene.drain(Outcome::REJECTED), 0..10_000);
        scene.cancel();
        assert_eq!(scene.ready("dead"), 10_000);
        for queue in ["dead", "q"] {
            scene.consume(queue, 0, Settling::Auto);
            assert_run(&scene.drain(Outcome::Accepted), 0..10_000);
            scene.cancel();
        }
        scene.check_nothing_is_left();
    });
}

/// Messages of a slow queue lie scattered among those of a fast one.
#[test]
fn a_few_messages_that_stay_do_not_keep_the_files_of_those_that_went() {
    let mut scene = Scene::open();
    scene.declare("slow", Kind::Transient, &[]);
    scene.declare("fast", Kind::Transient, &[]);
    let rounds = 60;
    for round in 0..rounds {
        scene.publish("slow", round * 20..(round + 1) * 20, Kind::Transient);
        scene.publish("fast", 0..15_000, Kind::Transient);
        let now = scene.broker.now();
        assert_eq!(scene.peer.client.purge_queue("fast", now).unwrap().0, 15_000);
        (0..3).for_each(|_| drop(scene.turn()));
    }
    let file = 256 << 10;
    assert!(scene.spilled().1 <= 6 * file, "{:?} are kept for {rounds} × 20 messages", scene.spilled());
    scene.consume("slow", 0, Settling::Auto);
    assert_run(&scene.drain(Outcome::Accepted), 0..rounds * 20);
    scene.check_nothing_is_left();
}

#[test]
fn a_full_disk_leaves_messages_in_memory_and_is_told_of_once() {
    let mut scene = Scene::open();
    scene.declare("q", Kind::Transient, &[]);
    // The log keeps files that it may still need.
    scene.disk.set_capacity(2 << 20);
    let mut told = Vec::new();
    for piece in 0..30 {
        scene.publish("q", piece * 500..(piece + 1) * 500, Kind::Transient);
        scene.broker.setup.clock.advance(1_500);
        told.extend(scene.broker.broker.take_damages());
    }
    assert!(told.len() == 1 && told[0].contains("the disk takes none"), "{told:?}");
    assert!(scene.failures() > 0);
    assert_eq!(scene.spilled(), (0, 0));
    assert!(scene.used() > 15_000 * 200, "they are in memory");
    scene.disk.set_capacity(256 << 20);
    scene.broker.setup.clock.advance(1_500);
    scene.turn();
    assert!(scene.used() < BUDGET, "{} bytes are in memory", scene.used());
    scene.consume("q", 1000, Settling::Manual);
    assert_run(&scene.drain(Outcome::Accepted), 0..15_000);
    scene.check_nothing_is_left();
}

#[test]
fn an_error_of_the_disk_while_spilling_loses_nothing() {
    let mut scene = Scene::open();
    scene.declare("q", Kind::Transient, &[]);
    // The log's own writes are done.
    (0..5).for_each(|_| drop(scene.turn()));
    let mut count = 0;
    // The file is not made; made and not written; not written; written in part.
    for (failures, after, fault) in
        [(1, 1, Fault::Error), (2, 2, Fault::Error), (3, 1, Fault::Error), (3, 1, Fault::Short)]
    {
        scene.disk.fault(after, fault);
        let before = scene.spilled().1;
        while scene.failures() < failures || (fault == Fault::Short && scene.spilled().1 == before) {
            scene.publish("q", count..count + 500, Kind::Transient);
            count += 500;
            assert!(count < 30_000, "it is spilled before");
        }
        assert_eq!(scene.failures(), failures);
        scene.broker.setup.clock.advance(1_500);
    }
    scene.publish("q", count..count + 10_000, Kind::Transient);
    assert!(scene.used() < BUDGET, "{} bytes are in memory", scene.used());
    scene.consume("q", 1000, Settling::Manual);
    assert_run(&scene.drain(Outcome::Accepted), 0..count + 10_000);
    scene.check_nothing_is_left();
}

#[test]
fn with_a_full_disk_the_memory_alarm_rises_as_without_one() {
    let mut scene = Scene::open();
    scene.declare("q", Kind::Transient, &[]);
    scene.disk.set_capacity(2 << 20);
    let mut count = 0;
    while !scene.broker.broker.overview().alarms.memory {
        scene.publish("q", count..count + 500, Kind::Transient);
        count += 500;
        assert!(count < 100_000, "the alarm rises");
    }
    scene.disk.set_capacity(256 << 20);
    scene.broker.setup.clock.advance(1_500);
    scene.turn();
    assert!(!scene.broker.broker.overview().alarms.memory, "and passes when there is room");
    assert_eq!(scene.ready("q"), count);
}

/// A file that was removed by hand costs a queue the messages in it, and no more.
#[test]
fn a_spilled_message_that_cannot_be_read_stops_its_queue_until_the_loss_is_accepted() {
    both(|mut scene, kind| {
        scene.publish("q", 0..20_000, kind);
        let wanted = body(10_000).into_bytes();
        let place = scene.spilled_files().into_iter().find_map(|name| {
            let bytes = scene.disk.bytes(&name);
            bytes.windows(wanted.len()).position(|window| window == wanted).map(|at| (name, at as u64))
        });
        let (name, at) = place.unwrap();
        scene.disk.flip_bit(&name, at * 8 + 3);
        scene.consume("q", 1000, Settling::Manual);
        assert_run(&scene.drain(Outcome::Accepted), 0..10_000);
        let told = scene.broker.broker.take_damages();
        assert!(told.len() == 1 && told[0].contains("hermod repair"), "{told:?}");
        let found = scene.broker.broker.repair("/", "q", RepairMode::Look).unwrap();
        assert_eq!((found.unreadable, found.given_up), (1, 0));
        let given_up = scene.broker.broker.repair("/", "q", RepairMode::AcceptLoss).unwrap();
        assert_eq!((given_up.unreadable, given_up.given_up), (1, 1));
        assert_run(&scene.drain(Outcome::Accepted), 10_001..20_000);
        scene.check_nothing_is_left();
    });
}

#[test]
fn a_broker_without_a_disk_spills_nothing() {
    let mut setup = Setup::memory();
    setup.settings.memory_budget = BUDGET;
    let mut scene = Scene::again(setup, SimDisk::new(1, 0));
    scene.declare("q", Kind::Transient, &[]);
    scene.publish("q", 0..20_000, Kind::Transient);
    assert!(scene.used() > 20_000 * 200);
    scene.consume("q", 1000, Settling::Manual);
    assert_run(&scene.drain(Outcome::Accepted), 0..20_000);
}

#[test]
fn many_short_transient_queues_hold_no_more_than_one_long_one() {
    let mut scene = Scene::open();
    for number in 0..3000 {
        let queue = format!("q{number}");
        scene.declare(&queue, Kind::Transient, &[]);
        let (session, body) = (scene.peer.session(1), format!("{number:01000}"));
        let publish = Publish { persistent: false, ..message("", &queue, body.as_bytes()) };
        scene.peer.client.publish(session, publish).unwrap();
        if number % 100 == 99 {
            scene.turn();
        }
    }
    // In memory they would be 4 MiB. The sweep is somewhere in its round through the queues, whose
    // order differs between runs.
    assert!(scene.used() < 2 * BUDGET, "{} bytes are in memory", scene.used());
    for number in 0..3000 {
        assert_eq!(scene.get(&format!("q{number}")).unwrap().body.parse(), Ok(number));
    }
}
