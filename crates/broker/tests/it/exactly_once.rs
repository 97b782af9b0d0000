//! Messages that are handed over exactly once: what a client and the broker have begun is kept with
//! a subscription, over restarts and recycled logs, together with the messages or not at all.

use std::task::Waker;
use std::time::Instant;

use broker::{
    Client, Confirm, Consume, Event, ExactlyOnce, Handover, Outcome, Publish, QueueSpec, SessionId, Source,
    SubscriptionFilter, SubscriptionName, SubscriptionSpec, Table, Tags,
};
use testkit::broker::{Setup, TestBroker};
use testkit::sim_disk::SimDisk;

use crate::{durable, message};

/// A client with a session and the subscription that keeps for it.
struct Keeper {
    client: Client,
    session: SessionId,
    begun: ExactlyOnce,
}

fn name() -> SubscriptionName {
    SubscriptionName { client: Some("c".to_owned()), name: "s".to_owned() }
}

impl Keeper {
    fn attach(broker: &TestBroker) -> Self {
        let mut client = broker.attach("guest", Waker::noop().clone()).unwrap();
        let filter =
            SubscriptionFilter { exchange: "amq.topic".to_owned(), key: "t".to_owned(), arguments: Table::default() };
        let spec = SubscriptionSpec {
            name: name(),
            filters: vec![filter],
            queue: QueueSpec { ..durable("q") },
            ..SubscriptionSpec::default()
        };
        client.subscribe(&spec, broker.now()).unwrap();
        broker.flush();
        let (begun, _) = client.keep_exactly_once(&name()).unwrap();
        let session = client.open_session(1);
        Self { client, session, begun }
    }

    fn publish(&mut self, number: u64, id: u16, now: Instant) {
        let confirm = Confirm::Once { number, id };
        self.client.publish(self.session, Publish { confirm, ..message("amq.topic", "t", b"m") }).unwrap();
        self.client.flush(now);
    }

    /// Consumes. What waited is delivered once the mark of deliveries is on disk.
    fn consume(&mut self, broker: &TestBroker) {
        let consume = Consume { source: Source::Subscription(name()), tag: "tag".to_owned(), ..Consume::default() };
        self.client.consume(self.session, consume, broker.now()).unwrap();
        broker.flush();
    }

    /// The tags and places that have come, and the numbers up to which publishes are confirmed.
    fn drain(&mut self, now: Instant) -> (Vec<(u64, u64)>, Vec<u64>) {
        let (mut came, mut confirmed) = (Vec::new(), Vec::new());
        self.client.drain(now, 1 << 20, &mut |event| match event {
            Event::Deliver(delivery) => came.push((delivery.tag, delivery.place)),
            Event::Confirmed { up_to, .. } => confirmed.push(up_to),
            other => panic!("{other:?}"),
        });
        (came, confirmed)
    }

    fn hand_over(&mut self, steps: &[Handover]) {
        self.client.hand_over(self.session, steps).unwrap();
    }
}

fn begun(received: &[u64], taken: &[u64]) -> ExactlyOnce {
    ExactlyOnce { received: received.iter().copied().collect(), taken: taken.iter().copied().collect() }
}

fn cut(broker: TestBroker, disk: &SimDisk) -> TestBroker {
    disk.power_cut();
    TestBroker::open(broker.abandon())
}

/// Fills the log again and again, so that all facts are said again at its head.
fn recycle(broker: &TestBroker) {
    let (mut client, now) = (broker.attach("guest", Waker::noop().clone()).unwrap(), broker.now());
    let session = client.open_session(1);
    client.declare_queue(&durable("filler"), now).unwrap();
    for _ in 0..300 {
        client.publish(session, message("", "filler", &[b'x'; 8000])).unwrap();
        client.flush(now);
        broker.flush();
        assert!(broker.background(100));
        client.purge_queue("filler", now).unwrap();
    }
    client.close(now);
    broker.flush();
}

