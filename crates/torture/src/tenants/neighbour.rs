//! The other user: a message of its own at each tick, confirmed, delivered and acknowledged over
//! its own connections, and how long each took.
//!
//! A message's time begins when it was due, not when it could be written: a broker that takes
//! nothing for a second delays all messages of that second.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use amqp091::codec::methods::{BasicAck, BasicConsume, BasicPublish, ConfirmSelect, QueueDeclare};
use amqp091::codec::{BasicProperties, Method, frame};

use super::peer::{CHANNEL, FRAME, Peer, User};

/// A message is due each so often: 200 in a second.
const TICK: Duration = Duration::from_millis(5);
/// The body of a message: its number, and something behind it.
const BODY: usize = 100;
/// How long the last messages may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One message.
#[derive(Debug, Clone, Copy)]
struct Trip {
    due: Instant,
    confirmed: Option<Instant>,
    delivered: Option<Instant>,
}

/// What has come of all of them so far.
#[derive(Debug, Default)]
pub(super) struct Neighbour {
    trips: Mutex<Vec<Trip>>,
    /// Nothing more is published.
    over: AtomicBool,
    /// Nothing more is waited for.
    done: AtomicBool,
}

/// A part of a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Confirm,
    Delivery,
    /// Both.
    Whole,
}

/// How long round trips took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) count: usize,
    pub(super) median: u64,
    pub(super) p99: u64,
    pub(super) most: u64,
}

