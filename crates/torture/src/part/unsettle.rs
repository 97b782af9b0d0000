//! Consumers that take something of everything and give most of it back, while no part publishes.
//! What they gave back, and what they held when they left, must be in its place for the drain that
//! follows in the same life of the broker.

use std::time::{Duration, Instant};

use super::consume::Books;
use super::{Held, Stage};
use crate::history::{Event, Outcome};
use crate::random::Random;
use crate::talk::{Broken, Control, Protocol, Purpose, Talk, open};
use crate::topology::{QUEUES, source_of};

/// How long they take and give back, in milliseconds, from and to.
const WHILE: (u64, u64) = (50, 300);
/// How long it may take until all is back.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of 100 deliveries so many are accepted and so many given back at once; the rest is held.
const ACCEPTED: u64 = 10;
const RELEASED: u64 = 50;

/// One consumer and what it has taken away.
struct Taker {
    talk: Box<dyn Talk>,
    books: Books,
    /// What it holds until it leaves.
    kept: Vec<Held>,
}

/// Takes, gives back and leaves; over when everything that was not accepted is ready again.
pub(crate) fn unsettle(stage: &Stage, random: &mut Random) -> Result<(), Broken> {
    let mut control = Control::open(stage.ports.amqp)?;
    let mut expected = held_by_each(&mut control)?;
    let mut takers = Vec::new();
    for protocol in [Protocol::Amqp, Protocol::Stomp, Protocol::Amqp] {
        let mut talk = open(stage.ports, protocol, Purpose::Consume)?;
        let prefetch = *random.pick(&[1, 20, 200]);
        (0..QUEUES.len()).for_each(|queue| talk.subscribe(queue, prefetch));
        takers.push(Taker { talk, books: Books::new(stage.number()), kept: Vec::new() });
    }
    let end = Instant::now() + Duration::from_millis(random.within(WHILE.0..=WHILE.1));
    while Instant::now() < end {
        for taker in &mut takers {
            taker.turn(stage, random, &mut expected)?;
        }
    }
    for mut taker in takers {
        // What it accepted counts with the answer; behind a recover it drops the connection with
        // all that came once more.
        let kind = *random.pick(taker.talk.fences().1);
        taker.books.leave(stage, taker.talk.as_mut(), kind)?;
    }
    wait_for(&mut control, &expected)?;
    stage.tell(&[Event::AtRest]);
    Ok(())
}

impl Taker {
    /// Hears once and settles some of what came. What is accepted is expected no more.
    fn turn(&mut self, stage: &Stage, random: &mut Random, expected: &mut [u64]) -> Result<(), Broken> {
        self.books.exchange(stage, self.talk.as_mut(), Duration::from_millis(2))?;
        let mut events = Vec::new();
        for held in std::mem::take(&mut self.books.held) {
            let chance = random.below(100);
            let outcome = match chance {
                0..ACCEPTED => Outcome::Accepted,
                _ if chance < ACCEPTED + RELEASED => Outcome::Released,
                _ => {
                    self.kept.push(held);
                    continue;
                }
            };
            if outcome == Outcome::Accepted {
                let place = source_of(held.queue).unwrap_or(held.queue);
                expected[place] = expected[place].saturating_sub(1);
            }
            self.books.settle(self.talk.as_mut(), &held, outcome, None, &mut events);
        }
        stage.tell(&events);
        Ok(())
    }
}

/// What each queue and the one behind it hold together, by the number of the first.
fn held_by_each(control: &mut Control) -> Result<Vec<u64>, Broken> {
    let mut held = vec![0; QUEUES.len()];
    for queue in 0..QUEUES.len() {
        held[source_of(queue).unwrap_or(queue)] += control.depth(QUEUES[queue].name)?;
    }
    Ok(held)
}

/// Waits until each queue holds as much as is expected: no consumer holds anything any more.
fn wait_for(control: &mut Control, expected: &[u64]) -> Result<(), Broken> {
    let begin = Instant::now();
    loop {
        let held = held_by_each(control)?;
        let Some(queue) = (0..held.len()).find(|queue| held[*queue] < expected[*queue]) else { return Ok(()) };
        if begin.elapsed() > PATIENCE {
            let (name, held, expected) = (QUEUES[queue].name, held[queue], expected[queue]);
            return Err(Broken::Refused(format!("{name}: {held} of {expected} are ready, and nobody has the others")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
