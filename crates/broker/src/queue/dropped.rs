//! Messages that are dropped for good: counted by reason, and the last of them described, so that
//! no loss is silent.
//!
//! The descriptions are a sample, at most one in each millisecond, so that a flood costs little.
//! They are in memory only and end with the process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::message::Message;
use crate::queue::QueueContext;
use crate::queue::{Queue, Reason};

/// How many are kept.
const KEPT: usize = 256;

/// Where a message was lost, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Its vhost.
    pub vhost: String,
    /// `unroutable`, `rejected`, `expired`, `maxlen`, `delivery_limit`; or of a dead letter one of
    /// [`DEAD_LETTERS_DROPPED`].
    pub reason: &'static str,
    /// The queue that it was in; `None` for one that reached none.
    pub queue: Option<String>,
    /// The exchange that it was published to; empty also where only the disk has the message.
    pub exchange: String,
    /// Its routing key, likewise.
    pub routing_key: String,
    /// Bytes of its body; 0 where the length is unknown.
    pub body_bytes: u64,
}

/// Why dead letters are dropped, in the order in which they are counted: what they should go to is
/// not there, it would return them in a circle, routing takes more steps than one message may use,
/// or they have been moved as often as is allowed.
pub const DEAD_LETTERS_DROPPED: [&str; 4] =
    ["dead_letter_unroutable", "dead_letter_circle", "dead_letter_out_of_steps", "dead_letter_out_of_moves"];

/// Why a dead letter goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nowhere {
    /// It has no way any more, or what it says of its own way is not possible.
    NoWay,
    /// Its exchange is not there.
    NoExchange,
    /// No queue takes it from its exchange.
    NoQueue,
    /// Only queues would take it that it has been in.
    Circle,
    /// Routing it takes more steps than one message may use.
    OutOfSteps,
    /// It and its copies have been moved as often as is allowed.
    OutOfMoves,
}

impl Nowhere {
    /// Its place in [`DEAD_LETTERS_DROPPED`].
    pub(crate) fn kind(self) -> usize {
        match self {
            Self::NoWay | Self::NoExchange | Self::NoQueue => 0,
            Self::Circle => 1,
            Self::OutOfSteps => 2,
            Self::OutOfMoves => 3,
        }
    }

    fn name(self) -> &'static str {
        DEAD_LETTERS_DROPPED[self.kind()]
    }
}

/// What was missing for the last dead letter of a queue that found nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTarget {
    /// When that was, in milliseconds since 1970.
    pub at: u64,
    /// The exchange that it went to.
    pub exchange: String,
    /// Its routing key there. `None` where the exchange is what is missing.
    pub routing_key: Option<String>,
}

impl MissingTarget {
    /// What is not there, where `why` says so of a dead letter on this way.
    pub(crate) fn of(why: Nowhere, (exchange, key): (&str, &str), at: u64) -> Option<Self> {
        let routing_key = match why {
            Nowhere::NoExchange => None,
            Nowhere::NoQueue => Some(key.to_owned()),
            _ => return None,
        };
        Some(Self { at, exchange: exchange.to_owned(), routing_key })
    }
}

/// The last losses.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    last: Mutex<VecDeque<Loss>>,
    /// When the last one was noted, in milliseconds since 1970.
    noted_at: AtomicU64,
}

impl Losses {
    /// Notes a loss, unless one was noted in the same millisecond.
    pub(crate) fn note(&self, now: u64, loss: impl FnOnce() -> Loss) {
        if self.noted_at.swap(now, Ordering::Relaxed) == now {
            return;
        }
        let loss = loss();
        let mut last = self.last.lock();
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(loss);
    }

    /// Oldest first.
    pub(crate) fn all(&self) -> Vec<Loss> {
        self.last.lock().iter().cloned().collect()
    }
}

/// The messages that one visit to a queue dropped.
#[derive(Debug)]
pub(crate) struct DroppedEntries {
    /// By reason.
    counts: [u64; 4],
    /// One of them, if memory has it.
    sample: Option<Message>,
    reason: Reason,
    body_bytes: u64,
}

impl DroppedEntries {
    /// Counts one more, and keeps the first.
    pub(crate) fn add(lost: &mut Option<Box<Self>>, reason: Reason, message: Option<&Message>, body_bytes: u64) {
        let fresh = || Box::new(Self { counts: [0; 4], sample: message.cloned(), reason, body_bytes });
        lost.get_or_insert_with(fresh).counts[reason as usize] += 1;
    }
}

impl QueueContext {
    /// Counts and notes the messages that a queue dropped.
    #[cold]
    pub(crate) fn note_lost(&self, queue: &Queue, lost: &DroppedEntries, now: u64) {
        for (total, count) in self.totals.deaths.lost.iter().zip(lost.counts) {
            total.add(count);
        }
        let message = lost.sample.as_ref();
        self.losses.note(now, || Loss {
            at: now,
            vhost: queue.vhost.to_string(),
            reason: lost.reason.name(),
            queue: Some(queue.name.to_string()),
            exchange: message.map(|message| message.exchange().to_owned()).unwrap_or_default(),
            routing_key: message.map(|message| message.routing_key().to_owned()).unwrap_or_default(),
            body_bytes: lost.body_bytes,
        });
    }

    /// Notes a message that reached no queue; a dead letter has the queue that it came from.
    #[cold]
    pub(crate) fn note_unroutable(&self, vhost: &str, dead: Option<(&str, Nowhere)>, message: &Message, now: u64) {
        self.losses.note(now, || Loss {
            at: now,
            vhost: vhost.to_owned(),
            reason: dead.map_or("unroutable", |(_, why)| why.name()),
            queue: dead.map(|(queue, _)| queue.to_owned()),
            exchange: message.exchange().to_owned(),
            routing_key: message.routing_key().to_owned(),
            body_bytes: message.body().len() as u64,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_and_one_of_each_millisecond() {
        let losses = Losses::default();
        for number in 0..2 * (KEPT as u64 + 10) {
            losses.note(1 + number / 2, || Loss {
                at: number,
                vhost: "/".to_owned(),
                reason: "expired",
                queue: None,
                exchange: String::new(),
                routing_key: String::new(),
                body_bytes: 0,
            });
        }
        let kept: Vec<u64> = losses.all().into_iter().map(|loss| loss.at).collect();
        assert_eq!(kept, (10..KEPT as u64 + 10).map(|number| number * 2).collect::<Vec<_>>());
    }
}
