//! Full memory and a full log: publishers stop, consumers go on, and all of them finish.

use broker::{
    ApplyTo, Browse, Consume, Flow, Outcome, PolicyKind, PolicySpec, Publish, QueueSpec, RedriveMode, SessionId, Tags,
    Ticket, TransactionId, Value, WillCount, WillKept,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::{Peer, Seen, window};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::{dead_letters_to, durable, durable_with, message};

/// Room for ten messages of 1000 bytes, and for another one in the headroom.
fn tight() -> Script {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 11_300;
    setup.settings.parking.bytes = 3_000;
    Script::open(setup, None)
}

/// It is full. `a` has published all of it, and consumes from another queue.
fn full() -> Script {
    let mut script = tight();
    script.check(&[("a queue q; queue r; consume r c; confirm", "0 0, 0 0")]);
    fill_up(&mut script);
    script
}

fn fill_up(script: &mut Script) {
    for number in 0..12 {
        script.say(&format!("a publish - q {number} size=1000"));
    }
}

#[test]
fn the_memory_alarm_stops_those_who_only_publish() {
    let mut script = tight();
    script.check(&[("a queue q", "0 0")]);
    for number in 0..10 {
        script.check(&[(&format!("a publish - q {number} size=1000"), "")]);
    }
    script.check(&[
        ("a flow", "Run"),
        ("a publish - q 10 size=1000", ""),
        ("a publish - q 11 size=1000", "blocked: low on memory"),
        ("a flow", "Pause"),
        ("b prefetch 2; consume q c", "c:1=0, c:2=1"),
        ("a flow", "Pause"),
        ("b ack 2 multiple", "c:3=2, c:4=3"),
        ("* tick 50", ""),
        ("a flow", "Pause, unblocked"),
        ("a flow", "Run"),
        ("a publish - q 12 size=1", ""),
    ]);
}

#[test]
fn publishes_of_a_consumer_wait_in_order_and_its_settlements_overtake_them() {
    let mut script = full();
    script.check(&[
        ("a parked; flow", "false, Run"),
        ("a publish - q 12 size=1000; publish - q 13 size=1", ""),
        ("a parked; flow; publish - q 14", "true, Run"),
        ("* counts q", "12 0"),
        ("b get q no-ack; get q no-ack; get q no-ack", ":1=0 left 11, :2=1 left 10, :3=2 left 9"),
        ("* tick 50", ""),
        ("a parked", "true, +15"),
        ("a parked", "false"),
        ("* counts q", "12 0"),
        ("b purge q", "12"),
        ("* tick 50", ""),
        ("a", "unblocked"),
    ]);
}

#[test]
fn what_waits_too_long_or_is_too_much_is_refused() {
    let mut script = full();
    script.check(&[
        ("a publish - q 12 size=1000", ""),
        ("* tick 30000", ""),
        ("a parked", "true, -13"),
        ("a publish - q 1 size=2000; publish - q 2 size=2000", ""),
        ("a parked; publish - q 3; publish - q 4", "true, -14, -15, -16"),
        ("* tick 30000", ""),
        ("a", "-17"),
        ("a/2 publish - q 1", ""),
        ("* tick 30000", ""),
        ("a", "failed: 406 publish refused: broker is low on memory: the alarm did not pass in time"),
    ]);
}

/// Each of its sessions waits by itself, and their waiting publishes count together.
#[test]
fn what_waits_on_all_sessions_of_a_connection_is_bounded_together() {
    let mut script = full();
    script.check(&[
        ("a publish - q 12 size=2000", ""),
        ("a/2 confirm; publish - q 1 size=2000", ""),
        ("a/2 parked; publish - q 2; publish - q 3; parked", "true, false, -1, -2"),
        ("a parked; publish - q 13", "true"),
        ("a/2 parked", "true"),
        ("b purge q", "12"),
        ("* tick 50", ""),
    ]);
    script.say("a");
    script.check(&[("a parked", "false"), ("a/2 parked", "false"), ("* counts q", "3 0")]);
}

#[test]
fn a_commit_waits_behind_the_alarm_as_one() {
    let mut script = full();
    script.check(&[
        ("a begin; tx-publish - q x; tx-publish - r y; commit", ""),
        ("a parked", "true"),
        ("b purge q", "12"),
        ("* tick 50", ""),
        ("a", "unblocked, committed, c:1=y"),
        ("* counts q", "1 0"),
        ("a parked", "false"),
    ]);
    fill_up(&mut script);
    script.check(&[
        ("a begin; tx-publish - q x; tx-ack 1; commit", ""),
        ("* tick 30000", ""),
        ("a", "rolled back: 406 commit refused: broker is low on memory, c:2=y!"),
    ]);
}

/// Nearly all of a message's place in the log is its body. A relay that moves messages one by one
/// flushes whole blocks of 4 KiB each. So moving small messages would need more room than the
/// headroom has.
const SIZE: usize = 64_000;

/// A peer and its one session, over a small log.
struct Small {
    broker: TestBroker,
    peer: Peer,
    session: SessionId,
    seen: Vec<Seen>,
}

impl Small {
    fn attach(broker: TestBroker) -> Self {
        let mut peer = Peer::attach(&broker, "guest").unwrap();
        let session = peer.session(1);
        Self { broker, peer, session, seen: Vec::new() }
    }

    /// A log of 2 MiB, the queue `q` with such arguments, and `r`, where its dead letters go.
    fn with_dead_letters(arguments: &[(&str, Value)]) -> Self {
        let disk = SimDisk::new(1, 4 << 20);
        let mut small = Self::attach(TestBroker::open(Setup::stepped(&disk, 2 << 20)));
        small.declare(&durable("r"));
        small.declare(&durable_with("q", &[&dead_letters_to("r")[..], arguments].concat()));
        small
    }

    fn declare(&mut self, spec: &QueueSpec) -> Ticket {
        self.peer.client.declare_queue(spec, self.broker.now()).unwrap().ticket
    }

    fn consume(&mut self, queue: &str) {
        let consume = Consume { source: queue.into(), tag: "c".into(), ..Consume::default() };
        self.peer.client.consume(self.session, consume, self.broker.now()).unwrap();
    }

    /// Ready messages, by queue, in the order of their names.
    fn ready(&self) -> Vec<u64> {
        self.broker.broker.queues().iter().map(|queue| queue.ready).collect()
    }

    fn publish(&mut self, queue: &str, size: usize, transaction: Option<TransactionId>) {
        let body = vec![b'x'; size];
        let publish = message("", queue, &body);
        match transaction {
            Some(transaction) => self.peer.client.publish_in(transaction, self.session, publish).unwrap(),
            None => self.peer.publish(self.session, publish).unwrap(),
        }
    }

    /// Stops the broker and opens it again with a log of `ring` bytes.
    fn with_a_log_of(mut self, ring: u64, disk: &SimDisk) -> Self {
        self.turn();
        self.peer.client.close(self.broker.now());
        drop(self.peer);
        let setup = self.broker.stop();
        Self::attach(TestBroker::open(Setup { journal: Setup::stepped(disk, ring).journal, ..setup }))
    }

    fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| self.turn());
    }

    /// Takes turns until `wanted` was seen, and takes it out.
    fn wait(&mut self, wanted: impl Fn(&Seen) -> bool) -> Seen {
        for _ in 0..50 {
            if let Some(at) = self.seen.iter().position(&wanted) {
                return self.seen.remove(at);
            }
            self.turn();
        }
        panic!("it never comes; seen: {:?}; {:?}", self.seen, self.broker.broker.overview().journal);
    }

    fn turn(&mut self) {
        self.peer.client.flush(self.broker.now());
        self.broker.flush();
        assert!(self.broker.background(200));
        self.broker.setup.clock.advance(50);
        self.broker.flush();
        let seen = self.peer.drain(&self.broker);
        self.seen.extend(seen);
        self.peer.client.flush(self.broker.now());
    }
}

