//! Backlogs much larger than the memory for them: every message that went in comes out, whatever
//! happens to the backlog, and memory stays small. Each test runs with the backlog in the log, and
//! with most of it in segments.

use broker::{
    ApplyTo, Consume, Counts, DeleteIf, Fetch, Flow, Outcome, PolicyKind, PolicySpec, Publish, Settling, Tags, Value,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::{Peer, Received, Seen};
use testkit::sim_disk::SimDisk;

use crate::{binding, dead_letters_to, durable_with, message};

const BUDGET: u64 = 1 << 20;
/// The most that one piece of reading, a mailbox and the entries of a page or two can take.
const SLACK: u64 = 2 << 20;
const MANY: u64 = 100_000;

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

impl Scene {
    fn open(ring: u64) -> Self {
        let disk = SimDisk::new(1, 256 << 20);
        let mut setup = Setup::stepped(&disk, ring);
        setup.settings.memory_budget = BUDGET;
        let broker = TestBroker::open(setup);
        let peer = Peer::attach(&broker, "guest").unwrap();
        Self { broker, peer, disk, peak: 0 }
    }

    /// The backlog is in the log, or most of it in segments.
    fn both(test: impl Fn(Scene)) {
        for ring in [64 << 20, 4 << 20] {
            test(Self::open(ring));
        }
    }

    fn declare(&mut self, name: &str, arguments: &[(&str, Value)]) {
        self.peer.client.declare_queue(&durable_with(name, arguments), self.broker.now()).unwrap();
    }

    fn publish(&mut self, queue: &str, numbers: std::ops::Range<u64>) {
        self.publish_to("", queue, numbers);
    }

    fn publish_to(&mut self, exchange: &str, key: &str, numbers: std::ops::Range<u64>) {
        let session = self.peer.session(1);
        for number in numbers {
            let body = body(number);
            self.peer.client.publish(session, message(exchange, key, body.as_bytes())).unwrap();
            if number % 500 == 499 {
                self.turn();
            }
        }
        self.turn();
    }

    fn turn(&mut self) -> Vec<Seen> {
        let seen = self.peer.turn(&self.broker);
        self.peak = self.peak.max(self.broker.broker.overview().memory.used);
        seen
    }

    fn consume(&mut self, queue: &str, prefetch: u32, settling: Settling) {
        let no_ack = settling == Settling::Auto;
        let consume = Consume { source: queue.into(), tag: "c".into(), no_ack, ..Consume::default() };
        self.peer.consume(&self.broker, prefetch, consume);
    }

    /// Takes and accepts everything that comes.
    fn drain(&mut self) -> Vec<Received> {
        let session = self.peer.session(1);
        let mut all = Vec::new();
        for _ in 0..100_000 {
            let seen = self.turn();
            let came: Vec<_> = seen.into_iter().filter_map(delivery).collect();
            let Some(last) = came.last().map(|received| received.tag) else { return all };
            // A consumer that does not acknowledge has nothing to settle.
            drop(self.peer.client.settle(session, Tags::UpTo(last), &Outcome::Accepted));
            all.extend(came);
        }
        panic!("deliveries do not come to an end");
    }

    fn get(&mut self, queue: &str) -> Option<Received> {
        let session = self.peer.session(1);
        for _ in 0..20 {
            let mut got = None;
            let now = self.broker.now();
            let mut report = |delivery: &broker::Delivery<'_>, _| got = Some(Received::of(delivery));
            match self.peer.client.get(session, queue, Settling::Manual, now, &mut report).unwrap() {
                Fetch::Message | Fetch::Empty => return got,
                Fetch::Wait(ticket) => {
                    self.broker.flush();
                    assert!(self.peer.client.durable(ticket), "the message has come, or the flush");
                }
            }
        }
        panic!("a get waits for ever");
    }

    fn counts(&self, queue: &str) -> (u64, u64) {
        let queues = self.broker.broker.queues();
        let found = queues.iter().find(|report| report.name == queue).unwrap();
        (found.ready, found.unacked)
    }

    /// Flips a bit of this message in queue `q` on the disk.
    fn damage(&self, number: u64) {
        let wanted = body(number).into_bytes();
        for name in self.disk.names() {
            let bytes = self.disk.bytes(&name);
            if let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) {
                self.disk.flip_bit(&name, at as u64 * 8 + 3);
                return;
            }
        }
        panic!("message {number} is not on the disk");
    }

    fn restart(self) -> Self {
        let Self { broker, mut peer, disk, peak } = self;
        peer.client.close(broker.now());
        drop(peer);
        let setup = broker.stop();
        Self::again(setup, disk, peak)
    }

    fn cut(mut self) -> Self {
        self.turn();
        self.disk.power_cut();
        let Self { broker, peer, disk, peak } = self;
        drop(peer);
        Self::again(broker.abandon(), disk, peak)
    }

    fn again(setup: Setup, disk: SimDisk, peak: u64) -> Self {
        let broker = TestBroker::open(setup);
        let peer = Peer::attach(&broker, "guest").unwrap();
        Self { broker, peer, disk, peak }
    }

    fn check_memory(&self) {
        assert!(self.peak < BUDGET + SLACK, "{} bytes were in memory at most", self.peak);
    }
}

