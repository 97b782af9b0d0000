//! Large bodies: how many are under way at once, the order in which they are let in, and that all
//! arrive.

use std::time::Instant;

use broker::{Consume, Flow, LARGE_BODY, Publish, SessionId, Switch};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen};
use testkit::sim_disk::SimDisk;

use crate::{durable, message};

const LARGE: usize = 256 << 10;
/// Four bodies may be under way.
const LIMIT: u64 = 16 * LARGE as u64;

/// A client that sends bodies in pieces, as a protocol does for it.
struct Sender {
    peer: Peer,
    /// The rest of a body, and its size, in each session.
    left: Vec<(SessionId, usize, usize)>,
    sent: usize,
    confirmed: u64,
    seen: Vec<String>,
}

impl Sender {
    fn attach(broker: &TestBroker) -> Self {
        let mut peer = Peer::attach(broker, "guest").unwrap();
        let session = peer.session(1);
        peer.confirm(session);
        Self { peer, left: Vec::new(), sent: 0, confirmed: 0, seen: Vec::new() }
    }

    fn flow(&self) -> Flow {
        self.peer.client.flow()
    }

    fn begin(&mut self, number: u32, bytes: usize, now: Instant) {
        let session = self.peer.session(number);
        self.peer.client.body_arrives(session, bytes as u64, now);
        self.left.push((session, bytes, bytes));
    }

    /// Sends some more of its first body if it is read, or publishes it when it is complete.
    fn send(&mut self, bytes: usize, now: Instant) {
        if self.flow() == Flow::Pause || self.left.is_empty() {
            return;
        }
        let (session, left, size) = &mut self.left[0];
        *left = left.saturating_sub(bytes);
        self.peer.client.body_arrives(*session, *size as u64, now);
        if *left == 0 {
            let body = vec![b'.'; *size];
            self.peer.publish(*session, to("q", &body)).unwrap();
            self.left.remove(0);
            self.sent += 1;
        }
        self.peer.client.flush(now);
    }

    fn send_all(&mut self, now: Instant) {
        self.send(usize::MAX, now);
    }

    fn drain(&mut self, broker: &TestBroker) {
        for seen in self.peer.drain(broker) {
            match seen {
                Seen::Confirmed(_, number) => self.confirmed = number,
                other => self.seen.push(other.to_string()),
            }
        }
    }
}

fn to<'a>(queue: &'a str, body: &'a [u8]) -> Publish<'a> {
    message("", queue, body)
}

/// A broker over a log that is flushed when the test says so, with the queue `q`.
fn open() -> TestBroker {
    let disk = SimDisk::new(1, 1 << 30);
    let mut setup = Setup::stepped(&disk, 256 << 20);
    setup.settings.memory_limit = LIMIT;
    setup.settings.memory_budget = 256 << 10;
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").unwrap();
    peer.client.declare_queue(&durable("q"), broker.now()).unwrap();
    broker.flush();
    broker
}

fn flows(senders: &[Sender]) -> String {
    senders.iter().map(|sender| if sender.flow() == Flow::Run { 'r' } else { '-' }).collect()
}

fn arriving(broker: &TestBroker) -> u64 {
    broker.broker.overview().memory.arriving
}

#[test]
fn forty_connections_never_have_more_under_way_than_may_be_and_all_arrive() {
    for seed in 1..=5u64 {
        let broker = open();
        let mut senders: Vec<Sender> = (0..40).map(|_| Sender::attach(&broker)).collect();
        let mut begun = vec![0; senders.len()];
        let mut random = seed;
        let (mut most, mut step) = (0, 0);
        while senders.iter().any(|sender| sender.confirmed < 3) {
            step += 1;
            assert!(step < 200_000, "seed {seed}: nothing moves any more");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % senders.len();
            let sender = &mut senders[at];
            if sender.left.is_empty() && begun[at] < 3 {
                begun[at] += 1;
                // One in eight is larger than the limit for all bodies.
                let bytes = LARGE / 2 + (random >> 40) as usize % LARGE;
                let bytes = if random >> 61 == 0 { 5 * LARGE } else { bytes };
                sender.begin(1, bytes, broker.now());
            } else {
                sender.send(LARGE / 4, broker.now());
            }
            if (random >> 20).is_multiple_of(16) {
                broker.flush();
            }
            sender.drain(&broker);
            let used = arriving(&broker);
            most = most.max(used);
            assert!(used <= LIMIT / 4 || used == 5 * LARGE as u64, "seed {seed}: {used} bytes");
        }
        assert!(most > LIMIT / 8, "seed {seed}: only {most} bytes were ever under way");
        assert!(senders.iter().all(|sender| sender.seen.is_empty()), "seed {seed}");
        broker.flush();
        assert_eq!(arriving(&broker), 0, "seed {seed}");
        assert_eq!(broker.broker.queues()[0].ready, 120, "seed {seed}");
    }
}