/// Fills the log from a connection that only publishes, until that is stopped.
fn fill(queues: &[&str]) -> (Small, u64) {
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 16 << 20);
    setup.journal.file_bytes = 1 << 20;
    let mut small = Small::attach(TestBroker::open(setup));
    for name in queues {
        small.declare(&durable(name));
    }
    let mut count = 0;
    while small.peer.client.flow() == Flow::Run {
        small.publish("q", SIZE, None);
        count += 1;
        small.turn();
        assert!(count < 1000, "nothing stops the publisher");
    }
    assert!(count > 50, "stopped after {count} already");
    (small, count)
}

fn consumer(small: Small) -> Small {
    let mut consumer = Small::attach(small.broker);
    let (session, now) = (consumer.session, consumer.broker.now());
    consumer.peer.confirm(session);
    let consume = Consume { source: "q".into(), tag: "c".into(), credit: window(1), ..Consume::default() };
    consumer.peer.client.consume(session, consume, now).unwrap();
    consumer
}

#[test]
fn who_consumes_publishes_confirms_and_acks_gets_through_a_full_log() {
    let (small, count) = fill(&["q", "r"]);
    let mut consumer = consumer(small);
    for number in 1..=count {
        let Seen::Delivery(received) = consumer.wait(|seen| matches!(seen, Seen::Delivery(_))) else { continue };
        consumer.publish("r", SIZE, None);
        consumer.wait(|seen| matches!(seen, Seen::Confirmed(_, up_to) if *up_to == number));
        consumer.peer.client.settle(consumer.session, Tags::One(received.tag), &Outcome::Accepted).unwrap();
    }
    consumer.turn();
    assert_eq!(consumer.ready(), [0, count]);
}