fn delivery(seen: Seen) -> Option<Received> {
    match seen {
        Seen::Delivery(received) => Some(received),
        _ => None,
    }
}

fn numbers(all: &[Received]) -> Vec<u64> {
    all.iter().map(|received| received.body.parse().unwrap()).collect()
}

fn assert_run(all: &[Received], expected: impl Iterator<Item = u64>) {
    let (found, expected) = (numbers(all), expected.collect::<Vec<_>>());
    let at = found.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!((found.len(), at), (expected.len(), None), "length, and where it differs first");
}

#[test]
fn a_large_backlog_is_drained_in_order_with_little_memory() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.publish("q", 0..MANY);
        assert_eq!(scene.counts("q"), (MANY, 0));
        scene.consume("q", 1000, Settling::Manual);
        assert_run(&scene.drain(), 0..MANY);
        assert_eq!(scene.counts("q"), (0, 0));
        scene.check_memory();
        assert!(scene.broker.broker.overview().memory.used < 100_000, "what was in use is given back");
    });
}

/// An operator who lowers the limit may not know the budget. One who sets both may set a budget
/// above the limit.
#[test]
fn a_backlog_leaves_memory_before_it_stops_publishers_whatever_the_limit() {
    const LIMIT: u64 = 4 << 20;
    for limit_at_start in [1 << 30, LIMIT] {
        let disk = SimDisk::new(1, 256 << 20);
        let mut setup = Setup::stepped(&disk, 64 << 20);
        setup.settings.memory_limit = limit_at_start;
        setup.settings.memory_budget = 512 << 20;
        let mut scene = Scene::again(setup, disk, 0);
        scene.declare("q", &[]);
        scene.publish("q", 0..20_000);
        let used = scene.broker.broker.overview().memory.used;
        assert_eq!(used > LIMIT, limit_at_start > LIMIT, "{used} bytes");
        scene.broker.broker.set_memory_limit(LIMIT);
        for _ in 0..100 {
            scene.turn();
        }
        scene.peak = 0;
        scene.publish("q", 20_000..40_000);
        assert!(scene.peak < LIMIT, "{} bytes were in memory at most", scene.peak);
        assert_eq!(scene.peer.client.flow(), Flow::Run);
        scene.consume("q", 1000, Settling::Manual);
        assert_run(&scene.drain(), 0..40_000);
    }
}

#[test]
fn a_large_backlog_with_priorities_survives_stops_and_is_drained_from_the_highest() {
    check_backlog_with_priorities(&[("x-max-priority", Value::U8(9))]);
}

#[test]
fn a_large_backlog_of_a_quorum_queue_survives_stops_and_is_drained_from_the_highest() {
    check_backlog_with_priorities(&[("x-queue-type", Value::Text("quorum".to_owned()))]);
}