#[test]
fn what_is_begun_is_there_after_a_power_cut_and_in_a_recycled_log() {
    let disk = SimDisk::new(1, 64 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 1 << 20));
    let (mut keeper, now) = (Keeper::attach(&broker), broker.now());
    assert_eq!(keeper.begun, ExactlyOnce::default());
    [(1, 7), (2, 9)].into_iter().for_each(|(number, id)| keeper.publish(number, id, now));
    assert_eq!(keeper.drain(now), (vec![], vec![]), "nothing is confirmed before it is on disk");
    broker.flush();
    assert_eq!(keeper.drain(now).1.last(), Some(&2));
    keeper.consume(&broker);
    let (came, _) = keeper.drain(now);
    let [(first, place), _] = came[..] else { panic!("{came:?}") };
    keeper.hand_over(&[Handover::Released(9), Handover::Taken(first)]);
    broker.flush();
    drop(keeper);
    recycle(&broker);
    let broker = cut(broker, &disk);
    let mut keeper = Keeper::attach(&broker);
    assert_eq!(keeper.begun, begun(&[7], &[place]));
    keeper.consume(&broker);
    // What was taken has left the queue.
    let (came, _) = keeper.drain(now);
    let [(second, _)] = came[..] else { panic!("{came:?}") };
    keeper.hand_over(&[Handover::Released(7), Handover::Completed(place), Handover::Taken(second)]);
    keeper.client.settle(keeper.session, Tags::One(second), &Outcome::Accepted).unwrap();
    keeper.client.flush(now);
    broker.flush();
    drop(keeper);
    let broker = cut(broker, &disk);
    recycle(&broker);
    let broker = cut(broker, &disk);
    let mut keeper = Keeper::attach(&broker);
    assert_eq!((keeper.begun.received.len(), keeper.begun.taken.len()), (0, 1));
    keeper.consume(&broker);
    assert_eq!(keeper.drain(now).0, []);
}

/// Kills of a loaded broker found it: a message was delivered before it was on disk, the kill took
/// it back, its publisher gave it again, and it came a second time as a new one.
#[test]
fn a_message_comes_once_it_is_on_disk() {
    let disk = SimDisk::new(2, 64 << 20);
    let broker = TestBroker::open(Setup::stepped(&disk, 1 << 20));
    let (mut keeper, now) = (Keeper::attach(&broker), broker.now());
    keeper.consume(&broker);
    keeper.publish(1, 7, now);
    assert_eq!(keeper.drain(now), (vec![], vec![]));
    broker.flush();
    let (came, confirmed) = keeper.drain(now);
    assert_eq!((came.len(), confirmed), (1, vec![1]));
}

/// A full queue that refuses a message does so for all of its queues, and nothing is kept.
#[test]
fn a_message_that_is_refused_is_in_no_queue_and_its_id_is_free() {
    let broker = TestBroker::open(Setup::memory());
    let (mut keeper, now) = (Keeper::attach(&broker), broker.now());
    let mut full = durable("full");
    full.arguments.set("x-max-length", broker::Value::I32(1));
    full.arguments.set("x-overflow", broker::Value::Text("reject-publish".to_owned()));
    keeper.client.declare_queue(&full, now).unwrap();
    keeper.client.bind(&crate::binding("amq.topic", "t", "full"), now).unwrap();
    let mut outcomes = Vec::new();
    for (number, id) in [(1, 1), (2, 2)] {
        keeper.publish(number, id, now);
        keeper.client.drain(now, 1 << 20, &mut |event| match event {
            Event::Confirmed { up_to, .. } => outcomes.push((up_to, "taken")),
            Event::Refused { number, .. } => outcomes.push((number, "refused")),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(outcomes, [(1, "taken"), (2, "refused")]);
    assert_eq!(keeper.client.keep_exactly_once(&name()).unwrap().0, begun(&[1], &[]));
    keeper.consume(&broker);
    assert_eq!(keeper.drain(now).0.len(), 1);
}

/// A delivery that was taken counts against the window until it is settled.
#[test]
fn what_is_taken_counts_until_it_is_settled() {
    let broker = TestBroker::open(Setup::memory());
    let (mut keeper, now) = (Keeper::attach(&broker), broker.now());
    keeper.client.share_window(keeper.session, std::num::NonZeroU32::new(1), now);
    keeper.consume(&broker);
    (1..=2).for_each(|number| keeper.publish(number, number as u16, now));
    let (came, _) = keeper.drain(now);
    let [(first, _)] = came[..] else { panic!("{came:?}") };
    keeper.hand_over(&[Handover::Taken(first), Handover::Taken(99)]);
    keeper.client.flush(now);
    assert_eq!(keeper.drain(now).0, []);
    keeper.client.settle(keeper.session, Tags::One(first), &Outcome::Accepted).unwrap();
    keeper.client.flush(now);
    assert_eq!(keeper.drain(now).0.len(), 1);
}
