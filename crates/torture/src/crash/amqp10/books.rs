//! What clients of AMQP 1.0 know of each message: where it may be, and what it may come with.
//!
//! A message is in one of some places, or gone. What a client asks for widens the places where its
//! message may be, the broker's answer narrows them, and a delivery says where it is. A delivery
//! from elsewhere is a violation, and so is a message that a drain of all places misses.
//!
//! A client tells what it asks for before its bytes leave, and what it heard after it read it.

use std::collections::BTreeMap;

mod message;
#[cfg(test)]
mod tests;
mod transaction;

use message::{Key, Message};
use transaction::{Operation, Transaction};

/// Where a message can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The queue that is rejected from.
    Work,
    /// Where its dead letters go.
    Dead,
    /// The queues of transactions.
    Left,
    Right,
    /// A durable subscription.
    Own,
    /// A shared durable subscription.
    Shared,
}

/// All places.
pub(super) const PLACES: [Place; 6] = [Place::Work, Place::Dead, Place::Left, Place::Right, Place::Own, Place::Shared];

/// A set of places; a message that is gone has one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Whereabouts(u8);

impl Whereabouts {
    const GONE: Self = Self(1 << 7);

    fn at(place: Place) -> Self {
        Self(1 << place as u8)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Place {
    /// Where a message comes to that is rejected here.
    fn behind(self) -> Whereabouts {
        if self == Self::Work { Whereabouts::at(Self::Dead) } else { Whereabouts::GONE }
    }
}

/// What a message comes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks {
    /// Failed deliveries.
    pub(super) failures: u32,
    /// Whether the broker says that it was never delivered before.
    pub(super) first: bool,
    /// What a consumer noted on it, or 0.
    pub(super) note: u64,
}

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// `accepted`.
    Accepted,
    /// `released`.
    Released,
    /// `rejected`.
    Rejected,
    /// `modified` with `delivery-failed`.
    Failed,
    /// `modified` with `undeliverable-here`.
    Elsewhere,
    /// `modified` with this number as an annotation.
    Noted(u64),
}

/// What an answer to a settlement is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settling {
    key: Key,
    revision: u32,
    fate: Fate,
    place: Place,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) echoed: u64,
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    pub(super) failed: u64,
}

impl Tally {
    /// Each count with its name.
    pub(super) fn each(&self) -> [(&'static str, u64); 7] {
        [
            ("sent", self.sent),
            ("accepted", self.accepted),
            ("delivered", self.delivered),
            ("settled for good", self.echoed),
            ("failed", self.failed),
            ("committed", self.committed),
            ("rolled back", self.rolled_back),
        ]
    }
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Books {
    messages: BTreeMap<Key, Message>,
    transactions: BTreeMap<u64, Transaction>,
    /// Connections to each place that were lost with what they held.
    losses: [u32; PLACES.len()],
    next: u64,
    /// All messages below it are gone.
    finished: u64,
    pub(super) tally: Tally,
}

impl Books {
    /// A message is about to be sent, to one place or to several subscriptions. Returns its number.
    pub(super) fn send(&mut self, places: &[Place], within: Option<u64>) -> u64 {
        self.next += 1;
        self.tally.sent += 1;
        for place in places {
            let key = Key::of(*place, self.next);
            let (here, gone) = (Whereabouts::at(*place), Whereabouts::GONE);
            // The broker may not have seen the last loss yet, and send this to who is gone.
            let losses = self.losses[*place as usize].saturating_sub(1);
            let may = if within.is_some() { gone } else { here.or(gone) };
            self.messages.insert(key, Message::new(*place, may, losses));
            if let Some(transaction) = within.and_then(|id| self.transactions.get_mut(&id)) {
                transaction.operations.push(Operation { key, revision: 0, committed: here, undone: gone });
            }
        }
        self.next
    }

    /// The broker has answered that it has a message.
    pub(super) fn accepted(&mut self, places: &[Place], number: u64) {
        self.tally.accepted += 1;
        for place in places {
            if let Some(message) = self.messages.get_mut(&Key::of(*place, number)) {
                message.promise(*place);
            }
        }
    }

    /// A message has come to a connection.
    pub(super) fn delivered(&mut self, connection: u64, place: Place, number: u64, marks: Marks) -> Result<(), String> {
        self.tally.delivered += 1;
        let (key, here) = (Key::of(place, number), Whereabouts::at(place));
        let found = self.messages.get(&key).map(|message| message.doubt);
        let Some(doubt) = found else {
            let why = if number <= self.finished { "is gone since a drain" } else { "was never sent there" };
            return Err(format!("message {number}, which {why}, has come from {place:?} with {marks:?}"));
        };
        if let Some(id) = doubt {
            self.resolve_by(id, key, here);
        }
        let losses = self.losses[place as usize];
        let Some(message) = self.messages.get_mut(&key) else { return Ok(()) };
        let judged = message.judge(place, marks, losses);
        judged.map_err(|why| format!("message {number} has come from {place:?} with {marks:?}: {why}: {message:?}"))?;
        message.come(place, marks, losses, connection);
        Ok(())
    }

    /// A delivery is about to be settled.
    pub(super) fn settle(&mut self, place: Place, number: u64, fate: Fate) -> Option<Settling> {
        let key = Key::of(place, number);
        let message = self.messages.get_mut(&key)?;
        message.let_go(place, fate);
        Some(Settling { key, revision: message.revision, fate, place })
    }

    /// The broker has answered that a settlement is for good.
    pub(super) fn echoed(&mut self, ticket: Settling) {
        self.tally.echoed += 1;
        self.tally.failed += u64::from(ticket.fate == Fate::Failed);
        let Some(message) = self.messages.get_mut(&ticket.key) else { return };
        message.answered(ticket.place, ticket.fate);
        if message.revision == ticket.revision {
            message.settled(ticket.place, ticket.fate);
        }
    }

    /// A connection is about to be dropped, with what it holds of these places.
    pub(super) fn left(&mut self, connection: u64, places: &[Place]) {
        for place in places {
            self.losses[*place as usize] += 1;
        }
        for message in self.messages.values_mut().filter(|message| message.holder == Some(connection)) {
            message.holder = None;
        }
        let open = |transaction: &Transaction| transaction.connection == connection && !transaction.asked;
        let open: Vec<u64> = self.transactions.iter().filter(|(_, one)| open(one)).map(|(id, _)| *id).collect();
        open.into_iter().for_each(|id| self.resolve(id, Operation::undone));
    }

    /// The broker was killed. All connections have been told as left.
    pub(super) fn killed(&mut self) {
        self.losses.iter_mut().for_each(|losses| *losses += 1);
        self.messages.values_mut().for_each(Message::killed);
    }

    /// All places were drained, and all that came was accepted for good.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let doubts: Vec<u64> = self.transactions.keys().copied().collect();
        for id in doubts {
            self.finish_doubt(id)?;
        }
        let lost = self.messages.iter().filter(|(_, message)| !message.may.has(Whereabouts::GONE));
        let lost: Vec<String> = lost.take(5).map(|(key, message)| format!("{key:?}: {message:?}")).collect();
        if !lost.is_empty() {
            return Err(format!("a drain has missed messages, as {}", lost.join("; ")));
        }
        self.finished = self.next;
        self.messages.clear();
        Ok(())
    }
}
