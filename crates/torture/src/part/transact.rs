//! A transactor: publishes to several queues in one transaction, and may accept what it consumed in
//! the same one.

use std::time::{Duration, Instant};

use super::{Held, Stage, receive, size};
use crate::history::{Event, Outcome};
use crate::random::Random;
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::talk::{Broken, End, Heard, Publish, Settlement, Talk};
use crate::topology::Route;

/// The most publishes in one transaction.
const LONGEST: u64 = 12;
/// The most deliveries that one transaction accepts.
const MOST_ACCEPTED: u64 = 5;

/// One connection whose publishes and settlements are all transacted.
pub(super) struct Transactor<'a> {
    stage: &'a Stage,
    random: &'a mut Random,
    from: Option<usize>,
    routes: &'static [Route],
    number: u32,
    next: u64,
    /// Transactions begun so far.
    begun: u32,
    /// The transaction whose commit was asked for.
    asked: Option<u64>,
    held: Vec<Held>,
}

impl<'a> Transactor<'a> {
    pub(super) fn new(stage: &'a Stage, random: &'a mut Random, from: Option<usize>, routes: &'static [Route]) -> Self {
        let number = stage.number();
        Self { stage, random, from, routes, number, next: 0, begun: 0, asked: None, held: Vec::new() }
    }

    pub(super) fn run(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        let outcome = self.transact_until(talk, end);
        self.stage.tell(&[Event::Left(self.number)]);
        outcome
    }

    fn transact_until(&mut self, talk: &mut dyn Talk, end: Instant) -> Result<(), Broken> {
        if let Some(queue) = self.from {
            talk.subscribe(queue, 2 * MOST_ACCEPTED as u16);
        }
        while Instant::now() < end {
            let mut ended = End::Commit;
            if self.asked.is_none() && (self.from.is_none() || !self.held.is_empty()) {
                ended = self.transact(talk);
            }
            self.exchange(talk)?;
            // Protocols differ in whether deliveries that were accepted in vain stay with the
            // consumer.
            if ended == End::Abort && self.from.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fills a transaction and ends it.
    fn transact(&mut self, talk: &mut dyn Talk) -> End {
        self.begun += 1;
        let transaction = u64::from(self.number) << 32 | u64::from(self.begun);
        let mut events = Vec::new();
        let accepted = self.random.within(1..=MOST_ACCEPTED).min(self.held.len() as u64) as usize;
        for held in &self.held[..accepted] {
            let (outcome, number) = (Outcome::Accepted, Some(transaction));
            talk.settle(&Settlement { handle: &held.handle, outcome, transaction: number, fence: None });
            let (consumer, queue, id) = (self.number, held.queue, held.id);
            events.push(Event::Settle { consumer, queue, id, outcome, transaction: number });
        }
        // At least two, so that it can be torn; behind a source hardly more than is accepted.
        let publishes = if self.from.is_some() { accepted as u64 + 1 } else { self.random.within(2..=LONGEST) };
        for at in 0..publishes {
            let route = self.routes[at as usize % self.routes.len()];
            let id = Id { producer: self.number, seq: self.next };
            let stamp = Stamp { id, transaction: Some(transaction), queues: route.queues, due: 0 };
            let body = stamp.body(self.stage.run, size(self.random, self.stage.largest.min(4096)));
            talk.publish(&Publish { transaction: Some(transaction), ..Publish::persistent(route, &body) });
            events.push(Event::Attempt { stamp, mode: DeliveryMode::Persistent });
            self.next += 1;
        }
        let end = if self.random.chance(10) { End::Abort } else { End::Commit };
        talk.end(transaction, end);
        match end {
            End::Abort => events.push(Event::Aborted(transaction)),
            End::Commit => {
                events.push(Event::CommitAsked(transaction));
                self.held.drain(..accepted);
                self.asked = Some(transaction);
            }
        }
        self.stage.tell(&events);
        end
    }

    fn exchange(&mut self, talk: &mut dyn Talk) -> Result<(), Broken> {
        let mut events = Vec::new();
        let outcome = talk.exchange(Duration::from_millis(5), &mut |heard| match heard {
            Heard::Committed(transaction) => {
                events.push(Event::Committed(transaction));
                if self.asked == Some(transaction) {
                    self.asked = None;
                }
            }
            heard => receive(self.stage.run, self.number, heard, &mut events, &mut self.held),
        });
        self.stage.tell(&events);
        outcome
    }
}