/// The remainder of each number is its priority, and the highest comes first.
fn check_backlog_with_priorities(arguments: &[(&str, Value)]) {
    Scene::both(|mut scene| {
        scene.declare("q", arguments);
        let session = scene.peer.session(1);
        for number in 0..MANY {
            let (body, priority) = (body(number), (number % 4) as u8 * 3);
            let publish = Publish { priority: Some(priority), ..message("", "q", body.as_bytes()) };
            scene.peer.client.publish(session, publish).unwrap();
            if number % 500 == 499 {
                scene.turn();
            }
        }
        let mut scene = scene.cut().restart();
        assert_eq!(scene.counts("q"), (MANY, 0));
        scene.consume("q", 1000, Settling::Manual);
        let all = scene.drain();
        assert_run(&all, (0..4).rev().flat_map(|rest| (rest..MANY).step_by(4)));
        assert!(all.iter().all(|received| !received.redelivered));
        scene.check_memory();
        assert!(scene.broker.broker.overview().memory.used < 100_000, "what was in use is given back");
    });
}

#[test]
fn a_large_backlog_survives_a_stop_and_a_power_cut_half_way() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.publish("q", 0..MANY);
        scene.consume("q", 1000, Settling::Manual);
        let session = scene.peer.session(1);
        let mut taken = Vec::new();
        while taken.len() < 30_000 {
            let came: Vec<_> = scene.turn().into_iter().filter_map(delivery).collect();
            let last = came.last().unwrap().tag;
            scene.peer.client.settle(session, Tags::UpTo(last), &Outcome::Accepted).unwrap();
            taken.extend(came);
        }
        scene.turn();
        let taken = taken.len() as u64;
        let mut scene = scene.restart();
        assert_eq!(scene.counts("q").0, MANY - taken);
        scene.publish("q", MANY..MANY + 5000);
        let mut scene = scene.cut();
        assert_eq!(scene.counts("q").0, MANY - taken + 5000);
        scene.consume("q", 1000, Settling::Manual);
        assert_run(&scene.drain(), taken..MANY + 5000);
        let scene = scene.cut();
        assert_eq!(scene.counts("q"), (0, 0));
        scene.check_memory();
    });
}

#[test]
fn what_comes_back_returns_to_its_place_in_front_of_what_is_away() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.publish("q", 0..20_000);
        scene.consume("q", 10, Settling::Manual);
        let session = scene.peer.session(1);
        let mut held: Vec<u64> = scene.turn().into_iter().filter_map(delivery).map(|received| received.tag).collect();
        // The first stays out while thousands pass.
        let first = held.remove(0);
        for tag in held {
            assert_eq!(scene.peer.client.settle(session, Tags::One(tag), &Outcome::Accepted), Ok(1));
        }
        let mut count = 10;
        while count < 15_000 {
            let came: Vec<_> = scene.turn().into_iter().filter_map(delivery).collect();
            for received in &came {
                assert_eq!(received.body, body(count));
                count += 1;
                scene.peer.client.settle(session, Tags::One(received.tag), &Outcome::Accepted).unwrap();
            }
        }
        scene.peer.client.settle(session, Tags::One(first), &Outcome::Released).unwrap();
        let came: Vec<_> = scene.turn().into_iter().filter_map(delivery).collect();
        let back = came.iter().find(|received| received.redelivered).unwrap();
        assert_eq!(back.body, body(0));
        scene.check_memory();
    });
}