#[test]
fn who_consumes_and_publishes_in_transactions_gets_through_a_full_log() {
    let (small, count) = fill(&["q", "r"]);
    let mut consumer = consumer(small);
    for _ in 1..=count {
        let Seen::Delivery(received) = consumer.wait(|seen| matches!(seen, Seen::Delivery(_))) else { continue };
        let transaction = consumer.peer.client.begin(consumer.session);
        consumer.publish("r", SIZE, Some(transaction));
        let (session, tag) = (consumer.session, received.tag);
        consumer.peer.client.settle_in(transaction, session, Tags::One(tag), &Outcome::Accepted).unwrap();
        consumer.peer.client.commit(transaction, consumer.broker.now()).unwrap();
        consumer.wait(|seen| matches!(seen, Seen::Committed(_)));
    }
    assert_eq!(consumer.ready(), [0, count]);
}

#[test]
fn a_full_log_refuses_durable_declarations_and_what_makes_room_opens_it_again() {
    let (small, count) = fill(&["q"]);
    let broker = small.broker;
    let mut other = Small::attach(broker);
    let late = durable("late");
    let refused = other.peer.client.declare_queue(&late, other.broker.now()).unwrap_err();
    assert!(refused.text.starts_with("cannot declare queue 'late': broker is low on disk"), "{}", refused.text);
    other.declare(&QueueSpec { durable: false, ..durable("transient") });
    let (purged, ticket) = other.peer.client.purge_queue("q", other.broker.now()).unwrap();
    assert_eq!(purged, count);
    other.turn();
    assert!(other.peer.client.durable(ticket.into()));
    other.turns(30);
    let declared = other.declare(&late);
    other.broker.flush();
    assert!(other.peer.client.durable(declared.into()));
    for _ in 0..30 {
        other.publish("late", 1000, None);
        other.turn();
        assert_eq!(other.peer.client.flow(), Flow::Run);
    }
}

/// The log is so full that a client that consumes may not publish any more either. A client with a
/// will may be one that makes room. So it comes in, and its will is logged when there is room.
#[test]
fn a_will_waits_in_memory_while_the_log_is_full() {
    for makes_room in [false, true] {
        let (small, _) = fill(&["q", "r"]);
        let mut consumer = consumer(small);
        for _ in 0..200 {
            if consumer.peer.client.parked(consumer.session) {
                break;
            }
            consumer.publish("r", SIZE, None);
            consumer.turn();
        }
        let will = message("amq.topic", "w", b"gone");
        let hour = std::time::Duration::from_secs(3600);
        let (ticket, kept) = consumer.peer.client.leave_will("c", &will, hour).unwrap();
        assert_eq!((ticket, kept), (Ticket::NONE, WillKept::Memory));
        let count = |broker: &TestBroker| broker.broker.will_count("/");
        assert_eq!(count(&consumer.broker), WillCount { wills: 1, waiting: 0, held_up: 0, in_memory: 1 });
        consumer.turns(30);
        assert_eq!(count(&consumer.broker).in_memory, 1, "there is no room yet");
        // One that is taken back leaves nothing in the log.
        consumer.peer.client.leave_will("other", &will, hour).unwrap();
        assert_eq!(consumer.peer.client.withdraw_will("other"), Ticket::NONE);
        if makes_room {
            consumer.peer.client.purge_queue("q", consumer.broker.now()).unwrap();
            consumer.turns(60);
            assert_eq!(count(&consumer.broker), WillCount { wills: 1, waiting: 0, held_up: 0, in_memory: 0 });
        }
        let Small { broker, peer, .. } = consumer;
        drop(peer);
        let broker = TestBroker::open(broker.abandon());
        let expected = u64::from(makes_room);
        assert_eq!(count(&broker), WillCount { wills: expected, waiting: expected, held_up: 0, in_memory: 0 });
    }
}

#[test]
fn a_log_that_pure_publishers_filled_with_expiring_messages_empties_into_the_dead_letter_queue() {
    let mut small = Small::with_dead_letters(&[("x-message-ttl", Value::I64(1_000_000))]);
    let mut count = 0;
    while small.peer.client.flow() == Flow::Run {
        small.publish("q", 1000, None);
        count += 1;
        small.turn();
    }
    small.broker.setup.clock.advance(1_000_000);
    for _ in 0..400 {
        small.turn();
    }
    assert_eq!(small.ready(), [0, count], "{:?}", small.broker.broker.overview().journal);
}

/// Dead letters that waited for room were all that kept the oldest file of a full log. They waited
/// for ever, invisible, and every publish was refused. The crash harness found it as messages that
/// were in neither queue.
#[test]
fn dead_letters_that_alone_keep_the_log_full_are_moved_all_the_same() {
    let mut small = Small::with_dead_letters(&[]);
    let rejected = fill_and_reject(&mut small);
    small.turns(400);
    assert!(!small.peer.client.parked(small.session), "{:?}", small.broker.broker.overview().journal);
    let moved = small.ready()[1];
    assert!(moved >= rejected, "{rejected} were rejected, {moved} arrived");
}

