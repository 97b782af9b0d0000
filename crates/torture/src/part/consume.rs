//! A consumer: settles its deliveries late and out of order, gives some back, rejects some, and
//! fences now and then.
//!
//! The same consumer, with no such moods, drains the queues in the end.

use std::time::{Duration, Instant};

use super::{Held, Stage, outcome, receive};
use crate::fence::Fence;
use crate::history::{Event, Outcome};
use crate::random::Random;
use crate::talk::{Broken, Control, Heard, Protocol, Purpose, Settlement, Talk, open};
use crate::topology::QUEUES;

/// How long a drain may hear nothing new before it is stuck.
const STUCK: Duration = Duration::from_secs(20);
/// The queues of a broker that moves messages about are empty when they are so twice, this far
/// apart: longer than what came back waits in a queue that has it wait.
pub(crate) const APART: Duration = Duration::from_millis(400);
/// How long the answer to the last question of a consumer may take.
const LAST_ANSWER: Duration = Duration::from_secs(60);
/// Unsettled deliveries of each queue while draining.
const DRAIN_PREFETCH: u16 = 200;

/// One connection that consumes.
pub(super) struct Consumer<'a> {
    stage: &'a Stage,
    random: &'a mut Random,
    queues: &'static [usize],
    books: Books,
}

/// What a consumer has not settled, and what it has asked.
pub(crate) struct Books {
    consumer: u32,
    pub(crate) held: Vec<Held>,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

impl Books {
    pub(crate) fn new(consumer: u32) -> Self {
        Self { consumer, held: Vec::new(), asked: 0, answered: 0 }
    }

    /// The consumer's number.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    /// Settles one delivery, with a fence if asked for.
    pub(crate) fn settle(
        &mut self,
        talk: &mut dyn Talk,
        held: &Held,
        outcome: Outcome,
        kind: Option<Fence>,
        events: &mut Vec<Event>,
    ) {
        let fence = kind.map(|kind| {
            self.asked += 1;
            (self.asked, kind)
        });
        talk.settle(&Settlement { handle: &held.handle, outcome, transaction: None, fence });
        let (consumer, queue, id) = (self.consumer, held.queue, held.id);
        events.push(Event::Settle { consumer, queue, id, outcome, transaction: None });
        events.extend(fence.map(|(fence, kind)| Event::FenceAsked { consumer, fence, kind }));
    }

    /// Writes and hears once, and tells the history. True: something was heard.
    pub(crate) fn exchange(&mut self, stage: &Stage, talk: &mut dyn Talk, wait: Duration) -> Result<bool, Broken> {
        let mut events = Vec::new();
        let outcome = talk.exchange(wait, &mut |heard| match heard {
            Heard::Fenced(fence) => {
                self.answered = self.answered.max(fence);
                events.push(Event::FenceReplied { consumer: self.consumer, fence });
            }
            heard => receive(stage.run, self.consumer, heard, &mut events, &mut self.held),
        });
        stage.tell(&events);
        outcome.map(|()| !events.is_empty())
    }

    /// Leaves with a last fence. What is delivered from here on goes back to its queue by itself.
    pub(crate) fn leave(&mut self, stage: &Stage, talk: &mut dyn Talk, kind: Fence) -> Result<(), Broken> {
        self.asked += 1;
        let (consumer, last) = (self.consumer, self.asked);
        stage.tell(&[Event::Left(consumer), Event::FenceAsked { consumer, fence: last, kind }]);
        talk.leave(last, kind);
        let since = Instant::now();
        while self.answered < last {
            let mut events = Vec::new();
            let outcome = talk.exchange(Duration::from_millis(5), &mut |heard| {
                if let Heard::Fenced(fence) = heard {
                    self.answered = self.answered.max(fence);
                    events.push(Event::FenceReplied { consumer, fence });
                }
            });
            stage.tell(&events);
            if self.answered < last {
                // The connection may be gone behind the last answer.
                outcome?;
            }
            if since.elapsed() > LAST_ANSWER {
                return Err(Broken::Refused(format!("{kind:?} was not answered within {LAST_ANSWER:?}")));
            }
        }
        Ok(())
    }
}

impl<'a> Consumer<'a> {
    pub(super) fn new(stage: &'a Stage, random: &'a mut Random, queues: &'static [usize]) -> Self {
        let books = Books::new(stage.number());
        Self { stage, random, queues, books }
    }

    pub(super) fn run(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        let prefetch = *self.random.pick(&[1, 20, 200]);
        // How many of 100 held deliveries are settled in one go: an eager consumer, or one that
        // dawdles.
        let eagerness = *self.random.pick(&[100, 60, 10]);
        for queue in self.queues {
            talk.subscribe(*queue, prefetch);
        }
        while Instant::now() < end {
            self.settle_some(talk, eagerness);
            self.books.exchange(self.stage, talk, Duration::from_millis(5))?;
        }
        if self.random.chance(50) {
            let kind = *self.random.pick(talk.fences().1);
            return self.books.leave(self.stage, talk, kind);
        }
        self.stage.tell(&[Event::Left(self.books.consumer)]);
        Ok(())
    }

    fn settle_some(&mut self, talk: &mut dyn Talk, eagerness: u64) {
        let mut events = Vec::new();
        let mut kept = Vec::new();
        for held in std::mem::take(&mut self.books.held) {
            if self.random.chance(eagerness) {
                let outcome = outcome(self.random, held.queue);
                let kind = self.random.chance(3).then(|| *self.random.pick(talk.fences().0));
                self.books.settle(talk, &held, outcome, kind, &mut events);
            } else {
                kept.push(held);
            }
        }
        self.books.held = kept;
        self.stage.tell(&events);
    }
}

/// Consumes and accepts everything, until all queues are empty twice, `apart` from each other, and
/// all settlements are fenced. Returns how much was delivered.
pub(crate) fn drain(stage: &Stage, apart: Duration) -> Result<u64, Broken> {
    let mut control = Control::open(stage.ports.amqp)?;
    let mut talk = open(stage.ports, Protocol::Amqp, Purpose::Consume)?;
    let mut books = Books::new(stage.number());
    stage.tell(&[Event::Draining(books.consumer)]);
    for queue in 0..QUEUES.len() {
        talk.subscribe(queue, DRAIN_PREFETCH);
    }
    let kinds = talk.fences().0;
    let mut delivered = 0;
    let mut last = Instant::now();
    let mut empty_since = None;
    while last.elapsed() < STUCK {
        if books.exchange(stage, talk.as_mut(), Duration::from_millis(20))? {
            last = Instant::now();
        }
        let mut events = Vec::new();
        let held = std::mem::take(&mut books.held);
        delivered += held.len() as u64;
        for (at, one) in held.iter().enumerate() {
            let kind = (at + 1 == held.len()).then(|| kinds[books.asked as usize % kinds.len()]);
            books.settle(talk.as_mut(), one, Outcome::Accepted, kind, &mut events);
        }
        stage.tell(&events);
        if !stage.is_all_due() {
            last = Instant::now();
        }
        let open = books.answered < books.asked || !stage.is_all_due();
        if !held.is_empty() || open || control.depth_of_all()? > 0 {
            empty_since = None;
        } else if empty_since.get_or_insert_with(Instant::now).elapsed() >= apart {
            stage.tell(&[Event::Left(books.consumer)]);
            return Ok(delivered);
        }
    }
    let left = control.depth_of_all()?;
    let open = books.asked - books.answered;
    Err(Broken::Refused(format!(
        "the drain is stuck: nothing came for {STUCK:?}, but {left} messages are ready and {open} fences unanswered"
    )))
}
