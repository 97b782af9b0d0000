//! Clients that a fault leads by the hand: one publishes as told, one takes as many messages as
//! told. Both tell the history what they do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::history::{Event, Outcome};
use crate::part::{Books, take};
use crate::stage::Stage;
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::talk::{self, Broken, Heard, Protocol, Publish, Purpose, Talk};
use crate::topology::Route;

/// How long one look at the socket lasts.
const LOOK: Duration = Duration::from_millis(5);

/// A connection that publishes persistent messages with confirms.
pub(super) struct Publisher<'a> {
    stage: &'a Stage,
    talk: Box<dyn Talk>,
    producer: u32,
    next: u64,
    /// The numbers of the publishes that are not confirmed.
    waiting: VecDeque<u64>,
    /// Whether the broker says that it reads no publishes.
    pub(super) blocked: bool,
}

impl<'a> Publisher<'a> {
    pub(super) fn open(stage: &'a Stage, protocol: Protocol) -> Result<Self, Broken> {
        let talk = talk::open(stage.ports, protocol, Purpose::Publish)?;
        let producer = stage.number();
        Ok(Self { stage, talk, producer, next: 0, waiting: VecDeque::new(), blocked: false })
    }

    /// How many messages it has published.
    pub(super) fn published(&self) -> u64 {
        self.next
    }

    /// The names of what it has published from the `first` one on, counted from 0.
    pub(super) fn ids_from(&self, first: u64) -> impl Iterator<Item = Id> {
        let producer = self.producer;
        (first..self.next).map(move |seq| Id { producer, seq })
    }

    /// How many publishes wait for a confirm.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Publishes one message; it is written by the next exchange.
    pub(super) fn publish(&mut self, route: Route, size: usize) {
        let id = Id { producer: self.producer, seq: self.next };
        let stamp = Stamp { id, transaction: None, queues: route.queues, due: 0 };
        let body = stamp.body(self.stage.run, size);
        self.talk.publish(&Publish::persistent(route, &body));
        self.stage.tell(&[Event::Attempt { stamp, mode: DeliveryMode::Persistent }]);
        self.next += 1;
        self.waiting.push_back(self.next);
    }

    /// Writes and hears once. Returns what was confirmed; what was refused is no longer waited for.
    pub(super) fn exchange(&mut self) -> Result<Vec<Id>, Broken> {
        let mut confirmed = Vec::new();
        let (waiting, blocked) = (&mut self.waiting, &mut self.blocked);
        let outcome = self.talk.exchange(LOOK, &mut |heard| match heard {
            Heard::Confirmed(numbers) => take(waiting, numbers, &mut confirmed),
            Heard::Refused(numbers) => take(waiting, numbers, &mut Vec::new()),
            Heard::Blocked => *blocked = true,
            Heard::Unblocked => *blocked = false,
            _ => {}
        });
        let producer = self.producer;
        let confirmed: Vec<Id> = confirmed.into_iter().map(|number| Id { producer, seq: number - 1 }).collect();
        self.stage.tell(&confirmed.iter().map(|id| Event::Confirm(*id)).collect::<Vec<_>>());
        outcome.map(|()| confirmed)
    }

    /// Publishes `count` messages, `window` at a time, and waits for all confirms.
    pub(super) fn publish_all(&mut self, route: Route, count: u64, size: usize, window: usize) -> Result<(), Broken> {
        let mut left = count;
        let mut last = Instant::now();
        while left > 0 || self.waiting() > 0 {
            while left > 0 && self.waiting() < window {
                self.publish(route, size);
                left -= 1;
            }
            if !self.exchange()?.is_empty() {
                last = Instant::now();
            }
            patience(last, "confirms")?;
        }
        Ok(())
    }
}

/// A connection that consumes from one queue.
pub(super) struct Taker<'a> {
    stage: &'a Stage,
    talk: Box<dyn Talk>,
    books: Books,
}

impl<'a> Taker<'a> {
    pub(super) fn open(stage: &'a Stage, protocol: Protocol, queue: usize) -> Result<Self, Broken> {
        Self::with_prefetch(stage, protocol, queue, 100)
    }

    pub(super) fn with_prefetch(
        stage: &'a Stage,
        protocol: Protocol,
        queue: usize,
        prefetch: u16,
    ) -> Result<Self, Broken> {
        let mut talk = talk::open(stage.ports, protocol, Purpose::Consume)?;
        talk.subscribe(queue, prefetch);
        Ok(Self { stage, talk, books: Books::new(stage.number()) })
    }

    /// How many messages it has and has not settled.
    pub(super) fn held(&self) -> usize {
        self.books.held.len()
    }

    /// Accepts at most `most` of the messages that it has, writes, and hears once. Returns whether
    /// anything was heard.
    pub(super) fn turn(&mut self, most: usize) -> Result<bool, Broken> {
        let now = most.min(self.held());
        let settled: Vec<_> = self.books.held.drain(..now).collect();
        let mut events = Vec::new();
        // Each protocol has kinds of its own: one that this conversation cannot ask for would never
        // be answered.
        let fence = self.talk.fences().0.first().copied();
        for (at, one) in settled.iter().enumerate() {
            self.books.settle(self.talk.as_mut(), one, Outcome::Accepted, fence.filter(|_| at + 1 == now), &mut events);
        }
        self.stage.tell(&events);
        self.books.exchange(self.stage, self.talk.as_mut(), LOOK)
    }

    /// Accepts `count` messages and waits until that is on disk.
    pub(super) fn accept(&mut self, count: u64) -> Result<(), Broken> {
        let mut left = count as usize;
        let mut last = Instant::now();
        while left > 0 || self.books.answered < self.books.asked {
            let now = left.min(self.held());
            left -= now;
            if self.turn(now)? {
                last = Instant::now();
            }
            patience(last, "deliveries and the answers to fences")?;
        }
        Ok(())
    }
}

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.stage.tell(&[Event::Left(self.books.consumer())]);
    }
}

/// Fails if nothing has come for too long.
fn patience(last: Instant, what: &str) -> Result<(), Broken> {
    const PATIENCE: Duration = Duration::from_secs(20);
    match last.elapsed() {
        elapsed if elapsed > PATIENCE => Err(Broken::Refused(format!("no {what} for {PATIENCE:?}"))),
        _ => Ok(()),
    }
}