#[test]
fn a_place_is_kept_until_the_flush_and_goes_to_the_next_in_line() {
    let broker = open();
    let now = broker.now();
    let mut senders: Vec<Sender> = (0..6).map(|_| Sender::attach(&broker)).collect();
    senders.iter_mut().for_each(|sender| sender.begin(1, LARGE, now));
    assert_eq!(flows(&senders), "rrrr--");
    senders[2].send_all(now);
    assert_eq!((flows(&senders).as_str(), arriving(&broker)), ("rrrr--", LIMIT / 4));
    broker.flush();
    assert_eq!((flows(&senders).as_str(), arriving(&broker)), ("rrrrr-", LIMIT / 4));
    assert!(senders[4].peer.wakes.take() && !senders[5].peer.wakes.take());
    // A client that goes gives back its place. A closed session of a waiting body leaves the line.
    drop(senders.remove(0));
    assert_eq!(flows(&senders), "rrrrr");
    for mut sender in senders {
        let session = sender.peer.session(1);
        sender.peer.client.close_session(session, now);
        assert_eq!(sender.flow(), Flow::Run);
    }
    broker.flush();
    assert_eq!(arriving(&broker), 0);
}

#[test]
fn small_bodies_consumers_and_second_bodies_of_a_connection_do_not_wait() {
    let broker = open();
    let now = broker.now();
    let mut senders: Vec<Sender> = (0..6).map(|_| Sender::attach(&broker)).collect();
    for sender in &mut senders[..4] {
        sender.begin(1, LARGE, now);
    }
    senders[4].begin(1, LARGE_BODY as usize, now);
    senders[4].send_all(now);
    broker.flush();
    senders[4].drain(&broker);
    assert_eq!(senders[4].confirmed, 1);
    let session = senders[5].peer.session(1);
    let consume = Consume { source: "q".into(), tag: "c".into(), ..Consume::default() };
    senders[5].peer.client.consume(session, consume, now).unwrap();
    // The delivery mark has to be on disk.
    broker.flush();
    senders[5].drain(&broker);
    assert_eq!((senders[5].seen.len(), senders[5].flow()), (1, Flow::Run));
    // The frames of two channels alternate: the first body ends only if the second is read.
    senders[0].begin(2, LARGE, now);
    assert_eq!((senders[0].flow(), arriving(&broker)), (Flow::Run, 5 * LARGE as u64));
    // When the first of a connection's two waiting bodies may go on, both do.
    senders[4].begin(1, LARGE, now);
    senders[4].begin(2, LARGE, now);
    assert_eq!((senders[4].flow(), arriving(&broker)), (Flow::Pause, 5 * LARGE as u64));
    senders[1].send_all(now);
    senders[2].send_all(now);
    broker.flush();
    senders[4].drain(&broker);
    assert_eq!((senders[4].flow(), arriving(&broker)), (Flow::Run, 5 * LARGE as u64));
}

#[test]
fn a_body_without_end_gives_its_place_up_when_others_wait() {
    let broker = open();
    let mut senders: Vec<Sender> = (0..5).map(|_| Sender::attach(&broker)).collect();
    let late = |senders: &[Sender]| {
        let now = broker.now();
        senders.iter().filter_map(|sender| sender.peer.client.next_deadline()).filter(|at| *at <= now).count()
    };
    for sender in &mut senders[..4] {
        sender.begin(1, LARGE, broker.now());
    }
    broker.setup.clock.advance(30_000);
    assert_eq!(late(&senders), 4);
    senders.iter_mut().for_each(|sender| sender.drain(&broker));
    assert_eq!(late(&senders), 0);
    senders[4].begin(1, LARGE, broker.now());
    broker.setup.clock.advance(20_000);
    for sender in &mut senders[1..4] {
        sender.send(1000, broker.now());
    }
    broker.setup.clock.advance(10_000);
    senders.iter_mut().for_each(|sender| sender.drain(&broker));
    assert_eq!(
        senders[0].seen,
        ["failed: 406 nothing of a large message has arrived for 30 s while others wait for its place"]
    );
    assert!(senders[1..].iter().all(|sender| sender.seen.is_empty()));
    let session = senders[0].peer.session(1);
    senders[0].peer.client.close_session(session, broker.now());
    assert_eq!(flows(&senders), "rrrrr");
    // The last one has had its place from here on.
    senders[4].drain(&broker);
    assert_eq!(late(&senders), 0);
}

/// A body that was begun and never ended was kept for as long as its connection lived.
#[test]
fn a_body_of_which_nothing_comes_ends_its_session_whether_others_wait_or_not() {
    const TEXT: &str = "failed: 406 nothing of a message that was begun has arrived for 60 s (limits.body_timeout)";
    for bytes in [1000, LARGE] {
        let broker = open();
        let mut sender = Sender::attach(&broker);
        sender.begin(1, bytes, broker.now());
        let mut slow = Sender::attach(&broker);
        slow.begin(1, bytes, broker.now());
        for _ in 0..2 {
            broker.setup.clock.advance(30_000);
            slow.send(1, broker.now());
            [&mut sender, &mut slow].into_iter().for_each(|sender| sender.drain(&broker));
        }
        assert_eq!(sender.seen, [TEXT], "{bytes} bytes");
        assert!(slow.seen.is_empty() && slow.peer.client.next_deadline().is_some());
        let session = sender.peer.session(1);
        sender.peer.client.close_session(session, broker.now());
        assert_eq!(sender.peer.client.next_deadline(), None);
        slow.send(bytes, broker.now());
        assert_eq!(slow.peer.client.next_deadline(), None);

        // While a connection is not read, a delay is not its fault.
        sender.begin(2, bytes, broker.now());
        let other = sender.peer.session(3);
        broker.broker.force_alarm("memory", Switch::On).expect("there is such an alarm");
        sender.peer.client.publish(other, to("q", b"x")).expect("it is taken");
        sender.peer.client.flush(broker.now());
        let is_read = sender.flow() == Flow::Run;
        broker.setup.clock.advance(60_000);
        sender.drain(&broker);
        assert_eq!(sender.seen.iter().filter(|seen| *seen == TEXT).count(), if is_read { 2 } else { 1 }, "{bytes}");
    }
}

