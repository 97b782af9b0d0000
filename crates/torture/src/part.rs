//! The parts of the load: who publishes what where over which protocol, who consumes it and who
//! moves it on.
//!
//! All parts play at the same time, each on a thread and a connection of its own, and tell the
//! history what they do. A part opens a new connection when its broker is alive and it has had
//! enough of the old one, without any goodbye.

mod consume;
mod produce;
mod transact;
mod unsettle;
mod wait_upon;

use std::time::{Duration, Instant};

use crate::history::{Event, Outcome};
use crate::random::Random;
use crate::server::Server;
use crate::stage::{Stage, now_ms};
use crate::stamp::{DeliveryMode, Id, Stamp};
use crate::talk::{self, Broken, Handle, Heard, Protocol, Purpose};
use crate::topology::{
    ASTRAY, BRIEF, BY_HASH, BY_HEADER, DEAD, DONE, EXPIRED, FAN, FAN_A, FAN_B, FAR, FULL, GROUPS, HASHED, HEADED, LAST,
    LATER, LEFT, LIMITED, OVER, PLAIN, QUEUES, RANKS, RETRIED, RETRY, RIGHT, Route, SHORT, SINGLE, SPILL, SPILT,
    THROUGH, TIRED, TOPIC_A, TOPIC_ALL, TOPIC_BOTH, TOPIC_ONE, TRANSIENT, UNBOUND, WORK, straight,
};

pub(crate) use consume::{APART, Books, drain};
pub(crate) use produce::take;
pub(crate) use unsettle::unsettle;
pub(crate) use wait_upon::wait_upon;