#[test]
fn a_backlog_is_purged_and_deleted_without_being_read() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.declare("r", &[]);
        scene.publish("q", 0..50_000);
        scene.publish("r", 0..50_000);
        let now = scene.broker.now();
        assert_eq!(scene.peer.client.purge_queue("q", now).unwrap().0, 50_000);
        scene.peer.client.delete_queue("r", DeleteIf::ALWAYS, now).unwrap();
        scene.publish("q", 0..10);
        let mut scene = scene.cut();
        assert_eq!(scene.counts("q"), (10, 0));
        assert_eq!(scene.broker.broker.queues().len(), 1);
        for number in 0..10 {
            assert_eq!(scene.get("q").unwrap().body, body(number));
        }
        for _ in 0..20 {
            scene.turn();
        }
        let journal = scene.broker.broker.overview().journal;
        assert!(journal.live_bytes + journal.segments.live_bytes < 1 << 20, "{journal:?}");
        scene.check_memory();
    });
}

#[test]
fn a_backlog_dies_of_age_also_after_a_restart() {
    Scene::both(|mut scene| {
        scene.declare("dead", &[]);
        scene.declare("plain", &[("x-message-ttl", Value::I64(60_000))]);
        scene.declare("moves", &[&dead_letters_to("dead")[..], &[("x-message-ttl", Value::I64(60_000))]].concat());
        scene.publish("plain", 0..20_000);
        scene.publish("moves", 0..20_000);
        let mut scene = scene.restart();
        scene.turn();
        assert_eq!((scene.counts("plain").0, scene.counts("moves").0), (20_000, 20_000));
        scene.broker.setup.clock.advance(60_001);
        for _ in 0..2000 {
            scene.turn();
            if scene.counts("plain").0 + scene.counts("moves").0 == 0 {
                break;
            }
        }
        scene.turn();
        assert_eq!([scene.counts("plain").0, scene.counts("moves").0, scene.counts("dead").0], [0, 0, 20_000]);
        scene.consume("dead", 1000, Settling::Manual);
        assert_run(&scene.drain(), 0..20_000);
    });
}

#[test]
fn a_queue_that_drops_its_head_keeps_its_length_when_the_head_is_away() {
    Scene::both(|mut scene| {
        scene.declare("dead", &[]);
        scene.declare("q", &[&dead_letters_to("dead")[..], &[("x-max-length", Value::I64(20_000))]].concat());
        scene.publish("q", 0..30_000);
        let mut scene = scene.restart();
        scene.publish("q", 30_000..40_000);
        assert_eq!((scene.counts("q").0, scene.counts("dead").0), (20_000, 20_000));
        scene.consume("q", 500, Settling::Manual);
        assert_run(&scene.drain(), 20_000..40_000);
        assert_eq!(numbers(&[scene.get("dead").unwrap(), scene.get("dead").unwrap()]), [0, 1]);
    });
}

#[test]
fn a_limit_in_bytes_counts_bodies_wherever_they_are() {
    Scene::both(|mut scene| {
        scene.declare("q", &[("x-max-length-bytes", Value::I64(1_000_000))]);
        scene.publish("q", 0..15_000);
        assert_eq!(scene.counts("q").0, 10_000);
        let mut scene = scene.restart();
        assert_eq!(scene.counts("q").0, 10_000);
        for _ in 0..50 {
            scene.turn();
        }
        scene.publish("q", 15_000..16_000);
        assert_eq!(scene.counts("q").0, 10_000);
        scene.consume("q", 0, Settling::Auto);
        assert_run(&scene.drain(), 6_000..16_000);
    });
}

/// An entry that was known never to expire was taken for weighed, and counted with a wrong length.
#[test]
fn a_limit_in_bytes_that_comes_later_weighs_what_is_there() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.publish("q", 0..20_000);
        let definition = table_of("max-length-bytes=1000000");
        let spec = PolicySpec { pattern: "q".to_owned(), apply_to: ApplyTo::Queues, priority: 0, definition };
        scene.broker.broker.set_policy("/", PolicyKind::User, "p", spec, &auth::Identity::operator("test")).unwrap();
        for _ in 0..100 {
            scene.turn();
        }
        assert_eq!(scene.counts("q").0, 10_000);
        scene.consume("q", 0, Settling::Auto);
        assert_run(&scene.drain(), 10_000..20_000);
        let session = scene.peer.session(1);
        scene.peer.client.cancel(session, "c", scene.broker.now(), &mut |_| ());
        scene.publish("q", 0..15_000);
        assert_eq!(scene.counts("q").0, 10_000);
    });
}

