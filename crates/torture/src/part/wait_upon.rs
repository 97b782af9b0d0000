//! Consumers that wait for whatever comes and accept it at once, while others publish: everything
//! that is confirmed must come to them in time. Nothing is killed meanwhile, so what does not come
//! is stalled.

use std::time::{Duration, Instant};

use super::Stage;
use super::consume::Books;
use crate::history::{Event, Outcome};
use crate::talk::{Broken, Protocol, Purpose, Talk, open};
use crate::topology::QUEUES;

/// How long what is confirmed and due may take to come.
const BOUND: Duration = Duration::from_secs(20);
/// Unsettled deliveries of each queue.
const PREFETCH: u16 = 200;
/// How often it is asked whether everything has come.
const GLANCE: Duration = Duration::from_millis(20);

/// One consumer of all queues.
struct Waiter {
    talk: Box<dyn Talk>,
    books: Books,
}

/// Waits upon all queues over both protocols until nothing is published any more and all has come,
/// or the time for it is over.
pub(crate) fn wait_upon(stage: &Stage, until: Instant) -> Result<(), Broken> {
    let mut waiters = Vec::new();
    for protocol in [Protocol::Amqp, Protocol::Stomp] {
        let mut talk = open(stage.ports, protocol, Purpose::Consume)?;
        (0..QUEUES.len()).for_each(|queue| talk.subscribe(queue, PREFETCH));
        waiters.push(Waiter { talk, books: Books::new(stage.number()) });
    }
    let mut due = until;
    let mut looked = Instant::now();
    loop {
        for waiter in &mut waiters {
            waiter.accept(stage)?;
        }
        let now = Instant::now();
        if now < until || !stage.is_all_due() {
            due = due.max(now);
        } else if looked.elapsed() >= GLANCE {
            looked = now;
            if stage.checker().outstanding() == 0 {
                break;
            }
        }
        if now > due + BOUND {
            stage.tell(&[Event::Overdue]);
            break;
        }
    }
    for waiter in &mut waiters {
        let kind = waiter.talk.fences().1[0];
        waiter.books.leave(stage, waiter.talk.as_mut(), kind)?;
    }
    Ok(())
}

impl Waiter {
    /// Hears once and accepts what came.
    fn accept(&mut self, stage: &Stage) -> Result<(), Broken> {
        self.books.exchange(stage, self.talk.as_mut(), Duration::from_millis(2))?;
        let mut events = Vec::new();
        for held in std::mem::take(&mut self.books.held) {
            self.books.settle(self.talk.as_mut(), &held, Outcome::Accepted, None, &mut events);
        }
        stage.tell(&events);
        Ok(())
    }
}