/// Fills the log by way of a consumer of `q`, which then rejects all its deliveries. Returns their
/// number.
fn fill_and_reject(small: &mut Small) -> u64 {
    small.consume("q");
    while !small.peer.client.parked(small.session) {
        small.publish("q", 4000, None);
        small.turn();
    }
    let received = small.seen.iter().filter(|seen| matches!(seen, Seen::Delivery(_))).count();
    assert!(received > 50, "only {received} messages fill the log");
    small.peer.client.settle(small.session, Tags::All, &Outcome::REJECTED).unwrap();
    received as u64
}

/// The same over a crash, with dead letters of `q` to `r`.
fn fill_reject_and_crash(mut small: Small, disk: &SimDisk) {
    let rejected = fill_and_reject(&mut small);
    small.peer.client.flush(small.broker.now());
    assert!(small.broker.try_flush());
    disk.power_cut();
    drop(small.peer);
    let mut small = Small::attach(TestBroker::open(small.broker.abandon()));
    small.turns(400);
    let moved = small.ready()[1];
    assert!(
        moved >= rejected,
        "{rejected} were rejected, {moved} arrived: {:?}",
        small.broker.broker.overview().journal
    );
}

/// A start finds room for the first of them and reads all. Moved all at once they took twice the
/// room that the log may take, and here the last of the disk.
#[test]
fn dead_letters_of_a_full_log_take_no_more_room_than_there_is_after_a_crash() {
    let disk = SimDisk::new(1, 4 << 20);
    let mut small = Small::attach(TestBroker::open(Setup::stepped(&disk, 2 << 20)));
    small.declare(&durable("r"));
    small.declare(&durable_with("q", &dead_letters_to("r")));
    fill_reject_and_crash(small, &disk);
}

/// The start took up dying messages before it had read the policies, and so settled them as
/// dropped.
#[test]
fn deaths_that_were_decided_before_a_crash_go_where_a_policy_says() {
    let disk = SimDisk::new(1, 4 << 20);
    let mut small = Small::attach(TestBroker::open(Setup::stepped(&disk, 2 << 20)));
    for name in ["q", "r"] {
        small.declare(&durable(name));
    }
    let spec = PolicySpec {
        pattern: "^q$".to_owned(),
        apply_to: ApplyTo::All,
        priority: 0,
        definition: table_of("dead-letter-exchange= dead-letter-routing-key=r max-length=100000"),
    };
    small.broker.broker.set_policy("/", PolicyKind::User, "p", spec, &auth::Identity::operator("test")).unwrap();
    fill_reject_and_crash(small, &disk);
}

/// Their group was started and never ended, with a panic: the log could not give back a file any
/// more.
#[test]
fn messages_that_the_log_has_become_too_small_for_stay_and_keep_nothing_else() {
    let disk = SimDisk::new(1, 16 << 20);
    let mut small = Small::attach(TestBroker::open(Setup::stepped(&disk, 2 << 20)));
    for name in ["dead", "late"] {
        small.declare(&durable(name));
    }
    small.declare(&durable_with(
        "old",
        &[&dead_letters_to("dead")[..], &[("x-message-ttl", Value::I64(1000))]].concat(),
    ));
    for (queue, properties) in [("late", "x-opt-delivery-delay=1000"), ("old", "")] {
        for size in [100_000, 1000] {
            let (body, instructed) = (vec![b'x'; size], !properties.is_empty());
            let publish = Publish { properties: properties.as_bytes(), instructed, ..message("", queue, &body) };
            small.peer.publish(small.session, publish).unwrap();
        }
    }
    let mut small = small.with_a_log_of(1 << 20, &disk);
    small.broker.setup.clock.advance(1000);
    small.turns(40);
    assert_eq!(small.ready(), [1, 1, 0], "only what the log can take has moved");
    let told = small.broker.broker.take_damages();
    let told: Vec<_> = ["'late'", "'old'"].map(|name| told.iter().filter(|line| line.contains(name)).count()).into();
    assert_eq!(told, [1, 1]);

    let mut small = small.with_a_log_of(2 << 20, &disk);
    small.turns(40);
    assert_eq!(small.ready(), [2, 2, 0]);

    let small = small.with_a_log_of(1 << 20, &disk);
    let browse = Browse { vhost: "/", queue: "dead", selector: "", limit: u64::MAX };
    let redriven = small.broker.broker.redrive(&browse, RedriveMode::Move, &|| true).unwrap();
    assert_eq!((redriven.moved, redriven.refused), (1, 1));
}