/// The length of properties was kept in two bytes, and the excess counted as a part of the body.
#[test]
fn properties_of_any_length_do_not_count_as_bodies() {
    let publish = |scene: &mut Scene, numbers: std::ops::Range<u64>| {
        let session = scene.peer.session(1);
        for number in numbers {
            let (body, properties) = (body(number), "n".repeat(100_000));
            let publish = Publish { properties: properties.as_bytes(), ..message("", "q", body.as_bytes()) };
            scene.peer.client.publish(session, publish).unwrap();
            scene.turn();
        }
    };
    let mut scene = Scene::open(64 << 20);
    scene.declare("q", &[("x-max-length-bytes", Value::I64(1000))]);
    publish(&mut scene, 0..15);
    // A part of less than 256 bytes of each may.
    let held = scene.counts("q").0;
    assert!((3..=10).contains(&held), "{held}");
    let mut scene = scene.restart();
    for _ in 0..20 {
        scene.turn();
    }
    publish(&mut scene, 15..20);
    assert_eq!(scene.counts("q").0, held);
}

#[test]
fn fetches_wait_for_what_is_away() {
    Scene::both(|mut scene| {
        scene.declare("q", &[]);
        scene.publish("q", 0..50_000);
        let mut scene = scene.restart();
        let session = scene.peer.session(1);
        for number in 0..300 {
            let received = scene.get("q").unwrap();
            assert_eq!((received.body.clone(), received.redelivered), (body(number), false));
            let outcome = if number % 2 == 0 { Outcome::Accepted } else { Outcome::Released };
            scene.peer.client.settle(session, Tags::One(received.tag), &outcome).unwrap();
            if outcome == Outcome::Released {
                let again = scene.get("q").unwrap();
                assert_eq!((again.body, again.redelivered), (body(number), true));
            }
        }
    });
}

#[test]
fn rejected_messages_of_a_backlog_move_in_order() {
    Scene::both(|mut scene| {
        scene.declare("dead", &[]);
        scene.declare("q", &dead_letters_to("dead"));
        scene.publish("q", 0..10_000);
        scene.consume("q", 200, Settling::Manual);
        let session = scene.peer.session(1);
        for _ in 0..1000 {
            let tags: Vec<_> = scene.turn().into_iter().filter_map(delivery).map(|received| received.tag).collect();
            let Some(last) = tags.last() else { break };
            scene.peer.client.settle(session, Tags::UpTo(*last), &Outcome::REJECTED).unwrap();
        }
        scene.peer.client.cancel(session, "c", scene.broker.now(), &mut |_| ());
        assert_eq!((scene.counts("q").0, scene.counts("dead").0), (0, 10_000));
        let mut scene = scene.cut();
        scene.consume("dead", 1000, Settling::Manual);
        assert_run(&scene.drain(), 0..10_000);
    });
}

/// Rejects messages 0 to 9 of queue `q` while dead letters before them wait to be read, and the
/// pager does nothing.
fn reject_behind_what_is_away(scene: &mut Scene) {
    scene.declare("dead", &[]);
    scene.declare("q", &[&dead_letters_to("dead")[..], &[("x-max-length", Value::I64(20_000))]].concat());
    scene.publish("q", 0..20_000);
    scene.consume("q", 10, Settling::Manual);
    let mut came = Vec::new();
    for _ in 0..10 {
        came.extend(scene.turn().into_iter().filter_map(delivery));
    }
    assert_run(&came, 0..10);
    let session = scene.peer.session(1);
    for number in 20_000..22_000 {
        scene.peer.client.publish(session, message("", "q", body(number).as_bytes())).unwrap();
    }
    // The next messages to drop are away.
    scene.peer.client.flush(scene.broker.now());
    scene.peer.client.settle(session, Tags::UpTo(came[9].tag), &Outcome::REJECTED).unwrap();
    scene.peer.client.flush(scene.broker.now());
    let ticket = scene.peer.client.settled_ticket();
    assert!(scene.broker.try_flush() && scene.peer.client.durable(ticket.into()));
}

