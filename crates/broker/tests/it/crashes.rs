//! Random operations over a simulated disk that loses power, at rest or in the middle of a flush. A
//! checker of the promises runs along. `BROKER_SEED=n` replays one seed, `n..m` many.

use std::collections::BTreeMap;

use broker::{Clock, Consume, Fetch, Flow, Outcome, Publish, QueueSpec, Settling, Tags, Ticket, Value};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Received, Seen, window};
use testkit::sim_disk::{Fault, Random, SimDisk};

use crate::history::{Copy, History, Unit, priority_of};
use crate::{binding, dead_letters_to, durable, durable_with, message, seeds};

/// `a` and `b` are bound to the fanout exchange, and `r` sends rejected messages to `dead`. Half
/// the seeds give `b` priorities. A third give `a` a delayed retry, and a third give `b`
/// deduplication. Some messages are delayed.
const QUEUES: [&str; 4] = ["a", "b", "r", "dead"];
const STEPS: u64 = 300;

/// The queue with so many priorities is a quorum queue. It has more, which are not used here.
const QUORUM_MAX: u8 = 4;

struct World {
    random: Random,
    disk: SimDisk,
    broker: Option<TestBroker>,
    peers: Vec<Peer>,
    history: History,
    /// Copies by publish number, for each peer's one session.
    numbers: Vec<BTreeMap<u64, Vec<Copy>>>,
    published: Vec<u64>,
    /// Unsettled deliveries by tag, for each peer.
    held: Vec<BTreeMap<u64, Copy>>,
    /// Settlements that wait for a ticket.
    fences: Vec<(usize, Ticket, Vec<Copy>)>,
    commits: BTreeMap<(usize, u64), u64>,
    units: u64,
    consumers: Vec<BTreeMap<String, String>>,
    crashes: u64,
    /// Queue `a` has a delayed retry, and `b` drops duplicates.
    retries: bool,
    sifts: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut setup = Setup::stepped(&disk, 2 << 20);
        setup.journal.file_bytes = 128 << 10;
        if seed % 2 == 1 {
            // Nearly all messages that wait are read back from the disk.
            setup.settings.memory_budget = 4 << 10;
        }
        let mut world = Self {
            random: Random::new(seed),
            disk,
            broker: None,
            peers: Vec::new(),
            history: History::of_queues([Some(("b", 3)), Some(("b", QUORUM_MAX)), None, None][seed as usize % 4]),
            numbers: Vec::new(),
            published: Vec::new(),
            held: Vec::new(),
            fences: Vec::new(),
            commits: BTreeMap::new(),
            units: 0,
            consumers: Vec::new(),
            crashes: 0,
            retries: seed % 3 == 1,
            sifts: seed % 3 == 2,
        };
        world.begin(setup);
        world
    }

    fn broker(&self) -> &TestBroker {
        self.broker.as_ref().unwrap()
    }

    /// Opens the broker, checks its messages, and lets clients in.
    fn begin(&mut self, setup: Setup) {
        self.broker = Some(TestBroker::open(setup));
        self.numbers = vec![BTreeMap::new(); 2];
        self.published = vec![0; 2];
        self.held = vec![BTreeMap::new(); 2];
        self.consumers = vec![BTreeMap::new(); 2];
        self.fences.clear();
        self.commits.clear();
        let mut declarer = Peer::attach(self.broker(), "guest").unwrap();
        let now = self.broker().now();
        for queue in QUEUES {
            declarer.client.declare_queue(&self.spec(queue), now).unwrap();
            if queue.len() == 1 && queue != "r" {
                declarer.client.bind(&binding("amq.fanout", "", queue), now).unwrap();
            }
        }
        self.ripen();
        let found = self.look(&mut declarer);
        self.history.recovered(&found);
        drop(declarer);
        self.peers = (0..2).map(|_| Peer::attach(self.broker(), "guest").unwrap()).collect();
        for peer in &mut self.peers {
            let session = peer.session(1);
            peer.confirm(session);
        }
    }

    fn spec(&self, queue: &'static str) -> QueueSpec {
        let mut spec = if queue == "r" { durable_with(queue, &dead_letters_to("dead")) } else { durable(queue) };
        if let Some((_, max)) = self.history.prioritised.filter(|(name, _)| *name == queue) {
            if max == QUORUM_MAX {
                spec.arguments.set("x-queue-type", Value::Text("quorum".to_owned()));
                spec.arguments.set("x-delivery-limit", Value::I64(-1));
            } else {
                spec.arguments.set("x-max-priority", Value::U8(max));
            }
        }
        if queue == "a" && self.retries {
            spec.arguments.set("x-delayed-retry-type", Value::Text("all".to_owned()));
            spec.arguments.set("x-delayed-retry-min", Value::I64(30));
        }
        if queue == "b" && self.sifts {
            spec.arguments.set("x-message-deduplication", Value::Bool(true));
            spec.arguments.set("x-cache-size", Value::I64(100_000));
        }
        spec
    }

    /// Moves the clock until every delayed message is due.
    fn ripen(&self) {
        for _ in 0..1000 {
            // Messages on their way into a queue are there after a flush.
            self.broker().flush();
            if self.broker().broker.queues().iter().all(|queue| queue.delayed == 0) {
                return;
            }
            self.broker().setup.clock.advance(1000);
            self.broker().flush();
            assert!(self.broker().background(20));
            self.broker().flush();
        }
        panic!("what is delayed never comes: {:?}", self.broker().broker.queues());
    }

    /// No message may come before its time.
    fn check_due(&self, received: &Received) {
        let (now, due) = (self.broker().setup.clock.unix_ms(), self.history.due_of(&received.body));
        assert!(due <= now, "{} came {} ms early", received.body, due - now);
    }

    /// Fetches everything, to give it back afterwards.
    fn look(&self, peer: &mut Peer) -> BTreeMap<String, Vec<Received>> {
        let session = peer.session(1);
        let mut found = BTreeMap::new();
        for queue in QUEUES {
            let mut all = Vec::new();
            loop {
                let mut report = |delivery: &broker::Delivery<'_>, _| all.push(Received::of(delivery));
                match peer.client.get(session, queue, Settling::Manual, self.broker().now(), &mut report).unwrap() {
                    Fetch::Message => {}
                    Fetch::Empty => break,
                    Fetch::Wait(_) => self.broker().flush(),
                }
            }
            all.iter().for_each(|received| self.check_due(received));
            found.insert(queue.to_owned(), all);
        }
        found
    }

    fn step(&mut self) {
        let who = self.random.below(2) as usize;
        match self.random.below(100) {
            0..30 => self.publish(who),
            30..38 => self.consume(who),
            38..40 => self.cancel(who),
            40..48 => self.get(who),
            48..70 => self.settle(who),
            70..78 => self.transaction(who),
            78..80 => self.part(who),
            80..94 => self.pump(),
            94..97 => self.background(),
            97..99 => self.crash_in_a_flush(),
            _ => self.crash(),
        }
        self.make_room();
    }

    fn targets(&mut self, name: &str) -> (&'static str, &'static str, Vec<Copy>) {
        let copies = |queues: &[&str]| queues.iter().map(|queue| ((*queue).to_owned(), name.to_owned())).collect();
        match self.random.below(4) {
            0 => ("amq.fanout", "", copies(&["a", "b"])),
            1 => ("", "r", copies(&["r"])),
            2 => ("", "b", copies(&["b"])),
            _ => ("", "a", copies(&["a"])),
        }
    }

    fn publish(&mut self, who: usize) {
        if self.peers[who].client.flow() == Flow::Pause {
            return;
        }
        for _ in 0..=self.random.below(4) {
            let again = if self.sifts && self.random.chance(10) { self.repeat(who) } else { None };
            let copies = again.unwrap_or_else(|| self.publish_one(who, None));
            self.published[who] += 1;
            self.numbers[who].insert(self.published[who], copies);
        }
        let now = self.broker().now();
        self.peers[who].client.flush(now);
    }

    /// Sends a message to queue `b` again, without an effect.
    fn repeat(&mut self, who: usize) -> Option<Vec<Copy>> {
        // A parked message may still be refused.
        let parked = |peer: &Peer| peer.sessions.get(&1).is_some_and(|session| peer.client.parked(*session));
        if self.peers.iter().any(parked) {
            return None;
        }
        let known = self.history.names_in("b");
        let name = known.get(self.random.below(known.len().max(1) as u64) as usize)?.clone();
        let properties = format!("x-deduplication-header={name}\n");
        let session = self.peers[who].session(1);
        let publish = message("", "b", name.as_bytes());
        let publish = Publish { properties: properties.as_bytes(), instructed: true, ..publish };
        self.peers[who].publish(session, publish).unwrap();
        Some(vec![("b".to_owned(), name)])
    }

    /// The instructions in the headers of a new message.
    fn instructions(&mut self, name: &str) -> String {
        let mut headers = String::new();
        if self.sifts {
            headers += &format!("x-deduplication-header={name}\n");
        }
        if self.random.chance(15) {
            let delay = [1, 60, 20_000, 100_000][self.random.below(4) as usize];
            headers += &format!("x-opt-delivery-delay={delay}\n");
            self.history.delay(name, self.broker().setup.clock.unix_ms() + delay);
        }
        headers
    }

    fn publish_one(&mut self, who: usize, transaction: Option<(broker::TransactionId, u64)>) -> Vec<Copy> {
        let name = self.history.name();
        let (exchange, key, copies) = self.targets(&name);
        let mut body = name.clone();
        for _ in 0..self.random.below(8000) {
            body.push('.');
        }
        let headers = self.instructions(&name);
        let publish = Publish {
            priority: Some(priority_of(&name)),
            properties: headers.as_bytes(),
            instructed: !headers.is_empty(),
            ..message(exchange, key, body.as_bytes())
        };
        let session = self.peers[who].session(1);
        for copy in &copies {
            self.history.sent(copy, transaction.map(|(_, number)| number));
        }
        match transaction {
            Some((id, _)) => self.peers[who].client.publish_in(id, session, publish).unwrap(),
            None => self.peers[who].publish(session, publish).unwrap(),
        }
        copies
    }

    fn consume(&mut self, who: usize) {
        let queue = QUEUES[self.random.below(4) as usize];
        if self.consumers[who].len() >= 3 || self.peers[who].client.parked(self.peers[who].sessions[&1]) {
            return;
        }
        let (now, prefetch) = (self.broker().now(), 1 + self.random.below(5) as u32);
        let session = self.peers[who].session(1);
        let consume = Consume { source: queue.into(), credit: window(prefetch), ..Consume::default() };
        let tag = self.peers[who].client.consume(session, consume, now).unwrap();
        self.consumers[who].insert(tag, queue.to_owned());
        self.hear(who);
    }

    fn cancel(&mut self, who: usize) {
        let Some(tag) = self.consumers[who].keys().next().cloned() else { return };
        let now = self.broker().now();
        let session = self.peers[who].session(1);
        let mut seen = Vec::new();
        self.peers[who].client.cancel(session, &tag, now, &mut |event| seen.push(testkit::peer::seen_of(event)));
        seen.into_iter().for_each(|seen| self.take(who, seen));
        self.consumers[who].remove(&tag);
    }

    fn get(&mut self, who: usize) {
        let queue = QUEUES[self.random.below(4) as usize];
        self.get_from(who, queue);
    }

    fn get_from(&mut self, who: usize, queue: &str) -> bool {
        let now = self.broker().now();
        let session = self.peers[who].session(1);
        let mut got = None;
        let mut report = |delivery: &broker::Delivery<'_>, _| got = Some(Received::of(delivery));
        self.peers[who].client.get(session, queue, Settling::Manual, now, &mut report).unwrap();
        if let Some(received) = &got {
            self.check_due(received);
            self.history.delivered(queue, received);
            self.held[who].insert(received.tag, (queue.to_owned(), received.body.clone()));
        }
        got.is_some()
    }

    fn settle(&mut self, who: usize) {
        let session = self.peers[who].session(1);
        let mut settled = Vec::new();
        for _ in 0..=self.random.below(5) {
            let Some((tag, copy)) = self.held[who].pop_first() else { break };
            let outcome = match self.random.below(8) {
                0 if self.random.chance(30) => Outcome::FAILED,
                0 => Outcome::Released,
                1 | 2 if copy.0 == "r" => Outcome::REJECTED,
                _ => Outcome::Accepted,
            };
            self.peers[who].client.settle(session, Tags::One(tag), &outcome).unwrap();
            settled.push((copy, outcome));
        }
        for (copy, outcome) in &settled {
            match outcome {
                Outcome::Accepted => self.history.settled(copy),
                Outcome::Rejected { .. } => self.history.rejected(copy, "dead"),
                Outcome::Released | Outcome::Modified { .. } => {}
            }
        }
        let now = self.broker().now();
        self.peers[who].client.flush(now);
        let ticket = self.peers[who].client.settled_ticket();
        let copies = settled
            .into_iter()
            .filter(|(_, outcome)| !matches!(outcome, Outcome::Released | Outcome::Modified { .. }))
            .map(|(copy, _)| copy);
        self.fences.push((who, ticket, copies.collect()));
    }

    fn transaction(&mut self, who: usize) {
        let session = self.peers[who].session(1);
        if self.peers[who].client.flow() == Flow::Pause || self.peers[who].client.parked(session) {
            return;
        }
        self.units += 1;
        let (number, transaction) = (self.units, self.peers[who].client.begin(session));
        let mut unit = Unit::default();
        for _ in 0..self.random.below(4) {
            unit.arrivals.extend(self.publish_one(who, Some((transaction, number))));
        }
        for _ in 0..self.random.below(3) {
            let Some((tag, copy)) = self.held[who].pop_first() else { break };
            self.peers[who].client.settle_in(transaction, session, Tags::One(tag), &Outcome::Accepted).unwrap();
            unit.settled.push(copy);
        }
        let arrivals = unit.arrivals.clone();
        if self.random.chance(20) {
            self.peers[who].client.rollback(transaction);
            let now = self.broker().now();
            self.peers[who].client.flush(now);
            arrivals.iter().for_each(|copy| self.history.refused(copy));
            return;
        }
        self.history.commit_sent(number, unit);
        self.commits.insert((who, transaction.0), number);
        let now = self.broker().now();
        self.peers[who].client.commit(transaction, now).unwrap();
    }

    /// A connection goes and another one comes.
    fn part(&mut self, who: usize) {
        self.hear(who);
        let waiting: Vec<u64> = self.commits.iter().filter(|((of, _), _)| *of == who).map(|(_, unit)| *unit).collect();
        if !waiting.is_empty() || self.peers[who].client.parked(self.peers[who].sessions[&1]) {
            return;
        }
        let mut peer = Peer::attach(self.broker(), "guest").unwrap();
        let session = peer.session(1);
        peer.confirm(session);
        self.peers[who] = peer;
        self.numbers[who].clear();
        self.published[who] = 0;
        self.held[who].clear();
        self.consumers[who].clear();
        self.fences.retain(|(of, ..)| *of != who);
    }

    /// Takes the events of a peer.
    fn hear(&mut self, who: usize) {
        let Some(broker) = self.broker.take() else { return };
        let seen = self.peers[who].drain(&broker);
        self.broker = Some(broker);
        seen.into_iter().for_each(|seen| self.take(who, seen));
    }

    fn take(&mut self, who: usize, seen: Seen) {
        match seen {
            Seen::Delivery(received) => {
                let queue = self.consumers[who][&received.consumer].clone();
                self.check_due(&received);
                self.history.delivered(&queue, &received);
                self.held[who].insert(received.tag, (queue, received.body));
            }
            Seen::Confirmed(_, up_to) => {
                let rest = self.numbers[who].split_off(&(up_to + 1));
                for copies in std::mem::replace(&mut self.numbers[who], rest).into_values() {
                    copies.iter().for_each(|copy| self.history.confirmed(copy));
                }
            }
            Seen::Refused(_, number) => {
                let copies = self.numbers[who].remove(&number).unwrap();
                copies.iter().for_each(|copy| self.history.refused(copy));
            }
            Seen::Committed(transaction) => {
                let number = self.commits.remove(&(who, transaction.0)).unwrap();
                self.history.committed(number);
            }
            Seen::RolledBack(transaction, _) => {
                let number = self.commits.remove(&(who, transaction.0)).unwrap();
                self.history.rolled_back(number);
            }
            Seen::Blocked(_) | Seen::Unblocked => {}
            other => panic!("nobody expects {other}"),
        }
    }

    /// Flushes, and takes the events of all peers.
    fn pump(&mut self) {
        assert!(self.broker().try_flush());
        self.broker().housekeep();
        self.hear_all();
    }

    fn hear_all(&mut self) {
        for who in 0..2 {
            self.hear(who);
        }
        let mut open = Vec::new();
        for (who, ticket, copies) in std::mem::take(&mut self.fences) {
            if self.peers[who].client.durable(ticket.into()) {
                copies.iter().for_each(|copy| self.history.fenced(copy));
            } else {
                open.push((who, ticket, copies));
            }
        }
        self.fences = open;
    }

    fn background(&mut self) {
        assert!(self.broker().background(50));
        self.broker().setup.clock.advance(50);
        self.pump();
    }

    /// Empties the queues when the log is full.
    fn make_room(&mut self) {
        let full = (0..2).any(|who| {
            let session = self.peers[who].session(1);
            self.peers[who].client.flow() == Flow::Pause || self.peers[who].client.parked(session)
        });
        let journal = self.broker().broker.overview().journal;
        if !full && journal.used_bytes < journal.max_bytes / 2 {
            return;
        }
        for _ in 0..3 {
            for who in 0..2 {
                for queue in QUEUES {
                    while self.get_from(who, queue) {}
                }
                while !self.held[who].is_empty() {
                    self.settle(who);
                }
            }
            self.background();
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        match self.random.below(3) {
            0 => self.disk.restart(),
            1 => self.disk.power_cut(),
            _ => return self.stop(),
        }
        self.again();
    }

    /// The power fails while the journal writes, flushes, or makes a file.
    fn crash_in_a_flush(&mut self) {
        self.crashes += 1;
        let after = 1 + self.random.below(6);
        self.disk.fault(after, Fault::Crash);
        for _ in 0..10 {
            if !self.broker().try_flush() || !self.broker().background(3) {
                break;
            }
            self.broker().housekeep();
            self.hear_all();
        }
        self.disk.power_cut();
        self.again();
    }

    fn again(&mut self) {
        self.peers.clear();
        let setup = self.broker.take().map(TestBroker::abandon).unwrap();
        self.begin(setup);
    }

    /// A clean stop: everything that was done is kept.
    fn stop(&mut self) {
        self.pump();
        for who in 0..2 {
            self.peers[who].client.close(std::time::Instant::now());
        }
        let setup = self.broker.take().map(TestBroker::stop).unwrap();
        self.peers.clear();
        self.begin(setup);
    }
}

/// Runs the world of a seed; returns how often it crashed.
fn crashes_of(seed: u64) -> u64 {
    let run = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.crashes
    });
    run.unwrap_or_else(|_| panic!("seed {seed} fails; replay it with BROKER_SEED={seed}"))
}

#[test]
fn promises_are_kept_across_crashes() {
    let seeds = seeds(0..2000);
    // Each seed is a run of its own, and the cores share them.
    let lanes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let crashes: u64 = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| {
                let seeds = seeds.clone().skip(lane).step_by(lanes);
                scope.spawn(move || seeds.map(crashes_of).sum::<u64>())
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("a seed failed, as said above")).sum()
    });
    assert!(crashes > 0, "no seed has crashed");
}
