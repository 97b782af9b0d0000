//! The transactions of a client that are open, and its commits that are not durable yet.
//!
//! What an open one keeps of a message is counted as it is in memory: its block, and its place in a
//! list that grows by doubling.

use std::time::Instant;

use hashbrown::HashMap;

use crate::error::Error;
use crate::memory::ledger::Charge;
use crate::message::Message;
use crate::queue::arrival::{Arrival, Confirm, Unroutable};
use crate::queue::mailbox::TransactionId;
use crate::session::SessionId;
use crate::session::settle::{Outcome, Unacked};

/// A delivery that is settled with a transaction, whichever session it was made in.
#[derive(Debug, Clone)]
pub(in crate::session) struct Enlisted {
    pub(super) session: SessionId,
    pub(super) unacked: Unacked,
    pub(super) outcome: Outcome,
    /// Its tag, if its client holds it beyond a rollback.
    pub(super) held: Option<u64>,
}

/// A transaction that is being gathered, or waits behind an alarm.
#[derive(Debug)]
pub(in crate::session) struct Open {
    pub(super) session: SessionId,
    publishes: Vec<(Message, Unroutable)>,
    pub(super) deliveries: Vec<Enlisted>,
    /// The outcome of its deliveries after a rollback.
    pub(super) undone: Outcome,
    /// The memory of its messages.
    pub(super) charge: Charge,
    /// Since when it waits for an alarm to pass, after its commit.
    pub(super) waiting_since: Option<Instant>,
}

impl Open {
    /// The memory that one more message takes.
    pub(super) fn cost_of(&self, message: &Message) -> usize {
        let room = self.publishes.capacity();
        let grown = if self.publishes.len() < room { 0 } else { room.max(LEAST_ROOM) };
        message.block().len() + grown * size_of::<(Message, Unroutable)>()
    }

    /// Adds a message of this cost.
    pub(super) fn add(&mut self, message: Message, unroutable: Unroutable, cost: usize) {
        if self.publishes.len() == self.publishes.capacity() {
            self.publishes.reserve_exact(self.publishes.capacity().max(LEAST_ROOM));
        }
        self.charge.add(cost);
        self.publishes.push((message, unroutable));
    }

    pub(super) fn has_publishes(&self) -> bool {
        !self.publishes.is_empty()
    }

    /// Its messages, on their way into queues.
    pub(super) fn take_arrivals(&mut self) -> Vec<Arrival> {
        let session = self.session.0;
        let arrival = |(message, unroutable): (Message, Unroutable)| {
            let length = message.body().len() as u64;
            Arrival::new(message, length, session, Confirm::None, unroutable)
        };
        std::mem::take(&mut self.publishes).into_iter().map(arrival).collect()
    }
}

/// Messages that a transaction has room for with its first one.
const LEAST_ROOM: usize = 4;

/// The transactions of a client.
#[derive(Debug, Default)]
pub(in crate::session) struct Transactions {
    open: HashMap<u64, Open>,
    /// The number that was given out last.
    last: u64,
    /// Commits that are not durable yet.
    committing: usize,
}

impl Transactions {
    pub(super) fn begin(&mut self, session: SessionId, charge: Charge, undone: Outcome) -> TransactionId {
        self.last += 1;
        let open = Open { session, publishes: Vec::new(), deliveries: Vec::new(), undone, charge, waiting_since: None };
        self.open.insert(self.last, open);
        TransactionId(self.last)
    }

    /// The transaction, which a client must not use once it has ended.
    pub(super) fn require(&mut self, transaction: TransactionId) -> Result<&mut Open, Error> {
        self.open
            .get_mut(&transaction.0)
            .ok_or_else(|| Error::precondition(format!("transaction {} is not open", transaction.0)))
    }

    pub(super) fn remove(&mut self, transaction: TransactionId) -> Option<Open> {
        self.open.remove(&transaction.0)
    }

    /// Takes out all of a session.
    pub(super) fn remove_of(&mut self, session: SessionId) -> impl Iterator<Item = Open> {
        self.open.extract_if(move |_, open| open.session == session).map(|(_, open)| open)
    }

    /// The memory of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.open.values().map(|open| open.charge.bytes()).sum()
    }

    /// Those that wait for an alarm to pass: since when, and the memory of each.
    pub(super) fn waiting(&self) -> Vec<(TransactionId, Instant, usize)> {
        let waiting = self.open.iter();
        let waiting = waiting
            .filter_map(|(number, open)| Some((TransactionId(*number), open.waiting_since?, open.charge.bytes())));
        waiting.collect()
    }

    /// True while a commit of this session waits for an alarm to pass.
    pub(in crate::session) fn waits(&self, session: SessionId) -> bool {
        self.open.values().any(|open| open.session == session && open.waiting_since.is_some())
    }

    /// Since when the first of them waits for an alarm to pass.
    pub(in crate::session) fn waiting_since(&self) -> Option<Instant> {
        self.open.values().filter_map(|open| open.waiting_since).min()
    }

    /// The client waits for the result of a commit. True if it waits for no earlier one.
    pub(super) fn start_commit(&mut self) -> bool {
        self.committing += 1;
        self.committing == 1
    }

    /// The client has the result of a commit.
    pub(in crate::session) fn end_commit(&mut self) {
        self.committing = self.committing.saturating_sub(1);
    }

    /// True while the client waits for the result of a commit.
    #[inline]
    pub(in crate::session) fn is_committing(&self) -> bool {
        self.committing > 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::Memory;
    use crate::memory::ledger::{Account, Held};
    use crate::message::{Arena, Head};
    use crate::settings::Settings;

    /// Lists of messages of one byte took twice what was counted.
    #[test]
    fn the_memory_of_small_messages_and_of_their_list_is_counted() {
        let memory = Arc::new(Memory::new(1 << 30, 1 << 30, Arc::default()));
        let account = Arc::new(Account::new(&memory, &Settings::default(), "user"));
        let (mut transactions, mut arena) = (Transactions::default(), Arena::default());
        let id = transactions.begin(SessionId(1), Charge::new(&account, Held::Transactions), Outcome::Released);
        let open = transactions.require(id).expect("it is open");
        let (mut blocks, place) = (0, size_of::<(Message, Unroutable)>());
        for _ in 0..1000 {
            let message = arena.add(&Head::EMPTY, b"x");
            blocks += message.block().len();
            let cost = open.cost_of(&message);
            open.add(message, Unroutable::Drop, cost);
            assert_eq!(open.charge.bytes(), blocks + open.publishes.capacity() * place);
        }
        assert_eq!(open.take_arrivals().len(), 1000);
        assert!(!open.has_publishes());
    }
}