/// After a power cut. The queue is too long, so they would have been dropped once more if their
/// reason were lost.
fn assert_still_rejected(scene: Scene) {
    scene.disk.power_cut();
    let Scene { broker, peer, disk, peak } = scene;
    drop(peer);
    let mut scene = Scene::again(broker.abandon(), disk, peak);
    scene.consume("dead", 0, Settling::Auto);
    let reasons: Vec<_> = scene.drain().into_iter().filter(|received| received.body < body(10)).collect();
    assert_eq!(reasons.len(), 10);
    assert!(reasons.iter().all(|received| received.deaths[0].1 == "rejected"), "{reasons:?}");
}

/// A rejected message waits behind a dead letter that has to be read first. Its client was told
/// that it is durable before any of it was logged, and a crash brought it back. Found by killing
/// the broker.
#[test]
fn a_rejection_is_durable_before_its_message_has_moved() {
    Scene::both(|mut scene| {
        reject_behind_what_is_away(&mut scene);
        assert_still_rejected(scene);
    });
}

/// Sends three times the log's size into another queue, which drops it, without reading any of it
/// back. Returns the bytes of the bodies, and those that the log wrote.
fn turn_the_log_over(scene: &mut Scene) -> (u64, u64) {
    let session = scene.peer.session(2);
    let short = durable_with("other", &[("x-max-length", Value::I64(10))]);
    scene.peer.client.declare_queue(&short, scene.broker.now()).unwrap();
    let written = |scene: &Scene| scene.broker.broker.overview().journal.written_bytes;
    let (before, mut sent) = (written(scene), 0);
    while sent < 12 << 20 {
        for _ in 0..100 {
            scene.peer.client.publish(session, message("", "other", &[b'o'; 2000])).unwrap();
            sent += 2000;
        }
        scene.peer.client.flush(scene.broker.now());
        assert!(scene.broker.try_flush() && scene.broker.background(100));
        assert!(!scene.peer.client.parked(session), "the log gives nothing back");
    }
    (sent, written(scene) - before)
}

#[test]
fn a_decided_death_outlives_the_part_of_the_log_that_said_it() {
    let mut scene = Scene::open(4 << 20);
    reject_behind_what_is_away(&mut scene);
    turn_the_log_over(&mut scene);
    assert_still_rejected(scene);
}

/// The facts of a backlog were restated entry by entry in every file that left the log. From some
/// depth on, the log wrote more than it gave back.
#[test]
fn how_often_a_backlog_came_back_outlives_the_log_and_costs_it_little() {
    let mut scene = Scene::open(4 << 20);
    let quorum = [("x-queue-type", Value::Text("quorum".to_owned()))];
    scene.declare("q", &quorum);
    scene.publish("q", 0..30_000);
    scene.consume("q", 0, Settling::Manual);
    let mut came = Vec::new();
    while came.len() < 30_000 {
        came.extend(scene.turn().into_iter().filter_map(delivery));
    }
    let session = scene.peer.session(1);
    scene.peer.client.cancel(session, "c", scene.broker.now(), &mut |_| ());
    scene.peer.client.settle(session, Tags::UpTo(came[29_999].tag), &Outcome::Released).unwrap();
    scene.turn();
    let (sent, written) = turn_the_log_over(&mut scene);
    assert!(written < sent / 10 * 11, "{written} bytes were written for {sent}");
    let mut scene = scene.cut();
    scene.consume("q", 1000, Settling::Manual);
    let came = scene.drain();
    assert_run(&came, 0..30_000);
    let given_back = Counts { delivery: None, acquired: Some(1) };
    assert!(came.iter().all(|received| received.counts == given_back), "a count was forgotten");
}

