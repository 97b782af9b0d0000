//! A broker of a hundred lines that keeps every promise, crashes included, and the random history
//! of its clients.

use std::collections::VecDeque;

use crate::fence::Fence;
use crate::history::{Event, Outcome};
use crate::random::Random;
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::topology::{
    BRIEF, DONE, FAN, LATER, LEFT, PARKED, PLAIN, QUEUES, RANKS, RETRIED, RIGHT, Route, SHORT, TOPIC_BOTH, WORK, bit,
    members, source_of, straight,
};

/// The longest that the short queue gets here.
const SHORT_LENGTH: usize = 3;

/// A message in a queue.
#[derive(Debug, Clone, Copy)]
struct Copy {
    stamp: Stamp,
    delivered: bool,
    /// Whether a kill must not lose it.
    kept: bool,
}

/// A delivery, and a settlement that a kill may undo.
#[derive(Debug, Clone, Copy)]
struct Out {
    consumer: u32,
    queue: usize,
    copy: Copy,
}

/// The broker, its clients and what they did.
#[derive(Debug)]
pub(super) struct Model {
    random: Random,
    queues: Vec<VecDeque<Copy>>,
    held: Vec<Out>,
    /// Accepted, and not fenced.
    loose: Vec<Out>,
    connection: u32,
    /// The one consumer of all queues while they are drained.
    drainer: Option<u32>,
    seq: u64,
    fences: u64,
    transactions: u64,
    pub(super) history: Vec<Event>,
}

/// The history of a random load with some kills, drained in the end.
pub(super) fn history(seed: u64) -> Vec<Event> {
    let mut model = Model {
        random: Random::new(seed),
        queues: vec![VecDeque::new(); QUEUES.len()],
        held: Vec::new(),
        loose: Vec::new(),
        connection: 1,
        drainer: None,
        seq: 0,
        fences: 0,
        transactions: 0,
        history: Vec::new(),
    };
    for _ in 0..300 {
        match model.random.below(100) {
            0..35 => model.publish(),
            35..65 => model.deliver(),
            65..88 => model.settle(),
            88..97 => model.transact(),
            97..99 => model.fence(),
            _ => model.kill(),
        }
        match model.random.below(30) {
            0 => model.pass_on(BRIEF),
            1..3 => model.redrive(),
            _ => {}
        }
    }
    model.kill();
    if model.random.chance(50) {
        model.unsettle();
    }
    model.drain();
    model.history
}

impl Model {
    fn stamp(&mut self, queues: u32, transaction: Option<u64>) -> Stamp {
        self.seq += 1;
        Stamp { id: Id { producer: self.connection, seq: self.seq }, transaction, queues, due: 0 }
    }

    fn publish(&mut self) {
        let straights = [PLAIN, WORK, SHORT, LATER, RANKS, BRIEF, RETRIED].map(straight);
        let routes: Vec<Route> = straights.into_iter().chain([FAN, TOPIC_BOTH]).collect();
        let route = *self.random.pick(&routes);
        let stamp = self.stamp(route.queues, None);
        let kept = self.random.chance(80);
        self.history.push(Event::Attempt { stamp, mode: DeliveryMode::Persistent });
        if kept {
            self.history.push(Event::Confirm(stamp.id));
        }
        self.arrive(Copy { stamp, delivered: false, kept });
    }

    /// A queue moves its oldest message on.
    fn pass_on(&mut self, queue: usize) {
        let (Some(dropped), Some(target)) = (self.queues[queue].pop_front(), QUEUES[queue].dead_letter) else { return };
        self.queues[target].push_back(Copy { delivered: false, kept: true, ..dropped });
    }

    /// The oldest dead letter goes back.
    fn redrive(&mut self) {
        if let Some(dead) = self.queues[PARKED].pop_front() {
            self.queues[RETRIED].push_back(Copy { delivered: false, ..dead });
            self.history.push(Event::Redriven(1));
        }
    }

    fn arrive(&mut self, copy: Copy) {
        for queue in members(copy.stamp.queues) {
            self.put(queue, copy);
        }
        while self.queues[SHORT].len() > SHORT_LENGTH {
            self.pass_on(SHORT);
        }
    }

    fn deliver(&mut self) {
        let queue = self.random.below(QUEUES.len() as u64) as usize;
        self.deliver_from(queue);
    }

    fn deliver_from(&mut self, queue: usize) {
        let Some(mut copy) = self.queues[queue].pop_front() else { return };
        // One consumer for each queue, and another one behind each kill.
        let consumer = self.drainer.unwrap_or(self.connection * 100 + queue as u32);
        let content = Ok(copy.stamp);
        self.history.push(Event::Deliver { consumer, queue, redelivered: copy.delivered, content });
        copy.delivered = true;
        self.held.push(Out { consumer, queue, copy });
    }

    fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len() as u64) as usize;
        let out = self.held.remove(at);
        let outcome = match self.random.below(10) {
            0 => Outcome::Released,
            1..5 if QUEUES[out.queue].dead_letter.is_some() => Outcome::Rejected,
            _ => Outcome::Accepted,
        };
        self.settle_as(out, outcome);
    }

    fn settle_as(&mut self, out: Out, outcome: Outcome) {
        let (consumer, queue, id) = (out.consumer, out.queue, out.copy.stamp.id);
        self.history.push(Event::Settle { consumer, queue, id, outcome, transaction: None });
        match outcome {
            Outcome::Accepted => self.loose.push(out),
            Outcome::Released => self.put(queue, out.copy),
            Outcome::Rejected => {
                let target = QUEUES[queue].dead_letter.unwrap();
                self.queues[target].push_back(Copy { delivered: false, kept: true, ..out.copy });
            }
        }
    }

    /// To its place: before everything with a lower priority, and before everything that was
    /// published later.
    fn put(&mut self, number: usize, copy: Copy) {
        let place = |copy: &Copy| (u8::MAX - QUEUES[number].rank(copy.stamp.id.seq), copy.stamp.id);
        let queue = &mut self.queues[number];
        let at = queue.iter().position(|other| place(other) > place(&copy)).unwrap_or(queue.len());
        queue.insert(at, copy);
    }

    fn fence(&mut self) {
        self.fences += 1;
        let Some(consumer) = self.loose.last().map(|out| out.consumer) else { return };
        self.history.push(Event::FenceAsked { consumer, fence: self.fences, kind: Fence::LookAtQueue });
        self.history.push(Event::FenceReplied { consumer, fence: self.fences });
        self.loose.retain(|out| out.consumer != consumer);
    }

    /// Moves what is held from the left queue, or publishes something new. Commits, rolls back, or
    /// dies in between.
    fn transact(&mut self) {
        self.transactions += 1;
        let number = self.transactions;
        let sources: Vec<Out> = self.held.iter().copied().filter(|out| out.queue == LEFT).take(2).collect();
        for out in &sources {
            let (consumer, queue, id) = (out.consumer, out.queue, out.copy.stamp.id);
            let (outcome, transaction) = (Outcome::Accepted, Some(number));
            self.history.push(Event::Settle { consumer, queue, id, outcome, transaction });
        }
        let route = if sources.is_empty() { bit(LEFT) | bit(RIGHT) } else { bit(DONE) };
        let stamps: Vec<Stamp> = (0..self.random.within(2..=3)).map(|_| self.stamp(route, Some(number))).collect();
        self.history
            .extend(stamps.iter().map(|stamp| Event::Attempt { stamp: *stamp, mode: DeliveryMode::Persistent }));
        if self.random.chance(20) {
            self.history.push(Event::Aborted(number));
            return;
        }
        self.history.push(Event::CommitAsked(number));
        let dies = self.random.chance(25);
        if !dies || self.random.chance(50) {
            self.held
                .retain(|out| out.queue != LEFT || sources.iter().all(|one| one.copy.stamp.id != out.copy.stamp.id));
            stamps.iter().for_each(|stamp| self.arrive(Copy { stamp: *stamp, delivered: false, kept: true }));
        }
        if dies { self.kill() } else { self.history.push(Event::Committed(number)) }
    }

    fn kill(&mut self) {
        self.history.push(Event::Killed);
        self.connection += 1;
        self.seq = 0;
        for out in std::mem::take(&mut self.held) {
            self.put(out.queue, out.copy);
        }
        for out in std::mem::take(&mut self.loose) {
            if self.random.chance(50) {
                self.put(out.queue, out.copy);
            }
        }
        let mut gone = Vec::new();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let random = &mut self.random;
            queue.retain(|copy| {
                let stays = copy.kept || random.chance(50);
                gone.extend((!stays && QUEUES[number].sifts).then_some(copy.stamp));
                stays
            });
        }
        // What carries an id is sent again, and is new when it had been lost.
        for stamp in gone {
            self.history.push(Event::Confirm(stamp.id));
            self.put(LATER, Copy { stamp, delivered: false, kept: true });
        }
        self.count();
    }

    /// All queues are counted, each with the one behind it.
    fn count(&mut self) {
        while self.queues[SHORT].len() > SHORT_LENGTH {
            self.pass_on(SHORT);
        }
        for queue in (0..QUEUES.len()).filter(|queue| source_of(*queue).is_none()) {
            let held = |queue: usize| self.queues[queue].len() as u64;
            let moved = QUEUES[queue].dead_letter.map_or(0, held);
            self.history.push(Event::Counted { queue, ready: held(queue), moved });
        }
    }

    /// Consumers take something, accept some of it and give the rest back before they leave.
    fn unsettle(&mut self) {
        for _ in 0..30 {
            self.deliver();
        }
        for out in std::mem::take(&mut self.held) {
            let outcome = if self.random.chance(20) { Outcome::Accepted } else { Outcome::Released };
            self.settle_as(out, outcome);
        }
        self.fence();
        self.history.push(Event::AtRest);
    }

    fn drain(&mut self) {
        let drainer = self.connection * 100 + QUEUES.len() as u32;
        self.drainer = Some(drainer);
        self.history.push(Event::Draining(drainer));
        for queue in 0..QUEUES.len() {
            while !self.queues[queue].is_empty() {
                self.deliver_from(queue);
                let out = self.held.pop().unwrap();
                self.settle_as(out, Outcome::Accepted);
            }
            self.fence();
        }
    }
}