#[test]
fn an_alarm_stops_a_publisher_behind_the_body_that_was_let_in() {
    let disk = SimDisk::new(1, 1 << 30);
    let mut setup = Setup::stepped(&disk, 256 << 20);
    setup.settings.memory_limit = LIMIT;
    let broker = TestBroker::open(setup);
    let now = broker.now();
    let mut publisher = Sender::attach(&broker);
    let spec = broker::QueueSpec { name: "q".to_owned(), ..broker::QueueSpec::default() };
    publisher.peer.client.declare_queue(&spec, now).unwrap();
    let session = publisher.peer.session(1);
    let other = publisher.peer.session(2);
    let body = vec![0; LARGE];
    for _ in 0..16 {
        publisher.peer.publish(session, to("q", &body)).unwrap();
        publisher.peer.client.flush(now);
    }
    publisher.begin(1, LARGE, now);
    publisher.peer.publish(other, to("q", b"")).unwrap();
    publisher.peer.client.flush(now);
    publisher.drain(&broker);
    assert_eq!((publisher.seen.as_slice(), publisher.flow()), (&["blocked: low on memory".to_owned()][..], Flow::Run));
    publisher.send_all(now);
    assert_eq!(publisher.flow(), Flow::Pause);
    // Its next body is not even in line.
    publisher.begin(1, LARGE, now);
    publisher.drain(&broker);
    assert_eq!((publisher.flow(), arriving(&broker)), (Flow::Pause, 0));
    let mut consumer = Sender::attach(&broker);
    consumer.peer.client.purge_queue("q", now).unwrap();
    broker.setup.clock.advance(50);
    broker.flush();
    publisher.drain(&broker);
    assert_eq!((publisher.flow(), arriving(&broker)), (Flow::Run, LARGE as u64));
}

#[test]
fn a_body_that_is_parked_keeps_its_place_until_it_is_taken_or_refused() {
    let disk = SimDisk::new(1, 1 << 30);
    let mut setup = Setup::stepped(&disk, 256 << 20);
    setup.settings.memory_limit = LIMIT;
    let broker = TestBroker::open(setup);
    let mut senders: Vec<Sender> = (0..2).map(|_| Sender::attach(&broker)).collect();
    let spec = broker::QueueSpec { name: "q".to_owned(), ..broker::QueueSpec::default() };
    for (sender, other) in senders.iter_mut().zip(["a", "b"]) {
        sender.peer.client.declare_queue(&spec, broker.now()).unwrap();
        sender.peer.client.declare_queue(&durable(other), broker.now()).unwrap();
        let session = sender.peer.session(2);
        let consume = Consume { source: other.into(), tag: "c".into(), ..Consume::default() };
        sender.peer.client.consume(session, consume, broker.now()).unwrap();
    }
    // The limit and all of the headroom.
    let session = senders[0].peer.session(2);
    let body = vec![0; LARGE];
    for _ in 0..18 {
        senders[0].peer.publish(session, to("q", &body)).unwrap();
        senders[0].peer.client.flush(broker.now());
    }
    senders[0].begin(1, LARGE, broker.now());
    senders[0].send_all(broker.now());
    senders[1].begin(1, LARGE, broker.now());
    senders.iter_mut().for_each(|sender| sender.drain(&broker));
    // There is no memory for a second one. The client that has parked the first is read.
    assert_eq!((flows(&senders).as_str(), arriving(&broker)), ("r-", LARGE as u64));
    broker.setup.clock.advance(30_000);
    senders.iter_mut().for_each(|sender| sender.drain(&broker));
    let said: Vec<_> = senders.iter().map(|sender| sender.seen.join(", ")).collect();
    assert_eq!(said, ["blocked: low on memory, -1", ""]);
    assert_eq!((flows(&senders).as_str(), arriving(&broker)), ("rr", LARGE as u64));
    senders[1].send_all(broker.now());
    senders[0].peer.client.purge_queue("q", broker.now()).unwrap();
    broker.setup.clock.advance(50);
    broker.flush();
    senders[1].drain(&broker);
    assert_eq!((senders[1].seen.join(", "), senders[1].confirmed), ("blocked: low on memory, unblocked".to_owned(), 1));
    assert_eq!(arriving(&broker), 0);
}