impl Neighbour {
    /// Plays until it is told to stop.
    ///
    /// # Errors
    /// When a connection breaks, something is refused, or the last messages do not come.
    pub(super) fn play(&self, port: u16, user: User, queue: &str) -> Result<(), String> {
        let mut consumer = Peer::open(port, user)?;
        consumer.ask(CHANNEL, QueueDeclare { queue, durable: true, ..QueueDeclare::default() })?;
        consumer.ask(CHANNEL, BasicConsume { queue, ..BasicConsume::default() })?;
        let mut publisher = Peer::open(port, user)?;
        publisher.ask(CHANNEL, ConfirmSelect::default())?;
        std::thread::scope(|scope| {
            let consuming = scope.spawn(|| self.consume(consumer).inspect_err(|_| self.stop()));
            let published = self.publish(publisher, queue);
            self.done.store(true, Ordering::SeqCst);
            let consumed = consuming.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()));
            published.map_err(|error| format!("the neighbour's publisher: {error}"))?;
            consumed.map_err(|error| format!("the neighbour's consumer: {error}"))
        })
    }

    /// Ends it: what is under way is waited for.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn publish(&self, mut peer: Peer, queue: &str) -> Result<(), String> {
        let mut writer = peer.writer()?;
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || self.write(&mut writer, queue));
            let heard = self.hear(&mut peer);
            self.stop();
            self.done.store(true, Ordering::SeqCst);
            writing.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())).and(heard)
        })
    }

    /// Publishes at each tick.
    fn write(&self, stream: &mut TcpStream, queue: &str) -> Result<(), String> {
        let properties = BasicProperties { delivery_mode: Some(2), ..BasicProperties::default() }.to_bytes();
        let mut due = Instant::now();
        while !self.is_over() {
            due += TICK;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let number = self.begin(due);
            let mut body = number.to_be_bytes().to_vec();
            body.resize(BODY, b'.');
            let mut bytes = Vec::new();
            Method::from(BasicPublish { routing_key: queue, ..BasicPublish::default() }).encode(CHANNEL, &mut bytes);
            frame::encode_header(&mut bytes, CHANNEL, BODY as u64, &properties);
            frame::encode_body(&mut bytes, CHANNEL, FRAME, &body);
            self.write_all(stream, &bytes)?;
        }
        Ok(())
    }

    /// Writes all of this, however long the broker takes nothing: until nothing is waited for.
    fn write_all(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.is_done() {
                        return Err("the broker takes nothing".to_owned());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Takes confirms, also those that come when no more is published.
    fn hear(&self, peer: &mut Peer) -> Result<(), String> {
        let mut known = 0;
        let mut end = None;
        loop {
            peer.turn()?;
            let (now, confirmed) = (Instant::now(), peer.heard.confirmed as usize);
            let mut trips = self.trips();
            trips.iter_mut().take(confirmed).skip(known).for_each(|trip| trip.confirmed = Some(now));
            known = known.max(confirmed);
            if peer.heard.nacked > 0 || !peer.heard.closed.is_empty() {
                return Err(format!("{} were refused; {}", peer.heard.nacked, peer.heard.reason));
            }
            drop(trips);
            match end {
                None if self.is_over() => end = Some(now + PATIENCE),
                Some(_) if self.waiting() == 0 => return Ok(()),
                Some(end) if now > end => return Err(format!("messages did not come within {PATIENCE:?}")),
                _ => {}
            }
        }
    }

    /// Takes deliveries and acknowledges them.
    fn consume(&self, mut peer: Peer) -> Result<(), String> {
        let mut seen = 0;
        while !self.is_done() {
            peer.turn()?;
            let now = Instant::now();
            for number in std::mem::take(&mut peer.heard.numbers) {
                seen += 1;
                peer.send(CHANNEL, BasicAck { delivery_tag: seen, multiple: false });
                if let Some(trip) = self.trips().get_mut(number as usize) {
                    trip.delivered.get_or_insert(now);
                }
            }
            if !peer.heard.closed.is_empty() {
                return Err(peer.heard.reason);
            }
        }
        // The last acknowledgements.
        peer.turn()
    }

    /// How long the messages took that were due from one moment until another. What is under way
    /// has taken as long as until now.
    pub(super) fn times(&self, part: Part, from: Instant, until: Instant) -> Times {
        let now = Instant::now();
        let took = |trip: &Trip| {
            let (confirmed, delivered) = (trip.confirmed.unwrap_or(now), trip.delivered.unwrap_or(now));
            let done = match part {
                Part::Confirm => confirmed,
                Part::Delivery => delivered,
                Part::Whole => confirmed.max(delivered),
            };
            done.saturating_duration_since(trip.due).as_micros() as u64
        };
        Times::of(self.trips().iter().filter(|trip| (from..until).contains(&trip.due)).map(took).collect())
    }

    /// Where it stands, for a report of a neighbour that hangs.
    pub(super) fn waiting(&self) -> usize {
        self.trips().iter().filter(|trip| trip.confirmed.is_none() || trip.delivered.is_none()).count()
    }

    fn begin(&self, due: Instant) -> u64 {
        let mut trips = self.trips();
        trips.push(Trip { due, confirmed: None, delivered: None });
        trips.len() as u64 - 1
    }

    fn trips(&self) -> MutexGuard<'_, Vec<Trip>> {
        self.trips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }
}

impl Times {
    fn of(mut took: Vec<u64>) -> Self {
        took.sort_unstable();
        let at = |percent: usize| {
            let place = (took.len() * percent).div_ceil(100).saturating_sub(1);
            took.get(place).copied().unwrap_or(0)
        };
        Self { count: took.len(), median: at(50), p99: at(99), most: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_their_phase_and_what_is_under_way_counts() {
        assert_eq!(Times::of((1..=1000).rev().collect()), Times { count: 1000, median: 500, p99: 990, most: 1000 });
        assert_eq!(Times::of(Vec::new()), Times::default());
        let begin = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let neighbour = Neighbour::default();
        let at = |second: u64| begin + Duration::from_secs(second);
        for second in [0, 1, 2] {
            neighbour.begin(at(second));
        }
        neighbour.trips()[1].confirmed = Some(at(1) + Duration::from_millis(3));
        neighbour.trips()[1].delivered = Some(at(1) + Duration::from_millis(2));
        neighbour.trips()[2].delivered = Some(at(2));
        let one = neighbour.times(Part::Whole, at(1), at(2));
        assert_eq!(neighbour.times(Part::Delivery, at(1), at(2)).most, 2000);
        assert_eq!((one.count, one.most, neighbour.waiting()), (1, 3000, 2));
        assert!(neighbour.times(Part::Confirm, at(2), at(3)).most >= 8_000_000);
    }
}
