//! What an ordinary tenant tries: one function for each attack, and a table of them. Each goes on
//! until its time is over, and tallies what the broker did for it and what it refused, so that an
//! attack that did not start is seen.

mod asked;
mod held;
mod logged;
mod routed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use amqp091::codec::Table;
use amqp091::codec::methods::{QueueBind, QueueDeclare};

use super::house::LOW;
use super::peer::{CHANNEL, Peer};

/// Connections of the attacker where one is not enough to keep all threads of the broker at work.
const CONNECTIONS: usize = 3;
/// A window of publishes may take so long: as long as everybody must wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of them.
pub(super) struct Attack {
    /// The letter and number that [attacks] has are its beginning.
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Settings of the broker besides the memory limit.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// The attacker's tag.
    pub(super) tag: &'static str,
    pub(super) run: fn(&Ground) -> Result<(), String>,
}

const fn attack(name: &'static str, what: &'static str, run: fn(&Ground) -> Result<(), String>) -> Attack {
    Attack { name, what, settings: &[], tag: "", run }
}

/// All of them.
pub(super) const ATTACKS: &[Attack] = &[
    attack("A1", "messages with as many CC keys as are allowed, and more, to 1000 queues", routed::copies),
    attack(
        "A2",
        "pipelined publishes of one byte to a fanout of 2000 queues, purged when memory is short",
        routed::fanout,
    ),
    attack("A2-short", "the same to queues that keep one message each", routed::fanout_short),
    attack("A3", "headers against the arguments of bindings, as many as are allowed, and more", routed::headers),
    attack("A4", "keys of 120 words against 1024 patterns, as many as are allowed, and more", routed::topics),
    attack("A5", "eight queues whose messages die at once into all of them", routed::circle),
    attack("A5-durable", "the same with durable queues and persistent messages", routed::durable_circle),
    attack("A6", "50 000 consumers of a connection, made and ended again and again", held::consumers),
    attack("A7-transactions", "open transactions with bodies of 60 KB", held::transactions),
    attack("A7-small", "open transactions with bodies of 1 byte", held::small_transactions),
    attack("A7-bodies", "bodies of 64 KiB without their last byte, 500 channels on each connection", held::bodies),
    attack("A7-replies", "direct replies of 60 KB that 150 requesters do not read", held::replies),
    attack("A7-leftovers", "one short message stays of each 150 that come together", held::leftovers),
    attack("A7-arguments", "queues with as many arguments as one may have", held::arguments),
    attack("A7-properties", "connections with client properties of 8 KB", held::properties),
    attack("A8", "guesses of other users' reply addresses", asked::addresses),
    Attack {
        settings: &[("HERMOD_JOURNAL_MAX_BYTES", "64MiB"), ("HERMOD_LIMITS_MAX_MESSAGE_SIZE", "1MiB")],
        ..attack("A9", "durable declarations with large arguments into a log of 64 MiB", logged::declarations)
    },
    Attack {
        tag: "management",
        ..attack("A10", "lists and figures of 10 000 queues, asked for 192 times over HTTP and not read", asked::unread)
    },
];

/// Where an attack is made, and how far it is.
pub(super) struct Ground {
    pub(super) amqp: u16,
    pub(super) http: u16,
    length: Duration,
    end: Mutex<Option<Instant>>,
    tally: Mutex<BTreeMap<&'static str, u64>>,
    next: AtomicU64,
}

impl Ground {
    pub(super) fn new(amqp: u16, http: u16, length: Duration) -> Self {
        let (end, tally) = (Mutex::default(), Mutex::default());
        Self { amqp, http, length, end, tally, next: AtomicU64::new(0) }
    }

    /// What it takes is there: the attack lasts from now on.
    fn begin(&self) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + self.length);
    }

    /// When it is over.
    fn end(&self) -> Instant {
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.unwrap_or_else(|| Instant::now() + self.length)
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end()
    }

    fn count(&self, what: &'static str, more: u64) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += more;
    }

    /// A number that no other has.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn peer(&self) -> Result<Peer, String> {
        Peer::open(self.amqp, LOW)
    }

    /// What was done and refused.
    pub(super) fn tally(&self) -> String {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<_> = tally.iter().map(|(what, count)| format!("{count} {what}")).collect();
        parts.join(", ")
    }
}

/// Lets several connections do the same, each with its number, until all have ended.
fn together(count: usize, act: impl Fn(usize) -> Result<(), String> + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || act(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}

/// Whether a queue is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Durable,
    Transient,
}

/// Declares queues of these names with these arguments, binds each by an empty key, and waits until
/// all are there.
fn declare(
    peer: &mut Peer,
    names: &[String],
    durability: Durability,
    exchange: &str,
    arguments: &[u8],
) -> Result<(), String> {
    let durable = durability == Durability::Durable;
    let arguments = Table::new(arguments).map_err(|error| error.to_string())?;
    for queue in names {
        peer.send(CHANNEL, QueueDeclare { queue, durable, nowait: true, arguments, ..QueueDeclare::default() });
        if !exchange.is_empty() {
            peer.send(CHANNEL, QueueBind { queue, exchange, nowait: true, ..QueueBind::default() });
        }
    }
    names.last().map_or(Ok(()), |last| peer.fence(last))
}

/// Names of queues.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("low.q{number}")).collect()
}