#[test]
fn one_body_in_many_queues_comes_out_of_each() {
    Scene::both(|mut scene| {
        for name in ["a", "b", "c"] {
            scene.declare(name, &[]);
            scene.peer.client.bind(&binding("amq.direct", "k", name), scene.broker.now()).unwrap();
        }
        scene.publish_to("amq.direct", "k", 0..10_000);
        let mut scene = scene.cut();
        for name in ["c", "a", "b"] {
            scene.consume(name, 100, Settling::Manual);
            assert_run(&scene.drain(), 0..10_000);
            let session = scene.peer.session(1);
            scene.peer.client.cancel(session, "c", scene.broker.now(), &mut |_| ());
        }
    });
}

#[test]
fn a_message_that_cannot_be_read_stops_its_queue_and_no_other() {
    let mut scene = Scene::open(64 << 20);
    scene.declare("q", &[]);
    scene.declare("other", &[]);
    scene.publish("q", 0..20_000);
    scene.publish("other", 0..20_000);
    let mut scene = scene.restart();
    let damaged = 7_000;
    scene.damage(damaged);
    scene.consume("q", 0, Settling::Auto);
    assert_run(&scene.drain(), 0..damaged);
    let told = scene.broker.broker.take_damages();
    assert!(told.len() == 1 && told[0].contains("queue 'q' in vhost '/'"), "{told:?}");
    let reports = scene.broker.broker.queues();
    assert!(reports.iter().all(|report| report.damaged.is_some() == (report.name == "q")));
    let (session, now) = (scene.peer.session(1), scene.broker.now());
    let error = scene.peer.client.get(session, "q", Settling::Auto, now, &mut |_, _| ()).unwrap_err();
    assert!(error.text.contains("can't be read"), "{}", error.text);
    let session = scene.peer.session(1);
    scene.peer.client.cancel(session, "c", scene.broker.now(), &mut |_| ());
    scene.consume("other", 0, Settling::Auto);
    assert_run(&scene.drain(), 0..20_000);
    assert_eq!(scene.peer.client.purge_queue("q", now).unwrap().0, 20_000 - damaged);
    scene.publish("q", 0..10);
    assert_eq!(scene.get("q").unwrap().body, body(0));
}

/// The unreadable messages had gone. The consumer still got nothing until something else made the
/// queue try again.
#[test]
fn a_queue_goes_on_when_what_cannot_be_read_has_gone() {
    let mut scene = Scene::open(64 << 20);
    scene.declare("q", &[("x-max-length", Value::I64(20_000))]);
    scene.publish("q", 0..20_000);
    let mut scene = scene.restart();
    scene.damage(0);
    scene.consume("q", 0, Settling::Auto);
    assert_run(&scene.drain(), 0..0);
    let damaged = |scene: &Scene| scene.broker.broker.queues()[0].damaged.is_some();
    assert!(damaged(&scene));
    let session = scene.peer.session(1);
    scene.peer.client.publish(session, message("", "q", body(20_000).as_bytes())).unwrap();
    assert_run(&scene.drain(), 1..20_001);
    assert!(!damaged(&scene));
}

/// Each queue kept a window of its own in memory, so many short ones held far more than the budget.
#[test]
fn many_short_queues_hold_no_more_than_one_long_one() {
    let mut scene = Scene::open(64 << 20);
    let queues: Vec<String> = (0..3000).map(|number| format!("q{number}")).collect();
    for (number, queue) in queues.iter().enumerate() {
        scene.declare(queue, &[]);
        let body = format!("{number:01000}");
        let session = scene.peer.session(1);
        scene.peer.client.publish(session, message("", queue, body.as_bytes())).unwrap();
        if number % 100 == 99 {
            scene.turn();
        }
    }
    (0..100).for_each(|_| drop(scene.turn()));
    let used = scene.broker.broker.overview().memory.used;
    assert!(used < BUDGET, "{used} bytes are in memory");
    for (number, queue) in queues.iter().enumerate() {
        assert_eq!(scene.get(queue).unwrap().body.parse(), Ok(number));
    }
}