/// What a part does.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Produce { routes: &'static [Route], mode: DeliveryMode },
    Consume { queues: &'static [usize] },
    Transact { from: Option<usize>, routes: &'static [Route] },
}

/// One part.
#[derive(Debug)]
pub(crate) struct Part {
    name: &'static str,
    protocol: Protocol,
    kind: Kind,
}

/// How long parts may play that a kill is to end.
pub(crate) const UNENDING: Duration = Duration::from_secs(3600);

/// All parts of the load.
pub(crate) const PARTS: [Part; 15] = [
    produce(
        "amqp producer",
        Protocol::Amqp,
        &[straight(PLAIN), FAN, TOPIC_BOTH, TOPIC_ONE, THROUGH, UNBOUND, BY_HEADER],
    ),
    produce("stomp producer", Protocol::Stomp, &[straight(PLAIN), FAN, TOPIC_BOTH, THROUGH, straight(SINGLE), BY_HASH]),
    produce("amqp work producer", Protocol::Amqp, &WORKS_AND_FULL),
    produce("stomp work producer", Protocol::Stomp, &WORKS),
    produce("amqp later producer", Protocol::Amqp, &[straight(LATER)]),
    produce("stomp later producer", Protocol::Stomp, &[straight(LATER)]),
    Part {
        name: "transient producer",
        protocol: Protocol::Amqp,
        kind: Kind::Produce {
            routes: &[straight(TRANSIENT), straight(PLAIN), TOPIC_ONE, UNBOUND],
            mode: DeliveryMode::Transient,
        },
    },
    transact("stomp transactor", Protocol::Stomp, None, &[straight(LEFT), straight(RIGHT)]),
    transact("amqp transactor", Protocol::Amqp, None, &[straight(LEFT), straight(RIGHT), straight(LEFT)]),
    transact("stomp mover", Protocol::Stomp, Some(LEFT), &[straight(DONE), straight(RIGHT)]),
    transact("amqp mover", Protocol::Amqp, Some(RIGHT), &[straight(DONE), straight(DONE)]),
    consume(
        "amqp consumer",
        Protocol::Amqp,
        &[PLAIN, FAN_A, DEAD, TRANSIENT, LATER, SINGLE, LIMITED, TIRED, HEADED, GROUPS, LAST, RETRY],
    ),
    consume(
        "amqp work consumer",
        Protocol::Amqp,
        &[TOPIC_ALL, WORK, SPILL, SHORT, RANKS, RETRIED, FAR, FULL, HASHED, GROUPS, OVER],
    ),
    consume(
        "stomp consumer",
        Protocol::Stomp,
        &[PLAIN, FAN_B, TOPIC_A, WORK, RANKS, BRIEF, ASTRAY, SINGLE, LIMITED, HEADED, GROUPS, LAST, SPILT],
    ),
    consume(
        "stomp dead consumer",
        Protocol::Stomp,
        &[DEAD, SPILL, DONE, RIGHT, LATER, EXPIRED, RETRIED, FAR, SINGLE, FULL, HASHED, RETRY, OVER],
    ),
];

/// Queues with a dead-letter queue behind them, with priorities, with one consumer at a time for
/// all or for each group, with the last values alone, or whose messages wait when they come back.
const WORKS: [Route; 10] = [
    straight(WORK),
    straight(SHORT),
    straight(RANKS),
    straight(BRIEF),
    straight(RETRIED),
    straight(SINGLE),
    straight(LIMITED),
    straight(GROUPS),
    straight(LAST),
    straight(RETRY),
];
/// The same, and two that refuse, which ends a connection of STOMP.
const WORKS_AND_FULL: [Route; 12] = {
    let mut routes = [straight(FULL); 12];
    let mut at = 0;
    while at < WORKS.len() {
        routes[at] = WORKS[at];
        at += 1;
    }
    routes[at] = straight(OVER);
    routes
};

const fn produce(name: &'static str, protocol: Protocol, routes: &'static [Route]) -> Part {
    Part { name, protocol, kind: Kind::Produce { routes, mode: DeliveryMode::Persistent } }
}

const fn transact(name: &'static str, protocol: Protocol, from: Option<usize>, routes: &'static [Route]) -> Part {
    Part { name, protocol, kind: Kind::Transact { from, routes } }
}

const fn consume(name: &'static str, protocol: Protocol, queues: &'static [usize]) -> Part {
    Part { name, protocol, kind: Kind::Consume { queues } }
}

impl Part {
    /// Whether its messages carry ids.
    pub(crate) fn has_ids(&self) -> bool {
        matches!(self.kind, Kind::Produce { routes, .. } if produce::sifts(routes))
    }

    /// Whether it publishes and takes nothing.
    pub(crate) fn only_publishes(&self) -> bool {
        matches!(self.kind, Kind::Produce { .. } | Kind::Transact { from: None, .. })
    }

    /// Plays the part until the broker dies, or until then.
    pub(crate) fn play(&self, stage: &Stage, random: &mut Random, until: Instant) {
        while !stage.is_dying() && Instant::now() < until {
            // Most connections last until the broker dies; some are dropped before.
            let lasts = if random.chance(25) { random.within(50..=500) } else { UNENDING.as_millis() as u64 };
            let end = Instant::now() + Duration::from_millis(lasts);
            let outcome = self.session(stage, random, end.min(until));
            if let (Err(broken), false) = (outcome, stage.is_dying()) {
                stage.report(self.name, &broken);
                return;
            }
        }
    }

    /// One connection, until `end` or until it breaks.
    fn session(&self, stage: &Stage, random: &mut Random, end: Instant) -> Result<(), Broken> {
        let purpose = match self.kind {
            Kind::Produce { .. } => Purpose::Publish,
            Kind::Consume { .. } => Purpose::Consume,
            Kind::Transact { .. } => Purpose::Transact,
        };
        let mut talk = talk::open(stage.ports, self.protocol, purpose)?;
        match self.kind {
            Kind::Produce { routes, mode } => {
                produce::Producer::new(stage, random, routes, mode).run(talk.as_mut(), end)
            }
            Kind::Consume { queues } => consume::Consumer::new(stage, random, queues).run(talk.as_mut(), end),
            Kind::Transact { from, routes } => {
                transact::Transactor::new(stage, random, from, routes).run(talk.as_mut(), end)
            }
        }
    }
}

/// Publishes to a queue without consumers, and waits until the messages have expired. Consumers
/// that play may take everything before it expires.
pub(crate) fn let_age(stage: &Stage, random: &mut Random) -> Result<(), Broken> {
    const BRIEFLY: Duration = Duration::from_millis(50);
    const PRODUCER: Part = produce("amqp brief producer", Protocol::Amqp, &[straight(BRIEF)]);
    PRODUCER.session(stage, random, Instant::now() + BRIEFLY)?;
    std::thread::sleep(Duration::from_millis(QUEUES[BRIEF].ttl_ms.unwrap_or_default()));
    Ok(())
}

/// Consumes and accepts everything that a broker has, which must stay alive, and judges.
pub(crate) fn drain_alive(stage: &Stage, server: &mut Server) -> Result<(), String> {
    // A judge knows no message from before a drain: what is over by then is not sent again.
    stage.unsure().clear();
    let drained = drain(stage, APART).map_err(|error| error.to_string());
    match (drained, server.ended()) {
        (Ok(_), None) => stage.verdict(),
        (_, Some(status)) => Err(format!("the broker ended by itself while it was drained ({status})")),
        (Err(error), None) => stage.verdict().and(Err(error)),
    }
}

/// A delivery that is not settled yet.
#[derive(Debug)]
pub(crate) struct Held {
    queue: usize,
    id: Id,
    handle: Handle,
}

/// Notes a delivery for the history, and holds it if it is a message of this run.
fn receive(run: u32, consumer: u32, heard: Heard<'_>, events: &mut Vec<Event>, held: &mut Vec<Held>) {
    if let Heard::Delivered { queue, redelivered, body, shown, handle } = heard {
        let content = Stamp::read(run, body);
        events.push(Event::Deliver { consumer, queue, redelivered, content });
        if let Ok(stamp) = content {
            // Where messages die of age they come at any time before.
            let early = if QUEUES[queue].ttl_ms.is_some() { 0 } else { stamp.due.saturating_sub(now_ms()) };
            events.extend((early > 0).then_some(Event::Early { queue, id: stamp.id, early }));
            let changed = shown.difference(queue, &stamp);
            events.extend(changed.map(|what| Event::Changed { queue, id: stamp.id, what }));
            held.push(Held { queue, id: stamp.id, handle });
        }
    }
}

/// How big the next body is: mostly small, sometimes as large as the journal's files allow.
fn size(random: &mut Random, largest: u64) -> usize {
    let size = match random.below(100) {
        0 => random.within(0..=largest),
        1..20 => random.within(0..=4096.min(largest)),
        _ => random.within(0..=300),
    };
    size as usize
}

/// How a consumer settles a delivery from `queue`: mostly it accepts. What is to die of age is not
/// rejected, which would bring it to the same place earlier.
fn outcome(random: &mut Random, queue: usize) -> Outcome {
    // What is sent back is to have died often.
    let rejected = if QUEUES[queue].redriven { 40 } else { 8 };
    // And what comes back too often is to have come back often.
    let released = if QUEUES[queue].delivery_limit.is_some() { 40 } else { 4 };
    match random.below(100) {
        chance if chance < released => Outcome::Released,
        chance if chance >= released + rejected => Outcome::Accepted,
        _ if QUEUES[queue].dead_letter.is_some() && QUEUES[queue].ttl_ms.is_none() => Outcome::Rejected,
        _ => Outcome::Accepted,
    }
}
